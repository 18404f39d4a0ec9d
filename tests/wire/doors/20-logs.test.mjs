// SPDX-License-Identifier: Apache-2.0
// O2: whatever is sent in by whichever door, the log, the trail and what is
// sent on to others hold no code, no content of a file, no output and no
// secret. Each kind of thing carries a mark of its own; then all is searched.
import assert from 'node:assert/strict';
import dgram from 'node:dgram';
import { readFileSync, readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { after, before, test } from 'node:test';
import { Pool, requests } from '../../lib/azure.mjs';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool, root, until } from '../../lib/glovebox.mjs';
import { modern, response } from '../../lib/mcp.mjs';
import { Door } from '../../lib/openai.mjs';
import { exchange, request, stop } from '../../lib/wire.mjs';
import { Workspace, form, mint } from '../../lib/workspace.mjs';

const marks = new Map(); // what is looked for, and what it is
const mark = (what) => {
  const text = `MARK${marks.size}x${Math.random().toString(36).slice(2, 12)}`;
  marks.set(text, what);
  return text;
};
const secret = (what, value) => {
  // The part after a prefix that may be told.
  marks.set(value.slice(-24), what);
  return value;
};

let g;
let syslog;
const sent = [];
const log = { text: '' };

before(async () => {
  syslog = dgram.createSocket('udp4');
  syslog.on('message', (m) => sent.push(m.toString('utf8')));
  await new Promise((done) => syslog.bind(0, '127.0.0.1', done));
  g = await Glovebox.start({ config: { log_level: 'debug', audit_syslog: `udp:127.0.0.1:${syslog.address().port}`, pools: [pool({ ready: 1 })] } });
  for (const stream of [g.child.stdout, g.child.stderr]) stream.on('data', (bytes) => { log.text += bytes; });
  secret('the first key', g.key);
});
after(async () => {
  await stop(g);
  syslog.close();
});

const code = (what) => `import sys\nprint("${mark(`output of ${what}`)}"); sys.stderr.write("${mark(`errors of ${what}`)}")\nopen("/mnt/data/f.txt", "w").write("${mark(`content of ${what}`)}")  # ${mark(`code of ${what}`)}\nraise RuntimeError("${mark(`exception of ${what}`)}")`;

async function native() {
  const session = await g.session({ name: mark('a name'), metadata: { note: mark('metadata of a session') } });
  const e = await session.python(code('native'), { metadata: { conversation: mark('a conversation'), prompt: mark('a prompt') } });
  await session.shell(`echo ${mark('a command')} | cat; false`);
  await request(g, 'PUT', `/api/sessions/${session.id}/files/up.txt`, { body: mark('an upload') });
  await request(g, 'POST', '/api/run', { body: { code: code('run'), files: [{ path: 'x', content_base64: Buffer.from(mark('content in base64')).toString('base64') }] } });
  const path = `/api/sessions/${session.id}/executions`;
  // Refusals quote what was wrong; the log must not.
  for (const body of [`{"code": "${mark('half a body')}`, `{"code": 7, "language": "${mark('a wrong language')}"}`, { code: '1', [mark('an unknown field')]: 1 }, { code: `${mark('code that is too late')}`, timeout_s: 1e9 }, { code: '1', retry_of: mark('retry_of') }])
    assert.equal((await request(g, 'POST', path, { body, headers: { 'content-type': 'application/json' } })).status, 400);
  await request(g, 'GET', `/api/pools?${mark('a parameter')}=${mark('its value')}`);
  await request(g, 'GET', `/api/pools/${mark('a path')}`);
  await request(g, 'GET', `/${mark('an unknown path')}`, { headers: { cookie: mark('a cookie'), 'x-other': mark('a header') } });
  await request(g, mark('a method'), '/api/pools');
  await exchange(g, `GET / HTTP/1.1\r\n${mark('a broken request')}\r\n\r\n`);
  return e;
}

