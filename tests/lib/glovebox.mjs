// SPDX-License-Identifier: Apache-2.0
// A real daemon for a test file: its own data directory, a free port, its own
// configuration; and the few calls every test makes. Nothing here is a mock.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..');
export const build = resolve(root, process.env.GLOVEBOX_BUILD ?? 'build');
export const bin = (name) => join(build, 'bin', name);

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// Polls fn until it returns something truthy; the last error explains a miss.
export async function until(fn, { ms = 30_000, every = 20, what = 'condition' } = {}) {
  const deadline = Date.now() + ms;
  let last;
  for (;;) {
    try {
      const value = await fn();
      if (value) return value;
    } catch (error) {
      last = error;
    }
    if (Date.now() > deadline) throw new Error(`${what} not met in ${ms} ms`, { cause: last });
    await sleep(every);
  }
}

const UIDS = 20_000; // host uids a daemon claims for itself

// A test file that dies takes its daemons along.
const living = new Set();
process.on('exit', () => living.forEach((child) => child.kill('SIGTERM')));

// Every process of the machine with its host uid; those that end meanwhile
// are left out.
export function allProcesses() {
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name)).flatMap((name) => {
    try {
      const status = readFileSync(`/proc/${name}/status`, 'utf8');
      const field = (key) => Number(new RegExp(`^${key}:\\s+(\\d+)`, 'm').exec(status)[1]);
      return [{ pid: Number(name), ppid: field('PPid'), uid: field('Uid'), threads: field('Threads'),
        zombie: /^State:\s+Z/m.test(status), nested: /^NSpid:\s+\d+\s+\d+/m.test(status), name: /^Name:\s+(.*)$/m.exec(status)[1] }];
    } catch {
      return [];
    }
  });
}

// The isolation tier of every pool that names none: GLOVEBOX_TIER=gvisor runs
// a suite on the other one.
export const tier = process.env.GLOVEBOX_TIER || 'process';
export const onGvisor = tier === 'gvisor';
// For a test of what only the tier "process" has or shows; docs/TESTING.md
// lists them.
export const processOnly = (why) => ({ skip: onGvisor && `tier gvisor: ${why}` });
export const gvisorOnly = { skip: !onGvisor && 'a test of the tier gvisor; make test-gvisor runs it' };

// JSON is YAML, so a configuration is written as an object.
// Without memory that outlives a sandbox, and without undo points, which are
// processes: suites of these say so.
export const pool = (extra = {}) => ({ name: 'default', runtime: 'minimal', ready: 1, hibernate: false, undo_points: 0, ...extra });
const tiered = (pools) => (onGvisor ? pools.map((p) => ({ isolation: tier, ...p })) : pools);

// On the store's second engine where the environment names a server: a
// database for each directory, so that a service started again finds its own.
function postgresFor(dir) {
  const url = process.env.GLOVEBOX_TEST_POSTGRES;
  if (!url) return {};
  const name = `w_${dir.split('/').pop().replace(/\W/g, '_')}`.toLowerCase();
  const there = spawnSync('psql', ['-qAt', `${url}&dbname=postgres`, '-c', `SELECT 1 FROM pg_database WHERE datname = '${name}'`], { encoding: 'utf8' });
  if (there.stdout.trim() !== '1') {
    const made = spawnSync('psql', ['-q', `${url}&dbname=postgres`, '-c', `CREATE DATABASE ${name}`], { encoding: 'utf8' });
    if (made.status !== 0) throw new Error(`no database: ${made.stderr}`);
  }
  return { store: `${url}&dbname=${name}` };
}

// A bound for a start on a machine with other work: a zygote of `standard`
// takes 5 s alone, and was seen to take over a minute at a load of 45.
const START_MS = 300_000;

export class Glovebox {
  constructor(dir) {
    this.dir = dir;
    this.log = '';
  }

