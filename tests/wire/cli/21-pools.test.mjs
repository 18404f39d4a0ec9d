// SPDX-License-Identifier: Apache-2.0
// Pools by the command line, with the words people script the cloud tool with.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';

let server;
let cli;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 0 })] } });
  cli = new Cli(server);
});
after(async () => {
  cli?.close();
  await server?.stop();
});

test('create, show, list, update, run in it, delete', async () => {
  const quiet = await cli.ok(['pool', 'create', 'mine', '--container-type', 'PythonLTS', '--max-sessions', '7', '--cooldown-period', '300',
    '--ready-sessions', '0', '--network-status', 'EgressDisabled', '--lifecycle-type', 'Timed', '--memory', '256m']);
  assert.equal(quiet.stdout + quiet.stderr, '');
  const shown = (await cli.ok(['pool', 'show', 'mine'])).stdout;
  assert.match(shown, /^name +mine$/m);
  assert.match(shown, /^source +made$/m);
  assert.match(shown, /^max_sessions +7$/m);
  assert.match(shown, /^cooldown_s +300$/m);
  assert.match(shown, /"memory_bytes":268435456/);
  const list = (await cli.ok(['pool'])).stdout;
  assert.match(list, /^NAME +KIND +RUNTIME +PERSISTENCE +SOURCE +SESSIONS +MOST +READY +WANTED +COOLDOWN\n/);
  assert.match(list, /^default +python +minimal +workspace +configuration +0 /m);
  assert.match(list, /^mine +python +minimal +workspace +made +0 +7 +0 +0 +300$/m);
  assert.equal((await cli.ok(['pool', 'list'])).stdout, list);
  assert.equal((await cli.ok(['run', '--pool', 'mine', '-c', 'print(6 * 7)'])).stdout, '42\n');
  await cli.ok(['pool', 'update', 'mine', '--cooldown-period', '10m', '--container-type', 'Shell']);
  assert.deepEqual([(await server.ok('GET', '/api/pools/mine')).cooldown_s, (await server.ok('GET', '/api/pools/mine')).kind], [600, 'shell']);
  await cli.ok(['pool', 'delete', 'mine', '--yes']);
  assert.equal((await server.call('GET', '/api/pools/mine')).status, 404);
});

test('a pool for long jobs', async () => {
  await cli.ok(['pool', 'create', 'jobs', '--ready-sessions', '0', '--max-timeout', '2h']);
  assert.equal((await server.ok('GET', '/api/pools/jobs')).limits.python_timeout_max_s, 7200);
  assert.equal((await cli.ok(['run', '--pool', 'jobs', '--timeout', '7200', '-c', 'print(6 * 7)'])).stdout, '42\n');
  const long = await cli.exits(2, ['run', '--pool', 'jobs', '--timeout', '7201', '-c', '1']);
  assert.match(long.stderr, /from 5 to 7200 in this pool/);
  await cli.ok(['pool', 'delete', 'jobs', '--yes']);
});

test('--json is what the API answers', async () => {
  const made = await cli.json(['pool', 'create', '-n', 'two', '--persistence', 'ephemeral']);
  assert.deepEqual([made.name, made.persistence, made.source], ['two', 'ephemeral', 'made']);
  assert.deepEqual(await cli.json(['pool', 'show', '--name', 'two']), await server.ok('GET', '/api/pools/two'));
  assert.deepEqual((await cli.json(['pool', 'list'])).map((p) => p.name), ['default', 'two']);
  assert.equal((await cli.json(['pool', 'update', '--name', 'two', '--max-sessions', '3'])).max_sessions, 3);
  assert.deepEqual(await cli.json(['pool', 'delete', '-n', 'two', '-y']), { deleted: 'two' });
});

