// SPDX-License-Identifier: Apache-2.0
// Every run is a commit: what an execution changed is in the workspace, with
// who did it, by which code, in which conversation, before it is reported.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { READING, asleep, begun, told, well, workspaceOf, writing } from '../../lib/kept.mjs';
import { request, stop } from '../../lib/wire.mjs';
import { mint, sha256 } from '../../lib/workspace.mjs';

let server;
let author;

before(async () => {
  server = await Glovebox.start({
    config: { sessions_per_tenant: 60, pools: [pool({ ready: 2 }), pool({ name: 'nap', ready: 1, cooldown_s: 1 })] },
  });
  author = await mint(server, ['execute', 'files:read', 'files:write'], { name: 'author' });
});
after(() => stop(server));

const session = (spec = {}) => server.session(spec, { key: author.secret });

// They mostly wait for sessions to fall asleep.
describe('what an execution changed', { concurrency: 6 }, () => {
  test('created files are listed with everything that names and describes them', async () => {
    const s = await session();
    const e = await well(s.python(writing({ 'out.csv': 'a,b\n1,2\n', 'deep/er/plot.png': 'PNG', 'naïve – 日本.txt': 'ü', bare: '' })));
    assert.deepEqual(told(e), { created: ['bare', 'deep/er/plot.png', 'naïve – 日本.txt', 'out.csv'] });
    assert.equal(e.workspace, s.made.workspace);
    assert.match(e.commit, /^cmt_[0-9a-f]{40}$/);
    const types = { bare: 'application/octet-stream', 'deep/er/plot.png': 'image/png', 'naïve – 日本.txt': 'text/plain', 'out.csv': 'text/csv' };
    const bytes = { bare: '', 'deep/er/plot.png': 'PNG', 'naïve – 日本.txt': 'ü', 'out.csv': 'a,b\n1,2\n' };
    for (const f of e.files.created) {
      assert.deepEqual(Object.keys(f), ['path', 'change', 'file_id', 'version', 'size', 'sha256', 'mime_type', 'url', 'sandbox_path']);
      assert.match(f.file_id, /^file_[0-9a-f]{32}$/);
      assert.match(f.version, /^ver_[0-9a-f]{40}$/);
      assert.deepEqual([f.change, f.size, f.sha256, f.mime_type, f.sandbox_path],
        ['created', Buffer.byteLength(bytes[f.path]), sha256(bytes[f.path]), types[f.path], `sandbox:/mnt/data/${f.path}`]);
    }
    assert.equal(e.files.truncated, false);
    const listed = (await workspaceOf(s).list()).data;
    assert.deepEqual(listed.map((f) => [f.path, f.file_id, f.version, f.sha256, f.url]),
      e.files.created.map((f) => [f.path, f.file_id, f.version, f.sha256, f.url]));
  });

  test('its url serves the bytes of that version for ever: Range, ETag, what it is called', async () => {
    const s = await session();
    const first = (await well(s.python(writing({ 'a.txt': '0123456789' })))).files.created[0];
    const second = (await well(s.python(writing({ 'a.txt': 'new' })))).files.modified[0];
    const get = (f, headers) => request(server, 'GET', f.url, { key: author.secret, headers });
    const whole = await get(first);
    assert.equal(whole.status, 200);
    assert.equal(whole.text, '0123456789');
    assert.equal(whole.headers.etag, `"${first.sha256}"`);
    assert.equal(whole.headers['x-glovebox-version'], first.version);
    assert.match(whole.headers['content-disposition'], /^attachment/);
    const part = await get(first, { range: 'bytes=2-4' });
    assert.deepEqual([part.status, part.text, part.headers['content-range']], [206, '234', 'bytes 2-4/10']);
    assert.equal((await get(first, { range: 'bytes=10-' })).status, 416);
    assert.equal((await get(first, { 'if-none-match': `"${first.sha256}"` })).status, 304);
    assert.equal((await get(second)).text, 'new');
    const now = await request(server, 'GET', `/api/files/${first.file_id}/content`, { key: author.secret });
    assert.equal(now.text, 'new', 'without a version it is the newest');
  });

  test('modified, deleted, renamed: the identity stays, the version is new', async () => {
    const s = await session();
    const made = await well(s.python(writing({ 'a.txt': 'one', 'b.txt': 'two', 'c/d.txt': 'three', 'e.txt': 'five' })));
    const was = Object.fromEntries(made.files.created.map((f) => [f.path, f]));
    const e = await well(s.python(`
import os
open("/mnt/data/a.txt", "a").write(" and more")
os.remove("/mnt/data/b.txt")
os.makedirs("/mnt/data/x")
os.rename("/mnt/data/c/d.txt", "/mnt/data/x/y.md")
open("/mnt/data/new.txt", "w").write("n")
`));
    assert.deepEqual(told(e), { created: ['new.txt'], modified: ['a.txt'], deleted: ['b.txt'], renamed: ['c/d.txt -> x/y.md'] });
    const [a] = e.files.modified;
    assert.equal(a.file_id, was['a.txt'].file_id);
    assert.notEqual(a.version, was['a.txt'].version);
    assert.equal(a.sha256, sha256('one and more'));
    const [b] = e.files.deleted;
    assert.deepEqual([b.file_id, b.sha256, b.url, b.size], [was['b.txt'].file_id, null, null, 0]);
    const [r] = e.files.renamed;
    assert.deepEqual([r.file_id, r.from, r.sha256], [was['c/d.txt'].file_id, 'c/d.txt', sha256('three')]);
    assert.deepEqual(await workspaceOf(s).paths(), ['a.txt', 'e.txt', 'new.txt', 'x/y.md']);
    const story = (await workspaceOf(s).history(`?file=${a.file_id}`)).data;
    assert.deepEqual(story.map((h) => [h.change, h.version, h.version_number, h.commit]),
      [['modified', a.version, 2, e.commit], ['created', was['a.txt'].version, 1, made.commit]]);
  });

  test('a rename with changed bytes is a deletion and a new file', async () => {
    const s = await session();
    await well(s.python(writing({ 'a.txt': 'x' })));
    const e = await well(s.python('import os; os.rename("/mnt/data/a.txt", "/mnt/data/b.txt"); open("/mnt/data/b.txt", "a").write("y")'));
    const t = told(e);
    assert.ok(JSON.stringify(t) === JSON.stringify({ created: ['b.txt'], deleted: ['a.txt'] }) || t.renamed, JSON.stringify(t));
    assert.deepEqual(await workspaceOf(s).paths(), ['b.txt']);
  });

  test('two files that change names keep their bytes apart', async () => {
    const s = await session();
    await well(s.python(writing({ a: 'was a', b: 'was b' })));
    const e = await well(s.python('import os; p = "/mnt/data/"; os.rename(p + "a", p + "t"); os.rename(p + "b", p + "a"); os.rename(p + "t", p + "b")'));
    assert.ok(e.commit);
    const w = workspaceOf(s);
    assert.deepEqual([(await w.get('a')).text, (await w.get('b')).text], ['was b', 'was a']);
    assert.equal((await w.list()).data.length, 2);
  });

  test('a folder is replaced by a file, and a file by a folder', async () => {
    const s = await session({ pool: 'nap' });
    await well(s.python(writing({ 'd/one': '1', 'd/sub/two': '2', f: 'file' })));
    await asleep(s);
    const e = await well(s.python(`
import os, shutil
shutil.rmtree("/mnt/data/d"); open("/mnt/data/d", "w").write("now a file")
os.remove("/mnt/data/f"); os.mkdir("/mnt/data/f"); open("/mnt/data/f/inside", "w").write("now a folder")
`));
    assert.deepEqual(told(e), { created: ['d', 'f/inside'], deleted: ['d/one', 'd/sub/two', 'f'] });
    assert.deepEqual(await workspaceOf(s).paths(), ['d', 'f/inside']);
    await asleep(s);
    assert.deepEqual(await s.json(READING), { d: 'now a file', 'f/inside': 'now a folder' });
  });

  test('a folder emptied and filled anew loses what was in it', async () => {
    const s = await session({ pool: 'nap' });
    await well(s.python(writing({ 'd/old': '1', 'd/kept': '2', 'd/e/f': '3' })));
    await asleep(s);
    const e = await well(s.python(`
import os, shutil
shutil.rmtree("/mnt/data/d"); os.mkdir("/mnt/data/d")
open("/mnt/data/d/kept", "w").write("2"); open("/mnt/data/d/new", "w").write("4")
`));
    assert.deepEqual(await workspaceOf(s).paths(), ['d/kept', 'd/new']);
    assert.deepEqual(e.files.deleted.map((f) => f.path), ['d/e/f', 'd/old']);
    await asleep(s);
    assert.deepEqual(await s.json(READING), { 'd/kept': '2', 'd/new': '4' });
  });

  test('deleting a whole folder of an earlier life', async () => {
    const s = await session({ pool: 'nap' });
    await well(s.python(writing({ 'd/one': '1', 'd/e/two': '2', stays: '3' })));
    await asleep(s);
    const e = await well(s.shell('rm -r /mnt/data/d'));
    assert.deepEqual(told(e), { deleted: ['d/e/two', 'd/one'] });
    assert.deepEqual(await workspaceOf(s).paths(), ['stays']);
    const again = await well(s.python(writing({ 'd/one': 'back' })));
    assert.deepEqual(told(again), { created: ['d/one'] });
    await asleep(s);
    assert.deepEqual(await s.json(READING), { 'd/one': 'back', stays: '3' });
  });

  test('appending to a file of an earlier life', async () => {
    const s = await session({ pool: 'nap' });
    const [f] = (await well(s.python(writing({ 'log.txt': 'line 1\n' })))).files.created;
    await asleep(s);
    const e = await well(s.shell('echo "line 2" >> /mnt/data/log.txt'));
    assert.deepEqual(told(e), { modified: ['log.txt'] });
    assert.equal(e.files.modified[0].file_id, f.file_id);
    assert.equal((await workspaceOf(s).get('log.txt')).text, 'line 1\nline 2\n');
    const now = await well(s.shell('echo "line 3" >> /mnt/data/log.txt'));
    assert.deepEqual(told(now), { modified: ['log.txt'] });
    assert.equal((await workspaceOf(s).get('log.txt')).text, 'line 1\nline 2\nline 3\n');
  });

  test('renaming a file of an earlier life keeps its identity', async () => {
    const s = await session({ pool: 'nap' });
    const [f] = (await well(s.python(writing({ 'a/draft.md': 'text' })))).files.created;
    await asleep(s);
    const e = await well(s.shell('mv /mnt/data/a/draft.md /mnt/data/final.md'));
    assert.deepEqual(told(e), { renamed: ['a/draft.md -> final.md'] });
    assert.equal(e.files.renamed[0].file_id, f.file_id);
    await asleep(s);
    assert.deepEqual(await s.json(READING), { 'final.md': 'text' });
  });

  test('a folder of an earlier life can be moved by those that copy when told to', async () => {
    const s = await session({ pool: 'nap' });
    await well(s.python(writing({ 'd/one': '1', 'd/two': '2' })));
    await asleep(s);
    const e = await well(s.shell('mv /mnt/data/d /mnt/data/moved'));
    assert.deepEqual(told(e), { renamed: ['d/one -> moved/one', 'd/two -> moved/two'] });
    await asleep(s);
    await well(s.python('import shutil; shutil.move("/mnt/data/moved", "/mnt/data/again")'));
    assert.deepEqual(await workspaceOf(s).paths(), ['again/one', 'again/two']);
  });

  test('the executable bit is kept over a wake, and its change is a version', async () => {
    const s = await session({ pool: 'nap' });
    await well(s.shell('printf "#!/bin/sh\\necho ran\\n" > /mnt/data/tool.sh; chmod 755 /mnt/data/tool.sh; echo x > /mnt/data/plain'));
    const listed = () => workspaceOf(s).list().then((l) => Object.fromEntries(l.data.map((f) => [f.path, f.executable])));
    assert.deepEqual(await listed(), { plain: false, 'tool.sh': true });
    await asleep(s);
    assert.equal((await well(s.shell('/mnt/data/tool.sh'))).stdout, 'ran\n');
    const e = await well(s.shell('chmod -x /mnt/data/tool.sh'));
    assert.deepEqual(told(e), { modified: ['tool.sh'] });
    assert.deepEqual(await listed(), { plain: false, 'tool.sh': false });
    await asleep(s);
    assert.notEqual((await s.shell('/mnt/data/tool.sh')).exit_code, 0);
  });

  test('hard links are files of their own', async () => {
    const s = await session({ pool: 'nap' });
    const e = await well(s.shell('cd /mnt/data; echo same > a; ln a b; mkdir d; ln a d/c'));
    assert.deepEqual(told(e), { created: ['a', 'b', 'd/c'] });
    assert.equal(new Set(e.files.created.map((f) => f.file_id)).size, 3);
    const both = await well(s.shell('echo more >> /mnt/data/a'));
    assert.deepEqual(told(both), { modified: ['a', 'b', 'd/c'] });
    await asleep(s);
    const one = await well(s.shell('echo apart >> /mnt/data/a'));
    assert.deepEqual(told(one), { modified: ['a'] });
    assert.equal((await workspaceOf(s).get('b')).text, 'same\nmore\n');
  });
});

