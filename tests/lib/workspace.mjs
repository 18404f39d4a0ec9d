// SPDX-License-Identifier: Apache-2.0
// A workspace of a real daemon, with the few calls every test of them makes;
// keys of other tenants and scopes; and holding answers against
// /openapi.json. Used by the wire tests.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { request } from './wire.mjs';

export const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');
export const unknownId = (prefix) => `${prefix}_${'0'.repeat(32)}`;

// A path of a file as it goes into a URL.
export const escaped = (path) => path.split('/').map(encodeURIComponent).join('/');

// A key: {id, secret, tenant}.
export const mint = (server, scopes, { tenant = 'default', name } = {}) =>
  server.ok('POST', '/api/keys', { scopes, tenant, name });

export class Workspace {
  constructor(server, made, key) {
    this.server = server;
    this.made = made;
    this.id = made.id;
    this.key = key;
  }

  static async create(server, spec = {}, key) {
    const made = await request(server, 'POST', '/api/workspaces', { body: spec, key });
    assert.equal(made.status, 201, made.text);
    return new Workspace(server, made.body, key);
  }

  // The same through another key.
  as(key) { return new Workspace(this.server, this.made, key); }

  get path() { return `/api/workspaces/${this.id}`; }

  call(method, path, options = {}) {
    return request(this.server, method, `${this.path}${path}`, { key: this.key, ...options });
  }

  async ok(method, path, options) {
    const answer = await this.call(method, path, options);
    assert.ok(answer.status >= 200 && answer.status < 300, `${method} ${path}: ${answer.status} ${answer.text.slice(0, 500)}`);
    return answer.body;
  }

  info() { return this.ok('GET', ''); }
  put(path, body, headers, query = '') { return this.call('PUT', `/files/${escaped(path)}${query}`, { body, headers }); }
  get(path, headers, query = '') { return this.call('GET', `/files/${escaped(path)}${query}`, { headers }); }
  delete(path, query = '', headers) { return this.call('DELETE', `/files/${escaped(path)}${query}`, { headers }); }
  list(query = '') { return this.ok('GET', `/files${query}`); }
  async paths(query) { return (await this.list(query)).data.map((f) => f.path); }
  history(query = '') { return this.ok('GET', `/history${query}`); }
  // Stores it; anything but success is an error.
  async write(path, body, headers, query) {
    const made = await this.put(path, body, headers, query);
    assert.ok([200, 201].includes(made.status), made.text);
    return made.body;
  }
}

// A body of multipart/form-data: parts are [{name, filename, type, body}].
export function form(parts, boundary = 'glovebox-form') {
  const pieces = parts.flatMap(({ name = 'file', filename, type, body, head }) => [
    `--${boundary}\r\n`,
    head ?? `Content-Disposition: form-data; name="${name}"${filename === undefined ? '' : `; filename="${filename}"`}${type ? `\r\nContent-Type: ${type}` : ''}`,
    '\r\n\r\n', body, '\r\n',
  ]);
  return {
    body: Buffer.concat([...pieces, `--${boundary}--\r\n`].map((p) => Buffer.from(p))),
    headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
  };
}

// ---- /openapi.json -----------------------------------------------------------

export async function openapi(server) {
  const got = await request(server, 'GET', '/openapi.json', { key: null });
  assert.equal(got.status, 200);
  return got.body;
}

const target = (doc, ref) => ref.slice(2).split('/').reduce((at, part) => at?.[part], doc);

// What is wrong with a value, as sentences; the few words of JSON Schema that
// the document uses. A field that no schema knows is wrong too.
export function faults(doc, schema, value, at = '$') {
  if (schema.$ref) return faults(doc, target(doc, schema.$ref), value, at);
  if (schema.anyOf) return schema.anyOf.some((s) => !faults(doc, s, value, at).length) ? [] : [`${at}: fits none of its forms`];
  if (schema.allOf) return faults(doc, merged(doc, schema), value, at);
  const kind = value === null ? 'null' : Array.isArray(value) ? 'array' : Number.isInteger(value) ? 'integer' : typeof value;
  const kinds = [schema.type ?? []].flat();
  if (kinds.length && !kinds.includes(kind) && !(kind === 'integer' && kinds.includes('number'))) return [`${at}: ${kind} is not ${kinds}`];
  if (value === null) return [];
  const found = [];
  if (schema.enum && !schema.enum.includes(value)) found.push(`${at}: ${value} is none of ${schema.enum}`);
  if (schema.format === 'date-time' && Number.isNaN(Date.parse(value))) found.push(`${at}: no time: ${value}`);
  if (kind === 'array' && schema.items) value.forEach((v, i) => found.push(...faults(doc, schema.items, v, `${at}[${i}]`)));
  if (kind === 'object' && schema.properties) {
    for (const name of schema.required ?? []) if (!(name in value)) found.push(`${at}: ${name} is missing`);
    for (const [name, v] of Object.entries(value)) {
      if (schema.properties[name]) found.push(...faults(doc, schema.properties[name], v, `${at}.${name}`));
      else if (!schema.open) found.push(`${at}: ${name} is not in the schema`);
    }
  }
  return found;
}

function merged(doc, schema) {
  const all = schema.allOf.map((s) => (s.$ref ? target(doc, s.$ref) : s)).map((s) => (s.allOf ? merged(doc, s) : s));
  return { type: 'object', properties: Object.assign({}, ...all.map((s) => s.properties)), required: all.flatMap((s) => s.required ?? []) };
}

// Asserts that an answer is one the document promises for the route.
export function conforms(doc, method, pattern, answer) {
  const where = `${method} ${pattern} ${answer.status}`;
  const operation = doc.paths[pattern]?.[method.toLowerCase()] ?? assert.fail(`${where}: not in the document`);
  let promised = operation.responses[answer.status] ?? assert.fail(`${where}: no such answer promised`);
  if (promised.$ref) promised = target(doc, promised.$ref);
  const type = answer.headers['content-type']?.split(';')[0];
  if (!answer.text) return;
  if (answer.headers['content-disposition']) {
    assert.ok(Object.keys(promised.content).some((t) => /octet-stream|zip/.test(t)), `${where}: bytes`);
    return;
  }
  const content = promised.content?.[type] ?? assert.fail(`${where}: ${type} is not promised`);
  if (type !== 'application/json') return;
  assert.deepEqual(faults(doc, content.schema, answer.body), [], `${where} ${answer.text.slice(0, 400)}`);
}
