// SPDX-License-Identifier: Apache-2.0
// Who may do what, at every door: every row of the product's own table of
// routes, with every kind of credential, on things that are there and on
// things that are not. What is foreign or out of bounds must look exactly
// like what is unknown (I3), and whoever is refused has changed nothing.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, describe, test } from 'node:test';
import { policy } from '../../lib/approvals.mjs';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { modern, response } from '../../lib/mcp.mjs';
import { request, stop } from '../../lib/wire.mjs';
import { form } from '../../lib/workspace.mjs';
import { outside, requestsOf, tools, unknown } from './fixtures.mjs';
import { bare, kindsOf, named, rows, send, shaped } from './rows.mjs';

const SCOPES = ['execute', 'files:read', 'files:write', 'workspaces:admin', 'audit:read', 'policy:admin', 'approve', 'admin'];
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

const placed = (row) => { try { kindsOf(row); return true; } catch { return false; } };
const locked = rows.filter((row) => row.door !== 'mcp' && !row.flags.includes('open'));
const closed = locked.filter(placed); // the first test names the others

let server, known;
const keys = {};
const elsewhere = {}; // bound to something else: by what they are bound to

const call = (row, t, secret, headers) => send(server, agent, row, t, secret, headers);
const make = async (method, path, options) => {
  const made = await request(server, method, path, { key: keys.own, agent, ...options });
  assert.ok(made.status >= 200 && made.status < 300, `${method} ${path}: ${made.status} ${made.text}`);
  return made.body;
};
const key = (scopes, tenant = 'mine', more = {}) => server.ok('POST', '/api/keys', { scopes, tenant, ...more });
const token = async (body, by = keys.own) => (await make('POST', '/api/tokens', { body: { ttl_s: 3600, ...body }, key: by })).secret;

