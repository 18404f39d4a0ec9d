// SPDX-License-Identifier: Apache-2.0
// /mcp in the legacy era: the handshake, sessions and whose they are, streams
// that are left and taken up again, cancelling, batches.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, build, sleep, until } from '../../lib/glovebox.mjs';
import { LEGACY, Legacy, follow, refuses, response, result, send } from '../../lib/mcp.mjs';

let g;
before(async () => { g = await Glovebox.start({ program: `${build}/tests/gloveboxd-mcp` }); });
after(() => g?.stop());

const call = (session, name, args = {}, options) => session.request('tools/call', { name, arguments: args }, options);

describe('the handshake', () => {
  test('the asked revision if it is served, else the newest of the era', async () => {
    for (const version of ['2025-11-25', '2025-06-18', '2025-03-26'])
      assert.equal((await Legacy.open(g, { version })).version, version);
    for (const version of ['2024-11-05', '2026-07-28', 'odd'])
      assert.equal((await Legacy.open(g, { version })).version, LEGACY);
  });

  test('it says what the server can do, without what is modern', async () => {
    const { info, id } = await Legacy.open(g);
    assert.deepEqual(Object.keys(info.capabilities).sort(), ['completions', 'logging', 'prompts', 'resources', 'tools']);
    assert.ok(info.serverInfo.name && info.serverInfo.version && info.instructions);
    assert.match(id, /^[\x21-\x7e]{32,}$/);
    assert.ok(!('resultType' in info));
  });
});

describe('sessions', () => {
  test('without one 400, an unknown or ended one 404', async () => {
    const s = await Legacy.open(g);
    const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };
    await refuses(send(g, 'POST', { body: ping }), 400, -32600);
    await refuses(send(g, 'POST', { body: ping, headers: { 'mcp-session-id': `mcp_${'0'.repeat(32)}` } }), 404, -32600);
    await refuses(send(g, 'POST', { body: ping, headers: { 'mcp-session-id': 'odd' } }), 404, -32600);
    assert.deepEqual(response(await s.request('ping')).result, {});
    assert.equal((await s.delete()).status, 204);
    for (const again of [s.request('ping'), s.get(), s.delete(), s.notify('notifications/initialized')]) assert.equal((await again).status, 404);
  });

  test('I3: a session of another key is as unknown as any', async () => {
    const s = await Legacy.open(g);
    const other = (await g.ok('POST', '/api/keys', { tenant: 'default', scopes: ['execute', 'files:read', 'files:write'] })).secret;
    const stranger = await g.tenant('stranger');
    const texts = [];
    for (const key of [other, stranger.key])
      texts.push((await refuses(send(g, 'POST', { key, body: { jsonrpc: '2.0', id: 1, method: 'ping' }, headers: s.headers }), 404, -32600)).answer.text);
    texts.push((await refuses(send(g, 'POST', { body: { jsonrpc: '2.0', id: 1, method: 'ping' }, headers: { ...s.headers, 'mcp-session-id': `mcp_${'1'.repeat(32)}` } }), 404, -32600)).answer.text);
    assert.equal(new Set(texts).size, 1);
    assert.equal((await send(g, 'DELETE', { key: other, headers: s.headers })).status, 404);
    assert.equal((await s.request('ping')).status, 200, 'it still is there for its own');
  });

  test('a revision that is not served is 400; none is fine', async () => {
    const s = await Legacy.open(g);
    assert.equal((await s.request('ping', undefined, { headers: { 'mcp-protocol-version': '2024-01-01' } })).status, 400);
    assert.equal((await send(g, 'POST', { body: { jsonrpc: '2.0', id: 1, method: 'ping' }, headers: { 'mcp-session-id': s.id } })).status, 200);
  });

  test('they are bounded for each key: the one used longest ago goes', async () => {
    const key = (await g.tenant('many')).key;
    const first = await Legacy.open(g, { key });
    const second = await Legacy.open(g, { key });
    for (let i = 0; i < 255; i++)
      assert.equal((await send(g, 'POST', { key, body: { jsonrpc: '2.0', id: 0, method: 'initialize', params: { protocolVersion: LEGACY, capabilities: {}, clientInfo: {} } } })).status, 200);
    assert.equal((await first.request('ping')).status, 404);
    assert.equal((await second.request('ping')).status, 200);
  });

  test('calls of one session share a Python session', async () => {
    const s = await Legacy.open(g);
    await result(call(s, 'execute_python', { code: 'x = 41' }));
    const r = await result(call(s, 'execute_python', { code: 'print(x + 1)' }));
    assert.match(JSON.stringify(r.content), /42/);
    const other = await Legacy.open(g);
    assert.doesNotMatch(JSON.stringify((await result(call(other, 'execute_python', { code: 'print("x" in globals())' }))).content), /True/);
  });
});

