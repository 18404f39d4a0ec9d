// SPDX-License-Identifier: Apache-2.0
// C11 and start-up: a wall that cannot be built stops the service or the
// session and says which; nothing goes on without it, and nothing is left.
// The daemon runs under a filter that makes one system call fail, or with a
// part of the host covered.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { chownSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { spawnSync } from 'node:child_process';
import { allProcesses, Glovebox, bin, host, onGvisor, pool, processOnly, until } from '../lib/glovebox.mjs';

// Puts a filter on itself and execs the rest of its arguments. A rule is
// [system call, errno, [[argument, "eq" or "set", value], …]].
const LAUNCHER = `
import ctypes, json, os, struct, sys
program = []
def op(code, jt, jf, k): program.append(struct.pack("HBBI", code, jt, jf, k))
for number, errno, conditions in json.loads(sys.argv[1]):
    left = 2 * len(conditions) + 1
    op(0x20, 0, 0, 0); op(0x15, 0, left, number)
    for argument, how, value in conditions:
        left -= 2
        op(0x20, 0, 0, 16 + 8 * argument); op(0x15 if how == "eq" else 0x45, 0, left, value)
    op(0x06, 0, 0, 0x00050000 | errno)
op(0x06, 0, 0, 0x7fff0000)
code = b"".join(program)
class Program(ctypes.Structure): _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(22, 2, ctypes.byref(Program(len(program), code)), 0, 0) != 0: sys.exit("no filter: %d" % ctypes.get_errno())
os.execv(sys.argv[2], sys.argv[2:])
`;
const EPERM = 1;
const ENOSYS = 38;
const refusing = (...rules) => ['/usr/bin/python3', '-c', LAUNCHER, JSON.stringify(rules)];
// In a mount namespace of its own, after a shell command.
const after = (command) => ['/usr/bin/unshare', '-m', '/bin/sh', '-c', `${command} && exec "$@"`, 'sh'];

// x86-64
const nr = { clone: 56, mount: 165, umount2: 166, sethostname: 170, setresuid: 117, sched_setaffinity: 203, dup3: 292, capset: 126,
  ioctl: 16, prctl: 157, prlimit64: 302, seccomp: 317, move_mount: 429, landlock_create_ruleset: 444, landlock_restrict_self: 446,
  unshare: 272, acct: 163 };

const v1 = existsSync('/sys/fs/cgroup/memory');
const cover = (path) => after(`mount -t tmpfs -o ro none ${path}`);

// Starts a daemon that need not get ready.
async function begin(options) {
  const g = await Glovebox.start({ ...options, wait: false });
  await until(() => g.exit || existsSync(join(g.dir, 'data', 'endpoint')), { ms: 20_000, what: 'a start or an end' });
  if (!g.exit) {
    g.url = readFileSync(join(g.dir, 'data', 'endpoint'), 'utf8').trim();
    g.key = readFileSync(join(g.dir, 'data', 'admin.key'), 'utf8').trim();
    g.uidBase = g.claimedUids();
  }
  return g;
}

const leftOf = (g) => allProcesses().filter(({ pid, zombie }) => {
  try {
    return !zombie && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(g.dir);
  } catch {
    return false;
  }
});

// It must not serve, must say why in words of ours, and must leave nothing.
async function refusesToStart(options, why) {
  const g = await begin(options);
  try {
    assert.ok(g.exit, `it serves: ${g.log}`);
    assert.ok(g.exit.code > 0, JSON.stringify(g.exit));
    assert.match(g.log, why);
    assert.ok(!existsSync(join(g.dir, 'data', 'endpoint')));
    assert.deepEqual(leftOf(g), []);
    assert.deepEqual(g.groups(), []);
    return g.log;
  } finally {
    await g.stop();
  }
}

async function works(options, check = () => {}) {
  const g = await Glovebox.start(options);
  try {
    const session = await g.session();
    assert.equal(await session.out('open("/mnt/data/f", "w").write("x"); print(6 * 7)'), '42');
    await check(g, session);
  } finally {
    await g.stop();
  }
}

