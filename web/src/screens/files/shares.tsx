// SPDX-License-Identifier: Apache-2.0
// Links to files for people without a key: made, counted, revoked.
import { useState, type FormEvent, type ReactElement } from 'react';
import { api, HeldError, path } from '../../api/client';
import { useLoad } from '../../api/query';
import type { List } from '../../api/types';
import { ActionButton, Button, Chip, Empty, Field, Loading, Name, Problem, Time } from '../../ui/basic';
import { Held } from '../../ui/held';
import { Dialog, confirm, toast, toastError } from '../../ui/overlay';
import { Table } from '../../ui/table';
import { changesOf, files, type Share } from './model';
import { Who } from './who';

const spans = [['3600', '1 hour'], ['86400', '1 day'], ['604800', '7 days'], ['2592000', '30 days'], ['', 'Until it is revoked']] as const;
const modes = { read: 'Read', write: 'Read and write', upload: 'Upload one file' };

export async function copyText(text: string): Promise<void> {
  await navigator.clipboard.writeText(text);
  toast('Copied.');
}

export function ShareDialog({ ws, at, version, onClose, onMade }: { ws: string; at: string; version?: string; onClose: () => void; onMade?: () => void }): ReactElement {
  const [span, setSpan] = useState('604800');
  const [mode, setMode] = useState<Share['mode']>('read');
  const [target, setTarget] = useState(at);
  const [password, setPassword] = useState('');
  const [most, setMost] = useState('');
  const [fixed, setFixed] = useState(false);
  const [made, setMade] = useState<Share | null>(null);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<unknown>(null);
  const submit = async (e?: FormEvent) => {
    e?.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      const seconds = mode === 'upload' ? Math.min(86_400, Number(span) || 86_400) : Number(span) || undefined;
      setMade(await files.share({ workspace: ws, path: target, mode, ...(seconds ? { expires_in_s: seconds } : {}), ...(password ? { password } : {}), ...(most ? { max_downloads: Number(most) } : {}), ...(fixed && version && mode === 'read' ? { version } : {}) }));
      onMade?.();
    } catch (error) {
      setProblem(error);
    }
    setBusy(false);
  };
  if (made) return (
    <Dialog title="The link is ready" onClose={onClose} foot={<Button kind="primary" onClick={onClose}>Done</Button>}>
      <p>Copy it now. The service keeps only a hash of it and cannot show it again.</p>
      <div className="row files-link"><input className="input mono grow" readOnly aria-label="Link" value={made.url ?? ''} onFocus={(e) => e.currentTarget.select()} /><ActionButton icon="copy" action={() => copyText(made.url ?? '')} onError={toastError}>Copy</ActionButton></div>
      <p className="small muted">{made.expires_at ? <>Works until <Time at={made.expires_at} /></> : 'Works until it is revoked'}{made.max_downloads ? `, for ${made.max_downloads} downloads` : ''}{made.has_password ? '. Send the password by another way.' : '.'}</p>
    </Dialog>
  );
  return (
    <Dialog title="Share" onClose={onClose} foot={<><Button onClick={onClose}>Cancel</Button><Button kind="primary" type="submit" form="files-share" disabled={busy}>Make the link</Button></>}>
      <form id="files-share" className="stack" onSubmit={(e) => { void submit(e); }}>
        <Field label="Path" hint={target === '' ? 'Everything in the workspace' : target.endsWith('/') ? 'The folder and everything below it' : 'One file'}>{(p) => <input {...p} className="input" dir="auto" value={target} onChange={(e) => setTarget(e.target.value)} />}</Field>
        <div className="grid files-two">
          <Field label="People may">{(p) => <select {...p} className="input" value={mode} onChange={(e) => setMode(e.target.value as Share['mode'])}>{Object.entries(modes).map(([id, label]) => <option key={id} value={id}>{label}</option>)}</select>}</Field>
          <Field label="Works for">{(p) => <select {...p} className="input" value={span} onChange={(e) => setSpan(e.target.value)}>{spans.filter(([s]) => mode !== 'upload' || s === '3600' || s === '86400').map(([s, label]) => <option key={s} value={s}>{label}</option>)}</select>}</Field>
          <Field label="Password" hint="Optional">{(p) => <input {...p} className="input" type="password" autoComplete="new-password" value={password} onChange={(e) => setPassword(e.target.value)} />}</Field>
          {mode === 'read' && <Field label="Most downloads" hint="Optional">{(p) => <input {...p} className="input" type="number" min={1} value={most} onChange={(e) => setMost(e.target.value)} />}</Field>}
        </div>
        {version && mode === 'read' && target === at && <label className="check"><input type="checkbox" checked={fixed} onChange={(e) => setFixed(e.target.checked)} />This version only, not what the file becomes later</label>}
        {problem instanceof HeldError && problem.approval ? <Held approval={problem.approval} what="the share" repeat={() => submit()} /> : problem !== null && <Problem error={problem} />}
      </form>
    </Dialog>
  );
}

