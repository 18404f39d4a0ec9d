// SPDX-License-Identifier: Apache-2.0
// Z: sessions are forks of one warm interpreter and yet have nothing of it
// but read-only pages: no secret, no random state, no signal state, no way
// back to it.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { allProcesses, Glovebox, gvisorOnly, host, onGvisor, pool, processOnly, until } from '../lib/glovebox.mjs';

const marker = `glovebox-environment-marker-${process.pid}`;
let server;

before(async () => {
  server = await Glovebox.start({
    env: { GLOVEBOX_TEST_MARKER: marker, PYTHONPATH: '/tmp', PYTHONHASHSEED: '0', LD_LIBRARY_PATH: '/tmp' },
    // Started by someone with odd habits, none of which a session may have.
    under: ['/bin/sh', '-c', 'trap "" INT HUP USR1 PIPE; umask 077; ulimit -n 4000; cd /; exec "$@"', 'sh'],
    config: { pools: [
      pool(),
      pool({ name: 'science', runtime: 'standard', ready: 0 }),
      ...(onGvisor ? [] : [pool({ name: 'fresh', zygote: false, ready: 0, hibernate: true })]), // refused there
    ] },
  });
});

after(() => server?.stop());

// Looks through all memory of a process for texts; returns those it has.
// The needles are not in the arguments whole, or the scanner would be found.
function scan(pid, needles) {
  const got = host(`
import json
needles = [bytes.fromhex(h) for h in ${JSON.stringify(needles.map((n) => Buffer.from(n).toString('hex')))}]
found = set()
with open("/proc/${pid}/maps") as maps, open("/proc/${pid}/mem", "rb", 0) as mem:
    for line in maps:
        span, perms = line.split()[:2]
        if perms[0] != "r" or "[v" in line: continue
        at, end = (int(x, 16) for x in span.split("-"))
        if end - at > 1 << 40: continue # a sanitizer's notes about memory: no program has so much
        tail = b""
        while at < end:
            try:
                mem.seek(at); data = mem.read(min(8 << 20, end - at))
            except OSError: break
            if not data: break
            window = tail + data
            found.update(i for i, n in enumerate(needles) if n in window)
            tail = data[-256:]; at += len(data)
print(json.dumps(sorted(found)))`, { timeout: 120_000 });
  assert.equal(got.status, 0, got.stderr);
  return JSON.parse(got.stdout).map((i) => needles[i]);
}

test('Z1 no secret is in the memory of the zygote, of pid 1 or of an interpreter', async () => {
  const session = await server.session();
  const own = `session-marker-${session.id}`;
  await session.out(`mine = "session-marker-" + "${session.id}"`);
  const { kernel, init } = await session.onHost();
  const needles = [server.key, marker, own];
  assert.ok(scan(server.pid, needles).includes(marker), 'the scan finds what is there: the daemon\'s environment');
  if (!onGvisor) assert.deepEqual(scan(kernel, needles), [own], 'and what the session made itself'); // a guest's memory is one file
  assert.deepEqual(scan(init, needles), []);
  for (const { pid } of server.zygotes()) assert.deepEqual(scan(pid, needles), [], `zygote ${pid}`);
  await session.delete();
});

test('Z1 the environment and the descriptors of the zygote are few and known', async () => {
  const open = (pid) => readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));
  // While it imports it has files open; nothing is forked off it then.
  const zygotes = await until(() => {
    const all = server.zygotes();
    return all.length >= 2 && all.every(({ pid }) => open(pid).length <= 4) && all;
  }, { ms: 30_000, what: 'zygotes with four descriptors at most' });
  for (const { pid } of zygotes) {
    const names = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').filter(Boolean).map((pair) => pair.split('=')[0]);
    assert.deepEqual(names.sort(), ['HOME', 'LANG', 'PATH']);
    for (const target of open(pid)) assert.match(target, /^(\/dev\/null|pipe:\[\d+\]|socket:\[\d+\])$/);
  }
  assert.ok(readFileSync(`/proc/${server.pid}/environ`, 'utf8').includes(marker), 'the daemon has more');
});

