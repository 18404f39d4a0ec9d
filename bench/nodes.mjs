// SPDX-License-Identifier: Apache-2.0
// A warm cell through the node that has the session and through another node,
// by turns. Two nodes, PostgreSQL and S3, all on this machine.
//
//     node bench/nodes.mjs
//
// docs/SCALE.md has figures.
import http from 'node:http';
import { Cluster } from '../tests/lib/cluster.mjs';
import { pool } from '../tests/lib/glovebox.mjs';

const CELLS = Number(process.env.CELLS ?? 300);
const median = (list) => list.sort((a, b) => a - b)[Math.floor(list.length / 2)];
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

/** One request by a client that costs less than fetch. */
const call = (g, method, path, body) => new Promise((done, fail) => {
  const text = body && JSON.stringify(body);
  const request = http.request(new URL(path, g.url), { method, agent,
    headers: { authorization: `Bearer ${g.key}`, ...(text ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) } : {}) } }, (response) => {
    let answer = '';
    response.setEncoding('utf8').on('data', (part) => { answer += part; }).on('end', () => (response.statusCode === 200 ? done(answer) : fail(new Error(`${response.statusCode} ${answer}`))));
  });
  request.on('error', fail).end(text);
});

const c = await Cluster.start({ nodes: 2, lease: 12, config: { pools: [pool({ ready: 2 })] } });
try {
  const session = await c.nodes[0].session();
  await session.python('1');
  const owner = c.owner(session.id), other = c.nodes.find((g) => g !== owner);
  const cell = { method: 'POST', path: `/api/sessions/${session.id}/executions`, body: { language: 'python', code: '1 + 1' } };
  const row = { method: 'GET', path: `/api/sessions/${session.id}` };
  for (const [name, { method, path, body }] of [['warm cell', cell], ['GET of the session', row]]) {
    const local = [], forwarded = [];
    for (let i = 0; i < CELLS + 10; i++)
      for (const [g, times] of [[owner, local], [other, forwarded]]) {
        const began = performance.now();
        await call(g, method, path, body);
        if (i >= 10) times.push(performance.now() - began);
      }
    console.log(`${name}: local ${median(local).toFixed(2)} ms, forwarded ${median(forwarded).toFixed(2)} ms, ${(median(forwarded) - median(local)).toFixed(2)} ms more`);
  }
} finally {
  agent.destroy();
  await c.stop();
}
