// SPDX-License-Identifier: Apache-2.0
// make install and make uninstall below a DESTDIR; the links of the installed
// documents; completions of bash, zsh and fish; the manual pages.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { bin, build, Glovebox, pool, root } from '../../lib/glovebox.mjs';

const dir = mkdtempSync(join(tmpdir(), 'glovebox-install-'));
after(() => rmSync(dir, { recursive: true, force: true }));
// With the compiler and flags of the build, or everything would be compiled.
const cc = /^(.*?) -std=/.exec(readFileSync(`${build}/flags`, 'utf8'))?.[1] ?? 'gcc';
const flavour = /build-(asan|ubsan|cover)$/.exec(build)?.[1];
const make = (target, ...more) => spawnSync('make', [target, `B=${build}`, `CC=${cc}`, `DESTDIR=${dir}`, ...(flavour ? [`FLAVOUR=${flavour}`] : []), ...more],
  { cwd: root, encoding: 'utf8', env: { ...process.env, MAKEFLAGS: '', MAKELEVEL: '' } });
const files = () => readdirSync(dir, { recursive: true }).filter((f) => statSync(join(dir, f)).isFile()).sort();

describe('make install', () => {
  before(() => {
    const done = make('install', 'PREFIX=/usr/local');
    assert.equal(done.status, 0, done.stdout + done.stderr);
  });

  test('programs, unit, account, folders, configuration, pages and examples', () => {
    const have = new Set(files());
    for (const path of ['usr/local/bin/glovebox', 'usr/local/libexec/glovebox/gloveboxd', 'usr/local/libexec/glovebox/glovebox-warden', 'usr/local/libexec/glovebox/glovebox-model',
      'usr/local/libexec/glovebox/runtime-build', 'usr/local/libexec/glovebox/kernel/_glovebox.abi3.so', 'usr/local/lib/systemd/system/glovebox.service',
      'usr/local/lib/sysusers.d/glovebox.conf', 'usr/local/lib/tmpfiles.d/glovebox.conf', 'etc/glovebox/glovebox.yaml',
      'usr/local/share/glovebox/runtimes/standard/runtime.yaml', 'usr/local/share/man/man1/glovebox.1', 'usr/local/share/doc/glovebox/docs/OPERATE.md',
      'usr/local/share/doc/glovebox/packaging/nginx/glovebox.conf', 'usr/local/share/bash-completion/completions/glovebox'])
      assert.ok(have.has(path), `${path} is missing`);
    assert.match(readFileSync(join(dir, 'usr/local/lib/systemd/system/glovebox.service'), 'utf8'), /^ExecStart=\/usr\/local\/bin\/glovebox serve$/m);
  });

  // The folder has mode 0700 and is root's, as a clone in a home directory is.
  test('the service runs code from where it is, though its account cannot enter that folder', async () => {
    assert.equal(statSync(dir).mode & 0o777, 0o700);
    const server = await Glovebox.start({ config: { pools: [pool({ ready: 0 })] }, program: join(dir, 'usr/local/libexec/glovebox/gloveboxd') });
    try {
      const cli = spawnSync(join(dir, 'usr/local/bin/glovebox'), ['run', '-c', 'print(6 * 7)'], { encoding: 'utf8', timeout: 120_000, env: { PATH: process.env.PATH, HOME: dir, GLOVEBOX_URL: server.url, GLOVEBOX_KEY: server.key } });
      assert.equal(cli.stdout, '42\n', cli.stderr + server.log);
    } finally {
      await server.stop();
    }
  });

  test('it runs from where it is, and finds its definitions', () => {
    const list = spawnSync(join(dir, 'usr/local/bin/glovebox'), ['runtime', 'list', '--cache', join(dir, 'none')], { encoding: 'utf8', env: { PATH: process.env.PATH, HOME: dir } });
    assert.equal(list.status, 0, list.stderr);
    assert.match(list.stdout, /standard/);
  });

  test('links between the installed pages hold', () => {
    const done = spawnSync(join(root, 'packaging/check-links'), [join(dir, 'usr/local/share/doc/glovebox')], { encoding: 'utf8' });
    assert.equal(done.status, 0, done.stdout);
  });

  test('the manual pages have no mistakes', () => {
    const pages = files().filter((f) => f.endsWith('.1'));
    assert.ok(pages.length > 30);
    // All at once; one by one only to find the page with the mistake.
    const man = (list) => spawnSync('man', ['--warnings', '-E', 'UTF-8', '-l', '-Tutf8', '-Z', ...list.map((page) => join(dir, page))], { encoding: 'utf8', maxBuffer: 64 << 20, env: { ...process.env, LC_ALL: 'C.UTF-8', MANWIDTH: '80' } });
    const all = man(pages);
    if (all.status === 0 && all.stderr === '') {
      assert.equal((all.stdout.match(/^x init$/mg) ?? []).length, pages.length, 'every page was formatted');
      return;
    }
    for (const page of pages) {
      const done = man([page]);
      assert.equal(done.stderr, '', page);
      assert.equal(done.status, 0, page);
    }
    assert.fail(all.stderr);
  });

  test('a second installation keeps a configuration that was edited', () => {
    const config = join(dir, 'etc/glovebox/glovebox.yaml');
    writeFileSync(config, 'listen: 127.0.0.1:1\n');
    assert.equal(make('install', 'PREFIX=/usr/local').status, 0);
    assert.equal(readFileSync(config, 'utf8'), 'listen: 127.0.0.1:1\n');
  });
});

