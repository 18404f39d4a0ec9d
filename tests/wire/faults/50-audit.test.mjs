// SPDX-License-Identifier: Apache-2.0
// A trail that cannot be written: what would change anything is refused with
// 503 at every door, looking goes on, and when there is room again so does
// everything, with nothing missing from the trail.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Pool } from '../../lib/azure.mjs';
import { armFault, disarm, faultEnv, faultFired } from '../../lib/faults.mjs';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { restarted } from '../../lib/ledger.mjs';
import { modern, response } from '../../lib/mcp.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';

const config = { stop_deadline_s: 1, collect_every_s: 86400, scrub_bytes_per_s: 0, pools: [pool({ ready: 1 })] };
// A full disk, for everything the store writes.
const full = () => armFault({ op: ['write', 'pwrite', 'ftruncate'], path: 'glovebox.db', action: 'ENOSPC', forever: true });

let g;
let session;

before(async () => {
  g = await Glovebox.start({ config, env: faultEnv() });
  session = await g.session();
});
after(async () => {
  disarm();
  await stop(g);
});

const execute = (code = '1') => request(g, 'POST', `/api/sessions/${session.id}/executions`, { body: { code } });
const metric = async (name) => Number(new RegExp(`^${name} (\\d)`, 'm').exec((await request(g, 'GET', '/metrics')).text)[1]);

// Events that cannot be written are noticed when there are some.
const stopped = () => until(async () => (await execute()).status === 503, { ms: 20_000, every: 100, what: 'executions to stop' });
const started = () => until(async () => (await execute()).status === 200, { ms: 20_000, every: 100, what: 'executions to go on' });

describe('O3 while the trail cannot be written', () => {
  before(async () => {
    full();
    await stopped();
    assert.ok(faultFired() > 0);
  });
  after(disarm);

  test('O3 what would change anything is refused, with a sentence and when to try again', async () => {
    const got = await execute();
    refused(got, 503, 'unavailable', /audit trail cannot be written/);
    assert.ok(Number(got.headers['retry-after']) >= 1);
    for (const [method, path, body] of [['POST', '/api/sessions', {}], ['DELETE', `/api/sessions/${session.id}`], ['POST', '/api/run', { code: '1' }],
      ['POST', '/api/workspaces', { name: 'x' }], ['PUT', `/api/sessions/${session.id}/files/x`, 'x'], ['POST', '/api/keys', { scopes: ['execute'], tenant: 'x' }],
      ['POST', '/api/shares', { workspace: 'ws_0', path: 'x' }], ['PUT', '/s/nothing', 'x'], ['POST', '/api/audit/checkpoints']])
      refused(await request(g, method, path, { body }), 503, 'unavailable', /audit trail/);
  });

  test('O3 at the other doors, too', async () => {
    const openai = await request(g, 'POST', '/v1/containers', { body: { name: 'x' } });
    assert.equal(openai.status, 503, openai.text);
    const azure = await new Pool(g).run('1');
    assert.equal(azure.status, 503, azure.text);
    for (const [name, args] of [['execute_python', { code: '1' }], ['run_shell', { command: 'true' }], ['upload_file', { path: 'x', content: 'x' }]]) {
      const answer = response(await modern(g, 'tools/call', { name, arguments: args }, { headers: { 'mcp-name': name } }));
      assert.match(JSON.stringify(answer), /audit trail cannot be written/, name);
    }
  });

  test('O3 looking goes on, and so does stopping', async () => {
    for (const path of ['/api/sessions', `/api/sessions/${session.id}`, '/api/workspaces', '/api/audit', '/api/pools', '/healthz', '/metrics', '/api/audit/export', '/api/evidence', '/v1/containers'])
      assert.equal((await request(g, 'GET', path)).status, 200, path);
    assert.equal((await request(g, 'POST', `/api/sessions/${session.id}/interrupt`)).status, 202);
    assert.equal((await request(g, 'POST', '/api/audit/verify')).status, 200);
    const answer = response(await modern(g, 'tools/call', { name: 'list_sessions', arguments: {} }, { headers: { 'mcp-name': 'list_sessions' } }));
    assert.ok(answer.result && !answer.result.isError, JSON.stringify(answer));
  });

  test('O3 machines are told: not ready, and a number', async () => {
    const ready = await request(g, 'GET', '/readyz', { key: null });
    refused(ready, 503, 'unavailable', /audit trail/);
    assert.equal(await metric('glovebox_audit_writable'), 0);
  });
});

