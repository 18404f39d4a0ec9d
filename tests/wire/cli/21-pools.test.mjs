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

test('--json is what the API answers', async () => {
  const made = await cli.json(['pool', 'create', '-n', 'two', '--persistence', 'ephemeral']);
  assert.deepEqual([made.name, made.persistence, made.source], ['two', 'ephemeral', 'made']);
  assert.deepEqual(await cli.json(['pool', 'show', '--name', 'two']), await server.ok('GET', '/api/pools/two'));
  assert.deepEqual((await cli.json(['pool', 'list'])).map((p) => p.name), ['default', 'two']);
  assert.equal((await cli.json(['pool', 'update', '--name', 'two', '--max-sessions', '3'])).max_sessions, 3);
  assert.deepEqual(await cli.json(['pool', 'delete', '-n', 'two', '-y']), { deleted: 'two' });
});

test('what cannot be had is refused with the reason, before the service is asked', async () => {
  for (const [args, why] of [
    [['--container-type', 'NodeLTS'], /NodeLTS is not available: there is no runtime for JavaScript/],
    [['--container-type', 'customcontainer'], /CustomContainer is not available: .*runtime images/],
    [['--container-type', 'GpuBase'], /must be PythonLTS or Shell, not 'GpuBase'/],
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
  assert.match((await cli.exits(3, ['pool', 'create', 'Bad'])).stderr, /name must be/);
  assert.match((await cli.exits(3, ['pool', 'create', 'big', '--max-sessions', '100001'])).stderr, /max_sessions/);
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
