// SPDX-License-Identifier: Apache-2.0
// How executions end: each way has its outcome, our words for it, and a
// session that goes on afterwards with its files in place.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { Stream, changed, refused, request, stop } from '../../lib/wire.mjs';

let server;

before(async () => {
  server = await Glovebox.start({
    config: {
      pools: [pool({ ready: 3, memory_bytes: '256MiB' }),
        pool({ name: 'quick', ready: 2, python_timeout_s: 1, shell_timeout_s: 1 })],
    },
  });
});
after(() => stop(server));

// Runs code that loses the interpreter; the next execution must say it is
// fresh, remember nothing, and find the file.
async function loses(code, check, language = 'python') {
  const s = await server.session();
  await s.python('x = 1; open("kept", "w").write("here")');
  const e = await s.execute(language, code);
  check(e);
  assert.equal(e.status, 'completed');
  assert.equal(e.interpreter, 'same');
  assert.equal(e.interpreter_lost, true, JSON.stringify(e));
  const next = await s.python('"x" in globals(), open("kept").read()');
  assert.equal(next.outcome, 'ok', JSON.stringify(next.error));
  assert.equal(next.interpreter, 'fresh');
  assert.equal(next.result['text/plain'], "(False, 'here')");
  assert.equal((await s.get()).interpreters, 2);
  assert.equal((await s.python('2')).interpreter, 'same');
  await s.delete();
}

describe('R9 the interpreter goes', () => {
  test('by os._exit', () => loses('import os\nprint("out")\nos._exit(7)', (e) => {
    assert.equal(e.outcome, 'crashed');
    assert.equal(e.stdout, 'out\n');
    assert.match(e.error.message, /exit status 7.*fresh interpreter/);
  }));

  test('by os._exit(0), which is no success', () => loses('import os; os._exit(0)', (e) => assert.equal(e.outcome, 'crashed')));

  test('by a segfault', () => loses('print("out", flush=True)\nimport ctypes; ctypes.string_at(0)', (e) => {
    assert.equal(e.outcome, 'crashed');
    assert.equal(e.error.name, 'Crashed');
    assert.match(e.error.message, /SIGSEGV.*files are kept.*fresh/);
    assert.match(e.stdout, /^out\n/);
  }));

  test('by abort', () => loses('import os; os.abort()', (e) => {
    assert.equal(e.outcome, 'crashed');
    assert.match(e.error.message, /SIGABRT/);
  }));

  test('by killing itself', () => loses('import os; os.kill(os.getpid(), 9)', (e) => {
    assert.equal(e.outcome, 'killed');
    assert.match(e.error.message, /SIGKILL/);
  }));

  test('R2 by taking too much memory', () => loses('print("out", flush=True)\nb = [bytearray(1 << 20) for _ in range(1000)]', (e) => {
    assert.equal(e.outcome, 'oom');
    assert.equal(e.error.name, 'OutOfMemory');
    assert.match(e.error.message, /256 MiB/);
    assert.deepEqual({ ...e.limit, peak: 0 }, { name: 'memory_bytes', value: 256 << 20, peak: 0 });
    assert.ok(e.limit.peak > 200 << 20 && e.limit.peak <= 260 << 20, `${e.limit.peak}`);
    assert.equal(e.stdout, 'out\n');
  }));

  test('R2 by a child taking too much memory', () => loses(
    'import subprocess, sys; subprocess.run([sys.executable, "-c", "b = [bytearray(1 << 20) for _ in range(1000)]"], check=True)',
    (e) => assert.equal(e.outcome, 'oom')));

  test('by closing every descriptor', () => loses('import os\nos.closerange(0, 1024)\nopen("/mnt/data/after", "w").write("ran")\nx = 2', (e) => {
    assert.equal(e.outcome, 'crashed');
    assert.match(e.error.message, /channel/);
  }));

  test('by speaking nonsense on the channel', () => loses('import os\nfor fd in range(3, 64):\n    try: os.write(fd, b"\\xff" * 4096)\n    except OSError: pass\nimport time; time.sleep(5)', (e) =>
    assert.equal(e.outcome, 'crashed')));

  test('by a claim of success on the channel after which it dies', () => loses('import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)', (e) =>
    assert.equal(e.outcome, 'crashed')));

  test('by exec of another program', () => loses('import os; os.execv("/bin/true", ["true"])', (e) => assert.equal(e.outcome, 'crashed')));

  test('by a fork bomb of threads that leaves it alive', async () => {
    const s = await server.session({ limits: { processes: 16 } });
    const e = await s.python('import threading, time\nfor i in range(100): threading.Thread(target=time.sleep, args=(3,), daemon=True).start()');
    assert.equal(e.outcome, 'limit');
    assert.deepEqual(e.limit, { name: 'processes', value: 16, peak: 16 });
    assert.equal(e.interpreter_lost, false);
    await s.delete();
  });
});

