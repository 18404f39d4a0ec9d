// SPDX-License-Identifier: Apache-2.0
// Under four_eyes a change of the policy, of keys, quotas or secrets by one
// administrator waits for another principal, who is never the requester.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { decide, show } from '../../lib/approvals.mjs';
import { arm, poolBody } from '../../lib/azure.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { request, stop } from '../../lib/wire.mjs';
import { mint } from '../../lib/workspace.mjs';

const RULES = 'version: 1\nrules: [{name: closed, match: {action: share}, then: deny}]\n';
let server;
let second;
let approver;
const yaml = { 'content-type': 'application/yaml' };
const put = (text, key = server.key) => request(server, 'PUT', '/api/policy', { key, body: text, headers: yaml });
const create = (body, key = server.key) => request(server, 'POST', '/api/keys', { key, body });
const held = (got) => {
  assert.equal(got.status, 202, got.text);
  assert.equal(got.body.error.code, 'pending_approval');
  return got.body.error.approval;
};

before(async () => {
  // Other keys are made before the rule is in force.
  server = await Glovebox.start({ config: { pools: [pool({ ready: 0 })] } });
  second = await mint(server, ['admin'], { name: 'Grace' });
  approver = await mint(server, ['approve'], { name: 'Barbara' });
  const { dir } = server;
  await server.stop({ keep: true });
  server = await Glovebox.start({ dir, config: { pools: [pool({ ready: 0 })], four_eyes: true } });
});
after(() => stop(server));

describe('four eyes', () => {
  test('a policy waits, is approved by another, and is then put once', async () => {
    const id = held(await put(RULES));
    assert.equal((await server.ok('GET', '/api/policy')).version, 0, 'nothing has changed');
    const waiting = await show(server, id, second.secret);
    assert.equal(waiting.action, 'change');
    assert.equal(waiting.rule, 'four-eyes');
    assert.match(waiting.summary, /policy of the whole service/);
    assert.equal(waiting.payload.text, RULES);
    assert.equal((await decide(server, id, 'approve', server.key)).status, 403, 'never by the requester');
    const token = await server.ok('POST', '/api/tokens', { ttl_s: 60, scopes: ['admin'] });
    assert.equal((await decide(server, id, 'approve', token.secret)).status, 403, 'nor by its token');
    assert.equal((await decide(server, id, 'approve', second.secret)).status, 200);
    assert.equal((await put(`${RULES}# other\n`)).status, 202, 'another text is another change');
    assert.equal((await put(RULES)).status, 200);
    assert.equal((await server.ok('GET', '/api/policy')).version, 1);
    held(await put(RULES));
  });

  test('a text that cannot be put is refused at once', async () => {
    assert.equal((await put('version: 7')).status, 400);
  });

  test('keys: creating and revoking wait; giving up one\'s own does not', async () => {
    const spec = { scopes: ['execute'], name: 'robot' };
    const id = held(await create(spec));
    assert.match((await show(server, id, second.secret)).summary, /create the key 'robot' of tenant default with execute/);
    await decide(server, id, 'approve', second.secret);
    held(await create({ ...spec, scopes: ['admin'] }));
    const made = await create(spec);
    assert.equal(made.status, 201, made.text);
    held(await create(spec));
    const revoke = () => request(server, 'DELETE', `/api/keys/${made.body.id}`);
    const gone = held(await revoke());
    assert.equal((await request(server, 'GET', '/api/sessions', { key: made.body.secret })).status, 200, 'still valid');
    await decide(server, gone, 'deny', second.secret, { reason: 'still used' });
    assert.equal((await revoke()).status, 403);
    assert.equal((await request(server, 'DELETE', `/api/keys/${second.id}`, { key: second.secret })).status, 204);
  });
});

