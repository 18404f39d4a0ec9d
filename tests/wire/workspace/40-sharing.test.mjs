// SPDX-License-Identifier: Apache-2.0
// Several sessions, keys and tenants around one workspace: races, conflict
// copies, locks, refresh, roles, and a change of owner. Nothing written is
// lost, nothing refused is written, nothing foreign is seen.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, sleep } from '../../lib/glovebox.mjs';
import { READING, asleep, told, well, workspaceOf, writing } from '../../lib/kept.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';
import { Workspace, form, mint, openapi, sha256, unknownId } from '../../lib/workspace.mjs';

const ALL = ['execute', 'files:read', 'files:write'];
let server;
let keys;

before(async () => {
  server = await Glovebox.start({
    config: { sessions_per_tenant: 60, pools: [pool({ ready: 2 }), pool({ name: 'nap', ready: 1, cooldown_s: 1 })] },
  });
  keys = { agent: await mint(server, ALL, { name: 'agent' }), human: await mint(server, ALL, { name: 'human' }), other: await mint(server, ALL, { name: 'other' }),
    foreign: await mint(server, ALL, { name: 'foreign', tenant: 'elsewhere' }) };
});
after(() => stop(server));

const on = (w, { key = keys.agent, ...spec } = {}) => server.session({ workspace: w.id, ...spec }, { key: key.secret });
const make = (spec = {}, key = keys.agent) => Workspace.create(server, spec, key.secret);
const lock = (w, body, key = w.key) => w.ok('POST', '/locks', { body, key });
const CONFLICT = /^(.*) \(conflict ([0-9a-f]{8})\)(\.[^./]*)?$/;

// Every text that any version of the workspace has, deleted and beside.
async function everWritten(w) {
  const { data } = await w.history('?limit=1000');
  const kept = data.filter((h) => h.sha256);
  return new Set(await Promise.all(kept.map(async (h) => (await request(server, 'GET', h.url, { key: w.key })).text)));
}

// An execution that carries tokens of locks.
const executing = (s, code, token) => server.ok('POST', `${s.path}/executions`, { code }, { ...s.options, headers: token ? { 'x-glovebox-lock': token } : {} });

