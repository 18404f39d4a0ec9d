// SPDX-License-Identifier: Apache-2.0
// Pools: where sessions come from. Runtimes: what is installed in them.
import { useMemo, useState, type ReactElement } from 'react';
import { api, path } from '../../api/client';
import { useLoad } from '../../api/query';
import type { List } from '../../api/types';
import { useMay } from '../../app/me';
import { go, href, useRoute } from '../../app/router';
import { ActionButton, Button, Chip, Empty, Field, Loading, Meter, Notice, Page, Problem, sizeText, Tabs, Time } from '../../ui/basic';
import { Check, Facts, Section } from '../../ui/govern';
import { confirm, Dialog, Menu, toast, toastError } from '../../ui/overlay';
import { Table, VirtualList } from '../../ui/table';
import { usePools, type Pool } from '../network/data';
import type { Runtime, RuntimeWhole } from './types';

const useRuntimes = () => useLoad<List<Runtime>>('runtimes', (signal) => api.get('/api/runtimes', {}, { signal }));

interface Form { name: string; kind: string; runtime: string; persistence: string; max_sessions: string; cooldown_s: string; ready_wanted: string; memory_mib: string; max_timeout_s: string; egress: string; egress_allow: string; packages: boolean; sharing: string }
const formOf = (pool: Pool | null, like: Pool): Form => {
  const p = pool ?? like;
  return { name: pool?.name ?? '', kind: p.kind, runtime: p.runtime, persistence: p.persistence, max_sessions: String(p.max_sessions), cooldown_s: String(p.cooldown_s), ready_wanted: String(pool ? p.ready_wanted : Math.min(1, p.ready_wanted)), memory_mib: String(Math.round(p.limits.memory_bytes / 1_048_576)), max_timeout_s: String(p.limits.python_timeout_max_s), egress: p.egress, egress_allow: p.egress_allow, packages: p.packages, sharing: p.sharing };
};

