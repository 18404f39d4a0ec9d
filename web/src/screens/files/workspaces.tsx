// SPDX-License-Identifier: Apache-2.0
// The list of workspaces and what they use.
import { useState, type FormEvent, type ReactElement } from 'react';
import { api, messageOf, path } from '../../api/client';
import { useLoad } from '../../api/query';
import type { Workspace } from '../../api/types';
import { useMay } from '../../app/me';
import { go, href } from '../../app/router';
import { Button, Chip, Empty, Field, Loading, Meter, Name, Notice, Page, Problem, Size, Tabs, Time, sizeText } from '../../ui/basic';
import { Dialog, Menu, confirm, toast, toastError } from '../../ui/overlay';
import { Table } from '../../ui/table';
import { changesOf, FILE_ACTIONS, files, titleOf } from './model';
import { DeletedWorkspaces, PruneDialog } from './trash';

interface Usage { workspaces: number; max_workspaces: number; stored_bytes: number; quota_bytes: number }

export function NameDialog({ workspace, onClose, onDone }: { workspace: Workspace | null; onClose: () => void; onDone: (made: Workspace) => void }): ReactElement {
  const [name, setName] = useState(workspace?.name ?? '');
  const [isPrivate, setPrivate] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    try {
      onDone(workspace ? await api.patch<Workspace>(path`/api/workspaces/${workspace.id}`, { name }) : await api.post<Workspace>('/api/workspaces', { name, private: isPrivate }));
      onClose();
    } catch (error) {
      setProblem(messageOf(error));
    }
  };
  return (
    <Dialog title={workspace ? 'Rename the workspace' : 'New workspace'} onClose={onClose} foot={<><Button onClick={onClose}>Cancel</Button><Button kind="primary" type="submit" form="files-name">{workspace ? 'Rename' : 'Create'}</Button></>}>
      <form id="files-name" className="stack" onSubmit={(e) => { void submit(e); }}>
        <Field label="Name" problem={problem}>{(p) => <input {...p} className="input" dir="auto" required maxLength={120} autoFocus value={name} onChange={(e) => setName(e.target.value)} />}</Field>
        {!workspace && <label className="check"><input type="checkbox" checked={isPrivate} onChange={(e) => setPrivate(e.target.checked)} />Private: only you, and members you add, see it</label>}
      </form>
    </Dialog>
  );
}

export async function deleteWorkspace(w: Workspace, onDone: () => void): Promise<void> {
  if (!await confirm({ title: `Delete “${titleOf(w)}”?`, text: `Its ${w.files.toLocaleString()} files are gone from every answer at once. The workspace can be brought back for a while.`, action: 'Delete', danger: true })) return;
  await api.del(path`/api/workspaces/${w.id}`);
  toast(`${titleOf(w)} is deleted.`, { undo: async () => {
    await api.post(path`/api/workspaces/${w.id}/undelete`);
    onDone();
  } });
  onDone();
}

