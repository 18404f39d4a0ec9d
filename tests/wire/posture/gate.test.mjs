// SPDX-License-Identifier: Apache-2.0
// The gate: each of its checks broken on purpose keeps code from running, and
// says which; accepted by name it lets it run and says that too (O4).
import assert from 'node:assert/strict';
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';

const state = (posture, name) => posture.gate.checks.find((c) => c.name === name);

async function withService(options, fn) {
  const g = await Glovebox.start(options);
  try {
    await fn(g);
  } finally {
    await g.stop();
  }
}

async function closed(g, check) {
  const posture = await g.ok('GET', '/api/posture');
  assert.equal(posture.gate.open, false);
  assert.equal(state(posture, check).state, 'failed');
  assert.ok(state(posture, check).fix);
  for (const [method, path, body] of [['POST', '/api/sessions', {}], ['POST', '/api/run', { code: '1' }],
    ['POST', '/v1/containers', { name: 'x' }]]) {
    const answer = await g.call(method, path, body);
    assert.equal(answer.status, 503, `${path}: ${answer.text}`);
    assert.match(answer.text, new RegExp(check));
  }
  const cli = new Cli(g);
  const doctor = await cli.run(['doctor', '--gate']);
  assert.equal(doctor.status, 1);
  assert.match(doctor.stdout, /The gate is closed/);
  cli.close?.();
}

async function accepted(g, check) {
  const posture = await g.ok('GET', '/api/posture');
  assert.equal(posture.gate.open, true);
  assert.equal(state(posture, check).state, 'accepted');
  assert.equal((await g.run('print(1)')).outcome, 'ok');
}

describe('the gate', () => {
  let g;
  before(async () => { g = await Glovebox.start(); });
  after(() => g.stop());

  test('O4_is_open_by_default_and_says_what_it_found', async () => {
    const posture = await g.ok('GET', '/api/posture');
    assert.equal(posture.gate.open, true);
    assert.deepEqual(posture.gate.checks.map((c) => [c.name, c.state]),
      ['environment', 'outbound', 'identity', 'walls', 'policy', 'audit', 'data', 'images'].map((n) => [n, 'ok']));
    const cli = new Cli(g);
    const doctor = await cli.run(['doctor', '--gate']);
    assert.equal(doctor.status, 0, doctor.stderr);
    assert.match(doctor.stdout, /The gate is open/);
    const json = JSON.parse((await cli.run(['doctor', '--gate', '--json'])).stdout);
    assert.equal(json.open, true);
    cli.close?.();
  });

  test('needs a key that may read the trail', async () => {
    const { key } = await g.tenant('other');
    assert.equal((await g.call('GET', '/api/posture', undefined, { key })).status, 403);
    assert.equal((await g.call('GET', '/api/posture', undefined, { key: '' })).status, 401);
  });

  test('O4_looks_again_each_time_it_is_asked', async () => {
    chmodSync(join(g.dir, 'data'), 0o755);
    try {
      await closed(g, 'data');
    } finally {
      chmodSync(join(g.dir, 'data'), 0o700);
    }
    assert.equal((await g.ok('GET', '/api/posture')).gate.open, true);
    assert.equal((await g.run('print(1)')).outcome, 'ok');
  });
});

test('I7_variables_that_name_secrets_are_dropped_at_the_start', async () => {
  await withService({ env: { AWS_SECRET_ACCESS_KEY: 'marker-1', db_password: 'marker-2', PLAIN: 'x' } }, async (g) => {
    assert.equal(state(await g.ok('GET', '/api/posture'), 'environment').state, 'ok');
    const { readFileSync } = await import('node:fs');
    const environ = readFileSync(`/proc/${g.pid}/environ`, 'utf8');
    assert.doesNotMatch(environ, /marker/);
    assert.match(environ, /PLAIN=x/);
  });
});

const broken = {
  environment: { env: { GITHUB_TOKEN: 'x' }, config: { keep_environment: 'GITHUB_TOKEN' } },
  outbound: { config: { pools: [pool({ egress: 'open' })] } },
  identity: { config: { key_scopes: 'execute' } },
};

for (const [check, options] of Object.entries(broken))
  test(`O4_${check}_broken_closes_the_gate_unless_it_is_accepted`, async () => {
    await withService(options, (g) => closed(g, check));
    await withService({ ...options, config: { ...options.config, accept_gate: check } }, (g) => accepted(g, check));
  });

test('O3 a trail that need not be written is accepted, and says so', () =>
  withService({ config: { audit_required: false } }, (g) => accepted(g, 'audit')));
