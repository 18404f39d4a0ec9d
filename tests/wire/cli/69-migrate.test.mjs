// SPDX-License-Identifier: Apache-2.0
// glovebox migrate: a data directory moves to PostgreSQL and back with all it
// has; a failed or killed move leaves both stores as they were; backups of one
// engine restore into the other.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, bin, pool, until } from '../../lib/glovebox.mjs';
import { Postgres } from '../../lib/postgres.mjs';

const config = { pools: [pool({ ready: 0 })], scrub_bytes_per_s: 0 };
const policy = `version: 1
rules:
  - {name: shell-needs-approval, match: {action: execute, language: shell}, then: ask}
`;
let postgres;
let out;
let dir; // of the service; its data is dir/data
let data;
let cli;
let key; // a second key, of another tenant
let first; // what the API said before the move

// What the API says, without what depends on the moment.
async function picture(server) {
  const paths = ['/api/workspaces', '/api/keys', '/api/policy', '/api/approvals', '/api/sessions', '/api/search?q=apple'];
  const seen = {};
  for (const path of paths) {
    const answer = await server.call('GET', path);
    assert.equal(answer.status, 200, path);
    seen[path] = [answer.status, JSON.stringify(answer.body, (name, value) =>
      (/^(last_)?used|^last_|expires|^url$|state$|^now/.test(name) ? undefined : value))?.replaceAll(server.url, '')];
  }
  return seen;
}

const serve = (store, more = {}) => Glovebox.start({ dir, config: { ...config, ...(store ? { store } : {}) }, ...more });
const migrate = (...args) => cli.run(['migrate', '--data', data, ...args]);
const python = (code, ...args) => {
  const done = spawnSync('python3', ['-c', code, ...args], { encoding: 'utf8' });
  assert.equal(done.status, 0, done.stderr);
  return done.stdout.trim();
};
const sqlite = (sql) => python('import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); print(c.execute(sys.argv[2]).fetchone()); c.commit()',
  join(data, 'glovebox.db'), sql);

before(async () => {
  postgres = await Postgres.start();
  out = mkdtempSync(join(tmpdir(), 'glovebox-migrate-'));
  chmodSync(out, 0o777);
  dir = join(out, 'service');
  mkdirSync(dir);
  data = join(dir, 'data');
  const server = await serve();
  cli = new Cli(server);
  await cli.ok(['workspaces', 'new', 'docs']);
  for (let i = 0; i < 20; i++) {
    writeFileSync(join(cli.cwd, 'f'), `file ${i}: apple ${'pear '.repeat(i)}`);
    await cli.ok(['files', 'put', 'f', `docs:many/${i}.txt`]);
  }
  await server.ok('PUT', '/api/policy', policy, { raw: true, headers: { 'content-type': 'application/yaml' } });
  const session = await server.session({ name: 'kept' });
  assert.equal(await session.out('open("made.txt", "w").write("apple"); print(6 * 7)'), '42');
  const held = await server.call('POST', `${session.path}/executions`, { language: 'shell', code: 'true' });
  assert.equal(held.status, 202, held.text);
  key = (await server.tenant('other')).key;
  await server.ok('POST', '/v1/conversations', { metadata: { topic: 'moving' } });
  await until(async () => (await server.ok('GET', '/api/search?q=apple')).data.length >= 21, { what: 'the index' });
  first = await picture(server);
  await server.stop({ keep: true });
});

after(async () => {
  cli?.close();
  await postgres?.stop();
  if (out) rmSync(out, { recursive: true, force: true });
});

