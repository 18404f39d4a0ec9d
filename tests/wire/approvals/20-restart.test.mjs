// SPDX-License-Identifier: Apache-2.0
// Approvals across the service's end, ordered or not; and the webhooks that
// tell of them: signed, in order, tried again.
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { ASKS, Receiver, decide, ended, policy, show, signed } from '../../lib/approvals.mjs';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { request, stop } from '../../lib/wire.mjs';
import { mint } from '../../lib/workspace.mjs';

const SECRET = '0123456789abcdef0123456789abcdef';
let dir;
let secretFile;

before(() => {
  dir = mkdtempSync(join(tmpdir(), 'glovebox-hooks-'));
  chmodSync(dir, 0o755);
  secretFile = join(dir, 'secret');
  writeFileSync(secretFile, `${SECRET}\n`);
  chmodSync(secretFile, 0o644);
});
after(() => rmSync(dir, { recursive: true, force: true }));

// A service that can be ended and started again on the same data.
class Lives {
  static async start(config = {}) {
    const l = new Lives();
    l.config = { pools: [pool({ ready: 1 })], ...config };
    l.server = await Glovebox.start({ config: l.config });
    l.boss = await mint(l.server, ['approve'], { name: 'boss' });
    await policy(l.server, ASKS);
    return l;
  }

  async again({ kill = false } = {}) {
    if (kill) {
      this.server.child.kill('SIGKILL');
      await this.server.exited;
    } else {
      assert.deepEqual(await this.server.stop({ keep: true }), { code: 0, signal: null }, this.server.log.slice(-2000));
    }
    this.server = await Glovebox.start({ config: this.config, dir: this.server.dir });
  }

  async held(session, code) {
    const got = await request(this.server, 'POST', `/api/sessions/${session}/executions`, { body: { language: 'shell', code } });
    assert.equal(got.status, 202, got.text);
    return got.body;
  }

  approve(e) { return decide(this.server, e.approval, 'approve', this.boss.secret); }
  python(session, code) { return this.server.ok('POST', `/api/sessions/${session}/executions`, { language: 'python', code }); }
}

