// SPDX-License-Identifier: Apache-2.0
// pip in a session: only what a rule of the policy allows, by name, version
// and hash, out of the operator's folder; and what policy says of networks.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { Outside } from '../../lib/outside.mjs';
import { refused, stop } from '../../lib/wire.mjs';

const HOST = 'api.outside.test';
const OTHER = 'other.outside.test';
let wheels, world, server, hashes;

// A wheel is a zip with a list of what is in it; host python has both.
function wheel(name, version, needs = []) {
  const file = join(wheels, `${name}-${version}-py3-none-any.whl`);
  execFileSync('/usr/bin/python3', ['-c', `
import base64, hashlib, json, sys, zipfile
path, name, version, needs = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
info = f"{name}-{version}.dist-info"
files = {f"{name}.py": f"VERSION = '{version}'\\n",
  f"{info}/METADATA": f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n" + "".join(f"Requires-Dist: {n}\\n" for n in needs),
  f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"}
rows = [f"{n},sha256={base64.urlsafe_b64encode(hashlib.sha256(t.encode()).digest()).decode().rstrip('=')},{len(t)}" for n, t in files.items()]
files[f"{info}/RECORD"] = "\\n".join([*rows, f"{info}/RECORD,,"]) + "\\n"
with zipfile.ZipFile(path, "w") as z:
    for n, t in files.items(): z.writestr(n, t)
`, file, name, version, JSON.stringify(needs)]);
  return createHash('sha256').update(readFileSync(file)).digest('hex');
}

const policy = (rules) => server.ok('PUT', '/api/policy', { text: JSON.stringify({ version: 1, default: 'allow', rules }) });
const allowPackage = (name, match) => ({ name, match: { action: 'package', ...match }, then: 'allow' });

before(async () => {
  wheels = mkdtempSync(join(tmpdir(), 'glovebox-wheels-'));
  chmodSync(wheels, 0o755);
  hashes = { plain1: wheel('plain', '1.0'), plain2: wheel('plain', '2.0'), other: wheel('other', '1.0'), leaning: wheel('leaning', '1.0', ['other']) };
  world = await Outside.open([HOST, OTHER]);
  server = await Glovebox.start({ config: { ...world.config(), package_wheels: wheels, pools: [pool({ ready: 1, packages: true }), pool({ name: 'bare', ready: 0 })] } });
});
after(async () => { await stop(server); world.close(); rmSync(wheels, { recursive: true, force: true }); });

const pip = (s, ...args) => s.shell(`pip install ${args.join(' ')} 2>&1`, { timeout_s: 120 });
const has = (s, name) => s.out(`
try:
    import ${name}; print(${name}.VERSION)
except ImportError: print("none")
`);

describe('packages', () => {
  test('none without a rule that names them', async () => {
    const s = await server.session();
    const ran = await pip(s, 'plain');
    assert.notEqual(ran.exit_code, 0, ran.stdout);
    assert.equal((await has(s, 'plain')).trim(), 'none');
    assert.deepEqual((await server.ok('GET', `${s.path}/network`)).installed, []);
  });

  test('by name; and are there at once, and recorded', async () => {
    await policy([allowPackage('plain', { package: 'plain' })]);
    const s = await server.session();
    const ran = await pip(s, 'plain==1.0');
    assert.equal(ran.exit_code, 0, ran.stdout);
    assert.equal((await has(s, 'plain')).trim(), '1.0');
    assert.notEqual((await pip(s, 'other')).exit_code, 0);
    await until(async () => (await server.ok('GET', `${s.path}/network`)).installed.length === 1, { what: 'the package is recorded' });
    const [kept] = (await server.ok('GET', `${s.path}/network`)).installed;
    assert.deepEqual({ ...kept, at: 0 }, { name: 'plain', version: '1.0', sha256: hashes.plain1, at: 0 });
    await until(async () => (await server.ok('GET', `/api/audit?object=${s.id}&action=package.install`)).data.length === 1, { what: 'the trail has it' });
    const { checks } = await server.ok('GET', `/api/executions/${ran.id}/evidence`);
    assert.deepEqual(checks.filter((c) => c.action === 'package' && c.about === 'plain 1.0').map((c) => [c.verdict, c.rule, c.layer])[0],
      ['allow', 'plain', 'global'], JSON.stringify(checks));
  });

  test('in the same cell that installs them', async () => {
    await policy([allowPackage('plain', { package: 'plain' })]);
    const s = await server.session();
    const ran = await s.python('!pip install -q plain\nimport plain; print("got", plain.VERSION)', { timeout_s: 120 });
    assert.match(ran.stdout, /got 2\.0/, JSON.stringify(ran));
  });

  test('by version', async () => {
    await policy([allowPackage('plain-1', { package: 'plain', package_version: '1.*' })]);
    const s = await server.session();
    assert.notEqual((await pip(s, 'plain==2.0')).exit_code, 0);
    assert.equal((await pip(s, 'plain')).exit_code, 0);
    assert.equal((await has(s, 'plain')).trim(), '1.0');
  });

  test('by hash', async () => {
    await policy([allowPackage('plain-2', { package: 'plain', package_sha256: hashes.plain2 })]);
    const s = await server.session();
    assert.notEqual((await pip(s, 'plain==1.0')).exit_code, 0);
    assert.equal((await pip(s, 'plain')).exit_code, 0);
    assert.equal((await has(s, 'plain')).trim(), '2.0');
  });

  test('what they lean on is asked about too', async () => {
    await policy([allowPackage('leaning', { package: 'leaning' })]);
    const s = await server.session();
    assert.notEqual((await pip(s, 'leaning')).exit_code, 0);
    await policy([allowPackage('leaning', { package: ['leaning', 'other'] })]);
    const again = await server.session();
    assert.equal((await pip(again, 'leaning')).exit_code, 0);
  });

  test('none where the pool has none', async () => {
    await policy([allowPackage('plain', { package: 'plain' })]);
    const s = await server.session({ pool: 'bare' });
    assert.notEqual((await pip(s, 'plain')).exit_code, 0);
  });
});

