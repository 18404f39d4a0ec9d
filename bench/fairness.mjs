// SPDX-License-Identifier: Apache-2.0
// What each mechanism of src/fair/ is worth: a tenant's warm print(1) beside
// another tenant's bomb, with every mechanism on and with one switched off,
// in turn. `make bench-fairness` runs it on build/fairness/, whose switches
// work while the service runs. Prints a table for docs/FAIRNESS.md.
//
//   FAIRNESS_ROUNDS=5      rounds; the order within one is random
//   FAIRNESS_RUNS=80       executions per figure
//   FAIRNESS_ONLY=a,b+c    only these mechanisms; with +, off together
//   FAIRNESS_BESIDE=a,b    only these bombs
//   FAIRNESS_ALL=1         every mechanism beside every bomb
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { Glovebox, build, pool, root, sleep } from '../tests/lib/glovebox.mjs';
import { BOMBS, Witness, bomb, calm, p95 } from '../tests/lib/neighbours.mjs';
import { p50 } from './measure.mjs';

const ROUNDS = Number(process.env.FAIRNESS_ROUNDS ?? 5);
const RUNS = Number(process.env.FAIRNESS_RUNS ?? 80);
const CREATIONS = 12; // of the witness, beside a bomb of creations
const BURST = 24;     // sessions that a tenant without neighbours wants at once
const CHURN = 60;     // sessions that it creates and deletes, four at a time
const SWITCHES = join(build, 'fairness', 'switches');

// In the order of enum fair_mechanism, which is that of the switches.
const MECHANISMS = readFileSync(join(root, 'src/fair/fair.h'), 'utf8').match(/enum fair_mechanism \{([^}]*)\}/)[1]
  .match(/FAIR_\w+/g).map((name) => name.slice(5).toLowerCase()).filter((name) => name !== 'mechanisms');
// The bombs that a mechanism is meant for.
const AIMED = {
  thread_turns: ['flood', 'uploads'], thread_share: ['sleepers', 'uploads'], refusal_backoff: ['flood', 'refusals'],
  execution_share: ['sleepers', 'mix'], create_queue: ['creations'], create_wide: ['burst', 'churn'],
  cpu_class: ['cpu', 'forks', 'memory', 'mix'], cpu_budget: ['memory', 'creations', 'mix'], cpu_reserve: ['cpu', 'forks', 'disk', 'mix'],
  'thread_share+execution_share': ['sleepers'], end_yield: ['creations', 'memory', 'churn'], priority: ['cpu', 'flood', 'mix'], worker_rest: ['uploads'],
};
// Read when the service starts: such a mechanism has a service of its own.
const AT_START = ['priority', 'worker_rest'];

const only = process.env.FAIRNESS_ONLY?.split(',') ?? Object.keys(AIMED);
const beside = process.env.FAIRNESS_BESIDE?.split(',');
const aimed = (m) => [...new Set(process.env.FAIRNESS_ALL ? [...BOMBS, ...AIMED[m]] : AIMED[m])].filter((kind) => !beside || beside.includes(kind));
const set = (off) => writeFileSync(SWITCHES, MECHANISMS.map((m) => (off?.split('+').includes(m) ? '0' : '1')).join(''), { flag: 'r+' });
const shuffled = (list) => list.map((v) => [Math.random(), v]).sort((a, b) => a[0] - b[0]).map(([, v]) => v);
const say = (text) => process.stderr.write(`fairness: ${text}\n`);

const services = [];
async function service() {
  const server = await Glovebox.start({ program: join(build, 'fairness', 'gloveboxd'), config: { creations_per_s: 0, log_level: 'warn',
    pools: [pool({ ready: 4, scratch_bytes: '64MiB', scratch_inodes: 5000, memory_bytes: '256MiB' })] } });
  services.push(server);
  const bomber = await server.tenant('bomber');
  const tenant = await server.tenant('witness');
  const witness = new Witness(server, tenant.key, (await server.session({}, tenant)).id);
  await witness.times(20);
  return { server, bomber, tenant, witness };
}

// A refusal is a failure of fairness, not of the benchmark: it is counted.
async function timed(count, act) {
  const times = [];
  let failed = 0;
  for (let i = 0; i < count; i++) {
    const begun = process.hrtime.bigint();
    try {
      await act();
      times.push(Number(process.hrtime.bigint() - begun) / 1e6);
    } catch {
      failed++;
      await sleep(20);
    }
  }
  return { p95: times.length ? p95(times) : Infinity, failed };
}

async function created(s) {
  const { status, body } = await s.server.call('POST', '/api/sessions', { persistence: 'ephemeral' }, s.tenant);
  if (status !== 201) throw new Error(`${status}`);
  await s.server.call('DELETE', `/api/sessions/${body.id}`, undefined, s.tenant);
}

