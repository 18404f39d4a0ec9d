// SPDX-License-Identifier: Apache-2.0
// What was deleted and can come back, and what takes space and can go: deleted
// files, old versions, deleted and leftover workspaces.
import { useMemo, useState, type ReactElement } from 'react';
import { api, path } from '../../api/client';
import { useLoad } from '../../api/query';
import type { Session, Workspace } from '../../api/types';
import { ActionButton, Button, Empty, Field, Loading, Name, Notice, Problem, Size, Time, sizeText } from '../../ui/basic';
import { Dialog, confirm, toast, toastError } from '../../ui/overlay';
import { Table } from '../../ui/table';
import { allOf, changesOf, FILE_ACTIONS, files, titleOf, type Collected, type Version } from './model';
import { Who } from './who';

interface Gone { last: Version; back: Version | null; versions: number; bytes: number }

// Files whose newest change is their deletion. back: the version to return to.
function goneFiles(rows: Version[]): Gone[] {
  const byFile = new Map<string, Version[]>();
  for (const v of rows) byFile.set(v.file_id, [...(byFile.get(v.file_id) ?? []), v]);
  return [...byFile.values()].filter((list) => list[0].change === 'deleted').map((list) => {
    const kept = list.filter((v) => v.change !== 'deleted' && v.available);
    return { last: list[0], back: kept[0] ?? null, versions: kept.length, bytes: bytesOnce(kept) };
  });
}
function bytesOnce(list: Version[]): number {
  const seen = new Map<string, number>();
  for (const v of list) seen.set(v.sha256, v.size);
  return [...seen.values()].reduce((a, b) => a + b, 0);
}

const historyOf = (ws: string, signal?: AbortSignal) => allOf<Version>(path`/api/workspaces/${ws}/history`, {}, (v) => v.version, { signal });

export function Trash({ ws, mayWrite, mayPurge, hold, onChanged }: { ws: string; mayWrite: boolean; mayPurge: boolean; hold: boolean; onChanged: () => void }): ReactElement {
  const { data, error, reload } = useLoad(`trash ${ws}`, (signal) => historyOf(ws, signal), changesOf(ws, ...FILE_ACTIONS));
  const [purging, setPurging] = useState(false);
  const gone = useMemo(() => (data ? goneFiles(data.rows) : []), [data]);
  if (error) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading what="Reading the history" />;
  const bring = async (g: Gone) => {
    await files.restore(ws, { version: g.back!.version });
    toast(`${g.last.path} is back.`, { undo: async () => {
      await files.remove(ws, g.last.path);
      reload();
    } });
    reload();
    onChanged();
  };
  const purge = mayPurge && <Button icon="trash" disabled={hold} title={hold ? 'The workspace is under legal hold' : undefined} onClick={() => setPurging(true)}>Free space…</Button>;
  return (
    <div className="stack">
      <div className="row spread"><p className="muted small files-lead">Deleted files keep their versions until retention or you remove them.</p>{purge}</div>
      {!data.complete && <Notice><p>Only the newest {data.rows.length.toLocaleString()} changes were looked at.</p></Notice>}
      <Table label="Deleted files" rows={gone} rowKey={(g) => g.last.file_id} first={{ id: 'at', down: true }} empty={<Empty title="The trash is empty">Files that are deleted appear here and can be brought back.</Empty>} columns={[
        { id: 'path', label: 'Path', cell: (g) => <Name>{g.last.path}</Name>, sort: (g) => g.last.path },
        { id: 'at', label: 'Deleted', cell: (g) => <><Time at={g.last.at} /> by <Who id={g.last.author} name={g.last.author_name} /></>, sort: (g) => g.last.at },
        { id: 'versions', label: 'Versions', num: true, cell: (g) => g.versions, sort: (g) => g.versions },
        { id: 'size', label: 'Size', num: true, cell: (g) => <Size bytes={g.bytes} />, sort: (g) => g.bytes },
        { id: 'do', label: 'Actions', cell: (g) => (g.back ? mayWrite && <ActionButton compact icon="history" action={() => bring(g)} onError={toastError}>Bring back</ActionButton> : <span className="muted">removed</span>) },
      ]} />
      {purging && <PurgeDialog ws={ws} rows={data.rows} onClose={() => setPurging(false)} onDone={() => {
        reload();
        onChanged();
      }} />}
    </div>
  );
}

