// SPDX-License-Identifier: Apache-2.0
// All programs over restarts: node tests/memory/restarts.mjs [TIMES [NAME]].
// NAME: only programs whose name contains it. Ends with 1 if one failed.
import { restarts } from './boxes.mjs';
import { programs } from './programs.mjs';

const times = Number(process.argv[2] ?? 1);
const chosen = programs.filter((p) => p.name.includes(process.argv[3] ?? ''));
const started = Date.now();
let passed = 0, failed = 0;
for (let i = 0; i < times; i++)
  for (const runtime of ['minimal', 'standard']) {
    const list = chosen.filter((p) => (p.runtime ?? 'minimal') === runtime);
    if (!list.length) continue;
    const { failures, passed: good } = await restarts(runtime, list, 1 + i % 2);
    failures.forEach((text) => console.log(text));
    passed += good;
    failed += failures.length;
  }
console.log(`${passed} wakes after a restart passed, ${failed} failed, ${Math.round((Date.now() - started) / 1000)} s`);
process.exitCode = failed ? 1 : 0;
