// SPDX-License-Identifier: Apache-2.0
// Conversations that the service keeps: from a message to its execution and
// its files, titles, exports, deletes, by the native API and the command line;
// and what is left of one when the service ends in the middle of an answer.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';

const CODE = [{ type: 'code_interpreter', container: { type: 'auto' } }];
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=';
const PLOT = `run: import base64; from IPython.display import display, Image; display(Image(data=base64.b64decode("${PNG}"))); print("drawn"); open("/mnt/data/a\`b.txt", "w").write("hi")`;

describe('conversations that are kept', () => {
  let g, cli, id, config;

  before(async () => {
    config = { pools: [pool({ ready: 1 })] };
    g = await Glovebox.start({ config });
    cli = new Cli(g);
    id = (await g.ok('POST', '/api/conversations', { title: 'Plots & files', metadata: { a: 'b' } })).id;
    await ask('please `draw`\n' + PLOT);
  });
  after(() => { cli.close?.(); return stop(g); });

  const ask = (input, conversation = id) => g.ok('POST', '/v1/responses', { model: 'echo', input, conversation, tools: CODE });
  const get = (path, key) => request(g, 'GET', `/api/conversations/${path}`, { key });

  test('one without files is listed among those that changed files', async () => {
    const empty = await g.ok('POST', '/api/conversations');
    await g.ok('POST', '/api/run', { code: 'open("/mnt/data/x", "w")', metadata: { conversation: 'by-hand', message: 'm1' } });
    const { data } = await g.ok('GET', '/api/conversations');
    const found = Object.fromEntries(data.map((c) => [c.id, c]));
    assert.deepEqual([found[empty.id].kept, found[empty.id].files, found[empty.id].title], [true, 0, null]);
    assert.deepEqual([found['by-hand'].kept, found['by-hand'].files, found['by-hand'].session], [false, 1, null]);
    assert.deepEqual(data.map((c) => c.last_at), data.map((c) => c.last_at).toSorted?.().toReversed() ?? data.map((c) => c.last_at));
    const mine = found[id];
    assert.deepEqual([mine.title, mine.metadata, mine.executions, mine.model], ['Plots & files', { a: 'b' }, 1, 'echo']);
    assert.ok(mine.files >= 1 && mine.messages >= 2);
    assert.equal((await get('by-hand')).body.kept, false);
    // Page by page nothing is lost or twice.
    const seen = [];
    for (let after = '', more = true; more;) {
      const page = await g.ok('GET', `/api/conversations?limit=1${after}`);
      seen.push(...page.data.map((c) => c.id));
      after = `&after=${encodeURIComponent(page.data.at(-1).id)}`;
      more = page.has_more;
    }
    assert.deepEqual(seen, data.map((c) => c.id));
    assert.deepEqual((await g.ok('GET', '/api/conversations?q=plots')).data.map((c) => c.id), [id]);
    refused(await get('conv_none'), 404);
  });

  test('a message leads to its execution and to the versions of its files', async () => {
    const { data } = (await get(`${id}/items`)).body;
    assert.equal(data[0].item.role, 'user');
    const run = data.find((row) => row.type === 'code_interpreter_call');
    assert.match(run.execution, /^exec_/);
    assert.equal(run.item.outputs.some((output) => output.type === 'image' && output.url.startsWith('data:image/png;base64,')), true);
    const file = run.files.find((f) => f.path === 'a`b.txt') ?? assert.fail(JSON.stringify(run.files));
    assert.equal((await request(g, 'GET', file.url)).text, 'hi');
    const evidence = await g.ok('GET', `/api/executions/${run.execution}/evidence`);
    assert.equal(evidence.trigger.conversation, id);
    const provenance = await g.ok('GET', `/api/versions/${file.version}/provenance`);
    assert.deepEqual([provenance.execution, provenance.conversation], [run.execution, id]);
    const page = (await get(`${id}/items?limit=1`)).body;
    assert.deepEqual([page.data.length, page.has_more], [1, true]);
    assert.equal((await get(`${id}/items?limit=1&after=${page.data[0].id}`)).body.data[0].id, data[1].id);
    for (const limit of [0, 1001]) refused(await get(`${id}/items?limit=${limit}`), 400);
  });

  test('titles and metadata: changed, and their limits', async () => {
    const patch = (body) => request(g, 'PATCH', `/api/conversations/${id}`, { body });
    assert.equal((await patch({ title: 'x'.repeat(200) })).body.title, 'x'.repeat(200));
    refused(await patch({ title: 'x'.repeat(201) }), 400, 'invalid_request', /title/);
    refused(await patch({ metadata: { k: 1 } }), 400);
    refused(await patch({}), 400, 'invalid_request', /nothing to change/);
    assert.equal((await patch({ title: 'Plots & files' })).body.title, 'Plots & files');
  });

  test('exports as JSON and Markdown', async () => {
    const json = await get(`${id}/export`);
    assert.match(json.headers['content-disposition'], new RegExp(`attachment.*${id}\\.json`));
    const exported = JSON.parse(json.text);
    assert.deepEqual([exported.id, exported.title, exported.items.length], [id, 'Plots & files', (await get(`${id}/items`)).body.data.length]);
    const markdown = await get(`${id}/export?format=markdown`);
    assert.match(markdown.headers['content-type'], /^text\/markdown/);
    for (const part of ['# Plots & files', '**User**', '```python', 'drawn', '![output](data:image/png;base64,', '[a\\`b.txt](http'])
      assert.ok(markdown.text.includes(part), part);
    refused(await get(`${id}/export?format=pdf`), 400, 'invalid_request', /json, markdown or ipynb/);
    const stranger = await g.ok('POST', '/api/keys', { tenant: 'default', scopes: ['execute', 'files:read'] });
    for (const path of ['/items', '/export']) refused(await get(id + path, stranger.secret), 404);
    // A container is the tenant's, so its files are known; who said what is not.
    const known = (await get(id, stranger.secret)).body;
    assert.deepEqual([known.kept, known.title, known.session, known.metadata], [false, null, null, {}]);
  });

  test('the notebook is valid, and has the image and the code', async () => {
    const { text } = await get(`${id}/export?format=ipynb`);
    const program = `
import nbformat, sys
book = nbformat.reads(sys.stdin.read(), as_version=4)
nbformat.validate(book)
cells = [c for c in book.cells if c.cell_type == "code"]
print(book.nbformat_minor, len(cells), sorted({o.output_type for c in cells for o in c.outputs}), [m for c in cells for o in c.outputs for m in o.get("data", {})])
for c in cells: compile(c.source, "cell", "exec")
`;
    const { stdout, stderr } = spawnSync('/usr/bin/python3', ['-c', program], { input: text, encoding: 'utf8' });
    assert.equal(stdout, "5 1 ['display_data', 'stream'] ['image/png']\n", stderr);
  });

  test('the command line lists, shows, exports, renames and deletes', async () => {
    assert.ok((await cli.json(['conversations'])).some((c) => c.id === id));
    assert.match((await cli.ok(['conversations', 'list'])).stdout, /^ID +TITLE +LAST +FIRST +MESSAGES +EXECUTIONS +FILES +MODEL +SESSION\n/);
    const shown = (await cli.ok(['conversations', 'show', id])).stdout;
    for (const part of ['user\n', 'please `draw`', 'code_interpreter_call exec_', 'drawn\n', 'created a`b.txt ver_', 'assistant\n'])
      assert.ok(shown.includes(part), `${part} in ${shown}`);
    assert.equal((await cli.json(['conversations', 'show', id]))[0].item.role, 'user');
    assert.match((await cli.ok(['conversations', 'export', id, '--format', 'markdown'])).stdout, /^# Plots & files\n/);
    await cli.ok(['conversations', 'export', id, '--format', 'ipynb', '-o', 'book.ipynb']);
    assert.equal(JSON.parse(readFileSync(join(cli.cwd, 'book.ipynb'))).nbformat, 4);
    const bad = await cli.run(['conversations', 'export', id, '--format', 'pdf', '-o', 'none']);
    assert.notEqual(bad.code, 0);
    assert.ok(!existsSync(join(cli.cwd, 'none')), 'nothing is written for a refusal');
    const other = await g.ok('POST', '/api/conversations');
    await cli.ok(['conversations', 'rename', other.id, 'Another']);
    assert.equal((await get(other.id)).body.title, 'Another');
    await cli.ok(['conversations', 'delete', other.id]);
    refused(await get(other.id), 404);
  });

  test('D10: a deleted conversation is gone with its responses, and from the store', async () => {
    const word = `quince${Date.now()}`;
    const { id: other } = await g.ok('POST', '/api/conversations', { title: word });
    const response = await ask(`say: ${word}`, other);
    assert.equal((await request(g, 'DELETE', `/api/conversations/${other}`)).status, 204);
    for (const path of ['', '/items', '/export']) refused(await get(other + path), 404);
    assert.equal((await request(g, 'GET', `/v1/responses/${response.id}`)).status, 404);
    assert.equal((await request(g, 'GET', `/v1/responses/${response.id}/input_items`)).status, 404);
    const audit = JSON.stringify((await g.ok('GET', `/api/audit?object=${other}&limit=100`)).data);
    assert.ok(!audit.includes(word));
    await g.ok('POST', '/api/collect');
    const data = join(g.dir, 'data');
    for (const name of readdirSync(data).filter((n) => n.startsWith('glovebox.db')))
      assert.ok(!readFileSync(join(data, name)).includes(word), name);
  });

  test('after an end of the service in the middle of an answer it can go on', async () => {
    const { id: other } = await g.ok('POST', '/api/conversations');
    await ask('run: x = 1', other);
    const { hostname, port } = new URL(g.url);
    // Streams of both APIs; what came of each, once it is over.
    const open = (path, body) => {
      const seen = { text: '' };
      seen.over = new Promise((over) => {
        const sent = http.request({ hostname, port, method: 'POST', path, headers: { authorization: `Bearer ${g.key}`, 'content-type': 'application/json' } }, (answer) => {
          answer.on('data', (bytes) => { seen.text += bytes; });
          answer.on('close', over);
          answer.on('error', over);
        });
        sent.on('error', over);
        sent.end(JSON.stringify({ model: 'echo', stream: true, ...body }));
      });
      return seen;
    };
    const response = open('/v1/responses', { input: 'slow: 30000\nsay: late', conversation: other });
    const completion = open('/v1/chat/completions', { messages: [{ role: 'user', content: 'slow: 100\nsay: many words that come late' }] });
    await until(() => response.text && completion.text.includes('"content":"'), { what: 'the streams to begin' });
    await g.stop({ keep: true });
    await Promise.all([response.over, completion.over]);
    assert.ok(!/late/.test(response.text.replaceAll('say: late', '')), 'nothing was made up');
    g = await Glovebox.start({ dir: g.dir, config });
    const answer = await ask('say: again', other);
    assert.equal(answer.status, 'completed');
    const roles = (await get(`${other}/items`)).body.data.map((row) => row.item.role ?? row.type);
    assert.equal(roles.at(-1), 'assistant');
    assert.equal(roles[0], 'user');
  });
});