describe('C11 O4 each wall that is missing refuses the start', () => {
  const walls = {
    landlock: refusing([nr.landlock_create_ruleset, ENOSYS, []]),
    seccomp: refusing([nr.prctl, 22, [[0, 'eq', 21]]]),
    userns: refusing([nr.clone, EPERM, [[0, 'set', 0x10000000]]], [nr.unshare, EPERM, [[0, 'set', 0x10000000]]]),
    scratch: after('mount --bind /dev/null $(readlink -f /sbin/mke2fs)'),
    ...(v1 ? { memory: cover('/sys/fs/cgroup/memory'), pids: cover('/sys/fs/cgroup/pids'), cpu: cover('/sys/fs/cgroup/cpu') }
      : { 'memory,pids,cpu': cover('/sys/fs/cgroup') }),
  };
  for (const [wall, under] of Object.entries(walls))
    test(`C11 O4 without ${wall} it does not start, and says so`, async () => {
      const log = await refusesToStart({ under }, new RegExp(`missing walls: ${wall} `));
      assert.match(log, /glovebox doctor/);
    });

  // The tier gvisor needs scratch, and says so instead.
  for (const wall of ['landlock', ...(onGvisor ? [] : ['scratch']), v1 ? 'memory' : 'memory,pids,cpu'])
    test(`C11 O4 without ${wall} it serves when that is accepted by name, and nothing else is`, async () => {
      await works({ under: walls[wall], config: { accept_missing_walls: wall } });
      await refusesToStart({ under: walls[wall], config: { accept_missing_walls: 'uids' } }, /missing walls/);
    });

  test('C11 O4 a wall nobody knows cannot be accepted', () =>
    refusesToStart({ config: { accept_missing_walls: 'landlok' } }, /no wall 'landlok'[^]*landlock/));

  test('C11 O4 without an account to become it does not start', () =>
    refusesToStart({ config: { service_user: 'nobody-of-that-name' } }, /cannot run as the account[^]*useradd/));

  test('C11 O4 the same filter on a call nobody makes changes nothing', () => works({ under: refusing([nr.acct, EPERM, []]) }));
});

