// SPDX-License-Identifier: Apache-2.0
// What cannot be decided, told or supervised does not happen: questions
// without an answer, a daemon that does not listen, a proxy that dies, a grant
// that is taken away.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';

import { build } from '../../lib/glovebox.mjs';
import { collect, Lab, MODE, PUBLIC, REPORT, sleep, until } from '../../lib/egress.mjs';

let lab;
before(async () => {
  lab = await Lab.open({ answer_ms: 700, head_ms: 700, connect_ms: 1500, idle_ms: 1500 });
  await lab.names({ 'good.example': { A: [PUBLIC] }, 'other.example': { A: [PUBLIC] }, 'mute.example': { silent: true } });
});
after(() => lab?.close());

// The proxy's own processes: those of its account below the driver.
function processes() {
  return readdirSync('/proc').filter((n) => /^\d+$/.test(n)).flatMap((pid) => {
    try {
      const status = readFileSync(`/proc/${pid}/status`, 'utf8');
      const field = (key) => new RegExp(`^${key}:\\s+(.*)$`, 'm').exec(status)[1];
      return field('Uid').startsWith('1999999999') ? [{ pid: Number(pid), ppid: Number(field('PPid')), status, field }] : [];
    } catch {
      return [];
    }
  });
}

const worker = () => {
  const all = processes();
  return all.find((p) => all.some((q) => q.pid === p.ppid));
};

describe('E4: a destination that is asked about', () => {
  const policy = (answer) => lab.driver.ask('policy', { answer });

  test('passes with a yes, once for each', async () => {
    await policy(1);
    const s = await lab.grant(['good.example'], { ask: true });
    assert.equal((await s.get('http://good.example/a')).status, 200);
    assert.equal((await s.get('http://good.example/a')).status, 200);
    assert.equal((await s.get('http://good.example/b')).status, 200);
    assert.equal(lab.reports(s.handle, REPORT.question).length, 2);
    const q = lab.reports(s.handle, REPORT.question)[0];
    assert.deepEqual([q.host, q.port, q.method, q.path], ['good.example', 80, 'GET', '/a']);
    assert.equal((await s.lookup('good.example')).count, 1);
  });

  test('does not pass with a no, nor without an answer', async () => {
    await lab.contacts();
    const s = await lab.grant(['good.example'], { ask: true });
    await policy(-1);
    const no = await s.get('http://good.example/');
    assert.equal(no.status, 403);
    assert.match(no.body, /the test says no/);
    await policy(0);
    const silence = await s.get('http://good.example/');
    assert.equal(silence.status, 403);
    assert.match(silence.body, /not allowed in time/);
    assert.equal((await s.tunnel('good.example:443')).status, 403);
    assert.equal((await s.lookup('good.example')).code, 3);
    const { contacts, asked } = await lab.contacts();
    assert.deepEqual([contacts, asked], [[], []]);
    await policy(1);
  });

  test('is asked about again when the grant changes, and ended by a no', async () => {
    const rules = [{ host: 'good.example', ports: [22] }];
    const s = await lab.grant(rules, { ask: true });
    const t = await s.tunnel('good.example:22');
    assert.equal(t.status, 200);
    await s.again(rules, { ask: true });
    await sleep(300);
    assert.equal(t.socket.destroyed || t.socket.readableEnded, false, 'a yes lets it go on');
    await policy(-1);
    const ended = collect(t.socket);
    await s.again(rules, { ask: true });
    await ended;
    assert.match((await s.report(REPORT.tunnel)).reason, /not allowed any more/);
    await policy(1);
  });
});

describe('E4: a change', () => {
  test('ends what it does not let any more, and leaves the rest', async () => {
    const two = [{ host: 'good.example', ports: [22] }, { host: 'other.example', ports: [22] }];
    const s = await lab.grant(two);
    const [a, b] = [await s.tunnel('good.example:22'), await s.tunnel('other.example:22')];
    const ended = collect(a.socket);
    await s.again(two.slice(1));
    await ended;
    assert.equal((await s.tunnel('good.example:22')).status, 403);
    const more = collect(b.socket);
    b.socket.write('still here');
    setTimeout(() => b.socket.end(), 200);
    assert.match(await more, /still here/);
  });

  test('that takes it all away ends everything, also the sockets', async () => {
    const s = await lab.grant([{ host: 'good.example', ports: [22] }]);
    const t = await s.tunnel('good.example:22');
    const ended = collect(t.socket);
    await lab.driver.ask('revoke', { handle: s.handle });
    await ended;
    const socket = s.connect();
    assert.equal(await new Promise((done) => { socket.on('error', (e) => done(e.code)); socket.on('connect', () => done('connected')); }), 'ECONNREFUSED');
  });

  test('that is malformed is refused, and what held before holds on', async () => {
    const s = await lab.grant(['good.example']);
    for (const rule of [{ host: 'GOOD.example' }, { host: '*' }, { host: '*.example' }, { host: '' }, { host: 'good.example', path: '/a/../b' }, { host: 'good.example', path: 'a' },
      { host: 'good.example', header: 'a b', value: 'x' }, { host: 'good.example', header: 'a', value: 'x\r\ny: z' }])
      await assert.rejects(s.again([rule]), /the proxy/, JSON.stringify(rule));
    await assert.rejects(s.again(['good.example'], { mode: 9 }));
    assert.equal((await s.get('http://good.example/')).status, 200);
  });
});

