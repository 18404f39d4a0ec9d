// SPDX-License-Identifier: Apache-2.0
// The audit trail: filter it, follow it, verify it, sign it, take it along.
import { useEffect, useMemo, useRef, useState, type ReactElement } from 'react';
import { api, messageOf, saveBlob } from '../../api/client';
import { useEvents } from '../../api/events';
import { useLoad } from '../../api/query';
import type { List } from '../../api/types';
import { useMay, useMe } from '../../app/me';
import { go, href, useRoute } from '../../app/router';
import { ActionButton, Button, Chip, Empty, Field, Loading, Notice, Page, Problem, Tabs, Time } from '../../ui/basic';
import { allPages, Check, Facts, Section, shortId, ShortText, toUtc, useSettled, Who, type Key } from '../../ui/govern';
import { Dialog, toast, toastError } from '../../ui/overlay';
import { Table } from '../../ui/table';
import { Code } from '../../ui/text';

interface AuditEvent {
  seq: number; at: string; tenant: string; actor: string; actor_name: string | null; action: string; workspace: string | null; object: string | null; path: string | null;
  before: string | null; after: string | null; result: string; detail: string | null; request: string | null; source: string | null; token: string | null; hash: string; chain_seq: number; chain_hash: string;
}
interface Report { ok: boolean; events: number; first_bad: number | null; fault: string | null; lost: number; head: string | null; tenant: string | null }
interface Checkpoint { tenant: string; seq: number; hash: string; at: string; key: string; signature: string }
interface SigningKeys { id: string; public_key: string; since: string; earlier: { id: string; public_key: string; since: string }[] }

// Beginnings of actions, in words.
const kinds: [string, string][] = [
  ['execution.', 'executions'], ['session.', 'sessions'], ['file.', 'files'], ['version.', 'versions'], ['workspace.', 'workspaces'], ['member.', 'members'], ['upload.', 'uploads'], ['lock.', 'locks'], ['share.', 'links'],
  ['approval.', 'approvals'], ['policy.', 'policy and its decisions'], ['network.', 'networks'], ['package.', 'packages'], ['secret.', 'secrets'], ['key.', 'keys'], ['token.', 'tokens'], ['pool.', 'pools'], ['quota.', 'quotas'],
  ['request.refused', 'refused requests'], ['storage.', 'storage and backups'], ['audit.', 'the trail itself'], ['setting.', 'settings'],
];

interface Filter { span: string; from: string; to: string; action: string; actor: string; object: string; workspace: string; tenant: string }
const fresh: Filter = { span: '24', from: '', to: '', action: '', actor: '', object: '', workspace: '', tenant: '' };
const MOST = 5000;

const queryOf = (f: Filter) => ({
  from: f.span === 'own' ? toUtc(f.from) : new Date(Date.now() - Number(f.span) * 3_600_000).toISOString(),
  to: f.span === 'own' ? toUtc(f.to) : undefined,
  action: f.action.trim(), actor: f.actor.trim(), object: f.object.trim(), workspace: f.workspace.trim(), tenant: f.tenant.trim(),
});

const screens: [RegExp, string][] = [[/^exec_/, 'executions'], [/^apr_/, 'approvals'], [/^ws_/, 'files'], [/^(sess|cntr)_/, 'notebook']];
function Linked({ id }: { id: string | null }): ReactElement {
  if (!id) return <span className="muted">–</span>;
  const to = screens.find(([form]) => form.test(id))?.[1];
  return to ? <a href={href(to, id)} title={id}>{shortId(id)}</a> : <ShortText>{id}</ShortText>;
}

const resultTone = (result: string) => (result === 'ok' ? 'good' : ['denied', 'forbidden', 'error', 'unauthenticated', 'timeout', 'oom', 'killed', 'crashed'].includes(result) ? 'bad' : 'plain');

