// SPDX-License-Identifier: Apache-2.0
// Signing a browser in and out: a key or a one-time link is exchanged for a
// cookie, the cookie counts only from the console's own page, and signing out
// ends it at once. By raw HTTP, as a browser or an attacker's page would send.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import https from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Browser, start } from '../../lib/console-wire.mjs';
import { sleep } from '../../lib/glovebox.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';

let server;
before(async () => { server = await start({ auth_failures_per_min: 5, public_url: '' }); });
after(() => stop(server));

const key = (body) => server.ok('POST', '/api/keys', { scopes: ['execute', 'files:read'], ...body });
const secretOf = (link) => new URL(link.url).hash.replace('#/link/', '');

describe('the page', () => {
  test('is served without a key, with a policy that lets nothing foreign in', async () => {
    const page = await request(server, 'GET', '/', { key: null });
    assert.equal(page.status, 200);
    assert.equal(page.headers['content-type'], 'text/html; charset=utf-8');
    const policy = Object.fromEntries(page.headers['content-security-policy'].split('; ').map((part) => { const [name, ...rest] = part.split(' '); return [name, rest.join(' ')]; }));
    assert.equal(policy['default-src'], "'none'");
    assert.equal(policy['script-src'], "'self'");
    assert.equal(policy['style-src'], "'self'");
    assert.equal(policy['connect-src'], "'self'");
    assert.equal(policy['frame-ancestors'], "'none'");
    assert.equal(policy['base-uri'], "'none'");
    assert.equal(policy['form-action'], "'self'");
    assert.doesNotMatch(page.headers['content-security-policy'], /unsafe|https?:|\*/);
    assert.equal(page.headers['x-frame-options'], 'DENY');
    assert.equal(page.headers['x-content-type-options'], 'nosniff');
    assert.equal(page.headers['referrer-policy'], 'no-referrer');
    assert.equal(page.headers['cross-origin-opener-policy'], 'same-origin');
    assert.equal(page.headers['cross-origin-resource-policy'], 'same-origin');
    assert.equal(page.headers['cache-control'], 'no-cache');
  });

  test('the frame for foreign content has an opaque origin and no network', async () => {
    const frame = await request(server, 'GET', '/console/frame.html', { key: null });
    const policy = frame.headers['content-security-policy'].split('; ');
    assert.ok(policy.includes('sandbox allow-scripts') && policy.includes("default-src 'none'") && policy.includes("frame-ancestors 'self'"));
    assert.doesNotMatch(frame.headers['content-security-policy'], /allow-same-origin|connect-src|https?:|'self'(?!$)/);
    assert.equal(frame.headers['x-frame-options'], 'SAMEORIGIN');
  });

  test('assets are immutable, compressed as the browser accepts, and known by their tag', async () => {
    const path = '/console/assets/app-0a1b2c3d.js';
    const plain = await request(server, 'GET', path, { key: null });
    assert.equal(plain.headers['content-type'], 'text/javascript; charset=utf-8');
    assert.equal(plain.headers['cache-control'], 'public, max-age=31536000, immutable');
    assert.equal(plain.headers['content-encoding'], undefined);
    assert.equal(plain.headers.vary, 'Accept-Encoding');
    for (const [accept, coding] of [['gzip', 'gzip'], ['gzip, deflate, br', 'br'], ['br;q=0, gzip;q=0.5', 'gzip'], ['deflate', undefined], ['gzip;q=0', undefined]]) {
      const packed = await request(server, 'GET', path, { key: null, headers: { 'accept-encoding': accept } });
      assert.equal(packed.headers['content-encoding'], coding, accept);
      if (coding) assert.ok(packed.bytes.length < plain.bytes.length / 2);
      const whole = await fetch(server.url + path, { headers: { 'accept-encoding': accept } });
      assert.equal(await whole.text(), plain.text);
    }
    const again = await request(server, 'GET', path, { key: null, headers: { 'if-none-match': plain.headers.etag } });
    assert.equal(again.status, 304);
    assert.equal(again.bytes.length, 0);
    const head = await request(server, 'HEAD', '/', { key: null });
    assert.equal(head.status, 200);
    assert.equal(head.bytes.length, 0);
  });

  test('there is nothing else to be had there', async () => {
    for (const path of ['/console/nosuch.js', '/console/assets/', '/console/../admin.key', '/console/assets/%2e%2e/index.html', '/console/index.html'])
      assert.equal((await request(server, 'GET', path, { key: null })).status, 404, path);
    for (const [method, path] of [['POST', '/'], ['PUT', '/console/frame.html'], ['GET', '/console'], ['OPTIONS', '/']])
      assert.equal((await request(server, method, path, { key: null })).status, 401, `${method} ${path}`);
  });
});

