// SPDX-License-Identifier: Apache-2.0
// S: the memory of an interpreter survives: as an image that another sandbox
// continues from, and as points to go back to. Real sandboxes, no service;
// the programs are in tests/memory/programs.mjs.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { onGvisor } from '../lib/glovebox.mjs';
import { Boxes, restarts, round } from '../memory/boxes.mjs';
import { programs, THREADS } from '../memory/programs.mjs';

const skip = onGvisor && 'sessions in a guest keep no memory';
const boxes = {};

before(() => {
  if (!skip) for (const runtime of ['minimal', 'standard']) boxes[runtime] = new Boxes(runtime);
});

after(async () => {
  for (const each of Object.values(boxes)) await each.stop();
});

for (const runtime of ['minimal', 'standard']) {
  describe(`S3 what survives on ${runtime}`, { skip, concurrency: 1 }, () => {
    programs.filter((p) => (p.runtime ?? 'minimal') === runtime).forEach((program, i) => {
      test(program.name, async (t) => {
        // Every third of them a whole round; tests/memory/rounds.mjs has all.
        const why = await round(boxes[runtime], program, 1 + i % 2, { short: i % 3 !== 0 });
        if (why) t.skip(why);
      });
    });
  });
}

for (const runtime of ['minimal', 'standard'])
  test(`S3 memory on ${runtime} continues in forks of a zygote that was revived, twice`, { skip }, async () => {
    const some = programs.filter((p) => (p.runtime ?? 'minimal') === runtime).filter((_, i) => i % 4 === 0);
    const { failures, passed, cases } = await restarts(runtime, some, 1);
    assert.deepEqual(failures, []);
    assert.ok(cases > 5, 'programs were run');
    assert.equal(passed, 2 * cases);
  });

// A box with state, its image, and what becomes of a changed copy of that.
async function imageOf(code, options) {
  const box = await boxes.minimal.open(options);
  await box.out(code);
  const saved = await box.save();
  assert.ok(saved.ok && !saved.refused, saved.line);
  return { box, saved, bytes: readFileSync(saved.image) };
}

async function fate(image, options = {}) {
  const box = await (options.boxes ?? boxes.minimal).open({ image, ...options });
  const said = await box.out('print(6 * 7)');
  await box.close();
  assert.equal(said, '42\n');
  return `${box.how} ${box.why}`;
}

const VERSION_AT = 8, ZYGOTE_AT = 16, BUILD_AT = 32, RELEASE_AT = 56, CPU_AT = 184;

test('S1 a changed, foreign, older or cut image starts a fresh interpreter', { skip }, async () => {
  const { box, bytes } = await imageOf('x = 1');
  const image = boxes.minimal.path('forged');
  const changed = async (change) => {
    const copy = change(Buffer.from(bytes)) ?? Buffer.alloc(0);
    writeFileSync(image, copy);
    return fate(image);
  };
  const flip = (at) => (b) => { b[at] ^= 1; return b; };
  assert.equal(await changed((b) => b), 'woken ');
  for (const at of [VERSION_AT, ZYGOTE_AT, BUILD_AT, RELEASE_AT, CPU_AT]) {
    assert.match(await changed(flip(at)), /^instead .*another runtime/, `byte ${at}`);
  }
  assert.match(await changed(flip(0)), /^instead .*damaged/);
  for (const size of [0, 1, 100, 3000, bytes.length >> 1, bytes.length - 1]) {
    assert.match(await changed((b) => b.subarray(0, size)), /^instead .*damaged/, `${size} bytes`);
  }
  // Counts and sizes, one after the other: each is checked before it is used.
  for (let at = 184; at < 264; at += 4) {
    await changed((b) => { b.writeUInt32LE(0xfffffff0, at); return b; });
  }
  assert.match(await changed(() => Buffer.from('x'.repeat(100000))), /^instead .*damaged/);
  await box.close();
});

test('S1 an image of another zygote is not woken', { skip }, async () => {
  const { box, saved } = await imageOf('x = 1');
  assert.match(await fate(saved.image, { boxes: boxes.standard }), /^instead .*another runtime/);
  await box.close();
});

test('an image that does not fit is refused on both sides', { skip }, async () => {
  const { box, saved } = await imageOf('x = bytearray(b"x" * (80 << 20))');
  assert.match(await fate(saved.image, { memory: 64 }), /^instead .*memory limit/);
  const cut = await box.save(boxes.minimal.path('small'), saved.bytes - 1);
  assert.match(cut.line, /^error .*too large/);
  assert.equal(await box.out('print(len(x))'), `${80 << 20}\n`);
  assert.equal((await box.save(boxes.minimal.path('exact'), saved.bytes + 65536)).ok, true);
  await box.close();
});

