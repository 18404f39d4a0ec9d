// SPDX-License-Identifier: Apache-2.0
// What a session can put below /mnt/data to confuse the one who reads it:
// links, devices, names, marks of overlays, files that change while they are
// read, files without end, files without number. Each has a defined result,
// and none reaches beyond the session.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, sleep, until } from '../../lib/glovebox.mjs';
import { READING, asleep, diskUse, told, well, workspaceOf, writing } from '../../lib/kept.mjs';
import { refused, request, resident, sanitized, stop } from '../../lib/wire.mjs';
import { sha256 } from '../../lib/workspace.mjs';

const MiB = 1 << 20;
let server;

before(async () => {
  server = await Glovebox.start({
    config: {
      sessions_per_tenant: 60,
      pools: [pool({ ready: 2 }), pool({ name: 'nap', ready: 1, cooldown_s: 1 }),
        pool({ name: 'small', ready: 0, cooldown_s: 1, scratch_bytes: '16MiB', scratch_inodes: 300 })],
    },
  });
});
after(() => stop(server));

const skipped = (e) => Object.fromEntries(e.files.skipped.map((f) => [f.path, f.reason]));
// A session that begins with nothing below it, and one that woke on files.
const fresh = (spec = { pool: 'nap' }) => server.session(spec);
async function woken(files = { seed: 's' }, spec = { pool: 'nap' }) {
  const s = await server.session();
  await well(s.python(writing(files)));
  await s.delete();
  return fresh({ ...spec, workspace: s.made.workspace });
}

describe('F1 F2 not files', { concurrency: 4 }, () => {
  const LINKS = `
import os
os.chdir("/mnt/data")
open("real", "w").write("r")
os.mkdir("folder")
for name, to in (("absolute", "/etc/passwd"), ("relative", "real"), ("above", "../../etc/shadow"), ("loop", "loop"), ("one", "two"), ("two", "one"),
                 ("proc", "/proc/1/environ"), ("self", "/proc/self/fd/0"), ("dangling", "nowhere"), ("to-folder", "folder"), ("folder/up", ".."), ("root", "/")):
    os.symlink(to, name)
`;
  const NAMES = ['absolute', 'relative', 'above', 'loop', 'one', 'two', 'proc', 'self', 'dangling', 'to-folder', 'folder/up', 'root'];

  for (const [kind, begin] of [['a fresh session', fresh], ['one that woke', woken]]) {
    test(`F1 F2: symbolic links in ${kind} are listed as skipped, never followed`, async () => {
      const s = await begin();
      const e = await well(s.python(LINKS));
      assert.deepEqual(e.files.created.map((f) => f.path), ['real']);
      assert.deepEqual(Object.keys(skipped(e)).sort(), [...NAMES].sort());
      for (const f of e.files.skipped) assert.match(f.reason, /symbolic link/);
      for (const name of NAMES) {
        const answer = await request(server, 'GET', `${s.path}/files/${name}`);
        assert.ok(answer.status >= 400, `${name} ${answer.status}`);
        assert.doesNotMatch(answer.text, /root:|HOME=/);
      }
      assert.ok(!(await workspaceOf(s).paths()).some((path) => NAMES.includes(path)));
      const again = await well(s.python('1'));
      assert.deepEqual(told(again), {}, 'told once');
    });

    test(`F2: FIFOs, sockets and what looks like a device in ${kind}`, async () => {
      const s = await begin();
      const e = await well(s.python(`
import os, socket, stat, json
os.chdir("/mnt/data")
os.mkfifo("fifo")
socket.socket(socket.AF_UNIX).bind("sock")
made = []
for name, kind, device in (("white", stat.S_IFCHR, 0), ("null", stat.S_IFCHR, os.makedev(1, 3)), ("disk", stat.S_IFBLK, os.makedev(8, 0))):
    try:
        os.mknod(name, kind | 0o666, device)
        made.append(name)
    except OSError:
        pass
print(json.dumps(made))
`));
      const made = JSON.parse(e.stdout);
      assert.ok(!made.includes('null') && !made.includes('disk'), 'real devices cannot be made');
      const reasons = skipped(e);
      for (const name of ['fifo', 'sock', ...made]) assert.match(reasons[name] ?? 'not told', /regular files/, `${name}: ${JSON.stringify(told(e))}`);
      assert.deepEqual(e.files.created, []);
      for (const name of ['fifo', 'sock']) {
        const answer = await request(server, 'GET', `${s.path}/files/${name}`);
        assert.ok([400, 404, 409].includes(answer.status), `${answer.status} ${answer.text}`);
      }
    });
  }

  test('F2: a file that one of them replaced counts as deleted', async () => {
    const s = await woken({ a: '1', b: '2', c: '3', 'd/e': '4' });
    const e = await well(s.python(`
import os, shutil
os.chdir("/mnt/data")
os.remove("a"); os.symlink("/etc/passwd", "a")
os.remove("b"); os.mkfifo("b")
shutil.rmtree("d"); os.symlink("/etc", "d")
`));
    assert.deepEqual(e.files.deleted.map((f) => f.path), ['a', 'b', 'd/e']);
    assert.deepEqual(Object.keys(skipped(e)).sort(), ['a', 'b', 'd']);
    assert.deepEqual(await workspaceOf(s).paths(), ['c']);
    await asleep(s);
    assert.deepEqual(await s.json(READING), { c: '3' });
  });

  test('F1 F2: uploads and deletions through the session follow no link', async () => {
    const s = await fresh();
    await well(s.python('import os; os.symlink("/tmp", "/mnt/data/out"); os.symlink("/etc/hostname", "/mnt/data/link"); open("/tmp/victim", "w").write("v")'));
    const put = await request(server, 'PUT', `${s.path}/files/out/new.txt`, { body: Buffer.from('x') });
    assert.ok(put.status >= 400, `${put.status}`);
    assert.ok((await request(server, 'DELETE', `${s.path}/files/out/victim`)).status >= 400);
    assert.equal(await s.out('import os; print(os.path.exists("/tmp/victim"), os.path.exists("/tmp/new.txt"))'), 'True False');
    const over = await request(server, 'PUT', `${s.path}/files/link`, { body: Buffer.from('mine') });
    assert.equal(over.status, 201, over.text);
    assert.equal(await s.out('import os; print(os.path.islink("/mnt/data/link"), open("/mnt/data/link").read())'), 'False mine');
  });
});

