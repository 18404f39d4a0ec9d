// SPDX-License-Identifier: Apache-2.0
// Files of a workspace by the command line: every verb, for people and with
// --json; large files in parts; broken connections; what must not happen.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { Proxy } from '../../lib/proxy.mjs';

const MIB = 1 << 20;
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');
let server;
let cli;
let ws;

before(async () => {
  server = await Glovebox.start({ config: { upload_bytes: '1MiB', pools: [pool({ ready: 0 })] } });
  cli = new Cli(server);
  ws = (await cli.ok(['workspaces', 'new', 'reports'])).stdout.trim();
});

after(async () => {
  cli?.close();
  await server?.stop();
});

const here = (name) => join(cli.cwd, name);
const local = (name, bytes) => { writeFileSync(here(name), bytes); return name; };
const put = (name, bytes, place, ...flags) => cli.json(['files', 'put', local(name, bytes), place, ...flags]);
const cat = async (...place) => (await cli.ok(['files', 'get', ...place, '-o', '-'])).stdout;

describe('a file there and back', () => {
  test('put by name, get by id, list: the same object everywhere', async () => {
    const made = await put('q3.csv', 'a,b\n1,2\n', 'reports:');
    assert.match(made.file_id, /^file_[0-9a-f]{32}$/);
    assert.deepEqual([made.path, made.size, made.sha256, made.change, made.workspace], ['q3.csv', 8, sha256('a,b\n1,2\n'), 'created', ws]);
    assert.equal(await cat(`${ws}:q3.csv`), 'a,b\n1,2\n');
    assert.equal(await cat('reports:/q3.csv'), 'a,b\n1,2\n');
    assert.equal(await cat(made.file_id), 'a,b\n1,2\n');
    const [listed] = await cli.json(['files', 'ls', 'reports:']);
    assert.deepEqual([listed.path, listed.version, listed.file_id], ['q3.csv', made.version, made.file_id]);
    const { stdout } = await cli.ok(['files', 'ls', `${ws}:`]);
    assert.match(stdout, new RegExp(`^PATH +SIZE +MODIFIED +VERSION\nq3\\.csv +8 B +\\S+ +${made.version}\n$`));
    assert.deepEqual(await cli.json(['files', 'get', 'reports:q3.csv']), { path: 'q3.csv', saved: 'q3.csv' });
  });

  test('nothing is printed to a pipe, a sentence to a terminal', async () => {
    local('quiet', 'x');
    const quiet = await cli.ok(['files', 'put', 'quiet', 'reports:']);
    assert.equal(quiet.stdout + quiet.stderr, '');
    assert.match((await cli.ok(['files', 'put', 'quiet', 'reports:'], { terminal: true })).stdout, /stored quiet, 1 B/);
    await cli.ok(['files', 'rm', 'reports:quiet']);
  });

  test('odd names arrive as they were sent', async () => {
    for (const name of ['a b', 'ünï 漢字', 'x?y#z%41', 'q&r+s', "it's", 'a:b', '-dash']) {
      local('odd', name);
      await cli.ok(['files', 'put', 'odd', `reports:sub/${name}`]);
      assert.equal(await cat(`reports:sub/${name}`), name);
    }
    assert.equal((await cli.json(['files', 'ls', 'reports:sub/'])).length, 7);
    await cli.ok(['files', 'rm', '-r', 'reports:sub/']);
    assert.deepEqual(await cli.json(['files', 'ls', 'reports:sub/']), []);
  });

  test('standard input needs a name, and has no size', async () => {
    const made = await cli.json(['files', 'put', '-', 'reports:in.txt'], { input: 'typed' });
    assert.deepEqual([made.path, made.size], ['in.txt', 5]);
    assert.match((await cli.error(['files', 'put', '-', 'reports:'], { input: 'x' })).message, /no name/);
    await cli.ok(['files', 'rm', 'reports:in.txt']);
  });

  test('a program stays one', async () => {
    local('tool.sh', '#!/bin/sh\necho hi\n');
    chmodSync(here('tool.sh'), 0o755);
    const made = await cli.json(['files', 'put', 'tool.sh', 'reports:']);
    assert.equal(made.executable, true);
    await cli.ok(['files', 'rm', 'reports:tool.sh']);
  });

  test('--create and --if-match refuse without changing anything', async () => {
    const one = await put('v', 'one', 'reports:v.txt', '--create');
    assert.equal((await cli.error(['files', 'put', local('v', 'two'), 'reports:v.txt', '--create'])).code, 'precondition_failed');
    const two = await put('v', 'two', 'reports:v.txt', '--if-match', one.version);
    assert.equal(two.file_id, one.file_id);
    assert.equal((await cli.error(['files', 'put', local('v', 'three'), 'reports:v.txt', '--if-match', one.version])).code, 'precondition_failed');
    assert.equal((await cli.error(['files', 'rm', 'reports:v.txt', '--if-match', one.version])).code, 'precondition_failed');
    assert.equal(await cat('reports:v.txt'), 'two');
    await cli.ok(['files', 'rm', 'reports:v.txt', '--if-match', two.version]);
  });

  test('unknown workspaces, paths and places are said plainly', async () => {
    assert.match((await cli.error(['files', 'ls', 'nowhere:'])).message, /no workspace with the id or name 'nowhere'/);
    assert.equal((await cli.error(['files', 'get', 'reports:absent'])).code, 'not_found');
    assert.ok(!existsSync(here('absent')));
    assert.match((await cli.error(['files', 'ls', 'nobody'])).message, /no session or workspace 'nobody'/);
    assert.match((await cli.error(['files', 'get', 'reports:'])).message, /path is missing/);
    for (const path of ['../x', 'a//b', 'a/./b'])
      assert.equal((await cli.error(['files', 'put', local('f', ''), `reports:${path}`])).code, 'invalid_request');
  });

  test('two workspaces of one name are told apart by id only', async () => {
    const ids = [(await cli.ok(['workspaces', 'new', 'twin'])).stdout.trim(), (await cli.ok(['workspaces', 'new', 'twin'])).stdout.trim()];
    assert.match((await cli.error(['files', 'ls', 'twin:'])).message, /2 workspaces have the name 'twin'/);
    await cli.ok(['files', 'put', local('t', 't'), `${ids[1]}:`]);
    assert.deepEqual((await cli.json(['files', 'ls', `${ids[0]}:`])).length, 0);
    assert.deepEqual((await cli.json(['files', 'ls', ids[1]])).length, 1); // an id alone is all of it
  });
});

