// SPDX-License-Identifier: Apache-2.0
// Locks: leases with a token and a fence, at every door a change can come
// in by; and two real sessions racing on one file, with and without them.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, sleep } from '../../lib/glovebox.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';
import { Workspace, form, mint, unknownId } from '../../lib/workspace.mjs';

let server;
let keys;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 2 })] } });
  const all = ['execute', 'files:read', 'files:write'];
  keys = { a: await mint(server, all), b: await mint(server, all) };
});
after(() => stop(server));

const make = () => Workspace.create(server, {}, keys.a.secret);
const lock = (w, body) => w.call('POST', '/locks', { body });
const token = (t) => ({ 'x-glovebox-lock': t });

describe('a lock', () => {
  test('is taken, seen, renewed and released', async () => {
    const w = await make();
    const made = await lock(w, { path: 'a/b.txt', ttl_s: 60, label: 'editing' });
    assert.equal(made.status, 201);
    assert.deepEqual(Object.keys(made.body), ['id', 'path', 'holder', 'holder_name', 'session', 'label', 'fence', 'acquired_at', 'expires_at', 'token']);
    const l = made.body;
    assert.deepEqual([l.path, l.holder, l.session, l.label, l.fence], ['a/b.txt', keys.a.id, null, 'editing', 1]);
    assert.ok(Math.abs(Date.parse(l.expires_at) - Date.now() - 60_000) < 5000);
    const [seen] = (await w.as(keys.b.secret).ok('GET', '/locks')).data;
    assert.equal(seen.id, l.id);
    assert.equal('token' in seen, false, 'it is shown once');
    const renewed = await w.ok('POST', `/locks/${l.id}/renew`, { body: { ttl_s: 120 }, headers: token(l.token) });
    assert.ok(Date.parse(renewed.expires_at) > Date.parse(l.expires_at));
    assert.equal(renewed.fence, 1);
    assert.equal((await w.ok('POST', `/locks/${l.id}/renew`, { body: { token: l.token } })).id, l.id);
    assert.equal((await w.ok('POST', `/locks/${l.id}/renew`, { headers: token(l.token) })).id, l.id, 'without a body');
    refused(await w.call('POST', `/locks/${l.id}/renew`), 400, 'invalid_request', /token/);
    refused(await w.call('DELETE', `/locks/${l.id}`), 400, 'invalid_request', /token/);
    assert.ok([404, 409, 423, 403].includes((await w.call('DELETE', `/locks/${l.id}`, { headers: token('f'.repeat(64)) })).status));
    assert.equal((await w.call('DELETE', `/locks/${l.id}`, { headers: token(l.token) })).status, 204);
    assert.deepEqual((await w.ok('GET', '/locks')).data, []);
    assert.equal((await lock(w, { path: 'a/b.txt' })).body.fence, 2, 'the fence only grows');
  });

  test('H3 its fields are bounded', async () => {
    const w = await make();
    for (const ttl_s of [1, 86_400]) assert.equal((await lock(w, { path: `p${ttl_s}`, ttl_s })).status, 201);
    for (const ttl_s of [0, 86_401, -1, 1.5, 'x']) refused(await lock(w, { path: 'q', ttl_s }), 400);
    for (const body of [{}, { path: '' }, { path: '../x' }, { path: '/x' }, { path: 'a', ttl: 5 }, { path: 'a', label: 'x'.repeat(129) }]) refused(await lock(w, body), 400);
    assert.equal((await lock(w, { path: 'labelled', label: 'x'.repeat(128) })).status, 201);
    refused(await w.call('POST', `/locks/${unknownId('lock')}/renew`, { headers: token('x') }), 404, 'not_found');
    refused(await w.call('DELETE', `/locks/${unknownId('lock')}`, { headers: token('x') }), 404, 'not_found');
    const tokens = Array(17).fill('t').join(', ');
    refused(await w.put('x', 'x', token(tokens)), 400, 'invalid_request', /16/);
  });

  test('keeps others out at every door, and says who and until when', async () => {
    const w = await make();
    await w.write('f', 'mine');
    await w.write('g', 'free');
    const l = (await lock(w, { path: 'f', ttl_s: 60 })).body;
    const b = w.as(keys.b.secret);
    const f = await w.ok('GET', '/info/f');
    const upload = await b.ok('POST', '/uploads', { body: { path: 'f' } });
    await request(server, 'PUT', `/api/uploads/${upload.id}/parts/1`, { body: 'x', key: keys.b.secret });
    for (const answer of [await b.put('f', 'x'), await b.delete('f'), await b.call('POST', '/move', { body: { from: 'f', to: 'h' } }), await b.call('POST', '/move', { body: { from: 'g', to: 'f' } }),
      await b.call('POST', '/copy', { body: { from: 'g', to: 'f' } }), await b.call('POST', '/files', form([{ filename: 'f', body: 'x' }])),
      await lock(b, { path: 'f' }), await request(server, 'POST', `/api/uploads/${upload.id}/complete`, { key: keys.b.secret })]) {
      const error = refused(answer, 423, 'locked');
      assert.match(error.message, new RegExp(keys.a.id));
      assert.match(error.message, /20\d\d-/);
    }
    assert.equal((await w.get('f')).text, 'mine');
    assert.equal((await b.put('g', 'still free')).status, 200);
    assert.equal((await b.get('f')).text, 'mine', 'reading is free');
    assert.equal((await w.put('f', 'with it', token(l.token))).status, 200);
    refused(await b.call('POST', '/restore', { body: { version: f.version } }), 423, 'locked');
    assert.equal((await w.ok('POST', '/restore', { body: { version: f.version }, headers: token(l.token) })).changes.length, 1);
  });

  test('runs out, and then the old holder is refused by its fence', async () => {
    const w = await make();
    const old = (await lock(w, { path: 'f', ttl_s: 1 })).body;
    assert.equal((await w.put('f', 'one', token(old.token))).status, 201);
    await sleep(1200);
    const next = (await lock(w.as(keys.b.secret), { path: 'f', ttl_s: 60 })).body;
    assert.equal(next.fence, old.fence + 1);
    refused(await w.put('f', 'stale', token(old.token)), 423, 'locked');
    assert.equal((await w.get('f')).text, 'one');
    assert.ok([404, 409, 423].includes((await w.call('POST', `/locks/${old.id}/renew`, { headers: token(old.token) })).status));
    assert.equal((await w.as(keys.b.secret).put('f', 'two', token(next.token))).status, 200);
  });

  test('an owner may break it, others not', async () => {
    const w = await make();
    const b = w.as(keys.b.secret);
    const mine = (await lock(w, { path: 'f' })).body;
    refused(await b.call('DELETE', `/locks/${mine.id}?force=true`), 403, 'forbidden');
    refused(await b.call('DELETE', `/locks/${mine.id}?force=yes`), 400);
    const theirs = (await lock(b, { path: 'g' })).body;
    assert.equal((await w.call('DELETE', `/locks/${theirs.id}?force=true`)).status, 204);
    refused(await b.put('g', 'x', token(theirs.token)), 423, 'locked');
    assert.equal((await w.put('g', 'x')).status, 201);
  });
});

