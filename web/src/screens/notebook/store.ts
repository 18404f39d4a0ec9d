// SPDX-License-Identifier: Apache-2.0
// One open notebook: the document, its session, the runs of its cells, and how
// it is saved. The views read snapshots; all changes are made here.
import { api, ApiError, filePath, messageOf, path } from '../../api/client';
import { events, type GloveboxEvent } from '../../api/events';
import { readEvents } from '../../api/sse';
import type { Bundle, Execution, ExecutionError, FileInfo, List, Session, Workspace } from '../../api/types';
import { addStream, emptyDoc, isActive, MAX_BYTES, mergeDocs, newCell, newRun, readNotebook, streamOutput, writeNotebook, type Cell, type Doc, type Kind, type Output, type Run } from './model';

export const DEFAULT_PATH = 'notebook.ipynb';
const SAVE_AFTER_MS = 2500;
const SAVE_LARGE_AFTER_MS = 15_000; // of a document over a megabyte: each save is a version
const RETRIES = 5;

export interface Snapshot {
  phase: 'loading' | 'ready' | 'failed';
  error: unknown;
  workspace: Workspace | null;
  session: Session | null;
  doc: Doc;
  saved: 'saved' | 'changed' | 'saving' | 'failed';
  saveProblem: string | null;
  lost: string | null; // why variables are gone
  runs: number; // grows with each finished run: panels look again
}

interface Undo { cell: Cell; index: number }

export class NotebookStore {
  private state: Snapshot = { phase: 'loading', error: null, workspace: null, session: null, doc: emptyDoc(), saved: 'saved', saveProblem: null, lost: null, runs: 0 };
  private watchers = new Set<() => void>();
  private version: string | null = null; // of the file; null: not there yet
  private dirty = new Set<string>();
  private known = new Set<string>(); // ids in the file as last seen
  private timer: ReturnType<typeof setTimeout> | null = null;
  private saving: Promise<void> | null = null;
  private queue: string[] = []; // cells that wait for their turn
  private working = false;
  private streams = new Map<string, AbortController>(); // by execution
  private clearNext = new Set<string>(); // cells whose output is cleared by the next
  private frame = 0;
  private timeout: number | null = null;
  private size = 0;
  private undos: Undo[] = [];
  private closed = false;
  private ends: (() => void)[] = [];

  constructor(readonly ws: string, readonly path: string) {}

  // --- reading ---------------------------------------------------------------

  subscribe = (fn: () => void): (() => void) => {
    this.watchers.add(fn);
    return () => { this.watchers.delete(fn); };
  };
  snapshot = (): Snapshot => this.state;

  // Many changes in one frame are one rendering.
  private set(change: Partial<Snapshot>): void {
    this.state = { ...this.state, ...change };
    if (this.frame || this.closed) return;
    const tell = () => {
      this.frame = 0;
      for (const fn of this.watchers) fn();
    };
    if (document.hidden) {
      queueMicrotask(tell);
      this.frame = 1;
    } else {
      this.frame = requestAnimationFrame(tell);
    }
  }

  // Tells the views at once: the next key may come before the next frame.
  private flush(): void {
    if (this.frame > 1) cancelAnimationFrame(this.frame);
    this.frame = 0;
    for (const fn of this.watchers) fn();
  }

  private cell(id: string): Cell | undefined { return this.state.doc.cells.find((cell) => cell.id === id); }
  private setDoc(doc: Doc): void { this.set({ doc }); }
  private update(id: string, change: Partial<Cell>): void {
    this.setDoc({ ...this.state.doc, cells: this.state.doc.cells.map((cell) => (cell.id === id ? { ...cell, ...change } : cell)) });
  }
  private updateRun(id: string, change: Partial<Run>): void {
    const run = this.cell(id)?.run;
    if (run) this.update(id, { run: { ...run, ...change } });
  }

  // --- opening ---------------------------------------------------------------