test('a wrong place, a used one, a wrong password: nothing moves', async () => {
  const used = postgres.create('used');
  postgres.ask('used', 'CREATE TABLE theirs (a int)');
  postgres.ask('postgres', "CREATE ROLE locked LOGIN SUPERUSER PASSWORD 'right'");
  const hba = join(postgres.dir, 'data/pg_hba.conf');
  writeFileSync(hba, `local all locked scram-sha-256\n${readFileSync(hba, 'utf8')}`);
  postgres.ask('postgres', 'SELECT pg_reload_conf()');
  postgres.create('empty');
  const locked = postgres.url('empty', 'locked:mistaken');
  await until(() => spawnSync('psql', [locked, '-c', 'SELECT 1']).status !== 0, { what: 'the password' });
  for (const [to, why] of [
    [used, /not empty: it has 1 tables/],
    [postgres.url('nowhere'), /database .*nowhere.* does not exist/],
    ['postgres://glovebox@127.0.0.1:1/x', /cannot be reached/],
    ['postgres://a b/%zz', /malformed/],
    [locked, /password authentication failed/],
  ]) {
    const done = await migrate('--to', to);
    assert.equal(done.status, 3, `${to}: ${JSON.stringify(done)}`);
    assert.match(done.stderr, why);
    assert.match(done.stderr, /the store was not moved/);
    assert.doesNotMatch(done.stderr, /mistaken/);
  }
  assert.equal((await migrate('--to', 'mysql://x')).status, 2);
  assert.equal((await migrate()).status, 2);
  assert.equal(postgres.tables('used'), 1);
  assert.equal(postgres.tables('empty'), 0);
});

test('a directory in use, a missing one, a newer schema: refused', async () => {
  const to = postgres.create('refused');
  const server = await serve();
  try {
    const done = await migrate('--to', to);
    assert.equal(done.status, 3);
    assert.match(done.stderr, /another process has the data directory open/);
  } finally {
    await server.stop({ keep: true });
  }
  assert.match((await cli.exits(3, ['migrate', '--to', to, '--data', join(out, 'absent')])).stderr, /No such file/);
  const version = /\d+/.exec(sqlite('SELECT version FROM schema_version'))[0];
  sqlite('UPDATE schema_version SET version = 9999');
  assert.match((await migrate('--to', to)).stderr, /has schema 9999/);
  sqlite(`UPDATE schema_version SET version = ${version}`);
  assert.equal(postgres.tables('refused'), 0);
});

test('killed in the middle: the database is empty, and the next try succeeds', async () => {
  const to = postgres.create('killed');
  // Rows of files take their time, so that the kill comes between them.
  postgres.ask('killed', `CREATE SCHEMA aside;
    CREATE FUNCTION aside.nap() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(0.5); RETURN NEW; END$$;
    CREATE FUNCTION aside.slow() RETURNS event_trigger LANGUAGE plpgsql AS $$DECLARE c record; BEGIN
      FOR c IN SELECT * FROM pg_event_trigger_ddl_commands() LOOP
        IF c.command_tag = 'CREATE TABLE' AND c.object_identity = 'public.files' THEN
          CREATE TRIGGER nap BEFORE INSERT ON public.files FOR EACH ROW EXECUTE FUNCTION aside.nap(); END IF;
      END LOOP; END$$;
    CREATE EVENT TRIGGER slow ON ddl_command_end EXECUTE FUNCTION aside.slow()`);
  const child = spawn(bin('gloveboxd'), ['--migrate-to', to, '--data', data], { stdio: 'ignore' });
  const ended = new Promise((done) => child.on('exit', (code, signal) => done(signal ?? code)));
  await until(() => postgres.ask('killed', "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'COPY \"files\"%' AND state = 'active'") === '1',
    { ms: 30_000, what: 'rows of files' });
  child.kill('SIGKILL');
  assert.equal(await ended, 'SIGKILL');
  await until(() => postgres.ask('killed', "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'glovebox'") === '0',
    { ms: 30_000, what: 'the end of the killed connection' });
  assert.equal(postgres.tables('killed'), 0);
  const server = await serve(); // the store that it had
  await server.stop({ keep: true });
  postgres.ask('killed', 'DROP EVENT TRIGGER slow; DROP SCHEMA aside CASCADE');
  const done = await migrate('--to', to);
  assert.equal(done.status, 0, done.stderr);
  assert.ok(postgres.tables('killed') > 50);
  postgres.ask('postgres', 'DROP DATABASE killed WITH (FORCE)');
});

