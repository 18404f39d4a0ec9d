// SPDX-License-Identifier: Apache-2.0
// The isolation tier gvisor: that it is what answers, that it stands inside
// the walls of the other tier, and what differs between the two. A small dose
// that `make test` runs; `make test-gvisor` runs every file of this folder on
// the tier.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { allProcesses, bin, Glovebox, pool, until } from '../lib/glovebox.mjs';

const MIB = 1 << 20;
const RUNSC = '/usr/bin/runsc';
const skip = existsSync(RUNSC) ? false : `${RUNSC} is not installed (Debian's package runsc, 20240729 or newer)`;
const covering = ['/usr/bin/unshare', '-m', '/bin/sh', '-c', `mount --bind /dev/null ${RUNSC} && exec "$@"`, 'sh'];

describe('the tier gvisor', { skip }, () => {
  let server;

  before(async () => {
    server = await Glovebox.start({ config: { pools: [
      pool({ isolation: 'gvisor' }),
      pool({ name: 'native', isolation: 'process', ready: 0 }),
    ] } });
  });
  after(() => server?.stop());

  async function using(spec, fn) {
    const session = await server.session(spec);
    try {
      return await fn(session);
    } finally {
      await session.delete();
    }
  }

  // The supervisor of a session and what runs below it on the host.
  async function onHost(session) {
    const mark = `mark-${Math.floor(Math.random() * 1e9)}`;
    await session.out(`open("/mnt/data/${mark}", "w").close()`);
    const { warden } = server.processes();
    return until(() => {
      const all = allProcesses();
      const init = all.find(({ pid, ppid }) => ppid === warden && existsSync(`/proc/${pid}/root/mnt/data/${mark}`));
      if (!init) return undefined;
      const below = (of) => all.filter(({ ppid }) => ppid === of).flatMap((p) => [p, ...below(p.pid)]);
      return { init, below: below(init.pid) };
    }, { what: 'the session on the host' });
  }

  test('C4 gVisor\'s kernel answers, in one pool and not in the other', async () => {
    const kernel = 'import os; print(os.uname().release)';
    const host = readFileSync('/proc/sys/kernel/osrelease', 'utf8').trim();
    await using({}, async (s) => assert.notEqual(await s.out(kernel), host));
    await using({ pool: 'native' }, async (s) => assert.equal(await s.out(kernel), host));
  });

  test('C3 every process of a guest has the session\'s host uid and its own namespaces', () => using({}, async (session) => {
    const { init, below } = await onHost(session);
    assert.ok(below.length >= 3, 'runsc, its file server and its kernel');
    for (const p of [init, ...below]) {
      assert.equal(p.uid, init.uid, `${p.name}`);
      for (const kind of ['user', 'pid', 'mnt', 'net', 'ipc'])
        assert.notEqual(statSync(`/proc/${p.pid}/ns/${kind}`).ino, statSync(`/proc/self/ns/${kind}`).ino, `${p.name} ${kind}`);
    }
    const group = server.group(init.uid, 'memory');
    const inside = readFileSync(join(group, 'cgroup.procs'), 'utf8').trim().split('\n').map(Number);
    for (const p of [init, ...below]) assert.ok(inside.includes(p.pid), `${p.name} is in the session's control group`);
  }));

  test('C4 the kernel of a guest runs behind gVisor\'s own filter, and its code behind ours', () => using({}, async (session) => {
    const { below } = await onHost(session);
    const sentry = below.find(({ pid }) => /^runsc-sandbox\0/.test(readFileSync(`/proc/${pid}/cmdline`, 'utf8')));
    const status = readFileSync(`/proc/${sentry.pid}/status`, 'utf8');
    assert.match(status, /^Seccomp:\s+2$/m);
    assert.equal(await session.out('print([l.split()[1] for l in open("/proc/self/status") if l.startswith("Seccomp")][0])'), '2');
    assert.match(await session.out('import ctypes; l = ctypes.CDLL(None, use_errno=True); print(l.unshare(0x10000000), ctypes.get_errno())'), /^-1 1$/);
  }));

  test('C2 C5 code in a guest holds no channel of pid 1, and cannot end it', () => using({}, async (session) => {
    const fds = await session.json('import json, os; print(json.dumps(sorted(int(f) for f in os.listdir("/proc/self/fd"))))');
    assert.ok(fds.every((fd) => fd < 4 || fd === 32 || fd === 33 || fd === 4), JSON.stringify(fds));
    assert.equal(await session.out('import os\nfor s in (9, 15, 11): os.kill(1, s)\nprint("still here")'), 'still here');
  }));

  test('R2 memory that runs out is an oom, and files outlive the guest', () => using({ limits: { memory_bytes: 128 * MIB } }, async (session) => {
    await session.out('open("/mnt/data/kept", "w").write("there")');
    const e = await session.python('x = bytearray(400 << 20)');
    assert.deepEqual([e.outcome, e.limit?.name, e.limit?.value], ['oom', 'memory_bytes', 128 * MIB], JSON.stringify(e.error));
    const next = await session.python('print(open("/mnt/data/kept").read())');
    assert.deepEqual([next.outcome, next.stdout.trim(), next.interpreter], ['ok', 'there', 'fresh']);
  }));

  test('R3 processes and threads end at the limit', () => using({ limits: { processes: 16 } }, async (session) => {
    const e = await session.python(`
import threading
done = threading.Event(); made = 0
try:
    for _ in range(40):
        threading.Thread(target=done.wait, daemon=True).start(); made += 1
except RuntimeError: print(made)
done.set()`);
    assert.ok(Number(e.stdout) > 8 && Number(e.stdout) <= 15, JSON.stringify([e.outcome, e.stdout, e.error, e.usage]));
    assert.equal((await session.python('1 + 1')).result['text/plain'], '2');
  }));

  test('R4 bytes and files of the workspace end at the limit, which is named', () => using({ limits: { scratch_bytes: 8 * MIB, scratch_inodes: 200 } }, async (session) => {
    const bytes = await session.python('open("/mnt/data/b", "wb").write(b"x" * (16 << 20))');
    assert.deepEqual([bytes.outcome, bytes.limit?.name], ['limit', 'scratch_bytes'], JSON.stringify(bytes.error));
    await session.out('import os; os.remove("/mnt/data/b")');
    const files = await session.python('import os\nfor i in range(400): os.mkdir("/mnt/data/d%d" % i)');
    assert.deepEqual([files.outcome, files.limit?.name], ['limit', 'scratch_inodes'], JSON.stringify(files.error));
  }));

  test('R1 R9 a timeout is ours to say, and an interrupt keeps the variables', () => using({}, async (session) => {
    await session.out('kept = 42');
    const e = await session.python('while True: pass', { timeout_s: 5 });
    assert.equal(e.outcome, 'timeout', JSON.stringify(e.error));
    assert.equal(await session.out('print(kept)'), '42');
    assert.equal((await session.python('import os; os.kill(os.getpid(), 9)')).outcome, 'killed');
    assert.equal((await session.python('import ctypes; ctypes.string_at(0)')).outcome, 'crashed');
  }));

  test('F1 what it writes, changes and deletes is committed; what a client writes is there', () => using({}, async (session) => {
    await session.put('in.txt', 'from outside');
    const made = await session.python('open("out.txt", "w").write(open("in.txt").read().upper())');
    assert.deepEqual(made.files.created.map(({ path }) => path), ['out.txt']);
    const gone = await session.python('import os; os.remove("in.txt"); open("out.txt", "a").write("!")');
    assert.deepEqual([gone.files.deleted.map(({ path }) => path), gone.files.modified.map(({ path }) => path)], [['in.txt'], ['out.txt']]);
  }));

  test('E1 nothing leaves a guest; lookups are seen', () => using({}, async (session) => {
    const e = await session.python(`
import socket
for where in (("192.0.2.7", 443), ("127.0.0.1", ${new URL(server.url).port})):
    try: socket.create_connection(where, 2); print("connected")
    except OSError as e: print(e.errno)
try: socket.gethostbyname("example.org")
except OSError as e: print("no such name")`);
    assert.match(e.stdout, /^(101|113)\n111\nno such name\n$/);
    assert.deepEqual(e.network.blocked.map(({ what, host }) => `${what} ${host}`), ['resolve example.org']);
  }));

  test('Z3 two guests of one checkpoint draw different random numbers', () => using({}, (a) => using({}, async (b) => {
    const draw = 'import os, random, uuid; print(os.urandom(8).hex(), random.random(), uuid.uuid4())';
    const [one, two] = await Promise.all([a.out(draw), b.out(draw)]);
    one.split(' ').forEach((value, i) => assert.notEqual(value, two.split(' ')[i]));
  })));

  test('X1 a shell keeps its state, and a guest that was lost leaves the environment to the next', () => using({}, async (session) => {
    assert.equal((await session.shell('A=5; cd /tmp')).outcome, 'ok');
    assert.equal((await session.shell('echo $A $PWD')).stdout.trim(), '5 /tmp');
  }));

  test('C11 the end of gVisor is the end of the interpreter, not of the session', () => using({}, async (session) => {
    await session.out('kept = 1; open("/mnt/data/kept", "w").write("there")');
    const { below } = await onHost(session);
    process.kill(below.find(({ pid }) => /^runsc-sandbox\0/.test(readFileSync(`/proc/${pid}/cmdline`, 'utf8'))).pid, 'SIGKILL');
    const next = await until(async () => {
      const e = await session.python('print(open("/mnt/data/kept").read(), "kept" in globals())');
      return e.outcome === 'ok' && e;
    }, { what: 'a fresh guest' });
    assert.deepEqual([next.stdout.trim(), next.interpreter], ['there False', 'fresh']);
  }));

  test('O4 evidence and posture name the tier', () => using({}, async (session) => {
    const e = await session.python('1');
    const evidence = await until(async () => {
      const got = await server.call('GET', `/api/executions/${e.id}/evidence`);
      return got.status === 200 && got.body;
    }, { what: 'evidence' });
    assert.match(JSON.stringify(evidence), /gvisor: kernel of gVisor/);
  }));
});

test('C11 O4 without runsc a pool of the tier is refused, and doctor says so', async () => {
  const under = skip ? [] : covering;
  const g = await Glovebox.start({ wait: false, under, config: { pools: [pool({ isolation: 'gvisor' })] } });
  try {
    await until(() => g.exit, { what: 'it ends' });
    assert.ok(g.exit.code > 0, g.log);
    assert.match(g.log, /pool default: isolation gvisor is not possible on this host[^]*runsc/);
  } finally {
    await g.stop();
  }
  const doctor = [...under, bin('glovebox'), 'doctor'];
  assert.match(spawnSync(doctor[0], doctor.slice(1), { encoding: 'utf8' }).stdout, /isolation .* process; isolation gvisor needs \/usr\/bin\/runsc/);
});

test('O4 doctor names the tiers', () => {
  const out = spawnSync(bin('glovebox'), ['doctor'], { encoding: 'utf8' }).stdout;
  assert.match(out, skip ? /isolation .* process; isolation gvisor needs/ : /isolation .* process, gvisor/);
});
