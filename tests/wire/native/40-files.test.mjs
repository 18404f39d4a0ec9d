// SPDX-License-Identifier: Apache-2.0
// Files through the API: put, fetch, list, delete; and everything a session
// can do to its own tree to make that go wrong.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import http from 'node:http';
import net from 'node:net';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { changed, descriptors, refused, request, resident, sanitized, stop } from '../../lib/wire.mjs';

const MiB = 1024 * 1024;
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');
let server;
let s;

before(async () => {
  server = await Glovebox.start({ config: { upload_bytes: '40MiB', body_timeout_s: 2, pools: [pool({ ready: 2 })] } });
  s = await server.session();
});
after(() => stop(server));

const at = (path) => `${s.path}/files/${path}`;
const get = (path, headers) => request(server, 'GET', at(path), { headers });
const put = (path, body, headers) => request(server, 'PUT', at(path), { body, headers });
const del = (path) => request(server, 'DELETE', at(path));
const list = async (query = '') => (await request(server, 'GET', `${s.path}/files${query}`)).body;
const clear = () => s.shell('cd /mnt/data && find . -mindepth 1 -delete');

describe('plain use', () => {
  test('put, fetch, list and delete', async () => {
    const bytes = Buffer.from([0, 1, 2, 255, 10, 13]);
    const made = await put('a/b/data.bin', bytes);
    assert.equal(made.status, 201);
    assert.deepEqual(Object.keys(made.body), ['path', 'size', 'sha256', 'file_id', 'version', 'url']);
    assert.deepEqual([made.body.path, made.body.size, made.body.sha256], ['a/b/data.bin', 6, sha256(bytes)]);
    assert.deepEqual((await request(server, 'GET', made.body.url)).bytes, bytes, 'it is in the workspace');
    const got = await get('a/b/data.bin');
    assert.equal(got.status, 200);
    assert.deepEqual(got.bytes, bytes);
    assert.equal(got.headers['content-length'], '6');
    assert.equal((await put('empty', '')).body.size, 0);
    assert.equal((await get('empty')).bytes.length, 0);
    const all = await list();
    assert.deepEqual(Object.keys(all), ['data', 'has_more']);
    assert.deepEqual(all.data.map((f) => [f.path, f.size]), [['a/b/data.bin', 6], ['empty', 0]]);
    assert.ok(Math.abs(Date.parse(all.data[0].modified_at) - Date.now()) < 60_000);
    assert.equal((await s.python('open("a/b/data.bin", "rb").read() == bytes([0, 1, 2, 255, 10, 13])')).result['text/plain'], 'True');
    assert.equal((await s.python('open("a/b/data.bin", "ab").write(b"!")')).outcome, 'ok', 'the session owns it');
    assert.equal((await del('a/b/data.bin')).status, 204);
    refused(await get('a/b/data.bin'), 404, 'not_found');
    refused(await del('a/b/data.bin'), 404, 'not_found');
    refused(await get('never'), 404, 'not_found');
    assert.equal((await del('a/b')).status, 204, 'an empty folder goes too');
    await put('a/c', 'x');
    refused(await del('a'), 409, 'conflict', /not empty/);
    await clear();
  });

  test('putting replaces, whole', async () => {
    await put('f', 'a long first version');
    await s.python('old = open("f"); import os; before = os.stat("f").st_ino');
    assert.equal((await put('f', 'short')).body.size, 5);
    assert.equal((await get('f')).text, 'short');
    assert.equal((await s.python('old.read(), before != os.stat("f").st_ino')).result['text/plain'], "('a long first version', True)");
    await s.python('os.mkdir("dir"); old.close()');
    refused(await put('dir', 'x'), 409, 'conflict', /folder/);
    refused(await put('f/below', 'x'), 409, 'conflict', /folder/);
    await clear();
  });

  test('chunked bodies need no length', async () => {
    const { port } = new URL(server.url);
    const status = await new Promise((done) => {
      const req = http.request({ port, method: 'PUT', path: at('chunked'), headers: { authorization: `Bearer ${server.key}` } }, (r) => { r.resume(); done(r.statusCode); });
      req.write('one ');
      setTimeout(() => req.end('two'), 50);
    });
    assert.equal(status, 201);
    assert.equal((await get('chunked')).text, 'one two');
    await clear();
  });

  test('an execution says which files it created, modified and deleted', async () => {
    await put('uploaded', '1');
    const e = await s.python('import os\nos.makedirs("d/e"); open("d/e/new", "w").write("x"); open("uploaded", "a").write("2"); open("tmp", "w"); os.remove("tmp")');
    assert.deepEqual(changed(e), { created: ['d/e/new'], modified: ['uploaded'] });
    const next = await s.shell('mv d/e/new moved; rm uploaded; touch ü.txt');
    assert.deepEqual(changed(next), { created: ['ü.txt'], deleted: ['uploaded'], renamed: ['moved'] });
    assert.equal(next.files.renamed[0].from, 'd/e/new');
    await put('moved', 'by the client');
    assert.deepEqual(changed(await s.python('1')), {}, 'the client\'s own changes are not its');
    const same = await s.python('t = os.stat("moved"); open("moved", "w").write("of the same "); os.utime("moved", ns=(t.st_atime_ns, t.st_mtime_ns))');
    assert.deepEqual(changed(same), { modified: ['moved'] });
    const many = await s.python('for i in range(1100): open(f"n{i:04}", "w")');
    assert.equal(many.files.truncated, true);
    assert.equal(many.files.created.length, 1000);
    await clear();
  });

  test('names of every script, spaces and signs', async () => {
    for (const name of ['mit Leerzeichen.txt', 'ünïcödé', '数据.csv', '😀', 'a+b&c=d;e,f', '100%', 'q?x#y', "quote'\"", 'back\\slash', '.hidden', '...', 'a..b', '-rf', '~', '$HOME', '*', '[x]', 'a:b|c<d>e']) {
      const made = await put(encodeURIComponent(name), name);
      assert.equal(made.status, 201, `${name} ${made.text}`);
      assert.equal(made.body.path, name);
      const got = await get(encodeURIComponent(name));
      assert.equal(got.text, name);
      assert.equal((await s.python(`open(${JSON.stringify(name)}, encoding="utf-8").read() == ${JSON.stringify(name)}`)).result['text/plain'], 'True', name);
    }
    assert.equal((await list()).data.length, 18);
    await clear();
  });
});

