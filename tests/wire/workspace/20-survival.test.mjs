// SPDX-License-Identifier: Apache-2.0
// Files outlive everything: the sandbox, the interpreter, the session, the
// daemon. Each ending here is followed by a look at the same files under the
// same ids, and by the same session going on.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { armFault, disarm, faultEnv, faultFired } from '../../lib/faults.mjs';
import { Glovebox, Session, pool, until } from '../../lib/glovebox.mjs';
import { READING, asleep, begun, killSandbox, told, well, workspaceOf, writing } from '../../lib/kept.mjs';
import { Stream, refused, request, stop } from '../../lib/wire.mjs';
import { mint, sha256 } from '../../lib/workspace.mjs';

const config = {
  stop_deadline_s: 2,
  sessions_per_tenant: 60,
  pools: [pool({ ready: 2 }), pool({ name: 'nap', ready: 1, cooldown_s: 1 }), pool({ name: 'short', ready: 0, lifetime_s: 2 })],
};

const ids = async (w) => (await w.list()).data.map((f) => [f.path, f.file_id, f.version, f.sha256]);
const page = (s, query = '') => s.server.ok('GET', `${s.path}/files${query}`, undefined, s.options);

// A fresh interpreter, in the same session, with these files.
async function wakes(s, files) {
  const e = await well(s.python(READING));
  assert.equal(e.interpreter, 'fresh');
  assert.deepEqual(JSON.parse(e.stdout), files);
  assert.equal((await s.python('kept_in_memory')).error.name, 'NameError');
  assert.equal((await s.python('2 + 2')).interpreter, 'same');
}

// ---- one daemon -------------------------------------------------------------

