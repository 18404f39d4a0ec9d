// SPDX-License-Identifier: Apache-2.0
// Shell executions, the order of a session's executions, sessions side by
// side, and one-shot runs.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { Stream, changed, refused, request, stop } from '../../lib/wire.mjs';

let server;

before(async () => { server = await Glovebox.start({ config: { pools: [pool({ ready: 3 })] } }); });
after(() => stop(server));

describe('shell', () => {
  let s;

  before(async () => { s = await server.session(); });
  after(() => s.delete());

  test('runs in /mnt/data on the same files, with the same user and limits', async () => {
    await s.python('x = 1\nopen("from-python", "w").write("p")');
    const e = await s.shell('pwd; cat from-python; echo; echo made > from-shell; id -u; ulimit -n; echo "$HOME"');
    assert.equal(e.outcome, 'ok');
    assert.equal(e.language, 'shell');
    assert.equal(e.exit_code, 0);
    assert.deepEqual(changed(e), { created: ['from-shell'] });
    assert.equal(e.interpreter, 'same');
    const lines = e.stdout.split('\n');
    assert.deepEqual([lines[0], lines[1], lines[3]], ['/mnt/data', 'p', '1024']);
    assert.equal((await s.python('import os; (open("from-shell").read(), os.getuid(), x)')).result['text/plain'], `('made\\n', ${lines[2]}, 1)`);
  });

  test('says its exit status, and what ended it', async () => {
    const failed = await s.shell('echo out; echo err >&2; exit 3');
    assert.equal(failed.outcome, 'error');
    assert.equal(failed.exit_code, 3);
    assert.equal(failed.stdout, 'out\n');
    assert.equal(failed.stderr, 'err\n');
    assert.equal(failed.error.name, 'ShellError');
    assert.match(failed.error.message, /3/);
    assert.equal(failed.result, null);
    const unknown = await s.shell('nosuchcommand');
    assert.equal(unknown.exit_code, 127);
    assert.match(unknown.stderr, /nosuchcommand/);
    const signalled = await s.shell('kill -TERM $$');
    assert.equal(signalled.exit_code, 143);
    assert.match(signalled.error.message, /SIGTERM/);
    assert.equal((await s.shell('false | true')).exit_code, 0);
    assert.equal((await s.shell('if then')).exit_code, 2);
  });

  test('is bash, with scripts of any length', async () => {
    assert.equal((await s.shell('echo ${BASH_VERSION%%.*} $((2**10)) {a,b}')).stdout, '5 1024 a b\n');
    const long = `${'# padding\n'.repeat(20_000)}echo end`;
    assert.equal((await s.shell(long)).stdout, 'end\n');
    assert.equal((await s.shell('')).exit_code, 0);
    assert.equal((await s.shell('printf "ü€😀"')).stdout, 'ü€😀');
  });

  test('a process left in the background does not hold the answer', async () => {
    const asked = Date.now();
    const e = await s.shell('sleep 100 & echo started');
    assert.equal(e.stdout, 'started\n');
    assert.ok(Date.now() - asked < 60_000, 'long before the process ends');
    await s.shell('kill $(pgrep sleep) 2>/dev/null; true');
  });
});

test('executions of one session take turns in the order they came', async () => {
  const s = await server.session();
  await s.python('import time; log = []');
  const begun = [];
  for (let i = 0; i < 10; i++)
    begun.push(request(server, 'POST', `${s.path}/executions`, { body: { code: `time.sleep(0.02); log.append(${i}); ${i}` } }));
  const all = (await Promise.all(begun)).map((a) => a.body);
  for (const e of all) assert.equal(e.outcome, 'ok', JSON.stringify(e));
  const byTurn = [...all].sort((a, b) => (a.started_at < b.started_at ? -1 : 1));
  for (let i = 1; i < byTurn.length; i++) {
    assert.ok(byTurn[i - 1].created_at <= byTurn[i].created_at, 'first come, first served');
    assert.ok(byTurn[i - 1].finished_at <= byTurn[i].started_at || byTurn[i - 1].finished_at.slice(0, 23) <= byTurn[i].finished_at, 'one at a time');
  }
  const log = JSON.parse((await s.python('log')).result['text/plain']);
  assert.deepEqual(log, byTurn.map((e) => Number(e.result['text/plain'])));
  await s.delete();
});

