// SPDX-License-Identifier: Apache-2.0
// What a benchmark run starts and ends: the daemon under test, the stopwatch
// that does the timing, the ipykernel peer; and looks into /proc.
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, openSync, readFileSync, readdirSync, readlinkSync, rmSync, writeFileSync }
  from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { bin, build, root, until } from '../tests/lib/glovebox.mjs';

export const say = (text) => process.stderr.write(`bench: ${text}\n`);
const DEADLINE_MS = 300_000;

// A process that answers each line with a line.
class Lines {
  constructor(command, args) {
    this.name = command;
    this.child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.child.stdin.on('error', () => {}); // its exit is told by `exited`
    this.waiting = [];
    this.exited = new Promise((done) => this.child.on('close', (code) => {
      this.code = code ?? -1;
      for (const { fail } of this.waiting.splice(0)) fail(new Error(`${command} ended (${code})`));
      done();
    }));
    createInterface({ input: this.child.stdout })
      .on('line', (line) => this.waiting.shift()?.take(line));
  }

  next() {
    if (this.code !== undefined) throw new Error(`${this.name} ended (${this.code})`);
    return new Promise((take, fail) => {
      const timer = setTimeout(() => fail(new Error(`${this.name} is silent`)), DEADLINE_MS);
      const end = (how) => (value) => { clearTimeout(timer); how(value); };
      this.waiting.push({ take: end(take), fail: end(fail) });
    });
  }

  ask(line) {
    const answer = this.next();
    this.child.stdin.write(`${line}\n`);
    return answer;
  }

  async stop() {
    if (this.code !== undefined) return;
    this.child.stdin.end();
    const timer = setTimeout(() => this.child.kill('SIGKILL'), 10_000);
    await this.exited;
    clearTimeout(timer);
  }
}

// Times HTTP exchanges and processes; see stopwatch.c.
export class Stopwatch extends Lines {
  constructor(daemon) {
    super(join(build, 'bench/stopwatch'), [new URL(daemon.url).port, daemon.key]);
  }

