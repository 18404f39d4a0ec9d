// SPDX-License-Identifier: Apache-2.0
// Signing a browser in with an issuer, by raw HTTP: the way that works, and
// every way in which the browser, the issuer or the token is wrong.
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { Glovebox } from '../../lib/glovebox.mjs';
import { MockProvider } from '../../lib/oidc.mjs';
import { request, stop } from '../../lib/wire.mjs';

const START = '/api/console/oidc/start';
const cookiesOf = (answer) => Object.fromEntries((answer.headers['set-cookie'] ?? []).map((line) => {
  const [pair, ...attributes] = line.split('; ');
  const at = pair.indexOf('=');
  return [pair.slice(0, at), { pair, value: pair.slice(at + 1), attributes }];
}));
const get = (g, path, headers = {}) => request(g, 'GET', path, { key: null, headers });

async function begin(g) {
  const answer = await get(g, START);
  assert.equal(answer.status, 302, answer.text);
  return { answer, url: new URL(answer.headers.location, g.url), ticket: cookiesOf(answer)['glovebox-signin'] };
}
// The browser goes to the issuer and is sent back: the path of the callback.
async function visit(url) {
  const answer = await fetch(url, { redirect: 'manual' });
  const back = new URL(answer.headers.get('location'));
  return { back, path: back.pathname + back.search };
}
const come = (g, path, ticket) => get(g, path, ticket ? { cookie: ticket.pair } : {});
async function flow(g) {
  const { url, ticket } = await begin(g);
  const { path } = await visit(url);
  return { path, ticket, answer: await come(g, path, ticket) };
}
function refusedWith(answer, word) {
  assert.equal(answer.status, 302, answer.text);
  assert.equal(answer.headers.location, `/#/signin?error=${word}`);
  assert.equal(cookiesOf(answer).glovebox, undefined);
}
const api = (g, cookie, path, method = 'GET') => request(g, method, path, { key: null, headers: { cookie: cookie.pair, 'x-glovebox-console': '1', 'sec-fetch-site': 'same-origin', ...(method === 'GET' ? {} : { origin: g.url }) } });

