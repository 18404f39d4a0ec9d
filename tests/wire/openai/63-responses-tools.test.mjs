// SPDX-License-Identifier: Apache-2.0
// The service's own tools in the agent loop (the MCP server `glovebox` of a
// request): asked for, listed, called, governed and kept like those of the MCP
// door.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { approvals, decide, policy } from '../../lib/approvals.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { accepted, Door, refused } from '../../lib/openai.mjs';
import { checkOrder, cited, CODE, finished, stream as openStream, text } from '../../lib/responses.mjs';
import { request, stop } from '../../lib/wire.mjs';

const BOX = { type: 'mcp', server_label: 'glovebox' };
let g, door;

const ask = async (body) => accepted(await door.post('/responses', { model: 'echo', ...body }));
const stream = (body, options) => openStream(g, body, options);
const calls = (response) => response.output.filter((i) => i.type === 'mcp_call');

before(async () => {
  g = await Glovebox.start({ config: { pools: [pool({ runtime: 'standard' })] } });
  door = new Door(g);
});
after(() => stop(g));

describe('tools of the service', () => {
  test('are listed once and read what code wrote', async () => {
    const first = await ask({ input: 'run: open("/mnt/data/notes.txt", "w").write("alpha\\nbeta\\n")', tools: [CODE, BOX] });
    const [list] = first.output;
    assert.equal(list.type, 'mcp_list_tools');
    assert.deepEqual([list.server_label, list.tools.map((t) => t.name)], ['glovebox', ['list_files', 'read_file', 'search_files', 'search_workspace', 'generate_pdf_report']]);
    for (const t of list.tools) assert.ok(t.description && t.input_schema.type === 'object' && !t.input_schema.properties.session_id, t.name);
    const got = await ask({ input: 'call: read_file {"path": "notes.txt"}', tools: [BOX], previous_response_id: first.id });
    assert.deepEqual(got.output.map((i) => i.type), ['mcp_call', 'message'], 'the list is in the context already');
    const [call] = calls(got);
    assert.deepEqual([call.status, call.name, call.server_label, call.error, call.arguments], ['completed', 'read_file', 'glovebox', null, '{"path": "notes.txt"}']);
    assert.match(call.output, /alpha/);
    assert.match(text(got), /beta/, 'the model gets the output');
    const found = await ask({ input: 'call: search_files {"pattern": "be.a"}\ncall: list_files {}', tools: [BOX], previous_response_id: got.id });
    assert.match(calls(found)[0].output, /notes\.txt/);
    assert.match(calls(found)[1].output, /notes\.txt/);
  });

  test('a stream has their events, in order, also when it is read again', async () => {
    const s = await stream({ input: 'run: open("/mnt/data/a.txt", "w").write("x")\ncall: list_files {}\ncall: read_file {"path": "none"}\nsay: end', tools: [CODE, BOX] });
    const events = await finished(s);
    const last = checkOrder(events);
    const of = (id) => events.filter((e) => (e.item_id ?? e.item?.id) === id).map((e) => e.type.replace('response.', '')).filter((t) => !/delta/.test(t));
    const [ok, failed] = calls(last);
    assert.deepEqual(of(last.output[0].id), ['output_item.added', 'mcp_list_tools.in_progress', 'mcp_list_tools.completed', 'output_item.done']);
    assert.deepEqual(of(ok.id), ['output_item.added', 'mcp_call.in_progress', 'mcp_call_arguments.done', 'mcp_call.completed', 'output_item.done']);
    assert.deepEqual(of(failed.id), ['output_item.added', 'mcp_call.in_progress', 'mcp_call_arguments.done', 'mcp_call.failed', 'output_item.done']);
    assert.deepEqual([failed.status, failed.output], ['failed', null]);
    assert.match(failed.error, /not_found/);
    await g.stop({ keep: true });
    g = await Glovebox.start({ dir: g.dir, config: { pools: [pool({ runtime: 'standard' })] } });
    door = new Door(g);
    const again = checkOrder((await finished(await stream(null, { method: 'GET', path: `/v1/responses/${last.id}?stream=true` }))).map((e, i) => ({ ...e, sequence_number: i })));
    assert.deepEqual(again.output, last.output);
  });

  test('a report is a file: made, cited, downloaded', async () => {
    const got = await ask({ input: 'call: generate_pdf_report {"markdown": "# Sales\\n\\nUp.", "path": "out/sales.pdf", "title": "Sales"}\nsay: done', tools: [BOX] });
    const [call] = calls(got);
    assert.equal(call.status, 'completed', call.error);
    const [cite] = cited(got);
    assert.equal(cite.filename, 'sales.pdf');
    const file = await request(g, 'GET', `/v1/containers/${cite.container_id}/files/${cite.file_id}/content`);
    assert.equal(file.status, 200);
    assert.equal(file.bytes.subarray(0, 5).toString(), '%PDF-');
  });

  test('search_workspace finds what the caller may see, and nothing else (I8)', async () => {
    const { key } = await g.tenant('elsewhere');
    const other = new Door(g, { key });
    accepted(await other.post('/responses', { model: 'echo', input: 'run: open("/mnt/data/s.txt", "w").write("zebraword theirs")', tools: [CODE] }));
    await ask({ input: 'run: open("/mnt/data/s.txt", "w").write("zebraword mine")', tools: [CODE] });
    let output = '';
    for (let i = 0; i < 50 && !/mine/.test(output); i++) {
      const [call] = calls(await ask({ input: 'call: search_workspace {"query": "zebraword"}', tools: [BOX] }));
      output = call.output;
      if (!/mine/.test(output)) await new Promise((done) => setTimeout(done, 200));
    }
    assert.match(output, /mine/);
    assert.doesNotMatch(output, /theirs/);
  });

  test('L1 a session or workspace of another tenant cannot be named', async () => {
    const { key } = await g.tenant('stranger');
    const other = new Door(g, { key });
    const theirs = accepted(await other.post('/responses', { model: 'echo', input: 'run: open("/mnt/data/secret.txt", "w").write("s3")', tools: [CODE] }));
    const container = theirs.output[0].container_id;
    const session = (await request(g, 'GET', `/api/sessions/${container}`, { key })).body;
    const got = await ask({ input: `call: read_file {"path": "secret.txt", "session_id": "${container}"}\ncall: read_file {"path": "secret.txt", "workspace": "${session.workspace}"}`, tools: [BOX] });
    for (const call of calls(got)) {
      assert.equal(call.status, 'failed');
      assert.doesNotMatch(`${call.output}${call.error}`, /s3/);
    }
  });

  test('allowed_tools: names, a filter, one that is not there', async () => {
    const names = async (allowed_tools) => (await ask({ input: 'x', tools: [{ ...BOX, allowed_tools }] })).output[0].tools.map((t) => t.name);
    assert.deepEqual(await names(['read_file']), ['read_file']);
    assert.deepEqual(await names({ tool_names: ['read_file', 'generate_pdf_report'], read_only: true }), ['read_file']);
    assert.ok(!(await names({ read_only: true })).includes('generate_pdf_report'));
    const hidden = await ask({ input: 'call: generate_pdf_report {"markdown": "x"}', tools: [{ ...BOX, allowed_tools: ['read_file'] }] });
    assert.equal(calls(hidden).length, 0);
    refused(await door.post('/responses', { model: 'echo', input: 'x', tools: [{ ...BOX, allowed_tools: ['launch_rockets'] }] }), 400, { code: 'invalid_value', param: 'tools' });
  });

  test('what is not served is refused by name', async () => {
    const no = async (tool, param, code = 'unsupported_value') => refused(await door.post('/responses', { model: 'echo', input: 'x', tools: [tool] }), 400, { code, param });
    await no({ type: 'mcp', server_label: 'other', server_url: 'https://example.com/mcp' }, 'tools[0].server_label');
    await no({ ...BOX, server_url: 'https://example.com/mcp' }, 'tools[0].server_url');
    await no({ ...BOX, require_approval: 'always' }, 'tools[0].require_approval');
    await no({ ...BOX, authorization: 'secret' }, 'tools[0].authorization', 'unknown_parameter');
    await no({ ...BOX, allowed_tools: [1] }, 'tools[0].allowed_tools', 'invalid_type');
    refused(await door.post('/responses', { model: 'echo', input: 'x', tools: [BOX, BOX] }), 400, { code: 'invalid_value', param: 'tools[1].server_label' });
    await ask({ input: 'x', tools: [{ ...BOX, server_url: 'glovebox:tools', require_approval: 'never' }] });
  });

  test('tool_choice, max_tool_calls and a function of the same name', async () => {
    const forced = await ask({ input: 'x', tools: [BOX], tool_choice: { type: 'mcp', server_label: 'glovebox', name: 'list_files' } });
    assert.equal(calls(forced)[0].name, 'list_files');
    refused(await door.post('/responses', { model: 'echo', input: 'x', tools: [CODE], tool_choice: { type: 'mcp', server_label: 'glovebox' } }), 400, { code: 'invalid_value', param: 'tool_choice' });
    const limited = await ask({ input: 'call: list_files {}\ncall: list_files {"path": "x"}\nsay: end', tools: [BOX], max_tool_calls: 1 });
    assert.deepEqual(calls(limited).map((c) => c.status).slice(0, 1), ['completed']);
    assert.ok(calls(limited).slice(1).every((c) => c.status === 'incomplete'));
    const mine = { type: 'function', name: 'read_file', parameters: { type: 'object', properties: {} }, strict: false };
    const both = await ask({ input: 'call: glovebox_read_file {"path": "none"}\ncall: read_file {}', tools: [BOX, mine] });
    assert.deepEqual(both.output.map((i) => i.type), ['mcp_list_tools', 'mcp_call', 'function_call']);
  });

  test('malformed arguments are told to the model, and the stream ends well', async () => {
    const events = await finished(await stream({ input: 'call: read_file {"path"', tools: [BOX] }));
    const last = checkOrder(events);
    assert.equal(last.status, 'completed');
    for (const c of calls(last)) assert.match(c.error, /JSON|unknown|required|missing/i);
  });

  test('policy sees the tool and the model; a key needs the scope', async () => {
    const key = (await g.ok('POST', '/api/keys', { name: 'runner', scopes: ['execute'] })).secret;
    const runner = new Door(g, { key });
    const got = accepted(await runner.post('/responses', { model: 'echo', input: 'x', tools: [BOX] }));
    assert.deepEqual(got.output[0].tools.map((t) => t.name), ['search_files', 'generate_pdf_report'], 'no scope to read files');
    refused(await runner.post('/responses', { model: 'echo', input: 'x', tools: [{ ...BOX, allowed_tools: ['read_file'] }] }), 400, { code: 'invalid_value', param: 'tools' });
    await policy(g, 'version: 1\nrules:\n  - {name: reports-are-for-people, match: {action: report, trigger: model}, then: deny}\n');
    const denied = await ask({ input: 'call: generate_pdf_report {"markdown": "x"}', tools: [BOX] });
    assert.equal(calls(denied)[0].status, 'failed');
    assert.match(calls(denied)[0].error, /reports-are-for-people/);
    await policy(g, 'version: 1\nrules:\n  - {name: ask-reports, match: {action: report, trigger: model}, then: ask}\n');
    const boss = (await g.ok('POST', '/api/keys', { tenant: 'default', scopes: ['approve'] })).secret;
    for (const [decision, check] of [
      ['approve', (last) => {
        assert.equal(calls(last)[0].status, 'completed', calls(last)[0].error);
        assert.equal(cited(last)[0].filename, 'held.pdf', 'the report is waited for');
      }],
      ['deny', (last) => {
        assert.equal(calls(last)[0].status, 'failed');
        assert.match(calls(last)[0].error, /not today/);
      }],
    ]) {
      const s = await stream({ input: 'call: generate_pdf_report {"markdown": "x", "path": "held.pdf"}\nsay: end', tools: [BOX] });
      const { id } = (await s.find((e) => e.event === 'keepalive' && e.data.pending_approval)).data.pending_approval;
      assert.equal((await approvals(g)).data.find((a) => a.id === id).state, 'pending', 'L5: it waits');
      assert.deepEqual(s.events.filter((e) => /output_item.done/.test(e.event) && e.data.item.type === 'mcp_call'), []);
      assert.equal((await decide(g, id, decision, boss, { reason: 'not today' })).status, 200);
      const events = await finished(s);
      check(checkOrder(events));
    }
    await policy(g, 'version: 1\nrules: []\n');
  });

  test('chat completions and named agents take them too', async () => {
    const made = accepted(await door.post('/chat/completions', { model: 'echo', messages: [{ role: 'user', content: 'run: open("/mnt/data/c.txt", "w").write("via chat")\ncall: read_file {"path": "c.txt"}' }], tools: [{ type: 'code_interpreter' }, BOX] }));
    assert.match(made.choices[0].message.content, /via chat/);
    assert.equal(made.choices[0].finish_reason, 'stop');
    const definition = { kind: 'prompt', model: 'echo', tools: [{ type: 'code_interpreter' }, BOX] };
    assert.equal((await request(g, 'POST', '/api/projects/p/agents/filer/versions?api-version=v1', { body: { definition } })).status, 200);
    const project = new Door(g, { prefix: '/api/projects/p/openai/v1' });
    const agent_reference = { type: 'agent_reference', name: 'filer' };
    const got = accepted(await project.post('/responses', { agent_reference, input: 'call: list_files {}' }));
    assert.equal(calls(got)[0].status, 'completed');
    for (const item of got.output) {
      assert.deepEqual(item.agent_reference, { ...agent_reference, version: '1' });
      assert.equal(item.response_id, got.id);
    }
    const again = accepted(await project.post('/responses', { agent_reference, input: [...got.output, { role: 'user', content: 'say: ok' }] }));
    assert.equal(text(again), 'ok');
  });
});