describe('methods', () => {
  test('results have no marks of the other era, errors ride on 200', async () => {
    const s = await Legacy.open(g);
    for (const method of ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list']) {
      const r = await result(s.request(method));
      for (const mark of ['resultType', 'ttlMs', 'cacheScope']) assert.ok(!(mark in r), `${method} ${mark}`);
    }
    await refuses(s.request('no/such'), 200, -32601);
    await refuses(s.request('server/discover'), 200, -32601);
    await refuses(s.request('tasks/get', { taskId: 'x' }), 200, -32601);
    await refuses(s.request('resources/read', { uri: 'test://none' }), 200, -32002);
    await refuses(call(s, 'none'), 200, -32602);
    await refuses(s.request('logging/setLevel', { level: 'odd' }), 200, -32602);
    await refuses(s.request('logging/setLevel'), 200, -32602);
  });

  test('the level of the log is the session\'s', async () => {
    const s = await Legacy.open(g);
    const lines = async () => (await call(s, 'test_tool_with_logging')).messages.filter((m) => m.method === 'notifications/message').map((m) => m.params.data);
    assert.deepEqual(await lines(), ['Tool execution started', 'Tool processing data', 'Tool execution completed']);
    assert.deepEqual(await result(s.request('logging/setLevel', { level: 'error' })), {});
    assert.deepEqual(await lines(), []);
    await s.request('logging/setLevel', { level: 'debug' });
    assert.equal((await lines()).length, 4, 'ours at debug comes too');
  });

  test('a tool asks the client, and gets the answer that is posted', async () => {
    const s = await Legacy.open(g, { capabilities: { elicitation: {}, sampling: {} } });
    const answer = await call(s, 'test_elicitation', { message: 'Who?' }, { onEvent: (event) => {
      if (event.data?.method !== 'elicitation/create') return;
      assert.equal(event.data.params.message, 'Who?');
      s.post({ jsonrpc: '2.0', id: event.data.id, result: { action: 'accept', content: { username: 'ann' } } });
    } });
    assert.match(response(answer).result.content[0].text, /"username":"ann"/);
    const refused = await call(s, 'test_sampling', { prompt: 'x' }, { onEvent: (event) => {
      if (event.data?.method === 'sampling/createMessage') s.post({ jsonrpc: '2.0', id: event.data.id, error: { code: -1, message: 'no' } });
    } });
    assert.equal(response(refused).result.isError, true);
    // a client that cannot is not asked
    await refuses(call(await Legacy.open(g), 'test_elicitation', { message: 'x' }), 200, -32602);
    // an answer nobody waits for is taken and dropped
    assert.equal((await s.post({ jsonrpc: '2.0', id: 'ask-999', result: {} })).status, 202);
  });

  test('notifications/cancelled ends the call; nothing is said of it any more', async () => {
    const s = await Legacy.open(g);
    await result(call(s, 'execute_python', { code: 'import time' }));
    const started = Date.now();
    const slow = call(s, 'execute_python', { code: 'time.sleep(100)' }, { id: 'slow' });
    await sleep(700);
    assert.equal((await s.notify('notifications/cancelled', { requestId: 'slow', reason: 'enough' })).status, 202);
    const answer = await slow;
    assert.ok(Date.now() - started < 60_000);
    assert.equal(answer.messages.length, 0, answer.text);
    assert.match(JSON.stringify((await result(call(s, 'execute_python', { code: 'print(6 * 7)' }))).content), /42/);
    // an unknown id, or none, changes nothing
    for (const params of [{ requestId: 'none' }, {}, undefined]) assert.equal((await s.notify('notifications/cancelled', params)).status, 202);
  });

  test('leaving is not cancelling', async () => {
    const s = await Legacy.open(g);
    const code = 'import time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.5)\nopen("/mnt/data/done.txt", "w").write("yes")';
    await s.request('tools/call', { name: 'execute_python', arguments: { code }, _meta: { progressToken: 1 } },
      { onEvent: (event, req) => req.destroy() }).catch(() => {});
    await until(async () => (await result(s.request('resources/list'))).resources.some((r) => r.name === 'done.txt'), { ms: 20_000, every: 300, what: 'the file' });
  });
});

