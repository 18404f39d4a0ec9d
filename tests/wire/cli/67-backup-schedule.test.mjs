// SPDX-License-Identifier: Apache-2.0
// Encrypted backups by a schedule: made, kept, restored; a wrong key, damage,
// a full disk, a folder that cannot be written, a restart and a kill.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync, writeSync } from 'node:fs';
import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';

const bytes = randomBytes(300_000);
const out = mkdtempSync(join(tmpdir(), 'glovebox-sealed-'));
const folder = join(out, 'backups');
const keyFile = join(out, 'the.key');
const config = { pools: [pool({ ready: 0 })], scrub_bytes_per_s: 0, backup_dir: folder, backup_key_file: keyFile };
const uid = Number(spawnSync('id', ['-u', 'glovebox'], { encoding: 'utf8' }).stdout);
let server;
let cli;

const own = (path, mode) => { if (process.getuid() === 0) chownSync(path, uid, uid); chmodSync(path, mode); };
const backups = (dir = folder) => readdirSync(dir).filter((name) => name.endsWith('.backup')).sort();
const status = () => server.ok('GET', '/api/backups/schedule');
const settled = () => until(async () => { const s = await status(); return !s.running && s.last_attempt_at && s; }, { ms: 30_000, what: 'a backup' });
async function metric(name) {
  const text = (await server.call('GET', '/metrics')).text;
  return Number(new RegExp(`^${name.replace(/[{}"]/g, '\\$&')} (\\S+)$`, 'm').exec(text)[1]);
}

before(async () => {
  chmodSync(out, 0o755);
  mkdirSync(folder);
  own(folder, 0o700);
  writeFileSync(keyFile, 'a passphrase of many words\n');
  own(keyFile, 0o600);
  server = await Glovebox.start({ config });
  cli = new Cli(server);
  await cli.ok(['workspaces', 'new', 'docs']);
  writeFileSync(join(cli.cwd, 'big.bin'), bytes);
  await cli.ok(['files', 'put', 'big.bin', 'docs:']);
});

after(async () => {
  cli?.close();
  await server?.stop();
  rmSync(out, { recursive: true, force: true });
});

describe('a schedule', () => {
  test('there is none at first', async () => {
    const s = await status();
    assert.deepEqual([s.every_s, s.next_at, s.last_success_at, s.kept, s.directory, s.key_file], [0, null, null, 0, folder, keyFile]);
    assert.match((await cli.ok(['backup', '--status'])).stdout, /^schedule {2}none$/m);
  });

  test('limits: every 60 s to 366 d, keep 1 to 1000', async () => {
    for (const [body, code] of [[{ every_s: 59 }, 400], [{ every_s: -1 }, 400], [{ every_s: 366 * 86400 + 1 }, 400], [{ every_s: 60, keep: 0 }, 400], [{ every_s: 60, keep: 1001 }, 400], [{}, 400], [{ every_s: '60' }, 400], [{ every_s: 60, dir: '/x' }, 400]])
      assert.equal((await server.call('PUT', '/api/backups/schedule', body)).status, code, JSON.stringify(body));
    assert.equal((await status()).every_s, 0, 'nothing was set');
    await cli.exits(2, ['backup', '--every', 'often']);
    await cli.exits(2, ['backup', '--keep', '3']);
    await cli.exits(2, ['backup', '/somewhere', '--every', '24h']);
  });

  test('D9 --every 24h --keep 2 makes one at once, sealed, and says when the next comes', async () => {
    const said = await cli.ok(['backup', '--every', '24h', '--keep', '2']);
    assert.match(said.stdout, /every 24 h|every 1 d/);
    assert.match(said.stdout, /Keep a copy of the key elsewhere/);
    const s = await settled();
    assert.deepEqual([s.every_s, s.keep, s.failures, s.error, s.kept], [86400, 2, 0, null, 1]);
    const next = Date.parse(s.next_at) - Date.parse(s.last_success_at);
    assert.equal(next, 86_400_000);
    const [name] = backups();
    assert.equal(name, s.name);
    const file = join(folder, name);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    const raw = readFileSync(file);
    assert.equal(raw.length, s.bytes);
    assert.equal(raw.subarray(0, 16).toString(), 'GLOVEBOX BACKUP\n');
    assert.ok(!raw.includes(bytes.subarray(1000, 1064)) && !raw.includes('SQLite format'), 'nothing of it is readable');
    assert.ok(!existsSync(join(server.dir, 'data/backup.work')), 'the plain copy of the database is gone');
    assert.equal(await metric('glovebox_backup_interval_seconds'), 86400);
    assert.equal(await metric('glovebox_backup_failures'), 0);
    assert.equal(await metric('glovebox_backups_total{result="ok"}'), 1);
    assert.ok(Math.abs(await metric('glovebox_backup_last_success_timestamp_seconds') - Date.now() / 1000) < 60);
    const events = await server.ok('GET', '/api/audit?limit=1000');
    assert.ok(events.data.some((e) => e.action === 'storage.backup' && e.path === name), 'in the audit trail');
  });

  test('more than --keep: the oldest go, foreign and unfinished files are told apart', async () => {
    writeFileSync(join(folder, 'glovebox-20200101T000000Z.backup'), 'old');
    writeFileSync(join(folder, 'glovebox-20200101T000000Z.backup.partial'), 'never finished');
    writeFileSync(join(folder, 'glovebox-notes.backup'), 'not ours');
    const made = await cli.json(['backup']);
    assert.ok(existsSync(join(folder, made.name)));
    assert.deepEqual(readdirSync(folder).sort(), [...new Set([...backups(), 'glovebox-notes.backup'])].sort(), 'no partial is left');
    assert.equal(backups().filter((n) => n !== 'glovebox-notes.backup').length, 2);
    assert.ok(!existsSync(join(folder, 'glovebox-20200101T000000Z.backup')));
  });

  test('a restart keeps the schedule and does not repeat the backup', async () => {
    const before_ = await status();
    await server.stop({ keep: true });
    server = await Glovebox.start({ config, dir: server.dir });
    cli.close();
    cli = new Cli(server);
    const s = await status();
    assert.deepEqual([s.every_s, s.keep, s.name, s.last_success_at, s.next_at], [before_.every_s, before_.keep, before_.name, before_.last_success_at, before_.next_at]);
    assert.equal(s.kept, 2);
    assert.equal(s.running, false);
  });
});

