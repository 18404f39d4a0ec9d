// SPDX-License-Identifier: Apache-2.0
// The memory of sessions: hibernated and woken, undone and redone, branched
// and merged; over a restart of the service, and when it is killed.
import assert from 'node:assert/strict';
import { chmodSync, chownSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, Session, pool, processOnly, sleep, until } from '../../lib/glovebox.mjs';

const memory = { hibernate: true, undo_points: 8 };
const config = { pools: [pool({ ready: 1, ...memory }), pool({ name: 'nap', ready: 0, cooldown_s: 1, ...memory }), pool({ name: 'off', ready: 0, hibernate: false, undo_points: 0 })] };
const here = processOnly('its memory is not ours to copy');
const KILLS = Number(process.env.GLOVEBOX_KILLS ?? 2);
const post = (s, what, body) => s.server.call('POST', `${s.path}/${what}`, body);
const zygoteImages = (g) => readdirSync(join(g.dir, 'data', 'scratch', 'zygotes')).filter((name) => /^[0-9a-f]{32}$/.test(name));
const stored = (g) => until(() => zygoteImages(g).length > 0 && zygoteImages(g), { ms: 30_000, what: 'the image of the zygote' });
const images = (g) => readdirSync(join(g.dir, 'data', 'images'));

// The interpreter that the next cell runs on, and what it prints.
async function next(s, code) {
  const e = await s.python(code);
  assert.equal(e.outcome, 'ok', JSON.stringify(e.error));
  return { how: e.interpreter, out: e.stdout.trim(), notice: e.notice };
}

