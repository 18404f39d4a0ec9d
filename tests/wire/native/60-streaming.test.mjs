// SPDX-License-Identifier: Apache-2.0
// Events as they come: numbered, live, resumable, for many listeners, and
// without a trace of those who leave.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { Stream, descriptors, refused, request, resident, sanitized, stop } from '../../lib/wire.mjs';

let server;
let s;
let silent; // begun first, looked at last

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 3 })] } });
  s = await server.session();
  silent = await Stream.open(server, 'POST', `${(await server.session()).path}/executions`, { body: { mode: 'stream', code: 'import time; time.sleep(17)' } });
});
after(() => stop(server));

const start = (code, session = s, extra = {}) => Stream.open(server, 'POST', `${session.path}/executions`, { body: { mode: 'stream', code, ...extra } });
const events = (id, query = '', headers = {}) => Stream.open(server, 'GET', `/api/executions/${id}/events${query}`, { headers });
const begin = async (code, session = s) =>
  (await request(server, 'POST', `${session.path}/executions`, { body: { code, mode: 'async' } })).body;
const plain = (list) => list.map(({ id, event, data }) => ({ id, event, data }));

test('a stream has numbered events of the kinds documented and ends with done', async () => {
  const stream = await start(`
import sys
from IPython.display import display, clear_output, HTML
print("out")
print("err", file=sys.stderr)
display(HTML("<b>1</b>"))
clear_output(wait=True)
42`);
  assert.equal(stream.status, 200);
  assert.match(stream.headers['content-type'], /^text\/event-stream/);
  assert.equal(stream.headers['cache-control'], 'no-store');
  assert.equal(await stream.ended, true);
  const kinds = stream.events.map((e) => e.event);
  assert.deepEqual(kinds.filter((k) => k !== 'status'), ['stdout', 'stderr', 'display', 'clear', 'result', 'done']);
  assert.deepEqual(stream.events.map((e) => e.id), kinds.map((_, i) => i + 1));
  const status = stream.events.filter((e) => e.event === 'status').map((e) => e.data);
  assert.deepEqual(status.map((d) => d.status), ['queued', 'running']);
  const done = stream.events.at(-1).data;
  assert.deepEqual(status[0], { id: done.id, session: s.id, status: 'queued' });
  const by = (kind) => stream.events.find((e) => e.event === kind).data;
  assert.deepEqual(by('stdout'), { text: 'out\n' });
  assert.deepEqual(by('stderr'), { text: 'err\n' });
  assert.equal(by('display')['text/html'], '<b>1</b>');
  assert.deepEqual(by('clear'), { wait: true });
  assert.deepEqual(by('result'), { 'text/plain': '42' });
  assert.deepEqual(done, await server.ok('GET', `/api/executions/${done.id}`), 'done is the whole execution');
  const failed = await start('1/0');
  await failed.done();
  const error = failed.events.find((e) => e.event === 'error').data;
  assert.deepEqual(Object.keys(error), ['name', 'message', 'traceback']);
  assert.deepEqual(failed.events.at(-1).data.error, error);
});

test('events come while the code runs', async () => {
  const stream = await start('import time\nfor i in range(4):\n    print(i)\n    time.sleep(0.25)');
  const { ms } = await stream.done();
  const times = stream.events.filter((e) => e.event === 'stdout').map((e) => e.ms);
  assert.equal(times.length, 4);
  for (let i = 1; i < 4; i++) assert.ok(times[i] - times[i - 1] > 120, `${times}`);
  assert.ok(ms - times[0] > 700, 'the first long before the end');
});

test('a queued execution streams from its place in the queue', async () => {
  const first = await start('import time; print(1); time.sleep(0.5)');
  await first.find((e) => e.event === 'stdout');
  const second = await start('print(2)');
  await second.find((e) => e.event === 'status' && e.data.status === 'queued');
  assert.equal(second.events.some((e) => e.data.status === 'running'), false);
  assert.equal((await second.done()).data.stdout, '2\n');
});

