// SPDX-License-Identifier: Apache-2.0
// Speaking to a daemon more closely than fetch allows: paths sent as they
// are, event streams as they come, connections cut half-way; and looking at
// the daemon from outside. Used by the wire tests.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { build } from './glovebox.mjs';

const authorization = (server, key) =>
  key === null ? {} : { authorization: `Bearer ${key ?? server.key}` };

// The path of a URL as answers carry it, for a server that may have moved to
// another port since; a path stays as it is.
export const pathOf = (url) => url.replace(/^https?:\/\/[^/]+/, '');

// One request by node:http, which sends the path untouched (of a URL: its path). key: null sends
// none. body: bytes, a string, or an object that becomes JSON.
export function request(server, method, path, { body, headers = {}, key, agent } = {}) {
  const { hostname, port } = new URL(server.url);
  const json = body !== undefined && typeof body === 'object' && !Buffer.isBuffer(body);
  const bytes = json ? JSON.stringify(body) : body;
  return new Promise((done, fail) => {
    const req = http.request({
      hostname, port, method, path: pathOf(path), agent: agent ?? false,
      headers: {
        ...authorization(server, key),
        ...(json ? { 'content-type': 'application/json' } : {}),
        ...(bytes === undefined ? {} : { 'content-length': Buffer.byteLength(bytes) }),
        ...headers,
      },
    }, (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
      response.on('error', fail);
      response.on('end', () => {
        const all = Buffer.concat(parts);
        const text = all.toString('utf8');
        let parsed;
        if (response.headers['content-type']?.startsWith('application/json') && text && !response.headers['content-disposition'])
          parsed = JSON.parse(text);
        done({ status: response.statusCode, headers: response.headers, bytes: all, text, body: parsed });
      });
    });
    req.setTimeout(300_000, () => req.destroy(new Error(`no answer to ${method} ${path}`)));
    req.on('error', fail);
    req.end(bytes);
  });
}

// An answer without an end: its first piece.
export function beginning(server, path, secret, headers = {}) {
  const { hostname, port } = new URL(server.url);
  return new Promise((done, fail) => {
    const req = http.request({ hostname, port, path, agent: false, headers: { ...(secret ? { authorization: `Bearer ${secret}` } : {}), ...headers } }, (response) => {
      response.once('data', (part) => {
        const text = part.toString().replace(/^id: \d+/gm, 'id: N');
        const json = response.headers['content-type']?.startsWith('application/json');
        done({ status: response.statusCode, headers: response.headers, text, body: json ? JSON.parse(text) : undefined });
        req.destroy();
      });
      response.on('error', () => {});
    });
    req.on('error', fail).end();
  });
}

// Bytes on a socket, and what came back until it was closed.
export function exchange(server, bytes, { ms = 10_000 } = {}) {
  const { hostname, port } = new URL(server.url);
  return new Promise((done, fail) => {
    const socket = net.connect(Number(port), hostname, () => socket.write(bytes));
    let text = '';
    const timer = setTimeout(() => { socket.destroy(); done(text); }, ms);
    socket.on('data', (part) => { text += part.toString('latin1'); });
    socket.on('close', () => { clearTimeout(timer); done(text); });
    socket.on('error', (error) => (error.code === 'ECONNRESET' ? done(text) : fail(error)));
  });
}

// Ends a daemon, which must end well: a leak that a sanitizer found, or a
// crash on the way out, is a failure of the file.
export async function stop(server) {
  if (!server) return;
  const exit = await server.stop();
  assert.deepEqual(exit, { code: 0, signal: null }, server.log.slice(-4000));
}

// Strict reading of one event block; data is always JSON on one line.
function parseEvent(block) {
  const event = {};
  for (const line of block.split('\n')) {
    const [, field, value] = /^(id|event|data): ([^\r]*)$/.exec(line) ?? assert.fail(`not a line of an event: ${line}`);
    assert.ok(!(field in event), `${field} twice in one event`);
    event[field] = value;
  }
  return { id: Number(event.id), event: event.event, data: JSON.parse(event.data) };
}

// An open event stream: events arrive in .events with the time they came.
export class Stream {
  constructor() {
    this.events = [];
    this.comments = 0;
    this.waiters = [];
  }

