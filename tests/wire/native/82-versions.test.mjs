// SPDX-License-Identifier: Apache-2.0
// What happened to files: history, provenance, differences, restoring.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';
import { Workspace, sha256, unknownId } from '../../lib/workspace.mjs';

let server;
let me;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 2 })] } });
  me = (await server.ok('GET', '/api/keys')).data[0].id;
});
after(() => stop(server));

const fresh = () => Workspace.create(server);
const VERSION = ['workspace', 'commit', 'number', 'at', 'kind', 'author', 'author_name', 'session', 'execution', 'language', 'conversation', 'message', 'note', 'change', 'path', 'from',
  'file_id', 'version', 'version_number', 'from_version', 'size', 'sha256', 'mime_type', 'url', 'available'];

describe('history', () => {
  test('of a file and of the workspace, newest first', async () => {
    const w = await fresh();
    const a1 = await w.write('a', 'one');
    await w.write('b', 'x');
    const a2 = await w.write('a', 'two', {}, '?note=second%20try&conversation=c1&message=m1');
    await w.ok('POST', '/move', { body: { from: 'a', to: 'c' } });
    await w.delete('b');
    const all = await w.history();
    assert.deepEqual(Object.keys(all.data[0]), VERSION);
    assert.deepEqual(all.data.map((v) => [v.path, v.change]), [['b', 'deleted'], ['c', 'renamed'], ['a', 'modified'], ['b', 'created'], ['a', 'created']]);
    assert.deepEqual(all.data.map((v) => v.number), [5, 4, 3, 2, 1]);
    assert.equal(all.data[0].sha256, null);
    assert.deepEqual([all.data[0].available, all.data[0].url], [false, null]);
    assert.equal(all.data[1].from, 'a');
    assert.deepEqual([all.data[2].note, all.data[2].conversation, all.data[2].message, all.data[2].kind, all.data[2].author], ['second try', 'c1', 'm1', 'upload', me]);
    const file = await w.history(`?file=${a1.file_id}`);
    assert.deepEqual(file.data.map((v) => v.version_number), [3, 2, 1]);
    assert.deepEqual(file.data.slice(1).map((v) => v.version), [a2.version, a1.version]);
    assert.deepEqual((await w.history('?path=b')).data.map((v) => v.change), ['deleted', 'created']);
    const seen = [];
    for (let more = true; more;) {
      const page = await w.history(`?limit=2${seen.length ? `&after=${seen.at(-1)}` : ''}`);
      seen.push(...page.data.map((v) => v.version));
      more = page.has_more;
    }
    assert.deepEqual(seen, all.data.map((v) => v.version));
    for (const bad of ['limit=0', 'limit=1001', `after=${unknownId('ver')}`]) refused(await w.call('GET', `/history?${bad}`), 400);
    refused(await w.put('x', 'x', {}, `?note=${'n'.repeat(257)}`), 400, 'invalid_request', /note/);
    assert.equal((await w.put('x', 'x', {}, `?note=${'n'.repeat(256)}`)).status, 201);
  });

  test('an execution says what it created, modified, renamed and deleted, and what made each is known', async () => {
    const session = await server.session();
    const w = new Workspace(server, { id: session.made.workspace });
    const first = await session.python('for n in "abc": open(f"/mnt/data/{n}", "w").write(n * 100)');
    const code = 'import os\nos.rename("/mnt/data/a", "/mnt/data/moved"); open("/mnt/data/b", "a").write("more"); os.remove("/mnt/data/c"); open("/mnt/data/new.csv", "w").write("1,2")';
    const e = await session.python(code, { metadata: { conversation_id: 'conv-1', message_id: 'msg-9', other: 1 } });
    assert.equal(e.outcome, 'ok');
    assert.deepEqual(Object.keys(e.files), ['created', 'modified', 'deleted', 'renamed', 'conflicts', 'refused', 'skipped', 'not_kept', 'truncated']);
    const paths = (list) => e.files[list].map((f) => f.path);
    assert.deepEqual([paths('created'), paths('modified'), paths('deleted'), paths('renamed')], [['new.csv'], ['b'], ['c'], ['moved']]);
    assert.equal(e.files.renamed[0].from, 'a');
    assert.equal(e.files.deleted[0].url, null);
    const [made] = e.files.created;
    const from = (await request(server, 'GET', `/api/versions/${made.version}/provenance`)).body;
    assert.deepEqual(Object.keys(from), [...VERSION, 'base_commit', 'code_sha256', 'code']);
    assert.deepEqual([from.execution, from.session, from.language, from.conversation, from.message, from.commit, from.kind],
      [e.id, session.id, 'python', 'conv-1', 'msg-9', e.commit, 'execution']);
    assert.deepEqual([from.code, from.code_sha256], [code, sha256(code)]);
    assert.equal(from.base_commit, first.commit);
    const other = await server.session({ workspace: w.id });
    const later = await other.python('open("/mnt/data/later", "w").write(open("/mnt/data/b").read())');
    assert.equal((await request(server, 'GET', `/api/versions/${later.files.created[0].version}/provenance`)).body.base_commit, e.commit);
    await other.delete();
    const up = await w.write('up', 'x');
    const uploaded = (await request(server, 'GET', `/api/versions/${up.version}/provenance`)).body;
    assert.deepEqual([uploaded.code, uploaded.code_sha256, uploaded.execution], [null, null, null]);
    refused(await request(server, 'GET', `/api/versions/${unknownId('ver')}/provenance`), 404, 'not_found');
    refused(await request(server, 'GET', '/api/versions/nonsense/provenance'), 404, 'not_found');
    await session.delete();
  });
});

