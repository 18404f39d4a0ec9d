// SPDX-License-Identifier: Apache-2.0
// How much may be kept and for how long: quotas of a workspace and of a
// tenant at every door, retention, legal hold, deletion and its window, and
// bytes that leave the disk once nothing refers to them (D10).
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, Session, pool, sleep } from '../../lib/glovebox.mjs';
import { READING, holding, killSandbox, told, well, writing } from '../../lib/kept.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';
import { Workspace, mint, sha256 } from '../../lib/workspace.mjs';

const KiB = 1024;
const ALL = ['execute', 'files:read', 'files:write'];
const config = { restore_window_s: 3, collect_every_s: 3600, tenant_quota_bytes: 400 * KiB, pools: [pool({ ready: 2, scratch_bytes: '8MiB', scratch_inodes: 200 })] };
let server;

before(async () => { server = await Glovebox.start({ config }); });
after(() => stop(server));

// Each test has a tenant of its own, since quotas are counted by tenant, with
// an administrator of its own, since those see only their tenant's.
let tenants = 0;
async function begin(quota_bytes) {
  const tenant = `t${++tenants}`;
  const user = await mint(server, ALL, { tenant });
  const admin = await mint(server, ['admin'], { tenant });
  const w = await Workspace.create(server, {}, user.secret);
  const patch = (body) => w.as(admin.secret).ok('PATCH', '', { body });
  if (quota_bytes !== undefined) assert.equal((await patch({ quota_bytes })).quota_bytes, quota_bytes);
  return { w, user, patch, session: (spec = {}) => server.session({ workspace: w.id, ...spec }, { key: user.secret }) };
}
const blob = (hash) => join(server.dir, 'data', 'blobs', hash.slice(0, 2), hash);
// The collector leaves alone what is younger than a minute.
// A small file is one on disk within a moment.
const age = async (hash) => {
  for (let i = 0; i < 40 && !existsSync(blob(hash)); i++) await sleep(50);
  const hour = Date.now() / 1000 - 3600;
  if (existsSync(blob(hash))) utimesSync(blob(hash), hour, hour);
};
const collect = () => server.ok('POST', '/api/collect');
const usage = (who) => server.ok('GET', '/api/usage', undefined, { key: who.secret });

