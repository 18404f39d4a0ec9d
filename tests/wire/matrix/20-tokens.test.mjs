// SPDX-License-Identifier: Apache-2.0
// Keys that are narrowed and tokens that are minted: what they open at every
// door, what they do not, when they end, and who may end them.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Pool } from '../../lib/azure.mjs';
import { Glovebox, pool, sleep, until } from '../../lib/glovebox.mjs';
import { Legacy, modern, response } from '../../lib/mcp.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';
import { form, unknownId } from '../../lib/workspace.mjs';

let server, own, ownId, boss;

const ask = (method, path, key = own, body, headers) => request(server, method, path, { key, body, headers });
async function ok(method, path, key, body) {
  const answer = await ask(method, path, key, body);
  assert.ok(answer.status >= 200 && answer.status < 300, `${method} ${path}: ${answer.status} ${answer.text}`);
  return answer.body;
}
const key = (scopes, more = {}) => server.ok('POST', '/api/keys', { scopes, tenant: 'mine', ...more });
const mint = (body, by) => ok('POST', '/api/tokens', by, { ttl_s: 600, ...body });
const made = (body = {}) => ok('POST', '/api/sessions', own, body);

before(async () => {
  server = await Glovebox.start({ config: { auth_failures_per_min: 10_000, pools: [pool({ ready: 2 }), pool({ name: 'other', ready: 1 })] } });
  const all = ['execute', 'files:read', 'files:write'];
  ({ secret: own, id: ownId } = await key(all));
  boss = (await key(['admin'])).secret;
});
after(() => stop(server));

describe('minting', () => {
  test('its time has bounds, and the body is read strictly', async () => {
    for (const [ttl, status] of [[4, 400], [5, 201], [86_400, 201], [86_401, 400], [0, 400], [-5, 400], [5.5, 400], ['60', 400], [null, 400]])
      assert.equal((await ask('POST', '/api/tokens', own, { ttl_s: ttl })).status, status, `${ttl}`);
    refused(await ask('POST', '/api/tokens', own, {}), 400, 'invalid_request', /ttl_s/);
    refused(await ask('POST', '/api/tokens', own, { ttl_s: 60, sesion: 'x' }), 400, 'invalid_request', /session/);
    refused(await ask('POST', '/api/tokens', own, { ttl_s: 60, scopes: [] }), 400, 'invalid_request', /scopes/);
    refused(await ask('POST', '/api/tokens', own, { ttl_s: 60, scopes: ['root'] }), 400, 'invalid_request', /unknown scope/);
    assert.equal((await ask('POST', '/api/tokens', own, { ttl_s: 60, name: 'n'.repeat(63) })).status, 201);
    refused(await ask('POST', '/api/tokens', own, { ttl_s: 60, name: 'n'.repeat(64) }), 400, 'invalid_request', /name/);
  });

  test('what it says of itself, and the secret once', async () => {
    const session = await made();
    const token = await mint({ session: session.id, scopes: ['execute'], name: 'for a chat' });
    assert.match(token.secret, /^gbt_[0-9a-f]{64}$/);
    assert.match(token.id, /^tok_[0-9a-f]{32}$/);
    assert.deepEqual([token.name, token.scopes, token.sessions, token.pools, token.workspaces, token.parent, token.key], ['for a chat', ['execute'], [session.id], null, null, ownId, ownId]);
    const left = new Date(token.expires_at) - new Date(token.created_at);
    assert.ok(left > 590_000 && left < 610_000, `${left} ms`);
    const { data } = await ok('GET', '/api/tokens');
    assert.ok(!JSON.stringify(data).includes(token.secret.slice(10)));
    assert.equal(data[0].id, token.id, 'newest first');
  });

  test('no wider than what it is minted from', async () => {
    const mine = await made(), other = await made();
    const token = await mint({ session: mine.id, scopes: ['execute'] });
    refused(await ask('POST', '/api/tokens', token.secret, { ttl_s: 60, scopes: ['files:read'] }), 403, 'forbidden', /files:read/);
    refused(await ask('POST', '/api/tokens', own, { ttl_s: 60, scopes: ['admin'] }), 403, 'forbidden', /admin/);
    refused(await ask('POST', '/api/tokens', token.secret, { ttl_s: 60, session: other.id }), 404, 'not_found');
    const child = await mint({ ttl_s: 86_400 }, token.secret);
    assert.deepEqual([child.sessions, child.scopes, child.expires_at, child.parent, child.key], [[mine.id], ['execute'], token.expires_at, token.id, ownId]);
    for (const [field, id] of [['session', unknownId('sess')], ['workspace', unknownId('ws')], ['pool', 'nosuch']])
      refused(await ask('POST', '/api/tokens', own, { ttl_s: 60, [field]: id }), 404, 'not_found');
    const whole = await mint({ scopes: ['admin'] }, boss);
    assert.equal((await ask('GET', '/api/keys', whole.secret)).status, 200);
    const said = await mint({}, boss);
    refused(await ask('GET', '/api/keys', said.secret), 403, 'forbidden', /admin/, 'admin only by name');
  });
});

