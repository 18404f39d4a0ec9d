// SPDX-License-Identifier: Apache-2.0
// Real sandboxes without a service, by build/tests/memory-driver, and one
// round of a program of programs.mjs: run, saved, woken, saved again, woken
// again; undone and redone.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build, root, until } from '../lib/glovebox.mjs';

const MOST = 4 * 2 ** 30;

export class Boxes {
  constructor(runtime) {
    this.folder = mkdtempSync(join(tmpdir(), 'glovebox-memory-'));
    mkdirSync(join(this.folder, 'scratch'), { mode: 0o700 });
    this.runtime = runtime;
    this.serial = 0;
    this.begin();
  }

  begin() {
    this.gone = false;
    const { runtime } = this;
    const cache = process.env.GLOVEBOX_RUNTIME_DIR ?? '/var/cache/glovebox/runtimes';
    this.child = spawn(join(build, 'tests/memory-driver'),
      [build, runtime, join(root, 'runtimes'), cache, join(this.folder, 'scratch')],
      { stdio: ['pipe', 'pipe', 'pipe'] });
    this.log = '';
    this.child.stderr.on('data', (data) => { this.log += data; });
    this.bytes = Buffer.alloc(0);
    this.waiting = [];
    this.child.stdout.on('data', (data) => { this.bytes = Buffer.concat([this.bytes, data]); this.pump(); });
    this.child.on('exit', () => { this.gone = true; this.pump(); });
    this.free = Array.from({ length: 60 }, (_, i) => i);
  }

  // Files of zygotes that are stored, without one that is being written.
  zygotes() { return readdirSync(join(this.folder, 'scratch/zygotes')).filter((name) => /^[0-9a-f]{32}$/.test(name)); }

  // Another warden on the same folder: its zygote is revived.
  async restart() {
    await until(() => this.zygotes().length > 0, { ms: 60_000, what: 'the image of the zygote' });
    await this.end();
    this.begin();
  }

  async end() {
    this.child.stdin.end();
    if (!this.gone) await new Promise((done) => this.child.on('exit', done));
  }

  pump() {
    while (this.waiting.length) {
      const end = this.bytes.indexOf(10);
      if (end < 0) break;
      const line = this.bytes.subarray(0, end).toString();
      const words = line.split(' ');
      const size = this.waiting[0].verb === 'cell' && words[0] === 'ok' ? Number(words[3]) : 0;
      if (this.bytes.length < end + 1 + size) break;
      const body = this.bytes.subarray(end + 1, end + 1 + size).toString();
      this.bytes = this.bytes.subarray(end + 1 + size);
      this.waiting.shift().done({ ok: words[0] === 'ok', line, words: words.slice(2), us: Number(words[1]), body });
    }
    if (this.gone) this.waiting.splice(0).forEach((w) => w.fail(new Error(`the driver ended: ${this.log}`)));
  }

  call(line, body = '') {
    return new Promise((done, fail) => {
      if (this.gone) fail(new Error(`the driver ended: ${this.log}`));
      this.waiting.push({ verb: line.split(' ')[0], done, fail });
      this.child.stdin.write(Buffer.concat([Buffer.from(`${line}\n`), Buffer.from(body)]));
    });
  }

  path(name) { return join(this.folder, `${name}-${this.serial++}`); }

  async open({ cores = 1, memory = 1024, image = '-', data } = {}) {
    const id = this.free.pop();
    const answer = await this.call(`open ${id} ${cores} ${memory} ${image} ${data ?? ''}`);
    assert.ok(answer.ok, answer.line);
    return new Box(this, id, answer);
  }