function EventDialog({ event, onClose }: { event: AuditEvent; onClose: () => void }): ReactElement {
  return (
    <Dialog wide title={`Event ${event.seq}`} onClose={onClose}>
      <Facts rows={[
        ['Action', <code>{event.action}</code>], ['Result', <Chip tone={resultTone(event.result)}>{event.result}</Chip>], ['When', <Time at={event.at} />], ['Who', <><Who id={event.actor} name={event.actor_name} /> <span className="muted mono">{event.actor}</span></>],
        ...(event.token ? [['Token', <span className="mono">{event.token}</span>] as [string, ReactElement]] : []),
        ['Tenant', event.tenant], ['Object', <Linked id={event.object} />], ['Workspace', <Linked id={event.workspace} />], ['Path', event.path && <ShortText>{event.path}</ShortText>], ['Before', event.before && <Linked id={event.before} />], ['After', event.after && <Linked id={event.after} />],
        ['Detail', event.detail && <bdi>{event.detail}</bdi>], ['Request', event.request && <span className="mono">{event.request}</span>], ['From', event.source],
        ['Place in the chain', event.chain_seq], ['Chain hash', <code>{event.chain_hash}</code>], ['Hash', <code>{event.hash}</code>],
      ]} />
    </Dialog>
  );
}

