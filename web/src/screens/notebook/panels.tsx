// SPDX-License-Identifier: Apache-2.0
// Beside the cells: variables of the interpreter, and the workspace's files
// with upload by button or by dropping.
import { useCallback, useState, type ReactElement } from 'react';
import { api, ApiError, filePath, messageOf, path, saveBlob } from '../../api/client';
import { useLoad } from '../../api/query';
import type { FileInfo, List, Session } from '../../api/types';
import { asleep } from '../../api/types';
import { href } from '../../app/router';
import { Button, Loading, Name, Problem, sizeText } from '../../ui/basic';
import { toast, toastError } from '../../ui/overlay';

interface Variable { name: string; type: string; text: string; shape?: number[] | null; dtype?: string | null; size?: number | null }

export function Variables({ session, turn, busy }: { session: Session | null; turn: number; busy: boolean }): ReactElement {
  const awake = session && !asleep(session.state);
  const { data, error, loading, reload } = useLoad<{ data?: Variable[]; has_more?: boolean }>(awake && !busy ? `${session.id} ${turn}` : null,
    (signal) => api.get(path`/api/sessions/${session!.id}/variables`, {}, { signal }));
  const [kept, setKept] = useState<Variable[] | null>(null);
  if (data?.data && data.data !== kept) setKept(data.data);
  const list = data?.data ?? (busy ? kept : null);
  if (!awake) return <p className="small muted">No interpreter is running. Variables appear here once a cell has run.</p>;
  if (error && !(error instanceof ApiError && error.status === 409)) return <Problem error={error} retry={reload} />;
  if (!list) return loading ? <Loading /> : <p className="small muted">Variables appear here once a cell has run.</p>;
  if (!list.length) return <p className="small muted">There are no variables yet.</p>;
  return (
    <ul className="variables" aria-label="Variables">
      {list.map((v) => (
        <li key={v.name}>
          <span className="row spread"><code>{v.name}</code><span className="small muted">{v.type}{v.shape ? ` ${v.shape.join('×')}` : ''}{v.dtype ? ` ${v.dtype}` : ''}</span></span>
          {v.text && <span className="variables-value mono truncate" title={v.text}>{v.text}</span>}
        </li>
      ))}
      {data?.has_more && <li className="small muted">There are more.</li>}
    </ul>
  );
}

// --- uploads ---------------------------------------------------------------------

export interface Sending { id: number; name: string; part: number; problem: string | null; cancel: () => void }
let next = 1;

// Uploads files into a workspace, each with its progress.
export function useUploads(ws: string, onDone: () => void): { sending: Sending[]; send: (files: Iterable<File>) => void; drop: (id: number) => void } {
  const [sending, setSending] = useState<Sending[]>([]);
  const drop = useCallback((id: number) => setSending((list) => list.filter((s) => s.id !== id)), []);
  const send = useCallback((files: Iterable<File>) => {
    for (const file of files) {
      const id = next++;
      const name = (file.webkitRelativePath || file.name).normalize('NFC');
      const set = (change: Partial<Sending>) => setSending((list) => list.map((s) => (s.id === id ? { ...s, ...change } : s)));
      const upload = api.upload('PUT', `${path`/api/workspaces/${ws}`}/files/${filePath(name)}`, file, (part) => set({ part }), { 'Content-Type': file.type || 'application/octet-stream' });
      setSending((list) => [...list, { id, name, part: 0, problem: null, cancel: upload.cancel }]);
      upload.promise.then(() => {
        toast(`${name} is in the workspace.`);
        onDone();
        setTimeout(() => drop(id), 1500);
      }, (error: unknown) => set({ problem: messageOf(error) }));
    }
  }, [ws, onDone, drop]);
  return { sending, send, drop };
}

export function SendingList({ sending, drop }: { sending: Sending[]; drop: (id: number) => void }): ReactElement | null {
  if (!sending.length) return null;
  return (
    <ul className="sending" aria-label="Uploads">
      {sending.map((s) => (
        <li key={s.id}>
          <span className="row spread"><Name>{s.name}</Name>{s.problem || s.part >= 1 ? <Button compact kind="plain" icon="close" label="Dismiss" onClick={() => drop(s.id)} /> : <Button compact kind="plain" onClick={s.cancel}>Cancel</Button>}</span>
          {s.problem ? <span className="small sending-problem" role="alert">{s.problem}</span>
            : <progress max={1} value={s.part} aria-label={`Upload of ${s.name}`}>{Math.round(s.part * 100)} %</progress>}
        </li>
      ))}
    </ul>
  );
}

export function FilesPanel({ ws, turn, mayWrite, uploads, onInsert }: { ws: string; turn: number; mayWrite: boolean; uploads: ReturnType<typeof useUploads>; onInsert: (code: string) => void }): ReactElement {
  const { data, error, reload } = useLoad<List<FileInfo>>(`${ws} ${turn}`, (signal) => api.get(path`/api/workspaces/${ws}/files`, { limit: 200 }, { signal }),
    { refreshOn: ['workspace'], accept: (e) => JSON.stringify(e.data).includes(ws) });
  return (
    <div className="stack tight">
      {mayWrite && <label className="button panel-upload">Upload files<input type="file" multiple className="visually-hidden" onChange={(e) => {
        if (e.target.files) uploads.send(e.target.files);
        e.target.value = '';
      }} /></label>}
      <SendingList sending={uploads.sending} drop={uploads.drop} />
      {error ? <Problem error={error} retry={reload} /> : !data ? <Loading /> : data.data.length === 0 ? <p className="small muted">The workspace has no files. Drop some here, or let a cell write them to <code>/mnt/data</code>.</p> : (
        <ul className="panel-files" aria-label="Files">
          {data.data.map((file) => (
            <li key={file.path}>
              <a className="truncate" href={href('files', ws, file.path)} title={file.path}><Name>{file.path}</Name></a>
              <span className="small muted nowrap">{sizeText(file.size)}</span>
              <Button compact kind="plain" icon="plus" label={`Insert code that reads ${file.path}`} onClick={() => onInsert(readerFor(file.path))} />
              <Button compact kind="plain" icon="download" label={`Download ${file.path}`} onClick={() => { api.blob(path`/api/files/${file.file_id}/content`).then((blob) => saveBlob(blob, file.path)).catch(toastError); }} />
            </li>
          ))}
          {data.has_more && <li><a href={href('files', ws)}>All files</a></li>}
        </ul>
      )}
    </div>
  );
}

export function readerFor(name: string): string {
  const at = JSON.stringify(`/mnt/data/${name}`);
  const ending = name.split('.').pop()?.toLowerCase();
  const reader = { csv: 'read_csv', tsv: 'read_table', parquet: 'read_parquet', xlsx: 'read_excel', json: 'read_json' }[ending ?? ''];
  if (reader) return `import pandas as pd\ndf = pd.${reader}(${at})\ndf`;
  if (['png', 'jpg', 'jpeg', 'gif', 'webp'].includes(ending ?? '')) return `from IPython.display import Image\nImage(${at})`;
  return `text = open(${at}).read()\nprint(text[:1000])`;
}
