// SPDX-License-Identifier: Apache-2.0
// How the other doors show what policy holds: nothing has run, and the answer
// says so in the words of the dialect.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { ASKS, approvals, decide, ended, policy, show } from '../../lib/approvals.mjs';
import { GUID, Pool, V2024_02, V2024_10, V2025_10 } from '../../lib/azure.mjs';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool, sleep, until } from '../../lib/glovebox.mjs';
import { Legacy, modern, result } from '../../lib/mcp.mjs';
import { Tools } from '../../lib/mcp-tools.mjs';
import { request, stop } from '../../lib/wire.mjs';
import { Workspace, mint } from '../../lib/workspace.mjs';

// Python too, since some doors have nothing else.
const ALL = `${ASKS}  - {name: marked-code, match: {action: execute, language: python, pool: asking}, then: ask}\n`;
let server;
let agent;
let boss;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 1 }), pool({ name: 'asking', ready: 1 })] } });
  agent = await mint(server, ['execute', 'files:read', 'files:write', 'approve'], { name: 'agent' });
  boss = await mint(server, ['approve', 'execute'], { name: 'boss' });
  await policy(server, ALL);
});
after(() => stop(server));

const approve = async (id) => assert.equal((await decide(server, id, 'approve', boss.secret)).status, 200);
const newest = async () => (await approvals(server, '?state=pending&limit=1', boss.secret)).data[0];

describe('the Azure door', () => {
  const azure = (version) => new Pool(server, { base: '/pools/asking', version, key: agent.secret });

  test('a synchronous run has failed, and its stderr says what to do', async () => {
    for (const [p, call, read] of [
      [azure(V2024_02), 'legacy', (b) => b], [azure(V2024_02), 'wrapped', (b) => b.properties],
      [azure(V2025_10), 'run', (b) => ({ ...b.result, status: b.status })],
    ]) {
      const got = await p[call]('open("/mnt/data/ran", "w").write("x")');
      assert.equal(got.status, 200, got.text);
      const told = read(got.body);
      assert.match(told.status, /^Fail/);
      const waiting = await newest();
      assert.ok(told.stderr.includes(waiting.id), told.stderr);
      assert.match(told.stderr, /has not run/);
      await approve(waiting.id);
      assert.equal((await ended(server, waiting.execution)).outcome, 'ok');
    }
  });

  test('an asynchronous one is not started until it is approved', async () => {
    for (const version of [V2024_10, V2025_10]) {
      const p = azure(version);
      const got = await p.run('print(6 * 7)', { executionType: 'Asynchronous' });
      assert.equal(got.status, 202, got.text);
      assert.equal(got.body.status, 'NotStarted');
      assert.match(got.body.id, GUID);
      assert.equal((await p.get(`executions/${got.body.id}`)).body.status, 'NotStarted');
      await approve((await newest()).id);
      const done = await until(async () => {
        const { body } = await p.get(`executions/${got.body.id}`);
        return body.status === 'Succeeded' && body;
      }, { what: 'its end' });
      assert.equal(done.result.stdout, '42\n');
    }
  });

  test('a denied one has failed', async () => {
    const p = azure(V2025_10);
    const got = await p.run('1', { executionType: 'Asynchronous' });
    await decide(server, (await newest()).id, 'deny', boss.secret, { reason: 'no thanks' });
    const { body } = await p.get(`executions/${got.body.id}`);
    assert.equal(body.status, 'Failed');
    assert.match(body.result.stderr, /no thanks/);
  });
});

