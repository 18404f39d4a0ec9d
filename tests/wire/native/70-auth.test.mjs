// SPDX-License-Identifier: Apache-2.0
// Who may do what: every route of the table, with every kind of key, on
// every kind of id; and where keys must never turn up.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { beginning, refused, request, stop } from '../../lib/wire.mjs';
import { form, openapi, unknownId } from '../../lib/workspace.mjs';

const ADMIN = 'admin';
const EXECUTE = 'execute';
const READ = 'files:read';
const WRITE = 'files:write';
const POLICY = 'policy:admin';
const AUDIT = 'audit:read';
const APPROVE = 'approve';

let agents = 0; // made so far, each with a name of its own

// Every route: what it needs, a good request, and what a good one answers.
// kind says which id stands in the path, fixed what else does; the table of
// the product is compared with this one below, so none can be forgotten.
const routes = [
  { method: 'GET', path: '/healthz', open: true, status: 200 },
  { method: 'GET', path: '/readyz', open: true, status: 200 },
  { method: 'GET', path: '/metrics', status: 200 },
  { method: 'POST', path: '/api/sessions', scope: EXECUTE, body: {}, status: 201 },
  { method: 'GET', path: '/api/sessions', scope: EXECUTE, status: 200 },
  { method: 'GET', path: '/api/sessions/{id}', scope: EXECUTE, kind: 'session', status: 200 },
  { method: 'PATCH', path: '/api/sessions/{id}', scope: EXECUTE, kind: 'session', body: { sharing: 'tenant' }, status: 200, owner: true },
  { method: 'POST', path: '/api/sessions/{id}/reset', scope: EXECUTE, kind: 'session', status: 200 },
  { method: 'POST', path: '/api/sessions/{id}/undo', scope: EXECUTE, kind: 'session', body: {}, status: 409 },
  { method: 'POST', path: '/api/sessions/{id}/redo', scope: EXECUTE, kind: 'session', body: {}, status: 409 },
  { method: 'POST', path: '/api/sessions/{id}/branch', scope: EXECUTE, kind: 'session', body: {}, status: 201 },
  { method: 'POST', path: '/api/sessions/{id}/merge', scope: EXECUTE, kind: 'session', status: 409 },
  { method: 'POST', path: '/api/sessions/{id}/hibernate', scope: EXECUTE, kind: 'session', status: 409 },
  { method: 'POST', path: '/api/sessions/{id}/keepalive', scope: EXECUTE, kind: 'session', status: 200 },
  { method: 'POST', path: '/api/sessions/{id}/complete', scope: EXECUTE, kind: 'session', body: { code: 'pri' }, status: 200 },
  { method: 'POST', path: '/api/sessions/{id}/inspect', scope: EXECUTE, kind: 'session', body: { code: 'print' }, status: 200 },
  { method: 'GET', path: '/api/sessions/{id}/variables', scope: EXECUTE, kind: 'session', status: 200 },
  { method: 'POST', path: '/api/sessions/{id}/interrupt', scope: EXECUTE, kind: 'session', status: 202 },
  { method: 'POST', path: '/api/sessions/{id}/executions', scope: EXECUTE, kind: 'session', body: { code: '1' }, status: 200 },
  { method: 'GET', path: '/api/sessions/{id}/executions', scope: EXECUTE, kind: 'session', status: 200 },
  { method: 'GET', path: '/api/executions/{id}', scope: EXECUTE, kind: 'execution', status: 200 },
  { method: 'GET', path: '/api/executions/{id}/events', scope: EXECUTE, kind: 'execution', status: 200 },
  { method: 'POST', path: '/api/executions/{id}/cancel', scope: EXECUTE, kind: 'execution', status: 202 },
  { method: 'POST', path: '/api/executions/{id}/input', scope: EXECUTE, kind: 'execution', body: { text: '' }, status: 409 },
  { method: 'POST', path: '/api/run', scope: EXECUTE, body: { code: '1' }, status: 200 },
  { method: 'GET', path: '/api/sessions/{id}/files', scope: READ, kind: 'session', status: 200 },
  { method: 'GET', path: '/api/sessions/{id}/files/{path}', scope: READ, kind: 'session', status: 200 },
  { method: 'PUT', path: '/api/sessions/{id}/files/{path}', scope: WRITE, kind: 'session', raw: 'bytes', status: 201 },
  { method: 'DELETE', path: '/api/sessions/{id}/files/{path}', scope: WRITE, kind: 'session', status: 204 },
  { method: 'GET', path: '/api/pools', status: 200 },
  { method: 'GET', path: '/api/pools/{name}', kind: 'pool', status: 200 },
  { method: 'POST', path: '/api/pools', scope: ADMIN, body: { name: 'made', ready_wanted: 0 }, status: 201 },
  { method: 'PATCH', path: '/api/pools/{name}', scope: ADMIN, kind: 'made', body: { cooldown_s: 60 }, status: 200 },
  { method: 'DELETE', path: '/api/pools/{name}', scope: ADMIN, kind: 'made', status: 204 },
  { method: 'GET', path: '/api/runtimes', status: 200 },
  { method: 'GET', path: '/api/runtimes/{name}', kind: 'runtime', status: 200 },
  { method: 'GET', path: '/api/limits', status: 200 },
  { method: 'GET', path: '/api/whoami', status: 200 },
  { method: 'POST', path: '/api/keys', scope: ADMIN, body: { scopes: ['execute'] }, status: 201 },
  { method: 'GET', path: '/api/keys', scope: ADMIN, status: 200 },
  { method: 'PATCH', path: '/api/keys/{id}', scope: ADMIN, kind: 'key', body: { name: 'renamed' }, status: 200 },
  { method: 'POST', path: '/api/keys/{id}/rotate', scope: ADMIN, kind: 'key', status: 200 },
  { method: 'GET', path: '/api/usage/history', status: 200 },
  { method: 'DELETE', path: '/api/keys/{id}', scope: ADMIN, kind: 'key', status: 204 },
  { method: 'POST', path: '/api/tokens', body: { ttl_s: 60 }, status: 201 },
  { method: 'GET', path: '/api/tokens', status: 200 },
  { method: 'DELETE', path: '/api/tokens/{id}', kind: 'minted', status: 204 },
  { method: 'GET', path: '/openapi.json', open: true, status: 200 },
  { method: 'POST', path: '/api/sessions/{id}/refresh', scope: EXECUTE, kind: 'session', status: 200 },
  { method: 'POST', path: '/api/workspaces', scope: WRITE, body: {}, status: 201 },
  { method: 'GET', path: '/api/workspaces', scope: READ, status: 200 },
  { method: 'POST', path: '/api/workspaces/claim', scope: WRITE, body: { token: 'none' }, status: 404 },
  { method: 'GET', path: '/api/workspaces/{ws}', scope: READ, kind: 'ws', status: 200 },
  { method: 'PATCH', path: '/api/workspaces/{ws}', scope: WRITE, kind: 'ws', body: { name: 'x' }, status: 200 },
  { method: 'DELETE', path: '/api/workspaces/{ws}', scope: WRITE, kind: 'ws', status: 204 },
  { method: 'POST', path: '/api/workspaces/{ws}/undelete', scope: WRITE, kind: 'ws', status: 200, first: ['DELETE', (t) => `/api/workspaces/${t.ws}`] },
  { method: 'GET', path: '/api/tools', scope: READ, status: 200 },
  { method: 'GET', path: '/api/workspaces/{ws}/mirror', scope: READ, kind: 'ws', status: 404 },
  { method: 'PUT', path: '/api/workspaces/{ws}/mirror', scope: WRITE, kind: 'ws', body: { destination: 's3://none/x' }, status: 403 },
  { method: 'DELETE', path: '/api/workspaces/{ws}/mirror', scope: WRITE, kind: 'ws', status: 404 },
  { method: 'POST', path: '/api/workspaces/{ws}/attach', scope: WRITE, kind: 'ws', body: { source: 's3://none/x' }, status: 403 },
  { method: 'GET', path: '/api/nodes', scope: ADMIN, status: 403 },
  { method: 'GET', path: '/api/nodes/{node}', scope: ADMIN, fixed: { node: 'none' }, status: 403 },
  { method: 'POST', path: '/api/nodes/{node}/drain', scope: ADMIN, fixed: { node: 'none' }, status: 403 },
  { method: 'POST', path: '/api/nodes/{node}/activate', scope: ADMIN, fixed: { node: 'none' }, status: 403 },
  { method: 'GET', path: '/api/workspaces/{ws}/members', scope: READ, kind: 'ws', status: 200 },
  { method: 'PUT', path: '/api/workspaces/{ws}/members/{principal}', scope: WRITE, kind: 'ws', body: { role: 'viewer' }, status: 204 },
  { method: 'DELETE', path: '/api/workspaces/{ws}/members/{principal}', scope: WRITE, kind: 'ws', status: 204 },
  { method: 'POST', path: '/api/workspaces/{ws}/transfer', scope: WRITE, kind: 'ws', body: (t) => ({ to: t.taker }), status: 200 },
  { method: 'POST', path: '/api/workspaces/{ws}/offers', scope: WRITE, kind: 'ws', status: 201 },
  { method: 'GET', path: '/api/workspaces/{ws}/offers', scope: READ, kind: 'ws', status: 200, owner: true },
  { method: 'DELETE', path: '/api/workspaces/{ws}/offers/{offer}', scope: WRITE, kind: 'ws', status: 204 },
  { method: 'GET', path: '/api/usage', scope: READ, status: 200 },
  { method: 'GET', path: '/api/workspaces/{ws}/files', scope: READ, kind: 'ws', status: 200 },
  { method: 'POST', path: '/api/workspaces/{ws}/files', scope: WRITE, kind: 'ws', form: true, status: 201 },
  { method: 'GET', path: '/api/workspaces/{ws}/files/{path}', scope: READ, kind: 'ws', status: 200 },
  { method: 'PUT', path: '/api/workspaces/{ws}/files/{path}', scope: WRITE, kind: 'ws', raw: 'bytes', status: 200 },
  { method: 'DELETE', path: '/api/workspaces/{ws}/files/{path}', scope: WRITE, kind: 'ws', status: 200 },
  { method: 'GET', path: '/api/workspaces/{ws}/info/{path}', scope: READ, kind: 'ws', status: 200 },
  { method: 'POST', path: '/api/workspaces/{ws}/move', scope: WRITE, kind: 'ws', body: { from: 'file', to: 'other' }, status: 200 },
  { method: 'POST', path: '/api/workspaces/{ws}/copy', scope: WRITE, kind: 'ws', body: { from: 'file', to: 'other' }, status: 200 },
  { method: 'GET', path: '/api/workspaces/{ws}/archive', scope: READ, kind: 'ws', status: 200 },
  { method: 'GET', path: '/api/files/{file}', scope: READ, kind: 'file', status: 200 },
  { method: 'GET', path: '/api/files/{file}/content', scope: READ, kind: 'file', status: 200 },
  { method: 'POST', path: '/api/workspaces/{ws}/uploads', scope: WRITE, kind: 'ws', body: { path: 'up' }, status: 201 },
  { method: 'GET', path: '/api/uploads/{id}', scope: READ, kind: 'upload', status: 200, maker: true },
  { method: 'PUT', path: '/api/uploads/{id}/parts/{number}', scope: WRITE, kind: 'upload', raw: 'bytes', status: 200 },
  { method: 'POST', path: '/api/uploads/{id}/complete', scope: WRITE, kind: 'upload', status: 201, first: ['PUT', (t) => `/api/uploads/${t.upload}/parts/1`, 'x'] },
  { method: 'DELETE', path: '/api/uploads/{id}', scope: WRITE, kind: 'upload', status: 204 },
  { method: 'GET', path: '/api/workspaces/{ws}/history', scope: READ, kind: 'ws', status: 200 },
  { method: 'GET', path: '/api/versions/{version}/provenance', scope: READ, kind: 'version', status: 200 },
  { method: 'GET', path: '/api/workspaces/{ws}/diff', query: '?path=file', scope: READ, kind: 'ws', status: 200 },
  { method: 'POST', path: '/api/workspaces/{ws}/purge', scope: WRITE, kind: 'ws', body: { path: 'none' }, status: 200 },
  { method: 'POST', path: '/api/workspaces/{ws}/restore', scope: WRITE, kind: 'ws', body: (t) => ({ version: t.version }), status: 200 },
  { method: 'GET', path: '/api/conversations', scope: READ, status: 200 },
  { method: 'POST', path: '/api/conversations', scope: EXECUTE, status: 201 },
  { method: 'GET', path: '/api/conversations/{conversation}', scope: READ, status: 404 },
  { method: 'PATCH', path: '/api/conversations/{conversation}', scope: EXECUTE, body: { title: 'x' }, status: 404 },
  { method: 'DELETE', path: '/api/conversations/{conversation}', scope: EXECUTE, status: 404 },
  { method: 'GET', path: '/api/conversations/{conversation}/items', scope: EXECUTE, status: 404 },
  { method: 'GET', path: '/api/conversations/{conversation}/export', scope: EXECUTE, status: 404 },
  { method: 'GET', path: '/api/conversations/{conversation}/files', scope: READ, status: 200 },
  { method: 'POST', path: '/api/workspaces/{ws}/locks', scope: WRITE, kind: 'ws', body: { path: 'new' }, status: 201 },
  { method: 'GET', path: '/api/workspaces/{ws}/locks', scope: READ, kind: 'ws', status: 200 },
  { method: 'POST', path: '/api/workspaces/{ws}/locks/{lock}/renew', scope: WRITE, kind: 'ws', body: (t) => ({ token: t.token }), status: 200 },
  { method: 'DELETE', path: '/api/workspaces/{ws}/locks/{lock}', query: '?force=true', scope: WRITE, kind: 'ws', status: 204 },
  { method: 'POST', path: '/api/shares', scope: WRITE, body: (t) => ({ workspace: t.ws, path: 'file' }), status: 201 },
  { method: 'POST', path: '/api/files/{file}/link', scope: WRITE, kind: 'file', status: 201 },
  { method: 'GET', path: '/api/shares', query: (t) => `?workspace=${t.ws}`, scope: READ, status: 200 },
  { method: 'DELETE', path: '/api/shares/{share}', scope: WRITE, kind: 'share', status: 204 },
  { method: 'GET', path: '/s/{secret}', open: true, status: 200 },
  { method: 'GET', path: '/s/{secret}/{path}', open: true, status: 200 },
  { method: 'PUT', path: '/s/{secret}', open: true, raw: 'x', status: 400 },
  { method: 'PUT', path: '/s/{secret}/{path}', open: true, raw: 'bytes', status: 200 },
  { method: 'POST', path: '/s/{secret}', open: true, raw: 'x', status: 400 },
  { method: 'GET', path: '/api/search', query: '?q=x', scope: READ, status: 200 },
  { method: 'POST', path: '/api/ask', scope: READ, body: { question: 'x', model: 'echo' }, status: 409 },
  { method: 'GET', path: '/api/search/status', scope: READ, status: 200 },
  { method: 'GET', path: '/api/audit', scope: AUDIT, status: 200 },
  { method: 'POST', path: '/api/audit/verify', scope: AUDIT, status: 200 },
  // What concerns the stored data of all tenants is the operators'.
  { method: 'POST', path: '/api/collect', scope: ADMIN, status: 403 },
  { method: 'POST', path: '/api/verify', scope: ADMIN, status: 403 },
  { method: 'POST', path: '/api/backup', scope: ADMIN, body: { path: '/nowhere/at/all' }, status: 403 },
  { method: 'POST', path: '/api/backups', scope: ADMIN, status: 403 },
  { method: 'GET', path: '/api/backups/schedule', scope: ADMIN, status: 403 },
  { method: 'PUT', path: '/api/backups/schedule', scope: ADMIN, body: { every_s: 0 }, status: 403 },
  // The policy is the operators': another tenant's administrator may look at what concerns it.
  { method: 'GET', path: '/api/policy', scope: POLICY, status: 200 },
  { method: 'PUT', path: '/api/policy', scope: POLICY, body: { text: 'version: 1' }, status: 403 },
  { method: 'GET', path: '/api/policy/versions', scope: POLICY, status: 403 },
  { method: 'GET', path: '/api/policy/versions/{number}', scope: POLICY, status: 403 },
  { method: 'POST', path: '/api/policy/check', scope: POLICY, body: { text: 'version: 1' }, status: 200 },
  { method: 'POST', path: '/api/policy/test', scope: POLICY, body: { cases: 'cases: [{request: {action: execute}, expect: {verdict: allow}}]', text: 'version: 1' }, status: 200 },
  { method: 'POST', path: '/api/policy/explain', scope: POLICY, body: { request: { action: 'execute' } }, status: 200 },
  { method: 'POST', path: '/api/policy/reload', scope: POLICY, status: 403 },
  { method: 'POST', path: '/api/sessions/{id}/policy', scope: POLICY, kind: 'session', status: 200 },
  { method: 'GET', path: '/api/quotas', status: 200 },
  { method: 'GET', path: '/api/quotas/{tenant}', scope: POLICY, fixed: { tenant: 'mine' }, status: 200 },
  { method: 'PUT', path: '/api/quotas/{tenant}', scope: POLICY, fixed: { tenant: 'mine' }, body: { executions: 5 }, status: 403 },
  { method: 'GET', path: '/api/approvals', status: 200 },
  { method: 'GET', path: '/api/approvals/{id}', kind: 'approval', status: 200 },
  { method: 'POST', path: '/api/approvals/{id}/approve', scope: APPROVE, kind: 'approval', status: 200 },
  { method: 'POST', path: '/api/approvals/{id}/deny', scope: APPROVE, kind: 'approval', body: { reason: 'no' }, status: 409 },
  { method: 'DELETE', path: '/api/approvals/{id}', kind: 'approval', status: 403 },
  { method: 'GET', path: '/api/executions/{id}/evidence', kind: 'execution', status: 200 },
  { method: 'GET', path: '/api/evidence', status: 200 },
  { method: 'GET', path: '/api/audit/export', scope: AUDIT, status: 200 },
  { method: 'GET', path: '/api/audit/key', scope: AUDIT, status: 200 },
  { method: 'POST', path: '/api/audit/checkpoints', scope: AUDIT, status: 201 },
  { method: 'GET', path: '/api/audit/checkpoints', scope: AUDIT, status: 200 },
  { method: 'GET', path: '/api/sessions/{id}/network', scope: EXECUTE, kind: 'session', status: 200 },
  { method: 'PUT', path: '/api/sessions/{id}/network', scope: EXECUTE, kind: 'session', body: { mode: 'none' }, status: 200 },
  { method: 'PUT', path: '/api/secrets/{name}', scope: POLICY, fixed: { name: 'one' }, body: { value: 'x', destinations: ['api.example.org'] }, status: 201 },
  { method: 'GET', path: '/api/secrets/{name}', scope: POLICY, fixed: { name: 'one' }, status: 200 },
  { method: 'GET', path: '/api/secrets', scope: POLICY, status: 200 },
  { method: 'DELETE', path: '/api/secrets/{name}', scope: POLICY, fixed: { name: 'one' }, status: 204 },
  { method: 'POST', path: '/api/models', scope: POLICY, body: { name: 'one', kind: 'openai-chat', url: 'https://api.example.org/v1' }, status: 201 },
  { method: 'GET', path: '/api/models', scope: EXECUTE, status: 200 },
  { method: 'GET', path: '/api/models/{name}', scope: EXECUTE, fixed: { name: 'echo' }, status: 200 },
  { method: 'POST', path: '/api/models/{name}/test', scope: POLICY, fixed: { name: 'echo' }, status: 200 },
  { method: 'DELETE', path: '/api/models/{name}', scope: POLICY, fixed: { name: 'one' }, status: 204 },
  { method: 'POST', path: '/api/agents', scope: EXECUTE, body: () => ({ name: `auth-${++agents}`, definition: { model: 'echo' } }), status: 201 },
  { method: 'GET', path: '/api/agents', scope: EXECUTE, status: 200 },
  { method: 'GET', path: '/api/agents/{name}', scope: EXECUTE, kind: 'agent', status: 200 },
  { method: 'PATCH', path: '/api/agents/{name}', scope: EXECUTE, kind: 'agent', body: { enabled: false }, status: 200, owner: true },
  { method: 'POST', path: '/api/agents/{name}/versions', scope: EXECUTE, kind: 'agent', body: { definition: { model: 'echo', top_p: 1 } }, status: 201, owner: true },
  { method: 'GET', path: '/api/agents/{name}/versions', scope: EXECUTE, kind: 'agent', status: 200 },
  { method: 'GET', path: '/api/agents/{name}/versions/{number}', scope: EXECUTE, kind: 'agent', fixed: { number: 1 }, status: 200 },
  { method: 'DELETE', path: '/api/agents/{name}/versions/{number}', scope: EXECUTE, kind: 'agent', fixed: { number: 1 }, status: 204, owner: true },
  { method: 'DELETE', path: '/api/agents/{name}', scope: EXECUTE, kind: 'agent', status: 204, owner: true },
  { method: 'POST', path: '/api/workspaces/{ws}/tools', scope: WRITE, kind: 'ws', body: { name: 'tool', code: '1' }, status: 201 },
  { method: 'GET', path: '/api/workspaces/{ws}/tools', scope: READ, kind: 'ws', status: 200 },
  ...[['GET', '', READ, 200], ['GET', '/versions', READ, 200], ['GET', '/versions/{number}', READ, 200], ['POST', '/run', EXECUTE, 200], ['DELETE', '/versions/{number}', WRITE, 204], ['DELETE', '', WRITE, 204]].map(([method, path, scope, status]) => (
    { method, path: `/api/workspaces/{ws}/tools/{name}${path}`, scope, kind: 'ws', fixed: { name: 'tool', number: 1 }, first: ['POST', (t) => `/api/workspaces/${t.ws}/tools`, { name: 'tool', code: '1' }], status })),
  { method: 'GET', path: '/api/posture', scope: AUDIT, status: 403 }, // the operators' alone
  { method: 'POST', path: '/api/scorecard', scope: ADMIN, status: 403 },
  { method: 'GET', path: '/api/scorecard', scope: ADMIN, status: 403 },
  { method: 'GET', path: '/api/me', status: 200 },
  { method: 'GET', path: '/api/events', endless: true, status: 200 },
  { method: 'GET', path: '/api/executions', scope: EXECUTE, status: 200 },
  { method: 'POST', path: '/api/files/{file}/table', scope: READ, kind: 'file', status: 400 }, // its name is no table's
  { method: 'GET', path: '/api/console/config', open: true, status: 200 },
  { method: 'POST', path: '/api/console/login', open: true, body: { key: 'none' }, status: 403 }, // not from the console's page
  { method: 'GET', path: '/api/console/oidc/start', open: true, status: 404 }, // no issuer here
  { method: 'GET', path: '/api/console/oidc/callback', open: true, status: 404 },
  { method: 'POST', path: '/api/console/logout', status: 409 },
  { method: 'POST', path: '/api/console/links', status: 201 },
  { method: 'DELETE', path: '/api/sessions/{id}', scope: EXECUTE, kind: 'session', status: 204 },
];

