// SPDX-License-Identifier: Apache-2.0
// What every workload needs: medians, rounds taken in turn, and checks that
// an answer is the right one.
export const MIB = 1024 * 1024;

export const p50 = (values) => percentile(values, 0.5);
export function percentile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * share;
  const low = sorted[Math.floor(at)];
  return low + (sorted[Math.ceil(at)] - low) * (at % 1);
}

export const words = (text) => text.trim().split(/\s+/).join(' ');

export function check(what, got, wanted) {
  if (words(got) !== wanted) throw new Error(`${what} answered ${JSON.stringify(got.slice(0, 300))}`);
}

export function checkExecution(execution, wanted) {
  if (execution.outcome !== 'ok') throw new Error(`glovebox: ${JSON.stringify(execution).slice(0, 500)}`);
  check('glovebox', execution.stdout, wanted);
}

// The parsed body of an answer that has the right status.
export function checked({ status, text }, wanted = 200) {
  if (status !== wanted) throw new Error(`glovebox: ${status} ${text.slice(0, 500)}`);
  return JSON.parse(text);
}

export const checkAnswer = (answer, wanted) => checkExecution(checked(answer), wanted);

// ours, base, ours, base…; one round of each before the first that counts.
export async function interleave(rounds, sides) {
  const figures = sides.map(() => []);
  for (let i = 0; i <= rounds; i++)
    for (const [s, side] of sides.entries()) {
      const figure = await side();
      if (i > 0) figures[s].push(figure);
    }
  return figures;
}

// A few at a time; none may fail unnoticed.
export async function inParallel(jobs, width = 8) {
  const queue = [...jobs];
  await Promise.all(Array.from({ length: width }, async () => {
    while (queue.length) await queue.shift()();
  }));
}