describe('downloads', () => {
  const text = '0123456789';

  before(() => put('t.txt', text));
  after(clear);

  test('one range, as asked', async () => {
    for (const [range, want, shown] of [['bytes=0-0', '0', '0-0'], ['bytes=0-3', '0123', '0-3'], ['bytes=7-', '789', '7-9'], ['bytes=-2', '89', '8-9'],
      ['bytes=-99', text, '0-9'], ['bytes=9-9', '9', '9-9'], ['bytes=5-500', '56789', '5-9']]) {
      const got = await get('t.txt', { range });
      assert.equal(got.status, 206, range);
      assert.equal(got.text, want, range);
      assert.equal(got.headers['content-range'], `bytes ${shown}/10`);
      assert.equal(got.headers['content-length'], String(want.length));
    }
    for (const range of ['bytes=10-', 'bytes=99-100', 'bytes=-0']) {
      const got = await get('t.txt', { range });
      refused(got, 416, 'range_not_satisfiable');
      assert.equal(got.headers['content-range'], 'bytes */10');
    }
    // What we do not do is as if it had not been asked, which is allowed.
    for (const range of ['bytes=0-1,3-4', 'bytes=', 'bytes=a-b', 'bytes=3-1', 'lines=1-2', 'bytes=1', 'bytes=--1', 'bytes=99999999999999999999-']) {
      const got = await get('t.txt', { range });
      assert.ok(got.status === 200 && got.text === text || got.status === 416, `${range}: ${got.status}`);
    }
    assert.equal((await get('t.txt')).headers['accept-ranges'], 'bytes');
  });

  test('a tag that changes with the file', async () => {
    const first = await get('t.txt');
    const { etag } = first.headers;
    assert.match(etag, /^"[^"]+"$/);
    for (const header of [etag, `"other", ${etag}`, '*', `W/${etag}`]) {
      const got = await get('t.txt', { 'if-none-match': header });
      assert.equal(got.status, 304, header);
      assert.equal(got.bytes.length, 0);
      assert.equal(got.headers.etag, etag);
    }
    assert.equal((await get('t.txt', { 'if-none-match': '"other"' })).status, 200);
    assert.equal((await get('t.txt', { range: 'bytes=0-0', 'if-range': etag })).status, 206);
    assert.equal((await get('t.txt', { range: 'bytes=0-0', 'if-range': '"other"' })).status, 200);
    await put('t.txt', text);
    assert.notEqual((await get('t.txt')).headers.etag, etag);
    assert.equal((await get('t.txt', { 'if-none-match': etag })).status, 200);
  });

  test('HEAD has the headers and no body', async () => {
    const head = await request(server, 'HEAD', at('t.txt'));
    const got = await get('t.txt');
    assert.equal(head.status, 200);
    assert.equal(head.bytes.length, 0);
    for (const name of ['content-length', 'etag', 'content-type', 'content-disposition', 'accept-ranges']) assert.equal(head.headers[name], got.headers[name], name);
    assert.equal((await request(server, 'HEAD', at('none'))).status, 404);
    assert.equal((await request(server, 'HEAD', at('t.txt'), { headers: { range: 'bytes=0-1' } })).status, 206);
  });

  test('F8 a downloaded file is inert in a browser', async () => {
    const page = '<!doctype html><script>alert(1)</script>';
    for (const name of ['x.html', 'x.svg', 'x.xhtml', 'x.js', 'x.xml', 'x.htm', 'x', 'x.png', 'x.txt', 'x.pdf', 'x.mjs', 'x.swf', 'x.json', 'X.HTML']) {
      await put(name, page);
      const { headers } = await get(name);
      assert.match(headers['content-disposition'], /^attachment; /, name);
      assert.equal(headers['x-content-type-options'], 'nosniff');
      assert.match(headers['content-security-policy'], /^sandbox;.*default-src 'none'/);
      assert.doesNotMatch(headers['content-type'], /html|svg|xml|javascript|flash/, name);
    }
    for (const name of ['a"; filename="evil.html', 'a\\b', 'ünï 日本.csv', "it's;x=1", 'a,b', '%41']) {
      await put(encodeURIComponent(name), 'x');
      const shown = (await get(encodeURIComponent(name))).headers['content-disposition'];
      const [, plain, encoded] = /^attachment; filename="([A-Za-z0-9._-]+)"; filename\*=UTF-8''([A-Za-z0-9._%-]+)$/.exec(shown) ?? assert.fail(shown);
      assert.ok(plain.length > 0);
      assert.equal(decodeURIComponent(encoded), name);
    }
    const error = await get('none.html');
    assert.match(error.headers['content-type'], /^application\/json/);
  });
});