describe('R9 the cell ends and the interpreter stays', () => {
  async function keeps(code, check) {
    const s = await server.session();
    await s.python('import sys; x = 1');
    const e = await s.python(code);
    check(e);
    assert.equal(e.interpreter_lost, false, JSON.stringify(e));
    const next = await s.python('x');
    assert.equal(next.interpreter, 'same');
    assert.equal(next.result['text/plain'], '1');
    await s.delete();
  }

  for (const code of ['sys.exit()', 'exit()', 'quit(0)', 'raise SystemExit'])
    test(`by ${code}`, () => keeps(`print("bye")\n${code}\nprint("no")`, (e) => {
      assert.equal(e.outcome, 'ok');
      assert.equal(e.stdout, 'bye\n');
      assert.equal(e.error, null);
    }));

  test('by sys.exit with a status', () => keeps('sys.exit(3)', (e) => {
    assert.equal(e.outcome, 'error');
    assert.deepEqual(e.error, { name: 'SystemExit', message: 'exit status 3', traceback: ['SystemExit: exit status 3'] });
  }));

  test('by sys.exit with words', () => keeps('sys.exit("words")', (e) => {
    assert.equal(e.outcome, 'error');
    assert.deepEqual([e.error.name, e.error.message], ['SystemExit', 'words']);
  }));
});

test('R9 a descriptor closed is not the end: 0, 1 and 2 come back', async () => {
  const s = await server.session();
  assert.equal((await s.python('x = 5\nimport os; os.close(0); os.close(1); os.close(2)')).outcome, 'ok');
  const e = await s.python('print("again"); import sys; print("err", file=sys.stderr); x');
  assert.equal(e.stdout, 'again\n');
  assert.equal(e.stderr, 'err\n');
  assert.equal(e.interpreter, 'same');
  await s.delete();
});

test('R4 a full scratch is a limit with its name', async () => {
  const s = await server.session({ limits: { scratch_bytes: 4 << 20 } });
  const e = await s.python('import os\nfd = os.open("big", os.O_CREAT | os.O_WRONLY)\nwhile True: os.write(fd, b"x" * 4096)');
  assert.equal(e.outcome, 'limit', JSON.stringify(e));
  assert.equal(e.limit.name, 'scratch_bytes');
  assert.equal(e.error.message.includes('/mnt/data is full') || /No space/.test(e.error.message), true, e.error.message);
  assert.equal(e.interpreter_lost, false);
  refused(await request(server, 'PUT', `${s.path}/files/more`, { body: Buffer.alloc(1 << 20) }), 507, 'storage_full');
  assert.equal((await s.python('os.close(fd); os.remove("big")')).outcome, 'ok', 'and can be dealt with');
  await s.put('more', Buffer.alloc(1 << 20));
  await s.delete();
});

describe('R1 time', { concurrency: 3 }, () => {
  test('a timeout interrupts first, so that variables survive', async () => {
    const s = await server.session({ pool: 'quick' });
    const e = await s.python('done = []\nimport time\nfor i in range(1200):\n    done.append(i); time.sleep(0.05)');
    assert.equal(e.outcome, 'timeout');
    assert.equal(e.error.name, 'Timeout');
    assert.match(e.error.message, /timed out after 1 s.*interrupted.*variables are kept/);
    assert.equal(e.limit.name, 'wall_s');
    assert.equal(e.limit.value, 1);
    assert.equal(e.interpreter_lost, false);
    assert.ok(e.usage.wall_ms >= 1000 && e.usage.wall_ms < 40_000, 'before the loop would have ended');
    const next = await s.python('len(done) > 3');
    assert.equal(next.result['text/plain'], 'True');
    assert.equal(next.interpreter, 'same');
    await s.delete();
  });

  test('what ignores the interrupt is killed, and the answer says so', async () => {
    const s = await server.session({ pool: 'quick' });
    await s.python('x = 1; open("kept", "w").write("here")');
    const e = await s.python('import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(0.1)');
    assert.equal(e.outcome, 'timeout');
    assert.match(e.error.message, /ignored the interrupt and was killed.*fresh interpreter/);
    assert.equal(e.interpreter_lost, true);
    const next = await s.python('"x" in globals(), open("kept").read()');
    assert.equal(next.interpreter, 'fresh');
    assert.equal(next.result['text/plain'], "(False, 'here')");
    await s.delete();
  });

  test('C code that cannot be interrupted is killed', async () => {
    const s = await server.session({ pool: 'quick' });
    const e = await s.python('import itertools; all(itertools.repeat(1))');
    assert.equal(e.outcome, 'timeout');
    assert.equal(e.interpreter_lost, true);
    await s.delete();
  });

  test('a shell command is interrupted or killed, the interpreter kept either way', async () => {
    const s = await server.session({ pool: 'quick' });
    await s.python('x = 1');
    const soft = await s.shell('echo began; sleep 30');
    assert.equal(soft.outcome, 'timeout');
    assert.equal(soft.stdout, 'began\n');
    assert.match(soft.error.message, /interrupted/);
    const hard = await s.shell('trap "" INT; while true; do sleep 0.1; done');
    assert.equal(hard.outcome, 'timeout');
    assert.match(hard.error.message, /ignored the interrupt and was killed/);
    assert.equal(hard.interpreter_lost, false);
    assert.equal((await s.python('x')).result['text/plain'], '1');
    await s.delete();
  });

  test('what a timed-out cell had started is gone too', async () => {
    const s = await server.session({ pool: 'quick' });
    const e = await s.python('import signal, subprocess\nsignal.signal(2, signal.SIG_IGN)\nsubprocess.run(["sleep", "77"])');
    assert.equal(e.outcome, 'timeout');
    assert.equal((await s.shell('grep -lsa "sleep" /proc/[0-9]*/comm | wc -l')).stdout.trim(), '0');
    await s.delete();
  });
});

