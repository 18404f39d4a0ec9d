// SPDX-License-Identifier: Apache-2.0
// An open notebook: tool bar, cells, panels, and the keys of Jupyter.
import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore, type KeyboardEvent as ReactKey, type ReactElement } from 'react';
import { flushSync } from 'react-dom';
import { asleep } from '../../api/types';
import { api, path as route, saveBlob } from '../../api/client';
import { useMay } from '../../app/me';
import { remember, remembered } from '../../app/theme';
import { takeRun } from '../../app/firstrun';
import { href } from '../../app/router';
import { Button, Chip, Loading, Notice, Problem, Ring, sizeText } from '../../ui/basic';
import type { EditorHandle, EditorProps } from '../../ui/editor';
import { confirm, Dialog, Menu, toast, toastError } from '../../ui/overlay';
import { KeepDialog, type Draft } from '../tools/keep';
import { CellView, type CellActions } from './cell';
import { importNotebook } from './list';
import { newCell, type Cell } from './model';
import { FilesPanel, useUploads, Variables } from './panels';
import { NotebookStore } from './store';

const keysHelp: [string, string][] = [
  ['Shift+Enter', 'run the cell and go to the next'], ['Ctrl+Enter', 'run the cell'], ['Alt+Enter', 'run the cell and insert one below'],
  ['Enter / Esc', 'edit the cell / leave the text'], ['↑ ↓ or K J', 'select another cell'], ['A / B', 'insert above / below'], ['D D', 'delete the cell'], ['Z', 'undo a deletion'],
  ['X C V', 'cut, copy, paste below (Shift+V above)'], ['M / Y / R', 'make it Markdown / code / raw text'], ['Shift+M', 'merge with the cell below'], ['Ctrl+Shift+−', 'split the cell at the cursor'],
  ['O', 'fold or show the output'], ['L', 'line numbers'], ['I I', 'interrupt'], ['0 0', 'reset the interpreter'], ['Ctrl+S', 'save'], ['Tab', 'complete'], ['Shift+Tab', 'look at what is under the cursor'], ['H', 'this list'],
];

interface Inspected { found?: boolean; name?: string; type?: string; text?: string; signature?: string; doc?: string; shape?: number[] | null; dtype?: string | null }

function inspectText(seen: Inspected): string | null {
  if (!seen.found) return null;
  const shape = seen.shape ? ` ${seen.shape.join('×')}` : '';
  return [`${seen.name ?? ''}: ${seen.type ?? ''}${shape}${seen.dtype ? ` ${seen.dtype}` : ''}`, seen.signature, seen.text && seen.text !== seen.signature ? seen.text : null, seen.doc].filter(Boolean).join('\n\n').slice(0, 4000);
}