describe('two sessions on one workspace', { concurrency: 4 }, () => {
  test('see it as of when they began, and commit in turns', async () => {
    const w = await make();
    await w.write('shared.txt', 'zero');
    const [a, b] = await Promise.all([on(w), on(w, { key: keys.human })]);
    assert.deepEqual([a.made.workspace, b.made.workspace], [w.id, w.id]);
    await well(a.python(writing({ 'a.txt': 'of a' })));
    await well(b.python(writing({ 'b.txt': 'of b' })));
    assert.deepEqual(await w.paths(), ['a.txt', 'b.txt', 'shared.txt']);
    assert.deepEqual(await a.json(READING), { 'a.txt': 'of a', 'shared.txt': 'zero' });
    assert.deepEqual(await b.json(READING), { 'b.txt': 'of b', 'shared.txt': 'zero' });
    const { data } = await w.history();
    assert.deepEqual(data.map((h) => [h.path, h.author, h.session]),
      [['b.txt', keys.human.id, b.id], ['a.txt', keys.agent.id, a.id], ['shared.txt', keys.agent.id, null]]);
  });

  test('a stale change becomes a conflict copy, reported to who made it; theirs stays', async () => {
    const w = await make();
    await w.write('report.csv', 'base');
    const [a, b] = await Promise.all([on(w), on(w)]);
    const first = await well(a.python(writing({ 'report.csv': 'from a' })));
    assert.deepEqual(told(first), { modified: ['report.csv'] });
    const second = await well(b.python(writing({ 'report.csv': 'from b' })));
    assert.deepEqual(Object.keys(told(second)), ['conflicts']);
    const [c] = second.files.conflicts;
    assert.equal(c.wanted, 'report.csv');
    assert.match(c.path, CONFLICT);
    assert.match(c.path, /^report \(conflict [0-9a-f]{8}\)\.csv$/);
    assert.ok(c.reason.length > 10 && c.version && c.file_id && c.url);
    assert.equal(c.sha256, sha256('from b'));
    assert.equal((await w.get('report.csv')).text, 'from a');
    assert.equal((await w.get(c.path)).text, 'from b');
    assert.ok(second.commit);
    // Once told, it is settled: the next change of the same file goes beside
    // again, or onto its copy, and is never lost.
    await well(b.python(writing({ 'report.csv': 'from b again' })));
    const texts = await everWritten(w);
    for (const text of ['base', 'from a', 'from b', 'from b again']) assert.ok(texts.has(text), text);
    assert.equal((await w.get('report.csv')).text, 'from a');
  });

  test('the same bytes on both sides are no conflict', async () => {
    const w = await make();
    await w.write('same', 'base');
    const [a, b] = await Promise.all([on(w), on(w)]);
    await well(a.python(writing({ same: 'equal' })));
    const e = await well(b.python(writing({ same: 'equal' })));
    assert.deepEqual(e.files.conflicts, []);
    assert.deepEqual(await w.paths(), ['same']);
  });

  test('both create the same new path; a stale deletion is not done', async () => {
    const w = await make();
    await w.write('old', 'base');
    const [a, b] = await Promise.all([on(w), on(w)]);
    await well(a.python(writing({ new: 'a', old: 'changed by a' })));
    const e = await well(b.python(`${writing({ new: 'b' })}\nos.remove("/mnt/data/old")`));
    assert.deepEqual(e.files.deleted, []);
    assert.equal(e.files.conflicts.length, 2);
    const kept = e.files.conflicts.find((c) => c.path === 'old');
    assert.match(kept.reason, /not deleted/);
    assert.equal((await w.get('old')).text, 'changed by a');
    assert.equal((await w.get('new')).text, 'a');
    const beside = e.files.conflicts.find((c) => c.wanted === 'new');
    assert.equal((await w.get(beside.path)).text, 'b');
  });

  test('a change of what another deleted, and a file where another made a folder', async () => {
    const w = await make();
    await w.write('gone', 'base');
    await w.write('d/x', 'base');
    const [a, b] = await Promise.all([on(w), on(w)]);
    await well(a.python('import os, shutil; os.remove("/mnt/data/gone"); os.mkdir("/mnt/data/place"); open("/mnt/data/place/in", "w").write("a"); shutil.rmtree("/mnt/data/d"); open("/mnt/data/d", "w").write("a file now")'));
    await well(b.python(writing({ gone: 'still wanted', place: 'a file', 'd/x': 'changed', 'd/y': 'new' })));
    const texts = await everWritten(w);
    for (const text of ['still wanted', 'a file', 'changed', 'new', 'a', 'a file now']) assert.ok(texts.has(text), text);
    assert.equal((await w.get('place/in')).text, 'a');
    assert.equal((await w.get('d')).text, 'a file now');
  });

  test('names of conflict copies are free ones, whatever is there', async () => {
    const w = await make();
    for (const path of ['noext', '.hidden', 'a.tar.gz', 'deep/er/x.txt', `${'n'.repeat(250)}.txt`]) await w.write(path, 'base');
    const [a, b, c] = await Promise.all([on(w), on(w), on(w)]);
    const paths = (await w.paths());
    await well(a.python(writing(Object.fromEntries(paths.map((p) => [p, 'a'])))));
    for (const s of [b, c]) {
      const e = await well(s.python(writing(Object.fromEntries(paths.map((p) => [p, s.id])))));
      assert.equal(e.files.conflicts.length, paths.length, JSON.stringify(told(e)));
      for (const f of e.files.conflicts) {
        assert.match(f.path.split('/').at(-1), /\(conflict [0-9a-f]{8}\)/, f.path);
        assert.ok(f.path.split('/').every((part) => Buffer.byteLength(part) <= 255), f.path);
        assert.equal((await w.get(f.path)).text, s.id);
      }
    }
    for (const path of paths) assert.equal((await w.get(path)).text, 'a');
    assert.equal((await w.list()).data.length, 3 * paths.length);
  });

  test('racing without locks: every text is in some version, both sides are told', async () => {
    const w = await make();
    await w.write('race.txt', 'start');
    const sessions = await Promise.all([on(w), on(w, { key: keys.human })]);
    const wrote = new Set(['start']);
    let conflicts = 0;
    let done = 0;
    await Promise.all(sessions.map(async (s, who) => {
      for (let i = 0; i < 25; i++) {
        const text = `${who} wrote ${i} ${'x'.repeat(who * 1000)}`;
        wrote.add(text);
        const e = await well(s.python(writing({ 'race.txt': text })));
        assert.equal(e.files.conflicts.length + e.files.modified.length + e.files.created.length, 1, JSON.stringify(told(e)));
        conflicts += e.files.conflicts.length;
        done += e.files.modified.length;
        if (i % 5 === 4) await server.ok('POST', `${s.path}/refresh`, {}, s.options);
      }
    }));
    assert.ok(conflicts > 0 && done > 0, `${conflicts} conflicts, ${done} straight`);
    const texts = await everWritten(w);
    for (const text of wrote) assert.ok(texts.has(text), text.slice(0, 30));
    assert.equal(texts.size, wrote.size, 'and nothing else');
  });

  test('racing with a lock: no conflict at all, and nothing lost', async () => {
    const w = await make();
    await w.write('n.txt', '0');
    const sessions = await Promise.all([on(w), on(w, { key: keys.human })]);
    let refusals = 0;
    await Promise.all(sessions.map(async (s) => {
      for (let i = 0; i < 6;) {
        const taken = await w.call('POST', '/locks', { body: { path: 'n.txt', ttl_s: 30, session: s.id }, key: s.options.key });
        if (taken.status === 423) {
          refusals++;
          await sleep(5);
          continue;
        }
        assert.equal(taken.status, 201, taken.text);
        await server.ok('POST', `${s.path}/refresh`, {}, s.options);
        const e = await well(s.python('n = int(open("/mnt/data/n.txt").read()) + 1; open("/mnt/data/n.txt", "w").write(str(n))'));
        assert.deepEqual(told(e), { modified: ['n.txt'] });
        assert.equal((await w.call('DELETE', `/locks/${taken.body.id}`, { headers: { 'x-glovebox-lock': taken.body.token }, key: s.options.key })).status, 204);
        i++;
      }
    }));
    assert.equal((await w.get('n.txt')).text, '12', 'each counted on from the other');
    assert.deepEqual(await w.paths(), ['n.txt']);
  });
});

