// SPDX-License-Identifier: Apache-2.0
// A client that never deletes: at the limit the longest-idle session goes to
// sleep, keeps its files, and says so when it wakes.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { request, stop } from '../../lib/wire.mjs';

const sleep = (ms) => new Promise((wake) => { setTimeout(wake, ms); });
let g;

before(async () => { g = await Glovebox.start({ config: { sessions_per_tenant: 2, creations_per_s: 0, pools: [pool({ ready: 1 })] } }); });
after(() => stop(g));

const made = async () => Number(/glovebox_sessions_total\{event="made_room"\} (\d+)/.exec((await request(g, 'GET', '/metrics')).text)[1]);

test('R8 sessions that have run nothing never fill the limit', async () => {
  const a = await g.tenant('unused');
  const all = [];
  for (let i = 0; i < 6; i++) all.push(await g.session({}, a));
  assert.equal(await all[0].out('print(6 * 7)'), '42', 'the first still works');
});

test('R8 containers that have run nothing hold no sandbox', async () => {
  const a = await g.tenant('containers');
  const ids = [];
  for (let i = 0; i < 8; i++) ids.push((await g.ok('POST', '/v1/containers', { name: `c${i}` }, a)).id);
  const used = async () => (await g.ok('GET', '/api/quotas', undefined, a)).quotas.find((q) => q.name === 'live_sessions').used;
  assert.equal(await used(), 0);
  const run = await g.ok('POST', `/api/sessions/${ids[5]}/executions`, { code: 'print(6 * 7)' }, a);
  assert.equal(run.stdout, '42\n');
  assert.equal(await used(), 1);
  assert.equal((await g.ok('GET', `/v1/containers/${ids[5]}`, undefined, a)).status, 'running');
});

test('R8 the longest idle goes to sleep, with its files, and says so when it wakes', async () => {
  const a = await g.tenant('idle');
  const old = await g.session({}, a);
  await old.out('x = 1; open("kept.txt", "w").write("kept")');
  await sleep(1200);
  const recent = await g.session({}, a);
  await recent.out('y = 2');
  // Both were used within the last seconds: the answer says when one can go.
  const early = await g.call('POST', '/api/sessions', {}, a);
  assert.equal(early.status, 429, early.text);
  assert.equal(early.body.error.code, 'limit_reached');
  assert.match(early.body.error.hint, /2 used or kept awake in the last seconds/);
  const wait = Number(early.headers.get('retry-after'));
  assert.ok(wait >= 1 && wait <= 5, `${wait}`);
  const before = await made();
  await sleep(wait * 1000);
  const third = await g.session({}, a);
  assert.equal(await made(), before + 1, 'after the time it named');
  assert.equal((await old.get()).state, 'dormant');
  assert.equal((await recent.get()).state, 'idle');
  assert.match(g.log, new RegExp(`session_slept_for_room.*${old.id}.*idle`));
  await third.delete();
  const again = await old.python('open("kept.txt").read()');
  assert.equal(again.result['text/plain'], "'kept'");
  assert.equal(again.interpreter, 'fresh');
});

test('R8 what runs and what is kept awake stays', async () => {
  const a = await g.tenant('busy');
  const running = await g.session({}, a);
  const run = await g.ok('POST', `${running.path}/executions`, { code: 'import time; time.sleep(60)', mode: 'async' }, a);
  const kept = await g.session({}, a);
  await kept.out('1');
  await g.ok('POST', `${kept.path}/keepalive`, undefined, a);
  await sleep(5200);
  const no = await g.call('POST', '/api/sessions', {}, a);
  assert.equal(no.status, 429, no.text);
  assert.match(no.body.error.hint, /1 in use, 1 used or kept awake/);
  assert.equal(no.headers.get('retry-after'), '5');
  await g.call('POST', `/api/executions/${run.id}/cancel`, {}, a);
});
