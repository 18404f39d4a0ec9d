// SPDX-License-Identifier: Apache-2.0
// Saved tools: code with typed parameters that members of a workspace share,
// and that the agent loop offers to models.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { refused, request } from '../../lib/wire.mjs';

let server, ws;
before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 2 })] } });
  ws = (await server.ok('POST', '/api/workspaces', { name: 'tools' })).id;
});
after(() => server?.stop());

const at = (path = '', workspace = ws) => `/api/workspaces/${workspace}/tools${path}`;
const call = (method, path, body, more = {}) => request(server, method, at(path, more.ws), { body, ...more });
const save = async (body, status = 201) => {
  const answer = await call('POST', '', body);
  assert.equal(answer.status, status, answer.text);
  return answer.body;
};
const run = (name, args, more = {}, options = {}) => call('POST', `/${name}/run`, { arguments: args, ...more }, options);
const out = (answer) => { assert.equal(answer.status, 200, answer.text); return answer.body.stdout; };

const greet = { name: 'greet', description: 'Greets people', code: 'print(f"Hello {who}" + "!" * (times or 0), tags)',
  parameters: { properties: { who: { type: 'string', minLength: 1 }, times: { type: 'integer', minimum: 0, maximum: 5, default: 1 }, tags: { type: 'array', items: { type: 'string' } } }, required: ['who'] } };

describe('saved tools in the agent loop', () => {
  let container;
  const ask = (input, more = {}) => server.ok('POST', '/v1/responses', { model: 'echo', input, include: ['code_interpreter_call.outputs'], tools: [{ type: 'code_interpreter', container }], ...more });
  const calls = (response) => response.output.filter((item) => item.type === 'code_interpreter_call');

  before(async () => {
    const kit = (await server.ok('POST', '/api/workspaces', { name: 'loop' })).id;
    const keep = (body) => server.ok('POST', at('', kit), body);
    await keep({ name: 'add', description: 'Adds', code: 'print("sum", a + b)', parameters: { properties: { a: { type: 'integer' }, b: { type: 'integer', default: 1 } }, required: ['a'] } });
    await keep({ name: 'sh', language: 'shell', code: 'echo x' });
    container = (await server.ok('POST', '/api/sessions', { workspace: kit })).id;
  });

  test('are offered beside the code tool', async () => {
    const { output } = await ask('show: tools');
    const text = JSON.stringify(output);
    assert.ok(text.includes('saved_add') && text.includes('python'), text);
    assert.ok(!text.includes('saved_sh'), 'the code tool is Python');
    assert.ok(!JSON.stringify((await ask('show: tools', { tools: [{ type: 'code_interpreter', container: { type: 'auto' } }] })).output).includes('saved_add'), 'another workspace has none');
    assert.ok(!JSON.stringify((await ask('show: tools', { tools: [] })).output).includes('saved_add'));
  });

  test('run as code of the session', async () => {
    const response = await ask('call: saved_add {"a": 41}');
    const [call] = calls(response);
    assert.deepEqual([call.status, call.container_id, call.code], ['completed', container, 'a = 41; b = 1\nprint("sum", a + b)']);
    assert.match(JSON.stringify(call.outputs), /sum 42/);
    assert.match(JSON.stringify(response.output.at(-1)), /sum 42/);
  });

  test('wrong arguments reach the model as a reason, and nothing runs', async () => {
    const response = await ask('call: saved_add {"a": "x"}');
    assert.match(JSON.stringify(response.output.at(-1)), /arguments\.a must be of type integer/);
    assert.ok(calls(response).every((call) => call.status !== 'completed'), JSON.stringify(calls(response)));
  });

  test('a stream has the code in one piece', async () => {
    const answer = await fetch(`${server.url}/v1/responses`, { method: 'POST', headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'echo', stream: true, input: 'call: saved_add {"a": 1, "b": 2}', tools: [{ type: 'code_interpreter', container }] }) });
    const events = (await answer.text()).split('\n').filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)));
    assert.deepEqual(events.filter((e) => e.type === 'response.code_interpreter_call_code.delta').map((e) => e.delta).join(''), 'a = 1; b = 2\nprint("sum", a + b)');
    assert.equal(events.at(-1).type, 'response.completed');
  });
});

