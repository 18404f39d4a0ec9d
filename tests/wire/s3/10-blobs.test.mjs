// SPDX-License-Identifier: Apache-2.0
// A service whose blobs are in S3, on a real S3 server (Swift's s3api): what
// is acknowledged is there, a lost disk loses nothing, the collector frees
// it, and an outage is survived without a restart.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Glovebox, bin, pool, until } from '../../lib/glovebox.mjs';
import { keyFolder, keysOf, s3, startSwift } from '../../lib/s3.mjs';
import { sha256 } from '../../lib/workspace.mjs';

const complete = process.env.GLOVEBOX_TEST_S3 ? false : 'run by make test-s3';
let g, swift, keys;
const config = () => ({ pools: [pool({ ready: 0 })], blob_bucket: 'glovebox', collect_every_s: 30, blob_cache_bytes: '64MiB',
  buckets: [{ name: 'glovebox', endpoint: swift.url, key_file: join(keys, 'keys'), prefix: 'blobs/', deadline_s: 10, part_bytes: '5MiB' }] });
const restart = async () => { g = await Glovebox.start({ config: config(), dir: g.dir }); };
before(async () => {
  keys = keyFolder();
  swift = await startSwift();
  const made = await s3(swift.url, 'PUT', '/glovebox');
  assert.equal(made.status, 200, String(made.body));
  g = await Glovebox.start({ config: config() });
});
after(async () => { await g?.stop(); await swift?.stop(); rmSync(keys, { recursive: true }); });

const make = async () => (await g.ok('POST', '/api/workspaces', { name: `w${Date.now()}` })).id;
const put = (ws, path, body) => fetch(`${g.url}/api/workspaces/${ws}/files/${path}`,
  { method: 'PUT', body, headers: { authorization: `Bearer ${g.key}` } });
const get = (ws, path) => fetch(`${g.url}/api/workspaces/${ws}/files/${path}`, { headers: { authorization: `Bearer ${g.key}` } });
const bytesOf = async (ws, path) => { const r = await get(ws, path); assert.equal(r.status, 200); return Buffer.from(await r.arrayBuffer()); };
const cache = () => join(g.dir, 'data', 'blobs', 'cache');
const cached = () => readdirSync(cache()).flatMap((d) => readdirSync(join(cache(), d)));
const emptyCache = () => { for (const d of readdirSync(cache())) for (const f of readdirSync(join(cache(), d))) rmSync(join(cache(), d, f)); };

test('D1: an acknowledged upload is in the bucket, small or in parts', async () => {
  const ws = await make();
  const small = Buffer.from('small'), large = randomBytes(12 << 20);
  assert.equal((await put(ws, 'small.txt', small)).status, 201);
  assert.equal((await put(ws, 'large.bin', large)).status, 201);
  const stored = await keysOf(swift.url, 'glovebox', 'blobs/');
  for (const bytes of [small, large]) {
    const name = sha256(bytes);
    assert.ok(stored.includes(`blobs/${name.slice(0, 2)}/${name}`), name);
  }
  emptyCache();
  assert.deepEqual(await bytesOf(ws, 'large.bin'), large);
  assert.deepEqual(await bytesOf(ws, 'small.txt'), small);
  assert.ok(cached().includes(sha256(large)));
});

test('D1: what code wrote and read survives kill -9 and an empty cache', async () => {
  const ws = await make();
  assert.equal((await put(ws, 'in.txt', 'four words are here')).status, 201);
  const session = await g.ok('POST', '/api/sessions', { workspace: ws });
  const ran = await g.ok('POST', `/api/sessions/${session.id}/executions`,
    { code: "t=open('in.txt').read()\nopen('out.txt','w').write(str(len(t.split())))\nprint(len(t))" });
  assert.match(JSON.stringify(ran), /19/);
  assert.equal(String(await bytesOf(ws, 'out.txt')), '4');
  g.child.kill('SIGKILL');
  await g.exited;
  rmSync(join(g.dir, 'data', 'blobs', 'cache'), { recursive: true });
  await restart();
  assert.equal(String(await bytesOf(ws, 'out.txt')), '4');
  const again = await g.ok('POST', '/api/sessions', { workspace: ws });
  const read = await g.ok('POST', `/api/sessions/${again.id}/executions`, { code: "print(open('out.txt').read()+'!')" });
  assert.match(JSON.stringify(read), /4!/);
});

