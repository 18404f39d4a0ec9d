// SPDX-License-Identifier: Apache-2.0
// Backups taken while everything goes on: each is one moment, whole, and
// comes up as a service of its own. What is damaged on the way is found.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, Session, bin, pool, sleep } from '../../lib/glovebox.mjs';
import { Ledger, sha256, sound } from '../../lib/ledger.mjs';
import { Stream } from '../../lib/wire.mjs';

const config = { stop_deadline_s: 1, collect_every_s: 1, restore_window_s: 0, scrub_bytes_per_s: 0,
  pools: [pool({ ready: 1, scratch_bytes: '32MiB', scratch_inodes: 2000 })] };
let g;
let ledger;
let session;
let out; // the service's account writes here

before(async () => {
  g = await Glovebox.start({ config });
  ledger = new Ledger((await g.ok('POST', '/api/workspaces', { name: 'backup' })).id);
  session = await g.session({ workspace: ledger.workspace, name: 'worker' });
  out = mkdtempSync(join(tmpdir(), 'glovebox-backup-'));
  chmodSync(out, 0o777);
});

after(async () => {
  await g?.stop();
  if (out) rmSync(out, { recursive: true, force: true });
});

async function backup(dir) {
  const stream = await Stream.open(g, 'POST', '/api/backup', { body: { path: dir } });
  assert.equal(stream.status, 200);
  const last = await stream.find((e) => e.event === 'done' || e.event === 'error', 60_000);
  stream.close();
  return { ...last, progress: stream.events.filter((e) => e.event === 'progress').map((e) => e.data) };
}

// gloveboxd --restore-from, as the command line runs it.
function restore(from, data) {
  return new Promise((done) => {
    const child = spawn(bin('gloveboxd'), ['--restore-from', from, '--data', data], { env: { PATH: process.env.PATH } });
    let text = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes) => { text += bytes; });
    child.on('close', (status) => done({ status, text }));
  });
}

function home(name) {
  const dir = join(out, name);
  mkdirSync(dir);
  chmodSync(dir, 0o777);
  return dir;
}

