// SPDX-License-Identifier: Apache-2.0
// One core, four doors: what goes in at one comes out at another, and keys,
// tenants, limits and the trail are the same whichever was used.
import assert from 'node:assert/strict';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { Pool } from '../../lib/azure.mjs';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { Door } from '../../lib/openai.mjs';
import { request, stop } from '../../lib/wire.mjs';

const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');
const VERSION = '2026-07-28', META = 'io.modelcontextprotocol';

// A stateless call of a tool.
function tool(server, name, args, { key, path = '/mcp?tools=all' } = {}) {
  return request(server, 'POST', path, {
    key,
    body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args,
      _meta: { [`${META}/protocolVersion`]: VERSION, [`${META}/clientCapabilities`]: {} } } },
    headers: { accept: 'application/json, text/event-stream', 'mcp-protocol-version': VERSION, 'mcp-method': 'tools/call', 'mcp-name': name },
  });
}

describe('doors, together', () => {
  let g, openai, azure;

  before(async () => {
    g = await Glovebox.start();
    openai = new Door(g);
    azure = new Pool(g);
  });
  after(() => stop(g));

  // The session behind an identifier.
  const sessionOf = async (identifier) => {
    const { data } = await g.ok('GET', '/api/sessions?limit=100');
    return data.find((s) => s.identifier === identifier) ?? assert.fail(`no session ${identifier}`);
  };
  const python = (id, code) => g.ok('POST', `/api/sessions/${id}/executions`, { code });

  test('uploaded as an OpenAI file, read in a container by MCP, downloaded by the native API', async () => {
    const bytes = randomBytes(5000);
    const file = await openai.file(bytes, 'in.bin');
    const container = await openai.container({ name: 'cross', file_ids: [file.id] });
    const code = `import hashlib, glob; p = glob.glob("/mnt/data/*-in.bin")[0]; print(hashlib.sha256(open(p, "rb").read()).hexdigest()); open("/mnt/data/out.txt", "w").write(p)`;
    const ran = await tool(g, 'execute_python', { code, session_id: container.id });
    assert.equal(ran.status, 200, ran.text);
    const { structuredContent, _meta } = ran.body.result;
    assert.equal(structuredContent.stdout.trim(), sha256(bytes));
    assert.equal(_meta.container_id, container.id);
    assert.equal(ran.body.result.content[0]._meta.container_id, container.id, 'where toolbox clients look');
    const out = _meta.files.find((f) => f.name === 'out.txt') ?? assert.fail(JSON.stringify(_meta));
    const native = await request(g, 'GET', out.url);
    assert.equal(native.text, `/mnt/data/${file.id}-in.bin`);
    const listed = await request(g, 'GET', `/v1/containers/${container.id}/files/${out.id}/content`);
    assert.equal(listed.text, native.text);
    const durable = await request(g, 'GET', `/v1/files/${out.file_id}/content`);
    assert.equal(durable.text, native.text);
  });

  test('uploaded to an Azure session, read by the native API, downloaded as a container file after the session is gone', async () => {
    const mine = azure.other(`cross-${randomUUID()}`);
    const bytes = Buffer.from('a,b\n1,2\n');
    assert.equal((await mine.upload('t.csv', bytes)).status, 200);
    const { id } = await sessionOf(mine.identifier);
    const ran = await python(id, 'rows = open("/mnt/data/t.csv").read(); print(rows); open("/mnt/data/copy.csv", "w").write(rows)');
    assert.equal(ran.stdout.trim(), 'a,b\n1,2');
    const list = await request(g, 'GET', `/v1/containers/${id}/files`);
    const copy = list.body.data.find((f) => f.path === '/mnt/data/copy.csv') ?? assert.fail(list.text);
    assert.equal(copy.source, 'assistant');
    assert.equal(list.body.data.find((f) => f.path === '/mnt/data/t.csv').source, 'user');
    assert.equal((await mine.get('files/copy.csv/content')).text, bytes.toString());
    assert.equal((await mine.delete('session')).status, 204);
    assert.equal((await request(g, 'GET', `/v1/files/${copy.file_id}/content`)).text, bytes.toString());
    assert.deepEqual(await mine.names(), [], 'the same identifier is a new session');
  });

  test('put by the native API, shown at the Azure door, read over MCP; one interpreter behind all', async () => {
    const mine = azure.other(`cross-${randomUUID()}`);
    assert.equal((await mine.run('x = 41')).status, 200);
    const { id } = await sessionOf(mine.identifier);
    assert.equal((await request(g, 'PUT', `/api/sessions/${id}/files/note.txt`, { body: 'one\ntwo\n' })).status, 201);
    assert.deepEqual(await mine.names(), ['note.txt']);
    const read = await tool(g, 'read_file', { path: 'note.txt', session_id: id });
    assert.match(JSON.stringify(read.body.result.content), /two/);
    assert.equal((await python(id, 'x + 1')).result['text/plain'], '42');
    assert.equal((await tool(g, 'execute_python', { code: 'x + 2', session_id: id })).body.result.structuredContent.result, '43');
    assert.equal((await mine.run('x + 3')).body.result.executionResult, 44);
  });

  test('a container runs at the native API and over MCP by its own id, and sessions are containers', async () => {
    const container = await openai.container({ name: 'by id' });
    assert.equal((await python(container.id, '6*7')).result['text/plain'], '42');
    assert.equal((await g.ok('GET', `/api/sessions/${container.id}`)).id, container.id);
    const session = await g.session();
    assert.equal((await request(g, 'GET', `/v1/containers/${session.id}`)).body.id, session.id);
    const cli = new Cli(g);
    const ran = await cli.run(['run', '-c', 'print(6 * 7)', '--session', container.id]);
    cli.close();
    assert.equal(ran.stdout, '42\n', ran.stderr);
  });

  test('I3 another tenant finds nothing at any door, and cannot tell it from nothing', async () => {
    const { secret } = await g.ok('POST', '/api/keys', { tenant: 'other', scopes: ['execute', 'files:read', 'files:write'] });
    const container = await openai.container({ name: 'mine' });
    const file = await openai.file('secret', 'secret.txt');
    const nothing = { container: `cntr_${'0'.repeat(48)}`, file: `file-${'0'.repeat(22)}` };
    const theirs = (method, path, options) => request(g, method, path, { ...options, key: secret });
    const pairs = [
      ['GET', `/v1/containers/${container.id}`, `/v1/containers/${nothing.container}`],
      ['GET', `/v1/containers/${container.id}/files`, `/v1/containers/${nothing.container}/files`],
      ['DELETE', `/v1/containers/${container.id}`, `/v1/containers/${nothing.container}`],
      ['GET', `/v1/files/${file.id}`, `/v1/files/${nothing.file}`],
      ['GET', `/v1/files/${file.id}/content`, `/v1/files/${nothing.file}/content`],
      ['DELETE', `/v1/files/${file.id}`, `/v1/files/${nothing.file}`],
      ['GET', `/api/sessions/${container.id}`, `/api/sessions/${nothing.container}`],
    ];
    for (const [method, known, unknown] of pairs) {
      const [a, b] = [await theirs(method, known), await theirs(method, unknown)];
      assert.equal(a.status, 404, `${method} ${known}: ${a.text}`);
      assert.equal(b.status, 404);
      assert.equal(a.text.replaceAll(container.id, 'X').replaceAll(file.id, 'X'),
        b.text.replaceAll(nothing.container, 'X').replaceAll(nothing.file, 'X'));
    }
    assert.deepEqual((await theirs('GET', '/v1/containers')).body.data, []);
    assert.deepEqual((await theirs('GET', '/v1/files')).body.data, []);
    // The same identifier in the same pool is another session for them.
    const mine = azure.other(`shared-${randomUUID()}`);
    await mine.run('open("/mnt/data/mine.txt", "w").write("x")');
    const other = new Pool(g, { ...mine, key: secret });
    assert.deepEqual(await other.names(), []);
    const ran = await tool(g, 'execute_python', { code: '1', session_id: container.id }, { key: secret });
    assert.equal(ran.body.result.isError, true, ran.text);
    assert.equal((await request(g, 'GET', `/v1/files/${file.id}/content`)).text, 'secret', 'it is still there for its owner');
  });

  test('a key without the scope is refused at every door, in its words', async () => {
    const { secret: key } = await g.ok('POST', '/api/keys', { tenant: 'default', scopes: ['files:read'] });
    const native = await request(g, 'POST', '/api/run', { key, body: { code: '1' } });
    const v1 = await request(g, 'POST', '/v1/containers', { key, body: { name: 'x' } });
    const pools = await new Pool(g, { key }).run('1');
    const mcp = await tool(g, 'execute_python', { code: '1' }, { key });
    for (const got of [native, v1, pools, mcp]) assert.equal(got.status, 403, got.text);
    assert.equal(v1.body.error.type, 'invalid_request_error');
    assert.match(mcp.headers['www-authenticate'] ?? '', /insufficient_scope/);
  });

  test('O1 the trail shows the same acts, whichever door they came through', async () => {
    const before = (await g.ok('GET', '/api/audit?limit=1000')).data.at(-1)?.seq ?? 0;
    const container = await openai.container({ name: 'audited' });
    const mine = azure.other(`audited-${randomUUID()}`);
    await mine.run('open("/mnt/data/a.txt", "w").write("x")');
    await tool(g, 'execute_python', { code: 'open("/mnt/data/b.txt", "w").write("x")', session_id: container.id });
    const { id } = await sessionOf(mine.identifier);
    const events = (await g.ok('GET', `/api/audit?after=${before}&limit=1000`)).data;
    for (const object of [container.id, id])
      assert.ok(events.some((e) => e.action === 'session.create' && e.object === object), `creation of ${object}`);
    assert.equal(events.filter((e) => e.action === 'execution.commit').length, 2);
    const nameless = events.filter((e) => !e.request);
    assert.deepEqual(nameless, [], 'each names its request');
  });
});

describe('doors, one set of limits', () => {
  let g;
  before(async () => { g = await Glovebox.start({ config: { sessions_per_tenant: 2, pools: [pool()] } }); });
  after(() => stop(g));

  test('R8 live sessions are counted over all doors, and each says so in its dialect', async () => {
    await g.session({ persistence: 'ephemeral' });
    await g.session({ persistence: 'ephemeral' });
    const native = await request(g, 'POST', '/api/sessions', { body: {} });
    const v1 = await request(g, 'POST', '/v1/containers', { body: { name: 'third', network_policy: { type: 'disabled' } } });
    const pools = await new Pool(g).run('1');
    const mcp = await tool(g, 'execute_python', { code: '1' });
    assert.equal(native.status, 429);
    assert.equal(v1.status, 429);
    assert.equal(v1.body.error.code, 'rate_limit_exceeded');
    assert.ok(Number(v1.headers['retry-after']) >= 1);
    assert.equal(pools.status, 429, pools.text);
    assert.equal(mcp.status, 200);
    assert.equal(mcp.body.result.isError, true, mcp.text);
  });
});