function PoolDialog({ pool, like, runtimes, onClose, onDone }: { pool: Pool | null; like: Pool; runtimes: string[]; onClose: () => void; onDone: () => void }): ReactElement {
  const [form, setForm] = useState(() => formOf(pool, like));
  const [tried, setTried] = useState(false);
  const first = useMemo(() => formOf(pool, like), [pool, like]);
  const set = (part: Partial<Form>) => setForm({ ...form, ...part });
  const whole = (text: string, min: number, max: number): string | null => (/^\d+$/.test(text) && Number(text) >= min && Number(text) <= max ? null : `${min.toLocaleString()} to ${max.toLocaleString()}.`);
  const bad = {
    name: pool || /^[a-z][a-z0-9-]{0,62}$/.test(form.name) ? null : '1 to 63 of a-z, 0-9 and -, beginning with a letter.',
    max_sessions: whole(form.max_sessions, 1, 100_000), cooldown_s: whole(form.cooldown_s, 1, 2_592_000), ready_wanted: whole(form.ready_wanted, 0, 100),
    memory_mib: whole(form.memory_mib, 64, Math.floor(like.limits.max_memory_bytes / 1_048_576)), max_timeout_s: whole(form.max_timeout_s, 5, 86_400),
  };
  const save = async () => {
    setTried(true);
    if (Object.values(bad).some(Boolean)) return;
    const values: Record<string, unknown> = {
      kind: form.kind, runtime: form.runtime, persistence: form.persistence, max_sessions: Number(form.max_sessions), cooldown_s: Number(form.cooldown_s), ready_wanted: Number(form.ready_wanted),
      memory_bytes: Number(form.memory_mib) * 1_048_576, max_timeout_s: Number(form.max_timeout_s), egress: form.egress, egress_allow: form.egress === 'allowlist' ? form.egress_allow.split(/[\s,]+/).filter(Boolean).join(',') : '', packages: form.packages, sharing: form.sharing,
    };
    // A change names what was changed; the rest keeps its value.
    const source: Record<string, keyof Form> = { memory_bytes: 'memory_mib' };
    const body = pool ? Object.fromEntries(Object.entries(values).filter(([k]) => form[source[k] ?? k as keyof Form] !== first[source[k] ?? k as keyof Form] || (k === 'egress_allow' && form.egress !== first.egress))) : { name: form.name, ...values };
    if (pool) await api.patch(path`/api/pools/${pool.name}`, body);
    else await api.post('/api/pools', body);
    toast(pool ? 'The pool was changed. New sandboxes have the new settings.' : 'The pool was made.');
    onDone();
  };
  const number = (name: 'max_sessions' | 'cooldown_s' | 'ready_wanted' | 'memory_mib' | 'max_timeout_s', label: string, hint?: string) => <Field label={label} hint={hint} problem={tried ? bad[name] : null}>{(p) => <input {...p} className="input" inputMode="numeric" value={form[name]} onChange={(e) => set({ [name]: e.target.value })} />}</Field>;
  const choice = (name: 'kind' | 'runtime' | 'persistence' | 'egress' | 'sharing', label: string, options: [string, string][], hint?: string) => <Field label={label} hint={hint}>{(p) => <select {...p} className="input" value={form[name]} onChange={(e) => set({ [name]: e.target.value })}>{options.map(([v, text]) => <option key={v} value={v}>{text}</option>)}</select>}</Field>;
  return (
    <Dialog wide title={pool ? `Pool ${pool.name}` : 'New pool'} onClose={onClose} foot={<><Button onClick={onClose}>Cancel</Button><ActionButton kind="primary" onError={toastError} action={save}>{pool ? 'Change' : 'Make the pool'}</ActionButton></>}>
      <div className="govern-columns">
        {!pool && <Field label="Name" problem={tried ? bad.name : null}>{(p) => <input {...p} className="input" value={form.name} autoComplete="off" onChange={(e) => set({ name: e.target.value })} />}</Field>}
        {choice('runtime', 'Runtime', runtimes.map((r) => [r, r]))}
        {choice('persistence', 'Files', [['workspace', 'kept, with versions'], ['ephemeral', 'never kept']])}
        {choice('sharing', 'New sessions are seen by', [['default', 'as the API and the tenant say'], ['principal', 'their owner'], ['tenant', 'the whole tenant']])}
        {number('memory_mib', 'Memory of a session', 'MiB')}
        {number('max_timeout_s', 'Longest run', 'seconds')}
        {number('cooldown_s', 'Sessions expire after', 'idle seconds')}
        {number('max_sessions', 'Awake at once', 'sessions')}
        {number('ready_wanted', 'Kept ready', 'sandboxes')}
        {choice('egress', 'Network', [['none', 'nothing'], ['allowlist', 'the hosts of a list'], ['open', 'every public address']])}
        {form.egress === 'allowlist' && <Field label="Hosts" hint="host or host:port, separated by commas">{(p) => <input {...p} className="input mono" value={form.egress_allow} onChange={(e) => set({ egress_allow: e.target.value })} />}</Field>}
      </div>
      {form.egress === 'open' && <Notice tone="bad"><p>Unreviewed code can send what it sees anywhere, and the gate closes unless an operator accepts it.</p></Notice>}
      <Check label="pip may install packages that the policy allows" checked={form.packages} onChange={(packages) => set({ packages })} />
    </Dialog>
  );
}

