// SPDX-License-Identifier: Apache-2.0
// Languages at the other doors: Azure's Node pools, the MCP tool, the command
// line, policy and evidence.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { lacks, start } from '../../lib/languages.mjs';
import { modern, result } from '../../lib/mcp.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';

let server;
let languages;
let cli;

before(async () => {
  ({ server, languages } = await start({}, [{ memory_bytes: '1GiB' }]));
  cli = new Cli(server);
});
after(async () => {
  cli?.close();
  await stop(server);
});
const of = (language, name, fn) => test(name, async (t) => {
  const why = lacks(languages, language);
  return why ? t.skip(why) : fn(t);
});

describe('Azure: NodeLTS', () => {
  const arm = '/subscriptions/s/resourceGroups/g/providers/Microsoft.App/sessionPools/node?api-version=2025-02-02-preview';
  const body = { location: 'x', properties: { containerType: 'NodeLTS', poolManagementType: 'Dynamic', scaleConfiguration: { maxConcurrentSessions: 5 },
    dynamicPoolConfiguration: { lifecycleConfiguration: { lifecycleType: 'Timed', cooldownPeriodInSeconds: 300 } } } };
  const at = (path, version) => `/sessionPools/node/${path}?api-version=${version}&identifier=user-1`;

  of('javascript', 'a pool runs JavaScript in every family and keeps state', async () => {
    const made = await server.call('PUT', arm, body);
    assert.ok([200, 201].includes(made.status), made.text);
    assert.equal(made.body.properties.containerType, 'NodeLTS');
    const b = await server.ok('POST', at('code/execute', '2024-02-02-preview'), { properties: { codeInputType: 'inline', executionType: 'synchronous', code: 'const n = 41; console.log("hi"); n + 1' } });
    assert.deepEqual([b.properties.status, b.properties.stdout, b.properties.result, b.properties.executionResult], ['Success', 'hi\n', 42, 42]);
    const c = await server.ok('POST', at('executions', '2025-10-02-preview'), { code: '"text " + n' });
    assert.deepEqual([c.status, c.result.executionResult], ['Succeeded', 'text 41']);
    const none = await server.ok('POST', at('executions', '2025-10-02-preview'), { code: 'let q = 1' });
    assert.equal(none.result.executionResult, '');
    const bad = await server.ok('POST', at('executions', '2025-10-02-preview'), { code: 'nothing.here' });
    assert.equal(bad.status, 'Failed');
    assert.match(bad.result.stderr, /ReferenceError: nothing is not defined/);
    const slow = await server.ok('POST', at('executions', '2025-10-02-preview'), { code: 'while (true) {}', timeoutInSeconds: 5 });
    assert.match(slow.result.stderr, /^Request timed out waiting for code execution to complete/);
  });
});

describe('MCP: run_code', () => {
  const call = (args) => result(modern(server, 'tools/call', { name: 'run_code', arguments: args }));
  of('javascript', 'keeps state from call to call', async () => {
    const first = await call({ language: 'javascript', code: 'var a = [1, 2]; a' });
    assert.equal(first.structuredContent.status, 'ok', JSON.stringify(first));
    const { session_id } = first.structuredContent;
    const next = await call({ language: 'javascript', code: 'a.length', session_id });
    assert.match(JSON.stringify(next.structuredContent), /"2"/);
    const bad = await call({ language: 'javascript', code: 'throw new Error("no")', session_id });
    assert.match(JSON.stringify(bad.content), /Error: no/);
  });
  of('c', 'compiles a program', async () => {
    const e = await call({ language: 'c', code: '#include <stdio.h>\nint main(void) { puts("built"); return 2; }' });
    assert.equal(e.structuredContent.exit_code, 2);
    assert.match(e.structuredContent.stdout, /built/);
  });
});

describe('the command line', () => {
  const files = { javascript: ['x.js', 'console.log(6 * 7)'], r: ['x.R', 'cat(6 * 7, "\\n", sep = "")'], c: ['x.c', '#include <stdio.h>\nint main(void) { printf("42\\n"); }'],
    java: ['x.java', 'class X { public static void main(String[] a) { System.out.println(42); } }'], shell: ['x.sh', 'echo $((6 * 7))'] };
  for (const [language, [name, code]] of Object.entries(files))
    of(language, `run ${name} knows its language`, async () => {
      writeFileSync(join(cli.cwd, name), code);
      assert.equal((await cli.ok(['run', name, '--timeout', '100'])).stdout, '42\n');
    });
  of('javascript', '--language chooses, and the prompt speaks it', async () => {
    assert.equal((await cli.ok(['run', '--language', 'javascript', '-c', '[1, 2].map((x) => x * 2)'])).stdout, '[ 2, 4 ]\n');
    assert.match((await cli.exits(1, ['run', '-l', 'javascript', '-c', 'null.x'])).stderr, /TypeError/);
    const shell = await cli.ok(['shell', '--lang', 'javascript'], { input: 'const f = (n) => {\nreturn n + 1\n}\nf(41)\n' });
    assert.match(shell.stdout, /42/);
  });
  test('what it does not know or cannot do is said', async () => {
    assert.match((await cli.exits(2, ['run', '--language', 'cobol', '-c', '1'])).stderr, /--language must be python, shell, javascript/);
    assert.match((await cli.exits(2, ['run', '-l', 'go', '--shell', '-c', '1'])).stderr, /not with --shell/);
    assert.match((await cli.exits(2, ['run', '-l', 'go', 'x.go', 'argument'])).stderr, /arguments and --stdin are for Python and shell/);
  });
});

describe('policy and evidence', () => {
  of('javascript', 'a rule may name a language, and a record does', async () => {
    const e = await server.run('1 + 1', { language: 'javascript' });
    assert.equal(e.result['text/plain'], '2');
    const record = await server.ok('GET', `/api/executions/${e.id}/evidence`).catch(() => server.ok('GET', `/api/evidence/${e.id}`));
    assert.match(JSON.stringify(record), /"language":"javascript"/);
  });
  test('decisions by language', async () => {
    const answer = await server.call('POST', '/api/policy/check', { action: 'execute', language: 'javascript' });
    assert.notEqual(answer.status, 500, answer.text);
  });
});

test('names are exact; bash is answered as shell', async () => {
  assert.equal((await server.run('echo 1', { language: 'bash' })).language, 'shell');
  refused(await request(server, 'POST', '/api/run', { body: { language: 'Python', code: '1' } }), 400, 'invalid_request', /language/);
});
