// SPDX-License-Identifier: Apache-2.0
// Search through the API: by name and by content, with filters and pages,
// only what one may see, soon after the commit.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, until } from '../../lib/glovebox.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';
import { Workspace, mint } from '../../lib/workspace.mjs';

let server;
let w;
let foreign;

const search = async (q, extra = '', key) => {
  const got = await request(server, 'GET', `/api/search?q=${encodeURIComponent(q)}${extra}`, { key });
  assert.equal(got.status, 200, got.text);
  return got.body;
};
const paths = async (...args) => (await search(...args)).data.map((h) => h.path);
const indexed = () => until(async () => {
  const s = (await request(server, 'GET', '/api/search/status')).body;
  return s.pending === 0 && s.behind_ms === 0;
}, { ms: 20_000, what: 'everything indexed' });

before(async () => {
  server = await Glovebox.start();
  w = await Workspace.create(server, { name: 'library' });
  foreign = (await mint(server, ['files:read', 'files:write'], { tenant: 'elsewhere' })).secret;
  await w.write('reports/quarterly.md', '# Revenue\n\nThe zebra crossed the road.\nNothing else.\n');
  await w.write('data/zebra.csv', 'name,count\nhorse,1\n', {}, '?conversation=conv-z');
  await w.write('code/main.py', 'def giraffe():\n    return "neck"\n');
  await w.write('page.html', '<html><head><script>hidden()</script></head><body><p>An &uuml;ber elephant</p></body></html>');
  await w.write('config.json', '{"animal": "okapi"}');
  await w.write('bytes.bin', Buffer.from([0, 1, 2, 3]));
  await indexed();
});
after(() => stop(server));

describe('finding', () => {
  test('by name and by content, with the line and a snippet', async () => {
    const { data } = await search('zebra');
    assert.deepEqual(data.map((h) => h.path).sort(), ['data/zebra.csv', 'reports/quarterly.md']);
    const text = data.find((h) => h.path.endsWith('.md'));
    assert.deepEqual(Object.keys(text), ['workspace', 'path', 'file_id', 'version', 'mime_type', 'line', 'page', 'snippet', 'in_name', 'score', 'modified_at', 'url', 'cursor']);
    assert.deepEqual([text.workspace, text.line, text.page, text.in_name], [w.id, 3, null, false]);
    assert.match(text.snippet, /\u2068zebra\u2069/i);
    assert.ok(text.score > 0 && text.score <= 1);
    const name = data.find((h) => h.path.endsWith('.csv'));
    assert.equal(name.in_name, true);
    assert.match((await request(server, 'GET', text.url)).text, /zebra/);
    assert.deepEqual(await paths('giraffe'), ['code/main.py']);
    assert.deepEqual(await paths('okapi'), ['config.json']);
    assert.deepEqual(await paths('elephant'), ['page.html']);
    assert.deepEqual(await paths('"crossed the road"'), ['reports/quarterly.md']);
    assert.deepEqual(await paths('"road the crossed"'), []);
    assert.deepEqual(await paths('gira*'), ['code/main.py']);
    assert.deepEqual(await paths('bytes.bin'), ['bytes.bin']);
  });

  test('with filters', async () => {
    assert.deepEqual(await paths('zebra', '&type=csv'), ['data/zebra.csv']);
    assert.deepEqual(await paths('zebra', '&prefix=reports/'), ['reports/quarterly.md']);
    assert.deepEqual(await paths('zebra', '&conversation=conv-z'), ['data/zebra.csv']);
    assert.deepEqual(await paths('zebra', '&from=2100-01-01'), []);
    assert.equal((await paths('zebra', '&to=2100-01-01T00:00:00Z&from=2020-01-01T00:00:00.5%2B01:00')).length, 2);
    assert.equal((await paths('zebra', `&author=${w.made.owner}`)).length, 2);
    assert.equal((await paths('zebra', '&author=key_00000000000000000000000000000000')).length, 0);
    assert.equal((await paths('zebra', `&workspace=${w.id}`)).length, 2);
  });

  test('in pages', async () => {
    const first = await search('zebra', '&limit=1');
    assert.deepEqual([first.data.length, first.has_more], [1, true]);
    const second = await search('zebra', `&limit=1&after=${encodeURIComponent(first.data[0].cursor)}`);
    assert.equal(second.data.length, 1);
    assert.notEqual(second.data[0].path, first.data[0].path);
    assert.equal(second.has_more, false);
  });

  test('H3 a query is bounded and any text of it is safe', async () => {
    for (const bad of ['', '?q=', `?q=${'x'.repeat(1001)}`, '?q=x&limit=0', '?q=x&limit=501', '?q=x&from=yesterday', '?q=x&to=2026-13-01', '?q=x&nope=1', '?q=x&q=y'])
      refused(await request(server, 'GET', `/api/search${bad}`), 400);
    assert.equal((await request(server, 'GET', `/api/search?q=${'x'.repeat(1000)}&limit=500`)).status, 200);
    for (const q of ['"', '*', 'a AND', 'NEAR(', ')', "'; DROP TABLE words; --", 'path:zebra', '-x', '^', '\\', '😀', 'a"b"c', '* *', '" "', 'OR', 'NOT']) {
      const got = await request(server, 'GET', `/api/search?q=${encodeURIComponent(q)}`);
      assert.ok([200, 400].includes(got.status), `${q}: ${got.text}`);
      if (got.status === 400) refused(got, 400, 'invalid_request');
    }
  });
});

describe('keeping up', () => {
  test('changes are found soon, deleted and old text no more', async () => {
    await w.write('fresh.txt', 'platypus one');
    await until(async () => (await paths('platypus')).length === 1, { ms: 10_000, what: 'found' });
    await w.write('fresh.txt', 'echidna two');
    await until(async () => (await paths('echidna')).length === 1 && (await paths('platypus')).length === 0, { ms: 10_000, what: 'replaced' });
    await w.ok('POST', '/move', { body: { from: 'fresh.txt', to: 'wombat.txt' } });
    await until(async () => (await paths('wombat')).length === 1, { ms: 10_000, what: 'renamed' });
    await w.delete('wombat.txt');
    assert.deepEqual(await paths('echidna'), [], 'gone at once');
  });
});

describe('only what one may see', () => {
  test('I3 another tenant finds nothing, counts nothing, and no page tells', async () => {
    assert.deepEqual(await search('zebra', '', foreign), { data: [], has_more: false });
    const status = (await request(server, 'GET', '/api/search/status', { key: foreign })).body;
    assert.deepEqual([status.ready, status.pending, status.failed, status.names_only], [0, 0, 0, 0]);
    const other = await Workspace.create(server, {}, foreign);
    await other.write('zebra.txt', 'zebra');
    await until(async () => (await paths('zebra', '', foreign)).length === 1, { ms: 10_000 });
    assert.equal((await paths('zebra')).length, 2, 'nor the other way');
  });

  test('a private workspace is found by its members only', async () => {
    const hidden = await Workspace.create(server, { private: true });
    await hidden.write('x.txt', 'narwhal');
    await until(async () => (await paths('narwhal')).length === 1, { ms: 10_000 });
    const member = await mint(server, ['files:read']);
    assert.deepEqual(await paths('narwhal', '', member.secret), []);
    await hidden.call('PUT', `/members/${member.id}`, { body: { role: 'viewer' } });
    assert.equal((await paths('narwhal', '', member.secret)).length, 1);
    await hidden.call('DELETE', '');
    assert.deepEqual(await paths('narwhal'), [], 'a deleted workspace is gone at once');
  });
});
