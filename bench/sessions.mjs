// SPDX-License-Identifier: Apache-2.0
// The workloads of sessions: what is run on our side and beside it, how often,
// and what is aimed at. Each checks that both sides gave the right answer; a
// wrong one ends the run, for then nothing was measured.
import { MIB, check, checkAnswer, checkExecution, inParallel, interleave, words } from './measure.mjs';
import { Ipykernel, availableBytes, privateBySandbox, residentBytes, say } from './parts.mjs';

const DESCRIBE = 'import numpy as np, pandas as pd; '
  + "print(pd.DataFrame({'x': np.arange(1000)}).describe())";
const CELL = 'x = sum(range(100)); print(x)';

// ---- the two sides -----------------------------------------------------------

// A new session, one execution, its answer, over HTTP.
async function ours(c, pool, code, wanted, count = 1) {
  const done = await c.watch.http('POST', '/api/run', { pool, language: 'python', code }, count);
  for (const answer of done.answers) checkAnswer(answer, wanted);
  await c.daemon.settled();
  return done.ms;
}

async function spawned(c, where, argv, wanted, count = 1) {
  const done = await c.watch.spawn(where, argv, count);
  if (done.failed) throw new Error(`${done.failed} of ${count} ${argv[0]} failed: ${done.text.slice(-300)}`);
  check(argv[0], done.text, Array(count).fill(wanted).join(' ').trim());
  return done.ms;
}

const python = (c, code, wanted) => spawned(c, c.root, ['/usr/bin/python3', '-c', code], wanted);

// The image read-only, fresh /proc, /dev and /tmp, every namespace: the usual
// way to use it, and less than a session gets.
const bubblewrap = (c, code, wanted, count) => spawned(c, '-',
  ['/usr/bin/bwrap', '--unshare-all', '--die-with-parent', '--new-session', '--ro-bind', c.root, '/',
    '--proc', '/proc', '--dev', '/dev', '--tmpfs', '/tmp', '--chdir', '/tmp',
    '/usr/bin/python3', '-c', code], wanted, count);

async function versus(rounds, base, mine, theirs) {
  const [a, b] = await interleave(rounds, [mine, theirs]);
  return { base, unit: 'ms', rounds, ours: a, theirs: b };
}

// ---- single sessions ---------------------------------------------------------

const newSession = (c) => versus(c.rounds(60), 'python3',
  () => ours(c, 'ready', 'print(1)', '1'), () => python(c, 'print(1)', '1'));

async function newSessionPandas(c) {
  const wanted = await described(c);
  return versus(c.rounds(20), 'bubblewrap',
    () => ours(c, 'ready', DESCRIBE, wanted), () => bubblewrap(c, DESCRIBE, wanted));
}

const emptyPool = (c) => versus(c.rounds(40), 'python3',
  () => ours(c, 'empty', 'pass', ''), () => python(c, 'pass', ''));

// What the image's own Python prints for the pandas workload.
async function described(c) {
  const { failed, text } = await c.watch.spawn(c.root, ['/usr/bin/python3', '-c', DESCRIBE]);
  if (failed) throw new Error(`the image cannot run the pandas workload: ${text}`);
  return words(text);
}

async function nextCell(c) {
  const { id } = await c.daemon.call('POST', '/api/sessions', { pool: 'ready' });
  const cell = async () => {
    const { ms, answers } = await c.watch.http('POST', `/api/sessions/${id}/executions`,
      { language: 'python', code: CELL });
    checkAnswer(answers[0], '4950');
    return ms;
  };
  const peer = async () => {
    const { ms, text } = await c.ipykernel.cell(CELL);
    check('ipykernel', text, '4950');
    return ms;
  };
  const echo = async () => (await c.watch.http('GET', '/healthz')).ms;
  for (let i = 0; i < 10; i++) { await cell(); await peer(); }
  const rounds = c.rounds(200);
  const [a, b, e] = await interleave(rounds, [cell, peer, echo]);
  await c.daemon.call('DELETE', `/api/sessions/${id}`);
  await c.daemon.settled();
  return [
    { base: 'ipykernel', unit: 'ms', rounds, ours: a, theirs: b },
    { base: 'healthz', unit: 'ms', rounds, ours: a, theirs: e },
  ];
}

// ---- many sessions -----------------------------------------------------------

const BURST = 100;
async function burst(c) {
  const wanted = await described(c);
  const rounds = c.rounds(2);
  const a = [], b = [];
  for (let i = 0; i < rounds; i++) {
    a.push(await ours(c, 'ready', DESCRIBE, wanted, BURST));
    b.push(await bubblewrap(c, DESCRIBE, wanted, BURST));
  }
  a.push(await ours(c, 'ready', DESCRIBE, wanted, BURST));
  return { base: 'bubblewrap', unit: 'ms', rounds, ours: a, theirs: b };
}

