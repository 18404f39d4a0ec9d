// SPDX-License-Identifier: Apache-2.0
// `glovebox mcp` before a service that misbehaves: connections that break,
// sessions that are forgotten, answers that are none. Whatever happens, the
// host gets one answer to each request and nothing else on the channel.
import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { sleep, until } from '../../lib/glovebox.mjs';
import { Bridge, FakeService, LEGACY, claim, event, events, json, result } from '../../lib/mcp-stdio.mjs';

const KEY = 'gbx_0123456789abcdef';
const cli = new Cli();
let fake, bridge;
after(() => cli.close());
afterEach(async () => {
  if (bridge) await bridge.end();
  if (fake) await fake.stop();
  bridge = fake = undefined;
});

async function begin(handle, options) {
  fake = await FakeService.start(handle);
  bridge = new Bridge(cli, { env: { GLOVEBOX_URL: fake.url, GLOVEBOX_KEY: KEY }, ...options });
  return bridge;
}

// A service with sessions: those it knows are in .known.
function keeper(rest) {
  const known = new Set();
  let made = 0;
  const handle = (req, res) => {
    if (req.body?.method === 'initialize') {
      const id = `s-${++made}`;
      known.add(id);
      json(res, result(req, { protocolVersion: LEGACY, capabilities: {}, serverInfo: { name: 'fake', version: '1' } }), { headers: { 'Mcp-Session-Id': id } });
    } else if (!known.has(req.headers['mcp-session-id'])) {
      json(res, { jsonrpc: '2.0', id: req.body?.id, error: { code: -32600, message: 'no such session' } }, { status: 404 });
    } else if (rest?.(req, res) !== undefined) {
      /* it was answered */
    } else if (req.method === 'GET') {
      res.writeHead(405).end();
    } else if (req.method === 'DELETE') {
      known.delete(req.headers['mcp-session-id']);
      res.writeHead(204).end();
    } else if (req.body.id === undefined) {
      res.writeHead(202).end();
    } else {
      json(res, result(req, { echo: req.body.params ?? null, session: req.headers['mcp-session-id'] }));
    }
  };
  handle.known = known;
  return handle;
}

const modern = (method, params = {}) => ({ method, params: { ...params, _meta: claim() } });
const error = async (...args) => {
  const answer = await bridge.ask(...args);
  assert.ok(answer.error, JSON.stringify(answer));
  return answer.error;
};

// ---- what goes out

test('a modern message travels with its headers, its text as it came', async () => {
  await begin((req, res) => json(res, result(req)));
  const line = '{ "jsonrpc" :"2.0","id":"a\\u0000b","method":"tools/call","params":{"name":"execute_python","arguments":{"n":1e400,"big":123456789012345678901234567890},'
    + `"_meta":${JSON.stringify(claim())}}}`;
  bridge.write(`${line}\r\n`);
  await bridge.answer('a\u0000b');
  const [req] = fake.seen;
  assert.equal(req.text, line);
  assert.equal(req.url, '/mcp');
  const { authorization, accept, 'content-type': type, 'mcp-protocol-version': version, 'mcp-method': method, 'mcp-name': name,
    'mcp-session-id': session, expect } = req.headers;
  assert.deepEqual({ authorization, accept, type, version, method, name, session, expect }, {
    authorization: `Bearer ${KEY}`, accept: 'application/json, text/event-stream', type: 'application/json', version: '2026-07-28',
    method: 'tools/call', name: 'execute_python', session: undefined, expect: undefined });
});

test('names that are no plain ASCII are wrapped, others are not', async () => {
  await begin((req, res) => json(res, result(req)));
  const wrap = (text) => `=?base64?${Buffer.from(text).toString('base64')}?=`;
  const cases = [['workspace://ws_1/a b.csv', 'workspace://ws_1/a b.csv'], ['größe', wrap('größe')], [' x', wrap(' x')], ['x ', wrap('x ')],
    ['a\nInjected: 1', wrap('a\nInjected: 1')], ['=?base64?eA==?=', wrap('=?base64?eA==?=')], ['', wrap('')], ['x?=', 'x?=']];
  for (const [uri] of cases) await bridge.modern('resources/read', { uri });
  for (const [i, [, wanted]] of cases.entries()) {
    assert.equal(fake.seen[i].headers['mcp-name'], wanted);
    assert.equal(fake.seen[i].headers.injected, undefined);
  }
  await bridge.modern('tasks/get', { taskId: 't_1' });
  assert.equal(fake.seen.at(-1).headers['mcp-name'], 't_1');
  await bridge.modern('tools/list', { name: 'x' });
  assert.equal(fake.seen.at(-1).headers['mcp-name'], undefined);
});

