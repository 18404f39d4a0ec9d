// SPDX-License-Identifier: Apache-2.0
// The Azure door by its clients: LlamaIndexTS itself, and what each of the
// others puts on the wire, byte for byte, read back the way it reads it.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import net from 'node:net';
import { after, before, describe, test } from 'node:test';
import { aiohttp, arm, chunked, dotnet, poolBody, requests } from '../../lib/azure.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { request, stop } from '../../lib/wire.mjs';

let server;
let host;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 3 })] } });
  host = new URL(server.url).host;
  const made = await request(server, 'PUT', arm('shells'), { body: poolBody({ containerType: 'Shell' }) });
  assert.equal(made.status, 200, made.text);
});
after(() => stop(server));

const ENDPOINT = '/subscriptions/s/resourceGroups/g/sessionPools/default';

// A connection that is kept, as clients keep theirs: request bytes in, the
// one answer out.
class Connection {
  static async open() {
    const c = new Connection();
    const [hostname, port] = host.split(':');
    c.socket = net.connect(Number(port), hostname);
    await new Promise((done, fail) => { c.socket.once('connect', done); c.socket.once('error', fail); });
    return c;
  }

  send(head, body = Buffer.alloc(0)) {
    const lines = [head[0], `Host: ${host}`, `Authorization: Bearer ${server.key}`, ...head.slice(1)];
    return new Promise((done, fail) => {
      let got = Buffer.alloc(0);
      const finish = (value) => { clearTimeout(timer); this.socket.off('data', onData); done(value); };
      const timer = setTimeout(() => fail(new Error(`no answer to ${head[0]}: ${got}`)), 30_000);
      this.socket.once('close', () => clearTimeout(timer));
      const onData = (part) => {
        got = Buffer.concat([got, part]);
        const end = got.indexOf('\r\n\r\n');
        if (end < 0) return;
        const [first, ...rest] = got.subarray(0, end).toString('latin1').split('\r\n');
        const status = Number(first.split(' ')[1]);
        const headers = Object.fromEntries(rest.map((l) => [l.slice(0, l.indexOf(':')).toLowerCase(), l.slice(l.indexOf(':') + 2)]));
        const length = Number(headers['content-length'] ?? 0);
        if (got.length < end + 4 + length) return;
        const bytes = got.subarray(end + 4, end + 4 + length);
        finish({ status, headers, bytes, text: bytes.toString(), get body() { return JSON.parse(bytes); } });
      };
      this.socket.on('data', onData);
      this.socket.write(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), Buffer.from(body)]));
    });
  }

  json(line, value, ...headers) {
    const body = Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
    return this.send([line, 'Content-Type: application/json', `Content-Length: ${body.length}`, ...headers], body);
  }
  close() { this.socket.destroy(); }
}

const through = (name, run) => test(name, async () => {
  const c = await Connection.open();
  try {
    await run(c);
  } finally {
    c.close();
  }
});
const good = (answer) => {
  assert.ok(answer.status >= 200 && answer.status < 300, `${answer.status} ${answer.text}`);
  return answer;
};

