// SPDX-License-Identifier: Apache-2.0
// URLs in answers are absolute: they begin with the address the request was
// sent to, with what a trusted proxy says, or with public_url. A Host that is
// none is not repeated, and none is stored.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { Stream, request, stop } from '../../lib/wire.mjs';
import { TASKS, modern, result } from '../../lib/mcp.mjs';
import { Tools } from '../../lib/mcp-tools.mjs';

const pools = [pool({ ready: 0 })];

// Every URL that this file's requests cause, with the headers of a client.
async function urls(g, headers = {}) {
  const ask = async (method, path, body) => {
    const answer = await request(g, method, path, { body, headers });
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${answer.text}`);
    return answer.body;
  };
  const ws = (await ask('POST', '/api/workspaces', { name: `urls-${Math.random()}` })).id;
  const put = await ask('PUT', `/api/workspaces/${ws}/files/d/a.txt`, Buffer.from('alpha'));
  const share = await ask('POST', '/api/shares', { workspace: ws, path: 'd/' });
  const secret = share.url.split('/s/')[1];
  return {
    put: put.url,
    listed: (await ask('GET', `/api/workspaces/${ws}/files`)).data[0].url,
    info: (await ask('GET', `/api/workspaces/${ws}/info/d/a.txt`)).url,
    history: (await ask('GET', `/api/workspaces/${ws}/history`)).data[0].url,
    moved: (await ask('POST', `/api/workspaces/${ws}/move`, { from: 'd/a.txt', to: 'd/b.txt' })).changes[0].url,
    share: share.url,
    visited: (await request(g, 'GET', `/s/${secret}`, { key: null, headers })).body.data[0].url,
  };
}
const allBegin = (found, with_) => {
  for (const [what, url] of Object.entries(found)) assert.ok(url.startsWith(`${with_}/`), `${what}: ${url}`);
};

const assertNowhere = (g, text) => {
  for (const entry of readdirSync(join(g.dir, 'data'), { recursive: true, withFileTypes: true }).filter((e) => e.isFile()))
    assert.equal(readFileSync(join(entry.parentPath, entry.name)).includes(text), false, entry.name);
};

describe('without a setting', () => {
  let g;
  before(async () => { g = await Glovebox.start({ config: { pools } }); });
  after(() => stop(g));

  test('URLs begin with the address the client used, and can be fetched as they are', async () => {
    const found = await urls(g);
    allBegin(found, g.url);
    for (const [what, url] of Object.entries(found)) {
      const headers = what === 'visited' || what === 'share' ? {} : { authorization: `Bearer ${g.key}` };
      assert.equal((await fetch(url, { headers })).status, 200, what);
    }
    allBegin(await urls(g, { host: 'glovebox.example:81' }), 'http://glovebox.example:81');
  });

  test('executions have them, in the answer and in the stream', async () => {
    const session = (await g.ok('POST', '/api/sessions', {})).id;
    const code = "open('/mnt/data/x.txt', 'w').write('1')";
    const run = await g.ok('POST', `/api/sessions/${session}/executions`, { code });
    assert.ok(run.files.created[0].url.startsWith(`${g.url}/api/files/`));
    const stream = await Stream.open(g, 'POST', `/api/sessions/${session}/executions`,
      { body: { code: code.replace('x.txt', 'y.txt'), mode: 'stream' }, headers: { host: 'other.example' } });
    const done = (await stream.done()).data;
    assert.ok(done.files.created[0].url.startsWith('http://other.example/api/files/'));
  });

  test('MCP tools have them', async () => {
    const t = new Tools(g, { conversation: 'urls' });
    const made = await t.ok('upload_file', { path: 'a.txt', text: 'alpha' });
    assert.ok(made.data.file.url.startsWith(`${g.url}/api/files/`));
    assert.ok((await t.ok('list_files')).data.files[0].url.startsWith(g.url));
    const share = await t.ok('share_file', { path: 'a.txt' });
    assert.ok(share.data.url.startsWith(`${g.url}/s/`) && share.text.includes(share.data.url));
    assert.equal(await (await fetch(share.data.url)).text(), 'alpha');
  });

  test('what is no host is not repeated, a proxy is not believed, and nothing is stored', async () => {
    for (const host of ['evil.example/x', 'a"b', 'me@evil.example', 'evil.example:0', 'evil.example:99999', 'e vil', '<b>']) {
      const answer = await request(g, 'POST', '/api/workspaces', { body: { name: `h${Math.random()}` }, headers: { host } });
      if (answer.status === 400) continue; // refused before it got here
      allBegin(await urls(g, { host }), 'http://127.0.0.1');
    }
    allBegin(await urls(g, { 'x-forwarded-host': 'proxy.example', 'x-forwarded-proto': 'https' }), g.url);
    await urls(g, { host: 'stored-nowhere.example' });
    assertNowhere(g, 'stored-nowhere');
  });
});

test('I9 behind a proxy that is trusted, URLs begin as it says', async () => {
  const g = await Glovebox.start({ config: { pools, trust_proxy: true } });
  try {
    allBegin(await urls(g, { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'box.example:8443' }), 'https://box.example:8443');
    allBegin(await urls(g, { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'box.example, inner.example' }), 'https://box.example');
    allBegin(await urls(g, { 'x-forwarded-host': 'not a host/' }), g.url);
    allBegin(await urls(g, { 'x-forwarded-proto': 'gopher' }), g.url);
    allBegin(await urls(g), g.url);
  } finally {
    await g.stop();
  }
});

test('public_url is what they all begin with, whatever the request says', async () => {
  const g = await Glovebox.start({ config: { pools, public_url: 'https://box.example/at/', trust_proxy: true } });
  try {
    allBegin(await urls(g, { host: 'other.example', 'x-forwarded-host': 'third.example' }), 'https://box.example/at');
    const t = new Tools(g, { conversation: 'urls' });
    const { url } = (await t.ok('upload_file', { path: 'a.txt', text: 'alpha' })).data.file;
    assert.ok(url.startsWith('https://box.example/at/api/files/'));
    await t.ok('upload_file', { path: 'b.txt', url });
    // A proxy may forward the name to /mcp, where others are refused (M1).
    for (const [host, status] of [['box.example', 200], ['127.0.0.1', 200], ['box.example.evil', 403], ['evil.example', 403]]) {
      const answer = await request(g, 'POST', '/mcp', { headers: { host, accept: 'application/json, text/event-stream' },
        body: { jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } } } });
      assert.equal(answer.status, status, host);
    }
  } finally {
    await g.stop();
  }
});

test('a public_url that is none stops the start', async () => {
  for (const bad of ['box.example', 'ftp://box.example', 'https://me@box.example', 'https://box.example?x', 'https://box.example:0']) {
    const g = await Glovebox.start({ config: { pools, public_url: bad }, wait: false });
    try {
      await g.exited;
      assert.equal(g.exit.code, 2, bad);
      assert.match(g.log, /public_url.*is not the beginning of a URL/);
    } finally {
      await g.stop();
    }
  }
});

test('the result of a task is stored without the address, and read with that of the reader', async () => {
  const config = { pools, trust_proxy: true };
  let g = await Glovebox.start({ config });
  try {
    const at = (host) => ({ capabilities: { extensions: { [TASKS]: {} } }, headers: { 'x-forwarded-host': host } });
    const code = "import time\ntime.sleep(6)\nopen('/mnt/data/x.txt', 'w').write('1')";
    const { taskId } = await result(modern(g, 'tools/call', { name: 'execute_python', arguments: { code } }, at('stored-nowhere.example')));
    const look = (host) => result(modern(g, 'tasks/get', { taskId }, at(host)));
    await until(async () => (await look('a.example')).status === 'completed', { ms: 30_000, what: 'the end of the task' });
    await g.stop({ keep: true });
    assertNowhere(g, 'stored-nowhere');
    g = await Glovebox.start({ dir: g.dir, config });
    const kept = await look('reader.example');
    assert.equal(kept.status, 'completed');
    assert.ok(kept.result.structuredContent.files[0].url.startsWith('http://reader.example/api/files/'), kept.result.structuredContent.files[0].url);
    assert.ok(kept.result._meta.files[0].url.startsWith('http://reader.example/api/files/'));
  } finally {
    await g.stop();
  }
});
