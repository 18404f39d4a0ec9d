// SPDX-License-Identifier: Apache-2.0
// Kill tests: any of our processes may die at any moment. What was promised
// holds for those that live on, and the next start finds nothing in its way
// and leaves nothing behind.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { allProcesses, Glovebox, pool, onGvisor, processOnly, sleep, until } from '../lib/glovebox.mjs';

const nothing = { processes: 0, groups: 0, loops: 0, images: 0 };
// Nothing is kept ready, so that what is there is what was left.
const config = { stop_deadline_s: 1, pools: [pool({ ready: 0, scratch_bytes: '16MiB', scratch_inodes: 1000 })] };

const clinging = `
import os, signal, time
for i in range(3):
    if os.fork() == 0:
        os.setsid()
        for s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)
        f = open("/mnt/data/held%d" % i, "w"); f.write("x" * 100000); f.flush()
        while True: time.sleep(100)
`;

const gone = (pids) => until(() => !allProcesses().some(({ pid, zombie }) => pids.includes(pid) && !zombie), { ms: 10_000, what: `${pids} gone` });
const empty = (g, what) => until(() => JSON.stringify(g.holdings()) === JSON.stringify(nothing), { ms: 10_000, what })
  .catch((error) => { throw new Error(`${what}: ${JSON.stringify(g.holdings())}`, { cause: error }); });

// Of one that is dead: its host uids may be another service's by now, so its
// processes are known by their pids, and by the groups, which cannot go first.
const cleared = async (g, pids) => {
  await gone(pids);
  await until(() => g.groups().length + g.loops().length + g.images().length === 0, { ms: 10_000, what: 'nothing left of the dead' });
};

// Starts again on the same directory; what the dead one left must be gone.
async function restarts(dead, pids = []) {
  const g = await Glovebox.start({ dir: dead.dir, config });
  try {
    assert.equal(g.key, dead.key, 'the key is the same');
    await gone(pids);
    await empty(g, 'what the new one finds and holds');
    const session = await g.session();
    assert.equal(await session.out('import os; print(os.listdir("/mnt/data"))'), '[]');
    await session.delete();
    await empty(g, 'after a session');
  } finally {
    await g.stop();
  }
  assert.deepEqual(g.groupRoots(), []);
  assert.deepEqual(g.mounts(), []);
}

// A daemon with sessions that hold on to everything, one of them running.
async function busy() {
  const g = await Glovebox.start({ config });
  await empty(g, 'the sandbox that proved the runtime is gone');
  const sessions = await Promise.all([1, 2, 3].map(() => g.session()));
  await Promise.all(sessions.map((s) => s.python(clinging)));
  const running = g.call('POST', `${sessions[0].path}/executions`, { language: 'python', code: 'while True: pass' }).catch((error) => error);
  await until(async () => (await sessions[0].get()).state === 'running');
  const held = g.holdings();
  assert.ok(held.processes >= (onGvisor ? 6 : 15) && held.loops === 3 && held.images === 3, JSON.stringify(held));
  const zygote = g.zygotes()[0].pid;
  return { g, sessions, running, zygote, warden: g.processes().warden, pids: [zygote, ...g.sessionProcesses().map(({ pid }) => pid)] };
}

