// SPDX-License-Identifier: Apache-2.0
// The audit trail by the command line: what was done is there, filters find
// it, it can be followed, and a change to it is found.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';

const config = { pools: [pool({ ready: 0 })] };
let server;
let cli;
let ws;

before(async () => {
  server = await Glovebox.start({ config });
  cli = new Cli(server);
  ws = (await cli.ok(['workspaces', 'new', 'docs'])).stdout.trim();
  writeFileSync(join(cli.cwd, 'f'), 'content that is no business of the trail');
  await cli.ok(['files', 'put', 'f', 'docs:a.txt']);
  await cli.ok(['files', 'rm', 'docs:a.txt']);
});

after(async () => {
  cli?.close();
  await server?.stop();
});

test('O1 each act is one event, in order, with who, what and where', async () => {
  const events = await cli.json(['audit', '--workspace', 'docs']);
  const acts = events.filter((e) => e.workspace === ws).map((e) => e.action);
  assert.deepEqual(acts, ['workspace.create', 'file.put', 'file.delete']);
  for (let i = 1; i < events.length; i++) assert.ok(events[i].seq > events[i - 1].seq);
  for (const e of events) assert.match(e.actor, /^key_/);
  assert.doesNotMatch(JSON.stringify(events), /no business/);
  const { stdout } = await cli.ok(['audit', '-w', 'docs']);
  assert.match(stdout, /^SEQ +AT +ACTOR +ACTION +RESULT +WORKSPACE +OBJECT +PATH\n/);
  assert.match(stdout, /file\.put +ok .*a\.txt/);
});

test('filters: action, object, actor, time, limit', async () => {
  const [put] = await cli.json(['audit', '--action', 'file.put']);
  assert.equal(put.path, 'a.txt');
  assert.equal((await cli.json(['audit', '--action', 'file.'])).length, 2);
  assert.equal((await cli.json(['audit', '--object', 'a.txt'])).length, 2);
  assert.ok((await cli.json(['audit', '--actor', put.actor])).length >= 3);
  assert.deepEqual(await cli.json(['audit', '--actor', 'key_0']), []);
  assert.deepEqual(await cli.json(['audit', '--to', '2020-01-01', '--from', '2019-01-01']), []);
  const newest = await cli.json(['audit', '-w', ws, '--limit', '1']);
  assert.deepEqual(newest.map((e) => e.action), ['file.delete']);
  assert.equal((await cli.error(['audit', '-w', 'nowhere'])).code, 'not_found');
});

test('--follow goes on as events come, and ends with Ctrl-C', async () => {
  const following = cli.start(['audit', '--follow', '-w', 'docs', '--json']);
  await following.shows(/file\.delete/);
  await cli.ok(['files', 'put', 'f', 'docs:followed.txt']);
  await following.shows(/followed\.txt/);
  following.child.kill('SIGINT');
  const done = await following.ended;
  assert.equal(done.status, 0);
  const lines = done.stdout.trim().split('\n').map((line) => JSON.parse(line));
  assert.deepEqual(lines.map((e) => e.action), ['workspace.create', 'file.put', 'file.delete', 'file.put']);
});

test('only administrators read it', async () => {
  const made = await cli.json(['key', 'create', '--scope', 'execute,files:read,files:write']);
  for (const line of [['audit'], ['audit', 'verify'], ['verify'], ['backup', '/tmp/never']])
    assert.equal((await cli.error(line, { env: { GLOVEBOX_KEY: made.secret } })).code, 'forbidden');
});

test('O1 verify: whole at first, exit 1 once somebody changed it', async () => {
  const good = await cli.json(['audit', 'verify']);
  assert.deepEqual([good.ok, good.first_bad], [true, null]);
  assert.match((await cli.ok(['audit', 'verify'])).stdout, new RegExp(`^\\d+ events, none missing, none changed\nhead [0-9a-f]{64}\n$`));
  const [put] = await cli.json(['audit', '--action', 'file.put']);
  await server.stop({ keep: true });
  const sql = `UPDATE audit SET path = 'b.txt' WHERE seq = ${put.seq}`;
  const done = spawnSync('/usr/bin/python3', ['-c', 'import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); print(d.execute(sys.argv[2]).rowcount); d.commit()',
    join(server.dir, 'data/glovebox.db'), sql], { encoding: 'utf8' });
  assert.equal(done.stdout.trim(), '1', done.stderr);
  server = await Glovebox.start({ dir: server.dir, config });
  cli.env.GLOVEBOX_URL = server.url;
  const bad = await cli.json(['audit', 'verify'], { status: 1 });
  assert.deepEqual([bad.ok, bad.first_bad], [false, put.seq]);
  assert.match((await cli.exits(1, ['audit', 'verify'])).stdout, new RegExp(`^event ${put.seq}: `));
});