describe('D9 a backup under load', () => {
  // Each writer counts up: which numbers were acknowledged is known at any
  // moment, and a backup may hold nothing older and nothing newer.
  const acked = { up: [0, 0, 0, 0], exec: 0 };
  const begun = { up: [0, 0, 0, 0], exec: 0 };
  let stop = false;
  let work;
  const numbered = (n) => Buffer.concat([Buffer.from(`${n}\n`), randomBytes(20_000)]);

  const writers = () => [
    ...acked.up.map(async (_, lane) => {
      while (!stop) {
        const n = ++begun.up[lane];
        await g.ok('PUT', ledger.files(`up/${lane}`), numbered(n), { raw: true });
        acked.up[lane] = n;
      }
    }),
    (async () => {
      while (!stop) {
        const n = ++begun.exec;
        const e = await session.python(`for name in "abc": open("/mnt/data/" + name, "w").write("${n}")`);
        assert.equal(e.outcome, 'ok', JSON.stringify(e.error));
        acked.exec = n;
      }
    })(),
    (async () => { // what comes and goes, so that the collector has work
      while (!stop) {
        await g.ok('PUT', ledger.files('passing'), randomBytes(5000), { raw: true });
        await g.ok('DELETE', ledger.files('passing'));
        await g.ok('POST', '/api/collect');
      }
    })(),
  ];

  test('D9: three, one after another, each restores to one moment of its time', { timeout: 180_000 }, async (t) => {
    await g.ok('PUT', ledger.files('old.bin'), randomBytes(3_000_000), { raw: true });
    work = writers();
    await sleep(500);
    const taken = [];
    for (let i = 0; i < 3; i++) {
      const low = structuredClone(acked);
      const began = performance.now();
      const done = await backup(join(out, `b${i}`));
      assert.equal(done.event, 'done', JSON.stringify(done.data));
      assert.ok(done.progress.length > 0 && done.progress.every((p) => p.what && p.done <= p.total), JSON.stringify(done.progress.slice(0, 3)));
      taken.push({ low, high: structuredClone(begun), ms: performance.now() - began });
    }
    stop = true;
    await Promise.all(work);
    t.diagnostic(`backups under load: ${taken.map(({ ms }) => `${Math.round(ms)} ms`).join(', ')}; ${acked.up.reduce((a, b) => a + b)} uploads, ${acked.exec} executions`);

    for (const [i, { low, high }] of taken.entries()) {
      const dir = home(`r${i}`);
      const done = await restore(join(out, `b${i}`), join(dir, 'data'));
      assert.equal(done.status, 0, done.text);
      assert.match(done.text, /^restore \S+ \d+ \d+$/m);
      const second = await Glovebox.start({ dir, config });
      try {
        assert.equal(second.key, g.key, 'keys are restored');
        await sound(second);
        assert.equal((await second.ok('POST', '/api/audit/verify')).ok, true);
        for (let lane = 0; lane < low.up.length; lane++) {
          const { status, text } = await second.call('GET', ledger.files(`up/${lane}`));
          const n = status === 404 ? 0 : Number(text.split('\n')[0]);
          assert.ok(n >= low.up[lane] && n <= high.up[lane], `up/${lane}: ${n} is not in ${low.up[lane]}–${high.up[lane]}`);
        }
        const seen = await Promise.all(['a', 'b', 'c'].map(async (name) => (await second.call('GET', ledger.files(name))).text));
        assert.equal(new Set(seen).size, 1, `one commit: ${seen}`);
        assert.ok(Number(seen[0]) >= low.exec && Number(seen[0]) <= high.exec, `${seen[0]} is not in ${low.exec}–${high.exec}`);
        // The session is there, too, and wakes on its files.
        const woken = new Session(second, { id: session.id });
        assert.equal(await woken.out('print(open("/mnt/data/a").read())'), seen[0]);
      } finally {
        await second.stop();
      }
    }
  });

  test('D9: damage to a backup is found before anything is served from it', async () => {
    const from = join(out, 'b0');
    const files = readdirSync(from, { recursive: true, withFileTypes: true }).filter((e) => e.isFile()).map((e) => join(e.parentPath ?? e.path, e.name));
    const victims = [files.find((f) => /\/[0-9a-f]{64}$/.test(f)), files.find((f) => f.endsWith('glovebox.db')), files.find((f) => /manifest/i.test(f))].filter(Boolean);
    assert.equal(victims.length, 3, files.slice(0, 10).join(' '));
    for (const [i, victim] of victims.entries()) {
      const whole = readFileSync(victim);
      const broken = Buffer.from(whole);
      broken[Math.floor(broken.length / 2)] ^= 1;
      chmodSync(victim, 0o644);
      writeFileSync(victim, broken);
      const dir = home(`never${i}`);
      const done = await restore(from, join(dir, 'data'));
      assert.ok(done.status > 0, `${victim}: ${done.text.slice(-300)}`);
      assert.ok(!existsSync(join(dir, 'data', 'glovebox.db')), 'nothing that could be served');
      writeFileSync(victim, whole);
    }
    const lost = files.find((f) => /\/[0-9a-f]{64}$/.test(f));
    const kept = readFileSync(lost);
    rmSync(lost);
    assert.ok((await restore(from, join(home('lost'), 'data'))).status > 0);
    writeFileSync(lost, kept);
  });

  test('D9: neither over a service\'s data, nor into a folder with something in it', async () => {
    const before_ = sha256(readFileSync(join(g.dir, 'data/admin.key')));
    assert.ok((await restore(join(out, 'b0'), join(g.dir, 'data'))).status > 0);
    assert.equal(sha256(readFileSync(join(g.dir, 'data/admin.key'))), before_);
    const full = home('full');
    mkdirSync(join(full, 'data'));
    writeFileSync(join(full, 'data/mine'), 'mine');
    assert.ok((await restore(join(out, 'b0'), join(full, 'data'))).status > 0);
    assert.deepEqual(readdirSync(join(full, 'data')), ['mine']);
    const done = await backup(join(full, 'data'));
    assert.equal(done.event, 'error');
    assert.deepEqual(readdirSync(join(full, 'data')), ['mine']);
    await sound(g);
  });
});
