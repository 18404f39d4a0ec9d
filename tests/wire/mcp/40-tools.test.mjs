// SPDX-License-Identifier: Apache-2.0
// The core tools, by their answers: what a model reads, what a program reads,
// and what a host can fetch later.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { ALL, CORE } from '../../lib/mcp-scenario.mjs';
import { Tools } from '../../lib/mcp-tools.mjs';

let g, tools, other;
before(async () => {
  g = await Glovebox.start({ config: { pools: [pool({ runtime: 'standard' })] } });
  tools = new Tools(g, { conversation: 'talk-1' });
  other = new Tools(g, { key: (await g.tenant('acme')).key, conversation: 'talk-1' });
});
after(() => g?.stop());

const fetchFile = (file) => g.call('GET', file.url);

test('every tool says what it is, takes and gives', async () => {
  const core = new Tools(g, { path: '/mcp' });
  const listed = await core.list();
  assert.deepEqual(listed.map((t) => t.name).sort(), [...CORE].sort());
  const all = await tools.list();
  assert.deepEqual(all.map((t) => t.name).sort(), [...ALL].sort());
  for (const tool of all) {
    assert.ok(tool.title && tool.description.length > 80, tool.name);
    assert.equal(tool.inputSchema.type, 'object', tool.name);
    assert.equal(tool.inputSchema.additionalProperties, false, tool.name);
    assert.equal(tool.outputSchema.type, 'object', tool.name);
    assert.deepEqual(tool.outputSchema.required, ['status'], tool.name);
    assert.equal(typeof tool.annotations.readOnlyHint, 'boolean', tool.name);
    for (const [name, property] of Object.entries(tool.inputSchema.properties ?? {}))
      assert.ok(property.type, `${tool.name}.${name}`);
  }
});

test('python: output, value, files, and state that stays', async () => {
  const first = await tools.ok('execute_python', {
    code: "x = 41\nprint('hello')\nimport sys; print('oops', file=sys.stderr)\nopen('/mnt/data/out.csv', 'w').write('a,b\\n1,2\\n')\nx + 1",
  });
  const { data } = first;
  assert.equal(data.status, 'ok');
  assert.equal(data.stdout, 'hello\n');
  assert.equal(data.stderr, 'oops\n');
  assert.equal(data.result, '42');
  assert.equal(data.error, null);
  assert.deepEqual(data.truncated, []);
  assert.equal(data.interpreter, 'new');
  assert.match(data.session_id, /^cntr_[0-9a-f]{48}$/);
  assert.match(first.text, /hello/);
  assert.match(first.text, /42/);
  assert.match(first.text, new RegExp(data.session_id));
  const [file] = data.files;
  assert.equal(file.path, 'out.csv');
  assert.equal(file.change, 'created');
  assert.equal((await fetchFile(file)).text, 'a,b\n1,2\n');
  assert.equal(first.links[0].name, 'out.csv');
  assert.equal(first.links[0].uri, first._meta.files[0].uri);
  assert.equal(first._meta.container_id, data.session_id);
  assert.equal(first._meta.files[0].id, first._meta.files[0].file_id.replace('file_', 'cfile_'));
  assert.deepEqual(Object.keys(file), ['path', 'change', 'size', 'url']);
  assert.match(first._meta.files[0].sha256, /^[0-9a-f]{64}$/);
  assert.equal(first._meta.files[0].path, 'sandbox:/mnt/data/out.csv');
  assert.equal((await fetchFile(first._meta.files[0])).text, 'a,b\n1,2\n');

  const second = await tools.ok('execute_python', { code: 'x * 2' });
  assert.equal(second.data.session_id, data.session_id, 'calls of one conversation share a session');
  assert.equal(second.data.result, '82');
  assert.equal(second.data.interpreter, 'kept');
  const named = await tools.ok('execute_python', { code: 'x', session_id: data.session_id }, { conversation: 'elsewhere' });
  assert.equal(named.data.result, '41');
  const apart = await tools.call('execute_python', { code: 'x' }, { conversation: 'talk-2' });
  assert.equal(apart.data.error.name, 'NameError');
  assert.notEqual(apart.data.session_id, data.session_id);
});

