// SPDX-License-Identifier: Apache-2.0
// What an application may try with openai for JavaScript beyond the scenario:
// parallel calls, choices of tools, files and images by id, every `include`,
// resumed and cancelled streams, chains with a deleted link, pages, errors.
// Steps for responses-play.mjs.
const CODE = { type: 'code_interpreter', container: { type: 'auto' } };
const INC = ['code_interpreter_call.outputs'];
const must = (holds, why = 'it does not hold') => { if (!holds) throw new Error(why); };

// The error of a promise, whose members are as wanted.
async function err(promise, wanted) {
  let caught;
  try {
    await promise;
  } catch (error) {
    caught = error;
  }
  must(caught, 'no error');
  for (const [k, v] of Object.entries(wanted)) must(v instanceof RegExp ? v.test(caught[k]) : caught[k] === v, `${k}: ${caught[k]} (${caught.message})`);
}

// make: a function that returns the client and toFile.
export function walk(make) {
  const steps = [];
  let c, toFile;
  const step = (name, fn) => steps.push([`walk: ${name}`, fn]);
  step('the client is made', async (server) => { ({ client: c, toFile } = await make(server)); });
  step('parallel tool calls', async () => {
    const tools = ['a', 'b'].map((n) => ({ type: 'function', name: n, parameters: { type: 'object', properties: {} }, strict: false }));
    const s = c.responses.stream({ model: 'echo', input: 'parallel\ncall: a {}\ncall: b {}', tools });
    const r = await s.finalResponse();
    must(r.output.filter((i) => i.type === 'function_call').length === 2, JSON.stringify(r.output));
    await err(c.responses.create({ model: 'echo', previous_response_id: r.id, tools, input: [{ type: 'function_call_output', call_id: r.output[0].call_id, output: '1' }] }), { status: 400, param: 'input' });
    const both = await c.responses.create({ model: 'echo', previous_response_id: r.id, tools, input: r.output.map((i) => ({ type: 'function_call_output', call_id: i.call_id, output: '1' })) });
    must(both.status === 'completed');
  });
  step('parallel code + function', async () => {
    const tools = [CODE, { type: 'function', name: 'a', parameters: { type: 'object', properties: {} }, strict: false }];
    const r = await c.responses.create({ model: 'echo', input: 'parallel\nrun: print(1)\ncall: a {}\nrun: print(2)', tools, include: INC });
    must(r.output.filter((i) => i.type === 'code_interpreter_call' && i.status === 'completed').length === 2, JSON.stringify(r.output));
    const next = await c.responses.create({ model: 'echo', previous_response_id: r.id, tools, input: [{ type: 'function_call_output', call_id: r.output.find((i) => i.type === 'function_call').call_id, output: 'x' }, { role: 'user', content: 'show: input' }] });
    must(/function_call_output/.test(next.output_text), next.output_text.slice(0, 500));
  });
  step('streamed parse', async () => {
    const s = c.responses.stream({ model: 'echo', input: 'x', text: { format: { type: 'json_schema', name: 'p', strict: true, schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false } } } });
    let deltas = 0; s.on('response.output_text.delta', () => deltas++);
    const r = await s.finalResponse();
    must(typeof JSON.parse(r.output_text).city === 'string', r.output_text); // openai 6 sets no output_parsed here
    must(deltas > 0);
  });
  step('json_object', async () => { const r = await c.responses.create({ model: 'echo', input: 'give json', text: { format: { type: 'json_object' } } }); JSON.parse(r.output_text); });
  step('file_ids explicit container', async () => {
    const f = await c.files.create({ file: await toFile(Buffer.from('a,b\n1,2'), 'd.csv'), purpose: 'assistants' });
    const k = await c.containers.create({ name: 'x', file_ids: [f.id] });
    const r = await c.responses.create({ model: 'echo', input: 'run: import os; print(os.listdir("/mnt/data"))', tools: [{ type: 'code_interpreter', container: k.id }], include: INC });
    must(/d\.csv/.test(r.output[0].outputs[0].logs), JSON.stringify(r.output[0]));
    must(r.output[0].container_id === k.id);
    await err(c.responses.create({ model: 'echo', input: 'x', tools: [{ type: 'code_interpreter', container: { type: 'auto', file_ids: ['file-nope'] } }] }), { status: 404 });
    await err(c.responses.create({ model: 'echo', input: 'x', tools: [{ type: 'code_interpreter', container: { type: 'auto', files: [] } }] }), { status: 400, param: 'tools[0].container.files' });
    const img = await c.files.create({ file: await toFile(Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64'), 'p.png'), purpose: 'vision' });
    const vi = await c.responses.create({ model: 'echo', input: [{ role: 'user', content: [{ type: 'input_image', file_id: img.id, detail: 'auto' }, { type: 'input_text', text: 'say: seen' }] }] });
    must(vi.output_text === 'seen');
    await err(c.responses.create({ model: 'echo', input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'https://example.com/x.png', detail: 'auto' }] }] }), { status: 400 });
  });
  step('include options', async () => {
    for (const inc of ['file_search_call.results', 'web_search_call.action.sources', 'message.input_image.image_url', 'computer_call_output.output.image_url', 'reasoning.encrypted_content', 'message.output_text.logprobs'])
      await c.responses.create({ model: 'echo', input: 'x', include: [inc] });
    await err(c.responses.create({ model: 'echo', input: 'x', include: ['nope'] }), { status: 400, code: 'invalid_value', param: /include/ });
  });
  step('background stream, resume, cancel, retrieve stream', async () => {
    const s = await c.responses.create({ model: 'echo', input: 'slow: 20\nlong: 200', background: true, stream: true });
    let id; for await (const e of s) { id ??= e.response?.id; if (e.sequence_number > 8) break; }
    const rest = await c.responses.retrieve(id, { stream: true, starting_after: 8 });
    const seq = [];
    const reading = (async () => { for await (const e of rest) seq.push(e); })();
    await new Promise((d) => setTimeout(d, 200));
    const x = await c.responses.cancel(id); must(x.status === 'cancelled', x.status);
    await reading.catch(() => {});
    must(seq[0].sequence_number === 9 && seq.at(-1).type === 'response.failed' && seq.at(-1).response.status === 'cancelled', JSON.stringify(seq.at(-1)));
    must((await c.responses.cancel(id)).status === 'cancelled');
    const sync = await c.responses.create({ model: 'echo', input: 'x' });
    await err(c.responses.cancel(sync.id), { status: 400 });
    const late = await c.responses.retrieve(sync.id, { stream: true });
    const types = []; for await (const e of late) types.push(e.type); must(types.at(-1) === 'response.completed', types.join());
    const helper = c.responses.stream({ response_id: sync.id });
    const fin = await helper.finalResponse(); must(fin.id === sync.id && fin.output_text === 'x', fin.output_text);
  });
  step('chain, delete in the middle, input_items paging', async () => {
    const a = await c.responses.create({ model: 'echo', input: 'say: one' });
    const b = await c.responses.create({ model: 'echo', input: 'say: two', previous_response_id: a.id });
    await c.responses.delete(a.id);
    const d = await c.responses.create({ model: 'echo', input: 'show: input', previous_response_id: b.id });
    must(/one/.test(d.output_text) && /two/.test(d.output_text), d.output_text);
    const items = []; for await (const i of c.responses.inputItems.list(d.id, { limit: 2, order: 'asc' })) items.push(i);
    must(items.length === 5, `${items.length}`);
    const p = await c.responses.inputItems.list(d.id, { limit: 2 }); must(p.has_more && p.data.length === 2 && p.data[0].id === items.at(-1).id);
    await err(c.responses.create({ model: 'echo', input: 'x', previous_response_id: a.id }), { status: 400, code: 'previous_response_not_found', param: 'previous_response_id' });
    await err(c.responses.inputItems.list(a.id), { status: 404 });
  });
  step('store false', async () => {
    const a = await c.responses.create({ model: 'echo', input: 'x', store: false });
    await err(c.responses.retrieve(a.id), { status: 404 });
    await err(c.responses.create({ model: 'echo', input: 'x', previous_response_id: a.id }), { status: 400, code: 'previous_response_not_found' });
    await err(c.responses.create({ model: 'echo', input: 'x', store: false, background: true }), { status: 400 });
  });
  step('conversations CRUD', async () => {
    const v = await c.conversations.create({ metadata: { a: 'b' }, items: [{ type: 'message', role: 'user', content: 'hello' }] });
    const s = c.responses.stream({ model: 'echo', conversation: v.id, input: 'run: print(1)', tools: [CODE] }); await s.finalResponse();
    const all = []; for await (const i of c.conversations.items.list(v.id, { limit: 1, order: 'asc' })) all.push(i);
    must(all.length === 4, `${all.length}`);
    const got = await c.conversations.items.retrieve(all[2].id, { conversation_id: v.id, include: INC }); must(got.outputs[0].logs === '1\n', JSON.stringify(got));
    const bare = await c.conversations.items.retrieve(all[2].id, { conversation_id: v.id }); must(bare.outputs === null);
    const after = await c.conversations.items.delete(all[0].id, { conversation_id: v.id }); must(after.object === 'conversation');
    await err(c.conversations.items.retrieve(all[0].id, { conversation_id: v.id }), { status: 404 });
    const upd = await c.conversations.update(v.id, { metadata: { z: '1' } }); must(upd.metadata.z === '1' && !upd.metadata.a);
    await err(c.responses.create({ model: 'echo', conversation: v.id, previous_response_id: 'resp_x', input: 'x' }), { status: 400 });
    await err(c.responses.create({ model: 'echo', conversation: 'conv_nope', input: 'x' }), { status: 404 });
    const del = await c.conversations.delete(v.id); must(del.deleted);
    await err(c.conversations.retrieve(v.id), { status: 404 });
  });
  step('tool_choice', async () => {
    const f = { type: 'function', name: 'f', parameters: { type: 'object', properties: { q: { type: 'string' } }, required: ['q'] }, strict: false };
    for (const tc of ['required', { type: 'function', name: 'f' }, { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'f' }] }]) {
      const r = await c.responses.create({ model: 'echo', input: 'x', tools: [f], tool_choice: tc }); must(r.output[0].type === 'function_call', JSON.stringify(r.output)); JSON.parse(r.output[0].arguments);
    }
    const ci = await c.responses.create({ model: 'echo', input: 'x', tools: [CODE, f], tool_choice: { type: 'code_interpreter' } }); must(ci.output[0].type === 'code_interpreter_call' && ci.status === 'completed', JSON.stringify(ci.output));
    const none = await c.responses.create({ model: 'echo', input: 'run: print(1)', tools: [CODE], tool_choice: 'none' }); must(none.output[0].type === 'message');
    await err(c.responses.create({ model: 'echo', input: 'x', tools: [f], tool_choice: { type: 'function', name: 'g' } }), { status: 400, param: 'tool_choice' });
    await err(c.responses.create({ model: 'echo', input: 'x', tool_choice: 'bogus' }), { status: 400, param: 'tool_choice' });
  });
  step('limits and unknowns', async () => {
    await err(c.responses.create({ model: 'echo', input: 'x', bogus: 1 }), { status: 400, code: 'unknown_parameter', param: 'bogus' });
    await err(c.responses.create({ model: 'echo', input: 'x', max_output_tokens: 10 }), { status: 400, code: 'integer_below_min_value', param: 'max_output_tokens', message: /Expected a value >= 16, but got 10 instead/ });
    await err(c.responses.create({ model: 'echo', input: 'x', temperature: 3 }), { status: 400, param: 'temperature' });
    await err(c.responses.create({ model: 'echo', input: 'x', metadata: { a: 1 } }), { status: 400, param: 'metadata' });
    await err(c.responses.create({ model: 'echo', input: 'x', metadata: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [i, 'x'])) }), { status: 400, param: 'metadata' });
    await err(c.responses.create({ model: 'echo' }), { status: 400, param: 'input', code: 'missing_required_parameter' });
    await err(c.responses.create({}), { status: 400 });
    await err(c.responses.create({ model: 'echo', input: 'x', prompt: { id: 'p' } }), { status: 400, code: 'unsupported_parameter' });
    await err(c.responses.create({ model: 'echo', input: 'x', tools: [{ type: 'web_search' }] }), { status: 400, param: 'tools[0].type' });
    await err(c.responses.create({ model: 'echo', input: [{ id: 'msg_x', type: 'item_reference' }] }), { status: 404, param: 'input' });
    await err(c.responses.retrieve('resp_nope'), { status: 404, message: /Response with id 'resp_nope' not found/ });
    const t = await c.responses.create({ model: 'echo', input: 'x', truncation: 'auto', service_tier: 'flex', user: 'u', safety_identifier: 's', prompt_cache_key: 'k', reasoning: { effort: 'low' }, top_p: 0.5, metadata: { a: 'b' }, context_management: [{ type: 'compaction', compact_threshold: 5000 }] });
    must(t.truncation === 'auto' && t.service_tier === 'default' && t.prompt_cache_key === 'k' && t.metadata.a === 'b' && t.reasoning.effort === 'low', JSON.stringify(t));
    for (const k of ['max_tool_calls', 'top_logprobs', 'prompt_cache_key', 'safety_identifier', 'conversation', 'error', 'incomplete_details', 'instructions', 'usage']) must(k in t, k);
  });
  step('input tokens, compact', async () => {
    const n = await c.responses.inputTokens.count({ model: 'echo', input: 'one two three' }); must(n.input_tokens > 0, JSON.stringify(n));
    const k = await c.responses.compact({ model: 'echo', input: [{ role: 'user', content: 'remember 42' }, { role: 'assistant', content: 'ok' }] }); must(k.output.at(-1).type === 'compaction', JSON.stringify(k));
    const r = await c.responses.create({ model: 'echo', input: [...k.output, { role: 'user', content: 'show: input' }] }); must(/42/.test(r.output_text), r.output_text);
  });
  step('files cited via chart', async () => {
    const r = await c.responses.create({ model: 'echo', input: 'run: import matplotlib; matplotlib.use("Agg"); import matplotlib.pyplot as plt; plt.plot([1,2]); plt.show()', tools: [CODE], include: INC });
    must(r.output[0].outputs.length > 0, JSON.stringify(r.output[0].outputs).slice(0, 300));
  });
  return steps;
}