function Pools({ chosen }: { chosen: string | null }): ReactElement {
  const may = useMay('admin');
  const { data, error, reload } = usePools();
  const runtimes = useRuntimes();
  const [editing, setEditing] = useState<Pool | 'new' | null>(null);
  if (error) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading />;
  const like = data.data[0];
  const remove = async (pool: Pool) => {
    if (!await confirm({ title: `Delete the pool ${pool.name}?`, text: `Its ${pool.sessions} ${pool.sessions === 1 ? 'session ends' : 'sessions end'}. Their files are committed first, and their workspaces stay.`, action: 'Delete the pool', danger: true, typed: pool.name })) return;
    await api.del(path`/api/pools/${pool.name}`);
    toast(`The pool ${pool.name} was deleted.`);
    reload();
  };
  const made = [...new Set([...data.data.filter((p) => p.source === 'configuration').map((p) => p.runtime), ...(runtimes.data?.data.filter((r) => r.built && data.data.some((p) => p.runtime === r.name)).map((r) => r.name) ?? [])])];
  const one = data.data.find((p) => p.name === chosen);
  return (
    <div className="stack">
      {may && like && <div className="row"><Button kind="primary" icon="plus" onClick={() => setEditing('new')}>New pool</Button></div>}
      <Table label="Pools" rows={data.data} rowKey={(p) => p.name} chosen={(p) => p.name === chosen} empty={<Empty title="No pools">Add one to the configuration of the service.</Empty>} columns={[
        { id: 'name', label: 'Pool', cell: (p) => <span className="row"><a href={href('pools', p.name)}>{p.name}</a>{p.source === 'configuration' && <Chip title="Changed in the configuration of the service">configuration</Chip>}</span>, sort: (p) => p.name },
        { id: 'runtime', label: 'Runtime', cell: (p) => <a href={href('pools', 'runtimes', p.runtime)}>{p.runtime}</a>, sort: (p) => p.runtime },
        { id: 'sessions', label: 'Sessions', cell: (p) => <div className="pools-meter"><span className="nowrap">{p.sessions.toLocaleString()} of {p.max_sessions.toLocaleString()}</span><Meter label={`Sessions of ${p.name}`} value={p.sessions} max={p.max_sessions} /></div>, sort: (p) => p.sessions },
        { id: 'ready', label: 'Ready', num: true, cell: (p) => `${p.ready} of ${p.ready_wanted}`, sort: (p) => p.ready },
        { id: 'memory', label: 'Memory', num: true, cell: (p) => sizeText(p.limits.memory_bytes), sort: (p) => p.limits.memory_bytes },
        { id: 'egress', label: 'Network', cell: (p) => <span className="govern-chips"><Chip tone={p.egress === 'open' ? 'bad' : p.egress === 'none' ? 'good' : 'info'}>{p.egress}</Chip>{p.packages && <Chip tone="info">packages</Chip>}</span>, sort: (p) => p.egress },
        { id: 'files', label: 'Files', cell: (p) => (p.persistence === 'ephemeral' ? 'never kept' : 'kept'), sort: (p) => p.persistence },
        ...(may ? [{ id: 'do', label: 'Actions', cell: (p: Pool) => (p.source === 'made' ? <Menu compact label={`Actions for ${p.name}`} items={[{ label: 'Change…', onSelect: () => setEditing(p) }, 'line', { label: 'Delete…', danger: true, onSelect: () => { remove(p).catch(toastError); } }]} /> : <span className="muted small">in the file</span>) }] : []),
      ]} />
      {one && <Section title={`Pool ${one.name}`}><div className="panel"><Facts rows={[
        ['Source', one.source === 'made' ? <>made <Time at={one.created_at} />, changed <Time at={one.updated_at} /></> : 'the configuration'],
        ['Sessions expire', `after ${one.cooldown_s.toLocaleString()} idle seconds`], ['A sandbox lives', `at most ${(one.lifetime_s / 3600).toLocaleString()} hours`],
        ['Network', one.egress_allow ? <>{one.egress}: <code>{one.egress_allow}</code></> : one.egress], ['Budget of a session', `${sizeText(one.egress_bytes)}, ${one.egress_connections} connections, ${one.egress_requests.toLocaleString()} requests`],
        ...Object.entries(one.limits).map(([name, value]): [string, string] => [name.replaceAll('_', ' ').replace(/ bytes$/, '').replace(/ s$/, ''), name.endsWith('_bytes') ? sizeText(value) : name.endsWith('_s') ? `${value} s` : value.toLocaleString()]),
      ]} /></div></Section>}
      {editing && like && <PoolDialog pool={editing === 'new' ? null : editing} like={like} runtimes={made} onClose={() => setEditing(null)} onDone={() => {
        setEditing(null);
        reload();
      }} />}
    </div>
  );
}

