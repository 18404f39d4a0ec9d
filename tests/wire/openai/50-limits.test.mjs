// SPDX-License-Identifier: Apache-2.0
// The sizes of the OpenAI door: a file of 512 MiB goes through in one
// request, one byte more does not; what is announced too large is refused
// before it is sent; nothing of the refused stays. And failures for good.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, before, describe, test } from 'node:test';
import { Glovebox, until } from '../../lib/glovebox.mjs';
import { accepted, Door, refused } from '../../lib/openai.mjs';
import { resident, stop } from '../../lib/wire.mjs';

const MiB = 1 << 20;
const MOST = 512 * MiB;
const piece = Buffer.alloc(MiB, 'glovebox');

// A form whose file has so many bytes, as a stream.
function* body(bytes, fields) {
  yield Buffer.from(fields.map(([name, value]) => `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`).join(''));
  yield Buffer.from('--b\r\nContent-Disposition: form-data; name="file"; filename="large.bin"\r\n\r\n');
  for (let left = bytes; left > 0; left -= MiB) yield left < MiB ? piece.subarray(0, left) : piece;
  yield Buffer.from('\r\n--b--\r\n');
}

function stream(g, path, bytes, fields = []) {
  const { hostname, port } = new URL(g.url);
  return new Promise((done, fail) => {
    const req = http.request({
      hostname, port, method: 'POST', path, agent: false,
      headers: { authorization: `Bearer ${g.key}`, 'content-type': 'multipart/form-data; boundary=b' },
    }, (res) => {
      let text = '';
      res.on('data', (part) => { text += part; });
      res.on('end', () => done({ status: res.statusCode, headers: res.headers, text, body: JSON.parse(text) }));
      res.on('error', fail);
    });
    req.on('error', fail);
    Readable.from(body(bytes, fields)).pipe(req);
  });
}

