// SPDX-License-Identifier: Apache-2.0
// Three nodes, each in a network namespace of its own, PostgreSQL, S3 and
// haproxy; clients that use sessions through the balancer while faults happen;
// and a check, in the style of Jepsen, of what was acknowledged.
//
//     node tests/cluster/faults.mjs [--seconds 120] [--seed N] [--clients 6]
//
// Each client has a session with one file to which each execution appends a
// line with a number. An answer "ok" is an acknowledgement: the line must be
// in the file at the end, once, in the order of the numbers. An execution
// without an answer may have happened or not, but not twice.
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SHARED, startPostgres, startS3 } from '../lib/cluster.mjs';
import { bin, pool, sleep, until } from '../lib/glovebox.mjs';

const option = (name, fallback) => { const i = process.argv.indexOf(`--${name}`); return i < 0 ? fallback : process.argv[i + 1]; };
const SECONDS = Number(option('seconds', 120)), CLIENTS = Number(option('clients', 6));
let seed = Number(option('seed', Date.now() % 100000));
const random = () => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed / 2147483648; };
const LEASE = 6, NET = `10.${77 + (process.pid % 100)}.0`, TAG = `gb${process.pid % 10000}`;
const sh = (command, ...args) => { const r = spawnSync(command, args, { encoding: 'utf8' }); if (r.status !== 0) throw new Error(`${command} ${args.join(' ')}: ${r.stderr}`); return r.stdout; };
const quiet = (command, ...args) => spawnSync(command, args);
const children = [];
const background = (command, args, options = {}) => { const c = spawn(command, args, { stdio: 'ignore', ...options }); children.push(c); return c; };

const node = (i) => ({ i, ns: `${TAG}n${i}`, link: `${TAG}v${i}`, ip: `${NET}.${10 + i}` });
const nodes = [0, 1, 2].map(node);

