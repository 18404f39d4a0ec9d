// SPDX-License-Identifier: Apache-2.0
// Raw bytes on a connection, plain and over TLS: every message that could be
// read in two ways is refused with one answer of ours, the connection is
// closed, and the valid request that follows it is not answered. The same
// table for the parser alone is tests/unit/test_http_strict.c.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import tls from 'node:tls';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { descriptors, request, resident, sanitized, stop } from '../../lib/wire.mjs';

const KiB = 1024;
const dir = mkdtempSync(join(tmpdir(), 'glovebox-framing-'));
process.on('exit', () => rmSync(dir, { recursive: true, force: true }));
execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
  '-keyout', join(dir, 'key'), '-out', join(dir, 'pem'), '-subj', '/CN=glovebox test', '-addext', 'subjectAltName=IP:127.0.0.1'], { stdio: 'ignore' });
chmodSync(join(dir, 'key'), 0o600);

let plain;
let secure;
before(async () => {
  // No penalty for wrong keys here, and drains that end soon.
  const config = { auth_failures_per_min: 10_000, pools: [pool({ ready: 0 })] };
  plain = await Glovebox.start({ config });
  secure = await Glovebox.start({ config: { ...config, tls_certificate: join(dir, 'pem'), tls_key: join(dir, 'key') }, wait: false });
  const file = join(secure.dir, 'data', 'endpoint');
  await until(() => secure.exit || existsSync(file), { ms: 20_000, what: 'endpoint' });
  assert.equal(secure.exit, undefined, secure.log);
  secure.url = readFileSync(file, 'utf8').trim();
  secure.key = readFileSync(join(secure.dir, 'data', 'admin.key'), 'utf8').trim();
});
after(async () => {
  await stop(plain);
  await stop(secure);
});

// Sends the bytes, in pieces when there are several, and collects what comes
// until the server closes. Latin-1, so that every byte can be written.
function raw(server, pieces, { ms = 10_000, end = false } = {}) {
  const { hostname, port, protocol } = new URL(server.url);
  return new Promise((done, fail) => {
    const open = protocol === 'https:'
      ? (ready) => tls.connect({ host: hostname, port, rejectUnauthorized: false }, ready)
      : (ready) => net.connect(Number(port), hostname, ready);
    const socket = open(async () => {
      for (const piece of [pieces].flat()) {
        socket.write(Buffer.from(piece, 'latin1'));
        if (Array.isArray(pieces)) await new Promise((next) => setTimeout(next, 5));
      }
      if (end) socket.end();
    });
    const parts = [];
    const timer = setTimeout(() => { socket.destroy(); fail(new Error(`not closed in ${ms} ms after: ${Buffer.concat(parts)}`)); }, ms);
    const over = () => { clearTimeout(timer); done(Buffer.concat(parts).toString('latin1')); };
    socket.on('data', (part) => parts.push(part));
    // Our side closes when the server's is: it has said all it will.
    socket.on('end', () => socket.end());
    socket.on('close', over);
    socket.on('error', () => {});
  });
}

// Exactly one answer: a status, our headers once each, JSON of ours.
function oneError(text, status, what) {
  const at = text.indexOf('\r\n\r\n');
  const [line, ...headers] = text.slice(0, at).split('\r\n');
  assert.match(line, new RegExp(`^HTTP/1\\.1 ${status} `), `${what}: ${text.slice(0, 300)}`);
  assert.equal(text.match(/HTTP\/1\.[01] \d/g).length, 1, `${what}: one answer, not ${text}`);
  const names = headers.map((header) => header.split(':')[0].toLowerCase());
  assert.equal(new Set(names).size, names.length, `${what}: no header twice: ${names}`);
  for (const name of ['date', 'content-type', 'x-request-id', 'connection', 'content-length']) assert.ok(names.includes(name), `${what}: ${name}`);
  assert.ok(headers.some((header) => /^content-type: application\/json$/i.test(header)), what);
  assert.ok(headers.some((header) => /^connection: close$/i.test(header)), what);
  const body = text.slice(at + 4);
  assert.equal(Buffer.byteLength(body, 'latin1'), Number(/content-length: (\d+)/i.exec(text)[1]), what);
  const { error } = JSON.parse(body);
  assert.equal(error.code, status === 401 ? 'unauthenticated' : 'invalid_request', what);
  assert.ok(error.message.length > 10, what);
  assert.doesNotMatch(text, /<html|microhttpd/i);
}

