// SPDX-License-Identifier: Apache-2.0
// /mcp in the modern era, byte for byte: which era a message belongs to, the
// checks in their order with their codes and statuses, the shape of answers.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox } from '../../lib/glovebox.mjs';
import { CAPABILITIES, LEGACY, MODERN, VERSION, meta, modern, refuses, response, result, send } from '../../lib/mcp.mjs';

let g;
before(async () => { g = await Glovebox.start(); });
after(() => g?.stop());

const post = (body, options = {}) => send(g, 'POST', { body, ...options });
const discover = (extra) => ({ jsonrpc: '2.0', id: 1, method: 'server/discover', params: { _meta: meta() }, ...extra });
const modernHeaders = { 'mcp-protocol-version': MODERN, 'mcp-method': 'server/discover' };
const base64 = (text) => `=?base64?${Buffer.from(text).toString('base64')}?=`;

describe('the body', () => {
  test('what is no JSON, or none we take, is -32700 without an id', async () => {
    for (const body of ['{', '', 'nonsense', '{"a":1,"a":2}', `${'['.repeat(65)}${']'.repeat(65)}`, '{"jsonrpc":"2.0","id":1,"method":"\\u0000"}'])
      await refuses(post(body), 400, -32700);
    const { answer } = await refuses(post('{'), 400, -32700);
    assert.ok(!('id' in answer.body));
  });

  test('what is JSON but no message is -32600; a readable id comes back', async () => {
    const wrong = [1, 'x', null, true, {}, { jsonrpc: '1.0', id: 7, method: 'x' }, { jsonrpc: '2.0', id: 7 },
      { jsonrpc: '2.0', id: 7, method: 5 }, { jsonrpc: '2.0', id: 7, method: '' }, { jsonrpc: '2.0', id: 7, method: 'x', params: [1] },
      { jsonrpc: '2.0', id: null, method: 'ping' }, { jsonrpc: '2.0', id: 1.5, method: 'ping' }, { jsonrpc: '2.0', id: {}, method: 'ping' },
      { jsonrpc: '2.0', result: {} }];
    for (const body of wrong) {
      const { answer } = await refuses(post(JSON.stringify(body)), 400, -32600);
      assert.equal(answer.body.id, body?.id === 7 ? 7 : undefined, JSON.stringify(body));
    }
  });

  test('an id comes back with its type', async () => {
    for (const id of [0, -1, 9007199254740991, '', 'a', 'ä\n"'])
      assert.strictEqual(response(await modern(g, 'server/discover', {}, { id })).id, id);
  });

  test('media types: 415 for the body, 406 for the answer; parameters and blanks are fine', async () => {
    for (const type of ['text/plain', 'application/jsonx', '']) {
      await refuses(post(discover(), { headers: { ...modernHeaders, 'content-type': type } }), 415, -32600);
    }
    for (const accept of ['application/json', 'text/event-stream', 'text/html', ''])
      await refuses(post(discover(), { headers: { ...modernHeaders, accept } }), 406, -32600);
    for (const accept of ['*/*', 'text/event-stream;q=0.5 , application/json', 'application/json, text/event-stream'])
      assert.equal((await post(discover(), { headers: { ...modernHeaders, accept, 'content-type': 'application/json; charset=utf-8' } })).status, 200);
  });

  test('at the limit of 4 MiB it is read, above it is 413', async () => {
    const pad = (n) => JSON.stringify(discover({ pad: 'x'.repeat(n) }));
    const over = pad(0).length;
    assert.equal((await post(pad((4 << 20) - over), { headers: modernHeaders })).status, 200);
    await refuses(post(pad((4 << 20) - over + 1), { headers: modernHeaders }), 413, -32600);
  });

  test('other methods of HTTP are 405 and say what is right', async () => {
    for (const method of ['PUT', 'PATCH']) {
      const answer = await send(g, method, { body: {} });
      assert.equal(answer.status, 405);
      assert.match(answer.headers.allow, /POST/);
    }
  });
});

