// SPDX-License-Identifier: Apache-2.0
// GET /api/events: one resumable stream of what happens, limited to what its
// reader may see; it ends with the credential, and a slow reader costs little.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { policy } from '../../lib/approvals.mjs';
import { Browser, start } from '../../lib/console-wire.mjs';
import { sleep, until } from '../../lib/glovebox.mjs';
import { refused, request, resident, sanitized, stop, Stream } from '../../lib/wire.mjs';

let server;
const keys = {};
before(async () => {
  // A stream that nobody reads is an idle connection; here it must not end as one.
  server = await start({ idle_timeout_s: 3600 });
  const make = async (name, scopes, more = {}) => { keys[name] = (await server.ok('POST', '/api/keys', { name, scopes, ...more })).secret; };
  await make('ada', ['execute', 'files:read', 'files:write']);
  await make('bob', ['execute', 'files:read', 'files:write', 'approve']);
  await make('auditor', ['audit:read']);
  await make('eve', ['execute', 'files:read', 'files:write', 'approve', 'audit:read', 'policy:admin'], { tenant: 'theirs' });
});
after(() => stop(server));

const open = async (key, query = '', headers = {}) => {
  const stream = await Stream.open(server, 'GET', `/api/events${query}`, { key, headers });
  assert.equal(stream.status, 200);
  await until(() => stream.events.length, { what: 'the first event' });
  return stream;
};
const call = (key, method, path, body) => server.ok(method, path, body, { key });
const has = (stream, type, test = () => true) => stream.events.find((e) => e.event === type && test(e.data));
const gets = (stream, type, test) => until(() => has(stream, type, test), { ms: 60_000, what: `an event ${type}, not only ${JSON.stringify(stream.events.map((e) => [e.event, e.data]))}` });
const ended = async (stream) => {
  let how;
  stream.ended.then((whole) => { how = { whole }; });
  return (await until(() => how, { ms: 60_000, what: 'the end of the stream' })).whole;
};
const close = (...streams) => streams.forEach((s) => s.request.destroy());

describe('what happens', () => {
  test('sessions and executions, with progress, in order', async () => {
    const stream = await open(keys.ada);
    assert.equal(stream.events[0].event, 'hello');
    assert.match(stream.headers['content-type'], /^text\/event-stream/);
    const session = await call(keys.ada, 'POST', '/api/sessions', {});
    const began = performance.now();
    const run = await call(keys.ada, 'POST', `/api/sessions/${session.id}/executions`,
      { mode: 'async', code: 'import time\nx = bytearray(b"x") * 50_000_000\ndel x\ntry: time.sleep(600)\nexcept KeyboardInterrupt: pass' });
    const mine = (d) => d.execution === run.id;
    // In use now: what was freed is no longer counted, but in the peak.
    const seen = await gets(stream, 'progress', (d) => mine(d) && d.elapsed_ms > 500
      && (!('peak_memory_bytes' in d) || d.peak_memory_bytes > 40_000_000)
      && (!('memory_bytes' in d) || (d.memory_bytes > 1_000_000 && d.memory_bytes < d.peak_memory_bytes - 40_000_000)));
    assert.ok(seen.data.elapsed_ms <= performance.now() - began, 'no more than it can be');
    await call(keys.ada, 'POST', `/api/sessions/${session.id}/interrupt`);
    await gets(stream, 'execution', (d) => mine(d) && d.status === 'completed');
    const statuses = stream.events.filter((e) => e.event === 'execution' && mine(e.data)).map((e) => e.data.status);
    assert.deepEqual(statuses.filter((s, i) => s !== statuses[i - 1]), ['queued', 'running', 'completed'].slice(-new Set(statuses).size));
    const done = has(stream, 'execution', (d) => mine(d) && d.status === 'completed').data;
    assert.equal(done.outcome, 'ok');
    assert.equal(done.language, 'python');
    assert.equal(done.principal_name, 'ada');
    assert.equal(done.session, session.id);
    await gets(stream, 'session', (d) => d.session === session.id && d.state === 'idle');
    await server.call('DELETE', `/api/sessions/${session.id}`, undefined, { key: keys.ada });
    await gets(stream, 'session', (d) => d.session === session.id && d.state === 'ended');
    const ids = stream.events.map((e) => e.id).filter((id) => !Number.isNaN(id));
    assert.deepEqual(ids, [...ids].sort((a, b) => a - b), 'numbers rise');
    close(stream);
  });

  test('files, approvals, policy, blocked attempts; the trail only for those who ask and may', async () => {
    const [ada, bob, auditor, admin] = [await open(keys.ada), await open(keys.bob), await open(keys.auditor, '?types=audit'), await open(server.key)];
    const ws = (await call(keys.ada, 'POST', '/api/workspaces', { name: 'live' })).id;
    await request(server, 'PUT', `/api/workspaces/${ws}/files/a.txt`, { key: keys.ada, body: 'x' });
    await gets(ada, 'workspace', (d) => d.workspace === ws && d.action === 'file.put' && d.path === 'a.txt' && d.principal_name === 'ada');
    await policy(server, 'version: 1\nrules:\n  - {name: shell, match: {action: execute, language: shell}, then: ask}\n');
    await gets(admin, 'policy', (d) => d.action === 'policy.put');
    const session = await call(keys.ada, 'POST', '/api/sessions', {});
    const held = await call(keys.ada, 'POST', `/api/sessions/${session.id}/executions`, { language: 'shell', code: 'true' });
    await gets(ada, 'execution', (d) => d.execution === held.id && d.status === 'pending_approval');
    await gets(bob, 'approval', (d) => d.object === held.approval && d.action === 'approval.ask');
    await call(keys.bob, 'POST', `/api/approvals/${held.approval}/approve`, {});
    await gets(ada, 'approval', (d) => d.object === held.approval && d.action === 'approval.approve');
    await gets(ada, 'execution', (d) => d.execution === held.id && d.status === 'completed');
    await call(keys.ada, 'POST', `/api/sessions/${session.id}/executions`, { code: 'import socket\ntry: socket.create_connection(("192.0.2.1", 80), 1)\nexcept OSError: pass' });
    await gets(ada, 'network', (d) => d.action === 'network.blocked' && /192\.0\.2\.1/.test(d.detail) && d.session === session.id);
    await gets(auditor, 'audit', (d) => d.action === 'approval.approve');
    assert.ok(!has(ada, 'audit') && !has(admin, 'audit'), 'not unless asked for');
    assert.ok(!has(ada, 'policy'));
    assert.ok(!bob.events.some((e) => e.data.session === session.id || e.data.execution === held.id), 'a private session of another');
    close(ada, bob, auditor, admin);
    await policy(server, 'version: 1\nrules: []\n');
  });
});

