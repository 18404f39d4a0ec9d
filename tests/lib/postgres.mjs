// SPDX-License-Identifier: Apache-2.0
// A PostgreSQL server for a test file (tools/test-postgres), which ends with
// it, and short ways to ask it.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { root } from './glovebox.mjs';

export class Postgres {
  static async start() {
    const p = new Postgres();
    // The command prints where the server is and ends when we close its input.
    p.child = spawn(join(root, 'tools/test-postgres'), ['sh', '-c', 'echo "$GLOVEBOX_TEST_POSTGRES"; cat'],
      { stdio: ['pipe', 'pipe', 'inherit'] });
    p.exited = once(p.child, 'exit');
    const [line] = await Promise.race([once(p.child.stdout, 'data'),
      p.exited.then(() => { throw new Error('test-postgres ended'); })]);
    p.dir = new URL(String(line).trim().replace('@/', '@x/')).searchParams.get('host');
    return p;
  }

  url(database, user = 'glovebox') { return `postgres://${user}@/${database}?host=${this.dir}`; }

  // Rows as text, "a|b" a line.
  ask(database, sql) {
    const done = spawnSync('psql', ['-h', this.dir, '-U', 'glovebox', '-d', database, '-qAtX', '-v', 'ON_ERROR_STOP=1', '-c', sql],
      { encoding: 'utf8' });
    if (done.status !== 0) throw new Error(`${sql}: ${done.stderr}`);
    return done.stdout.trim();
  }

  create(database) {
    this.ask('postgres', `CREATE DATABASE ${database}`);
    return this.url(database);
  }

  // Tables of a database's public schema.
  tables(database) { return Number(this.ask(database, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")); }

  async stop() {
    this.child.stdin.end();
    await this.exited;
  }
}
