// SPDX-License-Identifier: Apache-2.0
// /openapi.json: every route of the table is in it, whole; every reference
// resolves; and real answers are as it says.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, root } from '../../lib/glovebox.mjs';
import { request, stop } from '../../lib/wire.mjs';
import { Workspace, conforms, faults, form, mint, openapi } from '../../lib/workspace.mjs';

let server;
let doc;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 1 })] } });
  doc = await openapi(server);
});
after(() => stop(server));

const operations = () => Object.entries(doc.paths).flatMap(([path, item]) => Object.entries(item).map(([method, op]) => ({ path, method, op })));

// The table of the product, read from its source.
function table() {
  const macros = Object.fromEntries([...readFileSync(join(root, 'src/doors/native/table.c'), 'utf8').matchAll(/^#define (\w+) "([^"]*)"$/gm)].map(([, n, v]) => [n, v]));
  const source = readFileSync(join(root, 'src/doors/native/table.c'), 'utf8');
  const body = source.slice(source.indexOf('doors_routes[] = {'), source.indexOf('doors_routes_count'));
  const rows = body.split(/\n {4}\{/).slice(1).map((row) => {
    const text = row.slice(0, row.lastIndexOf('}')).replace(/\b(SESSION|EXECUTION|WORKSPACE|UPLOAD|OPS|SESS|EXEC|WORK|FILE_|UPLO|VERS|CONVERSATION|CONV|LOCK|SHAR|SRCH|CONF|ADMI|EVID|AGENT|AGEN|TOOLS|TOOL)\b(?=[\s,]|$)/g, (m) => `"${macros[m]}"`);
    const fields = [];
    for (const [, strings, word] of text.matchAll(/((?:"(?:[^"\\]|\\.)*"\s*)+)|([^\s,"][^,"]*)/g)) fields.push(strings ? [...strings.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, s]) => s).join('') : word.trim());
    return fields;
  });
  return rows.map(([method, pattern, handler, scope, flags, query, tag, summary, headers, bodyName, answers]) => ({ method, pattern, handler, scope, flags, query, tag, summary, headers, bodyName, answers }));
}

describe('the document', () => {
  test('is OpenAPI 3.1, open to all, and JSON', async () => {
    assert.match(doc.openapi, /^3\.1\./);
    assert.deepEqual(Object.keys(doc), ['openapi', 'info', 'tags', 'paths', 'components']);
    assert.match(doc.info.version, /^\d+\.\d+/);
    const got = await request(server, 'GET', '/openapi.json', { key: null });
    assert.equal(got.headers['content-type'], 'application/json');
    assert.equal((await request(server, 'POST', '/openapi.json', { body: {} })).status, 405);
  });

  test('I1 has every route of the table with its methods, parameters, security and answers', () => {
    const rows = table();
    assert.ok(rows.length > 60, `${rows.length} rows were read`);
    assert.equal(operations().length, rows.length);
    const scopes = { AUTH_EXECUTE: ['execute'], AUTH_FILES_READ: ['files:read'], AUTH_FILES_WRITE: ['files:write'], AUTH_ADMIN: ['admin'], 0: [],
      AUTH_WORKSPACES_ADMIN: ['workspaces:admin'], AUTH_AUDIT_READ: ['audit:read'], AUTH_POLICY_ADMIN: ['policy:admin'], AUTH_APPROVE: ['approve'] };
    for (const row of rows) {
      const path = row.pattern.replace('...', '');
      const where = `${row.method} ${row.pattern}`;
      const op = doc.paths[path]?.[row.method.toLowerCase()] ?? assert.fail(where);
      assert.deepEqual(op.security, row.flags.includes('DOORS_OPEN') ? [] : [{ bearer: scopes[row.scope] }], where);
      const names = (where_) => op.parameters.filter((p) => p.in === where_).map((p) => p.name);
      assert.deepEqual(names('path'), [...row.pattern.matchAll(/\{(\w+)/g)].map(([, n]) => n), where);
      assert.deepEqual(names('query'), row.query === 'NULL' ? [] : row.query.replaceAll('!', '').split(' '), where);
      assert.deepEqual(names('header'), row.headers === 'NULL' ? [] : row.headers.split(' '), where);
      assert.deepEqual(op.parameters.filter((p) => p.in === 'query' && p.required).map((p) => `${p.name}!`), row.query.match(/\w+!/g) ?? [], where);
      assert.equal(op.requestBody !== undefined, row.bodyName !== 'NULL', where);
      for (const answer of row.answers.split(',')) assert.ok(op.responses[answer.trim().slice(0, 3)], `${where} ${answer}`);
      if (!row.flags.includes('DOORS_OPEN')) for (const status of ['400', '401']) assert.ok(op.responses[status], `${where} ${status}`);
      if (row.scope !== '0') assert.ok(op.responses['403'], where);
      if (row.pattern.includes('{')) assert.ok(op.responses['404'], where);
      assert.ok(op.responses.default, where);
      assert.equal(op.summary, row.summary);
    }
  });

  test('every reference resolves and everything is explained', () => {
    const refs = [];
    (function walk(at) {
      if (Array.isArray(at)) at.forEach(walk);
      else if (at && typeof at === 'object') for (const [k, v] of Object.entries(at)) { if (k === '$ref') refs.push(v); walk(v); }
    })(doc);
    assert.ok(refs.length > 100);
    for (const ref of new Set(refs)) assert.ok(ref.slice(2).split('/').reduce((at, p) => at?.[p], doc), ref);
    const used = new Set(refs.map((r) => r.split('/').at(-1)));
    for (const name of Object.keys(doc.components.schemas)) assert.ok(used.has(name), `${name} is used`);
    const ids = operations().map(({ op }) => op.operationId);
    assert.equal(new Set(ids).size, ids.length);
    const tags = doc.tags.map((t) => t.name);
    for (const { path, op } of operations()) {
      assert.ok(op.summary.length > 5, path);
      assert.ok(op.tags.every((t) => tags.includes(t)), path);
      for (const p of op.parameters) assert.ok(p.description && p.schema, `${path} ${p.name}`);
      for (const [status, r] of Object.entries(op.responses)) assert.ok(r.$ref || r.description, `${path} ${status}`);
      if (op.requestBody) assert.ok(Object.keys(op.requestBody.content).length, path);
    }
    for (const [name, s] of Object.entries(doc.components.schemas)) {
      assert.ok(s.description, name);
      if (/Spec$|Patch$/.test(name)) assert.equal(s.additionalProperties, false, name);
    }
  });

  test('the issue\'s core is in it', () => {
    for (const line of ['GET /api/workspaces', 'POST /api/workspaces', 'GET /api/workspaces/{ws}', 'PATCH /api/workspaces/{ws}', 'DELETE /api/workspaces/{ws}', 'POST /api/workspaces/{ws}/transfer',
      'GET /api/workspaces/{ws}/files', 'PUT /api/workspaces/{ws}/files/{path}', 'GET /api/workspaces/{ws}/files/{path}', 'DELETE /api/workspaces/{ws}/files/{path}', 'POST /api/workspaces/{ws}/move',
      'POST /api/workspaces/{ws}/copy', 'GET /api/workspaces/{ws}/history', 'GET /api/versions/{version}/provenance', 'GET /api/workspaces/{ws}/diff', 'GET /api/workspaces/{ws}/archive',
      'POST /api/workspaces/{ws}/restore', 'POST /api/workspaces/{ws}/locks', 'POST /api/workspaces/{ws}/locks/{lock}/renew', 'DELETE /api/workspaces/{ws}/locks/{lock}', 'POST /api/shares', 'GET /s/{secret}',
      'GET /api/files/{file}', 'GET /api/files/{file}/content', 'GET /api/search', 'GET /api/conversations/{conversation}/files', 'GET /api/audit', 'POST /api/audit/verify']) {
      const [method, path] = line.split(' ');
      assert.ok(doc.paths[path]?.[method.toLowerCase()], line);
    }
  });
});

describe('the command line', () => {
  test('every table of columns is made of fields that one answer has, and of their kinds', () => {
    const properties = (schema) => (schema.$ref ? properties(doc.components.schemas[schema.$ref.split('/').at(-1)])
      : Object.assign({}, ...(schema.allOf ?? []).map(properties), schema.properties));
    const answers = Object.entries(doc.components.schemas).filter(([, s]) => s.additionalProperties !== false).map(([, s]) => properties(s));
    const fits = (property, kind) => property && (!/SIZE|NUMBER/.test(kind) || [property.type].flat().includes('integer')) && (kind !== 'TEXT' || ![property.type].flat().includes('boolean'));
    let tables = 0;
    // login.c lists contexts, which are in a file of the user's and in no answer.
    for (const file of readdirSync(join(root, 'src/cli'), { recursive: true }).filter((f) => f.endsWith('.c') && !f.endsWith('login.c'))) {
      const source = readFileSync(join(root, 'src/cli', file), 'utf8');
      for (const [, text] of source.matchAll(/struct cli_column \w+\[\] = \{\n([\s\S]*?)\n\};/g)) {
        const rows = [...text.matchAll(/\{"[^"]*",\s*(?:\.member = )?"([a-z0-9_]+)"(?:,\s*(?:\.kind = )?CLI_COLUMN_([A-Z]+))?/g)].map(([, member, kind]) => ({ member, kind: kind ?? 'TEXT' }));
        assert.ok(answers.some((p) => rows.every(({ member, kind }) => fits(p[member], kind))), `${file}: ${JSON.stringify(rows)}`);
        tables++;
      }
    }
    assert.ok(tables > 5, `${tables} tables of columns`);
  });
});

describe('bodies', () => {
  // Values that a property's schema refuses, one for each thing it says.
  const target = (schema) => (schema.$ref ? doc.components.schemas[schema.$ref.split('/').at(-1)] : schema);
  const element = (items = {}) => (items.type === 'integer' ? items.minimum ?? 1 : items.type === 'string' || items.anyOf ? 'x'.repeat(items.minLength ?? 1) : {});
  function* refused(schema) {
    if (schema.minimum !== undefined) yield schema.minimum - 1;
    if (Number.isSafeInteger(schema.maximum)) yield schema.maximum + 1;
    if (schema.minLength) yield 'x'.repeat(schema.minLength - 1);
    if (schema.maxLength !== undefined) yield 'x'.repeat(schema.maxLength + 1);
    if (schema.minItems) yield Array.from({ length: schema.minItems - 1 }, () => element(schema.items));
    if (schema.maxItems !== undefined) yield Array.from({ length: schema.maxItems + 1 }, () => element(schema.items));
    if (schema.enum) yield 'no such choice';
    yield schema.type === 'boolean' ? 'x' : true;
  }

  test('every field is refused outside of what the document says, by its name', async () => {
    const ids = { id: 'sess_0', ws: 'ws_0', path: 'p', principal: '*', lock: 'lock_0', name: 'some', tenant: 'some', file: 'file_0', conversation: 'conv_0' };
    const one = await server.ok('POST', '/api/workspaces', {});
    ids.ws = one.id;
    let tried = 0;
    for (const { path, method, op } of operations()) {
      const schema = target(op.requestBody?.content['application/json']?.schema ?? {});
      if (!schema.properties || path.startsWith('/s/')) continue;
      const url = path.replace(/\{(\w+)\}/g, (_, n) => ids[n] ?? assert.fail(`${path}: ${n}`));
      const ask = async (body, named) => {
        const got = await request(server, method.toUpperCase(), url, { body });
        assert.equal(got.status, 400, `${method} ${path} ${JSON.stringify(body).slice(0, 200)}: ${got.text}`);
        assert.ok(got.body.error.message.includes(`'${named}'`), `${method} ${path} ${named}: ${got.text}`);
        tried++;
      };
      assert.equal(schema.additionalProperties, false, path);
      await ask({ no_such_field: 1 }, 'no_such_field');
      for (const [name, property] of Object.entries(schema.properties)) {
        const of = target(property);
        for (const value of refused(of)) await ask({ [name]: value }, name);
        if (of.properties && property.$ref) for (const [inner, p] of Object.entries(of.properties)) for (const value of refused(target(p))) await ask({ ...full(schema), [name]: { ...full(of), [inner]: value } }, inner);
      }
    }
    assert.ok(tried > 200, `${tried} bodies`);
  });

  // What must be there, so that an inner object is looked at.
  const full = (schema) => Object.fromEntries((schema.required ?? []).map((name) => [name, sample(target(schema.properties[name]))]));
  const sample = (schema) => (schema.enum ? schema.enum[0] : schema.type === 'integer' ? schema.minimum ?? 1 : schema.type === 'array' ? [element(schema.items)] : schema.type === 'object' ? {} : 'x'.repeat(schema.minLength ?? 1));

  test('bounds that were missing are there', () => {
    const { ClaimSpec, RenewSpec, TokenSpec, SecretSpec, KeySpec, DestinationSpec } = doc.components.schemas;
    assert.equal(ClaimSpec.properties.token.maxLength, 256);
    assert.equal(RenewSpec.properties.token.maxLength, 256);
    for (const name of ['pool', 'session', 'workspace']) assert.equal(TokenSpec.properties[name].maxLength, 64);
    assert.equal(SecretSpec.properties.destinations.maxItems, 16);
    for (const spec of [KeySpec, TokenSpec]) assert.equal(spec.properties.scopes.minItems, 1);
    assert.equal(DestinationSpec.properties.ports.items.maximum, 65535);
  });
});

describe('real answers', () => {
  const checked = new Set();
  const fill = (pattern, ids) => pattern.replace(/\{(\w+)\}/g, (_, n) => ids[n] ?? assert.fail(`${pattern}: ${n}`));
  const ask = async (method, pattern, ids = {}, { query = '', ...options } = {}) => {
    const got = await request(server, method, fill(pattern, ids) + query, options);
    conforms(doc, method, pattern, got);
    checked.add(`${method} ${pattern} ${got.status}`);
    return got;
  };

  test('are as the document says', async () => {
    const W = '/api/workspaces/{ws}';
    const { id: session, workspace } = (await ask('POST', '/api/sessions', {}, { body: { metadata: { a: 1 } } })).body;
    const own = { id: session };
    await ask('GET', '/api/sessions');
    await ask('GET', '/api/sessions/{id}', own);
    const run = { body: { code: 'open("/mnt/data/x.csv", "w").write("1"); 1', metadata: { conversation: 'c', message: 'm' } } };
    const e = (await ask('POST', '/api/sessions/{id}/executions', own, run)).body;
    await ask('POST', '/api/sessions/{id}/executions', own, { body: { language: 'shell', code: 'rm /mnt/data/x.csv; printf "\\377"; exit 3' } });
    await ask('POST', '/api/sessions/{id}/executions', own, { body: { code: '1/0' } });
    const later = (await ask('POST', '/api/sessions/{id}/executions', own, { body: { code: '1', mode: 'async' } })).body;
    await ask('GET', '/api/executions/{id}', { id: later.id });
    await ask('POST', '/api/run', {}, run);
    await ask('PUT', '/api/sessions/{id}/files/{path}', { id: session, path: 'p' }, { body: 'x' });
    await ask('GET', '/api/sessions/{id}/files', own);
    await ask('POST', '/api/sessions/{id}/refresh', own);
    await ask('POST', '/api/sessions/{id}/reset', own);

    const other = await mint(server, ['files:read', 'files:write'], { name: 'taker' });
    const made = (await ask('POST', '/api/workspaces', {}, { body: { name: 'doc' } })).body;
    const at = { ws: made.id };
    await ask('GET', '/api/workspaces');
    await ask('GET', W, { ws: workspace });
    await ask('PATCH', W, at, { body: { retention: { keep_versions: 100 } } });
    await ask('PUT', `${W}/members/{principal}`, { ...at, principal: other.id }, { body: { role: 'editor' } });
    await ask('GET', `${W}/members`, at);
    await ask('DELETE', `${W}/members/{principal}`, { ...at, principal: other.id });
    const offer = (await ask('POST', `${W}/offers`, at)).body;
    await ask('GET', `${W}/offers`, at);
    await ask('DELETE', `${W}/offers/{offer}`, { ...at, offer: offer.id });
    await ask('GET', '/api/usage');
    const one = (await ask('PUT', `${W}/files/{path}`, { ...at, path: 'd/a.txt' }, { body: 'one\n' })).body;
    await ask('PUT', `${W}/files/{path}`, { ...at, path: 'd/a.txt' }, { body: 'two\n' });
    await ask('PUT', `${W}/files/{path}`, { ...at, path: 'd/a.txt' }, { body: 'two\n' });
    await ask('PUT', `${W}/files/{path}`, { ...at, path: 'd/a.txt' }, { body: 'x', headers: { 'if-none-match': '*' } });
    await ask('POST', `${W}/files`, at, form([{ filename: 'b', body: 'x' }]));
    await ask('GET', `${W}/files`, at);
    await ask('GET', `${W}/files`, at, { query: '?delimiter=/' });
    await ask('GET', `${W}/files/{path}`, { ...at, path: 'd/a.txt' });
    await ask('GET', `${W}/files/{path}`, { ...at, path: 'd/a.txt' }, { headers: { range: 'bytes=0-0' } });
    await ask('GET', `${W}/files/{path}`, { ...at, path: 'none' });
    await ask('GET', `${W}/info/{path}`, { ...at, path: 'd/a.txt' });
    await ask('POST', `${W}/move`, at, { body: { from: 'b', to: 'c' } });
    await ask('POST', `${W}/copy`, at, { body: { from: 'c', to: 'e' } });
    await ask('DELETE', `${W}/files/{path}`, { ...at, path: 'e' });
    await ask('GET', `${W}/archive`, at);
    await ask('GET', '/api/files/{file}', { file: one.file_id });
    await ask('GET', '/api/files/{file}/content', { file: one.file_id });
    await ask('POST', '/api/files/{file}/link', { file: one.file_id });
    await ask('GET', `${W}/history`, at);
    await ask('GET', '/api/versions/{version}/provenance', { version: e.files.created[0].version });
    await ask('GET', `${W}/diff`, at, { query: '?path=d/a.txt' });
    await ask('GET', `${W}/diff`, at, { query: '?path=d/a.txt', headers: { accept: 'application/json' } });
    await ask('POST', `${W}/restore`, at, { body: { version: one.version } });
    await ask('GET', '/api/conversations/{conversation}/files', { conversation: 'c' });
    const { id: conversation } = (await ask('POST', '/api/conversations', {}, { body: { title: 't' } })).body;
    await ask('GET', '/api/conversations');
    for (const id of [conversation, 'c']) await ask('GET', '/api/conversations/{conversation}', { conversation: id });
    await ask('PATCH', '/api/conversations/{conversation}', { conversation }, { body: { metadata: { a: 'b' } } });
    await request(server, 'POST', `/v1/conversations/${conversation}/items`, { body: { items: [{ role: 'user', content: 'x' }] } });
    await ask('GET', '/api/conversations/{conversation}/items', { conversation });
    await ask('DELETE', '/api/conversations/{conversation}', { conversation });
    const up = (await ask('POST', `${W}/uploads`, at, { body: { path: 'up' } })).body;
    await ask('PUT', '/api/uploads/{id}/parts/{number}', { id: up.id, number: 1 }, { body: 'x' });
    await ask('GET', '/api/uploads/{id}', { id: up.id });
    await ask('POST', '/api/uploads/{id}/complete', { id: up.id });
    const gone = (await ask('POST', `${W}/uploads`, at, { body: { path: 'up' } })).body;
    await ask('DELETE', '/api/uploads/{id}', { id: gone.id });
    const lock = (await ask('POST', `${W}/locks`, at, { body: { path: 'l' } })).body;
    await ask('POST', `${W}/locks`, at, { body: { path: 'l' }, key: other.secret });
    await ask('GET', `${W}/locks`, at);
    await ask('POST', `${W}/locks/{lock}/renew`, { ...at, lock: lock.id }, { body: { token: lock.token } });
    await ask('DELETE', `${W}/locks/{lock}`, { ...at, lock: lock.id }, { query: '?force=true' });
    const share = (await ask('POST', '/api/shares', {}, { body: { workspace: made.id, path: 'd/', mode: 'write', password: 'p' } })).body;
    await ask('GET', '/api/shares', {}, { query: `?workspace=${made.id}` });
    const secret = share.url.split('/s/')[1];
    const password = { key: null, headers: { 'x-share-password': 'p' } };
    await ask('GET', '/s/{secret}', { secret }, password);
    await ask('GET', '/s/{secret}', { secret }, { key: null });
    await ask('GET', '/s/{secret}/{path}', { secret, path: 'a.txt' }, password);
    await ask('PUT', '/s/{secret}/{path}', { secret, path: 'n' }, { ...password, body: 'x' });
    await ask('DELETE', '/api/shares/{share}', { share: share.id });
    await ask('GET', '/api/search', {}, { query: '?q=doc' });
    await ask('GET', '/api/search', {}, { query: '?q=two' });
    await ask('GET', '/api/search/status');
    await ask('POST', `${W}/transfer`, at, { body: { to: 'taker' } });
    const second = (await ask('POST', `${W}/offers`, at)).body;
    await ask('POST', '/api/workspaces/claim', {}, { body: { token: second.token }, key: other.secret });
    await ask('POST', '/api/workspaces/claim', {}, { body: { token: second.token } });
    await ask('DELETE', W, at);
    await ask('GET', '/api/workspaces', {}, { query: '?deleted=true' });
    await ask('POST', `${W}/undelete`, at);
    await ask('POST', `${W}/purge`, at);
    await ask('POST', `${W}/purge`, at, { body: { path: 'nothing' } });

    for (const path of ['/api/pools', '/api/runtimes', '/api/limits', '/api/keys', '/healthz', '/readyz', '/metrics', '/openapi.json']) await ask('GET', path);
    await ask('GET', '/api/pools/{name}', { name: 'default' });
    await ask('GET', '/api/runtimes/{name}', { name: 'minimal' });
    const key = (await ask('POST', '/api/keys', {}, { body: { scopes: ['execute'] } })).body;
    await ask('DELETE', '/api/keys/{id}', { id: key.id });
    const token = (await ask('POST', '/api/tokens', {}, { body: { ttl_s: 60, session } })).body;
    await ask('GET', '/api/tokens');
    await ask('DELETE', '/api/tokens/{id}', { id: token.id });
    await ask('GET', '/api/quotas');
    await ask('GET', '/api/quotas/{tenant}', { tenant: 'default' });
    await ask('PUT', '/api/quotas/{tenant}', { tenant: 'some' }, { body: { executions: 3, memory_bytes: null } });
    await ask('GET', '/api/audit');
    await ask('POST', '/api/audit/verify');
    await ask('POST', '/api/collect');
    await ask('DELETE', '/api/sessions/{id}', own);
    assert.ok(checked.size > 70, `${checked.size} kinds of answers`);
  });

  test('a wrong answer would be seen', () => {
    const lock = { $ref: '#/components/schemas/Lock' };
    assert.ok(faults(doc, lock, {}).length > 5);
    assert.ok(faults(doc, { $ref: '#/components/schemas/UploadPart' }, { number: '1', size: 1, sha256: 'x' }).length === 1);
    assert.ok(faults(doc, { $ref: '#/components/schemas/UploadPart' }, { number: 1, size: 1, sha256: 'x', more: 1 }).length === 1);
    assert.ok(faults(doc, { $ref: '#/components/schemas/OfferMade' }, { id: 'x' }).some((f) => /token/.test(f)));
  });
});
