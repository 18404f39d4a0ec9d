// SPDX-License-Identifier: Apache-2.0
// Starting, what operators ask, and stopping.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, bin, pool, until } from '../../lib/glovebox.mjs';
import { Stream, refused, request, stop } from '../../lib/wire.mjs';

const daemon = (...args) => spawnSync(bin('gloveboxd'), args, { encoding: 'utf8', timeout: 20_000, env: { PATH: process.env.PATH } });

describe('one daemon', () => {
  let server;

  before(async () => {
    server = await Glovebox.start({ config: { pools: [pool(), pool({ name: 'second', ready: 0 })] } });
  });
  after(() => stop(server));

  test('healthz and readyz are open and say one word', async () => {
    for (const [path, word] of [['/healthz', 'ok\n'], ['/readyz', 'ready\n']]) {
      const got = await request(server, 'GET', path, { key: null });
      assert.equal(got.status, 200);
      assert.equal(got.text, word);
      assert.match(got.headers['content-type'], /^text\/plain/);
      const head = await request(server, 'HEAD', path, { key: null });
      assert.equal(head.status, 200);
      assert.equal(head.text, '');
    }
  });

  test('every answer carries a request id of its own and is not to be stored', async () => {
    const ids = new Set();
    for (const path of ['/healthz', '/api/pools', '/nowhere', '/api/sessions/sess_x']) {
      const got = await request(server, 'GET', path);
      ids.add(got.headers['x-request-id']);
      assert.match(got.headers['x-request-id'], /^req_[a-z0-9]{16,}$/);
      assert.equal(got.headers['cache-control'], 'no-store');
      assert.equal(got.headers['x-content-type-options'], 'nosniff');
    }
    assert.equal(ids.size, 4);
  });

  // Reads the text format strictly: name -> { type, samples: [{labels, value}] }.
  function prometheus(text) {
    const families = new Map();
    let family;
    assert.ok(text.endsWith('\n'));
    for (const line of text.slice(0, -1).split('\n')) {
      const head = /^# (HELP|TYPE) ([a-z_][a-z0-9_]*) (.+)$/.exec(line);
      if (head?.[1] === 'HELP') {
        assert.ok(!families.has(head[2]), `${head[2]} twice`);
        families.set(head[2], family = { samples: [] });
      } else if (head) {
        assert.ok(['counter', 'gauge', 'histogram'].includes(head[3]), line);
        family.type = head[3];
        family.name = head[2];
      } else {
        const [, name, labels = '', value] =
          /^([a-z_][a-z0-9_]*)(?:\{((?:[a-z_]+="[^"\\\n]*",?)*)\})? (\d+(?:\.\d+)?)$/.exec(line) ?? assert.fail(line);
        const suffix = family.type === 'histogram' ? /^(_bucket|_sum|_count)$/ : /^$/;
        assert.ok(name.startsWith(family.name), line);
        assert.match(name.slice(family.name.length), suffix, line);
        family.samples.push({ name, labels: Object.fromEntries([...labels.matchAll(/([a-z_]+)="([^"]*)"/g)].map((m) => m.slice(1))), value: Number(value) });
      }
    }
    return families;
  }

  const metrics = async () => {
    const got = await request(server, 'GET', '/metrics');
    assert.equal(got.status, 200);
    assert.match(got.headers['content-type'], /^text\/plain; version=0\.0\.4/);
    return prometheus(got.text);
  };
  const value = (families, name, label) =>
    families.get(name).samples.find((s) => !label || Object.values(s.labels).includes(label)).value;

  test('metrics are valid Prometheus text with every family documented', async () => {
    const families = await metrics();
    const page = readFileSync(new URL('../../../docs/API.md', import.meta.url), 'utf8');
    const listed = page.slice(page.indexOf('\nMetrics:')).match(/`(glovebox|process)_[a-z_]+/g).map((s) => s.slice(1));
    assert.deepEqual([...families.keys()].sort(), [...listed].sort());
    for (const name of ['glovebox_session_start_seconds', 'glovebox_execution_seconds']) {
      const { type, samples } = families.get(name);
      assert.equal(type, 'histogram');
      const buckets = samples.filter((s) => s.name.endsWith('_bucket'));
      buckets.reduce((low, s) => { assert.ok(s.value >= low); return s.value; }, 0);
      const bounds = buckets.map((s) => Number(s.labels.le.replace('+Inf', 'Infinity')));
      assert.deepEqual(bounds, [...bounds].sort((a, b) => a - b));
      assert.equal(bounds.at(-1), Infinity);
      assert.equal(buckets.at(-1).value, samples.find((s) => s.name.endsWith('_count')).value);
    }
    assert.deepEqual(families.get('glovebox_sessions').samples.map((s) => s.labels.state), ['starting', 'idle', 'running', 'dormant', 'hibernated']);
    assert.deepEqual(families.get('glovebox_executions_total').samples.map((s) => s.labels.outcome),
      ['ok', 'error', 'timeout', 'oom', 'killed', 'limit', 'crashed', 'cancelled', 'denied', 'isolation_failed', 'lost']);
    assert.deepEqual(families.get('glovebox_ready').samples.map((s) => s.labels.pool), ['default', 'second']);
    refused(await request(server, 'GET', '/metrics', { key: null }), 401, 'unauthenticated');
  });

  test('metrics count sessions, executions, outcomes and refusals', async () => {
    const was = await metrics();
    const session = await server.session();
    const second = await server.session({ pool: 'second' });
    assert.equal((await session.python('1')).outcome, 'ok');
    assert.equal((await session.python('1/0')).outcome, 'error');
    assert.equal((await session.shell('true')).outcome, 'ok');
    const is = await metrics();
    const rise = (name, label) => value(is, name, label) - value(was, name, label);
    assert.equal(rise('glovebox_sessions_total', 'created'), 2);
    assert.equal(value(is, 'glovebox_sessions', 'idle'), 2);
    assert.equal(value(is, 'glovebox_pool_sessions', 'second'), 1);
    assert.equal(rise('glovebox_executions_total', 'ok'), 2);
    assert.equal(rise('glovebox_executions_total', 'error'), 1);
    assert.equal(rise('glovebox_starts_total', 'made'), 1);
    assert.equal(rise('glovebox_starts_total', 'ready'), 1);
    const count = (f, name) => f.get(name).samples.find((s) => s.name.endsWith('_count')).value;
    assert.equal(count(is, 'glovebox_execution_seconds') - count(was, 'glovebox_execution_seconds'), 3);
    assert.equal(count(is, 'glovebox_session_start_seconds') - count(was, 'glovebox_session_start_seconds'), 2);
    await Promise.all([session.delete(), second.delete()]);
    assert.equal(value(await metrics(), 'glovebox_sessions_total', 'deleted') - value(was, 'glovebox_sessions_total', 'deleted'), 2);
    await until(async () => value(await metrics(), 'glovebox_ready', 'default') === value(is, 'glovebox_ready_wanted', 'default'),
      { what: 'the ready pool refilled' });
  });

  test('I2 I7 admin.key is readable by the service user alone and the only secret there', async () => {
    const data = join(server.dir, 'data');
    const key = statSync(join(data, 'admin.key'));
    assert.equal(key.mode & 0o777, 0o600);
    if (process.getuid() === 0) {
      const uid = Number(spawnSync('id', ['-u', 'glovebox'], { encoding: 'utf8' }).stdout);
      assert.equal(key.uid, uid);
      assert.equal(statSync(data).uid, uid);
    }
    assert.equal(statSync(data).mode & 0o007, 0);
    const random = /[0-9a-f]{64}$/.exec(server.key)[0]; // 256 bits, kept nowhere but here
    const found = spawnSync('grep', ['-rlaF', '--exclude=*.img', '--', random, data], { encoding: 'utf8' }).stdout.trim().split('\n');
    assert.deepEqual(found, [join(data, 'admin.key')]);
  });

  test('I6 no guessable credential works', async () => {
    for (const header of ['', 'Bearer', 'Bearer ', 'Bearer admin', 'Bearer glovebox', 'Bearer changeme', 'Bearer null', 'Basic YWRtaW46YWRtaW4=',
      `Basic ${Buffer.from(`:${server.key}`).toString('base64')}`])
      assert.ok([401, 429].includes((await request(server, 'GET', '/api/pools', { key: null, headers: { authorization: header } })).status), header);
    assert.equal((await request(server, 'GET', '/api/pools')).status, 200);
    // Neither as a parameter, nor a cookie, nor a header of another name.
    for (const [path, headers] of [[`/api/pools?key=${server.key}`, {}], ['/api/pools', { cookie: `key=${server.key}` }],
      ['/api/pools', { 'x-api-key': server.key }], ['/api/pools', { 'proxy-authorization': `Bearer ${server.key}` }]])
      refused(await request(server, 'GET', path, { key: null, headers }), 401, 'unauthenticated');
  });
});

describe('the configuration', () => {
  let dir;
  const file = (text) => {
    writeFileSync(join(dir, 'c.yaml'), text);
    return join(dir, 'c.yaml');
  };

  before(() => { dir = mkdtempSync(join(tmpdir(), 'glovebox-conf-')); });
  after(() => rmSync(dir, { recursive: true, force: true }));

  test('--check accepts a good file and starts nothing', () => {
    const done = daemon('--config', file('listen: 127.0.0.1:0\npools:\n  - name: a\n    ready: 0\n'), '--data', join(dir, 'none'), '--check');
    assert.equal(done.status, 0, done.stderr);
    assert.ok(!existsSync(join(dir, 'none')));
  });

  test('an unknown key is an error with the line and the nearest name', () => {
    for (const [text, line, near] of [['log_levle: debug\n', 1, 'log_level'], ['pools:\n  - name: a\n    memory_byte: 1GiB\n', 3, 'memory_bytes']]) {
      const done = daemon('--config', file(text), '--check');
      assert.equal(done.status, 2);
      assert.match(done.stderr, new RegExp(near));
      assert.match(done.stderr, new RegExp(`c\\.yaml.*${line}`));
      assert.equal(daemon('--config', file(text), '--data', join(dir, 'none')).status, 2, 'nor does it serve');
    }
    const flag = daemon('--config', 'none', '--worker', '9', '--check');
    assert.equal(flag.status, 2);
    assert.match(flag.stderr, /--workers/);
  });

  test('values out of range and of the wrong kind are errors', () => {
    for (const text of ['workers: 1\n', 'workers: many\n', 'json_bytes: -1\n', 'pools: []\n', 'pools:\n  - name: A\n', 'listen: nowhere:1\n',
      'workers: 4\nworkers: 5\n', 'max_executions: 500\n', '- a\n', '{'])
      assert.equal(daemon('--config', file(text), '--check').status, 2, text);
  });

  test('--dump prints every setting as a file that gives the same settings', () => {
    const first = daemon('--config', file('workers: 17\nmax_executions: 9\npools:\n  - name: a\n    memory_bytes: 512MiB\n'), '--dump');
    assert.equal(first.status, 0, first.stderr);
    assert.match(first.stdout, /^workers: 17$/m);
    assert.match(first.stdout, /memory_bytes: (512MiB|536870912)/);
    const again = daemon('--config', file(first.stdout), '--dump');
    assert.equal(again.stdout, first.stdout);
  });

  test('I6 the default address is loopback and another is refused unless permitted', () => {
    assert.match(daemon('--config', 'none', '--dump').stdout, /^listen: "?127\.0\.0\.1:8650"?$/m);
    for (const listen of ['0.0.0.0:8650', '[::]:8650', '192.0.2.1:8650']) {
      for (const mode of [['--check'], ['--data', join(dir, 'none')]]) {
        const done = daemon('--config', 'none', '--listen', listen, ...mode);
        assert.equal(done.status, 2, listen);
        assert.match(done.stderr, /allow_remote/);
      }
      assert.equal(daemon('--config', 'none', '--listen', listen, '--allow-remote', 'true', '--check').status, 0);
    }
    for (const listen of ['127.0.0.1:0', '127.9.9.9:0', '[::1]:0', 'localhost:0'])
      assert.equal(daemon('--config', 'none', '--listen', listen, '--check').status, 0, listen);
  });
});

describe('starting and stopping', () => {
  test('readyz says 503 until every pool can start sessions, which is no error', async () => {
    const server = await Glovebox.start({ wait: false, config: { log_level: 'debug', pools: [pool({ runtime: 'standard' })] } });
    try {
      await until(() => existsSync(join(server.dir, 'data', 'endpoint')));
      server.url = readFileSync(join(server.dir, 'data', 'endpoint'), 'utf8').trim();
      const first = await request(server, 'GET', '/readyz', { key: null });
      assert.equal(refused(first, 503, 'unavailable').code, 'unavailable');
      assert.match(first.headers['retry-after'], /^\d+$/);
      assert.equal((await request(server, 'GET', '/healthz', { key: null })).status, 200);
      await until(async () => (await request(server, 'GET', '/readyz', { key: null })).status === 200, { ms: 60_000, every: 100 });
    } finally {
      await stop(server);
    }
    const lines = server.log.split('\n').filter((line) => line.includes('/readyz'));
    assert.ok(lines.length > 1);
    for (const line of lines) assert.match(line, /^\S+ debug /);
  });

  test('a stop lets what runs finish and answers it; the key survives a restart', async () => {
    const first = await Glovebox.start({ config: { stop_deadline_s: 40, log_format: 'json' } });
    const session = await first.session();
    const running = session.python('import time; time.sleep(1.5); 6 * 7');
    await until(async () => (await session.get()).state === 'running');
    const asked = Date.now();
    const stopped = first.stop({ keep: true });
    assert.equal((await running).result['text/plain'], '42');
    assert.deepEqual(await stopped, { code: 0, signal: null });
    assert.ok(Date.now() - asked < 30_000, 'before the deadline of the stop');
    assert.ok(!existsSync(join(first.dir, 'data', 'endpoint')), 'nobody is sent to an address where nobody is');
    const lines = first.log.split('\n').filter((line) => line.startsWith('{')).map((line) => JSON.parse(line));
    for (const event of ['session_created', 'execution', 'request', 'stopping']) assert.ok(lines.some((l) => l.event === event), event);
    for (const line of lines) assert.ok(line.time && line.level && line.event, JSON.stringify(line));
    const again = await Glovebox.start({ dir: first.dir });
    try {
      assert.equal(again.key, first.key);
      assert.equal((await again.run('print(1)')).stdout, '1\n');
      assert.equal((await request(again, 'GET', session.path)).body.state, 'dormant', 'a session outlives the service');
    } finally {
      await stop(again);
    }
  });

  test('a stop cancels what would outlast the deadline, and every client gets its answer', async () => {
    const server = await Glovebox.start({ config: { stop_deadline_s: 2 } });
    const session = await server.session();
    const other = await server.session();
    const running = request(server, 'POST', `${session.path}/executions`, { body: { code: 'import time; print("began", flush=True); time.sleep(60)' } });
    await until(async () => (await session.get()).state === 'running');
    const queued = request(server, 'POST', `${session.path}/executions`, { body: { code: '1' } });
    const stream = await Stream.open(server, 'POST', `${other.path}/executions`,
      { body: { language: 'shell', code: 'echo began; sleep 60', mode: 'stream' } });
    await until(async () => (await session.get()).queued === 1);
    await stream.find((e) => e.event === 'stdout');
    const asked = Date.now();
    const stopped = server.stop();
    const [one, two] = await Promise.all([running, queued]);
    assert.equal(one.status, 200);
    assert.equal(one.body.outcome, 'cancelled');
    assert.equal(one.body.stdout, 'began\n');
    assert.ok((two.status === 200 && two.body.outcome === 'cancelled') || two.status === 503, two.text);
    assert.equal((await stream.done()).data.outcome, 'cancelled');
    assert.deepEqual(await stopped, { code: 0, signal: null });
    assert.ok(Date.now() - asked < 40_000, 'before the cells would have ended');
  });
});
