// SPDX-License-Identifier: Apache-2.0
// Language models as clients and operators see them: named in the
// configuration or added, tried, listed, bounded by budgets; and a process of
// their own that calls servers, also those that misbehave.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { Glovebox, allProcesses, bin, pool, until } from '../../lib/glovebox.mjs';
import { ModelServer, anthropic, chat, responses } from '../../lib/model-server.mjs';

let g, server, secure, folder;
const config = () => ({ egress_ca_file: `${folder}/cert.pem`, pools: [pool({ ready: 0 })],
  models: [{ name: 'local', url: server.url, model: 'tiny', default: true, images: true, timeout_s: 20, idle_s: 1, price_input: '100', price_output: '200' },
    { name: 'gone', url: 'http://127.0.0.1:9/v1' }] });
before(async () => {
  server = await ModelServer.start(chat.answer);
  folder = mkdtempSync('/tmp/glovebox-models-');
  chmodSync(folder, 0o755);
  const made = spawnSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=localhost',
    '-addext', 'subjectAltName=DNS:localhost', '-keyout', `${folder}/key.pem`, '-out', `${folder}/cert.pem`], { encoding: 'utf8' });
  assert.equal(made.status, 0, made.stderr);
  chmodSync(`${folder}/cert.pem`, 0o644);
  secure = await ModelServer.tls({ key: readFileSync(`${folder}/key.pem`), cert: readFileSync(`${folder}/cert.pem`) }, chat.answer);
  g = await Glovebox.start({ config: config() });
});
after(async () => { await g?.stop(); await server?.stop(); await secure?.stop(); if (folder) rmSync(folder, { recursive: true }); });

const add = (body, who) => g.call('POST', '/api/models', { kind: 'openai-chat', ...body }, who);
const tenant = async (name, scopes) => ({ key: (await g.ok('POST', '/api/keys', { tenant: name, scopes })).secret });
const trial = (name, who) => g.ok('POST', `/api/models/${name}/test`, undefined, who);
// Each test of a failure has a model of its own: breakers remember.
let number = 0;
async function fails(...script) {
  const name = `m${++number}`;
  server.will(...script);
  assert.equal((await add({ name, url: server.url, idle_s: 1, timeout_s: 15 })).status, 201);
  return (await trial(name)).answer;
}

test('a model of the configuration is listed at every OpenAI prefix, and echo is labelled', async () => {
  for (const prefix of ['/v1', '/openai/v1', '/api/projects/p/openai/v1']) {
    const { data, object } = await g.ok('GET', `${prefix}/models`);
    assert.equal(object, 'list');
    assert.deepEqual(data.map((m) => m.id).filter((id) => !/^m\d/.test(id)), ['echo', 'gone', 'local']);
    assert.match(data.find((m) => m.id === 'echo').owned_by, /echo, a built-in model for trials/);
    assert.equal((await g.ok('GET', `${prefix}/models/local`)).object, 'model');
    const missing = await g.call('GET', `${prefix}/models/nosuch`);
    assert.equal(missing.status, 404);
    assert.equal(missing.body.error.code, 'model_not_found');
  }
});

test('a test says whether answers, streaming, tools and images work', async () => {
  server.will(chat.answer);
  const t = await trial('local');
  assert.deepEqual([t.answer.ok, t.streaming.ok, t.tools.ok, t.images.ok, t.embeddings.ok], [true, true, true, true, false], JSON.stringify(t));
  assert.match(t.answer.why, /7 tokens in, 2 out/);
  const [first] = server.seen;
  assert.equal(first.url, '/v1/chat/completions');
  assert.equal(first.body.model, 'tiny');
  assert.equal(first.body.stream, true);
  assert.deepEqual(first.body.stream_options, { include_usage: true });
  assert.equal(first.headers.authorization, undefined);
  const image = server.seen[2].body.messages[0].content.find((p) => p.type === 'image_url');
  assert.match(image.image_url.url, /^data:image\/png;base64,/);
});

test('the other kinds are spoken too', async () => {
  server.will(responses.answer);
  assert.equal((await add({ name: 'r', kind: 'openai-responses', url: server.url })).status, 201);
  let t = await trial('r');
  assert.deepEqual([t.answer.ok, t.streaming.ok, t.tools.ok], [true, true, true], JSON.stringify(t));
  assert.equal(server.seen[0].url, '/v1/responses');
  assert.equal(server.seen[0].body.store, false);
  server.will(anthropic.answer);
  assert.equal((await add({ name: 'a', kind: 'anthropic', url: server.url })).status, 201);
  t = await trial('a');
  assert.deepEqual([t.answer.ok, t.streaming.ok, t.tools.ok], [true, true, true], JSON.stringify(t));
  assert.equal(server.seen[0].url, '/v1/messages');
  assert.equal(server.seen[0].headers['anthropic-version'], '2023-06-01');
  assert.ok(server.seen[0].body.max_tokens > 0);
});

