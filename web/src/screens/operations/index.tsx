// SPDX-License-Identifier: Apache-2.0
// Health of the service, its disk, its backups, and who uses the storage.
import { useMemo, useState, type ReactElement } from 'react';
import { api, ApiError } from '../../api/client';
import { readEvents } from '../../api/sse';
import { useLoad } from '../../api/query';
import type { Workspace } from '../../api/types';
import { asleep } from '../../api/types';
import { useMay, useMe } from '../../app/me';
import { go, href, useRoute } from '../../app/router';
import { ActionButton, Button, Chip, Empty, Field, Loading, Meter, Notice, Page, Problem, Ring, Size, sizeText, Tabs, Time } from '../../ui/basic';
import { allPages, Facts, Section, shortId, useKeyNames, Who } from '../../ui/govern';
import { confirm, toast, toastError } from '../../ui/overlay';
import { Table } from '../../ui/table';
import { parseMetrics, type Metrics } from './metrics';

interface Backup { at: string; path: string | null; by: string; by_name: string | null; ok: boolean }
interface TrailEvent { seq: number; at: string; actor: string; actor_name: string | null; action: string; object: string | null; path: string | null; detail: string | null; result: string }

const modes: Record<string, [string, 'good' | 'warn' | 'bad']> = { works: ['files can be written', 'good'], full: ['full: reading and deleting continue', 'bad'], failed: ['failed: restart the service after repairing it', 'bad'] };

async function readiness(signal: AbortSignal): Promise<{ ready: boolean; message: string }> {
  try {
    await api.raw('GET', '/readyz', undefined, { signal });
    return { ready: true, message: 'Every pool can start sessions, the warden answers, files and the audit trail can be written.' };
  } catch (error) {
    if (error instanceof ApiError && error.status === 503) return { ready: false, message: error.message };
    throw error;
  }
}

const useMetrics = () => useLoad('metrics', async (signal) => parseMetrics(await (await api.raw('GET', '/metrics', undefined, { signal })).text()), { refreshOn: ['health', 'session', 'execution', 'storage', 'admin'] });

function Figure({ label, value, note }: { label: string; value: string; note?: string }): ReactElement {
  return <div className="panel govern-figure"><span className="muted small">{label}</span><strong>{value}</strong>{note && <span className="small muted">{note}</span>}</div>;
}

function Health(): ReactElement {
  const ready = useLoad('readyz', readiness, { refreshOn: ['health'] });
  const metrics = useMetrics();
  const m = metrics.data;
  const refresh = () => {
    ready.reload();
    metrics.reload();
  };
  if (metrics.error && !m) return <Problem error={metrics.error} retry={refresh} />;
  if (!m || !ready.data) return ready.error ? <Problem error={ready.error} retry={refresh} /> : <Loading />;
  const one = (name: string) => m.one(name) ?? 0;
  const sessions = m.all('glovebox_sessions');
  const live = sessions.filter((s) => !asleep(s.labels.state ?? '')).reduce((n, s) => n + s.value, 0);
  const outcomes = m.all('glovebox_executions_total').filter((o) => o.value > 0);
  const refusals = m.all('glovebox_quota_refusals_total').filter((o) => o.value > 0);
  const total = outcomes.reduce((n, o) => n + o.value, 0);
  return (
    <div className="stack operations-sections">
      <div className="panel row operations-ready"><Ring state={ready.data.ready ? 'good' : 'bad'} /><div className="grow"><h2>{ready.data.ready ? 'The service is ready' : 'The service is not ready'}</h2><p className="muted operations-flat">{ready.data.message}</p></div><Button icon="reset" onClick={refresh}>Look again</Button></div>
      <div className="operations-figures">
        <Figure label="Live sessions" value={live.toLocaleString()} note={`${sessions.filter((s) => asleep(s.labels.state ?? '')).reduce((n, s) => n + s.value, 0).toLocaleString()} asleep`} />
        <Figure label="Running executions" value={one('glovebox_executions_active').toLocaleString()} note={`${total.toLocaleString()} since the start`} />
        <Figure label="Waiting approvals" value={one('glovebox_approvals_pending').toLocaleString()} />
        <Figure label="Memory granted" value={sizeText(one('glovebox_memory_granted_bytes'))} note={`of ${sizeText(one('glovebox_memory_bytes'))}`} />
        <Figure label="The service itself" value={sizeText(one('process_resident_memory_bytes'))} note={`${one('process_open_fds').toLocaleString()} of ${one('process_max_fds').toLocaleString()} descriptors`} />
        <Figure label="Typical start of a session" value={m.quantile('glovebox_session_start_seconds', 0.5)} note={`95 of 100: ${m.quantile('glovebox_session_start_seconds', 0.95)}`} />
      </div>
      <div className="grid">
        <section className="panel" aria-labelledby="ops-parts"><h2 id="ops-parts">Parts</h2><Facts rows={[
          ['Files', <Chip tone={one('glovebox_storage_writable') ? 'good' : 'bad'}>{one('glovebox_storage_writable') ? 'writable' : 'not writable'}</Chip>],
          ['Audit trail', <Chip tone={one('glovebox_audit_writable') ? 'good' : 'bad'}>{one('glovebox_audit_writable') ? 'writable' : 'not writable: changes are refused'}</Chip>],
          ['Warden', <Chip tone={one('glovebox_warden_answers') ? 'good' : 'bad'}>{one('glovebox_warden_answers') ? 'answers' : 'does not answer'}</Chip>],
          ['Workers', `${one('glovebox_workers').toLocaleString()}, ${one('glovebox_workers_queued').toLocaleString()} requests wait`],
          ['Version', m.all('glovebox_build_info')[0]?.labels.version ?? null],
        ]} /></section>
        <section className="panel" aria-labelledby="ops-outcomes"><h2 id="ops-outcomes">Executions since the start</h2>{outcomes.length ? <Facts rows={outcomes.map((o) => [o.labels.outcome, o.value.toLocaleString()])} /> : <p className="muted operations-flat">None yet.</p>}
          {refusals.length > 0 && <><h3 className="operations-sub">Refused by quotas</h3><Facts rows={refusals.map((o) => [o.labels.quota.replaceAll('_', ' '), o.value.toLocaleString()])} /></>}</section>
      </div>
    </div>
  );
}

