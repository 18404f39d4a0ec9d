// SPDX-License-Identifier: Apache-2.0
// Where the OpenAI door is and whom it lets in: every prefix, both headers,
// unknown routes, scopes, strangers; and what every answer carries.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox } from '../../lib/glovebox.mjs';
import { accepted, Door, refused } from '../../lib/openai.mjs';
import { request, stop } from '../../lib/wire.mjs';

// Every route of the door, and the scope it needs.
const NONE = { c: 'cntr_none', f: 'file-0000000000000000000000', l: `cfile_${'0'.repeat(32)}`, u: 'upload_none' };
const ROUTES = (id = NONE) => [
  ['POST', '/containers', 'execute'], ['GET', '/containers', 'execute'],
  ['GET', `/containers/${id.c}`, 'execute'], ['DELETE', `/containers/${id.c}`, 'execute'],
  ['POST', `/containers/${id.c}/files`, 'files:write'], ['GET', `/containers/${id.c}/files`, 'files:read'],
  ['GET', `/containers/${id.c}/files/${id.l}`, 'files:read'], ['DELETE', `/containers/${id.c}/files/${id.l}`, 'files:write'],
  ['GET', `/containers/${id.c}/files/${id.l}/content`, 'files:read'],
  ['POST', '/files', 'files:write'], ['GET', '/files', 'files:read'],
  ['GET', `/files/${id.f}`, 'files:read'], ['DELETE', `/files/${id.f}`, 'files:write'], ['GET', `/files/${id.f}/content`, 'files:read'],
  ['POST', '/uploads', 'files:write'], ['POST', `/uploads/${id.u}/parts`, 'files:write'],
  ['POST', `/uploads/${id.u}/complete`, 'files:write'], ['POST', `/uploads/${id.u}/cancel`, 'files:write'],
  ['POST', '/conversations', 'execute'], ['GET', '/conversations/conv_none', 'execute'], ['POST', '/conversations/conv_none', 'execute'],
  ['DELETE', '/conversations/conv_none', 'execute'], ['GET', '/conversations/conv_none/items', 'execute'], ['POST', '/conversations/conv_none/items', 'execute'],
  ['GET', '/conversations/conv_none/items/msg_none', 'execute'], ['DELETE', '/conversations/conv_none/items/msg_none', 'execute'],
  ['POST', '/chat/completions', 'execute'], ['GET', '/chat/completions', 'execute'], ['GET', '/chat/completions/chatcmpl-none', 'execute'],
  ['POST', '/chat/completions/chatcmpl-none', 'execute'], ['DELETE', '/chat/completions/chatcmpl-none', 'execute'],
  ['GET', '/chat/completions/chatcmpl-none/messages', 'execute'], ['POST', '/deployments/echo/chat/completions', 'execute'],
];

