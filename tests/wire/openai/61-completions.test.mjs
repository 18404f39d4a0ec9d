// SPDX-License-Identifier: Apache-2.0
// Chat Completions with the code tool: whole and streamed, functions passed
// through, formats, stop sequences, files as links, stored completions.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { accepted, Door, refused } from '../../lib/openai.mjs';
import { request, stop } from '../../lib/wire.mjs';

const CODE = [{ type: 'code_interpreter' }];
const FUNCTION = [{ type: 'function', function: { name: 'lookup', parameters: { type: 'object', properties: { q: { type: 'string' } } } } }];
const user = (content) => [{ role: 'user', content }];
const WRITE = 'run: open("/mnt/data/a.csv", "w").write("1,2\\n")';

// The chunks of a stream; the last line must be [DONE].
function chunks(answer) {
  assert.equal(answer.status, 200, answer.text);
  assert.match(answer.headers['content-type'], /^text\/event-stream/);
  const lines = answer.text.split('\n\n').filter((line) => line.startsWith('data: ')).map((line) => line.slice(6));
  assert.equal(lines.pop(), '[DONE]');
  const list = lines.map((line) => JSON.parse(line));
  assert.equal(new Set(list.map((c) => c.id)).size, 1, 'one id');
  assert.ok(list.every((c) => c.object === 'chat.completion.chunk'));
  return list;
}
const content = (list) => list.map((c) => c.choices[0]?.delta.content ?? '').join('');

