// SPDX-License-Identifier: Apache-2.0
// Who in a tenant sees and uses a session, at every door and under both
// settings: every row that names a session, one of its executions or files,
// with every kind of principal. A private session of another principal must
// look exactly like one that does not exist (I3).
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, describe, test } from 'node:test';
import { policy } from '../../lib/approvals.mjs';
import { Pool, arm, poolBody } from '../../lib/azure.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { modern, response } from '../../lib/mcp.mjs';
import { Tools } from '../../lib/mcp-tools.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';
import { form } from '../../lib/workspace.mjs';
import { requestsOf, tools, unknown } from './fixtures.mjs';
import { bare, kindsOf, named, rows, send, shaped } from './rows.mjs';

const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
const OF_SESSIONS = ['session', 'execution', 'container', 'confile', 'identifier', 'azexec'];
const ofSession = rows.filter((row) => row.door !== 'mcp' && !row.flags.includes('open')).filter((row) => kindsOf(row).some((kind) => OF_SESSIONS.includes(kind)));
// Tenants by what they are set to. The last one is not set to anything: what
// a session is then depends on the door that made it.
const SETTINGS = ['principal', 'tenant', 'unset'];
const USER = ['execute', 'files:read', 'files:write', 'policy:admin', 'workspaces:admin'];

let server;
const who = {}; // by tenant: owner, token, peer, admin; and everybody's: none, bad, foreign

async function ok(secret, method, path, options = {}) {
  const answer = await request(server, method, path, { key: secret, agent, ...options });
  assert.ok(answer.status >= 200 && answer.status < 300, `${method} ${path}: ${answer.status} ${answer.text}`);
  return answer.body;
}

before(async () => {
  server = await Glovebox.start({ config: { tenant_sharing: 'principal=principal,tenant=tenant', sessions_per_tenant: 400, max_sessions: 800, creations_per_s: 0, auth_failures_per_min: 10_000,
    pools: [pool({ ready: 3, max_sessions: 700 }), pool({ name: 'closed', ready: 1, sharing: 'principal' }), pool({ name: 'open', ready: 1, sharing: 'tenant' })] } });
  const key = async (tenant, scopes) => (await server.ok('POST', '/api/keys', { tenant, scopes })).secret;
  const foreign = await key('foreign', USER);
  for (const tenant of SETTINGS) {
    const owner = await key(tenant, USER);
    who[tenant] = { none: null, bad: `gbx_${'5'.repeat(64)}`, foreign, owner, token: (await ok(owner, 'POST', '/api/tokens', { body: { ttl_s: 3600 } })).secret,
      peer: await key(tenant, USER), admin: await key(tenant, ['admin']), auditor: await key(tenant, ['audit:read']) };
  }
});
after(async () => { agent.destroy(); await stop(server); });

let count = 0;
const fresh = () => `sharing-${String(++count).padStart(6, '0')}`;

