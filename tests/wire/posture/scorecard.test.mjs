// SPDX-License-Identifier: Apache-2.0
// The scorecard: all ten controls pass on a service as it comes, and each
// fails when it is broken on purpose.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { describe, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';

async function card(options, args = [], prepare = async () => {}) {
  const g = await Glovebox.start(options);
  const cli = new Cli(g);
  try {
    await prepare(g);
    const run = await cli.run(['scorecard', '--json', ...args]);
    return { ...run, card: JSON.parse(run.stdout), log: g.log };
  } finally {
    cli.close?.();
    await g.stop();
  }
}

const seen = (control) => JSON.stringify(control.evidence.filter((e) => !e.holds));
const cover = ['/usr/bin/unshare', '-m', '/bin/sh', '-c', 'mount -t tmpfs -o ro none /sys/fs/cgroup && exec "$@"', 'sh'];
const held = "open('/mnt/data/ran', 'w').write('x')";
const policy = (rules) => async (g) => {
  const answer = await g.call('PUT', '/api/policy', Buffer.from(JSON.stringify({ version: 1, rules })), { raw: true,
    headers: { 'content-type': 'application/yaml' } });
  assert.ok(answer.status < 300, answer.text);
};

// What is done to a service so that this control no longer holds.
const broken = {
  isolation: { options: { under: cover, config: { accept_missing_walls: 'memory,pids,cpu' } } },
  ephemeral: { options: { config: { pools: [pool({ lifetime_s: 30 * 86400 })] } } },
  egress: { options: { config: { pools: [pool({ egress: 'open' })], accept_gate: 'outbound' } } },
  secrets: { options: { env: { GITHUB_TOKEN: 'x' }, config: { keep_environment: 'GITHUB_TOKEN', accept_gate: 'environment' } } },
  identity: { options: { config: { key_scopes: 'execute', accept_gate: 'identity' } } },
  dependencies: { prepare: policy([{ name: 'anything', match: { action: 'package' }, then: 'allow' }]) },
  audit: { options: { config: { audit_required: false } } },
  quotas: { options: { config: { quota_cpu_s_per_hour: 0 } } },
  approvals: { prepare: policy([{ name: 'never', match: { action: 'execute', code_bytes: `${held.length}` }, then: 'deny' }]) },
  deployment: { options: { config: { service_user: 'nobody-of-that-name', accept_missing_walls: 'service_user' } } },
};

describe('scorecard', { concurrency: 2 }, () => {
  test('all ten controls pass on a service as it comes', async () => {
    const { card: all, status } = await card({});
    assert.deepEqual(all.controls.filter((c) => !c.pass).map((c) => [c.control, seen(c)]), []);
    assert.equal(all.of, 10);
    assert.equal(status, 0);
    for (const control of all.controls) assert.ok(control.evidence.length > 1, control.control);
  });

  for (const [control, { options = {}, prepare }] of Object.entries(broken))
    test(`${control} broken on purpose fails`, { skip: control === 'isolation' && !existsSync('/sys/fs/cgroup') && 'no control groups here' }, async () => {
      const { card: one, status, log } = await card(options, ['--only', control], prepare);
      assert.equal(status, 1, log);
      assert.equal(one.controls.length, 1);
      assert.equal(one.controls[0].control, control);
      assert.equal(one.controls[0].pass, false);
    });
});
