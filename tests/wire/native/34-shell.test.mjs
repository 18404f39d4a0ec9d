// SPDX-License-Identifier: Apache-2.0
// The shell of a session: what one shell execution leaves to the next, and
// what it does not.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { changed, request, stop } from '../../lib/wire.mjs';

let server;

before(async () => {
  server = await Glovebox.start({
    config: {
      pools: [pool({ ready: 2, memory_bytes: '256MiB' }),
        pool({ name: 'quick', ready: 1, shell_timeout_s: 1 })],
    },
  });
});
after(() => stop(server));

// Runs commands in one new session; returns their executions.
async function run(commands, spec = {}) {
  const s = await server.session(spec);
  const done = [];
  for (const code of commands) done.push(await s.shell(code));
  await s.delete();
  return done;
}

async function outputs(commands, spec) {
  return (await run(commands, spec)).map((e) => e.stdout);
}

describe('one shell execution leaves to the next', () => {
  test('the working directory, and the one before it', async () => {
    const out = await outputs(['mkdir -p a/b && cd a/b', 'pwd; cd - >/dev/null', 'pwd; echo $OLDPWD',
      'pushd a >/dev/null', 'dirs; popd >/dev/null; pwd']);
    assert.deepEqual(out.slice(1, 3), ['/mnt/data/a/b\n', '/mnt/data\n/mnt/data/a/b\n']);
    assert.equal(out[4], '/mnt/data/a /mnt/data\n/mnt/data\n');
  });

  test('variables of every kind, exported ones to its programs', async () => {
    const set = `export A="x  y'\\""; B=$'two\\nlines'; declare -i n=4; list=(1 "2 3"); declare -A map=([k]="v w")
unset HOME; readonly R=r`;
    const [, e] = await run([set, `python3 -c 'import os; print(os.environ["A"], "B" in os.environ)'
n+=1; echo "$B" $n "\${#list[@]}" "\${map[k]}" "\${HOME-none}" $R`]);
    assert.equal(e.stdout, 'x  y\'" False\ntwo\nlines 5 2 v w none r\n', e.stderr);
    assert.equal(e.stderr, '');
  });

  test('functions, aliases, the umask and options', async () => {
    const [, e] = await run([`shopt -s extglob
hello() { echo "hello \${1%%+(x)}"; }
alias greet='hello alias'; umask 027; set -o pipefail; export -f hello`,
    `hello youxx
greet
umask; bash -c 'hello child'; false | true || echo pipefail`]);
    assert.equal(e.stdout, 'hello you\nhello alias\n0027\nhello child\npipefail\n', e.stderr);
  });

  test('all of it after an error and a non-zero exit', async () => {
    const [one, two, three, four] = await run(['cd /tmp; X=1; exit 3', 'pwd; Y=2; no-such-command',
      'echo $X $Y; f() { Z=3; exit 4; }; f', 'echo $X $Y $Z; pwd']);
    assert.deepEqual([one.exit_code, two.exit_code, three.exit_code], [3, 127, 4]);
    assert.equal(two.stdout, '/tmp\n');
    assert.equal(four.stdout, '1 2 3\n/tmp\n');
  });

  test('all of it beside an exit trap of its own', async () => {
    const [one, two] = await run(['trap \'echo bye $?; rm -f /mnt/data/t\' EXIT; touch t; cd /tmp; (exit 5)',
      'pwd; ls /mnt/data; (trap "echo sub" EXIT; cd /)\npwd']);
    assert.equal(one.stdout, 'bye 5\n');
    assert.equal(one.exit_code, 5);
    assert.equal(two.stdout, '/tmp\nsub\n/tmp\n');
  });

  test('a script too long for a command line does as well', async () => {
    const [, e] = await run([`#${'x'.repeat(120_000)}\nLONG=yes; cd /tmp`, 'echo $LONG; pwd']);
    assert.equal(e.stdout, 'yes\n/tmp\n');
  });
});

