// SPDX-License-Identifier: Apache-2.0
// The runtime `full` beside `standard`: the same workloads on two pools of one
// daemon, ready pools of the same size. On a machine without the image there
// are no such rows.
import { DESCRIBE, versus } from './gvisor.mjs';
import { MIB, checkExecution } from './measure.mjs';
import { privateBySandbox, runtimeImage } from './parts.mjs';

const pair = (c, rounds, names, code, wanted) => versus(c, rounds, ...names, code, wanted)
  .then((result) => ({ ...result, base: 'standard' }));

// A process may end while it is looked at; then once more.
function held(c) {
  for (let tries = 0; ; tries++) {
    try {
      return privateBySandbox(c.daemon);
    } catch (error) {
      if (tries === 20) throw error;
    }
  }
}

// Of one session of each, after the same work.
async function memory(c) {
  const sides = [];
  for (const pool of ['full-empty', 'standard-empty']) {
    const before = held(c);
    const { id } = await c.daemon.call('POST', '/api/sessions', { pool });
    checkExecution(await c.daemon.call('POST', `/api/sessions/${id}/executions`, { language: 'python', code: DESCRIBE }), '(8, 1)');
    const mine = [...held(c)].filter(([space]) => !before.has(space));
    if (mine.length !== 1) throw new Error(`${mine.length} sandboxes for one session`);
    sides.push([mine[0][1] / MIB]);
    await c.daemon.call('DELETE', `/api/sessions/${id}`);
    await c.daemon.settled();
  }
  return { base: 'standard', unit: 'mib', ours: sides[0], theirs: sides[1] };
}

const aim = { most: 1.5 };
const beside = 'the same on `standard`';
const workloads = [
  { run: (c) => pair(c, c.rounds(20), ['full', 'standard'], 'print(1)', '1'),
    lines: [{ name: 'F1', aim, what: 'full: new session, `print(1)`, ready pool', beside }] },
  { run: (c) => pair(c, c.rounds(20), ['full', 'standard'], DESCRIBE, '(8, 1)'),
    lines: [{ name: 'F2', aim, what: 'full: new session, numpy and pandas in use', beside }] },
  { run: (c) => pair(c, c.rounds(20), ['full-empty', 'standard-empty'], 'pass', ''),
    lines: [{ name: 'F2c', aim, what: 'full: new session, `pass`, ready pool empty', beside }] },
  { run: memory,
    lines: [{ name: 'F8', aim, what: 'full: private memory of a session after `describe()`', beside }] },
];

function built() {
  try {
    return Boolean(runtimeImage('full'));
  } catch {
    return false;
  }
}

export const full = {
  config: {
    creations_per_s: 0,
    pools: [
      { name: 'full', runtime: 'full', ready: 2 },
      { name: 'full-empty', runtime: 'full', ready: 0 },
      { name: 'standard', runtime: 'standard', ready: 2 },
      { name: 'standard-empty', runtime: 'standard', ready: 0 },
    ],
  },
  async begin() {},
  async end() {},
  workloads: built() ? workloads : [],
};
