// SPDX-License-Identifier: Apache-2.0
// Who gets in at /mcp: origins and hosts before keys, keys before anything
// else, scopes before what needs them; and the endpoint of an Azure pool.
import assert from 'node:assert/strict';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { LEGACY, MODERN, Legacy, modern, refuses, response, result, send } from '../../lib/mcp.mjs';

const INVITED = 'https://app.example:8443';
let g;
before(async () => { g = await Glovebox.start({ config: { mcp_origins: `https://other.example,${INVITED}`, pools: [pool(), pool({ name: 'second', ready: 0 })] } }); });
after(() => g?.stop());

const discover = (options) => modern(g, 'server/discover', {}, options);
const own = () => new URL(g.url).host;

describe('Origin and Host', () => {
  test('M1: a page that was not invited is refused before its key is looked at', async () => {
    for (const origin of ['https://evil.example', 'null', 'http://localhost', 'http://127.0.0.1', `https://evil.${own()}`, 'https://app.example',
      `${INVITED}.evil.example`, `http://${own()}.evil.example`, 'https://other.example,', '']) {
      for (const key of [g.key, undefined, 'gbx_wrong']) {
        const answer = await discover({ key, headers: { origin } });
        assert.equal(answer.status, 403, origin);
        assert.equal(answer.headers['access-control-allow-origin'], undefined);
      }
    }
  });

  test('M1: a Host that is not this machine is refused, so that a name rebound to it leads nowhere', async () => {
    for (const host of ['evil.example', 'evil.example:8650', '127.0.0.1.evil.example', 'localhost.evil.example', '127.0.0.2', '[::2]', '0.0.0.0'])
      for (const origin of [undefined, `http://${host}`])
        assert.equal((await discover({ headers: { host, ...(origin ? { origin } : {}) } })).status, 403, host);
    for (const host of ['127.0.0.1:x', 'localhost:', 'localhost evil']) assert.equal((await discover({ headers: { host } })).status, 400, host);
    for (const host of ['localhost', '127.0.0.1', '[::1]', 'LOCALHOST:1234', own()])
      assert.equal((await discover({ headers: { host } })).status, 200, host);
  });

  test('M1: it holds for every method and path of the door', async () => {
    for (const method of ['POST', 'GET', 'DELETE', 'OPTIONS'])
      for (const path of ['/mcp', '/mcp?tools=all', '/pools/default/mcp', '/subscriptions/s/sessionPools/default/mcp', '/api/projects/p/toolboxes/t/mcp'])
        assert.equal((await send(g, method, { path, headers: { origin: 'https://evil.example' } })).status, 403, `${method} ${path}`);
  });

  test('an invited page, and our own, may speak, and CORS says so', async () => {
    for (const origin of [INVITED, INVITED.toUpperCase(), 'https://other.example', `http://${own()}`]) {
      const answer = await discover({ headers: { origin } });
      assert.equal(answer.status, 200, origin);
      assert.equal(answer.headers['access-control-allow-origin'], origin);
      assert.match(answer.headers['access-control-expose-headers'], /Mcp-Session-Id/);
      const preflight = await send(g, 'OPTIONS', { key: null, headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization,mcp-param-x' } });
      assert.equal(preflight.status, 204);
      assert.match(preflight.headers['access-control-allow-methods'], /POST/);
      assert.match(preflight.headers['access-control-allow-headers'], /mcp-param-x/);
    }
  });
});

describe('keys', () => {
  test('I1: without a valid key nothing is told apart', async () => {
    const bodies = ['{', '[]', JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: {} }), ''];
    for (const key of [null, 'gbx_wrong', `gbx_${'0'.repeat(64)}`])
      for (const path of ['/mcp', '/pools/default/mcp', '/pools/nope/mcp', '/api/projects/p/toolboxes/t/versions/3/mcp'])
        for (const body of bodies) {
          const answer = await send(g, 'POST', { key, path, body, headers: { 'content-type': 'text/odd' } });
          assert.ok([401, 429].includes(answer.status), `${path} ${answer.status}`);
          if (answer.status === 401) assert.equal(answer.headers['www-authenticate'], 'Bearer');
          assert.equal(answer.headers['mcp-session-id'], undefined);
        }
    for (const method of ['GET', 'DELETE', 'PUT'])
      assert.ok([401, 429].includes((await send(g, method, { key: null })).status));
  });

  test('a key in the URL is no key', async () => {
    assert.ok([401, 429].includes((await discover({ key: null, path: `/mcp?access_token=${g.key}` })).status));
  });

  test('no metadata of RFC 9728 where there is no issuer', async () => {
    for (const path of ['/.well-known/oauth-protected-resource', '/.well-known/oauth-protected-resource/mcp'])
      assert.equal((await send(g, 'GET', { key: null, path })).status, 404);
  });

  test('where tokens of an issuer are taken, a challenge leads to it', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'glovebox-test-'));
    writeFileSync(join(dir, 'keys.json'), '{"keys":[]}', { mode: 0o644 });
    const own = await Glovebox.start({ dir, config: { jwt_issuer: 'https://idp.example', jwt_audiences: 'glovebox', jwt_jwks_file: join(dir, 'keys.json'), jwt_tenant: 'idp',
      pools: [pool({ ready: 0 })] } });
    try {
      const at = `${own.url}/.well-known/oauth-protected-resource`;
      const refused = await modern(own, 'server/discover', {}, { key: null });
      assert.equal(refused.status, 401);
      assert.equal(refused.headers['www-authenticate'], `Bearer resource_metadata="${at}/mcp"`);
      for (const path of ['', '/mcp']) {
        const answer = await fetch(at + path, { headers: { origin: 'https://any.example' } });
        assert.equal(answer.status, 200);
        assert.equal(answer.headers.get('access-control-allow-origin'), '*');
        assert.deepEqual(await answer.json(), { resource: `${own.url}/mcp`, authorization_servers: ['https://idp.example'],
          scopes_supported: ['execute', 'files:read', 'files:write'], bearer_methods_supported: ['header'] });
      }
      // I9: a proxy is believed only where one is configured.
      const forwarded = await fetch(at, { headers: { 'x-forwarded-proto': 'https', forwarded: 'proto=https' } });
      assert.equal((await forwarded.json()).resource, `${own.url}/mcp`);
      const reader = (await own.ok('POST', '/api/keys', { tenant: 'default', scopes: ['files:read'] })).secret;
      const { answer } = await refuses(modern(own, 'tools/call', { name: 'execute_python', arguments: { code: '1' } }, { key: reader }), 403, -32600);
      assert.match(answer.headers['www-authenticate'], /^Bearer resource_metadata="[^"]*", error="insufficient_scope", scope="execute/);
    } finally {
      await own.stop();
    }
  });

  test('M2: the scopes of a key hold, and are named when one is missing', async () => {
    const key = async (...scopes) => (await g.ok('POST', '/api/keys', { tenant: 'default', scopes })).secret;
    const reader = await key('files:read'), runner = await key('execute');
    const run = (k) => modern(g, 'tools/call', { name: 'execute_python', arguments: { code: '1' } }, { key: k });
    const { answer, error } = await refuses(run(reader), 403, -32600, /execute/);
    assert.match(answer.headers['www-authenticate'], /^Bearer error="insufficient_scope", scope="execute[^"]*"$/);
    assert.ok(response(answer).id !== undefined && error);
    await refuses(modern(g, 'resources/read', { uri: `workspace://ws_${'0'.repeat(32)}/x` }, { key: runner }), 403, -32600, /files:read/);
    assert.deepEqual((await result(modern(g, 'resources/list', {}, { key: runner }))).resources, []);
    // the list has the tools that the key can call, and only the caller may cache it
    const listed = await result(modern(g, 'tools/list', {}, { key: reader }));
    const names = listed.tools.map((t) => t.name);
    assert.ok(names.includes('read_file') && !names.includes('execute_python'), names.join());
    assert.equal(listed.cacheScope, 'private');
    const session = await Legacy.open(g, { key: reader });
    await refuses(session.request('tools/call', { name: 'execute_python', arguments: { code: '1' } }), 403, -32600);
  });
});