test('asynchronous ones keep the order they were accepted in, exactly', async () => {
  const s = await server.session();
  await s.python('import time; log = []');
  const ids = [];
  for (let i = 0; i < 10; i++) {
    const made = await request(server, 'POST', `${s.path}/executions`,
      { body: { code: `time.sleep(0.03); log.append(${i})`, mode: 'async', language: 'python', metadata: { i } } });
    assert.equal(made.status, 202);
    assert.ok(['queued', 'running'].includes(made.body.status));
    assert.deepEqual(made.body.metadata, { i });
    ids.push(made.body.id);
  }
  const done = await until(async () => {
    const e = await server.ok('GET', `/api/executions/${ids.at(-1)}`);
    return e.status === 'completed' && e;
  });
  assert.equal(done.outcome, 'ok');
  assert.equal((await s.python('log')).result['text/plain'], '[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]');
  await s.delete();
});

test('sessions run side by side', async () => {
  const some = await Promise.all([1, 2, 3, 4].map(() => server.session()));
  await Promise.all(some.map((s) => s.python('import time')));
  const all = await Promise.all(some.map((s) => s.python('time.sleep(1)')));
  const latest = Math.max(...all.map((e) => Date.parse(e.started_at)));
  const earliest = Math.min(...all.map((e) => Date.parse(e.finished_at)));
  assert.ok(latest < earliest, 'all ran at the same time');
  await Promise.all(some.map((s) => s.delete()));
});

test('a session says what it does', async () => {
  const s = await server.session();
  const stream = await Stream.open(server, 'POST', `${s.path}/executions`, { body: { code: 'print(1)\nimport time; time.sleep(1)', mode: 'stream' } });
  await stream.find((e) => e.event === 'stdout');
  await request(server, 'POST', `${s.path}/executions`, { body: { code: '1', mode: 'async' } });
  const now = await s.get();
  assert.equal(now.state, 'running');
  assert.equal(now.queued, 1);
  assert.equal(now.executions, 2);
  await until(async () => (await s.get()).state === 'idle' && (await s.get()).queued === 0);
  await s.delete();
});

describe('/api/run', () => {
  const run = (body) => request(server, 'POST', '/api/run', { body });
  const base64 = (text) => Buffer.from(text).toString('base64');
  const none = async () => (await request(server, 'GET', '/api/sessions')).body.data.length === 0;

  test('runs once in a session of its own that is gone after', async () => {
    const e = (await run({ code: 'import os; open("made", "w").write("x"); sorted(os.listdir())', metadata: { a: 1 } })).body;
    assert.equal(e.outcome, 'ok');
    assert.equal(e.result['text/plain'], "['made']");
    assert.equal(e.interpreter, 'fresh');
    assert.deepEqual(e.metadata, { a: 1 });
    assert.deepEqual(changed(e), { created: ['made'] });
    await until(none);
    refused(await request(server, 'GET', `/api/sessions/${e.session}`), 404, 'not_found');
    refused(await request(server, 'GET', `/api/executions/${e.id}`), 404, 'not_found');
  });

  test('puts files in place first', async () => {
    const e = (await run({ language: 'shell', code: 'cat a.txt dir/b.bin | od -An -tx1; ls -R | head -3',
      files: [{ path: 'a.txt', content_base64: base64('hi') }, { path: 'dir/b.bin', content_base64: base64(Buffer.from([0, 255])) }, { path: 'empty', content_base64: '' }] })).body;
    assert.equal(e.outcome, 'ok', JSON.stringify(e.error));
    assert.match(e.stdout, /^ 68 69 00 ff\n/);
    assert.deepEqual(changed(e), {}, 'they are the caller\'s, not the run\'s');
  });

  test('streams', async () => {
    const stream = await Stream.open(server, 'POST', '/api/run', { body: { code: 'print("a")\n"b"', mode: 'stream' } });
    assert.equal((await stream.done()).data.result['text/plain'], "'b'");
    assert.equal(await stream.ended, true);
    await until(none);
  });

  test('ends when its client leaves the stream', async () => {
    const stream = await Stream.open(server, 'POST', '/api/run', { body: { code: 'print("a")\nimport time; time.sleep(60)', mode: 'stream' } });
    await stream.find((e) => e.event === 'stdout');
    stream.close();
    await until(none, { ms: 15_000 });
  });

  test('refuses bad files and leaves nothing behind', async () => {
    for (const [files, message] of [[[{ path: '../x', content_base64: '' }], /files\[0\].*\.\./], [[{ path: 'a', content_base64: '!!' }], /files\[0\]/],
      [[{ path: 'a' }], /content_base64/], [[{ path: 'a', content_base64: '', mode: 1 }], /mode/], [['a'], /files\[0\]/], [{}, /files/],
      [[{ path: '/abs', content_base64: '' }], /files\[0\]/], [Array(1001).fill({ path: 'a', content_base64: '' }), /1000/]])
      refused(await run({ code: '1', files }), 400, 'invalid_request', message);
    refused(await run({ code: '1', mode: 'async' }), 400, 'invalid_request', /async/);
    refused(await run({ code: '1', name: 'x' }), 400, 'invalid_request', /name/);
    refused(await run({ files: [] }), 400, 'invalid_request', /code/);
    refused(await run({ code: '1', pool: 'nope' }), 400, 'invalid_request', /pool/);
    await until(none);
  });
});

