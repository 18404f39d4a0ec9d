// SPDX-License-Identifier: Apache-2.0
// What a session's code may reach: nothing, then what it was granted, changed
// while it lives, gone when it is withdrawn; and secrets that its traffic
// carries and it never holds.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { readFileSync, readdirSync } from 'node:fs';
import { Glovebox, Session, pool, processOnly, sleep, until } from '../../lib/glovebox.mjs';
import { Outside } from '../../lib/outside.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';

const HOST = 'api.outside.test';
const OTHER = 'other.outside.test';
const MARKER = 'Zm9yYmlkZGVuLWZydWl0-4711';
let world, server, plain;

before(async () => {
  world = await Outside.open([HOST, OTHER]);
  server = await Glovebox.start({ config: { ...world.config(), pools: [
    pool({ ready: 1, egress_bytes: '1MiB', egress_requests: 50 }),
    pool({ name: 'listed', ready: 1, egress: 'allowlist', egress_allow: `${HOST}:${world.port}` }),
    pool({ name: 'nap', ready: 0, cooldown_s: 1 })] } });
  const made = await server.ok('POST', '/api/keys', { scopes: ['execute'], name: 'plain' });
  plain = { key: made.secret };
});
after(async () => { await stop(server); world.close(); });

// Code that says whether it got there, and what it was told if not.
const fetching = (url, headers = {}) => `
import json, urllib.request
try:
    q = urllib.request.Request(${JSON.stringify(url)}, headers=${JSON.stringify(headers)})
    # not urlopen: that remembers what was in the environment the first time
    with urllib.request.build_opener().open(q, timeout=15) as a:
        print(json.dumps([a.status, a.read().decode()]))
except Exception as e:
    print(json.dumps([getattr(e, 'code', 0), str(e) + ' ' + (e.read().decode() if hasattr(e, 'read') else '')]))
`;
const reach = async (s, url, headers) => JSON.parse(await s.out(fetching(url, headers)));
const http = (host = HOST, path = '/') => `http://${host}:${world.port}${path}`;
const network = (s) => server.ok('GET', `${s.path}/network`);
const put = (s, body, options) => server.call('PUT', `${s.path}/network`, body, options);
const allow = (...destinations) => ({ mode: 'allowlist', destinations });
const here = (extra = {}) => ({ host: HOST, ports: [world.port], ...extra });

