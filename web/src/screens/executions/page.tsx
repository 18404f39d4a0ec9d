// SPDX-License-Identifier: Apache-2.0
// One execution: its code, output and files, what it reached, who allowed it
// and what it used. It is live while it runs, and can be printed.
import { useEffect, useMemo, useRef, useState, type ReactElement, type ReactNode } from 'react';
import { api, ApiError, path } from '../../api/client';
import { useEvents } from '../../api/events';
import { useLoad } from '../../api/query';
import { readEvents } from '../../api/sse';
import type { Bundle, Execution, ExecutionError, NetworkAttempt } from '../../api/types';
import { useMay } from '../../app/me';
import { href } from '../../app/router';
import { ActionButton, Button, Chip, Empty, Loading, Name, Notice, Page, Problem, Size, Time, durationText, sizeText } from '../../ui/basic';
import { toast, toastError } from '../../ui/overlay';
import { Table } from '../../ui/table';
import { Code } from '../../ui/text';
import { addStream, type Output } from '../notebook/model';
import { Outputs } from '../notebook/output';
import { outputsOf } from '../notebook/store';
import { runAgain } from '../files/madeby';
import { copyText } from '../files/shares';
import { KeepDialog } from '../tools/keep';
import { State } from './list';
import type { Evidence } from './model';

const missing = (error: unknown): boolean => error instanceof ApiError && (error.status === 404 || error.status === 410);
const orNull = <T,>(promise: Promise<T>): Promise<T | null> => promise.catch((error: unknown) => {
  if (missing(error) || (error instanceof ApiError && error.status === 403)) return null;
  throw error;
});

// The outputs of an execution that runs, as they come.
function useLive(id: string, active: boolean, onDone: () => void): Output[] {
  const [outputs, setOutputs] = useState<Output[]>([]);
  const done = useRef(onDone);
  done.current = onDone;
  useEffect(() => {
    if (!active) return undefined;
    const abort = new AbortController();
    setOutputs([]);
    let clear = false;
    const add = (fn: (old: Output[]) => Output[]) => setOutputs((old) => {
      const base = clear ? [] : old;
      clear = false;
      return fn(base);
    });
    readEvents(path`/api/executions/${id}/events`, ({ event, data }) => {
      let body: Record<string, unknown>;
      try {
        body = JSON.parse(data) as Record<string, unknown>;
      } catch {
        return;
      }
      if (event === 'stdout' || event === 'stderr') add((old) => addStream(old, event, String(body.text ?? '')));
      else if (event === 'display' || event === 'result') add((old) => [...old, event === 'display' ? { type: 'display', data: body as Bundle, metadata: {} } : { type: 'result', data: body as Bundle, metadata: {}, count: null }]);
      else if (event === 'error') add((old) => [...old, { type: 'error', error: body as unknown as ExecutionError }]);
      else if (event === 'clear') {
        if (body.wait) clear = true;
        else setOutputs([]);
      } else if (event === 'done') done.current();
    }, { signal: abort.signal }).catch(() => { /* the list's own events tell of the end */ });
    return () => abort.abort();
  }, [id, active]);
  return outputs;
}

const Section = ({ title, id, children, note }: { title: string; id: string; children: ReactNode; note?: ReactNode }): ReactElement =>
  <section className="executions-section" aria-labelledby={`executions-${id}`}><div className="row spread"><h2 id={`executions-${id}`}>{title}</h2>{note}</div>{children}</section>;

function Attempts({ list, label, allowed }: { list: NetworkAttempt[]; label: string; allowed?: boolean }): ReactElement {
  return <Table label={label} rows={list} rowKey={(a) => `${a.what} ${a.host} ${a.port}`} columns={[
    { id: 'to', label, cell: (a) => <code>{a.host}{a.port ? `:${a.port}` : ''}</code>, sort: (a) => a.host },
    { id: 'what', label: 'What', cell: (a) => a.what },
    { id: 'count', label: 'Times', num: true, cell: (a) => a.count.toLocaleString(), sort: (a) => a.count },
    ...(allowed ? [{ id: 'bytes', label: 'Sent, received', cell: (a: NetworkAttempt) => `${sizeText(a.bytes_out ?? 0)}, ${sizeText(a.bytes_in ?? 0)}` }] : [{ id: 'why', label: 'Why not', cell: (a: NetworkAttempt) => a.reason ?? '–' }]),
    { id: 'at', label: 'First', cell: (a) => <Time at={a.at} /> },
  ]} />;
}

interface FileRow { path: string; change: string; file: string | null; version: string | null; size: number; note: string | null }