describe('a token for one session', () => {
  let mine, other, token, opened;

  before(async () => {
    mine = await made({ identifier: 'azure-session-one' });
    other = await made({ identifier: 'azure-session-two' });
    opened = await ok('POST', '/v1/containers', own, { name: 'another' });
    token = (await mint({ session: mine.id })).secret;
  });

  test('works at every door', async () => {
    assert.equal((await ok('POST', `/api/sessions/${mine.id}/executions`, token, { code: 'open("f.txt","w").write("hi"); print(6*7)' })).stdout, '42\n');
    assert.deepEqual((await ok('GET', '/api/sessions', token)).data.map((s) => s.id), [mine.id]);
    assert.equal((await ask('GET', `/api/sessions/${mine.id}/files/f.txt`, token)).text, 'hi');
    assert.equal((await ask('GET', `/api/workspaces/${mine.workspace}/files/f.txt`, token)).text, 'hi', 'its workspace is its own too');
    assert.deepEqual((await ok('GET', '/api/workspaces', token)).data.map((w) => w.id), [mine.workspace]);
    assert.equal((await ok('GET', `/v1/containers/${mine.id}`, token)).id, mine.id);
    const listed = await ok('GET', `/v1/containers/${mine.id}/files`, token);
    assert.ok(listed.data.some((f) => f.path === '/mnt/data/f.txt'), JSON.stringify(listed));
    assert.deepEqual((await ok('GET', '/v1/containers', token)).data.map((c) => c.id), [mine.id]);
    const azure = new Pool(server, { key: token, identifier: 'azure-session-one' });
    assert.equal((await azure.run('6*7')).body.result.executionResult, 42);
    assert.ok((await azure.names()).includes('f.txt'));
    const tool = (args) => modern(server, 'tools/call', { name: 'execute_python', arguments: { code: 'print(6*7)', ...args } }, { key: token });
    for (const args of [{ session_id: mine.id }, {}]) assert.match(response(await tool(args)).result.content[0].text, /42/, 'the one session need not be named');
  });

  test('I3 and nowhere else', async () => {
    const denied = [
      ['GET', `/api/sessions/${other.id}`], ['POST', `/api/sessions/${other.id}/executions`, { code: '1' }], ['DELETE', `/api/sessions/${other.id}`],
      ['GET', `/api/workspaces/${other.workspace}`], ['GET', `/api/workspaces/${other.workspace}/files`], ['GET', `/v1/containers/${opened.id}`],
    ];
    for (const [method, path, body] of denied) assert.equal((await ask(method, path, token, body)).status, 404, path);
    for (const [method, path, body] of [['POST', '/api/sessions', {}], ['POST', '/api/run', { code: '1' }], ['POST', '/api/workspaces', {}], ['POST', '/v1/containers', { name: 'c' }],
      ['GET', '/api/usage'], ['GET', '/metrics'], ['POST', '/api/sessions', { workspace: mine.workspace }]])
      assert.equal((await ask(method, path, token, body)).status, 403, path);
    assert.equal((await request(server, 'POST', '/v1/files', { key: token, ...form([{ name: 'purpose', body: 'user_data' }, { name: 'file', filename: 'f', body: 'x' }]) })).status, 403);
    assert.deepEqual((await ok('GET', '/v1/files', token)).data, []);
    for (const identifier of ['azure-session-two', 'azure-session-new']) assert.equal((await new Pool(server, { key: token, identifier }).run('1')).status, 403, identifier);
    assert.equal((await ok('GET', `/api/sessions/${other.id}`)).executions, 0);
  });

  test('it works there, but does not give it away', async () => {
    for (const [method, path, body] of [['PUT', '/members/*', { role: 'editor' }], ['POST', '/offers', {}], ['DELETE', ''], ['PATCH', '', { name: 'x' }]])
      refused(await ask(method, `/api/workspaces/${mine.workspace}${path}`, token, body), 403, 'forbidden', /owner/);
  });

  test('a link it makes ends when it does', async () => {
    const { secret, expires_at } = await mint({ session: mine.id });
    await ok('PUT', `/api/workspaces/${mine.workspace}/files/shared`, own, 'x');
    const share = (key, more) => ok('POST', '/api/shares', key, { workspace: mine.workspace, path: 'shared', ...more });
    for (const more of [{}, { expires_in_s: 86_400 }]) assert.equal((await share(secret, more)).expires_at, expires_at);
    assert.ok((await share(secret, { expires_in_s: 60 })).expires_at < expires_at);
    assert.equal((await share(own, {})).expires_at, null);
  });

  test('lists, searches and marks hold nothing of others', async () => {
    await ok('PUT', `/api/workspaces/${other.workspace}/files/needle.txt`, own, 'needle');
    await ok('PUT', `/api/workspaces/${mine.workspace}/files/mine.txt`, own, 'needle');
    const hits = (k) => ok('GET', '/api/search?q=needle', k).then(({ data }) => data.map((h) => h.workspace).sort());
    await until(async () => (await hits(own)).length >= 2, { what: 'the index' });
    assert.deepEqual(await hits(token), [mine.workspace]);
    for (const after of [other.id, unknownId('sess')]) refused(await ask('GET', `/api/sessions?after=${after}`, token), 400, 'invalid_request');
    // A bounded list still comes in pages without holes.
    const both = await key(['execute'], { sessions: [mine.id, other.id] });
    for (const { id } of [mine, other]) await ok('PATCH', `/api/sessions/${id}`, own, { sharing: 'tenant' }); // a bound alone opens nothing
    for (let i = 0; i < 3; i++) await made();
    const first = await ok('GET', '/api/sessions?limit=1', both.secret);
    const second = await ok('GET', `/api/sessions?limit=1&after=${first.data[0].id}`, both.secret);
    assert.deepEqual([first.data[0].id, first.has_more, second.data[0].id, second.has_more], [other.id, true, mine.id, false]);
  });

  test('an MCP session of the parent is not the token\'s', async () => {
    const parent = await Legacy.open(server, { key: own });
    parent.key = token;
    assert.equal((await parent.request('ping')).status, 404);
  });
});