test('--tools chooses the group, and nothing else is taken', async () => {
  await begin((req, res) => json(res, result(req)), { args: ['--tools', 'all'] });
  await bridge.modern('tools/list');
  assert.equal(fake.seen[0].url, '/mcp?tools=all');
  assert.match((await cli.exits(2, ['mcp', '--tools', 'some'])).stderr, /core, workspace or all/);
  assert.match((await cli.exits(2, ['mcp', 'now'])).stderr, /unexpected 'now'/);
});

// ---- what comes back

test('many requests at once, answered in any order', async () => {
  const held = [];
  await begin((req, res) => {
    held.push(() => json(res, result(req, { n: req.body.params.n })));
    if (held.length === 100) for (const go of held.reverse()) go();
  });
  const answers = await Promise.all(Array.from({ length: 100 }, (_, n) => bridge.modern('tools/call', { n })));
  assert.deepEqual(answers.map(({ n }) => n), Array.from({ length: 100 }, (_, n) => n));
});

test('too many at once are refused one by one, and the rest goes on', async () => {
  const held = [];
  await begin((req, res) => held.push(() => json(res, result(req))));
  const all = Array.from({ length: 300 }, (_, n) => ({ id: `q${n}`, ...modern('tools/call') }));
  bridge.send(...all);
  const refused = await until(() => {
    const list = bridge.messages.filter((m) => m.error);
    return list.length === 300 - 256 && list;
  });
  assert.match(refused[0].error.message, /too many requests/);
  await until(() => held.length === 256);
  for (const go of held) go();
  await until(() => bridge.messages.length === 300);
  assert.equal(new Set(bridge.messages.map((m) => m.id)).size, 300);
});

test('a stream is passed on as it comes: cut anywhere, several lines, comments', async () => {
  let out;
  await begin((req, res) => {
    events(res);
    out = res;
    res.write(': k\n\ndata: {"jsonrpc":"2.0","meth');
  });
  bridge.send({ id: 7, ...modern('tools/call') });
  await until(() => out);
  out.write('od":"notifications/progress","params":{"progress":1}}\r\n\r\n');
  await bridge.sees((m) => m.params?.progress === 1);
  out.write('data: {"jsonrpc":"2.0",\ndata: "id":7,\ndata: "result":{"text":"a\\u0000\\ud800"}}\n\n');
  assert.deepEqual((await bridge.answer(7)).result, { text: 'a\u0000\ud800' });
  out.end();
  assert.equal(bridge.messages.length, 2);
});

test('an answer of many megabytes arrives whole, also at a host that reads late', async () => {
  const text = 'x'.repeat(9 << 20);
  await begin((req, res) => json(res, result(req, { text })));
  bridge.child.stdout.pause();
  for (let i = 0; i < 3; i++) bridge.send({ id: `big${i}`, ...modern('tools/call') });
  await until(() => fake.seen.length === 3);
  await sleep(300);
  bridge.send({ id: 'more', ...modern('tools/list') }); // it still listens
  await until(() => fake.asked('tools/list').length === 1);
  bridge.child.stdout.resume();
  for (let i = 0; i < 3; i++) assert.equal((await bridge.answer(`big${i}`)).result.text.length, text.length);
});

test('a host that never reads does not keep it from ending', async () => {
  await begin((req, res) => json(res, result(req, { text: 'x'.repeat(9 << 20) })));
  bridge.child.stdout.pause();
  for (let i = 0; i < 8; i++) bridge.send({ id: i, ...modern('tools/call') });
  await until(() => fake.seen.length === 8);
  await sleep(300);
  bridge.child.kill('SIGTERM');
  bridge.child.stdout.destroy();
  await bridge.exited;
  assert.equal(bridge.exit.signal, null);
});

// ---- refusals

test('a refusal without an id gets the request\'s', async () => {
  await begin((req, res) => json(res, { jsonrpc: '2.0', error: { code: -32600, message: 'the key is not valid', data: { x: 1 } } }, { status: 401 }));
  assert.deepEqual(await error('tools/list', { _meta: claim() }), { code: -32600, message: 'the key is not valid', data: { x: 1 } });
  assert.equal(bridge.messages.length, 1);
});

