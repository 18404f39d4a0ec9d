// SPDX-License-Identifier: Apache-2.0
// A tenant that asks for too much of one thing, as a process of its own so
// that it does not disturb who measures: node bomber.mjs URL KEY KIND[,KIND].
// Says "up" once its load stands, ends on SIGTERM. Whatever it is refused is
// counted and told at the end; being refused is its lot.
import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { setPriority } from 'node:os';

const [url, key, kinds] = process.argv.slice(2);
const { hostname, port } = new URL(url);
const FROM = '127.0.0.2'; // another machine, as far as addresses go
const SESSIONS = 6;
const agent = new http.Agent({ keepAlive: true, maxSockets: 600, localAddress: FROM });
const told = {};
let stopping = false;

// Its own client would be elsewhere. A priority is a thread's: who compiles and
// collects for us has that of who started us, who may be in a hurry.
for (const thread of readdirSync('/proc/self/task')) setPriority(Number(thread), 5);
process.stdin.on('end', () => process.exit(0)).resume(); // never outlives who started it
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const note = (what) => { told[what] = (told[what] ?? 0) + 1; };

function call(method, path, body, type = 'application/json') {
  return new Promise((done) => {
    const bytes = body === undefined ? undefined : Buffer.isBuffer(body) ? body : JSON.stringify(body);
    const req = http.request({ hostname, port, agent, method, path, timeout: 60_000,
      headers: { authorization: `Bearer ${key}`, ...(bytes ? { 'content-type': type, 'content-length': Buffer.byteLength(bytes) } : {}) } },
    (res) => {
      const parts = [];
      res.on('data', (b) => parts.push(b)).on('error', () => done({ status: 0 })).on('end', () => {
        note(res.statusCode);
        let json = {};
        try { json = JSON.parse(Buffer.concat(parts).toString()); } catch { /* not JSON */ }
        done({ status: res.statusCode, body: json });
      });
    });
    req.on('error', (e) => { note(e.code); done({ status: 0 }); }).on('timeout', () => req.destroy());
    req.end(bytes);
  });
}

async function session() {
  for (;;) {
    const made = await call('POST', '/api/sessions', { persistence: 'ephemeral' });
    if (made.status === 201) return made.body.id;
    if (stopping) return null;
    await sleep(100);
  }
}

// The same thing in many sessions, again when it ends; another text each time,
// or it would be slowed as a loop.
async function inSessions(count, code) {
  const one = async () => {
    const id = await session();
    up();
    for (let i = 0; !stopping && id; i++) {
      const r = await call('POST', `/api/sessions/${id}/executions`,
        { language: 'python', code: `${code}\n# ${i}`, timeout_s: 60 });
      if (r.status !== 200) await sleep(50);
    }
  };
  await Promise.all(Array.from({ length: count }, one));
}

const many = (count, fn) => Promise.all(Array.from({ length: count }, async () => {
  up();
  while (!stopping) {
    await fn();
    await sleep(1);
  }
}));