describe('signing in with a key', () => {
  test('U3: sets a cookie that no script can read, and answers who that is', async () => {
    const made = await key({ name: 'Ada' });
    const browser = new Browser(server);
    const me = await browser.login(made.secret);
    assert.deepEqual(browser.attributes.map((a) => a.replace(/\d+/, 'N')), ['Path=/', 'Max-Age=N', 'HttpOnly', 'SameSite=Strict']);
    assert.match(browser.cookie, /^glovebox=gbt_[0-9a-f]{64}$/);
    assert.ok(Number(browser.attributes.find((a) => a.startsWith('Max-Age=')).slice(8)) <= 43200);
    assert.equal(me.name, 'Ada');
    assert.equal(me.id, made.id);
    assert.equal(me.kind, 'token');
    assert.equal(me.console, true);
    assert.equal(me.operator, true);
    assert.deepEqual(me.scopes, ['execute', 'files:read']);
    assert.ok(me.quotas.some((q) => q.name === 'storage_bytes'));
    assert.ok(Date.parse(me.expires_at) - Date.now() <= 43_200_000);
    const again = await browser.call('GET', '/api/me');
    assert.equal(again.status, 200, again.text);
    assert.equal(again.body.token, me.token);
    // Listed and labelled like any other token.
    const listed = (await server.ok('GET', '/api/tokens')).data.find((t) => t.id === me.token);
    assert.equal(listed.name, 'console');
    assert.equal(listed.key, made.id);
    // No answer and no line of the log has the key or the cookie's value.
    assert.ok(!again.text.includes('gbt_') && !again.text.includes(made.secret));
    assert.ok(!server.log.includes(made.secret) && !server.log.includes(browser.cookie.slice(9)));
    const events = (await server.ok('GET', '/api/audit?action=console.login&limit=1000')).data;
    assert.ok(events.some((e) => e.object === me.token && !JSON.stringify(e).includes('gbt_')));
  });

  test('whoami has the same facts as me', async () => {
    const made = await key({ name: 'Grace' });
    const me = await server.ok('GET', '/api/me', undefined, { key: made.secret });
    const who = await server.ok('GET', '/api/whoami', undefined, { key: made.secret });
    for (const [name, value] of Object.entries(who)) assert.deepEqual(me[name], value, name);
    assert.equal(me.kind, 'key');
    assert.equal(me.console, false);
  });

  test('may ask for less, never for more', async () => {
    const made = await key({});
    const browser = new Browser(server);
    const answer = await browser.call('POST', '/api/console/login', { key: made.secret, scopes: ['files:read'] });
    assert.deepEqual(answer.body.scopes, ['files:read']);
    refused(await new Browser(server).call('POST', '/api/console/login', { key: made.secret, scopes: ['admin'] }), 403);
  });

  test('bad bodies are refused by name', async () => {
    const browser = new Browser(server);
    for (const [body, words] of [[{}, /key.*link/], [{ key: 'a', link: 'b' }, /key.*link/], [{ kee: 'x' }, /kee/], [{ key: 5 }, /key/], [{ key: '' }, /key/], [{ key: 'x'.repeat(8193) }, /key/]])
      refused(await browser.call('POST', '/api/console/login', body), 400, 'invalid_request', words);
  });

  test('signing in again ends the token before', async () => {
    const made = await key({});
    const browser = new Browser(server);
    await browser.login(made.secret);
    const old = browser.cookie;
    await browser.login(made.secret);
    assert.notEqual(browser.cookie, old);
    assert.equal((await browser.call('GET', '/api/me', undefined, { headers: { cookie: old } })).status, 401);
    assert.equal((await browser.call('GET', '/api/me')).status, 200);
  });

  test('I5: wrong keys and links are slowed like those of any request; a link ends with its time', async () => {
    const other = await start({ auth_failures_per_min: 3, console_link_s: 1 });
    try {
      const browser = new Browser(other);
      const { url, expires_at } = (await request(other, 'POST', '/api/console/links', { key: other.key })).body;
      await sleep(Date.parse(expires_at) - Date.now() + 100);
      refused(await browser.call('POST', '/api/console/login', { link: /gbl_[0-9a-f]{64}$/.exec(url)[0] }), 401, 'unauthenticated', /used|old/);
      const times = [];
      for (let i = 0; i < 8; i++) {
        const began = performance.now();
        refused(await browser.call('POST', '/api/console/login', i % 2 ? { key: `gbx_${'1'.repeat(64)}` } : { link: `gbl_${'1'.repeat(64)}` }), 401, 'unauthenticated');
        times.push(performance.now() - began);
      }
      assert.ok(Math.max(...times.slice(5)) > 300, `delays: ${times.map(Math.round)}`);
      await browser.login();
    } finally {
      await stop(other);
    }
  });
});

