// SPDX-License-Identifier: Apache-2.0
// The Azure door: forms in each client's handwriting, and the size of them.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Pool, V2024_02, V2024_10, V2025_10, aiohttp, chunked, dotnet, refused, requests } from '../../lib/azure.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { descriptors, exchange, stop } from '../../lib/wire.mjs';

const MiB = 1 << 20;
let server;
let p;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 2 })] } });
  p = new Pool(server, { identifier: 'uploads-1' });
});
after(() => stop(server));

const ok = (answer, status = 200) => {
  assert.equal(answer.status, status, answer.text);
  return answer.body;
};
const send = (q, form, { path = 'files', headers = {}, query } = {}) =>
  q.call('POST', path, { query, body: form.body, headers: { 'content-type': form.type, ...headers } });
const text = async (q, name) => (await q.at(V2025_10).get(`files/${encodeURIComponent(name)}/content`)).text;

describe('dialects', () => {
  test('requests and undici: with and without a type of the part', async () => {
    assert.equal(ok(await send(p, requests([{ filename: 'r1.txt', bytes: 'one' }]))).name, 'r1.txt');
    assert.equal(ok(await send(p, requests([{ filename: 'r2.txt', bytes: 'two', type: 'text/plain' }]))).sizeInBytes, 3);
    assert.equal(await text(p, 'r2.txt'), 'two');
  });

  test('aiohttp: the type before the disposition', async () => {
    assert.equal(ok(await send(p, aiohttp([{ filename: 'aio.txt', bytes: 'aio' }]))).name, 'aio.txt');
    assert.equal(await text(p, 'aio.txt'), 'aio');
  });

  test('.NET: nothing quoted but the boundary, the name twice', async () => {
    assert.equal(ok(await send(p.at(V2024_10), dotnet([{ filename: 'net.txt', bytes: 'net' }]))).name, 'net.txt');
    assert.equal(await text(p, 'net.txt'), 'net');
    const made = ok(await send(p, dotnet([{ filename: 'naïve €.txt', ascii: '"=?utf-8?B?bmHDr3ZlIOKCrC50eHQ=?="', bytes: 'x' }])));
    assert.equal(made.name, 'naïve €.txt', 'the extended name wins');
  });

  test('names in raw UTF-8', async () => {
    assert.equal(ok(await send(p, requests([{ filename: 'größe.txt', bytes: 'x' }]))).name, 'größe.txt');
    assert.equal(await text(p, 'größe.txt'), 'x');
  });

  test('a length of its own or chunks, small and large', async () => {
    for (const size of [5, 300_000]) {
      const form = aiohttp([{ filename: 'chunks.bin', bytes: Buffer.alloc(size, 7) }]);
      const got = await exchange(server, Buffer.concat([Buffer.from(`POST ${p.url('files')} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${server.key}\r\n` +
        `Content-Type: ${form.type}\r\nTransfer-Encoding: chunked\r\n\r\n`), chunked(form.body, 777)]));
      assert.match(got, /^HTTP\/1\.1 200 /);
      assert.match(got, new RegExp(`"sizeInBytes":${size},`));
    }
  });

  test('a form that is called JSON, or nothing, is known by its first line', async () => {
    const form = requests([{ filename: 'called-json.txt', bytes: 'j' }]);
    for (const type of ['application/json', 'text/plain', 'multipart/form-data', 'application/json; charset=utf-8'])
      assert.equal(ok(await send(p.at(V2024_02), form, { path: 'files/upload', headers: { 'content-type': type } })).value[0].properties.filename, 'called-json.txt', type);
    const none = await p.call('POST', 'files', { body: form.body });
    assert.equal(ok(none).name, 'called-json.txt');
    const large = requests([{ filename: 'large-json.bin', bytes: Buffer.alloc(2 * MiB, 1) }]);
    assert.equal(ok(await send(p, large, { headers: { 'content-type': 'application/json' } })).sizeInBytes, 2 * MiB);
    for (const body of ['{"a":1}', '', '--', '-', 'x'.repeat(200)])
      refused(await p.call('POST', 'files', { body, headers: { 'content-type': 'application/json' } }), 400, 'SessionRequestValidationFailed', /form/);
  });

  test('other fields beside the file are let pass; several files are all taken', async () => {
    const form = requests([{ name: 'identifier', bytes: 'ignored' }, { filename: 'with-field.txt', bytes: 'f' }, { name: 'x', bytes: '' }]);
    assert.equal(ok(await send(p, form)).name, 'with-field.txt');
    const two = requests([{ filename: 'two-a.txt', bytes: 'aa' }, { name: 'file2', filename: 'two-b.txt', bytes: 'bbb' }]);
    assert.deepEqual(ok(await send(p.at(V2024_02), two, { path: 'files/upload' })).value.map((f) => [f.properties.filename, f.properties.size]), [['two-a.txt', 2], ['two-b.txt', 3]]);
    refused(await send(p, requests([{ name: 'file', bytes: 'no name' }])), 400, 'SessionRequestValidationFailed', /no file/);
    refused(await send(p, requests([{ filename: '', bytes: 'x' }])), 400, 'SessionRequestValidationFailed');
  });

  test('paths as names: the data root falls away, folders stay', async () => {
    assert.equal(ok(await send(p, requests([{ filename: '/mnt/data/rooted.txt', bytes: '1' }]))).name, 'rooted.txt');
    const nested = ok(await send(p.at(V2024_02), requests([{ filename: 'some/folder/nested.txt', bytes: '2' }]), { path: 'files/upload' }));
    assert.equal(nested.value[0].properties.filename, 'some/folder/nested.txt');
    assert.equal((await p.at(V2024_02).get('files/content/some/folder/nested.txt')).text, '2');
    const below = ok(await send(p, requests([{ filename: 'below.txt', bytes: '3' }]), { query: { path: '/mnt/data/given' } }));
    assert.deepEqual([below.name, below.directory], ['below.txt', '.']);
    assert.deepEqual(await p.names({ path: 'given' }), ['below.txt']);
    assert.equal(ok(await p.run("open('/mnt/data/given/below.txt').read()")).result.executionResult, 3 + '');
  });

  test('a name that is taken is written anew', async () => {
    ok(await p.upload('same.txt', 'first'));
    assert.equal(ok(await p.upload('same.txt', 'second!')).sizeInBytes, 7);
    assert.equal(await text(p, 'same.txt'), 'second!');
  });

  test('a form that is cut leaves nothing', async () => {
    const form = requests([{ filename: 'cut.txt', bytes: 'x'.repeat(1000) }]);
    refused(await p.call('POST', 'files', { body: form.body.subarray(0, 900), headers: { 'content-type': form.type } }), 400, 'SessionRequestValidationFailed', /form/);
    assert.ok(!(await p.names()).includes('cut.txt'));
  });
});