describe('other bounds', () => {
  test('a key for a workspace makes sessions there alone', async () => {
    const a = (await ok('POST', '/api/workspaces', own, {})).id, b = (await ok('POST', '/api/workspaces', own, {})).id;
    const { secret } = await mint({ workspace: a });
    for (const body of [{}, { workspace: a }]) assert.equal((await ok('POST', '/api/sessions', secret, body)).workspace, a);
    assert.equal((await ask('POST', '/api/sessions', secret, { workspace: b })).status, 404);
    refused(await ask('POST', '/api/sessions', secret, { persistence: 'ephemeral' }), 403, 'forbidden');
    const container = await ok('POST', '/v1/containers', secret, { name: 'c' });
    assert.equal((await ok('GET', `/api/sessions/${container.id}`)).workspace, a);
    assert.equal((await ok('POST', '/api/run', secret, { code: 'open("r","w").write("1")' })).status, 'completed');
    assert.equal((await ask('GET', `/api/workspaces/${a}/files/r`, secret)).text, '1');
  });

  test('a key for a pool sees that one, and starts there', async () => {
    const { secret } = await key(['execute', 'files:read'], { pools: ['other'] });
    const elsewhere = await made();
    assert.deepEqual((await ok('GET', '/api/pools', secret)).data.map((p) => p.name), ['other']);
    refused(await ask('GET', '/api/pools/default', secret), 404, 'not_found');
    const there = await ok('POST', '/api/sessions', secret, {});
    assert.equal(there.pool, 'other');
    const [known, unknown] = [await ask('POST', '/api/sessions', secret, { pool: 'default' }), await ask('POST', '/api/sessions', secret, { pool: 'nosuch' })];
    assert.deepEqual([known.status, known.text], [unknown.status, unknown.text]);
    assert.equal((await ask('GET', `/api/sessions/${elsewhere.id}`, secret)).status, 404);
    assert.deepEqual((await ok('GET', '/api/sessions', secret)).data.map((s) => s.id), [there.id]);
  });

  test('keys say what they are bound to, and lists have a length', async () => {
    const ws = unknownId('ws');
    const narrow = await key(['files:read'], { workspaces: [ws], expires_in_s: 60 });
    assert.deepEqual([narrow.workspaces, narrow.pools, narrow.sessions], [[ws], null, null]);
    assert.ok(new Date(narrow.expires_at) > new Date());
    const bad = (more) => request(server, 'POST', '/api/keys', { body: { scopes: ['execute'], ...more } });
    for (const more of [{ workspaces: [] }, { workspaces: ['x'] }, { pools: ['a b'] }, { sessions: [7] }, { expires_in_s: 0 }, { expires_in_s: 315_360_001 }]) refused(await bad(more), 400, 'invalid_request');
    assert.equal((await bad({ expires_in_s: 315_360_000 })).status, 201);
    const ids = (n) => Array.from({ length: n }, (_, i) => `ws_${String(i).padStart(32, '0')}`);
    assert.equal((await bad({ workspaces: ids(14) })).status, 201);
    refused(await bad({ workspaces: ids(15) }), 400, 'invalid_request', /511/);
  });

  test('workspaces:admin is owner of every workspace of its tenant, not of files', async () => {
    const ws = (await ok('POST', '/api/workspaces', own, { private: true })).id;
    const { secret } = await key(['workspaces:admin']);
    const foreign = await server.ok('POST', '/api/keys', { scopes: ['workspaces:admin'], tenant: 'theirs' });
    assert.equal((await ok('GET', `/api/workspaces/${ws}`, secret)).role, 'owner');
    assert.equal((await ask('PUT', `/api/workspaces/${ws}/members/*`, secret, { role: 'viewer' })).status, 204);
    refused(await ask('PUT', `/api/workspaces/${ws}/files/f`, secret, 'x'), 403, 'forbidden', /files:write/);
    refused(await ask('GET', `/api/workspaces/${ws}`, foreign.secret), 404, 'not_found');
    const abroad = await server.ok('POST', '/api/keys', { scopes: ['execute'], tenant: 'theirs' });
    assert.equal((await ask('POST', `/api/workspaces/${ws}/transfer`, secret, { to: abroad.id })).status, 404, 'only an admin knows keys of other tenants');
  });

  test('audit:read reads its tenant\'s trail', async () => {
    const { secret } = await server.ok('POST', '/api/keys', { scopes: ['audit:read'] });
    const { data } = await ok('GET', '/api/audit?limit=1000', secret);
    assert.ok(data.length > 0 && data.every((e) => e.tenant === 'default'), 'not those of all, as an admin of this tenant');
    refused(await ask('GET', '/api/keys', secret), 403, 'forbidden');
  });
});

