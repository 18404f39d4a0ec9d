// SPDX-License-Identifier: Apache-2.0
// Sessions: made, listed, read, reset, interrupted, asleep, awake, deleted.
import assert from 'node:assert/strict';
import { cpus } from 'node:os';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { Stream, changed, refused, request, stop } from '../../lib/wire.mjs';

const TIME = /^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const MiB = 1024 * 1024;
let server;

before(async () => {
  server = await Glovebox.start({
    config: {
      sessions_per_tenant: 60,
      pools: [pool({ ready: 3, max_memory_bytes: '64GiB' }), pool({ name: 'nap', ready: 1, cooldown_s: 1, max_memory_bytes: '2GiB' }),
        pool({ name: 'short', ready: 0, lifetime_s: 2, cooldown_s: 600 })],
    },
  });
});
after(() => stop(server));

// One execution that runs and one behind it; their promises, not awaited.
async function runAndWait(s, code) {
  const running = s.python(code);
  await until(async () => (await s.get()).state === 'running', { what: 'running' });
  const waiting = s.python('1');
  await until(async () => (await s.get()).queued === 1, { what: 'queued' });
  return [running, waiting];
}

const create = (body) => request(server, 'POST', '/api/sessions', { body });

test('a session has the fields, order and defaults documented', async () => {
  const asked = Date.now();
  const made = await create({});
  assert.equal(made.status, 201);
  const s = made.body;
  assert.deepEqual(Object.keys(s), ['id', 'name', 'identifier', 'pool', 'runtime', 'workspace', 'persistence', 'owner', 'owner_name', 'sharing', 'state', 'network', 'limits', 'memory', 'executions', 'queued', 'interpreters',
    'created_at', 'last_used_at', 'expires_at', 'cooldown_s', 'policy_version', 'metadata']);
  assert.match(s.id, /^sess_[0-9a-f]{32}$/);
  assert.match(s.workspace, /^ws_[0-9a-f]{32}$/);
  assert.match(s.owner, /^key_[0-9a-f]{32}$/);
  assert.deepEqual({ ...s, id: 0, workspace: 0, owner: 0, owner_name: 0, created_at: 0, last_used_at: 0, expires_at: 0 }, {
    id: 0, name: null, identifier: null, pool: 'default', runtime: 'minimal', workspace: 0, persistence: 'workspace', owner: 0, owner_name: 0, sharing: 'principal', state: 'idle', network: 'none',
    limits: { memory_bytes: 1024 * MiB, processes: 128, cores: 1, scratch_bytes: 1024 * MiB, scratch_inodes: 100000, descriptors: 1024 },
    memory: { hibernates: false, not_kept: 'off', bytes: 0, uncarried: [], image_bytes: 0, saved_at: null, lost: null, undo: 0, redo: 0 },
    executions: 0, queued: 0, interpreters: 1, created_at: 0, last_used_at: 0, expires_at: 0, cooldown_s: 1200, policy_version: 0, metadata: {},
  });
  for (const field of ['created_at', 'last_used_at', 'expires_at']) assert.match(s[field], TIME);
  assert.ok(Math.abs(Date.parse(s.created_at) - asked) < 5000);
  const left = Date.parse(s.expires_at) - Date.parse(s.last_used_at);
  assert.ok(Math.abs(left - 1200_000) <= 1000, `expires after its cooldown: ${left}`);
  const got = await request(server, 'GET', `/api/sessions/${s.id}`);
  assert.deepEqual(got.body, s);
  assert.equal((await request(server, 'DELETE', `/api/sessions/${s.id}`)).status, 204);
});

test('name and metadata come back as they went in', async () => {
  const metadata = { a: [1, 2.5, null, true, { b: 'ü\n"\\ \u0001 😀' }], 日本: {}, '': 0, big: 9007199254740993n.toString() };
  const made = await create({ name: 'Müllers Töchter 😀', metadata });
  assert.equal(made.body.name, 'Müllers Töchter 😀');
  assert.deepEqual(made.body.metadata, metadata);
  const path = `/api/sessions/${made.body.id}`;
  assert.deepEqual((await request(server, 'GET', path)).body.metadata, metadata);
  await request(server, 'DELETE', path);
  refused(await create({ name: 'a\nb' }), 400, 'invalid_request', /control/);
  refused(await create({ name: '' }), 400, 'invalid_request');
  const named = await create({ name: null, metadata: null, pool: null });
  assert.equal(named.status, 201, 'null is as if left out');
  await request(server, 'DELETE', `/api/sessions/${named.body.id}`);
});

