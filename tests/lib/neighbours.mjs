// SPDX-License-Identifier: Apache-2.0
// One tenant's warm executions timed, alone and beside a bombing one. Used by
// the test of X4 and by the benchmark.
import { spawn } from 'node:child_process';
import http from 'node:http';
import { setPriority } from 'node:os';
import { join } from 'node:path';
import { root, until } from './glovebox.mjs';

export const BOMBS = ['cpu', 'memory', 'forks', 'disk', 'inodes', 'output', 'connections', 'uploads', 'flood', 'creations', 'mix'];

export const p95 = (list) => [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.ceil(list.length * 0.95) - 1)];

export class Witness {
  constructor(server, key, id) {
    const { hostname, port } = new URL(server.url);
    Object.assign(this, { hostname, port, key, id, agent: new http.Agent({ keepAlive: true, maxSockets: 1 }) });
    try {
      setPriority(-20); // what is timed is the service, not our own turn on the machine
    } catch { /* not root: then it is timed too */ }
  }

  // Milliseconds; anything but the answer is an error.
  run() {
    return new Promise((done, failed) => {
      const body = '{"language":"python","code":"print(1)"}';
      const begun = process.hrtime.bigint();
      const req = http.request({ hostname: this.hostname, port: this.port, agent: this.agent, method: 'POST', timeout: 60_000,
        path: `/api/sessions/${this.id}/executions`,
        headers: { authorization: `Bearer ${this.key}`, 'content-type': 'application/json', 'content-length': body.length } },
      (res) => {
        let text = '';
        res.setEncoding('utf8').on('data', (t) => { text += t; }).on('end', () => {
          const ms = Number(process.hrtime.bigint() - begun) / 1e6;
          if (res.statusCode !== 200 || JSON.parse(text).stdout !== '1\n') failed(new Error(`${res.statusCode} ${text.slice(0, 300)}`));
          else done(ms);
        });
      });
      req.on('error', failed).on('timeout', () => req.destroy(new Error('no answer in a minute')));
      req.end(body);
    });
  }

  async times(count) {
    const list = [];
    for (let i = 0; i < count; i++) list.push(await this.run());
    return list;
  }

  close() { this.agent.destroy(); }
}

export async function bomb(server, key, kind) {
  const child = spawn(process.execPath, [join(root, 'tests/lib/bomber.mjs'), server.url, key, kind], { stdio: ['pipe', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.on('data', (b) => { text += b; });
  const ended = new Promise((done) => child.on('exit', done));
  await until(() => text.includes('up') || child.exitCode !== null, { ms: 60_000, what: `${kind} up` });
  return {
    async stop() {
      child.kill('SIGTERM');
      await ended;
      return text.split('\n')[1] ?? '';
    },
  };
}

// Ends what the bomb has left, so that the next idle figure is one. What it
// had asked for before it went is still made: over when there is none of it
// for a while.
export async function calm(server, options) {
  let empty = 0;
  await until(async () => {
    const { data } = await server.ok('GET', '/api/sessions?limit=100', undefined, options);
    for (const { id } of data) await server.call('DELETE', `/api/sessions/${id}`, undefined, options);
    empty = data.length ? 0 : empty + 1;
    return empty === 10;
  }, { ms: 30_000, every: 100, what: 'nothing left of the bomb' });
}