describe('F1 nothing leaves the workspace', () => {
  before(() => s.shell('echo inside > inside; ln -s /etc/passwd abs; ln -s ../../etc/passwd rel; ln -s /etc dir; ln -s inside good; ln -s loop loop; ln -s /proc/self/root root; ln -s /mnt/data self; mkdir real; ln -s /proc/1/fd fds'));
  after(clear);

  test('links are not followed, wherever they point', async () => {
    for (const path of ['abs', 'rel', 'dir/passwd', 'good', 'loop', 'root/etc/passwd', 'self/inside', 'fds/0']) {
      const answers = [await get(path), await get(path, { range: 'bytes=0-3' })];
      for (const got of answers) refused(got, 409, 'conflict');
      assert.ok([404, 405, 409].includes((await request(server, 'HEAD', at(path))).status));
    }
    assert.equal((await get('inside')).text, 'inside\n', 'the twin');
  });

  test('writing and deleting through a link to a folder is refused', async () => {
    for (const path of ['dir/new', 'root/tmp/new', 'self/new']) {
      refused(await put(path, 'x'), 409, 'conflict');
      refused(await del(path), 409, 'conflict');
    }
    assert.equal((await s.shell('ls /etc/new /tmp/new new 2>/dev/null | wc -l')).stdout, '0\n');
  });

  test('links and special files are not listed', async () => {
    assert.deepEqual((await list()).data.map((f) => f.path), ['inside']);
  });

  test('dots and slashes, encoded any way, are refused before any walk', async () => {
    for (const path of ['..', '../x', 'a/../b', './a', 'a/./b', 'a//b', '%2e%2e/etc/passwd', '%2e%2e%2fetc%2fpasswd', '..%2f..%2fetc', 'a%2f..%2f..%2fb',
      '%2E%2E', '.%2e', '%2fetc%2fpasswd', '/etc/passwd', 'a%2f', 'a/', 'real%2f%2e%2e%2finside', '%5c..%5c'.replace('%5c..', '..%2f..')]) {
      for (const method of ['GET', 'PUT', 'DELETE']) {
        const got = await request(server, method, at(path), { body: method === 'PUT' ? 'x' : undefined });
        refused(got, 400, 'invalid_request', /path/);
      }
    }
    // Decoded once, not twice: this is a name with a percent sign.
    assert.equal((await put('%252e%252e', 'x')).body.path, '%2e%2e');
    assert.equal((await del('%252e%252e')).status, 204);
    // An encoded slash is a slash, in the one place where it may be.
    assert.equal((await put('real%2ffile', 'x')).body.path, 'real/file');
    assert.equal((await get('real/file')).text, 'x');
  });

  test('a tree that changes under the walk gives its own files or an error, never another\'s', async () => {
    await s.shell(`mkdir -p swap/d; echo mine > swap/d/passwd; echo mine > swap/f
cat > /tmp/swap.py <<'P'
import os, time
os.chdir("/mnt/data/swap")
end = time.time() + 4
while time.time() < end:
    os.rename("d", "e"); os.symlink("/etc", "d"); os.unlink("d"); os.rename("e", "d")
    os.rename("f", "g"); os.symlink("/etc/passwd", "f"); os.unlink("f"); os.rename("g", "f")
P
python3 /tmp/swap.py > /dev/null 2>&1 &`);
    const seen = {};
    const until4 = Date.now() + 2500;
    while (Date.now() < until4) {
      const answers = await Promise.all([get('swap/d/passwd'), get('swap/f'), put('swap/d/written', 'x'), put('swap/f', 'mine\n'), del('swap/d/written'), list()]);
      for (const got of answers.slice(0, 2)) {
        seen[got.status] = (seen[got.status] ?? 0) + 1;
        if (got.status === 200) assert.equal(got.text, 'mine\n');
        else assert.ok([404, 409].includes(got.status), got.text);
      }
      for (const f of answers[5].data) assert.match(f.path, /^(inside|real\/file|swap\/.+)$/);
    }
    assert.ok(seen[200] > 5, JSON.stringify(seen));
    assert.equal((await s.shell('ls /etc/written 2>/dev/null | wc -l')).stdout, '0\n');
  });
});

