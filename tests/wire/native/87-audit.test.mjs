// SPDX-License-Identifier: Apache-2.0
// The audit trail: one event for every act, who did what to what, in a chain
// that shows any change; and what operators have done to stored data.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, chownSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, root, until } from '../../lib/glovebox.mjs';
import { Stream, refused, request, stop } from '../../lib/wire.mjs';
import { Workspace, form, mint } from '../../lib/workspace.mjs';

const ALL = ['execute', 'files:read', 'files:write'];
let server;
let me;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 1 })] } });
  me = (await server.ok('GET', '/api/keys')).data[0].id;
});
after(() => stop(server));

const audit = async (query = '', key) => {
  const got = await request(server, 'GET', `/api/audit${query}`, { key });
  assert.equal(got.status, 200, got.text);
  return got.body;
};
const LINE = ['seq', 'at', 'tenant', 'actor', 'actor_name', 'action', 'workspace', 'object', 'path', 'before', 'after', 'result', 'detail', 'request', 'source', 'token', 'hash', 'chain_seq', 'chain_hash'];

describe('every act', () => {
  test('O1 is one event, with who, what, before and after', async () => {
    const started = (await audit('?limit=1000')).data.at(-1)?.seq ?? 0;
    const w = await Workspace.create(server, { name: 'audited' });
    const one = await w.write('a', 'one');
    const two = await w.write('a', 'two');
    await w.call('POST', '/files', form([{ filename: 'f', body: 'x' }]));
    await w.ok('POST', '/move', { body: { from: 'f', to: 'g' } });
    await w.ok('POST', '/copy', { body: { from: 'g', to: 'h' } });
    await w.delete('h');
    await w.ok('POST', '/restore', { body: { version: one.version } });
    const lock = await w.ok('POST', '/locks', { body: { path: 'l' } });
    await w.ok('POST', `/locks/${lock.id}/renew`, { body: { token: lock.token } });
    await w.call('DELETE', `/locks/${lock.id}`, { headers: { 'x-glovebox-lock': lock.token } });
    const share = (await request(server, 'POST', '/api/shares', { body: { workspace: w.id, path: 'a' } })).body;
    await request(server, 'GET', share.url, { key: null });
    await request(server, 'DELETE', `/api/shares/${share.id}`);
    const key = await mint(server, ALL, { name: 'other' });
    await w.call('PUT', `/members/${key.id}`, { body: { role: 'editor' } });
    await w.ok('PATCH', '', { body: { name: 'renamed' } });
    const session = await server.session({ workspace: w.id });
    const e = await session.python('open("/mnt/data/made", "w").write("x")');
    await session.delete();
    await w.ok('POST', '/transfer', { body: { to: key.id } });
    await server.ok('DELETE', `/api/keys/${key.id}`);
    await w.call('DELETE', '');
    const events = await until(async () => {
      const { data } = await audit(`?after=${started}&limit=1000`);
      return data.some((l) => l.object === w.id && l.action === 'workspace.delete') && data.some((l) => l.object === e.id || l.after === e.commit) && data;
    }, { what: 'all events' });
    assert.deepEqual(Object.keys(events[0]), LINE);
    events.forEach((l, i) => assert.equal(l.seq, started + 1 + i, 'numbered without a gap'));
    const actions = events.map((l) => l.action);
    for (const wanted of ['workspace.create', 'file.put', 'file.move', 'file.copy', 'file.delete', 'share.create', 'share.revoke', 'key.create', 'key.revoke', 'workspace.transfer', 'workspace.delete'])
      assert.ok(actions.includes(wanted), `${wanted} of ${[...new Set(actions)]}`);
    for (const group of [/^lock\./, /member/, /restore/, /^session\./]) assert.ok(actions.some((a) => group.test(a)), `${group} of ${[...new Set(actions)]}`);
    const put = events.filter((l) => l.action === 'file.put' && l.path === 'a').at(-1);
    assert.deepEqual([put.actor, put.tenant, put.workspace, put.result], [me, 'default', w.id, 'ok']);
    assert.ok([put.object, put.before, put.after].join().includes(one.file_id) || [put.before, put.after].join().includes(two.version) || put.after === two.commit, JSON.stringify(put));
    assert.match(put.request, /^req_/);
    assert.equal(put.source, '127.0.0.1');
    assert.match(put.hash, /^[0-9a-f]{64}$/);
    const text = JSON.stringify(events);
    for (const secret of [lock.token, share.url.slice(3), key.secret]) assert.ok(!text.includes(secret), 'no secret in it');
    assert.ok(!text.includes('open('), 'no code in it');
  });

  test('O1 a refusal is an event too', async () => {
    const reader = await mint(server, ['files:read']);
    const w = await Workspace.create(server);
    refused(await w.as(reader.secret).put('x', 'x'), 403, 'forbidden');
    const found = await until(async () => (await audit(`?actor=${reader.id}`)).data.find((l) => l.result === 'forbidden'), { what: 'the refusal' });
    assert.equal(found.action, 'request.refused');
    assert.match(found.detail, /^PUT \/api\/workspaces/);
    const viewer = await mint(server, ALL);
    await w.call('PUT', `/members/${viewer.id}`, { body: { role: 'viewer' } });
    await w.call('PUT', '/members/*', { body: { role: 'viewer' } });
    refused(await w.as(viewer.secret).put('x', 'x'), 403, 'forbidden');
  });
});