describe('U5: who sees what', () => {
  test('another tenant, another principal and a bound token see nothing of it', async () => {
    const other = await call(keys.ada, 'POST', '/api/sessions', {});
    const bound = (await call(keys.ada, 'POST', '/api/tokens', { ttl_s: 600, session: other.id })).secret;
    const [eve, bob, narrow, ada] = [await open(keys.eve, '?types=session,execution,progress,workspace,approval,network,admin,audit'), await open(keys.bob), await open(bound), await open(keys.ada)];
    const session = await call(keys.ada, 'POST', '/api/sessions', {});
    await call(keys.ada, 'POST', `/api/sessions/${session.id}/executions`, { code: 'open("f", "w").write("x")' });
    await call(keys.ada, 'POST', `/api/sessions/${other.id}/executions`, { code: '1' });
    await gets(narrow, 'execution', (d) => d.session === other.id && d.status === 'completed');
    await gets(ada, 'execution', (d) => d.session === session.id && d.status === 'completed');
    await gets(ada, 'workspace', (d) => d.workspace === session.workspace);
    await sleep(1200);
    assert.deepEqual(eve.events.filter((e) => e.event !== 'hello'), []);
    for (const stream of [bob, narrow]) assert.ok(!JSON.stringify(stream.events).includes(session.id));
    assert.ok(!JSON.stringify(bob.events).includes(session.workspace));
    // Once it is shared, others of the tenant see it.
    await call(keys.ada, 'PATCH', `/api/sessions/${session.id}`, { sharing: 'tenant' });
    await call(keys.ada, 'POST', `/api/sessions/${session.id}/executions`, { code: '1' });
    await gets(bob, 'execution', (d) => d.session === session.id);
    close(eve, bob, narrow, ada);
  });
});

describe('coming back', () => {
  test('continues after the last event, by header or parameter', async () => {
    const first = await open(keys.ada);
    const a = await call(keys.ada, 'POST', '/api/sessions', {});
    await gets(first, 'session', (d) => d.session === a.id);
    const last = first.events.filter((e) => !Number.isNaN(e.id)).at(-1).id;
    close(first);
    const b = await call(keys.ada, 'POST', '/api/sessions', {});
    for (const [query, headers] of [[`?after=${last}`, {}], ['', { 'last-event-id': String(last) }]]) {
      const again = await open(keys.ada, query, headers);
      await gets(again, 'session', (d) => d.session === b.id);
      assert.ok(again.events.every((e) => e.event !== 'hello' && e.event !== 'reset' && (Number.isNaN(e.id) || e.id > last)));
      close(again);
    }
  });

  test('after too long, or a restart, it is told to start anew', async () => {
    for (const after of ['1', '99999999999999999']) {
      const stream = await open(keys.ada, `?after=${after}`);
      await gets(stream, 'reset');
      const session = await call(keys.ada, 'POST', '/api/sessions', {});
      await gets(stream, 'session', (d) => d.session === session.id);
      close(stream);
    }
    for (const [query, headers] of [['?after=x', {}], ['', { 'last-event-id': 'x' }], ['?types=nonsense', {}], ['?types=session,,x', {}]])
      refused(await request(server, 'GET', `/api/events${query}`, { key: keys.ada, headers }), 400);
  });
});

