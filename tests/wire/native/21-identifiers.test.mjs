// SPDX-License-Identifier: Apache-2.0
// Sessions by names of the client's own, with cooldowns of their own, for
// whom expiry is the end, and with kept files from the start.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, Session, pool, until } from '../../lib/glovebox.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';

const config = {
  sessions_per_tenant: 60,
  final_expiry_tenants: 'strict',
  pools: [pool({ ready: 2 }), pool({ name: 'other', ready: 0 }), pool({ name: 'one', ready: 0, max_sessions: 1 })],
};
let server, strict;

before(async () => {
  server = await Glovebox.start({ config });
  strict = (await server.tenant('strict')).key;
});
after(() => stop(server));

const create = (body, key) => request(server, 'POST', '/api/sessions', { body, key });
const get = (id, key) => request(server, 'GET', `/api/sessions/${id}`, { key });
const remove = (id, key) => request(server, 'DELETE', `/api/sessions/${id}`, { key });
const run = (id, code, key) =>
  request(server, 'POST', `/api/sessions/${id}/executions`, { body: { code }, key });

describe('identifier', () => {
  test('comes back and can be had once in a pool; a second is told by whom it is taken', async () => {
    const made = await create({ identifier: 'chat:42' });
    assert.equal(made.status, 201);
    assert.equal(made.body.identifier, 'chat:42');
    assert.deepEqual((await get(made.body.id)).body.identifier, 'chat:42');
    refused(await create({ identifier: 'chat:42' }), 409, 'conflict', new RegExp(made.body.id));
    refused(await create({ identifier: 'chat:42', persistence: 'ephemeral' }), 409, 'conflict', new RegExp(made.body.id));
    const other = await create({ identifier: 'chat:42', pool: 'other' });
    assert.equal(other.status, 201);
    const list = await server.ok('GET', '/api/sessions');
    assert.equal(list.data.filter((s) => s.identifier === 'chat:42').length, 2);
    for (const s of [made, other]) assert.equal((await remove(s.body.id)).status, 204);
  });

  test('I3: another tenant has its own under the same name', async () => {
    const mine = await create({ identifier: 'same' });
    const theirs = await create({ identifier: 'same' }, strict);
    assert.equal(theirs.status, 201);
    assert.notEqual(theirs.body.id, mine.body.id);
    const error = refused(await create({ identifier: 'same' }, strict), 409, 'conflict');
    assert.ok(!JSON.stringify(error).includes(mine.body.id));
    await remove(mine.body.id);
    await remove(theirs.body.id, strict);
  });

  test('is 1 to 128 printable ASCII characters without blanks', async () => {
    for (const good of ['x', '!', '~', 'a/b?c#d%20"\\', 'x'.repeat(128)]) {
      const made = await create({ identifier: good });
      assert.equal(made.status, 201, good);
      assert.equal(made.body.identifier, good);
      await remove(made.body.id);
    }
    for (const bad of ['', 'a b', ' a', 'a\n', '\u0001', '\u007f', 'é', '😀', 'x'.repeat(129), 7, ['a']])
      refused(await create({ identifier: bad }), 400, 'invalid_request', /identifier/);
    const none = await create({ identifier: null });
    assert.equal(none.body.identifier, null);
    await remove(none.body.id);
  });

  test('of two at once one is made', async () => {
    for (let round = 0; round < 3; round++) {
      const answers = await Promise.all(Array.from({ length: 6 }, () => create({ identifier: 'race' })));
      const made = answers.filter((a) => a.status === 201);
      assert.equal(made.length, 1);
      for (const a of answers) if (a.status !== 201) refused(a, 409, 'conflict', new RegExp(made[0].body.id));
      assert.equal((await remove(made[0].body.id)).status, 204);
    }
  });

  test('is a new session after the old one was deleted', async () => {
    const first = await create({ identifier: 'again' });
    assert.equal((await run(first.body.id, 'x = 1; open("f", "w").write("old")')).body.outcome, 'ok');
    await remove(first.body.id);
    const second = await create({ identifier: 'again' });
    assert.equal(second.status, 201);
    assert.notEqual(second.body.id, first.body.id);
    assert.notEqual(second.body.workspace, first.body.workspace);
    const e = await run(second.body.id, 'import os\nprint("x" in globals(), os.path.exists("/mnt/data/f"))');
    assert.equal(e.body.stdout.trim(), 'False False');
    await remove(second.body.id);
  });

  test('R8: a refusal leaves the name free', async () => {
    const first = await create({ identifier: 'a', pool: 'one', persistence: 'ephemeral' }); // or it would make room
    const full = await create({ identifier: 'b', pool: 'one' });
    refused(full, 429, 'overloaded');
    assert.ok(Number(full.headers['retry-after']) > 0);
    await remove(first.body.id);
    const second = await create({ identifier: 'b', pool: 'one' });
    assert.equal(second.status, 201);
    await remove(second.body.id);
  });
});