test('moved: the same answers, served from PostgreSQL with the same keys', async () => {
  const to = postgres.create('moved');
  const done = await cli.json(['migrate', '--to', postgres.url('moved', 'glovebox:secret'), '--data', data]);
  assert.deepEqual(done, { store: to, data }, 'without the password');
  assert.match((await migrate('--to', to)).stderr, /not empty/);
  const server = await serve(to);
  try {
    assert.deepEqual(await picture(server), first);
    assert.equal((await server.call('GET', '/api/workspaces', undefined, { key })).status, 200);
    const theirs = { env: { GLOVEBOX_URL: server.url } };
    assert.equal((await cli.json(['verify'], theirs)).ok, true);
    assert.equal((await cli.json(['audit', 'verify'], theirs)).ok, true);
    const [held] = (await server.ok('GET', '/api/approvals')).data;
    assert.equal(held.state, 'pending');
    writeFileSync(join(cli.cwd, 'f'), 'later plum');
    await cli.ok(['files', 'put', 'f', 'docs:later.txt'], theirs);
    const busy = await migrate('--to', 'sqlite', '--store', to);
    assert.equal(busy.status, 3);
    assert.match(busy.stderr, /has the PostgreSQL database open|has the data directory open/);
  } finally {
    await server.stop({ keep: true });
  }
});

test('D11 the store from before the move is not served any more', async () => {
  const server = await serve(null, { wait: false });
  await server.exited;
  assert.notEqual(server.exit.code, 0);
  assert.match(server.log, /older than|rolled back|audit\.head/);
});

test('D9 a backup of PostgreSQL restores into PostgreSQL and into SQLite', async () => {
  const server = await serve(postgres.url('moved'));
  const theirs = { env: { GLOVEBOX_URL: server.url } };
  const backup = join(out, 'backup');
  let listed;
  try {
    await cli.ok(['backup', backup], theirs);
    listed = (await server.ok('GET', '/api/workspaces')).data.map((w) => [w.id, w.name]);
  } finally {
    await server.stop({ keep: true });
  }
  for (const store of [postgres.create('restored'), 'sqlite']) {
    const at = join(out, `restored-${store === 'sqlite' ? 'sqlite' : 'postgres'}`);
    mkdirSync(at);
    chmodSync(at, 0o777);
    await cli.ok(['restore', backup, '--data', join(at, 'data'), '--store', store]);
    assert.equal(existsSync(join(at, 'data/glovebox.db')), store === 'sqlite');
    const second = await Glovebox.start({ dir: at, config: { ...config, store } });
    try {
      assert.deepEqual((await second.ok('GET', '/api/workspaces')).data.map((w) => [w.id, w.name]), listed);
      const there = { env: { GLOVEBOX_URL: second.url } };
      assert.equal((await cli.json(['verify'], there)).ok, true);
      assert.equal((await cli.json(['audit', 'verify'], there)).ok, true);
      assert.match((await cli.ok(['search', 'plum'], there)).stdout, /later\.txt/);
    } finally {
      await second.stop({ keep: true });
    }
  }
});

test('D8 a changed row and a changed file are found on PostgreSQL', async () => {
  const at = join(out, 'restored-postgres');
  const server = await Glovebox.start({ dir: at, config: { ...config, store: postgres.url('restored') } });
  const there = { env: { GLOVEBOX_URL: server.url } };
  try {
    postgres.ask('restored', "UPDATE audit SET object = 'forged' WHERE seq = 3");
    const report = await cli.json(['audit', 'verify'], { ...there, status: 1 });
    assert.deepEqual([report.ok, report.first_bad], [false, 3]);
    const victim = readdirSync(join(at, 'data/blobs'), { recursive: true, withFileTypes: true })
      .filter((e) => e.isFile() && /^[0-9a-f]{64}$/.test(e.name)).map((e) => join(e.parentPath ?? e.path, e.name))[0];
    chmodSync(victim, 0o644);
    writeFileSync(victim, 'damaged');
    assert.equal((await cli.json(['verify'], { ...there, status: 1 })).bad, 1);
  } finally {
    await server.stop({ keep: true });
  }
});

test('back to SQLite: with what was done meanwhile, and the old database kept', async () => {
  const done = await cli.json(['migrate', '--to', 'sqlite', '--store', postgres.url('moved'), '--data', data]);
  assert.deepEqual(done, { store: 'sqlite', data });
  assert.equal(readdirSync(data).filter((n) => /^glovebox\.db\.until-/.test(n)).length, 1);
  const server = await serve();
  try {
    const theirs = { env: { GLOVEBOX_URL: server.url } };
    assert.match((await cli.ok(['search', 'plum'], theirs)).stdout, /later\.txt/);
    assert.equal((await cli.json(['verify'], theirs)).ok, true);
    assert.equal((await cli.json(['audit', 'verify'], theirs)).ok, true);
  } finally {
    await server.stop({ keep: true });
  }
});
