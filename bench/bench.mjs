// SPDX-License-Identifier: Apache-2.0
// The benchmark's spine, run by bench/run: start the daemon and the peers, run
// every workload, print its lines, write the document. A figure that misses
// its aim is reported, not an error; a wrong answer is an error.
import { readFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { Daemon, Ipykernel, Stopwatch, runtimeImage, say } from './parts.mjs';
import { judge, printLine, writeDocument } from './report.mjs';
import { workloads } from './workloads.mjs';

const MANY = 2000;
const config = {
  creations_per_s: 0, max_sessions: MANY, sessions_per_tenant: MANY,
  pools: [
    { name: 'ready', runtime: 'standard', max_sessions: MANY },
    { name: 'empty', runtime: 'standard', max_sessions: MANY, ready: 0 },
  ],
};

const only = process.env.BENCH_ONLY?.split(',');
const share = Number(process.env.BENCH_ROUNDS ?? 1);
const load = loadavg()[0];
const { image, root } = runtimeImage('standard');
const context = { root, rounds: (n) => Math.max(1, Math.round(n * share)) };
const results = [];

async function stopAll() {
  await context.watch?.stop();
  await context.daemon?.stop();
  await context.ipykernel?.stop();
}
for (const signal of ['SIGINT', 'SIGTERM'])
  process.once(signal, () => stopAll().finally(() => process.exit(130)));

try {
  say(`load ${load.toFixed(2)}`);
  context.ipykernel = await Ipykernel.start(image);
  context.daemon = await Daemon.start(config);
  context.watch = new Stopwatch(context.daemon);
  await context.daemon.settled();
  for (const { run, lines } of workloads) {
    if (only && !lines.some(({ name }) => only.includes(name))) continue;
    const begun = Date.now();
    const found = [await run(context)].flat();
    for (const [i, line] of lines.entries()) {
      results.push(judge(line, found[i]));
      printLine(results.at(-1));
    }
    say(`${lines[0].name} took ${Math.round((Date.now() - begun) / 1000)} s`);
  }
} finally {
  await stopAll();
}

const missed = results.filter((r) => !r.met).map((r) => r.name);
say(missed.length ? `short of the aim: ${missed.join(' ')}` : 'every aim is met');
if (!only) {
  const counts = results.filter((r) => r.rounds).map((r) => `${r.name} ${r.rounds}`).join(', ');
  writeDocument(results, { load, manifest: JSON.parse(readFileSync(join(image, 'manifest.json'), 'utf8')),
    rounds: `Rounds: ${counts}.` });
}
