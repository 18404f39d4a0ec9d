// SPDX-License-Identifier: Apache-2.0
// /files and /uploads by hand: every purpose, forms in any order, expiry,
// lists, content; uploads in parts up to their ends.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { Glovebox } from '../../lib/glovebox.mjs';
import { accepted, Door, ID, refused } from '../../lib/openai.mjs';
import { stop } from '../../lib/wire.mjs';

const FILE = ['file', 'x', { filename: 'x.txt' }];

describe('openai, files', () => {
  let g, door;

  before(async () => {
    g = await Glovebox.start();
    door = new Door(g);
  });
  after(() => stop(g));

  test('the object has every required member and leaves absent ones out', async () => {
    const made = await door.file('hello', 'h.txt');
    assert.deepEqual(Object.keys(made).sort(), ['bytes', 'created_at', 'filename', 'id', 'object', 'purpose', 'status']);
    assert.match(made.id, ID.file);
    assert.ok(Math.abs(made.created_at - Date.now() / 1000) < 60);
    assert.deepEqual(accepted(await door.get(`/files/${made.id}`)), made);
  });

  for (const purpose of ['assistants', 'batch', 'fine-tune', 'vision', 'user_data', 'evals'])
    test(`purpose ${purpose} is taken, before or after the file`, async () => {
      for (const parts of [[['purpose', purpose], FILE], [FILE, ['purpose', purpose]]]) {
        const made = accepted(await door.send('/files', parts));
        assert.deepEqual([made.purpose, made.status, made.object], [purpose, 'processed', 'file']);
        assert.equal(made.expires_at, purpose === 'batch' ? made.created_at + 2_592_000 : undefined);
      }
    });

  test('a form says what is wrong with it', async () => {
    const P = ['purpose', 'user_data'];
    const anchor = ['expires_after[anchor]', 'created_at'], seconds = (n) => ['expires_after[seconds]', String(n)];
    const rows = [
      [[P], 'missing_required_parameter', 'file'],
      [[FILE], 'missing_required_parameter', 'purpose'],
      [[], 'missing_required_parameter', 'file'],
      [[FILE, ['purpose', 'assistants_output']], 'invalid_value', 'purpose'],
      [[FILE, P, P], 'invalid_value', 'purpose'],
      [[FILE, FILE, P], 'invalid_value', 'file'],
      [[FILE, P, ['colour', 'red']], 'unknown_parameter', 'colour'],
      [[FILE, P, anchor], 'missing_required_parameter', 'expires_after.seconds'],
      [[FILE, P, seconds(3600)], 'missing_required_parameter', 'expires_after.anchor'],
      [[FILE, P, ['expires_after[anchor]', 'last_active_at'], seconds(3600)], 'invalid_value', 'expires_after.anchor'],
      [[FILE, P, anchor, seconds(3599)], 'invalid_value', 'expires_after.seconds'],
      [[FILE, P, anchor, seconds(2592001)], 'invalid_value', 'expires_after.seconds'],
      [[FILE, P, anchor, seconds('soon')], 'invalid_type', 'expires_after.seconds'],
      [[['file', 'x', { filename: '..' }], P], 'invalid_value', 'file'],
    ];
    for (const [parts, code, param] of rows) refused(await door.send('/files', parts), 400, { code, param });
    refused(await door.post('/files', { purpose: 'user_data' }), 400, { message: /form/ });
    for (const n of [3600, 2592000]) {
      const made = accepted(await door.send('/files', [FILE, P, anchor, seconds(n)]));
      assert.equal(made.expires_at - made.created_at, n);
    }
  });

  test('content comes back as it went in, under its own name', async () => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    const made = await door.file(bytes, 'C:\\dir\\bytes ü.bin');
    assert.equal(made.filename, 'bytes ü.bin');
    const answer = await door.get(`/files/${made.id}/content`);
    assert.ok(answer.bytes.equals(bytes));
    assert.equal(answer.headers['content-type'], 'application/octet-stream');
    assert.match(answer.headers['content-disposition'], /^attachment; .*filename\*=UTF-8''bytes%20%C3%BC\.bin$/);
    const csv = accepted(await door.send('/files', [['purpose', 'user_data'], ['file', 'a,b', { filename: 't.csv', type: 'text/csv' }]]));
    assert.match((await door.get(`/files/${csv.id}/content`)).headers['content-type'], /^text\/csv/);
  });

  test('the same bytes and the same name are two files', async () => {
    const [a, b] = [await door.file('same', 'same'), await door.file('same', 'same')];
    assert.notEqual(a.id, b.id);
    accepted(await door.delete(`/files/${a.id}`));
    assert.equal((await door.get(`/files/${b.id}/content`)).text, 'same');
  });

  test('of one name at once, each is a file of its own', async () => {
    const made = await Promise.all(Array.from({ length: 12 }, (_, i) => door.file(`text ${i}`, 'at-once.txt')));
    assert.equal(new Set(made.map((f) => f.id)).size, 12);
    assert.deepEqual(await Promise.all(made.map(async (f) => (await door.get(`/files/${f.id}/content`)).text)), made.map((_, i) => `text ${i}`));
  });

  test('unknown and deleted files are named', async () => {
    const { id } = await door.file('x');
    assert.deepEqual(accepted(await door.delete(`/files/${id}`)), { id, object: 'file', deleted: true });
    for (const file of [id, 'file-x', 'file-0000000000000000000000', 'nonsense', `file-${'z'.repeat(22)}`])
      for (const [method, path] of [['GET', ''], ['GET', '/content'], ['DELETE', '']])
        refused(await door.call(method, `/files/${file}${path}`), 404, { param: 'id', message: `No such File object: ${file}` });
  });

  test('lists: by purpose, in both orders, page by page, to an unknown cursor', async () => {
    const made = [];
    for (let i = 0; i < 4; i++) made.push(accepted(await door.send('/files', [['purpose', 'evals'], ['file', `${i}`, { filename: `${i}` }]])).id);
    const list = async (query) => accepted(await door.get(`/files?${query}`));
    const ids = async (query) => (await list(query)).data.map((f) => f.id);
    assert.deepEqual((await ids('purpose=evals')).slice(0, 4), [...made].reverse());
    assert.deepEqual((await ids('purpose=evals&order=asc')).slice(-4), made);
    const page = await list('purpose=evals&limit=2');
    assert.deepEqual([page.data.length, page.has_more, page.first_id, page.last_id], [2, true, made[3], made[2]]);
    assert.deepEqual(await ids(`purpose=evals&limit=2&after=${page.last_id}`), [made[1], made[0]]);
    assert.equal((await ids('limit=0')).length, 1);
    assert.ok((await ids('limit=1000000')).length > 4);
    for (const after of ['string', 'file-0000000000000000000000'])
      assert.deepEqual(await list(`after=${after}`), { object: 'list', data: [], first_id: null, last_id: null, has_more: false });
    assert.deepEqual(await ids('purpose=nonsense'), []);
  });

  test('a library file is one file everywhere: by the native API under its own id', async () => {
    const { id } = await door.file('everywhere', 'e.txt');
    const { id: box } = await door.container({ file_ids: [id] });
    const [listed] = accepted(await door.get(`/containers/${box}/files`)).data;
    assert.equal((await g.call('GET', `/api/files/${listed.id.replace('cfile_', 'file_')}/content`)).text, 'everywhere');
    accepted(await door.delete(`/files/${id}`));
    assert.equal((await door.python(box, `print(open("${listed.path}").read())`)).stdout, 'everywhere\n', 'the container keeps what it has');
  });
});