for (const [name, status, body, says] of [
  ['in our own words', 503, '{"error":{"code":"unavailable","message":"the service is stopping","hint":"Try again."}}', /stopping; Try again/],
  ['not in JSON', 502, '<html>Bad Gateway</html>', /answered 502/],
  ['without a word', 401, '', /answered 401; Run `glovebox login`, set GLOVEBOX_KEY/],
  ['a redirect', 307, '', /answered 307/],
  ['a good answer that is none', 200, '<html>', /before it was complete/],
  ['an empty good answer', 200, '', /before it was complete/],
  ['another request\'s answer', 200, '{"jsonrpc":"2.0","id":"other","result":{}}', /before it was complete/],
])
  test(`a refusal ${name}`, async () => {
    await begin((req, res) => res.writeHead(status, { 'content-type': 'text/html', ...(status === 307 ? { location: '/elsewhere' } : {}) }).end(body));
    const { code, message } = await error('tools/call', { _meta: claim() });
    assert.equal(code, -32603);
    assert.match(message, says);
    assert.doesNotMatch(JSON.stringify(bridge.messages), new RegExp(KEY));
    assert.equal(fake.seen.length, 1);
  });

test('nobody waits for the answer to a notification or to an answer', async () => {
  await begin((req, res) => json(res, { jsonrpc: '2.0', id: req.body.id, error: { code: -32600, message: 'no' } }, { status: 400 }));
  bridge.notify('notifications/roots/list_changed');
  bridge.send({ id: 5, result: {} });
  await until(() => fake.seen.length === 2);
  assert.equal((await error('tools/list', { _meta: claim() })).message, 'no');
  assert.equal(bridge.messages.length, 1);
  await until(() => /notifications\/roots\/list_changed was refused[^]*an answer was refused/.test(bridge.stderr), { what: 'both refusals on standard error' });
});

test('each request of a batch that fails is answered', async () => {
  await begin((req, res) => (req.body.length ? res.socket.destroy() : 0));
  bridge.write('[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":"2","method":"ping"}]\n');
  assert.ok((await bridge.answer(1)).error);
  assert.ok((await bridge.answer('2')).error);
  assert.equal(bridge.messages.length, 2);
});

// ---- lines

test('lines that are no message', async () => {
  await begin((req, res) => json(res, { jsonrpc: '2.0', error: { code: -32600, message: 'not a message' } }, { status: 400 }));
  bridge.write('\n  \n{"jsonrpc":\n');
  assert.deepEqual(await bridge.sees((m) => m.error?.code === -32700), { jsonrpc: '2.0', error: { code: -32700, message: 'this line is not JSON' } });
  bridge.write('42\n');
  assert.deepEqual(await bridge.sees((m) => m.error?.code === -32600), { jsonrpc: '2.0', error: { code: -32600, message: 'not a message' } });
  bridge.write('{"jsonrpc":"2.0","id":null,"method":"x"}\n');
  await until(() => bridge.messages.length === 3);
  assert.ok(!('id' in bridge.messages[2]));
  assert.equal(fake.seen.length, 2);
});

test('a line of 16 MiB goes through; one more byte is refused, and the next line is read', async () => {
  await begin((req, res) => json(res, result(req, { bytes: req.text.length })));
  const line = (size, id) => {
    const text = JSON.stringify({ jsonrpc: '2.0', id, ...modern('tools/list', { pad: '' }) });
    return text.replace('"pad":""', `"pad":"${'x'.repeat(size - text.length)}"`);
  };
  bridge.write(`${line(16 << 20, 'fits')}\n`);
  assert.equal((await bridge.answer('fits')).result.bytes, 16 << 20);
  bridge.write(`${line((16 << 20) + 1, 'over')}\n${line(200, 'next')}\n`);
  assert.equal((await bridge.answer('next')).result.bytes, 200);
  bridge.write('y'.repeat(40 << 20));
  bridge.write(`\n${line(300, 'after')}\n`);
  assert.equal((await bridge.answer('after')).result.bytes, 300);
  const refused = bridge.messages.filter((m) => m.error);
  assert.deepEqual(refused.map((m) => m.error), Array(2).fill({ code: -32700, message: 'a line is longer than 16 MiB' }));
  assert.equal(fake.seen.length, 3);
});

// ---- cancelling

test('modern: cancelling hangs up, and nothing more is said', async () => {
  let closed = 0, out;
  await begin((req, res) => {
    if (req.body.method === 'tools/list') return void json(res, result(req));
    events(res);
    out = res;
    res.on('close', () => { closed++; });
    event(res, { method: 'notifications/progress', params: { progress: 1 } });
  });
  bridge.send({ id: 'c', ...modern('tools/call') });
  await bridge.sees((m) => m.method === 'notifications/progress');
  bridge.send({ ...modern('notifications/cancelled', { requestId: 'c' }) });
  await until(() => closed === 1);
  event(out, { method: 'notifications/progress', params: { progress: 2 } });
  await bridge.modern('tools/list');
  assert.deepEqual(bridge.about('c'), []);
  assert.equal(bridge.messages.length, 2);
  assert.equal(fake.asked('notifications/cancelled').length, 0);
  bridge.notify('notifications/cancelled', { requestId: 'nobody' }); // no harm
  await bridge.modern('tools/list');
});

