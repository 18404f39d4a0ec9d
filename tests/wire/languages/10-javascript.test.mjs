// SPDX-License-Identifier: Apache-2.0
// JavaScript: a persistent interpreter beside Python's, its values, errors,
// endings and limits.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { until } from '../../lib/glovebox.mjs';
import { lacks, start } from '../../lib/languages.mjs';
import { stop } from '../../lib/wire.mjs';

let server;
let languages;
let s;

before(async () => {
  ({ server, languages } = await start({}, [{ memory_bytes: '512MiB', processes: 64 }]));
  s = await server.session();
});
after(() => stop(server));
beforeEach((t) => { const why = lacks(languages, 'javascript'); if (why) t.skip(why); });

const has = () => languages.includes('javascript');
async function js(code, extra) {
  const e = await s.execute('javascript', code, extra);
  assert.equal(e.outcome, 'ok', `${JSON.stringify(e.error)}\n${e.stderr}`);
  return e;
}
const value = async (code) => (await js(code)).result?.['text/plain'];

describe('values and state', () => {
  test('variables, functions and classes last, and may be declared again', async () => {
    if (!has()) return;
    const first = await js('const a = 40; let b = 1; function add(x) { return x + b }\nclass P { get two() { return 2 } }');
    assert.equal(first.language, 'javascript');
    assert.equal(first.interpreter, 'fresh');
    assert.equal(first.result, null);
    const e = await js('add(a) + new P().two - 1');
    assert.equal(e.result['text/plain'], '42');
    assert.equal(e.interpreter, 'same');
    assert.equal(await value('const a = "again"; class P { get two() { return 22 } }\n[a, new P().two]'), "[ 'again', 22 ]");
  });

  test('await, import and dynamic import work at the top', async () => {
    if (!has()) return;
    assert.equal(await value('const w = await new Promise((r) => setTimeout(() => r(7), 20)); w * 2'), '14');
    assert.equal(await value("import fs, { existsSync as there } from 'node:fs'\nimport * as path from 'path'\nthere('/mnt/data') && path.basename('/x/y') + typeof fs.readFileSync"), "'yfunction'");
    assert.equal(await value("(await import('node:os')).EOL // with a comment"), "'\\n'");
    assert.equal(await value("require('path').sep"), "'/'");
  });

  test('code that is not awaited ends before the execution does', async () => {
    if (!has()) return;
    const e = await js('async function main() { await null; console.log("main"); return 5 }\nmain()');
    assert.deepEqual([e.stdout, e.result['text/plain']], ['main\n', '5']);
    assert.equal((await js('setTimeout(() => console.log("later"), 100)\nundefined')).stdout, 'later\n');
    const began = Date.now();
    await js('globalThis.tick = setInterval(() => {}, 50); undefined'); // waited for once, for some seconds
    await js('1');
    assert.ok(Date.now() - began < 20_000);
    await js('clearInterval(tick)');
  });

  test('output keeps its order and is streamed while it runs', async () => {
    if (!has()) return;
    const made = await server.ok('POST', `${s.path}/executions`, { language: 'javascript',
      code: 'for (let i = 0; i < 20; i++) { console.log("o" + i); console.error("e" + i) }' });
    assert.equal(made.stdout.split('\n').length, 21);
    const whole = await server.ok('POST', `${s.path}/executions`, { language: 'javascript', mode: 'async', code: 'console.log("first"); await new Promise((r) => setTimeout(r, 1500)); console.log("second")' });
    await until(async () => (await server.ok('GET', `/api/executions/${whole.id}`)).stdout === 'first\n', { what: 'the first line before the end' });
    await until(async () => (await server.ok('GET', `/api/executions/${whole.id}`)).stdout === 'first\nsecond\n', { what: 'the second line' });
  });

  test('displays, and files that are committed', async () => {
    if (!has()) return;
    const e = await js("display({'text/html': '<b>x</b>', 'image/png': Buffer.from('89504e470d0a1a0a', 'hex')});\nrequire('fs').writeFileSync('made.txt', 'by node')");
    assert.equal(e.displays[0]['text/html'], '<b>x</b>');
    assert.equal(e.displays[0]['image/png'], 'iVBORw0KGgo=');
    assert.deepEqual(e.files.created.map(({ path }) => path), ['made.txt']);
    assert.equal((await s.read('made.txt')).text, 'by node');
    assert.equal((await s.python('open("made.txt").read()')).result['text/plain'], "'by node'");
  });

  test('Python and JavaScript keep their own variables side by side', async () => {
    if (!has()) return;
    await s.python('both = "python"');
    await js('var both = "javascript"');
    assert.equal((await s.python('both')).result['text/plain'], "'python'");
    assert.equal(await value('both'), "'javascript'");
  });
});

describe('errors', () => {
  test('an exception has a name, a message and the lines of the cell', async () => {
    if (!has()) return;
    const e = await s.execute('javascript', 'function f(n) {\n  throw new TypeError("bad " + n)\n}\nf(3)');
    assert.equal(e.outcome, 'error');
    assert.equal(e.error.name, 'TypeError');
    assert.equal(e.error.message, 'bad 3');
    const text = e.error.traceback.join('\n');
    assert.match(text, /at f \(cell\[\d+\]:2:9\)/);
    assert.doesNotMatch(text, /glovebox-driver|node:internal/);
    assert.equal(e.interpreter_lost, false);
    assert.equal(await value('1 + 1'), '2');
  });

  test('syntax errors, thrown values, rejected promises and exit codes', async () => {
    if (!has()) return;
    const names = [];
    for (const code of ['let = ;', 'throw 5', 'Promise.reject(new RangeError("r"))', 'setTimeout(() => { throw new URIError("late") }, 10); undefined', 'process.exit(3)']) {
      const e = await s.execute('javascript', code);
      assert.equal(e.outcome, 'error', code);
      names.push(e.error.name);
    }
    assert.deepEqual(names, ['SyntaxError', 'Error', 'RangeError', 'URIError', 'ProcessExit']);
    assert.equal((await s.execute('javascript', 'process.exit(0)')).outcome, 'ok');
    assert.equal(await value('2'), '2');
  });
});

