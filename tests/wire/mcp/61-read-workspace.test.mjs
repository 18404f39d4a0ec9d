// SPDX-License-Identifier: Apache-2.0
// The read tools on what is committed: a search hit is opened by workspace and
// version, a workspace is listed as it was, the newest files come first.
// Workspaces are created and named. A write that a lock refuses says so.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Glovebox, until } from '../../lib/glovebox.mjs';
import { Tools } from '../../lib/mcp-tools.mjs';

let g, t, ws;
before(async () => {
  g = await Glovebox.start();
  t = new Tools(g, { conversation: 'reader' });
  ws = (await t.ok('create_workspace', { name: 'shared notes' })).data.workspace;
});
after(() => g?.stop());

const put = async (path, text) => (await g.call('PUT', `/api/workspaces/${ws}/files/${path}`, text, { raw: true })).body;

test('create_workspace: a new one with a name, or a name for one that exists', async () => {
  assert.match(ws, /^ws_/);
  const own = await t.ok('upload_file', { path: 'a.txt', text: 'a' });
  const { workspace } = (await g.ok('GET', `/api/sessions/${own.data.session_id}`));
  const named = await t.ok('create_workspace', { name: 'kept', workspace });
  assert.deepEqual([named.data.workspace, named.data.name, named.data.created], [workspace, 'kept', false]);
  assert.equal((await g.ok('GET', `/api/workspaces/${workspace}`)).name, 'kept');
  await t.refused('create_workspace', { name: 'x', workspace: `ws_${'0'.repeat(32)}` }, 'not_found');
  await t.refused('create_workspace', { name: '' }, 'invalid_request', /'name'/);
  const other = new Tools(g, { key: (await g.ok('POST', '/api/keys', { tenant: 'other', scopes: ['execute', 'files:read', 'files:write'] })).secret });
  for (const [tool, args] of [['create_workspace', { name: 'stolen', workspace: ws }], ['list_files', { workspace: ws }], ['read_file', { path: 'a.txt', workspace: ws }], ['search_files', { pattern: 'x', workspace: ws }]])
    await other.refused(tool, args, 'not_found');
});

test('a hit of search_workspace is opened with its workspace and version', async () => {
  const first = await put('notes/plan.md', 'one\nthe wombat sleeps\nthree\n');
  await until(async () => (await t.ok('search_workspace', { query: 'wombat', workspace: ws })).data.hits.length > 0, { ms: 30_000, what: 'the hit' });
  const [hit] = (await t.ok('search_workspace', { query: 'wombat' })).data.hits;
  await put('notes/plan.md', 'nothing here\n');
  const args = { path: hit.path, workspace: hit.workspace, version: hit.citation.version };
  const read = await t.ok('read_file', { ...args, offset: hit.citation.line, limit: 1 });
  assert.deepEqual([read.data.text, read.data.workspace, read.data.version, read.data.session_id], ['the wombat sleeps\n', ws, first.version, undefined]);
  assert.match(read.text, new RegExp(`lines 2 to 2 of notes/plan.md in ${ws}; go on with offset 3`));
  assert.equal((await t.ok('read_file', { path: hit.path, workspace: ws })).data.text, 'nothing here\n');
  await t.refused('read_file', { path: 'notes/none.md', workspace: ws }, 'not_found', /list_files/);
  await t.refused('read_file', { path: hit.path, workspace: ws, version: `ver_${'0'.repeat(40)}` }, 'not_found');
  // version alone is one of the session's workspace
  const session = await t.ok('upload_file', { path: 'v.txt', text: 'old' });
  await t.ok('upload_file', { path: 'v.txt', text: 'new' });
  assert.equal((await t.ok('read_file', { path: 'v.txt', version: session.data.file.version })).data.text, 'old\n');
  assert.equal((await t.ok('read_file', { path: 'v.txt' })).data.text, 'new\n');
});

