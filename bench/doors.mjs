// SPDX-License-Identifier: Apache-2.0
// The same thing through each door: a warm execution in a live session and a
// large upload, beside the native API. What a door adds is decoding, encoding
// and nothing else; a wrong answer ends the run.
import { MIB, checkAnswer, check, checked, interleave } from './measure.mjs';

const CELL = 'x = sum(range(100)); print(x)';
const WANTED = '4950';
let seeds = Date.now();

const native = (c, id) => async () => {
  const { ms, answers } = await c.watch.http('POST', `/api/sessions/${id}/executions`, { language: 'python', code: CELL });
  checkAnswer(answers[0], WANTED);
  return ms;
};

// A session is the same whatever door it was made at; each has one of its
// own, so that no history is longer than another's.
async function containerCell(c) {
  const { id } = await c.daemon.call('POST', '/v1/containers', { name: 'bench' });
  return native(c, id);
}

const azure = (c, path, body, read) => async () => {
  const { ms, answers } = await c.watch.http('POST', path, body);
  const { status, text } = answers[0];
  if (status !== 200 && status !== 202) throw new Error(`${path}: ${status} ${text.slice(0, 300)}`);
  check(path, read(JSON.parse(text)), WANTED);
  return ms;
};

const azureB = (c) => azure(c, '/pools/ready/code/execute?api-version=2024-02-02-preview&identifier=bench-b',
  { properties: { codeInputType: 'inline', executionType: 'synchronous', code: CELL } }, (a) => a.properties.stdout);
const azureC = (c) => azure(c, '/pools/ready/executions?api-version=2025-10-02-preview&identifier=bench-c',
  { codeInputType: 'Inline', executionType: 'Synchronous', code: CELL, timeoutInSeconds: 60 }, (a) => a.result.stdout);

const VERSION = '2026-07-28', META = 'io.modelcontextprotocol';
async function mcp(c) {
  const { id } = await c.daemon.call('POST', '/api/sessions', { pool: 'ready' });
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: {
    name: 'execute_python', arguments: { code: CELL, session_id: id },
    _meta: { [`${META}/protocolVersion`]: VERSION, [`${META}/clientCapabilities`]: {} } } };
  const headers = { Accept: 'application/json, text/event-stream', 'MCP-Protocol-Version': VERSION,
    'Mcp-Method': 'tools/call', 'Mcp-Name': 'execute_python' };
  return async () => {
    const { ms, answers } = await c.watch.http('POST', '/mcp', body, 1, headers);
    check('mcp', checked(answers[0]).result.structuredContent.stdout, WANTED);
    return ms;
  };
}

async function cells(c) {
  const { id } = await c.daemon.call('POST', '/api/sessions', { pool: 'ready' });
  const sides = [native(c, id), await containerCell(c), azureB(c), azureC(c), await mcp(c)];
  for (let i = 0; i < 10; i++) for (const side of sides) await side();
  const rounds = c.rounds(150);
  const [base, ...doors] = await interleave(rounds, sides);
  return doors.map((ours) => ({ base: 'native', unit: 'ms', rounds, ours, theirs: base }));
}

const LARGE = 100 * MIB;
async function uploads(c) {
  const { id } = await c.daemon.call('POST', '/api/workspaces', { name: 'bench' });
  const rounds = c.rounds(8);
  const [a, b] = await interleave(rounds, [
    async () => {
      const { ms, ...answer } = await c.watch.up(LARGE, '/v1/files', ++seeds, { form: true });
      if (checked(answer).bytes !== LARGE) throw new Error('an upload lost bytes');
      return ms;
    },
    async () => {
      const { ms, ...answer } = await c.watch.up(LARGE, `/api/workspaces/${id}/files/up-${++seeds}`, seeds);
      if (checked(answer, 201).size !== LARGE) throw new Error('an upload lost bytes');
      return ms;
    },
  ]);
  return { base: 'native', unit: 'ms', rounds, ours: a, theirs: b };
}

const cell = (name, most, what) => ({ name, aim: { most }, what, beside: 'the same at the native door' });
const workloads = [
  { run: cells, lines: [
    cell('door_container', 1.15, 'next cell in a container, by its id'),
    cell('door_azure_b', 1.15, 'next cell, `code/execute`'),
    cell('door_azure_c', 1.15, 'next cell, `executions`'),
    cell('door_mcp', 1.2, 'next cell, `tools/call execute_python`')] },
  { run: uploads, lines: [{ name: 'door_files_100m', aim: { most: 1.2 },
    what: '100 MiB by `POST /v1/files`', beside: 'native `PUT`' }] },
];

export const doors = {
  config: { creations_per_s: 0, upload_bytes: '1GiB', workspace_quota_bytes: 0,
    pools: [{ name: 'ready', runtime: 'standard' }] },
  async begin() {},
  async end() {},
  workloads,
};
