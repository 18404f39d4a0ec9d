// SPDX-License-Identifier: Apache-2.0
// Files of a workspace through the API: put, fetch, list, move, copy, delete,
// forms with several files, archives; preconditions and every limit.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, readdirSync, readlinkSync, rmSync, statSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, sleep, until } from '../../lib/glovebox.mjs';
import { refused, request, resident, sanitized, stop } from '../../lib/wire.mjs';
import { Workspace, form, sha256, unknownId } from '../../lib/workspace.mjs';

const MiB = 1024 * 1024;
let server;
let ws;

before(async () => {
  server = await Glovebox.start({ config: { upload_bytes: '40MiB', body_timeout_s: 2 } });
  ws = await Workspace.create(server, { name: 'files' });
});
after(() => stop(server));

const fresh = () => Workspace.create(server);
const FILE = ['type', 'path', 'workspace', 'file_id', 'version', 'number', 'size', 'sha256', 'mime_type', 'executable', 'modified_at', 'url', 'sandbox_path'];

describe('plain use', () => {
  test('put, fetch, look, list and delete', async () => {
    const bytes = Buffer.from([0, 1, 2, 255, 10, 13]);
    const made = await ws.put('a/b/data.bin', bytes);
    assert.equal(made.status, 201);
    assert.deepEqual(Object.keys(made.body), [...FILE, 'commit', 'change']);
    const f = made.body;
    assert.deepEqual([f.path, f.size, f.sha256, f.number, f.change, f.workspace], ['a/b/data.bin', 6, sha256(bytes), 1, 'created', ws.id]);
    assert.deepEqual([f.url, f.sandbox_path], [`${server.url}/api/files/${f.file_id}/content?version=${f.version}`, 'sandbox:/mnt/data/a/b/data.bin']);
    assert.equal(made.headers.etag, `"${f.sha256}"`);
    const got = await ws.get('a/b/data.bin');
    assert.deepEqual(got.bytes, bytes);
    assert.equal(got.headers.etag, `"${f.sha256}"`);
    assert.deepEqual([got.headers['x-glovebox-file'], got.headers['x-glovebox-version']], [f.file_id, f.version]);
    assert.ok(Math.abs(Date.parse(got.headers['last-modified']) - Date.now()) < 60_000);
    const info = await ws.ok('GET', '/info/a/b/data.bin');
    assert.deepEqual(Object.keys(info), FILE);
    const { commit, change, ...same } = f;
    assert.deepEqual(info, same, `${commit} ${change}`);
    assert.deepEqual((await request(server, 'GET', `/api/files/${f.file_id}`)).body, info);
    assert.deepEqual((await request(server, 'GET', `/api/files/${f.file_id}/content`)).bytes, bytes);
    const listed = await ws.list();
    assert.deepEqual(listed, { data: [info], has_more: false });
    const gone = await ws.delete('a/b/data.bin');
    assert.equal(gone.status, 200);
    assert.match(gone.body.commit, /^cmt_/);
    assert.deepEqual(gone.body.changes.map((c) => [c.path, c.change]), [['a/b/data.bin', 'deleted']]);
    refused(await ws.get('a/b/data.bin'), 404, 'not_found');
    refused(await ws.delete('a/b/data.bin'), 404, 'not_found');
    assert.deepEqual((await ws.list()).data, []);
  });

  test('replacing makes a version of the same file; the same bytes make none', async () => {
    const first = await ws.write('r.txt', 'one');
    const second = await ws.put('r.txt', 'two');
    assert.equal(second.status, 200);
    assert.deepEqual([second.body.file_id, second.body.number, second.body.change], [first.file_id, 2, 'modified']);
    assert.notEqual(second.body.version, first.version);
    const same = await ws.put('r.txt', 'two');
    assert.deepEqual([same.status, same.body.version, same.body.change, same.body.commit], [200, second.body.version, 'unchanged', null]);
    assert.equal((await ws.get('r.txt', {}, `?version=${first.version}`)).text, 'one');
    assert.equal((await request(server, 'GET', first.url)).text, 'one', 'its address stays');
    refused(await ws.get('r.txt', {}, `?version=${unknownId('ver')}`), 404, 'not_found');
    await ws.delete('r.txt');
    assert.equal((await request(server, 'GET', first.url)).text, 'one', 'a deleted file\'s versions too');
    const back = await ws.put('r.txt', 'three');
    assert.equal(back.status, 201);
    await ws.delete('r.txt');
  });

  test('files and folders do not mix', async () => {
    await ws.write('dir/x', '1');
    refused(await ws.put('dir', 'x'), 409, 'conflict', /folder/);
    refused(await ws.put('dir/x/y', 'x'), 409, 'conflict', /file/);
    refused(await ws.delete('dir'), 409, 'conflict', /recursive/);
    assert.equal((await ws.delete('dir', '?recursive=true')).body.changes.length, 1);
    refused(await ws.delete('dir', '?recursive=true'), 404, 'not_found');
    refused(await ws.delete('dir', '?recursive=1'), 400);
  });

  test('F5 names of every script are kept; those that break the rules are refused', async () => {
    const good = ['mit Leerzeichen.txt', 'ünïcödé', '数据.csv', '😀', 'a+b&c=d;e,f', '100%', 'q?x#y', "quote'\"", 'back\\slash', '.hidden', '...', '-rf', '~',
      'x'.repeat(255), Array(32).fill('d').join('/'), `${`${'p'.repeat(254)}/`.repeat(4)}`.slice(0, 1020) + 'tail'];
    for (const name of good) {
      const made = await ws.put(name, name);
      assert.equal(made.status, 201, `${name} ${made.text}`);
      assert.equal(made.body.path, name);
      assert.equal((await ws.get(name)).text, name);
    }
    assert.equal((await ws.list()).data.length, good.length);
    const at = (raw) => request(server, 'PUT', `${ws.path}/files/${raw}`, { body: 'x' });
    for (const raw of ['..', 'a/../b', 'a/./b', 'a//b', 'a/', '%2e%2e/x', '%2Fetc', 'a%00b', 'a%0Ab', 'a%7Fb', '%ff', 'x'.repeat(256), Array(33).fill('d').join('/'), `${'y'.repeat(250)}/`.repeat(4) + 'z'.repeat(21)])
      refused(await at(raw), 400, 'invalid_request');
    for (const name of good) await ws.delete(name);
  });

  test('media types: what was said counts, what clients say unasked does not', async () => {
    const type = async (name, header) => (await ws.write(name, `${name}${header}`, header ? { 'content-type': header } : {})).mime_type;
    assert.equal(await type('a.csv'), 'text/csv');
    assert.equal(await type('a.csv', 'text/plain;charset=UTF-8'), 'text/csv');
    assert.equal(await type('a.csv', 'application/x-www-form-urlencoded'), 'text/csv');
    assert.equal(await type('a.csv', 'application/octet-stream'), 'text/csv');
    assert.equal(await type('plain', 'Image/PNG; x=y'), 'image/png');
    assert.equal(await type('plain', 'nonsense'), 'application/octet-stream');
    assert.equal(await type('plain', 'a/b/c'), 'application/octet-stream');
    assert.equal(await type('plain', `x/${'y'.repeat(200)}`), 'application/octet-stream');
    assert.equal(await type('page.html'), 'text/html');
    await ws.delete('a.csv');
    await ws.delete('plain');
    await ws.delete('page.html');
  });

  test('of one new path at once, the last write wins and all are in the history', async () => {
    const w = await fresh();
    const texts = Array.from({ length: 10 }, (_, i) => `text ${i}`);
    const made = await Promise.all(texts.map((text) => w.put('at-once.txt', text)));
    assert.deepEqual(made.map((m) => m.status).sort(), [...Array(9).fill(200), 201], 'one made it');
    assert.equal(new Set(made.map((m) => m.body.file_id)).size, 1);
    const { data } = await w.history('?path=at-once.txt');
    assert.deepEqual(data.map((h) => h.sha256).sort(), texts.map((t) => sha256(t)).sort());
    const last = made.find((m) => m.body.number === 10);
    assert.equal((await w.get('at-once.txt')).text, texts[made.indexOf(last)]);
  });

  test('a program stays one', async () => {
    const made = await ws.write('run.sh', '#!/bin/sh\necho ran\n', {}, '?executable=true');
    assert.equal(made.executable, true);
    const session = await server.session({ workspace: ws.id });
    assert.equal((await session.shell('/mnt/data/run.sh')).stdout, 'ran\n');
    await session.delete();
    await ws.delete('run.sh');
  });

  test('a program stays one when it is replaced, copied, moved and restored, unless it is said not to be', async () => {
    const w = await fresh();
    const bits = () => w.list().then((l) => Object.fromEntries(l.data.map((f) => [f.path, f.executable])));
    const first = await w.write('run.sh', '#!/bin/sh\necho 1\n', {}, '?executable=true');
    assert.equal((await w.write('run.sh', '#!/bin/sh\necho 2\n')).executable, true, 'unsaid: as it was');
    await w.ok('POST', '/copy', { body: { from: 'run.sh', to: 'd/copy.sh' } });
    await w.ok('POST', '/move', { body: { from: 'd/copy.sh', to: 'd/moved.sh' } });
    const up = await w.ok('POST', '/uploads', { body: { path: 'd/moved.sh' } });
    assert.equal((await request(server, 'PUT', `/api/uploads/${up.id}/parts/1`, { body: '#!/bin/sh\necho 3\n' })).status, 200);
    assert.equal((await request(server, 'POST', `/api/uploads/${up.id}/complete`, { body: {} })).body.executable, true, 'in parts too');
    const other = await w.ok('POST', '/uploads', { body: { path: 'parts.sh' } });
    await request(server, 'PUT', `/api/uploads/${other.id}/parts/1`, { body: '#!/bin/sh\necho 4\n' });
    await request(server, 'POST', `/api/uploads/${other.id}/complete`, { body: { executable: true } });
    await w.write('plain', 'x');
    assert.deepEqual(await bits(), { 'd/moved.sh': true, 'parts.sh': true, plain: false, 'run.sh': true });
    assert.equal((await w.write('run.sh', '#!/bin/sh\necho 5\n', {}, '?executable=false')).executable, false);
    await w.ok('POST', '/restore', { body: { version: first.version } });
    assert.equal((await bits())['run.sh'], true, 'restored');
    await w.delete('run.sh');
    assert.equal((await w.write('run.sh', 'new')).executable, false, 'a new file is a plain one');
  });
});