describe('the era', () => {
  test('the body decides, the header only agrees', async () => {
    // no claim and no header, or a legacy one: legacy, which wants a session
    await refuses(post({ jsonrpc: '2.0', id: 1, method: 'tools/list' }), 400, -32600, /Mcp-Session-Id/);
    await refuses(post({ jsonrpc: '2.0', id: 1, method: 'tools/list' }, { headers: { 'mcp-protocol-version': LEGACY } }), 400, -32600, /Mcp-Session-Id/);
    // no claim, modern header: the missing keys are named
    const { error } = await refuses(post({ jsonrpc: '2.0', id: 1, method: 'tools/list' }, { headers: { 'mcp-protocol-version': MODERN } }), 400, -32602);
    assert.ok(error.message.includes(VERSION) && error.message.includes(CAPABILITIES), error.message);
    // a claim of anything is modern
    const { error: unknown } = await refuses(post({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: { ...meta(), [VERSION]: LEGACY } } }), 400, -32022);
    assert.deepEqual(unknown.data, { supported: [MODERN], requested: LEGACY });
  });

  test('initialize: legacy without a claim, unknown with one, refused beside a modern header', async () => {
    const params = { protocolVersion: LEGACY, capabilities: {}, clientInfo: { name: 't', version: '1' } };
    assert.equal((await post({ jsonrpc: '2.0', id: 1, method: 'initialize', params })).body.result.protocolVersion, LEGACY);
    await refuses(post({ jsonrpc: '2.0', id: 1, method: 'initialize', params }, { headers: { 'mcp-protocol-version': MODERN } }), 400, -32020);
    await refuses(modern(g, 'initialize', {}), 404, -32601);
  });

  test('a batch with a claim, or an empty one, is -32600', async () => {
    await refuses(post([]), 400, -32600);
    await refuses(post([discover()], { headers: modernHeaders }), 400, -32600);
    await refuses(post(Array.from({ length: 51 }, () => ({ jsonrpc: '2.0', id: 1, method: 'ping' }))), 400, -32600);
  });

  test('a notification is 202 without a body, whatever it says', async () => {
    for (const method of ['notifications/cancelled', 'notifications/unknown']) {
      const answer = await post({ jsonrpc: '2.0', method, params: { _meta: meta(), requestId: 1 } });
      assert.equal(answer.status, 202);
      assert.equal(answer.text, '');
    }
  });

  test('methods of the other era do not exist', async () => {
    for (const method of ['ping', 'logging/setLevel', 'resources/subscribe', 'resources/unsubscribe', 'tasks/list', 'tasks/result', 'no/such'])
      await refuses(modern(g, method, {}), 404, -32601);
  });
});