describe('other changes', () => {
  // Sends it, has it approved, sends something else and then the same again.
  const approved = async (send, other, summary) => {
    const id = held(await send());
    const waiting = await show(server, id, approver.secret);
    assert.equal(waiting.action, 'change');
    assert.match(waiting.summary, summary);
    assert.equal((await decide(server, id, 'approve', server.key)).status, 403, 'never by the requester');
    assert.equal((await decide(server, id, 'approve', approver.secret)).status, 200);
    assert.notEqual(held(await other()), id, 'another change is another approval');
    const done = await send();
    assert.ok([200, 201].includes(done.status), done.text);
    assert.notEqual(held(await send()), id, 'approved once');
    return { waiting, done };
  };
  test('quotas', async () => {
    const set = (values) => () => request(server, 'PUT', '/api/quotas/acme', { body: values });
    const { waiting } = await approved(set({ live_sessions: 5, cpu_s_per_hour: null }), set({ live_sessions: 6, cpu_s_per_hour: null }),
      /^set quotas of tenant acme: .*live_sessions 5/);
    assert.deepEqual(waiting.payload, { change: 'quota.set', tenant: 'acme', values: { live_sessions: 5, cpu_s_per_hour: null } });
    assert.equal((await set({ live_sessions: -1 })()).status, 400, 'refused at once');
    const now = (await server.ok('GET', '/api/quotas/acme')).quotas.find((q) => q.name === 'live_sessions');
    assert.deepEqual([now.limit, now.own], [5, true]);
  });

  test('secrets: the value is in no approval, and another value is another change; deleting does not wait', async () => {
    const put = (value) => () => request(server, 'PUT', '/api/secrets/api', { body: { value, destinations: ['API.example.org'] } });
    const { waiting } = await approved(put('hunter-2'), put('hunter-3'), /^store the secret 'api' for requests to api.example.org$/);
    assert.match(waiting.payload.value_fingerprint, /^[0-9a-f]{32}$/);
    assert.ok(!JSON.stringify(waiting).includes('hunter'));
    assert.equal((await request(server, 'PUT', '/api/secrets/api', { body: { value: 'x', destinations: ['http://bad'] } })).status, 400, 'refused at once');
    assert.equal((await request(server, 'DELETE', '/api/secrets/api')).status, 204);
  });

  test('keys of a pool, by the management routes', async () => {
    const made = await request(server, 'PUT', arm('keyed'), { body: poolBody() });
    assert.ok([200, 201].includes(made.status), made.text);
    for (const [call, change] of [['fetchMCPServerCredentials', 'key.create'], ['rotateMCPServerCredentials', 'key.rotate']]) {
      const got = await request(server, 'POST', arm(`keyed/${call}`));
      assert.deepEqual([got.status, got.body.error.code], [403, 'PendingApproval'], got.text);
      const [id] = got.text.match(/apr_[0-9a-f]+/);
      assert.deepEqual((await show(server, id, approver.secret)).payload, { change, pool: 'keyed' });
      assert.equal((await decide(server, id, 'approve', approver.secret)).status, 200);
      const done = await request(server, 'POST', arm(`keyed/${call}`));
      assert.match(done.body.apiKey ?? done.text, /^gbx_/);
      assert.equal((await request(server, 'POST', arm(`keyed/${call}`))).status, 403, 'approved once');
    }
  });
});

test('switching it on and off at a restart is in the audit trail, once', async () => {
  const changes = async () => (await server.ok('GET', '/api/audit?action=setting.change')).data.map((e) => [e.actor, e.object, e.before, e.after]);
  const on = ['glovebox', 'four_eyes', 'false', 'true'];
  const off = ['glovebox', 'four_eyes', 'true', 'false'];
  const again = async (four_eyes) => {
    const { dir } = server;
    await server.stop({ keep: true });
    server = await Glovebox.start({ dir, config: { pools: [pool({ ready: 0 })], four_eyes } });
  };
  assert.deepEqual(await changes(), [on], 'as before() did');
  await again(true);
  assert.deepEqual(await changes(), [on], 'nothing was changed');
  await again(false);
  assert.deepEqual(await changes(), [on, off]);
  assert.equal((await create({ scopes: ['execute'], name: 'by one' })).status, 201);
  await again(false);
  assert.deepEqual(await changes(), [on, off]);
  await again(true);
  assert.deepEqual(await changes(), [on, off, on]);
});
