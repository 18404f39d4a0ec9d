// SPDX-License-Identifier: Apache-2.0
// Bytes that rot on disk: a flipped bit, a cut end, a lost file. They are
// never served, by whatever door they are asked for; they are found by verify
// and by the scrub; and storing the same bytes again heals them.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmodSync, closeSync, existsSync, openSync, readFileSync, readSync, rmSync, statSync, truncateSync, utimesSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, sleep, until } from '../../lib/glovebox.mjs';
import { Ledger, sha256, sound, verify } from '../../lib/ledger.mjs';
import { request } from '../../lib/wire.mjs';

const config = { stop_deadline_s: 1, scrub_bytes_per_s: '1GiB', pools: [pool({ ready: 1 })] };
let g;
let ledger;

before(async () => {
  g = await Glovebox.start({ config });
  ledger = new Ledger((await g.ok('POST', '/api/workspaces', { name: 'rot' })).id);
});

after(() => g?.stop());

const blob = (hash) => join(g.dir, 'data/blobs', hash.slice(0, 2), hash);

// One bit, where nobody looks, and the times put back as they were.
function flip(hash, at) {
  const path = blob(hash);
  const { atime, mtime, mode } = statSync(path);
  chmodSync(path, 0o644);
  const fd = openSync(path, 'r+');
  const byte = Buffer.alloc(1);
  readSync(fd, byte, 0, 1, at);
  byte[0] ^= 0x10;
  writeSync(fd, byte, 0, 1, at);
  closeSync(fd);
  chmodSync(path, mode);
  utimesSync(path, atime, mtime);
}

const ways = {
  'a flipped bit': (hash, size) => flip(hash, Math.floor(size * 0.7)),
  'a cut end': (hash, size) => truncateSync(blob(hash), size - 1),
  'other bytes of the same length': (hash, size) => writeFileSync(blob(hash), randomBytes(size)),
  'a lost file': (hash) => rmSync(blob(hash)),
};

// Every way to ask for it, none of which may give a wrong byte.
async function doors(path, file, share) {
  const raw = { authorization: `Bearer ${g.key}` };
  return {
    'by path': await g.call('GET', ledger.files(path)),
    'by path, a range': await g.call('GET', ledger.files(path), undefined, { headers: { range: 'bytes=0-9' } }),
    'by id': await g.call('GET', `/api/files/${file.file_id}/content`),
    'by version': await g.call('GET', `${ledger.files(path)}?version=${file.version}`),
    'by a link': await request(g, 'GET', share, { key: null }),
    'if it was cached': await g.call('GET', ledger.files(path), undefined, { headers: { ...raw, 'if-none-match': '"other"' } }),
  };
}

describe('D3 D8 bytes that rot', () => {
  for (const [what, damage] of Object.entries(ways))
    test(`D3 D8: ${what} is never served, and found`, async () => {
      const bytes = randomBytes(200_000);
      const path = `${what}.bin`;
      const { body: file } = await ledger.put(g, path, bytes);
      const other = await ledger.put(g, 'well.bin', randomBytes(1000));
      const share = (await g.ok('POST', '/api/shares', { workspace: ledger.workspace, path })).url;
      for (const [door, answer] of Object.entries(await doors(path, file, share)))
        assert.ok(answer.status === 200 || answer.status === 206, `${door}: ${answer.status}`); // and it is remembered as good
      damage(file.sha256, bytes.length);
      for (const [door, answer] of Object.entries(await doors(path, file, share))) {
        assert.equal(answer.status, 500, `${what}, ${door}: ${answer.status}`);
        assert.equal(answer.body.error.code, 'corrupt');
        assert.ok(answer.text.includes(file.sha256.slice(0, 16)), `${door} names the object: ${answer.text}`);
      }
      assert.equal((await g.call('GET', ledger.files('well.bin'))).status, 200, 'others are served');
      assert.equal(other.status < 300, true);

      // A zip breaks off rather than holding it.
      const zip = await Promise.race([sleep(10_000).then(() => ({ status: 'hanging', bytes })),
        request(g, 'GET', `/api/workspaces/${ledger.workspace}/archive`).catch((error) => ({ status: 'broken', error }))]);
      assert.ok(zip.status === 'broken' || zip.status >= 500 || !zip.bytes.includes(bytes.subarray(0, 64)), `zip: ${zip.status}`);

      // A session on it does not start; one on another workspace does.
      const refused = await g.call('POST', '/api/sessions', { workspace: ledger.workspace });
      const answer = refused.status === 201
        ? await g.call('POST', `/api/sessions/${refused.body.id}/executions`, { language: 'python', code: `print(open("/mnt/data/${path}", "rb").read())` })
        : refused;
      assert.ok(answer.status >= 500 || answer.body.outcome !== 'ok', `a session: ${answer.status} ${answer.text.slice(0, 200)}`);
      assert.ok(!answer.bytes.includes('\\x'), 'no bytes of it');
      if (refused.status === 201) await g.call('DELETE', `/api/sessions/${refused.body.id}`);

      const report = await verify(g);
      assert.deepEqual([report.ok, report.bad + report.missing, report.first_bad], [false, 1, file.sha256], JSON.stringify(report));

      // The same bytes, stored again, are good; the damaged ones never count as them.
      const { body: again } = await ledger.put(g, path, bytes);
      assert.equal(again.sha256, file.sha256);
      const healed = await g.call('GET', ledger.files(path));
      assert.deepEqual([healed.status, sha256(healed.bytes)], [200, file.sha256]);
      await sound(g);
      await ledger.settle(g);
    });

  test('D8: the scrub finds it, logs it and counts it', async () => {
    const bytes = randomBytes(50_000);
    const { body: file } = await ledger.put(g, 'scrubbed.bin', bytes);
    const { dir } = g;
    await g.stop({ keep: true });
    flip(file.sha256, 777);
    g = await Glovebox.start({ dir, config });
    await until(async () => /^glovebox_scrub_bad 1$/m.test((await g.call('GET', '/metrics')).text), { ms: 20_000, every: 100, what: 'the scrub' });
    assert.match(g.log, new RegExp(`object_damaged.*${file.sha256}`));
    assert.equal((await g.call('GET', ledger.files('scrubbed.bin'))).status, 500);
    assert.ok(existsSync(blob(file.sha256)), 'it is left for whoever looks into it');
    assert.notEqual(sha256(readFileSync(blob(file.sha256))), file.sha256);
    await ledger.put(g, 'scrubbed.bin', bytes);
    await sound(g);
  });

  test('D6: a damaged database is refused, not served', async () => {
    const { dir } = g;
    await g.stop({ keep: true });
    const path = join(dir, 'data/glovebox.db');
    const whole = readFileSync(path);
    const broken = Buffer.from(whole);
    randomBytes(4096 * 3).copy(broken, 4096 * 2);
    writeFileSync(path, broken);
    const dead = await Glovebox.start({ dir, config, wait: false });
    await until(() => dead.exit, { ms: 15_000, what: 'its end' });
    assert.ok(dead.exit.code > 0, dead.log.slice(-500));
    assert.match(dead.log, /damaged|corrupt|malformed|quick_check/i);
    writeFileSync(path, whole);
    g = await Glovebox.start({ dir, config });
    await ledger.settle(g);
  });
});