describe('MCP', () => {
  const code = { command: 'echo from mcp' };
  const call = (params, capabilities = { elicitation: {} }) =>
    result(modern(server, 'tools/call', { name: 'run_shell', arguments: code, ...params }, { capabilities, key: agent.secret }));

  test('2026-07-28: the user is asked to wait or withdraw, and a retry has the result', async () => {
    const asked = await call({});
    assert.equal(asked.resultType, 'input_required', JSON.stringify(asked));
    const [[key, question]] = Object.entries(asked.inputRequests);
    assert.equal(question.method, 'elicitation/create');
    const waiting = await newest();
    assert.ok(question.params.message.includes(waiting.id));
    assert.deepEqual(question.params.requestedSchema.properties.choice.enum, ['wait', 'withdraw']);
    await approve(waiting.id);
    const done = await call({ requestState: asked.requestState, inputResponses: { [key]: { action: 'accept', content: { choice: 'wait' } } } });
    assert.equal(done.structuredContent.status, 'ok', JSON.stringify(done));
    assert.equal(done.structuredContent.stdout, 'from mcp\n');
    assert.equal(done.structuredContent.execution_id, waiting.execution);
    assert.equal(done.structuredContent.session_id, waiting.session, 'no second session');
    const again = await call({ requestState: asked.requestState, inputResponses: { [key]: { action: 'accept', content: { choice: 'wait' } } } });
    assert.equal(again.structuredContent.execution_id, waiting.execution, 'a repeat runs nothing');
    assert.equal((await approvals(server, '?state=pending', boss.secret)).data.length, 0);
  });

  test('nothing the client answers approves it', async () => {
    for (const content of [{ choice: 'approve' }, { choice: 'wait', approve: true, decision: 'approve' }]) {
      const asked = await call({});
      const waiting = await newest();
      const [key] = Object.keys(asked.inputRequests);
      const answer = call({ requestState: asked.requestState, inputResponses: { [key]: { action: 'accept', content } } });
      await sleep(600);
      assert.equal((await show(server, waiting.id)).state, 'pending');
      await decide(server, waiting.id, 'deny', boss.secret, { reason: 'still no' });
      const told = await answer;
      assert.equal(told.structuredContent.status, 'denied');
      assert.match(told.structuredContent.message, /still no/);
      assert.equal(told.isError, true);
    }
  });

  test('withdrawing takes it back', async () => {
    const asked = await call({});
    const waiting = await newest();
    const [key] = Object.keys(asked.inputRequests);
    const told = await call({ requestState: asked.requestState, inputResponses: { [key]: { action: 'accept', content: { choice: 'withdraw' } } } });
    assert.equal(told.structuredContent.status, 'cancelled');
    assert.equal((await show(server, waiting.id)).state, 'withdrawn');
  });

  test('declining leaves it waiting', async () => {
    const asked = await call({});
    const waiting = await newest();
    const [key] = Object.keys(asked.inputRequests);
    const told = await call({ requestState: asked.requestState, inputResponses: { [key]: { action: 'decline' } } });
    assert.equal(told.structuredContent.status, 'pending_approval');
    assert.equal(told.structuredContent.approval_id, waiting.id);
    assert.equal((await show(server, waiting.id)).state, 'pending');
    await decide(server, waiting.id, 'deny', boss.secret, { reason: 'tidy' });
  });

  test('a client that cannot ask gets it told, and check_approval has the result', async () => {
    const t = new Tools(server, { key: agent.secret });
    const held = await t.call('run_shell', code);
    assert.equal(held.data.status, 'pending_approval');
    assert.match(held.text, /has not run/);
    assert.ok(!held.isError);
    const { approval_id } = held.data;
    assert.equal((await t.call('check_approval', { approval_id })).data.status, 'pending_approval');
    const mine = await t.call('decide_approval', { approval_id, decision: 'approve' });
    assert.equal(mine.data.status, 'forbidden', 'who asked cannot');
    const b = new Tools(server, { key: boss.secret });
    assert.equal((await b.call('decide_approval', { approval_id, decision: 'approve', reason: 'ok' })).data.approval.state, 'approved');
    const done = await until(async () => {
      const c = await t.call('check_approval', { approval_id });
      return c.data.status === 'ok' && c.data.stdout && c;
    }, { what: 'its result' });
    assert.equal(done.data.stdout, 'from mcp\n');
    assert.equal((await t.call('check_approval', { approval_id: 'apr_1' })).data.status, 'not_found');
  });

  test('search_files, which runs something itself, is told the same', async () => {
    const t = new Tools(server, { key: agent.secret, conversation: 'searching' });
    await t.call('upload_file', { path: 'a.txt', text: 'needle' });
    const held = await t.call('search_files', { pattern: 'needle' });
    assert.equal(held.data.status, 'pending_approval');
    await decide(server, held.data.approval_id, 'deny', boss.secret, { reason: 'tidy' });
  });

  test('a search and a report are actions of their own, not so many bytes of shell', async () => {
    const t = new Tools(server, { key: agent.secret, conversation: 'own-actions' });
    await t.call('upload_file', { path: 'a.txt', text: 'needle' });
    const search = await show(server, (await t.call('search_files', { pattern: 'need.e', glob: '*.txt' })).data.approval_id, boss.secret);
    assert.equal(search.action, 'search');
    assert.match(search.summary, /^search the files of session \w+ of pool default$/);
    assert.equal(search.payload.about, 'need.e\nin all files, named *.txt');
    assert.ok(!search.summary.includes('need'), 'lists and the trail have no text of the client');
    const shown = await new Cli(server).run(['approvals', 'show', search.id]);
    assert.match(shown.stdout, /need\.e/);
    assert.doesNotMatch(shown.stdout, /glovebox-search-exit/, 'not the program');
    await approve(search.id); // and then it runs by itself, as any execution
    assert.equal((await ended(server, search.execution)).outcome, 'ok');
    // The worker that carried it out erases the text after the execution ended.
    await until(async () => (await show(server, search.id)).payload.about === undefined, { what: 'its text erased' });

    const report = await t.call('generate_pdf_report', { markdown: '# Sales\n\nup', path: 'sales.pdf' });
    const waiting = await show(server, report.data.approval_id, boss.secret);
    assert.equal(waiting.action, 'report');
    assert.match(waiting.summary, /^make a PDF report in session \w+ of pool default$/);
    assert.equal(waiting.payload.about, 'sales.pdf\n\n# Sales\n\nup');
    await decide(server, waiting.id, 'deny', boss.secret, { reason: 'tidy' });

    // A rule of its own comes first; rules about execute cover the rest.
    await policy(server, ALL.replace('rules:', 'rules:\n  - {name: searches, match: {action: search}, then: allow}'));
    const adopted = new Tools(server, { key: agent.secret, conversation: 'free-search' });
    await adopted.call('upload_file', { path: 'a.txt', text: 'needle' });
    assert.equal((await adopted.call('search_files', { pattern: 'needle' })).data.status, 'ok');
    assert.equal((await adopted.call('run_shell', code)).data.status, 'pending_approval');
    await decide(server, (await newest()).id, 'deny', boss.secret, { reason: 'tidy' });
    await policy(server, ALL);
  });

  test('2025-11-25: with elicitation the user is asked on the stream', async () => {
    const s = await Legacy.open(server, { capabilities: { elicitation: {} }, key: agent.secret });
    const answer = await s.request('tools/call', { name: 'run_shell', arguments: code }, { onEvent: async ({ data }) => {
      if (data?.method !== 'elicitation/create') return;
      await approve((await newest()).id);
      await s.post({ jsonrpc: '2.0', id: data.id, result: { action: 'accept', content: { choice: 'wait' } } });
    } });
    const told = answer.messages.find((m) => m.result?.content).result;
    assert.equal(told.structuredContent.status, 'ok', JSON.stringify(told));
    assert.equal(told.structuredContent.stdout, 'from mcp\n');
  });

  test('2025-11-25: without it, a result that says so', async () => {
    const s = await Legacy.open(server, { key: agent.secret });
    const answer = await s.request('tools/call', { name: 'run_shell', arguments: code });
    const told = answer.messages.find((m) => m.result?.content).result;
    assert.equal(told.structuredContent.status, 'pending_approval');
    assert.ok(told.structuredContent.approval_id && told.structuredContent.execution_id);
    await decide(server, told.structuredContent.approval_id, 'deny', boss.secret, { reason: 'tidy' });
  });

  test('a link that is held is a tool error that names the approval', async () => {
    const t = new Tools(server, { key: agent.secret });
    const w = await Workspace.create(server, { name: 'mcp-share' }, agent.secret);
    await w.write('a.txt', 'a');
    const told = await t.call('share_file', { workspace: w.id, path: 'a.txt' });
    assert.equal(told.data.status, 'pending_approval');
    const [id] = /apr_[0-9a-f]{32}/.exec(told.data.message);
    await decide(server, id, 'deny', boss.secret, { reason: 'tidy' });
  });
});

