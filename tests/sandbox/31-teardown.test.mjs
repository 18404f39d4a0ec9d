// SPDX-License-Identifier: Apache-2.0
// R7 and R8: what ends leaves nothing, what goes on does not grow, and what
// is too much is refused at once. Looked at from the host.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { Glovebox, onGvisor, pool, sleep, until } from '../lib/glovebox.mjs';

const soak = process.env.GLOVEBOX_SOAK === '1';
let server;

before(async () => {
  server = await Glovebox.start({ config: {
    // Everything a session does is taken from nowhere else: nothing is kept
    // ready, so what the host holds is what sessions hold.
    pools: [pool({ ready: 0 }), pool({ name: 'sleepy', ready: 0, cooldown_s: 1 }), pool({ name: 'mortal', ready: 0, lifetime_s: 2 })],
  } });
});

after(() => server?.stop());

const descriptors = (pid) => readdirSync(`/proc/${pid}/fd`).length;
const mountLines = (pid) => readFileSync(`/proc/${pid}/mountinfo`, 'utf8').split('\n').length;
const nothing = { processes: 0, groups: 0, loops: 0, images: 0 };

const same = (got, want) => JSON.stringify(got) === JSON.stringify(want);
const settled = (want, what) => until(() => same(server.holdings(), want), { ms: 5000, what })
  .catch((error) => { throw new Error(`${what}: ${JSON.stringify(server.holdings())}`, { cause: error }); });

// What is there before, once nothing comes or goes, and after: what is only
// there for a moment (a file that is read, a process that ends) is no leak.
async function steady(look) {
  let last = await look();
  for (let same = 0, tries = 0; same < 3 && tries < 100; tries++) {
    await sleep(30);
    const now = await look();
    same = JSON.stringify(now) === JSON.stringify(last) ? same + 1 : 0;
    last = now;
  }
  return last;
}

async function grownBack(look, before) {
  let now;
  // A connection of this client may come; nothing else may. Fewer are no leak:
  // idle connections and readers of the store close.
  await until(async () => {
    now = await look();
    return now.daemon - before.daemon <= 4 && same({ ...now, daemon: 0 }, { ...before, daemon: 0 });
  }, { ms: 5000, every: 50, what: 'as before' }).catch(() => {});
  assert.ok(now.daemon - before.daemon <= 4, `descriptors of the daemon: ${before.daemon}, ${now.daemon}`);
  assert.deepEqual({ ...now, daemon: 0 }, { ...before, daemon: 0 });
}

// Processes that hold on: ignoring signals, in sessions of their own, with
// files open, mappings and a working directory in the session's data.
const clinging = `
import os, signal, subprocess, time
for i in range(5):
    if os.fork() == 0:
        os.setsid()
        for s in range(1, 65):
            try: signal.signal(s, signal.SIG_IGN)
            except (OSError, ValueError): pass
        os.makedirs("/mnt/data/deep/%d" % i, exist_ok=True); os.chdir("/mnt/data/deep/%d" % i)
        f = open("held", "w"); f.write("x" * 100000); f.flush()
        while True: time.sleep(100)
subprocess.Popen(["bash", "-c", "trap '' TERM INT HUP; while :; do sleep 100; done"], start_new_session=True)
`;