test('the arguments of the cloud tool are accepted, and a note says which are ignored', async () => {
  const made = await cli.ok(['pool', 'create', '--name', 'my-session-pool', '--resource-group', 'my-group', '--location', 'westus2',
    '--subscription', '00000000-0000-0000-0000-000000000000', '--container-type', 'PythonLTS', '--max-sessions', '100', '--cooldown-period', '300',
    '--network-status', 'EgressDisabled', '--environment', 'my-environment', '--cpu', '0.25', '--no-wait', '--only-show-errors']);
  for (const name of ['resource-group', 'location', 'subscription', 'environment', 'cpu'])
    assert.match(made.stderr, new RegExp(`^glovebox: --${name} is ignored: .+$`, 'm'));
  assert.equal((await server.ok('GET', '/api/pools/my-session-pool')).max_sessions, 100);
  assert.match((await cli.ok(['pool', 'show', '--name', 'my-session-pool', '-g', 'my-group'])).stdout, /^name +my-session-pool$/m);
  assert.match((await cli.ok(['pool', 'list', '-g', 'my-group', '--subscription', 'x'])).stdout, /^my-session-pool /m);
  await cli.ok(['pool', 'update', '-n', 'my-session-pool', '-g', 'my-group', '--cooldown-period', '600']);
  await cli.ok(['pool', 'delete', '-n', 'my-session-pool', '-g', 'my-group', '--yes', '--no-wait']);
  assert.equal((await server.call('GET', '/api/pools/my-session-pool')).status, 404);
});

test('what cannot be had is refused with the reason, before the service is asked', async () => {
  for (const [args, why] of [
    [['--container-type', 'GpuBase'], /must be PythonLTS, NodeLTS, Shell or CustomContainer, not 'GpuBase'/],
    [['--network-status', 'On'], /must be EgressDisabled or EgressEnabled, not 'On'/],
    [['--packages', 'maybe'], /wants on or off/],
    [['--lifecycle-type', 'OnContainerExit'], /is not available: sessions end by their cooldown/],
    [['--max-sessions', 'many'], /wants a whole number/],
    [['--cooldown-period', '0'], /wants a time/],
    [['--yes'], /--yes is not for 'create'/],
  ]) {
    const { stderr, stdout } = await cli.exits(2, ['pool', 'create', 'no', ...args]);
    assert.match(stderr, why);
    assert.equal(stdout, '');
  }
  assert.match((await cli.exits(2, ['pool', 'create'])).stderr, /create: NAME is missing/);
  assert.match((await cli.exits(2, ['pool', 'show', 'a', '--name', 'b'])).stderr, /two names/);
  assert.equal((await server.call('GET', '/api/pools/no')).status, 404);
});

test('the service\'s refusals are told', async () => {
  assert.match((await cli.exits(3, ['pool', 'show', 'nosuch'])).stderr, /no such pool/);
  assert.match((await cli.exits(3, ['pool', 'create', 'default'])).stderr, /configuration/);
  assert.match((await cli.exits(3, ['pool', 'update', 'default', '--max-sessions', '5'])).stderr, /configuration/);
  assert.match((await cli.exits(2, ['pool', 'create', 'Bad'])).stderr, /name must be/);
  assert.match((await cli.exits(2, ['pool', 'create', 'big', '--max-sessions', '100001'])).stderr, /--max-sessions/);
  const { key } = await server.tenant('others');
  assert.match((await cli.exits(3, ['pool', 'create', 'x'], { env: { GLOVEBOX_KEY: key } })).stderr, /admin/);
});

test('delete asks at a terminal, and wants --yes where nobody can be asked', async () => {
  await cli.ok(['pool', 'create', 'asked']);
  assert.match((await cli.exits(2, ['pool', 'delete', 'asked'])).stderr, /use --yes/);
  for (const [answer, status] of [['n\n', 7], ['\n', 7], ['y\n', 0]]) {
    const run = cli.start(['pool', 'delete', 'asked'], { terminal: true });
    await run.shows(/end its sessions\? \[y\/N\]/);
    run.child.stdin.write(answer);
    assert.equal((await run.ended).status, status);
    assert.equal((await server.call('GET', '/api/pools/asked')).status, status === 0 ? 404 : 200);
  }
});
