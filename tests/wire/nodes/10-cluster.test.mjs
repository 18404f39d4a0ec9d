// SPDX-License-Identifier: Apache-2.0
// Three nodes on one PostgreSQL and one S3 server: any node serves any session.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ASKS, decide, policy, show } from '../../lib/approvals.mjs';
import { Cluster } from '../../lib/cluster.mjs';
import { until } from '../../lib/glovebox.mjs';
import { Stream } from '../../lib/wire.mjs';

let c;
before(async () => { c = await Cluster.start({ lease: 12 }); });
after(async () => { await c?.stop(); });

const others = (node) => c.nodes.filter((g) => g !== node);

test('every node lists all nodes, and itself as the one that answers', async () => {
  for (const g of c.nodes) {
    const { data } = await g.ok('GET', '/api/nodes');
    assert.deepEqual(data.map((n) => [n.name, n.state, n.self]), ['n1', 'n2', 'n3'].map((n) => [n, 'active', n === `n${g.index + 1}`]));
    assert.ok(data.every((n) => n.lease_left_ms > 0 && n.memory_bytes > 0 && n.cores > 0));
  }
});

test('a session is used through every node, and keeps its variables', async () => {
  const s = await c.nodes[0].session();
  assert.ok(c.owner(s.id));
  await s.out('x = 1');
  for (const g of [...c.nodes, ...c.nodes]) {
    const e = await g.ok('POST', `/api/sessions/${s.id}/executions`, { language: 'python', code: 'x += 1; print(x)' });
    assert.equal(e.outcome, 'ok');
    assert.equal(e.error, null);
  }
  assert.equal(await s.out('print(x)'), '7');
  assert.equal((await c.nodes[1].ok('GET', `/api/sessions/${s.id}`)).id, s.id);
});

test('files and executions are seen through every node', async () => {
  const s = await c.nodes[1].session();
  const e = await s.python("open('a.txt','w').write('hello'); print('done')");
  for (const g of c.nodes) {
    const file = await g.call('GET', `/api/sessions/${s.id}/files/a.txt`);
    assert.equal(file.status, 200);
    assert.equal(file.text, 'hello');
    assert.equal((await g.ok('GET', `/api/executions/${e.id}`)).stdout, 'done\n');
  }
  const big = Buffer.alloc(9_000_000, 'y');
  for (const g of c.nodes) {
    const put = await g.call('PUT', `/api/sessions/${s.id}/files/big-${g.index}`, big, { raw: true });
    assert.equal(put.status, 201, put.text);
  }
  for (const g of c.nodes)
    assert.equal((await g.call('GET', `/api/sessions/${s.id}/files/big-${g.index}`)).bytes.length, big.length);
});

test('a stream through another node comes as it is made, and ends when the client leaves', async () => {
  const s = await c.nodes[2].session();
  const via = others(c.owner(s.id))[0];
  const cut = new AbortController();
  const response = await fetch(`${via.url}/api/sessions/${s.id}/executions`, { method: 'POST', signal: cut.signal,
    headers: { authorization: `Bearer ${via.key}`, 'content-type': 'application/json', accept: 'text/event-stream' },
    body: JSON.stringify({ language: 'python', mode: 'stream', code: "import time\nfor i in range(600):\n  print('tick', i, flush=True); time.sleep(0.1)" }) });
  assert.equal(response.status, 200);
  let text = '';
  for await (const chunk of response.body) { text += Buffer.from(chunk); if (/tick 3/.test(text)) break; }
  assert.match(text, /tick 3/);
  assert.doesNotMatch(text, /tick 300/);
  cut.abort();
});

