// SPDX-License-Identifier: Apache-2.0
// glovebox chat: one question from a script, a person at a terminal, and
// streams that break. The service is a mock (tests/lib/chat-mock.mjs), which
// sends what a test wants; 71-chat-service.test.mjs asks the real one.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { ChatMock, PNG, answer, citation, code, message } from '../../lib/chat-mock.mjs';
import { Cli } from '../../lib/cli.mjs';

let mock;
let cli;

before(async () => {
  mock = await ChatMock.start();
  cli = new Cli(mock);
});
beforeEach(() => {
  mock.requests.length = 0;
  mock.files.length = 0;
  mock.refuse = () => null;
  mock.script = () => answer(message('**Four**, I think.'));
});
after(() => {
  cli?.close();
  mock?.close();
});

const asked = () => mock.requests.filter((r) => r.method === 'POST' && r.path === '/v1/responses').map((r) => r.body);
const logs = (text) => [{ type: 'logs', logs: text }];

test('-p prints the answer as it is, and nothing else, on a pipe', async () => {
  const { stdout, stderr } = await cli.ok(['chat', '-p', 'What is 2 + 2?']);
  assert.equal(stdout, '**Four**, I think.\n');
  assert.equal(stderr, '');
  const [body] = asked();
  assert.deepEqual(body.tools, [{ type: 'code_interpreter', container: { type: 'auto' } }]);
  assert.deepEqual(body.include, ['code_interpreter_call.outputs']);
  assert.deepEqual(body.input[0].content, [{ type: 'input_text', text: 'What is 2 + 2?' }]);
  assert.equal(body.model, undefined);
  assert.equal(body.stream && body.background && body.store, true);
  assert.equal(mock.requests[0].body.title, 'What is 2 + 2?');
});

test('-m names the model, and files and standard input go with the question', async () => {
  writeFileSync(join(cli.cwd, 'a b.csv'), 'x,y\n1,2\n');
  writeFileSync(join(cli.cwd, 'photo.PNG'), Buffer.from(PNG, 'base64'));
  await cli.ok(['chat', '-m', 'other', '-p', 'Sum?', 'a b.csv', 'photo.PNG'], { input: 'day,sales\nmon,3\n' });
  const [body] = asked();
  assert.equal(body.model, 'other');
  assert.deepEqual(body.input[0].content.map((p) => p.type), ['input_text', 'input_file', 'input_image', 'input_file']);
  assert.deepEqual(mock.files.map((f) => f.filename), ['a b.csv', 'photo.PNG', 'stdin.csv']);
  assert.ok(mock.files.every((f) => f.purpose === 'user_data'));
  assert.match(mock.files[2].text, /day,sales\nmon,3\n/);
  assert.deepEqual(body.input[0].content.slice(1).map((p) => p.file_id), mock.files.map((f) => f.id));
});

test('standard input is named by what it is, and nothing is sent of an empty one', async () => {
  for (const [input, name] of [['{"a":1}', 'stdin.json'], ['a\tb\n', 'stdin.tsv'], ['%PDF-1.7', 'stdin.pdf'], ['hello\n', 'stdin.txt']]) {
    mock.files.length = 0;
    await cli.ok(['chat', '-p', 'x'], { input });
    assert.deepEqual(mock.files.map((f) => f.filename), [name]);
  }
  mock.files.length = 0;
  await cli.ok(['chat', '-p', 'x'], { input: '' });
  assert.deepEqual(mock.files, []);
});

test('--json prints the response object; charts are saved only if asked for', async () => {
  mock.script = () => answer([...code('plot()', [{ type: 'image', url: `data:image/png;base64,${PNG}` }]), ...message('Done.', { index: 1 })]);
  const object = await cli.json(['chat', '-p', 'Plot it']);
  assert.equal(object.object, 'response');
  assert.equal(object.status, 'completed');
  assert.ok(!existsSync(join(cli.cwd, 'chart-1.png')));
  await cli.json(['chat', '-p', 'Plot it', '--charts', 'out']);
  assert.ok(readFileSync(join(cli.cwd, 'out/chart-1.png')).equals(Buffer.from(PNG, 'base64')));
});

test('charts are saved in the current folder, named, and never overwrite', async () => {
  mock.script = () => answer([...code('plot()', [{ type: 'image', url: `data:image/png;base64,${PNG}` }]), ...message('Done.', { index: 1 })]);
  writeFileSync(join(cli.cwd, 'chart-1.png'), 'mine');
  const { stdout, stderr } = await cli.ok(['chat', '-p', 'Plot it']);
  assert.equal(stdout, 'Done.\n');
  assert.match(stderr, /^chart saved: chart-2\.png$/m);
  assert.equal(readFileSync(join(cli.cwd, 'chart-1.png'), 'utf8'), 'mine');
});