  async open(): Promise<void> {
    try {
      const workspace = await api.get<Workspace>(path`/api/workspaces/${this.ws}`);
      const doc = await this.fetchDoc() ?? emptyDoc();
      this.known = new Set(this.version ? doc.cells.map((cell) => cell.id) : []);
      const session = await this.findSession();
      const ran = doc.cells.some((cell) => cell.count !== null);
      this.set({ phase: 'ready', workspace, session, doc, lost: ran && (!session || session.state === 'dormant') ? 'The interpreter of this notebook is asleep. Files are kept; variables of earlier runs are gone.' : null });
      for (const cell of doc.cells) if (isActive(cell.run)) void this.follow(cell.id, cell.run!.execution!);
    } catch (error) {
      this.set({ phase: 'failed', error });
    }
    this.ends.push(events.on(['workspace', 'stream.resumed'], (e) => this.onFileEvent(e)));
    this.ends.push(events.on(['session', 'execution', 'progress', 'approval'], (e) => this.onRunEvent(e)));
    const back = () => { if (!document.hidden) void this.catchUp(); else void this.save(); };
    const leave = () => { void this.save(); };
    document.addEventListener('visibilitychange', back);
    addEventListener('pagehide', leave);
    this.ends.push(() => document.removeEventListener('visibilitychange', back), () => removeEventListener('pagehide', leave));
  }

  close(): void {
    if (this.state.saved === 'changed') void this.save();
    this.closed = true;
    for (const end of this.ends) end();
    for (const stream of this.streams.values()) stream.abort();
  }

  private get url(): string { return `${path`/api/workspaces/${this.ws}`}/files/${filePath(this.path)}`; }

  private async fetchDoc(): Promise<Doc | null> {
    try {
      const info = await api.get<FileInfo>(`${path`/api/workspaces/${this.ws}`}/info/${filePath(this.path)}`);
      if (info.size > MAX_BYTES) throw new Error(`The notebook has ${Math.round(info.size / 2 ** 20)} MiB; at most ${MAX_BYTES / 2 ** 20} MiB can be shown. Download it from Files.`);
      const text = await api.text(this.url, { version: info.version });
      const doc = readNotebook(text);
      this.version = info.version;
      this.size = text.length;
      return doc;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return null;
      throw error;
    }
  }

  // --- the session -------------------------------------------------------------

  private get identifier(): string {
    // Unique in a pool: two tabs find the same session.
    let hash = 0;
    for (const c of this.path) hash = (Math.imul(hash, 31) + c.charCodeAt(0)) | 0;
    return `console-${this.ws}-${(hash >>> 0).toString(16)}`;
  }

  private async findSession(): Promise<Session | null> {
    const { data } = await api.get<List<Session>>('/api/sessions', { limit: 100 });
    const here = data.filter((s) => s.workspace === this.ws);
    return here.find((s) => s.identifier === this.identifier) ?? here.find((s) => !s.identifier?.startsWith('console-')) ?? null;
  }

  private async ensureSession(): Promise<Session> {
    if (this.state.session) return this.state.session;
    let session: Session;
    try {
      session = await api.post<Session>('/api/sessions', { workspace: this.ws, identifier: this.identifier, name: this.state.workspace?.name ?? undefined, metadata: { notebook: this.path } });
    } catch (error) {
      const found = error instanceof ApiError && error.status === 409 ? await this.findSession() : null;
      if (!found) throw error;
      session = found;
    }
    this.set({ session });
    return session;
  }

  private async timeoutOf(session: Session): Promise<number | undefined> {
    if (this.timeout === null) {
      try {
        const pool = await api.get<{ limits?: { python_timeout_max_s?: number } }>(path`/api/pools/${session.pool}`);
        this.timeout = pool.limits?.python_timeout_max_s ?? 0;
      } catch {
        this.timeout = 0;
      }
    }
    return this.timeout || undefined;
  }

  async interrupt(): Promise<void> {
    this.dropQueue();
    if (this.state.session) await api.post(path`/api/sessions/${this.state.session.id}/interrupt`);
  }

  async reset(): Promise<void> {
    this.dropQueue();
    if (!this.state.session) return;
    const session = await api.post<Session>(path`/api/sessions/${this.state.session.id}/reset`);
    this.set({ session, lost: null, runs: this.state.runs + 1 });
  }

  // Memory and files as before the last execution, or forward again.
  async undo(redo = false): Promise<number> {
    if (!this.state.session) return 0;
    const done = await api.post<{ files: number; session: Session }>(path`/api/sessions/${this.state.session.id}/${redo ? 'redo' : 'undo'}`, {});
    this.set({ session: done.session, runs: this.state.runs + 1 });
    return done.files;
  }

