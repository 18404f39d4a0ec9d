// SPDX-License-Identifier: Apache-2.0
// Shares: links for people without a key. Expiry, passwords, counts,
// revocation, reading and writing; and that a link opens nothing else.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import http from 'node:http';
import { after, before, describe, test } from 'node:test';
import { Glovebox, sleep } from '../../lib/glovebox.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';
import { Workspace, sha256, unknownId } from '../../lib/workspace.mjs';

let server;
let w;

before(async () => {
  server = await Glovebox.start({ config: { upload_bytes: '2MiB', log_level: 'debug' } });
  w = await Workspace.create(server);
  await w.write('pub/a.txt', 'alpha');
  await w.write('pub/sub/ü b.csv', 'x,y');
  await w.write('secret.txt', 'not shared');
});
after(() => stop(server));

const share = async (spec) => {
  const made = await request(server, 'POST', '/api/shares', { body: { workspace: w.id, ...spec } });
  assert.equal(made.status, 201, made.text);
  return made.body;
};
// As a visitor: no key.
const visit = (method, url, options = {}) => request(server, method, url, { key: null, ...options });
const basic = (password) => ({ authorization: `Basic ${Buffer.from(`anyone:${password}`).toString('base64')}` });

describe('a link to a file', () => {
  test('gives the file to anybody who has it, inert', async () => {
    const s = await share({ path: 'pub/a.txt' });
    assert.deepEqual(Object.keys(s), ['id', 'workspace', 'path', 'version', 'mode', 'has_password', 'downloads', 'max_downloads', 'created_by', 'created_by_name', 'created_at', 'expires_at', 'revoked_at', 'url']);
    assert.match(s.url, new RegExp(`^${server.url}/s/[0-9a-f]{64}$`));
    assert.deepEqual([s.mode, s.has_password, s.downloads, s.max_downloads, s.expires_at], ['read', false, 0, 0, null]);
    const got = await visit('GET', s.url);
    assert.deepEqual([got.status, got.text, got.headers.etag], [200, 'alpha', `"${sha256('alpha')}"`]);
    assert.equal((await visit('GET', s.url, { headers: { range: 'bytes=1-2' } })).text, 'lp');
    assert.equal((await visit('GET', s.url, { headers: { 'if-none-match': got.headers.etag } })).status, 304);
    await w.write('pub/a.txt', 'alpha two');
    assert.equal((await visit('GET', s.url)).text, 'alpha two', 'the newest');
    const listed = (await request(server, 'GET', `/api/shares?workspace=${w.id}`)).body.data.find((x) => x.id === s.id);
    assert.equal('url' in listed, false, 'the link is shown once');
    assert.equal(listed.downloads, 4);
  });

  test('F8 whatever it is, a browser does not run it', async () => {
    for (const [name, type] of [['x.html'], ['x.svg'], ['y', 'text/html'], ['z', 'image/svg+xml']]) {
      await w.write(name, `<script>alert(1)</script>${name}`, type ? { 'content-type': type } : {});
      const { headers } = await visit('GET', (await share({ path: name })).url);
      assert.match(headers['content-disposition'], /^attachment; /);
      assert.equal(headers['x-content-type-options'], 'nosniff');
      assert.match(headers['content-security-policy'], /^sandbox;.*default-src 'none'/);
      assert.doesNotMatch(headers['content-type'], /html|svg|xml/);
    }
  });

  test('of one version always gives that one', async () => {
    const one = await w.write('v.txt', 'one');
    await w.write('v.txt', 'two');
    assert.equal((await visit('GET', (await share({ path: 'v.txt', version: one.version })).url)).text, 'one');
  });

  test('ends: by time, by count, by revocation; all look like one that never was', async () => {
    const absent = await visit('GET', `/s/${'0'.repeat(64)}`);
    refused(absent, 404, 'not_found');
    const timed = await share({ path: 'pub/a.txt', expires_in_s: 1 });
    assert.equal((await visit('GET', timed.url)).status, 200);
    await sleep(1200);
    const counted = await share({ path: 'pub/a.txt', max_downloads: 2 });
    assert.equal((await visit('HEAD', counted.url)).status, 200);
    assert.equal((await visit('HEAD', counted.url)).status, 200);
    assert.equal((await visit('GET', counted.url)).status, 200);
    assert.equal((await visit('GET', counted.url)).status, 200);
    const revoked = await share({ path: 'pub/a.txt' });
    assert.equal((await request(server, 'DELETE', `/api/shares/${revoked.id}`)).status, 204);
    for (const s of [timed, counted, revoked]) {
      const got = await visit('GET', s.url);
      refused(got, 404, 'not_found');
      assert.equal(got.text, absent.text);
    }
    const now = (await request(server, 'GET', `/api/shares?workspace=${w.id}`)).body.data;
    assert.equal(now.find((s) => s.id === counted.id).downloads, 2);
    assert.ok(now.find((s) => s.id === revoked.id).revoked_at);
    for (const odd of ['x', '0'.repeat(63), '0'.repeat(65), '%00', '..', timed.id]) assert.ok([400, 404].includes((await visit('GET', `/s/${odd}`)).status), odd);
  });

  test('of many who come at once, no more than allowed are served', async () => {
    const s = await share({ path: 'pub/a.txt', max_downloads: 5 });
    const answers = await Promise.all(Array.from({ length: 20 }, () => visit('GET', s.url)));
    assert.deepEqual(answers.map((a) => a.status).sort(), [...Array(5).fill(200), ...Array(15).fill(404)]);
  });
});

