// SPDX-License-Identifier: Apache-2.0
// Uploads in parts: large files, in any order, again after a break, checked
// by size and hash; and a large one with the daemon's memory flat.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { Glovebox } from '../../lib/glovebox.mjs';
import { refused, request, resident, sanitized, stop } from '../../lib/wire.mjs';
import { Workspace, sha256, unknownId } from '../../lib/workspace.mjs';

const MiB = 1024 * 1024;
let server;
let w;

before(async () => {
  server = await Glovebox.start({ config: { upload_bytes: '4MiB', file_bytes: '64MiB' } });
  w = await Workspace.create(server);
});
after(() => stop(server));

const begin = (body) => w.call('POST', '/uploads', { body });
const part = (u, n, body, headers) => request(server, 'PUT', `/api/uploads/${u.id}/parts/${n}`, { body, headers });
const complete = (u, body, headers) => request(server, 'POST', `/api/uploads/${u.id}/complete`, { body, headers });
const look = (u) => request(server, 'GET', `/api/uploads/${u.id}`);

describe('in parts', () => {
  test('in any order, one of them again, then whole', async () => {
    const bytes = randomBytes(9 * MiB + 5);
    const u = (await begin({ path: 'big/file.bin', size: bytes.length })).body;
    assert.deepEqual(Object.keys(u), ['id', 'workspace', 'path', 'size', 'part_bytes', 'created_at', 'expires_at', 'parts']);
    assert.deepEqual([u.workspace, u.path, u.size, u.part_bytes, u.parts], [w.id, 'big/file.bin', bytes.length, 4 * MiB, []]);
    const piece = (n) => bytes.subarray((n - 1) * 4 * MiB, n * 4 * MiB);
    const third = await part(u, 3, piece(3), { 'x-content-sha256': sha256(piece(3)) });
    assert.deepEqual([third.status, third.body], [200, { number: 3, size: MiB + 5, sha256: sha256(piece(3)) }]);
    await part(u, 1, 'wrong at first');
    await part(u, 1, piece(1));
    assert.deepEqual((await look(u)).body.parts.map((p) => p.number), [1, 3], 'what is there can be asked, to go on');
    refused(await complete(u), 400, 'invalid_request', /2/);
    await part(u, 2, piece(2));
    assert.deepEqual(await w.paths(), [], 'nothing is there before the end');
    const made = await complete(u, { sha256: sha256(bytes), conversation: 'c', message: 'm', note: 'n' });
    assert.equal(made.status, 201, made.text);
    assert.deepEqual([made.body.path, made.body.size, made.body.sha256, made.body.change], ['big/file.bin', bytes.length, sha256(bytes), 'created']);
    assert.equal(sha256((await w.get('big/file.bin')).bytes), sha256(bytes));
    const [v] = (await w.history()).data;
    assert.deepEqual([v.conversation, v.message, v.note], ['c', 'm', 'n']);
    refused(await look(u), 404, 'not_found');
    refused(await complete(u), 404, 'not_found');
    await w.delete('big', '?recursive=true');
  });

  test('wrong bytes are refused: of a part, of the whole, of the declared size', async () => {
    const u = (await begin({ path: 'x', size: 6 })).body;
    refused(await part(u, 1, 'abc', { 'x-content-sha256': sha256('abd') }), 400, 'invalid_request', /again/);
    assert.deepEqual((await look(u)).body.parts, []);
    assert.equal((await part(u, 1, 'abc', { 'x-content-sha256': sha256('abc').toUpperCase() })).status, 200);
    assert.ok([400, 409].includes((await complete(u)).status), 'three bytes are not six');
    await part(u, 2, 'def');
    assert.ok([400, 409].includes((await complete(u, { sha256: sha256('other') })).status));
    refused(await complete(u, { sha256: 'short' }), 400);
    assert.deepEqual(await w.paths(), []);
    assert.equal((await complete(u, { sha256: sha256('abcdef') })).status, 201);
    await w.delete('x');
  });

  test('conditions and locks count at the end', async () => {
    await w.write('held', 'old');
    const { version } = await w.ok('GET', '/info/held');
    const u = (await begin({ path: 'held' })).body;
    assert.equal(u.size, null);
    await part(u, 1, 'new');
    refused(await complete(u, {}, { 'if-none-match': '*' }), 412, 'precondition_failed');
    refused(await complete(u, {}, { 'if-match': `"${sha256('x')}"` }), 412, 'precondition_failed');
    assert.equal((await complete(u, {}, { 'if-match': version })).status, 200, 'what was refused can be tried again');
    assert.equal((await w.get('held')).text, 'new');
    await w.delete('held');
  });

  test('one that is given up is gone', async () => {
    const u = (await begin({ path: 'never' })).body;
    await part(u, 1, 'x');
    assert.equal((await request(server, 'DELETE', `/api/uploads/${u.id}`)).status, 204);
    for (const answer of [await look(u), await part(u, 1, 'x'), await complete(u), await request(server, 'DELETE', `/api/uploads/${u.id}`)]) refused(answer, 404, 'not_found');
  });

  test('H3 limits: numbers, sizes, fields', async () => {
    const u = (await begin({ path: 'limits' })).body;
    for (const n of [1, 10_000]) assert.equal((await part(u, n, 'x')).status, 200);
    for (const n of [0, 10_001, 'x', '-1', '1x', '99999999999999999999']) refused(await part(u, n, 'x'), 400);
    assert.equal((await part(u, 2, Buffer.alloc(4 * MiB))).status, 200);
    refused(await part(u, 2, Buffer.alloc(4 * MiB + 1)), 413, 'too_large');
    for (const body of [{}, { path: '' }, { path: '../x' }, { path: 'a', size: -1 }, { path: 'a', sise: 1 }]) refused(await begin(body), 400);
    assert.equal((await begin({ path: 'a', size: 64 * MiB })).status, 201);
    refused(await begin({ path: 'a', size: 64 * MiB + 1 }), 413, 'too_large');
    refused(await complete({ id: unknownId('up') }), 404, 'not_found');
    await request(server, 'DELETE', `/api/uploads/${u.id}`);
  });

  test('an empty file is a file', async () => {
    const u = (await begin({ path: 'empty', size: 0 })).body;
    const made = await complete(u);
    assert.ok(made.status === 201 ? made.body.size === 0 : [400, 409].includes(made.status), made.text);
  });
});

test('D1 an upload goes on after a restart', async () => {
  const u = (await begin({ path: 'resumed' })).body;
  await part(u, 1, 'before ');
  await server.stop({ keep: true });
  server = await Glovebox.start({ dir: server.dir, config: { upload_bytes: '4MiB', file_bytes: '64MiB' } });
  w.server = server;
  assert.deepEqual((await look(u)).body.parts.map((p) => p.number), [1]);
  await part(u, 2, 'and after');
  assert.equal((await complete(u)).status, 201);
  assert.equal((await w.get('resumed')).text, 'before and after');
});

test('memory stays flat while a large file comes and goes', async () => {
  const u = (await begin({ path: 'large', size: 60 * MiB })).body;
  await part(u, 1, Buffer.alloc(4 * MiB, 1));
  const before = resident(server.pid);
  let most = before;
  const timer = setInterval(() => { most = Math.max(most, resident(server.pid)); }, 20);
  for (let i = 1; i <= 15; i++) await part(u, i, Buffer.alloc(4 * MiB, i));
  assert.equal((await complete(u)).status, 201);
  assert.equal((await w.get('large')).bytes.length, 60 * MiB);
  clearInterval(timer);
  if (!sanitized) assert.ok(most - before < 16 * MiB, `${(most - before) / MiB} MiB`);
});
