// SPDX-License-Identifier: Apache-2.0
// glovebox runtime import: both forms, layers and whiteouts, what is left out
// of an image, and images that lie or attack.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, lstatSync, mkdtempSync, readFileSync, readdirSync, readlinkSync, rmSync, statSync, writeFileSync, mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { bin } from '../../lib/glovebox.mjs';
import { asFile, asFolder, docker, oci, pax, sha256, tar } from '../../lib/image.mjs';

let dir;
let cache;
let count = 0;

before(() => {
  dir = mkdtempSync(join(tmpdir(), 'glovebox-images-'));
  cache = join(dir, 'cache');
  mkdirSync(join(dir, 'defs'));
});
after(() => rmSync(dir, { recursive: true, force: true }));

const place = () => join(dir, `source${++count}`);
function cli(...args) {
  return spawnSync(bin('glovebox'), ['runtime', ...args, '--cache', cache, '--defs', join(dir, 'defs')], { encoding: 'utf8' });
}
// Imports it and returns the root folder and the manifest.
function imported(source, name = `made${count}`, ...more) {
  const done = cli('import', source, '--name', name, '--json', ...more);
  assert.equal(done.status, 0, done.stderr);
  const { image, manifest, languages } = JSON.parse(done.stdout);
  return { root: join(image, 'root'), manifest, languages, image };
}
function refused(source, words, ...more) {
  const name = `bad${++count}`;
  const done = cli('import', source, '--name', name, ...more);
  assert.notEqual(done.status, 0, 'it was imported');
  assert.match(done.stderr, words);
  assert.deepEqual(readdirSync(cache).filter((n) => n.includes(name) && !n.startsWith('.lock')), [], 'nothing is left behind');
  assert.equal(existsSync(join(cache, 'imported', name)), false);
}
const layer = (...entries) => ({ tar: tar(entries) });
const folder = (layers, options) => asFolder(place(), oci(layers, options));

const base = () => layer({ name: 'bin/', type: 'dir' }, { name: 'bin/sh', body: '#!', mode: 0o4755 },
  { name: 'etc/', type: 'dir' }, { name: 'etc/passwd', body: 'root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n' },
  { name: 'srv/a/', type: 'dir' }, { name: 'srv/a/one', body: 'one' }, { name: 'srv/a/two', body: 'two' }, { name: 'srv/b', body: 'b' });

describe('forms', () => {
  test('an OCI layout, as a folder and as a tar file, packed as gzip and zstd', () => {
    const plain = base();
    const zstd = spawnSync('zstd', ['-q', '-c'], { input: plain.tar });
    const forms = { plain, gzip: { ...plain, packed: gzipSync(plain.tar) }, ...(zstd.status === 0 ? { zstd: { ...plain, packed: zstd.stdout } } : {}) };
    for (const [form, l] of Object.entries(forms)) {
      const { root, manifest } = imported(folder([l]));
      assert.equal(readFileSync(join(root, 'srv/a/one'), 'utf8'), 'one', form);
      assert.deepEqual([manifest.format, manifest.reference, manifest.layers, manifest.mode], ['oci', 'made:1', 1, 'exec']);
      assert.match(manifest.reason, /no python3/);
      const file = imported(asFile(`${place()}.tar`, oci([l])));
      assert.equal(readFileSync(join(file.root, 'srv/b'), 'utf8'), 'b');
    }
  });

  test('a docker-archive, also packed, and with links between its layers', () => {
    const files = docker([base()]);
    const { root, manifest, languages } = imported(asFile(`${place()}.tar`, files));
    assert.deepEqual([manifest.format, manifest.reference], ['docker-archive', 'made/by-hand:1']);
    assert.deepEqual(languages, ['shell']);
    assert.ok(existsSync(join(root, 'srv/b')));
    const packed = `${place()}.tar.gz`;
    writeFileSync(packed, gzipSync(readFileSync(asFile(`${place()}.tar`, files))));
    imported(packed);
    const twice = docker([base(), base()], { change: (f) => { delete f['layer1/layer.tar']; } });
    imported(asFile(`${place()}.tar`, twice, { extra: [{ name: 'layer1/layer.tar', type: 'link', target: '../layer0/layer.tar' }] }));
  });

  test('the name comes from the file, may not be taken, and the image can be deleted', () => {
    const at = join(dir, 'My_Image.v2.tar');
    asFile(at, docker([base()]));
    assert.equal(cli('import', at).status, 0);
    assert.match(cli('list').stdout, /^my-image +built +image/m);
    assert.match(cli('show', 'my-image').stdout, /languages +shell\nmode +exec: the image has no python3/);
    assert.equal(cli('import', at).status, 0, 'the same again');
    mkdirSync(join(dir, 'defs/taken'), { recursive: true });
    writeFileSync(join(dir, 'defs/taken/runtime.yaml'), 'packages: [python3]\n');
    assert.match(cli('import', at, '--name', 'taken').stderr, /already/);
    assert.match(cli('import', at, '--name', 'No/Name').stderr, /no name of a runtime/);
    assert.equal(cli('delete', 'my-image').status, 0);
    assert.doesNotMatch(cli('list').stdout, /my-image/);
    assert.notEqual(cli('show', 'my-image').status, 0);
  });
});