describe('cooldown_s', () => {
  test('is its own, else the pool\'s, within its bounds', async () => {
    for (const [asked, got] of [[undefined, 1200], [1, 1], [90, 90], [2592000, 2592000]]) {
      const { status, body: s } = await create({ cooldown_s: asked });
      assert.equal(status, 201);
      assert.equal(s.cooldown_s, got);
      assert.equal(Date.parse(s.expires_at) - Date.parse(s.last_used_at), got * 1000);
      await remove(s.id);
    }
    for (const bad of [0, -1, 2592001, 1.5, '60'])
      refused(await create({ cooldown_s: bad }), 400, 'invalid_request', /cooldown_s/);
  });

  test('sends it to sleep, and the next call wakes it with its files', async () => {
    const { body: s } = await create({ cooldown_s: 1 });
    await run(s.id, 'open("/mnt/data/kept.txt", "w").write("x")');
    await until(async () => (await get(s.id)).body.state === 'dormant', { ms: 60_000, what: 'asleep' });
    const e = await run(s.id, 'print(open("/mnt/data/kept.txt").read())');
    assert.equal(e.body.stdout.trim(), 'x');
    assert.equal(e.body.interpreter, 'fresh');
    await remove(s.id);
  });
});

test('final expiry: it is over by the clock, and only reading about it and deleting are left', async () => {
  const { body: s } = await create({ cooldown_s: 6, identifier: 'over' }, strict);
  const path = `/api/sessions/${s.id}`;
  const ask = (method, at, body) => request(server, method, `${path}${at}`, { body, key: strict });
  assert.equal((await ask('PUT', '/files/a.txt', 'abc')).status, 201);
  assert.equal((await run(s.id, '1', strict)).body.outcome, 'ok');
  // What runs longer than the cooldown is not cut short by it.
  const long = await run(s.id, 'import time; time.sleep(7.5); print("still here")', strict);
  assert.equal(long.body.stdout.trim(), 'still here');
  const last = (await get(s.id, strict)).body;
  await until(() => Date.now() > Date.parse(last.expires_at) + 5, { ms: 60_000, what: 'expiry' });
  for (const [method, at, body] of [
    ['POST', '/executions', { code: '1' }],
    ['POST', '/executions', { code: '1', mode: 'async' }],
    ['POST', '/reset'], ['POST', '/refresh'], ['POST', '/interrupt'],
    ['GET', '/files'], ['GET', '/files/a.txt'], ['PUT', '/files/b.txt', 'b'], ['DELETE', '/files/a.txt'],
  ]) refused(await ask(method, at, body), 410, 'expired', /expired/);
  assert.equal((await ask('POST', '/keepalive')).status, 200);
  // None of that was a use of it.
  const now = (await get(s.id, strict)).body;
  assert.equal(now.last_used_at, last.last_used_at);
  const list = await request(server, 'GET', '/api/sessions', { key: strict });
  assert.ok(list.body.data.some((one) => one.id === s.id));
  // Its files are where they were.
  const file = await request(server, 'GET', `/api/workspaces/${s.workspace}/files/a.txt`, { key: strict });
  assert.equal(file.text, 'abc');
  assert.equal((await remove(s.id, strict)).status, 204);
  refused(await get(s.id, strict), 404, 'not_found');
  // Other tenants' merely sleep.
  const { body: ours } = await create({ cooldown_s: 1 });
  await until(() => Date.now() > Date.parse(ours.expires_at) + 5, { ms: 60_000, what: 'expiry' });
  assert.equal((await run(ours.id, '1')).body.outcome, 'ok');
  await remove(ours.id);
});