test('without a conversation the first call makes a session and names it', async () => {
  const lone = new Tools(g);
  const made = await lone.ok('execute_python', { code: 'y = 7' });
  const next = await lone.ok('execute_python', { code: 'y', session_id: made.data.session_id });
  assert.equal(next.data.result, '7');
  const again = await lone.call('execute_python', { code: 'y' });
  assert.notEqual(again.data.session_id, made.data.session_id);
  await lone.refused('read_file', { path: 'a.txt' }, 'invalid_request', /session_id/);
});

test('charts are images', async () => {
  const answer = await tools.ok('execute_python', { code: 'import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()' });
  assert.equal(answer.images.length, 1);
  assert.equal(answer.images[0].mimeType, 'image/png');
  assert.equal(Buffer.from(answer.images[0].data, 'base64').subarray(1, 4).toString(), 'PNG');
  assert.equal(answer.data.images, 1);
});

test('pictures beyond what an answer holds go into files', async () => {
  const answer = await tools.ok('execute_python', {
    code: `from IPython.display import display, Image, SVG
import io, os
from PIL import Image as P
def png(n):
    f = io.BytesIO(); P.frombytes('RGB', (n, n), os.urandom(3 * n * n)).save(f, 'png'); return f.getvalue()
display(SVG('<svg xmlns="http://www.w3.org/2000/svg"/>'))
display(Image(png(700)))
for i in range(9): display(Image(png(8)))`,
  });
  assert.equal(answer.images.length, 8);
  assert.equal(answer.data.images, 11);
  const kept = answer.data.files.map((f) => f.path);
  assert.equal(kept.length, 3);
  for (const path of kept) assert.match(path, /^\.glovebox\/outputs\/exec_.*-\d+\.(svg|png)$/);
  const big = answer.data.files.find((f) => f.size > 1 << 20);
  assert.equal((await fetchFile(big)).bytes.length, big.size);
  assert.equal(answer.links.length, 3);
});

test('long output keeps head and tail, and the whole is a file', async () => {
  const exact = await tools.ok('execute_python', { code: "print('é' * 3999)" });
  assert.deepEqual(exact.data.truncated, [], '4,000 characters are shown');
  const over = await tools.ok('execute_python', { code: "print('A' + 'é' * 4000, end='Z')" });
  const [cut] = over.data.truncated;
  assert.deepEqual({ ...cut, file: undefined }, { what: 'stdout', characters: 4002, bytes: 8002, left_out: 2, file: undefined });
  assert.match(over.data.stdout, /^Aé+\n\[… 2 characters are left out here; all of it is in \/mnt\/data\/\.glovebox\/outputs\/exec_[0-9a-f]+\.txt …\]\né+Z$/);
  assert.match(over.text, /2 characters are left out/);
  const file = over.data.files.find((f) => f.path === cut.file);
  assert.equal((await fetchFile(file)).text, `A${'é'.repeat(4000)}Z`);
  const both = await tools.ok('execute_python', { code: "import sys\nprint('o' * 5000)\nprint('e' * 2100, file=sys.stderr)" });
  assert.deepEqual(both.data.truncated.map((t) => t.what), ['stdout', 'stderr']);
  const whole = (await fetchFile(both.data.files[0])).text;
  assert.equal(whole, `=== stdout ===\n${'o'.repeat(5000)}\n\n=== stderr ===\n${'e'.repeat(2100)}\n`);
  const files = await tools.ok('list_files', {});
  assert.ok(!files.data.files.some((f) => f.path.startsWith('.glovebox')), 'ours are not in the way');
  const ours = await tools.ok('list_files', { path: '.glovebox/outputs' });
  assert.ok(ours.data.files.some((f) => f.path === cut.file));
});

