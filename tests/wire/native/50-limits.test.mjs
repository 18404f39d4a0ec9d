// SPDX-License-Identifier: Apache-2.0
// Every limit at, below and above its value; everything malformed; and what
// overload is answered with.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { exchange, refused, request, stop } from '../../lib/wire.mjs';

const KiB = 1024;
const MiB = 1024 * KiB;
let server;
let s;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 2 }), pool({ name: 'brief', ready: 0, python_timeout_s: 5, python_timeout_max_s: 10 })] } });
  s = await server.session();
});
after(() => stop(server));

// A body as it is, to the route that runs code.
const post = (body, path = `${s.path}/executions`, headers = { 'content-type': 'application/json' }) =>
  request(server, 'POST', path, { body, headers });
const execute = (body) => post(JSON.stringify(body));
const create = (body) => request(server, 'POST', '/api/sessions', { body });
const bad = (answer, message) => refused(answer, 400, 'invalid_request', message);
const fine = (answer) => assert.equal(answer.status, 200, answer.text?.slice(0, 300));

describe('H3 JSON bodies', () => {
  test('what is not JSON is refused with where', async () => {
    for (const text of ['{', '}', '{"code":', '{"code":"1"', '{"code":"1"}}', '{"code":"1"} x', "{'code':'1'}", '{code:"1"}', '{"code":"1",}', '{"code":01}', '{"code":+1}',
      '{"code":.5}', '{"code":1.}', '{"code":NaN}', '{"code":Infinity}', '{"code":"\n"}', '{"code":"\\x"}', '{"code":"\\ud800"}', '{"code":"\\u12"}', '\ufeff{"code":"1"}', '{"code":"1"/*x*/}',
      'nul', '{"code":"1"', '"', '{"a":1 "b":2}', '{"code":"a\\u0000b"}'])
      bad(await post(text));
    bad(await post(Buffer.from([0x7b, 0x22, 0x61, 0x22, 0x3a, 0x22, 0xff, 0x22, 0x7d])), /UTF-8|valid JSON/);
    for (const text of ['[]', '1', '"x"', 'null', 'true', '[{"code":"1"}]']) bad(await post(text), /object/);
    bad(await post(''), /empty/);
    bad(await post(undefined), /empty/);
    fine(await post(' \t\r\n{"code":"1"}\r\n '));
  });

  test('a body of any name curl gives it is taken; another kind is not', async () => {
    const body = '{"code":"6*7"}';
    for (const type of ['application/json', 'application/json; charset=utf-8', 'APPLICATION/JSON', 'application/x-www-form-urlencoded', 'text/plain', 'text/plain;charset=UTF-8', 'application/merge-patch+json', 'text/json']) {
      const got = await post(body, undefined, { 'content-type': type });
      assert.equal(got.body.result?.['text/plain'], '42', `${type} ${got.text}`);
    }
    assert.equal((await post(body, undefined, {})).status, 200, 'none at all');
    for (const type of ['multipart/form-data; boundary=x', 'image/png', 'application/octet-stream', 'application/jsonp', 'text/html', 'application/xml', '+json', 'json'])
      bad(await post(body, undefined, { 'content-type': type }), /application\/json/);
  });

  test('size: at the limit it is read, above it is 413, announced or not', async () => {
    const padded = (size) => { const head = '{"code":"1","metadata":{}'; return `${head}${' '.repeat(size - head.length - 1)}}`; };
    fine(await post(padded(4 * MiB - 1)));
    fine(await post(padded(4 * MiB)));
    refused(await post(padded(4 * MiB + 1)), 413, 'too_large', /4194304/);
    const chunked = await exchange(server, Buffer.concat([
      Buffer.from(`POST ${s.path}/executions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${server.key}\r\nTransfer-Encoding: chunked\r\n\r\n`),
      ...Array.from({ length: 65 }, () => Buffer.from(`10000\r\n${' '.repeat(65536)}\r\n`)), Buffer.from('0\r\n\r\n')]));
    assert.match(chunked, /^HTTP\/1\.1 413 /);
    // Far more than any route takes is refused before it is sent.
    const told = await exchange(server, `POST ${s.path}/executions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${server.key}\r\nContent-Length: 999999999999\r\n\r\n`);
    assert.match(told, /^HTTP\/1\.1 413 /);
  });

  test('depth 64 is read, 65 is not', async () => {
    const nested = (depth) => `{"code":"1","metadata":${'{"a":'.repeat(depth - 2)}{}${'}'.repeat(depth - 2)}}`;
    for (const depth of [2, 63, 64]) fine(await post(nested(depth)));
    bad(await post(nested(65)), /deep|64/);
    bad(await post(`{"code":"1","metadata":{"a":${'['.repeat(100_000)}`), /deep|64/);
  });

  test('10,000 values are read, more are not', async () => {
    // metadata of 16 KiB holds fewer; as many small ones as fit, then one array over the count.
    bad(await post(`{"code":"1","metadata":{"a":[${Array(10_001).fill(1).join(',')}]}}`), /10,?000|values|members/);
    const got = await post(`{"code":"1","metadata":{"a":[${Array(9_990).fill(1).join(',')}]}}`);
    bad(got, /metadata.*16384/);
    fine(await post(`{"code":"1","metadata":{"a":[${Array(8_000).fill(1).join(',')}]}}`));
  });

  test('a key twice is refused, at any level', async () => {
    bad(await post('{"code":"1","code":"2"}'), /duplicate|twice/);
    bad(await post('{"code":"1","metadata":{"a":{"b":1,"b":2}}}'), /duplicate|twice/);
    bad(await post('{"code":"1","\\u0063ode":"2"}'), /duplicate|twice/);
  });

  test('numbers of 64 characters are read, longer ones are not', async () => {
    const metadata = (n) => `{"code":"1","metadata":{"n":${n}}}`;
    fine(await post(metadata(`0.${'1'.repeat(62)}`)));
    bad(await post(metadata(`0.${'1'.repeat(63)}`)), /number/);
    bad(await post(metadata('1e999')), /number/);
    bad(await post(metadata('9'.repeat(60))), /integer|number/);
    const got = await post(metadata('-9223372036854775808'));
    fine(got);
    assert.match(got.text, /-9223372036854775808/);
    bad(await post(metadata('9223372036854775808')), /integer|number/);
    assert.match((await post(metadata('1e3'))).text, /1000/);
  });

  test('unknown fields are refused with the nearest name', async () => {
    for (const [field, near] of [['cod', 'code'], ['timeout', 'timeout_s'], ['langauge', 'language'], ['Code', 'code'], ['meta_data', 'metadata']])
      bad(await execute({ code: '1', [field]: 1 }), new RegExp(`${field}.*'${near}'`));
    bad(await execute({ code: '1', zzzzzzzzzzzz: 1 }), /zzzzzzzzzzzz/);
    bad(await create({ nam: 'x' }), /'name'/);
    bad(await create({ code: '1' }), /code/);
    bad(await execute({ code: '1', ['x'.repeat(10_000)]: 1 }), /x{10}/);
    bad(await execute({ code: '1', __proto__x: 1, '\u001b[31m': 1 }));
    refused(await request(server, 'POST', '/api/keys', { body: { scope: ['execute'] } }), 400, 'invalid_request', /'scopes'/);
  });

  test('wrong types are refused by name', async () => {
    for (const [body, field] of [[{ code: 1 }, 'code'], [{ code: ['1'] }, 'code'], [{ code: null }, 'code'], [{}, 'code'], [{ code: '1', timeout_s: '5' }, 'timeout_s'],
      [{ code: '1', timeout_s: 5.5 }, 'timeout_s'], [{ code: '1', timeout_s: true }, 'timeout_s'], [{ code: '1', language: 'ruby' }, 'language'], [{ code: '1', language: 1 }, 'language'],
      [{ code: '1', mode: 'later' }, 'mode'], [{ code: '1', metadata: [] }, 'metadata'], [{ code: '1', metadata: 'x' }, 'metadata']])
      bad(await execute(body), new RegExp(`'${field}'`));
    for (const [body, field] of [[{ name: 1 }, 'name'], [{ pool: {} }, 'pool'], [{ runtime: 1 }, 'runtime'], [{ limits: 1 }, 'limits'], [{ metadata: null, name: [] }, 'name']])
      bad(await create(body), new RegExp(`'${field}'`));
  });
});