describe('layers', () => {
  test('whiteouts remove what lower layers have, and nothing of their own', () => {
    const { root } = imported(folder([base(),
      layer({ name: 'srv/.wh.b' }, { name: 'srv/a/new', body: 'new' }, { name: 'srv/a/.wh..wh..opq' }),
      layer({ name: 'etc/.wh.missing' }, { name: 'srv/c', body: 'c' })]));
    assert.deepEqual(readdirSync(join(root, 'srv')).sort(), ['a', 'c']);
    assert.deepEqual(readdirSync(join(root, 'srv/a')), ['new']);
  });

  test('a file replaces a folder, a folder a file, and a linked folder is followed', () => {
    const { root } = imported(folder([base(), layer({ name: 'srv/a', body: 'file now' }, { name: 'srv/b/', type: 'dir' }, { name: 'srv/b/x', body: 'x' },
      { name: 'usr/lib/', type: 'dir' }, { name: 'lib', type: 'link', target: 'usr/lib' }), layer({ name: 'lib/', type: 'dir' }, { name: 'lib/libx', body: 'x' })]));
    assert.equal(readFileSync(join(root, 'srv/a'), 'utf8'), 'file now');
    assert.ok(lstatSync(join(root, 'lib')).isSymbolicLink());
    assert.equal(readFileSync(join(root, 'usr/lib/libx'), 'utf8'), 'x');
  });

  test('hard links, modes without set-user-id, owners, sessions\' account', () => {
    const { root } = imported(folder([base(), layer({ name: 'srv/hard', type: 'hard', target: 'srv/a/one' }, { name: 'srv/run', body: '', mode: 0o6755 }, { name: 'srv/t', type: 'dir', mode: 0o1777 })]));
    assert.equal(statSync(join(root, 'srv/hard')).ino, statSync(join(root, 'srv/a/one')).ino);
    assert.equal(statSync(join(root, 'srv/run')).mode & 0o7777, 0o755);
    assert.equal(statSync(join(root, 'bin/sh')).mode & 0o7777, 0o755);
    assert.equal(statSync(join(root, 'srv/t')).mode & 0o7777, 0o1777);
    assert.equal(statSync(join(root, 'srv/run')).uid, process.getuid());
    const passwd = readFileSync(join(root, 'etc/passwd'), 'utf8');
    assert.match(passwd, /^root:.*\nuser:x:1000:1000:/);
    assert.doesNotMatch(passwd, /node/);
    for (const at of ['mnt/data', 'home/user', 'proc', 'dev', 'opt/glovebox/lib']) assert.ok(statSync(join(root, at)).isDirectory(), at);
  });

  test('the environment of the image is that of its sessions, but for what is theirs', () => {
    const { image } = imported(folder([base()]));
    const { environment } = JSON.parse(readFileSync(join(image, 'runtime.yaml'), 'utf8'));
    assert.ok(environment.includes('GREETING=hello there'));
    assert.ok(!environment.some((v) => v.startsWith('HOME=')));
  });

  test('which mode it gets, and why', () => {
    const python = [{ name: 'usr/bin/python3.12', body: 'elf', mode: 0o755 }, { name: 'usr/bin/python3', type: 'link', target: 'python3.12' }];
    const reason = (...entries) => imported(folder([layer(...entries)])).manifest;
    const glibc = (version) => ({ name: 'usr/lib/libc.so.6', body: `xx GNU C Library (Debian) stable release version ${version}.\n` });
    assert.match(reason(...python, { name: 'lib/ld-musl-x86_64.so.1', body: 'x' }).reason, /musl/);
    assert.match(reason(...python, glibc('2.31')).reason, /glibc 2\.31; 2\.\d+ is needed/);
    assert.match(reason({ name: 'usr/bin/python3.8', body: 'x', mode: 0o755 }, { name: 'usr/bin/python3', type: 'link', target: 'python3.8' }, glibc('2.36')).reason, /Python 3\.8; 3\.9 is needed/);
    const good = reason(...python, glibc('2.41'), { name: 'usr/lib/python3/dist-packages/demo-1.2.dist-info/METADATA', body: '' });
    assert.deepEqual([good.mode, good.python, good.libc, good.reason], ['zygote', '3.12', 'glibc 2.41', undefined]);
    assert.deepEqual(good.distributions, [{ name: 'demo', version: '1.2' }]);
  });
});

