// SPDX-License-Identifier: Apache-2.0
// A session that lost its variables says so before the output, at every door;
// one that has them, or never had any, says nothing.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Pool } from '../../lib/azure.mjs';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { Tools } from '../../lib/mcp-tools.mjs';
import { Door } from '../../lib/openai.mjs';
import { Stream, stop } from '../../lib/wire.mjs';

const GONE = ': variables of earlier executions are gone; files are kept.';
const ASLEEP = `The session was asleep${GONE}`;
const RESET = `The session was reset${GONE}`;
const ENDED = `The session's interpreter ended${GONE}`;

const config = { pools: [pool({ ready: 1 }), pool({ name: 'short', ready: 0, cooldown_s: 1 })] };
let g;
before(async () => { g = await Glovebox.start({ config }); });
after(() => stop(g));

const run = (id, code, language = 'python') => g.ok('POST', `/api/sessions/${id}/executions`, { code, language });
const asleep = (id) => until(async () => (await g.ok('GET', `/api/sessions/${id}`)).state === 'dormant', { ms: 20_000, every: 100, what: 'sleep' });
const reset = (id) => g.ok('POST', `/api/sessions/${id}/reset`);
const made = async (fields = {}) => (await g.ok('POST', '/api/sessions', fields)).id;
const sessionOf = async (identifier) => {
  const { data } = await g.ok('GET', '/api/sessions?limit=100');
  return (data.find((s) => s.identifier === identifier) ?? assert.fail(identifier)).id;
};

describe('native', () => {
  test('after sleep, in the answer and in the stream before any output, once', async () => {
    const id = await made({ pool: 'short' });
    assert.equal((await run(id, 'x = 1')).notice, null);
    await asleep(id);
    const slept = await run(id, 'print("x" in globals())');
    assert.deepEqual([slept.notice, slept.stdout, slept.interpreter], [ASLEEP, 'False\n', 'fresh']);
    await asleep(id);
    const stream = await Stream.open(g, 'POST', `/api/sessions/${id}/executions`, { body: { code: 'print(1)', mode: 'stream' } });
    await stream.done();
    const running = stream.events.findIndex((e) => e.event === 'status' && e.data.status === 'running');
    assert.equal(stream.events[running].data.notice, ASLEEP);
    assert.ok(running < stream.events.findIndex((e) => e.event === 'stdout'));
  });

  test('after a reset, a crash and a kill; not when all is well', async () => {
    const id = await made();
    assert.equal((await run(id, 'x = 1')).notice, null);
    assert.equal((await run(id, 'x')).notice, null);
    await reset(id);
    assert.equal((await run(id, '1')).notice, RESET);
    assert.equal((await run(id, '1')).notice, null);
    assert.equal((await run(id, 'import os; os._exit(1)')).notice, null);
    assert.equal((await run(id, '1')).notice, ENDED);
    assert.equal((await run(id, 'import sys; sys.exit(1)')).notice, null);
    assert.equal((await run(id, '1')).notice, null, 'sys.exit keeps variables');
  });

  test('commands have no variables to lose, and a session without cells neither', async () => {
    const id = await made({ pool: 'short' });
    await run(id, 'true', 'shell');
    await asleep(id);
    assert.equal((await run(id, 'true', 'shell')).notice, null);
    assert.equal((await run(id, 'x = 1')).notice, null);
    await asleep(id);
    assert.equal((await run(id, 'true', 'shell')).notice, null);
    assert.equal((await run(id, '1')).notice, ASLEEP, 'said with the first cell, not with the command before it');
    const unused = await made();
    await reset(unused);
    assert.equal((await run(unused, '1')).notice, null);
  });
});

test('MCP: the first line, and a field; the same for a container made at the OpenAI door', async () => {
  const tools = new Tools(g, { conversation: 'notice' });
  const container = (await new Door(g).container({ name: 'slept' })).id;
  for (const session_id of [undefined, container]) {
    const first = await tools.ok('execute_python', { code: 'x = 1\nprint("a")', session_id });
    assert.match(first.text, /^stdout:\na\n/);
    assert.equal(first.data.notice, undefined);
    await reset(first.data.session_id);
    const next = await tools.ok('execute_python', { code: 'print("b")', session_id });
    assert.ok(next.text.startsWith(`${RESET}\nstdout:\nb\n`), next.text);
    assert.equal(next.data.notice, RESET);
    assert.equal(next.data.interpreter, 'new');
  }
});

test('Azure: the first line of stderr, of a good run and of a failed one', async () => {
  const p = new Pool(g, { base: '/pools/short', identifier: 'sleeper' });
  const { result } = (await p.run('x = 1')).body;
  assert.equal(result.stderr, '');
  await asleep(await sessionOf('sleeper'));
  const slept = (await p.run('import sys; print("out"); print("err", file=sys.stderr)')).body.result;
  assert.deepEqual([slept.stdout, slept.stderr], ['out\n', `${ASLEEP}\nerr\n`]);
  await asleep(await sessionOf('sleeper'));
  const failed = (await p.wrapped('x')).body.properties;
  assert.ok(failed.stderr.startsWith(`${ASLEEP}\n`), failed.stderr);
  assert.match(failed.stderr, /NameError/);
});

test('after a restart of the service', async () => {
  const id = await made();
  await run(id, 'x = 1');
  await g.stop({ keep: true });
  g = await Glovebox.start({ config, dir: g.dir });
  assert.equal((await run(id, '1')).notice, ASLEEP);
});