function Trail(): ReactElement {
  const me = useMe();
  const route = useRoute();
  const mayKeys = useMay('admin');
  const [filter, setFilter] = useState<Filter>({ ...fresh, object: route.query.get('object') ?? '', actor: route.query.get('actor') ?? '', action: route.query.get('action') ?? '' });
  const [live, setLive] = useState(true);
  const [shown, setShown] = useState(100);
  const [open, setOpen] = useState<AuditEvent | null>(null);
  const settled = useSettled(filter, 300);
  const key = JSON.stringify(settled);
  const { data, error, loading, reload } = useLoad(`trail ${key}`, (signal) => allPages<AuditEvent>('/api/audit', { ...queryOf(settled), limit: 1000 }, (e) => e.seq, signal, MOST));
  const { data: keys } = useLoad<List<Key>>(mayKeys ? 'audit-keys' : null, (signal) => api.get('/api/keys', {}, { signal }));
  const [more, setMore] = useState<{ of: string; rows: AuditEvent[] }>({ of: '', rows: [] });
  const rows = useMemo(() => [...(data?.rows ?? []), ...(more.of === key ? more.rows : [])], [data, more, key]);
  useEffect(() => setMore({ of: key, rows: [] }), [data, key]);
  // New events: those behind the last one, by the same filter.
  const busy = useRef(false);
  const again = useRef(false);
  const follow = async () => {
    if (busy.current) {
      again.current = true;
      return;
    }
    busy.current = true;
    try {
      const after = rows.at(-1)?.seq ?? 0;
      const page = await api.get<List<AuditEvent>>('/api/audit', { ...queryOf(settled), after: after || undefined, limit: 1000 });
      if (page.data.length) setMore((old) => ({ of: key, rows: [...(old.of === key ? old.rows : []), ...page.data.filter((e) => e.seq > after && !(old.of === key && old.rows.some((o) => o.seq === e.seq)))] }));
    } catch { /* the next event tries again */ }
    busy.current = false;
    if (again.current) {
      again.current = false;
      setTimeout(() => { void latest.current(); }, 100);
    }
  };
  const latest = useRef(follow);
  latest.current = follow;
  useEvents(['audit', 'stream.resumed'], () => { if (live && data && filter.span !== 'own') void latest.current(); });
  const set = (part: Partial<Filter>) => setFilter({ ...filter, ...part });
  const newest = useMemo(() => [...rows].reverse(), [rows]);
  return (
    <div className="stack">
      <div className="panel stack">
        <div className="govern-tools">
          <Field label="Time">{(p) => <select {...p} className="input" value={filter.span} onChange={(e) => set({ span: e.target.value })}><option value="1">last hour</option><option value="24">last 24 hours</option><option value="168">last 7 days</option><option value="720">last 30 days</option><option value="own">between…</option></select>}</Field>
          {filter.span === 'own' && <><Field label="From">{(p) => <input {...p} className="input" type="datetime-local" value={filter.from} onChange={(e) => set({ from: e.target.value })} />}</Field><Field label="To">{(p) => <input {...p} className="input" type="datetime-local" value={filter.to} onChange={(e) => set({ to: e.target.value })} />}</Field></>}
          <Field label="Action" hint="exact, or a beginning that ends with a dot">{(p) => <><input {...p} className="input mono" list="audit-actions" value={filter.action} placeholder="all" onChange={(e) => set({ action: e.target.value })} /><datalist id="audit-actions">{kinds.map(([value, label]) => <option key={value} value={value}>{label}</option>)}</datalist></>}</Field>
          <Field label="Who">{(p) => (keys ? <select {...p} className="input" value={filter.actor} onChange={(e) => set({ actor: e.target.value })}><option value="">everyone</option><option value="glovebox">the service itself</option>{filter.actor && filter.actor !== 'glovebox' && !keys.data.some((k) => k.id === filter.actor) && <option value={filter.actor}>{shortId(filter.actor)}</option>}{keys.data.map((k) => <option key={k.id} value={k.id}>{k.name ?? shortId(k.id)}{k.tenant !== me.tenant ? ` (${k.tenant})` : ''}</option>)}</select> : <input {...p} className="input mono" value={filter.actor} placeholder="key_…" onChange={(e) => set({ actor: e.target.value })} />)}</Field>
          <Field label="Object" hint="an id">{(p) => <input {...p} className="input mono" value={filter.object} onChange={(e) => set({ object: e.target.value })} />}</Field>
          <Field label="Workspace" hint="ws_…">{(p) => <input {...p} className="input mono" value={filter.workspace} onChange={(e) => set({ workspace: e.target.value })} />}</Field>
          {me.tenant === 'default' && mayKeys && <Field label="Tenant" hint="empty: all">{(p) => <input {...p} className="input" value={filter.tenant} onChange={(e) => set({ tenant: e.target.value })} />}</Field>}
        </div>
        <div className="row spread">
          <Check label="Follow live" checked={live && filter.span !== 'own'} disabled={filter.span === 'own'} onChange={setLive} />
          <span className="row"><span className="muted small" role="status">{data ? `${rows.length.toLocaleString()} ${rows.length === 1 ? 'event' : 'events'}, newest first` : ''}</span><Button compact onClick={() => setFilter(fresh)}>Clear the filter</Button></span>
        </div>
      </div>
      {error ? <Problem error={error} retry={reload} /> : !data && loading ? <Loading /> : <>
        {data?.cut && <Notice tone="warn"><p>There are more than {MOST.toLocaleString()} events; these are the oldest. Choose a shorter time or export them.</p></Notice>}
        <Table label="Audit events" rows={newest.slice(0, shown)} rowKey={(e) => String(e.seq)} empty={<Empty title="No event fits the filter" action={<Button onClick={() => setFilter(fresh)}>Clear the filter</Button>}>Choose a longer time, or another action.</Empty>} columns={[
          { id: 'at', label: 'When', cell: (e) => <Time at={e.at} /> },
          { id: 'who', label: 'Who', cell: (e) => <Who id={e.actor} name={e.actor_name} /> },
          { id: 'action', label: 'Action', cell: (e) => <code className="nowrap">{e.action}</code> },
          { id: 'object', label: 'Object', cell: (e) => <><Linked id={e.object} />{e.path && <><br /><ShortText>{e.path}</ShortText></>}</> },
          { id: 'result', label: 'Result', cell: (e) => <Chip tone={resultTone(e.result)}>{e.result}</Chip> },
          { id: 'detail', label: 'Detail', cell: (e) => (e.detail ? <span className="audit-detail"><ShortText>{e.detail}</ShortText></span> : <span className="muted">–</span>) },
          { id: 'seq', label: 'Event', num: true, cell: (e) => <Button compact kind="plain" aria-label={`Event ${e.seq}, all fields`} onClick={() => setOpen(e)}>{e.seq}</Button> },
        ]} />
        {newest.length > shown && <div className="row"><Button onClick={() => setShown(shown + 200)}>Show more ({(newest.length - shown).toLocaleString()} left)</Button></div>}
      </>}
      {open && <EventDialog event={open} onClose={() => setOpen(null)} />}
    </div>
  );
}

