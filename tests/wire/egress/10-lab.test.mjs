// SPDX-License-Identifier: Apache-2.0
// The proxy in the lab: what is listed passes, in the clear and by TLS.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import tls from 'node:tls';

import { collect, Lab, PUBLIC, parse, REPORT } from '../../lib/egress.mjs';

let lab;
before(async () => {
  lab = await Lab.open();
  await lab.names({ 'good.example': { A: [PUBLIC] } });
});
after(() => lab?.close());

test('E2: a listed name is reached in the clear', async () => {
  const s = await lab.grant(['good.example']);
  const got = await s.get('http://good.example/hello?x=1');
  assert.equal(got.status, 200, got.line);
  assert.equal(got.json().url, '/hello?x=1');
  const r = await s.report(REPORT.http);
  assert.equal(r.allowed, true);
  assert.deepEqual([r.host, r.port, r.address, r.method, r.path, r.status, r.rule], ['good.example', 80, PUBLIC, 'GET', '/hello', 200, 1]);
  assert.ok(r.bytes_out > 0 && r.bytes_in > 0);
});

test('E2: a listed name is reached by TLS, which stays between the two', async () => {
  const s = await lab.grant(['good.example']);
  const t = await s.tunnel('good.example:443');
  assert.equal(t.status, 200, t.line);
  const secure = tls.connect({ socket: t.socket, servername: 'good.example', rejectUnauthorized: false });
  secure.write('GET /x HTTP/1.1\r\nHost: good.example\r\nConnection: close\r\n\r\n');
  const got = parse(await collect(secure));
  assert.equal(got.status, 200);
  assert.equal(got.json().name, 'good.example');
  const r = await s.report(REPORT.tunnel);
  assert.deepEqual([r.allowed, r.host, r.port, r.address], [true, 'good.example', 443, PUBLIC]);
});
