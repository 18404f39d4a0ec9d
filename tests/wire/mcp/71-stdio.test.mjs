// SPDX-License-Identifier: Apache-2.0
// `glovebox mcp` and the real service: both eras by hand, and the service it
// starts when there is none. What a service that misbehaves does to it is in
// 73-bridge.
import assert from 'node:assert/strict';
import { createHash, randomInt } from 'node:crypto';
import { chmodSync, existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, allProcesses, sleep, until } from '../../lib/glovebox.mjs';
import { Bridge, LEGACY, MODERN, claim } from '../../lib/mcp-stdio.mjs';

const SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId';
const slow = 'import time\nfor n in range(600):\n    print("line", n, flush=True)\n    time.sleep(0.1)';

// How many sessions run something now.
const running = async (g) => (await g.ok('GET', '/api/sessions')).data.filter(({ state }) => state === 'running').length;
const idle = (g) => until(async () => await running(g) === 0, { what: 'no code running' });

describe('beside a running service', () => {
  let g, cli;
  const bridges = [];
  before(async () => {
    g = await Glovebox.start();
    cli = new Cli(g);
  });
  after(async () => {
    for (const bridge of bridges) if (!bridge.exit) await bridge.end();
    cli.close();
    await g.stop();
  });
  const open = (options) => {
    bridges.push(new Bridge(cli, options));
    return bridges.at(-1);
  };
  const done = async (bridge) => {
    const ended = await bridge.end();
    assert.equal(ended.status, 0);
    assert.equal(bridge.stderr, '');
    return ended;
  };

  test('modern: discovery, a call, and an error, nothing else on the channel', async () => {
    const bridge = open();
    const found = await bridge.modern('server/discover');
    assert.deepEqual(found.supportedVersions, [MODERN]);
    const { tools } = await bridge.modern('tools/list');
    assert.ok(tools.some(({ name }) => name === 'execute_python') && !tools.some(({ name }) => name === 'list_workspaces'));
    const { structuredContent } = await bridge.call('execute_python', { code: 'print(6 * 7)' });
    assert.equal(structuredContent.stdout, '42\n');
    const again = await bridge.call('execute_python', { code: 'print(_oh is not None)', session_id: structuredContent.session_id });
    assert.equal(again.structuredContent.session_id, structuredContent.session_id);
    assert.equal((await bridge.ask('tools/call', { name: 'nothing', arguments: {}, _meta: claim() })).error.code, -32602);
    assert.equal((await bridge.ask('no/such', { _meta: claim() })).error.code, -32601);
    assert.equal((await bridge.ask('server/discover', { _meta: { ...claim(), 'io.modelcontextprotocol/protocolVersion': '2099-01-01' } })).error.code, -32022);
    assert.equal(bridge.messages.length, 7);
    await done(bridge);
  });

  for (const version of [LEGACY, '2025-06-18', '2025-03-26'])
    test(`legacy ${version}: handshake, calls in one session, the end`, async () => {
      const bridge = open({ args: ['--tools', 'all'] });
      const hello = await bridge.initialize(version);
      assert.equal(hello.protocolVersion, version);
      await bridge.legacy('execute_python', { code: 'x = 41' });
      const { structuredContent } = await bridge.legacy('execute_python', { code: 'print(x + 1)' });
      assert.equal(structuredContent.stdout, '42\n');
      assert.ok((await bridge.ok('tools/list')).tools.some(({ name }) => name === 'list_workspaces'));
      assert.deepEqual(await bridge.ok('ping'), {});
      if (version === '2025-03-26') {
        bridge.write('[{"jsonrpc":"2.0","id":"b1","method":"ping"},{"jsonrpc":"2.0","id":"b2","method":"ping"}]\n');
        const batch = await bridge.sees((m) => Array.isArray(m));
        assert.deepEqual(batch.map(({ id }) => id), ['b1', 'b2']);
      }
      await done(bridge);
    });

  test('a probe in the modern era, then a legacy handshake, on one channel', async () => {
    const bridge = open();
    await bridge.modern('server/discover');
    await bridge.initialize();
    await bridge.ok('tools/list');
    await bridge.modern('tools/list');
    await done(bridge);
  });

  test('many requests at once', async () => {
    const bridge = open();
    const session = (await bridge.call('execute_python', { code: '1' })).structuredContent.session_id;
    const many = await Promise.all([
      ...Array.from({ length: 20 }, () => bridge.modern('tools/list')),
      ...Array.from({ length: 5 }, (_, n) => bridge.call('execute_python', { code: `print(${n})`, session_id: session })),
    ]);
    assert.deepEqual(many.slice(20).map((r) => r.structuredContent.stdout), ['0\n', '1\n', '2\n', '3\n', '4\n']);
    await done(bridge);
  });

  for (const era of ['modern', 'legacy'])
    test(`${era}: progress comes while the code runs, and cancelling stops it`, async () => {
      const bridge = open();
      if (era === 'legacy') await bridge.initialize();
      const meta = { ...(era === 'modern' ? claim() : {}), progressToken: 'p' };
      bridge.send({ id: 'slow', method: 'tools/call', params: { name: 'execute_python', arguments: { code: slow }, _meta: meta } });
      const told = await bridge.sees((m) => m.method === 'notifications/progress' && /line \d/.test(m.params.message), { what: 'progress' });
      assert.equal(told.params.progressToken, 'p');
      await until(() => bridge.messages.filter((m) => m.method === 'notifications/progress').length >= 3);
      const steps = bridge.messages.filter((m) => m.method === 'notifications/progress').map((m) => m.params.progress);
      assert.deepEqual(steps, [...new Set(steps)].sort((a, b) => a - b));
      assert.deepEqual(bridge.about('slow'), []);
      assert.equal(await running(g), 1);
      bridge.notify('notifications/cancelled', { requestId: 'slow', ...(era === 'modern' ? { _meta: claim() } : {}) });
      await idle(g);
      const count = bridge.messages.length;
      await (era === 'modern' ? bridge.modern('tools/list') : bridge.ok('tools/list'));
      await sleep(300);
      assert.deepEqual(bridge.about('slow'), []);
      assert.equal(bridge.messages.slice(count).filter((m) => m.method).length, 0);
      await done(bridge);
    });

  test('modern: a subscription hears of a file that changes, and ends with its request', async () => {
    const bridge = open();
    const made = await bridge.call('execute_python', { code: 'open("/mnt/data/a.txt", "w").write("1")' });
    const { session_id } = made.structuredContent;
    const [{ uri }] = made._meta.files;
    bridge.send({ id: 'w1', method: 'subscriptions/listen', params: { notifications: { resourceSubscriptions: [uri] }, _meta: claim() } });
    const first = await bridge.sees((m) => m.method === 'notifications/subscriptions/acknowledged');
    assert.equal(first.params._meta[SUBSCRIPTION], 'w1');
    await bridge.call('execute_python', { code: 'open("/mnt/data/a.txt", "w").write("2")', session_id });
    const heard = await bridge.sees((m) => m.method === 'notifications/resources/updated');
    assert.deepEqual([heard.params.uri, heard.params._meta[SUBSCRIPTION]], [uri, 'w1']);
    bridge.send({ method: 'notifications/cancelled', params: { requestId: 'w1', _meta: claim() } });
    const count = bridge.messages.length;
    await bridge.call('execute_python', { code: 'open("/mnt/data/a.txt", "w").write("3")', session_id });
    await sleep(1500);
    assert.equal(bridge.messages.length, count + 1);
    await done(bridge);
  });

  test('legacy: what is subscribed to is heard by the standing stream', async () => {
    const bridge = open();
    await bridge.initialize();
    const { _meta } = await bridge.legacy('execute_python', { code: 'open("/mnt/data/a.txt", "w").write("1")' });
    const [{ uri }] = _meta.files;
    await bridge.ok('resources/subscribe', { uri });
    await bridge.legacy('execute_python', { code: 'open("/mnt/data/a.txt", "w").write("2")' });
    assert.equal((await bridge.sees((m) => m.method === 'notifications/resources/updated')).params.uri, uri);
    await done(bridge);
  });

  test('end of input: at once although code runs, which is stopped; the session is gone', async () => {
    for (const era of ['modern', 'legacy']) {
      const bridge = open();
      if (era === 'legacy') await bridge.initialize();
      const meta = { ...(era === 'modern' ? claim() : {}), progressToken: 1 };
      bridge.send({ id: 'slow', method: 'tools/call', params: { name: 'execute_python', arguments: { code: slow }, _meta: meta } });
      await bridge.sees((m) => m.method === 'notifications/progress');
      assert.equal(await running(g), 1);
      const { status, ms } = await bridge.end();
      assert.equal(status, 0);
      assert.ok(ms < 10_000, `${ms} ms`);
      await idle(g);
    }
  });

  test('SIGTERM ends it as well', async () => {
    const bridge = open();
    await bridge.initialize();
    bridge.child.kill('SIGTERM');
    assert.deepEqual(await bridge.exited, { status: 0, signal: null });
    assert.equal(bridge.stderr, '');
  });

  test('a wrong key is an error one can read, and so is a key that may not', async () => {
    const wrong = open({ env: { GLOVEBOX_KEY: `gbx_${'00'.repeat(32)}` } });
    const refused = await wrong.ask('server/discover', { _meta: claim() });
    assert.match(refused.error.message, /key is not valid/);
    assert.match((await wrong.ask('initialize', { protocolVersion: LEGACY, capabilities: {}, clientInfo: { name: 'x', version: '1' } })).error.message, /key is not valid/);
    await wrong.end();
    const { secret } = await g.ok('POST', '/api/keys', { tenant: 'default', scopes: ['files:read'] });
    const weak = open({ env: { GLOVEBOX_KEY: secret } });
    const answer = await weak.ask('tools/call', { name: 'execute_python', arguments: { code: '1' }, _meta: claim() });
    assert.match(JSON.stringify(answer), /execute/);
    assert.ok(answer.error || answer.result.isError, JSON.stringify(answer));
    await weak.end();
  });

  test('what the service takes as a body is the limit; more is refused with the id', async () => {
    const bridge = open();
    const answer = await bridge.ask('tools/call', { name: 'upload_file', arguments: { path: 'x', text: 'x'.repeat(5 << 20) }, _meta: claim() });
    assert.ok(answer.error, JSON.stringify(answer).slice(0, 300));
    assert.match(answer.error.message, /large|long|bytes|MiB/);
    assert.equal((await bridge.call('execute_python', { code: 'print(1)' })).structuredContent.stdout, '1\n');
    await done(bridge);
  });

  test('the service is restarted: the same host goes on, in both eras', async () => {
    const legacy = open({ env: { GLOVEBOX_URL: '', GLOVEBOX_DATA_DIR: join(g.dir, 'data'), GLOVEBOX_KEY: '' } });
    const modern = open({ env: { GLOVEBOX_URL: '', GLOVEBOX_DATA_DIR: join(g.dir, 'data'), GLOVEBOX_KEY: '' } });
    await legacy.initialize();
    const { structuredContent } = await legacy.legacy('execute_python', { code: 'open("/mnt/data/kept.txt", "w").write("kept")' });
    await modern.modern('server/discover');
    await g.stop({ keep: true });
    g = await Glovebox.start({ dir: g.dir });
    cli.env.GLOVEBOX_URL = g.url;
    await modern.modern('server/discover');
    const read = await legacy.legacy('read_file', { path: 'kept.txt', session_id: structuredContent.session_id });
    assert.match(JSON.stringify(read.content), /kept/);
    await done(legacy);
    await done(modern);
  });
});

