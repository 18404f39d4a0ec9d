// SPDX-License-Identifier: Apache-2.0
// Keys and the tokens minted from them: make, narrow, rotate, revoke.
import { useState, type ReactElement } from 'react';
import { api, path } from '../../api/client';
import { useLoad } from '../../api/query';
import type { List, Scope } from '../../api/types';
import { useMe } from '../../app/me';
import { go, href, useRoute } from '../../app/router';
import { ActionButton, Button, Chip, Empty, Field, Loading, Notice, Page, Problem, Tabs, Time, type Tone } from '../../ui/basic';
import { change, Check, Held, SecretOnce, shortId, useKeyNames, Who, type Key } from '../../ui/govern';
import { confirm, Dialog, Menu, toast, toastError, type MenuItem } from '../../ui/overlay';
import { Table } from '../../ui/table';

const scopes: { id: Scope; about: string }[] = [
  { id: 'execute', about: 'run code in sessions' },
  { id: 'files:read', about: 'read files, versions, search' },
  { id: 'files:write', about: 'change files, make workspaces, share' },
  { id: 'workspaces:admin', about: 'act as owner of every workspace' },
  { id: 'audit:read', about: 'read the audit trail and evidence' },
  { id: 'policy:admin', about: 'policy, quotas, secrets, networks' },
  { id: 'approve', about: "decide others' requests" },
  { id: 'admin', about: 'everything, keys included' },
];

const lives: [string, string][] = [['2592000', '30 days'], ['604800', '7 days'], ['86400', '1 day'], ['7776000', '90 days'], ['31536000', '1 year'], ['', 'never']];

type KeyMade = Key & { secret: string };
const words = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean);

interface Spec { name: string; tenant: string; scopes: string[]; pools: string; workspaces: string; sessions: string; life: string }

// The fields of a key. Narrowing offers only what the key has.
function Fields({ spec, set, of, tried }: { spec: Spec; set: (part: Partial<Spec>) => void; of: Key | null; tried: boolean }): ReactElement {
  const offered = scopes.filter((s) => !of || of.scopes.includes(s.id) || of.scopes.includes('admin'));
  const toggle = (id: string, on: boolean) => set({ scopes: on ? [...spec.scopes, id] : spec.scopes.filter((s) => s !== id) });
  return <>
    <Field label="Name" hint="Shown everywhere instead of the id: a person, or a program." problem={tried && !spec.name.trim() ? 'Give the key a name.' : null}>{(p) => <input {...p} className="input" dir="auto" maxLength={128} value={spec.name} autoComplete="off" onChange={(e) => set({ name: e.target.value })} />}</Field>
    <fieldset className="stack tight" aria-describedby={tried && !spec.scopes.length ? 'people-scopes' : undefined}>
      <legend className="small">Scopes</legend>
      <div className="govern-columns">{offered.map((s) => <Check key={s.id} label={<code>{s.id}</code>} hint={s.about} checked={spec.scopes.includes(s.id)} onChange={(on) => toggle(s.id, on)} />)}</div>
      {tried && !spec.scopes.length && <span className="small people-problem" id="people-scopes" role="alert">Choose at least one.</span>}
    </fieldset>
    <div className="govern-columns">
      {!of && <Field label="Tenant" hint="empty: yours">{(p) => <input {...p} className="input" value={spec.tenant} onChange={(e) => set({ tenant: e.target.value })} />}</Field>}
      <Field label={of ? 'Ends' : 'Valid for'}>{(p) => <select {...p} className="input" value={spec.life} onChange={(e) => set({ life: e.target.value })}>{of && <option value="keep">as now</option>}{lives.filter(([v]) => !of || v !== '').map(([v, text]) => <option key={v} value={v}>{of ? `in ${text}` : text}</option>)}</select>}</Field>
    </div>
    <details open={!!(spec.pools || spec.workspaces || spec.sessions)}><summary className="people-more">Bounds</summary><div className="govern-columns people-inner">
      <Field label="Pools" hint="names; empty: all">{(p) => <input {...p} className="input mono" value={spec.pools} onChange={(e) => set({ pools: e.target.value })} />}</Field>
      <Field label="Workspaces" hint="ws_…; empty: all">{(p) => <input {...p} className="input mono" value={spec.workspaces} onChange={(e) => set({ workspaces: e.target.value })} />}</Field>
      <Field label="Sessions" hint="sess_…; empty: all">{(p) => <input {...p} className="input mono" value={spec.sessions} onChange={(e) => set({ sessions: e.target.value })} />}</Field>
    </div></details>
  </>;
}