describe('E4: patience has an end', () => {
  test('a head that does not come, a destination that does not answer, a tunnel nobody uses', async () => {
    const s = await lab.grant(['good.example', 'mute.example', { host: 'good.example', ports: [22] }]);
    assert.match(await s.send('GET http://good.example/ HTTP/1.1\r\nHost:'), /^HTTP\/1.1 400 /);
    assert.equal(await s.send(''), '');
    const slow = await s.get('http://good.example/slow');
    assert.equal(slow.status, 504, slow.line);
    assert.match((await s.get('http://mute.example/')).body, /looked up/);
    const t = await s.tunnel('good.example:22');
    await collect(t.socket);
    assert.match((await s.report(REPORT.tunnel)).reason, /idle/);
    assert.equal((await s.lookup('mute.example')).code, 2);
  });
});

test('E4 E5: while the daemon does not listen nothing new begins, and nothing is lost', async () => {
  const s = await lab.grant(['good.example'], { requests: 5000, connections: 400 });
  await lab.driver.ask('policy', { answer: 1, stall: true });
  let done = 0;
  const all = Array.from({ length: 30 }, async () => {
    for (let i = 0; i < 20; i++) {
      const got = await s.get('http://elsewhere.example/').catch(() => ({ status: 0 }));
      if (got.status === 403) done++;
    }
  });
  await until(() => done > 50, { what: 'some' });
  await sleep(1500);
  const held = done;
  await sleep(500);
  assert.equal(done, held, 'it stands still');
  assert.ok(held < 600, `${held}`);
  await lab.driver.ask('policy', { answer: 1, stall: false });
  await Promise.all(all);
  const told = () => s.reports(REPORT.http).filter((r) => r.host === 'elsewhere.example').length;
  await until(() => told() >= done, { what: 'a report of each' });
  assert.equal(told(), done);
});

describe('E4: the process', () => {
  test('has an account of its own, no capability, no way to new rights, and a filter', async () => {
    const p = await until(worker);
    assert.equal(p.field('CapEff'), '0000000000000000');
    assert.equal(p.field('CapBnd') !== undefined && p.field('NoNewPrivs'), '1');
    if (!/asan/.test(build)) assert.equal(p.field('Seccomp'), '2'); // whose leak check needs more
    const supervisor = processes().find((q) => q.pid === p.ppid);
    assert.equal(supervisor.field('CapEff'), '0000000000000000');
    const fds = readdirSync(`/proc/${p.pid}/fd`).length;
    assert.ok(fds < 64, `${fds} descriptors`);
  });

  test('that dies leaves no network, is started again, and starts with nothing', async () => {
    const s = await lab.grant([{ host: 'good.example', ports: [22, 80] }]);
    const t = await s.tunnel('good.example:22');
    const ended = collect(t.socket);
    const before = await until(worker);
    process.kill(before.pid, 'SIGKILL');
    await ended;
    await until(() => lab.driver.other.some((m) => m.lost), { what: 'lost' });
    const refused = s.connect();
    assert.equal(await new Promise((done) => { refused.on('error', (e) => done(e.code)); refused.on('connect', () => done('connected')); }), 'ECONNREFUSED');
    await until(async () => (await lab.driver.ask('status').catch(() => ({}))).alive, { what: 'another one' });
    assert.equal((await lab.driver.ask('status')).sessions, 0, 'no grant outlives it');
    assert.notEqual((await until(worker)).pid, before.pid);
    const next = await lab.grant(['good.example'], { mode: MODE.allowlist });
    assert.equal((await next.get('http://good.example/')).status, 200);
  });

  test('that dies again and again is not started without a pause', async () => {
    const lost = () => lab.driver.other.filter((m) => m.lost).length;
    const first = lost();
    const since = Date.now();
    for (let i = 1; i <= 3; i++) {
      await until(async () => (await lab.driver.ask('status').catch(() => ({}))).alive, { ms: 20_000, what: 'another one' });
      process.kill((await until(worker, { ms: 20_000 })).pid, 'SIGKILL');
      await until(() => lost() >= first + i, { ms: 20_000, what: 'lost' });
    }
    assert.ok(Date.now() - since > 400);
    await until(async () => (await lab.driver.ask('status').catch(() => ({}))).alive, { ms: 20_000, what: 'another one' });
  });

  test('ends with its daemon', async () => {
    await lab.driver.close();
    await until(() => processes().length === 0, { what: 'nobody left' });
    lab.driver = null;
  });
});