  // A session with the same variables and a workspace with the same files.
  async branch(): Promise<Session | undefined> {
    if (!this.state.session) return undefined;
    await this.save();
    const made = await api.post<{ sessions: Session[] }>(path`/api/sessions/${this.state.session.id}/branch`, {});
    return made.sessions[0];
  }

  dismissLost(): void { this.set({ lost: null }); }

  // --- running -----------------------------------------------------------------

  private dropQueue(): void {
    for (const id of this.queue) if (this.cell(id)?.run?.status === 'waiting') this.update(id, { run: null });
    this.queue = [];
  }

  // Runs cells one after another; a failure leaves the rest alone.
  run(ids: string[]): void {
    for (const id of ids) {
      const cell = this.cell(id);
      if (!cell || cell.kind !== 'code' || isActive(cell.run)) continue;
      if (!cell.source.trim()) {
        this.update(id, { outputs: [], count: null, run: null });
        continue;
      }
      this.queue.push(id);
      this.update(id, { run: newRun() });
    }
    void this.work();
  }

  private async work(): Promise<void> {
    if (this.working) return;
    this.working = true;
    while (this.queue.length && !this.closed) {
      const id = this.queue.shift()!;
      const ok = await this.runOne(id);
      if (!ok) this.dropQueue();
    }
    this.working = false;
  }

  private async start(id: string): Promise<{ status: number; data: Execution } | null> {
    for (let attempt = 0; ; attempt++) {
      const cell = this.cell(id);
      if (!cell) return null;
      const session = await this.ensureSession();
      try {
        return await api.request<Execution>('POST', path`/api/sessions/${session.id}/executions`, {
          code: cell.source, mode: 'async', input: true, timeout_s: await this.timeoutOf(session), metadata: { notebook: this.path, cell: id },
        });
      } catch (error) {
        // The session has ended for good: its files are here, a new one continues.
        if (!(error instanceof ApiError && (error.status === 404 || error.status === 410)) || attempt) throw error;
        this.set({ session: null, lost: 'The session of this notebook had ended, so a new one was started. Files are kept; variables of earlier runs are gone.' });
      }
    }
  }

  private async runOne(id: string): Promise<boolean> {
    const cell = this.cell(id);
    if (!cell) return true;
    const count = Math.max(0, ...this.state.doc.cells.map((c) => c.count ?? 0)) + 1;
    this.clearNext.delete(id);
    this.update(id, { outputs: [], count, run: newRun({ status: 'queued' }) });
    try {
      const started = await this.start(id);
      if (!started) return true;
      const { data } = started;
      this.updateRun(id, { execution: data.id, source: cell.source, status: data.status === 'pending_approval' ? 'held' : 'queued', approval: data.approval ?? null });
      this.touch(id, true);
      await this.follow(id, data.id);
      return this.cell(id)?.run?.outcome === 'ok';
    } catch (error) {
      this.update(id, { run: newRun({ status: 'done', outcome: 'error' }), outputs: [{ type: 'error', error: { name: 'Not run', message: messageOf(error), traceback: [] } }] });
      return false;
    }
  }

  // Reads the events of an execution until it is done, however often the
  // connection breaks.
  private async follow(id: string, execution: string): Promise<void> {
    if (this.streams.has(execution)) return;
    const abort = new AbortController();
    this.streams.set(execution, abort);
    let after: string | null = null;
    let first = true;
    try {
      for (let tries = 0; tries < RETRIES && !abort.signal.aborted;) {
        let held = false;
        let got = false;
        if (first) this.update(id, { outputs: [] });
        first = false;
        try {
          await readEvents(path`/api/executions/${execution}/events`, (event) => {
            if (!got) tries = 0;
            got = true;
            if (event.id) after = event.id;
            held = this.apply(id, execution, event.event, event.data) === 'held' || held;
          }, { after, signal: abort.signal });
        } catch (error) {
          if (abort.signal.aborted) return;
          if (error instanceof ApiError && (error.status === 404 || error.status === 410)) {
            await this.adopt(id, execution);
            return;
          }
        }
        if (held || this.cell(id)?.run?.execution !== execution || this.cell(id)?.run?.status === 'done') return;
        tries++;
        await new Promise((done) => setTimeout(done, 300 * 2 ** tries));
      }
      if (!abort.signal.aborted) await this.adopt(id, execution);
    } finally {
      this.streams.delete(execution);
    }
  }

