// SPDX-License-Identifier: Apache-2.0
// A run's figures as the lines `make bench` prints and as docs/BENCHMARKS.md.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus, release, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { root } from '../tests/lib/glovebox.mjs';
import { p50, percentile } from './measure.mjs';

const short = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));

const UNITS = { ms: 'ms', mib: 'MiB', per_s: '/s', mib_s: 'MiB/s' };

// Does it do what is aimed at? Undefined where nothing is. A line has one aim:
// of times a ratio at most, of rates a ratio at least, or a figure at most.
function meets({ most, least, ours }, mine, ratio) {
  if (most !== undefined) return ratio <= most;
  if (least !== undefined) return ratio >= least;
  return ours === undefined ? undefined : mine <= ours;
}

// Adds what follows from the raw figures to a result.
export function judge(line, result) {
  if (result.facts) return { ...line, ...result };
  const mine = p50(result.ours), base = p50(result.theirs), ratio = mine / base;
  return { ...line, ...result, mine, their: base, ratio, met: meets(line.aim, mine, ratio) };
}

function aimText({ aim, unit }) {
  if (aim.most !== undefined) return `≤ ${aim.most} ×`;
  if (aim.least !== undefined) return `≥ ${aim.least} ×`;
  return aim.ours !== undefined ? `≤ ${aim.ours} ${UNITS[unit]}` : aim.text ?? '';
}

const metText = (met) => (met === undefined ? '' : met ? 'yes' : 'no');

export function printLine(r) {
  const facts = r.facts
    ? Object.entries(r.facts).map(([k, v]) => `${k}=${v}`).join(' ')
    : `ours_${r.unit}=${r.mine.toFixed(2)} base=${r.base} base_${r.unit}=${r.their.toFixed(2)} ratio=${r.ratio.toFixed(3)}`;
  const aim = aimText(r).replace('≤ ', '<=').replace('≥ ', '>=').replace(' ×', '').replaceAll(' ', '_');
  console.log(`bench ${r.name} ${facts}${aim && ` aim=${aim} met=${metText(r.met)}`}`);
}

const spread = (values, unit) => (values.length < 5 ? `${short(p50(values))} ${unit}`
  : `${short(p50(values))} ${unit} (${short(percentile(values, 0.1))}–${short(percentile(values, 0.9))})`);

function row(r) {
  const met = r.met === false ? '**no**' : metText(r.met);
  if (r.facts) {
    const facts = Object.entries(r.facts).map(([k, v]) => `${k.replaceAll('_', ' ').replace('mib', 'MiB')} ${v}`);
    return `| ${r.name} | ${r.what} | ${facts.join(', ')} | | | | ${aimText(r)} | ${met} |`;
  }
  const unit = UNITS[r.unit];
  return `| ${r.name} | ${r.what} | ${spread(r.ours, unit)} | ${r.beside} | ${spread(r.theirs, unit)} `
    + `| ${r.ratio.toFixed(3)} | ${aimText(r)} | ${met} |`;
}

const gib = (bytes) => (bytes / 1024 ** 3).toFixed(0);

function debian() {
  const text = readFileSync('/etc/os-release', 'utf8');
  return text.match(/^PRETTY_NAME="(.*)"$/m)?.[1] ?? 'Linux';
}

// The file system that data is stored on.
function storage() {
  const out = spawnSync('/usr/bin/findmnt', ['-n', '-o', 'FSTYPE', '-T', tmpdir()], { encoding: 'utf8' });
  return out.stdout?.trim() || 'unknown';
}