// Runs a route that streams its progress.
async function streamed<T>(at: string, body: unknown, onProgress: (text: string, part: number | null) => void): Promise<T> {
  let found: T | null = null;
  let failed: Error | null = null;
  await readEvents(at, ({ event, data }) => {
    const value = JSON.parse(data) as Record<string, unknown>;
    if (event === 'progress') onProgress(String(value.what ?? ''), typeof value.done === 'number' && typeof value.total === 'number' && value.total > 0 ? value.done / value.total : null);
    else if (event === 'done') found = value as T;
    else if (event === 'error') failed = new Error((value.error as { message: string }).message);
  }, { method: 'POST', body });
  if (failed) throw failed;
  if (!found) throw new Error('The connection ended before the result came. The audit trail tells whether it was done.');
  return found;
}

interface Task { what: string; part: number | null }
interface Verified { ok: boolean; blobs: number; bytes: number; bad: number; missing: number; orphans: number; lost: number; first_bad: string | null }

function Storage(): ReactElement {
  const metrics = useMetrics();
  const mayAudit = useMay('audit:read');
  const me = useMe();
  const trail = useLoad(mayAudit ? 'storage-trail' : null, (signal) => allPages<TrailEvent>('/api/audit', { action: 'storage.', limit: 1000 }, (e) => e.seq, signal, 5000), { refreshOn: ['storage', 'admin'] });
  const [task, setTask] = useState<Task | null>(null);
  const [at, setAt] = useState('');
  const [tried, setTried] = useState(false);
  const [verified, setVerified] = useState<Verified | null>(null);
  const m: Metrics | undefined = metrics.data;
  const backups: Backup[] = useMemo(() => (trail.data?.rows ?? []).filter((e) => e.action === 'storage.backup').map((e) => ({ at: e.at, path: e.path ?? e.object ?? e.detail, by: e.actor, by_name: e.actor_name, ok: e.result === 'ok' })).reverse(), [trail.data]);
  const bad = at.startsWith('/') ? null : 'An absolute path on the server, such as /var/backups/glovebox.';
  const run = <T,>(what: string, path: string, body: unknown, then: (found: T) => void) => {
    setTask({ what, part: null });
    streamed<T>(path, body, (text, part) => setTask({ what: text ? `${what}: ${text}` : what, part })).then(then).catch(toastError).finally(() => {
      setTask(null);
      metrics.reload();
      trail.reload();
    });
  };
  const free = m?.one('glovebox_disk_free_bytes') ?? 0;
  const used = m?.one('glovebox_blob_bytes') ?? 0;
  const mode = m?.all('glovebox_disk_mode').find((x) => x.value === 1)?.labels.mode ?? 'works';
  const scrubbed = m?.one('glovebox_scrub_completed_timestamp_seconds') ?? 0;
  const last = backups.find((b) => b.ok);
  const old = last ? (Date.now() - new Date(last.at).getTime()) / 86_400_000 : Infinity;
  return (
    <div className="stack operations-sections">
      {task && <Notice tone="info"><p role="status">{task.what}{task.part !== null && `, ${Math.round(task.part * 100)} %`}</p>{task.part !== null && <Meter label={task.what} value={task.part} max={1} />}</Notice>}
      <div className="grid">
        <section className="panel" aria-labelledby="ops-disk"><h2 id="ops-disk">Disk</h2>
          {metrics.error && !m ? <Problem error={metrics.error} retry={metrics.reload} /> : !m ? <Loading /> : <div className="stack tight"><Meter label="Stored files, of the space for them" value={used} max={used + free} /><Facts rows={[
            ['State', <Chip tone={modes[mode]?.[1] ?? 'warn'}>{modes[mode]?.[0] ?? mode}</Chip>], ['Free', <Size bytes={free} />], ['Stored files', <>{(m.one('glovebox_blobs') ?? 0).toLocaleString()} with <Size bytes={used} /></>],
            ['Kept free', <Size bytes={m.one('glovebox_disk_kept_bytes') ?? 0} />], ['Reserved for deletes', <Size bytes={m.one('glovebox_disk_reserve_bytes') ?? 0} />], ['Refused writes', (m.one('glovebox_disk_refusals_total') ?? 0).toLocaleString()],
          ]} /><div className="row"><ActionButton onError={toastError} action={async () => {
            if (!await confirm({ title: 'Collect now?', text: 'Applies retention at once, and removes data that nothing refers to. What retention removes cannot be brought back.', action: 'Collect', danger: true })) return;
            const found = await api.post<{ versions: number; blobs: number; bytes: number }>('/api/collect');
            toast(`${found.versions.toLocaleString()} versions and ${found.blobs.toLocaleString()} stored files were removed: ${sizeText(found.bytes)}.`);
            metrics.reload();
          }}>Collect now…</ActionButton></div></div>}
        </section>
        <section className="panel" aria-labelledby="ops-bytes"><h2 id="ops-bytes">Stored bytes</h2>
          {m && <div className="stack tight"><Facts rows={[['Damaged', <Chip tone={m.one('glovebox_scrub_bad') ? 'bad' : 'good'}>{(m.one('glovebox_scrub_bad') ?? 0).toLocaleString()}</Chip>], ['Last read through', scrubbed > 0 ? <Time at={new Date(scrubbed * 1000).toISOString()} /> : 'not yet'], ['Read', <Size bytes={m.one('glovebox_scrub_bytes') ?? 0} />]]} />
            {verified && <Notice tone={verified.ok ? 'good' : 'bad'}><p>{verified.ok ? `All ${verified.blobs.toLocaleString()} stored files are as they were written (${sizeText(verified.bytes)}).` : `${verified.bad} damaged, ${verified.missing} missing${verified.first_bad ? `, first ${verified.first_bad}` : ''}. Restore them from a backup.`}</p></Notice>}
            <div className="row"><Button disabled={task !== null} onClick={() => run<Verified>('Reading every stored byte', '/api/verify', undefined, setVerified)}>Verify all now</Button></div></div>}
        </section>
      </div>
      <Section title="Backups" lead={<>A copy of everything, in a folder of the server. <code>glovebox restore</code> fills an empty data directory from it.</>}>
        {mayAudit && trail.data && (old > 7 ? <Notice tone="warn"><p>{last ? <>The last backup is from <Time at={last.at} form="ago" />.</> : 'There is no backup yet.'} Make one at least every week.</p></Notice> : <Notice tone="good"><p>The last backup is from <Time at={last!.at} form="ago" />.</p></Notice>)}
        <form className="govern-tools" onSubmit={(e) => {
          e.preventDefault();
          setTried(true);
          if (!bad) run<{ path: string }>('Backing up', '/api/backup', { path: at }, (done) => {
            toast(`Backed up to ${done.path}.`);
            setAt('');
            setTried(false);
          });
        }}>
          <div className="operations-path"><Field label="Folder" hint="empty, or not there yet" problem={tried ? bad : null}>{(p) => <input {...p} className="input mono" placeholder="/var/backups/glovebox" value={at} onChange={(e) => setAt(e.target.value)} />}</Field></div>
          <Button kind="primary" type="submit" disabled={task !== null}>Back up now</Button>
        </form>
        {!mayAudit ? null : trail.error ? <Problem error={trail.error} retry={trail.reload} /> : !trail.data ? <Loading /> : backups.length > 0 && <Table label="Backups" rows={backups} rowKey={(b) => b.at} columns={[
          { id: 'at', label: 'When', cell: (b) => <Time at={b.at} />, sort: (b) => b.at },
          { id: 'path', label: 'Folder', cell: (b) => <code>{b.path}</code> },
          { id: 'by', label: 'By', cell: (b) => <Who id={b.by} name={b.by_name ?? (b.by === me.id ? me.name : null)} />, sort: (b) => b.by_name },
          { id: 'ok', label: 'Result', cell: (b) => <Chip tone={b.ok ? 'good' : 'bad'}>{b.ok ? 'complete' : 'failed'}</Chip> },
        ]} />}
      </Section>
    </div>
  );
}

