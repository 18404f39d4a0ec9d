// SPDX-License-Identifier: Apache-2.0
// E1: nothing leaves a session, and what it tries is seen: refused at once
// with an errno, shown in the execution's answer, written to the audit trail.
// Each probe has a twin on the host against a listener that records it, so a
// probe that could not connect anywhere cannot pass.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { bin, Glovebox, host, onGvisor, processOnly, until } from '../lib/glovebox.mjs';
import { modern, result } from '../lib/mcp.mjs';

let server;
let session;

before(async () => {
  server = await Glovebox.start();
  session = await server.session();
});

after(() => server?.stop());

// What was blocked: "what host port count" in the order of the answer.
const seen = (e) => e.network.blocked.map((b) => `${b.what} ${b.host} ${b.port} ${b.count}`);

// Ways to reach ADDRESS and PORT; each is a statement that raises.
const WAYS = {
  'TCP connect': 'socket.create_connection((ADDRESS, PORT), 2)',
  'UDP connect': 's = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect((ADDRESS, PORT)); s.send(b"x")',
  'sendto': 'socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (ADDRESS, PORT))',
  'sendmsg': 'socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendmsg([b"x"], [], 0, (ADDRESS, PORT))',
  'in a thread': 'raised(lambda: socket.create_connection((ADDRESS, PORT), 2), threading.Thread)',
  'in a child': 'raised(lambda: socket.create_connection((ADDRESS, PORT), 2), Child)',
  'after exec': 'sh([sys.executable, "-c", f"import socket; socket.create_connection(({ADDRESS!r}, {PORT}), 2)"])',
  'by bash': 'sh(["bash", "-c", f"exec 3<>/dev/tcp/{ADDRESS}/{PORT}"])',
};

const program = (way, address, port) => `
import os, socket, subprocess, sys, threading
ADDRESS, PORT = ${JSON.stringify(address)}, ${port}
class Child:
    def __init__(self, target): self.target = target
    def start(self):
        self.pid = os.fork()
        if not self.pid:
            self.target(); os._exit(0)
    def join(self): os.waitpid(self.pid, 0)
def raised(fn, how):
    r, w = os.pipe()
    def run():
        try: fn(); os.write(w, b"0")
        except OSError as e: os.write(w, str(e.errno).encode())
    t = how(target=run); t.start(); t.join()
    n = int(os.read(r, 10))
    if n: raise OSError(n, "as told")
def sh(argv):
    p = subprocess.run(argv, capture_output=True, text=True)
    if "Network is unreachable" in p.stderr: raise OSError(101, "as told")
    if "No route to host" in p.stderr: raise OSError(113, "as told")
    if p.returncode: raise RuntimeError(p.stderr)
try:
    ${way}
    print(0)
except OSError as e:
    print(e.errno)
`;

// A listener on the host that counts who came, TCP and UDP on one port.
const HOST_TWIN = (way) => `
import socket, threading
tcp = socket.socket(); tcp.bind(("127.0.0.1", 0)); tcp.listen(8)
at = tcp.getsockname()
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(at); udp.settimeout(2); tcp.settimeout(2)
code = ${JSON.stringify(program(way, '127.0.0.1', 0))}.replace("ADDRESS, PORT = \\"127.0.0.1\\", 0", f"ADDRESS, PORT = '127.0.0.1', {at[1]}")
exec(code, {"__name__": "__main__"})
udp.setblocking(False); tcp.setblocking(False)
came = 0
for take in (lambda: tcp.accept(), lambda: udp.recv(9)):
    try: take(); came += 1
    except BlockingIOError: pass
print(came)
`;

for (const [name, way] of Object.entries(WAYS)) {
  test(`E1 ${name}: refused at once and seen`, async () => {
    const twin = host(HOST_TWIN(way)).stdout.split('\n');
    assert.equal(twin[0], '0', `the control failed: ${twin}`);
    assert.equal(twin[1], '1', 'the control reached nobody');
    const e = await session.python(program(way, '192.0.2.77', 4433));
    if (onGvisor) { // refused by a network stack without routes, which tells nobody
      assert.equal(e.stdout, '113\n');
      return;
    }
    assert.equal(e.stdout, '101\n'); // not a timeout, which has no number
    assert.deepEqual(seen(e), ['connect 192.0.2.77 4433 1']);
    assert.equal(e.network.mode, 'none');
    assert.equal(e.network.truncated, false);
    assert.deepEqual(e.network.allowed, []);
    assert.match(e.network.blocked[0].reason, /no network/);
    assert.ok(Math.abs(Date.parse(e.network.blocked[0].at) - Date.parse(e.finished_at)) < 60_000);
  });
}