  // config: top-level options; pools default to one on the minimal image.
  // under: a command that execs the daemon; program: another build of it.
  static async start({ config = {}, dir, args = [], wait = true, env = {}, under = [], program = bin('gloveboxd') } = {}) {
    const g = new Glovebox(dir ?? mkdtempSync(join(tmpdir(), 'glovebox-test-')));
    chmodSync(g.dir, 0o755); // the service user must get through
    const file = join(g.dir, 'test.yaml');
    const merged = { creations_per_s: 0, pools: [pool()], ...postgresFor(g.dir), ...config };
    writeFileSync(file, JSON.stringify({ ...merged, pools: tiered(merged.pools) }));
    rmSync(join(g.dir, 'data', 'endpoint'), { force: true });
    const command = [...under, program,
      '--config', file, '--data', join(g.dir, 'data'), '--listen', '127.0.0.1:0', ...args];
    g.child = spawn(command[0], command.slice(1),
      { stdio: ['ignore', 'pipe', 'pipe'], env: { PATH: process.env.PATH, ...env } });
    for (const stream of [g.child.stdout, g.child.stderr])
      stream.on('data', (bytes) => { g.log = (g.log + bytes).slice(-200_000); });
    living.add(g.child);
    g.exited = new Promise((done) => g.child.on('exit', (code, signal) => {
      living.delete(g.child);
      g.exit = { code, signal };
      done(g.exit);
    }));
    if (!wait) return g;
    try {
      await until(() => g.exit || existsSync(join(g.dir, 'data', 'endpoint')),
        { ms: START_MS, what: 'endpoint' });
      if (g.exit) throw new Error(`gloveboxd exited: ${JSON.stringify(g.exit)}`);
      g.url = readFileSync(join(g.dir, 'data', 'endpoint'), 'utf8').trim();
      g.key = readFileSync(join(g.dir, 'data', 'admin.key'), 'utf8').trim();
      g.uidBase = g.claimedUids();
      await until(async () => g.exit || (await fetch(`${g.url}/readyz`)).status === 200,
        { ms: START_MS, every: 50, what: 'readyz' });
      if (g.exit) throw new Error(`gloveboxd exited: ${JSON.stringify(g.exit)}`);
    } catch (error) {
      await g.stop();
      throw new Error(`${error.message}\n${g.log}`, { cause: error });
    }
    return g;
  }

  get pid() { return this.child.pid; }

  // Processes of ours by role, found below the daemon.
  processes() {
    const out = spawnSync('ps', ['-eo', 'pid=,ppid=,comm='], { encoding: 'utf8' }).stdout;
    const rows = out.trim().split('\n').map((line) => {
      const [pid, ppid, comm] = line.trim().split(/\s+/);
      return { pid: Number(pid), ppid: Number(ppid), comm };
    });
    const warden = rows.find((r) => r.ppid === this.pid && r.comm.startsWith('glovebox-warde'));
    // Without the warden's own helpers, which make and free storage.
    const children = warden ? rows.filter((r) => r.ppid === warden.pid && r.comm !== warden.comm) : [];
    return { warden: warden?.pid, children, rows };
  }

  // The first of the host uids it locked for itself; none for an ordinary
  // user, whose sessions all have that user's.
  claimedUids() {
    const links = readdirSync(`/proc/${this.pid}/fd`).map((fd) => {
      try {
        return readlinkSync(`/proc/${this.pid}/fd/${fd}`);
      } catch {
        return '';
      }
    });
    const lock = links.map((at) => /\/uids-(\d+)$/.exec(at)).find(Boolean);
    return lock ? Number(lock[1]) : undefined;
  }

  // Its processes that act for sessions, by host uid: the zygotes' own is the
  // first of the range. A newborn session has it too, but is in a pid
  // namespace of its own by then.
  zygotes() { return allProcesses().filter(({ uid, zombie, nested }) => uid === this.uidBase && !zombie && !nested); }
  sessionProcesses() {
    return allProcesses().filter(({ uid }) => uid > this.uidBase && uid < this.uidBase + UIDS - 2); // the last two are the proxy's and glovebox-model's
  }

  // Its own control groups, one in each hierarchy, and those of its sessions
  // in them.
  groupRoots() {
    const data = join(this.dir, 'data');
    const name = `glovebox-gb-${createHash('sha256').update(data).digest('hex').slice(0, 16)}`;
    return readFileSync('/proc/self/cgroup', 'utf8').trim().split('\n').flatMap((line) => {
      const [, controllers, own] = /^\d+:([^:]*):(.*)$/.exec(line);
      const roots = controllers ? [`/sys/fs/cgroup/${controllers.split(',')[0]}`] : ['/sys/fs/cgroup', '/sys/fs/cgroup/unified'];
      return roots.map((r) => join(r, own, name)).filter((at) => existsSync(at));
    });
  }

