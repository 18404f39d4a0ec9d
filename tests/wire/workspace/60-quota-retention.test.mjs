// SPDX-License-Identifier: Apache-2.0
// How much may be kept and for how long: quotas of a workspace and of a
// tenant at every door, retention, legal hold, deletion and its window, and
// bytes that leave the disk once nothing refers to them (D10).
import assert from 'node:assert/strict';
import { existsSync, readFileSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, sleep, until } from '../../lib/glovebox.mjs';
import { READING, holding, told, well, workspaceOf, writing } from '../../lib/kept.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';
import { Workspace, mint, sha256 } from '../../lib/workspace.mjs';

const KiB = 1024;
const ALL = ['execute', 'files:read', 'files:write'];
let server;
let user;

before(async () => {
  server = await Glovebox.start({
    config: { restore_window_s: 2, collect_every_s: 3600, tenant_quota_bytes: 400 * KiB, sessions_per_tenant: 60, pools: [pool({ ready: 2 }), pool({ name: 'nap', ready: 1, cooldown_s: 1 })] },
  });
});
after(() => stop(server));

// Each test has a tenant of its own: quotas are counted by tenant.
let tenants = 0;
async function begin(quota_bytes) {
  user = await mint(server, ALL, { tenant: `t${++tenants}` });
  const w = await Workspace.create(server, {}, user.secret);
  if (quota_bytes !== undefined) assert.equal((await quota(w, quota_bytes)).quota_bytes, quota_bytes);
  return { w, user, session: (spec = {}) => server.session({ workspace: w.id, ...spec }, { key: user.secret }) };
}
// Administrators see every tenant's workspaces.
const quota = async (w, quota_bytes) => {
  const answer = await request(server, 'PATCH', w.path, { body: { quota_bytes } });
  assert.equal(answer.status, 200, answer.text);
  return answer.body;
};
const hold = (w, legal_hold) => server.ok('PATCH', w.path, { legal_hold });
const blob = (hash) => join(server.dir, 'data', 'blobs', hash.slice(0, 2), hash);
// The collector leaves alone what is younger than a minute.
const age = (hash) => {
  const hour = Date.now() / 1000 - 3600;
  if (existsSync(blob(hash))) utimesSync(blob(hash), hour, hour);
};
const collect = () => server.ok('POST', '/api/collect');
const usage = (who) => server.ok('GET', '/api/usage', undefined, { key: who.secret });

