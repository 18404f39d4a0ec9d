// SPDX-License-Identifier: Apache-2.0
// Named agents: the agents API of a Foundry project, whose statuses and shapes
// its clients check exactly; responses that refer to an agent, at every
// prefix; the native API.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox } from '../../lib/glovebox.mjs';
import { refused, request } from '../../lib/wire.mjs';

const P = '/api/projects/demo';
const definition = (more = {}) => ({ kind: 'prompt', model: 'echo', instructions: 'Answer briefly.', tools: [{ type: 'code_interpreter' }], ...more });

let server;
before(async () => { server = await Glovebox.start(); });
after(() => server?.stop());

const call = (method, path, body, more = {}) => request(server, method, P + path, { body, ...more });
const good = async (status, method, path, body, more) => {
  const answer = await call(method, path, body, more);
  assert.equal(answer.status, status, `${method} ${path}: ${answer.text}`);
  return answer.body;
};
async function bad(status, code, method, path, body, { param, message, ...more } = {}) {
  const answer = await call(method, path, body, more);
  assert.equal(answer.status, status, `${method} ${path}: ${answer.text}`);
  const { error } = answer.body;
  assert.deepEqual([error.code, typeof error.message, error.details], [code, 'string', []], answer.text);
  assert.match(error.additionalInfo.request_id, /./);
  if (param !== undefined) assert.equal(error.param, param, answer.text);
  if (message) assert.match(error.message, message);
  return error;
}

