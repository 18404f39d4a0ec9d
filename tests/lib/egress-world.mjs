// SPDX-License-Identifier: Apache-2.0
// The world of the egress lab, run inside a network namespace of its own by
// tests/lib/egress.mjs: a name server with answers that change, servers that
// speak HTTP, TLS and something else, and a record of every contact. Takes a
// JSON object a line, answers with one.
import dgram from 'node:dgram';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import readline from 'node:readline';

const { dns = null, http: httpPorts = [], tls = null, greet = [], bind = ['0.0.0.0', '::'], bad = null } = JSON.parse(process.argv[2]);
const contacts = [];
let names = {};
let pages = {}; // path -> { status, headers, b64 }, and json: the same for who would rather have that
let asked = [];

// ---- names ------------------------------------------------------------------

const TYPES = { A: 1, CNAME: 5, AAAA: 28 };

function encodeName(name) {
  const parts = name.split('.').filter(Boolean).map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label)]));
  return Buffer.concat([...parts, Buffer.from([0])]);
}

function encodeAddress(text) {
  if (net.isIPv4(text)) return Buffer.from(text.split('.').map(Number));
  const mapped = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text);
  if (mapped) {
    const v4 = encodeAddress(mapped[2]);
    text = `${mapped[1]}${v4.readUInt16BE(0).toString(16)}:${v4.readUInt16BE(2).toString(16)}`;
  }
  const [head, tail = null] = text.split('::');
  const left = head ? head.split(':') : [];
  const right = tail ? tail.split(':') : [];
  const all = tail === null ? left : [...left, ...Array(8 - left.length - right.length).fill('0'), ...right];
  return Buffer.concat(all.map((part) => { const b = Buffer.alloc(2); b.writeUInt16BE(parseInt(part, 16)); return b; }));
}

function record(name, type, data) {
  const head = Buffer.alloc(10);
  head.writeUInt16BE(type, 0);
  head.writeUInt16BE(1, 2);
  head.writeUInt32BE(0, 4); // no lifetime: it may change at once
  head.writeUInt16BE(data.length, 8);
  return Buffer.concat([encodeName(name), head, data]);
}

// Each name has a list of answers, the last of which stays.
function answersOf(name, type) {
  const list = names[name];
  if (!list) return null;
  const now = list.length > 1 && type === TYPES[list[0].once ?? 'A'] ? list.shift() : list[0];
  if (now.silent) return 'silent';
  const out = [];
  let at = name;
  if (now.CNAME) {
    out.push(record(name, TYPES.CNAME, encodeName(now.CNAME)));
    at = now.CNAME;
  }
  const wanted = type === TYPES.A ? now.A : type === TYPES.AAAA ? now.AAAA : [];
  for (const address of wanted ?? []) out.push(record(at, type, encodeAddress(address)));
  return out;
}

if (dns) {
  const server = dgram.createSocket('udp4');
  server.on('message', (query, from) => {
    const labels = [];
    let at = 12;
    while (query[at]) { labels.push(query.subarray(at + 1, at + 1 + query[at]).toString()); at += 1 + query[at]; }
    const name = labels.join('.').toLowerCase();
    const type = query.readUInt16BE(at + 1);
    asked.push({ name, type });
    const found = answersOf(name, type);
    if (found === 'silent') return;
    const head = Buffer.alloc(12);
    query.copy(head, 0, 0, 2);
    head.writeUInt16BE(found ? 0x8180 : 0x8183, 2);
    head.writeUInt16BE(1, 4);
    head.writeUInt16BE(found ? found.length : 0, 6);
    server.send(Buffer.concat([head, query.subarray(12, at + 5), ...(found ?? [])]), from.port, from.address);
  });
  server.bind(53, dns);
}

// ---- servers ----------------------------------------------------------------

function note(socket, extra = {}) {
  contacts.push({ address: socket.localAddress?.replace(/^::ffff:/, ''), port: socket.localPort, ...extra });
}

function answer(request, response) {
  const url = new URL(request.url, 'http://x');
  const chunks = [];
  const q = (name) => url.searchParams.get(name);
  if (url.pathname === '/raw') { // bytes of the test's choosing, as they are
    request.socket.end(Buffer.from(q('b64'), 'base64'));
    return;
  }
  if (pages[url.pathname]) {
    const page = pages[url.pathname];
    const wanted = (request.headers.accept ?? '').split(',')[0];
    const { status = 200, headers = {}, b64 = '' } = page.json && wanted === page.json.headers['content-type'].split(';')[0] ? page.json : page;
    response.writeHead(status, headers);
    response.end(Buffer.from(b64, 'base64'));
    return;
  }
  if (url.pathname === '/slow') return; // never
  if (url.pathname === '/drip') {
    response.writeHead(200);
    response.write('begin');
    return;
  }
  if (url.pathname === '/redirect') {
    response.writeHead(302, { location: q('to') });
    response.end();
    return;
  }
  if (url.pathname === '/bytes') {
    const n = Number(q('n'));
    response.writeHead(200, q('chunked') ? {} : { 'content-length': n });
    for (let left = n; left > 0; left -= 65536) response.write(Buffer.alloc(Math.min(left, 65536), 'x'));
    response.end();
    return;
  }
  request.on('data', (bytes) => chunks.push(bytes));
  request.on('end', () => {
    const text = JSON.stringify({ method: request.method, url: request.url, raw: request.rawHeaders, body: Buffer.concat(chunks).toString(),
      tls: Boolean(request.socket.encrypted), name: request.socket.servername });
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text), 'keep-alive': 'timeout=5', 'x-here': 'yes' });
    response.end(text);
  });
}

const quiet = (server) => server.on('error', (error) => console.error('world:', error.message));

for (const address of bind) {
  for (const port of httpPorts) quiet(http.createServer(answer).on('connection', (s) => note(s)).listen({ port, host: address, ipv6Only: address === '::' }));
  for (const port of greet)
    quiet(net.createServer((s) => { note(s); s.on('error', () => {}); s.write('220 hello\r\n'); s.on('data', (b) => s.write(b)); s.on('end', () => s.end()); })
      .listen({ port, host: address, ipv6Only: address === '::' }));
  for (const [port, pair] of [[443, tls], [8443, tls], [9443, bad]]) {
    if (!pair) continue;
    quiet(https.createServer({ key: readFileSync(pair.key), cert: readFileSync(pair.cert), ALPNProtocols: ['http/1.1'] }, answer)
      .on('connection', (s) => note(s)).on('secureConnection', (s) => note(s, { name: s.servername }))
      .on('tlsClientError', () => {}).listen({ port, host: address, ipv6Only: address === '::' }));
  }
}

// ---- what the test wants ----------------------------------------------------

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, op, ...rest } = JSON.parse(line);
  let value = {};
  if (op === 'names') names = structuredClone(rest.names);
  if (op === 'pages') pages = rest.pages;
  if (op === 'contacts') value = { contacts: contacts.splice(0), asked: asked.splice(0) };
  console.log(JSON.stringify({ id, ...value }));
}).on('close', () => process.exit(0));