// What a row needs of sessions, made by a tenant's owner.
async function things(tenant, row) {
  const { owner } = who[tenant];
  const kinds = row ? kindsOf(row) : OF_SESSIONS;
  const t = { ...unknown, identifier: fresh() };
  if (kinds.some((kind) => ['session', 'execution', 'identifier', 'azexec'].includes(kind))) {
    const session = await ok(owner, 'POST', '/api/sessions', { body: { identifier: t.identifier } });
    Object.assign(t, { session: session.id, workspace: session.workspace });
    t.execution = (await ok(owner, 'POST', `/api/sessions/${t.session}/executions`, { body: { code: 'open("file", "w").write("zanzibar"); secret = "zanzibar"; print(secret)' } })).id;
    t.azexec = t.execution.replace(/^exec_(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  }
  if (kinds.some((kind) => ['container', 'confile'].includes(kind))) {
    t.container = (await ok(owner, 'POST', '/v1/containers', { body: { name: 'c' } })).id;
    t.confile = (await ok(owner, 'POST', `/v1/containers/${t.container}/files`, form([{ filename: 'file', body: 'zanzibar' }]))).id;
  }
  return t;
}

const call = (row, t, secret) => send(server, agent, row, t, secret);
const shows = (answer, t) => ['session', 'container', 'workspace'].some((kind) => t[kind] !== unknown[kind] && t[kind] && answer.text.includes(t[kind])) || answer.text.includes('zanzibar');
const good = (row, answer) => assert.ok(answer.status < 400 || requestsOf[named(row)]?.own?.includes(answer.status), `${answer.status} ${answer.text.slice(0, 300)}`);
const looks = (t, secret) => ok(secret, 'GET', `/api/sessions/${t.session}`);

for (const tenant of ['principal', 'tenant'])
  describe(`sharing: ${tenant}`, () => {
    for (const row of ofSession) {
      const creates = requestsOf[named(row)]?.creates;
      const native = row.door !== 'azure';

      test(`I1_I3 ${named(row)}: foreign principals`, async () => {
        const t = await things(tenant, row);
        const was = t.session === unknown.session ? null : await looks(t, who[tenant].owner);
        for (const name of ['none', 'bad']) for (const one of [t, unknown]) assert.equal((await call(row, one, who[tenant][name])).status, 401, name);
        // The scope of an admin is not theirs, and says so before anything is looked for.
        const strangers = tenant === 'principal' ? ['foreign', 'peer'] : ['foreign'];
        for (const name of strangers) {
          const secret = who[tenant][name];
          if (creates) {
            const there = await call(row, t, secret), absent = await call(row, { ...unknown, identifier: fresh() }, secret);
            assert.deepEqual(shaped(there), shaped(absent), name);
            assert.ok(!shows(there, t), `${name}: ${there.text}`);
          } else {
            const there = await call(row, t, secret), absent = await call(row, unknown, secret);
            assert.deepEqual(bare(there, t), bare(absent, unknown), name);
            assert.ok([400, 404].includes(there.status) || (row.door === 'azure' && /stopSession|DELETE/.test(named(row))), `${name}: ${there.status} ${there.text}`);
          }
        }
        if (was) assert.deepEqual(await looks(t, who[tenant].owner), was, 'nothing has touched it');
      });

      test(`I3 ${named(row)}: owner, token of the owner, admin${tenant === 'tenant' ? ', and every other principal' : ''}`, async () => {
        // Where identifiers are each principal's own, an admin names a session by its id.
        const names = ['owner', 'token', ...(native || tenant === 'tenant' ? ['admin'] : []), ...(tenant === 'tenant' ? ['peer'] : [])];
        for (const name of names) {
          const t = await things(tenant, row);
          // Changing who sees it is the owner's and the admins'. Evidence is by who asked for the execution.
          if (name === 'peer' && named(row) === 'native PATCH /api/sessions/{id}') refused(await call(row, t, who[tenant].peer), 403, 'forbidden');
          else if (name === 'peer' && /evidence$/.test(row.pattern)) refused(await call(row, t, who[tenant].peer), 404, 'not_found');
          else good(row, await call(row, t, who[tenant][name]));
        }
      });
    }

    test('I3 lists at every door', async () => {
      const t = await things(tenant);
      const evidence = `/api/evidence?session=${t.session}&limit=1000`;
      const lists = ['/api/sessions?limit=100', '/v1/containers?limit=100', '/pools/default/listSessions?api-version=2025-10-02-preview', evidence];
      for (const path of lists) {
        const mine = path.startsWith('/v1') ? t.container : path.startsWith('/pools') ? t.identifier : t.session;
        const seen = async (name) => JSON.stringify(await ok(who[tenant][name], path.startsWith('/pools/default/.management') ? 'POST' : 'GET', path)).includes(mine);
        assert.equal(await seen('foreign'), false, path);
        assert.equal(await seen('peer'), tenant === 'tenant' && path !== evidence, path);
        if (!path.startsWith('/pools')) { // a page of which may not reach the last one
          assert.equal(await seen('owner'), true, path);
          assert.equal(await seen('admin'), true, path);
        }
      }
      const after = (id) => request(server, 'GET', `/api/sessions?after=${id}`, { key: who[tenant].peer, agent });
      const evidenceAfter = (id) => request(server, 'GET', `/api/evidence?after=${id}`, { key: who[tenant].peer, agent });
      if (tenant === 'principal') {
        assert.deepEqual(bare(await after(t.session), t), bare(await after(unknown.session), unknown));
        assert.deepEqual(bare(await evidenceAfter(t.execution), t), bare(await evidenceAfter(unknown.execution), unknown));
      } else assert.equal((await after(t.session)).status, 200);
    });

    describe('MCP', () => {
      const ask = (tool, args, secret) => modern(server, 'tools/call', { name: tool, arguments: args }, { id: 1, key: secret, path: '/mcp?tools=all' });
      const outcome = (answer) => response(answer).result?.isError ?? true;

      for (const [tool, args] of Object.entries(tools).filter(([, a]) => a && 'session_id' in a({}))) {
        test(`I3 the tool ${tool}`, async () => {
          const t = await things(tenant);
          for (const name of tenant === 'principal' ? ['foreign', 'peer'] : ['foreign']) {
            const there = await ask(tool, args(t), who[tenant][name]), absent = await ask(tool, args(unknown), who[tenant][name]);
            assert.deepEqual(bare({ ...there, headers: {} }, t), bare({ ...absent, headers: {} }, unknown), name);
            assert.equal(outcome(there), true, name);
          }
          const able = { owner: true, admin: true, peer: tenant === 'tenant' && tool !== 'share_session' };
          for (const [name, may] of Object.entries(able)) {
            const text = JSON.stringify(response(await ask(tool, args(await things(tenant)), who[tenant][name])));
            assert.equal(/not_found|forbidden/.test(text), !may, `${name}: ${text.slice(0, 300)}`);
          }
        });
      }

      test('I3 the tool list_sessions', async () => {
        const t = await things(tenant);
        const seen = async (name) => JSON.stringify(response(await ask('list_sessions', { limit: 100 }, who[tenant][name]))).includes(t.session);
        assert.deepEqual([await seen('owner'), await seen('admin'), await seen('peer'), await seen('foreign')], [true, true, tenant === 'tenant', false]);
      });
    });
  });

describe('defaults', () => {
  const visible = async (id, name) => (await request(server, 'GET', `/api/sessions/${id}`, { key: who.unset[name], agent })).status === 200;
  const sharing = async (id) => (await ok(who.unset.owner, 'GET', `/api/sessions/${id}`)).sharing;
  const byIdentifier = async (identifier) => (await ok(who.unset.admin, 'GET', '/api/sessions?limit=100')).data.find((s) => s.identifier === identifier);

  test('native and MCP: principal; OpenAI and Azure: tenant', async () => {
    const { owner } = who.unset;
    const native = (await ok(owner, 'POST', '/api/sessions', { body: {} })).id;
    const openai = (await ok(owner, 'POST', '/v1/containers', { body: { name: 'c' } })).id;
    const azure = new Pool(server, { key: owner, identifier: fresh() });
    assert.equal((await azure.run('1')).status, 200);
    const azureId = (await byIdentifier(azure.identifier)).id;
    const mcp = response(await modern(server, 'tools/call', { name: 'execute_python', arguments: { code: '1' } }, { key: owner })).result.structuredContent.session_id;
    const found = [];
    for (const id of [native, mcp, openai, azureId]) found.push([await sharing(id), await visible(id, 'peer'), await visible(id, 'admin'), await visible(id, 'foreign')]);
    assert.deepEqual(found, [['principal', false, true, false], ['principal', false, true, false], ['tenant', true, true, false], ['tenant', true, true, false]]);
  });

  test('a conversation over MCP is each principal\'s own', async () => {
    const run = async (name, code) => response(await modern(server, 'tools/call', { name: 'execute_python', arguments: { code }, _meta: { 'com.glovebox/conversation': 'c-1' } }, { key: who.unset[name] })).result.structuredContent;
    const first = await run('owner', 'x = "zanzibar"');
    const other = await run('peer', 'print("x" in globals())');
    assert.notEqual(first.session_id, other.session_id);
    assert.equal(other.stdout, 'False\n');
    assert.equal((await run('owner', 'print(x)')).stdout, 'zanzibar\n');
  });

  test('a pool\'s setting comes before the door\'s, the session\'s own before the pool\'s', async () => {
    const { owner } = who.unset;
    const made = async (body) => (await ok(owner, 'POST', '/api/sessions', { body })).sharing;
    assert.deepEqual([await made({ pool: 'closed' }), await made({ pool: 'open' }), await made({ pool: 'closed', sharing: 'tenant' }), await made({ pool: 'open', sharing: 'principal' })],
      ['principal', 'tenant', 'tenant', 'principal']);
    const strict = await ok(who.principal.owner, 'POST', '/api/sessions', { body: { pool: 'open' } });
    assert.equal(strict.sharing, 'tenant', 'the pool before the tenant');
    for (const sharing of ['default', 'everyone', '', 1]) assert.equal((await request(server, 'POST', '/api/sessions', { key: owner, body: { sharing }, agent })).status, 400, `${sharing}`);
  });

  test('I3 at the Azure door a private pool gives two principals one session each by the same identifier', async () => {
    const identifier = fresh();
    const [owner, peer] = ['owner', 'peer'].map((name) => new Pool(server, { base: '/pools/closed', key: who.unset[name], identifier }));
    assert.equal((await owner.run('x = "zanzibar"')).status, 200);
    assert.match((await peer.run('print("x" in globals())')).text, /False/);
    assert.equal((await peer.upload('theirs', 'x')).status, 200);
    assert.deepEqual(await owner.names(), []);
    assert.match((await owner.run('print(x)')).text, /zanzibar/);
    assert.equal((await peer.delete('session')).status, 204);
    assert.match((await owner.run('print(x)')).text, /zanzibar/, 'the end of one is not the end of the other');
    const list = async (one) => (await one.get('listSessions')).body.sessions.filter((s) => s.identifier === identifier).length;
    assert.deepEqual([await list(owner), await list(peer)], [1, 0]);
  });

  test('the files of a private session are not behind its workspace either', async () => {
    const t = await things('principal');
    for (const path of [`/api/workspaces/${t.workspace}`, `/api/workspaces/${t.workspace}/files`, `/api/workspaces/${t.workspace}/files/file`, `/api/workspaces/${t.workspace}/archive`, `/api/workspaces/${t.workspace}/history`]) {
      const plain = (await server.ok('POST', '/api/keys', { tenant: 'principal', scopes: ['execute', 'files:read', 'files:write'] })).secret;
      refused(await request(server, 'GET', path, { key: plain, agent }), 404, 'not_found');
      assert.equal((await request(server, 'GET', path, { key: who.principal.owner, agent })).status, 200, path);
    }
  });
});

describe('sharing one', () => {
  const patch = (t, name, sharing) => request(server, 'PATCH', `/api/sessions/${t.session}`, { key: who.principal[name], body: { sharing }, agent });
  const uses = (t, name) => request(server, 'POST', `/api/sessions/${t.session}/executions`, { key: who.principal[name], body: { code: 'print(secret)' }, agent });

  test('by its owner, a token of the owner or an admin; from the next request on', async () => {
    for (const by of ['owner', 'token', 'admin']) {
      const t = await things('principal');
      refused(await uses(t, 'peer'), 404, 'not_found');
      refused(await patch(t, 'peer', 'tenant'), 404, 'not_found');
      const shared = await patch(t, by, 'tenant');
      assert.deepEqual([shared.status, shared.body.sharing], [200, 'tenant']);
      assert.equal((await uses(t, 'peer')).body.stdout, 'zanzibar\n');
      refused(await uses(t, 'foreign'), 404, 'not_found');
      refused(await patch(t, 'peer', 'principal'), 403, 'forbidden', /owner/);
      assert.equal((await patch(t, by, 'principal')).status, 200);
      refused(await uses(t, 'peer'), 404, 'not_found');
      assert.equal((await uses(t, 'owner')).body.stdout, 'zanzibar\n');
      const trail = (await ok(who.principal.auditor, 'GET', `/api/audit?action=session.share&object=${t.session}`)).data;
      assert.deepEqual(trail.map((e) => [e.before, e.after, e.result]), [['principal', 'tenant', 'ok'], ['tenant', 'principal', 'ok']]);
    }
  });

  test('its workspace goes with it, and code of others is kept there', async () => {
    const t = await things('principal');
    const plain = (await server.ok('POST', '/api/keys', { tenant: 'principal', scopes: ['execute', 'files:read', 'files:write'] })).secret;
    const reads = async () => (await request(server, 'GET', `/api/workspaces/${t.workspace}/files/file`, { key: plain, agent })).status;
    assert.equal(await reads(), 404);
    await patch(t, 'owner', 'tenant');
    assert.equal(await reads(), 200);
    const ran = await ok(plain, 'POST', `/api/sessions/${t.session}/executions`, { body: { code: 'open("theirs", "w").write("x")' } });
    assert.deepEqual([ran.outcome, ran.files.created.map((f) => f.path)], ['ok', ['theirs']]);
    await patch(t, 'owner', 'principal');
    assert.equal(await reads(), 404);
  });

  test('policy has a say in it', async () => {
    const t = await things('principal');
    await policy(server, 'version: 1\nrules:\n  - {name: no, match: {action: share}, then: deny, reason: not here}\n');
    refused(await patch(t, 'owner', 'tenant'), 403, undefined, /not here/);
    refused(await request(server, 'POST', '/api/sessions', { key: who.principal.owner, body: { sharing: 'tenant' }, agent }), 403, undefined, /not here/);
    await policy(server, 'version: 1\n');
    assert.equal((await patch(t, 'owner', 'tenant')).status, 200);
    await policy(server, 'version: 1\nrules:\n  - {name: no, match: {action: share}, then: deny, reason: not here}\n');
    assert.equal((await patch(t, 'owner', 'principal')).status, 200, 'taking it back is always allowed');
    await policy(server, 'version: 1\n');
  });

  test('a body that says nothing, or something else, is refused', async () => {
    const t = await things('principal');
    for (const body of [{}, { sharing: 'default' }, { sharing: null }, { sharing: 'tenant', name: 'x' }]) assert.equal((await request(server, 'PATCH', `/api/sessions/${t.session}`, { key: who.principal.owner, body, agent })).status, 400);
    assert.equal((await looks(t, who.principal.owner)).sharing, 'principal');
  });

  test('I3 a token that is bound to the session uses it and does not share it', async () => {
    const t = await things('principal');
    const { secret } = await ok(who.principal.owner, 'POST', '/api/tokens', { body: { ttl_s: 600, session: t.session } });
    assert.equal((await request(server, 'GET', `/api/sessions/${t.session}`, { key: secret, agent })).status, 200);
    refused(await request(server, 'PATCH', `/api/sessions/${t.session}`, { key: secret, body: { sharing: 'tenant' }, agent }), 403, 'forbidden', /bound/);
    // And a key that an admin binds to it is not its owner for that.
    const bound = (await server.ok('POST', '/api/keys', { tenant: 'principal', scopes: ['execute'], sessions: [t.session] })).secret;
    refused(await request(server, 'GET', `/api/sessions/${t.session}`, { key: bound, agent }), 404, 'not_found');
    await patch(t, 'owner', 'tenant');
    assert.equal((await request(server, 'GET', `/api/sessions/${t.session}`, { key: bound, agent })).status, 200);
  });

  test('I3 what waits for approval in a private session is not there for others', async () => {
    await policy(server, 'version: 1\nrules:\n  - {name: shell, match: {action: execute, language: shell}, then: ask}\n');
    const t = await things('principal');
    const held = (await ok(who.principal.owner, 'POST', `/api/sessions/${t.session}/executions`, { body: { language: 'shell', code: 'true' } })).id;
    for (const [method, path] of [['GET', ''], ['GET', '/events'], ['POST', '/cancel'], ['GET', '/evidence']]) {
      const ask = (id) => request(server, method, `/api/executions/${id}${path}`, { key: who.principal.peer, agent });
      assert.deepEqual(bare(await ask(held), { held }), bare(await ask(unknown.execution), unknown), path);
    }
    assert.equal((await ok(who.principal.owner, 'GET', `/api/executions/${held}`)).status, 'pending_approval');
    await ok(who.principal.owner, 'POST', `/api/executions/${held}/cancel`);
    const ask = (id) => request(server, 'POST', `/api/executions/${id}/cancel`, { key: who.principal.peer, agent });
    assert.deepEqual(bare(await ask(held), { held }), bare(await ask(unknown.execution), unknown), 'nor once it is over');
    await policy(server, 'version: 1\n');
  });

  test('the sessions of a revoked key are the admin\'s to end', async () => {
    const gone = await server.ok('POST', '/api/keys', { tenant: 'principal', scopes: USER });
    const session = await ok(gone.secret, 'POST', '/api/sessions', { body: {} });
    await server.ok('DELETE', `/api/keys/${gone.id}`);
    assert.equal((await request(server, 'GET', `/api/sessions/${session.id}`, { key: who.principal.peer, agent })).status, 404);
    assert.equal((await ok(who.principal.admin, 'GET', `/api/sessions/${session.id}`)).owner, gone.id);
    assert.equal((await request(server, 'DELETE', `/api/sessions/${session.id}`, { key: who.principal.admin, agent })).status, 204);
  });

  test('environments of an Azure pool\'s MCP endpoint outlive the rotation of its keys', async () => {
    await ok(server.key, 'PUT', arm('sharingkeyed'), { body: poolBody() });
    const fetch_ = async (action) => (await ok(server.key, 'POST', arm(`sharingkeyed/${action}`))).apiKey;
    const client = (secret) => new Tools(server, { key: null, path: '/pools/sharingkeyed/mcp', headers: { 'x-ms-apikey': secret } });
    const { environmentId } = (await client(await fetch_('fetchMCPServerCredentials')).ok('launchShell')).data;
    const rotated = client(await fetch_('rotateMCPServerCredentials'));
    assert.equal((await rotated.ok('runPythonCodeInRemoteEnvironment', { environmentId, pythonCode: 'print(7)' })).data.stdout, '7\n');
  });

  test('it is as it was after a restart', async () => {
    const open = await things('principal'), closed = await things('principal');
    await patch(open, 'owner', 'tenant');
    await server.stop({ keep: true });
    server = await Glovebox.start({ dir: server.dir, config: { pools: [pool({ ready: 1 })] } });
    assert.equal((await request(server, 'GET', `/api/sessions/${open.session}`, { key: who.principal.peer })).status, 200);
    assert.equal((await request(server, 'GET', `/api/sessions/${closed.session}`, { key: who.principal.peer })).status, 404);
    assert.equal((await request(server, 'GET', `/api/sessions/${closed.session}`, { key: who.principal.owner })).status, 200);
  });
});
