// SPDX-License-Identifier: Apache-2.0
// The index pip installs from: out of a folder, out of an index, and only what
// was asked about and is what its hash says.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Lab, MODE, PUBLIC, REPORT } from '../../lib/egress.mjs';

const sha = (bytes) => createHash('sha256').update(bytes).digest('hex');
const b64 = (text) => Buffer.from(text).toString('base64');
const INDEX = 'http://packages.glovebox';
let lab;
let dir;
const wheels = { 'Demo_Pkg-1.0-py3-none-any.whl': 'demo one', 'demo_pkg-1.1-py3-none-any.whl': 'demo one one', 'demo-pkg-0.9.tar.gz': 'source',
  'other-2.0-py3-none-any.whl': 'other', 'big-1-py3-none-any.whl': 'x'.repeat(40_000_000) };

before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'glovebox-wheels-'));
  chmodSync(dir, 0o755);
  for (const [name, bytes] of Object.entries(wheels)) writeFileSync(join(dir, name), bytes, { mode: 0o644 });
  writeFileSync(join(dir, 'notes.txt'), 'not a package', { mode: 0o644 });
  mkdirSync(join(dir, 'demo_pkg-3.0-py3-none-any.whl'));
  lab = await Lab.open({ wheels_dir: dir, index_url: 'http://10.0.0.5:8080/simple/', answer_ms: 2000, idle_ms: 5000 });
  await lab.names({ 'files.example': { A: [PUBLIC] }, 'inner.example': { A: ['10.0.0.5'] } });
  const page = (links) => ({ headers: { 'content-type': 'text/html' }, b64: b64(`<!DOCTYPE html><html><body><h1>Links</h1>\n${links.join('<br/>\n')}</body></html>`) });
  const link = (href, hash, extra = '') => `<a href="${href}#sha256=${hash}"${extra}>${href.split('/').pop()}</a>`;
  const file = (filename, hash, more = {}) => ({ filename, url: `/f/${filename}`, hashes: { sha256: hash }, ...more });
  const json = (type, body) => ({ headers: { 'content-type': type }, b64: b64(typeof body === 'string' ? body : JSON.stringify(body)) });
  await lab.world.ask('pages', { pages: {
    '/simple/both/': { ...page([link('/f/both-1.0-py3-none-any.whl', sha('html'))]), json: json('application/vnd.pypi.simple.v1+json; charset=utf-8', { meta: { 'api-version': '1.1' }, name: 'both', versions: ['2.0'], files: [
      file('both-2.0-py3-none-any.whl', sha('both two'), { 'requires-python': '>=3.8,<4', 'upload-time': '2026-01-01T00:00:00Z', yanked: false, size: 8, 'core-metadata': { sha256: sha('m') } }),
      file('both-2.1-py3-none-any.whl', sha('both two one'), { url: 'http://files.example/f/both-2.1-py3-none-any.whl' }),
      file('both-2.2-py3-none-any.whl', sha('y'), { yanked: 'broken' }), file('both-2.3-py3-none-any.whl', sha('y'), { yanked: true }), file('both-2.4-py3-none-any.whl', 'short'),
      { filename: 'both-2.5-py3-none-any.whl', url: '/f/x', hashes: { md5: 'x' } }, file('other-1.0-py3-none-any.whl', sha('y')), file('both-2.6-py3-none-any.whl', sha('something else'))] }) },
    '/simple/broken/': json('application/vnd.pypi.simple.v1+json', '{"files": [{"filename": "broken-1'),
    '/f/both-2.0-py3-none-any.whl': { b64: b64('both two') }, '/f/both-2.1-py3-none-any.whl': { b64: b64('both two one') }, '/f/both-2.6-py3-none-any.whl': { b64: b64('tampered') },
    '/simple/remote/': page([link('/f/remote-1.0-py3-none-any.whl', sha('remote one'), ' data-requires-python="&gt;=3.8"'), link('../../f/remote-1.1-py3-none-any.whl', sha('remote one one')),
      link('http://files.example/f/remote-1.2-py3-none-any.whl', sha('elsewhere')), link('http://inner.example/f/remote-1.3-py3-none-any.whl', sha('inner')),
      link('/f/remote-1.4-py3-none-any.whl', sha('something else')), '<a href="/f/remote-9.0-py3-none-any.whl">no hash</a>', link('/f/another-1.0-py3-none-any.whl', sha('x')),
      link('/f/remote-8.0-py3-none-any.whl', sha('y'), ' data-yanked="bad"')]),
    '/f/remote-1.0-py3-none-any.whl': { b64: b64('remote one') }, '/f/remote-1.1-py3-none-any.whl': { b64: b64('remote one one') },
    '/f/remote-1.2-py3-none-any.whl': { b64: b64('elsewhere') }, '/f/remote-1.3-py3-none-any.whl': { b64: b64('inner') }, '/f/remote-1.4-py3-none-any.whl': { b64: b64('tampered') },
  } });
});
after(async () => {
  await lab?.close();
  rmSync(dir, { recursive: true, force: true });
});