describe('U2: the cookie', () => {
  let browser;
  before(async () => { browser = new Browser(server); await browser.login(); });

  test('counts from the console\'s own page', async () => {
    assert.equal((await browser.call('GET', '/api/sessions')).status, 200);
    assert.equal((await browser.call('GET', '/api/sessions', undefined, { headers: { origin: server.url } })).status, 200);
    assert.equal((await browser.call('POST', '/api/tokens', { ttl_s: 60 }, { headers: { 'sec-fetch-site': null } })).status, 201);
  });

  const foreign = {
    'without the header': { 'x-glovebox-console': null },
    'with another value of the header': { 'x-glovebox-console': 'yes' },
    'from another origin': { origin: 'https://evil.example' },
    'from another port of this host': { origin: 'http://127.0.0.1:1' },
    'from the same host by another scheme': { origin: () => server.url.replace('http:', 'https:') },
    'from a sandboxed frame': { origin: 'null' },
    'from another site, as the browser says': { 'sec-fetch-site': 'cross-site' },
    'from a neighbour of the same site': { 'sec-fetch-site': 'same-site' },
    'typed into the address bar': { 'sec-fetch-site': 'none' },
    'with another Host': { host: 'evil.example' },
    'with a Host of another port': { host: '127.0.0.1:1', origin: () => server.url },
    'by a name that a resolver may have taken over': { host: 'evil.example:80', origin: 'http://evil.example:80' },
    'with nothing that says where the page is from': { origin: null, 'sec-fetch-site': null },
  };
  for (const [what, headers] of Object.entries(foreign))
    test(`is refused ${what}`, async () => {
      const sent = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, typeof value === 'function' ? value() : value]));
      const before = (await server.ok('GET', '/api/tokens')).data.length;
      const post = await browser.call('POST', '/api/tokens', { ttl_s: 60 }, { headers: sent });
      refused(post, 403, 'forbidden');
      if (!('host' in sent && 'origin' in sent && sent.origin === server.url)) refused(await browser.call('GET', '/api/sessions', undefined, { headers: sent }), 403, 'forbidden');
      refused(await browser.call('POST', '/api/console/login', { key: server.key }, { headers: { ...sent, cookie: null } }), 403, 'forbidden');
      assert.equal((await server.ok('GET', '/api/tokens')).data.length, before);
    });

  test('is no credential at the other doors, and never beside a key', async () => {
    for (const path of ['/v1/containers', '/v1/files', '/metrics'])
      assert.equal((await browser.call('GET', path)).status, path === '/metrics' ? 200 : 401, path);
    assert.equal((await browser.call('POST', '/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/list' })).status, 401);
    assert.equal((await browser.call('GET', '/api/me', undefined, { key: `gbx_${'2'.repeat(64)}` })).status, 401);
  });

  test('no answer permits another origin', async () => {
    for (const [method, path] of [['OPTIONS', '/api/sessions'], ['GET', '/api/sessions'], ['GET', '/'], ['POST', '/api/console/login'], ['GET', '/api/console/config']]) {
      const answer = await browser.call(method, path, undefined, { headers: { origin: 'https://evil.example', 'access-control-request-method': 'POST', 'access-control-request-headers': 'x-glovebox-console' } });
      for (const name of Object.keys(answer.headers)) assert.doesNotMatch(name, /^access-control-/, `${method} ${path}`);
    }
  });

  test('a public_url is an origin of the console, by HTTPS with a cookie for HTTPS only', async () => {
    const other = await start({ public_url: 'https://gb.example' });
    try {
      const far = new Browser(other, { origin: 'https://gb.example' });
      const host = { host: 'gb.example' };
      const answer = await far.call('POST', '/api/console/login', { key: other.key }, { headers: host });
      assert.equal(answer.status, 200, answer.text);
      assert.match(far.cookie, /^__Host-glovebox=gbt_/);
      assert.ok(far.attributes.includes('Secure') && far.attributes.includes('Path=/') && !far.attributes.some((a) => /^domain/i.test(a)));
      assert.equal((await far.call('GET', '/api/me', undefined, { headers: host })).status, 200);
      // A cookie that plain HTTP could have planted is none.
      assert.equal((await far.call('GET', '/api/me', undefined, { headers: { ...host, cookie: far.cookie.replace('__Host-', '') } })).status, 401);
      refused(await far.call('GET', '/api/me', undefined, { headers: { ...host, origin: 'https://gb.example.evil' } }), 403);
    } finally {
      await stop(other);
    }
  });

  test('by TLS it is Secure and has the prefix that binds it to this host', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'glovebox-console-'));
    execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-keyout', join(dir, 'k'), '-out', join(dir, 'c'),
      '-subj', '/CN=console test', '-addext', 'subjectAltName=IP:127.0.0.1'], { stdio: 'ignore' });
    chmodSync(join(dir, 'k'), 0o600);
    const { NODE_TLS_REJECT_UNAUTHORIZED: was } = process.env;
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
    const other = await start({ tls_certificate: join(dir, 'c'), tls_key: join(dir, 'k') });
    try {
      const url = new URL(other.url);
      const answer = await new Promise((done, fail) => {
        const body = JSON.stringify({ key: other.key });
        https.request({ hostname: url.hostname, port: url.port, ca: readFileSync(join(dir, 'c')), method: 'POST', path: '/api/console/login',
          headers: { 'content-type': 'application/json', 'content-length': body.length, 'x-glovebox-console': '1', origin: other.url } }, (res) => { res.resume(); res.on('end', () => done(res)); })
          .on('error', fail).end(body);
      });
      assert.equal(answer.statusCode, 200);
      assert.match(answer.headers['set-cookie'][0], /^__Host-glovebox=gbt_[0-9a-f]{64}; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Strict; Secure$/);
    } finally {
      if (was === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
      else process.env.NODE_TLS_REJECT_UNAUTHORIZED = was;
      await stop(other);
      rmSync(dir, { recursive: true, force: true });
    }
  });
});

