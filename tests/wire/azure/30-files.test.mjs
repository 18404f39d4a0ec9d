// SPDX-License-Identifier: Apache-2.0
// The Azure door: files listed, looked at, fetched and deleted, in the three
// shapes, with folders, by every spelling of a path.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { Pool, TIME, V2024_02, V2024_08, V2024_10, V2025_02, V2025_10, VERSIONS, refused } from '../../lib/azure.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { request, stop } from '../../lib/wire.mjs';

let server;
let p;

before(async () => { server = await Glovebox.start({ config: { pools: [pool({ ready: 2 })] } }); });
after(() => stop(server));
beforeEach(() => { p = new Pool(server); });

const ok = (answer, status = 200) => {
  assert.equal(answer.status, status, answer.text);
  return answer.body;
};
const write = async (files) => {
  const code = Object.entries(files).map(([path, text]) =>
    `at = pathlib.Path(${JSON.stringify(`/mnt/data/${path}`)}); at.parent.mkdir(parents=True, exist_ok=True); at.write_text(${JSON.stringify(text)})`).join('\n');
  assert.equal(ok(await p.run(`import pathlib\n${code}`)).status, 'Succeeded');
};

describe('shapes', () => {
  test('family A: $values', async () => {
    const old = p.at(null);
    assert.deepEqual(ok(await old.get('python/files')).$values, []);
    const made = ok(await old.upload('a.txt', '1234567', { path: 'python/uploadFile' })).$values;
    assert.deepEqual(made.map((f) => [f.filename, f.size, Object.keys(f).join()]), [['a.txt', 7, 'filename,size,last_modified_time']]);
    assert.match(made[0].last_modified_time, TIME);
    assert.deepEqual(ok(await old.get('python/files')).$values.map((f) => f.filename), ['a.txt']);
    const got = await old.get('python/downloadFile', { filename: 'a.txt' });
    assert.deepEqual([got.status, got.text, got.headers['content-type']], [200, '1234567', 'application/octet-stream']);
    refused(await old.get('python/downloadFile', { filename: 'no.txt' }), 404, 'NotFound');
    refused(await old.get('python/downloadFile'), 400, 'SessionRequestValidationFailed', /filename/);
  });

  test('family B: value, properties', async () => {
    for (const version of [V2024_02, V2024_08]) {
      const b = p.other().at(version);
      assert.deepEqual(ok(await b.get('files')), { $id: '1', value: [] });
      const made = ok(await b.upload('a.txt', '1234567'));
      assert.deepEqual([made.$id, made.value.length, made.value[0].$id, made.value[0].properties.$id], ['1', 1, '2', '3']);
      const { filename, size, lastModifiedTime } = made.value[0].properties;
      assert.deepEqual([filename, size], ['a.txt', 7]);
      assert.match(lastModifiedTime, TIME);
      const listed = ok(await b.get('files'));
      assert.deepEqual(listed.value.map((f) => f.properties.filename), ['a.txt']);
      const one = ok(await b.get('files/a.txt'));
      assert.deepEqual([one.$id, one.properties.$id, one.properties.filename, one.properties.size], ['1', '2', 'a.txt', 7]);
      const got = await b.get('files/content/a.txt');
      assert.deepEqual([got.text, got.headers['content-type'], got.headers['content-length']], ['1234567', 'application/octet-stream', '7']);
      const gone = await b.delete('files/a.txt');
      assert.deepEqual([gone.status, gone.text], [204, '']);
      refused(await b.get('files/a.txt'), 404, 'NotFound');
      refused(await b.get('files/content/a.txt'), 404, 'NotFound');
    }
  });

  test('family B lists what is in folders by its path', async () => {
    const b = p.at(V2024_02);
    await write({ 'top.txt': 'x', 'sub/deep/in.txt': 'y' });
    assert.deepEqual(ok(await b.get('files')).value.map((f) => f.properties.filename), ['sub/deep/in.txt', 'top.txt']);
    assert.equal((await b.get('files/content/sub/deep/in.txt')).text, 'y');
  });

  test('family C: flat, one object for an upload, all fields always', async () => {
    for (const version of VERSIONS.C) {
      const c = p.other().at(version);
      assert.deepEqual(ok(await c.get('files')), { value: [], nextLink: null });
      const made = ok(await c.upload('a.csv', 'a,b\n'));
      const { lastModifiedAt, ...rest } = made;
      assert.deepEqual(rest, { name: 'a.csv', type: 'file', contentType: 'text/csv; charset=utf-8', sizeInBytes: 4, ...(version === V2025_10 ? { directory: '.' } : {}) });
      assert.match(lastModifiedAt, TIME);
      const one = ok(await c.get('files/a.csv'));
      assert.deepEqual(Object.keys(one), Object.keys(made));
      assert.deepEqual(ok(await c.get('files')).value.map((f) => [f.name, f.sizeInBytes]), [['a.csv', 4]]);
      const got = await c.get('files/a.csv/content');
      assert.deepEqual([got.text, got.headers['content-type'], got.headers['content-length']], ['a,b\n', 'application/octet-stream', '4']);
      assert.equal((await c.delete('files/a.csv')).status, 204);
      refused(await c.get('files/a.csv/content'), 404, 'NotFound');
      refused(await c.get('files/a.csv'), 404, 'NotFound');
      refused(await c.delete('files/a.csv'), 404, 'NotFound');
    }
  });

  test('content types by name, text with its charset', async () => {
    await write({ 'a.txt': '', 'b.md': '', 'c.png': '', 'd.unknown': '', 'e.json': '', 'f.py': '', noending: '' });
    const types = Object.fromEntries(ok(await p.get('files')).value.map((f) => [f.name, f.contentType]));
    assert.deepEqual(types, { 'a.txt': 'text/plain; charset=utf-8', 'b.md': 'text/markdown; charset=utf-8', 'c.png': 'image/png',
      'd.unknown': 'application/octet-stream', 'e.json': 'application/json', 'f.py': 'text/x-python; charset=utf-8', noending: 'application/octet-stream' });
  });

  test('an empty file', async () => {
    ok(await p.upload('empty', ''));
    const got = await p.get('files/empty/content');
    assert.deepEqual([got.status, got.bytes.length, got.headers['content-type']], [200, 0, 'application/octet-stream']);
    assert.equal(ok(await p.get('files/empty')).sizeInBytes, 0);
  });
});

