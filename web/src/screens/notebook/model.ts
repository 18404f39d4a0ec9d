// SPDX-License-Identifier: Apache-2.0
// The notebook document: cells and outputs, to and from the file format of
// Jupyter (nbformat 4.5). The document is an ordinary file of the workspace.
import type { Bundle, ExecutionError, Outcome } from '../../api/types';
import { AnsiText } from '../../ui/ansi';

export type Kind = 'code' | 'markdown' | 'raw';

export type Output =
  | { type: 'stream'; name: 'stdout' | 'stderr'; text: string; screen: AnsiText }
  | { type: 'display'; data: Bundle; metadata: Record<string, unknown> }
  | { type: 'result'; data: Bundle; metadata: Record<string, unknown>; count: number | null }
  | { type: 'error'; error: ExecutionError };

// What is known of the cell's last run.
export interface Run {
  execution: string | null; // null: not sent yet
  source: string | null; // what was sent; not kept in the file
  status: 'waiting' | 'queued' | 'running' | 'held' | 'done';
  outcome: Outcome | null;
  startedAt: number | null;
  wallMs: number | null;
  memory: number | null; // bytes: now while it runs, the peak afterwards
  input: { prompt: string; password: boolean } | null;
  approval: string | null;
  notice: string | null;
  warning: string | null;
  truncated: boolean;
  files: { path: string; file_id: string; version: string; change: string; size: number }[];
}

export interface Cell {
  id: string;
  kind: Kind;
  source: string;
  outputs: Output[];
  count: number | null;
  metadata: Record<string, unknown>;
  attachments?: Record<string, unknown>;
  run: Run | null;
}

export interface Doc {
  cells: Cell[];
  metadata: Record<string, unknown>;
}

export const MAX_BYTES = 64 * 2 ** 20; // of a file that is opened
export const MAX_CELLS = 5000;
const MAX_STREAM = 2 ** 20; // characters of one stream that are saved as they are

export const newId = (): string => crypto.randomUUID().replaceAll('-', '').slice(0, 12);
export const newCell = (kind: Kind = 'code', source = ''): Cell => ({ id: newId(), kind, source, outputs: [], count: null, metadata: {}, run: null });
export const newRun = (over: Partial<Run> = {}): Run => ({ execution: null, source: null, status: 'waiting', outcome: null, startedAt: null, wallMs: null, memory: null, input: null, approval: null, notice: null, warning: null, truncated: false, files: [], ...over });
export const emptyDoc = (): Doc => ({ cells: [newCell()], metadata: {} });
export const isActive = (run: Run | null): boolean => !!run && run.status !== 'done';

export function streamOutput(name: 'stdout' | 'stderr', text: string): Output {
  const screen = new AnsiText();
  screen.write(text);
  return { type: 'stream', name, text, screen };
}

// Adds text to the last stream of that name, or begins one.
export function addStream(outputs: Output[], name: 'stdout' | 'stderr', text: string): Output[] {
  const last = outputs.at(-1);
  if (last?.type !== 'stream' || last.name !== name) return [...outputs, streamOutput(name, text)];
  last.screen.write(text);
  return [...outputs.slice(0, -1), { ...last, text: last.text + text }];
}

// --- reading -----------------------------------------------------------------

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);
const joined = (value: unknown): string => (Array.isArray(value) ? value.filter((v) => typeof v === 'string').join('') : typeof value === 'string' ? value : '');

function readBundle(value: unknown): Bundle {
  if (!isObject(value)) return {};
  return Object.fromEntries(Object.entries(value).map(([mime, data]) => [mime, /json$/.test(mime) ? data : Array.isArray(data) ? joined(data) : data]));
}

function readOutput(value: unknown): Output | null {
  if (!isObject(value)) return null;
  const metadata = isObject(value.metadata) ? value.metadata : {};
  switch (value.output_type) {
    case 'stream': return streamOutput(value.name === 'stderr' ? 'stderr' : 'stdout', joined(value.text));
    case 'display_data': case 'update_display_data': return { type: 'display', data: readBundle(value.data), metadata };
    case 'execute_result': return { type: 'result', data: readBundle(value.data), metadata, count: typeof value.execution_count === 'number' ? value.execution_count : null };
    case 'error': return { type: 'error', error: { name: String(value.ename ?? 'Error'), message: String(value.evalue ?? ''), traceback: Array.isArray(value.traceback) ? value.traceback.map(String) : [] } };
    default: return null;
  }
}

function readRun(metadata: Record<string, unknown>): Run | null {
  const kept = metadata.glovebox;
  if (!isObject(kept) || typeof kept.execution !== 'string' || !/^exec_[0-9a-f]+$/.test(kept.execution)) return null;
  const number = (v: unknown) => (typeof v === 'number' && Number.isFinite(v) ? v : null);
  const done = typeof kept.outcome === 'string';
  return newRun({ execution: kept.execution, status: done ? 'done' : 'queued', outcome: done ? kept.outcome as Outcome : null, startedAt: number(kept.started), wallMs: number(kept.wall_ms), memory: number(kept.memory) });
}