test('O3 with room again everything goes on by itself, and the trail has it all', async () => {
  await started();
  assert.equal((await request(g, 'GET', '/readyz', { key: null })).status, 200);
  assert.equal(await metric('glovebox_audit_writable'), 1);
  const { data } = await g.ok('GET', '/api/audit?action=audit.resumed');
  assert.ok(data.length >= 1);
  assert.match(data[0].detail, /could not be written for \d+ seconds/);
  assert.equal((await g.ok('POST', '/api/audit/verify')).ok, true);
  // Every execution that ran is in it, also those that ran before it was noticed.
  const ran = (await g.ok('GET', `/api/evidence?session=${session.id}`)).data.map((r) => r.execution);
  const told = (await g.ok('GET', '/api/audit?action=execution.run&limit=1000')).data.map((e) => e.object);
  assert.deepEqual([...ran].sort(), told.filter((id) => ran.includes(id)).sort());
});

test('O3 what began before it was noticed is in the trail, even if the service is killed while the disk is full', async () => {
  const ran = [];
  full();
  const one = async () => {
    const got = await execute('6 * 7');
    if (got.status === 200) ran.push(got.body.id);
    return got.status === 503;
  };
  await until(one, { ms: 20_000, every: 10, what: 'executions to stop' });
  assert.ok(ran.length > 0, 'some run before it is noticed');
  const slow = ran.length;
  g.child.kill('SIGKILL');
  await g.exited;
  disarm();
  g = await restarted(g, { config, env: faultEnv() });
  const told = (await g.ok('GET', '/api/audit?action=execution.&limit=1000')).data.filter((e) => ran.includes(e.object));
  assert.deepEqual(told.map((e) => e.object).sort(), [...ran].sort(), 'each once');
  const lost = told.filter((e) => e.action === 'execution.lost');
  assert.ok(lost.length > 0, `${slow} ran`);
  assert.deepEqual([lost[0].before, lost[0].result], [session.id, 'unavailable']);
  assert.equal((await g.ok('POST', '/api/audit/verify')).ok, true);
  await started();
});

test('O3 what waited for its turn does not begin once the trail has failed', async () => {
  const other = await g.session();
  const begin = async (body) => (await request(g, 'POST', `/api/sessions/${session.id}/executions`, { body: { mode: 'async', ...body } })).body.id;
  const status = async (id) => (await request(g, 'GET', `/api/executions/${id}`)).body;
  const running = await begin({ code: 'import time; time.sleep(50)', timeout_s: 55 });
  await until(async () => (await status(running)).status === 'running', { what: 'the first to run' });
  const waiting = await begin({ code: 'open("/mnt/data/began", "w")' });
  full();
  await until(async () => /audit trail/.test((await request(g, 'POST', `/api/sessions/${other.id}/executions`, { body: { code: '1' } })).text), { ms: 20_000, every: 50, what: 'the trail to fail' });
  assert.equal((await request(g, 'POST', `/api/sessions/${session.id}/interrupt`)).status, 202);
  const over = await until(async () => { const e = await status(waiting); return e.status === 'completed' && e; }, { what: 'its end' });
  assert.equal(over.outcome, 'cancelled');
  assert.match(over.error.message, /audit trail cannot be written/);
  disarm();
  await started();
  assert.equal((await request(g, 'GET', `/api/sessions/${session.id}/files/began`)).status, 404);
});

test('O3 an operator may do without', async () => {
  const lax = await Glovebox.start({ config: { ...config, audit_required: false }, env: faultEnv() });
  try {
    const own = await lax.session();
    full();
    for (let i = 0; i < 4; i++) {
      assert.equal((await own.python('6 * 7')).outcome, 'ok');
      await until(() => lax.log.includes('audit_events_wait'), { what: 'the complaint' });
    }
    assert.equal((await fetch(`${lax.url}/readyz`)).status, 200);
    assert.match((await lax.call('GET', '/metrics')).text, /^glovebox_audit_writable 0$/m);
    disarm();
    await until(async () => (await lax.ok('GET', '/api/audit?action=audit.resumed')).data.length > 0, { what: 'the rest' });
  } finally {
    disarm();
    await stop(lax);
  }
});
