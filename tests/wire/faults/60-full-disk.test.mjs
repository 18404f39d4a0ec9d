// SPDX-License-Identifier: Apache-2.0
// A full disk, and one that does not work: a real ext4 of a few hundred MiB
// under the data directory. Reading and deleting go on, what would store
// anything is refused with 507, the service starts on a disk without a free
// byte, and /readyz says why it is not ready.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { spawnSync } from 'node:child_process';
import { Pool } from '../../lib/azure.mjs';
import { smallDisk } from '../../lib/disk.mjs';
import { armFault, disarm, faultEnv } from '../../lib/faults.mjs';
import { Glovebox, bin, pool, until } from '../../lib/glovebox.mjs';
import { Ledger, ready, restarted, sha256, sound } from '../../lib/ledger.mjs';
import { modern, response } from '../../lib/mcp.mjs';
import { refused } from '../../lib/wire.mjs';

const MIB = 1 << 20;
const KEPT = 64 * MIB;
const config = { stop_deadline_s: 1, collect_every_s: 86400, scrub_bytes_per_s: 0, restore_window_s: 86400,
  disk_free_bytes: KEPT, disk_reserve_bytes: '48MiB', pools: [pool({ ready: 1, scratch_bytes: '16MiB', scratch_inodes: 1000 })] };

const readyz = (g) => g.call('GET', '/readyz', undefined, { key: null });
const mode = async (g) => /^glovebox_disk_mode\{mode="(\w+)"\} 1$/m.exec((await g.call('GET', '/metrics')).text)[1];
const actions = async (g, action) => (await g.ok('GET', `/api/audit?action=${action}&limit=1000`)).data;
const becomesFull = (g) => until(async () => (await readyz(g)).status === 503, { what: 'readyz 503' });
const put = (g, at, name, bytes) => at.put(g, name, bytes);

// Everything new is refused, at every door, with a hint that names what helps.
async function refusesNewWork(g, ledger, session) {
  const tries = [
    ['PUT', ledger.files('new.bin'), 'x', { raw: true }], ['POST', '/api/sessions', {}], ['POST', '/api/run', { code: '1' }],
    ['POST', `/api/sessions/${session}/executions`, { code: '1' }], ['PUT', `/api/sessions/${session}/files/x`, 'x', { raw: true }],
    ['POST', '/api/workspaces', { name: 'more' }], ['POST', `/api/workspaces/${ledger.workspace}/uploads`, { path: 'x', size: 1 }],
    ['POST', '/v1/containers', { name: 'x' }],
  ];
  for (const [method, path, body, options] of tries) {
    const answer = await g.call(method, path, body, options);
    assert.equal(answer.status, 507, `${method} ${path}: ${answer.status} ${answer.text}`);
    assert.match(answer.text, /disk is full/);
    if (path.startsWith('/api/')) assert.match(answer.body.error.hint, /workspaces purge/);
  }
  assert.equal((await new Pool(g).run('1')).status, 507);
  const mcp = response(await modern(g, 'tools/call', { name: 'execute_python', arguments: { code: '1' } }, { headers: { 'mcp-name': 'execute_python' } }));
  assert.match(JSON.stringify(mcp), /disk is full/);
}

// A session, and a workspace with files of 1 MiB.
async function begin(disk, files, more = {}) {
  const g = await Glovebox.start({ config: { ...config, ...more.config }, dir: disk.dir, env: more.env });
  const ledger = new Ledger((await g.ok('POST', '/api/workspaces', { name: 'full' })).id);
  const session = await g.session({ workspace: ledger.workspace });
  for (let i = 0; i < files; i++) assert.ok((await put(g, ledger, `d/${i}`, randomBytes(MIB))).status < 300);
  return { g, ledger, session };
}

