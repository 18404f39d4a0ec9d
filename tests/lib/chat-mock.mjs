// SPDX-License-Identifier: Apache-2.0
// A MOCK of the service's chat routes, for streams that the real service does
// not send on demand: cut, out of order, held, refused, endless. It answers
// what a script says; it runs no code and has no model. Tests of what the
// service itself does start the service.
//
//   const mock = await ChatMock.start();
//   mock.script = (request) => [...answer('Hello')];   // events of one response
//   mock.requests                                       // what came, in order
import { createServer } from 'node:http';

export const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
export const CONTAINER = 'cntr_00112233445566778899aabbccddeeff';

// Events of one message, cut into pieces; index: its place in the output.
export function message(text, { index = 0, id = `msg_${index}`, pieces = 7, annotations = [] } = {}) {
  const part = { type: 'output_text', text, annotations, logprobs: [] };
  const item = { id, type: 'message', role: 'assistant', status: 'completed', content: [part] };
  const at = { item_id: id, output_index: index, content_index: 0 };
  const cuts = [];
  for (let i = 0; i < text.length; i += pieces) cuts.push(text.slice(i, i + pieces));
  return [
    { type: 'response.output_item.added', output_index: index, item: { ...item, status: 'in_progress', content: [] } },
    { type: 'response.content_part.added', ...at, part: { ...part, text: '', annotations: [] } },
    ...cuts.map((delta) => ({ type: 'response.output_text.delta', ...at, delta, logprobs: [] })),
    ...annotations.map((annotation, i) => ({ type: 'response.output_text.annotation.added', ...at, annotation_index: i, annotation })),
    { type: 'response.output_text.done', ...at, text, logprobs: [] },
    { type: 'response.content_part.done', ...at, part },
    { type: 'response.output_item.done', output_index: index, item },
  ];
}

// Events of one run of code.
export function code(source, outputs, { index = 0, id = `ci_${index}`, status = 'completed', container = CONTAINER } = {}) {
  const at = { item_id: id, output_index: index };
  const item = { id, type: 'code_interpreter_call', status, container_id: container, code: source, outputs };
  return [
    { type: 'response.output_item.added', output_index: index, item: { ...item, status: 'in_progress', code: '', outputs: [] } },
    { type: 'response.code_interpreter_call.in_progress', ...at },
    { type: 'response.code_interpreter_call_code.delta', ...at, delta: source },
    { type: 'response.code_interpreter_call_code.done', ...at, code: source },
    { type: 'response.code_interpreter_call.interpreting', ...at },
    ...(status === 'completed' ? [{ type: 'response.code_interpreter_call.completed', ...at }] : []),
    { type: 'response.output_item.done', output_index: index, item },
  ];
}

export const citation = (filename, text = '', link = '') => {
  const start = text.indexOf(link);
  return { type: 'container_file_citation', container_id: CONTAINER, file_id: 'cfile_00112233445566778899aabbccddee01', filename,
    start_index: Math.max(start, 0), end_index: Math.max(start, 0) + link.length };
};

// A whole response around those events. wait: 'cancel' holds it open after the
// events until it is cancelled; cut: the connection breaks after so many.
export const answer = (events, { status = 'completed', error = null, incomplete = null } = {}) => ({ events, status, error, incomplete });

export class ChatMock {
  static async start() {
    const mock = new ChatMock();
    mock.server = createServer((req, res) => mock.serve(req, res).catch((e) => { res.statusCode = 500; res.end(String(e)); }));
    await new Promise((done) => mock.server.listen(0, '127.0.0.1', done));
    mock.url = `http://127.0.0.1:${mock.server.address().port}`;
    return mock;
  }

  requests = [];
  conversations = new Map();
  responses = new Map();
  files = [];
  models = [{ id: 'echo', object: 'model', created: 1, owned_by: 'glovebox' }, { id: 'other', object: 'model', created: 1, owned_by: 'glovebox' }];
  key = 'gbx_mock_key_of_no_service_0000000000000000';
  number = 0;
  script = () => answer(message('nothing was scripted'));
  refuse = () => null; // (method, path, body) => {status, error} or null

  close() { this.server.closeAllConnections(); this.server.close(); }