// What a purge would remove: every version that is not a current file.
function purgePlan(rows: Version[], below: string): { deleted: Version[]; old: Version[]; bytes: number } {
  const fits = (at: string) => below === '' || at === below || at.startsWith(below.endsWith('/') ? below : `${below}/`);
  const newest = new Map<string, Version>();
  for (const v of rows) if (!newest.has(v.file_id)) newest.set(v.file_id, v);
  const current = new Set([...newest.values()].filter((v) => v.change !== 'deleted').map((v) => v.version));
  const kept = new Set([...newest.values()].filter((v) => v.change !== 'deleted').map((v) => v.sha256));
  const removed = rows.filter((v) => v.available && v.change !== 'deleted' && !current.has(v.version) && fits(newest.get(v.file_id)!.path));
  return {
    deleted: removed.filter((v) => newest.get(v.file_id)!.change === 'deleted'),
    old: removed.filter((v) => newest.get(v.file_id)!.change !== 'deleted'),
    bytes: bytesOnce(removed.filter((v) => !kept.has(v.sha256))),
  };
}

const count = (n: number, what: string): string => `${n.toLocaleString()} ${what}${n === 1 ? '' : 's'}`;

function PurgeDialog({ ws, rows, onClose, onDone }: { ws: string; rows: Version[]; onClose: () => void; onDone: () => void }): ReactElement {
  const [below, setBelow] = useState('');
  const plan = useMemo(() => purgePlan(rows, below), [rows, below]);
  const none = plan.deleted.length + plan.old.length === 0;
  return (
    <Dialog wide title="Free space" onClose={onClose} foot={<><Button onClick={onClose}>Cancel</Button><ActionButton kind="danger" disabled={none} onError={toastError} action={async () => {
      if (!await confirm({ title: 'Remove forever?', text: `${count(plan.deleted.length + plan.old.length, 'version')} will be removed and cannot be restored. The history still says that they existed.`, action: 'Remove', danger: true, typed: 'remove' })) return;
      const done = await api.post<Collected>(path`/api/workspaces/${ws}/purge`, below ? { path: below } : {});
      toast(`Removed ${done.versions.toLocaleString()} versions; ${sizeText(done.bytes)} are free.`);
      onDone();
      onClose();
    }}>Remove forever…</ActionButton></>}>
      <Field label="Only below this path" hint="Empty: the whole workspace">{(p) => <input {...p} className="input" dir="auto" value={below} onChange={(e) => setBelow(e.target.value)} />}</Field>
      <p>Would remove <strong>{count(plan.deleted.length, 'version')}</strong> of deleted files and <strong>{count(plan.old.length, 'older version')}</strong> of current ones: up to <strong>{sizeText(plan.bytes)}</strong>. Current files stay.</p>
      {!none && <Table label="What would be removed" rows={[...plan.deleted, ...plan.old].slice(0, 200)} rowKey={(v) => v.version} columns={[
        { id: 'path', label: 'Path', cell: (v) => <Name>{v.path}</Name>, sort: (v) => v.path },
        { id: 'n', label: 'Version', num: true, cell: (v) => v.version_number, sort: (v) => v.version_number },
        { id: 'at', label: 'Made', cell: (v) => <Time at={v.at} />, sort: (v) => v.at },
        { id: 'size', label: 'Size', num: true, cell: (v) => <Size bytes={v.size} />, sort: (v) => v.size },
      ]} />}
    </Dialog>
  );
}

// --- workspaces ------------------------------------------------------------------

