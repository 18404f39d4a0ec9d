// SPDX-License-Identifier: Apache-2.0
// Uploads into a workspace: dropped or chosen, folders too, each with its
// progress. A large file goes in parts.
import { useCallback, useEffect, useRef, useState, type DragEvent, type ReactElement, type ReactNode } from 'react';
import { api, filePath, messageOf, path, withQuery, type Upload } from '../../api/client';
import { Button, Name, Size } from '../../ui/basic';
import { Icon } from '../../ui/icons';
import { lockHeaders } from './model';

const WHOLE = 64 * 1024 * 1024; // larger ones go in parts
const AT_ONCE = 3;

interface Job { id: number; path: string; file: File; part: number; state: 'waits' | 'runs' | 'done' | 'failed' | 'cancelled'; problem: string | null; cancel: (() => void) | null }

let next = 1;

async function inParts(ws: string, at: string, file: File, onPart: (part: number) => void, stop: { cancel: (() => void) | null; stopped: boolean }): Promise<void> {
  const upload = await api.post<{ id: string; part_bytes: number }>(path`/api/workspaces/${ws}/uploads`, { path: at, size: file.size });
  const bytes = Math.min(upload.part_bytes, 16 * 1024 * 1024);
  try {
    for (let number = 1, from = 0; from < file.size; number++, from += bytes) {
      for (let attempt = 1; ; attempt++) {
        if (stop.stopped) throw new Error('cancelled');
        const sent: Upload = api.upload('PUT', path`/api/uploads/${upload.id}/parts/${number}`, file.slice(from, from + bytes), (p) => onPart((from + p * Math.min(bytes, file.size - from)) / file.size));
        stop.cancel = sent.cancel;
        try {
          await sent.promise;
          break;
        } catch (error) {
          if (stop.stopped || attempt === 3) throw error;
        }
      }
    }
    await api.post(path`/api/uploads/${upload.id}/complete`, {}, { headers: lockHeaders(ws) });
  } catch (error) {
    await api.del(path`/api/uploads/${upload.id}`).catch(() => {});
    throw error;
  }
}