test('legacy: cancelling is told to the service, and nothing more is said', async () => {
  let slow;
  await begin(keeper((req, res) => {
    if (req.body?.method !== 'tools/call') return undefined;
    slow = { req, res };
    events(res);
    event(res, { method: 'notifications/progress', params: { progress: 1 } });
    return true;
  }));
  await bridge.initialize();
  bridge.send({ id: 'c', method: 'tools/call', params: {} });
  await bridge.sees((m) => m.method === 'notifications/progress');
  bridge.notify('notifications/cancelled', { requestId: 'c', reason: 'enough' });
  await until(() => fake.asked('notifications/cancelled').length === 1);
  event(slow.res, { method: 'notifications/progress', params: { progress: 2 } });
  event(slow.res, { id: 'c', result: {} });
  slow.res.end();
  await bridge.ok('tools/list');
  assert.equal(bridge.messages.filter((m) => m.method).length, 1);
  assert.deepEqual(bridge.about('c'), []);
});

// ---- the legacy session

test('nothing overtakes the handshake', async () => {
  const order = [];
  await begin(keeper((req, res) => {
    order.push(req.body?.method ?? req.method);
    if (req.body?.method !== 'notifications/initialized') return undefined;
    return setTimeout(() => res.writeHead(202).end(), 100);
  }));
  bridge.send({ id: 1, method: 'initialize', params: { protocolVersion: LEGACY } }, { method: 'notifications/initialized' },
    { id: 2, method: 'tools/list' }, { id: 3, method: 'tools/list' });
  assert.equal((await bridge.answer(3)).result.session, 's-1');
  assert.equal((await bridge.answer(2)).result.session, 's-1');
  assert.equal(order[0], 'notifications/initialized');
  const [, , list] = fake.seen;
  assert.equal(list.headers['mcp-protocol-version'], LEGACY);
});

test('a session that was forgotten is opened again, once for all who notice', async () => {
  const service = keeper();
  await begin(service);
  await bridge.initialize();
  await bridge.ok('logging/setLevel', { level: 'debug' });
  await bridge.ok('resources/subscribe', { uri: 'a' });
  await bridge.ok('resources/subscribe', { uri: 'b' });
  await bridge.ok('resources/unsubscribe', { uri: 'a' });
  const before = bridge.messages.length;
  service.known.clear();
  const answers = await Promise.all(Array.from({ length: 10 }, (_, n) => bridge.ok('tools/call', { n })));
  for (const [n, { echo, session }] of answers.entries()) assert.deepEqual([echo.n, session], [n, 's-2']);
  assert.equal(fake.asked('initialize').length, 2);
  assert.equal(fake.asked('notifications/initialized').length, 2);
  // What the host had asked of the old one is asked of the new one.
  assert.deepEqual(fake.asked('logging/setLevel').map((req) => req.headers['mcp-session-id']), ['s-1', 's-2']);
  assert.deepEqual(fake.asked('resources/subscribe').map((req) => [req.body.params.uri, req.headers['mcp-session-id']]),
    [['a', 's-1'], ['b', 's-1'], ['b', 's-2']]);
  assert.equal(bridge.messages.length, before + 10); // the host saw none of it
});

test('a session that cannot be opened again is an error, not a wait', async () => {
  const service = keeper();
  await begin(service);
  await bridge.initialize();
  fake.handle = (req, res) => json(res, { jsonrpc: '2.0', id: req.body?.id, error: { code: -32600, message: `${req.body?.method} refused` } }, { status: 404 });
  assert.match((await error('tools/list')).message, /tools\/list refused/);
  assert.match((await error('tools/list')).message, /tools\/list refused/);
});

test('the service restarts between two requests: found, session and all', async () => {
  await begin(keeper());
  await bridge.initialize();
  assert.equal((await bridge.ok('tools/list')).session, 's-1');
  const { port } = fake;
  await fake.stop();
  const down = await error('tools/list');
  assert.match(down.message, /cannot be reached/);
  assert.doesNotMatch(JSON.stringify(down), new RegExp(KEY));
  fake = await FakeService.start(keeper(), port);
  assert.equal((await bridge.ok('tools/call')).session, 's-1');
  assert.equal(fake.asked('initialize').length, 1);
});

