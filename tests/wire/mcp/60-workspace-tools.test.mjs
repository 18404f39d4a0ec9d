// SPDX-License-Identifier: Apache-2.0
// The workspace tools: search with citations, history, restore, locks, shares,
// hand-over, what a conversation left; and the three tools of an Azure pool.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { ALL, CORE, WORKSPACE } from '../../lib/mcp-scenario.mjs';
import { Tools } from '../../lib/mcp-tools.mjs';

let g, tools, other, session, workspace;
before(async () => {
  g = await Glovebox.start({ config: { pools: [pool()] } });
  tools = new Tools(g, { conversation: 'talk' });
  other = new Tools(g, { key: (await g.tenant('acme')).key, conversation: 'talk' });
  session = (await tools.ok('execute_python', { code: "open('/mnt/data/notes.md', 'w').write('# Plan\\n\\nThe quokka arrives on Tuesday.\\n')" }, { message: 'm1' })).data.session_id;
  workspace = (await g.ok('GET', `/api/sessions/${session}`)).workspace;
});
after(() => g?.stop());

test('groups: a host can enable only some', async () => {
  const names = async (query) => (await new Tools(g, { path: `/mcp${query}` }).list()).map((t) => t.name);
  const sorted = async (query) => (await names(query)).sort();
  assert.deepEqual(await sorted('?tools=core'), [...CORE].sort());
  assert.deepEqual(await sorted('?tools=workspace'), [...WORKSPACE].sort());
  assert.deepEqual(await sorted('?tools=all'), [...ALL].sort());
});

test('list_workspaces pages, and shows only what one may see', async () => {
  const mine = await tools.ok('list_workspaces', { limit: 100 });
  const entry = mine.data.workspaces.find((w) => w.workspace === workspace);
  assert.equal(entry.role, 'owner');
  assert.equal(entry.files, 1);
  assert.match(mine.text, new RegExp(workspace));
  await g.ok('POST', '/api/workspaces', { name: 'second' });
  const page = await tools.ok('list_workspaces', { limit: 1 });
  assert.equal(page.data.workspaces.length, 1);
  const next = await tools.ok('list_workspaces', { limit: 1, after: page.data.next });
  assert.notEqual(next.data.workspaces[0].workspace, page.data.workspaces[0].workspace);
  assert.ok(!(await other.ok('list_workspaces')).data.workspaces.some((w) => w.workspace === workspace));
  await tools.refused('list_workspaces', { limit: 101 }, 'invalid_request');
});

test('search_workspace cites version and line', async () => {
  const found = await until(async () => {
    const answer = await tools.ok('search_workspace', { query: 'quokka' });
    return answer.data.hits.length && answer;
  }, { what: 'it is indexed' });
  const [hit] = found.data.hits;
  assert.equal(hit.path, 'notes.md');
  assert.equal(hit.workspace, workspace);
  assert.match(hit.snippet, /\*\*quokka\*\*/);
  assert.equal(hit.citation.line, 3);
  assert.match(found.text, /\[1\] notes\.md, line 3/);
  assert.match((await g.call('GET', hit.citation.url)).text, /quokka/);
  assert.equal((await tools.ok('search_workspace', { query: 'quokka', path: 'elsewhere' })).data.hits.length, 0);
  assert.equal((await other.ok('search_workspace', { query: 'quokka' })).data.hits.length, 0);
  await other.refused('search_workspace', { query: 'quokka', workspace }, 'not_found');
  await tools.refused('search_workspace', { query: '' }, 'invalid_request');
  await tools.refused('search_workspace', { query: 'x'.repeat(1001) }, 'invalid_request');
});

test('file_history, and back to a version', async () => {
  await tools.ok('execute_python', { code: "open('/mnt/data/notes.md', 'w').write('ruined')" }, { message: 'm2' });
  const history = await tools.ok('file_history', { path: '/mnt/data/notes.md' });
  const [now, before] = history.data.versions;
  assert.deepEqual([now.change, now.number, before.change, before.number], ['modified', 2, 'created', 1]);
  assert.equal(now.session_id, session);
  assert.equal(now.conversation, 'talk');
  assert.equal(now.message_id, 'm2');
  assert.match(now.execution_id, /^exec_/);
  const restored = await tools.ok('restore_version', { version: before.version });
  assert.deepEqual(restored.data.files.map((f) => [f.path, f.change]), [['notes.md', 'restored']]);
  assert.match((await g.call('GET', restored.data.files[0].url)).text, /quokka/);
  assert.equal((await tools.ok('file_history', { path: 'notes.md' })).data.versions[0].restored_from, before.version);
  const asOf = await tools.ok('restore_version', { commit: now.commit, workspace });
  assert.equal(asOf.data.files[0].path, 'notes.md');
  const page = await tools.ok('file_history', { path: 'notes.md', limit: 1 });
  assert.equal((await tools.ok('file_history', { path: 'notes.md', limit: 1, after: page.data.next })).data.versions.length, 1);
  await tools.refused('restore_version', { path: 'notes.md' }, 'invalid_request', /exactly one/);
  await tools.refused('restore_version', { version: `ver_${'0'.repeat(32)}` }, 'not_found');
  await other.refused('restore_version', { version: before.version }, 'not_found');
  await other.refused('file_history', { path: 'notes.md', workspace }, 'not_found');
});

