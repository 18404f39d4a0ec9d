// SPDX-License-Identifier: Apache-2.0
// A service that root has started on the default data directory, and a user
// who may not read that directory: the address is found, the key is asked for
// once. The service runs in a mount namespace in which /run and
// /var/lib/glovebox are its own.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Glovebox, bin, pool, until } from '../../lib/glovebox.mjs';

const root = process.getuid() === 0;
const UID = 65534; // nobody
const KEY = '/var/lib/glovebox/admin.key';
let at; // what the service has for /var/lib/glovebox, and the user's home
let g;

// In the service's namespace, as a user: what `sh` prints.
function as(uid, command, input) {
  return spawnSync('nsenter', ['-t', `${g.pid}`, '-m', 'setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', 'sh', '-c', command],
    { input, encoding: 'utf8', timeout: 60_000, cwd: '/', env: { PATH: `${process.env.PATH}:${join(bin('glovebox'), '..')}`, HOME: uid ? join(at, 'home') : join(at, 'root') } });
}
const user = (command, input) => as(UID, command, input);
const service = (data) => Glovebox.start({ wait: false, config: { pools: [pool()] }, args: ['--data', data],
  under: ['unshare', '-m', '--propagation', 'private', 'sh', '-c',
    `mount -t tmpfs -o mode=0755 tmpfs /run && mkdir -p /var/lib/glovebox && mount --bind ${at}/data /var/lib/glovebox && exec "$@"`, 'sh'] });

before(async () => {
  if (!root) return;
  at = mkdtempSync(join(tmpdir(), 'glovebox-endpoint-'));
  chmodSync(at, 0o755);
  for (const name of ['data', 'home', 'root']) mkdirSync(join(at, name));
  chownSync(join(at, 'home'), UID, UID);
  g = await service('/var/lib/glovebox');
  await until(() => as(0, 'test -s /run/glovebox/endpoint').status === 0, { ms: 20_000, what: 'the address' });
});
after(async () => {
  await g?.stop();
  if (at) rmSync(at, { recursive: true, force: true });
});

test('the address is there for everybody, the key is not', { skip: !root }, async () => {
  assert.match(user('cat /run/glovebox/endpoint').stdout, /^http:\/\/127\.0\.0\.1:\d+\n$/);
  assert.equal(as(0, 'stat -c %a:%F /run/glovebox/endpoint').stdout, '644:regular file\n');
  assert.equal(as(0, 'stat -c %a:%U /run/glovebox').stdout, '755:root\n', 'the folder stays root\'s');
  assert.notEqual(user(`cat ${KEY}`).status, 0);
  assert.notEqual(user('echo x > /run/glovebox/endpoint').status, 0);
  assert.doesNotMatch(user('cat /run/glovebox/*').stdout, /gbx_/);
  const line = /once, to use it without sudo: sudo cat \/var\/lib\/glovebox\/admin\.key \| \S*glovebox login\n/;
  await until(() => line.test(g.log), { what: 'how to log in' });
});

test('without a key the command says how to get one; login needs no address', { skip: !root }, async () => {
  const no = user("glovebox run -c 'print(6 * 7)'");
  assert.equal(no.status, 3, no.stderr);
  assert.match(no.stderr, /the service at http:\/\/127\.0\.0\.1:\d+ needs a key, and you have stored none/);
  assert.match(no.stderr, /Run `sudo cat \/var\/lib\/glovebox\/admin\.key \| glovebox login` once/);
  assert.doesNotMatch(no.stderr, /throwaway/);
  const key = as(0, `cat ${KEY}`).stdout;
  const done = user('glovebox login', key);
  assert.equal(done.status, 0, done.stderr);
  const ran = await until(() => { const r = user("glovebox run -c 'print(6 * 7)'"); return r.status === 0 && r; }, { ms: 60_000, every: 500, what: 'a run' });
  assert.equal(ran.stdout, '42\n');
  assert.equal(user('glovebox whoami').status, 0);
  assert.equal(user('glovebox logout').status, 0);
});

test('a service on another data directory leaves it alone; a stop takes it back', { skip: !root }, async () => {
  const address = as(0, 'cat /run/glovebox/endpoint').stdout;
  const other = join(at, 'other');
  const second = await Glovebox.start({ wait: false, args: ['--data', other], config: { pools: [pool()] },
    under: ['nsenter', '-t', `${g.pid}`, '-m'] });
  try {
    await until(() => /listening on/.test(second.log), { ms: 20_000, what: 'the second service' });
    assert.equal(as(0, 'cat /run/glovebox/endpoint').stdout, address);
  } finally {
    await second.stop();
  }
  assert.equal(as(0, 'cat /run/glovebox/endpoint').stdout, address, 'nor does its end');
  // A namespace outlives its service while somebody is in it.
  const watch = spawnSync('nsenter', ['-t', `${g.pid}`, '-m', 'sh', '-c',
    `kill -TERM ${g.pid}; for i in $(seq 250); do test -s /run/glovebox/endpoint || break; sleep 0.1; done; stat -c %s /run/glovebox/endpoint; setpriv --reuid=${UID} --regid=${UID} --clear-groups env HOME=${at}/home ${bin('glovebox')} whoami`],
  { encoding: 'utf8', timeout: 60_000, cwd: '/' });
  assert.equal(watch.stdout, '0\n', watch.stderr);
  assert.match(watch.stderr, /data directory here that you may not read/);
});