describe('the command line', () => {
  let cli;
  let theirs;
  before(() => {
    cli = new Cli(server, { GLOVEBOX_KEY: agent.secret });
    theirs = new Cli(server, { GLOVEBOX_KEY: boss.secret });
  });
  after(async () => { await cli.close?.(); await theirs.close?.(); });

  const run = (c, ...args) => c.start(args).ended;

  test('run says that it waits, how to approve it, and keeps the session', async () => {
    const held = await run(cli, 'run', '--shell', '-c', 'echo from the line');
    assert.equal(held.status, 10, held.stderr);
    const [, id] = /approvals approve (apr_[0-9a-f]{32})/.exec(held.stderr);
    const [, execution] = /(exec_[0-9a-f]{32})/.exec(held.stderr);
    const list = await run(theirs, 'approvals');
    assert.equal(list.status, 0, list.stderr);
    assert.ok(list.stdout.includes(id));
    const shown = await run(theirs, 'approvals', 'show', id);
    assert.match(shown.stdout, /^echo from the line$/m);
    assert.equal((await run(cli, 'approvals', 'approve', id)).status, 3);
    assert.equal((await run(theirs, 'approvals', 'deny', id)).status, 2, 'a reason is needed');
    assert.equal((await run(theirs, 'approvals', 'approve', id, '-m', 'fine')).status, 0);
    assert.equal((await ended(server, execution)).stdout, 'from the line\n');
    assert.ok((await run(theirs, 'approvals', 'list', '--all')).stdout.includes(id));
    assert.ok(!(await run(theirs, 'approvals')).stdout.includes(id));
  });

  test('run --wait shows it as if it had been let at once', async () => {
    const waiting = cli.start(['run', '--shell', '--wait', '-c', 'echo waited; exit 3']);
    const one = await until(newest, { what: 'the ask' });
    await until(() => waiting.stderr.includes(one.id), { what: 'the sentence' });
    assert.equal((await run(theirs, 'approvals', 'approve', one.id)).status, 0);
    const done = await waiting.ended;
    assert.equal(done.stdout, 'waited\n');
    assert.equal(done.status, 1);
    assert.equal((await request(server, 'GET', `/api/sessions/${one.session}`)).status, 404, 'its session is gone again');
  });

  test('run --wait of a denied one ends as denied; --json is the execution', async () => {
    const waiting = cli.start(['run', '--shell', '--wait', '--json', '-c', 'true']);
    const one = await until(newest, { what: 'the ask' });
    assert.equal((await run(theirs, 'approvals', 'deny', one.id, '-m', 'not now')).status, 0);
    const done = await waiting.ended;
    assert.equal(done.status, 9, done.stderr);
    assert.equal(JSON.parse(done.stdout).outcome, 'denied');
  });

  test('withdraw takes back, and only who asked can', async () => {
    const held = await run(cli, 'run', '--shell', '--json', '-c', 'true');
    const { approval } = JSON.parse(held.stdout);
    assert.equal((await run(theirs, 'approvals', 'withdraw', approval)).status, 3);
    assert.equal((await run(cli, 'approvals', 'withdraw', approval)).status, 0);
    assert.equal((await show(server, approval)).state, 'withdrawn');
  });

  test('a link that is held is not taken for made', async () => {
    const w = await Workspace.create(server, { name: 'cli-share' }, agent.secret);
    await w.write('a.txt', 'a');
    const held = await run(cli, 'share', 'new', `${w.id}:a.txt`);
    assert.equal(held.status, 10, held.stderr);
    assert.equal(held.stdout, '');
    const [id] = /apr_[0-9a-f]{32}/.exec(held.stderr);
    assert.equal((await run(theirs, 'approvals', 'approve', id)).status, 0);
    const made = await run(cli, 'share', 'new', `${w.id}:a.txt`);
    assert.equal(made.status, 0, made.stderr);
    assert.match(made.stdout, /\/s\//);
  });

  test('show hides nothing of what is to be approved', async () => {
    const held = await run(cli, 'run', '--shell', '--json', '-c', 'echo safe #\u202e\u200b\x1b[2K\x1b[1A\rrm -rf /');
    const { approval } = JSON.parse(held.stdout);
    const shown = (await run(theirs, 'approvals', 'show', approval)).stdout;
    assert.ok(shown.includes('echo safe #\\u{202e}\\u{200b}\\x1b[2K\\x1b[1A\\x0drm -rf /'), shown);
    assert.equal((await run(cli, 'approvals', 'withdraw', approval)).status, 0);
  });
});