describe('C11 a step that fails in a session being made', () => {
  // The call that fails, and the step of sandbox/enter.c that makes it first.
  const steps = {
    'become the session user': [nr.setresuid, EPERM, [[0, 'eq', 1000]]],
    'read-only root': [nr.mount, EPERM, [[3, 'eq', 7]]],
    'device nodes': [nr.move_mount, EPERM, []],
    'facts about the machine': [nr.mount, EPERM, [[3, 'eq', 4143]]],
    'host name and control group names': [nr.sethostname, EPERM, []],
    'loopback network': [nr.ioctl, EPERM, [[1, 'eq', 0x8914]]],
    'resource limits': [nr.sched_setaffinity, EPERM, []],
    'close descriptors': [nr.dup3, EPERM, [[1, 'eq', 3], [2, 'eq', 0x80000]]],
    'drop capabilities': [nr.capset, EPERM, []],
    landlock: [nr.landlock_restrict_self, EPERM, []],
    'system call filter': [nr.seccomp, EPERM, [[0, 'eq', 1], [1, 'eq', 0]]],
  };
  // A guest takes these itself, or not at all; the checkpoint, which is made
  // first, names the step of the others.
  const inProcess = ['become the session user', 'read-only root', 'resource limits', 'drop capabilities', 'landlock', 'system call filter'];
  for (const [step, rule] of Object.entries(steps).filter(([name]) => !onGvisor || !inProcess.includes(name)))
    test(`C11 "${step}" refused: no session, and the step is named`, async () => {
      const g = await begin({ under: refusing(rule) });
      try {
        assert.ok(!g.exit, g.log);
        const answer = await g.call('POST', '/api/sessions', {});
        assert.equal(answer.status, 503, answer.text);
        assert.equal(answer.body.error.code, 'isolation_failed');
        assert.ok(answer.body.error.message.includes(onGvisor ? 'no checkpoint of the runtime' : step), answer.body.error.message);
        assert.notEqual((await g.call('GET', '/readyz')).status, 200);
        assert.deepEqual((await g.ok('GET', '/api/sessions')).data, []);
        const run = await g.call('POST', '/api/run', { language: 'python', code: 'print(1)' });
        assert.ok(run.status === 503 || run.body.outcome === 'isolation_failed', run.text);
        await until(() => {
          const { processes, loops } = g.holdings();
          return processes === 0 && loops <= 1; // one scratch may be kept ready
        }, { ms: 5000, what: 'nothing left of the attempt' });
      } finally {
        await g.stop();
      }
      assert.deepEqual(g.groups(), []);
    });

  test('C11 D3 files that are not what they were are isolation_failed, not shown and not an empty folder', async () => {
    const g = await Glovebox.start({ config: { pools: [pool({ ready: 0, cooldown_s: 1, scratch_bytes: '8MiB', scratch_inodes: 200 })] } });
    try {
      const session = await g.session();
      await session.out('open("/mnt/data/f", "w").write("x")');
      await until(async () => (await session.get()).state === 'dormant' && g.loops().length === 0, { every: 100 });
      const blobs = join(g.dir, 'data', 'blobs');
      const name = createHash('sha256').update('x').digest('hex');
      const at = join(blobs, name.slice(0, 2), name);
      await until(() => existsSync(at), { what: 'a file on disk' });
      writeFileSync(at, 'y');
      const answer = await g.call('POST', `${session.path}/executions`, { language: 'python', code: 'print(open("/mnt/data/f").read())' });
      assert.equal(answer.body.outcome, 'isolation_failed', answer.text);
      assert.match(answer.body.error.message, /damaged/);
      await until(() => g.sessionProcesses().length === 0, { ms: 5000 });
    } finally {
      await g.stop();
    }
  });

  test('C11 D3 nor are those of a tree that was mounted before and is watched since', async () => {
    const COUNT = 300, NAMED = `d/f${COUNT - 1}`;
    const g = await Glovebox.start({ config: { pools: [pool({ ready: 0, cooldown_s: 1, scratch_bytes: '8MiB', scratch_inodes: 1000 })] } });
    const dormant = (session) => until(async () => (await session.get()).state === 'dormant', { every: 100 });
    const watches = () => readdirSync(`/proc/${g.pid}/fdinfo`).reduce((sum, fd) => {
      try {
        return sum + (readFileSync(`/proc/${g.pid}/fdinfo/${fd}`, 'utf8').match(/^inotify wd:/mg) ?? []).length;
      } catch { return sum; } // closed meanwhile
    }, 0);
    try {
      const session = await g.session();
      await session.out(`import os; os.mkdir("/mnt/data/d")\nfor i in range(${COUNT}): open(f"/mnt/data/d/f{i}", "w").write(f"file {i}")`);
      await dormant(session);
      assert.equal(await session.out(`print(open("/mnt/data/${NAMED}").read())`), `file ${COUNT - 1}`);
      await until(() => watches() >= COUNT, { ms: 20_000, what: 'watches' });
      await dormant(session);
      assert.equal(await session.out(`print(open("/mnt/data/${NAMED}").read())`), `file ${COUNT - 1}`);
      await dormant(session);
      const name = createHash('sha256').update(`file ${COUNT - 1}`).digest('hex');
      writeFileSync(join(g.dir, 'data', 'blobs', name.slice(0, 2), name), 'y');
      const answer = await g.call('POST', `${session.path}/executions`, { language: 'python', code: `print(open("/mnt/data/${NAMED}").read())` });
      assert.equal(answer.body.outcome, 'isolation_failed', answer.text);
      assert.match(answer.body.error.message, /not what they were/);
      await until(() => g.sessionProcesses().length === 0, { ms: 5000 });
    } finally {
      await g.stop();
    }
  });
});

describe('C11 O4 other things that refuse a start', () => {
  test('C11 O4 a second server on the same data', async () => {
    const first = await Glovebox.start();
    try {
      const second = spawnSync(bin('gloveboxd'), ['--config', join(first.dir, 'test.yaml'), '--data', join(first.dir, 'data'), '--listen', '127.0.0.1:0'],
        { encoding: 'utf8', timeout: 20_000 });
      assert.notEqual(second.status, 0);
      assert.match(second.stderr, /another gloveboxd serves .* already/);
      const session = await first.session();
      assert.equal(await session.out('print("unharmed")'), 'unharmed');
    } finally {
      await first.stop();
    }
  });

  test('C11 O4 a runtime that is not built: not ready, refused in words, built images unharmed', async () => {
    const empty = mkdtempSync(join(tmpdir(), 'glovebox-empty-'));
    const g = await begin({ config: { runtime_dir: empty } });
    try {
      assert.ok(!g.exit, g.log);
      const answer = await g.call('POST', '/api/sessions', {});
      assert.ok(answer.status >= 500, answer.text);
      assert.match(answer.text, /runtime/);
      assert.notEqual((await g.call('GET', '/readyz')).status, 200);
      assert.equal((await g.call('GET', '/healthz')).status, 200);
    } finally {
      await g.stop();
      rmSync(empty, { recursive: true, force: true });
    }
  });

  test('C11 O4 a folder with somebody else\'s things in it', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'glovebox-test-'));
    mkdirSync(join(dir, 'data'), { mode: 0o755 });
    writeFileSync(join(dir, 'data', 'letters.txt'), 'private');
    await refusesToStart({ dir }, /not empty and not a data directory/);
  });
});