describe('folders', () => {
  beforeEach(() => write({ 'b.txt': '1', 'a.txt': '2', 'a-b.txt': '3', 'sub/x.txt': '4', 'sub/y/z.txt': '5', 'sub/y/w.txt': '6', 'sub-2/q.txt': '7', a: '8' }));

  test('one level in order of name, folders with 4096 bytes', async () => {
    const { value } = ok(await p.get('files'));
    assert.deepEqual(value.map((f) => [f.name, f.type]), [['a', 'file'], ['a-b.txt', 'file'], ['a.txt', 'file'], ['b.txt', 'file'], ['sub', 'directory'], ['sub-2', 'directory']]);
    const sub = value.find((f) => f.name === 'sub');
    assert.deepEqual([sub.sizeInBytes, sub.contentType, sub.directory], [4096, 'application/octet-stream', '.']);
    assert.match(sub.lastModifiedAt, TIME);
    for (const path of ['', '/', '/mnt/data', '/mnt/data/', '.']) assert.deepEqual(ok(await p.get('files', { path })).value, value, path);
  });

  test('below a path, however it is spelled', async () => {
    for (const path of ['sub', '/sub', 'sub/', '/mnt/data/sub', 'sub//', './sub'])
      assert.deepEqual(ok(await p.get('files', { path })).value.map((f) => [f.name, f.type, f.directory]), [['x.txt', 'file', '.'], ['y', 'directory', '.']], path);
    assert.deepEqual(await p.names({ path: 'sub/y' }), ['w.txt', 'z.txt']);
    assert.deepEqual(await p.names({ path: 'nowhere' }), []);
    assert.deepEqual(await p.names({ path: 'a.txt' }), []);
    assert.deepEqual(ok(await p.at(V2024_10).get('files', { path: 'sub' })).value.map((f) => f.name), ['x.txt', 'y']);
  });

  test('recursive: all, with where they are', async () => {
    const { value } = ok(await p.get('files', { recursive: 'true' }));
    assert.deepEqual(value.map((f) => `${f.directory}/${f.name}:${f.type}`), ['./a:file', './a-b.txt:file', './a.txt:file', './b.txt:file', './sub:directory', './sub-2:directory',
      'sub-2/q.txt:file', 'sub/x.txt:file', 'sub/y:directory', 'sub/y/w.txt:file', 'sub/y/z.txt:file']);
    const below = ok(await p.get('files', { recursive: 'TRUE', path: 'sub' })).value;
    assert.deepEqual(below.map((f) => `${f.directory}/${f.name}`), ['./x.txt', './y', 'y/w.txt', 'y/z.txt']);
    assert.deepEqual(await p.names({ recursive: 'false' }), ['a', 'a-b.txt', 'a.txt', 'b.txt', 'sub', 'sub-2']);
    refused(await p.get('files', { recursive: 'maybe' }), 400, 'SessionRequestValidationFailed');
  });

  test('a folder can be looked at and deleted with all that is in it', async () => {
    const sub = ok(await p.get('files/sub'));
    assert.deepEqual([sub.name, sub.type, sub.sizeInBytes], ['sub', 'directory', 4096]);
    refused(await p.get('files/sub/content'), 404, 'NotFound');
    assert.equal((await p.delete('files/sub')).status, 204);
    assert.deepEqual(await p.names(), ['a', 'a-b.txt', 'a.txt', 'b.txt', 'sub-2']);
    assert.equal(ok(await p.run("import os; os.path.exists('/mnt/data/sub')")).result.executionResult, 'False');
    refused(await p.delete('files/sub'), 404, 'NotFound');
    assert.equal((await p.delete('files/q.txt', { path: 'sub-2' })).status, 204);
    ok(await p.run("import os; os.makedirs('/mnt/data/hollow')"));
    assert.equal((await p.delete('files/hollow')).status, 204, 'an empty one');
    refused(await p.delete('files/%2E'), 400, 'SessionRequestValidationFailed', /root/);
  });

  test('with path: metadata, content, delete', async () => {
    assert.equal(ok(await p.get('files/z.txt', { path: 'sub/y' })).sizeInBytes, 1);
    assert.equal((await p.get('files/z.txt/content', { path: '/mnt/data/sub/y' })).text, '5');
    assert.equal((await p.delete('files/z.txt', { path: 'sub/y' })).status, 204);
    refused(await p.get('files/z.txt', { path: 'sub/y' }), 404, 'NotFound');
  });

  test('more files than one page of the core', async () => {
    ok(await p.run("import os\nos.makedirs('/mnt/data/many/in')\nfor i in range(1200): open(f'/mnt/data/many/{i:04}', 'w').close()\nfor i in range(1100): open(f'/mnt/data/many/in/{i:04}', 'w').close()\nopen('/mnt/data/z', 'w').close()"));
    const many = await p.names({ path: 'many' });
    assert.deepEqual([many.length, many[0], many[1199], many[1200]], [1201, '0000', '1199', 'in']);
    assert.deepEqual(await p.names(), ['a', 'a-b.txt', 'a.txt', 'b.txt', 'many', 'sub', 'sub-2', 'z']);
    assert.equal(ok(await p.at(V2024_02).get('files')).value.length, 8 + 2300 + 1);
  });
});