export function Shares({ ws, mayWrite }: { ws: string; mayWrite: boolean }): ReactElement {
  const { data, error, reload } = useLoad<List<Share>>(`shares ${ws}`, (signal) => api.get('/api/shares', { workspace: ws }, { signal }), changesOf(ws, 'share.'));
  const [open, setOpen] = useState(false);
  if (error) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading />;
  const dead = (s: Share) => (s.revoked_at ? 'revoked' : s.expires_at && new Date(s.expires_at) < new Date() ? 'expired' : s.max_downloads && s.downloads >= s.max_downloads ? 'used up' : null);
  const make = mayWrite && <Button kind="primary" icon="share" onClick={() => setOpen(true)}>Share…</Button>;
  return (
    <div className="stack">
      {data.data.length > 0 && <div className="row spread"><p className="muted small files-lead">Links that open files of this workspace without a key.</p>{make}</div>}
      <Table label="Shares" rows={data.data} rowKey={(s) => s.id} first={{ id: 'made', down: true }} empty={<Empty title="Nothing is shared" action={make}>A link opens a file, a folder or everything for people without a key.</Empty>} columns={[
        { id: 'path', label: 'Path', cell: (s) => <>{s.path ? <Name>{s.path}</Name> : 'Everything'}{s.version && <span className="muted small"> (one version)</span>}</>, sort: (s) => s.path },
        { id: 'mode', label: 'May', cell: (s) => modes[s.mode] },
        { id: 'state', label: 'State', cell: (s) => <span className="row">{dead(s) ? <Chip tone="warn">{dead(s)}</Chip> : <Chip tone="good">works</Chip>}{s.has_password && <Chip>password</Chip>}</span> },
        { id: 'count', label: 'Downloads', num: true, cell: (s) => `${s.downloads}${s.max_downloads ? ` of ${s.max_downloads}` : ''}`, sort: (s) => s.downloads },
        { id: 'until', label: 'Until', cell: (s) => (s.expires_at ? <Time at={s.expires_at} /> : 'revoked'), sort: (s) => s.expires_at ?? '9' },
        { id: 'made', label: 'Made', cell: (s) => <><Time at={s.created_at} form="ago" /> by <Who id={s.created_by} name={s.created_by_name} /></>, sort: (s) => s.created_at },
        ...(mayWrite ? [{ id: 'do', label: 'Actions', cell: (s: Share) => !s.revoked_at && <ActionButton compact kind="danger" onError={toastError} action={async () => {
          if (!await confirm({ title: 'Revoke this link?', text: 'It stops working at once and cannot be brought back.', action: 'Revoke', danger: true })) return;
          await api.del(path`/api/shares/${s.id}`);
          toast('The link is revoked.');
          reload();
        }}>Revoke</ActionButton> }] : []),
      ]} />
      {open && <ShareDialog ws={ws} at="" onClose={() => setOpen(false)} onMade={reload} />}
    </div>
  );
}
