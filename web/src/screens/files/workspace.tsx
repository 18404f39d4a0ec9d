// SPDX-License-Identifier: Apache-2.0
// One workspace: the tree on one side, the chosen file or folder on the other.
import { useState, type FormEvent, type ReactElement } from 'react';
import { api, ApiError, messageOf, path, saveBlob, withQuery } from '../../api/client';
import { useLoad } from '../../api/query';
import type { FileInfo, List, Workspace } from '../../api/types';
import { useMay } from '../../app/me';
import { go, href } from '../../app/router';
import { ActionButton, Button, Chip, Empty, Field, Loading, Meter, Name, Notice, Page, Problem, Size, Tabs, Time, sizeText } from '../../ui/basic';
import { Dialog, Menu, toast, toastError } from '../../ui/overlay';
import { FileHistory, Cause, changeTone } from './history';
import { LockDialog, Locks } from './locks';
import { MadeBy } from './madeby';
import { baseName, changesOf, FILE_ACTIONS, files, folderOf, titleOf, type Entry, type Lock, type Version } from './model';
import { Preview } from './preview';
import { ShareDialog, Shares, copyText } from './shares';
import { Trash } from './trash';
import { Tree } from './tree';
import { DropHint, useUploads } from './upload';
import { Who } from './who';
import { NameDialog, deleteWorkspace } from './workspaces';

type Tab = 'overview' | 'history' | 'shares' | 'locks' | 'trash';
type FileTab = 'preview' | 'versions' | 'made';

async function zip(ws: string, prefix: string, name: string): Promise<void> {
  saveBlob(await api.blob(withQuery(path`/api/workspaces/${ws}/archive`, { prefix })), `${name.replace(/[/\\]/g, '_')}.zip`);
}

function MoveDialog({ ws, at, copy, onClose, onDone }: { ws: string; at: string; copy: boolean; onClose: () => void; onDone: (to: string) => void }): ReactElement {
  const [to, setTo] = useState(at);
  const [problem, setProblem] = useState<string | null>(null);
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    try {
      await (copy ? files.copy : files.move)(ws, at, to);
      if (!copy) toast(`Moved to ${to}.`, { undo: async () => {
        await files.move(ws, to, at);
        onDone(at);
      } });
      onDone(to);
      onClose();
    } catch (error) {
      setProblem(error instanceof ApiError && error.status === 412 ? 'There is a file of this name already.' : messageOf(error));
    }
  };
  return (
    <Dialog title={copy ? 'Copy' : 'Move or rename'} onClose={onClose} foot={<><Button onClick={onClose}>Cancel</Button><Button kind="primary" type="submit" form="files-move" disabled={to === at || !to}>{copy ? 'Copy' : 'Move'}</Button></>}>
      <form id="files-move" className="stack" onSubmit={(e) => { void submit(e); }}>
        <Field label="New path" hint="Folders come into being with their first file." problem={problem}>{(p) => <input {...p} className="input" dir="auto" autoFocus value={to} onChange={(e) => setTo(e.target.value)} />}</Field>
      </form>
    </Dialog>
  );
}

