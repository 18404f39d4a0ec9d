// SPDX-License-Identifier: Apache-2.0
// Which session a call uses when it names none: one for each process of
// `glovebox mcp` and each legacy MCP session, else a new one that the answer
// announces. Ending a session, and bringing others' commits into a live one.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox } from '../../lib/glovebox.mjs';
import { Legacy, response } from '../../lib/mcp.mjs';
import { Bridge } from '../../lib/mcp-stdio.mjs';
import { Tools } from '../../lib/mcp-tools.mjs';

let g, cli;
before(async () => {
  g = await Glovebox.start();
  cli = new Cli(g);
});
after(async () => {
  cli.close();
  await g.stop();
});

test('without anything in common a call gets a new session, says so and names the latest', async () => {
  const t = new Tools(g);
  const first = await t.ok('execute_python', { code: 'x = 1' });
  const { session_id: one } = first.data;
  assert.ok(first.text.includes(`[new session ${one}: pass it as session_id`), first.text);
  assert.equal(first._meta['com.glovebox/new_session'], one);
  const second = await t.ok('upload_file', { path: 'a.txt', text: 'a' });
  const two = second.data.session_id;
  assert.notEqual(two, one);
  assert.match(second.text, new RegExp(`\\[new session ${two}: .* Your latest others: ${one} \\(1 executions, last used \\d{4}-`));
  const named = await t.ok('execute_python', { code: 'x', session_id: one });
  assert.equal(named.data.result, '1');
  assert.doesNotMatch(named.text, /new session/);
  assert.equal(named._meta['com.glovebox/new_session'], undefined);
  // A failure of the code is in a new session all the same.
  const failed = await t.call('execute_python', { code: '1/0' });
  assert.ok(failed.isError && failed.text.includes(`[new session ${failed.data.session_id}`));
  // At most three are named, newest first, and none of another key.
  const other = new Tools(g, { key: (await g.ok('POST', '/api/keys', { tenant: 'default', scopes: ['execute', 'files:read', 'files:write'] })).secret });
  const theirs = await other.ok('execute_python', { code: '1' });
  assert.ok(!theirs.text.includes('latest others') && !theirs.text.includes(one));
  const last = await t.ok('execute_python', { code: '1' });
  assert.deepEqual([...last.text.matchAll(/(cntr_\w+) \(/g)].map((m) => m[1]).length, 3);
  await t.refused('read_file', { path: 'a.txt' }, 'invalid_request', new RegExp(`the latest: ${last.data.session_id}, `));
});

test('one session for each process of glovebox mcp, in both eras', async () => {
  const bridges = [new Bridge(cli), new Bridge(cli), new Bridge(cli)];
  const ids = [];
  for (const [i, bridge] of bridges.entries()) {
    if (i === 2) await bridge.initialize();
    const call = (code) => (i === 2 ? bridge.legacy('execute_python', { code }) : bridge.call('execute_python', { code }));
    const made = await call('x = 41');
    const again = await call('x + 1');
    assert.equal(again.structuredContent.result, '42');
    assert.equal(again.structuredContent.session_id, made.structuredContent.session_id);
    assert.doesNotMatch(JSON.stringify(made.content), /new session/);
    ids.push(made.structuredContent.session_id);
  }
  assert.equal(new Set(ids).size, 3);
  // A conversation that the host names has its own.
  const own = await bridges[0].modern('tools/call', { name: 'execute_python', arguments: { code: '1' }, _meta: { 'com.glovebox/conversation': 'c1' } });
  assert.notEqual(own.structuredContent.session_id, ids[0]);
  for (const bridge of bridges) await bridge.end();
});

test('a process id that is none is not used', async () => {
  const t = new Tools(g, { headers: { authorization: `Bearer ${g.key}`, 'x-glovebox-process': 'anything' } });
  const ids = [await t.ok('execute_python', { code: '1' }), await t.ok('execute_python', { code: '1' })].map((a) => a.data.session_id);
  assert.notEqual(ids[0], ids[1]);
});

test('one session for each legacy MCP session', async () => {
  const run = async (s, code) => response(await s.request('tools/call', { name: 'execute_python', arguments: { code } })).result;
  const [a, b] = [await Legacy.open(g), await Legacy.open(g)];
  const first = await run(a, 'y = 5');
  assert.equal((await run(a, 'y')).structuredContent.result, '5');
  assert.equal((await run(b, 'y')).isError, true);
  assert.doesNotMatch(JSON.stringify(first.content), /new session/);
});

test('end_session: variables go, files stay in the workspace', async () => {
  const t = new Tools(g, { conversation: 'ends' });
  const made = await t.ok('execute_python', { code: "v = 1\nopen('/mnt/data/kept.txt', 'w').write('k')" });
  const ended = await t.ok('end_session');
  assert.equal(ended.data.session_id, made.data.session_id);
  assert.ok(ended.text.includes(ended.data.workspace));
  assert.equal((await g.call('GET', `/api/sessions/${made.data.session_id}`)).status, 404);
  assert.equal((await g.call('GET', `/api/workspaces/${ended.data.workspace}/files/kept.txt`)).text, 'k');
  await t.refused('end_session', {}, 'not_found', /no session yet/);
  await t.refused('end_session', { session_id: made.data.session_id }, 'not_found');
  const next = await t.ok('execute_python', { code: "'v' in globals()" });
  assert.equal(next.data.result, 'False');
  assert.notEqual(next.data.session_id, made.data.session_id);
});

test('refresh_session: commits of others come into the live session, variables stay', async () => {
  const ws = (await g.ok('POST', '/api/workspaces', { name: 'both' })).id;
  const [a, b] = [new Tools(g, { conversation: 'agent a' }), new Tools(g, { conversation: 'agent b' })];
  const { session_id } = (await a.ok('execute_python', { code: 'n = 7', workspace: ws })).data;
  await b.ok('execute_python', { code: "open('/mnt/data/from-b.txt', 'w').write('hello')", workspace: ws });
  const look = "import os\nprint(n, os.path.exists('/mnt/data/from-b.txt'))";
  assert.equal((await a.ok('execute_python', { code: look, session_id })).data.stdout, '7 False\n');
  const fresh = await a.ok('refresh_session', { session_id });
  assert.deepEqual([fresh.data.changed, fresh.data.session.session_id], [1, session_id]);
  assert.equal((await a.ok('execute_python', { code: look, session_id })).data.stdout, '7 True\n');
  assert.equal((await a.ok('refresh_session', { session_id })).data.changed, 0);
});
