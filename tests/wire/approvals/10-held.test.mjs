// SPDX-License-Identifier: Apache-2.0
// What policy holds until a person has answered: nothing runs before, it runs
// once after, and never by the word of who asked.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { ASKS, approvals, decide, ended, policy, show } from '../../lib/approvals.mjs';
import { Glovebox, pool, sleep, until } from '../../lib/glovebox.mjs';
import { Stream, request, stop } from '../../lib/wire.mjs';
import { Workspace, conforms, mint, openapi, unknownId } from '../../lib/workspace.mjs';

let server;
let doc;
let agent; // asks
let boss; // approves

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 1 })] } });
  agent = await mint(server, ['execute', 'files:read', 'files:write', 'approve'], { name: 'agent' });
  boss = await mint(server, ['approve'], { name: 'boss' });
  doc = await openapi(server);
  await policy(server, ASKS);
});
after(() => stop(server));

const as = (key) => ({ key: key.secret });
const session = (spec) => server.session(spec, as(agent));
const shell = (s, code, extra = {}) => request(server, 'POST', `${s.path}/executions`, { key: agent.secret, body: { language: 'shell', code, ...extra } });
const exists = async (s, name) => (await s.python(`import os\nprint(os.path.exists("/mnt/data/${name}"))`)).stdout.trim() === 'True';
const refusal = (got, status, code) => {
  assert.equal(got.status, status, got.text);
  assert.equal(got.body.error.code, code, got.text);
  return got.body.error;
};

async function held(s, code, extra) {
  const got = await shell(s, code, extra);
  assert.equal(got.status, 202, got.text);
  assert.equal(got.body.status, 'pending_approval');
  assert.equal(got.body.outcome, null);
  assert.match(got.body.approval, /^apr_[0-9a-f]{32}$/);
  return got.body;
}