test('F2 only regular files are served or overwritten, without waiting for them', async () => {
  await s.shell('mkfifo fifo; mkdir dir; python3 -c "import socket; socket.socket(socket.AF_UNIX).bind(\'sock\')"; echo x > plain; ln plain hard');
  for (const path of ['fifo', 'dir', 'sock']) refused(await get(path), 409, 'conflict', /folder|regular/);
  refused(await get('dir/'), 400, 'invalid_request');
  assert.equal((await get('hard')).text, 'x\n', 'a hard link within the session is a file of its own');
  assert.equal((await put('fifo', 'now a file')).status, 201, 'a name is replaced, not opened');
  assert.equal((await get('fifo')).text, 'now a file');
  assert.equal((await put('hard', 'new')).status, 201);
  assert.equal((await get('plain')).text, 'x\n', 'and so is one of two names of a file');
  assert.equal((await del('sock')).status, 204);
  assert.deepEqual((await list()).data.map((f) => f.path), ['fifo', 'hard', 'plain']);
  await clear();
});

describe('F3 size fields are lies until read', () => {
  after(clear);

  test('a sparse file is sent whole and costs no memory', async () => {
    await s.python('f = open("sparse", "wb"); f.truncate(60 << 20); f.seek(30 << 20); f.write(b"middle"); f.close()');
    const was = resident(server.pid);
    const got = await get('sparse');
    assert.equal(got.bytes.length, 60 * MiB);
    assert.equal(got.bytes.subarray(30 * MiB, 30 * MiB + 6).toString(), 'middle');
    assert.ok(resident(server.pid) - was < 16 * MiB);
    // Larger than anything a client would take: the header is honest, the rest is the client's to stop.
    await s.python('f = open("huge", "wb"); f.truncate(1 << 40); f.close()');
    assert.equal((await request(server, 'HEAD', at('huge'))).headers['content-length'], String(2 ** 40));
    assert.equal((await get('huge', { range: 'bytes=-4' })).bytes.length, 4);
  });

  // Begins to read a body, slowly; its .ended is { status, length, bytes, complete }.
  const slowly = (path, pause) => new Promise((begun, fail) => {
    const { port } = new URL(server.url);
    const req = http.request({ port, path: at(path), agent: false, headers: { authorization: `Bearer ${server.key}` } }, (r) => {
      let bytes = 0;
      const ended = new Promise((done) => {
        const end = () => done({ status: r.statusCode, length: Number(r.headers['content-length']), bytes, complete: r.complete });
        r.on('data', (part) => {
          bytes += part.length;
          r.pause();
          setTimeout(() => r.resume(), pause);
        });
        r.on('end', end);
        r.on('error', end);
      });
      begun({ ended });
    });
    req.on('error', fail);
    req.end();
  });

  test('a file that grows is sent up to the size it had', async () => {
    await s.python('open("grow", "wb").write(b"a" * (8 << 20))');
    const reading = await slowly('grow', 3);
    await s.python('for i in range(8): open("grow", "ab").write(b"b" * (1 << 20))');
    assert.deepEqual(await reading.ended, { status: 200, length: 8 * MiB, bytes: 8 * MiB, complete: true });
  });

  test('a file that is cut short ends the connection, not the answer', async () => {
    await s.python('open("cut", "wb").write(b"a" * (32 << 20))');
    const reading = await slowly('cut', 10);
    await s.python('import os; os.truncate("cut", 1000)');
    const got = await reading.ended;
    assert.equal(got.status, 200);
    assert.equal(got.length, 32 * MiB);
    assert.equal(got.complete, false, 'the client can tell');
    assert.ok(got.bytes < 32 * MiB);
    assert.equal((await get('cut')).bytes.length, 1000);
    assert.equal((await server.run('print(1)')).outcome, 'ok');
  });

  test('a file that goes away while it is read is read to its end', async () => {
    await s.python('open("away", "wb").write(b"a" * (8 << 20))');
    const reading = await slowly('away', 3);
    await s.python('os.remove("away")');
    assert.equal((await reading.ended).complete, true);
  });
});

