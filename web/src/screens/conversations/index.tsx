// SPDX-License-Identifier: Apache-2.0
// Conversations: which there were, and what each of them made, message by
// message. #/conversations, #/conversations/ID?message=…
import { useEffect, useMemo, useState, type ReactElement } from 'react';
import { api, ApiError, path } from '../../api/client';
import { useLoad } from '../../api/query';
import type { List } from '../../api/types';
import { useMay } from '../../app/me';
import { go, href, useRoute } from '../../app/router';
import { ActionButton, Button, Chip, Empty, Field, Loading, Name, Notice, Page, Problem, Size, Time } from '../../ui/basic';
import { toastError } from '../../ui/overlay';
import { Table } from '../../ui/table';
import { State } from '../executions/list';
import { listExecutions, type Row } from '../executions/model';
import { allOf, type Version } from '../files/model';
import { changeTone } from '../files/history';
import { listConversations, type Conversation, type Found } from './model';
import { copyText } from '../files/shares';

export default function Conversations(): ReactElement {
  const { parts, query } = useRoute();
  return parts[0] ? <ConversationPage key={parts[0]} id={parts[0]} message={query.get('message')} /> : <ConversationList />;
}

function ConversationList(): ReactElement {
  const { query } = useRoute();
  const q = query.get('q') ?? '';
  const [words, setWords] = useState(q);
  const { data, error, reload } = useLoad<Found>(`conversations ${q}`, (signal) => listConversations({ q: q || undefined, limit: 100 }, signal), { refreshOn: ['execution', 'workspace', 'reset'], accept: (e) => e.type === 'reset' || e.data.status === 'completed' || String(e.data.action ?? '').startsWith('file.') });
  const [older, setOlder] = useState<{ q: string; rows: Conversation[]; more: boolean }>({ q, rows: [], more: true });
  useEffect(() => {
    const timer = setTimeout(() => { if (words !== q) go(href('conversations', { q: words }), { replace: true }); }, 250);
    return () => clearTimeout(timer);
  }, [words]);
  useEffect(() => setOlder({ q, rows: [], more: true }), [q]);
  const first = data?.data ?? [];
  const rows = [...first, ...older.rows.filter((o) => !first.some((f) => f.id === o.id))];
  const more = older.rows.length ? older.more : data?.has_more;
  return (
    <Page title="Conversations" lead="What conversations ran and made: those of the chat, and those whose ids an agent sent along.">
      <Field label="Find a conversation">{(p) => <input {...p} type="search" className="input" value={words} onChange={(e) => setWords(e.target.value)} />}</Field>
      {error ? <Problem error={error} retry={reload} /> : !data ? <Loading /> : <>
        <Table label="Conversations" rows={rows} rowKey={(c) => c.id} empty={q ? <Empty title="Nothing fits">No conversation has these words.</Empty>
          : <Empty title="No conversations yet">Send <code>{'"metadata": {"conversation": "…", "message": "…"}'}</code> with an execution, as agents do. Everything it makes is then listed under that conversation.</Empty>} columns={[
          { id: 'id', label: 'Conversation', cell: (c) => <><a href={href('conversations', c.id)}><Name>{c.title || c.id}</Name></a>{c.title && <span className="small muted mono"> {c.id.slice(0, 13)}…</span>}</>, sort: (c) => c.title || c.id },
          { id: 'messages', label: 'Messages', num: true, cell: (c) => c.messages.toLocaleString(), sort: (c) => c.messages },
          { id: 'executions', label: 'Executions', num: true, cell: (c) => c.executions.toLocaleString(), sort: (c) => c.executions },
          { id: 'files', label: 'Files', num: true, cell: (c) => c.files.toLocaleString(), sort: (c) => c.files },
          { id: 'first', label: 'Began', cell: (c) => <Time at={c.first_at} />, sort: (c) => c.first_at },
          { id: 'last', label: 'Last', cell: (c) => <Time at={c.last_at} form="ago" />, sort: (c) => c.last_at },
        ]} />
        {data.partial && <p className="small muted">From the newest changes. An older conversation opens by its address.</p>}
        {more && <ActionButton onError={toastError} action={async () => {
          const next = await listConversations({ q: q || undefined, limit: 100, after: rows.at(-1)!.id });
          setOlder((old) => (old.q === q ? { q, rows: [...old.rows, ...next.data], more: next.has_more } : old));
        }}>Older ones</ActionButton>}
      </>}
    </Page>
  );
}

interface Step { execution: string | null; row: Row | null; versions: Version[]; at: string }
interface Message { id: string | null; steps: Step[]; at: string }

