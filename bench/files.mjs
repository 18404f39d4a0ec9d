// SPDX-License-Identifier: Apache-2.0
// The workloads of files: commits, large uploads and downloads, waking on a
// full workspace, search, and the daemon's memory meanwhile; what is beside
// each, and what is aimed at. A wrong answer ends the run.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { MIB, check, checkAnswer, checkExecution, checked, inParallel, interleave, p50, percentile, words } from './measure.mjs';
import { judgedSet } from './judged.mjs';
import { Nginx } from './nginx.mjs';
import { peakBytes, residentBytes, resetPeak } from './parts.mjs';
import { until } from '../tests/lib/glovebox.mjs';

let seeds = Date.now(); // of contents: none comes twice
const newWorkspace = async (c) => (await c.daemon.call('POST', '/api/workspaces', { name: 'bench' })).id;
const fileUrl = (workspace, path) => `/api/workspaces/${workspace}/files/${path}`;

// What earlier writes left to the kernel is not the next one's to wait for.
function flush(c) {
  if (spawnSync('/bin/sync', ['-f', c.daemon.dir]).status !== 0) throw new Error('sync failed');
}

// ---- small commits -----------------------------------------------------------

const CLIENTS = 8, CROWD = 32, SMALL = 1024;
async function commitSmall(c) {
  const prefix = fileUrl(await newWorkspace(c), 'small/');
  const database = join(c.daemon.dir, 'peer.db');
  const rounds = c.rounds(10);
  const rate = (count, run) => async () => {
    flush(c);
    return count / (await run(count) / 1000);
  };
  const [some, many, one, rows] = await interleave(rounds, [
    rate(400, (count) => c.watch.puts(count, CLIENTS, SMALL, prefix)),
    rate(400, (count) => c.watch.puts(count, CROWD, SMALL, prefix)),
    rate(100, (count) => c.watch.puts(count, 1, SMALL, prefix)),
    rate(400, (count) => c.watch.insert(count, SMALL, database)),
  ]);
  return [some, many, one].map((ours) => ({ base: 'sqlite', unit: 'per_s', rounds, ours, theirs: rows }));
}

// More of them than can wait for their places: putting them there is in the
// clock. Time-boxed, as the rate may be a tenth of the usual one.
const MANY = 20_000, MANY_MS = 40_000, SLICE = 1000;
async function commitLong(c) {
  const prefix = fileUrl(await newWorkspace(c), 'small/');
  let ms = 0, count = 0;
  flush(c);
  for (; count < c.rounds(MANY) && ms < MANY_MS; count += SLICE) ms += await c.watch.puts(SLICE, CLIENTS, SMALL, prefix);
  return { facts: { files: count, per_s: (count / (ms / 1000)).toFixed(0) } };
}

// ---- large files -------------------------------------------------------------

const LARGE = 100 * MIB;
const rateOf = (ms) => LARGE / MIB / (ms / 1000);

async function upload(c) {
  const workspace = await newWorkspace(c);
  const ours = async () => {
    flush(c);
    const { ms, ...answer } = await c.watch.up(LARGE, fileUrl(workspace, `up-${++seeds}`), seeds);
    if (checked(answer, 201).size !== LARGE) throw new Error('an upload lost bytes');
    return rateOf(ms);
  };
  const peer = (synced) => async () => {
    flush(c);
    const name = `up-${++seeds}`, file = join(c.nginx.files, name);
    const { ms, status, text } = await c.watch.up(LARGE, `/${name}`, seeds,
      { port: c.nginx.port, sync: synced ? file : '-' });
    if (status !== 201) throw new Error(`nginx: ${status} ${text}`);
    // Both sides keep what they were given until all rounds are over: memory
    // that a removed file leaves is several times faster to fill again than
    // memory the machine has not used yet.
    kept.push(file);
    return rateOf(ms);
  };
  const kept = [];
  const rounds = c.rounds(8);
  const [a, b, s] = await interleave(rounds, [ours, peer(false), peer(true)]);
  kept.forEach((file) => rmSync(file));
  return [b, s].map((theirs) => ({ base: 'nginx', unit: 'mib_s', rounds, ours: a, theirs }));
}