test('limits are granted as asked, named sizes too, and seen from inside', async () => {
  const made = await server.session({ limits: { memory: '4g', processes: 32, scratch_bytes: 64 * MiB, scratch_inodes: 200, descriptors: 128 } });
  assert.deepEqual(made.made.limits, { memory_bytes: 4096 * MiB, processes: 32, cores: 1, scratch_bytes: 64 * MiB, scratch_inodes: 200, descriptors: 128 });
  const inside = await made.json(`
import json, os, resource
v = os.statvfs("/mnt/data")
meminfo = dict(l.split(":") for l in open("/proc/meminfo"))
print(json.dumps({"memory": int(meminfo["MemTotal"].split()[0]) * 1024, "inodes": v.f_files, "bytes": v.f_blocks * v.f_frsize,
  "fds": resource.getrlimit(resource.RLIMIT_NOFILE)[0], "cores": os.cpu_count()}))
`);
  assert.equal(inside.memory, 4096 * MiB);
  assert.equal(inside.fds, 128);
  assert.equal(inside.cores, 1);
  // Some room for the file system's own maps comes on top.
  assert.ok(inside.bytes >= 64 * MiB && inside.bytes < 72 * MiB, `${inside.bytes}`);
  assert.ok(inside.inodes <= 300, `${inside.inodes}`);
  for (const size of ['1g', '16g', '64g']) {
    const other = await create({ limits: { memory: size } });
    assert.equal(other.body.limits.memory_bytes, parseInt(size, 10) * 1024 * MiB);
    await request(server, 'DELETE', `/api/sessions/${other.body.id}`);
  }
  await made.delete();
  if (cpus().length > 1) {
    const wide = await server.session({ limits: { cores: 2 } });
    assert.equal(wide.made.limits.cores, 2);
    assert.equal(await wide.out('import os; print(os.cpu_count(), os.environ["OMP_NUM_THREADS"])'), '2 2');
    assert.equal((await wide.shell('nproc')).stdout, '2\n');
    await wide.delete();
  }
});

test('limits outside what the pool allows are refused with the range', async () => {
  const cases = [
    [{ memory_bytes: 1 }, /memory_bytes must be from 67108864 to/], [{ memory_bytes: 65 * 1024 * 1024 * MiB }, /memory_bytes/],
    [{ processes: 7 }, /from 8 to 128/], [{ processes: 129 }, /from 8 to 128/], [{ descriptors: 63 }, /from 64 to 1024/],
    [{ descriptors: 1025 }, /from 64 to 1024/], [{ scratch_inodes: 63 }, /from 64 to 100000/], [{ scratch_inodes: 100001 }, /100000/],
    [{ scratch_bytes: MiB - 1 }, /scratch_bytes/], [{ scratch_bytes: 1024 * MiB + 1 }, /scratch_bytes/], [{ cores: 5000 }, /cores/],
    [{ memory: '2g' }, /memory/], [{ memory: '4g', memory_bytes: 1024 * MiB }, /either/], [{ memory_bytes: '1g' }, /memory_bytes/],
    [{ memory_byte: 1 }, /Did you mean 'memory_bytes'/], [{ processes: -1 }, /processes/], [{ processes: 1.5 }, /processes/], [[], /limits/],
  ];
  for (const [limits, message] of cases) refused(await create({ limits }), 400, 'invalid_request', message);
  refused(await create({ pool: 'nap', limits: { memory: '4g' } }), 400, 'invalid_request', /memory_bytes/);
  for (const limits of [{ processes: 8 }, { descriptors: 64 }, { scratch_inodes: 64 }, { scratch_bytes: MiB }, { memory_bytes: 64 * MiB }]) {
    const made = await create({ limits });
    assert.equal(made.status, 201, `${JSON.stringify(limits)} ${made.text}`);
    await request(server, 'DELETE', `/api/sessions/${made.body.id}`);
  }
});

test('the least limits there are still make a session that works', async () => {
  const s = await server.session({ limits: { processes: 8, descriptors: 64, scratch_inodes: 64, scratch_bytes: MiB, memory_bytes: 64 * MiB } });
  assert.equal(await s.out('open("/mnt/data/x", "w").write("hi"); print(open("/mnt/data/x").read())'), 'hi');
  assert.equal((await s.shell('cat x')).stdout, 'hi');
  await s.delete();
});