describe('R4 quota of a workspace', () => {
  test('R4: uploads at it fit, above it are 507 and nothing changes', async () => {
    const { w, user: who } = await begin(64 * KiB);
    assert.equal((await w.put('a', Buffer.alloc(40 * KiB, 'a'))).status, 201);
    refused(await w.put('b', Buffer.alloc(24 * KiB + 1, 'b')), 507, 'storage_full');
    assert.deepEqual(await w.paths(), ['a']);
    assert.equal((await w.put('b', Buffer.alloc(24 * KiB, 'b'))).status, 201, 'to the last byte');
    const info = await w.info();
    assert.deepEqual([info.bytes, info.stored_bytes, info.quota_bytes, info.files], [64 * KiB, 64 * KiB, 64 * KiB, 2]);
    refused(await w.put('c', 'x'), 507, 'storage_full');
    assert.equal((await w.put('empty', '')).status, 201, 'nothing fits into nothing');
    refused(await w.put('a', Buffer.alloc(10, 'z')), 507, 'storage_full', /./);
    assert.equal((await w.get('a')).bytes.length, 40 * KiB, 'an old version is not given up for a new one');
    assert.equal((await w.delete('b')).status, 200, 'deleting always works');
    assert.equal((await usage(who)).stored_bytes, 64 * KiB);
    await quota(w, 128 * KiB);
    assert.equal((await w.put('c', 'x')).status, 201);
    refused(await w.call('PATCH', '', { body: { quota_bytes: 1 << 30 } }), 403, 'forbidden');
  });

  test('R4: an execution above it ends with a typed limit, keeps what fits and lists the rest', async () => {
    const { w, session } = await begin(64 * KiB);
    const s = await session();
    const at = await well(s.python('open("/mnt/data/a", "wb").write(b"a" * 40 * 1024)'));
    assert.deepEqual(told(at), { created: ['a'] });
    const over = await s.python('open("/mnt/data/big", "wb").write(b"b" * 30 * 1024); open("/mnt/data/small", "wb").write(b"c" * 1024)');
    assert.equal(over.outcome, 'limit', JSON.stringify(over.error));
    assert.equal(over.limit.name, 'workspace_bytes');
    assert.equal(over.limit.value, 64 * KiB);
    assert.deepEqual(told(over), { created: ['small'], refused: ['big'] });
    assert.match(over.files.refused[0].reason, /room/);
    assert.match(over.error.message, /quota/);
    assert.deepEqual(await w.paths(), ['a', 'small']);
    assert.deepEqual(Object.keys(await s.json('import json, os; print(json.dumps({n: 1 for n in os.listdir("/mnt/data")}))')).sort(), ['a', 'big', 'small'], 'the session still has it');
    await quota(w, 128 * KiB);
    const later = await well(s.python('1'));
    assert.deepEqual(told(later), { created: ['big'] }, 'with more room it is kept');
    assert.equal((await w.info()).stored_bytes, 71 * KiB);
  });

  test('R4: exactly at it an execution is fine', async () => {
    const { w, session } = await begin(10 * KiB);
    const s = await session();
    assert.deepEqual(told(await well(s.python('open("/mnt/data/a", "wb").write(b"a" * 10 * 1024)'))), { created: ['a'] });
    const over = await s.python('open("/mnt/data/b", "wb").write(b"b")');
    assert.deepEqual([over.outcome, told(over)], ['limit', { refused: ['b'] }]);
    assert.equal((await w.info()).stored_bytes, 10 * KiB);
    const gone = await s.python('import os; os.remove("/mnt/data/b"); os.remove("/mnt/data/a")');
    assert.deepEqual([gone.outcome, told(gone)], ['ok', { deleted: ['a'] }]);
  });

  test('R4: through a session, by parts and by copy it is the same', async () => {
    const { w, user: who, session } = await begin(20 * KiB);
    await w.write('a', Buffer.alloc(12 * KiB, 'a'));
    const s = await session();
    refused(await request(server, 'PUT', `${s.path}/files/b`, { body: Buffer.alloc(9 * KiB), key: who.secret }), 507, 'storage_full');
    assert.deepEqual(Object.keys(await s.json(READING)), ['a'], 'nor is it inside');
    const up = await w.ok('POST', '/uploads', { body: { path: 'p' } });
    await request(server, 'PUT', `/api/uploads/${up.id}/parts/1`, { body: Buffer.alloc(9 * KiB, 'p'), key: who.secret });
    refused(await request(server, 'POST', `/api/uploads/${up.id}/complete`, { body: {}, key: who.secret }), 507, 'storage_full');
    refused(await w.call('POST', '/copy', { body: { from: 'a', to: 'c' } }), 507, 'storage_full');
    assert.deepEqual(await w.paths(), ['a']);
  });
});

describe('R4 quota of a tenant', () => {
  test('R4: counts all its workspaces and nobody else\'s', async () => {
    const { w, user: who } = await begin();
    const second = await Workspace.create(server, {}, who.secret);
    await w.write('a', Buffer.alloc(300 * KiB, 'a'));
    refused(await second.put('b', Buffer.alloc(100 * KiB + 1)), 507, 'storage_full');
    assert.equal((await second.put('b', Buffer.alloc(100 * KiB))).status, 201);
    assert.deepEqual(await usage(who), { tenant: who.tenant, workspaces: 2, max_workspaces: 100000, stored_bytes: 400 * KiB, quota_bytes: 400 * KiB });
    const s = await server.session({ workspace: second.id }, { key: who.secret });
    const e = await s.python(writing({ c: 'x' }));
    assert.deepEqual([e.outcome, told(e)], ['limit', { refused: ['c'] }]);
    const { w: other } = await begin();
    assert.equal((await other.put('a', 'x')).status, 201);
  });
});

