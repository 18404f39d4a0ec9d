// SPDX-License-Identifier: Apache-2.0
// Pools made, changed and removed while the daemon runs; kept over a restart.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';
import { conforms, openapi } from '../../lib/workspace.mjs';

const MiB = 1024 * 1024;
const TIME = /^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const config = { pools: [pool({ ready: 1, cooldown_s: 600 }), pool({ name: 'other', ready: 0 })] };
let server;
let doc;

before(async () => {
  server = await Glovebox.start({ config });
  doc = await openapi(server);
});
after(() => stop(server));

// Every answer is held against the description.
async function ask(method, name, options) {
  const pattern = `/api/pools${name === undefined ? '' : '/{name}'}`;
  const answer = await request(server, method, pattern.replace('{name}', name), options);
  conforms(doc, method, pattern, answer);
  return answer;
}
const make = (body, options = {}) => ask('POST', undefined, { body, ...options });
const change = (name, body, options = {}) => ask('PATCH', name, { body, ...options });
const look = async (name) => (await ask('GET', name)).body;
const remove = (name, options = {}) => ask('DELETE', name, options);
const admin = async (tenant) => (await server.ok('POST', '/api/keys', { tenant, scopes: ['execute', 'admin'] })).secret;

test('a pool of the configuration says so', async () => {
  const first = await look('default');
  assert.deepEqual(Object.keys(first), ['name', 'source', 'tenant', 'kind', 'runtime', 'zygote', 'persistence', 'sharing', 'limits', 'egress', 'egress_allow', 'packages', 'egress_bytes', 'egress_connections',
    'egress_requests', 'cooldown_s', 'lifetime_s',
    'max_sessions', 'ready_wanted', 'ready', 'sessions', 'created_at', 'updated_at']);
  assert.deepEqual([first.source, first.tenant, first.kind, first.created_at, first.updated_at], ['configuration', null, 'python', null, null]);
  assert.deepEqual((await server.ok('GET', '/api/pools')).data.map((p) => p.name), ['default', 'other']);
});

test('a made pool says who sees its sessions, also after a restart', async () => {
  assert.equal((await look('default')).sharing, 'default');
  const made = await make({ name: 'shared', sharing: 'tenant' });
  assert.deepEqual([made.status, made.body.sharing], [201, 'tenant']);
  const sharing = async () => { const s = await server.session({ pool: 'shared' }); return (await server.ok('GET', s.path)).sharing; };
  assert.equal(await sharing(), 'tenant');
  assert.equal((await change('shared', { sharing: 'principal' })).body.sharing, 'principal');
  assert.equal(await sharing(), 'principal');
  assert.equal((await change('shared', { cooldown_s: 60 })).body.sharing, 'principal', 'what is not named stays');
  assert.equal((await change('shared', { sharing: 'default' })).body.sharing, 'default');
  assert.equal(await sharing(), 'principal', 'as the native API has it');
  assert.equal((await change('shared', { sharing: 'all' })).status, 400);
  assert.equal((await remove('shared')).status, 204);
});

test('a made pool has a network of its own', async () => {
  const made = await make({ name: 'linked', egress: 'allowlist', egress_allow: 'A.org, b.org:8443,b.org:8444', packages: true });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  assert.deepEqual([made.body.egress, made.body.packages], ['allowlist', true]);
  const s = await server.session({ pool: 'linked' });
  const network = await server.ok('GET', `${s.path}/network`);
  assert.deepEqual([network.mode, network.packages, network.destinations], ['allowlist', true, [{ host: 'a.org' }, { host: 'b.org', ports: [8443, 8444] }]]);
  assert.equal((await change('linked', { packages: false, egress: 'none' })).body.packages, false);
  const later = await server.session({ pool: 'linked' });
  assert.equal((await later.get()).network, 'none');
  assert.equal((await s.get()).network, 'allowlist');
  for (const body of [{ egress: 'some' }, { egress_allow: 'x'.repeat(4097) }, { egress: 'allowlist', egress_allow: 'a.org:0' }, { egress: 'allowlist', egress_allow: 'a..org' },
    { packages: 1 }, { egress: 'allowlist', egress_allow: Array.from({ length: 101 }, (_, i) => `h${i}.org`).join() }])
    assert.equal((await change('linked', body)).status, 400, JSON.stringify(body));
  assert.equal((await remove('linked')).status, 204);
});

