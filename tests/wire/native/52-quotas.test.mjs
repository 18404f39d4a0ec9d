// SPDX-License-Identifier: Apache-2.0
// Quotas as clients see them: typed refusals at every door, an operator's word,
// use that survives a restart, loops that are slowed.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { Glovebox, bin, pool, until } from '../../lib/glovebox.mjs';

const config = { quota_executions: 2, pools: [pool({ ready: 2 })] };
let g;

before(async () => { g = await Glovebox.start({ config }); });
after(() => g?.stop());

const set = (tenant, values, options) => g.call('PUT', `/api/quotas/${tenant}`, values, options);
const quotas = async (options) => Object.fromEntries((await g.ok('GET', '/api/quotas', undefined, options)).quotas.map((q) => [q.name, q]));

// What a refusal must tell: which, how much, how much of it, and when again.
function refused(answer, name, limit) {
  assert.equal(answer.status, 429, answer.text);
  assert.equal(answer.body.error.code, 'limit_reached');
  assert.equal(answer.body.error.quota.name, name);
  assert.equal(answer.body.error.quota.limit, limit);
  assert.ok(answer.body.error.quota.used >= 0);
  assert.ok(answer.body.error.message.length > 10 && answer.body.error.hint.length > 10);
  assert.ok(Number(answer.headers.get('retry-after')) >= 1);
  return answer.body.error;
}

test('every tenant sees its own, with limits, use and when it begins anew', async () => {
  const a = await g.tenant('sees');
  const before = await quotas(a);
  assert.deepEqual(Object.keys(before), ['live_sessions', 'executions', 'memory_bytes', 'creations_per_s', 'executions_per_hour',
    'cpu_s_per_hour', 'egress_bytes_per_day', 'output_tokens_per_hour', 'model_tokens_per_day',
    'model_microcents_per_day', 'key_model_tokens_per_day', 'key_model_microcents_per_day', 'storage_bytes']);
  assert.equal(before.executions.limit, 2);
  assert.equal(before.memory_bytes.limit, null);
  const s = await g.session({}, a);
  await s.out('print("x" * 400); open("f", "w").write("y" * 1000)');
  const later = await quotas(a);
  assert.equal(later.live_sessions.used, 1);
  assert.ok(later.memory_bytes.used > 0);
  assert.equal(later.executions_per_hour.used, 1);
  assert.ok(later.output_tokens_per_hour.used >= 100);
  assert.ok(later.storage_bytes.used >= 1000);
  assert.ok(new Date(later.executions_per_hour.resets_at) > Date.now() + 3500_000);
  assert.equal(later.live_sessions.resets_at, null);
  await s.delete();
  assert.equal((await quotas(a)).live_sessions.used, 0);
  assert.equal((await quotas(a)).memory_bytes.used, 0);
});

test('only operators see others and set any; what they say is checked and recorded', async () => {
  const a = await g.tenant('mere');
  assert.equal((await set('mere', { executions: 5 }, a)).status, 403);
  assert.equal((await g.call('GET', '/api/quotas/default', undefined, a)).status, 403);
  const admin = await g.ok('POST', '/api/keys', { tenant: 'mere', scopes: ['admin'] });
  assert.equal((await set('mere', { executions: 5 }, { key: admin.secret })).status, 403);
  assert.equal((await g.call('GET', '/api/quotas/default', undefined, { key: admin.secret })).status, 403);
  assert.equal((await g.call('GET', '/api/quotas/mere', undefined, { key: admin.secret })).status, 200);
  for (const bad of [{ executions: -1 }, { executions: 1125899906842625 }, { executions: 'x' }, { unknown: 1 }, { executions: 1.5 }])
    assert.equal((await set('mere', bad)).status, 400, JSON.stringify(bad));
  assert.equal((await set('No Tenant', { executions: 1 })).status, 400);
  assert.equal((await set('a'.repeat(64), { executions: 1 })).status, 400);
  const done = await set('mere', { executions: 1125899906842624, live_sessions: 7 });
  assert.equal(done.status, 200);
  assert.equal(done.body.tenant, 'mere');
  assert.deepEqual(done.body.quotas[0], { name: 'live_sessions', limit: 7, used: 0, resets_at: null, own: true });
  assert.equal((await quotas(a)).live_sessions.limit, 7);
  await set('mere', { live_sessions: null });
  assert.equal((await quotas(a)).live_sessions.own, false);
  const trail = await g.ok('GET', '/api/audit?action=quota.set');
  assert.ok(trail.data.some((e) => e.object === 'mere' && e.detail === 'live_sessions' && e.after === '7'));
});