test('each way to end is told apart, with what to do', async () => {
  const raised = await tools.refused('execute_python', { code: '1/0' }, 'error', /ZeroDivisionError/);
  assert.equal(raised.data.error.name, 'ZeroDivisionError');
  assert.match(raised.data.error.traceback, /1\/0/);
  const slow = await tools.refused('execute_python', { code: 'while True: pass', timeout: 5 }, 'timeout', /larger timeout/);
  assert.ok(slow.data.message && slow.data.hint);
  await tools.refused('execute_python', { code: "x = []\nwhile True: x.append(b'x' * (1 << 24))" }, 'oom', /less memory/, { conversation: 'greedy' });
  const died = await tools.refused('execute_python', { code: 'import os; os._exit(3)' }, 'crashed', /new interpreter/);
  assert.equal(died.data.interpreter, 'lost');
  const after = await tools.ok('execute_python', { code: "'x' in globals()" });
  assert.equal(after.data.interpreter, 'new');
  assert.equal(after.data.result, 'False');
  assert.match(after.text, /^The session's interpreter ended: variables of earlier executions are gone; files are kept\.\n/);
});

test('shell: its exit code is the verdict', async () => {
  const good = await tools.ok('run_shell', { command: 'pwd; echo made > made.txt' });
  assert.equal(good.data.stdout, '/mnt/data\n');
  assert.equal(good.data.exit_code, 0);
  assert.deepEqual(good.data.files.map((f) => f.path), ['made.txt']);
  const bad = await tools.refused('run_shell', { command: 'echo no >&2; exit 3' }, 'error', /exit code 3/);
  assert.equal(bad.data.exit_code, 3);
  assert.equal(bad.data.stderr, 'no\n');
});

test('arguments at, below and above each limit', async () => {
  const python = (args) => tools.call('execute_python', args);
  assert.ok(!(await python({ code: `#${'ß'.repeat(19_999)}` })).isError);
  await tools.refused('execute_python', { code: `#${'ß'.repeat(20_000)}` }, 'too_large', /20000|20,000/);
  await tools.refused('run_shell', { command: `:${' '.repeat(20_000)}` }, 'too_large');
  for (const timeout of [5, 900]) assert.ok(!(await python({ code: '1', timeout })).isError);
  for (const timeout of [4, 901, 0, -1, 5.5, '10'])
    await tools.refused('execute_python', { code: '1', timeout }, 'invalid_request', /'timeout'/);
  assert.ok(!(await tools.call('run_shell', { command: 'true', timeout: 240 })).isError);
  await tools.refused('run_shell', { command: 'true', timeout: 241 }, 'invalid_request', /'timeout'/);
  await tools.refused('run_shell', { command: '' }, 'invalid_request', /'command'/);
  await tools.refused('execute_python', {}, 'invalid_request', /'code' is missing/);
  await tools.refused('execute_python', { code: 5 }, 'invalid_request', /'code' must be a string/);
  await tools.refused('execute_python', { code: '1', sesion_id: 'x' }, 'invalid_request', /Did you mean 'session_id'/);
  await tools.refused('search_files', { pattern: 'a', context: 11 }, 'invalid_request', /'context'/);
  await tools.refused('search_files', { pattern: 'a', max: 501 }, 'invalid_request', /'max'/);
  await tools.refused('read_file', { path: 'made.txt', limit: 2001 }, 'invalid_request', /'limit'/);
});

test('an unknown argument is answered with those that exist; 30.0 is an integer', async () => {
  await tools.refused('run_shell', { command: 'ls', verbose: true }, 'invalid_request', /unknown field 'verbose'.*The fields are: command, session_id, timeout\./s);
  const raw = (timeout) => fetch(`${g.url}/api/run`, { method: 'POST', headers: { authorization: `Bearer ${g.key}`, 'content-type': 'application/json' },
    body: `{"code":"1","timeout_s":${timeout}}` });
  assert.equal((await raw('30.0')).status, 200);
  assert.equal((await raw('30.5')).status, 400);
  assert.equal((await raw('3e400')).status, 400);
});

test('I1 the list of tools follows the scopes of the key, its words the network of the pool', async () => {
  const { secret } = await g.ok('POST', '/api/keys', { scopes: ['files:read'] });
  const reader = new Tools(g, { key: secret });
  const names = (await reader.list()).map((t) => t.name);
  assert.deepEqual(names, ['read_file', 'list_files', 'download_file', 'list_workspaces', 'search_workspace', 'file_history', 'conversation_files']);
  const called = await reader.request('tools/call', { name: 'execute_python', arguments: { code: '1' } });
  assert.match(called.error.message, /execute/);
  const python = (await tools.list()).find((t) => t.name === 'execute_python');
  assert.match(python.description, /There is no network, and nothing can be installed\./);
  assert.doesNotMatch(python.description, /\{network\}/);
});

test('output beyond what is kept shows its true end and total', async () => {
  const { data, text } = await tools.ok('execute_python', { code: "for i in range(400000): print(i)\nimport sys\nprint('ü' * 10, file=sys.stderr)" });
  const total = Array.from({ length: 400000 }, (_, i) => String(i).length + 1).reduce((a, b) => a + b);
  assert.ok(data.stdout.startsWith('0\n1\n2\n') && data.stdout.endsWith('399998\n399999\n'), data.stdout.slice(-200));
  assert.match(data.stdout, new RegExp(`of ${total} bytes are left out here; the first \\d+ are in /mnt/data/`));
  const [cut] = data.truncated;
  assert.deepEqual([cut.what, cut.bytes], ['stdout', total]);
  assert.ok(data.stdout.length < 4300, data.stdout.length);
  assert.match(text, /399999/);
  const short = await tools.ok('execute_python', { code: "print('y' * 5000)" });
  assert.deepEqual([short.data.truncated[0].characters, short.data.truncated[0].bytes], [5001, 5001]);
});

test('answers with many files stay small, and deleted files have no link', async () => {
  const many = await tools.ok('execute_python', { code: "import os\nos.makedirs('/mnt/data/many', exist_ok=True)\nfor i in range(200): open(f'/mnt/data/many/{i}.txt', 'w').write('x')" });
  assert.deepEqual([many.data.files.length, many.data.files_more, many.links.length, many._meta.files.length], [20, 180, 20, 20]);
  assert.match(many.text, /180 more changed files are not listed here: call list_files/);
  const size = (answer) => JSON.stringify([answer.text, answer.data]).length;
  assert.ok(size(many) < 8000 && JSON.stringify(many._meta).length < 16000, `${size(many)} and ${JSON.stringify(many._meta).length} characters`);
  // Pages together are the whole list, in both orders and by folder.
  for (const sort of ['path', 'newest']) {
    const all = [];
    for (let after, page = 0; page < 4; page++) {
      const listed = await tools.ok('list_files', { path: 'many', sort, ...(after && { after }) });
      assert.deepEqual(Object.keys(listed.data.files[0]), ['path', 'type', 'size', 'modified_at', 'url']);
      assert.ok(size(listed) < 16000, `${size(listed)} characters`);
      assert.deepEqual([listed.data.files.length, listed.data.more, 'next' in listed.data], [50, page < 3, page < 3]);
      if (page < 3) assert.ok(listed.text.includes(`call again with after "${listed.data.next}"`), listed.text.slice(-200));
      all.push(...listed.data.files.map((f) => f.path));
      after = listed.data.next;
    }
    assert.equal(new Set(all).size, 200, sort);
  }
  const gone = await tools.ok('run_shell', { command: 'rm -r many' });
  assert.ok(gone.data.files.every((f) => f.change === 'deleted' && !('url' in f)), JSON.stringify(gone.data.files[0]));
  assert.deepEqual([gone.links.length, gone._meta.files.length], [0, 0]);
});

test('M2: a session of another tenant is none', async () => {
  const mine = await tools.ok('execute_python', { code: "open('/mnt/data/secret.txt', 'w').write('s')" });
  const id = mine.data.session_id;
  for (const [name, args] of [['execute_python', { code: '1' }], ['run_shell', { command: 'ls' }], ['read_file', { path: 'secret.txt' }],
    ['list_files', {}], ['download_file', { path: 'secret.txt' }], ['upload_file', { path: 'a', text: 'b' }], ['search_files', { pattern: 's' }],
    ['reset_session', {}], ['interrupt', {}]]) {
    const theirs = await other.refused(name, { ...args, session_id: id }, 'not_found', /no session/);
    const unknown = await other.refused(name, { ...args, session_id: `cntr_${'0'.repeat(48)}` }, 'not_found');
    assert.equal(theirs.text.replace(id, ''), unknown.text.replace(`cntr_${'0'.repeat(48)}`, ''), name);
  }
  const url = mine.data.files[0].url;
  await other.refused('upload_file', { path: 'stolen', url }, 'not_found');
  const own = await other.ok('execute_python', { code: '1' });
  assert.notEqual(own.data.session_id, id, 'the same conversation name is another conversation there');
});

test('M2: a key that may not, may not', async () => {
  const reader = await g.ok('POST', '/api/keys', { tenant: 'default', scopes: ['files:read'] });
  const weak = new Tools(g, { key: reader.secret, conversation: 'talk-1' });
  for (const [name, args, scope] of [['execute_python', { code: '1' }, 'execute'], ['search_files', { pattern: 'x' }, 'execute'],
    ['upload_file', { path: 'a', text: 'b' }, 'files:write'], ['share_file', { path: 'a' }, 'files:write']]) {
    const { error } = await weak.request('tools/call', { name, arguments: args });
    assert.match(error.message, new RegExp(`needs the scope '${scope}'`));
  }
  await weak.ok('list_files', {});
  const writer = await g.ok('POST', '/api/keys', { tenant: 'default', scopes: ['files:read', 'files:write'] });
  const lone = new Tools(g, { key: writer.secret });
  await lone.refused('upload_file', { path: 'a', text: 'b' }, 'forbidden', /may not create sessions/);
});

test('F1 F5: paths outside /mnt/data are refused with a sentence', async () => {
  const bad = ['../etc/passwd', '/etc/passwd', '/mnt/data/../x', '/mnt/database/x', 'a/../../b', 'sandbox:/etc/passwd', 'a//b', 'a\u0007b', `${'x'.repeat(256)}`];
  for (const path of bad)
    for (const [name, args] of [['read_file', {}], ['download_file', {}], ['upload_file', { text: 'x' }]])
      await tools.refused(name, { path, ...args }, 'invalid_request', /the path/);
  for (const path of ['/etc', '..', '/mnt/data/..', 'a/../..'])
    for (const [name, args] of [['list_files', {}], ['search_files', { pattern: 'x' }]])
      await tools.refused(name, { path, ...args }, 'invalid_request', /the path/);
  await tools.ok('run_shell', { command: 'ln -sf /etc/passwd link.txt; mkdir -p "odd dir"; echo q > "odd dir/it'+"'"+'s \\$x.txt"' });
  const link = await tools.call('read_file', { path: 'link.txt' });
  assert.equal(link.isError, true);
  assert.doesNotMatch(link.text, /root:/);
  for (const path of ["odd dir/it's $x.txt", "/mnt/data/odd dir/it's $x.txt", "sandbox:/mnt/data/odd dir/it's $x.txt", "./odd dir/it's $x.txt"])
    assert.equal((await tools.ok('read_file', { path })).data.text, 'q\n');
});

test('read_file pages by lines', async () => {
  await tools.ok('execute_python', { code: "open('/mnt/data/long.txt', 'w').write(''.join(f'line {i}\\n' for i in range(1, 2501)) + 'end')" });
  const first = await tools.ok('read_file', { path: 'long.txt' });
  assert.equal(first.data.lines, 500);
  assert.equal(first.data.total_lines, 2501);
  assert.equal(first.data.next_offset, 501);
  assert.ok(first.data.text.startsWith('line 1\nline 2\n'));
  assert.match(first.text, /go on with offset 501/);
  assert.equal((await tools.ok('read_file', { path: 'long.txt', limit: 2000 })).data.next_offset, 2001);
  const rest = await tools.ok('read_file', { path: 'long.txt', offset: 2001, limit: 2000 });
  assert.equal(rest.data.lines, 501);
  assert.equal(rest.data.next_offset, null);
  assert.ok(rest.data.text.endsWith('line 2500\nend\n'));
  const one = await tools.ok('read_file', { path: 'long.txt', offset: 7, limit: 1 });
  assert.equal(one.data.text, 'line 7\n');
  const past = await tools.ok('read_file', { path: 'long.txt', offset: 9999 });
  assert.equal(past.data.lines, 0);
  assert.match(past.text, /past its end/);
  await tools.ok('run_shell', { command: "head -c 300000 /dev/zero | tr '\\0' x > wide.txt; head -c 100 /dev/urandom > rnd.bin; printf 'a\\0b' > nul.txt; : > empty.txt" });
  const wide = await tools.ok('read_file', { path: 'wide.txt' });
  assert.ok(wide.data.text.length < 4100);
  assert.match(wide.data.text, /more characters\]/);
  await tools.refused('read_file', { path: 'nul.txt' }, 'invalid_request', /not text/);
  assert.equal((await tools.ok('read_file', { path: 'empty.txt' })).data.total_lines, 0);
  await tools.refused('read_file', { path: 'nowhere.txt' }, 'not_found', /list_files/);
});

