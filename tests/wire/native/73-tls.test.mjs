// SPDX-License-Identifier: Apache-2.0
// HTTPS on the port itself: everything that plain HTTP does, with a
// certificate made here; what is not TLS gets nothing; and a certificate that
// cannot be used stops the start.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import tls from 'node:tls';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { resident, sanitized, stop } from '../../lib/wire.mjs';

const MiB = 1024 * 1024;
const dir = mkdtempSync(join(tmpdir(), 'glovebox-tls-'));
const at = (name) => join(dir, name);
process.on('exit', () => rmSync(dir, { recursive: true, force: true }));

// Only their owner may read the keys, as it should be.
function certificate(name) {
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
    '-keyout', at(`${name}.key`), '-out', at(`${name}.pem`), '-subj', '/CN=glovebox test', '-addext', 'subjectAltName=IP:127.0.0.1'],
  { stdio: 'ignore' });
  chmodSync(at(`${name}.key`), 0o600);
}
certificate('good');
certificate('other');
const ca = readFileSync(at('good.pem'));
const config = { tls_certificate: at('good.pem'), tls_key: at('good.key'), pools: [pool()] };

async function start(extra = {}) {
  const g = await Glovebox.start({ config: { ...config, ...extra }, wait: false });
  const file = join(g.dir, 'data', 'endpoint');
  await until(() => g.exit || existsSync(file), { ms: 20_000, what: 'endpoint' });
  assert.equal(g.exit, undefined, g.log);
  g.url = readFileSync(file, 'utf8').trim();
  g.key = readFileSync(join(g.dir, 'data', 'admin.key'), 'utf8').trim();
  await until(async () => (await ask(g, 'GET', '/readyz')).status === 200, { ms: 60_000, every: 50, what: 'readyz' });
  return g;
}

// body: bytes, a stream, or an object that becomes JSON.
function ask(g, method, path, { body, agent = false, key = g.key, headers = {} } = {}) {
  const json = body && !Buffer.isBuffer(body) && !(body instanceof Readable);
  const bytes = json ? Buffer.from(JSON.stringify(body)) : body;
  return new Promise((done, fail) => {
    const req = https.request(g.url + path, { method, agent, ca, headers: {
      authorization: `Bearer ${key}`, ...(json ? { 'content-type': 'application/json' } : {}),
      ...(Buffer.isBuffer(bytes) ? { 'content-length': bytes.length } : {}), ...headers } },
    (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
      response.on('error', fail);
      response.on('end', () => {
        const all = Buffer.concat(parts);
        const parsed = response.headers['content-type']?.startsWith('application/json') ? JSON.parse(all) : undefined;
        done({ status: response.statusCode, headers: response.headers, bytes: all, body: parsed, port: response.socket?.localPort });
      });
    });
    req.on('error', fail);
    if (bytes instanceof Readable) bytes.pipe(req);
    else req.end(bytes);
  });
}

const hash = (bytes) => createHash('sha256').update(bytes).digest('hex');