describe('a held execution', () => {
  test('runs once somebody else has approved it, and not before', async () => {
    const s = await session();
    const e = await held(s, 'echo once >> marker; echo done', { metadata: { conversation: 'c1', message: 'm1' } });
    assert.equal((await s.python('1')).outcome, 'ok', 'the session goes on meanwhile');
    assert.equal(await exists(s, 'marker'), false);
    const waiting = await show(server, e.approval, boss.secret);
    assert.equal(waiting.state, 'pending');
    assert.equal(waiting.payload.code, 'echo once >> marker; echo done');
    assert.equal(waiting.execution, e.id);
    assert.equal(waiting.rule, 'shell-needs-approval');
    assert.equal(waiting.asked_by, agent.id);
    assert.ok(!waiting.summary.includes('marker'), 'the summary has no code');
    assert.deepEqual([waiting.reach.network, waiting.reach.pool], [{ mode: 'none', destinations: [], packages: false }, 'default'], 'what it would reach');
    const listed = (await approvals(server, '?state=pending&limit=1', boss.secret)).data[0];
    assert.equal(listed.id, e.approval);
    assert.ok(!('payload' in listed));
    assert.match((await server.call('GET', '/metrics')).text, /^glovebox_approvals_pending 1$/m);
    const yes = await decide(server, e.approval, 'approve', boss.secret, { reason: 'looks fine' });
    assert.equal(yes.status, 200, yes.text);
    conforms(doc, 'POST', '/api/approvals/{id}/approve', yes);
    assert.equal(yes.body.state, 'approved');
    const run = await ended(server, e.id);
    assert.equal(run.outcome, 'ok');
    assert.equal(run.stdout, 'done\n');
    assert.equal(run.approval, e.approval);
    assert.deepEqual(run.metadata, { conversation: 'c1', message: 'm1' });
    assert.equal(await exists(s, 'marker'), true);
    const settled = await until(async () => {
      const a = await show(server, e.approval);
      return a.run === 'done' && a;
    }, { what: 'its end on record' });
    assert.equal(settled.outcome, 'ok');
    assert.equal('code' in settled.payload, false, 'the evidence has it, not the approval');
    assert.equal(settled.decided_by, boss.id);
    assert.equal(settled.reason, 'looks fine');
    const again = await decide(server, e.approval, 'approve', boss.secret);
    refusal(again, 409, 'conflict');
    await sleep(300);
    assert.equal((await s.python('print(open("/mnt/data/marker").read())')).stdout.trim(), 'once', 'exactly once');
    assert.match((await server.call('GET', '/metrics')).text, /^glovebox_approvals_pending 0$/m);
  });

  test('is denied with a reason, and who asked reads it', async () => {
    const s = await session();
    const e = await held(s, 'touch denied');
    refusal(await decide(server, e.approval, 'deny', boss.secret), 400, 'invalid_request');
    refusal(await decide(server, e.approval, 'deny', boss.secret, { reason: 'x'.repeat(501) }), 400, 'invalid_request');
    const no = await decide(server, e.approval, 'deny', boss.secret, { reason: 'not on a Friday' });
    assert.equal(no.body.state, 'denied', no.text);
    const run = await server.ok('GET', `/api/executions/${e.id}`, undefined, as(agent));
    assert.equal(run.status, 'completed');
    assert.equal(run.outcome, 'denied');
    assert.match(run.error.message, /not on a Friday/);
    assert.equal(await exists(s, 'denied'), false);
    refusal(await decide(server, e.approval, 'approve', boss.secret), 409, 'conflict');
  });

  test('is not decided by who asked, whatever the scopes', async () => {
    const s = await session();
    const e = await held(s, 'touch own');
    assert.match(refusal(await decide(server, e.approval, 'approve', agent.secret), 403, 'forbidden').message, /made this request/);
    refusal(await decide(server, e.approval, 'deny', agent.secret, { reason: 'mine' }), 403, 'forbidden');
    // Nor by a token of the same key.
    const token = await request(server, 'POST', '/api/tokens', { key: agent.secret, body: { ttl_s: 60 } });
    if (token.status !== 404) {
      assert.equal(token.status, 201, token.text);
      refusal(await decide(server, e.approval, 'approve', token.body.secret), 403, 'forbidden');
    }
    assert.equal((await show(server, e.approval)).state, 'pending');
    assert.equal(await exists(s, 'own'), false);
    // What the admin asks, the admin does not approve either.
    const mine = (await request(server, 'POST', `/api/sessions/${(await server.session()).id}/executions`, { body: { language: 'shell', code: 'true' } })).body;
    refusal(await decide(server, mine.approval, 'approve', server.key), 403, 'forbidden');
    const events = await until(async () => {
      const { data } = await server.ok('GET', `/api/audit?object=${e.approval}&limit=100`);
      return data.some((l) => l.action === 'approval.refused') && data;
    }, { what: 'the refusal in the trail' });
    assert.ok(events.some((l) => l.action === 'approval.ask' && l.actor === agent.id));
    assert.ok(!JSON.stringify(events).includes('touch own'), 'no code in the trail');
  });

  test('is not there for others: foreign, unknown, without the scope', async () => {
    const s = await session();
    const e = await held(s, 'true');
    const foreign = await mint(server, ['approve', 'admin'], { tenant: 'elsewhere' });
    const plain = await mint(server, ['execute']);
    for (const id of [e.approval, unknownId('apr'), 'nonsense'])
      for (const verb of ['approve', 'deny'])
        refusal(await decide(server, id, verb, foreign.secret, { reason: 'x' }), 404, 'not_found');
    refusal(await request(server, 'GET', `/api/approvals/${e.approval}`, { key: foreign.secret }), 404, 'not_found');
    refusal(await request(server, 'GET', `/api/approvals/${e.approval}`, { key: plain.secret }), 404, 'not_found');
    refusal(await request(server, 'DELETE', `/api/approvals/${e.approval}`, { key: plain.secret }), 404, 'not_found');
    refusal(await decide(server, e.approval, 'approve', plain.secret), 403, 'forbidden');
    refusal(await decide(server, unknownId('apr'), 'approve', boss.secret), 404, 'not_found');
    assert.deepEqual((await approvals(server, '', foreign.secret)).data, []);
    assert.deepEqual((await approvals(server, '', plain.secret)).data, []);
    assert.ok((await approvals(server, '', agent.secret)).data.some((a) => a.id === e.approval), 'who asked sees its own');
    refusal(await request(server, 'GET', `/api/executions/${e.id}`, { key: foreign.secret }), 404, 'not_found');
  });

  test('is withdrawn by who asked, or by cancelling it', async () => {
    const s = await session();
    const one = await held(s, 'touch w1');
    const two = await held(s, 'touch w2');
    refusal(await request(server, 'DELETE', `/api/approvals/${one.approval}`, { key: boss.secret }), 403, 'forbidden');
    assert.equal((await request(server, 'DELETE', `/api/approvals/${one.approval}`, { key: agent.secret })).status, 204);
    assert.equal((await request(server, 'POST', `/api/executions/${two.id}/cancel`, { key: agent.secret })).status, 202);
    for (const e of [one, two]) {
      assert.equal((await show(server, e.approval)).state, 'withdrawn');
      assert.equal((await server.ok('GET', `/api/executions/${e.id}`)).outcome, 'cancelled');
      refusal(await decide(server, e.approval, 'approve', boss.secret), 409, 'conflict');
    }
    refusal(await request(server, 'DELETE', `/api/approvals/${one.approval}`, { key: agent.secret }), 409, 'conflict');
    assert.equal(await exists(s, 'w1'), false);
  });

  test('goes with its session', async () => {
    const s = await session();
    const e = await held(s, 'touch gone');
    await s.delete();
    assert.equal((await show(server, e.approval)).state, 'withdrawn');
    refusal(await decide(server, e.approval, 'approve', boss.secret), 409, 'conflict');
    refusal(await request(server, 'GET', `/api/executions/${e.id}`), 404, 'not_found');
  });

  test('streams say so and end; async and streamed ones run as well', async () => {
    const s = await session();
    const stream = await Stream.open(server, 'POST', `${s.path}/executions`, { key: agent.secret, body: { language: 'shell', code: 'echo streamed', mode: 'stream' } });
    const { data } = await stream.done();
    assert.equal(data.status, 'pending_approval');
    const said = stream.events.find((x) => x.event === 'status' && x.data.status === 'pending_approval');
    assert.equal(said.data.approval, data.approval);
    const later = await Stream.open(server, 'GET', `/api/executions/${data.id}/events`, { key: agent.secret });
    assert.equal((await later.done()).data.status, 'pending_approval');
    const e = await held(s, 'echo async', { mode: 'async' });
    for (const [one, out] of [[data, 'streamed\n'], [e, 'async\n']]) {
      assert.equal((await decide(server, one.approval, 'approve', boss.secret)).status, 200);
      assert.equal((await ended(server, one.id)).stdout, out);
    }
    const whole = await Stream.open(server, 'GET', `/api/executions/${data.id}/events`, { key: agent.secret });
    assert.equal((await whole.done()).data.outcome, 'ok');
    assert.equal(whole.text(), 'streamed\n');
  });

  test('of a single run keeps its session', async () => {
    const got = await request(server, 'POST', '/api/run', { key: agent.secret, body: { language: 'shell', code: 'cat in.txt; echo made > out.txt', files: [{ path: 'in.txt', content_base64: Buffer.from('hello\n').toString('base64') }] } });
    assert.equal(got.status, 202, got.text);
    assert.equal((await server.ok('GET', `/api/sessions/${got.body.session}`)).id, got.body.session);
    assert.equal((await decide(server, got.body.approval, 'approve', boss.secret)).status, 200);
    const run = await ended(server, got.body.id);
    assert.equal(run.outcome, 'ok', JSON.stringify(run));
    assert.equal(run.stdout, 'hello\n');
    assert.deepEqual(run.files.created.map((f) => f.path), ['out.txt']);
    await server.ok('DELETE', `/api/sessions/${got.body.session}`);
  });

  test('runs in a session that sleeps', async () => {
    const s = await session({ cooldown_s: 1 });
    const e = await held(s, 'echo awake');
    await until(async () => (await server.ok('GET', s.path)).state === 'dormant', { ms: 20_000, what: 'sleep' });
    assert.equal((await decide(server, e.approval, 'approve', boss.secret)).status, 200);
    assert.equal((await ended(server, e.id)).stdout, 'awake\n');
  });

  test('a no of the policy since then still wins', async () => {
    const s = await session();
    const e = await held(s, 'touch late');
    try {
      await policy(server, 'version: 1\nrules:\n  - {name: no-shell, match: {action: execute, language: shell}, then: deny}\n');
      assert.equal((await decide(server, e.approval, 'approve', boss.secret)).status, 200);
      const run = await ended(server, e.id);
      assert.equal(run.outcome, 'denied');
      assert.match(run.error.message, /no-shell/);
      assert.equal(await exists(s, 'late'), false);
    } finally {
      await policy(server, ASKS);
    }
  });

  test('that nobody answers expires', async () => {
    const s = await session();
    try {
      await policy(server, 'version: 1\nrules:\n  - {name: quick, match: {action: execute, language: shell}, then: ask, expires_s: 5}\n');
      const e = await held(s, 'touch expired');
      assert.equal((await until(async () => {
        const a = await show(server, e.approval);
        return a.state !== 'pending' && a;
      }, { ms: 20_000, what: 'its expiry' })).state, 'expired');
      refusal(await decide(server, e.approval, 'approve', boss.secret), 409, 'conflict');
      const run = await server.ok('GET', `/api/executions/${e.id}`);
      assert.equal(run.outcome, 'denied');
      assert.equal(await exists(s, 'expired'), false);
    } finally {
      await policy(server, ASKS);
    }
  });

  test('many approved at once all run', async () => {
    const s = await session();
    const all = [];
    for (let i = 0; i < 8; i++) all.push(await held(s, `echo ${i} >> many`));
    await Promise.all(all.map((e) => decide(server, e.approval, 'approve', boss.secret)));
    for (const e of all) assert.equal((await ended(server, e.id)).outcome, 'ok');
    assert.equal((await s.python('print(len(open("/mnt/data/many").readlines()))')).stdout.trim(), '8');
  });
});

