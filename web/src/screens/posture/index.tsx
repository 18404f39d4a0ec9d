// SPDX-License-Identifier: Apache-2.0
// May code run here? The gate and its walls, the scorecard with its evidence,
// the settings, and the age of the images.
import { useMemo, useState, type ReactElement } from 'react';
import { api } from '../../api/client';
import { useLoad } from '../../api/query';
import type { List } from '../../api/types';
import { useMay, useMe } from '../../app/me';
import { go, href, useRoute } from '../../app/router';
import { Button, Chip, Empty, Loading, Meter, Notice, Page, Problem, Ring, sizeText, Tabs, Time } from '../../ui/basic';
import { Facts, Section, Who } from '../../ui/govern';
import { toastError } from '../../ui/overlay';
import { Plot } from '../../ui/plot';
import { Table } from '../../ui/table';
import type { Runtime } from '../pools/types';

interface GateCheck { name: string; state: 'ok' | 'accepted' | 'failed'; why: string; fix: string | null }
interface Setting { control: string; name: string; ok: boolean; found: string; advice: string | null }
interface PostureState {
  gate: { open: boolean; checks: GateCheck[] };
  service: { version: string; uid: number; configuration: string; local: boolean; tls: boolean; audit_required: boolean };
  sandboxes: { in_use: number; cgroup_version: number };
  memory: { machine_bytes: number; granted_bytes: number; overcommit: number; exceeded: boolean };
  pools: { name: string; runtime: string; isolation: string; egress: string; persistence: string; lifetime_s: number; memory_bytes: number; processes: number; python_timeout_max_s: number }[];
  settings: Setting[];
  walls?: { name: string; stands: boolean; accepted: boolean }[];
}

interface Control { control: string; title: string; pass: boolean; works: 'pass' | 'fail' | 'not_measured'; configured: boolean; evidence: ({ holds: boolean; seen: string } | string)[]; findings: { name: string; found: string; advice: string }[] }
interface Card { works: { passed: number; failed: number; not_measured: number }; configured: { passed: number; findings: number }; controls: Control[] }
interface Scorecard extends Card { at: string; by: string; by_name: string | null }
type Result = Omit<Scorecard, keyof Card> & { card: Card };
const flat = ({ card, ...rest }: Result): Scorecard => ({ ...rest, ...card });

const stateTone = { ok: 'good', accepted: 'warn', failed: 'bad' } as const;
const checkNames: Record<string, string> = { environment: 'Environment', outbound: 'Outbound', identity: 'Identity', walls: 'Walls', policy: 'Policy', audit: 'Audit', data: 'Data directory' };
const wallNames: Record<string, string> = { uids: 'Own user ids', memory: 'Memory limit', pids: 'Process limit', cpu: 'Processor limit', scratch: 'Disk limit', landlock: 'Landlock', seccomp: 'System call filter', userns: 'User namespaces' };
const worksTone = { pass: 'good', fail: 'bad', not_measured: 'warn' } as const;
const worksText = { pass: 'works', fail: 'fails', not_measured: 'not measured' };