const H = 'Host: x\r\n';
const x = (n, c = 'x') => c.repeat(n);
// [what, bytes, status]; KEY stands for a valid key.
const A = 'Authorization: Bearer KEY\r\n';
const GET = `GET /api/pools HTTP/1.1\r\n${H}${A}`;
const POST = `POST /api/sessions HTTP/1.1\r\n${H}${A}`;
const CHUNKED = `${POST}Transfer-Encoding: chunked\r\n\r\n`;
const line = (target, version = ' HTTP/1.1') => `GET ${target}${version}\r\n${H}${A}\r\n`;
const hosts = (...values) => `GET /api/pools HTTP/1.1\r\n${A}${values.map((value) => `Host: ${value}\r\n`).join('')}\r\n`;
const table = [
  ['a space before the colon of Content-Length', `${POST}Content-Length : 55\r\n\r\nGET /api/limits HTTP/1.1\r\n${H}${A}X: y\r\n\r\n`],
  ['a tab before the colon', `${POST}Content-Length\t: 5\r\n\r\nhello`],
  ['a NUL in a credential', `GET /api/pools HTTP/1.1\r\n${H}Authorization: Bearer KEY\0x\r\n\r\n`],
  ['a NUL in a value', `${GET}A: b\0c\r\n\r\n`],
  ['a NUL in a name', `${GET}A\0b: c\r\n\r\n`],
  ['a bare CR in a credential', `GET /api/pools HTTP/1.1\r\n${H}Authorization: Bearer KEY\rx\r\n\r\n`],
  ['a bare CR in a value', `${GET}A: b\rContent-Length: 5\r\n\r\n`],
  ['another control character in a value', `${GET}A: b\x08c\r\n\r\n`],
  ['DEL in a value', `${GET}A: \x7f\r\n\r\n`],
  ['two credentials, the second one right', `GET /api/pools HTTP/1.1\r\n${H}Authorization: Bearer nope\r\n${A}\r\n`],
  ['two credentials, the first one right', `${GET}authorization: Bearer nope\r\n\r\n`],
  ['the same credential twice', `${GET}${A}\r\n`],
  ['two keys in a header of their own', `GET /v1/models HTTP/1.1\r\n${H}api-key: KEY\r\nApi-Key: KEY\r\n\r\n`],
  ['no Host', `GET /api/pools HTTP/1.1\r\n${A}\r\n`],
  ['two Hosts', hosts('x', 'y')],
  ['the same Host twice', hosts('x', 'x')],
  ...['', 'a b', 'a,b', 'a/b', 'a@b', 'http://a', 'a:', 'a:x', 'a:65536', '[::1', '[zz]', '\xe9', 'a\\b', 'a?b', x(300)].map((host) => [`Host: ${host.slice(0, 20)}`, hosts(host)]),
  ['bare line feeds', GET.replaceAll('\r\n', '\n') + '\n'],
  ['one bare line feed', `${GET}A: b\n\r\n`],
  ['a bare line feed as the end of the head', `${GET}\n`],
  ['a bare line feed after the request line', `GET /api/pools HTTP/1.1\n${H}${A}\r\n`],
  ['a folded header', `${GET}A: b\r\n c\r\n\r\n`],
  ['a header folded with a tab', `${GET}A: b\r\n\tc\r\n\r\n`],
  ['a space before the first header', `GET /api/pools HTTP/1.1\r\n ${H}${A}\r\n`],
  ['both lengths', `${POST}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['both lengths, the other way round', `${POST}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`],
  ['two equal lengths', `${POST}Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}`],
  ['two lengths', `${POST}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x`],
  ...['+5', '-5', '0x5', '5 5', '5,5', '5.0', '', ' ', '5 ', '9223372036854775808', '18446744073709551621', x(40, '9'), 'five', '\xb2'].map((length) => [`Content-Length: '${length}'`, `${POST}Content-Length: ${length}\r\n\r\nhello`]),
  ...['identity', 'gzip', 'gzip, chunked', 'chunked, chunked', 'chunked, identity', 'xchunked', 'chunked;a=b', 'chunked ', '', '"chunked"', 'chun\x0bked'].map((coding) => [`Transfer-Encoding: ${coding}`, `${POST}Transfer-Encoding: ${coding}\r\n\r\n0\r\n\r\n`]),
  ['Transfer-Encoding twice', `${POST}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['Transfer-Encoding in HTTP/1.0', `${CHUNKED.replace('HTTP/1.1', 'HTTP/1.0')}0\r\n\r\n`],
  ...['', 'x', '-1', '+1', '0x1', ' 1', '1 ', '1\t', '1000000000000000', 'g', '1;a\x01b', '\xb9', '1\r'].map((size) => [`a chunk of size '${size}'`, `${CHUNKED}${size}\r\n{\r\n0\r\n\r\n`]),
  ['a chunk size that ends with a line feed', `${CHUNKED}2\n{}\r\n0\r\n\r\n`],
  ['a chunk that is longer than it says', `${CHUNKED}1\r\n{}\r\n0\r\n\r\n`],
  ['a chunk that ends with a line feed', `${CHUNKED}2\r\n{}\n0\r\n\r\n`],
  ['a chunk extension', `${CHUNKED}2;a=b\r\n{}\r\n0\r\n\r\n`],
  ['an extension of the last chunk', `${CHUNKED}2\r\n{}\r\n0;a\r\n\r\n`],
  ['a chunk extension that never ends', `${CHUNKED}2;${x(5000)}`],
  ['17 trailer fields', `${CHUNKED}2\r\n{}\r\n0\r\n${'t: 1\r\n'.repeat(17)}\r\n`, 431],
  ['a trailer of 4097 bytes', `${CHUNKED}2\r\n{}\r\n0\r\nt:${x(4095)}\r\n\r\n`, 431],
  ['a length in the trailer', `${CHUNKED}2\r\n{}\r\n0\r\nContent-Length: 5\r\n\r\n`],
  ['a credential in the trailer', `${CHUNKED}2\r\n{}\r\n0\r\n${A}\r\n`],
  ['a folded trailer', `${CHUNKED}2\r\n{}\r\n0\r\nT: 1\r\n 2\r\n\r\n`],
  ...['GET  /api/pools HTTP/1.1', 'GET /api/pools  HTTP/1.1', 'GET /api/pools HTTP/1.1 ', ' GET /api/pools HTTP/1.1', 'GET\t/api/pools HTTP/1.1', 'GET /api/pools\tHTTP/1.1', 'GET /api/pools', 'GET',
    'GET /api/pools HTTP/0.9', 'GET /api/pools HTTP/1.2', 'GET /api/pools HTTP/1.11', 'GET /api/pools HTTP/2.0', 'GET /api/pools HTTP/2', 'GET /api/pools http/1.1', 'GET /api/pools HTTP/1', 'GET /api/pools HTTP/1.x', 'GET /api/pools XTTP/1.1',
    'G@T /api/pools HTTP/1.1', 'G\xc9T /api/pools HTTP/1.1', `${x(33, 'G')} /api/pools HTTP/1.1`, '\0GET /api/pools HTTP/1.1'].map((text) => [`request line '${text}'`, `${text}\r\n${H}${A}\r\n`]),
  ['an empty line first', `\r\n${GET}\r\n`],
  ['the HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['TLS inside', '\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03'],
  ...['*', 'api/pools', 'x:80', 'http://y/api/pools', 'http://x:81/api/pools', 'http://a@x/api/pools', 'http:///api/pools', 'http:/api/pools', 'ftp://x/', 'https://', '//\x01', '/a b', '/a#b', '/a\0', '/a\x1f', '/a\x7f', '/%00', '/%zz', '/%4', '/%', '/?a=%00', '/?a=%g0',
    `/?${'a&'.repeat(32)}a`].map((target) => [`target ${target.slice(0, 40)}`, line(target)]),
  ['CONNECT', `CONNECT x:80 HTTP/1.1\r\n${H}${A}\r\n`],
  ['OPTIONS *', `OPTIONS * HTTP/1.1\r\n${H}${A}\r\n`],
  ...['', ' ', 'A b', 'A\x01', 'A\xe9', '\xe9', 'A(', 'A"', 'A/b', 'A@', '[A]', '{A}'].map((name) => [`header name '${name}'`, `${GET}${name}: v\r\n\r\n`]),
  ['a header without a colon', `${GET}A\r\n\r\n`],
  ['a request line of 8193 bytes', line(`/${x(8193 - 'GET / HTTP/1.1'.length)}`), 414],
  ['a request line that never ends', `GET /${x(20 * KiB)}`, 414],
  ['a header of 8193 bytes', `${GET}A: ${x(8193 - 3)}\r\n\r\n`, 431],
  ['a header that never ends', `${GET}A: ${x(200 * KiB)}`, 431],
  ['a header name that never ends', `${GET}${x(50 * KiB)}`, 431],
  ['101 headers', `${GET}${'a: b\r\n'.repeat(99)}\r\n`, 431],
  ['headers that never end', `${GET}${'a: b\r\n'.repeat(5000)}`, 431],
  ['more than 32 KiB of headers', `${GET}${`a: ${x(4000)}\r\n`.repeat(9)}\r\n`, 431],
  ['101 cookies', `${GET}Cookie: a=b${';c=d'.repeat(100)}\r\n\r\n`, 431],
  ['another Expect', `${POST}Expect: 200-ok\r\nContent-Length: 2\r\n\r\n{}`, 417],
  ['an empty Expect', `${POST}Expect:\r\nContent-Length: 2\r\n\r\n{}`, 417],
].map(([what, bytes, status = 400]) => ({ what, bytes, status }));

const kinds = [['plain', () => plain], ['TLS', () => secure]];
for (const [kind, get] of kinds)
  describe(`H1: messages that could be read two ways, ${kind}`, () => {
    const fill = (text) => text.replaceAll('KEY', get().key);
    // What an attacker would smuggle, or what a proxy would send next.
    const next = () => fill(`GET /api/limits HTTP/1.1\r\n${H}${A}\r\n`);

    test(`H1: ${table.length} malformed messages get one refusal each, and nothing after them is read`, async () => {
      for (const { what, bytes, status } of table) oneError(await raw(get(), fill(bytes) + next()), status, what);
    });

    test('H1: the same in pieces', async () => {
      for (const { what, bytes, status } of table.filter((row) => row.bytes.length < 2000)) {
        const text = fill(bytes);
        const cut = text.length >> 1;
        oneError(await raw(get(), [text.slice(0, cut), text.slice(cut), next()]), status, what);
      }
    });

    test('H1: behind valid requests, which are answered first', async () => {
      for (const { what, bytes, status } of table.filter((row) => row.bytes.length < 2000)) {
        const text = await raw(get(), next() + next() + fill(bytes) + next());
        const answers = text.split(/(?=HTTP\/1\.1 \d)/);
        assert.equal(answers.length, 3, `${what}: ${text}`);
        for (const answer of answers.slice(0, 2)) assert.match(answer, /^HTTP\/1\.1 200 /, what);
        oneError(answers[2], status, what);
      }
    });

    test('H1: in the middle of a body that a handler reads', async () => {
      const head = fill(`PUT /v1/nothing HTTP/1.1\r\n${H}${A}Transfer-Encoding: chunked\r\n\r\n`);
      // Refused before its end, then malformed: still one answer.
      const text = await raw(get(), [head.replace(get().key, 'nope') + `${(100 * KiB).toString(16)}\r\n${x(100 * KiB)}\r\n`, 'zz\r\n', next()]);
      assert.equal(text.match(/HTTP\/1\.1 \d/g).length, 1, text);
      assert.match(text, /^HTTP\/1\.1 40[01] /, 'whichever was first');
      const form = fill(`POST /v1/files HTTP/1.1\r\n${H}${A}Content-Type: multipart/form-data; boundary=b\r\nTransfer-Encoding: chunked\r\n\r\n`);
      const begin = '--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n';
      oneError(await raw(get(), [`${form}${begin.length.toString(16)}\r\n${begin}\r\n`, `${(80 * KiB).toString(16)}\r\n${x(80 * KiB)}\r\n`, 'zz\r\n', next()]), 400, 'a chunk of an upload');
    });

    test('H1: what is well formed is read as it always was', async () => {
      const ok = async (what, bytes, status = 200, answers = 1) => {
        const text = await raw(get(), fill(bytes));
        assert.equal(text.match(/HTTP\/1\.1 \d+/g)?.join(), Array(answers).fill(`HTTP/1.1 ${status}`).join(), `${what}: ${text.slice(0, 400)}`);
      };
      const close = 'Connection: close\r\n';
      await ok('GET', `${GET}${close}\r\n`);
      await ok('three in a row', `${GET}\r\n${GET}\r\n${GET}${close}\r\n`, 200, 3);
      await ok('nothing is read after close', `${GET}${close}\r\n${GET}\r\n\0\n`);
      await ok('HTTP/1.0 without Host', `GET /api/pools HTTP/1.0\r\n${A}\r\n`);
      await ok('nothing is read after HTTP/1.0', `GET /api/pools HTTP/1.0\r\n${A}\r\n${GET}\r\n`);
      await ok('absolute form', `GET http://x/api/pools HTTP/1.1\r\n${H}${A}${close}\r\n`);
      await ok('absolute form, other case, port and query', `GET HTTP://X:80/api/sessions?limit=1 HTTP/1.1\r\nHost: x:80\r\n${A}${close}\r\n`);
      for (const host of ['127.0.0.1:8650', '[::1]:8650', 'a-b.c_d.example:1', 'localhost']) await ok(host, `GET /api/pools HTTP/1.1\r\nHost: ${host}\r\n${A}${close}\r\n`);
      await ok('odd but valid headers', `${GET}Under_score: 1\r\n!#$%&'*+.^|~\`: x\r\nEmpty:\r\nTabs:\t a\tb \t\r\nLatin: \xe9\r\nAccept: a\r\nAccept: b\r\n${close}\r\n`);
      await ok('chunks and trailers', `${CHUNKED.replace('\r\n\r\n', `\r\n${close}\r\n`)}1\r\n{\r\n01\r\n}\r\n000\r\nT: 1\r\nU: 2\r\n\r\n`, 201);
      const told = await raw(get(), fill(`${POST}Expect: 100-CONTINUE\r\nContent-Length: 2\r\n${close}\r\n{}`));
      assert.match(told, /^(HTTP\/1\.1 100 Continue\r\n\r\n)?HTTP\/1\.1 201 /);
    });

    test('H3: limits of a head, at and one below', async () => {
      const ok = async (what, bytes, status = 200) => assert.match(await raw(get(), fill(bytes)), new RegExp(`^HTTP/1\\.1 ${status} `), what);
      const close = 'Connection: close\r\n';
      for (const less of [0, 1]) {
        const target = `/api/${x(8192 - less - 'GET /api/ HTTP/1.1'.length)}`;
        await ok('request line', `GET ${target} HTTP/1.1\r\n${H}${A}${close}\r\n`, 404);
        await ok('one header', `${GET}${close}A: ${x(8192 - less - 3)}\r\n\r\n`);
        await ok('one cookie', `${GET}${close}Cookie: a=${x(8192 - less - 10)}\r\n\r\n`);
        await ok('credential', `GET /api/pools HTTP/1.1\r\n${H}${close}Authorization: Bearer ${x(24 * KiB - less - 22)}\r\n\r\n`, 401);
        const used = fill(`${H}${A}${close}`).replaceAll('\r\n', '').length;
        const left = 32 * KiB - less - used;
        const lines = Array.from({ length: 8 }, (_, i) => `a: ${x(Math.floor(left / 8) + (i < left % 8 ? 1 : 0) - 3)}\r\n`).join('');
        await ok('all headers', `${GET}${close}${lines}\r\n`);
        await ok('count', `${GET}${close}${'a: b\r\n'.repeat(97 - less)}\r\n`);
        await ok('cookies', `${GET}${close}Cookie: a=b${';c=d'.repeat(99 - less)}\r\n\r\n`);
        await ok('parameters', `GET /api/pools?${'limit&'.repeat(31 - less)}limit HTTP/1.1\r\n${H}${A}${close}\r\n`, 400);
        // All of them at once: nothing of libmicrohttpd's own runs full.
        const rest = 32 * KiB - less - used - `Cookie: a=b${';c=d'.repeat(99)}`.length;
        const many = Array.from({ length: 96 }, (_, i) => `a: ${x(Math.floor(rest / 96) + (i < rest % 96 ? 1 : 0) - 3)}\r\n`).join('');
        const query = `${'limit=1&'.repeat(31)}a=`;
        const full = `/api/pools?${query}${x(8192 - less - `GET /api/pools?${query} HTTP/1.1`.length)}`;
        const text = await raw(get(), fill(`GET ${full} HTTP/1.1\r\n${H}${A}${close}Cookie: a=b${';c=d'.repeat(99)}\r\n${many}\r\n`));
        oneError(text, 400, 'everything at its limit');
        assert.match(text, /limit/, 'it is the door that refused it');
      }
    });
  });

describe('H4: bad bytes', () => {
  // Deterministic, so that a failure can be repeated.
  let seed = 20260131;
  const random = (n) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor(seed / 4294967296 * n);
  };
  const good = [`${GET}\r\n`, `${POST}Content-Length: 2\r\n\r\n{}`, `${CHUNKED}2\r\n{}\r\n0\r\n\r\n`, `${GET}Cookie: a=b; c=d\r\nRange: bytes=1-2\r\n\r\n`];
  const odd = ['\0', '\r', '\n', '\r\n', ' ', '\t', ':', ';', '%', '\x7f', '\xff', 'Content-Length: 9\r\n', 'Transfer-Encoding: chunked\r\n', '\r\n\r\n', 'ffffffff\r\n'];
  // Never a valid key: nothing may come of it.
  const mutated = () => {
    let text = good[random(good.length)].replace('KEY', 'nope');
    for (let i = random(4); i >= 0; i--) {
      const at = random(text.length);
      const what = random(3);
      text = text.slice(0, at) + (what === 0 ? '' : what === 1 ? odd[random(odd.length)] : String.fromCharCode(random(256))) + text.slice(what === 2 ? at : at + random(3));
    }
    return text;
  };

  test('H4: 20,000 bad requests leave no memory and no descriptor behind', async () => {
    const total = Number(process.env.BAD_REQUESTS ?? 20_000);
    const attack = async (count) => {
      let left = count;
      const one = async () => {
        while (left-- > 0) {
          const bytes = random(4) ? mutated() : table[random(table.length)].bytes.replaceAll('KEY', 'nope').slice(0, 3000);
          // Half of them would wait for more: our end says there is none.
          const text = await raw(plain, bytes, { end: true });
          assert.doesNotMatch(text, /<html|HTTP\/1\.1 (2(?!00)|5)/, JSON.stringify(bytes));
        }
      };
      await Promise.all(Array.from({ length: 16 }, one));
    };
    await attack(2000); // tables and arenas have their size then
    const before = { memory: resident(plain.pid), fds: descriptors(plain.pid) };
    await attack(total);
    assert.equal((await request(plain, 'GET', '/api/pools')).status, 200);
    await until(() => descriptors(plain.pid) <= before.fds + 2, { ms: 15_000, what: 'descriptors closed' });
    const grown = resident(plain.pid) - before.memory;
    if (!sanitized) assert.ok(grown < 8 * KiB * KiB, `grew by ${grown} bytes`);
  });
});