test('list_files of a workspace, as it was, and the newest first', async () => {
  const before_ = await put('list/b.txt', '1');
  await put('list/a.txt', '2');
  await put('list/c.txt', '3');
  const paths = async (args) => (await t.ok('list_files', { workspace: ws, path: 'list', ...args })).data.files.map((f) => f.path);
  assert.deepEqual(await paths({}), ['list/a.txt', 'list/b.txt', 'list/c.txt']);
  assert.deepEqual(await paths({ sort: 'newest' }), ['list/c.txt', 'list/a.txt', 'list/b.txt']);
  assert.deepEqual(await paths({ sort: 'newest', limit: 2 }), ['list/c.txt', 'list/a.txt']);
  assert.deepEqual(await paths({ version: before_.version }), ['list/b.txt']);
  assert.deepEqual(await paths({ version: before_.commit }), ['list/b.txt']);
  await t.refused('list_files', { workspace: ws, version: 'cmt_none' }, 'not_found');
  const listed = await t.ok('list_files', { workspace: ws, path: 'list', sort: 'newest', limit: 2 });
  assert.equal(listed.data.more, true);
  assert.match(listed.text, /^list\/c\.txt \(1 B, \d{4}-\d\d-\d\dT/m);
  assert.equal(listed.data.workspace, ws);
  assert.equal((await g.call('GET', listed.data.files[0].url)).text, '3');
});

test('search_files of a workspace', async () => {
  await put('grep/x.txt', 'first line\nneedle here\n');
  const found = await t.ok('search_files', { pattern: 'needle', workspace: ws });
  assert.equal(found.data.matches, 1);
  assert.equal(found.data.lines[0].path, 'grep/x.txt');
});

test('lists have names, times and the newest files', async () => {
  await put('list/d.txt', '4');
  const spaces = await t.ok('list_workspaces', { limit: 100 });
  const entry = spaces.data.workspaces.find((w) => w.workspace === ws);
  assert.equal(entry.name, 'shared notes');
  assert.equal(entry.newest.length, 3);
  assert.equal(entry.newest[0].path, 'list/d.txt');
  assert.match(spaces.text, new RegExp(`${ws} "shared notes": \\d+ files, [^\\n]* changed \\d{4}-[^\\n]*, newest: list/d.txt, `));
  await g.ok('DELETE', `/api/workspaces/${ws}/files/list/d.txt`);
  assert.ok(!(await t.ok('list_workspaces', { limit: 100 })).data.workspaces.find((w) => w.workspace === ws).newest.some((f) => f.path === 'list/d.txt'));
  const { session_id } = (await t.ok('execute_python', { code: "open('/mnt/data/mine.txt', 'w').write('x')" })).data;
  const sessions = await t.ok('list_sessions', { limit: 100 });
  const mine = sessions.data.sessions.find((s) => s.session_id === session_id);
  assert.equal(mine.newest[0].path, 'mine.txt');
  assert.match(sessions.text, new RegExp(`${session_id}: idle, last used \\d{4}-[^\\n]* workspace ws_[^\\n]*, newest: mine.txt`));
});

test('a write that a lock refuses has the status locked, and is stored once the lock ends', async () => {
  const key = await g.ok('POST', '/api/keys', { tenant: 'default', scopes: ['execute', 'files:read', 'files:write'] });
  const mate = new Tools(g, { key: key.secret, conversation: 'mate' });
  await put('plan.txt', 'ours');
  const lock = await g.ok('POST', `/api/workspaces/${ws}/locks`, { path: 'plan.txt', ttl_s: 600 });
  assert.equal((await g.call('PUT', `/api/workspaces/${ws}/members/${key.id}`, { role: 'editor' })).status, 204);
  const wrote = await mate.call('execute_python', { code: "print('done')\nopen('/mnt/data/plan.txt', 'w').write('mine')", workspace: ws });
  assert.deepEqual([wrote.data.status, wrote.isError ?? false, wrote.data.stdout], ['locked', false, 'done\n']);
  assert.match(wrote.data.message, /a lock kept files from being stored/);
  assert.match(wrote.data.hint, /Wait until the lock ends, or write to another name/);
  assert.equal(wrote.data.files[0].status, 'locked');
  assert.match(wrote.text, /\[status: locked, /);
  const { session_id } = wrote.data;
  const up = await mate.refused('upload_file', { path: 'plan.txt', text: 'mine', session_id }, 'locked', /lock/);
  assert.match(up.data.hint, /Wait until the lock ends/);
  assert.doesNotMatch(up.data.hint, /its token/);
  assert.equal((await g.call('GET', `/api/workspaces/${ws}/files/plan.txt`)).text, 'ours');
  assert.equal((await g.call('DELETE', `/api/workspaces/${ws}/locks/${lock.id}`, undefined, { headers: { 'x-glovebox-lock': lock.token } })).status, 204);
  assert.equal((await mate.ok('execute_python', { code: '1', session_id })).data.status, 'ok');
  assert.equal((await g.call('GET', `/api/workspaces/${ws}/files/plan.txt`)).text, 'mine');
});

test('share_file and upload_link: links that end', async () => {
  const { session_id } = (await t.ok('execute_python', { code: "n = 1\nopen('/mnt/data/out.txt', 'w').write('result')" })).data;
  const shared = await t.ok('share_file', { path: 'out.txt' });
  assert.ok(Math.abs(Date.parse(shared.data.expires_at) - Date.now() - 3600_000) < 60_000);
  assert.equal(await (await fetch(shared.data.url)).text(), 'result');
  const asked = await t.ok('upload_link', { path: 'big/user.csv', expires_in_s: 60 });
  assert.ok(asked.data.url.startsWith(`${g.url}/s/`) && asked.text.includes(asked.data.url));
  assert.ok(Math.abs(Date.parse(asked.data.expires_at) - Date.now() - 60_000) < 30_000);
  assert.match(await (await fetch(asked.data.url)).text(), /<form /);
  assert.equal((await fetch(asked.data.url, { method: 'PUT', body: 'a,b\n1,2\n' })).status, 201);
  assert.equal((await fetch(asked.data.url, { method: 'PUT', body: 'x' })).status, 404);
  assert.equal((await t.ok('refresh_session', { session_id })).data.changed, 1);
  assert.equal((await t.ok('execute_python', { code: "print(n, open('/mnt/data/big/user.csv').read())", session_id })).data.stdout, '1 a,b\n1,2\n\n');
  for (const expires_in_s of [0, 86_401]) await t.refused('upload_link', { path: 'x', expires_in_s }, 'invalid_request', /'expires_in_s'/);
  await t.refused('upload_link', { path: '../x' }, 'invalid_request');
  // Without a session there is a new one, and the answer says so.
  assert.match((await new Tools(g).ok('upload_link', { path: 'x.bin' })).text, /\[new session cntr_/);
});