async function secrets() {
  const made = await mint(g, ['execute', 'files:read', 'files:write']);
  secret('a minted key', made.secret);
  await request(g, 'GET', '/api/pools', { key: made.secret });
  await request(g, 'GET', '/api/pools', { key: secret('a wrong key', `gbx_${'12ab'.repeat(16)}`) });
  await request(g, 'GET', '/api/pools', { key: secret('a wrong token', `eyJhbGciOiJub25lIn0.${Buffer.from(`{"sub":"${mark('a subject')}"}`).toString('base64url')}.c2lnbmF0dXJl${'Zm9v'.repeat(6)}`) });
  await request(g, 'GET', `/api/pools?key=${made.secret}`);
  await request(g, 'GET', '/api/pools', { headers: { authorization: `Basic ${Buffer.from(`u:${mark('a basic password')}`).toString('base64')}` }, key: null });
  await g.ok('DELETE', `/api/keys/${made.id}`);
  const w = await Workspace.create(g, { name: 'w' });
  await w.write('a.txt', mark('a file of a workspace'));
  await w.call('POST', '/files', form([{ filename: 'b', body: mark('a file of a form') }]));
  const lock = await w.ok('POST', '/locks', { body: { path: 'a.txt' } });
  secret('the token of a lock', lock.token);
  await w.ok('POST', `/locks/${lock.id}/renew`, { body: { token: lock.token } });
  await w.call('DELETE', `/locks/${lock.id}`, { headers: { 'x-glovebox-lock': lock.token } });
  const password = mark('a password');
  const share = (await request(g, 'POST', '/api/shares', { body: { workspace: w.id, path: 'a.txt', password } })).body;
  secret('the secret of a link', share.url.split('/s/')[1]);
  await request(g, 'GET', share.url, { key: null, headers: { 'x-share-password': mark('a wrong password') } });
  await request(g, 'GET', share.url, { key: null, headers: { 'x-share-password': password } });
  const offer = await w.ok('POST', '/offers', { body: {} });
  secret('the token of an offer', offer.token);
  await request(g, 'POST', '/api/workspaces/claim', { body: { token: offer.token.replace(/.$/, '0') } });
  await request(g, 'GET', `/api/search?q=${mark('words of a search')}`);
  // Of those parts that are there.
  const { paths } = (await request(g, 'GET', '/openapi.json', { key: null })).body;
  if (paths['/api/tokens']?.post) {
    const token = await request(g, 'POST', '/api/tokens', { body: { scopes: ['execute'], ttl_s: 60 } });
    for (const value of Object.values(token.body ?? {}).filter((v) => typeof v === 'string' && v.length >= 40)) secret('a short-lived token', value);
  }
  for (const [method, path] of [['PUT', '/api/secrets/{name}'], ['POST', '/api/secrets']])
    if (paths[path]?.[method.toLowerCase()])
      await request(g, method, path.replace('{name}', 'marked'), { body: { name: 'marked', value: mark('a brokered secret'), destinations: ['example.org'], header: 'Authorization' } });
}

async function mcp() {
  const call = async (name, args) => response(await modern(g, 'tools/call', { name, arguments: args }, { path: '/mcp?tools=all' }));
  const ran = await call('execute_python', { code: code('mcp') });
  assert.ok(ran.result, JSON.stringify(ran));
  await call('run_shell', { command: `echo ${mark('a command by mcp')}` });
  await call('upload_file', { path: 'm.txt', content: mark('content by mcp') });
  await call(mark('an unknown tool'), {});
  await call('execute_python', { [mark('an unknown argument')]: 1 });
  await call('search_workspace', { query: mark('a search by mcp') });
}

async function others() {
  const openai = new Door(g);
  const file = await openai.file(Buffer.from(mark('a file of openai')), 'in.txt');
  const container = await openai.container({ name: mark('a container\'s name'), file_ids: [file.id] });
  await request(g, 'POST', `/v1/containers/${container.id}/files`, { body: { file_id: mark('a wrong file') } });
  const talk = (await openai.post('/conversations', { metadata: { k: mark('metadata of a conversation') }, items: [{ role: 'user', content: mark('a message') }] })).body;
  await openai.post(`/conversations/${talk.id}/items`, { items: [{ role: mark('a wrong role'), content: 'x' }] });
  await g.ok('PATCH', `/api/conversations/${talk.id}`, { title: mark('a title') });
  const said = { model: 'echo', store: true, messages: [{ role: 'user', content: `run: print("${mark('code of a model')}")\nsay: ${mark('an answer')}` }], tools: [{ type: 'code_interpreter' }] };
  assert.equal((await openai.post('/chat/completions', said)).status, 200);
  assert.equal((await openai.post('/chat/completions', { ...said, stream: true })).status, 200);
  assert.equal((await openai.delete(`/conversations/${talk.id}`)).status, 200);
  const azure = new Pool(g);
  assert.equal((await azure.run(code('azure'))).status, 200);
  const upload = requests([{ filename: 'z.txt', bytes: Buffer.from(mark('a file of azure')) }]);
  await azure.call('POST', 'files', { body: upload.body, headers: { 'content-type': upload.type } });
  await azure.post('executions', { [mark('an unknown field of azure')]: 1 });
  const cli = new Cli(g);
  try {
    await cli.start(['run', '-c', `print("${mark('code by the command line')}")`]).ended;
  } finally {
    cli.close();
  }
}