describe('completions', () => {
  const at = (path) => join(dir, 'usr/local/share', path);
  const table = () => JSON.parse(spawnSync(bin('glovebox'), ['help', '--dump'], { encoding: 'utf8' }).stdout);
  const bash = (...words) => {
    const done = spawnSync('bash', ['-c', `. ${at('bash-completion/completions/glovebox')}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _glovebox; printf '%s\\n' "\${COMPREPLY[@]}"`, 'x', ...words], { encoding: 'utf8', cwd: root });
    assert.equal(done.stderr, '', words.join(' '));
    return done.stdout.trim().split('\n').filter(Boolean);
  };

  test('bash: commands, verbs, options, files', () => {
    assert.deepEqual(bash('glovebox', 'back'), ['backup']);
    assert.deepEqual(bash('glovebox', 'sessions', 'sh').sort(), ['share', 'show']);
    assert.deepEqual(bash('glovebox', 'backup', '--ev'), ['--every']);
    assert.deepEqual(bash('glovebox', 'help', 'who'), ['whoami']);
    assert.deepEqual(bash('glovebox', 'run', '--put', 'Makef'), ['Makefile']);
    assert.deepEqual(bash('glovebox', 'run', 'Makef'), ['Makefile']);
    assert.deepEqual(bash('glovebox', 'sessions', 'create', '--name', 'x'), [], 'a value of any text');
    // Every command and option, in one shell.
    const lines = table().flatMap((c) => [['glovebox', c.name], ...c.options.map((o) => ['glovebox', c.name, `--${o.name}`])]);
    assert.ok(lines.length > 150, `${lines.length} lines`);
    const script = `. ${at('bash-completion/completions/glovebox')}; while read -ra COMP_WORDS; do COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); COMPREPLY=(); _glovebox; echo " \${COMPREPLY[*]} "; done`;
    const done = spawnSync('bash', ['-c', script], { encoding: 'utf8', cwd: root, input: lines.map((words) => words.join(' ')).join('\n') + '\n' });
    assert.equal(done.stderr, '');
    const replies = done.stdout.trimEnd().split('\n');
    assert.equal(replies.length, lines.length);
    for (const [i, words] of lines.entries()) assert.ok(replies[i].includes(` ${words.at(-1)} `) || replies[i].trim() === words.at(-1), `${words.join(' ')}: ${replies[i]}`);
  });

  const has = (program) => spawnSync(program, ['--version']).status === 0;
  test('zsh: valid, and completes a command', { skip: !has('zsh') && 'zsh is not installed' }, () => {
    const file = at('zsh/vendor-completions/_glovebox');
    const done = spawnSync('zsh', ['-n', file], { encoding: 'utf8' });
    assert.equal(done.status, 0, done.stderr);
    const script = `fpath=(${at('zsh/vendor-completions')} $fpath); autoload -Uz compinit; compinit -u -D; [[ -n \${_comps[glovebox]} ]] && autoload +X -Uz _glovebox && print \${_comps[glovebox]}`;
    const loaded = spawnSync('zsh', ['-f', '-c', script], { encoding: 'utf8', env: { ...process.env, HOME: dir } });
    assert.equal(loaded.stdout.trim(), '_glovebox', loaded.stderr);
    const text = readFileSync(file, 'utf8');
    for (const c of table()) assert.match(text, new RegExp(`^        '${c.name}:`, 'm'));
  });

  test('fish: commands, verbs, options', { skip: !has('fish') && 'fish is not installed' }, () => {
    const fish = (line) => {
      const done = spawnSync('fish', ['--no-config', '-c', `source ${at('fish/vendor_completions.d/glovebox.fish')}; complete -C '${line}'`], { encoding: 'utf8', env: { ...process.env, HOME: dir } });
      assert.equal(done.stderr, '', line);
      return done.stdout.trim().split('\n').map((l) => l.split('\t')[0]);
    };
    assert.deepEqual(fish('glovebox back'), ['backup']);
    assert.deepEqual(fish('glovebox sessions sh').sort(), ['share', 'show']);
    assert.deepEqual(fish('glovebox backup --ev'), ['--every']);
  });
});

describe('make uninstall', () => {
  test('removes what was installed and nothing else', () => {
    writeFileSync(join(dir, 'usr/local/bin/other'), 'mine');
    const done = make('uninstall', 'PREFIX=/usr/local');
    assert.equal(done.status, 0, done.stdout + done.stderr);
    assert.deepEqual(files(), ['etc/glovebox/glovebox.yaml', 'usr/local/bin/other']);
    assert.ok(!existsSync(join(dir, 'usr/local/libexec/glovebox')));
    assert.ok(!existsSync(join(dir, 'usr/local/share/doc/glovebox')));
    assert.ok(!existsSync(join(root, build, 'uninstall')));
  });
});