describe('streams', () => {
  test('one standing stream; list changes come by it', async () => {
    const s = await Legacy.open(g);
    const stream = follow((options) => s.get({}, options));
    await stream.next();
    assert.equal((await s.get()).status, 409);
    await call(s, 'test_trigger_tool_change');
    await stream.next((m) => m.method === 'notifications/tools/list_changed');
    await s.delete();
    assert.equal((await stream.ended).status, 200, 'it ends with the session');
  });

  test('406 without the type', async () => {
    const s = await Legacy.open(g);
    assert.equal((await s.get({ accept: 'application/json' })).status, 406);
  });

  test('a watched file that changes is told, and no longer after unsubscribe', async () => {
    const s = await Legacy.open(g);
    const ws = (await g.ok('POST', '/api/workspaces', { name: 'watched' })).id;
    const put = (path, text) => g.ok('PUT', `/api/workspaces/${ws}/files/${path}`, text, { raw: true });
    const stream = follow((options) => s.get({}, options));
    await stream.next();
    const uri = `workspace://${ws}/a.txt`;
    assert.deepEqual(await result(s.request('resources/subscribe', { uri })), {});
    assert.deepEqual(await result(s.request('resources/subscribe', { uri })), {}, 'twice is once');
    await put('b.txt', '1');
    await put('a.txt', '1');
    const { params } = await stream.next((m) => m.method === 'notifications/resources/updated');
    assert.deepEqual(params, { uri });
    assert.deepEqual(await result(s.request('resources/unsubscribe', { uri })), {});
    await put('a.txt', '2');
    await sleep(2500);
    assert.equal(stream.seen.filter((e) => e.data.method === 'notifications/resources/updated').length, 1);
    await refuses(s.request('resources/subscribe', { uri: `workspace://ws_${'0'.repeat(32)}/a` }), 200, -32002);
    stream.close();
  });

  test('events have ids, and what was missed can be had again', async () => {
    const s = await Legacy.open(g);
    const answer = await s.request('tools/call', { name: 'test_tool_with_progress', arguments: {}, _meta: { progressToken: 1 } });
    assert.equal(answer.stream[0].data, undefined, 'opens with an empty event');
    assert.ok(answer.stream[0].retry > 0);
    const ids = answer.stream.map((e) => e.id);
    assert.equal(new Set(ids).size, ids.length);
    for (let i = 0; i < ids.length; i++) {
      const again = await s.get({ 'last-event-id': ids[i] });
      assert.deepEqual(again.stream.map((e) => e.raw), answer.stream.slice(i + 1).map((e) => e.raw));
    }
    for (const id of ['odd', '99-1', '1', '-', '1-x', '1-1-1', '', `${'9'.repeat(40)}-1`]) {
      if (id === '') continue;
      assert.equal((await s.get({ 'last-event-id': id })).status, 404, id);
    }
    // and not by another session
    const other = await Legacy.open(g);
    assert.equal((await other.get({ 'last-event-id': '77-1' })).status, 404);
  });

  test('a stream the server leaves is gone on with', async () => {
    const s = await Legacy.open(g);
    const first = await call(s, 'test_reconnection');
    assert.equal(first.messages.length, 0);
    const rest = await s.get({ 'last-event-id': first.stream.at(-1).id });
    assert.match(response(rest).result.content[0].text, /Reconnection/);
  });

  test('the older revisions get no empty event', async () => {
    const s = await Legacy.open(g, { version: '2025-06-18' });
    const answer = await s.request('tools/call', { name: 'test_tool_with_progress', arguments: {}, _meta: { progressToken: 1 } });
    assert.ok(answer.stream.every((e) => e.data !== undefined));
  });

  test('several at once in one session', async () => {
    const s = await Legacy.open(g);
    const all = await Promise.all([1, 2, 3, 4, 5].map((id) => s.request('tools/call', { name: 'test_tool_with_progress', arguments: {}, _meta: { progressToken: id } }, { id })));
    for (const [i, answer] of all.entries()) {
      assert.equal(response(answer).id, i + 1);
      assert.ok(answer.messages.every((m) => m.id === i + 1 || m.params.progressToken === i + 1), 'each message on its own stream');
    }
  });
});

describe('batches', () => {
  test('only in 2025-03-26, all answers in one array', async () => {
    const s = await Legacy.open(g, { version: '2025-03-26' });
    const answer = await s.post([
      { jsonrpc: '2.0', id: 1, method: 'ping' }, { jsonrpc: '2.0', method: 'notifications/initialized' },
      { jsonrpc: '2.0', id: 'x', method: 'no/such' }, { odd: true }, { jsonrpc: '2.0', id: 2, method: 'initialize', params: {} },
      { jsonrpc: '2.0', id: 3, method: 'tools/call', params: { name: 'test_simple_text', _meta: { progressToken: 1 } } }]);
    assert.equal(answer.status, 200);
    const by = (id) => answer.body.find((m) => m.id === id);
    assert.deepEqual(by(1).result, {});
    assert.equal(by('x').error.code, -32601);
    assert.equal(by(2).error.code, -32600);
    assert.equal(by(undefined).error.code, -32600);
    assert.ok(by(3).result.content);
    assert.equal(answer.body.length, 5);
    assert.equal((await s.post([{ jsonrpc: '2.0', method: 'notifications/initialized' }])).status, 202);
    await refuses((await Legacy.open(g)).post([{ jsonrpc: '2.0', id: 1, method: 'ping' }]), 400, -32600);
  });
});