export function WorkspaceView({ ws, at, query }: { ws: string; at: string | null; query: URLSearchParams }): ReactElement {
  const canWrite = useMay('files:write');
  const { data: workspace, error, reload } = useLoad<Workspace>(`workspace ${ws}`, (signal) => api.get(path`/api/workspaces/${ws}`, {}, { signal }), changesOf(ws, ...FILE_ACTIONS));
  const locks = useLoad<List<Lock>>(`locks ${ws}`, (signal) => api.get(path`/api/workspaces/${ws}/locks`, {}, { signal }), changesOf(ws, 'lock.'));
  const [filter, setFilter] = useState('');
  const [turn, setTurn] = useState(0);
  const [dialog, setDialog] = useState<{ kind: 'share' | 'lock' | 'move' | 'copy'; path: string; version?: string } | 'rename' | null>(null);
  const folder = at ? (at.endsWith('/') ? at : folderOf(at)) : '';
  const changed = () => {
    setTurn((n) => n + 1);
    reload();
  };
  const uploads = useUploads(ws, folder, changed);
  if (error) return <Page title="Files" crumbs={<a href={href('files')}>Files</a>}>{error instanceof ApiError && error.status === 404 ? <Empty title="No such workspace" action={<a className="button" href={href('files')}>All workspaces</a>}>It was deleted, or belongs to someone who has not shared it with you.</Empty> : <Problem error={error} retry={reload} />}</Page>;
  if (!workspace) return <Loading />;
  const mayWrite = canWrite && workspace.role !== 'viewer';
  const owner = canWrite && workspace.role === 'owner';
  const select = (entry: Entry) => go(href('files', ws, entry.path));
  const remove = async (target: string) => {
    const before = workspace.head;
    const info = target.endsWith('/') ? null : await files.info(ws, target);
    await files.remove(ws, target);
    toast(`${baseName(target)} is in the trash.`, { undo: async () => {
      await files.restore(ws, info ? { version: info.version } : { commit: before!, path: target.replace(/\/$/, '') });
      changed();
      go(href('files', ws, target));
    } });
    go(href('files', ws));
    changed();
  };
  const title = at ? baseName(at) : titleOf(workspace);
  const crumbs = <>
    <a href={href('files')}>Files</a>
    {at && <><span aria-hidden="true">/</span><a href={href('files', ws)}><Name>{titleOf(workspace)}</Name></a></>}
    {at?.replace(/\/$/, '').split('/').slice(0, -1).map((name, i, all) => <span key={i} className="row"><span aria-hidden="true">/</span><a href={href('files', ws, `${all.slice(0, i + 1).join('/')}/`)}><Name>{name}</Name></a></span>)}
  </>;
  const common = [
    ...(mayWrite ? [
      { label: 'Move or rename…', onSelect: () => setDialog({ kind: 'move', path: at! }) },
      { label: 'Copy…', onSelect: () => setDialog({ kind: 'copy', path: at! }) },
      { label: 'Lock…', onSelect: () => setDialog({ kind: 'lock', path: at! }) },
    ] : []),
    { label: 'Copy the permanent link', onSelect: () => { copyText(location.href).catch(toastError); } },
    ...(mayWrite ? ['line' as const, { label: 'Delete', danger: true, onSelect: () => { remove(at!).catch(toastError); } }] : []),
  ];
  return (
    <Page title={<Name>{title}</Name>} crumbs={crumbs} actions={<>
      {mayWrite && <Button icon="upload" onClick={uploads.pick}>Upload</Button>}
      {(!at || at.endsWith('/')) && workspace.files > 0 && <ActionButton icon="download" onError={toastError} action={() => zip(ws, at ?? '', title)}>Zip</ActionButton>}
      {mayWrite && <Button icon="share" onClick={() => setDialog({ kind: 'share', path: at ?? '' })}>Share…</Button>}
      {at ? <Menu label={`More for ${baseName(at)}`} items={common} /> : mayWrite && <Menu label="More for the workspace" items={[
        { label: 'Rename…', onSelect: () => setDialog('rename') },
        ...(owner ? ['line' as const, { label: 'Delete the workspace…', danger: true, onSelect: () => { deleteWorkspace(workspace, () => go(href('files'))).catch(toastError); } }] : []),
      ]} />}
    </>}>
      {uploads.view}
      <div className={`files-split ${uploads.over ? 'over' : ''}`} {...(mayWrite ? uploads.dropProps : {})}>
        {uploads.input}
        {uploads.over && <DropHint folder={folder} />}
        <aside className={`files-side ${at && !at.endsWith('/') ? 'behind' : ''}`} aria-label="Tree">
          <input type="search" className="input" placeholder="Path begins with…" aria-label="Show paths that begin with" value={filter} onChange={(e) => setFilter(e.target.value)} />
          <Tree ws={ws} selected={at} filter={filter} locks={locks.data?.data ?? []} onSelect={select} reloadKey={turn} />
          {mayWrite && workspace.files === 0 && <p className="small muted files-none">Drop files here, or run code that writes to <code>/mnt/data</code>.</p>}
        </aside>
        <div className="files-main">
          {at && !at.endsWith('/') ? <FileView key={at} ws={ws} at={at} query={query} mayWrite={mayWrite} locks={locks.data?.data ?? []} turn={turn} onChanged={changed} onShare={(version) => setDialog({ kind: 'share', path: at, version })} />
            : <FolderView workspace={workspace} folder={at ?? ''} query={query} mayWrite={mayWrite} owner={owner} locks={locks.data?.data ?? []} turn={turn} onChanged={() => {
              changed();
              locks.reload();
            }} onUpload={uploads.pick} />}
        </div>
      </div>
      {dialog === 'rename' && <NameDialog workspace={workspace} onClose={() => setDialog(null)} onDone={changed} />}
      {dialog && dialog !== 'rename' && (dialog.kind === 'share' ? <ShareDialog ws={ws} at={dialog.path} version={dialog.version} onClose={() => setDialog(null)} />
        : dialog.kind === 'lock' ? <LockDialog ws={ws} at={dialog.path} onClose={() => setDialog(null)} onMade={locks.reload} />
          : <MoveDialog ws={ws} at={dialog.path} copy={dialog.kind === 'copy'} onClose={() => setDialog(null)} onDone={(to) => {
            changed();
            go(href('files', ws, to));
          }} />)}
    </Page>
  );
}