const unknown = {
  session: 'sess_00000000000000000000000000000000', execution: 'exec_00000000000000000000000000000000',
  key: 'key_00000000000000000000000000000000', minted: unknownId('tok'), approval: unknownId('apr'), agent: 'nosuch', pool: 'nosuch', made: 'nosuch', runtime: 'nosuch', ws: unknownId('ws'), file: unknownId('file'),
  version: unknownId('ver'), share: unknownId('share'), upload: unknownId('up'), lock: unknownId('lock'), offer: unknownId('xfer'),
  principal: '*', number: 1, conversation: 'none', secret: '0'.repeat(64), token: 'none',
};

let server;
let keys;
let taker;

const mint = async (scopes, tenant) => server.ok('POST', '/api/keys', { scopes, tenant });

before(async () => {
  server = await Glovebox.start({ config: { log_level: 'debug', sessions_per_tenant: 80, auth_failures_per_min: 10_000, pools: [pool({ ready: 4 })] } });
  const all = [EXECUTE, READ, WRITE];
  keys = {
    own: (await mint([...all, ADMIN], 'mine')).secret,
    user: (await mint(all, 'mine')).secret,
    foreign: (await mint([...all, ADMIN], 'theirs')).secret,
    execute: (await mint([EXECUTE], 'mine')).secret,
    read: (await mint([READ], 'mine')).secret,
    write: (await mint([WRITE], 'mine')).secret,
  };
  taker = (await mint(all, 'mine')).id;
  unknown.taker = taker;
  const revoked = await mint([...all, ADMIN], 'mine');
  await server.ok('DELETE', `/api/keys/${revoked.id}`);
  keys.revoked = revoked.secret;
  keys.bad = `${server.key.slice(0, -1)}${server.key.endsWith('0') ? '1' : '0'}`;
});
after(() => stop(server));