describe('locks and executions', { concurrency: 4 }, () => {
  test('a path that another holds is refused with the holder and the expiry; the rest is committed', async () => {
    const w = await make();
    await w.write('held/file', 'base');
    const taken = await lock(w, { path: 'held', ttl_s: 60 }, keys.human.secret);
    const s = await on(w);
    const e = await s.python(writing({ 'held/file': 'mine', 'held/new': 'mine', free: 'yes' }));
    assert.deepEqual(told(e), { created: ['free'], refused: ['held/file', 'held/new'] });
    for (const f of e.files.refused) {
      assert.equal(f.holder, keys.human.id);
      assert.equal(f.lock_expires_at, taken.expires_at);
      assert.match(f.reason, /lock/);
    }
    assert.deepEqual(await w.paths(), ['free', 'held/file']);
    assert.equal((await w.get('held/file')).text, 'base');
    refused(await w.put('held/file', 'x'), 423, 'locked');
    // The session still has it; once the lock is gone it is committed.
    assert.equal((await w.call('DELETE', `/locks/${taken.id}`, { headers: { 'x-glovebox-lock': taken.token }, key: keys.human.secret })).status, 204);
    const later = await well(s.python('1'));
    assert.deepEqual(told(later), { created: ['held/new'], modified: ['held/file'] });
  });

  test('one taken for a session lets its executions through, and nobody else\'s', async () => {
    const w = await make();
    const [a, b] = await Promise.all([on(w), on(w)]);
    await lock(w, { path: 'x', ttl_s: 60, session: a.id });
    assert.deepEqual(told(await well(a.python(writing({ x: 'a' })))), { created: ['x'] });
    assert.deepEqual(Object.keys(told(await b.python(writing({ x: 'b' })))), ['refused']);
  });

  test('an execution carries tokens', async () => {
    const w = await make();
    const s = await on(w);
    const [one, two] = [await lock(w, { path: 'one' }, keys.human.secret), await lock(w, { path: 'two' }, keys.human.secret)];
    const none = await executing(s, writing({ one: '1', two: '1' }));
    assert.deepEqual(told(none), { refused: ['one', 'two'] });
    const half = await executing(s, writing({ one: '2', two: '2' }), one.token);
    assert.deepEqual(told(half), { created: ['one'], refused: ['two'] });
    const both = await executing(s, writing({ one: '3', two: '3' }), `${one.token}, ${two.token}`);
    assert.deepEqual(told(both), { created: ['two'], modified: ['one'] });
    const wrong = await executing(s, writing({ one: '4' }), 'f'.repeat(64));
    assert.deepEqual(told(wrong), { refused: ['one'] });
  });

  test('a holder who comes back after its lease ran out is refused, even if nobody wrote', async () => {
    const w = await make();
    const s = await on(w);
    const old = await lock(w, { path: 'x', ttl_s: 1 });
    await sleep(1100);
    const next = await lock(w, { path: 'x', ttl_s: 60 }, keys.human.secret);
    assert.ok(next.fence > old.fence);
    const stale = await executing(s, writing({ x: 'stale' }), old.token);
    assert.deepEqual(Object.keys(told(stale)), ['refused']);
    refused(await w.put('x', 'stale', { 'x-glovebox-lock': old.token }), 423);
    assert.equal((await w.put('x', 'fresh', { 'x-glovebox-lock': next.token })).status, 201);
    assert.equal((await w.get('x')).text, 'fresh');
  });
});

