// SPDX-License-Identifier: Apache-2.0
// A data directory whose parts do not belong together: the database missing,
// empty, another's, or older than the audit trail. The service refuses to
// start, says what it found and what to do, and changes nothing; put right, it
// serves everything again.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { Ledger, sha256, sound, verify } from '../../lib/ledger.mjs';

const config = { stop_deadline_s: 1, collect_every_s: 1, restore_window_s: 0, scrub_bytes_per_s: 0,
  pools: [pool({ ready: 0, scratch_bytes: '32MiB', scratch_inodes: 2000 })] };
const KEYS = ['admin.key', 'auth.secret', 'audit.secret', 'audit.sign.key', 'vault.key'];
const DATABASE = ['glovebox.db', 'glovebox.db-wal'];
const EPHEMERAL = ['lock', 'glovebox.lock', 'scratch', 'endpoint'];

let home;
before(() => {
  home = mkdtempSync(join(tmpdir(), 'glovebox-store-'));
  chmodSync(home, 0o755); // the service's account must get through
});
after(() => rmSync(home, { recursive: true, force: true }));

const data = (dir, ...path) => join(dir, 'data', ...path);

// Every file that must not change, with its hash. An empty log is none.
function snapshot(dir) {
  const files = {};
  for (const name of readdirSync(data(dir), { recursive: true })) {
    if (EPHEMERAL.includes(name.split('/')[0])) continue;
    const path = data(dir, name);
    if (statSync(path).isFile() && (statSync(path).size > 0 || name !== DATABASE[1])) files[name] = sha256(readFileSync(path));
  }
  return files;
}

// As another program would, on a database that nobody has open.
function sql(path, text) {
  const done = spawnSync('/usr/bin/python3', ['-c', 'import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.executescript(sys.argv[2]); d.close()', path, text],
    { encoding: 'utf8' });
  assert.equal(done.status, 0, done.stderr);
}

const blobs = (dir) => Object.keys(snapshot(dir)).filter((name) => /^blobs\/..\/[0-9a-f]{64}$/.test(name));

// A service with some files, ended: `how` is 'SIGKILL' or 'SIGTERM'. Large
// ones are blobs at once, small ones are in the log of small objects.
async function used(how, count = 12) {
  const dir = mkdtempSync(join(home, 'd-'));
  const g = await Glovebox.start({ dir, config });
  const ledger = new Ledger((await g.ok('POST', '/api/workspaces', { name: 'store' })).id);
  for (let i = 0; i < count; i++) await ledger.put(g, `f${i}`, randomBytes(i % 2 ? 100 : 90_000));
  assert.equal(ledger.acknowledged, count);
  g.child.kill(how);
  await g.exited;
  return { dir, ledger };
}

// It ends by itself, with those words, and has changed nothing.
async function refused(dir, words, { args = [], same = true } = {}) {
  const was = snapshot(dir);
  const g = await Glovebox.start({ dir, config, args, wait: false });
  await until(() => g.exit, { ms: 20_000, what: 'its end' });
  assert.ok(g.exit.code > 0, JSON.stringify(g.exit));
  assert.match(g.log, words);
  assert.match(g.log, /Nothing was changed/);
  assert.ok(!existsSync(data(dir, 'endpoint')));
  if (same) assert.deepEqual(snapshot(dir), was);
  return g.log;
}

async function whole(dir, ledger, args = []) {
  const g = await Glovebox.start({ dir, config, args });
  await ledger.settle(g);
  await sound(g);
  await g.stop({ keep: true });
}