describe('without a service', () => {
  const uidBase = 1_000_000_000 + randomInt(3000) * 1_000_000;
  let cli, data;
  before(() => {
    cli = new Cli();
    chmodSync(cli.dir, 0o755); // the service's account must get through
    data = join(cli.dir, 'data');
    const config = join(cli.dir, 'glovebox.yaml');
    writeFileSync(config, JSON.stringify({ uid_base: uidBase, pools: [{ name: 'default', runtime: 'minimal' }] }));
    Object.assign(cli.env, { GLOVEBOX_CONFIG: config, GLOVEBOX_DATA_DIR: data });
  });
  after(() => cli.close());

  const daemons = () => allProcesses().filter(({ pid, zombie }) => {
    try {
      return !zombie && readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(data);
    } catch {
      return false;
    }
  });
  const endpoint = () => readFileSync(join(data, 'endpoint'), 'utf8').trim();
  const groups = () => {
    const name = `glovebox-gb-${createHash('sha256').update(data).digest('hex').slice(0, 16)}`;
    return ['/sys/fs/cgroup', '/sys/fs/cgroup/memory', '/sys/fs/cgroup/unified'].filter((at) => existsSync(join(at, name)));
  };
  const nothingLeft = () => until(() => daemons().length === 0 && groups().length === 0 && !existsSync(join(data, 'endpoint'))
    && allProcesses().every(({ uid, zombie }) => zombie || uid < uidBase || uid >= uidBase + 1_000_000), { ms: 30_000, what: 'nothing left' });
  let session;

  test('it starts one on the data directory, answers before sandboxes are ready, and ends it', async () => {
    const bridge = new Bridge(cli);
    await bridge.modern('server/discover');
    const made = await bridge.call('execute_python', { code: 'open("/mnt/data/kept.txt", "w").write("still here")' }, { ms: 60_000 });
    session = made.structuredContent.session_id;
    assert.equal(made.structuredContent.status, 'ok');
    assert.equal((await bridge.end()).status, 0);
    assert.equal(bridge.stderr, `glovebox: started a service on ${data}, which ends with this command; its files are kept there\n`);
    await nothingLeft();
  });

  test('run again, the files are there', async () => {
    const bridge = new Bridge(cli);
    await bridge.initialize();
    const read = await bridge.legacy('read_file', { path: 'kept.txt', session_id: session }, { ms: 60_000 });
    assert.match(JSON.stringify(read.content), /still here/);
    assert.equal((await bridge.end()).status, 0);
    await nothingLeft();
  });

  test('two at once share one service; when the first ends, the second goes on', async () => {
    const [one, two] = [new Bridge(cli), new Bridge(cli)];
    await Promise.all([one.modern('server/discover', {}, { ms: 60_000 }), two.initialize()]);
    await two.ok('tools/list');
    // The daemon that found the directory in use may take a moment to end.
    await until(() => daemons().filter(({ name }) => name === 'gloveboxd').length === 1, { what: 'one daemon' });
    const url = endpoint();
    // Whoever has it ends, the other one starts its own.
    const owner = (bridge) => allProcesses().some((p) => p.ppid === bridge.child.pid && daemons().some((d) => d.ppid === p.pid));
    const [first, second] = owner(one) ? [one, two] : [two, one];
    assert.ok(owner(first) && !owner(second));
    assert.equal((await first.end()).status, 0);
    const answer = second === two
      ? await second.legacy('execute_python', { code: 'print(6 * 7)' }, { ms: 60_000 })
      : await second.call('execute_python', { code: 'print(6 * 7)' }, { ms: 60_000 });
    assert.equal(answer.structuredContent.stdout, '42\n');
    assert.notEqual(endpoint(), url);
    assert.equal((await second.end()).status, 0);
    await nothingLeft();
  });

  test('one after another without a pause, as a host that probes first does', async () => {
    for (let i = 0; i < 3; i++) {
      const bridge = new Bridge(cli);
      await bridge.modern('server/discover', {}, { ms: 60_000 });
      bridge.child.stdin.end(); // and nobody waits for it
      const next = new Bridge(cli);
      assert.equal((await next.initialize()).protocolVersion, LEGACY);
      await Promise.all([bridge.exited, next.end()]);
      assert.equal(next.exit.status, 0);
    }
    await nothingLeft();
  });

  test('killed outright, it leaves no service', async () => {
    const bridge = new Bridge(cli);
    await bridge.modern('server/discover', {}, { ms: 60_000 });
    bridge.child.kill('SIGKILL');
    await bridge.exited;
    await nothingLeft();
  });

  for (const ms of [0, 50, 150, 400])
    test(`a host that hangs up ${ms} ms into the start: it ends, and leaves nothing`, async () => {
      const bridge = new Bridge(cli);
      bridge.send({ id: 1, method: 'server/discover', params: { _meta: claim() } });
      await sleep(ms);
      assert.equal((await bridge.end()).status, 0);
      await nothingLeft();
    });

  test('a key of the data directory counts in the service it starts', async () => {
    const bridge = new Bridge(cli, { env: { GLOVEBOX_KEY: `gbx_${'11'.repeat(32)}` } });
    const answer = await bridge.ask('server/discover', { _meta: claim() }, { ms: 60_000 });
    assert.match(answer.error.message, /key is not valid/);
    await bridge.end();
    await nothingLeft();
  });

  test('a service that cannot start is an error one can read', async () => {
    const bridge = new Bridge(cli, { env: { GLOVEBOX_RUNTIME_DIR: join(cli.dir, 'no-images') } });
    const answer = await bridge.ask('initialize', { protocolVersion: LEGACY, capabilities: {}, clientInfo: { name: 'x', version: '1' } });
    assert.match(answer.error.message, /'minimal' is not built/);
    await until(() => /glovebox runtime build minimal/.test(bridge.stderr), { what: 'the advice on standard error' });
    assert.match((await bridge.ask('tools/list', { _meta: claim() })).error.message, /'minimal' is not built/);
    assert.equal((await bridge.end()).status, 0);
    assert.deepEqual(readdirSync(cli.env.HOME), []);
  });
});
