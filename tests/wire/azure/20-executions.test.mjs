// SPDX-License-Identifier: Apache-2.0
// The Azure door: running Python in the shapes of all three families; values,
// errors, time limits, asynchronous runs, output that is cut.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { GUID, Pool, V2024_02, V2024_08, V2024_10, V2025_02, V2025_10, refused } from '../../lib/azure.mjs';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { request, stop } from '../../lib/wire.mjs';

let server;
let p;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 2 }), pool({ name: 'small', ready: 0, memory_bytes: '192MiB' }),
    pool({ name: 'brief', ready: 0, python_timeout_s: 5, python_timeout_max_s: 6 })] } });
  p = new Pool(server, { identifier: 'runs-1' });
});
after(() => stop(server));

const ok = (answer, status = 200) => {
  assert.equal(answer.status, status, answer.text);
  return answer.body;
};

describe('shapes', () => {
  test('family A is flat', async () => {
    for (const version of [null, V2024_02, V2025_10]) {
      const body = ok(await p.at(version).legacy('print(1)\n2+2'));
      assert.deepEqual(Object.keys(body), ['$id', 'status', 'stdout', 'stderr', 'result', 'executionTimeInMilliseconds']);
      assert.deepEqual([body.$id, body.status, body.stdout, body.stderr, body.result], ['1', 'Success', '1\n', '', 4]);
      assert.equal(typeof body.executionTimeInMilliseconds, 'number');
    }
  });

  test('family A takes the identifier from the body alone, and `code`', async () => {
    const make = (properties) => request(server, 'POST', '/pools/default/python/execute/', { body: { properties } });
    ok(await make({ identifier: 'in-body-1', pythonCode: 'kept = 3' }));
    assert.equal(ok(await make({ identifier: 'in-body-1', code: 'kept' })).result, 3);
    refused(await make({ pythonCode: '1' }), 400, 'SessionRequestValidationFailed', /identifier/);
  });

  test('family B has all in properties', async () => {
    for (const version of [V2024_02, V2024_08]) {
      const body = ok(await p.at(version).wrapped('print(1)\n2+2', { timeoutInSeconds: 60, identifier: p.identifier }));
      assert.deepEqual(Object.keys(body), ['$id', 'properties']);
      assert.deepEqual(Object.keys(body.properties), ['$id', 'status', 'stdout', 'stderr', 'result', 'executionTimeInMilliseconds']);
      const { $id, status, stdout, stderr, result } = body.properties;
      assert.deepEqual([$id, status, stdout, stderr, result], ['2', 'Success', '1\n', '', 4]);
    }
    assert.equal(ok(await p.at(V2024_02).post('code/execute/', { properties: { code: '5' } })).properties.result, 5);
  });

  test('family C is a resource; 202 in its first version, 200 later, never 201', async () => {
    for (const [version, status] of [[V2024_10, 202], [V2025_02, 200], [V2025_10, 200], [null, 200]]) {
      const body = ok(await p.at(version).run('print("x")\n2+2'), status);
      assert.deepEqual(Object.keys(body), ['$id', 'id', 'identifier', 'executionType', 'status', 'result']);
      assert.match(body.id, GUID);
      assert.deepEqual([body.identifier, body.executionType, body.status], ['runs-1', 'Synchronous', 'Succeeded']);
      assert.deepEqual(Object.keys(body.result), ['$id', 'stdout', 'stderr', 'executionResult', 'executionTimeInMilliseconds']);
      assert.deepEqual([body.result.stdout, body.result.stderr, body.result.executionResult], ['x\n', '', 4]);
    }
  });

  test('words come in any case and executionType is echoed as spelled', async () => {
    for (const executionType of ['synchronous', 'Synchronous', 'SYNCHRONOUS'])
      assert.equal(ok(await p.run('1', { executionType, codeInputType: 'INLINE' })).executionType, executionType);
    assert.equal(ok(await p.post('executions', { code: '1' })).executionType, 'Synchronous');
  });

  test('the wrapper is refused in family C with the code that samples retry on', async () => {
    const error = refused(await p.post('executions', { properties: { code: '1' } }), 400, 'SessionPropertiesMissing', /top level/);
    assert.equal(error.code, 'SessionPropertiesMissing');
    refused(await p.post('executions', {}), 400, 'SessionPropertiesMissing');
    refused(await p.at(V2024_02).post('code/execute', { properties: {} }), 400, 'SessionPropertiesMissing');
    refused(await p.post('executions', { shellCommand: 'ls' }), 400, 'SessionPropertiesMissing');
    for (const body of [{ code: 5 }, { code: '1', codeInputType: 'File' }, { code: '1', executionType: 'Later' }, { code: '1', timeoutInSeconds: 0 }, { code: '1', timeoutInSeconds: -1 },
      { code: '1', timeoutInSeconds: '60' }, { code: '1', outputStreamsMaxLength: -1 }, { code: 'a\u0000b' }, { code: '!!', codeInputType: 'InlineBase64' }])
      refused(await p.post('executions', body), 400, 'SessionRequestValidationFailed');
  });

  test('code as text and as base64; fields nobody knows are let pass', async () => {
    assert.equal(ok(await p.run('"ä"', { codeInputType: 'InlineText' })).result.executionResult, 'ä');
    const code = Buffer.from('"ä€😀"').toString('base64');
    assert.equal(ok(await p.run(code, { codeInputType: 'inlinebase64' })).result.executionResult, 'ä€😀');
    assert.equal(ok(await p.run('1', { useEmptyKernel: true, returnJupyterFormatExecutionResult: false, whatever: [1], identifier: 'x' })).result.executionResult, 1);
    await p.run('kept = 5');
    assert.equal(ok(await p.run('kept', { useEmptyKernel: false })).result.executionResult, 5);
    ok(await p.run('open("/mnt/data/stays", "w").write("here")'));
    assert.equal(ok(await p.run('sum(n in globals() for n in ("kept", "np", "pd"))', { useEmptyKernel: true })).result.executionResult, 0);
    assert.equal(ok(await p.run('mine = 6; open("/mnt/data/stays").read() + str("kept" in globals())')).result.executionResult, 'hereFalse');
    assert.equal(ok(await p.run('mine')).result.executionResult, 6, 'and goes on from there');
    refused(await p.run(Buffer.from([255, 254]).toString('base64'), { codeInputType: 'InlineBase64' }), 400, 'SessionRequestValidationFailed', /UTF-8/);
  });
});

