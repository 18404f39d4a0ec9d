// SPDX-License-Identifier: Apache-2.0
// The memory of sessions on a disk that fails: what cannot be stored is not
// lost as long as the session is up, a wake goes on or says why not, and
// calls that meet do not harm each other.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { armFault, disarm, faultEnv, faultFired } from '../../lib/faults.mjs';
import { Glovebox, pool, processOnly, until } from '../../lib/glovebox.mjs';

const here = processOnly('its memory is not ours to copy');
const config = { pools: [pool({ ready: 1, hibernate: true, undo_points: 0 })] };
const images = (g) => readdirSync(join(g.dir, 'data', 'images'));
const post = (s, what, body) => s.server.call('POST', `${s.path}/${what}`, body);

describe('memory on a disk that fails', here, () => {
  let g;
  before(async () => { g = await Glovebox.start({ config, env: faultEnv() }); });
  after(async () => { disarm(); await g?.stop(); });

  for (const [op, action] of [['pwrite', 'ENOSPC'], ['pwrite', 'EIO'], ['fsync', 'EIO'], ['rename', 'EIO'], ['open-create', 'ENOSPC']])
    test(`D1 ${op} fails with ${action}: a session that is told to hibernate stays up and whole`, async () => {
      const s = await g.session();
      await s.out('x = 41; open("a.txt", "w").write("a")');
      armFault({ op, path: '/images/', nth: 1, action });
      const slept = await post(s, 'hibernate');
      assert.ok(faultFired() >= 1, 'the fault was met');
      disarm();
      assert.equal(slept.status, action === 'ENOSPC' ? 507 : 500, slept.text);
      assert.equal((await s.get()).state, 'idle');
      assert.deepEqual(images(g), [], 'nothing half written');
      const e = await s.python('print(x + 1, open("a.txt").read())');
      assert.deepEqual([e.interpreter, e.stdout], ['same', '42 a\n']);
      assert.equal((await post(s, 'hibernate')).status, 200, 'and hibernates when the disk works');
      assert.equal((await s.python('print(x)')).stdout, '41\n');
      await s.delete();
    });

  test('S2 two calls that wake one session get one interpreter', async () => {
    for (let i = 0; i < 5; i++) {
      const s = await g.session();
      await s.out('n = 0');
      await post(s, 'hibernate');
      const both = await Promise.all([1, 2, 3].map(() => s.python('n += 1; print(n)')));
      assert.deepEqual(both.map((e) => e.stdout.trim()).sort(), ['1', '2', '3']);
      assert.equal(both.filter((e) => e.interpreter === 'woken').length, 1);
      assert.equal((await s.get()).interpreters, 1);
      await s.delete();
    }
  });

  test('D10 a wake during delete ends with neither sandbox nor image', async () => {
    for (let i = 0; i < 8; i++) {
      const s = await g.session();
      await s.out('x = 1');
      await post(s, 'hibernate');
      const waking = s.server.call('POST', `${s.path}/executions`, { code: 'print(x)' });
      await new Promise((done) => setTimeout(done, i * 3));
      await s.delete();
      const answer = await waking;
      assert.ok([200, 404, 409, 410].includes(answer.status), answer.text);
      assert.equal((await s.server.call('GET', s.path)).status, 404);
    }
    await until(() => images(g).length === 0, { what: 'no image' });
    await until(() => g.sessionProcesses().length <= 4, { ms: 15_000, what: 'the ready sandbox alone' });
  });
});