const linksOf = (body) => [...body.matchAll(/<a href="([^"]+)"/g)].map((m) => m[1]);

describe('packages of a folder', () => {
  test('are listed with their hashes, under the name as PEP 503 has it', async () => {
    const s = await lab.grant([], { mode: MODE.none, packages: true });
    for (const name of ['demo-pkg', 'Demo.Pkg', 'demo__pkg']) {
      const got = await s.get(`${INDEX}/simple/${name}/`);
      assert.equal(got.status, 200, got.line);
      assert.deepEqual(linksOf(got.body).sort(), Object.keys(wheels).filter((n) => /demo/i.test(n)).map((n) => `/files/demo-pkg/${n}#sha256=${sha(wheels[n])}`).sort());
    }
    const asked = lab.reports(s.handle, REPORT.question);
    assert.deepEqual([...new Set(asked.map((q) => q.package))], ['demo-pkg']);
    assert.deepEqual([...new Set(asked.map((q) => q.version))].sort(), ['0.9', '1.0', '1.1']);
    assert.ok(asked.every((q) => /^[0-9a-f]{64}$/.test(q.sha256) && q.method === 'LIST'));
  });

  test('are handed out, and told', async () => {
    const s = await lab.grant([], { mode: MODE.none, packages: true });
    const got = await s.get(`${INDEX}/files/demo-pkg/demo_pkg-1.1-py3-none-any.whl`);
    assert.equal(got.body, 'demo one one');
    const r = await s.report(REPORT.package);
    assert.deepEqual([r.allowed, r.package, r.version, r.sha256], [true, 'demo-pkg', '1.1', sha('demo one one')]);
    const big = await s.get(`${INDEX}/files/big/big-1-py3-none-any.whl`);
    assert.equal(big.body.length, 40_000_000);
  });

  test('E4: are neither listed nor handed out without a yes', async () => {
    const s = await lab.grant([], { mode: MODE.none, packages: true });
    for (const answer of [-1, 0]) {
      await lab.driver.ask('policy', { answer });
      const list = await s.get(`${INDEX}/simple/other/`);
      assert.ok([403, 504].includes(list.status), list.line);
      const file = await s.get(`${INDEX}/files/other/other-2.0-py3-none-any.whl`);
      assert.ok([403, 504].includes(file.status), file.line);
      assert.ok(!file.body.includes('other\n'));
    }
    await lab.driver.ask('policy', { answer: 1 });
    assert.equal((await s.get(`${INDEX}/simple/other/`)).status, 200);
  });

  test('E5: count as bytes of the session', async () => {
    const s = await lab.grant([], { mode: MODE.none, packages: true, bytes: 5000 });
    const got = await s.get(`${INDEX}/files/big/big-1-py3-none-any.whl`);
    assert.ok(got.body.length < 5000);
    assert.equal((await s.get(`${INDEX}/simple/demo-pkg/`)).status, 429);
  });
});

