// SPDX-License-Identifier: Apache-2.0
// A runtime of one's own: a folder that adds to `minimal` a package, files, a
// wheel and an npm package. Built for real into a cache of its own, shown,
// used by a service, and exchanged for a newer one while that service runs.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, bin, pool, root, until } from '../../lib/glovebox.mjs';
import { checkSpdx } from '../../lib/spdx.mjs';

const top = mkdtempSync(join(tmpdir(), 'glovebox-runtimes-'));
const cache = join(top, 'cache');
const defs = join(root, 'runtimes');
const mine = join(top, 'mine');
const BUILD = { timeout: 600_000 };

function glovebox(args, { env = {} } = {}) {
  const out = spawnSync(bin('glovebox'), ['runtime', ...args, '--defs', defs, '--cache', cache],
    { encoding: 'utf8', timeout: 540_000, env: { PATH: process.env.PATH, HOME: top, ...env } });
  return { code: out.status, stdout: out.stdout, stderr: out.stderr };
}

function show(name) {
  const out = glovebox(['show', name, '--json']);
  assert.equal(out.code, 0, out.stderr);
  return JSON.parse(out.stdout);
}

// The smallest wheel there is: one module and its record.
function makeWheel(folder, name, version, text) {
  const program = `
import sys, zipfile
folder, name, version, text = sys.argv[1:]
info = f"{name}-{version}.dist-info"
with zipfile.ZipFile(f"{folder}/{name}-{version}-py3-none-any.whl", "w") as z:
    z.writestr(f"{name}.py", text)
    z.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
    z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    z.writestr(f"{info}/RECORD", f"{name}.py,,\\n{info}/METADATA,,\\n{info}/WHEEL,,\\n{info}/RECORD,,\\n")
`;
  const out = spawnSync('python3', ['-c', program, folder, name, version, text], { encoding: 'utf8' });
  assert.equal(out.status, 0, out.stderr);
}

function define(folder, definition) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'runtime.yaml'), JSON.stringify(definition)); // JSON is YAML
}

// An archive of one package, signed by a key of its own: what Debian's
// security archive is when it has a fix. Returns apt's settings of a machine
// that uses that archive beside Debian's. apt names a source only when it has
// the machine's own release from there, so the archive has that one, too.
function securityArchive(folder, control, script) {
  const program = `
set -eu
cd "$1"
arch=$(dpkg --print-architecture)
. /etc/os-release
mkdir -m 700 keys
mkdir -p tree/DEBIAN tree/usr/bin pool lists/partial
printf '%s' "$2" | sed "s/@ARCH@/$arch/" >tree/DEBIAN/control
printf '%s' "$3" >tree/usr/bin/bc
chmod 755 tree/usr/bin/bc
dpkg-deb --root-owner-group -b tree pool/bc.deb >/dev/null
export GNUPGHOME=$1/keys
gpg --batch --quiet --passphrase '' --quick-generate-key test@glovebox.invalid ed25519 sign
gpg --batch --export >key.gpg
for suite in "$VERSION_CODENAME-security" trixie-security; do
  packages=main/binary-$arch/Packages
  mkdir -p "dists/$suite/main/binary-$arch"
  dpkg-scanpackages --multiversion pool >"dists/$suite/$packages" 2>/dev/null
  (
    cd "dists/$suite"
    printf 'Origin: Debian\\nLabel: Debian-Security\\nSuite: %s\\nCodename: %s\\n' $suite $suite
    printf 'Date: %s\\nArchitectures: %s\\nComponents: main\\nSHA256:\\n' "$(date -Ru)" "$arch"
    printf ' %s %s %s\\n' "$(sha256sum <$packages | cut -d ' ' -f 1)" "$(stat -c %s $packages)" $packages
  ) | gpg --batch --quiet --clearsign -o "dists/$suite/InRelease"
done
gpgconf --kill all
uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)
printf 'deb [signed-by=%s] %s %s main\\n' /usr/share/keyrings/debian-archive-keyring.gpg "$uri" "$VERSION_CODENAME" >debian.list
printf 'deb [signed-by=%s] copy:%s %s-security main\\n' "$1/key.gpg" "$1" "$VERSION_CODENAME" >fix.list
cat debian.list fix.list >all.list
find /var/lib/apt/lists -maxdepth 1 -type f ! -name lock -exec cp -t lists {} +
printf 'Dir::Etc::sourcelist "%s";\\nDir::Etc::sourceparts "%s";\\nDir::State::lists "%s";\\n' "$1/all.list" "$1/none" "$1/lists" >apt.conf
APT_CONFIG=$1/apt.conf apt-get -q update -o Dir::Etc::sourcelist="$1/fix.list" -o APT::Get::List-Cleanup=0 -o APT::Sandbox::User=root
`;
  mkdirSync(folder, { mode: 0o755 });
  const out = spawnSync('bash', ['-c', program, 'bash', folder, control, script], { encoding: 'utf8' });
  assert.equal(out.status, 0, out.stdout + out.stderr);
  return { APT_CONFIG: join(folder, 'apt.conf') };
}

