// SPDX-License-Identifier: Apache-2.0
// glovebox shell: statements from a pipe, its own commands, and a person at a
// terminal.
import assert from 'node:assert/strict';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
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

const sessions = async () => (await server.ok('GET', '/api/sessions')).data;
const shell = (lines, ...args) => cli.ok(['shell', ...args], { input: lines });

test('variables last from line to line, and nothing is prompted into a pipe', async () => {
  const { stdout, stderr } = await shell('x = 20\nx += 1\nx * 2\nprint("done")\n');
  assert.equal(stdout, '42\ndone\n');
  assert.equal(stderr, '');
  assert.deepEqual(await sessions(), []);
});

test('blocks, brackets, strings and backslashes go on with the next line', async () => {
  const { stdout } = await shell([
    'def double(x):', '    y = x * 2', '    return y', '',
    'for i in range(2):', '    if i:', '        print("odd", i)', '    else:', '        print("even", i)', '',
    'double(', '    4', ')',
    's = """one', 'two"""', 's',
    'a = 1 + \\', '  2', 'a',
    'class C:', '    n = 7', '', 'C.n',
    '@staticmethod', 'def decorated(): return "d"', '', 'decorated()',
    'try:', '    1 / 0', 'except ZeroDivisionError:', '    print("caught")', '',
  ].join('\n'));
  assert.equal(stdout, "even 0\nodd 1\n8\n'one\\ntwo'\n3\n7\n'd'\ncaught\n");
});

test('what stands at the end without a line end is run', async () => {
  assert.equal((await shell('for i in range(2):\n    print(i)')).stdout, '0\n1\n');
});

test(':lang, :files, :put, :get, :session, :reset, :help and :quit', async () => {
  writeFileSync(join(cli.cwd, 'up.txt'), 'uploaded');
  const { stdout } = await shell([
    ':put up.txt', ':put up.txt sub/again.txt', ':files',
    ':lang shell', 'for f in *.txt; do', '  cat $f; echo', 'done', "cat <<X", 'here', 'X', 'echo made > made.txt',
    ':lang python', 'x = 1', ':reset', '"x" in globals()',
    ':get made.txt', ':get sub/again.txt other.txt', ':session', ':help', ':quit', 'print("never")',
  ].join('\n'));
  assert.match(stdout, /^PATH +SIZE +MODIFIED\nsub\/again\.txt +8 B .*\nup\.txt +8 B .*\nuploaded\nhere\nFalse\nsess_[0-9a-f]{32}\n {2}:help/);
  for (const name of ['files', 'put', 'get', 'reset', 'interrupt', 'lang', 'session', 'quit'])
    assert.match(stdout, new RegExp(`^ {2}:${name}`, 'm'));
  assert.doesNotMatch(stdout, /never/);
  assert.equal(readFileSync(join(cli.cwd, 'made.txt'), 'utf8'), 'made\n');
  assert.equal(readFileSync(join(cli.cwd, 'other.txt'), 'utf8'), 'uploaded');
});

test('from a pipe the first failure ends it with its exit status', async () => {
  const bad = await cli.exits(1, ['shell'], { input: 'print(1)\n1 / 0\nprint(2)\n' });
  assert.equal(bad.stdout, '1\n');
  assert.match(bad.stderr, /ZeroDivisionError/);
  await cli.exits(6, ['shell'], { input: 'import os; os._exit(2)\n' });
  await cli.exits(1, ['shell', '--lang', 'shell'], { input: 'true\nfalse\necho never\n' });
  await cli.exits(3, ['shell'], { input: ':get absent\nprint(1)\n' });
  assert.deepEqual(await sessions(), []);
});

test('--session is kept and shared with run', async () => {
  const id = (await cli.ok(['sessions', 'create', '--name', 'desk'])).stdout.trim();
  await shell('x = 5\n', '-s', 'desk');
  assert.equal((await cli.ok(['run', '-s', id, '-c', 'x'])).stdout, '5\n');
  assert.equal((await shell('x\n:session\n', '-s', id)).stdout, `5\n${id}\n`);
  await cli.ok(['sessions', 'delete', id]);
});

