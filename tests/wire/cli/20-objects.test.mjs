// SPDX-License-Identifier: Apache-2.0
// Sessions, files, keys, runtimes and the doctor by the command line, for
// people and with --json; and what may never be printed.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox } from '../../lib/glovebox.mjs';

const ID = /^sess_[0-9a-f]{32}$/;
const SECRET = /gbx_[0-9a-f]{16}/;
let server;
let cli;

before(async () => {
  server = await Glovebox.start();
  cli = new Cli(server);
});

after(async () => {
  cli?.close();
  await server?.stop();
});

const create = async (...args) => (await cli.ok(['sessions', 'create', ...args])).stdout.trim();
const here = (name) => join(cli.cwd, name);

test('sessions: create prints the id, list and show know it, delete removes it', async () => {
  const id = await create('--name', 'one', '--memory', '256m');
  assert.match(id, ID);
  const { stdout } = await cli.ok(['sessions']);
  assert.match(stdout, /^ID +NAME +POOL +RUNTIME +STATE +RUNS +WORKSPACE +SHARING +LAST USED\n/);
  assert.match(stdout, new RegExp(`^${id} +one +default +minimal +idle +0 `, 'm'));
  const shown = (await cli.ok(['sessions', 'show', 'one'])).stdout;
  assert.match(shown, new RegExp(`^id +${id}$`, 'm'));
  assert.match(shown, /^limits +.*"memory_bytes":268435456/m);
  const quiet = await cli.ok(['sessions', 'delete', 'one']);
  assert.equal(quiet.stdout + quiet.stderr, '');
  assert.equal((await server.call('GET', `/api/sessions/${id}`)).status, 404);
});

test('sessions: --json is what the API answers', async () => {
  const made = await cli.json(['sessions', 'create', '--name', 'two']);
  assert.match(made.id, ID);
  assert.deepEqual(made.name, 'two');
  const list = await cli.json(['sessions', 'list']);
  assert.deepEqual(list.map((s) => s.id), [made.id]);
  const shown = await cli.json(['sessions', 'show', made.id]);
  assert.deepEqual(shown, await server.ok('GET', `/api/sessions/${made.id}`));
  assert.equal((await cli.json(['sessions', 'reset', 'two'])).id, made.id);
  assert.deepEqual(await cli.json(['sessions', 'interrupt', 'two']), { interrupted: 'two' });
  assert.deepEqual(await cli.json(['sessions', 'delete', 'two']), { deleted: ['two'] });
  assert.deepEqual(await cli.json(['sessions']), []);
});

test('sessions: shared and unshared, by its owner', async () => {
  const shared = await cli.json(['sessions', 'create', '--share']);
  assert.equal(shared.sharing, 'tenant');
  const id = await create('--name', 'mine');
  const { secret } = await cli.json(['key', 'create', '--scope', 'execute']);
  const peer = { env: { GLOVEBOX_KEY: secret } };
  assert.equal((await cli.error(['sessions', 'show', id], peer)).code, 'not_found');
  assert.deepEqual((await cli.json(['sessions'], peer)).map((s) => s.id), [shared.id]);
  assert.equal((await cli.json(['sessions', 'share', 'mine'])).sharing, 'tenant');
  assert.equal((await cli.json(['sessions', 'show', id], peer)).sharing, 'tenant');
  assert.equal((await cli.error(['sessions', 'unshare', id], peer)).code, 'forbidden');
  assert.match((await cli.ok(['sessions', 'unshare', 'mine'])).stderr, /^(only its owner.*\n)?$/);
  assert.equal((await cli.error(['sessions', 'show', id], peer)).code, 'not_found');
  await cli.ok(['sessions', 'delete', id, shared.id]);
});

test('sessions: several are deleted at once, and an unknown one is named', async () => {
  const ids = [await create(), await create()];
  assert.deepEqual(await cli.json(['sessions', 'delete', ...ids]), { deleted: ids });
  for (const verb of ['show', 'delete', 'reset', 'interrupt']) {
    const error = await cli.error(['sessions', verb, 'nobody']);
    assert.equal(error.code, 'not_found');
    assert.match(error.message, /'nobody'/);
  }
});

