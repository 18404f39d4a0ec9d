// SPDX-License-Identifier: Apache-2.0
// Tools called the way a modern MCP host does, one POST a call, without a
// library between: every structured answer is held against the tool's own
// output schema.
import assert from 'node:assert/strict';

const META = 'io.modelcontextprotocol/';
const VERSION = '2026-07-28';

// As much of JSON Schema as the tools use; returns what is wrong, or ''.
export function schemaFault(schema, value, at = '$') {
  const kinds = schema.type === undefined ? [] : [schema.type].flat();
  const is = {
    object: (v) => v !== null && typeof v === 'object' && !Array.isArray(v),
    array: Array.isArray,
    string: (v) => typeof v === 'string',
    integer: Number.isInteger,
    number: (v) => typeof v === 'number',
    boolean: (v) => typeof v === 'boolean',
    null: (v) => v === null,
  };
  if (kinds.length && !kinds.some((k) => is[k](value))) return `${at} is not ${kinds.join(' or ')}`;
  if (schema.enum && !schema.enum.includes(value)) return `${at} is none of ${schema.enum}`;
  if (is.array(value) && schema.items)
    for (const [i, item] of value.entries()) {
      const fault = schemaFault(schema.items, item, `${at}[${i}]`);
      if (fault) return fault;
    }
  if (is.object(value)) {
    for (const name of schema.required ?? []) if (!(name in value)) return `${at}.${name} is missing`;
    for (const [name, inner] of Object.entries(value)) {
      const known = schema.properties?.[name];
      if (!known && (schema.properties || schema.additionalProperties === false)) return `${at}.${name} is unknown`;
      const fault = known ? schemaFault(known, inner, `${at}.${name}`) : '';
      if (fault) return fault;
    }
  }
  return '';
}

// The messages of an answer, whether JSON or a stream; the last one answers.
async function* messages(response) {
  if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
    yield await response.json();
    return;
  }
  let rest = '';
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    rest += chunk;
    for (let end; (end = rest.indexOf('\n\n')) >= 0; rest = rest.slice(end + 2)) {
      const data = rest.slice(0, end).split('\n').filter((l) => l.startsWith('data: ')).map((l) => l.slice(6)).join('\n');
      if (data) yield JSON.parse(data);
    }
  }
}

export class Tools {
  // conversation: what all calls have in common, unless a call says otherwise.
  constructor(server, { path = '/mcp?tools=all', conversation, key = server.key, headers } = {}) {
    Object.assign(this, { server, path, conversation, headers: headers ?? { authorization: `Bearer ${key}` } });
    this.last = 0;
  }

  async request(method, params = {}, { conversation = this.conversation, message, progress, signal } = {}) {
    const meta = { [`${META}protocolVersion`]: VERSION, [`${META}clientCapabilities`]: {} };
    if (conversation) meta['com.glovebox/conversation'] = conversation;
    if (message) meta['com.glovebox/message'] = message;
    if (progress) meta.progressToken = 'p';
    const id = ++this.last;
    const response = await fetch(this.server.url + this.path, {
      method: 'POST',
      signal,
      headers: {
        ...this.headers,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': VERSION,
        'mcp-method': method,
        ...(params.name ? { 'mcp-name': params.name } : {}),
      },
      body: JSON.stringify({ jsonrpc: '2.0', id, method, params: { ...params, _meta: meta } }),
    });
    for await (const one of messages(response)) {
      if (one.id === id) return one;
      if (one.method === 'notifications/progress') progress?.(one.params);
    }
    throw new Error(`no answer to ${method}`);
  }

  async list() {
    this.tools ??= (await this.request('tools/list')).result.tools;
    return this.tools;
  }

  // The result, with `text` (all text blocks), `images` and `links` beside.
  async call(name, args = {}, options) {
    const tool = (await this.list()).find((t) => t.name === name);
    const answer = await this.request('tools/call', { name, arguments: args }, options);
    assert.ok(answer.result, JSON.stringify(answer));
    const { content, structuredContent } = answer.result;
    assert.equal(schemaFault(tool.outputSchema, structuredContent), '', name);
    const of = (type) => content.filter((c) => c.type === type);
    return {
      ...answer.result,
      data: structuredContent,
      text: of('text').map((c) => c.text).join('\n'),
      images: of('image'),
      links: of('resource_link'),
    };
  }

  async ok(name, args, options) {
    const answer = await this.call(name, args, options);
    assert.ok(!answer.isError, `${name}: ${answer.text}`);
    return answer;
  }

  // A tool error with a status and a sentence that says something of it.
  async refused(name, args, status, words, options) {
    const answer = await this.call(name, args, options);
    assert.equal(answer.isError, true, `${name}: ${answer.text}`);
    assert.equal(answer.data.status, status, answer.text);
    if (words) assert.match(answer.text, words);
    return answer;
  }
}