function makeNetwork() {
  sh('ip', 'link', 'add', `${TAG}br`, 'type', 'bridge');
  sh('ip', 'addr', 'add', `${NET}.1/24`, 'dev', `${TAG}br`);
  sh('ip', 'link', 'set', `${TAG}br`, 'up');
  for (const n of nodes) {
    sh('ip', 'netns', 'add', n.ns);
    sh('ip', 'link', 'add', n.link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', n.ns);
    sh('ip', 'link', 'set', n.link, 'master', `${TAG}br`, 'up');
    sh('ip', 'netns', 'exec', n.ns, 'ip', 'addr', 'add', `${n.ip}/24`, 'dev', 'eth0');
    sh('ip', 'netns', 'exec', n.ns, 'ip', 'link', 'set', 'eth0', 'up');
    sh('ip', 'netns', 'exec', n.ns, 'ip', 'link', 'set', 'lo', 'up');
  }
}
function removeNetwork() {
  for (const n of nodes) { quiet('ip', 'netns', 'del', n.ns); quiet('ip', 'link', 'del', n.link); }
  quiet('ip', 'link', 'del', `${TAG}br`);
}

let postgres, s3;
async function startNode(n) {
  n.dir ??= mkdtempSync(join(tmpdir(), 'glovebox-cluster-'));
  chmodSync(n.dir, 0o755);
  const data = join(n.dir, 'data');
  if (n.i > 0 && !existsSync(data)) {
    const from = join(nodes[0].dir, 'data'), { uid, gid } = statSync(from);
    mkdirSync(data, { mode: 0o700 });
    chownSync(data, uid, gid);
    for (const name of SHARED) { copyFileSync(join(from, name), join(data, name)); chownSync(join(data, name), uid, gid); }
  }
  const file = join(n.dir, 'test.yaml');
  writeFileSync(file, JSON.stringify({
    store: `postgres://glovebox@${NET}.1:${postgres.port}/glovebox?connect_timeout=3&tcp_user_timeout=3000`,
    blob_bucket: 'blobs', buckets: [{ name: 'blobs', endpoint: `http://127.0.0.1:${s3.port}`, bucket: 'glovebox', key_file: s3.keys }],
    node_listen: `${n.ip}:8651`, node_name: `n${n.i + 1}`, node_lease_s: LEASE, allow_remote: true, creations_per_s: 0,
    max_executions: 64, pools: [pool()],
  }));
  n.log ??= '';
  rmSync(join(data, 'endpoint'), { force: true });
  // Not `ip netns exec`, which hides the control groups.
  n.child = spawn('nsenter', [`--net=/run/netns/${n.ns}`, bin('gloveboxd'), '--config', file, '--data', data, '--listen', `${n.ip}:8650`],
    { stdio: ['ignore', 'pipe', 'pipe'], env: { PATH: process.env.PATH } });
  const own = n.child;
  children.push(own);
  for (const stream of [own.stdout, own.stderr]) stream.on('data', (b) => { n.log = (n.log + b).slice(-300_000); });
  n.exited = new Promise((done) => own.on('exit', () => { if (n.child === own) n.child = null; done(); }));
  await until(() => !n.child || existsSync(join(data, 'endpoint')), { ms: 60_000, what: `n${n.i + 1} starts` });
  if (!n.child) throw new Error(`n${n.i + 1} ended:\n${n.log.slice(-3000)}`);
  n.key = readFileSync(join(data, 'admin.key'), 'utf8').trim();
}

async function call(method, path, body, ms = 30_000) {
  try {
    const r = await fetch(`http://127.0.0.1:${balancer}${path}`, { method, signal: AbortSignal.timeout(ms),
      headers: { authorization: `Bearer ${nodes[0].key}`, ...(body ? { 'content-type': 'application/json' } : {}) }, body: body && JSON.stringify(body) });
    const text = await r.text();
    let json; try { json = JSON.parse(text); } catch { /* of the balancer */ }
    return { status: r.status, json, text };
  } catch (error) { return { status: 0, text: String(error) }; }
}

// ---- faults ----------------------------------------------------------------
const alive = () => nodes.filter((n) => n.child);
const pick = (list) => list[Math.floor(random() * list.length)];
const faults = {
  async kill(n) { n.child.kill('SIGKILL'); await n.exited; await sleep(2000 + random() * 9000); await startNode(n); },
  async pause(n) { const c = n.child; c.kill('SIGSTOP'); await sleep(4000 + random() * 9000); c.kill('SIGCONT'); },
  async partition(n) { sh('ip', 'link', 'set', n.link, 'down'); await sleep(4000 + random() * 9000); sh('ip', 'link', 'set', n.link, 'up'); },
  // A kernel without netem may have a token bucket; with neither the fault is left out, and the result says so.
  async slow(n) {
    const made = [['netem', 'delay', '150ms', '50ms', 'loss', '2%'], ['tbf', 'rate', '512kbit', 'burst', '16kb', 'latency', '400ms']]
      .find((how) => quiet('tc', 'qdisc', 'add', 'dev', n.link, 'root', ...how).status === 0);
    if (!made) return 'left out: this kernel has neither netem nor tbf';
    await sleep(6000);
    quiet('tc', 'qdisc', 'del', 'dev', n.link, 'root');
  },
  async drain(n) { await call('POST', `/api/nodes/n${n.i + 1}/drain`); await sleep(6000); await call('POST', `/api/nodes/n${n.i + 1}/activate`); },
  async postgres() { process.kill(postgres.pid, 'SIGHUP'); postgres.psql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"); await sleep(1000); },
  async s3() { process.kill(s3.pid, 'SIGSTOP'); await sleep(Number(option('outage', 8)) * 1000); process.kill(s3.pid, 'SIGCONT'); },
};

// ---- clients ---------------------------------------------------------------
const history = []; // {client, number, acknowledged}
let stop = false, waits = { count: 0, longest: 0 };
async function client(id) {
  let session, number = 0;
  while (!session && !stop) {
    const r = await call('POST', '/api/sessions', { name: `client ${id}` });
    if (r.status === 201) session = r.json; else await sleep(500);
  }
  const mine = { id, session, events: [] };
  history.push(mine);
  while (!stop) {
    const event = { number: ++number, at: Date.now() };
    const r = await call('POST', `/api/sessions/${session.id}/executions`,
      { language: 'python', code: `with open('log.txt', 'a') as f: f.write('${number}\\n')` });
    event.status = r.status;
    event.outcome = r.json?.outcome;
    event.execution = r.json?.id;
    event.committed = Boolean(r.json?.commit);
    event.acknowledged = r.status === 200 && r.json?.outcome === 'ok' && event.committed;
    event.why = event.acknowledged ? undefined : r.text.slice(0, 300);
    waits.longest = Math.max(waits.longest, Date.now() - event.at);
    mine.events.push(event);
    await sleep(event.acknowledged ? 20 : 400);
  }
}

/** Never two owners: each commit of a session must have been made under the
 * greatest fence that was seen before it. Sampled while faults happen. */
const fences = new Map();
let ownersSeen = 0;
async function watchOwners() {
  while (!stop) {
    try {
      for (const line of postgres.psql('SELECT session, node, fence FROM leases').split('\n').filter(Boolean)) {
        const [session, owner, fence] = line.split('|');
        const known = fences.get(session);
        ownersSeen++;
        if (known && (Number(fence) < known.fence || (Number(fence) === known.fence && owner && known.owner && owner !== known.owner)))
          throw Object.assign(new Error(`session ${session} had two owners under fence ${fence}: ${known.owner} and ${owner}`), { fatal: true });
        fences.set(session, { owner, fence: Number(fence) });
      }
    } catch (error) { if (error.fatal) { problems.push(error.message); } }
    await sleep(200);
  }
}

// ---- the check -------------------------------------------------------------
const problems = [];
async function check() {
  let acknowledged = 0, unanswered = 0, lost = 0;
  for (const { id, session, events } of history) {
    const r = await until(async () => { const a = await call('GET', `/api/workspaces/${session.workspace}/files/log.txt`); return a.status === 200 && a; },
      { ms: 60_000, every: 500, what: `the file of client ${id}` });
    const lines = r.text.split('\n').filter(Boolean).map(Number);
    const count = new Map();
    for (const line of lines) count.set(line, (count.get(line) ?? 0) + 1);
    for (const e of events) {
      if (e.acknowledged) acknowledged++; else unanswered++;
      if (e.acknowledged && !count.has(e.number)) problems.push(`client ${id}: ${e.number} was acknowledged and is lost`);
      if ((count.get(e.number) ?? 0) > 1) problems.push(`client ${id}: ${e.number} is there ${count.get(e.number)} times`);
      if (e.outcome === 'lost') lost++;
    }
    for (let i = 1; i < lines.length; i++) if (lines[i] <= lines[i - 1]) problems.push(`client ${id}: ${lines[i]} stands after ${lines[i - 1]}`);
    if (!events.some((e) => e.acknowledged)) problems.push(`client ${id}: nothing was ever acknowledged`);
  }
  const audit = await until(async () => { const a = await call('POST', '/api/audit/verify', {}); return a.status === 200 && a; }, { ms: 60_000, what: 'the trail is verified' });
  if (!/"(ok|valid|intact)":true/.test(audit.text)) problems.push(`the audit trail: ${audit.text.slice(0, 400)}`);
  const left = postgres.psql("SELECT count(*) FROM node_executions e JOIN nodes n ON n.id = e.node WHERE n.state = 'gone'");
  if (left !== '0') problems.push(`${left} executions of gone nodes were not ended`);
  return { acknowledged, unanswered, audit: audit.text.slice(0, 120) };
}

// ---- all of it -------------------------------------------------------------
let balancer, failed = true;
const dir = mkdtempSync(join(tmpdir(), 'glovebox-balancer-'));
const seedUsed = seed;
try {
  makeNetwork();
  postgres = await startPostgres();
  postgres.port = 54320;
  s3 = await startS3();
  background('socat', [`TCP-LISTEN:${postgres.port},bind=${NET}.1,fork,reuseaddr`, `UNIX-CONNECT:${postgres.socket}/.s.PGSQL.5432`]);
  background('socat', [`TCP-LISTEN:9000,bind=${NET}.1,fork,reuseaddr`, `TCP:127.0.0.1:${s3.port}`]);
  for (const n of nodes) background('ip', ['netns', 'exec', n.ns, 'socat', `TCP-LISTEN:${s3.port},bind=127.0.0.1,fork,reuseaddr`, `TCP:${NET}.1:9000`]);
  await sleep(500);
  for (const n of nodes) await startNode(n);
  balancer = 20000 + (process.pid % 20000);
  writeFileSync(join(dir, 'haproxy.cfg'), `global
  maxconn 500
defaults
  mode http
  timeout connect 1s
  timeout client 60s
  timeout server 60s
  retries 3
  option redispatch
frontend in
  bind 127.0.0.1:${balancer}
  default_backend nodes
backend nodes
  balance roundrobin
  option httpchk GET /readyz
  retry-on conn-failure
${nodes.map((n) => `  server n${n.i + 1} ${n.ip}:8650 check inter 500 fall 2 rise 1`).join('\n')}
`);
  background('haproxy', ['-f', join(dir, 'haproxy.cfg'), '-db']);
  await until(async () => (await call('GET', '/api/nodes', undefined, 2000)).json?.data?.filter((n) => n.state === 'active').length === 3, { ms: 60_000, what: 'three nodes behind the balancer' });
  const ends = Date.now() + SECONDS * 1000, done = {}, skipped = {};
  const running = [watchOwners(), ...Array.from({ length: CLIENTS }, (_, i) => client(i))];
  const names = Object.keys(faults);
  for (let round = 0; Date.now() < ends - 15_000; round++) {
    await sleep(3000);
    const name = round < names.length ? names[round] : pick(names);
    const n = pick(alive());
    console.log(`# ${Math.round((ends - Date.now()) / 1000)} s left: ${name} ${/postgres|s3/.test(name) ? '' : `n${n.i + 1}`}`);
    const left = await faults[name](n);
    if (left) skipped[name] = left;
    else done[name] = (done[name] ?? 0) + 1;
  }
  await until(async () => (await call('GET', '/api/nodes', undefined, 3000)).json?.data?.filter((n) => n.state === 'active').length === 3, { ms: 60_000, every: 500, what: 'all nodes are active again' });
  await sleep(3000);
  stop = true;
  await Promise.all(running);
  const result = await check();
  console.log(`# faults ${JSON.stringify(done)}${Object.keys(skipped).length ? ` ${JSON.stringify(skipped)}` : ''}; seed ${seedUsed}; owners looked at ${ownersSeen}; longest answer ${waits.longest} ms`);
  console.log(`# acknowledged ${result.acknowledged}, not acknowledged ${result.unanswered}; audit ${result.audit}`);
  const reasons = {};
  for (const { events } of history) for (const e of events) if (!e.acknowledged) { const k = `${e.status} ${e.outcome ?? ''} ${(e.why ?? '').slice(0, 140)}`; reasons[k] = (reasons[k] ?? 0) + 1; }
  for (const [k, v] of Object.entries(reasons).sort((a, b) => b[1] - a[1]).slice(0, 8)) console.log(`#   ${v} × ${k}`);
  for (const p of problems) console.log(`# PROBLEM: ${p}`);
  failed = problems.length > 0;
  console.log(`${failed ? 'not ok' : 'ok'} 1 - N1 N2 N3: no acknowledged commit is lost or doubled, never two owners, the trail is intact (${SECONDS} s)`);
} catch (error) {
  console.log(`not ok 1 - ${error.stack}`);
  for (const n of nodes) console.log(`--- n${n.i + 1}\n${(n.log ?? '').split('\n').filter((l) => / (warn|error) /.test(l)).slice(-15).join('\n')}`);
} finally {
  stop = true;
  if (process.env.KEEP_LOGS) for (const n of nodes) writeFileSync(`${process.env.KEEP_LOGS}/n${n.i + 1}.log`, n.log ?? '');
  for (const n of nodes) if (n.child) { n.child.kill('SIGCONT'); n.child.kill('SIGTERM'); }
  await Promise.all(nodes.map((n) => (n.child ? Promise.race([n.exited, sleep(15_000)]) : 0)));
  for (const c of children) c.kill('SIGKILL');
  if (s3) { try { process.kill(s3.pid, 'SIGCONT'); } catch { /* gone */ } await s3.stop(); }
  await postgres?.stop();
  removeNetwork();
  rmSync(dir, { recursive: true, force: true });
  for (const n of nodes) if (n.dir) rmSync(n.dir, { recursive: true, force: true });
  console.log('1..1');
  process.exit(failed ? 1 : 0);
}