describe('differences', () => {
  test('of two versions of a text', async () => {
    const w = await fresh();
    const one = await w.write('t.txt', 'a\nb\nc\n');
    const two = await w.write('t.txt', 'a\nB\nc\n');
    const three = await w.write('t.txt', 'a\nB\nc\nd\n');
    const plain = await w.call('GET', `/diff?path=t.txt&from=${one.version}&to=${two.version}`);
    assert.equal(plain.status, 200);
    assert.match(plain.headers['content-type'], /^text\/x-diff/);
    assert.match(plain.text, /^-b$/m);
    assert.match(plain.text, /^\+B$/m);
    const json = await w.ok('GET', '/diff?path=t.txt', { headers: { accept: 'application/json' } });
    assert.deepEqual(Object.keys(json), ['path', 'from', 'to', 'diff']);
    assert.equal(json.to, three.version);
    assert.match(json.diff, /^\+d$/m);
    assert.doesNotMatch(json.diff, /^-b$/m);
    refused(await w.call('GET', '/diff'), 400, 'invalid_request', /path/);
    refused(await w.call('GET', '/diff?path=none'), 404, 'not_found');
    refused(await w.call('GET', `/diff?path=t.txt&from=${unknownId('ver')}&to=${two.version}`), 404, 'not_found');
    await w.write('bin', Buffer.from([0, 1]));
    await w.write('bin', Buffer.from([0, 2]));
    refused(await w.call('GET', '/diff?path=bin'), 400);
  });
});

describe('restoring', () => {
  test('a file by version, a folder and everything by commit; each is itself a commit', async () => {
    const w = await fresh();
    const one = await w.write('a', 'one');
    const base = await w.write('d/x', 'x');
    await w.write('a', 'two');
    await w.write('d/x', 'changed');
    await w.write('d/y', 'later');
    await w.write('e', 'later');
    const file = await w.ok('POST', '/restore', { body: { version: one.version } });
    assert.match(file.commit, /^cmt_/);
    assert.deepEqual(file.changes.map((c) => [c.path, c.change]), [['a', 'restored']]);
    assert.equal((await w.get('a')).text, 'one');
    assert.equal((await w.ok('GET', '/info/a')).file_id, one.file_id);
    await w.ok('POST', '/restore', { body: { commit: base.commit, path: 'd' } });
    assert.deepEqual(await w.paths(), ['a', 'd/x', 'e']);
    assert.equal((await w.get('d/x')).text, 'x');
    const before = (await w.info()).head;
    await w.ok('POST', '/restore', { body: { commit: base.commit } });
    assert.deepEqual(await w.paths(), ['a', 'd/x']);
    await w.ok('POST', '/restore', { body: { commit: before } });
    assert.deepEqual(await w.paths(), ['a', 'd/x', 'e'], 'undoing can be undone');
    const same = await w.ok('POST', '/restore', { body: { commit: before } });
    assert.equal(same.commit, null, 'nothing had to change');
    for (const body of [{}, { commit: base.commit, version: one.version }, { commit: base.commit, path: '../x' }, { commmit: 'x' }]) refused(await w.call('POST', '/restore', { body }), 400);
    refused(await w.call('POST', '/restore', { body: { commit: unknownId('cmt') } }), 404, 'not_found');
    refused(await w.call('POST', '/restore', { body: { version: unknownId('ver') } }), 404, 'not_found');
    refused(await w.call('POST', '/restore', { body: { commit: base.commit, path: 'none' } }), 404, 'not_found');
  });

  test('a deleted file comes back with its id', async () => {
    const w = await fresh();
    const f = await w.write('gone', 'bytes');
    await w.delete('gone');
    await w.ok('POST', '/restore', { body: { version: f.version } });
    assert.equal((await w.get('gone')).text, 'bytes');
    assert.equal((await w.ok('GET', '/info/gone')).file_id, f.file_id);
  });
});