test('L2: a key comes out of the vault, goes to its host only, and is shown to nobody', async () => {
  assert.equal((await g.call('PUT', '/api/secrets/model-key', { value: 'sk-very-secret', destinations: ['127.0.0.1'] })).status, 201);
  server.will(chat.answer);
  assert.equal((await add({ name: 'keyed', url: server.url, key: 'model-key' })).status, 201);
  assert.equal((await trial('keyed')).answer.ok, true);
  assert.equal(server.seen[0].headers.authorization, 'Bearer sk-very-secret');
  server.will(anthropic.answer);
  assert.equal((await add({ name: 'keyed-a', kind: 'anthropic', url: server.url, key: 'model-key' })).status, 201);
  await trial('keyed-a');
  assert.equal(server.seen[0].headers['x-api-key'], 'sk-very-secret');
  assert.equal(server.seen[0].headers.authorization, undefined);
  server.will(chat.key); // a server that repeats the key in its error
  const t = await trial('keyed');
  assert.match(t.answer.why, /refuses the key/);
  assert.doesNotMatch(JSON.stringify(t), /very-secret/);
  assert.doesNotMatch(g.log, /very-secret/);
  const elsewhere = await add({ name: 'x', url: 'https://api.example.org/v1', key: 'model-key' });
  assert.equal(elsewhere.status, 400);
  assert.match(elsewhere.body.error.message, /must not go to api\.example\.org/);
  assert.equal((await add({ name: 'x', url: 'https://api.example.org/v1', key: 'nosuch' })).status, 404);
  assert.equal((await add({ name: 'x', url: 'http://api.example.org/v1', key: 'model-key' })).status, 400);
});

test('L2: servers are found by name and spoken to by TLS, whose certificate is verified', async () => {
  server.will(chat.answer);
  await add({ name: 'named', url: `http://localhost:${server.port}/v1` });
  let t = await trial('named');
  assert.equal(t.answer.ok, true, t.answer.why);
  secure.will(chat.answer);
  await add({ name: 'tls', url: `https://localhost:${secure.port}/v1` });
  t = await trial('tls');
  assert.equal(t.answer.ok, true, t.answer.why);
  await add({ name: 'tls-other', url: `https://127.0.0.1:${secure.port}/v1` }); // a host that the certificate does not name
  t = await trial('tls-other');
  assert.equal(t.answer.ok, false);
  assert.match(t.answer.why, /cannot be reached/);
});

test('L4: failures that pass are retried, as long as the server asks; others are not', async () => {
  let t = await fails(chat.rate, chat.overload, chat.answer);
  assert.equal(t.ok, true, t.why);
  assert.ok(server.seen.length >= 3);
  t = await fails(chat.close, chat.answer);
  assert.equal(t.ok, true, t.why);
  for (const [step, words, requests] of [[chat.rateLong, /rate limit/, 1], [chat.quota, /credit or quota/, 1], [chat.large, /does not fit its context/, 1],
    [chat.refuse, /does not accept/, 1], [chat.redirect, /does not accept/, 1], [chat.overload, /server failed/, 3]]) {
    t = await fails(step);
    assert.equal(t.ok, false);
    assert.match(t.why, words);
    assert.equal(server.seen.length, requests, String(words));
  }
});

test('L4: a server that is cut, silent, endless or nonsense fails with its reason and harms nothing', async () => {
  for (const [step, words] of [[chat.cut, /broke off/], [chat.silent, /too slow/], [chat.endless, /larger than/], [chat.html, /cannot be used|broke off/]]) {
    const begun = Date.now();
    const t = await fails(step);
    assert.equal(t.ok, false);
    assert.match(t.why, words);
    assert.ok(Date.now() - begun < 12_000);
  }
  assert.equal((await trial('gone')).answer.ok, false);
  server.will(chat.answer);
  assert.equal((await trial('local')).answer.ok, true);
});

