// SPDX-License-Identifier: Apache-2.0
// R8: a tenant whose requests hold all the threads it may have is refused
// more of them, but it can always delete: that may be what makes it less busy.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { Glovebox, pool, sleep, until } from '../../lib/glovebox.mjs';
import { stop } from '../../lib/wire.mjs';
import { Workspace } from '../../lib/workspace.mjs';

const WORKERS = 8;
let server;

before(async () => { server = await Glovebox.start({ config: { workers: WORKERS, max_executions: 4, body_timeout_s: 60, pools: [pool({ ready: 2 })] } }); });
after(() => stop(server));

// An upload that stops in the middle and holds its thread.
function stalled(workspace, i) {
  const { hostname, port } = new URL(server.url);
  const socket = connect({ host: hostname, port: Number(port) });
  socket.on('error', () => {});
  socket.write(`PUT /api/workspaces/${workspace}/files/slow${i} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${server.key}\r\nContent-Length: 1000000\r\n\r\n${'x'.repeat(100_000)}`);
  return socket;
}

test('R8: DELETE is never refused because its tenant is busy', async () => {
  const w = await Workspace.create(server, {});
  const sessions = [];
  for (let i = 0; i < 6; i++) sessions.push((await server.session()).id);
  const sockets = [];
  try {
    for (let i = 0; i < WORKERS - 1; i++) {
      sockets.push(stalled(w.id, i));
      await sleep(50);
    }
    await until(async () => (await server.call('GET', '/api/sessions')).status === 429, { ms: 20_000, what: 'the share to be used up' });
    const answers = await Promise.all(sessions.map((id) => server.call('DELETE', `/api/sessions/${id}`)));
    assert.deepEqual(answers.map((a) => a.status), sessions.map(() => 204));
    assert.equal((await server.call('GET', '/api/sessions')).status, 429, 'everything else still is');
  } finally {
    for (const s of sockets) s.destroy();
  }
  await until(async () => (await server.call('GET', '/api/sessions')).status === 200, { ms: 20_000, what: 'threads to be free again' });
});