describe('saved tools', () => {
  test('are saved, versioned and run with typed arguments', async () => {
    const made = await save(greet);
    assert.deepEqual([made.name, made.number, made.language, made.parameters.type, made.parameters.additionalProperties], ['greet', 1, 'python', 'object', false]);
    assert.equal((await save(greet, 200)).number, 1, 'the same again is the same version');
    assert.equal(out(await run('greet', { who: `O'Brien "x" \\ 日本 \u{1f600}`, tags: ['a'] })), `Hello O'Brien "x" \\ 日本 \u{1f600}! ['a']\n`);
    assert.equal(out(await run('greet', { who: 'you', times: 3 })), 'Hello you!!! None\n');
    assert.equal((await save({ ...greet, code: 'print("second", who)' })).number, 2);
    assert.equal(out(await run('greet', { who: 'x' })), 'second x\n');
    assert.equal(out(await run('greet', { who: 'x' }, { version: 1 })), 'Hello x! None\n');
    assert.deepEqual((await call('GET', '/greet/versions')).body.data.map((t) => t.number), [2, 1]);
    assert.equal((await call('GET', '/greet/versions/1')).body.code, greet.code);
    assert.deepEqual((await call('GET', '')).body.data.map((t) => [t.name, t.number]), [['greet', 2]]);
  });

  test('of the shell get text that is never code', async () => {
    await save({ name: 'count', language: 'shell', code: 'printf "%s|%s|%s\\n" "$word" "$n" "$list"', parameters: { properties: { word: { type: 'string' }, n: { type: 'number' }, list: { type: 'array' } } } });
    assert.equal(out(await run('count', { word: "a'b; $(id) `id` \"q\"\nline", n: 1.5, list: [1, 'x'] })), "a'b; $(id) `id` \"q\"\nline|1.5|[1,\"x\"]\n");
    assert.equal(out(await run('count')), '||\n');
  });

  test('refuse arguments that do not fit, naming the path', async () => {
    await save({ name: 'deep', code: 'print(rows)', parameters: { properties: { rows: { type: 'array', maxItems: 2, items: { type: 'object', properties: { id: { type: 'integer' } }, required: ['id'], additionalProperties: false } }, mode: { enum: ['a', 'b'] } } } });
    for (const [args, why] of [
      [{ rows: [{ id: 1 }, { id: 'x' }] }, /arguments\.rows\[1\]\.id must be of type integer/], [{ rows: [{}] }, /arguments\.rows\[0\]\.id is required/],
      [{ rows: [{ id: 1, ident: 2 }] }, /arguments\.rows\[0\]\.ident is not known/], [{ rows: [{ id: 1 }, { id: 2 }, { id: 3 }] }, /arguments\.rows must have at most 2 elements/],
      [{ mode: 'c' }, /arguments\.mode must be one of \["a","b"\]/], [{ row: [] }, /arguments\.row is not known; did you mean 'rows'\?/],
    ]) refused(await run('deep', args), 400, 'invalid_request', why);
    assert.equal(out(await run('deep', { rows: [{ id: 1 }, { id: 2 }] })), "[{'id': 1}, {'id': 2}]\n");
    refused(await run('greet', { times: 6, who: 'x' }), 400, 'invalid_request', /arguments\.times must be at most 5/);
    refused(await run('greet', {}), 400, 'invalid_request', /arguments\.who is required/);
    assert.equal((await run('deep', { rows: [], mode: 'a' })).status, 200);
    const text = (n) => ({ who: 'x'.repeat(n) });
    const empty = JSON.stringify(text(0)).length;
    assert.equal((await run('greet', text(65536 - empty))).status, 200);
    refused(await run('greet', text(65536 - empty + 1)), 413, 'too_large');
  });

  test('keep the code of an execution', async () => {
    const session = await server.ok('POST', '/api/sessions', { workspace: ws });
    const ran = await server.ok('POST', `/api/sessions/${session.id}/executions`, { code: 'print(6 * 7)' });
    const made = await save({ name: 'answer', execution: ran.id });
    assert.deepEqual([made.code, made.execution, made.language], ['print(6 * 7)', ran.id, 'python']);
    assert.equal(out(await run('answer')), '42\n');
    refused(await call('POST', '', { name: 'both', execution: ran.id, code: 'x' }), 400, 'invalid_request', /either code or execution/);
    refused(await call('POST', '', { name: 'none', execution: 'exec_00000000000000000000000000000000' }), 404, 'not_found');
  });

  test('are checked when they are saved', async () => {
    const bad = (more, why) => call('POST', '', { name: 'bad', code: 'pass', ...more }).then((answer) => refused(answer, answer.status === 413 ? 413 : 400, answer.status === 413 ? 'too_large' : 'invalid_request', why));
    for (const name of ['', '1a', 'A', 'a-b', 'a'.repeat(49), 'ä']) await bad({ name });
    for (const [parameters, why] of [[{ type: 'array' }, /type object/], [{ properties: { a: { pattern: 'x' } } }, /parameters\.properties\.a\.pattern: this keyword is not supported/], [{ properties: { for: {} } }, /properties\.for/], [{ properties: { Path: {} } }, /lower-case/],
      [{ additionalProperties: true }, /additionalProperties must be false/], [{ properties: { a: { type: 'text' } } }, /parameters\.properties\.a\.type must be/], [{ $ref: '#' }, /\$ref/]]) await bad({ parameters }, why);
    const many = (n) => ({ properties: Object.fromEntries(Array.from({ length: n }, (_, i) => [`p${i}`, {}])) });
    await bad({ parameters: many(33) }, /32 parameters/);
    await bad({ code: 'x'.repeat(65537) });
    await bad({ description: 'd'.repeat(1001) });
    await bad({ timeout_s: 4 });
    await save({ name: 'edge', code: `#${'x'.repeat(65535)}`, description: 'd'.repeat(1000), parameters: many(32), timeout_s: 5 });
    refused(await call('GET', '/bad'), 404, 'not_found');
  });

  test('run in a session of their workspace', async () => {
    const session = await server.ok('POST', '/api/sessions', { workspace: ws });
    await save({ name: 'remember', code: 'seen = globals().get("seen", 0) + step\nprint(seen)\nopen("/mnt/data/seen.txt", "w").write(str(seen))', parameters: { properties: { step: { type: 'integer', default: 2 } } } });
    assert.equal(out(await run('remember', {}, { session: session.id })), '2\n');
    assert.equal(out(await run('remember', { step: 5 }, { session: session.id })), '7\n');
    assert.equal(out(await run('remember')), '2\n', 'a session made for the run knows nothing');
    const other = await server.ok('POST', '/api/sessions', {});
    refused(await run('remember', {}, { session: other.id }), 409, 'conflict', /another workspace/);
    assert.match((await request(server, 'GET', `/api/workspaces/${ws}/files/seen.txt`)).text, /^[27]$/);
  });

  test('I3: are shared by members; roles decide', async () => {
    const key = async (tenant) => (await server.ok('POST', '/api/keys', { scopes: ['execute', 'files:read', 'files:write'], ...(tenant ? { tenant } : {}) }));
    const [viewer, stranger, foreign] = [await key(), await key(), await key('elsewhere')];
    const own = (await server.ok('POST', '/api/workspaces', { name: 'closed', private: true })).id;
    await server.call('DELETE', `/api/workspaces/${own}/members/*`);
    await server.ok('PUT', `/api/workspaces/${own}/members/${viewer.id}`, { role: 'viewer' });
    assert.equal((await call('POST', '', { name: 'mine', code: 'print(1)' }, { ws: own })).status, 201);
    assert.equal((await call('GET', '/mine', undefined, { ws: own, key: viewer.secret })).status, 200);
    refused(await call('POST', '', { name: 'theirs', code: 'print(1)' }, { ws: own, key: viewer.secret }), 403, 'forbidden', /role editor/);
    refused(await call('DELETE', '/mine', undefined, { ws: own, key: viewer.secret }), 403, 'forbidden');
    for (const who of [stranger, foreign]) {
      refused(await call('GET', '/mine', undefined, { ws: own, key: who.secret }), 404, 'not_found');
      refused(await call('POST', '/mine/run', {}, { ws: own, key: who.secret }), 404, 'not_found');
      refused(await call('GET', '', undefined, { ws: own, key: who.secret }), 404, 'not_found');
    }
    assert.equal((await call('POST', '', { name: 'ours', code: 'print(2)' }, { key: stranger.secret })).status, 201, 'the tenant is an editor of the other one');
  });

  test('are governed and in the trail without code; runs have evidence', async () => {
    const put = (text) => request(server, 'PUT', '/api/policy', { body: text, headers: { 'content-type': 'application/yaml' } });
    assert.ok((await put('version: 1\nrules:\n  - {name: no-tools, match: {action: tool}, then: deny}\n  - {name: no-shell, match: {action: execute, language: shell}, then: deny}\n')).status < 300);
    refused(await call('POST', '', { name: 'late', code: 'print("SECRET-WORDS")' }), 403, 'forbidden', /no-tools/);
    refused(await call('DELETE', '/greet'), 403, 'forbidden', /no-tools/);
    const denied = await run('count');
    assert.equal(denied.body.outcome, 'denied', denied.text);
    assert.ok((await put('version: 1\nrules: []\n')).status < 300);
    await save({ name: 'late', code: 'print("SECRET-WORDS")' });
    const ran = (await run('late')).body;
    assert.deepEqual(ran.metadata, { tool: 'late', tool_version: 1 });
    const evidence = await until(async () => { const answer = await server.call('GET', `/api/executions/${ran.id}/evidence`); return answer.status === 200 && answer.body; }, { what: 'evidence' });
    assert.match(JSON.stringify(evidence), /"metadata":\{"tool":"late","tool_version":1\}.*"sha256":"[0-9a-f]{64}"/);
    const trail = JSON.stringify(await server.ok('GET', '/api/audit?limit=1000'));
    assert.ok(trail.includes('"tool.save"') && !trail.includes('SECRET-WORDS'));
  });

  test('go away: one version, the tool, the workspace', async () => {
    assert.equal((await call('DELETE', '/greet/versions/2')).status, 204);
    assert.equal((await call('GET', '/greet')).body.number, 1);
    refused(await call('DELETE', '/greet/versions/2'), 404, 'not_found');
    assert.equal((await save({ ...greet, code: 'print(3)' })).number, 3, 'numbers go on');
    assert.equal((await call('DELETE', '/greet')).status, 204);
    refused(await call('GET', '/greet'), 404, 'not_found');
    refused(await call('GET', '/deep/versions/x'), 404, 'not_found');
    assert.ok((await server.ok('GET', '/api/audit?action=tool.delete')).data.length >= 2);
    const gone = (await server.ok('POST', '/api/workspaces', { name: 'gone' })).id;
    assert.equal((await call('POST', '', { name: 'lost', code: '1' }, { ws: gone })).status, 201);
    assert.equal((await server.call('DELETE', `/api/workspaces/${gone}`)).status, 204);
    refused(await call('GET', '/lost', undefined, { ws: gone }), 404, 'not_found');
  });

  test('D1: outlive a restart', async () => {
    const dir = server.dir;
    await server.stop({ keep: true });
    server = await Glovebox.start({ dir, config: { pools: [pool({ ready: 1 })] } });
    assert.equal((await call('GET', '/deep')).status, 200);
  });

  test('a workspace has at most a hundred, a tool a hundred versions', async () => {
    const full = (await server.ok('POST', '/api/workspaces', { name: 'full' })).id;
    for (let i = 0; i < 100; i++) assert.equal((await call('POST', '', { name: `t${i}`, code: '1' }, { ws: full })).status, 201);
    refused(await call('POST', '', { name: 't100', code: '1' }, { ws: full }), 429, 'limit_reached', /100 tools/);
    for (let i = 2; i <= 100; i++) assert.equal((await call('POST', '', { name: 't0', code: String(i) }, { ws: full })).status, 201);
    refused(await call('POST', '', { name: 't0', code: 'one more' }, { ws: full }), 429, 'limit_reached', /100 versions/);
  });
});

test('GET /api/tools lists the tools of every workspace of the caller, and of no other tenant', async () => {
  const own = await server.ok('POST', '/api/keys', { name: 'lister', tenant: 'listers', scopes: ['execute', 'files:read', 'files:write'] });
  const other = await server.ok('POST', '/api/keys', { name: 'stranger', tenant: 'strangers', scopes: ['execute', 'files:read'] });
  const made = [];
  for (const name of ['one', 'two']) {
    const kit = (await server.ok('POST', '/api/workspaces', { name }, { key: own.secret })).id;
    made.push(kit);
    await server.ok('POST', at('', kit), { name: 'same', code: '1' }, { key: own.secret });
    await server.ok('POST', at('', kit), { name: 'same', code: '2' }, { key: own.secret });
  }
  const list = await server.ok('GET', '/api/tools', undefined, { key: own.secret });
  assert.deepEqual(list.data.map((t) => [t.name, t.number, t.code]), [['same', 2, '2'], ['same', 2, '2']]);
  assert.deepEqual(list.data.map((t) => t.workspace).sort(), made.sort());
  assert.deepEqual((await server.ok('GET', '/api/tools', undefined, { key: other.secret })).data, []);
});
