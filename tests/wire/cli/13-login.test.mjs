// SPDX-License-Identifier: Apache-2.0
// glovebox login, logout, contexts, whoami and version: a key is stored once,
// for its own service and readable by its user alone.
import assert from 'node:assert/strict';
import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox } from '../../lib/glovebox.mjs';

let first;
let second;
let cli; // knows neither of them

before(async () => {
  [first, second] = await Promise.all([Glovebox.start(), Glovebox.start()]);
  cli = new Cli(null, { GLOVEBOX_CONTEXT: '' });
});

after(async () => {
  cli?.close();
  await Promise.all([first?.stop(), second?.stop()]);
});

const file = () => join(cli.env.HOME, '.config/glovebox/contexts.json');
const whoami = (...args) => cli.json(['whoami', ...args]);

test('login by standard input: the key is checked, stored for its user alone, and used from then on', async () => {
  const wrong = await cli.exits(3, ['login', first.url], { input: 'gbx_nonsense\n' });
  assert.match(wrong.stderr, /key/);
  assert.ok(!existsSync(file()), 'a key that is refused is not stored');
  await cli.exits(3, ['login', first.url], { input: '' });
  await cli.exits(3, ['login', first.url], { input: 'two words\n' });
  await cli.ok(['login', first.url, '--name', 'one'], { input: `${first.key}\n` });
  assert.equal(statSync(file()).mode & 0o777, 0o600);
  assert.equal(statSync(join(file(), '..')).mode & 0o777, 0o700);
  const who = await whoami();
  assert.match(who.id, /^key_/);
  assert.deepEqual([who.tenant, who.token, who.scopes.includes('admin')], ['default', null, true]);
  assert.match((await cli.ok(['whoami'])).stdout, new RegExp(`^service +${first.url}\nkey +${who.id}\ntenant +default\nscopes .*admin.*\nexpires +never\n$`));
  assert.equal((await cli.ok(['run', '-c', '6 * 7'])).stdout, '42\n');
});

test('login by --key-file and without a name; contexts: list, use, --context, delete', async () => {
  writeFileSync(join(cli.cwd, 'key'), `${second.key}\n`);
  await cli.ok(['login', second.url, '--key-file', 'key']);
  const name = second.url.replace('http://', '');
  assert.deepEqual(await cli.json(['contexts']), [{ current: false, name: 'one', url: first.url }, { current: true, name, url: second.url }]);
  assert.doesNotMatch((await cli.ok(['contexts'])).stdout, /gbx_/, 'a key is not shown');
  const [a, b] = [(await whoami('--context', 'one')).id, (await whoami()).id];
  assert.notEqual(a, b);
  assert.equal((await cli.json(['whoami'], { env: { GLOVEBOX_CONTEXT: 'one' } })).id, a);
  await cli.ok(['contexts', 'use', 'one']);
  assert.equal((await whoami()).id, a);
  // What is named for one command comes first; a context's key goes nowhere else.
  assert.equal((await cli.json(['whoami'], { env: { GLOVEBOX_URL: second.url, GLOVEBOX_KEY: second.key } })).id, b);
  assert.equal((await cli.error(['whoami', '--url', second.url])).code, 'unauthenticated');
  assert.equal((await cli.error(['whoami', '--context', 'absent'])).code, 'not_found');
  await cli.exits(3, ['contexts', 'use', 'absent']);
  await cli.ok(['contexts', 'delete', name]);
  assert.deepEqual((await cli.json(['contexts'])).map((c) => c.name), ['one']);
});

test('login at a terminal does not show the key', async () => {
  const at = cli.start(['login', first.url, '--name', 'typed'], { terminal: true });
  await at.shows(/key: $/);
  at.child.stdin.write(`${first.key}\n`);
  const { stdout, status } = await at.ended;
  assert.equal(status, 0, stdout);
  assert.match(stdout, /Logged in to http:\/\/127\.0\.0\.1:\d+ as key_\w+ of the tenant default\.\r\n/);
  assert.ok(!stdout.includes(first.key.slice(4)));
});

test('a file that others can read is not used', async () => {
  chmodSync(file(), 0o640);
  assert.match((await cli.exits(3, ['sessions'])).stderr, /other users have access to .*contexts\.json\n.*chmod 600/);
  chmodSync(file(), 0o600);
  await cli.ok(['sessions']);
});

test('logout removes the key; --all removes every one', async () => {
  await cli.ok(['logout']);
  assert.deepEqual((await cli.json(['contexts'])).map((c) => [c.name, c.current]), [['one', false]]);
  await cli.exits(3, ['logout']);
  await cli.exits(3, ['logout', 'typed']);
  await cli.ok(['logout', '--all']);
  assert.deepEqual(await cli.json(['contexts']), []);
  assert.ok(!readFileSync(file(), 'utf8').includes('gbx_'));
});

test('version: of the program, and of a service if there is one', async () => {
  const { stdout } = await cli.ok(['--version']);
  const absent = { env: { GLOVEBOX_URL: 'http://127.0.0.1:1' } };
  assert.equal((await cli.ok(['version'], absent)).stdout, stdout);
  const env = { GLOVEBOX_URL: first.url };
  assert.match((await cli.ok(['version'], { env })).stdout, /^glovebox (\d+\.\d+\.\d+)\nservice \1 at http:\/\/127\.0\.0\.1:\d+\n$/);
  assert.deepEqual(Object.keys(await cli.json(['version'], { env })), ['version', 'service', 'url']);
});
