// SPDX-License-Identifier: Apache-2.0
// What ran, newest first, while it happens. The filters are in the address.
import { useEffect, useState, type ReactElement } from 'react';
import { useEvents } from '../../api/events';
import { useLoad } from '../../api/query';
import type { List } from '../../api/types';
import { go, href } from '../../app/router';
import { ActionButton, Button, Chip, Empty, Field, Loading, Name, Page, Problem, Ring, Time, durationText } from '../../ui/basic';
import { toastError } from '../../ui/overlay';
import { Table } from '../../ui/table';
import { Who } from '../files/who';
import { listExecutions, outcomes, outcomeText, outcomeTone, type Row } from './model';

const PAGE = 50;
const filters = ['outcome', 'language', 'from', 'to', 'principal', 'session', 'workspace', 'conversation', 'q'] as const;
type Filters = Partial<Record<typeof filters[number], string>>;

export const State = ({ row }: { row: { status?: string | null; outcome: string | null } }): ReactElement =>
  (row.outcome ? <Chip tone={outcomeTone(row.outcome)}>{outcomeText[row.outcome] ?? row.outcome}</Chip>
    : row.status === 'pending_approval' ? <Chip tone="warn">waits for approval</Chip>
      : <Chip tone="accent"><Ring state="busy" />{row.status ?? 'running'}</Chip>);

const tookMs = (r: Row): number | null => r.wall_ms ?? (r.started_at && r.finished_at ? Math.max(0, Date.parse(r.finished_at) - Date.parse(r.started_at)) : null);

// Local days of the form as times of the API.
const dayStart = (day: string | undefined): string | undefined => (day ? new Date(`${day}T00:00:00`).toISOString() : undefined);
const dayEnd = (day: string | undefined): string | undefined => (day ? new Date(`${day}T23:59:59.999`).toISOString() : undefined);

