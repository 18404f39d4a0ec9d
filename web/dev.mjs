// SPDX-License-Identifier: Apache-2.0
// A development server: serves dist/ with the daemon's headers and passes every
// other path on to a daemon, so that the console can be rebuilt without it.
//
//   node build.mjs --watch & GLOVEBOX_URL=http://127.0.0.1:8650 GLOVEBOX_KEY=… node dev.mjs 8700
//
// With GLOVEBOX_KEY every request is made with that key and no sign-in is
// needed; without it, cookies are passed on as they are. GLOVEBOX_DIST names
// another folder of built files.
import { createServer, request } from 'node:http';
import { readFileSync, statSync } from 'node:fs';
import { dirname, extname, join, normalize, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const dist = resolve(process.env.GLOVEBOX_DIST ?? join(dirname(fileURLToPath(import.meta.url)), 'dist'));
const target = new URL(process.env.GLOVEBOX_URL ?? 'http://127.0.0.1:8650');
const key = process.env.GLOVEBOX_KEY;
const port = Number(process.argv[2] ?? 8700);

const page = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; font-src 'self'; connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const frame = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; media-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";
const types = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.woff2': 'font/woff2' };

function serveFile(at, response) {
  const name = at === '/' ? 'index.html' : normalize(at.replace(/^\/console\//, ''));
  const file = join(dist, name);
  if (!file.startsWith(dist) || !statSync(file, { throwIfNoEntry: false })?.isFile()) return response.writeHead(404).end();
  response.writeHead(200, {
    'Content-Type': types[extname(file)] ?? 'application/octet-stream',
    'Content-Security-Policy': name === 'frame.html' ? frame : page,
    'X-Content-Type-Options': 'nosniff',
    'Referrer-Policy': 'no-referrer',
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'Cache-Control': 'no-store',
  });
  return response.end(readFileSync(file));
}

const server = createServer((incoming, response) => {
  const at = new URL(incoming.url, 'http://console').pathname;
  if (at === '/' || at.startsWith('/console/')) return serveFile(at, response);
  const headers = { ...incoming.headers, host: target.host };
  if (key) {
    headers.authorization = `Bearer ${key}`;
    delete headers.cookie;
  }
  if (headers.origin) headers.origin = target.origin;
  const passed = request({ host: target.hostname, port: target.port, method: incoming.method, path: incoming.url, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  passed.on('error', (error) => response.writeHead(502).end(String(error)));
  response.on('close', () => passed.destroy());
  return incoming.pipe(passed);
}).listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port} → ${target.origin}`));