const bounds = (spec: Spec) => ({ ...(words(spec.pools).length ? { pools: words(spec.pools) } : {}), ...(words(spec.workspaces).length ? { workspaces: words(spec.workspaces) } : {}), ...(words(spec.sessions).length ? { sessions: words(spec.sessions) } : {}) });

function CreateKey({ onClose, onDone }: { onClose: () => void; onDone: () => void }): ReactElement {
  const [spec, setSpec] = useState<Spec>({ name: '', tenant: '', scopes: ['execute', 'files:read', 'files:write'], pools: '', workspaces: '', sessions: '', life: '2592000' });
  const [tried, setTried] = useState(false);
  const [held, setHeld] = useState<string | null>(null);
  const [made, setMade] = useState<KeyMade | null>(null);
  if (made) return <Dialog title="The key was made" onClose={onClose} foot={<Button kind="primary" onClick={onClose}>Done</Button>}><SecretOnce secret={made.secret} what={made.name ?? 'the key'} /></Dialog>;
  return (
    <Dialog wide title="New key" onClose={onClose} foot={<><Button onClick={onClose}>Cancel</Button><ActionButton kind="primary" onError={toastError} action={async () => {
      setTried(true);
      if (!spec.name.trim() || !spec.scopes.length) return;
      const done = await change<KeyMade>('POST', '/api/keys', { name: spec.name.trim(), scopes: spec.scopes, ...(spec.tenant.trim() ? { tenant: spec.tenant.trim() } : {}), ...(spec.life ? { expires_in_s: Number(spec.life) } : {}), ...bounds(spec) });
      setHeld(done.approval);
      if (done.data) {
        setMade(done.data);
        onDone();
      }
    }}>Make the key</ActionButton></>}>
      {held && <Held approval={held} />}
      <Fields spec={spec} set={(part) => setSpec({ ...spec, ...part })} of={null} tried={tried} />
    </Dialog>
  );
}

function NarrowKey({ of, onClose, onDone }: { of: Key; onClose: () => void; onDone: () => void }): ReactElement {
  const first: Spec = { name: of.name ?? '', tenant: of.tenant, scopes: of.scopes, pools: of.pools?.join(' ') ?? '', workspaces: of.workspaces?.join(' ') ?? '', sessions: of.sessions?.join(' ') ?? '', life: 'keep' };
  const [spec, setSpec] = useState(first);
  const [tried, setTried] = useState(false);
  const [held, setHeld] = useState<string | null>(null);
  return (
    <Dialog wide title={`Narrow ${of.name ?? shortId(of.id)}`} onClose={onClose} foot={<><Button onClick={onClose}>Cancel</Button><ActionButton kind="primary" onError={toastError} action={async () => {
      setTried(true);
      if (!spec.name.trim() || !spec.scopes.length) return;
      const list = (name: 'pools' | 'workspaces' | 'sessions') => (spec[name] !== first[name] ? { [name]: words(spec[name]) } : {});
      const body = {
        ...(spec.name !== first.name ? { name: spec.name.trim() } : {}),
        ...(spec.scopes.length !== of.scopes.length || spec.scopes.some((s) => !of.scopes.includes(s)) ? { scopes: spec.scopes } : {}),
        ...list('pools'), ...list('workspaces'), ...list('sessions'),
        ...(spec.life !== 'keep' ? { expires_in_s: Number(spec.life) } : {}),
      };
      const done = await change<Key>('PATCH', path`/api/keys/${of.id}`, body);
      setHeld(done.approval);
      if (done.approval) return;
      toast('The key was changed. It counts from its next request.');
      onDone();
    }}>Change</ActionButton></>}>
      {held && <Held approval={held} />}
      <Notice><p>A key can lose scopes, get bounds and end earlier; the tokens made from it end then. To give more, make another key.</p></Notice>
      <Fields spec={spec} set={(part) => setSpec({ ...spec, ...part })} of={of} tried={tried} />
    </Dialog>
  );
}