export function ExecutionList({ query }: { query: URLSearchParams }): ReactElement {
  const chosen: Filters = Object.fromEntries(filters.flatMap((f) => (query.get(f) ? [[f, query.get(f)!]] : [])));
  const key = JSON.stringify(chosen);
  const asked = { ...chosen, from: dayStart(chosen.from), to: dayEnd(chosen.to) };
  const { data, error, loading, reload } = useLoad<List<Row>>(`executions ${key}`, (signal) => listExecutions({ ...asked, limit: PAGE }, signal), { refreshOn: ['execution', 'reset'] });
  const [older, setOlder] = useState<{ key: string; rows: Row[]; more: boolean }>({ key, rows: [], more: true });
  const [live, setLive] = useState<Record<string, { wall_ms: number }>>({});
  useEffect(() => setOlder({ key, rows: [], more: true }), [key]);
  useEvents(['progress'], ({ data: p }) => setLive((old) => ({ ...old, [String(p.execution)]: { wall_ms: Number(p.elapsed_ms) || 0 } })));
  const set = (name: keyof Filters, value: string) => go(href('executions', { ...chosen, [name]: value || null }), { replace: true });
  const first = data?.data ?? [];
  const rows = [...first, ...older.rows.filter((o) => !first.some((f) => f.id === o.id))];
  const more = older.rows.length ? older.more : data?.has_more;
  const filtered = Object.keys(chosen).length > 0;
  const text = (name: 'q' | 'principal' | 'session' | 'workspace', label: string) => <Field label={label}>{(p) => <input {...p} key={chosen[name] ?? ''} className="input" defaultValue={chosen[name] ?? ''} onBlur={(e) => { if (e.target.value.trim() !== (chosen[name] ?? '')) set(name, e.target.value.trim()); }} onKeyDown={(e) => { if (e.key === 'Enter') set(name, e.currentTarget.value.trim()); }} />}</Field>;
  return (
    <Page title="Executions" lead="Everything that ran, with the evidence of what it did. New ones appear by themselves.">
      <search className="executions-filters" aria-label="Filters">
        <Field label="Outcome">{(p) => <select {...p} className="input" value={chosen.outcome ?? ''} onChange={(e) => set('outcome', e.target.value)}><option value="">any</option>{outcomes.map((o) => <option key={o} value={o}>{outcomeText[o]}</option>)}</select>}</Field>
        <Field label="Language">{(p) => <select {...p} className="input" value={chosen.language ?? ''} onChange={(e) => set('language', e.target.value)}><option value="">any</option><option value="python">Python</option><option value="shell">Shell</option></select>}</Field>
        <Field label="From">{(p) => <input {...p} type="date" className="input" value={chosen.from ?? ''} onChange={(e) => set('from', e.target.value)} />}</Field>
        <Field label="To">{(p) => <input {...p} type="date" className="input" value={chosen.to ?? ''} onChange={(e) => set('to', e.target.value)} />}</Field>
        {text('q', 'Words in the code')}
        {text('principal', 'Who (key)')}
        {text('session', 'Session')}
        {text('workspace', 'Workspace')}
        {chosen.conversation && <span className="small">In conversation <strong><Name>{chosen.conversation}</Name></strong></span>}
        {filtered && <Button kind="plain" icon="close" onClick={() => go(href('executions'), { replace: true })}>Clear the filters</Button>}
      </search>
      {error ? <Problem error={error} retry={reload} /> : !data && loading ? <Loading /> : <>
        <Table label="Executions" rows={rows} rowKey={(r) => r.id} empty={filtered ? <Empty title="Nothing fits" action={<Button onClick={() => go(href('executions'))}>Clear the filters</Button>}>No execution has all of these properties.</Empty>
          : <Empty title="Nothing has run yet" action={<a className="button primary" href={href('notebook')}>Open a notebook</a>}>Run a cell, or send code through the API or an agent. It appears here at once.</Empty>} columns={[
          { id: 'state', label: 'Outcome', cell: (r) => <State row={r} /> },
          { id: 'code', label: 'Code', cell: (r) => <a href={href('executions', r.id)} className="executions-code">{r.code_preview ? <code>{r.code_preview.trim().split('\n').find((l) => l.trim()) || '(empty)'}</code> : <span className="mono">{r.id.slice(0, 17)}…</span>}</a> },
          { id: 'language', label: 'Language', cell: (r) => (r.language === 'shell' ? 'Shell' : r.language ? 'Python' : '–') },
          { id: 'who', label: 'Who', cell: (r) => <Who id={r.key ?? r.principal ?? '–'} name={r.key_name ?? r.principal_name} /> },
          { id: 'session', label: 'Session', cell: (r) => <a href={href('executions', { session: r.session })} title={r.session}>{r.session_name ? <Name>{r.session_name}</Name> : <span className="mono small">{r.session.slice(0, 13)}…</span>}</a> },
          ...(rows.some((r) => r.conversation) ? [{ id: 'conversation', label: 'Conversation', cell: (r: Row) => (r.conversation ? <a href={href('conversations', r.conversation, { message: r.message })}><Name>{r.conversation}</Name></a> : <span className="muted">–</span>) }] : []),
          ...(rows.some((r) => typeof r.files === 'number') ? [{ id: 'files', label: 'Files', num: true, cell: (r: Row) => r.files ?? <span className="muted">–</span> }] : []),
          { id: 'time', label: 'Took', num: true, cell: (r) => { const ms = tookMs(r) ?? (r.outcome ? null : live[r.id]?.wall_ms); return ms === null || ms === undefined ? <span className="muted">–</span> : durationText(ms); } },
          { id: 'at', label: 'At', cell: (r) => <Time at={r.created_at} /> },
        ]} />
        {more && <ActionButton onError={toastError} action={async () => {
          const next = await listExecutions({ ...asked, limit: PAGE, after: rows.at(-1)!.id });
          setOlder((old) => (old.key === key ? { key, rows: [...old.rows, ...next.data], more: next.has_more } : old));
        }}>Older ones</ActionButton>}
      </>}
    </Page>
  );
}
