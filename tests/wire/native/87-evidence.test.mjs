// SPDX-License-Identifier: Apache-2.0
// What is known of an execution afterwards: who, why, which code, which
// files, how it went; for those who may know it, and for as long as is said.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { restarted } from '../../lib/ledger.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';
import { Workspace, conforms, mint, openapi } from '../../lib/workspace.mjs';

const sha256 = (text) => createHash('sha256').update(text).digest('hex');
const config = { pools: [pool({ ready: 1 })] };
let server;
let doc;

before(async () => {
  server = await Glovebox.start({ config });
  doc = await openapi(server);
});
after(() => stop(server));

const PATH = '/api/executions/{id}/evidence';
const evidence = async (id, key) => {
  const got = await request(server, 'GET', PATH.replace('{id}', id), { key });
  assert.equal(got.status, 200, got.text);
  conforms(doc, 'GET', PATH, got);
  return got.body;
};
const list = async (query = '', key) => {
  const got = await request(server, 'GET', `/api/evidence${query}`, { key });
  assert.equal(got.status, 200, got.text);
  conforms(doc, 'GET', '/api/evidence', got);
  return got.body;
};

describe('one page', () => {
  test('O1 who asked, what triggered it, which code, files and how it went', async () => {
    const w = await Workspace.create(server, { name: 'seen' });
    const put = await w.write('in.csv', '1,2');
    const session = await server.session({ workspace: w.id });
    const metadata = { conversation: 'conv-1', message: 'msg-7', prompt: 'sum "it" up' };
    const code = 'open("/mnt/data/out.txt", "w").write(open("/mnt/data/in.csv").read())\nprint("é" * 3)';
    const e = await session.python(code, { metadata });
    const page = await evidence(e.id);
    assert.deepEqual([page.execution, page.session, page.pool, page.outcome], [e.id, session.id, 'default', 'ok']);
    const me = (await server.ok('GET', '/api/keys')).data[0].id;
    assert.deepEqual([page.who.tenant, page.who.key, page.who.door, page.who.source], ['default', me, 'native', '127.0.0.1']);
    assert.match(page.who.request, /^req_/);
    assert.deepEqual(page.trigger, { conversation: 'conv-1', message: 'msg-7', by: 'client', prompt: null, metadata });
    assert.deepEqual(page.code, { language: 'python', bytes: Buffer.byteLength(code), sha256: sha256(code), kept: true });
    assert.equal(page.code_text, code);
    assert.deepEqual(page.files.mounted, { workspace: w.id, commit: put.commit, commit_seq: 1 });
    assert.deepEqual(page.files.read, { told_by: 'interpreter', paths: ['in.csv'], truncated: false });
    const [out] = page.files.written;
    assert.deepEqual([out.path, out.change, out.fate, out.size, out.sha256], ['out.txt', 'created', 'kept', 3, sha256('1,2')]);
    assert.match(out.file, /^file_/);
    assert.match(out.version, /^ver_/);
    assert.equal(page.files.commit, e.files.commit ?? page.files.commit);
    assert.match(page.files.commit, /^cmt_/);
    assert.deepEqual([page.connections.blocked, page.connections.allowed, page.escalated, page.repeats], [[], [], false, 0]);
    assert.ok(page.started_at >= page.created_at && page.finished_at >= page.started_at);
    assert.ok(page.usage.peak_memory_bytes > 0 && page.usage.output_bytes >= 7);
    assert.match(page.isolation, /^process: namespaces.*seccomp/);
    // The next one sees what this one made.
    const next = await evidence((await session.python('1')).id);
    assert.deepEqual(next.files.mounted, { workspace: w.id, commit: page.files.commit, commit_seq: 2 });
    assert.equal(next.interpreter_fresh, false);
  });

  test('a run that fails, a shell, a single run and what was shown', async () => {
    const session = await server.session();
    const failed = await evidence((await session.python('1/0')).id);
    assert.deepEqual([failed.outcome, failed.files.written], ['error', []]);
    const shell = await evidence((await session.shell('rm -f /mnt/data/none; exit 3')).id);
    assert.deepEqual([shell.code.language, shell.code_text], ['shell', 'rm -f /mnt/data/none; exit 3']);
    const run = await evidence((await server.run('print(1)')).id);
    assert.equal(run.outcome, 'ok');
    const shown = await session.python('class P:\n    def _repr_html_(self): return "<b>x</b>"\nP()');
    const { artifacts } = await evidence(shown.id);
    assert.deepEqual(artifacts, [{ how: 'result', type: 'text/html', bytes: 8 }]);
  });

  test('what it tried to reach, and what policy said of it', async () => {
    const session = await server.session();
    const e = await session.python('import socket\ntry: socket.create_connection(("10.1.2.3", 81), 1)\nexcept OSError: pass\ntry: socket.gethostbyname("name.example")\nexcept OSError: pass');
    const { connections, policy } = await evidence(e.id);
    assert.deepEqual(connections.allowed, []);
    const [tcp] = connections.blocked.filter((c) => c.what === 'connect');
    assert.deepEqual([tcp.host, tcp.port, tcp.count], ['10.1.2.3', 81, 1]);
    assert.ok(connections.blocked.some((c) => c.what === 'resolve' && c.host === 'name.example'));
    assert.deepEqual([policy.verdict, policy.rule, policy.version], ['allow', 'default', 0]);
  });

  test('retry_of is kept, and must be the id of an execution', async () => {
    const session = await server.session();
    const first = await session.python('1/0');
    const again = await session.python('1', { retry_of: first.id });
    assert.equal((await evidence(again.id)).retry_of, first.id);
    assert.equal((await evidence((await server.run('1', { retry_of: first.id })).id)).retry_of, first.id);
    for (const bad of ['', 'exec_', first.id.slice(0, -1), `${first.id}0`, first.id.replace('exec', 'sess'), first.id.toUpperCase(), 'x'.repeat(65), 7])
      refused(await request(server, 'POST', `/api/sessions/${session.id}/executions`, { body: { code: '1', retry_of: bad } }), 400, 'invalid_request', /retry_of/);
  });

  test('outlives its files, its session, its workspace and a restart', async () => {
    const w = await Workspace.create(server, { name: 'gone' });
    const session = await server.session({ workspace: w.id });
    const e = await session.python('open("/mnt/data/f", "w").write("x")');
    const before_ = await evidence(e.id);
    await w.delete('f');
    await session.delete();
    await w.call('DELETE', '');
    await server.ok('POST', '/api/collect');
    assert.deepEqual(await evidence(e.id), before_);
    await server.stop({ keep: true });
    server = await restarted(server, { config });
    assert.deepEqual(await evidence(e.id), before_);
    assert.equal((await request(server, 'GET', `/api/executions/${e.id}`)).status, 404, 'itself it does not');
    await until(async () => (await fetch(`${server.url}/readyz`)).status === 200, { ms: 60_000, what: 'readyz' });
  });
});

