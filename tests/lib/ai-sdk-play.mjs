// SPDX-License-Identifier: Apache-2.0
// Chat completions with the AI SDK, step by step. As a program it plays them
// against the server told on the standard input, a line of JSON for each
// step; that needs Node 22 or newer.
import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const steps = [
  ['generates text', async ({ model, key, generateText, streamText, tool, jsonSchema }) => {
    const made = await generateText({ model, prompt: 'say: hello', maxRetries: 0 });
    assert.equal(made.text, 'hello');
    assert.equal(made.finishReason, 'stop');
    assert.ok(made.usage.totalTokens > 0);
  }],
  ['streams text', async ({ model, key, generateText, streamText, tool, jsonSchema }) => {
    let text = '';
    const made = streamText({ model, prompt: 'say: one two three', maxRetries: 0, onError: ({ error }) => { throw error; } });
    for await (const piece of made.textStream) text += piece;
    assert.equal(text, 'one two three');
    assert.equal(await made.finishReason, 'stop');
  }],
  ['calls its tools', async ({ model, key, generateText, streamText, tool, jsonSchema }) => {
    const lookup = tool({ description: 'x', inputSchema: jsonSchema({ type: 'object', properties: { q: { type: 'string' } } }) });
    const made = await generateText({ model, prompt: 'call: lookup {"q":"x"}', tools: { lookup }, maxRetries: 0 });
    assert.deepEqual(made.toolCalls.map((call) => [call.toolName, call.input]), [['lookup', { q: 'x' }]]);
    assert.equal(made.finishReason, 'tool-calls');
    const streamed = streamText({ model, prompt: 'call: lookup {"q":"y"}', tools: { lookup }, maxRetries: 0 });
    assert.deepEqual((await streamed.toolCalls).map((call) => call.input), [{ q: 'y' }]);
  }],
  ['sees code run, and its files as sources', async ({ model, key, generateText, streamText, tool, jsonSchema }) => {
    const made = await generateText({ model, prompt: 'run: open("/mnt/data/n.txt", "w").write("42")\nsay: done', maxRetries: 0 });
    assert.match(made.text, /\[n\.txt\]\(http/);
    assert.deepEqual(made.sources.map((source) => [source.sourceType, source.title]), [['url', 'n.txt']]);
    const answer = await fetch(made.sources[0].url, { headers: { authorization: `Bearer ${key}` } });
    assert.equal(await answer.text(), '42');
  }],
  ['sees a failure as an error', async ({ model, key, generateText, streamText, tool, jsonSchema }) => {
    await assert.rejects(generateText({ model, prompt: 'fail: gone', maxRetries: 0 }));
  }],
];

export const names = steps.map(([name]) => name);

async function play() {
  let input = '';
  for await (const part of process.stdin) input += part;
  const { url, key } = JSON.parse(input);
  const modules = join(dirname(dirname(fileURLToPath(import.meta.url))), 'clients/aisdk/node_modules');
  const load = (path) => import(pathToFileURL(join(modules, path)));
  const { generateText, streamText, tool, jsonSchema } = await load('ai/dist/index.js');
  const { createOpenAI } = await load('@ai-sdk/openai/dist/index.js');
  const model = createOpenAI({ baseURL: `${url}/v1`, apiKey: key }).chat('echo');
  const stage = { model, key, generateText, streamText, tool, jsonSchema };
  for (const [name, step] of steps) {
    let error = null;
    try {
      await step(stage);
    } catch (why) {
      error = why.stack ?? String(why);
    }
    process.stdout.write(`${JSON.stringify({ name, error })}\n`);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await play();
