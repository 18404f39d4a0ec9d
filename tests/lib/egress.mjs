// SPDX-License-Identifier: Apache-2.0
// The egress lab: two network namespaces of our own joined by a cable. In one
// runs the proxy, as on a host; the other is the world, with addresses that
// are public, private and everything else, all of which answer and remember
// who called. Nothing outside of the machine is a target.
//
//   this process     the session: its sockets are on 127.0.0.1 here
//   lab namespace    glovebox-egress; 1.1.0.2, and listeners on loopback
//   world namespace  everything else, behind the default route
import { execFileSync, spawn } from 'node:child_process';
import dgram from 'node:dgram';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import readline from 'node:readline';
import { fileURLToPath } from 'node:url';

import { build, until } from './glovebox.mjs';

export { sleep, until } from './glovebox.mjs';

const run = (...argv) => execFileSync(argv[0], argv.slice(1), { stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' });

export const MODE = { none: 0, allowlist: 1, open: 2 };
export const REPORT = { http: 1, tunnel: 2, lookup: 3, package: 4, budget: 5, question: 6 };
export const METHOD = { GET: 1, HEAD: 2, POST: 4, PUT: 8, PATCH: 16, DELETE: 32, OPTIONS: 64 };

export const PUBLIC = '1.2.3.4';
export const PUBLIC6 = '2600:1f00::4';
// One address of each kind that no session may reach; all of them answer.
export const FORBIDDEN = {
  loopback: '127.0.0.1', 'own address': '1.1.0.2', ten: '10.0.0.5', 'one seven two': '172.16.0.5', 'one nine two': '192.168.1.5',
  metadata: '169.254.169.254', 'link-local': '169.254.7.7', 'shared': '100.64.0.5', documentation: '203.0.113.5', benchmark: '198.18.0.5',
  'class e': '240.0.0.5', 'zero': '0.0.0.0',
};
export const FORBIDDEN6 = { loopback: '::1', metadata: 'fd00:ec2::254', ula: 'fd12::5', 'link-local': 'fe80::5', mapped: '::ffff:10.0.0.5',
  'mapped public': '::ffff:1.2.3.4', compat: '::10.0.0.5', nat64: '64:ff9b::a00:5', '6to4': '2002:a00:5::1', teredo: '2001:0:102:304::f5ff:fffa',
  documentation: '2001:db8::5', multicast: 'ff02::1' };

let labs = 0;

// A program that takes and gives JSON lines.
class Lines {
  constructor(argv, options = {}) {
    this.child = spawn(argv[0], argv.slice(1), { stdio: ['pipe', 'pipe', 'inherit'], ...options });
    this.waiting = new Map();
    this.other = [];
    this.next = 1;
    readline.createInterface({ input: this.child.stdout }).on('line', (line) => {
      const message = JSON.parse(line);
      if (message.id === undefined) return this.other.push(message);
      this.waiting.get(message.id)(message);
      this.waiting.delete(message.id);
    });
    this.exited = new Promise((done) => this.child.on('exit', done));
  }

  async ask(op, rest = {}) {
    const id = this.next++;
    const answer = new Promise((done) => this.waiting.set(id, done));
    this.child.stdin.write(`${JSON.stringify({ id, op, ...rest })}\n`);
    const message = await Promise.race([answer, this.exited.then((code) => { throw new Error(`it ended with ${code}`); })]);
    if (message.error) throw new Error(message.error);
    return message;
  }

  async close() {
    this.child.stdin.end();
    await this.exited;
  }
}

export class Lab {
  // setup: of the proxy; world: false where no namespaces are wanted
  static async open(setup = {}) {
    const lab = new Lab();
    lab.dir = mkdtempSync(join(tmpdir(), 'glovebox-egress-'));
    chmodSync(lab.dir, 0o755);
    lab.tag = `gb${process.pid}-${++labs}`;
    lab.certificates();
    try {
      lab.wire();
      lab.world = new Lines(lab.inside('w', process.execPath, worldFile, JSON.stringify({
        dns: '1.2.3.53', http: [80, 8080, 8081], greet: [22, 2525],
        tls: { key: join(lab.dir, 'leaf.key'), cert: join(lab.dir, 'leaf.pem') }, bad: { key: join(lab.dir, 'bad.key'), cert: join(lab.dir, 'bad.pem') } })));
      lab.host = new Lines(lab.inside('l', process.execPath, worldFile, JSON.stringify({ http: [80, 443, 8080] })));
      await until(() => lab.reaches('1.2.3.4', 80) && lab.reaches('127.0.0.1', 80), { what: 'the world answers' });
      await lab.contacts();
      lab.setup = { program: join(build, 'bin/glovebox-egress'), netns: `/run/netns/${lab.tag}l`, uid: 1999999999, resolver: '1.2.3.53',
        ca_file: join(lab.dir, 'ca.pem'), refused: [{ address: '1.1.0.2', bits: 32 }], ...setup };
      await lab.start();
    } catch (error) {
      await lab.close();
      throw error;
    }
    return lab;
  }

  async start() {
    this.driver = new Lines([join(build, 'tests/egress-driver')]);
    await this.driver.ask('open', this.setup);
    this.handle = 0;
  }

  inside(which, ...argv) { return ['ip', 'netns', 'exec', `${this.tag}${which}`, ...argv]; }

  // The same call the proxy might make, from where it runs: the control of
  // every case in which it must not.
  reaches(address, port) {
    const probe = `require('net').connect(${port}, '${address}').on('connect', () => process.exit(0)).on('error', () => process.exit(1))`;
    try {
      execFileSync('ip', ['netns', 'exec', `${this.tag}l`, process.execPath, '-e', probe], { stdio: 'ignore', timeout: 4000 });
      return true;
    } catch {
      return false;
    }
  }

  wire() {
    const [l, w] = [`${this.tag}l`, `${this.tag}w`];
    run('ip', 'netns', 'add', l);
    run('ip', 'netns', 'add', w);
    run('ip', 'link', 'add', 'out', 'netns', l, 'type', 'veth', 'peer', 'name', 'in', 'netns', w);
    for (const ns of [l, w]) run('ip', '-n', ns, 'link', 'set', 'lo', 'up');
    const add = (ns, device, address) => run('ip', '-n', ns, 'addr', 'add', address, 'dev', device, ...(address.includes(':') ? ['nodad'] : []));
    add(l, 'out', '1.1.0.2/24');
    add(l, 'out', '2600:1f01::2/64');
    add(w, 'in', '1.1.0.1/24');
    add(w, 'in', '2600:1f01::1/64');
    run('ip', '-n', l, 'link', 'set', 'out', 'up');
    run('ip', '-n', w, 'link', 'set', 'in', 'up');
    run('ip', '-n', l, 'route', 'add', 'default', 'via', '1.1.0.1');
    run('ip', '-n', l, 'route', 'add', 'default', 'via', '2600:1f01::1');
    for (const address of [PUBLIC, '1.2.3.5', '1.2.3.53', '10.0.0.5', '172.16.0.5', '192.168.1.5', '169.254.169.254', '169.254.7.7', '100.64.0.5', '203.0.113.5', '198.18.0.5', '240.0.0.5'])
      add(w, 'lo', `${address}/32`);
    for (const address of [PUBLIC6, 'fd00:ec2::254', 'fd12::5', '64:ff9b::a00:5', '2002:a00:5::1', '2001:0:102:304::f5ff:fffa', '2001:db8::5'])
      add(w, 'lo', `${address}/128`);
  }

  certificates() {
    const file = (name) => join(this.dir, name);
    const key = (name) => run('openssl', 'ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', file(name));
    ['ca.key', 'leaf.key', 'bad.key'].forEach(key);
    run('openssl', 'req', '-x509', '-new', '-key', file('ca.key'), '-subj', '/CN=Lab', '-days', '2', '-out', file('ca.pem'), '-addext', 'basicConstraints=critical,CA:TRUE', '-addext', 'keyUsage=critical,keyCertSign');
    writeFileSync(file('ext'), `subjectAltName=DNS:good.example,DNS:other.example,DNS:*.wild.example,DNS:secret.example,IP:${PUBLIC}\n`);
    run('openssl', 'req', '-new', '-key', file('leaf.key'), '-subj', '/CN=leaf', '-out', file('leaf.csr'));
    run('openssl', 'x509', '-req', '-in', file('leaf.csr'), '-CA', file('ca.pem'), '-CAkey', file('ca.key'), '-CAcreateserial', '-days', '2', '-extfile', file('ext'), '-out', file('leaf.pem'));
    run('openssl', 'req', '-x509', '-new', '-key', file('bad.key'), '-subj', '/CN=good.example', '-days', '2', '-out', file('bad.pem'), '-addext', 'subjectAltName=DNS:good.example');
  }

  names(names) {
    const lists = Object.fromEntries(Object.entries(names).map(([name, value]) => [name, Array.isArray(value) ? value : [value]]));
    return this.world.ask('names', { names: lists });
  }

  // Everything that was reached since the last look, in the world and in the
  // proxy's own namespace, and every name the world was asked.
  async contacts() {
    const [world, host] = await Promise.all([this.world.ask('contacts'), this.host.ask('contacts')]);
    return { contacts: [...world.contacts, ...host.contacts], asked: world.asked };
  }

  async grant(rules, rest = {}) {
    const handle = rest.handle ?? ++this.handle;
    const got = await this.driver.ask('grant', { handle, mode: MODE.allowlist, rules: rules.map((r) => (typeof r === 'string' ? { host: r } : r)),
      bytes: 100_000_000, connections: 32, requests: 1000, lookups: 100, ...rest });
    return new Session(this, handle, got);
  }

  // Reports so far of a kind, or of all; questions are not events.
  reports(handle, type) {
    return this.driver.other.filter((m) => m.report && m.report.handle === handle && (type ? m.report.type === type : m.report.type !== REPORT.question)).map((m) => m.report);
  }

  async close() {
    if (this.driver) await this.driver.close();
    for (const part of [this.world, this.host]) if (part) await part.close();
    for (const which of ['l', 'w']) {
      try {
        run('ip', 'netns', 'del', `${this.tag}${which}`);
      } catch { /* it was never made */ }
    }
    rmSync(this.dir, { recursive: true, force: true });
  }
}

const worldFile = fileURLToPath(new URL('egress-world.mjs', import.meta.url));

// All the bytes of a connection until its end.
export function collect(socket, { ms = 15_000 } = {}) {
  return new Promise((done, fail) => {
    const chunks = [];
    const timer = setTimeout(() => { socket.destroy(); fail(new Error(`no end in ${ms} ms; so far: ${Buffer.concat(chunks)}`)); }, ms);
    socket.on('data', (bytes) => chunks.push(bytes));
    socket.on('error', () => {});
    socket.on('end', () => socket.end());
    socket.on('close', () => { clearTimeout(timer); done(Buffer.concat(chunks).toString('latin1')); });
  });
}

export class Session {
  constructor(lab, handle, { tcp, udp, ca }) {
    Object.assign(this, { lab, handle, tcp, udp, ca });
  }

  // Changes what it was granted.
  again(rules, rest = {}) { return this.lab.grant(rules, { handle: this.handle, again: true, ...rest }); }

  reports(type) { return this.lab.reports(this.handle, type); }

  report(type) { return until(() => this.reports(type).at(-1), { what: `a report of ${type ?? 'any'}` }); }

  connect() { return net.connect({ port: this.tcp, host: '127.0.0.1', allowHalfOpen: true }); }

  // Bytes as they are; the whole answer as text.
  async send(bytes, options) {
    const socket = this.connect();
    const all = collect(socket, options);
    socket.write(bytes);
    return all;
  }

  // A request in the clear; { status, line, head, body }.
  async get(url, { method = 'GET', headers = {}, body = '', host } = {}) {
    const authority = host ?? /^\w+:\/\/([^/?]*)/.exec(url)[1].replace(/^.*@/, '');
    const lines = Object.entries({ Host: authority, ...headers }).map(([k, v]) => `${k}: ${v}\r\n`).join('');
    return parse(await this.send(`${method} ${url} HTTP/1.1\r\n${lines}\r\n${body}`));
  }

  // A tunnel; the socket after its answer, or the refusal.
  async tunnel(authority, { host = authority } = {}) {
    const socket = this.connect();
    socket.on('error', () => {});
    socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    let head = '';
    for (;;) {
      const bytes = socket.read() ?? await new Promise((done) => { socket.once('readable', () => done(socket.read())); socket.once('close', () => done(false)); });
      if (bytes) head += bytes.toString('latin1');
      const end = head.indexOf('\r\n\r\n');
      if (end >= 0 && head.startsWith('HTTP/1.1 200')) {
        socket.unshift(Buffer.from(head.slice(end + 4), 'latin1'));
        return { ...parse(head), socket };
      }
      if (bytes === false || socket.readableEnded) {
        socket.destroy();
        return parse(head);
      }
      if (end >= 0) socket.end();
    }
  }

  lookup(name, type = 1) {
    return new Promise((done, fail) => {
      const socket = dgram.createSocket('udp4');
      const timer = setTimeout(() => { socket.close(); fail(new Error('no answer')); }, 8000);
      const head = Buffer.from('12340100000100000000000000000000', 'hex').subarray(0, 12);
      const labels = name.split('.').map((l) => Buffer.concat([Buffer.from([l.length]), Buffer.from(l)]));
      const tail = Buffer.from([0, 0, type, 0, 1]);
      socket.on('message', (m) => {
        clearTimeout(timer);
        socket.close();
        const count = m.readUInt16BE(6);
        const data = count ? m.subarray(m.length - (type === 28 ? 16 : 4)) : null;
        done({ code: m[3] & 15, count, address: data && type === 1 ? [...data].join('.') : data?.toString('hex') ?? null });
      });
      socket.send(Buffer.concat([head, ...labels, tail]), this.udp, '127.0.0.1');
    });
  }
}

export function parse(text) {
  const end = text.indexOf('\r\n\r\n');
  const head = end < 0 ? text : text.slice(0, end);
  const [line, ...lines] = head.split('\r\n');
  return { line, status: Number(line.split(' ')[1]) || 0, head: lines, body: end < 0 ? '' : text.slice(end + 4),
    json: () => JSON.parse(text.slice(end + 4)) };
}
