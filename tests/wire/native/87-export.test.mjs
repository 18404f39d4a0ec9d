// SPDX-License-Identifier: Apache-2.0
// The trail for others: exports that prove themselves, signed checkpoints,
// and events that are sent on as they come. The syslog socket and the
// collector are ours and stand in for real ones.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash, createPublicKey, verify } from 'node:crypto';
import dgram from 'node:dgram';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { restarted } from '../../lib/ledger.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';
import { Workspace, conforms, mint, openapi } from '../../lib/workspace.mjs';

const config = { pools: [pool({ ready: 0 })] };
const FIELDS = ['tenant', 'actor', 'action', 'workspace', 'object', 'path', 'before', 'after', 'result', 'detail', 'request', 'source', 'token'];
let server;
let token; // of the server's own key
let theirs; // an auditor of another tenant

before(async () => {
  server = await Glovebox.start({ config });
  const boss = await mint(server, ['admin'], { tenant: 'other' });
  theirs = (await mint(server, ['audit:read'], { tenant: 'other' })).secret;
  const mine = await Workspace.create(server, { name: 'mine' });
  const other = await Workspace.create(server, {}, boss.secret);
  for (const name of ['a "quoted" ü.txt', 'b']) {
    await mine.write(name, 'x');
    await other.write(name, 'x');
  }
  const minted = await request(server, 'POST', '/api/tokens', { body: { ttl_s: 600 } });
  assert.equal(minted.status, 201, minted.text);
  token = minted.body;
  assert.equal((await mine.as(token.secret).put('by-token', 'x')).status, 201);
});
after(() => stop(server));

const exported = async (query = '', key) => {
  const got = await request(server, 'GET', `/api/audit/export${query}`, { key });
  assert.equal(got.status, 200, got.text);
  assert.equal(got.headers['content-type'], 'application/x-ndjson');
  return got.text.split('\n').filter(Boolean).map((line) => JSON.parse(line));
};

// As docs/AUDIT.md says it; nothing of the product is used here.
const number = (n) => { const b = Buffer.alloc(8); b.writeBigUInt64BE(BigInt(n)); return b; };
function chainHash(e) {
  const parts = [Buffer.from('glovebox audit chain 1\0'), Buffer.from(e.chain_previous, 'hex'), number(e.chain_seq), number(e.at_ms)];
  for (const field of FIELDS) {
    if (field === 'token' && !e.token) continue;
    const text = Buffer.from(e[field] ?? '');
    parts.push(number(text.length), text);
  }
  return createHash('sha256').update(Buffer.concat(parts)).digest('hex');
}
const signed = (c, pem) => verify(null, Buffer.from(`glovebox audit checkpoint 1\n${c.tenant}\n${c.seq}\n${c.hash}\n${c.at_ms}\n`),
  createPublicKey(pem), Buffer.from(c.signature, 'hex'));

