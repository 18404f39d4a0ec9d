// SPDX-License-Identifier: Apache-2.0
// Search by the command line: lines an editor can follow, marks for people,
// filters, and nothing of others.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';

let server;
let cli;
let ws;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 0 })] } });
  cli = new Cli(server);
  ws = (await cli.ok(['workspaces', 'new', 'docs'])).stdout.trim();
  const files = {
    'notes/plan.md': '# Plan\n\nThe zanzibar expedition\nleaves at dawn.\n',
    'data/table.csv': 'name,place\nada,zanzibar\n',
    'zanzibar.bin': '\0\0',
    'src/tool.py': 'def total(rows):\n    return sum(rows)\n',
    'odd.txt': 'before\nzanzi\x1b[2Jbar \x07 zanzibar here\n',
  };
  for (const [path, text] of Object.entries(files)) {
    writeFileSync(join(cli.cwd, 'f'), text);
    await cli.ok(['files', 'put', 'f', `docs:${path}`, ...(path.endsWith('.py') ? ['--conversation', 'talk'] : [])]);
  }
  await until(async () => (await cli.json(['search', 'zanzibar'])).length === 4, { ms: 20_000, every: 200, what: 'indexed' });
});

after(async () => {
  cli?.close();
  await server?.stop();
});

const paths = async (...args) => (await cli.json(['search', ...args])).map((hit) => hit.path).sort();

test('one line for each hit: workspace, path, line, text', async () => {
  const { stdout } = await cli.ok(['search', 'expedition', '-w', 'docs']);
  assert.match(stdout, /^docs:notes\/plan\.md:3: .*The zanzibar expedition/);
  assert.match((await cli.ok(['search', 'expedition'])).stdout, new RegExp(`^${ws}:notes/plan\\.md:3: `));
  assert.doesNotMatch(stdout, /[\u2068\u2069]/);
});

test('at a terminal hits are marked, and what a file says cannot move the cursor', async () => {
  const { stdout } = await cli.ok(['search', 'zanzibar'], { terminal: true });
  assert.match(stdout, /\x1b\[1;31mzanzibar\x1b\[0m/);
  assert.doesNotMatch(stdout, /\x1b\[2J|\x07/);
});

test('names are found, too', async () => {
  assert.ok((await paths('zanzibar')).includes('zanzibar.bin'));
  assert.deepEqual(await paths('tool'), ['src/tool.py']);
});

test('filters narrow', async () => {
  assert.deepEqual(await paths('zanzibar', '--type', 'csv'), ['data/table.csv']);
  assert.deepEqual(await paths('zanzibar', '--prefix', 'notes/'), ['notes/plan.md']);
  assert.deepEqual(await paths('total', '--conversation', 'talk'), ['src/tool.py']);
  assert.deepEqual(await paths('total', '--conversation', 'other'), []);
  assert.deepEqual(await paths('zanzibar', '--before', '2020-01-01'), []);
  assert.equal((await paths('zanzibar', '--after', '1h')).length, 4);
  assert.equal((await paths('zanzibar', '--limit', '2')).length, 2);
  assert.deepEqual(await paths('zanzibar', 'expedition'), ['notes/plan.md']);
  assert.deepEqual(await paths('"zanzibar expedition"'), ['notes/plan.md']);
  assert.deepEqual(await paths('expedit*'), ['notes/plan.md']);
});

test('nothing found is no failure', async () => {
  const none = await cli.ok(['search', 'quux']);
  assert.equal(none.stdout + none.stderr, '');
  assert.deepEqual(await cli.json(['search', 'quux']), []);
  assert.match((await cli.ok(['search', 'quux'], { terminal: true })).stdout, /nothing was found/);
});

test('another tenant finds nothing, an unknown workspace is said', async () => {
  const { key } = await server.tenant('other');
  assert.deepEqual(await cli.json(['search', 'zanzibar'], { env: { GLOVEBOX_KEY: key } }), []);
  assert.equal((await cli.error(['search', 'x', '-w', 'nowhere'])).code, 'not_found');
});

test('by meaning, and questions with citations', async () => {
  const off = await cli.run(['search', '--mode', 'hybrid', 'expedition']);
  assert.notEqual(off.status, 0);
  assert.match(off.stderr, /intelligence is off[^]*workspaces set/);
  await cli.ok(['workspaces', 'set', 'docs', '--intelligence', 'on']);
  assert.equal((await cli.json(['workspaces', 'show', 'docs'])).intelligence, true);
  await until(async () => (await cli.run(['search', '--mode', 'hybrid', 'when does the expedition leave'])).stdout.includes('notes/plan.md'), { ms: 20_000, every: 200, what: 'cut' });
  assert.deepEqual(await paths('when does the expedition leave'), [], 'not all words occur');
  const bad = await cli.run(['search', '--mode', 'odd', 'x']);
  assert.match(bad.stderr, /lexical, semantic or hybrid/);

  const none = await cli.run(['ask', 'when does the expedition leave?']);
  assert.notEqual(none.status, 0);
  assert.match(none.stderr, /glovebox model add/);
  const question = 'when does the expedition leave?\nsay: At dawn [1].';
  const plain = await cli.ok(['ask', question, '--model', 'echo', '-w', 'docs']);
  assert.match(plain.stdout, new RegExp(`^At dawn \\[1\\]\\.\\n\\n\\[1\\] ${ws}:notes/plan.md:1-4  \\(ver_`));
  const json = await cli.json(['ask', question, '--model', 'echo', '--limit', '1']);
  assert.deepEqual([json.answer, json.passages, json.citations[0].path], ['At dawn [1].', 1, 'notes/plan.md']);
});
