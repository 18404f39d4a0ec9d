// SPDX-License-Identifier: Apache-2.0
// The nginx site of packaging/nginx in front of a service with single sign-on,
// as docs/OPERATE.md describes both: a real nginx, HTTP/2 and TLS. Only ports
// and the paths of the certificate differ from what is shipped.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http2 from 'node:http2';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, root } from '../../lib/glovebox.mjs';
import { MockProvider } from '../../lib/oidc.mjs';

const HOST = 'glovebox.example.com';
const nginxPath = join(root, 'tools/unpacked');
const nginxArgs = ['nginx', '/usr/sbin/nginx'];
const probe = spawnSync(nginxPath, [...nginxArgs, '-v'], { encoding: 'utf8', timeout: 300_000 });
const dir = mkdtempSync(join(tmpdir(), 'glovebox-proxy-'));
const freePort = () => new Promise((done) => {
  const s = net.createServer().listen(0, '127.0.0.1', () => { const { port } = s.address(); s.close(() => done(port)); });
});

describe('the nginx site', { skip: probe.status !== 0 && `there is no nginx: ${probe.stderr}` }, () => {
  let provider;
  let server;
  let nginx;
  let port;
  let h2;

  // The shipped site, whole; nginx ends if the port is taken meanwhile.
  async function startNginx() {
    const edit = (text, from, to) => { assert.ok(text.includes(from), `the site has ${from}`); return text.replaceAll(from, to); };
    for (let i = 0; i < 5; i++) {
      port = await freePort();
      let site = readFileSync(join(root, 'packaging/nginx/glovebox.conf'), 'utf8');
      site = edit(site, 'listen 443 ssl', `listen 127.0.0.1:${port} ssl`);
      site = edit(site, '    listen [::]:443 ssl http2;\n', '');
      site = edit(site, '127.0.0.1:8650', new URL(server.url).host);
      site = edit(site, '/etc/ssl/glovebox/fullchain.pem', join(dir, 'cert.pem'));
      site = edit(site, '/etc/ssl/glovebox/privkey.pem', join(dir, 'key.pem'));
      const temp = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((n) => `${n}_temp_path ${join(dir, n)};`).join(' ');
      writeFileSync(join(dir, 'nginx.conf'), `daemon off; worker_processes 1; pid ${join(dir, 'pid')}; events {} http { access_log off; ${temp} ${site} }\n`);
      const child = spawn(nginxPath, [...nginxArgs, '-c', join(dir, 'nginx.conf'), '-e', join(dir, 'error.log')], { stdio: ['ignore', 'pipe', 'pipe'] });
      let said = '';
      let ended = false;
      child.stderr.on('data', (bytes) => { said += bytes; });
      child.on('exit', () => { ended = true; });
      for (let k = 0; k < 600 && !ended; k++) {
        const up = await new Promise((done) => { const s = net.connect(port, '127.0.0.1', () => { s.destroy(); done(true); }).on('error', () => done(false)); });
        if (up) return child;
        await new Promise((done) => setTimeout(done, 100));
      }
      child.kill();
      if (!/Address already in use/.test(said)) assert.fail(`nginx does not start: ${said}`);
    }
    return assert.fail('no free port');
  }

  before(async () => {
    const made = spawnSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj', `/CN=${HOST}`,
      '-addext', `subjectAltName=DNS:${HOST}`, '-keyout', join(dir, 'key.pem'), '-out', join(dir, 'cert.pem')], { encoding: 'utf8' });
    assert.equal(made.status, 0, made.stderr);
    mkdirSync(join(dir, 'client_body'));
    provider = await new MockProvider().up();
    server = await Glovebox.start({ config: { ...provider.settings(), trust_proxy: true, public_url: `https://${HOST}`, pools: [pool({ ready: 0 })] } });
    nginx = await startNginx();
    h2 = http2.connect(`https://127.0.0.1:${port}`, { ca: readFileSync(join(dir, 'cert.pem')), servername: HOST });
    h2.on('error', () => {});
  });
  after(async () => {
    h2?.destroy();
    if (nginx && nginx.exitCode === null) {
      const gone = new Promise((done) => nginx.on('exit', done));
      nginx.kill();
      await gone;
    }
    await server?.stop();
    await provider?.down();
    rmSync(dir, { recursive: true, force: true });
  });

  // Answers { status, headers, text }; on_data sees each piece as it arrives.
  const call = (method, path, { body, headers = {}, key = server.key, onData } = {}) => new Promise((done, failed) => {
    const stream = h2.request({ ':method': method, ':path': path, ':authority': HOST, ...(key ? { authorization: `Bearer ${key}` } : {}), ...(body && !Buffer.isBuffer(body) ? { 'content-type': 'application/json' } : {}), ...headers });
    let got;
    let text = '';
    stream.on('response', (h) => { got = h; });
    stream.on('data', (bytes) => { text += bytes; onData?.(text); });
    stream.on('end', () => done({ status: got[':status'], headers: got, text }));
    stream.on('error', failed);
    stream.end(body && !Buffer.isBuffer(body) ? JSON.stringify(body) : body);
  });
  const json = async (...args) => { const a = await call(...args); assert.ok(a.status < 300, `${a.status} ${a.text}`); return JSON.parse(a.text); };

  test('events pass as they come, and so do uploads', { timeout: 300_000 }, async () => {
    const { id } = await json('POST', '/api/sessions', { body: {} });
    // The code ends only after its first line was read behind the proxy: a
    // proxy that collects the answer would never let it end.
    let uploaded;
    const big = Buffer.alloc(20 << 20, 'glovebox');
    const code = 'import os, time\nprint("begun", flush=True)\nwhile not os.path.exists("/mnt/data/go"):\n    time.sleep(0.05)\nprint(os.path.getsize("/mnt/data/big"))';
    const done = await call('POST', `/api/sessions/${id}/executions`, { body: { code, mode: 'stream', timeout_s: 240 }, onData: (text) => {
      if (!uploaded && text.includes('begun'))
        uploaded = call('PUT', `/api/sessions/${id}/files/big`, { body: big }).then(async (a) => [a, await call('PUT', `/api/sessions/${id}/files/go`, { body: Buffer.from('x') })]);
    } });
    assert.match(done.headers['content-type'], /^text\/event-stream/);
    for (const a of await uploaded) assert.ok(a.status === 200 || a.status === 201, `${a.status} ${a.text}`);
    assert.match(done.text, new RegExp(String(big.length)));
    assert.match(done.text, /"outcome":"ok"/);
  });

  test('metrics are for this machine and need a key; the console is served; links have the public address', async () => {
    assert.equal((await call('GET', '/healthz', { key: null })).status, 200);
    const metrics = await call('GET', '/metrics');
    assert.match(metrics.text, /^glovebox_/m);
    assert.equal((await call('GET', '/metrics', { key: null })).status, 401);
    const other = http2.connect(`https://127.0.0.1:${port}`, { ca: readFileSync(join(dir, 'cert.pem')), servername: HOST, localAddress: '127.0.0.9' });
    const status = await new Promise((done, failed) => {
      other.on('error', failed);
      other.request({ ':path': '/metrics', ':authority': HOST, authorization: `Bearer ${server.key}` }).on('response', (h) => done(h[':status'])).resume().end();
    });
    other.destroy();
    assert.equal(status, 403, 'nginx refuses other addresses');
    const page = await call('GET', '/', { key: null });
    assert.match(page.headers['content-type'], /^text\/html/);
    assert.ok((await json('POST', '/api/console/links', { body: {} })).url.startsWith(`https://${HOST}/#/link/`));
  });

  test('U3 single sign-on through the proxy: the browser comes back to the public address with a secure cookie', async () => {
    const start = await call('GET', '/api/console/oidc/start', { key: null });
    assert.equal(start.status, 302, start.text);
    const asked = new URL(start.headers.location);
    assert.equal(asked.searchParams.get('redirect_uri'), `https://${HOST}/api/console/oidc/callback`);
    const ticket = start.headers['set-cookie'][0].split('; ')[0];
    const back = new URL((await fetch(asked, { redirect: 'manual' })).headers.get('location'));
    assert.equal(back.origin, `https://${HOST}`);
    const come = await call('GET', back.pathname + back.search, { key: null, headers: { cookie: ticket } });
    assert.equal(come.headers.location, '/', come.text);
    const cookie = come.headers['set-cookie'].find((c) => c.includes('=gbt_'));
    assert.match(cookie, /; Secure/);
    const page = { cookie: cookie.split('; ')[0], 'x-glovebox-console': '1', 'sec-fetch-site': 'same-origin' };
    const me = await json('GET', '/api/me', { key: null, headers: page });
    assert.deepEqual([me.tenant, me.name], ['contoso', 'ada@example.org']);
    // A change names its origin, which is the public address.
    assert.equal((await call('POST', '/api/console/logout', { key: null, headers: { ...page, origin: 'https://evil.example' } })).status, 403);
    assert.equal((await call('POST', '/api/console/logout', { key: null, headers: { ...page, origin: `https://${HOST}` } })).status, 204);
    assert.equal((await call('GET', '/api/me', { key: null, headers: page })).status, 401);
  });
});