describe('the endpoint of an Azure pool', () => {
  const azure = (body, { path = '/pools/default/mcp', headers = {}, key } = {}) =>
    send(g, 'POST', { key: null, path, body, headers: { accept: '*/*', ...(key === null ? {} : { 'x-ms-apikey': key ?? g.key }), ...headers } });
  const rpc = (method, params) => ({ jsonrpc: '2.0', id: 1, method, ...(params ? { params } : {}) });

  test('the key comes in x-ms-apikey, and only there', async () => {
    assert.equal((await azure(rpc('tools/list'))).status, 200);
    assert.equal((await azure(rpc('tools/list'), { key: null })).status, 401);
    assert.equal((await azure(rpc('tools/list'), { key: null, headers: { authorization: `Bearer ${g.key}` } })).status, 401);
    assert.equal((await azure(rpc('tools/list'), { path: '/pools/nope/mcp' })).status, 404);
    assert.equal((await send(g, 'POST', { key: null, body: rpc('ping'), headers: { 'x-ms-apikey': g.key } })).status, 401, 'and not at /mcp');
  });

  test('initialize without params, no session, the service\'s own name and tools', async () => {
    for (const path of ['/pools/default/mcp', '/pools/second/mcp', '/subscriptions/s/resourceGroups/r/sessionPools/default/mcp']) {
      const answer = await azure(rpc('initialize'), { path });
      assert.equal(answer.body.result.protocolVersion, '2025-03-26');
      assert.equal(answer.body.result.serverInfo.name, 'Microsoft Container Apps MCP Server');
      assert.deepEqual(answer.body.result.capabilities, { tools: { call: true, list: true } });
      assert.equal(answer.headers['mcp-session-id'], undefined);
      assert.equal((await azure({ jsonrpc: '2.0', method: 'notifications/initialized' }, { path })).status, 202);
      const { tools } = (await azure(rpc('tools/list'), { path })).body.result;
      assert.deepEqual(tools.map((t) => t.name).sort(), ['launchShell', 'runPythonCodeInRemoteEnvironment', 'runShellCommandInRemoteEnvironment']);
    }
    assert.equal((await azure(rpc('resources/list'))).body.error.code, -32601);
    assert.equal((await azure('{')).body.error.code, -32700);
    assert.equal((await azure(rpc('tools/call', { name: 'execute_python', arguments: {} }))).body.error.code, -32602);
    assert.equal((await send(g, 'GET', { key: null, path: '/pools/default/mcp', headers: { 'x-ms-apikey': g.key } })).status, 405);
  });

  test('a shell is launched and runs code', async () => {
    const made = (await azure(rpc('tools/call', { name: 'launchShell', arguments: {} }))).body.result;
    const { environmentId } = made.structuredContent;
    assert.ok(environmentId);
    const ran = (await azure(rpc('tools/call', { name: 'runPythonCodeInRemoteEnvironment', arguments: { environmentId, pythonCode: 'print(6 * 7)' } }))).body.result;
    assert.equal(ran.structuredContent.stdout.trim(), '42');
  });
});

test('a Foundry toolbox is the same server', async () => {
  for (const path of ['/api/projects/p/toolboxes/t/mcp?api-version=v1', '/api/projects/p/toolboxes/t/versions/2/mcp?api-version=v1']) {
    const session = await Legacy.open(g, { version: '2025-03-26', path });
    assert.equal(session.info.serverInfo.name, 'glovebox');
    assert.ok(response(await session.request('tools/list')).result.tools.length > 5);
    assert.equal((await result(modern(g, 'server/discover', {}, { path }))).supportedVersions[0], MODERN);
  }
  assert.notEqual(LEGACY, MODERN);
});