test('exit and quit leave the shell, in either language and with a status', async () => {
  for (const line of ['exit()', 'quit()', 'exit', 'quit', '  exit( ) ', 'exit();'])
    assert.equal((await shell(`print(1)\n${line}\nprint(2)\n`)).stdout, '1\n', line);
  assert.equal((await cli.exits(3, ['shell'], { input: 'exit(3)\n' })).stdout, '');
  await cli.exits(4, ['shell', '--lang', 'shell'], { input: 'echo a\nexit 4\necho b\n' });
  // Names that only begin so, and a call within a statement, are code.
  assert.equal((await shell('exit_code = 5\nexit_code\nquitting = [exit_code,\nexit_code]\nquitting\n')).stdout, '5\n[5, 5]\n');
});

test('a session that slept: what is lost is said before the output', async () => {
  const { id } = await server.ok('POST', '/api/sessions', { cooldown_s: 1 });
  const fresh = await cli.ok(['run', '-s', id, '-c', 'x = 1']);
  assert.equal(fresh.stderr, '', 'the first run has nothing to lose');
  assert.equal((await cli.ok(['run', '-s', id, '-c', 'x'])).stderr, '');
  await until(async () => (await server.ok('GET', `/api/sessions/${id}`)).state === 'dormant', { ms: 30_000, what: 'sleep' });
  const run = cli.start(['run', '-s', id, '-c', 'print("out", flush=True); print("x" in globals())']);
  const woken = await run.ended;
  assert.match(woken.stderr, /^note: the session was asleep; variables of earlier runs are gone, files are in place\n$/);
  assert.equal(woken.stdout, 'out\nFalse\n');
  assert.equal(run.chunks[0].name, 'stderr', 'before the output');
  // Once said, the next run is an ordinary one; a shell command has no variables.
  assert.equal((await cli.ok(['run', '-s', id, '-c', '1'])).stderr, '');
  await until(async () => (await server.ok('GET', `/api/sessions/${id}`)).state === 'dormant', { ms: 30_000, what: 'sleep' });
  assert.equal((await cli.ok(['run', '-s', id, '--shell', '-c', 'true'])).stderr, '');
  await cli.ok(['sessions', 'delete', id]);
});

test('an attached shell keeps its session awake', async () => {
  const { id } = await server.ok('POST', '/api/sessions', { cooldown_s: 3 });
  const at = cli.start(['shell', '-s', id], { terminal: true });
  await at.shows(/>>> $/);
  at.child.stdin.write('x = 41\n');
  await at.shows(/x = 41\r\n[^]*>>> $/);
  await new Promise((wake) => setTimeout(wake, 8000)); // over two cooldowns
  assert.equal((await server.ok('GET', `/api/sessions/${id}`)).state, 'idle');
  at.child.stdin.write('x + 1\nquit\n');
  const { stdout, status } = await at.ended;
  assert.equal(status, 0);
  assert.match(stdout, /\b42\r\n/);
  await until(async () => (await server.ok('GET', `/api/sessions/${id}`)).state === 'dormant', { ms: 30_000, what: 'sleep after it has left' });
  await cli.ok(['sessions', 'delete', id]);
});

test('Tab completes names of the language, of earlier statements, and commands; it indents a line', async () => {
  const at = cli.start(['shell'], { terminal: true });
  const type = (text) => at.child.stdin.write(text);
  await at.shows(/>>> $/);
  type('measured_value = 6 * 7\n');
  await at.shows(/6 \* 7\r\n[^]*>>> $/);
  type('prin\t(measu\t)\n');
  await at.shows(/print\(measured_value\)\r\n[^]*\b42\r\n[^]*>>> $/);
  type('for i in range(1):\n\tprint("in" "dented")\n\n');
  await at.shows(/indented\r\n[^]*>>> $/);
  type(':sess\t\n');
  await at.shows(/:session[^]*sess_[0-9a-f]{32}\r\n[^]*>>> $/);
  type('exit()\n');
  assert.equal((await at.ended).status, 0);
});

test('--json prints a line for each execution', async () => {
  const { stdout } = await shell('x = 3\nx * 2\nprint("p")\n', '--json');
  const lines = stdout.trimEnd().split('\n').map((line) => JSON.parse(line));
  assert.deepEqual(lines.map((e) => [e.outcome, e.stdout, e.result?.['text/plain']]),
    [['ok', '', undefined], ['ok', '', '6'], ['ok', 'p\n', undefined]]);
});

