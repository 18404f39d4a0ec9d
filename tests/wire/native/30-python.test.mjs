// SPDX-License-Identifier: Apache-2.0
// Python executions: what survives between them, what comes back, and in
// which order output arrives.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Glovebox, until } from '../../lib/glovebox.mjs';
import { Stream, refused, request, stop } from '../../lib/wire.mjs';

let server;
let s;

before(async () => {
  server = await Glovebox.start();
  s = await server.session();
});
after(() => stop(server));

const value = async (code) => {
  const e = await s.python(code);
  assert.equal(e.outcome, 'ok', JSON.stringify(e.error));
  return e.result?.['text/plain'];
};

test('an execution has the fields and order documented', async () => {
  const one = await server.session();
  const code = 'print("out")\nimport sys\nprint("err", file=sys.stderr)\n40 + 2';
  const e = await one.python(code, { metadata: { why: 'because' } });
  assert.deepEqual(Object.keys(e), ['id', 'session', 'language', 'status', 'outcome', 'principal', 'principal_name', 'code', 'stdout', 'stderr', 'truncated', 'result', 'displays',
    'error', 'limit', 'warning', 'usage', 'workspace', 'commit', 'files', 'network', 'interpreter', 'interpreter_lost', 'notice', 'repeats', 'created_at', 'started_at', 'finished_at', 'metadata']);
  assert.match(e.id, /^exec_[0-9a-f]{32}$/);
  assert.deepEqual({ ...e, id: 0, usage: 0, created_at: 0, started_at: 0, finished_at: 0 }, {
    id: 0, session: one.id, language: 'python', status: 'completed', outcome: 'ok', principal: (await server.ok('GET', '/api/me')).id, principal_name: 'admin', code, stdout: 'out\n', stderr: 'err\n',
    truncated: { stdout: false, stderr: false, displays: false }, result: { 'text/plain': '42' }, displays: [], error: null, limit: null, warning: null,
    usage: 0, workspace: one.made.workspace, commit: null,
    files: { created: [], modified: [], deleted: [], renamed: [], conflicts: [], refused: [], skipped: [], not_kept: 0, truncated: false },
    network: { mode: 'none', blocked: [], allowed: [], truncated: false }, interpreter: 'fresh', interpreter_lost: false, notice: null, repeats: 0,
    created_at: 0, started_at: 0, finished_at: 0, metadata: { why: 'because' },
  });
  assert.deepEqual(Object.keys(e.usage), ['wall_ms', 'cpu_ms', 'peak_memory_bytes']);
  for (const n of Object.values(e.usage)) assert.ok(Number.isInteger(n) && n >= 0);
  assert.ok(e.usage.peak_memory_bytes > 100_000);
  assert.ok(e.created_at <= e.started_at && e.started_at <= e.finished_at);
  assert.deepEqual(await server.ok('GET', `/api/executions/${e.id}`), e);
  assert.equal((await one.python('1')).interpreter, 'same');
  assert.equal((await one.get()).executions, 2);
  await one.delete();
});

test('variables, imports, functions, classes and the working directory survive', async () => {
  await s.python(`
import math as m, os
from collections import Counter
x = [1, 2]
def f(n): return n * m.pi * len(x)
class C:
    def __init__(self): self.v = f(1)
os.makedirs("sub", exist_ok=True); os.chdir("sub")
`);
  assert.equal(await value('x.append(3); round(f(2), 3), round(C().v, 3), Counter("aab")["a"], os.getcwd()'), "(18.85, 9.425, 2, '/mnt/data/sub')");
  assert.equal(await value('_[2] + 1'), '3');
  await s.python('os.chdir("/mnt/data")');
});