const LIVE = 500, IDLE = 200;
async function memory(c) {
  const wanted = await described(c);
  const ids = [];
  const open = async () => {
    const { id } = await c.daemon.call('POST', '/api/sessions', { pool: 'empty' });
    ids.push(id);
    checkExecution(await c.daemon.call('POST', `/api/sessions/${id}/executions`,
      { language: 'python', code: DESCRIBE }), wanted);
  };
  const before = privateBySandbox(c.daemon), free = availableBytes();

  await inParallel(Array(IDLE).fill(open));
  await c.daemon.settled(IDLE);
  const resident = residentBytes(c.daemon.child.pid);
  const sandboxes = [...privateBySandbox(c.daemon)].filter(([space]) => !before.has(space));
  if (sandboxes.length !== IDLE) throw new Error(`${sandboxes.length} sandboxes for ${IDLE} sessions`);

  let failed = 0;
  await inParallel(Array(LIVE - IDLE).fill(() => open().catch((error) => { failed++; say(error.message); })));
  let answered = 0;
  await inParallel(ids.map((id) => async () => {
    const body = await c.daemon.call('POST', `/api/sessions/${id}/executions`, { language: 'python', code: '1+1' });
    if (body.result?.['text/plain'] === '2' && body.interpreter === 'same') answered++;
  }));
  const machine = (free - availableBytes()) / ids.length;
  await inParallel(ids.map((id) => () => c.daemon.call('DELETE', `/api/sessions/${id}`)));
  await c.daemon.settled();

  check('ipykernel', (await c.ipykernel.cell(DESCRIBE)).text, wanted);
  return [
    { base: 'ipykernel', unit: 'mib', ours: sandboxes.map(([, bytes]) => bytes / MIB),
      theirs: [await c.ipykernel.privateBytes() / MIB] },
    { facts: { answered, failed: LIVE - answered, machine_mib_each: (machine / MIB).toFixed(2) },
      met: answered === LIVE },
    { facts: { sessions: IDLE, ours_mib: (resident / MIB).toFixed(1) }, met: resident <= 60 * MIB },
  ];
}

// ---- the table ---------------------------------------------------------------

// One row per line printed; a workload that gives several lines has several.
const workloads = [
  { run: newSession, lines: [{ name: 'W1', aim: { most: 0.5 },
    what: 'new session, `print(1)`, ready pool', beside: "`python3 -c 'print(1)'`" }] },
  { run: newSessionPandas, lines: [{ name: 'W2', aim: { most: 0.04 },
    what: 'new session, numpy and pandas in use', beside: 'bubblewrap, importing them' }] },
  { run: emptyPool, lines: [{ name: 'W2c', aim: { most: 1.0 },
    what: 'new session, `pass`, ready pool empty', beside: '`python3 -c pass`' }] },
  { run: nextCell, lines: [
    { name: 'W3', aim: { most: 0.2 }, what: 'next cell in a live session', beside: "ipykernel's next cell" },
    { name: 'W3e', aim: { most: 3 }, what: 'next cell in a live session', beside: '`GET /healthz` on the same server' }] },
  { run: burst, lines: [{ name: 'W5', aim: { most: 0.05 },
    what: `${BURST} new sessions at once with pandas, last answer`, beside: `${BURST} bubblewraps at once` }] },
  { run: memory, lines: [
    { name: 'W8_private', aim: { ours: 10 }, what: 'private memory of a session after `describe()`',
      beside: 'an ipykernel after the same' },
    { name: `W8_${LIVE}_live`, aim: { text: 'all answer' }, what: `${LIVE} live sessions, each answers \`1+1\` after \`describe()\`` },
    { name: 'W8_daemon_rss', aim: { text: '≤ 60 MiB' }, what: `memory of the daemon with ${IDLE} idle sessions` }] },
];

const MANY = 2000;
export const sessions = {
  config: {
    creations_per_s: 0, max_sessions: MANY, sessions_per_tenant: MANY,
    pools: [
      { name: 'ready', runtime: 'standard', max_sessions: MANY },
      { name: 'empty', runtime: 'standard', max_sessions: MANY, ready: 0 },
    ],
  },
  async begin(c) { c.ipykernel = await Ipykernel.start(c.image); },
  async end(c) { await c.ipykernel?.stop(); },
  workloads,
};