  // The stream is gone: takes what the service kept of the execution.
  private async adopt(id: string, execution: string): Promise<void> {
    try {
      const done = await api.get<Execution>(path`/api/executions/${execution}`);
      if (done.status !== 'completed') {
        this.updateRun(id, { status: done.status === 'pending_approval' ? 'held' : done.status, approval: done.approval ?? null });
        return;
      }
      this.update(id, { outputs: outputsOf(done, this.cell(id)?.count ?? null) });
      this.finish(id, done);
    } catch (error) {
      if (!(error instanceof ApiError) || (error.status !== 404 && error.status !== 410)) return;
      this.updateRun(id, { status: 'done', outcome: 'cancelled', input: null, notice: 'The service no longer has the output of this run. Run the cell again.' });
      this.touch(id, true);
    }
  }

  private output(id: string, output: Output): void {
    const cell = this.cell(id);
    if (!cell) return;
    const before = this.clearNext.delete(id) ? [] : cell.outputs;
    this.update(id, { outputs: [...before, output] });
  }

  private apply(id: string, execution: string, event: string, text: string): 'held' | null {
    const cell = this.cell(id);
    if (!cell || cell.run?.execution !== execution) return null;
    let data: Record<string, unknown>;
    try {
      data = JSON.parse(text) as Record<string, unknown>;
    } catch {
      return null;
    }
    switch (event) {
      case 'status':
        if (data.status === 'pending_approval') {
          this.updateRun(id, { status: 'held', approval: typeof data.approval === 'string' ? data.approval : null });
          return 'held';
        }
        this.updateRun(id, { status: data.status === 'running' ? 'running' : 'queued', approval: null, ...(data.status === 'running' && !cell.run.startedAt ? { startedAt: Date.now() } : {}), ...(typeof data.notice === 'string' ? { notice: data.notice } : {}) });
        if (typeof data.notice === 'string') this.set({ lost: data.notice });
        break;
      case 'stdout': case 'stderr': {
        const before = this.clearNext.delete(id) ? [] : cell.outputs;
        this.update(id, { outputs: addStream(before, event, String(data.text ?? '')) });
        break;
      }
      case 'display': this.output(id, { type: 'display', data, metadata: {} }); break;
      case 'result': this.output(id, { type: 'result', data, metadata: {}, count: cell.count }); break;
      case 'error': this.output(id, { type: 'error', error: data as unknown as ExecutionError }); break;
      case 'clear':
        if (data.wait) this.clearNext.add(id);
        else this.update(id, { outputs: [] });
        break;
      case 'input_request': this.updateRun(id, { input: { prompt: String(data.prompt ?? ''), password: !!data.password } }); break;
      case 'usage': this.updateRun(id, { memory: Number(data.memory_bytes) || cell.run.memory }); break;
      case 'done':
        // The stream of a held run ends, the run has not begun.
        if (data.status === 'pending_approval') {
          this.updateRun(id, { status: 'held', approval: typeof data.approval === 'string' ? data.approval : cell.run.approval });
          return 'held';
        }
        this.finish(id, data as unknown as Execution);
        break;
      default: break;
    }
    return null;
  }

  private finish(id: string, done: Execution): void {
    const cell = this.cell(id);
    if (!cell?.run) return;
    // Endings by the service (a timeout, a kill) have an error that no event told of.
    const told = cell.outputs.some((o) => o.type === 'error');
    const outputs = done.error && !told ? [...cell.outputs, { type: 'error' as const, error: done.error }] : cell.outputs;
    const files = [...(done.files?.created ?? []), ...(done.files?.modified ?? []), ...(done.files?.renamed ?? [])].filter((f) => f.path !== this.path);
    this.update(id, { outputs, run: { ...cell.run, status: 'done', outcome: done.outcome, wallMs: done.usage?.wall_ms ?? null, memory: done.usage?.peak_memory_bytes ?? null, input: null, notice: done.notice ?? cell.run.notice, warning: done.warning,
      truncated: !!done.truncated && Object.values(done.truncated).some(Boolean), files: files.slice(0, 50).map(({ path: at, file_id, version, change, size }) => ({ path: at, file_id, version, change, size })) } });
    if (done.interpreter_lost) this.set({ lost: 'The interpreter ended with this run. Files are kept; variables are gone.' });
    this.set({ runs: this.state.runs + 1 });
    this.touch(id, true);
    void this.refreshSession();
  }

