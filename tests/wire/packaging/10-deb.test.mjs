// SPDX-License-Identifier: Apache-2.0
// The Debian package: built, clean by lintian; installed, upgraded with data,
// removed and purged in a clean chroot (packaging/test-deb says what is
// checked). `make test-deb` also starts the service there.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { build, root } from '../../lib/glovebox.mjs';

const run = (program, args, ms) => new Promise((done) => {
  const child = spawn(program, args, { cwd: root, timeout: ms, env: { ...process.env, MAKEFLAGS: '', MAKELEVEL: '', DEB_BUILD_OPTIONS: 'noautodbgsym' } });
  let out = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes) => { out += bytes; });
  child.on('close', (status) => done({ status, out }));
});
const skip = process.getuid() !== 0 && 'root is needed to make a chroot';

test('the package: lintian finds no error and no warning', { skip, timeout: 850_000 }, async () => {
  // The compiler of the tree's flags, so that nothing is compiled again.
  const cc = process.env.CC ?? (/^(.*?) -std=/.exec(readFileSync(`${build}/flags`, 'utf8'))?.[1] ?? 'gcc');
  const made = await run('packaging/build-deb', ['--build', build, '--cc', cc], 840_000);
  assert.equal(made.status, 0, made.out);
  assert.match(made.out, /lintian: no errors and no warnings/);
  // Other suites run these programs at the same time.
  assert.doesNotMatch(readFileSync(`${build}/deb/build.log`, 'utf8'), /^  (NPM|WEB|EMBED|CC|AR|LINK) /m, 'nothing is compiled again');
});

test('a clean chroot: install, upgrade with data, remove, purge', { skip, timeout: 850_000 }, async (t) => {
  const { status, out } = await run('packaging/test-deb', ['--build', build], 840_000);
  for (const line of out.split('\n').filter((l) => /^(not )?ok /.test(l))) t.diagnostic(line);
  assert.equal(status, 0, out);
  assert.ok((out.match(/^ok /mg) ?? []).length >= 25, out);
  assert.ok(!/^not ok /m.test(out), out);
});