describe('endings', () => {
  test('a loop is interrupted at its time limit and variables are kept', async () => {
    if (!has()) return;
    await js('var kept = 1');
    for (const code of ['while (true) {}', 'await new Promise(() => { setTimeout(() => {}, 1e6) })']) {
      const e = await s.execute('javascript', code, { timeout_s: 5 });
      assert.equal(e.outcome, 'timeout', JSON.stringify(e.error));
      assert.match(e.error.message, /interrupted and its variables are kept/);
      assert.equal(await value('kept'), '1');
    }
  });

  test('code that ignores the interrupt is killed; Python goes on', async () => {
    if (!has()) return;
    await s.python('other = 5');
    const e = await s.execute('javascript', 'for (;;) { try { for (;;) {} } finally { continue } }', { timeout_s: 5 });
    assert.equal(e.outcome, 'timeout');
    if (e.interpreter_lost) {
      assert.match(e.error.message, /fresh interpreter/);
      assert.equal((await s.execute('javascript', 'typeof kept')).interpreter, 'fresh');
    }
    const hung = await s.execute('javascript', "require('child_process').execSync('trap \"\" INT; sleep 100')", { timeout_s: 5 });
    assert.equal(hung.outcome, 'timeout');
    assert.equal(hung.interpreter_lost, true, JSON.stringify(hung.error));
    assert.match(hung.error.message, /ignored the interrupt and was killed/);
    assert.equal((await s.python('other')).result['text/plain'], '5');
    const next = await s.execute('javascript', 'typeof kept');
    assert.deepEqual([next.interpreter, next.result['text/plain']], ['fresh', "'undefined'"]);
    assert.match(next.notice, /variables of earlier executions are gone/);
  });

  test('a crash is told, and the next execution starts anew', async () => {
    if (!has()) return;
    for (const [code, outcome] of [['process.abort()', 'crashed'], ['process.kill(process.pid, "SIGKILL")', 'killed'], ['process.reallyExit(4)', 'crashed']]) {
      await js('var mine = 1');
      const e = await s.execute('javascript', code);
      assert.equal(e.outcome, outcome, JSON.stringify(e.error));
      assert.equal(e.interpreter_lost, true);
      assert.equal(await value('typeof mine'), "'undefined'");
    }
    assert.equal((await s.python('1')).interpreter, 'same');
  });

  test('garbage on the channel ends that interpreter only', async () => {
    if (!has()) return;
    const e = await s.execute('javascript', "require('fs').writeSync(3, Buffer.alloc(64, 255)); await new Promise((r) => setTimeout(r, 3000))");
    assert.equal(e.outcome, 'crashed');
    assert.match(e.error.message, /garbled/);
    assert.equal(await value('1'), '1');
    assert.equal((await s.python('1')).interpreter, 'same');
  });

  test('memory and processes are limited', async () => {
    if (!has()) return;
    const t = await server.session();
    const e = await t.execute('javascript', 'const hold = []; for (;;) hold.push(Buffer.alloc(16 << 20, 1))');
    assert.equal(e.outcome, 'oom', JSON.stringify(e.error));
    assert.equal((await t.execute('javascript', '1')).outcome, 'ok');
    const many = await t.execute('javascript', "const { spawn } = require('child_process'); let failed = 0;\nfor (let i = 0; i < 100; i++) { const c = spawn('sleep', ['5']); c.on('error', () => failed++); c.unref() }\nawait new Promise((r) => setTimeout(r, 500)); failed > 0");
    assert.equal(many.result?.['text/plain'], 'true', JSON.stringify(many));
    await t.delete();
  });

  test('cancel and interrupt reach it', async () => {
    if (!has()) return;
    const running = await server.ok('POST', `${s.path}/executions`, { language: 'javascript', mode: 'async', code: 'console.log("on"); while (true) {}' });
    await until(async () => (await server.ok('GET', `/api/executions/${running.id}`)).stdout === 'on\n', { what: 'it runs' });
    await server.ok('POST', `${s.path}/interrupt`);
    const e = await until(async () => { const now = await server.ok('GET', `/api/executions/${running.id}`); return now.status === 'completed' && now; });
    assert.equal(e.outcome, 'cancelled');
    assert.equal(e.interpreter_lost, false);
  });

  test('reset forgets; a fresh execution forgets', async () => {
    if (!has()) return;
    await js('var x1 = 1');
    await server.ok('POST', `${s.path}/reset`);
    assert.equal(await value('typeof x1'), "'undefined'");
  });
});

test('the environment of the session reaches it', async () => {
  if (!has()) return;
  assert.equal(await value('process.cwd() + process.env.HOME'), "'/mnt/data/home/user'");
  assert.match(await value('process.version'), /^'v\d+/);
  assert.equal(await value("require('os').userInfo().username"), "'user'");
});