describe('D1 D7 a session that loses its sandbox', { concurrency: 6 }, () => {
  let server;
  before(async () => { server = await Glovebox.start({ config }); });
  after(() => stop(server));

  test('D7: by sleeping: it wakes with its files and says that the interpreter is fresh', async () => {
    const s = await server.session({ pool: 'nap', name: 'sleeper', metadata: { a: 1 } });
    const files = { 'a.csv': '1,2', 'deep/er/b.txt': 'b', '日本.txt': 'ü' };
    await well(s.python(`${writing(files)}\nkept_in_memory = 1`));
    const before = await ids(workspaceOf(s));
    await asleep(s);
    const shown = await s.get();
    assert.deepEqual([shown.state, shown.name, shown.metadata, shown.workspace, shown.interpreters], ['dormant', 'sleeper', { a: 1 }, s.made.workspace, 1]);
    assert.deepEqual(await ids(workspaceOf(s)), before);
    await wakes(s, files);
    assert.equal((await s.get()).interpreters, 2);
    assert.deepEqual(await ids(workspaceOf(s)), before, 'nothing became a version by being looked at');
  });

  test('asleep, its files are listed, read, written and deleted without waking it', async () => {
    const s = await server.session({ pool: 'nap' });
    const e = await well(s.python(writing({ 'a.txt': 'aaa', 'b.txt': 'bbb', 'c/d.txt': 'ddd' })));
    await asleep(s);
    const still = async () => assert.equal((await s.get()).state, 'dormant');
    const listed = await page(s);
    assert.deepEqual(listed.data.map((f) => [f.path, f.size, f.file_id, f.version, f.sha256]),
      e.files.created.map((f) => [f.path, f.size, f.file_id, f.version, f.sha256]));
    const first = await page(s, '?limit=2');
    assert.deepEqual([first.data.map((f) => f.path), first.has_more], [['a.txt', 'b.txt'], true]);
    assert.deepEqual((await page(s, '?limit=2&after=b.txt')).data.map((f) => f.path), ['c/d.txt']);
    await still();
    assert.equal((await s.read('a.txt')).text, 'aaa');
    assert.equal((await s.read('a.txt', { range: 'bytes=1-' })).text, 'aa');
    refused(await request(server, 'GET', `${s.path}/files/none`), 404, 'not_found');
    await still();
    const put = await s.put('up/loaded.txt', 'uploaded');
    assert.deepEqual([put.path, put.size, put.sha256], ['up/loaded.txt', 8, sha256('uploaded')]);
    assert.match(put.version, /^ver_/);
    assert.equal((await server.call('DELETE', `${s.path}/files/b.txt`)).status, 204);
    refused(await request(server, 'DELETE', `${s.path}/files/b.txt`), 404, 'not_found');
    await still();
    assert.deepEqual(await workspaceOf(s).paths(), ['a.txt', 'c/d.txt', 'up/loaded.txt']);
    await wakes(s, { 'a.txt': 'aaa', 'c/d.txt': 'ddd', 'up/loaded.txt': 'uploaded' });
  });

  test('what is written to the workspace meanwhile is there when it wakes', async () => {
    const s = await server.session({ pool: 'nap' });
    await well(s.python(writing({ mine: '1', theirs: '1', gone: '1' })));
    await asleep(s);
    const w = workspaceOf(s);
    await w.write('theirs', '2');
    await w.write('new/one', '3');
    await w.delete('gone');
    await wakes(s, { mine: '1', theirs: '2', 'new/one': '3' });
    const e = await well(s.python(writing({ theirs: '4' })));
    assert.deepEqual(told(e), { modified: ['theirs'] }, 'it has seen them: no conflict');
  });

  test('a file that a background process wrote after the execution is kept when it falls asleep', async () => {
    const s = await server.session({ pool: 'nap' });
    const e = await well(s.shell('(sleep 0.5; echo late > /mnt/data/late.txt) > /dev/null 2>&1 &'));
    assert.equal(e.commit, null);
    await asleep(s);
    assert.equal((await workspaceOf(s).get('late.txt')).text, 'late\n');
    const [h] = (await workspaceOf(s).history()).data;
    assert.deepEqual([h.session, h.execution, h.change], [s.id, null, 'created']);
    await wakes(s, { 'late.txt': 'late\n' });
  });

  test('the same when the session is deleted, and when what it wrote comes with the next execution', async () => {
    const s = await server.session();
    await well(s.python('import subprocess; p = subprocess.Popen("sleep 0.3; echo 1 > /mnt/data/one", shell=True)'));
    const e = await well(s.python('p.wait()'));
    assert.deepEqual(told(e), { created: ['one'] });
    await well(s.python('import subprocess; p = subprocess.Popen("echo 2 > /mnt/data/two; touch /tmp/done", shell=True)'));
    await until(async () => (await page(s)).data.length === 2, { what: 'the file' });
    assert.equal((await s.delete()).status, 204);
    assert.deepEqual(await workspaceOf(s).paths(), ['one', 'two']);
  });

  test('by being killed from outside while it runs', async () => {
    const s = await server.session();
    await well(s.python(`${writing({ a: '1' })}\nkept_in_memory = 1`));
    const { init } = await s.onHost();
    const run = await begun(s, { code: 'print("began", flush=True)\nimport time; time.sleep(60)' });
    process.kill(init, 'SIGKILL');
    const e = await run.end();
    assert.equal(e.outcome, 'killed');
    assert.equal(e.interpreter_lost, true);
    await wakes(s, { a: '1' });
  });

  test('by being killed while it is idle', async () => {
    const s = await server.session();
    await well(s.python(`${writing({ a: '1' })}\nkept_in_memory = 1`));
    await killSandbox(s);
    await wakes(s, { a: '1' });
  });

  test('by killing everything inside', async () => {
    const s = await server.session();
    await well(s.python(`${writing({ a: '1' })}\nkept_in_memory = 1`));
    const e = await s.python(`${writing({ b: '2' })}\nimport os, subprocess; p = subprocess.Popen(["sleep", "60"]); os.kill(-1, 9)`);
    assert.deepEqual([e.outcome, told(e)], ['ok', { created: ['b'] }]);
    const sh = await s.shell('echo 3 > /mnt/data/c; kill -9 -1');
    assert.deepEqual(told(sh), { created: ['c'] });
    await wakes(s, { a: '1', b: '2', c: '3\n' });
  });

  test('by running out of memory, in the interpreter and in a background process', async () => {
    const s = await server.session({ limits: { memory_bytes: 128 << 20 } });
    await well(s.python(`${writing({ a: '1' })}\nkept_in_memory = 1`));
    const e = await s.python(`${writing({ b: '2' })}\nx = []\nwhile True: x.append(bytearray(1 << 20))`);
    assert.equal(e.outcome, 'oom');
    assert.deepEqual(told(e), { created: ['b'] });
    await wakes(s, { a: '1', b: '2' });
    await s.python(`${writing({ c: '3' })}\nimport subprocess\np = subprocess.Popen(["python3", "-c", "x = []\\nwhile True: x.append(bytearray(1 << 20))"])`);
    await s.python('p.wait()');
    assert.deepEqual(await s.json(READING), { a: '1', b: '2', c: '3' });
  });

  test('by reaching the end of its sandbox\'s life', async () => {
    const s = await server.session({ pool: 'short' });
    await well(s.python(`${writing({ a: '1' })}\nkept_in_memory = 1`));
    await asleep(s);
    await wakes(s, { a: '1' });
  });

  test('by a reset: files stay, those not committed yet too', async () => {
    const s = await server.session();
    await well(s.python(`${writing({ a: '1' })}\nkept_in_memory = 1`));
    await well(s.shell('(echo late > /mnt/data/late; sleep 60) > /dev/null 2>&1 &'));
    await until(async () => (await page(s)).data.length === 2, { what: 'the file' });
    await server.ok('POST', `${s.path}/reset`, {});
    await wakes(s, { a: '1', late: 'late\n' });
    assert.deepEqual(await workspaceOf(s).paths(), ['a', 'late']);
  });
});