describe('R7 the end of a session', () => {
  test('R7 delete leaves no process, mount, group, loop device, uid or file within 5 s', async () => {
    await settled(nothing, 'nothing to begin with');
    const mounts = server.mounts();
    const session = await server.session();
    assert.equal((await session.python(clinging)).outcome, 'ok');
    const held = server.holdings();
    assert.ok(held.processes >= (onGvisor ? 2 : 8) && held.groups >= 1 && held.loops === 1 && held.images === 1, `it was all there: ${JSON.stringify(held)}`);
    const started = Date.now();
    assert.equal((await session.delete()).status, 204);
    await settled(nothing, 'nothing left');
    assert.ok(Date.now() - started < 5000);
    assert.deepEqual(server.mounts(), mounts);
    assert.equal((await session.delete()).status, 404, 'twice is no error of ours');
  });

  test('R7 delete in the middle of a run ends the run and leaves nothing', async () => {
    const session = await server.session();
    const run = server.call('POST', `${session.path}/executions`, { language: 'python', code: `${clinging}\nwhile True: pass` });
    await until(() => server.sessionProcesses().length >= 8, { what: 'it runs' });
    assert.equal((await session.delete()).status, 204);
    const answer = await run;
    assert.equal(answer.body.outcome, 'cancelled');
    await settled(nothing, 'nothing left');
  });

  test('R7 many at once, deleted at once', async () => {
    const sessions = await Promise.all(Array.from({ length: 10 }, () => server.session()));
    await Promise.all(sessions.map((s) => s.python(clinging)));
    assert.ok(server.holdings().loops === 10);
    await Promise.all(sessions.map((s) => s.delete()));
    await settled(nothing, 'nothing left');
  });

  test('R7 expiry takes the sandbox and keeps the files for the next call', async () => {
    const session = await server.session({ pool: 'sleepy' });
    await session.python(`open("/mnt/data/kept", "w").write("still here")${clinging}`);
    await until(async () => (await session.get()).state === 'dormant', { ms: 10_000, every: 100, what: 'dormant' });
    await until(() => same(server.holdings(), nothing), { ms: 5000, what: 'nothing of the sandbox is left' });
    const woken = await session.python('print(open("/mnt/data/kept").read())');
    assert.deepEqual([woken.stdout.trim(), woken.interpreter], ['still here', 'fresh']);
    await session.delete();
    await settled(nothing, 'nothing left');
  });

  test('R7 a dormant session that is deleted leaves nothing either', async () => {
    const session = await server.session({ pool: 'sleepy' });
    await session.out('open("/mnt/data/kept", "w").write("x")');
    await until(async () => (await session.get()).state === 'dormant', { ms: 10_000, every: 100, what: 'dormant' });
    await session.delete();
    await settled(nothing, 'nothing left');
  });

  test('R7 the longest life ends a sandbox in use, not its files', async () => {
    const session = await server.session({ pool: 'mortal' });
    await session.out('kept = 1; open("/mnt/data/kept", "w").write("still here")');
    const deadline = Date.now() + 12_000;
    let last;
    while (Date.now() < deadline) {
      last = await session.python('print("kept" in globals(), open("/mnt/data/kept").read())');
      assert.equal(last.outcome, 'ok');
      if (last.stdout.trim() === 'False still here') break;
      await sleep(250);
    }
    assert.equal(last.stdout.trim(), 'False still here');
    await session.delete();
    await settled(nothing, 'nothing left');
  });

  test('R7 one-shot runs leave nothing, whatever they do', async () => {
    const codes = ['print(1)', 'import os; os._exit(1)', 'import os; os.kill(os.getpid(), 9)', clinging, '1/0', 'import sys; sys.exit(2)'];
    await Promise.all(codes.map((code) => server.run(code)));
    await settled(nothing, 'nothing left');
  });
});

describe('R7 no leak over time', () => {
  const runs = soak ? 3000 : 1000;

  test(`R7 a session survives ${runs} executions without growing anything`, async () => {
    const session = await server.session();
    const warden = server.processes().warden;
    const look = async () => ({
      daemon: descriptors(server.pid), warden: descriptors(warden), mounts: mountLines(warden), ...server.holdings(),
      inside: Number(await session.out('import os; print(len(os.listdir("/proc/self/fd")))')),
      pids: Number(await session.out('import os; print(sum(p.isdigit() for p in os.listdir("/proc")))')),
    });
    for (let i = 0; i < 20; i++) await session.python(`x = ${i}`);
    const before = await steady(look);
    for (let i = 0; i < runs; i++) {
      const e = i % 50 === 0 ? await session.shell('echo $((6 * 7))') : await session.python(`x = ${i}; print(x)`);
      assert.equal(e.outcome, 'ok');
    }
    await grownBack(look, before);
    assert.equal((await session.get()).executions >= runs, true);
    await session.delete();
  });

  test('R7 resets, crashes and kills do not add up either', async () => {
    const session = await server.session();
    const warden = server.processes().warden;
    const look = () => ({ daemon: descriptors(server.pid), warden: descriptors(warden), ...server.holdings() });
    const ends = ['import os; os._exit(1)', 'import os; os.kill(os.getpid(), 9)', 'import os; os.close(3)', 'import sys; sys.exit()'];
    let rounds = 0;
    const round = async () => {
      rounds++; // another text each time: the same, failing, would be slowed
      for (const code of ends) await session.python(`${code} # ${rounds}`);
      await session.server.ok('POST', `${session.path}/reset`);
      assert.equal(await session.out('print("alive")'), 'alive');
    };
    await round();
    const before = await steady(look);
    for (let i = 0; i < 10; i++) await round();
    await grownBack(look, before);
    await session.delete();
  });

  const count = soak ? 2000 : 200;

  test(`R7 ${count} sessions made and deleted in a row leave nothing and do not slow down`, { timeout: 1_200_000 }, async () => {
    await settled(nothing, 'nothing to begin with');
    const warden = server.processes().warden;
    const look = () => ({ daemon: descriptors(server.pid), warden: descriptors(warden), mounts: mountLines(warden) });
    const before = await steady(look);
    const times = [];
    for (let i = 0; i < count; i++) {
      const started = performance.now();
      const session = await server.session();
      const e = await session.python('print(1)');
      assert.equal(e.stdout, '1\n');
      await session.delete();
      times.push(performance.now() - started);
    }
    await settled(nothing, 'nothing left');
    const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
    const quarter = count / 4;
    const [first, last] = [median(times.slice(0, quarter)), median(times.slice(-quarter))];
    console.log(`# ${count} sessions: median ${first.toFixed(1)} ms in the first quarter, ${last.toFixed(1)} ms in the last`);
    assert.ok(last < first * 3, `${first} ms at first, ${last} ms at last`);
    const now = await steady(look);
    assert.ok(now.daemon - before.daemon <= 4 && Math.abs(now.warden - before.warden) <= 2, JSON.stringify([before, now]));
    assert.equal(now.mounts, before.mounts);
  });
});

