// SPDX-License-Identifier: Apache-2.0
// S3 for the suites of tests/wire/s3: the real server (Swift's s3api, see
// swift-s3.py) or the scripted one (s3-server.mjs), and the configuration that
// uses it.
import { spawn } from 'node:child_process';
import { createHash, createHmac } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './glovebox.mjs';
import { KEYS, startS3Server } from './s3-server.mjs';

/** A folder for keys that the service's account can read. */
export function keyFolder() {
  const dir = mkdtempSync('/tmp/glovebox-s3-');
  chmodSync(dir, 0o755);
  writeFileSync(join(dir, 'keys'), `access_key_id=${KEYS.id}\nsecret_access_key=${KEYS.secret}\n`, { mode: 0o644 });
  return dir;
}

/** {url, port, stop(), dir}; start again with the same dir and port. */
export async function startSwift({ dir = mkdtempSync('/tmp/glovebox-swift-'), port = 0 } = {}) {
  const child = spawn('/usr/bin/python3', [join(root, 'tests/lib/swift-s3.py'), dir, ...(port ? ['--port', String(port)] : [])],
    { stdio: ['pipe', 'pipe', 'pipe'] });
  let log = '';
  child.stderr.on('data', (b) => { log = (log + b).slice(-4000); });
  const at = await new Promise((done, fail) => {
    let out = '';
    child.stdout.on('data', (b) => { out += b; const m = /ready (\d+)/.exec(out); if (m) done(Number(m[1])); });
    child.on('exit', () => fail(new Error(`swift ended: ${log}`)));
  });
  const exited = new Promise((done) => child.on('exit', done));
  return { url: `http://127.0.0.1:${at}`, port: at, dir,
    stop: async ({ keep = false } = {}) => { child.kill('SIGTERM'); await exited; if (!keep) rmSync(dir, { recursive: true }); } };
}

/** One signed request, by code of our own: {status, body}. */
export async function s3(url, method, path, { body = '', query = {} } = {}) {
  const bytes = Buffer.from(body), hash = (b) => createHash('sha256').update(b).digest('hex');
  const at = new Date().toISOString().replace(/[-:]|\.\d+/g, ''), day = at.slice(0, 8);
  const enc = (t) => encodeURIComponent(t).replace(/[!'()*]/g, (c) => '%' + c.charCodeAt(0).toString(16).toUpperCase());
  const q = Object.entries(query).map(([k, v]) => `${enc(k)}=${enc(v)}`).sort().join('&');
  const host = new URL(url).host, names = 'host;x-amz-content-sha256;x-amz-date';
  const where = path.split('/').map(enc).join('/');
  const canonical = [method, where, q, `host:${host}`, `x-amz-content-sha256:${hash(bytes)}`, `x-amz-date:${at}`, '', names, hash(bytes)].join('\n');
  const scope = `${day}/us-east-1/s3/aws4_request`;
  let key = createHmac('sha256', `AWS4${KEYS.secret}`).update(day).digest();
  for (const step of ['us-east-1', 's3', 'aws4_request']) key = createHmac('sha256', key).update(step).digest();
  const signature = createHmac('sha256', key).update(['AWS4-HMAC-SHA256', at, scope, hash(canonical)].join('\n')).digest('hex');
  const res = await fetch(`${url}${where}${q && '?'}${q}`, { method, body: method === 'GET' || method === 'HEAD' ? undefined : bytes,
    headers: { 'x-amz-content-sha256': hash(bytes), 'x-amz-date': at,
      authorization: `AWS4-HMAC-SHA256 Credential=${KEYS.id}/${scope},SignedHeaders=${names},Signature=${signature}` } });
  return { status: res.status, body: Buffer.from(await res.arrayBuffer()) };
}

/** Keys of a bucket, all of them (up to 1000). */
export async function keysOf(url, bucket, prefix = '') {
  const { status, body } = await s3(url, 'GET', `/${bucket}`, { query: { 'list-type': '2', prefix } });
  if (status !== 200) throw new Error(`list: ${status} ${body}`);
  return [...String(body).matchAll(/<Key>([^<]*)<\/Key>/g)].map((m) => m[1]);
}

export { startS3Server };