// Files of a drop, folders opened.
async function dropped(list: DataTransferItemList): Promise<{ path: string; file: File }[]> {
  const roots = [...list].flatMap((item) => item.webkitGetAsEntry() ?? []);
  const out: { path: string; file: File }[] = [];
  const walk = async (entry: FileSystemEntry): Promise<void> => {
    if (out.length >= 10_000) return;
    if (entry.isFile) {
      const file = await new Promise<File>((done, failed) => (entry as FileSystemFileEntry).file(done, failed));
      out.push({ path: entry.fullPath.replace(/^\//, ''), file });
      return;
    }
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    for (;;) {
      const some = await new Promise<FileSystemEntry[]>((done, failed) => reader.readEntries(done, failed));
      if (!some.length) return;
      for (const one of some) await walk(one);
    }
  };
  for (const root of roots) await walk(root);
  return out;
}

export function useUploads(ws: string, folder: string, onDone: () => void): { pick: () => void; dropProps: Record<string, (e: DragEvent) => void>; over: boolean; view: ReactNode; input: ReactNode } {
  const [jobs, setJobs] = useState<Job[]>([]);
  const [over, setOver] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  const queue = useRef<Job[]>([]);
  const running = useRef(0);
  const finished = useRef(onDone);
  finished.current = onDone;
  const update = useCallback((id: number, change: Partial<Job>) => setJobs((all) => all.map((j) => (j.id === id ? { ...j, ...change } : j))), []);

  const pump = useCallback(() => {
    while (running.current < AT_ONCE) {
      const job = queue.current.shift();
      if (!job) return;
      running.current++;
      const stop: { cancel: (() => void) | null; stopped: boolean } = { cancel: null, stopped: false };
      const cancel = () => {
        stop.stopped = true;
        stop.cancel?.();
      };
      update(job.id, { state: 'runs', cancel });
      const onPart = (part: number) => update(job.id, { part });
      let work: Promise<unknown>;
      if (job.file.size > WHOLE) work = inParts(ws, job.path, job.file, onPart, stop);
      else {
        const sent = api.upload('PUT', withQuery(`${path`/api/workspaces/${ws}/files/`}${filePath(job.path)}`), job.file, onPart, { 'Content-Type': job.file.type || 'application/octet-stream', ...lockHeaders(ws) });
        stop.cancel = sent.cancel;
        work = sent.promise;
      }
      work.then(() => {
        update(job.id, { state: 'done', part: 1, cancel: null });
        finished.current();
      }, (error: unknown) => update(job.id, { state: stop.stopped ? 'cancelled' : 'failed', problem: stop.stopped ? null : messageOf(error), cancel: null }))
        .finally(() => {
          running.current--;
          pump();
        });
    }
  }, [ws, update]);

  const add = useCallback((list: { path: string; file: File }[]) => {
    const made = list.map(({ path: at, file }): Job => ({ id: next++, path: folder + at, file, part: 0, state: 'waits', problem: null, cancel: null }));
    setJobs((all) => [...all.filter((j) => j.state !== 'done'), ...made]);
    queue.current.push(...made);
    pump();
  }, [folder, pump]);

  useEffect(() => {
    if (!jobs.some((j) => j.state === 'runs' || j.state === 'waits')) return undefined;
    const ask = (e: BeforeUnloadEvent) => e.preventDefault();
    addEventListener('beforeunload', ask);
    return () => removeEventListener('beforeunload', ask);
  }, [jobs]);

  const left = jobs.filter((j) => j.state === 'runs' || j.state === 'waits').length;
  const view = jobs.length > 0 && (
    <section className="panel files-uploads" aria-label="Uploads">
      <div className="row spread"><strong>{left ? `Uploading ${left} ${left === 1 ? 'file' : 'files'}` : 'Uploads'}</strong>{!left && <Button compact kind="plain" icon="close" label="Close the list of uploads" onClick={() => setJobs([])} />}</div>
      <ul>{jobs.slice(0, 200).map((job) => (
        <li key={job.id}>
          <span className="truncate grow"><Name>{job.path}</Name></span>
          <Size bytes={job.file.size} />
          {job.state === 'failed' ? <span className="chip bad" title={job.problem ?? ''}>failed</span> : job.state === 'done' ? <span className="chip good">done</span> : job.state === 'cancelled' ? <span className="chip">cancelled</span>
            : <progress max={1} value={job.part} aria-label={`Progress of ${job.path}`} />}
          {job.state === 'runs' && job.cancel && <Button compact kind="plain" icon="close" label={`Cancel ${job.path}`} onClick={job.cancel} />}
          {job.problem && <span className="small files-problem" role="alert">{job.problem}</span>}
        </li>
      ))}</ul>
      {jobs.length > 200 && <p className="small muted">and {jobs.length - 200} more</p>}
    </section>
  );
  return {
    pick: () => input.current?.click(),
    over,
    view,
    input: <input ref={input} type="file" multiple hidden aria-label="Files to upload" onChange={(e) => {
      add([...(e.target.files ?? [])].map((file) => ({ path: file.name, file })));
      e.target.value = '';
    }} />,
    dropProps: {
      onDragOver: (e) => {
        if (!e.dataTransfer.types.includes('Files')) return;
        e.preventDefault();
        setOver(true);
      },
      onDragLeave: (e) => { if (!e.currentTarget.contains(e.relatedTarget as Node | null)) setOver(false); },
      onDrop: (e) => {
        e.preventDefault();
        setOver(false);
        const plain = [...e.dataTransfer.files].map((file) => ({ path: file.name, file }));
        dropped(e.dataTransfer.items).then((list) => add(list.length ? list : plain), () => add(plain));
      },
    },
  };
}

export const DropHint = ({ folder }: { folder: string }): ReactElement =>
  <div className="files-drop" aria-hidden="true"><Icon name="upload" size={28} /><strong>Drop to upload into {folder || 'the workspace'}</strong></div>;