describe('lists', () => {
  let w;

  before(async () => {
    w = await fresh();
    for (const name of ['a', 'b/1', 'b/2', 'b/c/3', 'b.txt', 'z/9']) await w.write(name, name);
  });

  test('by prefix, by level, in pages', async () => {
    assert.deepEqual(await w.paths(), ['a', 'b.txt', 'b/1', 'b/2', 'b/c/3', 'z/9']);
    assert.deepEqual(await w.paths('?prefix=b'), ['b.txt', 'b/1', 'b/2', 'b/c/3']);
    assert.deepEqual(await w.paths('?prefix=b/'), ['b/1', 'b/2', 'b/c/3']);
    const level = (await w.list('?delimiter=/')).data;
    assert.deepEqual(level.map((e) => [e.type, e.path]), [['file', 'a'], ['file', 'b.txt'], ['folder', 'b/'], ['folder', 'z/']]);
    assert.deepEqual(Object.keys(level[2]), ['type', 'path']);
    assert.deepEqual(await w.paths('?delimiter=/&prefix=b/'), ['b/1', 'b/2', 'b/c/']);
    for (const query of ['', '&delimiter=/', '&prefix=b']) {
      const seen = [];
      for (let more = true; more;) {
        const page = await w.list(`?limit=2${query}${seen.length ? `&after=${encodeURIComponent(seen.at(-1))}` : ''}`);
        assert.ok(page.data.length <= 2);
        seen.push(...page.data.map((f) => f.path));
        more = page.has_more;
      }
      assert.deepEqual(seen, await w.paths(`?limit=1000${query}`), query);
    }
    for (const bad of ['limit=0', 'limit=1001', 'delimiter=-', 'delimiter=', `commit=${unknownId('cmt')}`, 'recursive=true'])
      assert.ok([400, 404].includes((await w.call('GET', `/files?${bad}`)).status), bad);
  });

  test('as of a commit', async () => {
    const v = await fresh();
    const one = await v.write('x', '1');
    await v.write('y', '2');
    await v.delete('x');
    assert.deepEqual(await v.paths(), ['y']);
    assert.deepEqual(await v.paths(`?commit=${one.commit}`), ['x']);
    refused(await v.call('GET', `/files?commit=${(await w.history()).data[0].commit}`), 404, 'not_found');
  });
});

