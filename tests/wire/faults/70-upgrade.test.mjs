// SPDX-License-Identifier: Apache-2.0
// A data directory that version 0.1.0 wrote (tests/fixtures/data-0.1.0.tar.gz;
// the .json beside it lists what is in it): this version starts on it, and
// everything is there. A newer one's directory is refused.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, Session, bin, pool, root } from '../../lib/glovebox.mjs';
import { Stream } from '../../lib/wire.mjs';

const fixture = JSON.parse(readFileSync(join(root, 'tests/fixtures/data-0.1.0.json')));
const config = { pools: [pool({ ready: 0 })], scrub_bytes_per_s: 0 };
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

function unpack() {
  const dir = mkdtempSync(join(tmpdir(), 'glovebox-upgrade-'));
  chmodSync(dir, 0o755);
  const done = spawnSync('tar', ['-xzf', join(root, 'tests/fixtures/data-0.1.0.tar.gz'), '-C', dir, '--no-same-owner'], { encoding: 'utf8' });
  assert.equal(done.status, 0, done.stderr);
  if (process.getuid() === 0)
    assert.equal(spawnSync('chown', ['-R', 'glovebox:glovebox', join(dir, 'data')]).status, 0);
  return dir;
}

// SQL on the database of a service that is stopped.
function sql(dir, statement) {
  const done = spawnSync('/usr/bin/python3', ['-c', 'import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); print(c.execute(sys.argv[2]).fetchone()); c.commit()', join(dir, 'data/glovebox.db'), statement], { encoding: 'utf8' });
  assert.equal(done.status, 0, done.stderr);
  if (process.getuid() === 0) spawnSync('chown', ['-R', 'glovebox:glovebox', join(dir, 'data')]);
  return done.stdout.trim();
}

describe('a data directory of 0.1.0', () => {
  let g;
  const dir = unpack();
  before(async () => { g = await Glovebox.start({ dir, config }); });
  after(async () => { await g?.stop(); rmSync(dir, { recursive: true, force: true }); });

  test('this version is another one', () => {
    const version = spawnSync(bin('gloveboxd'), ['--version'], { encoding: 'utf8' }).stdout.trim();
    assert.notEqual(version, 'gloveboxd 0.1.0');
    assert.match(version, /^gloveboxd \d+\.\d+\.\d+$/);
  });

  test('D8 every stored byte is as it was', async () => {
    const stream = await Stream.open(g, 'POST', '/api/verify');
    const done = await stream.find((e) => e.event === 'done' || e.event === 'error', 60_000);
    stream.close();
    assert.equal(done.event, 'done');
    assert.deepEqual([done.data.ok, done.data.bad, done.data.missing, done.data.lost], [true, 0, 0, 0]);
    assert.ok(done.data.blobs >= fixture.files.length);
  });

  test('the audit chain continues where 0.1.0 ended', async () => {
    const chain = await g.ok('POST', '/api/audit/verify');
    assert.equal(chain.ok, true, JSON.stringify(chain));
    assert.ok(chain.events >= fixture.audit, `${chain.events} events`);
    const events = (await g.ok('GET', '/api/audit?limit=1000')).data;
    for (const action of ['workspace.create', 'key.create', 'key.revoke', 'share.create'])
      assert.ok(events.some((e) => e.action === action), `${action} is not in ${[...new Set(events.map((e) => e.action))]}`);
  });

  test('files, their ids and versions, and what was deleted', async () => {
    const { data } = await g.ok('GET', `/api/workspaces/${fixture.workspace}/files`);
    assert.deepEqual(data.map((f) => f.path).sort(), fixture.files.map((f) => f.path).sort());
    for (const want of fixture.files) {
      const got = data.find((f) => f.path === want.path);
      assert.deepEqual([got.file_id, got.version, got.number, got.size, got.sha256], [want.file_id, want.version, want.number, want.size, want.sha256]);
      const reply = await fetch(`${g.url}/api/workspaces/${fixture.workspace}/files/${want.path}`, { headers: { authorization: `Bearer ${g.key}` } });
      assert.equal(sha256(Buffer.from(await reply.arrayBuffer())), want.sha256, want.path);
    }
    assert.equal((await g.call('GET', `/api/workspaces/${fixture.workspace}/files/gone.txt`)).status, 404);
    const first = (await g.call('GET', `/api/workspaces/${fixture.workspace}/files/a.txt`)).text;
    assert.equal(first, 'second\n');
  });

  test('the session wakes on its files and takes a new commit', async () => {
    const s = new Session(g, { id: fixture.session });
    assert.equal(await s.out('print(open("/mnt/data/made.txt").read().strip())'), 'made by 0.1.0');
    const e = await s.python('open("/mnt/data/new.txt", "w").write("made after the upgrade")');
    assert.equal(e.outcome, 'ok', JSON.stringify(e));
    assert.equal((await g.call('GET', `/api/workspaces/${fixture.workspace}/files/new.txt`)).text, 'made after the upgrade');
  });

  test('keys, revoked keys, the policy, secrets, evidence and links', async () => {
    const caller = await g.call('GET', '/api/whoami', undefined, { key: fixture.key });
    assert.equal(caller.status, 200, caller.text);
    assert.equal((await g.call('GET', '/api/sessions', undefined, { key: fixture.revoked })).status, 401);
    const policy = await g.ok('GET', '/api/policy');
    assert.match(JSON.stringify(policy), /nothing-goes-out-unasked/);
    const secrets = (await g.ok('GET', '/api/secrets')).data;
    assert.deepEqual(secrets.map((s) => [s.name, s.header]), [['token', 'Authorization']]);
    const evidence = await g.ok('GET', `/api/executions/${fixture.execution}/evidence`);
    assert.match(JSON.stringify(evidence), /"outcome":"ok"/);
    const open = await fetch(g.url + fixture.openShare);
    assert.equal(await open.text(), 'x,y\n1,2\n3,4\n');
    assert.equal((await fetch(g.url + fixture.share)).status, 401);
    const right = await fetch(g.url + fixture.share, { headers: { 'x-share-password': fixture.password } });
    assert.equal(await right.text(), 'second\n');
  });

  test('it starts again on what it migrated', async () => {
    await g.stop({ keep: true });
    g = await Glovebox.start({ dir, config });
    assert.equal((await g.ok('POST', '/api/audit/verify')).ok, true);
  });
});

describe('a downgrade', () => {
  test('is refused before anything is changed, with what to do', async () => {
    const dir = unpack();
    try {
      const known = /\((\d+),\)/.exec(sql(dir, 'SELECT version FROM schema_version'))[1];
      const up = await Glovebox.start({ dir, config });
      await up.stop({ keep: true });
      const now = Number(/\((\d+),\)/.exec(sql(dir, 'SELECT version FROM schema_version'))[1]);
      assert.ok(now > Number(known), `the upgrade changed the schema: ${known} to ${now}`);
      sql(dir, `UPDATE schema_version SET version = ${now + 1}`);
      const file = join(dir, 'data/glovebox.db');
      const before_ = sha256(readFileSync(file));
      const down = await Glovebox.start({ dir, config, wait: false });
      await down.exited;
      assert.equal(down.exit.code, 3);
      assert.match(down.log, new RegExp(`the database has schema ${now + 1}, this program knows up to ${now}`));
      assert.match(down.log, /run the version that wrote it, or a newer one; to go back, restore a backup that was made before the upgrade/);
      assert.equal(sha256(readFileSync(file)), before_, 'nothing was changed');
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });
});