// Things of the tenant 'mine', one of each kind, new for each use. The session
// is shared: which scope a route takes is seen with keys that did not make it.
async function things() {
  const session = (await request(server, 'POST', '/api/sessions', { body: { sharing: 'tenant' }, key: keys.own })).body.id;
  const execution = (await request(server, 'POST', `/api/sessions/${session}/executions`, { body: { code: '1' }, key: keys.own })).body.id;
  await request(server, 'PUT', `/api/sessions/${session}/files/file`, { body: 'x', key: keys.own });
  const { name: made } = (await request(server, 'POST', '/api/pools', { body: { name: `p-${session.slice(5)}`, ready_wanted: 0 }, key: keys.own })).body;
  const minted = (await request(server, 'POST', '/api/tokens', { body: { ttl_s: 600 }, key: keys.own })).body.id;
  // Asked for by another key: nobody approves their own.
  const { approval } = (await request(server, 'POST', `/api/sessions/${session}/executions`, { body: { code: '2', approval: 'required' }, key: keys.user })).body;
  const agent = (await request(server, 'POST', '/api/agents', { body: { name: `auth-${++agents}`, definition: { model: 'echo' } }, key: keys.own })).body.name;
  return { session, execution, minted, approval, agent, pool: 'default', made, runtime: 'minimal', key: (await mint([READ], 'mine')).id };
}