describe('two sessions on one workspace', () => {
  const both = async () => {
    const w = await make();
    await w.write('shared.txt', 'start');
    const one = await server.session({ workspace: w.id }, { key: keys.a.secret });
    const two = await server.session({ workspace: w.id }, { key: keys.b.secret });
    return { w, one, two };
  };

  test('without a lock: nothing is overwritten silently; the later one is kept beside', async () => {
    const { w, one, two } = await both();
    await one.python('1');
    await two.python('1');
    const [e1, e2] = await Promise.all([one, two].map((s, i) => s.python(`import time; open("/mnt/data/shared.txt", "w").write("by ${i + 1}"); time.sleep(0.3)`)));
    const winners = [e1, e2].filter((e) => e.files.modified.length);
    const losers = [e1, e2].filter((e) => e.files.conflicts.length);
    assert.deepEqual([winners.length, losers.length], [1, 1]);
    const [conflict] = losers[0].files.conflicts;
    assert.equal(conflict.wanted, 'shared.txt');
    assert.match(conflict.path, /conflict/);
    assert.ok(conflict.reason.length > 10);
    assert.deepEqual((await w.paths()).sort(), [conflict.path, 'shared.txt'].sort());
    const texts = [(await w.get('shared.txt')).text, (await w.get(conflict.path)).text];
    assert.deepEqual(texts.sort(), ['by 1', 'by 2'], 'both are there');
    assert.match((await request(server, 'GET', conflict.url)).text, /^by/);
    await one.delete();
    await two.delete();
  });

  test('with a lock: the other is refused with the holder and the expiry, the rest goes in', async () => {
    const { w, one, two } = await both();
    const l = (await lock(w, { path: 'shared.txt', ttl_s: 60, session: one.id })).body;
    assert.equal(l.session, one.id);
    const e2 = await two.python('open("/mnt/data/shared.txt", "w").write("sneaky"); open("/mnt/data/free.txt", "w").write("ok")');
    assert.equal(e2.outcome, 'ok');
    assert.deepEqual(e2.files.created.map((f) => f.path), ['free.txt']);
    const [no] = e2.files.refused;
    assert.deepEqual([no.path, no.holder, no.lock_expires_at], ['shared.txt', keys.a.id, l.expires_at]);
    assert.ok(no.reason.length > 10);
    assert.equal((await w.get('shared.txt')).text, 'start');
    const e1 = await one.python('open("/mnt/data/shared.txt", "w").write("allowed")');
    assert.deepEqual(e1.files.modified.map((f) => f.path), ['shared.txt'], 'the session it was taken for passes');
    assert.equal((await w.get('shared.txt')).text, 'allowed');
    await one.delete();
    await two.delete();
  });

  test('a token given with the execution opens the lock', async () => {
    const { w, one, two } = await both();
    const l = (await lock(w.as(keys.b.secret), { path: 'shared.txt', ttl_s: 60 })).body;
    const run = (s, key, headers, text) => request(server, 'POST', `${s.path}/executions`, { body: { code: `open("/mnt/data/shared.txt", "w").write("${text}")` }, headers, key });
    assert.equal((await run(one, keys.a.secret, {}, 'no')).body.files.refused.length, 1);
    const yes = await run(two, keys.b.secret, token(l.token), 'yes');
    assert.equal(yes.body.files.modified.length, 1, JSON.stringify(yes.body.files));
    assert.equal((await w.get('shared.txt')).text, 'yes');
    await one.delete();
    await two.delete();
  });
});