describe('R4 quota of a workspace', () => {
  test('R4: uploads at it fit, above it are 507 and nothing changes', async () => {
    const { w, user: who, patch } = await begin(64 * KiB);
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
    await patch({ quota_bytes: 128 * KiB });
    assert.equal((await w.put('c', 'x')).status, 201);
    refused(await w.call('PATCH', '', { body: { quota_bytes: 1 << 30 } }), 403, 'forbidden');
  });

  test('R4: an execution above it ends with a typed limit, keeps what fits and lists the rest', async () => {
    const { w, patch, session } = await begin(64 * KiB);
    const s = await session();
    const at = await well(s.python('open("/mnt/data/a", "wb").write(b"a" * 40 * 1024)'));
    assert.deepEqual(told(at), { created: ['a'] });
    const over = await s.python('open("/mnt/data/big", "wb").write(b"b" * 30 * 1024); open("/mnt/data/small", "wb").write(b"c" * 1024)');
    assert.equal(over.outcome, 'limit', JSON.stringify(over.error));
    assert.equal(over.limit.name, 'workspace_bytes');
    assert.equal(over.limit.value, 64 * KiB);
    assert.deepEqual(told(over), { created: ['small'], refused: ['big'] });
    assert.match(over.files.refused[0].reason, /room/);
    assert.match(over.error.message, /quota.*big was not kept/);
    assert.equal(over.files.not_kept, 1);
    assert.deepEqual(await w.paths(), ['a', 'small']);
    const still = await s.python('import os; sorted(os.listdir("/mnt/data"))');
    assert.equal(still.result['text/plain'], "['a', 'big', 'small']", 'the session still has it');
    assert.deepEqual([still.outcome, told(still), still.files.not_kept], ['ok', { refused: ['big'] }, 1], 'and it is told as long as it is not kept');
    const failing = await s.python('1/0');
    assert.deepEqual([failing.outcome, failing.files.not_kept], ['error', 1], 'a failure is that failure');
    const same = await s.python('open("/mnt/data/big", "wb").write(b"b" * 30 * 1024)');
    assert.deepEqual([same.outcome, same.files.not_kept], ['ok', 1], 'the same bytes again are no news');
    const changed = await s.python('open("/mnt/data/big", "ab").write(b"b")');
    assert.deepEqual([changed.outcome, changed.limit.name, told(changed)], ['limit', 'workspace_bytes', { refused: ['big'] }], 'others are');
    const more = await s.python('open("/mnt/data/c1", "wb").write(b"c" * 40 * 1024); open("/mnt/data/c2", "wb").write(b"d" * 40 * 1024)');
    assert.deepEqual([more.outcome, more.files.not_kept], ['limit', 3]);
    assert.match(more.error.message, /c1 and others were not kept/);
    assert.equal((await well(s.shell('cd /mnt/data; rm c1 c2 big; true'))).files.not_kept, 0, 'removed');
    const again = await s.python('open("/mnt/data/big", "wb").write(b"b" * 30 * 1024)');
    assert.deepEqual([again.outcome, again.files.not_kept], ['limit', 1], 'written anew it is new');
    await patch({ quota_bytes: 128 * KiB });
    const later = await well(s.python('1'));
    assert.deepEqual([told(later), later.files.not_kept], [{ created: ['big'] }, 0], 'with more room it is kept');
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
    const part = await request(server, 'PUT', `/api/uploads/${up.id}/parts/1`, { body: Buffer.alloc(9 * KiB, 'p'), key: who.secret });
    if (part.status === 200) refused(await request(server, 'POST', `/api/uploads/${up.id}/complete`, { body: {}, key: who.secret }), 507, 'storage_full');
    else refused(part, 507, 'storage_full');
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
    for (const text of texts) await age(sha256(text));
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

  test('D10: the newest version stays, however little is kept, and the last of a deleted file', async () => {
    const { w } = await begin();
    const text = `only ${w.id}`;
    const gone = `gone ${w.id}`;
    await w.write('a', text);
    const last = await w.write('b', gone);
    await w.delete('b');
    await w.ok('PATCH', '', { body: { retention: { keep_versions: 1, keep_days: 1 } } });
    for (const t of [text, gone]) await age(sha256(t));
    await collect();
    assert.equal((await w.get('a')).text, text);
    await w.ok('POST', '/restore', { body: { version: last.version } });
    assert.equal((await w.get('b')).text, gone);
  });

  test('D10: legal hold stops retention and deletion, and only administrators set it', async () => {
    const { w, patch } = await begin();
    const texts = [1, 2, 3].map((n) => `version ${n} of ${w.id}`);
    for (const text of texts) await w.write('a', text);
    refused(await w.call('PATCH', '', { body: { legal_hold: true } }), 403, 'forbidden');
    assert.equal((await patch({ legal_hold: true })).legal_hold, true);
    await w.ok('PATCH', '', { body: { retention: { keep_versions: 1, keep_days: 0 } } });
    for (const text of texts) await age(sha256(text));
    await collect();
    assert.deepEqual((await contents(w, 'a')).map((h) => h.available), [true, true, true]);
    refused(await w.call('DELETE', ''), 409, 'conflict', /hold/);
    await w.write('a', 'writing goes on');
    assert.equal((await w.delete('a')).status, 200);
    await patch({ legal_hold: false });
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
    // Nor can a session wake on it: refused, and not the sandbox's fault.
    const other = await begin();
    const asleep = await other.session({ limits: { processes: 16 } });
    await well(asleep.python(writing({ a: '1' })));
    await killSandbox(asleep);
    assert.equal((await other.w.call('DELETE', '')).status, 204);
    const denied = await asleep.python('1');
    assert.equal(denied.outcome, 'denied', JSON.stringify(denied.error));
    assert.match(denied.error.message, /no such workspace/);
    assert.equal((await other.w.ok('POST', '/undelete')).deleted_at, null);
    assert.deepEqual(await asleep.json(READING), { a: '1' });
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
    await age(sha256(mark));
    await age(sha256(shared));
    await collect();
    assert.ok(existsSync(blob(sha256(mark))), 'within the window all is there');
    await sleep(3200);
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

  test('D10: no byte of what it said is left in the data directory: not in free pages, the log or the index', async () => {
    const { w, user: who } = await begin();
    const other = await Workspace.create(server, {}, who.secret);
    const word = (n) => `${['quagga', 'wombat', 'okapi'][n]}${sha256(`${w.id}${n}`).slice(0, 24).replace(/\d/g, (d) => 'ghijklmnop'[d])}`;
    const [first, second, stays] = [0, 1, 2].map(word);
    const found = async (q) => (await server.ok('GET', `/api/search?q=${q}`, undefined, { key: who.secret })).data.length;
    const until = async (what, check) => {
      for (let i = 0; i < 150; i++, await sleep(200)) if (await check()) return;
      assert.fail(what);
    };
    await other.write('kept.txt', `a text with ${stays} in it`);
    await w.write('notes.md', `once ${first}, again ${first}`);
    await until('indexed', async () => await found(first) === 1 && await found(stays) === 1);
    await w.write('notes.md', `now ${second}`); // the first one's words are replaced
    for (let i = 0; i < 30; i++) await w.write(`more/${i}.txt`, `${second} number ${i} `.repeat(200));
    await until('indexed', async () => await found(second) >= 10 && await found(first) === 0);
    const data = join(server.dir, 'data');
    assert.ok(holding(data, second).some((f) => /glovebox\.db/.test(f)), 'the probe sees it while it is there');
    const hashes = (await w.history('?limit=100')).data.map((h) => h.sha256);
    assert.equal((await w.call('DELETE', '')).status, 204);
    hashes.forEach(age);
    await sleep(3200);
    await collect();
    for (const word of [first, second])
      await until(`${word} is gone: ${holding(data, word)}`, async () => holding(data, word).length === 0);
    assert.ok(holding(data, stays).some((f) => /glovebox\.db/.test(f)), 'what is kept is');
    assert.equal(await found(stays), 1);
  });
});

// Last: it puts the clock of what is stored back by two days.
describe('D10 days', () => {
  test('D10: keep_days counts from when a version was superseded or deleted; then its bytes leave the disk', async () => {
    const { w, session } = await begin();
    const held = await begin();
    const big = (n) => Buffer.alloc(90 * KiB, `${n} of ${w.id} `);
    await w.write('deleted', big(1));
    await w.write('changed', big(2));
    await held.w.write('deleted', big(3));
    const s = await session();
    assert.equal(await s.out('import os; print(sorted(os.listdir("/mnt/data")))'), "['changed', 'deleted']");
    await well(s.python(writing({ changed: 'now' })));
    await w.delete('deleted');
    await held.w.delete('deleted');
    await w.ok('PATCH', '', { body: { retention: { keep_versions: 0, keep_days: 1 } } });
    await held.w.ok('PATCH', '', { body: { retention: { keep_versions: 0, keep_days: 1 } } });
    await held.patch({ legal_hold: true });
    const all = [1, 2, 3].map((n) => sha256(big(n)));
    const there = () => all.map((hash) => existsSync(blob(hash)));
    all.forEach(age);
    await collect();
    assert.deepEqual(there(), [true, true, true], 'a day has not passed');
    assert.deepEqual(await server.stop({ keep: true }), { code: 0, signal: null });
    const aged = spawnSync('/usr/bin/python3', ['-c', `
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("UPDATE commits SET at_ms = at_ms - 2 * 86400000")
db.commit()
`, join(server.dir, 'data', 'glovebox.db')], { encoding: 'utf8' });
    assert.equal(aged.status, 0, aged.stderr);
    server = await Glovebox.start({ dir: server.dir, config });
    const again = new Workspace(server, w.made, w.key);
    const done = await collect();
    assert.ok(done.versions >= 2 && done.bytes >= 180 * KiB, JSON.stringify(done));
    assert.deepEqual(there(), [false, false, true], 'what is held stays');
    for (const folder of ['blobs', 'trees'])
      for (const n of [1, 2]) assert.deepEqual(holding(join(server.dir, 'data', folder), `${n} of ${w.id} ${n} of ${w.id} `), [], 'under no other name either');
    assert.equal((await again.info()).stored_bytes, 3);
    assert.equal((await again.get('changed')).text, 'now');
    assert.deepEqual((await again.history()).data.map((h) => [h.path, h.change, h.available]),
      [['deleted', 'deleted', false], ['changed', 'modified', true], ['changed', 'created', false], ['deleted', 'created', false]]);
    assert.deepEqual(await new Session(server, s.made, s.options).json(READING), { changed: 'now' }, 'and the session wakes on what is left');
  });
});