describe('nothing changed', () => {
  test('means no commit: nothing written, the same written again, only looked at', async () => {
    const s = await session({ pool: 'nap' });
    const made = await well(s.python(writing({ 'a.txt': 'same', 'd/b.txt': 'b' })));
    const nothing = async (promise) => {
      const e = await well(promise);
      assert.deepEqual([told(e), e.commit], [{}, null]);
    };
    await nothing(s.python('6 * 7'));
    await nothing(s.python(writing({ 'a.txt': 'same' })));
    await nothing(s.python('open("/mnt/data/t", "w").write("x"); import os; os.remove("/mnt/data/t")'));
    await nothing(s.shell('touch /mnt/data/a.txt; mkdir /mnt/data/empty; cat /mnt/data/d/b.txt'));
    await asleep(s);
    await nothing(s.python('open("/mnt/data/a.txt").read()'));
    // Copied up by the open for writing, and by the new time, but the same.
    await nothing(s.shell('touch /mnt/data/a.txt'));
    await nothing(s.python('f = open("/mnt/data/d/b.txt", "r+b"); f.write(b"b"); f.close()'));
    await nothing(s.shell('chmod 640 /mnt/data/a.txt; mv /mnt/data/a.txt /mnt/data/x; mv /mnt/data/x /mnt/data/a.txt'));
    const info = await workspaceOf(s).info();
    assert.deepEqual([info.commits, info.head], [1, made.commit]);
  });
});