  private async refreshSession(): Promise<void> {
    const id = this.state.session?.id;
    if (!id) return;
    try {
      this.set({ session: await api.get<Session>(path`/api/sessions/${id}`) });
    } catch (error) {
      if (error instanceof ApiError && (error.status === 404 || error.status === 410)) this.set({ session: null });
    }
  }

  async answer(id: string, text: string | null): Promise<void> {
    const run = this.cell(id)?.run;
    if (!run?.execution || !run.input) return;
    const { prompt, password } = run.input;
    this.updateRun(id, { input: null });
    // A terminal shows what was typed; a password it does not show.
    const cell = this.cell(id)!;
    if (text !== null) this.update(id, { outputs: addStream(cell.outputs, 'stdout', `${prompt}${password ? '········' : text}\n`) });
    await api.post(path`/api/executions/${run.execution}/input`, text === null ? { eof: true } : { text });
  }

  // --- events of others ----------------------------------------------------------

  private onRunEvent(event: GloveboxEvent): void {
    const text = JSON.stringify(event.data);
    for (const cell of this.state.doc.cells) {
      const execution = cell.run?.execution;
      if (!execution || !isActive(cell.run) || !text.includes(execution)) continue;
      if (event.type === 'progress') this.updateRun(cell.id, { memory: Number(event.data.memory_bytes ?? event.data.peak_memory_bytes) || cell.run!.memory });
      else if (cell.run!.status === 'held' && !this.streams.has(execution)) void this.follow(cell.id, execution);
    }
    if (this.state.session && event.type.startsWith('session') && text.includes(this.state.session.id)) void this.refreshSession();
  }

  private onFileEvent(event: GloveboxEvent): void {
    if (event.type !== 'stream.resumed' && !JSON.stringify(event.data).includes(this.ws)) return;
    void this.catchUp();
  }

  private catching = false;
  // Takes what another tab, or a program, saved in the meantime.
  private async catchUp(): Promise<void> {
    if (this.catching || this.saving || this.closed || this.state.phase !== 'ready') return;
    this.catching = true;
    try {
      const info = await api.get<FileInfo>(`${path`/api/workspaces/${this.ws}`}/info/${filePath(this.path)}`);
      if (info.version !== this.version && !this.saving) await this.takeTheirs();
    } catch { /* not there, or not reachable: the next event tries again */ } finally {
      this.catching = false;
    }
  }

  private async takeTheirs(): Promise<void> {
    const theirs = await this.fetchDoc();
    if (!theirs) return;
    const merged = mergeDocs(this.state.doc, theirs, this.dirty, this.known);
    this.known = new Set(theirs.cells.map((cell) => cell.id));
    this.setDoc(merged);
    for (const cell of merged.cells) if (isActive(cell.run) && cell.run!.execution) void this.follow(cell.id, cell.run!.execution);
    if (!this.state.session) this.set({ session: await this.findSession() });
  }

  // --- saving --------------------------------------------------------------------

  private touch(id: string | null, soon = false): void {
    if (id) this.dirty.add(id);
    this.set({ saved: 'changed' });
    if (this.timer) clearTimeout(this.timer);
    this.timer = setTimeout(() => { void this.save(); }, soon ? 50 : this.size > 2 ** 20 ? SAVE_LARGE_AFTER_MS : SAVE_AFTER_MS);
  }

  async save(): Promise<void> {
    if (this.timer) clearTimeout(this.timer);
    this.timer = null;
    if (this.saving) {
      await this.saving;
      if (this.state.saved === 'changed') this.touch(null);
      return;
    }
    if (this.state.saved !== 'changed' && this.state.saved !== 'failed') return;
    this.saving = this.write().finally(() => { this.saving = null; });
    await this.saving;
  }

