// SPDX-License-Identifier: Apache-2.0
// Output and displays of finished executions are stored: they are the same
// after a restart, go with their session, and are listed over all sessions.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { start } from '../../lib/console-wire.mjs';
import { pool, until } from '../../lib/glovebox.mjs';
import { refused, request, stop, Stream } from '../../lib/wire.mjs';

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const SHOW = `import base64
class Chart:
    def _repr_png_(self): return base64.b64decode("${PNG}")
class Page:
    def _repr_html_(self): return "<b>bold</b>"
print("seen"); import sys; print("complained", file=sys.stderr)
display(Chart()); display(Page())
open("made.txt", "w").write("x")
6 * 7`;
const config = { public_url: 'http://gb.example', output_stored_bytes: 256 * 1024, pools: [pool()] };

let server;
before(async () => { server = await start(config); });
after(() => stop(server));

const restart = async () => {
  await server.stop({ keep: true });
  server = await start(config, { dir: server.dir });
};
const whole = (id, key) => server.ok('GET', `/api/executions/${id}`, undefined, { key });
const events = async (id) => {
  const stream = await Stream.open(server, 'GET', `/api/executions/${id}/events`);
  await stream.ended;
  return stream.events.map((e) => [e.event, e.data]);
};
const list = (query = '', key) => server.ok('GET', `/api/executions${query}`, undefined, { key });

describe('after a restart', () => {
  test('an execution is the same: text, pictures, HTML, files, outcome, events', async () => {
    const session = await server.session({});
    const ran = await session.python(SHOW);
    const failed = await session.python('1/0');
    const shell = await session.shell('echo out; exit 3');
    assert.equal(ran.displays[0]['image/png'], PNG);
    const before = [];
    for (const id of [ran.id, failed.id, shell.id]) before.push([await whole(id), await events(id)]);
    assert.equal(before[0][0].code, SHOW);
    const listed = await server.ok('GET', `${session.path}/executions`);
    await restart();
    for (const [i, id] of [ran.id, failed.id, shell.id].entries()) {
      assert.deepEqual(await whole(id), before[i][0]);
      assert.deepEqual(await events(id), before[i][1]);
    }
    assert.deepEqual(await server.ok('GET', `${session.path}/executions`), listed);
    const again = await server.ok('POST', `${session.path}/executions`, { code: '1' });
    const both = (await server.ok('GET', `${session.path}/executions?limit=3`));
    assert.deepEqual(both.data.map((e) => e.id), [again.id, shell.id, failed.id]);
    assert.equal(both.has_more, true);
  });

  test('more than is stored of one is left out, and said to be', async () => {
    const session = await server.session({});
    const big = await session.python('for i in range(40): print("x" * 10_000)\nprint("end")\n"result"');
    const fits = await session.python('print("y" * 100_000)');
    assert.equal(big.truncated.stdout, false);
    await restart();
    const stored = await whole(big.id);
    assert.equal(stored.truncated.stdout, true);
    assert.ok(stored.stdout.length <= 256 * 1024 && stored.stdout.length > 100_000, `${stored.stdout.length}`);
    assert.equal(stored.result['text/plain'], "'result'");
    assert.equal((await whole(fits.id)).stdout.length, 100_001);
    assert.equal((await whole(fits.id)).truncated.stdout, false);
  });
});

describe('D10: the end', () => {
  const found = (mark) => readdirSync(join(server.dir, 'data')).filter((n) => n.startsWith('glovebox.db')).some((n) => readFileSync(join(server.dir, 'data', n)).includes(mark));

  test('outputs go with their session, from every answer at once', async () => {
    const session = await server.session({});
    const ran = await session.python('print("remember-" + "the-secret-words")');
    await restart();
    assert.match((await whole(ran.id)).stdout, /remember-the-secret-words/);
    assert.equal((await server.call('DELETE', session.path)).status, 204);
    refused(await request(server, 'GET', `/api/executions/${ran.id}`), 404);
    assert.ok(!(await list()).data.some((e) => e.id === ran.id));
    await server.ok('POST', '/api/collect');
    assert.equal(found('remember-the-secret-words'), false, 'nor in the database');
    // Evidence is apart from it.
    assert.equal((await server.ok('GET', `/api/executions/${ran.id}/evidence`)).outcome, 'ok');
  });

  test('nothing is stored of an ephemeral session', async () => {
    const session = await server.session({ persistence: 'ephemeral' });
    const ran = await session.python('print("unseen-" + "ephemeral-words")');
    assert.match((await whole(ran.id)).stdout, /unseen/);
    await list();
    assert.equal(found('unseen-ephemeral-words'), false);
    await restart();
    refused(await request(server, 'GET', `/api/executions/${ran.id}`), 404);
    assert.equal(found('unseen-ephemeral-words'), false);
  });

  test('the oldest go when all are too many', async () => {
    const small = await start({ output_total_bytes: 100_000, pools: [pool()] });
    try {
      const session = await small.session({});
      const ids = [];
      for (let i = 0; i < 12; i++) ids.push((await session.python(`print("${i % 10}" * 20_000)`)).id);
      const stored = (await small.ok('GET', '/api/executions')).data.map((e) => e.id);
      assert.ok(stored.length < 12, `${stored.length} of 12`);
    } finally {
      await stop(small);
    }
  });
});

