// SPDX-License-Identifier: Apache-2.0
// Policy over HTTP: what it refuses, at every door; versions and who may
// change them; a change while sessions run; a file that cannot be loaded.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Pool } from '../../lib/azure.mjs';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool, root, until } from '../../lib/glovebox.mjs';
import { modern, result } from '../../lib/mcp.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';
import { Workspace, conforms, form, mint, openapi } from '../../lib/workspace.mjs';

const rules = (...list) => JSON.stringify({ version: 1, rules: list });
const put = (server, text, options = {}) => request(server, 'PUT', '/api/policy', { body: { text, note: 'a test' }, ...options });
const inForce = async (server, text) => {
  const made = await put(server, text);
  assert.equal(made.status, 200, made.text);
  return made.body.version;
};
const trail = async (server, action) => (await server.ok('GET', `/api/audit?action=${action}&limit=1000`)).data;

describe('a service without a policy file', () => {
  let server;
  before(async () => { server = await Glovebox.start({ config: { pools: [pool({ ready: 1 }), pool({ name: 'other', ready: 0 })] } }); });
  after(() => stop(server));

  test('has none at first, and allows', async () => {
    const doc = await openapi(server);
    const got = await request(server, 'GET', '/api/policy');
    conforms(doc, 'GET', '/api/policy', got);
    assert.deepEqual([got.body.loaded, got.body.version, got.body.text], [true, 0, null]);
    assert.equal((await server.run('print(1)')).outcome, 'ok');
  });

  test('takes a policy as JSON or as it is, numbers it, and shows it', async () => {
    const doc = await openapi(server);
    const first = await put(server, rules({ name: 'a', match: { language: 'shell', tenant: 'nobody' }, then: 'deny' }));
    conforms(doc, 'PUT', '/api/policy', first);
    const yaml = 'version: 1\nrules:\n  - name: b\n    match: {tenant: nobody}\n    then: deny\n';
    const second = await request(server, 'PUT', '/api/policy?note=raw', { body: yaml, headers: { 'content-type': 'application/yaml' } });
    assert.deepEqual([second.status, second.body.version, second.body.note], [200, first.body.version + 1, 'raw']);
    assert.equal((await put(server, yaml)).body.version, second.body.version, 'the same text is the same version');
    const shown = await request(server, 'GET', '/api/policy');
    conforms(doc, 'GET', '/api/policy', shown);
    const now = shown.body;
    assert.deepEqual([now.version, now.text], [second.body.version, yaml]);
    const list = await request(server, 'GET', '/api/policy/versions?limit=1');
    conforms(doc, 'GET', '/api/policy/versions', list);
    const { data } = list.body;
    assert.deepEqual([data.length, data[0].version, 'text' in data[0]], [1, second.body.version, false]);
    const old = await request(server, 'GET', `/api/policy/versions/${first.body.version}`);
    for (const v of [first.body, data[0], old.body, now]) assert.deepEqual([v.by.slice(0, 4), v.by_name], ['key_', 'admin']);
    assert.match(old.body.text, /"name":"a"/);
    for (const number of ['0', '999', '-1', 'x', '1x']) refused(await request(server, 'GET', `/api/policy/versions/${number}`), 404, 'not_found');
    assert.ok((await trail(server, 'policy.put')).length >= 2);
  });

  test('refuses what is none, with the line, and goes on as before', async () => {
    const { version } = (await request(server, 'GET', '/api/policy')).body;
    refused(await put(server, 'version: 1\nruels: []\n'), 400, 'invalid_request', /line 2: unknown key "ruels".*"rules"/);
    refused(await request(server, 'PUT', '/api/policy', { body: { note: 'x' } }), 400, 'invalid_request', /text/);
    refused(await put(server, `version: 1\n#${'x'.repeat(256 * 1024)}`), 400);
    refused(await request(server, 'PUT', '/api/policy', { body: `version: 1\n#${'x'.repeat(256 * 1024)}`, headers: { 'content-type': 'application/yaml' } }), 413);
    assert.equal((await request(server, 'GET', '/api/policy')).body.version, version);
    const doc = await openapi(server);
    const check = await request(server, 'POST', '/api/policy/check', { body: { text: 'version: 1\nrules: [{name: x}]' } });
    conforms(doc, 'POST', '/api/policy/check', check);
    assert.deepEqual([check.body.ok, /^line 2: /.test(check.body.problem)], [false, true]);
    assert.equal((await request(server, 'POST', '/api/policy/check', { body: { text: 'version: 1' } })).body.ok, true);
  });

  test('is for policy administrators; others of another tenant see only what concerns them', async () => {
    const plain = await mint(server, ['execute', 'files:read', 'files:write']);
    const foreign = await mint(server, ['policy:admin', 'execute'], { tenant: 'acme' });
    const own = await mint(server, ['policy:admin']);
    for (const [method, path] of [['GET', ''], ['PUT', ''], ['GET', '/versions'], ['GET', '/versions/1'], ['POST', '/check'], ['POST', '/explain'], ['POST', '/reload']])
      refused(await request(server, method, `/api/policy${path}`, { key: plain.secret, ...(method === 'GET' ? {} : { body: {} }) }), 403, 'forbidden');
    for (const [method, path] of [['PUT', ''], ['GET', '/versions'], ['GET', '/versions/1'], ['POST', '/reload']])
      refused(await request(server, method, `/api/policy${path}`, { key: foreign.secret, ...(method === 'GET' ? {} : { body: { text: 'version: 1' } }) }), 403, 'forbidden', /tenants/);
    const seen = (await request(server, 'GET', '/api/policy', { key: foreign.secret })).body;
    assert.deepEqual([seen.text, seen.loaded], [null, true]);
    assert.equal((await request(server, 'GET', '/api/policy', { key: own.secret })).status, 200);
    refused(await request(server, 'POST', '/api/policy/explain', { key: foreign.secret, body: { request: { action: 'share', tenant: 'default' } } }), 403, 'forbidden');
    assert.equal((await request(server, 'POST', '/api/policy/explain', { key: foreign.secret, body: { request: { action: 'share' } } })).body.verdict, 'allow');
  });

  test('denies by language at every door, and says which rule and version', async () => {
    const version = await inForce(server, rules({ name: 'no-shell', match: { language: 'shell' }, then: 'deny', reason: 'use Python' }));
    const session = await server.session();
    assert.equal((await session.get()).policy_version, version);
    assert.equal((await session.python('print(2)')).outcome, 'ok');
    const denied = await session.shell('echo 1');
    assert.deepEqual([denied.status, denied.outcome, denied.stdout], ['completed', 'denied', '']);
    const again = await server.ok('GET', `/api/executions/${denied.id}`);
    assert.equal(again.outcome, 'denied');
    const line = await until(async () => (await trail(server, 'policy.deny')).find((l) => l.object === denied.id), { what: 'the decision in the trail' });
    assert.match(line.detail, /execute: rule 'no-shell' of global \(use Python\)/);
    assert.equal(line.after, String(version));
    const tool = await result(modern(server, 'tools/call', { name: 'run_shell', arguments: { command: 'echo 1' } }));
    assert.equal(tool.isError, true, JSON.stringify(tool));
    assert.match(JSON.stringify(tool), /no-shell/);
  });

  test('knows the MCP tool and the door', async () => {
    await inForce(server, rules({ name: 'no-tool', match: { tool: 'execute_python' }, then: 'deny' }, { name: 'no-azure', match: { door: 'azure' }, then: 'deny' }));
    const tool = await result(modern(server, 'tools/call', { name: 'execute_python', arguments: { code: 'print(1)' } }));
    assert.match(JSON.stringify(tool), /no-tool/);
    const azure = await new Pool(server).run('print(1)');
    assert.ok(azure.status === 403 || /no-azure/.test(azure.text), `${azure.status} ${azure.text}`);
    assert.equal((await server.run('print(1)')).outcome, 'ok');
  });

  test('caps time and output of what it allows', async () => {
    await inForce(server, rules({ name: 'quick', match: { action: 'execute' }, then: 'allow', limit: { timeout_s: 5, output_bytes: 1000 } }));
    const session = await server.session();
    const loud = await session.python('print("x" * 50000)');
    assert.deepEqual([loud.outcome, loud.truncated.stdout], ['ok', true]);
    assert.ok(loud.stdout.length <= 2000, `${loud.stdout.length}`);
    const slow = await session.python('import time; time.sleep(20)', { timeout_s: 20 });
    assert.equal(slow.outcome, 'timeout');
  });

  test('refuses sessions by pool and runtime', async () => {
    await inForce(server, JSON.stringify({ version: 1, pools: { other: { default: 'deny' } }, tenants: { acme: { rules: [{ name: 'none', match: { action: 'session', runtime: 'minimal' }, then: 'deny' }] } } }));
    refused(await request(server, 'POST', '/api/sessions', { body: { pool: 'other' } }), 403, 'forbidden', /rule 'default' of pool:other/);
    const { key } = await server.tenant('acme');
    refused(await request(server, 'POST', '/api/sessions', { body: {}, key }), 403, 'forbidden', /rule 'none' of tenant:acme/);
    refused(await request(server, 'POST', '/api/run', { body: { code: '1' }, key }), 403, 'forbidden');
    assert.equal((await server.run('print(1)')).outcome, 'ok');
  });

  describe('files', () => {
    const exes = rules(
      { name: 'no-exe', match: { action: ['file.in', 'file.out', 'share'], file: '*.exe' }, then: 'deny', reason: 'no programs' },
      { name: 'no-html', match: { action: 'file.in', file_type: 'text/html' }, then: 'deny' },
      { name: 'small', match: { action: 'file.in', file_bytes: '> 10KiB' }, then: 'deny' });
    let w, session, ephemeral, link, writing;
    before(async () => {
      await inForce(server, 'version: 1');
      w = await Workspace.create(server);
      await w.write('old.exe', 'MZ');
      await w.write('f/a.txt', 'a');
      await w.write('f/b.exe', 'MZ');
      session = await server.session();
      await session.put('old.exe', 'MZ');
      ephemeral = await server.session({ persistence: 'ephemeral' });
      link = (await request(server, 'POST', '/api/shares', { body: { workspace: w.id, path: 'old.exe', max_downloads: 3 } })).body;
      writing = (await request(server, 'POST', '/api/shares', { body: { workspace: w.id, path: 'f/', mode: 'write' } })).body;
      await inForce(server, exes);
    });

    test('are refused on their way in, at every door', async () => {
      const big = 'x'.repeat(10 * 1024 + 1);
      const no = (answer, rule) => refused(answer, 403, 'forbidden', new RegExp(`rule '${rule}'`));
      no(await w.put('x.exe', 'MZ'), 'no-exe');
      no(await w.put('X.EXE', 'MZ'), 'no-exe');
      no(await w.put('x.bin', '<p>', { 'content-type': 'text/html' }), 'no-html');
      no(await w.put('x.html', '<p>', { 'content-type': 'image/png' }), 'no-html');
      no(await w.put('x.txt', big), 'small');
      assert.equal((await w.put('x.txt', big.slice(1))).status, 201);
      no(await request(server, 'PUT', `${session.path}/files/x.exe`, { body: 'MZ' }), 'no-exe');
      no(await request(server, 'PUT', `${session.path}/files/x.txt`, { body: big }), 'small');
      no(await request(server, 'PUT', `${ephemeral.path}/files/x.exe`, { body: 'MZ' }), 'no-exe');
      assert.equal((await request(server, 'GET', `${ephemeral.path}/files`)).body.data.length, 0);
      const many = form([{ filename: 'ok.txt', body: 'a' }, { filename: 'no.exe', body: 'MZ' }]);
      no(await w.call('POST', '/files', many), 'no-exe');
      assert.equal((await w.paths()).includes('ok.txt'), false, 'the form is one commit');
      const up = await w.ok('POST', '/uploads', { body: { path: 'p.exe' } });
      assert.equal((await request(server, 'PUT', `/api/uploads/${up.id}/parts/1`, { body: 'MZ' })).status, 200);
      no(await request(server, 'POST', `/api/uploads/${up.id}/complete`, { body: {} }), 'no-exe');
      no(await request(server, 'PUT', `${writing.url}/v.exe`, { body: 'MZ', key: null }), 'no-exe');
      const azure = await new Pool(server).upload('a.exe', 'MZ');
      assert.equal(azure.status, 403, azure.text);
      const data = form([{ name: 'purpose', body: 'user_data' }, { name: 'file', filename: 'o.exe', body: 'MZ' }]);
      const openai = await request(server, 'POST', '/v1/files', data);
      assert.equal(openai.status, 403, openai.text);
      const tool = await result(modern(server, 'tools/call', { name: 'upload_file', arguments: { path: 't.exe', text: 'MZ' } }));
      assert.equal(tool.isError, true);
      assert.match(JSON.stringify(tool), /no-exe/);
    });

    test('are refused when a kept file would become one: by a copy, a move, a restore, an attachment', async () => {
      const no = (answer, rule = 'no-exe') => refused(answer, 403, 'forbidden', new RegExp(`rule '${rule}'`));
      const to = (how, from, target) => w.call('POST', `/${how}`, { body: { from, to: target } });
      for (const how of ['copy', 'move']) {
        no(await to(how, 'f/a.txt', 'a.exe'));
        no(await to(how, 'f/a.txt', 'a.html'), 'no-html');
        no(await to(how, 'f', 'g'));
      }
      assert.equal((await w.paths()).some((p) => /^(a\.|g\/)/.test(p)), false, 'nothing of a refused folder is done');
      assert.ok((await w.paths()).includes('f/a.txt'));
      for (const [how, from, target] of [['copy', 'f/a.txt', 'c.txt'], ['move', 'c.txt', 'd.txt']]) assert.equal((await to(how, from, target)).status, 200);
      const before = await w.ok('GET', '/info/old.exe');
      assert.equal((await w.call('DELETE', '/files/old.exe')).status, 200);
      no(await w.call('POST', '/restore', { body: { version: before.version_id ?? before.version } }));
      const [, earlier] = (await w.ok('GET', '/history')).data;
      no(await w.call('POST', '/restore', { body: { commit: earlier.commit } }));
      assert.equal((await w.paths()).includes('old.exe'), false);
      const text = await w.ok('GET', '/info/f/a.txt');
      const id = text.file_id ?? text.id;
      assert.equal((await w.call('POST', '/restore', { body: { version: text.version_id ?? text.version, path: 'r.exe' } })).status, 403);
      assert.equal((await w.call('POST', '/restore', { body: { version: text.version_id ?? text.version, path: 'r.txt' } })).status, 200);
      await until(async () => (await trail(server, 'policy.deny')).some((l) => l.path === 'r.exe' && l.object === w.id), { what: 'the refusal in the trail' });
      await inForce(server, rules({ name: 'no-text', match: { action: 'file.in', file: '*.txt' }, then: 'deny' }));
      const made = await request(server, 'POST', '/v1/containers', { body: { name: 'x' } });
      const attached = await request(server, 'POST', `/v1/containers/${made.body.id}/files`, { body: { file_id: id } });
      assert.equal(attached.status, 403, attached.text);
      await inForce(server, 'version: 1');
      await w.write('old.exe', 'MZ');
      await inForce(server, exes);
    });

    test('are refused on their way out, at every door', async () => {
      const no = (answer) => refused(answer, 403, 'forbidden', /rule 'no-exe'/);
      no(await w.get('old.exe'));
      const info = await w.ok('GET', '/info/old.exe');
      no(await request(server, 'GET', `/api/files/${info.file_id ?? info.id}/content`));
      no(await w.call('GET', '/archive'));
      no(await w.call('GET', '/archive?prefix=f'));
      no(await w.call('GET', '/archive?prefix=old.exe'));
      assert.equal((await w.call('GET', '/archive?prefix=f/a.txt')).status, 200);
      no(await w.call('GET', '/diff?path=old.exe'));
      no(await request(server, 'GET', link.url, { key: null }));
      const shares = (await request(server, 'GET', `/api/shares?workspace=${w.id}`)).body.data;
      assert.equal(shares.find((s) => s.id === link.id).downloads, 0, 'what was refused is not counted');
      no(await request(server, 'GET', `${session.path}/files/old.exe`));
      await ephemeral.out('open("/mnt/data/made.exe", "w").write("MZ")');
      no(await request(server, 'GET', `${ephemeral.path}/files/made.exe`));
      const openai = await request(server, 'GET', `/v1/files/${info.file_id ?? info.id}/content`);
      assert.equal(openai.status, 403, openai.text);
      assert.equal((await w.get('f/a.txt')).text, 'a');
    });

    test('cannot be given to others where that is denied', async () => {
      refused(await request(server, 'POST', '/api/shares', { body: { workspace: w.id, path: 'old.exe' } }), 403, 'forbidden', /no-exe/);
      await inForce(server, rules({ name: 'mine', match: { action: ['share', 'transfer'] }, then: 'deny' }));
      const other = await mint(server, ['files:read', 'files:write']);
      refused(await request(server, 'POST', '/api/shares', { body: { workspace: w.id, path: 'f/' } }), 403, 'forbidden', /mine/);
      refused(await w.call('PUT', `/members/${other.id}`, { body: { role: 'viewer' } }), 403, 'forbidden', /mine/);
      refused(await w.call('POST', '/transfer', { body: { to: other.id } }), 403, 'forbidden', /mine/);
      refused(await w.call('POST', '/offers', { body: {} }), 403, 'forbidden', /mine/);
      refused(await request(server, 'POST', '/api/shares', { body: { workspace: 'ws_00000000000000000000000000000000', path: 'f/' } }), 404, 'not_found');
      assert.equal((await w.call('DELETE', `/members/${other.id}`)).status, 204, 'taking away is allowed');
    });

    test('are not shown by a search either', async () => {
      await inForce(server, 'version: 1');
      await w.write('plans.txt', 'zanzibar in spring');
      const find = async (q) => (await request(server, 'GET', `/api/search?q=${q}&workspace=${w.id}`)).body.data;
      await until(async () => (await find('zanzibar')).length === 1, { what: 'the index' });
      await inForce(server, rules({ name: 'no-plans', match: { action: 'file.out', file: 'plans*' }, then: 'ask' }));
      assert.equal((await find('zanzibar')).length, 0);
      const [named] = await find('plans');
      assert.equal(named.path, 'plans.txt');
      assert.doesNotMatch(JSON.stringify(named), /zanzibar|spring/);
    });

    test('a session is not made with a file that may not come in', async () => {
      await inForce(server, 'version: 1');
      const file = (await w.ok('GET', '/info/old.exe'));
      await inForce(server, rules({ name: 'no-exe', match: { action: 'file.in', file: '*.exe' }, then: 'deny' }));
      const made = await request(server, 'POST', '/v1/containers', { body: { name: 'x', file_ids: [file.file_id ?? file.id] } });
      assert.equal(made.status, 403, made.text);
    });
  });

  test('what it asks about waits for a person, is good once, and only for the very same', async () => {
    await inForce(server, 'version: 1');
    const w = await Workspace.create(server);
    await w.write('a.txt', 'a');
    await w.write('f/one.txt', '1');
    const first = { id: (await w.ok('GET', '')).head?.commit ?? (await w.ok('GET', '/history')).data[0].commit };
    await w.write('a.txt', 'later');
    await inForce(server, rules({ name: 'ask-files', match: { action: ['file.in', 'file.out', 'share', 'transfer'] }, then: 'ask' }, { name: 'ask-session', match: { action: 'session' }, then: 'ask' }));
    const approver = await mint(server, ['approve']);
    const held = (answer) => {
      assert.deepEqual([answer.status, answer.body?.error?.code], [202, 'pending_approval'], answer.text);
      return answer.body.error.approval;
    };
    const approve = async (id) => assert.equal((await request(server, 'POST', `/api/approvals/${id}/approve`, { body: {}, key: approver.secret })).status, 200);
    const doc = await openapi(server);
    const up = await w.ok('POST', '/uploads', { body: { path: 'parts.txt' } });
    assert.equal((await request(server, 'PUT', `/api/uploads/${up.id}/parts/1`, { body: 'x' })).status, 200);
    const { file_id: file } = await w.ok('GET', '/info/a.txt');
    const other = await mint(server, ['files:read', 'files:write']);
    const ws = '/api/workspaces/{ws}';
    const asks = [
      ['GET', `${ws}/files/{path}`, () => w.get('a.txt')],
      ['GET', '/api/files/{file}/content', () => request(server, 'GET', `/api/files/${file}/content`)],
      ['PUT', `${ws}/files/{path}`, () => w.put('b.txt', 'b')],
      ['POST', `${ws}/files`, () => w.call('POST', '/files', form([{ filename: 'formed.txt', body: 'a' }]))],
      ['POST', '/api/uploads/{id}/complete', () => request(server, 'POST', `/api/uploads/${up.id}/complete`, { body: {} })],
      ['POST', `${ws}/copy`, () => w.call('POST', '/copy', { body: { from: 'f', to: 'g' } })],
      ['POST', `${ws}/move`, () => w.call('POST', '/move', { body: { from: 'g/one.txt', to: 'g.txt' } })],
      ['POST', `${ws}/restore`, () => w.call('POST', '/restore', { body: { commit: first.id, path: 'a.txt' } })],
      ['GET', `${ws}/archive`, () => w.call('GET', '/archive')],
      ['POST', '/api/shares', () => request(server, 'POST', '/api/shares', { body: { workspace: w.id, path: 'a.txt' } })],
      ['PUT', `${ws}/members/{principal}`, () => w.call('PUT', `/members/${other.id}`, { body: { role: 'viewer' } })],
      ['POST', `${ws}/offers`, () => w.call('POST', '/offers', { body: {} })],
      ['POST', '/api/sessions', () => request(server, 'POST', '/api/sessions', { body: {} })],
    ];
    conforms(doc, 'GET', `${ws}/diff`, await w.call('GET', '/diff?path=a.txt')); // about two files, one after the other
    conforms(doc, 'POST', '/api/run', await request(server, 'POST', '/api/run', { body: { code: '1' } }));
    for (const [method, pattern, ask] of asks) {
      conforms(doc, method, pattern, await ask());
      const id = held(await ask());
      assert.equal(held(await ask()), id, 'the same again is the same');
      await approve(id);
      const done = await ask();
      assert.ok([200, 201, 204].includes(done.status), `${done.status} ${done.text.slice(0, 300)}`);
    }
    const copy = () => w.call('POST', '/copy', { body: { from: 'f', to: 'h' } });
    const id = held(await copy());
    await approve(id);
    const put = held(await w.put('f/two.txt', '2'));
    await approve(put);
    assert.equal((await w.put('f/two.txt', '2')).status, 201);
    assert.notEqual(held(await copy()), id, 'other files are another question');
    assert.notEqual(held(await w.put('b.txt', 'other bytes')), held(await w.put('b.txt', 'yet others')));
    const stranger = await mint(server, ['files:read', 'files:write'], { tenant: 'acme' });
    refused(await w.as(stranger.secret).put('x.txt', 'x'), 404, 'not_found');
  });

  test('a change that tightens holds for running sessions at once, one that loosens only when adopted', async () => {
    const loose = await inForce(server, 'version: 1');
    const before_ = await server.session();
    assert.equal((await before_.shell('echo 1')).outcome, 'ok');
    const tight = await inForce(server, rules({ name: 'no-shell', match: { language: 'shell' }, then: 'deny' }));
    assert.equal((await before_.shell('echo 1')).outcome, 'denied');
    const during = await server.session();
    assert.equal((await during.get()).policy_version, tight);
    await inForce(server, 'version: 1\n# again\n');
    assert.equal((await before_.shell('echo 1')).outcome, 'ok', 'made under a loose one');
    assert.equal((await during.shell('echo 1')).outcome, 'denied', 'still held to its own');
    assert.equal((await (await server.session()).shell('echo 1')).outcome, 'ok');
    const why = await request(server, 'POST', '/api/policy/explain', { body: { session: during.id, request: { action: 'execute', language: 'shell' } } });
    conforms(await openapi(server), 'POST', '/api/policy/explain', why);
    assert.deepEqual([why.body.verdict, why.body.version, why.body.versions.map((v) => v.held)], ['deny', tight, ['current', 'pinned']]);
    const plain = await mint(server, ['execute']);
    refused(await request(server, 'POST', `${during.path}/policy`, { key: plain.secret }), 403, 'forbidden');
    refused(await request(server, 'POST', '/api/sessions/sess_00000000000000000000000000000000/policy'), 404, 'not_found');
    const adopted = await request(server, 'POST', `${during.path}/policy`);
    assert.ok(adopted.body.policy_version > tight, adopted.text);
    assert.equal((await during.shell('echo 1')).outcome, 'ok');
    assert.equal((await trail(server, 'session.policy')).at(-1).object, during.id);
    assert.equal((await before_.get()).policy_version, loose);
  });

  test('a restart keeps the versions and what sessions are held to', async () => {
    const tight = await inForce(server, rules({ name: 'no-shell', match: { language: 'shell' }, then: 'deny' }));
    const session = await server.session();
    await inForce(server, 'version: 1\n# loose\n');
    const { dir } = server;
    await server.stop({ keep: true });
    server = await Glovebox.start({ dir, config: { pools: [pool({ ready: 1 }), pool({ name: 'other', ready: 0 })] } });
    const now = (await request(server, 'GET', '/api/policy')).body;
    assert.deepEqual([now.version, now.loaded, now.text], [tight + 1, true, 'version: 1\n# loose\n']);
    const got = await server.ok('GET', session.path);
    assert.equal(got.policy_version, tight);
    const run = await server.ok('POST', `${session.path}/executions`, { language: 'shell', code: 'echo 1' });
    assert.equal(run.outcome, 'denied');
  });

  test('the service itself is not refused: documents are indexed whatever the policy says', async () => {
    await inForce(server, rules({ name: 'nothing', match: { action: ['execute', 'session'] }, then: 'deny' }));
    assert.equal((await request(server, 'GET', '/readyz', { key: null })).status, 200);
    refused(await request(server, 'POST', '/api/run', { body: { code: '1' } }), 403, 'forbidden');
  });

  test('the command line shows, puts, explains and adopts', async () => {
    const cli = new Cli(server);
    const file = join(server.dir, 'new.yaml');
    writeFileSync(file, 'version: 1\nrules:\n  - {name: no-shell, match: {language: shell}, then: deny}\n');
    const done = await cli.run(['policy', 'put', file, '--note', 'by hand']);
    assert.equal(done.status, 0, done.stderr);
    assert.match((await cli.run(['policy', 'show'])).stdout, /no-shell/);
    assert.match((await cli.run(['policy', 'list'])).stdout, /by hand/);
    assert.match((await cli.run(['policy', 'explain', 'language=shell'])).stdout, /^deny: rule 'no-shell' of global/);
    const session = await server.session();
    assert.match((await cli.run(['policy', 'adopt', session.id])).stdout, /now uses version \d+ of the policy/);
    assert.equal((await cli.run(['policy', 'reload'])).status, 0);
    assert.equal((await cli.run(['policy', 'check', join(root, 'README.md')])).status, 1);
    const test_ = await cli.run(['policy', 'test', join(root, 'tests/policy/layers.yaml'), '--json']);
    assert.equal(JSON.parse(test_.stdout).failed, 0);
  });
});

