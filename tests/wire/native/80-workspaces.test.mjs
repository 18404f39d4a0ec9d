// SPDX-License-Identifier: Apache-2.0
// Workspaces through the API: making, looking, renaming, deleting and
// bringing back; members and roles; ownership that moves; quotas.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';
import { Workspace, mint, unknownId } from '../../lib/workspace.mjs';

const ALL = ['execute', 'files:read', 'files:write'];
let server;
let keys;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 2 })] } });
  keys = {
    agent: await mint(server, ALL, { tenant: 'mine', name: 'agent' }),
    human: await mint(server, ALL, { tenant: 'mine', name: 'human' }),
    third: await mint(server, ALL, { tenant: 'mine' }),
    boss: await mint(server, [...ALL, 'admin'], { tenant: 'mine', name: 'boss' }),
    foreign: await mint(server, [...ALL, 'admin'], { tenant: 'theirs', name: 'foreign' }),
  };
});
after(() => stop(server));

const make = (spec = {}, who = 'agent') => Workspace.create(server, spec, keys[who].secret);
const call = (who, method, path, body) => request(server, method, path, { body, key: keys[who].secret });
const NAMES = ['id', 'name', 'tenant', 'owner', 'owner_name', 'role', 'created_at', 'updated_at', 'deleted_at', 'purge_at', 'head', 'commits', 'files',
  'bytes', 'stored_bytes', 'quota_bytes', 'retention', 'legal_hold', 'intelligence'];