describe('preconditions', () => {
  test('If-Match: the tag, the version or a star', async () => {
    const w = await fresh();
    const one = await w.write('f', 'one');
    assert.equal((await w.put('f', 'two', { 'if-match': `"${one.sha256}"` })).status, 200);
    const now = await w.ok('GET', '/info/f');
    refused(await w.put('f', 'three', { 'if-match': `"${one.sha256}"` }), 412, 'precondition_failed', new RegExp(now.version));
    refused(await w.put('f', 'three', { 'if-match': one.version }), 412, 'precondition_failed');
    refused(await w.delete('f', '', { 'if-match': one.version }), 412, 'precondition_failed');
    refused(await w.put('f', 'three', { 'if-match': `W/"${now.sha256}"` }), 412, 'precondition_failed');
    refused(await w.put('f', 'three', { 'if-match': `"x", "${now.sha256}"` }), 400);
    refused(await w.put('f', 'three', { 'if-match': '""' }), 400);
    assert.equal((await w.get('f')).text, 'two', 'nothing changed');
    assert.equal((await w.put('f', 'three', { 'if-match': now.version })).status, 200);
    assert.equal((await w.put('f', 'four', { 'if-match': '*' })).status, 200);
    refused(await w.put('none', 'x', { 'if-match': '*' }), 412, 'precondition_failed');
    assert.equal((await w.delete('f', '', { 'if-match': '*' })).status, 200);
  });

  test('If-None-Match: * makes only what is not there', async () => {
    const w = await fresh();
    assert.equal((await w.put('f', 'one', { 'if-none-match': '*' })).status, 201);
    refused(await w.put('f', 'two', { 'if-none-match': '*' }), 412, 'precondition_failed');
    refused(await w.put('f', 'two', { 'if-none-match': '"x"' }), 400);
    assert.equal((await w.get('f')).text, 'one');
  });

  test('of many writers with the same tag, one wins', async () => {
    const w = await fresh();
    const one = await w.write('f', 'start');
    const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => w.put('f', `writer ${i}`, { 'if-match': `"${one.sha256}"` })));
    assert.deepEqual(answers.map((a) => a.status).sort(), [200, ...Array(11).fill(412)]);
    const winner = answers.findIndex((a) => a.status === 200);
    assert.equal((await w.get('f')).text, `writer ${winner}`);
    const made = await Promise.all(Array.from({ length: 12 }, (_, i) => w.put('new', `maker ${i}`, { 'if-none-match': '*' })));
    assert.deepEqual(made.map((a) => a.status).sort(), [201, ...Array(11).fill(412)]);
  });
});