test('a made pool is as the first where nothing is said, and code runs in it', async () => {
  const made = await make({ name: 'plain' });
  assert.equal(made.status, 201);
  const first = await look('default');
  assert.deepEqual({ ...made.body, created_at: 0, updated_at: 0, ready: 0 },
    { ...first, name: 'plain', source: 'made', tenant: 'default', created_at: 0, updated_at: 0, ready: 0, sessions: 0 });
  assert.match(made.body.created_at, TIME);
  assert.equal(made.body.created_at, made.body.updated_at);
  await until(async () => (await look('plain')).ready === 1, { what: 'a ready sandbox' });
  const s = await server.session({ pool: 'plain' });
  assert.equal(s.made.pool, 'plain');
  assert.equal(await s.out('print(6 * 7)'), '42');
  assert.equal((await look('plain')).sessions, 1);
  assert.equal((await remove('plain')).status, 204);
  refused(await request(server, 'GET', s.path), 404, 'not_found');
  refused(await request(server, 'GET', '/api/pools/plain'), 404, 'not_found');
});

test('what it is told to be it is', async () => {
  const made = await make({ name: 'own', kind: 'shell', runtime: 'minimal', persistence: 'ephemeral', ready_wanted: 0, max_sessions: 2, cooldown_s: 5, memory_bytes: 256 * MiB });
  assert.equal(made.status, 201);
  assert.deepEqual([made.body.kind, made.body.persistence, made.body.ready_wanted, made.body.max_sessions, made.body.cooldown_s, made.body.limits.memory_bytes],
    ['shell', 'ephemeral', 0, 2, 5, 256 * MiB]);
  const s = await server.session({ pool: 'own' });
  assert.equal(s.made.persistence, 'ephemeral');
  assert.equal(s.made.limits.memory_bytes, 256 * MiB);
  assert.ok(Math.abs(Date.parse(s.made.expires_at) - Date.parse(s.made.last_used_at) - 5000) <= 1000);
  await server.session({ pool: 'own' }); // ephemeral ones do not make room
  refused(await request(server, 'POST', '/api/sessions', { body: { pool: 'own' } }), 429, 'overloaded', /holds 2 sessions/);
  assert.equal((await remove('own')).status, 204);
});

test('a pool for long jobs: its own longest execution, at, below and above', async () => {
  const made = await make({ name: 'jobs', ready_wanted: 0, max_timeout_s: 3600 });
  assert.equal(made.status, 201, made.text);
  assert.deepEqual([made.body.limits.python_timeout_max_s, made.body.limits.shell_timeout_max_s, made.body.limits.python_timeout_s], [3600, 3600, 120]);
  const s = await server.session({ pool: 'jobs' });
  const run = (timeout_s, language = 'python') => request(server, 'POST', `${s.path}/executions`, { body: { code: 'echo', language, timeout_s } });
  for (const language of ['python', 'shell'])
    for (const t of [901, 3599, 3600]) assert.equal((await run(t, language)).status, 200, `${t}`);
  refused(await run(3601), 400, 'invalid_request', /timeout_s must be from 5 to 3600 in this pool/);
  refused(await run(86401), 400, 'invalid_request', /timeout_s/);
  // A single run, too; the other pools stay as they were.
  const single = (body) => request(server, 'POST', '/api/run', { body: { code: 'print(1)', ...body } });
  assert.equal((await single({ pool: 'jobs', timeout_s: 3600 })).body.stdout, '1\n');
  refused(await single({ timeout_s: 901 }), 400, 'invalid_request', /from 5 to 900 in this pool/);
  // A change is for the next session, and bounds the default as well.
  const less = await change('jobs', { max_timeout_s: 60 });
  assert.deepEqual([less.body.limits.python_timeout_max_s, less.body.limits.python_timeout_s], [60, 60]);
  for (const value of [0, 4, 86401, '7', -1]) refused(await change('jobs', { max_timeout_s: value }), 400, 'invalid_request', /max_timeout_s/);
  for (const value of [5, 86400]) assert.equal((await change('jobs', { max_timeout_s: value })).status, 200);
  assert.equal((await remove('jobs')).status, 204);
});