test('sessions: a name that two have is refused, an id is not', async () => {
  const ids = [await create('--name', 'twin'), await create('--name', 'twin')];
  const error = await cli.error(['sessions', 'show', 'twin']);
  assert.match(error.message, /twin/);
  for (const id of ids) assert.equal((await cli.json(['sessions', 'show', id])).id, id);
  await cli.ok(['sessions', 'delete', ...ids]);
});

test('sessions: reset keeps files and drops variables; interrupt keeps variables', async () => {
  const id = await create();
  await cli.ok(['run', '-s', id, '-c', 'x = 1; open("/mnt/data/kept", "w").write("y")']);
  const running = cli.start(['run', '-s', id, '-c', 'import time\nprint("up", flush=True)\ntime.sleep(50)']);
  await running.shows(/up/);
  await cli.ok(['sessions', 'interrupt', id]);
  const stopped = await running.ended;
  assert.equal(stopped.status, 7);
  assert.match(stopped.stderr, /KeyboardInterrupt/);
  assert.equal((await cli.ok(['run', '-s', id, '-c', 'x'])).stdout, '1\n');
  await cli.ok(['sessions', 'reset', id]);
  assert.match((await cli.exits(1, ['run', '-s', id, '-c', 'x'])).stderr, /NameError/);
  assert.equal((await cli.ok(['run', '-s', id, '-c', 'print(open("/mnt/data/kept").read())'])).stdout, 'y\n');
  await cli.ok(['sessions', 'delete', id]);
});

test('files: a round trip keeps every byte', async () => {
  const id = await create('--name', 'files');
  const bytes = randomBytes(3_000_000);
  writeFileSync(here('in.bin'), bytes);
  const put = await cli.json(['files', 'put', 'files', 'in.bin', 'deep/er/out.bin']);
  assert.deepEqual([put.path, put.size, put.sha256], ['deep/er/out.bin', bytes.length, createHash('sha256').update(bytes).digest('hex')]);
  assert.match(put.file_id, /^file_[0-9a-f]{32}$/);
  assert.equal((await cli.ok(['files', 'put', 'files', 'in.bin'])).stdout, ''); // its own name
  const list = await cli.json(['files', 'list', 'files']);
  assert.deepEqual(list.map((f) => [f.path, f.size]), [['deep/er/out.bin', bytes.length], ['in.bin', bytes.length]]);
  assert.match((await cli.ok(['files', 'list', id])).stdout, /^PATH +SIZE +MODIFIED\ndeep\/er\/out\.bin +2\.8 MiB /);
  await cli.ok(['files', 'get', 'files', '/mnt/data/deep/er/out.bin', 'copy.bin']);
  assert.ok(bytes.equals(readFileSync(here('copy.bin'))));
  mkdirSync(here('folder'));
  assert.deepEqual(await cli.json(['files', 'get', 'files', 'in.bin', 'folder']), { path: 'in.bin', saved: 'folder/in.bin' });
  assert.ok(bytes.equals(readFileSync(here('folder/in.bin'))));
  assert.deepEqual(await cli.json(['files', 'rm', 'files', 'in.bin', 'deep/er/out.bin']), { removed: ['in.bin', 'deep/er/out.bin'] });
  assert.deepEqual(await cli.json(['files', 'list', 'files']), []);
  await cli.ok(['sessions', 'delete', 'files']);
});

test('files: odd names arrive as they were sent', async () => {
  const id = await create();
  for (const name of ['a b', 'ünï 漢字', 'x?y#z%41', 'q&r+s', "it's"]) {
    writeFileSync(here('odd'), name);
    await cli.ok(['files', 'put', id, 'odd', `sub/${name}`]);
    assert.equal((await cli.ok(['files', 'get', id, `sub/${name}`, '-'])).stdout, name);
    assert.equal((await cli.ok(['run', '-s', id, '-c', `print(open(${JSON.stringify(`/mnt/data/sub/${name}`)}).read())`])).stdout, `${name}\n`);
  }
  await cli.ok(['sessions', 'delete', id]);
});