describe('who may see it', () => {
  test('I3 the key that asked and those with audit:read of the tenant; for others there is none', async () => {
    const asker = await mint(server, ['execute']);
    const other = await mint(server, ['execute', 'files:read']);
    const auditor = await mint(server, ['audit:read']);
    const foreign = await mint(server, ['audit:read', 'admin'], { tenant: 'elsewhere' });
    const session = await server.session({}, { key: asker.secret });
    const { id } = await session.python('print(1)');
    assert.equal((await evidence(id, asker.secret)).who.key, asker.id);
    assert.equal((await evidence(id, auditor.secret)).who.key, asker.id);
    const unknown = await request(server, 'GET', PATH.replace('{id}', `exec_${'0'.repeat(32)}`), { key: asker.secret });
    for (const key of [other.secret, foreign.secret]) {
      const got = await request(server, 'GET', PATH.replace('{id}', id), { key });
      refused(got, 404, 'not_found');
      assert.equal(got.text, unknown.text);
    }
    refused(await request(server, 'GET', PATH.replace('{id}', id), { key: null }), 401);
    refused(await request(server, 'GET', PATH.replace('{id}', 'nonsense')), 404, 'not_found');
    assert.deepEqual((await list(`?session=${session.id}`, asker.secret)).data.map((r) => r.execution), [id]);
    assert.deepEqual((await list(`?session=${session.id}`, other.secret)).data, []);
    assert.deepEqual((await list(`?session=${session.id}`, foreign.secret)).data, []);
    assert.equal((await list(`?session=${session.id}`, auditor.secret)).data.length, 1);
  });

  test('lists by session, time and outcome, in pages', async () => {
    const session = await server.session();
    const ids = [];
    for (const code of ['1', '1/0', '2', '3']) ids.unshift((await session.python(code)).id);
    const at = `?session=${session.id}`;
    assert.deepEqual((await list(at)).data.map((r) => r.execution), ids);
    assert.deepEqual((await list(`${at}&outcome=error`)).data.map((r) => r.execution), [ids[2]]);
    assert.equal((await list(`${at}&from=2100-01-01`)).data.length, 0);
    assert.equal((await list(`${at}&from=2020-01-01&to=2100-01-01`)).data.length, 4);
    const first = await list(`${at}&limit=3`);
    assert.deepEqual([first.data.length, first.has_more], [3, true]);
    const rest = await list(`${at}&limit=3&after=${first.data.at(-1).execution}`);
    assert.deepEqual([rest.data.map((r) => r.execution), rest.has_more], [[ids[3]], false]);
    for (const bad of ['limit=0', 'limit=1001', 'after=nothing', `outcome=${'x'.repeat(32)}`, 'from=x', 'nope=1'])
      refused(await request(server, 'GET', `/api/evidence?${bad}`), 400);
  });
});

