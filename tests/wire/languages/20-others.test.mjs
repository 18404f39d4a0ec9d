// SPDX-License-Identifier: Apache-2.0
// R with its state and plots; C, Go and Java as programs that are compiled and
// run; bash by its own name; and what is said when an image has no such thing.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { lacks, start } from '../../lib/languages.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';

let server;
let languages;
let s;

before(async () => {
  ({ server, languages } = await start({}, [{ memory_bytes: '2GiB', max_memory_bytes: '4GiB', processes: 256 }]));
  s = await server.session();
});
after(() => stop(server));

const run = async (language, code, extra) => {
  const e = await s.execute(language, code, extra);
  assert.equal(e.outcome, 'ok', `${JSON.stringify(e.error)}\n${e.stderr}`);
  return e;
};
// A test that skips where the image lacks the language.
const of = (language, name, fn) => test(name, async (t) => {
  const why = lacks(languages, language);
  return why ? t.skip(why) : fn(t);
});

describe('r', () => {
  const value = async (code) => (await run('r', code)).result?.['text/plain'];

  of('r', 'keeps variables, prints what is visible and returns the last value', async () => {
    const first = await run('r', 'x <- c(1, 2, 3)\nf <- function(n) sum(x) * n');
    assert.deepEqual([first.stdout, first.result], ['', null]);
    const e = await run('r', 'f(2)\ninvisible(5)\nmean(x)');
    assert.equal(e.stdout, '[1] 12\n');
    assert.equal(e.result['text/plain'], '[1] 2');
    assert.equal(await value('"größe"'), '[1] "größe"');
    assert.match(await value('data.frame(a = 1:2, b = c("x", "y"))'), /^ {2}a b\n1 1 x\n2 2 y$/);
  });

  of('r', 'plots are PNG displays', async () => {
    const e = await run('r', 'plot(1:10, (1:10)^2, main = "squares")\nlines(1:10)\nhist(rnorm(50))');
    assert.equal(e.displays.length, 2);
    const png = Buffer.from(e.displays[0]['image/png'], 'base64');
    assert.equal(png.subarray(1, 4).toString(), 'PNG');
    assert.equal(png.readUInt32BE(16), 800);
    assert.ok(png.length > 2000);
    const own = await run('r', 'png("mine.png"); plot(1); invisible(dev.off())');
    assert.deepEqual(own.files.created.map(({ path }) => path), ['mine.png']);
  });

  of('r', 'errors, warnings and messages', async () => {
    const e = await s.execute('r', 'g <- function(v) stop("no ", v)\ng("luck")');
    assert.equal(e.outcome, 'error');
    assert.deepEqual([e.error.name, e.error.message], ['simpleError', 'no luck']);
    assert.match(e.error.traceback.join('\n'), /Error in g\("luck"\) : no luck/);
    const w = await run('r', 'cat("one\\n"); warning("careful"); message("note"); cat("two\\n")');
    assert.equal(w.stdout, 'one\ntwo\n');
    assert.match(w.stderr, /Warning message:\ncareful\nnote\n/);
    const syntax = await s.execute('r', 'x <- (');
    assert.equal(syntax.outcome, 'error');
    assert.match(syntax.error.message, /unexpected end of input/);
    assert.equal((await s.execute('r', 'quit(status = 3)')).error.name, 'ProcessExit');
    assert.equal((await s.execute('r', 'q()')).outcome, 'ok');
    assert.equal(await value('sum(x)'), '[1] 6');
  });

  of('r', 'is interrupted in time and survives; a crash starts anew', async () => {
    const e = await s.execute('r', 'repeat {}', { timeout_s: 5 });
    assert.equal(e.outcome, 'timeout', JSON.stringify(e.error));
    assert.match(e.error.message, /variables are kept/);
    assert.equal(await value('sum(x)'), '[1] 6');
    const gone = await s.execute('r', 'tools::pskill(Sys.getpid(), 9)');
    assert.equal(gone.outcome, 'killed');
    const next = await s.execute('r', 'exists("x")');
    assert.deepEqual([next.interpreter, next.result['text/plain']], ['fresh', '[1] FALSE']);
    assert.match(next.notice, /variables of earlier executions are gone/);
  });
});