test('asynchronous: accepted at once, watched by polling or by events', async () => {
  const code = 'import os, time; print("a")\nwhile not os.path.exists("go"): time.sleep(0.02)\n"b"';
  const answer = await request(server, 'POST', `${s.path}/executions`, { body: { code, mode: 'async' } });
  assert.equal(answer.status, 202);
  const { id, status, outcome, finished_at } = answer.body;
  assert.ok(['queued', 'running'].includes(status));
  assert.equal(outcome, null);
  assert.equal(finished_at, null);
  const running = await until(async () => {
    const e = await server.ok('GET', `/api/executions/${id}`);
    return e.stdout === 'a\n' && e;
  });
  assert.equal(running.status, 'running');
  assert.equal(running.outcome, null);
  assert.equal(running.result, null);
  const watched = await events(id);
  await s.put('go', 'x');
  const { data } = await watched.done();
  assert.equal(data.result['text/plain'], "'b'");
  assert.equal((await server.ok('GET', `/api/executions/${id}`)).status, 'completed');
});

describe('resuming', () => {
  let whole;
  let id;

  before(async () => {
    whole = await start('for i in range(5):\n    print(i, flush=True)\n    import time; time.sleep(0.02)\n"é" * 3');
    ({ id } = (await whole.done()).data);
  });

  test('after N, by parameter or by header, gives what follows N', async () => {
    const all = plain(whole.events);
    const tries = [['', {}, 0], ['?after=0', {}, 0]];
    for (let n = 1; n < all.length; n++) tries.push([`?after=${n}`, {}, n], ['', { 'last-event-id': String(n) }, n]);
    tries.push([`?after=2`, { 'last-event-id': '4' }, 2]);
    for (const [query, headers, n] of tries) {
      const stream = await events(id, query, headers);
      assert.equal(stream.status, 200);
      await stream.ended;
      assert.deepEqual(plain(stream.events), all.slice(n), `after ${n}`);
    }
    const last = await events(id, `?after=${all.length}`);
    assert.equal(await last.ended, true);
    assert.deepEqual(last.events, [], 'nothing follows the last');
  });

  test('marks that cannot be are refused', async () => {
    for (const query of ['?after=-1', '?after=x', '?after=1.5', '?after=', '?after=999', '?after=99999999999', '?after=1&after=2', '?x=1'])
      refused(await request(server, 'GET', `/api/executions/${id}/events${query}`), 400, 'invalid_request');
    for (const mark of ['x', '-1', '1e1', '99999999999', ''])
      refused(await request(server, 'GET', `/api/executions/${id}/events`, { headers: { 'last-event-id': mark } }), 400, 'invalid_request');
  });

  test('in the middle of a run joins what is to come', async () => {
    const one = await start('import time\nfor i in range(8):\n    print(i); time.sleep(0.1)');
    const third = await one.find((e) => e.event === 'stdout' && e.data.text === '2\n');
    one.close();
    const two = await events(one.events[0].data.id, `?after=${third.id}`);
    const { data } = await two.done();
    assert.equal(two.events[0].id, third.id + 1);
    assert.equal(two.text(), '3\n4\n5\n6\n7\n', 'it ran on while nobody listened');
    assert.equal(data.outcome, 'ok');
  });

  test('between the halves of a character gives the rest of the text', async () => {
    const run = await start('import os, time\nfor b in "aé😀z".encode():\n    os.write(1, bytes([b])); time.sleep(0.03)');
    const { data } = await run.done();
    for (let n = 1; n < run.events.length; n++) {
      const rest = await events(data.id, `?after=${n}`);
      await rest.done();
      assert.deepEqual(plain(rest.events), plain(run.events).slice(n));
    }
  });
});

test('many listeners get the same, whenever they come', async () => {
  const { id } = await begin('import time\nfor i in range(10):\n    print(i); time.sleep(0.05)');
  const streams = [];
  for (let i = 0; i < 40; i++) {
    streams.push(await events(id));
    if (i % 10 === 9) await new Promise((wake) => { setTimeout(wake, 60); });
  }
  await Promise.all(streams.map((x) => x.done()));
  for (const x of streams) assert.deepEqual(plain(x.events), plain(streams[0].events));
  assert.equal(streams[0].text(), Array.from({ length: 10 }, (_, i) => `${i}\n`).join(''));
});

