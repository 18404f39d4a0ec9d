// SPDX-License-Identifier: Apache-2.0
// TLS taken apart where a rule says so, and secrets that are added on the way
// out and nowhere else.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import tls from 'node:tls';
import { X509Certificate } from 'node:crypto';

import { collect, Lab, METHOD, parse, PUBLIC, REPORT } from '../../lib/egress.mjs';

const SECRET = 'Bearer s3cr3t-value-of-the-test';
let lab;
before(async () => {
  lab = await Lab.open();
  await lab.names({ 'good.example': { A: [PUBLIC] }, 'other.example': { A: [PUBLIC] }, 'secret.example': { A: [PUBLIC] }, 'wrong.example': { A: [PUBLIC] } });
});
after(() => lab?.close());

// A request inside of TLS, trusting only the session's own authority.
async function inside(s, authority, request, { servername = authority.replace(/:\d+$/, ''), ca = s.ca, alpn = ['http/1.1'] } = {}) {
  const t = await s.tunnel(authority);
  if (t.status !== 200) return t;
  return new Promise((done, fail) => {
    let agreed = false;
    const secure = tls.connect({ socket: t.socket, servername, ca, ALPNProtocols: alpn }, async () => {
      agreed = true;
      const all = collect(secure);
      secure.write(request);
      done(parse(await all));
    });
    secure.on('error', (error) => fail(error));
    secure.on('close', () => agreed || fail(new Error('closed')));
  });
}

const get = (path, host, extra = '') => `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${extra}\r\n`;

describe('inspection', () => {
  test('E2: methods and paths hold inside of TLS, and the request is reported', async () => {
    const s = await lab.grant([{ host: 'good.example', inspect: true, methods: METHOD.GET, path: '/api' }]);
    const got = await inside(s, 'good.example:443', get('/api/x?y=1', 'good.example'));
    assert.equal(got.status, 200, got.line);
    assert.equal(got.json().tls, true);
    const r = await s.report(REPORT.http);
    assert.deepEqual([r.allowed, r.host, r.port, r.method, r.path, r.status, r.address], [true, 'good.example', 443, 'GET', '/api/x', 200, PUBLIC]);
    assert.equal((await inside(s, 'good.example:443', get('/admin', 'good.example'))).status, 403);
    assert.equal((await inside(s, 'good.example:443', get('/api/../admin', 'good.example'))).status, 403);
    assert.equal((await inside(s, 'good.example:443', 'POST /api HTTP/1.1\r\nHost: good.example\r\nContent-Length: 2\r\n\r\nhi')).status, 403);
    assert.equal((await inside(s, 'good.example:443', get('http://other.example/api', 'good.example'))).status, 400);
    assert.equal((await inside(s, 'good.example:443', get('/api', 'other.example'))).status, 400);
  });

  test('the authority is the session\'s own and signs only what it must', async () => {
    const [a, b] = [await lab.grant([{ host: 'good.example', inspect: true }]), await lab.grant([{ host: 'good.example', inspect: true }])];
    assert.match(a.ca, /^-----BEGIN CERTIFICATE-----/);
    assert.notEqual(a.ca, b.ca);
    const ca = new X509Certificate(a.ca);
    assert.equal(ca.ca, true);
    await assert.rejects(inside(a, 'good.example:443', get('/', 'good.example'), { ca: b.ca }), /certificate|closed/);
    assert.equal((await lab.grant(['good.example'])).ca, '');
    const again = await a.again([{ host: 'good.example', inspect: true }, 'other.example']);
    assert.equal(again.ca, a.ca, 'it stays with the session');
  });

  test('E2: TLS inside must name the host of the tunnel', async () => {
    const s = await lab.grant([{ host: 'good.example', inspect: true }]);
    await assert.rejects(inside(s, 'good.example:443', get('/', 'good.example'), { servername: 'other.example' }));
    assert.match((await s.report(REPORT.tunnel)).reason, /another host/);
  });

  test('only HTTP/1.1 is spoken', async () => {
    const s = await lab.grant([{ host: 'good.example', inspect: true }]);
    await assert.rejects(inside(s, 'good.example:443', get('/', 'good.example'), { alpn: ['h2'] }));
    const t = await s.tunnel('good.example:443');
    const ended = collect(t.socket);
    t.socket.write('GET / HTTP/1.1\r\nHost: good.example\r\n\r\n');
    assert.equal(await ended, '', 'what is not TLS is not let in');
  });

  test('E2: the destination must prove its name to the proxy', async () => {
    const s = await lab.grant([{ host: 'good.example', ports: [443, 9443], inspect: true }, { host: 'wrong.example', inspect: true, header: 'Authorization', value: SECRET }]);
    const self = await inside(s, 'good.example:9443', get('/', 'good.example:9443'));
    assert.equal(self.status, 502, self.line);
    assert.match(self.body, /TLS with good.example failed/);
    const wrong = await inside(s, 'wrong.example:443', get('/', 'wrong.example'));
    assert.equal(wrong.status, 502);
    assert.match(wrong.body, /mismatch/i);
  });

  test('large bodies pass both ways, by length and in chunks', async () => {
    const s = await lab.grant([{ host: 'good.example', inspect: true }]);
    const big = 'x'.repeat(900_000);
    const up = await inside(s, 'good.example:443', `POST /e HTTP/1.1\r\nHost: good.example\r\nContent-Length: ${big.length}\r\n\r\n${big}`);
    assert.equal(up.json().body.length, big.length);
    const chunked = await inside(s, 'good.example:443', `POST /e HTTP/1.1\r\nHost: good.example\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n`);
    assert.equal(chunked.json().body, 'hello world');
    const down = await inside(s, 'good.example:443', get('/bytes?n=3000000', 'good.example'));
    assert.equal(down.body.length, 3_000_000);
  });
});