export function NotebookView({ ws, path }: { ws: string; path: string }): ReactElement {
  const store = useMemo(() => new NotebookStore(ws, path), [ws, path]);
  useEffect(() => {
    const first = takeRun(ws);
    void store.open().then(() => { if (first) store.run(store.snapshot().doc.cells.map((c) => c.id)); });
    return () => store.close();
  }, [store]);
  const state = useSyncExternalStore(store.subscribe, store.snapshot);
  const { doc, session } = state;
  const mayWrite = useMay('files:write');
  const readOnly = !mayWrite || state.workspace?.role === 'viewer';

  const [chosen, setChosen] = useState<string | null>(null);
  const [editing, setEditing] = useState<string | null>(null);
  const [numbers, setNumbers] = useState(remembered('line-numbers') === 'on');
  const [panel, setPanel] = useState<'variables' | 'files' | null>((remembered('panel') as 'variables' | 'files' | null) ?? (innerWidth > 1200 ? 'variables' : null));
  const [help, setHelp] = useState(false);
  const [keeping, setKeeping] = useState<Draft | null>(null);
  const [tip, setTip] = useState<string | null>(null);
  const [dragging, setDragging] = useState(false);
  const [fileTurn, setFileTurn] = useState(0);
  const uploads = useUploads(ws, useCallback(() => setFileTurn((n) => n + 1), []));
  const selected = doc.cells.some((c) => c.id === chosen) ? chosen! : doc.cells[0].id;
  const handles = useRef(new Map<string, EditorHandle>());
  const wantFocus = useRef<string | null>(null);
  const clipboard = useRef<Cell | null>(null);
  const pending = useRef<{ key: string; at: number }>({ key: '', at: 0 });
  const latest = useRef({ doc, selected, session, editing });
  latest.current = { doc, selected, session, editing };

  const indexOf = (id: string) => latest.current.doc.cells.findIndex((c) => c.id === id);
  const focusCell = (id: string) => {
    flushSync(() => {
      setChosen(id);
      setEditing(null);
    });
    const show = () => {
      const el = document.getElementById(`cell-${id}`);
      el?.focus({ preventScroll: true });
      el?.scrollIntoView({ block: 'nearest' });
    };
    show();
  };
  const editCell = (id: string) => {
    flushSync(() => {
      setChosen(id);
      setEditing(id);
    });
    const handle = handles.current.get(id);
    if (handle) handle.focus();
    else wantFocus.current = id;
  };
  const go = (step: number, edit = false) => {
    const { doc: now, selected: at } = latest.current;
    const next = now.cells[indexOf(at) + step];
    if (!next) return false;
    if (edit && next.kind !== 'markdown') editCell(next.id);
    else focusCell(next.id);
    return true;
  };

  const reset = async () => {
    const yes = await confirm({ title: 'Reset the interpreter?', text: 'Variables are lost and running cells are cancelled. Files and the notebook are kept.', action: 'Reset', danger: true });
    if (yes) await store.reset().then(() => toast('The interpreter was reset.'), toastError);
  };
  const removeCell = (id: string) => {
    const at = indexOf(id);
    const near = latest.current.doc.cells[at + 1] ?? latest.current.doc.cells[at - 1];
    store.remove(id);
    if (near) focusCell(near.id);
    toast('Cell deleted.', { undo: () => {
      const back = store.undoRemove();
      if (back) focusCell(back);
    } });
  };

  const command = (name: string, id: string): void => {
    const at = indexOf(id);
    const cell = latest.current.doc.cells[at];
    if (!cell) return;
    switch (name) {
      case 'run': store.run([id]); break;
      case 'run-next':
        if (cell.kind === 'code') store.run([id]);
        if (!go(1)) editCell(store.insert(at + 1));
        break;
      case 'run-insert':
        if (cell.kind === 'code') store.run([id]);
        editCell(store.insert(at + 1));
        break;
      case 'run-below': store.run(latest.current.doc.cells.slice(at).map((c) => c.id)); break;
      case 'interrupt': store.interrupt().catch(toastError); break;
      case 'edit': editCell(id); break;
      case 'above': focusCell(store.insert(at)); break;
      case 'below': focusCell(store.insert(at + 1)); break;
      case 'up': store.move(id, -1); focusCell(id); break;
      case 'down': store.move(id, 1); focusCell(id); break;
      case 'markdown': case 'code': case 'raw': store.setKind(id, name); focusCell(id); break;
      case 'merge': store.mergeBelow(id); break;
      case 'fold': store.setFolded(id, !cell.metadata.collapsed); break;
      case 'clear': store.clearOutputs([id]); break;
      case 'keep': setKeeping({ workspace: ws, code: cell.source, language: 'python', execution: cell.run?.source === cell.source ? cell.run.execution : null }); break;
      case 'delete': removeCell(id); break;
      default: break;
    }
  };
  const commandRef = useRef(command);
  commandRef.current = command;
  const goRef = useRef(go);
  goRef.current = go;

  // Cells get the same functions for as long as they live.
  const actions = useMemo((): CellActions => {
    const keyed = new Map<string, EditorProps['keys']>();
    const look = async (code: string, cursor: number): Promise<string | null> => {
      const { session: at } = latest.current;
      if (!at || asleep(at.state)) return null;
      const seen = await api.post<Inspected>(route`/api/sessions/${at.id}/inspect`, { code, cursor: [...code.slice(0, cursor)].length }).catch(() => null);
      return seen && inspectText(seen);
    };
    return {
      select: (id) => setChosen(id),
      editing: (id, on) => setEditing((old) => (on ? id : old === id ? null : old)),
      command: (name, id) => commandRef.current(name, id),
      ready: (id, handle) => {
        if (!handle) handles.current.delete(id);
        else {
          handles.current.set(id, handle);
          if (wantFocus.current === id) {
            wantFocus.current = null;
            handle.focus();
          }
        }
      },
      complete: async (code, cursor) => {
        const { session: at } = latest.current;
        if (!at || asleep(at.state)) return null;
        const chars = [...code.slice(0, cursor)].length;
        const found = await api.post<{ matches?: string[]; start?: number; end?: number }>(route`/api/sessions/${at.id}/complete`, { code, cursor: chars }).catch(() => null);
        if (!found?.matches?.length) return null;
        // The service counts characters, the editor UTF-16 units.
        const all = [...code];
        const unit = (n: number) => all.slice(0, n).join('').length;
        return { matches: found.matches, start: unit(found.start ?? chars), end: unit(found.end ?? chars) };
      },
      inspect: async (code, cursor) => {
        const text = await look(code, cursor);
        if (!text) return null;
        const dom = document.createElement('div');
        dom.textContent = text;
        return dom;
      },
      keys: (id) => {
        const known = keyed.get(id);
        if (known) return known;
        const run = (name: string) => () => {
          commandRef.current(name, id);
          return true;
        };
        const list: EditorProps['keys'] = [
          { key: 'Shift-Enter', run: run('run-next') },
          { key: 'Ctrl-Enter', mac: 'Cmd-Enter', run: run('run') },
          { key: 'Alt-Enter', run: run('run-insert') },
          { key: 'Ctrl-Shift--', run: (view) => {
            const made = store.split(id, view.state.selection.main.head);
            if (made) setTimeout(() => editCellRef.current(made));
            return true;
          } },
          { key: 'Mod-s', run: () => {
            void store.save();
            return true;
          } },
          { key: 'Shift-Tab', run: (view) => {
            void look(view.state.doc.toString(), view.state.selection.main.head).then((text) => setTip(text ?? 'Nothing is known about this name. Run the cell first.'));
            return true;
          } },
          { key: 'Tab', run: (view) => {
            const { head, empty } = view.state.selection.main;
            const before = view.state.doc.lineAt(head).text.slice(0, head - view.state.doc.lineAt(head).from);
            if (!empty || !/[\w.)\]'"/]$/.test(before)) return false;
            void import('@codemirror/autocomplete').then((m) => m.startCompletion(view));
            return true;
          } },
          { key: 'ArrowUp', run: (view) => view.state.doc.lineAt(view.state.selection.main.head).number === 1 && view.state.selection.main.empty && goRef.current(-1, true) },
          { key: 'ArrowDown', run: (view) => view.state.doc.lineAt(view.state.selection.main.head).number === view.state.doc.lines && view.state.selection.main.empty && goRef.current(1, true) },
          { key: 'Escape', run: (view) => {
            // The first Escape closes what the editor has open.
            if (view.dom.querySelector('.cm-tooltip-autocomplete, .cm-panel')) return false;
            focusRef.current(id);
            return true;
          } },
        ];
        keyed.set(id, list);
        return list;
      },
    };
  }, [store]);
  const editCellRef = useRef(editCell);
  editCellRef.current = editCell;
  const focusRef = useRef(focusCell);
  focusRef.current = focusCell;

  // Command mode: the focus is on a cell, not in a text.
  const onKey = (e: ReactKey) => {
    const target = e.target as HTMLElement;
    if ((e.ctrlKey || e.metaKey) && e.key === 's') {
      e.preventDefault();
      void store.save();
      return;
    }
    if (target.closest('.cm-editor, input, textarea, select, [role="menu"], dialog, summary, .virtual, .grid-scroll') || (target.closest('button, a') && (e.key === 'Enter' || e.key === ' '))) return;
    if (readOnly && !['ArrowUp', 'ArrowDown', 'j', 'k', 'h'].includes(e.key)) return;
    const id = latest.current.selected;
    const now = Date.now();
    const twice = pending.current.key === e.key && now - pending.current.at < 900;
    pending.current = { key: e.key, at: now };
    if (e.shiftKey && e.key === 'Enter') command('run-next', id);
    else if ((e.ctrlKey || e.metaKey) && e.key === 'Enter') command('run', id);
    else if (e.altKey && e.key === 'Enter') command('run-insert', id);
    else if (e.ctrlKey || e.metaKey || e.altKey) return;
    else if (e.shiftKey && e.key === 'M') command('merge', id);
    else if (e.shiftKey && e.key === 'V') paste(0);
    else if (e.key === 'Enter') editCell(id);
    else if (e.key === 'ArrowUp' || e.key === 'k') go(-1);
    else if (e.key === 'ArrowDown' || e.key === 'j') go(1);
    else if (e.key === 'a') command('above', id);
    else if (e.key === 'b') command('below', id);
    else if (e.key === 'm') command('markdown', id);
    else if (e.key === 'y') command('code', id);
    else if (e.key === 'r') command('raw', id);
    else if (e.key === 'o') command('fold', id);
    else if (e.key === 'l') setNumbers((on) => {
      remember('line-numbers', on ? 'off' : 'on');
      return !on;
    });
    else if (e.key === 'z') {
      const back = store.undoRemove();
      if (back) focusCell(back);
    } else if (e.key === 'c' || e.key === 'x') {
      clipboard.current = latest.current.doc.cells[indexOf(id)];
      if (e.key === 'x') removeCell(id);
    } else if (e.key === 'v') paste(1);
    else if (e.key === 'h') setHelp(true);
    else if (e.key === 'd') {
      if (twice) removeCell(id);
    } else if (e.key === 'i') {
      if (twice) store.interrupt().catch(toastError);
    } else if (e.key === '0') {
      if (twice) void reset();
    } else return;
    e.preventDefault();
  };
  const paste = (offset: number) => {
    const cell = clipboard.current;
    if (cell) focusCell(store.insert(indexOf(latest.current.selected) + offset, { ...newCell(cell.kind, cell.source), outputs: cell.outputs, count: cell.count }));
  };

  const onFiles = (files: FileList) => {
    const all = [...files];
    const notebook = all.length === 1 && all[0].name.toLowerCase().endsWith('.ipynb') ? all[0] : null;
    if (notebook) importNotebook(notebook).then((made) => { location.hash = href('notebook', made); }, toastError);
    else {
      uploads.send(all);
      setPanel('files');
    }
  };

  useEffect(() => {
    const warn = (e: BeforeUnloadEvent) => { if (store.snapshot().saved === 'failed') e.preventDefault(); };
    addEventListener('beforeunload', warn);
    return () => removeEventListener('beforeunload', warn);
  }, [store]);

  if (state.phase === 'failed') return <Problem error={state.error} />;
  if (state.phase === 'loading') return <Loading what="Opening the notebook" />;
  const busy = doc.cells.some((c) => c.run?.status === 'running' || c.run?.status === 'queued');
  const running = doc.cells.find((c) => c.run?.status === 'running');
  const savedText = { saved: 'Saved', changed: 'Changed', saving: 'Saving…', failed: 'Not saved' }[state.saved];
  const all = () => doc.cells.map((c) => c.id);
  const choosePanel = (next: typeof panel) => {
    setPanel(next);
    remember('panel', next ?? '');
  };
  return (
    <div className={`notebook ${panel ? 'with-panel' : ''} ${dragging ? 'dragging' : ''}`} onKeyDown={onKey}
      onDragEnter={(e) => { if (e.dataTransfer.types.includes('Files')) setDragging(true); }}
      onDragOver={(e) => { if (e.dataTransfer.types.includes('Files')) e.preventDefault(); }}
      onDragLeave={(e) => { if (!e.currentTarget.contains(e.relatedTarget as Node)) setDragging(false); }}
      onDrop={(e) => {
        if (!e.dataTransfer.files.length) return;
        e.preventDefault();
        setDragging(false);
        if (!readOnly) onFiles(e.dataTransfer.files);
      }}>
      <header className="notebook-bar">
        <div className="notebook-title">
          <nav className="crumbs" aria-label="Path"><a href={href('notebook')}>Notebooks</a></nav>
          <Title name={state.workspace?.name || 'Untitled notebook'} readOnly={readOnly || state.workspace?.role !== 'owner'} onRename={(name) => store.rename(name)} />
        </div>
        <div className="notebook-tools" role="toolbar" aria-label="Notebook">
          <Button icon="play" kind="primary" disabled={readOnly} title="Shift+Enter" onClick={() => command('run-next', selected)}>Run</Button>
          <Button icon="stop" label="Interrupt (I I)" disabled={!busy} onClick={() => { store.interrupt().catch(toastError); }} />
          <Button icon="reset" label="Reset the interpreter (0 0)" disabled={!session} onClick={() => { void reset(); }} />
          <Button icon="plus" label="Insert a cell below (B)" disabled={readOnly} onClick={() => editCell(store.insert(indexOf(selected) + 1))} />
          <Menu label="More" text="More" icon="down" items={[
            { label: 'Run all', disabled: readOnly, onSelect: () => store.run(all()) },
            { label: 'Reset and run all', disabled: readOnly, onSelect: () => { store.reset().then(() => store.run(all()), toastError); } },
            { label: 'Undo the last execution', disabled: readOnly || !session || busy, onSelect: () => { store.undo().then((n) => toast(`Undone: variables are as before, ${n} ${n === 1 ? 'file' : 'files'} changed back.`), toastError); } },
            { label: 'Redo', disabled: readOnly || !session || busy, onSelect: () => { store.undo(true).then(() => toast('Redone.'), toastError); } },
            { label: 'Branch into a new notebook', disabled: !session || busy, onSelect: () => { store.branch().then((made) => { if (made?.workspace) location.hash = href('notebook', made.workspace, path); }, toastError); } },
            { label: 'Run all above', disabled: readOnly, onSelect: () => store.run(all().slice(0, indexOf(selected))) },
            { label: 'Clear all outputs', disabled: readOnly, onSelect: () => store.clearOutputs(all()) },
            'line',
            { label: 'Save', keys: 'Ctrl S', onSelect: () => { void store.save(); } },
            { label: 'Export .ipynb', onSelect: () => saveBlob(new Blob([store.exportText()], { type: 'application/x-ipynb+json' }), `${(state.workspace?.name || 'notebook').replaceAll('/', '-')}.ipynb`) },
            { label: 'Versions of this notebook', onSelect: () => { location.hash = href('files', ws, path, { tab: 'versions' }); } },
            'line',
            { label: 'Keys', keys: 'H', onSelect: () => setHelp(true) },
          ]} />
          <span className="notebook-status small" role="status">
            <span className="row"><Ring state={busy ? 'busy' : session && !asleep(session.state) ? 'good' : 'idle'} />{busy ? 'Running' : session && !asleep(session.state) ? 'Ready' : session?.state === 'hibernated' ? 'Hibernated' : 'Asleep'}{running?.run?.memory ? ` · ${sizeText(running.run.memory)}` : ''}</span>
            <Chip tone={state.saved === 'failed' ? 'bad' : 'plain'} title={state.saveProblem ?? undefined}>{savedText}</Chip>
          </span>
          <div className="button-group notebook-panels" role="group" aria-label="Panels">
            <Button compact aria-pressed={panel === 'variables'} onClick={() => choosePanel(panel === 'variables' ? null : 'variables')}>Variables</Button>
            <Button compact aria-pressed={panel === 'files'} onClick={() => choosePanel(panel === 'files' ? null : 'files')}>Files</Button>
          </div>
        </div>
      </header>
      {state.saved === 'failed' && <Notice tone="bad" actions={<Button compact onClick={() => { void store.save(); }}>Save again</Button>}><p>The notebook could not be saved: {state.saveProblem}</p></Notice>}
      {state.lost && <Notice tone="warn" actions={<div className="row"><Button compact disabled={readOnly} onClick={() => {
        store.dismissLost();
        store.run(all());
      }}>Run all</Button><Button compact kind="plain" icon="close" label="Dismiss" onClick={() => store.dismissLost()} /></div>}><p><strong>Variables were lost.</strong> {state.lost}</p></Notice>}
      {readOnly && <Notice><p>You can read this notebook; your key does not allow changes.</p></Notice>}
      <div className="notebook-body">
        <div className="cells" role="group" aria-label="Cells">
          {doc.cells.map((cell, i) => <CellView key={cell.id} cell={cell} index={i} count={doc.cells.length} store={store} selected={cell.id === selected} editing={editing === cell.id} numbers={numbers} actions={actions} readOnly={readOnly} />)}
          {!readOnly && <div className="cells-add"><Button compact kind="plain" icon="plus" onClick={() => editCell(store.insert(doc.cells.length))}>Code</Button><Button compact kind="plain" icon="plus" onClick={() => editCell(store.insert(doc.cells.length, newCell('markdown')))}>Text</Button></div>}
        </div>
        {panel && <aside className="notebook-panel" aria-label={panel === 'variables' ? 'Variables' : 'Files'}>
          <div className="row spread"><h2>{panel === 'variables' ? 'Variables' : 'Files'}</h2><Button compact kind="plain" icon="close" label="Close the panel" onClick={() => choosePanel(null)} /></div>
          {panel === 'variables' ? <Variables session={session} turn={state.runs} busy={busy} />
            : <FilesPanel ws={ws} turn={state.runs + fileTurn} mayWrite={!readOnly} uploads={uploads} onInsert={(code) => editCell(store.insert(indexOf(selected) + 1, newCell('code', code)))} />}
        </aside>}
      </div>
      {dragging && <div className="drop-hint" aria-hidden="true">Drop files to upload them, or an .ipynb to open it</div>}
      {tip !== null && <Dialog title="Under the cursor" onClose={() => {
        setTip(null);
        editCell(selected);
      }}><pre className="small mono">{tip}</pre></Dialog>}
      {keeping && <KeepDialog draft={keeping} onClose={() => setKeeping(null)} />}
      {help && <Dialog title="Keys" onClose={() => setHelp(false)}><dl className="facts">{keysHelp.map(([keys, what]) => [<dt key={keys}><kbd>{keys}</kbd></dt>, <dd key={what}>{what}</dd>])}</dl></Dialog>}
    </div>
  );
}

function Title({ name, readOnly, onRename }: { name: string; readOnly: boolean; onRename: (name: string) => Promise<void> }): ReactElement {
  const [text, setText] = useState<string | null>(null);
  if (text === null) return <h1 dir="auto"><span className="truncate" title={name}>{name}</span>{!readOnly && <Button compact kind="plain" className="rename" onClick={() => setText(name)}>Rename</Button>}</h1>;
  const done = () => {
    const next = text.trim();
    setText(null);
    if (next && next !== name) onRename(next).catch(toastError);
  };
  return <><h1 className="visually-hidden">{name}</h1><input className="input" aria-label="Name of the notebook" maxLength={100} autoFocus value={text} onChange={(e) => setText(e.target.value)} onBlur={done} onKeyDown={(e) => {
    e.stopPropagation();
    if (e.key === 'Enter') done();
    else if (e.key === 'Escape') setText(null);
  }} /></>;
}