describe('F4 an upload appears whole or not at all', () => {
  after(clear);

  // Sends a head that promises more than it then sends, and hangs up.
  const abort = (path, length, sent, wait = 100) => new Promise((done) => {
    const { port } = new URL(server.url);
    const socket = net.connect(Number(port), '127.0.0.1', () => {
      socket.write(`PUT ${at(path)} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${server.key}\r\n${length === null ? 'Transfer-Encoding: chunked' : `Content-Length: ${length}`}\r\n\r\n`);
      socket.write(length === null ? `${sent.toString(16)}\r\n${'x'.repeat(sent)}\r\n` : 'x'.repeat(sent));
      setTimeout(() => { socket.destroy(); done(); }, wait);
    });
    socket.on('error', () => {});
  });

  test('a connection that breaks leaves nothing', async () => {
    await put('there', 'old');
    for (const [length, sent] of [[1000, 10], [4 * MiB, 3 * MiB], [null, 500_000], [1000, 999]]) {
      await abort('new', length, sent);
      await abort('there', length, sent);
      await abort('folder/new', length, sent);
    }
    await until(async () => (await s.shell('ls -A')).stdout === 'there\n', { what: 'nothing left' });
    assert.equal((await get('there')).text, 'old');
    assert.equal((await s.shell('ls -lA --time-style=+ | wc -l; df --output=iused . | tail -1')).stdout.split('\n')[0], '2');
  });

  test('a body that pauses too long is cut off', async () => {
    const asked = Date.now();
    const answer = await new Promise((done) => {
      const { port } = new URL(server.url);
      const socket = net.connect(Number(port), '127.0.0.1', () =>
        socket.write(`PUT ${at('slow')} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${server.key}\r\nContent-Length: 100000\r\n\r\nabc`));
      let text = '';
      socket.on('data', (part) => { text += part; });
      socket.on('close', () => done(text));
    });
    assert.match(answer, /^HTTP\/1\.1 408 /);
    assert.ok(Date.now() - asked < 8000);
    refused(await get('slow'), 404, 'not_found');
  });

  test('a link or a name in use is replaced, never written through', async () => {
    await s.shell('echo secret > target; ln -s target link; ln -s /etc/passwd out; ln -s nowhere dangling');
    for (const path of ['link', 'out', 'dangling']) assert.equal((await put(path, 'new')).status, 201);
    assert.equal((await get('target')).text, 'secret\n');
    assert.equal((await s.shell('test -L link -o -L out -o -L dangling && echo link; cat link out dangling; test -e nowhere && echo made')).stdout, 'newnewnew');
  });

  test('a file being uploaded is not seen before it is complete', async () => {
    const { port } = new URL(server.url);
    const bytes = randomBytes(2 * MiB);
    const answer = new Promise((done) => {
      const req = http.request({ port, method: 'PUT', path: at('slow/part'), agent: false,
        headers: { authorization: `Bearer ${server.key}`, 'content-length': bytes.length } }, (r) => { r.resume(); done(r.statusCode); });
      req.write(bytes.subarray(0, MiB));
      setTimeout(() => req.end(bytes.subarray(MiB)), 700);
    });
    await new Promise((wake) => { setTimeout(wake, 300); });
    assert.equal((await list()).data.some((f) => f.path.startsWith('slow')), false);
    assert.equal((await s.shell('find . -path "*slow*" -type f | wc -l')).stdout, '0\n');
    assert.equal(await answer, 201);
    assert.equal(sha256((await get('slow/part')).bytes), sha256(bytes));
  });

  test('one over the limit is refused, announced or not, one at the limit is not', async () => {
    refused(await put('big', Buffer.alloc(40 * MiB + 1)), 413, 'too_large', /41943040/);
    refused(await get('big'), 404, 'not_found');
    assert.equal((await put('big', Buffer.alloc(40 * MiB))).body.size, 40 * MiB);
    await clear();
  });
});

