// SPDX-License-Identifier: Apache-2.0
// Workspaces mirrored to buckets and folders after each commit, and objects
// attached as inputs, against the scripted S3 server: resumed after kill -9,
// with outages, refused where the operator did not allow it, and audited.
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Glovebox, bin, pool, until } from '../../lib/glovebox.mjs';
import { keyFolder, startS3Server } from '../../lib/s3.mjs';

let g, s3, secure, keys, folder;
const bucket = (name, extra) => ({ name, endpoint: s3.url, key_file: join(keys, 'keys'), deadline_s: 3, ...extra });
const config = () => ({ pools: [pool({ ready: 0 })], mirror_folders: `/nowhere,${folder}`,
  buckets: [bucket('copies', { use: 'mirror' }), bucket('inputs', { use: 'attach' }), bucket('theirs', { use: 'mirror,attach', tenants: 'acme' }),
    bucket('secure', { use: 'mirror', endpoint: secure.url, ca_file: join(keys, 'cert.pem') }), bucket('doubtful', { use: 'mirror', bucket: 'secure', endpoint: secure.url })] });
before(async () => {
  s3 = await startS3Server({ buckets: ['copies', 'inputs', 'theirs'] });
  keys = keyFolder();
  const made = spawnSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=localhost',
    '-addext', 'subjectAltName=DNS:localhost', '-keyout', join(keys, 'key.pem'), '-out', join(keys, 'cert.pem')], { encoding: 'utf8' });
  assert.equal(made.status, 0, made.stderr);
  chmodSync(join(keys, 'cert.pem'), 0o644);
  secure = await startS3Server({ buckets: ['secure'], tls: { key: readFileSync(join(keys, 'key.pem')), cert: readFileSync(join(keys, 'cert.pem')) } });
  folder = mkdtempSync('/tmp/glovebox-mirror-');
  chmodSync(folder, 0o777);
  g = await Glovebox.start({ config: config() });
});
after(async () => { await g?.stop(); await s3?.close(); await secure?.close(); for (const d of [keys, folder]) rmSync(d, { recursive: true }); });

const make = async () => (await g.ok('POST', '/api/workspaces', { name: `m${Math.random()}` })).id;
const put = async (ws, path, text) => {
  const r = await fetch(`${g.url}/api/workspaces/${ws}/files/${path}`, { method: 'PUT', body: text, headers: { authorization: `Bearer ${g.key}` } });
  assert.ok(r.ok, `${r.status} ${await r.text()}`);
};
const read = async (ws, path) => (await fetch(`${g.url}/api/workspaces/${ws}/files/${path}`, { headers: { authorization: `Bearer ${g.key}` } })).text();
const state = (ws) => g.ok('GET', `/api/workspaces/${ws}/mirror`);
const settled = (ws, ms = 30_000) => until(async () => { const m = await state(ws); return m.lag === 0 && m.commit && m; }, { ms, what: 'mirrored' });
const objects = (name, prefix) => Object.fromEntries([...s3.state.buckets.get(name).objects]
  .filter(([k]) => k.startsWith(prefix)).map(([k, o]) => [k.slice(prefix.length), String(o.bytes)]));
// Not spawnSync: the S3 server is in this process.
const cli = (...args) => new Promise((done) => execFile(bin('glovebox'), args, { env: { ...process.env, GLOVEBOX_URL: g.url, GLOVEBOX_KEY: g.key } },
  (error, stdout, stderr) => done({ status: error ? error.code : 0, stdout, stderr })));

test('each commit is copied to the bucket, moves and deletes included', async () => {
  const ws = await make();
  await put(ws, 'a.txt', 'one');
  await put(ws, 'dir/b.txt', 'two');
  const set = await g.ok('PUT', `/api/workspaces/${ws}/mirror`, { destination: 's3://copies/first' });
  assert.equal(set.destination, 's3://copies/first/');
  const first = await settled(ws);
  assert.deepEqual(objects('copies', 'first/'), { 'a.txt': 'one', 'dir/b.txt': 'two' });
  assert.deepEqual([first.files, first.bytes, first.error, first.retry_at], [2, 6, '', null]);
  await put(ws, 'a.txt', 'changed');
  await g.ok('POST', `/api/workspaces/${ws}/move`, { from: 'dir/b.txt', to: 'c.txt' });
  await until(() => JSON.stringify(objects('copies', 'first/')) === '{"a.txt":"changed","c.txt":"two"}', { ms: 20_000, what: 'moved' });
  await g.ok('DELETE', `/api/workspaces/${ws}/files/a.txt`);
  await until(() => JSON.stringify(objects('copies', 'first/')) === '{"c.txt":"two"}', { ms: 20_000, what: 'deleted' });
  const trail = JSON.stringify(await g.ok('GET', `/api/audit?workspace=${ws}&limit=100`));
  for (const action of ['mirror.set', 'mirror.push']) assert.match(trail, new RegExp(action));
  // Ended: what was copied stays, and nothing follows.
  await g.ok('DELETE', `/api/workspaces/${ws}/mirror`);
  assert.equal((await g.call('GET', `/api/workspaces/${ws}/mirror`)).status, 404);
  await put(ws, 'late', 'x');
  assert.deepEqual(objects('copies', 'first/'), { 'c.txt': 'two' });
});