test('R6 a listener that does not read costs bounded memory and holds up nobody', async () => {
  const was = resident(server.pid);
  const open = descriptors(server.pid);
  const { id } = await begin('import sys\nfor i in range(900): sys.stdout.write("x" * 1023 + "\\n")\n"end"');
  const deaf = await Promise.all(Array.from({ length: 20 }, () => events(id)));
  for (const x of deaf) x.request.socket.pause();
  await until(async () => (await server.ok('GET', `/api/executions/${id}`)).outcome === 'ok', { ms: 20_000 });
  assert.equal((await s.python('1')).outcome, 'ok');
  const grown = resident(server.pid) - was;
  assert.ok(grown < (sanitized ? 400 : 40) * 1024 * 1024, `${grown}`); // each holds one event, the last at most
  for (const x of deaf) x.close();
  await until(() => descriptors(server.pid) <= open + 6, { ms: 15_000, what: 'descriptors given back' });
});

test('H7 listeners that vanish free everything', async () => {
  const { id } = await begin('import time; print("a", flush=True); time.sleep(4)');
  await until(async () => (await server.ok('GET', `/api/executions/${id}`)).stdout === 'a\n');
  const was = descriptors(server.pid);
  const streams = [];
  for (let i = 0; i < 60; i++) streams.push(await events(id));
  await Promise.all(streams.map((x) => x.find((e) => e.event === 'stdout')));
  assert.ok(descriptors(server.pid) >= was + 60);
  for (const x of streams) x.close();
  await until(() => descriptors(server.pid) <= was + 6, { ms: 15_000, what: 'descriptors given back while it still runs' });
  assert.notEqual((await server.ok('GET', `/api/executions/${id}`)).outcome, 'cancelled', 'it is not theirs to end');
  await until(async () => (await server.ok('GET', `/api/executions/${id}`)).outcome === 'ok');
});

test('H7 clients that leave a sync execution or a run free theirs', async () => {
  const one = await server.session();
  // A ready sandbox has a dozen: all must be there before and after.
  const full = async () => {
    const { ready, ready_wanted: wanted } = (await request(server, 'GET', '/api/pools/default')).body;
    return ready === wanted;
  };
  await until(full, { ms: 15_000, what: 'the pool is full' });
  const was = descriptors(server.pid);
  for (let i = 0; i < 5; i++) {
    const stream = await Stream.open(server, 'POST', '/api/run', { body: { mode: 'stream', code: 'print(1, flush=True)\nimport time; time.sleep(60)' } });
    await stream.find((e) => e.event === 'stdout');
    stream.close();
  }
  await until(async () => (await request(server, 'GET', '/api/sessions')).body.data.length === 3, { ms: 20_000, what: 'runs ended' });
  await until(() => descriptors(server.pid) <= was + 8, { ms: 15_000, what: 'descriptors given back' });
  await one.delete();
});

test('a thousand small events arrive in order and complete', async () => {
  const stream = await start('from IPython.display import display\nfor i in range(1000):\n    print(i)\n    if i % 10 == 0: display(i)');
  const { data } = await stream.done();
  assert.equal(data.displays.length, 100);
  assert.equal(stream.text(), Array.from({ length: 1000 }, (_, i) => `${i}\n`).join(''));
  let printed = 0;
  for (const e of stream.events) {
    if (e.event === 'stdout') printed += e.data.text.split('\n').length - 1;
    if (e.event === 'display') assert.equal(printed, Number(e.data['text/plain']) + 1, 'displays keep their place among lines');
  }
});

test('silence is broken by a comment, so that nobody in between hangs up', async () => {
  assert.equal((await silent.done()).data.outcome, 'ok');
  assert.ok(silent.comments >= 1);
});
