// SPDX-License-Identifier: Apache-2.0
// R9: a process that was ended at the memory limit is told of at every door
// that runs code, also when the code went on and ended well.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Pool } from '../../lib/azure.mjs';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { Tools } from '../../lib/mcp-tools.mjs';
import { stop } from '../../lib/wire.mjs';

const TOLD = /reached its 128 MiB of memory and 1 of its processes was ended/;
const CODE = 'import subprocess, sys\nprint(subprocess.run([sys.executable, "-c", "x = bytearray(400 << 20)"]).returncode)';
let g;

before(async () => { g = await Glovebox.start({ config: { pools: [pool({ memory_bytes: '128MiB', tmp_bytes: '32MiB', shm_bytes: '16MiB' })] } }); });
after(() => stop(g));

test('R9: the native API has limit and warning', async () => {
  const e = await g.ok('POST', '/api/run', { code: CODE });
  assert.deepEqual([e.outcome, e.stdout, e.limit.name, e.error], ['ok', '-9\n', 'memory_bytes', null]);
  assert.match(e.warning, TOLD);
  const after = await g.ok('POST', '/api/run', { code: '1' });
  assert.deepEqual([after.limit, after.warning], [null, null]);
});

test('R9: Azure has it in stderr', async () => {
  const { body } = await new Pool(g).run(CODE);
  assert.equal(body.status, 'Succeeded');
  assert.match(body.result.stderr, TOLD);
});

test('R9: MCP has it in its text and its structured content', async () => {
  const { content, structuredContent } = await new Tools(g).call('execute_python', { code: CODE });
  assert.match(structuredContent.warning, TOLD);
  assert.match(content[0].text, TOLD);
});

test('R9: the command line has it on stderr', async () => {
  const cli = new Cli(g);
  const run = await cli.run(['run', '-c', CODE]);
  assert.equal(run.status, 0);
  assert.match(run.stderr, TOLD);
  cli.close?.();
});
