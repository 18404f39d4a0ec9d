// SPDX-License-Identifier: Apache-2.0
// The workloads of memory that outlives a sandbox: hibernated and woken, over
// a restart of the service, undone and branched. Each checks that the memory
// is the right one; a wrong answer ends the run.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { checkExecution, checked, inParallel, interleave } from './measure.mjs';
import { until } from '../tests/lib/glovebox.mjs';
import { Stopwatch, privateBySandbox, residentBytes, say } from './parts.mjs';

const MIB = 1024 * 1024;
const FLOATS = 8;
const frame = (mib) => `import numpy as np; x = np.random.rand(${mib * MIB / FLOATS}); x[0] = 42`;
const LOOK = 'print(int(x[0]))';
const BRANCHES = 16, ASLEEP = 2000, LIVE = 200;

const path = (id, what) => `/api/sessions/${id}/${what}`;

async function open(c, pool, code) {
  const { id } = await c.daemon.call('POST', '/api/sessions', { pool });
  if (code) checkExecution(await c.daemon.call('POST', path(id, 'executions'), { code }), '');
  return id;
}

// A cell, and the interpreter that it must have run on.
async function cell(c, id, code, wanted, interpreter) {
  const { ms, answers } = await c.watch.http('POST', path(id, 'executions'), { language: 'python', code });
  const body = checked(answers[0]);
  checkExecution(body, wanted);
  if (interpreter && body.interpreter !== interpreter)
    throw new Error(`the interpreter is ${body.interpreter}, not ${interpreter}: ${body.notice}`);
  return ms;
}

async function post(c, id, what, body) {
  const { ms, answers } = await c.watch.http('POST', path(id, what), body ?? {});
  checked(answers[0]);
  return ms;
}

// A new session's first cell with an empty pool: what W2c measures.
async function fresh(c) {
  const { ms, answers } = await c.watch.http('POST', '/api/run', { pool: 'plain', language: 'python', code: 'pass' });
  checkExecution(checked(answers[0]), '');
  return ms;
}

async function wake(c, mib) {
  const id = await open(c, 'plain', frame(mib));
  const rounds = c.rounds(10), slept = [];
  const [a, b] = await interleave(rounds, [async () => {
    slept.push(await post(c, id, 'hibernate'));
    return cell(c, id, LOOK, '42', 'woken');
  }, () => fresh(c)]);
  await c.daemon.call('DELETE', `/api/sessions/${id}`);
  return { woken: { base: 'new session', unit: 'ms', rounds, ours: a, theirs: b }, slept };
}

async function wakes(c) {
  const small = await wake(c, 25), large = await wake(c, 200);
  return [small.woken, large.woken,
    { base: 'hibernate 200 MiB', unit: 'ms', rounds: small.slept.length, ours: small.slept, theirs: large.slept }];
}

async function importPandas(c) {
  const { ms, failed, text } = await c.watch.spawn(c.root, ['/usr/bin/python3', '-c', 'import pandas']);
  if (failed) throw new Error(text);
  return ms;
}

const stored = (c) => until(() => readdirSync(join(c.daemon.data, 'scratch/zygotes')).some((name) => /^[0-9a-f]{32}$/.test(name)),
  { ms: 60_000, what: 'the image of the zygote' });

// The service is ready when /readyz says so: every pool has started a sandbox.
async function restarts(c) {
  const id = await open(c, 'plain', frame(25));
  const rounds = c.rounds(5), ready = [], woken = [], base = [];
  await stored(c);
  for (let i = 0; i < rounds; i++) {
    await c.watch.stop();
    ready.push(await c.daemon.restart());
    c.watch = new Stopwatch(c.daemon);
    await c.daemon.settled(1);
    woken.push(await cell(c, id, LOOK, '42', 'woken'));
    base.push(await importPandas(c));
  }
  await c.daemon.call('DELETE', `/api/sessions/${id}`);
  return [{ base: 'import pandas', unit: 'ms', rounds, ours: woken, theirs: base },
    { base: 'import pandas', unit: 'ms', rounds, ours: ready, theirs: base }];
}

async function undo(c) {
  const id = await open(c, 'undo', frame(25));
  const rounds = c.rounds(15), ours = [], theirs = [];
  for (let i = 0; i <= rounds; i++) {
    await cell(c, id, 'x[0] = 7', '', 'same');
    await until(async () => (await c.daemon.call('GET', `/api/sessions/${id}`)).memory.undo > 0, { what: 'an undo point' });
    await new Promise((done) => setTimeout(done, 100)); // the point of this execution
    const ms = await post(c, id, 'undo', { executions: 1 }) + await cell(c, id, LOOK, '42', 'same');
    if (i > 0) { ours.push(ms); theirs.push(await fresh(c)); }
  }
  await c.daemon.call('DELETE', `/api/sessions/${id}`);
  return { base: 'new session', unit: 'ms', rounds, ours, theirs };
}