describe('downloads', () => {
  const text = '0123456789';

  before(() => ws.write('t.txt', text));

  test('ranges, tags and HEAD', async () => {
    const { etag } = (await ws.get('t.txt')).headers;
    for (const [range, want, shown] of [['bytes=0-0', '0', '0-0'], ['bytes=7-', '789', '7-9'], ['bytes=-2', '89', '8-9'], ['bytes=5-500', '56789', '5-9']]) {
      const got = await ws.get('t.txt', { range });
      assert.deepEqual([got.status, got.text, got.headers['content-range'], got.headers['content-length']], [206, want, `bytes ${shown}/10`, String(want.length)]);
    }
    const bad = await ws.get('t.txt', { range: 'bytes=10-' });
    refused(bad, 416, 'range_not_satisfiable');
    assert.equal(bad.headers['content-range'], 'bytes */10');
    for (const header of [etag, `"other", ${etag}`, '*', `W/${etag}`]) {
      const got = await ws.get('t.txt', { 'if-none-match': header });
      assert.deepEqual([got.status, got.bytes.length, got.headers.etag], [304, 0, etag]);
    }
    assert.equal((await ws.get('t.txt', { range: 'bytes=0-0', 'if-range': etag })).status, 206);
    assert.equal((await ws.get('t.txt', { range: 'bytes=0-0', 'if-range': '"other"' })).status, 200);
    const head = await ws.call('HEAD', '/files/t.txt');
    const got = await ws.get('t.txt');
    assert.deepEqual([head.status, head.bytes.length], [200, 0]);
    for (const name of ['content-length', 'etag', 'content-type', 'content-disposition', 'accept-ranges', 'last-modified', 'x-glovebox-version']) assert.equal(head.headers[name], got.headers[name], name);
    assert.equal((await ws.call('HEAD', '/files/none')).status, 404);
    await ws.write('empty', '');
    assert.deepEqual([(await ws.get('empty')).status, (await ws.get('empty')).bytes.length], [200, 0]);
  });

  test('F8 whatever it is called and said to be, it is inert in a browser', async () => {
    const page = '<!doctype html><script>alert(1)</script>';
    for (const [name, type] of [['x.html'], ['x.svg'], ['x.js'], ['x'], ['x.png'], ['y', 'text/html'], ['y.txt', 'text/html'], ['z', 'image/svg+xml'], ['w', 'application/xhtml+xml'], ['v', 'text/javascript']]) {
      const f = await ws.write(name, `${page}${name}${type}`, type ? { 'content-type': type } : {});
      for (const path of [`${ws.path}/files/${name}`, f.url, `/api/files/${f.file_id}/content`]) {
        const { headers } = await request(server, 'GET', path);
        assert.match(headers['content-disposition'], /^attachment; /, name);
        assert.equal(headers['x-content-type-options'], 'nosniff');
        assert.match(headers['content-security-policy'], /^sandbox;.*default-src 'none'/);
        assert.doesNotMatch(headers['content-type'], /html|svg|xml|javascript/, name);
      }
      await ws.delete(name);
    }
  });
});

