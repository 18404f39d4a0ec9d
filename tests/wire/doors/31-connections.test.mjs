// SPDX-License-Identifier: Apache-2.0
// Who may hold a connection: those that have not authenticated share a small
// part, and the oldest of them is closed for the next. From one address, as
// behind a proxy, all on loopback.
import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, sleep, until } from '../../lib/glovebox.mjs';
import { descriptors, request, resident, sanitized, Stream, stop } from '../../lib/wire.mjs';

const MiB = 1024 * 1024;

// Connections that send so much and no more. Each tells whether it is open.
class Flood {
  constructor(server) {
    this.to = new URL(server.url);
    this.sockets = new Set();
    this.closed = 0;
  }

  add(bytes) {
    return new Promise((done) => {
      const socket = net.connect(Number(this.to.port), this.to.hostname, () => {
        if (bytes) socket.write(bytes);
        done();
      });
      this.sockets.add(socket);
      socket.on('data', () => {});
      socket.on('error', () => {});
      socket.on('close', () => { this.closed++; this.sockets.delete(socket); done(); });
    });
  }

  // Silent ones, half a head, a head and half a body, and wrong keys.
  async many(count) {
    const kinds = ['', 'GET /api/pools HTTP/1.1\r\nHost: x\r\nX-Half:', 'POST /api/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer nope\r\nContent-Length: 100\r\n\r\n{',
      'GET /api/pools HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer nope\r\n\r\n'];
    for (let i = 0; i < count; i += 50)
      await Promise.all(Array.from({ length: Math.min(50, count - i) }, (_, k) => this.add(kinds[(i + k) % kinds.length])));
  }

  end() {
    for (const socket of this.sockets) socket.destroy();
  }
}

// A request on a kept connection; which connection it was.
const onAgent = (server, agent) => new Promise((done, fail) => {
  const req = http.get(`${server.url}/api/pools`, { agent, headers: { authorization: `Bearer ${server.key}` } }, (response) => {
    const port = response.socket.localPort;
    response.resume();
    response.on('end', () => done({ status: response.statusCode, port }));
  });
  req.on('error', fail);
});

describe('H2: connections that have not authenticated', () => {
  let server;
  before(async () => {
    server = await Glovebox.start({ config: { header_timeout_s: 60, auth_failures_per_min: 10_000, pools: [pool({ ready: 1 })] } });
  });
  after(() => stop(server));

  test('H2: 1,500 of them do not keep out a client with a key from the same address', async () => {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    const first = await onAgent(server, agent);
    const session = await server.session();
    const stream = await Stream.open(server, 'POST', `${session.path}/executions`, { body: { code: 'import time\nprint("a", flush=True)\ntime.sleep(8)\nprint("b")', mode: 'stream' } });
    await stream.find((event) => event.event === 'stdout');
    const base = { fds: descriptors(server.pid), memory: resident(server.pid) };
    const flood = new Flood(server);
    let most = 0;
    for (let round = 0; round < 15; round++) {
      await flood.many(100);
      // Each on a connection of its own.
      for (let i = 0; i < 5; i++) assert.equal((await request(server, 'GET', '/api/pools')).status, 200, `round ${round}`);
      assert.equal((await request(server, 'POST', '/api/sessions/none/files', { body: 'x'.repeat(200_000) })).status, 405, 'with a body');
      most = Math.max(most, descriptors(server.pid));
    }
    // An eighth of 2,000 for one address, and a few on their way out.
    assert.ok(most <= base.fds + 250 + 40, `${most - base.fds} descriptors more`);
    await until(() => flood.closed >= 1500 - 250, { what: 'the oldest closed' });
    assert.ok(flood.sockets.size > 100, 'those that fit are still open');
    if (!sanitized) assert.ok(resident(server.pid) < base.memory + 64 * MiB);
    for (let i = 0; i < 3; i++) {
      const again = await onAgent(server, agent);
      assert.deepEqual(again, { status: 200, port: first.port }, 'its connection was kept');
    }
    await stream.find((event) => event.event === 'stdout' && /b/.test(event.data.text));
    agent.destroy();
    flood.end();
    await until(() => descriptors(server.pid) <= base.fds + 2, { what: 'descriptors closed' });
  });

  test('H2: a flood that never ends does not either', async () => {
    const flood = new Flood(server);
    let going = true;
    const flooding = (async () => { for (let i = 0; going && i < 100; i++) await flood.many(50); })();
    for (let i = 0; i < 60; i++) {
      assert.equal((await request(server, 'GET', '/api/pools')).status, 200);
      await sleep(5);
    }
    going = false;
    await flooding;
    flood.end();
  });
});

