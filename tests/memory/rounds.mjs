// SPDX-License-Identifier: Apache-2.0
// Many rounds of all programs: node tests/memory/rounds.mjs [ROUNDS [NAME]].
// NAME: only programs whose name contains it. Ends with 1 if one failed. A
// signal ends it after the present program; the counts are printed.
import { Boxes, round } from './boxes.mjs';
import { programs } from './programs.mjs';

const rounds = Number(process.argv[2] ?? 10);
const chosen = programs.filter((p) => p.name.includes(process.argv[3] ?? ''));
let passed = 0, failed = 0, ended = false;
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => { ended = true; });
const started = Date.now();
const skipped = new Set();
for (const runtime of ['minimal', 'standard']) {
  const list = chosen.filter((p) => (p.runtime ?? 'minimal') === runtime);
  if (!list.length || ended) continue;
  let boxes = new Boxes(runtime);
  for (let i = 0; i < rounds && !ended; i++) {
    for (const program of list) {
      if (ended) break;
      try {
        const why = await round(boxes, program, 1 + i % 2);
        if (why) skipped.add(`${program.name}: ${why}`); else passed++;
      } catch (error) {
        failed++;
        console.log(`${program.name} (round ${i + 1}): ${error.message}`);
        if (boxes.gone) boxes = new Boxes(runtime);
      }
    }
  }
  await boxes.stop();
}
skipped.forEach((text) => console.log(`skipped: ${text}`));
console.log(`${passed} rounds passed, ${failed} failed, ${Math.round((Date.now() - started) / 1000)} s`);
process.exitCode = failed ? 1 : 0;
