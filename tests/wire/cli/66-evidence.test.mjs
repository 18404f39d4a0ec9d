// SPDX-License-Identifier: Apache-2.0
// By the command line: what is known of an execution on one page, exports in
// each format, and checking an export without a service.
import assert from 'node:assert/strict';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';

let server;
let cli;
let alone; // one that knows of no service
let e;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 1 })] } });
  cli = new Cli(server);
  alone = new Cli(undefined, { GLOVEBOX_URL: 'http://127.0.0.1:9' });
  const session = await server.session();
  e = await session.python('open("/mnt/data/out.txt", "w").write("x")\nprint("\\x1b]0;title\\x07 done")',
    { metadata: { conversation: 'conv-1', message: 'msg-1', prompt: 'evil \x1b[2J text' } });
});
after(async () => {
  cli?.close();
  alone?.close();
  await server?.stop();
});

describe('audit show', () => {
  test('one page, in sections', async () => {
    const { stdout } = await cli.ok(['audit', 'show', e.id]);
    for (const section of ['Who', 'Trigger (as the client gave it)', 'Code', 'Files', 'Connections', 'Decision', 'How it went'])
      assert.match(stdout, new RegExp(`^${section.replace(/[()]/g, '\\$&')}$`, 'm'));
    assert.match(stdout, new RegExp(`^ {2}execution {5}${e.id}$`, 'm'));
    assert.match(stdout, /^ {2}door {10}native$/m);
    assert.match(stdout, /^ {2}conversation {2}conv-1$/m);
    assert.match(stdout, /^ {2}sha256 {8}[0-9a-f]{64}$/m);
    assert.match(stdout, /^ {2}\| open\("\/mnt\/data\/out\.txt", "w"\)/m);
    assert.match(stdout, /^ {2}created {7}out\.txt {2}1 B {2}ver_/m);
    assert.match(stdout, /^ {2}outcome {7}ok$/m);
    assert.doesNotMatch(stdout, /\x1b/, 'no escape, whoever wrote it');
    assert.ok(stdout.split('\n').length < 60, 'one page');
  });

  test('--json is what the service says; unknown ones are', async () => {
    const page = await cli.json(['audit', 'show', e.id]);
    assert.deepEqual(page, await server.ok('GET', `/api/executions/${e.id}/evidence`));
    assert.equal((await cli.error(['audit', 'show', `exec_${'0'.repeat(32)}`])).code, 'not_found');
    assert.equal((await cli.start(['audit', 'show']).ended).status, 2);
  });

  test('colours only on a terminal, and none of a session\'s', async () => {
    const { stdout } = await cli.start(['audit', 'show', e.id], { terminal: true }).ended;
    assert.match(stdout, /\x1b\[1mWho\x1b\[0m/);
    assert.doesNotMatch(stdout, /\x1b\]|\x1b\[2J/);
  });
});

describe('audit export', () => {
  const lines = (text) => text.split('\n').filter(Boolean);

  test('jsonl, otlp and syslog, to a file or not', async () => {
    const all = lines((await cli.ok(['audit', 'export'])).stdout).map((l) => JSON.parse(l));
    assert.ok(all.length >= 3 && all.every((l, i) => l.seq === i + 1));
    const file = join(cli.cwd, 'trail.jsonl');
    await cli.ok(['audit', 'export', '--output', file]);
    assert.equal(lines(readFileSync(file, 'utf8')).length, all.length);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    const [otlp] = lines((await cli.ok(['audit', 'export', '--format', 'otlp'])).stdout).map((l) => JSON.parse(l));
    assert.equal(otlp.resourceLogs[0].scopeLogs[0].logRecords.length, all.length);
    const syslog = lines((await cli.ok(['audit', 'export', '--format', 'syslog'])).stdout);
    assert.equal(syslog.length, all.length);
    for (const line of syslog) assert.match(line, /^<110>1 \S+Z \S+ glovebox - \S+ \[glovebox@32473 seq="\d+" .*\] \S+ ok$/);
    assert.equal((await cli.ok(['audit', 'export', '--from', '2100-01-01'])).stdout, '');
    assert.equal((await cli.start(['audit', 'export', '--format', 'xml']).ended).status, 2);
  });

  test('--follow goes on as events come', async () => {
    const following = cli.start(['audit', 'export', '--format', 'syslog', '--follow']);
    await following.shows(/execution\.run/);
    await cli.ok(['workspaces', 'new', 'followed']);
    await following.shows(/workspace\.create.*\n[^]*workspace\.create/);
    following.child.kill('SIGINT');
    await following.ended;
  });
});

describe('audit verify EXPORT', () => {
  let trail, key, noted;
  const put = (name, text) => { const at = join(alone.cwd, name); writeFileSync(at, text); return at; };
  const check = async (text, ...flags) => {
    const got = await alone.start(['audit', 'verify', put('x.jsonl', text), ...flags]).ended;
    return { status: got.status, said: got.stdout + got.stderr };
  };

  before(async () => {
    await cli.ok(['workspaces', 'new', 'one']);
    await cli.ok(['workspaces', 'new', 'two']);
    noted = (await cli.ok(['audit', 'checkpoint'])).stdout;
    await cli.ok(['workspaces', 'new', 'three']);
    trail = (await cli.ok(['audit', 'export'])).stdout.split('\n').filter(Boolean);
    key = put('key.pem', (await cli.ok(['audit', 'key'])).stdout);
  });
  const text = (list) => `${list.join('\n')}\n`;

  test('O1 a whole one is good, with no service and no secret', async () => {
    const plain = await check(text(trail));
    assert.equal(plain.status, 0, plain.said);
    assert.match(plain.said, /none changed\nno signature was looked at/);
    const signed = await check(text(trail), '--public-key', key, '--checkpoint', put('noted.json', noted));
    assert.equal(signed.status, 0, signed.said);
    assert.match(signed.said, /1 signed checkpoints in it, 1 noted ones fit/);
    const report = JSON.parse((await alone.start(['audit', 'verify', put('x.jsonl', text(trail)), '--public-key', key, '--json']).ended).stdout);
    assert.deepEqual([report.ok, report.events, report.checkpoints, report.fault], [true, trail.length, 1, null]);
    const part = await check(text(trail.slice(2)), '--public-key', key);
    assert.equal(part.status, 0, part.said);
  });

  test('O1 a changed, missing, swapped, doubled or cut line is found', async () => {
    const changed = (i, edit) => text(trail.map((l, n) => (n === i ? edit(l) : l)));
    const bad = {
      'a changed field': [changed(1, (l) => l.replace('"ok"', '"no"')), /line 2 is not as it was written/],
      'a changed time': [changed(1, (l) => l.replace(/"at_ms":(\d+)/, (_, n) => `"at_ms":${Number(n) + 1}`)), /line 2 is not as it was/],
      'a changed hash': [changed(1, (l) => l.replace(/"chain_hash":"./, '"chain_hash":"x')), /line 2 is not as it was/],
      'a missing line': [text(trail.filter((_, i) => i !== 1)), /events 2 to 2 of tenant 'default' are not there/],
      'swapped lines': [text([trail[0], trail[2], trail[1], ...trail.slice(3)]), /are not there/],
      'a doubled line': [text([trail[0], trail[0], ...trail.slice(1)]), /are not there/],
      'no JSON': [text([trail[0], 'nonsense']), /line 2 is no event/],
      'nothing but half a line': [trail[0].slice(0, 50), /line 1 is no event/],
    };
    for (const [what, [body, words]] of Object.entries(bad)) {
      const got = await check(body, '--public-key', key);
      assert.equal(got.status, 1, `${what}: ${got.said}`);
      assert.match(got.said, words, what);
    }
    const cut = await check(text(trail.slice(0, 2)), '--checkpoint', put('noted.json', noted));
    assert.equal(cut.status, 1, cut.said);
    assert.match(cut.said, /missing at the end: a checkpoint tells of them/);
    const unsigned = await check(text(trail.slice(0, 2)), '--public-key', key);
    assert.equal(unsigned.status, 1, 'nothing in it is signed');
  });

  test('O1 a chain written anew by somebody else lacks the signature', async () => {
    const other = await Glovebox.start({ config: { pools: [pool({ ready: 0 })] } });
    const their = new Cli(other);
    try {
      await their.ok(['workspaces', 'new', 'theirs']);
      await their.ok(['audit', 'checkpoint']);
      const forged = (await their.ok(['audit', 'export'])).stdout;
      const got = await check(forged, '--public-key', key);
      assert.equal(got.status, 1, got.said);
      assert.match(got.said, /no checkpoint of this key/);
      const against = await check(forged, '--checkpoint', put('noted.json', noted));
      assert.equal(against.status, 1, against.said);
      const c = JSON.parse(noted);
      const wrong = await check(text(trail), '--public-key', key, '--checkpoint', put('noted.json', JSON.stringify({ ...c, seq: c.seq - 1 })));
      assert.equal(wrong.status, 1, wrong.said);
      assert.match(wrong.said, /not signed by this key/);
    } finally {
      their.close();
      await other.stop();
    }
  });

  test('what is no key, no checkpoint or no file is said', async () => {
    for (const [flags, words] of [[['--public-key', put('bad.pem', 'x')], /not the public half/], [['--public-key', '/nowhere'], /cannot read/],
      [['--checkpoint', put('bad.json', '7')], /no checkpoint/], [['--checkpoint', put('none.json', '{"seq": 1}')], /not one of ours/]]) {
      const got = await check(text(trail), ...flags);
      assert.ok(got.status > 0, got.said);
      assert.match(got.said, words);
    }
    assert.ok((await alone.start(['audit', 'verify', '/nowhere']).ended).status > 0);
    assert.equal((await alone.start(['audit', 'list', '--public-key', key]).ended).status, 2);
  });
});