async function branch(c) {
  const id = await open(c, 'plain', frame(25));
  const rounds = c.rounds(3), ours = [], theirs = [];
  for (let i = 0; i < rounds; i++) {
    const began = performance.now();
    const { sessions } = await c.daemon.call('POST', path(id, 'branch'), { count: BRANCHES });
    await inParallel(sessions.map((s) => async () =>
      checkExecution(await c.daemon.call('POST', path(s.id, 'executions'), { code: LOOK }), '42')), BRANCHES);
    ours.push(performance.now() - began);
    await inParallel(sessions.map((s) => () => c.daemon.call('DELETE', `/api/sessions/${s.id}`)));
    await c.daemon.settled(1);
    theirs.push(await fresh(c));
  }
  await c.daemon.call('DELETE', `/api/sessions/${id}`);
  return { base: 'new session', unit: 'ms', rounds, ours, theirs };
}

// The next cell comes when the point of the one before is made.
async function points(c) {
  const on = await open(c, 'undo', 'x = 1'), off = await open(c, 'plain', 'x = 1');
  const pause = () => new Promise((done) => setTimeout(done, 60));
  const rounds = c.rounds(60);
  const [a, b] = await interleave(rounds, [
    async () => { await pause(); return cell(c, on, 'print(1)', '1', 'same'); },
    async () => { await pause(); return cell(c, off, 'print(1)', '1', 'same'); }]);
  for (const id of [on, off]) await c.daemon.call('DELETE', `/api/sessions/${id}`);
  return { base: 'undo_points: 0', unit: 'ms', rounds, ours: a, theirs: b };
}

// What the service and its sandboxes take. The machine's own figure says
// little: other programs use memory, too, and files stay in the page cache.
function used(daemon) {
  const sandboxes = privateBySandbox(daemon);
  return { sandboxes: sandboxes.size, inSandboxes: [...sandboxes.values()].reduce((a, b) => a + b, 0), inDaemon: residentBytes(daemon.child.pid) };
}

async function asleep(c) {
  const count = Math.max(20, Math.round(ASLEEP * c.share)), live = Math.max(4, Math.round(LIVE * c.share));
  const awake = [], ids = [];
  await inParallel(Array(live).fill(async () => awake.push(await open(c, 'plain', 'x = [42]'))));
  await c.daemon.settled(live);
  const before = used(c.daemon);
  await inParallel(Array(count).fill(async () => {
    const id = await open(c, 'plain', 'x = [42]');
    await c.daemon.call('POST', path(id, 'hibernate'), {});
    ids.push(id);
  }), 4);
  await c.daemon.settled(live);
  const now = used(c.daemon);
  const more = (what) => ((now[what] - before[what]) / MIB).toFixed(1);
  let woken = 0;
  await inParallel(ids.map((id) => async () => {
    const body = await c.daemon.call('POST', path(id, 'executions'), { code: LOOK });
    if (body.stdout === '42\n' && body.interpreter === 'woken') woken++;
    await c.daemon.call('DELETE', `/api/sessions/${id}`);
  }), 4);
  await inParallel(awake.map((id) => () => c.daemon.call('DELETE', `/api/sessions/${id}`)));
  await c.daemon.settled();
  say(`asleep: ${count} beside ${live}`);
  return { facts: { hibernated: count, live, woken, sandboxes_more: now.sandboxes - before.sandboxes,
    sandbox_mib_more: more('inSandboxes'), daemon_mib_more: more('inDaemon') },
  met: woken === count && now.sandboxes === before.sandboxes };
}

const workloads = [
  { run: wakes, lines: [
    { name: 'H_wake_25', aim: { most: 1.5 }, what: 'hibernated session of 25 MiB, first answer', beside: "a new session's first cell, ready pool empty" },
    { name: 'H_wake_200', aim: { most: 1.5 }, what: 'hibernated session of 200 MiB, first answer', beside: 'the same' },
    { name: 'H_hibernate_25', aim: { ours: 100 }, what: 'hibernate 25 MiB until the sandbox is gone', beside: 'the same with 200 MiB' }] },
  { run: restarts, lines: [
    { name: 'H_wake_restart', aim: { most: 0.2 }, what: 'session of 25 MiB after a restart of the service, first answer', beside: "`python3 -c 'import pandas'`" },
    { name: 'H_ready', aim: { ours: 1000 }, what: 'service ready after a restart, nothing changed', beside: "`python3 -c 'import pandas'`" }] },
  { run: undo, lines: [{ name: 'H_undo_25', aim: { ours: 10 }, what: 'undo of one cell of a session of 25 MiB, and the next answer', beside: "a new session's first cell" }] },
  { run: branch, lines: [{ name: 'H_branch_16', aim: { ours: 250 }, what: `${BRANCHES} branches of a session of 25 MiB, all answered`, beside: "a new session's first cell" }] },
  { run: points, lines: [{ name: 'H_points', aim: { most: 1.15 }, what: '`print(1)` in a live session with undo points', beside: 'without them' }] },
  { run: asleep, lines: [{ name: 'H_asleep', aim: { text: 'no more sandboxes; each wakes and answers' }, what: `${ASLEEP} hibernated sessions beside ${LIVE} live ones` }] },
];

const MANY = 4000;
export const memory = {
  config: {
    creations_per_s: 0, max_sessions: MANY, sessions_per_tenant: MANY,
    pools: [
      { name: 'plain', runtime: 'standard', max_sessions: MANY, ready: 0, undo_points: 0, hibernate: true },
      { name: 'undo', runtime: 'standard', max_sessions: MANY, ready: 0, undo_points: 8, hibernate: true },
    ],
  },
  async begin() {},
  async end() {},
  workloads,
};