describe('a service with a policy file', () => {
  let server, dir, file;
  const hangup = () => { process.kill(server.pid, 'SIGHUP'); };
  const state = async () => (await request(server, 'GET', '/api/policy')).body;

  before(async () => {
    dir = mkdtempSync(join(tmpdir(), 'glovebox-test-'));
    file = join(dir, 'policy.yaml');
    writeFileSync(file, 'version: 1\nrulez: []\n');
    server = await Glovebox.start({ dir, config: { policy_file: file, pools: [pool({ ready: 1 })] } });
  });
  after(() => stop(server));

  test('that cannot be loaded denies everything, and says why', async () => {
    const now = await state();
    assert.deepEqual([now.loaded, /line 2: unknown key "rulez"/.test(now.problem)], [false, true]);
    refused(await request(server, 'POST', '/api/sessions', { body: {} }), 403, 'forbidden', /unloadable/);
    refused(await request(server, 'POST', '/api/run', { body: { code: '1' } }), 403, 'forbidden', /unloadable/);
    const w = await Workspace.create(server);
    refused(await w.put('a.txt', 'a'), 403, 'forbidden', /unloadable/);
    assert.match(server.log, /policy_unloadable/);
  });

  test('reads it again on SIGHUP and when asked, and keeps running', async () => {
    writeFileSync(file, 'version: 1\n');
    hangup();
    await until(async () => (await state()).loaded, { what: 'the policy to be read again' });
    const session = await server.session();
    assert.equal((await session.python('print(1)')).outcome, 'ok');
    writeFileSync(file, 'version: 1\nrules: [{name: no-python, match: {language: python}, then: deny}]\n');
    const again = await request(server, 'POST', '/api/policy/reload');
    assert.deepEqual([again.status, again.body.version, again.body.by, again.body.by_name], [200, 2, 'file', null]);
    assert.equal((await session.python('print(1)')).outcome, 'denied');
    writeFileSync(file, 'version: 1\n  nonsense');
    refused(await request(server, 'POST', '/api/policy/reload'), 400, 'invalid_request');
    assert.equal((await session.shell('echo 1')).outcome, 'denied');
    writeFileSync(file, readFileSync(join(root, 'packaging/policy.yaml'), 'utf8'));
    assert.equal((await request(server, 'POST', '/api/policy/reload')).status, 200);
    assert.equal((await session.python('print(1)')).outcome, 'ok');
    assert.equal(server.exit, undefined);
  });

  test('is not changed by anybody else', async () => {
    refused(await put(server, 'version: 1'), 409, 'conflict', /file/);
  });
});

describe('a service with a zone that is none', () => {
  test('does not start', async () => {
    const server = await Glovebox.start({ config: { policy_zone: 'Mars/Base' }, wait: false });
    const { code } = await server.exited;
    assert.notEqual(code, 0);
    assert.match(server.log, /no such time zone: Mars\/Base/);
    await server.stop();
  });
});
