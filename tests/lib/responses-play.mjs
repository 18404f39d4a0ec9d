// SPDX-License-Identifier: Apache-2.0
// Asks questions of /responses through a real client, named by the first
// argument: openai6, openai7, agents or aisdk. The server is told on the
// standard input; a line of JSON for each step. The model is the built-in one,
// whose messages say what it does. Run by responses.mjs, also under another
// Node than the tests'.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { walk } from './responses-walk.mjs';

const CODE = { type: 'code_interpreter', container: { type: 'auto' } };
const INCLUDE = ['code_interpreter_call.outputs'];
const QUESTION = 'run: print(6 * 7)\nrun: open("/mnt/data/out.csv", "w").write("a,b")\nsay: see [it](sandbox:/mnt/data/out.csv)';
const ANSWER = 'see [it](sandbox:/mnt/data/out.csv)';
const SCHEMA = { type: 'object', properties: { city: { type: 'string' }, n: { type: 'integer' } }, required: ['city', 'n'], additionalProperties: false };
const tests = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = (client) => join(tests, 'clients', client);
const load = (client, name) => {
  const require = createRequire(join(folder(client), 'package.json'));
  return import(pathToFileURL(require.resolve(name)));
};

function openai(client) {
  const stage = {};
  return [
    ['the client is made', async ({ url, key }) => {
      const { default: OpenAI } = await import(pathToFileURL(join(folder(client), 'node_modules/openai/index.mjs')));
      stage.client = new OpenAI({ apiKey: key, baseURL: `${url}/v1`, timeout: 60_000, maxRetries: 0 });
    }],
    ['responses.create answers, with the file cited and downloadable', async () => {
      const got = stage.first = await stage.client.responses.create({ model: 'echo', input: QUESTION, tools: [CODE], include: INCLUDE });
      assert.equal(got.output_text, ANSWER);
      assert.equal(got.output[0].outputs[0].logs, '42\n');
      const [cited] = got.output.at(-1).content[0].annotations;
      const file = await stage.client.containers.files.content.retrieve(cited.file_id, { container_id: cited.container_id });
      assert.equal(await file.text(), 'a,b');
    }],
    ['responses.stream accumulates the same', async () => {
      const stream = stage.client.responses.stream({ model: 'echo', input: `think: hm\n${QUESTION}`, tools: [CODE], include: INCLUDE });
      const seen = [];
      for await (const event of stream) seen.push(event.type);
      const got = await stream.finalResponse();
      assert.equal(got.output_text, ANSWER);
      assert.equal(seen[0], 'response.created');
      assert.equal(seen.at(-1), 'response.completed');
      assert.ok(seen.includes('response.output_text.annotation.added'));
    }],
    ['plain iteration, then resumed by id', async () => {
      const stream = await stage.client.responses.create({ model: 'echo', input: 'slow: 5\nlong: 30', stream: true, background: true });
      let id;
      for await (const event of stream) {
        id ??= event.response?.id;
        if (event.sequence_number === 6) break;
      }
      const rest = await stage.client.responses.retrieve(id, { stream: true, starting_after: 6 });
      const numbers = [];
      for await (const event of rest) numbers.push(event.sequence_number);
      assert.equal(numbers[0], 7);
    }],
    ['responses.parse returns what the schema says', async () => {
      const got = await stage.client.responses.parse({ model: 'echo', input: 'x', text: { format: { type: 'json_schema', name: 'place', schema: SCHEMA, strict: true } } });
      assert.deepEqual(Object.keys(got.output_parsed).sort(), ['city', 'n']);
    }],
    ['a chain keeps variables and its container', async () => {
      const a = await stage.client.responses.create({ model: 'echo', input: 'run: x = 5', tools: [CODE] });
      const b = await stage.client.responses.create({ model: 'echo', input: 'run: print(x)', tools: [CODE], previous_response_id: a.id, include: INCLUDE });
      assert.equal(b.output[0].outputs[0].logs, '5\n');
    }],
    ['a function of the client is called and answered', async () => {
      const tools = [{ type: 'function', name: 'add', strict: false, parameters: { type: 'object', properties: {} } }];
      const a = await stage.client.responses.create({ model: 'echo', input: 'call: add {"a": 1}', tools });
      const call = a.output.find((i) => i.type === 'function_call');
      const b = await stage.client.responses.create({ model: 'echo', tools, previous_response_id: a.id, input: [{ type: 'function_call_output', call_id: call.call_id, output: '3' }] });
      assert.equal(b.status, 'completed');
    }],
    ['tools of the service are listed and called, in a stream and after it', async () => {
      const tools = [CODE, { type: 'mcp', server_label: 'glovebox', server_url: 'glovebox:tools', require_approval: 'never' }];
      const stream = stage.client.responses.stream({ model: 'echo', input: 'run: open("/mnt/data/n.txt", "w").write("alpha")\ncall: read_file {"path": "n.txt"}\ncall: read_file {"path": "none"}', tools });
      const got = await stream.finalResponse();
      assert.deepEqual(got.output.map((i) => i.type), ['mcp_list_tools', 'code_interpreter_call', 'mcp_call', 'mcp_call', 'message']);
      assert.match(got.output[2].output, /alpha/);
      assert.ok(got.output[3].error);
      const next = await stage.client.responses.create({ model: 'echo', tools, input: [...got.output, { role: 'user', content: 'call: list_files {}' }] });
      assert.equal(next.output[0].type, 'mcp_call', 'the list is not sent again');
    }],
    ['background, retrieve, cancel, input items, delete', async () => {
      const made = await stage.client.responses.create({ model: 'echo', input: 'slow: 20\nlong: 500', background: true });
      assert.ok(['queued', 'in_progress'].includes((await stage.client.responses.retrieve(made.id)).status));
      assert.equal((await stage.client.responses.cancel(made.id)).status, 'cancelled');
      const items = [];
      for await (const item of stage.client.responses.inputItems.list(stage.first.id, { order: 'asc', limit: 1 })) items.push(item);
      assert.equal(items[0].content[0].text, QUESTION);
      await stage.client.responses.delete(made.id);
      await assert.rejects(stage.client.responses.retrieve(made.id), { status: 404 });
    }],
    ['errors have their class, code and param', async () => {
      await assert.rejects(stage.client.responses.create({ model: 'nobody', input: 'x' }), { status: 400, code: 'model_not_found', param: 'model' });
      const stream = await stage.client.responses.create({ model: 'echo', input: 'fail: overload', stream: true });
      await assert.rejects(async () => { for await (const event of stream) assert.ok(event.type); });
    }],
  ];
}

