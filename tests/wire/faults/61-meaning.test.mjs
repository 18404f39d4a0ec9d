// SPDX-License-Identifier: Apache-2.0
// Search by meaning on a disk that is full, and with a service that is killed
// while it cuts and learns: what was learned stays, and the rest is made up
// for. Takes half a minute, so `make test-meaning` runs it and not `make test`.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { smallDisk } from '../../lib/disk.mjs';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';

const judged = readFileSync(new URL('../../../bench/judged/passages.txt', import.meta.url), 'utf8').trim().split('\n')
  .map((line) => [line.slice(0, line.indexOf(' ')), line.slice(line.indexOf(' ') + 1)]);
const config = { stop_deadline_s: 1, collect_every_s: 86400, scrub_bytes_per_s: 0, disk_free_bytes: 64 << 20,
  disk_reserve_bytes: '48MiB', pools: [pool({ ready: 0, scratch_bytes: '16MiB', scratch_inodes: 1000 })] };
const skip = process.env.GLOVEBOX_TEST_MEANING ? false : 'run by make test-meaning';
const disk = skip ? undefined : smallDisk({ mib: 400 });
let g;

const status = () => g.ok('GET', '/api/search/status');
const put = (ws, path, text) => g.call('PUT', `/api/workspaces/${ws}/files/${path}`, text, { raw: true });
const hybrid = async (q) => (await g.ok('GET', `/api/search?q=${encodeURIComponent(q)}&mode=hybrid`));
const make = async (name) => {
  const { id } = await g.ok('POST', '/api/workspaces', { name });
  await g.ok('PATCH', `/api/workspaces/${id}`, { intelligence: true });
  return id;
};

after(async () => {
  await g?.stop({ keep: true });
  disk?.remove();
});

test('D7: killed again and again while it cuts and learns, it is complete in the end', { skip }, async () => {
  g = await Glovebox.start({ config, dir: disk.dir });
  const ws = await make('killed');
  for (let round = 0; round < 4; round++) {
    await Promise.all(judged.slice(round * 40, round * 40 + 40).map(([id, text]) => put(ws, `${id}.txt`, text)));
    await new Promise((done) => setTimeout(done, [150, 700, 1200, 2500][round]));
    g.child.kill('SIGKILL');
    await g.exited;
    g = await Glovebox.start({ config, dir: disk.dir });
  }
  await until(async () => {
    const s = await status();
    return s.pending === 0 && s.uncut === 0 && s.passages === 160 && s.trained_at;
  }, { ms: 40_000, what: 'complete' });
  const got = await hybrid('how do I mend a flat tyre');
  assert.equal(got.degraded, false);
  assert.equal(got.data[0].path, 'bike-3.txt');
});

test('D5 D12: on a full disk queries go on and nothing is lost; later it catches up', { skip }, async () => {
  const { trained_at } = await status();
  const ws = await make('full');
  disk.fill();
  await until(async () => (await g.call('GET', '/readyz', undefined, { key: null })).status === 503, { what: 'full' });
  assert.equal((await hybrid('how do I mend a flat tyre')).data[0].path, 'bike-3.txt');
  assert.equal((await put(ws, 'new.txt', 'x')).status, 507);
  // To give up space works: switching off and deleting.
  await g.ok('PATCH', `/api/workspaces/${ws}`, { intelligence: false });
  assert.equal((await status()).trained_at, trained_at, 'the model is the one from before');
  disk.empty();
  await until(async () => (await g.call('GET', '/readyz', undefined, { key: null })).status === 200, { ms: 30_000, what: 'ready' });
  await g.ok('PATCH', `/api/workspaces/${ws}`, { intelligence: true });
  await Promise.all(judged.slice(160).map(([id, text]) => put(ws, `${id}.txt`, text)));
  await until(async () => {
    const s = await status();
    return s.uncut === 0 && s.pending === 0 && s.passages === judged.length && s.trained_at > trained_at;
  }, { ms: 60_000, what: 'learned again' });
  assert.match((await hybrid('nervous before a performance')).data[0].path, /^piano-/);
});