test('S3 two interpreters from one image draw different numbers', { skip }, async () => {
  const { box, saved } = await imageOf('import random, uuid, ssl, tempfile\nrandom.seed(1); ssl.RAND_bytes(4)');
  const draw = 'print(random.random(), uuid.uuid1().node, ssl.RAND_bytes(16).hex(), next(tempfile._get_candidate_names()))';
  const drawn = [];
  for (let i = 0; i < 2; i++) {
    const woken = await boxes.minimal.open({ image: saved.image });
    assert.equal(woken.how, 'woken');
    drawn.push((await woken.out(draw)).trim().split(' '));
    await woken.close();
  }
  for (const i of [0, 2, 3]) assert.notEqual(drawn[0][i], drawn[1][i]);
  await box.close();
});

test('S4 a woken interpreter has the limits and the walls of its new sandbox', { skip }, async () => {
  const { box, saved } = await imageOf('import os', { cores: 2 });
  const woken = await boxes.minimal.open({ image: saved.image, cores: 1, memory: 200 });
  const facts = `print(os.cpu_count(), os.environ["OMP_NUM_THREADS"], os.environ["HOME"])
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
print(*(status[k].strip() for k in ("Seccomp", "NoNewPrivs", "CapEff", "CapPrm", "Uid")))
for path in ("/etc/x", "/proc/self/oom_score_adj", "/x"):
  try: open(path, "w"); print("open")
  except OSError as e: print("closed")`;
  assert.equal(await woken.out(facts),
    '1 1 /home/user\n2 1 0000000000000000 0000000000000000 1000\t1000\t1000\t1000\nclosed\nclosed\nclosed\n');
  assert.match((await woken.cell('x = bytearray(b"x" * (400 << 20))')).line, /^(error the kernel ended|ok \d+ error)/);
  await woken.close();
  await box.close();
});

test('look says what save will do', { skip }, async () => {
  const box = await boxes.minimal.open();
  await box.out('x = bytearray(b"x" * (8 << 20))');
  const seen = await box.look(), saved = await box.save();
  assert.ok(Math.abs(seen.bytes - saved.bytes) < 1 << 20, `${seen.bytes} ${saved.bytes}`);
  assert.ok(saved.bytes > 8 << 20 && saved.bytes < 14 << 20, `${saved.bytes}`);
  await box.out('import threading, time; threading.Thread(target=time.sleep, args=(9,), daemon=True).start()');
  const then = await box.look();
  assert.ok(then.refused && then.uncarried & THREADS, then.line);
  await box.close();
});

test('points are no children, get no interrupt and end with the kernel', { skip }, async () => {
  const box = await boxes.minimal.open();
  for (let i = 0; i < 12; i++) {
    await box.out(`x = ${i}`);
    assert.equal((await box.call('point', 8)).words[0], String(Math.min(i, 8)));
  }
  assert.equal(await box.out('import os\ntry: os.wait()\nexcept ChildProcessError: print("none")'), 'none\n');
  await box.call('interrupt');
  assert.equal((await box.call('left')).words[0], '0');
  assert.match((await box.call('undo', 10)).line, /^error only 9 earlier/);
  assert.ok((await box.call('undo', 3)).ok);
  assert.equal(await box.out('print(x)'), '9\n');
  assert.ok((await box.call('restart')).ok);
  assert.deepEqual((await box.call('steps')).words, ['0', '0']);
  assert.equal((await box.call('left')).words[1], '2');
  await box.close();
});

test('an interpreter that ended can be undone', { skip }, async () => {
  const box = await boxes.minimal.open();
  await box.out('x = 5');
  await box.call('point', 8);
  for (const end of ['import os; os.kill(os.getpid(), 9)', 'import os; os._exit(3)', 'import ctypes; ctypes.string_at(0)']) {
    assert.match((await box.cell(`x = 6\n${end}`)).line, /^error the kernel ended/);
    assert.ok((await box.call('undo', 1)).ok);
    assert.equal(await box.out('print(x)'), '5\n');
    await box.call('undo', 1);
  }
  await box.close();
});

test('points end before the session reaches its memory limit', { skip }, async () => {
  const box = await boxes.minimal.open({ memory: 256 });
  let most = 0;
  for (let i = 0; i < 8; i++) {
    await box.out(`x = bytearray(b"${i}" * (20 << 20))`);
    most = Math.max(most, Number((await box.call('point', 8)).words[0]));
  }
  assert.ok(most >= 3 && most < 8, `${most} points of 20 MiB in 256`);
  assert.equal(await box.out('import time\ny = []\nfor _ in range(40):\n  y.append(bytearray(b"x" * (5 << 20))); time.sleep(0.01)\nprint(len(y))'), '40\n');
  assert.deepEqual((await box.call('steps')).words, ['0', '0']);
  await box.close();
});