test('Ctrl-C in a pipe cancels what runs and ends it', async () => {
  const running = cli.start(['shell'], { input: 'import time\nprint("up", flush=True); time.sleep(60)\nprint("never")\n' });
  await running.shows(/up/);
  running.child.kill('SIGINT');
  const { status, stdout } = await running.ended;
  assert.equal(status, 7);
  assert.doesNotMatch(stdout, /never/);
  assert.deepEqual(await sessions(), []);
});

test('at a terminal: a prompt, Ctrl-C that keeps variables, failures that do not end it, Ctrl-D', async () => {
  const at = cli.start(['shell'], { terminal: true });
  const type = (text) => at.child.stdin.write(text);
  await at.shows(/python in session sess_.*deleted when you leave[^]*>>> $/);
  type('x = 41\n');
  await at.shows(/x = 41\r\n[^]*>>> $/);
  type('def f():\n    return x + 1\n\nf()\n');
  await at.shows(/\.\.\. [^]*\b42\r\n[^]*>>> $/);
  type('1 / 0\n');
  await at.shows(/ZeroDivisionError: [^]*>>> $/);
  type('import time; print("st" "arted", flush=True); time.sleep(60)\n');
  await at.shows(/started\r\n/);
  type('\x03');
  await at.shows(/KeyboardInterrupt[^]*>>> $/);
  type('x + 100\n');
  await at.shows(/\b141\r\n[^]*>>> $/);
  type('half a lin');
  await at.shows(/half a lin$/);
  type('\x03');
  await at.shows(/half a lin[^]*>>> $/);
  type('x\n'); // and not "half a linx"
  await at.shows(/\b41\r\n[^]*>>> $/);
  type(':lang shell\n');
  await at.shows(/\$ $/);
  type('echo "sh$((40 + 2))"\n');
  await at.shows(/sh42\r\n[^]*\$ $/);
  type('\x04');
  assert.equal((await at.ended).status, 0);
  await until(async () => (await sessions()).length === 0, { what: 'no session' });
  const history = join(cli.env.HOME, '.local/state/glovebox/history');
  assert.match(readFileSync(history, 'utf8'), /x = 41/);
  assert.equal(statSync(history).mode & 0o777, 0o600);
});

test('at a terminal input() reads a line, getpass() shows nothing, Ctrl-D ends, Ctrl-C interrupts', async () => {
  const at = cli.start(['shell'], { terminal: true });
  await at.shows(/>>> /);
  at.child.stdin.write('name = input("Name\\x1b]0;title\\x07? "); print("hello", name)\n');
  await at.shows(/[\r\n]Name\? /);
  at.child.stdin.write('Ann\n');
  await at.shows(/hello Ann/);
  at.child.stdin.write('import getpass; n = len(getpass.getpass("Secret: ")); print("length", n)\n');
  await at.shows(/[\r\n]Secret: /);
  at.child.stdin.write('hunter2\n');
  await at.shows(/length 7/);
  assert.ok(!at.stdout.includes('hunter2'));
  at.child.stdin.write('input("end? ")\n');
  await at.shows(/[\r\n]end\? /);
  at.child.stdin.write('\x04');
  await at.shows(/EOFError: EOF when reading a line/);
  at.child.stdin.write('input("stop? ")\n');
  await at.shows(/[\r\n]stop\? /);
  at.child.stdin.write('\x03');
  await at.shows(/KeyboardInterrupt/);
  at.child.stdin.write('print("still", name)\nexit()\n');
  await at.shows(/still Ann/);
  assert.equal((await at.ended).status, 0);
});

test('run at a terminal answers input(); without one it fails at once with advice', async () => {
  const at = cli.start(['run', '-c', 'print("got", input("What? "))'], { terminal: true });
  await at.shows(/What\? /);
  at.child.stdin.write('this\n');
  await at.shows(/got this/);
  assert.equal((await at.ended).status, 0);
  const { stderr } = await cli.exits(1, ['run', '-c', 'input("What? ")']);
  assert.match(stderr, /StdinUnavailableError: .*pass the value in the code/s);
});

test('in the shell language cd, variables and functions last from line to line', async () => {
  const { stdout } = await shell('cd /tmp\nX=5\nf() { echo "f $X"; }\npwd; f\n', '--lang', 'shell');
  assert.equal(stdout, '/tmp\nf 5\n');
});