function Proof(): ReactElement {
  const me = useMe();
  const all = me.tenant === 'default' && me.scopes.includes('admin');
  const [report, setReport] = useState<Report | null>(null);
  const checkpoints = useLoad('checkpoints', (signal) => allPages<Checkpoint>('/api/audit/checkpoints', { limit: 1000 }, (c) => c.seq, signal, 10_000), { refreshOn: ['audit'] });
  const keys = useLoad<SigningKeys>('audit-signing', (signal) => api.get('/api/audit/key', {}, { signal }));
  const save = (c: Checkpoint) => saveBlob(new Blob([`${JSON.stringify(c, null, 2)}\n`], { type: 'application/json' }), `checkpoint-${c.tenant}-${c.seq}.json`);
  return (
    <div className="stack audit-sections">
      <Section title="Verify" lead={all ? 'Recomputes the chain of all events, and then that of each tenant.' : "Recomputes the chain of your tenant's events."} actions={<ActionButton kind="primary" onError={toastError} action={async () => {
        setReport(null);
        setReport(await api.post<Report>('/api/audit/verify'));
      }}>Verify the trail</ActionButton>}>
        {report && (report.ok
          ? <Notice tone={report.lost ? 'warn' : 'good'}><p>The trail is complete and unchanged: {report.events.toLocaleString()} events.{report.lost > 0 && ` ${report.lost} more were lost, which an operator has accepted.`}</p>{report.head && <p className="small">Its head is <code>{report.head}</code>. Noted elsewhere, it shows later that nothing was cut off.</p>}</Notice>
          : <Notice tone="bad"><p>The trail was changed: {report.fault}{report.first_bad !== null && `, first at event ${report.first_bad}`}{report.tenant && `, tenant ${report.tenant}`}.</p></Notice>)}
      </Section>
      <Section title="Checkpoints" lead="Signatures of the chain as it stood. Kept elsewhere, they show a change even by an operator." actions={<ActionButton onError={toastError} action={async () => {
        const made = await api.post<Checkpoint>('/api/audit/checkpoints');
        toast(`Signed up to event ${made.seq} of the chain.`);
        checkpoints.reload();
      }}>Sign now</ActionButton>}>
        {checkpoints.error ? <Problem error={checkpoints.error} retry={checkpoints.reload} /> : !checkpoints.data ? <Loading /> : <Table label="Checkpoints" first={{ id: 'seq', down: true }} rows={checkpoints.data.rows} rowKey={(c) => String(c.seq)} empty={<Empty title="Nothing is signed yet">The service signs after 1,000 events, or an hour after the last checkpoint. Sign now to have one at once.</Empty>} columns={[
          { id: 'at', label: 'Signed', cell: (c) => <Time at={c.at} />, sort: (c) => c.at },
          { id: 'seq', label: 'Up to', num: true, cell: (c) => c.seq.toLocaleString(), sort: (c) => c.seq },
          { id: 'hash', label: 'Chain hash', cell: (c) => <code title={c.hash}>{c.hash.slice(0, 16)}…</code> },
          { id: 'key', label: 'Key', cell: (c) => <code title={c.key}>{shortId(c.key)}</code> },
          { id: 'do', label: 'Actions', cell: (c) => <Button compact icon="download" onClick={() => save(c)}>Save</Button> },
        ]} />}
      </Section>
      <Section title="Public key" actions={keys.data && <Button icon="download" onClick={() => saveBlob(new Blob([keys.data!.public_key], { type: 'application/x-pem-file' }), 'key.pem')}>Save key.pem</Button>}>
        {keys.error ? <Problem error={keys.error} retry={keys.reload} /> : !keys.data ? <Loading /> : <>
          <Code text={keys.data.public_key.trim()} label="Public key" />
          <p className="muted small">In use since <Time at={keys.data.since} />{keys.data.earlier.length > 0 && `, after ${keys.data.earlier.length} earlier ones`}. With it anyone checks an export: <code>glovebox audit verify trail.jsonl --public-key key.pem</code></p>
        </>}
      </Section>
    </div>
  );
}