describe('a restore', () => {
  const into = (name) => { const dir = join(out, name); mkdirSync(dir); chmodSync(dir, 0o777); return dir; };

  test('D9 gives the same files and keys back, and no schedule', async () => {
    const dir = into('restored');
    const file = join(folder, backups().filter((n) => /\d{8}T/.test(n)).at(-1));
    await cli.json(['restore', file, '--backup-key', keyFile, '--data', join(dir, 'data')]);
    const second = await Glovebox.start({ dir, config: { ...config, backup_dir: join(dir, 'other') } });
    try {
      assert.equal(second.key, server.key);
      const theirs = { env: { GLOVEBOX_URL: second.url } };
      await cli.ok(['files', 'get', 'docs:big.bin', 'back.bin'], theirs);
      assert.ok(bytes.equals(readFileSync(join(cli.cwd, 'back.bin'))));
      assert.equal((await cli.json(['verify'], theirs)).ok, true);
      assert.equal((await cli.json(['audit', 'verify'], theirs)).ok, true);
      assert.equal((await second.ok('GET', '/api/backups/schedule')).every_s, 0, 'a copy does not replace the original\'s backups');
    } finally {
      await second.stop();
    }
  });

  test('not without the key, with another key, or from what is not whole', async () => {
    const file = join(folder, backups().filter((n) => /\d{8}T/.test(n)).at(-1));
    const whole = readFileSync(file);
    const dir = into('never');
    const wrong = join(out, 'wrong.key');
    writeFileSync(wrong, 'another passphrase of words\n', { mode: 0o600 });
    const bad = join(out, 'bad.backup');
    const fails = async (why, from, key) => {
      const said = await cli.exits(3, ['restore', from, ...(key ? ['--backup-key', key] : []), '--data', join(dir, 'data')]);
      assert.match(said.stderr, why);
      assert.ok(!existsSync(join(dir, 'data', 'glovebox.db')), 'nothing that could be served');
    };
    await fails(/is encrypted.*[^]*--backup-key/, file);
    await fails(/another key, or is damaged/, file, wrong);
    for (const [what, change, why] of [
      ['a flipped bit', (b) => { b[b.length >> 1] ^= 1; return b; }, /damaged or was cut/],
      ['a flipped bit of the header', (b) => { b[30] ^= 1; return b; }, /another key, or is damaged/],
      ['the last chunk cut', (b) => b.subarray(0, 64 + 65552 * Math.floor((b.length - 65) / 65552)), /damaged|cut/],
      ['half of it', (b) => b.subarray(0, b.length >> 1), /damaged|cut/],
      ['two chunks exchanged', (b) => Buffer.concat([b.subarray(0, 64), b.subarray(64 + 65552, 64 + 2 * 65552), b.subarray(64, 64 + 65552), b.subarray(64 + 2 * 65552)]), /damaged/],
      ['a byte more', (b) => Buffer.concat([b, Buffer.from('x')]), /damaged/],
      ['a newer format', (b) => { b[19] = 2; return b; }, /has format 2, this program knows 1/],
      ['something else', () => Buffer.from('x'.repeat(100)), /not a backup/],
      ['nothing', () => Buffer.alloc(0), /not a backup/],
    ]) {
      writeFileSync(bad, change(Buffer.from(whole)));
      chmodSync(bad, 0o644);
      await fails(why, bad, keyFile).catch((error) => { throw new Error(`${what}: ${error.message}`, { cause: error }); });
    }
    writeFileSync(wrong, 'short');
    await fails(/16 to 4096 bytes/, file, wrong);
    writeFileSync(wrong, 'x'.repeat(64));
    chmodSync(wrong, 0o644);
    await fails(/every user of this machine has rights on it/, file, wrong);
  });
});