test('E1 the newer Internet: refused and seen, its own loopback not', processOnly('addresses that are refused are not recorded'), async () => {
  const e = await session.python(`
import socket
for a in ("2001:db8::5", "fe80::1", "::ffff:192.0.2.5", "64:ff9b::1"):
    try: socket.create_connection((a, 99), 2)
    except OSError as e: print(e.errno)
s = socket.socket(socket.AF_INET6); s.bind(("::1", 0)); s.listen(1)
socket.create_connection(s.getsockname()[:2], 2); print("inside")`);
  assert.equal(e.stdout, '101\n101\n101\n101\ninside\n');
  assert.deepEqual(seen(e), ['connect 2001:db8::5 99 1', 'connect fe80::1 99 1', 'connect ::ffff:192.0.2.5 99 1', 'connect 64:ff9b::1 99 1']);
});

test('E1 a lookup is answered at once with "no such name" and seen', async () => {
  const e = await session.python(`
import socket
for name in ("example.com", "example.com", "metadata.google.internal"):
    for flags in (0, socket.AI_ADDRCONFIG):
        try: socket.getaddrinfo(name, 443, flags=flags)
        except socket.gaierror as e: print(e.errno)
print(socket.gethostbyname("localhost"), socket.gethostbyname(socket.gethostname()), socket.getaddrinfo("a.localhost", 1)[0][4][0])`);
  // "No such name" (-2), not "try again" (-3), which is what a timeout is.
  assert.equal(e.stdout, '-2\n-2\n-2\n-2\n-2\n-2\n127.0.0.1 127.0.0.1 ::1\n');
  assert.deepEqual(seen(e), ['resolve example.com null 4', 'resolve metadata.google.internal null 2']);
});

test('E1 asking another resolver directly is refused and seen', processOnly('addresses that are refused are not recorded'), async () => {
  const e = await session.python(`
import socket
q = b"\\x12\\x34\\x01\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x07example\\x03com\\x00\\x00\\x01\\x00\\x01"
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2)
for a in ("8.8.8.8", "169.254.169.254", "255.255.255.255", "224.0.0.251"):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    try: s.sendto(q, (a, 53)); print("sent")
    except OSError as e: print(e.errno)
s.sendto(q, ("127.0.0.1", 53)); print(s.recv(512)[3] & 15)`);
  assert.equal(e.stdout, '101\n101\n101\n101\n3\n');
  assert.deepEqual(seen(e), ['connect 8.8.8.8 53 1', 'connect 169.254.169.254 53 1', 'connect 255.255.255.255 53 1',
    'connect 224.0.0.251 53 1', 'resolve example.com null 1']);
});

test('E1 a shell is seen too, and HTTP libraries fail quickly', processOnly('addresses that are refused are not recorded'), async () => {
  const e = await session.shell(`exec 2>&1; python3 -c '
import urllib.request
try: urllib.request.urlopen("http://example.org/", timeout=5)
except OSError as e: print(type(e).__name__)'
command -v curl >/dev/null && curl -s -m 5 http://192.0.2.8/; exec 3<>/dev/udp/192.0.2.9/5`);
  assert.match(e.stdout, /URLError/);
  const got = seen(e);
  assert.ok(got.includes('resolve example.org null 1'), got);
  assert.ok(got.includes('connect 192.0.2.9 5 1'), got);
});

test('E1 a process that closes its memory is refused and seen without a destination', processOnly('addresses that are refused are not recorded'), async () => {
  const e = await session.python(`
import ctypes, os, socket
pid = os.fork()
if not pid:
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
    try: socket.create_connection(("192.0.2.1", 80), 2); os._exit(0)
    except OSError as e: os._exit(e.errno)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))`);
  assert.equal(e.stdout, '101\n');
  assert.deepEqual(seen(e), ['connect ? null 1']);
});

test('E1 an attempt between two executions is the next one\'s', processOnly('addresses that are refused are not recorded'), async () => {
  const first = await session.python(`
import socket, threading, time
def later():
    time.sleep(0.3)
    try: socket.create_connection(("192.0.2.30", 30), 2)
    except OSError: pass
threading.Thread(target=later).start()`);
  assert.deepEqual(seen(first), []);
  await until(async () => {
    const e = await session.python('1');
    return seen(e).includes('connect 192.0.2.30 30 1');
  }, { what: 'the attempt', every: 100 });
  assert.deepEqual(seen(await session.python('1')), []);
});

test('E1 an execution whose interpreter was killed shows what it tried', processOnly('addresses that are refused are not recorded'), async () => {
  const e = await session.python(`
import os, signal, socket
try: socket.create_connection(("192.0.2.40", 40), 2)
except OSError: pass
os.kill(os.getpid(), signal.SIGKILL)`);
  assert.equal(e.outcome, 'killed');
  assert.deepEqual(seen(e), ['connect 192.0.2.40 40 1']);
});