test('https is verified, by the CA of the bucket', async () => {
  const ws = await make();
  await put(ws, 'f', 'over TLS');
  await g.ok('PUT', `/api/workspaces/${ws}/mirror`, { destination: 's3://secure/x' });
  await settled(ws);
  assert.equal(String(secure.state.buckets.get('secure').objects.get('x/f').bytes), 'over TLS');
  await g.ok('PUT', `/api/workspaces/${ws}/mirror`, { destination: 's3://doubtful/y' });
  const failed = await until(async () => { const m = await state(ws); return m.error && m; }, { ms: 30_000, what: 'refused' });
  assert.match(failed.error, /certificate/);
  assert.ok(!secure.state.buckets.get('secure').objects.has('y/f'));
});

test('without delete, what is deleted here stays there', async () => {
  const ws = await make();
  await put(ws, 'kept', '1');
  await g.ok('PUT', `/api/workspaces/${ws}/mirror`, { destination: 's3://copies/kept', delete: false });
  await settled(ws);
  await g.ok('DELETE', `/api/workspaces/${ws}/files/kept`);
  await put(ws, 'more', '2');
  await settled(ws);
  assert.deepEqual(objects('copies', 'kept/'), { kept: '1', more: '2' });
});

test('a folder gets whole files, below the allowed one only, and through no link', async () => {
  const ws = await make();
  await put(ws, 'x/y.txt', 'in a folder');
  const at = join(folder, 'ws');
  await g.ok('PUT', `/api/workspaces/${ws}/mirror`, { destination: `file://${at}` });
  await settled(ws);
  assert.equal(readFileSync(join(at, 'x/y.txt'), 'utf8'), 'in a folder');
  assert.deepEqual(readdirSync(join(at, 'x')), ['y.txt']);
  await g.ok('DELETE', `/api/workspaces/${ws}/files/x/y.txt`);
  await until(() => !existsSync(join(at, 'x/y.txt')), { what: 'removed' });
  const other = await make();
  for (const destination of ['file:///etc/x', `file://${folder}/../etc`, `file://${folder}`, 'file:///nowhere-else/a'])
    assert.ok([400, 403].includes((await g.call('PUT', `/api/workspaces/${other}/mirror`, { destination })).status), destination);
  // A link in the destination leads nowhere.
  mkdirSync(join(folder, 'linked'));
  symlinkSync('/tmp', join(folder, 'linked', 'out'));
  await put(other, 'out/escape.txt', 'x');
  await g.ok('PUT', `/api/workspaces/${other}/mirror`, { destination: `file://${folder}/linked` });
  const failed = await until(async () => { const m = await state(other); return m.error && m; }, { what: 'refused' });
  assert.match(failed.error, /cannot write out\/escape\.txt/);
  assert.ok(failed.retry_at);
  assert.ok(!existsSync('/tmp/escape.txt'));
});

test('destinations are the operator\'s: unknown buckets, other uses and other tenants are refused', async () => {
  const ws = await make();
  const set = (destination) => g.call('PUT', `/api/workspaces/${ws}/mirror`, { destination });
  for (const [destination, status] of [['s3://unknown/x', 403], ['s3://inputs/x', 403], ['s3://theirs/x', 403], ['https://example.org/x', 400],
    ['s3://copies/../x', 400], ['s3://copies//x', 400], ['', 400], [`s3://copies/${'x'.repeat(1100)}`, 400]])
    assert.equal((await set(destination)).status, status, destination);
  assert.equal((await set('s3://copies/mine')).status, 200);
  const other = await make();
  for (const destination of ['s3://copies/mine', 's3://copies/mine/below', 's3://copies/'])
    assert.equal((await g.call('PUT', `/api/workspaces/${other}/mirror`, { destination })).status, 409, destination);
  assert.equal((await g.call('PUT', `/api/workspaces/${other}/mirror`, { destination: 's3://copies/mine2' })).status, 200);
  // Another tenant's key finds no workspace; one of the bucket's tenant may use its bucket.
  const acme = { key: (await g.ok('POST', '/api/keys', { tenant: 'acme', scopes: ['files:read', 'files:write'] })).secret };
  assert.equal((await g.call('PUT', `/api/workspaces/${ws}/mirror`, { destination: 's3://theirs/x' }, acme)).status, 404);
  assert.equal((await g.call('GET', `/api/workspaces/${ws}/mirror`, undefined, acme)).status, 404);
  const theirs = await g.ok('POST', '/api/workspaces', { name: 'theirs' }, acme);
  assert.equal((await g.call('PUT', `/api/workspaces/${theirs.id}/mirror`, { destination: 's3://theirs/x' }, acme)).status, 200);
});