describe('plain use', () => {
  test('create, look, rename, list', async () => {
    const ws = await make({ name: 'report' });
    assert.deepEqual(Object.keys(ws.made), NAMES);
    assert.match(ws.id, /^ws_[0-9a-f]{32}$/);
    assert.equal(ws.made.owner, keys.agent.id);
    assert.deepEqual([ws.made.role, ws.made.tenant, ws.made.name, ws.made.head, ws.made.commits, ws.made.files], ['owner', 'mine', 'report', null, 0, 0]);
    await ws.write('a', 'hello');
    const now = await ws.info();
    assert.deepEqual([now.files, now.bytes, now.stored_bytes, now.commits], [1, 5, 5, 1]);
    assert.match(now.head, /^cmt_/);
    const patched = await ws.ok('PATCH', '', { body: { name: 'final', retention: { keep_versions: 3 } } });
    assert.equal(patched.name, 'final');
    assert.deepEqual(patched.retention, { keep_versions: 3, keep_days: 0 });
    assert.deepEqual((await ws.ok('PATCH', '', { body: { retention: { keep_days: 7 } } })).retention, { keep_versions: 3, keep_days: 7 });
    assert.equal((await ws.ok('PATCH', '', { body: {} })).name, 'final');
    const listed = (await call('agent', 'GET', '/api/workspaces')).body;
    assert.deepEqual(Object.keys(listed), ['data', 'has_more']);
    assert.ok(listed.data.some((w) => w.id === ws.id));
  });

  test('pages go through all of them, newest first', async () => {
    const key = (await mint(server, ALL, { tenant: 'pages' })).secret;
    const made = [];
    for (let i = 0; i < 5; i++) made.unshift((await Workspace.create(server, { name: `n${i}` }, key)).id);
    const seen = [];
    for (let afterId = '', more = true; more;) {
      const page = (await request(server, 'GET', `/api/workspaces?limit=2${afterId && `&after=${afterId}`}`, { key })).body;
      seen.push(...page.data.map((w) => w.id));
      afterId = seen.at(-1);
      more = page.has_more;
    }
    assert.deepEqual(seen, made);
    for (const bad of ['limit=0', 'limit=1001', 'limit=x', 'deleted=maybe', 'nope=1', 'limit=1&limit=2']) refused(await request(server, 'GET', `/api/workspaces?${bad}`, { key }), 400);
    assert.equal((await request(server, 'GET', '/api/workspaces?limit=1000', { key })).status, 200);
  });

  test('H3 fields are checked and unknown ones named', async () => {
    refused(await call('agent', 'POST', '/api/workspaces', { nam: 'x' }), 400, 'invalid_request', /name/);
    refused(await call('agent', 'POST', '/api/workspaces', { name: 'x'.repeat(129) }), 400, 'invalid_request', /name/);
    assert.equal((await call('agent', 'POST', '/api/workspaces', { name: 'x'.repeat(128) })).status, 201);
    refused(await call('agent', 'POST', '/api/workspaces', { private: 'yes' }), 400);
    const ws = await make();
    for (const body of [{ retention: { keep: 1 } }, { retention: { keep_days: -1 } }, { retention: { keep_days: 36501 } }, { quota_bytes: -1 }, { legal_hold: 1 }, { retention: 3 }])
      refused(await ws.call('PATCH', '', { body }), 400, 'invalid_request');
  });

  test('a session has one, and it stays when the session goes', async () => {
    const session = await server.session({ name: 's' }, { key: keys.agent.secret });
    assert.match(session.made.workspace, /^ws_/);
    assert.equal(session.made.persistence, 'workspace');
    const e = await session.python('open("/mnt/data/kept.csv", "w").write("a,b\\n1,2\\n")');
    assert.equal(e.workspace, session.made.workspace);
    assert.match(e.commit, /^cmt_/);
    const [file] = e.files.created;
    assert.deepEqual(Object.keys(file), ['path', 'change', 'file_id', 'version', 'size', 'sha256', 'mime_type', 'url', 'sandbox_path']);
    assert.deepEqual([file.path, file.change, file.size, file.mime_type, file.sandbox_path], ['kept.csv', 'created', 8, 'text/csv', 'sandbox:/mnt/data/kept.csv']);
    assert.equal((await session.delete()).status, 204);
    const got = await request(server, 'GET', file.url, { key: keys.agent.secret });
    assert.equal(got.text, 'a,b\n1,2\n');
    const ws = new Workspace(server, { id: session.made.workspace }, keys.agent.secret);
    assert.deepEqual(await ws.paths(), ['kept.csv']);
    // And another session takes it up.
    const next = await server.session({ workspace: ws.id }, { key: keys.agent.secret });
    assert.equal(next.made.workspace, ws.id);
    assert.equal(await next.out('print(open("/mnt/data/kept.csv").read())'), 'a,b\n1,2');
    await next.delete();
  });

  test('an ephemeral session keeps nothing', async () => {
    const session = await server.session({ persistence: 'ephemeral' }, { key: keys.agent.secret });
    assert.deepEqual([session.made.workspace, session.made.persistence], [null, 'ephemeral']);
    const e = await session.python('open("/mnt/data/x", "w").write("1")');
    assert.equal(e.files.created[0].path, 'x');
    assert.deepEqual([e.files.created[0].file_id, e.files.created[0].url, e.commit], [null, null, null]);
    await session.delete();
    const ws = await make();
    refused(await call('agent', 'POST', '/api/sessions', { persistence: 'ephemeral', workspace: ws.id }), 400);
    refused(await call('agent', 'POST', '/api/sessions', { persistence: 'sometimes' }), 400);
  });

  test('a run keeps its files in a workspace of its own, or in the one named', async () => {
    const run = await call('agent', 'POST', '/api/run', { code: 'open("/mnt/data/r.txt", "w").write("ran")' });
    assert.match(run.body.workspace, /^ws_/);
    assert.equal((await request(server, 'GET', run.body.files.created[0].url, { key: keys.agent.secret })).text, 'ran');
    const ws = await make();
    await ws.write('in.txt', 'input');
    const again = await call('agent', 'POST', '/api/run', { workspace: ws.id, code: 'open("/mnt/data/out.txt", "w").write(open("/mnt/data/in.txt").read().upper())' });
    assert.equal(again.body.workspace, ws.id);
    assert.equal((await ws.get('out.txt')).text, 'INPUT');
    const nothing = await call('agent', 'POST', '/api/run', { code: '1' });
    assert.equal(nothing.body.commit, null);
  });

  test('refresh brings what others committed into a live session', async () => {
    const session = await server.session({}, { key: keys.agent.secret });
    await session.python('open("/mnt/data/mine", "w").write("1")');
    const ws = new Workspace(server, { id: session.made.workspace }, keys.agent.secret);
    await ws.write('theirs', 'from outside');
    const fresh = await call('agent', 'POST', `${session.path}/refresh`);
    assert.equal(fresh.status, 200);
    assert.equal(fresh.body.changed, 1);
    assert.equal(fresh.body.session.id, session.id);
    assert.equal(await session.out('print(open("/mnt/data/theirs").read())'), 'from outside');
    await session.delete();
  });
});