describe('values', () => {
  const rows = [
    ['x = 1', ''], ['print("hi")', ''], ['None', ''], ['a = None\na', ''], ['', ''],
    ['6*7', 42], ['-3', -3], ['1.5', 1.5], ['1e-7', 1e-7], ['1e300*10', 1e301], ['10**20', 1e20],
    ['"text"', 'text'], [`"it's"`, "it's"], [`'say "x"'`, 'say "x"'], [`'both \\' and "'`, `both ' and "`], [`"a\\nb\\tc\\\\d"`, 'a\nb\tc\\d'],
    ['"\\x00\\x1b"', '\u0000\u001b'], ['"ünï€😀"', 'ünï€😀'], ['"\\u200b"', '\u200b'], ['""', ''], [`"'"`, "'"], ['"42"', '42'], ['"\\ud800"', '\ufffd'],
    ["{'a': 1.5}", "{'a': 1.5}"], ['[1, 2]', '[1, 2]'], ['True', 'True'], ["float('nan')", 'nan'], ["float('inf')", 'inf'], ["b'x'", "b'x'"],
    ["('a',)", "('a',)"], ['[]', '[]'], ['1+2j', '(1+2j)'],
    ['class Q:\n    def __repr__(self): return "\'a\' + \'b\'"\nQ()', "'a' + 'b'"],
    ['class N:\n    def __repr__(self): return "007"\nN()', '007'],
    ['class M:\n    def __repr__(self): return "1."\nM()', '1.'],
    ['5;', ''],
  ];
  for (const [code, want] of rows)
    test(`${JSON.stringify(code).slice(0, 60)} is ${JSON.stringify(want)}`, async () => {
      assert.deepEqual(ok(await p.run(code)).result.executionResult, want);
      assert.deepEqual(ok(await p.at(V2024_02).wrapped(code)).properties.result, want);
      assert.deepEqual(ok(await p.at(null).legacy(code)).result, want);
    });

  test('a long list of texts breaks as a notebook shows it', async () => {
    const got = ok(await p.run('["some_package_%d" % i for i in range(30)]')).result.executionResult;
    assert.equal(got.split(',\n').length, 30, 'a public client splits it so');
  });

  test('digits stay digits', async () => {
    const raw = await p.run('2**200');
    assert.match(raw.text, /"executionResult":1606938044258990275541962092341162602522202993782792835301376[,}]/);
  });
});

