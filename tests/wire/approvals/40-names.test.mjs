// SPDX-License-Identifier: Apache-2.0
// What an approver reads: names instead of ids, what would be opened and for
// which sessions, every destination. What no approval can open is refused at
// once. An approved run's evidence has the request and the source.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { approvals, decide, ended, policy, show } from '../../lib/approvals.mjs';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { request, stop } from '../../lib/wire.mjs';
import { conforms, mint, openapi } from '../../lib/workspace.mjs';

const RULES = `version: 1
rules:
  - {name: shell, match: {action: execute, language: shell}, then: ask}
  - {name: networks, match: {action: egress}, then: ask}
  - {name: no-sessions-for-scripts, match: {action: session, network: open}, then: deny}
`;

let server;
let doc;
let agent;
let boss;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 1 })] } });
  agent = await mint(server, ['execute', 'files:read', 'files:write', 'audit:read'], { name: 'nightly agent' });
  boss = await mint(server, ['approve'], { name: 'Ada' });
  doc = await openapi(server);
  await policy(server, RULES);
});
after(() => stop(server));

const pending = async () => (await approvals(server, '?state=pending', boss.secret)).data;
const create = (network) => request(server, 'POST', '/api/sessions', { key: agent.secret, body: { network } });
const to = (...hosts) => ({ mode: 'allowlist', destinations: hosts.map((host) => ({ host })) });
const idOf = (answer) => /apr_[0-9a-f]{32}/.exec(answer.text)[0];

describe('names', () => {
  test('stand beside ids in the approval, the evidence, the trail and the CLI', async () => {
    const s = await server.session({}, { key: agent.secret });
    const got = await request(server, 'POST', `${s.path}/executions`, { key: agent.secret, body: { language: 'shell', code: 'echo hi' } });
    assert.equal(got.status, 202, got.text);
    const waiting = await show(server, got.body.approval, boss.secret);
    assert.equal(waiting.asked_by, agent.id);
    assert.equal(waiting.asked_by_name, 'nightly agent');
    assert.equal(waiting.decided_by_name, null);
    assert.ok(waiting.summary.includes(`session ${s.id} of pool default`), waiting.summary);
    const cli = new Cli(server);
    const listed = await cli.run(['approvals', 'list']);
    assert.ok(listed.stdout.includes('nightly agent'), listed.stdout);

    const yes = await decide(server, got.body.approval, 'approve', boss.secret);
    conforms(doc, 'POST', '/api/approvals/{id}/approve', yes);
    assert.equal(yes.body.decided_by_name, 'Ada');
    await ended(server, got.body.id);
    const page = await until(async () => {
      const e = await server.ok('GET', `/api/executions/${got.body.id}/evidence`);
      return e.outcome === 'ok' && e;
    }, { what: 'the evidence of the run' });
    assert.equal(page.who.key, agent.id);
    assert.equal(page.who.name, 'nightly agent');
    assert.equal(page.who.source, '127.0.0.1');
    assert.equal(page.who.request, got.headers['x-request-id'] ?? got.headers.get?.('x-request-id'));
    assert.equal(page.approval.by_name, 'Ada');

    const rows = await request(server, 'GET', '/api/evidence');
    conforms(doc, 'GET', '/api/evidence', rows);
    assert.equal(rows.body.data.find((r) => r.execution === got.body.id).key_name, 'nightly agent');
    const trail = await request(server, 'GET', `/api/audit?action=approval.approve`);
    conforms(doc, 'GET', '/api/audit', trail);
    assert.equal(trail.body.data[0].actor, boss.id);
    assert.equal(trail.body.data[0].actor_name, 'Ada');
    assert.match((await cli.run(['audit', 'list', '--action', 'approval.approve'])).stdout, /\bAda\b/);
    assert.match((await cli.run(['audit', 'show', got.body.id])).stdout, /nightly agent/);
    cli.close?.();
  });

  test('of a token is that of its key', async () => {
    const token = await server.ok('POST', '/api/tokens', { ttl_s: 60, name: 'short', scopes: ['execute'] }, { key: agent.secret });
    const s = await server.session({}, { key: token.secret });
    const got = await request(server, 'POST', `${s.path}/executions`, { key: token.secret, body: { language: 'shell', code: 'true' } });
    const waiting = await show(server, got.body.approval, boss.secret);
    assert.equal(waiting.asked_by, agent.id);
    assert.equal(waiting.asked_by_name, 'nightly agent');
    await decide(server, got.body.approval, 'deny', boss.secret, { reason: 'test' });
  });
});

describe('the summary', () => {
  test('of a pool says that every session of it is opened, and to what', async () => {
    const got = await request(server, 'POST', '/api/pools',
      { body: { name: 'web', egress: 'allowlist', egress_allow: 'a.example.com, b.example.com:8443, *.c.example.com' } });
    assert.equal(got.status, 202, got.text);
    const held = await show(server, idOf(got), boss.secret);
    assert.equal(held.summary,
      'open pool web, for every session in it, to a.example.com, b.example.com:8443, *.c.example.com');
    assert.equal(held.payload.pool, 'web');
    assert.equal(held.payload.network.destinations.length, 3);
    await decide(server, held.id, 'approve', boss.secret);
    const again = await request(server, 'POST', '/api/pools',
      { body: { name: 'web', egress: 'allowlist', egress_allow: 'a.example.com, b.example.com:8443, *.c.example.com' } });
    assert.equal(again.status, 201, again.text);
  });

  test('of a session names its pool; the details have what has no room in it', async () => {
    const hosts = Array.from({ length: 60 }, (_, i) => `host-${i}.example.com`);
    const got = await create(to(...hosts));
    assert.equal(got.status, 202, got.text);
    const held = await show(server, idOf(got), boss.secret);
    assert.match(held.summary, /^open a new session in pool default to host-0\.example\.com, .* and \d+ more$/);
    assert.deepEqual(held.payload.network.destinations.map((d) => d.host), hosts);
    const s = await server.session({}, { key: agent.secret });
    const set = await request(server, 'PUT', `${s.path}/network`, { key: agent.secret, body: to('x.example.com') });
    assert.equal(set.status, 202, set.text);
    assert.equal((await show(server, idOf(set), boss.secret)).summary,
      `open session ${s.id} in pool default to x.example.com`);
  });
});

describe('what no approval can open', () => {
  for (const host of ['169.254.169.254', '127.0.0.1', '10.1.2.3', '::1', 'localhost', 'db.localhost'])
    test(`is refused at once: ${host}`, async () => {
      const before_ = (await pending()).length;
      const got = await create(to('a.example.com', host));
      assert.equal(got.status, 403, got.text);
      assert.match(got.body.error.message, /never reachable/);
      assert.equal((await pending()).length, before_);
    });

  test('is refused at once: a network for a session that policy denies', async () => {
    const before_ = (await pending()).length;
    const got = await create({ mode: 'open' });
    assert.equal(got.status, 403, got.text);
    assert.match(got.body.error.message, /no-sessions-for-scripts/);
    assert.equal((await pending()).length, before_);
  });
});
