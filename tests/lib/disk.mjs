// SPDX-License-Identifier: Apache-2.0
// A small real disk for a data directory: ext4 in a file, on a loop device.
//
//   const disk = smallDisk({ mib: 400 });     // disk.dir is for Glovebox.start
//   disk.fill();                              // as another program would
//   disk.empty();
//   disk.freeze(); disk.thaw();
//   disk.remove();
import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, rmdirSync, statfsSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';

const run = (...command) => execFileSync(command[0], command.slice(1), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();

// inodes: how many files it can have; else one for 16 KiB.
export function smallDisk({ mib = 400, inodes } = {}) {
  const dir = mkdtempSync(join(tmpdir(), 'glovebox-disk-'));
  const image = join(dir, 'image');
  const data = join(dir, 'data');
  const filler = join(data, 'filler');
  const files = join(data, 'files');
  mkdirSync(data);
  run('truncate', '-s', `${mib}M`, image);
  run('mkfs.ext4', '-q', '-F', '-m', '0', ...(inodes ? ['-N', String(inodes)] : []), image);
  run('mount', '-o', 'loop,errors=remount-ro', image, data);
  rmdirSync(join(data, 'lost+found'));
  let mounted = true;
  let frozen = false;
  let made = 0;
  const unmount = () => {
    if (!mounted) return;
    mounted = false;
    run('umount', '-l', data);
  };
  const remove = () => {
    unmount();
    rmSync(dir, { recursive: true, force: true });
  };
  process.on('exit', () => mounted && remove());
  return {
    dir, data, remove,
    free: () => { const s = statfsSync(data); return s.bavail * s.bsize; },
    files: () => statfsSync(data).ffree,
    // To the last byte, or until so many are left.
    fill(leave = 0) {
      const fd = openSync(filler, 'a');
      try {
        for (let piece = 1 << 22; piece >= 1;) {
          const room = leave ? this.free() - leave : Infinity;
          if (room <= 0) break;
          try {
            writeSync(fd, Buffer.alloc(Math.min(piece, room), 1));
          } catch (error) {
            if (error.code !== 'ENOSPC') throw error;
            piece >>= 1;
          }
        }
      } finally {
        closeSync(fd);
      }
    },
    empty: () => rmSync(filler, { force: true }),
    // What the kernel does when it finds the file system damaged.
    breakDown() {
      const device = basename(run('findmnt', '-n', '-o', 'SOURCE', data));
      writeFileSync(`/sys/fs/ext4/${device}/trigger_fs_error`, 'broken by a test');
    },
    // What is on the disk is repaired and mounted anew. A copy, because
    // another process may keep the broken file system mounted.
    repair() {
      const copy = join(dir, 'repaired');
      run('umount', '-l', data);
      run('cp', '--sparse=always', image, copy);
      try {
        run('e2fsck', '-f', '-y', copy);
      } catch (error) {
        if (error.status > 1) throw error; // 1: something was repaired
      }
      run('mount', '-o', 'loop', copy, data);
    },
    // Whoever writes waits until it is thawed.
    freeze() {
      run('fsfreeze', '-f', data);
      frozen = true;
    },
    thaw() {
      if (frozen) run('fsfreeze', '-u', data);
      frozen = false;
    },
    // Uses up its inodes.
    fillFiles() {
      mkdirSync(files, { recursive: true });
      try {
        for (let i = 0; i < 1e6; i++) closeSync(openSync(join(files, `${made++}`), 'wx'));
      } catch (error) {
        if (error.code !== 'ENOSPC') throw error;
      }
    },
    emptyFiles: () => rmSync(files, { recursive: true, force: true }),
  };
}
