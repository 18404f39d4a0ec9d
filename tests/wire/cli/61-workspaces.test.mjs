// SPDX-License-Identifier: Apache-2.0
// Workspaces by the command line: their life, their members, their owners,
// their rules; and what tokens must never touch.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';

const ID = /^ws_[0-9a-f]{32}$/;
let server;
let cli;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 0 })] } });
  cli = new Cli(server);
});

after(async () => {
  cli?.close();
  await server?.stop();
});

const here = (name) => join(cli.cwd, name);
const make = async (...args) => (await cli.ok(['workspaces', 'new', ...args])).stdout.trim();
// A key of the same tenant, as an environment and by its id.
const key = async (name, extra = []) => {
  const made = await cli.json(['key', 'create', '--scope', 'files:read,files:write', '--name', name, ...extra]);
  return { id: made.id, env: { env: { GLOVEBOX_KEY: made.secret } } };
};
const put = (place, text) => { writeFileSync(here('f'), text); return cli.json(['files', 'put', 'f', place]); };

describe('life', () => {
  test('new prints the id; ls, show and rename know it', async () => {
    const id = await make('plans');
    assert.match(id, ID);
    await put('plans:a.txt', 'four');
    assert.match((await cli.ok(['workspaces'])).stdout, new RegExp(`^ID +NAME +ROLE +FILES +SIZE +STORED +HOLD +UPDATED\n(.*\n)*${id} +plans +owner +1 +4 B `));
    const shown = await cli.json(['workspaces', 'show', 'plans']);
    assert.deepEqual(shown, await server.ok('GET', `/api/workspaces/${id}`));
    assert.match((await cli.ok(['workspaces', 'show', id])).stdout, /^name +plans$/m);
    assert.equal((await cli.json(['workspaces', 'rename', 'plans', 'plans of 2027'])).name, 'plans of 2027');
    assert.equal((await cli.json(['workspaces', 'show', 'plans of 2027'])).id, id);
    assert.equal((await cli.error(['workspaces', 'show', 'plans'])).code, 'not_found');
  });

  test('rm takes it from every list, undelete brings it back by name or id', async () => {
    const id = await make('doomed');
    await put('doomed:x', 'x');
    assert.deepEqual(await cli.json(['workspaces', 'rm', 'doomed']), { deleted: ['doomed'] });
    assert.equal((await cli.error(['files', 'get', `${id}:x`, '-o', 'never'])).code, 'not_found');
    assert.ok(!(await cli.json(['workspaces', 'ls'])).some((w) => w.id === id));
    const [gone] = await cli.json(['workspaces', 'ls', '--deleted']);
    assert.equal(gone.id, id);
    assert.match((await cli.ok(['workspaces', 'ls', '--deleted'])).stdout, /^ID +NAME +STORED +DELETED +PURGED\n/);
    assert.equal((await cli.json(['workspaces', 'undelete', 'doomed'])).id, id);
    assert.equal((await cli.ok(['files', 'get', 'doomed:x', '-o', '-'])).stdout, 'x');
    await cli.ok(['workspaces', 'rm', id]);
    assert.equal((await cli.json(['workspaces', 'undelete', id])).id, id);
    assert.match((await cli.error(['workspaces', 'undelete', 'never was'])).message, /0 deleted workspaces/);
  });

  test('history and restore of all of it', async () => {
    await make('tree');
    await put('tree:a', '1');
    const { commit } = await put('tree:b', '2');
    await put('tree:a', 'changed');
    await cli.ok(['files', 'rm', 'tree:b']);
    const history = await cli.json(['workspaces', 'history', 'tree']);
    assert.deepEqual(history.map((e) => [e.path, e.change]), [['b', 'deleted'], ['a', 'modified'], ['b', 'created'], ['a', 'created']]);
    assert.equal((await cli.json(['workspaces', 'history', 'tree', '--limit', '2'])).length, 2);
    const done = await cli.json(['workspaces', 'restore', 'tree', '--commit', commit]);
    assert.equal(done.changes.length, 2);
    assert.equal((await cli.ok(['files', 'get', 'tree:a', '-o', '-'])).stdout, '1');
    assert.equal((await cli.ok(['files', 'get', 'tree:b', '-o', '-'])).stdout, '2');
    assert.match((await cli.ok(['workspaces', 'restore', 'tree', '--commit', commit], { terminal: true })).stdout, /Nothing changed/);
  });
});