describe('a failure', () => {
  test('of the folder: reported, older backups stay, and --status ends with 1', async () => {
    const kept = backups();
    rmSync(keyFile);
    assert.equal((await cli.error(['backup'])).code, 'invalid_request');
    const s = await status();
    assert.equal(s.failures, 1);
    assert.match(s.error, /cannot open the key file/);
    assert.equal(Date.parse(s.next_at) - Date.parse(s.last_attempt_at), 900_000, 'tried again after 15 minutes');
    assert.equal(await metric('glovebox_backup_failures'), 1);
    assert.equal(await metric('glovebox_backups_total{result="failed"}'), 1);
    assert.match((await cli.exits(1, ['backup', '--status'])).stdout, /^failed {4}1 time since: cannot open the key file/m);
    assert.deepEqual(backups(), kept);
    assert.equal((await fetch(`${server.url}/readyz`)).status, 200, 'it serves on');
    writeFileSync(keyFile, 'a passphrase of many words\n');
    own(keyFile, 0o600);
    await cli.ok(['backup']);
    assert.equal((await status()).failures, 0);
  });

  test('D5 of a full disk: refused before it begins, or undone; older backups stay', { skip: process.getuid() !== 0 && 'needs root to mount' }, async () => {
    const disk = join(out, 'disk');
    mkdirSync(disk);
    assert.equal(spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', disk]).status, 0);
    const dir = join(out, 'small');
    mkdirSync(dir);
    chmodSync(dir, 0o755);
    const small = await Glovebox.start({ dir, config: { ...config, backup_dir: disk } });
    try {
      own(disk, 0o700);
      writeFileSync(join(disk, 'glovebox-20200101T000000Z.backup'), 'old');
      const fd = openSync(join(disk, 'filler'), 'w');
      writeSync(fd, Buffer.alloc(1_200_000));
      closeSync(fd);
      const reply = await small.call('PUT', '/api/backups/schedule', { every_s: 3600, keep: 1 });
      assert.equal(reply.status, 200, reply.text);
      const s = await until(async () => { const now = await small.ok('GET', '/api/backups/schedule'); return now.failures && now; }, { ms: 30_000, what: 'a failure' });
      assert.match(s.error, /no room/);
      assert.deepEqual(readdirSync(disk).sort(), ['filler', 'glovebox-20200101T000000Z.backup'], 'the old one stays, nothing is left of the new one');
      rmSync(join(disk, 'filler'));
      assert.equal((await small.call('PUT', '/api/backups/schedule', { every_s: 0 })).status, 200);
      assert.equal((await small.ok('GET', '/api/backups/schedule')).next_at, null);
    } finally {
      await small.stop();
      spawnSync('umount', [disk]);
    }
  });

  test('a kill leaves a partial file, which the next start removes; it makes the backup', async () => {
    writeFileSync(join(folder, 'glovebox-20210101T000000Z.backup.partial'), 'killed here');
    await server.call('PUT', '/api/backups/schedule', { every_s: 60, keep: 3 });
    server.child.kill('SIGKILL');
    await server.exited;
    const state = join(server.dir, 'data/backup.schedule');
    writeFileSync(state, readFileSync(state, 'utf8').replace(/^(succeeded_ms) .*$/m, '$1 1600000000000'));
    server = await Glovebox.start({ config, dir: server.dir });
    cli.close();
    cli = new Cli(server);
    await until(async () => { const s = await status(); return !s.running && Date.now() - Date.parse(s.last_success_at) < 60_000; }, { ms: 30_000, what: 'the missed backup' });
    assert.ok(!readdirSync(folder).some((n) => n.endsWith('.partial')));
  });

  test('a damaged schedule is refused at the start, with what to do', async () => {
    await server.stop({ keep: true });
    const state = join(server.dir, 'data/backup.schedule');
    const good = readFileSync(state);
    writeFileSync(state, 'nonsense\n');
    const broken = await Glovebox.start({ config, dir: server.dir, wait: false });
    await broken.exited;
    assert.notEqual(broken.exit.code, 0);
    assert.match(broken.log, /backup\.schedule is damaged[^]*glovebox backup --every/);
    writeFileSync(state, good);
    server = await Glovebox.start({ config, dir: server.dir });
  });
});