test('files: a download appears whole or not at all', async () => {
  const id = await create();
  writeFileSync(here('mine'), 'before');
  const error = await cli.error(['files', 'get', id, 'absent', 'mine']);
  assert.equal(error.code, 'not_found');
  assert.equal(readFileSync(here('mine'), 'utf8'), 'before');
  await cli.exits(3, ['files', 'get', id, 'absent', 'fresh']);
  assert.ok(!existsSync(here('fresh')));
  assert.deepEqual(readdirSync(cli.cwd).filter((n) => n.startsWith('.')), []); // no half of it either
  await cli.ok(['sessions', 'delete', id]);
});

test('files: what cannot be is refused with a reason', async () => {
  const id = await create();
  writeFileSync(here('f'), '');
  for (const path of ['../x', '/etc/passwd', 'a/../../x']) {
    assert.equal((await cli.error(['files', 'get', id, path, 'never'])).code, 'invalid_request');
    assert.equal((await cli.error(['files', 'put', id, 'f', path])).code, 'invalid_request');
    assert.equal((await cli.error(['files', 'rm', id, path])).code, 'invalid_request');
  }
  assert.match((await cli.error(['files', 'put', id, 'no-such-local-file'])).message, /no-such-local-file/);
  assert.match((await cli.error(['files', 'put', id, '/tmp'])).message, /tmp/);
  await cli.ok(['sessions', 'delete', id]);
});

test('I2 key: the secret is printed once, alone, and nowhere else', async () => {
  const made = await cli.ok(['key', 'create', '--scope', 'execute,files:read', '--name', 'ci', '--tenant', 'other']);
  assert.match(made.stdout, /^gbx_[0-9a-f]{64}\n$/);
  assert.doesNotMatch(made.stderr, SECRET);
  const secret = made.stdout.trim();
  const id = /key_[0-9a-f]{32}/.exec(made.stderr)[0];
  for (const extra of [[], ['--json']]) {
    const { stdout, stderr } = await cli.ok(['key', 'list', ...extra]);
    assert.match(stdout, new RegExp(id));
    assert.doesNotMatch(stdout + stderr, SECRET);
  }
  // It works, within its scopes, and for its own tenant only.
  const theirs = { env: { GLOVEBOX_KEY: secret } };
  assert.equal((await cli.ok(['run', '-c', '1 + 1'], theirs)).stdout, '2\n');
  assert.equal((await cli.error(['key', 'list'], theirs)).code, 'forbidden');
  assert.doesNotMatch(server.log, new RegExp(secret));
  assert.doesNotMatch(server.log, new RegExp(server.key));
  assert.equal((await cli.ok(['key', 'revoke', id])).stdout, '');
  assert.equal((await cli.error(['sessions'], theirs)).code, 'unauthenticated');
});

test('key and token: narrowed, listed, and no wider than what they come from', async () => {
  const id = await create('--name', 'narrow', '--share');
  const key = await cli.json(['key', 'create', '--scopes', 'execute,files:read', '--pools', 'default', '--sessions', id, '--expires', '2h']);
  assert.deepEqual([key.pools, key.sessions, key.workspaces], [['default'], [id], null]);
  assert.match((await cli.ok(['key', 'list'])).stdout, new RegExp(`^${key.id} .* default ${id} `, 'm'));
  const with_ = (secret) => ({ env: { GLOVEBOX_KEY: secret } });
  const made = await cli.ok(['token', 'create', '--ttl', '15m', '--session', id, '--scopes', 'execute', '--name', 'agent'], with_(key.secret));
  assert.match(made.stdout, /^gbt_[0-9a-f]{64}\n$/);
  assert.doesNotMatch(made.stderr, /gbt_/);
  const token = made.stdout.trim();
  assert.match((await cli.ok(['token'], with_(key.secret))).stdout, new RegExp(`^tok_[0-9a-f]{32} +agent +execute +default ${id} +${key.id} `, 'm'));
  assert.equal((await cli.json(['sessions'], with_(token))).length, 1);
  assert.equal((await cli.ok(['run', '-s', id, '-c', '6 * 7'], with_(token))).stdout, '42\n');
  assert.equal((await cli.error(['sessions', 'create'], with_(token))).code, 'forbidden');
  assert.equal((await cli.error(['token', 'create', '--ttl', '15m', '--scopes', 'files:write'], with_(token))).code, 'forbidden');
  assert.equal((await cli.error(['token', 'create', '--ttl', '2d'], with_(token))).code, 'invalid_request');
  const [{ id: tokenId }] = await cli.json(['token', 'list'], with_(token));
  assert.equal((await cli.ok(['token', 'revoke', tokenId])).stdout, '');
  assert.equal((await cli.error(['sessions'], with_(token))).code, 'unauthenticated');
  await cli.ok(['sessions', 'delete', id]);
});