function Gate({ state }: { state: PostureState }): ReactElement {
  return <>
    <div className={`panel posture-gate ${state.gate.open ? 'open' : 'closed'}`}>
      <span className="posture-port" aria-hidden="true" />
      <div className="grow">
        <h2>{state.gate.open ? 'The gate is open: code may run' : 'The gate is closed: no code runs'}</h2>
        <p className="muted posture-flat">{state.gate.open ? `All ${state.gate.checks.length} checks hold${state.gate.checks.some((c) => c.state === 'accepted') ? ', some because an operator accepted them' : ''}. They are evaluated anew each time this page is loaded.` : 'Fix the failed checks, or accept one by name in accept_gate.'}</p>
      </div>
    </div>
    <Table label="Checks of the gate" rows={state.gate.checks} rowKey={(c) => c.name} columns={[
      { id: 'name', label: 'Check', cell: (c) => <strong>{checkNames[c.name] ?? c.name}</strong> },
      { id: 'state', label: 'State', cell: (c) => <Chip tone={stateTone[c.state]}>{c.state === 'ok' ? 'holds' : c.state}</Chip> },
      { id: 'why', label: 'Found', cell: (c) => <bdi>{c.why}</bdi> },
      { id: 'fix', label: 'What to do', cell: (c) => (c.fix ? <bdi>{c.fix}</bdi> : <span className="muted">–</span>) },
    ]} />
    {state.walls && <Section title="Walls" lead="Each stands between code and the host. A session does not start when one cannot be built.">
      <ul className="posture-walls">{state.walls.map((w) => <li key={w.name}><Ring state={w.stands ? 'good' : w.accepted ? 'warn' : 'bad'} /><span title={w.name}>{wallNames[w.name] ?? w.name}</span><span className="muted small">{w.stands ? 'stands' : w.accepted ? 'missing, accepted' : 'missing'}</span></li>)}</ul>
    </Section>}
    <div className="grid">
      <section className="panel" aria-labelledby="posture-service"><h2 id="posture-service">Service</h2><Facts rows={[['Version', state.service.version], ['Configuration', state.service.configuration ? <code>{state.service.configuration}</code> : 'defaults'], ['Account', `uid ${state.service.uid}`], ['Reached from', state.service.local ? 'this machine alone' : 'other machines'], ['TLS', state.service.tls ? 'yes' : 'no'], ['Changes need an event', state.service.audit_required ? 'yes' : 'no'], ['Control groups', `version ${state.sandboxes.cgroup_version}`], ['Sandboxes', state.sandboxes.in_use]]} /></section>
      <section className="panel" aria-labelledby="posture-memory"><h2 id="posture-memory">Memory</h2><div className="stack tight"><Meter label="Memory granted to sessions" value={state.memory.granted_bytes} max={state.memory.machine_bytes} /><Facts rows={[['Granted', `${sizeText(state.memory.granted_bytes)} to live sessions`], ['Machine', sizeText(state.memory.machine_bytes)], ['Overcommit', state.memory.overcommit ? `up to ${state.memory.overcommit} times` : 'no limit']]} />{state.memory.exceeded && <Notice tone="warn"><p>Live sessions may together use more memory than there is.</p></Notice>}</div></section>
    </div>
    <Section title="Bounds of the pools">
      <Table label="Bounds of the pools" rows={state.pools} rowKey={(p) => p.name} columns={[
        { id: 'name', label: 'Pool', cell: (p) => <a href={href('pools', p.name)}>{p.name}</a>, sort: (p) => p.name },
        { id: 'isolation', label: 'Isolation', cell: (p) => p.isolation, sort: (p) => p.isolation },
        { id: 'egress', label: 'Network', cell: (p) => <Chip tone={p.egress === 'open' ? 'bad' : p.egress === 'none' ? 'good' : 'info'}>{p.egress}</Chip>, sort: (p) => p.egress },
        { id: 'memory', label: 'Memory', num: true, cell: (p) => sizeText(p.memory_bytes), sort: (p) => p.memory_bytes },
        { id: 'processes', label: 'Processes', num: true, cell: (p) => p.processes, sort: (p) => p.processes },
        { id: 'timeout', label: 'Longest run', num: true, cell: (p) => `${p.python_timeout_max_s} s`, sort: (p) => p.python_timeout_max_s },
        { id: 'life', label: 'Sandbox lives', num: true, cell: (p) => `${Math.round(p.lifetime_s / 3600)} h`, sort: (p) => p.lifetime_s },
      ]} />
    </Section>
  </>;
}

function Evidence({ control }: { control: Control }): ReactElement {
  return (
    <details className="panel posture-control">
      <summary><span className="row spread"><strong>{control.title ?? control.control}</strong><span className="govern-chips"><Chip tone={worksTone[control.works]}>{worksText[control.works]}</Chip><Chip tone={control.configured ? 'good' : 'warn'}>{control.configured ? 'configured' : `${control.findings.length} weak ${control.findings.length === 1 ? 'setting' : 'settings'}`}</Chip></span></span></summary>
      <ul className="posture-evidence">{control.evidence.map((e, i) => typeof e === 'string' ? <li key={i}><bdi>{e}</bdi></li> : <li key={i}><span className={e.holds ? 'posture-good' : 'posture-bad'}>{e.holds ? '✓' : '✗'}<span className="visually-hidden">{e.holds ? 'holds' : 'does not hold'}</span></span> <bdi>{e.seen}</bdi></li>)}</ul>
      {control.findings.length > 0 && <ul className="posture-evidence">{control.findings.map((f) => <li key={f.name}><strong>{f.found}</strong><br /><span className="muted">{f.advice}</span></li>)}</ul>}
    </details>
  );
}