function filesOf(execution: Execution | null, evidence: Evidence | null): FileRow[] {
  if (execution?.files) {
    const { created, modified, deleted, renamed, conflicts, refused, skipped } = execution.files;
    const plain = [...created, ...modified, ...renamed, ...deleted].map((f): FileRow => ({ path: f.path, change: f.change, file: f.file_id, version: f.version, size: f.size, note: f.from ? `from ${f.from}` : null }));
    const odd = ([['conflict', conflicts], ['refused', refused], ['skipped', skipped]] as const).flatMap(([change, list]) => (list ?? []).map((f): FileRow => ({ path: f.path, change, file: f.file_id ?? null, version: f.version ?? null, size: f.size ?? 0, note: f.reason ?? null })));
    return [...plain, ...odd];
  }
  return evidence?.files.written.map((f) => ({ path: f.path, change: f.change, file: f.file, version: f.version, size: f.size, note: f.fate === 'kept' ? null : f.fate })) ?? [];
}

export function ExecutionPage({ id }: { id: string }): ReactElement {
  const mayRun = useMay('execute');
  const mayKeep = useMay('files:write');
  const [keeping, setKeeping] = useState(false);
  const seesApprovals = useMay('approve', 'execute');
  const refresh = { refreshOn: ['execution', 'approval', 'reset'], accept: (e: { type: string; data: Record<string, unknown> }) => e.type === 'reset' || e.type.startsWith('approval') || e.data.execution === id || e.data.id === id };
  const { data, error, reload } = useLoad(`execution ${id}`, async (signal) => {
    const [execution, evidence] = await Promise.all([
      orNull(api.get<Execution>(path`/api/executions/${id}`, {}, { signal })),
      orNull(api.get<Evidence>(path`/api/executions/${id}/evidence`, {}, { signal })),
    ]);
    return { execution, evidence };
  }, refresh);
  const [progress, setProgress] = useState<{ elapsed_ms: number; cpu_ms: number; peak_memory_bytes: number; memory_bytes?: number } | null>(null);
  useEvents(['progress'], ({ data: p }) => { if (p.execution === id) setProgress(p as unknown as typeof progress); });
  const execution = data?.execution ?? null;
  const evidence = data?.evidence ?? null;
  const active = execution !== null && (execution.status === 'running' || execution.status === 'queued');
  const live = useLive(id, active, reload);
  const stored = useMemo(() => (execution && execution.status === 'completed' ? outputsOf(execution, null) : []), [execution]);
  // Printing opens what is folded.
  useEffect(() => {
    const before = () => document.querySelectorAll<HTMLDetailsElement>('.executions-page details').forEach((d) => { d.open = true; });
    addEventListener('beforeprint', before);
    return () => removeEventListener('beforeprint', before);
  }, []);
  const crumbs = <a href={href('executions')}>Executions</a>;
  if (error) return <Page title="Execution" crumbs={crumbs}><Problem error={error} retry={reload} /></Page>;
  if (!data) return <Loading />;
  if (!execution && !evidence) return <Page title="Execution" crumbs={crumbs}><Empty title="No such execution" action={<a className="button" href={href('executions')}>All executions</a>}>It belongs to someone else, or the service no longer has it.</Empty></Page>;

  const outputs = active ? live : stored;
  const code = execution?.code ?? evidence?.code_text ?? null;
  const language = execution?.language ?? (evidence?.code.language === 'shell' ? 'shell' : 'python');
  const workspace = execution?.workspace ?? evidence?.files.mounted?.workspace ?? null;
  const changes = filesOf(execution, evidence);
  const blocked = [...(evidence?.connections.blocked ?? execution?.network?.blocked ?? []), ...(evidence?.connections.refused ?? [])];
  const allowed = evidence?.connections.allowed ?? execution?.network?.allowed ?? [];
  const usage = execution?.status === 'completed' ? execution.usage : evidence?.usage ?? null;
  const conversation = evidence?.trigger.conversation ?? (typeof execution?.metadata?.conversation === 'string' ? execution.metadata.conversation : null);
  const message = evidence?.trigger.message ?? (typeof execution?.metadata?.message === 'string' ? execution.metadata.message : null);
  const approval = typeof evidence?.approval === 'string' ? { id: evidence.approval } : evidence?.approval ?? (execution?.approval ? { id: execution.approval } : null);
  const session = execution?.session ?? evidence!.session;
  const outcome = execution?.outcome ?? evidence?.outcome ?? null;
  return (
    <div className="executions-page">
      <Page crumbs={crumbs} title={<>Execution <span className="mono executions-id">{id}</span></>} actions={<>
        {active && mayRun && <ActionButton icon="stop" onError={toastError} action={async () => {
          await api.post(path`/api/executions/${id}/cancel`);
          toast('Cancelling.');
        }}>Cancel</ActionButton>}
        {mayRun && code !== null && !active && <ActionButton kind="primary" icon="play" onError={toastError} action={() => runAgain({ workspace, code, language, execution: id, conversation, message, name: 'Run again' })}>Run again</ActionButton>}
        {mayKeep && code !== null && execution?.status === 'completed' && (language === 'python' || language === 'shell') && <Button onClick={() => setKeeping(true)}>Keep as a tool</Button>}
        <Button icon="link" onClick={() => { copyText(location.href).catch(toastError); }}>Copy link</Button>
        <Button icon="print" onClick={() => print()}>Print</Button>
      </>}>
        {keeping && code !== null && <KeepDialog draft={{ workspace, execution: id, code, language }} onClose={() => setKeeping(false)} />}
        <dl className="facts executions-facts">
          <dt>Outcome</dt><dd className="row"><State row={{ status: execution?.status ?? 'completed', outcome }} />{execution?.limit && <span className="small">reached {execution.limit.name}: {execution.limit.name.includes('bytes') ? sizeText(execution.limit.value) : execution.limit.value.toLocaleString()}</span>}{execution?.exit_code !== undefined && <span className="small">exit code {execution.exit_code}</span>}</dd>
          <dt>Who</dt><dd><Name>{evidence?.who.name ?? evidence?.who.key_name ?? evidence?.who.key ?? '–'}</Name>{evidence && <span className="muted small"> through the {evidence.who.door} API{evidence.who.tool ? `, tool ${evidence.who.tool}` : ''}, from {evidence.who.source}</span>}</dd>
          <dt>When</dt><dd><Time at={execution?.created_at ?? evidence?.created_at} />{(execution?.finished_at ?? evidence?.finished_at) && <span className="muted small"> until <Time at={execution?.finished_at ?? evidence?.finished_at} form="time" /></span>}</dd>
          <dt>Where</dt><dd><a className="mono small" href={href('executions', { session })}>{session}</a>{evidence && <span className="muted small"> pool {evidence.pool}, runtime {evidence.runtime}</span>}</dd>
          {workspace && <><dt>Workspace</dt><dd><a className="mono small" href={href('files', workspace)}>{workspace}</a></dd></>}
          {conversation && <><dt>Conversation</dt><dd><a href={href('conversations', conversation)}><Name>{conversation}</Name></a>{message && <>, message <a href={href('conversations', conversation, { message })}><Name>{message}</Name></a></>}</dd></>}
          {evidence?.retry_of && <><dt>Runs again</dt><dd><a className="mono small" href={href('executions', evidence.retry_of)}>{evidence.retry_of}</a></dd></>}
        </dl>
        {execution?.notice && <Notice tone="warn"><p>{execution.notice}</p></Notice>}
        {execution?.warning && <Notice tone="warn"><p>{execution.warning}</p></Notice>}
        {!execution && <Notice><p>The output of this execution is no longer stored. Its evidence is below.</p></Notice>}

        <Section id="code" title="Code" note={evidence && <span className="small muted mono executions-hash" title="SHA-256 of the code">{evidence.code.sha256.slice(0, 16)}…</span>}>
          {code !== null ? <Code text={code} language={language} numbered wrap label="Code that ran" /> : <p className="muted">The code was not kept.</p>}
        </Section>

        <Section id="output" title="Output" note={active && <Chip tone="accent">live</Chip>}>
          {execution?.status === 'pending_approval' ? <p className="muted">Nothing ran yet: a person must approve it first.</p>
            : outputs.length ? <div className="panel executions-output"><Outputs outputs={outputs} label="Output" live={active} /></div>
              : <p className="muted">{active ? 'Nothing yet.' : execution ? 'It wrote nothing.' : '–'}</p>}
          {execution && Object.entries(execution.truncated ?? {}).some(([, cut]) => cut) && <p className="small muted">Cut: {Object.entries(execution.truncated).filter(([, cut]) => cut).map(([name]) => name).join(', ')}.</p>}
        </Section>

        <Section id="files" title="Files" note={evidence?.files.mounted?.commit && <span className="small muted mono">read {evidence.files.mounted.commit.slice(0, 12)}…</span>}>
          {changes.length ? <Table label="Changed files" rows={changes} rowKey={(f) => `${f.change} ${f.path}`} columns={[
            { id: 'path', label: 'Path', cell: (f) => (f.version && workspace && f.change !== 'deleted' ? <a href={href('files', workspace, f.path, { version: f.version })}><Name>{f.path}</Name></a> : <Name>{f.path}</Name>), sort: (f) => f.path },
            { id: 'change', label: 'Change', cell: (f) => <><Chip tone={f.change === 'deleted' || f.change === 'refused' || f.change === 'conflict' ? 'warn' : 'plain'}>{f.change}</Chip>{f.note && <span className="small"> {f.note}</span>}</>, sort: (f) => f.change },
            { id: 'size', label: 'Size', num: true, cell: (f) => <Size bytes={f.size} />, sort: (f) => f.size },
          ]} /> : <p className="muted">It changed no files.</p>}
          {evidence?.files.read && evidence.files.read.paths.length > 0 && <details><summary className="small">Read {evidence.files.read.paths.length} {evidence.files.read.paths.length === 1 ? 'file' : 'files'}, as told by the {evidence.files.read.told_by}</summary><ul className="small">{evidence.files.read.paths.map((p) => <li key={p}><Name>{p}</Name></li>)}</ul></details>}
          {(evidence?.files.written_truncated || execution?.files?.truncated) && <p className="small muted">More files changed than are listed.</p>}
        </Section>

        <Section id="network" title="Network" note={execution?.network && <Chip>{execution.network.mode}</Chip>}>
          {blocked.length > 0 && <Attempts list={blocked} label="Blocked" />}
          {allowed.length > 0 && <Attempts list={allowed} label="Allowed" allowed />}
          {!blocked.length && !allowed.length && <p className="muted">It tried to reach nothing.</p>}
        </Section>

        {evidence && <Section id="policy" title="Policy and approval">
          <dl className="facts">
            {evidence.policy && <><dt>Decision</dt><dd className="row"><Chip tone={evidence.policy.verdict === 'allow' ? 'good' : evidence.policy.verdict === 'deny' ? 'bad' : 'warn'}>{evidence.policy.verdict}</Chip><span>rule <code>{evidence.policy.rule ?? '–'}</code>{evidence.policy.layer && ` of layer ${evidence.policy.layer}`}, version {evidence.policy.version}</span></dd></>}
            {evidence.policy?.reason && <><dt>Reason</dt><dd>{evidence.policy.reason}</dd></>}
            <dt>Approval</dt><dd>{approval ? <>{seesApprovals && approval.id ? <a href={href('approvals', approval.id)}>{approval.state ?? approval.id}</a> : approval.state ?? approval.id}{approval.by && <> by <Name>{approval.by_name ?? approval.by}</Name></>}{approval.decided_at && <> at <Time at={approval.decided_at} /></>}{approval.reason && <>: <bdi>{approval.reason}</bdi></>}</> : 'none was needed'}</dd>
            {evidence.checks && evidence.checks.length > 0 && <><dt>Checks</dt><dd>{evidence.checks.map((c, i) => <div key={i}><Chip tone={c.verdict === 'allow' ? 'good' : 'warn'}>{c.verdict}</Chip> {c.action}{c.rule && <> (<code>{c.rule}</code>)</>}</div>)}</dd></>}
            <dt>Isolation</dt><dd>{evidence.isolation ?? '–'}</dd>
            <dt>Request</dt><dd className="mono small">{evidence.who.request}</dd>
          </dl>
        </Section>}

        <Section id="usage" title="Usage">
          {active && progress ? <dl className="facts"><dt>So far</dt><dd>{durationText(progress.elapsed_ms)}</dd><dt>Processor</dt><dd>{durationText(progress.cpu_ms)}</dd>{progress.memory_bytes !== undefined && <><dt>Memory now</dt><dd>{sizeText(progress.memory_bytes)}</dd></>}<dt>Memory, at most</dt><dd>{sizeText(progress.peak_memory_bytes)}</dd></dl>
            : usage ? <dl className="facts"><dt>Time</dt><dd>{durationText(usage.wall_ms)}</dd><dt>Processor</dt><dd>{durationText(usage.cpu_ms)}</dd><dt>Memory, at most</dt><dd>{sizeText(usage.peak_memory_bytes)}</dd>{evidence?.usage?.output_bytes !== undefined && <><dt>Output</dt><dd>{sizeText(evidence.usage.output_bytes)}</dd></>}{evidence && evidence.repeats > 0 && <><dt>Failed the same way</dt><dd>{evidence.repeats} times before</dd></>}</dl>
              : <p className="muted">Nothing was used yet.</p>}
        </Section>
      </Page>
    </div>
  );
}
