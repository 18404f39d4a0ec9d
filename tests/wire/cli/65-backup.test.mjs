// SPDX-License-Identifier: Apache-2.0
// Backup, restore and verify by the command line: a round trip into a new
// data directory, progress at a terminal, damage found, exit statuses.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';

const config = { pools: [pool({ ready: 0 })], scrub_bytes_per_s: 0 };
const bytes = randomBytes(3_000_000);
let server;
let cli;
let out; // the service's account writes here

before(async () => {
  server = await Glovebox.start({ config });
  cli = new Cli(server);
  out = mkdtempSync(join(tmpdir(), 'glovebox-backup-'));
  chmodSync(out, 0o777);
  await cli.ok(['workspaces', 'new', 'docs']);
  writeFileSync(join(cli.cwd, 'big.bin'), bytes);
  await cli.ok(['files', 'put', 'big.bin', 'docs:']);
  for (let i = 0; i < 20; i++) {
    writeFileSync(join(cli.cwd, 'f'), `file ${i}`);
    await cli.ok(['files', 'put', 'f', `docs:many/${i}.txt`]);
  }
});

after(async () => {
  cli?.close();
  await server?.stop();
  if (out) rmSync(out, { recursive: true, force: true });
});

test('D9 backup, restore, serve: the same files, the same ids, verified', async () => {
  const dir = join(out, 'one');
  // Without the address of the service, which differs.
  const listed = async (more) => (await cli.json(['files', 'ls', 'docs:'], more)).map((file) => ({ ...file, url: new URL(file.url).pathname }));
  const before_ = await listed();
  assert.deepEqual(await cli.json(['backup', dir]), { path: dir });
  const data = join(out, 'restored/data');
  mkdirSync(join(out, 'restored'), { mode: 0o777 });
  chmodSync(join(out, 'restored'), 0o777);
  const done = await cli.json(['restore', dir, '--data', data]);
  assert.deepEqual(done, { restored: dir, data });
  const second = await Glovebox.start({ dir: join(out, 'restored'), config });
  try {
    const theirs = { env: { GLOVEBOX_URL: second.url } };
    assert.deepEqual(await listed(theirs), before_);
    await cli.ok(['files', 'get', 'docs:big.bin', 'back.bin'], theirs);
    assert.ok(bytes.equals(readFileSync(join(cli.cwd, 'back.bin'))));
    assert.equal((await cli.json(['verify'], theirs)).ok, true);
    assert.equal((await cli.json(['audit', 'verify'], theirs)).ok, true);
  } finally {
    await second.stop();
  }
});

test('a relative folder is the caller\'s, and a full one is refused', async () => {
  const dir = join(out, 'two');
  mkdirSync(dir);
  chmodSync(dir, 0o777);
  await cli.ok(['backup', 'here'], { cwd: dir });
  assert.ok(existsSync(join(dir, 'here')));
  const error = await cli.error(['backup', 'here'], { cwd: dir });
  assert.match(error.code, /^(conflict|invalid_request)$/);
});

test('a folder that cannot be made is the caller\'s to mend, and said so', async () => {
  const closed = join(out, 'closed');
  mkdirSync(closed, { mode: 0o700 });
  for (const [dir, why] of [[join(closed, 'x'), /Permission denied/], [join(out, 'no/such/parent'), /No such file/]]) {
    const error = await cli.error(['backup', dir]);
    assert.equal(error.code, 'invalid_request');
    assert.match(error.message, why);
    assert.ok(!existsSync(dir));
  }
});

test('a restore of what is no backup, or over something, changes nothing', async () => {
  const empty = join(out, 'empty');
  mkdirSync(empty);
  const into = join(out, 'never');
  assert.match((await cli.exits(3, ['restore', empty, '--data', into])).stderr, /not restored/);
  assert.match((await cli.exits(3, ['restore', join(out, 'absent'), '--data', into])).stderr, /cannot open/);
  assert.match((await cli.exits(3, ['restore', join(out, 'one'), '--data', join(server.dir, 'data')])).stderr, /not restored/);
  assert.equal((await cli.json(['verify'])).ok, true);
});

test('progress at a terminal, one JSON value in a pipe', async () => {
  const shown = await cli.ok(['verify'], { terminal: true });
  assert.match(shown.stdout, /\d+ objects, .*: every byte is as it was stored/);
  const report = await cli.json(['verify']);
  assert.deepEqual([report.ok, report.bad, report.missing], [true, 0, 0]);
  assert.ok(report.blobs >= 21 && report.bytes >= bytes.length);
});

test('D8 verify: a flipped bit is found, named, and ends with 1', async () => {
  const blobs = join(server.dir, 'data/blobs');
  const paths = readdirSync(blobs, { recursive: true, withFileTypes: true })
    .filter((e) => e.isFile() && /^[0-9a-f]{64}$/.test(e.name)).map((e) => join(e.parentPath ?? e.path, e.name));
  const victim = paths.find((p) => readFileSync(p).length === bytes.length);
  const damaged = readFileSync(victim);
  damaged[1234] ^= 1;
  chmodSync(victim, 0o644);
  writeFileSync(victim, damaged);
  const report = await cli.json(['verify'], { status: 1 });
  assert.deepEqual([report.ok, report.bad, report.first_bad], [false, 1, victim.split('/').at(-1)]);
  assert.match((await cli.exits(1, ['verify'])).stdout, /1 damaged, 0 missing\nfirst: [0-9a-f]{64}/);
  assert.equal((await cli.error(['files', 'get', 'docs:big.bin', '-o', 'never.bin'])).code, 'corrupt');
  assert.ok(!existsSync(join(cli.cwd, 'never.bin')));
});
