// SPDX-License-Identifier: Apache-2.0
// What responses and conversations take, and what happens at the limits: the
// storage of a tenant, a burst of streams, a service that is killed.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { accepted, Door } from '../../lib/openai.mjs';
import { CODE, LAST, OUTPUTS, text } from '../../lib/responses.mjs';
import { stop, Stream } from '../../lib/wire.mjs';

let g, door;
const used = async () => (await g.ok('GET', '/api/quotas')).quotas.find((q) => q.name === 'storage_bytes').used;
const limit = (storage_bytes) => g.ok('PUT', '/api/quotas/default', { storage_bytes });
const ask = (body) => door.post('/responses', { model: 'echo', ...body });

before(async () => {
  g = await Glovebox.start({ config: { pools: [pool()] } });
  door = new Door(g);
});
after(() => stop(g));

describe('storage', () => {
  test('responses, items and completions count, and deleting them gives it back', async () => {
    const empty = await used();
    const made = accepted(await ask({ input: `say: ok\n${'x'.repeat(50_000)}` }));
    const one = await used();
    assert.ok(one - empty > 50_000 && one - empty < 60_000, `${one - empty}`);
    const { id } = accepted(await door.post('/conversations', { items: [{ role: 'user', content: 'y'.repeat(20_000) }] }));
    assert.ok((await used()) - one > 20_000);
    const chat = accepted(await door.post('/chat/completions', { model: 'echo', store: true, messages: [{ role: 'user', content: 'z'.repeat(30_000) }] }));
    assert.ok((await used()) - one > 50_000);
    accepted(await door.delete(`/responses/${made.id}`));
    accepted(await door.delete(`/conversations/${id}`));
    accepted(await door.delete(`/chat/completions/${chat.id}`));
    await until(async () => (await used()) <= empty + 100, { what: 'the room back' });
  });

  test('below, at and above the limit', async () => {
    const kept = accepted(await ask({ input: 'a' }));
    const now = await used();
    await limit(now + 10_000);
    accepted(await ask({ input: 'b' }));
    const full = await ask({ input: `say: c\n${'x'.repeat(20_000)}` });
    assert.equal(full.status, 507, full.text);
    assert.equal(full.body.error.type, 'server_error', full.text);
    assert.match(full.body.error.message, /quota/);
    const unstored = accepted(await ask({ input: `say: c\n${'x'.repeat(20_000)}`, store: false }));
    assert.equal(text(unstored), 'c', 'what is not stored takes none');
    assert.equal((await door.post('/conversations', { items: [{ role: 'user', content: 'x'.repeat(20_000) }] })).status, 507);
    // It is full when the answer is there: the response has failed, for good.
    await limit((await used()) + 3_000);
    const s = await Stream.open(g, 'POST', '/v1/responses', { body: { model: 'echo', stream: true, input: 'long: 4000' } });
    assert.equal(s.status, 200);
    const last = await s.find((e) => LAST.test(e.event), 30_000);
    assert.equal(last.event, 'response.failed');
    assert.match(last.data.response.error.message, /quota/);
    assert.equal(accepted(await door.get(`/responses/${last.data.response.id}`)).status, 'failed');
    accepted(await door.delete(`/responses/${kept.id}`));
    await limit(null);
    accepted(await ask({ input: 'd' }));
  });
});

test('R8: two hundred streams of one tenant at once are all served, in bounded memory', async () => {
  const resident = () => Number(readFileSync(`/proc/${g.child.pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)[1]);
  const round = () => Promise.all(Array.from({ length: 200 }, async () => {
    const response = await fetch(`${g.url}/v1/responses`, { method: 'POST', headers: { authorization: `Bearer ${g.key}`, 'content-type': 'application/json' }, body: JSON.stringify({ model: 'echo', input: 'slow: 10\nlong: 50', stream: true }) });
    const body = await response.text();
    return `${response.status} ${body.match(/event: (\S+)/g)?.at(-1)}`;
  }));
  const sizes = [];
  for (let i = 0; i < 5; i++) {
    assert.deepEqual([...new Set(await round())], ['200 event: response.completed']);
    sizes.push(resident());
  }
  assert.ok(sizes[4] - sizes[1] < 48 << 10, `resident KiB after each round: ${sizes}`);
});

test('a killed service: a background response ends once, as failed, with a reason', async () => {
  const made = accepted(await ask({ background: true, input: 'run: print("before")\nslow: 100\nlong: 3000', tools: [CODE] }));
  await until(async () => accepted(await door.get(`/responses/${made.id}`)).output.length > 1, { what: 'the second item' });
  const states = [];
  for (let i = 0; i < 2; i++) {
    g.child.kill('SIGKILL');
    await g.exited;
    g = await Glovebox.start({ dir: g.dir, config: { pools: [pool()] } });
    door = new Door(g);
    states.push(accepted(await door.get(`/responses/${made.id}?include=${OUTPUTS[0]}`)));
  }
  assert.equal(states[0].status, 'failed');
  assert.match(states[0].error.message, /restarted/);
  assert.deepEqual(states[1], states[0], 'another restart changes nothing');
});