describe('deleting', () => {
  test('D10 a deleted one is gone from every answer at once, and can come back', async () => {
    const ws = await make({ name: 'gone' });
    const file = await ws.write('a', 'x');
    assert.equal((await ws.call('DELETE', '')).status, 204);
    refused(await ws.call('GET', ''), 404, 'not_found');
    refused(await ws.get('a'), 404, 'not_found');
    refused(await ws.put('b', 'x'), 404, 'not_found');
    refused(await call('agent', 'GET', `/api/files/${file.file_id}`), 404, 'not_found');
    refused(await call('agent', 'GET', file.url), 404, 'not_found');
    refused(await ws.call('DELETE', ''), 404, 'not_found');
    const listed = async (query) => (await call('agent', 'GET', `/api/workspaces${query}`)).body.data.find((w) => w.id === ws.id);
    assert.equal(await listed(''), undefined);
    const waiting = await listed('?deleted=true');
    assert.ok(Date.parse(waiting.purge_at) > Date.parse(waiting.deleted_at));
    assert.equal((await ws.ok('POST', '/undelete')).deleted_at, null);
    assert.equal((await ws.get('a')).text, 'x');
    assert.equal(await listed('?deleted=true'), undefined);
  });

  test('legal hold keeps it, and only administrators set it', async () => {
    const ws = await make();
    refused(await ws.call('PATCH', '', { body: { legal_hold: true } }), 403, 'forbidden');
    refused(await ws.call('PATCH', '', { body: { quota_bytes: 5 } }), 403, 'forbidden');
    assert.equal((await ws.as(keys.boss.secret).ok('PATCH', '', { body: { legal_hold: true } })).legal_hold, true);
    refused(await ws.call('DELETE', ''), 409, 'conflict');
    await ws.as(keys.boss.secret).ok('PATCH', '', { body: { legal_hold: false } });
    assert.equal((await ws.call('DELETE', '')).status, 204);
  });
});