describe('LangChain', () => {
  through('Python REPL tool', async (c) => {
    const q = `identifier=${randomUUID()}&api-version=2024-02-02-preview`;
    const agent = 'User-Agent: langchain-azure-dynamic-sessions/0.2.0 (Language=Python)';
    const run = async (code) => good(await c.json(`POST ${ENDPOINT}/code/execute?${q} HTTP/1.1`,
      JSON.stringify({ properties: { codeInputType: 'inline', executionType: 'synchronous', code } }), agent, 'Accept-Encoding: gzip, deflate', 'Accept: */*')).body.properties;
    const { result, stdout, stderr } = await run('1 + 1');
    assert.deepEqual({ result, stdout, stderr }, { result: 2, stdout: '', stderr: '' });
    const form = requests([{ filename: 'test.txt', bytes: 'test content', type: 'application/octet-stream' }]);
    const made = good(await c.send([`POST ${ENDPOINT}/files/upload?${q} HTTP/1.1`, agent, `Content-Length: ${form.body.length}`, `Content-Type: ${form.type}`], form.body)).body;
    assert.deepEqual([made.value[0].properties.filename, made.value[0].properties.size], ['test.txt', 12]);
    assert.equal(good(await c.send([`GET ${ENDPOINT}/files/content/test.txt?${q} HTTP/1.1`, agent])).text, 'test content');
    const sub = requests([{ filename: 'a dir/in ü.txt', bytes: 'deep', type: 'application/octet-stream' }]);
    assert.equal(good(await c.send([`POST ${ENDPOINT}/files/upload?${q} HTTP/1.1`, `Content-Length: ${sub.body.length}`, `Content-Type: ${sub.type}`], sub.body)).body.value[0].properties.filename, 'a dir/in ü.txt');
    assert.equal(good(await c.send([`GET ${ENDPOINT}/files/content/a%20dir/in%20%C3%BC.txt?${q} HTTP/1.1`])).text, 'deep');
    const list = good(await c.send([`GET ${ENDPOINT}/files?${q} HTTP/1.1`])).body.value.map((f) => f.properties);
    assert.deepEqual(list.map((f) => f.filename), ['a dir/in ü.txt', 'test.txt']);
    assert.match((await run('open("/mnt/data/test.txt").read()')).result, /^test content$/);
  });

  through('Bash tool and backend', async (c) => {
    const base = '/sessionPools/shells';
    const id = randomUUID();
    const q = `identifier=${id}&api-version=2025-02-02-preview`;
    const got = good(await c.json(`POST ${base}/executions?${q} HTTP/1.1`, { shellCommand: 'echo hi; false' })).body;
    assert.equal(Number.parseInt(got.status, 10), 1);
    assert.equal(got.result.stdout + got.result.stderr, 'hi\n');
    const form = requests([{ filename: 'b.txt', bytes: 'bash', type: 'application/octet-stream' }]);
    const made = good(await c.send([`POST ${base}/files?${q} HTTP/1.1`, `Content-Length: ${form.body.length}`, `Content-Type: ${form.type}`], form.body)).body;
    assert.deepEqual([made.name, made.sizeInBytes], ['b.txt', 4]);
    assert.deepEqual(good(await c.send([`GET ${base}/files?${q} HTTP/1.1`])).body.value.map((f) => [f.name, f.sizeInBytes]), [['b.txt', 4]]);
    assert.equal(good(await c.send([`GET ${base}/files/b.txt/content?${q} HTTP/1.1`])).text, 'bash');
    assert.equal(good(await c.send([`DELETE ${base}/session?api-version=2025-10-02-preview&identifier=${id} HTTP/1.1`, 'Content-Length: 0'])).status, 204);
  });

  test('JavaScript tool', async () => {
    const url = (path) => `${server.url}${ENDPOINT}/${path}?identifier=${encodeURIComponent('js session!')}&api-version=2024-02-02-preview`;
    const bad = await fetch(url('files'), { headers: { Authorization: `Bearer ${server.key}` } });
    assert.equal(bad.status, 400, 'a blank in the identifier');
    const fine = (path) => url(path).replace('js%20session!', 'js-session!');
    const headers = { Authorization: `Bearer ${server.key}`, 'User-Agent': 'langchain/azure-dynamic-sessions' };
    const executed = await fetch(fine('code/execute'), { method: 'POST', headers: { ...headers, 'Content-Type': 'application/json' },
      body: JSON.stringify({ properties: { codeInputType: 'inline', executionType: 'synchronous', code: '1 + 1' } }) });
    const { result, stdout, stderr } = (await executed.json()).properties;
    assert.deepEqual({ result, stdout, stderr }, { result: 2, stdout: '', stderr: '' });
    const form = new FormData();
    form.append('file', new Blob(['js bytes']), 'from js.txt');
    const made = await (await fetch(fine('files/upload'), { method: 'POST', headers, body: form })).json();
    assert.deepEqual([made.value[0].properties.filename, made.value[0].properties.size], ['from js.txt', 8]);
    assert.equal(await (await fetch(fine('files/content/from js.txt'), { headers })).text(), 'js bytes');
  });
});