describe('a restart', () => {
  let l;
  before(async () => { l = await Lives.start(); });
  after(() => stop(l?.server));

  test('between asking and approving loses nothing', async () => {
    const { id } = await l.server.session();
    const one = await l.held(id, 'echo one >> ran');
    const run = await request(l.server, 'POST', '/api/run', { body: { language: 'shell', code: 'echo of a run' } });
    assert.equal(run.status, 202, run.text);
    await l.again();
    const two = await show(l.server, one.approval, l.boss.secret);
    assert.equal(two.state, 'pending');
    assert.equal(two.payload.code, 'echo one >> ran');
    assert.equal((await l.server.ok('GET', `/api/executions/${one.id}`)).status, 'pending_approval');
    for (const e of [one, run.body]) assert.equal((await l.approve(e)).status, 200);
    assert.equal((await ended(l.server, one.id)).outcome, 'ok');
    assert.equal((await ended(l.server, run.body.id)).stdout, 'of a run\n');
    assert.equal((await l.python(id, 'print(open("/mnt/data/ran").read())')).stdout.trim(), 'one');
  });

  test('ends what was held in an ephemeral session, at once, and keeps nothing of its code', async () => {
    const { id } = await l.server.session({ persistence: 'ephemeral' });
    const runs = await l.held(id, 'echo approved in time');
    assert.equal((await l.approve(runs)).status, 200);
    assert.equal((await ended(l.server, runs.id)).stdout, 'approved in time\n');
    const one = await l.held(id, 'echo never-kept-here');
    const kept = await l.server.session();
    const other = await l.held(kept.id, 'echo waits on');
    assert.equal((await show(l.server, one.approval)).payload.code, 'echo never-kept-here');
    await l.again({ kill: true });
    const gone = await show(l.server, one.approval, l.boss.secret);
    assert.equal(gone.state, 'withdrawn');
    assert.match(gone.reason, /ended with the service/);
    assert.deepEqual(['code', 'metadata', 'message'].filter((k) => k in gone.payload), []);
    assert.equal((await l.approve(one)).status, 409);
    assert.equal((await request(l.server, 'GET', `/api/executions/${one.id}`)).status, 404);
    const lines = (await l.server.ok('GET', '/api/audit?action=approval.withdraw')).data;
    assert.ok(lines.some((e) => e.object === one.approval && e.actor === 'glovebox'));
    assert.equal((await show(l.server, other.approval)).state, 'pending');
    assert.equal((await request(l.server, 'POST', `/api/executions/${other.id}/cancel`)).status < 300, true);
    const over = await until(async () => { const a = await show(l.server, other.approval); return !('code' in a.payload) && a; }, { what: 'its end, without the code' });
    assert.equal(over.state, 'withdrawn');
    const shown = await l.server.ok('GET', `/api/executions/${other.id}`);
    assert.deepEqual([shown.status, shown.outcome], ['completed', 'cancelled']);
  });

  test('by a kill right after approving: it runs once or is shown as lost, never twice', async () => {
    const { id } = await l.server.session();
    const all = [];
    for (let i = 0; i < 6; i++) all.push(await l.held(id, `echo ${i} >> killed; sleep 0.2`));
    await Promise.all(all.map((e) => l.approve(e)));
    await l.again({ kill: true });
    const settled = await until(async () => {
      const list = await Promise.all(all.map((e) => show(l.server, e.approval)));
      return list.every((a) => ['done', 'lost', 'failed'].includes(a.run)) && list;
    }, { ms: 40_000, what: 'all of them settled' });
    const lines = (await l.python(id, 'import os\nprint(open("/mnt/data/killed").read() if os.path.exists("/mnt/data/killed") else "")')).stdout.trim().split('\n').filter(Boolean);
    assert.equal(new Set(lines).size, lines.length, `twice: ${lines}`);
    settled.forEach((a, i) => {
      if (a.run === 'done') assert.ok(lines.includes(String(i)) || a.outcome !== 'ok', `${i} is done and did not run`);
    });
    for (const [i, a] of settled.entries()) {
      if (a.run !== 'lost') continue;
      const e = await l.server.ok('GET', `/api/executions/${all[i].id}`);
      assert.equal(e.outcome, 'killed');
      assert.match(e.error.message, /not run a second time/);
    }
  });

  test('by an ordered end right after approving: it runs once, in this life or the next', async () => {
    const { id } = await l.server.session();
    const e = await l.held(id, 'echo late >> late');
    assert.equal((await l.approve(e)).status, 200);
    await l.again();
    const a = await until(async () => {
      const one = await show(l.server, e.approval);
      return one.run === 'done' && one;
    }, { ms: 20_000, what: 'its run' });
    assert.ok(['ok', 'cancelled'].includes(a.outcome), a.outcome);
    const times = (await l.python(id, 'import os\nprint(len(open("/mnt/data/late").readlines()) if os.path.exists("/mnt/data/late") else 0)')).stdout.trim();
    assert.equal(times, a.outcome === 'ok' ? '1' : '0');
  });
});