test('pool and runtime are checked', async () => {
  refused(await create({ pool: 'nope' }), 400, 'invalid_request', /pool/);
  refused(await create({ runtime: 'nope' }), 400, 'invalid_request', /minimal/);
  refused(await create({ pool: '../x' }), 400, 'invalid_request');
  const made = await create({ pool: 'short', runtime: 'minimal' });
  assert.equal(made.body.pool, 'short');
  await request(server, 'DELETE', `/api/sessions/${made.body.id}`);
});

test('the list is newest first, paged without gaps or repeats', async () => {
  const key = (await server.ok('POST', '/api/keys', { scopes: ['execute'], tenant: 'lister' })).secret;
  const get = (query) => request(server, 'GET', `/api/sessions${query}`, { key });
  assert.deepEqual((await get('')).body, { data: [], has_more: false });
  const ids = [];
  for (let i = 0; i < 23; i++) ids.unshift((await server.session({ name: `n${i}` }, { key })).id);
  const first = await get('');
  assert.equal(first.body.data.length, 20, 'the default');
  assert.equal(first.body.has_more, true);
  assert.deepEqual(first.body.data.map((s) => s.id), ids.slice(0, 20));
  const rest = await get(`?after=${ids[19]}`);
  assert.deepEqual(rest.body.data.map((s) => s.id), ids.slice(20));
  assert.equal(rest.body.has_more, false);
  const seen = [];
  for (let after = '', more = true; more;) {
    const page = await get(`?limit=5${after && `&after=${after}`}`);
    seen.push(...page.body.data.map((s) => s.id));
    more = page.body.has_more;
    after = seen.at(-1);
    assert.ok(seen.length <= 23);
  }
  assert.deepEqual(seen, ids);
  assert.equal((await get('?limit=23')).body.has_more, false, 'exactly all');
  assert.equal((await get('?limit=22')).body.has_more, true);
  assert.equal((await get('?limit=100')).body.data.length, 23);
  assert.deepEqual((await get(`?after=${ids.at(-1)}`)).body, { data: [], has_more: false });
  for (const bad of ['?limit=0', '?limit=101', '?limit=-1', '?limit=1.5', '?limit=x', '?limit=', '?limit=1&limit=2', '?limit=99999999999999999999', '?before=x'])
    refused(await get(bad), 400, 'invalid_request');
  refused(await get('?after=sess_00000000000000000000000000000000'), 400, 'invalid_request', /after/);
  await Promise.all(ids.map((id) => request(server, 'DELETE', `/api/sessions/${id}`, { key })));
  assert.deepEqual((await get('')).body, { data: [], has_more: false });
});

test('deleting is final for the session, its executions and its files', async () => {
  const s = await server.session();
  const e = await s.python('open("f", "w").write("x")');
  await s.put('g', 'y');
  assert.equal((await s.delete()).status, 204);
  for (const [method, path] of [['GET', s.path], ['DELETE', s.path], ['POST', `${s.path}/reset`], ['POST', `${s.path}/interrupt`],
    ['GET', `${s.path}/files`], ['GET', `${s.path}/files/f`], ['PUT', `${s.path}/files/f`], ['GET', `/api/executions/${e.id}`],
    ['GET', `/api/executions/${e.id}/events`], ['POST', `/api/executions/${e.id}/cancel`]])
    refused(await request(server, method, path), 404, 'not_found');
  refused(await request(server, 'POST', `${s.path}/executions`, { body: { code: '1' } }), 404, 'not_found');
});

test('deleting a session that runs ends what runs, which is told so', async () => {
  const s = await server.session();
  const [running, waiting] = await runAndWait(s, 'import time; time.sleep(60)');
  const asked = Date.now();
  assert.equal((await s.delete()).status, 204);
  const [one, two] = await Promise.all([running, waiting]);
  assert.equal(one.outcome, 'cancelled');
  assert.match(one.error.message, /deleted/);
  assert.equal(two.outcome, 'cancelled');
  assert.equal(two.started_at, null);
  assert.ok(Date.now() - asked < 40_000, 'before the cell would have ended');
});