describe('state and errors', () => {
  test('variables, imports and files stay; `!` works; /mnt/data is there at once', async () => {
    const q = p.other();
    assert.equal(ok(await q.at(V2024_02).wrapped("import os; os.chdir('/mnt/data'); open('made.txt', 'w').write('x')")).properties.result, 1);
    ok(await q.run('n = 5\nimport math'));
    assert.equal(ok(await q.at(null).legacy('n + math.floor(1.5)')).result, 6);
    assert.match(ok(await q.run('!cat /mnt/data/made.txt')).result.stdout, /^x/);
    assert.match(ok(await q.run('import subprocess; subprocess.run(["echo", "sub"], capture_output=True, text=True).stdout')).result.executionResult, /^sub/);
  });

  test('an exception is no HTTP error: message, traceback, name at the end', async () => {
    for (const [version, run, status, word, value] of [[V2025_10, 'run', 200, 'Failed', 'executionResult'], [V2024_10, 'run', 202, 'Failed', 'executionResult'],
      [V2024_02, 'wrapped', 200, 'Failure', 'result'], [null, 'legacy', 200, 'Failure', 'result']]) {
      const body = ok(await p.at(version)[run]('import sys\nprint("before")\nprint("warned", file=sys.stderr)\n1/0'), status);
      const state = body.properties ?? body;
      const result = body.result?.stdout === undefined ? state : body.result;
      assert.equal(state.status, word);
      assert.equal(result[value], null);
      assert.equal(result.stdout, 'before\n');
      assert.match(result.stderr, /^warned\ndivision by zero\n/);
      assert.match(result.stderr, /ZeroDivisionError: division by zero\s*$/);
      assert.doesNotMatch(result.stderr, /\x1b/, 'no colours');
    }
    assert.match(ok(await p.run('x = ')).result.stderr, /SyntaxError: /);
    assert.match(ok(await p.run('raise ValueError("deep\\nlines")')).result.stderr, /ValueError: deep\nlines\s*$/);
  });

  test('the network is closed as an ordinary exception', async () => {
    const got = ok(await p.run('import urllib.request\nurllib.request.urlopen("http://192.0.2.1/", timeout=3)'));
    assert.equal(got.status, 'Failed');
    assert.match(got.result.stderr, /URLError/);
  });

  test('memory: the sentence says that the kernel was restarted, files are kept', async () => {
    const small = new Pool(server, { base: '/pools/small' });
    ok(await small.run('open("/mnt/data/kept", "w").write("1"); v = 1'));
    const got = ok(await small.run('x = bytearray(1 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1'));
    assert.equal(got.status, 'Failed');
    assert.equal(got.result.executionResult, null);
    assert.match(got.result.stderr, /Kernel restarted|Execution aborted|MemoryError/);
    assert.deepEqual(await small.names(), ['kept']);
    assert.equal(ok(await small.run('open("/mnt/data/kept").read()')).result.executionResult, '1');
  });

  test('a crash of the interpreter is a failed run and the next one works', async () => {
    const q = p.other();
    const got = ok(await q.run('import os, signal\nprint("x", flush=True)\nos.kill(os.getpid(), signal.SIGSEGV)'));
    assert.equal(got.status, 'Failed');
    assert.match(got.result.stderr, /interpreter/);
    assert.equal(ok(await q.run('1')).result.executionResult, 1);
  });
});

