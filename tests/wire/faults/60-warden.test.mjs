// SPDX-License-Identifier: Apache-2.0
// A warden that is stopped, slow or dead, and a daemon that runs out of file
// descriptors: what is asked meanwhile is refused with a reason, the status
// says so, everything works again afterwards and nothing is left behind.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
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

describe('a daemon that runs out of file descriptors', () => {
  const LIMIT = 512;
  let server;

  before(async () => {
    server = await Glovebox.start({
      under: ['prlimit', `--nofile=${LIMIT}:${LIMIT}`, '--'],
      config: { connections: 480, sessions_per_tenant: 1000, pools: [pool({ ready: 0, scratch_bytes: '16MiB', scratch_inodes: 1000 })] },
    });
  });
  after(() => server?.stop());

  const open = () => readdirSync(`/proc/${server.pid}/fd`).length;

  test('R8: the start lowers the number of sessions to what the limit has room for, and says so', () => {
    const line = server.log.split('\n').find((l) => l.includes('max_sessions_lowered'));
    assert.ok(line, server.log);
    const to = Number(/to="?(\d+)/.exec(line)[1]);
    assert.ok(to >= 10 && to < LIMIT / 13, line);
    assert.match(readFileSync(`/proc/${server.pid}/limits`, 'utf8'), new RegExp(`Max open files\\s+${LIMIT}\\s+${LIMIT}`));
  });

  // Ephemeral ones: others would go to sleep to make room.
  test('R8: one tenant fills the service with sessions; the last gets 429, others and the sessions there are go on', async () => {
    const greedy = await server.tenant('greedy');
    const other = await server.tenant('other');
    const before = open();
    const sessions = [];
    let refused;
    for (let i = 0; i < LIMIT && !refused; i++) {
      const made = await server.call('POST', '/api/sessions', { persistence: 'ephemeral' }, greedy);
      if (made.status === 201) sessions.push(made.body.id);
      else refused = made;
    }
    assert.equal(refused.status, 429, refused.text);
    assert.ok(sessions.length >= 10);
    assert.equal((await server.call('GET', '/readyz', undefined, { key: null })).status, 200);
    const ran = await server.ok('POST', `/api/sessions/${sessions[0]}/executions`, { language: 'python', code: 'print(6 * 7)' }, greedy);
    assert.equal(ran.stdout.trim(), '42');
    assert.equal((await server.call('GET', '/api/sessions', undefined, other)).status, 200);
    for (const id of sessions) assert.equal((await server.call('DELETE', `/api/sessions/${id}`, undefined, greedy)).status, 204);
    const fresh = await server.session({}, other);
    assert.equal(await fresh.out('print(6 * 7)'), '42');
    await fresh.delete();
    await until(() => open() <= before + 8, { what: 'as many descriptors as before' });
    await settled(server, nothing, 'no sandbox is left');
  });

  test('R8: connections fill the table: another session is a 429 with a reason, and it passes', async () => {
    const kept = await server.session();
    await kept.out('x = 41');
    const { port } = new URL(server.url);
    const silent = [];
    let refused = 0;
    // From plenty to nothing: whichever descriptor is the first that cannot
    // be had, the answer is the same, or there is no connection to answer on.
    for (let step = 0; step < 30; step++) {
      for (let i = 0; i < 16; i++) {
        const socket = connect(Number(port), '127.0.0.1');
        socket.on('error', () => {});
        socket.resume();
        socket.write(`GET /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${server.key}\r\n\r\n`);
        silent.push(socket);
      }
      await sleep(100);
      const made = await Promise.race([server.call('POST', '/api/sessions', {}).catch(() => undefined), sleep(3000)]);
      if (!made) continue;
      if (made.status === 201) {
        await server.call('DELETE', `/api/sessions/${made.body.id}`).catch(() => undefined);
        continue;
      }
      assert.equal(made.status, 429, `${step}: ${made.text}`);
      assert.match(made.body.error.message, /file descriptors/);
      assert.ok(Number(made.headers.get('retry-after')) > 0);
      refused++;
    }
    assert.ok(refused > 0, 'it was refused');
    for (const socket of silent) socket.destroy();
    await until(() => open() < LIMIT / 2, { what: 'the connections are gone' });
    await until(async () => (await ready(server)) === 200, { what: 'ready' });
    assert.equal(await kept.out('print(x + 1)'), '42');
    for (const { id } of (await server.ok('GET', '/api/sessions')).data ?? []) await server.call('DELETE', `/api/sessions/${id}`);
    const fresh = await server.session();
    assert.equal(await fresh.out('print(6 * 7)'), '42');
    await fresh.delete();
    await settled(server, nothing, 'no sandbox is left');
  });
});