describe('the envelope and its headers', () => {
  test('M3: the checks come in their order, the earliest answers', async () => {
    const wrongVersion = { 'mcp-protocol-version': '2026-01-01' };
    // keys of _meta, before anything about headers
    for (const _meta of [{ [VERSION]: MODERN }, { [VERSION]: MODERN, [CAPABILITIES]: [] }, { [VERSION]: 5, [CAPABILITIES]: {} }])
      await refuses(post({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta } }, { headers: wrongVersion }), 400, -32602);
    // header against body, before whether the version is served
    const old = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: { ...meta(), [VERSION]: '2030-01-01' } } };
    await refuses(post(old, { headers: { 'mcp-protocol-version': MODERN } }), 400, -32020);
    await refuses(post(old, { headers: { 'mcp-protocol-version': '2030-01-01', 'mcp-method': 'tools/call' } }), 400, -32020);
    // the version, before headers that are missing
    await refuses(post(old), 400, -32022);
    await refuses(post(old, { headers: { 'mcp-protocol-version': '2030-01-01' } }), 400, -32022);
    // headers that are missing, before capabilities and methods
    await refuses(modern(g, 'tasks/get', { taskId: 'x' }, { headers: { 'mcp-method': undefined } }), 400, -32020);
    await refuses(modern(g, 'no/such', {}, { headers: { 'mcp-method': undefined } }), 400, -32020);
    // the capability, before the task is looked for
    const { error } = await refuses(modern(g, 'tasks/get', { taskId: 'x' }), 400, -32021);
    assert.deepEqual(error.data, { requiredCapabilities: { extensions: { 'io.modelcontextprotocol/tasks': {} } } });
  });

  test('M3: header and body agree, or the request is refused', async () => {
    const call = (headers) => modern(g, 'tools/call', { name: 'list_files', arguments: {} }, { headers });
    for (const headers of [{ 'mcp-method': 'tools/list' }, { 'mcp-method': 'TOOLS/CALL' }, { 'mcp-method': undefined },
      { 'mcp-name': 'run_shell' }, { 'mcp-name': 'LIST_FILES' }, { 'mcp-name': undefined }, { 'mcp-name': '' },
      { 'mcp-protocol-version': LEGACY }, { 'mcp-protocol-version': undefined },
      { 'mcp-name': base64('run_shell') }, { 'mcp-name': '=?base64?bGlzdF9maWxlcw?=' }, { 'mcp-name': '=?base64?bGlz!!!=?=' },
      { 'mcp-name': '=?BASE64?bGlzdF9maWxlcw==?=' }])
      await refuses(call(headers), 400, -32020);
    for (const headers of [{ 'mcp-name': '  list_files\t' }, { 'mcp-name': base64('list_files') }, { 'Mcp-Method': 'tools/call', 'mcp-method': undefined },
      { 'mcp-session-id': 'ignored', 'last-event-id': '1' }, { 'mcp-param-unknown': 'x' }])
      assert.equal((await call(headers)).status, 200, JSON.stringify(headers));
    // a name that is not ASCII has to be wrapped
    const name = 'prüfung';
    await refuses(modern(g, 'prompts/get', { name }, { headers: { 'mcp-name': base64(name) } }), 200, -32602, /no prompt/);
    await refuses(modern(g, 'resources/read', { uri: 'workspace://x/ä' }, { headers: { 'mcp-name': base64('workspace://x/a') } }), 400, -32020);
  });

  test('clientInfo is neither needed nor believed; unknown members pass', async () => {
    const r = await result(modern(g, 'server/discover', { extra: [1], _meta: { 'com.example/x': 1, 'io.modelcontextprotocol/clientInfo': 'odd' } }));
    assert.equal(r.resultType, 'complete');
  });
});