  async serve(req, res) {
    const url = new URL(req.url, this.url);
    const chunks = [];
    for await (const chunk of req) chunks.push(chunk);
    const raw = Buffer.concat(chunks);
    const isJson = req.headers['content-type']?.startsWith('application/json');
    const body = isJson ? JSON.parse(raw) : raw;
    this.requests.push({ method: req.method, path: url.pathname, query: url.searchParams, body, headers: req.headers });
    const send = (value, status = 200, headers = {}) => { res.writeHead(status, { 'content-type': 'application/json', ...headers }); res.end(JSON.stringify(value)); };
    const refused = this.refuse(req.method, url.pathname, body);
    if (refused) return send({ error: { message: 'refused', type: 'invalid_request_error', param: null, code: null, ...refused.error } }, refused.status, refused.headers);
    const at = url.pathname.split('/').slice(1);
    if (at[0] === 'api' && at[1] === 'conversations') return this.native(req.method, at, body, send);
    if (at[0] !== 'v1') return send({ error: { code: 'not_found', message: 'this is a mock' } }, 404);
    const conversation = this.conversations.get(at[2]);
    if (at[1] === 'models') return send({ object: 'list', data: this.models });
    if (at[1] === 'files' && req.method === 'POST') {
      const text = raw.toString('latin1');
      const file = { id: `file-${String(++this.number).padStart(22, '0')}`, object: 'file', filename: /filename="([^"]*)"/.exec(text)?.[1], purpose: /name="purpose"\r\n\r\n(\w+)/.exec(text)?.[1], bytes: raw.length };
      this.files.push({ ...file, text });
      return send(file);
    }
    if (at[1] === 'files' && at.length === 3) return send(this.files.find((f) => f.id === at[2]) ?? { error: { message: 'not found' } }, this.files.some((f) => f.id === at[2]) ? 200 : 404);
    if (at[1] === 'conversations' && !conversation) return send({ error: { message: `Conversation with id '${at[2]}' not found.`, type: 'invalid_request_error', param: 'conversation', code: null } }, 404);
    if (at[1] === 'conversations' && at[3] === 'items' && req.method === 'DELETE') {
      conversation.items = conversation.items.filter((i) => i.id !== decodeURIComponent(at[4]));
      return send(conversation.made);
    }
    if (at[1] === 'conversations' && at[3] === 'items' && url.searchParams.get('order') === 'asc') return send({ object: 'list', data: conversation.items, first_id: null, last_id: null, has_more: false });
    if (at[1] === 'conversations' && at[3] === 'items') return send({ object: 'list', data: [...conversation.items].reverse(), first_id: null, last_id: null, has_more: false });
    if (at[1] === 'responses' && at.length === 2) return this.respond(body, res);
    const known = this.responses.get(at[2]);
    if (at[1] === 'responses' && known && at[3] === 'cancel') {
      known.cancel();
      return send({ ...known.object, status: 'cancelled' });
    }
    if (at[1] === 'responses' && known) return this.stream(known, res, Number(url.searchParams.get('starting_after') ?? -1));
    return send({ error: { message: 'not found', type: 'invalid_request_error', param: null, code: null } }, 404);
  }

  // Conversations of the native API.
  native(method, at, body, send) {
    if (at.length === 2 && method === 'GET') return send({ data: [...this.conversations.values()].reverse().map((c) => c.made), has_more: false });
    if (at.length === 2) {
      const made = { id: `conv_${String(++this.number).padStart(32, '0')}`, title: body.title, last_at: new Date().toISOString(), workspace: this.workspace ?? null, session: null };
      this.conversations.set(made.id, { made, items: [] });
      return send(made, 201);
    }
    const known = this.conversations.get(at[2]);
    if (!known) return send({ error: { code: 'not_found', message: 'there is no such conversation' } }, 404);
    if (at[3] === 'export') return send(`# ${known.made.title}`);
    if (method === 'PATCH') known.made.title = body.title;
    if (method === 'DELETE') this.conversations.delete(at[2]);
    return send(method === 'DELETE' ? {} : known.made);
  }

  respond(body, res) {
    const plan = this.script(body, this.responses.size);
    const object = { id: `resp_${String(++this.number).padStart(32, '0')}`, object: 'response', created_at: 1, status: 'in_progress', error: null, incomplete_details: null,
      model: body.model ?? 'echo', output: [], conversation: body.conversation ? { id: body.conversation } : null, usage: null };
    const final = { ...object, status: plan.status, error: plan.error, incomplete_details: plan.incomplete, output: plan.events.filter((e) => e.type === 'response.output_item.done').map((e) => e.item), usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 } };
    const known = { object, plan, cancelled: false, waiters: [] };
    known.cancel = () => { known.cancelled = true; for (const wake of known.waiters.splice(0)) wake(); };
    known.log = [{ type: 'response.created', response: object }, { type: 'response.in_progress', response: object }, ...plan.events];
    known.end = (status) => ({ type: ['failed', 'cancelled'].includes(status) ? 'response.failed' : `response.${status}`, response: { ...final, status } });
    this.responses.set(object.id, known);
    const conversation = this.conversations.get(body.conversation);
    known.store = () => conversation?.items.push(...body.input.map((item, i) => ({ id: `msg_in_${object.id}_${i}`, status: 'completed', ...item })), ...final.output);
    for (const event of known.log) for (const place of [event.item, event]) { const key = place === event ? 'item_id' : 'id'; if (place?.[key]) place[key] += `_${object.id}`; }
    return this.stream(known, res, -1, plan.cut);
  }

  async stream(known, res, after, cut = Infinity) {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    let sent = 0;
    for (const [i, event] of known.log.entries()) {
      if (i <= after) continue;
      if (sent++ >= cut) return void setTimeout(() => res.destroy(), 50);
      res.write(`event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number: i })}\n\n`);
      if (known.plan.pause) await new Promise((done) => setTimeout(done, known.plan.pause));
    }
    if (known.plan.wait && !known.cancelled) await new Promise((done) => known.waiters.push(done));
    if (known.plan.noEnd) return void res.end();
    if (!known.stored) known.store();
    known.stored = true;
    const last = known.end(known.cancelled ? 'cancelled' : known.plan.status);
    res.end(`event: ${last.type}\ndata: ${JSON.stringify({ ...last, sequence_number: known.log.length })}\n\n`);
  }
}