// The same of workspaces, made with one key.
async function stuff(key = keys.own) {
  const make = async (method, path, body) => {
    const made = await request(server, method, path, { body, key });
    assert.ok(made.status === 200 || made.status === 201, `${method} ${path}: ${made.text}`);
    return made.body;
  };
  const ws = (await make('POST', '/api/workspaces', {})).id;
  const at = `/api/workspaces/${ws}`;
  const { file_id: file, version } = await make('PUT', `${at}/files/file`, 'x');
  const lock = await make('POST', `${at}/locks`, { path: 'locked' });
  const share = await make('POST', '/api/shares', { workspace: ws, path: '', mode: 'write' });
  return { ws, file, version, lock: lock.id, token: lock.token, offer: (await make('POST', `${at}/offers`)).id, share: share.id, secret: share.url.split('/s/')[1],
    upload: (await make('POST', `${at}/uploads`, { path: 'up' })).id, principal: '*', number: 1, conversation: 'none', taker };
}

const call = async (route, ids, key, headers = {}) => {
  const value = (v) => (typeof v === 'function' ? v(ids) : v);
  const path = route.path.replace(/\{(\w+)\}/g, (_, name) => (name === 'path' ? 'file' : route.fixed?.[name] ?? ids[['id', 'name'].includes(name) ? route.kind : name]));
  const made = route.form ? form([{ filename: 'f', body: 'x' }]) : { body: value(route.body) ?? route.raw };
  if (route.endless) return beginning(server, path, key, headers);
  return request(server, route.method, `${path}${value(route.query) ?? ''}`, { ...made, key, headers: { ...made.headers, ...headers } });
};

