// SPDX-License-Identifier: Apache-2.0
// What the command line says of itself, and what it says to a wrong line. No
// service runs: a wrong line is wrong without one, too.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { bin, root } from '../../lib/glovebox.mjs';

const COMMANDS = ['serve', 'login', 'logout', 'whoami', 'contexts', 'console', 'version', 'executions', 'run', 'shell', 'sessions', 'pool', 'files', 'workspaces', 'search', 'ask', 'locks', 'share', 'conversations', 'audit',
  'policy', 'approvals', 'quota', 'network', 'secret', 'backup', 'restore', 'verify', 'key', 'token', 'runtime', 'mcp', 'model', 'doctor', 'scorecard', 'agents', 'tools', 'chat', 'undo', 'redo', 'migrate', 'nodes'];
const cli = new Cli();
after(() => cli.close());

test('help lists every command and every exit status', async () => {
  const { stdout, stderr } = await cli.ok(['--help']);
  for (const name of COMMANDS) assert.match(stdout, new RegExp(`^  ${name} +[A-Z]`, 'm'));
  for (let status = 0; status <= 9; status++) assert.match(stdout, new RegExp(`(^  |   )${status}  [a-z]`, 'm'));
  assert.equal(stderr, '');
  assert.equal((await cli.ok(['-h'])).stdout, stdout);
  assert.equal((await cli.ok(['help'])).stdout, stdout);
  const bare = await cli.exits(2, []);
  assert.equal(bare.stdout, '');
  assert.equal(bare.stderr, stdout);
});

test('--version prints a number', async () => {
  assert.match((await cli.ok(['--version'])).stdout, /^glovebox \d+\.\d+\.\d+\n$/);
});

for (const name of COMMANDS) {
  test(`${name}: help by flag and by word are the same and name its flags`, async () => {
    const flag = await cli.ok([name, '--help']);
    const word = await cli.ok(['help', name]);
    assert.equal(flag.stdout, word.stdout);
    assert.equal(flag.stderr, '');
    assert.match(flag.stdout, new RegExp(`^usage: glovebox ${name}`));
    if (name === 'serve') { // its flags are the daemon's
      assert.match(flag.stdout, /^ +--listen /m);
      return;
    }
    assert.match(flag.stdout, /^ +-h, --help /m);
    assert.match(flag.stdout, /^ +--json /m);
    for (const line of flag.stdout.split('\n')) assert.ok(line.length <= 80, line);
  });
}

test('every flag of the manual is known', async () => {
  const flags = {
    run: ['code', 'shell', 'session', 'put', 'get', 'workspace', 'ephemeral', 'pool', 'runtime', 'timeout', 'memory', 'conversation',
      'message', 'allow', 'lock-file', 'charts', 'embedded', 'json', 'url', 'key-file', 'data', 'cacert'],
    shell: ['session', 'workspace', 'ephemeral', 'embedded', 'pool', 'runtime', 'lang', 'charts', 'json'],
    sessions: ['name', 'workspace', 'ephemeral', 'pool', 'runtime', 'memory', 'json'],
    pool: ['name', 'container-type', 'max-sessions', 'cooldown-period', 'ready-sessions', 'network-status', 'lifecycle-type', 'runtime', 'memory',
      'persistence', 'egress', 'egress-allow', 'packages', 'yes', 'json'],
    files: ['session', 'output', 'continue', 'version', 'commit', 'at', 'level', 'limit', 'recursive', 'if-match', 'create', 'lock-file',
      'conversation', 'message', 'json'],
    workspaces: ['deleted', 'private', 'commit', 'limit', 'ttl', 'revoke', 'token-file', 'versions', 'days', 'json'],
    search: ['workspace', 'prefix', 'type', 'after', 'before', 'author', 'conversation', 'limit', 'json'],
    locks: ['ttl', 'session', 'label', 'lock-file', 'json'],
    share: ['write', 'expires', 'downloads', 'password', 'password-file', 'version', 'json'],
    conversations: ['limit', 'format', 'output', 'json'],
    audit: ['from', 'to', 'actor', 'action', 'object', 'workspace', 'limit', 'follow', 'json'],
    network: ['mode', 'allow', 'secret', 'inspect', 'packages', 'bytes', 'connections', 'requests', 'file', 'json'],
    secret: ['to', 'header', 'prefix', 'value-file', 'json'],
    restore: ['data', 'json'],
    key: ['scope', 'tenant', 'name', 'json'],
    mcp: ['tools', 'url', 'key-file', 'data', 'cacert'],
  };
  for (const [name, wanted] of Object.entries(flags)) {
    const { stdout } = await cli.ok(['help', name]);
    for (const flag of wanted) assert.match(stdout, new RegExp(`--${flag}\\b`), `${name} --${flag}`);
  }
});