describe('secrets', () => {
  const rule = { host: 'secret.example', inspect: true, path: '/api', header: 'Authorization', value: SECRET };
  const headers = (json, name) => json.raw.filter((_, i) => i % 2 === 0).map((k, i) => [k.toLowerCase(), json.raw[2 * i + 1]]).filter(([k]) => k.replace(/_/g, '-') === name.toLowerCase()).map(([, v]) => v);

  test('are added for the listed host and path, in place of what the session wrote', async () => {
    const s = await lab.grant([rule, 'other.example']);
    for (const extra of ['', 'Authorization: mine\r\n', 'AUTHORIZATION: mine\r\nauthorization: again\r\n', 'Connection: authorization\r\n']) {
      const got = await inside(s, 'secret.example:443', get('/api/x', 'secret.example', extra));
      assert.deepEqual(headers(got.json(), 'authorization'), [SECRET], extra);
    }
    const r = await s.report(REPORT.http);
    assert.ok(!JSON.stringify(s.reports()).includes(SECRET), 'and not reported');
    assert.equal(r.rule, 1);
  });

  test('are not added for another path, host or after a redirect', async () => {
    const s = await lab.grant([rule, { host: 'secret.example', inspect: true }, { host: 'other.example', inspect: true }]);
    const elsewhere = await inside(s, 'secret.example:443', get('/public', 'secret.example'));
    assert.deepEqual(headers(elsewhere.json(), 'authorization'), []);
    const moved = await inside(s, 'secret.example:443', get('/api/../redirect?to=https://other.example/api', 'secret.example'));
    assert.equal(moved.status, 302);
    const next = await inside(s, 'other.example:443', get('/api', 'other.example'));
    assert.deepEqual(headers(next.json(), 'authorization'), []);
  });

  test('do not go in the clear where the list is about TLS', async () => {
    await lab.contacts();
    const s = await lab.grant([rule]);
    const got = await s.get('http://secret.example/api');
    assert.equal(got.status, 403);
    assert.match(got.body, /use https/);
    const { contacts } = await lab.contacts();
    assert.deepEqual(contacts, []);
  });

  test('are added in the clear where the list says so', async () => {
    const s = await lab.grant([{ host: 'secret.example', ports: [8080], header: 'X-Api-Key', value: 'k-123' }]);
    const got = await s.get('http://secret.example:8080/', { headers: { 'x-api-key': 'mine', X_Api_Key: 'mine too' } });
    assert.deepEqual(headers(got.json(), 'x-api-key'), ['k-123']);
  });
});