describe('exports', () => {
  test('O1 say by which token an act was done, and it is found by that and by its key', async () => {
    const by = async (actor) => (await request(server, 'GET', `/api/audit?limit=1000&actor=${actor}`)).body.data;
    const [act] = (await exported()).filter((e) => e.path === 'by-token');
    assert.equal(act.token, token.id);
    assert.deepEqual((await by(token.id)).map((e) => e.seq), [act.seq]);
    assert.ok((await by(act.actor)).some((e) => e.seq === act.seq));
    assert.ok((await by(act.actor)).some((e) => e.token === null), 'and what the key itself did');
    const run = await request(server, 'POST', '/api/run', { body: { code: 'print(1)' }, key: token.secret });
    assert.equal(run.body.outcome, 'ok', run.text);
    const page = await until(async () => { const got = await request(server, 'GET', `/api/executions/${run.body.id}/evidence`); return got.status === 200 && got.body; }, { what: 'the evidence' });
    assert.deepEqual([page.who.key, page.who.token], [act.actor, token.id]);
    await until(async () => (await by(token.id)).some((e) => e.object === run.body.id && e.action === 'execution.run'), { what: 'the run in the trail' });
    for (const e of await exported()) assert.doesNotMatch(JSON.stringify(e), new RegExp(token.secret.slice(4)));
  });

  test('O1 JSON Lines hold every event, and each tenant\'s chain can be computed from them', async () => {
    const events = await exported();
    const listed = (await request(server, 'GET', '/api/audit?limit=1000')).body.data;
    assert.deepEqual(events.slice(0, listed.length).map((e) => e.hash), listed.map((e) => e.hash));
    const last = {};
    for (const e of events) {
      assert.equal(e.chain_hash, chainHash(e));
      assert.equal(e.chain_previous, last[e.tenant]?.chain_hash ?? '0'.repeat(64));
      assert.equal(e.chain_seq, (last[e.tenant]?.chain_seq ?? 0) + 1);
      assert.equal(Date.parse(e.at), e.at_ms);
      last[e.tenant] = e;
    }
    assert.ok(last.default && last.other);
  });

  test('I3 a tenant exports and verifies its own chain, and sees nothing else', async () => {
    const events = await exported('', theirs);
    assert.ok(events.length >= 3 && events.every((e) => e.tenant === 'other'));
    refused(await request(server, 'GET', '/api/audit/export?tenant=default', { key: theirs }), 403, 'forbidden');
    refused(await request(server, 'POST', '/api/audit/verify?tenant=default', { key: theirs }), 403, 'forbidden');
    refused(await request(server, 'GET', '/api/audit/checkpoints?tenant=default', { key: theirs }), 403, 'forbidden');
    const report = (await request(server, 'POST', '/api/audit/verify', { key: theirs })).body;
    assert.deepEqual([report.ok, report.tenant, report.events], [true, 'other', events.length]);
    const weak = await mint(server, ['execute', 'files:read', 'files:write']);
    for (const [method, path] of [['GET', 'export'], ['GET', 'key'], ['GET', 'checkpoints'], ['POST', 'checkpoints'], ['POST', 'verify']])
      refused(await request(server, method, `/api/audit/${path}`, { key: weak.secret }), 403, 'forbidden', /audit:read/);
    // Only an administrator of the operators' tenant sees all.
    const narrow = (await mint(server, ['audit:read'])).secret;
    assert.ok((await exported('', narrow)).every((e) => e.tenant === 'default'));
  });

  test('by time, after a number, so many', async () => {
    const all = await exported();
    assert.deepEqual((await exported(`?after=${all[1].seq}&limit=2`)).map((e) => e.seq), [all[2].seq, all[3].seq]);
    assert.deepEqual(await exported('?from=2100-01-01'), []);
    assert.ok((await exported('?from=2020-01-01&to=2100-01-01')).length >= all.length);
    for (const bad of ['format=xml', 'limit=0', 'after=-1', 'from=x', 'nope=1']) refused(await request(server, 'GET', `/api/audit/export?${bad}`), 400);
  });

  test('OpenTelemetry logs as its protocol has them in JSON', async () => {
    const [one] = await exported('?format=otlp');
    const { resource, scopeLogs: [{ scope, logRecords }] } = one.resourceLogs[0];
    assert.deepEqual(resource.attributes[0], { key: 'service.name', value: { stringValue: 'glovebox' } });
    assert.equal(scope.name, 'glovebox.audit');
    const put = logRecords.find((r) => r.eventName === 'file.put');
    assert.match(put.timeUnixNano, /^\d{13}000000$/);
    assert.deepEqual([put.severityNumber, put.severityText, put.body.stringValue], [9, 'INFO', 'file.put ok']);
    const attributes = Object.fromEntries(put.attributes.map(({ key, value }) => [key, value]));
    assert.match(attributes['glovebox.audit.seq'].intValue, /^\d+$/);
    assert.equal(attributes['glovebox.audit.path'].stringValue, 'a "quoted" ü.txt');
  });
});