// Messages in order of time, each with its executions, each with its files.
export function threads(executions: Row[], versions: Version[]): Message[] {
  const messages = new Map<string, Message>();
  const steps = new Map<string, Step>();
  const place = (message: string | null | undefined, execution: string | null, at: string): Step => {
    const key = message ?? '';
    if (!messages.has(key)) messages.set(key, { id: message ?? null, steps: [], at });
    const group = messages.get(key)!;
    const stepKey = `${key}\n${execution ?? ''}`;
    if (!steps.has(stepKey)) {
      const step: Step = { execution, row: null, versions: [], at };
      steps.set(stepKey, step);
      group.steps.push(step);
    }
    if (at < group.at) group.at = at;
    return steps.get(stepKey)!;
  };
  for (const row of executions) place(row.message, row.id, row.created_at).row = row;
  for (const v of versions) place(v.message, v.execution, v.at).versions.push(v);
  const out = [...messages.values()].sort((a, b) => (a.at < b.at ? -1 : 1));
  for (const m of out) m.steps.sort((a, b) => (a.at < b.at ? -1 : 1));
  return out;
}

function ConversationPage({ id, message }: { id: string; message: string | null }): ReactElement {
  const mayRun = useMay('execute');
  const { data, error, reload } = useLoad(`conversation ${id}`, async (signal) => {
    const versions = await allOf<Version>(path`/api/conversations/${id}/files`, {}, (v) => v.version, { max: 5000, signal });
    const rows: Row[] = [];
    if (mayRun) {
      let after: string | undefined;
      do {
        const list = await listExecutions({ conversation: id, limit: 100, after }, signal).catch((problem: unknown): List<Row> => {
          // A service without this filter: then the files alone tell.
          if (problem instanceof ApiError && problem.status === 400) return { data: [], has_more: false };
          throw problem;
        });
        if (list.data.some((r) => r.conversation !== id)) break;
        rows.push(...list.data);
        after = list.has_more ? list.data.at(-1)?.id : undefined;
      } while (after && rows.length < 5000);
    }
    return { messages: threads(rows, versions.rows), complete: versions.complete };
  }, { refreshOn: ['execution', 'workspace', 'reset'], accept: (e) => e.type === 'reset' || e.data.status === 'completed' || String(e.data.action ?? '').startsWith('file.') });
  const kept = useLoad<Conversation>(id.startsWith('conv_') ? `title ${id}` : null, (signal) => api.get(path`/api/conversations/${id}`, {}, { signal }));
  const title = kept.data?.title || id;
  const messages = useMemo(() => data?.messages ?? [], [data]);
  useEffect(() => {
    if (message && messages.length) document.querySelector('.conversations-message.chosen')?.scrollIntoView({ block: 'start' });
  }, [message, messages.length > 0]);
  const crumbs = <a href={href('conversations')}>Conversations</a>;
  if (error) return <Page title={<Name>{id}</Name>} crumbs={crumbs}><Problem error={error} retry={reload} /></Page>;
  if (!data) return <Loading />;
  return (
    <Page title={<Name>{title}</Name>} crumbs={crumbs} lead={`${messages.length} ${messages.length === 1 ? 'message' : 'messages'} that ran or made something.`} actions={<>{kept.data && mayRun && <a className="button" href={href('chat', id)}>Open in the chat</a>}<Button icon="link" onClick={() => { copyText(new URL(href('conversations', id), location.href).href).catch(toastError); }}>Copy link</Button></>}>
      {!data.complete && <Notice><p>Only the first 5,000 files are shown.</p></Notice>}
      {!messages.length && <Empty title="Nothing was made here" action={<a className="button" href={href('conversations')}>All conversations</a>}>No execution or file has this conversation, or you may not see them.</Empty>}
      <ol className="conversations-list">{messages.map((m) => (
        <li key={m.id ?? ''} className={`conversations-message panel ${m.id !== null && m.id === message ? 'chosen' : ''}`} aria-current={m.id !== null && m.id === message ? 'location' : undefined}>
          <div className="row spread"><h2>{m.id === null ? 'Without a message' : <a href={href('conversations', id, { message: m.id })} title="Permanent link to this message"><Name>{m.id}</Name></a>}</h2><Time at={m.at} /></div>
          <ol className="conversations-steps">{m.steps.map((s) => (
            <li key={s.execution ?? 'none'}>
              <div className="row spread">
                <span className="row">{s.execution ? <a href={href('executions', s.execution)}>{s.row?.language === 'shell' || s.versions[0]?.language === 'shell' ? 'Shell' : 'Python'} run</a> : <span>Uploaded</span>}{s.row && <State row={s.row} />}</span>
                <Time at={s.at} form="time" />
              </div>
              {s.row?.code_preview && <pre className="code conversations-code">{s.row.code_preview.split('\n').slice(0, 4).join('\n')}</pre>}
              {s.versions.length > 0 ? <ul className="conversations-files">{s.versions.map((v) => (
                <li key={v.version}><Chip tone={changeTone[v.change] ?? 'plain'}>{v.change}</Chip>{v.change === 'deleted' ? <Name>{v.path}</Name> : <a href={href('files', v.workspace, v.path, { version: v.version })}><Name>{v.path}</Name></a>}<span className="small muted">version {v.version_number}{v.change !== 'deleted' && <>, <Size bytes={v.size} /></>}</span></li>
              ))}</ul> : <p className="small muted conversations-none">No files.</p>}
            </li>
          ))}</ol>
        </li>
      ))}</ol>
    </Page>
  );
}
