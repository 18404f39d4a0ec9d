// SPDX-License-Identifier: Apache-2.0
// One cell: its number and state in the gutter, its text, its output.
import { memo, useEffect, useRef, useState, type FormEvent, type ReactElement } from 'react';
import { api, path, saveBlob } from '../../api/client';
import { href } from '../../app/router';
import { Button, Chip, durationText, Name, Ring, sizeText } from '../../ui/basic';
import { Editor, type Completion, type EditorHandle, type EditorProps } from '../../ui/editor';
import { Menu, toastError } from '../../ui/overlay';
import { Markdown } from '../../ui/text';
import type { Cell, Run } from './model';
import { isActive } from './model';
import { Outputs } from './output';
import type { NotebookStore } from './store';

export interface CellActions {
  select: (id: string) => void;
  editing: (id: string, on: boolean) => void;
  command: (name: string, id: string) => void;
  keys: (id: string) => EditorProps['keys'];
  ready: (id: string, handle: EditorHandle | null) => void;
  complete: (code: string, cursor: number) => Promise<Completion | null>;
  inspect: (code: string, cursor: number) => Promise<HTMLElement | null>;
}

const words: Record<string, string> = { ok: 'done', error: 'failed', timeout: 'stopped at its time limit', oom: 'out of memory', killed: 'killed', limit: 'stopped at a limit', crashed: 'crashed', cancelled: 'interrupted', denied: 'denied', isolation_failed: 'could not be isolated', lost: 'lost with its node' };

function stateOf(cell: Cell): { ring: 'idle' | 'good' | 'bad' | 'busy' | 'warn'; text: string } {
  const { run } = cell;
  if (!run) return { ring: 'idle', text: cell.count === null ? 'not run' : 'run before' };
  switch (run.status) {
    case 'waiting': return { ring: 'warn', text: 'waits its turn' };
    case 'queued': return { ring: 'warn', text: 'queued' };
    case 'held': return { ring: 'warn', text: 'waits for approval' };
    case 'running': return { ring: 'busy', text: run.input ? 'waits for input' : 'running' };
    case 'done': return { ring: run.outcome === 'ok' ? 'good' : 'bad', text: words[run.outcome ?? 'ok'] };
  }
}

// Elapsed time while it runs; the run's own figure afterwards.
function Elapsed({ run }: { run: Run }): ReactElement | null {
  const [now, setNow] = useState(Date.now());
  const active = run.status === 'running';
  useEffect(() => {
    if (!active) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 200);
    return () => clearInterval(timer);
  }, [active]);
  const ms = active && run.startedAt ? Math.max(0, now - run.startedAt) : run.wallMs;
  if (ms === null) return null;
  return <span className="nowrap" title={run.memory ? (active ? 'Time so far, and memory in use now' : 'Time, and memory at most') : undefined}>{durationText(ms)}{run.memory ? <span className="cell-memory"> · {sizeText(run.memory)}</span> : null}</span>;
}

function InputForm({ run, onAnswer }: { run: Run; onAnswer: (text: string | null) => void }): ReactElement {
  const [text, setText] = useState('');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onAnswer(text);
  };
  return (
    <form className="cell-input" onSubmit={submit} onKeyDown={(e) => e.stopPropagation()}>
      <label className="grow"><span className="mono">{run.input!.prompt || 'Input:'}</span>
        <input className="input mono" autoFocus type={run.input!.password ? 'password' : 'text'} autoComplete="off" spellCheck={false} value={text} onChange={(e) => setText(e.target.value)} /></label>
      <Button kind="primary" type="submit">Send</Button>
      <Button onClick={() => onAnswer(null)}>End of input</Button>
    </form>
  );
}