describe('memory of sessions', here, () => {
  let g;
  before(async () => { g = await Glovebox.start({ config }); });
  after(() => g?.stop());

  test('S4: hibernate releases the sandbox, the next call wakes it with its variables', async () => {
    const s = await g.session();
    await s.out('secret = "correct horse battery staple"; f = open("log.txt", "w"); f.write("half"); f.flush()');
    await s.out('import os; os.makedirs("/mnt/data/d", exist_ok=True); os.chdir("/mnt/data/d"); _ = open("here", "w").write("x"); twice = lambda n: 2 * n');
    const slept = await post(s, 'hibernate');
    assert.equal(slept.status, 200, slept.text);
    assert.equal(slept.body.state, 'hibernated');
    assert.ok(slept.body.memory.image_bytes > 0);
    const bytes = readFileSync(join(g.dir, 'data', 'images', images(g)[0]));
    assert.equal(bytes.includes('correct horse'), false, 'encrypted at rest');
    const woken = await next(s, 'f.write(" done"); f.close(); print(secret, twice(21), os.getcwd(), open("/mnt/data/log.txt").read())');
    assert.deepEqual(woken, { how: 'woken', out: 'correct horse battery staple 42 /mnt/data/d half done', notice: null });
    assert.equal((await next(s, 'print(1)')).how, 'same');
    assert.equal((await s.get()).interpreters, 1);
    await s.delete();
    assert.deepEqual(images(g), [], 'D10: deleted with its session');
  });

  test('S3: a woken session draws other random numbers than before', async () => {
    const s = await g.session();
    await s.out('import random, os, uuid; random.random()');
    await post(s, 'hibernate');
    const [a] = (await s.get()).memory.uncarried;
    assert.equal(a, undefined);
    const branches = (await s.server.ok('POST', `${s.path}/branch`, { count: 3 })).sessions.map((b) => new Session(g, b));
    const drawn = await Promise.all([s, ...branches].map((b) => b.out('print(random.random(), uuid.uuid4())')));
    assert.equal(new Set(drawn).size, 4, drawn.join('\n'));
    await Promise.all([s, ...branches].map((b) => b.delete()));
  });

  test('a session that idles hibernates by itself; nothing of it stays on the host', async () => {
    const s = await g.session({ pool: 'nap' });
    await s.out('x = 6');
    await until(async () => (await s.get()).state === 'hibernated', { ms: 15_000, what: 'hibernated' });
    assert.deepEqual(await next(s, 'print(x * 7)'), { how: 'woken', out: '42', notice: null });
    await s.delete();
  });

  test('every door wakes it: a file, MCP and the command line see the same session', async () => {
    const s = await g.session();
    await s.out('x = 1; open("a.txt", "w").write("a")');
    await post(s, 'hibernate');
    assert.equal((await s.read('a.txt')).text, 'a', 'files are read without waking it');
    assert.equal((await s.get()).state, 'hibernated');
    await s.put('b.txt', 'b');
    assert.equal((await next(s, 'print(x, open("b.txt").read())')).out, '1 b');
    await s.delete();
  });

  test('S1: an image that was changed is refused, and the answer says why', async () => {
    const s = await g.session();
    await s.out('x = 1; open("a.txt", "w").write("kept")');
    await post(s, 'hibernate');
    const [name] = images(g);
    const at = join(g.dir, 'data', 'images', name);
    const bytes = readFileSync(at);
    bytes[bytes.length >> 1] ^= 1;
    writeFileSync(at, bytes);
    const e = await next(s, 'print(open("a.txt").read())');
    assert.equal(e.how, 'fresh');
    assert.equal(e.out, 'kept');
    assert.match(e.notice, /could not be restored because its image is damaged: variables .* are gone; files are kept\./);
    await s.delete();
  });

  test('what cannot be carried is told before it is lost, and keeps the session up', async () => {
    const s = await g.session();
    await s.out('import threading, time; stop = threading.Event(); t = threading.Thread(target=stop.wait); t.start()');
    const refused = await post(s, 'hibernate');
    assert.equal(refused.status, 409, refused.text);
    assert.match(refused.body.error.message, /thread/);
    const shown = await s.get();
    assert.deepEqual([shown.state, shown.memory.hibernates], ['idle', false]);
    assert.ok(shown.memory.uncarried.includes('threads'));
    await s.out('stop.set(); t.join()');
    assert.equal((await post(s, 'hibernate')).status, 200);
    assert.equal((await next(s, 'print(t.is_alive())')).how, 'woken');
    await s.delete();
  });

  test('sessions that keep nothing, and pools that do not hibernate, are refused', async () => {
    const gone = await g.session({ persistence: 'ephemeral' });
    await gone.out('x = 1');
    assert.equal((await post(gone, 'hibernate')).status, 409);
    const off = await g.session({ pool: 'off' });
    await off.out('x = 1');
    assert.equal((await post(off, 'hibernate')).status, 409);
    assert.equal((await post(off, 'undo')).status, 409);
    await Promise.all([gone.delete(), off.delete()]);
    assert.deepEqual(images(g), []);
  });

  test('undo and redo take memory and files together', async () => {
    const s = await g.session();
    await s.out('x = 1; open("f.txt", "w").write("one")');
    await s.out('x = 2; open("f.txt", "w").write("two"); open("g.txt", "w").write("g")');
    const undone = await post(s, 'undo', { executions: 1 });
    assert.equal(undone.status, 200, undone.text);
    assert.deepEqual([undone.body.executions, undone.body.files, undone.body.kept], [1, 2, []]);
    assert.match(undone.body.commit, /^cmt_/);
    assert.equal((await s.get()).memory.redo, 1);
    const redone = await post(s, 'redo');
    assert.equal(redone.status, 200, redone.text);
    assert.equal(await s.out('import os; print(x, open("f.txt").read(), sorted(os.listdir()))'), "2 two ['f.txt', 'g.txt']");
    assert.equal((await post(s, 'undo', { executions: 2 })).status, 200);
    assert.equal(await s.out('import os; print(x, open("f.txt").read(), sorted(os.listdir()))'), "1 one ['f.txt']");
    assert.equal((await post(s, 'redo')).status, 409, 'another execution ended it');
    assert.equal((await post(s, 'undo', { executions: 50 })).status, 409);
    assert.equal((await post(s, 'undo', { executions: 0 })).status, 400);
    assert.equal((await post(s, 'undo', { executions: 65 })).status, 400);
    await s.delete();
  });

  test('undo brings an interpreter back that its code has killed', async () => {
    const s = await g.session();
    await s.out('x = 5');
    await s.out('y = 6');
    assert.equal((await s.python('import os, signal; os.kill(os.getpid(), signal.SIGKILL)')).interpreter_lost, true);
    const undone = await post(s, 'undo');
    assert.equal(undone.status, 200, undone.text);
    assert.deepEqual(await next(s, 'print(x, y)'), { how: 'same', out: '5 6', notice: null });
    await s.delete();
  });

  test('branches continue apart, and merge back with conflicts beside', async () => {
    const s = await g.session();
    await s.out('rows = [1, 2, 3]; open("data.csv", "w").write("a")');
    const at = (await s.python('rows.append(4)')).id;
    await s.out('rows.append(5)');
    const made = await s.server.ok('POST', `${s.path}/branch`, { at, name: 'try', count: 2 });
    const [a, b] = made.sessions.map((m) => new Session(g, m));
    assert.deepEqual(made.sessions.map((m) => m.name), ['try-1', 'try-2']);
    assert.notEqual(a.made.workspace, s.made.workspace);
    assert.deepEqual(await next(a, 'rows.append("a"); print(rows); _ = open("a.txt", "w").write("a")'), { how: 'woken', out: "[1, 2, 3, 4, 'a']", notice: null });
    assert.equal((await next(b, 'print(rows); _ = open("data.csv", "w").write("b")')).out, '[1, 2, 3, 4]');
    assert.equal(await s.out('print(rows); _ = open("data.csv", "w").write("own")'), '[1, 2, 3, 4, 5]');
    assert.equal((await post(a, 'merge')).status, 200);
    const merged = await post(b, 'merge');
    assert.equal(merged.status, 200, merged.text);
    await s.server.ok('POST', `${s.path}/refresh`);
    const files = (await s.out('import os; print("\\n".join(sorted(os.listdir("/mnt/data"))))')).split('\n');
    assert.equal(files.length, 3, files.join());
    assert.ok(files.includes('a.txt') && files.includes('data.csv') && files.some((n) => /^data \(conflict .*\)\.csv$/.test(n)), files.join());
    assert.equal((await post(s, 'merge')).status, 409, 'it is no branch');
    assert.equal((await post(s, 'branch', { count: 65 })).status, 400);
    await Promise.all([s, a, b].map((x) => x.delete()));
  });

  test('policy can forbid each of them', async () => {
    const s = await g.session();
    await s.out('x = 1');
    await s.out('x = 2');
    await g.ok('PUT', '/api/policy', { text: 'version: 1\nrules:\n  - name: no-memory\n    match: {action: [hibernate, undo, branch]}\n    then: deny\n' });
    try {
      for (const what of ['hibernate', 'undo', 'branch']) assert.equal((await post(s, what)).status, 403, what);
    } finally {
      await g.ok('PUT', '/api/policy', { text: 'version: 1\n' });
    }
    assert.equal((await post(s, 'undo')).status, 200);
    await s.delete();
  });

  test('O1: the trail has hibernate, wake, undo and branch', async () => {
    const s = await g.session();
    await s.out('x = 1');
    await s.out('x = 2');
    await post(s, 'undo');
    const [b] = (await g.ok('POST', `${s.path}/branch`)).sessions;
    await post(s, 'hibernate');
    await s.out('print(x)');
    const actions = await until(async () => {
      const seen = (await g.ok('GET', `/api/audit?object=${s.id}&limit=100`)).data.map((e) => e.action);
      return ['session.hibernate', 'session.wake', 'session.undo', 'session.branch'].every((a) => seen.includes(a)) && seen;
    }, { what: 'the trail' });
    assert.ok(actions);
    await s.delete();
    await g.call('DELETE', `/api/sessions/${b.id}`);
  });
});