describe('D12 a disk that uploads have filled', { timeout: 300_000 }, () => {
  let disk, g, ledger, session;
  before(async () => {
    disk = smallDisk({ mib: 320 });
    ({ g, ledger, session } = await begin(disk, 0));
  });
  after(async () => {
    await g?.stop({ keep: true });
    disk?.remove();
  });

  test('D12: uploads stop before the space that is kept, and nothing acknowledged is lost', async () => {
    let last;
    for (let i = 0; i < 320; i++) {
      last = await put(g, ledger, `up/${i}`, randomBytes(MIB));
      if (last.status >= 300) break;
    }
    refused({ ...last, headers: Object.fromEntries(last.headers) }, 507, 'storage_full', /disk is full/);
    assert.ok(ledger.acknowledged > 20, `${ledger.acknowledged} were stored`);
    assert.ok(disk.free() >= KEPT - MIB, `${disk.free()} bytes are left`);
    await ledger.settle(g);
  });

  test('D12: /readyz, the metric, the log and doctor say so', async () => {
    const answer = await readyz(g);
    assert.equal(answer.status, 503);
    assert.match(answer.body.error.message, /^disk: full: \d+ MiB are free, new work needs \d+ MiB; reading and deleting go on$/);
    assert.equal(await mode(g), 'full');
    assert.match(g.log, /disk_full/);
    assert.equal((await g.call('GET', '/healthz')).status, 200);
    const { stdout } = spawnSync(bin('glovebox'), ['doctor', '--json', '--data', disk.data],
      { encoding: 'utf8', env: { PATH: process.env.PATH, GLOVEBOX_DISK_FREE_BYTES: '72MiB' } });
    const row = JSON.parse(stdout).checks.find((c) => c.name === 'disk, data');
    assert.equal(row.state, 'missing');
    assert.match(row.why, /MiB free at .*, of which new work leaves 72 MiB; 48 MiB set aside for deletes; full: reading and deleting only/);
  });

  test('D12: new work is refused at every door', () => refusesNewWork(g, ledger, session.id));

  test('D12: delete and purge free the bytes at once, and work goes on by itself', async () => {
    const before_ = disk.free();
    for (let i = 0; i < 20; i++) assert.equal((await ledger.remove(g, `up/${i}`)).status, 200);
    const done = await g.ok('POST', `/api/workspaces/${ledger.workspace}/purge`, { path: 'up' });
    assert.deepEqual([done.versions, done.blobs, done.bytes], [20, 20, 20 * MIB]);
    assert.ok(disk.free() > before_ + 15 * MIB, `${before_} then ${disk.free()}`);
    await ready(g);
    assert.ok((await put(g, ledger, 'again', randomBytes(MIB))).status < 300);
    assert.equal(await session.out('print(6 * 7)'), '42');
    assert.equal((await actions(g, 'version.purge')).at(-1).detail, '20 versions');
    await ledger.settle(g);
    await sound(g);
  });
});

describe('D12 a disk that another program has filled to the last byte', { timeout: 300_000 }, () => {
  let disk, g, ledger, session;
  before(async () => {
    disk = smallDisk({ mib: 320 });
    ({ g, ledger, session } = await begin(disk, 40));
    disk.fill();
    assert.equal(disk.free(), 0);
    await becomesFull(g);
  });
  after(async () => {
    await g?.stop({ keep: true });
    disk?.remove();
  });

  test('D12: reading, deleting and the audit trail go on although whatever is freed is taken', async () => {
    for (let i = 0; i < 60; i++) {
      const path = `d/${i % 10}`;
      if (i < 10) assert.equal((await ledger.remove(g, path)).status, 200, path);
      else assert.equal((await g.call('GET', ledger.files(`d/${i % 10 + 10}`))).status, 200);
      disk.fill();
    }
    assert.equal(disk.free(), 0);
    assert.equal((await actions(g, 'file.delete')).length, 10);
    await refusesNewWork(g, ledger, session.id);
    assert.equal((await actions(g, 'file.delete')).length, 10);
  });

  test('D12: retention, collection and the end of sessions and workspaces work', async () => {
    const other = await g.ok('GET', `/api/workspaces/${ledger.workspace}`);
    assert.equal(other.files, 30);
    assert.ok(await g.ok('PATCH', `/api/workspaces/${ledger.workspace}`, { retention: { keep_versions: 1 } }));
    await g.ok('POST', '/api/collect');
    assert.equal((await session.delete()).status, 204);
    assert.equal((await actions(g, 'session.delete')).length, 1);
    const report = await g.ok('POST', '/api/audit/verify');
    assert.equal(report.ok, true, JSON.stringify(report));
  });

  for (const [how, end] of [['stopped', () => g.stop({ keep: true })], ['killed', () => { g.child.kill('SIGKILL'); return g.exited; }]])
    test(`D12: ${how} and started without a free byte, it reads and deletes`, async () => {
      disk.fill();
      await end();
      disk.fill();
      assert.equal(disk.free(), 0);
      g = await restarted(g, { config });
      assert.match(g.log, /disk_full/);
      disk.fill();
      const answer = await readyz(g);
      assert.equal(answer.status, 503);
      assert.match(answer.text, /disk: full/);
      await ledger.settle(g, { bytes: (path) => path === 'd/20' });
      const first = [...ledger.paths.keys()][0];
      assert.equal((await ledger.remove(g, first)).status, 200);
      assert.equal((await g.call('PUT', ledger.files('new'), Buffer.from('x'), { raw: true })).status, 507);
      await ledger.settle(g, { bytes: (path) => path === 'd/20' });
    });

  test('D12: a deleted workspace is purged, bytes and all', async () => {
    disk.fill();
    assert.equal((await g.call('DELETE', `/api/workspaces/${ledger.workspace}`)).status, 204);
    const done = await g.ok('POST', `/api/workspaces/${ledger.workspace}/purge`);
    assert.equal(done.workspaces, 1);
    assert.ok(done.bytes >= 38 * MIB, JSON.stringify(done));
    assert.ok(disk.free() >= 30 * MIB, `${disk.free()}`);
    assert.equal((await actions(g, 'workspace.destroy')).length, 1);
    assert.equal((await g.call('POST', `/api/workspaces/${ledger.workspace}/undelete`)).status, 404);
  });

  test('D12: with space again it is ready by itself', async () => {
    disk.empty();
    await ready(g);
    assert.equal(await mode(g), 'works');
    const next = new Ledger((await g.ok('POST', '/api/workspaces', { name: 'next' })).id);
    assert.ok((await put(g, next, 'x', randomBytes(MIB))).status < 300);
    assert.equal((await g.run('print(6 * 7)')).outcome, 'ok');
    await until(async () => /^glovebox_disk_reserve_bytes (\d+)$/m.exec((await g.call('GET', '/metrics')).text)[1] >= 40 * MIB, { what: 'the reserve' });
    await next.settle(g);
    await sound(g);
  });
});

