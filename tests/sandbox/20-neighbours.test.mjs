// SPDX-License-Identifier: Apache-2.0
// X: nothing passes between two sessions, whether of one tenant or of two,
// nor between a session and the host. Each channel is first shown to work
// where it should: inside one session, or between two programs of the host.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Glovebox, host, onGvisor, pool, probes, processOnly, until } from '../lib/glovebox.mjs';

let server;
let a; // and the two that must not notice it:
let sibling; // of the same tenant
let stranger; // of another

before(async () => {
  // Small disks, because one test reads them whole.
  server = await Glovebox.start({ config: { pools: [pool({ scratch_bytes: '16MiB', scratch_inodes: 1000 })] } });
  a = await server.session();
  sibling = await server.session();
  stranger = await server.session({}, await server.tenant('stranger'));
});

after(() => server?.stop());

const others = () => [['sibling', sibling], ['stranger', stranger]];

// The same program as a child process of the session.
const child = (session, code) => session.json(`
import subprocess, sys
print(subprocess.run([sys.executable, "-c", ${JSON.stringify(code)}], capture_output=True, text=True, check=True).stdout)
`);

// made: what a does first; found: probes that show it, each with the answer
// of one who sees it. Its own children see it; the others and the host do not.
async function unseen(made, found, { onHost = true } = {}) {
  await a.out(made);
  const rows = Object.fromEntries(Object.entries(found).map(([name, [code]]) => [name, code]));
  const seen = (answers) => Object.entries(found).filter(([name, [, there]]) => there(answers[name])).map(([name]) => name);
  assert.deepEqual(seen(await child(a, probes(rows))), Object.keys(found), 'inside the same session it is there');
  for (const [who, session] of others()) assert.deepEqual(seen(await session.json(probes(rows))), [], who);
  if (onHost) assert.deepEqual(seen(JSON.parse(host(probes(rows)).stdout)), [], 'host');
}