describe('U4: the end', () => {
  test('signing out, revoking the token or its key ends the stream at once', async () => {
    for (const end of ['logout', 'token', 'key']) {
      const made = await server.ok('POST', '/api/keys', { name: end, scopes: ['execute'] });
      const browser = new Browser(server);
      const me = await browser.login(made.secret);
      const stream = await browser.stream('/api/events');
      await until(() => stream.events.length, { ms: 60_000 });
      if (end === 'logout') assert.equal((await browser.call('POST', '/api/console/logout')).status, 204);
      else await server.call('DELETE', end === 'key' ? `/api/keys/${made.id}` : `/api/tokens/${me.token}`);
      // Without this the stream would go on for the token's twelve hours.
      assert.equal(await ended(stream), true, `${end}: a proper end`);
      const again = await request(server, 'GET', '/api/events', { key: null, headers: browser.headers('GET') });
      assert.equal(again.status, 401);
    }
  });

  test('so does the token\'s own time', async () => {
    const token = (await call(keys.ada, 'POST', '/api/tokens', { ttl_s: 5 })).secret;
    const stream = await open(token);
    assert.equal(await ended(stream), true);
  });
});

describe('many and slow', () => {
  test('a principal has so many streams and no more', async () => {
    const streams = [];
    for (let i = 0; i < 32; i++) streams.push(await open(keys.bob));
    refused(await request(server, 'GET', '/api/events', { key: keys.bob }), 429, 'limit_reached');
    close(...streams);
    await until(async () => {
      const s = await Stream.open(server, 'GET', '/api/events', { key: keys.bob });
      s.request.destroy();
      return s.status === 200;
    });
  });

  test('a reader that does not read costs bounded memory, in the kernel too, and gets a reset', async () => {
    const [stuck, other] = [await open(keys.auditor, '?types=audit'), await open(keys.auditor, '?types=audit')];
    stuck.request.socket.pause();
    const hex = (port) => `:${Number(port).toString(16).toUpperCase().padStart(4, '0')}`;
    const ends = [hex(new URL(server.url).port), hex(stuck.request.socket.localPort)];
    // Bytes that the service's side of the connection holds.
    const unsent = () => readFileSync('/proc/net/tcp', 'utf8').split('\n').map((line) => line.trim().split(/\s+/))
      .filter((f) => f[1]?.endsWith(ends[0]) && f[2].endsWith(ends[1])).map((f) => parseInt(f[4], 16));
    const before = resident(server.pid);
    const ws = (await call(keys.ada, 'POST', '/api/workspaces', {})).id;
    const long = Array.from({ length: 4 }, () => 'p'.repeat(240)).join('/');
    // The ring has 4,096 places, and the buffers on the way hold some hundred events of this length.
    const first = other.events[0].id;
    const turned = () => other.events.at(-1).id > first + 4096 + 1200;
    const deadline = Date.now() + 180_000;
    let n = 0;
    await Promise.all(Array.from({ length: 8 }, async () => {
      while (!turned()) {
        assert.ok(Date.now() < deadline, `only ${other.events.at(-1).id - first} events`);
        const made = await request(server, 'POST', `/api/workspaces/${ws}/locks`, { key: keys.ada, body: { path: `${long}/${n++}` } });
        assert.equal(made.status, 201, made.text);
        await request(server, 'DELETE', `/api/workspaces/${ws}/locks/${made.body.id}`, { key: keys.ada, headers: { 'x-glovebox-lock': made.body.token } });
      }
    }));
    assert.ok(!has(other, 'reset'), 'a reader that reads misses nothing because of another');
    const held = unsent();
    assert.equal(held.length, 1, 'the connection is there');
    assert.ok(held[0] < 1 << 20, `${held[0]} bytes unsent`);
    const grown = resident(server.pid) - before;
    if (!sanitized) assert.ok(grown < 60e6, `${grown / 1e6} MB`);
    stuck.request.socket.resume();
    await gets(stuck, 'reset');
    const session = await call(keys.ada, 'POST', '/api/sessions', {});
    await gets(stuck, 'audit', (d) => d.object === session.id);
    const ids = stuck.events.map((e) => e.id);
    assert.deepEqual(ids, [...ids].sort((a, b) => a - b), 'numbers rise over the reset');
    close(stuck, other);
  });
});