before(() => {
  // The base is the one that every suite uses; only its files are read.
  const base = JSON.parse(spawnSync(bin('glovebox'), ['runtime', 'show', 'minimal', '--json', '--defs', defs],
    { encoding: 'utf8' }).stdout);
  assert.ok(base.built, 'the runtime minimal is built');
  mkdirSync(cache, { mode: 0o755 });
  spawnSync('chmod', ['755', top]);
  symlinkSync(base.image, join(cache, `minimal-${base.hash}`));
});

after(() => rmSync(top, { recursive: true, force: true }));

describe('a runtime from a folder', () => {
  before(() => {
    define(mine, {
      description: 'a test',
      from: 'minimal',
      packages: ['bc', { name: 'no-such-package', optional: true }],
      pip: ['tinywheel', { name: 'no-such-wheel', optional: true }],
      wheels: 'wheels',
      npm: ['./tool'],
      preload: ['colorsys', { name: 'no_such_module', optional: true }],
      environment: ['MINE=yes'],
      files: [
        { path: '/etc/mine', content: 'one\ntwo \\n\n' },
        { path: '/usr/local/bin/mine', source: 'mine.sh', mode: '755' },
      ],
    });
    mkdirSync(join(mine, 'wheels'));
    makeWheel(join(mine, 'wheels'), 'tinywheel', '1.2', 'answer = 42\n');
    mkdirSync(join(mine, 'tool'));
    writeFileSync(join(mine, 'tool', 'package.json'), '{"name": "tool", "version": "3.4.5", "main": "index.js"}');
    writeFileSync(join(mine, 'tool', 'index.js'), 'module.exports = 7;\n');
    writeFileSync(join(mine, 'mine.sh'), '#!/bin/sh\necho mine: $1\n');
  });

  test('build shows progress and ends with an image', BUILD, () => {
    const out = glovebox(['build', mine]);
    assert.equal(out.code, 0, out.stderr);
    assert.match(out.stderr, /mine: building from minimal-[0-9a-f]{16}/);
    assert.match(out.stderr, /mine: \d+%/);
    assert.match(out.stderr, /mine: built in \d+ s/);
    assert.match(out.stderr, /left out +no-such-package/);
    assert.match(glovebox(['build', 'mine']).stderr, /already built/);
  });

  test('show tells what is in it and what was left out', () => {
    const mineNow = show('mine');
    const { manifest } = mineNow;
    const names = (items) => items.map(({ name }) => name);
    assert.equal(mineNow.from, 'minimal');
    assert.deepEqual(names(manifest.missing.packages), ['no-such-package']);
    assert.deepEqual(names(manifest.missing.pip), ['no-such-wheel']);
    assert.deepEqual(names(manifest.missing.modules), ['no_such_module']);
    assert.ok(manifest.distributions.some(({ name, version }) => name === 'tinywheel' && version === '1.2'));
    assert.deepEqual(manifest.npm, [{ name: 'tool', version: '3.4.5' }]);
    const text = glovebox(['show', 'mine']).stdout;
    assert.match(text, /contains +\d+ Python distributions and \d+ type stubs/);
    assert.match(text, /open CVEs +unknown/);
    assert.match(text, /SBOM +\S+sbom\.spdx\.json/);
    assert.match(text, /left out +no-such-package \(/);
  });

  test('its SBOM is valid SPDX 2.3 and names every kind of part', () => {
    const sbom = JSON.parse(readFileSync(show('mine').sbom, 'utf8'));
    checkSpdx(sbom);
    const purls = sbom.packages.map((p) => p.externalRefs[0].referenceLocator);
    for (const part of [/^pkg:deb\/debian\/bc@/, /^pkg:pypi\/tinywheel@1\.2$/, /^pkg:npm\/tool@3\.4\.5$/])
      assert.ok(purls.some((purl) => part.test(purl)), String(part));
    assert.equal(sbom.packages.length, 1 + show('mine').manifest.packages_installed + 2);
  });

  test('update --check reads the security tracker\'s data', BUILD, () => {
    const data = join(top, 'tracker.json');
    const release = (status, fixed, urgency = 'high') => ({ releases: { trixie: { status, fixed_version: fixed, urgency } } });
    writeFileSync(data, JSON.stringify({
      bc: { 'CVE-2099-0001': release('open'), 'CVE-2099-0002': release('resolved', '0.1'),
        'CVE-2099-0003': release('resolved', '999:1'), 'CVE-2099-0004': release('open', undefined, 'unimportant') },
      'not-installed': { 'CVE-2099-0005': release('open') },
    }));
    const out = glovebox(['update', 'mine', '--check', '--security-data', data]);
    assert.equal(out.code, 0, out.stderr);
    assert.match(out.stdout, /open CVEs +2\n/);
    assert.deepEqual(show('mine').security.open.map(({ id, fixed }) => [id, fixed]),
      [['CVE-2099-0001', null], ['CVE-2099-0003', '999:1']]);
    const bad = glovebox(['update', 'mine', '--check'], { env: { GLOVEBOX_SECURITY_DATA: join(top, 'nowhere') } });
    assert.notEqual(bad.code, 0);
    assert.match(bad.stderr, /cannot read/);
  });

  test('sessions use it, and a newer image without a stop', BUILD, async () => {
    // The tracker's data of the case before closes the gate.
    const server = await Glovebox.start({ config: { runtime_defs: defs, runtime_dir: cache, accept_gate: 'images',
      pools: [pool({ runtime: 'mine', ready: 1 })] } });
    try {
      const old = await server.session();
      const facts = await old.out(`
import os, subprocess, sys, tinywheel
run = lambda *a: subprocess.run(a, capture_output=True, text=True, input='6*7\\n').stdout
print(run('bc'), run('mine', 'x'), open('/etc/mine').read(), tinywheel.answer, os.environ['MINE'],
      'colorsys' in sys.modules, os.path.exists('/usr/local/lib/node_modules/tool/index.js'), sep='|')`);
      assert.equal(facts, '42\n|mine: x\n|one\ntwo \\n\n|42|yes|True|True');
      const stamp = async (s) => s.out('import os; print(os.stat("/etc/mine").st_mtime_ns)');
      const first = await stamp(old);

      const child = spawn(bin('glovebox'), ['runtime', 'build', 'mine', '--force', '--defs', defs, '--cache', cache],
        { stdio: 'ignore' });
      const built = new Promise((done) => child.on('exit', done));
      assert.equal(await stamp(old), first); // the service answers meanwhile
      assert.equal(await built, 0);
      assert.match(basename(show('mine').image), /^mine-[0-9a-f]{16}-2$/);

      await until(async () => {
        const fresh = await server.session();
        return await stamp(fresh) !== first;
      }, { ms: 60_000, every: 1000, what: 'a session of the new image' });
      assert.equal(await stamp(old), first); // running sessions keep theirs
      assert.match(server.log, /runtime_changed/);
      assert.equal((await fetch(`${server.url}/readyz`)).status, 200);
      assert.equal(server.exit, undefined);
    } finally {
      await server.stop();
    }
    const stale = glovebox(['delete', 'mine', '--stale']);
    assert.match(stale.stderr, /removed 1 image of mine/);
    assert.ok(existsSync(show('mine').image));
  });

  test('update applies a fix of the security archive while sessions run, and opens the gate', BUILD, async () => {
    const env = securityArchive(join(top, 'archive'),
      'Package: bc\nVersion: 99.1\nArchitecture: @ARCH@\nMaintainer: Test <test@glovebox.invalid>\nDescription: a fix\n',
      '#!/bin/sh\necho fixed\n');
    const look = glovebox(['update', 'mine', '--check'], { env });
    assert.equal(look.code, 0, look.stderr);
    assert.match(look.stdout, /upgrades +1, 1 of them for security/);
    const [fix] = show('mine').security.upgrades;
    assert.deepEqual([fix.package, fix.available, fix.security], ['bc', '99.1', true]);

    const server = await Glovebox.start({ config: { runtime_defs: defs, runtime_dir: cache, accept_gate: 'images',
      pools: [pool({ runtime: 'mine', ready: 1 })] } });
    try {
      const images = async () => (await server.ok('GET', '/api/posture')).gate.checks.find(({ name }) => name === 'images');
      assert.notEqual((await images()).state, 'ok');
      const bc = (s) => s.out('import subprocess; print(subprocess.run(["bc"], input="6*7\\n", capture_output=True, text=True).stdout)');
      const old = await server.session();
      await old.out('kept = 42');
      assert.equal(await bc(old), '42');
      const child = spawn(bin('glovebox'), ['runtime', 'update', 'mine', '--defs', defs, '--cache', cache],
        { stdio: 'ignore', env: { PATH: process.env.PATH, HOME: top, ...env } });
      const updated = new Promise((done) => child.on('exit', done));
      assert.equal(await old.out('print(kept)'), '42', 'it runs meanwhile');
      assert.equal(await updated, 0);
      await until(async () => {
        const fresh = await server.session();
        return await bc(fresh) === 'fixed';
      }, { ms: 60_000, every: 1000, what: 'a session with the fix' });
      assert.deepEqual([await bc(old), await old.out('print(kept)')], ['42', '42'], 'running sessions keep their image and state');
      await until(async () => (await images()).state === 'ok', { ms: 60_000, what: 'the gate' });
    } finally {
      await server.stop();
    }
    const now = show('mine');
    assert.deepEqual(now.security.upgrades, []);
    const sbom = JSON.parse(readFileSync(now.sbom, 'utf8'));
    assert.ok(sbom.packages.some((p) => /^pkg:deb\/debian\/bc@99\.1/.test(p.externalRefs[0].referenceLocator)), 'the SBOM names the fix');
    const disk = Number(spawnSync('du', ['-sxB1', join(now.image, 'root')], { encoding: 'utf8' }).stdout.split('\t')[0]);
    assert.ok(Math.abs(now.manifest.size_bytes - disk) < 0.1 * disk, `size: ${now.manifest.size_bytes}, on disk ${disk}`);
  });
});

describe('what a build refuses', () => {
  test('a package that does not exist fails the build and is named', BUILD, () => {
    define(join(top, 'broken'), { from: 'minimal', packages: ['no-such-package', 'nor-this-one'] });
    const out = glovebox(['build', join(top, 'broken')]);
    assert.equal(out.code, 3, out.stderr);
    assert.match(out.stderr, /not available: no-such-package nor-this-one/);
    assert.match(out.stderr, /optional: true/);
    assert.equal(show('broken').built, false);
    assert.ok(existsSync(join(cache, 'failed-broken.log')));
    assert.deepEqual(readdirSync(cache).filter((n) => n.startsWith('.build.')), []);
  });

  test('a module to preload that cannot be imported fails the build', BUILD, () => {
    define(join(top, 'unloadable'), { from: 'minimal', preload: ['no_such_module'] });
    const out = glovebox(['build', join(top, 'unloadable')]);
    assert.equal(out.code, 3, out.stderr);
    assert.match(out.stderr, /no_such_module/);
  });

  test('folders that are no definitions', () => {
    mkdirSync(join(top, 'empty'));
    assert.match(glovebox(['build', join(top, 'empty')]).stderr, /no runtime\.yaml/);
    assert.match(glovebox(['build', join(top, 'nowhere')]).stderr, /cannot open/);
    define(join(top, 'Upper'), { from: 'minimal' });
    assert.match(glovebox(['build', join(top, 'Upper')]).stderr, /named like its folder/);
    define(join(top, 'x', 'minimal'), { from: 'standard' });
    assert.match(glovebox(['build', join(top, 'x', 'minimal')]).stderr, /Rename the folder/);
  });
});
