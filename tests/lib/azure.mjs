// SPDX-License-Identifier: Apache-2.0
// The Azure dialect for tests: calls of a pool with version and identifier,
// forms in each client's handwriting, and the one shape of refusals.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { request } from './wire.mjs';

export const VERSIONS = { B: ['2024-02-02-preview', '2024-08-02-preview'], C: ['2024-10-02-preview', '2025-02-02-preview', '2025-10-02-preview'] };
export const [V2024_02, V2024_08] = VERSIONS.B;
export const [V2024_10, V2025_02, V2025_10] = VERSIONS.C;
export const GUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
export const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z$/;

// One pool as a client sees it. version null: the parameter is left out.
export class Pool {
  constructor(server, { base = '/pools/default', version = V2025_10, key, identifier } = {}) {
    Object.assign(this, { server, base, version, key, identifier: identifier ?? randomUUID() });
  }

  // The same pool and session in another version, or another session of it.
  at(version) { return new Pool(this.server, { ...this, version }); }
  other(identifier) { return new Pool(this.server, { ...this, identifier: identifier ?? randomUUID() }); }

  url(path, query = {}) {
    const all = { identifier: this.identifier, 'api-version': this.version, ...query };
    const pairs = Object.entries(all).filter(([, v]) => v !== null && v !== undefined).map(([k, v]) => `${k}=${encodeURIComponent(v)}`);
    return `${this.base}/${path}${pairs.length ? `?${pairs.join('&')}` : ''}`;
  }

  call(method, path, { query, ...options } = {}) {
    return request(this.server, method, this.url(path, query), { key: this.key, ...options });
  }

  get(path, query) { return this.call('GET', path, { query }); }
  delete(path, query) { return this.call('DELETE', path, { query }); }
  post(path, body, query) { return this.call('POST', path, { body, query }); }

  // Family C.
  run(code, extra = {}) { return this.post('executions', { codeInputType: 'Inline', executionType: 'Synchronous', code, ...extra }); }
  // Family B.
  wrapped(code, extra = {}) { return this.post('code/execute', { properties: { codeInputType: 'inline', executionType: 'synchronous', code, ...extra } }); }
  // Family A.
  legacy(code, extra = {}) {
    return this.post('python/execute', { properties: { identifier: this.identifier, codeInputType: 'inline', executionType: 'synchronous', pythonCode: code, ...extra } });
  }
  // Shell pools.
  shell(shellCommand, extra = {}) { return this.post('executions', { shellCommand, ...extra }); }

  upload(name, bytes, { path = this.version >= V2024_10 ? 'files' : 'files/upload', query } = {}) {
    const form = requests([{ filename: name, bytes }]);
    return this.call('POST', path, { query, body: form.body, headers: { 'content-type': form.type } });
  }

  // What family C's list shows: name to entry.
  async names(query) {
    const got = await this.get('files', query);
    assert.equal(got.status, 200, got.text);
    return got.body.value.map((f) => f.name);
  }
}

const CRLF = '\r\n';

function form(boundary, quoted, parts, head) {
  const pieces = parts.flatMap((part) => [Buffer.from(`--${boundary}${CRLF}${head(part)}${CRLF}${CRLF}`), Buffer.from(part.bytes), Buffer.from(CRLF)]);
  return { boundary, type: `multipart/form-data; boundary=${quoted ? `"${boundary}"` : boundary}`,
    body: Buffer.concat([...pieces, Buffer.from(`--${boundary}--${CRLF}`)]) };
}

const named = ({ name = 'file', filename }) => `form-data; name="${name}"${filename === undefined ? '' : `; filename="${filename}"`}`;

// Python requests and undici; a part's type is there when it is known.
export const requests = (parts) => form('5dc1e1a96e0e4b0f9c4f2a4e3f6b7a80', false, parts,
  (p) => `Content-Disposition: ${named(p)}${p.type ? `${CRLF}Content-Type: ${p.type}` : ''}`);
// aiohttp: the type first, and a length of its own.
export const aiohttp = (parts) => form('0a1b2c3d4e5f60718293a4b5c6d7e8f9', false, parts,
  (p) => `Content-Type: ${p.type ?? 'application/octet-stream'}${CRLF}Content-Disposition: ${named(p)}${CRLF}Content-Length: ${Buffer.byteLength(p.bytes)}`);
// .NET: nothing quoted but the boundary in the header, and the name twice.
export const dotnet = (parts) => form('e3ae4f4c-0b9a-4a6e-8d5b-2f9b4f1f2a11', true, parts,
  (p) => `Content-Disposition: form-data; name=${p.name ?? 'file'}; filename=${p.ascii ?? p.filename}; filename*=utf-8''${encodeURIComponent(p.filename)}`);

// A body in chunks, without a length.
export const chunked = (bytes, size = 1000) => {
  const out = [];
  for (let at = 0; at < bytes.length; at += size) {
    const part = bytes.subarray(at, at + size);
    out.push(Buffer.from(`${part.length.toString(16)}${CRLF}`), part, Buffer.from(CRLF));
  }
  return Buffer.concat([...out, Buffer.from(`0${CRLF}${CRLF}`)]);
};

const TELLTALE = /\/(?!mnt\/data)(tmp|var|work|usr|home|root|proc|etc|opt)\b|sqlite|select |\.c:\d|0x[0-9a-f]{4,}|errno|pid \d/i;

// Asserts the shape of a refusal (H5) and returns its error.
export function refused(answer, status, code, message) {
  const shown = `${answer.status} ${answer.text?.slice(0, 300)}`;
  assert.equal(answer.status, status, shown);
  assert.match(answer.headers['content-type'], /^application\/json/);
  assert.deepEqual(Object.keys(answer.body), ['error'], shown);
  const { error } = answer.body;
  for (const field of Object.keys(error)) assert.ok(['code', 'message', 'target', 'traceId'].includes(field), shown);
  if (code) assert.equal(error.code, code, shown);
  assert.equal(answer.headers['x-ms-error-code'], error.code);
  assert.match(error.traceId, /^[0-9a-f]{32}$/);
  assert.ok(error.message.length > 3, shown);
  assert.doesNotMatch(answer.text, TELLTALE);
  if (message) assert.match(error.message, message, shown);
  return error;
}

// 401 has the body of every error.
export function unknown(answer) {
  refused(answer, 401, 'Unauthorized');
  assert.match(answer.headers['www-authenticate'], /^Bearer/);
}

// A session pool of the control plane.
export const arm = (name, { subscription = '00000000-1111-2222-3333-444444444444', group = 'tests', version = '2025-07-01' } = {}) =>
  `/subscriptions/${subscription}${group ? `/resourceGroups/${group}` : ''}/providers/Microsoft.App/sessionPools${name ? `/${name}` : ''}?api-version=${version}`;

export const poolBody = (properties = {}, extra = {}) => ({
  location: 'westus3',
  ...extra,
  properties: {
    poolManagementType: 'Dynamic', containerType: 'PythonLTS',
    scaleConfiguration: { maxConcurrentSessions: 10 },
    dynamicPoolConfiguration: { lifecycleConfiguration: { lifecycleType: 'Timed', cooldownPeriodInSeconds: 300 } },
    sessionNetworkConfiguration: { status: 'EgressDisabled' },
    ...properties,
  },
});
