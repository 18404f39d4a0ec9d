// SPDX-License-Identifier: Apache-2.0
// A disk that fails: each write, sync, rename and the like of the store and of
// the blobs fails once, with EIO and with ENOSPC, under a real daemon. Nothing
// is acknowledged that is not there, nothing that was there is lost, the
// daemon stays up and says plainly what happened; after a failed sync it
// stores nothing more until it is started anew.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { armFault, disarm, faultEnv, faultFired, faultSeen } from '../../lib/faults.mjs';
import { Glovebox, Session, pool, until } from '../../lib/glovebox.mjs';
import { Ledger, ready, restarted, sha256, sound } from '../../lib/ledger.mjs';

const NEVER = 1_000_000;
const MOST = 6; // of the calls of one kind that an act makes, from both ends
// Nothing of its own accord meanwhile.
const config = { stop_deadline_s: 1, collect_every_s: 86400, scrub_bytes_per_s: 0, restore_window_s: 0,
  pools: [pool({ ready: 1, scratch_bytes: '32MiB', scratch_inodes: 2000 })] };

let g;
let ledger;
let session;

async function restart() {
  disarm();
  await g.stop({ keep: true });
  g = await restarted(g, { config, env: faultEnv() });
  session = new Session(g, { id: session.id });
}

before(async () => {
  g = await Glovebox.start({ config, env: faultEnv() });
  ledger = new Ledger((await g.ok('POST', '/api/workspaces', { name: 'faults' })).id);
  session = await g.session({ workspace: ledger.workspace });
  await ledger.put(g, 'kept.bin', randomBytes(10_000)); // must outlive it all
});

after(async () => {
  disarm();
  await g?.stop();
});

// ---- the acts --------------------------------------------------------------

const is = (path) => Boolean(ledger.paths.get(path)?.acked);
const acts = {
  upload: () => ledger.put(g, 'file.bin', randomBytes(100_000)),
  'upload in parts': () => ledger.parts(g, 'parts.bin', randomBytes(50_000), 2),
  delete: () => ledger.remove(g, 'gone.bin'),
  move: () => {
    const [from, to] = is('m/a') ? ['m/a', 'm/b'] : ['m/b', 'm/a'];
    return ledger.change({ [from]: null, [to]: ledger.paths.get(from).acked },
      () => g.call('POST', `/api/workspaces/${ledger.workspace}/move`, { from, to }));
  },
  execution: () => {
    const text = randomBytes(2000).toString('hex');
    return ledger.execute(session, { 'exec/a.txt': `a ${text}`, 'exec/b.txt': `b ${text}` });
  },
};

// What it needs is there.
async function prepare(name) {
  if (name === 'execution') await ready(g);
  const needs = { delete: !is('gone.bin') && 'gone.bin', move: !is('m/a') && !is('m/b') && 'm/a' }[name];
  if (needs) assert.ok((await ledger.put(g, needs, randomBytes(100))).status < 300, needs);
}

// What a client is told: our shape, no host details; or it is truly done.
function told(answer, what) {
  if (answer.status === 599) { // an execution that was not kept
    const { outcome, files } = answer.body ?? {};
    const said = JSON.stringify([answer.body?.error, answer.body?.limit, files?.refused, files?.skipped]);
    assert.ok(outcome !== 'ok' || files?.refused?.length || files?.skipped?.length, `${what}: an execution that says nothing: ${said}`);
    return;
  }
  assert.ok(answer.status >= 500 && answer.status <= 599, `${what}: ${answer.status} ${answer.text.slice(0, 300)}`);
  const { error } = answer.body;
  assert.ok(['internal', 'storage_full', 'unavailable'].includes(error.code), `${what}: ${answer.text.slice(0, 300)}`);
  assert.ok(error.message.length > 10, what);
  assert.doesNotMatch(answer.text, /\/tmp\/|sqlite|errno|\.c:\d/i, what);
}

const isUp = async () => assert.equal((await fetch(`${g.url}/healthz`)).status, 200);

// Where each act can fail: [operation, part of the path, is it a sync?]
const kinds = [
  ['open-create', '/blobs/', false], ['write', '/blobs/', false], ['pwrite', '/blobs/', false], ['rename', '/blobs/', false],
  ['link', '/blobs/', false], ['ftruncate', '/blobs/', false], ['mkdir', '/blobs/', false],
  [['fsync', 'fdatasync'], '/blobs', true],
  [['write', 'pwrite'], 'glovebox.db-wal', false], [['fsync', 'fdatasync'], 'glovebox.db', true],
];

// Calls of that kind that the act makes when nothing fails.
async function calls(act, op, path) {
  await prepare(act);
  armFault({ op, path, nth: NEVER });
  const answer = await acts[act]();
  const seen = faultSeen();
  disarm();
  assert.ok(answer.status < 300, `${act}: ${answer.status} ${answer.text?.slice(0, 300)}`);
  return seen;
}

// A session takes seconds to start again after a failed sync.
const which = (seen, most) => Array.from({ length: seen }, (_, i) => i + 1).filter((n) => n <= most / 2 || n > seen - most / 2);