test('numbers and names at, below and above their limits', async () => {
  assert.equal((await make({ name: 'n'.repeat(63), ready_wanted: 0 })).status, 201);
  assert.equal((await remove('n'.repeat(63))).status, 204);
  for (const name of ['', 'n'.repeat(64), 'Upper', '9nine', '-a', 'a_b', 'a b', 'a/b', 'ü', 7, null]) refused(await make({ name }), 400, 'invalid_request', /name/);
  refused(await make({}), 400, 'invalid_request', /name/);
  assert.equal((await make({ name: 'edge', ready_wanted: 0 })).status, 201);
  const { max_memory_bytes: most_memory } = (await server.ok('GET', '/api/pools')).data.find((p) => p.name === 'default').limits;
  const edges = { cooldown_s: [1, 2592000], max_sessions: [1, 100000], memory_bytes: [64 * MiB, most_memory] };
  for (const [field, [least, most]] of Object.entries(edges)) {
    for (const value of [least, most]) assert.equal((await change('edge', { [field]: value })).status, 200, `${field} ${value}`);
    for (const value of [0, -1, least - 1, most + 1, 1.5, '7', true]) refused(await change('edge', { [field]: value }), 400, 'invalid_request', new RegExp(field));
  }
  for (const value of [-1, 101, 'x']) refused(await change('edge', { ready_wanted: value }), 400, 'invalid_request', /ready_wanted/);
  refused(await change('edge', { ready_wanted: 3, max_sessions: 2 }), 400, 'invalid_request', /max_sessions/);
  refused(await change('edge', { kind: 'node' }), 400, 'invalid_request', /kind/);
  refused(await change('edge', { persistence: 'no' }), 400, 'invalid_request', /persistence/);
  refused(await change('edge', { runtime: 'nosuch' }), 400, 'invalid_request', /runtime/);
  refused(await change('edge', { cooldowns: 5 }), 400, 'invalid_request', /cooldown_s/);
  refused(await change('edge', { name: 'new' }), 400, 'invalid_request', /name/);
  refused(await make({ name: 'x', nonsense: 1 }), 400, 'invalid_request', /nonsense/);
  assert.equal((await remove('edge')).status, 204);
});

test('names are taken once, and the configuration is not changed here', async () => {
  assert.equal((await make({ name: 'once', ready_wanted: 0 })).status, 201);
  refused(await make({ name: 'once' }), 409, 'conflict');
  refused(await make({ name: 'default' }), 409, 'conflict');
  refused(await change('other', { cooldown_s: 5 }), 409, 'conflict', /configuration/);
  refused(await remove('other'), 409, 'conflict', /configuration/);
  refused(await change('nosuch', {}), 404, 'not_found');
  refused(await remove('nosuch'), 404, 'not_found');
  assert.equal((await remove('once')).status, 204);
  refused(await remove('once'), 404, 'not_found');
});

test('I3 another tenant sees and gets nothing of it', async () => {
  const [ours, theirs] = [await admin('ours'), await admin('theirs')];
  assert.equal((await make({ name: 'secret', ready_wanted: 0 }, { key: ours })).status, 201);
  const bare = (answer, name) => [answer.status, answer.text.replaceAll(name, 'NAME')];
  for (const [method, body] of [['GET'], ['PATCH', {}], ['DELETE']]) {
    const at = (name) => request(server, method, `/api/pools/${name}`, { body, key: theirs });
    assert.deepEqual(bare(await at('secret'), 'secret'), bare(await at('nosuch'), 'nosuch'));
    assert.equal((await at('secret')).status, 404);
  }
  const into = (name) => request(server, 'POST', '/api/sessions', { body: { pool: name }, key: theirs });
  assert.deepEqual(bare(await into('secret'), 'secret'), bare(await into('nosuch'), 'nosuch'));
  const seen = async (key) => (await request(server, 'GET', '/api/pools', { key })).body.data.map((p) => p.name);
  assert.deepEqual(await seen(theirs), ['default', 'other']);
  assert.deepEqual(await seen(ours), ['default', 'other', 'secret']);
  assert.equal((await request(server, 'POST', '/api/sessions', { body: { pool: 'secret' }, key: ours })).status, 201);
  assert.equal((await remove('secret', { key: ours })).status, 204);
});