// An editor costs; cells far from the view show their text only.
function useNear(ref: React.RefObject<HTMLElement | null>, always: boolean): boolean {
  const [near, setNear] = useState(always);
  useEffect(() => {
    if (near || !ref.current) return undefined;
    const observer = new IntersectionObserver((entries) => { if (entries.some((e) => e.isIntersecting)) setNear(true); }, { rootMargin: '800px' });
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, [near]);
  return near || always;
}

export const CellView = memo(({ cell, index, count, store, selected, editing, numbers, actions, readOnly }: { cell: Cell; index: number; count: number; store: NotebookStore; selected: boolean; editing: boolean; numbers: boolean; actions: CellActions; readOnly: boolean }): ReactElement => {
  const box = useRef<HTMLElement>(null);
  const near = useNear(box, selected || index < 12);
  const state = stateOf(cell);
  const active = isActive(cell.run);
  const label = `Cell ${index + 1} of ${count}, ${cell.kind}`;
  const folded = !!cell.metadata.collapsed;
  const shown = cell.kind === 'markdown' && !editing;
  useEffect(() => () => actions.ready(cell.id, null), []);
  const editor = (
    <Editor value={cell.source} label={`${label}: text`} language={cell.kind === 'code' ? 'python' : cell.kind === 'markdown' ? 'markdown' : 'text'} lineNumbers={numbers}
      placeholder={cell.kind === 'code' ? (index === 0 && count === 1 ? 'Type Python, then press Shift+Enter' : undefined) : cell.kind === 'markdown' ? 'Markdown' : undefined}
      readOnly={readOnly} onChange={(source) => store.edit(cell.id, source)} keys={actions.keys(cell.id)}
      complete={cell.kind === 'code' ? actions.complete : undefined} inspect={cell.kind === 'code' ? actions.inspect : undefined}
      onReady={(handle) => actions.ready(cell.id, handle)} onFocus={() => { actions.select(cell.id); actions.editing(cell.id, true); }} onBlur={() => actions.editing(cell.id, false)} />
  );
  return (
    <section ref={box} id={`cell-${cell.id}`} data-cell={cell.id} className={`cell kind-${cell.kind} ${selected ? 'selected' : ''} ${editing ? 'editing' : ''}`} role="group" aria-label={label} aria-current={selected || undefined} tabIndex={selected ? 0 : -1}
      onPointerDown={() => actions.select(cell.id)}>
      <div className="cell-gutter">
        {cell.kind === 'code' ? <>
          {active
            ? <Button compact kind="plain" icon="stop" label={cell.run!.status === 'running' ? 'Interrupt' : 'Cancel'} onClick={() => actions.command('interrupt', cell.id)} />
            : <Button compact kind="plain" icon="play" label="Run this cell" disabled={readOnly} onClick={() => actions.command('run', cell.id)} />}
          <span className="cell-state" title={state.text}><Ring state={state.ring} /><span className="cell-count num" aria-hidden="true">{cell.count ?? ''}</span><span className="visually-hidden">{state.text}</span></span>
        </> : <span className="cell-kind" aria-hidden="true">{cell.kind === 'markdown' ? 'M↓' : 'raw'}</span>}
      </div>
      <div className="cell-main">
        {shown
          ? <div className="cell-markdown" onDoubleClick={() => actions.command('edit', cell.id)}>{cell.source.trim() ? <Markdown text={cell.source} /> : <p className="muted small">Empty Markdown cell. Press Enter to write.</p>}</div>
          : near ? editor : <pre className="code editor-waits">{cell.source}</pre>}
        {cell.kind === 'code' && cell.run && <RunLine cell={cell} store={store} />}
        {cell.kind === 'code' && cell.outputs.length > 0 && (folded
          ? <Button compact kind="plain" onClick={() => store.setFolded(cell.id, false)}>Output is folded: show it</Button>
          : <div className="cell-output" role="group" aria-label={`Output of cell ${index + 1}`} aria-live={active ? 'off' : undefined}><Outputs outputs={cell.outputs} label={`Output of cell ${index + 1}`} live={active} /></div>)}
        {cell.run?.input && <InputForm run={cell.run} onAnswer={(text) => { store.answer(cell.id, text).catch(toastError); }} />}
        {!!cell.run?.files.length && <FileLine run={cell.run} store={store} />}
      </div>
      <div className="cell-tools">
        <Menu compact label={`Actions of cell ${index + 1}`} items={[
          { label: 'Run', keys: 'Ctrl Enter', disabled: cell.kind !== 'code', onSelect: () => actions.command('run', cell.id) },
          { label: 'Run this and all below', onSelect: () => actions.command('run-below', cell.id) },
          { label: 'Insert above', keys: 'A', onSelect: () => actions.command('above', cell.id) },
          { label: 'Insert below', keys: 'B', onSelect: () => actions.command('below', cell.id) },
          'line',
          { label: 'Move up', onSelect: () => actions.command('up', cell.id) },
          { label: 'Move down', onSelect: () => actions.command('down', cell.id) },
          { label: cell.kind === 'code' ? 'Make it Markdown' : 'Make it code', keys: cell.kind === 'code' ? 'M' : 'Y', onSelect: () => actions.command(cell.kind === 'code' ? 'markdown' : 'code', cell.id) },
          { label: 'Merge with the cell below', keys: 'Shift M', onSelect: () => actions.command('merge', cell.id) },
          { label: folded ? 'Show output' : 'Fold output', keys: 'O', onSelect: () => actions.command('fold', cell.id) },
          { label: 'Clear output', onSelect: () => actions.command('clear', cell.id) },
          { label: 'Keep as a tool…', disabled: readOnly || cell.kind !== 'code' || !cell.source.trim(), onSelect: () => actions.command('keep', cell.id) },
          'line',
          { label: 'Delete', keys: 'D D', danger: true, onSelect: () => actions.command('delete', cell.id) },
        ]} />
      </div>
    </section>
  );
});

function RunLine({ cell, store }: { cell: Cell; store: NotebookStore }): ReactElement | null {
  const run = cell.run!;
  const state = stateOf(cell);
  const tone = run.status === 'done' ? (run.outcome === 'ok' ? null : 'bad') : run.status === 'running' ? 'accent' : 'warn';
  if (run.status === 'done' && run.wallMs === null && run.outcome === 'ok' && !run.notice) return null;
  return <>
    <div className="cell-run small muted" role="status">
      {tone && <Chip tone={tone}>{state.text}</Chip>}
      <Elapsed run={run} />
      {run.status === 'held' && <span>A person must approve this run first. {run.approval && <a href={href('approvals', run.approval)}>Open the request</a>}</span>}
      {run.truncated && <span>The output was cut at its limit.</span>}
      {run.status === 'done' && run.execution && <a href={href('executions', run.execution)}>Evidence</a>}
      {run.status === 'running' && <Button compact onClick={() => { store.interrupt().catch(toastError); }}>Interrupt</Button>}
    </div>
    {run.notice && <p className="small muted">{run.notice}</p>}
    {run.warning && <p className="small cell-warning">{run.warning}</p>}
  </>;
}

function FileLine({ run, store }: { run: Run; store: NotebookStore }): ReactElement {
  return (
    <div className="cell-files small"><span className="muted">Files:</span>
      {run.files.map((file) => (
        <span key={file.path} className="cell-file">
          <a href={href('files', store.ws, file.path)}><Name>{file.path}</Name></a>
          <span className="muted">{sizeText(file.size)}</span>
          <Button compact kind="plain" icon="download" label={`Download ${file.path}`} onClick={() => { api.blob(path`/api/files/${file.file_id}/content`, { version: file.version }).then((blob) => saveBlob(blob, file.path)).catch(toastError); }} />
        </span>
      ))}
    </div>
  );
}