describe('D10 retention', () => {
  const contents = async (w, path) => (await w.history(`?path=${path}`)).data;

  test('D10: keep_versions gives up the oldest, and their bytes leave the disk', async () => {
    const { w, session } = await begin();
    const s = await session();
    const texts = ['one', 'two', 'three', 'four', 'five'].map((t) => `${t} of ${w.id}`);
    for (const text of texts) await well(s.python(writing({ a: text })));
    await well(s.python(writing({ other: texts[1] })));
    assert.equal((await contents(w, 'a')).length, 5);
    await w.ok('PATCH', '', { body: { retention: { keep_versions: 2, keep_days: 0 } } });
    for (const text of texts) age(sha256(text));
    await collect();
    const kept = await contents(w, 'a');
    assert.deepEqual(kept.map((h) => h.available), [true, true, false, false, false]);
    for (const [i, h] of kept.entries()) {
      const got = await request(server, 'GET', h.url ?? `/api/files/${h.file_id}/content?version=${h.version}`, { key: w.key });
      if (h.available) assert.equal(got.text, texts[4 - i]);
      else assert.ok([404, 410].includes(got.status), `${got.status}`);
    }
    assert.deepEqual(texts.map((text) => existsSync(blob(sha256(text)))), [false, true, false, true, true], 'what another file has stays');
    assert.equal((await w.get('other')).text, texts[1]);
    assert.equal((await w.info()).stored_bytes, [texts[3], texts[4], texts[1]].reduce((n, t) => n + t.length, 0));
    assert.equal((await w.get('a')).text, texts[4]);
  });

  test('D10: the newest version stays, however little is kept; a deleted file\'s goes', async () => {
    const { w } = await begin();
    const text = `only ${w.id}`;
    const gone = `gone ${w.id}`;
    await w.write('a', text);
    await w.write('b', gone);
    await w.delete('b');
    await w.ok('PATCH', '', { body: { retention: { keep_versions: 1, keep_days: 0 } } });
    age(sha256(text));
    age(sha256(gone));
    await collect();
    assert.equal((await w.get('a')).text, text);
    assert.ok(existsSync(blob(sha256(text))));
    const days = await w.ok('PATCH', '', { body: { retention: { keep_versions: 0, keep_days: 1 } } });
    assert.deepEqual(days.retention, { keep_versions: 0, keep_days: 1 });
    await collect();
    assert.equal((await w.get('a')).text, text, 'nothing is that old yet');
  });

  test('D10: legal hold stops retention and deletion, and only administrators set it', async () => {
    const { w } = await begin();
    const texts = [1, 2, 3].map((n) => `version ${n} of ${w.id}`);
    for (const text of texts) await w.write('a', text);
    refused(await w.call('PATCH', '', { body: { legal_hold: true } }), 403, 'forbidden');
    assert.equal((await hold(w, true)).legal_hold, true);
    await w.ok('PATCH', '', { body: { retention: { keep_versions: 1, keep_days: 0 } } });
    for (const text of texts) age(sha256(text));
    await collect();
    assert.deepEqual((await contents(w, 'a')).map((h) => h.available), [true, true, true]);
    refused(await w.call('DELETE', ''), 409, 'conflict', /hold/);
    await w.write('a', 'writing goes on');
    assert.equal((await w.delete('a')).status, 200);
    await hold(w, false);
    await collect();
    assert.equal((await w.call('DELETE', '')).status, 204);
  });
});