describe('GET /api/executions', () => {
  let ada, bob, theirs, mine, runs;
  before(async () => {
    const key = (name, more = {}) => server.ok('POST', '/api/keys', { name, scopes: ['execute', 'files:read', 'files:write'], ...more });
    [ada, bob, theirs] = [await key('ada'), await key('bob'), await key('eve', { tenant: 'theirs' })];
    mine = await server.ok('POST', '/api/sessions', {}, { key: ada.secret });
    const run = (body) => server.ok('POST', `/api/sessions/${mine.id}/executions`, body, { key: ada.secret });
    runs = [await run({ code: 'alpha = 1' }), await run({ code: '1/0' }), await run({ language: 'shell', code: 'echo beta' })].map((e) => e.id);
  });
  const ids = async (query, key = ada.secret) => (await list(query, key)).data.map((e) => e.id);

  test('newest first, with names, by filters and pages', async () => {
    const all = await list('', ada.secret);
    assert.deepEqual(all.data.map((e) => e.id), [...runs].reverse());
    assert.deepEqual(all.data.map((e) => [e.principal, e.principal_name, e.workspace]), runs.map(() => [ada.id, 'ada', mine.workspace]));
    assert.deepEqual(await ids('?outcome=error'), [runs[1], runs[2]].filter((id) => id === runs[1]));
    assert.deepEqual(await ids('?language=shell'), [runs[2]]);
    assert.deepEqual(await ids(`?session=${mine.id}&q=alpha`), [runs[0]]);
    assert.deepEqual(await ids(`?workspace=${mine.workspace}&limit=1`), [runs[2]]);
    assert.deepEqual(await ids(`?after=${runs[2]}&limit=1`), [runs[1]]);
    assert.deepEqual(await ids(`?after=${runs[0]}`), []);
    assert.deepEqual(await ids(`?principal=${bob.id}`), []);
    assert.deepEqual(await ids('?from=2100-01-01'), []);
    assert.equal((await ids('?to=2100-01-01')).length, 3);
    refused(await request(server, 'GET', '/api/executions?after=exec_00000000000000000000000000000000', { key: ada.secret }), 400);
    refused(await request(server, 'GET', '/api/executions?limit=1001', { key: ada.secret }), 400);
  });

  test('unfinished ones are in it', async () => {
    const slow = await server.ok('POST', `/api/sessions/${mine.id}/executions`, { code: 'import time; time.sleep(600)', mode: 'async' }, { key: ada.secret });
    const row = await until(async () => (await list('', ada.secret)).data.find((e) => e.id === slow.id && e.status === 'running'));
    assert.equal(row.outcome, null);
    await server.call('POST', `/api/executions/${slow.id}/cancel`, undefined, { key: ada.secret });
    await until(async () => (await list('', ada.secret)).data.find((e) => e.id === slow.id)?.status === 'completed');
  });

  test('U5: not those of another principal or tenant; those of a shared session', async () => {
    assert.deepEqual(await ids('', bob.secret), []);
    assert.deepEqual(await ids('', theirs.secret), []);
    refused(await request(server, 'GET', `/api/executions?after=${runs[0]}`, { key: bob.secret }), 400);
    await restart();
    refused(await request(server, 'GET', `/api/executions/${runs[0]}`, { key: bob.secret }), 404);
    refused(await request(server, 'GET', `/api/executions/${runs[0]}`, { key: theirs.secret }), 404);
    await server.ok('PATCH', `/api/sessions/${mine.id}`, { sharing: 'tenant' }, { key: ada.secret });
    assert.ok((await ids('', bob.secret)).includes(runs[0]));
    assert.equal((await whole(runs[0], bob.secret)).code, 'alpha = 1');
    const bound = await server.ok('POST', '/api/tokens', { ttl_s: 600, session: (await server.ok('POST', '/api/sessions', {}, { key: bob.secret })).id }, { key: bob.secret });
    assert.deepEqual(await ids('', bound.secret), []);
  });
});