describe('folders', () => {
  test('put -r, one level, zip', async () => {
    mkdirSync(here('tree/deep/er'), { recursive: true });
    for (const name of ['a.txt', 'deep/b.txt', 'deep/er/c.txt']) writeFileSync(here(`tree/${name}`), name);
    symlinkSync('/etc/passwd', here('tree/link'));
    assert.match((await cli.error(['files', 'put', 'tree', 'reports:'])).message, /is a folder/);
    const stored = await cli.run(['files', 'put', '-r', 'tree', 'reports:', '--json']);
    assert.match(stored.stderr, /1 link and other special files skipped/);
    assert.deepEqual(JSON.parse(stored.stdout).map((f) => f.path), ['tree/a.txt', 'tree/deep/b.txt', 'tree/deep/er/c.txt']);
    await cli.ok(['files', 'put', '-r', 'tree', 'reports:other']);
    await cli.ok(['files', 'put', '-r', 'tree/', 'reports:flat/']);
    assert.deepEqual((await cli.json(['files', 'ls', 'reports:other/'])).map((f) => f.path), ['other/a.txt', 'other/deep/b.txt', 'other/deep/er/c.txt']);
    assert.deepEqual((await cli.json(['files', 'ls', 'reports:flat/'])).map((f) => f.path), ['flat/a.txt', 'flat/deep/b.txt', 'flat/deep/er/c.txt']);
    const level = await cli.json(['files', 'ls', '-1', 'reports:tree/']);
    assert.deepEqual(level.map((f) => [f.type, f.path]), [['file', 'tree/a.txt'], ['folder', 'tree/deep/']]);
    await cli.ok(['files', 'zip', 'reports:tree/']);
    assert.ok(readFileSync(here('tree.zip')).subarray(0, 2).equals(Buffer.from('PK')));
    const { stdout } = await cli.ok(['files', 'zip', 'reports:tree/', '-']);
    assert.match(stdout, /^PK/);
    assert.match((await cli.error(['files', 'rm', 'reports:tree'])).hint, /-r/);
    await cli.ok(['files', 'rm', '-r', 'reports:tree', 'reports:other', 'reports:flat']);
    assert.deepEqual(await cli.json(['files', 'ls', 'reports:tree/']), []);
  });

  test('several files go below the place', async () => {
    for (const name of ['one', 'two']) local(name, name);
    await cli.ok(['files', 'put', 'one', 'two', 'reports:in']);
    assert.deepEqual((await cli.json(['files', 'ls', 'reports:in/'])).map((f) => f.path), ['in/one', 'in/two']);
    await cli.ok(['files', 'rm', '-r', 'reports:in']);
  });

  test('mv and cp: ids stay with what moves', async () => {
    const made = await put('m', 'moved', 'reports:m.txt');
    await cli.ok(['files', 'mv', 'reports:m.txt', 'reports:to/n.txt']);
    const [moved] = await cli.json(['files', 'ls', 'reports:to/']);
    assert.deepEqual([moved.path, moved.file_id], ['to/n.txt', made.file_id]);
    await cli.ok(['files', 'cp', 'reports:to/n.txt', 'copies/']);
    const [copied] = await cli.json(['files', 'ls', 'reports:copies/']);
    assert.equal(copied.path, 'copies/n.txt');
    assert.notEqual(copied.file_id, made.file_id);
    assert.equal(await cat('reports:copies/n.txt'), 'moved');
    const other = (await cli.ok(['workspaces', 'new', 'elsewhere'])).stdout.trim();
    assert.match((await cli.error(['files', 'mv', 'reports:to/n.txt', `${other}:n.txt`])).message, /not in one workspace/);
    await cli.ok(['files', 'rm', '-r', 'reports:to', 'reports:copies']);
  });
});

