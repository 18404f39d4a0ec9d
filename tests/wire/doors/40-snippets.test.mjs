// SPDX-License-Identifier: Apache-2.0
// The snippets of docs/COMPAT.md as they are printed: shell and JavaScript are
// run, with the address of a test's service; Python is compiled, and uses no
// name that it does not define.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Glovebox, bin, pool } from '../../lib/glovebox.mjs';
import { stop } from '../../lib/wire.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '../../..');
const page = readFileSync(join(root, 'docs/COMPAT.md'), 'utf8');
const snippets = (language) => [...page.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\`$`, 'gms'))].map((m) => m[1]);
let g;
let dir;
let env;

before(async () => {
  g = await Glovebox.start({ config: { pools: [pool({ ready: 1 })] } });
  dir = mkdtempSync(join(tmpdir(), 'glovebox-snippets-'));
  env = { PATH: `${dirname(bin('glovebox'))}:${process.env.PATH}`, HOME: dir, GLOVEBOX_URL: g.url, GLOVEBOX_KEY: g.key };
  mkdirSync(join(dir, 'node_modules'));
  for (const client of ['openai6', 'azure'])
    for (const name of ['openai', '@llamaindex', '@langchain']) {
      const at = join(root, 'tests/clients', client, 'node_modules', name);
      if (existsSync(at) && !existsSync(join(dir, 'node_modules', name))) symlinkSync(at, join(dir, 'node_modules', name));
    }
});
after(async () => {
  await stop(g);
  if (dir) rmSync(dir, { recursive: true, force: true });
});

const here = (text) => text.replaceAll('http://127.0.0.1:8650', g.url);
function run(command, args, more = {}) {
  const done = spawnSync(command, args, { cwd: dir, env: { ...env, ...more }, encoding: 'utf8', timeout: 120_000 });
  assert.equal(done.status, 0, `${done.stderr}\n${done.stdout}`);
  return done.stdout;
}

// What is typed, and what the page says is printed.
function console_(text) {
  const typed = [];
  const shown = [];
  let more = false;
  for (const line of text.trimEnd().split('\n')) {
    if (line.startsWith('$ ') || more) {
      typed.push(more ? line : line.slice(2));
      more = /(\\|\|)$/.test(line);
    } else shown.push(line);
  }
  return { typed: typed.join('\n'), shown: shown.map((l) => `${l}\n`).join('') };
}

describe('docs/COMPAT.md', () => {
  test('the commands for the shell', () => {
    const blocks = snippets('console');
    assert.equal(blocks.length, 2);
    const { typed, shown } = console_(here(blocks.join('')));
    const out = run('bash', ['-euo', 'pipefail', '-c', `${typed}\nprintf %s "$GLOVEBOX_KEY" > key`]);
    assert.equal(out, shown);
    assert.match(readFileSync(join(dir, 'key'), 'utf8'), /^gbx_/);
    assert.match(readFileSync(join(dir, 'sales.csv'), 'utf8'), /^month,sales\n/);
  });

  test('JavaScript', () => {
    const key = readFileSync(join(dir, 'key'), 'utf8');
    const printed = { openai: /^\/mnt\/data\/out\.csv 28 assistant\n\/mnt\/data\/file-\w+-sales\.csv 28 user\n$/, '@llamaindex/azure': /\n42\n$/, '@langchain/azure-dynamic-sessions': /42/ };
    const seen = [];
    const ran = [];
    snippets('js').forEach((text, i) => {
      const name = /from '((?!node:)[^']+)'/.exec(text)[1];
      const file = join(dir, `${i}.mjs`);
      writeFileSync(file, here(text));
      seen.push(name);
      run(process.execPath, ['--check', file]);
      if (existsSync(join(dir, 'node_modules', name))) {
        ran.push(name);
        assert.match(run(process.execPath, [file], { GLOVEBOX_KEY: key }), printed[name], name);
      }
    });
    for (const name of ['openai', '@llamaindex/azure']) assert.ok(ran.includes(name), `${name} is installed for the tests`);
    assert.deepEqual(seen.sort(), Object.keys(printed).sort());
  });

  test('Python', () => {
    const blocks = snippets('python');
    assert.ok(blocks.length >= 4);
    const check = `
import ast, builtins, sys
tree = ast.parse(sys.stdin.read())
known = set(dir(builtins))
for n in ast.walk(tree):
    if isinstance(n, (ast.Import, ast.ImportFrom)):
        known |= {(a.asname or a.name).split('.')[0] for a in n.names}
    elif isinstance(n, (ast.FunctionDef, ast.ClassDef)):
        known.add(n.name)
    elif isinstance(n, ast.arg):
        known.add(n.arg)
    elif isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load):
        known.add(n.id)
missing = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} - known
sys.exit(f'not defined: {missing}' if missing else 0)`;
    for (const text of blocks) {
      const done = spawnSync('python3', ['-c', check], { input: text, encoding: 'utf8' });
      assert.equal(done.status, 0, `${done.stderr}\n${text}`);
    }
    // It would be seen.
    assert.notEqual(spawnSync('python3', ['-c', check], { input: 'os.environ["X"]' }).status, 0);
  });
});