describe('F5 names', { concurrency: 4 }, () => {
  test('F5: those that cannot be carried are listed escaped and not kept', async () => {
    const s = await fresh();
    const e = await well(s.python(`
import os
for name in (b"new\\nline", b"bell\\x07", b"tab\\t", b"del\\x7f", b"latin\\xe9", b"cut\\xe2\\x82", b"over\\xc0\\xaf", b"surr\\xed\\xa0\\x80", b"good"):
    open(b"/mnt/data/" + name, "w").write("x")
os.mkdir(b"/mnt/data/dir\\xff"); open(b"/mnt/data/dir\\xff/inside", "w").write("x")
`));
    assert.deepEqual(e.files.created.map((f) => f.path), ['good']);
    assert.deepEqual(Object.keys(skipped(e)).sort(), ['bell\\x07', 'cut\\xe2\\x82', 'del\\x7f', 'dir\\xff', 'latin\\xe9', 'new\\x0aline', 'over\\xc0\\xaf', 'surr\\xed\\xa0\\x80', 'tab\\x09'].sort());
    for (const f of e.files.skipped) assert.match(f.reason, /UTF-8/);
    assert.deepEqual(await workspaceOf(s).paths(), ['good']);
    assert.deepEqual((await server.ok('GET', `${s.path}/files`)).data.map((f) => f.path), ['good']);
  });

  test('F5: odd but proper ones are kept exactly', async () => {
    const s = await fresh();
    const names = ['a (conflict x).txt', 'a (conflict 1a2b3c4d).txt', '.wh.x', '.wh..wh..opq', '.wh..opq/file', ' leading', 'trailing ', '...', '..x', '-rf', '%2e%2e', 'a?b#c&d=e', "it's \"quoted\"",
      'back\\slash', 'new\\x0aline', '\u202eright', 'e\u0301', '\u00e9', '😀', 'glovebox', '.glovebox', 'x'.repeat(255), 'ü'.repeat(127), '*', '$(id)', 'CON', 'a:b'];
    const e = await well(s.python(writing(Object.fromEntries(names.map((name) => [name, `of ${name}`])))));
    assert.deepEqual(e.files.created.map((f) => f.path).sort(), [...names].sort());
    await asleep(s);
    assert.deepEqual(await s.json(READING), Object.fromEntries(names.map((name) => [name, `of ${name}`])));
    const w = workspaceOf(s);
    for (const name of names) assert.equal((await w.get(name)).text, `of ${name}`, name);
    const gone = await well(s.python('import os\nfor n in (".wh.x", ".wh..wh..opq", "..."): os.remove("/mnt/data/" + n)'));
    assert.deepEqual(gone.files.deleted.map((f) => f.path).sort(), ['...', '.wh..wh..opq', '.wh.x']);
    await asleep(s);
    assert.equal(Object.keys(await s.json(READING)).length, names.length - 3);
  });

  test('F5: as deep as a path may be, and deeper', async () => {
    const s = await fresh();
    const deep = (n) => [...Array(n - 1).fill('d'), 'f'].join('/');
    const e = await well(s.python(writing(Object.fromEntries([31, 32, 33, 40].map((n) => [deep(n), `${n}`])))));
    assert.deepEqual(e.files.created.map((f) => f.path).sort(), [deep(31), deep(32)].sort());
    assert.equal(e.files.skipped.length, 1);
    assert.match(e.files.skipped[0].reason, /deep/);
    await asleep(s);
    assert.deepEqual(await s.json(READING), { [deep(31)]: '31', [deep(32)]: '32' });
    const long = `${'n'.repeat(250)}/${'n'.repeat(250)}/${'n'.repeat(250)}/${'n'.repeat(250)}`;
    const more = await well(s.python(writing({ [`${long}/${'x'.repeat(20)}`]: 'fits', [`${long}/${'x'.repeat(21)}`]: 'not' })));
    assert.deepEqual(told(more).created, [`${long}/${'x'.repeat(20)}`]);
    assert.equal(more.files.skipped.length, 1);
  });

  test('F1: marks of overlays set from inside change nothing but the session itself', async () => {
    for (const begin of [fresh, () => woken({ 'd/kept': '1', 'd/other': '2', plain: '3' })]) {
      const s = await begin();
      const before = await workspaceOf(s).paths().catch(() => []);
      const e = await s.python(`
import os, json
os.makedirs("/mnt/data/d", exist_ok=True)
open("/mnt/data/d/mine", "w").write("m"); open("/mnt/data/marked", "w").write("x")
done = {}
for path in ("/mnt/data/d", "/mnt/data/marked", "/mnt/data", "/mnt/data/d/mine"):
    for name, value in (("opaque", b"y"), ("whiteout", b""), ("redirect", b"/etc"), ("metacopy", b""), ("origin", b"\\x00" * 20), ("overlay.opaque", b"y"), ("uuid", b"1" * 16), ("impure", b"y")):
        try:
            os.setxattr(path, "user.overlay." + name, value); done[path + " " + name] = True
        except OSError as error:
            done[path + " " + name] = error.errno
print(json.dumps(done))
`);
      assert.equal(e.outcome, 'ok', JSON.stringify(e.error));
      assert.deepEqual(e.files.deleted, [], 'no mark deletes what it did not delete');
      const after = await workspaceOf(s).paths();
      assert.deepEqual(after, [...new Set([...before, 'd/mine', 'marked'])].sort());
      const inside = await s.json(READING);
      await asleep(s);
      assert.deepEqual(await s.json(READING), inside);
    }
  });
});