describe('kept files', () => {
  // What is stored, and how many names each has.
  function blobs() {
    const dir = join(server.dir, 'data', 'blobs');
    return readdirSync(dir).filter((n) => /^[0-9a-f]{2}$/.test(n)).flatMap((two) =>
      readdirSync(join(dir, two)).filter((n) => n.length >= 64).map((n) => ({ n, links: lstatSync(join(dir, two, n)).nlink })));
  }
  const bytes = Buffer.alloc(3 << 20, 'some bytes of a kept file\n');
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const LOOK = (path) => `
import hashlib, json, os
v = os.statvfs("/mnt/data")
b = open("/mnt/data/${path}", "rb").read()
print(json.dumps({"sha256": hashlib.sha256(b).hexdigest(), "used": (v.f_blocks - v.f_bfree) * v.f_frsize}))`;
  let file, source;

  before(async () => {
    source = await server.session();
    file = await source.put('report.csv', bytes);
  });
  after(() => source.delete());

  const container = async (body) => {
    const made = await request(server, 'POST', '/v1/containers', { body });
    assert.equal(made.status, 200, made.text);
    return made.body;
  };

  test('are there from the start, the same bytes, not copied', async () => {
    const empty = await server.session();
    await empty.put('small', 'x');
    const { used } = await empty.json(LOOK('small'));
    await empty.delete();
    await server.ok('POST', '/api/collect'); // what is stored is a file each now
    const stored = blobs().length;
    const made = await container({ name: 'with files', file_ids: [file.file_id] });
    const s = new Session(server, made);
    assert.match(s.id, /^cntr_[0-9a-f]{48}$/);
    const native = await s.get();
    assert.deepEqual([native.state, native.interpreters], ['dormant', 0], 'a container gets a sandbox with its first execution');
    const files = await server.ok('GET', `/api/workspaces/${native.workspace}/files`);
    const [linked] = files.data;
    assert.equal(linked.sha256, sha256);
    assert.notEqual(linked.file_id ?? linked.id, file.file_id);
    const inside = await s.json(LOOK(linked.path));
    assert.equal(inside.sha256, sha256);
    assert.ok(inside.used < used + (1 << 20), `scratch holds no copy: ${inside.used} of ${used}`);
    assert.equal(blobs().length, stored, 'and nothing was stored again');
    assert.equal((await s.get()).interpreters, 1);
    assert.equal((await s.delete()).status, 204);
  });

  test('attached before the first execution they are linked, afterwards copied in', async () => {
    const s = await server.session({ name: 'later' }); // has a sandbox at once, unlike a container
    const attach = async () => {
      const answer = await request(server, 'POST', `/v1/containers/${s.id}/files`, { body: { file_id: file.file_id } });
      assert.ok(answer.status === 200 || answer.status === 201, answer.text);
      return answer.body.path.replace('/mnt/data/', '');
    };
    const first = await attach();
    await server.ok('POST', '/api/collect'); // what is stored is a file each now
    const stored = blobs().length;
    assert.equal((await s.get()).state, 'idle');
    const before = await s.json(LOOK(first));
    assert.equal(before.sha256, sha256);
    assert.ok(before.used < 2 << 20, `${before.used}`);
    assert.equal((await s.get()).interpreters, 1, 'no interpreter was lost by it');
    await s.out('x = 41');
    const again = await attach();
    const after_ = await s.json(`x += 1${LOOK(again)}`);
    assert.equal(after_.sha256, sha256);
    assert.equal(await s.out('print(x)'), '42', 'and none by this');
    assert.equal(blobs().length - stored <= 2, true, 'only the code of the executions was stored');
    await s.delete();
  });
});

test('D1: identifier, cooldown and id are the same after a restart, and after a crash', async () => {
  const dir = server.dir;
  const { body: s } = await create({ identifier: 'kept', cooldown_s: 777, name: 'n' });
  await run(s.id, 'open("/mnt/data/f.txt", "w").write("kept")');
  for (const signal of ['SIGTERM', 'SIGKILL']) {
    if (signal === 'SIGTERM') await server.stop({ keep: true });
    else {
      server.child.kill('SIGKILL');
      await server.exited;
    }
    server = await Glovebox.start({ config, dir });
    const got = (await get(s.id)).body;
    assert.deepEqual([got.identifier, got.cooldown_s, got.name, got.state], ['kept', 777, 'n', 'dormant']);
    assert.equal(Date.parse(got.expires_at) - Date.parse(got.last_used_at), 777_000);
    refused(await create({ identifier: 'kept' }), 409, 'conflict', new RegExp(s.id));
    const e = await run(s.id, 'print(open("/mnt/data/f.txt").read())');
    assert.equal(e.body.stdout.trim(), 'kept');
  }
  assert.equal((await remove(s.id)).status, 204);
  const fresh = await create({ identifier: 'kept' });
  assert.equal(fresh.status, 201);
  assert.notEqual(fresh.body.id, s.id);
  await remove(fresh.body.id);
});