test('search_files finds lines, with context, within limits', async () => {
  await tools.ok('run_shell', {
    command: 'mkdir -p s/sub; seq 1 700 | sed "s/^/needle /" > s/many.txt; printf "one\\ntwo Needle\\nthree\\n" > s/sub/few.md; printf "needle\\0x" > s/bin.dat; echo needle > s/.hidden; echo needle > .glovebox/outputs/own.txt',
  });
  const found = await tools.ok('search_files', { pattern: 'two [nN]eedle', path: 's', context: 1 });
  assert.deepEqual(found.data.lines, [
    { path: 's/sub/few.md', line: 1, text: 'one', match: false },
    { path: 's/sub/few.md', line: 2, text: 'two Needle', match: true },
    { path: 's/sub/few.md', line: 3, text: 'three', match: false }]);
  assert.equal(found.data.matches, 1);
  assert.equal(found.data.more, false);
  const many = await tools.ok('search_files', { pattern: '^needle', path: 's/many.txt', max: 500 });
  assert.equal(many.data.matches, 500);
  assert.equal(many.data.more, true);
  const usual = await tools.ok('search_files', { pattern: '^needle', path: 's' });
  assert.equal(usual.data.matches, 100);
  const globbed = await tools.ok('search_files', { pattern: 'needle', ignore_case: true, glob: '*.md' });
  assert.deepEqual(globbed.data.lines.map((l) => l.path), ['s/sub/few.md']);
  const hidden = await tools.ok('search_files', { pattern: '^needle$' });
  assert.deepEqual(hidden.data.lines.map((l) => l.path), ['s/.hidden'], 'hidden files count; ours and binary ones do not');
  assert.equal((await tools.ok('search_files', { pattern: 'nothing of the kind' })).data.matches, 0);
  await tools.refused('search_files', { pattern: '(((' }, 'invalid_request', /search failed/);
  await tools.refused('search_files', { pattern: 'a\nb' }, 'invalid_request', /one line/);
  await tools.refused('search_files', { pattern: 'x', path: 'not/there' }, 'invalid_request', /search failed/);
  for (const pattern of ["'; touch /mnt/data/pwned; '", '$(touch /mnt/data/pwned)', '-f/etc/passwd', '--pre=sh'])
    await tools.call('search_files', { pattern });
  await tools.call('search_files', { pattern: 'x', glob: "'; touch /mnt/data/pwned; '" });
  const all = await tools.ok('list_files', { limit: 1000 });
  assert.ok(!all.data.files.some((f) => f.path === 'pwned'), 'a pattern is never a command');
  assert.equal((await tools.ok('execute_python', { code: "'In' in globals() and len(In) < 30" })).data.result, 'True');
});