describe('members', () => {
  test('roles: a viewer reads and cannot write, an editor writes, an owner does the rest', async () => {
    const ws = await make({ private: true });
    await ws.write('a', 'x');
    const other = ws.as(keys.human.secret);
    refused(await other.call('GET', ''), 404, 'not_found');
    assert.equal((await ws.call('PUT', `/members/${keys.human.id}`, { body: { role: 'viewer' } })).status, 204);
    assert.equal((await other.info()).role, 'viewer');
    assert.equal((await other.get('a')).text, 'x');
    for (const answer of [await other.put('b', 'x'), await other.delete('a'), await other.call('POST', '/move', { body: { from: 'a', to: 'b' } }),
      await other.call('POST', '/copy', { body: { from: 'a', to: 'b' } }), await other.call('POST', '/locks', { body: { path: 'a' } }),
      await other.call('PATCH', '', { body: { name: 'x' } }), await other.call('DELETE', ''), await other.call('POST', '/uploads', { body: { path: 'x' } }),
      await other.call('POST', '/transfer', { body: { to: keys.human.id } }), await other.call('POST', '/offers'),
      await other.call('PUT', `/members/${keys.human.id}`, { body: { role: 'owner' } }), await call('human', 'POST', '/api/shares', { workspace: ws.id, path: 'a' })])
      refused(answer, 403, 'forbidden');
    const session = await server.session({ workspace: ws.id }, { key: keys.human.secret });
    const e = await session.python('print(open("/mnt/data/a").read()); open("/mnt/data/a", "w").write("changed"); open("/mnt/data/n", "w").write("new")');
    assert.equal(e.stdout, 'x\n', 'its sessions read');
    assert.deepEqual([e.files.created, e.files.modified, e.files.refused.map((f) => f.path).sort(), e.commit], [[], [], ['a', 'n'], null]);
    await session.delete();
    assert.deepEqual(await ws.paths(), ['a'], 'nothing changed');
    await ws.call('PUT', `/members/${keys.human.id}`, { body: { role: 'editor' } });
    assert.equal((await other.put('b', 'x')).status, 201);
    refused(await other.call('DELETE', ''), 403, 'forbidden');
    const members = (await ws.ok('GET', '/members')).data;
    assert.deepEqual(members.map((m) => [m.principal, m.role]).sort(), [[keys.agent.id, 'owner'], [keys.human.id, 'editor']].sort());
    assert.equal((await ws.call('DELETE', `/members/${keys.human.id}`)).status, 204);
    refused(await other.get('a'), 404, 'not_found');
  });

  test('by default the whole tenant edits; a name will do for a key', async () => {
    const ws = await make();
    assert.equal((await ws.as(keys.human.secret).info()).role, 'editor');
    assert.equal((await ws.call('PUT', '/members/*', { body: { role: 'viewer' } })).status, 204);
    assert.equal((await ws.as(keys.human.secret).info()).role, 'viewer');
    assert.equal((await ws.call('PUT', '/members/human', { body: { role: 'editor' } })).status, 204);
    assert.equal((await ws.as(keys.human.secret).info()).role, 'editor');
    assert.equal((await ws.as(keys.third.secret).info()).role, 'viewer');
    assert.equal((await ws.as(keys.boss.secret).info()).role, 'owner', 'an administrator owns everything of its tenant');
    for (const bad of [{}, { role: 'king' }, { role: 'none' }, { rol: 'viewer' }]) refused(await ws.call('PUT', '/members/*', { body: bad }), 400);
    refused(await ws.call('PUT', '/members/*', { body: { role: 'owner' } }), 400);
    refused(await ws.call('DELETE', `/members/${keys.agent.id}`), 409, 'conflict', /transfer/);
  });

  test('I3 a foreign tenant sees exactly what an unknown id gives', async () => {
    const ws = await make();
    const file = await ws.write('a', 'x');
    const lock = await ws.ok('POST', '/locks', { body: { path: 'l' } });
    const offer = await ws.ok('POST', '/offers');
    const upload = await ws.ok('POST', '/uploads', { body: { path: 'u' } });
    const share = (await call('agent', 'POST', '/api/shares', { workspace: ws.id, path: 'a' })).body;
    const bare = (answer, ids) => ({ status: answer.status, text: ids.reduce((t, id) => t.replaceAll(id, 'ID'), answer.text),
      headers: Object.entries(answer.headers).filter(([name]) => !['date', 'x-request-id'].includes(name)).sort() });
    const none = unknownId('ws');
    const rows = [['GET', ''], ['PATCH', '', { name: 'x' }], ['DELETE', ''], ['POST', '/undelete'], ['GET', '/members'], ['PUT', '/members/*', { role: 'viewer' }],
      ['PUT', `/members/${keys.foreign.id}`, { role: 'viewer' }], ['DELETE', '/members/*'], ['POST', '/transfer', { to: keys.foreign.id }], ['POST', '/offers'], ['GET', '/offers'],
      ['DELETE', `/offers/${offer.id}`], ['GET', '/files'], ['GET', `/files?commit=${file.commit}`], ['GET', '/files/a'], ['PUT', '/files/a', 'x'], ['DELETE', '/files/a'], ['GET', '/info/a'],
      ['POST', '/move', { from: 'a', to: 'b' }], ['POST', '/copy', { from: 'a', to: 'b' }], ['GET', '/archive'], ['GET', '/history'], ['GET', '/diff?path=a'],
      ['POST', '/restore', { version: file.version }], ['POST', '/locks', { path: 'a' }], ['GET', '/locks'], ['POST', `/locks/${lock.id}/renew`, { token: lock.token }],
      ['DELETE', `/locks/${lock.id}?force=true`], ['POST', '/uploads', { path: 'x' }]];
    for (const [method, path, body] of rows) {
      const theirs = bare(await call('foreign', method, `/api/workspaces/${ws.id}${path}`, body), [ws.id]);
      const absent = bare(await call('foreign', method, `/api/workspaces/${none}${path}`, body), [none]);
      assert.equal(theirs.status, 404, `${method} ${path} ${theirs.text}`);
      assert.deepEqual(theirs, absent, `${method} ${path}`);
    }
    for (const [method, path, id, prefix, body] of [['GET', '/api/files/ID', file.file_id, 'file'], ['GET', '/api/files/ID/content', file.file_id, 'file'],
      ['GET', '/api/versions/ID/provenance', file.version, 'ver'], ['DELETE', '/api/shares/ID', share.id, 'share'], ['GET', '/api/uploads/ID', upload.id, 'up'],
      ['PUT', '/api/uploads/ID/parts/1', upload.id, 'up', 'x'], ['POST', '/api/uploads/ID/complete', upload.id, 'up'], ['DELETE', '/api/uploads/ID', upload.id, 'up'],
      ['GET', '/api/shares?workspace=ID', ws.id, 'ws'], ['GET', '/api/search/status?workspace=ID', ws.id, 'ws'], ['GET', '/api/search?q=x&workspace=ID', ws.id, 'ws'],
      ['POST', '/api/sessions', ws.id, 'ws', { workspace: 'ID' }]]) {
      const fill = (v) => (body === undefined || typeof body === 'string' ? body : JSON.parse(JSON.stringify(body).replaceAll('ID', v)));
      const theirs = bare(await call('foreign', method, path.replace('ID', id), fill(id)), [id]);
      const absent = bare(await call('foreign', method, path.replace('ID', unknownId(prefix)), fill(unknownId(prefix))), [unknownId(prefix)]);
      assert.deepEqual(theirs, absent, `${method} ${path}`);
      assert.ok(theirs.status === 404 || path.includes('search'), `${method} ${path}: ${theirs.status}`);
    }
    refused(await ws.call('PUT', `/members/${keys.foreign.id}`, { body: { role: 'viewer' } }), 404, 'not_found');
    refused(await ws.call('PUT', '/members/foreign', { body: { role: 'viewer' } }), 404, 'not_found');
    assert.equal((await ws.info()).commits, 1, 'nothing happened');
  });
});