describe('F1: an image cannot write outside its own tree', () => {
  // A file beside the cache that every attack aims at.
  const mark = () => join(dir, 'target');
  const untouched = () => assert.equal(readFileSync(mark(), 'utf8'), 'as it was');
  before(() => writeFileSync(mark(), 'as it was'));

  test('through paths that climb', () => {
    refused(folder([layer({ name: '../../../target', body: 'x' })]), /leads out of the image/);
    refused(folder([layer({ name: 'a/../../target', body: 'x' })]), /leads out of the image/);
    refused(folder([layer({ name: 'hard', type: 'hard', target: '../../../target' })]), /leads to no file/);
    refused(asFile(`${place()}.tar`, { ...docker([base()]), '../escape': 'x' }), /no name in an image's file/);
    untouched();
  });

  test('through links, absolute and climbing; they lead within the image', () => {
    const out = dir;
    const { root } = imported(folder([layer({ name: 'out', type: 'link', target: out }, { name: 'up', type: 'link', target: '../../../../../../..' }),
      layer({ name: 'up/target', body: 'x' }, { name: 'plain', type: 'link', target: mark() }), layer({ name: 'plain', body: 'replaced' })]));
    untouched();
    assert.equal(readFileSync(join(root, 'target'), 'utf8'), 'x', 'the link led to the image\'s own root');
    assert.ok(lstatSync(join(root, 'plain')).isFile());
    refused(folder([layer({ name: 'out', type: 'link', target: out }), layer({ name: 'out/target', body: 'x' })]), /cannot make|is below a file|cannot/);
    refused(folder([layer({ name: 'h', type: 'hard', target: '/etc/shadow' })]), /leads to no file/);
    imported(folder([layer({ name: '/abs/olute', body: 'inside' })]));
    untouched();
  });

  test('through our own files: mount points and tables that are links', () => {
    const { root } = imported(folder([layer({ name: 'etc', type: 'dir' }, { name: 'etc/passwd', type: 'link', target: mark() }, { name: 'etc/resolv.conf', type: 'link', target: mark() },
      { name: 'mnt/data', type: 'link', target: dir }, { name: 'opt/glovebox', type: 'link', target: dir }, { name: 'home/user', body: 'file' })]));
    untouched();
    for (const at of ['mnt/data', 'opt/glovebox', 'home/user']) assert.ok(lstatSync(join(root, at)).isDirectory(), at);
    assert.ok(lstatSync(join(root, 'etc/resolv.conf')).isFile());
  });

  test('through extended headers, attributes, entries that come twice and a root that is no folder', () => {
    refused(folder([layer(pax({ path: '../../target' }), { name: 'x', body: 'x' })]), /leads out of the image/);
    refused(folder([layer(pax({ path: '.wh.a/../../target' }), { name: 'x' })]), /leads out of the image/);
    refused(folder([layer(pax({ linkpath: mark() }), { name: 'x', type: 'hard', target: 'y' })]), /leads to no file/);
    refused(folder([layer(pax({ size: '-5' }), { name: 'x', body: 'x' })]), /negative/);
    refused(folder([layer(pax({ path: 'd/'.repeat(20_000) }), { name: 'x', type: 'dir' })]), /too long/);
    refused(folder([layer({ name: 'a/', type: 'dir' }, { name: 'a', type: 'link', target: dir }, { name: 'a/target', body: 'x' })]), /cannot make/);
    refused(folder([layer({ name: 'o', type: 'link', target: dir }), layer({ name: 'o/.wh..wh..opq' })]), /cannot make/);
    const { root } = imported(folder([layer({ name: './', type: 'link', target: dir }, { name: '.', body: 'x' }, { name: 'l', type: 'link', target: mark() },
      { name: 'h', type: 'hard', target: 'l' }, { name: 'h', body: 'own' }, { name: 'twice', body: '1' }, { name: 'twice', body: '2' },
      pax({ 'SCHILY.xattr.user.mine': 'x', 'SCHILY.xattr.security.capability': 'x' }), { name: 'capable', body: 'x', mode: 0o755 })]));
    untouched();
    assert.ok(lstatSync(root).isDirectory() && lstatSync(join(root, 'h')).isFile());
    assert.equal(readFileSync(join(root, 'twice'), 'utf8'), '2', 'the last one counts');
    const attributes = spawnSync('/usr/bin/python3', ['-c', 'import os, sys; print(os.listxattr(sys.argv[1]))', join(root, 'capable')], { encoding: 'utf8' });
    assert.equal(attributes.stdout.trim(), '[]', attributes.stderr);
    untouched();
  });

  test('a blob or an index that is a pipe, or a layer that is a link', () => {
    for (const which of [(at) => join(at, 'index.json'), (at) => join(at, 'blobs/sha256', readdirSync(join(at, 'blobs/sha256'))[0])]) {
      const at = folder([base()]);
      const path = which(at);
      rmSync(path);
      assert.equal(spawnSync('mkfifo', [path]).status, 0);
      refused(at, /no regular file/);
    }
    for (const target of ['/etc/shadow', 'layer.tar'])
      refused(asFile(`${place()}.tar`, docker([base()], { change: (f) => { delete f['layer0/layer.tar']; } }), { extra: [{ name: 'layer0/layer.tar', type: 'link', target }] }), /cannot open/);
    refused(asFile(`${place()}.tar`, docker([base()]), { extra: [{ name: 'manifest.json', body: '[{}]' }] }), /names no configuration/);
    untouched();
  });

  test('a whiteout removes nothing outside', () => {
    imported(folder([layer({ name: 'out', type: 'link', target: dir }), layer({ name: 'x/.wh.y' })]));
    refused(folder([layer({ name: '.wh...' })]), /no valid whiteout/);
    untouched();
  });

  test('device nodes, pipes and sockets are left out and counted', () => {
    const { root, manifest } = imported(folder([layer({ name: 'dev/mem', type: 'char' }, { name: 'dev/sda', type: 'block' }, { name: 'pipe', type: 'fifo' }, { name: 'ok', body: '' })]));
    assert.equal(manifest.skipped, 3);
    assert.deepEqual(readdirSync(join(root, 'dev')), []);
    assert.ok(!existsSync(join(root, 'pipe')));
  });
});

describe('F6: an image that is damaged or too large is refused whole', () => {
  test('bad digests: of a layer, of its unpacked bytes, of the configuration, of the manifest', () => {
    const l = base();
    refused(folder([l], { change: (files, { manifest }) => { const at = `blobs/sha256/${manifest.layers[0].digest.slice(7)}`; files[at] = Buffer.concat([files[at], Buffer.from('x')]); } }), /is damaged: its SHA-256 or its size/);
    refused(folder([{ ...l, diffId: sha256('other') }]), /unpacks to other bytes/);
    refused(folder([l], { change: (files, { manifest }) => { files[`blobs/sha256/${manifest.config.digest.slice(7)}`] = Buffer.from('{}'); } }), /is damaged/);
    refused(folder([l], { change: (files, { index }) => { files[`blobs/sha256/${index.manifests[0].digest.slice(7)}`] = Buffer.from('{}'); } }), /is damaged/);
    refused(asFile(`${place()}.tar`, docker([l], { change: (f) => { f['layer0/layer.tar'] = base().tar.subarray(512); } })), /unpacks to other bytes|cannot be read/);
    refused(asFile(`${place()}.tar`, docker([l], { change: (f) => { const n = Object.keys(f).find((k) => k.endsWith('.json') && k !== 'manifest.json'); f[n] = Buffer.concat([f[n], Buffer.from(' ')]); } })), /not what its name promises/);
  });

  test('truncated layers and files', () => {
    const l = base();
    const cut = gzipSync(l.tar).subarray(0, 80);
    refused(folder([{ tar: l.tar, packed: cut }]), /cannot be read/);
    const whole = readFileSync(asFile(`${place()}.tar`, docker([l])));
    const half = `${place()}.tar`;
    writeFileSync(half, whole.subarray(0, whole.length >> 1));
    refused(half, /cannot be read|cannot open/);
    refused(folder([layer({ name: 'big', body: 'short', size: 1e6 })]), /cannot be read/);
  });

  test('a bomb: much from little, and a file of holes', () => {
    const zeros = tar([{ name: 'zeros', body: Buffer.alloc(100 << 20) }]);
    refused(folder([{ tar: zeros, packed: gzipSync(zeros, { level: 9 }) }]), /times its size/);
    refused(folder([layer({ name: 'huge', size: 0o77777777777 * 8 - 1 })]), /cannot be read|larger than an image/);
  });

  test('the wrong things: no image, two images, another architecture, a broken index', () => {
    refused(asFolder(place(), { 'x.txt': 'x' }), /neither index\.json .* nor manifest\.json/);
    const text = `${place()}.tar`;
    writeFileSync(text, 'not a tar file at all');
    refused(text, /neither a folder nor a tar file|cannot be read/);
    refused(join(dir, 'nothing-here'), /cannot open/);
    refused(asFile(`${place()}.tar`, docker([base()], { change: (f) => { const m = JSON.parse(f['manifest.json']); f['manifest.json'] = Buffer.from(JSON.stringify([m[0], m[0]])); } })), /one is imported at a time/);
    refused(folder([base()], { configExtra: { architecture: 'riscv64' } }), /for linux\/riscv64 and this machine is linux\//);
    refused(folder([base()], { configExtra: { os: 'windows' } }), /for windows/);
    refused(folder([base()], { change: (f) => { f['index.json'] = Buffer.from('{"manifests":'); } }), /index\.json/);
    refused(folder([base()], { change: (f) => { f['index.json'] = Buffer.from('{"manifests":[{"digest":"sha256:../../../etc/passwd"}]}'); } }), /not by a SHA-256 digest/);
    refused(folder([base()], { change: (f) => { f['index.json'] = Buffer.alloc(5 << 20, 32); } }), /more than \d+ bytes/);
    refused(folder([base()], { configExtra: { rootfs: { diff_ids: [] } } }), /1 layers and digests of 0/);
    refused(folder(Array.from({ length: 257 }, (_, i) => layer({ name: `f${i}`, body: '' }))), /257 layers; 1 to 256/);
  });
});