describe('with an issuer that is discovered', () => {
  let provider, g;
  before(async () => {
    provider = await new MockProvider().up();
    g = await Glovebox.start({ config: { ...provider.settings(), auth_failures_per_min: 10_000 } });
  });
  after(async () => {
    await stop(g);
    await provider.down();
  });
  afterEach(() => { Object.assign(provider, { claims: undefined, refuse: undefined, onToken: undefined }); });

  test('the page is told, and the browser is sent there with state, nonce and challenge', async () => {
    assert.deepEqual((await get(g, '/api/console/config')).body.oidc, { name: 'Example' });
    const { url, ticket, answer } = await begin(g);
    const asked = Object.fromEntries(url.searchParams);
    assert.equal(url.origin + url.pathname, `${provider.url}/authorize`);
    assert.equal(asked.prompt, 'login');
    assert.equal(asked.redirect_uri, `${g.url}/api/console/oidc/callback`);
    assert.equal(asked.scope, 'openid profile email');
    assert.deepEqual([asked.response_type, asked.client_id, asked.code_challenge_method], ['code', 'glovebox', 'S256']);
    for (const name of ['state', 'nonce', 'code_challenge']) assert.match(asked[name], /^[\w-]{43}$/, name);
    assert.deepEqual(ticket.attributes, ['Path=/', 'Max-Age=600', 'HttpOnly', 'SameSite=Lax']);
    assert.equal(answer.headers['cache-control'], 'no-store');
    const again = await begin(g);
    assert.notEqual(again.url.searchParams.get('state'), asked.state);
    assert.equal(provider.asked.discovery, 1, 'the endpoints are kept');
  });

  test('U3: signs in with the scopes of the issuer’s tokens; listed, revocable, named', async () => {
    const { answer } = await flow(g);
    assert.equal(answer.headers.location, '/');
    const { glovebox, 'glovebox-signin': ticket } = cookiesOf(answer);
    assert.match(glovebox.value, /^gbt_[0-9a-f]{64}$/);
    assert.ok(glovebox.attributes.includes('HttpOnly') && glovebox.attributes.includes('SameSite=Strict'));
    const age = Number(glovebox.attributes.find((a) => a.startsWith('Max-Age=')).slice(8));
    assert.ok(age > 28_700 && age <= 28_800, String(age));
    assert.ok(ticket.attributes.includes('Max-Age=0'));
    const me = await api(g, glovebox, '/api/me');
    assert.equal(me.status, 200, me.text);
    assert.deepEqual([me.body.tenant, me.body.name, me.body.scopes], ['contoso', 'ada@example.org', ['execute', 'files:read']]);
    const tokens = (await api(g, glovebox, '/api/tokens')).body;
    assert.match(JSON.stringify(tokens), /"console"/);
    assert.equal((await api(g, glovebox, '/api/keys')).status, 403);
    assert.equal((await api(g, glovebox, '/api/console/logout', 'POST')).status, 204);
    assert.equal((await api(g, glovebox, '/api/me')).status, 401);
  });

  test('a state is good once, and with its own browser only', async () => {
    const { path, ticket } = await flow(g);
    refusedWith(await come(g, path, ticket), 'state');
    const mine = await begin(g);
    const theirs = await begin(g);
    const back = await visit(mine.url);
    refusedWith(await come(g, back.path), 'state');
    refusedWith(await come(g, back.path, theirs.ticket), 'state');
    refusedWith(await come(g, back.path.replace(/state=[\w-]+/, 'state=x'), mine.ticket), 'state');
    refusedWith(await come(g, '/api/console/oidc/callback', mine.ticket), 'state');
    const later = { pair: mine.ticket.pair.replace(/\.\d+$/, '.99999999999') };
    refusedWith(await come(g, back.path, later), 'state');
    assert.equal((await come(g, back.path, mine.ticket)).headers.location, '/', 'strangers cannot spend it');
  });

  test('a person who does not allow it, an issuer that refuses, a code that is missing, unknown or long', async () => {
    provider.refuse = 'access_denied';
    refusedWith((await flow(g)).answer, 'denied');
    provider.refuse = 'server_error';
    refusedWith((await flow(g)).answer, 'refused');
    provider.refuse = undefined;
    const asked = provider.asked.token;
    for (const [code, word] of [[null, 'refused'], ['', 'token'], ['x'.repeat(4097), 'token'], ['unknown', 'token']]) {
      const { url, ticket } = await begin(g);
      const { back } = await visit(url);
      if (code === null) back.searchParams.delete('code');
      else back.searchParams.set('code', code);
      refusedWith(await come(g, back.pathname + back.search, ticket), word);
    }
    assert.equal(provider.asked.token, asked + 1, 'only what can be a code is sent');
  });

  test('a token that is not the proof of this sign-in', async () => {
    const past = Math.floor(Date.now() / 1000) - 3600;
    for (const claims of [{ nonce: 'other' }, { nonce: undefined }, { aud: 'another' }, { aud: 'https://api.example.org' }, { aud: ['glovebox', 'another'] }, { azp: 'another' },
      { exp: past }, { iss: 'https://evil.example' }, { sub: undefined }, { tid: undefined }]) {
      provider.claims = claims;
      refusedWith((await flow(g)).answer, 'token');
    }
    provider.claims = { roles: ['Nothing'] };
    refusedWith((await flow(g)).answer, 'role');
    provider.claims = { aud: ['glovebox', 'another'], azp: 'glovebox' };
    assert.equal((await flow(g)).answer.headers.location, '/');
    const other = new MockProvider();
    other.url = provider.url;
    provider.claims = undefined;
    provider.onToken = (_, json) => json(200, { id_token: other.idToken('x') });
    refusedWith((await flow(g)).answer, 'token');
    const { url, ticket } = await begin(g);
    const { path } = await visit(url);
    refusedWith(await come(g, `${path}&iss=${encodeURIComponent('https://evil.example')}`, ticket), 'token');
  });

  test('an issuer that fails, answers too much, nonsense, or nothing', async () => {
    for (const answer of [(_, json) => json(500, {}), (_, json) => json(200, { id_token: 'x'.repeat(70_000) }), (r) => r.end('<html>'), (_, json) => json(200, []),
      (_, json) => json(200, { access_token: 'only' }), (r) => r.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(), (r) => r.destroy()]) {
      provider.onToken = answer;
      refusedWith((await flow(g)).answer, 'issuer');
    }
    provider.onToken = () => {}; // no answer at all: the service gives up, the test would only after a minute
    refusedWith((await flow(g)).answer, 'issuer');
    provider.onToken = undefined;
    assert.equal((await flow(g)).answer.headers.location, '/');
  });

  test('U2: a host that is not ours is refused, and no parameter says where to go', async () => {
    assert.equal((await get(g, START, { host: 'evil.example' })).status, 403);
    assert.equal((await get(g, `${START}?next=https://evil.example`)).status, 400);
    const { url, ticket } = await begin(g);
    const { path } = await visit(url);
    assert.equal((await come(g, `${path}&next=https://evil.example&redirect_uri=https://evil.example`, ticket)).headers.location, '/');
  });

  test('I7: the log has nothing of codes and tokens', () => {
    assert.ok(provider.seen.length > 10 && g.log.includes('oidc_refused'));
    for (const secret of provider.seen) assert.ok(!g.log.includes(secret));
    assert.doesNotMatch(g.log, /gbt_[0-9a-f]{64}/);
  });
});