describe('members and owners', () => {
  test('a viewer reads and cannot write; removed, it sees nothing', async () => {
    const id = await make('shared', '--private');
    await put('shared:x', 'x');
    const viewer = await key('viewer');
    assert.equal((await cli.error(['files', 'ls', `${id}:`], viewer.env)).code, 'not_found');
    assert.deepEqual(await cli.json(['workspaces', 'member', 'add', 'shared', viewer.id, 'viewer']), { principal: viewer.id, role: 'viewer' });
    assert.match((await cli.ok(['workspaces', 'members', 'shared'])).stdout, new RegExp(`^KEY +ROLE +ADDED +BY\n(.*\n)*${viewer.id} +viewer `));
    assert.equal((await cli.ok(['files', 'get', 'shared:x', '-o', '-'], viewer.env)).stdout, 'x');
    assert.equal((await cli.error(['files', 'put', 'f', 'shared:'], viewer.env)).code, 'forbidden');
    assert.equal((await cli.error(['workspaces', 'rm', 'shared'], viewer.env)).code, 'forbidden');
    await cli.ok(['workspaces', 'member', 'add', 'shared', viewer.id, 'editor']);
    await cli.ok(['files', 'put', 'f', 'shared:'], viewer.env);
    assert.deepEqual(await cli.json(['workspaces', 'member', 'rm', 'shared', viewer.id]), { removed: viewer.id });
    assert.equal((await cli.error(['files', 'ls', `${id}:`], viewer.env)).code, 'not_found');
    assert.equal((await cli.error(['workspaces', 'member', 'add', 'shared', viewer.id, 'king'])).code, 'invalid_request');
  });

  test('transfer: the new owner owns, the old one edits', async () => {
    const agent = await key('agent');
    const human = await key('human');
    const id = (await cli.ok(['workspaces', 'new', 'handed over', '--private'], agent.env)).stdout.trim();
    writeFileSync(here('made'), 'by the agent');
    await cli.ok(['files', 'put', 'made', `${id}:`], agent.env);
    assert.equal((await cli.json(['workspaces', 'transfer', id, human.id], agent.env)).owner, human.id);
    assert.equal((await cli.json(['workspaces', 'show', id], human.env)).role, 'owner');
    assert.equal((await cli.json(['workspaces', 'show', id], agent.env)).role, 'editor');
    assert.equal((await cli.error(['workspaces', 'rm', id], agent.env)).code, 'forbidden');
  });

  test('I2 offer and claim: the token is printed once, alone, and works once', async () => {
    const giver = await key('giver');
    const taker = await key('taker');
    const id = (await cli.ok(['workspaces', 'new', 'offered', '--private'], giver.env)).stdout.trim();
    const offered = await cli.ok(['workspaces', 'offer', id, '--ttl', '1h'], giver.env);
    const token = offered.stdout.trim();
    assert.match(offered.stdout, /^\S{32,}\n$/);
    assert.doesNotMatch(offered.stderr, new RegExp(token));
    const [listed] = await cli.json(['workspaces', 'offers', id], giver.env);
    assert.ok(!('token' in listed));
    assert.match(offered.stderr, new RegExp(listed.id));
    writeFileSync(here('token'), `${token}\n`);
    assert.match((await cli.exits(3, ['workspaces', 'claim'], taker.env)).stderr, /no terminal/);
    assert.equal((await cli.ok(['workspaces', 'claim', '--token-file', 'token'], taker.env)).stdout, `${id}\n`);
    assert.equal((await cli.json(['workspaces', 'show', id], taker.env)).role, 'owner');
    assert.equal((await cli.error(['workspaces', 'claim', '--token-file', 'token'], giver.env)).code, 'not_found');
    assert.doesNotMatch(server.log, new RegExp(token));
    const second = await cli.json(['workspaces', 'offer', id], taker.env);
    assert.deepEqual(await cli.json(['workspaces', 'offer', id, '--revoke', second.id], taker.env), { revoked: second.id });
    assert.deepEqual(await cli.json(['workspaces', 'offers', id], taker.env), []);
  });
});

