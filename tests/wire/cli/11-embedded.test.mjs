// SPDX-License-Identifier: Apache-2.0
// With --embedded, or where there is no service and no data directory, `run`
// and `shell` use a throwaway service and say so; when they end, however they
// end, nothing of it is left on the machine.
import assert from 'node:assert/strict';
import { createHash, randomInt } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { allProcesses, bin, sleep, until } from '../../lib/glovebox.mjs';

const uidBase = 1_000_000_000 + randomInt(3000) * 1_000_000;
let cli;

before(() => {
  cli = new Cli();
  const config = join(cli.dir, 'glovebox.yaml');
  writeFileSync(config, JSON.stringify({ uid_base: uidBase,
    pools: [{ name: 'default', runtime: 'minimal' }, { name: 'small', runtime: 'minimal', memory_bytes: '64MiB' }] }));
  Object.assign(cli.env, { GLOVEBOX_CONFIG: config, GLOVEBOX_DATA_DIR: join(cli.dir, 'data') });
});

after(() => cli.close());

const arguments_ = (pid) => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
};

// The data directory of the service that a command has started.
const dataOf = (pid) => until(() => {
  const rows = allProcesses();
  const below = (parent) => rows.filter((row) => row.ppid === parent).flatMap((row) => [row, ...below(row.pid)]);
  const daemon = below(pid).map((row) => arguments_(row.pid)).find((args) => args[0]?.endsWith('gloveboxd'));
  return daemon?.[daemon.indexOf('--data') + 1];
}, { what: 'an embedded service' });

function foldersNamed(name, at, depth = 6) {
  if (depth === 0 || !existsSync(at)) return [];
  return readdirSync(at, { withFileTypes: true }).filter((entry) => entry.isDirectory()).flatMap((entry) =>
    (entry.name === name ? [join(at, name)] : foldersNamed(name, join(at, entry.name), depth - 1)));
}

// What is on the machine because of a data directory.
function traces(data) {
  const group = `glovebox-gb-${createHash('sha256').update(data).digest('hex').slice(0, 16)}`;
  return {
    folder: existsSync(data),
    // What is dead already and only waits for the machine's init is gone.
    processes: allProcesses().filter(({ pid, uid, zombie }) => !zombie
      && ((uid >= uidBase && uid < uidBase + 1_000_000) || arguments_(pid).includes(data))).map((row) => row.name),
    groups: foldersNamed(group, '/sys/fs/cgroup'),
    loops: readdirSync('/sys/block').filter((name) => {
      try {
        return readFileSync(`/sys/block/${name}/loop/backing_file`, 'utf8').startsWith(data);
      } catch {
        return false;
      }
    }),
    mounts: readFileSync('/proc/self/mountinfo', 'utf8').split('\n').filter((line) => line.includes(data)),
  };
}

const nothing = { folder: false, processes: [], groups: [], loops: [], mounts: [] };

test('run without a service works and leaves nothing', async () => {
  const running = cli.start(['run', '-c', 'print(6 * 7)']);
  const data = await dataOf(running.child.pid);
  const done = await running.ended;
  assert.equal(done.status, 0, done.stderr);
  assert.equal(done.stdout, '42\n');
  assert.equal(done.stderr, 'glovebox: using an embedded throwaway service (no service and no data directory were found); '
    + 'its files are discarded when this command ends\n');
  assert.deepEqual(traces(data), nothing);
  assert.ok(!existsSync(join(cli.dir, 'data')), 'the user\'s own data directory was not touched');
  assert.deepEqual(readdirSync(cli.env.HOME), []);
});

test('--embedded is for a machine that has a service: one line says so, and the service is left alone', async () => {
  const data = join(cli.dir, 'used');
  mkdirSync(data);
  writeFileSync(join(data, 'endpoint'), 'http://127.0.0.1:9\n');
  const env = { GLOVEBOX_DATA_DIR: data, GLOVEBOX_URL: 'http://127.0.0.1:9', GLOVEBOX_KEY: 'gbx_not-for-it' };
  for (const [line, input] of [[['run', '--embedded', '-c', 'print(6 * 7)']], [['shell', '--embedded'], '6 * 7\n']]) {
    const { stdout, stderr } = await cli.ok(line, { env, input });
    assert.equal(stdout, '42\n');
    assert.match(stderr, /^glovebox: using an embedded throwaway service \(--embedded\); its files are discarded when this command ends\n$/);
  }
  assert.deepEqual(readdirSync(data), ['endpoint']);
  const json = await cli.exits(0, ['run', '--embedded', '--json', '-c', '1'], { env });
  assert.match(json.stderr, /throwaway service/);
  assert.equal(JSON.parse(json.stdout).outcome, 'ok');
  for (const flags of [['-s', 'x'], ['-w', 'x'], ['--url', 'http://127.0.0.1:9'], ['--data', data]])
    for (const line of [['run', '-c', '1'], ['shell']])
      assert.match((await cli.exits(2, [...line, '--embedded', ...flags])).stderr, /--embedded starts a new service/);
});

test('its traces are what we look for: while it runs, all are there', async () => {
  const running = cli.start(['run', '-c', 'import time\nprint("up", flush=True)\ntime.sleep(60)']);
  const data = await dataOf(running.child.pid);
  await running.shows(/up/);
  const now = traces(data);
  assert.ok(now.folder && now.groups.length && now.loops.length, JSON.stringify(now));
  assert.ok(now.processes.length >= 3, JSON.stringify(now));
  running.child.kill('SIGINT');
  assert.equal((await running.ended).status, 7);
  assert.deepEqual(traces(data), nothing);
});