  groups() {
    return this.groupRoots().flatMap((at) => readdirSync(at).filter((n) => /^s\d+$/.test(n)).map((n) => join(at, n)));
  }

  // The control group of the session whose processes have this uid.
  group(uid, controller) {
    return this.groups().find((at) => at.includes(`/${controller}/`) && at.endsWith(`/s${uid - this.uidBase}`))
      ?? this.groups().find((at) => at.endsWith(`/s${uid - this.uidBase}`));
  }

  loops() {
    return readdirSync('/sys/block').filter((n) => n.startsWith('loop')).filter((n) => {
      try {
        return readFileSync(`/sys/block/${n}/loop/backing_file`, 'utf8').startsWith(this.dir);
      } catch {
        return false;
      }
    });
  }

  images() {
    const at = join(this.dir, 'data', 'scratch');
    return existsSync(at) ? readdirSync(at).filter((n) => /^\d+\.img$/.test(n)) : [];
  }

  // Mounts anywhere on the machine that came from its data directory.
  mounts() {
    const seen = new Set();
    for (const { pid } of allProcesses()) {
      try {
        for (const line of readFileSync(`/proc/${pid}/mountinfo`, 'utf8').split('\n'))
          if (line.includes(this.dir)) seen.add(line);
      } catch { /* it ended */ }
    }
    return [...seen];
  }

  // What sessions have on the host right now.
  // A guest counts as much as a session of the other tier, pid 1 and a kernel;
  // a process that belongs to none counts too.
  guestProcesses() {
    const { warden } = this.processes();
    const all = allProcesses();
    const parents = new Map(all.map(({ pid, ppid }) => [pid, ppid]));
    const owner = (pid) => { while (pid && parents.get(pid) !== warden) pid = parents.get(pid); return pid; };
    const owners = this.sessionProcesses().map(({ pid }) => owner(pid));
    return 2 * new Set(owners.filter(Boolean)).size + owners.filter((pid) => !pid).length;
  }

  holdings() {
    return { processes: onGvisor ? this.guestProcesses() : this.sessionProcesses().length, groups: this.groups().length, loops: this.loops().length,
      images: this.images().length };
  }

  // A key of another tenant.
  async tenant(name) {
    const made = await this.ok('POST', '/api/keys', { tenant: name, scopes: ['execute', 'files:read', 'files:write'] });
    return { key: made.secret };
  }

  async stop({ keep = false } = {}) {
    if (this.child && !this.exit) {
      this.child.kill('SIGTERM');
      const timer = setTimeout(() => this.child.kill('SIGKILL'), 25_000);
      await this.exited;
      clearTimeout(timer);
    }
    if (!keep) rmSync(this.dir, { recursive: true, force: true });
    return this.exit;
  }

  // The plain answer: { status, headers, body (parsed when JSON), text }.
  async call(method, path, body, { key = this.key, headers = {}, raw = false } = {}) {
    const response = await fetch(this.url + path.replace(/^https?:\/\/[^/]+/, ''), {
      method,
      headers: {
        ...(key ? { authorization: `Bearer ${key}` } : {}),
        ...(body !== undefined && !raw ? { 'content-type': 'application/json' } : {}),
        ...headers,
      },
      body: body === undefined ? undefined : raw ? body : JSON.stringify(body),
      ...(raw ? { duplex: 'half' } : {}),
    });
    const bytes = Buffer.from(await response.arrayBuffer());
    const text = bytes.toString('utf8');
    let parsed;
    if (response.headers.get('content-type')?.startsWith('application/json') && text)
      parsed = JSON.parse(text);
    return { status: response.status, headers: response.headers, body: parsed, text, bytes };
  }

  // As call, but any status besides the expected one is an error.
  async ok(method, path, body, options = {}) {
    const answer = await this.call(method, path, body, options);
    if (answer.status < 200 || answer.status > 299)
      throw new Error(`${method} ${path}: ${answer.status} ${answer.text.slice(0, 500)}`);
    return answer.body;
  }

  async session(spec = {}, options) {
    const made = await this.ok('POST', '/api/sessions', spec, options);
    return new Session(this, made, options);
  }

  run(code, extra = {}) {
    return this.ok('POST', '/api/run', { language: 'python', code, ...extra });
  }
}