const bombs = {
  cpu: () => inSessions(SESSIONS, 'import os\nfor _ in range(3): os.fork()\nwhile True: pass'),
  memory: () => inSessions(SESSIONS, 'a = []\nwhile True: a.append(bytearray(b"x" * (1 << 20)))'),
  forks: () => inSessions(SESSIONS, 'import os\nwhile True:\n  try:\n    os.fork()\n  except OSError: pass'),
  disk: () => inSessions(SESSIONS, `import os
while True:
  try:
    with open("big", "wb") as f:
      while True: f.write(b"x" * (1 << 20))
  except OSError: pass
  fd = os.open("big", os.O_RDWR); os.fsync(fd); os.close(fd); os.unlink("big")`),
  inodes: () => inSessions(SESSIONS, `import os
while True:
  n = 0
  try:
    while True: open(f"f{n}", "w").close(); n += 1
  except OSError: pass
  for i in range(n): os.unlink(f"f{i}")`),
  output: () => inSessions(SESSIONS, 'import sys\nwhile True: sys.stdout.write("x" * 60000 + "\\n")'),
  // As many executions as the service runs at once, which take no CPU time.
  sleepers: async () => {
    const ids = await Promise.all(Array.from({ length: 15 }, session));
    let n = 0;
    await many(240, () => call('POST', `/api/sessions/${ids[n++ % ids.length]}/executions`, { language: 'python', code: 'import time; time.sleep(2)' }));
  },
  flood: async () => {
    const id = await session();
    await many(500, () => call('POST', `/api/sessions/${id}/executions`, { language: 'python', code: 'import time; time.sleep(1)' }));
  },
  // Requests that are refused, sent ahead without waiting for the answers, which costs us little.
  refusals: async () => {
    const id = await session();
    const body = JSON.stringify({ language: 'python', code: 'import time; time.sleep(5)' });
    const path = `/api/sessions/${id}/executions`;
    const batch = `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`.repeat(20);
    const full = many(20, () => call('POST', path, JSON.parse(body)));
    const line = () => {
      const s = net.connect({ host: hostname, port, localAddress: FROM });
      let answers = 0;
      s.on('connect', () => s.write(batch)).on('error', () => note('error')).on('close', () => { if (!stopping) setTimeout(line, 10); });
      s.on('data', (bytes) => {
        const refused = bytes.toString('latin1').split('HTTP/1.1 429').length - 1;
        told[429] = (told[429] ?? 0) + refused;
        answers += refused;
        for (; answers >= 20; answers -= 20) s.write(batch);
      });
    };
    await sleep(300);
    for (let i = 0; i < 60; i++) line();
    await full;
  },
  creations: () => many(100, async () => {
    const made = await call('POST', '/api/sessions', { persistence: 'ephemeral' });
    if (made.status === 201) await call('DELETE', `/api/sessions/${made.body.id}`);
  }),
  connections: async () => {
    const open = new Set();
    let dialled = 0;
    const dial = () => {
      dialled++;
      const s = net.connect({ host: hostname, port, localAddress: FROM });
      open.add(s);
      s.on('connect', () => { note('connected'); s.write('GET /api/sessions HTTP/1.1\r\nHost: x\r\nX-Slow: '); });
      s.on('data', () => {}).on('error', () => note('refused')).on('close', () => { open.delete(s); });
    };
    while (!stopping) {
      for (let i = 0; i < 50 && open.size < 1700; i++) dial();
      // The service keeps an eighth of its connections for one address and closes the oldest.
      if (dialled > 1000 && open.size > 100) up();
      await sleep(10);
    }
    open.forEach((s) => s.destroy());
  },
  uploads: async () => {
    const id = await session();
    const bytes = randomBytes(4 << 20);
    let n = 0;
    const slow = () => new Promise((done) => {
      const req = http.request({ hostname, port, agent, method: 'PUT', path: `/api/sessions/${id}/files/slow${n++ % 300}`,
        headers: { authorization: `Bearer ${key}`, 'content-length': 10 << 20 } }, (res) => { note(res.statusCode); res.resume(); });
      const timer = setInterval(() => req.write(bytes.subarray(0, 65536)), 100);
      const end = () => { clearInterval(timer); req.destroy(); done(); };
      req.on('error', end).on('close', end);
      setTimeout(end, 5000);
    });
    await Promise.all([many(300, slow), many(8, () => call('PUT', `/api/sessions/${id}/files/big${n++ % 8}`, bytes, 'application/octet-stream'))]);
  },
};
bombs.mix = () => Promise.all(Object.keys(bombs).filter((k) => !['mix', 'sleepers', 'refusals'].includes(k)).map((k) => bombs[k]()));

let said = false;
function up() {
  if (!said) setTimeout(() => process.stdout.write('up\n'), 700);
  said = true;
}

process.on('SIGTERM', () => {
  stopping = true;
  process.stdout.write(`${JSON.stringify(told)}\n`, () => process.exit(0));
});
await Promise.all(kinds.split(',').map((kind) => bombs[kind]()));
