// SPDX-License-Identifier: Apache-2.0
// How well search ranks: the passages of bench/judged as files of a workspace,
// its test questions to each mode, nDCG@10 of the answers. `bm25` is the
// ranking of passages by words without the rest, by the program
// bench/judged/judged.c, which has no service around it.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { inParallel } from './measure.mjs';
import { build, until } from '../tests/lib/glovebox.mjs';

const DEPTH = 10;
const file = (name) => readFileSync(new URL(`judged/${name}`, import.meta.url), 'utf8').trim().split('\n');

// [{question, grades: {id: grade}}] of a set, "dev" or "test".
export const questions = (set) => file('queries.txt').filter((line) => line.startsWith(`${set} `)).map((line) => {
  const bar = line.lastIndexOf('|');
  return {
    question: line.slice(set.length + 1, bar).trim(),
    grades: Object.fromEntries(line.slice(bar + 1).trim().split(/\s+/).map((g) => g.split('=')).map(([id, grade]) => [id, Number(grade)])),
  };
});

const gain = (grade, rank) => (2 ** grade - 1) / Math.log2(rank + 2);
const sum = (values) => values.reduce((a, b) => a + b, 0);

export function ndcg(ids, grades) {
  const best = Object.values(grades).sort((a, b) => b - a).slice(0, DEPTH);
  return sum(ids.slice(0, DEPTH).map((id, i) => gain(grades[id] ?? 0, i))) / sum(best.map(gain));
}

// call(method, path, body): asks the service and returns the answer's JSON.
export async function measureJudged(call, set) {
  const passages = file('passages.txt').map((line) => [line.slice(0, line.indexOf(' ')), line.slice(line.indexOf(' ') + 1)]);
  const { id } = await call('POST', '/api/workspaces', { name: 'judged' });
  await inParallel(passages.map(([name, text]) => () => call('PUT', `/api/workspaces/${id}/files/${name}.txt`, text)));
  // Switched on when all is there, so that one training has it all.
  await until(async () => (await call('GET', `/api/search/status?workspace=${id}`)).pending === 0,
    { ms: 120_000, every: 200, what: 'the index' });
  await call('PATCH', `/api/workspaces/${id}`, { intelligence: true });
  await until(async () => {
    const s = await call('GET', `/api/search/status?workspace=${id}`);
    return s.pending === 0 && s.uncut === 0 && s.passages === passages.length && s.trained_at;
  }, { ms: 120_000, every: 500, what: 'passages' });
  const asked = questions(set);
  const figures = { passages: passages.length, questions: asked.length };
  for (const mode of ['lexical', 'semantic', 'hybrid']) {
    const scores = [];
    for (const { question, grades } of asked) {
      const { data } = await call('GET', `/api/search?q=${encodeURIComponent(question)}&mode=${mode}&workspace=${id}&limit=${DEPTH}`);
      scores.push(ndcg(data.map((hit) => hit.path.replace('.txt', '')), grades));
    }
    figures[mode] = sum(scores) / scores.length;
  }
  await call('DELETE', `/api/workspaces/${id}`);
  return figures;
}

export async function judgedSet(c) {
  const figures = await measureJudged((method, path, body) => c.daemon.call(method, path, body), 'test');
  const alone = spawnSync(`${build}/bench/judged`, ['quality', new URL('judged', import.meta.url).pathname, 'test'], { encoding: 'utf8' });
  const bm25 = Number(/^bm25 (.*)$/m.exec(alone.stdout)[1]);
  const facts = Object.fromEntries(Object.entries({ ...figures, bm25 }).map(([k, v]) => [k, Number.isInteger(v) ? v : v.toFixed(3)]));
  return { facts, met: figures.hybrid > figures.lexical && figures.hybrid > bm25 };
}