describe('files through a session', { concurrency: 4 }, () => {
  const put = (s, path, body, key = keys.agent) => request(server, 'PUT', `${s.path}/files/${path}`, { body: Buffer.from(body), key: key.secret });
  const remove = (s, path, key = keys.agent) => request(server, 'DELETE', `${s.path}/files/${path}`, { key: key.secret });

  test('an upload or a deletion that is refused changes nothing inside either', async () => {
    const w = await make({ private: true });
    for (const path of ['held', 'free', 'd/x']) await w.write(path, 'base');
    await w.call('PUT', `/members/${keys.other.id}`, { body: { role: 'viewer' } });
    await w.call('PUT', `/members/${keys.human.id}`, { body: { role: 'editor' } });
    const taken = await lock(w, { path: 'held', ttl_s: 60 }, keys.human.secret);
    const s = await on(w, { sharing: 'tenant' });
    const before = await s.json(READING);
    refused(await put(s, 'held', 'mine'), 423, 'locked', new RegExp(taken.expires_at.slice(0, 16)));
    refused(await remove(s, 'held'), 423, 'locked');
    refused(await put(s, 'free', 'mine', keys.other), 403, 'forbidden');
    refused(await put(s, 'new', 'mine', keys.other), 403, 'forbidden');
    refused(await remove(s, 'free', keys.other), 403, 'forbidden');
    refused(await put(s, 'd', 'in place of a folder'), 409, 'conflict', /folder/);
    refused(await put(s, 'free/below', 'a file'), 409, 'conflict', /folder/);
    refused(await remove(s, 'd'), 409, 'conflict', /empty/);
    assert.deepEqual(await s.json(READING), before);
    assert.deepEqual(told(await well(s.python('1'))), {});
    assert.deepEqual(await w.paths(), ['d/x', 'free', 'held']);
    assert.equal((await w.info()).commits, 3);
  });

  test('a stale upload is kept beside, and says where; a stale deletion is refused', async () => {
    const w = await make();
    for (const path of ['a.txt', 'b.txt']) await w.write(path, 'base');
    const s = await on(w);
    for (const path of ['a.txt', 'b.txt']) await w.write(path, 'theirs');
    const made = await put(s, 'a.txt', 'mine');
    assert.equal(made.status, 201, made.text);
    const { path } = await server.ok('GET', `/api/files/${made.body.file_id}`, undefined, { key: keys.agent.secret });
    assert.match(path, CONFLICT);
    assert.equal((await w.get('a.txt')).text, 'theirs');
    assert.equal((await w.get(path)).text, 'mine');
    refused(await remove(s, 'b.txt'), 409, 'conflict', /refresh/);
    assert.equal((await w.get('b.txt')).text, 'theirs');
    assert.equal((await s.json(READING))['b.txt'], 'base');
  });
});