describe('F5 names are bytes we control', () => {
  after(clear);

  const deep = (n) => Array.from({ length: n }, () => 'd').join('/');
  // 1,024 bytes in parts of at most 255.
  const long = (n) => { const parts = []; let left = n; while (left > 0) { const k = Math.min(left, 200); parts.push('x'.repeat(k)); left -= k + 1; } return parts.join('/'); };

  test('lengths at, below and above the limits', async () => {
    assert.equal(long(1024).length, 1024);
    for (const path of ['n'.repeat(254), 'n'.repeat(255), `${'ü'.repeat(127)}n`, long(1023), long(1024), deep(31), deep(32)].map(encodeURI)) {
      const made = await put(path, 'x');
      assert.equal(made.status, 201, `${path.length} ${made.text}`);
      assert.equal((await get(path)).text, 'x');
      assert.equal((await del(path)).status, 204);
      await clear();
    }
    for (const path of ['n'.repeat(256), 'ü'.repeat(128), long(1025), deep(33), 'x/'.repeat(500) + 'x'].map(encodeURI))
      for (const method of ['PUT', 'GET', 'DELETE'])
        refused(await request(server, method, at(path), { body: method === 'PUT' ? 'x' : undefined }), 400, 'invalid_request', /path/);
  });

  test('control characters and bytes that are no UTF-8', async () => {
    for (const bad of ['%00', 'a%00b', '%01', 'a%0ab', '%0d%0a', '%1f', '%7f', '%c2%85', '%ff', 'a%80', '%c0%af', '%ed%a0%80', '%f4%90%80%80', '%c3', '%e2%82', '%', '%4', '%zz', 'a%2']) {
      for (const method of ['PUT', 'GET', 'DELETE'])
        refused(await request(server, method, at(bad), { body: method === 'PUT' ? 'x' : undefined }), 400, 'invalid_request');
    }
    assert.deepEqual((await list()).data, []);
  });

  test('odd names made inside do not break the list', async () => {
    const e = await s.python(`
import os
for name in [b"\\xff\\xfe", b"new\\nline", b"tab\\t", b"\\x1b[31m", b"\\xc2\\x85", b"q\\"uote", b"\\xed\\xa0\\x80", b"fine", b"n" * 255]:
    open(name, "w").close()
os.mkdir(b"bad\\xff"); open(b"bad\\xff/inside", "w").close()
deep = b"/mnt/data"
for i in range(40):
    os.mkdir(b"d"); os.chdir(b"d"); open(b"f", "w").close()
os.chdir("/mnt/data")
`);
    assert.equal(e.outcome, 'ok', JSON.stringify(e.error));
    assert.ok(e.files.skipped.length >= 6, 'what cannot be kept is told, by a name that can be shown');
    for (const f of e.files.skipped) {
      assert.match(f.path, /\\x|^d\/d|\u0085/);
      assert.deepEqual([f.change, f.url, f.sandbox_path], ['skipped', null, null]);
      assert.ok(f.reason.length > 10);
    }
    const { data } = await list();
    const names = data.map((f) => f.path);
    assert.ok(names.includes('fine') && names.includes('q"uote') && names.includes('n'.repeat(255)));
    for (const name of names) assert.doesNotMatch(name, /[\u0000-\u001f\u007f-\u009f\ud800-\udfff\ufffd]/);
    assert.equal(names.filter((n) => n.endsWith('/f')).length, 31, 'as deep as paths go');
    for (const f of data) assert.equal((await get(f.path.split('/').map(encodeURIComponent).join('/'))).status, 200, f.path);
  });
});