test('reset gives a fresh interpreter with the files in place, and cancels what runs or waits', async () => {
  const s = await server.session();
  await s.python('x = 1; import os; os.chdir("/tmp"); open("/mnt/data/keep", "w").write("kept")');
  assert.equal((await s.python('x')).interpreter, 'same');
  const reset = await request(server, 'POST', `${s.path}/reset`);
  assert.equal(reset.status, 200);
  assert.equal(reset.body.state, 'idle');
  assert.equal(reset.body.interpreters, 2);
  const e = await s.python('"x" in globals(), __import__("os").getcwd(), open("keep").read()');
  assert.equal(e.result['text/plain'], "(False, '/mnt/data', 'kept')");
  assert.equal(e.interpreter, 'fresh');
  const [running, waiting] = await runAndWait(s, 'import time\ntry:\n  time.sleep(60)\nexcept BaseException:\n  time.sleep(60)');
  const asked = performance.now();
  assert.equal((await request(server, 'POST', `${s.path}/reset`)).body.interpreters, 3);
  assert.ok(performance.now() - asked < 40_000, 'it does not wait for code that ignores interrupts');
  const [one, two] = await Promise.all([running, waiting]);
  assert.equal(one.outcome, 'cancelled');
  assert.match(one.error.message, /reset/);
  assert.equal(two.outcome, 'cancelled');
  assert.equal((await s.python('3')).result['text/plain'], '3');
  await s.delete();
});

test('reset forks and does not import anew', async () => {
  const s = await server.session();
  const times = [];
  for (let i = 0; i < 9; i++) {
    const asked = performance.now();
    await server.ok('POST', `${s.path}/reset`);
    times.push(performance.now() - asked);
  }
  assert.ok(times.sort((a, b) => a - b)[4] < 5000, `${times}`); // a few milliseconds on an idle machine
  await s.delete();
});

test('interrupt stops the running cell, keeps variables, and is harmless when nothing runs', async () => {
  const s = await server.session();
  assert.equal((await request(server, 'POST', `${s.path}/interrupt`)).status, 202);
  await s.python('kept = 5');
  const stream = await Stream.open(server, 'POST', `${s.path}/executions`, { body: { mode: 'stream', code: 'kept = 6\nprint("go")\nimport time; time.sleep(60)' } });
  await stream.find((x) => x.event === 'stdout');
  const asked = Date.now();
  assert.equal((await request(server, 'POST', `${s.path}/interrupt`)).status, 202);
  const e = (await stream.done()).data;
  assert.ok(Date.now() - asked < 40_000, 'before the cell would have ended');
  assert.equal(e.outcome, 'cancelled');
  assert.match(e.error.message, /interrupted.*variables are kept/);
  assert.equal(e.interpreter_lost, false);
  const next = await s.python('kept');
  assert.equal(next.result['text/plain'], '6');
  assert.equal(next.interpreter, 'same');
  await s.delete();
});

test('what catches the interrupt goes on', async () => {
  const s = await server.session();
  const stream = await Stream.open(server, 'POST', `${s.path}/executions`, { body: { mode: 'stream', code: `
import time
try:
    print("ready", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("caught")
"went on"` } });
  await stream.find((e) => e.event === 'stdout');
  await request(server, 'POST', `${s.path}/interrupt`);
  const { data } = await stream.done();
  assert.equal(data.outcome, 'ok');
  assert.equal(data.stdout, 'ready\ncaught\n');
  assert.equal(data.result['text/plain'], "'went on'");
  await s.delete();
});

