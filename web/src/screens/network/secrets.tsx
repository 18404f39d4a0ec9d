// SPDX-License-Identifier: Apache-2.0
// Secrets that the proxy adds to requests. Their values go in and never come out.
import { useState, type ReactElement } from 'react';
import { api, path } from '../../api/client';
import { useLoad } from '../../api/query';
import type { List } from '../../api/types';
import { ActionButton, Button, Empty, Field, Loading, Problem, Time } from '../../ui/basic';
import { change, Held, useKeyNames, Who } from '../../ui/govern';
import { confirm, Dialog, Menu, toast, toastError } from '../../ui/overlay';
import { Table } from '../../ui/table';

interface Secret { name: string; destinations: string[]; header: string; prefix: string; made_by: string; made_by_name?: string | null; created_at: string; updated_at: string; used_at: string | null }

function SecretDialog({ old, onClose, onDone }: { old: Secret | null; onClose: () => void; onDone: () => void }): ReactElement {
  const [name, setName] = useState(old?.name ?? '');
  const [value, setValue] = useState('');
  const [destinations, setDestinations] = useState(old?.destinations.join('\n') ?? '');
  const [header, setHeader] = useState(old?.header ?? 'Authorization');
  const [prefix, setPrefix] = useState(old?.prefix ?? 'Bearer ');
  const [held, setHeld] = useState<string | null>(null);
  const [tried, setTried] = useState(false);
  const badName = !/^[A-Za-z0-9_.-]{1,63}$/.test(name) ? '1 to 63 letters, digits, _, . and -.' : null;
  const badValue = value.length < 1 || value.length > 8192 || !/^[\x20-\x7e]+$/.test(value) ? '1 to 8,192 printable ASCII characters.' : null;
  const hosts = destinations.split(/[\s,]+/).filter(Boolean);
  const badHosts = hosts.length < 1 || hosts.length > 16 ? 'Name 1 to 16 hosts.' : null;
  return (
    <Dialog title={old ? `New value for ${old.name}` : 'New secret'} onClose={onClose} foot={<><Button onClick={onClose}>Cancel</Button><ActionButton kind="primary" onError={toastError} action={async () => {
      setTried(true);
      if (badName || badValue || badHosts) return;
      const made = await change<Secret>('PUT', path`/api/secrets/${name}`, { value, destinations: hosts, header, prefix });
      setHeld(made.approval);
      if (made.approval) return;
      toast(old ? 'The value was replaced. Sessions use it from now on.' : 'The secret was stored.');
      onDone();
    }}>{old ? 'Replace' : 'Store'}</ActionButton></>}>
      {held && <Held approval={held} />}
      {!old && <Field label="Name" hint="Sessions name it in their network. A name like API_KEY also becomes a variable with a placeholder." problem={tried ? badName : null}>{(p) => <input {...p} className="input mono" value={name} autoComplete="off" spellCheck={false} onChange={(e) => setName(e.target.value)} />}</Field>}
      <Field label="Value" hint="It is sealed at once. Nobody can read it here again." problem={tried ? badValue : null}>{(p) => <input {...p} className="input mono" type="password" autoComplete="new-password" value={value} onChange={(e) => setValue(e.target.value)} />}</Field>
      <Field label="Hosts it may be sent to" hint="One a line." problem={tried ? badHosts : null}>{(p) => <textarea {...p} className="input mono" rows={3} value={destinations} onChange={(e) => setDestinations(e.target.value)} />}</Field>
      <div className="govern-columns">
        <Field label="Header">{(p) => <input {...p} className="input mono" value={header} onChange={(e) => setHeader(e.target.value)} />}</Field>
        <Field label="Text before the value" hint={'“Bearer ” ends with a blank.'}>{(p) => <input {...p} className="input mono" value={prefix} onChange={(e) => setPrefix(e.target.value)} />}</Field>
      </div>
    </Dialog>
  );
}

export function Secrets(): ReactElement {
  const names = useKeyNames();
  const { data, error, reload } = useLoad<List<Secret>>('secrets', (signal) => api.get('/api/secrets', {}, { signal }), { refreshOn: ['secret', 'admin'] });
  const [editing, setEditing] = useState<Secret | 'new' | null>(null);
  const remove = async (s: Secret) => {
    if (!await confirm({ title: `Delete ${s.name}?`, text: 'Sessions that use it lose their network at once. The value cannot be brought back.', action: 'Delete', danger: true })) return;
    await api.del(path`/api/secrets/${s.name}`);
    toast(`${s.name} was deleted.`);
    reload();
  };
  const create = <Button kind="primary" icon="plus" onClick={() => setEditing('new')}>New secret</Button>;
  if (error) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading />;
  return (
    <div className="stack">
      {data.data.length > 0 && <div className="row spread"><p className="muted network-lead">Code never holds a secret: the proxy adds it to requests to its hosts. Values cannot be read back.</p>{create}</div>}
      <Table label="Secrets" rows={data.data} rowKey={(s) => s.name} empty={<Empty title="No secrets yet" action={create}>A secret lets the requests of a session authenticate without giving the secret to its code.</Empty>} columns={[
        { id: 'name', label: 'Name', cell: (s) => <code>{s.name}</code>, sort: (s) => s.name },
        { id: 'to', label: 'Sent to', cell: (s) => <ul className="govern-list inline">{s.destinations.map((d) => <li key={d}><code>{d}</code></li>)}</ul> },
        { id: 'as', label: 'As', cell: (s) => <code>{s.header}: {s.prefix}•••</code> },
        { id: 'by', label: 'Stored by', cell: (s) => <Who id={s.made_by} name={s.made_by_name ?? names(s.made_by)} />, sort: (s) => names(s.made_by) ?? s.made_by },
        { id: 'at', label: 'Value from', cell: (s) => <Time at={s.updated_at} />, sort: (s) => s.updated_at },
        { id: 'used', label: 'Last used', cell: (s) => (s.used_at ? <Time at={s.used_at} form="ago" /> : <span className="muted">never</span>), sort: (s) => s.used_at },
        { id: 'do', label: 'Actions', cell: (s) => <Menu compact label={`Actions for ${s.name}`} items={[{ label: 'Replace the value…', onSelect: () => setEditing(s) }, 'line', { label: 'Delete…', danger: true, onSelect: () => { remove(s).catch(toastError); } }]} /> },
      ]} />
      {editing && <SecretDialog old={editing === 'new' ? null : editing} onClose={() => setEditing(null)} onDone={() => {
        setEditing(null);
        reload();
      }} />}
    </div>
  );
}
