// SPDX-License-Identifier: Apache-2.0
// A disk that fails when told to, under a real daemon (faults.c says how):
//
//   const g = await Glovebox.start({ env: faultEnv() });
//   armFault({ op: 'fsync', path: '/blobs/', nth: 2, action: 'EIO' });
//   …what should now fail, or die…
//   assert.equal(faultFired(), 1);
//   disarm();
//
// The rules and counts are one file per test process, shared by every daemon
// started with faultEnv(), and they outlive each of them.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, openSync, readSync, rmSync, statSync, writeSync } from 'node:fs';
import { constants, endianness, tmpdir } from 'node:os';
import { join } from 'node:path';
import { build, root } from './glovebox.mjs';

const MAGIC = 0x746c7566;
const HEAD = 256;
const RULE = 256;
const RULES = 8;
const PATH_AT = 32;
const OPS = { write: 1, pwrite: 2, fsync: 4, fdatasync: 8, rename: 16, renameat: 16, link: 32, unlink: 64,
  ftruncate: 128, 'open-create': 256, mkdir: 512 };
const ACTIONS = { kill: 1, 'kill-after': 2 };

let dir; // made when first needed, removed with the process
let control;

function folder() {
  if (!dir) {
    dir = mkdtempSync(join(tmpdir(), 'glovebox-faults-'));
    chmodSync(dir, 0o755); // the service user must get through
    process.on('exit', () => rmSync(dir, { recursive: true, force: true }));
  }
  return dir;
}

// The library: of the build if it has one that is current, else made here.
let library;
export function faultLibrary() {
  if (library) return library;
  const source = join(root, 'tests/lib/faults.c');
  const built = join(build, 'tests/faults.so');
  if (existsSync(built) && statSync(built).mtimeMs >= statSync(source).mtimeMs) return (library = built);
  const made = join(folder(), 'faults.so');
  const [cc, ...flags] = (process.env.CC ?? 'gcc').split(' ');
  execFileSync(cc, [...flags, '-std=gnu17', '-O1', '-g', '-D_GNU_SOURCE', '-fPIC', '-shared', '-o', made, source]);
  chmodSync(made, 0o755);
  return (library = made);
}

function file() {
  if (control === undefined) {
    const path = join(folder(), 'control');
    control = openSync(path, 'w+', 0o666);
    chmodSync(path, 0o666); // whatever the umask: the daemon changes its user
    const bytes = new DataView(new ArrayBuffer(HEAD + RULES * RULE));
    bytes.setUint32(0, MAGIC, endianness() === 'LE');
    writeSync(control, bytes, 0, bytes.byteLength, 0);
  }
  return control;
}

// What a daemon's environment needs so that its calls can be made to fail.
export function faultEnv() {
  file();
  return {
    LD_PRELOAD: faultLibrary(),
    GLOVEBOX_FAULTS: join(dir, 'control'),
    // The sanitizer wants to be loaded first; for these calls it need not.
    ASAN_OPTIONS: [process.env.ASAN_OPTIONS, 'verify_asan_link_order=0'].filter(Boolean).join(':'),
  };
}

const write32 = (value, at) => {
  const word = new DataView(new ArrayBuffer(4));
  word.setUint32(0, value, endianness() === 'LE');
  writeSync(file(), word, 0, 4, at);
};
const read32 = (at) => {
  const word = new DataView(new ArrayBuffer(4));
  assert.equal(readSync(file(), word, 0, 4, at), 4);
  return word.getUint32(0, endianness() === 'LE');
};

// Arms these rules and no others; counts start at nothing. Of each:
//   op      write pwrite fsync fdatasync rename link unlink ftruncate
//           open-create mkdir, or several in an array
//   path    text that the path contains; '' is any, sockets included
//   nth     the match that fires, from 1
//   action  the name of an errno, 'kill' before the call, or 'kill-after' it
//   forever every match from the nth on, else that one alone
export function armFault(...rules) {
  disarm();
  writeSync(file(), Buffer.alloc(RULES * RULE), 0, RULES * RULE, HEAD);
  assert.ok(rules.length >= 1 && rules.length <= RULES, `1 to ${RULES} rules`);
  rules.forEach(({ op, path = '', nth = 1, action = 'EIO', forever = false }, i) => {
    const at = HEAD + i * RULE;
    const text = Buffer.alloc(RULE - PATH_AT);
    const ops = [op].flat().reduce((bits, name) => {
      assert.ok(OPS[name], `no operation ${name}`);
      return bits | OPS[name];
    }, 0);
    assert.ok(ACTIONS[action] || constants.errno[action], `no action ${action}`);
    assert.ok(Number.isInteger(nth) && nth >= 1 && Buffer.byteLength(path) < text.length);
    text.write(path);
    writeSync(file(), text, 0, text.length, at + PATH_AT);
    [ops, ACTIONS[action] ?? 0, constants.errno[action] ?? 0, nth, Number(forever), 0, 0]
      .forEach((value, field) => write32(value, at + 4 * (field + 1)));
  });
  rules.forEach((_, i) => write32(1, HEAD + i * RULE));
}

const sum = (field, rule) => Array.from({ length: RULES }, (_, i) => i)
  .filter((i) => rule === undefined || rule === i)
  .reduce((n, i) => n + read32(HEAD + i * RULE + 4 * field), 0);

// How many times a fault happened, or a call matched, since armFault; of one
// rule or of all. They stay readable after disarm.
export const faultFired = (rule) => sum(7, rule);
export const faultSeen = (rule) => sum(6, rule);

export function disarm() {
  for (let i = 0; i < RULES; i++) write32(0, HEAD + i * RULE);
}