// --- a file --------------------------------------------------------------------

function FileView({ ws, at, query, mayWrite, locks, turn, onChanged, onShare }: { ws: string; at: string; query: URLSearchParams; mayWrite: boolean; locks: Lock[]; turn: number; onChanged: () => void; onShare: (version: string) => void }): ReactElement {
  const version = query.get('version');
  const tab = (['preview', 'versions', 'made'] as const).find((t) => t === query.get('tab')) ?? 'preview';
  const { data: current, error: lost } = useLoad<FileInfo | null>(`current ${ws} ${at} ${turn}`, async (signal) => files.info(ws, at, null, signal).catch((e: unknown) => {
    if (e instanceof ApiError && e.status === 404) return null;
    throw e;
  }), changesOf(ws, ...FILE_ACTIONS));
  const old = useLoad<FileInfo>(version && version !== current?.version ? `version ${ws} ${at} ${version}` : null, (signal) => files.info(ws, at, version, signal));
  const file = version && version !== current?.version ? old.data : current;
  const lock = locks.find((l) => l.path === at || (l.path !== '' && at.startsWith(l.path.endsWith('/') ? l.path : `${l.path}/`)));
  if (lost || (old.error && version)) return <Problem error={lost ?? old.error} />;
  if (current === null && !version) return <Empty title="This file is gone" action={<a className="button" href={href('files', ws, { tab: 'trash' })}>Look in the trash</a>}>It was deleted, moved or renamed. Its versions may still be in the trash.</Empty>;
  if (!file) return <Loading />;
  const past = current ? file.version !== current.version : true;
  const setTab = (next: FileTab) => go(href('files', ws, at, { version, tab: next === 'preview' ? null : next }));
  const line = Number(query.get('line')) || null;
  const page = Number(query.get('page')) || null;
  return (
    <div className="stack">
      <div className="row spread files-facts">
        <span className="row small muted"><Size bytes={file.size} /><span>version {file.number}</span><Time at={file.modified_at} /><code>{file.mime_type}</code>{lock && <Chip tone="warn" title={`until ${lock.expires_at}`}>locked by <Who id={lock.holder} name={lock.holder_name} /></Chip>}</span>
        <span className="row">
          <ActionButton compact icon="download" onError={toastError} action={async () => saveBlob(await api.blob(files.content(file.file_id, file.version)), baseName(at))}>Download</ActionButton>
          {mayWrite && past && <Button compact icon="share" onClick={() => onShare(file.version)}>Share this version…</Button>}
        </span>
      </div>
      {past && <Notice tone="warn" actions={<span className="row">{mayWrite && <ActionButton compact icon="history" onError={toastError} action={async () => {
        await files.restore(ws, { version: file.version });
        toast(`Version ${file.number} is current again.`, current ? { undo: async () => {
          await files.restore(ws, { version: current.version });
          onChanged();
        } } : {});
        onChanged();
        go(href('files', ws, at));
      }}>Restore it</ActionButton>}{current && <a className="button compact" href={href('files', ws, at)}>Show the current one</a>}</span>}><p>{current ? `This is version ${file.number}; version ${current.number} is current.` : `This is version ${file.number} of a file that was deleted.`}</p></Notice>}
      <Tabs label="About the file" value={tab} onChange={setTab} tabs={[{ id: 'preview', label: 'Preview' }, { id: 'versions', label: `Versions${current && current.number > 1 ? ` (${current.number})` : ''}` }, { id: 'made', label: 'Made by' }]} />
      {tab === 'preview' && <Preview file={file} line={line} page={page} />}
      {tab === 'versions' && <FileHistory file={current ?? file} shown={file.version} mayWrite={mayWrite} onChanged={onChanged} />}
      {tab === 'made' && <MadeBy file={file} />}
    </div>
  );
}

