// SPDX-License-Identifier: Apache-2.0
// input() and getpass(): a prompt as an event, an answer by a route; refused
// at once where no client can answer.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { Stream, refused, request, stop } from '../../lib/wire.mjs';

let server;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 2 }), pool({ name: 'quick', ready: 1, python_timeout_s: 1 })] } });
});
after(() => stop(server));

class Asked {
  static async start(code, spec = {}) {
    const a = new Asked();
    a.session = await server.session(spec);
    a.stream = await Stream.open(server, 'POST', `${a.session.path}/executions`, { body: { code, mode: 'stream', input: true } });
    a.id = (await a.stream.find((e) => e.event === 'status')).data.id;
    return a;
  }

  // The n-th prompt.
  async prompt(n = 1) {
    const all = () => this.stream.events.filter((e) => e.event === 'input_request');
    await this.stream.find(() => all().length >= n);
    return all()[n - 1].data;
  }

  answer(body) { return request(server, 'POST', `/api/executions/${this.id}/input`, { body }); }

  async done() {
    const { data } = await this.stream.done();
    await this.session.delete();
    return data;
  }
}

describe('a client that answers', () => {
  test('sees the prompt after what was printed, and its answer is the value', async () => {
    const a = await Asked.start('print("before", end=" ")\nname = input("Name? ")\nprint(repr(name), repr(input()))');
    assert.deepEqual(await a.prompt(), { prompt: 'Name? ', password: false });
    assert.equal(a.stream.text(), 'before ');
    assert.equal((await a.answer({ text: 'Zoë ✓' })).status, 204);
    assert.deepEqual(await a.prompt(2), { prompt: '', password: false });
    assert.equal((await a.answer({ text: '' })).status, 204);
    const e = await a.done();
    assert.equal(e.outcome, 'ok', JSON.stringify(e.error));
    assert.equal(e.stdout, "before 'Zoë ✓' ''\n");
  });

  test('is told of a password, which no answer of ours repeats', async () => {
    const a = await Asked.start('import getpass\np = getpass.getpass()\nlen(p)');
    assert.deepEqual(await a.prompt(), { prompt: 'Password: ', password: true });
    await a.answer({ text: 'hunter2' });
    const e = await a.done();
    assert.equal(e.result['text/plain'], '7');
    assert.ok(!JSON.stringify([e, a.stream.events]).includes('hunter2'));
  });

  test('answers sys.stdin, and ends it', async () => {
    const a = await Asked.start(`import sys
print(repr(sys.stdin.readline()), [l for l in sys.stdin])
try:
    input()
except EOFError as e:
    print(type(e).__name__, e)
print(sys.stdin.buffer.readline())`);
    for (const [n, body] of [{ text: 'one' }, { text: 'two' }, { eof: true }, { eof: true }, { text: 'b' }].entries()) {
      await a.prompt(n + 1);
      assert.equal((await a.answer(body)).status, 204);
    }
    assert.equal((await a.done()).stdout, "'one\\n' ['two\\n']\nEOFError EOF when reading a line\nb'b\\n'\n");
  });

  test('answers once: a second answer and one after the end are conflicts', async () => {
    const a = await Asked.start('import time\ninput("?")\ntime.sleep(1)');
    await a.prompt();
    const both = await Promise.all([a.answer({ text: '1' }), a.answer({ text: '2' })]);
    assert.deepEqual(both.map((r) => r.status).sort(), [204, 409]);
    refused(await a.answer({ text: '3' }), 409, 'conflict', /does not wait for input/);
    await a.stream.done();
    refused(await a.answer({ text: '4' }), 409, 'conflict', /has ended/);
    await a.done();
  });

  test('may say nothing wrong', async () => {
    const a = await Asked.start('len(input("?"))');
    await a.prompt();
    for (const body of [{}, { text: 'x', eof: true }, { text: 3 }, { text: 'x'.repeat(65_537) }, { line: 'x' }])
      refused(await a.answer(body), 400, 'invalid_request');
    assert.equal((await a.answer({ text: 'x'.repeat(65_536) })).status, 204);
    assert.equal((await a.done()).result['text/plain'], '65536');
    refused(await request(server, 'POST', '/api/executions/exec_00000000000000000000000000/input', { body: { text: '' } }), 404, 'not_found');
  });

  test('may interrupt instead; the next prompt has its own answer', async () => {
    const a = await Asked.start(`try:
    input("first ")
except KeyboardInterrupt:
    print("interrupted")
print(input("second "))`);
    await a.prompt();
    await request(server, 'POST', `${a.session.path}/interrupt`);
    assert.equal((await a.prompt(2)).prompt, 'second ');
    await a.answer({ text: 'yes' });
    assert.equal((await a.done()).stdout, 'interrupted\nyes\n');
  });

  test('may cancel, and variables stay', async () => {
    const a = await Asked.start('x = 5\ninput("?")');
    await a.prompt();
    await request(server, 'POST', `/api/executions/${a.id}/cancel`);
    assert.equal((await a.stream.done()).data.outcome, 'cancelled');
    assert.equal((await a.session.python('x')).result['text/plain'], '5');
    await a.done();
  });

  test('has the time of the execution, no more', async () => {
    const a = await Asked.start('input("?")', { pool: 'quick' });
    const e = await a.done();
    assert.equal(e.outcome, 'timeout');
  });

  test('is asked 256 times, not more', async () => {
    const a = await Asked.start(`n = 0
try:
    while True:
        input(); n += 1
except EOFError as e:
    print(n, e)`);
    for (let n = 1; n <= 256; n++) {
      await a.prompt(n);
      await a.answer({ text: '' });
    }
    assert.match((await a.done()).stdout, /^256 input\(\) was asked too often/);
  });

  test('sees threads print while it thinks, but a thread cannot ask', async () => {
    const a = await Asked.start(`import threading
def work():
    try:
        input("thread")
    except EOFError as e:
        print("thread:", e)
t = threading.Thread(target=work); t.start(); t.join()
print(input("main "))`);
    assert.equal((await a.prompt()).prompt, 'main ');
    await a.answer({ text: 'ok' });
    assert.match((await a.done()).stdout, /^thread: input\(\) is only available in the main thread.*\nok\n$/);
  });
});

