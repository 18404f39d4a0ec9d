// SPDX-License-Identifier: Apache-2.0
// What a user of the OpenAI client does, step by step, written against the
// client alone so that each of its versions can play it. Steps share a stage
// and come in order.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createReadStream, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';

const pick = (object, ...names) => Object.fromEntries(names.map((name) => [name, object[name]]));
const all = async (pages) => {
  const found = [];
  for await (const one of pages) found.push(one);
  return found;
};
const text = async (response) => (await response).text();
const thrown = async (promise) => {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  return assert.fail('nothing was thrown');
};

// Passes requests on, but answers those that `meddle` has something for.
async function meddler(url) {
  const { hostname, port } = new URL(url);
  const m = { seen: [], meddle: () => null };
  const server = http.createServer((req, res) => {
    m.seen.push({ line: `${req.method} ${req.url}`, headers: req.headers });
    const answer = m.meddle(req, m.seen.length);
    if (answer) {
      req.resume();
      res.writeHead(answer.status, { 'content-type': 'application/json', ...answer.headers });
      res.end(JSON.stringify({ error: { message: 'meddled', type: 'server_error', param: null, code: null } }));
      return;
    }
    const on = http.request({ hostname, port, method: req.method, path: req.url, headers: req.headers }, (from) => {
      res.writeHead(from.statusCode, from.headers);
      from.pipe(res);
    });
    on.on('error', () => res.destroy());
    req.pipe(on);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  m.url = `http://127.0.0.1:${server.address().port}`;
  m.close = () => { server.closeAllConnections(); return new Promise((done) => server.close(done)); };
  return m;
}

export async function prepare(module, { url, key, weak }) {
  const { default: OpenAI, AzureOpenAI, toFile } = module;
  const stage = { module, OpenAI, AzureOpenAI, toFile, url, key, weak };
  stage.client = new OpenAI({ apiKey: key, baseURL: `${url}/v1`, timeout: 60_000 });
  stage.dir = mkdtempSync(join(tmpdir(), 'glovebox-openai-'));
  stage.meddler = await meddler(url);
  stage.through = new OpenAI({ apiKey: key, baseURL: `${stage.meddler.url}/v1`, timeout: 60_000 });
  stage.run = async (container, code) => {
    const answer = await fetch(`${url}/api/sessions/${container}/executions`, {
      method: 'POST', headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ language: 'python', code }),
    });
    const body = await answer.json();
    assert.equal(body.outcome, 'ok', JSON.stringify(body));
    return body;
  };
  stage.close = async () => {
    await stage.meddler.close();
    rmSync(stage.dir, { recursive: true, force: true });
  };
  return stage;
}

