// SPDX-License-Identifier: Apache-2.0
// The notebooks of a person: one in each workspace.
import { useRef, type ReactElement } from 'react';
import { api, path } from '../../api/client';
import { useLoad } from '../../api/query';
import type { List, Session, Workspace } from '../../api/types';
import { useMay } from '../../app/me';
import { go, href } from '../../app/router';
import { ActionButton, Button, Chip, Empty, Loading, Name, Page, Problem, Size, Time } from '../../ui/basic';
import { toastError } from '../../ui/overlay';
import { Table } from '../../ui/table';
import { MAX_BYTES, readNotebook, writeNotebook } from './model';
import { DEFAULT_PATH } from './store';

export async function newNotebook(name: string, text?: string): Promise<string> {
  const ws = await api.post<Workspace>('/api/workspaces', { name });
  if (text !== undefined) await api.raw('PUT', `${path`/api/workspaces/${ws.id}`}/files/${DEFAULT_PATH}`, text, { headers: { 'Content-Type': 'application/x-ipynb+json' } });
  return ws.id;
}

export async function importNotebook(file: File): Promise<string> {
  if (file.size > MAX_BYTES) throw new Error(`${file.name} is larger than ${MAX_BYTES / 2 ** 20} MiB.`);
  return newNotebook(file.name.replace(/\.ipynb$/i, '').slice(0, 100) || 'Imported notebook', writeNotebook(readNotebook(await file.text())));
}

interface Row { workspace: Workspace; session: Session | undefined }
const states = { running: ['running', 'accent'], idle: ['ready', 'good'], starting: ['starting', 'accent'], dormant: ['asleep', 'plain'], hibernated: ['hibernated', 'plain'] } as const;

export function NotebookList(): ReactElement {
  const mayMake = useMay('files:write');
  const input = useRef<HTMLInputElement>(null);
  const { data, error, reload } = useLoad<Row[]>('notebooks', async (signal) => {
    const [workspaces, sessions] = await Promise.all([api.get<List<Workspace>>('/api/workspaces', { limit: 200 }, { signal }), api.get<List<Session>>('/api/sessions', { limit: 100 }, { signal })]);
    return workspaces.data.map((workspace) => ({ workspace, session: sessions.data.find((s) => s.workspace === workspace.id) }));
  }, { refreshOn: ['session', 'workspace'] });
  const make = async () => { go(href('notebook', await newNotebook('Untitled notebook'))); };
  const take = (file: File | undefined) => { if (file) importNotebook(file).then((ws) => go(href('notebook', ws)), toastError); };
  const actions = mayMake && <>
    <Button icon="upload" onClick={() => input.current?.click()}>Import .ipynb</Button>
    <input ref={input} type="file" accept=".ipynb,application/x-ipynb+json" className="visually-hidden" tabIndex={-1} aria-label="Notebook file to import" onChange={(e) => {
      take(e.target.files?.[0]);
      e.target.value = '';
    }} />
    <ActionButton kind="primary" icon="plus" action={make} onError={toastError}>New notebook</ActionButton>
  </>;
  return (
    <Page title="Notebooks" lead="Each workspace has a notebook. It is a file like any other: versioned, searchable, yours to download." actions={actions}>
      <div onDragOver={(e) => e.preventDefault()} onDrop={(e) => {
        e.preventDefault();
        take([...e.dataTransfer.files].find((f) => f.name.toLowerCase().endsWith('.ipynb')));
      }}>
        {error ? <Problem error={error} retry={reload} /> : !data ? <Loading /> : (
          <Table<Row> label="Notebooks" rows={data} rowKey={(r) => r.workspace.id} first={{ id: 'used', down: true }}
            empty={<Empty title="No notebook yet" action={mayMake && <ActionButton kind="primary" icon="plus" action={make} onError={toastError}>New notebook</ActionButton>}>Make one, type some Python, and press Shift+Enter. You can also drop an .ipynb file here.</Empty>}
            columns={[
              { id: 'name', label: 'Name', sort: (r) => r.workspace.name ?? '', cell: (r) => <a href={href('notebook', r.workspace.id)}><strong><Name>{r.workspace.name || 'Unnamed workspace'}</Name></strong></a> },
              { id: 'state', label: 'Interpreter', sort: (r) => r.session?.state ?? '', cell: (r) => r.session ? <Chip tone={states[r.session.state][1]}>{states[r.session.state][0]}</Chip> : <span className="muted">–</span> },
              { id: 'files', label: 'Files', num: true, sort: (r) => r.workspace.files, cell: (r) => <a href={href('files', r.workspace.id)}>{r.workspace.files.toLocaleString()}</a> },
              { id: 'size', label: 'Size', num: true, sort: (r) => r.workspace.bytes, cell: (r) => <Size bytes={r.workspace.bytes} /> },
              { id: 'used', label: 'Changed', sort: (r) => r.workspace.updated_at, cell: (r) => <Time at={r.workspace.updated_at} form="ago" /> },
            ]} />
        )}
      </div>
    </Page>
  );
}
