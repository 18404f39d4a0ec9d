// SPDX-License-Identifier: Apache-2.0
// What a daemon acknowledged, kept by the client: for each path the bytes
// that were promised and, while a request is under way, what it would make of
// them. After a death every path must be one or the other, and nothing else
// may be there. Each path has one writer at a time.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Glovebox, until } from './glovebox.mjs';
import { Stream } from './wire.mjs';

export const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');
const NOTHING = null;

export class Ledger {
  constructor(workspace) {
    this.workspace = workspace;
    this.paths = new Map(); // path -> { acked, maybe } as hashes
    this.groups = []; // sets of paths that change together or not at all
    this.acknowledged = 0;
  }

  files(path) { return `/api/workspaces/${this.workspace}/files/${path.split('/').map(encodeURIComponent).join('/')}`; }

  // Runs one change of several paths at once: { path: hash or NOTHING }. What
  // it throws, or a refusal, leaves the outcome open until the next settling.
  async change(changes, act) {
    for (const [path, hash] of Object.entries(changes)) {
      const entry = this.paths.get(path) ?? { acked: NOTHING };
      entry.maybe = hash;
      this.paths.set(path, entry);
    }
    if (Object.keys(changes).length > 1) this.groups.push(changes);
    const answer = await act();
    if (answer.status < 200 || answer.status > 299) return answer; // open
    for (const [path, hash] of Object.entries(changes)) this.paths.set(path, { acked: hash });
    this.groups = this.groups.filter((g) => g !== changes);
    this.acknowledged++;
    return answer;
  }

  put(g, path, bytes) {
    return this.change({ [path]: sha256(bytes) }, () => g.call('PUT', this.files(path), bytes, { raw: true }));
  }

  remove(g, path) {
    return this.change({ [path]: NOTHING }, () => g.call('DELETE', this.files(path)));
  }

  // In parts; only the completion changes the path.
  async parts(g, path, bytes, count = 3) {
    const begun = await g.call('POST', `/api/workspaces/${this.workspace}/uploads`, { path, size: bytes.length });
    if (begun.status !== 201) return begun;
    const each = Math.ceil(bytes.length / count);
    for (let n = 0; n < count; n++) {
      const sent = await g.call('PUT', `/api/uploads/${begun.body.id}/parts/${n + 1}`, bytes.subarray(n * each, (n + 1) * each), { raw: true });
      if (sent.status !== 200) return sent;
    }
    return this.change({ [path]: sha256(bytes) }, () => g.call('POST', `/api/uploads/${begun.body.id}/complete`, { sha256: sha256(bytes) }));
  }

  // One execution that writes all of these: { path: text }.
  execute(session, texts) {
    const hashes = Object.fromEntries(Object.entries(texts).map(([path, text]) => [path, sha256(text)]));
    const code = `import os\nfor path, text in ${JSON.stringify(Object.entries(texts))}:\n`
      + '    path = "/mnt/data/" + path\n    os.makedirs(os.path.dirname(path), exist_ok=True)\n    open(path, "w").write(text)\n';
    return this.change(hashes, async () => {
      const answer = await session.server.call('POST', `${session.path}/executions`, { language: 'python', code });
      // Only an execution that is reported as done and kept promises anything.
      return answer.status === 200 && answer.body.outcome === 'ok' && answer.body.commit ? answer : { ...answer, status: 599 };
    });
  }

  // What the daemon has now: path -> hash as its records say.
  async listed(g) {
    const have = new Map();
    let after = '';
    for (;;) {
      const page = await g.ok('GET', `/api/workspaces/${this.workspace}/files?limit=1000${after && `&after=${encodeURIComponent(after)}`}`);
      for (const file of page.data) have.set(file.path, file.sha256);
      if (!page.has_more) return have;
      after = page.data.at(-1).path;
    }
  }

  // Compares with a daemon that has just come up; what was open is decided
  // by what is there, unless the next start may still see it otherwise.
  // bytes: which paths are fetched and hashed too.
  async settle(g, { bytes = () => true, decide = true } = {}) {
    const have = await this.listed(g);
    for (const [path, { acked, maybe }] of this.paths) {
      const is = have.get(path) ?? NOTHING;
      const allowed = maybe === undefined ? [acked] : [acked, maybe];
      assert.ok(allowed.includes(is), `${path} is ${is}, not ${allowed.join(' or ')}`);
    }
    for (const path of have.keys()) assert.ok(this.paths.has(path), `${path} was never asked for`);
    for (const group of this.groups) {
      const done = Object.entries(group).filter(([path, hash]) => (have.get(path) ?? NOTHING) === hash).length;
      assert.ok(done === 0 || done === Object.keys(group).length, `${Object.keys(group)}: ${done} of them changed`);
    }
    const open = [...this.paths].filter(([, entry]) => entry.maybe !== undefined).map(([path]) => path);
    for (const [path, hash] of have) {
      if (!bytes(path) && !open.includes(path)) continue;
      const answer = await g.call('GET', this.files(path));
      assert.equal(answer.status, 200, `${path}: ${answer.status} ${answer.text.slice(0, 200)}`);
      assert.equal(sha256(answer.bytes), hash, `${path} is not what it is listed as`);
    }
    if (!decide) return;
    this.groups = [];
    for (const path of this.paths.keys()) {
      if (have.has(path)) this.paths.set(path, { acked: have.get(path) });
      else this.paths.delete(path);
    }
  }
}

// Starts again on the directory of one that ended; up as soon as it answers
// with what it keeps, whether sessions can start yet or not.
export async function restarted(dead, options, ms = 10_000) {
  const g = await Glovebox.start({ ...options, dir: dead.dir, wait: false });
  const endpoint = join(g.dir, 'data', 'endpoint');
  await until(() => g.exit || existsSync(endpoint), { ms, every: 5, what: 'endpoint' });
  assert.ok(!g.exit, `it did not start: ${JSON.stringify(g.exit)}\n${g.log.slice(-2000)}`);
  g.url = readFileSync(endpoint, 'utf8').trim();
  g.key = readFileSync(join(g.dir, 'data', 'admin.key'), 'utf8').trim();
  await until(async () => (await g.call('GET', '/api/workspaces?limit=1')).status === 200, { ms, every: 5, what: 'an answer' });
  return g;
}

// Sessions can start; or it has ended meanwhile.
export const ready = (g) => until(async () => g.exit || (await fetch(`${g.url}/readyz`)).status === 200, { ms: 20_000, what: 'readyz' })
  .catch((error) => { throw new Error(`${error.message}\n${g.log.slice(-3000)}`, { cause: error }); });

// The report of POST /api/verify.
export async function verify(g) {
  const stream = await Stream.open(g, 'POST', '/api/verify');
  assert.equal(stream.status, 200);
  const last = await stream.find((e) => e.event === 'done' || e.event === 'error', 60_000);
  stream.close();
  assert.equal(last.event, 'done', JSON.stringify(last.data));
  return last.data;
}

// Nothing damaged, nothing missing; what nobody refers to may be there.
export async function sound(g) {
  const report = await verify(g);
  assert.deepEqual([report.ok, report.bad, report.missing], [true, 0, 0], JSON.stringify(report));
  return report;
}