async function download(c) {
  const workspace = await newWorkspace(c), seed = ++seeds;
  checked(await c.watch.up(LARGE, fileUrl(workspace, 'down'), seed), 201);
  const { status } = await c.watch.up(LARGE, '/down', seed, { port: c.nginx.port });
  if (status !== 201) throw new Error(`nginx: ${status}`);
  flush(c);
  const rounds = c.rounds(15);
  const [a, b] = await interleave(rounds, [
    async () => rateOf(await c.watch.down(LARGE, fileUrl(workspace, 'down'), seed)),
    async () => rateOf(await c.watch.down(LARGE, '/down', seed, c.nginx.port)),
  ]);
  return { base: 'nginx', unit: 'mib_s', rounds, ours: a, theirs: b };
}

// ---- the daemon's memory -----------------------------------------------------

const HUGE = 1024 * MIB, PART = 64 * MIB;
async function grownBy(c, run) {
  const { pid } = c.daemon.child, before = residentBytes(pid);
  resetPeak(pid);
  const file = await run();
  if (file.size !== HUGE) throw new Error('an upload lost bytes');
  return Math.max(0, peakBytes(pid) - before) / MIB;
}

async function inParts(c, workspace) {
  const { id } = await c.daemon.call('POST', `/api/workspaces/${workspace}/uploads`, { path: 'parts', size: HUGE });
  for (let part = 1; part <= HUGE / PART; part++)
    checked(await c.watch.up(PART, `/api/uploads/${id}/parts/${part}`, ++seeds));
  return c.daemon.call('POST', `/api/uploads/${id}/complete`, {});
}

async function memory(c) {
  const workspace = await newWorkspace(c);
  const whole = async () => checked(await c.watch.up(HUGE, fileUrl(workspace, 'whole'), ++seeds), 201);
  const parts = await grownBy(c, () => inParts(c, workspace));
  const one = await grownBy(c, whole);
  return { facts: { in_parts_mib: parts.toFixed(1), in_one_mib: one.toFixed(1) },
    met: Math.max(parts, one) <= GROWTH };
}
const GROWTH = 16;

// ---- waking ------------------------------------------------------------------

const FOLDERS = 100, EACH = 100, MOUNTED = FOLDERS * EACH;
const WRITE_FILES = `
import os
for d in range(${FOLDERS}):
    os.mkdir(f'/mnt/data/folder{d}')
    for f in range(${EACH}):
        with open(f'/mnt/data/folder{d}/file{f}.txt', 'w') as out:
            out.write(f'file {f} of folder {d}\\n')
print(${MOUNTED})`;
const LIST = "import os; print(len(os.listdir('/mnt/data')))";

async function execute(c, session, code, wanted) {
  const { ms, answers } = await c.watch.http('POST', `/api/sessions/${session}/executions`,
    { language: 'python', code });
  checkAnswer(answers[0], wanted);
  return ms;
}

// The first execution of a dormant session: a sandbox, the mount, the cell.
async function wake(c, session, wanted) {
  await until(async () => (await c.daemon.call('GET', `/api/sessions/${session}`)).state === 'dormant',
    { ms: 60_000, every: 50, what: 'a dormant session' });
  await c.daemon.settled(Infinity);
  return execute(c, session, LIST, wanted);
}

async function mount(c) {
  const open = async () => (await c.daemon.call('POST', '/api/sessions', { pool: 'short' })).id;
  const full = await open(), empty = await open();
  await execute(c, full, WRITE_FILES, `${MOUNTED}`);
  const first = await wake(c, full, `${FOLDERS}`);
  const rounds = c.rounds(12);
  const [a, b] = await interleave(rounds,
    [() => wake(c, full, `${FOLDERS}`), () => wake(c, empty, '0')]);
  await Promise.all([full, empty].map((id) => c.daemon.call('DELETE', `/api/sessions/${id}`)));
  return [
    { base: 'empty', unit: 'ms', rounds, ours: a, theirs: b },
    { facts: { first_ms: first.toFixed(1), later_ms: p50(a).toFixed(1) } },
  ];
}

// ---- search ------------------------------------------------------------------