export class Session {
  constructor(server, made, options) {
    this.server = server;
    this.id = made.id;
    this.made = made;
    this.options = options;
  }

  get path() { return `/api/sessions/${this.id}`; }

  execute(language, code, extra = {}) {
    return this.server.ok('POST', `${this.path}/executions`, { language, code, ...extra }, this.options);
  }

  python(code, extra) { return this.execute('python', code, extra); }
  shell(code, extra) { return this.execute('shell', code, extra); }

  // Runs code and returns its stdout; anything but ok is an error.
  async out(code) {
    const e = await this.python(code);
    if (e.outcome !== 'ok')
      throw new Error(`${e.outcome}: ${JSON.stringify(e.error)}\n${e.stderr}`);
    return e.stdout.trim();
  }

  // Python whose last line prints JSON.
  async json(code) { return JSON.parse(await this.out(code)); }

  // Where it is on the host: the pids of its pid 1 and of its interpreter, and
  // their uid.
  async onHost() {
    if (onGvisor) return this.guestOnHost();
    const mark = String(100_000 + Math.floor(Math.random() * 1e9));
    await this.out(`import subprocess; whereabouts = subprocess.Popen(["sleep", "${mark}"])`);
    const found = await until(() => {
      const all = allProcesses();
      const sleeper = all.find(({ pid, uid }) => {
        try {
          return uid > this.server.uidBase && readFileSync(`/proc/${pid}/cmdline`, 'utf8') === `sleep\0${mark}\0`;
        } catch {
          return false;
        }
      });
      return sleeper && { uid: sleeper.uid, kernel: sleeper.ppid, init: all.find(({ pid }) => pid === sleeper.ppid).ppid };
    }, { what: 'the session on the host' });
    await this.out('whereabouts.kill(); whereabouts.wait(); del whereabouts');
    return found;
  }

  // The same for a guest: the supervisor has the session's files mounted, and
  // below it is gVisor's kernel, which stands for the interpreter.
  async guestOnHost() {
    const mark = `.whereabouts-${Math.floor(Math.random() * 1e9)}`;
    await this.out(`open("/mnt/data/${mark}", "w").close()`);
    const { warden } = this.server.processes();
    const found = await until(() => {
      const all = allProcesses();
      const init = all.find(({ pid, ppid }) => ppid === warden && existsSync(`/proc/${pid}/root/mnt/data/${mark}`));
      const below = (of) => all.filter(({ ppid }) => ppid === of).flatMap((p) => [p, ...below(p.pid)]);
      const kernel = init && below(init.pid).find(({ pid }) => /^runsc-sandbox\0/.test(readFileSync(`/proc/${pid}/cmdline`, 'utf8')));
      return kernel && { uid: init.uid, kernel: kernel.pid, init: init.pid };
    }, { what: 'the guest on the host' });
    await this.out(`import os; os.remove("/mnt/data/${mark}")`);
    return found;
  }

  get() { return this.server.ok('GET', this.path, undefined, this.options); }
  delete() { return this.server.call('DELETE', this.path, undefined, this.options); }
  put(path, bytes) {
    return this.server.ok('PUT', `${this.path}/files/${path}`, bytes, { ...this.options, raw: true });
  }
  read(path, headers) {
    return this.server.call('GET', `${this.path}/files/${path}`, undefined, { ...this.options, headers });
  }
}

// Runs Python outside any sandbox: the positive control of a probe.
export function host(code, { python = '/usr/bin/python3', timeout = 30_000 } = {}) {
  const done = spawnSync(python, ['-c', code], { encoding: 'utf8', timeout });
  return { status: done.status, signal: done.signal, stdout: done.stdout.trim(), stderr: done.stderr };
}

// Many probes at once, as a program that prints their results as JSON:
// {name: value}. A row's code is an expression; `call` makes a system call
// by number and returns its result or -errno.
export const probes = (rows, setup = '') => `
import ctypes, json, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    ctypes.set_errno(0)
    got = libc.syscall(*args)
    return got if got >= 0 else -ctypes.get_errno()
def probe(fn):
    try:
        return fn()
    except BaseException as e:
        return type(e).__name__ + ":" + str(getattr(e, "errno", None) or e)
${setup}
print(json.dumps({${Object.entries(rows).map(([name, code]) => `${JSON.stringify(name)}: probe(lambda: ${code})`).join(', ')}}))
`;