describe('refresh', { concurrency: 4 }, () => {
  test('brings what others created, modified and deleted into a live session', async () => {
    const w = await make();
    for (const path of ['stays', 'changes', 'd/goes']) await w.write(path, 'base');
    const s = await on(w);
    await well(s.python(`${writing({ mine: 'm' })}\nkept = 1`));
    await w.write('changes', 'by upload');
    await w.delete('d/goes');
    const other = await on(w, { key: keys.human });
    await well(other.python(writing({ 'new/file': 'by the other' })));
    const answer = await server.ok('POST', `${s.path}/refresh`, {}, s.options);
    assert.equal(answer.changed, 3);
    assert.equal(answer.session.id, s.id);
    assert.deepEqual(await s.json(READING), { stays: 'base', changes: 'by upload', mine: 'm', 'new/file': 'by the other' });
    const e = await well(s.python('kept'));
    assert.deepEqual([told(e), e.result['text/plain'], e.commit], [{}, '1', null], 'variables stay, and nothing is committed by it');
    const next = await well(s.python(writing({ changes: 'on top', 'new/file': 'on top' })));
    assert.deepEqual(told(next), { modified: ['changes', 'new/file'] }, 'seen: no conflict');
    assert.equal((await server.ok('POST', `${s.path}/refresh`, {}, s.options)).changed, 0, 'its own are no news');
  });

  test('brings programs as programs, and files put into a live session stay what they were', async () => {
    const w = await make();
    await w.write('old.sh', '#!/bin/sh\necho old\n', {}, '?executable=true');
    const s = await on(w);
    await well(s.python('1'));
    const tool = await w.write('tool.sh', '#!/bin/sh\necho ran\n', {}, '?executable=true');
    await w.write('plain.sh', '#!/bin/sh\necho no\n');
    await w.write('old.sh', '#!/bin/sh\necho new\n');
    await server.ok('POST', `${s.path}/refresh`, {}, s.options);
    const e = await well(s.shell('cd /mnt/data; ./tool.sh; ./old.sh; test -x plain.sh || echo plain'));
    assert.deepEqual([e.stdout, told(e), e.commit], ['ran\nnew\nplain\n', {}, null], 'and no change of its own');
    // One that replaces a program inside is a program, there and in the workspace.
    assert.equal((await request(server, 'PUT', `${s.path}/files/tool.sh`, { body: '#!/bin/sh\necho again\n', key: s.options.key })).status, 201);
    assert.equal((await well(s.shell('/mnt/data/tool.sh'))).stdout, 'again\n');
    const listed = Object.fromEntries((await w.list()).data.map((f) => [f.path, f.executable]));
    assert.deepEqual(listed, { 'old.sh': true, 'plain.sh': false, 'tool.sh': true });
    // By its id into another session that is live, one that keeps nothing, and one made with it.
    for (const spec of [{}, { persistence: 'ephemeral' }]) {
      const other = await server.session(spec, { key: keys.agent.secret });
      await well(other.python('1'));
      const at = other.path.replace('/api/sessions', '/v1/containers');
      const put = await request(server, 'POST', `${at}/files`, { body: { file_id: tool.file_id }, key: keys.agent.secret });
      assert.equal(put.status, 200, JSON.stringify(put.body));
      assert.match((await well(other.shell('find /mnt/data -name "*tool.sh" -exec {} \\;'))).stdout, /again/);
    }
  });

  test('what was written and not committed yet is not overwritten by it', async () => {
    const w = await make();
    await w.write('both', 'base');
    const s = await on(w);
    await well(s.shell('(sleep 0.2; echo "not committed" > /mnt/data/both) > /dev/null 2>&1 &'));
    await sleep(600);
    await w.write('both', 'by upload');
    await server.ok('POST', `${s.path}/refresh`, {}, s.options);
    await well(s.python('1'));
    const texts = await everWritten(w);
    assert.ok(texts.has('by upload') && texts.has('not committed\n'), [...texts].join(' | '));
  });

  test('what could not be committed is not overwritten: the refresh is refused', async () => {
    const w = await make();
    await w.write('held', 'base');
    const s = await on(w);
    const taken = await lock(w, { path: 'held', ttl_s: 60 }, keys.human.secret);
    assert.deepEqual(told(await s.python(writing({ held: 'mine' }))), { refused: ['held'] });
    await w.put('held', 'theirs', { 'x-glovebox-lock': taken.token });
    refused(await request(server, 'POST', `${s.path}/refresh`, { key: keys.agent.secret }), 409, 'conflict', /not committed/);
    assert.deepEqual(await s.json(READING), { held: 'mine' });
    await w.call('DELETE', `/locks/${taken.id}`, { headers: { 'x-glovebox-lock': taken.token }, key: keys.human.secret });
    await server.ok('POST', `${s.path}/refresh`, {}, s.options);
    assert.equal((await s.json(READING)).held, 'theirs');
    assert.ok((await everWritten(w)).has('mine'), 'as a conflict copy');
  });

  test('folders become files and files folders', async () => {
    const w = await make();
    for (const path of ['f', 'd/x', 'd/y']) await w.write(path, 'base');
    const s = await on(w);
    await w.delete('f');
    await w.write('f/now/deep', 'folder');
    await w.delete('d', '?recursive=true');
    await w.write('d', 'file');
    await server.ok('POST', `${s.path}/refresh`, {}, s.options);
    assert.deepEqual(await s.json(READING), { d: 'file', 'f/now/deep': 'folder' });
    assert.deepEqual(told(await well(s.python('1'))), {});
  });

  test('asleep there is nothing to do; while something runs it waits or says so', async () => {
    const w = await make();
    const s = await on(w, { pool: 'nap' });
    await well(s.python(writing({ a: '1' })));
    await asleep(s);
    assert.equal((await server.ok('POST', `${s.path}/refresh`, {}, s.options)).changed, 0);
    assert.equal((await s.get()).state, 'dormant');
  });
});