async function besideBomb(s, kind) {
  const load = await bomb(s.server, s.bomber.key, kind);
  const got = {};
  try {
    got.warm = await timed(RUNS, () => s.witness.run());
    got.create = kind === 'creations' ? await timed(CREATIONS, () => created(s)) : null;
    return got;
  } finally {
    got.told = await load.stop();
    await calm(s.server, s.bomber);
    await sleep(300);
  }
}

async function burst(s) {
  const begun = Date.now();
  const made = await Promise.all(Array.from({ length: BURST }, () => s.server.call('POST', '/api/sessions', { persistence: 'ephemeral' }, s.tenant)));
  const ms = Date.now() - begun;
  await calm(s.server, s.tenant);
  return { warm: { p95: ms, failed: made.filter(({ status }) => status !== 201).length } };
}

async function churn(s) {
  const begun = Date.now();
  let left = CHURN, failed = 0;
  await Promise.all(Array.from({ length: 4 }, async () => {
    while (left-- > 0) await created(s).catch(() => { failed++; });
  }));
  return { warm: { p95: Date.now() - begun, failed } };
}
// What a tenant without neighbours does, in a service of its own.
const ALONE = { burst, churn };

// figures[bomb][mechanism or "on"]: one of each round.
const figures = {};
async function measure(stage, kind, off) {
  const s = stage[AT_START.includes(off) ? off : kind in ALONE ? 'alone' : 'on'];
  set(off);
  const got = kind in ALONE ? await ALONE[kind](s) : await besideBomb(s, kind);
  set(null);
  ((figures[kind] ??= {})[off ?? 'on'] ??= []).push(got);
  say(`${kind} ${off ? `without ${off}` : 'all on'}: ${got.warm.p95.toFixed(1)} ms${got.warm.failed ? `, ${got.warm.failed} failed` : ''}${
    got.create ? `; create ${got.create.p95.toFixed(1)} ms, ${got.create.failed} failed` : ''}${got.told ? `; the bomber got ${got.told}` : ''}`);
}

const sum = (list, pick) => list.reduce((n, v) => n + pick(v), 0);
function row(kind, m, what) {
  const on = figures[kind].on.map((f) => f[what]);
  const off = figures[kind][m].map((f) => f[what]);
  const ratios = off.map((f, i) => f.p95 / on[i].p95).sort((a, b) => a - b);
  const label = { burst: `${BURST} creations at once, alone`, churn: `${CHURN} creations and deletions, alone` }[kind] ?? (what === 'create' ? 'creations (session creation)' : kind);
  const failed = (list) => sum(list, (f) => f.failed);
  return `| ${m} | ${label} | ${p50(on.map((f) => f.p95)).toFixed(1)} | ${p50(off.map((f) => f.p95)).toFixed(1)} | ${p50(ratios).toFixed(2)} (${
    ratios[0].toFixed(2)}–${ratios.at(-1).toFixed(2)}) | ${failed(on)} / ${failed(off)} |`;
}

function table() {
  const rows = [];
  for (const m of only)
    for (const kind of aimed(m)) {
      rows.push(row(kind, m, 'warm'));
      if (kind === 'creations') rows.push(row(kind, m, 'create'));
    }
  return ['| without | beside | all on, ms | without, ms | ratio (range) | failures on / off |', '|---|---|---|---|---|---|', ...rows].join('\n');
}

async function stop() {
  for (const server of services) await server.stop();
  rmSync(SWITCHES, { force: true });
}
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => stop().finally(() => process.exit(130)));

say(`${ROUNDS} rounds, load ${loadavg()[0].toFixed(2)}`);
writeFileSync(SWITCHES, '1'.repeat(MECHANISMS.length));
try {
  const stage = { on: await service() };
  for (const m of AT_START.filter((name) => only.includes(name))) {
    set(m);
    stage[m] = await service();
    set(null);
  }
  if (only.some((m) => aimed(m).some((kind) => kind in ALONE))) {
    stage.alone = await service();
    await burst(stage.alone); // the first one warms caches
  }
  for (let i = 0; i < ROUNDS; i++)
    for (const kind of shuffled([...new Set(only.flatMap(aimed))]))
      for (const off of shuffled([null, ...only.filter((m) => aimed(m).includes(kind))])) await measure(stage, kind, off);
  const idle = await timed(RUNS, () => stage.on.witness.run());
  say(`load ${loadavg()[0].toFixed(2)}; ${idle.p95.toFixed(1)} ms without a bomb`);
  process.stdout.write(`${table()}\n`);
  for (const s of Object.values(stage)) s.witness.close();
} finally {
  await stop();
}