test('E1 the audit trail has one line for each execution with attempts', processOnly('addresses that are refused are not recorded'), async () => {
  const e = await session.python(`
import socket
for p in (1, 2, 2, 2):
    try: socket.create_connection(("192.0.2.50", p), 2)
    except OSError: pass`);
  const line = await until(async () => {
    const all = await server.ok('GET', '/api/audit?limit=200');
    const found = (all.data ?? all.events ?? all).filter((a) => a.action === 'network.blocked' && a.object === e.id);
    assert.ok(found.length <= 1, 'more than one line');
    return found[0];
  }, { what: 'the audit line' });
  assert.match(JSON.stringify(line), /192\.0\.2\.50 port 1, connect 192\.0\.2\.50 port 2 \(3 times\)/);
  const quiet = await session.python('1');
  const all = await server.ok('GET', '/api/audit?limit=200');
  assert.ok(!(all.data ?? all.events ?? all).some((a) => a.action === 'network.blocked' && a.object === quiet.id));
});

test('E1 the command says what was blocked', processOnly('addresses that are refused are not recorded'), async () => {
  const run = spawnSync(bin('glovebox'), ['run', '-c', `
import socket
for i in range(3):
    try: socket.create_connection(("192.0.2.60", 443), 2)
    except OSError: pass
try: socket.getaddrinfo("example.com", 1)
except OSError: pass
print("done")`], { encoding: 'utf8', env: { PATH: process.env.PATH, HOME: server.dir, GLOVEBOX_URL: server.url, GLOVEBOX_KEY: server.key } });
  assert.equal(run.stdout, 'done\n', run.stderr);
  assert.match(run.stderr, /^blocked: 192\.0\.2\.60:443 \(3 times\)$/m);
  assert.match(run.stderr, /^blocked: example\.com$/m);
});

test('E1 what stays inside works: HTTP, Unix sockets, asyncio, descriptors between processes', async () => {
  const e = await session.python(`
import asyncio, http.server, json, multiprocessing, multiprocessing.reduction, os, socket, threading, urllib.request
def web():
    class Quiet(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200); self.end_headers(); self.wfile.write(b"hello")
        def log_message(self, *a): pass
    s = http.server.ThreadingHTTPServer(("", 0), Quiet)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    got = urllib.request.urlopen(f"http://localhost:{s.server_port}/").read().decode()
    s.shutdown()
    return got
async def talk():
    async def serve(r, w):
        w.writelines([await r.readline()] * 2); await w.drain(); w.close()
    s = await asyncio.start_server(serve, "127.0.0.1", 0)
    r, w = await asyncio.open_connection(*s.sockets[0].getsockname())
    w.write(b"ping\\n")
    return (await r.read()).decode()
def unix():
    s = socket.socket(socket.AF_UNIX); s.bind("/tmp/s.sock"); s.listen(1)
    c = socket.socket(socket.AF_UNIX); c.connect("/tmp/s.sock")
    a, _ = s.accept()
    r, w = os.pipe()
    socket.send_fds(c, [b"fd"], [w])
    _, fds, _, _ = socket.recv_fds(a, 10, 1)
    os.write(fds[0], b"through"); os.unlink("/tmp/s.sock")
    return os.read(r, 20).decode()
def datagrams():
    a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); a.bind(("127.0.0.1", 0))
    b = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    b.sendto(b"1", a.getsockname()); b.sendmsg([b"2"], [], 0, a.getsockname())
    return (a.recv(9) + a.recv(9)).decode()
def square(n): return n * n
def pool():
    with multiprocessing.get_context("fork").Pool(2) as p: return p.map(square, range(4))
loop = asyncio.new_event_loop()
print(json.dumps([web(), loop.run_until_complete(talk()), unix(), datagrams(), pool()]))`);
  assert.equal(e.outcome, 'ok', JSON.stringify(e.error));
  assert.deepEqual(JSON.parse(e.stdout), ['hello', 'ping\nping\n', 'through', '12', [0, 1, 4, 9]]);
  assert.deepEqual(seen(e), []);
});

