// SPDX-License-Identifier: Apache-2.0
// One service on PostgreSQL beside the same on SQLite: a warm cell, and files
// of 1 KiB by one client and by eight. Also what an operation costs the
// server: statements, transactions and bytes of its log.
//
//     tools/test-postgres node bench/postgres.mjs
//
// The server is on this machine, by default in memory; TEST_TMPDIR puts it on
// a disk. docs/decisions/postgres.md has figures.
import { spawnSync } from 'node:child_process';
import { Glovebox, pool } from '../tests/lib/glovebox.mjs';
import { Workspace } from '../tests/lib/workspace.mjs';

const CELLS = Number(process.env.CELLS ?? 200);
const FILES = Number(process.env.FILES ?? 200);
const server = process.env.GLOVEBOX_TEST_POSTGRES;
if (!server) throw new Error('start it with tools/test-postgres');
const url = `${server}&dbname=bench`;
const sql = (text, database = 'bench') => {
  const r = spawnSync('psql', ['-qAtX', `${server}&dbname=${database}`, '-c', text], { encoding: 'utf8' });
  if (r.status !== 0) throw new Error(r.stderr);
  return r.stdout.trim();
};
const median = (list) => list.sort((a, b) => a - b)[Math.floor(list.length / 2)];

const cost = () => sql(`SELECT (SELECT coalesce(sum(calls), 0) FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = 'bench'),
  (SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'bench'), pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')`, 'postgres').split('|').map(Number);

async function measured(count, fn) {
  const before = cost();
  const result = await fn();
  await new Promise((done) => { setTimeout(done, 1500); }); // counters of idle connections arrive late
  const after = cost();
  return { result, each: after.map((v, i) => (v - before[i]) / count) };
}

async function files(w, clients) {
  const began = performance.now();
  let next = 0;
  await Promise.all(Array.from({ length: clients }, async () => {
    while (next < FILES) await w.write(`c${clients}-${next++}`, 'x'.repeat(1024));
  }));
  return FILES / ((performance.now() - began) / 1000);
}

async function cells(g) {
  const session = await g.ok('POST', '/api/sessions', {});
  const times = [];
  for (let i = 0; i < CELLS + 10; i++) {
    const began = performance.now();
    await g.ok('POST', `/api/sessions/${session.id}/executions`, { language: 'python', code: '1 + 1' });
    if (i >= 10) times.push(performance.now() - began);
  }
  return median(times);
}

async function bench(name, store) {
  const g = await Glovebox.start({ config: { store, pools: [pool({ ready: 2 })] } });
  try {
    const w = await Workspace.create(g);
    const cell = await measured(CELLS, () => cells(g));
    const one = await measured(FILES, () => files(w, 1));
    const eight = await measured(FILES, () => files(w, 8));
    const show = (m) => (name === 'postgres' ? `; ${m.each[0].toFixed(1)} statements, ${m.each[1].toFixed(1)} transactions, ${Math.round(m.each[2])} bytes of log each` : '');
    console.log(`${name}: warm cell ${cell.result.toFixed(2)} ms${show(cell)}`);
    console.log(`${name}: commit_1k, 1 client ${one.result.toFixed(0)}/s${show(one)}`);
    console.log(`${name}: commit_1k, 8 clients ${eight.result.toFixed(0)}/s${show(eight)}`);
    return cell.result;
  } finally {
    await g.stop();
  }
}

sql('CREATE DATABASE bench', 'postgres');
sql('CREATE EXTENSION pg_stat_statements', 'postgres');
const sqlite = await bench('sqlite', 'sqlite');
const postgres = await bench('postgres', `${url}`);
console.log(`warm cell: ${(postgres / sqlite).toFixed(2)} times`);
