// SPDX-License-Identifier: Apache-2.0
// glovebox run: where code comes from, where its output goes and when, files
// in and out, sessions that are kept and sessions that are not left behind.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, until } from '../../lib/glovebox.mjs';

let server;
let cli;

before(async () => {
  server = await Glovebox.start();
  cli = new Cli(server);
});

after(async () => {
  cli?.close();
  await server?.stop();
});

const here = (name) => join(cli.cwd, name);
const sessions = async () => (await server.ok('GET', '/api/sessions')).data;
const run = (code, ...args) => cli.ok(['run', ...args, '-c', code]);

test('code comes from -c, a file, - and a pipe', async () => {
  const code = 'import sys\nprint(6 * 7)\n';
  writeFileSync(here('answer.py'), code);
  assert.equal((await run(code)).stdout, '42\n');
  assert.equal((await cli.ok(['run', 'answer.py'])).stdout, '42\n');
  assert.equal((await cli.ok(['run', '-'], { input: code })).stdout, '42\n');
  assert.equal((await cli.ok(['run'], { input: code })).stdout, '42\n');
  assert.equal((await cli.ok(['run', '--', 'answer.py'])).stdout, '42\n');
  assert.match((await cli.exits(3, ['run', 'nowhere.py'])).stderr, /nowhere\.py/);
});

test('the last value is printed as a prompt would, None is not', async () => {
  assert.equal((await run('x = 2\nx + 40')).stdout, '42\n');
  assert.equal((await run('"a\\nb"')).stdout, "'a\\nb'\n");
  assert.equal((await run('None')).stdout, '');
  assert.equal((await run('x = 1')).stdout, '');
});

test('standard output and error stay apart and nothing is added to them', async () => {
  const { stdout, stderr } = await run('import sys\nprint("out", end="")\nprint("err", end="", file=sys.stderr)');
  assert.equal(stdout, 'out');
  assert.equal(stderr, 'err');
});

test('output is live: it comes while the code still runs', async () => {
  const done = await run('import time\nfor i in range(4):\n    print(i, flush=True)\n    time.sleep(0.5)');
  assert.equal(done.stdout, '0\n1\n2\n3\n');
  assert.ok(done.chunks.length >= 4, JSON.stringify(done.chunks));
  assert.ok(done.ms - done.chunks[0].ms > 1400, `first output ${done.ms - done.chunks[0].ms} ms before the end`);
});

test('an exception shows its traceback on standard error and is exit 1', async () => {
  const { stdout, stderr } = await cli.exits(1, ['run', '-c', 'print("before")\n1 / 0']);
  assert.equal(stdout, 'before\n');
  assert.match(stderr, /Traceback[^]*ZeroDivisionError: division by zero\n$/);
});

test('a syntax error, sys.exit and a script\'s status are exit 1 and say why', async () => {
  assert.match((await cli.exits(1, ['run', '-c', 'def'])).stderr, /SyntaxError/);
  assert.match((await cli.exits(1, ['run', '-c', 'import sys; sys.exit(4)'])).stderr, /4/);
  assert.match((await cli.exits(1, ['run', '--shell', '-c', 'echo made; exit 4'])).stderr, /status 4/);
  await run('import sys; sys.exit(0)');
});

test('--shell runs bash with the same files', async () => {
  const code = 'set -o pipefail; for i in 1 2 3; do echo $i; done | tail -1; echo oops >&2; pwd';
  const { stdout, stderr } = await run(code, '--shell');
  assert.equal(stdout, '3\n/mnt/data\n');
  assert.equal(stderr, 'oops\n');
});

test('--json is the execution object and nothing else', async () => {
  const good = await cli.json(['run', '-c', 'print("x"); 1 + 1']);
  assert.equal(good.status, 'completed');
  assert.equal(good.outcome, 'ok');
  assert.equal(good.stdout, 'x\n');
  assert.equal(good.result['text/plain'], '2');
  const bad = await cli.json(['run', '-c', '1 / 0'], { status: 1 });
  assert.equal(bad.outcome, 'error');
  assert.equal(bad.error.name, 'ZeroDivisionError');
  const script = await cli.json(['run', '--shell', '-c', 'exit 9'], { status: 1 });
  assert.equal(script.exit_code, 9);
});