describe('openai, uploads', () => {
  let g, door;
  const SPEC = { bytes: 6, filename: 'u.bin', mime_type: 'application/octet-stream', purpose: 'user_data' };
  const begin = async (extra) => accepted(await door.post('/uploads', { ...SPEC, ...extra }));
  const part = (id, data) => door.send(`/uploads/${id}/parts`, [['data', data, { filename: 'blob' }]]);

  before(async () => {
    g = await Glovebox.start();
    door = new Door(g);
  });
  after(() => stop(g));

  test('an empty file', async () => {
    const { id } = await begin({ bytes: 0, filename: 'empty.txt' });
    const { file } = accepted(await door.post(`/uploads/${id}/complete`, { part_ids: [] }));
    assert.equal(file.bytes, 0);
    assert.equal((await door.get(`/files/${file.id}/content`)).text, '');
  });

  test('a body says what is wrong with it', async () => {
    const rows = [
      [{ bytes: undefined }, 'missing_required_parameter', 'bytes'], [{ filename: undefined }, 'missing_required_parameter', 'filename'],
      [{ mime_type: undefined }, 'missing_required_parameter', 'mime_type'], [{ purpose: undefined }, 'missing_required_parameter', 'purpose'],
      [{ bytes: -1 }, 'invalid_value', 'bytes'], [{ bytes: 2 ** 33 + 1 }, 'invalid_value', 'bytes'], [{ bytes: '6' }, 'invalid_type', 'bytes'],
      [{ filename: '..' }, 'invalid_value', 'filename'], [{ purpose: 'x' }, 'invalid_value', 'purpose'], [{ parts: 1 }, 'unknown_parameter', 'parts'],
      [{ expires_after: { anchor: 'created_at', seconds: 1 } }, 'invalid_value', 'expires_after.seconds'],
    ];
    for (const [extra, code, param] of rows) refused(await door.post('/uploads', { ...SPEC, ...extra }), 400, { code, param });
    for (const purpose of ['assistants', 'batch', 'fine-tune', 'vision', 'user_data', 'evals']) assert.equal((await begin({ purpose })).purpose, purpose);
    assert.equal((await begin({ bytes: 2 ** 33 })).bytes, 2 ** 33);
  });

  test('the object, and that of a part', async () => {
    const upload = await begin();
    assert.deepEqual(Object.keys(upload).sort(), ['bytes', 'created_at', 'expires_at', 'filename', 'id', 'object', 'purpose', 'status']);
    assert.match(upload.id, ID.upload);
    const made = accepted(await part(upload.id, 'abc'));
    assert.deepEqual(Object.keys(made).sort(), ['created_at', 'id', 'object', 'upload_id']);
    assert.match(made.id, ID.part);
    assert.deepEqual([made.object, made.upload_id], ['upload.part', upload.id]);
  });

  test('its parts in any order, those not named left out, the file expiring as asked', async () => {
    const upload = await begin({ filename: 'dir/u.csv', mime_type: 'text/csv', expires_after: { anchor: 'created_at', seconds: 7200 } });
    const ids = {};
    for (const data of ['ef', 'never', 'ab', 'cd']) ids[data] = accepted(await part(upload.id, data)).id;
    refused(await door.post(`/uploads/${upload.id}/complete`, { part_ids: [ids.ab, ids.cd] }), 400);
    refused(await door.post(`/uploads/${upload.id}/complete`, { part_ids: [ids.ab, ids.cd, ids.never] }), 400);
    refused(await door.post(`/uploads/${upload.id}/complete`, { part_ids: [ids.ab, ids.ab, ids.ab] }), 400);
    refused(await door.post(`/uploads/${upload.id}/complete`, { part_ids: [ids.ab, ids.cd, ids.ef], md5: '0'.repeat(32) }), 400);
    refused(await door.post(`/uploads/${upload.id}/complete`, { part_ids: [ids.ab, ids.cd, ids.ef], md5: 'x'.repeat(32) }), 400, { code: 'invalid_value', param: 'md5' });
    refused(await door.post(`/uploads/${upload.id}/complete`, {}), 400, { code: 'missing_required_parameter', param: 'part_ids' });
    refused(await door.post(`/uploads/${upload.id}/complete`, { part_ids: [1] }), 400, { code: 'invalid_type', param: 'part_ids[0]' });
    const done = accepted(await door.post(`/uploads/${upload.id}/complete`,
      { part_ids: [ids.ab, ids.cd, ids.ef], md5: createHash('md5').update('abcdef').digest('hex').toUpperCase() }));
    assert.equal(done.status, 'completed');
    assert.deepEqual([done.file.filename, done.file.bytes, done.file.expires_at - done.file.created_at], ['u.csv', 6, 7200]);
    assert.equal((await door.get(`/files/${done.file.id}/content`)).text, 'abcdef');
    assert.match((await door.get(`/files/${done.file.id}/content`)).headers['content-type'], /^text\/csv/);
  });

  test('after its end it takes nothing, and says so for good', async () => {
    const ended = [];
    const completed = await begin();
    const { id } = accepted(await part(completed.id, 'abcdef'));
    accepted(await door.post(`/uploads/${completed.id}/complete`, { part_ids: [id] }));
    const cancelled = await begin();
    const gone = accepted(await door.call('POST', `/uploads/${cancelled.id}/cancel`, { headers: { 'content-length': '0' } }));
    assert.deepEqual([gone.id, gone.status, gone.file], [cancelled.id, 'cancelled', undefined]);
    for (const upload of [completed, cancelled]) {
      ended.push(await part(upload.id, 'x'), await door.post(`/uploads/${upload.id}/complete`, { part_ids: [id] }));
    }
    ended.push(await door.post(`/uploads/${completed.id}/cancel`));
    for (const answer of ended) {
      refused(answer, 409);
      assert.equal(answer.headers['x-should-retry'], 'false');
    }
  });

  test('unknown uploads and parts of another are not found', async () => {
    for (const [path, body] of [['parts', undefined], ['complete', { part_ids: ['part_x'] }], ['cancel', undefined]]) {
      const answer = path === 'parts' ? await part('upload_x', 'x') : await door.post(`/uploads/upload_x/${path}`, body);
      refused(answer, 404, { param: 'id', message: 'No such Upload object: upload_x' });
    }
    const [a, b] = [await begin(), await begin()];
    const { id } = accepted(await part(a.id, 'abcdef'));
    const answer = await door.post(`/uploads/${b.id}/complete`, { part_ids: [id] });
    assert.ok([400, 404].includes(answer.status), answer.text);
  });

  test('a part is one field named data', async () => {
    const { id } = await begin();
    const at = `/uploads/${id}/parts`;
    refused(await door.send(at, [['file', 'x', { filename: 'x' }]]), 400, { code: 'unknown_parameter', param: 'file' });
    refused(await door.send(at, [['data', 'x', { filename: 'x' }], ['data', 'y', { filename: 'y' }]]), 400, { code: 'invalid_value', param: 'data' });
    refused(await door.send(at, []), 400, { code: 'missing_required_parameter', param: 'data' });
    refused(await door.post(at, { data: 'x' }), 400);
    accepted(await door.send(at, [['data', 'no file name']]));
  });
});