// An answer without what is its own by right: the request's id and the date.
const bare = (answer, id) => ({ status: answer.status, text: answer.text.replaceAll(id, 'ID'),
  headers: Object.entries(answer.headers).filter(([name]) => !['date', 'x-request-id'].includes(name)).sort() });

test('I1 the table of this test is the table of the product', async () => {
  const doc = await openapi(server);
  const rows = Object.entries(doc.paths).flatMap(([path, item]) => Object.entries(item).map(([method, op]) =>
    `${method.toUpperCase()} ${path} ${op.security[0]?.bearer[0]} ${op.security.length === 0}`));
  assert.deepEqual(rows.sort(), routes.map((r) => `${r.method} ${r.path} ${r.scope} ${Boolean(r.open)}`).sort());
});

describe('I1 every route with every key', () => {
  let ids;

  before(async () => { ids = { ...await things(), ...await stuff() }; });

  for (const route of routes.filter((r) => !r.open))
    test(`I1 ${route.method} ${route.path}`, async () => {
      for (const which of ['known', 'unknown']) {
        if (which === 'unknown' && !route.kind) continue;
        const target = which === 'known' ? ids : unknown;
        const none = await call(route, target, null);
        refused(none, 401, 'unauthenticated');
        assert.equal(none.headers['www-authenticate'], 'Bearer');
        for (const key of ['bad', 'revoked', '']) refused(await call(route, target, keys[key] ?? ''), 401, 'unauthenticated');
        // Only then is it looked at: a key without the scope learns nothing of the id.
        for (const [name, scopes] of Object.entries({ execute: [EXECUTE], read: [READ], write: [WRITE], user: [EXECUTE, READ, WRITE] })) {
          if (!route.scope || scopes.includes(route.scope)) continue;
          refused(await call(route, target, keys[name]), 403, 'forbidden', new RegExp(route.scope));
        }
      }
      if (route.kind && !['pool', 'runtime', 'key', 'minted'].includes(route.kind)) {
        // A foreign id and an unknown one, apart from the id itself, are the same answer.
        const foreign = bare(await call(route, ids, keys.foreign), ids[route.kind]);
        const absent = bare(await call(route, unknown, keys.foreign), unknown[route.kind]);
        assert.equal(foreign.status, 404);
        assert.deepEqual(foreign, absent);
      }
      if (route.kind) refused(await call(route, unknown, keys.own), 404, 'not_found');
    });

  test('I1 no refused call did anything', async () => {
    const session = await request(server, 'GET', `/api/sessions/${ids.session}`, { key: keys.own });
    assert.equal(session.status, 200, 'it was not deleted');
    assert.equal(session.body.executions, 1);
    assert.equal(session.body.interpreters, 1);
    assert.equal((await request(server, 'GET', `/api/sessions/${ids.session}/files/file`, { key: keys.own })).text, 'x');
    const listed = (await request(server, 'GET', '/api/keys', { key: keys.own })).body.data;
    assert.equal(listed.find((k) => k.id === ids.key).revoked_at, null);
    const ws = (await request(server, 'GET', `/api/workspaces/${ids.ws}`, { key: keys.own })).body;
    assert.deepEqual([ws.commits, ws.files, ws.name], [1, 1, null]);
    assert.equal((await request(server, 'GET', `/api/workspaces/${ids.ws}/locks`, { key: keys.own })).body.data.length, 1);
  });

  // Its own things for a route that may end them.
  const tried = async (route, mine, key, maker) => {
    const target = /workspaces|files\/\{file\}|versions|uploads|shares|^\/s\//.test(route.path) ? { ...mine, ...await stuff(maker) } : mine;
    if (route.first) {
      const [method, path, body] = route.first;
      await request(server, method, path(target), { body, key: maker });
    }
    const got = await call(route, target, key);
    assert.equal(got.status, route.status, `${route.method} ${route.path}: ${got.text.slice(0, 500)}`);
  };

  test('I1 the right key gets the right answer on every route', async () => {
    const mine = await things();
    for (const route of routes) {
      if (route.path === '/api/sessions/{id}/files/{path}' && route.method === 'GET') await request(server, 'PUT', `/api/sessions/${mine.session}/files/file`, { body: 'x', key: keys.own });
      await tried(route, { ...unknown, ...mine }, route.open ? null : keys.own, keys.own);
    }
  });

  test('I1 each scope is enough for its routes', async () => {
    for (const [name, scope] of [['execute', EXECUTE], ['read', READ], ['write', WRITE]]) {
      const mine = await things();
      for (const route of routes.filter((r) => r.scope === scope && !r.owner && !(r.maker && name === 'read')))
        await tried(route, { ...unknown, ...mine }, keys[name], name === 'write' ? keys.write : keys.own);
    }
  });

  test('I1 unknown paths and wrong methods too need a key first', async () => {
    for (const [method, path] of [['GET', '/nowhere'], ['POST', '/'], ['GET', '/console'], ['PATCH', '/api/sessions'], ['POST', '/healthz'], ['GET', '/api/../api/keys'], ['OPTIONS', '/api/sessions'],
      ['PUT', `/api/sessions/${ids.session}/files/..%2f..`], ['GET', '/api/sessions?nope=1'], ['GET', '/api/sessions/%ff']])
      for (const key of [null, keys.bad]) refused(await request(server, method, path, { key }), 401, 'unauthenticated');
  });
});

