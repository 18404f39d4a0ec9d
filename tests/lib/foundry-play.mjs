// SPDX-License-Identifier: Apache-2.0
// Plays a scenario with one version of Foundry's project client, in a process
// of its own that trusts the test's certificate. Standard input: the folder of
// the client, the project's address and a key. Standard output: a line of JSON
// for each step.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { text } from 'node:stream/consumers';

const { folder, endpoint, key, old } = JSON.parse(await text(process.stdin));
const require = createRequire(pathToFileURL(`${folder}/`));
const { AIProjectClient } = require('@azure/ai-projects');
const credential = { getToken: async () => ({ token: key, expiresOnTimestamp: Date.now() + 3_600_000 }) };
const project = new AIProjectClient(endpoint, credential);
const openai = await project.getOpenAIClient();

const name = `analyst-${old ? 'old' : 'new'}`;
const definition = { kind: 'prompt', model: 'echo', instructions: 'You are {{role}}.', structured_inputs: { role: { default_value: 'an analyst' } },
  tools: [{ type: 'code_interpreter', container: { type: 'auto' } }] };
const question = 'run: open("/mnt/data/sales.csv", "w").write("a,b\\n1,2\\n")';
const reference = { name, type: 'agent_reference' };
const asked = (more) => ({ body: { [old ? 'agent' : 'agent_reference']: { ...reference, ...more } } });
const lastAnnotation = (response) => response.output.at(-1).content.at(-1).annotations.at(-1);
let version, cited, response;

