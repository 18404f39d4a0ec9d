// SPDX-License-Identifier: Apache-2.0
// Alert rules, dashboard and example configuration: valid by promtool, and
// every metric and label value that they name exists in a real service.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Glovebox, pool, root } from '../../lib/glovebox.mjs';

const dir = join(root, 'packaging/monitoring');
let server;
let text;
before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 0 })] } });
  text = (await server.call('GET', '/metrics')).text;
});
after(() => server?.stop());

const promtool = (args, options = {}) => spawnSync(join(root, 'tools/promtool'), args, { cwd: dir, encoding: 'utf8', timeout: 120_000, ...options });
const dashboard = () => JSON.parse(readFileSync(join(dir, 'grafana-dashboard.json'), 'utf8'));
const expressions = () => [
  ...dashboard().panels.flatMap((p) => p.targets.map((t) => ({ where: p.title, expr: t.expr }))),
  ...[...readFileSync(join(dir, 'alerts.yaml'), 'utf8').matchAll(/- alert: (\S+)\n\s+expr: (?:>-\n)?([^]*?)\n\s+(?:for|labels):/g)].map((m) => ({ where: m[1], expr: m[2] })),
];
const names = (expr) => [...new Set(expr.match(/\b(?:glovebox|process)_[a-z_]+\b/g) ?? [])];

test('promtool accepts the rules, their tests pass, and the configuration is valid', () => {
  for (const args of [['check', 'rules', 'alerts.yaml'], ['test', 'rules', 'alerts.test.yaml'], ['check', 'config', '--syntax-only', 'prometheus.yaml']]) {
    const done = promtool(args);
    assert.equal(done.status, 0, `${args.join(' ')}: ${done.stdout}${done.stderr}`);
  }
});

test('promtool accepts the metrics of the service', () => {
  const done = promtool(['check', 'metrics'], { input: text });
  assert.ok(!/error while linting|text format parsing error/.test(done.stderr), done.stderr);
});

test('every metric that is named exists, with the label values that are named', () => {
  const all = expressions();
  assert.ok(all.length >= 35, `${all.length} expressions`);
  let seen = 0;
  for (const { where, expr } of all) {
    for (const name of names(expr)) {
      seen++;
      assert.match(text, new RegExp(`^${name}[{ ]`, 'm'), `${where}: ${name}`);
      for (const [, label, value] of expr.matchAll(new RegExp(`${name}\\{[^}]*?\\b(mode|outcome|code|result|reason)="([^"]+)"`, 'g')))
        assert.match(text, new RegExp(`^${name}\\{${label}="${value}"\\}`, 'm'), `${where}: ${name}{${label}="${value}"}`);
    }
  }
  assert.ok(seen >= 40, `${seen} names`);
});

test('the dashboard: ids are unique, panels do not overlap, every query has its data source', () => {
  const { panels, templating, title } = dashboard();
  assert.equal(title, 'Glovebox');
  assert.equal(new Set(panels.map((p) => p.id)).size, panels.length);
  for (const [i, a] of panels.entries()) {
    assert.ok(a.gridPos.x + a.gridPos.w <= 24, a.title);
    for (const b of panels.slice(i + 1)) {
      const apart = a.gridPos.x + a.gridPos.w <= b.gridPos.x || b.gridPos.x + b.gridPos.w <= a.gridPos.x
        || a.gridPos.y + a.gridPos.h <= b.gridPos.y || b.gridPos.y + b.gridPos.h <= a.gridPos.y;
      assert.ok(apart, `${a.title} and ${b.title}`);
    }
    for (const t of a.targets) assert.equal(t.datasource.uid, '${datasource}', a.title);
  }
  assert.deepEqual(templating.list.map((v) => v.name), ['datasource', 'job']);
});
