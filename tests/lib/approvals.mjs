// SPDX-License-Identifier: Apache-2.0
// What tests about approvals share: a policy that asks, what the receiver of
// webhooks got, and the calls around one approval.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import http from 'node:http';
import { until } from './glovebox.mjs';
import { request } from './wire.mjs';

// Shell, links and handing over are asked about, anything else is free.
export const ASKS = `version: 1
rules:
  - {name: shell-needs-approval, match: {action: execute, language: shell}, then: ask}
  - {name: links-need-approval, match: {action: share}, then: ask}
  - {name: handing-over-needs-approval, match: {action: transfer}, then: ask}
`;

export async function policy(server, text) {
  const got = await request(server, 'PUT', '/api/policy', { body: text, headers: { 'content-type': 'application/yaml' } });
  assert.ok([200, 201].includes(got.status), got.text);
}

export const approvals = (server, query = '', key) => server.ok('GET', `/api/approvals${query}`, undefined, { key });
export const show = (server, id, key = server.key) => server.ok('GET', `/api/approvals/${id}`, undefined, { key });
export const decide = (server, id, verb, key, body) => request(server, 'POST', `/api/approvals/${id}/${verb}`, { key, body });

// The execution once it is over.
export const ended = (server, id) => until(async () => {
  const e = await server.ok('GET', `/api/executions/${id}`);
  return e.status === 'completed' && e;
}, { ms: 30_000, what: `the end of ${id}` });

// Receives webhooks: what came is in .got; .answer(status or 'hang') says how
// it answers from now on.
export class Receiver {
  static async open({ port = 0 } = {}) {
    const r = new Receiver();
    Object.assign(r, { got: [], status: 204 });
    r.server = http.createServer((req, res) => {
      let body = '';
      req.setEncoding('utf8');
      req.on('data', (part) => { body += part; });
      req.on('end', () => {
        r.got.push({ headers: req.headers, body, json: JSON.parse(body), status: r.status, path: req.url });
        if (r.status === 'hang') return;
        res.writeHead(r.status, r.status === 302 ? { location: '/elsewhere' } : {}).end();
      });
    });
    await new Promise((done) => r.server.listen(port, '127.0.0.1', done));
    r.port = r.server.address().port;
    r.url = `http://127.0.0.1:${r.port}/hook`;
    return r;
  }

  types(id) { return this.got.filter((g) => g.json.approval.id === id && g.status === 204).map((g) => g.json.type); }

  async close() {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }
}

// As a receiver is told to check it.
export function signed(secret, { headers, body }) {
  const [, t, v1] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(headers['glovebox-signature']) ?? assert.fail('no signature');
  assert.ok(Math.abs(Number(t) - Date.now() / 1000) < 300, 'signed now');
  return createHmac('sha256', secret).update(`${t}.${body}`).digest('hex') === v1;
}