describe('time', () => {
  test('timeoutInSeconds from 1 on: HTTP 200, Failed, the known text first', async () => {
    for (const [version, run, extra] of [[V2025_10, 'run', { timeoutInSeconds: 1 }], [V2024_02, 'wrapped', { timeoutInSeconds: 2 }], [null, 'legacy', { timeoutInSeconds: 1.2 }]]) {
      const q = p.other().at(version);
      const body = ok(await q[run]('import sys, time\nprint("out", flush=True)\nprint("err", file=sys.stderr, flush=True)\ntime.sleep(60)', extra));
      const state = body.properties ?? body;
      const result = body.result?.stdout === undefined ? state : body.result;
      assert.match(state.status, /^Fail/);
      assert.match(result.stderr, /^Request timed out waiting for code execution to complete/);
      assert.match(result.stderr, /err\n/);
      assert.equal(result.stdout, 'out\n');
      assert.equal('executionResult' in result ? result.executionResult : result.result, null);
      assert.ok(result.executionTimeInMilliseconds >= 900, `${result.executionTimeInMilliseconds}`);
      assert.equal((await q[run]('"alive"')).status, 200);
    }
  });

  test('more than 220 s is as 220, more than the pool allows as the pool says', async () => {
    for (const timeoutInSeconds of [220, 221, 100000, 1e12]) assert.equal(ok(await p.run('1', { timeoutInSeconds })).status, 'Succeeded');
    const brief = new Pool(server, { base: '/pools/brief' });
    const got = ok(await brief.run('import time\ntime.sleep(60)'));
    assert.match(got.result.stderr, /^Request timed out.*after 6 s/);
  });

  test('runs of one session take turns', async () => {
    const q = p.other();
    ok(await q.run('log = []'));
    const all = await Promise.all([1, 2, 3].map((n) => q.run(`import time\nlog.append(("in", ${n})); time.sleep(0.2); log.append(("out", ${n}))`)));
    all.forEach((a) => ok(a));
    const log = JSON.parse(ok(await q.run('import json; print(json.dumps(log))')).result.stdout);
    for (let i = 0; i < 6; i += 2) assert.deepEqual([log[i][0], log[i + 1][0], log[i][1]], ['in', 'out', log[i + 1][1]]);
  });
});

describe('asynchronous', () => {
  test('202 with where to ask, then the same resource until it is over', async () => {
    const q = p.other();
    const got = await q.run('import time\ntime.sleep(0.8)\nprint("late")\n7', { executionType: 'asynchronous' });
    const made = ok(got, 202);
    assert.ok(['Running', 'NotStarted'].includes(made.status), made.status);
    assert.equal(made.result, undefined);
    assert.equal(made.executionType, 'asynchronous');
    assert.equal(got.headers['operation-id'], made.id);
    const where = new URL(got.headers['operation-location']);
    assert.equal(where.pathname, `/pools/default/executions/${made.id}`);
    assert.equal(where.searchParams.get('identifier'), q.identifier);
    assert.equal(where.searchParams.get('api-version'), V2025_10);
    const done = await until(async () => {
      const a = await request(server, 'GET', where.pathname + where.search);
      assert.equal(a.status, 200, a.text);
      return ['Running', 'NotStarted'].includes(a.body.status) ? null : a.body;
    }, { what: 'the end of the run' });
    assert.deepEqual([done.id, done.status, done.executionType, done.result.stdout, done.result.executionResult], [made.id, 'Succeeded', 'asynchronous', 'late\n', 7]);
    const synchronous = ok(await q.run('1'));
    assert.equal(ok(await q.get(`executions/${synchronous.id}`)).result.executionResult, 1, 'any run can be asked for');
  });

  test('failed ones too; runs are per session; unknown ids are 404', async () => {
    const q = p.other();
    const made = ok(await q.run('1/0', { executionType: 'Asynchronous' }), 202);
    const done = await until(async () => {
      const { body } = await q.get(`executions/${made.id}`);
      return body.status === 'Failed' ? body : null;
    });
    assert.match(done.result.stderr, /ZeroDivisionError/);
    const r = p.other();
    refused(await r.get(`executions/${made.id}`), 404, 'NotFound');
    assert.ok(!(await p.get('listSessions')).body.sessions.some((s) => s.identifier === r.identifier), 'asking made no session');
    await r.run('1');
    for (const id of [made.id, '00000000-0000-0000-0000-000000000000', 'x', made.id.slice(1)]) refused(await r.get(`executions/${id}`), 404, 'NotFound');
  });
});