const draw = `
import json, os, random, secrets, ssl, tempfile, uuid, ctypes
libc = ctypes.CDLL(None)
out = {
    "random": random.random(), "state": hash(random.getstate()), "shuffle": random.sample(range(10**9), 3),
    "uuid4": str(uuid.uuid4()), "uuid1": str(uuid.uuid1()), "node": uuid.getnode(),
    "tempname": next(tempfile._get_candidate_names()), "tempdir": tempfile.mkdtemp(),
    "secrets": secrets.token_hex(16), "urandom": os.urandom(16).hex(), "tls": ssl.RAND_bytes(16).hex(),
    "rand": libc.rand(), "crand": [libc.random() for _ in range(3)], "drand": libc.lrand48(),
}
try:
    import numpy
    out["numpy"] = numpy.random.random(); out["normal"] = numpy.random.normal(); out["rng"] = numpy.random.default_rng().random()
    out["npstate"] = hash(numpy.random.get_state()[1].tobytes())
    out["sequence"] = str(numpy.random.SeedSequence().entropy)
except ImportError: pass
out["pid"] = os.getpid()
print(json.dumps(out))
`;

function allDifferent(draws, what) {
  for (const name of Object.keys(draws[0]).filter((n) => n !== 'pid')) {
    const values = draws.map((d) => JSON.stringify(d[name]));
    assert.equal(new Set(values).size, values.length, `${what}: ${name} is ${values.join(', ')}`);
  }
}

test('Z2 twins by a plain fork do share random state, so the probe works', () => {
  const got = host(`
import ctypes, os, random
libc = ctypes.CDLL(None)
random.seed(); libc.srandom(1234)
for _ in range(2):
    if libc.fork() == 0:
        os.write(1, b"%.17g %d\\n" % (random.random(), libc.random())); os._exit(0)
os.wait(); os.wait()`).stdout.split('\n');
  assert.equal(got.length, 2);
  assert.equal(got[0], got[1]);
});

for (const [name, sessions] of [['default', 4], ['science', 3]])
  test(`Z2 no two sessions of pool ${name} share random state, nor do two interpreters of one`, async () => {
    const made = await Promise.all(Array.from({ length: sessions }, () => server.session({ pool: name })));
    const draws = await Promise.all(made.map((s) => s.json(draw)));
    for (const d of draws) assert.equal(d.pid, draws[0].pid, 'though they have the same pid');
    if (name === 'science') assert.ok('numpy' in draws[0]);
    for (let i = 0; i < 2; i++) {
      await server.ok('POST', `${made[0].path}/reset`);
      draws.push(await made[0].json(draw));
    }
    await made[1].python('import os; os._exit(1)');
    draws.push(await made[1].json(draw));
    allDifferent(draws, name);
    await Promise.all(made.map((s) => s.delete()));
  });

const state = `
import gc, json, locale, os, resource, signal, sys, threading
status = dict(l.split(":\\t", 1) for l in open("/proc/self/status").read().splitlines() if ":\\t" in l)
print(json.dumps({
    "blocked": status.get("SigBlk", "0"), "ignored": status.get("SigIgn", "0"), "pending": status.get("SigPnd", "0"),
    "handlers": sorted(s for s in range(1, 65) if callable(signal.getsignal(s)) and s != signal.SIGINT),
    "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "timers": [signal.getitimer(w) for w in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)],
    "umask": (lambda u: (os.umask(u), u)[1])(os.umask(0)),
    "cwd": os.getcwd(), "argv": sys.argv, "path0": sys.path[0], "ours": [p for p in sys.path if "glovebox" in p],
    "locale": locale.setlocale(locale.LC_ALL), "encoding": sys.getfilesystemencoding(),
    "limits": {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_") and n != "RLIMIT_OFILE"},
    "environment": sorted(os.environ), "threads": threading.active_count(), "tasks": len(os.listdir("/proc/self/task")),
    "children": open("/proc/self/task/%d/children" % os.getpid()).read() if os.path.exists("/proc/self/task/%d/children" % os.getpid()) else "",
    "policy": os.sched_getscheduler(0), "nice": os.nice(0), "oom": open("/proc/self/oom_score_adj").read().strip(),
    "gc": gc.isenabled(), "recursion": sys.getrecursionlimit(), "names": sorted(k for k in globals() if k.isidentifier() and len(k) == 1),
}))
`;