function Score(): ReactElement {
  const { data, error, reload } = useLoad('scorecards', async (signal) => (await api.get<List<Result>>('/api/scorecard', { limit: 50 }, { signal })).data.map(flat));
  const [running, setRunning] = useState(false);
  const [chosen, setChosen] = useState<Scorecard | null>(null);
  const run = () => {
    setRunning(true);
    api.post<Result>('/api/scorecard').then((made) => {
      setChosen(flat(made));
      reload();
    }).catch(toastError).finally(() => setRunning(false));
  };
  const button = <Button kind="primary" disabled={running} aria-busy={running} onClick={run}>{running ? 'Running…' : 'Run the scorecard'}</Button>;
  const newest = chosen ?? data?.[0] ?? null;
  const past = useMemo(() => [...(data ?? [])].reverse(), [data]);
  if (error && !data) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading />;
  return (
    <div className="stack posture-sections">
      <Section title="Ten controls" lead="Each is probed in real sessions of this service, and its settings are compared with what we recommend." actions={button}>
        {running && <Loading what="Probing in real sessions" />}
        {!newest && !running && <Empty title="The scorecard was never run" action={button}>It takes about ten seconds and removes what it makes.</Empty>}
        {newest && <>
          <Notice tone={newest.works.failed ? 'bad' : newest.configured.findings || newest.works.not_measured ? 'warn' : 'good'}><p><strong>{newest.works.passed} of {newest.works.passed + newest.works.failed + newest.works.not_measured} controls work</strong>{newest.works.not_measured > 0 && `, ${newest.works.not_measured} could not be measured`}{newest.works.failed > 0 && `, ${newest.works.failed} fail`}; {newest.configured.findings} {newest.configured.findings === 1 ? 'setting is' : 'settings are'} weaker than recommended. <Time at={newest.at} />, by <Who id={newest.by} name={newest.by_name} />.</p></Notice>
          <div className="posture-controls">{newest.controls.map((c) => <Evidence key={c.control} control={c} />)}</div>
        </>}
      </Section>
      {past.length > 0 && <Section title="History">
        {past.length > 1 && <div className="panel"><Plot title="Controls that work, and advice" times={past.map((s) => s.at)} series={[{ name: 'controls that work', values: past.map((s) => s.works.passed) }, { name: 'weaker settings', values: past.map((s) => s.configured.findings) }]} /></div>}
        <Table label="Earlier scorecards" rows={data} rowKey={(s) => s.at} columns={[
          { id: 'at', label: 'When', cell: (s) => <Time at={s.at} />, sort: (s) => s.at },
          { id: 'by', label: 'By', cell: (s) => <Who id={s.by} name={s.by_name} /> },
          { id: 'works', label: 'Work', num: true, cell: (s) => s.works.passed, sort: (s) => s.works.passed },
          { id: 'fail', label: 'Fail', num: true, cell: (s) => s.works.failed, sort: (s) => s.works.failed },
          { id: 'unknown', label: 'Not measured', num: true, cell: (s) => s.works.not_measured, sort: (s) => s.works.not_measured },
          { id: 'advice', label: 'Weaker settings', num: true, cell: (s) => s.configured.findings, sort: (s) => s.configured.findings },
          { id: 'do', label: 'Actions', cell: (s) => <Button compact onClick={() => { setChosen(s); scrollTo(0, 0); }}>Show</Button> },
        ]} />
      </Section>}
    </div>
  );
}