describe('other settings', () => {
  test('a secret, given endpoints and public_url', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'glovebox-oidc-'));
    const provider = await new MockProvider({ client: 'a b', secret: 's:%é' }).up();
    const file = join(dir, 'secret');
    writeFileSync(file, `${provider.secret}\n`);
    chmodSync(dir, 0o755);
    chmodSync(file, 0o644);
    const g = await Glovebox.start({ config: provider.settings({ oidc_client_secret_file: file, oidc_name: '', oidc_login_s: 60, oidc_scopes: 'groups openid', public_url: 'https://glovebox.example/',
      oidc_authorization_url: `${provider.url}/authorize`, oidc_token_url: `${provider.url}/token` }) });
    try {
      const host = { host: 'glovebox.example' };
      assert.equal((await get(g, '/api/console/config')).body.oidc.name, new URL(provider.url).host);
      const start = await get(g, START, host);
      const url = new URL(start.headers.location);
      assert.equal(url.searchParams.get('redirect_uri'), 'https://glovebox.example/api/console/oidc/callback');
      assert.equal(url.searchParams.get('scope'), 'openid groups');
      const ticket = cookiesOf(start)['__Host-glovebox-signin'];
      assert.ok(ticket.attributes.includes('Secure'));
      const { path } = await visit(url);
      const end = await get(g, path, { ...host, cookie: ticket.pair });
      assert.equal(end.headers.location, '/');
      const cookie = cookiesOf(end)['__Host-glovebox'];
      assert.ok(cookie.attributes.includes('Secure') && Number(cookie.attributes.find((a) => a.startsWith('Max-Age=')).slice(8)) <= 60);
      assert.equal(provider.asked.discovery, 0);
      assert.ok(!g.log.includes(provider.secret));
    } finally {
      await stop(g);
      await provider.down();
      rmSync(dir, { recursive: true });
    }
  });

  test('an issuer that is away when people come, and comes back', async () => {
    const provider = await new MockProvider().up();
    const g = await Glovebox.start({ config: provider.settings() });
    try {
      for (const answer of [(_, json) => json(500, {}), (_, json) => json(200, { issuer: 'https://evil.example', authorization_endpoint: 'https://evil.example', token_endpoint: 'https://evil.example' }),
        (_, json) => json(200, { issuer: provider.url, authorization_endpoint: 'http://evil.example/a', token_endpoint: `${provider.url}/token` }), (r) => r.end('x'.repeat(70_000))]) {
        provider.onDiscovery = answer;
        refusedWith(await get(g, START), 'issuer');
        await new Promise((done) => { setTimeout(done, 2100); });
      }
      provider.onDiscovery = undefined;
      assert.equal((await flow(g)).answer.headers.location, '/');
    } finally {
      await stop(g);
      await provider.down();
    }
  });
});