test('Z3 a session starts from a known state, whoever started the service', async () => {
  const session = await server.session();
  const got = await session.json(state);
  assert.equal(BigInt(`0x${got.blocked}`), 0n);
  assert.equal(BigInt(`0x${got.pending}`), 0n);
  // Python itself ignores SIGPIPE (13) and SIGXFSZ (25); nothing else may be.
  assert.equal(BigInt(`0x${got.ignored}`) & ~((1n << 12n) | (1n << 24n)), 0n, got.ignored);
  assert.deepEqual(got.handlers, []);
  assert.equal(got.interrupt, true);
  assert.deepEqual(got.timers, [[0, 0], [0, 0], [0, 0]]);
  assert.deepEqual([got.umask, got.cwd, got.argv, got.path0, got.ours], [0o022, '/mnt/data', [''], '', []]);
  assert.match(got.locale, /UTF-8|utf8/i);
  assert.equal(got.encoding, 'utf-8');
  assert.deepEqual([got.limits.RLIMIT_NOFILE, got.limits.RLIMIT_CORE, got.limits.RLIMIT_RTPRIO], [[1024, 1024], [0, 0], [0, 0]]);
  assert.ok(!got.environment.some((name) => /MARKER|PYTHONPATH|PYTHONHASHSEED|LD_/.test(name)), got.environment.join());
  assert.deepEqual([got.threads, got.tasks, got.children, got.policy, got.oom, got.gc], [1, 1, '', 0, '0', true]);
  const shell = (await session.shell('umask; pwd; trap; env | cut -d= -f1 | sort | tr "\\n" " "')).stdout.split('\n');
  assert.deepEqual(shell.slice(0, 2), ['0022', '/mnt/data']);
  // The one trap is ours: it keeps the shell's state.
  assert.doesNotMatch(shell.join(' ').replace(/trap -- '\{ __gb_save; \} 9>&2 2>\/dev\/null ' EXIT/, ''), /MARKER|LD_LIBRARY_PATH|trap/);
  await session.delete();
});

test('Z3 whatever a session did to itself, a reset and a neighbour start from the same state', async () => {
  const session = await server.session();
  const before = await session.json(state);
  await session.out(`
import ctypes, gc, locale, os, resource, signal, sys
os.umask(0o777); os.chdir("/"); os.environ["LEFT"] = "behind"; sys.path.insert(0, "/tmp"); sys.argv = ["x"]
for s in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1): signal.signal(s, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]); signal.setitimer(signal.ITIMER_REAL, 1000)
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)); os.nice(5); gc.disable(); sys.setrecursionlimit(500)
locale.setlocale(locale.LC_ALL, "C"); x = y = 1
import json, random; json.loads = None; random.random = None
ctypes.memset(id(sys.intern("glovebox")) + 100, 0, 1)
`);
  const spoiled = await session.python(state);
  assert.notEqual(spoiled.stdout.trim(), JSON.stringify(before), 'the probe notices');
  await server.ok('POST', `${session.path}/reset`);
  const again = await session.json(state);
  const other = await server.session();
  const neighbour = await other.json(state);
  assert.deepEqual(again, before);
  assert.deepEqual(neighbour, before);
  assert.equal(await session.out('import json, random; print(json.loads("1"), random.random() < 1)'), '1 True');
  await session.delete();
  await other.delete();
});

const writable = (maps) => maps.split('\n').filter((line) => /^\S+ .w.s /.test(line));

test('Z4 no memory that can be written is shared, and the zygote has one thread', processOnly('a guest has its own copy of all memory'), async () => {
  const session = await server.session();
  const { kernel, init } = await session.onHost();
  for (const pid of [kernel, init, ...server.zygotes().map((z) => z.pid)])
    assert.deepEqual(writable(readFileSync(`/proc/${pid}/maps`, 'utf8')), [], `process ${pid}`);
  for (const { pid, threads } of server.zygotes()) assert.equal(threads, 1, `zygote ${pid}`);
  await session.out('import mmap; shared = mmap.mmap(-1, 4096)');
  assert.equal(writable(readFileSync(`/proc/${kernel}/maps`, 'utf8')).length, 1, 'the probe sees one');
  await session.delete();
});

