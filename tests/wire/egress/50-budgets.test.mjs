// SPDX-License-Identifier: Apache-2.0
// Volume, connections, requests and lookups are counted and told, at, below
// and above what was granted.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { collect, Lab, parse, PUBLIC, REPORT, sleep, until } from '../../lib/egress.mjs';

let lab;
before(async () => {
  lab = await Lab.open();
  await lab.names({ 'good.example': { A: [PUBLIC] }, 'other.example': { A: [PUBLIC] } });
});
after(() => lab?.close());

describe('E5: bytes', () => {
  const url = 'http://good.example/bytes?n=10000';
  let cost;

  test('of one request are told', async () => {
    const s = await lab.grant(['good.example']);
    assert.equal((await s.get(url)).body.length, 10000);
    const r = await s.report(REPORT.http);
    cost = r.bytes_out + r.bytes_in;
    assert.ok(r.bytes_in > 10000 && r.bytes_out > 50 && cost < 11000, `${cost}`);
    assert.deepEqual(s.reports(REPORT.budget), []);
  });

  test('exactly enough are enough, and then there are none', async () => {
    const s = await lab.grant(['good.example'], { bytes: cost });
    assert.equal((await s.get(url)).body.length, 10000);
    const next = await s.get(url);
    assert.equal(next.status, 429);
    assert.match(next.body, /byte budget is used up/);
    assert.equal((await s.get(url)).status, 429);
    await s.report(REPORT.budget);
    assert.equal(s.reports(REPORT.budget).length, 1, 'told once');
  });

  test('one too few cuts it off', async () => {
    const s = await lab.grant(['good.example'], { bytes: cost - 1 });
    const got = await s.get(url);
    assert.ok(got.body.length < 10000);
    assert.match((await s.report(REPORT.http)).reason, /used up/);
    assert.equal((await s.get(url)).status, 429);
  });

  test('none at all is refused before anything leaves', async () => {
    await lab.contacts();
    const s = await lab.grant(['good.example'], { bytes: 0 });
    assert.equal((await s.get(url)).status, 429);
    assert.equal((await s.tunnel('good.example:443')).status, 429);
    assert.deepEqual((await lab.contacts()).contacts, []);
  });

  test('of a tunnel count too, both ways', async () => {
    const rules = [{ host: 'good.example', ports: [22] }];
    const talk = async (s) => {
      const t = await s.tunnel('good.example:22');
      const all = collect(t.socket);
      t.socket.write(Buffer.alloc(1000, 'y'));
      setTimeout(() => t.socket.end(), 300);
      return (await all).length;
    };
    const s = await lab.grant(rules, { bytes: 2011 });
    assert.equal(await talk(s), 1011);
    const r = await s.report(REPORT.tunnel);
    assert.deepEqual([r.bytes_out, r.bytes_in, r.allowed], [1000, 1011, true]);
    const less = await lab.grant(rules, { bytes: 2010 });
    assert.ok(await talk(less) < 1011);
    assert.equal((await less.report(REPORT.budget)).type, REPORT.budget);
  });
});

describe('E5: requests', () => {
  test('as many as were granted, and a new grant begins anew', async () => {
    const s = await lab.grant(['good.example'], { requests: 2 });
    assert.equal((await s.get('http://good.example/')).status, 200);
    assert.equal((await s.get('http://elsewhere.example/')).status, 403, 'a refused one counts');
    const third = await s.get('http://good.example/');
    assert.equal(third.status, 429);
    assert.match(third.body, /request budget/);
    assert.equal((await s.tunnel('good.example:443')).status, 429);
    await s.report(REPORT.budget);
    await sleep(50);
    assert.equal(s.reports(REPORT.budget).length, 1);
    assert.equal(s.reports().length, 3, 'what comes after is not told one by one');
    await s.again(['good.example'], { requests: 1 });
    assert.equal((await s.get('http://good.example/')).status, 200);
    assert.equal((await s.get('http://good.example/')).status, 429);
  });

  test('malformed ones count as well', async () => {
    const s = await lab.grant(['good.example'], { requests: 1 });
    assert.equal(parse(await s.send('nonsense\n')).status, 400);
    assert.equal(parse(await s.send('nonsense\n')).status, 429);
  });
});

describe('E5: connections at once', () => {
  test('as many as were granted; one more is told so', async () => {
    const s = await lab.grant([{ host: 'good.example', ports: [22] }], { connections: 2 });
    const open = [await s.tunnel('good.example:22'), await s.tunnel('good.example:22')];
    assert.deepEqual(open.map((t) => t.status), [200, 200]);
    const third = await s.tunnel('good.example:22');
    assert.equal(third.status, 429);
    assert.match(third.line, /as many connections open/);
    open[0].socket.destroy();
    await until(async () => {
      const t = await s.tunnel('good.example:22');
      t.socket?.destroy();
      return t.status === 200;
    }, { what: 'a free place' });
    open[1].socket.destroy();
  });

  test('of all sessions together', async () => {
    const small = await Lab.open({ max_connections: 2 });
    try {
      await small.names({ 'good.example': { A: [PUBLIC] } });
      const [a, b] = [await small.grant([{ host: 'good.example', ports: [22] }]), await small.grant([{ host: 'good.example', ports: [22] }])];
      const open = [await a.tunnel('good.example:22'), await a.tunnel('good.example:22')];
      assert.deepEqual(open.map((t) => t.status), [200, 200]);
      assert.equal((await b.tunnel('good.example:22')).status, 429);
      open.forEach((t) => t.socket.destroy());
    } finally {
      await small.close();
    }
  });
});

describe('E5: lookups', () => {
  test('are answered with one address, counted and told', async () => {
    await lab.names({ 'good.example': { A: [PUBLIC, '1.2.3.5'], AAAA: ['2600:1f00::4'] } });
    await lab.contacts();
    const s = await lab.grant(['good.example'], { lookups: 4 });
    assert.deepEqual(await s.lookup('good.example'), { code: 0, count: 1, address: PUBLIC });
    assert.equal((await s.lookup('GOOD.example', 28)).address, '26001f00000000000000000000000004');
    assert.deepEqual(await s.lookup('good.example', 16), { code: 0, count: 0, address: null }, 'no other kind of record');
    assert.equal((await s.lookup('secret-data.evil.example')).code, 3);
    assert.equal((await s.lookup('good.example')).code, 5, 'then there are none left');
    assert.equal((await s.lookup('good.example')).code, 5);
    const { asked } = await lab.contacts();
    assert.deepEqual([...new Set(asked.map((a) => a.name))], ['good.example'], 'what is not listed is not asked');
    const told = s.reports(REPORT.lookup);
    assert.deepEqual(told.map((r) => [r.host, r.allowed, r.address]), [['good.example', true, PUBLIC], ['good.example', true, '2600:1f00::4'], ['good.example', true, ''], ['secret-data.evil.example', false, '']]);
    assert.equal(s.reports(REPORT.budget).length, 1);
  });
});