test('an answer that is waited for is cancelled when its client leaves the other node', async () => {
  const s = await c.nodes[0].session();
  const via = others(c.owner(s.id))[0];
  const cut = new AbortController();
  const waits = fetch(`${via.url}/api/sessions/${s.id}/executions`, { method: 'POST', signal: cut.signal,
    headers: { authorization: `Bearer ${via.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ language: 'python', code: 'import time; time.sleep(60)' }) }).catch(() => {});
  await until(async () => (await via.ok('GET', `/api/sessions/${s.id}`)).state === 'running', { ms: 60_000, what: 'it runs' });
  cut.abort();
  await waits;
  await until(async () => (await via.ok('GET', `/api/sessions/${s.id}`)).state !== 'running', { ms: 45_000, what: 'it was cancelled' });
});

test('doors: a container and an MCP call find their session through every node', async () => {
  const made = await c.nodes[0].ok('POST', '/v1/containers', { name: 'box' });
  for (const g of c.nodes) assert.equal((await g.ok('GET', `/v1/containers/${made.id}`)).id, made.id);
  const s = await c.nodes[0].session();
  await s.out('z = 41');
  for (const g of c.nodes) {
    const r = await g.call('POST', '/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/call',
      params: { name: 'execute_python', arguments: { session_id: s.id, code: 'print(z + 1)' },
        _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientInfo': { name: 't', version: '1' }, 'io.modelcontextprotocol/clientCapabilities': {} } } },
      { headers: { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'execute_python' } });
    assert.match(r.text, /42/, `n${g.index + 1}: ${r.status} ${r.text.slice(0, 400)}`);
  }
});

test('refusals of the other node come back as they are', async () => {
  const s = await c.nodes[0].session();
  for (const g of c.nodes) {
    assert.equal((await g.call('GET', `/api/sessions/${s.id}/files/none`)).status, 404);
    assert.equal((await g.call('POST', `/api/sessions/${s.id}/executions`, { language: 'nope', code: '' })).status, 400);
    assert.equal((await g.call('GET', `/api/sessions/${s.id}`, undefined, { key: 'wrong' })).status, 401);
    assert.equal((await g.call('GET', '/api/sessions/sess_00000000000000000000000000000000')).status, 404);
  }
});

test('N4: the listener for nodes refuses everyone else', async () => {
  const node = (await c.nodes[0].ok('GET', '/api/nodes')).data[0];
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
  try {
    const r = await fetch(`https://${node.address}/api/sessions`, { headers: { authorization: `Bearer ${c.nodes[0].key}` } });
    assert.equal(r.status, 403);
  } finally {
    delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
  }
});

/** Waits for what a notification changes. A second is the aim; a busy machine gets more. */
const everywhere = async (what, fn) => { for (const g of c.nodes) await until(() => fn(g), { ms: 30_000, what: `${what} on n${g.index + 1}` }); };

test('N5: a key that is made, and deleted, on one node counts on every node', async () => {
  const made = await c.nodes[0].ok('POST', '/api/keys', { tenant: 'other', scopes: ['execute'] });
  const works = (g) => g.call('GET', '/api/sessions', undefined, { key: made.secret }).then((r) => r.status);
  await everywhere('the key works', async (g) => (await works(g)) === 200);
  await c.nodes[1].ok('DELETE', `/api/keys/${made.id}`);
  await everywhere('the key is gone', async (g) => (await works(g)) === 401);
});

test('N5: a quota that is set on one node limits every node', async () => {
  const { secret } = await c.nodes[0].ok('POST', '/api/keys', { tenant: 'small', scopes: ['execute'] });
  await everywhere('the key works', async (g) => (await g.call('GET', '/api/sessions', undefined, { key: secret })).status === 200);
  const sessions = await Promise.all(c.nodes.map((g) => g.ok('POST', '/api/sessions', {}, { key: secret })));
  const runs = (g) => g.call('POST', `/api/sessions/${sessions[g.index].id}/executions`, { language: 'python', code: '1' }, { key: secret }).then((r) => r.status);
  const limit = async (g) => (await g.ok('GET', '/api/quotas/small')).quotas.find((q) => q.name === 'executions_per_hour').limit;
  await everywhere('it runs', async (g) => (await runs(g)) === 200);
  await c.nodes[1].ok('PUT', '/api/quotas/small', { executions_per_hour: 1 });
  await everywhere('the limit holds', async (g) => (await limit(g)) === 1 && (await runs(g)) === 429);
  await c.nodes[2].ok('PUT', '/api/quotas/small', { executions_per_hour: 1000 });
  await everywhere('it runs again', async (g) => (await limit(g)) === 1000 && (await runs(g)) === 200);
});

test('N5: policy, approvals and events of one node are seen on every node', async () => {
  const key = async (name, scopes) => (await c.nodes[0].ok('POST', '/api/keys', { name, scopes })).secret;
  const agent = await key('agent', ['execute', 'files:read', 'files:write']), boss = await key('boss', ['approve']);
  await everywhere('both keys work', async (g) => (await Promise.all([agent, boss].map((k) => g.call('GET', '/api/me', undefined, { key: k })))).every((r) => r.status === 200));
  const s = await c.nodes[0].ok('POST', '/api/sessions', {}, { key: agent });
  const shell = (g) => g.call('POST', `/api/sessions/${s.id}/executions`, { language: 'shell', code: 'echo yes' }, { key: agent });
  const streams = await Promise.all(c.nodes.map((g) => Stream.open(g, 'GET', '/api/events', { key: g.key })));
  try {
    await Promise.all(streams.map((stream) => until(() => stream.events.length, { ms: 30_000, what: 'the first event' })));
    const seen = (what, match) => Promise.all(streams.map((stream, i) => until(() => stream.events.find((e) => match(e.event, e.data)), { ms: 30_000, what: `${what} in the events of n${i + 1}` })));
    await policy(c.nodes[1], ASKS);
    await everywhere('shell is held', async (g) => (await shell(g)).status === 202);
    const held = (await shell(c.nodes[0])).body;
    await everywhere('the approval waits', async (g) => (await show(g, held.approval, boss)).state === 'pending');
    await seen('the approval', (type, d) => type === 'approval' && d.object === held.approval);
    const yes = await decide(c.nodes[2], held.approval, 'approve', boss);
    assert.equal(yes.status, 200, yes.text);
    await everywhere('it ran', async (g) => { const e = await g.ok('GET', `/api/executions/${held.id}`, undefined, { key: agent }); return e.outcome === 'ok' && e.stdout === 'yes\n'; });
    await seen('its end', (type, d) => type === 'execution' && d.execution === held.id && d.status === 'completed' && d.outcome === 'ok');
    await seen('the session', (type, d) => type === 'session' && d.session === s.id);
    await policy(c.nodes[0], 'version: 1\nrules: []\n');
    await everywhere('shell is free', async (g) => (await shell(g)).status === 200);
  } finally {
    for (const stream of streams) stream.request.destroy();
  }
});

test('draining: no new session, idle ones wake elsewhere with their files, /readyz says so', async () => {
  const s = await c.nodes[0].session();
  await s.python("open('kept.txt','w').write('kept')");
  const owner = c.owner(s.id), via = others(owner)[0], name = `n${owner.index + 1}`;
  try {
    assert.equal((await via.ok('POST', `/api/nodes/${name}/drain`)).state, 'draining');
    await until(async () => (await fetch(`${owner.url}/readyz`)).status === 503, { ms: 60_000, what: 'the draining node is not ready' });
    await until(() => c.postgres.psql(`SELECT state FROM leases WHERE session='${s.id}'`) !== '1', { ms: 60_000, what: 'it sleeps' });
    const e = await via.ok('POST', `/api/sessions/${s.id}/executions`, { language: 'python', code: "print(open('kept.txt').read())" });
    assert.equal(e.stdout, 'kept\n');
    assert.notEqual(c.ownerName(s.id), name);
    for (let i = 0; i < 6; i++) assert.notEqual(c.ownerName((await owner.session()).id), name);
  } finally {
    await via.ok('POST', `/api/nodes/${name}/activate`);
  }
  await until(async () => (await fetch(`${owner.url}/readyz`)).status === 200, { ms: 60_000, what: 'it is ready again' });
});

const fenceOf = (s) => Number(c.postgres.psql(`SELECT fence FROM leases WHERE session='${s.id}'`));
const leaseLeft = (g) => Number(c.postgres.psql(`SELECT lease_until_ms - (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM nodes WHERE name = 'n${g.index + 1}' AND state <> 'gone'`) || -1);
const asleepFor = 8; // seconds; less than the lease

/** A draining node, other than `not`, that is paused while an execution writes a file. The pause outlasts its lease. */
async function pause(not) {
  for (let i = 0; i < 5; i++) {
    const s = await others(not)[0].session(), owner = c.owner(s.id);
    if (owner === not) continue;
    const via = others(owner).find((g) => g !== not), name = `n${owner.index + 1}`;
    await s.python("open('who.txt','w').write('first')");
    const fence = fenceOf(s);
    let answered = false;
    const stale = via.call('POST', `/api/sessions/${s.id}/executions`,
      { language: 'python', code: `import time; time.sleep(${asleepFor}); open('who.txt','w').write('stale')` }).finally(() => { answered = true; });
    await until(async () => (await via.ok('GET', `/api/sessions/${s.id}`)).state === 'running', { ms: 30_000, what: 'it runs' });
    await via.ok('POST', `/api/nodes/${name}/drain`);
    await until(async () => (await fetch(`${owner.url}/readyz`)).status === 503, { ms: 60_000, what: 'it drains' });
    owner.child.kill('SIGSTOP');
    if (!answered) return { s, owner, via, name, fence, stale };
    owner.child.kill('SIGCONT'); // the machine was too busy: the file was written before
    await via.ok('POST', `/api/nodes/${name}/activate`);
  }
  assert.fail('no execution was under way when its node was paused');
}
let paused;

test('N2 N3: a killed node loses no file; its execution ends as lost, its session wakes elsewhere', async () => {
  const s = await c.nodes[0].session();
  await s.python("open('safe.txt','w').write('acknowledged'); y = 5");
  const owner = c.owner(s.id);
  paused = await pause(owner); // for the next case, which then need not wait for a lease of its own
  const { via } = paused;
  const running = await via.ok('POST', `/api/sessions/${s.id}/executions`, { language: 'python', code: 'import time; time.sleep(100)', mode: 'async' });
  owner.child.kill('SIGKILL');
  await owner.exited;
  const early = await via.call('POST', `/api/sessions/${s.id}/executions`, { language: 'python', code: '1' });
  if (leaseLeft(owner) > 0) {
    assert.equal(early.status, 503, early.text);
    assert.ok(Number(early.headers.get('retry-after')) > 0);
  }
  const e = await until(async () => {
    const r = await via.call('POST', `/api/sessions/${s.id}/executions`, { language: 'python', code: "print(open('safe.txt').read())" });
    return r.status === 200 && r.body;
  }, { ms: 120_000, every: 250, what: 'the session wakes elsewhere' });
  assert.equal(e.stdout, 'acknowledged\n');
  const lost = await until(async () => { const r = await via.call('GET', `/api/executions/${running.id}`); return r.status === 200 && r.body.outcome && r.body; }, { ms: 60_000, what: 'the execution ended' });
  assert.equal(lost.outcome, 'lost');
  assert.match(JSON.stringify(lost.error), /stopped answering/);
  const back = await c.startNode(owner.index, { dir: owner.dir });
  c.nodes[c.nodes.indexOf(owner)] = back;
  assert.equal((await back.ok('GET', `/api/executions/${running.id}`)).outcome, 'lost');
});

test('N1: a paused node commits nothing after another node has its session, and comes back as draining as it was', async () => {
  const { s, owner, via, name, fence, stale } = paused;
  const e = await until(async () => {
    const r = await via.call('POST', `/api/sessions/${s.id}/executions`, { language: 'python', code: "print(open('who.txt').read()); open('who.txt','w').write('second')" });
    return r.status === 200 && r.body;
  }, { ms: 120_000, every: 300, what: 'the session wakes elsewhere' });
  assert.equal(e.stdout, 'first\n');
  assert.ok(fenceOf(s) > fence);
  owner.child.kill('SIGCONT');
  const late = await stale;
  assert.ok(late.status !== 200 || (late.body.outcome !== 'ok' && !late.body.commit), late.text);
  const state = async () => (await via.ok('GET', '/api/nodes')).data.find((n) => n.name === name).state;
  // It registers again once it has stopped its sandboxes, so all that it could commit was refused by then.
  await until(async () => (await state()) !== 'gone', { ms: 60_000, what: 'it is back' });
  assert.equal(await state(), 'draining');
  assert.equal((await via.call('GET', `/api/sessions/${s.id}/files/who.txt`)).text, 'second');
  await via.ok('POST', `/api/nodes/${name}/activate`);
  await until(async () => (await fetch(`${owner.url}/readyz`)).status === 200, { ms: 60_000, what: 'it is ready again' });
});
