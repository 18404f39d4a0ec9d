// SPDX-License-Identifier: Apache-2.0
// The isolation tier gvisor beside the tier process: the same workloads on two
// pools of one daemon. They state what the stronger boundary costs, and have no
// aim. Without runsc on the machine there are no such rows.
import { existsSync } from 'node:fs';
import { checkAnswer, interleave } from './measure.mjs';

export const DESCRIBE = 'import numpy as np, pandas as pd; '
  + "print(pd.DataFrame({'x': np.arange(1000)}).describe().shape)";

const CELL = 'x = sum(range(100)); print(x)';
const CALLS = 'import os\nfor _ in range(20000): os.stat("/")\nprint("done")';

async function run(c, pool, code, wanted) {
  const done = await c.watch.http('POST', '/api/run', { pool, language: 'python', code });
  for (const answer of done.answers) checkAnswer(answer, wanted);
  await c.daemon.settled();
  return done.ms;
}

// New sessions on two pools by turns; the second is the base.
export async function versus(c, rounds, guest, native, code, wanted) {
  const [a, b] = await interleave(rounds, [() => run(c, guest, code, wanted), () => run(c, native, code, wanted)]);
  return { base: 'process', unit: 'ms', rounds, ours: a, theirs: b };
}

async function cells(c, rounds, code, wanted) {
  const ids = [];
  for (const pool of ['guest', 'native']) ids.push((await c.daemon.call('POST', '/api/sessions', { pool })).id);
  const cell = async (id) => {
    const { ms, answers } = await c.watch.http('POST', `/api/sessions/${id}/executions`, { language: 'python', code });
    checkAnswer(answers[0], wanted);
    return ms;
  };
  for (let i = 0; i < 3; i++) for (const id of ids) await cell(id);
  const [a, b] = await interleave(rounds, ids.map((id) => () => cell(id)));
  for (const id of ids) await c.daemon.call('DELETE', `/api/sessions/${id}`);
  await c.daemon.settled();
  return { base: 'process', unit: 'ms', rounds, ours: a, theirs: b };
}

const beside = 'the same with `isolation: process`';
const workloads = [
  { run: (c) => versus(c, c.rounds(20), 'guest', 'native', 'print(1)', '1'),
    lines: [{ name: 'G1', aim: {}, what: 'gvisor: new session, `print(1)`, ready pool', beside }] },
  { run: (c) => versus(c, c.rounds(10), 'guest', 'native', DESCRIBE, '(8, 1)'),
    lines: [{ name: 'G2', aim: {}, what: 'gvisor: new session, numpy and pandas in use', beside }] },
  { run: (c) => versus(c, c.rounds(10), 'guest-empty', 'native-empty', 'pass', ''),
    lines: [{ name: 'G2c', aim: {}, what: 'gvisor: new session, `pass`, ready pool empty: restored from the checkpoint', beside }] },
  { run: (c) => cells(c, c.rounds(100), CELL, '4950'),
    lines: [{ name: 'G3', aim: {}, what: 'gvisor: next cell in a live session', beside }] },
  { run: (c) => cells(c, c.rounds(10), CALLS, 'done'),
    lines: [{ name: 'G4', aim: {}, what: 'gvisor: a cell with 20 000 calls of stat(2)', beside }] },
];

export const gvisor = {
  config: {
    creations_per_s: 0,
    pools: [
      { name: 'guest', runtime: 'standard', isolation: 'gvisor', ready: 2 },
      { name: 'guest-empty', runtime: 'standard', isolation: 'gvisor', ready: 0 },
      { name: 'native', runtime: 'standard', ready: 2 },
      { name: 'native-empty', runtime: 'standard', ready: 0 },
    ],
  },
  async begin() {},
  async end() {},
  workloads: existsSync('/usr/bin/runsc') ? workloads : [],
};