// Keeps a program of the host running while fn runs.
async function beside(code, fn) {
  const program = spawn('/usr/bin/python3', ['-uc', `${code}\nprint("up", flush=True)\nimport time; time.sleep(60)`],
    { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    await new Promise((up, failed) => {
      program.stdout.once('data', up);
      program.once('exit', () => failed(new Error('the program of the host ended')));
    });
    await fn();
  } finally {
    program.kill('SIGKILL');
  }
}

test('X1 System V memory, semaphores and queues are a session\'s own', () => unseen(`
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
assert libc.shmget(0x67626f78, 4096, 0o1666) >= 0
assert libc.semget(0x67626f78, 1, 0o1666) >= 0
assert libc.msgget(0x67626f78, 0o1666) >= 0
`, {
  shm: ['libc.shmget(0x67626f78, 0, 0)', (got) => got >= 0],
  sem: ['libc.semget(0x67626f78, 0, 0)', (got) => got >= 0],
  msg: ['libc.msgget(0x67626f78, 0)', (got) => got >= 0],
}));

test('X1 System V objects of the host are not there', async () => {
  const rows = { shm: 'libc.shmget(0x67626f79, 0, 0)' };
  const made = JSON.parse(host(probes({ id: 'libc.shmget(0x67626f79, 4096, 0o1666)' })).stdout).id;
  try {
    assert.equal(JSON.parse(host(probes(rows)).stdout).shm, made);
    assert.equal((await a.json(probes(rows))).shm, -1);
  } finally {
    host(`import ctypes; ctypes.CDLL(None).shmctl(${made}, 0, 0)`);
  }
});

test('X1 POSIX shared memory is a session\'s own', () => unseen(`
from multiprocessing import shared_memory
m = shared_memory.SharedMemory("glovebox-x1", create=True, size=16)
`, {
  memory: ['os.path.getsize("/dev/shm/glovebox-x1")', (got) => got === 16],
}));

test('X1 POSIX message queues are refused', async () => {
  const rows = { queue: 'libc.mq_open(b"/glovebox-x1", os.O_RDWR | os.O_CREAT, 0o666, None) >= 0' };
  assert.equal(JSON.parse(host(probes(rows)).stdout).queue, true, 'the host has them');
  host('import ctypes; ctypes.CDLL(None).mq_unlink(b"/glovebox-x1")');
  assert.equal((await a.json(probes(rows))).queue, false);
});

test('X1 abstract and named sockets are a session\'s own', async () => {
  const abstract = `
import socket
s = socket.socket(socket.AF_UNIX); s.bind("\\0glovebox-x1"); s.listen(8)
n = socket.socket(socket.AF_UNIX); n.bind("/tmp/glovebox-x1.sock"); n.listen(8)
`;
  const found = {
    abstract: ['socket.socket(socket.AF_UNIX).connect("\\0glovebox-x1")', (got) => got === null],
    named: ['socket.socket(socket.AF_UNIX).connect("/tmp/glovebox-x1.sock")', (got) => got === null],
  };
  await unseen(abstract, found);
  await a.out('s.close(); n.close()');
  await beside(abstract.replaceAll('glovebox-x1', 'glovebox-x1-host'), async () => {
    const rows = { abstract: found.abstract[0].replace('x1', 'x1-host'), named: found.named[0].replace('x1', 'x1-host') };
    assert.deepEqual(JSON.parse(host(probes(rows)).stdout), { abstract: null, named: null });
    const got = await a.json(probes(rows));
    assert.match(got.abstract, /^(ConnectionRefusedError|PermissionError)/);
    assert.match(got.named, /^FileNotFoundError/);
  });
  host('import os; os.unlink("/tmp/glovebox-x1-host.sock")');
});

test('X1 temporary files, homes and data are a session\'s own', () => {
  const places = ['/tmp', '/var/tmp', '/dev/shm', '/run', '/mnt/data', '/home/user'];
  return a.out('import os; print(os.path.expanduser("~"))').then((home) => {
    places[places.length - 1] = home;
    return unseen(places.map((at) => `open("${at}/glovebox-x1-file", "w").write("x")`).join('\n'),
      Object.fromEntries(places.map((at) => [at, [`os.path.exists("${at}/glovebox-x1-file")`, (got) => got === true]])));
  });
});

test('X1 a port of one is no port of another, nor of the host', async () => {
  const port = Number(await a.out(`
import socket, threading
s = socket.create_server(("127.0.0.1", 0)); w = socket.create_server(("0.0.0.0", 0))
v6 = socket.create_server(("::1", s.getsockname()[1]), family=socket.AF_INET6)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1", s.getsockname()[1])); u.settimeout(0.2)
def serve(l):
    while True: l.accept()[0].sendall(b"from a")
for l in (s, w, v6): threading.Thread(target=serve, args=(l,), daemon=True).start()
print(s.getsockname()[1])`));
  const wide = Number(await a.out('print(w.getsockname()[1])'));
  const rows = {
    tcp: `socket.create_connection(("127.0.0.1", ${port}), 1).recv(9).decode()`,
    tcp6: `socket.create_connection(("::1", ${port}), 1).recv(9).decode()`,
    any: `socket.create_connection(("127.0.0.1", ${wide}), 1).recv(9).decode()`,
    udp: `socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"hello", ("127.0.0.1", ${port}))`,
  };
  const received = () => a.out('\ntry: print(u.recv(9).decode())\nexcept TimeoutError: print("nothing")');
  const own = await child(a, probes(rows));
  assert.deepEqual([own.tcp, own.tcp6, own.any, await received()], ['from a', 'from a', 'from a', 'hello']);
  for (const [who, session] of others()) {
    const got = await session.json(probes(rows));
    for (const name of ['tcp', 'tcp6', 'any']) assert.match(got[name], /^(ConnectionRefusedError|OSError|TimeoutError)/, who);
    assert.equal(await session.out(`import socket; s = socket.create_server(("127.0.0.1", ${port})); print("bound"); s.close()`), 'bound');
  }
  const outside = JSON.parse(host(probes(rows)).stdout);
  for (const name of ['tcp', 'tcp6', 'any']) assert.notEqual(outside[name], 'from a');
  assert.equal(await received(), 'nothing');
});

test('X1 no listener of the host can be reached, our own door included', async () => {
  const door = new URL(server.url).port;
  const rows = {
    door: `socket.create_connection(("127.0.0.1", ${door}), 1) and "connected"`,
    udp: 'socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(("8.8.8.8", 53)) or "routed"',
  };
  assert.equal(JSON.parse(host(probes(rows)).stdout).door, 'connected');
  const got = await a.json(probes(rows));
  assert.match(got.door, /^ConnectionRefusedError/);
  assert.match(got.udp, /^OSError:(101|113)/, 'there is no route out');
  const links = await a.json('import json, socket; print(json.dumps([n for _, n in socket.if_nameindex()]))');
  assert.deepEqual(links, ['lo']);
});

test('X1 there are no keyrings to share', async () => {
  const rows = { add: 'call(248, b"user", b"glovebox-x1", b"x", 1, -2)', ring: 'call(250, 0, -3, 0)' };
  assert.ok(JSON.parse(host(probes(rows)).stdout).add > 0, 'the host has them');
  for (const [, session] of [['a', a], ...others()])
    assert.deepEqual(await session.json(probes(rows)), { add: -1, ring: -1 });
});

// Limits that the kernel counts for whoever made the namespace, or for the
// whole machine: one session at its limit must leave the others theirs.
const exhaust = `
import ctypes, json, os
libc = ctypes.CDLL(None, use_errno=True)
def most(fn, bound):
    n = 0
    while n < bound and fn(n): n += 1
    return n
def timer(n):
    t = ctypes.c_void_p()
    return libc.timer_create(1, None, ctypes.byref(t)) == 0
def locked(n):
    i = libc.shmget(0, 1 << 20, 0o1600)
    return libc.shmctl(i, 11, None) == 0  # SHM_LOCK
print(json.dumps([most(timer, 100000), most(locked, 100)]))
`;

test('X1 one session at its limits leaves the others theirs', processOnly('such limits are gVisor\'s own, one gVisor a session'), async () => {
  const spent = await server.session();
  const made = await spent.json(exhaust);
  assert.ok(made[0] > 0 && made[0] < 100_000 && made[1] > 0 && made[1] < 100, `they end somewhere: ${made}`);
  assert.deepEqual(await child(spent, exhaust), [0, 0], 'inside the same session they are used up');
  for (const [who, session] of others()) assert.deepEqual(await session.json(exhaust), made, who);
  await spent.delete();
});

test('X1 what the whole machine has one budget of is refused', async () => {
  const rows = { inotify: 'call(294, 0)', aio: 'call(206, 128, ctypes.byref(ctypes.c_long(0)))', files: 'open("/proc/sys/fs/file-nr").read(1)' };
  const control = JSON.parse(host(probes(rows)).stdout);
  assert.ok(control.inotify >= 0 && control.aio === 0 && control.files.length === 1, JSON.stringify(control));
  assert.deepEqual(await a.json(probes(rows)), { inotify: -1, aio: -1, files: 'FileNotFoundError:2' });
});

// Files that are one inode on the host and that every session can open.
const shared = ['/usr/bin/python3', '/etc/passwd', '/bin/bash', ...(onGvisor ? [] : ['/dev/null', '/dev/urandom']), '/usr', '/']; // gVisor has no locks on devices

const look = (path) => probes({
  flock: 'fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)',
  record: 'struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)))[0] == fcntl.F_UNLCK',
}, `import fcntl, struct\nfd = os.open(${JSON.stringify(path)}, os.O_RDONLY)`);

const hold = (path) => `
import fcntl, os, struct
fd = os.open(${JSON.stringify(path)}, os.O_RDONLY)
fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
try: fcntl.fcntl(fd, fcntl.F_SETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 0, 0))
except OSError: pass
`;

test('X2 locks on shared files are not seen by others', async () => {
  const free = { flock: null, record: true };
  await beside(hold('/etc/passwd'), () => {
    const got = JSON.parse(host(look('/etc/passwd')).stdout);
    assert.deepEqual(got, { flock: 'BlockingIOError:11', record: false }, 'two programs of the host do see each other');
  });
  for (const path of shared) {
    await a.out(hold(path));
    const own = await child(a, look(path));
    assert.equal(own.flock, 'BlockingIOError:11', `${path}: a child of the same session sees it`);
    for (const [who, session] of others()) assert.equal((await session.json(look(path))).flock, free.flock, `${who}: ${path}`);
    if (!path.startsWith('/dev')) assert.deepEqual(JSON.parse(host(look(path)).stdout), free, `host: ${path}`);
    for (const [who, session] of others()) assert.notEqual((await session.json(look(path))).record, false, `${who}: ${path}`);
  }
});

test('X2 the files all sessions of a zygote map cannot be opened', processOnly('a guest maps them in its own memory'), async () => {
  const rows = {
    exe: 'open("/proc/self/exe", "rb").read(1)',
    maps: 'open("/proc/self/map_files/" + os.listdir("/proc/self/map_files")[0], "rb").read(1)',
    copy: 'open("/opt/glovebox/python", "rb").read(1)',
    extension: '[fcntl.flock(os.open(os.path.join(d, f), os.O_RDONLY), 6) for d, _, fs in os.walk("/opt/glovebox/lib") for f in fs]',
  };
  const setup = 'import fcntl';
  assert.equal(typeof JSON.parse(host(probes({ exe: 'len(open("/proc/self/exe", "rb").read(1))' }, setup)).stdout).exe, 'number');
  const got = await a.json(probes(rows, setup));
  assert.match(got.exe, /^PermissionError:13/);
  assert.match(got.maps, /^PermissionError/);
  assert.match(String(got.copy), /^(PermissionError:13|FileNotFoundError:2)/);
  assert.ok(Array.isArray(got.extension) && got.extension.length === 0, 'our own files are not in the session\'s tree');
});

test('X2 no watch, lease or question about the page cache reaches a shared file', async () => {
  const rows = {
    watch: 'libc.inotify_add_watch(libc.inotify_init1(0), b"/usr/bin/python3", 0xfff)',
    lease: 'fcntl.fcntl(os.open("/usr/bin/python3", os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK)',
    notify: 'fcntl.fcntl(os.open("/usr", os.O_RDONLY), fcntl.F_NOTIFY, 0x80000001)',
    cache: 'call(451, os.open("/usr/bin/python3", os.O_RDONLY), (ctypes.c_uint64 * 2)(), (ctypes.c_uint64 * 5)(), 0)',
  };
  const control = JSON.parse(host(probes(rows, 'import fcntl')).stdout);
  assert.deepEqual([control.watch, control.lease], [1, 0]);
  const got = await a.json(probes(rows, 'import fcntl'));
  assert.equal(got.watch, -1);
  assert.match(String(got.lease), /^(PermissionError|OSError)/);
  assert.equal(got.cache, -1);
});

test('X3 a deleted session leaves no process, no file and no uid behind', async () => {
  const old = await server.session();
  const marker = `glovebox-marker-${old.id}`;
  const before = new Set(server.sessionProcesses().map(({ uid }) => uid));
  const e = await old.python(`
import subprocess
open("/mnt/data/secret.txt", "w").write("${marker}" * 1000)
subprocess.Popen(["sleep", "600"], start_new_session=True)
`);
  assert.equal(e.outcome, 'ok');
  const uid = onGvisor ? (await old.onHost()).uid
    : await until(() => server.sessionProcesses().find(({ name }) => name === 'sleep')?.uid, { what: 'its process on the host' });
  assert.ok(before.has(uid));
  const image = join(server.dir, 'data', 'scratch', `${uid - server.uidBase}.img`);
  host('import os; os.sync()');
  assert.ok(readFileSync(image).includes(marker), 'it was on the disk');
  await old.delete();
  await until(() => !server.sessionProcesses().some((p) => p.uid === uid) && !server.images().includes(`${uid - server.uidBase}.img`), { ms: 5000 });
  for (const entry of readdirSync(join(server.dir, 'data', 'scratch'), { recursive: true, withFileTypes: true }))
    if (entry.isFile() && !entry.path.includes('/checkpoint-')) assert.ok(!readFileSync(join(entry.path, entry.name)).includes(marker), entry.name);
});

test('X3 a new session gets a uid nobody had, empty folders and zeroed space', async () => {
  const seen = new Set();
  for (let i = 0; i < 5; i++) {
    const session = await server.session();
    await session.out('import subprocess; p = subprocess.Popen(["sleep", "60"])');
    const uids = new Set(onGvisor ? [(await session.onHost()).uid]
      : server.sessionProcesses().filter(({ name }) => name === 'sleep').map(({ uid }) => uid));
    assert.equal(uids.size, 1);
    const [uid] = uids;
    assert.ok(!seen.has(uid), `${uid} is used again`);
    seen.add(uid);
    const got = await session.json(`
import json, os
left = [os.path.join(d, f) for at in ("/mnt/data", "/tmp", "/var/tmp", "/dev/shm") for d, _, fs in os.walk(at) for f in fs]
fd = os.open("/mnt/data/raw", os.O_RDWR | os.O_CREAT); os.posix_fallocate(fd, 0, 4 << 20)
data = os.read(fd, 4 << 20)
print(json.dumps([left, len(data), data.count(0)]))
open("/mnt/data/mark", "wb").write(b"M" * (4 << 20)); open("/tmp/mark", "w").write("mark")`);
    assert.deepEqual(got, [[], 4 << 20, 4 << 20]);
    await session.delete();
    await until(() => !server.sessionProcesses().some((p) => p.uid === uid), { ms: 5000 });
  }
});

test('X3 nothing one session printed is in what another gets', async () => {
  const sessions = [a, sibling, stranger];
  const lengths = [1, 4095, 4096, 65_537, 70_000, 3, 200_000, 12, 65_536, 0];
  const runs = sessions.flatMap((session, i) => lengths.map(async (length, k) => {
    const mark = 'abc'[i];
    const e = await session.python(`import sys\nsys.stdout.write("${mark}" * ${length}); sys.stderr.write("${mark.toUpperCase()}" * ${length})\nif ${k % 3 === 0 ? 1 : 0}: raise ValueError("${mark}" * 5)`);
    assert.equal(e.stdout, mark.repeat(length));
    assert.equal(e.stderr, mark.toUpperCase().repeat(length));
    if (k % 3 === 0) assert.equal(e.error.message, mark.repeat(5));
  }));
  await Promise.all(runs);
});