describe('openai, sizes', () => {
  let g, door, box;

  before(async () => {
    g = await Glovebox.start();
    door = new Door(g);
    box = (await door.container()).id;
  });
  after(() => stop(g));

  test('a file of 512 MiB is taken, and one byte more is not', async () => {
    const start = resident(g.pid);
    const made = accepted(await stream(g, '/v1/files', MOST, [['purpose', 'user_data']]));
    assert.equal(made.bytes, MOST);
    refused(await stream(g, '/v1/files', MOST + 1, [['purpose', 'user_data']]), 413, { message: 'The file is larger than 536870912 bytes.' });
    assert.equal(accepted(await door.get('/files')).data.length, 1);
    assert.ok(resident(g.pid) - start < 64 * MiB, 'bytes pass through');
    accepted(await door.delete(`/files/${made.id}`));
  });

  test('a container takes more than the native upload does, and no more than 512 MiB', async () => {
    const made = accepted(await stream(g, `/v1/containers/${box}/files`, 200 * MiB));
    assert.equal(made.bytes, 200 * MiB);
    refused(await stream(g, `/v1/containers/${box}/files`, MOST + 1), 413, { message: 'The file is larger than 536870912 bytes.' });
    assert.equal(accepted(await door.get(`/containers/${box}/files`)).data.length, 1);
  });

  test('what is announced too large is refused before it is sent', async () => {
    const { hostname, port } = new URL(g.url);
    for (const path of ['/v1/files', `/v1/containers/${box}/files`]) {
      for (const length of [MOST + 2 * MiB, 8 * 1024 * MiB]) {
        const text = await new Promise((done, fail) => {
          const socket = net.connect(Number(port), hostname);
          let seen = '';
          socket.on('data', (part) => { seen += part; if (/\r\n\r\n.*\}\}$/s.test(seen)) { socket.destroy(); done(seen); } });
          socket.on('error', fail);
          socket.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${g.key}\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: ${length}\r\n\r\n--b\r\n`);
        });
        assert.match(text, /^HTTP\/1\.1 413 /);
        const { error } = JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4));
        assert.deepEqual(error, { message: 'The file is larger than 536870912 bytes.', type: 'invalid_request_error', param: null, code: null });
      }
    }
  });

  test('a client that asks before it sends is told in time', async () => {
    const ask = (length, rest) => new Promise((done, fail) => {
      const { hostname, port } = new URL(g.url);
      const socket = net.connect(Number(port), hostname);
      let seen = '';
      socket.on('data', (part) => {
        seen += part;
        if (/^HTTP\/1\.1 100 /.test(seen)) socket.write(rest.splice(0).join(''));
        if (/\r\n\r\n\{.*\}$/s.test(seen)) { socket.destroy(); done(seen); }
      });
      socket.on('error', fail);
      socket.write(`POST /v1/files HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nAuthorization: Bearer ${g.key}\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: ${length}\r\n\r\n`);
    });
    assert.match(await ask(MOST * 2, ['--b\r\n']), /HTTP\/1\.1 413 /);
    const small = Buffer.concat([...body(5, [['purpose', 'user_data']])]).toString();
    assert.match(await ask(small.length, [small]), /HTTP\/1\.1 200 .*"bytes":5/s);
  });

  test('H7: a client that leaves in the middle of an upload leaves nothing', async () => {
    const { hostname, port } = new URL(g.url);
    const before_ = accepted(await door.get(`/containers/${box}/files`)).data.length;
    await new Promise((done) => {
      const req = http.request({ hostname, port, method: 'POST', path: `/v1/containers/${box}/files`, agent: false,
        headers: { authorization: `Bearer ${g.key}`, 'content-type': 'multipart/form-data; boundary=b', 'content-length': 10 * MiB } });
      req.on('error', () => done());
      req.write('--b\r\nContent-Disposition: form-data; name="file"; filename="left.bin"\r\n\r\n');
      req.write(Buffer.alloc(2 * MiB), () => req.destroy());
      req.on('close', done);
    });
    await until(async () => (await door.put(box, 'after', 'after.txt')).bytes === 5);
    assert.equal(accepted(await door.get(`/containers/${box}/files`)).data.length, before_ + 1);
  });
});

describe('openai, what trying again does not help', () => {
  let g, door;

  before(async () => {
    g = await Glovebox.start({ config: { tenant_quota_bytes: '2MiB' } });
    door = new Door(g);
  });
  after(() => stop(g));

  test('a full quota says so, and that it stays so', async () => {
    const { id } = await door.container();
    await door.file(Buffer.alloc(1000), 'fits');
    for (const answer of [await door.send('/files', [['purpose', 'user_data'], ['file', Buffer.alloc(3 * MiB), { filename: 'x' }]]),
      await door.send(`/containers/${id}/files`, [['file', Buffer.alloc(3 * MiB), { filename: 'x' }]])]) {
      refused(answer, 507, { type: 'server_error' });
      assert.equal(answer.headers['x-should-retry'], 'false');
    }
    assert.equal(accepted(await door.get('/files')).data.length, 1);
    assert.deepEqual(accepted(await door.get(`/containers/${id}/files`)).data, []);
  });

  test('D3: a damaged file is refused rather than served', async () => {
    const bytes = `whole ${Math.random()}`;
    const { id } = await door.file(bytes, 'd.txt');
    const sha = createHash('sha256').update(bytes).digest('hex');
    const at = join(g.dir, 'data/blobs', sha.slice(0, 2), sha);
    await until(() => existsSync(at), { what: 'a file on disk' });
    chmodSync(at, 0o644);
    writeFileSync(at, bytes.replace('whole', 'wrong'));
    const answer = await door.get(`/files/${id}/content`);
    refused(answer, 500, { type: 'server_error' });
    assert.equal(answer.headers['x-should-retry'], 'false');
    assert.ok(!answer.text.includes('wrong'));
  });
});