describe('128 MB', () => {
  // The whole body in one piece would be held twice; it is sent as it is made.
  const sized = (size) => requests([{ filename: 'big.bin', bytes: Buffer.alloc(size, 3) }]);

  test('a file of exactly 134217728 bytes is taken, and one less', async () => {
    assert.equal(ok(await send(p, sized(128 * MiB - 1))).sizeInBytes, 128 * MiB - 1);
    assert.equal(ok(await send(p, sized(128 * MiB))).sizeInBytes, 128 * MiB);
    assert.equal(ok(await p.run("import os; os.path.getsize('/mnt/data/big.bin')")).result.executionResult, 128 * MiB);
    assert.equal((await p.delete('files/big.bin')).status, 204);
  });

  test('one more is 413, by length and in chunks, and leaves nothing', async () => {
    const before = descriptors(server.pid);
    const form = sized(128 * MiB + 1);
    refused(await send(p, form), 413, 'RequestEntityTooLarge');
    const got = await exchange(server, Buffer.concat([Buffer.from(`POST ${p.url('files')} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${server.key}\r\n` +
      `Content-Type: ${form.type}\r\nTransfer-Encoding: chunked\r\n\r\n`), chunked(form.body, MiB)]), { ms: 60_000 });
    assert.match(got, /^HTTP\/1\.1 413 /);
    assert.ok(!(await p.names()).includes('big.bin'));
    assert.equal(ok(await p.run('1')).result.executionResult, 1);
    assert.ok(descriptors(server.pid) <= before + 3);
  });

  test('much more than that is 413 too', async () => {
    const { hostname, port } = new URL(server.url);
    const got = await exchange(server, `POST ${p.url('files')} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nConnection: close\r\nAuthorization: Bearer ${server.key}\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 9000000000\r\n\r\n`);
    assert.match(got, /^HTTP\/1\.1 413 /);
  });
});