// --- a folder or the whole workspace -------------------------------------------------

function FolderView({ workspace, folder, query, mayWrite, owner, locks, turn, onChanged, onUpload }: { workspace: Workspace; folder: string; query: URLSearchParams; mayWrite: boolean; owner: boolean; locks: Lock[]; turn: number; onChanged: () => void; onUpload: () => void }): ReactElement {
  const tab = (['overview', 'history', 'shares', 'locks', 'trash'] as const).find((t) => t === query.get('tab')) ?? 'overview';
  const tabs: { id: Tab; label: string }[] = [{ id: 'overview', label: 'Overview' }, { id: 'history', label: 'History' }, { id: 'shares', label: 'Shares' }, { id: 'locks', label: `Locks${locks.length ? ` (${locks.length})` : ''}` }, { id: 'trash', label: 'Trash' }];
  if (folder) return <FolderList ws={workspace.id} folder={folder} turn={turn} />;
  return (
    <div className="stack">
      <Tabs label="About the workspace" value={tab} onChange={(next) => go(href('files', workspace.id, { tab: next === 'overview' ? null : next }))} tabs={tabs} />
      {tab === 'overview' && <>
        <dl className="facts">
          <dt>Files</dt><dd>{workspace.files.toLocaleString()}, {sizeText(workspace.bytes)}</dd>
          <dt>Stored</dt><dd className="files-used start"><span>{sizeText(workspace.stored_bytes)} with all versions{workspace.quota_bytes > 0 && ` of ${sizeText(workspace.quota_bytes)}`}</span>{workspace.quota_bytes > 0 && <Meter label="Quota used" value={workspace.stored_bytes} max={workspace.quota_bytes} />}</dd>
          <dt>Commits</dt><dd>{workspace.commits.toLocaleString()}</dd>
          <dt>Owner</dt><dd><Who id={workspace.owner} name={workspace.owner_name} /> {workspace.role !== 'owner' && <Chip>you are {workspace.role}</Chip>}</dd>
          <dt>Keeps</dt><dd>{workspace.retention.keep_versions ? `the newest ${workspace.retention.keep_versions} versions of a file` : 'all versions'}{workspace.retention.keep_days ? ` for ${workspace.retention.keep_days} days` : ''}{workspace.legal_hold && <> <Chip tone="warn">legal hold: nothing is removed</Chip></>}</dd>
          <dt>Changed</dt><dd><Time at={workspace.updated_at} /></dd>
          <dt>Id</dt><dd className="mono small">{workspace.id}</dd>
        </dl>
        {workspace.files === 0 && <Empty title="No files yet" action={mayWrite && <Button kind="primary" icon="upload" onClick={onUpload}>Upload files</Button>}>Drop files anywhere on this page, or run code that writes to <code>/mnt/data</code>.</Empty>}
      </>}
      {tab === 'history' && <WorkspaceHistory ws={workspace.id} turn={turn} />}
      {tab === 'shares' && <Shares ws={workspace.id} mayWrite={mayWrite} />}
      {tab === 'locks' && <Locks ws={workspace.id} locks={locks} mayWrite={mayWrite} mayForce={owner} onChanged={onChanged} />}
      {tab === 'trash' && <Trash ws={workspace.id} mayWrite={mayWrite} mayPurge={owner} hold={workspace.legal_hold} onChanged={onChanged} />}
    </div>
  );
}