describe('a workspace and its session', { concurrency: 6 }, () => {
  let server;
  let key;
  const workspaces = async () => (await server.ok('GET', '/api/workspaces?limit=1000', undefined, { key: key.secret })).data.map((w) => w.id);

  before(async () => {
    server = await Glovebox.start({ config });
    key = await mint(server, ['execute', 'files:read', 'files:write'], { tenant: 'other' });
  });
  after(() => stop(server));

  test('deleting the session keeps the workspace, its files, ids and history', async () => {
    const s = await server.session({}, { key: key.secret });
    const e = await well(s.python(writing({ a: '1' })));
    const w = workspaceOf(s);
    const before = [await ids(w), await w.history()];
    assert.equal((await s.delete()).status, 204);
    refused(await request(server, 'GET', s.path, { key: key.secret }), 404, 'not_found');
    assert.deepEqual([await ids(w), await w.history()], before);
    assert.equal((await request(server, 'GET', e.files.created[0].url, { key: key.secret })).text, '1');
    assert.ok((await workspaces()).includes(w.id));
    const next = await server.session({ workspace: w.id }, { key: key.secret });
    assert.deepEqual(await next.json(READING), { a: '1' });
    assert.equal((await next.delete()).status, 204);
    assert.deepEqual(await ids(w), before[0]);
  });

  test('a session that never had a file leaves no workspace behind', async () => {
    const s = await server.session({}, { key: key.secret });
    await well(s.python('6 * 7'));
    assert.equal((await s.delete()).status, 204);
    refused(await workspaceOf(s).call('GET', ''), 404, 'not_found');
    assert.ok(!(await workspaces()).includes(s.made.workspace));
  });

  test('one that a person named stays, with or without a file', async () => {
    const made = await server.ok('POST', '/api/workspaces', { name: 'mine' }, { key: key.secret });
    const s = await server.session({ workspace: made.id }, { key: key.secret });
    await well(s.python('1'));
    await s.delete();
    assert.ok((await workspaces()).includes(made.id));
  });

  test('files of a single run are found afterwards, and a run without any leaves nothing', async () => {
    const run = (body) => server.ok('POST', '/api/run', body, { key: key.secret });
    const e = await run({ code: writing({ 'out/a.csv': '1' }), metadata: { conversation: 'single', message: 'm' } });
    assert.deepEqual(told(e), { created: ['out/a.csv'] });
    assert.match(e.workspace, /^ws_/);
    const [f] = e.files.created;
    assert.equal((await request(server, 'GET', f.url, { key: key.secret })).text, '1');
    assert.ok((await workspaces()).includes(e.workspace));
    const found = (await server.ok('GET', '/api/conversations/single/files', undefined, { key: key.secret })).data;
    assert.deepEqual(found.map((x) => [x.workspace, x.path, x.version]), [[e.workspace, 'out/a.csv', f.version]]);
    const next = await server.session({ workspace: e.workspace }, { key: key.secret });
    assert.deepEqual(await next.json(READING), { 'out/a.csv': '1' });
    const count = (await workspaces()).length;
    const none = await run({ code: '1' });
    assert.deepEqual([none.commit, none.files.created], [null, []]);
    assert.ok((await workspaces()).length <= count, 'no workspace more');
    assert.equal(none.workspace, null, 'none is named that is not there');
  });

  test('a single run in a workspace that is there, with files put in first', async () => {
    const made = await server.ok('POST', '/api/workspaces', { name: 'runs' }, { key: key.secret });
    const run = (code, files) => server.ok('POST', '/api/run', { code, files, workspace: made.id }, { key: key.secret });
    const e = await run('open("/mnt/data/out", "w").write(open("/mnt/data/in").read() * 2)', [{ path: 'in', content_base64: Buffer.from('x').toString('base64') }]);
    assert.deepEqual([told(e), e.workspace], [{ created: ['out'] }, made.id]);
    const second = await run(READING);
    assert.deepEqual(JSON.parse(second.stdout), { in: 'x', out: 'xx' });
  });

  test('a run whose client leaves keeps what it wrote', async () => {
    const made = await server.ok('POST', '/api/workspaces', { name: 'left' }, { key: key.secret });
    const stream = await Stream.open(server, 'POST', '/api/run', { key: key.secret,
      body: { mode: 'stream', workspace: made.id, code: `${writing({ half: 'way' })}\nprint("began", flush=True)\nimport time; time.sleep(60)` } });
    await stream.find((event) => event.event === 'stdout');
    stream.close();
    await until(async () => (await server.ok('GET', `/api/workspaces/${made.id}`, undefined, { key: key.secret })).files === 1, { ms: 10_000, what: 'kept' });
  });
});

