// SPDX-License-Identifier: Apache-2.0
// What a host does with the MCP door, step by step: every tool once and more,
// resources, prompts, completions, progress, cancelling, errors. Played by
// each official client in each era over each transport. The steps share what
// they made: `w` is the connection and what is known so far.
import assert from 'node:assert/strict';
import { sleep, until } from './glovebox.mjs';

const PNG = Buffer.from('89504e470d0a1a0a', 'hex');
const CONVERSATION = 'com.glovebox/conversation';

export const CORE = ['execute_python', 'run_shell', 'run_code', 'generate_pdf_report', 'read_file', 'search_files', 'list_files', 'download_file',
  'upload_file', 'share_file', 'upload_link', 'reset_session', 'interrupt', 'list_sessions', 'refresh_session', 'hibernate_session', 'undo', 'branch_session', 'merge_branch', 'end_session', 'check_approval'];
export const WORKSPACE = ['list_workspaces', 'create_workspace', 'search_workspace', 'file_history', 'restore_version', 'lock_file', 'unlock_file',
  'share_file', 'share_session', 'transfer_workspace', 'decide_approval', 'conversation_files'];

export const ALL = [...new Set([...CORE, ...WORKSPACE])];

// A call that goes well; its structuredContent, with the rest beside it.
async function ok(w, name, args = {}, { meta, ...options } = {}) {
  w.called.add(name);
  const result = await w.call({ name, arguments: args, ...(meta ? { _meta: meta } : {}) }, options);
  assert.ok(!result.isError, `${name}: ${JSON.stringify(result).slice(0, 1000)}`);
  assert.equal(result.structuredContent.status, 'ok', name);
  assert.ok(result.content.some(({ type }) => type === 'text'), `${name} says something`);
  return { ...result.structuredContent, result };
}

// A call the model can learn from; its structuredContent.
async function refused(w, name, args, says) {
  const result = await w.call({ name, arguments: args });
  assert.equal(result.isError, true, `${name}: ${JSON.stringify(result).slice(0, 1000)}`);
  assert.notEqual(result.structuredContent.status, 'ok');
  assert.match(result.content.map(({ text }) => text).join('\n'), says);
  return result.structuredContent;
}

const failure = (promise) => promise.then((value) => assert.fail(`went well: ${JSON.stringify(value).slice(0, 500)}`), (error) => error);
const running = async (w) => (await w.server.ok('GET', '/api/sessions')).data.filter(({ state }) => state === 'running').length;

// The bytes behind a link or an id, fetched as a host would later.
async function fetched(w, path) {
  const url = path.startsWith('/') ? `${w.server.url}${path}` : path;
  const response = await fetch(url, { headers: { authorization: `Bearer ${w.server.key}` } });
  assert.equal(response.status, 200, `${path}: ${response.status}`);
  return Buffer.from(await response.arrayBuffer());
}

