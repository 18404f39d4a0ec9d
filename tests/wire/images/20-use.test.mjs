// SPDX-License-Identifier: Apache-2.0
// Imported images at work: one with Python, whose sessions are clones of it;
// one without, which runs commands; and both as pools of the Azure door.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, bin, pool } from '../../lib/glovebox.mjs';
import { asFile, asFolder, docker, oci, tar } from '../../lib/image.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';

// The image of `minimal`, which is made of Debian packages, as a container
// image would have it: without what we put there.
const places = process.env.GLOVEBOX_RUNTIME_DIR ?? '/var/cache/glovebox/runtimes';
const minimal = readdirSync(places).find((n) => /^minimal-[0-9a-f]+$/.test(n));

let dir;
let cache;
let server;
let s;
let shells;

before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'glovebox-images-'));
  chmodSync(dir, 0o755); // the service user must get through
  cache = join(dir, 'cache');
  const made = spawnSync('tar', ['-C', join(places, minimal, 'root'), '--exclude=./opt/glovebox', '--exclude=./usr/share/doc', '--exclude=./usr/share/locale',
    '-cf', join(dir, 'root.tar'), '.'], { encoding: 'utf8' });
  assert.equal(made.status, 0, made.stderr);
  const base = { tar: readFileSync(join(dir, 'root.tar')) };
  const bare = { tar: tar([{ name: 'usr/bin/.wh.python3' }, { name: 'usr/bin/.wh.python3.13' }, { name: 'srv/hello', body: 'from the image' }]) };
  const sources = { withpython: asFolder(join(dir, 'oci'), oci([base])), plain: asFile(join(dir, 'docker.tar'), docker([base, bare])) };
  for (const [name, at] of Object.entries(sources)) {
    const done = spawnSync(bin('glovebox'), ['runtime', 'import', at, '--name', name, '--cache', cache], { encoding: 'utf8' });
    assert.equal(done.status, 0, done.stderr);
    rmSync(at, { recursive: true });
  }
  server = await Glovebox.start({ config: { runtime_dir: cache, pools: [pool({ runtime: 'withpython' }), pool({ name: 'commands', runtime: 'plain' })] } });
  s = await server.session();
  shells = await server.session({ pool: 'commands' });
});
after(async () => {
  await stop(server);
  rmSync(dir, { recursive: true, force: true });
});

describe('an image with Python', () => {
  test('is a runtime like others: state, files, shell', async () => {
    assert.equal((await s.python('x = 40; x + 2')).result['text/plain'], '42');
    const e = await s.python('import os, sys; open("made", "w").write("1"); (x, sys.executable, os.environ["GREETING"], os.environ["HOME"])');
    assert.equal(e.result['text/plain'], "(40, '/usr/bin/python3.13', 'hello there', '/home/user')");
    assert.deepEqual(e.files.created.map(({ path }) => path), ['made']);
    assert.equal((await s.shell('echo $GREETING; id -un')).stdout, 'hello there\nuser\n');
    const rt = await server.ok('GET', '/api/runtimes/withpython');
    assert.deepEqual([rt.mode, rt.languages, rt.python], ['zygote', ['python', 'shell'], '3.13']);
    assert.match(rt.image, /^sha256:[0-9a-f]{64}$/);
  });

  test('C3 F1: its files are nobody\'s to change, and no program raises privilege', async () => {
    const e = await s.shell('touch /etc/x; echo $?; find / -xdev -perm /6000 2>/dev/null | wc -l; grep NoNewPrivs /proc/self/status');
    assert.match(e.stdout, /^1\n0\nNoNewPrivs:\s+1/);
  });
});