describe('output', () => {
  test('4096 characters of each stream by default in the newest version only', async () => {
    const code = 'import sys\nprint("ä" * 5000)\nprint("b" * 5000, file=sys.stderr)';
    const cut = ok(await p.run(code)).result;
    assert.deepEqual([cut.stdout, cut.stderr], ['ä'.repeat(4096), 'b'.repeat(4096)]);
    for (const version of [V2024_10, V2025_02]) {
      const { body } = await p.at(version).run(code);
      assert.deepEqual([body.result.stdout.length, body.result.stderr.length], [5001, 5001]);
    }
    assert.equal(ok(await p.at(V2024_02).wrapped(code)).properties.stdout.length, 5001);
  });

  test('outputStreamsMaxLength cuts characters, at, below and above', async () => {
    const at = async (n, outputStreamsMaxLength) => ok(await p.run(`print("😀" * ${n}, end="")`, { outputStreamsMaxLength })).result.stdout;
    assert.equal(await at(9, 10), '😀'.repeat(9));
    assert.equal(await at(10, 10), '😀'.repeat(10));
    assert.equal(await at(11, 10), '😀'.repeat(10));
    assert.equal(await at(5000, 6000), '😀'.repeat(5000));
    assert.equal(await at(5, 0), '');
  });
});

describe('a client that goes away', () => {
  for (const [family, path, body] of [
    ['A', 'python/execute', (code, identifier) => ({ properties: { identifier, codeInputType: 'inline', executionType: 'synchronous', pythonCode: code } })],
    ['B', 'code/execute', (code) => ({ properties: { codeInputType: 'inline', executionType: 'synchronous', code } })],
    ['C', 'executions', (code) => ({ codeInputType: 'Inline', executionType: 'Synchronous', code })],
  ])
    test(`does not block its session, family ${family}`, async () => {
      const q = p.other().at(family === 'C' ? V2025_02 : V2024_02);
      ok(await q.wrapped('kept = 7'));
      const gone = new AbortController();
      const sent = fetch(`${server.url}${q.url(path)}`, { method: 'POST', signal: gone.signal,
        headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body('import time; time.sleep(200)', q.identifier)) });
      setTimeout(() => gone.abort(), 700);
      await assert.rejects(sent, /abort/i);
      const started = Date.now();
      assert.equal(ok(await q.wrapped('kept')).properties.result, 7, 'variables stay');
      assert.ok(Date.now() - started < 20_000, `${Date.now() - started} ms`);
    });

  test('an asynchronous run goes on', async () => {
    const q = p.other();
    const made = await q.post('executions', { codeInputType: 'Inline', executionType: 'Asynchronous', code: 'import time; time.sleep(2); print("done")' });
    assert.equal(made.status, 202, made.text);
    const id = made.headers['operation-id'];
    const done = await until(async () => { const { body } = await q.get(`executions/${id}`); return body.status === 'Succeeded' && body; });
    assert.equal(done.result.stdout, 'done\n');
  });
});