describe('the end', () => {
  test('revoking a parent ends all below it at once, and what runs goes on', async () => {
    const session = await made({ sharing: 'tenant' });
    const parent = await key(['execute', 'files:read']);
    const child = await mint({ session: session.id }, parent.secret);
    const grandchild = await mint({}, child.secret);
    const running = ask('POST', `/api/sessions/${session.id}/executions`, grandchild.secret, { code: 'import os, time\nwhile not os.path.exists("go"):\n    time.sleep(0.02)\nprint("done")' });
    await until(async () => (await ok('GET', `/api/sessions/${session.id}`)).state === 'running', { what: 'a running execution' });
    await server.ok('DELETE', `/api/keys/${parent.id}`);
    for (const secret of [parent.secret, child.secret, grandchild.secret]) refused(await ask('GET', '/api/sessions', secret), 401, 'unauthenticated');
    await ok('PUT', `/api/sessions/${session.id}/files/go`, own, 'x');
    const answer = await running;
    assert.deepEqual([answer.status, answer.body.stdout], [200, 'done\n'], 'it was let in before');
  });

  test('a token is revoked by itself, its key, an admin; by no other', async () => {
    const stranger = (await key(['execute'])).secret;
    const far = (await server.ok('POST', '/api/keys', { scopes: ['execute'], tenant: 'theirs' })).secret;
    for (const by of ['itself', own, boss, server.key]) {
      const token = await mint({});
      for (const no of [stranger, far]) refused(await ask('DELETE', `/api/tokens/${token.id}`, no), 404, 'not_found');
      assert.equal((await ask('DELETE', `/api/tokens/${token.id}`, by === 'itself' ? token.secret : by)).status, 204);
      refused(await ask('GET', '/api/pools', token.secret), 401, 'unauthenticated');
      refused(await ask('DELETE', `/api/tokens/${token.id}`), 404, 'not_found');
    }
  });

  test('an expired one is told so at every door, and is not guessing', async () => {
    const { secret } = await mint({ ttl_s: 5 });
    assert.equal((await ask('GET', '/api/pools', secret)).status, 200);
    await until(async () => (await ask('GET', '/api/pools', secret)).status === 401, { ms: 30_000, every: 200, what: 'the end of a token' });
    refused(await ask('GET', '/api/pools', secret), 401, 'unauthenticated', /expired/);
    assert.equal((await ask('GET', '/v1/containers', secret)).status, 401);
    assert.equal((await new Pool(server, { key: secret }).run('1')).status, 401);
    assert.equal((await modern(server, 'tools/list', {}, { key: secret })).status, 401);
  });

  test('tokens are there after a restart, with what they are bound to', async () => {
    const session = await made();
    const { secret, id } = await mint({ session: session.id });
    const gone = await mint({ session: session.id });
    await ok('DELETE', `/api/tokens/${gone.id}`);
    await server.stop({ keep: true });
    server = await Glovebox.start({ dir: server.dir, config: { auth_failures_per_min: 10_000, pools: [pool({ ready: 2 }), pool({ name: 'other', ready: 1 })] } });
    assert.deepEqual((await ok('GET', '/api/sessions', secret)).data.map((s) => s.id), [session.id]);
    refused(await ask('GET', '/api/sessions', gone.secret), 401, 'unauthenticated');
    assert.ok((await ok('GET', '/api/tokens?limit=1000')).data.some((t) => t.id === id));
  });

  test('I5 a wrong token is refused no slower than a wrong key, nor a near one than a far one', async () => {
    const { secret } = await mint({});
    const guesses = { near: `${secret.slice(0, -1)}${secret.endsWith('a') ? 'b' : 'a'}`, far: `gbt_${'0'.repeat(64)}`, key: `gbx_${'0'.repeat(64)}` };
    const times = { near: [], far: [], key: [] };
    for (let i = 0; i < 150; i++)
      for (const [name, guess] of Object.entries(guesses)) {
        const begun = process.hrtime.bigint();
        await ask('GET', '/api/pools', guess);
        times[name].push(Number(process.hrtime.bigint() - begun) / 1000);
      }
    const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];
    const [near, far, plain] = ['near', 'far', 'key'].map((name) => median(times[name]));
    for (const one of [near, far]) assert.ok(Math.abs(one - plain) < 0.5 * plain + 200, `${near}, ${far} and ${plain} µs`);
  });

  test('I7 no token is in the log or the data directory', async () => {
    const { secret } = await mint({ name: 'unlogged' });
    await ask('GET', '/api/pools', secret);
    await sleep(50);
    assert.ok(!server.log.includes(secret.slice(4, 40)));
    const events = (await ok('GET', '/api/audit?action=token.&limit=1000', boss)).data;
    assert.ok(events.some((e) => e.action === 'token.create') && events.some((e) => e.action === 'token.revoke'));
    assert.ok(!JSON.stringify(events).includes(secret.slice(4, 40)));
  });
});