describe('a password', () => {
  test('comes by header or by Basic authentication', async () => {
    const s = await share({ path: 'pub/a.txt', password: 'pä:ss word' });
    assert.equal(s.has_password, true);
    const without = await visit('GET', s.url);
    refused(without, 401, 'unauthenticated');
    assert.match(without.headers['www-authenticate'], /^Basic /);
    refused(await visit('GET', s.url, { headers: { 'x-share-password': 'wrong' } }), 401, 'unauthenticated');
    assert.equal((await visit('GET', s.url, { headers: { 'x-share-password': Buffer.from('pä:ss word').toString('latin1') } })).status, 200);
    assert.equal((await visit('GET', s.url, { headers: basic('pä:ss word') })).status, 200);
    for (const headers of [basic('wrong'), { authorization: 'Basic !!' }, { authorization: 'Basic ' }, { authorization: `Basic ${Buffer.from('nocolon').toString('base64')}` }, { authorization: `Bearer ${server.key}` }, basic('x'.repeat(5000)), basic('pä:ss word\0')])
      refused(await visit('GET', s.url, { headers }), 401, 'unauthenticated');
    assert.doesNotMatch(server.log, /ss word/);
  });

  // From another address of this machine.
  const from = (address, url, password) => new Promise((done, fail) => {
    http.get(url, { localAddress: address, agent: false, headers: { 'x-share-password': password } },
      (response) => { response.resume(); response.on('end', () => done({ status: response.statusCode, wait: Number(response.headers['retry-after']) })); }).on('error', fail);
  });
  const wrongOnes = async (s) => (await request(server, 'GET', `/api/audit?object=${s.id}&limit=500`)).body.data
    .filter((e) => e.action === 'share.visit' && e.result === 'unauthenticated').length;

  test('I5 guessing is slowed and then refused for a while', async () => {
    const s = await share({ path: 'pub/a.txt', password: 'right' });
    const statuses = [];
    for (let i = 0; i < 14; i++) statuses.push((await visit('GET', s.url, { headers: { 'x-share-password': `guess ${i}` } })).status);
    assert.deepEqual(statuses, [...Array(10).fill(401), ...Array(4).fill(429)]);
    const last = await visit('GET', s.url, { headers: { 'x-share-password': 'guess' } });
    assert.ok(Number(last.headers['retry-after']) >= 1 && Number(last.headers['retry-after']) <= 15);
  });

  test('I5 200 guesses at once get no more than the allowance, and keep nobody else out', async () => {
    const s = await share({ path: 'pub/a.txt', password: 'right' });
    const guesses = Array.from({ length: 200 }, (_, i) => from('127.0.0.1', s.url, `guess ${i}`));
    assert.equal((await from('127.0.0.2', s.url, 'right')).status, 200, 'during the attack');
    const answers = await Promise.all(guesses);
    const refusedOnes = answers.filter(({ status }) => status === 429);
    const hashed = answers.filter(({ status }) => status === 401).length;
    assert.ok(hashed >= 1 && hashed <= 10, `${hashed} were answered`);
    assert.equal(hashed + refusedOnes.length, 200);
    assert.equal(await wrongOnes(s), hashed);
    assert.ok(refusedOnes.every(({ wait }) => wait >= 1 && wait <= 15));
    assert.equal((await from('127.0.0.2', s.url, 'right')).status, 200, 'after it');
    assert.equal((await from('127.0.0.3', s.url, 'right')).status, 200);
  });

  test('I5 behind the same address the right password works again when the stated time is over', async () => {
    const s = await share({ path: 'pub/a.txt', password: 'right' });
    for (let i = 0; i < 10; i++) await from('127.0.0.1', s.url, `guess ${i}`);
    const { status, wait } = await from('127.0.0.1', s.url, 'right');
    assert.equal(status, 429);
    assert.ok(wait >= 1 && wait <= 15);
    await sleep(wait * 1000);
    assert.equal((await from('127.0.0.1', s.url, 'right')).status, 200);
  });

  test('a client that goes on with an old password does not use up the allowance', async () => {
    const s = await share({ path: 'pub/a.txt', password: 'right' });
    for (let i = 0; i < 30; i++) assert.equal((await from('127.0.0.1', s.url, 'old')).status, 401);
    const all = await Promise.all(Array.from({ length: 30 }, () => from('127.0.0.1', s.url, 'right')));
    assert.deepEqual(all.map(({ status }) => status), Array(30).fill(200));
    assert.equal(await wrongOnes(s), 1);
  });
});