describe('F3 sizes', { concurrency: 3 }, () => {
  test('F3: a sparse giant is skipped, a sparse file that fits is kept', async () => {
    const s = await fresh();
    const e = await well(s.python(`
import os
with open("/mnt/data/giant", "wb") as f:
    f.truncate(1 << 40); f.write(b"head"); f.seek((1 << 40) - 4); f.write(b"tail")
with open("/mnt/data/fits", "wb") as f:
    f.seek((256 << 20) - 1); f.write(b"!")
`));
    assert.deepEqual(e.files.created.map((f) => [f.path, f.size]), [['fits', 256 * MiB]]);
    assert.match(skipped(e).giant, /larger/);
    const tail = await workspaceOf(s).get('fits', { range: 'bytes=-3' });
    assert.deepEqual([...tail.bytes], [0, 0, 33]);
    assert.ok(diskUse(join(server.dir, 'data', 'blobs')) < 128 * MiB, 'holes take no disk');
    await asleep(s);
    assert.equal(await s.out('import os; print(os.path.getsize("/mnt/data/fits"), os.listdir("/mnt/data"))'), `${256 * MiB} ['fits']`);
    const cut = await well(s.python('open("/mnt/data/fits", "w").write("small")'));
    assert.deepEqual(told(cut), { modified: ['fits'] });
  });

  test('F3: a file that grows while it is read is kept as long as it was, the rest later', async () => {
    const s = await fresh({});
    await well(s.python(`
import subprocess
p = subprocess.Popen(["python3", "-c", """
import os, time
f = open("/mnt/data/growing", "ab", buffering=0)
for i in range(4000):
    f.write(b"%07d\\\\n" % i * 512)
    if os.path.exists("/tmp/enough"): break
f.write(b"end")
"""])
`));
    // A beginning of it: whole blocks of 512 equal lines, then part of one.
    const whole = (bytes) => {
      const text = bytes.toString('latin1');
      for (let at = 0; at < text.length; at += 8)
        if (!`${String(Math.floor(at / 4096)).padStart(7, '0')}\n`.startsWith(text.slice(at, at + 8)) && !'end'.startsWith(text.slice(at))) return false;
      return true;
    };
    for (let i = 0; i < 5; i++) {
      const e = await well(s.python('import time; time.sleep(0.05)'));
      for (const f of [...e.files.created, ...e.files.modified]) {
        const { bytes } = await request(server, 'GET', f.url);
        assert.equal(bytes.length, f.size);
        assert.equal(sha256(bytes), f.sha256);
        assert.ok(whole(bytes), 'a beginning of it');
      }
    }
    const last = await well(s.python('open("/tmp/enough", "w"); p.wait()'));
    const { bytes } = await workspaceOf(s).get('growing');
    assert.equal(bytes.subarray(-3).toString(), 'end');
    assert.ok(whole(bytes));
    assert.equal(last.outcome, 'ok');
  });

  test('F3: one that shrinks and one that vanishes while they are read do no harm', async () => {
    const s = await fresh({});
    await well(s.python(`
import subprocess
p = subprocess.Popen(["python3", "-c", """
import os, time
until = time.time() + 3
n = 0
while time.time() < until:
    n += 1
    with open("/mnt/data/shrinks", "wb") as f: f.write(b"x" * 3000000); f.flush(); f.truncate(10)
    with open("/mnt/data/t%d" % (n % 9), "wb") as f: f.write(b"y" * 100000)
    os.remove("/mnt/data/t%d" % ((n + 4) % 9)) if os.path.exists("/mnt/data/t%d" % ((n + 4) % 9)) else None
"""])
`));
    for (let i = 0; i < 12; i++) {
      const e = await s.python('import time; time.sleep(0.02)');
      assert.equal(e.outcome, 'ok', JSON.stringify(e.error));
      for (const f of [...e.files.created, ...e.files.modified]) {
        const got = await request(server, 'GET', f.url);
        assert.equal(sha256(got.bytes), f.sha256);
        assert.match(got.text, /^(x*|y*)$/);
      }
    }
    await well(s.python('p.wait()'));
    const e = await well(s.python('1'));
    assert.deepEqual(told(e), {});
    const inside = await s.json(READING);
    const w = workspaceOf(s);
    assert.deepEqual(Object.fromEntries(await Promise.all((await w.paths()).map(async (p) => [p, (await w.get(p)).text]))), inside);
  });
});