describe('agents of a project', () => {
  test('a version makes the agent; the same again is the same version', async () => {
    const body = { definition: definition({ extra: { kept: [1] } }), description: 'first', metadata: { a: 'b' } };
    const one = await good(200, 'POST', '/agents/my-agent/versions?api-version=v1', body);
    assert.deepEqual({ ...one, created_at: 0 }, { object: 'agent.version', id: 'my-agent:1', name: 'my-agent', version: '1', description: 'first', metadata: { a: 'b' }, created_at: 0, status: 'active', draft: false, definition: body.definition });
    assert.ok(Math.abs(one.created_at - Date.now() / 1000) < 60, 'seconds');
    assert.equal((await good(200, 'POST', '/agents/my-agent/versions', body)).version, '1');
    assert.equal((await good(200, 'POST', '/agents/my-agent/versions', { ...body, description: 'second' })).version, '2');
    const agent = await good(200, 'GET', '/agents/my-agent');
    assert.deepEqual([agent.object, agent.id, agent.name, agent.state, agent.versions.latest.id], ['agent', 'my-agent', 'my-agent', 'enabled', 'my-agent:2']);
    assert.equal((await good(200, 'GET', '/agents/my-agent/versions/1')).description, 'first');
    assert.equal((await good(200, 'GET', '//agents/my-agent')).id, 'my-agent', 'an endpoint that ends with a slash');
  });

  test('POST /agents makes or extends; POST /agents/{name} needs one', async () => {
    assert.equal((await good(200, 'POST', '/agents', { name: 'Second', definition: definition(), state: 'disabled' })).state, 'disabled');
    assert.equal((await good(200, 'POST', '/agents', { name: 'Second', definition: definition({ temperature: 2 }) })).versions.latest.version, '2');
    assert.equal((await good(200, 'POST', '/agents/Second', { definition: definition({ temperature: 2 }) })).versions.latest.version, '2', 'nothing changed');
    assert.equal((await good(200, 'POST', '/agents/Second', { definition: definition({ temperature: 0 }) })).versions.latest.version, '3');
    await bad(404, 'not_found', 'POST', '/agents/none', { definition: definition() });
    await bad(404, 'not_found', 'GET', '/agents/second', undefined, { message: /no agent is called 'second'/i });
  });

  test('enable and disable are 204', async () => {
    for (const [verb, state] of [[':enable', 'enabled'], ['%3Adisable', 'disabled'], [':enable', 'enabled']]) {
      const answer = await call('POST', `/agents/Second${verb}`);
      assert.deepEqual([answer.status, answer.text], [204, '']);
      assert.equal((await good(200, 'GET', '/agents/Second')).state, state);
    }
    await bad(404, 'not_found', 'POST', '/agents/none:disable');
    await bad(404, 'not_found', 'POST', '/agents/Second:download');
  });

  test('the endpoint is changed by a merge patch', async () => {
    const headers = { 'content-type': 'application/merge-patch+json' };
    const selector = { version_selection_rules: [{ type: 'FixedRatio', agent_version: '2', traffic_percentage: 100 }] };
    const patched = await good(200, 'PATCH', '/agents/Second', { agent_endpoint: { version_selector: selector, protocol_configuration: { responses: {} } } }, { headers });
    assert.deepEqual(patched.agent_endpoint, { version_selector: selector, protocol_configuration: { responses: {} } });
    const less = await good(200, 'PATCH', '/agents/Second', { agent_endpoint: { protocol_configuration: null }, agent_card: { description: 'd' } }, { headers });
    assert.deepEqual([less.agent_endpoint, less.agent_card], [{ version_selector: selector }, { description: 'd' }]);
    const gone = await good(200, 'PATCH', '/agents/Second', { agent_endpoint: null }, { headers });
    assert.deepEqual([gone.agent_endpoint, gone.agent_card], [undefined, { description: 'd' }]);
    await bad(400, 'invalid_payload', 'PATCH', '/agents/Second', { agent_endpoint: 7 }, { headers, param: 'agent_endpoint' });
  });

  test('lists have cursors that outlive what they name', async () => {
    for (let i = 1; i <= 5; i++) await good(200, 'POST', `/agents/list-${i}/versions`, { definition: definition() });
    const names = (list) => list.data.map((one) => one.name);
    const first = await good(200, 'GET', '/agents?limit=2');
    assert.deepEqual([names(first), first.has_more, first.first_id, first.last_id], [['list-5', 'list-4'], true, 'list-5', 'list-4']);
    await good(200, 'DELETE', '/agents/list-4');
    assert.deepEqual(names(await good(200, 'GET', '/agents?limit=2&after=list-4')), ['list-3', 'list-2']);
    assert.deepEqual(names(await good(200, 'GET', '/agents?limit=2&order=asc')), ['my-agent', 'Second']);
    assert.deepEqual(names(await good(200, 'GET', '/agents?limit=1&before=list-2')), ['list-3']);
    assert.deepEqual(await good(200, 'GET', '/agents?kind=workflow'), { object: 'list', data: [], first_id: null, last_id: null, has_more: false });
    const versions = await good(200, 'GET', '/agents/Second/versions?limit=1');
    assert.deepEqual([versions.data[0].id, versions.last_id, versions.has_more], ['Second:3', 'Second:3', true]);
    assert.deepEqual((await good(200, 'GET', '/agents/Second/versions?after=Second%3A2')).data.map((v) => v.version), ['1']);
    await bad(400, 'invalid_payload', 'GET', '/agents?after=unknown');
    for (const limit of ['0', '101', 'x']) assert.equal((await call('GET', `/agents?limit=${limit}`)).status, 400, limit);
    assert.equal((await call('GET', '/agents?limit=100')).status, 200);
  });

  test('drafts are used where they are named', async () => {
    await good(200, 'POST', '/agents/drafty/versions', { definition: definition() });
    assert.equal((await good(200, 'POST', '/agents/drafty/versions', { definition: definition({ instructions: 'new' }), draft: true })).draft, true);
    assert.equal((await good(200, 'GET', '/agents/drafty')).versions.latest.version, '1');
    assert.deepEqual((await good(200, 'GET', '/agents/drafty/versions')).data.map((v) => v.version), ['1']);
    assert.deepEqual((await good(200, 'GET', '/agents/drafty/versions?include_drafts=true')).data.map((v) => v.version), ['2', '1']);
  });

  test('deleting the last version deletes the agent; numbers go on', async () => {
    await good(200, 'POST', '/agents/short/versions', { definition: definition() });
    assert.deepEqual(await good(200, 'DELETE', '/agents/short/versions/1?force=true'), { object: 'agent.version.deleted', name: 'short', version: '1', deleted: true });
    await bad(404, 'not_found', 'GET', '/agents/short');
    await bad(404, 'not_found', 'DELETE', '/agents/short/versions/1');
    assert.equal((await good(200, 'POST', '/agents/short/versions', { definition: definition() })).version, '2');
    assert.deepEqual(await good(200, 'DELETE', '/agents/short'), { object: 'agent.deleted', name: 'short', deleted: true });
    await bad(404, 'not_found', 'DELETE', '/agents/short');
    for (const version of ['0', '01', '-1', 'x', '9'.repeat(30)]) await bad(404, 'not_found', 'GET', `/agents/my-agent/versions/${version}`);
  });

  test('names have their rules', async () => {
    for (const name of ['a', 'A1', 'a-b', 'a'.repeat(63)]) await good(200, 'POST', `/agents/${name}/versions`, { definition: definition() });
    for (const name of ['-a', 'a-', 'a_b', 'a.b', 'ä', 'a'.repeat(64)]) {
      const error = await bad(400, 'invalid_parameters', 'POST', `/agents/${encodeURIComponent(name)}/versions`, { definition: definition() });
      assert.match(error.message, /^agentName\{.*\}: Must start and end with alphanumeric characters/);
    }
  });

  test('definitions are checked when they are stored', async () => {
    const at = '/agents/checked/versions';
    const wrong = [
      [{ kind: 'hosted' }, 'definition.kind'], [{ kind: undefined }, 'definition.kind'], [{ model: '' }, 'definition.model'], [{ model: 'no-such-model' }, 'definition.model'],
      [{ instructions: 7 }, 'definition.instructions'], [{ temperature: 2.1 }, 'definition.temperature'], [{ top_p: -0.1 }, 'definition.top_p'],
      [{ tools: [{ type: 'code_interpreter' }, { type: 'azure_ai_search' }] }, 'definition.tools[1].type'], [{ tools: [{}] }, 'definition.tools[0].type'],
      [{ tools: [{ type: 'function' }] }, 'definition.tools[0].name'], [{ tools: [{ type: 'code_interpreter', container: { type: 'manual' } }] }, 'definition.tools[0].container'],
      [{ skills: [] }, 'definition.skills'], [{ limits: { max_tool_calls: -1 } }, 'definition.limits.max_tool_calls'], [{ limits: { max_seconds: 86401 } }, 'definition.limits.max_seconds'],
      [{ structured_inputs: { x: { required: 'yes' } } }, 'definition.structured_inputs.x'], [{ structured_inputs: { x: { schema: { pattern: 'a' } } } }, 'definition.structured_inputs.x'],
      [{ structured_inputs: { x: {} }, instructions: '{{#if x}}' }, 'definition.instructions'],
    ];
    for (const [more, param] of wrong) await bad(400, 'invalid_payload', 'POST', at, { definition: definition(more) }, { param });
    for (const body of [undefined, 'text', []]) assert.equal((await call('POST', at, body)).status, 400, JSON.stringify(body));
    await bad(400, 'invalid_payload', 'POST', at, {}, { param: 'definition' });
    await bad(404, 'not_found', 'GET', '/agents/checked');
    for (const more of [{ temperature: 2 }, { limits: { max_tool_calls: 0, max_seconds: 86400, max_output_tokens: 16 } }, { instructions: null, tools: null }, { rai_config: { rai_policy_name: 'x' } },
      { tools: [{ type: 'function', name: 'f' }, { type: 'code_interpreter', container: '{{c}}' }, { type: 'code_interpreter', container: { type: 'auto', file_ids: ['{{f}}'] } }], structured_inputs: { c: { type: 'string' }, f: { default_value: '' } } }])
      await good(200, 'POST', at, { definition: definition(more) });
  });

  test('sizes have limits: at, and one above', async () => {
    const at = '/agents/sized/versions';
    const empty = JSON.stringify(definition({ instructions: '' })).length;
    await good(200, 'POST', at, { definition: definition({ instructions: 'x'.repeat(256 * 1024 - empty) }) });
    await bad(400, 'invalid_payload', 'POST', at, { definition: definition({ instructions: 'x'.repeat(256 * 1024 - empty + 1) }) }, { param: 'definition' });
    await good(200, 'POST', at, { definition: definition(), description: 'ä'.repeat(512) });
    await bad(400, 'invalid_payload', 'POST', at, { definition: definition(), description: 'ä'.repeat(513) }, { param: 'description' });
    const pairs = (n) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`k${i}`, 'v']));
    await good(200, 'POST', at, { definition: definition(), metadata: pairs(16) });
    await bad(400, 'invalid_payload', 'POST', at, { definition: definition(), metadata: pairs(17) }, { param: 'metadata' });
    const tools = (n) => Array.from({ length: n }, (_, i) => ({ type: 'function', name: `f${i}` }));
    await good(200, 'POST', at, { definition: definition({ tools: tools(128) }) });
    await bad(400, 'invalid_payload', 'POST', at, { definition: definition({ tools: tools(129) }) }, { param: 'definition.tools' });
  });

  test('request ids come back, and refusals have the form of clients', async () => {
    const answer = await call('GET', '/agents', undefined, { headers: { 'x-ms-client-request-id': 'b7c7d5a0-0000-4000-8000-000000000001' } });
    assert.equal(answer.headers['x-ms-client-request-id'], 'b7c7d5a0-0000-4000-8000-000000000001');
    await bad(401, 'unauthorized', 'GET', '/agents', undefined, { key: 'gbx_wrong' });
    assert.equal((await call('GET', '/agents', undefined, { key: null, headers: { 'api-key': server.key } })).status, 200);
    for (const [method, path] of [['POST', '/agents:import'], ['GET', '/agents/my-agent/endpoint/sessions'], ['GET', '/agents/my-agent/code:download'], ['PUT', '/agents/my-agent'], ['GET', '/applications/x']]) await bad(404, 'not_found', method, path);
    for (const path of ['/assistants', '/threads', '/agents/my-agent/endpoint/protocols/openai/nothing']) {
      const gone = await call('GET', path);
      assert.deepEqual([gone.status, typeof gone.body.error.message], [404, 'string'], path);
    }
  });

  test('the rest of a project: deployments, and empty lists', async () => {
    const { value } = await good(200, 'GET', '/deployments?api-version=v1');
    const echo = value.find((one) => one.name === 'echo');
    assert.deepEqual([echo.type, echo.sku.capacity, echo.modelPublisher], ['ModelDeployment', 1, 'local']);
    assert.deepEqual(await good(200, 'GET', '/deployments/echo'), echo);
    assert.deepEqual(await good(200, 'GET', '/deployments?modelPublisher=other'), { value: [] });
    await bad(404, 'not_found', 'GET', '/deployments/none');
    for (const path of ['/connections', '/datasets', '/indexes']) assert.deepEqual(await good(200, 'GET', path), { value: [] });
    await bad(404, 'not_found', 'GET', '/connections/x');
    await bad(404, 'not_found', 'POST', '/connections/x/getConnectionWithCredentials');
  });
});

