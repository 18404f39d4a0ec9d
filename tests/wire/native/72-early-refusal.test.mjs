// SPDX-License-Identifier: Apache-2.0
// A client that is refused while it still sends a large body sees why: by
// fetch and by node:http, of announced and of unknown length, every time;
// and the service holds neither memory nor workers for it.
import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import { Readable } from 'node:stream';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { resident, sanitized, stop } from '../../lib/wire.mjs';

const MiB = 1024 * 1024;
const SIZE = 300; // MiB
const TIMES = 20;
const piece = Buffer.alloc(MiB, 1);
const whole = Buffer.alloc(SIZE * MiB, 1);

function* pieces() {
  for (let i = 0; i < SIZE; i++) yield piece;
}

const answered = (response) => new Promise((done, fail) => {
  let text = '';
  response.on('data', (part) => { text += part; });
  response.on('end', () => done({ status: response.statusCode, headers: response.headers, body: JSON.parse(text) }));
  response.on('error', fail);
});

// Each sends SIZE MiB and returns what it was told.
const clients = {
  'fetch, buffered': async (url, headers) => {
    const r = await fetch(url, { method: 'PUT', headers, body: whole });
    return { status: r.status, headers: Object.fromEntries(r.headers), body: await r.json() };
  },
  'fetch, streamed': async (url, headers) => {
    const r = await fetch(url, { method: 'PUT', headers, body: Readable.toWeb(Readable.from(pieces())), duplex: 'half' });
    return { status: r.status, headers: Object.fromEntries(r.headers), body: await r.json() };
  },
  'node:http, buffered': (url, headers) => new Promise((done, fail) => {
    const req = http.request(url, { method: 'PUT', agent: false, headers: { ...headers, 'content-length': whole.length } },
      (response) => answered(response).then(done, fail));
    req.on('error', fail);
    req.end(whole);
  }),
  'node:http, streamed': (url, headers) => new Promise((done, fail) => {
    const req = http.request(url, { method: 'PUT', agent: false, headers }, (response) => answered(response).then(done, fail));
    req.on('error', fail);
    Readable.from(pieces()).pipe(req);
  }),
};

// How a client without threads does it: everything is sent, then it reads.
function sendThenRead(server, head, bytes) {
  const { hostname, port } = new URL(server.url);
  return new Promise((done, fail) => {
    const socket = net.connect({ port: Number(port), host: hostname, allowHalfOpen: true });
    let text = '';
    socket.on('error', fail);
    socket.pause();
    socket.write(head);
    socket.write(bytes, () => {
      socket.on('data', (part) => { text += part; });
      socket.on('end', () => { socket.destroy(); done(text); });
      socket.resume();
    });
  });
}

describe('early refusal', () => {
  let g;

  before(async () => {
    g = await Glovebox.start({ config: { upload_bytes: '400MiB', workers: 4, max_executions: 2, auth_failures_per_min: 10000, pools: [pool()] } });
  });
  after(() => stop(g));

  for (const [name, send] of Object.entries(clients))
    test(`${name}: ${SIZE} MiB are refused ${TIMES} times and the answer is always seen`, async () => {
      const start = resident(g.pid);
      const refusals = [
        ['/api/nothing', g.key, 404, 'not_found'],
        ['/api/sessions/ses_0123456789abcdef0123456789abcdef/files/x', 'gbx_wrong', 401, 'unauthenticated'],
        ['/api/sessions/ses_0123456789abcdef0123456789abcdef/files/x', g.key, 404, 'not_found'],
        ['/api/run', g.key, 405, 'method_not_allowed'],
      ];
      for (let i = 0; i < TIMES; i++) {
        const [path, key, status, code] = refusals[i % refusals.length];
        const answer = await send(g.url + path, { authorization: `Bearer ${key}` });
        assert.equal(answer.status, status);
        assert.equal(answer.body.error.code, code);
        assert.equal(answer.headers.connection, 'close');
        assert.match(answer.headers['x-request-id'], /^req_[0-9a-f]{32}$/);
        assert.equal(answer.headers['content-type'], 'application/json');
      }
      const grown = resident(g.pid) - start;
      assert.ok(grown < (sanitized ? 200 : 24) * MiB, `grew by ${grown} bytes`);
    });

  test('a file over the limit: 413 at once, announced or not', async () => {
    const small = await Glovebox.start({ config: { upload_bytes: '8MiB', pools: [pool()] } });
    try {
      const other = await small.ok('POST', '/api/sessions', {});
      for (const send of Object.values(clients)) {
        const answer = await send(`${small.url}/api/sessions/${other.id}/files/x`, { authorization: `Bearer ${small.key}` });
        assert.equal(answer.status, 413);
        assert.equal(answer.body.error.code, 'too_large');
      }
    } finally {
      await stop(small);
    }
  });

  test('a client that sends all before it reads sees the answer too', async () => {
    const text = await sendThenRead(g,
      `PUT /api/nothing HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${g.key}\r\nContent-Length: ${whole.length}\r\n\r\n`, whole);
    assert.match(text, /^HTTP\/1\.1 404 /);
    assert.equal(text.match(/HTTP\/1\.1/g).length, 1);
    assert.equal(JSON.parse(text.slice(text.indexOf('\r\n\r\n'))).error.code, 'not_found');
  });

  test('R8 refused senders that go silent hold no worker', async () => {
    const { hostname, port } = new URL(g.url);
    const sockets = await Promise.all(Array.from({ length: 40 }, () => new Promise((done, fail) => {
      const socket = net.connect({ port: Number(port), host: hostname, allowHalfOpen: true });
      let text = '';
      socket.on('error', fail);
      socket.on('data', (part) => { text += part; });
      socket.on('end', () => (/^HTTP\/1\.1 401 /.test(text) ? done(socket) : fail(new Error(text))));
      socket.write('PUT /api/nothing HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer gbx_wrong\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n');
    })));
    // More of them than workers, and the service serves.
    const run = await g.ok('POST', '/api/run', { code: 'print(6 * 7)' });
    assert.equal(run.stdout, '42\n');
    for (const socket of sockets) socket.destroy();
  });

  test('a good upload of the same size still arrives whole', async () => {
    const { id } = await g.ok('POST', '/api/sessions', {});
    const answer = await g.call('PUT', `/api/sessions/${id}/files/big`, whole, { raw: true });
    assert.ok([200, 201].includes(answer.status), answer.text);
    const { data } = await g.ok('GET', `/api/sessions/${id}/files`);
    assert.deepEqual(data.map(({ size }) => size), [whole.length]);
    await g.ok('DELETE', `/api/sessions/${id}`);
  });
});
