// SPDX-License-Identifier: Apache-2.0
// MCP by hand, in both eras: what goes over the wire is what a test writes,
// so that a test can also be wrong on purpose. Used by the wire tests of /mcp.
import assert from 'node:assert/strict';
import http from 'node:http';

export const MODERN = '2026-07-28';
export const LEGACY = '2025-11-25';
export const VERSION = 'io.modelcontextprotocol/protocolVersion';
export const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
export const SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId';
export const TASKS = 'io.modelcontextprotocol/tasks';

export const meta = (capabilities = {}, more = {}) => ({ [VERSION]: MODERN, [CAPABILITIES]: capabilities, ...more });

const named = { 'tools/call': 'name', 'prompts/get': 'name', 'resources/read': 'uri',
  'tasks/get': 'taskId', 'tasks/update': 'taskId', 'tasks/cancel': 'taskId' };

// The events of a stream so far: [{ id, data (parsed), raw }].
export function events(text) {
  return text.split('\n\n').filter((block) => block.includes('data:')).map((block) => {
    const field = (name) => block.split('\n').find((line) => line.startsWith(`${name}:`))?.slice(name.length + 1).trim();
    const data = field('data');
    return { id: field('id'), retry: field('retry'), event: field('event'), data: data ? JSON.parse(data) : undefined, raw: block };
  });
}

// One request; the answer when it is complete, with `messages` whichever way
// it came. onEvent(event, request) sees a stream's events as they come,
// onRequest the request before it is sent.
export function send(server, method, { body, headers = {}, key = server.key, path = '/mcp', onEvent, onRequest } = {}) {
  const url = new URL(server.url);
  const bytes = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body);
  return new Promise((done, fail) => {
    const req = http.request({ hostname: url.hostname, port: url.port, method, path, agent: false, headers: {
      ...(key ? { authorization: `Bearer ${key}` } : {}),
      ...(bytes === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(bytes) }),
      accept: 'application/json, text/event-stream', ...headers } }, (response) => {
      let text = '', seen = 0;
      response.setEncoding('utf8');
      response.on('data', (part) => {
        text += part;
        if (!onEvent || !response.headers['content-type']?.startsWith('text/event-stream')) return;
        const complete = events(text.slice(0, text.lastIndexOf('\n\n') + 2));
        while (seen < complete.length) onEvent(complete[seen++], req);
      });
      const finish = () => {
        const type = response.headers['content-type'] ?? '';
        const stream = type.startsWith('text/event-stream') ? events(text) : undefined;
        const parsed = type.startsWith('application/json') && text ? JSON.parse(text) : undefined;
        done({ status: response.statusCode, headers: response.headers, text, body: parsed, stream,
          messages: stream ? stream.map(({ data }) => data).filter(Boolean) : [parsed].flat().filter(Boolean) });
      };
      response.on('end', finish);
      response.on('error', finish);
    });
    req.on('error', fail);
    onRequest?.(req);
    req.end(bytes);
  });
}

let ids = 100;

// A request of the modern era with everything it needs; `headers` and `meta`
// change or (undefined) remove single ones.
export function modern(server, method, params = {}, { id = ids++, headers = {}, capabilities, more, omitMeta, ...rest } = {}) {
  const name = named[method] && params[named[method]];
  const all = { 'mcp-protocol-version': MODERN, 'mcp-method': method, ...(name === undefined ? {} : { 'mcp-name': name }), ...headers };
  const body = { jsonrpc: '2.0', id, method, params: omitMeta ? params : { ...params, _meta: { ...meta(capabilities, more), ...params._meta } } };
  return send(server, 'POST', { body, headers: Object.fromEntries(Object.entries(all).filter(([, v]) => v !== undefined)), ...rest });
}

// The final response of an answer; its id is asserted.
export const response = (answer) => answer.messages.find((m) => m.result !== undefined || m.error !== undefined);

export async function result(promise) {
  const answer = await promise;
  const last = response(answer);
  assert.ok(last?.result, `${answer.status} ${answer.text.slice(0, 600)}`);
  return last.result;
}