test('where code is not to be kept, its hash is', async () => {
  const quiet = await Glovebox.start({ config: { ...config, evidence_code: false } });
  try {
    const e = await quiet.run('print("do not keep me")');
    const page = await quiet.ok('GET', `/api/executions/${e.id}/evidence`);
    assert.deepEqual([page.code_text, page.code.kept, page.code.sha256], [null, false, sha256('print("do not keep me")')]);
  } finally {
    await stop(quiet);
  }
});

test('every check of policy is listed, and output where it is configured', async () => {
  const keeping = await Glovebox.start({ config: { ...config, evidence_output_bytes: 16 } });
  try {
    const rules = 'version: 1\nrules: [{name: python-ok, match: {language: python}, then: allow}]\n'
      + 'tenants: {default: {rules: [{name: ours, match: {action: execute}, then: allow}]}}\n';
    const put = await request(keeping, 'PUT', '/api/policy', { body: rules, headers: { 'content-type': 'application/yaml' } });
    assert.equal(put.status, 200, put.text);
    const e = await keeping.run('print("0123456789")\n"a result that is cut"');
    const page = await keeping.ok('GET', `/api/executions/${e.id}/evidence`);
    assert.deepEqual(page.checks.map((c) => [c.action, c.verdict, c.rule, c.layer, c.version]),
      [['execute', 'allow', 'python-ok', 'global', 1], ['execute', 'allow', 'ours', 'tenant:default', 1]]);
    assert.equal(page.checks_truncated, false);
    assert.deepEqual(page.output, { text: "0123456789\n'a re", truncated: true });
    const hidden = await keeping.run('print("secret")', { persistence: 'ephemeral' });
    assert.equal((await keeping.ok('GET', `/api/executions/${hidden.id}/evidence`)).output, null);
  } finally {
    await stop(keeping);
  }
});