describe('it does not leave to the next', () => {
  test('errexit and nounset, which would end it early', async () => {
    const [, e] = await run(['set -euo pipefail; X=1', 'false; echo "on $X $undefined"']);
    assert.equal(e.stdout, 'on 1 \n');
  });

  test('a folder that is gone, and says so', async () => {
    const [, e, later] = await run(['mkdir d; cd d; X=1', 'rm -r /mnt/data/d', 'pwd; echo $X']);
    assert.equal(e.stderr, '');
    assert.equal(later.stdout, '/mnt/data\n1\n');
    assert.match(later.stderr, /working directory \/mnt\/data\/d is gone; using \/mnt\/data/);
  });

  test('anything when a signal ended it', async () => {
    const out = await outputs(['X=1; cd /tmp', 'X=2; cd /; kill -KILL $$', 'echo $X; pwd',
      'X=3; cd /; kill -INT $$', 'echo $X; pwd']);
    assert.equal(out[2], '1\n/tmp\n');
    assert.equal(out[4], '1\n/tmp\n');
  });

  test('anything when its time was up', async () => {
    const [, timed, e] = await run(['X=1; cd /tmp', 'X=2; cd /; sleep 30', 'echo $X; pwd'], { pool: 'quick' });
    assert.equal(timed.outcome, 'timeout');
    assert.equal(e.stdout, '1\n/tmp\n');
  });

  test('anything when it ran out of memory, which takes the interpreter too', async () => {
    const [, oom, e] = await run(['X=1; cd /tmp', 'X=2; python3 -c "x = bytearray(900 << 20)"; kill -9 $$',
      'echo $X; pwd']);
    assert.equal(oom.outcome, 'oom');
    assert.equal(e.stdout, '1\n/tmp\n');
  });

  test('more than a mebibyte: the state before stays, with a warning', async () => {
    const fill = (n) => `printf -v BIG '%*s' ${n} ''; cd /usr`;
    const [, fits, look, over, e] = await run(['X=1', fill(1_000_000), 'pwd; echo ${#BIG}; cd /tmp', fill(1_048_577),
      'pwd; echo ${#BIG}']);
    assert.equal(fits.stderr, '');
    assert.equal(look.stdout, '/usr\n1000000\n');
    assert.match(over.stderr, /not kept for the next execution: they exceed 1048576 bytes/);
    assert.equal(over.exit_code, 0);
    assert.equal(e.stdout, '/tmp\n1000000\n');
  });

  test('its trace', async () => {
    const [one, two] = await run(['set -x; X=1', 'echo $X']);
    assert.equal(one.stderr, '+ X=1\n');
    assert.equal(two.stderr, '+ echo 1\n');
  });
});

test('Python has a working directory and variables of its own', async () => {
  const s = await server.session();
  await s.python('import os; os.makedirs("py"); os.chdir("py"); os.environ["P"] = "1"');
  await s.shell('export S=1; cd /tmp');
  const e = await s.python('os.getcwd(), "S" in os.environ');
  assert.equal(e.result['text/plain'], "('/mnt/data/py', False)");
  assert.equal((await s.shell('pwd; echo ${P-none}')).stdout, '/tmp\nnone\n');
  assert.equal((await s.python('!pwd')).stdout, '/mnt/data/py\n');
  await s.delete();
});

test('a lost interpreter leaves the state of the shell, a reset clears it', async () => {
  const s = await server.session();
  await s.shell('cd /tmp; X=1; f() { :; }');
  await s.python('import os; os._exit(3)');
  assert.equal((await s.shell('pwd; echo $X; type -t f')).stdout, '/tmp\n1\nfunction\n');
  await request(server, 'POST', `${s.path}/reset`);
  assert.equal((await s.shell('pwd; echo "${X-none}"; type -t f')).stdout, '/mnt/data\nnone\n');
  await s.delete();
});

test('the state is private: no other session sees it, no workspace keeps it', async () => {
  const s = await server.session();
  const e = await s.shell('export SECRET=s3cret; cd /tmp');
  assert.deepEqual(changed(e), {});
  const look = await s.shell('stat -c "%a %U" /run/glovebox/shell; grep -c s3cret /run/glovebox/shell/state');
  assert.match(look.stdout, /^700 \S+\n1\n$/);
  const other = await server.session();
  assert.equal((await other.shell('pwd; echo "${SECRET-none}"')).stdout, '/mnt/data\nnone\n');
  await s.delete();
  await other.delete();
});

test('a session that damages its own state still has a shell', async () => {
  const s = await server.session();
  for (const harm of ['rm -rf /run/glovebox', 'cd /run/glovebox/shell && rm -f next && mkfifo next state.x && mv state.x state',
    'chmod 0 /run/glovebox/shell', 'chmod 700 /run/glovebox/shell; rm -r /run/glovebox/shell; ln -s /proc /run/glovebox/shell',
    'builtin trap - EXIT; rm /run/glovebox/shell; touch /run/glovebox/shell']) {
    await s.shell(harm);
    const e = await s.shell('echo works');
    assert.equal(e.stdout, 'works\n', `${harm}: ${e.stderr} ${e.outcome}`);
  }
  await s.delete();
});