// Asserts a JSON-RPC error; H5 holds for its sentence.
export async function refuses(promise, status, code, pattern) {
  const answer = await promise;
  const shown = `${answer.status} ${answer.text.slice(0, 600)}`;
  assert.equal(answer.status, status, shown);
  const { error } = response(answer) ?? {};
  assert.ok(error, shown);
  assert.equal(error.code, code, shown);
  assert.ok(typeof error.message === 'string' && error.message.length > 3, shown);
  assert.doesNotMatch(error.message, /\/(tmp|var|work|usr|home|proc|etc)\b|sqlite|select |\.c:\d|errno/i);
  assert.ok(!('id' in response(answer)) || response(answer).id !== null, 'an unreadable id is left out, never null');
  if (pattern) assert.match(error.message, pattern, shown);
  return { answer, error };
}

// A session of the legacy era.
export class Legacy {
  static async open(server, { version = LEGACY, capabilities = {}, key = server.key, path = '/mcp' } = {}) {
    const s = new Legacy();
    Object.assign(s, { server, key, path });
    const answer = await send(server, 'POST', { key, path, body: { jsonrpc: '2.0', id: 0, method: 'initialize',
      params: { protocolVersion: version, capabilities, clientInfo: { name: 'test', version: '1' } } } });
    assert.equal(answer.status, 200, answer.text);
    s.info = answer.body.result;
    s.id = answer.headers['mcp-session-id'];
    s.version = s.info.protocolVersion;
    assert.equal((await s.notify('notifications/initialized')).status, 202);
    return s;
  }

  get headers() { return { ...(this.id ? { 'mcp-session-id': this.id } : {}), 'mcp-protocol-version': this.version }; }

  post(body, { headers = {}, ...rest } = {}) {
    return send(this.server, 'POST', { key: this.key, path: this.path, body, headers: { ...this.headers, ...headers }, ...rest });
  }
  request(method, params, options = {}) {
    const id = options.id ?? ids++;
    return this.post({ jsonrpc: '2.0', id, method, ...(params ? { params } : {}) }, options);
  }
  notify(method, params) { return this.post({ jsonrpc: '2.0', method, ...(params ? { params } : {}) }); }
  get(headers = {}, options = {}) {
    return send(this.server, 'GET', { key: this.key, path: this.path, headers: { ...this.headers, accept: 'text/event-stream', ...headers }, ...options });
  }
  delete() { return send(this.server, 'DELETE', { key: this.key, path: this.path, headers: this.headers }); }
}

// A long answer whose events can be waited for: { next(predicate), close() }.
// open is called with what to pass on to send; leaving it is no error.
export function follow(open) {
  const seen = [], waiting = [];
  let request, over, closed = false;
  const offer = () => {
    for (let i = waiting.length; i-- > 0;) {
      const found = seen.find((e) => !e.taken && waiting[i].test(e.data));
      if (!found && !over) continue;
      const [{ done, fail }] = waiting.splice(i, 1);
      if (found) { found.taken = true; done(found.data); } else fail(new Error(`the answer ended: ${over.status} ${over.text.slice(0, 500)}`));
    }
  };
  const ended = open({
    onRequest: (req) => { request = req; },
    onEvent: (event) => { seen.push({ data: event.data ?? {}, id: event.id, taken: false }); offer(); },
  }).catch((error) => {
    if (!closed) throw error;
    return { status: 0, text: '', messages: [] };
  }).then((answer) => { over = answer; offer(); return answer; });
  return {
    seen, ended,
    next: (test = () => true, ms = 15_000) => new Promise((done, fail) => {
      const timer = setTimeout(() => fail(new Error(`no such event: ${JSON.stringify(seen.map((e) => e.data)).slice(0, 2000)}`)), ms);
      waiting.push({ test, done: (v) => { clearTimeout(timer); done(v); }, fail: (e) => { clearTimeout(timer); fail(e); } });
      offer();
    }),
    close: () => { closed = true; request.destroy(); },
  };
}