test('D12: an execution that runs while the disk fills up keeps no file, and says so', { timeout: 120_000 }, async () => {
  const disk = smallDisk({ mib: 320 });
  const { g, ledger, session } = await begin(disk, 1);
  try {
    const running = session.python('import os, time\ntry:\n    time.sleep(50)\nexcept KeyboardInterrupt:\n    open("made", "wb").write(os.urandom(50000))', { timeout_s: 55 });
    await until(async () => (await session.get()).state === 'running', { what: 'it to run' });
    disk.fill(KEPT / 2); // the session itself can still write
    await becomesFull(g);
    assert.equal((await g.call('POST', `${session.path}/interrupt`)).status, 202);
    const done = await running;
    assert.equal(done.commit ?? null, null, JSON.stringify(done));
    assert.deepEqual(done.files.created, []);
    assert.match(JSON.stringify([done.error, done.files.refused, done.files.skipped]), /disk is full/);
    disk.empty();
    await ready(g);
    assert.equal((await session.python('1')).outcome, 'ok'); // and is tried again
    assert.equal((await g.call('GET', ledger.files('made'))).bytes.length, 50000);
  } finally {
    await g.stop({ keep: true });
    disk.remove();
  }
});

test('D12 D3: what a full disk lost of a session\'s file is never kept as that file', { timeout: 120_000 }, async () => {
  const disk = smallDisk({ mib: 320 });
  const { g, ledger, session } = await begin(disk, 1);
  try {
    const running = session.python(`import hashlib, os, time
try:
    time.sleep(50)
except KeyboardInterrupt:
    b = os.urandom(5_000_000)
    with open("made", "wb") as f: f.write(b)
    f = os.open("made", os.O_RDONLY)
    for _ in range(3):
        os.sync() # and out of memory
        time.sleep(0.5)
        os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)
    print(hashlib.sha256(b).hexdigest())`, { timeout_s: 55 });
    await until(async () => (await session.get()).state === 'running', { what: 'it to run' });
    disk.fill();
    await becomesFull(g);
    assert.equal((await g.call('POST', `${session.path}/interrupt`)).status, 202);
    const wrote = (await running).stdout.trim();
    disk.empty();
    await ready(g);
    const next = await session.python('1');
    const kept = await g.call('GET', ledger.files('made'));
    if (kept.status === 200) return assert.equal(sha256(kept.bytes), wrote); // the disk took it after all
    assert.match(JSON.stringify(next.files.skipped), /disk was full and lost/);
    // Written again it is kept.
    assert.equal((await session.python('open("made", "w").write("again")')).outcome, 'ok');
    assert.equal((await g.call('GET', ledger.files('made'))).text, 'again');
  } finally {
    await g.stop({ keep: true });
    disk.remove();
  }
});