test('O1 checkpoints are signed under a public key, and prove what came before', async () => {
  const doc = await openapi(server);
  const key = (await request(server, 'GET', '/api/audit/key', { key: theirs })).body;
  assert.match(key.public_key, /^-----BEGIN PUBLIC KEY-----/);
  const raw = createPublicKey(key.public_key).export({ format: 'der', type: 'spki' }).subarray(-32);
  assert.equal(key.id, `akey_${createHash('sha256').update(raw).digest('hex').slice(0, 32)}`);
  const made = await request(server, 'POST', '/api/audit/checkpoints', { key: theirs });
  assert.equal(made.status, 201, made.text);
  conforms(doc, 'POST', '/api/audit/checkpoints', made);
  const c = made.body;
  assert.deepEqual([c.tenant, c.key, signed(c, key.public_key)], ['other', key.id, true]);
  assert.equal(signed({ ...c, seq: c.seq + 1 }, key.public_key), false);
  const events = await exported('', theirs);
  assert.equal(events.find((e) => e.chain_seq === c.seq).chain_hash, c.hash);
  assert.equal(events.at(-1).action, 'audit.checkpoint');
  const got = await request(server, 'GET', '/api/audit/checkpoints', { key: theirs });
  conforms(doc, 'GET', '/api/audit/checkpoints', got);
  assert.deepEqual(got.body.data.at(-1), c);
  const same = (await request(server, 'POST', '/api/audit/checkpoints', { key: theirs })).body;
  assert.deepEqual(same, c, 'nothing new to sign');
  assert.equal((await request(server, 'POST', '/api/audit/verify', { key: theirs })).body.ok, true);
});

// ---- sent on as they come ---------------------------------------------------

const acts = async (g, prefix) => {
  for (let i = 0; i < 3; i++) await g.ok('POST', '/api/workspaces', { name: `${prefix}${i}` });
};
const created = (g) => g.ok('GET', '/api/audit?action=workspace.create&limit=1000').then((l) => l.data.map((e) => e.object));

// A fake syslog: datagrams on loopback, or of a unix socket by Python.
const udpSyslog = () => new Promise((done) => {
  const socket = dgram.createSocket('udp4');
  const lines = [];
  socket.on('message', (m) => lines.push(m.toString('utf8')));
  socket.bind(0, '127.0.0.1', () => done({ lines, target: `udp:127.0.0.1:${socket.address().port}`, close: () => socket.close() }));
});
const unixSyslog = async (dir) => {
  const path = join(dir, 'log');
  const child = spawn('python3', ['-c', `
import os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o777); print("bound", flush=True)
while True: print(s.recv(65536).decode(), flush=True)`, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  const lines = [];
  createInterface({ input: child.stdout }).on('line', (l) => lines.push(l));
  await until(() => lines[0] === 'bound', { what: 'the fake syslog' });
  lines.shift();
  return { lines, target: `unix:${path}`, close: () => child.kill() };
};

// A fake collector that fails as long as it is told to.
const collector = () => new Promise((done) => {
  const c = { records: [], refuse: 0, requests: 0 };
  const s = http.createServer((req, res) => {
    let text = '';
    req.on('data', (part) => { text += part; });
    req.on('end', () => {
      c.requests++;
      if (c.refuse > 0) { c.refuse--; res.writeHead(503).end(); return; }
      assert.deepEqual([req.method, req.url, req.headers['content-type']], ['POST', '/v1/logs', 'application/json']);
      c.records.push(...JSON.parse(text).resourceLogs.flatMap((r) => r.scopeLogs.flatMap((l) => l.logRecords)));
      res.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  });
  s.listen(0, '127.0.0.1', () => done(Object.assign(c, { url: `http://127.0.0.1:${s.address().port}/v1/logs`,
    close: () => { s.closeAllConnections(); s.close(); } })));
});
const attribute = (record, name) => {
  const value = record.attributes.find((a) => a.key === `glovebox.audit.${name}`)?.value;
  return value?.stringValue ?? value?.intValue;
};

test('syslog by a socket of loopback gets every event once, in order, as RFC 5424 has it', async () => {
  const log = await udpSyslog();
  const g = await Glovebox.start({ config: { ...config, audit_syslog: log.target } });
  try {
    await acts(g, 'udp "]\\');
    await until(() => log.lines.length >= 3, { what: 'three lines' });
    const ids = log.lines.filter((l) => l.includes('workspace.create')).map((l) => /object="(ws_\w+)"/.exec(l)[1]);
    assert.deepEqual(ids, await created(g));
    for (const line of log.lines)
      assert.match(line, /^<1(08|10)>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \S+ glovebox - \S{1,32} \[glovebox@32473 seq="\d+"( \w+="([^"\\\]]|\\["\\\]])*")+\] \S+ \S+$/u);
    const sequence = log.lines.map((l) => Number(/seq="(\d+)"/.exec(l)[1]));
    assert.deepEqual(sequence, [...sequence].sort((a, b) => a - b));
  } finally {
    await stop(g);
    log.close();
  }
});

test('syslog by a unix socket that comes late: nothing is lost', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'glovebox-syslog-'));
  chmodSync(dir, 0o755);
  const g = await Glovebox.start({ config: { ...config, audit_syslog: `unix:${dir}/log` } });
  let log;
  try {
    await acts(g, 'late');
    await until(() => g.log.includes('audit_events_not_sent'), { what: 'the complaint' });
    log = await unixSyslog(dir);
    await until(() => log.lines.length >= 3, { ms: 20_000, what: 'three lines' });
    assert.deepEqual(log.lines.map((l) => /object="(ws_\w+)"/.exec(l)?.[1]).filter(Boolean), await created(g));
    await until(() => g.log.includes('audit_events_sent_again'), { what: 'the end of it in the log' });
  } finally {
    await stop(g);
    log?.close();
    rmSync(dir, { recursive: true, force: true });
  }
});

