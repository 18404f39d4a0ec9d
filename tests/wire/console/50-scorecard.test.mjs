// SPDX-License-Identifier: Apache-2.0
// The scorecard from the API: it is run by the service, for operators only,
// and its results are kept.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start } from '../../lib/console-wire.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';

let server;
before(async () => { server = await start({}); });
after(() => stop(server));

test('POST /api/scorecard probes the ten controls and keeps the result', async () => {
  assert.deepEqual((await server.ok('GET', '/api/scorecard')).data, []);
  const running = server.call('POST', '/api/scorecard');
  await new Promise((done) => setTimeout(done, 1500));
  refused(await request(server, 'POST', '/api/scorecard'), 429, 'overloaded', /already/);
  const made = await running;
  assert.equal(made.status, 200, made.text);
  assert.equal(made.body.card.of, 10);
  assert.equal(made.body.by_name, 'admin');
  assert.deepEqual(made.body.card.controls.map((c) => c.control), ['isolation', 'ephemeral', 'egress', 'secrets', 'identity', 'dependencies', 'audit', 'quotas', 'approvals', 'deployment']);
  assert.ok(made.body.card.controls.every((c) => c.evidence.length > 0));
  assert.deepEqual(made.body.card.controls.filter((c) => c.works === 'fail').map((c) => [c.control, c.evidence]), []);
  const kept = (await server.ok('GET', '/api/scorecard?limit=1')).data;
  assert.deepEqual(kept, [made.body]);
  assert.ok(!(await server.ok('GET', '/api/tokens')).data.some((t) => t.name === 'scorecard'), 'its token has ended');
});

test('it is for administrators of the operators', async () => {
  const other = (await server.ok('POST', '/api/keys', { tenant: 'theirs', scopes: ['admin'] })).secret;
  const plain = (await server.ok('POST', '/api/keys', { scopes: ['execute', 'audit:read'] })).secret;
  for (const method of ['GET', 'POST']) {
    refused(await request(server, method, '/api/scorecard', { key: other }), 403);
    refused(await request(server, method, '/api/scorecard', { key: plain }), 403);
  }
});