describe('move and copy', () => {
  test('a file, a folder; ids go along with a move and are new for a copy', async () => {
    const w = await fresh();
    const f = await w.write('a/x', '1');
    await w.write('a/y', '2');
    const moved = await w.ok('POST', '/move', { body: { from: 'a', to: 'b/c' } });
    assert.deepEqual(moved.changes.map((c) => [c.change, c.from, c.path]).sort(), [['renamed', 'a/x', 'b/c/x'], ['renamed', 'a/y', 'b/c/y']]);
    assert.equal((await w.ok('GET', '/info/b/c/x')).file_id, f.file_id);
    assert.equal((await request(server, 'GET', `/api/files/${f.file_id}`)).body.path, 'b/c/x');
    const copied = await w.ok('POST', '/copy', { body: { from: 'b/c/x', to: 'copy' } });
    assert.equal(copied.changes[0].change, 'copied');
    const c = await w.ok('GET', '/info/copy');
    assert.notEqual(c.file_id, f.file_id);
    assert.equal(c.sha256, f.sha256);
    assert.deepEqual(await w.paths(), ['b/c/x', 'b/c/y', 'copy']);
  });

  test('what is in the way, missing or malformed', async () => {
    const w = await fresh();
    await w.write('a', '1');
    await w.write('b', '2');
    await w.write('d/x', '3');
    const move = (from, to, headers) => w.call('POST', '/move', { body: { from, to }, headers });
    refused(await move('none', 'c'), 404, 'not_found');
    refused(await move('a', 'd'), 409, 'conflict');
    refused(await move('a', 'a'), 400);
    refused(await move('d', 'd/e'), 400);
    refused(await move('a', '../x'), 400, 'invalid_request', /to/);
    refused(await move('/a', 'x'), 400, 'invalid_request', /from/);
    refused(await move('a', 'b', { 'if-none-match': '*' }), 412, 'precondition_failed');
    refused(await w.call('POST', '/copy', { body: { from: 'a', to: 'b' }, headers: { 'if-none-match': '*' } }), 412, 'precondition_failed');
    for (const body of [{}, { from: 'a' }, { to: 'a' }, { from: 'a', to: 'x', too: 1 }, { from: 1, to: 'x' }]) refused(await w.call('POST', '/copy', { body }), 400);
    assert.deepEqual(await w.paths(), ['a', 'b', 'd/x'], 'nothing moved');
    assert.equal((await move('a', 'b')).status, 200);
    assert.equal((await w.get('b')).text, '1', 'replaced, and the one before is in the history');
  });
});