describe('R7 C11 a killed service', () => {
  test('R7 a graceful stop leaves nothing', async () => {
    const { g, running, warden, pids } = await busy();
    await g.stop({ keep: true });
    await running;
    assert.deepEqual(g.exit, { code: 0, signal: null });
    await gone([warden, ...pids]);
    assert.deepEqual({ ...g.holdings(), processes: 0 }, nothing);
    assert.deepEqual(g.groupRoots(), []);
    assert.deepEqual(g.mounts(), []);
    assert.ok(!existsSync(join(g.dir, 'data', 'endpoint')));
    await g.stop();
  });

  test('R7 gloveboxd killed: the warden ends everything, and the next start works', async () => {
    const { g, running, warden, pids } = await busy();
    g.child.kill('SIGKILL');
    await g.exited;
    await running;
    await cleared(g, [warden, ...pids]); // the warden cleans up
    await restarts(g);
  });

  test('R7 the warden killed: sessions end, gloveboxd says so and ends, the next start works', async () => {
    const { g, running, warden, pids } = await busy();
    process.kill(warden, 'SIGKILL');
    const exit = await g.exited;
    assert.ok(exit.code > 0, JSON.stringify(exit));
    assert.match(g.log, /warden/);
    await running;
    await gone(pids); // nothing outlives the warden
    assert.ok(g.images().length > 0, 'nobody was there to remove the files');
    await restarts(g);
  });

  test('R7 both killed at once, with a group frozen: the next start finds and ends it', async () => {
    const { g, running, warden, zygote, sessions, pids } = await busy();
    const uids = [...new Set(g.sessionProcesses().map(({ uid }) => uid))];
    assert.equal(uids.length, sessions.length);
    const group = g.group(uids[1], 'freezer');
    const [knob, word] = existsSync(join(group, 'freezer.state')) ? ['freezer.state', 'FROZEN'] : ['cgroup.freeze', '1'];
    writeFileSync(join(group, knob), word);
    // The warden first: it would begin to clean up when the daemon goes.
    process.kill(warden, 'SIGKILL');
    g.child.kill('SIGKILL');
    await g.exited;
    await running;
    await gone([warden, zygote]);
    await sleep(300);
    const left = g.holdings();
    const alive = allProcesses().filter(({ pid }) => pids.includes(pid)).length;
    assert.ok(left.groups > 0 && left.images === 3 && alive > 0, `there is something to clean up: ${alive} ${JSON.stringify(left)}`);
    await restarts(g, pids);
  });

  test('R7 killed at odd moments of making and ending sessions', async () => {
    for (let round = 0; round < 4; round++) {
      const g = await Glovebox.start({ config: { pools: [pool({ ready: 2, scratch_bytes: '16MiB', scratch_inodes: 1000 })] } });
      const { warden } = g.processes();
      let stop = false;
      const churn = Array.from({ length: 4 }, async () => {
        while (!stop)
          try {
            const session = await g.session();
            await session.python('open("/mnt/data/x", "w").write("x" * 10000)');
            await session.delete();
          } catch {
            stop = true; // it is dead
          }
      });
      await sleep(100 + Math.random() * 400);
      for (const kill of round % 2 ? [() => process.kill(warden, 'SIGKILL')] : [() => g.child.kill('SIGKILL'), () => process.kill(warden, 'SIGKILL')]) kill();
      await g.exited;
      stop = true;
      await Promise.all(churn);
      await restarts(g);
    }
  });

  test('R7 killed while starting', async () => {
    for (const ms of [5, 40, 120]) {
      const g = await Glovebox.start({ config, wait: false });
      await sleep(ms);
      g.child.kill('SIGKILL');
      await g.exited;
      const next = await Glovebox.start({ dir: g.dir, config });
      assert.equal(await (await next.session()).out('print("up")'), 'up');
      await next.stop();
      assert.deepEqual(next.groupRoots(), []);
    }
  });
});

describe('R7 R9 a killed part of a session', () => {
  let g;

  before(async () => { g = await Glovebox.start({ config }); });
  after(() => g?.stop());

  for (const part of ['kernel', 'init'])
    for (const when of ['idle', 'running'])
      test(`R7 R9 its ${part} killed while it is ${when}: said truly, and the next run works with its files`, async () => {
        const session = await g.session();
        await session.out('kept = 1; open("/mnt/data/file", "w").write("there")');
        const pid = (await session.onHost())[part];
        const run = when === 'running' && session.python('import time; time.sleep(30)');
        if (run) await until(async () => (await session.get()).state === 'running');
        process.kill(pid, 'SIGKILL');
        if (run) {
          const e = await run;
          assert.equal(e.outcome, 'killed', JSON.stringify(e.error));
        } else {
          // Reaped and said; a run that came before would truly be killed.
          await until(() => !allProcesses().some((p) => p.pid === pid), { what: 'reaped' });
          await sleep(200);
        }
        const next = await session.python('print("kept" in globals(), open("/mnt/data/file").read())');
        assert.deepEqual([next.outcome, next.stdout.trim(), next.interpreter], ['ok', 'False there', 'fresh']);
        await session.delete();
        await empty(g, 'after its end');
      });

  test('R7 R9 a shell killed from outside is its own error, and Python keeps its variables', processOnly('a guest\'s processes are not the host\'s'), async () => {
    const session = await g.session();
    await session.out('kept = 1');
    const run = session.shell('sleep 4444; true');
    const sleeper = await until(() => allProcesses().find(({ pid, name }) => name === 'sleep' && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('4444')));
    process.kill(sleeper.ppid, 'SIGKILL');
    const e = await run;
    assert.deepEqual([e.outcome, e.exit_code], ['error', 137]);
    assert.equal(await session.out('print(kept)'), '1');
    await session.delete();
  });

  test('Z6 zygotes killed again and again: every session asked for is made', async () => {
    for (let i = 0; i < 4; i++) {
      const kept = await g.session();
      const zygotes = g.zygotes().map(({ pid }) => pid);
      for (const pid of zygotes) process.kill(pid, 'SIGKILL');
      const made = await Promise.all([g.session(), g.session()]);
      for (const session of [kept, ...made]) assert.equal(await session.out('print("here")'), 'here');
      assert.ok(!g.zygotes().some(({ pid }) => zygotes.includes(pid)));
      await Promise.all([kept, ...made].map((session) => session.delete()));
    }
    await empty(g, 'after that');
  });
});