describe('without such a client input() fails at once', () => {
  test('and says what to do', async () => {
    const s = await server.session();
    for (const code of ['input("?")', 'import getpass; getpass.getpass()', 'import sys; sys.stdin.readline()']) {
      const e = await s.python(code);
      assert.equal(e.error.name, 'StdinUnavailableError');
      assert.match(e.error.message, /no keyboard; pass the value in the code or in a file below \/mnt\/data, or start the execution with "input": true/);
    }
    refused(await request(server, 'POST', `/api/executions/${(await s.python('1')).id}/input`, { body: { text: '' } }), 409, 'conflict');
    await s.delete();
  });

  test('in the cell after one that could ask, and in a fork of one that can', async () => {
    const a = await Asked.start(`import os
print(input("a "), flush=True)
if os.fork() == 0:
    try:
        input("b ")
    except EOFError as e:
        os.write(1, b"fork: no\\n")
    os._exit(0)
os.wait()`);
    await a.prompt();
    await a.answer({ text: 'yes' });
    await a.stream.done();
    assert.equal(a.stream.text(), 'yes\nfork: no\n');
    assert.equal((await a.session.python('input()')).error.name, 'StdinUnavailableError');
    await a.done();
  });
});

test('a session that forges frames of input loses only its own interpreter', async () => {
  const s = await server.session();
  for (const frame of ['struct.pack("=II", 24, 4) + b"abcd"', 'struct.pack("=IIII", 24, 8, 1, 9)',
    'struct.pack("=IIII", 24, 9, 1, 1) + b"\\xff"', 'struct.pack("=II", 24, 1 << 20)']) {
    const e = await s.python(`import os, struct, time\nos.write(3, ${frame})\ntime.sleep(5)`);
    assert.equal(e.outcome, 'crashed', frame);
    assert.equal((await s.python('6 * 7')).result['text/plain'], '42');
  }
  const unasked = await s.python('import os, struct, time\nos.write(3, struct.pack("=IIII", 24, 8, 1, 1))\ntime.sleep(.2)\n"on"');
  assert.equal(unasked.result['text/plain'], "'on'", JSON.stringify(unasked));
  await s.delete();
});