describe('results', () => {
  test('discovery says what is served, and only that is served', async () => {
    const r = await result(modern(g, 'server/discover'));
    assert.deepEqual(r.supportedVersions, [MODERN]);
    assert.deepEqual(Object.keys(r.capabilities).sort(), ['completions', 'extensions', 'logging', 'prompts', 'resources', 'tools']);
    assert.deepEqual(r._meta['io.modelcontextprotocol/serverInfo'].name, 'glovebox');
    assert.ok(r.ttlMs > 0 && r.cacheScope === 'private' && r.instructions.length > 50);
  });

  test('every list carries caching hints, for the caller alone', async () => {
    for (const [method, scope] of [['tools/list', 'private'], ['prompts/list', 'private'], ['resources/list', 'private'], ['resources/templates/list', 'private']]) {
      const r = await result(modern(g, method));
      assert.equal(r.resultType, 'complete');
      assert.equal(r.cacheScope, scope, method);
      assert.ok(Number.isInteger(r.ttlMs) && r.ttlMs >= 0, method);
      await refuses(modern(g, method, { cursor: 'nonsense' }), 200, -32602);
      await refuses(modern(g, method, { cursor: 5 }), 200, -32602);
      assert.ok((await result(modern(g, method, { cursor: '' }))).resultType);
    }
  });

  test('tools come in a fixed order, by group, with schemas and annotations, and no fixture among them', async () => {
    const list = async (path) => (await result(modern(g, 'tools/list', {}, { path }))).tools;
    const core = await list('/mcp');
    const names = core.map((t) => t.name);
    assert.deepEqual(names, (await list('/mcp?tools=core')).map((t) => t.name));
    for (const name of ['execute_python', 'run_shell', 'generate_pdf_report', 'read_file', 'search_files', 'list_files', 'download_file', 'upload_file'])
      assert.ok(names.includes(name), name);
    assert.ok(!names.some((n) => /^test_|greet|slow_compute|launchShell/.test(n)));
    const workspace = (await list('/mcp?tools=workspace')).map((t) => t.name);
    assert.ok(workspace.includes('search_workspace') && !workspace.includes('execute_python'));
    const all = (await list('/mcp?tools=all')).map((t) => t.name);
    assert.equal(new Set(all).size, all.length);
    assert.deepEqual(all.filter((n) => names.includes(n)), names);
    for (const tool of core) {
      assert.equal(tool.inputSchema.type, 'object', tool.name);
      assert.equal(tool.outputSchema?.type ?? 'object', 'object', tool.name);
      assert.ok(tool.description.length > 40, tool.name);
      assert.match(tool.name, /^[A-Za-z0-9_.-]{1,128}$/);
      for (const hint of ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint']) assert.equal(typeof tool.annotations[hint], 'boolean');
    }
    await refuses(modern(g, 'tools/list', {}, { path: '/mcp?tools=odd' }), 200, -32602);
    // a tool that is not listed cannot be called
    await refuses(modern(g, 'tools/call', { name: 'search_workspace', arguments: {} }), 200, -32602);
  });

  test('an unknown tool is an error, bad arguments are an answer', async () => {
    await refuses(modern(g, 'tools/call', { name: 'no_such_tool' }), 200, -32602);
    await refuses(modern(g, 'tools/call', {}), 200, -32602);
    await refuses(modern(g, 'tools/call', { name: 'execute_python', arguments: [] }), 200, -32602);
    for (const args of [undefined, {}, { code: 5 }, { code: 'x'.repeat(20_001) }, { nonsense: true }]) {
      const r = await result(modern(g, 'tools/call', { name: 'execute_python', ...(args ? { arguments: args } : {}) }));
      assert.equal(r.isError, true, JSON.stringify(args)?.slice(0, 80));
      assert.equal(r.resultType, 'complete');
      assert.ok(r.content[0].text.length > 5);
    }
  });

  test('a call that says nothing meanwhile is one JSON body', async () => {
    const answer = await modern(g, 'tools/call', { name: 'execute_python', arguments: { code: 'print(6 * 7)' } });
    assert.match(answer.headers['content-type'], /^application\/json/);
    assert.match(JSON.stringify(answer.body.result.content), /42/);
  });

  test('progress comes on the request\'s own stream, rising, and the result ends it', async () => {
    const answer = await modern(g, 'tools/call', { name: 'execute_python',
      arguments: { code: 'import time\nfor i in range(4):\n    print("line", i, flush=True)\n    time.sleep(0.3)' }, _meta: { progressToken: 'p1' } });
    assert.equal(answer.status, 200);
    assert.match(answer.headers['content-type'], /^text\/event-stream/);
    assert.equal(answer.headers['x-accel-buffering'], 'no');
    assert.match(answer.headers['cache-control'], /no-store|no-cache/);
    const steps = answer.messages.filter((m) => m.method === 'notifications/progress').map((m) => m.params);
    assert.ok(steps.length > 0, answer.text);
    for (const [i, step] of steps.entries()) {
      assert.equal(step.progressToken, 'p1');
      assert.ok(i === 0 || step.progress > steps[i - 1].progress);
    }
    assert.ok(answer.messages.at(-1).result, 'the result is the last message');
    assert.ok(answer.stream.every((e) => e.id === undefined), 'no event ids in this era');
    assert.ok(answer.messages.slice(0, -1).every((m) => m.method?.startsWith('notifications/')));
  });

  test('log lines come only for whoever asks, at that level', async () => {
    const call = (level) => modern(g, 'tools/call', { name: 'list_files', arguments: {}, _meta: level ? { 'io.modelcontextprotocol/logLevel': level } : {} });
    assert.ok(!(await call()).stream && !(await call('error')).stream);
    const { messages } = await call('debug');
    const line = messages.find((m) => m.method === 'notifications/message');
    assert.equal(line.params.level, 'debug');
  });
});

describe('resources, prompts, completion', () => {
  let ws;
  const files = { 'data/a b.csv': 'x,y\n1,2\n', 'data/ü.txt': 'Grüße', 'logo.png': Buffer.from([0x89, 0x50, 0, 255]), 'empty.txt': '' };
  before(async () => {
    ws = (await g.ok('POST', '/api/workspaces', { name: 'for mcp' })).id;
    for (const [path, bytes] of Object.entries(files))
      await g.ok('PUT', `/api/workspaces/${ws}/files/${path.split('/').map(encodeURIComponent).join('/')}`, bytes, { raw: true });
  });
  const uri = (path) => `workspace://${ws}/${path.split('/').map(encodeURIComponent).join('/')}`;
  const read = (of, options) => modern(g, 'resources/read', { uri: of }, { headers: { 'mcp-name': base64(of) }, ...options });

  test('files of workspaces are listed, newest workspace first, and read back', async () => {
    const { resources } = await result(modern(g, 'resources/list'));
    const mine = resources.filter((r) => r.uri.startsWith(`workspace://${ws}/`));
    assert.deepEqual(mine.map((r) => r.uri).sort(), Object.keys(files).map(uri).sort());
    for (const resource of mine) {
      const path = decodeURIComponent(resource.uri.slice(`workspace://${ws}/`.length));
      assert.equal(resource.size, Buffer.byteLength(files[path]));
      const r = await result(read(resource.uri));
      assert.equal(r.contents.length, 1);
      assert.equal(r.contents[0].uri, resource.uri);
      if (path.endsWith('.png')) assert.deepEqual(Buffer.from(r.contents[0].blob, 'base64'), files[path]);
      else assert.equal(r.contents[0].text, files[path]);
      assert.ok(r.ttlMs >= 0 && r.cacheScope === 'private');
      assert.equal(new URL(resource.uri).href, resource.uri, 'URL parsers leave it alone');
    }
  });

  test('a folder is its names and the files in it', async () => {
    for (const of of [uri('data'), `${uri('data')}/`]) {
      const { contents } = await result(read(of));
      assert.equal(contents[0].mimeType, 'inode/directory');
      assert.deepEqual(contents[0].text.trim().split('\n').sort(), ['a b.csv', 'ü.txt'].sort());
      assert.deepEqual(contents.slice(1).map((c) => c.text).sort(), [files['data/a b.csv'], files['data/ü.txt']].sort());
    }
    const { contents } = await result(read(`workspace://${ws}/`));
    assert.deepEqual(contents[0].text.trim().split('\n').sort(), ['data/', 'empty.txt', 'logo.png']);
  });

  test('what is not there, or not ours, is -32602 with the uri', async () => {
    const foreign = await g.tenant('other');
    for (const of of [uri('nope'), 'workspace://ws_0/x', 'workspace://', `workspace://${ws}/../x`, `workspace://${ws}/%2e%2e/x`,
      'file:///etc/passwd', 'http://example.com/', '', `workspace://${ws}/a%00b`, `workspace://ws_${'0'.repeat(32)}/x`]) {
      const { error } = await refuses(read(of), 200, -32602);
      assert.equal(error.data.uri, of);
    }
    const { error } = await refuses(read(uri('empty.txt'), { key: foreign.key }), 200, -32602);
    assert.deepEqual(error, { ...(await refuses(read(uri('empty.tx'), { key: foreign.key }), 200, -32602)).error, data: { uri: uri('empty.txt') } });
  });

  test('a file above 4 MiB is named by the URL it can be fetched from', async () => {
    const at = async (size) => {
      await g.ok('PUT', `/api/workspaces/${ws}/files/big.bin`, Buffer.alloc(size, 0xff), { raw: true });
      return read(uri('big.bin'));
    };
    assert.equal(Buffer.from((await result(at(4 << 20))).contents[0].blob, 'base64').length, 4 << 20);
    const { error } = await refuses(at((4 << 20) + 1), 200, -32602);
    const fetched = await fetch(error.data.url, { headers: { authorization: `Bearer ${g.key}` } });
    assert.equal((await fetched.arrayBuffer()).byteLength, (4 << 20) + 1);
    await g.call('DELETE', `/api/workspaces/${ws}/files/big.bin`);
  });

  test('lists come in pages that add up', async () => {
    const many = (await g.ok('POST', '/api/workspaces', { name: 'many' })).id;
    const form = new FormData();
    for (let i = 0; i < 60; i++) form.append('file', new Blob([`${i}`]), `f${String(i).padStart(3, '0')}.txt`);
    const put = (folder) => fetch(`${g.url}/api/workspaces/${many}/files?folder=${folder}`, { method: 'POST', headers: { authorization: `Bearer ${g.key}` }, body: form });
    for (const folder of ['a', 'b', 'c']) assert.equal((await put(folder)).status, 201);
    const seen = [];
    let cursor, pages = 0;
    do {
      const r = await result(modern(g, 'resources/list', cursor === undefined ? {} : { cursor }));
      assert.ok(r.resources.length <= 100);
      seen.push(...r.resources.map((x) => x.uri));
      cursor = r.nextCursor;
      assert.ok(++pages < 20);
    } while (cursor !== undefined);
    assert.equal(new Set(seen).size, seen.length, 'nothing twice');
    assert.equal(seen.filter((u) => u.includes(many)).length, 180);
    assert.equal(seen.filter((u) => u.includes(ws)).length, Object.keys(files).length);
    assert.ok(pages >= 2);
  });

  test('templates and completion lead to files', async () => {
    const { resourceTemplates } = await result(modern(g, 'resources/templates/list'));
    const [{ uriTemplate }] = resourceTemplates;
    assert.equal(uriTemplate, 'workspace://{workspace}/{+path}');
    const complete = async (argument, value, context, ref = { type: 'ref/resource', uri: uriTemplate }) =>
      (await result(modern(g, 'completion/complete', { ref, argument: { name: argument, value }, ...(context ? { context: { arguments: context } } : {}) }))).completion;
    assert.deepEqual((await complete('path', 'data/', { workspace: ws })).values, ['data/a b.csv', 'data/ü.txt']);
    assert.deepEqual((await complete('path', '/mnt/data/data/a', { workspace: ws })).values, ['data/a b.csv']);
    assert.deepEqual((await complete('workspace', ws.slice(0, 10))).values, [ws]);
    assert.deepEqual((await complete('path', 'x', { workspace: 'ws_nope' })).values, []);
    const most = await complete('path', '');
    assert.ok(most.values.length === 100 && most.hasMore === true);
    const prompt = { type: 'ref/prompt', name: 'make_report' };
    assert.deepEqual((await complete('style', 's', undefined, prompt)).values, ['summary', 'slides']);
    assert.ok((await complete('path', 'data/', { workspace: ws }, { type: 'ref/prompt', name: 'analyse_csv' })).values.includes('data/a b.csv'));
    for (const params of [{}, { ref: prompt }, { ref: { type: 'odd' }, argument: { name: 'a', value: '' } },
      { ref: { type: 'ref/prompt', name: 'no' }, argument: { name: 'a', value: '' } }, { ref: prompt, argument: { name: 'no', value: '' } }])
      await refuses(modern(g, 'completion/complete', params), 200, -32602);
  });

  test('prompts say what they need', async () => {
    const { prompts } = await result(modern(g, 'prompts/list'));
    assert.deepEqual(prompts.map((p) => p.name), ['analyse_csv', 'make_report', 'clean_data', 'explain_error']);
    const r = await result(modern(g, 'prompts/get', { name: 'analyse_csv', arguments: { path: 'data/a b.csv', question: 'Why "so"?' } }));
    assert.equal(r.messages.length, 1);
    assert.match(r.messages[0].content.text, /data\/a b\.csv[^]*Why "so"\?[^]*execute_python/);
    await refuses(modern(g, 'prompts/get', { name: 'analyse_csv' }), 200, -32602, /path/);
    await refuses(modern(g, 'prompts/get', { name: 'analyse_csv', arguments: { path: 5 } }), 200, -32602);
    await refuses(modern(g, 'prompts/get', { name: 'analyse_csv', arguments: { path: 'x'.repeat(4001) } }), 200, -32602);
    await refuses(modern(g, 'prompts/get', { name: 'none' }), 200, -32602);
  });
});