describe('what the client repeats', () => {
  test('a link is made when it is asked again after a yes, once', async () => {
    const w = await Workspace.create(server, { name: 'shared' }, agent.secret);
    await w.write('a.txt', 'a');
    const ask = () => request(server, 'POST', '/api/shares', { key: agent.secret, body: { workspace: w.id, path: 'a.txt' } });
    const first = await ask();
    const error = refusal(first, 202, 'pending_approval');
    assert.match(error.approval, /^apr_/);
    assert.equal((await ask()).body.error.approval, error.approval, 'the same ask');
    refusal(await decide(server, error.approval, 'approve', agent.secret), 403, 'forbidden');
    assert.equal((await decide(server, error.approval, 'approve', boss.secret)).body.action, 'share');
    const other = await request(server, 'POST', '/api/shares', { key: agent.secret, body: { workspace: w.id, path: 'a.txt', mode: 'write' } });
    refusal(other, 202, 'pending_approval');
    assert.equal((await ask()).status, 201);
    assert.equal((await show(server, error.approval)).run, 'done');
    const next = refusal(await ask(), 202, 'pending_approval');
    assert.notEqual(next.approval, error.approval);
    assert.equal((await decide(server, next.approval, 'deny', boss.secret, { reason: 'enough' })).status, 200);
    assert.match(refusal(await ask(), 403, 'forbidden').message, /enough/);
  });

  test('a workspace is handed over the same way', async () => {
    const w = await Workspace.create(server, { name: 'given' }, agent.secret);
    const heir = await mint(server, ['execute', 'files:read'], { name: 'heir' });
    const give = () => request(server, 'POST', `/api/workspaces/${w.id}/transfer`, { key: agent.secret, body: { to: heir.id } });
    const error = refusal(await give(), 202, 'pending_approval');
    assert.equal((await decide(server, error.approval, 'approve', boss.secret)).body.action, 'transfer');
    assert.equal((await give()).status, 200);
  });
});

describe('lists', () => {
  test('page, and are told what is wrong', async () => {
    const page = await approvals(server, '?limit=2', boss.secret);
    assert.equal(page.data.length, 2);
    assert.equal(page.has_more, true);
    const next = await approvals(server, `?limit=2&after=${page.data[1].id}`, boss.secret);
    assert.ok(!next.data.some((a) => page.data.map((p) => p.id).includes(a.id)));
    for (const bad of ['?state=open', '?limit=0', '?limit=1001', '?after=apr_1'])
      refusal(await request(server, 'GET', `/api/approvals${bad}`), 400, 'invalid_request');
    assert.equal((await approvals(server, '?limit=1000', boss.secret)).data.length > 2, true);
  });
});
