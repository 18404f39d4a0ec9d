// SPDX-License-Identifier: Apache-2.0
// Host mounts and the service: a file system that an administrator unmounts
// on the host is unmounted in the service's processes too, and nothing that
// the host mounts later appears in a session. The mounts lie below a shared
// mount of this test's own, so that the host's propagation does not matter.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Glovebox, onGvisor, pool } from '../lib/glovebox.mjs';

const run = (...args) => {
  const done = spawnSync(args[0], args.slice(1), { encoding: 'utf8' });
  assert.equal(done.status, 0, `${args.join(' ')}: ${done.stderr}`);
};
const tmpfs = (at) => run('mount', '-t', 'tmpfs', '-o', 'size=1m', 'glovebox-test', at);
// A process of a deleted session may end just now; then it has no mounts.
const mountinfo = (pid) => {
  try {
    return readFileSync(`/proc/${pid}/mountinfo`, 'utf8');
  } catch (error) {
    if (['ENOENT', 'EINVAL', 'ESRCH'].includes(error.code)) return '';
    throw error;
  }
};

let server;
let top;
let home;
let early;
let late;

before(async () => {
  top = mkdtempSync(join(tmpdir(), 'glovebox-mounts-'));
  tmpfs(top);
  run('mount', '--make-shared', top);
  early = join(top, 'early');
  late = join(top, 'late');
  mkdirSync(early);
  mkdirSync(late);
  tmpfs(early);
  // The data directory lies on a shared mount too, as on most hosts.
  home = mkdtempSync(join(tmpdir(), 'glovebox-test-'));
  run('mount', '--bind', home, home);
  run('mount', '--make-shared', home);
  server = await Glovebox.start({ dir: home, config: { pools: [pool({ ready: 0 })] } });
});

after(async () => {
  await server?.stop({ keep: true });
  for (const at of [top, home].filter(Boolean)) {
    spawnSync('umount', ['-R', '-l', at]);
    rmSync(at, { recursive: true, force: true });
  }
});

const serviceProcesses = () => [server.pid, server.processes().warden, ...server.zygotes().map(({ pid }) => pid),
  ...server.sessionProcesses().map(({ pid }) => pid)];

test('R7: a file system that was mounted before the start can be unmounted, and no process of the service keeps it', async () => {
  const session = await server.session();
  await session.out('1');
  assert.ok(mountinfo(server.processes().warden).includes(early), 'the warden has a copy of it');
  run('umount', early);
  for (const pid of serviceProcesses())
    assert.ok(!mountinfo(pid).includes(early), `process ${pid} keeps ${early}`);
  await session.delete();
});

test('C1: what the host mounts later appears in no session and no zygote', async () => {
  const session = await server.session();
  await session.out('open("/mnt/data/mine", "w").write("x")');
  tmpfs(late);
  writeFileSync(join(late, 'secret'), 'of the host');
  for (const { pid } of [...server.zygotes(), ...server.sessionProcesses()])
    assert.ok(!mountinfo(pid).includes(late) && !mountinfo(pid).includes('/late '), `process ${pid} sees ${late}`);
  assert.ok(mountinfo(server.pid).includes(late), 'the host has it');
  run('umount', late);
  await session.delete();
});

test('C1: a mount below a folder of the service does not reach the session that has it as a layer', async () => {
  const workspace = await server.ok('POST', '/api/workspaces', { name: 'layers' });
  const first = await server.session({ workspace: workspace.id });
  await first.python('import os; os.makedirs("/mnt/data/folder", exist_ok=True); open("/mnt/data/folder/file", "w").write("kept")');
  await first.delete();
  const session = await server.session({ workspace: workspace.id });
  assert.equal(await session.out('print(open("/mnt/data/folder/file").read())'), 'kept');
  const found = spawnSync('find', [join(server.dir, 'data'), '-type', 'd', '-name', 'folder'], { encoding: 'utf8' }).stdout.trim().split('\n').filter(Boolean);
  assert.ok(found.length > 0, 'the layer is a folder of the data directory');
  for (const at of found) tmpfs(at);
  try {
    assert.equal(await session.out('print(open("/mnt/data/folder/file").read())'), 'kept');
    const inside = await session.out('print(open("/proc/self/mountinfo").read())');
    assert.ok(!inside.includes('glovebox-test'), inside);
    // The supervisor of a guest also has the checkpoint of the service mounted.
    const lines = (pid) => mountinfo(pid).split('\n').filter((l) => l.includes('glovebox-test') && !(onGvisor && /\/scratch\/checkpoint-\d+ \/checkpoint ro/.test(l)));
    for (const { pid } of server.sessionProcesses()) assert.deepEqual(lines(pid), [], `process ${pid}`);
  } finally {
    for (const at of found) run('umount', at);
  }
  await session.delete();
});
