// SPDX-License-Identifier: Apache-2.0
// The peer of uploads and downloads: Debian's nginx on loopback, sendfile for
// downloads and its own WebDAV module for PUT, which writes the body beside
// its place and renames it. It does not sync.
import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { until } from '../tests/lib/glovebox.mjs';

const freePort = () => new Promise((done, fail) => {
  const probe = createServer().on('error', fail).listen(0, '127.0.0.1', () => {
    const { port } = probe.address();
    probe.close(() => done(port));
  });
});

export class Nginx {
  // dir: made for it, on the file system the daemon's data is on.
  static async start(dir) {
    const n = new Nginx();
    n.port = await freePort();
    n.files = join(dir, 'files');
    mkdirSync(n.files, { recursive: true });
    writeFileSync(join(dir, 'nginx.conf'), `
      daemon off; user root; worker_processes 1; pid nginx.pid; error_log stderr crit;
      events { worker_connections 64; }
      http {
        access_log off; sendfile on; tcp_nopush on; client_max_body_size 0; client_body_temp_path body;
        server {
          listen 127.0.0.1:${n.port}; root files;
          location / { dav_methods PUT; create_full_put_path on; }
        }
      }`);
    n.child = spawn('/usr/sbin/nginx', ['-p', dir, '-c', 'nginx.conf', '-e', 'stderr'],
      { stdio: ['ignore', 'ignore', 'inherit'] });
    n.exited = new Promise((done) => n.child.on('exit', (code) => { n.code = code ?? -1; done(); })
      .on('error', (error) => { n.code = -1; n.error = error; done(); }));
    await until(async () => n.code !== undefined || await fetch(`http://127.0.0.1:${n.port}/`),
      { what: 'nginx' });
    if (n.code !== undefined) throw new Error(`nginx ended (${n.code})`, { cause: n.error });
    return n;
  }

  async stop() {
    if (this.code === undefined) this.child.kill('SIGTERM');
    await this.exited;
  }
}