// ---- the daemon ends ---------------------------------------------------------

describe('D1 D2 D7 a daemon that ends', () => {
  let server;
  const begin = async () => {
    server = await Glovebox.start({ config, env: faultEnv() });
    const s = await server.session({ name: 'lasting', metadata: { x: [1] }, limits: { processes: 40 } });
    await well(s.python(`${writing({ a: 'one', 'd/b': 'two' })}\nkept_in_memory = 1`));
    return s;
  };
  const again = async (s) => {
    server = await Glovebox.start({ dir: server.dir, config, env: faultEnv() });
    return new Session(server, s.made);
  };
  const killed = async () => {
    server.child.kill('SIGKILL');
    await server.exited;
  };
  after(() => disarm());

  // The session as it was, asleep, and its files under the same ids.
  async function survives(s, before, files) {
    const next = await again(s);
    const shown = await next.get();
    assert.deepEqual([shown.state, shown.name, shown.metadata, shown.workspace, shown.limits, shown.created_at],
      ['dormant', 'lasting', { x: [1] }, s.made.workspace, s.made.limits, s.made.created_at]);
    assert.ok((await server.ok('GET', '/api/sessions')).data.some((x) => x.id === s.id));
    assert.deepEqual(await ids(workspaceOf(next)), before);
    assert.deepEqual((await page(next)).data.map((f) => [f.path, f.file_id, f.version, f.sha256]), before);
    assert.equal((await next.get()).state, 'dormant', 'looking at files did not wake it');
    await wakes(next, files);
    assert.deepEqual(told(await well(next.python(writing({ a: 'three' })))), { modified: ['a'] });
    return next;
  }

  test('D7: by a graceful stop, with what a background process and a running execution wrote', async () => {
    const s = await begin();
    const lazy = await server.session();
    await well(lazy.shell('(echo late > /mnt/data/late; sleep 60) > /dev/null 2>&1 &'));
    await until(async () => (await page(lazy)).data.length === 1, { what: 'the file' });
    const busy = await server.session();
    const run = await begun(busy, { code: `${writing({ half: 'way' })}\nprint("began", flush=True)\nimport time; time.sleep(60)` });
    const before = await ids(workspaceOf(s));
    const stopped = server.stop({ keep: true });
    assert.equal((await run.end()).outcome, 'cancelled');
    assert.deepEqual(await stopped, { code: 0, signal: null });
    await survives(s, before, { a: 'one', 'd/b': 'two' });
    assert.deepEqual(await new Session(server, lazy.made).json(READING), { late: 'late\n' });
    assert.deepEqual(await new Session(server, busy.made).json(READING), { half: 'way' });
    await stop(server);
  });

  test('D1 D7: by kill -9, once while all is idle and once while an execution runs', async () => {
    let s = await begin();
    const before = await ids(workspaceOf(s));
    await killed();
    s = await survives(s, before, { a: 'one', 'd/b': 'two' });
    const later = await ids(workspaceOf(s));
    const run = await begun(s, { code: `${writing({ a: 'changed', half: 'way' })}\nprint("began", flush=True)\nimport time; time.sleep(60)` });
    await killed();
    run.stream.close();
    s = await again(s);
    assert.deepEqual(await ids(workspaceOf(s)), later);
    await wakes(s, { a: 'three', 'd/b': 'two' });
    await stop(server);
  });

  const points = [
    ['between two blobs', { op: 'rename', path: '/blobs/', nth: 2, action: 'kill' }],
    ['before the rows are synced', { op: ['fsync', 'fdatasync'], path: 'glovebox.db-wal', nth: 1, action: 'kill' }],
    ['after the rows are synced', { op: ['fsync', 'fdatasync'], path: 'glovebox.db-wal', nth: 1, action: 'kill-after' }],
  ];
  test('D1 D2 D7: by kill -9 in the middle of a commit: all of it or none', async () => {
    let s = await begin();
    let files = { a: 'one', 'd/b': 'two' };
    for (const [where, rule] of points) {
      const wanted = { a: where, 'd/b': `${where}!`, 'new/c': where };
      armFault(rule);
      const answer = await server.call('POST', `${s.path}/executions`, { code: writing(wanted) }).catch(() => null);
      disarm();
      if (answer) { // it never came to the call: all was acknowledged
        assert.equal(faultFired(), 0, where);
        assert.equal(answer.body.outcome, 'ok');
        await killed();
      } else {
        await server.exited;
        assert.equal(faultFired(), 1, where);
      }
      s = await again(s);
      const w = workspaceOf(s);
      const have = Object.fromEntries(await Promise.all((await w.paths()).map(async (path) => [path, (await w.get(path)).text])));
      assert.ok([files, wanted].some((state) => JSON.stringify(sorted(state)) === JSON.stringify(sorted(have))), `${where}: ${JSON.stringify(have)}`);
      if (answer) assert.deepEqual(have, wanted);
      assert.deepEqual(await s.json(READING), have, `${where}: what it wakes with`);
      files = have;
    }
    await stop(server);
  });
});

const sorted = (object) => Object.fromEntries(Object.entries(object).sort());