function Settings({ state }: { state: PostureState }): ReactElement {
  const weak = state.settings.filter((s) => !s.ok).length;
  return <>
    <Notice tone={weak ? 'warn' : 'good'}><p>{weak ? `${weak} of ${state.settings.length} settings are weaker than recommended.` : 'Every setting is as recommended.'} The gate does not depend on them.</p></Notice>
    <Table label="Settings" rows={state.settings} rowKey={(s) => `${s.control} ${s.name}`} first={{ id: 'ok', down: false }} columns={[
      { id: 'ok', label: 'State', cell: (s) => <Chip tone={s.ok ? 'good' : 'warn'}>{s.ok ? 'fine' : 'weak'}</Chip>, sort: (s) => (s.ok ? 1 : 0) },
      { id: 'control', label: 'Control', cell: (s) => s.control, sort: (s) => s.control },
      { id: 'name', label: 'Setting', cell: (s) => <code>{s.name}</code>, sort: (s) => s.name },
      { id: 'found', label: 'Found', cell: (s) => <bdi>{s.found}</bdi> },
      { id: 'advice', label: 'What to do', cell: (s) => (s.advice ? <bdi>{s.advice}</bdi> : <span className="muted">–</span>) },
    ]} />
  </>;
}

const OLD_DAYS = 30;

function Images(): ReactElement {
  const { data, error, reload } = useLoad<List<Runtime>>('runtimes', (signal) => api.get('/api/runtimes', {}, { signal }));
  if (error) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading />;
  return <>
    <p className="muted posture-flat">An image has the security updates of the day it was built. Build one again with <code>glovebox runtime build NAME</code>.</p>
    <Table label="Runtime images" rows={data.data} rowKey={(r) => r.name} empty={<Empty title="No image is built">Build one with <code>make run</code> or <code>glovebox runtime build</code>.</Empty>} columns={[
      { id: 'name', label: 'Image', cell: (r) => <a href={href('pools', 'runtimes', r.name)}>{r.name}</a>, sort: (r) => r.name },
      { id: 'age', label: 'Age', cell: (r) => {
        if (!r.built_at) return <Chip tone="bad">not built</Chip>;
        const days = Math.floor((Date.now() - new Date(r.built_at).getTime()) / 86_400_000);
        return <Chip tone={days > OLD_DAYS ? 'warn' : 'good'}>{days === 0 ? 'today' : `${days} ${days === 1 ? 'day' : 'days'}`}</Chip>;
      }, sort: (r) => r.built_at },
      { id: 'built', label: 'Built', cell: (r) => <Time at={r.built_at} />, sort: (r) => r.built_at },
      { id: 'suite', label: 'Debian', cell: (r) => r.suite, sort: (r) => r.suite },
      { id: 'python', label: 'Python', cell: (r) => r.python, sort: (r) => r.python },
      { id: 'size', label: 'Size', num: true, cell: (r) => sizeText(r.size_bytes), sort: (r) => r.size_bytes },
      { id: 'packages', label: 'Packages', cell: (r) => <a href={href('pools', 'runtimes', r.name)}>Search its packages</a> },
    ]} />
  </>;
}

const tabs = [{ id: 'gate', label: 'Gate and walls' }, { id: 'scorecard', label: 'Scorecard' }, { id: 'settings', label: 'Settings' }, { id: 'images', label: 'Images' }] as const;
type Tab = (typeof tabs)[number]['id'];

export default function Posture(): ReactElement {
  const { parts } = useRoute();
  const me = useMe();
  const operator = me.tenant === 'default';
  const admin = useMay('admin');
  const { data, error, reload } = useLoad<PostureState>(operator ? 'posture' : null, (signal) => api.get('/api/posture', {}, { signal }), { refreshOn: ['health', 'policy', 'admin'] });
  const tab: Tab = operator ? tabs.find((t) => t.id === parts[0] && (admin || t.id !== 'scorecard'))?.id ?? 'gate' : 'images';
  const weak = data?.settings.filter((s) => !s.ok).length ?? 0;
  const shown = tabs.filter((t) => t.id === 'images' || (operator && (admin || t.id !== 'scorecard')));
  return (
    <Page title="Posture" lead="Whether this service is fit to run code, and what shows it.">
      {shown.length > 1 && <Tabs<Tab> label="Posture" value={tab} onChange={(id) => go(id === 'gate' ? href('posture') : href('posture', id))} tabs={shown.map((t) => ({ id: t.id, label: t.id === 'settings' && weak ? `Settings (${weak})` : t.label }))} />}
      {tab === 'scorecard' ? <Score /> : tab === 'images' ? <Images /> : error && !data ? <Problem error={error} retry={reload} /> : !data ? <Loading /> : tab === 'gate' ? <Gate state={data} /> : <Settings state={data} />}
    </Page>
  );
}