test('each end has its exit status and its sentence', async () => {
  const cases = [
    [answer(message('x'), { status: 'incomplete', incomplete: { reason: 'max_output_tokens' } }), 5, /incomplete: its limit of tokens/],
    [answer([], { status: 'failed', error: { code: 'server_error', message: 'The model did not answer.' } }), 3, /The model did not answer/],
    [answer([], { status: 'failed', error: { code: 'rate_limit_exceeded', message: 'Too many.' } }), 5, /Too many/],
    [answer(message('x'), { status: 'cancelled' }), 7, /cancelled/],
    [answer([...code('rm()', logs('This call waits for approval apr_00112233445566778899aabbccddeeff.'), { status: 'incomplete' }), ...message('It waits.', { index: 1 })]), 10, /glovebox approvals show apr_00112233445566778899aabbccddeeff/],
    [{ ...answer(message('x')), noEnd: true }, 3, /ended early/],
  ];
  for (const [plan, status, says] of cases) {
    mock.script = () => plan;
    assert.match((await cli.exits(status, ['chat', '-p', 'x'])).stderr, says);
  }
});

test('code that is held is told while it waits, once', async () => {
  const held = { type: 'keepalive', pending_approval: { id: 'apr_00112233445566778899aabbccddeeff', execution: 'exec_1', message: 'waits' } };
  mock.script = () => answer([held, held, { type: 'keepalive', pending_approval: { id: 'apr_\x1b[2J' } }, ...code('print(1)', logs('1')), ...message('Done.', { index: 1 })]);
  const { stdout, stderr } = await cli.ok(['chat', '-p', 'x']);
  assert.equal(stdout, 'Done.\n');
  assert.equal(stderr.match(/approvals approve apr_00112233445566778899aabbccddeeff/g).length, 1);
});

test('a refusal says what to do next', async () => {
  mock.refuse = (m, p) => p === '/v1/responses' && { status: 400, error: { message: "The model 'none' does not exist.", code: 'model_not_found', param: 'model' } };
  const none = await cli.exits(2, ['chat', '-m', 'none', '-p', 'x']);
  assert.match(none.stderr, /The model 'none' does not exist/);
  assert.match(none.stderr, /glovebox model add/);
  mock.refuse = (m, p) => p === '/v1/responses' && { status: 429, error: { message: 'The budget of the tenant is used up.', code: 'insufficient_quota' }, headers: { 'retry-after': '30' } };
  const budget = await cli.exits(5, ['chat', '-p', 'x']);
  assert.match(budget.stderr, /budget of the tenant/);
  assert.match(budget.stderr, /Try again in 30 s/);
  mock.refuse = (m, p) => p === '/api/conversations' && { status: 404, error: { message: 'there is no such path' } };
  assert.match((await cli.exits(3, ['chat', '-p', 'x'])).stderr, /older than this program/);
});

test('wrong lines are told before anything is asked', async () => {
  for (const [args, says] of [[['-c', 'conv_1', '--new'], /use one of them/], [['-p', '  '], /empty/], [['-c', ''], /needs an id/]])
    assert.match((await cli.exits(2, ['chat', ...args])).stderr, says);
  assert.match((await cli.exits(3, ['chat', '-p', 'x', 'missing.csv'])).stderr, /cannot read missing\.csv/);
  assert.match((await cli.exits(3, ['chat', '-p', 'x', '.'])).stderr, /not a file/);
  assert.match((await cli.exits(3, ['chat', '-c', 'conv_x', '-p', 'x'])).stderr, /Conversation with id 'conv_x' not found/);
  assert.deepEqual(asked(), []);
});

test('a stream that breaks is taken up again where it broke, and nothing is shown twice', async () => {
  mock.script = () => ({ ...answer(message('one two three four five six seven')), cut: 6 });
  assert.equal((await cli.ok(['chat', '-p', 'x'])).stdout, 'one two three four five six seven\n');
  assert.equal(asked().length, 1);
  const resumed = mock.requests.find((r) => r.method === 'GET' && r.path.startsWith('/v1/responses/'));
  assert.equal(resumed.query.get('starting_after'), '5');
});

test('a busy conversation is tried again; garbage and unknown events are ignored', async () => {
  let times = 0;
  mock.refuse = (m, p) => p === '/v1/responses' && ++times < 3 && { status: 400, error: { message: 'busy', code: 'conversation_locked', param: 'conversation' } };
  mock.script = () => answer([{ type: 'keepalive' }, { type: 'response.invented.delta', delta: 'x' }, { type: 'response.output_text.delta', delta: 5 }, ...message('fine')]);
  assert.equal((await cli.ok(['chat', '-p', 'x'])).stdout, 'fine\n');
  assert.equal(times, 3);
});

test('from a pipe each line is a question of one conversation', async () => {
  mock.script = (body) => answer(message(`You said ${body.input[0].content[0].text}.`));
  const { stdout } = await cli.ok(['chat'], { input: 'one\ntwo \\\nlines\n/quit\nnever\n' });
  assert.equal(stdout, 'You said one.\nYou said two \nlines.\n');
  const ids = asked().map((b) => b.conversation);
  assert.ok(ids[0].startsWith('conv_') && ids[0] === ids[1]);
  const lines = (await cli.ok(['chat', '--json'], { input: 'one\ntwo\n' })).stdout.trim().split('\n').map((l) => JSON.parse(l));
  assert.deepEqual(lines.map((l) => l.object), ['response', 'response']);
});