describe('U4: the end', () => {
  test('signing out revokes the token at once', async () => {
    const browser = new Browser(server);
    const me = await browser.login();
    const cookie = browser.cookie;
    const out = await browser.call('POST', '/api/console/logout');
    assert.equal(out.status, 204, out.text);
    assert.equal(browser.cookie, null);
    assert.equal((await browser.call('GET', '/api/me', undefined, { headers: { cookie } })).status, 401);
    assert.ok(!(await server.ok('GET', '/api/tokens')).data.some((t) => t.id === me.token));
    refused(await browser.call('POST', '/api/console/logout', undefined, { key: server.key }), 409);
  });

  test('revoking the token or its key ends the cookie at once', async () => {
    const made = await key({});
    const [one, two] = [new Browser(server), new Browser(server)];
    const me = await one.login(made.secret);
    await two.login(made.secret);
    await server.call('DELETE', `/api/tokens/${me.token}`);
    assert.equal((await one.call('GET', '/api/me')).status, 401);
    assert.equal((await two.call('GET', '/api/me')).status, 200);
    await server.call('DELETE', `/api/keys/${made.id}`);
    assert.equal((await two.call('GET', '/api/me')).status, 401);
  });

  test('the token ends with the key it was minted from', async () => {
    const made = await key({ expires_in_s: 100 });
    const me = await new Browser(server).login(made.secret);
    assert.ok(Date.parse(me.expires_at) - Date.now() <= 100_000);
  });
});

