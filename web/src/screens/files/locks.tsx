// SPDX-License-Identifier: Apache-2.0
// Leases on paths: who holds one, taking one, giving it back.
import { useState, type FormEvent, type ReactElement } from 'react';
import { api, messageOf, path } from '../../api/client';
import { ActionButton, Button, Chip, Empty, Field, Name, Notice, Time } from '../../ui/basic';
import { Dialog, confirm, toast, toastError } from '../../ui/overlay';
import { Table } from '../../ui/table';
import { forgetToken, keepToken, tokenOf, type Lock } from './model';
import { Who } from './who';

const spans = [['300', '5 minutes'], ['1800', '30 minutes'], ['3600', '1 hour'], ['28800', '8 hours'], ['86400', '1 day']] as const;

export function LockDialog({ ws, at, onClose, onMade }: { ws: string; at: string; onClose: () => void; onMade: () => void }): ReactElement {
  const [target, setTarget] = useState(at);
  const [span, setSpan] = useState('1800');
  const [label, setLabel] = useState('');
  const [problem, setProblem] = useState<string | null>(null);
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    try {
      keepToken(await api.post<Lock>(path`/api/workspaces/${ws}/locks`, { path: target, ttl_s: Number(span), ...(label ? { label } : {}) }), ws);
      toast('Locked. This tab may still write there.');
      onMade();
      onClose();
    } catch (error) {
      setProblem(messageOf(error));
    }
  };
  return (
    <Dialog title="Lock a path" onClose={onClose} foot={<><Button onClick={onClose}>Cancel</Button><Button kind="primary" type="submit" form="files-lock">Lock</Button></>}>
      <form id="files-lock" className="stack" onSubmit={(e) => { void submit(e); }}>
        <Field label="Path" hint="A folder is locked with everything below it.">{(p) => <input {...p} required className="input" dir="auto" value={target} onChange={(e) => setTarget(e.target.value)} />}</Field>
        <Field label="For">{(p) => <select {...p} className="input" value={span} onChange={(e) => setSpan(e.target.value)}>{spans.map(([s, text]) => <option key={s} value={s}>{text}</option>)}</select>}</Field>
        <Field label="Why" hint="Shown to those who are refused. Optional.">{(p) => <input {...p} className="input" maxLength={200} value={label} onChange={(e) => setLabel(e.target.value)} />}</Field>
        <p className="small muted">Others get an error when they write there. The lock ends by itself; only this tab can give it back earlier, or an owner by force.</p>
        {problem && <Notice tone="bad"><p>{problem}</p></Notice>}
      </form>
    </Dialog>
  );
}

export function Locks({ ws, locks, mayWrite, mayForce, onChanged }: { ws: string; locks: Lock[]; mayWrite: boolean; mayForce: boolean; onChanged: () => void }): ReactElement {
  const [open, setOpen] = useState(false);
  const release = async (lock: Lock) => {
    const token = tokenOf(lock.id);
    if (!token && !await confirm({ title: 'Break this lock?', text: 'Its holder loses the right to write there and is not told before the next attempt.', action: 'Break the lock', danger: true })) return;
    await api.del(path`/api/workspaces/${ws}/locks/${lock.id}`, token ? { headers: { 'X-Glovebox-Lock': token } } : { query: { force: true } });
    forgetToken(lock.id);
    toast('The lock is released.');
    onChanged();
  };
  const make = mayWrite && <Button kind="primary" icon="lock" onClick={() => setOpen(true)}>Lock a path…</Button>;
  return (
    <div className="stack">
      {locks.length > 0 && <div className="row spread"><p className="muted small files-lead">Paths that one holder alone may write.</p>{make}</div>}
      <Table label="Locks" rows={locks} rowKey={(l) => l.id} empty={<Empty title="No locks" action={make}>A lock keeps others from writing to a path for a while.</Empty>} columns={[
        { id: 'path', label: 'Path', cell: (l) => <Name>{l.path || 'Everything'}</Name>, sort: (l) => l.path },
        { id: 'holder', label: 'Holder', cell: (l) => <>{tokenOf(l.id) && <Chip tone="accent">this tab</Chip>} <Who id={l.holder} name={l.holder_name} /></>, sort: (l) => l.holder },
        { id: 'label', label: 'Why', cell: (l) => (l.label ? <Name>{l.label}</Name> : <span className="muted">–</span>) },
        { id: 'until', label: 'Until', cell: (l) => <Time at={l.expires_at} />, sort: (l) => l.expires_at },
        { id: 'fence', label: 'Fence', num: true, cell: (l) => l.fence },
        ...(mayWrite ? [{ id: 'do', label: 'Actions', cell: (l: Lock) => (tokenOf(l.id) || mayForce) && <ActionButton compact action={() => release(l)} onError={toastError}>{tokenOf(l.id) ? 'Release' : 'Break…'}</ActionButton> }] : []),
      ]} />
      {open && <LockDialog ws={ws} at="" onClose={() => setOpen(false)} onMade={onChanged} />}
    </div>
  );
}