test('I3 lists, marks and counts hold nothing of others', async () => {
  const mine = await things();
  const theirs = (await request(server, 'POST', '/api/sessions', { body: {}, key: keys.foreign })).body.id;
  const seen = async (key) => (await request(server, 'GET', '/api/sessions?limit=100', { key })).body.data.map((s) => s.id);
  assert.ok((await seen(keys.own)).includes(mine.session) && !(await seen(keys.own)).includes(theirs));
  assert.ok((await seen(keys.foreign)).includes(theirs) && !(await seen(keys.foreign)).includes(mine.session));
  const mark = (id) => request(server, 'GET', `/api/sessions?after=${id}`, { key: keys.foreign });
  assert.deepEqual(bare(await mark(mine.session), mine.session), bare(await mark(unknown.session), unknown.session));
  // Nor may a session of one tenant be used to reach an execution of another.
  refused(await request(server, 'GET', `/api/executions/${mine.execution}`, { key: keys.foreign }), 404, 'not_found');
  await request(server, 'DELETE', `/api/sessions/${theirs}`, { key: keys.foreign });
});

// Fails only if two kinds of request differ in every one of five rounds: a leak
// is systematic, a busy machine is not. Each round alternates the order.
async function sameTime(ask, first, second) {
  const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];
  const rounds = [];
  for (let round = 0; round < 5; round++) {
    const times = new Map([[first, []], [second, []]]);
    for (let i = 0; i < 100; i++)
      for (const kind of i % 2 ? [first, second] : [second, first]) {
        const begun = process.hrtime.bigint();
        await ask(kind);
        times.get(kind).push(Number(process.hrtime.bigint() - begun) / 1000);
      }
    const [one, other] = [median(times.get(first)), median(times.get(second))];
    if (Math.abs(one - other) < 0.25 * Math.min(one, other) + 100) return;
    rounds.push(`${one} and ${other} µs`);
  }
  assert.fail(`the times differ in every round: ${rounds.join(', ')}`);
}