test('a server that fails again and again is left alone for a while', async () => {
  server.will(chat.overload);
  await add({ name: 'broken', url: server.url });
  for (let i = 0; i < 2; i++) await trial('broken');
  const seen = server.seen.length;
  const t = await trial('broken');
  assert.match(t.answer.why, /in a row and is not called/);
  assert.equal(server.seen.length, seen);
  assert.match(await (await fetch(`${g.url}/metrics`, { headers: { authorization: `Bearer ${g.key}` } })).text(), /glovebox_model_breaker_open\{model="local"\} 0/);
});

test('the state of a server is told, and a dead one does not make the service unready', async () => {
  const state = async (name) => (await g.ok('GET', '/api/models')).data.find((m) => m.name === name);
  await add({ name: 'fresh', url: server.url });
  assert.deepEqual([(await state('fresh')).state, (await state('fresh')).answered_at], ['unknown', null]);
  server.will(chat.answer);
  await trial('fresh');
  assert.deepEqual([(await state('fresh')).state, (await state('fresh')).failure], ['up', null]);
  server.will(chat.refuse);
  await trial('fresh');
  const failing = await state('fresh');
  assert.equal(failing.state, 'failing');
  assert.match(failing.failure, /does not accept/);
  assert.ok(failing.failed_at >= failing.answered_at);
  const broken = await state('broken');
  assert.equal(broken.state, 'down');
  assert.match(broken.failure, /server failed/);
  assert.equal((await state('echo')).state, 'up');
  await trial('gone');
  const metrics = await (await fetch(`${g.url}/metrics`, { headers: { authorization: `Bearer ${g.key}` } })).text();
  assert.match(metrics, /^glovebox_model_up\{model="gone"\} 0$/m);
  assert.match(metrics, /^glovebox_model_up\{model="local"\} 1$/m);
  assert.equal((await fetch(`${g.url}/readyz`)).status, 200);
  const cli = (...args) => spawnSync(bin('glovebox'), [...args, '--data', `${g.dir}/data`], { encoding: 'utf8', env: { ...process.env, HOME: g.dir } }).stdout;
  assert.match(cli('model', 'list'), /broken .* down/);
  assert.match(cli('doctor'), /model gone .*cannot be reached/);
});

test('L3: a call of a server that never says what it used counts all the same', async () => {
  const a = await tenant('unsaid', ['execute', 'policy:admin']);
  server.will((req, res) => { res.writeHead(200, { 'content-type': 'text/event-stream' }); res.end(`data: ${JSON.stringify({ choices: [{ delta: { content: 'x'.repeat(400) }, finish_reason: 'stop' }] })}\n\n`); });
  assert.equal((await trial('local', a)).answer.ok, true);
  const { quotas } = await g.ok('GET', '/api/quotas', undefined, a);
  const { used } = quotas.find((q) => q.name === 'model_tokens_per_day');
  assert.ok(used >= 300 && used < 400, String(used)); // three calls of 101 tokens and their prompts
});

test('L2: the process has an account of its own, is confined, and is started again when it is killed during a call', async () => {
  const mine = () => {
    const all = allProcesses();
    const below = new Set([g.pid]);
    for (let more = true; more;) {
      more = false;
      for (const p of all) if (below.has(p.ppid) && !below.has(p.pid)) more = !!below.add(p.pid);
    }
    return all.filter((p) => below.has(p.pid) && p.name === 'glovebox-model');
  };
  const [supervisor, worker] = mine().sort((a, b) => (a.ppid === g.pid ? -1 : 1));
  assert.ok(supervisor && worker, 'the process and its supervisor run');
  if (process.getuid() === 0) assert.equal(worker.uid, g.uidBase + 19_998);
  const status = readFileSync(`/proc/${worker.pid}/status`, 'utf8');
  assert.match(status, /^Seccomp:\s+2$/m);
  assert.match(status, /^NoNewPrivs:\s+1$/m);
  assert.match(status, /^CapEff:\s+0+$/m);
  server.will(chat.silent);
  await add({ name: 'killed', url: server.url, idle_s: 60 });
  const call = trial('killed');
  await until(() => server.seen.length > 0, { what: 'the call' });
  process.kill(worker.pid, 'SIGKILL');
  const begun = Date.now();
  const t = await call;
  assert.ok(Date.now() - begun < 30_000, 'before the deadline of the call');
  assert.match(t.answer.why, /process that calls models ended/);
  server.will(chat.answer);
  assert.equal((await trial('local')).answer.ok, true);
  assert.match(await (await fetch(`${g.url}/metrics`, { headers: { authorization: `Bearer ${g.key}` } })).text(), /glovebox_model_process_restarts_total [1-9]/);
});