function FolderList({ ws, folder, turn }: { ws: string; folder: string; turn: number }): ReactElement {
  const { data, error, reload } = useLoad<List<Entry>>(`folder ${ws} ${folder} ${turn}`, (signal) => files.list(ws, { prefix: folder, delimiter: '/', limit: 500 }, signal), changesOf(ws, ...FILE_ACTIONS));
  if (error) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading />;
  if (!data.data.length) return <Empty title="This folder is empty" action={<a className="button" href={href('files', ws)}>To the workspace</a>}>Its files were deleted or moved.</Empty>;
  return <>
    <ul className="files-list" aria-label="Entries">{data.data.map((entry) => (
      <li key={entry.path}><a href={href('files', ws, entry.path)}><Name>{baseName(entry.path)}</Name>{entry.type === 'folder' && '/'}</a>{entry.type === 'file' && <span className="small muted row"><Size bytes={entry.size} /><Time at={entry.modified_at} form="ago" /></span>}</li>
    ))}</ul>
    {data.has_more && <p className="small muted">The first {data.data.length} entries. The tree has all of them.</p>}
  </>;
}

function WorkspaceHistory({ ws, turn }: { ws: string; turn: number }): ReactElement {
  const [rows, setRows] = useState<Version[]>([]);
  const { data, error, reload } = useLoad<List<Version>>(`whole history ${ws} ${turn}`, (signal) => files.history(ws, { limit: 100 }, signal), changesOf(ws, ...FILE_ACTIONS));
  const [more, setMore] = useState<boolean | null>(null);
  if (error) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading />;
  const all = [...data.data, ...rows.filter((r) => !data.data.some((d) => d.version === r.version))];
  if (!all.length) return <Empty title="Nothing happened yet">Every change of a file is listed here.</Empty>;
  return <>
    <ol className="files-timeline" aria-label="Changes, newest first">{all.map((v) => (
      <li key={v.version}>
        <div className="row spread"><span className="row"><Chip tone={changeTone[v.change] ?? 'plain'}>{v.change}</Chip>{v.change === 'deleted' ? <Name>{v.path}</Name> : <a href={href('files', ws, v.path, { version: v.version })}><Name>{v.path}</Name></a>}</span><Time at={v.at} /></div>
        <div className="small muted"><Cause version={v} />{v.from && <> from <Name>{v.from}</Name></>}</div>
      </li>
    ))}</ol>
    {(more ?? data.has_more) && <ActionButton onError={toastError} action={async () => {
      const next = await files.history(ws, { limit: 100, after: all.at(-1)!.version });
      setRows([...rows, ...next.data]);
      setMore(next.has_more);
    }}>Older changes</ActionButton>}
  </>;
}