describe('a network', () => {
  test('E1: is none unless it is granted; E2: then only what is listed, and at once', async () => {
    const s = await server.session();
    assert.equal((await s.get()).network, 'none');
    assert.deepEqual({ ...(await network(s)), session: 0 }, { session: 0, mode: 'none', destinations: [], packages: false, bytes: 1048576,
      connections: 32, requests: 50, granted: false, problem: null, bytes_used: 0, requests_used: 0, installed: [] });
    assert.notEqual((await reach(s, http()))[0], 200);
    assert.deepEqual(world.seen(), []);

    const granted = await put(s, allow(here()));
    assert.equal(granted.status, 200, JSON.stringify(granted.body));
    assert.equal(granted.body.granted, true);
    assert.deepEqual(granted.body.destinations, [{ host: HOST, ports: [world.port] }]);
    assert.deepEqual(await reach(s, http()), [200, '{"hello": "/"}'.replace(': ', ':')]);
    assert.equal(world.seen().length, 1);
    // another host of the same address, and another port
    assert.equal((await reach(s, http(OTHER)))[0], 403);
    assert.notEqual((await reach(s, `https://${HOST}:${world.tlsPort}/`))[0], 200);
    assert.deepEqual(world.seen(), []);
    assert.equal((await s.get()).network, 'allowlist');
    const after = await network(s);
    assert.ok(after.bytes_used > 0 && after.requests_used >= 1, JSON.stringify(after));

    // more, without cutting anything; then less
    assert.equal((await put(s, allow(here(), { host: OTHER, ports: [world.port] }))).status, 200);
    assert.equal((await reach(s, http(OTHER)))[0], 200);
    assert.equal((await put(s, allow({ host: OTHER, ports: [world.port] }))).status, 200);
    assert.equal((await reach(s, http()))[0], 403);
    assert.equal((await put(s, { mode: 'none' })).status, 200);
    world.seen();
    assert.notEqual((await reach(s, http(OTHER)))[0], 200);
    assert.deepEqual(world.seen(), []);
    assert.deepEqual(await s.json('import os, json; print(json.dumps([k for k in os.environ if "proxy" in k.lower()]))'), []);
  });

  test('what code reached, and did not, is in its execution and in the trail', async () => {
    const s = await server.session({ network: allow(here()) });
    const ran = await s.python(fetching(http(HOST, '/seen')) + fetching(http(OTHER, '/unseen')));
    assert.equal(ran.outcome, 'ok', JSON.stringify(ran));
    const all = [...(ran.network.allowed ?? []), ...(ran.network.blocked ?? [])];
    assert.ok(all.some((c) => c.host === HOST && c.path === '/seen'), JSON.stringify(ran.network));
    assert.ok(ran.network.blocked.some((c) => c.host === OTHER), JSON.stringify(ran.network));
    await until(async () => {
      const { data } = await server.ok('GET', `/api/audit?object=${s.id}&limit=100`);
      const actions = data.map((line) => line.action);
      return actions.includes('network.request') && actions.includes('network.refused');
    }, { what: 'lines of the trail' });
  });

  test('is there again after dormancy, and a changed one holds from then on', async () => {
    const s = await server.session({ pool: 'nap', network: allow(here()) });
    assert.equal((await reach(s, http()))[0], 200);
    await until(async () => (await s.get()).state === 'dormant', { ms: 30_000, what: 'dormant' });
    assert.equal((await network(s)).granted, false);
    assert.equal((await reach(s, http()))[0], 200);
    assert.equal((await network(s)).granted, true);
    await until(async () => (await s.get()).state === 'dormant', { ms: 30_000, what: 'dormant' });
    assert.equal((await put(s, allow({ host: OTHER, ports: [world.port] }))).status, 200);
    assert.equal((await reach(s, http()))[0], 403);
    assert.equal((await reach(s, http(OTHER)))[0], 200);
  });

  test('of a pool is every session\'s, ready ones too', async () => {
    const s = await server.session({ pool: 'listed' });
    assert.equal((await s.get()).network, 'allowlist');
    assert.equal((await reach(s, http()))[0], 200);
    const none = await server.session({ pool: 'listed', network: { mode: 'none' } });
    assert.notEqual((await reach(none, http()))[0], 200);
  });

  test('E1: of a branch is that of the session, not more and not less', processOnly('its memory is not ours to copy'), async () => {
    const branchOf = async (s) => new Session(server, (await server.ok('POST', `${s.path}/branch`, {})).sessions[0]);
    const none = await server.session({ pool: 'listed', network: { mode: 'none' } });
    await none.out('x = 1');
    const shut = await branchOf(none);
    assert.equal((await shut.get()).network, 'none');
    assert.notEqual((await reach(shut, http()))[0], 200);
    const some = await server.session({ network: allow({ host: OTHER, ports: [world.port] }) });
    await some.out('x = 1');
    const other = await branchOf(some);
    assert.equal((await other.get()).network, 'allowlist');
    assert.equal((await reach(other, http(OTHER)))[0], 200);
    assert.equal((await reach(other, http()))[0], 403);
    const usual = await server.session({ pool: 'listed' });
    await usual.out('x = 1');
    assert.equal((await reach(await branchOf(usual), http()))[0], 200);
  });

  test('E4: is lost with the proxy, and comes back with a new one', async () => {
    const s = await server.session({ network: allow(here()) });
    assert.equal((await reach(s, http()))[0], 200);
    const parent = (pid) => /^PPid:\t(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))[1];
    const below = (pid) => { for (let at = pid; at > 1; at = Number(parent(at))) if (at === server.child.pid) return true; return false; };
    const proxies = () => readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map(Number).filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/comm`, 'latin1').startsWith('glovebox-egres') && below(pid);
      } catch { return false; }
    });
    // the one that has no other below it: whoever starts it again stays
    const all = proxies();
    const [proxy] = all.filter((pid) => !all.some((other) => Number(parent(other)) === pid));
    assert.ok(proxy, 'a proxy runs');
    process.kill(proxy, 'SIGKILL');
    await until(async () => (await network(s)).granted && (await reach(s, http()))[0] === 200, { ms: 30_000, every: 200, what: 'a new proxy' });
    assert.equal((await reach(s, http(OTHER)))[0], 403);
  });
});

describe('who may have one', () => {
  test('a key without policy:admin stays within the pool', async () => {
    const s = await server.session({}, plain);
    refused(await put(s, allow(here()), plain), 403, 'forbidden', /no rule of the policy/);
    refused(await put(s, { mode: 'open' }, plain), 403, 'forbidden');
    assert.equal((await put(s, { mode: 'none' }, plain)).status, 200);
    refused(await server.call('POST', '/api/sessions', { network: allow(here()) }, plain), 403, 'forbidden');
    const listed = await server.session({ pool: 'listed', network: allow(here()) }, plain);
    assert.equal((await listed.get()).network, 'allowlist');
    refused(await server.call('POST', '/api/sessions', { pool: 'listed', network: allow({ host: HOST }) }, plain), 403, 'forbidden');
    refused(await server.call('PUT', '/api/secrets/x', { value: 'v', destinations: [HOST] }, plain), 403, 'forbidden');
  });

  test('open says what it means', async () => {
    const s = await server.session();
    const opened = await put(s, { mode: 'open' });
    assert.equal(opened.status, 200);
    assert.match(opened.body.warning, /untrusted code/);
    assert.equal((await reach(s, http(OTHER)))[0], 200);
    assert.match(server.log, /session_egress_open/);
    const { data } = await server.ok('GET', `/api/audit?object=${s.id}&action=session.network`);
    assert.equal(data[0].after, 'open');
    const made = await server.ok('POST', '/api/sessions', { network: { mode: 'open' } });
    assert.match(made.warning, /untrusted code/);
    await until(() => server.log.includes(`session_egress_open session="${made.id}"`), { what: 'the log says so' });
    await until(async () => (await server.ok('GET', `/api/audit?object=${made.id}&action=session.network`)).data.length === 1, { what: 'the trail says so' });
  });
});

describe('what may be asked', () => {
  let s;
  before(async () => { s = await server.session(); });
  const wrong = [
    ['no mode', {}], ['a mode', { mode: 'some' }], ['a field', { mode: 'none', hosts: [] }],
    ['none with destinations', { mode: 'none', destinations: [HOST] }],
    ['101 destinations', allow(...Array.from({ length: 101 }, (_, i) => `h${i}.example.org`))],
    ['a host with a blank', allow('a b')], ['a host with a port', allow('a.org:80')], ['a bare star', allow('*')], ['a star below the top', allow('*.org')],
    ['port 0', allow({ host: HOST, ports: [0] })], ['port 65536', allow({ host: HOST, ports: [65536] })],
    ['nine ports', allow({ host: HOST, ports: [1, 2, 3, 4, 5, 6, 7, 8, 9] })], ['a port twice', allow({ host: HOST, ports: [80, 80] })],
    ['a method', allow({ host: HOST, ports: [80], methods: ['BREW'] })], ['a path without /', allow({ host: HOST, ports: [80], path: 'x' })],
    ['a path with ..', allow({ host: HOST, ports: [80], path: '/a/../b' })], ['a path with %', allow({ host: HOST, ports: [80], path: '/%2e' })],
    ['methods on https', allow({ host: HOST, methods: ['GET'] })], ['a path on https', allow({ host: HOST, path: '/x' })],
    ['too many bytes', { mode: 'none', bytes: 1048577 }], ['no bytes', { mode: 'none', bytes: 0 }],
    ['too many connections', { mode: 'none', connections: 33 }], ['too many requests', { mode: 'none', requests: 51 }],
  ];
  for (const [what, body] of wrong)
    test(`not ${what}`, async () => refused(await put(s, body), 400, 'invalid_request'));
  const right = [
    ['100 destinations', allow(...Array.from({ length: 100 }, (_, i) => `h${i}.example.org`))], ['eight ports', allow({ host: HOST, ports: [1, 2, 3, 4, 5, 6, 7, 65535] })],
    ['methods and a path on http', allow({ host: HOST, ports: [80], methods: ['GET', 'HEAD'], path: '/v1' })],
    ['methods with inspect', allow({ host: HOST, methods: ['GET'], inspect: true })], ['budgets at their ends', { mode: 'none', bytes: 1048576, connections: 32, requests: 50 }],
    ['one of each', { mode: 'none', bytes: 1, connections: 1, requests: 1 }], ['a host to be tidied', allow('API.Example.ORG.')],
  ];
  for (const [what, body] of right)
    test(`but ${what}`, async () => {
      const answer = await put(s, body);
      assert.equal(answer.status, 200, JSON.stringify(answer.body));
      if (what.endsWith('tidied')) assert.equal(answer.body.destinations[0].host, 'api.example.org');
    });
  test('of an unknown session, nothing', async () => refused(await put({ path: '/api/sessions/sess_00000000000000000000000000000000' }, { mode: 'none' }), 404, 'not_found'));
});

describe('budgets', () => {
  test('E5: of requests and of bytes are used up, also over a change', async () => {
    const s = await server.session({ network: { ...allow(here()), requests: 3 } });
    const codes = [];
    for (let i = 0; i < 5; i++) codes.push((await reach(s, http()))[0]);
    assert.deepEqual(codes.slice(0, 3), [200, 200, 200]);
    assert.ok(codes.slice(3).every((code) => code !== 200), JSON.stringify(codes));
    await put(s, { ...allow(here(), OTHER), requests: 3 });
    assert.notEqual((await reach(s, http()))[0], 200);
    assert.equal((await put(s, { ...allow(here(), OTHER), requests: 50 })).status, 200);
    assert.equal((await reach(s, http()))[0], 200);
  });
});

describe('secrets', () => {
  const secret = (name, body) => server.call('PUT', `/api/secrets/${name}`, body);

  test('are kept, shown without their value, bound, removed', async () => {
    const made = await secret('kept', { value: MARKER, destinations: [HOST.toUpperCase()] });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    assert.deepEqual([made.body.name, made.body.destinations, made.body.header, made.body.prefix, made.body.used_at], ['kept', [HOST], 'Authorization', 'Bearer ', null]);
    assert.equal((await secret('kept', { value: 'x', destinations: [HOST], header: 'X-Key' })).status, 200);
    const listed = await server.ok('GET', '/api/secrets');
    const got = await server.ok('GET', '/api/secrets/kept');
    assert.equal(got.prefix, '');
    assert.ok(!JSON.stringify([made.body, listed, got]).includes(MARKER));
    for (const [body, field] of [[{ value: '', destinations: [HOST] }], [{ value: 'x' }], [{ value: 'x', destinations: [] }], [{ value: 'x', destinations: ['a b'] }],
      [{ value: 'a\nb', destinations: [HOST] }], [{ value: 'x'.repeat(8193), destinations: [HOST] }], [{ value: 'x', destinations: [HOST], header: 'Host' }]])
      refused(await secret('bad', body), 400, 'invalid_request', field);
    assert.equal((await secret('long', { value: 'x'.repeat(8192), destinations: [HOST] })).status, 201);
    assert.equal((await server.call('DELETE', '/api/secrets/long')).status, 204);
    refused(await server.call('DELETE', '/api/secrets/long'), 404, 'not_found');
    refused(await server.call('GET', '/api/secrets/long'), 404, 'not_found');
    const s = await server.session();
    refused(await put(s, allow(here({ secret: 'none-such' }))), 404, 'not_found');
    refused(await put(s, allow({ host: OTHER, ports: [world.port], secret: 'kept' })), 400, 'invalid_request', /not for destination/);
    refused(await put(s, allow({ host: HOST, secret: 'kept' })), 400, 'invalid_request', /inspect/);
  });

  // Everything a session's processes have: memory, environment, files.
  const SCAN = `
import os, json
needle = "".join(reversed(${JSON.stringify([...MARKER].reverse().join(''))})).encode()
control = ("con" + "trol-" + str(os.getpid()) + "-x").encode() * 1
found = {"control": 0, "memory": [], "environ": [], "files": []}
half = len(needle) // 2
first, second = needle[:half], needle[half:]
del needle
def has(data, head, tail):
    at = data.find(head)
    while at >= 0:
        if data[at + len(head):at + len(head) + len(tail)] == tail: return True
        at = data.find(head, at + 1)
    return False
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open(f"/proc/{pid}/environ", "rb") as f:
            if has(f.read(), first, second): found["environ"].append(pid)
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
            for line in maps:
                span, perms = line.split()[:2]
                if "r" not in perms or "[v" in line: continue
                low, high = (int(x, 16) for x in span.split("-"))
                try:
                    mem.seek(low); data = mem.read(high - low)
                except OSError: continue
                if has(data, control[:8], control[8:]): found["control"] += 1
                if has(data, first, second): found["memory"].append([pid, line.split()[-1]])
    except OSError: pass
for top in ("/mnt/data", "/home", "/tmp", "/var/tmp", "/run", "/etc", "/dev/shm"):
    for folder, _, names in os.walk(top):
        for name in names:
            try:
                with open(os.path.join(folder, name), "rb") as f:
                    if has(f.read(1 << 22), first, second): found["files"].append(name)
            except OSError: pass
print(json.dumps(found))
`;

  for (const tls of [false, true])
    test(`are added on the way out by ${tls ? 'https' : 'http'}, and never found in the session`, async () => {
      const port = tls ? world.tlsPort : world.port;
      assert.ok((await secret('hidden', { value: MARKER, destinations: [HOST] })).status < 300);
      const s = await server.session({ network: allow({ host: HOST, ports: [port], secret: 'hidden', inspect: tls }, { host: OTHER, ports: [port], inspect: tls }) });
      world.seen();
      const url = (host) => `${tls ? 'https' : 'http'}://${host}:${port}/with`;
      const got = await reach(s, url(HOST), { Authorization: 'Bearer guessed' });
      assert.equal(got[0], 200, JSON.stringify([got, await network(s)]));
      assert.equal((await reach(s, url(OTHER)))[0], 200);
      const seen = world.seen();
      assert.deepEqual(seen.map((q) => [q.headers.host, q.tls, q.headers.authorization]),
        [[`${HOST}:${port}`, tls, `Bearer ${MARKER}`], [`${OTHER}:${port}`, tls, undefined]]);
      const found = await s.json(SCAN);
      assert.ok(found.control > 0, 'the scan finds what is there');
      assert.deepEqual([found.memory, found.environ, found.files], [[], [], []]);
      assert.ok(!server.log.includes(MARKER));
    });

  test('that are changed or removed are so at once, in sessions that carry them', async () => {
    await secret('moving', { value: 'one', destinations: [HOST] });
    const s = await server.session({ network: allow(here({ secret: 'moving' })) });
    world.seen();
    assert.equal((await reach(s, http()))[0], 200);
    assert.equal((await secret('moving', { value: 'two', destinations: [HOST] })).status, 200);
    assert.equal((await reach(s, http()))[0], 200);
    assert.deepEqual(world.seen().map((q) => q.headers.authorization), ['Bearer one', 'Bearer two']);
    assert.equal((await server.call('DELETE', '/api/secrets/moving')).status, 204);
    assert.notEqual((await reach(s, http()))[0], 200);
    assert.deepEqual(world.seen(), []);
    const now = await network(s);
    assert.equal(now.granted, false);
    assert.match(now.problem, /no secret is called/);
  });
});
