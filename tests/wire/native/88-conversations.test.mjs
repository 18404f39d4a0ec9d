// SPDX-License-Identifier: Apache-2.0
// What a conversation caused: every file, with the message it came from, long
// after the sessions are gone.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';
import { Workspace, mint } from '../../lib/workspace.mjs';

let server;

before(async () => { server = await Glovebox.start({ config: { pools: [pool({ ready: 1 })] } }); });
after(() => stop(server));

const fresh = () => Workspace.create(server);

describe('conversations', () => {
  test('every file a conversation made, with the message that caused it', async () => {
    const id = 'chat/ü 1';
    const session = await server.session();
    await session.python('open("/mnt/data/chart.txt", "w").write("v1")', { metadata: { conversation: id, message: 'm1' } });
    await session.python('open("/mnt/data/chart.txt", "w").write("v2")', { metadata: { conversation: id, message: 'm2' } });
    await session.python('open("/mnt/data/other.txt", "w").write("x")');
    const w = await fresh();
    await w.write('input.csv', '1', {}, `?conversation=${encodeURIComponent(id)}&message=m3`);
    await session.delete();
    const get = (key, query = '') => request(server, 'GET', `/api/conversations/${encodeURIComponent(id)}/files${query}`, { key });
    const made = (await get()).body;
    assert.deepEqual(made.data.map((v) => [v.path, v.message, v.change]), [['chart.txt', 'm1', 'created'], ['chart.txt', 'm2', 'modified'], ['input.csv', 'm3', 'created']]);
    assert.deepEqual(made.data.map((v) => v.workspace), [session.made.workspace, session.made.workspace, w.id]);
    assert.equal((await request(server, 'GET', made.data[0].url)).text, 'v1', 'as it was then');
    const first = (await get(undefined, '?limit=1')).body;
    assert.equal(first.has_more, true);
    assert.equal((await get(undefined, `?limit=1&after=${first.data[0].version}`)).body.data[0].message, 'm2');
    const foreign = await mint(server, ['files:read'], { tenant: 'elsewhere' });
    assert.deepEqual((await get(foreign.secret)).body, { data: [], has_more: false });
    assert.deepEqual((await request(server, 'GET', '/api/conversations/none/files')).body, { data: [], has_more: false });
    refused(await request(server, 'GET', `/api/conversations/${'x'.repeat(257)}/files`), 400);
    refused(await request(server, 'POST', '/api/run', { body: { code: '1', metadata: { conversation: 'x'.repeat(257) } } }), 400, 'invalid_request', /conversation/);
    assert.equal((await request(server, 'POST', '/api/run', { body: { code: '1', metadata: { conversation: 'x'.repeat(256), message: 7 } } })).status, 200);
  });

  test('the conversations of a caller, the most recent first', async () => {
    const reader = await mint(server, ['files:read', 'files:write'], { tenant: 'listing' });
    const list = async (query = '', key = reader.secret) => (await request(server, 'GET', `/api/conversations${query}`, { key })).body;
    assert.deepEqual(await list(), { data: [], has_more: false });
    const w = (await request(server, 'POST', '/api/workspaces', { body: {}, key: reader.secret })).body.id;
    const put = (path, conversation, message) => request(server, 'PUT', `/api/workspaces/${w}/files/${path}?conversation=${conversation}&message=${message}`, { body: path, key: reader.secret });
    for (const [path, conversation, message] of [['a', 'first', 'm1'], ['b', 'first', 'm2'], ['c', 'second', 'm1'], ['a2', 'first', 'm2']]) {
      assert.equal((await put(path, conversation, message)).status, 201);
      await new Promise((done) => setTimeout(done, 5)); // distinct times
    }
    const { data } = await list();
    assert.deepEqual(data.map(({ id, messages, files, workspaces }) => [id, messages, files, workspaces]), [['first', 2, 3, 1], ['second', 1, 1, 1]]);
    assert.ok(data[0].first_at < data[1].first_at && data[0].last_at > data[1].last_at);
    assert.deepEqual((await list('?q=eco')).data.map(({ id }) => id), ['second']);
    const page = await list('?limit=1');
    assert.deepEqual([page.data[0].id, page.has_more], ['first', true]);
    assert.deepEqual(await list('?limit=1&after=first'), { data: [data[1]], has_more: false });
    refused(await request(server, 'GET', '/api/conversations?after=none', { key: reader.secret }), 400, 'invalid_request', /after/);
    assert.ok(!(await list('', server.key)).data.some(({ id }) => id === 'second'), 'nothing of another tenant');
  });
});