const MEANING_MS = 50;
const TEXTS = 100_000, BATCH = 2500, LOADERS = 8, RARE_EVERY = 2000, RARE = 'quetzalcoatlus';
// The same program writes a session's files and, on the host, ripgrep's: words
// of letters, about 1.5 KB a file, the rare one in every RARE_EVERYth.
const writeTexts = (folder, from, count) => `
import os, random
letters = 'etaoinshrdlcumwfgypb'
pick = random.Random(1)
words = [''.join(pick.choices(letters, k=pick.randint(2, 9))) for _ in range(20000)]
for n in range(${from}, ${from + count}):
    if n % 500 == 0:
        os.makedirs(f'${folder}/{n // 500:03}', exist_ok=True)
    pick.seed(n)
    text = pick.choices(words, k=pick.randint(180, 300))
    if n % ${RARE_EVERY} == 7:
        text[len(text) // 2] = '${RARE}'
    lines = [' '.join(text[i:i + 12]) for i in range(0, len(text), 12)]
    with open(f'${folder}/{n // 500:03}/{n:06}.txt', 'w') as out:
        out.write('\\n'.join(lines) + '\\n')
print(${count})`;

const seconds = (ms) => (ms / 1000).toFixed(1);

// Some sessions on one workspace; every batch is an execution and a commit.
async function loadTexts(c, texts) {
  const { id: workspace } = await c.daemon.call('POST', '/api/workspaces', { name: 'texts' });
  const begun = Date.now(), free = [];
  const loaders = await Promise.all(Array.from({ length: LOADERS },
    async () => (await c.daemon.call('POST', '/api/sessions', { pool: 'roomy', workspace })).id));
  free.push(...loaders);
  await inParallel(Array.from({ length: texts / BATCH }, (_, batch) => async () => {
    const id = free.pop();
    checkExecution(await c.daemon.call('POST', `/api/sessions/${id}/executions`,
      { code: writeTexts('/mnt/data', batch * BATCH, BATCH) }), `${BATCH}`);
    free.push(id);
  }), LOADERS);
  const stored = Date.now();
  await until(async () => (await c.daemon.call('GET', `/api/search/status?workspace=${workspace}`)).pending === 0,
    { ms: 900_000, every: 100, what: 'an index of everything' });
  const indexed = Date.now();
  await Promise.all(loaders.map((id) => c.daemon.call('DELETE', `/api/sessions/${id}`)));
  return { workspace, load: stored - begun, index: indexed - stored };
}

// ripgrep's tree, on the file system the daemon's data is on.
function writeTree(c, texts) {
  const tree = join(c.daemon.dir, 'texts');
  mkdirSync(tree);
  const done = spawnSync('/usr/bin/python3', ['-c', writeTexts(tree, 0, texts)], { encoding: 'utf8' });
  if (done.status !== 0) throw new Error(done.stderr);
  return tree;
}

// Both must have the same files, and find the same.
async function checkFound(c, tree, workspace, mine, theirs) {
  const found = theirs.trim().split(/\s+/).map((path) => path.slice(tree.length + 1)).sort();
  check('search', mine.map(({ path }) => path).sort().join(' '), found.join(' '));
  const { answers: [one] } = await c.watch.http('GET', fileUrl(workspace, found[0]));
  check('a stored file', one.text, words(readFileSync(join(tree, found[0]), 'utf8')));
  return found.length;
}

// The passages of the same files, by words and meaning.
async function searchByMeaning(c, workspace, some) {
  const begun = Date.now(), before = residentBytes(c.daemon.child.pid);
  await c.daemon.call('PATCH', `/api/workspaces/${workspace}`, { intelligence: true });
  const status = () => c.daemon.call('GET', '/api/search/status');
  await until(async () => { const s = await status(); return s.uncut === 0 && s.trained_at; },
    { ms: 900_000, every: 1000, what: 'passages' });
  const { passages } = await status();
  const learned = seconds(Date.now() - begun);
  const query = async (i) => {
    const { ms, answers } = await c.watch.http('GET', `/api/search?q=${encodeURIComponent(`${RARE} ${some[i % some.length]} ${some[7 * i % some.length]}`)}&mode=hybrid&limit=10`);
    checked(answers[0]);
    return ms;
  };
  await query(0); // loads the passages
  const times = [];
  for (let i = 1; i <= c.rounds(60); i++) times.push(await query(i));
  const p95 = percentile(times, 0.95);
  return { facts: { passages, p50_ms: p50(times).toFixed(1), p95_ms: p95.toFixed(1), cut_and_learned_s: learned,
    grown_mib: ((residentBytes(c.daemon.child.pid) - before) / MIB).toFixed(0) }, met: p95 <= MEANING_MS };
}