test('the collector removes what nothing refers to from the bucket, and verify reads the bucket', async () => {
  const ws = await make();
  const bytes = randomBytes(50_000), name = sha256(bytes);
  assert.equal((await put(ws, 'gone.bin', bytes)).status, 201);
  const key = `blobs/${name.slice(0, 2)}/${name}`;
  assert.ok((await keysOf(swift.url, 'glovebox', key)).length);
  await g.ok('DELETE', `/api/workspaces/${ws}`);
  await g.ok('POST', `/api/workspaces/${ws}/purge`, {});
  assert.deepEqual(await keysOf(swift.url, 'glovebox', key), []);
  // Every blob is read from the bucket, not from the cache.
  emptyCache();
  const verified = await fetch(`${g.url}/api/verify`, { method: 'POST', headers: { authorization: `Bearer ${g.key}` } });
  assert.match(await verified.text(), /"missing":0/);
});

test('an outage: cached files are read, writes get 503 with Retry-After, recovery needs no restart', async () => {
  const ws = await make();
  const here = randomBytes(30_000), away = randomBytes(40_000);
  assert.equal((await put(ws, 'here', here)).status, 201);
  assert.equal((await put(ws, 'away', away)).status, 201);
  const name = sha256(away);
  rmSync(join(cache(), name.slice(0, 2), name));
  const { port, dir } = swift;
  await swift.stop({ keep: true });
  const refused = await put(ws, 'new', 'x');
  assert.equal(refused.status, 503);
  assert.ok(Number(refused.headers.get('retry-after')) > 0);
  assert.match((await refused.json()).error.message, /object store glovebox/);
  assert.deepEqual(await bytesOf(ws, 'here'), here);
  assert.equal((await get(ws, 'away')).status, 503);
  const ready = await until(async () => { const r = await fetch(`${g.url}/readyz`); return r.status === 503 && r; }, { ms: 30_000, what: 'unready' });
  assert.match(await ready.text(), /blobs: the object store glovebox/);
  const began = Date.now();
  assert.equal((await put(ws, 'new', 'x')).status, 503);
  assert.ok(Date.now() - began < 9000, 'fails fast once it is known to be down');
  assert.match(await (await fetch(`${g.url}/metrics`, { headers: { authorization: `Bearer ${g.key}` } })).text(), /glovebox_object_store_up 0/);

  swift = await startSwift({ dir, port });
  await until(async () => (await fetch(`${g.url}/readyz`)).status === 200, { ms: 60_000, what: 'ready again' });
  assert.equal((await put(ws, 'new', 'x')).status, 201);
  assert.deepEqual(await bytesOf(ws, 'away'), away);
});

test('a start while the store is down serves what is cached, and is unready', { skip: complete }, async () => {
  const ws = await make();
  assert.equal((await put(ws, 'kept', 'still here')).status, 201);
  g.child.kill('SIGTERM');
  await g.exited;
  const { port, dir } = swift;
  await swift.stop({ keep: true });
  g = await Glovebox.start({ config: config(), dir: g.dir, wait: false });
  const endpoint = join(g.dir, 'data', 'endpoint');
  await until(() => existsSync(endpoint), { ms: 30_000, what: 'endpoint' });
  g.url = readFileSync(endpoint, 'utf8').trim();
  g.key = readFileSync(join(g.dir, 'data', 'admin.key'), 'utf8').trim();
  await until(async () => /blobs/.test(await (await fetch(`${g.url}/readyz`)).text()), { ms: 30_000, what: 'unready' });
  assert.equal(String(await bytesOf(ws, 'kept')), 'still here');
  swift = await startSwift({ dir, port });
  await until(async () => (await fetch(`${g.url}/readyz`)).status === 200, { ms: 60_000, what: 'ready' });
});