describe('HTTPS', () => {
  let g;

  before(async () => {
    // Node encrypts a large body before it sends the head, which takes seconds on a busy machine.
    g = await start({ header_timeout_s: 10, upload_bytes: '64MiB', auth_failures_per_min: 10_000 });
  });
  after(() => stop(g));

  test('code runs, one request after another on one connection', async () => {
    assert.match(g.url, /^https:\/\/127\.0\.0\.1:\d+$/);
    const agent = new https.Agent({ keepAlive: true, maxSockets: 1, ca });
    const ports = new Set();
    for (let i = 0; i < 5; i++) {
      const answer = await ask(g, 'POST', '/api/run', { agent, body: { code: `print(${i} * 7)` } });
      assert.equal(answer.status, 200);
      assert.equal(answer.body.stdout, `${i * 7}\n`);
      ports.add(answer.port);
    }
    assert.equal(ports.size, 1);
    agent.destroy();
  });

  test('addresses in answers say https', async () => {
    const run = await ask(g, 'POST', '/pools/default/executions?api-version=2025-10-02-preview&identifier=tls-1',
      { body: { code: '1', executionType: 'Asynchronous' } });
    assert.equal(run.status, 202);
    assert.ok(run.headers['operation-location'].startsWith(`${g.url}/pools/default/executions/`), run.headers['operation-location']);
    const next = new URL(run.headers['operation-location']);
    assert.equal((await ask(g, 'GET', next.pathname + next.search)).status, 200);
  });

  test('many at once', async () => {
    const answers = await Promise.all(Array.from({ length: 40 }, (_, i) => ask(g, 'GET', '/api/limits', { headers: { 'x-n': `${i}` } })));
    assert.ok(answers.every(({ status }) => status === 200));
  });

  test('20 MiB go up and come down, in one piece, in chunks and by parts', async () => {
    const session = (await ask(g, 'POST', '/api/sessions', { body: {} })).body;
    const path = `/api/sessions/${session.id}/files`;
    const bytes = randomBytes(20 * MiB);
    const halves = [bytes.subarray(0, 7 * MiB), bytes.subarray(7 * MiB)];
    assert.equal((await ask(g, 'PUT', `${path}/whole`, { body: bytes })).status, 201);
    assert.equal((await ask(g, 'PUT', `${path}/chunks`, { body: Readable.from(halves) })).status, 201);
    for (const name of ['whole', 'chunks']) {
      const down = await ask(g, 'GET', `${path}/${name}`);
      assert.equal(down.bytes.length, bytes.length);
      assert.equal(hash(down.bytes), hash(bytes));
    }
    const part = await ask(g, 'GET', `${path}/whole`, { headers: { range: 'bytes=5000000-15000000' } });
    assert.equal(part.status, 206);
    assert.equal(hash(part.bytes), hash(bytes.subarray(5000000, 15000001)));
    // From the workspace the bytes come without a copy where they can.
    const kept = await ask(g, 'GET', `/api/workspaces/${session.workspace}/files/whole`);
    assert.equal(kept.status, 200);
    assert.equal(hash(kept.bytes), hash(bytes));
    const zip = await ask(g, 'GET', `/api/workspaces/${session.workspace}/archive`);
    assert.equal(zip.status, 200);
    assert.ok(zip.bytes.length > 40 * MiB);
    await ask(g, 'DELETE', `/api/sessions/${session.id}`);
  });

  test('events come as they happen', async () => {
    const session = (await ask(g, 'POST', '/api/sessions', { body: {} })).body;
    const seen = await new Promise((done, fail) => {
      const times = [];
      const req = https.request(`${g.url}/api/sessions/${session.id}/executions`, { method: 'POST', agent: false, ca,
        headers: { authorization: `Bearer ${g.key}`, 'content-type': 'application/json' } },
      (response) => {
        let text = '';
        response.on('data', (part) => {
          text += part;
          times.push(Date.now());
        });
        response.on('error', fail);
        response.on('end', () => done({ text, times, type: response.headers['content-type'] }));
      });
      req.on('error', fail);
      req.end(JSON.stringify({ mode: 'stream', code: 'import time\nfor i in range(4):\n    print("tick", i, flush=True)\n    time.sleep(0.4)' }));
    });
    assert.match(seen.type, /^text\/event-stream/);
    for (let i = 0; i < 4; i++) assert.match(seen.text, new RegExp(`tick ${i}`));
    assert.match(seen.text, /event: done/);
    assert.ok(seen.times.at(-1) - seen.times[0] > 500, 'all came at once');
    await ask(g, 'DELETE', `/api/sessions/${session.id}`);
  });

  test('a large body is refused before its end and the answer is seen', async () => {
    const body = Buffer.alloc(50 * MiB, 1);
    const piece = body.subarray(0, MiB);
    const start = resident(g.pid);
    for (let i = 0; i < 10; i++) {
      const buffered = await ask(g, 'PUT', '/api/nothing', { body });
      const streamed = await ask(g, 'PUT', '/api/nothing', { body: Readable.from(Array.from({ length: 50 }, () => piece)), key: 'gbx_wrong' });
      assert.deepEqual([buffered.status, streamed.status], [404, 401]);
      assert.equal(buffered.headers.connection, 'close');
      assert.equal(streamed.body.error.code, 'unauthenticated');
    }
    const session = (await ask(g, 'POST', '/api/sessions', { body: {} })).body;
    const large = await ask(g, 'PUT', `/api/sessions/${session.id}/files/x`, { body: Buffer.alloc(100 * MiB) });
    assert.equal(large.status, 413);
    await ask(g, 'DELETE', `/api/sessions/${session.id}`);
    assert.ok(resident(g.pid) - start < (sanitized ? 200 : 32) * MiB);
  });

  test('fetch sees such an answer too', () => {
    const script = `
      const body = Buffer.alloc(50 << 20, 1), seen = [];
      for (let i = 0; i < 5; i++) {
        const r = await fetch(process.env.AT + '/api/nothing', { method: 'PUT', body, headers: { authorization: 'Bearer ' + process.env.KEY } });
        seen.push(r.status, (await r.json()).error.code);
        const s = await fetch(process.env.AT + '/api/nothing', { method: 'PUT', duplex: 'half', headers: { authorization: 'Bearer ' + process.env.KEY },
          body: new ReadableStream({ pull(c) { this.n = (this.n ?? 0) + 1; c.enqueue(body.subarray(0, 1 << 20)); if (this.n === 50) c.close(); } }) });
        seen.push(s.status, (await s.json()).error.code);
      }
      console.log(JSON.stringify([...new Set(seen)]), seen.length);`;
    const ran = spawnSync(process.execPath, ['--input-type=module', '-e', script],
      { encoding: 'utf8', env: { PATH: process.env.PATH, NODE_EXTRA_CA_CERTS: at('good.pem'), AT: g.url, KEY: g.key } });
    assert.equal(ran.stdout, '[404,"not_found"] 20\n', ran.stderr);
  });

  const raw = (bytes) => new Promise((done, fail) => {
    const { hostname, port } = new URL(g.url);
    const socket = net.connect(Number(port), hostname, () => socket.write(bytes));
    let got = '';
    socket.on('data', (part) => { got += part.toString('latin1'); });
    socket.on('error', (error) => (error.code === 'ECONNRESET' ? undefined : fail(error)));
    socket.on('close', () => done(got));
  });

  test('plain HTTP gets no answer, and is closed', async () => {
    const got = await raw(`GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${g.key}\r\n\r\n`);
    assert.doesNotMatch(got, /HTTP\//);
    assert.equal((await ask(g, 'GET', '/healthz')).status, 200);
  });

  test('H2 a handshake that is never finished is cut', async () => {
    await raw(Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01]));
    assert.equal((await ask(g, 'GET', '/healthz')).status, 200);
  });

  test('nothing older than TLS 1.2 is spoken', async () => {
    const { hostname, port } = new URL(g.url);
    const connect = (version) => new Promise((done) => {
      const socket = tls.connect({ host: hostname, port: Number(port), ca, minVersion: version, maxVersion: version, ciphers: 'DEFAULT@SECLEVEL=0' },
        () => { done(socket.getProtocol()); socket.destroy(); });
      socket.on('error', () => done(null));
    });
    assert.deepEqual(await Promise.all(['TLSv1', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3'].map(connect)), [null, null, 'TLSv1.2', 'TLSv1.3']);
  });

  test('H7 clients that leave in the middle leave nothing behind', async () => {
    const { hostname, port } = new URL(g.url);
    const open = () => new Promise((done, fail) => {
      const socket = tls.connect({ host: hostname, port: Number(port), ca }, () => {
        socket.write(`PUT /api/sessions/x/files/y HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${g.key}\r\nContent-Length: 50000000\r\n\r\n`);
        socket.write(Buffer.alloc(100_000), () => { socket.destroy(); done(); });
      });
      socket.on('error', fail);
    });
    for (let i = 0; i < 20; i++) await open();
    assert.equal((await ask(g, 'GET', '/healthz')).status, 200);
  });
});

describe('settings', () => {
  writeFileSync(at('broken.pem'), '-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n');
  const wrong = {
    'a certificate without its key': [{ tls_key: '' }, /need each other/],
    'a key without its certificate': [{ tls_certificate: '' }, /need each other/],
    'another key': [{ tls_key: at('other.key') }, /cannot be used/],
    'no certificate': [{ tls_certificate: at('broken.pem') }, /cannot be used/],
    'no file': [{ tls_key: at('none.key') }, /cannot read/],
  };
  for (const [name, [extra, message]] of Object.entries(wrong))
    test(`${name}: the service does not start, and says why`, async () => {
      const g = await Glovebox.start({ config: { ...config, ...extra }, wait: false });
      assert.notEqual((await g.exited).code, 0);
      assert.match(g.log, message);
      await g.stop();
    });

  test('I6 TLS alone does not open the service to other machines', async () => {
    const g = await Glovebox.start({ config, args: ['--listen', '0.0.0.0:0'], wait: false });
    assert.notEqual((await g.exited).code, 0);
    assert.match(g.log, /not a loopback address/);
    await g.stop();
  });
});
