// SPDX-License-Identifier: Apache-2.0
// Networks of sessions, secrets and run --allow by the command line.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { Outside } from '../../lib/outside.mjs';

const HOST = 'api.outside.test';
let world, server, cli;

before(async () => {
  world = await Outside.open([HOST]);
  server = await Glovebox.start({ config: { ...world.config(), pools: [pool({ ready: 1 })] } });
  cli = new Cli(server);
});
after(async () => {
  cli?.close();
  await server?.stop();
  world.close();
});

const fetching = () => `import urllib.request as u; print(u.urlopen("http://${HOST}:${world.port}/cli").status)`;

test('run --allow lets a run reach what it names', async () => {
  const ran = await cli.ok(['run', '--allow', `${HOST}:${world.port}`, '-c', fetching()]);
  assert.equal(ran.stdout, '200\n');
  assert.equal(world.seen().length, 1);
  const not = await cli.run(['run', '-c', fetching()]);
  assert.equal(not.status, 1);
  assert.equal((await cli.run(['run', '--allow', 'a.org:0', '-c', '1'])).status !== 0, true);
  assert.equal((await cli.run(['run', '--session', 's', '--allow', 'a.org', '-c', '1'])).status, 2);
  assert.deepEqual(world.seen(), []);
});

test('network show and set', async () => {
  const s = await server.session({ name: 'linked' });
  await cli.ok(['network', 'set', 'linked', '--allow', `${HOST}:${world.port}`, '--allow', `${HOST}:81`, '--allow', 'b.org', '--requests', '5']);
  const shown = await cli.json(['network', 'show', 'linked']);
  assert.deepEqual(shown.destinations, [{ host: HOST, ports: [world.port, 81] }, { host: 'b.org' }]);
  assert.deepEqual([shown.mode, shown.requests, shown.granted], ['allowlist', 5, true]);
  assert.match((await cli.ok(['network', 'show', s.id])).stdout, /^mode +allowlist$/m);
  assert.equal((await s.out(fetching())).trim(), '200');
  const open = await cli.ok(['network', 'set', 'linked', '--mode', 'open']);
  assert.match(open.stderr, /warning: untrusted code/);
  await cli.ok(['network', 'set', 'linked', '--file', '-'], { input: JSON.stringify({ mode: 'allowlist', destinations: [{ host: 'c.org', ports: [80], methods: ['GET'], path: '/v1' }] }) });
  assert.deepEqual((await cli.json(['network', 'show', 'linked'])).destinations, [{ host: 'c.org', ports: [80], methods: ['GET'], path: '/v1' }]);
  await cli.ok(['network', 'set', 'linked', '--mode', 'none']);
  assert.equal((await cli.json(['network', 'show', 'linked'])).granted, false);
  for (const args of [['set', 'linked'], ['set', 'linked', '--allow', 'x:y'], ['set', 'linked', '--secret', 'noequals'], ['show'], ['set', 'linked', '--file', '/nowhere']])
    assert.equal((await cli.run(['network', ...args])).status, 2, args.join(' '));
});

test('secrets: put from standard input or a file, listed, never shown, removed', async () => {
  await cli.ok(['secret', 'put', 'token', '--to', HOST], { input: 'open-sesame\n' });
  const made = await cli.json(['secret', 'show', 'token']);
  assert.deepEqual([made.destinations, made.header, made.prefix], [[HOST], 'Authorization', 'Bearer ']);
  const listed = await cli.ok(['secret', 'list']);
  assert.match(listed.stdout, /^token +Authorization/m);
  assert.ok(!(listed.stdout + JSON.stringify(made)).includes('sesame'));
  const s = await server.session({ name: 'carrier' });
  await cli.ok(['network', 'set', 'carrier', '--allow', `${HOST}:${world.port}`, '--secret', `token=${HOST}`]);
  world.seen();
  assert.equal((await s.out(fetching())).trim(), '200');
  assert.equal(world.seen()[0].headers.authorization, 'Bearer open-sesame');
  await cli.ok(['secret', 'remove', 'token']);
  assert.equal((await cli.run(['secret', 'remove', 'token'])).status, 3);
  assert.equal((await cli.run(['secret', 'put', 'x'], { input: 'v' })).status, 2);
  assert.equal((await cli.run(['secret', 'put', 'x', '--to', HOST], { input: '' })).status, 2);
});