describe('C11 O4 as an ordinary user', processOnly('it needs root'), () => {
  const id = 61_234;
  const user = ['/usr/bin/setpriv', `--reuid=${id}`, `--regid=${id}`, '--clear-groups', '--inh-caps=-all', '--'];
  const reach = spawnSync(user[0], [...user.slice(1), bin('gloveboxd'), '--version']);
  const skip = reach.status === 0 ? false : 'another user cannot run the build';
  const options = (accepted) => {
    const dir = mkdtempSync(join(tmpdir(), 'glovebox-test-'));
    mkdirSync(join(dir, 'data'), { mode: 0o700 });
    chownSync(join(dir, 'data'), id, id);
    return { dir, under: user, env: { HOME: dir }, config: { runtime_dir: '/var/cache/glovebox/runtimes', ...(accepted ? { accept_missing_walls: accepted } : {}) } };
  };
  // The group may be theirs to write where a cgroup is delegated.
  const missing = 'uids,memory,pids,cpu,scratch';

  test('C11 O4 it does not start, and names every wall that is missing', { skip }, async () => {
    const log = await refusesToStart(options(), /missing walls: uids,.*scratch/);
    assert.match(log, /glovebox doctor/);
  });

  test('C11 O4 one wall short of what is missing is not enough', { skip }, () =>
    refusesToStart(options('uids,memory,pids,cpu'), /missing walls: scratch/));

  test('C11 O4 it serves with those accepted, and the others stand', { skip }, () => works(options(missing), async (g, session) => {
    const status = await session.out('print(open("/proc/self/status").read())');
    assert.match(status, /^Seccomp:\s+2$/m);
    assert.match(status, /^NoNewPrivs:\s+1$/m);
    assert.match(status, /^CapEff:\s+0+$/m);
    assert.match(status, /^Uid:\s+1000\s+1000\s+1000\s+1000$/m);
    const got = await session.json(`
import json, os, socket
def attempt(fn):
    try: fn(); return "done"
    except OSError as e: return e.errno
print(json.dumps({
    "host": attempt(lambda: open(${JSON.stringify(join(g.dir, 'data', 'admin.key'))})),
    "write": attempt(lambda: open("/etc/x", "w")), "net": attempt(lambda: socket.create_connection(("127.0.0.1", ${new URL(g.url).port}), 1)),
    "pids": len([p for p in os.listdir("/proc") if p.isdigit()]), "kill": attempt(lambda: os.kill(${g.pid}, 0)),
}))`);
    assert.deepEqual({ ...got, pids: 0 }, { host: 2, write: 30, net: 111, pids: 0, kill: 3 });
    assert.ok(got.pids <= 3);
    const second = await g.session();
    await second.out('open("/tmp/mine", "w")');
    assert.equal(await session.out('import os; print(os.path.exists("/tmp/mine"))'), 'False');
    assert.equal((await session.python('import os; os._exit(1)')).outcome, 'crashed');
    assert.equal(await session.out('print(open("/mnt/data/f").read())'), 'x');
    const mine = allProcesses().filter(({ uid }) => uid === id).length;
    assert.ok(mine >= 4, `its processes are that user's: ${mine}`);
    await g.stop({ keep: true });
    await until(() => allProcesses().filter(({ uid, zombie }) => uid === id && !zombie).length === 0, { ms: 5000, what: 'nothing of that user is left' });
  }));
});

test('C11 the launcher of these tests does make a call fail', () => {
  const done = spawnSync('/usr/bin/python3', ['-c', LAUNCHER, JSON.stringify([[nr.sethostname, 13, []]]), '/usr/bin/python3', '-c',
    'import socket\ntry: socket.sethostname(socket.gethostname())\nexcept OSError as e: print(e.errno)'], { encoding: 'utf8' });
  assert.equal(done.stdout.trim(), '13', done.stderr);
  assert.equal(host('import socket; socket.sethostname(socket.gethostname()); print("done")').stdout, 'done');
});