test('an outage is reported, retried and made up for; kill -9 in a long copy loses nothing', async () => {
  const ws = await make();
  await g.ok('PUT', `/api/workspaces/${ws}/mirror`, { destination: 's3://copies/long' });
  s3.state.down = true;
  await put(ws, 'first', '1');
  const failed = await until(async () => { const m = await state(ws); return m.error && m; }, { ms: 30_000, what: 'error' });
  assert.match(failed.error, /object store copies/);
  assert.equal(failed.lag, 1);
  s3.state.down = false;
  await settled(ws);
  assert.deepEqual(objects('copies', 'long/'), { first: '1' });

  // Each put takes a while, so that the kill falls into the copy.
  const form = new FormData();
  const names = Array.from({ length: 60 }, (_, i) => `f${String(i).padStart(2, '0')}`);
  for (const name of names) form.append('file', new Blob([name]), name);
  s3.state.faults.push({ kind: 'slow', ms: 100, times: 1000, method: 'PUT' });
  const stored = await fetch(`${g.url}/api/workspaces/${ws}/files`, { method: 'POST', body: form, headers: { authorization: `Bearer ${g.key}` } });
  assert.equal(stored.status, 201, await stored.text());
  await until(() => Object.keys(objects('copies', 'long/')).length > 10, { ms: 20_000, what: 'begun' });
  g.child.kill('SIGKILL');
  await g.exited;
  assert.ok(Object.keys(objects('copies', 'long/')).length < 61);
  s3.state.faults.length = 0;
  g = await Glovebox.start({ config: config(), dir: g.dir });
  await settled(ws);
  assert.deepEqual(Object.keys(objects('copies', 'long/')).sort(), [...names, 'first'].sort());
});

test('objects are attached as files of one commit, and the bucket is only read', async () => {
  const ws = await make();
  const input = s3.state.buckets.get('inputs').objects;
  for (const [key, text] of [['data/one.csv', 'a,b'], ['data/sub/two.csv', 'c'], ['data/empty/', ''], ['other.csv', 'no']])
    input.set(key, { bytes: Buffer.from(text), etag: `e${key}`.replace(/\W/g, ''), at: Date.now() });
  s3.state.log.length = 0;
  const done = await g.ok('POST', `/api/workspaces/${ws}/attach`, { source: 's3://inputs/data', folder: 'in' });
  assert.deepEqual([done.files, done.bytes], [2, 4]);
  assert.match(done.commit, /^cmt_/);
  assert.equal(await read(ws, 'in/one.csv'), 'a,b');
  assert.equal(await read(ws, 'in/sub/two.csv'), 'c');
  assert.ok(s3.state.log.every((line) => line.startsWith('GET ')), s3.state.log.join('\n'));
  const again = await g.ok('POST', `/api/workspaces/${ws}/attach`, { source: 's3://inputs/data', folder: 'in' });
  assert.equal(again.commit, '');
  const refused = (body) => g.call('POST', `/api/workspaces/${ws}/attach`, body);
  for (const [body, status] of [[{ source: 's3://copies/x' }, 403], [{ source: 's3://theirs/x' }, 403], [{ source: 's3://inputs/none' }, 404],
    [{ source: 'file:///etc' }, 400], [{ source: 's3://inputs/data', folder: '../x' }, 400], [{}, 400]])
    assert.equal((await refused(body)).status, status, JSON.stringify(body));
  input.set('bad/a//b', { bytes: Buffer.from('x'), etag: 'e', at: Date.now() });
  assert.equal((await refused({ source: 's3://inputs/bad' })).status, 400);
});

test('the command line sets, shows and ends a mirror, and attaches', async () => {
  const ws = await make();
  await put(ws, 'file', 'text');
  const set = await cli('workspaces', 'mirror', ws, 's3://copies/cli', '--delete', 'off');
  assert.equal(set.status, 0, set.stderr);
  assert.deepEqual(Object.fromEntries(Object.entries(await state(ws)).filter(([k]) => ['destination', 'delete'].includes(k))), { destination: 's3://copies/cli/', delete: false });
  await settled(ws);
  const shown = await cli('workspaces', 'mirror', ws);
  assert.match(shown.stdout, /last commit: cmt_\w+, copied at .*\ncopied: 1 files, 4 B\ncommits to copy: 0\ndeletes there: no/);
  assert.equal((await cli('workspaces', 'mirror', ws, '--stop')).status, 0);
  assert.notEqual((await cli('workspaces', 'mirror', ws)).status, 0);
  const attached = await cli('workspaces', 'attach', ws, 's3://inputs/data', 'in');
  assert.equal(attached.status, 0, attached.stderr);
  assert.equal(await read(ws, 'in/one.csv'), 'a,b');
});