test('list_files: folders, patterns, limits', async () => {
  const t = new Tools(g, { conversation: 'listing' });
  assert.deepEqual((await t.ok('list_files')).data, { status: 'ok', session_id: null, files: [], more: false });
  await t.ok('run_shell', { command: 'mkdir -p a/b c; touch top.txt a/one.csv a/two.txt a/b/three.csv c/four.csv' });
  const paths = async (args) => (await t.ok('list_files', args)).data.files.map((f) => f.path);
  assert.deepEqual(await paths({}), ['a/b/three.csv', 'a/one.csv', 'a/two.txt', 'c/four.csv', 'top.txt']);
  assert.deepEqual(await paths({ recursive: false }), ['a/', 'c/', 'top.txt']);
  assert.deepEqual(await paths({ path: '/mnt/data/a', recursive: false }), ['a/b/', 'a/one.csv', 'a/two.txt']);
  assert.deepEqual(await paths({ pattern: '*.csv' }), ['a/b/three.csv', 'a/one.csv', 'c/four.csv']);
  assert.deepEqual(await paths({ pattern: 'a/*.csv' }), ['a/one.csv']);
  assert.deepEqual(await paths({ pattern: 'a/**/*.csv' }), ['a/b/three.csv', 'a/one.csv']);
  const some = await t.ok('list_files', { limit: 2 });
  assert.deepEqual(some.data.files.map((f) => f.path), ['a/b/three.csv', 'a/one.csv']);
  assert.deepEqual([some.data.more, some.data.next], [true, 'a/one.csv']);
  assert.deepEqual(await paths({ limit: 2, after: some.data.next }), ['a/two.txt', 'c/four.csv']);
  assert.deepEqual(await paths({ recursive: false, limit: 1 }), ['a/']);
  assert.deepEqual(await paths({ recursive: false, after: 'a/' }), ['c/', 'top.txt']);
  assert.deepEqual(await paths({ after: 'top.txt' }), []);
  await t.refused('list_files', { limit: 1001 }, 'invalid_request');
  const [file] = (await t.ok('list_files', { pattern: 'one.csv' })).data.files;
  assert.match(file.url, new RegExp(`^${g.url}/api/files/file_`));
});