describe('D10 a deleted workspace', () => {
  test('D10: is gone from every answer at once, comes back within its window with all it had', async () => {
    const { w, user: who, session } = await begin();
    const s = await session();
    const e = await well(s.python(writing({ a: `kept ${w.id}` }), { metadata: { conversation: `talk-${w.id}` } }));
    const before = (await w.list()).data;
    assert.equal((await w.call('DELETE', '')).status, 204);
    for (const path of ['', '/files', '/files/a', '/history']) refused(await w.call('GET', path), 404, 'not_found');
    for (const path of [e.files.created[0].url, `/api/versions/${e.files.created[0].version}/provenance`, `/api/files/${e.files.created[0].file_id}`])
      refused(await request(server, 'GET', path, { key: who.secret }), 404, 'not_found');
    assert.deepEqual((await server.ok('GET', `/api/conversations/talk-${w.id}/files`, undefined, { key: who.secret })).data, []);
    assert.ok(!(await server.ok('GET', '/api/workspaces', undefined, { key: who.secret })).data.some((x) => x.id === w.id));
    const gone = (await server.ok('GET', '/api/workspaces?deleted=true', undefined, { key: who.secret })).data.find((x) => x.id === w.id);
    assert.ok(Date.parse(gone.purge_at) > Date.parse(gone.deleted_at));
    const lost = await s.python(writing({ a: 'into nothing' }));
    assert.equal(lost.commit, null);
    assert.notEqual(lost.outcome, 'ok', 'it is said that nothing was kept');
    assert.equal((await w.ok('POST', '/undelete')).deleted_at, null);
    assert.deepEqual((await w.list()).data, before);
    const again = await well(s.python('1'));
    assert.deepEqual(told(again), { modified: ['a'] }, 'what the session has is committed now');
  });

  test('D10: after the window it is purged: rows and bytes, but not those that others have', async () => {
    const { w, user: who } = await begin();
    const mark = `purged-mark-${w.id}`;
    const shared = `shared ${w.id}`;
    await w.write(`${mark}.txt`, mark);
    await w.write('shared', shared);
    const other = await Workspace.create(server, {}, who.secret);
    await other.write('mine', shared);
    const used = (await usage(who)).stored_bytes;
    assert.equal((await w.call('DELETE', '')).status, 204);
    age(sha256(mark));
    age(sha256(shared));
    await collect();
    assert.ok(existsSync(blob(sha256(mark))), 'within the window all is there');
    await sleep(2200);
    const done = await collect();
    assert.ok(done.workspaces >= 1 && done.blobs >= 1 && done.bytes >= mark.length, JSON.stringify(done));
    assert.ok(!existsSync(blob(sha256(mark))));
    assert.equal(readFileSync(blob(sha256(shared)), 'utf8'), shared);
    assert.equal((await other.get('mine')).text, shared);
    refused(await w.call('POST', '/undelete'), 404, 'not_found');
    assert.ok(!(await server.ok('GET', '/api/workspaces?deleted=true', undefined, { key: who.secret })).data.some((x) => x.id === w.id));
    assert.equal((await usage(who)).stored_bytes, used - mark.length - shared.length);
    assert.deepEqual(holding(join(server.dir, 'data', 'blobs'), mark), []);
    assert.deepEqual(holding(join(server.dir, 'data', 'trees'), mark), []);
  });

  test('D10: bytes of a single version, a large one, leave the disk', async () => {
    const { w, user: who } = await begin();
    const big = Buffer.alloc(300 * KiB, w.id);
    await w.write('big', big);
    const s = await server.session({ workspace: w.id, pool: 'nap' }, { key: who.secret });
    assert.equal(await s.out('import os; print(os.path.getsize("/mnt/data/big"))'), String(big.length));
    await w.delete('big');
    await w.ok('PATCH', '', { body: { retention: { keep_versions: 1, keep_days: 0 } } });
    await s.delete();
    const named = () => holding(join(server.dir, 'data'), w.id.repeat(3)).filter((path) => !path.includes('/scratch/'));
    assert.equal(named().length >= 1, true);
    age(sha256(big));
    await collect();
    await until(async () => {
      age(sha256(big));
      await collect();
      return named().length === 0;
    }, { ms: 10_000, every: 500, what: 'gone from the disk' }).catch(() => assert.deepEqual(named(), []));
    assert.equal((await workspaceOf(s, who.secret).info()).stored_bytes, 0);
  });
});