describe('webhooks', () => {
  let l;
  let receiver;
  before(async () => {
    receiver = await Receiver.open();
    l = await Lives.start({ webhook_url: receiver.url, webhook_secret_file: secretFile });
  });
  after(async () => {
    await stop(l?.server);
    await receiver?.close();
  });

  const deliveries = async (id) => (await show(l.server, id)).deliveries;

  test('tell what was asked and what became of it, signed and without the code', async () => {
    const { id } = await l.server.session();
    const e = await l.held(id, 'echo secret-marker');
    assert.equal((await l.approve(e)).status, 200);
    await until(() => receiver.types(e.approval).length === 2, { what: 'two deliveries' });
    assert.deepEqual(receiver.types(e.approval), ['approval.asked', 'approval.approved']);
    for (const got of receiver.got) {
      assert.ok(signed(SECRET, got), 'the signature holds');
      assert.ok(!signed('another', got));
      assert.ok(!signed(SECRET, { ...got, body: `${got.body} ` }));
      assert.ok(!got.body.includes('secret-marker'));
      assert.equal(got.headers['content-type'], 'application/json');
      assert.match(got.headers['glovebox-delivery'], /^apr_[0-9a-f]+-\d+$/);
    }
    const last = receiver.got.at(-1).json;
    assert.equal(last.approval.decided_by, l.boss.id);
    assert.ok(!('payload' in last.approval));
    const list = await until(async () => {
      const d = await deliveries(e.approval);
      return d.every((x) => x.state === 'delivered') && d;
    }, { what: 'delivered' });
    assert.deepEqual(list.map((d) => [d.type, d.attempts, d.status]), [['approval.asked', 1, 204], ['approval.approved', 1, 204]]);
  });

  test('are tried again after a wrong answer, in order, and follow no redirect', async () => {
    const { id } = await l.server.session();
    receiver.status = 500;
    const e = await l.held(id, 'true');
    await until(async () => (await deliveries(e.approval))[0].attempts >= 1, { what: 'a first attempt' });
    receiver.status = 302;
    assert.equal((await decide(l.server, e.approval, 'deny', l.boss.secret, { reason: 'no' })).status, 200);
    const waiting = await until(async () => {
      const d = await deliveries(e.approval);
      return d[0].attempts >= 2 && d;
    }, { ms: 20_000, what: 'a second attempt' });
    assert.equal(waiting[0].state, 'waiting');
    assert.equal(waiting[0].status, 302);
    assert.ok(waiting[0].next_attempt_at);
    assert.equal(waiting[1].attempts, 0, 'the second waits for the first');
    assert.ok(!receiver.got.some((g) => g.path === '/elsewhere'));
    receiver.status = 204;
    await until(() => receiver.types(e.approval).length === 2, { ms: 30_000, what: 'both' });
    assert.deepEqual(receiver.types(e.approval), ['approval.asked', 'approval.denied']);
  });

  test('are delivered after a restart', async () => {
    const { id } = await l.server.session();
    receiver.status = 503;
    const e = await l.held(id, 'true');
    await until(async () => (await deliveries(e.approval))[0].attempts >= 1, { what: 'a first attempt' });
    await l.again();
    receiver.status = 204;
    await request(l.server, 'DELETE', `/api/approvals/${e.approval}`);
    await until(() => receiver.types(e.approval).length === 2, { ms: 30_000, what: 'both' });
    assert.deepEqual(receiver.types(e.approval), ['approval.asked', 'approval.withdrawn']);
  });

  test('that hang hold up nothing else, not even the end', async () => {
    const { id } = await l.server.session();
    receiver.status = 'hang';
    const started = Date.now();
    const e = await l.held(id, 'echo went on');
    await until(() => receiver.got.some((g) => g.json.approval.id === e.approval), { what: 'the attempt' });
    assert.equal((await l.approve(e)).status, 200);
    assert.equal((await ended(l.server, e.id)).stdout, 'went on\n');
    assert.ok(Date.now() - started < 9000, 'before the attempt is given up');
    await l.again();
    receiver.status = 204;
    await until(() => receiver.types(e.approval).length === 2, { ms: 30_000, what: 'both' });
  });
});

describe('a configuration', () => {
  const starts = async (config) => {
    const g = await Glovebox.start({ config: { pools: [pool({ ready: 0 })], ...config }, wait: false });
    const exit = await g.exited;
    const { log } = g;
    await g.stop();
    return { exit, log };
  };

  test('with a webhook that cannot be trusted is refused', async () => {
    const short = join(dir, 'short');
    writeFileSync(short, 'too short\n');
    chmodSync(short, 0o644);
    for (const [config, why] of [
      [{ webhook_url: 'http://example.org/x', webhook_secret_file: secretFile }, /https, or http to a loopback/],
      [{ webhook_url: 'ftp://127.0.0.1/x', webhook_secret_file: secretFile }, /https, or http to a loopback/],
      [{ webhook_url: 'https://example.org/x' }, /webhook_secret_file/],
      [{ webhook_url: 'https://example.org/x', webhook_secret_file: short }, /under 32 bytes/],
      [{ webhook_url: 'https://example.org/x', webhook_secret_file: join(dir, 'none') }, /cannot read/],
    ]) {
      const { exit, log } = await starts(config);
      assert.notEqual(exit.code, 0, log);
      assert.match(log, why);
    }
  });
});