  // The same request count times at once: { ms, answers: [{ status, text }] }.
  async http(method, path, body, count = 1, headers = {}) {
    const text = body === undefined ? '' : JSON.stringify(body);
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`).join('|');
    const [ns, ...rest] = (await this.ask(['http', count, method, path, text, lines].join('\t'))).split('\t');
    const answers = [];
    for (let i = 0; i < rest.length; i += 2)
      answers.push({ status: Number(rest[i]), text: rest[i + 1] });
    return { ms: ns / 1e6, answers };
  }

  // That many files of that many bytes, from so many clients: ms for all.
  async puts(count, width, bytes, prefix) {
    return await this.ask(['puts', count, width, bytes, prefix].join('\t')) / 1e6;
  }

  // That many rows of that many bytes, a transaction each: ms for all.
  async insert(count, bytes, database) {
    return await this.ask(['insert', count, bytes, database].join('\t')) / 1e6;
  }

  // One large file: { ms, status, text }. port 0: the daemon's. sync: a file
  // to be on disk before the clock stops.
  // form: as the file of a form, by POST.
  async up(bytes, path, seed, { port = 0, sync = '-', form = false } = {}) {
    const [ns, status, text] = (await this.ask([form ? 'form' : 'up', bytes, port, path, seed, sync].join('\t'))).split('\t');
    return { ms: ns / 1e6, status: Number(status), text };
  }

  // The same file back; ms. Other bytes than the seed's end the run.
  async down(bytes, path, seed, port = 0) {
    const [ns, status, same] = (await this.ask(['down', bytes, port, path, seed].join('\t'))).split('\t');
    if (status !== '200' || same !== 'same') throw new Error(`${path}: ${status}, ${same} bytes`);
    return ns / 1e6;
  }

  // The same program count times at once: { ms, failed, text }.
  async spawn(where, argv, count = 1) {
    const [ns, failed, text] = (await this.ask(['spawn', count, where, ...argv].join('\t'))).split('\t');
    return { ms: ns / 1e6, failed: Number(failed), text };
  }
}

// One ipykernel with its own client, on the same image.
export class Ipykernel extends Lines {
  static async start(image) {
    const peer = new Ipykernel(join(root, 'bench/ipykernel-peer'),
      [image, join(dirname(dirname(image)), 'bench')]);
    await peer.next();
    return peer;
  }

  async cell(code) {
    const [ns, text] = JSON.parse(await this.ask(JSON.stringify(['cell', code])));
    return { ms: ns / 1e6, text };
  }

  async privateBytes() { return JSON.parse(await this.ask('["private"]'))[0]; }
}

// The daemon, with a data directory of its own. Its log goes to a file, as it
// would in service, so that no reader of it takes part in the timing.
export class Daemon {
  static async start(config) {
    const d = new Daemon();
    d.dir = mkdtempSync(join(tmpdir(), 'glovebox-bench-'));
    chmodSync(d.dir, 0o755); // the daemon gives up root before it opens files in it
    // On ext4: away from where others just deleted many files, which makes
    // new ones slow. Elsewhere it does nothing.
    spawnSync('/usr/bin/chattr', ['+T', d.dir], { stdio: 'ignore' });
    writeFileSync(join(d.dir, 'bench.yaml'), JSON.stringify(config));
    await d.launch();
    return d;
  }

  async launch() {
    const d = this;
    // The place goes by the name, so that must be another one each time.
    const data = join(d.dir, `data-${basename(d.dir)}`);
    const log = openSync(join(d.dir, 'log'), 'a');
    rmSync(join(data, 'endpoint'), { force: true });
    d.data = data;
    d.code = undefined;
    d.child = spawn(bin('gloveboxd'), ['--config', join(d.dir, 'bench.yaml'),
      '--data', data, '--listen', '127.0.0.1:0'],
    { stdio: ['ignore', log, log], env: { PATH: process.env.PATH } });
    d.exited = new Promise((done) => d.child.on('exit', (code) => { d.code = code ?? -1; done(); }));
    try {
      await until(() => d.code !== undefined || existsSync(join(data, 'endpoint')),
        { ms: 60_000, what: 'endpoint' });
      d.url = readFileSync(join(data, 'endpoint'), 'utf8').trim();
      d.key = readFileSync(join(data, 'admin.key'), 'utf8').trim();
      await until(async () => (await fetch(`${d.url}/readyz`)).ok, { ms: 180_000, every: 5, what: 'readyz' });
    } catch (error) {
      const text = readFileSync(join(d.dir, 'log'), 'utf8').slice(-2000);
      await d.stop();
      throw new Error(`${error.message}\n${text}`, { cause: error });
    }
  }

  // Stopped as by an operator, and started on the same data; ms until it is
  // ready.
  async restart() {
    await this.end();
    const began = performance.now();
    await this.launch();
    return performance.now() - began;
  }

  async call(method, path, body) {
    const response = await fetch(this.url + path, {
      method,
      headers: { authorization: `Bearer ${this.key}`, 'content-type': 'application/json' },
      body: body && JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 300)}`);
    return text && JSON.parse(text);
  }

  // Nothing left to do in the background: pools full, sessions gone.
  async settled(live = 0) {
    await until(async () => {
      const { data } = await this.call('GET', '/api/pools');
      return data.every((p) => p.ready >= p.ready_wanted)
        && data.reduce((n, p) => n + p.sessions, 0) <= live;
    }, { ms: 60_000, every: 10, what: 'a settled daemon' });
    await new Promise((done) => setTimeout(done, 15)); // the last sandbox's own clean-up
  }

  async end() {
    if (this.code !== undefined) return;
    this.child.kill('SIGTERM');
    const timer = setTimeout(() => this.child.kill('SIGKILL'), 60_000);
    await this.exited;
    clearTimeout(timer);
  }

  async stop() {
    await this.end();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

// The image a runtime's name stands for: { image, root }.
export function runtimeImage(name) {
  const out = spawnSync(bin('glovebox'), ['runtime', 'show', name, '--json'], { encoding: 'utf8' });
  const shown = out.status === 0 ? JSON.parse(out.stdout) : {};
  if (!shown.built) throw new Error(`the ${name} image is not built: make runtime`);
  return { image: shown.image, root: join(shown.image, 'root') };
}

const field = (text, name) => Number(text.match(new RegExp(`^${name}:\\s+(\\d+)`, 'm'))?.[1] ?? 0) * 1024;

export const residentBytes = (pid) => field(readFileSync(`/proc/${pid}/status`, 'utf8'), 'VmRSS');
export const peakBytes = (pid) => field(readFileSync(`/proc/${pid}/status`, 'utf8'), 'VmHWM');
export const resetPeak = (pid) => writeFileSync(`/proc/${pid}/clear_refs`, '5');
export const availableBytes = () => field(readFileSync('/proc/meminfo', 'utf8'), 'MemAvailable');

// Private memory of each sandbox below the daemon: a Map by pid namespace. The
// first process of a sandbox is a child of the warden, which is the daemon's.
export function privateBySandbox(daemon) {
  const own = readlinkSync('/proc/self/ns/pid');
  const processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name)).flatMap((pid) => {
    try {
      const parent = Number(readFileSync(`/proc/${pid}/status`, 'utf8').match(/^PPid:\s+(\d+)/m)[1]);
      return [{ pid: Number(pid), parent, space: readlinkSync(`/proc/${pid}/ns/pid`) }];
    } catch { return []; } // it ended meanwhile
  });
  const wardens = new Set(processes.filter((p) => p.parent === daemon.child.pid).map((p) => p.pid));
  const found = new Map(processes.filter((p) => wardens.has(p.parent) && p.space !== own).map((p) => [p.space, 0]));
  for (const { pid, space } of processes.filter((p) => found.has(p.space))) {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
    found.set(space, found.get(space) + field(text, 'Private_Clean') + field(text, 'Private_Dirty'));
  }
  return found;
}
