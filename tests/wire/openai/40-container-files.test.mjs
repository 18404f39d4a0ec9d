// SPDX-License-Identifier: Apache-2.0
// /containers/{id}/files by hand: forms of every client, names, content, what
// code makes, expired containers, the hosted service's behaviour where a
// tenant asks for it, and containers that keep nothing.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { accepted, Door, expired, form, ID, refused } from '../../lib/openai.mjs';
import { stop } from '../../lib/wire.mjs';

const MOUNT = '/mnt/data/';

describe('openai, container files', () => {
  let g, door, box;
  const files = (id = box) => `/containers/${id}/files`;

  before(async () => {
    g = await Glovebox.start({ config: { final_expiry_tenants: 'hosted', pools: [pool({ cooldown_s: 4 })] } });
    door = new Door(g);
    box = (await door.container()).id;
  });
  after(() => stop(g));

  test('the object has the seven members of the schema and the durable id', async () => {
    const made = await door.put(box, 'hello', 'seven.txt');
    assert.deepEqual(Object.keys(made).sort(), ['bytes', 'container_id', 'created_at', 'file_id', 'id', 'object', 'path', 'source']);
    assert.match(made.id, ID.listed);
    assert.match(made.file_id, ID.file);
    assert.deepEqual([made.object, made.container_id, made.bytes, made.path, made.source], ['container.file', box, 5, `${MOUNT}seven.txt`, 'user']);
    assert.deepEqual(accepted(await door.get(`${files()}/${made.id}`)), made);
    // Every spelling of the id is good.
    for (const id of [made.file_id, made.id.replace('cfile_', 'file_')]) assert.deepEqual(accepted(await door.get(`${files()}/${id}`)), made);
  });

  test('each framing and each boundary of the clients is understood', async () => {
    const parts = [['file', Buffer.alloc(200_000, 'x'), { filename: 'f.bin', type: 'application/octet-stream' }]];
    for (const boundary of ['----formdata-undici-012345678901', '0123456789abcdef0123456789abcdef', 'openai-a1b2c3', 'x'.repeat(70)]) {
      const { body, headers } = form(parts, boundary);
      assert.equal(accepted(await door.call('POST', files(), { body, headers })).bytes, 200_000);
      const { hostname, port } = new URL(g.url);
      const chunked = await new Promise((done, fail) => {
        const req = http.request({ hostname, port, method: 'POST', path: `/v1${files()}`, headers: { ...headers, authorization: `Bearer ${g.key}` } }, (res) => {
          let text = '';
          res.on('data', (part) => { text += part; });
          res.on('end', () => done(JSON.parse(text)));
        });
        req.on('error', fail);
        for (let at = 0; at < body.length; at += 7777) req.write(body.subarray(at, at + 7777));
        req.end();
      });
      assert.equal(chunked.bytes, 200_000);
    }
  });

  test('an id is attached as JSON, as a form, and bytes win where both are', async () => {
    const kept = await door.file('library', 'lib.txt');
    const path = `${MOUNT}${kept.id}-lib.txt`;
    assert.equal(accepted(await door.post(files(), { file_id: kept.id })).path, path);
    assert.equal(accepted(await door.send(files(), [['file_id', kept.id]])).path, path);
    assert.equal(accepted(await door.post(files(), { file_id: kept.id.replace('file-', 'file-') })).bytes, 7);
    for (const parts of [[['file_id', kept.id], ['file', 'bytes', { filename: 'win1.txt' }]], [['file', 'bytes', { filename: 'win2.txt' }], ['file_id', 'nonsense']]])
      assert.match(accepted(await door.send(files(), parts)).path, /win\d\.txt$/);
    // A container's own file goes to another container by either of its ids.
    const own = await door.put(box, 'moved', 'own.txt');
    const { id: second } = await door.container();
    for (const id of [own.id, own.file_id])
      assert.equal(accepted(await door.post(files(second), { file_id: id })).path, `${MOUNT}${own.file_id}-own.txt`);
  });

  test('a body that names no file, or names it wrongly, is refused', async () => {
    refused(await door.post(files(), {}), 400, { code: 'missing_required_parameter', param: 'file_id' });
    refused(await door.send(files(), []), 400, { code: 'missing_required_parameter', param: 'file' });
    refused(await door.post(files(), { file_id: 1 }), 400, { code: 'invalid_type', param: 'file_id' });
    refused(await door.post(files(), { file_id: 'file-x', path: 'x' }), 400, { code: 'unknown_parameter', param: 'path' });
    refused(await door.post(files(), { file_id: 'file-x' }), 404, { param: 'file_id', message: 'No such File object: file-x' });
    refused(await door.send(files(), [['file_id', 'file-x']]), 404, { param: 'file_id', message: 'No such File object: file-x' });
    refused(await door.send(files(), [['upload', 'x', { filename: 'x' }]]), 400, { code: 'unknown_parameter', param: 'upload' });
    refused(await door.send(files(), [['file', 'x', { filename: 'twice-a' }], ['file', 'y', { filename: 'twice-b' }]]), 400, { code: 'invalid_value', param: 'file' });
    refused(await door.send(files(), [['file_id', 'x'.repeat(5000)]]), 400, { code: 'invalid_value', param: 'file_id' });
    refused(await door.call('POST', files(), { body: 'no form', headers: { 'content-type': 'multipart/form-data; boundary=x' } }), 400);
    refused(await door.call('POST', files(), { body: 'no form', headers: { 'content-type': 'multipart/form-data' } }), 400);
    refused(await door.call('POST', files(), { body: '--x\r\nContent-Disposition: form-data; name="file"; filename="cut"\r\n\r\nhalf', headers: { 'content-type': 'multipart/form-data; boundary=x' } }), 400);
    refused(await door.send(files('cntr_none'), [['file', 'x', { filename: 'x' }]]), 404, { message: "Container with id 'cntr_none' not found." });
    const names = accepted(await door.get(`${files()}?limit=100`)).data.map((f) => f.path);
    assert.ok(!names.some((name) => /twice|cut/.test(name)), 'nothing is left of a refused upload');
  });

  test('F5: of a file name the last part counts, and it is one a file may have', async () => {
    const rows = [
      ['/etc/passwd', 'passwd'], ['..\\..\\boot.ini', 'boot.ini'], ['a/b\\c.txt', 'c.txt'], ['%22quoted%22.txt', '"quoted".txt'],
      ['ünï.txt', 'ünï.txt'], ['folder/', 'upload'], ['...', '...'], [undefined, /upload$/],
    ];
    for (const [filename, name] of rows) {
      const { path } = accepted(await door.send(files(), [['file', 'x', { filename }]]));
      if (name instanceof RegExp) assert.match(path, name);
      else assert.equal(path, MOUNT + name);
    }
    for (const filename of ['..', '.', 'a/..', `${'x'.repeat(256)}`])
      refused(await door.send(files(), [['file', 'x', { filename }]]), 400, { code: 'invalid_value', param: 'file' });
    const bad = form([['file', 'x', { filename: 'PLACE' }]]);
    const at = bad.body.indexOf('PLACE');
    bad.body[at] = 0xff;
    refused(await door.call('POST', files(), bad), 400, { code: 'invalid_value', param: 'file' });
  });

  test('a name too long to be prefixed keeps its ending', async () => {
    const long = `${'ä'.repeat(120)}.parquet`;
    const first = accepted(await door.send(files(), [['file', '1', { filename: long }]]));
    const second = accepted(await door.send(files(), [['file', '2', { filename: long }]]));
    assert.equal(first.path, MOUNT + long);
    assert.match(second.path, /^\/mnt\/data\/[0-9a-f]{32}-ä+\.parquet$/);
    assert.ok(Buffer.byteLength(second.path) <= MOUNT.length + 255);
    const kept = await door.file('3', long);
    assert.match(accepted(await door.post(files(), { file_id: kept.id })).path, new RegExp(`^/mnt/data/${kept.id}-ä+\\.parquet$`));
  });

  test('of one name at once, each is a file of its own; one has the name', async () => {
    for (const live of [false, true]) {
      const { id } = await door.container();
      if (live) await door.python(id, 'import os; open("other", "w").write("1")');
      const made = await Promise.all(Array.from({ length: 8 }, (_, i) => door.put(id, `text ${i}`, 'at-once.txt')));
      assert.equal(new Set(made.map((f) => f.id)).size, 8);
      assert.equal(made.filter((f) => f.path === `${MOUNT}at-once.txt`).length, 1, JSON.stringify(made.map((f) => f.path)));
      assert.equal(new Set(made.map((f) => f.path)).size, 8);
      for (const [i, f] of made.entries()) assert.equal((await door.get(`${files(id)}/${f.id}/content`)).text, `text ${i}`);
      const inside = await door.python(id, 'import glob; print(sorted(open(f).read() for f in glob.glob("*at-once.txt")))');
      assert.equal(inside.stdout.trim(), `[${made.map((_, i) => `'text ${i}'`).join(', ')}]`);
    }
  });

  test('the name of a folder is taken', async () => {
    const { id } = await door.container();
    await door.python(id, 'import os; os.mkdir("sub"); open("sub/x", "w").write("1")');
    assert.match((await door.put(id, 'x', 'sub')).path, /^\/mnt\/data\/[0-9a-f]{32}-sub$/);
    assert.deepEqual(accepted(await door.get(`${files(id)}?order=asc`)).data.map((f) => [f.path.replace(/[0-9a-f]{32}/, 'HEX'), f.source]),
      [[`${MOUNT}sub/x`, 'assistant'], [`${MOUNT}HEX-sub`, 'user']]);
  });

  test('F8: content comes as inert bytes, with both names', async () => {
    const made = await door.put(box, '<script>alert(1)</script>', 'päge 1.html');
    const answer = await door.get(`${files()}/${made.id}/content`, { headers: { accept: 'application/binary' } });
    assert.equal(answer.status, 200);
    assert.equal(answer.text, '<script>alert(1)</script>');
    assert.equal(answer.headers['content-type'], 'application/octet-stream');
    assert.equal(answer.headers['content-length'], '25');
    assert.match(answer.headers['content-disposition'], /^attachment; filename="[\w. -]+\.html"; filename\*=UTF-8''p%C3%A4ge%201\.html$/);
    assert.equal(answer.headers['x-content-type-options'], 'nosniff');
    assert.equal(answer.headers['openai-version'], '2020-10-01');
    const part = await door.get(`${files()}/${made.id}/content`, { headers: { range: 'bytes=1-6' } });
    assert.deepEqual([part.status, part.text], [206, 'script']);
    refused(await door.get(`${files()}/${made.id}/content`, { headers: { range: 'bytes=100-' } }), 416);
    const empty = await door.put(box, '', 'empty');
    assert.equal((await door.get(`${files()}/${empty.id}/content`)).text, '');
    assert.equal((await door.call('HEAD', `${files()}/${made.id}/content`)).headers['content-length'], '25');
  });

  test('unknown files are named together with their container', async () => {
    const { id: other } = await door.container();
    const { id } = await door.put(other, 'x');
    for (const file of ['cfile_x', `cfile_${'0'.repeat(32)}`, id])
      for (const [method, path] of [['GET', `${files()}/${file}`], ['GET', `${files()}/${file}/content`], ['DELETE', `${files()}/${file}`]])
        refused(await door.call(method, path), 404, { message: `File ${file} not found on container ${box}.` });
    refused(await door.get(`${files('cntr_none')}/${id}`), 404, { message: "Container with id 'cntr_none' not found." });
  });

  test('a deleted file is gone from the list and from the container', async () => {
    const { id } = await door.container();
    const made = await door.put(id, 'x', 'gone.txt');
    await door.python(id, 'assert open("gone.txt").read() == "x"');
    assert.deepEqual(accepted(await door.delete(`${files(id)}/${made.id}`)), { id: made.id, object: 'container.file.deleted', deleted: true });
    assert.deepEqual(accepted(await door.get(files(id))).data, []);
    assert.equal((await door.python(id, 'import os; print(os.listdir("."))')).stdout, '[]\n');
    refused(await door.delete(`${files(id)}/${made.id}`), 404);
  });

  test('a file changed by code keeps its id; a new one is the assistant\'s', async () => {
    const { id } = await door.container();
    const made = await door.put(id, 'one', 'data.csv');
    await door.python(id, 'open("data.csv", "a").write(" two"); open("plot.png", "wb").write(b"png")');
    const [plot, data] = accepted(await door.get(files(id))).data;
    assert.deepEqual([data.id, data.bytes, data.source, data.created_at], [made.id, 7, 'user', made.created_at]);
    assert.deepEqual([plot.path, plot.source], [`${MOUNT}plot.png`, 'assistant']);
    assert.equal((await door.get(`${files(id)}/${data.id}/content`)).text, 'one two');
  });

  test('lists: unknown cursors end it, limits are moved into their range', async () => {
    const { id } = await door.container();
    const made = [];
    for (const name of ['a', 'b', 'c']) made.push((await door.put(id, name, name)).id);
    const ids = async (query) => accepted(await door.get(`${files(id)}?${query}`)).data.map((f) => f.id);
    assert.deepEqual(await ids(''), [...made].reverse());
    assert.deepEqual(await ids('limit=0&order=asc'), [made[0]]);
    assert.deepEqual(await ids('limit=9999'), [...made].reverse());
    assert.deepEqual(await ids(`after=${made[0]}&order=asc`), made.slice(1));
    for (const after of ['string', `cfile_${'0'.repeat(32)}`]) assert.deepEqual(await ids(`after=${after}`), []);
    refused(await door.get(`${files(id)}?order=x`), 400, { code: 'invalid_value', param: 'order' });
  });

  test('an expired container lists and serves its files, and takes more', async () => {
    const { id } = await g.session();
    await door.python(id, 'open("made.txt", "w").write("still here"); x = 1');
    await expired(door, id);
    assert.equal(accepted(await door.get(`/containers/${id}`)).status, 'expired');
    const [made] = accepted(await door.get(files(id))).data;
    assert.equal(made.path, `${MOUNT}made.txt`);
    assert.deepEqual(accepted(await door.get(`${files(id)}/${made.id}`)), made);
    assert.equal((await door.get(`${files(id)}/${made.id}/content`)).text, 'still here');
    assert.equal(accepted(await door.get(`/containers/${id}`)).status, 'expired', 'looking wakes nothing');
    assert.equal((await door.put(id, 'more', 'more.txt')).path, `${MOUNT}more.txt`);
    assert.equal((await door.python(id, 'print(open("more.txt").read())')).stdout, 'more\n');
  });

  test('a tenant that wants the hosted behaviour gets it', async () => {
    const hosted = new Door(g, await g.tenant('hosted'));
    const made = await hosted.server.call('POST', '/api/sessions', {}, { key: hosted.key });
    const { id } = made.body;
    const named = accepted(await hosted.send(files(id), [['file', 'x', { filename: 'mine.txt' }]]));
    assert.match(named.path, /^\/mnt\/data\/[0-9a-f]{32}-mine\.txt$/);
    await hosted.python(id, 'open("out.txt", "w").write("1")');
    await expired(hosted, id);
    assert.equal(accepted(await hosted.get(`/containers/${id}`)).status, 'expired');
    const list = accepted(await hosted.get(files(id))).data;
    assert.equal(list.length, 2);
    accepted(await hosted.get(`${files(id)}/${list[0].id}`));
    refused(await hosted.get(`${files(id)}/${list[0].id}/content`), 404, { message: `File ${list[0].id} not found on container ${id}.` });
    refused(await hosted.send(files(id), [['file', 'x', { filename: 'x' }]]), 400, { message: 'Container is expired.' });
    refused(await hosted.post(files(id), { file_id: named.file_id }), 400, { message: 'Container is expired.' });
    refused(await hosted.delete(`${files(id)}/${list[0].id}`), 400, { message: 'Container is expired.' });
    const run = await g.call('POST', `/api/sessions/${id}/executions`, { language: 'python', code: '1' }, { key: hosted.key });
    assert.equal(run.status, 410);
    accepted(await hosted.delete(`/containers/${id}`));
  });

  test('a container that keeps nothing still has files while it lives', async () => {
    const e = await Glovebox.start({ config: { pools: [pool({ persistence: 'ephemeral' })] } });
    try {
      const at = new Door(e);
      const { id } = await at.container();
      assert.deepEqual(accepted(await at.get(files(id))).data, []);
      const made = await at.put(id, 'hello', 'in.txt');
      assert.match(made.id, ID.listed);
      assert.equal(made.file_id, undefined);
      assert.match((await at.put(id, 'again', 'in.txt')).path, /[0-9a-f]{32}-in\.txt$/);
      await at.python(id, 'open("out.txt", "w").write(open("in.txt").read().upper())');
      const list = accepted(await at.get(`${files(id)}?order=asc`)).data;
      assert.equal(list.length, 3);
      assert.equal(list.filter((f) => f.id === made.id).length, 1);
      const pages = [];
      for (let after = ''; ;) {
        const page = accepted(await at.get(`${files(id)}?order=asc&limit=2&after=${after}`));
        pages.push(...page.data);
        if (!page.has_more) break;
        after = page.last_id;
      }
      assert.deepEqual(pages, list);
      const out = list.find((f) => f.path === `${MOUNT}out.txt`);
      assert.equal((await at.get(`${files(id)}/${out.id}/content`)).text, 'HELLO');
      assert.deepEqual(accepted(await at.get(`${files(id)}/${out.id}`)), out);
      accepted(await at.delete(`${files(id)}/${out.id}`));
      refused(await at.get(`${files(id)}/${out.id}`), 404, { message: `File ${out.id} not found on container ${id}.` });
      const kept = await at.file('library', 'lib.txt');
      assert.equal(accepted(await at.post(files(id), { file_id: kept.id })).path, `${MOUNT}${kept.id}-lib.txt`);
      accepted(await at.delete(`/containers/${id}`));
    } finally {
      await stop(e);
    }
  });
});