test('R8 live sessions and memory: at the limit, above it, and given back', async () => {
  const a = await g.tenant('held');
  await set('held', { live_sessions: 2 });
  const one = await g.session({ persistence: 'ephemeral' }, a);
  await g.session({ persistence: 'ephemeral' }, a);
  refused(await g.call('POST', '/api/sessions', {}, a), 'live_sessions', 2);
  await one.delete();
  const again = await g.session({ persistence: 'ephemeral', limits: { memory_bytes: 256 << 20 } }, a);
  await again.delete();
  const granted = (await quotas(a)).memory_bytes.used;
  await set('held', { live_sessions: 0, memory_bytes: granted + (256 << 20) });
  await g.session({ persistence: 'ephemeral', limits: { memory_bytes: 256 << 20 } }, a);
  refused(await g.call('POST', '/api/sessions', { limits: { memory_bytes: 64 << 20 } }, a), 'memory_bytes', granted + (256 << 20));
});

test('R8 executions at once are refused at once, and taken back exactly once', async () => {
  const a = await g.tenant('running');
  const s = await g.session({}, a);
  const slow = () => g.ok('POST', `${s.path}/executions`, { language: 'python', code: 'import time; time.sleep(30)', mode: 'async' }, a);
  const first = await slow();
  const second = await slow();
  const error = refused(await g.call('POST', `${s.path}/executions`, { language: 'python', code: '1' }, a), 'executions', 2);
  assert.equal(error.quota.used, 2);
  await g.call('POST', `/api/executions/${second.id}/cancel`, {}, a);
  await g.call('POST', `/api/executions/${first.id}/cancel`, {}, a);
  await until(async () => (await quotas(a)).executions.used === 0, { what: 'both given back' });
  assert.equal((await s.python('print(1)')).stdout, '1\n');
  assert.equal((await quotas(a)).executions.used, 0);
});

test('R8 executions, processor time and output in an hour; the refusal says until when', async () => {
  const a = await g.tenant('hourly');
  const s = await g.session({}, a);
  await set('hourly', { executions_per_hour: 2 });
  await s.out('1');
  await s.out('1');
  const run = () => g.call('POST', `${s.path}/executions`, { language: 'python', code: '1' }, a);
  const error = refused(await run(), 'executions_per_hour', 2);
  assert.ok(error.quota.until_ms > Date.now() + 3500_000);
  await set('hourly', { executions_per_hour: 0, output_tokens_per_hour: 100 });
  await s.out('print("x" * 1000)');
  refused(await run(), 'output_tokens_per_hour', 100);
  await set('hourly', { output_tokens_per_hour: null, cpu_s_per_hour: 1 });
  // Many short ones are no more than they take together.
  for (let i = 0; i < 20; i++) await s.out('sum(range(20000))');
  assert.equal((await quotas(a)).cpu_s_per_hour.used, 0);
  await s.out('import time\nwhile time.process_time() < 1.2: pass');
  refused(await run(), 'cpu_s_per_hour', 1);
});

test('R8 storage: the tenant\'s own limit holds and is named', async () => {
  const a = await g.tenant('stored');
  const ws = await g.ok('POST', '/api/workspaces', { name: 'w' }, a);
  const put = (n) => g.call('PUT', `/api/workspaces/${ws.id}/files/f${n}`, Buffer.alloc(1000, `${n}`), { ...a, raw: true });
  await set('stored', { storage_bytes: 2000 });
  assert.ok((await put(1)).status < 300);
  assert.ok((await put(2)).status < 300);
  const full = await put(3);
  assert.equal(full.status, 507);
  assert.deepEqual(full.body.error.quota, { name: 'storage_bytes', limit: 2000, used: 2000 });
  await set('stored', { storage_bytes: 3000 });
  assert.ok((await put(3)).status < 300);
});