test('download_file: text and pictures inline when small, a link always', async () => {
  await tools.ok('execute_python', {
    code: `open('/mnt/data/t100.txt', 'w').write('x' * 100_000)
open('/mnt/data/t101.txt', 'w').write('x' * 100_001)
import os; from PIL import Image
Image.new('RGB', (4, 4)).save('/mnt/data/dot.png')
open('/mnt/data/big.png', 'wb').write(b'\\x89PNG' + os.urandom(1 << 20))
open('/mnt/data/raw.bin', 'wb').write(bytes(range(256)))`,
  });
  const small = await tools.ok('download_file', { path: 't100.txt' });
  assert.equal(small.data.content, 'text');
  assert.equal(small.content.find((c) => c.type === 'resource').resource.text.length, 100_000);
  assert.equal(small.links.length, 1);
  assert.equal((await tools.ok('download_file', { path: 't101.txt' })).data.content, 'link');
  const dot = await tools.ok('download_file', { path: 'sandbox:/mnt/data/dot.png' });
  assert.equal(dot.data.content, 'image');
  assert.equal(dot.images[0].mimeType, 'image/png');
  assert.equal((await tools.ok('download_file', { path: 'big.png' })).data.content, 'link');
  const raw = await tools.ok('download_file', { path: 'raw.bin' });
  assert.equal(raw.data.content, 'link');
  assert.equal((await fetchFile(raw.data.file)).bytes.length, 256);
  await tools.refused('download_file', { path: 'gone.txt' }, 'not_found', /list_files/);
});