test('I3 telling a foreign id from an unknown one by time does not work', async () => {
  const mine = await things();
  await sameTime((id) => request(server, 'GET', `/api/sessions/${id}`, { key: keys.foreign }), mine.session, unknown.session);
});

test('I4 ids are long, random and never in sequence', async () => {
  const ids = [];
  for (let i = 0; i < 12; i++) {
    const { session, execution, key } = await things();
    ids.push(session, execution, key);
    await request(server, 'DELETE', `/api/sessions/${session}`, { key: keys.own });
  }
  const bits = ids.map((id) => /^(sess|exec|key)_([0-9a-f]{32})$/.exec(id)?.[2] ?? assert.fail(id));
  assert.equal(new Set(bits).size, bits.length);
  assert.equal(new Set(bits.map((b) => b.slice(0, 6))).size, bits.length, 'no common beginning');
  assert.equal(new Set(bits.map((b) => b.slice(-6))).size, bits.length, 'nor end');
  const ones = [...bits.join('')].reduce((n, c) => n + [...parseInt(c, 16).toString(2)].filter((b) => b === '1').length, 0);
  const total = bits.length * 128;
  assert.ok(Math.abs(ones / total - 0.5) < 0.05, `${ones} of ${total} bits set`);
});

test('I2 a secret is shown once, is long, and its stored form does not open the door', async () => {
  const made = await mint([READ], 'mine');
  assert.match(made.secret, /[0-9a-f]{64}$/);
  assert.doesNotMatch(JSON.stringify((await request(server, 'GET', '/api/keys')).body), new RegExp(made.secret.slice(-32)));
  const data = join(server.dir, 'data');
  const tails = [made.secret.slice(-64), keys.own.slice(-64)];
  for (const tail of tails) assert.equal(spawnSync('grep', ['-rlaF', '--exclude=*.img', tail, data], { encoding: 'utf8' }).stdout, '');
  for (const wrong of [made.id, made.secret.slice(0, -1), `${made.secret}0`, made.secret.toUpperCase(), ` ${made.secret}x`, made.secret.replace(/^[^_]*_/, '')])
    refused(await request(server, 'GET', '/api/pools', { key: wrong }), 401, 'unauthenticated');
  assert.equal((await request(server, 'GET', '/api/pools', { key: null, headers: { authorization: `bearer  ${made.secret}` } })).status, 200, 'the word is written as one likes');
  await server.ok('DELETE', `/api/keys/${made.id}`);
  refused(await request(server, 'GET', '/api/pools', { key: made.secret }), 401, 'unauthenticated');
  const row = (await request(server, 'GET', '/api/keys')).body.data.find((k) => k.id === made.id);
  assert.match(row.revoked_at, /^20/);
});

