// SPDX-License-Identifier: Apache-2.0
// The same questions through openai for Python, unchanged, as Debian sid has
// it: unpacked into a tree of its own (tools/sid-tree), which chroot runs.
// The client validates every answer and event strictly.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { Glovebox, pool, root } from '../lib/glovebox.mjs';
import { stop } from '../lib/wire.mjs';

const player = join(root, 'tests/lib/openai_play.py');
const names = [...readFileSync(player, 'utf8').matchAll(/^@step\("(.*)"\)$/gm)].map((m) => m[1]);
const found = new Map();
let g, dir;

before(async () => {
  const unpacked = spawnSync(join(root, 'tools/sid-tree'), ['openai-python', 'usr/lib/python3/dist-packages/openai/__init__.py', 'python3-openai', 'ca-certificates'], { encoding: 'utf8' });
  assert.equal(unpacked.status, 0, unpacked.stderr);
  const tree = unpacked.stdout.trim();
  dir = mkdtempSync(join(tree, 'tmp/'));
  copyFileSync(player, join(dir, 'play.py'));
  g = await Glovebox.start({ config: { pools: [pool()] } });
  // The client loads certificates, though it speaks plain HTTP here.
  const child = spawn('chroot', [tree, '/usr/bin/python3', join(dir.slice(tree.length), 'play.py'), g.url, g.key],
    { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, SSL_CERT_FILE: '/usr/share/ca-certificates/mozilla/ISRG_Root_X1.crt' } });
  const exited = new Promise((done) => child.on('exit', done));
  for await (const line of createInterface({ input: child.stdout })) {
    const { name, error } = JSON.parse(line);
    found.set(name, error);
  }
  assert.equal(await exited, 0, 'the player died');
});
after(async () => {
  await stop(g);
  if (dir) rmSync(dir, { recursive: true, force: true });
});

assert.ok(names.length > 8);
for (const name of names)
  test(name, () => {
    assert.ok(found.has(name), 'not played');
    assert.ok(!found.get(name), found.get(name));
  });