describe('cancel', () => {
  const cancel = (id) => request(server, 'POST', `/api/executions/${id}/cancel`);
  const begin = async (s, code, language = 'python') => {
    const stream = await Stream.open(server, 'POST', `${s.path}/executions`, { body: { code, language, mode: 'stream' } });
    await stream.find((e) => e.event === 'stdout');
    return stream;
  };

  test('of what runs interrupts it and keeps variables', async () => {
    const s = await server.session();
    const stream = await begin(s, 'x = 4\nprint("go")\nimport time; time.sleep(60)');
    const { id } = stream.events[0].data;
    assert.equal((await cancel(id)).status, 202);
    const { data } = await stream.done();
    assert.equal(data.outcome, 'cancelled');
    assert.equal(data.error.name, 'Cancelled');
    assert.equal(data.interpreter_lost, false);
    assert.equal((await s.python('x')).result['text/plain'], '4');
    assert.equal((await cancel(id)).status, 202, 'once more is harmless');
    assert.equal((await server.ok('GET', `/api/executions/${id}`)).outcome, 'cancelled');
    await s.delete();
  });

  test('of what ignores it kills it', async () => {
    const s = await server.session();
    const stream = await begin(s, 'import signal, time\nsignal.signal(2, signal.SIG_IGN)\nprint("go")\ntime.sleep(60)');
    assert.equal((await cancel(stream.events[0].data.id)).status, 202);
    const { data } = await stream.done();
    assert.equal(data.outcome, 'cancelled');
    assert.equal(data.interpreter_lost, true);
    assert.equal((await s.python('1')).interpreter, 'fresh');
    await s.delete();
  });

  test('of what waits means it never runs', async () => {
    const s = await server.session();
    const stream = await begin(s, 'print("go")\nimport time; time.sleep(1)');
    const queued = (await request(server, 'POST', `${s.path}/executions`, { body: { code: 'open("ran", "w")', mode: 'async' } })).body;
    assert.equal(queued.status, 'queued');
    assert.equal(queued.outcome, null);
    assert.equal((await cancel(queued.id)).status, 202);
    const now = await server.ok('GET', `/api/executions/${queued.id}`);
    assert.equal(now.status, 'completed');
    assert.equal(now.outcome, 'cancelled');
    assert.equal(now.started_at, null);
    assert.equal((await stream.done()).data.outcome, 'ok');
    assert.equal((await s.python('import os; os.path.exists("ran")')).result['text/plain'], 'False');
    await s.delete();
  });

  test('of a shell command ends it', async () => {
    const s = await server.session();
    const stream = await begin(s, 'echo go; sleep 60', 'shell');
    await cancel(stream.events[0].data.id);
    assert.equal((await stream.done()).data.outcome, 'cancelled');
    await s.delete();
  });

  test('of the unknown is 404', async () => {
    refused(await cancel('exec_00000000000000000000000000000000'), 404, 'not_found');
  });
});

test('R9 the session cannot report for itself', async () => {
  const s = await server.session();
  // A frame that says "done, all well", then an exception: the exception counts.
  const e = await s.python(`
import os, struct
print('{"outcome": "ok"}')
for fd in os.listdir("/proc/self/fd"):
    try:
        if os.readlink("/proc/self/fd/" + fd).startswith("socket"): sock = int(fd)
    except OSError: pass
os.kill(os.getpid(), 11)
`);
  assert.equal(e.outcome, 'crashed');
  await s.delete();
});

test('the files of a run that died are those it had written', async () => {
  const s = await server.session();
  const e = await s.python('open("a", "w").write("1"); open("b", "w").write("2")\nimport os; os.remove("b"); os._exit(1)');
  assert.deepEqual(changed(e), { created: ['a'] });
  const next = await s.python('open("a", "a").write("more"); os = __import__("os"); os.mkdir("d"); open("d/c", "w")');
  assert.deepEqual(changed(next), { created: ['d/c'], modified: ['a'] });
  const last = await s.shell('rm -r a d');
  assert.deepEqual(changed(last), { deleted: ['a', 'd/c'] });
  await until(async () => (await s.get()).state === 'idle');
  await s.delete();
});