test('killed outright, it still leaves nothing', async () => {
  const running = cli.start(['run', '-c', 'import time\nprint("up", flush=True)\ntime.sleep(60)']);
  const data = await dataOf(running.child.pid);
  await running.shows(/up/);
  running.child.kill('SIGKILL');
  await running.ended;
  await until(() => JSON.stringify(traces(data)) === JSON.stringify(nothing), { what: 'nothing left' });
});

// At several moments: a signal must not be lost in the waiting.
for (const ms of [0, 60, 120, 200, 300, 450]) {
  test(`interrupted ${ms} ms into the start of the service, it leaves nothing`, async () => {
    const running = cli.start(['run', '-c', 'import time; time.sleep(1); print("never")']);
    const data = await dataOf(running.child.pid);
    await sleep(ms);
    running.child.kill('SIGINT');
    const { status, stdout, stderr } = await running.ended;
    assert.equal(status, 7, stderr);
    assert.equal(stdout, '');
    // Ended before it took signals, the service leaves the rest to its warden.
    await until(() => JSON.stringify(traces(data)) === JSON.stringify(nothing), { what: 'nothing left' });
  });
}

test('the pool that is asked for is the one it has; files go in and out', async () => {
  writeFileSync(join(cli.cwd, 'n.txt'), '20');
  const code = 'n = int(open("n.txt").read()) + 1\nopen("m.txt", "w").write(str(n * 2)); None';
  await cli.ok(['run', '--pool', 'small', '--put', 'n.txt', '--get', 'm.txt', '-c', code]);
  assert.equal(readFileSync(join(cli.cwd, 'm.txt'), 'utf8'), '42');
  assert.match((await cli.exits(3, ['run', '--pool', 'none', '-c', '1'])).stderr, /no pool 'none' is configured/);
  assert.match((await cli.exits(3, ['run', '--runtime', 'none', '-c', '1'])).stderr, /there is no runtime 'none'/);
});

test('shell has one too, and keeps its state between lines', async () => {
  assert.equal((await cli.ok(['shell'], { input: 'x = 41\nx + 1\n' })).stdout, '42\n');
});

test('what needs a session that lasts does not start one', async () => {
  for (const line of [['run', '-s', 'x', '-c', '1'], ['shell', '-s', 'x'], ['sessions'], ['files', 'list', 'x'], ['key', 'list']])
    assert.match((await cli.exits(3, line)).stderr, /no running service was found[^]*glovebox serve/);
});

test('an image that is not built is said at once', async () => {
  const env = { GLOVEBOX_RUNTIME_DIR: join(cli.dir, 'no-images') };
  const { stderr } = await cli.exits(3, ['run', '-c', '1'], { env });
  assert.match(stderr, /'minimal' is not built[^]*glovebox runtime build minimal/);
});

test('doctor: all is there for root, and an ordinary user is told what is missing', async () => {
  const report = await cli.json(['doctor']);
  assert.equal(report.ok, true, JSON.stringify(report.checks.filter((check) => check.state !== 'ok')));
  assert.deepEqual(report.checks.filter((check) => check.name === 'service').map((check) => check.state), ['warn']);
  const home = join(cli.dir, 'nobody');
  mkdirSync(home, { mode: 0o777 });
  chmodSync(home, 0o777);
  chmodSync(cli.dir, 0o755);
  const nobody = { status: 1, cwd: '/', under: ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'], env: { HOME: home } };
  const theirs = await cli.json(['doctor'], nobody);
  assert.equal(theirs.ok, false);
  const missing = theirs.checks.filter((check) => check.required && check.state === 'missing');
  assert.ok(missing.some((check) => check.name === 'host uid per session' && check.fix), JSON.stringify(missing));
  assert.match((await cli.exits(1, ['doctor'], nobody)).stdout, /What to do:[^]*needed things? (is|are) missing/);
});

test('serve becomes the daemon and passes its flags on', async () => {
  const { stdout } = await cli.ok(['serve', '--dump', '--listen', '127.0.0.1:4242']);
  assert.match(stdout, /^listen: 127\.0\.0\.1:4242$/m);
  assert.match(stdout, new RegExp(`^uid_base: ${uidBase}$`, 'm'));
  assert.ok(existsSync(bin('gloveboxd')));
});

test('I7 a redirect is not followed, so the key goes nowhere else', async () => {
  const seen = [];
  const listen = (answer) => new Promise((done) => {
    const server = http.createServer(answer).listen(0, '127.0.0.1', () => done([server, `http://127.0.0.1:${server.address().port}`]));
  });
  const [other, elsewhere] = await listen((req, res) => { seen.push(req.headers.authorization); res.end('{"data":[]}'); });
  const [first, url] = await listen((req, res) => res.writeHead(307, { location: `${elsewhere}${req.url}` }).end());
  const secret = `gbx_${'ab'.repeat(32)}`;
  const { stdout, stderr } = await cli.exits(3, ['sessions'], { env: { GLOVEBOX_URL: url, GLOVEBOX_KEY: secret, http_proxy: elsewhere } });
  assert.doesNotMatch(stdout + stderr, new RegExp(secret));
  assert.deepEqual(seen, []);
  other.close();
  first.close();
});