test('key: --json of create, list and revoke', async () => {
  const made = await cli.json(['key', 'create', '--scope', 'files:write', '--scope', 'execute']);
  assert.match(made.secret, SECRET);
  const row = (await cli.json(['key', 'list'])).find((k) => k.id === made.id);
  assert.ok(row && !('secret' in row), JSON.stringify(row));
  const revoked = await cli.json(['key', 'revoke', made.id]);
  assert.ok(JSON.stringify(revoked).includes(made.id));
  assert.equal((await cli.error(['key', 'create', '--scope', 'everything'])).code, 'invalid_request');
  assert.equal((await cli.error(['key', 'revoke', 'key_0'])).code, 'not_found');
});

test('runtime: list and show, for people and with --json, without a service', async () => {
  const alone = { env: { GLOVEBOX_URL: 'http://127.0.0.1:1' } };
  assert.match((await cli.ok(['runtime', 'list'], alone)).stdout, /^minimal +built +trixie +3\.\d+/m);
  const list = await cli.json(['runtime', 'list'], alone);
  const minimal = list.find((r) => r.name === 'minimal');
  assert.equal(minimal.built, true);
  const shown = await cli.json(['runtime', 'show', 'minimal'], alone);
  assert.equal(shown.hash, minimal.hash);
  assert.ok(shown.manifest.distributions.some((d) => d.name.toLowerCase() === 'ipython' && /^\d/.test(d.version)));
  assert.match((await cli.ok(['runtime', 'show', 'minimal'], alone)).stdout, /^Python distributions \(\d+\)$/m);
  assert.equal((await cli.error(['runtime', 'show', 'none'], alone)).code, 'not_found');
});

test('doctor: all walls stand here, and the service is found', async () => {
  const { stdout } = await cli.ok(['doctor']);
  assert.match(stdout, /^CHECK +STATE +NEEDED +WHY\n/);
  assert.match(stdout, /^service +ok /m);
  const report = await cli.json(['doctor']);
  assert.equal(report.ok, true);
  for (const check of report.checks) {
    assert.deepEqual(Object.keys(check), ['name', 'state', 'required', 'why', 'fix']);
    assert.ok(!check.required || check.state === 'ok', JSON.stringify(check));
  }
  for (const wall of ['system call filter', 'landlock', 'memory limit', 'host uid per session'])
    assert.ok(report.checks.some((check) => check.name === wall), wall);
});

test('a wrong key is exit 3 with a hint, and neither key is printed', async () => {
  const wrong = { env: { GLOVEBOX_KEY: `gbx_${'0'.repeat(64)}` } };
  for (const line of [['sessions'], ['run', '-c', '1'], ['files', 'list', 'x'], ['key', 'list'], ['shell']]) {
    const { stdout, stderr } = await cli.exits(3, line, wrong);
    assert.equal(stdout, '');
    assert.match(stderr, /key is not valid[^]*GLOVEBOX_KEY/);
    assert.doesNotMatch(stderr, SECRET);
  }
  assert.equal((await cli.error(['sessions'], wrong)).code, 'unauthenticated');
});

test('--key-file and --url win over the environment', async () => {
  writeFileSync(here('key'), `${server.key}\n`, { mode: 0o600 });
  const lost = { env: { GLOVEBOX_URL: 'http://127.0.0.1:1', GLOVEBOX_KEY: 'gbx_wrong' } };
  await cli.exits(3, ['sessions'], lost);
  await cli.ok(['sessions', '--url', server.url, '--key-file', 'key'], lost);
  assert.match((await cli.error(['sessions', '--key-file', 'nowhere'])).message, /nowhere/);
});

test('the data directory says where the service is and holds its key', async () => {
  const bare = { env: { GLOVEBOX_URL: '', GLOVEBOX_KEY: '' } };
  const data = join(server.dir, 'data');
  assert.deepEqual(await cli.json(['sessions', '--data', data], bare), []);
  bare.env.GLOVEBOX_DATA_DIR = data;
  assert.equal((await cli.ok(['run', '-c', 'print(6 * 7)'], bare)).stdout, '42\n');
});