describe('D11 a data directory without its database', () => {
  for (const how of ['SIGKILL', 'SIGTERM'])
    test(`D11: the database is missing after ${how}`, { timeout: 60_000 }, async () => {
      const { dir, ledger } = await used(how);
      const away = mkdtempSync(join(home, 'away-'));
      const there = DATABASE.filter((name) => existsSync(data(dir, name)));
      for (const name of there) renameSync(data(dir, name), join(away, name));
      const log = await refused(dir, /glovebox\.db is missing/);
      assert.match(log, /blobs.*audit\.secret.*admin\.key/);
      assert.match(log, /glovebox restore.*empty directory/);
      await refused(dir, /glovebox\.db is missing/);
      assert.ok(blobs(dir).length >= 6);
      for (const name of there) renameSync(join(away, name), data(dir, name));
      await whole(dir, ledger);
    });

  test('D11: only the log of a young store is missing', { timeout: 60_000 }, async () => {
    const { dir, ledger } = await used('SIGKILL');
    renameSync(data(dir, DATABASE[1]), data(dir, 'kept-wal'));
    await refused(dir, /glovebox\.db-wal is missing/);
    rmSync(data(dir, DATABASE[1]), { force: true });
    renameSync(data(dir, 'kept-wal'), data(dir, DATABASE[1]));
    await whole(dir, ledger);
  });

  test('D11: only the database is missing, and its log is not thrown away', { timeout: 60_000 }, async () => {
    const { dir, ledger } = await used('SIGKILL');
    renameSync(data(dir, DATABASE[0]), data(dir, 'kept-db'));
    await refused(dir, /glovebox\.db is missing/);
    renameSync(data(dir, 'kept-db'), data(dir, DATABASE[0]));
    await whole(dir, ledger);
  });

  test('D11: the database was replaced by an empty one', { timeout: 60_000 }, async () => {
    const { dir, ledger } = await used('SIGTERM');
    const kept = readFileSync(data(dir, DATABASE[0]));
    writeFileSync(data(dir, DATABASE[0]), '');
    await refused(dir, /no content/);
    const other = join(home, 'empty.db');
    sql(other, 'CREATE TABLE x (a); DROP TABLE x; PRAGMA user_version = 1');
    writeFileSync(data(dir, DATABASE[0]), readFileSync(other));
    await refused(dir, /it is empty/, { same: false }); // it becomes one with a log
    for (const name of KEYS) assert.ok(existsSync(data(dir, name)));
    rmSync(data(dir, DATABASE[1]), { force: true });
    writeFileSync(data(dir, DATABASE[0]), kept);
    await whole(dir, ledger);
  });

  test('D11: the database is that of another data directory', { timeout: 60_000 }, async () => {
    const [a, b] = await Promise.all([used('SIGTERM'), used('SIGTERM')]);
    const kept = readFileSync(data(a.dir, DATABASE[0]));
    writeFileSync(data(a.dir, DATABASE[0]), readFileSync(data(b.dir, DATABASE[0])));
    const log = await refused(a.dir, /database of another data directory/);
    assert.doesNotMatch(log, /accept-loss/);
    writeFileSync(data(a.dir, DATABASE[0]), kept);
    await whole(a.dir, a.ledger);
  });

  test('D11: a database that was just made is not served beside old files', { timeout: 60_000 }, async () => {
    const { dir } = await used('SIGTERM');
    const fresh = await used('SIGTERM', 0);
    writeFileSync(data(dir, DATABASE[0]), readFileSync(data(fresh.dir, DATABASE[0])));
    await refused(dir, /database of another data directory/);
    rmSync(data(dir, 'audit.head')); // as in a directory of 0.1.0
    await refused(dir, /audit\.head is missing|audit\.secret/);
    assert.ok(blobs(dir).length >= 6);
  });
});