describe('compiled', () => {
  const hello = {
    c: '#include <stdio.h>\n#include <math.h>\nint main(void) { printf("%.0f\\n", sqrt(1764)); fprintf(stderr, "e\\n"); FILE *f = fopen("c.txt", "w"); fputs("c", f); return 0; }',
    go: 'package main\nimport ("fmt"; "os")\nfunc main() { fmt.Println(6 * 7); fmt.Fprintln(os.Stderr, "e"); os.WriteFile("go.txt", []byte("go"), 0644) }',
    java: 'import java.nio.file.*;\npublic class Answer {\n  public static void main(String[] a) throws Exception { System.out.println(6 * 7); System.err.println("e"); Files.writeString(Path.of("java.txt"), "java"); }\n}\nclass Helper { }',
  };
  const wrong = { c: 'int main(void) { return x; }', go: 'package main\nfunc main() { x }', java: 'class A { public static void main(String[] a) { x } }' };
  const fails = {
    c: '#include <stdlib.h>\nint main(void) { exit(3); }',
    go: 'package main\nimport "os"\nfunc main() { os.Exit(3) }',
    java: 'class A { public static void main(String[] a) { System.exit(3); } }',
  };
  const loops = { c: 'int main(void) { for (;;); }', go: 'package main\nfunc main() { for {} }', java: 'class A { public static void main(String[] a) { for (;;); } }' };

  for (const language of ['c', 'go', 'java']) {
    of(language, `${language}: compiles, runs in /mnt/data and keeps nothing`, async () => {
      const e = await run(language, hello[language], { timeout_s: 120 });
      assert.equal(e.stdout, '42\n');
      assert.match(e.stderr, /e\n$/);
      assert.equal(e.exit_code, 0);
      assert.deepEqual(e.files.created.map(({ path }) => path), [`${language}.txt`]);
      assert.equal((await run('shell', 'ls -d /tmp/.glovebox-code.* 2>/dev/null | wc -l')).stdout, '0\n');
    });
    of(language, `${language}: what the compiler refuses, a status and a time limit`, async () => {
      const e = await s.execute(language, wrong[language], { timeout_s: 120 });
      assert.equal(e.outcome, 'error');
      assert.equal(e.error.name, 'CompileError');
      assert.match(e.stderr, /main\.(c|go)|Main\.java/);
      const status = await s.execute(language, fails[language], { timeout_s: 120 });
      assert.deepEqual([status.error.name, status.exit_code], ['ProgramError', 3]);
      const slow = await s.execute(language, loops[language], { timeout_s: 15 });
      assert.equal(slow.outcome, 'timeout');
      assert.equal((await s.python('1')).interpreter_lost, false);
    });
  }
});

test('bash is the shell by another name, with its state', async () => {
  await run('bash', 'cd /tmp; word=kept');
  const e = await run('shell', 'echo $PWD $word');
  assert.equal(e.stdout, '/tmp kept\n');
  assert.equal((await run('bash', 'cd /mnt/data')).language, 'shell');
});

describe('what an image does not have', () => {
  let small;
  before(async () => { small = await Glovebox.start({ config: { pools: [pool()] } }); });
  after(() => stop(small));

  test('is refused with the reason and what to do, and costs nothing', async () => {
    const t = await small.session();
    for (const [language, words] of [['r', /the runtime 'minimal' cannot run R: it has no R; it offers python, shell/], ['java', /no javac/], ['c', /no gcc/]]) {
      const answer = await request(small, 'POST', `${t.path}/executions`, { body: { language, code: '1' } });
      await refused(answer, 400, 'unsupported', words);
      assert.match(answer.body.error.hint, /Debian package|a session with the runtime/);
    }
    assert.equal((await t.python('1')).outcome, 'ok');
    const offered = await small.ok('GET', '/api/runtimes/minimal');
    assert.deepEqual(offered.languages, ['python', 'shell']);
  });

  test('an unknown language is an invalid request that lists the known ones', async () => {
    const t = await small.session();
    const answer = await request(small, 'POST', `${t.path}/executions`, { body: { language: 'cobol', code: '1' } });
    assert.equal(answer.status, 400);
    assert.match(answer.text, /javascript/);
  });
});

// At the end: it restarts the service that the others use.
describe('a restart of the service', () => {
  const kept = {
    javascript: ['kept = 42', 'typeof kept', "'undefined'"],
    r: ['kept <- 42', 'exists("kept")', '[1] FALSE'],
  };

  test('the next execution in JavaScript or R says that variables are gone, once', async (t) => {
    const here = Object.keys(kept).filter((l) => languages.includes(l));
    if (here.length === 0) return t.skip(lacks(languages, 'javascript'));
    const other = await server.session();
    for (const l of here) await run(l, kept[l][0]);
    await until(async () => (await server.ok('GET', `/api/executions?session=${s.id}`)).data.length >= here.length, { what: 'outputs' });
    const { dir } = server;
    await server.stop({ keep: true });
    ({ server } = await start({}, [{ memory_bytes: '2GiB', max_memory_bytes: '4GiB', processes: 256 }], dir));
    const again = (id, language, code) => server.ok('POST', `/api/sessions/${id}/executions`, { language, code });
    for (const l of here) {
      const [, code, gone] = kept[l];
      const first = await again(s.id, l, code);
      assert.deepEqual([first.interpreter, first.result['text/plain']], ['fresh', gone]);
      assert.match(first.notice ?? '', /variables of earlier executions are gone/, l);
      const second = await again(s.id, l, code);
      assert.deepEqual([second.interpreter, second.notice ?? null], ['same', null]);
      assert.equal((await again(other.id, l, code)).notice ?? null, null, 'it had no variables');
    }
  });
});