describe('packages of an index', () => {
  test('are listed without what has no hash, is another project\'s or was withdrawn', async () => {
    const s = await lab.grant([], { mode: MODE.none, packages: true });
    for (const name of ['remote']) {
      const got = await s.get(`${INDEX}/simple/${name}/`);
      assert.equal(got.status, 200, got.line);
      assert.deepEqual(linksOf(got.body).map((l) => l.replace(/#.*/, '')), ['1.0', '1.1', '1.2', '1.3', '1.4'].map((v) => `/files/remote/remote-${v}-py3-none-any.whl`));
      assert.match(got.body, /data-requires-python="&gt;=3.8"/);
    }
    assert.equal((await s.get(`${INDEX}/simple/missing/`)).status, 404);
  });

  test('are read as JSON where the index has that, and judged and checked the same', async () => {
    const s = await lab.grant([], { mode: MODE.none, packages: true });
    const got = await s.get(`${INDEX}/simple/Both/`);
    assert.equal(got.status, 200, got.line);
    assert.deepEqual(linksOf(got.body), [['2.0', 'both two'], ['2.1', 'both two one'], ['2.6', 'something else']].map(([v, bytes]) => `/files/both/both-${v}-py3-none-any.whl#sha256=${sha(bytes)}`));
    assert.match(got.body, /data-requires-python="&gt;=3.8,&lt;4"/);
    const one = (v) => s.get(`${INDEX}/files/both/both-${v}-py3-none-any.whl`);
    assert.deepEqual([(await one('2.0')).body, (await one('2.1')).body], ['both two', 'both two one']);
    const tampered = await one('2.6');
    assert.deepEqual([tampered.status, /not those of its hash/.test(tampered.body)], [502, true]);
    assert.equal((await one('2.2')).status, 404);
    assert.equal((await s.get(`${INDEX}/simple/broken/`)).status, 404);
    await lab.driver.ask('policy', { answer: -1 });
    try {
      const fresh = await lab.grant([], { mode: MODE.none, packages: true });
      assert.equal((await fresh.get(`${INDEX}/simple/both/`)).status, 403);
    } finally {
      await lab.driver.ask('policy', { answer: 1 });
    }
  });

  test('E3: are fetched from where the index says, unless that is a private address of somebody else', async () => {
    await lab.contacts();
    const s = await lab.grant([], { mode: MODE.none, packages: true });
    const file = (v) => s.get(`${INDEX}/files/remote/remote-${v}-py3-none-any.whl`);
    assert.equal((await file('1.0')).body, 'remote one');
    assert.equal((await file('1.1')).body, 'remote one one');
    assert.equal((await file('1.2')).body, 'elsewhere');
    await lab.contacts();
    const inner = await file('1.3');
    assert.equal(inner.status, 502, inner.line);
    assert.match(inner.body, /no session may reach/);
    const { contacts } = await lab.contacts();
    assert.deepEqual(contacts.map((c) => c.port), [8080], 'only the page was read');
  });

  test('do not leave when their bytes are not those of the hash', async () => {
    const s = await lab.grant([], { mode: MODE.none, packages: true });
    const got = await s.get(`${INDEX}/files/remote/remote-1.4-py3-none-any.whl`);
    assert.equal(got.status, 502);
    assert.match(got.body, /not those of its hash/);
    assert.ok(!got.body.includes('tampered'));
  });
});

describe('E2: of the index nothing else is reachable', () => {
  test('other paths, other methods, other ports of it, or without packages', async () => {
    await lab.contacts();
    const s = await lab.grant([], { mode: MODE.none, packages: true });
    for (const path of ['/', '/simple/', '/simple', '/files/', '/files/demo-pkg/', '/files/demo-pkg/../../etc/passwd', '/files/demo-pkg/notes.txt', '/files/demo-pkg/other-2.0-py3-none-any.whl',
      '/files/demo-pkg/demo_pkg-3.0-py3-none-any.whl', '/simple/../x/', '/simple/%2e%2e/', '/simple/a%2fb/', '/simple/-x/', `/simple/${'a'.repeat(200)}/`, '/f/remote-1.0-py3-none-any.whl']) {
      const got = await s.get(`${INDEX}${path}`);
      assert.ok([403, 404, 502].includes(got.status), `${path}: ${got.line}`);
      assert.ok(!got.body.includes('root:'));
    }
    assert.equal((await s.get(`${INDEX}/simple/demo-pkg/`, { method: 'POST', headers: { 'Content-Length': 0 } })).status, 400);
    assert.equal((await s.get(`${INDEX}/simple/demo-pkg/`, { method: 'DELETE' })).status, 403);
    assert.equal((await s.tunnel('packages.glovebox:443')).status, 403);
    assert.equal((await s.get('http://10.0.0.5:8080/simple/remote/')).status, 403);
    const none = await lab.grant(['good.example']);
    assert.equal((await none.get(`${INDEX}/simple/demo-pkg/`)).status, 403);
  });
});