describe('names in URLs', () => {
  test('slashes, escaped ones, nothing escaped: all lead to the file', async () => {
    await write({ 'sub/a b.txt': 'x', 'ü€.txt': 'y', "it's (1)#%.txt": 'z' });
    const raw = (path, version) => request(server, 'GET', `/pools/default/${path}?api-version=${version}&identifier=${p.identifier}`);
    for (const path of ['files/content/sub/a%20b.txt', 'files/content/sub%2Fa%20b.txt', 'files/content//mnt/data/sub/a%20b.txt', 'files/content/%2Fmnt%2Fdata%2Fsub%2Fa%20b.txt'])
      assert.equal((await raw(path, V2024_02)).text, 'x', path);
    for (const path of ['files/sub/a%20b.txt/content', 'files/sub%2Fa%20b.txt/content', 'files/sub%2Fa%20b.txt/content/'])
      assert.equal((await raw(path, V2024_10)).text, 'x', path);
    assert.equal((await raw(`files/${encodeURIComponent('ü€.txt')}/content`, V2025_02)).text, 'y');
    assert.equal((await raw(`files/${encodeURIComponent("it's (1)#%.txt")}/content`, V2025_10)).text, 'z');
    assert.equal((await raw("files/it's%20(1)%23%25.txt/content", V2025_10)).text, 'z');
  });

  test('a file called content is told apart by the version', async () => {
    await write({ content: 'it', 'content.txt': 'other' });
    assert.equal((await p.at(V2024_02).get('files/content/content')).text, 'it');
    assert.equal((await p.get('files/content/content')).text, 'it');
    assert.equal(ok(await p.at(V2024_02).get('files/content')).properties.filename, 'content');
    assert.equal(ok(await p.get('files/content')).name, 'content');
    assert.equal((await p.delete('files/content')).status, 204);
    assert.deepEqual(await p.names(), ['content.txt']);
    assert.equal((await p.get('files/content/content.txt')).text, 'other', 'the other family\'s place');
    assert.equal((await p.at(V2024_02).get('files/content.txt/content')).text, 'other');
    await write({ 'content/in.txt': 'deep' });
    assert.equal(ok(await p.get('files/content/in.txt')).name, 'in.txt', 'a folder of that name');
    assert.equal((await p.get('files/content/in.txt/content')).text, 'deep');
  });

  test('F5 nothing leads out of the data root', async () => {
    for (const path of ['../etc/passwd', '..%2F..%2Fetc%2Fpasswd', 'sub/../../etc/passwd', '%2e%2e/x', 'a%0Ab'])
      for (const [at, version] of [[`files/content/${path}`, V2024_02], [`files/${path}/content`, V2025_10], [`files/${path}`, V2025_10]]) {
        const got = await request(server, 'GET', `/pools/default/${at}?api-version=${version}&identifier=${p.identifier}`);
        assert.ok([400, 404].includes(got.status), `${at} ${got.status}`);
        assert.doesNotMatch(got.text, /root:/);
      }
    refused(await p.get('files/etc/passwd/content'), 404, 'NotFound');
    refused(await p.get('files/%2Fetc%2Fpasswd/content'), 404, 'NotFound');
    refused(await p.get('files', { path: '../..' }), 400, 'SessionRequestValidationFailed');
    refused(await p.get('files', { path: 'x'.repeat(1100) }), 400, 'SessionRequestValidationFailed');
    refused(await p.upload('../../escape.txt', 'x'), 400, 'SessionRequestValidationFailed');
    refused(await p.upload('x.txt', 'x', { query: { path: '..' } }), 400, 'SessionRequestValidationFailed');
    ok(await p.run("import os; os.symlink('/etc/passwd', '/mnt/data/link')"));
    refused(await p.get('files/link/content'), 404, 'NotFound');
    refused(await p.get('files/link'), 404, 'NotFound');
  });
});

test('every file call makes the session if it is not there', async () => {
  for (const [method, path, status] of [['GET', 'files', 200], ['GET', 'files/x', 404], ['DELETE', 'files/x', 404], ['GET', 'files/x/content', 404]]) {
    const q = p.other();
    assert.equal((await q.call(method, path)).status, status);
    assert.equal((await q.get('session')).body.identifier, q.identifier);
  }
});

test('what is uploaded is in /mnt/data, what code writes is listed at once', async () => {
  ok(await p.upload('in.bin', Buffer.from([0, 255, 10, 13])));
  assert.equal(ok(await p.run("open('/mnt/data/in.bin', 'rb').read().hex()")).result.executionResult, '00ff0a0d');
  ok(await p.run("open('/mnt/data/out.txt', 'w').write('made')"));
  assert.equal((await p.get('files/out.txt/content')).text, 'made');
  assert.deepEqual(await p.names(), ['in.bin', 'out.txt']);
});