describe('openai, chat completions', () => {
  let g, door;

  before(async () => {
    g = await Glovebox.start({ config: { pools: [pool({ ready: 1 })] } });
    door = new Door(g);
  });
  after(() => stop(g));

  const ask = (body) => door.post('/chat/completions', { model: 'echo', ...body });

  test('a whole completion', async () => {
    const made = accepted(await ask({ messages: user('say: hello') }));
    assert.match(made.id, /^chatcmpl-[0-9a-f]{32}$/);
    assert.deepEqual([made.object, made.model, made.choices.length], ['chat.completion', 'echo', 1]);
    const [{ message, finish_reason: finish, index }] = made.choices;
    assert.deepEqual([index, finish, message.role, message.content, message.refusal], [0, 'stop', 'assistant', 'hello', null]);
    assert.equal(made.usage.total_tokens, made.usage.prompt_tokens + made.usage.completion_tokens);
    assert.ok(made.usage.completion_tokens > 0);
    refused(await door.get(`/chat/completions/${made.id}`), 404, { message: `Chat completion with id '${made.id}' not found.` });
    assert.deepEqual(accepted(await door.get('/chat/completions')).data, [], 'stored only when asked for');
  });

  for (const prefix of ['/openai/v1', '/openai', '/api/projects/p1/openai/v1'])
    test(`at ${prefix}`, async () => {
      accepted(await new Door(g, { prefix }).post('/chat/completions', { model: 'echo', messages: user('say: x') }));
    });

  test('a stream, with usage when asked for', async () => {
    const list = chunks(await ask({ messages: user('say: one two three'), stream: true }));
    assert.deepEqual(list[0].choices[0].delta, { role: 'assistant', content: '', refusal: null });
    assert.equal(content(list), 'one two three');
    assert.equal(list.at(-1).choices[0].finish_reason, 'stop');
    assert.ok(list.every((c) => !('usage' in c)));
    const counted = chunks(await ask({ messages: user('say: x'), stream: true, stream_options: { include_usage: true } }));
    assert.deepEqual(counted.at(-1).choices, []);
    assert.ok(counted.at(-1).usage.total_tokens > 0);
    assert.ok(counted.slice(0, -1).every((c) => c.usage === null));
  });

  test('code runs, and its files become links that work', async () => {
    const messages = user(`${WRITE}\nsay: see [the file](sandbox:/mnt/data/a.csv)`);
    const whole = accepted(await ask({ messages, tools: CODE }));
    const list = chunks(await ask({ messages, tools: CODE, stream: true }));
    for (const [text, annotations, more] of [
      [whole.choices[0].message.content, whole.choices[0].message.annotations, whole.glovebox],
      [content(list), list.findLast((c) => c.choices[0].delta.annotations).choices[0].delta.annotations, list.at(-1).glovebox],
    ]) {
      const [, url] = /\[the file\]\((http[^)]+)\)/.exec(text) ?? assert.fail(text);
      assert.doesNotMatch(text, /sandbox:/);
      assert.equal((await request(g, 'GET', new URL(url).pathname)).text, '1,2\n');
      assert.deepEqual(annotations.map((a) => [a.type, a.url_citation.title, a.url_citation.url]), [['url_citation', 'a.csv', url]]);
      const { start_index: from, end_index: to } = annotations[0].url_citation;
      assert.equal([...text].slice(from, to).join(''), url);
      assert.match(more.container_id, /^cntr_/);
      assert.deepEqual(more.code_interpreter_calls.map((c) => c.status), ['completed']);
    }
  });

  test('a file that the answer does not name is linked at its end', async () => {
    const made = accepted(await ask({ messages: user(`${WRITE}\nsay: done`), tools: CODE }));
    const text = made.choices[0].message.content;
    const [, url] = /\n\n\[a\.csv\]\((http[^)]+)\)$/.exec(text) ?? assert.fail(text);
    assert.equal((await request(g, 'GET', new URL(url).pathname)).text, '1,2\n');
  });

  test('the next request goes on in the container of the last one', async () => {
    const first = accepted(await ask({ messages: user('run: x = 41'), tools: CODE }));
    const container = first.glovebox.container_id;
    const second = accepted(await ask({ messages: user('run: print(x + 1)'), tools: [{ ...CODE[0], container }] }));
    assert.equal(second.glovebox.container_id, container);
    assert.match(JSON.stringify(second), /42/);
    refused(await ask({ messages: user('run: 1'), tools: [{ ...CODE[0], container: `cntr_${'0'.repeat(48)}` }] }), 404, { message: /^Container with id/ });
    refused(await ask({ messages: user('run: 1'), tools: [{ ...CODE[0], container: { type: 'auto', files: [] } }] }), 400, { code: 'unknown_parameter', param: 'tools[0].container.files' });
  });

  test('functions are the client\'s: called, answered, gone on', async () => {
    const messages = user('call: lookup {"q":"x"}');
    const made = accepted(await ask({ messages, tools: FUNCTION }));
    const { message, finish_reason: finish } = made.choices[0];
    assert.equal(finish, 'tool_calls');
    assert.deepEqual(message.tool_calls.map((c) => [c.type, c.function.name, JSON.parse(c.function.arguments)]), [['function', 'lookup', { q: 'x' }]]);
    const streamed = chunks(await ask({ messages, tools: FUNCTION, stream: true }));
    const pieces = streamed.flatMap((c) => c.choices[0].delta.tool_calls ?? []);
    assert.deepEqual([pieces[0].index, pieces[0].function.name], [0, 'lookup']);
    assert.deepEqual(JSON.parse(pieces.map((p) => p.function.arguments).join('')), { q: 'x' });
    assert.equal(streamed.at(-1).choices[0].finish_reason, 'tool_calls');
    const last = accepted(await ask({ messages: [...messages, message, { role: 'tool', tool_call_id: message.tool_calls[0].id, content: '42' }], tools: FUNCTION }));
    assert.equal(last.choices[0].finish_reason, 'stop');
  });

  test('stop sequences end the answer, in pieces too', async () => {
    const body = { messages: user('say: alpha beta gamma delta'), stop: ['nothing', 'gamma'] };
    const whole = accepted(await ask(body)).choices[0];
    assert.deepEqual([whole.message.content, whole.finish_reason], ['alpha beta ', 'stop']);
    const list = chunks(await ask({ ...body, stream: true }));
    assert.deepEqual([content(list), list.at(-1).choices[0].finish_reason], ['alpha beta ', 'stop']);
  });

  test('a limit on tokens ends it with length', async () => {
    for (const name of ['max_tokens', 'max_completion_tokens']) {
      const made = accepted(await ask({ messages: user('long: 500'), [name]: 20 })).choices[0];
      assert.equal(made.finish_reason, 'length');
    }
  });

  test('JSON answers are JSON alone', async () => {
    const schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'], additionalProperties: false };
    for (const format of [{ type: 'json_schema', json_schema: { name: 'n', schema, strict: true } }, { type: 'json_object' }]) {
      const made = accepted(await ask({ messages: user(`${WRITE}\nhello`), tools: CODE, response_format: format }));
      assert.doesNotThrow(() => JSON.parse(made.choices[0].message.content), made.choices[0].message.content);
    }
  });

  test('images go in', async () => {
    const png = 'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
    accepted(await ask({ messages: user([{ type: 'text', text: 'what is it?' }, { type: 'image_url', image_url: { url: png, detail: 'low' } }]) }));
    refused(await ask({ messages: user([{ type: 'image_url', image_url: { url: 'http://127.0.0.1/x.png' } }]) }), 400, { code: 'unsupported_value', param: 'input[0].content[0].image_url' });
  });

  test('what this service cannot do is refused by name', async () => {
    for (const [more, fault] of [
      [{ n: 2 }, { code: 'unsupported_value', param: 'n' }], [{ logprobs: true }, { code: 'unsupported_parameter', param: 'logprobs' }],
      [{ functions: [] }, { code: 'unsupported_parameter', param: 'functions' }], [{ audio: {} }, { code: 'unsupported_parameter', param: 'audio' }],
      [{ messages: [] }, { code: 'empty_array', param: 'messages' }], [{ nonsense: 1 }, { code: 'unknown_parameter', param: 'nonsense' }],
      [{ stream_options: {} }, { code: 'invalid_value', param: 'stream_options' }], [{ temperature: 3 }, { code: 'decimal_above_max_value', param: 'temperature' }],
      [{ metadata: { k: 'v'.repeat(513) } }, { code: 'string_above_max_length', param: 'metadata' }],
    ]) {
      refused(await ask({ messages: user('x'), ...more }), 400, fault);
      refused(await ask({ messages: user('x'), ...more, stream: 'stream_options' in more ? false : true }), 400, fault);
    }
    refused(await ask({ model: 'nobody', messages: user('x') }), 400, { code: 'model_not_found', param: 'model' });
  });

  test('stored completions: read, listed, changed, deleted', async () => {
    const mine = new Door(g, { key: (await g.ok('POST', '/api/keys', { tenant: 'default', scopes: ['execute', 'files:read'] })).secret });
    const make = async (text, more) => {
      const answer = await mine.post('/chat/completions', { model: 'echo', messages: user(`say: ${text}`), store: true, ...more });
      return accepted(answer);
    };
    const one = await make('one', { metadata: { n: '1' } });
    const two = await make('two');
    const text = (await mine.post('/chat/completions', { model: 'echo', messages: user('say: three'), store: true, stream: true })).text;
    const three = JSON.parse(text.split('\n\n')[0].slice(6)).id;
    await until(async () => (await mine.get(`/chat/completions/${three}`)).status === 200, { what: 'a streamed one to be stored' });
    const read = accepted(await mine.get(`/chat/completions/${one.id}`));
    assert.deepEqual([read.choices, read.metadata, read.usage], [one.choices, { n: '1' }, one.usage]);
    const list = accepted(await mine.get('/chat/completions?limit=2'));
    assert.deepEqual([list.data.length, list.has_more], [2, true]);
    const rest = accepted(await mine.get(`/chat/completions?limit=2&after=${list.last_id}`));
    assert.deepEqual(new Set([...list.data, ...rest.data].map((c) => c.id)), new Set([one.id, two.id, three]));
    assert.deepEqual(accepted(await mine.get('/chat/completions?model=other')).data, []);
    refused(await mine.get('/chat/completions?metadata%5Bn%5D=1'), 400, { code: 'unsupported_parameter', param: 'metadata' });
    assert.deepEqual(accepted(await mine.post(`/chat/completions/${one.id}`, { metadata: { n: '2' } })).metadata, { n: '2' });
    refused(await mine.post(`/chat/completions/${one.id}`, {}), 400, { code: 'missing_required_parameter', param: 'metadata' });
    const messages = accepted(await mine.get(`/chat/completions/${one.id}/messages`));
    assert.deepEqual(messages.data.map((m) => [m.id, m.role, m.content]), [[`${one.id}-0`, 'user', 'say: one']]);
    const stranger = new Door(g, await g.tenant('elsewhere'));
    for (const [method, path, body] of [['GET', ''], ['POST', '', { metadata: {} }], ['DELETE', ''], ['GET', '/messages']]) {
      const foreign = await stranger.call(method, `/chat/completions/${one.id}${path}`, { body });
      const unknown = await stranger.call(method, `/chat/completions/chatcmpl-${'0'.repeat(32)}${path}`, { body });
      assert.equal(foreign.status, 404, foreign.text);
      assert.equal(foreign.text.replaceAll(one.id, 'X'), unknown.text.replaceAll(`chatcmpl-${'0'.repeat(32)}`, 'X'));
    }
    assert.deepEqual(accepted(await mine.delete(`/chat/completions/${one.id}`)), { id: one.id, object: 'chat.completion.deleted', deleted: true });
    refused(await mine.get(`/chat/completions/${one.id}`), 404);
    refused(await mine.delete(`/chat/completions/${one.id}`), 404);
  });

  test('a client that leaves stops the code', async () => {
    const { hostname, port } = new URL(g.url);
    const marker = `left${Date.now()}`;
    const { id: container } = await door.container();
    for (const stream of [true, false]) {
      const sent = http.request({ hostname, port, method: 'POST', path: '/v1/chat/completions', headers: { authorization: `Bearer ${g.key}`, 'content-type': 'application/json' } });
      sent.on('error', () => {});
      sent.end(JSON.stringify({ model: 'echo', stream, messages: user(`run: import time; open("/mnt/data/${marker}${stream}", "w"); time.sleep(60)`), tools: [{ ...CODE[0], container }] }));
      await until(async () => (await g.ok('GET', `/api/sessions/${container}`)).state === 'running', { ms: 20_000, what: 'the code to run' });
      sent.destroy();
      await until(async () => (await g.ok('GET', `/api/sessions/${container}`)).state !== 'running', { ms: 20_000, what: 'the code to be stopped' });
    }
    await door.python(container, 'print("still usable")');
  });
});
