// SPDX-License-Identifier: Apache-2.0
// Which service the command line talks to when one exists but cannot be
// reached or verified: none. It never runs code in a throwaway service
// instead, and says what to do. With a certificate it is told to trust, or
// with that of the service in the data directory, everything works.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, unlinkSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { X509Certificate } from 'node:crypto';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, allProcesses, pool, root, until } from '../../lib/glovebox.mjs';
import { Bridge } from '../../lib/mcp-stdio.mjs';
import { stop } from '../../lib/wire.mjs';

const dir = mkdtempSync(join(tmpdir(), 'glovebox-cli-tls-'));
const at = (name) => join(dir, name);
process.on('exit', () => rmSync(dir, { recursive: true, force: true }));

function certificate(name, names = 'IP:127.0.0.1') {
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
    '-keyout', at(`${name}.key`), '-out', at(`${name}.pem`), '-subj', `/CN=${name}`, '-addext', `subjectAltName=${names}`],
  { stdio: 'ignore' });
  chmodSync(at(`${name}.key`), 0o600);
}

// Ready as soon as its address is written; requests wait for sandboxes.
async function start(config) {
  const g = await Glovebox.start({ config: { pools: [pool()], ...config }, wait: false });
  const file = join(g.dir, 'data', 'endpoint');
  await until(() => g.exit || existsSync(file), { ms: 20_000, what: 'endpoint' });
  assert.equal(g.exit, undefined, g.log);
  g.url = readFileSync(file, 'utf8').trim();
  g.key = readFileSync(join(g.dir, 'data', 'admin.key'), 'utf8').trim();
  return g;
}

const daemons = () => allProcesses().filter(({ name, zombie }) => name === 'gloveboxd' && !zombie).map(({ pid }) => pid)
  .filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('embedded.yaml') && readFileSync(`/proc/${pid}/environ`, 'utf8').includes(dir);
    } catch {
      return false;
    }
  });

// Every command class of the program; none may run anything.
const LINES = [['run', '-c', 'print(1)'], ['shell'], ['run', '-s', 'x', '-c', '1'], ['sessions'], ['files', 'ls', 'x'], ['verify'],
  ['audit'], ['backup', '/nowhere'], ['key', 'list'], ['doctor', '--gate'], ['scorecard']];