export function DeletedWorkspaces({ onChanged }: { onChanged: () => void }): ReactElement {
  const { data, error, reload } = useLoad('workspaces deleted', (signal) => files.workspaces(true, signal), changesOf(null, 'workspace.'));
  if (error) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading />;
  return <Table label="Deleted workspaces" rows={data.rows.filter((w) => w.deleted_at)} rowKey={(w) => w.id} empty={<Empty title="No deleted workspaces">A deleted workspace stays here for a while and can be brought back.</Empty>} columns={[
    { id: 'name', label: 'Name', cell: (w) => <Name>{titleOf(w)}</Name>, sort: (w) => titleOf(w) },
    { id: 'at', label: 'Deleted', cell: (w) => <Time at={w.deleted_at} />, sort: (w) => w.deleted_at },
    { id: 'until', label: 'Can be brought back until', cell: (w) => <Time at={w.purge_at} />, sort: (w) => w.purge_at },
    { id: 'size', label: 'Stored', num: true, cell: (w) => <Size bytes={w.stored_bytes} />, sort: (w) => w.stored_bytes },
    { id: 'do', label: 'Actions', cell: (w) => w.role === 'owner' && <span className="row">
      <ActionButton compact icon="history" onError={toastError} action={async () => {
        await api.post(path`/api/workspaces/${w.id}/undelete`);
        toast(`${titleOf(w)} is back.`);
        reload();
        onChanged();
      }}>Bring back</ActionButton>
      <ActionButton compact kind="danger" onError={toastError} action={async () => {
        if (!await confirm({ title: `Remove “${titleOf(w)}” forever?`, text: 'All its files and versions are removed and cannot be restored.', action: 'Remove', danger: true, typed: w.name ?? w.id })) return;
        await api.post(path`/api/workspaces/${w.id}/purge`);
        toast('The workspace is removed.');
        reload();
        onChanged();
      }}>Remove…</ActionButton></span> },
  ]} />;
}

// Unnamed workspaces that runs left behind, as `glovebox workspaces prune` finds them.
export function PruneDialog({ workspaces, onClose, onDone }: { workspaces: Workspace[]; onClose: () => void; onDone: () => void }): ReactElement {
  const [days, setDays] = useState('7');
  const [left, setLeft] = useState<Set<string>>(new Set());
  const { data: sessions, error } = useLoad('prune sessions', (signal) => allOf<Session>('/api/sessions', {}, (s) => s.id, { page: 100, signal }));
  const plan = useMemo(() => {
    const before = Date.now() - Math.max(0, Number(days) || 0) * 86_400_000;
    const used = new Set(sessions?.rows.map((s) => s.workspace));
    return workspaces.filter((w) => !w.name && w.role === 'owner' && !w.legal_hold && !used.has(w.id) && new Date(w.updated_at).getTime() <= before);
  }, [workspaces, sessions, days]);
  const chosen = plan.filter((w) => !left.has(w.id));
  const bytes = chosen.reduce((n, w) => n + w.stored_bytes, 0);
  return (
    <Dialog wide title="Prune workspaces" onClose={onClose} foot={<><Button onClick={onClose}>Cancel</Button><ActionButton kind="danger" disabled={!chosen.length || !sessions} onError={toastError} action={async () => {
      for (const w of chosen) await api.del(path`/api/workspaces/${w.id}`);
      toast(`Deleted ${chosen.length} ${chosen.length === 1 ? 'workspace' : 'workspaces'}.`, { undo: async () => {
        for (const w of chosen) await api.post(path`/api/workspaces/${w.id}/undelete`);
        onDone();
      } });
      onDone();
      onClose();
    }}>Delete {chosen.length.toLocaleString()} ({sizeText(bytes)})</ActionButton></>}>
      <p>Unnamed workspaces of yours that no session uses. They can be brought back for a while. To keep one for good, name it.</p>
      <Field label="Unchanged for at least (days)">{(p) => <input {...p} className="input files-jump" type="number" min={0} value={days} onChange={(e) => setDays(e.target.value)} />}</Field>
      {error ? <Problem error={error} /> : !sessions ? <Loading /> : <Table label="What would be deleted" rows={plan} rowKey={(w) => w.id} empty={<p className="muted">No workspace fits.</p>} columns={[
        { id: 'use', label: 'Delete', cell: (w) => <input type="checkbox" aria-label={`Delete ${w.id}`} checked={!left.has(w.id)} onChange={() => setLeft((old) => {
          const next = new Set(old);
          if (!next.delete(w.id)) next.add(w.id);
          return next;
        })} /> },
        { id: 'id', label: 'Workspace', cell: (w) => <span className="mono small">{w.id}</span> },
        { id: 'files', label: 'Files', num: true, cell: (w) => w.files, sort: (w) => w.files },
        { id: 'size', label: 'Stored', num: true, cell: (w) => <Size bytes={w.stored_bytes} />, sort: (w) => w.stored_bytes },
        { id: 'at', label: 'Changed', cell: (w) => <Time at={w.updated_at} form="ago" />, sort: (w) => w.updated_at },
      ]} />}
    </Dialog>
  );
}
