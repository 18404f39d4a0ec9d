// SPDX-License-Identifier: Apache-2.0
// Plays a scenario with the client version of the first argument, against the
// server told on the standard input; a line of JSON for each step. The second
// argument names the scenario's module. Run by openai.mjs, also under another
// Node than the tests'.
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const { prepare, steps } = await import(`./${process.argv[3] ?? 'openai-scenario'}.mjs`);
let text = '';
for await (const part of process.stdin) text += part;
const tests = dirname(dirname(fileURLToPath(import.meta.url)));
const client = join(tests, 'clients', `openai${process.argv[2]}`, 'node_modules/openai/index.mjs');
const stage = await prepare(await import(pathToFileURL(client)), JSON.parse(text));
for (const [name, step] of steps) {
  const started = performance.now();
  let error = null;
  try {
    await step(stage);
  } catch (why) {
    error = why.stack ?? String(why);
  }
  process.stdout.write(`${JSON.stringify({ name, error, ms: performance.now() - started })}\n`);
}
await stage.close();
