// SPDX-License-Identifier: Apache-2.0
// Tokens of a configured issuer: a JWK set served on loopback, keys made
// here, tokens right and wrong in every way; keys that change, an issuer that
// is away; and what their bearers own.
import assert from 'node:assert/strict';
import { constants, createHmac, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { chmodSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';

const ISSUER = 'https://login.example/tenant/v2.0';
const AUDIENCES = ['https://dynamicsessions.io', 'https://acasessions.io'];
const now = () => Math.floor(Date.now() / 1000);

const kinds = {
  RS256: () => generateKeyPairSync('rsa', { modulusLength: 2048 }),
  PS256: () => generateKeyPairSync('rsa', { modulusLength: 2048 }),
  ES256: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  ES384: () => generateKeyPairSync('ec', { namedCurve: 'P-384' }),
  ES512: () => generateKeyPairSync('ec', { namedCurve: 'P-521' }),
};

class Signer {
  constructor(kid, alg = 'RS256') {
    Object.assign(this, { kid, alg, ...kinds[alg]() });
  }

  jwk() { return { ...this.publicKey.export({ format: 'jwk' }), kid: this.kid, use: 'sig' }; }

  signature(alg, text) {
    const key = { key: this.privateKey, dsaEncoding: 'ieee-p1363',
      ...(alg[0] === 'P' ? { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST } : {}) };
    return sign(`sha${alg.slice(2)}`, Buffer.from(text), key).toString('base64url');
  }

  token(claims = {}, header = {}) {
    const head = { alg: this.alg, kid: this.kid, typ: 'JWT', ...header };
    const body = { iss: ISSUER, aud: AUDIENCES[0], sub: 'someone', tid: 'Contoso', roles: ['SessionExecutor'],
      nbf: now() - 5, exp: now() + 600, ...claims };
    const text = [head, body].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
    return `${text}.${this.signature(head.alg in kinds ? head.alg : this.alg, text)}`;
  }
}

// The issuer: what it publishes, and how often it was asked.
class Issuer {
  constructor(...signers) {
    this.signers = signers;
    this.asked = 0;
  }

  async up(port = 0) {
    this.server = http.createServer((_, response) => {
      this.asked++;
      if (this.answer) return this.answer(response);
      response.setHeader('content-type', 'application/json');
      return response.end(JSON.stringify({ keys: this.signers.map((s) => s.jwk()) }));
    });
    await new Promise((done) => this.server.listen(port, '127.0.0.1', done));
    this.port = this.server.address().port;
    return this;
  }

  get url() { return `http://127.0.0.1:${this.port}/keys`; }

  async down() {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }
}

const options = (extra) => ({
  jwt_issuer: ISSUER, jwt_audiences: AUDIENCES.join(','),
  jwt_scopes: 'SessionExecutor=execute+files:read+files:write,Reader=files:read',
  auth_failures_per_min: 10_000, pools: [pool()], ...extra,
});
const run = (g, key, code = 'print(6 * 7)') => request(g, 'POST', '/api/run', { key, body: { code } });

async function accepted(g, token) {
  const answer = await run(g, token);
  assert.equal(answer.status, 200, answer.text);
  assert.equal(answer.body.stdout, '42\n');
}

describe('tokens of an issuer', () => {
  const rsa = new Signer('key-rsa');
  const signers = [rsa, ...['PS256', 'ES256', 'ES384', 'ES512'].map((alg) => new Signer(`key-${alg}`, alg))];
  let issuer, g;

  before(async () => {
    issuer = await new Issuer(...signers).up();
    g = await Glovebox.start({ config: options({ jwt_jwks_url: issuer.url }) });
  });
  after(async () => {
    await stop(g);
    await issuer.down();
  });

  test('a right one runs code, of every algorithm and both audiences', async () => {
    for (const signer of signers) await accepted(g, signer.token());
    for (const aud of [...AUDIENCES, ['x', AUDIENCES[1]]]) await accepted(g, rsa.token({ aud }));
    for (const alg of ['RS384', 'RS512', 'PS256', 'PS384', 'PS512'])
      kinds[alg] ??= kinds.RS256;
    for (const alg of ['RS384', 'RS512', 'PS256', 'PS384', 'PS512']) await accepted(g, rsa.token({}, { alg }));
    await accepted(g, rsa.token({ scp: 'a SessionExecutor b', roles: undefined }));
  });

  test('a warm one costs no question to the issuer', async () => {
    const token = rsa.token();
    await accepted(g, token);
    const before = issuer.asked;
    for (let i = 0; i < 5; i++) await accepted(g, token);
    assert.equal(issuer.asked, before);
  });

  const stranger = new Signer('key-rsa');
  const unsigned = (header, claims = {}) => {
    const [head, body] = rsa.token(claims, header).split('.');
    return `${head}.${body}.`;
  };
  const hmac = (secret) => {
    const text = rsa.token({}, { alg: 'HS256' }).split('.').slice(0, 2).join('.');
    return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`;
  };
  const changed = (part, edit) => {
    const parts = rsa.token().split('.');
    parts[part] = Buffer.from(JSON.stringify(edit(JSON.parse(Buffer.from(parts[part], 'base64url'))))).toString('base64url');
    return parts.join('.');
  };
  const faults = {
    'alg none, no signature': () => unsigned({ alg: 'none' }),
    'alg none, a signature': () => rsa.token({}, { alg: 'none' }),
    'no signature': () => unsigned({}),
    'HS256 with the public key (PEM) as secret': () => hmac(rsa.publicKey.export({ type: 'spki', format: 'pem' })),
    'HS256 with the public key (DER) as secret': () => hmac(rsa.publicKey.export({ type: 'spki', format: 'der' })),
    'HS256 with the modulus as secret': () => hmac(Buffer.from(rsa.jwk().n, 'base64url')),
    'a key of another kind': () => rsa.token({}, { kid: 'key-ES256' }),
    'another key of that kind': () => rsa.token({}, { kid: 'key-PS256' }),
    'the right kid, a stranger\'s signature': () => stranger.token(),
    'its own key along': () => stranger.token({}, { jwk: stranger.jwk() }),
    'an address of keys along': () => stranger.token({}, { jku: 'http://127.0.0.1/keys' }),
    'another issuer': () => rsa.token({ iss: 'https://login.example/other/v2.0' }),
    'no issuer': () => rsa.token({ iss: undefined }),
    'another audience': () => rsa.token({ aud: 'https://management.example' }),
    'no audience': () => rsa.token({ aud: undefined }),
    expired: () => rsa.token({ exp: now() - 120 }),
    'no end': () => rsa.token({ exp: undefined }),
    'not yet': () => rsa.token({ nbf: now() + 600 }),
    'no tenant': () => rsa.token({ tid: undefined }),
    'no subject': () => rsa.token({ sub: undefined }),
    'changed claims': () => changed(1, (c) => ({ ...c, sub: 'boss' })),
    'a changed header': () => changed(0, (h) => ({ ...h, typ: 'at+jwt' })),
    'cut short': () => rsa.token().slice(0, -10),
    'cut shorter': () => rsa.token().slice(0, 60),
    'too long a signature': () => `${rsa.token()}AAAA`,
    'one part too many': () => `${rsa.token()}.e30`,
    'critical extension': () => rsa.token({}, { crit: ['exp'] }),
    'huge': () => rsa.token({ x: randomBytes(9000).toString('base64url') }),
    'a key in front': () => `gbx_${rsa.token()}`,
    'nothing but dots': () => '..',
  };
  for (const [name, make] of Object.entries(faults))
    test(`I1 I2 ${name}: 401, as for every cause`, async () => {
      const token = make();
      const answer = await run(g, token);
      const error = refused(answer, 401, 'unauthenticated');
      assert.equal(error.message, 'the key is not valid');
      assert.equal(answer.headers['www-authenticate'], 'Bearer');
      assert.ok(!g.log.includes(token.slice(-40)) || token.length < 40, 'the token is in the log');
    });

  test('a wrong kid is 401, and asks the issuer only so often', async () => {
    const before = issuer.asked;
    for (let i = 0; i < 20; i++) refused(await run(g, rsa.token({}, { kid: `unknown-${i}` })), 401);
    assert.ok(issuer.asked - before <= 4, `asked ${issuer.asked - before} times`);
    await accepted(g, rsa.token());
  });

  test('the cause is in the log, the token is not (I7)', async () => {
    await run(g, rsa.token({ exp: now() - 1000 }));
    await until(() => /token_refused .*why="the token has expired"/.test(g.log));
    assert.doesNotMatch(g.log, /eyJ[A-Za-z0-9_-]{20}/);
  });

  test('scopes: what roles allow and no more', async () => {
    const reader = rsa.token({ roles: ['Reader'], sub: 'reader' });
    refused(await run(g, reader), 403, 'forbidden', /scope/);
    const nobody = rsa.token({ roles: ['Unknown'], sub: 'nobody' });
    for (const path of ['/api/sessions', '/metrics', '/api/pools'])
      refused(await request(g, 'GET', path, { key: nobody }), 403, 'forbidden', /roles/);
    refused(await request(g, 'GET', '/api/keys', { key: rsa.token() }), 403, 'forbidden');
    const listed = await request(g, 'GET', '/api/workspaces', { key: reader });
    assert.equal(listed.status, 200, listed.text);
  });

  test('I3 a session is the person\'s that made it, whichever token they show', async () => {
    const session = await request(g, 'POST', '/api/sessions', { key: rsa.token({ sub: 'maker' }), body: {} });
    assert.deepEqual([session.status, session.body.sharing], [201, 'principal']);
    assert.match(session.body.owner, /^jwt_[0-9a-f]{32}$/);
    const look = async (claims) => (await request(g, 'GET', `/api/sessions/${session.body.id}`, { key: rsa.token(claims) })).status;
    assert.deepEqual([await look({ sub: 'maker', x: 2 }), await look({ sub: 'colleague' }), await look({ sub: 'maker', tid: 'fabrikam' })], [200, 404, 404]);
    const minted = (await request(g, 'POST', '/api/tokens', { key: rsa.token({ sub: 'maker' }), body: { ttl_s: 60 } })).body.secret;
    assert.equal((await request(g, 'GET', `/api/sessions/${session.body.id}`, { key: minted })).status, 200);
    assert.equal((await request(g, 'DELETE', `/api/sessions/${session.body.id}`, { key: rsa.token({ sub: 'maker' }) })).status, 204);
  });

  test('I3 tenants are apart; a subject owns what it makes', async () => {
    const mine = rsa.token({ sub: 'owner' });
    const made = await request(g, 'POST', '/api/workspaces', { key: mine, body: { name: 'w' } });
    assert.equal(made.status, 201, made.text);
    assert.match(made.body.owner, /^jwt_[0-9a-f]{32}$/);
    const path = `/api/workspaces/${made.body.id}`;
    const put = await request(g, 'PUT', `${path}/files/a.txt`, { key: mine, body: 'hello' });
    assert.ok([200, 201].includes(put.status), put.text);
    // The same person with a fresh token; another person, once the tenant
    // is no member; another tenant.
    assert.equal((await request(g, 'DELETE', `${path}/members/*`, { key: mine })).status, 204);
    assert.equal((await request(g, 'GET', path, { key: rsa.token({ sub: 'owner', x: 1 }) })).status, 200);
    refused(await request(g, 'GET', path, { key: rsa.token({ sub: 'owner2' }) }), 404);
    refused(await request(g, 'GET', path, { key: rsa.token({ sub: 'owner2', tid: 'fabrikam' }) }), 404);
    // Members by the id of a subject, and an offer that a subject claims.
    const guest = await request(g, 'POST', '/api/workspaces', { key: rsa.token({ sub: 'guest' }), body: {} });
    const added = await request(g, 'PUT', `${path}/members/${guest.body.owner}`, { key: mine, body: { role: 'viewer' } });
    assert.equal(added.status, 204, added.text);
    assert.equal((await request(g, 'GET', `${path}/files/a.txt`, { key: rsa.token({ sub: 'guest' }) })).text, 'hello');
    refused(await request(g, 'POST', `${path}/transfer`, { key: mine, body: { to: guest.body.owner } }), 404, 'not_found', /offer/);
    const offer = await request(g, 'POST', `${path}/offers`, { key: mine, body: {} });
    assert.equal(offer.status, 201, offer.text);
    const claimed = await request(g, 'POST', '/api/workspaces/claim', { key: rsa.token({ sub: 'guest' }), body: { token: offer.body.token } });
    assert.equal(claimed.status, 200, claimed.text);
    assert.equal(claimed.body.owner, guest.body.owner);
    // The trail names the subjects.
    const trail = await g.ok('GET', `/api/audit?tenant=contoso&workspace=${made.body.id}`);
    const acts = trail.data.map(({ actor, action }) => `${actor} ${action}`);
    assert.ok(acts.includes(`${made.body.owner} workspace.create`), acts.join());
    assert.ok(acts.includes(`${guest.body.owner} workspace.claim`), acts.join());
    // By name, too, as the newest token has it.
    assert.equal(trail.data.find((e) => e.action === 'workspace.create').actor_name, 'owner');
    await request(g, 'GET', path, { key: rsa.token({ sub: 'owner', preferred_username: 'ada@contoso.example' }) });
    const later = await g.ok('GET', `/api/audit?tenant=contoso&workspace=${made.body.id}`);
    assert.equal(later.data.find((e) => e.action === 'workspace.create').actor_name, 'ada@contoso.example');
  });

  test('sessions of a token live on with the next one', async () => {
    const made = await request(g, 'POST', '/api/sessions', { key: rsa.token({ sub: 'worker' }), body: {} });
    assert.equal(made.status, 201, made.text);
    const path = `/api/sessions/${made.body.id}`;
    const ran = await request(g, 'POST', `${path}/executions`, { key: rsa.token({ sub: 'worker', x: 2 }), body: { code: 'print(1)' } });
    assert.equal(ran.status, 200, ran.text);
    const evidence = () => request(g, 'GET', '/api/evidence', { key: rsa.token({ sub: 'worker', x: 3 }) });
    const row = await until(async () => (await evidence()).body.data.find((r) => r.execution === ran.body.id), { what: 'evidence' });
    assert.deepEqual([row.key, row.key_name], [made.body.owner, 'worker']);
    refused(await request(g, 'GET', path, { key: rsa.token({ sub: 'worker', tid: 'fabrikam' }) }), 404);
    assert.equal((await request(g, 'DELETE', path, { key: rsa.token({ sub: 'worker' }) })).status, 204);
  });
});

describe('keys of an issuer', () => {
  test('they change: a new one is found at once, an old one is no longer good', async () => {
    const first = new Signer('first');
    const second = new Signer('second', 'ES256');
    const issuer = await new Issuer(first).up();
    const g = await Glovebox.start({ config: options({ jwt_jwks_url: issuer.url }) });
    try {
      const old = first.token();
      await accepted(g, old);
      issuer.signers = [first, second];
      await accepted(g, second.token());
      await accepted(g, old);
      issuer.signers = [second];
      refused(await run(g, new Signer('third').token()), 401); // has them fetched
      refused(await run(g, old), 401);
      await accepted(g, second.token());
    } finally {
      await stop(g);
      await issuer.down();
    }
  });

  test('an issuer that is away: at the start nobody gets in, later nobody is locked out', async () => {
    const signer = new Signer('only');
    const issuer = await new Issuer(signer).up();
    const { port } = issuer;
    await issuer.down();
    const g = await Glovebox.start({ config: options({ jwt_jwks_url: issuer.url }) });
    try {
      refused(await run(g, signer.token()), 401);
      await until(() => /jwt_keys_not_loaded/.test(g.log));
      assert.equal((await fetch(`${g.url}/readyz`)).status, 200);
      await g.ok('POST', '/api/run', { code: '1' }); // our own keys do not care
      await issuer.up(port);
      await accepted(g, signer.token());
      await issuer.down();
      await accepted(g, signer.token({ x: 'fresh' }));
      refused(await run(g, new Signer('new').token()), 401);
      await accepted(g, signer.token({ x: 'fresher' }));
    } finally {
      await stop(g);
    }
  });

  test('answers that are no keys are not believed', async () => {
    const signer = new Signer('only');
    const issuer = await new Issuer(signer).up();
    const elsewhere = await new Issuer(signer).up();
    const answers = [
      (r) => { r.statusCode = 500; r.end(JSON.stringify({ keys: [signer.jwk()] })); },
      (r) => { r.writeHead(302, { location: elsewhere.url }); r.end(); },
      (r) => r.end(JSON.stringify({ keys: [signer.jwk()], pad: 'x'.repeat(300 * 1024) })),
    ];
    for (const answer of answers) {
      issuer.answer = answer;
      const g = await Glovebox.start({ config: options({ jwt_jwks_url: issuer.url }) });
      try {
        refused(await run(g, signer.token()), 401);
      } finally {
        await stop(g);
      }
    }
    assert.equal(elsewhere.asked, 0);
    await issuer.down();
    await elsewhere.down();
  });

  test('from a file, read again when it changes; one tenant for all', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'glovebox-jwks-'));
    chmodSync(dir, 0o755); // the service user must get through
    const file = join(dir, 'keys.json');
    const write = (...signers) => {
      writeFileSync(`${file}.new`, JSON.stringify({ keys: signers.map((s) => s.jwk()) }), { mode: 0o644 });
      renameSync(`${file}.new`, file);
    };
    const [first, second] = [new Signer('a'), new Signer('b')];
    write(first);
    const g = await Glovebox.start({ config: options({ jwt_jwks_file: file, jwt_tenant: 'everybody', jwt_scopes: '', jwt_default_scopes: 'execute' }) });
    try {
      await accepted(g, first.token({ tid: undefined, roles: undefined }));
      write(second);
      await accepted(g, second.token());
      await until(async () => (await run(g, first.token())).status === 401);
    } finally {
      await stop(g);
      rmSync(dir, { recursive: true });
    }
  });
});

describe('settings', () => {
  const wrong = {
    'no audience': [{ jwt_issuer: ISSUER, jwt_jwks_url: 'https://x/' }, /jwt_audiences/],
    'no keys': [{ jwt_issuer: ISSUER, jwt_audiences: 'a' }, /jwt_jwks_url/],
    'keys twice': [{ jwt_issuer: ISSUER, jwt_audiences: 'a', jwt_jwks_url: 'https://x/', jwt_jwks_file: '/x' }, /one of/],
    'keys by plain http': [{ jwt_issuer: ISSUER, jwt_audiences: 'a', jwt_jwks_url: 'http://192.0.2.1/' }, /https/],
    'keys by plain http, disguised': [{ jwt_issuer: ISSUER, jwt_audiences: 'a', jwt_jwks_url: 'http://127.0.0.1@192.0.2.1/' }, /https/],
    'keys by another scheme': [{ jwt_issuer: ISSUER, jwt_audiences: 'a', jwt_jwks_url: 'file:///x' }, /https/],
    'no issuer': [{ jwt_audiences: 'a' }, /jwt_issuer/],
    'a rule that is none': [{ jwt_issuer: ISSUER, jwt_audiences: 'a', jwt_jwks_url: 'https://x.invalid/', jwt_scopes: 'Reader=everything' }, /unknown scope/],
  };
  for (const [name, [config, message]] of Object.entries(wrong))
    test(`${name}: the service does not start, and says why`, async () => {
      const g = await Glovebox.start({ config, wait: false });
      const exit = await g.exited;
      assert.notEqual(exit.code, 0);
      assert.match(g.log, message);
      await g.stop();
    });
});
