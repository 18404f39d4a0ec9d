// SPDX-License-Identifier: Apache-2.0
// Responses and the people and rules around them: approvals inside the loop,
// policy about what a model decides, evidence, and a service that is killed in
// the middle.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { approvals, decide, policy } from '../../lib/approvals.mjs';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { accepted, Door } from '../../lib/openai.mjs';
import { request, stop, Stream } from '../../lib/wire.mjs';

const CODE = { type: 'code_interpreter', container: { type: 'auto' } };
const OUTPUTS = ['code_interpreter_call.outputs'];
const logs = (item) => item.outputs.filter((o) => o.type === 'logs').map((o) => o.logs).join('');
const RULES = `version: 1
rules:
  - {name: models-ask, match: {action: execute, trigger: model, code_bytes: "> 60"}, then: ask}
  - {name: models-may-not, match: {action: execute, trigger: model, code_bytes: "> 40"}, then: deny}
`;
const ASKED = `run: open("/mnt/data/ran.txt", "w").write("${'x'.repeat(40)}")`;

describe('held and denied code', () => {
  let g, door, boss;

  before(async () => {
    g = await Glovebox.start({ config: { pools: [pool()], chat_approval_wait_s: 60 } });
    door = new Door(g);
    await policy(g, RULES);
    boss = (await g.ok('POST', '/api/keys', { tenant: 'default', scopes: ['approve'] })).secret;
  });
  after(() => stop(g));

  const hold = async () => {
    const s = await Stream.open(g, 'POST', '/v1/responses', { body: { model: 'echo', stream: true, input: ASKED, tools: [CODE], include: OUTPUTS } });
    const told = await s.find((e) => e.event === 'keepalive');
    return { s, approval: told.data.pending_approval };
  };
  const end = async (s) => (await s.find((e) => /^response\.(completed|failed|incomplete)$/.test(e.event), 30_000)).data.response;

  test('L5 nothing runs before the answer, and the stream says so', async () => {
    const { s, approval } = await hold();
    assert.match(approval.id, /^apr_/);
    const item = s.events.find((e) => e.event === 'response.output_item.added').data.item;
    assert.deepEqual(s.events.filter((e) => e.event === 'response.code_interpreter_call.interpreting'), []);
    const list = accepted(await door.get(`/containers/${item.container_id}/files`));
    assert.deepEqual(list.data, [], 'no file was written');
    assert.equal((await approvals(g)).data.find((a) => a.id === approval.id).state, 'pending');
    assert.equal((await decide(g, approval.id, 'approve', boss, {})).status, 200);
    const got = await end(s);
    assert.equal(got.status, 'completed');
    assert.equal(got.output[0].status, 'completed');
    assert.equal(accepted(await door.get(`/containers/${item.container_id}/files`)).data.length, 1);
  });

  test('L5 a no is told to the model', async () => {
    const { s, approval } = await hold();
    assert.equal((await decide(g, approval.id, 'deny', boss, { reason: 'not today' })).status, 200);
    const got = await end(s);
    assert.equal(got.output[0].status, 'failed');
    assert.match(logs(got.output[0]), /not today/);
    const item = got.output[0];
    assert.deepEqual(accepted(await door.get(`/containers/${item.container_id}/files`)).data, []);
  });

  test('policy knows what a model decided, and evidence what a person asked', async () => {
    const answer = accepted(await door.post('/responses', { model: 'echo', input: `run: print("${'y'.repeat(40)}")`, tools: [CODE], include: OUTPUTS }));
    assert.equal(answer.output[0].status, 'failed');
    assert.match(logs(answer.output[0]), /models-may-not/);
    const free = await g.session();
    assert.equal((await free.python(`print("${'y'.repeat(40)}")`)).outcome, 'ok', 'the same from the client itself');
    const ran = accepted(await door.post('/responses', { model: 'echo', input: 'please\nrun: print(1)', tools: [CODE] }));
    const [row] = await until(async () => {
      const list = (await g.ok('GET', `/api/evidence?session=${ran.output[0].container_id}`)).data;
      return list.length && list;
    }, { what: 'evidence' });
    const page = await g.ok('GET', `/api/executions/${row.execution}/evidence`);
    assert.equal(page.trigger.by, 'model');
    assert.equal(page.trigger.prompt, 'please\nrun: print(1)');
    assert.equal(page.trigger.message, ran.output[0].id);
    const trail = (await request(g, 'GET', '/api/audit?limit=200')).text;
    assert.ok(!trail.includes('please'), 'the trail has no content');
  });
});

test('a killed service: the response is failed, with a reason, and can be fetched', async () => {
  const g = await Glovebox.start({ config: { pools: [pool()] } });
  let again;
  try {
    const door = new Door(g);
    const made = accepted(await door.post('/responses', { model: 'echo', background: true, input: 'run: print("before")\nslow: 100\nlong: 3000', tools: [CODE] }));
    await until(async () => accepted(await door.get(`/responses/${made.id}`)).output.length > 1, { what: 'the second item' });
    g.child.kill('SIGKILL');
    await new Promise((done) => (g.child.exitCode !== null || g.child.signalCode ? done() : g.child.once('exit', done)));
    again = await Glovebox.start({ dir: g.dir, config: { pools: [pool()], chat_approval_wait_s: 0 } });
    const got = accepted(await new Door(again).get(`/responses/${made.id}?include=${OUTPUTS[0]}`));
    assert.equal(got.status, 'failed');
    assert.match(got.error.message, /restarted/);
    assert.equal(logs(got.output[0]), 'before\n', 'what ran is not forgotten');
    const replay = await Stream.open(again, 'GET', `/v1/responses/${made.id}?stream=true`);
    assert.equal((await replay.find((e) => e.event === 'response.failed')).data.response.id, made.id);
    const next = accepted(await new Door(again).post('/responses', { model: 'echo', input: 'on', previous_response_id: made.id }));
    assert.equal(next.output[0].content[0].text, 'on');
    // L5: an approval that does not come in time ends the response, not the
    // request for it.
    await policy(again, 'version: 1\nrules:\n  - {name: code, match: {action: execute, trigger: model}, then: ask}\n  - {name: reports, match: {action: report, trigger: model}, then: ask}\n');
    for (const [input, type] of [['run: print(1)', 'code_interpreter_call'], ['call: generate_pdf_report {"markdown": "x"}', 'mcp_call']]) {
      const held = accepted(await new Door(again).post('/responses', { model: 'echo', input, tools: [CODE, { type: 'mcp', server_label: 'glovebox' }] }));
      assert.equal(held.status, 'completed');
      assert.notEqual(held.output.find((i) => i.type === type).status, 'completed');
      assert.match(JSON.stringify(held.output), /apr_/, 'the answer names the approval');
    }
    assert.deepEqual((await approvals(again)).data.map((a) => a.state), ['pending', 'pending']);
  } finally {
    await stop(again ?? g);
  }
});
