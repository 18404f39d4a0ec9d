// SPDX-License-Identifier: Apache-2.0
// A small OpenID provider on loopback that speaks the real protocol: discovery,
// authorization endpoint, token endpoint with PKCE, signing keys. It signs
// everybody in who comes, as `person` says.
import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import http from 'node:http';

export class MockProvider {
  constructor({ client = 'glovebox', secret = null, host = '127.0.0.1' } = {}) {
    Object.assign(this, { client, secret, host, ...generateKeyPairSync('rsa', { modulusLength: 2048 }) });
    this.person = { sub: 'ada', preferred_username: 'ada@example.org', tid: 'Contoso', roles: ['Analyst'] };
    this.codes = new Map();
    this.asked = { discovery: 0, token: 0 };
    this.seen = []; // every code and token that was given out
  }

  async up() {
    this.server = http.createServer((request, response) => this.serve(request, response));
    await new Promise((done) => this.server.listen(0, '127.0.0.1', done));
    this.url = `http://${this.host}:${this.server.address().port}`;
    return this;
  }

  async down() {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }

  settings(more = {}) {
    return { jwt_issuer: this.url, jwt_audiences: 'https://api.example.org', jwt_jwks_url: `${this.url}/keys`,
      jwt_scopes: 'Analyst=execute+files:read,Boss=admin', oidc_client_id: this.client, oidc_name: 'Example', ...more };
  }

  idToken(nonce, claims = {}) {
    const now = Math.floor(Date.now() / 1000);
    const text = [{ alg: 'RS256', kid: 'one', typ: 'JWT' }, { iss: this.url, aud: this.client, iat: now, exp: now + 300, nonce, ...this.person, ...claims }]
      .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
    return `${text}.${sign('sha256', Buffer.from(text), this.privateKey).toString('base64url')}`;
  }

  serve(request, response) {
    const url = new URL(request.url, this.url);
    const json = (status, body) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    if (url.pathname === '/keys') return json(200, { keys: [{ ...this.publicKey.export({ format: 'jwk' }), kid: 'one', use: 'sig' }] });
    if (url.pathname === '/.well-known/openid-configuration') {
      this.asked.discovery++;
      if (this.onDiscovery) return this.onDiscovery(response, json);
      return json(200, { issuer: this.url, authorization_endpoint: `${this.url}/authorize?prompt=login`, token_endpoint: `${this.url}/token`, jwks_uri: `${this.url}/keys` });
    }
    if (url.pathname === '/authorize') return this.authorize(url.searchParams, response);
    if (url.pathname === '/token' && request.method === 'POST') {
      let body = '';
      request.on('data', (part) => { body += part; });
      request.on('end', () => this.token(request, new URLSearchParams(body), response, json));
      return undefined;
    }
    return json(404, {});
  }

  authorize(asked, response) {
    const back = new URL(asked.get('redirect_uri'));
    back.searchParams.set('state', asked.get('state'));
    if (this.refuse) back.searchParams.set('error', this.refuse);
    else {
      const code = randomBytes(24).toString('base64url');
      this.seen.push(code);
      this.codes.set(code, Object.fromEntries(asked));
      back.searchParams.set('code', code);
      back.searchParams.set('session_state', 'more'); // as some providers send
    }
    response.writeHead(302, { location: back.href }).end();
  }

  token(request, form, response, json) {
    this.asked.token++;
    if (this.onToken) return this.onToken(response, json);
    const asked = this.codes.get(form.get('code'));
    this.codes.delete(form.get('code'));
    const challenge = createHash('sha256').update(form.get('code_verifier') ?? '').digest('base64url');
    const expected = `Basic ${Buffer.from(`${encodeURIComponent(this.client)}:${encodeURIComponent(this.secret)}`).toString('base64')}`;
    const known = this.secret === null ? form.get('client_id') === this.client : request.headers.authorization === expected;
    if (!known) return json(401, { error: 'invalid_client' });
    if (!asked || asked.code_challenge_method !== 'S256' || asked.code_challenge !== challenge || asked.redirect_uri !== form.get('redirect_uri') || asked.client_id !== this.client || form.get('grant_type') !== 'authorization_code')
      return json(400, { error: 'invalid_grant' });
    const id = this.idToken(asked.nonce, this.claims);
    this.seen.push(id);
    return json(200, { access_token: 'unused', token_type: 'Bearer', id_token: id });
  }
}
