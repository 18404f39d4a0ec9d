// SPDX-License-Identifier: Apache-2.0
// `glovebox mcp` as a host meets it: lines to its standard input, lines from
// its standard output; and a stand-in for the service's /mcp, which can break
// the way no service of ours would on demand.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import http from 'node:http';
import { bin, sleep } from './glovebox.mjs';

const PREFIX = 'io.modelcontextprotocol/';
export const MODERN = '2026-07-28';
export const LEGACY = '2025-11-25';
export const claim = (more = {}) => ({ [`${PREFIX}protocolVersion`]: MODERN, [`${PREFIX}clientCapabilities`]: {}, ...more });

export class Bridge {
  // cli: a Cli, for its environment; env: more of it.
  constructor(cli, { args = [], env = {} } = {}) {
    this.started = performance.now();
    this.child = spawn(bin('glovebox'), ['mcp', ...args], { cwd: cli.cwd, env: { ...cli.env, ...env }, stdio: 'pipe' });
    this.messages = [];
    this.stderr = '';
    this.next = 1;
    this.waiting = [];
    this.child.stderr.setEncoding('utf8').on('data', (text) => { this.stderr += text; });
    this.child.stdin.on('error', () => {}); // it may end first
    let parts = [];
    this.child.stdout.setEncoding('utf8').on('data', (text) => {
      const lines = text.split('\n');
      parts.push(lines.shift());
      for (const rest of lines) {
        this.messages.push(JSON.parse(parts.join(''))); // nothing but messages, one a line
        parts = [rest];
        for (const wake of this.waiting.splice(0)) wake();
      }
    });
    this.exited = new Promise((done) => this.child.on('close', (status, signal) => {
      this.exit = { status, signal };
      for (const wake of this.waiting.splice(0)) wake();
      done(this.exit);
    }));
    cli.running.add(this.child);
    this.exited.then(() => cli.running.delete(this.child));
  }

  write(text) { this.child.stdin.write(text); }
  send(...messages) { this.write(messages.map((m) => `${JSON.stringify({ jsonrpc: '2.0', ...m })}\n`).join('')); }
  notify(method, params) { this.send({ method, params }); }

  // The first message that fits, also one that came before.
  async sees(fits, { ms = 20_000, what = 'message' } = {}) {
    const deadline = Date.now() + ms;
    for (;;) {
      const found = this.messages.find(fits);
      if (found) return found;
      if (Date.now() > deadline || this.exit)
        assert.fail(`no ${what}: ${JSON.stringify([this.exit, this.messages.slice(-5), this.stderr]).slice(0, 2000)}`);
      await Promise.race([sleep(100), new Promise((wake) => this.waiting.push(wake))]);
    }
  }

  answer(id, options) {
    return this.sees((m) => m.id === id && !('method' in m), { what: `answer to ${JSON.stringify(id)}`, ...options });
  }

  // Sends a request and waits for its answer, whatever it is.
  async ask(method, params, options) {
    const id = this.next++;
    this.send({ id, method, params });
    return this.answer(id, options);
  }

  // The result; an error is a failure of the test.
  async ok(method, params, options) {
    const answer = await this.ask(method, params, options);
    assert.ok(answer.result, `${method}: ${JSON.stringify(answer)}`);
    return answer.result;
  }

  modern(method, params = {}, options) { return this.ok(method, { ...params, _meta: claim(params._meta) }, options); }
  call(name, args, options) { return this.modern('tools/call', { name, arguments: args }, options); }

  async initialize(version = LEGACY) {
    const result = await this.ok('initialize', { protocolVersion: version, capabilities: {}, clientInfo: { name: 'test', version: '1' } });
    this.notify('notifications/initialized');
    return result;
  }
  legacy(name, args, options) { return this.ok('tools/call', { name, arguments: args }, options); }

  about(id) { return this.messages.filter((m) => m.id === id); }

  // End of input; how it ended and after how long.
  async end() {
    const from = performance.now();
    this.child.stdin.end();
    this.child.stdout.resume(); // or its end is never seen
    await this.exited;
    return { ...this.exit, ms: performance.now() - from };
  }
}

// A service that does what it is told: handle(request, response) with
// request.body parsed; everything it was asked is in .seen.
export class FakeService {
  static async start(handle, port = 0) {
    const f = new FakeService();
    f.handle = handle;
    f.seen = [];
    f.server = http.createServer(async (req, res) => {
      const chunks = [];
      for await (const chunk of req) chunks.push(chunk);
      req.text = Buffer.concat(chunks).toString('utf8');
      try { req.body = JSON.parse(req.text); } catch { /* none */ }
      f.seen.push(req);
      f.handle(req, res);
    });
    await new Promise((done) => f.server.listen(port, '127.0.0.1', done));
    f.port = f.server.address().port;
    f.url = `http://127.0.0.1:${f.port}`;
    return f;
  }

  asked(method) { return this.seen.filter((req) => req.body?.method === method || req.method === method); }
  stop() {
    this.server.closeAllConnections();
    return new Promise((done) => this.server.close(done));
  }
}

export const json = (res, body, { status = 200, headers = {} } = {}) =>
  res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
export const result = (req, value = {}) => ({ jsonrpc: '2.0', id: req.body.id, result: value });
export const events = (res) => res.writeHead(200, { 'content-type': 'text/event-stream' });
export const event = (res, message, id) =>
  res.write(`${id ? `id: ${id}\n` : ''}event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`);