describe('F7 listing and deleting on any tree', () => {
  after(clear);

  test('5,000 files and a deep, wide tree, in pages without gaps', async () => {
    await clear();
    await s.python(`
import os
for i in range(5000): open(f"f{i:05}.txt", "w").close()
for i in range(20):
    os.makedirs(f"dir{i}/a/b/c")
    for j in range(20): open(f"dir{i}/a/b/c/{j}", "w").close()
`);
    const seen = [];
    for (let after = '', more = true; more;) {
      const page = await list(`?limit=900${after && `&after=${encodeURIComponent(after)}`}`);
      assert.ok(page.data.length <= 900 && page.data.length > 0);
      seen.push(...page.data.map((f) => f.path));
      more = page.has_more;
      after = seen.at(-1);
      assert.ok(seen.length <= 5400);
    }
    assert.equal(seen.length, 5400);
    assert.deepEqual(seen, [...seen].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))));
    assert.equal(new Set(seen).size, 5400);
    assert.equal((await list()).data.length, 1000, 'the default and the most');
    assert.equal((await list('?limit=1')).data.length, 1);
    assert.deepEqual(await list('?after=zzz'), { data: [], has_more: false });
    assert.equal((await list('?after=f00100.txt&limit=1')).data[0].path, 'f00101.txt');
    assert.equal((await list('?after=f00100.txt.no-such-file&limit=1')).data[0].path, 'f00101.txt', 'the mark need not exist');
  });

  test('parameters are checked', async () => {
    for (const query of ['?limit=0', '?limit=1001', '?limit=x', '?after=../x', '?path=x', '?after=a&after=b', '?after=%ff'])
      refused(await request(server, 'GET', `${s.path}/files${query}`), 400, 'invalid_request');
  });

  test('a session with many files is deleted at once', async () => {
    const other = await server.session();
    await other.python('import os\nfor i in range(3000): open(f"f{i}", "w").close()');
    const asked = Date.now();
    assert.equal((await other.delete()).status, 204);
    assert.ok(Date.now() - asked < 5000);
  });
});