test('models of a tenant are its own, cannot reach private addresses, and need the scope', async () => {
  const a = await tenant('models-a', ['execute', 'policy:admin']);
  const b = await tenant('models-b', ['execute']);
  assert.equal((await add({ name: 'mine', url: server.url }, a)).status, 201);
  assert.equal((await g.call('GET', '/api/models/mine', undefined, b)).status, 404);
  assert.equal((await add({ name: 'mine', url: server.url }, b)).status, 403);
  server.will(chat.answer);
  assert.match((await trial('mine', a)).answer.why, /link-local or private/);
  assert.equal(server.seen.length, 0);
  const shown = await g.ok('GET', '/api/models/local', undefined, b);
  assert.equal(shown.url, null);
  assert.equal((await g.call('DELETE', '/api/models/mine', undefined, a)).status, 204);
  assert.equal((await g.call('DELETE', '/api/models/local')).status, 409);
  assert.equal((await add({ name: 'echo', url: server.url })).status, 409);
  for (const bad of [{ name: 'a b' }, { name: 'x'.repeat(64) }, { name: 'x', url: 'ftp://x' }, { name: 'x', url: 'http://u:p@h/v1' }, { name: 'x', kind: 'other' }, { name: 'x', price_input: '1,5' }, { name: 'x', nosuch: 1 }])
    assert.equal((await add({ url: server.url, ...bad })).status, 400, JSON.stringify(bad));
});

test('L3: budgets in tokens and money, of the tenant and of the key, are typed and survive a restart', async () => {
  const a = await tenant('spender', ['execute', 'policy:admin']);
  const uses = async () => Object.fromEntries((await g.ok('GET', '/api/quotas', undefined, a)).quotas.map((q) => [q.name, q]));
  await g.ok('PUT', '/api/quotas/spender', { model_tokens_per_day: 30 });
  server.will(chat.answer);
  assert.equal((await trial('local', a)).answer.ok, true); // 9 and 30 tokens, then the budget is used up
  let use = await uses();
  assert.equal(use.model_tokens_per_day.used, 39);
  assert.equal(use.key_model_tokens_per_day.used, 39);
  // 100 a million in, 200 out, in millionths of a cent: 7 * 10000 + 2 * 20000 and so on.
  assert.equal(use.model_microcents_per_day.used, 27 * 1e4 + 12 * 2e4);
  const t = await trial('local', a);
  assert.match(t.answer.why, /30 tokens of language models were used within a day/);
  const { dir } = g; // a restart gives no second helping
  await g.stop({ keep: true });
  g = await Glovebox.start({ config: config(), dir });
  use = await uses();
  assert.equal(use.model_tokens_per_day.used, 39);
});

test('the command line adds, lists, tries and removes', async () => {
  server.will(chat.answer);
  const cli = (...args) => new Promise((done) => {
    const r = spawnSync(bin('glovebox'), [...args, '--data', `${g.dir}/data`], { encoding: 'utf8', env: { ...process.env, HOME: g.dir } });
    done(r);
  });
  assert.equal((await cli('model', 'add', 'cli', '--kind', 'openai-chat', '--url', server.url)).status, 0);
  const list = await cli('model', 'list');
  assert.match(list.stdout, /cli\s+openai-chat/);
  const shown = JSON.parse((await cli('model', 'show', 'cli', '--json')).stdout);
  assert.equal(shown.url, server.url);
  const echo = await cli('model', 'test', 'echo');
  assert.equal(echo.status, 0, echo.stderr);
  assert.match(echo.stdout, /tools\s+yes\s+It called a function\./);
  assert.equal((await cli('model', 'remove', 'cli')).status, 0);
  const gone = await cli('model', 'show', 'cli');
  assert.notEqual(gone.status, 0);
  assert.match(gone.stderr, /glovebox model list/);
});

test('changes and calls are in the trail, without content', async () => {
  const events = await until(async () => {
    const { data } = await g.ok('GET', '/api/audit?action=model.&limit=200');
    return data.some((e) => e.action === 'model.call') && data;
  });
  assert.ok(events.some((e) => e.action === 'model.put' && e.object === 'keyed'));
  assert.ok(events.some((e) => e.action === 'model.remove'));
  assert.match(events.find((e) => e.action === 'model.call').detail, /tokens in, \d+ tokens out/);
  assert.doesNotMatch(JSON.stringify(events), /Hello|very-secret/);
});