test('what the service says unasked comes by a standing GET, taken up again where it broke', async () => {
  const gets = [];
  await begin(keeper((req, res) => {
    if (req.method !== 'GET') return undefined;
    gets.push({ after: req.headers['last-event-id'], version: req.headers['mcp-protocol-version'], res });
    events(res).flushHeaders();
    return true;
  }));
  await bridge.initialize();
  await until(() => gets.length === 1);
  assert.deepEqual([gets[0].after, gets[0].version], [undefined, LEGACY]);
  event(gets[0].res, { method: 'notifications/tools/list_changed' }, 'e-1');
  await bridge.sees((m) => m.method === 'notifications/tools/list_changed');
  // A request of the service, and the host's answer.
  event(gets[0].res, { id: 'srv-1', method: 'roots/list' }, 'e-2');
  await bridge.sees((m) => m.method === 'roots/list' && m.id === 'srv-1');
  bridge.send({ id: 'srv-1', result: { roots: [] } });
  await until(() => fake.seen.some((req) => req.body?.id === 'srv-1' && req.body.result));
  gets[0].res.end();
  await until(() => gets.length === 2);
  assert.equal(gets[1].after, 'e-2');
});

test('a broken stream of a request is taken up again; the call is not repeated', async () => {
  const gets = [];
  await begin(keeper((req, res) => {
    if (req.method === 'GET') {
      if (!req.headers['last-event-id']) return undefined; // the standing one: 405
      gets.push(req.headers['last-event-id']);
      if (gets.length < 3) return events(res).end('');
      events(res);
      event(res, { id: 9, result: { done: true } }, 'x-3');
      return res.end();
    }
    if (req.body?.method !== 'tools/call') return undefined;
    events(res);
    res.write('id: x-1\nretry: 10\ndata:\n\n');
    event(res, { method: 'notifications/progress', params: { progress: 1 } }, 'x-2');
    return setTimeout(() => res.socket.destroy(), 50);
  }));
  await bridge.initialize();
  bridge.send({ id: 9, method: 'tools/call', params: {} });
  assert.deepEqual((await bridge.answer(9)).result, { done: true });
  assert.deepEqual(gets, ['x-2', 'x-2', 'x-2']);
  assert.equal(fake.asked('tools/call').length, 1);
});

test('end of input: at once, the session is deleted', async () => {
  await begin(keeper((req) => (req.body?.method === 'tools/call' ? true : undefined))); // never answers
  await bridge.initialize();
  bridge.send({ id: 1, method: 'tools/call' });
  await until(() => fake.asked('tools/call').length === 1);
  const { status, ms } = await bridge.end();
  assert.equal(status, 0);
  assert.ok(ms < 5000, `${ms} ms`);
  assert.deepEqual(fake.asked('DELETE').map((req) => [req.headers['mcp-session-id'], req.headers.authorization]), [['s-1', `Bearer ${KEY}`]]);
  assert.equal(bridge.stderr, '');
});

// ---- broken connections

test('a call whose connection broke is not repeated: nobody knows how far it came', async () => {
  await begin((req, res) => res.socket.destroy());
  assert.match((await error('tools/call', { _meta: claim() })).message, /went away before it answered/);
  assert.equal(fake.asked('tools/call').length, 1);
});

test('what changes nothing is asked once more', async () => {
  await begin((req, res) => (fake.seen.length === 1 ? res.socket.destroy() : json(res, result(req))));
  await bridge.modern('server/discover');
  assert.equal(fake.seen.length, 2);
});

test('a modern stream that breaks ends its request with an error', async () => {
  await begin((req, res) => {
    events(res);
    event(res, { method: 'notifications/subscriptions/acknowledged', params: {} }, 'ignored-1');
    setTimeout(() => res.socket.destroy(), 50);
  });
  assert.match((await error('subscriptions/listen', { _meta: claim() })).message, /before it was complete/);
  assert.equal(fake.seen.length, 1);
});

test('a service that is not there is an error, each time', async () => {
  await begin(() => {});
  await fake.stop();
  for (let i = 0; i < 3; i++) assert.match((await error('server/discover', { _meta: claim() })).message, /cannot be reached/);
});

test('an address that is none is an error as well', async () => {
  await begin(() => {}, { env: { GLOVEBOX_URL: 'ftp://127.0.0.1', GLOVEBOX_KEY: KEY } });
  assert.match((await error('server/discover', { _meta: claim() })).message, /not an http or https address/);
  await until(() => /not an http or https address/.test(bridge.stderr), { what: 'the reason on standard error' });
});
