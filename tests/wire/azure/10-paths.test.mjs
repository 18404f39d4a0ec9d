// SPDX-License-Identifier: Apache-2.0
// The Azure door: where a pool is found, versions, keys, identifiers, what
// answers carry and what refusals look like.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { GUID, Pool, V2024_02, V2024_10, V2025_02, V2025_10, VERSIONS, refused, unknown } from '../../lib/azure.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { exchange, request, stop } from '../../lib/wire.mjs';

let server;
let p;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 2 }), pool({ name: 'second', ready: 0 })] } });
  p = new Pool(server, { identifier: 'paths-1' });
});
after(() => stop(server));

const value = async (answer) => {
  assert.equal(answer.status, 200, answer.text);
  return answer.body.result.executionResult;
};

describe('paths', () => {
  const prefixes = ['/pools/default', '/subscriptions/s1/resourceGroups/rg/sessionPools/default',
    '/subscriptions/s1/resourceGroups/rg/providers/Microsoft.App/sessionPools/default', '/sessionPools/default',
    '/a/b/c/sessionpools/default', '/region/SESSIONPOOLS/default'];
  for (const base of prefixes)
    test(`a pool is found at ${base}`, async () => {
      const here = new Pool(server, { base, identifier: 'paths-1' });
      assert.equal(await value(await here.run('6*7')), 42);
      assert.equal((await here.at(V2024_02).wrapped('6*7')).body.properties.result, 42);
      assert.equal((await here.get('files')).status, 200);
      assert.equal((await here.post('executions/', { code: '1' })).status, 200, 'a slash at the end');
      assert.equal((await here.get('files/')).status, 200);
      assert.equal((await request(server, 'POST', `${base}//executions?identifier=paths-1&api-version=${V2025_10}`, { body: { code: '1' } })).status, 200);
    });

  test('an identifier may stand before the call', async () => {
    const at = `/pools/default/identifier/in-path-1/code/execute?api-version=${V2024_02}`;
    const got = await request(server, 'POST', at, { body: { properties: { code: 'mark = 5\nmark' } } });
    assert.equal(got.body.properties.result, 5, got.text);
    const same = await p.other('in-path-1').run('mark');
    assert.equal(await value(same), 5);
    const both = await request(server, 'POST', `/pools/default/identifier/in-path-2/executions?identifier=in-path-1`, { body: { code: 'mark' } });
    assert.equal(both.body.result.executionResult, 5, 'the query wins');
  });

  test('parameters in any order, more of them, and stray headers do not matter', async () => {
    const got = await request(server, 'POST', `/pools/default/executions?x=1&identifier=paths-1&code=abc&api-version=${V2025_10}&y=`, { body: { code: '1+1' } });
    assert.equal(await value(got), 2);
    const list = await request(server, 'GET', p.url('files'), { headers: { 'content-type': 'application/json' } });
    assert.equal(list.status, 200);
  });

  test('files of other doors keep their names', async () => {
    const s = await server.session();
    await s.put('sessionPools/default/files', 'mine');
    assert.equal((await s.read('sessionPools/default/files')).text, 'mine');
  });

  test('the bare origin is the first pool', async () => {
    const bare = new Pool(server, { base: '' });
    assert.equal((await bare.run('6 * 7')).body.result.executionResult, 42);
    assert.equal((await bare.get('files')).status, 200);
    assert.equal((await bare.at(V2024_02).wrapped('1')).status, 200);
    assert.equal((await request(server, 'GET', '/filesystem')).body.error.code, 'not_found', 'of the native API');
    unknown(await bare.call('GET', 'files', { key: null }));
  });

  test('an unknown pool is 404, an unknown path or method 400', async () => {
    const gone = new Pool(server, { base: '/pools/nowhere' });
    refused(await gone.run('1'), 404, 'NotFound', /pool/);
    refused(await gone.get('files'), 404, 'NotFound');
    refused(await p.get('nothing'), 400, 'SessionRequestValidationFailed');
    refused(await p.delete('executions'), 400, 'SessionRequestValidationFailed', /DELETE/);
    refused(await p.get(':pool'), 400, 'SessionRequestValidationFailed');
    refused(await p.call('PUT', ':pool', { body: {} }), 400, 'SessionRequestValidationFailed');
    refused(await request(server, 'GET', '/pools/default'), 400, 'SessionRequestValidationFailed');
  });
});

describe('versions', () => {
  test('every one is known, none too; their case does not matter', async () => {
    for (const version of [null, '', ...VERSIONS.B, ...VERSIONS.C, '2025-10-02-PREVIEW'])
      assert.equal((await p.at(version).get('files')).status, 200, version);
  });

  test('an unknown one is 401', async () => {
    for (const version of ['2024-09-01', '2030-01-01', 'x', '2025-10-02', `${V2025_10} `])
      unknown(await p.at(version).run('1'));
    refused(await request(server, 'GET', `${p.url('files')}&api-version=${V2024_02}`), 400, 'SessionRequestValidationFailed', /twice/);
  });

  test('calls that came later are not there earlier', async () => {
    for (const [method, path] of [['GET', 'session'], ['DELETE', 'session'], ['GET', 'listSessions'], ['GET', 'metadata']]) {
      for (const version of [V2024_02, V2024_10]) refused(await p.at(version).call(method, path), 400, 'SessionRequestNotSupported');
    }
    refused(await p.at(V2024_02).get('executions/00000000-0000-0000-0000-000000000000'), 400, 'SessionRequestNotSupported');
    refused(await p.at(V2024_02).wrapped('1', { executionType: 'Asynchronous' }), 400, 'SessionRequestNotSupported');
  });
});