describe('over a restart', here, () => {
  const woken = (e, out) => assert.deepEqual([e.how, e.out], ['woken', out], JSON.stringify(e));

  test('idle sessions hibernate when the service stops, busy ones after their cell', async () => {
    let g = await Glovebox.start({ config });
    try {
      const idle = await g.session(), busy = await g.session();
      await idle.out('x = 41; open("a.txt", "w").write("a")');
      const running = busy.python('import time; time.sleep(1.5); y = 2; open("b.txt", "w").write("b"); print("done")').catch((e) => e);
      await until(async () => (await busy.get()).state === 'running', { what: 'running' });
      await stored(g);
      await g.stop({ keep: true });
      await running;
      g = await Glovebox.start({ config, dir: g.dir });
      assert.match(g.log, /zygote_ready .*from="its image"/);
      for (const s of [idle, busy]) { s.server = g; assert.equal((await s.get()).state, 'hibernated'); }
      assert.equal((await idle.read('a.txt')).text, 'a');
      assert.equal((await busy.read('b.txt')).text, 'b');
      woken(await next(idle, 'print(x + 1)'), '42');
      woken(await next(busy, 'print(y)'), '2');
    } finally {
      await g.stop();
    }
  });

  test('S2: after kill -9 a session is back at its last image, and the answer says so', async () => {
    let g = await Glovebox.start({ config });
    try {
      const s = await g.session();
      await s.out('x = 1');
      await stored(g);
      await post(s, 'hibernate');
      await s.out('x = 2; open("later.txt", "w").write("kept")');
      g.child.kill('SIGKILL');
      await g.exited;
      g = await Glovebox.start({ config, dir: g.dir });
      s.server = g;
      const back = await next(s, 'print(x, open("later.txt").read())');
      woken(back, '1 kept');
      assert.match(back.notice, /variables are those of the last time it was saved; files are newer/);
    } finally {
      await g.stop();
    }
  });

  // A zygote that is worn out makes place for one with another layout; memory
  // of its sessions wakes in forks of the old one, which is revived for it.
  test('Z5: memory outlives its zygote, whose layout new sessions do not get', async () => {
    const worn = { zygote_max_spawns: 6, pools: [pool({ ready: 0, ...memory })] };
    const where = 'import ctypes; print(ctypes.cast(ctypes.CDLL(None).printf, ctypes.c_void_p).value)';
    let g = await Glovebox.start({ config: worn });
    try {
      const s = await g.session();
      const layout = (await next(s, `kept = "here"; ${where}`)).out;
      const [first] = await stored(g);
      assert.equal((await post(s, 'hibernate')).status, 200);
      let other = layout;
      for (let i = 0; i < 40 && other === layout; i++) {
        const n = await g.session();
        other = (await next(n, where)).out;
        await n.delete();
        if (other === layout) await sleep(250);
      }
      assert.notEqual(other, layout, 'the zygote was replaced');
      woken(await next(s, `print(kept); ${where}`), `here\n${layout}`);
      const fresh = await g.session();
      assert.notEqual((await next(fresh, where)).out, layout, 'only for the memory that needs it');
      await until(() => zygoteImages(g).length >= 2, { ms: 20_000, what: 'the image of the new one' });
      assert.ok(zygoteImages(g).includes(first));
      await post(s, 'hibernate');
      await g.stop({ keep: true });
      g = await Glovebox.start({ config: worn, dir: g.dir });
      s.server = g;
      woken(await next(s, `print(kept); ${where}`), `here\n${layout}`);
    } finally {
      await g.stop();
    }
  });

  test('S1: a zygote\'s image that was changed, cut or is not ours is not used', async () => {
    let g = await Glovebox.start({ config });
    const at = () => join(g.dir, 'data', 'scratch', 'zygotes', zygoteImages(g)[0]);
    const flip = (offset) => () => {
      const bytes = readFileSync(at());
      bytes[offset < 0 ? bytes.length + offset : offset] ^= 1;
      writeFileSync(at(), bytes, { flag: 'r+' });
    };
    const heap = () => { // a byte of its heap that is not zero
      const bytes = readFileSync(at());
      let i = bytes.length >> 1;
      while (!bytes[i]) i++;
      return i;
    };
    try {
      const s = await g.session();
      await s.out('x = 1; open("a.txt", "w").write("kept")');
      await stored(g);
      const cases = [['tables', flip(4096 + 200)], ['heap', () => flip(heap())()], ['head', flip(20)],
        ['cut', () => truncateSync(at(), statSync(at()).size - 4096)],
        ['mode', () => chmodSync(at(), 0o644)], ['owner', () => chownSync(at(), 1, 1)]];
      for (const [name, change] of cases) {
        await stored(g).catch((e) => { throw new Error(name + g.log, { cause: e }); });
        await s.out('x = 1');
        await g.stop({ keep: true });
        change();
        g = await Glovebox.start({ config, dir: g.dir });
        s.server = g;
        assert.match(g.log, /zygote_ready .*from="its imports"/, name);
        const e = await next(s, 'print(open("a.txt").read())');
        assert.deepEqual([e.how, e.out], ['fresh', 'kept'], name);
        assert.match(e.notice, /could not be restored because it was saved with another runtime/, name);
      }
    } finally {
      await g.stop();
    }
  });

  test(`D7 S2: ${KILLS} kills during hibernate and wake lose nothing acknowledged`, { timeout: 60_000 + KILLS * 30_000 }, async (t) => {
    let g = await Glovebox.start({ config });
    try {
      const s = await g.session();
      let x = 0;
      const tally = {};
      await s.out('x = 0');
      await stored(g);
      for (let i = 0; i < KILLS; i++) {
        const e = await s.python(`x = ${i + 1}; open("n.txt", "w").write("${i + 1}")`);
        assert.equal(e.outcome, 'ok');
        x = i + 1;
        const slept = i % 2 ? (await post(s, 'hibernate'), s.python('1').catch(() => {})) : post(s, 'hibernate').catch(() => {});
        await sleep(Math.random() * 60);
        g.child.kill('SIGKILL');
        await Promise.all([g.exited, slept]);
        g = await Glovebox.start({ config, dir: g.dir });
        s.server = g;
        assert.equal((await s.read('n.txt')).text, String(x), 'a file that was acknowledged');
        const back = await next(s, 'print(globals().get("x"))');
        if (back.how === 'woken') assert.ok(Number(back.out) <= x && Number(back.out) >= 0, back.out);
        else assert.ok(back.notice, 'a fresh interpreter says why');
        tally[back.how] = (tally[back.how] ?? 0) + 1;
        assert.ok(images(g).length <= 1, images(g).join());
      }
      t.diagnostic(JSON.stringify(tally));
    } finally {
      await g.stop();
    }
  });
});