describe('R8 too much', () => {
  let busy;

  before(async () => {
    busy = await Glovebox.start({ config: {
      sessions_per_tenant: 4, max_sessions: 6, max_executions: 4, queue_per_session: 2, workers: 16,
      pools: [pool({ ready: 1 }), pool({ name: 'tiny', ready: 0, max_sessions: 1 })],
    } });
  });
  after(() => busy?.stop());

  // Refused while `running` goes on for seconds, so not by waiting for it.
  async function refused(method, path, body, options, what) {
    const started = performance.now();
    const answer = await busy.call(method, path, body, options);
    const took = performance.now() - started;
    assert.equal(answer.status, 429, `${what}: ${answer.text}`);
    assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/, `${what} says when to come back`);
    assert.ok(answer.body.error.code && answer.body.error.message, answer.text);
    assert.ok(took < 2000, `${what} was refused after ${took} ms`);
    return answer;
  }

  test('R8 sessions of a tenant, of the pool and of the machine', async () => {
    const other = await busy.tenant('other');
    const mine = await Promise.all(Array.from({ length: 4 }, () => busy.session({ persistence: 'ephemeral' })));
    await refused('POST', '/api/sessions', {}, {}, 'a fifth of one tenant');
    await refused('POST', '/api/run', { language: 'python', code: '1' }, {}, 'a run needs one too');
    const theirs = [await busy.session({ pool: 'tiny', persistence: 'ephemeral' }, other)];
    await refused('POST', '/api/sessions', { pool: 'tiny' }, other, 'a second of the pool');
    theirs.push(await busy.session({ persistence: 'ephemeral' }, other));
    await refused('POST', '/api/sessions', {}, other, 'a seventh of the machine');
    assert.equal(await mine[0].out('print("works")'), 'works');
    await mine[0].delete();
    mine[0] = await until(() => busy.session(), { what: 'room again' });
    await Promise.all([...mine, ...theirs].map((s) => s.delete()));
  });

  test('R8 executions that wait in a session, and those of all', async () => {
    const sessions = [await busy.session(), await busy.session()];
    const path = (s) => `${s.path}/executions`;
    const slow = { language: 'python', code: 'import time; time.sleep(4)', mode: 'async' };
    const accepted = [];
    for (let i = 0; i < 3; i++) accepted.push(await busy.ok('POST', path(sessions[0]), slow));
    await until(async () => (await busy.ok('GET', `/api/executions/${accepted[0].id}`)).status === 'running');
    await refused('POST', path(sessions[0]), slow, {}, 'a third that waits');
    for (const mode of ['sync', 'stream']) await refused('POST', path(sessions[0]), { ...slow, mode }, {}, mode);
    accepted.push(await busy.ok('POST', path(sessions[1]), slow));
    await refused('POST', path(sessions[1]), slow, {}, 'a fifth of all');
    // Nothing else waits for them.
    assert.equal((await busy.call('GET', '/healthz')).status, 200);
    assert.equal((await busy.ok('GET', `/api/executions/${accepted[0].id}`)).outcome, null, 'the first still runs');
    await Promise.all(accepted.map(({ id }) => busy.call('POST', `/api/executions/${id}/cancel`)));
    for (const { id } of accepted)
      await until(async () => (await busy.ok('GET', `/api/executions/${id}`)).outcome === 'cancelled', { ms: 10_000 });
    assert.equal(await sessions[0].out('print("free")'), 'free');
    await Promise.all(sessions.map((s) => s.delete()));
  });

  test('R8 creations come no faster than allowed', async () => {
    const slow = await Glovebox.start({ config: { creations_per_s: 2 } });
    try {
      const answers = await Promise.all(Array.from({ length: 12 }, () => slow.call('POST', '/api/sessions', {})));
      const made = answers.filter(({ status }) => status === 201);
      const no = answers.filter(({ status }) => status === 429);
      assert.ok(made.length >= 2 && made.length <= 8 && made.length + no.length === 12, JSON.stringify(answers.map((a) => a.status)));
      for (const answer of no) assert.equal(answer.headers.get('retry-after'), '1');
      await until(async () => (await slow.call('POST', '/api/sessions', {})).status === 201, { every: 200, what: 'allowed again' });
    } finally {
      await slow.stop();
    }
  });

  test('R8 a refusal leaves nothing behind', async () => {
    await until(async () => (await busy.ok('GET', '/api/sessions')).data.length === 0);
    const sessions = await Promise.all(Array.from({ length: 4 }, () => busy.session({ persistence: 'ephemeral' })));
    await until(() => busy.images().length >= 5, { what: 'four, and one kept ready' });
    // Spares are made in the background: wait until nothing is.
    let before;
    await until(async () => {
      const now = busy.holdings();
      await sleep(700);
      before = busy.holdings();
      return JSON.stringify(now) === JSON.stringify(before);
    }, { ms: 20_000, what: 'nothing being made' });
    for (let i = 0; i < 50; i++) await busy.call('POST', '/api/sessions', {});
    assert.deepEqual(busy.holdings(), before);
    await Promise.all(sessions.map((s) => s.delete()));
  });
});