export const steps = [
  // ---- containers
  ['a container is created with a name alone', async (s) => {
    s.made = await s.client.containers.create({ name: 'job-7' });
    assert.match(s.made.id, /^cntr_[0-9a-f]{48}$/);
    assert.deepEqual(pick(s.made, 'object', 'name', 'status', 'memory_limit', 'expires_after', 'network_policy'), {
      object: 'container', name: 'job-7', status: 'running', memory_limit: '1g',
      expires_after: { anchor: 'last_active_at', minutes: 20 }, network_policy: { type: 'disabled' },
    });
    const now = Date.now() / 1000;
    for (const at of [s.made.created_at, s.made.last_active_at]) assert.ok(Number.isInteger(at) && Math.abs(at - now) < 60);
    assert.match(s.made._request_id, /^req_[0-9a-f]{32}$/);
  }],
  ['and with everything one can ask for', async (s) => {
    const file = await s.client.files.create({ file: await s.toFile(Buffer.from('a,b\n1,2\n'), 'in.csv'), purpose: 'user_data' });
    const made = await s.client.containers.create({
      name: 'full', file_ids: [file.id], expires_after: { anchor: 'last_active_at', minutes: 5 }, memory_limit: '4g',
      network_policy: { type: 'disabled' },
    });
    assert.deepEqual(pick(made, 'name', 'memory_limit', 'expires_after'),
      { name: 'full', memory_limit: '4g', expires_after: { anchor: 'last_active_at', minutes: 5 } });
    const [listed] = (await s.client.containers.files.list(made.id)).data;
    assert.equal(listed.path, `/mnt/data/${file.id}-in.csv`);
    assert.equal((await s.run(made.id, `print(open('${listed.path}').read(), end='')`)).stdout, 'a,b\n1,2\n');
    await s.client.containers.delete(made.id);
  }],
  ['it is retrieved and found by its name', async (s) => {
    const again = await s.client.containers.retrieve(s.made.id);
    assert.deepEqual(pick(again, 'id', 'name', 'created_at'), pick(s.made, 'id', 'name', 'created_at'));
    const named = await s.client.containers.list({ name: 'job-7' });
    assert.deepEqual(named.data.map((c) => c.id), [s.made.id]);
    assert.deepEqual((await s.client.containers.list({ name: 'job' })).data, []);
  }],
  ['more than a page of containers is iterated in order, none twice', async (s) => {
    const made = [];
    for (let i = 0; i < 25; i++) made.push((await s.client.containers.create({ name: 'many' })).id);
    const first = await s.client.containers.list({ name: 'many' });
    assert.equal(first.data.length, 20);
    assert.ok(first.hasNextPage());
    assert.deepEqual((await all(s.client.containers.list({ name: 'many', limit: 10 }))).map((c) => c.id), made.toReversed?.() ?? [...made].reverse());
    assert.deepEqual((await all(s.client.containers.list({ name: 'many', limit: 7, order: 'asc' }))).map((c) => c.id), made);
    for (const id of made) await s.client.containers.delete(id);
    assert.deepEqual(await all(s.client.containers.list({ name: 'many' })), []);
  }],
  ['a deleted container is not found, in the words recovery code looks for', async (s) => {
    const { id } = await s.client.containers.create({ name: 'gone' });
    assert.deepEqual(pick(await s.client.containers.delete(id), 'id', 'object', 'deleted'), { id, object: 'container.deleted', deleted: true });
    const error = await thrown(s.client.containers.retrieve(id));
    assert.ok(error instanceof s.OpenAI.NotFoundError);
    assert.equal(error.message, `404 Container with id '${id}' not found.`);
    assert.match(error.requestID, /^req_/);
  }],

  // ---- container files
  ['a File, a Buffer, a stream and a fetch answer are uploaded to a container', async (s) => {
    const at = join(s.dir, 'streamed.bin');
    writeFileSync(at, Buffer.alloc(300_000, 7));
    const uploads = {
      'file.txt': new File(['file'], 'file.txt'),
      'buffer.txt': await s.toFile(Buffer.from('buffer'), 'buffer.txt'),
      'streamed.bin': createReadStream(at),
      'iterated.txt': await s.toFile(Readable.from([Buffer.from('iter'), Buffer.from('ated')]), 'iterated.txt'),
      'fetched.txt': await s.toFile(await fetch('data:text/plain,fetched'), 'fetched.txt'),
    };
    for (const [name, file] of Object.entries(uploads)) {
      const made = await s.client.containers.files.create(s.made.id, { file });
      assert.deepEqual(pick(made, 'object', 'container_id', 'path', 'source'),
        { object: 'container.file', container_id: s.made.id, path: `/mnt/data/${name}`, source: 'user' });
      const bytes = Buffer.from(await (await s.client.containers.files.content.retrieve(made.id, { container_id: s.made.id })).arrayBuffer());
      assert.equal(bytes.length, made.bytes);
      assert.equal(bytes.subarray(0, 9).toString('latin1'), name === 'streamed.bin' ? '\x07'.repeat(9) : name.split('.')[0].slice(0, 9));
    }
  }],
  ['names in any script and with quotes arrive as they are', async (s) => {
    for (const name of ['Übersicht – 2026.csv', '数据 "final".txt', 'نتائج.json', "o'clock;x=1.txt"]) {
      const made = await s.client.containers.files.create(s.made.id, { file: new File(['x'], name) });
      assert.equal(made.path, `/mnt/data/${name}`);
      const response = await s.client.containers.files.content.retrieve(made.id, { container_id: s.made.id });
      assert.equal(decodeURIComponent(/filename\*=UTF-8''(.*)$/.exec(response.headers.get('content-disposition'))[1]), name);
    }
    assert.match((await s.run(s.made.id, 'import os; print(os.listdir("/mnt/data"))')).stdout, /数据 "final"\.txt/);
  }],
  ['a second file of the same name keeps the first', async (s) => {
    const first = await s.client.containers.files.create(s.made.id, { file: new File(['1'], 'same.txt') });
    const second = await s.client.containers.files.create(s.made.id, { file: new File(['2'], 'same.txt') });
    assert.equal(first.path, '/mnt/data/same.txt');
    assert.match(second.path, /^\/mnt\/data\/[0-9a-f]{32}-same\.txt$/);
    assert.equal(await text(s.client.containers.files.content.retrieve(first.id, { container_id: s.made.id })), '1');
    assert.equal(await text(s.client.containers.files.content.retrieve(second.id, { container_id: s.made.id })), '2');
  }],
  ['a file of the library is attached by its id', async (s) => {
    const file = await s.client.files.create({ file: new File(['kept'], 'kept.txt'), purpose: 'user_data' });
    const made = await s.client.containers.files.create(s.made.id, { file_id: file.id });
    assert.deepEqual(pick(made, 'path', 'bytes', 'source'), { path: `/mnt/data/${file.id}-kept.txt`, bytes: 4, source: 'user' });
    assert.equal((await s.run(s.made.id, `print(open('${made.path}').read())`)).stdout, 'kept\n');
    const error = await thrown(s.client.containers.files.create(s.made.id, { file_id: 'file-0000000000000000000000' }));
    assert.ok(error instanceof s.OpenAI.NotFoundError);
    assert.equal(error.message, '404 No such File object: file-0000000000000000000000');
  }],
  ['what code makes is listed, and outlives the container', async (s) => {
    const { id } = await s.client.containers.create({ name: 'maker' });
    await s.run(id, 'open("/mnt/data/out.csv", "w").write("x\\n1\\n")');
    const [made] = (await s.client.containers.files.list(id)).data;
    assert.deepEqual(pick(made, 'path', 'bytes', 'source'), { path: '/mnt/data/out.csv', bytes: 4, source: 'assistant' });
    assert.deepEqual(await s.client.containers.files.retrieve(made.id, { container_id: id }).then((f) => pick(f, 'id', 'path')), pick(made, 'id', 'path'));
    await s.client.containers.delete(id);
    assert.ok(await thrown(s.client.containers.files.retrieve(made.id, { container_id: id })) instanceof s.OpenAI.NotFoundError);
    assert.match(made.file_id, /^file-[0-9A-Za-z]{22}$/);
    assert.deepEqual(pick(await s.client.files.retrieve(made.file_id), 'filename', 'bytes', 'purpose'), { filename: 'out.csv', bytes: 4, purpose: 'assistants_output' });
    assert.equal(await text(s.client.files.content(made.file_id)), 'x\n1\n');
  }],
  ['more than a page of container files is iterated, and one is deleted', async (s) => {
    const { id } = await s.client.containers.create({ name: 'pages' });
    const made = [];
    for (let i = 0; i < 25; i++) made.push((await s.client.containers.files.create(id, { file: new File([`${i}`], `f${i}.txt`) })).id);
    assert.equal((await s.client.containers.files.list(id)).data.length, 20);
    assert.deepEqual((await all(s.client.containers.files.list(id))).map((f) => f.id), [...made].reverse());
    assert.deepEqual((await all(s.client.containers.files.list(id, { order: 'asc', limit: 8 }))).map((f) => f.id), made);
    await s.client.containers.files.delete(made[3], { container_id: id });
    assert.equal((await all(s.client.containers.files.list(id))).length, 24);
    const error = await thrown(s.client.containers.files.content.retrieve(made[3], { container_id: id }));
    assert.equal(error.message, `404 File ${made[3]} not found on container ${id}.`);
    await s.client.containers.delete(id);
  }],

  // ---- files
  ['files are created, retrieved, fetched, waited for and deleted', async (s) => {
    const made = await s.client.files.create({ file: new File(['{"a":1}\n'], 'lines.jsonl'), purpose: 'fine-tune' });
    assert.match(made.id, /^file-[0-9A-Za-z]{22}$/);
    assert.deepEqual(pick(made, 'object', 'bytes', 'filename', 'purpose', 'status'),
      { object: 'file', bytes: 8, filename: 'lines.jsonl', purpose: 'fine-tune', status: 'processed' });
    assert.ok(!('expires_at' in made) && !('status_details' in made));
    assert.equal((await s.client.files.waitForProcessing(made.id)).status, 'processed');
    assert.equal(await text(s.client.files.content(made.id)), '{"a":1}\n');
    assert.deepEqual(pick(await s.client.files.delete(made.id), 'id', 'object', 'deleted'), { id: made.id, object: 'file', deleted: true });
    const error = await thrown(s.client.files.retrieve(made.id));
    assert.ok(error instanceof s.OpenAI.NotFoundError);
    assert.deepEqual(pick(error, 'status', 'param', 'code', 'type'), { status: 404, param: 'id', code: null, type: 'invalid_request_error' });
    assert.equal(error.message, `404 No such File object: ${made.id}`);
  }],
  ['a stream is uploaded in chunks of unknown length', async (s) => {
    const at = join(s.dir, 'large.bin');
    const bytes = Buffer.alloc(3_000_000, 'glovebox ');
    writeFileSync(at, bytes);
    const made = await s.client.files.create({ file: createReadStream(at), purpose: 'user_data' });
    assert.deepEqual(pick(made, 'filename', 'bytes'), { filename: 'large.bin', bytes: bytes.length });
    const back = Buffer.from(await (await s.client.files.content(made.id)).arrayBuffer());
    assert.ok(back.equals(bytes));
  }],
  ['files expire when asked to, and those of a batch by themselves', async (s) => {
    const asked = await s.client.files.create({ file: new File(['x'], 'x'), purpose: 'user_data', expires_after: { anchor: 'created_at', seconds: 3600 } });
    assert.equal(asked.expires_at - asked.created_at, 3600);
    const batch = await s.client.files.create({ file: new File(['x'], 'x'), purpose: 'batch' });
    assert.equal(batch.expires_at - batch.created_at, 30 * 24 * 3600);
    const error = await thrown(s.client.files.create({ file: new File(['x'], 'x'), purpose: 'user_data', expires_after: { anchor: 'created_at', seconds: 60 } }));
    assert.ok(error instanceof s.OpenAI.BadRequestError);
    assert.equal(error.param, 'expires_after.seconds');
  }],
  ['files are listed by purpose, page by page', async (s) => {
    const made = [];
    for (let i = 0; i < 5; i++) made.push((await s.client.files.create({ file: new File([`${i}`], `v${i}.png`), purpose: 'vision' })).id);
    assert.deepEqual((await all(s.client.files.list({ purpose: 'vision', limit: 2, order: 'asc' }))).map((f) => f.id).slice(-5), made);
    assert.deepEqual((await all(s.client.files.list({ purpose: 'vision', limit: 2 }))).map((f) => f.id).slice(0, 5), [...made].reverse());
    assert.ok((await all(s.client.files.list())).length > 5);
  }],

  // ---- uploads
  ['an upload is put together in the order told, whatever order its parts came in', async (s) => {
    const parts = ['first ', 'second ', 'third'];
    const whole = parts.join('');
    const upload = await s.client.uploads.create({ bytes: whole.length, filename: 'joined.txt', mime_type: 'text/plain', purpose: 'user_data' });
    assert.deepEqual(pick(upload, 'object', 'bytes', 'filename', 'purpose', 'status'),
      { object: 'upload', bytes: whole.length, filename: 'joined.txt', purpose: 'user_data', status: 'pending' });
    assert.equal(upload.expires_at - upload.created_at, 3600);
    const ids = [];
    await Promise.all([2, 0, 1].map(async (i) => {
      const part = await s.client.uploads.parts.create(upload.id, { data: new File([parts[i]], 'part') });
      assert.deepEqual(pick(part, 'object', 'upload_id'), { object: 'upload.part', upload_id: upload.id });
      ids[i] = part.id;
    }));
    const wrong = await thrown(s.client.uploads.complete(upload.id, { part_ids: ids, md5: '0'.repeat(32) }));
    assert.ok(wrong instanceof s.OpenAI.BadRequestError, wrong);
    const few = await thrown(s.client.uploads.complete(upload.id, { part_ids: ids.slice(1) }));
    assert.ok(few instanceof s.OpenAI.BadRequestError, few);
    const done = await s.client.uploads.complete(upload.id, { part_ids: ids, md5: createHash('md5').update(whole).digest('hex') });
    assert.deepEqual(pick(done, 'id', 'status'), { id: upload.id, status: 'completed' });
    assert.deepEqual(pick(done.file, 'object', 'filename', 'bytes', 'purpose'), { object: 'file', filename: 'joined.txt', bytes: whole.length, purpose: 'user_data' });
    assert.equal(await text(s.client.files.content(done.file.id)), whole);
  }],
  ['a cancelled upload takes nothing more, and is not tried again', async (s) => {
    const upload = await s.through.uploads.create({ bytes: 3, filename: 'x', mime_type: 'text/plain', purpose: 'user_data' });
    assert.equal((await s.through.uploads.cancel(upload.id)).status, 'cancelled');
    s.meddler.seen.length = 0;
    const error = await thrown(s.through.uploads.parts.create(upload.id, { data: new File(['abc'], 'p') }));
    assert.ok(error instanceof s.OpenAI.ConflictError, error);
    assert.equal(s.meddler.seen.length, 1);
    assert.ok(await thrown(s.through.uploads.complete(upload.id, { part_ids: [] })) instanceof s.OpenAI.ConflictError);
  }],

  // ---- errors and retries
  ['errors have the class, code and parameter their callers look at', async (s) => {
    const { BadRequestError, AuthenticationError, PermissionDeniedError } = s.OpenAI;
    const unknown = await thrown(s.client.containers.create({ name: 'x', colour: 'red' }));
    assert.ok(unknown instanceof BadRequestError);
    assert.equal(unknown.message, "400 Unknown parameter: 'colour'.");
    assert.deepEqual(pick(unknown, 'param', 'code', 'type'), { param: 'colour', code: 'unknown_parameter', type: 'invalid_request_error' });
    const missing = await thrown(s.client.containers.create({}));
    assert.deepEqual(pick(missing, 'param', 'code'), { param: 'name', code: 'missing_required_parameter' });
    const empty = await thrown(s.client.containers.files.create(s.made.id, {}));
    assert.ok(empty instanceof BadRequestError);
    const stranger = new s.OpenAI({ apiKey: 'gbx_wrong', baseURL: `${s.url}/v1`, maxRetries: 0 });
    const nobody = await thrown(stranger.containers.list());
    assert.ok(nobody instanceof AuthenticationError);
    assert.equal(nobody.code, 'invalid_api_key');
    // However often: a client that retries what it is told to must not wait and try the same key again.
    const stubborn = new s.OpenAI({ apiKey: 'gbx_wrong', baseURL: `${s.url}/v1` });
    for (let i = 0; i < 12; i++) assert.ok(await thrown(stubborn.containers.list()) instanceof AuthenticationError);
    const weak = new s.OpenAI({ apiKey: s.weak, baseURL: `${s.url}/v1` });
    const denied = await thrown(weak.containers.create({ name: 'x' }));
    assert.ok(denied instanceof PermissionDeniedError);
    assert.equal(denied.code, 'insufficient_permissions');
    assert.ok(await thrown(s.client.get('/nothing/here')) instanceof s.OpenAI.NotFoundError);
  }],
  ['a request is tried again after 429, 500 and a broken connection', async (s) => {
    for (const answer of [{ status: 429, headers: { 'retry-after-ms': '20' } }, { status: 500, headers: { 'retry-after-ms': '20' } }]) {
      s.meddler.seen.length = 0;
      s.meddler.meddle = (req, nth) => (nth < 3 ? answer : null);
      assert.equal((await s.through.containers.retrieve(s.made.id)).id, s.made.id);
      assert.deepEqual(s.meddler.seen.map((r) => r.headers['x-stainless-retry-count']), ['0', '1', '2']);
    }
    s.meddler.seen.length = 0;
    s.meddler.meddle = (req, nth) => { if (nth === 1) req.socket.destroy(); return null; };
    assert.equal((await s.through.containers.retrieve(s.made.id)).id, s.made.id);
    assert.ok(s.meddler.seen.length >= 2);
    s.meddler.meddle = () => null;
  }],
  ['what cannot be helped by trying again is asked once', async (s) => {
    s.meddler.seen.length = 0;
    assert.ok(await thrown(s.through.containers.retrieve('cntr_none')) instanceof s.OpenAI.NotFoundError);
    assert.ok(await thrown(s.through.containers.create({ name: 1 })) instanceof s.OpenAI.BadRequestError);
    assert.equal(s.meddler.seen.length, 2);
  }],
  ['a part above 64 MiB is refused, and the client sees why', async (s) => {
    const part = 64 * 1024 * 1024;
    const upload = await s.client.uploads.create({ bytes: part, filename: 'big.bin', mime_type: 'application/octet-stream', purpose: 'user_data' });
    for (const [bytes, times] of [[part + 1, 1], [part + 9_000_000, 5]])
      for (let i = 0; i < times; i++) {
        const error = await thrown(s.client.uploads.parts.create(upload.id, { data: new File([Buffer.alloc(bytes)], 'p') }));
        assert.equal(error.status, 413, error);
        assert.match(error.message, /larger than 67108864 bytes/);
      }
    const { id } = await s.client.uploads.parts.create(upload.id, { data: new File([Buffer.alloc(part)], 'p') });
    assert.equal((await s.client.uploads.complete(upload.id, { part_ids: [id] })).file.bytes, part);
  }],
  ['a stream that is refused half-way tells why', async (s) => {
    function* pieces() { for (let i = 0; i < 200; i++) yield Buffer.alloc(1 << 20); }
    for (let i = 0; i < 5; i++) {
      const error = await thrown(s.client.containers.files.create('cntr_none', { file: await s.toFile(Readable.from(pieces()), 'x') }));
      assert.ok(error instanceof s.OpenAI.NotFoundError, error);
      assert.equal(error.message, "404 Container with id 'cntr_none' not found.");
    }
  }],

  // ---- other surfaces
  ['the Azure client works with its dated surface and its header', async (s) => {
    const azure = new s.AzureOpenAI({ endpoint: s.url, apiKey: s.key, apiVersion: '2025-04-01-preview' });
    const made = await azure.containers.create({ name: 'azure' });
    const file = await azure.containers.files.create(made.id, { file: new File(['z'], 'z.txt') });
    assert.equal(await text(azure.containers.files.content.retrieve(file.id, { container_id: made.id })), 'z');
    assert.deepEqual((await all(azure.containers.list({ name: 'azure', limit: 1 }))).map((c) => c.id), [made.id]);
    await azure.containers.delete(made.id);
    const token = new s.AzureOpenAI({ endpoint: s.url, azureADTokenProvider: async () => s.key, apiVersion: '2026-01-01' });
    assert.ok(Array.isArray((await token.files.list()).data));
  }],
  ['so do the Azure and Foundry base addresses of the ordinary client', async (s) => {
    for (const base of ['/openai/v1', '/openai/v1/', '/api/projects/my-project/openai/v1', '/api/projects/p/openai', '/api/projects/p']) {
      const client = new s.OpenAI({ apiKey: s.key, baseURL: s.url + base, defaultQuery: { 'api-version': 'v1' } });
      assert.equal((await client.containers.retrieve(s.made.id)).id, s.made.id, base);
      assert.ok((await client.containers.files.list(s.made.id)).data.length > 0, base);
    }
  }],
];