describe('a link to a folder', () => {
  test('lists it and gives its files, and nothing beside it', async () => {
    const s = await share({ path: 'pub/' });
    const list = await visit('GET', s.url);
    assert.equal(list.headers['content-type'], 'application/json');
    assert.deepEqual(list.body.data.map((f) => f.path), ['a.txt', 'sub/ü b.csv']);
    assert.deepEqual(Object.keys(list.body.data[0]), ['path', 'size', 'sha256', 'mime_type', 'modified_at', 'url']);
    for (const f of list.body.data) assert.equal(sha256((await visit('GET', f.url)).bytes), f.sha256);
    assert.equal((await visit('GET', `${s.url}?limit=1`)).body.has_more, true);
    assert.deepEqual((await visit('GET', `${s.url}?limit=1&after=a.txt`)).body.data.map((f) => f.path), ['sub/ü b.csv']);
    for (const path of ['none', '../secret.txt', '..%2fsecret.txt', '%2e%2e/secret.txt', 'sub', 'sub/', 'a.txt/x', '/secret.txt'])
      assert.ok([400, 404].includes((await visit('GET', `${s.url}/${path}`)).status), path);
    const all = await share({ path: '' });
    assert.ok((await visit('GET', all.url)).body.data.some((f) => f.path === 'secret.txt'));
  });
});

describe('writing', () => {
  test('a read link takes nothing', async () => {
    const s = await share({ path: 'pub/' });
    refused(await visit('PUT', `${s.url}/new`, { body: 'x' }), 403, 'forbidden');
    refused(await visit('PUT', (await share({ path: 'pub/a.txt' })).url, { body: 'x' }), 403, 'forbidden');
  });

  test('a write link takes files below its path, as the share\'s own work', async () => {
    const s = await share({ path: 'inbox/', mode: 'write' });
    const bytes = randomBytes(1000);
    const made = await visit('PUT', `${s.url}/from/me.bin`, { body: bytes });
    assert.deepEqual([made.status, made.body], [201, { path: 'from/me.bin', size: 1000, sha256: sha256(bytes) }]);
    assert.deepEqual((await w.get('inbox/from/me.bin')).bytes, bytes);
    assert.equal((await visit('PUT', `${s.url}/from/me.bin`, { body: 'again' })).status, 200);
    const [last] = (await w.history('?path=inbox/from/me.bin')).data;
    assert.deepEqual([last.author, last.kind], [s.id, 'share']);
    for (const path of ['../pub/a.txt', '..%2fx', '%2e%2e/x']) assert.ok([400, 404].includes((await visit('PUT', `${s.url}/${path}`, { body: 'x' })).status), path);
    refused(await visit('PUT', s.url, { body: 'x' }), 400);
    refused(await visit('PUT', `${s.url}/big`, { body: Buffer.alloc(2 * 1024 * 1024 + 1) }), 413, 'too_large');
    assert.equal((await w.get('pub/a.txt')).status, 200);
    await w.write('inbox/one.txt', 'before');
    const file = await share({ path: 'inbox/one.txt', mode: 'write' });
    assert.equal((await visit('PUT', file.url, { body: 'direct' })).status, 200);
    assert.equal((await w.get('inbox/one.txt')).text, 'direct');
  });

  test('a lock holds against a link too', async () => {
    const s = await share({ path: 'inbox/', mode: 'write' });
    await w.ok('POST', '/locks', { body: { path: 'inbox/locked', ttl_s: 60 } });
    refused(await visit('PUT', `${s.url}/locked`, { body: 'x' }), 423, 'locked');
  });
});