const keyState = (k: Key): [string, Tone] => k.revoked_at ? ['revoked', 'bad'] : k.expires_at && new Date(k.expires_at).getTime() < Date.now() ? ['expired', 'plain'] : ['valid', 'good'];

function Bounds({ of }: { of: { pools: string[] | null; workspaces: string[] | null; sessions: string[] | null } }): ReactElement {
  const all = [...(of.pools ?? []).map((p) => `pool ${p}`), ...(of.workspaces ?? []).map(shortId), ...(of.sessions ?? []).map(shortId)];
  return all.length ? <span className="govern-chips">{all.map((b) => <Chip key={b}>{b}</Chip>)}</span> : <span className="muted">none</span>;
}

const Scopes = ({ list }: { list: string[] }): ReactElement => <span className="govern-chips">{list.map((s) => <Chip key={s} tone={s === 'admin' ? 'warn' : 'plain'}>{s}</Chip>)}</span>;

function Keys(): ReactElement {
  const me = useMe();
  const { data, error, reload } = useLoad<List<Key>>('keys', (signal) => api.get('/api/keys', {}, { signal }), { refreshOn: ['key', 'admin'] });
  const [search, setSearch] = useState('');
  const [ended, setEnded] = useState(false);
  const [creating, setCreating] = useState(false);
  const [narrowing, setNarrowing] = useState<Key | null>(null);
  const [rotated, setRotated] = useState<KeyMade | null>(null);
  if (error) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading />;
  const wanted = search.trim().toLowerCase();
  const rows = data.data.filter((k) => (ended || keyState(k)[0] === 'valid') && (!wanted || [k.name, k.id, k.tenant, ...k.scopes].some((t) => t?.toLowerCase().includes(wanted))));
  const hidden = data.data.length - data.data.filter((k) => keyState(k)[0] === 'valid').length;
  const revoke = async (k: Key) => {
    if (!await confirm({ title: `Revoke ${k.name ?? shortId(k.id)}?`, text: 'It and every token made from it stop with their next request. Its sessions and files stay. This cannot be undone.', action: 'Revoke', danger: true })) return;
    const done = await change('DELETE', path`/api/keys/${k.id}`);
    if (!done.approval) toast('The key was revoked.');
    reload();
  };
  const rotate = async (k: Key) => {
    if (!await confirm({ title: `Rotate ${k.name ?? shortId(k.id)}?`, text: 'It gets a new secret and keeps its name, rights and everything it owns. The old secret and the tokens made from the key end at once.', action: 'Rotate', danger: true })) return;
    const done = await change<KeyMade>('POST', path`/api/keys/${k.id}/rotate`);
    if (done.data) setRotated(done.data);
    reload();
  };
  const items = (k: Key): MenuItem[] => [
    { label: 'Narrow…', onSelect: () => setNarrowing(k) },
    { label: 'Rotate…', onSelect: () => { rotate(k).catch(toastError); } },
    { label: 'Its events', onSelect: () => go(href('audit', { actor: k.id })) },
    'line', { label: 'Revoke…', danger: true, onSelect: () => { revoke(k).catch(toastError); } },
  ];
  return (
    <div className="stack">
      <div className="govern-tools">
        <Field label="Search">{(p) => <input {...p} className="input" type="search" dir="auto" value={search} onChange={(e) => setSearch(e.target.value)} />}</Field>
        {hidden > 0 && <Check label={`Show ${hidden} that ended`} checked={ended} onChange={setEnded} />}
        <span className="grow" />
        <Button kind="primary" icon="plus" onClick={() => setCreating(true)}>New key</Button>
      </div>
      <Table label="Keys" rows={rows} rowKey={(k) => k.id} empty={<Empty title="No key fits">Clear the search, or make a key for a person or a program.</Empty>} columns={[
        { id: 'name', label: 'Name', cell: (k) => <span className="row"><strong><Who id={k.id} name={k.name} /></strong>{k.id === me.id && <Chip tone="info">you</Chip>}{keyState(k)[0] !== 'valid' && <Chip tone={keyState(k)[1]}>{keyState(k)[0]}</Chip>}</span>, sort: (k) => k.name ?? k.id },
        { id: 'tenant', label: 'Tenant', cell: (k) => k.tenant, sort: (k) => k.tenant },
        { id: 'scopes', label: 'Scopes', cell: (k) => <Scopes list={k.scopes} /> },
        { id: 'bounds', label: 'Bounds', cell: (k) => <Bounds of={k} /> },
        { id: 'used', label: 'Last used', cell: (k) => (k.last_used_at ? <Time at={k.last_used_at} form="ago" /> : <span className="muted">never</span>), sort: (k) => k.last_used_at },
        { id: 'ends', label: 'Ends', cell: (k) => (k.revoked_at ? <Time at={k.revoked_at} /> : k.expires_at ? <Time at={k.expires_at} /> : <span className="muted">never</span>), sort: (k) => k.expires_at },
        { id: 'do', label: 'Actions', cell: (k) => (keyState(k)[0] === 'valid' ? <Menu compact label={`Actions for ${k.name ?? shortId(k.id)}`} items={items(k)} /> : null) },
      ]} />
      {creating && <CreateKey onClose={() => setCreating(false)} onDone={reload} />}
      {narrowing && <NarrowKey of={narrowing} onClose={() => setNarrowing(null)} onDone={() => {
        setNarrowing(null);
        reload();
      }} />}
      {rotated && <Dialog title="The key has a new secret" onClose={() => setRotated(null)} foot={<Button kind="primary" onClick={() => setRotated(null)}>Done</Button>}><SecretOnce secret={rotated.secret} what={rotated.name ?? 'the key'} /></Dialog>}
    </div>
  );
}

