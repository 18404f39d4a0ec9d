// SPDX-License-Identifier: Apache-2.0
// A service whose metadata is in PostgreSQL, while that server crashes and
// stops: what was acknowledged stays, /readyz tells the truth, and the service
// goes on by itself. The server is this suite's own (tools/test-postgres).
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { request, stop } from '../../lib/wire.mjs';
import { Workspace } from '../../lib/workspace.mjs';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const here = spawnSync('sh', ['-c', 'ls /usr/lib/postgresql/*/bin/initdb'], { encoding: 'utf8' });
const skip = here.status !== 0 && 'no PostgreSQL server is installed';

let holder;
let postmaster;
let server;

// Every process of the server, the postmaster first.
const processes = () => [postmaster, ...(spawnSync('ps', ['-o', 'pid=', '--ppid', String(postmaster)], { encoding: 'utf8' }).stdout.match(/\d+/g) ?? []).map(Number)];
const ready = async () => {
  const answer = await fetch(`${server.url}/readyz`);
  return { status: answer.status, text: await answer.text() };
};

before(async () => {
  if (skip) return;
  holder = spawn(`${root}/tools/test-postgres`, ['sh', '-c', 'echo "$GLOVEBOX_TEST_POSTGRES $GLOVEBOX_TEST_POSTGRES_PID"; cat'], { stdio: ['pipe', 'pipe', 'inherit'] });
  let said = '';
  holder.stdout.on('data', (bytes) => { said += bytes; });
  await until(() => said.includes('\n'), { ms: 60_000, what: 'PostgreSQL' });
  const [url, pid] = said.trim().split(' ');
  postmaster = Number(pid);
  server = await Glovebox.start({ config: { store: `${url}&dbname=postgres`, pools: [pool()] } });
});
after(async () => {
  if (skip) return;
  await stop(server);
  holder.stdin.end();
});

// Uploads until told to stop; what was acknowledged, with its content.
function load(w) {
  const acknowledged = new Map();
  const refusals = new Map();
  const state = { acknowledged, refusals, going: true };
  const one = async (lane) => {
    for (let i = 0; state.going && i < 5000; i++) {
      const name = `f-${lane}-${i}`;
      const answer = await w.call('PUT', `/files/${name}`, { body: `${name} of the load`, headers: { 'content-type': 'text/plain' } }).catch((error) => ({ status: error.message }));
      if (answer.status === 200 || answer.status === 201) acknowledged.set(name, `${name} of the load`);
      else {
        refusals.set(answer.status, (refusals.get(answer.status) ?? 0) + 1);
        await sleep(50);
      }
    }
  };
  state.done = Promise.all([0, 1, 2].map(one));
  return state;
}

async function check(w, state) {
  for (const [name, content] of state.acknowledged) {
    const answer = await w.call('GET', `/files/${name}`);
    assert.equal(answer.status, 200, `${name}: ${answer.text}`);
    assert.equal(answer.text, content);
  }
  const report = await request(server, 'POST', '/api/audit/verify');
  assert.equal(report.body.ok, true, JSON.stringify(report.body));
}

// Only what says that the store is away, never a wrong answer.
const refusalsAreHonest = (state) => {
  for (const status of state.refusals.keys()) assert.ok([503, 429].includes(status), `refused with ${status}`);
};

test('D1 D2 nothing acknowledged is lost when PostgreSQL crashes', { skip }, async () => {
  const w = await Workspace.create(server);
  const state = load(w);
  await until(() => state.acknowledged.size > 20, { ms: 60_000, what: 'load' });
  for (let i = 0; i < 3; i++) {
    // A killed backend makes the postmaster end all others and recover.
    // For a moment of a recovery it has no children.
    const child = await until(() => processes()[1], { what: 'a child of the postmaster' });
    process.kill(child, 'SIGKILL');
    const before = state.acknowledged.size;
    await until(() => state.acknowledged.size > before + 10, { ms: 60_000, what: 'recovery' });
  }
  state.going = false;
  await state.done;
  await check(w, state);
  refusalsAreHonest(state);
});

test('D1 a stopped PostgreSQL is told, and noticed when it goes on', { skip }, async () => {
  const w = await Workspace.create(server);
  const state = load(w);
  await until(() => state.acknowledged.size > 10, { ms: 60_000, what: 'load' });
  const stopped = processes();
  for (const pid of stopped) process.kill(pid, 'SIGSTOP');
  try {
    await until(async () => (await ready()).status === 503, { ms: 30_000, what: 'readyz to refuse' });
    assert.match((await ready()).text, /storage/);
    assert.equal((await fetch(`${server.url}/healthz`)).status, 200);
  } finally {
    for (const pid of stopped.reverse()) process.kill(pid, 'SIGCONT');
  }
  await until(async () => (await ready()).status === 200, { ms: 60_000, what: 'readyz' });
  const before = state.acknowledged.size;
  await until(() => state.acknowledged.size > before + 10, { ms: 90_000, what: 'recovery' });
  state.going = false;
  await state.done;
  await check(w, state);
  refusalsAreHonest(state);
});
