// SPDX-License-Identifier: Apache-2.0
// What the agent loop adds to a model: until its first word, and to a round
// with code; and what many streams at once take. The model is a server in a
// process of its own that answers at once, so that all that is left is ours.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { check, interleave, p50 } from './measure.mjs';
import { residentBytes } from './parts.mjs';

const STREAMS = 200;
const WARM = 4, MEASURED = 12; // rounds of streams; threads and heaps reach their size in the first
const FIRST_MS = 15, ROUND_MS = 10, GROWTH_MIB = 16;
const CELL = 'print(sum(range(100)))';
const MIB = 1 << 20;

// A model that calls the tool once if it is offered one, then answers.
const UPSTREAM = `
const http = require('node:http');
const code = ${JSON.stringify(JSON.stringify({ code: CELL }))};
const piece = (delta, finish = null) => 'data: ' + JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] }) + '\\n\\n';
const s = http.createServer((req, res) => {
  let text = '';
  req.on('data', (t) => { text += t; });
  req.on('end', () => {
    const body = JSON.parse(text);
    const round = body.tools && !body.messages.some((m) => m.role === 'tool');
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    if (round) res.write(piece({ tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'python', arguments: code } }] }) + piece({}, 'tool_calls'));
    else res.write(piece({ content: 'word ' }) + piece({ content: 'end' }) + piece({}, 'stop'));
    res.end('data: [DONE]\\n\\n');
  });
});
s.keepAliveTimeout = 60000;
s.listen(Number(process.argv[1]), '127.0.0.1', () => console.log('ready'));
`;

// From the request to the first piece that fits, and to the end.
async function timed(url, key, body, fits) {
  const begun = performance.now();
  const response = await fetch(url, { method: 'POST', headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' }, body: JSON.stringify(body) });
  if (response.status !== 200) throw new Error(`${url}: ${response.status} ${(await response.text()).slice(0, 300)}`);
  let text = '', first;
  const decoder = new TextDecoder();
  for await (const bytes of response.body) {
    text += decoder.decode(bytes, { stream: true });
    if (first === undefined && text.includes(fits)) first = performance.now() - begun;
  }
  return { first, all: performance.now() - begun, text };
}

const direct = (c) => timed(`${c.upstream.url}/chat/completions`, 'x', { model: 'm', stream: true, messages: [{ role: 'user', content: 'hi' }] }, 'word');
async function respond(c, body) {
  const got = await timed(`${c.daemon.url}/v1/responses`, c.daemon.key, { model: 'scripted', stream: true, input: 'hi', ...body }, '"delta":"word');
  if (!got.text.includes('event: response.completed')) throw new Error(`no answer: ${got.text.slice(-500)}`);
  return got;
}

async function firstWord(c) {
  const rounds = c.rounds(100);
  const [ours, theirs] = await interleave(rounds, [async () => (await respond(c, {})).first, async () => (await direct(c)).first]);
  const added = p50(ours) - p50(theirs);
  return { facts: { ours_ms: p50(ours).toFixed(2), upstream_ms: p50(theirs).toFixed(2), added_ms: added.toFixed(2) }, met: added <= FIRST_MS };
}

async function toolRound(c) {
  const container = (await c.daemon.call('POST', '/v1/containers', { name: 'bench' })).id;
  const tools = [{ type: 'code_interpreter', container }];
  const execute = async () => {
    const begun = performance.now();
    const e = await c.daemon.call('POST', `/api/sessions/${container}/executions`, { language: 'python', code: CELL });
    check('the cell', e.stdout, '4950');
    return performance.now() - begun;
  };
  await execute();
  const rounds = c.rounds(100);
  const [without, round, cell, call] = await interleave(rounds, [async () => (await respond(c, {})).all,
    async () => (await respond(c, { tools })).all, execute, async () => (await direct(c)).all]);
  const added = p50(round) - p50(without) - p50(cell) - p50(call);
  return { facts: { round_ms: (p50(round) - p50(without)).toFixed(2), execution_ms: p50(cell).toFixed(2), upstream_ms: p50(call).toFixed(2), added_ms: added.toFixed(2) },
    met: added <= ROUND_MS };
}

async function streams(c) {
  const sizes = [];
  let slowest = 0;
  for (let i = 0; i < WARM + MEASURED; i++) {
    const all = await Promise.all(Array.from({ length: STREAMS }, () => timed(`${c.daemon.url}/v1/responses`, c.daemon.key,
      { model: 'echo', stream: true, input: 'slow: 10\nlong: 100' }, '"delta"')));
    if (!all.every(({ text }) => text.includes('event: response.completed'))) throw new Error('a stream did not complete');
    slowest = Math.max(slowest, ...all.map(({ all: ms }) => ms));
    sizes.push(residentBytes(c.daemon.child.pid) / MIB);
  }
  const growth = sizes.at(-1) - sizes[WARM - 1];
  return { facts: { streams: STREAMS, rounds: sizes.length, slowest_ms: slowest.toFixed(0), [`mib_after_${WARM}`]: sizes[WARM - 1].toFixed(1), [`mib_after_${WARM + MEASURED}`]: sizes.at(-1).toFixed(1) },
    met: growth <= GROWTH_MIB };
}

const PORT = 20_000 + (process.pid % 20_000);

export const loop = {
  config: { pools: [{ name: 'default', runtime: 'standard' }], creations_per_s: 0,
    models: [{ name: 'scripted', kind: 'openai-chat', url: `http://127.0.0.1:${PORT}/v1`, concurrent: 256 }] },
  async begin(c) {
    const child = spawn(process.execPath, ['-e', UPSTREAM, String(PORT)], { stdio: ['ignore', 'pipe', 'inherit'] });
    await new Promise((done) => createInterface({ input: child.stdout }).once('line', done));
    c.upstream = { child, url: `http://127.0.0.1:${PORT}/v1` };
  },
  async end(c) { c.upstream?.child.kill(); },
  workloads: [
    { run: firstWord, lines: [{ name: 'loop_first_word', aim: { text: `added ≤ ${FIRST_MS} ms` }, what: 'first word of a streamed response, beside the model\'s server alone' }] },
    { run: toolRound, lines: [{ name: 'loop_tool_round', aim: { text: `added ≤ ${ROUND_MS} ms` }, what: 'a round with code, beside the execution and a call of the server' }] },
    { run: streams, lines: [{ name: 'loop_200_streams', aim: { text: `grows ≤ ${GROWTH_MIB} MiB` }, what: `${STREAMS} streams of one tenant at once, sixteen times; memory of the daemon over the last twelve` }] },
  ],
};