interface Usage { tenant: string; workspaces: number; max_workspaces: number; stored_bytes: number; quota_bytes: number }

function ByWorkspace(): ReactElement {
  const names = useKeyNames();
  const { data, error, reload } = useLoad('ops-workspaces', (signal) => allPages<Workspace>('/api/workspaces', { limit: 1000 }, (w) => w.id, signal, 20_000), { refreshOn: ['workspace'] });
  const usage = useLoad<Usage>('ops-usage', (signal) => api.get('/api/usage', {}, { signal }), { refreshOn: ['workspace'] });
  const [shown, setShown] = useState(100);
  const rows = useMemo(() => [...(data?.rows ?? [])].sort((a, b) => b.stored_bytes - a.stored_bytes), [data]);
  if (error) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading />;
  const top = rows[0]?.stored_bytes ?? 1;
  return (
    <div className="stack">
      {usage.data && <p className="muted operations-flat">{usage.data.workspaces.toLocaleString()} workspaces of the tenant {usage.data.tenant} store {sizeText(usage.data.stored_bytes)}{usage.data.quota_bytes > 0 && ` of ${sizeText(usage.data.quota_bytes)}`}. Versions count; bytes that several files share count once on the disk.</p>}
      <Table label="Storage by workspace" rows={rows.slice(0, shown)} rowKey={(w) => w.id} empty={<Empty title="No workspaces yet">Each session makes one when it keeps its first file.</Empty>} columns={[
        { id: 'name', label: 'Workspace', cell: (w) => <a href={href('files', w.id)}>{w.name ? <bdi>{w.name}</bdi> : shortId(w.id)}</a>, sort: (w) => w.name ?? w.id },
        { id: 'stored', label: 'Stored', cell: (w) => <div className="operations-bar"><Size bytes={w.stored_bytes} /><span className="meter" aria-hidden="true"><span style={{ width: `${(w.stored_bytes / Math.max(1, top)) * 100}%` }} /></span></div>, sort: (w) => w.stored_bytes },
        { id: 'now', label: 'Newest versions', num: true, cell: (w) => <Size bytes={w.bytes} />, sort: (w) => w.bytes },
        { id: 'files', label: 'Files', num: true, cell: (w) => w.files.toLocaleString(), sort: (w) => w.files },
        { id: 'quota', label: 'Limit', num: true, cell: (w) => (w.quota_bytes ? <Size bytes={w.quota_bytes} /> : 'none'), sort: (w) => w.quota_bytes },
        { id: 'owner', label: 'Owner', cell: (w) => <Who id={w.owner} name={w.owner_name ?? names(w.owner)} />, sort: (w) => w.owner_name ?? names(w.owner) ?? w.owner },
        { id: 'changed', label: 'Changed', cell: (w) => <Time at={w.updated_at} form="ago" />, sort: (w) => w.updated_at },
      ]} />
      {rows.length > shown && <div className="row"><Button onClick={() => setShown(shown + 500)}>Show more ({(rows.length - shown).toLocaleString()} left)</Button></div>}
      {data.cut && <p className="muted small">Only the first 20,000 workspaces are listed.</p>}
    </div>
  );
}

const tabs = [{ id: 'health', label: 'Health' }, { id: 'storage', label: 'Disk and backups' }, { id: 'workspaces', label: 'Storage by workspace' }] as const;
type Tab = (typeof tabs)[number]['id'];

export default function Operations(): ReactElement {
  const { parts } = useRoute();
  const tab: Tab = tabs.find((t) => t.id === parts[0])?.id ?? 'health';
  return (
    <Page title="Operations" lead="How the service is doing, what it stores, and its copies.">
      <Tabs<Tab> label="Operations" value={tab} onChange={(id) => go(id === 'health' ? href('operations') : href('operations', id))} tabs={[...tabs]} />
      {tab === 'health' && <Health />}
      {tab === 'storage' && <Storage />}
      {tab === 'workspaces' && <ByWorkspace />}
    </Page>
  );
}