export function Workspaces(): ReactElement {
  const mayWrite = useMay('files:write');
  const { data, error, reload } = useLoad('workspaces', (signal) => files.workspaces(false, signal), changesOf(null, ...FILE_ACTIONS));
  const usage = useLoad<Usage>('usage', (signal) => api.get('/api/usage', {}, { signal }), changesOf(null, ...FILE_ACTIONS));
  const [tab, setTab] = useState<'live' | 'deleted'>('live');
  const [dialog, setDialog] = useState<{ name: Workspace | null } | 'prune' | null>(null);
  const [words, setWords] = useState('');
  const changed = () => {
    reload();
    usage.reload();
  };
  const rows = (data?.rows ?? []).filter((w) => !words || titleOf(w).toLowerCase().includes(words.toLowerCase()) || w.id.includes(words));
  const unnamed = data?.rows.filter((w) => !w.name && w.role === 'owner').length ?? 0;
  const make = mayWrite && <Button kind="primary" icon="plus" onClick={() => setDialog({ name: null })}>New workspace</Button>;
  return (
    <Page title="Files" lead="Workspaces keep every version of every file that people and code make." actions={<>
      {mayWrite && unnamed > 0 && <Button icon="trash" onClick={() => setDialog('prune')}>Prune…</Button>}{make}</>}>
      {usage.data && <section className="panel files-usage" aria-label="Usage">
        <span><strong>{usage.data.workspaces.toLocaleString()}</strong> {usage.data.workspaces === 1 ? 'workspace' : 'workspaces'}</span>
        <span><strong>{sizeText(usage.data.stored_bytes)}</strong> stored{usage.data.quota_bytes ? ` of ${sizeText(usage.data.quota_bytes)}` : ', all versions counted'}</span>
        {usage.data.quota_bytes > 0 && <div className="grow"><Meter label="Storage used" value={usage.data.stored_bytes} max={usage.data.quota_bytes} /></div>}
      </section>}
      <Tabs label="Workspaces" value={tab} onChange={setTab} tabs={[{ id: 'live', label: 'Workspaces' }, { id: 'deleted', label: 'Deleted' }]} />
      {tab === 'deleted' ? <DeletedWorkspaces onChanged={changed} /> : error ? <Problem error={error} retry={reload} /> : !data ? <Loading /> : <>
        {data.rows.length > 8 && <Field label="Find a workspace">{(p) => <input {...p} type="search" className="input" value={words} onChange={(e) => setWords(e.target.value)} />}</Field>}
        {!data.complete && <Notice><p>Only the newest {data.rows.length.toLocaleString()} workspaces are listed.</p></Notice>}
        <Table label="Workspaces" rows={rows.slice(0, 1000)} rowKey={(w) => w.id} first={{ id: 'changed', down: true }} empty={words ? <p className="muted">No workspace has this name.</p> : <Empty title="No workspaces yet" action={make}>A workspace is made with the first notebook, or here.</Empty>} columns={[
          { id: 'name', label: 'Name', cell: (w) => <a href={href('files', w.id)}><Name>{titleOf(w)}</Name></a>, sort: (w) => titleOf(w) },
          { id: 'files', label: 'Files', num: true, cell: (w) => w.files.toLocaleString(), sort: (w) => w.files },
          { id: 'size', label: 'Size', num: true, cell: (w) => <Size bytes={w.bytes} />, sort: (w) => w.bytes },
          { id: 'stored', label: 'With versions', num: true, cell: (w) => <div className="files-used"><span><Size bytes={w.stored_bytes} />{w.quota_bytes > 0 && <span className="muted"> of {sizeText(w.quota_bytes)}</span>}</span>{w.quota_bytes > 0 && <Meter label={`Quota of ${titleOf(w)}`} value={w.stored_bytes} max={w.quota_bytes} />}</div>, sort: (w) => w.stored_bytes },
          { id: 'role', label: 'You are', cell: (w) => <span className="row"><Chip>{w.role}</Chip>{w.legal_hold && <Chip tone="warn">legal hold</Chip>}</span>, sort: (w) => w.role },
          { id: 'changed', label: 'Changed', cell: (w) => <Time at={w.updated_at} form="ago" />, sort: (w) => w.updated_at },
          ...(mayWrite ? [{ id: 'do', label: 'Actions', cell: (w: Workspace) => w.role !== 'viewer' && <Menu compact label={`Actions for ${titleOf(w)}`} items={[
            { label: 'Rename…', onSelect: () => setDialog({ name: w }) },
            ...(w.role === 'owner' ? ['line' as const, { label: 'Delete…', danger: true, onSelect: () => { deleteWorkspace(w, changed).catch(toastError); } }] : []),
          ]} /> }] : []),
        ]} />
        {rows.length > 1000 && <p className="small muted">The first 1,000 are shown. Search for the others.</p>}
      </>}
      {dialog === 'prune' && data && <PruneDialog workspaces={data.rows} onClose={() => setDialog(null)} onDone={changed} />}
      {dialog && dialog !== 'prune' && <NameDialog workspace={dialog.name} onClose={() => setDialog(null)} onDone={(made) => {
        if (!dialog.name) go(href('files', made.id));
        changed();
      }} />}
    </Page>
  );
}