test('docs/CLI.md has the forms of the command table', () => {
  const done = spawnSync(join(root, 'tools/cli-reference'), ['--check', bin('glovebox')], { encoding: 'utf8' });
  assert.equal(done.status, 0, done.stderr);
});

test('docs/man has a page for each command, from the command table, without warnings', async () => {
  const done = spawnSync(join(root, 'tools/cli-reference'), ['--man', '--check', bin('glovebox')], { encoding: 'utf8' });
  assert.equal(done.status, 0, done.stderr);
  const pages = readdirSync(join(root, 'docs/man'));
  assert.deepEqual(pages.sort(), ['glovebox.1', ...[...COMMANDS, 'help'].map((name) => `glovebox-${name}.1`)].sort());
  if (spawnSync('man', ['--version']).status !== 0) return;
  for (const page of pages) {
    const shown = spawnSync('man', ['--warnings', '-E', 'UTF-8', '-l', join(root, 'docs/man', page)], { encoding: 'utf8', env: { ...process.env, MANWIDTH: '80', LC_ALL: 'C.UTF-8' } });
    assert.deepEqual([shown.status, shown.stderr], [0, ''], page);
    assert.match(shown.stdout, /^NAME\n +glovebox/m, page);
  }
});

test('make install-docs: manual pages, and documents whose links hold', () => {
  const into = mkdtempSync(join(tmpdir(), 'glovebox-docs-'));
  try {
    const done = spawnSync('make', ['-s', '-C', root, 'install-docs', `DESTDIR=${into}`, 'PREFIX=/usr'], { encoding: 'utf8' });
    assert.equal(done.status, 0, done.stderr);
    assert.ok(existsSync(join(into, 'usr/share/man/man1/glovebox-run.1')));
    const top = join(into, 'usr/share/doc/glovebox');
    const links = [];
    for (const name of readdirSync(top, { recursive: true }).filter((n) => n.endsWith('.md'))) {
      const text = readFileSync(join(top, name), 'utf8').replace(/```.*?```/gs, '');
      for (const [, to] of text.matchAll(/\]\(([^)#\s]+\.md)/g)) if (!to.includes('://')) links.push([name, to]);
    }
    assert.ok(links.length > 50, 'there are links to check');
    assert.deepEqual(links.filter(([name, to]) => !existsSync(join(top, dirname(name), to))), []);
  } finally {
    rmSync(into, { recursive: true });
  }
});

test('help --dump: every command, its verbs and options, as JSON', async () => {
  const dump = JSON.parse((await cli.ok(['help', '--dump'])).stdout);
  assert.deepEqual(dump.map((c) => c.name).sort(), [...COMMANDS, 'help'].sort());
  const take = dump.find((c) => c.name === 'locks').verbs.find((v) => v.name === 'take');
  assert.equal(take.usage, 'glovebox locks take PLACE [--ttl TIME] [--session SESSION] [--label TEXT]');
  assert.deepEqual([take.method, take.prints], ['POST', 'token']);
});

// [line, what standard error says]
const WRONG = [
  [['rum'], /no command 'rum'; did you mean 'run'\?/],
  [['session'], /did you mean 'sessions'\?/],
  [['xylophone'], /no command 'xylophone'\n/],
  [['help', 'keys'], /did you mean 'key'\?/],
  [['--jsn'], /unknown option '--jsn'/],
  [['run', '--timout', '5', '-c', '1'], /unknown option '--timout'; did you mean --timeout\?/],
  [['run', '--put'], /--put wants a value/],
  [['run', '--shell=yes', '-c', '1'], /--shell takes no value/],
  [['run', '-t', 'soon', '-c', '1'], /--timeout wants whole seconds/],
  [['run', '-m', '1q', '-c', '1'], /--memory wants a size/],
  [['run', '-c', '1', 'file.py'], /both -c and the file 'file.py'/],
  [['run', '-s', 'x', '--pool', 'p', '-c', '1'], /for a new session/],
  [['shell', '--lang', 'ruby'], /python, shell, javascript or r, not 'ruby'/],
  [['shell', 'now'], /unexpected 'now'/],
  [['sessions', 'lst'], /there is no 'lst'; did you mean 'list'\?/],
  [['sessions', 'show'], /show: SESSION is missing/],
  [['sessions', 'reset', 'a', 'b'], /reset: unexpected 'b'/],
  [['sessions', 'list', '--nam', 'x'], /did you mean --name\?/],
  [['files', 'get', 'session'], /get: PLACE is missing/],
  [['files', 'copy', 'a', 'b'], /there is no 'copy'; did you mean 'cp'\?/],
  [['files'], /list: PLACE is missing/],
  [['files', 'mv', 'ws:a'], /mv: TARGET is missing/],
  [['files', 'put', 'x'], /put: PLACE is missing/],
  [['files', 'ls', 'ws:', '--create'], /--create is not for 'list'/],
  [['files', 'put', 'a', 'ws:', '--create', '--if-match', 'v'], /one of them/],
  [['files', 'restore', 'ws:a'], /needs --version V or --commit C/],
  [['files', 'history', 'ws:', '--limit', 'many'], /--limit wants a whole number/],
  [['workspaces', 'mk', 'x'], /there is no 'mk'/],
  [['workspaces', 'member', 'ad', 'ws', 'key'], /there is no 'member ad'; did you mean 'member add'\?/],
  [['workspaces', 'member', 'add', 'ws', 'key'], /member add: ROLE is missing/],
  [['workspaces', 'hold', 'ws', 'maybe'], /on or off, not 'maybe'/],
  [['workspaces', 'quota', 'ws', 'much'], /a size such as 20g/],
  [['workspaces', 'restore', 'ws'], /restore needs --commit C/],
  [['workspaces', 'new', 'x', '--deleted'], /--deleted is not for 'create'/],
  [['search'], /WORDS is missing/],
  [['ask'], /QUESTION is missing/],
  [['workspaces', 'set', 'x'], /--intelligence/],
  [['search', 'x', '--after', 'soon'], /--after wants a time such as/],
  [['locks', 'renew', 'ws:a'], /renew needs --lock-file FILE/],
  [['locks', 'release', 'ws:a'], /release needs --lock-file FILE/],
  [['locks', 'take', 'ws:a', '--ttl', '0'], /--ttl wants a time such as 90s/],
  [['share'], /create: PLACE is missing/],
  [['share', 'new', 'ws:a', '--password', '--password-file', 'f'], /use either --password or --password-file/],
  [['share', 'new', 'ws:a', '--password=secret'], /--password takes no value/],
  [['audit', 'verfy'], /did you mean 'verify'\?/],
  [['audit', '--follow', '--to', '2026-01-01'], /--follow has no end/],
  [['audit', 'verify', '--limit', '1'], /--limit is not for 'verify'/],
  [['restore', 'a', 'b'], /unexpected 'b'/],
  [['verify', 'all'], /unexpected 'all'/],
  [['conversations', 'fils', 'x'], /did you mean 'files'\?/],
  [['run', '-w', 'ws', '--ephemeral', '-c', '1'], /one of them/],
  [['run', '--message', 'm', '-c', '1'], /--message needs --conversation/],
  [['key', 'create'], /create needs --scopes SCOPES/],
  [['token', 'create'], /create needs --ttl TIME/],
  [['token', 'create', '--ttl', 'soon'], /ttl/],
  [['token', 'delet', 'x'], /did you mean 'delete'\?/],
  [['key', 'delet', 'x'], /did you mean 'delete'\?/],
  [['runtime', 'shwo', 'minimal'], /did you mean 'show'\?/],
  [['runtime', 'show'], /show: NAME is missing/],
  [['mcp', 'now'], /unexpected 'now'/],
  [['mcp', '--tools', 'some'], /core, workspace or all/],
  [['doctor', '--jason'], /did you mean --json\?/],
  [['serve', '--lisen', '127.0.0.1:1'], /did you mean "--listen"\?/],
];
for (const [line, says] of WRONG) {
  test(`wrong: ${line.join(' ')}`, async () => {
    const { stdout, stderr } = await cli.exits(2, line);
    assert.equal(stdout, '');
    assert.match(stderr, says);
  });
}

test('no code at a terminal is a wrong line, not a wait', async () => {
  const { stdout } = await cli.exits(2, ['run'], { terminal: true });
  assert.match(stdout, /no code: give -c CODE, a FILE or -/);
});
