// SPDX-License-Identifier: Apache-2.0
// What the command line says of itself, and what it says to a wrong line. No
// service runs: a wrong line is wrong without one, too.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';

const COMMANDS = ['serve', 'run', 'shell', 'sessions', 'files', 'key', 'runtime', 'doctor'];
const cli = new Cli();
after(() => cli.close());

test('help lists every command and every exit status', async () => {
  const { stdout, stderr } = await cli.ok(['--help']);
  for (const name of COMMANDS) assert.match(stdout, new RegExp(`^  ${name} +[A-Z]`, 'm'));
  for (let status = 0; status <= 9; status++) assert.match(stdout, new RegExp(`(^  |   )${status}  [a-z]`, 'm'));
  assert.equal(stderr, '');
  assert.equal((await cli.ok(['-h'])).stdout, stdout);
  assert.equal((await cli.ok(['help'])).stdout, stdout);
  const bare = await cli.exits(2, []);
  assert.equal(bare.stdout, '');
  assert.equal(bare.stderr, stdout);
});

test('--version prints a number', async () => {
  assert.match((await cli.ok(['--version'])).stdout, /^glovebox \d+\.\d+\.\d+\n$/);
});

for (const name of COMMANDS) {
  test(`${name}: help by flag and by word are the same and name its flags`, async () => {
    const flag = await cli.ok([name, '--help']);
    const word = await cli.ok(['help', name]);
    assert.equal(flag.stdout, word.stdout);
    assert.equal(flag.stderr, '');
    assert.match(flag.stdout, new RegExp(`^usage: glovebox ${name}`));
    if (name === 'serve') { // its flags are the daemon's
      assert.match(flag.stdout, /^ +--listen /m);
      return;
    }
    assert.match(flag.stdout, /^ +-h, --help /m);
    assert.match(flag.stdout, /^ +--json /m);
    for (const line of flag.stdout.split('\n')) assert.ok(line.length <= 80, line);
  });
}

test('every flag of the manual is known', async () => {
  const flags = {
    run: ['code', 'shell', 'session', 'put', 'get', 'pool', 'runtime', 'timeout', 'memory', 'charts', 'json', 'url', 'key-file', 'data'],
    shell: ['session', 'pool', 'runtime', 'lang', 'charts', 'json'],
    sessions: ['name', 'pool', 'runtime', 'memory', 'json'],
    key: ['scope', 'tenant', 'name', 'json'],
  };
  for (const [name, wanted] of Object.entries(flags)) {
    const { stdout } = await cli.ok(['help', name]);
    for (const flag of wanted) assert.match(stdout, new RegExp(`--${flag}\\b`), `${name} --${flag}`);
  }
});

// [line, what standard error says]
const WRONG = [
  [['rum'], /no command 'rum'; did you mean 'run'\?/],
  [['session'], /did you mean 'sessions'\?/],
  [['xylophone'], /no command 'xylophone'\n/],
  [['help', 'keys'], /did you mean 'key'\?/],
  [['--jsn'], /unknown option '--jsn'/],
  [['run', '--timout', '5', '-c', '1'], /unknown option '--timout'; did you mean --timeout\?/],
  [['run', '--put'], /--put wants a value/],
  [['run', '--shell=yes', '-c', '1'], /--shell takes no value/],
  [['run', '-t', 'soon', '-c', '1'], /--timeout wants whole seconds/],
  [['run', '-m', '1q', '-c', '1'], /--memory wants a size/],
  [['run', '-c', '1', 'file.py'], /both -c and the file 'file.py'/],
  [['run', 'a.py', 'b.py'], /one FILE at a time/],
  [['run', '-s', 'x', '--pool', 'p', '-c', '1'], /for a new session/],
  [['shell', '--lang', 'ruby'], /python or shell, not 'ruby'/],
  [['shell', 'now'], /unexpected 'now'/],
  [['sessions', 'lst'], /there is no 'lst'; did you mean 'list'\?/],
  [['sessions', 'show'], /show: something is left out/],
  [['sessions', 'reset', 'a', 'b'], /reset: unexpected 'b'/],
  [['sessions', 'list', '--nam', 'x'], /did you mean --name\?/],
  [['files', 'get', 'session'], /get: something is left out/],
  [['files', 'copy', 'a', 'b'], /there is no 'copy'/],
  [['key', 'create'], /wants --scope/],
  [['key', 'revok', 'x'], /did you mean 'revoke'\?/],
  [['runtime', 'shwo', 'minimal'], /did you mean 'show'\?/],
  [['runtime', 'show'], /something is left out/],
  [['doctor', '--jason'], /did you mean --json\?/],
  [['serve', '--lisen', '127.0.0.1:1'], /did you mean "--listen"\?/],
];
for (const [line, says] of WRONG) {
  test(`wrong: ${line.join(' ')}`, async () => {
    const { stdout, stderr } = await cli.exits(2, line);
    assert.equal(stdout, '');
    assert.match(stderr, says);
  });
}

test('no code at a terminal is a wrong line, not a wait', async () => {
  const { stdout } = await cli.exits(2, ['run'], { terminal: true });
  assert.match(stdout, /no code: give -c CODE, a FILE or -/);
});