describe('LlamaIndex', () => {
  test('LlamaIndexTS itself', async () => {
    const { AzureDynamicSessionTool } = await import('../../clients/azure/node_modules/@llamaindex/azure/dist/index.js');
    const tool = new AzureDynamicSessionTool({ poolManagementEndpoint: `${server.url}${ENDPOINT}`, azureADTokenProvider: async () => server.key, sessionId: 'llama-ts-1' });
    const silent = console.log;
    console.log = () => {}; // it tells all it does
    try {
      assert.deepEqual((({ result, stdout, stderr, status }) => ({ result, stdout, stderr, status }))(await tool.call({ code: 'print("x")\n"done"' })),
        { result: 'done', stdout: 'x\n', stderr: '', status: 'Success' });
      assert.equal((await tool.call({ code: '1 + 1' })).result, 2);
      assert.equal((await tool.call({ code: 'y = 1' })).result, '');
      const failed = await tool.call({ code: '1/0' });
      assert.match(failed.stderr, /Error/, 'it takes the missing result for its own failure');
      const made = await tool.uploadFile({ data: new Blob(['llama']), remoteFilename: 'l.txt' });
      assert.deepEqual([made.filename, made.size], ['l.txt', 5]);
      assert.deepEqual((await tool.listFiles()).map((f) => f.filename), ['l.txt']);
      assert.equal(await new Response(await tool.downloadFile({ remoteFilename: 'l.txt' })).text(), 'llama');
      assert.equal((await tool.call({ code: 'open("/mnt/data/l.txt").read()' })).result, 'llama');
    } finally {
      console.log = silent;
    }
  });

  through('LlamaIndex Python', async (c) => {
    const q = `identifier=${randomUUID()}&api-version=2024-02-02-preview`;
    const got = good(await c.json(`POST ${ENDPOINT}/code/execute?${q} HTTP/1.1`, { properties: { codeInputType: 'inline', executionType: 'synchronous', code: '{"a": 1}' } })).body;
    assert.equal(got.properties.result, "{'a': 1}");
    const form = requests([{ filename: '/mnt/data/ll.csv', bytes: 'a,b', type: 'application/octet-stream' }]);
    assert.equal(good(await c.send([`POST ${ENDPOINT}/files/upload?${q} HTTP/1.1`, `Content-Length: ${form.body.length}`, `Content-Type: ${form.type}`], form.body)).body.value[0].properties.filename, 'll.csv');
    for (const entry of good(await c.send([`GET ${ENDPOINT}/files?${q} HTTP/1.1`])).body.value) assert.ok(entry.properties.filename && entry.properties.size);
  });
});

describe('AutoGen', () => {
  const executed = (answer) => {
    const { status, stderr, stdout, result } = good(answer).body.properties;
    assert.match(status, /Success|Failure/);
    return `${stderr}${stdout}${result}`;
  };

  through('first calls, chunked upload, output to the letter', async (c) => {
    const q = `api-version=2024-02-02-preview&identifier=autogen:${randomUUID()}`;
    const run = (code) => c.json(`POST ${ENDPOINT}/code/execute?${q} HTTP/1.1`, { properties: { codeInputType: 'inline', executionType: 'synchronous', code } }, 'Accept: */*', 'User-Agent: Python/3.12 aiohttp/3.9.5');
    assert.equal(executed(await run("import os\nos.chdir('/mnt/data')")), '');
    assert.equal(executed(await run("import sys; print('hello world!')")), 'hello world!\n');
    assert.equal(executed(await run('a = 100 + 100\nprint(a)')), '200\n');
    const form = aiohttp([{ filename: 'agent.txt', bytes: 'x'.repeat(5000) }]);
    good(await c.send([`POST ${ENDPOINT}/files/upload?${q} HTTP/1.1`, `Content-Type: ${form.type}`, 'Transfer-Encoding: chunked'], chunked(form.body, 4096)));
    assert.deepEqual(good(await c.send([`GET ${ENDPOINT}/files?${q} HTTP/1.1`, 'Content-Type: application/json'])).body.value.map((f) => f.properties.filename), ['agent.txt']);
    assert.equal(good(await c.send([`GET ${ENDPOINT}/files/content/agent.txt?${q} HTTP/1.1`])).bytes.length, 5000);
    assert.equal(executed(await run("print(open('agent.txt').read()[:3])")), 'xxx\n');
    assert.match(executed(await run('import nothing_like_it')), /ModuleNotFoundError/);
  });

  test('it gives up after a second and the session stays usable', async () => {
    const q = `api-version=2024-02-02-preview&identifier=${randomUUID()}`;
    const first = await Connection.open();
    const sent = first.json(`POST ${ENDPOINT}/code/execute?${q} HTTP/1.1`, { properties: { codeInputType: 'inline', executionType: 'synchronous', code: 'import time\ntime.sleep(2)\nprint("late")' } });
    sent.catch(() => {});
    await new Promise((done) => setTimeout(done, 1000));
    first.close();
    const second = await Connection.open();
    assert.equal(executed(await second.json(`POST ${ENDPOINT}/code/execute?${q} HTTP/1.1`, { properties: { code: 'print("next")' } })), 'next\n');
    second.close();
  });
});

