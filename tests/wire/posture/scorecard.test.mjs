// SPDX-License-Identifier: Apache-2.0
// The scorecard: all ten controls work on a service as it comes, which is not
// yet configured as recommended; each fails when it is broken on purpose; a
// policy that holds or denies the probes fails none.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { describe, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';

async function card(options, args = [], prepare = async () => {}, after = async () => {}) {
  const g = await Glovebox.start(options);
  const cli = new Cli(g);
  try {
    await prepare(g);
    const run = await cli.run(['scorecard', '--json', ...args]);
    await after(g);
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
    assert.deepEqual(all.works, { pass: true, passed: 10, failed: 0, not_measured: 0 });
    // What an auditor would ask about is reported, with advice, and is not 10/10.
    assert.equal(all.configured.pass, false);
    assert.ok(all.configured.passed < 10);
    const found = all.controls.flatMap((c) => c.findings.map((f) => `${c.control}/${f.name}`));
    assert.ok(!found.includes('ephemeral/files'), 'unnamed workspaces do not stay for ever');
    for (const name of ['ephemeral/evidence', 'identity/admin_keys', 'audit/sink', 'quotas/memory',
      'quotas/storage', 'approvals/policy', 'approvals/webhook', 'deployment/backup'])
      assert.ok(found.includes(name), `${name} is not among ${found}`);
    for (const f of all.controls.flatMap((c) => c.findings)) assert.ok(f.found && f.advice, f.name);
    assert.equal(status, 11);
    for (const control of all.controls) assert.ok(control.evidence.length > 1, control.control);
  });

  test('a setting that is mended is no finding any more', async () => {
    const { card: one, status } = await card({ config: { quota_memory_bytes: '64GiB', tenant_quota_bytes: '1TiB' } },
      ['--only', 'quotas']);
    assert.deepEqual(one.controls[0].findings, []);
    assert.deepEqual([one.controls[0].works, one.controls[0].configured], ['pass', true]);
    assert.deepEqual(one.configured, { pass: true, passed: 1, findings: 0 });
    assert.equal(status, 0);
  });

  test('probes that every rule holds are not measured, and fail nothing', async () => {
    let waiting;
    const { card: all, status } = await card({}, [], policy([{ name: 'ask-all', match: { action: 'execute' }, then: 'ask' }]),
      async (g) => { waiting = (await g.call('GET', '/api/approvals?state=pending')).body.data; });
    assert.deepEqual(all.controls.filter((c) => c.works === 'fail').map((c) => [c.control, seen(c)]), []);
    assert.equal(all.works.failed, 0);
    assert.equal(all.works.passed + all.works.not_measured, 10);
    const held = all.controls.filter((c) => c.works === 'not_measured');
    assert.deepEqual(held.map((c) => c.control),
      ['isolation', 'ephemeral', 'egress', 'secrets', 'dependencies', 'audit', 'quotas']);
    for (const c of held)
      assert.ok(c.evidence.some((e) => e.holds === null && e.seen.includes("held by rule 'ask-all'")), c.control);
    assert.equal(status, 11);
    assert.deepEqual(waiting, [], 'the approvals of the probes are withdrawn');
  });

  test('a denied session is not measured', async () => {
    const { card: one, status } = await card({}, ['--only', 'isolation'],
      policy([{ name: 'closed', match: { action: 'session' }, then: 'deny' }]));
    assert.equal(one.controls[0].works, 'not_measured');
    assert.equal(one.controls[0].pass, null);
    assert.notEqual(status, 1);
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