describe('ownership', () => {
  test('the agent builds it, the human takes it over', async () => {
    const ws = await make({ name: 'built', private: true });
    await ws.write('report.md', '# done');
    const given = await ws.ok('POST', '/transfer', { body: { to: 'human' } });
    assert.equal(given.owner, keys.human.id);
    assert.equal(given.role, 'editor', 'the former owner stays an editor');
    const human = ws.as(keys.human.secret);
    assert.equal((await human.info()).role, 'owner');
    assert.equal((await human.get('report.md')).text, '# done');
    refused(await ws.call('POST', '/transfer', { body: { to: keys.agent.id } }), 403, 'forbidden');
    assert.equal((await human.ok('POST', '/transfer', { body: { to: keys.agent.id } })).owner, keys.agent.id);
  });

  test('to a key of the tenant, by id or by a name only one has', async () => {
    const ws = await make();
    await mint(server, ALL, { tenant: 'mine', name: 'twin' });
    await mint(server, ALL, { tenant: 'mine', name: 'twin' });
    refused(await ws.call('POST', '/transfer', { body: { to: 'twin' } }), 409, 'conflict', /id/);
    refused(await ws.call('POST', '/transfer', { body: { to: 'nobody' } }), 404, 'not_found');
    refused(await ws.call('POST', '/transfer', { body: { to: keys.foreign.id } }), 404, 'not_found');
    const old = await mint(server, ALL, { tenant: 'mine', name: 'revoked' });
    await server.ok('DELETE', `/api/keys/${old.id}`);
    for (const to of [old.id, 'revoked']) refused(await ws.call('POST', '/transfer', { body: { to } }), 404, 'not_found');
    refused(await ws.call('POST', '/transfer', { body: {} }), 400, 'invalid_request', /to/);
    refused(await ws.call('POST', '/transfer', { body: { to: 'x', why: 1 } }), 400);
    const across = await ws.as(keys.boss.secret).ok('POST', '/transfer', { body: { to: keys.foreign.id } });
    assert.equal(across.owner, keys.foreign.id);
    assert.equal((await ws.as(keys.foreign.secret).info()).tenant, 'theirs');
    refused(await ws.as(keys.third.secret).call('GET', ''), 404, 'not_found');
  });

  test('an offer is claimed once, by whoever has the token', async () => {
    const ws = await make({ private: true });
    await ws.write('a', 'x');
    const offer = await ws.ok('POST', '/offers', { body: { expires_in_s: 60 } });
    assert.deepEqual(Object.keys(offer), ['id', 'workspace', 'offered_by', 'created_at', 'expires_at', 'token']);
    const [listed] = (await ws.ok('GET', '/offers')).data;
    assert.equal(listed.id, offer.id);
    assert.equal('token' in listed, false, 'it is shown once');
    refused(await call('human', 'POST', '/api/workspaces/claim', { token: `${offer.token.slice(0, -1)}${offer.token.endsWith('0') ? 1 : 0}` }), 404, 'not_found');
    const claimed = await call('foreign', 'POST', '/api/workspaces/claim', { token: offer.token });
    assert.equal(claimed.status, 200);
    assert.deepEqual([claimed.body.id, claimed.body.owner, claimed.body.tenant], [ws.id, keys.foreign.id, 'theirs']);
    refused(await call('human', 'POST', '/api/workspaces/claim', { token: offer.token }), 404, 'not_found');
    assert.equal((await ws.as(keys.foreign.secret).get('a')).text, 'x');
  });

  test('an offer can be taken back, and ends by itself', async () => {
    const ws = await make();
    const offer = await ws.ok('POST', '/offers');
    assert.ok(Math.abs(Date.parse(offer.expires_at) - Date.now() - 72 * 3600_000) < 60_000);
    assert.equal((await ws.call('DELETE', `/offers/${offer.id}`)).status, 204);
    refused(await ws.call('DELETE', `/offers/${offer.id}`), 404, 'not_found');
    refused(await call('human', 'POST', '/api/workspaces/claim', { token: offer.token }), 404, 'not_found');
    for (const expires_in_s of [59, 259_201, 0, 'x']) refused(await ws.call('POST', '/offers', { body: { expires_in_s } }), 400);
    for (const expires_in_s of [60, 259_200]) assert.equal((await ws.call('POST', '/offers', { body: { expires_in_s } })).status, 201);
  });
});