describe('provenance', () => {
  test('a version tells its author, execution, code, conversation and message', async () => {
    const s = await session();
    const code = '# made by a model\nopen("/mnt/data/chart.svg", "w").write("<svg/>")';
    const e = await well(s.python(code, { metadata: { conversation: 'conv-7', message: 'msg-3', other: 1 } }));
    const [f] = e.files.created;
    const p = (await request(server, 'GET', `/api/versions/${f.version}/provenance`, { key: author.secret })).body;
    assert.deepEqual([p.kind, p.author, p.session, p.execution, p.language, p.conversation, p.message, p.commit, p.path, p.file_id, p.version],
      ['execution', author.id, s.id, e.id, 'python', 'conv-7', 'msg-3', e.commit, 'chart.svg', f.file_id, f.version]);
    assert.equal(p.code, code);
    assert.equal(p.code_sha256, sha256(code));
    const [h] = (await workspaceOf(s).history('?path=chart.svg')).data;
    assert.deepEqual([h.author, h.execution, h.conversation, h.message, h.change], [author.id, e.id, 'conv-7', 'msg-3', 'created']);
  });

  test('the commit it started from says what it could have read', async () => {
    const s = await session();
    const first = await well(s.python(writing({ a: '1' })));
    const second = await well(s.python(writing({ b: '2' })));
    const of = async (e) => (await server.ok('GET', `/api/versions/${e.files.created[0].version}/provenance`)).base_commit;
    assert.equal(await of(first), null);
    assert.equal(await of(second), first.commit);
  });

  test('another key that executes in the session is the author of what it changed', async () => {
    const other = await mint(server, ['execute', 'files:read', 'files:write']);
    const s = await session({ sharing: 'tenant' });
    await well(s.python(writing({ a: '1' })));
    const e = await server.ok('POST', `${s.path}/executions`, { code: writing({ a: '2' }) }, { key: other.secret });
    const p = await server.ok('GET', `/api/versions/${e.files.modified[0].version}/provenance`);
    assert.equal(p.author, other.id);
  });

  test('a conversation lists every file it caused, over sessions, oldest first', async () => {
    const conversation = `talk/${Date.now()} ü`;
    const one = await session();
    const two = await session();
    await well(one.python(writing({ 'a.csv': '1' }), { metadata: { conversation, message: 'm1' } }));
    await well(one.python(writing({ 'ignored.csv': '1' }), { metadata: { conversation: 'another' } }));
    await well(two.shell('echo 2 > /mnt/data/b.csv', { metadata: { conversation_id: conversation, message_id: 'm2' } }));
    await well(one.python(writing({ 'a.csv': '3' }), { metadata: { conversation, message: 'm3' } }));
    await one.delete();
    const at = `/api/conversations/${encodeURIComponent(conversation)}/files`;
    const { data } = await server.ok('GET', at, undefined, { key: author.secret });
    assert.deepEqual(data.map((f) => [f.workspace, f.path, f.change, f.message]), [
      [one.made.workspace, 'a.csv', 'created', 'm1'], [two.made.workspace, 'b.csv', 'created', 'm2'], [one.made.workspace, 'a.csv', 'modified', 'm3']]);
    assert.equal((await request(server, 'GET', data[0].url, { key: author.secret })).text, '1');
  });

  test('shell commands are code too', async () => {
    const s = await session();
    const e = await well(s.shell('seq 3 > /mnt/data/n.txt'));
    assert.deepEqual(told(e), { created: ['n.txt'] });
    const p = await server.ok('GET', `/api/versions/${e.files.created[0].version}/provenance`);
    assert.deepEqual([p.language, p.code], ['shell', 'seq 3 > /mnt/data/n.txt']);
  });
});