describe('forms', () => {
  test('several files at once are one commit', async () => {
    const w = await fresh();
    const made = await w.call('POST', '/files', form([{ filename: 'a.txt', body: 'one' }, { filename: 'd/b.csv', type: 'text/plain', body: 'x,y' }, { filename: 'bin', type: 'image/png', body: randomBytes(100_000) }, { filename: 'empty', body: '' }]));
    assert.equal(made.status, 201, made.text);
    assert.deepEqual(made.body.changes.map((c) => [c.path, c.mime_type, c.size]).sort(), [['a.txt', 'text/plain', 3], ['bin', 'image/png', 100_000], ['d/b.csv', 'text/csv', 3], ['empty', 'application/octet-stream', 0]]);
    assert.equal((await w.info()).commits, 1);
    const below = await w.call('POST', '/files?folder=in/here', form([{ filename: 'z', body: 'z' }, { filename: 'ü/☃', body: 's' }]));
    assert.deepEqual(below.body.changes.map((c) => c.path).sort(), ['in/here/z', 'in/here/ü/☃']);
    assert.equal((await w.get('in/here/z')).text, 'z');
  });

  test('fetch\'s own FormData', async () => {
    const w = await fresh();
    const data = new FormData();
    data.append('files', new Blob(['hello'], { type: 'text/markdown' }), 'read me.md');
    data.append('files', new Blob(['q']), 'quo"te');
    const made = await fetch(`${server.url}${w.path}/files`, { method: 'POST', body: data, headers: { authorization: `Bearer ${server.key}` } });
    assert.equal(made.status, 201);
    assert.deepEqual(await w.paths(), ['quo"te', 'read me.md']);
  });

  test('H3 all of it or none: malformed, too many, too long, twice', async () => {
    const w = await fresh();
    const post = (f) => w.call('POST', '/files', f);
    const many = (n) => form(Array.from({ length: n }, (_, i) => ({ filename: `n${i}`, body: 'x' })));
    assert.equal((await post(many(64))).status, 201);
    const v = await fresh();
    const to = (f, query = '') => v.call('POST', `/files${query}`, f);
    refused(await to(many(65)), 400, 'invalid_request', /64/);
    refused(await to(form([{ filename: 'a', body: '1' }, { filename: 'a', body: '2' }])), 400, 'invalid_request', /twice/);
    refused(await to(form([{ filename: 'a', body: '1' }, { filename: '../b', body: '2' }])), 400);
    refused(await to(form([{ filename: 'a', body: '1' }, { filename: '', body: '2' }])), 400);
    refused(await to(form([{ filename: 'a', body: '1' }, { name: 'comment', body: '2' }])), 400, 'invalid_request', /comment/);
    refused(await to(form([])), 400);
    refused(await to(form([{ filename: 'a', body: 'x' }]), '?folder=..'), 400);
    refused(await to(form([{ filename: 'a', body: 'x' }]), '?folder=/'), 400);
    refused(await to({ body: 'x', headers: { 'content-type': 'text/plain' } }), 400, 'invalid_request', /multipart/);
    refused(await to({ ...form([{ filename: 'a', body: 'x' }]), headers: { 'content-type': 'multipart/form-data' } }), 400, 'invalid_request', /boundary/);
    const { body, headers } = form([{ filename: 'a', body: 'x'.repeat(1000) }]);
    refused(await to({ body: body.subarray(0, 900), headers }), 400, 'invalid_request', /middle/);
    for (const [n, status] of [[69, 201], [70, 201], [71, 400]]) assert.equal((await (await fresh()).call('POST', '/files', form([{ filename: 'a', body: 'x' }], 'b'.repeat(n)))).status, status);
    const head = (n) => { const h = 'Content-Disposition: form-data; name="f"; filename="a"\r\nX: '; return h + 'y'.repeat(n - h.length); };
    for (const [n, status] of [[8191, 201], [8192, 201], [8193, 400]]) assert.equal((await (await fresh()).call('POST', '/files', form([{ head: head(n), body: 'x' }]))).status, status);
    assert.deepEqual(await v.paths(), [], 'nothing of a refused form stays');
  });
});

