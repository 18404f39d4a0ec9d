// SPDX-License-Identifier: Apache-2.0
// `persistence: ephemeral` keeps nothing: after its end no name and no byte of
// the session's files is anywhere in the data directory, database, log of the
// database and audit trail included. While it lives its files work as always.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { READING, asleep, holding, told, well } from '../../lib/kept.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';

// All of what is on disk is searched, so little is.
const small = (spec) => pool({ scratch_bytes: '8MiB', scratch_inodes: 200, ...spec });
let server;
let data;

before(async () => {
  server = await Glovebox.start({
    config: { pools: [small({ ready: 2 }), small({ name: 'never', ready: 1, persistence: 'ephemeral' }), small({ name: 'nap', ready: 1, cooldown_s: 1 })] },
  });
  data = join(server.dir, 'data');
});
after(() => stop(server));

// A mark that no other test and no source has; names and bytes are made from
// its halves, so that the code that writes it does not hold it.
let count = 0;
const marks = () => {
  const n = String(++count);
  return { name: `name-mark-${process.pid}-${n}`, byte: `byte-mark-${process.pid}-${n}`, nameParts: ['name-mark-', `${process.pid}-${n}`], byteParts: ['byte-mark-', `${process.pid}-${n}`] };
};
const code = (m) => `
import os
name, text = "".join(${JSON.stringify(m.nameParts)}), "".join(${JSON.stringify(m.byteParts)})
os.makedirs("/mnt/data/" + name + ".d", exist_ok=True)
open("/mnt/data/" + name + ".d/" + name, "w").write(text)
open("/mnt/data/" + name, "w").write(text * 1000)
`;
const found = (m) => [...new Set([...holding(data, m.name), ...holding(data, m.byte)])].map((path) => path.slice(data.length + 1));

async function lives(s, m) {
  assert.deepEqual([s.made.persistence, s.made.workspace], ['ephemeral', null]);
  const e = await well(s.python(code(m)));
  assert.deepEqual(told(e), { created: [m.name, `${m.name}.d/${m.name}`] });
  assert.deepEqual([e.workspace, e.commit], [null, null]);
  for (const f of e.files.created) assert.deepEqual([f.file_id, f.version, f.url], [null, null, null]);
  const again = await well(s.python(`open("/mnt/data/" + name, "a").write("more"); os.remove("/mnt/data/" + name + ".d/" + name)`));
  assert.deepEqual(told(again), { modified: [m.name], deleted: [`${m.name}.d/${m.name}`] });
  assert.equal((await s.put(`up-${m.name}`, m.byte)).path, `up-${m.name}`);
  assert.equal((await s.read(`up-${m.name}`)).text, m.byte);
  assert.deepEqual((await server.ok('GET', `${s.path}/files`)).data.map((f) => [f.path, f.file_id]), [[m.name, null], [`up-${m.name}`, null]]);
  assert.equal((await server.call('DELETE', `${s.path}/files/up-${m.name}`)).status, 204);
  assert.ok(Object.keys(await s.json(READING)).includes(m.name));
}

// Outside the scratch, which goes with the sandbox.
const stored = (m) => found(m).filter((path) => !path.startsWith('scratch/'));
const nothingLeft = async (m) => {
  await until(() => found(m).length === 0, { ms: 10_000, every: 200, what: 'nothing left' }).catch(() => assert.deepEqual(found(m), []));
};

describe('an ephemeral session', () => {
  test('a session that keeps its files is found by the same search', async () => {
    const m = marks();
    const s = await server.session();
    await well(s.python(code(m)));
    await s.delete();
    assert.ok(stored(m).some((path) => path.startsWith('blobs/')), 'bytes');
    assert.ok(stored(m).some((path) => path.startsWith('glovebox.db')), 'names');
  });

  test('works while it lives and leaves nothing, by its own wish', async () => {
    const m = marks();
    const s = await server.session({ persistence: 'ephemeral' });
    await lives(s, m);
    assert.deepEqual(stored(m), [], 'nor while it lives');
    assert.equal((await s.delete()).status, 204);
    await nothingLeft(m);
  });

  test('the same by its pool, whose sessions cannot have a workspace', async () => {
    const m = marks();
    const s = await server.session({ pool: 'never' });
    await lives(s, m);
    await s.delete();
    await nothingLeft(m);
    const { id } = await server.ok('POST', '/api/workspaces', { name: 'w' });
    refused(await request(server, 'POST', '/api/sessions', { body: { pool: 'never', workspace: id } }), 400, 'invalid_request', /workspace/);
    refused(await request(server, 'POST', '/api/sessions', { body: { persistence: 'ephemeral', workspace: id } }), 400, 'invalid_request', /workspace/);
    refused(await request(server, 'POST', '/api/sessions', { body: { persistence: 'sometimes' } }), 400, 'invalid_request');
  });

  test('falling asleep ends its files too', async () => {
    const m = marks();
    const s = await server.session({ pool: 'nap', persistence: 'ephemeral' });
    await well(s.python(code(m)));
    await asleep(s);
    await nothingLeft(m);
    const e = await well(s.python(READING));
    assert.deepEqual([e.interpreter, JSON.parse(e.stdout)], ['fresh', {}]);
    await s.delete();
  });

  test('a single run, its conversation and its message', async () => {
    const m = marks();
    const e = await server.run(code(m), { persistence: 'ephemeral', metadata: { conversation: m.name, message: m.byte } });
    assert.equal(e.outcome, 'ok');
    assert.deepEqual(told(e).created, [m.name, `${m.name}.d/${m.name}`]);
    await nothingLeft(m);
    assert.deepEqual((await server.ok('GET', `/api/conversations/${m.name}/files`)).data, []);
  });

  test('one that is running when the service stops, or is killed', async () => {
    for (const how of ['SIGTERM', 'SIGKILL']) {
      const config = { stop_deadline_s: 1, pools: [small({ ready: 1 })] };
      const other = await Glovebox.start({ config });
      const m = marks();
      const mine = join(other.dir, 'data');
      const s = await other.session({ persistence: 'ephemeral' });
      await well(s.python(code(m)));
      other.child.kill(how);
      await other.exited;
      const next = await Glovebox.start({ dir: other.dir, config });
      try {
        assert.equal((await next.call('GET', s.path)).status, 404, 'it is not there again');
        await until(() => holding(mine, m.name).length + holding(mine, m.byte).length === 0, { ms: 10_000, every: 200, what: `nothing left after ${how}` });
      } finally {
        await stop(next);
      }
    }
  });

  test('the trail says that it was there and not what it did', async () => {
    const m = marks();
    const s = await server.session({ persistence: 'ephemeral' });
    await well(s.python(code(m)));
    await s.delete();
    const events = await until(async () => {
      const { data: all } = await server.ok('GET', `/api/audit?object=${s.id}&limit=1000`);
      return all.some((e) => e.action === 'session.delete') && all;
    }, { what: 'the audit event' });
    assert.deepEqual(events.map((e) => e.action), ['session.create', 'session.delete']);
    assert.doesNotMatch(JSON.stringify(await server.ok('GET', '/api/audit?limit=1000')), new RegExp(`${m.name}|${m.byte}`));
    assert.equal((await server.ok('POST', '/api/audit/verify')).ok, true);
  });
});
