// SPDX-License-Identifier: Apache-2.0
// The official clients drive the product: both generations, both eras, over
// HTTP and over stdio. Each plays the whole scenario of lib/mcp-scenario.
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { chmodSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, allProcesses, pool, until } from '../../lib/glovebox.mjs';
import { connect } from '../../lib/mcp-clients.mjs';
import { ALL, CORE, WORKSPACE, steps } from '../../lib/mcp-scenario.mjs';

const PLAYS = [
  { generation: 1, era: 'legacy', transport: 'http' },
  { generation: 1, era: 'legacy', transport: 'stdio' },
  { generation: 2, era: 'legacy', transport: 'http' },
  { generation: 2, era: 'legacy', transport: 'stdio' },
  { generation: 2, era: 'modern', transport: 'http' },
  { generation: 2, era: 'modern', transport: 'stdio' },
];

let g, cli;
before(async () => {
  // Charts and reports need the larger image.
  g = await Glovebox.start({ config: { pools: [pool({ runtime: 'standard', hibernate: true, undo_points: 4 })] } });
  cli = new Cli(g);
});
after(async () => {
  cli.close();
  await g.stop();
});

const bridges = (pid) => allProcesses().filter((p) => p.ppid === pid && p.name === 'glovebox' && !p.zombie).length;

for (const play of PLAYS)
  describe(`client ${play.generation}, ${play.era}, ${play.transport}`, () => {
    const w = { called: new Set(), conversation: `conv-${play.generation}-${play.era}-${play.transport}` };
    before(async () => Object.assign(w, await connect({ ...play, server: g, env: cli.env }), { server: g, generation: play.generation }));
    for (const [name, step] of steps) test(name, () => step(w));
    after(async () => {
      await w.close();
      await until(() => bridges(process.pid) === 0, { what: 'no bridge left' });
    });
  });

describe('finding the era', () => {
  for (const transport of ['http', 'stdio'])
    test(`asked to find out, the client speaks the newer one over ${transport}`, async () => {
      const w = await connect({ generation: 2, era: 'auto', transport, server: g, env: cli.env });
      assert.equal(w.era, 'modern');
      assert.equal((await w.call({ name: 'execute_python', arguments: { code: 'print(6 * 7)' } })).structuredContent.stdout, '42\n');
      await w.close();
    });
});

test('without a service: a client that probes with a process of its own, then starts the real one', async () => {
  const own = new Cli(undefined);
  chmodSync(own.dir, 0o755); // the service's account must get through
  const config = join(own.dir, 'glovebox.yaml');
  writeFileSync(config, JSON.stringify({ uid_base: 1_000_000_000 + randomInt(3000) * 1_000_000, pools: [pool()] }));
  Object.assign(own.env, { GLOVEBOX_CONFIG: config, GLOVEBOX_DATA_DIR: join(own.dir, 'data') });
  for (const [generation, era] of [[2, 'auto'], [2, 'legacy'], [1, 'legacy']]) {
    const w = await connect({ generation, era, transport: 'stdio', env: own.env });
    assert.equal(w.era, era === 'auto' ? 'modern' : 'legacy');
    assert.equal((await w.call({ name: 'execute_python', arguments: { code: 'print(6 * 7)' } })).structuredContent.stdout, '42\n');
    await w.close();
  }
  await until(() => bridges(process.pid) === 0 && !existsSync(join(own.dir, 'data', 'endpoint')), { ms: 20_000, what: 'nothing left' });
  own.close();
});

describe('groups of tools', () => {
  for (const [tools, wanted] of [['core', CORE], ['workspace', WORKSPACE], ['all', ALL]])
    for (const transport of ['http', 'stdio'])
      test(`${tools} over ${transport}`, async () => {
        const w = await connect({ generation: 1, era: 'legacy', transport, server: g, env: cli.env, tools });
        const names = (await w.client.listTools()).tools.map(({ name }) => name);
        assert.deepEqual(names.sort(), [...wanted].sort());
        await w.close();
      });
});

test('a wrong key is refused in words a person can read', async () => {
  for (const play of PLAYS) {
    if (play.era === 'modern' && play.transport === 'stdio') continue; // this client keeps the words to itself
    const env = { ...cli.env, GLOVEBOX_KEY: `gbx_${'00'.repeat(32)}` };
    const error = await connect({ ...play, server: { url: g.url, key: env.GLOVEBOX_KEY }, env }).then(() => assert.fail('it came in'), (why) => why);
    assert.match(String(error.message), /key|unauthorized|401/i, JSON.stringify(play));
  }
});