describe('values', () => {
  test('code: 1 MiB is run, one byte more is 413', async () => {
    const code = (size) => `1${' '.repeat(size - 1)}`;
    fine(await execute({ code: code(MiB - 1) }));
    fine(await execute({ code: code(MiB) }));
    refused(await execute({ code: code(MiB + 1) }), 413, 'too_large', /1048576/);
    const wide = `#${'ü'.repeat(MiB / 2)}`; // counted in bytes
    refused(await execute({ code: wide }), 413, 'too_large');
    fine(await execute({ code: code(MiB), language: 'shell' }).then((a) => ({ ...a, status: a.status })));
    refused(await execute({ code: code(MiB + 1), language: 'shell' }), 413, 'too_large');
  });

  test('timeout_s: 5 to 900 for Python, 5 to 240 for the shell, as the pool has it', async () => {
    for (const [language, most] of [['python', 900], ['shell', 240]]) {
      for (const timeout_s of [5, most]) fine(await execute({ code: language === 'shell' ? 'true' : '1', language, timeout_s }));
      for (const timeout_s of [-1, 0, 4, most + 1]) bad(await execute({ code: '1', language, timeout_s }), new RegExp(`timeout_s.*from 5 to (86400|${most})`));
    }
    const brief = await server.session({ pool: 'brief' });
    bad(await post(JSON.stringify({ code: '1', timeout_s: 11 }), `${brief.path}/executions`), /from 5 to 10 in this pool/);
    fine(await post(JSON.stringify({ code: '1', timeout_s: 10 }), `${brief.path}/executions`));
    await brief.delete();
  });

  test('metadata: 16 KiB as JSON, of sessions and of executions', async () => {
    const metadata = (size) => ({ a: 'x'.repeat(size - '{"a":""}'.length) });
    for (const size of [16 * KiB - 1, 16 * KiB]) {
      fine(await execute({ code: '1', metadata: metadata(size) }));
      const made = await create({ metadata: metadata(size) });
      assert.equal(made.status, 201);
      assert.deepEqual(made.body.metadata, metadata(size));
      await request(server, 'DELETE', `/api/sessions/${made.body.id}`);
    }
    bad(await execute({ code: '1', metadata: metadata(16 * KiB + 1) }), /16384/);
    bad(await create({ metadata: metadata(16 * KiB + 1) }), /16384/);
  });

  test('name: 128 bytes', async () => {
    for (const name of ['x'.repeat(127), 'x'.repeat(128), 'ü'.repeat(64)]) {
      const made = await create({ name });
      assert.equal(made.body.name, name);
      await request(server, 'DELETE', `/api/sessions/${made.body.id}`);
    }
    for (const name of ['x'.repeat(129), 'ü'.repeat(65), '']) bad(await create({ name }), /name/);
  });

  test('keys: tenant, name and scopes', async () => {
    const make = (body) => request(server, 'POST', '/api/keys', { body });
    for (const body of [{}, { scopes: [] }, { scopes: ['nope'] }, { scopes: 'execute' }, { scopes: [1] }, { scopes: ['execute,admin'] }, { scopes: ['execute'], tenant: '' },
      { scopes: ['execute'], tenant: 'x'.repeat(100) }, { scopes: ['execute'], tenant: 'a b' }, { scopes: ['execute'], name: 'x'.repeat(500) }, { scopes: ['execute'], name: 'a\nb' }, { scopes: Array(17).fill('execute') }])
      bad(await make(body));
    const made = await make({ scopes: ['execute', 'files:read'], tenant: 'a-tenant', name: 'Schlüssel' });
    assert.equal(made.status, 201);
    assert.deepEqual(Object.keys(made.body), ['id', 'tenant', 'name', 'scopes', 'pools', 'workspaces', 'sessions', 'created_at', 'expires_at',
      'last_used_at', 'revoked_at', 'secret']);
    const listed = (await request(server, 'GET', '/api/keys')).body.data;
    assert.deepEqual(listed.find((k) => k.id === made.body.id).scopes, ['execute', 'files:read']);
    assert.ok(listed.every((k) => !('secret' in k)));
    assert.equal((await request(server, 'DELETE', `/api/keys/${made.body.id}`)).status, 204);
    refused(await request(server, 'DELETE', '/api/keys/key_00000000000000000000000000000000'), 404, 'not_found');
    const admin = listed.find((k) => k.scopes.includes('admin'));
    refused(await request(server, 'DELETE', `/api/keys/${admin.id}`), 409, 'conflict');
    assert.equal((await request(server, 'GET', '/api/keys')).status, 200, 'and it still works');
  });
});