describe('an execution that ends badly', { concurrency: 4 }, () => {
  const kept = async (s, e, outcome) => {
    assert.equal(e.outcome, outcome, JSON.stringify(e.error));
    assert.ok(e.commit, 'committed');
    assert.deepEqual(told(e), { created: ['before.txt'] });
    assert.equal((await workspaceOf(s).get('before.txt')).text, 'written');
  };
  const WRITE = 'open("/mnt/data/before.txt", "w").write("written")\n';

  test('with an exception has committed what it wrote', async () => {
    const s = await session();
    await kept(s, await s.python(`${WRITE}1 / 0`), 'error');
  });

  test('with a non-zero exit status of a shell', async () => {
    const s = await session();
    await kept(s, await s.shell('printf written > /mnt/data/before.txt; exit 3'), 'error');
  });

  test('by timeout, whether it heeds the interrupt or not', async () => {
    const [soft, hard] = await Promise.all([session(), session()]);
    const ignoring = 'import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n';
    const [a, b] = await Promise.all([
      soft.python(`${WRITE}import time; time.sleep(60)`, { timeout_s: 5 }),
      hard.python(`${WRITE}${ignoring}while True: pass`, { timeout_s: 5 })]);
    await kept(soft, a, 'timeout');
    await kept(hard, b, 'timeout');
    assert.equal(b.interpreter_lost, true);
  });

  test('by cancelling it', async () => {
    const s = await session();
    const run = await begun(s, { code: `${WRITE}print("began", flush=True)\nimport time; time.sleep(60)` });
    assert.equal((await request(server, 'POST', `/api/executions/${run.id}/cancel`, { key: author.secret })).status, 202);
    await kept(s, await run.end(), 'cancelled');
  });

  test('by a crash or a kill of the interpreter', async () => {
    const [crash, kill] = await Promise.all([session(), session()]);
    await kept(crash, await crash.python(`${WRITE}import ctypes; ctypes.string_at(0)`), 'crashed');
    await kept(kill, await kill.python(`${WRITE}import os; os.kill(os.getpid(), 9)`), 'killed');
  });

  test('by running out of memory', async () => {
    const s = await session({ limits: { memory_bytes: 128 * 1024 * 1024 } });
    await kept(s, await s.python(`${WRITE}x = []\nwhile True: x.append(bytearray(1 << 20))`), 'oom');
  });

  test('by a reset', async () => {
    const s = await session();
    const run = await begun(s, { code: `${WRITE}print("began", flush=True)\nimport time; time.sleep(60)` });
    await server.ok('POST', `${s.path}/reset`, {}, { key: author.secret });
    await kept(s, await run.end(), 'cancelled');
    assert.deepEqual(await s.json(READING), { 'before.txt': 'written' });
  });

  test('by deleting the session under it', async () => {
    const s = await session();
    await well(s.python(writing({ earlier: '1' })));
    const run = await begun(s, { code: `${WRITE}print("began", flush=True)\nimport time; time.sleep(60)` });
    assert.equal((await s.delete()).status, 204);
    assert.equal((await run.end()).outcome, 'cancelled');
    await until(async () => (await workspaceOf(s).paths()).includes('before.txt'), { ms: 5000, what: 'kept' });
  });
});

describe('many and large', () => {
  test('more changes than are listed are all kept, and it says so', async () => {
    const s = await session();
    const e = await well(s.python('for i in range(1500): open(f"/mnt/data/{i:04}", "w").write(str(i))'));
    assert.equal(e.files.created.length, 1000);
    assert.equal(e.files.truncated, true);
    assert.equal((await workspaceOf(s).info()).files, 1500);
    assert.equal((await workspaceOf(s).get('1499')).text, '1499');
  });

  test('a stream tells the files with its last event, as the answer of a sync call does', async () => {
    const s = await session();
    const run = await begun(s, { code: `${writing({ a: '1' })}print("began")` });
    const e = await run.end();
    assert.deepEqual(told(e), { created: ['a'] });
    assert.deepEqual(await server.ok('GET', `/api/executions/${e.id}`, undefined, { key: author.secret }), e);
  });
});
