// SPDX-License-Identifier: Apache-2.0
// What a user of the OpenAI client does with conversations and with chat
// completions, step by step, written against the client alone so that each of
// its versions can play it. Steps share a stage and come in order.
import assert from 'node:assert/strict';

const CODE = [{ type: 'code_interpreter' }];
const AUTO = [{ type: 'code_interpreter', container: { type: 'auto' } }];
const user = (content) => ({ role: 'user', content });
const all = async (pages) => {
  const found = [];
  for await (const one of pages) found.push(one);
  return found;
};
const thrown = async (promise) => {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  return assert.fail('nothing was thrown');
};

export async function prepare(library, { url, key }) {
  const make = (options) => new library.OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0, ...options });
  return { library, make, client: make(), url, key, close: async () => {} };
}

export const steps = [
  ['conversations: create, retrieve, update, delete', async (s) => {
    const made = await s.client.conversations.create({ metadata: { topic: 'demo' }, items: [{ type: 'message', role: 'user', content: 'Hello!' }] });
    assert.equal(made.object, 'conversation');
    assert.deepEqual((await s.client.conversations.retrieve(made.id)).metadata, { topic: 'demo' });
    assert.deepEqual((await s.client.conversations.update(made.id, { metadata: { topic: 'x' } })).metadata, { topic: 'x' });
    assert.deepEqual(await s.client.conversations.delete(made.id), { id: made.id, object: 'conversation.deleted', deleted: true });
    const error = await thrown(s.client.conversations.retrieve(made.id));
    assert.ok(error instanceof s.library.NotFoundError, String(error));
    s.conversation = (await s.client.conversations.create()).id;
  }],
  ['conversations: items by pages', async (s) => {
    const added = await s.client.conversations.items.create(s.conversation, { items: [1, 2, 3, 4, 5].map((n) => user(`m${n}`)) });
    assert.equal(added.data.length, 5);
    const list = await all(s.client.conversations.items.list(s.conversation, { order: 'asc', limit: 2 }));
    assert.deepEqual(list.map((item) => item.content[0].text), ['m1', 'm2', 'm3', 'm4', 'm5']);
    const [first] = list;
    assert.deepEqual(await s.client.conversations.items.retrieve(first.id, { conversation_id: s.conversation }), first);
    assert.equal((await s.client.conversations.items.delete(first.id, { conversation_id: s.conversation })).id, s.conversation);
    assert.equal((await all(s.client.conversations.items.list(s.conversation))).length, 4);
  }],
  ['conversations: a response with code, its outputs when included', async (s) => {
    const { id } = await s.client.conversations.create();
    const response = await s.client.responses.create({ model: 'echo', input: 'run: print(6 * 7)', conversation: id, tools: AUTO });
    assert.equal(response.status, 'completed');
    const items = await all(s.client.conversations.items.list(id, { order: 'asc', include: ['code_interpreter_call.outputs'] }));
    const call = items.find((item) => item.type === 'code_interpreter_call');
    assert.match(call.outputs[0].logs, /42/);
    assert.equal(items.at(-1).role, 'assistant');
    await s.client.conversations.delete(id);
  }],
  ['chat completions: create', async (s) => {
    const made = await s.client.chat.completions.create({ model: 'echo', messages: [user('say: hello')] });
    assert.equal(made.choices[0].message.content, 'hello');
    assert.equal(made.choices[0].finish_reason, 'stop');
    assert.match(made._request_id, /^req_/);
  }],
  ['chat completions: code, and the file it made', async (s) => {
    const made = await s.client.chat.completions.create({ model: 'echo', messages: [user('run: open("/mnt/data/n.txt", "w").write("42")\nsay: [n](sandbox:/mnt/data/n.txt)')], tools: CODE });
    const { url } = made.choices[0].message.annotations[0].url_citation;
    const id = /files\/([^/]+)\/content/.exec(url)[1];
    assert.equal(await (await s.client.files.content(id)).text(), '42');
  }],
  ['chat completions: iterate over a stream', async (s) => {
    const stream = await s.client.chat.completions.create({ model: 'echo', messages: [user('say: one two')], stream: true, stream_options: { include_usage: true } });
    let text = '', usage;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta?.content ?? '';
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, 'one two');
    assert.ok(usage.total_tokens > 0);
  }],
  ['chat completions: the streaming helper', async (s) => {
    const runner = s.client.chat.completions.stream({ model: 'echo', messages: [user('run: print(1)\nsay: helped')], tools: CODE });
    let text = '';
    runner.on('content', (delta) => { text += delta; });
    assert.equal(await runner.finalContent(), 'helped');
    assert.equal(text, 'helped');
    assert.equal((await runner.finalChatCompletion()).choices[0].finish_reason, 'stop');
  }],
  ['chat completions: functions that the client runs', async (s) => {
    const runner = s.client.chat.completions.runTools({
      model: 'echo', messages: [user('call: add {"a":1,"b":2}')],
      tools: [{ type: 'function', function: { name: 'add', parse: JSON.parse, function: ({ a, b }) => String(a + b), parameters: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } } } } }],
    });
    assert.equal(typeof await runner.finalContent(), 'string');
    assert.ok(runner.messages.some((m) => m.role === 'tool' && m.content === '3'), JSON.stringify(runner.messages));
  }],
  ['chat completions: parse', async (s) => {
    const schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'], additionalProperties: false };
    const made = await s.client.chat.completions.parse({ model: 'echo', messages: [user('a number')], response_format: { type: 'json_schema', json_schema: { name: 'n', strict: true, schema } } });
    const { content } = made.choices[0].message;
    assert.equal(typeof JSON.parse(content).n, 'number', content);
  }],
  ['chat completions: stored', async (s) => {
    const made = await s.client.chat.completions.create({ model: 'echo', messages: [user('say: kept')], store: true, metadata: { a: 'b' } });
    assert.deepEqual((await s.client.chat.completions.retrieve(made.id)).choices, made.choices);
    assert.ok((await all(s.client.chat.completions.list({ limit: 1 }))).some((c) => c.id === made.id));
    assert.deepEqual((await s.client.chat.completions.update(made.id, { metadata: { a: 'c' } })).metadata, { a: 'c' });
    assert.equal((await all(s.client.chat.completions.messages.list(made.id)))[0].content, 'say: kept');
    assert.equal((await s.client.chat.completions.delete(made.id)).deleted, true);
  }],
  ['chat completions: the client of Azure', async (s) => {
    const azure = new s.library.AzureOpenAI({ endpoint: s.url, apiKey: s.key, apiVersion: '2025-04-01-preview', maxRetries: 0 });
    assert.equal((await azure.chat.completions.create({ model: 'echo', messages: [user('say: azure')] })).choices[0].message.content, 'azure');
  }],
  ['chat completions: a refusal is an error of its class', async (s) => {
    const error = await thrown(s.client.chat.completions.create({ model: 'echo', messages: [user('x')], n: 2 }));
    assert.ok(error instanceof s.library.BadRequestError);
    assert.deepEqual([error.code, error.param], ['unsupported_value', 'n']);
    const failed = await thrown(s.client.chat.completions.create({ model: 'echo', messages: [user('fail: gone')] }));
    assert.ok(failed instanceof s.library.APIError, String(failed));
    const stream = await s.client.chat.completions.create({ model: 'echo', messages: [user('fail: gone')], stream: true }).catch((why) => why);
    const seen = stream instanceof Error ? stream : await thrown(all(stream));
    assert.ok(seen instanceof s.library.APIError, String(seen));
  }],
];