interface Token { id: string; tenant: string; name: string | null; scopes: string[]; pools: string[] | null; workspaces: string[] | null; sessions: string[] | null; created_at: string; expires_at: string; last_used_at: string | null; parent: string; key: string; key_name?: string | null }
type TokenMade = Token & { secret: string };

function CreateToken({ onClose, onDone }: { onClose: () => void; onDone: () => void }): ReactElement {
  const me = useMe();
  const [name, setName] = useState('');
  const [ttl, setTtl] = useState('900');
  const [chosen, setChosen] = useState<string[]>(me.scopes.filter((s) => s !== 'admin' && ['execute', 'files:read', 'files:write'].includes(s)));
  const [session, setSession] = useState('');
  const [workspace, setWorkspace] = useState('');
  const [made, setMade] = useState<TokenMade | null>(null);
  if (made) return <Dialog title="The token was made" onClose={onClose} foot={<Button kind="primary" onClick={onClose}>Done</Button>}><SecretOnce secret={made.secret} what={made.name ?? 'the token'} /></Dialog>;
  return (
    <Dialog wide title="New token" onClose={onClose} foot={<><Button onClick={onClose}>Cancel</Button><ActionButton kind="primary" disabled={!chosen.length} onError={toastError} action={async () => {
      setMade(await api.post<TokenMade>('/api/tokens', { ttl_s: Number(ttl), scopes: chosen, ...(name.trim() ? { name: name.trim() } : {}), ...(session.trim() ? { session: session.trim() } : {}), ...(workspace.trim() ? { workspace: workspace.trim() } : {}) }));
      onDone();
    }}>Make the token</ActionButton></>}>
      <p className="muted">A token stands for you, with at most your rights, and ends by itself.</p>
      <div className="govern-columns">
        <Field label="Name">{(p) => <input {...p} className="input" dir="auto" maxLength={128} value={name} onChange={(e) => setName(e.target.value)} />}</Field>
        <Field label="Valid for">{(p) => <select {...p} className="input" value={ttl} onChange={(e) => setTtl(e.target.value)}><option value="900">15 minutes</option><option value="3600">1 hour</option><option value="28800">8 hours</option><option value="86400">1 day</option></select>}</Field>
        <Field label="Only the session" hint="sess_…; empty: any">{(p) => <input {...p} className="input mono" value={session} onChange={(e) => setSession(e.target.value)} />}</Field>
        <Field label="Only the workspace" hint="ws_…; empty: any">{(p) => <input {...p} className="input mono" value={workspace} onChange={(e) => setWorkspace(e.target.value)} />}</Field>
      </div>
      <fieldset className="stack tight"><legend className="small">Scopes</legend><div className="govern-columns">{scopes.filter((s) => me.scopes.includes(s.id)).map((s) => <Check key={s.id} label={<code>{s.id}</code>} hint={s.about} checked={chosen.includes(s.id)} onChange={(on) => setChosen(on ? [...chosen, s.id] : chosen.filter((c) => c !== s.id))} />)}</div></fieldset>
    </Dialog>
  );
}