describe('archives', () => {
  const unzip = (bytes) => {
    const dir = mkdtempSync(join(tmpdir(), 'glovebox-zip-'));
    writeFileSync(join(dir, 'a.zip'), bytes);
    const done = spawnSync('/usr/bin/python3', ['-c', `
import sys, zipfile, json, hashlib
z = zipfile.ZipFile(sys.argv[1])
assert z.testzip() is None
print(json.dumps({i.filename: hashlib.sha256(z.read(i)).hexdigest() for i in z.infolist() if not i.is_dir()}))`, join(dir, 'a.zip')], { encoding: 'utf8' });
    rmSync(dir, { recursive: true });
    assert.equal(done.status, 0, done.stderr);
    return JSON.parse(done.stdout);
  };

  test('a zip of a folder or of everything, streamed', async () => {
    const w = await fresh();
    const files = { 'a.txt': Buffer.from('one'), 'd/ü 😀.csv': Buffer.from('x,y\n'), 'd/e/big': randomBytes(3 * MiB), 'd/empty': Buffer.alloc(0) };
    for (const [name, bytes] of Object.entries(files)) await w.write(name, bytes);
    const got = await w.call('GET', '/archive');
    assert.equal(got.status, 200);
    assert.equal(got.headers['content-type'], 'application/zip');
    assert.match(got.headers['content-disposition'], /^attachment; filename="ws_/);
    assert.match(got.headers['content-security-policy'], /sandbox/);
    assert.equal(got.headers['content-length'], undefined);
    assert.deepEqual(unzip(got.bytes), Object.fromEntries(Object.entries(files).map(([n, b]) => [n, sha256(b)])));
    const part = await w.call('GET', '/archive?prefix=d/');
    assert.match(part.headers['content-disposition'], /filename="d\.zip"/);
    assert.deepEqual(Object.values(unzip(part.bytes)).sort(), Object.entries(files).filter(([n]) => n.startsWith('d/')).map(([, b]) => sha256(b)).sort());
    const head = await w.call('HEAD', '/archive');
    assert.deepEqual([head.status, head.headers['content-type'], head.bytes.length], [200, 'application/zip', 0]);
    assert.equal((await (await fresh()).call('GET', '/archive')).status, 200, 'an empty one is a zip too');
  });

  test('R6 a client that does not read, or leaves, costs nothing for long', async () => {
    const w = await fresh();
    for (let i = 0; i < 4; i++) await w.write(`big${i}`, randomBytes(10 * MiB));
    const open = () => readdirSync(`/proc/${server.pid}/fd`).filter((fd) => { try { return readlinkSync(`/proc/${server.pid}/fd/${fd}`).includes('/blobs/'); } catch { return false; } }).length;
    const before = open();
    const memory = resident(server.pid);
    const { hostname, port } = new URL(server.url);
    const sockets = Array.from({ length: 8 }, () => {
      const s = net.connect(Number(port), hostname, () => { s.write(`GET ${w.path}/archive HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${server.key}\r\n\r\n`); s.pause(); });
      s.on('error', () => {});
      return s;
    });
    await sleep(1500);
    assert.ok(open() >= 8, 'they wait');
    if (!sanitized) assert.ok(resident(server.pid) - memory < 40 * MiB, `${(resident(server.pid) - memory) / MiB} MiB for 320 MiB of archives`);
    assert.equal((await w.get('big0')).bytes.length, 10 * MiB, 'others are served meanwhile');
    sockets.forEach((s) => s.destroy());
    await until(() => open() <= before, { what: 'files closed' });
  });
});

describe('large and slow', () => {
  test('up to the limit and one byte over it', async () => {
    const w = await fresh();
    const bytes = randomBytes(40 * MiB);
    const made = await w.put('big', bytes);
    assert.equal(made.status, 201);
    assert.equal(made.body.sha256, sha256(bytes));
    assert.equal(sha256((await w.get('big')).bytes), sha256(bytes));
    refused(await w.put('bigger', Buffer.alloc(40 * MiB + 1)), 413, 'too_large');
    assert.deepEqual(await w.paths(), ['big']);
  });

  test('chunked bodies need no length', async () => {
    const { port } = new URL(server.url);
    const status = await new Promise((done) => {
      const req = http.request({ port, method: 'PUT', path: `${ws.path}/files/chunked`, headers: { authorization: `Bearer ${server.key}` } }, (r) => { r.resume(); done(r.statusCode); });
      req.write('one ');
      setTimeout(() => req.end('two'), 50);
    });
    assert.equal(status, 201);
    assert.equal((await ws.get('chunked')).text, 'one two');
  });

  test('F4 an upload that breaks off leaves nothing', async () => {
    const w = await fresh();
    const { port } = new URL(server.url);
    for (let i = 0; i < 3; i++)
      await new Promise((done) => {
        const req = http.request({ port, method: 'PUT', path: `${w.path}/files/half`, headers: { authorization: `Bearer ${server.key}`, 'content-length': 5 * MiB } });
        req.on('error', done);
        req.write(randomBytes(2 * MiB), () => setTimeout(() => req.destroy(), 50));
        req.on('close', done);
      });
    await sleep(300);
    assert.deepEqual(await w.paths(), []);
    const incoming = join(server.dir, 'data', 'blobs');
    await until(() => readdirSync(incoming, { recursive: true }).filter((n) => { const at = join(incoming, n); return statSync(at).isFile() && statSync(at).size >= MiB && statSync(at).size < 3 * MiB && !/[0-9a-f]{64}$/.test(n); }).length === 0, { what: 'half-written files gone' });
  });

  test('many at once, to one workspace', async () => {
    const w = await fresh();
    const names = Array.from({ length: 60 }, (_, i) => `n${i}`);
    const answers = await Promise.all(names.map((n) => w.put(n, n)));
    assert.ok(answers.every((a) => a.status === 201));
    assert.equal(new Set(answers.map((a) => a.body.commit)).size, 60);
    assert.deepEqual(await w.paths(), names.sort());
    assert.equal((await w.info()).commits, 60);
  });
});

test('D3 bytes that rotted are never served, and named', async () => {
  const w = await fresh();
  const f = await w.write('rot', 'the right bytes');
  const at = join(server.dir, 'data', 'blobs', f.sha256.slice(0, 2), f.sha256);
  await until(() => existsSync(at), { what: 'a file on disk' });
  assert.equal(readFileSync(at, 'utf8'), 'the right bytes');
  writeFileSync(at, 'the wrong bytes');
  const error = refused(await w.get('rot'), 500, 'corrupt');
  assert.match(error.message, new RegExp(f.sha256.slice(0, 16)));
  refused(await request(server, 'GET', f.url, { headers: { range: 'bytes=0-0' } }), 500, 'corrupt');
  refused(await request(server, 'GET', f.url, { headers: { 'if-none-match': `"${f.sha256}"` } }), 500, 'corrupt');
});