async function search(c) {
  const texts = Math.min(TEXTS, Math.ceil(c.rounds(TEXTS) / BATCH) * BATCH);
  const tree = writeTree(c, texts);
  const { workspace, load, index } = await loadTexts(c, texts);
  const query = (limit) => c.watch.http('GET', `/api/search?q=${RARE}&limit=${limit}`);
  const ripgrep = () => c.watch.spawn('-', ['/usr/bin/rg', '-l', RARE, tree]);
  const hits = async (limit) => checked((await query(limit)).answers[0]).data;
  const count = await checkFound(c, tree, workspace, await hits(500), (await ripgrep()).text);
  if (count !== Math.ceil(texts / RARE_EVERY)) throw new Error(`${count} files have the rare word`);

  const rounds = c.rounds(40);
  const [a, b] = await interleave(rounds, [
    async () => {
      const { ms, answers } = await query(20);
      const { length } = checked(answers[0]).data;
      if (length !== Math.min(20, count)) throw new Error(`${length} hits`);
      return ms;
    },
    async () => {
      const { ms, failed } = await ripgrep();
      if (failed) throw new Error('ripgrep failed');
      return ms;
    },
  ]);
  const meaning = await searchByMeaning(c, workspace, words(readFileSync(join(tree, '000', '000001.txt'), 'utf8')).split(' '));
  await c.daemon.call('DELETE', `/api/workspaces/${workspace}`);
  return [
    { base: 'ripgrep', unit: 'ms', rounds, ours: a, theirs: b },
    { facts: { files: texts, stored_s: seconds(load), then_indexed_s: seconds(index) } },
    meaning,
  ];
}

// ---- the table ---------------------------------------------------------------

const workloads = [
  // First, while nothing that was freed can hide what is taken.
  { run: memory, lines: [{ name: 'upload_1g_memory', aim: { text: `≤ ${GROWTH} MiB` },
    what: 'growth of the daemon during an upload of 1 GiB' }] },
  { run: commitSmall, lines: [
    { name: 'commit_1k', aim: { least: 0.4 }, what: `1 KiB file put and committed, ${CLIENTS} clients`,
      beside: 'SQLite, 1 KiB row, full sync' },
    { name: 'commit_1k_crowd', aim: {}, what: `the same, ${CROWD} clients`, beside: 'the same' },
    { name: 'commit_1k_one', aim: {}, what: 'the same, 1 client', beside: 'the same' }] },
  { run: commitLong, lines: [{ name: 'commit_1k_long', aim: {},
    what: `up to ${MANY} such files in a row, ${CLIENTS} clients` }] },
  { run: upload, lines: [
    { name: 'upload_100m', aim: { least: 0.5 }, what: '100 MiB file put, committed, synced', beside: 'nginx, not synced' },
    { name: 'upload_100m_sync', aim: {}, what: 'the same', beside: 'nginx, then `fsync`' }] },
  { run: download, lines: [{ name: 'download_100m', aim: { least: 0.5 },
    what: '100 MiB file fetched from a workspace', beside: 'nginx' }] },
  { run: mount, lines: [
    { name: 'mount_10k_files', aim: { most: 1.5 }, what: `wake of a session on ${MOUNTED} files`,
      beside: 'wake on none' },
    { name: 'mount_10k_first', aim: {}, what: 'its first wake, which makes the tree' }] },
  { run: search, lines: [
    { name: 'search_100k', aim: { most: 0.1 }, what: `search for a rare word in ${TEXTS} files`,
      beside: '`rg -l` on the same, cached' },
    { name: 'search_100k_load', aim: {}, what: 'storing and indexing them before' },
    { name: 'search_100k_hybrid', aim: { text: `p95 ≤ ${MEANING_MS} ms` }, what: 'their passages by words and meaning, `mode=hybrid`' }] },
  { run: judgedSet, lines: [{ name: 'search_judged', aim: { text: 'hybrid > lexical' },
    what: 'nDCG@10 of the test questions of `bench/judged`' }] },
];

export const files = {
  config: {
    creations_per_s: 0, upload_bytes: HUGE, tenant_quota_bytes: 0, workspace_quota_bytes: 0,
    pools: [
      { name: 'short', runtime: 'standard', cooldown_s: 1 },
      { name: 'roomy', runtime: 'standard', ready: 0, scratch_inodes: 4 * TEXTS, python_timeout_s: 900 },
    ],
  },
  async begin(c) { c.nginx = await Nginx.start(join(c.daemon.dir, 'nginx')); },
  async end(c) { await c.nginx?.stop(); },
  workloads,
};
