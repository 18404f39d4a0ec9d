// SPDX-License-Identifier: Apache-2.0
// Death by SIGKILL, at random and at named points, while files are uploaded,
// committed by executions, deleted and collected. After each: every
// acknowledged file is there byte for byte, whatever was under way is old or
// new and never a mix, nothing is missing or damaged, and the next start is
// quick. At least a hundred times.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { utimesSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { armFault, disarm, faultEnv, faultFired } from '../../lib/faults.mjs';
import { Glovebox, Session, pool, sleep, until } from '../../lib/glovebox.mjs';
import { Ledger, ready, restarted, sound } from '../../lib/ledger.mjs';

const RANDOM = 64;
const START_MS = 10_000; // beyond this a start is a failure; 2 s is the aim
const OBJECTS = 10_000;
const config = { stop_deadline_s: 1, collect_every_s: 1, restore_window_s: 0, scrub_bytes_per_s: 0,
  pools: [pool({ ready: 1, scratch_bytes: '32MiB', scratch_inodes: 2000 })] };

let g;
let ledger;
let session;
let kills = 0;
const starts = [];

const size = () => [1, 100, 5_000, 70_000][Math.floor(Math.random() * 4)];
const some = () => randomBytes(size());

async function again() {
  const began = performance.now();
  g = await restarted(g, { config, env: faultEnv() }, START_MS);
  starts.push(performance.now() - began);
}

const age = (hash) => {
  const hour = Date.now() / 1000 - 3600;
  utimesSync(join(g.dir, 'data/blobs', hash.slice(0, 2), hash), hour, hour);
};

// ---- what goes on meanwhile ------------------------------------------------

// Each has paths of its own. They end when the daemon does not answer.
const writers = {
  async uploads(n) {
    for (let i = 0; ; i++) await ledger.put(g, `up${n}/${i % 7}.bin`, some());
  },
  async deletes(n) {
    for (let i = 0; ; i++) {
      const path = `del${n}/${i % 3}`;
      await ledger.put(g, path, some());
      await ledger.remove(g, path);
    }
  },
  async parts(n) {
    for (let i = 0; ; i++) await ledger.parts(g, `parts${n}/${i % 4}`, randomBytes(90_000));
  },
  async executions(n) {
    await ready(g);
    for (let i = 0; ; i++) {
      const text = `${n} ${i} ${'x'.repeat(size())}`;
      await ledger.execute(session, Object.fromEntries(['a', 'b', 'c'].map((name) => [`exec/${name}.txt`, `${name} ${text}`])));
    }
  },
  // Workspaces that come and go, and the collector. It leaves alone what is
  // younger than a minute, so what is to go is made to look older.
  async collection() {
    for (;;) {
      const made = await g.call('POST', '/api/workspaces', { name: 'passing' });
      if (made.status !== 201) continue;
      const put = await g.call('PUT', `/api/workspaces/${made.body.id}/files/x`, some(), { raw: true });
      await g.call('DELETE', `/api/workspaces/${made.body.id}`);
      if (put.status === 201) age(put.body.sha256);
      await g.call('POST', '/api/collect');
    }
  },
};

const begin = (...names) => names.map((name, n) => writers[name](n).catch(() => {}));

async function die(work) {
  await g.exited;
  await Promise.all(work);
  disarm();
  kills++;
  await again();
}

// Those touched in this round are read again; the rest now and then.
let touched = new Set();
async function check({ all = false } = {}) {
  touched = new Set([...ledger.paths].filter(([, e]) => e.maybe !== undefined).map(([path]) => path));
  await ledger.settle(g, { bytes: (path) => all || touched.has(path) });
  await sound(g);
}

before(async () => {
  g = await Glovebox.start({ config, env: faultEnv() });
  ledger = new Ledger((await g.ok('POST', '/api/workspaces', { name: 'kills' })).id);
  // Old versions go, so that the collector has work and verifying stays quick.
  await g.ok('PATCH', `/api/workspaces/${ledger.workspace}`, { retention: { keep_versions: 2 } });
  session = await g.session({ workspace: ledger.workspace });
});

after(async () => {
  disarm();
  await g?.stop();
});