describe('keys', () => {
  test('without a good key everything is 401, whatever the path', async () => {
    for (const key of [null, 'gbx_0000', 'eyJhbGciOiJub25lIn0.e30.'])
      for (const [method, path] of [['POST', 'executions'], ['GET', 'files'], ['GET', 'nothing'], ['DELETE', 'session']])
        unknown(await p.call(method, path, { key, body: method === 'POST' ? { code: '1' } : undefined }));
    unknown(await new Pool(server, { base: '/pools/nowhere' }).call('GET', 'files', { key: null }));
  });

  test('a key without the scope is 403', async () => {
    const reader = (await server.ok('POST', '/api/keys', { scopes: ['files:read'] })).secret;
    const runner = (await server.ok('POST', '/api/keys', { scopes: ['execute'] })).secret;
    refused(await p.call('POST', 'executions', { key: reader, body: { code: '1' } }), 403, 'Forbidden');
    refused(await p.call('GET', 'files', { key: reader }), 403, 'Forbidden');
    refused(await p.call('GET', 'files', { key: runner }), 403, 'Forbidden');
    assert.equal((await p.call('POST', 'executions', { key: runner, body: { code: '1' } })).status, 200);
  });

  test('I3 the identifier of another tenant is another session', async () => {
    const { key } = await server.tenant('elsewhere');
    const theirs = new Pool(server, { identifier: 'paths-1', key });
    assert.equal(await value(await p.run('secret = 41\nsecret + 1')), 42);
    const got = await theirs.run('secret');
    assert.equal(got.body.status, 'Failed');
    assert.match(got.body.result.stderr, /NameError/);
    const listed = (await theirs.get('listSessions')).body.sessions;
    assert.deepEqual(listed.map((s) => s.identifier), ['paths-1']);
  });
});

describe('identifiers', () => {
  test('4 to 128 printable characters, at, below and above', async () => {
    for (const identifier of ['abcd', 'x'.repeat(128), "|-&^%$#(){}[];<>", `/.,@:'"+=!~?_`, '0000'])
      assert.equal((await p.other(identifier).get('files')).status, 200, identifier);
    for (const identifier of ['abc', 'x'.repeat(129), 'with space', 'tab\there', 'umlaut-ü', 'nl\nnl', 'x', 'del\x7fdel'])
      refused(await p.other(identifier).get('files'), 400, 'SessionRequestValidationFailed', /identifier/);
    assert.equal(refused(await p.get('files', { identifier: null }), 400, 'SessionRequestValidationFailed', /missing/).target, 'identifier');
    refused(await p.get('files', { identifier: '' }), 400, 'SessionRequestValidationFailed');
  });

  test('they are decoded once, raw and escaped ones are the same', async () => {
    await p.other('raw:id@1').run('n = 8');
    const got = await request(server, 'POST', `/pools/default/executions?identifier=raw:id@1&api-version=${V2025_10}`, { body: { code: 'n' } });
    assert.equal(await value(got), 8);
    const twice = await request(server, 'GET', `/pools/default/files?identifier=a%2525b&api-version=${V2025_10}`);
    assert.equal(twice.status, 200);
    const names = (await p.get('listSessions')).body.sessions.map((s) => s.identifier);
    assert.ok(names.includes('a%25b'), names.join(' '));
    const bad = await request(server, 'GET', `/pools/default/files?identifier=ab%zzcd`);
    assert.equal(bad.status, 400);
  });

  test('the same identifier in another pool is another session', async () => {
    await p.run('here = 1');
    const there = new Pool(server, { base: '/pools/second', identifier: p.identifier });
    assert.match((await there.run('here')).body.result.stderr, /NameError/);
  });
});

describe('what answers carry', () => {
  test('type, version, correlation id; executions their timings', async () => {
    for (const version of VERSIONS.C) {
      const got = await p.at(version).run('1');
      assert.equal(got.headers['content-type'], 'application/json; charset=utf-8');
      assert.equal(got.headers['api-supported-versions'], version);
      assert.match(got.headers['mise-correlation-id'], GUID);
      assert.match(got.headers['x-ms-session-guid'], GUID);
      assert.ok(got.headers.date);
      for (const name of ['overall-execution-time', 'preparation-time', 'execution-request-time', 'execution-read-response-time', 'container-execution-duration',
        'allocation-time', 'allocation-retries', 'total-execution-service-time'])
        assert.match(got.headers[`x-ms-${name}`], /^\d+$/, name);
    }
    const old = await p.at(V2024_02).get('files');
    assert.equal(old.headers['api-supported-versions'], undefined);
    assert.match(old.headers['mise-correlation-id'], GUID);
    const again = await p.run('1');
    assert.equal(again.headers['x-ms-session-guid'], (await p.run('1')).headers['x-ms-session-guid']);
  });

  test('bodies that are no JSON are refused in this dialect', async () => {
    for (const text of ['', '{', '[]', 'null', '{"code":1,}'])
      refused(await p.call('POST', 'executions', { body: text, headers: { 'content-type': 'application/json' } }), 400, 'SessionRequestValidationFailed');
    refused(await p.call('POST', 'executions', { body: `{"code":"${'#'.repeat(2 << 20)}"}`, headers: { 'content-type': 'application/json' } }), 413, 'RequestEntityTooLarge');
  });

  test('connections are kept', async () => {
    const one = `GET ${p.url('files')} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${server.key}\r\n`;
    const got = await exchange(server, `${one}\r\n${one}Connection: close\r\n\r\n`);
    assert.equal(got.match(/HTTP\/1\.1 200/g)?.length, 2, got);
  });
});