describe('U3: one-time links', () => {
  const link = async (secret = server.key) => {
    const made = await request(server, 'POST', '/api/console/links', { key: secret });
    assert.equal(made.status, 201, made.text);
    return made.body;
  };

  test('work once, with the secret in the fragment', async () => {
    const made = await link((await key({ name: 'Linked' })).secret);
    const url = new URL(made.url);
    assert.equal(`${url.origin}${url.pathname}${url.search}`, `${server.url}/`);
    assert.match(url.hash, /^#\/link\/gbl_[0-9a-f]{64}$/);
    const browser = new Browser(server);
    const answer = await browser.call('POST', '/api/console/login', { link: secretOf(made) });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.body.name, 'Linked');
    assert.deepEqual(answer.body.scopes, ['execute', 'files:read']);
    refused(await new Browser(server).call('POST', '/api/console/login', { link: secretOf(made) }), 401, 'unauthenticated', /used|old/);
    assert.ok(!server.log.includes(secretOf(made)));
  });

  test('are of no use once their key is revoked', async () => {
    const own = await key({});
    const made = await link(own.secret);
    await server.call('DELETE', `/api/keys/${own.id}`);
    refused(await new Browser(server).call('POST', '/api/console/login', { link: secretOf(made) }), 401);
  });

  test('are no keys, and keys are no links', async () => {
    const secret = secretOf(await link());
    assert.equal((await request(server, 'GET', '/api/me', { key: secret })).status, 401);
    refused(await new Browser(server).call('POST', '/api/console/login', { link: server.key }), 401);
  });

  test('one more than a principal may have ends its oldest', async () => {
    const own = (await key({})).secret;
    const made = [];
    for (let i = 0; i < 9; i++) made.push(await link(own));
    refused(await new Browser(server).call('POST', '/api/console/login', { link: secretOf(made[0]) }), 401);
    assert.equal((await new Browser(server).call('POST', '/api/console/login', { link: secretOf(made[8]) })).status, 200);
  });

  test('glovebox console prints one', async () => {
    const cli = new Cli(server);
    const ran = await cli.start(['console']).ended;
    assert.equal(ran.status, 0, ran.stderr);
    const browser = new Browser(server);
    const answer = await browser.call('POST', '/api/console/login', { link: secretOf({ url: ran.stdout.trim() }) });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.body.name, 'admin');
    const json = await cli.start(['console', '--json']).ended;
    assert.match(JSON.parse(json.stdout).url, /#\/link\/gbl_/);
  });
});

test('U5: a person of another tenant sees nothing of this one', async () => {
  const theirs = await key({ tenant: 'theirs', scopes: ['execute', 'files:read', 'files:write', 'audit:read'] });
  const session = await server.ok('POST', '/api/sessions', {});
  const browser = new Browser(server);
  const me = await browser.login(theirs.secret);
  assert.equal(me.tenant, 'theirs');
  assert.equal(me.operator, false);
  assert.deepEqual((await browser.call('GET', '/api/sessions')).body.data, []);
  assert.equal((await browser.call('GET', `/api/sessions/${session.id}`)).status, 404);
  assert.deepEqual((await browser.call('GET', '/api/tokens')).body.data.map((t) => t.id), [me.token]);
  refused(await browser.call('GET', '/api/keys'), 403);
});

test('the sign-in page learns the version, and that no issuer is configured', async () => {
  const config = (await request(server, 'GET', '/api/console/config', { key: null })).body;
  assert.match(config.version, /^\d+\.\d+\.\d+/);
  assert.equal(config.oidc, null);
});