  static open(server, method, path, { body, headers = {}, key } = {}) {
    const { hostname, port } = new URL(server.url);
    const s = new Stream();
    s.started = performance.now();
    return new Promise((done, fail) => {
      s.request = http.request({
        hostname, port, method, path, agent: false,
        headers: { ...authorization(server, key), ...(body ? { 'content-type': 'application/json' } : {}), ...headers },
      }, (response) => {
        s.status = response.statusCode;
        s.headers = response.headers;
        s.ended = new Promise((over) => {
          response.on('end', () => over(true));
          response.on('close', () => over(false));
        });
        // An event of several MiB comes in many pieces: they are joined once,
        // when its end is there.
        let pieces = [], last = '';
        response.setEncoding('utf8');
        response.on('error', () => {});
        response.on('data', (text) => {
          pieces.push(text);
          const whole = `${last}${text}`.includes('\n\n');
          last = text.at(-1);
          if (whole) pieces = [s.take(pieces.join(''))];
        });
        done(s);
      });
      s.request.on('error', (error) => (s.status ? undefined : fail(error)));
      s.request.end(body ? JSON.stringify(body) : undefined);
    });
  }

  take(text) {
    const blocks = text.split('\n\n');
    const rest = blocks.pop();
    for (const block of blocks) {
      if (block.startsWith(':')) this.comments++;
      else this.events.push({ ...parseEvent(block), ms: performance.now() - this.started });
    }
    for (const waiter of this.waiters.splice(0)) waiter();
    return rest;
  }

  // The first event that fits, waiting for it.
  async find(fits, ms = 20_000) {
    const deadline = Date.now() + ms;
    for (;;) {
      const found = this.events.find(fits);
      if (found) return found;
      assert.ok(Date.now() < deadline, `no such event among ${JSON.stringify(this.events).slice(0, 2000)}`);
      await new Promise((wake) => {
        const timer = setTimeout(wake, 200);
        this.waiters.push(() => { clearTimeout(timer); wake(); });
      });
    }
  }

  text(kind = 'stdout') {
    return this.events.filter((e) => e.event === kind).map((e) => e.data.text).join('');
  }

  done() { return this.find((e) => e.event === 'done', 300_000); }
  close() { this.request.destroy(); }
}

// The paths an execution changed, by what became of them; only what there is.
export const changed = ({ files }) => Object.fromEntries(Object.entries(files)
  .filter(([, list]) => list.length).map(([name, list]) => [name, list.map((f) => f.path)]));

// A sanitizer keeps freed memory for a while, so memory is measured loosely.
export const sanitized = /asan|ubsan/.test(build);
export const descriptors = (pid) => readdirSync(`/proc/${pid}/fd`).length;
export const resident = (pid) =>
  Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1024;

const CODES = ['invalid_request', 'unauthenticated', 'forbidden', 'not_found', 'method_not_allowed', 'conflict', 'expired',
  'precondition_failed', 'too_large', 'range_not_satisfiable', 'locked', 'unsupported', 'limit_reached', 'overloaded', 'storage_full',
  'session_misbehaved', 'unavailable', 'isolation_failed', 'deadline_passed', 'corrupt', 'internal'];
// What an error must not tell: files and folders of the host, SQL, source
// lines, addresses, process ids. /mnt/data is the session's own.
const TELLTALE = /\/(?!mnt\/data)(tmp|var|work|usr|home|root|proc|etc|opt)\b|sqlite|select |\.c:\d|0x[0-9a-f]{4,}|errno|pid \d/i;

// Asserts the one shape of errors (H5) and returns the error.
export function refused(answer, status, code, message) {
  const shown = `${answer.status} ${answer.text?.slice(0, 300)}`;
  assert.equal(answer.status, status, shown);
  assert.deepEqual(Object.keys(answer.body), ['error'], shown);
  const { error } = answer.body;
  for (const field of Object.keys(error)) assert.ok(['code', 'message', 'hint', 'quota', 'approval'].includes(field), shown);
  assert.ok(CODES.includes(error.code), shown);
  if (code) assert.equal(error.code, code, shown);
  assert.ok(typeof error.message === 'string' && error.message.length > 3, shown);
  assert.ok(error.hint === undefined || error.hint.length > 3, shown);
  assert.doesNotMatch(answer.text, TELLTALE);
  if (message) assert.match(`${error.message} ${error.hint ?? ''}`, message, shown);
  return error;
}