test('lock_file keeps others out until unlock_file', async () => {
  const lock = (await tools.ok('lock_file', { path: 'plan.txt', seconds: 600, label: 'editing' })).data;
  assert.match(lock.lock_id, /^lock_/);
  assert.ok(lock.lock_token && lock.fence >= 1);
  assert.equal(lock.session_id, session);
  await tools.refused('lock_file', { path: 'plan.txt', workspace }, 'locked', /until/);
  const key = await g.ok('POST', '/api/keys', { tenant: 'default', scopes: ['execute', 'files:read', 'files:write'] });
  const mate = new Tools(g, { key: key.secret, conversation: 'mate' });
  assert.equal((await g.call('PUT', `/api/workspaces/${workspace}/members/${key.id}`, { role: 'editor' })).status, 204);
  const theirs = await mate.call('execute_python', { code: "open('/mnt/data/plan.txt', 'w').write('mine')", workspace });
  assert.match(theirs.text, /lock/);
  assert.ok(theirs.data.files[0].note);
  const mine = await tools.ok('execute_python', { code: "open('/mnt/data/plan.txt', 'w').write('ours')" });
  assert.equal(mine.data.files[0].note, undefined);
  await tools.refused('unlock_file', { lock_id: lock.lock_id, lock_token: 'f'.repeat(64) }, 'locked');
  await tools.refused('unlock_file', { lock_id: lock.lock_id }, 'invalid_request', /exactly one/);
  await tools.ok('unlock_file', { lock_id: lock.lock_id, lock_token: lock.lock_token });
  const second = (await mate.ok('lock_file', { path: 'plan.txt', workspace })).data;
  assert.ok(second.fence > lock.fence);
  await tools.ok('unlock_file', { lock_id: second.lock_id, force: true, workspace });
  for (const seconds of [0, 86_401]) await tools.refused('lock_file', { path: 'p', seconds }, 'invalid_request', /'seconds'/);
});

test('share_session lets others of the tenant in, and out again', async () => {
  const { secret } = await g.ok('POST', '/api/keys', { tenant: 'default', scopes: ['execute', 'files:read'] });
  const mate = new Tools(g, { key: secret });
  await tools.ok('execute_python', { code: 'x = 6' });
  await mate.refused('execute_python', { code: 'x', session_id: session }, 'not_found');
  await mate.refused('share_session', { session_id: session }, 'not_found');
  const shared = await tools.ok('share_session', { session_id: session });
  assert.equal(shared.data.session.sharing, 'tenant');
  assert.equal((await mate.ok('execute_python', { code: 'print(x * 7)', session_id: session })).data.stdout, '42\n');
  assert.ok((await mate.ok('list_sessions', { limit: 100 })).data.sessions.some((s) => s.session_id === session));
  await mate.refused('share_session', { session_id: session, sharing: 'principal' }, 'forbidden', /owner/);
  await tools.refused('share_session', { session_id: session, sharing: 'everyone' }, 'invalid_request', /sharing/);
  assert.equal((await tools.ok('share_session', { session_id: session, sharing: 'principal' })).data.session.sharing, 'principal');
  await mate.refused('execute_python', { code: 'x', session_id: session }, 'not_found');
});

test('share_file makes a link that works without a key', async () => {
  const shared = await tools.ok('share_file', { path: 'notes.md', expires_in_s: 3600, max_downloads: 2 });
  assert.match(shared.data.url, new RegExp(`^${g.url}/s/[0-9a-f]+$`));
  assert.match(shared.text, /only once/);
  const visit = await g.call('GET', shared.data.url, undefined, { key: null });
  assert.equal(visit.status, 200);
  const folder = await tools.ok('share_file', { path: '/mnt/data/', mode: 'write', password: 'pw' });
  assert.equal(folder.data.mode, 'write');
  assert.equal(folder.data.has_password, true);
  assert.equal((await g.call('GET', folder.data.url, undefined, { key: null })).status, 401);
  await tools.refused('share_file', { path: '../x' }, 'invalid_request');
  await other.refused('share_file', { path: 'notes.md', workspace }, 'not_found');
});

