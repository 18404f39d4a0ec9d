// SPDX-License-Identifier: Apache-2.0
// The Azure door: sessions looked at, listed, ended; what is left after a
// restart, after expiry, and in a pool that is full.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Pool, TIME, V2024_02, V2024_10, V2025_02, V2025_10, refused } from '../../lib/azure.mjs';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { request, stop } from '../../lib/wire.mjs';

let server;
let p;

const config = { final_expiry_tenants: 'hosted', sessions_per_tenant: 1000,
  pools: [pool({ ready: 2 }), pool({ name: 'few', ready: 0, max_sessions: 2 }), pool({ name: 'short', ready: 0, cooldown_s: 1 })] };

before(async () => {
  server = await Glovebox.start({ config });
  p = new Pool(server, { identifier: 'sessions-1' });
});
after(() => stop(server));

const ok = (answer, status = 200) => {
  assert.equal(answer.status, status, answer.text);
  return answer.body;
};
const listed = async (q) => ok(await q.get('listSessions', { identifier: null })).sessions.map((s) => s.identifier);

describe('one session', () => {
  test('its times; looking does not make it nor count as a use', async () => {
    const q = p.other();
    for (const version of [V2025_02, V2025_10]) refused(await q.at(version).get('session'), 400, 'SessionWithIdentifierNotFound');
    assert.ok(!(await listed(q)).includes(q.identifier));
    ok(await q.run('1'));
    const one = ok(await q.get('session'));
    assert.deepEqual(Object.keys(one), ['identifier', 'createdAt', 'lastAccessedAt', 'expireAt', 'etag']);
    assert.equal(one.identifier, q.identifier);
    for (const name of ['createdAt', 'lastAccessedAt', 'expireAt']) assert.match(one[name], TIME);
    assert.ok(one.createdAt <= one.lastAccessedAt && one.lastAccessedAt < one.expireAt);
    assert.deepEqual(ok(await q.get('session')), one);
    ok(await q.run('1'));
    const later = ok(await q.get('session'));
    assert.ok(later.lastAccessedAt > one.lastAccessedAt && later.createdAt === one.createdAt);
  });

  test('deleted: 204, and the same identifier is brand-new', async () => {
    const q = p.other();
    ok(await q.upload('old.txt', 'x'));
    ok(await q.run('v = 1'));
    const gone = await q.delete('session');
    assert.deepEqual([gone.status, gone.text], [204, '']);
    assert.ok(!(await listed(q)).includes(q.identifier));
    refused(await q.get('files/old.txt/content'), 404, 'NotFound');
    assert.deepEqual(await q.names(), []);
    assert.match(ok(await q.run('v')).result.stderr, /NameError/);
  });

  test('deleting one that is not there is 204 too', async () => {
    for (const version of [V2025_02, V2025_10]) assert.equal((await p.other().at(version).delete('session')).status, 204);
    refused(await p.delete('session', { identifier: 'abc' }), 400, 'SessionRequestValidationFailed');
  });
});

describe('the words of custom containers', () => {
  test('getSession', async () => {
    const q = p.other();
    refused(await q.post('.management/getSession'), 400, 'SessionWithIdentifierNotFound');
    ok(await q.run('1'));
    for (const version of [null, V2024_02, V2025_10]) {
      const one = ok(await q.at(version).post('.management/getSession'));
      assert.deepEqual(Object.keys(one), ['identifier', 'createdAt', 'lastAccessedAt', 'expiresAt', 'etag']);
    }
  });

  test('stopSession says it in a sentence', async () => {
    const q = p.other();
    ok(await q.run('1'));
    const got = await q.at(V2024_02).post('.management/stopSession');
    assert.equal(got.status, 200);
    assert.match(got.headers['content-type'], /^text\/plain/);
    assert.match(got.text, new RegExp(`${q.identifier}.*default`));
    const again = await q.at(V2024_02).post('.management/stopSession');
    assert.deepEqual([again.status, /^text\/plain/.test(again.headers['content-type'])], [400, true]);
    assert.match(again.text, /not found/);
    assert.ok(!(await listed(q)).includes(q.identifier), 'stopping made none');
  });

  test('listSessions', async () => {
    const q = new Pool(server, { base: '/pools/few' });
    assert.deepEqual(ok(await q.call('POST', '.management/listSessions', { query: { skip: 0, identifier: null } })), { value: [], count: 0, nextLink: null });
    ok(await q.run('1'));
    const all = ok(await q.call('POST', '.management/listSessions', { query: { skip: 0, identifier: null } }));
    assert.deepEqual([all.value.map((s) => s.identifier), all.count, all.nextLink], [[q.identifier], 1, null]);
    assert.equal((await q.delete('session')).status, 204);
  });
});