test('colour is for terminals, and NO_COLOR and TERM=dumb are honoured', async () => {
  const line = ['sessions', 'show', 'nobody'];
  const red = /\x1b\[31m/;
  assert.match((await cli.exits(3, line, { terminal: true })).stdout, red);
  for (const env of [{ NO_COLOR: '1' }, { TERM: 'dumb' }])
    assert.doesNotMatch((await cli.exits(3, line, { terminal: true, env })).stdout, red);
  assert.doesNotMatch((await cli.exits(3, line)).stderr, red);
});

test('an object is named by the beginning of its id; what is ambiguous is listed, short ones are names', async () => {
  const ids = [];
  for (let i = 0; i < 3; i++) ids.push((await cli.ok(['workspaces', 'create', `prefix-${i}`])).stdout.trim());
  assert.equal((await cli.json(['workspaces', 'show', ids[0].slice(0, 20)])).id, ids[0]);
  assert.equal((await cli.json(['workspaces', 'show', ids[0].slice(3, 20)])).id, ids[0]);
  // Three digits are a name; a name comes before the beginning of an id.
  assert.equal((await cli.error(['workspaces', 'show', ids[0].slice(0, 6)])).code, 'not_found');
  const named = (await cli.ok(['workspaces', 'create', ids[1].slice(3, 12)])).stdout.trim();
  assert.equal((await cli.json(['workspaces', 'show', ids[1].slice(3, 12)])).id, named);
  await cli.ok(['workspaces', 'delete', ids[2].slice(0, 16), ids[0].slice(0, 16), ids[1]]);
  assert.equal((await cli.error(['workspaces', 'show', 'prefix-2'])).code, 'not_found');
});

test('the service names a field, the error names the flag; its exit status is that of a wrong line', async () => {
  for (const [line, says] of [
    [['run', '-t', '80000', '-c', '1'], /^glovebox: --timeout must be from 5 to 900 in this pool\n/],
    [['run', '-m', '1t', '-c', '1'], /^glovebox: --memory must be from 64 MiB to /],
    [['sessions', 'create', '--name', 'x'.repeat(200)], /^glovebox: --name must not be longer than 128 bytes\n/],
    [['token', 'create', '--ttl', '2'], /^glovebox: --ttl must be a whole number from 5 to 86400\n/],
  ]) assert.match((await cli.exits(2, line)).stderr, says);
});

test('tables at a terminal fit it: short ids, relative times; in a pipe and with -o wide they are whole', async () => {
  const name = 'n'.repeat(100);
  const id = (await cli.ok(['sessions', 'create', '--name', name])).stdout.trim();
  const env = { COLUMNS: '80', LC_ALL: 'C.UTF-8' };
  const brief = (await cli.ok(['sessions'], { terminal: true, env })).stdout.trimEnd().split('\r\n');
  assert.ok(brief.every((line) => [...line].length <= 80), brief.join('\n'));
  const row = brief.find((line) => line.startsWith(id.slice(0, 13)));
  assert.match(row, /^sess_[0-9a-f]{8} +n{8,}\u2026 +default +idle +0 +ws_[0-9a-f]{8} +(just now|\d+ s ago)$/);
  for (const { stdout } of [await cli.ok(['sessions']), await cli.ok(['sessions', '-o', 'wide'], { terminal: true, env })])
    assert.match(stdout, new RegExp(`^${id} +${name} .* \\d{4}-\\d\\d-\\d\\dT`, 'm'));
  assert.equal(JSON.parse((await cli.ok(['sessions', 'show', id, '-o', 'json'])).stdout).id, id);
  const yaml = (await cli.ok(['sessions', 'show', id, '-o', 'yaml'])).stdout;
  assert.match(yaml, new RegExp(`^id: ${id}\nname: ${name}\nidentifier: null\n`));
  assert.match(yaml, /^limits:\n {2}memory_bytes: \d+\n/m);
  assert.match(yaml, /^created_at: "\d{4}-/m);
  await cli.exits(2, ['sessions', '-o', 'xml']);
  await cli.ok(['sessions', 'delete', id.slice(0, 13)]);
});