function readCell(value: unknown, seen: Set<string>): Cell | null {
  if (!isObject(value)) return null;
  const kind: Kind = value.cell_type === 'markdown' ? 'markdown' : value.cell_type === 'code' ? 'code' : 'raw';
  const metadata = isObject(value.metadata) ? { ...value.metadata } : {};
  const run = kind === 'code' ? readRun(metadata) : null;
  delete metadata.glovebox;
  let id = typeof value.id === 'string' && /^[A-Za-z0-9_-]{1,64}$/.test(value.id) ? value.id : newId();
  if (seen.has(id)) id = newId();
  seen.add(id);
  return {
    id, kind, metadata, run,
    source: joined(value.source),
    outputs: kind === 'code' && Array.isArray(value.outputs) ? value.outputs.map(readOutput).filter((o) => o !== null) : [],
    count: typeof value.execution_count === 'number' ? value.execution_count : null,
    ...(isObject(value.attachments) ? { attachments: value.attachments } : {}),
  };
}

// Reads the text of an .ipynb file. Throws an Error whose message is for people.
export function readNotebook(text: string): Doc {
  let root: unknown;
  try {
    root = JSON.parse(text);
  } catch {
    throw new Error('This is not a notebook: the file is not JSON.');
  }
  if (!isObject(root) || !Array.isArray(root.cells)) throw new Error('This is not a notebook of format 4: it has no list of cells.');
  if (typeof root.nbformat === 'number' && root.nbformat > 4) throw new Error(`The notebook has format ${root.nbformat}; format 4 is the newest that is known.`);
  if (root.cells.length > MAX_CELLS) throw new Error(`The notebook has ${root.cells.length} cells; at most ${MAX_CELLS} can be shown.`);
  const seen = new Set<string>();
  const cells = root.cells.map((cell) => readCell(cell, seen)).filter((cell) => cell !== null);
  return { cells: cells.length ? cells : [newCell()], metadata: isObject(root.metadata) ? root.metadata : {} };
}

// --- writing -----------------------------------------------------------------

const lines = (text: string): string[] => text.split(/(?<=\n)/).filter((line) => line !== '');
const writeBundle = (data: Bundle): Bundle => Object.fromEntries(Object.entries(data).filter(([mime]) => mime !== 'text/x.glovebox.brief')
  .map(([mime, value]) => [mime, typeof value === 'string' && (mime.startsWith('text/') || mime.endsWith('+xml')) ? lines(value) : value]));

function writeOutput(output: Output): Record<string, unknown> {
  switch (output.type) {
    case 'stream': return { output_type: 'stream', name: output.name, text: lines(output.text.length > MAX_STREAM ? output.screen.plain().slice(0, MAX_STREAM) : output.text) };
    case 'display': return { output_type: 'display_data', data: writeBundle(output.data), metadata: output.metadata };
    case 'result': return { output_type: 'execute_result', data: writeBundle(output.data), metadata: output.metadata, execution_count: output.count };
    case 'error': return { output_type: 'error', ename: output.error.name, evalue: output.error.message, traceback: output.error.traceback };
  }
}

function writeCell(cell: Cell): Record<string, unknown> {
  const base = { cell_type: cell.kind, id: cell.id, metadata: cell.metadata, source: lines(cell.source), ...(cell.attachments ? { attachments: cell.attachments } : {}) };
  if (cell.kind !== 'code') return base;
  const kept = cell.run?.execution ? { glovebox: {
    execution: cell.run.execution,
    ...(cell.run.status === 'done' ? { outcome: cell.run.outcome ?? 'ok', wall_ms: cell.run.wallMs, memory: cell.run.memory } : {}),
    ...(cell.run.startedAt ? { started: cell.run.startedAt } : {}),
  } } : {};
  // Output of a run that goes on is read from the service again.
  return { ...base, metadata: { ...cell.metadata, ...kept }, execution_count: cell.count, outputs: isActive(cell.run) ? [] : cell.outputs.map(writeOutput) };
}

export function writeNotebook(doc: Doc): string {
  return `${JSON.stringify({
    cells: doc.cells.map(writeCell),
    metadata: { kernelspec: { display_name: 'Python 3', language: 'python', name: 'python3' }, language_info: { name: 'python', file_extension: '.py', mimetype: 'text/x-python' }, ...doc.metadata },
    nbformat: 4,
    nbformat_minor: 5,
  }, null, 1)}\n`;
}

// --- two writers -------------------------------------------------------------

// Joins our document with one that another tab saved. A cell that was changed
// here since the common base stays as it is here; all others are theirs.
export function mergeDocs(ours: Doc, theirs: Doc, dirty: Set<string>, known: Set<string>): Doc {
  const mine = new Map(ours.cells.map((cell) => [cell.id, cell]));
  const other = new Set(theirs.cells.map((cell) => cell.id));
  const cells = theirs.cells
    // Gone here, and was there before: we deleted it.
    .filter((cell) => mine.has(cell.id) || !known.has(cell.id))
    .map((cell) => {
      const own = mine.get(cell.id);
      if (!own) return cell;
      const sameRun = own.run?.execution && own.run.execution === cell.run?.execution;
      const runOf = isActive(own.run) || sameRun && own.run!.status === 'done' ? own : cell;
      const sourceOf = dirty.has(cell.id) ? own : cell;
      return { ...cell, kind: sourceOf.kind, source: sourceOf.source, metadata: sourceOf.metadata, outputs: runOf.outputs, run: runOf.run, count: runOf.count };
    });
  // New here: behind the cell it follows.
  ours.cells.forEach((cell, i) => {
    if (other.has(cell.id) || (known.has(cell.id) && !dirty.has(cell.id))) return;
    const before = ours.cells.slice(0, i).reverse().find((c) => cells.some((x) => x.id === c.id));
    cells.splice(before ? cells.findIndex((c) => c.id === before.id) + 1 : 0, 0, cell);
  });
  return { cells: cells.length ? cells : [newCell()], metadata: theirs.metadata };
}