describe('making links', () => {
  test('H3 fields are checked', async () => {
    const make = (body) => request(server, 'POST', '/api/shares', { body });
    for (const body of [{}, { workspace: w.id }, { path: 'pub/a.txt' }, { workspace: w.id, path: 'pub/a.txt', mode: 'delete' }, { workspace: w.id, path: '../x' }, { workspace: w.id, path: 'pub/a.txt', expires_in_s: 0 },
      { workspace: w.id, path: 'pub/a.txt', password: '' }, { workspace: w.id, path: 'pub/a.txt', password: 'x'.repeat(129) }, { workspace: w.id, path: 'pub/a.txt', max_downloads: 0 }, { workspace: w.id, path: 'pub/a.txt', days: 1 }])
      refused(await make(body), 400);
    assert.equal((await make({ workspace: w.id, path: 'pub/a.txt', password: 'x'.repeat(128) })).status, 201);
    refused(await make({ workspace: unknownId('ws'), path: 'a' }), 404, 'not_found');
    refused(await make({ workspace: w.id, path: 'none' }), 404, 'not_found');
    refused(await request(server, 'GET', '/api/shares'), 400, 'invalid_request', /workspace/);
    refused(await request(server, 'DELETE', `/api/shares/${unknownId('share')}`), 404, 'not_found');
  });

  test('I7 a link\'s secret is in no log and not in the store', async () => {
    const s = await share({ path: 'pub/a.txt' });
    await visit('GET', s.url);
    await sleep(100);
    assert.ok(!server.log.includes(s.url.split('/s/')[1]));
    assert.match(server.log, /\/s\/\{secret\}/);
  });
});

describe('a short-lived link to one version', () => {
  const link = (file, body, options = {}) => request(server, 'POST', `/api/files/${file}/link`, { body, ...options });

  test('fetches that version without a key, for an hour unless it says otherwise', async () => {
    const one = await w.write('linked.txt', 'one');
    const made = await link(one.file_id);
    assert.equal(made.status, 201, made.text);
    assert.deepEqual([made.body.version, made.body.path, made.body.mode], [one.version, 'linked.txt', 'read']);
    assert.equal(Date.parse(made.body.expires_at) - Date.parse(made.body.created_at), 3600_000);
    await w.write('linked.txt', 'two');
    assert.equal(await (await fetch(made.body.url)).text(), 'one');
    const old = await link(one.file_id, { version: one.version, expires_in_s: 86400 });
    assert.equal(await (await fetch(old.body.url)).text(), 'one');
    assert.equal(await (await fetch((await link(one.file_id)).body.url)).text(), 'two');
    for (const body of [{ expires_in_s: 86401 }, { expires_in_s: 0 }, { other: 1 }]) refused(await link(one.file_id, body), 400);
    refused(await link(unknownId('file')), 404, 'not_found');
    refused(await link('nonsense'), 404, 'not_found');
    refused(await link(one.file_id, { version: `ver_${'0'.repeat(40)}` }), 404, 'not_found');
    const short = await link(one.file_id, { expires_in_s: 1 });
    await sleep(1100);
    refused(await visit('GET', short.body.url), 404, 'not_found');
    assert.equal((await request(server, 'DELETE', `/api/shares/${made.body.id}`)).status, 204);
    refused(await visit('GET', made.body.url), 404, 'not_found');
    const events = (await request(server, 'GET', `/api/audit?object=${made.body.id}&limit=100`)).body.data.map((e) => e.action);
    for (const action of ['share.create', 'share.visit', 'share.revoke']) assert.ok(events.includes(action), `${action}: ${events}`);
  });
});