describe('a client that goes away', { concurrency: 3 }, () => {
  // Sends and leaves after a while; what becomes of it is seen in the session.
  async function leave(s, body, ms = 700) {
    const gone = new AbortController();
    const sent = fetch(`${server.url}${s.path}/executions`, { method: 'POST', signal: gone.signal,
      headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' }, body: JSON.stringify(body) });
    setTimeout(() => gone.abort(), ms);
    await assert.rejects(sent, /abort/i);
  }
  const endless = (name) => `import time, os\nfor i in range(600):\n    open("${name}", "a").write(".")\n    time.sleep(0.1)`;

  test('ends what it waited for; variables and files stay', async () => {
    const s = await server.session();
    await s.python('kept = 7');
    await leave(s, { code: endless('ticks'), timeout_s: 120 });
    const started = Date.now();
    const e = await s.python('kept, len(open("ticks").read())');
    assert.ok(Date.now() - started < 30_000, 'long before it would have ended by itself');
    const [, ticks] = e.result['text/plain'].match(/^\(7, (\d+)\)$/);
    assert.ok(Number(ticks) > 0 && Number(ticks) < 300, `${ticks}`);
    assert.equal((await request(server, 'GET', `${s.path}/files/ticks`)).status, 200);
    await s.delete();
  });

  test('before its turn: it never runs', async () => {
    const s = await server.session();
    const first = s.python('import time; time.sleep(3)');
    await until(async () => (await server.ok('GET', s.path)).state === 'running'); // or the other may be the first
    await leave(s, { code: 'open("ran", "w").write("x")' }, 300);
    assert.equal((await first).outcome, 'ok');
    assert.equal((await s.python('import os; os.path.exists("ran")')).result['text/plain'], 'False');
    await s.delete();
  });

  test('unless it said that it shall go on', async () => {
    const s = await server.session();
    await leave(s, { code: 'import time; time.sleep(2.5); open("done", "w").write("x")', on_disconnect: 'continue' }, 500);
    assert.equal((await s.python('import os; os.path.exists("done")')).result['text/plain'], 'True');
    refused(await request(server, 'POST', `${s.path}/executions`, { body: { code: '1', on_disconnect: 'maybe' } }), 400, 'invalid_request');
    for (const mode of ['stream', 'async']) {
      refused(await request(server, 'POST', `${s.path}/executions`, { body: { code: '1', mode, on_disconnect: 'cancel' } }), 400, 'invalid_request', /sync/);
      assert.ok((await request(server, 'POST', `${s.path}/executions`, { body: { code: '1', mode, on_disconnect: 'continue' } })).status < 300);
    }
    assert.equal((await server.ok('POST', `${s.path}/executions`, { code: '1', on_disconnect: 'cancel' })).outcome, 'ok');
    await s.delete();
  });
});
