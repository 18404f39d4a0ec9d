// SPDX-License-Identifier: Apache-2.0
// Scripts with arguments and data, notebooks, executions that go on without
// the command that started them, and the command that looks after these.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
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

const write = (name, text) => writeFileSync(join(cli.cwd, name), text);

test('words after FILE are the arguments of the script, in Python and in the shell', async () => {
  write('args.py', 'from __future__ import annotations\nimport sys\nprint(sys.argv)\n1 / 0 if len(sys.argv) > 5 else None\n');
  const words = ['plain', "it's", 'two words', '\u00e9\u{1f600}'];
  assert.equal((await cli.ok(['run', 'args.py', ...words])).stdout, `['args.py', 'plain', "it's", 'two words', '\u00e9\u{1f600}']\n`);
  assert.equal((await cli.ok(['run', 'args.py', '--', '--verbose', '-n'])).stdout, "['args.py', '--verbose', '-n']\n");
  const failed = await cli.exits(1, ['run', 'args.py', ...words, 'fifth']);
  assert.match(failed.stderr, /line 4|4 1 \/ 0/, 'line numbers are those of the file');
  write('args.sh', '#!/bin/bash\nprintf "<%s>" "$@"; echo " $#"\n');
  assert.equal((await cli.ok(['run', '--shell', 'args.sh', ...words])).stdout, `<plain><it's><two words><\u00e9\u{1f600}> 4\n`);
  await cli.exits(2, ['run', 'args.py', '--verbose']);
});

test('code that reads standard input without --stdin fails, and the command names the option', async () => {
  const { status, stderr } = await cli.run(['run', '-c', 'input()'], { input: '1\n' });
  assert.equal(status, 1);
  assert.match(stderr, /run it with --stdin to give the code/);
});

test('--stdin: standard input is data for the code, up to 700 KiB', async () => {
  write('sum.py', 'import sys\nprint(sum(int(line) for line in sys.stdin))\n');
  assert.equal((await cli.ok(['run', '--stdin', 'sum.py'], { input: '1\n2\n39\n' })).stdout, '42\n');
  assert.equal((await cli.ok(['run', '-i', '-c', 'import sys; len(sys.stdin.read())'], { input: '' })).stdout, '0\n');
  assert.equal((await cli.ok(['run', '-i', '--shell', '-c', 'tr a-z A-Z'], { input: 'shout' })).stdout, 'SHOUT');
  const most = 700 * 1024;
  assert.equal((await cli.ok(['run', '-i', '-c', 'import sys; len(sys.stdin.read())'], { input: 'x'.repeat(most) })).stdout, `${most}\n`);
  assert.match((await cli.exits(5, ['run', '-i', '-c', '1'], { input: 'x'.repeat(most + 1) })).stderr, /700 KiB\n.*--put/);
  await cli.exits(2, ['run', '-i'], { input: 'print(1)' });
});

const cell = (source, type = 'code') => ({ cell_type: type, metadata: {}, source, ...(type === 'code' ? { outputs: [], execution_count: null } : {}) });
const notebook = (...cells) => JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: { kept: true }, cells });

test('run notebook.ipynb: cells in order in one session; --output has their outputs', async () => {
  write('n.ipynb', notebook(cell('# Title', 'markdown'), cell(['x = 20\n', 'print("first")']), cell('  \n'), cell('x * 2 + 2')));
  const { stdout } = await cli.ok(['run', 'n.ipynb', '--output', 'done.ipynb']);
  assert.equal(stdout, 'first\n42\n');
  const done = JSON.parse(readFileSync(join(cli.cwd, 'done.ipynb'), 'utf8'));
  assert.deepEqual(done.metadata, { kept: true });
  assert.deepEqual(done.cells[1].outputs, [{ output_type: 'stream', name: 'stdout', text: 'first\n' }]);
  assert.deepEqual([done.cells[1].execution_count, done.cells[2].execution_count, done.cells[3].execution_count], [1, null, 2]);
  assert.deepEqual([done.cells[3].outputs[0].output_type, done.cells[3].outputs[0].data['text/plain']], ['execute_result', '42']);
  assert.equal(readFileSync(join(cli.cwd, 'n.ipynb'), 'utf8'), notebook(cell('# Title', 'markdown'), cell(['x = 20\n', 'print("first")']), cell('  \n'), cell('x * 2 + 2')));
});

test('a notebook stops at the first cell that fails; what is no notebook is refused', async () => {
  write('bad.ipynb', notebook(cell('1 / 0'), cell('print("never")')));
  const bad = await cli.exits(1, ['run', 'bad.ipynb', '-o', 'bad-out.ipynb']);
  assert.match(bad.stderr, /ZeroDivisionError[^]*cell 1 of 2 failed/);
  assert.doesNotMatch(bad.stdout, /never/);
  const saved = JSON.parse(readFileSync(join(cli.cwd, 'bad-out.ipynb'), 'utf8'));
  assert.deepEqual([saved.cells[0].outputs[0].ename, saved.cells[1].outputs.length], ['ZeroDivisionError', 0]);
  write('no.ipynb', '{"cells": 1}');
  await cli.exits(3, ['run', 'no.ipynb']);
  write('empty.ipynb', notebook(cell('text', 'markdown')));
  await cli.exits(3, ['run', 'empty.ipynb']);
  await cli.exits(2, ['run', '-c', '1', '--output', 'x.ipynb']);
});

test('--detach prints the id; executions list, show, logs, logs -f and cancel', async () => {
  const id = (await cli.ok(['run', '--detach', '-c', 'import time\nprint("begun", flush=True)\ntime.sleep(3)\nprint("over")'])).stdout.trim();
  assert.match(id, /^exec_[0-9a-f]{32}$/);
  await until(async () => /begun/.test((await cli.ok(['executions', 'logs', id])).stdout), { what: 'its first output' });
  const [listed] = (await cli.json(['executions'])).filter((e) => e.id === id);
  assert.deepEqual([listed.status, listed.outcome, listed.language], ['running', null, 'python']);
  const followed = await cli.ok(['executions', 'logs', '-f', id]);
  assert.equal(followed.stdout, 'begun\nover\n');
  assert.equal((await cli.json(['executions', 'show', id])).outcome, 'ok');
  assert.deepEqual((await cli.json(['executions', 'list', '--session', listed.session])).map((e) => [e.id, e.status, e.outcome]), [[id, 'completed', 'ok']]);
  const long = (await cli.ok(['run', '-d', '-s', listed.session, '-c', 'import time; time.sleep(600)'])).stdout.trim();
  await cli.ok(['executions', 'cancel', long]);
  await cli.exits(7, ['executions', 'logs', '-f', long]);
  assert.deepEqual((await cli.json(['executions', 'list', '--limit', '1'])).map((e) => e.id), [long], 'newest first');
  assert.equal((await cli.error(['executions', 'show', 'exec_0'])).code, 'not_found');
  await cli.exits(2, ['run', '-d', '-c', '1', '--get', 'x']);
  await cli.ok(['sessions', 'delete', listed.session]);
});

test('--cores is a limit of the new session', async () => {
  const id = (await cli.ok(['sessions', 'create', '--cores', '1'])).stdout.trim();
  assert.equal((await cli.json(['sessions', 'show', id])).limits.cores, 1);
  assert.equal((await cli.ok(['run', '--cores', '1', '-c', '1'])).stdout, '1\n');
  assert.match((await cli.exits(2, ['run', '--cores', '100000', '-c', '1'])).stderr, /--cores/);
  await cli.ok(['sessions', 'delete', id]);
});