describe('rules', () => {
  test('retention is shown and set, each part by itself', async () => {
    await make('ruled');
    assert.equal((await cli.ok(['workspaces', 'retention', 'ruled'])).stdout, 'versions of a file kept: all\ndays a version is kept: no limit\n');
    assert.deepEqual((await cli.json(['workspaces', 'retention', 'ruled', '--versions', '5'])).retention, { keep_versions: 5, keep_days: 0 });
    assert.deepEqual((await cli.json(['workspaces', 'retention', 'ruled', '--days', '30'])).retention, { keep_versions: 5, keep_days: 30 });
    assert.deepEqual((await cli.json(['workspaces', 'retention', 'ruled', '--versions', '0', '--days', '0'])).retention, { keep_versions: 0, keep_days: 0 });
  });

  test('under a legal hold it cannot be deleted', async () => {
    await make('held');
    assert.equal((await cli.json(['workspaces', 'hold', 'held', 'on'])).legal_hold, true);
    assert.equal((await cli.error(['workspaces', 'rm', 'held'])).code, 'conflict');
    assert.match((await cli.ok(['workspaces'])).stdout, /^ws_\S+ +held +owner +.*yes /m);
    assert.equal((await cli.json(['workspaces', 'hold', 'held', 'off'])).legal_hold, false);
    await cli.ok(['workspaces', 'rm', 'held']);
  });

  test('a quota is enforced, usage is told', async () => {
    await make('small');
    assert.equal((await cli.json(['workspaces', 'quota', 'small', '1k'])).quota_bytes, 1024);
    await put('small:fits', 'x'.repeat(1000));
    assert.equal((await cli.error(['files', 'put', 'f', 'small:more'])).code, 'storage_full');
    const usage = await cli.json(['workspaces', 'usage']);
    assert.ok(usage.workspaces >= 1 && usage.stored_bytes >= 1000, JSON.stringify(usage));
    assert.match((await cli.ok(['workspaces', 'usage'])).stdout, /^workspaces: \d+( of \d+)?\nstored: \d+/);
  });
});

test('prune deletes unnamed workspaces of one-off runs, and none that has a name, a session or a recent change', async () => {
  await cli.ok(['run', '-c', 'open("/mnt/data/left.txt", "w").write("x")']);
  const session = (await cli.ok(['sessions', 'create'])).stdout.trim();
  const used = (await cli.json(['sessions', 'show', session])).workspace;
  await cli.ok(['workspaces', 'create', 'named-and-old']);
  const all = async () => (await cli.json(['workspaces', 'list'])).map((w) => w.id);
  const before_ = await all();
  assert.deepEqual(await cli.json(['workspaces', 'prune']), [], 'nothing is a week old');
  await new Promise((wake) => setTimeout(wake, 1100));
  const would = (await cli.json(['workspaces', 'prune', '--older', '1s', '--dry-run'])).map((w) => w.id);
  assert.deepEqual(await all(), before_, 'a dry run deletes nothing');
  assert.ok(would.length > 0 && !would.includes(used));
  assert.match((await cli.ok(['workspaces', 'prune', '--older', '1s'])).stdout, new RegExp(`^Deleted ${would.length} unnamed workspaces? with .*undelete`));
  assert.deepEqual(await all(), before_.filter((id) => !would.includes(id)));
  const left = await cli.json(['workspaces', 'list']);
  assert.ok(left.some((w) => w.id === used) && left.some((w) => w.name === 'named-and-old'));
  await cli.ok(['sessions', 'delete', session]);
});