test('a collector that refuses, and one that is away over a restart, gets every event at least once', async () => {
  const c = await collector();
  const options = { config: { ...config, audit_otlp_url: c.url } };
  let g = await Glovebox.start(options);
  try {
    c.refuse = 2;
    await acts(g, 'first');
    await until(() => c.records.length >= 3, { ms: 20_000, what: 'three records' });
    assert.ok(c.requests >= 3, 'it was refused before');
    c.refuse = Infinity;
    await acts(g, 'second');
    await until(() => c.refuse !== Infinity || c.requests > 3);
    await g.stop({ keep: true });
    c.refuse = 0;
    g = await restarted(g, options);
    await acts(g, 'third');
    const got = () => new Set(c.records.map((r) => attribute(r, 'object')));
    const wanted = await created(g);
    assert.equal(wanted.length, 9);
    await until(() => wanted.every((id) => got().has(id)), { ms: 20_000, what: 'all nine' });
    const first = c.records.filter((r) => r.eventName === 'workspace.create').map((r) => attribute(r, 'object'));
    assert.deepEqual([...new Set(first)], wanted, 'in order');
    assert.ok(c.records.every((r) => /^[0-9a-f]{64}$/.test(attribute(r, 'chain_hash'))));
  } finally {
    await stop(g);
    c.close();
  }
});

test('nothing is sent elsewhere than was said: places that would be read by others are refused', async () => {
  for (const bad of [{ audit_syslog: 'udp:10.0.0.1:514' }, { audit_syslog: 'tcp:127.0.0.1:514' }, { audit_otlp_url: 'http://collector.example/v1/logs' }, { audit_otlp_url: 'ftp://127.0.0.1/' }]) {
    const g = await Glovebox.start({ config: { ...config, ...bad }, wait: false });
    await g.exited;
    assert.ok(g.exit.code > 0, JSON.stringify(bad));
    assert.match(g.log, /audit_(syslog|otlp_url) must be/);
    rmSync(g.dir, { recursive: true, force: true });
  }
});
