// SPDX-License-Identifier: Apache-2.0
// network_policy of a container: shown as asked, held to, and bounded.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { Door } from '../../lib/openai.mjs';
import { Outside } from '../../lib/outside.mjs';
import { stop } from '../../lib/wire.mjs';

const HOST = 'api.outside.test';

describe('openai, network_policy', () => {
  let g, door, world;

  before(async () => {
    world = await Outside.open([HOST]);
    g = await Glovebox.start({ config: { ...world.config(), pools: [pool()] } });
    door = new Door(g);
  });
  after(async () => { await stop(g); world.close(); });

  test('an allowlist is what the container has, at every door', async () => {
    const made = await door.container({ name: 'listed', network_policy: { type: 'allowlist', allowed_domains: ['API.Outside.test.', 'b.org'] } });
    assert.deepEqual(made.network_policy, { type: 'allowlist', allowed_domains: [HOST, 'b.org'] });
    const network = await g.ok('GET', `/api/sessions/${made.id}/network`);
    assert.deepEqual([network.mode, network.granted, network.destinations], ['allowlist', true, [{ host: HOST }, { host: 'b.org' }]]);
    const plain = await door.container({ name: 'plain' });
    assert.deepEqual(plain.network_policy, { type: 'disabled' });
    const off = await door.container({ name: 'off', network_policy: { type: 'disabled' } });
    assert.deepEqual(off.network_policy, { type: 'disabled' });
  });

  test('domain_secrets go to their domain, and are not the container\'s', async () => {
    const made = await door.container({ name: 'secret', network_policy: { type: 'allowlist', allowed_domains: [HOST],
      domain_secrets: [{ domain: HOST, name: 'API_KEY', value: 'very-hidden-1' }] } });
    assert.ok(!JSON.stringify(made).includes('hidden'));
    const ran = await g.ok('POST', `/api/sessions/${made.id}/executions`, { code: 'import os; print(os.environ["API_KEY"], "hidden" in str(os.environ))' });
    assert.equal(ran.stdout, 'added-by-the-proxy False\n');
    assert.deepEqual((await g.ok('GET', '/api/secrets')).data.map((s) => [s.name, s.destinations]), [['API_KEY', [HOST]]]);
  });

  test('a key that only executes stays within the pool', async () => {
    const { secret } = await g.ok('POST', '/api/keys', { scopes: ['execute'] });
    const answer = await g.call('POST', '/v1/containers', { name: 'x', network_policy: { type: 'allowlist', allowed_domains: [HOST] } }, { key: secret });
    assert.equal(answer.status, 403);
    assert.match(answer.body.error.message, /no rule of the policy/i);
  });
});
