// SPDX-License-Identifier: Apache-2.0
// Search over names, text and conversations, while typing. The words are in
// the address: #/search?q=…&workspace=…&type=…
import { Fragment, useEffect, useRef, useState, type KeyboardEvent, type ReactElement } from 'react';
import { api, ApiError } from '../../api/client';
import { useLoad } from '../../api/query';
import type { List, Workspace } from '../../api/types';
import { go, href, useRoute } from '../../app/router';
import { ActionButton, Chip, Empty, Field, Loading, Name, Notice, Page, Problem, Time, visible } from '../../ui/basic';
import { toastError } from '../../ui/overlay';
import { listConversations, type Conversation } from '../conversations/model';
import { allOf, baseName, folderOf, titleOf } from '../files/model';

interface Hit { workspace: string; path: string; file_id: string; version: string; mime_type: string; line: number | null; page: number | null; snippet: string | null; in_name: boolean; score: number; modified_at: string; cursor: string }
interface Status { ready: boolean; pending: number; failed: number; names_only: number; behind_ms: number }

const PAGE = 30;
const types = [['', 'any'], ['csv', 'CSV'], ['xlsx', 'Excel'], ['pdf', 'PDF'], ['md', 'Markdown'], ['py', 'Python'], ['ipynb', 'Notebooks'], ['txt', 'Text'], ['json', 'JSON'], ['html', 'HTML'], ['png', 'PNG']] as const;

// The service puts hits between U+2068 and U+2069.
export function Snippet({ text }: { text: string }): ReactElement {
  const pieces = text.split(/\u2068([^\u2069]*)\u2069/);
  return <>{pieces.map((piece, i) => (i % 2 ? <mark key={i}>{visible(piece)}</mark> : <Fragment key={i}>{visible(piece).replace(/\u2423a/g, ' ')}</Fragment>))}</>;
}

