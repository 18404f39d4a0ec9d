// SPDX-License-Identifier: Apache-2.0
// Every exit status that a run can end with, each produced for real: out of
// time, out of memory, out of room, killed, crashed, cancelled, and a wall
// that cannot be built.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { bin, Glovebox, pool, until } from '../../lib/glovebox.mjs';

describe('limits', () => {
  let server;
  let cli;

  before(async () => {
    server = await Glovebox.start({ config: { pools: [pool({ scratch_bytes: 16 << 20 })] } });
    cli = new Cli(server);
  });

  after(async () => {
    cli?.close();
    await server?.stop();
  });

  // [status, outcome, what is said, line]
  const rows = [
    [0, 'ok', /^$/, ['-c', 'pass']],
    [1, 'error', /ValueError: no/, ['-c', 'raise ValueError("no")']],
    [4, 'timeout', /timed out after 5 s; .*variables are kept/, ['-t', '5', '-c', 'while True: pass']],
    [5, 'oom', /64 MiB of memory/, ['-m', '64m', '-c', 'x = bytearray(1 << 30)']],
    [5, 'limit', /16 MiB|scratch|storage|full/i, ['-c', 'open("/mnt/data/big", "wb").write(bytes(64 << 20))']],
    [6, 'killed', /SIGKILL/, ['-c', 'import os; os.kill(os.getpid(), 9)']],
    [6, 'crashed', /SIGSEGV/, ['-c', 'import ctypes; ctypes.string_at(0)']],
    [6, 'crashed', /exit status 3/, ['-c', 'import os; os._exit(3)']],
  ];
  for (const [status, outcome, says, line] of rows) {
    test(`exit ${status}: ${outcome} of ${line.at(-1)}`, async () => {
      // Both forms at once: a timeout takes its seconds only once.
      const [shown, object] = await Promise.all([
        cli.exits(status, ['run', ...line]), cli.json(['run', ...line], { status })]);
      assert.match(shown.stderr, says);
      assert.equal(object.outcome, outcome);
      assert.equal(object.status, 'completed');
    });
  }

  test('exit 2 and 3: a wrong line, a service that is not there', async () => {
    await cli.exits(2, ['run', '--never']);
    const nowhere = { env: { GLOVEBOX_URL: 'http://127.0.0.1:1' } };
    for (const line of [['run', '-c', '1'], ['shell'], ['sessions'], ['files', 'list', 'x'], ['key', 'list']]) {
      const { stdout, stderr } = await cli.exits(3, line, nowhere);
      assert.equal(stdout, '');
      assert.match(stderr, /cannot reach http:\/\/127\.0\.0\.1:1/);
    }
    assert.equal((await cli.error(['sessions'], nowhere)).code, 'unavailable');
  });

  test('exit 7: cancelled by someone else', async () => {
    const id = (await cli.ok(['sessions', 'create'])).stdout.trim();
    const running = cli.start(['run', '-s', id, '-c', 'import time\nprint("up", flush=True)\ntime.sleep(60)']);
    await running.shows(/up/);
    await cli.ok(['sessions', 'delete', id]);
    const { status, stderr } = await running.ended;
    assert.equal(status, 7, stderr);
    assert.match(stderr, /deleted/);
  });
});

// The same image without one folder that a session mounts something on.
describe('a wall that cannot be built', () => {
  let dir;
  let server;
  let cli;

  before(async () => {
    dir = mkdtempSync(join(tmpdir(), 'glovebox-test-'));
    chmodSync(dir, 0o755);
    const { hash, image } = JSON.parse(spawnSync(bin('glovebox'), ['runtime', 'show', 'minimal', '--json'], { encoding: 'utf8' }).stdout);
    const copy = join(dir, 'images', `minimal-${hash}`);
    mkdirSync(copy, { recursive: true });
    const linked = spawnSync('cp', ['-a', '--link', `${image}/.`, copy]);
    if (linked.status !== 0) spawnSync('cp', ['-a', `${image}/.`, copy]); // another file system
    rmSync(join(copy, 'root/var/tmp'), { recursive: true });
    server = await Glovebox.start({ dir, wait: false, config: { runtime_dir: join(dir, 'images'), pools: [pool({ ready: 0 })] } });
    // It never becomes ready; it does listen.
    const data = (name) => readFileSync(join(dir, 'data', name), 'utf8').trim();
    await until(() => data('endpoint') && data('admin.key'), { what: 'endpoint' });
    cli = new Cli({ url: data('endpoint'), key: data('admin.key') });
  });

  after(async () => {
    cli?.close();
    await server?.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  test('exit 8: nothing runs, and the wall is named', async () => {
    const { stdout, stderr } = await cli.exits(8, ['run', '-c', 'print("ran")']);
    assert.equal(stdout, '');
    assert.match(stderr, /a wall could not be built \(writable places\)/);
    assert.equal((await cli.error(['sessions', 'create'], { status: 8 })).code, 'isolation_failed');
    assert.deepEqual(await cli.json(['sessions']), []);
  });
});