describe('F1 races', () => {
  test('F1 F2: a file that becomes a link, a folder, a FIFO and a file again while it is committed', async () => {
    const s = await woken({ 'x/target': 'innocent ' }, {});
    await well(s.python(`
import subprocess
p = subprocess.Popen(["python3", "-c", """
import os, shutil, time
os.chdir("/mnt/data")
until = time.time() + 12
def gone(name):
    try: os.remove(name)
    except IsADirectoryError: shutil.rmtree(name)
    except FileNotFoundError: pass
n = 0
while time.time() < until:
    n += 1
    for name, to in (("a", "/etc/passwd"), ("b", "/proc/1/environ"), ("c", "x/target")):
        open(name + ".n", "w").write("innocent %d" % n); os.rename(name + ".n", name)
        os.symlink(to, name + ".l"); os.rename(name + ".l", name)
    gone("d"); os.mkfifo("d"); gone("d"); os.mkdir("d"); open("d/e", "w").write("innocent %d" % n)
    os.mkdir("p.n"); open("p.n/q", "w").write("innocent %d" % n); gone("p"); os.rename("p.n", "p"); gone("p"); os.symlink("/proc/1", "p")
    gone("d"); os.symlink("/etc", "d"); gone("d"); open("d", "w").write("innocent %d" % n)
"""], stderr=subprocess.DEVNULL)
`));
    let kept = 0;
    const end = Date.now() + 8000;
    while (kept < 20 && Date.now() < end) {
      const e = await s.python('1');
      assert.equal(e.outcome, 'ok', JSON.stringify(e.error));
      kept += e.files.created.length + e.files.modified.length;
    }
    assert.ok(kept > 0, 'some were caught as files');
    await well(s.python('p.kill(); p.wait()'));
    for (const h of (await workspaceOf(s).history('?limit=1000')).data.filter((x) => x.sha256))
      assert.match((await request(server, 'GET', h.url)).text, /^(innocent \d*)?$/, h.path);
  });
});