async function allRefuse(cli, pattern, env) {
  for (const line of LINES) {
    const { stdout, stderr } = await cli.exits(3, line, { env });
    assert.equal(stdout, '', line.join(' '));
    assert.match(stderr, pattern, line.join(' '));
    assert.doesNotMatch(stderr, /throwaway service \(/);
  }
  assert.deepEqual(daemons(), []);
}

// The bridge stays up for its host and answers each request with the reason.
async function mcpRefuses(cli, pattern, env) {
  const bridge = new Bridge(cli, { env });
  const answer = await bridge.ask('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'x', version: '1' } });
  assert.match(answer.error.message, pattern);
  assert.equal((await bridge.end()).status, 0);
  assert.doesNotMatch(bridge.stderr, /started a service/);
}

describe('a self-signed certificate', () => {
  let g, cli, data;

  before(async () => {
    certificate('good');
    certificate('other');
    g = await start({ tls_certificate: at('good.pem'), tls_key: at('good.key') });
    cli = new Cli(undefined, { GLOVEBOX_MARK: dir });
    data = join(g.dir, 'data');
  });
  after(() => { cli.close(); return stop(g); });

  const byUrl = (extra = {}) => ({ GLOVEBOX_URL: g.url, GLOVEBOX_KEY: g.key, ...extra });

  test('that is not trusted: every command fails, runs nothing, and names --cacert', async () => {
    await allRefuse(cli, /certificate of https:\S+ cannot be verified[^]*--cacert/, byUrl());
    const bad = await cli.error(['run', '-c', '1'], { env: byUrl() });
    assert.deepEqual([bad.code, /--cacert/.test(bad.hint)], ['unavailable', true]);
    await mcpRefuses(cli, /cannot be verified/, byUrl());
  });

  test('with another certificate as authority: the same', async () => {
    await allRefuse(cli, /cannot be verified[^]*--cacert/, byUrl({ GLOVEBOX_CACERT: at('other.pem') }));
    await cli.exits(3, ['run', '--cacert', at('other.pem'), '-c', '1'], { env: byUrl({ SSL_CERT_FILE: at('good.pem') }) });
    await cli.exits(3, ['run', '-c', '1'], { env: byUrl({ SSL_CERT_FILE: at('other.pem') }) });
  });

  test('a file of certificates that is not there is named', async () => {
    assert.match((await cli.exits(3, ['sessions', '--cacert', at('none.pem')], { env: byUrl() })).stderr, /cannot read the certificates in .*none\.pem/);
  });

  test('--cacert, GLOVEBOX_CACERT and SSL_CERT_FILE are honoured', async () => {
    assert.equal((await cli.ok(['run', '--cacert', at('good.pem'), '-c', 'print(6 * 7)'], { env: byUrl() })).stdout, '42\n');
    assert.equal((await cli.ok(['run', '-c', 'print(6 * 7)'], { env: byUrl({ GLOVEBOX_CACERT: at('good.pem') }) })).stdout, '42\n');
    assert.equal((await cli.ok(['run', '-c', 'print(6 * 7)'], { env: byUrl({ SSL_CERT_FILE: at('good.pem') }) })).stdout, '42\n');
    await cli.ok(['doctor', '--gate'], { env: byUrl({ SSL_CERT_FILE: at('good.pem') }) });
  });

  test('the service in the data directory is known by its key', async () => {
    const env = { GLOVEBOX_DATA_DIR: data };
    const done = await cli.ok(['run', '-c', 'print(6 * 7)'], { env });
    assert.deepEqual([done.stdout, done.stderr], ['42\n', '']);
    assert.match(readFileSync(join(data, 'endpoint.pin'), 'utf8'), /^sha256\/\/[A-Za-z0-9+/]{43}=\n$/);
    assert.equal(statSync(join(data, 'endpoint.pin')).mode & 0o777, 0o600);
  });

  test('what has another key at that address is refused, and so is one without a pin', async () => {
    const copy = join(dir, 'copied');
    const env = { GLOVEBOX_DATA_DIR: copy };
    mkdirSync(copy, { mode: 0o700 });
    writeFileSync(join(copy, 'endpoint'), `${g.url}\n`);
    writeFileSync(join(copy, 'endpoint.pin'), `sha256//${Buffer.alloc(32, 7).toString('base64')}\n`);
    await allRefuse(cli, /is not the service that wrote[^]*another key[^]*glovebox serve/, env);
    await mcpRefuses(cli, /another key/, env);
    unlinkSync(join(copy, 'endpoint.pin'));
    await allRefuse(cli, /cannot be verified[^]*--cacert/, env);
    await cli.exits(3, ['sessions', '--cacert', at('other.pem')], { env: { GLOVEBOX_DATA_DIR: data } });
  });
});

describe('an address that does not answer', () => {
  let cli, data, env;

  before(() => {
    cli = new Cli(undefined, { GLOVEBOX_MARK: dir });
    data = join(cli.dir, 'data');
    mkdirSync(data, { mode: 0o700 });
    env = { GLOVEBOX_DATA_DIR: data };
  });
  after(() => cli.close());

  test('left behind in the data directory: every command fails and says how to start it', async () => {
    writeFileSync(join(data, 'endpoint'), 'http://127.0.0.1:9\n');
    await allRefuse(cli, /does not answer[^]*glovebox serve/, env);
    assert.match((await cli.exits(3, ['run', '-c', '1'], { env })).stderr, /--embedded/);
    for (const [text, why] of [['', /no running service was found on/], ['junk\n', /not an http or https address/]]) {
      writeFileSync(join(data, 'endpoint'), text);
      assert.match((await cli.exits(3, ['run', '-c', '1'], { env })).stderr, why);
    }
  });

  test('named by the caller: the same', async () => {
    await allRefuse(cli, /cannot reach http:\S+[^]*GLOVEBOX_URL/, { GLOVEBOX_URL: 'http://127.0.0.1:9' });
  });

  test('a data directory without an address is a service that is stopped', async () => {
    unlinkSync(join(data, 'endpoint'));
    writeFileSync(join(data, 'glovebox.db'), '');
    await allRefuse(cli, /no running service was found on the data directory[^]*glovebox serve/, env);
    assert.match((await cli.exits(3, ['run', '--data', join(cli.dir, 'typo'), '-c', '1'])).stderr, /on the data directory .*typo/);
  });

  test('a data directory of somebody else is not passed over', async () => {
    chmodSync(cli.dir, 0o755);
    const home = join(cli.dir, 'theirs');
    mkdirSync(home, { mode: 0o755 });
    const under = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'];
    const { stderr } = await cli.exits(3, ['run', '-c', '1'], { env: { ...env, HOME: home }, cwd: '/', under });
    assert.match(stderr, /may not read[^]*GLOVEBOX_URL/);
  });

  test('without either, doctor --gate and scorecard still do not start a service', async () => {
    const none = { GLOVEBOX_DATA_DIR: join(cli.dir, 'none') };
    for (const line of [['doctor', '--gate'], ['scorecard']]) {
      assert.match((await cli.exits(3, line, { env: none })).stderr, /no running service was found[^]*glovebox serve/);
      await cli.exits(2, [...line, '--embedded'], { env: none });
    }
    assert.deepEqual(daemons(), []);
  });
});

describe('tls: auto', () => {
  let g, cli, data;

  before(async () => {
    g = await start({ tls: 'auto' });
    cli = new Cli();
    data = join(g.dir, 'data');
  });
  after(() => { cli.close(); return stop(g); });

  const ask = (url, options) => new Promise((done, fail) => {
    https.get(`${url}/healthz`, { agent: false, ...options }, (response) => { response.resume(); done(response.statusCode); }).on('error', fail);
  });
  const ca = () => readFileSync(join(data, 'tls', 'ca.pem'));

  test('the local command line needs no flag', async () => {
    assert.match(g.url, /^https:/);
    const done = await cli.ok(['run', '-c', 'print(6 * 7)'], { env: { GLOVEBOX_DATA_DIR: data } });
    assert.deepEqual([done.stdout, done.stderr], ['42\n', '']);
    await cli.ok(['doctor', '--gate'], { env: { GLOVEBOX_DATA_DIR: data } });
    assert.match(g.log, /clients must trust .*tls\/ca\.pem/);
  });

  test('a client needs the authority, and then any of its names will do', async () => {
    const port = new URL(g.url).port;
    await assert.rejects(ask(g.url, {}), /self-signed|unable to (verify|get)/);
    assert.equal(await ask(g.url, { ca: ca() }), 200);
    assert.equal(await ask(`https://localhost:${port}`, { ca: ca(), family: 4 }), 200);
    for (const name of ['localhost', hostname()])
      assert.equal(await ask(g.url, { ca: ca(), servername: name, headers: { host: name } }), 200);
    const env = { GLOVEBOX_URL: g.url, GLOVEBOX_KEY: g.key };
    assert.match((await cli.exits(3, ['sessions'], { env })).stderr, /tls\/ca\.pem/);
    await cli.ok(['sessions', '--cacert', join(data, 'tls', 'ca.pem')], { env });
  });

  test('a client of Azure sessions runs code over https with NODE_EXTRA_CA_CERTS, and not without', async () => {
    const client = join(root, 'tests/clients/azure/node_modules/@llamaindex/azure/dist/index.js');
    const code = `import { AzureDynamicSessionTool } from ${JSON.stringify(client)};
      console.log = () => {};
      const tool = new AzureDynamicSessionTool({ poolManagementEndpoint: '${g.url}/pools/default', sessionId: 'tls-1',
        azureADTokenProvider: async () => process.env.GLOVEBOX_KEY });
      process.stdout.write(JSON.stringify(await tool.call({ code: 'print("x")\\n6 * 7' })));`;
    const run = async (env) => {
      const child = spawn(process.execPath, ['--input-type=module', '-e', code], { env: { PATH: process.env.PATH, GLOVEBOX_KEY: g.key, ...env } });
      let out = '';
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes) => { out += bytes; });
      await new Promise((done) => child.on('close', done));
      return out;
    };
    assert.match(await run({ NODE_EXTRA_CA_CERTS: join(data, 'tls', 'ca.pem') }), /"result":42,.*"stdout":"x\\n"|"stdout":"x\\n".*"result":42/);
    assert.doesNotMatch(await run({}), /"result":42/);
  });

  test('the certificates are what strict clients want, and keys are for the service alone', () => {
    const server = new X509Certificate(readFileSync(join(data, 'tls', 'server.pem')));
    const authority = new X509Certificate(ca());
    assert.ok(authority.ca && !server.ca && server.verify(authority.publicKey) && server.checkIssued(authority));
    for (const name of ['DNS:localhost', 'IP Address:127.0.0.1', 'IP Address:0:0:0:0:0:0:0:1', `DNS:${hostname()}`])
      assert.ok(server.subjectAltName.split(', ').includes(name), `${name} in ${server.subjectAltName}`);
    const days = (Date.parse(server.validTo) - Date.now()) / 86_400_000;
    assert.ok(days > 700 && days < 825, `${days} days`);
    assert.equal(execFileSync('openssl', ['verify', '-x509_strict', '-CAfile', join(data, 'tls', 'ca.pem'), join(data, 'tls', 'server.pem')], { encoding: 'utf8' }).trim().slice(-2), 'OK');
    for (const name of ['ca.key', 'server.key']) assert.equal(statSync(join(data, 'tls', name)).mode & 0o777, 0o600);
    assert.equal(statSync(join(data, 'tls')).mode & 0o777, 0o700);
    assert.ok(!existsSync(join(data, 'tls', 'server.pem.new')));
  });

  const files = () => Object.fromEntries(['ca.key', 'ca.pem', 'server.key', 'server.pem'].map((name) => [name, readFileSync(join(data, 'tls', name), 'utf8')]));
  const again = async (config = {}) => {
    await g.stop({ keep: true });
    const next = await Glovebox.start({ dir: g.dir, config: { tls: 'auto', pools: [pool()], ...config }, wait: false });
    await until(() => next.exit || existsSync(join(data, 'endpoint')), { ms: 20_000, what: 'endpoint' });
    g = next;
    if (!g.exit) g.url = readFileSync(join(data, 'endpoint'), 'utf8').trim();
    return g;
  };

  test('a restart changes none of them; a certificate that is old is made anew with the same keys', async () => {
    const first = files();
    await again();
    assert.deepEqual(files(), first);
    // The same certificate with half of its time gone.
    const old = { ca: join(data, 'tls', 'ca.pem'), key: join(data, 'tls', 'ca.key') };
    execFileSync('openssl', ['req', '-new', '-key', join(data, 'tls', 'server.key'), '-subj', '/CN=old', '-out', at('old.csr')], { stdio: 'ignore' });
    writeFileSync(at('ext'), 'subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\n');
    execFileSync('openssl', ['x509', '-req', '-in', at('old.csr'), '-CA', old.ca, '-CAkey', old.key, '-CAcreateserial', '-CAserial', at('serial'), '-days', '300',
      '-extfile', at('ext'), '-out', join(data, 'tls', 'server.pem')], { stdio: 'ignore' });
    await again();
    const second = files();
    assert.notEqual(second['server.pem'], first['server.pem']);
    for (const name of ['ca.key', 'ca.pem', 'server.key']) assert.equal(second[name], first[name], name);
    assert.equal(await ask(g.url, { ca: first['ca.pem'] }), 200);
  });

  test('D11 a damaged or missing key stops the start and is not replaced', async () => {
    const good = files();
    const path = (name) => join(data, 'tls', name);
    for (const [name, text, message] of [['server.key', 'junk', /server\.key holds no private key/], ['ca.pem', 'junk', /ca\.pem holds no certificate/]]) {
      writeFileSync(path(name), text);
      await again();
      assert.notEqual((await g.exited).code, 0);
      assert.match(g.log, message);
      assert.equal(readFileSync(path(name), 'utf8'), text);
      writeFileSync(path(name), good[name]);
    }
    // The authority's key is needed only to issue; without it nothing is made up.
    renameSync(path('ca.key'), path('away'));
    await again();
    assert.equal(g.exit, undefined, g.log);
    unlinkSync(path('server.pem'));
    await again();
    assert.notEqual((await g.exited).code, 0);
    assert.match(g.log, /ca\.key is missing/);
    assert.ok(!existsSync(path('ca.key')));
    renameSync(path('away'), path('ca.key'));
    await again();
    assert.equal(g.exit, undefined, g.log);
    assert.equal(await ask(g.url, { ca: good['ca.pem'] }), 200);
  });

  test('it does not go with a certificate of the operator', async () => {
    const both = await Glovebox.start({ config: { tls: 'auto', tls_certificate: at('good.pem'), tls_key: at('good.key') }, wait: false });
    assert.notEqual((await both.exited).code, 0);
    assert.match(both.log, /tls: auto makes its own certificate/);
    await both.stop();
  });
});