test('D12: a disk without inodes is full, too', { timeout: 120_000 }, async () => {
  const disk = smallDisk({ mib: 320, inodes: 6000 });
  let { g, ledger } = await begin(disk, 3);
  try {
    disk.fillFiles();
    assert.equal(disk.files(), 0);
    await becomesFull(g);
    assert.match((await readyz(g)).body.error.message, /files can still be made/);
    assert.equal((await g.call('PUT', ledger.files('new'), Buffer.from('x'), { raw: true })).status, 507);
    assert.equal((await ledger.remove(g, 'd/0')).status, 200);
    await g.stop({ keep: true });
    disk.fillFiles();
    g = await restarted(g, { config });
    assert.equal((await ledger.remove(g, 'd/1')).status, 200);
    await ledger.settle(g);
    disk.emptyFiles();
    await ready(g);
    assert.ok((await put(g, ledger, 'more', randomBytes(10))).status < 300);
    await ledger.settle(g);
  } finally {
    await g.stop({ keep: true });
    disk.remove();
  }
});

test('D12: without a reserve it still starts on a full disk, to read', { timeout: 120_000 }, async () => {
  const disk = smallDisk({ mib: 320 });
  const bare = { ...config, disk_reserve_bytes: 0 };
  let { g, ledger } = await begin(disk, 3, { config: bare });
  try {
    await g.stop({ keep: true });
    disk.fill();
    g = await restarted(g, { config: bare });
    disk.fill();
    await ledger.settle(g);
    assert.equal((await readyz(g)).status, 503);
    const answer = await g.call('DELETE', ledger.files('d/0'));
    if (answer.status !== 200) assert.match(answer.text, /disk is full.*Nothing was changed/);
    disk.empty();
    await ready(g);
    assert.ok((await put(g, ledger, 'more', randomBytes(10))).status < 300);
  } finally {
    await g.stop({ keep: true });
    disk.remove();
  }
});

describe('D12 a disk that does not work', { timeout: 300_000 }, () => {
  test('D12 D4: a file system that went read-only: not ready, still read, and whole after a repair', async () => {
    const disk = smallDisk({ mib: 320 });
    let { g, ledger } = await begin(disk, 3);
    try {
      disk.breakDown();
      await until(async () => /^(disk|storage): /.test((await readyz(g)).body?.error?.message), { ms: 30_000, what: 'readyz to say so' });
      assert.notEqual((await readyz(g)).status, 200);
      assert.equal(await mode(g), 'failed');
      assert.match(g.log, /disk_probe_failed/);
      assert.equal((await g.call('GET', ledger.files('d/0'))).status, 200);
      assert.ok((await put(g, ledger, 'lost', randomBytes(1000))).status >= 500);
      await g.stop({ keep: true });
      disk.repair();
      g = await Glovebox.start({ config, dir: disk.dir });
      await ledger.settle(g);
      await sound(g);
    } finally {
      await g.stop({ keep: true });
      disk.remove();
    }
  });

  test('D12: a file system that hangs: /readyz answers, says so, and recovers', async () => {
    const disk = smallDisk({ mib: 320 });
    const { g, ledger } = await begin(disk, 1);
    try {
      disk.freeze();
      // Each of these answers at once; the reason comes once the probe is overdue.
      await until(async () => /^disk: no answer for \d+ seconds$/.test((await readyz(g)).body?.error?.message), { ms: 60_000, every: 200, what: 'readyz to say so' });
      assert.equal(await mode(g), 'failed');
      disk.thaw();
      await ready(g);
      assert.ok((await put(g, ledger, 'more', randomBytes(10))).status < 300);
      await ledger.settle(g);
    } finally {
      disk.thaw();
      await g.stop({ keep: true });
      disk.remove();
    }
  });

  test('D12: a probe that fails for a while: not ready meanwhile, then ready by itself', async () => {
    const g = await Glovebox.start({ config, env: faultEnv() });
    try {
      armFault({ op: ['pwrite', 'fdatasync'], path: 'disk.probe', action: 'EIO', forever: true });
      await until(async () => (await readyz(g)).status === 503, { ms: 30_000, what: 'readyz 503' });
      assert.match((await readyz(g)).body.error.message, /^disk: it cannot be written: /);
      disarm();
      await ready(g);
      assert.equal(await mode(g), 'works');
    } finally {
      disarm();
      await g.stop();
    }
  });
});