// Words of the query inside a name.
export function Marked({ text, q }: { text: string; q: string }): ReactElement {
  const words = q.replace(/["*]/g, ' ').split(/\s+/).filter((w) => w.length > 0).map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  const shown = visible(text);
  if (!words.length) return <bdi>{shown}</bdi>;
  const pieces = shown.split(new RegExp(`(${words.join('|')})`, 'giu'));
  return <bdi>{pieces.map((piece, i) => (i % 2 ? <mark key={i}>{piece}</mark> : <Fragment key={i}>{piece}</Fragment>))}</bdi>;
}

// What is typed: the last word counts as the beginning of one, unless it is quoted.
export const asQuery = (text: string): string => {
  const trimmed = text.trim();
  return /[\p{L}\p{N}]$/u.test(text) && !trimmed.endsWith('"') && (trimmed.match(/"/g)?.length ?? 0) % 2 === 0 ? `${trimmed}*` : trimmed;
};

export default function Search(): ReactElement {
  const { query } = useRoute();
  const q = query.get('q') ?? '';
  const workspace = query.get('workspace') ?? '';
  const type = query.get('type') ?? '';
  const [words, setWords] = useState(q);
  const input = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLOListElement>(null);
  const set = (change: { q?: string; workspace?: string; type?: string }) => go(href('search', { q, workspace, type, ...change }), { replace: true });
  useEffect(() => {
    const timer = setTimeout(() => { if (words.trim() !== q) set({ q: words.trim() }); }, 180);
    return () => clearTimeout(timer);
  }, [words]);
  useEffect(() => input.current?.focus(), []);
  const key = `${q}\n${workspace}\n${type}`;
  const ask = (after?: string, signal?: AbortSignal) => api.get<List<Hit>>('/api/search', { q: asQuery(q), workspace, type, limit: PAGE, after }, { signal });
  const hits = useLoad<List<Hit>>(q ? `search ${key}` : null, (signal) => ask(undefined, signal));
  const talks = useLoad<List<Conversation>>(q && !type ? `search talks ${q}` : null, (signal) => listConversations({ q, limit: 5 }, signal).catch((error: unknown) => {
    if (error instanceof ApiError && (error.status === 404 || error.status === 400)) return { data: [], has_more: false };
    throw error;
  }));
  const status = useLoad<Status>(`search status ${workspace} ${q}`, (signal) => api.get('/api/search/status', { workspace }, { signal }));
  const spaces = useLoad('search workspaces', (signal) => allOf<Workspace>('/api/workspaces', {}, (w) => w.id, { max: 2000, signal }));
  const [older, setOlder] = useState<{ key: string; rows: Hit[]; more: boolean }>({ key, rows: [], more: true });
  useEffect(() => setOlder({ key, rows: [], more: true }), [key]);
  // While an answer is on its way the last one stays, so that nothing flickers.
  const last = useRef<List<Hit> | null>(null);
  if (hits.data) last.current = hits.data;
  if (!q) last.current = null;
  const shown = hits.data ?? (hits.loading ? last.current : null);
  const rows = shown ? [...shown.data, ...(older.key === key ? older.rows : [])] : [];
  const more = older.key === key && older.rows.length ? older.more : shown?.has_more;
  const nameOf = (id: string): string => {
    const found = spaces.data?.rows.find((w) => w.id === id);
    return found ? titleOf(found) : id;
  };
  const links = () => [...list.current?.querySelectorAll<HTMLElement>('a.search-hit') ?? []];
  const onKey = (e: KeyboardEvent) => {
    if (e.key !== 'ArrowDown' && e.key !== 'ArrowUp') return;
    const all = links();
    const at = all.indexOf(document.activeElement as HTMLElement);
    if (e.key === 'ArrowUp' && at <= 0) input.current?.focus();
    else all[Math.max(0, at + (e.key === 'ArrowDown' ? 1 : -1))]?.focus();
    e.preventDefault();
  };
  const bad = hits.error instanceof ApiError && hits.error.status === 400 ? hits.error.message : null;
  return (
    <Page title="Search">
      <search className="search-form" onKeyDown={onKey}>
        <Field label="Words" hint={<>Names, text, PDF and office files, conversations. <code>"a phrase"</code> and <code>begin*</code> work.</>} problem={bad}>{(p) => <input {...p} ref={input} type="search" className="input search-input" dir="auto" maxLength={300} value={words} autoComplete="off" spellCheck={false} onChange={(e) => setWords(e.target.value)} />}</Field>
        <div className="search-narrow">
          <Field label="In">{(p) => <select {...p} className="input" value={workspace} onChange={(e) => set({ workspace: e.target.value })}><option value="">all workspaces</option>{spaces.data?.rows.filter((w) => w.name || w.id === workspace).map((w) => <option key={w.id} value={w.id}>{titleOf(w)}</option>)}</select>}</Field>
          <Field label="Kind">{(p) => <select {...p} className="input" value={type} onChange={(e) => set({ type: e.target.value })}>{types.map(([id, label]) => <option key={id} value={id}>{label}</option>)}</select>}</Field>
        </div>
      </search>
      {status.data && status.data.pending > 0 && <Notice><p>{status.data.pending.toLocaleString()} {status.data.pending === 1 ? 'file is' : 'files are'} not in the index yet.</p></Notice>}
      {!q ? <Empty title="Type to search">Results appear while you type. A result opens the file at the line that fits.</Empty>
        : hits.error && !bad ? <Problem error={hits.error} retry={hits.reload} />
          : <div className="stack" onKeyDown={onKey} aria-busy={hits.loading}>
            <p className="visually-hidden" role="status">{hits.loading ? 'Searching' : `${rows.length}${more ? ' or more' : ''} results`}</p>
            {talks.data && talks.data.data.length > 0 && <section aria-labelledby="search-talks"><h2 id="search-talks">Conversations</h2>
              <ul className="search-list">{talks.data.data.map((c) => <li key={c.id}><a className="search-hit" href={href('conversations', c.id)}><strong><Marked text={c.title || c.id} q={q} /></strong><span className="small muted">{c.messages} messages, {c.executions} executions, {c.files} files, <Time at={c.last_at} form="ago" /></span>{c.snippet && <span className="search-snippet"><Snippet text={c.snippet} /></span>}</a></li>)}</ul></section>}
            {!shown && hits.loading ? <Loading what="Searching" /> : rows.length > 0 ? <section aria-labelledby="search-files"><h2 id="search-files">Files</h2>
              <ol ref={list} className="search-list">{rows.map((hit) => (
                <li key={`${hit.cursor} ${hit.version} ${hit.line}`}>
                  <a className="search-hit" href={href('files', hit.workspace, hit.path, { line: hit.line, page: hit.page })}>
                    <span className="row spread"><strong><Marked text={baseName(hit.path)} q={q} /></strong><span className="row">{hit.page ? <Chip>{/sheet|excel/.test(hit.mime_type) ? 'sheet' : 'page'} {hit.page}</Chip> : hit.line ? <Chip>line {hit.line}</Chip> : null}{hit.in_name && <Chip tone="accent">name</Chip>}</span></span>
                    <span className="small muted"><Name>{nameOf(hit.workspace)}</Name>{folderOf(hit.path) && <> / <Marked text={folderOf(hit.path)} q={q} /></>} · <Time at={hit.modified_at} form="ago" /></span>
                    {hit.snippet && <span className="search-snippet" dir="auto"><Snippet text={hit.snippet} /></span>}
                  </a>
                </li>
              ))}</ol>
              {more && <ActionButton onError={toastError} action={async () => {
                const next = await ask(rows.at(-1)!.cursor);
                setOlder((old) => ({ key, rows: [...(old.key === key ? old.rows : []), ...next.data], more: next.has_more }));
              }}>More results</ActionButton>}
            </section> : !hits.loading && !bad && !talks.data?.data.length && <Empty title="Nothing found">Try fewer or other words, or another workspace.</Empty>}
          </div>}
    </Page>
  );
}