describe('roles', { concurrency: 4 }, () => {
  const member = (w, who, role) => w.call('PUT', `/members/${who.id}`, { body: { role } });

  test('a viewer reads and cannot write: 403, and what its executions write is denied', async () => {
    const w = await make({ private: true });
    await w.write('a', 'x');
    assert.equal((await member(w, keys.other, 'viewer')).status, 204);
    const v = w.as(keys.other.secret);
    assert.equal((await v.get('a')).text, 'x');
    assert.equal((await v.info()).role, 'viewer');
    for (const [method, path, body] of [['PUT', '/files/b', 'x'], ['DELETE', '/files/a'], ['POST', '/move', { from: 'a', to: 'b' }], ['POST', '/copy', { from: 'a', to: 'b' }], ['POST', '/locks', { path: 'a' }],
      ['POST', '/uploads', { path: 'b' }], ['PATCH', '', { name: 'n' }], ['DELETE', ''], ['POST', '/transfer', { to: keys.other.id }], ['POST', '/offers', {}], ['PUT', `/members/${keys.other.id}`, { role: 'owner' }]])
      refused(await v.call(method, path, { body }), 403, 'forbidden');
    refused(await request(server, 'POST', '/api/shares', { body: { workspace: w.id, path: 'a' }, key: keys.other.secret }), 403, 'forbidden');
    const s = await on(w, { key: keys.other });
    assert.deepEqual(await s.json(READING), { a: 'x' }, 'a session of its own may look');
    const e = await s.python(writing({ a: 'changed', b: 'new' }));
    assert.deepEqual([e.outcome, e.commit, told(e)], ['denied', null, { refused: ['a', 'b'] }]);
    await s.delete();
    const run = await server.ok('POST', '/api/run', { workspace: w.id, code: writing({ c: 'new' }) }, { key: keys.other.secret });
    assert.deepEqual([run.outcome, run.commit, told(run)], ['denied', null, { refused: ['c'] }]);
    assert.deepEqual(await w.paths(), ['a']);
    assert.equal((await w.info()).commits, 1);
  });

  test('an execution of one who may only read is denied what it wrote', async () => {
    const w = await make({ private: true });
    await w.write('a', 'x');
    await member(w, keys.other, 'viewer');
    const s = await on(w, { sharing: 'tenant' });
    const e = await server.ok('POST', `${s.path}/executions`, { code: writing({ a: 'changed', b: 'new' }) }, { key: keys.other.secret });
    assert.equal(e.outcome, 'denied', JSON.stringify(e));
    assert.equal(e.commit, null);
    assert.deepEqual(told(e), { refused: ['a', 'b'] });
    assert.ok(e.error.message.length > 10);
    const only = await server.ok('POST', `${s.path}/executions`, { code: '6 * 7' }, { key: keys.other.secret });
    assert.deepEqual(await w.paths(), ['a']);
    assert.equal((await w.get('a')).text, 'x');
    assert.ok(['ok', 'denied'].includes(only.outcome));
    refused(await request(server, 'PUT', `${s.path}/files/c`, { body: Buffer.from('x'), key: keys.other.secret }), 403, 'forbidden');
    refused(await request(server, 'DELETE', `${s.path}/files/a`, { key: keys.other.secret }), 403, 'forbidden');
    assert.equal((await w.get('a')).text, 'x');
  });

  test('one who is made a viewer while its session runs cannot commit from then on', async () => {
    const w = await make({ private: true });
    await member(w, keys.other, 'editor');
    const s = await on(w, { key: keys.other });
    await well(s.python(writing({ a: '1' })));
    await member(w, keys.other, 'viewer');
    const e = await s.python(writing({ a: '2' }));
    assert.deepEqual([e.outcome, e.commit], ['denied', null]);
    assert.equal((await w.call('DELETE', `/members/${keys.other.id}`)).status, 204);
    const out = await s.python(writing({ a: '3' }));
    assert.equal(out.commit, null);
    assert.ok(['denied', 'error'].includes(out.outcome), out.outcome);
    assert.equal((await w.get('a')).text, '1');
    assert.doesNotMatch(JSON.stringify(out.error), /sqlite|\.c:/);
  });
});

