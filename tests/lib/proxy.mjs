// SPDX-License-Identifier: Apache-2.0
// A network between a client and a daemon that fails when it is told to, and
// remembers which requests went through. Bytes are passed on as they are.
import net from 'node:net';

export class Proxy {
  // cut: how many bytes of the server's answers pass on each connection, in
  // order of connections; then it is broken. Beyond the list all pass.
  static async open(server, { cut = [] } = {}) {
    const p = new Proxy();
    const { hostname, port } = new URL(server.url);
    p.lines = []; // "GET /path"
    p.sockets = new Set();
    p.cut = [...cut];
    p.paused = null;
    p.held = null; // while it says so, requests are kept back, and then go on
    p.listener = net.createServer((near) => {
      const far = net.connect(Number(port), hostname);
      let left = p.cut.length ? p.cut.shift() : Infinity;
      for (const socket of [near, far]) {
        p.sockets.add(socket);
        socket.on('close', () => { p.sockets.delete(socket); near.destroy(); far.destroy(); });
        socket.on('error', () => {});
      }
      const back = []; // kept back, in order
      const drain = () => {
        if (p.held && p.held(p)) { setTimeout(drain, 10); return; }
        for (const bytes of back.splice(0)) if (!far.destroyed) far.write(bytes);
      };
      near.on('data', (bytes) => {
        for (const match of bytes.toString('latin1').matchAll(/(?:^|\n)([A-Z]{3,7}) (\/\S*) HTTP\/1\.1\r/g)) p.lines.push(`${match[1]} ${match[2]}`);
        if (p.paused && p.paused(p)) return; // swallowed: the wire hangs
        if (back.length || (p.held && p.held(p))) back.push(bytes);
        else far.write(bytes);
        if (back.length === 1) setTimeout(drain, 10);
      });
      far.on('data', (bytes) => {
        near.write(bytes.subarray(0, Math.min(bytes.length, left)));
        left -= bytes.length;
        if (left <= 0) near.destroy();
      });
    });
    await new Promise((done) => p.listener.listen(0, '127.0.0.1', done));
    p.url = `http://127.0.0.1:${p.listener.address().port}`;
    return p;
  }

  seen(pattern) { return this.lines.filter((line) => pattern.test(line)); }

  close() {
    for (const socket of this.sockets) socket.destroy();
    return new Promise((done) => this.listener.close(done));
  }
}