test('--put and --get make a round trip', async () => {
  writeFileSync(here('in.csv'), 'a,b\n1,2\n');
  mkdirSync(here('results'), { recursive: true });
  const code = 'import os\nos.makedirs("/mnt/data/sub", exist_ok=True)\n'
    + 'text = open("/mnt/data/in.csv").read() + open("/mnt/data/deep/named.csv").read()\n'
    + 'open("/mnt/data/out.txt", "w").write(text.upper())\nopen("/mnt/data/sub/x.bin", "wb").write(bytes(range(256)))';
  await run(code, '--put', 'in.csv', '--put', 'in.csv:deep/named.csv', '--get', 'out.txt',
    '--get', 'sub/x.bin:renamed.bin', '--get', '/mnt/data/out.txt:results');
  assert.equal(readFileSync(here('out.txt'), 'utf8'), 'A,B\n1,2\nA,B\n1,2\n');
  assert.equal(readFileSync(here('results/out.txt'), 'utf8'), 'A,B\n1,2\nA,B\n1,2\n');
  assert.deepEqual([...readFileSync(here('renamed.bin'))], [...Array(256).keys()]);
  assert.equal((await run('open("/mnt/data/o", "w").write("text"); None', '--get', 'o:-')).stdout, 'text');
});

test('a file that was not made is exit 3 after good code, the code\'s own status after bad', async () => {
  assert.match((await cli.exits(3, ['run', '-c', '1', '--get', 'absent'])).stderr, /absent/);
  await cli.exits(1, ['run', '-c', '1 / 0', '--get', 'absent']);
  assert.ok(!existsSync(here('absent')));
  assert.match((await cli.exits(3, ['run', '-c', '1', '--put', 'not-here'])).stderr, /not-here/);
  assert.deepEqual(await sessions(), []);
});

test('--session keeps state, by id and by name, and the session itself', async () => {
  const id = (await cli.ok(['sessions', 'create', '--name', 'kept'])).stdout.trim();
  await run('import math\nx = 41', '-s', id);
  assert.equal((await run('x + 1', '-s', 'kept')).stdout, '42\n');
  assert.equal((await run('math.floor(1.5)', '--session', 'kept')).stdout, '1\n');
  await run('echo "$((6 * 7))" > answer', '--shell', '-s', 'kept');
  assert.equal((await run('print(open("answer").read(), end="")', '-s', id)).stdout, '42\n');
  assert.deepEqual((await sessions()).map((s) => s.id), [id]);
  await cli.ok(['sessions', 'delete', id]);
});

test('a lost interpreter is said to who keeps the session', async () => {
  await cli.ok(['sessions', 'create', '--name', 'lost']);
  await cli.ok(['run', '-s', 'lost', '-c', 'x = 1']);
  // Its own interpreter, ended by a command that goes on.
  const { stderr } = await cli.ok(['run', '-s', 'lost', '--shell', '-c', 'kill -9 2; sleep 1']);
  assert.match(stderr, /variables are gone/);
  assert.match((await cli.exits(1, ['run', '-s', 'lost', '-c', 'x'])).stderr, /NameError/);
  await cli.ok(['sessions', 'delete', 'lost']);
});

test('a session made for a run is deleted, however the run ended', async () => {
  await run('1');
  await cli.exits(1, ['run', '-c', '1 / 0']);
  await cli.exits(6, ['run', '-c', 'import os; os._exit(1)']);
  assert.deepEqual(await sessions(), []);
});

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  test(`${signal} cancels, at the service too, and leaves no session`, async () => {
    const running = cli.start(['run', '-c', 'import time\nprint("up", flush=True)\ntime.sleep(60)']);
    await running.shows(/up/);
    running.child.kill(signal);
    const { status, stderr, ms } = await running.ended;
    assert.equal(status, 7, stderr);
    assert.match(stderr, /cancel|interrupt/i);
    assert.ok(ms < 20_000);
    assert.deepEqual(await sessions(), []);
  });
}

