// SPDX-License-Identifier: Apache-2.0
// Routes for people who govern: test cases of a policy, use by the hour, the
// walls, narrowing and rotating keys.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Glovebox } from '../../lib/glovebox.mjs';
import { request } from '../../lib/wire.mjs';

let server;
before(async () => { server = await Glovebox.start(); });
after(() => server?.stop());

const POLICY = 'version: 1\nrules:\n  - {name: no-shell, match: {language: shell}, then: deny, reason: Use Python.}\n';

test('test cases run against a given policy, and each result names its case', async () => {
  const cases = 'cases:\n  - name: shell is denied\n    request: {action: execute, language: shell}\n    expect: {verdict: deny}\n'
    + '  - name: wrong on purpose\n    request: {action: execute, language: python}\n    expect: {verdict: deny}\n';
  const { status, body } = await request(server, 'POST', '/api/policy/test', { body: { text: POLICY, cases } });
  assert.equal(status, 200, JSON.stringify(body));
  assert.deepEqual([body.ok, body.passed, body.failed], [false, 1, 1]);
  assert.deepEqual(body.cases.map(({ name, ok }) => [name, ok]), [['shell is denied', true], ['wrong on purpose', false]]);
  assert.equal(body.cases[0].problem, null);
  assert.match(body.cases[1].problem, /allow/);
  const broken = await request(server, 'POST', '/api/policy/test', { body: { text: 'rules: 7', cases } });
  assert.equal(broken.status, 400);
  assert.equal((await request(server, 'POST', '/api/policy/test', { body: { text: POLICY } })).status, 400, 'cases are required');
});

test('the use of the hour is reported', async () => {
  const ws = (await server.ok('POST', '/api/workspaces', { name: 'stored' })).id;
  assert.equal((await server.call('PUT', `/api/workspaces/${ws}/files/a.txt`, 'x'.repeat(5000), { raw: true })).status, 201);
  await server.run('print(1)');
  const { body } = await request(server, 'GET', '/api/usage/history?hours=24');
  assert.equal(body.step_s, 3600);
  assert.ok(body.data.at(-1).executions >= 1, JSON.stringify(body));
  assert.ok(body.data.at(-1).live_sessions >= 1);
  const storage = (await request(server, 'GET', '/api/quotas')).body.quotas.find((q) => q.name === 'storage_bytes').used;
  assert.ok(storage >= 5000 && body.data.at(-1).storage_bytes >= 5000 && body.data.at(-1).storage_bytes <= storage, JSON.stringify([storage, body.data.at(-1)]));
  // A tenant that only uploads has a history of its storage, too.
  const only = (await server.ok('POST', '/api/keys', { tenant: 'uploader', scopes: ['files:read', 'files:write'] })).secret;
  const theirs = (await server.ok('POST', '/api/workspaces', { name: 'only files' }, { key: only })).id;
  for (const size of [3000, 4000]) {
    await server.call('PUT', `/api/workspaces/${theirs}/files/${size}.txt`, 'y'.repeat(size), { raw: true, key: only });
    const hours = (await request(server, 'GET', '/api/usage/history', { key: only })).body.data;
    assert.ok(hours.at(-1)?.storage_bytes >= size, JSON.stringify(hours));
    assert.equal(hours.at(-1).executions, 0);
  }
  assert.equal((await request(server, 'GET', '/api/usage/history?hours=720')).status, 200);
  for (const hours of ['0', '721', 'x']) assert.equal((await request(server, 'GET', `/api/usage/history?hours=${hours}`)).status, 400);
});

test('the posture lists each wall', async () => {
  const { walls } = (await request(server, 'GET', '/api/posture')).body;
  assert.ok(walls.some(({ name, stands }) => name === 'seccomp' && stands === true));
  assert.equal(new Set(walls.map(({ name }) => name)).size, walls.length);
});

test('I2 a narrowed or rotated key loses what it had at once', async () => {
  const made = await server.ok('POST', '/api/keys', { scopes: ['execute', 'files:read'], name: 'first' });
  const as = (secret, path = '/api/whoami') => request(server, 'GET', path, { key: secret });
  const narrowed = await request(server, 'PATCH', `/api/keys/${made.id}`, { body: { scopes: ['files:read'], name: 'second' } });
  assert.equal(narrowed.status, 200);
  assert.deepEqual([narrowed.body.name, narrowed.body.scopes], ['second', ['files:read']]);
  assert.equal((await as(made.secret, '/api/sessions')).status, 403);
  assert.equal((await request(server, 'PATCH', `/api/keys/${made.id}`, { body: { scopes: ['execute'] } })).status, 400);
  const rotated = (await request(server, 'POST', `/api/keys/${made.id}/rotate`)).body;
  assert.equal(rotated.id, made.id);
  assert.equal((await as(made.secret, '/api/whoami')).status, 401);
  assert.equal((await as(rotated.secret, '/api/whoami')).status, 200);
  assert.equal((await request(server, 'POST', '/api/keys/key_00000000000000000000000000000000/rotate')).status, 404);
});
