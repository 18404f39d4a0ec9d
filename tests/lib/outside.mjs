// SPDX-License-Identifier: Apache-2.0
// A small world for sessions with a network: names, and servers of HTTP and
// HTTPS, on an address of loopback that the daemon is told to count as public
// (egress_lab). Every request is remembered with what it carried.
import { execFileSync } from 'node:child_process';
import dgram from 'node:dgram';
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const ADDRESS = '127.0.0.77';

const listen = (server, port = 0) => new Promise((done, fail) => {
  server.on('error', fail);
  server.listen(port, ADDRESS, () => done(server.address().port));
});

export class Outside {
  // names: all of them are this one address
  static async open(names) {
    const world = new Outside();
    world.dir = mkdtempSync(join(tmpdir(), 'glovebox-outside-'));
    chmodSync(world.dir, 0o755);
    world.requests = [];
    world.lookups = [];
    world.names = new Set(names);
    world.certificates(names);
    world.http = http.createServer((q, a) => world.answer(q, a));
    world.https = https.createServer({ key: readFileSync(join(world.dir, 'leaf.key')), cert: readFileSync(join(world.dir, 'leaf.pem')) },
      (q, a) => world.answer(q, a)).on('tlsClientError', () => {});
    world.port = await listen(world.http);
    world.tlsPort = await listen(world.https);
    world.dns = dgram.createSocket('udp4');
    world.dns.on('message', (query, from) => world.resolve(query, from));
    await new Promise((done) => world.dns.bind(0, '127.0.0.1', done));
    return world;
  }

  // What the daemon has to be told; its gate would refuse such a world.
  config() {
    return { accept_gate: 'outbound', egress_lab: `${ADDRESS}/32`, egress_resolver: `127.0.0.1#${this.dns.address().port}`, egress_ca_file: join(this.dir, 'ca.pem') };
  }

  certificates(names) {
    const ssl = (...argv) => execFileSync('openssl', argv, { cwd: this.dir, stdio: ['ignore', 'pipe', 'pipe'] });
    const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
    ssl('req', '-x509', ...ec, '-keyout', 'ca.key', '-out', 'ca.pem', '-subj', '/CN=outside');
    ssl('req', '-x509', ...ec, '-CA', 'ca.pem', '-CAkey', 'ca.key', '-keyout', 'leaf.key', '-out', 'leaf.pem', '-subj', '/CN=leaf',
      '-addext', `subjectAltName=${names.map((name) => `DNS:${name}`).join(',')}`, '-addext', 'basicConstraints=critical,CA:FALSE');
    chmodSync(join(this.dir, 'ca.pem'), 0o644);
  }

  answer(request, response) {
    this.requests.push({ method: request.method, url: request.url, host: request.headers.host, headers: request.headers,
      tls: Boolean(request.socket.encrypted) });
    const body = JSON.stringify({ hello: request.url });
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
    response.end(body);
  }

  resolve(query, from) {
    const labels = [];
    let at = 12;
    while (query[at]) { labels.push(query.subarray(at + 1, at + 1 + query[at]).toString()); at += 1 + query[at]; }
    const name = labels.join('.').toLowerCase();
    const type = query.readUInt16BE(at + 1);
    const known = this.names.has(name);
    const answers = known && type === 1 ? 1 : 0;
    const head = Buffer.alloc(12);
    const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...ADDRESS.split('.').map(Number)]);
    this.lookups.push(name);
    query.copy(head, 0, 0, 2);
    head.writeUInt16BE(known ? 0x8180 : 0x8183, 2);
    head.writeUInt16BE(1, 4);
    head.writeUInt16BE(answers, 6);
    this.dns.send(Buffer.concat([head, query.subarray(12, at + 5), ...(answers ? [record] : [])]), from.port, from.address);
  }

  seen() { return this.requests.splice(0); }

  close() {
    this.dns.close();
    for (const server of [this.http, this.https]) { server.closeAllConnections(); server.close(); }
    rmSync(this.dir, { recursive: true, force: true });
  }
}