const steps = {
  'creates an agent with a code interpreter': async () => {
    version = await project.agents.createVersion(name, definition);
    assert.deepEqual([version.name, version.version, version.id, version.definition.kind], [name, '1', `${name}:1`, 'prompt']);
    assert.equal((await project.agents.createVersion(name, definition)).version, '1', 'again is the same');
  },
  'reads it back, alone and in lists': async () => {
    const agent = await project.agents.get(name);
    assert.deepEqual([agent.name, agent.versions.latest.version], [name, '1']);
    assert.equal((await project.agents.getVersion(name, '1')).definition.instructions, definition.instructions);
    const names = [];
    for await (const one of project.agents.list()) names.push(one.name);
    assert.ok(names.includes(name));
    const versions = [];
    for await (const one of project.agents.listVersions(name)) versions.push(one.version);
    assert.deepEqual(versions, ['1']);
  },
  'finds the model among the deployments': async () => {
    const found = [];
    for await (const one of project.deployments.list()) found.push(one.name);
    assert.ok(found.includes('echo'), found.join());
    assert.equal((await project.deployments.get('echo')).name, 'echo');
    for await (const one of project.connections.list()) assert.fail(one.name);
  },
  'asks it, and the answer cites a file': async () => {
    response = await openai.responses.create({ input: question }, asked());
    assert.equal(response.status, 'completed', JSON.stringify(response.error));
    assert.equal(response.model, 'echo');
    assert.deepEqual(response.agent_reference, { type: 'agent_reference', name, version: '1' });
    assert.ok(response.output.some((item) => item.type === 'code_interpreter_call'));
    cited = lastAnnotation(response);
    assert.deepEqual([cited.type, cited.filename], ['container_file_citation', 'sales.csv']);
  },
  'streams the same': async () => {
    const types = [];
    let last;
    for await (const event of await openai.responses.create({ input: question, stream: true }, asked({ version: '1' }))) {
      types.push(event.type);
      if (event.type === 'response.created') assert.equal(event.response.agent_reference.name, name);
      last = event;
    }
    assert.deepEqual([types[0], last.type], ['response.created', 'response.completed']);
    assert.equal(lastAnnotation(last.response).filename, 'sales.csv');
  },
  'a conversation: questions in it, without input too, items that name the agent': async () => {
    const conversation = await openai.conversations.create({ items: [{ type: 'message', role: 'user', content: 'run: x = 41' }] });
    const first = await openai.responses.create({ conversation: conversation.id, ...(old ? { input: '' } : {}) }, asked());
    assert.equal(first.status, 'completed', JSON.stringify(first.error));
    assert.equal(first.conversation.id, conversation.id);
    const second = await openai.responses.create({ conversation: conversation.id, input: 'run: print(x + 1)', include: ['code_interpreter_call.outputs'] }, asked());
    const ran = second.output.find((item) => item.type === 'code_interpreter_call');
    assert.equal(ran.outputs[0].logs, '42\n', 'one session for the conversation');
    for (const item of second.output) {
      assert.deepEqual(item.agent_reference, { type: 'agent_reference', name, version: '1' });
      assert.equal(item.response_id, second.id);
    }
    const items = [];
    for await (const item of openai.conversations.items.list(conversation.id, { order: 'asc', limit: 2 })) items.push(item);
    assert.ok(items.length >= 6, `${items.length} items`);
    assert.equal(items[0].agent_reference, undefined, 'what a user said names none');
    assert.equal(items.at(-1).agent_reference.name, name);
    // What came out goes in again, as clients replay it.
    const replayed = await openai.responses.create({ input: [...second.output, { role: 'user', content: 'say: replayed' }] }, asked());
    assert.equal(replayed.output_text, 'replayed');
    let streamed;
    for await (const event of await openai.responses.create({ conversation: conversation.id, input: 'say: streamed', stream: true }, asked())) {
      if (event.type === 'response.output_item.added') assert.equal(event.item.agent_reference.name, name);
      streamed = event;
    }
    assert.equal(streamed.type, 'response.completed');
    assert.equal((await openai.conversations.delete(conversation.id)).deleted, true);
  },
  'fills structured inputs': async () => {
    const said = async (inputs) => (await openai.responses.create({ input: 'show: instructions' }, { body: { ...asked().body, ...(inputs ? { structured_inputs: inputs } : {}) } })).output_text;
    assert.match(await said(), /You are an analyst\./);
    assert.match(await said({ role: 'a pirate {{role}}' }), /You are a pirate \{\{role\}\}\./);
  },
  'refuses what the agent settles, and unknown agents': async () => {
    await assert.rejects(openai.responses.create({ input: 'x', tools: [{ type: 'code_interpreter', container: { type: 'auto' } }] }, asked()), (error) => error.status === 400 && /Not allowed when agent is specified/.test(error.message));
    await assert.rejects(openai.responses.create({ input: 'x' }, { body: { agent_reference: { ...reference, name: 'nobody' } } }), (error) => error.status === 404);
    await assert.rejects(openai.responses.create({ input: 'x' }, asked({ version: '9' })), (error) => error.status === 404);
    await assert.rejects(project.agents.get('nobody'), (error) => error.statusCode === 404 && /nobody/.test(error.message));
    await assert.rejects(project.agents.createVersion('bad_name', definition), (error) => error.statusCode === 400 && /Must start and end with alphanumeric/.test(error.message));
    await assert.rejects(project.agents.createVersion('bad', { ...definition, tools: [{ type: 'bing_grounding', bing_grounding: { search_configurations: [] } }] }), (error) => error.statusCode === 400);
  },
  ...(old ? {} : {
    'disables and enables it': async () => {
      await project.agents.disable(name);
      await assert.rejects(openai.responses.create({ input: 'x' }, asked()), (error) => error.status === 403 && error.code === 'agent_disabled');
      await project.agents.enable(name);
      assert.equal((await openai.responses.create({ input: 'hello' }, asked())).output_text, 'hello');
    },
    'asks at the endpoint of the agent': async () => {
      const own = project.getOpenAIClient({ azureConfig: { agentName: name, allowPreview: true } });
      const answer = await own.responses.create({ input: 'show: instructions' });
      assert.match(answer.output_text, /You are an analyst/);
      assert.equal(answer.agent_reference.name, name);
      await project.agents.createVersion(name, { ...definition, instructions: 'second' });
      await project.agents.patchAgentObject(name, { agentEndpoint: { version_selector: { version_selection_rules: [{ type: 'FixedRatio', agent_version: '1', traffic_percentage: 100 }] }, protocol_configuration: { responses: {} } } });
      assert.equal((await own.responses.create({ input: 'x' })).agent_reference.version, '1', 'the endpoint selects');
      assert.equal((await openai.responses.create({ input: 'x' }, asked())).agent_reference.version, '2', 'a reference is the latest');
      await project.agents.deleteVersion(name, '2');
    },
  }),
  'deletes the version and downloads the cited file afterwards': async () => {
    const gone = await project.agents.deleteVersion(name, version.version);
    assert.deepEqual([gone.name, gone.deleted], [name, true]);
    await assert.rejects(project.agents.get(name), (error) => error.statusCode === 404);
    const bytes = await openai.containers.files.content.retrieve(cited.file_id, { container_id: cited.container_id });
    assert.equal(await bytes.text(), 'a,b\n1,2\n');
    assert.equal((await openai.responses.retrieve(response.id)).id, response.id, 'a response does not depend on its agent');
  },
};

for (const [step, run] of Object.entries(steps)) {
  let error;
  try { await run(); } catch (failure) { error = String(failure?.stack ?? failure); }
  console.log(JSON.stringify({ step, error }));
}
