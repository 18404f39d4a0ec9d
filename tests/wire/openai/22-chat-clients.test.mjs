// SPDX-License-Identifier: Apache-2.0
// Conversations and chat completions, used by the OpenAI client that runs on
// Node 20, by the newest one, and by the AI SDK's OpenAI provider. That one
// cannot add the code tool, so the service offers it to every request.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { names } from '../../lib/ai-sdk-play.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { run } from '../../lib/openai.mjs';
import { steps } from '../../lib/openai-chat-scenario.mjs';
import { stop } from '../../lib/wire.mjs';

describe('conversations and chat completions, by clients', () => {
  let g;
  const played = {};

  before(async () => {
    g = await Glovebox.start({ config: { chat_code_tool: true, pools: [pool({ ready: 1 })] } });
    const server = { url: g.url, key: g.key };
    for (const version of [6, 7]) played[version] = await run(version, ['openai-play.mjs', String(version), 'openai-chat-scenario'], server);
    played.ai = await run(7, ['ai-sdk-play.mjs'], server);
  });
  after(() => stop(g));

  const report = (client, name) => {
    const outcome = played[client].get(name) ?? assert.fail('not played');
    assert.ok(!outcome.error, outcome.error);
  };
  for (const version of [6, 7]) for (const [name] of steps) test(`openai ${version}, ${name}`, () => report(version, name));
  for (const name of names) test(`AI SDK: ${name}`, () => report('ai', name));
});