describe('D1 D4 D5 a disk that fails', () => {
  let fired = 0;

  for (const act of Object.keys(acts))
    test(`D1 D4 D5: ${act}: each call fails once, with EIO and ENOSPC`, { timeout: 300_000 }, async (t) => {
      const met = [];
      for (const [op, path, sync] of kinds) {
        const seen = await calls(act, op, path);
        if (seen) met.push(`${[op].flat().join('/')} ${path}: ${seen}`);
        for (const nth of which(seen, act === 'execution' && sync ? 2 : MOST))
          for (const action of ['EIO', 'ENOSPC']) {
            const what = `${act}: ${[op].flat().join('/')} ${path} ${nth} of ${seen}: ${action}`;
            await prepare(act);
            armFault({ op, path, nth, action });
            const answer = await acts[act]();
            const happened = faultFired();
            disarm();
            await isUp();
            if (!happened) continue; // it made fewer calls this time
            fired++;
            if (answer.status >= 300) told(answer, what);
            // Whether a change whose sync failed is there the next start tells.
            await ledger.settle(g, { bytes: (p) => p === 'kept.bin', decide: !sync });
            if (sync && (await fetch(`${g.url}/readyz`)).status === 503) {
              // D4: the end of writing, said at once and to everybody.
              const refused = await g.call('PUT', ledger.files('never.bin'), Buffer.from('never'), { raw: true });
              told(refused, `${what}, then a write`);
              assert.equal(refused.body.error.code, 'unavailable', what);
              assert.match(await (await g.call('GET', '/metrics')).text, /^glovebox_storage_writable 0$/m);
              assert.match(g.log, /sync|writing has stopped/, g.log.slice(-1500));
              assert.equal((await g.call('GET', ledger.files('kept.bin'))).status, 200, 'what is stored can be read');
              await restart();
              await ledger.settle(g, { bytes: (p) => p === 'kept.bin' });
            } else if (sync) {
              await ledger.settle(g, { bytes: () => false });
              // A failed sync that was survived must have been nobody's promise.
              assert.ok(answer.status < 300, `${what}: answered ${answer.status} and went on writing`);
            }
            // It goes on.
            const next = await acts.upload();
            assert.ok(next.status < 300, `${what}, then: ${next.status} ${next.text.slice(0, 300)}`);
          }
      }
      await sound(g);
      t.diagnostic(`${met.join(', ')}`);
      assert.ok(met.some((m) => m.includes('glovebox.db-wal')), 'the store was met');
    });

  test('D4: a failed sync is never retried into an acknowledgement', async () => {
    const atOnce = (count, size) => Promise.all(Array.from({ length: count }, (_, i) => ledger.put(g, `sync/${i}`, randomBytes(size))));
    // The log of small files is synced after many commits: what they were told holds, and the one that meets it is refused.
    const inTurn = async (count, size) => {
      const answers = [];
      for (let i = 0; i < count && !answers.some((a) => a.status >= 300); i++) answers.push(await ledger.put(g, `turn/${i}`, randomBytes(size)));
      return answers;
    };
    for (const [path, work] of [['/blobs', () => atOnce(8, 20000)], ['glovebox.db', () => atOnce(8, 1000)], ['/blobs/log.', () => inTurn(100, 1000)]]) {
      armFault({ op: ['fsync', 'fdatasync'], path, nth: 1, action: 'EIO' });
      const answers = await work();
      assert.equal(faultFired(), 1, path);
      const bad = answers.filter((a) => a.status >= 300);
      assert.ok(bad.length >= 1, 'somebody was told');
      const later = await Promise.all(Array.from({ length: 4 }, (_, i) => ledger.put(g, `later/${i}`, randomBytes(1000))));
      assert.deepEqual(later.map((a) => a.status), [503, 503, 503, 503]);
      await restart();
      await ledger.settle(g);
      await sound(g);
    }
  });

  test('D5: a disk that stays full: every write is refused, every read works, and it recovers by itself', async () => {
    armFault({ op: ['write', 'pwrite', 'ftruncate', 'open-create'], path: '/data/', nth: 1, action: 'ENOSPC', forever: true });
    for (let i = 0; i < 3; i++) {
      const answer = await acts.upload();
      assert.equal(answer.status, 507, answer.text.slice(0, 300));
      assert.equal(answer.body.error.code, 'storage_full');
      assert.equal((await g.call('GET', ledger.files('kept.bin'))).status, 200);
    }
    disarm();
    await ledger.settle(g);
    assert.ok((await acts.upload()).status < 300);
    await sound(g);
  });

  test('the audit trail is whole after all that', async () => {
    const report = await g.ok('POST', '/api/audit/verify');
    assert.equal(report.ok, true, JSON.stringify(report));
    assert.ok(fired >= 50, `${fired} faults`);
    await ledger.settle(g);
    assert.equal(sha256((await g.call('GET', ledger.files('kept.bin'))).bytes), ledger.paths.get('kept.bin').acked);
  });

  test('D5: a fault while it starts is said, and the next start works', async () => {
    await g.stop({ keep: true });
    for (const [op, path] of [[['write', 'pwrite'], 'glovebox.db'], [['fsync', 'fdatasync'], 'glovebox.db']]) {
      armFault({ op, path, nth: 1, action: 'EIO', forever: true });
      const dead = await Glovebox.start({ dir: g.dir, config, env: faultEnv(), wait: false });
      await Promise.race([dead.exited, until(async () => dead.log.includes('ready'), { ms: 3000 }).catch(() => {})]);
      const fired_ = faultFired();
      disarm();
      if (!dead.exit) await dead.stop({ keep: true });
      else if (fired_) assert.ok(dead.exit.code > 0 && dead.log.length > 10, JSON.stringify(dead.exit));
    }
    g = await Glovebox.start({ dir: g.dir, config, env: faultEnv() });
    await ledger.settle(g);
    await sound(g);
  });
});