const found = (text) => [...marks].filter(([m]) => text.includes(m)).map(([, what]) => what);

test('O2 no code, content, output, prompt or secret is in the log, the trail or what is sent on', async () => {
  const e = await native();
  await secrets();
  await mcp();
  await others();
  await g.ok('POST', '/api/audit/checkpoints');
  assert.ok(marks.size > 50, `${marks.size} marks`);
  // All of it is written.
  const wanted = (await g.ok('GET', '/api/audit?limit=1000')).data;
  await until(() => sent.length >= wanted.length, { what: 'syslog' });
  const get = async (path) => (await request(g, 'GET', path)).text;
  const places = {
    'the log': log.text,
    'the trail': await get('/api/audit?limit=1000'),
    'the export': await get('/api/audit/export'),
    'the export for OpenTelemetry': await get('/api/audit/export?format=otlp'),
    'syslog': sent.join('\n'),
    'the metrics': await get('/metrics'),
    'the list of evidence': await get('/api/evidence'),
  };
  for (const [where, text] of Object.entries(places)) {
    assert.ok(text.length > 500, `${where} holds something`);
    assert.deepEqual(found(text), [], `in ${where}`);
  }
  // The marks can be found where they may be: the evidence holds code and
  // what triggered it, and nothing else of it.
  const page = await get(`/api/executions/${e.id}/evidence`);
  const allowed = /^(code|output|errors|content|exception) of native$|^a prompt$|^a conversation$/; // all in the code's text
  assert.ok(found(page).includes('code of native') && found(page).includes('a prompt'));
  for (const what of found(page)) assert.match(what, allowed);
  const { code_text: _, trigger: __, ...rest } = JSON.parse(page);
  assert.deepEqual(found(JSON.stringify(rest)), []);
});

// The arguments of each call of log_event in the sources, as they are written.
function logCalls(dir) {
  return readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
    const at = join(dir, entry.name);
    if (entry.isDirectory()) return logCalls(at);
    if (!/\.[ch]$/.test(entry.name) || at.includes('base/log.')) return [];
    const text = readFileSync(at, 'utf8').replace(/\/\*[^]*?\*\//g, '');
    return [...text.matchAll(/\blog_event\(/g)].map(({ index }) => {
      const args = [''];
      for (let i = index + 'log_event('.length, depth = 0; depth >= 0; i++) {
        const string = text[i] === '"' && /^"(?:[^"\\]|\\.)*"/.exec(text.slice(i))[0];
        if (string) i += string.length - 1;
        depth += { '(': 1, ')': -1 }[text[i]] ?? 0;
        if (!string && text[i] === ',' && depth === 0) args.push('');
        else if (depth >= 0) args[args.length - 1] += string || text[i];
      }
      return { at: relative(root, at), args: args.map((a) => a.trim()) };
    });
  });
}

test('O2 the log has only fields of a list, and none whose value is somebody\'s text', () => {
  const known = new Set(readFileSync(join(root, 'tests/wire/doors/20-logs.txt'), 'utf8').split('\n').filter((l) => l && !l.startsWith('#')));
  const calls = logCalls(join(root, 'src'));
  assert.ok(calls.length > 40, `${calls.length} calls were read`);
  const used = new Set();
  for (const { at, args } of calls) {
    assert.equal(args.at(-1), 'NULL', `${at}: ${args}`);
    const names = args.slice(2, -1).filter((_, i) => i % 2 === 0).map((a) => /^"(\w+)"$/.exec(a)?.[1] ?? assert.fail(`${at}: ${a} is not a name`));
    for (const name of names) {
      used.add(name);
      assert.ok(known.has(name), `${at}: the field '${name}' is new: is it sure never to hold code, content or a secret? then add it to 20-logs.txt`);
    }
    // These are what clients and sessions write.
    for (const value of args.slice(3).filter((_, i) => i % 2 === 0))
      assert.doesNotMatch(value, /(?<!err)(->|\.)(code|content|metadata|body)\b|\b(secret|password|authorization)\b/, `${at}: ${value}`);
  }
  assert.deepEqual([...known].filter((n) => !used.has(n)), [], 'fields of the list that nobody uses');
});