test('20 MiB go up and down unchanged, streamed: the daemon does not grow', async () => {
  const bytes = randomBytes(20 * MiB);
  await put('warm', Buffer.alloc(MiB));
  const was = resident(server.pid);
  let peak = 0;
  const timer = setInterval(() => { peak = Math.max(peak, resident(server.pid)); }, 5);
  const made = await put('twenty', bytes);
  assert.deepEqual([made.body.path, made.body.size, made.body.sha256], ['twenty', 20 * MiB, sha256(bytes)]);
  const got = await get('twenty');
  clearInterval(timer);
  assert.equal(sha256(got.bytes), sha256(bytes));
  if (!sanitized) assert.ok(peak - was < 6 * MiB, `${was} to ${peak}`);
  assert.equal((await s.shell('sha256sum twenty')).stdout.split(' ')[0], sha256(bytes));
  await clear();
});

test('many uploads and downloads at once, and no descriptor is left behind', async () => {
  const load = async () => {
    const bodies = Array.from({ length: 24 }, () => randomBytes(200_000));
    const made = await Promise.all(bodies.map((b, i) => put(`many/${i}`, b)));
    for (const [i, m] of made.entries()) assert.ok(m.status < 300 && m.body.sha256 === sha256(bodies[i]) || m.status === 429, m.text);
    const ok = made.map((m, i) => [m.status, i]).filter(([status]) => status < 300).map(([, i]) => i);
    assert.ok(ok.length >= 8, `${ok.length} of 24`);
    const got = await Promise.all(ok.map((i) => get(`many/${i}`)));
    for (const [k, g] of got.entries()) assert.equal(sha256(g.bytes), sha256(bodies[ok[k]]));
  };
  // The first time opens what the service then keeps: readers of its store,
  // among others. One descriptor left by each of the later ones would be 24
  // at the least.
  await load();
  const was = descriptors(server.pid);
  for (let i = 0; i < 3; i++) await load();
  await until(() => descriptors(server.pid) <= was + 6, { what: 'descriptors given back' });
  await clear();
});

test('files work while code runs', async () => {
  const running = s.python('import time\nfor i in range(200):\n    time.sleep(0.01)\n    if __import__("os").path.exists("signal"): break\nopen("signal").read()');
  await until(async () => (await s.get()).state === 'running');
  assert.equal((await put('signal', 'from outside')).status, 201);
  assert.equal((await running).result['text/plain'], "'from outside'");
});