describe('openai, the surface', () => {
  let g, door;

  before(async () => {
    g = await Glovebox.start({ config: { auth_failures_per_min: 10_000 } });
    door = new Door(g);
  });
  after(() => stop(g));

  for (const prefix of ['/v1', '/openai/v1', '/openai', '/api/projects/p1/openai/v1', '/api/projects/p1/openai', '/api/projects/p1', '/api/projects/a%20b'])
    test(`${prefix} leads to it, with a slash at the end and with api-version`, async () => {
      const at = new Door(g, { prefix });
      const { id } = await at.container();
      for (const path of [`/containers/${id}`, `/containers/${id}/`, `/containers/${id}?api-version=2025-04-01-preview`, `/containers/${id}?include%5B%5D=x&include=y`])
        assert.equal(accepted(await at.get(path)).id, id);
      assert.deepEqual(accepted(await at.get(`/containers/${id}/files`)).data, []);
      accepted(await at.delete(`/containers/${id}`));
      refused(await at.get('/nothing'), 404, { message: `Invalid URL (GET ${prefix}/nothing)` });
    });

  test('what only resembles a prefix is not its own', async () => {
    for (const path of ['/v1x/containers', '/openaix/containers', '/v2/containers', '/api/projects', '/api/projects/', '/api/projectsx/p/containers'])
      assert.equal((await request(g, 'GET', path)).body.error.code, 'not_found', path);
  });

  test('unknown paths and wrong methods are unknown URLs', async () => {
    for (const [method, path] of [['POST', '/x'], ['GET', ''], ['GET', '/'], ['PUT', '/containers'], ['PATCH', '/files/file-x'], ['DELETE', '/files'],
      ['GET', '/uploads/upload_x'], ['GET', '/containers/a/b/c/d/e'], ['POST', '/files/file-x/content'], ['PUT', '/responses'], ['GET', '/skills'], ['POST', '/models']])
      refused(await door.call(method, path), 404, { message: `Invalid URL (${method} /v1${path})` });
  });

  test('either header holds the key; Authorization counts if both are there', async () => {
    const key = g.key;
    const get = (headers) => door.get('/containers', { key: null, headers });
    accepted(await get({ authorization: `Bearer ${key}` }));
    accepted(await get({ 'api-key': key }));
    accepted(await get({ authorization: `Bearer ${key}`, 'api-key': 'My API Key' }));
    for (const headers of [{}, { 'api-key': 'nonsense' }, { authorization: 'Bearer My API Key' }, { authorization: `Bearer ${key} more` }, { authorization: 'Bearer x', 'api-key': key }]) {
      const answer = await get(headers);
      refused(answer, 401, { code: 'invalid_api_key' });
      assert.equal(answer.headers['www-authenticate'], 'Bearer');
    }
  });

  test('I1: without a key every route and no route answer alike', async () => {
    const answers = new Set();
    for (const [method, path] of [...ROUTES(), ['GET', '/nothing'], ['PUT', '/files']]) {
      const answer = await door.call(method, path, { key: null });
      refused(answer, 401, { code: 'invalid_api_key' });
      answers.add(answer.text);
    }
    assert.equal(answers.size, 1);
  });

  test('each route needs its scope and no more', async () => {
    const scopes = ['execute', 'files:read', 'files:write'];
    const keys = {};
    for (const scope of scopes)
      keys[scope] = (await g.ok('POST', '/api/keys', { tenant: 'default', scopes: [scope] })).secret;
    for (const [method, path, needed] of ROUTES())
      for (const scope of scopes) {
        const answer = await door.call(method, path, { key: keys[scope], ...(method === 'POST' ? { body: {} } : {}) });
        if (scope === needed) assert.notEqual(answer.status, 403, `${method} ${path} as ${scope}`);
        else refused(answer, 403, { code: 'insufficient_permissions' });
      }
  });

  test('I3: what is another tenant\'s is answered as what never was', async () => {
    const other = new Door(g, await g.tenant('other'));
    const { id: c } = await door.container();
    const { id: l } = await door.put(c, 'x');
    const { id: f } = await door.file('x');
    const { id: u } = accepted(await door.post('/uploads', { bytes: 1, filename: 'x', mime_type: 'text/plain', purpose: 'user_data' }));
    const bodies = { parts: {}, complete: { part_ids: [] }, files: { file_id: f } };
    const theirs = ROUTES({ c, l, f, u });
    for (const [i, [method, path]] of ROUTES().entries()) {
      const [, other_path] = theirs[i];
      if (path === other_path) continue;
      const options = method === 'POST' ? { body: bodies[path.split('/').pop()] ?? {} } : {};
      const unknown = await other.call(method, path, options);
      const foreign = await other.call(method, other_path, options);
      assert.equal(foreign.status, 404, `${method} ${other_path}: ${foreign.text}`);
      const blind = (text) => text.replaceAll(c, 'C').replaceAll(l, 'L').replaceAll(f, 'F').replaceAll(u, 'U')
        .replaceAll(NONE.c, 'C').replaceAll(NONE.l, 'L').replaceAll(NONE.f, 'F').replaceAll(NONE.u, 'U');
      assert.equal(blind(foreign.text), blind(unknown.text), `${method} ${path}`);
    }
    refused(await other.post('/containers', { name: 'x', file_ids: [f] }), 404, { param: 'file_ids', message: `No such File object: ${f}` });
    for (const list of ['/containers', '/files']) assert.deepEqual(accepted(await other.get(list)).data, []);
    assert.equal(accepted(await door.get(`/containers/${c}`)).id, c);
  });

  test('every answer says which request it belongs to', async () => {
    const seen = new Set();
    for (const answer of [await door.get('/containers'), await door.get('/x'), await door.get('/files', { key: null })]) {
      assert.match(answer.headers['x-request-id'], /^req_[0-9a-f]{32}$/);
      assert.equal(answer.headers['openai-version'], '2020-10-01');
      assert.match(answer.headers['openai-processing-ms'], /^\d+$/);
      seen.add(answer.headers['x-request-id']);
    }
    assert.equal(seen.size, 3);
  });
});