describe('a response of an agent', () => {
  const agent = async (name, definition) => { const made = await request(server, 'POST', `${P}/agents/${name}/versions`, { body: { definition: { kind: 'prompt', model: 'echo', ...definition } } }); assert.equal(made.status, 200, made.text); return made.body; };
  const post = (body, path = `${P}/openai/v1/responses`, more = {}) => request(server, 'POST', path, { body, ...more });
  const ref = (name, more = {}) => ({ agent_reference: { type: 'agent_reference', name, ...more } });
  const said = (answer) => { assert.equal(answer.status, 200, answer.text); return answer.body.output.filter((item) => item.type === 'message').at(-1).content[0].text; };
  async function bad(status, body, { path, param, code, message } = {}) {
    const answer = await post(body, path);
    assert.equal(answer.status, status, answer.text);
    if (param) assert.equal(answer.body.error.param, param, answer.text);
    if (code) assert.equal(answer.body.error.code, code, answer.text);
    if (message) assert.match(answer.body.error.message, message);
  }

  before(async () => {
    await agent('helper', { instructions: 'You help {{who}}.', temperature: 0.5, tools: [{ type: 'code_interpreter' }], structured_inputs: { who: { default_value: 'people' } } });
    await agent('strict', { structured_inputs: { need: { required: true, schema: { type: 'integer' } } }, instructions: '{{need}}' });
    await agent('hasty', { tools: [{ type: 'code_interpreter' }], limits: { max_seconds: 1 } });
    await agent('once', { tools: [{ type: 'code_interpreter' }], limits: { max_tool_calls: 1 } });
  });

  test('at every prefix', async () => {
    for (const path of [`${P}/openai/v1/responses`, `${P}//openai/v1/responses`, `${P}/openai/responses?api-version=2025-11-15-preview`, '/v1/responses', '/openai/v1/responses']) {
      for (const member of ['agent_reference', 'agent']) {
        const answer = await post({ [member]: { type: 'agent_reference', name: 'helper' }, input: 'show: instructions' }, path);
        assert.match(said(answer), /You help people\./, path);
        assert.deepEqual([answer.body.agent_reference, answer.body.model, answer.body.temperature], [{ type: 'agent_reference', name: 'helper', version: '1' }, 'echo', 0.5]);
      }
    }
    for (const path of [`${P}/agents/helper/endpoint/protocols/openai/responses?api-version=v1`, `${P}/agents/helper/endpoint/protocols/openai/v1/responses`, `${P}/applications/helper/protocols/openai/responses`]) {
      assert.match(said(await post({ input: 'show: instructions' }, path)), /You help people\./, path);
      assert.match(said(await post({ input: 'show: instructions', ...ref('helper') }, path)), /You help people\./);
      await bad(400, { input: 'x', ...ref('strict') }, { path, message: /helper/ });
    }
    await bad(404, { input: 'x' }, { path: `${P}/agents/nobody/endpoint/protocols/openai/responses` });
    assert.equal((await post({ model: 'echo', input: 'x' })).body.agent_reference, null, 'without an agent it is null');
  });

  test('a tool without a container runs code; files below the endpoint are the same', async () => {
    const answer = await post({ input: 'run: open("/mnt/data/a.txt", "w").write("hello")', ...ref('helper') });
    const cited = answer.body.output.at(-1).content[0].annotations.at(-1);
    assert.equal(cited?.filename, 'a.txt', answer.text);
    for (const prefix of [`${P}/openai/v1`, P, '/v1', `${P}/agents/helper/endpoint/protocols/openai`])
      assert.equal((await request(server, 'GET', `${prefix}/containers/${cited.container_id}/files/${cited.file_id}/content?api-version=v1`)).text, 'hello', prefix);
  });

  test('what the agent settles may be repeated and not changed', async () => {
    for (const same of [{ model: 'echo' }, { temperature: 0.5 }]) assert.equal(said(await post({ input: 'x', ...ref('helper'), ...same })), 'x');
    for (const [param, other] of Object.entries({ model: 'other', temperature: 1, top_p: 0.1, tools: [{ type: 'code_interpreter', container: { type: 'auto' } }], text: { format: { type: 'json_object' } } }))
      await bad(400, { input: 'x', ...ref('helper'), [param]: other }, { param, code: 'invalid_payload', message: /Not allowed when agent is specified/ });
    assert.match(said(await post({ input: 'show: instructions', instructions: 'Be brief, {{who}}.', ...ref('helper') })), /You help people\.\n\nBe brief, people\./, 'instructions follow the agent\'s');
  });

  test('structured inputs fill templates, never twice, and never what users say', async () => {
    const input = [{ role: 'system', content: 'system {{who}}' }, { role: 'user', content: 'show: input {{who}}' }];
    const text = said(await post({ input, structured_inputs: { who: '{{who}}!' }, ...ref('helper') }));
    assert.match(text, /system \{\{who\}\}!/);
    assert.match(text, /show: input \{\{who\}\}[^!]/);
    await bad(400, { input: 'x', ...ref('strict') }, { param: 'structured_inputs.need', message: /required/ });
    await bad(400, { input: 'x', structured_inputs: { need: 'text' }, ...ref('strict') }, { param: 'structured_inputs.need', message: /integer/ });
    assert.match(said(await post({ input: 'show: instructions', structured_inputs: { need: 7 }, ...ref('strict') })), /7/);
    assert.match(said(await post({ model: 'echo', input: 'show: instructions', instructions: 'for {{x}}', structured_inputs: { x: 'you' } })), /for you/, 'without an agent, too');
    assert.match(said(await post({ model: 'echo', input: 'show: instructions', instructions: 'for {{x}}' })), /for \{\{x\}\}/, 'without inputs it is no template');
  });

  test('the limits of the agent hold', async () => {
    const answer = await post({ input: 'run: print("first")\nrun: print("second")', include: ['code_interpreter_call.outputs'], ...ref('once') });
    const ran = answer.body.output.filter((item) => item.type === 'code_interpreter_call' && item.status === 'completed');
    assert.equal(ran.length, 1, answer.text);
    const late = await post({ input: 'slow: 400\nlong: 100', ...ref('hasty') });
    assert.ok(late.status === 504 || late.body.status === 'failed', late.text);
    assert.match(late.text, /1 second|time|deadline/i);
    assert.equal((await post({ input: 'x', max_tool_calls: 5, ...ref('once') })).body.max_tool_calls, 1, 'the smaller one counts');
  });

  test('L1: a key of another tenant has no such agent', async () => {
    const { secret } = await server.ok('POST', '/api/keys', { tenant: 'elsewhere', scopes: ['execute', 'files:read', 'files:write'] });
    const answer = await post({ input: 'x', ...ref('helper') }, `${P}/openai/v1/responses`, { key: secret });
    assert.equal(answer.status, 404, answer.text);
  });
});