function agents() {
  const stage = {};
  return [
    ['the SDK is set up', async ({ url, key }) => {
      const sdk = stage.sdk = await load('agents', '@openai/agents');
      const { default: OpenAI } = await load('agents', 'openai');
      sdk.setDefaultOpenAIClient(new OpenAI({ apiKey: key, baseURL: `${url}/v1`, maxRetries: 0 }));
      sdk.setOpenAIAPI('responses');
      sdk.setTracingDisabled(true);
      stage.agent = new sdk.Agent({ name: 'analyst', model: 'echo', instructions: 'Answer.', tools: [sdk.codeInterpreterTool({ container: { type: 'auto' }, includeOutputs: true })] });
    }],
    ['its code interpreter tool runs code', async () => {
      stage.result = await stage.sdk.run(stage.agent, QUESTION);
      assert.equal(stage.result.finalOutput, ANSWER);
    }],
    ['the history is resent inline, in the same container', async () => {
      const again = await stage.sdk.run(stage.agent, [...stage.result.history, { role: 'user', content: 'run: print(open("/mnt/data/out.csv").read())\nsay: read' }]);
      assert.equal(again.finalOutput, 'read');
      const ran = again.rawResponses.at(-1).output.find((i) => i.type === 'hosted_tool_call');
      assert.match(JSON.stringify(ran), /a,b/);
    }],
    ['a stream ends with the answer', async () => {
      const streamed = await stage.sdk.run(stage.agent, QUESTION, { stream: true });
      for await (const event of streamed) assert.ok(event.type);
      await streamed.completed;
      assert.equal(streamed.finalOutput, ANSWER);
    }],
    ['its hosted MCP tool calls tools of the service', async () => {
      const agent = new stage.sdk.Agent({ name: 'filer', model: 'echo', tools: [stage.sdk.codeInterpreterTool({ container: { type: 'auto' } }), stage.sdk.hostedMcpTool({ serverLabel: 'glovebox', serverUrl: 'glovebox:tools', allowedTools: ['read_file'] })] });
      const got = await stage.sdk.run(agent, 'run: open("/mnt/data/n.txt", "w").write("alpha")\ncall: read_file {"path": "n.txt"}');
      assert.match(got.finalOutput, /alpha/);
      const again = await stage.sdk.run(agent, [...got.history, { role: 'user', content: 'say: on' }]);
      assert.equal(again.finalOutput, 'on');
    }],
    ['its own functions are called and the loop goes on', async () => {
      const { z } = await load('agents', 'zod');
      const calls = [];
      const add = stage.sdk.tool({ name: 'add', description: 'adds', parameters: z.object({ a: z.number() }), execute: async ({ a }) => { calls.push(a); return String(a + 1); } });
      const agent = new stage.sdk.Agent({ name: 'adder', model: 'echo', tools: [add] });
      const got = await stage.sdk.run(agent, 'call: add {"a": 1}\nsay: added');
      assert.deepEqual(calls, [1]);
      assert.equal(got.finalOutput, 'added');
    }],
  ];
}