test('R8 every door says it in its own words', async () => {
  const a = await g.tenant('doors');
  await set('doors', { live_sessions: 1 });
  const s = await g.session({ persistence: 'ephemeral' }, a);
  // A container has no sandbox until one is needed; a network needs one.
  const openai = await g.call('POST', '/v1/containers', { name: 'x', network_policy: { type: 'disabled' } }, a);
  assert.equal(openai.status, 429, openai.text);
  assert.equal(openai.body.error.code, 'rate_limit_exceeded');
  assert.ok(openai.body.error.message.includes('sessions are awake'));
  assert.ok(Number(openai.headers.get('retry-after')) >= 1);
  const azure = await g.call('POST', '/pools/default/executions?api-version=2025-10-02-preview&identifier=one-more',
    { codeInputType: 'Inline', executionType: 'Synchronous', code: '1' }, a);
  assert.equal(azure.status, 429, azure.text);
  assert.equal(azure.body.error.code, 'TooManyRequests');
  assert.ok(azure.body.error.message.includes('sessions are awake'));
  assert.ok(Number(azure.headers.get('retry-after')) >= 1);
  await set('doors', { executions_per_hour: 1 });
  await s.out('1');
  const mcp = await g.call('POST', '/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/call', params: {
    name: 'execute_python', arguments: { code: '1', session_id: s.id },
    _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} } } },
  { ...a, headers: { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'execute_python' } });
  assert.ok(mcp.text.includes('executions were run within an hour'), mcp.text);
  assert.ok(mcp.text.includes('"isError":true'), mcp.text);
});

test('a repeated failure is slowed, told in words, and reported', async () => {
  const a = await g.tenant('loops');
  const s = await g.session({}, a);
  for (let i = 0; i < 10; i++) {
    const e = await s.python('1/0');
    assert.equal(e.outcome, 'error');
    assert.equal(e.repeats, i);
  }
  const answer = await g.call('POST', `${s.path}/executions`, { language: 'python', code: '1/0' }, a);
  const error = refused(answer, 'repeated_failure', 10);
  assert.match(error.message, /this exact code has failed 10 times in a row/);
  assert.match(error.hint, /change the code/);
  assert.equal((await s.python('2 + 2')).repeats, 0); // other code is not touched
  await until(async () => (await s.python('1/0').catch(() => null))?.repeats === 10, { ms: 20_000, every: 200, what: 'its turn again' });
  await until(async () => (await g.ok('GET', '/api/audit?action=execution.repeated')).data.filter((e) => e.object === s.id).length === 1,
    { what: 'the event' });
  assert.match((await g.call('GET', '/metrics')).text, /glovebox_quota_refusals_total\{quota="repeated_failure"\} [1-9]/);
});

test('glovebox quota shows and sets', async () => {
  const cli = (...args) => spawnSync(bin('glovebox'), args, { encoding: 'utf8', env: { PATH: process.env.PATH, GLOVEBOX_URL: g.url, GLOVEBOX_KEY: g.key } });
  const shown = cli('quota');
  assert.equal(shown.status, 0, shown.stderr);
  assert.match(shown.stdout, /QUOTA +USED +LIMIT/);
  assert.match(shown.stdout, /executions +0 +2 +default/);
  const done = cli('quota', 'set', 'someone', 'memory_bytes=4g', 'executions=none', 'cpu_s_per_hour=default', '--json');
  assert.equal(done.status, 0, done.stderr);
  const by = Object.fromEntries(JSON.parse(done.stdout).quotas.map((q) => [q.name, q]));
  assert.equal(by.memory_bytes.limit, 4 * 2 ** 30);
  assert.equal(by.executions.limit, null);
  assert.equal(by.executions.own, true);
  assert.equal(by.cpu_s_per_hour.own, false);
  assert.match(cli('quota', 'show', 'someone').stdout, /memory_bytes +0 +4294967296 +operator/);
  for (const bad of [['quota', 'set', 'someone'], ['quota', 'set', 'someone', 'memory_bytes'], ['quota', 'set', 'someone', 'memory_bytes=x']])
    assert.equal(cli(...bad).status, 2, bad.join(' '));
  assert.notEqual(cli('quota', 'set', 'someone', 'nonsense=1').status, 0);
});

test('R8 a restart gives no second helping', async () => {
  const first = await Glovebox.start({ config });
  try {
    const a = await first.tenant('twice');
    await first.ok('PUT', '/api/quotas/twice', { executions_per_hour: 1 });
    const s = await first.session({}, a);
    await s.out('1');
    await first.stop({ keep: true });
    const second = await Glovebox.start({ config, dir: first.dir });
    const again = await second.call('POST', `/api/sessions/${s.id}/executions`, { language: 'python', code: '1' }, a);
    refused(again, 'executions_per_hour', 1);
    await second.stop();
  } finally {
    await first.stop();
  }
});