describe('sleeping', { concurrency: 3 }, () => {
  const dormant = (s) => until(async () => (await s.get()).state === 'dormant', { ms: 15_000, every: 100, what: 'dormant' });

  test('idle past its cooldown a session sleeps; the next call wakes it, files in place, interpreter fresh', async () => {
    const s = await server.session({ pool: 'nap', metadata: { keep: 1 } });
    await s.python('x = 1; open("made", "w").write("in python")');
    await s.put('up/loaded', 'by upload');
    await dormant(s);
    const asleep = await s.get();
    assert.deepEqual(asleep.metadata, { keep: 1 });
    const e = await s.python('"x" in globals(), open("made").read(), open("up/loaded").read()');
    assert.equal(e.outcome, 'ok', JSON.stringify(e.error));
    assert.equal(e.result['text/plain'], "(False, 'in python', 'by upload')");
    assert.equal(e.interpreter, 'fresh');
    assert.deepEqual(changed(e), {});
    assert.equal((await s.get()).interpreters, 2);
    assert.equal((await s.python('1')).interpreter, 'same');
    await dormant(s);
    assert.equal((await s.read('made')).text, 'in python', 'files wake it too');
    await dormant(s);
    assert.equal((await s.delete()).status, 204);
    refused(await request(server, 'GET', s.path), 404, 'not_found');
  });

  test('a sleeping session can be interrupted, reset and listed', async () => {
    const s = await server.session({ pool: 'nap' });
    await s.put('f', 'kept');
    await dormant(s);
    assert.equal((await request(server, 'POST', `${s.path}/interrupt`)).status, 202);
    assert.ok((await request(server, 'GET', '/api/sessions?limit=100')).body.data.some((x) => x.id === s.id && x.state === 'dormant'));
    const reset = await request(server, 'POST', `${s.path}/reset`);
    assert.equal(reset.status, 200, reset.text);
    assert.equal((await s.python('open("f").read()')).result['text/plain'], "'kept'");
    await dormant(s);
    const streamed = await Stream.open(server, 'POST', `${s.path}/executions`, { body: { mode: 'stream', code: 'open("f").read()' } });
    assert.equal((await streamed.done()).data.result['text/plain'], "'kept'");
    await s.delete();
  });

  test('what runs does not sleep, however long its client says nothing', async () => {
    const s = await server.session({ pool: 'nap' });
    const e = await s.python('x = 1\nimport time; time.sleep(2.6); x');
    assert.equal(e.outcome, 'ok');
    await s.delete();
  });

  test('reading about a session does not keep it awake', async () => {
    const s = await server.session({ pool: 'nap' });
    const until5 = Date.now() + 8000;
    let state;
    do {
      ({ state } = await s.get());
      await new Promise((wake) => { setTimeout(wake, 100); });
    } while (state !== 'dormant' && Date.now() < until5);
    assert.equal(state, 'dormant');
    await s.delete();
  });

  test('a sandbox lives no longer than its pool allows, its session goes on', async () => {
    const s = await server.session({ pool: 'short' });
    await s.python('x = 1; open("f", "w").write("kept")');
    const seen = await until(async () => {
      const e = await s.python('("x" in globals(), open("f").read())');
      return e.interpreter === 'fresh' && e;
    }, { ms: 10_000, every: 150 });
    assert.equal(seen.result['text/plain'], "(False, 'kept')");
    await s.delete();
  });
});

describe('a client that goes away', () => {
  const starts = async (one) => Number(/^glovebox_starts_total\{from="made"\} (\d+)/m.exec((await one.call('GET', '/metrics')).text)[1]);

  // Held while the sandbox is made: the process that makes it is stopped.
  // A container has a sandbox from the start only if it asks for a network.
  for (const [door, path, list, body] of [['native', '/api/sessions', '/api/sessions', '{"name":"x"}'],
    ['openai', '/v1/containers', '/v1/containers', '{"name":"x","network_policy":{"type":"disabled"}}']])
    test(`${door}: before its session is made leaves none behind, one that waits gets its own`, async () => {
      const one = await Glovebox.start({ config: { pools: [pool({ ready: 0 })] } });
      const { warden } = one.processes();
      try {
        await (await one.session()).delete(); // the image's first start is over
        process.kill(warden, 'SIGSTOP');
        const leaves = new AbortController();
        const ask = (signal) => fetch(one.url + path, { method: 'POST', signal, body,
          headers: { authorization: `Bearer ${one.key}`, 'content-type': 'application/json' } });
        const left = ask(leaves.signal).then(() => 'answered', () => 'gone');
        const stays = ask();
        await until(async () => await starts(one) === 3, { what: 'both are being made' });
        leaves.abort();
        assert.equal(await left, 'gone');
        process.kill(warden, 'SIGCONT');
        const made = await stays;
        assert.ok([200, 201].includes(made.status));
        const { id } = await made.json();
        // What was asked for earlier is made or given up by now or soon.
        await until(() => one.holdings().groups > 0 && one.holdings().images === 1, { what: 'one sandbox only' });
        assert.deepEqual((await one.ok('GET', list)).data.map((s) => s.id), [id]);
        assert.equal((await one.ok('GET', '/api/workspaces')).data.length, 1);
      } finally {
        process.kill(warden, 'SIGCONT');
        await one.stop();
      }
    });
});