test('upload_file: text, base64, and files we already have', async () => {
  const t = new Tools(g, { conversation: 'uploads' });
  const text = await t.ok('upload_file', { path: 'in/a.txt', text: 'héllo' });
  assert.equal(text.data.file.size, 6);
  assert.equal((await t.ok('execute_python', { code: "open('/mnt/data/in/a.txt').read()" })).data.result, "'héllo'");
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
  const raw = await t.ok('upload_file', { path: 'raw.bin', base64: bytes.toString('base64') });
  assert.deepEqual((await fetchFile(raw.data.file)).bytes, bytes);
  await t.ok('upload_file', { path: 'empty', text: '' });
  await t.refused('upload_file', { path: 'x' }, 'invalid_request', /exactly one/);
  await t.refused('upload_file', { path: 'x', text: 'a', base64: 'YQ==' }, 'invalid_request', /exactly one/);
  await t.refused('upload_file', { path: 'x', base64: 'not base64!' }, 'invalid_request', /base64/);

  const first = text.data.file;
  await t.ok('upload_file', { path: 'in/a.txt', text: 'second' });
  const sources = [[first.url, 'héllo'], [`/api/files/${first.file_id}/content`, 'second'], [`${g.url}/api/files/${first.file_id}/content`, 'second'],
    [first.uri, 'second'], [`/v1/containers/x/files/${first.file_id.replace('file_', 'cfile_')}/content`, 'second']];
  for (const [i, [url, want]] of sources.entries()) {
    await t.ok('upload_file', { path: `copy${i}.txt`, url });
    assert.equal((await t.ok('read_file', { path: `copy${i}.txt` })).data.text, `${want}\n`, url);
  }
  for (const url of ['https://example.com/api/files/file_00/content', '//example.com/x', 'http://169.254.169.254/latest', 'file:///etc/passwd', '/api/keys', `/api/files/${'x'.repeat(300)}/content`])
    await t.refused('upload_file', { path: 'x', url }, 'invalid_request', /not one of a file here/);
  await t.refused('upload_file', { path: 'x', url: `/api/files/file_${'0'.repeat(32)}/content` }, 'not_found');
});

test('progress tells of live output, and what was cancelled stops', async () => {
  const t = new Tools(g, { conversation: 'long' });
  const told = [];
  await t.ok('execute_python', { code: "import time\nfor i in range(5):\n    print('step', i, flush=True); time.sleep(.5)" }, { progress: (p) => told.push(p) });
  assert.ok(told.length >= 2, JSON.stringify(told));
  assert.ok(told.some((p) => /^step \d$/.test(p.message)));
  for (const [i, p] of told.entries()) if (i) assert.ok(p.progress > told[i - 1].progress);
});