function aisdk() {
  const stage = {};
  return [
    ['the provider is made', async ({ url, key }) => {
      stage.ai = await load('aisdk', 'ai');
      const { createOpenAI } = await load('aisdk', '@ai-sdk/openai');
      stage.openai = createOpenAI({ apiKey: key, baseURL: `${url}/v1` });
      stage.tools = { code_interpreter: stage.openai.tools.codeInterpreter({}) };
    }],
    ['generateText runs code and cites the file', async () => {
      const got = stage.first = await stage.ai.generateText({ model: stage.openai.responses('echo'), prompt: QUESTION, tools: stage.tools });
      assert.equal(got.text, ANSWER);
      assert.match(JSON.stringify(got.toolResults ?? got.steps), /42/);
    }],
    ['the second turn sends references', async () => {
      const got = await stage.ai.generateText({
        model: stage.openai.responses('echo'), tools: stage.tools,
        messages: [{ role: 'user', content: QUESTION }, ...stage.first.response.messages, { role: 'user', content: 'run: print(open("/mnt/data/out.csv").read())\nsay: read' }],
      });
      assert.equal(got.text, 'read');
      assert.match(JSON.stringify(got.toolResults ?? got.steps), /a,b/);
    }],
    ['streamText ends with the answer', async () => {
      const stream = stage.ai.streamText({ model: stage.openai.responses('echo'), prompt: `think: hm\n${QUESTION}`, tools: stage.tools });
      const parts = [];
      for await (const part of stream.fullStream) parts.push(part);
      assert.deepEqual(parts.filter((p) => p.type === 'error'), []);
      assert.equal(parts.filter((p) => p.type === 'text-delta').map((p) => p.text).join(''), ANSWER);
    }],
    ['its MCP tool calls tools of the service', async () => {
      const tools = { ...stage.tools, mcp: stage.openai.tools.mcp({ serverLabel: 'glovebox', serverUrl: 'glovebox:tools' }) };
      const prompt = 'run: open("/mnt/data/n.txt", "w").write("alpha")\ncall: read_file {"path": "n.txt"}';
      const got = await stage.ai.generateText({ model: stage.openai.responses('echo'), prompt, tools });
      assert.match(got.text, /alpha/);
      const next = await stage.ai.generateText({ model: stage.openai.responses('echo'), tools, messages: [{ role: 'user', content: prompt }, ...got.response.messages, { role: 'user', content: 'say: on' }] });
      assert.equal(next.text, 'on');
      const parts = [];
      for await (const part of stage.ai.streamText({ model: stage.openai.responses('echo'), prompt, tools }).fullStream) parts.push(part);
      assert.deepEqual(parts.filter((p) => p.type === 'error'), []);
    }],
    ['an upstream failure has its message', async () => {
      await assert.rejects(stage.ai.generateText({ model: stage.openai.responses('echo'), prompt: 'run: print(1)\nfail: overload', tools: stage.tools, maxRetries: 0 }));
    }],
  ];
}

const walked = (client) => walk(async ({ url, key }) => {
  const { default: OpenAI, toFile } = await import(pathToFileURL(join(folder(client), 'node_modules/openai/index.mjs')));
  return { client: new OpenAI({ apiKey: key, baseURL: `${url}/v1`, timeout: 60_000, maxRetries: 0 }), toFile };
});
const plays = { openai6: () => [...openai('openai6'), ...walked('openai6')], openai7: () => [...openai('openai7'), ...walked('openai7')], agents, aisdk };
export const play = (client) => plays[client]();

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  let text = '';
  for await (const part of process.stdin) text += part;
  for (const [name, step] of play(process.argv[2])) {
    let error = null;
    try {
      await step(JSON.parse(text));
    } catch (why) {
      error = why.stack ?? String(why);
    }
    process.stdout.write(`${JSON.stringify({ name, error })}\n`);
  }
  process.exit(0);
}
