// SPDX-License-Identifier: Apache-2.0
// Conversations and their items: made, read, changed, deleted; limits below,
// at and above; owners; the lock while a response runs.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { accepted, Door, refused } from '../../lib/openai.mjs';
import { request, stop } from '../../lib/wire.mjs';

const user = (text) => ({ role: 'user', content: text });
const INCLUDE = 'include%5B%5D=code_interpreter_call.outputs';
const CODE = [{ type: 'code_interpreter', container: { type: 'auto' } }];

describe('openai, conversations', () => {
  let g, door;

  before(async () => {
    g = await Glovebox.start({ config: { pools: [pool({ ready: 1 })] } });
    door = new Door(g);
  });
  after(() => stop(g));

  const make = async (body = {}) => accepted(await door.post('/conversations', body));
  const items = async (id, query = '') => accepted(await door.get(`/conversations/${id}/items${query}`));
  const texts = (list) => list.data.map((item) => item.content[0].text);

  test('made, read, changed, deleted', async () => {
    const made = await make({ metadata: { topic: 'x' } });
    assert.deepEqual(Object.keys(made), ['id', 'object', 'created_at', 'metadata']);
    assert.match(made.id, /^conv_[0-9a-f]{48}$/);
    assert.deepEqual([made.object, made.metadata], ['conversation', { topic: 'x' }]);
    assert.ok(Math.abs(made.created_at - Date.now() / 1000) < 60);
    assert.deepEqual(accepted(await door.get(`/conversations/${made.id}`)), made);
    const changed = accepted(await door.post(`/conversations/${made.id}`, { metadata: { other: 'y' } }));
    assert.deepEqual(changed, { ...made, metadata: { other: 'y' } });
    assert.deepEqual(accepted(await door.post(`/conversations/${made.id}`, { metadata: null })).metadata, {});
    assert.deepEqual(accepted(await door.delete(`/conversations/${made.id}`)), { id: made.id, object: 'conversation.deleted', deleted: true });
    const gone = { message: `Conversation with id '${made.id}' not found.` };
    refused(await door.get(`/conversations/${made.id}`), 404, gone);
    refused(await door.delete(`/conversations/${made.id}`), 404, gone);
    refused(await door.get(`/conversations/${made.id}/items`), 404, gone);
    assert.deepEqual((await make()).metadata, {}, 'an empty body');
  });

  for (const prefix of ['/v1', '/openai/v1', '/openai', '/api/projects/p1/openai/v1'])
    test(`at ${prefix}`, async () => {
      const at = new Door(g, { prefix });
      const { id } = accepted(await at.post('/conversations', { items: [user('hello')] }));
      assert.deepEqual(texts(accepted(await at.get(`/conversations/${id}/items?api-version=2025-04-01-preview`))), ['hello']);
      accepted(await at.delete(`/conversations/${id}`));
    });

  test('items get an id, a type and a status, and text becomes parts', async () => {
    const { id } = await make();
    const sent = [
      user('question'), { role: 'system', content: 'rule' },
      { type: 'message', role: 'assistant', content: 'answer' },
      { type: 'message', id: 'msg_mine', role: 'user', content: [{ type: 'input_text', text: 'again' }] },
      { type: 'code_interpreter_call', code: '1', container_id: 'cntr_x', status: 'completed', outputs: [{ type: 'logs', logs: '2' }] },
      { type: 'function_call', call_id: 'call_1', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'call_1', output: 'done' },
    ];
    const added = accepted(await door.post(`/conversations/${id}/items`, { items: sent }));
    assert.deepEqual([added.object, added.has_more, added.data.length], ['list', false, sent.length]);
    assert.deepEqual([added.first_id, added.last_id], [added.data[0].id, added.data.at(-1).id]);
    assert.ok(added.data.every((item) => item.id && item.type && item.status === 'completed'), JSON.stringify(added.data));
    assert.deepEqual(added.data[0].content, [{ type: 'input_text', text: 'question' }]);
    assert.deepEqual(added.data[2].content, [{ type: 'output_text', text: 'answer', annotations: [], logprobs: [] }]);
    assert.equal(added.data[3].id, 'msg_mine');
    assert.equal(added.data[4].outputs, null, 'outputs only when asked for');
    const call = added.data[4].id;
    assert.deepEqual(accepted(await door.get(`/conversations/${id}/items/${call}?${INCLUDE}`)).outputs, [{ type: 'logs', logs: '2' }]);
    assert.equal(accepted(await door.get(`/conversations/${id}/items/${call}`)).outputs, null);
    const list = await items(id, `?order=asc&${INCLUDE}`);
    assert.deepEqual(list.data.map((item) => item.id), added.data.map((item) => item.id));
    assert.equal(list.data[4].outputs.length, 1);
  });

  test('pages in both orders, by the last id', async () => {
    const { id } = await make({ items: [1, 2, 3, 4, 5].map((n) => user(`m${n}`)) });
    assert.deepEqual(texts(await items(id)), ['m5', 'm4', 'm3', 'm2', 'm1'], 'the newest first');
    for (const [order, expected] of [['asc', ['m1', 'm2', 'm3', 'm4', 'm5']], ['desc', ['m5', 'm4', 'm3', 'm2', 'm1']]]) {
      const seen = [];
      let after, page;
      do {
        page = await items(id, `?limit=2&order=${order}${after ? `&after=${after}` : ''}`);
        seen.push(...texts(page));
        after = page.last_id;
      } while (page.has_more);
      assert.deepEqual(seen, expected);
    }
    assert.deepEqual(await items(id, '?after=msg_none'), { object: 'list', data: [], first_id: null, last_id: null, has_more: false });
    assert.equal((await items(id, '?limit=0')).data.length, 1, 'too small a page is the smallest');
    assert.equal((await items(id, '?limit=101')).data.length, 5);
    refused(await door.get(`/conversations/${id}/items?order=up`), 400, { code: 'invalid_value', param: 'order' });
  });

  test('one item: read, deleted, unknown', async () => {
    const { id } = await make({ items: [user('a'), user('b')] });
    const other = await make({ items: [user('c')] });
    const [a] = (await items(id, '?order=asc')).data;
    const [c] = (await items(other.id)).data;
    assert.deepEqual(accepted(await door.get(`/conversations/${id}/items/${a.id}`)), a);
    refused(await door.get(`/conversations/${id}/items/${c.id}`), 404, { message: `Item with id '${c.id}' not found in conversation '${id}'.` });
    refused(await door.delete(`/conversations/${id}/items/${c.id}`), 404);
    assert.equal(accepted(await door.delete(`/conversations/${id}/items/${a.id}`)).id, id, 'the conversation');
    refused(await door.get(`/conversations/${id}/items/${a.id}`), 404);
    refused(await door.delete(`/conversations/${id}/items/${a.id}`), 404);
    assert.deepEqual(texts(await items(id)), ['b']);
  });

  test('limits of metadata and items: below, at and above', async () => {
    const pairs = (n, key = 'k', value = 'v') => Object.fromEntries(Array.from({ length: n }, (_, i) => [`${key}${i}`, value]));
    for (const metadata of [pairs(15), pairs(16), { ['ü'.repeat(64)]: 'v' }, { k: 'ü'.repeat(512) }])
      assert.deepEqual((await make({ metadata })).metadata, metadata);
    for (const [metadata, code] of [
      [pairs(17), 'object_above_max_properties'], [{ ['k'.repeat(65)]: 'v' }, 'property_name_above_max_length'],
      [{ k: 'v'.repeat(513) }, 'string_above_max_length'], [{ k: 1 }, 'invalid_type'], [{ k: null }, 'invalid_type'],
    ]) {
      refused(await door.post('/conversations', { metadata }), 400, { param: 'metadata', code });
      const { id } = await make();
      refused(await door.post(`/conversations/${id}`, { metadata }), 400, { param: 'metadata', code });
    }
    const many = (n) => Array.from({ length: n }, (_, i) => user(`${i}`));
    for (const n of [0, 1, 20]) {
      const { id } = await make({ items: many(n) });
      assert.equal((await items(id, '?limit=100')).data.length, n);
      if (n) assert.equal(accepted(await door.post(`/conversations/${id}/items`, { items: many(n) })).data.length, n);
    }
    const { id } = await make();
    for (const path of ['/conversations', `/conversations/${id}/items`])
      refused(await door.post(path, { items: many(21) }), 400, { param: 'items', code: 'array_above_max_length' });
  });

  test('bad bodies are refused by name', async () => {
    const { id } = await make();
    const at = `/conversations/${id}`;
    for (const [path, body, fault] of [
      ['/conversations', { item: [] }, { code: 'unknown_parameter', param: 'item' }],
      ['/conversations', { items: 'x' }, { code: 'invalid_type', param: 'items' }],
      ['/conversations', { metadata: [] }, { code: 'invalid_type', param: 'metadata' }],
      ['/conversations', [], {}],
      [at, {}, { code: 'missing_required_parameter', param: 'metadata' }],
      [`${at}/items`, {}, { code: 'missing_required_parameter', param: 'items' }],
      [`${at}/items`, { items: [{ role: 'nobody', content: 'x' }] }, { code: 'invalid_value', param: 'items[0].role' }],
      [`${at}/items`, { items: [{ role: 'user' }] }, { code: 'missing_required_parameter', param: 'items[0].content' }],
    ])
      refused(await door.post(path, body), 400, fault);
    assert.deepEqual((await items(id)).data, [], 'nothing of a refused request is kept');
  });

  test('I3: another tenant\'s and another key\'s is answered as what never was', async () => {
    const { id } = await make({ items: [user('secret')] });
    const [item] = (await items(id)).data;
    const stranger = new Door(g, await g.tenant('strangers'));
    const colleague = new Door(g, { key: (await g.ok('POST', '/api/keys', { tenant: 'default', scopes: ['execute'] })).secret });
    const none = `conv_${'0'.repeat(48)}`;
    for (const who of [stranger, colleague])
      for (const [method, path, body] of [
        ['GET', ''], ['POST', '', { metadata: {} }], ['DELETE', ''], ['GET', '/items'], ['POST', '/items', { items: [user('x')] }],
        ['GET', `/items/${item.id}`], ['DELETE', `/items/${item.id}`],
      ]) {
        const foreign = await who.call(method, `/conversations/${id}${path}`, { body });
        const unknown = await who.call(method, `/conversations/${none}${path}`, { body });
        assert.equal(foreign.status, 404, `${method} ${path} ${foreign.text}`);
        assert.equal(foreign.text.replaceAll(id, 'X'), unknown.text.replaceAll(none, 'X'));
      }
    refused(await colleague.post('/responses', { model: 'echo', input: 'x', conversation: id }), 404, { param: 'conversation' });
    assert.deepEqual(texts(await items(id)), ['secret']);
  });

  // ---- with responses

  const ask = (body) => door.post('/responses', { model: 'echo', ...body });

  test('a response adds what it was asked and what it said', async () => {
    const { id } = await make({ items: [user('before')] });
    const response = accepted(await ask({ input: 'hello', conversation: id }));
    assert.deepEqual(response.conversation, { id });
    const list = await items(id, '?order=asc');
    assert.deepEqual(list.data.map((item) => item.role), ['user', 'user', 'assistant']);
    assert.equal(list.data[2].id, response.output.at(-1).id);
    accepted(await ask({ input: 'more', conversation: { id } }));
    assert.equal((await items(id)).data.length, 5);
  });

  test('a conversation owns a session, whose variables and files stay', async () => {
    const { id } = await make();
    const run = async (code) => accepted(await ask({ input: `run: ${code}`, conversation: id, tools: CODE, include: ['code_interpreter_call.outputs'] }));
    const first = await run('x = 41; open("/mnt/data/a.txt", "w").write("hi")');
    const second = await run('print(x + 1)');
    const [one, two] = [first, second].map((r) => r.output.find((item) => item.type === 'code_interpreter_call'));
    assert.equal(one.container_id, two.container_id);
    assert.match(JSON.stringify(two.outputs), /42/);
    const kept = await g.ok('GET', `/api/conversations/${id}`);
    assert.deepEqual([kept.kept, kept.session, kept.executions, kept.files], [true, one.container_id, 2, 1]);
    const made = (await g.ok('GET', `/api/conversations/${id}/files`)).data;
    assert.deepEqual(made.map((v) => [v.path, v.change]), [['a.txt', 'created']]);
    // Deleted, its session and its files are gone too.
    const other = accepted(await door.get(`/responses/${first.id}`));
    assert.equal(other.id, first.id);
    accepted(await door.delete(`/conversations/${id}`));
    refused(await door.get(`/containers/${one.container_id}`), 404);
    assert.equal((await request(g, 'GET', `/api/workspaces/${kept.workspace}`)).status, 404);
    accepted(await door.get(`/responses/${first.id}`));
  });

  test('under legal hold a conversation stays', async () => {
    const { id } = await make();
    accepted(await ask({ input: 'run: open("/mnt/data/a.txt", "w").write("hi")', conversation: id, tools: CODE }));
    const { workspace, session } = await g.ok('GET', `/api/conversations/${id}`);
    await g.ok('PATCH', `/api/workspaces/${workspace}`, { legal_hold: true });
    refused(await door.delete(`/conversations/${id}`), 409, { message: /legal hold/ });
    assert.equal((await request(g, 'DELETE', `/api/conversations/${id}`)).status, 409);
    accepted(await door.get(`/conversations/${id}`));
    accepted(await door.get(`/containers/${session}`));
    await g.ok('PATCH', `/api/workspaces/${workspace}`, { legal_hold: false });
    accepted(await door.delete(`/conversations/${id}`));
  });

  test('a workspace with a name outlives its conversation', async () => {
    const { id } = await make();
    accepted(await ask({ input: 'run: open("/mnt/data/a.txt", "w").write("hi")', conversation: id, tools: CODE }));
    const { workspace } = await g.ok('GET', `/api/conversations/${id}`);
    await g.ok('PATCH', `/api/workspaces/${workspace}`, { name: 'keep me' });
    accepted(await door.delete(`/conversations/${id}`));
    assert.equal((await request(g, 'GET', `/api/workspaces/${workspace}/files/a.txt`)).text, 'hi');
  });

  test('two responses at once take turns', async () => {
    const { id } = await make();
    const both = await Promise.all(['one', 'two'].map((word) => ask({ input: `slow: 300\nsay: ${word}`, conversation: id })));
    both.forEach(accepted);
    const said = (await items(id, '?order=asc')).data.map((item) => item.role);
    assert.deepEqual(said, ['user', 'assistant', 'user', 'assistant']);
  });

  test('a conversation that stays busy is refused with a hint to come back', async () => {
    const { id } = await make();
    const long = ask({ input: 'slow: 9000\nsay: late', conversation: id, store: false });
    await new Promise((done) => setTimeout(done, 500));
    const answer = await door.post(`/conversations/${id}/items`, { items: [user('now')] });
    refused(answer, 409, { code: 'conversation_locked', message: 'Another process is currently operating on this conversation. Please retry in a few seconds.' });
    assert.match(answer.headers['retry-after'], /^\d+$/);
    assert.equal(answer.headers['x-should-retry'], undefined, 'clients may try again');
    assert.deepEqual((await items(id)).data.filter((item) => item.content[0].text === 'now'), []);
    // Reads do not wait, and a delete stops what runs.
    const began = Date.now();
    accepted(await door.delete(`/conversations/${id}`));
    assert.ok(Date.now() - began < 8000, 'the response was stopped');
    const stopped = await long;
    assert.ok(stopped.status !== 200 || stopped.body.status === 'cancelled', stopped.text.slice(0, 300));
    refused(await door.get(`/conversations/${id}`), 404);
  });

  test('events of the trail name ids and nothing that was said', async () => {
    const { id } = await make({ items: [user('very secret words')], metadata: { k: 'hidden value' } });
    accepted(await door.post(`/conversations/${id}/items`, { items: [user('more secret words')] }));
    accepted(await door.delete(`/conversations/${id}`));
    const { data } = await g.ok('GET', `/api/audit?object=${id}&limit=100`);
    assert.deepEqual(data.map((e) => e.action), ['conversation.create', 'conversation.items', 'conversation.delete']);
    assert.doesNotMatch(JSON.stringify(data), /secret|hidden/);
  });
});