describe('Semantic Kernel', () => {
  through('Python: uploads called JSON, names as paths, the old slash', async (c) => {
    const q = `identifier=${randomUUID()}&api-version=2024-02-02-preview`;
    const ran = good(await c.json(`POST ${ENDPOINT}/code/execute/?${q} HTTP/1.1`,
      { properties: { codeInputType: 'inline', executionType: 'synchronous', timeoutInSeconds: 100, code: '2 + 2' } })).body.properties;
    for (const name of ['status', 'result', 'stdout', 'stderr']) assert.ok(name in ran);
    const form = requests([{ filename: '/mnt/data/sk.txt', bytes: 'kernel', type: 'application/octet-stream' }]);
    const made = good(await c.send([`POST ${ENDPOINT}/files/upload?${q} HTTP/1.1`, 'Content-Type: application/json', `Content-Length: ${form.body.length}`], form.body)).body;
    assert.equal(made.value[0].properties.filename, 'sk.txt');
    const files = good(await c.send([`GET ${ENDPOINT}/files?${q} HTTP/1.1`])).body.value.map((f) => `/mnt/data/${f.properties.filename}`);
    assert.ok(files.includes('/mnt/data/sk.txt'));
    assert.equal(good(await c.send([`GET ${ENDPOINT}/files/content/sk.txt?${q} HTTP/1.1`])).text, 'kernel');
  });

  through('.NET', async (c) => {
    const q = `identifier=${randomUUID()}&api-version=2024-10-02-preview`;
    const agent = 'User-Agent: Semantic-Kernel/1.30.0 (Language=dotnet)';
    const ran = good(await c.json(`POST ${ENDPOINT}/executions?${q} HTTP/1.1`, { codeInputType: 'Inline', executionType: 'Synchronous', timeoutInSeconds: 100, code: "print('x')\n'text'" }, agent)).body;
    assert.deepEqual([ran.status, ran.result.stdout, ran.result.executionResult], ['Succeeded', 'x\n', 'text']);
    const form = dotnet([{ filename: 'net file.txt', ascii: '"net file.txt"', bytes: 'dotnet' }]);
    const made = good(await c.send([`POST ${ENDPOINT}/files?${q} HTTP/1.1`, agent, `Content-Type: ${form.type}`, `Content-Length: ${form.body.length}`], form.body)).body;
    for (const name of ['name', 'type', 'lastModifiedAt']) assert.ok(made[name], name);
    assert.deepEqual([made.name, made.sizeInBytes], ['net file.txt', 6]);
    assert.equal(good(await c.send([`GET ${ENDPOINT}/files/net%20file.txt/content?${q} HTTP/1.1`, agent])).text, 'dotnet');
    good(await c.json(`POST ${ENDPOINT}/executions?${q} HTTP/1.1`, { codeInputType: 'Inline', executionType: 'Synchronous', code: "import os; os.makedirs('/mnt/data/d'); open('/mnt/data/d/x', 'w').write('1')" }));
    assert.equal(good(await c.send([`GET ${ENDPOINT}/files/d%2Fx/content?${q} HTTP/1.1`])).text, '1');
    assert.deepEqual(good(await c.send([`GET ${ENDPOINT}/files?${q} HTTP/1.1`])).body.value.map((f) => f.name), ['d', 'net file.txt']);
  });
});

describe('Azure CLI', () => {
  for (const version of ['2024-10-02-preview', '2025-10-02-preview'])
    through(`files and code, ${version}`, async (c) => {
      const q = `identifier=cli-${version}&api-version=${version}`;
      const ran = await c.json(`POST ${ENDPOINT}/executions?${q} HTTP/1.1`, { codeInputType: 'inline', executionType: 'synchronous', code: "print('cli')", timeoutInSeconds: 60 });
      assert.notEqual(ran.status, 201);
      assert.deepEqual([good(ran).body.status, ran.body.result.stdout, ran.body.executionType], ['Succeeded', 'cli\n', 'synchronous']);
      const form = requests([{ filename: 'cli.txt', bytes: 'azure' }]); // no type of the part
      assert.equal(good(await c.send([`POST ${ENDPOINT}/files?${q}&path=/ HTTP/1.1`, `Content-Type: ${form.type}`, `Content-Length: ${form.body.length}`], form.body)).body.name, 'cli.txt');
      assert.deepEqual(good(await c.send([`GET ${ENDPOINT}/files?${q}&path= HTTP/1.1`])).body.value.map((f) => f.name), ['cli.txt']);
      assert.equal(good(await c.send([`GET ${ENDPOINT}/files/cli.txt?${q}&path=/ HTTP/1.1`])).body.name, 'cli.txt');
      assert.equal(good(await c.send([`GET ${ENDPOINT}/files/cli.txt/content?${q}&path=/ HTTP/1.1`])).text, 'azure');
      const gone = await c.send([`DELETE ${ENDPOINT}/files/cli.txt?${q}&path=/ HTTP/1.1`, 'Content-Length: 0']);
      assert.deepEqual([gone.status, gone.text], [204, '']);
    });

  through('the version before', async (c) => {
    const q = 'identifier=cli-old1&api-version=2024-02-02-preview';
    const ran = good(await c.json(`POST ${ENDPOINT}/code/execute?${q} HTTP/1.1`, { properties: { codeInputType: 'inline', executionType: 'synchronous', code: 'print(1)', timeoutInSeconds: 60 } }));
    assert.equal(ran.body.properties.stdout, '1\n');
  });
});