test('a person sees Markdown, folded code, charts and files, and unfolds code', async () => {
  const text = 'The **mean** is 4. See [report.csv](sandbox:/mnt/data/report.csv).';
  mock.script = () => answer([...code('import csv\nprint(4)', logs('4\n')), ...message(text, { index: 1, annotations: [citation('/mnt/data/report.csv')] })]);
  const run = cli.start(['chat'], { terminal: true });
  await run.shows(/Ctrl-D leaves/);
  run.child.stdin.write('What is the mean?\n');
  await run.shows(/files: report\.csv \(\/get NAME\)/);
  run.child.stdin.write('/code 1\n');
  await run.shows(/print\(4\)\r\n/);
  run.child.stdin.write('/code 9\n');
  await run.shows(/from 1 to 1/);
  run.child.stdin.write('/nonsense\n');
  await run.shows(/no such command/);
  run.child.stdin.write('/help\n');
  await run.shows(/\/get NAME \[FILE\]/);
  run.child.stdin.write('/model\n');
  await run.shows(/^ {2}other/m);
  run.child.stdin.write('/model other\n');
  await run.shows(/come from other now/);
  run.child.stdin.write('/new\n');
  await run.shows(/a new conversation/);
  run.child.stdin.write('Again?\n');
  await run.shows(/code 1[^]*code 1[^]*files: report\.csv[^]*> $/);
  run.child.stdin.write('\x04');
  const { status, stdout } = await run.ended;
  assert.equal(status, 0);
  assert.match(stdout, /▸ code 1: import csv \(\+1 line\) → 1 line of output/);
  assert.match(stdout, /The \x1b\[0m\x1b\[1mmean \x1b\[0mis 4\./);
  assert.doesNotMatch(stdout, /sandbox:/);
  assert.match(stdout, /glovebox chat -c conv_\d+` continues/);
  const bodies = asked();
  assert.equal(bodies[1].model, 'other');
  assert.notEqual(bodies[0].conversation, bodies[1].conversation);
});

test('Ctrl-C cancels the answer and keeps the chat; history is private and Tab completes', async () => {
  mock.script = (body, n) => (body.input[0].content[0].text === 'slow' ? { ...answer(message('begun')), wait: true } : answer(message('still here')));
  const run = cli.start(['chat', '-m', 'echo'], { terminal: true });
  await run.shows(/come from echo/);
  run.child.stdin.write('slow\n');
  await run.shows(/begun/);
  run.child.stdin.write('\x03');
  await run.shows(/cancelled; the conversation goes on/);
  assert.ok(mock.requests.some((r) => r.path.endsWith('/cancel')));
  run.child.stdin.write('more\n');
  await run.shows(/still here/);
  run.child.stdin.write('/conv\t\n');
  await run.shows(/conv_\d{32}/);
  run.child.stdin.write('/model oth\t\n');
  await run.shows(/come from other now/);
  run.child.stdin.write('/quit\n');
  assert.equal((await run.ended).status, 0);
  const history = join(cli.env.HOME, '.local/state/glovebox/chat_history');
  assert.equal(statSync(history).mode & 0o777, 0o600);
  assert.match(readFileSync(history, 'utf8'), /^slow\nmore\n/m);
});

test('-c continues: the last answer is shown and its code can be unfolded', async () => {
  mock.script = () => answer([...code('answer = 42', logs('42')), ...message('It is 42.', { index: 1 })]);
  await cli.ok(['chat', '-p', 'first']);
  const [{ conversation }] = asked();
  const run = cli.start(['chat', '-c', conversation], { terminal: true });
  await run.shows(/It is 42\./);
  run.child.stdin.write('/code\n');
  await run.shows(/answer = 42/);
  run.child.stdin.write('go on\n');
  await run.shows(/It is 42[^]*It is 42/);
  run.child.stdin.write('/quit\n');
  assert.equal((await run.ended).status, 0);
  assert.equal(asked()[1].conversation, conversation);
  await cli.ok(['chat', '-c', 'last', '-p', 'and?']);
  assert.equal(asked()[2].conversation, conversation);
});

test('U1: what a model says cannot control the terminal', async () => {
  const evil = 'x \x1b]0;owned\x07 y \x1b]52;c;aGk=\x1b\\ z \x1b[2J w';
  mock.script = () => answer([...code(`print(1)${evil}`, logs(`Traceback (most recent call last)\n${evil}\n`)),
    ...message(evil, { index: 1, annotations: [citation(`/mnt/data/${evil}`)] })]);
  const run = cli.start(['chat'], { terminal: true });
  await run.shows(/Ctrl-D leaves/);
  run.child.stdin.write('go\n');
  await run.shows(/files: /);
  run.child.stdin.write('/code\n/quit\n');
  const { stdout } = await run.ended;
  assert.doesNotMatch(stdout, /owned|\x1b\]52|\x1b\[2J/);
});