describe('requests', () => {
  test('a wrong method is 405 with the right ones', async () => {
    for (const [method, path, allow] of [['PUT', '/api/sessions', 'POST, GET, HEAD'], ['POST', s.path, 'GET, HEAD, PATCH, DELETE'], ['GET', `${s.path}/reset`, 'POST'], ['GET', '/api/run', 'POST'],
      ['POST', '/healthz', 'GET, HEAD'], ['DELETE', '/api/pools', 'GET, HEAD, POST'], ['PATCH', `${s.path}/files/x`, 'GET, HEAD, PUT, DELETE'], ['OPTIONS', '/api/sessions', 'POST, GET, HEAD'],
      ['PUT', `${s.path}/files`, 'GET, HEAD'], ['BREW', '/api/limits', 'GET, HEAD']]) {
      const got = await request(server, method, path);
      if (method === 'BREW' && got.status === 400) continue; // the client may not even send it
      refused(got, 405, 'method_not_allowed', new RegExp(allow.split(', ')[0]));
      assert.equal(got.headers.allow, allow);
    }
  });

  test('an unknown path is 404, also one that is nearly known', async () => {
    for (const path of ['/api', '/api/', '/api/sessions/', `${s.path}/`, `${s.path}/reset/`, `${s.path}/reset/x`, '/api//sessions', '/API/sessions', '/api/session', `${s.path}/executions/x`,
      '/api/executions/', '/v2/containers', '/api/keys/', `${s.path}%2freset`, '/api/pools/default/x', '/healthz/', '//healthz', '/%68ealthz', '/api/limits.json'])
      refused(await request(server, 'GET', path), 404, 'not_found');
  });

  test('unknown and odd ids are 404, whatever they hold', async () => {
    for (const id of ['sess_00000000000000000000000000000000', 'x', '..', '%2e%2e', 'sess_', `${s.id}0`, s.id.toUpperCase(), s.id.slice(0, -1), '%27%20or%201=1--', 'a'.repeat(2000), '%00'.replace('%00', '%01'), 'null', '-1', '*'])
      for (const [method, suffix] of [['GET', ''], ['DELETE', ''], ['GET', '/files'], ['POST', '/interrupt']])
        refused(await request(server, method, `/api/sessions/${id}${suffix}`), 404, 'not_found');
    refused(await request(server, 'GET', '/api/sessions/%00'), 400, 'invalid_request');
    refused(await request(server, 'GET', '/api/sessions/%zz'), 400, 'invalid_request');
  });

  test('an unknown parameter is refused with the known ones', async () => {
    bad(await request(server, 'GET', '/api/sessions?limt=1'), /limit after/);
    bad(await request(server, 'GET', `${s.path}?x=1`), /'x'/);
    bad(await request(server, 'GET', '/healthz?x', { key: null }), /'x'/);
    bad(await request(server, 'POST', `${s.path}/executions?wait=1`, { body: { code: '1' } }), /'wait'/);
    bad(await request(server, 'GET', `/api/sessions?${Array(33).fill('limit=1').join('&')}`));
    bad(await request(server, 'GET', '/api/sessions?limit=%zz'));
    bad(await request(server, 'GET', '/api/sessions?limit=%00'));
  });

  test('a body where none is wanted does no harm', async () => {
    assert.equal((await request(server, 'POST', `${s.path}/interrupt`, { body: '{"x":' })).status, 202);
    assert.equal((await request(server, 'GET', s.path, { body: 'x'.repeat(1000) })).status, 200);
    assert.equal((await request(server, 'DELETE', `${s.path}/files/none`, { body: 'x' })).status, 404);
  });

  test('H1 H2 a long path, many headers and large ones are refused', async () => {
    assert.equal((await request(server, 'GET', `/api/${'x'.repeat(9000)}`)).status, 414);
    const many = await request(server, 'GET', '/api/pools', { headers: Object.fromEntries(Array.from({ length: 120 }, (_, i) => [`x-h${i}`, '1'])) });
    assert.equal(many.status, 431);
    const large = await request(server, 'GET', '/api/pools', { headers: { 'x-big': 'y'.repeat(9000) } });
    assert.equal(large.status, 431);
    assert.equal((await request(server, 'GET', '/api/pools', { headers: Object.fromEntries(Array.from({ length: 80 }, (_, i) => [`x-h${i}`, '1'])) })).status, 200);
  });

  test('H1 a message that can be read two ways is read no way', async () => {
    const head = `POST ${s.path}/executions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${server.key}\r\n`;
    for (const text of [`${head}Content-Length: 12\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, `${head}Content-Length: 12\r\nContent-Length: 13\r\n\r\n{"code":"1"}x`,
      `${head}Transfer-Encoding: gzip\r\n\r\nx`, `${head}Host: y\r\nContent-Length: 0\r\n\r\n`, `${head}Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n`]) {
      const got = await exchange(server, text, { ms: 3000 });
      assert.match(got, /^HTTP\/1\.1 400 /, text.slice(head.length));
      assert.equal(got.match(/HTTP\/1\.1/g).length, 1, 'and what follows is no second message');
    }
    for (const length of ['-1', '1x', '0x1', '', ' ', '1,1', '99999999999999999999'])
      assert.match(await exchange(server, `${head}Content-Length: ${length}\r\n\r\n{}`, { ms: 3000 }), /^HTTP\/1\.1 400 /, length);
  });

  test('H5 an error of every kind has one shape and tells nothing of the host', async () => {
    // refused() checks that on each error in these files; here once more, those it does not meet there.
    for (const answer of [await request(server, 'GET', '/api/sessions', { key: null }), await request(server, 'GET', '/api/sessions', { key: 'nope' }),
      await request(server, 'PUT', `${s.path}/files/a%2f..`, { body: 'x' }), await post('{"code":"\\ud800"}')])
      refused(answer, answer.status);
  });
});

describe('R8 overload', () => {
  let small;
  const key = {};

  before(async () => {
    small = await Glovebox.start({ config: { sessions_per_tenant: 3, max_sessions: 5, max_executions: 4, queue_per_session: 2, creations_per_s: 0, pools: [pool({ ready: 1 }), pool({ name: 'tiny', ready: 0, max_sessions: 1 })] } });
    for (const tenant of ['one', 'two']) key[tenant] = (await small.ok('POST', '/api/keys', { scopes: ['execute'], tenant })).secret;
  });
  after(() => stop(small));

  // 429, with a hint when to come back, at once.
  async function full(fn, code, message) {
    const times = [];
    for (let i = 0; i < 5; i++) {
      const asked = performance.now();
      const answer = await fn();
      times.push(performance.now() - asked);
      refused(answer, 429, code, message);
      assert.match(answer.headers['retry-after'], /^[1-9]\d*$/);
    }
    assert.ok(Math.min(...times) < 50, `within 50 ms: ${times}`);
  }
  // Ephemeral ones never go to sleep to make room (see 54-room).
  const open = (tenant, body = {}) => request(small, 'POST', '/api/sessions', { body: { persistence: 'ephemeral', ...body }, key: key[tenant] });

  test('sessions: per tenant, per pool, and in all', async () => {
    const ids = { one: [], two: [] };
    for (let i = 0; i < 3; i++) ids.one.push((await open('one')).body.id);
    await full(() => open('one'), 'limit_reached', /3 sessions/);
    ids.two.push((await open('two', { pool: 'tiny' })).body.id);
    await full(() => open('two', { pool: 'tiny' }), 'overloaded', /pool/);
    ids.two.push((await open('two')).body.id);
    await full(() => open('two'), 'overloaded', /5 sessions/);
    refused(await request(small, 'POST', '/api/run', { body: { code: '1' }, key: key.two }), 429, 'overloaded');
    assert.equal((await request(small, 'DELETE', `/api/sessions/${ids.one.pop()}`, { key: key.one })).status, 204);
    const again = await open('one');
    assert.equal(again.status, 201, 'room again at once');
    ids.one.push(again.body.id);
    for (const tenant of ['one', 'two']) for (const id of ids[tenant]) await request(small, 'DELETE', `/api/sessions/${id}`, { key: key[tenant] });
    const metrics = (await request(small, 'GET', '/metrics')).text;
    assert.match(metrics, /glovebox_refusals_total\{reason="limit"\} [1-9]/);
    assert.match(metrics, /glovebox_refusals_total\{reason="busy"\} [1-9]/);
  });

  test('executions: waiting in one session, and in all', async () => {
    const a = new (await import('../../lib/glovebox.mjs')).Session(small, (await open('one')).body, { key: key.one });
    const b = new (await import('../../lib/glovebox.mjs')).Session(small, (await open('two')).body, { key: key.two });
    const run = (session, tenant, code) => request(small, 'POST', `${session.path}/executions`, { body: { code, mode: 'async' }, key: key[tenant] });
    const asked = [];
    assert.equal((await run(a, 'one', 'import time; time.sleep(30)')).status, 202);
    await until(async () => (await a.get()).state === 'running');
    for (let i = 0; i < 2; i++) asked.push(await run(a, 'one', '1'));
    assert.deepEqual(asked.map((x) => x.status), [202, 202]);
    await full(() => run(a, 'one', '1'), 'limit_reached', /2 executions wait/);
    assert.equal((await run(b, 'two', 'import time; time.sleep(30)')).status, 202);
    await full(() => run(b, 'two', '1'), 'overloaded', /4 executions/);
    await full(() => request(small, 'POST', `${b.path}/executions`, { body: { code: '1' }, key: key.two }), 'overloaded');
    assert.equal((await request(small, 'GET', '/healthz', { key: null })).status, 200);
    assert.equal((await a.get()).queued, 2, 'others are served meanwhile');
    await Promise.all([a, b].map((x) => request(small, 'POST', `${x.path}/reset`, { key: x.options.key })));
    await until(async () => (await run(b, 'two', '1')).status === 202);
    await Promise.all([a.delete(), b.delete()]);
  });

  test('creations: so many a second of one tenant, others unharmed', async () => {
    const rate = await Glovebox.start({ config: { creations_per_s: 3, pools: [pool({ ready: 4 })] } });
    try {
      const other = (await rate.ok('POST', '/api/keys', { scopes: ['execute'], tenant: 'other' })).secret;
      const make = (k) => request(rate, 'POST', '/api/sessions', { body: {}, key: k });
      const burst = [];
      for (let i = 0; i < 12; i++) burst.push(await make());
      const limited = burst.filter((a) => a.status === 429);
      assert.ok(burst.filter((a) => a.status === 201).length >= 3);
      assert.ok(limited.length >= 1, JSON.stringify(burst.map((a) => a.status)));
      for (const a of limited) refused(a, 429, 'limit_reached', /3 sessions a second/);
      assert.equal(limited[0].headers['retry-after'], '1');
      assert.equal((await make(other)).status, 201);
      await new Promise((wake) => { setTimeout(wake, 1100); });
      assert.equal((await make()).status, 201, 'after the time it named');
    } finally {
      await stop(rate);
    }
  });
});