test('a backup has the bytes of the bucket, and a restored one is uploaded to another', { skip: complete }, async () => {
  const ws = await make();
  const bytes = randomBytes(70_000);
  assert.equal((await put(ws, 'saved.bin', bytes)).status, 201);
  emptyCache();
  const to = join(g.dir, 'data', 'copy');
  await g.ok('POST', '/api/backup', { path: to });
  const name = sha256(bytes);
  assert.deepEqual(readFileSync(join(to, 'blobs', name.slice(0, 2), name)), bytes);
  const fresh = mkdtempSync('/tmp/glovebox-test-');
  chmodSync(fresh, 0o755);
  const restored = spawnSync(bin('glovebox'), ['restore', to, '--data', join(fresh, 'data')], { encoding: 'utf8' });
  assert.equal(restored.status, 0, restored.stderr);
  const there = config();
  there.buckets[0].prefix = 'restored/';
  const h = await Glovebox.start({ config: there, dir: fresh });
  try {
    await until(async () => /glovebox_blobs_not_uploaded 0/.test(await (await fetch(`${h.url}/metrics`, { headers: { authorization: `Bearer ${h.key}` } })).text()),
      { ms: 60_000, what: 'uploaded' });
    assert.ok((await keysOf(swift.url, 'glovebox', `restored/${name.slice(0, 2)}/`)).includes(`restored/${name.slice(0, 2)}/${name}`));
    const r = await fetch(`${h.url}/api/workspaces/${ws}/files/saved.bin`, { headers: { authorization: `Bearer ${h.key}` } });
    assert.deepEqual(Buffer.from(await r.arrayBuffer()), bytes);
  } finally {
    await h.stop();
  }
});

test('the configuration is refused where it makes no sense, and blobs in S3 are not lost to a start without it', async () => {
  const check = (c) => {
    writeFileSync(join(keys, 'check.yaml'), JSON.stringify(c));
    return spawnSync(bin('gloveboxd'), ['--config', join(keys, 'check.yaml'), '--check'], { encoding: 'utf8' });
  };
  const bucket = { name: 'b', endpoint: 'https://s3.example.org' };
  assert.equal(check({ blob_bucket: 'b', buckets: [bucket] }).status, 0);
  for (const [c, why] of [
    [{ blob_bucket: 'x', buckets: [bucket] }, /blob_bucket x is no entry/],
    [{ blob_bucket: 'b', buckets: [{ ...bucket, use: 'mirror' }] }, /blob_bucket b is no entry/],
    [{ buckets: [bucket, bucket] }, /two buckets are named/],
    [{ buckets: [{ ...bucket, endpoint: 'http://192.0.2.1' }] }, /https, or http to a loopback/],
    [{ buckets: [{ ...bucket, use: 'everything' }] }, /blobs, mirror and attach/],
    [{ blob_bucket: 'b', buckets: [{ ...bucket, tenants: 'acme' }] }, /all tenants/],
    [{ buckets: [{ endpoint: 'https://x' }] }, /has no name/],
    [{ buckets: [{ ...bucket, part_bytes: '1MiB' }] }, /part_bytes/],
  ]) {
    const r = check(c);
    assert.notEqual(r.status, 0, JSON.stringify(c));
    assert.match(r.stderr + r.stdout, why);
  }
  g.child.kill('SIGTERM');
  await g.exited;
  const without = await Glovebox.start({ config: { pools: [pool({ ready: 0 })] }, dir: g.dir, wait: false });
  assert.notEqual((await without.exited).code, 0);
  assert.match(without.log, /are in an object store/);
  await restart();
});