describe('F7 R4 many', () => {
  test('F7 R4: 100,000 tiny files are committed or refused as a whole, in bounded time', { timeout: 300_000 }, async (t) => {
    const s = await server.session({ pool: 'nap' });
    const started = performance.now();
    const e = await s.python(`
import os
for d in range(100):
    os.mkdir(f"/mnt/data/{d:02}")
    for i in range(995):
        with open(f"/mnt/data/{d:02}/{i:03}", "w") as f: f.write(f"{d} {i}")
`, { timeout_s: 120 });
    const took = performance.now() - started;
    t.diagnostic(`99,500 files: ${e.outcome} after ${(took / 1000).toFixed(1)} s, of which ran ${(e.usage.wall_ms / 1000).toFixed(1)} s`);
    assert.equal(e.outcome, 'ok', JSON.stringify(e.error));
    const w = workspaceOf(s);
    assert.equal((await w.info()).files, 99_500);
    assert.deepEqual([e.files.created.length, e.files.truncated], [1000, true]);
    assert.equal((await w.get('99/994')).text, '99 994');
    await asleep(s);
    const woke = performance.now();
    assert.equal(await s.out('import os; print(sum(len(n) for _, _, n in os.walk("/mnt/data")), open("/mnt/data/50/500").read())'), '99500 50 500');
    t.diagnostic(`woke on them in ${(performance.now() - woke).toFixed(0)} ms`);
    const page = await server.ok('GET', `${s.path}/files?limit=1000&after=50/500`);
    assert.deepEqual([page.data.length, page.data[0].path, page.has_more], [1000, '50/501', true]);
    const clearing = performance.now();
    const gone = await s.shell('cd /mnt/data && rm -rf -- *', { timeout_s: 120 });
    t.diagnostic(`deleted all of them in ${((performance.now() - clearing) / 1000).toFixed(1)} s`);
    assert.equal(gone.outcome, 'ok', JSON.stringify(gone.error));
    assert.equal((await w.info()).files, 0);
  });
});

