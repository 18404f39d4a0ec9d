// SPDX-License-Identifier: Apache-2.0
// Locks and links by the command line: who may write meanwhile, what a link
// gives, and that tokens and passwords appear nowhere else.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';

let server;
let cli;
let ws;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 0 })] } });
  cli = new Cli(server);
  ws = (await cli.ok(['workspaces', 'new', 'docs'])).stdout.trim();
  writeFileSync(join(cli.cwd, 'q.csv'), 'a,b\n');
  await cli.ok(['files', 'put', 'q.csv', 'docs:']);
});

after(async () => {
  cli?.close();
  await server?.stop();
});

const here = (name) => join(cli.cwd, name);
const other = async () => {
  const made = await cli.json(['key', 'create', '--scope', 'execute,files:read,files:write', '--name', 'other']);
  return { env: { GLOVEBOX_KEY: made.secret } };
};

describe('locks', () => {
  test('I2 a lock is taken, written through, renewed and released; others are refused', async () => {
    const taken = await cli.ok(['locks', 'take', 'docs:q.csv', '--ttl', '10m', '--label', 'editing']);
    const token = taken.stdout.trim();
    assert.match(taken.stdout, /^\S{32,}\n$/);
    assert.match(taken.stderr, /^This is lock_[0-9a-f]{32}, fence 1, until /);
    assert.doesNotMatch(taken.stderr, new RegExp(token));
    writeFileSync(here('lock'), taken.stdout);
    const [listed] = await cli.json(['locks', 'ls', 'docs']);
    assert.deepEqual([listed.path, listed.label, listed.fence, 'token' in listed], ['q.csv', 'editing', 1, false]);
    assert.match((await cli.ok(['locks', 'ls', 'docs'])).stdout, /^ID +PATH +HOLDER +SESSION +LABEL +FENCE +UNTIL\nlock_\S+ +q\.csv /);
    const theirs = await other();
    for (const line of [['files', 'put', 'q.csv', 'docs:'], ['files', 'rm', 'docs:q.csv'], ['files', 'mv', 'docs:q.csv', 'docs:r.csv'],
      ['locks', 'take', 'docs:q.csv']])
      assert.equal((await cli.error(line, theirs)).code, 'locked', line.join(' '));
    assert.match((await cli.error(['files', 'put', 'q.csv', 'docs:'], theirs)).message, /key_[0-9a-f]+/);
    writeFileSync(here('q.csv'), 'a,b\n1,2\n');
    await cli.ok(['files', 'put', 'q.csv', 'docs:', '--lock-file', 'lock']);
    await cli.ok(['files', 'put', 'q.csv', 'docs:free.csv'], theirs);
    const renewed = await cli.json(['locks', 'renew', 'docs:q.csv', '--lock-file', 'lock', '--ttl', '1h']);
    assert.ok(Date.parse(renewed.expires_at) > Date.parse(listed.expires_at));
    assert.deepEqual(await cli.json(['locks', 'release', `docs:${listed.id}`, '--lock-file', 'lock']), { released: `docs:${listed.id}` });
    assert.deepEqual(await cli.json(['locks', 'ls', 'docs']), []);
    assert.match((await cli.error(['locks', 'renew', 'docs:q.csv', '--lock-file', 'lock'])).message, /there is no lock on q\.csv/);
    assert.doesNotMatch(server.log, new RegExp(token));
  });

  test('a path that does not exist yet can be locked; a broken lock opens nothing', async () => {
    writeFileSync(here('new.lock'), (await cli.ok(['locks', 'take', 'docs:new.txt'])).stdout);
    assert.deepEqual(await cli.json(['locks', 'break', 'docs:new.txt']), { broken: 'docs:new.txt' });
    const again = await cli.json(['locks', 'take', 'docs:new.txt'], await other());
    assert.equal(again.fence, 2);
    assert.equal((await cli.error(['files', 'put', 'q.csv', 'docs:new.txt', '--lock-file', 'new.lock'])).code, 'locked');
    await cli.ok(['locks', 'break', `docs:${again.id}`]);
  });

  test("a session's lock lets its runs write, and what is refused is said", async () => {
    const id = (await cli.ok(['sessions', 'create', '-w', 'docs'])).stdout.trim();
    const code = 'open("/mnt/data/s.txt", "w").write("by a run"); None';
    await cli.ok(['locks', 'take', 'docs:s.txt', '--session', id]);
    await cli.ok(['run', '-s', id, '-c', code]);
    assert.equal((await cli.ok(['files', 'get', 'docs:s.txt', '-o', '-'])).stdout, 'by a run');
    await cli.ok(['locks', 'break', 'docs:s.txt']);
    const token = (await cli.ok(['locks', 'take', 'docs:s.txt'], await other())).stdout;
    const refused = await cli.run(['run', '-s', id, '-c', code.replace('by a run', 'never')]);
    assert.match(refused.stderr, /^not kept: s\.txt: /m);
    writeFileSync(here('s.lock'), token);
    const through = await cli.run(['run', '-s', id, '--lock-file', 's.lock', '-c', code.replace('by a run', 'through')]);
    assert.doesNotMatch(through.stderr, /not kept/);
    assert.equal((await cli.ok(['files', 'get', 'docs:s.txt', '-o', '-'])).stdout, 'through');
    await cli.ok(['sessions', 'delete', id]);
  });

  test('a file that holds no token is said', async () => {
    writeFileSync(here('empty'), '\n');
    assert.match((await cli.error(['locks', 'renew', 'docs:q.csv', '--lock-file', 'empty'])).message, /empty holds no lock's token/);
    assert.match((await cli.error(['files', 'put', 'q.csv', 'docs:', '--lock-file', 'absent'])).message, /absent/);
  });
});

describe('links', () => {
  const visit = (url, headers = {}) => fetch(url, { headers });

  test('I2 a link is printed once, alone, gives the file without a key, and ends when revoked', async () => {
    const made = await cli.ok(['share', 'new', 'docs:q.csv', '--expires', '7d', '--downloads', '2']);
    const url = made.stdout.trim();
    assert.match(url, new RegExp(`^${server.url}/s/\\S{32,}$`));
    assert.doesNotMatch(made.stderr, new RegExp(url.split('/s/')[1]));
    const answer = await visit(url);
    assert.deepEqual([answer.status, await answer.text()], [200, readFileSync(here('q.csv'), 'utf8')]);
    const [listed] = await cli.json(['share', 'ls', 'docs']);
    assert.deepEqual([listed.path, listed.mode, listed.downloads, listed.max_downloads, 'url' in listed], ['q.csv', 'read', 1, 2, false]);
    assert.match((await cli.ok(['share', 'ls', ws])).stdout, /^ID +PATH +MODE +PASSWORD +FETCHED +AT MOST +UNTIL +REVOKED\n/);
    assert.equal((await visit(url)).status, 200);
    assert.equal((await visit(url)).status, 404);
    const second = (await cli.ok(['share', 'new', 'docs:q.csv'])).stdout.trim();
    const [{ id }] = (await cli.json(['share', 'ls', 'docs'])).filter((s) => s.id !== listed.id);
    assert.deepEqual(await cli.json(['share', 'revoke', id]), { revoked: id });
    assert.equal((await visit(second)).status, 404);
    assert.equal((await cli.error(['share', 'revoke', 'share_0'])).code, 'not_found');
  });

  test('a password comes from a file or the terminal, never from the line', async () => {
    writeFileSync(here('pw'), 'correct horse\n');
    const url = (await cli.ok(['share', 'new', 'docs:q.csv', '--password-file', 'pw'])).stdout.trim();
    assert.equal((await visit(url)).status, 401);
    assert.equal((await visit(url, { 'x-share-password': 'wrong' })).status, 401);
    assert.equal((await visit(url, { 'x-share-password': 'correct horse' })).status, 200);
    assert.match((await cli.exits(3, ['share', 'new', 'docs:q.csv', '--password'])).stderr, /no terminal/);
    const typed = cli.start(['share', 'new', 'docs:q.csv', '--password'], { terminal: true });
    await typed.shows(/password: /);
    typed.child.stdin.write('battery\r');
    await typed.shows(/once more: /);
    typed.child.stdin.write('battery\r');
    const done = await typed.ended;
    assert.equal(done.status, 0, done.stdout);
    assert.doesNotMatch(done.stdout, /battery/);
    const [link] = /http:\S+/.exec(done.stdout);
    assert.equal((await visit(link, { 'x-share-password': 'battery' })).status, 200);
    assert.doesNotMatch(server.log, /battery|correct horse/);
  });

  test('two that differ are refused, Ctrl-C leaves', async () => {
    const typed = cli.start(['share', 'new', 'docs:q.csv', '--password'], { terminal: true });
    await typed.shows(/password: /);
    typed.child.stdin.write('one\r');
    await typed.shows(/once more: /);
    typed.child.stdin.write('two\r');
    assert.match((await typed.ended).stdout, /the two are not the same/);
    const ahead = cli.start(['share', 'new', 'docs:q.csv', '--password'], { terminal: true });
    await ahead.shows(/password: /);
    ahead.child.stdin.write('before\rbehind\r'); // who does not wait for the second question is not seen either
    const told = (await ahead.ended).stdout;
    assert.match(told, /the two are not the same/);
    assert.doesNotMatch(told, /before|behind/);
    const left = cli.start(['share', 'new', 'docs:q.csv', '--password'], { terminal: true });
    await left.shows(/password: /);
    left.child.stdin.write('\x03');
    assert.equal((await left.ended).status, 3);
  });

  test('folders, pinned versions, uploads by a link', async () => {
    await cli.ok(['files', 'put', 'q.csv', 'docs:in/a.csv']);
    const folder = (await cli.ok(['share', 'new', 'docs:in/', '--write'])).stdout.trim();
    assert.equal((await visit(`${folder}/a.csv`)).status, 200);
    const sent = await fetch(`${folder}/from-outside.txt`, { method: 'PUT', body: 'hello' });
    assert.ok(sent.ok, String(sent.status));
    assert.equal((await cli.ok(['files', 'get', 'docs:in/from-outside.txt', '-o', '-'])).stdout, 'hello');
    const [{ version }] = await cli.json(['files', 'versions', 'docs:in/a.csv']);
    const pinned = (await cli.ok(['share', 'new', 'docs:in/a.csv', '--version', version])).stdout.trim();
    writeFileSync(here('b'), 'later');
    await cli.ok(['files', 'put', 'b', 'docs:in/a.csv']);
    assert.equal(await (await visit(pinned)).text(), readFileSync(here('q.csv'), 'utf8'));
  });
});
