// SPDX-License-Identifier: Apache-2.0
// A real server as upstream: llama.cpp of Debian sid with a tiny model made by
// tools/tiny-gguf. It proves the wire: streaming, usage, calls of functions
// that a grammar constrains, structured output, embeddings, a prompt that is
// too long, cancelling. What the model says is noise.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Glovebox, bin, build, pool, root, until } from '../lib/glovebox.mjs';

let server, url, dir, g;
const freePort = () => new Promise((done) => {
  const s = createServer().listen(0, '127.0.0.1', () => { const { port } = s.address(); s.close(() => done(port)); });
});

before(async () => {
  const unpacked = spawnSync(join(root, 'tools/sid-tree'), ['llama', 'usr/bin/llama-server', 'llama.cpp-tools'], { encoding: 'utf8' });
  assert.equal(unpacked.status, 0, unpacked.stderr);
  const tree = unpacked.stdout.trim();
  dir = mkdtempSync(join(tree, 'tmp/'));
  assert.equal(spawnSync(join(root, 'tools/tiny-gguf'), [join(dir, 'tiny.gguf')]).status, 0);
  const port = await freePort();
  url = `http://127.0.0.1:${port}/v1`;
  server = spawn('chroot', [tree, '/usr/bin/llama-server', '-m', join(dir.slice(tree.length), 'tiny.gguf'), '--host', '127.0.0.1', '--port', String(port),
    '--jinja', '-c', '8192', '-np', '2', '-t', '1', '--embeddings', '--pooling', 'mean'], { stdio: 'ignore' });
  await until(async () => (await fetch(`http://127.0.0.1:${port}/health`)).status === 200, { ms: 30_000, what: 'llama-server' });
});
after(async () => {
  await g?.stop();
  server?.kill();
  if (dir) rmSync(dir, { recursive: true, force: true });
});

function ask(prompt, { kind = 'openai-chat', cancel } = {}) {
  const r = spawnSync(join(build, 'tests/model-driver'), [bin('glovebox-model'), kind, url, 'tiny', ...(cancel ? [String(cancel)] : [])],
    { input: JSON.stringify(prompt), encoding: 'utf8', maxBuffer: 1 << 28 });
  const lines = r.stdout.trim().split('\n').filter(Boolean).map((l) => JSON.parse(l));
  return { events: lines.slice(0, -1), result: lines.at(-1), error: r.stderr.trim() };
}
const user = (content) => [{ role: 'user', content }];
const tool = { type: 'function', name: 'decide', description: 'Decides.', parameters: { type: 'object', properties: { yes: { type: 'boolean' } }, required: ['yes'] } };

test('an answer streams and is counted', () => {
  const { events, result, error } = ask({ instructions: 'Be brief.', input: user('hi'), options: { max_output_tokens: 50 } });
  assert.equal(result.code, 0, error);
  assert.ok(events.filter((e) => e.event === 'text').length > 1);
  assert.equal(result.output_tokens, 50);
  assert.ok(result.input > 10);
  assert.equal(result.finish, 1); // the limit
  assert.equal(result.output[0].content[0].text, events.filter((e) => e.event === 'text').map((e) => e.text).join(''));
});

test('a function is called within the grammar of its schema, and its output goes back', () => {
  const first = ask({ input: user('decide'), tools: [tool], tool_choice: 'required', options: { max_output_tokens: 600 } });
  assert.equal(first.result.code, 0, first.error);
  const calls = first.result.output.filter((i) => i.type === 'function_call');
  assert.ok(calls.length >= 1, JSON.stringify(first.result));
  for (const c of calls.filter((i) => i.status === 'completed')) assert.equal(typeof JSON.parse(c.arguments).yes, 'boolean');
  const again = ask({ input: [...user('decide'), ...calls.slice(0, 2), ...calls.slice(0, 2).map((c) => ({ type: 'function_call_output', call_id: c.call_id, output: 'noted' }))],
    tools: [tool], tool_choice: 'none', options: { max_output_tokens: 20 } });
  assert.equal(again.result.code, 0, again.error);
});

test('structured output keeps to its schema', () => {
  const { result, error } = ask({ input: user('x'), options: { max_output_tokens: 200,
    text: { format: { type: 'json_schema', name: 'x', schema: { type: 'object', properties: { ok: { type: 'boolean' }, n: { enum: [1, 2] } }, required: ['ok', 'n'], additionalProperties: false } } } } });
  assert.equal(result.code, 0, error);
  const value = JSON.parse(result.output[0].content[0].text);
  assert.equal(typeof value.ok, 'boolean');
  assert.ok([1, 2].includes(value.n));
});

test('embeddings', () => {
  const { result, error } = ask({ texts: ['one', 'two'] });
  assert.equal(result.dimensions, 288, error);
});

test('a prompt that is too long is said to be', () => {
  const { result, error } = ask({ input: user('long '.repeat(20_000)) });
  assert.equal(result.code, 9, error); // ERR_TOO_LARGE
  assert.match(error, /does not fit its context/);
});

test('a cancelled call ends at once, and the server is free again', () => {
  const { result, error } = ask({ input: user('go on'), options: { max_output_tokens: 4000 } }, { cancel: 150 });
  assert.equal(error, 'cancelled');
  assert.ok(result.ms < 1_000, `${result.ms} ms`);
  assert.equal(ask({ input: user('hi'), options: { max_output_tokens: 5 } }).result.code, 0);
});

test('the Responses and Messages dialects of the same server', () => {
  for (const kind of ['openai-responses', 'anthropic']) {
    const { events, result, error } = ask({ input: user('hi'), options: { max_output_tokens: 20 } }, { kind });
    assert.equal(result.code, 0, `${kind}: ${error}`);
    assert.ok(events.some((e) => e.event === 'text'), kind);
    assert.ok(result.output_tokens > 0, kind);
  }
});

test('glovebox model test reports what works', async () => {
  g = await Glovebox.start({ config: { pools: [pool({ ready: 0 })], models: [{ name: 'llama', url, default: true, embeddings: true }] } });
  const t = await g.ok('POST', '/api/models/llama/test');
  assert.equal(t.answer.ok, true, t.answer.why);
  assert.equal(t.streaming.ok, true, t.streaming.why);
  assert.equal(t.embeddings.ok, true, t.embeddings.why);
});
