// SPDX-License-Identifier: Apache-2.0
// A warden that is stopped, slow or dead, and a daemon that runs out of file
// descriptors: what is asked meanwhile is refused with a reason, the status
// says so, everything works again afterwards and nothing is left behind.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, sleep, until } from '../../lib/glovebox.mjs';

const nothing = { processes: 0, groups: 0, loops: 0, images: 0 };
const same = (got, want) => JSON.stringify(got) === JSON.stringify(want);
const settled = (server, want, what) => until(() => same(server.holdings(), want), { ms: 30_000, every: 100, what })
  .catch((error) => { throw new Error(`${what}: ${JSON.stringify(server.holdings())}`, { cause: error }); });
const ready = async (server) => (await server.call('GET', '/readyz', undefined, { key: null })).status;
const metric = async (server, name) => {
  const line = (await server.call('GET', '/metrics')).text.split('\n').find((l) => l.startsWith(`${name} `));
  return Number(line?.split(' ')[1]);
};

describe('a warden that does not answer', () => {
  let server;
  let warden;

  before(async () => {
    server = await Glovebox.start({ config: { pools: [pool({ ready: 0 })] } });
    ({ warden } = server.processes());
  });
  after(async () => {
    try { process.kill(warden, 'SIGCONT'); } catch { /* it ended */ }
    await server?.stop();
  });

  test('R9: while the warden is stopped the service says that it is not ready, and it recovers by itself', async () => {
    await settled(server, nothing, 'nothing to begin with');
    const sessions = [];
    for (let i = 0; i < 4; i++) sessions.push(await server.session());
    const kept = await server.session();
    await kept.out('x = 41');
    const held = server.holdings();
    assert.equal(await ready(server), 200);
    assert.equal(await metric(server, 'glovebox_warden_answers'), 1);

    process.kill(warden, 'SIGSTOP');
    const deletes = Promise.all(sessions.map((s) => s.delete()));
    const created = server.call('POST', '/api/sessions', {});
    await until(async () => (await ready(server)) === 503, { ms: 20_000, every: 100, what: 'not ready' });
    assert.equal(await metric(server, 'glovebox_warden_answers'), 0);
    assert.ok(await metric(server, 'glovebox_warden_silent_seconds') > 1);
    const notReady = await server.call('GET', '/readyz', undefined, { key: null });
    assert.match(notReady.text, /has not answered/);
    assert.ok(Number(notReady.headers.get('retry-after')) > 0);
    assert.equal((await server.call('GET', '/healthz', undefined, { key: null })).status, 200, 'it lives');

    const started = Date.now();
    const refused = await server.call('POST', '/api/sessions', {});
    assert.equal(refused.status, 503);
    assert.match(refused.body.error.message, /has not answered for \d+ s/);
    assert.ok(Number(refused.headers.get('retry-after')) > 0);
    assert.ok(Date.now() - started < 10_000, 'refused at once, not after the deadline of a call');
    assert.equal(await kept.out('print(x + 1)'), '42', 'a session that runs does not need the warden');
    for (const gone of await deletes) assert.equal(gone.status, 204);
    assert.equal(server.holdings().loops, held.loops, 'their storage could not be freed yet');

    process.kill(warden, 'SIGCONT');
    await until(async () => (await ready(server)) === 200, { ms: 20_000, every: 50, what: 'ready again' });
    assert.equal(await metric(server, 'glovebox_warden_answers'), 1);
    const late = await created;
    assert.ok(late.status === 201 || late.status === 503, String(late.status));
    if (late.status === 201) await server.ok('DELETE', `/api/sessions/${late.body.id}`);
    const fresh = await server.session();
    assert.equal(await fresh.out('print(6 * 7)'), '42');
    await fresh.delete();
    assert.equal(await kept.out('print(x + 2)'), '43');
    await kept.delete();
    await settled(server, nothing, 'no sandbox is left');
    assert.equal(await metric(server, 'glovebox_warden_owed'), 0);
  });

  test('R9: an idle service notices a stopped warden too', async () => {
    process.kill(warden, 'SIGSTOP');
    await until(async () => (await ready(server)) === 503, { ms: 20_000, every: 100, what: 'not ready' });
    process.kill(warden, 'SIGCONT');
    await until(async () => (await ready(server)) === 200, { ms: 20_000, every: 50, what: 'ready again' });
    const fresh = await server.session();
    assert.equal(await fresh.out('print(6 * 7)'), '42');
    await fresh.delete();
    await settled(server, nothing, 'no sandbox is left');
  });

  test('R9: a warden that died ends the service with a reason, so that it is started again', async () => {
    process.kill(warden, 'SIGKILL');
    const exit = await server.exited;
    assert.notEqual(exit.code, 0);
    assert.match(server.log, /warden_gone/);
    assert.match(server.log, /privileged helper \(glovebox-warden\) has ended/);
  });
});
