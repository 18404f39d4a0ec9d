// SPDX-License-Identifier: Apache-2.0
// A disk that fills while a response runs: the stream ends with one last event,
// what is stored is not in progress for ever, and the service goes on once
// there is room again.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { smallDisk } from '../../lib/disk.mjs';
import { accepted, Door } from '../../lib/openai.mjs';
import { LAST } from '../../lib/responses.mjs';
import { Stream } from '../../lib/wire.mjs';

const config = { pools: [pool({ ready: 0 })] };
let disk, g, door;

before(async () => {
  disk = smallDisk({ mib: 400 });
  g = await Glovebox.start({ dir: disk.dir, config });
  door = new Door(g);
});
after(async () => {
  await g?.stop({ keep: true });
  disk?.remove();
});

test('a response ends although the disk is full, and says how', async () => {
  const s = await Stream.open(g, 'POST', '/v1/responses', { body: { model: 'echo', stream: true, input: 'slow: 5\nlong: 600' } });
  const { id } = (await s.find((e) => e.event === 'response.created')).data.response;
  disk.fill();
  const last = await s.find((e) => LAST.test(e.event), 60_000);
  await s.ended;
  assert.equal(s.events.filter((e) => LAST.test(e.event)).length, 1);
  const ended = last.data.response.status;
  assert.match(ended, /^(completed|failed)$/); // what was set aside may be enough
  if (ended === 'failed') assert.ok(last.data.response.error.message);
  disk.empty();
  await until(async () => (await door.post('/responses', { model: 'echo', input: 'again' })).status === 200, { ms: 30_000, what: 'room again' });
  assert.equal(accepted(await door.get(`/responses/${id}`)).status, ended, 'the same as the stream said');
  await g.stop({ keep: true });
  g = await Glovebox.start({ dir: disk.dir, config });
  door = new Door(g);
  assert.match(accepted(await door.get(`/responses/${id}`)).status, /^(completed|failed)$/);
});
