// SPDX-License-Identifier: Apache-2.0
// A scripted server of a language model. Each request takes the next step of
// the script (the last one repeats): a function of (request, response), or the
// name of an answer below. It keeps what it was sent.
import { createServer } from 'node:http';
import { createServer as createSecure } from 'node:https';

const sse = (res, events, { done = true, crlf = false } = {}) => {
  const end = crlf ? '\r\n' : '\n';
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const e of events) res.write(`${e.event ? `event: ${e.event}${end}` : ''}data: ${JSON.stringify(e.data ?? e)}${end}${end}`);
  if (done) res.write(`data: [DONE]${end}${end}`);
  res.end();
};
const json = (res, status, body, headers = {}) => {
  res.writeHead(status, { 'content-type': 'application/json', ...headers });
  res.end(JSON.stringify(body));
};
const piece = (delta, finish = null) => ({ choices: [{ index: 0, delta, finish_reason: finish }] });

export const chat = {
  // Words in pieces, a call where the request offers a function, and usage.
  answer: (req, res) => {
    const name = req.body.tools?.[0]?.function.name;
    if (name)
      return sse(res, [piece({ role: 'assistant', content: null, tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name, arguments: '' } }] }),
        piece({ tool_calls: [{ index: 0, function: { arguments: '{"city":' } }] }), piece({ tool_calls: [{ index: 0, function: { arguments: '"Bonn"}' } }] }),
        piece({}, 'tool_calls'), { choices: [], usage: { prompt_tokens: 20, completion_tokens: 10 } }]);
    return sse(res, [piece({ role: 'assistant', content: '' }), piece({ content: 'Hello ' }), piece({ content: 'world' }), piece({}, 'stop'),
      { choices: [], usage: { prompt_tokens: 7, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 3 } } }]);
  },
  rate: (req, res) => json(res, 429, { error: { message: 'slow down', type: 'rate_limit_error' } }, { 'retry-after-ms': '20' }),
  rateLong: (req, res) => json(res, 429, { error: { message: 'slow down', type: 'rate_limit_error' } }, { 'retry-after': '300' }),
  quota: (req, res) => json(res, 429, { error: { message: 'pay first', code: 'insufficient_quota' } }),
  overload: (req, res) => json(res, 529, { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }),
  key: (req, res) => json(res, 401, { error: { message: `Incorrect API key provided: ${req.headers.authorization}` } }),
  large: (req, res) => json(res, 400, { error: { code: 400, type: 'exceed_context_size_error', message: 'too big', n_prompt_tokens: 9, n_ctx: 4 } }),
  refuse: (req, res) => json(res, 422, { detail: 'no such field' }),
  redirect: (req, res) => { res.writeHead(302, { location: 'http://127.0.0.1:1/elsewhere' }); res.end(); },
  cut: (req, res) => { res.writeHead(200, { 'content-type': 'text/event-stream' }); res.write(`data: ${JSON.stringify(piece({ content: 'half' }))}\n\n`); setTimeout(() => res.destroy(), 20); },
  close: (req, res) => res.destroy(),
  silent: () => {},
  endless: (req, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    const text = 'x'.repeat(1 << 16);
    const go = () => { while (res.write(`data: ${JSON.stringify(piece({ content: text }))}\n\n`)); };
    res.on('drain', go);
    go();
  },
  html: (req, res) => { res.writeHead(200, { 'content-type': 'text/html' }); res.end('<html>It works!</html>'); },
  embed: (req, res) => json(res, 200, { data: [].concat(req.body.input).map((t, index) => ({ index, embedding: [t.length, 1, 2] })), usage: { prompt_tokens: 4 } }),
};

export const responses = {
  answer: (req, res) => {
    const name = req.body.tools?.[0]?.name;
    const item = name ? { type: 'function_call', id: 'fc_1', call_id: 'call_9', name, arguments: '{"city":"Bonn"}' }
      : { type: 'message', id: 'msg_1', role: 'assistant', content: [{ type: 'output_text', text: 'Hello world', annotations: [] }] };
    const deltas = name ? ['{"city":', '"Bonn"}'].map((delta) => ({ type: 'response.function_call_arguments.delta', output_index: 0, delta }))
      : ['Hello ', 'world'].map((delta) => ({ type: 'response.output_text.delta', output_index: 0, delta }));
    sse(res, [{ type: 'response.created', response: {} }, { type: 'response.output_item.added', output_index: 0, item: { ...item, arguments: '', content: [] } },
      ...deltas, { type: 'response.output_item.done', output_index: 0, item },
      { type: 'response.completed', response: { status: 'completed', output: [item], usage: { input_tokens: 7, output_tokens: 2 } } }], { done: false });
  },
};

export const anthropic = {
  answer: (req, res) => {
    const name = req.body.tools?.[0]?.name;
    const block = name ? [{ type: 'content_block_start', index: 0, content_block: { type: 'tool_use', id: 'toolu_1', name, input: {} } },
      { type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: '{"city":"Bonn"}' } }]
      : [{ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
        { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hello ' } },
        { type: 'ping' }, { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'world' } }];
    const events = [{ type: 'message_start', message: { usage: { input_tokens: 5, cache_read_input_tokens: 2, output_tokens: 1 } } }, ...block,
      { type: 'content_block_stop', index: 0 }, { type: 'message_delta', delta: { stop_reason: name ? 'tool_use' : 'end_turn' }, usage: { output_tokens: 2 } }, { type: 'message_stop' }];
    sse(res, events.map((data) => ({ event: data.type, data })), { done: false, crlf: true });
  },
};

export class ModelServer {
  static start(...script) { return ModelServer.listen(createServer, ...script); }
  // The same by TLS: options are those of node:https.
  static tls(options, ...script) { return ModelServer.listen((fn) => createSecure(options, fn), ...script); }

  static async listen(make, ...script) {
    const s = new ModelServer();
    s.seen = [];
    s.script = script;
    s.server = make((req, res) => {
      let text = '';
      req.setEncoding('utf8');
      req.on('data', (t) => { text += t; });
      req.on('end', () => {
        const step = s.script.length > 1 ? s.script.shift() : s.script[0];
        const seen = { method: req.method, url: req.url, headers: req.headers, body: text ? JSON.parse(text) : null };
        s.seen.push(seen);
        res.on('close', () => { seen.closed = true; });
        step(seen, res);
      });
    });
    await new Promise((done) => s.server.listen(0, '127.0.0.1', done));
    s.port = s.server.address().port;
    s.url = `http://127.0.0.1:${s.port}/v1`;
    return s;
  }
  will(...script) { this.script = script; this.seen.length = 0; }
  stop() { this.server.closeAllConnections(); return new Promise((done) => this.server.close(done)); }
}
