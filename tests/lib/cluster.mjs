// SPDX-License-Identifier: Apache-2.0
// Several nodes on one PostgreSQL and one S3 server, all started here.
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Glovebox, pool, root, until } from './glovebox.mjs';
import { keyFolder } from './s3.mjs';

/** Keys that every node has: what one signs or seals, all can read. */
export const SHARED = ['auth.secret', 'audit.secret', 'audit.sign.key', 'vault.key', 'admin.key', 'audit.head'];

export async function freePort(host = '127.0.0.1') {
  const server = createServer();
  await new Promise((done) => server.listen(0, host, done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

/** A PostgreSQL server of its own: {url, pid, stop()}. It ends with stdin. */
export async function startPostgres() {
  const child = spawn(join(root, 'tools/test-postgres'),
    ['sh', '-c', 'echo "ready $GLOVEBOX_TEST_POSTGRES $GLOVEBOX_TEST_POSTGRES_PID"; cat >/dev/null'],
    { stdio: ['pipe', 'pipe', 'inherit'] });
  const [url, pid] = await new Promise((done, fail) => {
    let out = '';
    child.stdout.on('data', (b) => { out += b; const m = /ready (\S+) (\d+)/.exec(out); if (m) done([m[1], Number(m[2])]); });
    child.on('exit', () => fail(new Error('PostgreSQL did not start')));
  });
  const socket = new URL(url.replace('@/', '@x/')).searchParams.get('host');
  const exited = new Promise((done) => child.on('exit', done));
  const psql = (sql, database = 'glovebox') => {
    const r = spawnSync('psql', ['-h', socket, '-U', 'glovebox', '-d', database, '-Atqc', sql], { encoding: 'utf8' });
    if (r.status !== 0) throw new Error(`psql: ${r.stderr}`);
    return r.stdout.trim();
  };
  psql('CREATE DATABASE glovebox', 'postgres');
  return { url: url.replace('@/', '@/glovebox'), pid, socket, psql, stop: async () => { child.stdin.end(); await exited; } };
}

/** An S3 server in a process of its own, so that it can be stopped. */
export async function startS3() {
  const child = spawn(process.execPath, [join(root, 'tests/lib/s3-server.mjs')], { stdio: ['pipe', 'pipe', 'inherit'] });
  const port = await new Promise((done, fail) => {
    let out = '';
    child.stdout.on('data', (b) => { out += b; const m = /ready (\d+)/.exec(out); if (m) done(Number(m[1])); });
    child.on('exit', () => fail(new Error('the S3 server did not start')));
  });
  const keys = keyFolder();
  return { url: `http://127.0.0.1:${port}`, port, pid: child.pid, keys: join(keys, 'keys'),
    stop: async () => { child.stdin.end(); child.kill(); rmSync(keys, { recursive: true }); } };
}

export class Cluster {
  static async start({ nodes = 3, config = {}, node = () => ({}), lease = 6 } = {}) {
    const c = new Cluster();
    c.nodes = [];
    c.config = config;
    c.node = node;
    c.lease = lease;
    try {
      c.postgres = await startPostgres();
      c.s3 = await startS3();
      c.nodes.push(await c.startNode(0)); // it makes the keys
      const rest = await Promise.allSettled(Array.from({ length: nodes - 1 }, (_, i) => c.startNode(i + 1)));
      c.nodes.push(...rest.filter((r) => r.status === 'fulfilled').map((r) => r.value));
      for (const r of rest) if (r.status === 'rejected') throw r.reason;
      await until(async () => (await c.nodes[0].ok('GET', '/api/nodes')).data.length === nodes, { ms: 60_000, what: 'all nodes are listed' });
    } catch (error) {
      await c.stop();
      throw error;
    }
    return c;
  }

  async startNode(i, { dir } = {}) {
    dir ??= mkdtempSync(join(tmpdir(), 'glovebox-node-'));
    chmodSync(dir, 0o755);
    const data = join(dir, 'data');
    if (i > 0 && !existsSync(data)) {
      const from = join(this.nodes[0].dir, 'data'), { uid, gid } = statSync(from);
      mkdirSync(data, { mode: 0o700 });
      chownSync(data, uid, gid);
      for (const name of SHARED) {
        copyFileSync(join(from, name), join(data, name));
        chownSync(join(data, name), uid, gid);
      }
    }
    const g = await Glovebox.start({
      dir,
      config: {
        store: this.postgres.url,
        blob_bucket: 'blobs',
        buckets: [{ name: 'blobs', endpoint: this.s3.url, bucket: 'glovebox', key_file: this.s3.keys }],
        node_listen: `127.0.0.1:${await freePort()}`,
        node_name: `n${i + 1}`,
        node_lease_s: this.lease,
        pools: [pool()],
        ...this.config,
        ...this.node(i),
      },
    });
    g.index = i;
    return g;
  }

  /** The name of the node that has the session, by the store. */
  ownerName(session) {
    return this.postgres.psql(`SELECT n.name FROM leases l JOIN nodes n ON n.id = l.node WHERE l.session = '${session}'`);
  }

  owner(session) {
    const name = this.ownerName(session);
    return this.nodes.find((g) => `n${g.index + 1}` === name);
  }

  async stop() {
    await Promise.all(this.nodes.map((g) => g.stop?.().catch(() => {})));
    await this.s3?.stop();
    await this.postgres?.stop();
  }
}
