// SPDX-License-Identifier: Apache-2.0
// A disk that does not answer: the file system of the scratch images is
// frozen, so that every write to it waits. What the warden does for one
// session must not keep it from the others.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Glovebox, pool, sleep, until } from '../lib/glovebox.mjs';

const config = { pools: [pool({ ready: 0 })] };
const nothing = { processes: 0, groups: 0, loops: 0, images: 0 };
const run = (...args) => {
  const done = spawnSync(args[0], args.slice(1), { encoding: 'utf8' });
  assert.equal(done.status, 0, `${args.join(' ')}: ${done.stderr}`);
};

let server;
let dir;
let scratch;
let frozen = false;

const freeze = () => { run('fsfreeze', '--freeze', scratch); frozen = true; };
const thaw = () => { if (frozen) run('fsfreeze', '--unfreeze', scratch); frozen = false; };

before(async () => {
  const first = await Glovebox.start({ config });
  ({ dir } = first);
  await first.stop({ keep: true });
  scratch = join(dir, 'data', 'scratch');
  writeFileSync(join(dir, 'disk'), '');
  truncateSync(join(dir, 'disk'), 4 * 2 ** 30);
  run('mkfs.ext4', '-q', '-F', join(dir, 'disk'));
  run('mount', '-o', 'loop', join(dir, 'disk'), scratch);
  run('chmod', '0700', scratch);
  server = await Glovebox.start({ dir, config });
});

after(async () => {
  thaw();
  await server?.stop({ keep: true });
  spawnSync('umount', ['-l', scratch]);
  rmSync(dir, { recursive: true, force: true });
});

// Loop devices of sessions; the one of this test's own disk aside.
const holdings = () => ({ ...server.holdings(), loops: server.loops().length - 1 });

test('X4: while the disk hangs for the end of one session, the others go on and the service is ready', async () => {
  const kept = await server.session();
  await kept.out('x = 41');
  const ending = [];
  for (let i = 0; i < 12; i++) ending.push(await server.session());
  for (const s of ending) await s.out('open("/mnt/data/big", "wb").write(b"x" * (4 << 20)); 1');
  const { warden } = server.processes();
  const inits = server.sessionProcesses().filter(({ ppid }) => ppid === warden).map(({ pid }) => pid);
  assert.equal(inits.length, 13);
  const { init } = await kept.onHost();

  freeze();
  // Dead before they are released, so that the warden holds the last
  // reference to their storage.
  for (const pid of inits) if (pid !== init) process.kill(pid, 'SIGKILL');
  await until(() => server.sessionProcesses().filter(({ ppid }) => ppid === warden).length === 1, { what: 'they died' });
  for (const gone of await Promise.all(ending.map((s) => s.delete()))) assert.ok(gone.status === 204 || gone.status === 404, String(gone.status));
  const waiting = server.call('POST', '/api/sessions', {}); // needs storage: it waits
  for (let i = 0; i < 14; i++) {
    assert.equal((await server.call('GET', '/readyz', undefined, { key: null })).status, 200, `ready, ${i / 2} s into it`);
    assert.equal(await kept.out('print(x + 1)'), '42');
    await sleep(500);
  }
  assert.ok(holdings().loops >= 13, 'the disk still hangs');

  thaw();
  const made = await waiting;
  assert.equal(made.status, 201, made.text);
  await server.ok('DELETE', `/api/sessions/${made.body.id}`);
  await kept.delete();
  await until(() => JSON.stringify(holdings()) === JSON.stringify(nothing), { ms: 30_000, every: 100, what: 'nothing left' })
    .catch((error) => { throw new Error(`${error.message}: ${JSON.stringify(holdings())}`); });
  assert.ok(!/slow_step/.test(server.log), server.log);
});