describe('all sessions', () => {
  test('only those with an identifier, of this pool, oldest first', async () => {
    const { key } = await server.tenant('lister');
    const q = new Pool(server, { key, identifier: 'list-a' });
    await server.session({}, { key });
    assert.deepEqual(ok(await q.get('listSessions', { identifier: null })), { sessions: [], nextLink: null });
    for (const identifier of ['list-a', 'list-b', 'list-c']) assert.equal((await q.other(identifier).get('files')).status, 200);
    assert.equal((await new Pool(server, { base: '/pools/few', key, identifier: 'list-few' }).get('files')).status, 200);
    assert.deepEqual(await listed(q), ['list-a', 'list-b', 'list-c']);
    assert.deepEqual(ok(await q.get('listSessions', { skip: 1 })).sessions.map((s) => s.identifier), ['list-b', 'list-c']);
    assert.deepEqual(ok(await q.get('listSessions', { skip: 3 })).sessions, []);
    for (const skip of ['-1', 'x', '1.5']) refused(await q.get('listSessions', { skip }), 400, 'SessionRequestValidationFailed', /skip/);
    assert.equal((await new Pool(server, { base: '/pools/few', key, identifier: 'list-few' }).delete('session')).status, 204);
  });

  test('300 to a page, with a link to the next', async () => {
    const { key } = await server.tenant('many');
    const q = new Pool(server, { base: '/pools/short', key });
    const names = Array.from({ length: 301 }, (_, i) => `many-${String(i).padStart(3, '0')}`);
    for (const name of names) assert.equal((await q.other(name).get('files')).status, 200);
    const first = ok(await q.get('listSessions', { identifier: null }));
    assert.equal(first.sessions.length, 300);
    const next = new URL(first.nextLink);
    assert.equal(next.searchParams.get('skip'), '300');
    const second = ok(await request(server, 'GET', next.pathname + next.search, { key }));
    assert.deepEqual([second.sessions.map((s) => s.identifier), second.nextLink], [[names[300]], null]);
    const management = ok(await q.call('POST', '.management/listSessions', { query: { identifier: null } }));
    assert.deepEqual([management.value.length, management.count, typeof management.nextLink], [300, 300, 'string']);
  });
});

describe('lifecycle', () => {
  test('a pool at its most is 429 with when to come again, and room is made by deleting', async () => {
    const [a, b, c] = ['full-a', 'full-b', 'full-c'].map((identifier) => new Pool(server, { base: '/pools/few', identifier }));
    ok(await a.run('1'));
    ok(await b.run('1'));
    for (const version of [V2024_02, V2024_10, V2025_10]) {
      const got = await c.at(version).get('files');
      refused(got, 429, 'TooManyRequests');
      assert.match(got.headers['retry-after'], /^\d+$/);
    }
    refused(await c.run('1'), 429, 'TooManyRequests');
    assert.equal((await a.delete('session')).status, 204);
    assert.equal(ok(await c.run('1')).status, 'Succeeded');
    await b.delete('session');
    await c.delete('session');
  });

  test('of two first callers at once both get the one session', async () => {
    const q = p.other();
    const all = await Promise.all(Array.from({ length: 6 }, () => q.run('1')));
    assert.equal(new Set(all.map((a) => a.headers['x-ms-session-guid'])).size, 1);
  });

  test('past its cooldown files are kept; with final expiry it starts anew, empty', async () => {
    const { key } = await server.tenant('hosted');
    const ours = new Pool(server, { base: '/pools/short', identifier: 'sleeper' });
    const theirs = new Pool(server, { base: '/pools/short', identifier: 'sleeper', key });
    for (const q of [ours, theirs]) {
      ok(await q.upload('kept.txt', 'k'));
      ok(await q.run('v = 1'));
    }
    const expired = async (q) => new Date((await q.get('session')).body?.expireAt ?? 0) < new Date();
    await until(async () => (await expired(ours)) && (await expired(theirs)), { ms: 20_000, every: 200, what: 'expiry' });
    assert.deepEqual(await ours.names(), ['kept.txt']);
    assert.equal(ok(await ours.run("open('/mnt/data/kept.txt').read()")).result.executionResult, 'k');
    refused(await theirs.get('session'), 400, 'SessionWithIdentifierNotFound');
    assert.deepEqual(await theirs.names(), []);
    assert.equal(ok(await theirs.run('1')).result.executionResult, 1);
  });

  test('after a restart the identifier still has its files and runs; variables are gone', async () => {
    const q = p.other();
    ok(await q.upload('sub/kept.txt', 'before'));
    ok(await q.run("v = 1\nopen('/mnt/data/made.txt', 'w').write('too')"));
    const { id } = ok(await q.run('v'));
    await server.stop({ keep: true });
    server = await Glovebox.start({ config, dir: server.dir });
    const r = new Pool(server, { identifier: q.identifier });
    assert.equal(ok(await r.get('session')).identifier, q.identifier);
    assert.deepEqual(await r.names(), ['made.txt', 'sub']);
    assert.equal(ok(await r.get('files/made.txt')).sizeInBytes, 3);
    assert.equal(ok(await r.get('files/sub')).type, 'directory');
    assert.equal((await r.get('files/kept.txt/content', { path: 'sub' })).text, 'before');
    assert.equal((await r.delete('files/sub')).status, 204, 'in a session that sleeps');
    assert.deepEqual(await r.names(), ['made.txt']);
    assert.equal(ok(await r.get(`executions/${id}`)).result.executionResult, 1, 'a stored one');
    assert.match(ok(await r.run('v')).result.stderr, /NameError/);
    assert.equal(ok(await r.run("open('/mnt/data/made.txt').read()")).result.executionResult, 'too');
    assert.deepEqual(await r.names(), ['made.txt']);
  });
});