describe('the past', () => {
  test('versions, diff, restore, info', async () => {
    const versions = [];
    for (const text of ['a\nb\nc\n', 'a\nB\nc\n', 'a\nB\nc\nd\n']) versions.push((await put('d', text, 'reports:d.txt')).version);
    const listed = await cli.json(['files', 'versions', 'reports:d.txt']);
    assert.deepEqual(listed.map((v) => v.version), [...versions].reverse());
    assert.deepEqual(listed.map((v) => v.version_number), [3, 2, 1]);
    assert.match((await cli.ok(['files', 'versions', 'reports:d.txt', '--limit', '1'])).stdout, /^NO +VERSION +AT +SIZE +CHANGE +KEPT +BY\n3 +ver_\S+ +\S+ +8 B +modified +yes +key_\S+\n$/);
    assert.equal(await cat('reports:d.txt', '--version', versions[0]), 'a\nb\nc\n');
    assert.match((await cli.ok(['files', 'diff', 'reports:d.txt'])).stdout, /^ c\n\+d$/m);
    const { diff } = await cli.json(['files', 'diff', 'reports:d.txt', versions[0], versions[1]]);
    assert.match(diff, /-b\n\+B\n/);
    assert.match((await cli.ok(['files', 'diff', 'reports:d.txt', versions[0]], { terminal: true })).stdout, /\x1b\[32m\+d\x1b\[0m/);
    const info = await cli.json(['files', 'info', 'reports:d.txt']);
    assert.deepEqual([info.version, info.kind, info.mime_type], [versions[2], 'upload', 'text/plain']);
    assert.match((await cli.ok(['files', 'info', info.file_id, '--version', versions[0]])).stdout, new RegExp(`^version +${versions[0]}$`, 'm'));
    const commit = await cli.json(['files', 'restore', 'reports:d.txt', '--version', versions[0]]);
    assert.match(commit.commit, /^cmt_/);
    assert.equal(await cat('reports:d.txt'), 'a\nb\nc\n');
    const history = await cli.json(['files', 'history', 'reports:d.txt']);
    assert.equal(history.length, 4);
    assert.match((await cli.ok(['files', 'history', 'reports:d.txt'])).stdout, /^AT +COMMIT +CHANGE +PATH +BY/);
  });

  test('a folder as it was: rm is taken back, ls looks back', async () => {
    await put('k', 'kept', 'reports:old/k.txt');
    const [before_] = await cli.json(['files', 'history', 'reports:old/k.txt']);
    await cli.ok(['files', 'rm', 'reports:old/k.txt']);
    assert.equal((await cli.error(['files', 'get', 'reports:old/k.txt'])).code, 'not_found');
    assert.deepEqual((await cli.json(['files', 'ls', 'reports:old/', '--at', before_.commit])).map((f) => f.path), ['old/k.txt']);
    await cli.ok(['files', 'restore', 'reports:old/', '--commit', before_.commit]);
    assert.equal(await cat('reports:old/k.txt'), 'kept');
  });
});

describe('a session and its workspace', () => {
  test('what a run makes is named, stays after the session, and is found by its id', async () => {
    const shown = await cli.ok(['run', '-w', 'reports', '-c', 'open("/mnt/data/run.txt", "w").write("by a run"); None'], { terminal: true });
    const [, id] = /created run\.txt, 8 B, (file_[0-9a-f]{32})/.exec(shown.stdout) ?? assert.fail(shown.stdout);
    assert.match(shown.stdout, new RegExp(`in workspace ${ws}`));
    assert.deepEqual(await cli.json(['sessions']), []);
    assert.equal(await cat(id), 'by a run');
    const quiet = await cli.ok(['run', '-w', ws, '-c', 'open("/mnt/data/run.txt", "w").write("again"); None']);
    assert.equal(quiet.stdout + quiet.stderr, '');
    const info = await cli.json(['files', 'info', 'reports:run.txt']);
    assert.match(info.execution, /^exec_/);
    assert.match(info.code, /again/);
  });

  test('a session has the column, paths below it work, refresh brings in what others stored', async () => {
    const id = (await cli.ok(['sessions', 'create', '--name', 'worker', '-w', 'reports'])).stdout.trim();
    assert.match((await cli.ok(['sessions'])).stdout, new RegExp(`^${id} .*${ws}`, 'm'));
    assert.equal(await cat('-s', 'worker', '/mnt/data/run.txt'), 'again');
    await put('late', 'late', 'reports:late.txt');
    const refreshed = await cli.json(['sessions', 'refresh', 'worker']);
    assert.equal(refreshed.changed, 1);
    assert.equal((await cli.ok(['run', '-s', 'worker', '-c', 'print(open("/mnt/data/late.txt").read())'])).stdout, 'late\n');
    await cli.ok(['files', 'put', '-s', 'worker', local('own', 'mine'), 'own.txt']);
    assert.equal(await cat('reports:own.txt'), 'mine');
    assert.ok((await cli.json(['files', 'versions', '-s', 'worker', 'own.txt'])).length >= 1);
    assert.ok((await cli.json(['files', 'ls', '-s', 'worker'])).some((f) => f.path === 'own.txt'));
    await cli.ok(['sessions', 'delete', 'worker']);
    assert.equal(await cat('reports:own.txt'), 'mine');
  });

  test('an ephemeral session keeps nothing and says so', async () => {
    const id = (await cli.ok(['sessions', 'create', '--ephemeral'])).stdout.trim();
    await cli.ok(['run', '-s', id, '-c', 'open("/mnt/data/gone", "w").write("x"); None']);
    assert.match((await cli.error(['files', 'history', '-s', id, 'gone'])).message, /keeps nothing/);
    await cli.ok(['sessions', 'delete', id]);
    assert.match((await cli.error(['sessions', 'create', '-w', 'nowhere'])).message, /no workspace/);
  });

  test('conversations: every file with the message that caused it', async () => {
    await cli.ok(['run', '-w', ws, '--conversation', 'talk/1', '--message', 'm1', '-c', 'open("/mnt/data/c1", "w").write("1"); None']);
    await cli.ok(['files', 'put', local('c2', '2'), 'reports:', '--conversation', 'talk/1', '--message', 'm2']);
    const files = await cli.json(['conversations', 'files', 'talk/1']);
    assert.deepEqual(files.map((f) => [f.path, f.message]), [['c1', 'm1'], ['c2', 'm2']]);
    assert.match((await cli.ok(['conversations', 'files', 'talk/1'])).stdout, /^AT +MESSAGE +CHANGE +WORKSPACE +PATH +SIZE +VERSION\n/);
    assert.deepEqual(await cli.json(['conversations', 'files', 'unknown']), []);
  });
});

describe('large files and broken connections', () => {
  const big = randomBytes(9 * MIB + 12345);

  test('over the limit it goes in parts, byte for byte', async () => {
    const proxy = await Proxy.open(server);
    local('big.bin', big);
    const made = await cli.json(['files', 'put', 'big.bin', 'reports:'], { env: { GLOVEBOX_URL: proxy.url } });
    assert.deepEqual([made.path, made.size, made.sha256], ['big.bin', big.length, sha256(big)]);
    assert.equal(proxy.seen(/^PUT \/api\/uploads\/up_[0-9a-f]{32}\/parts\/\d+$/).length, 10);
    await proxy.close();
    await cli.ok(['files', 'get', 'reports:big.bin', 'back.bin']);
    assert.ok(big.equals(readFileSync(here('back.bin'))));
    assert.deepEqual(readdirSync(join(cli.dir, 'home/.local/state/glovebox/uploads')), []);
  });

  test('killed in the middle, the same command sends what is missing', async () => {
    const other = randomBytes(8 * MIB);
    local('cut.bin', other);
    const proxy = await Proxy.open(server);
    proxy.paused = (p) => p.seen(/^PUT .*\/parts\//).length > 6; // from the seventh part on it hangs
    const first = cli.start(['files', 'put', 'cut.bin', 'reports:'], { env: { GLOVEBOX_URL: proxy.url } });
    while (proxy.seen(/^PUT .*\/parts\//).length < 7) await new Promise((wake) => { setTimeout(wake, 20); });
    first.child.kill('SIGKILL');
    await first.ended;
    assert.equal((await cli.error(['files', 'get', 'reports:cut.bin'])).code, 'not_found');
    proxy.paused = null;
    proxy.lines.length = 0;
    const [memory] = readdirSync(join(cli.dir, 'home/.local/state/glovebox/uploads'));
    const id = readFileSync(join(cli.dir, 'home/.local/state/glovebox/uploads', memory), 'utf8');
    const there = (await server.ok('GET', `/api/uploads/${id}`)).parts.length;
    assert.ok(there >= 1 && there < 8, `${there} of 8`);
    const made = await cli.json(['files', 'put', 'cut.bin', 'reports:'], { env: { GLOVEBOX_URL: proxy.url } });
    assert.equal(made.sha256, sha256(other));
    assert.equal(proxy.seen(/^POST .*\/uploads$/).length, 0, 'the same upload');
    assert.equal(proxy.seen(/^PUT .*\/parts\//).length, 8 - there);
    await proxy.close();
  });

  test('a part that breaks is sent again', async () => {
    const other = randomBytes(3 * MIB);
    local('again.bin', other);
    // Connections: the plain attempt, the beginning, then each part.
    const proxy = await Proxy.open(server, { cut: [Infinity, Infinity, Infinity, 1, 1] });
    const made = await cli.json(['files', 'put', 'again.bin', 'reports:'], { env: { GLOVEBOX_URL: proxy.url } });
    assert.equal(made.sha256, sha256(other));
    assert.ok(proxy.seen(/^PUT .*\/parts\//).length > 3);
    await proxy.close();
  });

  test('up to four parts go at once, and no more', async () => {
    const other = randomBytes(10 * MIB);
    local('four.bin', other);
    const proxy = await Proxy.open(server);
    // Nothing of a part gets through until four are there, and for a while then.
    const begun = () => proxy.seen(/^PUT .*\/parts\//).length;
    let four = 0;
    let held = true;
    let most = 0;
    proxy.held = () => {
      if (begun() >= 4) four ||= Date.now();
      if (held) most = begun();
      held &&= begun() === 0 || !four || Date.now() - four < 300;
      return held && begun() > 0;
    };
    try {
      const made = await cli.json(['files', 'put', 'four.bin', 'reports:'], { env: { GLOVEBOX_URL: proxy.url } });
      assert.equal(made.sha256, sha256(other));
      assert.equal(most, 4);
    } finally {
      await proxy.close();
    }
  });

  test('a part that is refused for good stops the others, and nothing is stored', async () => {
    local('gone.bin', randomBytes(6 * MIB));
    const proxy = await Proxy.open(server);
    proxy.paused = (p) => p.seen(/^PUT .*\/parts\//).length > 5;
    const first = cli.start(['files', 'put', 'gone.bin', 'reports:'], { env: { GLOVEBOX_URL: proxy.url } });
    while (proxy.seen(/^PUT .*\/parts\//).length < 6) await new Promise((wake) => { setTimeout(wake, 20); });
    const state = join(cli.dir, 'home/.local/state/glovebox/uploads');
    const id = readFileSync(join(state, readdirSync(state)[0]), 'utf8');
    await server.call('DELETE', `/api/uploads/${id}`);
    proxy.paused = null;
    for (const socket of proxy.sockets) socket.destroy(); // they are sent again, and refused
    const { code, stderr } = await first.ended;
    assert.notEqual(code, 0);
    assert.match(stderr, /no such upload/i);
    await proxy.close();
    assert.equal((await cli.error(['files', 'get', 'reports:gone.bin'])).code, 'not_found');
  });

  test('a download that breaks goes on where it broke', async () => {
    const proxy = await Proxy.open(server, { cut: [Infinity, 3 * MIB, 2 * MIB] });
    await cli.ok(['files', 'get', 'reports:big.bin', 'resumed.bin'], { env: { GLOVEBOX_URL: proxy.url } });
    assert.ok(big.equals(readFileSync(here('resumed.bin'))));
    assert.equal(proxy.seen(/^GET .*\/files\/big\.bin$/).length, 3);
    await proxy.close();
  });

  test('--continue keeps a part, and goes on with it later', async () => {
    const half = Array(20).fill(1 * MIB);
    const broken = await Proxy.open(server, { cut: [Infinity, Infinity, ...half.slice(0, 5), ...Array(10).fill(0)] });
    const failed = await cli.error(['files', 'get', 'reports:big.bin', 'later.bin', '--continue'], { env: { GLOVEBOX_URL: broken.url } });
    assert.match(failed.hint, /later\.bin\.[0-9a-f]{16}\.part/);
    await broken.close();
    assert.ok(!existsSync(here('later.bin')));
    const parts = () => readdirSync(cli.cwd).filter((n) => /^later\.bin\..*\.part$/.test(n));
    assert.equal(parts().length, 1);
    const have = readFileSync(here(parts()[0])).length;
    assert.ok(have > 0 && have < big.length);
    const proxy = await Proxy.open(server);
    await cli.ok(['files', 'get', 'reports:big.bin', 'later.bin', '--continue'], { env: { GLOVEBOX_URL: proxy.url } });
    await proxy.close();
    assert.ok(big.equals(readFileSync(here('later.bin'))));
    assert.deepEqual(parts(), []);
  });

  test('a part of other bytes is not served as the file', async () => {
    const [{ sha256: tag }] = (await cli.json(['files', 'ls', 'reports:big.bin']));
    writeFileSync(here(`wrong.bin.${tag.slice(0, 16)}.part`), randomBytes(MIB));
    assert.equal((await cli.error(['files', 'get', 'reports:big.bin', 'wrong.bin', '--continue'])).code, 'corrupt');
    assert.ok(!existsSync(here('wrong.bin')));
    await cli.ok(['files', 'get', 'reports:big.bin', 'wrong.bin', '--continue']);
    assert.ok(big.equals(readFileSync(here('wrong.bin'))));
  });

  test('too large for a session is said with what to do', async () => {
    const id = (await cli.ok(['sessions', 'create'])).stdout.trim();
    const error = await cli.error(['files', 'put', id, 'big.bin']);
    assert.equal(error.code, 'too_large');
    assert.match(error.hint, /sessions refresh/);
    await cli.ok(['sessions', 'delete', id]);
  });

  test('a bar at a terminal, none in a pipe', async () => {
    const shown = await cli.ok(['files', 'put', 'big.bin', 'reports:bar.bin'], { terminal: true });
    assert.match(shown.stdout, /big\.bin \[#*\.*\] .* of 9 MiB/);
    const quiet = await cli.ok(['files', 'get', 'reports:bar.bin', 'bar.bin']);
    assert.equal(quiet.stdout + quiet.stderr, '');
  });
});