describe('a change of owner', { concurrency: 4 }, () => {
  test('the agent builds it in a session, the human takes it over, the agent stays an editor', async () => {
    const s = await server.session({}, { key: keys.agent.secret });
    await well(s.python(writing({ 'report.md': '# built' })));
    const w = workspaceOf(s);
    assert.equal((await w.info()).owner, keys.agent.id);
    const given = await w.ok('POST', '/transfer', { body: { to: keys.human.id } });
    assert.deepEqual([given.owner, given.role], [keys.human.id, 'editor']);
    const h = w.as(keys.human.secret);
    assert.equal((await h.info()).role, 'owner');
    const e = await well(s.python(writing({ 'report.md': '# and on' })));
    assert.deepEqual(told(e), { modified: ['report.md'] });
    refused(await w.call('DELETE', ''), 403, 'forbidden');
    assert.equal((await h.ok('PATCH', '', { body: { name: 'mine now' } })).name, 'mine now');
    assert.equal((await h.call('DELETE', `/members/${keys.agent.id}`)).status, 204);
    assert.equal((await h.call('DELETE', '/members/*')).status, 204);
    refused(await w.call('GET', ''), 404, 'not_found');
    const late = await s.python(writing({ 'report.md': '# too late' }));
    assert.equal(late.commit, null);
    assert.equal((await h.get('report.md')).text, '# and on');
  });

  test('by an offer, claimed once, by a key of another tenant', async () => {
    const s = await server.session({}, { key: keys.agent.secret });
    const [made] = (await well(s.python(writing({ 'data.csv': '1,2' })))).files.created;
    const w = workspaceOf(s);
    const offer = await w.ok('POST', '/offers', { body: { expires_in_s: 60 } });
    const claim = (key) => request(server, 'POST', '/api/workspaces/claim', { body: { token: offer.token }, key: key.secret });
    const taken = await claim(keys.foreign);
    assert.equal(taken.status, 200, taken.text);
    assert.deepEqual([taken.body.owner, taken.body.id], [keys.foreign.id, w.id]);
    assert.ok((await claim(keys.human)).status >= 400, 'once');
    const f = w.as(keys.foreign.secret);
    assert.equal((await f.get('data.csv')).text, '1,2');
    const [h] = (await f.history()).data;
    assert.deepEqual([h.version, h.author], [made.version, keys.agent.id], 'its history goes along');
    const next = await server.session({ workspace: w.id }, { key: keys.foreign.secret });
    assert.deepEqual(await next.json(READING), { 'data.csv': '1,2' });
  });
});

