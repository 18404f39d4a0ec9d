// SPDX-License-Identifier: Apache-2.0
// What is on the list and nothing beside it: names, ports, methods, paths,
// and requests that mean two things at once.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import tls from 'node:tls';

import { collect, Lab, METHOD, MODE, PUBLIC, parse, REPORT, until } from '../../lib/egress.mjs';

let lab;
before(async () => {
  lab = await Lab.open();
  await lab.names(Object.fromEntries(['good.example', 'other.example', 'a.wild.example', 'wild.example', 'xn--bcher-kva.example', 'evilgood.example', 'good.example.evil.example']
    .map((name) => [name, { A: [PUBLIC] }])));
});
after(() => lab?.close());

async function untouched() {
  const { contacts, asked } = await lab.contacts();
  assert.deepEqual([contacts, asked], [[], []]);
}

describe('E2: a name that is not listed', () => {
  for (const host of ['other.example', 'evilgood.example', 'good.example.evil.example', 'xgood.example', 'good.exampl', 'gооd.example' /* Cyrillic */])
    test(`${host} is neither reached nor looked up`, async () => {
      await lab.contacts();
      const s = await lab.grant(['good.example']);
      const got = await s.get(`http://${host}/`);
      assert.equal(got.status, 403, got.line);
      assert.match(got.body, /^glovebox: .* is not on this session's allow list/);
      assert.match(got.line, /glovebox: .* is not on this session's allow list/, 'also where clients show it');
      assert.equal((await s.tunnel(`${host}:443`)).status, 403);
      if (/^[ -~]+$/.test(host)) assert.equal((await s.lookup(host)).code, 3);
      const r = await s.report(REPORT.tunnel);
      assert.equal(r.allowed, false);
      await untouched();
    });

  test('a session without a network is told so', async () => {
    const s = await lab.grant([], { mode: MODE.none });
    const got = await s.get('http://good.example/');
    assert.equal(got.status, 403);
    assert.match(got.body, /has no network/);
    await untouched();
  });
});

describe('E2: a listed name, written as', () => {
  for (const host of ['GOOD.example', 'good.example.', 'Good.Example.', 'ｇｏｏｄ.example', 'good。example'])
    test(`${host} is the same name`, async () => {
      const s = await lab.grant(['good.example']);
      const got = await s.get(`http://${host}/`);
      assert.equal(got.status, 200, got.line);
      assert.equal(got.json().raw[1], 'good.example', 'and is sent in its one form');
    });

  test('bücher.example is its punycode', async () => {
    const s = await lab.grant(['xn--bcher-kva.example']);
    for (const host of ['bücher.example', 'BÜCHER.example', 'xn--bcher-kva.example', 'XN--BCHER-KVA.example']) assert.equal((await s.get(`http://${host}/`)).status, 200, host);
    assert.equal((await s.get('http://bucher.example/')).status, 403);
  });
});

describe('E2: a host that is none', () => {
  for (const host of ['good.example%00.evil.example', 'good.example%2eevil.example', 'evil.example%40good.example', 'user@good.example', 'user:pass@good.example', 'good.example@evil.example',
    '[good.example]', '[127.0.0.1]', 'good..example', '.good.example', 'good.example..', 'good.example\\@evil.example', 'good.example\t', `${'a'.repeat(64)}.example`, `${'a.'.repeat(127)}example`,
    'xn--a', '256.256.256.256', '1.2.3.4.5', '0x', '[::1', '::1', '[::1%25lo]', 'good.example#x', '*.example', ''])
    test(`${JSON.stringify(host.slice(0, 40))} is refused`, async () => {
      await lab.contacts();
      const s = await lab.grant(['good.example', '127.0.0.1', '*.wild.example'], { mode: MODE.open });
      const got = parse(await s.send(`GET http://${host}/ HTTP/1.1\r\nHost: good.example\r\n\r\n`));
      assert.ok([400, 403].includes(got.status), got.line);
      const t = await s.tunnel(`${host}:443`, { host: 'good.example' });
      assert.ok([400, 403].includes(t.status), t.line);
      const { contacts } = await lab.contacts();
      assert.deepEqual(contacts, []);
    });

  test('a NUL or a CR in it is refused', async () => {
    const s = await lab.grant(['good.example']);
    for (const host of ['good.example\0.evil.example', 'good.example\r.evil.example', 'good.example\n'])
      assert.equal(parse(await s.send(`GET http://${host}/ HTTP/1.1\r\nHost: good.example\r\n\r\n`)).status, 400);
  });
});

describe('E2: a star', () => {
  test('is what is below it, not itself', async () => {
    const s = await lab.grant(['*.wild.example']);
    assert.equal((await s.get('http://a.wild.example/')).status, 200);
    assert.equal((await s.get('http://wild.example/')).status, 403);
    assert.equal((await s.get('http://awild.example/')).status, 403);
  });
});

describe('E2: a port', () => {
  test('that is not listed is refused; 80 and 443 are when none is', async () => {
    const s = await lab.grant(['good.example', { host: 'other.example', ports: [8080] }]);
    assert.equal((await s.get('http://good.example:8080/')).status, 403);
    assert.equal((await s.tunnel('good.example:22')).status, 403);
    assert.equal((await s.get('http://other.example:8080/')).status, 200);
    assert.equal((await s.get('http://other.example/')).status, 403);
    assert.equal((await s.get('http://other.example:8081/')).status, 403);
    assert.match((await s.get('http://good.example:8080/')).body, /another port is/);
  });

  for (const port of ['0', '65536', '-1', '08080', '80 80', '8o', '', '99999999999'])
    test(`"${port}" is none`, async () => {
      const s = await lab.grant([], { mode: MODE.open });
      const got = parse(await s.send(`CONNECT good.example:${port} HTTP/1.1\r\nHost: good.example\r\n\r\n`));
      assert.equal(got.status, 400, got.line);
    });

  test('carries what is not TLS only where the list names it', async () => {
    const s = await lab.grant(['good.example', { host: 'other.example', ports: [22, 80] }]);
    const ssh = await s.tunnel('other.example:22');
    assert.equal(ssh.status, 200);
    const all = collect(ssh.socket);
    ssh.socket.write('hello');
    setTimeout(() => ssh.socket.end(), 200);
    assert.match(await all, /^220 hello\r\nhello/);
    // 80 in the default ports is for requests, not for a tunnel of anything.
    const t = await s.tunnel('good.example:80');
    assert.equal(t.status, 200);
    const ended = collect(t.socket);
    t.socket.write('GET / HTTP/1.1\r\nHost: other.example\r\n\r\n');
    assert.equal(await ended, '');
    const told = await until(() => s.reports(REPORT.tunnel).find((r) => r.host === 'good.example'), { what: 'a report of the second' });
    assert.match(told.reason, /not TLS/);
  });
});

describe('E2: TLS in a tunnel', () => {
  const hello = async (s, authority, servername) => {
    const t = await s.tunnel(authority);
    assert.equal(t.status, 200, t.line);
    return new Promise((done) => {
      const secure = tls.connect({ socket: t.socket, servername, rejectUnauthorized: false }, () => { done('connected'); secure.destroy(); });
      secure.on('error', () => done('closed'));
      secure.on('close', () => done('closed'));
    });
  };

  test('must ask for the host of the tunnel', async () => {
    const s = await lab.grant(['good.example']);
    assert.equal(await hello(s, 'good.example:443', 'good.example'), 'connected');
    await lab.contacts();
    assert.equal(await hello(s, 'good.example:443', 'other.example'), 'closed');
    const { contacts } = await lab.contacts();
    assert.deepEqual(contacts.filter((c) => c.name), [], 'the other name never arrived');
    const refused = (await s.report(REPORT.tunnel));
    assert.equal(refused.allowed, false);
    assert.match(refused.reason, /another host/);
  });

  test('that is broken, or broken in pieces, does not pass', async () => {
    const s = await lab.grant(['good.example']);
    for (const bytes of ['160301000501000001ff00', '16030100020100', '1603017fff', '160301000a0200000600000000']) {
      const t = await s.tunnel('good.example:443');
      const ended = collect(t.socket);
      t.socket.end(Buffer.from(bytes, 'hex'));
      assert.equal(await ended, '');
    }
  });
});

describe('E2: the Host header', () => {
  test('must be the host and port of the address', async () => {
    await lab.contacts();
    const s = await lab.grant(['good.example', 'other.example']);
    for (const host of ['other.example', 'good.example:8080', 'good.example.evil.example', '', 'good.example, other.example', 'x@good.example'])
      assert.equal((await s.get('http://good.example/', { host: host || '\t' })).status, 400, host);
    assert.equal(parse(await s.send('GET http://good.example/ HTTP/1.1\r\n\r\n')).status, 400);
    assert.equal(parse(await s.send('GET http://good.example/ HTTP/1.1\r\nHost: good.example\r\nHost: good.example\r\n\r\n')).status, 400);
    assert.equal(parse(await s.send('CONNECT good.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n')).status, 400);
    await untouched();
    for (const host of ['good.example', 'GOOD.EXAMPLE:80', 'good.example.']) assert.equal((await s.get('http://good.example/', { host })).status, 200, host);
  });
});

describe('E2: methods and paths', () => {
  const rules = [{ host: 'good.example', methods: METHOD.GET | METHOD.HEAD, path: '/api/v1' }];

  test('only the listed ones', async () => {
    const s = await lab.grant(rules);
    assert.equal((await s.get('http://good.example/api/v1')).status, 200);
    assert.equal((await s.get('http://good.example/api/v1/x?y')).status, 200);
    assert.equal((await s.get('http://good.example/api/v1', { method: 'HEAD' })).status, 200);
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'PROPFIND', 'get'])
      assert.equal((await s.get('http://good.example/api/v1', { method })).status, 403, method);
    for (const path of ['/', '/api', '/api/', '/api/v10', '/api/v1x', '/API/v1', '/x/api/v1']) assert.equal((await s.get(`http://good.example${path}`)).status, 403, path);
  });

  test('by no way around', async () => {
    const s = await lab.grant(rules);
    for (const path of ['/api/v1/../../admin', '/api/v1/..', '/api/v1/%2e%2e/admin', '/api/v1/%2E./x', '/api/v1/..%2fadmin', '/api/v1%2f..%2fadmin', '/api/v1/..;/admin', '/api/v1/..%3b/x',
      '/api/v1//x', '//api/v1', '/api/v1/%5c..%5cadmin', '/api/v1/..\\admin', '/api/v1/%00', '/api/v1/%252e%252e/admin', '/api/v1/%', '/api/v1/%zz'])
      assert.equal((await s.get(`http://good.example${path}`)).status, 403, path);
    // What resolves to a listed path is sent as that.
    const got = await s.get('http://good.example/x/../api/./v1/%61?q=..');
    assert.equal(got.json().url, '/api/v1/a?q=..');
  });

  test('cannot be kept by a tunnel that nobody looks into', async () => {
    const s = await lab.grant(rules);
    const t = await s.tunnel('good.example:443');
    assert.equal(t.status, 403);
    assert.match(t.line, /without inspection/);
  });
});