function Tokens(): ReactElement {
  const me = useMe();
  const names = useKeyNames();
  const [creating, setCreating] = useState(false);
  const { data, error, reload } = useLoad<List<Token>>('tokens', (signal) => api.get('/api/tokens', { limit: 1000 }, { signal }), { refreshOn: ['token', 'admin', 'audit'] });
  if (error) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading />;
  const revoke = async (t: Token) => {
    const own = t.id === me.token;
    if (!await confirm({ title: own ? 'Revoke the token of this browser?' : `Revoke ${t.name ?? shortId(t.id)}?`, text: own ? 'You are signed out at once.' : 'It and the tokens made from it stop with their next request.', action: 'Revoke', danger: true })) return;
    await api.del(path`/api/tokens/${t.id}`);
    toast('The token was revoked.');
    reload();
  };
  return (
    <div className="stack">
      <div className="row spread"><p className="muted people-lead">Short-lived credentials of keys and people. A console that is signed in has one, too.</p><Button icon="plus" onClick={() => setCreating(true)}>New token</Button></div>
      <Table label="Tokens" rows={data.data} rowKey={(t) => t.id} empty={<Empty title="No live tokens" action={<Button onClick={() => setCreating(true)}>New token</Button>}>Make one to give a program part of your rights for a short time.</Empty>} columns={[
        { id: 'name', label: 'Name', cell: (t) => <span className="row">{t.name ? <bdi title={t.id}>{t.name}</bdi> : <span className="mono" title={t.id}>{shortId(t.id)}</span>}{t.id === me.token && <Chip tone="info">this browser</Chip>}</span>, sort: (t) => t.name ?? t.id },
        { id: 'key', label: 'Stands for', cell: (t) => <Who id={t.key} name={t.key_name ?? names(t.key)} />, sort: (t) => t.key_name ?? names(t.key) ?? t.key },
        { id: 'scopes', label: 'Scopes', cell: (t) => <Scopes list={t.scopes} /> },
        { id: 'bounds', label: 'Bounds', cell: (t) => <Bounds of={t} /> },
        { id: 'made', label: 'Made', cell: (t) => <Time at={t.created_at} />, sort: (t) => t.created_at },
        { id: 'ends', label: 'Ends', cell: (t) => <Time at={t.expires_at} form="ago" />, sort: (t) => t.expires_at },
        { id: 'do', label: 'Actions', cell: (t) => <ActionButton compact kind="danger" onError={toastError} action={() => revoke(t)}>Revoke</ActionButton> },
      ]} />
      {creating && <CreateToken onClose={() => setCreating(false)} onDone={reload} />}
    </div>
  );
}

export default function People(): ReactElement {
  const { parts } = useRoute();
  const tab = parts[0] === 'tokens' ? 'tokens' : 'keys';
  return (
    <Page title="Keys and people" lead="Who may do what. A name is shown wherever the holder of a key acts.">
      <Tabs label="Keys and people" value={tab} onChange={(id) => go(id === 'keys' ? href('people') : href('people', 'tokens'))} tabs={[{ id: 'keys', label: 'Keys' }, { id: 'tokens', label: 'Tokens' }]} />
      {tab === 'keys' ? <Keys /> : <Tokens />}
    </Page>
  );
}
