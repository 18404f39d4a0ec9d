// SPDX-License-Identifier: Apache-2.0
// R1 to R6 and R9: every resource ends somewhere, and what we say about it is
// true. Each bomb also goes off under a limit that has room for it, where it
// must do no harm, so that a dud does not pass.
import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, host, onGvisor, pool, probes, processOnly, sleep, until } from '../lib/glovebox.mjs';

const MIB = 1 << 20;
const EXTRA = onGvisor ? 96 * MIB : 0; // granted beside the limit, for gVisor itself
let server;

before(async () => {
  server = await Glovebox.start({ config: { pools: [
    pool(),
    pool({ name: 'brief', ready: 0, python_timeout_s: 1, shell_timeout_s: 1, processes: 32 }),
    pool({ name: 'narrow', ready: 0, tmp_bytes: '4MiB', shm_bytes: '2MiB', descriptors: 200 }),
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

// Guests of gVisor need a processor each to answer an interrupt in time.
describe('R1 time', { concurrency: onGvisor ? 1 : 6 }, () => {
  // What it runs, and whether Python can be interrupted in it.
  const cases = {
    'a loop': ['while True: pass', true],
    'a sleep': ['import time; time.sleep(60)', true],
    'a loop that catches everything once': ['try:\n  while True: pass\nexcept BaseException: pass', true],
    'a wait for a program in a session of its own': ['import subprocess; subprocess.run(["sleep", "60"], start_new_session=True)', true],
    'an ignored interrupt': ['import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass', false],
    'a loop that catches everything always': ['while True:\n  try:\n    while True: pass\n  except BaseException: pass', false],
    'C code with every signal blocked': ['import ctypes, signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); ctypes.CDLL(None).pause()', false],
    'a fork bomb': ['import os, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True:\n  try: os.fork()\n  except OSError: pass', false],
  };
  for (const [what, [code, kept]] of Object.entries(cases))
    test(`R1 ${what} ends at its timeout, and the answer says how`, () => using({ pool: 'brief' }, async (session) => {
      await session.out('kept = 42; open("/mnt/data/file", "w").write("there")');
      const e = await session.python(code);
      // The code may have swallowed the interrupt; it is a timeout all the same.
      assert.equal(e.outcome, 'timeout', JSON.stringify(e.error));
      assert.deepEqual([e.limit.name, e.limit.value], ['wall_s', 1]);
      assert.ok(e.usage.wall_ms >= 1000 && e.usage.wall_ms < 20_000, `${e.usage.wall_ms} ms`);
      assert.match(e.failure ?? e.error.message, kept ? /interrupted and its variables are kept/ : /killed; the next execution starts a fresh interpreter/);
      const next = await session.python('print(kept if "kept" in globals() else "lost", open("/mnt/data/file").read())');
      assert.equal(next.stdout.trim(), kept ? '42 there' : 'lost there');
      assert.equal(next.interpreter, kept ? 'same' : 'fresh');
    }));

  test('R1 a shell that ignores the interrupt is killed with its children', () => using({ pool: 'brief' }, async (session) => {
    await session.out('kept = 42');
    const e = await session.shell('trap "" INT; (trap "" INT; sleep 654) & while :; do sleep 654; done');
    assert.equal(e.outcome, 'timeout');
    assert.match(e.error.message, /ignored the interrupt and was killed/);
    assert.equal((await session.python('kept')).result['text/plain'], '42');
    const left = await session.shell('grep -l "65[4]" /proc/[0-9]*/cmdline 2>/dev/null');
    assert.equal(left.stdout, '');
  }));

  test('R1 a run within its time is left alone', () => using({ pool: 'brief' }, async (session) => {
    const e = await session.python('import time; time.sleep(0.3)');
    assert.deepEqual([e.outcome, e.limit], ['ok', null]);
  }));
});

test('R1 processor time is that of the cores granted', () => using({ limits: { cores: 1 } }, async (session) => {
  const spin = `
import os, time
end = time.monotonic() + 1.0
for _ in range(3):
    if os.fork() == 0:
        while time.monotonic() < end: pass
        os._exit(0)
while time.monotonic() < end: pass
for _ in range(3): os.wait()
`;
  const e = await session.python(spin);
  assert.equal(e.outcome, 'ok');
  // Four processes spin for as long; on one core they cannot have used more.
  assert.ok(e.usage.cpu_ms <= e.usage.wall_ms * 1.3 + 100, JSON.stringify(e.usage));
  assert.ok(e.usage.cpu_ms > 200, JSON.stringify(e.usage));
}));

describe('R2 memory', () => {
  const limit = 64 * MIB;
  // Each takes some 100 MiB in a way of its own.
  const bombs = {
    'one object': 'x = bytearray(100 << 20)',
    'children': `
import os
for _ in range(4):
    if os.fork() == 0:
        x = bytearray(25 << 20); import time; time.sleep(1); os._exit(0)
if any(os.wait()[1] for _ in range(4)): raise MemoryError("a child died")`,
    'temporary files': 'open("/tmp/x", "wb").write(bytes(1)); f = open("/tmp/y", "wb")\nfor _ in range(100): f.write(bytes(1 << 20))',
    'shared mappings': 'import mmap; m = mmap.mmap(-1, 100 << 20)\nfor i in range(0, len(m), 4096): m[i] = 1',
    'a file in memory': 'import os; fd = os.memfd_create("x")\nfor _ in range(100): os.write(fd, bytes(1 << 20))',
    'System V memory': 'import ctypes; l = ctypes.CDLL(None); l.shmat.restype = ctypes.c_void_p\np = l.shmat(l.shmget(0, 100 << 20, 0o1600), None, 0); ctypes.memset(p, 1, 100 << 20)',
    'sockets': `
import socket
pairs = []
for _ in range(480):
    a, b = socket.socketpair(); a.setblocking(False); pairs.append((a, b))
    try:
        while True: a.send(bytes(65536))
    except BlockingIOError: pass`,
    'page tables': 'import mmap; m = mmap.mmap(-1, 50 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)\nfor i in range(0, len(m), 2 << 20): m[i]',
  };
  for (const [what, code] of Object.entries(bombs))
    test(`R2 ${what} count as the session's memory`, async () => {
      await using({ limits: { memory_bytes: limit } }, async (session) => {
        await session.out('open("/mnt/data/file", "w").write("there")');
        const e = await session.python(code);
        assert.equal(e.outcome, 'oom', JSON.stringify([e.outcome, e.error, e.usage]));
        assert.deepEqual([e.limit.name, e.limit.value], ['memory_bytes', limit]);
        assert.ok(e.limit.peak > limit * 0.9 && e.limit.peak <= limit + EXTRA + 2 * EXTRA / 96, `peak ${e.limit.peak}`);
        assert.match(e.error.message, /64 MiB of memory/);
        const next = await session.python('print(open("/mnt/data/file").read())');
        assert.deepEqual([next.outcome, next.stdout.trim(), next.interpreter], ['ok', 'there', 'fresh']);
      });
      if (onGvisor && what === 'page tables') return; // gVisor's take longer than a test may
      const control = await using({ limits: { memory_bytes: 512 * MIB } }, (session) => session.python(code));
      assert.equal(control.outcome, 'ok', `${JSON.stringify(control.error)} with room for it`);
      assert.ok(control.usage.peak_memory_bytes > 64 * MIB, `it takes that much: ${control.usage.peak_memory_bytes}`);
    });

  test('R2 buffers of Internet sockets are bounded too', () => using({ limits: { memory_bytes: limit } }, async (session) => {
    const code = `
import socket
s = socket.create_server(("127.0.0.1", 0), backlog=200); pairs = []; total = 0
for _ in range(150):
    c = socket.create_connection(s.getsockname()); pairs.append((c, s.accept()[0])); c.setblocking(False)
    try:
        while True: total += c.send(bytes(65536))
    except BlockingIOError: pass
print(total)`;
    const e = await session.python(code);
    assert.ok(e.outcome === 'oom' || Number(e.stdout) < limit, `${e.outcome} ${e.stdout}`);
    assert.ok(Number(host(code).stdout) > limit * 2, 'the host takes more');
  }));

  test('R2 nothing is swapped, and the service itself is outside the limit', () => using({ limits: { memory_bytes: limit } }, async (session) => {
    const { uid } = await session.onHost();
    const group = server.group(uid, 'memory');
    const read = (name) => {
      try {
        return Number(readFileSync(join(group, name), 'utf8'));
      } catch {
        return undefined;
      }
    };
    if (read('memory.limit_in_bytes') !== undefined) {
      assert.equal(read('memory.limit_in_bytes'), limit + EXTRA);
      assert.ok(read('memory.memsw.limit_in_bytes') === limit + EXTRA || read('memory.swappiness') === 0);
    } else {
      assert.equal(read('memory.max'), limit + EXTRA);
      assert.equal(read('memory.swap.max') ?? 0, 0);
    }
    const inside = readFileSync(join(group, 'cgroup.procs'), 'utf8').trim().split('\n').map(Number);
    assert.ok(inside.length >= 2);
    for (const pid of [server.pid, server.processes().warden, server.zygotes()[0].pid]) assert.ok(!inside.includes(pid));
  }));

  test('R2 a child that dies of it is no oom when the code copes', processOnly('memory that runs out ends the whole guest'), () => using({ limits: { memory_bytes: limit } }, async (session) => {
    const e = await session.python('kept = 1\nimport subprocess, sys\nprint(subprocess.run([sys.executable, "-c", "x = bytearray(100 << 20)"]).returncode)');
    assert.deepEqual([e.outcome, e.stdout.trim()], ['ok', '-9']);
    assert.deepEqual([e.limit.name, e.limit.value], ['memory_bytes', limit], 'the limit is reported all the same (R9)');
    assert.match(e.warning, /1 of its processes was ended/);
    assert.equal((await session.python('kept')).result['text/plain'], '1');
  }));
});

describe('R3 processes', () => {
  const bombs = {
    forks: 'import os, time\nfor _ in range(40):\n  if os.fork() == 0: time.sleep(2); os._exit(0)',
    threads: 'import threading, time\nfor _ in range(40): threading.Thread(target=time.sleep, args=(2,)).start()',
    programs: 'import subprocess\nps = [subprocess.Popen(["sleep", "2"]) for _ in range(40)]',
  };
  for (const [what, code] of Object.entries(bombs))
    test(`R3 ${what} end at the limit, which is named`, processOnly('gVisor refuses them without counting; see 90-gvisor'), async () => {
      await using({ limits: { processes: 16 } }, async (session) => {
        const { uid } = await session.onHost();
        const e = await session.python(code);
        const tasks = server.sessionProcesses().filter((p) => p.uid === uid).reduce((sum, { threads }) => sum + threads, 0);
        assert.ok(tasks > 8 && tasks <= 16, `${tasks} of 16 on the host`);
        assert.equal(e.outcome, 'limit', JSON.stringify(e.error));
        assert.deepEqual(e.limit, { name: 'processes', value: 16, peak: 16 });
        assert.match(e.error.message, /may have 16 processes and threads/);
        assert.equal((await session.python('1 + 1')).result['text/plain'], '2');
      });
      await using({}, async (session) => assert.equal((await session.python(code)).outcome, 'ok'));
    });

  test('R3 a shell is told the same', processOnly('gVisor refuses them without counting'), () => using({ limits: { processes: 16 } }, async (session) => {
    const e = await session.shell('for i in $(seq 40); do sleep 2 & done; wait');
    assert.deepEqual([e.outcome, e.limit?.name], ['limit', 'processes'], e.stderr);
  }));

  test('R3 no limit can be raised from inside', () => using({ limits: { processes: 16, descriptors: 128 } }, async (session) => {
    const got = await session.json(probes({
      nproc: 'resource.setrlimit(resource.RLIMIT_NPROC, (4096, 4096))',
      nofile: 'resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))',
      less: 'resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))',
    }, 'import resource'));
    assert.deepEqual(got, { nproc: 'ValueError:not allowed to raise maximum limit', nofile: 'ValueError:not allowed to raise maximum limit', less: null });
  }));
});

describe('R4 disk', () => {
  const small = { scratch_bytes: 8 * MIB, scratch_inodes: 200 };

  test('R4 bytes of the workspace end at the limit, which is named', () => using({ limits: small }, async (session) => {
    const ok = await session.python('open("/mnt/data/a", "wb").write(bytes(7 << 20))');
    assert.equal(ok.outcome, 'ok', JSON.stringify(ok.error));
    const e = await session.python('open("/mnt/data/b", "wb").write(b"x" * (16 << 20))');
    assert.deepEqual([e.outcome, e.limit?.name, e.limit?.value], ['limit', 'scratch_bytes', 8 * MIB], JSON.stringify(e.error));
    assert.ok(e.limit.peak > 6 * MIB && e.limit.peak <= 8 * MIB, `${e.limit.peak}`);
    const held = await session.json('import json, os; print(json.dumps(sum(os.path.getsize("/mnt/data/" + f) for f in os.listdir("/mnt/data"))))');
    assert.ok(held > 6 * MIB && held < 8.5 * MIB, `${held} bytes are there`);
    assert.match(e.error.message, /full; the session may keep 8 MiB/);
    const shell = await session.shell('head -c 16777216 /dev/zero > /mnt/data/c');
    assert.deepEqual([shell.outcome, shell.limit?.name], ['limit', 'scratch_bytes']);
    assert.equal((await session.python('import os; os.remove("/mnt/data/b"); os.remove("/mnt/data/c"); os.remove("/mnt/data/a"); open("/mnt/data/d", "wb").write(bytes(7 << 20))')).outcome, 'ok', 'deleting makes room');
  }));

  test('R4 files and folders of the workspace end at the limit, which is named', () => using({ limits: small }, async (session) => {
    assert.equal((await session.python('for i in range(150): open("/mnt/data/f%d" % i, "w")')).outcome, 'ok');
    const e = await session.python('import os\nfor i in range(400): os.mkdir("/mnt/data/d%d" % i)');
    assert.deepEqual([e.outcome, e.limit], ['limit', { name: 'scratch_inodes', value: 200, peak: 200 }], JSON.stringify(e.error));
    const made = await session.json('import json, os; print(json.dumps(len(os.listdir("/mnt/data"))))');
    assert.ok(made >= 200 && made <= 216, `${made} of 200, which the file system rounds up`);
  }));

  test('R4 the host\'s disk holds no more than granted, whatever is written over and over', () => using({ limits: small }, async (session) => {
    const { uid } = await session.onHost();
    await session.python(`
import os
for i in range(12):
    with open("/mnt/data/f%d" % i, "wb") as f:
        f.write(os.urandom(5 << 20)); f.flush(); os.fsync(f.fileno())
    os.remove("/mnt/data/f%d" % i)
f = open("/mnt/data/sparse", "wb"); f.truncate(1 << 40)
`);
    const image = statSync(join(server.dir, 'data', 'scratch', `${uid - server.uidBase}.img`));
    assert.ok(image.blocks * 512 > MIB && image.blocks * 512 < 16 * MIB, `${image.blocks * 512} bytes on disk`);
  }));

  test('R4 temporary space and shared memory are capped in bytes and files', () => using({ pool: 'narrow' }, async (session) => {
    const fill = (path, mib) => `open(${JSON.stringify(path)}, "wb").write(bytes(${mib} << 20))`;
    const got = await session.json(probes({
      tmp: fill('/tmp/x', 3), more: fill('/var/tmp/y', 2), home: fill('/run/z', 2),
      shm: fill('/dev/shm/x', 1), overflow: fill('/dev/shm/y', 2),
      files: '[open("/tmp/f%d" % i, "w") and None for i in range(3000)] and "all"',
    }));
    assert.equal(got.tmp, 3 * MIB);
    assert.equal(got.more, 'OSError:28', '/var/tmp shares it');
    assert.equal(got.home, 'OSError:28', '/run shares it');
    assert.equal(got.shm, MIB);
    assert.equal(got.overflow, 'OSError:28');
    assert.equal(got.files, 'OSError:28');
    const control = await using({}, (other) => other.json(probes({ tmp: fill('/tmp/x', 20), shm: fill('/dev/shm/x', 20) })));
    assert.deepEqual(control, { tmp: 20 * MIB, shm: 20 * MIB });
  }));

  test('R4 nothing else can be written, so nothing else can fill up', () => using({}, async (session) => {
    const e = await session.shell('find / -xdev -writable -not -type l -not -path "/proc/*" 2>/dev/null; for m in $(awk \'{print $2}\' /proc/mounts); do [ -w "$m" ] && echo "mount $m"; done; true');
    const places = ['/mnt/data', '/tmp', '/var/tmp', '/run', '/dev'];
    const home = await session.out('import os; print(os.path.expanduser("~"))');
    for (const line of e.stdout.trim().split('\n').filter(Boolean)) {
      const path = line.replace(/^mount /, '');
      assert.ok([...places, home].some((at) => path === at || path.startsWith(`${at}/`)) || path === '/proc', path);
    }
  }));
});

// Takes one more until refused, at most `bound` times; prints how many.
const most = (setup, one, bound) => `
import ctypes, fcntl, json, mmap, os, resource, signal, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
kept = []
${setup}
def one(n):
    ${one.replaceAll('\n', '\n    ')}
n = 0; why = 0
while n < ${bound}:
    try:
        one(n)
    except OSError as e:
        why = e.errno; break
    n += 1
print(json.dumps([n, why]))
`;
const refuse = '\nif got < 0: raise OSError(ctypes.get_errno(), "refused")';

describe('R5 one by one', () => {
  const rows = {
    descriptors: ['', 'kept.append(os.open("/dev/null", os.O_RDONLY))', 3000, 1000, 1024, 24],
    'pipes, which are descriptors too': ['', 'kept.append(os.pipe())', 3000, 480, 512, 24],
    'timers, which queue signals': ['', `t = ctypes.c_void_p(); got = libc.timer_create(1, None, ctypes.byref(t))${refuse}`, 3000, 1000, 1024, 11],
    'queued signals': ['signal.pthread_sigmask(signal.SIG_BLOCK, [40])', `got = libc.sigqueue(os.getpid(), 40, None)${refuse}`, 3000, 1000, 1024, 11],
    'locked memory, in MiB': ['m = mmap.mmap(-1, 64 << 20); at = ctypes.addressof(ctypes.c_char.from_buffer(m))', `got = libc.mlock(ctypes.c_void_p(at + (n << 20)), ctypes.c_size_t(1 << 20))${refuse}`, 64, 7, 8, 12],
  };
  // gVisor has limits of its own for signals; timers count as memory there.
  for (const [what, [setup, one, bound, least, limit, errno]] of Object.entries(rows).filter(([name]) => !onGvisor || !/signals/.test(name)))
    test(`R5 ${what} end at their limit`, () => using({}, async (session) => {
      const [count, why] = await session.json(most(setup, one, bound));
      assert.ok(count >= least && count <= limit && why === errno, `${count}, errno ${why}`);
      const raise = 'for r in (resource.RLIMIT_NOFILE, resource.RLIMIT_SIGPENDING): resource.setrlimit(r, (max(5000, resource.getrlimit(r)[1]),) * 2)';
      const control = host(most(`${raise}\n${setup}`, one, bound));
      assert.equal(JSON.parse(control.stdout)[0], bound, 'the host gives more');
    }));

  test('R5 mappings end at the kernel\'s own limit, which cannot be raised', processOnly('mappings count as memory'), () => using({}, async (session) => {
    const most_maps = Number(readFileSync('/proc/sys/vm/max_map_count', 'utf8'));
    const code = most('libc.mmap.restype = ctypes.c_long', `got = libc.mmap(None, 4096, n % 2, 0x22, -1, 0)${refuse}`, 200_000);
    const [count, why] = await session.json(code);
    assert.ok(count > 1000 && count <= most_maps && why === 12, `${count}, errno ${why}`);
    assert.match((await session.json(probes({ raise: 'open("/proc/sys/vm/max_map_count", "w").write("1000000")' }))).raise, /^(OSError:30|PermissionError)/);
  }));

  const locks = (files, each) => `
import fcntl, struct, time
kept = [open("/tmp/lock%d" % i, "w") for i in range(${files})]
for n in range(${each}):
    for f in kept: fcntl.fcntl(f, fcntl.F_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 2 * n, 1, 0))
if ${files} * ${each} > 4000: time.sleep(20)`;

  test('R5 file locks, which the kernel neither counts nor limits, end the session that takes too many', processOnly('locks are gVisor\'s own and count as memory'), () => using({}, async (session) => {
    const other = await server.session();
    await other.out('kept = 1');
    await session.out('open("/mnt/data/file", "w").write("there")');
    assert.equal((await session.python(locks(100, 10))).outcome, 'ok', 'a thousand are fine');
    const e = await session.python(locks(500, 40));
    assert.deepEqual([e.outcome, e.limit?.name, e.limit?.value], ['limit', 'locks', 4000], JSON.stringify(e.error));
    assert.ok(e.limit.peak > 4000);
    const next = await session.python('print(open("/mnt/data/file").read())');
    assert.deepEqual([next.outcome, next.stdout.trim(), next.interpreter], ['ok', 'there', 'fresh']);
    assert.equal(await other.out('print(kept)'), '1', 'its neighbour is not touched');
    await other.delete();
    // Those that belong to no process could not be counted.
    const got = await session.json(probes({ anonymous: 'fcntl.fcntl(open("/tmp/x", "w"), 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 1, 0))' }, 'import fcntl, struct'));
    assert.equal(got.anonymous, 'PermissionError:1');
    assert.equal(await session.out('import sqlite3; c = sqlite3.connect("/mnt/data/x.db"); c.execute("create table t (x)"); c.commit(); print("works")'), 'works');
  }));

  // These have no limit of their own: they must count as memory.
  const counted = {
    'System V messages': 'import ctypes\nl = ctypes.CDLL(None)\nfor i in range(300):\n  q = l.msgget(0, 0o1600)\n  for _ in range(2): l.msgsnd(q, bytes([1]) + bytes(8190), 8000, 0o4000)',
    semaphores: 'import ctypes\nl = ctypes.CDLL(None)\nfor i in range(400): assert l.semget(0, 250, 0o1600) >= 0',
    'event descriptors': 'import select, os\neps = [select.epoll() for _ in range(400)]\nevs = [os.eventfd(0) for _ in range(400)]\nfor ep in eps[:20]:\n  for ev in evs: ep.register(ev, 1)',
  };
  for (const [what, code] of Object.entries(counted))
    test(`R5 ${what} count as the session's memory`, () => using({}, async (session) => {
      const { uid } = await session.onHost();
      const group = server.group(uid, 'memory');
      const used = () => {
        for (const name of ['memory.kmem.usage_in_bytes', 'memory.current'])
          try {
            return Number(readFileSync(join(group, name), 'utf8'));
          } catch { /* of the other version */ }
        throw new Error(`no usage in ${group}`);
      };
      await session.out('x = [0] * 1000');
      const before = used();
      const e = await session.python(code);
      assert.equal(e.outcome, 'ok', JSON.stringify(e.error));
      // In a guest they are objects on the heap of gVisor's kernel, which has room for some.
      if (!onGvisor) assert.ok(used() - before > 500_000, `${used() - before} bytes more`);
    }));
});

describe('R6 output', () => {
  for (const [what, extra, cut] of [['one byte below', -1, false], ['exactly', 0, false], ['one byte above', 1, true]])
    test(`R6 ${what} the cap: ${cut ? 'cut and marked' : 'whole'}`, () => using({}, async (session) => {
      const e = await session.python(`import sys; sys.stdout.write("o" * (${MIB} + ${extra})); sys.stderr.write("e" * (${MIB} + ${extra}))`);
      assert.equal(e.outcome, 'ok');
      assert.deepEqual([e.stdout.length, e.stderr.length], [Math.min(MIB, MIB + extra), Math.min(MIB, MIB + extra)]);
      assert.deepEqual([e.truncated.stdout, e.truncated.stderr], [cut, cut]);
    }));

  test('R6 no character is cut in two', () => using({}, async (session) => {
    const e = await session.python(`print("x" * (${MIB} - 2) + "\u20ac" * 10)`);
    assert.ok(e.truncated.stdout);
    assert.equal(e.stdout, 'x'.repeat(MIB - 2));
  }));

  const rss = () => Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))[1]);

  test('R6 a flood costs the service bounded memory, read or not', () => using({}, async (session) => {
    await session.out('import os, sys');
    const before = rss();
    let peak = 0;
    const timer = setInterval(() => { peak = Math.max(peak, rss()); }, 50);
    // A reader that asks for the stream and never reads it.
    const controller = new AbortController();
    const stream = await fetch(`${server.url}${session.path}/executions`, {
      method: 'POST', signal: controller.signal, headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ language: 'python', mode: 'stream', code: 'for _ in range(100): sys.stdout.write("x" * (1 << 20)); sys.stderr.write("y" * (1 << 20))' }),
    });
    assert.equal(stream.status, 200);
    await until(async () => (await session.get()).state === 'idle', { ms: 60_000, every: 100, what: 'the flood ends without its reader' });
    clearInterval(timer);
    controller.abort();
    assert.ok(peak > 0 && peak - before < 24 * 1024, `200 MiB were printed; the daemon grew from ${before} to ${peak} KiB`);
  }));

  test('R6 displays and results are capped and marked', () => using({}, async (session) => {
    const e = await session.python('from IPython.display import display\nfor i in range(300): display({"text/plain": "d%d" % i}, raw=True)');
    assert.equal(e.outcome, 'ok');
    assert.ok(e.displays.length <= 200 && e.truncated.displays === true, `${e.displays.length}`);
    const few = await session.python('for i in range(3): display({"text/plain": "d"}, raw=True)');
    assert.deepEqual([few.displays.length, few.truncated.displays], [3, false]);
  }));
});

describe('R9 the status is ours', () => {
  const frame = (type, payload) => `import os, struct, time\nos.write(3, struct.pack("II", ${type}, len(${payload})) + ${payload})\ntime.sleep(0.5)`;
  const rows = {
    'a claim on standard output': ['print(\'{"outcome":"oom","status":"completed","limit":{"name":"memory_bytes"}}\')', 'ok'],
    'a claim on standard error': ['import sys; sys.stderr.write("Killed: out of memory\\n")', 'ok'],
    'an exception called OutOfMemory': ['class OutOfMemory(Exception): pass\nraise OutOfMemory("64 MiB")', 'error'],
    'an exception called TimeoutError': ['raise TimeoutError("timed out after 1 s")', 'error'],
    'MemoryError alone': ['raise MemoryError("none left")', 'error'],
    'OSError 28 alone': ['raise OSError(28, "No space left on device")', 'error'],
    'a status nobody knows': [frame(20, 'struct.pack("Ii", 2, 0)'), 'crashed'],
    'a frame nobody knows': [frame(99, 'b""'), 'crashed'],
    'a frame only we may send': [frame(1, 'b"print(1)"'), 'crashed'],
    'a frame that lies about its length': ['import os, struct, time\nos.write(3, struct.pack("II", 18, 0xffffffff)); time.sleep(0.5)', 'crashed'],
    'an error frame that is no pairs': [frame(19, 'b"\\xff" * 64'), 'crashed'],
    noise: ['import os, time\nos.write(3, b"\\xee" * 100000); time.sleep(0.5)', 'crashed'],
    'a closed channel': ['import os, time; os.close(3); time.sleep(5)', 'crashed'],
    'every descriptor closed': ['import os, time; os.closerange(0, 1024); time.sleep(5)', 'crashed'],
    'a silent exit': ['import os; os._exit(0)', 'crashed'],
    'an exit with a status': ['import os; os._exit(3)', 'crashed'],
    'a kill of itself': ['import os; os.kill(os.getpid(), 9)', 'killed'],
    'a segmentation fault': ['import ctypes; ctypes.string_at(0)', 'crashed'],
    'an abort': ['import os; os.abort()', 'crashed'],
    'a stack overflow': ['import sys, threading\nsys.setrecursionlimit(10**9)\ndef f(): return f()\nimport ctypes\nctypes.CFUNCTYPE(ctypes.py_object)(f)\nraise ValueError("deep")', 'error'],
    'a good end by sys.exit': ['import sys; sys.exit()', 'ok'],
    'a bad end by sys.exit': ['import sys; sys.exit(3)', 'error'],
  };
  for (const [what, [code, outcome]] of Object.entries(rows))
    test(`R9 ${what} is ${outcome}`, () => using({}, async (session) => {
      const e = await session.python(code);
      assert.equal(e.outcome, outcome, JSON.stringify([e.error, e.stderr]));
      assert.equal(e.limit, null);
      if (outcome === 'ok') assert.equal(e.error, null);
      const next = await session.python('1 + 1');
      assert.deepEqual([next.outcome, next.result?.['text/plain']], ['ok', '2'], JSON.stringify(next.error));
      const lost = ['crashed', 'killed'].includes(outcome);
      assert.equal(next.interpreter, lost ? 'fresh' : 'same');
    }));

  test('R9 a kill by a child, by the shell and by memory are told apart', () => using({ limits: { memory_bytes: 64 * MIB } }, async (session) => {
    assert.equal((await session.python('import os, subprocess; subprocess.run(["sh", "-c", "kill -9 %d" % os.getpid()])')).outcome, 'killed');
    assert.equal((await session.python('x = bytearray(100 << 20)')).outcome, 'oom');
    const shell = await session.shell('kill -9 $$');
    assert.deepEqual([shell.outcome, shell.exit_code], ['error', 137]);
    assert.equal((await session.shell('exit 7')).exit_code, 7);
    assert.equal((await session.shell('true')).outcome, 'ok');
  }));

  test('R9 a forged end is the session\'s own word and touches nobody else', () => using({}, async (session) => {
    const e = await session.python('import os, struct, time\nos.write(3, struct.pack("II", 20, 8) + struct.pack("Ii", 0, 0)); time.sleep(0.3); print("late")');
    assert.equal(e.outcome, 'ok');
    await sleep(600);
    // Whatever it said after that is nobody's: the next answers are its own.
    const next = await session.python('print("next")');
    assert.ok(['ok', 'crashed'].includes(next.outcome));
    assert.equal((await session.python('print("then")')).stdout.trim(), 'then');
    await using({}, async (other) => assert.equal(await other.out('print("other")'), 'other'));
  }));
});