function Export(): ReactElement {
  const me = useMe();
  const mayAll = useMay('admin') && me.tenant === 'default';
  const [format, setFormat] = useState('jsonl');
  const [from, setFrom] = useState('');
  const [to, setTo] = useState('');
  const [tenant, setTenant] = useState('');
  const [progress, setProgress] = useState<number | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const run = async () => {
    setProblem(null);
    setProgress(0);
    try {
      const response = await api.raw('GET', '/api/audit/export', undefined, { query: { format, from: toUtc(from), to: toUtc(to), tenant } });
      const parts: Uint8Array<ArrayBuffer>[] = [];
      const reader = response.body!.getReader();
      let bytes = 0;
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        parts.push(value as Uint8Array<ArrayBuffer>);
        bytes += value.length;
        setProgress(bytes);
      }
      saveBlob(new Blob(parts, { type: 'application/x-ndjson' }), format === 'otlp' ? 'trail.otlp.jsonl' : 'trail.jsonl');
      toast('The export was saved.');
    } catch (error) {
      setProblem(messageOf(error));
    }
    setProgress(null);
  };
  return (
    <div className="panel stack audit-export">
      <h2>Export</h2>
      <p className="muted">One event a line, oldest first, with what is needed to check the chain without the service.</p>
      <div className="govern-columns">
        <Field label="Format">{(p) => <select {...p} className="input" value={format} onChange={(e) => setFormat(e.target.value)}><option value="jsonl">JSON Lines</option><option value="otlp">OpenTelemetry logs</option></select>}</Field>
        <Field label="From" hint="empty: the first event">{(p) => <input {...p} className="input" type="datetime-local" value={from} onChange={(e) => setFrom(e.target.value)} />}</Field>
        <Field label="To" hint="empty: now">{(p) => <input {...p} className="input" type="datetime-local" value={to} onChange={(e) => setTo(e.target.value)} />}</Field>
        {mayAll && <Field label="Tenant" hint="empty: all">{(p) => <input {...p} className="input" value={tenant} onChange={(e) => setTenant(e.target.value)} />}</Field>}
      </div>
      {problem && <Notice tone="bad"><p>{problem}</p></Notice>}
      <div className="row"><Button kind="primary" icon="download" disabled={progress !== null} onClick={() => { void run(); }}>{progress === null ? 'Export' : `${(progress / 1024).toFixed(0)} KiB…`}</Button></div>
    </div>
  );
}

const tabs = [{ id: 'trail', label: 'Events' }, { id: 'proof', label: 'Verify and checkpoints' }, { id: 'export', label: 'Export' }] as const;
type Tab = (typeof tabs)[number]['id'];

export default function Audit(): ReactElement {
  const { parts } = useRoute();
  const tab: Tab = tabs.find((t) => t.id === parts[0])?.id ?? 'trail';
  return (
    <Page title="Audit" lead="One event for every act that changed something or was refused. Events are chained: a change, a gap or a cut end is found.">
      <Tabs<Tab> label="Audit" value={tab} onChange={(id) => go(id === 'trail' ? href('audit') : href('audit', id))} tabs={[...tabs]} />
      {tab === 'trail' && <Trail />}
      {tab === 'proof' && <Proof />}
      {tab === 'export' && <Export />}
    </Page>
  );
}