describe('quota', () => {
  test('of a workspace: at it, and one byte over', async () => {
    const ws = await make();
    await ws.as(keys.boss.secret).ok('PATCH', '', { body: { quota_bytes: 10 } });
    assert.equal((await ws.put('a', '0123456789')).status, 201);
    refused(await ws.put('b', 'x'), 507, 'storage_full', /10/);
    refused(await ws.put('a', 'x'), 507, 'storage_full');
    assert.equal((await ws.get('a')).text, '0123456789', 'nothing was lost');
    await ws.as(keys.boss.secret).ok('PATCH', '', { body: { quota_bytes: 11 } });
    assert.equal((await ws.put('b', 'x')).status, 201);
    assert.equal((await ws.info()).stored_bytes, 11);
  });

  test('usage is shown', async () => {
    const before = (await call('agent', 'GET', '/api/usage')).body;
    assert.deepEqual(Object.keys(before), ['tenant', 'workspaces', 'max_workspaces', 'stored_bytes', 'quota_bytes']);
    const ws = await make();
    await ws.write('a', 'x'.repeat(1000));
    const now = (await call('agent', 'GET', '/api/usage')).body;
    assert.equal(now.workspaces, before.workspaces + 1);
    assert.equal(now.stored_bytes, before.stored_bytes + 1000);
    assert.equal(now.tenant, 'mine');
  });

  test('of a tenant, in bytes and in workspaces', async () => {
    const small = await Glovebox.start({ config: { tenant_quota_bytes: 100, workspaces_per_tenant: 2 } });
    try {
      const one = await Workspace.create(small);
      const two = await Workspace.create(small);
      refused(await request(small, 'POST', '/api/workspaces', { body: {} }), 429, 'limit_reached');
      assert.equal((await one.put('a', 'x'.repeat(60))).status, 201);
      refused(await two.put('a', 'x'.repeat(41)), 507, 'storage_full');
      assert.equal((await two.put('a', 'x'.repeat(40))).status, 201);
    } finally {
      await stop(small);
    }
  });
});

test('D1 workspaces, sessions and files are there after a restart', async () => {
  const ws = await make({ name: 'lasting' });
  const file = await ws.write('a/b.txt', 'still here');
  const session = await server.session({ workspace: ws.id, name: 'sleeper' }, { key: keys.agent.secret });
  await session.python('x = 1; open("/mnt/data/made.txt", "w").write("made")');
  await server.stop({ keep: true });
  server = await Glovebox.start({ dir: server.dir, config: { pools: [pool({ ready: 2 })] } });
  ws.server = server;
  assert.equal((await ws.get('a/b.txt')).text, 'still here');
  assert.equal((await request(server, 'GET', file.url, { key: keys.agent.secret })).text, 'still here');
  assert.equal((await ws.info()).name, 'lasting');
  const there = await request(server, 'GET', `/api/sessions/${session.id}`, { key: keys.agent.secret });
  assert.equal(there.body.state, 'dormant');
  assert.equal(there.body.workspace, ws.id);
  const woken = await request(server, 'POST', `/api/sessions/${session.id}/executions`, { body: { code: 'print(open("/mnt/data/made.txt").read())' }, key: keys.agent.secret });
  assert.equal(woken.body.stdout, 'made\n');
  assert.equal(woken.body.interpreter, 'fresh');
});