// One of everything, of the tenant 'mine'.
let count = 0;
async function things() {
  const n = ++count;
  const t = { identifier: `matrix-identifier-${n}`, taker: keys.taker };
  const session = await make('POST', '/api/sessions', { body: { identifier: t.identifier } });
  t.session = session.id;
  t.execution = (await make('POST', `/api/sessions/${t.session}/executions`, { body: { code: 'open("file", "w").write("x")' } })).id;
  t.azexec = t.execution.replace(/^exec_(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  t.container = (await make('POST', '/v1/containers', { body: { name: 'c' } })).id;
  t.confile = (await make('POST', `/v1/containers/${t.container}/files`, form([{ filename: 'file', body: 'x' }]))).id;
  t.ws = (await make('POST', '/api/workspaces', { body: {} })).id;
  const at = `/api/workspaces/${t.ws}`;
  ({ file_id: t.file, version: t.version } = await make('PUT', `${at}/files/file`, { body: 'x' }));
  ({ id: t.lock, token: t.lockToken } = await make('POST', `${at}/locks`, { body: { path: 'locked' } }));
  t.share = (await make('POST', '/api/shares', { body: { workspace: t.ws, path: 'file' } })).id;
  t.offer = (await make('POST', `${at}/offers`)).id;
  t.upload = (await make('POST', `${at}/uploads`, { body: { path: 'up' } })).id;
  t.libfile = (await make('POST', '/v1/files', form([{ name: 'purpose', body: 'user_data' }, { name: 'file', filename: 'lib', body: 'x' }]))).id;
  t.libupload = (await make('POST', '/v1/uploads', { body: { filename: 'f', purpose: 'user_data', bytes: 1, mime_type: 'text/plain' } })).id;
  t.pool = (await make('POST', '/api/pools', { body: { name: `matrix-${n}`, ready_wanted: 0 }, key: keys.boss })).name;
  t.key = (await key(['files:read'])).id;
  t.token = (await make('POST', '/api/tokens', { body: { ttl_s: 3600 } })).id;
  t.runtime = 'minimal';
  t.agent = (await make('POST', '/api/agents', { body: { name: `agent-${n}`, definition: { model: 'echo' } } })).name;
  await make('POST', `${at}/tools`, { body: { name: 'matrix_tool', code: '1' } });
  t.approval = (await make('POST', `/api/sessions/${t.container}/executions`, { body: { language: 'shell', code: 'true' } })).approval;
  return t;
}

before(async () => {
  assert.ok(rows.length > 100, 'gloveboxd --routes has every door\'s rows');
  server = await Glovebox.start({ config: { sessions_per_tenant: 400, max_sessions: 400, auth_failures_per_min: 10_000, pools: [pool({ ready: 3, max_sessions: 300 }), pool({ name: 'other', ready: 1 })] } });
  const all = SCOPES.filter((scope) => scope !== 'admin');
  keys.own = (await key(all)).secret;
  keys.boss = (await key(SCOPES)).secret;
  keys.foreign = (await key(all, 'theirs')).secret;
  keys.taker = (await key(all)).id;
  keys.badkey = `gbx_${'5'.repeat(64)}`;
  keys.badtoken = `gbt_${'5'.repeat(64)}`;
  keys.near = `${server.key.slice(0, -1)}${server.key.endsWith('0') ? '1' : '0'}`;
  const revoked = await key(SCOPES);
  keys.orphan = await token({ scopes: SCOPES }, revoked.secret);
  await server.ok('DELETE', `/api/keys/${revoked.id}`);
  keys.revoked = revoked.secret;
  keys.expired = await token({ ttl_s: 5, scopes: SCOPES }, keys.boss);
  for (const scope of SCOPES) keys[`no ${scope}`] = (await key(SCOPES.filter((s) => s !== 'admin' && s !== scope))).secret;
  // The strongest there is, but for something else.
  const other = await make('POST', '/api/sessions', { body: {} });
  for (const [what, id] of [['session', other.id], ['workspace', other.workspace], ['pool', 'other']]) elsewhere[what] = await token({ scopes: SCOPES, [what]: id }, keys.boss);
  await policy(server, 'version: 1\nrules:\n  - {name: shell, match: {action: execute, language: shell}, then: ask}\n');
  known = await things();
  Object.assign(unknown, { taker: keys.taker, lockToken: '0'.repeat(64) });
  await until(async () => (await request(server, 'GET', '/api/pools', { key: keys.expired })).status === 401, { ms: 30_000, every: 200, what: 'the end of a token' });
});
after(async () => { agent.destroy(); await stop(server); });

// Nothing that is ours, in an answer to whom it is not for.
function showsNothing(answer, what) {
  for (const kind of ['session', 'execution', 'container', 'ws', 'file', 'version', 'share', 'upload', 'libfile', 'confile', 'identifier'])
    assert.ok(!answer.text.includes(known[kind]), `${what} shows a ${kind}: ${answer.text.slice(0, 300)}`);
}

// What happened in the tenant since then, but for refusals.
async function acts(since) {
  const seen = [];
  for (let from = since; ;) {
    const page = (await request(server, 'GET', `/api/audit?tenant=mine&limit=1000&after=${from}`, { agent })).body;
    seen.push(...page.data);
    if (!page.has_more) return seen.filter((e) => e.result === 'ok').map((e) => `${e.action} ${e.object} by ${e.actor}`);
    from = page.data.at(-1).seq;
  }
}
async function last() {
  for (let from = 0; ;) {
    const page = (await request(server, 'GET', `/api/audit?limit=1000&after=${from}`, { agent })).body;
    if (!page.has_more) return page.data.at(-1)?.seq ?? from;
    from = page.data.at(-1).seq;
  }
}

// ---- the matrix --------------------------------------------------------------

test('I1 every row has a place in the matrix, and every tool', async () => {
  for (const row of locked) kindsOf(row);
  const listed = response(await modern(server, 'tools/list', {}, { key: server.key, path: '/mcp?tools=all' })).result.tools.map((tool) => tool.name);
  for (const name of listed) assert.ok(name in tools, `the tool ${name} is not in tests/wire/matrix/fixtures.mjs`);
  const doc = (await request(server, 'GET', '/openapi.json', { agent })).body;
  for (const row of rows.filter((r) => r.door === 'native')) {
    const operation = doc.paths[row.pattern.replace('...', '')]?.[row.method.toLowerCase()];
    assert.equal(operation?.['x-glovebox-scope'], row.scope, named(row));
    assert.equal(operation.security.length === 0, row.flags.includes('open'), named(row));
  }
});

describe('refused', () => {
  let since;
  before(async () => { since = await last(); });

  for (const row of closed) {
    const kinds = kindsOf(row);
    const both = () => (kinds.length ? [known, unknown] : [known]);

    test(`I1_I9 ${named(row)}: nothing without a credential that holds now`, async () => {
      // What proxies and browsers say of themselves opens nothing either.
      const borrowed = { 'x-forwarded-for': '127.0.0.1', forwarded: 'for=127.0.0.1;by=admin', 'x-real-ip': '127.0.0.1', 'x-forwarded-user': 'admin', 'x-forwarded-host': 'localhost',
        cookie: `session=${keys.own}; key=${keys.own}`, 'x-http-method-override': 'GET', 'x-original-url': '/healthz', origin: server.url, referer: server.url };
      for (const t of both()) {
        const first = await call(row, t, null);
        assert.equal(first.status, 401, `without a key: ${first.text}`);
        assert.deepEqual(bare(await call(row, t, null, borrowed), t), bare(first, t));
        for (const name of ['badkey', 'badtoken', 'near', 'revoked', 'orphan', 'expired']) {
          const answer = await call(row, t, keys[name]);
          assert.equal(answer.status, 401, `${name}: ${answer.text}`);
          if (name === 'expired' && row.door === 'native') assert.match(answer.body.error.message, /expired/);
        }
        assert.equal((await call(row, t, keys.badkey, borrowed)).status, 401);
        showsNothing(first, 'a refusal');
      }
    });

    test(`I1 ${named(row)}: nothing without its scope`, async () => {
      for (const scope of row.scope ? row.scope.split(',') : []) {
        if (row.flags.includes('manage')) continue; // workspaces:admin will do
        const answers = [];
        for (const t of both()) answers.push(bare(await call(row, t, keys[`no ${scope}`]), t));
        assert.equal(answers[0].status, 403, answers[0].text);
        assert.deepEqual(answers[0], answers.at(-1), 'it tells nothing of the id');
      }
    });

    if (kinds.length)
      test(`I3 ${named(row)}: foreign and out of bounds are as unknown`, async () => {
        const whole = /admin|audit|approve/.test(row.scope) || row.flags.includes('tenant');
        const more = requestsOf[named(row)] ?? {};
        const others = new Set(kinds.flatMap((kind) => outside[kind]));
        const who = { foreign: keys.foreign, ...Object.fromEntries([...others].map((what) => [what, elsewhere[what]])) };
        for (const [name, secret] of Object.entries(who)) {
          // An identifier is a name in the tenant: a stranger has one of their own, as below.
          if (more.creates && (name === 'foreign' || name === 'workspace')) continue;
          if (kinds.includes('runtime') || (name === 'foreign' && kinds.includes('pool') && row.pattern.startsWith('/:') && row.method === 'PUT')) continue;
          const there = await call(row, known, secret), absent = await call(row, unknown, secret);
          assert.deepEqual(bare(there, known), bare(absent, unknown), name);
          if (there.status < 300) showsNothing(there, name);
          else assert.ok([403, 404, 400].includes(there.status), `${name}: ${there.status} ${there.text}`);
          if (whole && (name !== 'foreign' || row.scope === 'admin') && row.scope && !row.flags.includes('within')) assert.equal(there.status, 403, `${name}: ${there.text}`);
          // What a proxy adds changes nothing of it (I9).
          assert.deepEqual(bare(await call(row, known, secret, { 'x-forwarded-for': '10.0.0.1', 'x-forwarded-user': 'admin', cookie: 'a=b' }), known), bare(there, known));
        }
      });
    else
      test(`I3 ${named(row)}: shows nothing of others`, async () => {
        const writes = row.method !== 'GET' && !requestsOf[named(row)]?.reads;
        for (const [name, secret] of Object.entries({ foreign: writes ? null : keys.foreign, session: elsewhere.session, workspace: writes ? null : elsewhere.workspace })) {
          if (!secret) continue;
          const answer = await call(row, known, secret);
          showsNothing(answer, name);
          if (writes) assert.ok(answer.status >= 400 && answer.status < 500, `${name}: ${answer.status} ${answer.text}`);
          if (row.flags.includes('tenant') && name !== 'foreign') assert.equal(answer.status, 403, answer.text);
        }
      });
  }

  test('I1 and nothing of all that did anything', async () => {
    // One late event is enough to know that all before it are written.
    await make('POST', '/api/workspaces', { body: {} });
    // A model answers strangers, too, about what is theirs.
    assert.deepEqual((await acts(since)).filter((act) => !/^(workspace\.create ws_|console\.link |model\.call echo )/.test(act)), []);
    const session = await make('GET', `/api/sessions/${known.session}`);
    assert.deepEqual([session.executions, session.interpreters], [1, 1]);
    const ws = await make('GET', `/api/workspaces/${known.ws}`);
    assert.deepEqual([ws.commits, ws.files, ws.name], [1, 1, null]);
  });
});

// Where a first use makes the session, somebody else's identifier must be as
// one that nobody has ever used, and theirs as if nobody had asked.
describe('identifiers of others', () => {
  let uses = 0;
  const fresh = () => `matrix-used-${String(++uses).padStart(6, '0')}`;

  for (const row of closed.filter((r) => requestsOf[named(r)]?.creates))
    test(`I3 ${named(row)}: another's identifier is as one that was never used`, async () => {
      for (const [name, secret] of Object.entries({ foreign: keys.foreign, workspace: elsewhere.workspace })) {
        const used = { ...unknown, identifier: fresh() }, unused = { ...unknown, identifier: fresh() };
        const session = await make('POST', '/api/sessions', { body: { identifier: used.identifier } });
        await make('POST', `/api/sessions/${session.id}/executions`, { body: { code: 'open("file", "w").write("zanzibar"); secret = "zanzibar"' } });
        const before_ = await make('GET', `/api/sessions/${session.id}`);
        const there = await call(row, used, secret), absent = await call(row, unused, secret);
        // Within one tenant a name is taken or not, and no second session can have it: that much shows.
        if (name === 'foreign' || there.status !== 409) assert.deepEqual(shaped(there), shaped(absent), name);
        assert.doesNotMatch(there.text, new RegExp(`zanzibar|${session.id}|${session.workspace}`));
        const after_ = await make('GET', `/api/sessions/${session.id}`);
        assert.deepEqual(after_, before_, 'theirs is untouched, and not even woken');
        const kept = await make('POST', `/api/sessions/${session.id}/executions`, { body: { code: 'print(secret, open("file").read())' } });
        assert.equal(kept.stdout, 'zanzibar zanzibar\n');
        assert.deepEqual((await make('GET', `/api/sessions/${session.id}/files`)).data.map((f) => f.path), ['file']);
        assert.equal((await request(server, 'DELETE', `/api/sessions/${session.id}`, { key: keys.own, agent })).status, 204);
      }
    });
});

describe('MCP', () => {
  const ask = (tool, args, secret, headers = {}) => modern(server, 'tools/call', { name: tool, arguments: args }, { id: 1, key: secret ?? undefined, path: '/mcp?tools=all', headers: secret === null ? { authorization: undefined, ...headers } : headers });
  const said = (answer, t) => bare({ ...answer, headers: {} }, t);

  for (const [tool, args] of Object.entries(tools))
    test(`I1_I3 the tool ${tool}`, async () => {
      for (const t of args ? [known, unknown] : [known]) {
        for (const name of ['badkey', 'badtoken', 'revoked', 'orphan', 'expired']) {
          const answer = await ask(tool, args?.(t) ?? {}, keys[name]);
          assert.equal(answer.status, 401, `${name}: ${answer.text}`);
        }
      }
      for (const secret of [keys.foreign, elsewhere.session, elsewhere.workspace]) {
        const there = await ask(tool, args?.(known) ?? { conversation: 'none' }, secret);
        showsNothing({ text: there.text.replaceAll(known.container, '').replaceAll(known.ws, '').replaceAll(known.version, '') }, tool);
        if (!args) continue;
        const absent = await ask(tool, args(unknown), secret);
        assert.deepEqual(said(there, known), said(absent, unknown));
      }
    });

  test('I1 without a key, and with what browsers send', async () => {
    for (const method of ['POST', 'GET', 'DELETE'])
      for (const headers of [{}, { cookie: `key=${keys.own}` }, { 'x-forwarded-user': 'admin' }, { 'x-api-key': keys.own }])
        assert.equal((await request(server, method, '/mcp', { key: null, agent, headers: { accept: 'application/json, text/event-stream', 'content-type': 'application/json', ...headers }, body: method === 'POST' ? { jsonrpc: '2.0', id: 1, method: 'ping' } : undefined })).status, 401);
  });
});

describe('its own', () => {
  // Of one's own all is well: a thing of each kind for each row that ends it.
  test('I1 every row does its work for who may', async () => {
    const ending = (row) => row.method === 'DELETE' || /transfer|complete|cancel|stopSession|move$|copy$|parts|approve$|deny$/.test(row.pattern);
    let t = await things();
    for (const row of [...closed].sort((a, b) => ending(a) - ending(b))) {
      const more = requestsOf[named(row)] ?? {};
      const secret = /admin|approve/.test(row.scope) ? keys.boss : keys.own; // nobody approves their own
      const answer = await call(row, t, secret);
      const good = more.own ? more.own.includes(answer.status) : answer.status < 400;
      assert.ok(good, `${named(row)}: ${answer.status} ${answer.text.slice(0, 400)}`);
      if (kindsOf(row).length && !more.creates && !(row.pattern.startsWith('/:') && ['PUT', 'DELETE'].includes(row.method)) && !/stopSession/.test(row.pattern)) {
        const absent = await call(row, unknown, secret);
        assert.ok([404, ...(row.door === 'native' ? [] : [400])].includes(absent.status), `${named(row)} of nothing: ${absent.status} ${absent.text.slice(0, 300)}`);
      }
      if (ending(row)) t = await things();
    }
  });
});