test('I2 a right key\'s beginning takes as long to refuse as a wrong one\'s', async () => {
  const near = `${server.key.slice(0, -1)}${server.key.endsWith('a') ? 'b' : 'a'}`;
  const far = `${server.key.slice(0, -64)}${'0'.repeat(64)}`;
  await sameTime((key) => request(server, 'GET', '/api/pools', { key }), near, far);
});

describe('I5 guessing', () => {
  test('I5 is answered late, never with 429, while the right key is answered at once', async () => {
    const strict = await Glovebox.start({ config: { auth_failures_per_min: 5 } });
    try {
      const guess = async (key, headers) => {
        const begun = performance.now();
        const answer = await request(strict, 'GET', '/api/pools', { key, headers });
        refused(answer, 401, 'unauthenticated');
        assert.equal(answer.headers['retry-after'], undefined);
        return { ms: performance.now() - begun, hint: answer.body.error.hint };
      };
      for (let i = 0; i < 12; i++) {
        const { ms, hint } = await guess(`gbx_${String(i).padStart(64, '0')}`);
        // The delay is at least 400 ms and below a second; the rest is the machine's.
        if (i >= 5) {
          assert.ok(ms >= 350, `${ms} ms`);
          assert.match(hint, /delayed/);
        } else {
          assert.equal(hint, undefined);
        }
      }
      assert.equal((await request(strict, 'GET', '/api/pools')).status, 200, 'the owner is not locked out, from the same address');
      assert.equal((await strict.run('print(1)')).stdout, '1\n');
      refused(await request(strict, 'GET', '/api/pools', { key: null }), 401, 'unauthenticated');
      assert.equal((await request(strict, 'GET', '/healthz', { key: null })).status, 200);
      // Forwarding headers buy no new identity (I9).
      assert.match((await guess('x', { 'x-forwarded-for': '10.9.8.7', forwarded: 'for=10.9.8.7', 'x-real-ip': '10.9.8.7' })).hint, /delayed/);
      // Many at once, on the few threads there are: none holds a worker.
      const answers = await Promise.all(Array.from({ length: 100 }, (_, i) => guess(`gbx_${String(1000 + i).padStart(64, '0')}`)));
      assert.ok(answers.every(({ hint }) => /delayed/.test(hint)));
      // A connection that waits for its answer may leave or be cut by the stop.
      void request(strict, 'GET', '/api/pools', { key: 'x' }).catch(() => {});
    } finally {
      await stop(strict);
    }
  });
});

test('I7 no key is in a log, an address, an answer, a session or the process list', async () => {
  const session = await server.session({}, { key: keys.own });
  await session.python('print("code-marker-7141")');
  await request(server, 'GET', `/api/pools?key=${keys.own}`);
  await request(server, 'GET', `/api/pools/${keys.own}`);
  await request(server, 'PUT', `/api/sessions/${session.id}/files/name-marker-9938`, { body: 'content-marker-5527', key: keys.own });
  const tails = Object.entries({ ...keys, admin: server.key }).filter(([name]) => name !== 'bad').map(([name, key]) => [name, key.slice(-40)]);
  await until(() => server.log.includes('name-marker') || server.log.split('\n').length > 50);
  for (const [name, tail] of tails) assert.ok(!server.log.includes(tail), `${name} in the log`);
  for (const marker of ['code-marker-7141', 'content-marker-5527', 'name-marker-9938']) assert.ok(!server.log.includes(marker), `${marker} in the log`);
  const environment = await session.out('import os; print(os.environ, open("/proc/self/cmdline").read(), open("/proc/self/environ").read())');
  const files = (await session.shell('grep -rlaF -e ' + tails.map(([, t]) => t).join(' -e ') + ' /mnt /tmp /etc /run /opt 2>/dev/null; true')).stdout;
  assert.equal(files, '');
  for (const [name, tail] of tails) assert.ok(!environment.includes(tail), `${name} in the session`);
  const { rows } = server.processes();
  for (const { pid, ppid } of rows) {
    if (ppid !== server.pid && pid !== server.pid) continue;
    for (const file of ['cmdline', 'environ']) {
      let text = '';
      try { text = readFileSync(`/proc/${pid}/${file}`, 'utf8'); } catch { /* it ended */ }
      for (const [, tail] of tails) assert.ok(!text.includes(tail));
    }
  }
  await session.delete();
});

test('I9 there are no cross-origin headers, and browser headers grant nothing', async () => {
  for (const [method, path] of [['GET', '/api/pools'], ['OPTIONS', '/api/sessions'], ['GET', '/healthz'], ['POST', '/api/run']]) {
    const got = await request(server, method, path, { headers: { origin: 'http://evil.example', 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization' }, body: method === 'POST' ? { code: '1' } : undefined });
    for (const name of Object.keys(got.headers)) assert.doesNotMatch(name, /^access-control/);
    if (method === 'OPTIONS') assert.equal(got.status, 405);
  }
  for (const headers of [{ 'x-forwarded-user': 'admin' }, { 'x-remote-user': 'admin' }, { cookie: 'session=admin' }, { 'x-original-url': '/healthz' }, { 'x-http-method-override': 'GET' }])
    refused(await request(server, 'GET', '/api/keys', { key: null, headers }), 401, 'unauthenticated');
  assert.equal((await request(server, 'POST', '/api/limits', { headers: { 'x-http-method-override': 'GET' } })).status, 405);
});