describe('D11 a database that is older than its trail', () => {
  test('D11: the log was cut in half after a kill', { timeout: 120_000 }, async (t) => {
    const { dir, ledger } = await used('SIGKILL', 36);
    const wal = data(dir, DATABASE[1]);
    const kept = readFileSync(wal);
    const keys = KEYS.map((name) => readFileSync(data(dir, name), 'utf8'));
    for (const part of [0.1, 0.3, 0.5, 0.7, 0.9, 0.99]) {
      writeFileSync(wal, kept.subarray(0, Math.floor(kept.length * part)));
      await refused(dir, /rolled back|is empty|has no id yet/);
    }
    truncateSync(wal, Math.floor(kept.length * 0.7));
    const log = await refused(dir, /ends at event \d+, but audit\.head says that event \d+ was written/);
    const token = /--accept-loss ([0-9a-f]{16})/.exec(log)[1];
    await refused(dir, /rolled back/, { args: ['--accept-loss', token.replace(/./, (c) => (c === '0' ? '1' : '0'))] });

    // An operator accepts it: that is an event, and stays told.
    const g = await Glovebox.start({ dir, config, args: ['--accept-loss', token] });
    const events = (await g.ok('GET', '/api/audit?action=audit.accept')).data;
    assert.equal(events.length, 1);
    assert.match(events[0].detail, /the database was rolled back; events known to be missing: [1-9]/);
    const there = await ledger.listed(g);
    const report = await g.ok('POST', '/api/audit/verify');
    assert.equal(report.ok, true, JSON.stringify(report));
    assert.ok(report.lost > 0);
    assert.equal((await verify(g)).lost, report.lost);
    t.diagnostic(`${36 - there.size} of 36 acknowledged files were lost with ${report.lost} events, and told`);
    assert.ok(there.size < 36);
    assert.deepEqual(KEYS.map((name) => readFileSync(data(dir, name), 'utf8')), keys);
    await g.stop({ keep: true });

    // Left in a configuration it accepts nothing more.
    const h = await Glovebox.start({ dir, config, args: ['--accept-loss', token] });
    assert.equal((await h.ok('GET', '/api/audit?action=audit.accept')).data.length, 1);
    await h.stop({ keep: true });
  });

  test('D11: an older copy of the whole database was put in its place', { timeout: 60_000 }, async () => {
    const { dir, ledger } = await used('SIGTERM');
    const kept = readFileSync(data(dir, DATABASE[0]));
    const g = await Glovebox.start({ dir, config });
    for (let i = 0; i < 3; i++) await ledger.put(g, `more${i}`, randomBytes(1000));
    g.child.kill('SIGTERM');
    await g.exited;
    const now = readFileSync(data(dir, DATABASE[0]));
    writeFileSync(data(dir, DATABASE[0]), kept);
    await refused(dir, /rolled back/);
    writeFileSync(data(dir, DATABASE[0]), now);
    await whole(dir, ledger);
  });

  test('D11: a head that is older than the database is no alarm', { timeout: 60_000 }, async () => {
    const { dir, ledger } = await used('SIGTERM');
    const kept = readFileSync(data(dir, 'audit.head'));
    const g = await Glovebox.start({ dir, config });
    for (let i = 0; i < 3; i++) await ledger.put(g, `more${i}`, randomBytes(1000));
    g.child.kill('SIGKILL');
    await g.exited;
    writeFileSync(data(dir, 'audit.head'), kept);
    await whole(dir, ledger);
  });

  test('D11: a head that is missing or damaged is refused until an operator accepts it', { timeout: 60_000 }, async () => {
    const { dir, ledger } = await used('SIGTERM');
    for (const [act, words] of [[() => rmSync(data(dir, 'audit.head')), /audit\.head is missing/],
      [() => writeFileSync(data(dir, 'audit.head'), randomBytes(12288)), /audit\.head is damaged/]]) {
      act();
      const log = await refused(dir, words);
      await whole(dir, ledger, ['--accept-loss', /--accept-loss ([0-9a-f]{16})/.exec(log)[1]]);
      await whole(dir, ledger);
    }
  });
});

describe('D11 while the trail is damaged', () => {
  test('D11: nothing is collected until an operator accepts it', { timeout: 60_000 }, async () => {
    const { dir, ledger } = await used('SIGTERM');
    sql(data(dir, DATABASE[0]), 'UPDATE audit_head SET seal = zeroblob(32); DELETE FROM versions');
    const count = blobs(dir).length;
    assert.ok(count >= 6);
    spawnSync('find', [data(dir, 'blobs'), '-type', 'f', '-exec', 'touch', '-d', '1 hour ago', '{}', '+']);
    let g = await Glovebox.start({ dir, config });
    for (let i = 0; i < 3; i++) {
      const answer = await g.call('POST', '/api/collect');
      assert.equal(answer.status, 500);
      assert.match(answer.text, /audit trail is damaged, so nothing is removed/);
    }
    await until(() => /collection_failed/.test(g.log), { what: 'the round of the collector' });
    assert.equal(blobs(dir).length, count);
    const token = /--accept-loss ([0-9a-f]{16})/.exec((await g.call('POST', '/api/collect')).text)[1];
    await g.stop({ keep: true });
    g = await Glovebox.start({ dir, config, args: ['--accept-loss', token] });
    assert.equal((await g.call('POST', '/api/collect')).status, 200);
    await g.stop({ keep: true });
    assert.ok(ledger);
  });
});