test('Z4 nothing is both writable and executable, and a library\'s read-only parts are one mapping', processOnly('gVisor maps a guest\'s memory as it needs'), async () => {
  const session = await server.session({ pool: 'science' });
  const mapped = await session.out(`
for line in open("/proc/self/maps"):
    perms, inode, *name = line.split()[1], *line.split()[4:]
    if inode != "0": print(perms, *name[:1])`);
  const lines = mapped.trim().split('\n').map((line) => line.split(' '));
  assert.deepEqual(lines.filter(([perms]) => perms[1] === 'w' && perms[2] === 'x'), []);
  const libc = lines.filter(([, name]) => name?.endsWith('/libc.so.6')).map(([perms]) => perms);
  assert.deepEqual(libc, ['r-xp'], 'the rest of it is frozen, or one with its code');
  assert.ok(lines.some(([perms]) => perms === 'rw-p'), 'what is writable is listed');
});

test('Z4 what one session writes over in its memory is whole in the next', async () => {
  const poison = `
import ctypes, json
doc = json.__doc__  # an object the zygote made, at the same address in all
ctypes.memset(id(doc) + 64, ord("#"), 100)
print(json.__doc__.count("#"))`;
  const first = await server.session();
  assert.ok(Number(await first.out(poison)) >= 99, 'it did write');
  const second = await server.session();
  assert.ok(Number(await second.out('import json; print(json.__doc__.count("#"))')) < 50);
  await server.ok('POST', `${first.path}/reset`);
  assert.ok(Number(await first.out('import json; print(json.__doc__.count("#"))')) < 50);
  await first.delete();
  await second.delete();
});

