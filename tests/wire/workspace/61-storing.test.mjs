// SPDX-License-Identifier: Apache-2.0
// What an execution leaves is stored once for each inode, after the quotas
// were asked and disk space was reserved: hard links multiply nothing (R4),
// and nobody else's upload suffers from them (X4).
import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { told, well } from '../../lib/kept.mjs';
import { stop } from '../../lib/wire.mjs';
import { Workspace, mint } from '../../lib/workspace.mjs';

const MiB = 1 << 20;
const ALL = ['execute', 'files:read', 'files:write'];
let server;

before(async () => {
  server = await Glovebox.start({ config: { collect_every_s: 3600, pools: [pool({ ready: 2, scratch_bytes: '128MiB', scratch_inodes: 2000 })] } });
});
after(() => stop(server));

// Bytes that the store of blobs takes on disk, each inode once.
function stored() {
  const seen = new Map();
  const walk = (dir) => {
    for (const e of readdirSync(dir, { withFileTypes: true })) {
      const at = join(dir, e.name);
      if (e.isDirectory()) walk(at);
      else {
        const st = statSync(at, { throwIfNoEntry: false });
        if (st && !/^log\./.test(e.name)) seen.set(st.ino, st.blocks * 512);
      }
    }
  };
  walk(join(server.dir, 'data', 'blobs'));
  return [...seen.values()].reduce((a, b) => a + b, 0);
}

const links = (mib, names) => `
import os
with open('/mnt/data/f000', 'wb') as f:
    for i in range(${mib}): f.write(os.urandom(1 << 20))
for i in range(1, ${names}): os.link('/mnt/data/f000', '/mnt/data/f%03d' % i)
`;

async function member(tenant, quota_bytes) {
  const user = await mint(server, ALL, { tenant });
  const w = await Workspace.create(server, {}, user.secret);
  if (quota_bytes) {
    const admin = await mint(server, ['admin'], { tenant });
    await w.as(admin.secret).ok('PATCH', '', { body: { quota_bytes } });
  }
  return { w, session: () => server.session({ workspace: w.id }, { key: user.secret }) };
}

test('R4: a file with 400 names is stored once, and another tenant can upload meanwhile (X4)', async () => {
  const a = await member('linker');
  const b = await member('uploader');
  const s = await a.session();
  const before = stored();
  let most = 0;
  let running = true;
  const run = well(s.python(links(32, 400))).finally(() => { running = false; });
  while (running) {
    assert.equal((await b.w.put('small', Buffer.alloc(200 * 1024, 'b'))).status < 300, true, 'an upload beside it');
    most = Math.max(most, stored() - before);
    await new Promise((r) => { setTimeout(r, 20); });
  }
  const e = await run;
  assert.equal(told(e).created.length, 400);
  assert.equal(new Set(e.files.created.map((f) => f.sha256)).size, 1);
  assert.ok(e.files.created.every((f) => f.size === 32 * MiB));
  const grown = Math.max(most, stored() - before);
  assert.ok(grown >= 32 * MiB && grown < 40 * MiB, `the store grew by ${grown} bytes`);
  const info = await a.w.info();
  assert.equal(info.files, 400);
});

test('R4: what the quota has no room for is refused before it is written', async () => {
  const a = await member('small', 10 * MiB);
  const s = await a.session();
  const before = stored();
  const e = await s.python(links(32, 3));
  assert.equal(e.outcome, 'limit');
  assert.equal(e.limit.name, 'workspace_bytes');
  assert.equal(e.files.refused.length, 3);
  assert.equal(e.files.not_kept, 3);
  assert.ok(stored() - before < MiB, 'nothing of it is stored');
  // What fits beside it is kept, and told of as always.
  const more = await well(s.python("open('/mnt/data/ok', 'wb').write(b'x' * (2 << 20))"));
  assert.deepEqual(told(more).created, ['ok']);
  // A file that is in the workspace costs nothing when it is only touched or moved.
  await well(s.python("import os\nfor f in os.listdir('/mnt/data'):\n    if f != 'ok': os.remove('/mnt/data/' + f)"));
  await well(s.python("open('/mnt/data/big', 'wb').write(os.urandom(7 << 20))"));
  const touched = await well(s.shell('cd /mnt/data && cp big tmp && rm big && mv tmp big'));
  assert.equal(touched.commit, null);
  const moved = await well(s.shell('cd /mnt/data && mv big moved'));
  assert.deepEqual(told(moved), { renamed: ['big -> moved'] });
});

test('the same bytes again: no version, no bytes, and the answer says so', async () => {
  const user = await mint(server, ALL, { tenant: 'again' });
  const options = { key: user.secret };
  const w = await Workspace.create(server, {}, user.secret);
  const s = await server.session({}, options);
  const bytes = Buffer.alloc(3 * MiB, 'again and again. ');
  const put = (path) => server.call('PUT', path, bytes, { ...options, raw: true });
  const used = async () => (await server.ok('GET', '/api/quotas', undefined, options)).quotas.find((q) => q.name === 'storage_bytes').used;
  const first = await put(`/api/workspaces/${w.id}/files/a.bin`);
  assert.equal(first.body.change, 'created');
  const [disk, counted] = [stored(), await used()];
  for (let i = 0; i < 3; i++) {
    const again = await put(`/api/workspaces/${w.id}/files/a.bin`);
    assert.deepEqual([again.body.change, again.body.version], ['unchanged', first.body.version]);
  }
  assert.equal(await used(), counted);
  const history = await server.ok('GET', `/api/workspaces/${w.id}/history`, undefined, options);
  assert.equal(history.data.length, 1);
  // Another path and another workspace of the tenant: counted, stored once.
  assert.equal((await put(`/api/workspaces/${w.id}/files/b.bin`)).body.change, 'created');
  const up = await put(`${s.path}/files/a.bin`);
  assert.ok(up.status < 300, up.text);
  const again = await put(`${s.path}/files/a.bin`);
  assert.equal(again.body.version, up.body.version, 'a session\'s file too');
  assert.ok(await used() >= counted + 2 * bytes.length);
  assert.ok(stored() - disk < 64 << 10, `${stored() - disk} bytes more on disk`);
});
