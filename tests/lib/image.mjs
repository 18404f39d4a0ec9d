// SPDX-License-Identifier: Apache-2.0
// Container images made from nothing: tar files entry by entry, good or bad,
// layers of them, and the two forms that `glovebox runtime import` reads.
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

const TYPES = { file: '0', hard: '1', link: '2', char: '3', block: '4', dir: '5', fifo: '6' };

// One entry: { name, type, body, target, mode, size }; a size that is not the
// body's is a lie.
function entry({ name, type = 'file', body = '', target = '', mode = type === 'dir' ? 0o755 : 0o644, size, pax }) {
  const bytes = Buffer.from(body);
  const head = Buffer.alloc(512);
  const octal = (value, at, length) => head.write(value.toString(8).padStart(length - 1, '0'), at, 'latin1');
  head.write(name, 0, 100);
  octal(mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size ?? bytes.length, 124, 12);
  octal(0, 136, 12);
  head.write('        ', 148);
  head.write(pax ?? TYPES[type], 156);
  head.write(target, 157, 100);
  head.write('ustar\x0000', 257, 'latin1');
  if (type === 'char' || type === 'block') { octal(1, 329, 8); octal(3, 337, 8); }
  octal(head.reduce((sum, byte) => sum + byte, 0), 148, 7);
  return Buffer.concat([head, bytes, Buffer.alloc((512 - bytes.length % 512) % 512)]);
}

// An extended header for the entry after it: path, linkpath, size, attributes.
export function pax(values) {
  const records = Object.entries(values).map(([key, value]) => {
    const rest = ` ${key}=${value}\n`;
    let length = Buffer.byteLength(rest);
    while (Buffer.byteLength(String(length) + rest) !== length) length++;
    return length + rest;
  });
  return { name: 'PaxHeaders/x', pax: 'x', body: records.join('') };
}

export const tar = (entries) => Buffer.concat([...entries.map(entry), Buffer.alloc(1024)]);

const ARCH = { x64: 'amd64', arm64: 'arm64' }[process.arch];
const OCI = 'application/vnd.oci.image';

// layers: [{ tar, packed (bytes of the blob), type }]
export function config(layers, extra = {}) {
  return { architecture: ARCH, os: 'linux', config: { Env: ['PATH=/usr/local/bin:/usr/bin:/bin', 'GREETING=hello there', 'HOME=/root'], WorkingDir: '/srv', User: '0' },
    rootfs: { type: 'layers', diff_ids: layers.map((l) => `sha256:${l.diffId ?? sha256(l.tar)}`) }, ...extra };
}

// An OCI layout as { path: bytes }.
export function oci(layers, { change = () => {}, configExtra } = {}) {
  const files = {};
  const blob = (bytes, mediaType) => {
    const digest = sha256(bytes);
    files[`blobs/sha256/${digest}`] = bytes;
    return { mediaType, digest: `sha256:${digest}`, size: bytes.length };
  };
  const manifest = { schemaVersion: 2, mediaType: `${OCI}.manifest.v1+json`,
    config: blob(Buffer.from(JSON.stringify(config(layers, configExtra))), `${OCI}.config.v1+json`),
    layers: layers.map((l) => blob(l.packed ?? l.tar, l.type ?? `${OCI}.layer.v1.tar`)) };
  const index = { schemaVersion: 2, manifests: [{ ...blob(Buffer.from(JSON.stringify(manifest)), manifest.mediaType),
    annotations: { 'org.opencontainers.image.ref.name': 'made:1' } }] };
  files['oci-layout'] = Buffer.from('{"imageLayoutVersion":"1.0.0"}');
  files['index.json'] = Buffer.from(JSON.stringify(index));
  change(files, { index, manifest });
  return files;
}

// A docker-archive as { path: bytes }.
export function docker(layers, { change = () => {} } = {}) {
  const text = Buffer.from(JSON.stringify(config(layers)));
  const name = `${sha256(text)}.json`;
  const files = { [name]: text };
  const names = layers.map((l, i) => { files[`layer${i}/layer.tar`] = l.packed ?? l.tar; return `layer${i}/layer.tar`; });
  files['manifest.json'] = Buffer.from(JSON.stringify([{ Config: name, RepoTags: ['made/by-hand:1'], Layers: names }]));
  change(files);
  return files;
}

export function asFolder(at, files) {
  for (const [path, bytes] of Object.entries(files)) {
    mkdirSync(join(at, path, '..'), { recursive: true });
    writeFileSync(join(at, path), bytes);
  }
  return at;
}

export function asFile(at, files, { extra = [] } = {}) {
  writeFileSync(at, tar([...Object.entries(files).map(([name, body]) => ({ name, body })), ...extra]));
  return at;
}