test('transfer_workspace: offered, claimed once', async () => {
  const ws = (await g.ok('POST', '/api/workspaces', { name: 'to give' })).id;
  const offered = (await tools.ok('transfer_workspace', { workspace: ws, offer: true, expires_in_s: 60 })).data.offer;
  const taken = await other.ok('transfer_workspace', { claim_token: offered.claim_token });
  assert.equal(taken.data.workspace.workspace, ws);
  assert.equal(taken.data.workspace.role, 'owner');
  await other.refused('transfer_workspace', { claim_token: offered.claim_token }, 'not_found');
  const ws2 = (await g.ok('POST', '/api/workspaces', { name: 'given' })).id;
  const key = await g.ok('POST', '/api/keys', { tenant: 'default', name: 'heir', scopes: ['files:read', 'files:write'] });
  const given = await tools.ok('transfer_workspace', { workspace: ws2, to: 'heir' });
  assert.equal(given.data.workspace.owner, key.id);
  await tools.refused('transfer_workspace', { workspace: ws2, to: 'nobody' }, 'not_found', /no such key/);
  await tools.refused('transfer_workspace', { workspace: ws2 }, 'invalid_request', /exactly one/);
  await tools.refused('transfer_workspace', { offer: true }, 'invalid_request', /'workspace' is missing/);
});

test('conversation_files lists what a conversation made', async () => {
  const t = new Tools(g, { conversation: 'made-things' });
  await t.ok('execute_python', { code: "open('/mnt/data/one.txt', 'w').write('1')" }, { message: 'a' });
  await t.ok('run_shell', { command: 'echo 2 > two.txt' }, { message: 'b' });
  const made = (await t.ok('conversation_files')).data.versions;
  assert.deepEqual(made.map((v) => [v.path, v.message_id]), [['one.txt', 'a'], ['two.txt', 'b']]);
  assert.deepEqual((await tools.ok('conversation_files', { conversation: 'made-things', limit: 1 })).data.versions.map((v) => v.path), ['one.txt']);
  assert.equal((await other.ok('conversation_files', { conversation: 'made-things' })).data.versions.length, 0);
  await new Tools(g).refused('conversation_files', {}, 'invalid_request', /'conversation' is missing/);
});

test('without a workspace or a session one is asked for', async () => {
  const t = new Tools(g, { conversation: 'nothing-yet' });
  await t.refused('file_history', { path: 'x' }, 'not_found', /workspace/);
  await new Tools(g).refused('lock_file', { path: 'x' }, 'invalid_request', /workspace/);
});

test('the tools of an Azure pool', async () => {
  const azure = new Tools(g, { path: '/pools/default/mcp', headers: { 'x-ms-apikey': g.key } });
  const names = (await azure.list()).map((t) => t.name);
  assert.deepEqual(names, ['launchShell', 'runPythonCodeInRemoteEnvironment', 'runShellCommandInRemoteEnvironment']);
  const { environmentId } = (await azure.ok('launchShell')).data;
  const python = (code) => azure.call('runPythonCodeInRemoteEnvironment', { environmentId, pythonCode: code });
  assert.equal((await python('q = 6')).data.environmentId, environmentId);
  assert.equal((await python('print(q * 7)')).data.stdout, '42\n');
  assert.equal((await python('1/0')).isError, true);
  const shell = await azure.ok('runShellCommandInRemoteEnvironment', { environmentId, shellCommand: 'echo "$((1+1))" && echo err >&2' });
  assert.deepEqual([shell.data.stdout, shell.data.stderr], ['2\n', 'err\n']);
  const words = await azure.ok('runShellCommandInRemoteEnvironment', { environmentId, execCommandAndArgs: ['printf', '%s|', "a b", "it's", '$HOME'] });
  assert.equal(words.data.stdout, "a b|it's|$HOME|");
  await azure.refused('runShellCommandInRemoteEnvironment', { environmentId }, 'invalid_request', /exactly one/);
  await azure.refused('runPythonCodeInRemoteEnvironment', { environmentId: 'nope', pythonCode: '1' }, 'not_found', /launchShell/);
});