test('M4: closing the stream cancels the work', async () => {
  const t = new Tools(g, { conversation: 'left' });
  const id = (await t.ok('execute_python', { code: '1' })).data.session_id;
  const leave = new AbortController();
  let started;
  const going = new Promise((done) => { started = done; });
  const call = t.call('execute_python', { code: "import time\nprint('go', flush=True)\ntime.sleep(600)", timeout: 900 }, { signal: leave.signal, progress: () => started() })
    .catch((error) => error);
  await going;
  assert.equal((await g.ok('GET', `/api/sessions/${id}`)).state, 'running');
  leave.abort();
  await call;
  await until(async () => (await g.ok('GET', `/api/sessions/${id}`)).state !== 'running', { ms: 20_000, what: 'the work stopped' });
});

test('session tools: list, interrupt, reset', async () => {
  const t = new Tools(g, { conversation: 'sessions' });
  await t.refused('reset_session', {}, 'not_found', /no session yet/);
  const { session_id: id } = (await t.ok('execute_python', { code: "z = 1\nopen('/mnt/data/kept.txt', 'w').write('k')" })).data;
  const listed = await t.ok('list_sessions', { limit: 100 });
  assert.ok(listed.data.sessions.some((s) => s.session_id === id && s.state === 'idle'));
  const page = await t.ok('list_sessions', { limit: 1 });
  assert.ok(page.data.next);
  assert.notEqual((await t.ok('list_sessions', { limit: 1, after: page.data.next })).data.sessions[0].session_id, page.data.sessions[0].session_id);
  assert.match((await t.ok('interrupt', {})).text, /Nothing was running/);
  const slow = t.call('execute_python', { code: 'import time\ntime.sleep(60)' });
  await until(async () => (await g.ok('GET', `/api/sessions/${id}`)).state === 'running', { what: 'it runs' });
  await t.ok('interrupt', { session_id: id });
  assert.equal((await slow).data.error.name, 'KeyboardInterrupt');
  assert.equal((await t.ok('execute_python', { code: 'z' })).data.result, '1');
  assert.equal((await t.ok('reset_session', {})).data.session_id, id);
  assert.equal((await t.call('execute_python', { code: 'z' })).data.error.name, 'NameError');
  assert.equal((await t.ok('read_file', { path: 'kept.txt' })).data.text, 'k\n');
});

test('a workspace to work on instead of its own', async () => {
  const ws = await g.ok('POST', '/api/workspaces', { name: 'shared data' });
  await g.call('PUT', `/api/workspaces/${ws.id}/files/in.txt`, Buffer.from('given'), { raw: true });
  const t = new Tools(g, { conversation: 'on-workspace' });
  const read = await t.ok('execute_python', { code: "print(open('/mnt/data/in.txt').read())", workspace: ws.id });
  assert.equal(read.data.stdout, 'given\n');
  const plain = await t.ok('execute_python', { code: '1' });
  assert.notEqual(plain.data.session_id, read.data.session_id);
  await t.refused('execute_python', { code: '1', session_id: plain.data.session_id, workspace: ws.id }, 'conflict', /another workspace/);
  await t.refused('execute_python', { code: '1', workspace: `ws_${'0'.repeat(32)}` }, 'not_found');
});

test('the same tools where there is no rg and nothing is kept', async () => {
  const bare = await Glovebox.start({ config: { pools: [pool({ persistence: 'ephemeral' })] } });
  try {
    const t = new Tools(bare, { conversation: 'bare' });
    const made = await t.ok('execute_python', { code: "open('/mnt/data/a.txt', 'w').write('one\\ntwo\\n')\nprint('x' * 5000)" });
    assert.equal(made.links.length, 0, 'there is nothing to link to');
    assert.equal(made.data.files[0].url, undefined);
    assert.equal((await t.ok('read_file', { path: 'a.txt' })).data.text, 'one\ntwo\n');
    const found = await t.ok('search_files', { pattern: 't.o', context: 1 });
    assert.deepEqual(found.data.lines.map((l) => [l.line, l.match]), [[1, false], [2, true]]);
    await t.refused('search_files', { pattern: '(' }, 'invalid_request', /search failed/);
    assert.equal((await t.ok('download_file', { path: 'a.txt' })).data.content, 'text');
    await t.refused('generate_pdf_report', { markdown: '# x' }, 'error', /standard runtime/);
  } finally {
    await bare.stop();
  }
});
