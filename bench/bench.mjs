// SPDX-License-Identifier: Apache-2.0
// The benchmark's spine, run by bench/run: for each family of workloads start
// a daemon and its peers, run every workload and print its lines; then write
// the document. A figure that misses its aim is reported, not an error; a
// wrong answer is an error.
import { readFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { doors } from './doors.mjs';
import { files } from './files.mjs';
import { full } from './full.mjs';
import { gvisor } from './gvisor.mjs';
import { loop } from './loop.mjs';
import { memory } from './memory.mjs';
import { neighbours } from './neighbours.mjs';
import { Daemon, Stopwatch, runtimeImage, say } from './parts.mjs';
import { judge, printLine, writeDocument } from './report.mjs';
import { sessions } from './sessions.mjs';

const only = process.env.BENCH_ONLY?.split(',');
const share = Number(process.env.BENCH_ROUNDS ?? 1);
const load = loadavg()[0];
const { image, root } = runtimeImage('standard');
const results = [];
let stop = async () => {};

for (const signal of ['SIGINT', 'SIGTERM'])
  process.once(signal, () => stop().finally(() => process.exit(130)));

async function runWorkload(context, { run, lines }) {
  const begun = Date.now();
  const found = [await run(context)].flat();
  for (const [i, line] of lines.entries()) {
    results.push(judge(line, found[i]));
    printLine(results.at(-1));
  }
  say(`${lines[0].name} took ${Math.round((Date.now() - begun) / 1000)} s`);
}

async function runFamily(family) {
  const wanted = family.workloads.filter(({ lines }) => !only || lines.some(({ name }) => only.includes(name)));
  const context = { image, root, share, rounds: (n) => Math.max(1, Math.round(n * share)) };
  if (!wanted.length) return;
  stop = async () => {
    await context.watch?.stop();
    await family.end(context);
    await context.daemon?.stop();
  };
  try {
    context.daemon = await Daemon.start(family.config);
    context.watch = new Stopwatch(context.daemon);
    await family.begin(context);
    await context.daemon.settled();
    for (const workload of wanted) await runWorkload(context, workload);
  } finally {
    await stop();
  }
}

const families = [sessions, memory, doors, files, loop, neighbours, gvisor, full];
if (only?.[0] === '?') {
  for (const { lines } of families.flatMap((family) => family.workloads)) console.log(`workload ${lines[0].name}`);
  process.exit(0);
}
say(`load ${load.toFixed(2)}`);
for (const family of families) await runFamily(family);

const missed = results.filter((r) => r.met === false).map((r) => r.name);
say(missed.length ? `short of the aim: ${missed.join(' ')}` : 'every aim is met');
if (!only) {
  const counts = results.filter((r) => r.rounds).map((r) => `${r.name} ${r.rounds}`).join(', ');
  writeDocument(results, { load, manifest: JSON.parse(readFileSync(join(image, 'manifest.json'), 'utf8')),
    rounds: `Rounds: ${counts}.` });
}