// Events of a stream and kinds of objects that look like actions.
const STREAM = /^(response\.(created|completed|failed|incomplete|in_progress|queued|done|compaction)|agent\.deleted)$/;

// Whoever writes a new kind of event says what it means.
test('O1 every action of the sources is explained in docs/AUDIT.md', () => {
  const doc = readFileSync(join(root, 'docs/AUDIT.md'), 'utf8');
  const rows = doc.split('\n').filter((l) => l.startsWith('| `')).map((l) => l.split('|')[1]);
  const known = new Set(rows.flatMap((cell) => [...cell.matchAll(/`([a-z_]+\.[a-z_]+)`/g)].map(([, a]) => a)));
  const groups = new Set([...known].map((a) => a.split('.')[0]));
  const files = (dir) => readdirSync(dir, { withFileTypes: true }).flatMap((e) => (e.isDirectory() ? files(join(dir, e.name)) : /\.[ch]$/.test(e.name) ? [join(dir, e.name)] : []));
  const used = new Set();
  for (const at of files(join(root, 'src')).filter((f) => !/src\/(cli|cmd|kernel|sandbox|warden|egress)\//.test(f))) {
    const text = readFileSync(at, 'utf8');
    // What is called an action, and whatever looks like one of a known group.
    for (const [, value] of text.matchAll(/\baction = ([^;]{0,80})/g)) for (const [, a] of value.matchAll(/"([a-z_]+\.[a-z_]+)"/g)) used.add(a);
    for (const [, a, group] of text.matchAll(/"(([a-z_]+)\.[a-z_]+)"/g)) if (groups.has(group) && !/\.(db|key|secret|lock|name|head|pem|id)$/.test(a) && !STREAM.test(a) && !/doors\/(openai|azure)|src\/policy\/(request\.|policy\.h)/.test(at)) used.add(a);
  }
  assert.ok(used.size > 40, `${used.size} actions were read`);
  assert.deepEqual([...used].filter((a) => !known.has(a)), [], 'not explained');
  assert.deepEqual([...known].filter((a) => !used.has(a)), [], 'explained, and not there');
});

describe('asking', () => {
  test('by time, actor, action, workspace, object; in pages', async () => {
    const w = await Workspace.create(server);
    const f = await w.write('asked', '1');
    await w.write('asked', '2');
    const of = (await audit(`?workspace=${w.id}`)).data;
    assert.deepEqual(of.map((l) => l.action), ['workspace.create', 'file.put', 'file.put']);
    assert.equal((await audit(`?workspace=${w.id}&action=file.put`)).data.length, 2);
    assert.equal((await audit(`?workspace=${w.id}&action=file.`)).data.length, 2);
    assert.equal((await audit(`?workspace=${w.id}&action=file`)).data.length, 0);
    assert.equal((await audit(`?workspace=${w.id}&actor=${me}`)).data.length, 3);
    assert.equal((await audit(`?workspace=${w.id}&actor=key_none`)).data.length, 0);
    assert.equal((await audit(`?workspace=${w.id}&object=asked`)).data.length, 2);
    assert.equal((await audit(`?workspace=${w.id}&from=2100-01-01`)).data.length, 0);
    assert.equal((await audit(`?workspace=${w.id}&from=2020-01-01&to=2100-01-01`)).data.length, 3);
    assert.ok(f.file_id);
    const seen = [];
    for (let more = true; more;) {
      const page = await audit(`?workspace=${w.id}&limit=2${seen.length ? `&after=${seen.at(-1)}` : ''}`);
      seen.push(...page.data.map((l) => l.seq));
      more = page.has_more;
    }
    assert.deepEqual(seen, of.map((l) => l.seq));
    for (const bad of ['limit=0', 'limit=1001', 'after=x', 'after=-1', 'from=x', 'nope=1']) refused(await request(server, 'GET', `/api/audit?${bad}`), 400);
  });

  test('I3 an administrator sees its own tenant, one of the first tenant all', async () => {
    const boss = await mint(server, [...ALL, 'admin'], { tenant: 'other' });
    const w = await Workspace.create(server, {}, boss.secret);
    await w.write('theirs', 'x');
    const seen = (await audit('?limit=1000', boss.secret)).data;
    assert.ok(seen.length >= 2 && seen.every((l) => l.tenant === 'other'));
    refused(await request(server, 'GET', '/api/audit?tenant=default', { key: boss.secret }), 403, 'forbidden');
    assert.ok((await audit('?tenant=other')).data.some((l) => l.workspace === w.id));
    assert.ok((await audit(`?workspace=${w.id}`)).data.length >= 2);
    refused(await request(server, 'GET', '/api/audit', { key: (await mint(server, ALL)).secret }), 403, 'forbidden', /audit:read/);
  });

  test('O1 the chain verifies', async () => {
    const report = (await request(server, 'POST', '/api/audit/verify')).body;
    assert.deepEqual(Object.keys(report), ['ok', 'events', 'first_bad', 'fault', 'lost', 'head', 'tenant']);
    assert.deepEqual([report.ok, report.first_bad, report.fault], [true, null, null]);
    assert.ok(report.events > 10);
    assert.match(report.head, /^[0-9a-f]{64}$/);
  });
});

describe('upkeep', () => {
  test('collect says what it gave up', async () => {
    const got = await request(server, 'POST', '/api/collect');
    assert.equal(got.status, 200, got.text);
    assert.deepEqual(Object.keys(got.body), ['versions', 'workspaces', 'uploads', 'blobs', 'bytes']);
    refused(await request(server, 'POST', '/api/collect', { key: (await mint(server, ALL)).secret }), 403, 'forbidden');
  });

  test('D8 verify re-hashes everything, tells its progress and finds what rotted', async () => {
    const w = await Workspace.create(server);
    for (let i = 0; i < 20; i++) await w.write(`v${i}`, `bytes ${i}`);
    const good = await Stream.open(server, 'POST', '/api/verify');
    const done = await good.find((e) => e.event === 'done');
    assert.equal(await good.ended, true);
    assert.deepEqual(Object.keys(done.data), ['ok', 'blobs', 'bytes', 'bad', 'missing', 'orphans', 'lost', 'first_bad']);
    assert.deepEqual([done.data.ok, done.data.bad, done.data.missing, done.data.first_bad], [true, 0, 0, null]);
    assert.ok(done.data.blobs >= 20);
    assert.ok(good.events.some((e) => e.event === 'progress' && e.data.total >= 20));
    assert.deepEqual(good.events.map((e) => e.id), good.events.map((_, i) => i + 1));
    const f = await w.write('rot', 'will rot');
    const at = join(server.dir, 'data', 'blobs', f.sha256.slice(0, 2), f.sha256);
    await until(() => existsSync(at), { what: 'a file on disk' });
    writeFileSync(at, 'has rot!');
    const bad = (await (await Stream.open(server, 'POST', '/api/verify')).find((e) => e.event === 'done')).data;
    assert.deepEqual([bad.ok, bad.bad, bad.first_bad], [false, 1, f.sha256]);
    writeFileSync(at, 'will rot');
  });

  test('D9 a backup is made online, with progress', async () => {
    const w = await Workspace.create(server);
    await w.write('b', 'backed up');
    const parent = join(server.dir, 'backups');
    mkdirSync(parent);
    const owner = statSync(join(server.dir, 'data'));
    chownSync(parent, owner.uid, owner.gid);
    const path = join(parent, 'one');
    const s = await Stream.open(server, 'POST', '/api/backup', { body: { path } });
    const last = await s.find((e) => ['done', 'error'].includes(e.event));
    assert.deepEqual(last.data, { path }, JSON.stringify(last));
    assert.ok(s.events.some((e) => e.event === 'progress'));
    assert.ok(existsSync(path));
    const again = await Stream.open(server, 'POST', '/api/backup', { body: { path } });
    const error = await again.find((e) => ['done', 'error'].includes(e.event));
    assert.equal(error.event, 'error', 'it is not empty any more');
    assert.ok(error.data.error.message.length > 5);
    for (const body of [{}, { path: 'relative' }, { path: '' }, { dir: '/x' }]) refused(await request(server, 'POST', '/api/backup', { body }), 400);
    refused(await request(server, 'POST', '/api/backup', { body: { path }, key: (await mint(server, ALL)).secret }), 403, 'forbidden');
    const { data } = await audit('?action=storage.');
    assert.ok(data.some((l) => l.action === 'storage.backup' && l.result === 'ok'));
    assert.ok(data.some((l) => l.action === 'storage.backup' && l.result !== 'ok'));
  });

  test('metrics count what is stored', async () => {
    const text = (await request(server, 'GET', '/metrics')).text;
    for (const name of ['glovebox_storage_writable 1', 'glovebox_blobs ', 'glovebox_blob_bytes ', 'glovebox_scrub_bad ', 'glovebox_scrub_bytes ', 'glovebox_scrub_completed_timestamp_seconds '])
      assert.ok(text.includes(`\n${name}`), name);
  });
});