export function writeDocument(results, { manifest, load, rounds }) {
  const cores = cpus();
  const busy = load > cores.length / 2
    ? `\nThe machine was busy when this run began (load ${load.toFixed(1)}), so take its figures as rough.\n` : '';
  const version = (name) => manifest.distributions.find((d) => d.name.toLowerCase() === name)?.version;
  writeFileSync(join(root, 'docs/BENCHMARKS.md'), `# Benchmarks

Written by \`make bench\`; do not edit. Every speed claim of this project is a row of this table.
${busy}
| | workload | ours | beside it | its figure | ratio | aim | met |
|---|---|---|---|---|---|---|---|
${results.map(row).join('\n')}

Figures are the median, in brackets the 10th and 90th percentile. The ratio is that of the medians. Absolute times
depend on the machine and on who else uses it; the ratios hold better, because both sides are measured in turn.

## Machine and image

| | |
|---|---|
| cores | ${cores.length} × ${cores[0].model.trim()} |
| memory | ${gib(totalmem())} GiB |
| system | ${debian()}, Linux ${release().split('-')[0]} |
| image | \`standard\`: Debian ${manifest.suite}, Python ${manifest.python}, numpy ${version('numpy')}, pandas ${version('pandas')} |
| files on | ${storage()} |
| date | ${new Date().toISOString().slice(0, 10)} |

## Method

- One run, one daemon each for the rows of sessions (W), of doors and of files, default limits; only the caps on how many
  sessions may exist and how large an upload may be are raised. The pool \`ready\` keeps as many sandboxes ready as is the default, the
  pool \`empty\` none.
- Rounds are interleaved: ours, base, ours, base. ${rounds} Except for W5, one round of each side
  comes first and is not counted. Before the next measurement begins, what the last one left to do (refilling the pool,
  deleting the session) has finished.
- Everything runs on the same image. \`python3\` is the image's own, started in a chroot by vfork and exec, without any
  isolation. bubblewrap mounts the image read-only in fresh namespaces. ipykernel is Debian's for the same suite, in an
  overlay above the image, driven by its own blocking client over loopback TCP (its default), without any isolation; its
  time is from sending the cell to the kernel's idle message.
- Ours is timed at the client, from the first byte of the request sent to the last of the answer received: HTTP, JSON,
  authentication, the session, the cell and its record are in it. A small C program (\`bench/stopwatch.c\`) takes all times
  but ipykernel's, on a kept-alive connection, so that no client library is in a figure.
- Each answer is checked on both sides; a wrong one ends the run.
- W1, W2, W2c and W5 are \`POST /api/run\`: a fresh session, one execution, deleted. The deletion comes after the answer.
- W5 sends all requests at once on 100 connections and stops the clock at the last answer; bubblewrap's side starts as
  many processes at once and stops at the last exit. That takes half a minute, so there are few rounds.
- Private memory is Private_Clean + Private_Dirty of every process of a sandbox, pid 1 included, from the kernel's
  \`smaps_rollup\`. "machine MiB each" is what the machine had less available with all sessions live, kernel memory and
  file systems included, divided by their number.
- Rows H are sessions with a frame of random floats and default limits. H_wake is the first cell after \`POST …/hibernate\` was
  answered, H_hibernate that call. H_wake_restart and H_ready: the service is stopped and started on its data;
  ready is \`/readyz\`, which means that every pool has started a sandbox. H_branch is from the call to the last of all answers.
  H_points leaves 60 ms between cells, in which the point is made. H_asleep: each hibernated session is woken and must have
  its variable; "more" is what they took while they slept, images in the page cache excluded.
- Rows of doors: the same cell in live sessions, one session for each door, in turn; beside each the same cell at
  \`POST /api/sessions/{id}/executions\`. door_mcp is a stateless \`tools/call\` with its headers. door_files_100m is one file of
  a form, hashed, synced and committed like the native upload beside it.
- Rows of files: all data is on one file system, which is synced before each round of commits and uploads, outside
  the clock. Rates are of each round; a ratio of at least 1 means that ours is as fast. Every content is new, so that nothing
  is saved by having it already.
- commit_1k: \`PUT\` of new 1 KiB files, each client waiting for its answer before its next; answered means on disk. SQLite
  inserts the same bytes as a row, a transaction each, write-ahead log, \`synchronous=FULL\`, one connection, a prepared
  statement, no server around it.
  A round is 400 files: as SQLite's rows are in its log, so are these, and what either does to move them from there is outside
  the clock unless the log is full. commit_1k_long goes on until it is: up to 20,000 files or 40 seconds, with every file
  put in its place while others come.
- upload_100m, download_100m: one connection, from and to the client's memory, the same client for both. nginx is Debian's
  \`nginx-light\`, one worker, \`sendfile\`, \`PUT\` by its WebDAV module; it neither hashes nor syncs, and upload_100m_sync adds
  an \`fsync\` of its file. Both keep every file until the rounds are over. Downloads are from a warm cache on both sides and compared byte for byte after the clock stopped.
- mount_10k_files: the first execution of a session that had become dormant: a sandbox from the ready pool, its workspace
  mounted, a fresh interpreter that lists \`/mnt/data\`. The files are in 100 folders of 100.
- search_100k: \`GET /api/search?q=…&limit=20\` for a word that 50 of 100,000 text files of about 1.5 KB have, beside \`rg -l\` on
  the same files from a warm cache. Both must find the same files. The files are written by eight sessions, 2,500 an
  execution.
- Rows of the loop: the model is a server in a process of its own that answers at once. loop_first_word is the time to the first
  piece of text of a streamed \`POST /v1/responses\`, beside that of the server asked directly; loop_tool_round is a response
  with one call of code in a live container less one without, beside the same execution at the native door and a call of the
  server. Both are timed by one client, in turn. loop_200_streams is the resident memory of the daemon after rounds of 200
  streams at once from one tenant; every stream has to complete.
- W9: a tenant's warm \`print(1)\`, one after another on a kept-alive connection, while another tenant, from a process of its
  own, asks for as much as it can of one thing: processors (six sessions, eight processes each), memory, forks, disk,
  inodes, output, connections (1,700), uploads (308 at once), executions (500 at once), creations (100 at once), and all
  of these. Both are timed with 95th percentiles; a refused or failed execution of the first tenant ends the run.
- upload_1g_memory: the peak of the daemon's resident memory (\`VmHWM\`) during the upload, less what it had before; in parts of
  64 MiB, and in one request. It is the first thing that daemon does.

## Again

    make bench                                  # about ten minutes, as root; prints a line per workload
    BENCH_ONLY=W1,W3 BENCH_ROUNDS=0.2 bench/run # some, quickly; this page stays as it is
`);
}