describe('native agents', () => {
  const native = (method, path, body, more = {}) => request(server, method, `/api/agents${path}`, { body, ...more });

  test('are created, versioned, disabled and deleted', async () => {
    const made = await native('POST', '', { name: 'own', definition: { model: 'echo', instructions: 'x', limits: { max_tool_calls: 3 } } });
    assert.equal(made.status, 201, made.text);
    assert.deepEqual([made.body.name, made.body.enabled, made.body.shared, made.body.versions, made.body.latest.number, made.body.latest.definition.kind], ['own', true, false, 1, 1, 'prompt']);
    refused(await native('POST', '', { name: 'own', definition: { model: 'echo' } }), 409, 'conflict');
    const version = { definition: { model: 'echo', instructions: 'y' }, description: 'two' };
    assert.deepEqual([(await native('POST', '/own/versions', version)).status, (await native('POST', '/own/versions', version)).status], [201, 200]);
    assert.deepEqual((await native('GET', '/own/versions')).body.data.map((v) => v.number), [2, 1]);
    assert.equal((await native('GET', '/own/versions/2')).body.description, 'two');
    assert.equal((await native('PATCH', '/own', { enabled: false })).body.enabled, false);
    assert.equal((await native('DELETE', '/own/versions/2')).status, 204);
    assert.equal((await native('GET', '/own')).body.latest.number, 1);
    assert.equal((await native('DELETE', '/own')).status, 204);
    refused(await native('GET', '/own'), 404, 'not_found');
    refused(await native('POST', '', { name: 'bad_name', definition: { model: 'echo' } }), 400, 'invalid_request', /hyphens/);
    refused(await native('POST', '', { name: 'typo', definition: { model: 'echo' }, desciption: 'x' }), 400, 'invalid_request', /description/);
  });

  test('I3: belong to a tenant; owners and admins change them, unless they are shared', async () => {
    const key = async (scopes, tenant) => (await server.ok('POST', '/api/keys', { scopes, ...(tenant ? { tenant } : {}) })).secret;
    const [one, two, stranger, reader] = [await key(['execute']), await key(['execute']), await key(['execute'], 'elsewhere'), await key(['files:read'])];
    assert.equal((await native('POST', '', { name: 'mine', definition: { model: 'echo' } }, { key: one })).status, 201);
    assert.equal((await native('GET', '/mine', undefined, { key: two })).status, 200);
    refused(await native('PATCH', '/mine', { enabled: false }, { key: two }), 403, 'forbidden', /another principal/);
    refused(await native('POST', '/mine/versions', { definition: { model: 'echo', top_p: 1 } }, { key: two }), 403, 'forbidden');
    refused(await native('DELETE', '/mine', undefined, { key: two }), 403, 'forbidden');
    refused(await native('GET', '/mine', undefined, { key: stranger }), 404, 'not_found');
    assert.equal((await native('GET', '', undefined, { key: stranger })).body.data.length, 0);
    refused(await native('GET', '/mine', undefined, { key: reader }), 403, 'forbidden');
    assert.equal((await native('PATCH', '/mine', { enabled: false })).status, 200, 'an admin');
    await good(200, 'POST', '/agents/ours/versions', { definition: definition() }, { key: one });
    await good(200, 'POST', '/agents/ours/versions', { definition: definition({ top_p: 1 }) }, { key: two });
    await good(200, 'DELETE', '/agents/ours', undefined, { key: two });
  });

  test('are governed by policy and in the trail without their instructions', async () => {
    const rules = 'version: 1\nrules:\n  - {name: no-agents, match: {action: agent}, then: deny, reason: frozen}\n';
    const put = await request(server, 'PUT', '/api/policy', { body: rules, headers: { 'content-type': 'application/yaml' } });
    assert.ok(put.status < 300, put.text);
    refused(await native('POST', '', { name: 'denied', definition: { model: 'echo', instructions: 'SECRET-WORDS' } }), 403, 'forbidden', /no-agents/);
    await bad(403, 'forbidden', 'POST', '/agents/denied/versions', { definition: definition() });
    await bad(403, 'forbidden', 'POST', '/agents/my-agent:disable');
    const again = await request(server, 'PUT', '/api/policy', { body: 'version: 1\nrules: []\n', headers: { 'content-type': 'application/yaml' } });
    assert.ok(again.status < 300, again.text);
    assert.equal((await native('POST', '', { name: 'denied', definition: { model: 'echo', instructions: 'SECRET-WORDS' } })).status, 201);
    const trail = (await server.ok('GET', '/api/audit?action=agent.&limit=1000')).data;
    for (const action of ['agent.create', 'agent.version', 'agent.enable', 'agent.disable', 'agent.update', 'agent.delete', 'agent.version.delete']) assert.ok(trail.some((event) => event.action === action), action);
    assert.ok(!JSON.stringify(await server.ok('GET', '/api/audit?limit=1000')).includes('SECRET-WORDS'));
  });

  test('D1: outlive a restart', async () => {
    const dir = server.dir;
    await server.stop({ keep: true });
    server = await Glovebox.start({ dir });
    assert.equal((await good(200, 'GET', '/agents/my-agent')).versions.latest.version, '2');
  });
});