describe('a link to upload one file', () => {
  const put = (url, body, options = {}) => visit('PUT', url, { body, ...options });
  const upload = (path, more = {}) => share({ path, mode: 'upload', ...more });
  const form = (bytes, filename = 'user.bin') => {
    const boundary = 'x'.repeat(20);
    return { headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
      body: Buffer.concat([Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${filename}"\r\n\r\n`), Buffer.from(bytes), Buffer.from(`\r\n--${boundary}--\r\n`)]) };
  };

  test('takes one file at its path by PUT, then ends; gives nothing to read', async () => {
    const s = await upload('in/new.bin');
    assert.deepEqual([s.mode, s.max_downloads, s.downloads], ['upload', 1, 0]);
    assert.equal(Date.parse(s.expires_at) - Date.parse(s.created_at), 3600_000);
    refused(await visit('GET', `${s.url}/in/new.bin`), 403, 'forbidden');
    refused(await put(`${s.url}/elsewhere`, 'x'), 404, 'not_found');
    const bytes = randomBytes(100_000);
    const made = await put(s.url, bytes);
    assert.deepEqual([made.status, made.body.sha256], [201, sha256(bytes)]);
    assert.equal(sha256((await request(server, 'GET', `/api/workspaces/${w.id}/files/in/new.bin`)).bytes), sha256(bytes));
    refused(await put(s.url, 'again'), 404, 'not_found');
    refused(await visit('GET', s.url), 404, 'not_found');
    const events = (await request(server, 'GET', `/api/audit?actor=${s.id}&limit=100`)).body.data.map((e) => e.action);
    assert.ok(events.includes('share.put'), `${events}`);
    // Once is once, although the same bytes change nothing.
    const same = await upload('in/new.bin');
    assert.equal((await put(same.url, bytes)).status, 200);
    refused(await put(same.url, bytes), 404, 'not_found');
    const answers = await Promise.all(Array.from({ length: 8 }, ((url) => (_, i) => put(url, `race ${i}`))((await upload('in/race')).url)));
    assert.deepEqual(answers.map((a) => a.status).sort(), [201, 404, 404, 404, 404, 404, 404, 404]);
  });

  test('has a page with a form that can do nothing else', async () => {
    const s = await upload('in/<b>form.bin');
    const page = await visit('GET', s.url, { headers: { accept: 'text/html' } });
    assert.deepEqual([page.status, page.headers['content-type']], [200, 'text/html; charset=utf-8']);
    assert.equal(page.headers['content-security-policy'], "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'");
    assert.equal(page.headers['referrer-policy'], 'no-referrer');
    assert.match(page.text, /<form method="post" enctype="multipart\/form-data">/);
    assert.doesNotMatch(page.text, /<b>|script/);
    assert.equal((await visit('GET', s.url)).status, 200, 'looking does not use it up');
    refused(await visit('POST', s.url, { body: 'x' }), 400);
    refused(await visit('POST', s.url, form('', '')), 400);
    const sent = form('from a browser', '../../etc/passwd');
    const done = await visit('POST', s.url, { ...sent, headers: { ...sent.headers, accept: 'text/html,*/*' } });
    assert.equal(done.status, 201);
    assert.match(done.text, /The file was stored/);
    assert.equal((await request(server, 'GET', `/api/workspaces/${w.id}/files/in/${encodeURIComponent('<b>form.bin')}`)).text, 'from a browser');
    refused(await visit('POST', s.url, form('x')), 404, 'not_found');
    const json = await visit('POST', (await upload('in/j')).url, form('x'));
    assert.deepEqual([json.status, json.body.size], [201, 1]);
  });

  test('has limits: size, time, path, locks, revocation', async () => {
    const s = await upload('in/limits');
    refused(await put(s.url, Buffer.alloc(2 * 1024 * 1024 + 1)), 413, 'too_large');
    assert.equal((await put(s.url, Buffer.alloc(2 * 1024 * 1024))).status, 201, 'a failure does not use it up');
    for (const bad of [{ expires_in_s: 86401 }, { max_downloads: 2 }, { version: 'ver_x' }, { path: 'folder/' }, { path: '' }])
      refused(await request(server, 'POST', '/api/shares', { body: { workspace: w.id, path: 'in/x', mode: 'upload', ...bad } }), 400);
    assert.ok(await upload('in/x', { expires_in_s: 86400 }));
    const short = await upload('in/x', { expires_in_s: 1 });
    const revoked = await upload('in/x');
    assert.equal((await request(server, 'DELETE', `/api/shares/${revoked.id}`)).status, 204);
    await sleep(1100);
    for (const gone of [short, revoked]) refused(await put(gone.url, 'x'), 404, 'not_found');
    assert.equal((await request(server, 'POST', `/api/workspaces/${w.id}/locks`, { body: { path: 'in/locked' } })).status, 201);
    refused(await put((await upload('in/locked')).url, 'x'), 423, 'locked');
    refused(await visit('POST', (await share({ path: 'pub/a.txt' })).url, form('x')), 403, 'forbidden');
    const guarded = await upload('in/guarded', { password: 'secret' });
    refused(await put(guarded.url, 'x'), 401, 'unauthenticated');
    assert.equal((await put(guarded.url, 'x', { headers: { 'x-share-password': 'secret' } })).status, 201);
  });
});