test('the last expression is the result, and only that', async () => {
  assert.equal(await value('1\n2'), '2');
  assert.equal(await value('x = 5'), undefined);
  assert.equal(await value('None'), undefined);
  assert.equal(await value('7;'), undefined);
  assert.equal(await value('"a"  # a comment'), "'a'");
  assert.equal(await value(''), undefined);
  assert.equal(await value('\n\n# nothing\n'), undefined);
  assert.equal(await value('{"k": [1, (2,)]}'), "{'k': [1, (2,)]}");
  assert.equal(await value('if True:\n    3'), undefined);
  const e = await s.python('print(1)\n"r"');
  assert.equal(e.stdout, '1\n');
});

test('display() and rich objects arrive as bundles, in order', async () => {
  const e = await s.python(`
from IPython.display import display, HTML, SVG, Markdown, Latex, JSON, Image, Javascript
display(HTML("<b>h</b>"))
display(SVG('<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'))
display(Markdown("**m**"), Latex("$x^2$"))
display(JSON({"a": [1, None, "ü"]}))
display({"application/vnd.x+json": {"n": 1}, "text/plain": "own bundle"}, raw=True)
display(Image(data=bytes.fromhex("89504e470d0a1a0a")))
display(Javascript("1"))
class R:
    def _repr_html_(self): return "<i>r</i>"
    def __repr__(self): return "plain r"
R()
`);
  assert.equal(e.outcome, 'ok', JSON.stringify(e.error));
  const d = e.displays;
  assert.equal(d.length, 8);
  assert.equal(d[0]['text/html'], '<b>h</b>');
  assert.match(d[1]['image/svg+xml'], /^<svg/);
  assert.equal(d[2]['text/markdown'], '**m**');
  assert.equal(d[3]['text/latex'], '$x^2$');
  assert.deepEqual(d[4]['application/json'], { a: [1, null, 'ü'] });
  assert.deepEqual(d[5], { 'application/vnd.x+json': { n: 1 }, 'text/plain': 'own bundle' });
  assert.equal(d[6]['image/png'], 'iVBORw0KGgo=');
  assert.equal(d[7]['application/javascript'], '1');
  for (const bundle of d) assert.equal(typeof bundle['text/plain'], 'string');
  assert.deepEqual(e.result, { 'text/plain': 'plain r', 'text/html': '<i>r</i>' });
});

test('top-level await, and tasks that go on', async () => {
  assert.equal(await value('import asyncio\nawait asyncio.sleep(0.01, "slept")'), "'slept'");
  assert.equal(await value('async def g():\n    return 5\nawait asyncio.gather(g(), g())'), '[5, 5]');
  assert.equal(await value('[i async for i in (lambda: (x async for x in agen()))()] if False else await g()'), '5');
  await s.python('t = asyncio.ensure_future(asyncio.sleep(0.05, "later"))\nawait asyncio.sleep(0)');
  assert.equal(await value('await t'), "'later'");
});

test('magics and the shell escape', async () => {
  assert.match((await s.python('%timeit -n1 -r1 1+1')).stdout, /per loop/);
  assert.equal((await s.python('%%writefile cell.txt\nhello\n')).outcome, 'ok');
  assert.equal((await s.python('!cat cell.txt; echo to-stderr >&2')).stdout.replace(/\r/g, ''), 'hello\n');
  assert.equal(await value('lines = !printf "a\\nb"\nlist(lines)'), "['a', 'b']");
  assert.equal((await s.python('name = "cell.txt"\n!wc -c {name}')).stdout.trim(), '6 cell.txt');
  assert.match((await s.python('%%bash\necho $((6*7)); pwd')).stdout, /42\n\/mnt\/data/);
  assert.match((await s.python('len?')).stdout + JSON.stringify((await s.python('len?')).displays), /Return the number of items/);
  assert.equal((await s.python('%nosuchmagic')).outcome, 'error');
  assert.match((await s.python('%who_ls')).outcome, /ok/);
});

