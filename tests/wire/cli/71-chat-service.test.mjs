// SPDX-License-Identifier: Apache-2.0
// glovebox chat with the real service: the built-in model echo, and a scripted
// model (tests/lib/scripted-model.mjs) behind it. The code that runs is real.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { ScriptedModel, analyst, sales } from '../../lib/scripted-model.mjs';

let upstream;
let server;
let cli;

before(async () => {
  upstream = await ScriptedModel.start(analyst);
  server = await Glovebox.start({ config: { pools: [pool({ runtime: 'standard', ready: 1 })], models: [{ name: 'scripted', kind: 'openai-chat', url: upstream.url, model: 'analyst', default: true }] } });
  cli = new Cli(server);
  writeFileSync(join(cli.cwd, 'sales.csv'), sales);
});
after(async () => {
  cli?.close();
  await server?.stop();
  upstream?.close();
});

test('echo runs code from a script; standard input is a file of the session', async () => {
  assert.equal((await cli.ok(['chat', '-m', 'echo', '-p', 'run: print(6 * 7)'])).stdout, 'The output was:\n> 42\n');
  const read = 'run: import glob; print(open(glob.glob("/mnt/data/*stdin.csv")[0]).read())';
  assert.match((await cli.ok(['chat', '-m', 'echo', '-p', read], { input: 'a,b\n1,2\n' })).stdout, /> a,b\n> 1,2/);
  const object = await cli.json(['chat', '-m', 'echo', '-p', 'run: 1/0']);
  assert.equal(object.status, 'completed');
  assert.match(object.output.find((i) => i.type === 'code_interpreter_call').outputs[0].logs, /ZeroDivisionError/);
});

test('failures of a model have their exit status and sentence', async () => {
  assert.match((await cli.exits(5, ['chat', '-m', 'echo', '-p', 'fail: rate'])).stderr, /rate limit/);
  assert.match((await cli.exits(2, ['chat', '-m', 'nope', '-p', 'x'])).stderr, /no model 'nope'[^]*glovebox model add/);
  assert.equal((await cli.run(['chat', '-m', 'echo', '-p', 'fail: cut'])).status, 3);
});

test('a person asks about a file, gets a chart and a table, downloads the result and continues', async () => {
  const run = cli.start(['chat', 'sales.csv'], { terminal: true });
  await run.shows(/Ctrl-D leaves/);
  run.child.stdin.write('Which region grew most in the first half of the year?\n');
  await run.shows(/files: growth\.png/, 'stdout', 50_000);
  run.child.stdin.write('Put it into a CSV file\n');
  await run.shows(/files: summary\.csv/, 'stdout', 50_000);
  run.child.stdin.write('/files\n');
  await run.shows(/summary\.csv +\d+ B/);
  run.child.stdin.write('/get summary.csv\n');
  await run.shows(/saved summary\.csv/);
  run.child.stdin.write('/quit\n');
  const { status, stdout } = await run.ended;
  assert.equal(status, 0);
  assert.match(stdout, /▸ code 1: import pandas as pd \(\+\d+ lines\) → 3 lines of output, 1 chart/);
  assert.match(stdout, /North[^]*58\.3 %/);
  assert.match(stdout, /▸ code 2: total = by\.sum/, 'variables of the first answer are there');
  assert.match(readFileSync(join(cli.cwd, 'summary.csv'), 'utf8'), /^region,total,change_percent\nNorth,930,58\.3\n/);
  assert.equal(readFileSync(join(cli.cwd, 'chart-1.png')).subarray(1, 4).toString(), 'PNG');
  const again = await cli.ok(['chat', '-c', 'last', '-p', 'Make the file once more']);
  assert.match(again.stdout, /summary\.csv/);
  const [conversation] = (await server.ok('GET', '/api/conversations')).data;
  assert.equal(conversation.title, 'Which region grew most in the first half of the year?');
});

test('Ctrl-C stops code that runs; the conversation goes on', async () => {
  const run = cli.start(['chat', '-m', 'echo'], { terminal: true });
  await run.shows(/come from echo/);
  run.child.stdin.write('run: import time; time.sleep(60)\n');
  await run.shows(/running code/);
  run.child.stdin.write('\x03');
  await run.shows(/cancelled; the conversation goes on/);
  run.child.stdin.write('say: still here\n');
  await run.shows(/K(\x1b\[0m)?still here/);
  run.child.stdin.write('/quit\n');
  assert.equal((await run.ended).status, 0);
});