test('a second Ctrl-C does not wait for code that ignores the first', async () => {
  const running = cli.start(['run', '-c',
    'import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint("up", flush=True)\nwhile True: time.sleep(1)']);
  await running.shows(/up/);
  running.child.kill('SIGINT');
  setTimeout(() => running.child.kill('SIGINT'), 300);
  assert.equal((await running.ended).status, 7);
  await until(async () => (await sessions()).length === 0, { what: 'no session' });
});

test('an output that nobody reads ends the run', async () => {
  const running = cli.start(['run', '-c', 'import time\nwhile True:\n    print("x" * 1000, flush=True)\n    time.sleep(0.01)']);
  await running.shows(/x/);
  running.child.stdout.destroy();
  const { status, stderr } = await running.ended;
  assert.equal(status, 3);
  assert.match(stderr, /cannot be written/);
  assert.deepEqual(await sessions(), []);
});

test('output longer than is kept is cut and said to be', async () => {
  const { stdout, stderr } = await run('print("x" * 3_000_000)');
  assert.ok(stdout.length >= 1_000_000 && stdout.length < 2_000_000, `${stdout.length}`);
  assert.match(stderr, /has been cut/);
});

// A run's end must be told whatever its output holds: each of these once made
// a client's JSON parser refuse the whole answer.
test('no output can hide how a run ended', async () => {
  assert.equal((await run('print("a\\0b")')).stdout, 'a\0b\n');
  assert.equal((await run('import sys; sys.stdout.buffer.write(b"\\xff\\n"); None')).stdout, '\ufffd\n');
  const values = ['1e999', '[12345678901234567890123, -1e400]', '"\\\\ud800 \\\\udc00"', '{"\\\\u0000": 1}'];
  for (const value of values) {
    const code = `from IPython.display import display\ndisplay({"application/json": '''${value}'''}, raw=True)\n7`;
    assert.match((await run(code)).stdout, /7\n$/);
    const shown = await cli.json(['run', '-c', code]);
    assert.equal(shown.outcome, 'ok', value);
    assert.equal(shown.displays.length, 1);
  }
  const key = 'from IPython.display import display\ndisplay({"a\\0b": "x", "text/plain": "shown"}, raw=True)';
  assert.match((await run(key)).stdout, /shown/);
});

test('a terminal gets no control sequence that could change it; a pipe gets all', async () => {
  const code = 'print("\\x1b]0;title\\x07\\x1b[?1049h\\x1b[31mred\\x1b[0m\\x1b[5n.")';
  const piped = await cli.run(['run', '-c', code]);
  assert.equal(piped.stdout, '\x1b]0;title\x07\x1b[?1049h\x1b[31mred\x1b[0m\x1b[5n.\n');
  const shown = (await cli.ok(['run', '-c', code], { terminal: true })).stdout;
  assert.match(shown, /\x1b\[31mred\x1b\[0m\./);
  assert.doesNotMatch(shown, /title|1049|\[5n/);
});

test('code that cannot be sent is refused with a reason', async () => {
  assert.match((await cli.exits(3, ['run', '-'], { input: Buffer.from('print(1)\0') })).stderr, /zero byte/);
  assert.match((await cli.exits(3, ['run', '-'], { input: Buffer.from([0x22, 0xff, 0x22]) })).stderr, /UTF-8/);
  assert.match((await cli.exits(5, ['run', '-'], { input: `#${'x'.repeat(1_100_000)}` })).stderr, /code/);
  assert.match((await cli.error(['run', '--pool', 'none', '-c', '1'])).message, /pool/);
  assert.equal((await cli.error(['run', '-t', '1', '-c', '1'])).code, 'invalid_request');
});