describe('I3 what is foreign', () => {
  const BODIES = {
    'PUT /api/workspaces/{ws}/mirror': { destination: 's3://none/x' }, 'POST /api/workspaces/{ws}/attach': { source: 's3://none/x' },
    'PATCH /api/workspaces/{ws}': { name: 'x' }, 'PUT /api/workspaces/{ws}/members/{principal}': { role: 'viewer' }, 'POST /api/workspaces/{ws}/transfer': { to: 'PRINCIPAL' },
    'POST /api/workspaces/{ws}/move': { from: 'a', to: 'b' }, 'POST /api/workspaces/{ws}/copy': { from: 'a', to: 'b' }, 'POST /api/workspaces/{ws}/restore': { version: 'VERSION' },
    'POST /api/workspaces/{ws}/locks': { path: 'a' }, 'POST /api/workspaces/{ws}/uploads': { path: 'x' }, 'POST /api/workspaces/{ws}/locks/{lock}/renew': { token: 'TOKEN' },
    'PUT /api/workspaces/{ws}/files/{path}': Buffer.from('x'), 'PUT /api/uploads/{id}/parts/{number}': Buffer.from('x'), 'PUT /api/sessions/{id}/files/{path}': Buffer.from('x'),
    'PATCH /api/sessions/{id}': { sharing: 'tenant' }, 'POST /api/sessions/{id}/executions': { code: '1' }, 'PUT /api/sessions/{id}/network': { mode: 'none' },
    'POST /api/sessions/{id}/complete': { code: 'pri' }, 'POST /api/sessions/{id}/inspect': { code: 'print' }, 'POST /api/executions/{id}/input': { text: '' },
    'POST /api/workspaces/{ws}/tools': { name: 'x', language: 'python', code: '1' }, 'POST /api/workspaces/{ws}/tools/{name}/run': { arguments: {} },
  };
  const QUERIES = { 'GET /api/workspaces/{ws}/diff': '?path=a', 'DELETE /api/workspaces/{ws}/locks/{lock}': '?force=true' };
  const PREFIX = { ws: 'ws', lock: 'lock', offer: 'offer', share: 'share', file: 'file', version: 'ver', principal: 'key' };
  // Ids of a tenant that are not part of a workspace, or belong to nobody.
  const ELSEWHERE = /^\/api\/(keys|pools|runtimes|policy|tokens|quotas|approvals|secrets|agents|models)|^\/s\//;
  const NOT_THEIRS = /admin|approve|audit/; // scopes these keys lack: refused alike, whatever is asked for

  async function compare(mine, reader) {
    const doc = await openapi(server);
    const w = await make({ private: true }, mine);
    await w.write('a', 'one');
    const file = await w.write('a', 'two');
    const s = await on(w, { key: mine });
    const e = await well(s.python(writing({ 'of/session': 'x' }), { metadata: { conversation: `talk-${w.id}` } }));
    const ids = { ws: w.id, file: file.file_id, version: file.version, lock: (await lock(w, { path: 'l', ttl_s: 600 })).id, offer: (await w.ok('POST', '/offers')).id,
      share: (await request(server, 'POST', '/api/shares', { body: { workspace: w.id, path: 'a' }, key: mine.secret })).body.id, principal: reader.id,
      upload: (await w.ok('POST', '/uploads', { body: { path: 'u' } })).id, session: s.id, execution: e.id, conversation: `talk-${w.id}` };
    const before = JSON.stringify([await w.info(), await w.list(), await w.ok('GET', '/locks'), await w.ok('GET', '/members')]);
    const fill = (pattern, known) => pattern.replace(/\{(\w+)\}/g, (_, name) => {
      if (name === 'path') return 'a';
      if (name === 'number') return '1';
      if (name === 'name') return 'x'; // a tool of the workspace
      if (name === 'principal') return ids.principal;
      if (name === 'conversation') return known ? ids.conversation : `talk-${unknownId('ws')}`;
      const kind = name !== 'id' ? name : /uploads/.test(pattern) ? 'upload' : /executions/.test(pattern) && !/sessions/.test(pattern) ? 'execution' : 'session';
      const prefix = { upload: 'up', execution: 'exec', session: 'sess' }[kind] ?? PREFIX[kind] ?? assert.fail(`${pattern}: what is ${name}?`);
      return known ? ids[kind] : unknownId(prefix);
    });
    // What the caller sent may come back.
    const bare = (answer) => ({ status: answer.status, text: answer.text.replace(/talk-ws_[0-9a-f]{32}/, 'talk'),
      headers: Object.entries(answer.headers).filter(([name]) => !['date', 'x-request-id'].includes(name)).sort() });
    const ask = async (method, pattern, known) => {
      const route = `${method} ${pattern}`;
      let body = BODIES[route];
      let headers = {};
      if (body && !Buffer.isBuffer(body)) body = JSON.parse(JSON.stringify(body).replace('PRINCIPAL', ids.principal).replace('VERSION', known ? ids.version : unknownId('ver')).replace('TOKEN', 'f'.repeat(64)));
      if (route === 'POST /api/workspaces/{ws}/files') ({ body, headers } = form([{ filename: 'x', body: 'x' }]));
      return bare(await request(server, method, fill(pattern, known) + (QUERIES[route] ?? ''), { body, headers, key: reader.secret }));
    };
    let routes = 0;
    for (const [pattern, operations] of Object.entries(doc.paths)) {
      if (!/\{/.test(pattern) || ELSEWHERE.test(pattern)) continue;
      for (const method of Object.keys(operations).filter((m) => ['get', 'put', 'post', 'patch', 'delete'].includes(m)).map((m) => m.toUpperCase())) {
        if (NOT_THEIRS.test(operations[method.toLowerCase()]['x-glovebox-scope'])) continue;
        const [known, unknown] = [await ask(method, pattern, true), await ask(method, pattern, false)];
        assert.deepEqual(known, unknown, `${method} ${pattern}`);
        assert.ok(known.status === 404 || pattern.includes('/conversations/'), `${method} ${pattern}: ${known.status} ${known.text}`);
        routes++;
      }
    }
    assert.ok(routes > 25, `${routes} routes`);
    for (const [method, path, body] of [['POST', '/api/sessions', { workspace: 'ID' }], ['POST', '/api/run', { code: '1', workspace: 'ID' }], ['POST', '/api/shares', { workspace: 'ID', path: 'a' }],
      ['GET', '/api/shares?workspace=ID'], ['GET', '/api/search?q=two&workspace=ID'], ['GET', '/api/search/status?workspace=ID']]) {
      const with_ = async (id) => bare(await request(server, method, path.replace('ID', id), { body: body && JSON.parse(JSON.stringify(body).replace('ID', id)), key: reader.secret }));
      assert.deepEqual(await with_(w.id), await with_(unknownId('ws')), `${method} ${path}`);
    }
    for (const [list, id] of [['/api/workspaces?limit=1000', w.id], ['/api/shares', ids.share]])
      assert.ok(!(await request(server, 'GET', list, { key: reader.secret })).text.includes(id), list);
    assert.equal(JSON.stringify([await w.info(), await w.list(), await w.ok('GET', '/locks'), await w.ok('GET', '/members')]), before, 'nothing happened');
  }

  test('I3: another tenant gets the same bytes for a known and for an unknown id, on every route', () => compare(keys.agent, keys.foreign));
  test('I3: so does a key of the same tenant that a private workspace leaves out', () => compare(keys.agent, keys.other));
});
