// SPDX-License-Identifier: Apache-2.0
// Rows of the product's own table of routes as requests, and answers made
// comparable; for the authorization matrices.
import { spawnSync } from 'node:child_process';
import { arm, poolBody } from '../../lib/azure.mjs';
import { bin } from '../../lib/glovebox.mjs';
import { beginning, request } from '../../lib/wire.mjs';
import { kindOf, requestsOf } from './fixtures.mjs';

export const rows = JSON.parse(spawnSync(bin('gloveboxd'), ['--routes'], { encoding: 'utf8' }).stdout);
export const named = (row) => `${row.door} ${row.method} ${row.pattern}`;

// The kinds of things a row names, in its path or otherwise.
export function kindsOf(row) {
  const found = [...row.pattern.matchAll(/\{(\w+)(?:\.\.\.)?\}/g)].map(([, name]) => kindOf(row, name)).filter((kind) => typeof kind === 'string');
  const special = row.door === 'azure' ? (row.pattern.startsWith('/:') ? (row.pattern === '/:pools' ? [] : ['pool']) : /listSessions$/.test(row.pattern) ? [] : ['identifier']) : [];
  return [...found, ...special, ...(requestsOf[named(row)]?.ids ?? [])];
}

const managed = { '/:pools': '', '/:pool': '', '/:credentials': '/fetchMCPServerCredentials', '/:rotation': '/rotateMCPServerCredentials' };

function pathOf(row, t) {
  const more = requestsOf[named(row)] ?? {};
  const query = more.query?.(t) ?? '';
  const path = row.pattern.replace(/\{(\w+)(?:\.\.\.)?\}/g, (_, name) => { const kind = kindOf(row, name); return typeof kind === 'string' ? t[kind] : kind[0]; });
  if (row.door === 'native') return `${path}${query}`;
  if (row.door === 'foundry') return `/api/projects/matrix${path}${query}`;
  if (row.door === 'openai') return `/v1${path}${query}`;
  if (row.pattern in managed) {
    const [base, version] = arm(row.pattern === '/:pools' ? '' : t.pool).split('?');
    return `${base}${managed[row.pattern]}?${version}`;
  }
  return `/pools/default${path}?api-version=${more.version ?? '2025-10-02-preview'}&identifier=${t.identifier}${query}`;
}

export function send(server, agent, row, t, secret, headers = {}) {
  const sent = requestsOf[named(row)]?.send?.(t) ?? (row.pattern in managed && ['PUT', 'PATCH'].includes(row.method) ? { body: poolBody() } : {});
  if (requestsOf[named(row)]?.endless) return beginning(server, pathOf(row, t), secret, headers);
  return request(server, row.method, pathOf(row, t), { agent, ...sent, key: secret, headers: { ...sent.headers, ...headers } });
}

// An answer without what is its own by right: ids of requests, the date, and
// the names that were asked for.
const own = new Set(['date', 'x-request-id', 'mise-correlation-id', 'x-ms-client-request-id', 'openai-processing-ms', 'x-ms-request-id', 'x-ms-correlation-request-id', 'operation-id', 'traceparent', 'connection', 'keep-alive']);
export function bare(answer, t) {
  let text = answer.text;
  for (const id of Object.values(t).filter((v) => typeof v === 'string' && v.length > 3).sort((a, b) => b.length - a.length)) text = text.replaceAll(id, 'ID');
  text = text.replace(/"traceId":"[0-9a-f]{32}"|req_[0-9a-f]+|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, 'REQUEST');
  return { status: answer.status, text, headers: Object.entries(answer.headers).filter(([name]) => !own.has(name) && !(name === 'content-length' && text !== answer.text)).sort() };
}

// An answer without its values: what is in it, of which kind, and how many.
function shape(value) {
  if (Array.isArray(value)) return value.map(shape);
  if (value && typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, shape(one)]).sort(([a], [b]) => (a < b ? -1 : 1)));
  return typeof value === 'boolean' || value === null ? value : typeof value;
}
export const shaped = (answer) => ({ status: answer.status, body: shape(answer.body ?? null), headers: Object.keys(answer.headers).filter((name) => !own.has(name)).sort() });
