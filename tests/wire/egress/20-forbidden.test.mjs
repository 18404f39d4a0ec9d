// SPDX-License-Identifier: Apache-2.0
// Addresses no session reaches, whatever the list says and however they are
// written. Each of them answers in this lab: the control shows that the proxy
// could have reached it.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { FORBIDDEN, FORBIDDEN6, Lab, MODE, PUBLIC, PUBLIC6, REPORT } from '../../lib/egress.mjs';

let lab;
before(async () => {
  lab = await Lab.open();
});
after(() => lab?.close());

// Nothing but what is expected was reached.
async function silent(what) {
  const { contacts } = await lab.contacts();
  assert.deepEqual(contacts, [], `${what} was contacted`);
}

const hostOf = (address) => (address.includes(':') ? `[${address}]` : address);

describe('E3: an address that is', () => {
  for (const [name, address] of [...Object.entries(FORBIDDEN), ...Object.entries(FORBIDDEN6).map(([n, a]) => [`${n} (v6)`, a])]) {
    test(`${name}, ${address}, is refused by number and by name, listed or open`, async () => {
      await lab.contacts();
      const v6 = address.includes(':');
      await lab.names({ 'trap.example': v6 ? { AAAA: [address] } : { A: [address] } });
      const written = address === '::ffff:10.0.0.5' ? '10.0.0.5' : address === '::ffff:1.2.3.4' ? '1.2.3.4' : address;
      const rules = ['trap.example'];
      if (written !== '1.2.3.4') rules.push(written);
      for (const mode of [MODE.allowlist, MODE.open]) {
        const s = await lab.grant(rules, { mode });
        // Mapped numbers are the v4 address they stand for; a name that
        // answers with one is a trick.
        if (written !== '1.2.3.4') {
          const plain = await s.get(`http://${hostOf(address)}/`);
          assert.equal(plain.status, 403, `${plain.line}`);
          assert.match(plain.body, /^glovebox: .* no session may reach/);
          assert.equal((await s.tunnel(`${hostOf(address)}:443`)).status, 403);
        }
        const named = await s.get('http://trap.example/');
        assert.equal(named.status, 403, named.line);
        assert.equal((await s.tunnel('trap.example:443')).status, 403);
        assert.equal((await s.lookup('trap.example', v6 ? 28 : 1)).code, 3);
        const r = await s.report(REPORT.http);
        assert.equal(r.allowed, false);
        assert.match(r.reason, /no session may reach/);
        await lab.driver.ask('revoke', { handle: s.handle });
      }
      await silent(address);
    });
  }

  test('a control: the proxy could reach them', async () => {
    for (const address of ['10.0.0.5', '169.254.169.254', '127.0.0.1', '1.1.0.2', 'fd00:ec2::254', '64:ff9b::a00:5'])
      assert.ok(lab.reaches(address, 80), address);
    const s = await lab.grant([], { mode: MODE.open });
    await lab.names({ 'six.example': { AAAA: [PUBLIC6] } });
    assert.equal((await s.get('http://six.example/')).status, 200);
    assert.equal((await s.get(`http://[${PUBLIC6}]:8080/`)).status, 200);
    assert.equal((await s.get(`http://${PUBLIC}/`)).status, 200);
    await lab.contacts();
  });
});

describe('E2 E3: an address written as', () => {
  const spellings = ['2130706433', '0x7f000001', '017700000001', '0x7f.1', '127.1', '0177.0.0.1', '0x7f.0x0.0x0.0x1', '127.0.0.1.', '127.000.000.001', '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]', '[0:0:0:0:0:0:0:1]', '[::]', '0', '0.0.0.0', '167772165', '2852039166', '0xa9fea9fe', '0251.0376.0251.0376', '169.254.43518', '[::ffff:a9fe:a9fe]',
    '１２７.0.0.1', '127。0。0。1', '①⑥⑨.254.169.254'];
  for (const host of spellings)
    test(`${host} is refused in open mode`, async () => {
      const s = await lab.grant([], { mode: MODE.open });
      const got = await s.get(`http://${host}/`);
      assert.ok([400, 403].includes(got.status), `${got.line}`);
      assert.ok([400, 403].includes((await s.tunnel(`${host}:443`)).status));
      await silent(host);
    });
});

describe('E2 E3: the name system', () => {
  test('cannot rebind: a name is resolved once and its checked address used', async () => {
    await lab.names({ 'rebind.example': [{ A: [PUBLIC] }, { A: ['10.0.0.5'] }] });
    const s = await lab.grant(['rebind.example']);
    const got = await s.get('http://rebind.example/');
    assert.equal(got.status, 200);
    const first = await lab.contacts();
    assert.deepEqual(first.contacts.map((c) => c.address), [PUBLIC]);
    assert.equal(first.asked.filter((a) => a.type === 1).length, 1);
    // The next request asks anew, is told the private one, and is refused.
    assert.equal((await s.get('http://rebind.example/')).status, 403);
    assert.equal((await s.tunnel('rebind.example:443')).status, 403);
    await silent('10.0.0.5');
  });

  test('refuses a name with public and private addresses, wherever the private one stands', async () => {
    for (const A of [[PUBLIC, '10.0.0.5'], ['10.0.0.5', PUBLIC], [PUBLIC, '1.2.3.5', '169.254.169.254']]) {
      await lab.names({ 'mixed.example': { A } });
      const s = await lab.grant(['mixed.example']);
      assert.equal((await s.get('http://mixed.example/')).status, 403);
    }
    await lab.names({ 'mixed.example': { A: [PUBLIC], AAAA: ['fd12::5'] } });
    const s = await lab.grant(['mixed.example']);
    assert.equal((await s.get('http://mixed.example/')).status, 403);
    await silent('mixed.example');
  });

  test('refuses a listed name that is an alias of a private one', async () => {
    await lab.names({ 'alias.example': { CNAME: 'inner.corp', A: ['10.0.0.5'] } });
    const s = await lab.grant(['alias.example']);
    assert.equal((await s.get('http://alias.example/')).status, 403);
    await silent('inner.corp');
  });

  test('does not read the files of the host', async () => {
    const s = await lab.grant(['localhost', 'ip6-localhost']);
    for (const name of ['localhost', 'ip6-localhost']) assert.notEqual((await s.get(`http://${name}/`)).status, 200);
    await silent('localhost');
  });
});

test('E3: a redirect to a private address is not followed, and asking for it is refused', async () => {
  await lab.names({ 'good.example': { A: [PUBLIC] } });
  const s = await lab.grant(['good.example']);
  const got = await s.get('http://good.example/redirect?to=http://169.254.169.254/latest/meta-data/');
  assert.equal(got.status, 302);
  const { contacts } = await lab.contacts();
  assert.deepEqual(contacts.map((c) => c.address), [PUBLIC]);
  const location = got.head.find((h) => /^location:/i.test(h)).slice(10).trim();
  assert.equal((await s.get(location)).status, 403);
  await silent('169.254.169.254');
});