test('E1 a flood of attempts is counted in bounded room, and the session stays responsive', processOnly('addresses that are refused are not recorded'), async () => {
  const flood = await server.session();
  const e = await flood.python(`
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
n = 0
for i in range(100_000):
    try: s.connect((f"192.0.2.{i % 100 + 1}", 1))
    except OSError: n += 1
print(n)`, { timeout_s: 120 });
  assert.equal(e.outcome, 'ok', JSON.stringify(e.error));
  assert.equal(e.stdout, '100000\n');
  assert.equal(e.network.blocked.length, 64);
  assert.equal(e.network.truncated, true);
  assert.deepEqual(new Set(e.network.blocked.map((b) => b.count)), new Set([1000]));
  // Threads that never stop do not keep pid 1 from its work.
  const running = await server.ok('POST', `${flood.path}/executions`, { language: 'python', mode: 'async', code: `
import socket, threading
def go():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    while True:
        try: s.connect(("192.0.2.1", 1))
        except OSError: pass
for i in range(8): threading.Thread(target=go, daemon=True).start()
import time; time.sleep(60)` });
  await until(async () => (await server.ok('GET', `/api/executions/${running.id}`)).status === 'running', { what: 'running' });
  await flood.put('while.txt', 'x');
  assert.equal((await flood.read('while.txt')).text, 'x');
  await server.call('POST', `/api/executions/${running.id}/cancel`);
  const done = await until(async () => {
    const now = await server.ok('GET', `/api/executions/${running.id}`);
    return now.status === 'completed' && now;
  }, { what: 'its end', ms: 20_000 });
  assert.ok(done.network.blocked[0].count > 0);
  assert.deepEqual((await flood.python('1 + 1')).result, { 'text/plain': '2' });
});

test('E1 lookups with odd bytes are shown as plain text, and nonsense is not answered', async () => {
  const e = await session.python(`
import socket
def ask(*labels):
    name = b"".join(bytes([len(l)]) + l for l in labels) + b"\\0"
    return b"\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0" + name + b"\\0\\1\\0\\1"
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("127.0.0.1", 53)); s.settimeout(2)
s.send(ask(b"\\x1b[31m<b>", b"\\xff\\n")); print(s.recv(600)[3] & 15)
for junk in (b"", b"x", bytes(12), bytes(2000), ask(b"a" * 63) + b"tail", ask(b"a")[:-1]): s.send(junk)
s.send(ask(b"after")); print(s.recv(600)[3] & 15)`);
  assert.equal(e.stdout, '3\n3\n');
  assert.deepEqual(seen(e), ['resolve ??31m?b?.?? null 1', 'resolve after null 1']);
});

test('E1 the session cannot take pid 1\'s ports, nor its listener', async () => {
  const got = await session.json(`
import ctypes, json, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def attempt(fn):
    try: return fn() or "done"
    except OSError as e: return e.errno
def bind(kind, port, reuse):
    s = socket.socket(socket.AF_INET, kind)
    if reuse:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind(("127.0.0.1", port)); s.close()
got = {}
for reuse in (False, True):
    got[f"dns {reuse}"] = attempt(lambda: bind(socket.SOCK_DGRAM, 53, reuse))
    got[f"proxy {reuse}"] = attempt(lambda: bind(socket.SOCK_STREAM, 3128, reuse))
got["fds of pid 1"] = attempt(lambda: os.listdir("/proc/1/fd"))
import resource
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
got["a number of pid 1"] = attempt(lambda: os.dup2(0, limit))
print(json.dumps(got))`);
  for (const name of ['dns False', 'dns True']) assert.ok([13, 98].includes(got[name]), `${name}: ${got[name]}`);
  for (const name of ['proxy False', 'proxy True']) assert.equal(got[name], 98, name);
  if (onGvisor) { // gVisor lists them to the same user, but channels and listeners cannot be opened
    const opened = await session.json(`
import json, os
out = {}
for fd in os.listdir("/proc/1/fd"):
    try: out[fd] = os.fstat(os.open("/proc/1/fd/" + fd, os.O_RDWR)).st_mode & 0o170000
    except OSError: pass
print(json.dumps(out))`);
    for (const [fd, kind] of Object.entries(opened)) assert.notEqual(kind, 0o140000, `${fd} is a socket`);
  } else assert.equal(got['fds of pid 1'], 13);
  assert.equal(got['a number of pid 1'], 9);
});

test('E1 MCP says what was blocked, in words and structured', processOnly('addresses that are refused are not recorded'), async () => {
  const call = (code) => result(modern(server, 'tools/call', { name: 'execute_python', arguments: { code } }));
  const told = await call('import socket\ntry: socket.create_connection(("192.0.2.70", 443), 2)\nexcept OSError: pass');
  assert.match(told.content[0].text, /192\.0\.2\.70:443.*This session has no network/);
  const { network } = told.structuredContent;
  assert.equal(network.mode, 'none');
  assert.deepEqual(network.blocked.map((b) => [b.what, b.host, b.port, b.count]), [['connect', '192.0.2.70', 443, 1]]);
  const quiet = await call('1');
  assert.equal(quiet.structuredContent.network, undefined);
  assert.doesNotMatch(quiet.content[0].text, /Blocked/);
});