test('D1 made, used, changed, there again after a restart, removed', async () => {
  assert.equal((await make({ name: 'kept', ready_wanted: 1, cooldown_s: 60, memory_bytes: 256 * MiB })).status, 201);
  const s = await server.session({ pool: 'kept' });
  await s.out('open("/mnt/data/a.txt", "w").write("kept")');
  const changed = await change('kept', { cooldown_s: 120, memory_bytes: 512 * MiB, kind: 'shell' });
  assert.equal(changed.status, 200);
  assert.equal(changed.body.cooldown_s, 120);
  const now = await s.get();
  assert.ok(Math.abs(Date.parse(now.expires_at) - Date.parse(now.last_used_at) - 120_000) <= 1000, 'its cooldown is the pool\'s');
  assert.equal(now.limits.memory_bytes, 256 * MiB, 'its sandbox is as it was made');
  const fresh = await server.session({ pool: 'kept' });
  assert.equal(fresh.made.limits.memory_bytes, 512 * MiB);
  const inside = await fresh.json('import json; print(json.dumps(int(dict(l.split(":") for l in open("/proc/meminfo"))["MemTotal"].split()[0])))');
  assert.equal(inside, 512 * 1024, 'no ready sandbox of the old kind was given');
  const before_ = await look('kept');

  const { dir } = server;
  await server.stop({ keep: true });
  server = await Glovebox.start({ config, dir });
  const after_ = await look('kept');
  assert.deepEqual({ ...after_, ready: 0, sessions: 0 }, { ...before_, ready: 0, sessions: 0 });
  const again = await server.ok('POST', `${s.path}/executions`, { code: 'print(open("/mnt/data/a.txt").read())' });
  assert.equal(again.stdout, 'kept\n');
  assert.equal((await server.ok('GET', s.path)).pool, 'kept');
  await server.ok('POST', `${s.path}/executions`, { code: 'open("/mnt/data/b.txt", "w").write("last")' });

  assert.equal((await remove('kept')).status, 204);
  for (const id of [s.id, fresh.id]) refused(await request(server, 'GET', `/api/sessions/${id}`), 404, 'not_found');
  const files = await server.ok('GET', `/api/workspaces/${s.made.workspace}/files`);
  assert.deepEqual(files.data.map((f) => f.path), ['a.txt', 'b.txt'], 'the workspace stays');
  refused(await request(server, 'POST', '/api/sessions', { body: { pool: 'kept' } }), 400, 'invalid_request');
  const told = (await server.ok('GET', '/api/audit?action=pool.&object=kept')).data;
  assert.deepEqual(told.map((e) => e.action), ['pool.create', 'pool.update', 'pool.delete']);
  assert.match(told[2].detail, /with 2 sessions/);
  assert.ok((await server.ok('GET', `/api/audit?action=session.delete&object=${s.id}`)).data.length === 1);
});

test('removing ends what runs; creating meanwhile is refused or removed', async () => {
  assert.equal((await make({ name: 'busy', ready_wanted: 2, max_sessions: 40 })).status, 201);
  const s = await server.session({ pool: 'busy' });
  const running = s.python('open("/mnt/data/x", "w").write("x")\nimport time\ntime.sleep(60)');
  await until(async () => (await server.ok('GET', `/api/sessions/${s.id}/files`)).data.some((f) => f.path === 'x'), { what: 'the file' });
  const creating = Array.from({ length: 12 }, () => request(server, 'POST', '/api/sessions', { body: { pool: 'busy' } }));
  await creating[0];
  assert.equal((await remove('busy')).status, 204);
  const done = await running;
  assert.equal(done.outcome, 'cancelled');
  for (const answer of await Promise.all(creating)) {
    assert.ok(answer.status === 201 || answer.status === 400, `${answer.status} ${answer.text}`);
    if (answer.status === 201) refused(await request(server, 'GET', `/api/sessions/${answer.body.id}`), 404, 'not_found');
  }
  assert.deepEqual((await server.ok('GET', '/api/sessions')).data.filter((x) => x.pool === 'busy'), []);
  assert.deepEqual((await server.ok('GET', `/api/workspaces/${s.made.workspace}/files`)).data.map((f) => f.path), ['x']);
});

test('metrics tell of made pools too', async () => {
  assert.equal((await make({ name: 'counted', ready_wanted: 0 })).status, 201);
  assert.match((await request(server, 'GET', '/metrics')).text, /^glovebox_pool_sessions\{pool="counted"\} 0$/m);
  assert.equal((await remove('counted')).status, 204);
  assert.doesNotMatch((await request(server, 'GET', '/metrics')).text, /counted/);
});