describe('R4 caps', () => {
  const LEFT = 'import os; v = os.statvfs("/mnt/data")\n';
  test('R4: the byte cap gives ENOSPC inside and a typed limit outside, a workspace below or not', async () => {
    const s = await server.session({ pool: 'small' });
    const fill = (name) => s.python(`with open("/mnt/data/${name}", "wb") as f:\n    while True: f.write(os.urandom(1 << 16)); f.flush()`.replace(/^/, LEFT));
    const e = await fill('first');
    assert.equal(e.outcome, 'limit', JSON.stringify(e.error));
    assert.deepEqual([e.limit.name, e.limit.value], ['scratch_bytes', 16 * MiB]);
    assert.match(e.error.message, /full/);
    assert.equal(e.error.name === 'Limit' || /No space/.test(JSON.stringify(e.error)), true, JSON.stringify(e.error));
    assert.deepEqual(told(e), { created: ['first'] }, 'what fitted is kept');
    assert.ok(e.files.created[0].size > 14 * MiB);
    await asleep(s);
    const next = await fill('second');
    assert.equal(next.outcome, 'limit', JSON.stringify(next.error));
    assert.equal(next.limit.name, 'scratch_bytes');
    assert.deepEqual(told(next), { created: ['second'] });
    assert.ok(next.files.created[0].size > 14 * MiB, 'what is below takes nothing of it');
    const room = await well(s.python('os.remove("/mnt/data/second"); open("/mnt/data/third", "wb").write(bytes(8 << 20))'));
    assert.deepEqual(told(room), { created: ['third'], deleted: ['second'] });
  });

  test('R4: the inode cap gives ENOSPC inside and a typed limit outside, a workspace below or not', async () => {
    const s = await server.session({ pool: 'small' });
    const fill = (name) => s.python(`
import os
os.makedirs("/mnt/data/${name}")
for i in range(1000): open("/mnt/data/${name}/%d" % i, "w").write("x")`);
    const e = await fill('a');
    assert.equal(e.outcome, 'limit', JSON.stringify(e.error));
    assert.deepEqual([e.limit.name, e.limit.value], ['scratch_inodes', 300]);
    const made = e.files.created.length;
    assert.ok(made > 250 && made <= 316, `${made}`);
    await asleep(s);
    const next = await fill('b');
    assert.equal(next.outcome, 'limit', JSON.stringify(next.error));
    assert.equal(next.limit.name, 'scratch_inodes');
    assert.ok(next.files.created.length > 250, `${next.files.created.length}`);
    assert.equal((await workspaceOf(s).info()).files, made + next.files.created.length);
    // Deleting what is below needs an inode each; there must be a way out.
    const out = await well(s.shell('rm -r /mnt/data/b'));
    assert.equal(out.files.deleted.length, next.files.created.length);
    await well(s.shell('rm -r /mnt/data/a'));
    assert.equal((await workspaceOf(s).info()).files, 0);
  });

  test('R4: 900 MB fit a session of 1 GiB; they are neither its memory nor the daemon\'s', { timeout: 180_000 }, async (t) => {
    // With a quarter of the memory, so that it shows.
    const s = await server.session({ limits: { memory_bytes: 256 * MiB } });
    const before = resident(server.pid);
    let peak = before;
    const watch = setInterval(() => { peak = Math.max(peak, resident(server.pid)); }, 50);
    const started = performance.now();
    const e = await s.python(`
import hashlib
h = hashlib.sha256()
block = bytes(range(256)) * 4096
with open("/mnt/data/big", "wb") as f:
    for i in range(900):
        b = b"%08d" % i + block[8:]
        f.write(b); h.update(b)
print(h.hexdigest())
`, { timeout_s: 150 });
    clearInterval(watch);
    t.diagnostic(`written, stored and committed in ${((performance.now() - started) / 1000).toFixed(1)} s; ran ${(e.usage.wall_ms / 1000).toFixed(1)} s; memory ${(e.usage.peak_memory_bytes / MiB).toFixed(0)} MiB, daemon +${((peak - before) / MiB).toFixed(0)} MiB`);
    assert.equal(e.outcome, 'ok', JSON.stringify(e.error));
    const [f] = e.files.created;
    assert.deepEqual([f.path, f.size, f.sha256], ['big', 900 * MiB, e.stdout.trim()]);
    assert.ok(e.usage.peak_memory_bytes <= 256 * MiB);
    assert.ok(peak - before < (sanitized ? 256 : 64) * MiB, `the daemon grew by ${(peak - before) / MiB} MiB`);
    assert.equal((await s.python('x = bytearray(150 << 20); len(x)')).outcome, 'ok', 'what the file took in cache is given back');
    const tail = await workspaceOf(s).get('big', { range: 'bytes=942669824-942669831' });
    assert.equal(tail.text, '00000899');
    await s.delete();
  });

  test('R4: the host\'s disk holds no more than the caps allow', async () => {
    const scratch = join(server.dir, 'data', 'scratch');
    const s = await server.session({ pool: 'small' });
    const idle = diskUse(scratch);
    for (let i = 0; i < 4; i++) await s.python(`import os\ntry:\n    open("/mnt/data/f${i}", "wb").write(os.urandom(20 << 20))\nexcept OSError: pass\nos.path.exists("/mnt/data/f${i}") and os.remove("/mnt/data/f${i}")`);
    const grown = diskUse(scratch) - idle;
    assert.ok(grown < 20 * MiB, `${grown / MiB} MiB more on disk for a cap of 16`);
    await s.delete();
    await until(() => diskUse(scratch) <= idle + 2 * MiB, { ms: 10_000, what: 'given back' });
    await sleep(0);
    refused(await request(server, 'GET', `${s.path}/files`), 404, 'not_found');
  });
});