describe('an image without Python', () => {
  test('runs commands with their state and keeps files', async () => {
    const rt = await server.ok('GET', '/api/runtimes/plain');
    assert.deepEqual([rt.mode, rt.languages, rt.python], ['exec', ['shell'], null]);
    assert.equal((await shells.shell('cat /srv/hello; cd /tmp; v=kept; echo made > /mnt/data/f')).stdout, 'from the image');
    const e = await shells.shell('echo $v $PWD $GREETING; cat /proc/1/comm; exit 3');
    assert.equal(e.stdout, 'kept /tmp hello there\nglovebox-init\n');
    assert.equal(e.exit_code, 3);
    assert.equal((await shells.read('f')).text, 'made\n');
  });

  test('refuses Python with the reason, and time and memory limits hold', async () => {
    const answer = await request(server, 'POST', `${shells.path}/executions`, { body: { language: 'python', code: '1' } });
    refused(answer, 400, 'unsupported', /the runtime 'plain' cannot run Python: it has no python3; it offers shell.*the runtime withpython/s);
    const slow = await shells.shell('sleep 100', { timeout_s: 5 });
    assert.equal(slow.outcome, 'timeout');
    assert.equal((await shells.shell('echo still; echo $v')).stdout, 'still\nkept\n');
    await server.ok('POST', `${shells.path}/reset`);
    assert.equal((await shells.shell('echo "[$v]"')).stdout, '[]\n');
  });

  test('C1 C3 C5: the same walls stand around its commands', async () => {
    const e = await shells.shell('grep -E "CapEff|CapBnd|Seccomp:|NoNewPrivs" /proc/self/status; ls /proc | grep -c "^[0-9]"; cat /opt/glovebox/lib/glovebox-init >/dev/null; cat /proc/1/environ; (echo > /dev/tcp/1.1.1.1/80) 2>&1 | head -1; touch /usr/x');
    assert.match(e.stdout, /CapEff:\t0{16}\nCapBnd:\t0{16}\nNoNewPrivs:\t1\nSeccomp:\t2/);
    assert.doesNotMatch(e.stdout, /PATH=/);
    assert.match(e.stderr + e.stdout, /Permission denied|No such file/);
    assert.match(e.stderr + e.stdout, /Network is unreachable|unreachable|refused|denied/i);
    assert.match(e.stderr, /Read-only file system|Permission denied/);
  });
});

describe('Azure: CustomContainer', () => {
  const arm = '/subscriptions/s/resourceGroups/g/providers/Microsoft.App/sessionPools/mine?api-version=2025-02-02-preview';
  const body = (image) => ({ location: 'x', properties: { containerType: 'CustomContainer', poolManagementType: 'Dynamic',
    customContainerTemplate: { containers: [{ name: 'c', image }] }, scaleConfiguration: { maxConcurrentSessions: 5, readySessionInstances: 0 },
    dynamicPoolConfiguration: { lifecycleConfiguration: { lifecycleType: 'Timed', cooldownPeriodInSeconds: 300 } } } });

  test('a pool names an imported image and runs code and commands in it', async () => {
    const made = await server.call('PUT', arm, body('registry.example/team/withpython:1.2'));
    assert.ok([200, 201].includes(made.status), made.text);
    assert.equal(made.body.properties.containerType, 'CustomContainer');
    assert.equal(made.body.properties.customContainerTemplate.containers[0].image, 'registry.example/team/withpython:1.2');
    const at = '/sessionPools/mine/executions?api-version=2025-10-02-preview&identifier=user-1';
    assert.equal((await server.ok('POST', at, { code: '6*7' })).result.executionResult, 42);
    const command = await server.ok('POST', at, { shellCommand: 'echo $GREETING' });
    assert.deepEqual([command.status, command.result.stdout], ['0', 'hello there\n']);
  });

  test('an image that was not imported is refused', async () => {
    const answer = await server.call('PUT', arm.replace('/mine', '/other'), body('nothing:1'));
    assert.equal(answer.status, 400);
    assert.match(answer.text, /no image was imported under that name/);
    const none = await server.call('PUT', arm.replace('/mine', '/other'), { properties: { containerType: 'NodeLTS', customContainerTemplate: { containers: [{ image: 'plain' }] } } });
    assert.equal(none.status, 400);
  });

  test('an image that no configured pool has can be imported and used without a restart', async () => {
    const base = asFolder(join(dir, 'late'), oci([{ tar: readFileSync(join(dir, 'root.tar')) }]));
    const done = spawnSync(bin('glovebox'), ['runtime', 'import', base, '--name', 'late', '--cache', cache], { encoding: 'utf8' });
    assert.equal(done.status, 0, done.stderr);
    const made = await server.call('PUT', arm.replace('/mine', '/late'), body('late'));
    assert.ok([200, 201].includes(made.status), made.text);
    const run = await server.ok('POST', '/sessionPools/late/executions?api-version=2025-10-02-preview&identifier=user-1', { code: '1+1' });
    assert.equal(run.result.executionResult, 2);
  });
});