describe('D1 D2 D7 killed while it writes', () => {
  test(`D1 D2 D7: ${RANDOM} times at random`, { timeout: 300_000 }, async (t) => {
    const mixes = [['uploads', 'uploads', 'deletes'], ['uploads', 'parts', 'collection'], ['deletes', 'collection', 'uploads'],
      ['executions', 'uploads', 'collection']];
    for (let round = 0; round < RANDOM; round++) {
      const mix = mixes[round % 8 === 7 ? 3 : round % 3];
      const acked = ledger.acknowledged;
      const last = ledger.paths.get('exec/a.txt')?.acked;
      session = new Session(g, { id: session.id });
      const work = begin(...mix);
      if (mix.includes('executions')) // at least one made it
        await until(() => ![undefined, null, last].includes(ledger.paths.get('exec/a.txt')?.acked), { ms: 30_000, what: 'an execution' });
      await until(() => ledger.acknowledged > acked, { ms: 20_000, every: 2, what: 'something acknowledged' });
      await sleep(Math.random() * 120);
      g.child.kill('SIGKILL');
      await die(work);
      await check({ all: round % 16 === 15 });
    }
    t.diagnostic(`${ledger.acknowledged} acknowledged changes, ${ledger.paths.size} files`);
  });

  const WRITE = ['write', 'pwrite'];
  const SYNC = ['fsync', 'fdatasync'];
  const PLACE = ['rename', 'link'];
  // [what goes on, operation, part of the path, before or after it]
  const points = [
    ['uploads', 'open-create', '/blobs/tmp/', 'kill'], ['uploads', 'open-create', '/blobs/tmp/', 'kill-after'],
    ['uploads', WRITE, '/blobs/tmp/', 'kill'], ['uploads', WRITE, '/blobs/tmp/', 'kill-after'],
    ['uploads', SYNC, '/blobs/', 'kill'], ['uploads', SYNC, '/blobs/', 'kill-after'],
    ['uploads', PLACE, '/blobs/', 'kill'], ['uploads', PLACE, '/blobs/', 'kill-after'],
    ['uploads', WRITE, 'glovebox.db-wal', 'kill'], ['uploads', WRITE, 'glovebox.db-wal', 'kill-after'],
    ['uploads', SYNC, 'glovebox.db-wal', 'kill'], ['uploads', SYNC, 'glovebox.db-wal', 'kill-after'],
    ['deletes', WRITE, 'glovebox.db-wal', 'kill'], ['deletes', SYNC, 'glovebox.db-wal', 'kill-after'],
    ['parts', WRITE, '/blobs/tmp/', 'kill-after'], ['parts', SYNC, '/blobs/', 'kill-after'],
    ['parts', PLACE, '/blobs/', 'kill'], ['parts', SYNC, 'glovebox.db-wal', 'kill'],
    ['collection', 'unlink', '/blobs/', 'kill'], ['collection', 'unlink', '/blobs/', 'kill-after'],
    ['executions', WRITE, '/blobs/tmp/', 'kill'], ['executions', SYNC, '/blobs/', 'kill-after'],
    ['executions', PLACE, '/blobs/', 'kill'], ['executions', SYNC, 'glovebox.db-wal', 'kill'],
    ['executions', SYNC, 'glovebox.db-wal', 'kill-after'],
  ];

  test(`D1 D2 D7: at ${points.length} named points, early and late`, { timeout: 300_000 }, async (t) => {
    const missed = [];
    for (const [what, op, path, action] of points)
      for (const nth of what === 'executions' ? [2] : [1, 5]) {
        session = new Session(g, { id: session.id });
        if (what === 'executions') await ready(g);
        armFault({ op, path, nth, action });
        const work = begin(what, what === 'executions' ? 'collection' : 'uploads');
        await Promise.race([g.exited, sleep(4000)]);
        if (!g.exit) { // nothing came by: it dies all the same
          missed.push(`${what}: ${op} ${path}`);
          g.child.kill('SIGKILL');
        } else {
          assert.equal(faultFired(), 1, `${what} ${op} ${path} ${action}: ${g.log.slice(-1000)}`);
        }
        await die(work);
        await check();
      }
    assert.deepEqual(missed, [], 'every point was met');
    t.diagnostic(`${kills} kills so far`);
  });

  test('D7: killed again and again while it starts', { timeout: 120_000 }, async () => {
    for (const ms of [3, 10, 25, 50, 80, 120, 200, 350]) {
      await ledger.put(g, 'start.bin', some());
      g.child.kill('SIGKILL');
      await g.exited;
      const next = await Glovebox.start({ dir: g.dir, config, env: faultEnv(), wait: false });
      await sleep(ms);
      next.child.kill('SIGKILL');
      await next.exited;
      kills += 2;
      await again();
      await check();
    }
  });

  test('D1: a session woken after that has its files, and says that its interpreter is fresh', async () => {
    await ready(g);
    session = new Session(g, { id: session.id });
    const before_ = await session.python('open("/mnt/data/last.txt", "w").write("there"); kept = 1');
    assert.equal(before_.outcome, 'ok', JSON.stringify(before_.error));
    ledger.paths.set('last.txt', { acked: before_.files.created[0].sha256 });
    g.child.kill('SIGKILL');
    await die([]);
    await ready(g);
    session = new Session(g, { id: session.id });
    const e = await session.python('import os\nprint(open("/mnt/data/last.txt").read(), "kept" in globals(), len([f for _, _, fs in os.walk("/mnt/data") for f in fs]))');
    const have = await ledger.listed(g);
    assert.deepEqual([e.outcome, e.stdout.trim(), e.interpreter], ['ok', `there False ${have.size}`, 'fresh']);
    await check({ all: true });
  });

  test('a hundred kills at least', () => assert.ok(kills >= 100, `${kills}`));

  test(`D7: starts quickly with ${OBJECTS} objects`, { timeout: 240_000 }, async (t) => {
    const id = (await g.ok('POST', '/api/workspaces', { name: 'many' })).id;
    let next = 0;
    await Promise.all(Array.from({ length: 4 }, async () => {
      while (next < OBJECTS) {
        const form = new FormData();
        for (let i = 0; i < 50; i++, next++) form.append('file', new Blob([`object ${next}`]), `${next}.txt`);
        await g.ok('POST', `/api/workspaces/${id}/files?folder=${next / 50}`, form, { raw: true });
      }
    }));
    starts.length = 0;
    for (let i = 0; i < 3; i++) {
      g.child.kill('SIGKILL');
      await die([]);
    }
    t.diagnostic(`restart with ${OBJECTS} objects: ${starts.map((ms) => `${Math.round(ms)} ms`).join(', ')}; the aim is 2000 ms`);
    for (const ms of starts) assert.ok(ms < START_MS, `${ms} ms`);
    const report = await sound(g);
    assert.ok(report.blobs >= OBJECTS, JSON.stringify(report));
    assert.equal((await g.ok('GET', `/api/workspaces/${id}`)).files, OBJECTS);
  });
});