  private async write(): Promise<void> {
    for (let attempt = 0; attempt < RETRIES; attempt++) {
      const written = new Set(this.dirty);
      const text = writeNotebook(this.state.doc);
      const ids = new Set(this.state.doc.cells.map((cell) => cell.id));
      this.set({ saved: 'saving', saveProblem: null });
      try {
        const made = await (await api.raw('PUT', this.url, text, { headers: { 'Content-Type': 'application/x-ipynb+json', ...(this.version ? { 'If-Match': this.version } : { 'If-None-Match': '*' }) } })).json() as FileInfo;
        this.version = made.version;
        this.size = text.length;
        this.known = ids;
        if (this.state.saved === 'saving') {
          for (const id of written) this.dirty.delete(id);
          this.set({ saved: 'saved' });
        }
        return;
      } catch (error) {
        if (error instanceof ApiError && error.status === 412) {
          await this.takeTheirs().catch(() => {});
          continue;
        }
        this.set({ saved: 'failed', saveProblem: messageOf(error) });
        return;
      }
    }
    this.set({ saved: 'failed', saveProblem: 'Another tab saves the notebook all the time.' });
  }

  exportText(): string { return writeNotebook(this.state.doc); }

  async rename(name: string): Promise<void> {
    this.set({ workspace: await api.patch<Workspace>(path`/api/workspaces/${this.ws}`, { name }) });
  }

  // --- editing ---------------------------------------------------------------------

  edit(id: string, source: string): void {
    if (this.cell(id)?.source === source) return;
    this.update(id, { source });
    this.touch(id);
  }

  setKind(id: string, kind: Kind): void {
    this.update(id, { kind, ...(kind === 'code' ? {} : { outputs: [], count: null, run: null }) });
    this.touch(id);
    this.flush();
  }

  insert(index: number, cell: Cell = newCell()): string {
    const cells = [...this.state.doc.cells];
    cells.splice(index, 0, cell);
    this.setDoc({ ...this.state.doc, cells });
    this.touch(cell.id);
    this.flush();
    return cell.id;
  }

  remove(id: string): void {
    const index = this.state.doc.cells.findIndex((cell) => cell.id === id);
    if (index < 0) return;
    this.undos.push({ cell: this.state.doc.cells[index], index });
    const cells = this.state.doc.cells.filter((cell) => cell.id !== id);
    this.setDoc({ ...this.state.doc, cells: cells.length ? cells : [newCell()] });
    this.touch(null);
    this.flush();
  }

  undoRemove(): string | null {
    const last = this.undos.pop();
    return last ? this.insert(Math.min(last.index, this.state.doc.cells.length), { ...last.cell, run: isActive(last.cell.run) ? null : last.cell.run }) : null;
  }

  move(id: string, step: number): void {
    const cells = [...this.state.doc.cells];
    const at = cells.findIndex((cell) => cell.id === id);
    const to = at + step;
    if (at < 0 || to < 0 || to >= cells.length) return;
    [cells[at], cells[to]] = [cells[to], cells[at]];
    this.setDoc({ ...this.state.doc, cells });
    this.touch(id);
  }

  split(id: string, offset: number): string | null {
    const index = this.state.doc.cells.findIndex((cell) => cell.id === id);
    if (index < 0) return null;
    const { kind, source } = this.state.doc.cells[index];
    this.edit(id, source.slice(0, offset).replace(/\n$/, ''));
    return this.insert(index + 1, newCell(kind, source.slice(offset).replace(/^\n/, '')));
  }

  mergeBelow(id: string): void {
    const index = this.state.doc.cells.findIndex((cell) => cell.id === id);
    const below = this.state.doc.cells[index + 1];
    if (index < 0 || !below) return;
    this.edit(id, `${this.state.doc.cells[index].source}\n${below.source}`);
    this.remove(below.id);
  }

  clearOutputs(ids: string[]): void {
    for (const id of ids) if (!isActive(this.cell(id)?.run ?? null)) {
      this.update(id, { outputs: [], run: null });
      this.touch(id);
    }
  }

  setFolded(id: string, folded: boolean): void {
    const cell = this.cell(id);
    if (!cell) return;
    this.update(id, { metadata: { ...cell.metadata, collapsed: folded || undefined } });
    this.touch(id);
  }
}

// The outputs of an execution that nobody watched.
export function outputsOf(done: Execution, count: number | null): Output[] {
  return [
    ...(done.stdout ? [streamOutput('stdout', done.stdout)] : []),
    ...(done.stderr ? [streamOutput('stderr', done.stderr)] : []),
    ...done.displays.map((data: Bundle): Output => ({ type: 'display', data, metadata: {} })),
    ...(done.result ? [{ type: 'result' as const, data: done.result, metadata: {}, count }] : []),
    ...(done.error ? [{ type: 'error' as const, error: done.error }] : []),
  ];
}