describe('policy', () => {
  const http = (host) => `http://${host}:${world.port}/`;
  const reach = async (s, url) => JSON.parse(await s.out(`
import json, urllib.request
try:
    with urllib.request.build_opener().open(${JSON.stringify(url)}, timeout=15) as a: print(json.dumps([a.status, ""]))
except Exception as e: print(json.dumps([getattr(e, 'code', 0), str(e) + (e.read().decode() if hasattr(e, 'read') else '')]))`));
  const both = () => ({ mode: 'allowlist', destinations: [HOST, OTHER].map((host) => ({ host, ports: [world.port] })) });
  const put = (s, body, options) => server.call('PUT', `${s.path}/network`, body, options);

  test('a rule gives a key that only executes what it names, and no more', async () => {
    await policy([{ name: 'api', match: { action: 'egress', destination: HOST }, then: 'allow' }]);
    const { secret: key } = await server.ok('POST', '/api/keys', { scopes: ['execute'] });
    const s = await server.session({}, { key });
    const one = { mode: 'allowlist', destinations: [{ host: HOST, ports: [world.port] }] };
    assert.equal((await put(s, one, { key })).status, 200);
    refused(await put(s, both(), { key }), 403, 'forbidden', /no rule of the policy/);
    assert.equal((await reach(s, http(HOST)))[0], 200);
  });

  test('E4: a policy that forbids a destination takes it from a running session', async () => {
    await policy([]);
    const s = await server.session({ network: both() });
    assert.equal((await reach(s, http(OTHER)))[0], 200);
    await policy([{ name: 'not-other', match: { action: 'connect', destination: OTHER }, then: 'deny', reason: 'not there' }]);
    await until(async () => (await reach(s, http(OTHER)))[0] !== 200, { ms: 15_000, every: 200, what: 'the new policy holds' });
    assert.equal((await reach(s, http(HOST)))[0], 200);
    await policy([{ name: 'none', match: { action: 'egress' }, then: 'deny' }]);
    await until(async () => !(await server.ok('GET', `${s.path}/network`)).granted, { ms: 15_000, what: 'withdrawn' });
    assert.notEqual((await reach(s, http(HOST)))[0], 200);
    assert.match((await server.ok('GET', `${s.path}/network`)).problem, /none/);
    refused(await put(s, both()), 403, 'forbidden', /none/);
    refused(await server.call('POST', '/api/sessions', { network: both() }), 403, 'forbidden', /none/);
    assert.equal((await put(s, { mode: 'none' })).status, 200);
  });

  test('what is to be asked is held, and granted once somebody else has said yes', async () => {
    await policy([{ name: 'ask-first', match: { action: 'egress' }, then: 'ask' }]);
    const { secret: asker } = await server.ok('POST', '/api/keys', { scopes: ['execute'], name: 'asker' });
    const s = await server.session({}, { key: asker });
    const held = await put(s, both(), { key: asker });
    assert.equal(held.status, 202, JSON.stringify(held.body));
    const id = held.body.error?.approval ?? held.body.approval ?? /apr_[0-9a-f]+/.exec(JSON.stringify(held.body))[0];
    assert.equal((await server.ok('GET', `${s.path}/network`)).mode, 'none');
    const again = await put(s, both(), { key: asker });
    assert.ok(JSON.stringify(again.body).includes(id));
    await server.ok('POST', `/api/approvals/${id}/approve`, { reason: 'fine' });
    const granted = await put(s, both(), { key: asker });
    assert.equal(granted.status, 200, JSON.stringify(granted.body));
    assert.equal((await reach(s, http(HOST)))[0], 200);
  });

  test('a destination that is to be asked about is refused with the approval, then reached', async () => {
    await policy([{ name: 'ask-other', match: { action: 'connect', destination: OTHER }, then: 'ask' }]);
    const { secret: asker } = await server.ok('POST', '/api/keys', { scopes: ['execute', 'admin'], name: 'asker2' });
    const s = await server.session({ network: both() }, { key: asker });
    assert.equal((await reach(s, http(HOST)))[0], 200);
    const [code, why] = await reach(s, http(OTHER));
    assert.equal(code, 403, why);
    const id = /apr_[0-9a-f]+/.exec(why)?.[0] ?? (await server.ok('GET', '/api/approvals?state=pending')).data.find((a) => a.session === s.id).id;
    await server.ok('POST', `/api/approvals/${id}/approve`, {});
    assert.equal((await reach(s, http(OTHER)))[0], 200);
  });
});