describe('H2: few connections', () => {
  let server;
  before(async () => {
    // Four for strangers, two of them of one address; eleven that are trusted.
    server = await Glovebox.start({ config: { connections: 16, pools: [pool({ ready: 0 })] } });
  });
  after(() => stop(server));

  const text = () => `GET /api/pools HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${server.key}\r\n\r\n`;
  const ask = (socket) => new Promise((done, fail) => {
    let got = '';
    const take = (part) => {
      got += part;
      if (!/\r\n\r\n\{[^]*\}\s*$/.test(got)) return;
      socket.off('data', take);
      done(Number(got.slice(9, 12)));
    };
    socket.on('data', take);
    socket.on('close', () => fail(new Error('closed')));
    socket.write(text());
  });
  const dial = () => new Promise((done) => {
    const { hostname, port } = new URL(server.url);
    const socket = net.connect(Number(port), hostname, () => done(socket));
    socket.on('error', () => {});
    socket.on('close', () => { socket.over = true; });
  });

  test('H2: at the limit, one below and one above', async () => {
    const silent = [await dial(), await dial()];
    await sleep(300);
    assert.ok(!silent.some((s) => s.over), 'two fit');
    silent.push(await dial());
    await until(() => silent[0].over, { what: 'the oldest closed' });
    await sleep(300);
    assert.ok(!silent[1].over && !silent[2].over, 'the others not');
    silent.forEach((s) => s.destroy());
  });

  test('H2: trusted connections are closed only for trusted ones, idle ones first', async () => {
    const sockets = [];
    for (let i = 0; i < 11; i++) {
      sockets.push(await dial());
      assert.equal(await ask(sockets.at(-1)), 200);
    }
    const flood = new Flood(server);
    await flood.many(40);
    await sleep(300);
    assert.ok(!sockets.some((s) => s.over), 'eleven fit, whatever strangers do');
    assert.equal(await ask(sockets[0]), 200, 'the first is used again');
    sockets.push(await dial());
    assert.equal(await ask(sockets.at(-1)), 200, 'a twelfth');
    await until(() => sockets[1].over, { what: 'the one idle for longest closed' });
    assert.equal(sockets.filter((s) => s.over).length, 1);
    flood.end();
    sockets.forEach((s) => s.destroy());
  });
});

describe('H2: idle connections', () => {
  test('H2: are closed after their deadline, before and after a request', async () => {
    const server = await Glovebox.start({ config: { header_timeout_s: 1, idle_timeout_s: 1, pools: [pool({ ready: 0 })] } });
    try {
      const { hostname, port } = new URL(server.url);
      const over = (bytes) => new Promise((done) => {
        const socket = net.connect(Number(port), hostname, () => socket.write(bytes));
        socket.on('data', () => {});
        socket.on('close', () => done(true));
      });
      // Also one that never reads a long answer: the deadline of writing.
      const deaf = new Promise((done) => {
        const socket = net.connect(Number(port), hostname, () => {
          socket.pause();
          socket.write(`GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n`.repeat(200));
        });
        socket.on('error', () => {});
        setTimeout(() => { socket.resume(); socket.on('close', () => done(true)); }, 6000);
      });
      assert.deepEqual(await Promise.all([over(''), over('GET / HT'), over(`GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n`), deaf]), [true, true, true, true]);
    } finally {
      await stop(server);
    }
  });
});
