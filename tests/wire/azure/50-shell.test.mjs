// SPDX-License-Identifier: Apache-2.0
// The Azure door: shell pools.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Pool, V2024_02, V2024_08, V2024_10, V2025_02, V2025_10, arm, poolBody, refused } from '../../lib/azure.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { request, stop } from '../../lib/wire.mjs';

let server;
let p;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 1 })] } });
  const made = await request(server, 'PUT', arm('shells'), { body: poolBody({ containerType: 'Shell' }) });
  assert.equal(made.status, 200, made.text);
  p = new Pool(server, { base: '/pools/shells', identifier: 'shell-1' });
});
after(() => stop(server));

const ok = (answer) => {
  assert.equal(answer.status, 200, answer.text);
  return answer.body;
};

test('status is the exit code in digits', async () => {
  for (const version of [V2025_02, V2025_10, null]) {
    const got = ok(await p.at(version).shell('echo hi; echo no >&2', { timeoutInSeconds: 60 }));
    assert.deepEqual([got.identifier, got.status, got.exitCode, got.result.stdout, got.result.stderr], ['shell-1', '0', 0, 'hi\n', 'no\n']);
    assert.equal(typeof got.result.executionTimeInMilliseconds, 'number');
  }
  for (const code of [1, 2, 127, 255]) assert.equal(ok(await p.shell(`exit ${code}`)).status, String(code));
  const missing = ok(await p.shell('no_such_command_here'));
  assert.equal(missing.status, '127');
  assert.match(missing.result.stderr, /not found/);
  assert.equal(ok(await p.shell('kill -9 $$')).status, '137');
});

test('bash by default, sh when asked; extra fields are let pass', async () => {
  assert.equal(ok(await p.shell('[[ a == a ]] && echo ${BASH_VERSION:+bash}')).result.stdout, 'bash\n');
  const sh = ok(await p.shell(`echo "it's"; echo \${BASH_VERSION:-plain}; exit 3`, { shellType: 'sh' }));
  assert.deepEqual([sh.result.stdout, sh.status], ["it's\nplain\n", '3']);
  assert.equal(ok(await p.shell('echo 1', { codeInputType: 'Inline', executionType: 'Synchronous', shellType: 'BASH' })).result.stdout, '1\n');
  refused(await p.shell('echo', { shellType: 'zsh' }), 400, 'SessionRequestValidationFailed');
});

test('arguments are taken as they are', async () => {
  const args = ['a b', "it's", '$HOME', '`id`', '"; exit 9; #', '*', '\\', 'new\nline', '', '😀'];
  const got = ok(await p.post('executions', { execCommandAndArgs: ['printf', '%s|', ...args] }));
  assert.deepEqual([got.status, got.result.stdout], ['0', args.map((a) => `${a}|`).join('')]);
  assert.equal(ok(await p.post('executions', { execCommandAndArgs: ['sh', '-c', 'exit 4'] })).status, '4');
  refused(await p.post('executions', { execCommandAndArgs: ['ls'], shellCommand: 'ls' }), 400, 'SessionRequestValidationFailed', /only one/);
  for (const execCommandAndArgs of [[], 'ls', [1], {}, Array.from({ length: 1025 }, () => 'x')])
    refused(await p.post('executions', { execCommandAndArgs }), 400, 'SessionRequestValidationFailed');
});

test('a session keeps its files between commands, and its file calls are the usual ones', async () => {
  ok(await p.shell('echo data > /mnt/data/f.txt; mkdir -p /mnt/data/d; echo x > /mnt/data/d/g.txt'));
  assert.deepEqual(await p.names(), ['d', 'f.txt']);
  assert.equal((await p.at(V2025_02).upload('up.txt', '12345')).body.sizeInBytes, 5);
  assert.equal(ok(await p.shell('cat /mnt/data/up.txt')).result.stdout, '12345');
  assert.equal((await p.get('files/g.txt/content', { path: 'd' })).text, 'x\n');
});

test('time: status -1 and the known text', async () => {
  const got = ok(await p.shell('echo begun; sleep 60', { timeoutInSeconds: 1 }));
  assert.deepEqual([got.status, got.exitCode, got.result.stdout], ['-1', -1, 'begun\n']);
  assert.match(got.result.stderr, /^Request timed out waiting for code execution to complete/);
  assert.equal(ok(await p.shell('echo alive')).result.stdout, 'alive\n');
});

test('output is cut at 4096 characters unless asked otherwise', async () => {
  const flood = "printf 'ä%.0s' $(seq 5000)";
  for (const version of [V2025_02, V2025_10]) assert.equal(ok(await p.at(version).shell(flood)).result.stdout, 'ä'.repeat(4096));
  assert.equal(ok(await p.shell(flood, { outputStreamsMaxLength: 10 })).result.stdout.length, 10);
  assert.equal(ok(await p.shell(flood, { outputStreamsMaxLength: 9000 })).result.stdout.length, 5000);
  assert.deepEqual(Object.entries(ok(await p.shell('true')).result).filter(([k]) => k.startsWith('std')), [['stdout', ''], ['stderr', '']]);
});

test('what is not for shells, and shells not for what', async () => {
  refused(await p.run('1'), 400, 'SessionPropertiesMissing', /shellCommand/);
  for (const version of [V2024_10, V2024_02, V2024_08]) refused(await p.at(version).shell('ls'), version < V2024_10 ? 400 : 400, 'SessionRequestNotSupported', /not supported in this API version/);
  refused(await p.at(V2024_02).wrapped('1'), 400, 'SessionRequestNotSupported');
  refused(await p.at(null).legacy('1'), 400, 'SessionRequestNotSupported');
  refused(await new Pool(server).shell('ls'), 400, 'SessionPropertiesMissing');
});
