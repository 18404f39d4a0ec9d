// SPDX-License-Identifier: Apache-2.0
// Saved tools of workspaces as tools of the MCP server.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, sleep } from '../../lib/glovebox.mjs';
import { Tools } from '../../lib/mcp-tools.mjs';
import { follow, modern } from '../../lib/mcp.mjs';

let server, ws, other;
before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 2 })] } });
  [ws, other] = (await Promise.all(['one', 'two'].map((name) => server.ok('POST', '/api/workspaces', { name })))).map((w) => w.id);
  await server.ok('POST', `/api/workspaces/${ws}/tools`, { name: 'add', description: 'Adds two numbers', code: 'open("/mnt/data/sum.txt", "w").write(str(a + b))\na + b',
    parameters: { properties: { a: { type: 'number' }, b: { type: 'number', default: 1 } }, required: ['a'] } });
  await server.ok('POST', `/api/workspaces/${ws}/tools`, { name: 'say', language: 'shell', code: 'echo "$word"', parameters: { properties: { word: { type: 'string' } } } });
});
after(() => server?.stop());

const saved = async (options) => (await new Tools(server, options).list()).filter((t) => t.name.startsWith('saved_'));

describe('saved tools', () => {
  test('are listed after the others with their schema', async () => {
    const list = await new Tools(server).list();
    assert.deepEqual(list.slice(-2).map((t) => t.name), ['saved_add', 'saved_say']);
    const add = list.at(-2);
    assert.match(add.description, /^Adds two numbers\n/);
    assert.deepEqual(add.inputSchema, { properties: { a: { type: 'number' }, b: { type: 'number', default: 1 } }, required: ['a'], type: 'object', additionalProperties: false });
    assert.deepEqual((await saved({ path: '/mcp' })).length, 2, 'the usual group has them too');
  });

  test('run in a session of their workspace, checked first', async () => {
    const tools = new Tools(server, { conversation: 'c1' });
    const answer = await tools.ok('saved_add', { a: 41 });
    assert.match(answer.text, /42/);
    assert.deepEqual(answer.links.map((l) => l.uri), [`workspace://${ws}/sum.txt`]);
    assert.equal((await tools.ok('saved_add', { a: 1, b: 2 })).data.session_id, answer.data.session_id, 'a conversation keeps its session');
    await tools.refused('saved_add', { a: 'x' }, 'invalid_request', /arguments\.a must be of type number/);
    await tools.refused('saved_add', {}, 'invalid_request', /arguments\.a is required/);
    assert.match((await tools.ok('saved_say', { word: "it's" })).text, /it's/);
    const { error } = await tools.request('tools/call', { name: 'saved_none', arguments: {} });
    assert.match(error.message, /no tool 'saved_none'/);
  });

  test('I3: nobody else has them; a key without the scope sees none', async () => {
    const key = async (more) => (await server.ok('POST', '/api/keys', { scopes: ['execute', 'files:read', 'files:write'], ...more })).secret;
    const foreign = await key({ tenant: 'elsewhere' });
    assert.deepEqual(await saved({ key: foreign }), []);
    assert.ok((await new Tools(server, { key: foreign }).request('tools/call', { name: 'saved_add', arguments: { a: 1 } })).error);
    assert.deepEqual(await saved({ key: await key({ workspaces: [other] }) }), [], 'a key bound to another workspace');
    assert.deepEqual((await saved({ key: await key({ workspaces: [ws] }) })).length, 2);
    assert.deepEqual(await saved({ key: await key({ scopes: ['files:read'] }) }), []);
  });

  test('a change of the list is told to those who see it', async () => {
    const foreign = (await server.ok('POST', '/api/keys', { tenant: 'elsewhere', scopes: ['execute'] })).secret;
    const listen = (options) => follow((on) => modern(server, 'subscriptions/listen', { notifications: { toolsListChanged: true } }, { ...on, ...options }));
    const [mine, theirs] = [listen({ id: 'm' }), listen({ id: 't', key: foreign })];
    for (const stream of [mine, theirs]) assert.equal((await stream.next()).method, 'notifications/subscriptions/acknowledged');
    let told = false;
    void theirs.next((m) => m.method === 'notifications/tools/list_changed').then(() => { told = true; }, () => {});
    await sleep(1500); // it has looked once
    await server.ok('POST', `/api/workspaces/${other}/tools`, { name: 'add', code: 'print("other")' });
    await mine.next((m) => m.method === 'notifications/tools/list_changed');
    await sleep(1200);
    assert.equal(told, false);
    mine.close();
    theirs.close();
  });

  test('names that two workspaces have are told apart', async () => {
    const names = (await saved()).map((t) => t.name);
    assert.deepEqual(names.sort(), [`saved_add_${ws.slice(-8)}`, `saved_add_${other.slice(-8)}`, 'saved_say'].sort());
    const tools = new Tools(server);
    assert.match((await tools.ok(`saved_add_${other.slice(-8)}`)).text, /other/);
    assert.match((await tools.ok(`saved_add_${ws.slice(-8)}`, { a: 1 })).text, /2/);
  });
});