test('Z4 a session cannot signal the zygote or reach its socket', async () => {
  const zygotes = server.zygotes().map(({ pid }) => pid).sort();
  const session = await server.session();
  const got = await session.json(`
import json, os, signal
out = []
for pid in ${JSON.stringify(zygotes)}:
    for fn in (lambda: os.kill(pid, 9), lambda: os.kill(-pid, 9), lambda: os.pidfd_open(pid)):
        try: fn(); out.append("done")
        except OSError as e: out.append(type(e).__name__)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
try: os.kill(-1, signal.SIGTERM)
except OSError as e: pass
sockets = [os.readlink("/proc/self/fd/" + f) for f in os.listdir("/proc/self/fd") if os.path.islink("/proc/self/fd/" + f)]
print(json.dumps([out, [s for s in sockets if s.startswith("socket")]]))`);
  // gVisor has no pidfd_open.
  assert.ok(got[0].every((result, i) => result === 'ProcessLookupError' || (onGvisor && i % 3 === 2 && result === 'OSError')), JSON.stringify(got[0]));
  const { kernel } = await session.onHost();
  const theirs = new Set(zygotes.flatMap((pid) => readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`))));
  for (const socket of got[1]) assert.ok(!theirs.has(socket), socket);
  assert.ok(allProcesses().some(({ pid }) => pid === kernel));
  const now = server.zygotes().map(({ pid }) => pid);
  assert.ok(zygotes.every((pid) => now.includes(pid)), `${zygotes}; ${now}`);
  await session.delete();
});

// Where a library and where the heap is; the program itself may be one that
// the image's makers linked to a fixed place.
const layout = 'import ctypes; print(ctypes.cast(ctypes.CDLL(None).printf, ctypes.c_void_p).value, id([]))';

test('Z5 without a zygote no two sessions have a memory layout in common', processOnly('the configuration refuses it'), async () => {
  const of = async (pool) => {
    const session = await server.session({ pool });
    const got = (await session.out(layout)).split(' ');
    await session.delete();
    return got;
  };
  const fresh = [await of('fresh'), await of('fresh'), await of('fresh')];
  for (const i of [0, 1]) assert.equal(new Set(fresh.map((f) => f[i])).size, 3, JSON.stringify(fresh));
  const forked = [await of('default'), await of('default')];
  assert.equal(forked[0][0], forked[1][0], 'forks of one zygote do, which is what the option is for');
});

test('without a zygote no memory is saved, and the session says so before and after it is lost', processOnly('the configuration refuses it'), async () => {
  const session = await server.session({ pool: 'fresh' });
  await session.out('x = 41; open("a.txt", "w").write("kept")');
  const { state, memory } = await session.get();
  assert.deepEqual([state, memory.hibernates, memory.not_kept], ['idle', false, 'no_zygote']);
  for (const what of ['hibernate', 'branch']) {
    const refused = await server.call('POST', `${session.path}/${what}`, {});
    assert.equal(refused.status, 409, refused.text);
    assert.match(refused.body.error.message, /zygote: false/, what);
  }
  assert.equal(await session.out('print(x)'), '41', 'neither has cost the memory');
  await session.delete();
  const idle = await server.session({ pool: 'fresh', cooldown_s: 1 });
  await idle.out('x = 41; open("a.txt", "w").write("kept")');
  const asleep = await until(async () => { const s = await idle.get(); return s.memory.lost && s; }, { ms: 60_000, what: 'the reason' });
  assert.deepEqual([asleep.state, asleep.memory.lost, asleep.memory.image_bytes], ['dormant', 'no_zygote', 0]);
  const next = await idle.python('print("x" in globals(), open("a.txt").read())');
  assert.deepEqual([next.interpreter, next.stdout], ['fresh', 'False kept\n']);
  assert.match(next.notice, /its memory was not saved because its pool has no zygote .*variables .* are gone; files are kept/);
  await idle.delete();
});

test('Z5 a zygote is replaced by count and by age, and sessions go on', processOnly('a test of its own is below'), async () => {
  const tired = await Glovebox.start({ config: { zygote_max_spawns: 4, pools: [pool({ ready: 0 })] } });
  try {
    const kept = await tired.session();
    await kept.out('kept = 42');
    const seen = new Set();
    const layouts = new Set([await kept.out(layout)]);
    await until(async () => {
      const session = await tired.session();
      layouts.add((await session.out(layout)).split(' ')[0]);
      await session.delete();
      tired.zygotes().forEach(({ pid }) => seen.add(pid));
      return seen.size >= 3;
    }, { ms: 30_000, what: 'three zygotes' });
    assert.ok(layouts.size >= 3, 'each with a layout of its own');
    assert.equal(await kept.out('print(kept)'), '42');
    await until(() => tired.zygotes().length === 1, { what: 'the old ones are gone' });
  } finally {
    await tired.stop();
  }
  const old = await Glovebox.start({ config: { zygote_max_age_s: 1, pools: [pool({ ready: 0 })] } });
  try {
    const kept = await old.session();
    await kept.out('kept = 42');
    const [{ pid }] = old.zygotes();
    await until(async () => {
      assert.equal(await kept.out('print(kept)'), '42');
      const session = await old.session();
      await session.delete();
      return !old.zygotes().some((z) => z.pid === pid);
    }, { ms: 30_000, every: 100, what: 'a younger zygote' });
  } finally {
    await old.stop();
  }
});

test('Z5 a checkpoint is renewed by count and by age, and sessions go on', gvisorOnly, async () => {
  const folders = (g) => readdirSync(`${g.dir}/data/scratch`).filter((n) => n.startsWith('checkpoint-'));
  // Where the interpreter is; the rest of the line differs between guests.
  const place = async (session) => (await session.out(layout)).split(' ')[0];
  const ready = (g) => g.log.split('checkpoint_ready').length - 1;
  const tired = await Glovebox.start({ config: { zygote_max_spawns: 3, pools: [pool({ ready: 0 })] } });
  try {
    const kept = await tired.session();
    await kept.out('kept = 42');
    const layouts = new Set([await place(kept)]);
    await until(async () => {
      const session = await tired.session();
      layouts.add(await place(session));
      await session.delete();
      return layouts.size >= 3;
    }, { ms: 120_000, every: 100, what: 'three layouts' });
    assert.ok(ready(tired) >= 3, tired.log.slice(-2000));
    assert.equal(await kept.out('print(kept)'), '42');
    // A guest that is lost comes back from its own checkpoint, which is there
    // as long as the session.
    const before = layouts.values().next().value;
    process.kill((await kept.onHost()).kernel, 'SIGKILL');
    await until(async () => (await kept.python('1')).outcome === 'ok', { what: 'a fresh guest' });
    assert.equal(await place(kept), before);
    await kept.delete();
    await until(() => folders(tired).length <= 2, { ms: 60_000, what: 'old checkpoints are removed' });
  } finally {
    await tired.stop();
  }
  const old = await Glovebox.start({ config: { zygote_max_age_s: 5, pools: [pool({ ready: 0 })] } });
  try {
    const kept = await old.session();
    await kept.out('kept = 42');
    await until(async () => {
      assert.equal(await kept.out('print(kept)'), '42');
      return ready(old) >= 2;
    }, { ms: 120_000, every: 200, what: 'a younger checkpoint' });
    const session = await old.session();
    assert.notEqual(await place(session), await place(kept));
    await session.delete();
  } finally {
    await old.stop();
  }
});

test('Z2 Z3 Z4 sessions of a zygote revived from its image are like those of the first one, and share no random state', processOnly('a checkpoint lasts as long as the service'), async () => {
  const env = { GLOVEBOX_TEST_MARKER: marker };
  let g = await Glovebox.start({ env });
  const kinds = async () => {
    const made = [await g.session(), await g.session()];
    const got = { states: [], draws: [] };
    for (const s of made) {
      got.states.push(await s.json(state));
      got.draws.push(await s.json(draw));
      await s.delete();
    }
    return got;
  };
  try {
    const first = await kinds();
    await until(() => readdirSync(`${g.dir}/data/scratch/zygotes`).some((name) => /^[0-9a-f]{32}$/.test(name)), { ms: 30_000, what: 'the image of the zygote' });
    const [before] = g.zygotes();
    const open = (pid) => readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`).replace(/\d+/, '')).sort();
    const facts = (pid) => ({ status: readFileSync(`/proc/${pid}/status`, 'utf8').split('\n').filter((l) => /^(Name|Umask|Uid|Gid|Groups|Threads|Sig\w+|Cap\w+|NoNewPrivs|Seccomp):/.test(l)),
      environ: readFileSync(`/proc/${pid}/environ`, 'utf8'), cmdline: readFileSync(`/proc/${pid}/cmdline`, 'utf8'), fds: open(pid) });
    const was = facts(before.pid);
    await g.stop({ keep: true });
    g = await Glovebox.start({ env, dir: g.dir });
    assert.match(g.log, /zygote_ready .*from="its image"/);
    const [{ pid }] = g.zygotes();
    const uids = (f) => ({ ...f, status: f.status.filter((l) => !/^[UG]id:/.test(l)) });
    assert.deepEqual(uids(facts(pid)), uids(was), 'the process is the same in all that can be seen');
    assert.deepEqual(writable(readFileSync(`/proc/${pid}/maps`, 'utf8')), []);
    assert.doesNotMatch(readFileSync(`/proc/${pid}/maps`, 'utf8'), /glovebox-revive/, 'nothing of the reviving program is left');
    const second = await kinds();
    for (const s of [...first.states, ...second.states]) assert.deepEqual(s, first.states[0]);
    allDifferent([...first.draws, ...second.draws], 'before and after');
    assert.deepEqual(scan(pid, [g.key, marker]), [], 'Z1 no secret in it');
  } finally {
    await g.stop();
  }
});

test('Z6 the death of a zygote is seen by nobody but as a slower start', async () => {
  const session = await server.session();
  await session.out('kept = 42');
  for (const { pid } of server.zygotes()) process.kill(pid, 'SIGKILL');
  assert.equal(await session.out('print(kept)'), '42');
  await server.ok('POST', `${session.path}/reset`);
  const made = await Promise.all([server.session({ limits: { processes: 64 } }), server.session({ limits: { processes: 64 } })]);
  for (const other of made) assert.equal(await other.out('print("here")'), 'here');
  await Promise.all([session, ...made].map((s) => s.delete()));
});