  async stop() {
    await this.end();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

class Box {
  constructor(boxes, id, answer) {
    Object.assign(this, { boxes, id, how: answer.words[0], why: answer.words.slice(1).join(' '), us: answer.us });
  }

  call(verb, ...rest) { return this.boxes.call([verb, this.id, ...rest].join(' ')); }

  async cell(code) {
    const bytes = Buffer.from(code);
    return this.boxes.call(`cell ${this.id} ${bytes.length}`, bytes);
  }

  // What it prints; a cell that fails is a failure.
  async out(code) {
    const answer = await this.cell(code);
    assert.equal(answer.line.split(' ').slice(0, 1)[0] + ' ' + answer.words[0], 'ok done', `${code}\n${answer.line}\n${answer.body}`);
    return answer.body;
  }

  async save(image = this.boxes.path('image'), most = MOST) {
    const answer = await this.call('save', image, most);
    const [bytes, uncarried, refused] = answer.words.map(Number);
    return { ...answer, image, bytes, uncarried, refused: refused === 1 };
  }

  async look() {
    const answer = await this.call('look');
    const [bytes, uncarried, refused] = answer.words.map(Number);
    return { ...answer, bytes, uncarried, refused: refused === 1 };
  }

  async data() {
    const folder = this.boxes.path('data');
    mkdirSync(folder, { mode: 0o755 });
    const answer = await this.call('export', folder);
    assert.ok(answer.ok, answer.line);
    return folder;
  }

  async close() {
    await this.call('close');
    this.boxes.free.push(this.id);
  }
}

async function wake(boxes, from, cores, saved) {
  const box = await boxes.open({ cores, image: saved.image, data: await from.data() });
  assert.equal(box.how, 'woken', box.why);
  rmSync(saved.image); // an image in use needs no name
  return box;
}

async function undo(box, program) {
  const first = await box.call('point', 8);
  if (program.refused) {
    assert.ok(!first.ok && /thread|child process/.test(first.line), first.line);
    return;
  }
  assert.ok(first.ok, first.line);
  const forward = await box.out(program.check);
  assert.ok((await box.call('undo', 1)).ok);
  const back = await box.out(program.check);
  if (!program.keeps) assert.equal(back, forward, 'after undo');
  assert.ok((await box.call('undo', 1)).ok);
  const twice = await box.out(program.check);
  if (!program.keeps) assert.equal(twice, forward, 'after the second undo');
  if (!program.pool) assert.equal((await box.call('left')).words[0], '0', 'points count as leftover processes');
}

// One round. cores: of the first box; woken ones have the other number.
// short: woken and undone once.
export async function round(boxes, program, cores, { short = false } = {}) {
  const opened = [];
  const more = async (promise) => { opened.push(await promise); return opened.at(-1); };
  try {
    const first = await more(boxes.open({ cores: program.cores ?? cores }));
    if (program.needs && (await first.cell(`import ${program.needs}`)).words[0] !== 'done') return `no ${program.needs}`;
    await first.out(program.make);
    const saved = await first.save();
    if (program.refused || program.noImage) {
      assert.ok(saved.ok && saved.refused, saved.line);
      assert.ok(saved.uncarried & (program.refused ?? program.noImage), saved.line);
      if (program.refused) await undo(first, program);
      return undefined;
    }
    assert.ok(saved.ok && !saved.refused, saved.line);
    assert.equal(saved.uncarried, program.uncarried ?? 0, 'what is not carried');
    const other = program.cores ?? 3 - cores;
    const second = await more(wake(boxes, first, other, saved));
    const expected = [await first.out(program.check), await first.out(program.check)];
    assert.equal(await second.out(program.check), program.woken ?? expected[0], 'after waking');
    if (short) {
      await undo(second, program);
      return undefined;
    }
    const again = await second.save();
    assert.ok(again.ok && !again.refused, again.line);
    const third = await more(wake(boxes, second, other, again));
    assert.equal(await third.out(program.check), program.woken ?? expected[1], 'after waking twice');
    await undo(third, program);
    await undo(first, program);
    return undefined;
  } finally {
    for (const box of opened) await box.close();
  }
}

// All programs over two restarts: made and saved; woken by another warden from
// a revived zygote, compared and saved again; the same once more. Returns the
// failures as texts, and how many passed.
export async function restarts(runtime, programs, cores) {
  const boxes = new Boxes(runtime);
  const failures = [], cases = [];
  let passed = 0;
  const guarded = async (c, what, work) => {
    try {
      await work();
    } catch (error) {
      failures.push(`${c.program.name}, ${what}: ${error.message}`);
      c.failed = true;
    }
  };
  try {
    for (const program of programs.filter((p) => !p.refused && !p.noImage)) {
      const c = { program };
      const box = await boxes.open({ cores: program.cores ?? cores });
      if (program.needs && (await box.cell(`import ${program.needs}`)).words[0] !== 'done') { await box.close(); continue; }
      cases.push(c);
      await guarded(c, 'saved', async () => {
        await box.out(program.make);
        Object.assign(c, await box.save());
        assert.ok(c.ok && !c.refused, c.line);
        c.data = await box.data();
        c.expected = [await box.out(program.check), await box.out(program.check)];
      });
      await box.close();
    }
    for (const time of [0, 1]) {
      await boxes.restart();
      for (const c of cases.filter((each) => !each.failed))
        await guarded(c, `restart ${time + 1}`, async () => {
          const box = await boxes.open({ cores: c.program.cores ?? 3 - cores, image: c.image, data: c.data });
          try {
            assert.equal(box.how, 'woken', box.why);
            rmSync(c.image);
            assert.equal(await box.out(c.program.check), c.program.woken ?? c.expected[time]);
            Object.assign(c, await box.save());
            assert.ok(c.ok && !c.refused, c.line);
            c.data = await box.data();
          } finally {
            await box.close();
          }
          passed++;
        });
    }
  } finally {
    if (!boxes.gone) await boxes.stop();
  }
  return { failures, passed, cases: cases.length };
}