function RuntimePage({ name }: { name: string }): ReactElement {
  const { data, error, reload } = useLoad<RuntimeWhole>(`runtime ${name}`, (signal) => api.get(path`/api/runtimes/${name}`, {}, { signal }));
  const [search, setSearch] = useState('');
  const found = useMemo(() => {
    const wanted = search.trim().toLowerCase();
    const python = (data?.distributions ?? []).map((d) => ({ name: d.name, version: d.version, kind: 'Python' }));
    const debian = (data?.packages ?? []).map((p) => ({ name: p, version: '', kind: 'Debian' }));
    const fonts = (data?.fonts ?? []).map((p) => ({ name: p, version: '', kind: 'font' }));
    return [...python, ...debian, ...fonts].filter((p) => !wanted || p.name.toLowerCase().includes(wanted)).sort((a, b) => a.name.toLowerCase().localeCompare(b.name.toLowerCase()));
  }, [data, search]);
  if (error) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading />;
  const missing = data.missing ? [...data.missing.packages, ...data.missing.fonts, ...data.missing.modules].map((m) => (typeof m === 'string' ? m : m.name)) : [];
  return (
    <div className="stack">
      <nav className="crumbs" aria-label="Path"><a href={href('pools', 'runtimes')}>Runtimes</a><span aria-hidden="true">/</span><span>{data.name}</span></nav>
      <div className="panel"><Facts rows={[['About', data.description], ['Python', data.python], ['Debian', `${data.suite}, ${data.architecture}`], ['Built', <Time at={data.built_at} />], ['Size', sizeText(data.size_bytes)], ['Image', <code>{data.hash}</code>], ['Loaded before sessions', data.preload?.length ? data.preload.join(', ') : null]]} /></div>
      {missing.length > 0 && <Notice tone="warn"><p>Asked for, but not in the image: {missing.join(', ')}. Build it again when it is available.</p></Notice>}
      <Section title="What is installed" lead={`${data.distributions.length.toLocaleString()} Python distributions, ${data.packages.length.toLocaleString()} Debian packages asked for, ${data.fonts.length} fonts.`}>
        <div className="govern-tools"><Field label="Search by name">{(p) => <input {...p} className="input" type="search" value={search} onChange={(e) => setSearch(e.target.value)} />}</Field><span className="muted small" role="status">{found.length.toLocaleString()} found</span></div>
        {found.length ? <div className="panel flush"><VirtualList fit label="Installed packages" count={found.length} rowHeight={34} height={520} row={(i) => <div className="pools-package"><span className="truncate"><code>{found[i].name}</code></span><span className="mono muted truncate">{found[i].version}</span><Chip>{found[i].kind}</Chip></div>} /></div> : <p className="muted">Nothing of that name. A session whose network has packages can install it with pip, if the policy allows it.</p>}
      </Section>
    </div>
  );
}

function Runtimes(): ReactElement {
  const { data, error, reload } = useRuntimes();
  if (error) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading />;
  return <Table label="Runtimes" rows={data.data} rowKey={(r) => r.name} empty={<Empty title="No runtime is built">Build one with <code>glovebox runtime build</code>.</Empty>} columns={[
    { id: 'name', label: 'Runtime', cell: (r) => <><a href={href('pools', 'runtimes', r.name)}>{r.name}</a><br /><span className="muted">{r.description}</span></>, sort: (r) => r.name },
    { id: 'python', label: 'Python', cell: (r) => r.python, sort: (r) => r.python },
    { id: 'suite', label: 'Debian', cell: (r) => r.suite, sort: (r) => r.suite },
    { id: 'built', label: 'Built', cell: (r) => (r.built ? <Time at={r.built_at} form="ago" /> : <Chip tone="warn">not built</Chip>), sort: (r) => r.built_at },
    { id: 'size', label: 'Size', num: true, cell: (r) => sizeText(r.size_bytes), sort: (r) => r.size_bytes },
  ]} />;
}

export default function PoolsScreen(): ReactElement {
  const { parts } = useRoute();
  const tab = parts[0] === 'runtimes' ? 'runtimes' : 'pools';
  return (
    <Page title="Pools and runtimes" lead="A pool says where sessions come from and what they may use; a runtime is the image they run in.">
      <Tabs label="Pools and runtimes" value={tab} onChange={(id) => go(id === 'pools' ? href('pools') : href('pools', 'runtimes'))} tabs={[{ id: 'pools', label: 'Pools' }, { id: 'runtimes', label: 'Runtimes' }]} />
      {tab === 'pools' ? <Pools chosen={parts[0] ?? null} /> : parts[1] ? <RuntimePage key={parts[1]} name={parts[1]} /> : <Runtimes />}
    </Page>
  );
}