export const steps = [
  ['it says who it is and what it can do', async (w) => {
    const { name, version } = w.client.getServerVersion();
    assert.equal(name, 'glovebox');
    assert.match(version, /^\d+\.\d+\.\d+$/);
    const can = w.client.getServerCapabilities();
    for (const what of ['tools', 'resources', 'prompts', 'completions', 'logging']) assert.ok(can[what], what);
    assert.match(w.client.getInstructions(), /\/mnt\/data/);
  }],

  ['tools/list: every tool, described for a model, with schemas and hints', async (w) => {
    const { tools } = await w.client.listTools();
    assert.deepEqual(tools.map(({ name }) => name).sort(), [...ALL].sort());
    for (const tool of tools) {
      assert.ok(tool.description.length > 80, tool.name);
      assert.ok(tool.title, tool.name);
      assert.equal(tool.inputSchema.type, 'object');
      assert.equal(tool.outputSchema.type, 'object');
      for (const hint of ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'])
        assert.equal(typeof tool.annotations[hint], 'boolean', `${tool.name} ${hint}`);
    }
  }],

  ['execute_python: output, an image block, a link and an id for each file', async (w) => {
    const code = 'import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()\n'
      + 'open("/mnt/data/n.csv", "w").write("name,n\\napple,3\\npear,4\\n")\nprint("made")';
    const made = await ok(w, 'execute_python', { code }, { meta: { [CONVERSATION]: w.conversation } });
    Object.assign(w, { session: made.session_id, file: made.files.find(({ path }) => path === 'n.csv') });
    assert.equal(made.stdout, 'made\n');
    const { content, _meta } = made.result;
    const image = content.find(({ type }) => type === 'image');
    assert.equal(image.mimeType, 'image/png');
    assert.deepEqual(Buffer.from(image.data, 'base64').subarray(0, 8), PNG);
    const link = content.find(({ type, name }) => type === 'resource_link' && name === 'n.csv');
    assert.equal(link.mimeType, 'text/csv');
    w.uri = link.uri;
    assert.match(w.uri, /^workspace:\/\/ws_[0-9a-f]+\/n\.csv$/);
    [, w.workspace] = /^workspace:\/\/(ws_[0-9a-f]+)\//.exec(w.uri);
    w.container = _meta.container_id;
    w.kept = _meta.files.find(({ name }) => name === 'n.csv');
    assert.equal(w.kept.path, 'sandbox:/mnt/data/n.csv');
  }],

  ['the file is fetched afterwards by the container files API and by its URL', async (w) => {
    const text = 'name,n\napple,3\npear,4\n';
    assert.equal((await fetched(w, `/v1/containers/${w.container}/files/${w.kept.id}/content`)).toString(), text);
    assert.equal((await fetched(w, w.kept.url)).toString(), text);
    assert.equal((await fetched(w, w.file.url)).toString(), text);
    const listed = await w.server.ok('GET', `/v1/containers/${w.container}/files`);
    assert.ok(listed.data.some(({ id, path }) => id === w.kept.id && path === '/mnt/data/n.csv'), JSON.stringify(listed.data));
  }],

  ['execute_python again: the session is the same, by its id and without', async (w) => {
    await ok(w, 'execute_python', { code: 'x = 41', session_id: w.session });
    assert.equal((await ok(w, 'execute_python', { code: 'x + 1', session_id: w.session })).result.structuredContent.result, '42');
    // Calls of one conversation or one legacy session share one.
    const meta = { [CONVERSATION]: w.conversation };
    assert.equal((await ok(w, 'execute_python', { code: 'print(x)' }, { meta })).session_id, w.session);
  }],

  ['run_code', async (w) => {
    const done = await ok(w, 'run_code', { language: 'bash', code: 'echo in $BASH_VERSION', session_id: w.session });
    assert.match(done.stdout, /^in 5/);
  }],
  ['run_shell', async (w) => {
    const done = await ok(w, 'run_shell', { command: 'wc -l < n.csv; echo oops >&2; echo more > made-by-shell.txt', session_id: w.session });
    assert.equal(done.exit_code, 0);
    assert.match(done.stdout, /^3\n/);
    assert.match(done.stderr, /oops/);
    assert.deepEqual(done.files.map(({ path }) => path), ['made-by-shell.txt']);
  }],

  ['upload_file: as text, as base64, and from a file of ours', async (w) => {
    const session_id = w.session;
    const put = await ok(w, 'upload_file', { path: 'notes/a.md', text: '# Größe\nthe quick brown zebrafish\n', session_id });
    assert.equal(put.file.path, 'notes/a.md');
    await ok(w, 'upload_file', { path: 'bytes.bin', base64: Buffer.from([0, 255, 1]).toString('base64'), session_id });
    await ok(w, 'upload_file', { path: 'copy.csv', url: w.file.url, session_id });
    await ok(w, 'upload_file', { path: 'copy2.csv', url: w.uri, session_id });
    const code = 'print(open("bytes.bin","rb").read(), open("copy.csv").read() == open("copy2.csv").read() == open("n.csv").read())';
    assert.equal((await ok(w, 'execute_python', { code, session_id })).stdout, "b'\\x00\\xff\\x01' True\n");
  }],

  ['read_file, page by page', async (w) => {
    const session_id = w.session;
    await ok(w, 'execute_python', { code: 'open("long.txt","w").write("".join(f"line {n}\\n" for n in range(1, 2501)))', session_id });
    const one = await ok(w, 'read_file', { path: '/mnt/data/long.txt', limit: 2000, session_id });
    assert.equal(one.lines, 2000);
    assert.equal(one.total_lines, 2500);
    const two = await ok(w, 'read_file', { path: 'sandbox:/mnt/data/long.txt', offset: one.next_offset, session_id });
    assert.equal(two.lines, 500);
    assert.equal(two.next_offset ?? null, null);
    assert.match(two.text, /^(\s*\d+\s)?line 2001\n/);
  }],

  ['search_files', async (w) => {
    const found = await ok(w, 'search_files', { pattern: 'z.brafish', glob: '*.md', context: 1, session_id: w.session });
    assert.equal(found.matches, 1);
    assert.match(JSON.stringify(found.lines), /notes\/a\.md/);
  }],

  ['list_files', async (w) => {
    const { files } = await ok(w, 'list_files', { recursive: true, session_id: w.session });
    for (const path of ['n.csv', 'notes/a.md', 'bytes.bin']) assert.ok(files.some((f) => f.path === path), path);
  }],

  ['download_file: a small one comes along, any by its link', async (w) => {
    const text = await ok(w, 'download_file', { path: 'n.csv', session_id: w.session });
    assert.equal(text.content, 'text');
    assert.ok(text.result.content.some((block) => block.type === 'resource_link' && block.uri === w.uri));
    assert.match(JSON.stringify(text.result.content), /apple,3/);
    const bytes = await ok(w, 'download_file', { path: 'bytes.bin', session_id: w.session });
    assert.deepEqual([...await fetched(w, bytes.file.url)], [0, 255, 1]);
  }],

  ['generate_pdf_report: a PDF to keep, and a picture of its first page', async (w) => {
    const markdown = '# Sales\n\n![](n.csv)\n\n| a | b |\n|---|---|\n| 1 | 2 |\n';
    const made = await ok(w, 'generate_pdf_report', { markdown, title: 'Sales', path: 'sales.pdf', toc: true, session_id: w.session }, { timeout: 180_000 });
    assert.ok(made.pages >= 1);
    assert.equal(made.file.path, 'sales.pdf');
    const image = made.result.content.find(({ type }) => type === 'image');
    assert.deepEqual(Buffer.from(image.data, 'base64').subarray(0, 8), PNG);
    assert.equal((await fetched(w, made.file.url)).subarray(0, 5).toString(), '%PDF-');
    assert.ok(made.result.content.some(({ type, name }) => type === 'resource_link' && name === 'sales.pdf'));
  }],

  ['list_sessions', async (w) => {
    const { sessions } = await ok(w, 'list_sessions', { limit: 100 });
    assert.ok(sessions.some(({ session_id }) => session_id === w.session), JSON.stringify(sessions).slice(0, 500));
  }],

  ['check_approval, decide_approval: what is not there', async (w) => {
    w.called.add('check_approval').add('decide_approval');
    await refused(w, 'check_approval', { approval_id: `apr_${'0'.repeat(32)}` }, /no such approval/);
    await refused(w, 'decide_approval', { approval_id: `apr_${'0'.repeat(32)}`, decision: 'approve' }, /no such approval/);
  }],

  ['refresh_session: the newest files; end_session: an end', async (w) => {
    assert.equal((await ok(w, 'refresh_session', { session_id: w.session })).changed, 0);
    const { id: session_id } = await w.server.ok('POST', '/api/sessions', {});
    assert.equal((await ok(w, 'end_session', { session_id })).session_id, session_id);
  }],

  ['reset_session: variables go, files stay', async (w) => {
    await ok(w, 'reset_session', { session_id: w.session });
    const seen = await ok(w, 'execute_python', { code: 'import os\nprint("x" in globals(), os.path.exists("n.csv"))', session_id: w.session });
    assert.equal(seen.stdout, 'False True\n');
  }],

  ['interrupt: what runs ends, and says so', async (w) => {
    const { session_id } = await ok(w, 'execute_python', { code: '1', session_id: w.session });
    const slow = w.call({ name: 'execute_python', arguments: { code: 'import time\ntime.sleep(600)', session_id } });
    await until(async () => await running(w) > 0, { what: 'the code running' });
    await ok(w, 'interrupt', { session_id });
    const ended = await slow;
    assert.equal(ended.isError, true);
    assert.match(ended.structuredContent.status, /cancelled|error/);
  }],

  ['upload_link: a page that takes one file', async (w) => {
    const made = await ok(w, 'upload_link', { path: 'up/user.bin', session_id: w.session });
    const put = () => fetch(made.url, { method: 'PUT', body: 'large' });
    assert.equal((await put()).status, 201);
    assert.equal((await put()).status, 404);
  }],

  ['create_workspace: one with a name', async (w) => {
    assert.match((await ok(w, 'create_workspace', { name: 'of an agent' })).workspace, /^ws_/);
  }],

  ['file_history and restore_version', async (w) => {
    const session_id = w.session;
    await ok(w, 'upload_file', { path: 'v.txt', text: 'first', session_id });
    await ok(w, 'upload_file', { path: 'v.txt', text: 'second', session_id });
    const { versions } = await ok(w, 'file_history', { path: 'v.txt', session_id });
    assert.equal(versions.length, 2);
    const back = await ok(w, 'restore_version', { version: versions.at(-1).version, session_id });
    assert.ok(back.commit);
    assert.match(JSON.stringify((await ok(w, 'read_file', { path: 'v.txt', session_id })).text), /first/);
    assert.equal((await ok(w, 'execute_python', { code: 'print(open("v.txt").read())', session_id })).stdout, 'first\n');
  }],

  ['lock_file and unlock_file: the session it is for may write, others may not', async (w) => {
    const session_id = w.session;
    const other = (await ok(w, 'execute_python', { code: '1', workspace: w.workspace })).session_id;
    assert.notEqual(other, session_id);
    const lock = await ok(w, 'lock_file', { path: 'v.txt', session_id, seconds: 120, label: 'test' });
    assert.equal(lock.session_id, session_id);
    assert.ok(lock.fence >= 1);
    await ok(w, 'upload_file', { path: 'v.txt', text: 'third', session_id });
    const { status } = await refused(w, 'upload_file', { path: 'v.txt', text: 'stolen', session_id: other }, /lock/i);
    assert.equal(status, 'locked');
    await ok(w, 'unlock_file', { lock_id: lock.lock_id, lock_token: lock.lock_token, workspace: w.workspace });
    assert.match((await ok(w, 'read_file', { path: 'v.txt', session_id })).text, /third/);
  }],

  ['share_file: the link opens without a key', async (w) => {
    const share = await ok(w, 'share_file', { path: 'n.csv', session_id: w.session, expires_in_s: 3600, max_downloads: 3 });
    const url = share.url.startsWith('/') ? w.server.url + share.url : share.url;
    const response = await fetch(url);
    assert.equal(response.status, 200);
    assert.match(await response.text(), /apple,3/);
  }],

  ['share_session, and back', async (w) => {
    for (const sharing of ['tenant', 'principal']) assert.equal((await ok(w, 'share_session', { session_id: w.session, sharing })).session.sharing, sharing);
  }],

  ['list_workspaces and search_workspace, with a citation', async (w) => {
    const { workspaces } = await ok(w, 'list_workspaces', { limit: 100 });
    assert.ok(workspaces.some((one) => Object.values(one).includes(w.workspace)), JSON.stringify(workspaces).slice(0, 500));
    const hits = await until(async () => {
      const found = await ok(w, 'search_workspace', { query: 'zebrafish', workspace: w.workspace });
      return found.hits.length > 0 && found.hits;
    }, { every: 200, what: 'the file in the index' });
    assert.match(JSON.stringify(hits[0]), /notes\/a\.md/);
    assert.match(JSON.stringify(hits[0]), /zebrafish/);
  }],

  ['conversation_files: what a conversation made', async (w) => {
    const { versions } = await ok(w, 'conversation_files', { conversation: w.conversation });
    assert.ok(versions.some(({ path }) => path === 'n.csv'), JSON.stringify(versions).slice(0, 500));
  }],

  ['transfer_workspace: an offer, and who claims it', async (w) => {
    const { offer } = await ok(w, 'transfer_workspace', { workspace: w.workspace, offer: true, expires_in_s: 600 });
    assert.ok(offer, 'an offer');
    assert.match(JSON.stringify(offer), /token/);
  }],

  ['undo, branch_session, merge_branch and hibernate_session: memory goes back, splits and survives', async (w) => {
    const { id: session_id } = await w.server.ok('POST', '/api/sessions', {});
    await ok(w, 'execute_python', { code: 'x = 1', session_id });
    await ok(w, 'execute_python', { code: 'x = 2', session_id });
    assert.equal((await ok(w, 'undo', { session_id })).executions, 1);
    assert.equal((await ok(w, 'execute_python', { code: 'print(x)', session_id })).stdout, '1\n');
    const { branches: [branch] } = await ok(w, 'branch_session', { session_id });
    assert.notEqual(branch, session_id);
    assert.equal((await ok(w, 'execute_python', { code: 'open("b.txt", "w").write("b"); x += 10; print(x)', session_id: branch })).stdout, '11\n');
    assert.equal((await ok(w, 'merge_branch', { session_id: branch })).files, 1);
    assert.equal((await ok(w, 'hibernate_session', { session_id })).state, 'hibernated');
    assert.equal((await ok(w, 'execute_python', { code: 'print(x)', session_id })).stdout, '1\n');
  }],

  ['every tool was called', (w) => assert.deepEqual([...w.called].sort(), [...ALL].sort())],

  ['resources: listed, read as text and as bytes, a template', async (w) => {
    const listed = [];
    let cursor;
    do {
      const page = await w.client.listResources(cursor ? { cursor } : {});
      listed.push(...page.resources);
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    assert.ok(listed.some(({ uri }) => uri === w.uri), JSON.stringify(listed).slice(0, 500));
    const { contents: [text] } = await w.client.readResource({ uri: w.uri });
    assert.equal(text.text, 'name,n\napple,3\npear,4\n');
    const { contents: [bytes] } = await w.client.readResource({ uri: w.uri.replace('n.csv', 'bytes.bin') });
    assert.equal(bytes.blob, Buffer.from([0, 255, 1]).toString('base64'));
    const { resourceTemplates } = await w.client.listResourceTemplates();
    assert.ok(resourceTemplates.some(({ uriTemplate }) => uriTemplate.startsWith('workspace://')));
  }],

  ['a resource that is not there is the error of its era', async (w) => {
    const { code } = await failure(w.client.readResource({ uri: w.uri.replace('n.csv', 'none.csv') }));
    // The newer client knows the older code and makes the newer one of it.
    assert.equal(code, w.era === 'modern' || w.generation === 2 ? -32602 : -32002);
  }],

  ['prompts: listed, filled in, and completed', async (w) => {
    const { prompts } = await w.client.listPrompts();
    assert.ok(prompts.some(({ name }) => name === 'analyse_csv'));
    const { messages } = await w.client.getPrompt({ name: 'analyse_csv', arguments: { path: 'n.csv', question: 'Which is most?' } });
    assert.equal(messages[0].role, 'user');
    assert.match(JSON.stringify(messages), /n\.csv[^]*Which is most\?/);
    assert.equal((await failure(w.client.getPrompt({ name: 'analyse_csv', arguments: {} }))).code, -32602);
    assert.equal((await failure(w.client.getPrompt({ name: 'nothing' }))).code, -32602);
    const paths = await w.client.complete({ ref: { type: 'ref/prompt', name: 'analyse_csv' }, argument: { name: 'path', value: 'n' } });
    assert.ok(paths.completion.values.some((value) => value.endsWith('n.csv')), JSON.stringify(paths));
    const places = await w.client.complete({ ref: { type: 'ref/resource', uri: 'workspace://{workspace}/{+path}' }, argument: { name: 'path', value: 'notes' },
      context: { arguments: { workspace: w.workspace } } });
    assert.ok(places.completion.values.some((value) => value.startsWith('notes')), JSON.stringify(places));
  }],

  ['progress: called back while the code runs, in rising steps', async (w) => {
    const seen = [];
    const code = 'import time\nfor n in range(8):\n    print("step", n, flush=True)\n    time.sleep(0.25)';
    const done = await ok(w, 'execute_python', { code, session_id: w.session }, {
      onprogress: ({ progress, message }) => seen.push({ progress, message, at: Date.now() }), resetTimeoutOnProgress: true, timeout: 60_000 });
    const end = Date.now();
    assert.match(done.stdout, /step 7/);
    assert.ok(seen.length >= 2, JSON.stringify(seen));
    assert.ok(seen.some(({ message }) => /step \d/.test(message)), JSON.stringify(seen));
    assert.ok(seen[0].at < end - 300, 'before the end');
    for (let i = 1; i < seen.length; i++) assert.ok(seen[i].progress > seen[i - 1].progress);
  }],

  ['cancelling: the call is rejected, and the code stops', async (w) => {
    const stop = new AbortController();
    let begun;
    const started = new Promise((done) => { begun = done; });
    const call = w.call({ name: 'execute_python', arguments: { code: 'import time\nfor n in range(6000):\n    print(n, flush=True)\n    time.sleep(0.1)', session_id: w.session } },
      { signal: stop.signal, onprogress: begun, timeout: 60_000 });
    await Promise.race([started, call]);
    stop.abort('enough');
    await failure(call);
    await until(async () => await running(w) === 0, { what: 'the code stopped' });
    assert.equal((await ok(w, 'execute_python', { code: 'print("alive")', session_id: w.session })).stdout, 'alive\n');
  }],

  ['failures the model can act on are results', async (w) => {
    const session_id = w.session;
    const raised = await refused(w, 'execute_python', { code: '1 / 0', session_id }, /ZeroDivisionError/);
    assert.equal(raised.status, 'error');
    const late = await refused(w, 'execute_python', { code: 'import time\ntime.sleep(60)', timeout: 5, session_id }, /timeout|too long|seconds/i);
    assert.equal(late.status, 'timeout');
    const exit = await refused(w, 'run_shell', { command: 'exit 3', session_id }, /3/);
    assert.equal(exit.exit_code, 3);
    await refused(w, 'execute_python', {}, /code/);
    await refused(w, 'execute_python', { code: 1 }, /code/);
    await refused(w, 'execute_python', { code: '1', session_id: 'cntr_none' }, /session/);
    await refused(w, 'execute_python', { code: '#'.repeat(20_001), session_id }, /20,?000/);
    await refused(w, 'read_file', { path: '/etc/passwd', session_id }, /\/mnt\/data/);
    await refused(w, 'read_file', { path: '../../etc/passwd', session_id }, /.../);
    await refused(w, 'read_file', { path: 'none.txt', session_id }, /none\.txt|no such|not/i);
    await refused(w, 'upload_file', { path: 'x', url: 'https://example.com/x', session_id }, /.../);
  }],

  ['an unknown tool is an error of the protocol', async (w) => {
    assert.equal((await failure(w.call({ name: 'nothing', arguments: {} }))).code, -32602);
  }],

  ['long output is cut for the model and whole in a file', async (w) => {
    const done = await ok(w, 'execute_python', { code: 'for n in range(3000): print("row", n)', session_id: w.session });
    assert.ok(done.stdout.length < 6000, String(done.stdout.length));
    assert.match(done.stdout, /^row 0\n[^]*row 2999\n$/);
    assert.ok(done.truncated.length > 0, JSON.stringify(done.truncated));
    const link = done.result.content.find(({ type }) => type === 'resource_link');
    const { contents: [whole] } = await w.client.readResource({ uri: link.uri });
    assert.match(whole.text, /^row 0\nrow 1\n[^]*row 1500\n[^]*row 2999\n$/);
  }],

  ['a file that changes is heard of', async (w) => {
    const heard = [];
    w.onUpdated((uri) => heard.push(uri));
    const stop = await w.watch(w.uri);
    await ok(w, 'execute_python', { code: 'open("n.csv", "a").write("fig,5\\n")', session_id: w.session });
    await until(() => heard.includes(w.uri), { what: 'notifications/resources/updated' });
    await stop();
    await sleep(50);
  }],

  ['what only its own era has', async (w) => {
    if (w.era === 'modern') return;
    await w.client.ping();
    await w.client.setLoggingLevel('warning');
  }],
];