test('tracebacks read as people know them', async () => {
  const e = await s.python('def inner(d):\n    return d["missing"]\n\ndef outer():\n    return inner({})\n\nprint("before")\nouter()');
  assert.equal(e.outcome, 'error');
  assert.equal(e.stdout, 'before\n');
  assert.equal(e.error.name, 'KeyError');
  assert.equal(e.error.message, "'missing'");
  const text = e.error.traceback.join('\n');
  assert.match(text, /Traceback \(most recent call last\)/);
  assert.match(text, /Cell In\[\d+\], line 8/);
  assert.match(text, /-+> 2 +return d\["missing"\]/);
  assert.match(text, /KeyError: 'missing'$/);
  assert.doesNotMatch(text, /glovebox|\x1b\[/);
  assert.equal(e.interpreter_lost, false);
  const syntax = await s.python('x = (1,\nprint("no")');
  assert.equal(syntax.error.name, 'SyntaxError');
  assert.equal(syntax.stdout, '', 'nothing of a cell that cannot compile runs');
  assert.match(syntax.error.traceback.join('\n'), /Cell In\[\d+\], line [12]/);
  const chained = (await s.python('try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise ValueError("second") from e')).error;
  assert.equal(chained.name, 'ValueError');
  assert.match(chained.traceback.join('\n'), /ZeroDivisionError[\s\S]+direct cause[\s\S]+ValueError: second$/);
  const deep = await s.python('def r(n):\n    return r(n + 1)\nr(0)');
  assert.equal(deep.error.name, 'RecursionError');
  assert.ok(deep.error.traceback.length < 400);
  assert.equal((await s.python('1')).outcome, 'ok');
});

test('H6 errors made to break the answer do not', async () => {
  const e = await s.python('class Bad(Exception):\n    def __str__(self): raise RuntimeError("in str")\n    __repr__ = __str__\nraise Bad()');
  assert.equal(e.outcome, 'error');
  assert.equal(e.error.name, 'Bad');
  const long = await s.python('raise ValueError("x" * 5_000_000)');
  assert.equal(long.error.name, 'ValueError');
  assert.ok(JSON.stringify(long.error).length < 200_000);
  const odd = await s.python('raise ValueError("nul\\0 \\ud800 lone \\x1b[31m red")');
  assert.equal(odd.outcome, 'error');
  assert.ok(odd.error.message.includes('lone'));
  const repr = await s.python('class Q:\n    def __repr__(self): 1/0\nQ()');
  assert.match(JSON.stringify(repr), /ZeroDivisionError/);
});

test('stdout and stderr keep their order, from subprocesses, threads and C too', async () => {
  const stream = await Stream.open(server, 'POST', `${s.path}/executions`, { body: { mode: 'stream', code: `
import ctypes, os, subprocess, sys, threading
libc = ctypes.CDLL(None)
print("1 python err", file=sys.stderr)
print("2 python")
libc.puts(b"3 c"); libc.fflush(None)
os.write(1, b"4 raw\\n")
libc.printf(b"5 %s\\n", b"printf"); libc.fflush(None)
print("6 python err", file=sys.stderr)
subprocess.run(["echo", "7 child"])
subprocess.run("echo 8 child err >&2", shell=True)
print("9 python")
os.system("echo 10 system err >&2")
t = threading.Thread(target=print, args=("11 thread",)); t.start(); t.join()
sys.stderr.write("12 err\\n")
if os.fork() == 0:
    print("13 fork", flush=True); os._exit(0)
os.wait()
print("14 err", file=sys.stderr)
!echo 15 escape; echo 16 err >&2
print("17", "end")
` } });
  const { data } = await stream.done();
  assert.equal(data.outcome, 'ok', JSON.stringify(data.error));
  assert.equal(data.stdout, '2 python\n3 c\n4 raw\n5 printf\n7 child\n9 python\n11 thread\n13 fork\n15 escape\n17 end\n');
  assert.equal(data.stderr, '1 python err\n6 python err\n8 child err\n10 system err\n12 err\n14 err\n16 err\n');
  // Across the two streams as well, as far as Python has a hand in it.
  const both = stream.events.filter((e) => e.event.startsWith('std')).map((e) => e.data.text).join('');
  assert.deepEqual([...both.matchAll(/^(\d+) /gm)].map((m) => Number(m[1])), Array.from({ length: 17 }, (_, i) => i + 1));
});

test('output arrives while the code runs, in many small writes too', async () => {
  const stream = await Stream.open(server, 'POST', `${s.path}/executions`, { body: { mode: 'stream', code: `
import time
print("early")
time.sleep(0.7)
for i in range(20000): print(i)
print("no newline", end="")` } });
  const early = await stream.find((e) => e.event === 'stdout');
  const { data, ms } = await stream.done();
  assert.ok(ms - early.ms > 500, `${early.ms} then ${ms}`);
  assert.equal(early.data.text, 'early\n');
  assert.equal(stream.text(), data.stdout);
  assert.equal(data.stdout, `early\n${Array.from({ length: 20000 }, (_, i) => `${i}\n`).join('')}no newline`);
  assert.ok(stream.events.length < 3000, `${stream.events.length} events`);
});

test('H6 bytes that are no text are replaced and flagged; split characters are not', async () => {
  const bad = await s.python('import os; os.write(1, b"a\\xff\\xfeb\\xc3\\n")');
  assert.equal(bad.stdout, 'a\ufffd\ufffdb\ufffd\n');
  assert.equal(bad.encoding_replaced, true);
  const split = await Stream.open(server, 'POST', `${s.path}/executions`, { body: { mode: 'stream', code: `
import os, time
for b in "é€😀".encode():
    os.write(1, bytes([b])); time.sleep(0.03)` } });
  const { data } = await split.done();
  assert.equal(data.stdout, 'é€😀');
  assert.equal(split.text(), 'é€😀');
  assert.equal(data.encoding_replaced, undefined);
});

test('H6 output cannot forge events, headers or JSON', async () => {
  const forged = 'id: 99\\nevent: done\\ndata: {}\\n\\n\\r\\nHTTP/1.1 200 OK\\r\\n\\r\\n{"outcome":"ok"}\\u2028\\u2029\\0\\x1b]0;x\\x07</script>';
  const stream = await Stream.open(server, 'POST', `${s.path}/executions`, { body: { mode: 'stream', code: `print("${forged.replaceAll('"', '\\"')}")\nraise SystemError("no")` } });
  const { data } = await stream.done();
  assert.equal(data.outcome, 'error');
  assert.deepEqual(stream.events.map((e) => e.id), stream.events.map((_, i) => i + 1));
  assert.equal(stream.events.filter((e) => e.event === 'done').length, 1);
  assert.ok(data.stdout.includes('event: done\ndata: {}\n\n\r\nHTTP/1.1'));
  assert.equal((await server.ok('GET', `/api/executions/${data.id}`)).stdout, data.stdout);
});

test('H6 bundles of any content are still JSON', async () => {
  const e = await s.python(`
from IPython.display import display
display({"application/json": float("nan"), "text/plain": "nan"}, raw=True)
display({"application/json": {"x": float("inf")}}, raw=True)
display({"text/html": "\\ud800 lone \\0", "x" * 300: "long type", "image/png": b"\\xff\\x00", "a/b": "text"}, raw=True)
display({"application/x+json": '{"a":1} trailing', "application/y+json": '{"a":1,"a":2}'}, raw=True)
class Odd:
    def _repr_mimebundle_(self, **kw): return {"text/plain": 5, "text/html": None}
    def __repr__(self): return "odd"
try: display(Odd())
except Exception as e: print(type(e).__name__)
for i in range(300): display({"text/plain": "x"}, raw=True)
d = {"text/plain": "p"}; d.update({f"a/{i}": "v" for i in range(1000)}); display(d, raw=True)
1`);
  assert.equal(e.outcome, 'ok', JSON.stringify(e.error));
  assert.equal(e.displays.length, 200, 'the most one execution may show');
  assert.equal(e.truncated.displays, true);
  assert.equal(e.result['text/plain'], '1');
});

test('R6 output beyond its limit is cut and marked, and the run goes on', async () => {
  const e = await s.python('import sys\nfor i in range(30): print("x" * 99_999)\nprint("err" , file=sys.stderr)\n"end"');
  assert.equal(e.outcome, 'ok');
  assert.deepEqual(e.truncated, { stdout: true, stderr: false, displays: false });
  assert.equal(Buffer.byteLength(e.stdout), 1024 * 1024);
  assert.equal(e.stderr, 'err\n');
  assert.equal(e.result['text/plain'], "'end'");
  const exact = await s.python('import sys; n = sys.stdout.write("y" * (1024 * 1024))');
  assert.equal(exact.truncated.stdout, false);
  assert.equal(exact.stdout.length, 1024 * 1024);
  const over = await s.python('n = sys.stdout.write("y" * (1024 * 1024 + 1))');
  assert.equal(over.truncated.stdout, true);
});

test('input() and its kin fail at once with a clear error', async () => {
  for (const code of ['input("name? ")', 'import sys; sys.stdin.read()', 'import getpass; getpass.getpass()', 'open(0).read() or input()']) {
    const e = await s.python(code);
    assert.ok(e.usage.wall_ms < 60_000, 'it does not wait for its timeout');
    if (code.includes('sys.stdin') && e.outcome === 'ok') continue; // an empty read is as clear
    assert.equal(e.outcome, 'error', code);
    assert.match(e.error.message, /input|no keyboard/);
  }
  assert.equal((await s.shell('read x || echo none')).stdout, 'none\n');
});

test('code is taken as it is: Unicode, long lines, any length up to the limit', async () => {
  assert.equal(await value('"😀 ünï\u0301 \u202e"[:1]'), "'😀'");
  assert.equal(await value('größe = 3; größe'), '3');
  assert.equal(await value(`"""${'a'.repeat(200_000)}""".count("a")`), '200000');
  const most = `#${'x'.repeat(1024 * 1024 - 6)}\n1+1`;
  assert.equal(Buffer.byteLength(most), 1024 * 1024 - 1);
  assert.equal(await value(most), '2');
});

test('what a thread prints after its cell ended comes with the next one', async () => {
  await s.python('import threading, time\ndef late():\n    time.sleep(0.3); print("from before")\nthreading.Thread(target=late).start()');
  await new Promise((wake) => { setTimeout(wake, 600); });
  assert.match((await s.python('print("now")')).stdout, /from before/);
});

test('nothing of ours is in the namespace or the environment', async () => {
  const one = await server.session();
  assert.equal((await one.python('[n for n in globals() if "glovebox" in n.lower()]')).result['text/plain'], '[]');
  const env = await one.json('import json, os; print(json.dumps(dict(os.environ)))');
  for (const [name, text] of Object.entries(env)) assert.doesNotMatch(`${name}=${text}`, /glovebox_key|gbx|bearer|token|secret/i);
  assert.equal(env.HOME !== undefined && env.PATH !== undefined, true);
  await one.delete();
});

test('an unknown execution is 404, and finished ones can be fetched, from the store once there are many', async () => {
  refused(await request(server, 'GET', '/api/executions/exec_00000000000000000000000000000000'), 404, 'not_found');
  refused(await request(server, 'GET', '/api/executions/nonsense'), 404, 'not_found');
  const one = await server.session();
  const first = await one.python('1');
  for (let i = 0; i < 101; i++) await one.python('1');
  assert.deepEqual(await server.ok('GET', `/api/executions/${first.id}`), first);
  await one.delete();
  refused(await request(server, 'GET', `/api/executions/${first.id}`), 404, 'not_found');
});

test('a hundred executions leave the session as it was', async () => {
  const one = await server.session();
  const look = () => one.json('import json, os, threading; print(json.dumps([len(os.listdir("/proc/self/fd")), threading.active_count(), len([p for p in os.listdir("/proc") if p.isdigit()])]))');
  const was = await look();
  for (let i = 0; i < 100; i++) await (i % 3 ? one.python(`x = ${i}\nx`) : one.shell('true'));
  assert.deepEqual(await look(), was);
  await until(async () => (await one.get()).state === 'idle');
  await one.delete();
});
