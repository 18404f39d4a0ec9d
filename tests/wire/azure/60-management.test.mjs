// SPDX-License-Identifier: Apache-2.0
// The Azure door's control plane: session pools made, shown, changed, listed
// and removed, and the keys of their MCP endpoints.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Pool, arm, poolBody, refused, unknown } from '../../lib/azure.mjs';
import { Glovebox, pool, sleep } from '../../lib/glovebox.mjs';
import { request, stop } from '../../lib/wire.mjs';

let server;
const GRACE_S = 3;
const config = { trust_proxy: true, mcp_key_grace_s: GRACE_S, pools: [pool({ ready: 1 })] };

before(async () => { server = await Glovebox.start({ config }); });
after(() => stop(server));

const ok = (answer, status = 200) => {
  assert.equal(answer.status, status, answer.text);
  return answer.body;
};
const put = (name, body, options = {}) => request(server, 'PUT', arm(name, options), { body, key: options.key });
const get = (name, options = {}) => request(server, 'GET', arm(name, options), { key: options.key });
const patch = (name, body, options) => request(server, 'PATCH', arm(name, options), { body });
const remove = (name, options) => request(server, 'DELETE', arm(name, options));

describe('a pool', () => {
  test('made with 200 at once, shown with all it was given, and used at its endpoint', async () => {
    const made = ok(await put('pool1', poolBody({ scaleConfiguration: { maxConcurrentSessions: 12, readySessionInstances: 1 },
      mcpServerSettings: { isMCPServerEnabled: true }, managedIdentitySettings: [{ identity: 'system', lifecycle: 'Main' }] }, { tags: { team: 'a', n: '1' } })));
    assert.equal(made.id, '/subscriptions/00000000-1111-2222-3333-444444444444/resourceGroups/tests/providers/Microsoft.App/sessionPools/pool1');
    assert.deepEqual([made.name, made.type, made.location, made.tags], ['pool1', 'Microsoft.App/sessionPools', 'westus3', { team: 'a', n: '1' }]);
    const { properties } = made;
    assert.deepEqual([properties.poolManagementType, properties.containerType, properties.provisioningState], ['Dynamic', 'PythonLTS', 'Succeeded']);
    assert.deepEqual(properties.scaleConfiguration, { maxConcurrentSessions: 12 }, 'ready instances are not told for built-in pools');
    assert.deepEqual(properties.dynamicPoolConfiguration, { lifecycleConfiguration: { lifecycleType: 'Timed', cooldownPeriodInSeconds: 300 } });
    assert.deepEqual(properties.sessionNetworkConfiguration, { status: 'EgressDisabled' });
    assert.deepEqual(properties.managedIdentitySettings, [{ identity: 'system', lifecycle: 'Main' }]);
    assert.equal(properties.poolManagementEndpoint, `${server.url}/subscriptions/00000000-1111-2222-3333-444444444444/resourceGroups/tests/sessionPools/pool1`);
    assert.deepEqual(properties.mcpServerSettings, { isMcpServerEnabled: true, isMcpServerApiKeyDisabled: false, mcpServerEndpoint: `${properties.poolManagementEndpoint}/mcp` });
    assert.deepEqual(ok(await get('pool1')), made);
    const p = new Pool(server, { base: new URL(properties.poolManagementEndpoint).pathname });
    assert.equal(ok(await p.run('6*7')).result.executionResult, 42);
    const arms = new Pool(server, { base: arm('pool1').split('?')[0], identifier: p.identifier });
    assert.equal(ok(await arms.run('6*7')).result.executionResult, 42, 'the resource path is an endpoint too');
  });

  test('the scheme a proxy was asked by is the endpoint\'s', async () => {
    const made = ok(await request(server, 'GET', arm('pool1'), { headers: { host: 'pools.example', 'x-forwarded-proto': 'https' } }));
    assert.match(made.properties.poolManagementEndpoint, /^https:\/\/pools\.example\//);
  });

  test('the shape before 2025-01-01, in both directions', async () => {
    const old = { version: '2024-02-02-preview' };
    const body = poolBody({ dynamicPoolConfiguration: { executionType: 'Timed', cooldownPeriodInSeconds: 600 } });
    const made = ok(await put('oldshape', body, old));
    assert.deepEqual(made.properties.dynamicPoolConfiguration, { executionType: 'Timed', cooldownPeriodInSeconds: 600 });
    assert.deepEqual(ok(await get('oldshape')).properties.dynamicPoolConfiguration, { lifecycleConfiguration: { lifecycleType: 'Timed', cooldownPeriodInSeconds: 600 } });
  });

  test('names in any case, of settings and of the path', async () => {
    const got = await request(server, 'GET', '/SUBSCRIPTIONS/00000000-1111-2222-3333-444444444444/resourcegroups/tests/Providers/microsoft.app/SessionPools/pool1/?api-version=2025-07-01');
    assert.equal(ok(got).name, 'pool1');
    const made = ok(await put('anycase', { location: 'x', properties: { PoolManagementType: 'dynamic', ContainerType: 'pythonlts', SCALECONFIGURATION: { maxconcurrentsessions: 7 } } }));
    assert.equal(made.properties.scaleConfiguration.maxConcurrentSessions, 7);
  });

  test('put again replaces, patch merges', async () => {
    ok(await put('changes', poolBody({}, { tags: { a: '1' } })));
    const patched = ok(await patch('changes', { properties: { scaleConfiguration: { maxConcurrentSessions: 33 } } }));
    assert.deepEqual([patched.properties.scaleConfiguration.maxConcurrentSessions, patched.tags, patched.location], [33, { a: '1' }, 'westus3']);
    assert.equal(patched.properties.dynamicPoolConfiguration.lifecycleConfiguration.cooldownPeriodInSeconds, 300);
    assert.deepEqual(ok(await patch('changes', { tags: { b: '2' } })).tags, { b: '2' });
    const again = ok(await put('changes', poolBody({ scaleConfiguration: { maxConcurrentSessions: 5 } })));
    assert.deepEqual([again.properties.scaleConfiguration.maxConcurrentSessions, again.tags], [5, undefined]);
    refused(await patch('unmade', {}), 404, 'ResourceNotFound');
  });

  test('removed: 204, again 204, and its sessions are gone', async () => {
    ok(await put('shortlived', poolBody()));
    const p = new Pool(server, { base: '/pools/shortlived' });
    ok(await p.run('1'));
    for (let i = 0; i < 2; i++) {
      const gone = await remove('shortlived');
      assert.deepEqual([gone.status, gone.text], [204, '']);
    }
    refused(await get('shortlived'), 404, 'ResourceNotFound');
    refused(await p.get('files'), 404, 'NotFound', /pool/);
  });
});

describe('the network', () => {
  test('EgressEnabled is every public address, EgressDisabled none, as it was where nothing is said', async () => {
    const status = async (body) => ok(await put('egress', body)).properties.sessionNetworkConfiguration.status;
    assert.equal(await status(poolBody({ sessionNetworkConfiguration: { status: 'EgressEnabled' } })), 'EgressEnabled');
    assert.equal((await server.ok('GET', '/api/pools/egress')).egress, 'open');
    assert.match((await server.ok('GET', '/api/pools/egress')).warning, /untrusted code/);
    assert.equal(await status(poolBody({ sessionNetworkConfiguration: null })), 'EgressEnabled');
    assert.equal(await status(poolBody({ sessionNetworkConfiguration: { status: 'egressdisabled' } })), 'EgressDisabled');
    assert.equal((await server.ok('GET', '/api/pools/egress')).egress, 'none');
    // an allowlist shows as enabled, and is not widened by being said again
    await server.ok('PATCH', '/api/pools/egress', { egress: 'allowlist', egress_allow: 'a.org,b.org:8443' });
    assert.equal(await status(poolBody({ sessionNetworkConfiguration: { status: 'EgressEnabled' } })), 'EgressEnabled');
    assert.deepEqual([(await server.ok('GET', '/api/pools/egress')).egress, (await server.ok('GET', '/api/pools/egress')).egress_allow], ['allowlist', 'a.org,b.org:8443']);
    assert.equal((await server.call('PATCH', '/api/pools/egress', { egress_allow: 'a b@' })).status, 400);
    assert.equal((await remove('egress')).status, 204);
  });
});

describe('what is refused', () => {
  test('names', async () => {
    for (const name of ['abc', 'a'.repeat(63), 'x12']) ok(await put(name, poolBody()));
    for (const name of ['ab', 'a'.repeat(64), '1ab', 'Abc', 'a-b', 'a_b', 'a.b', 'ü12', '%20abc'])
      refused(await put(encodeURIComponent(name), poolBody()), 400, 'InvalidRequestContent', /name/);
    for (const name of ['abc', 'a'.repeat(63), 'x12']) assert.equal((await remove(name)).status, 204);
  });

  test('kinds that are not offered, in a clear sentence', async () => {
    for (const containerType of ['GpuBase', 'CsharpLTS'])
      refused(await put('nokind', poolBody({ containerType })), 400, 'InvalidRequestContent', new RegExp(`${containerType}.*not offered.*PythonLTS, NodeLTS, Shell or CustomContainer`));
    refused(await put('nokind', poolBody({ containerType: 'CustomContainer' })), 400, 'InvalidRequestContent', /customContainerTemplate/);
    refused(await put('nokind', poolBody({ containerType: 'NodeLTS' })), 400, 'SessionRequestNotSupported', /no runtime of this service's pools offers JavaScript/);
    refused(await put('nokind', poolBody({ containerType: 'Ruby' })), 400, 'InvalidRequestContent', /PythonLTS, NodeLTS, Shell or CustomContainer/);
    refused(await put('nokind', poolBody({ poolManagementType: 'Manual' })), 400, 'InvalidRequestContent', /Dynamic/);
    refused(await put('nokind', poolBody({ sessionNetworkConfiguration: { status: 'Sometimes' } })), 400, 'InvalidRequestContent', /EgressDisabled or EgressEnabled/);
    const lifecycle = (lifecycleConfiguration) => poolBody({ dynamicPoolConfiguration: { lifecycleConfiguration } });
    refused(await put('nokind', lifecycle({ lifecycleType: 'OnContainerExit' })), 400, 'InvalidRequestContent', /Timed/);
    refused(await put('nokind', lifecycle({ lifecycleType: 'Timed', maxAlivePeriodInSeconds: 600 })), 400, 'InvalidRequestContent', /custom/);
    refused(await put('nokind', poolBody({ managedIdentitySettings: [{ lifecycle: 'Sometimes' }] })), 400, 'InvalidRequestContent');
    refused(await put('nokind', poolBody({ mcpServerSettings: { isMcpServerEnabled: 'yes' } })), 400, 'InvalidRequestContent');
    for (const body of ['[]', '{', '']) refused(await request(server, 'PUT', arm('nokind'), { body, headers: { 'content-type': 'application/json' } }), 400, 'InvalidRequestContent');
    refused(await put('nokind', { properties: [] }), 400, 'InvalidRequestContent', /properties/);
    refused(await get('nokind'), 404, 'ResourceNotFound');
  });

  test('numbers at, below and above', async () => {
    const cooldown = (n) => poolBody({ dynamicPoolConfiguration: { lifecycleConfiguration: { lifecycleType: 'Timed', cooldownPeriodInSeconds: n } } });
    for (const n of [300, 3600, '300', '3600']) ok(await put('numbers', cooldown(n)));
    for (const n of [299, 3601, 0, -1, 300.5, '299', '3601', '', 'x', '300 ', '-300', '9'.repeat(30)]) refused(await put('numbers', cooldown(n)), 400, 'InvalidRequestContent', /300 to 3600/);
    const most = (n) => poolBody({ scaleConfiguration: { maxConcurrentSessions: n } });
    for (const n of [1, 600, '10']) ok(await put('numbers', most(n)));
    for (const n of [0, 601, -5, 1.5, '0']) refused(await put('numbers', most(n)), 400, 'InvalidRequestContent', /1 to 600/);
    assert.equal((await remove('numbers')).status, 204);
  });

  test('a pool of the configuration cannot be changed here', async () => {
    assert.equal(ok(await get('default')).name, 'default');
    refused(await put('default', poolBody()), 409, 'Conflict', /configuration/);
    refused(await remove('default'), 409, 'Conflict');
  });

  test('who is no administrator', async () => {
    const { key } = await server.tenant('plain');
    for (const [method, path] of [['GET', arm('pool1')], ['PUT', arm('pool2')], ['DELETE', arm('pool1')], ['GET', arm()], ['POST', arm('pool1/fetchMCPServerCredentials')]]) {
      refused(await request(server, method, path, { key, body: method === 'PUT' ? poolBody() : undefined }), 403, 'AuthorizationFailed');
      unknown(await request(server, method, path, { key: null }));
    }
    refused(await request(server, 'POST', arm('pool1')), 400, 'SessionRequestValidationFailed', /GET, HEAD, PUT/);
  });
});

describe('lists', () => {
  test('by group and by subscription; a pool is where it was made', async () => {
    const there = { subscription: 'sub-2', group: 'g1' };
    ok(await put('lista', poolBody(), there));
    ok(await put('listb', poolBody(), { ...there, group: 'g2' }));
    const names = async (options) => ok(await get('', options)).value.map((r) => r.name).filter((n) => n.startsWith('list'));
    assert.deepEqual(await names(there), ['lista']);
    assert.deepEqual(await names({ ...there, group: 'G2' }), ['listb']);
    assert.deepEqual(await names({ subscription: 'sub-2', group: '' }), ['lista', 'listb']);
    assert.deepEqual(await names({ subscription: 'sub-3', group: '' }), []);
    const all = ok(await get('', { subscription: 'sub-2', group: '' })).value;
    assert.match(all.find((r) => r.name === 'listb').id, /\/resourceGroups\/g2\//);
    assert.ok(all.some((r) => r.name === 'default'), 'the configuration\'s are everywhere');
    refused(await get('lista', { ...there, group: 'g2' }), 404, 'ResourceNotFound');
    refused(await put('lista', poolBody(), { ...there, group: 'g2' }), 409, 'Conflict');
    assert.equal((await remove('lista', { ...there, group: 'g2' })).status, 204, 'not there');
    assert.equal(ok(await get('lista', there)).name, 'lista');
  });

  test('I3 another tenant\'s pool is unknown', async () => {
    const { secret } = await server.ok('POST', '/api/keys', { tenant: 'other', scopes: ['admin'] });
    refused(await get('pool1', { key: secret }), 404, 'ResourceNotFound');
    const names = ok(await get('', { key: secret })).value.map((r) => r.name);
    assert.deepEqual(names, ['default']);
    refused(await put('pool1', poolBody(), { key: secret }), 409, 'Conflict');
    refused(await new Pool(server, { base: '/pools/pool1', key: secret }).get('files'), 404, 'NotFound');
  });
});

describe('keys of the MCP endpoint', () => {
  const post = (name, action) => request(server, 'POST', arm(`${name}/${action}`));
  const works = async (key) => (await new Pool(server, { base: '/pools/keyed', key, identifier: 'keyed-1' }).get('files')).status;

  test('fetched ones run code and use files, rotating ends them', async () => {
    ok(await put('keyed', poolBody()));
    const first = ok(await post('keyed', 'fetchMCPServerCredentials')).apiKey;
    const second = ok(await post('keyed', 'fetchMcpServerCredentials')).apiKey;
    assert.match(first, /^gbx_/);
    assert.notEqual(first, second);
    assert.deepEqual([await works(first), await works(second)], [200, 200]);
    refused(await get('keyed', { key: first }), 403, 'AuthorizationFailed');
    ok(await put('keyed', poolBody()));
    const began = Date.now();
    const rotated = ok(await post('keyed', 'rotateMcpServerCredentials'));
    const third = rotated.apiKey;
    assert.deepEqual([await works(first), await works(second), await works(third)], [200, 200, 200], 'the old ones for a while');
    const until = Date.parse(rotated.previousKeysValidUntil);
    assert.ok(until > began && until <= Date.now() + GRACE_S * 1000, rotated.previousKeysValidUntil);
    const again = ok(await post('keyed', 'regenerateCredentials'));
    const fourth = again.apiKey;
    assert.ok(Date.parse(again.previousKeysValidUntil) >= until);
    while (Date.now() <= until) await sleep(100);
    assert.deepEqual([await works(first), await works(second), await works(fourth)], [401, 401, 200], 'a second rotation gives the first ones no more time');
    while (Date.now() <= Date.parse(again.previousKeysValidUntil)) await sleep(100);
    assert.deepEqual([await works(third), await works(fourth)], [401, 200]);
    assert.ok(!(await get('keyed')).text.includes(fourth), 'a key is told once');
    const trail = (await server.ok('GET', '/api/audit?action=key.&limit=1000')).data.map((e) => e.action);
    assert.ok(trail.filter((a) => a === 'key.create').length >= 4 && trail.filter((a) => a === 'key.revoke').length >= 3, trail.join());
  });

  test('of a pool of the configuration, of one that is gone, of one without keys', async () => {
    assert.match(ok(await post('default', 'fetchMCPServerCredentials')).apiKey, /^gbx_/);
    refused(await post('default', 'rotateMCPServerCredentials'), 409, 'Conflict');
    refused(await post('nothing', 'fetchMCPServerCredentials'), 404, 'ResourceNotFound');
    ok(await put('keyless', poolBody({ mcpServerSettings: { isMcpServerApiKeyDisabled: true } })));
    refused(await post('keyless', 'fetchMCPServerCredentials'), 400, 'InvalidRequestContent', /disabled/);
  });
});

test('pools are there again after a restart, with their sessions\' files', async () => {
  const p = new Pool(server, { base: '/pools/pool1', identifier: 'over-restart' });
  assert.equal((await p.upload('kept.txt', 'k')).status, 200);
  const was = ok(await get('pool1'));
  await server.stop({ keep: true });
  server = await Glovebox.start({ config, dir: server.dir });
  const now = ok(await get('pool1'));
  assert.deepEqual({ ...now.properties, poolManagementEndpoint: 0, mcpServerSettings: 0 }, { ...was.properties, poolManagementEndpoint: 0, mcpServerSettings: 0 });
  assert.deepEqual([now.tags, now.id], [was.tags, was.id]);
  const q = new Pool(server, { base: '/pools/pool1', identifier: 'over-restart' });
  assert.deepEqual(await q.names(), ['kept.txt']);
});
