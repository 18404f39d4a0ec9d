// SPDX-License-Identifier: Apache-2.0
// R2: what memory sessions may ask for follows the machine, and what they may
// use together is a setting that is held, shown and warned about.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { refused, stop } from '../../lib/wire.mjs';

const MiB = 1 << 20;
const GiB = 1024 * MiB;

async function serving(config, fn) {
  const server = await Glovebox.start({ config: { pools: [pool({ ready: 0 })], ...config } });
  try {
    await fn(server, (memory_bytes) => server.call('POST', '/api/sessions', { limits: { memory_bytes }, persistence: 'ephemeral' })); // they cannot sleep to make room
  } finally {
    await stop(server);
  }
}

test('R2: a session may ask for four fifths of the machine, and is told so above that', () => serving({}, async (server, make) => {
  const posture = await server.ok('GET', '/api/posture');
  const most = posture.pools[0].max_memory_bytes;
  assert.ok(most <= posture.memory.machine_bytes * 0.8 && most > posture.memory.machine_bytes * 0.79, `${most}`);
  assert.equal(posture.memory.overcommit, 50);
  assert.equal((await make(most - MiB)).status, 201, 'below');
  assert.equal((await make(most)).status, 201, 'at');
  refused(await make(most + 1), 400, 'invalid_request', new RegExp(`to ${most} in this pool`));
  if (most < 64 * GiB) {
    refused(await server.call('POST', '/api/sessions', { limits: { memory: '64g' } }), 400, 'invalid_request', new RegExp(`${most}`));
    const { status, body } = await server.call('POST', '/v1/containers', { name: 'x', memory_limit: '64g' });
    assert.equal(status, 400);
    assert.match(body.error.message, /at most \d+ MiB; the largest memory_limit is '(1|4|16)g'/);
  }
  // Both together could use more than there is: doctor and metrics say it.
  const now = await server.ok('GET', '/api/posture');
  assert.equal(now.memory.granted_bytes, 2 * most - MiB);
  assert.equal(now.memory.exceeded, true);
  const metrics = (await server.call('GET', '/metrics')).text;
  assert.match(metrics, new RegExp(`glovebox_memory_granted_bytes ${2 * most - MiB}\n`));
  const cli = new Cli(server);
  const doctor = await cli.run(['doctor']);
  assert.match(doctor.stdout, /memory, running +warn/);
  assert.match(doctor.stdout, /memory_overcommit/);
  cli.close?.();
}));

test('R2: with an overcommit of one, live sessions never may use more than there is', () => serving({ memory_overcommit: 1 }, async (server, make) => {
  const { machine_bytes } = (await server.ok('GET', '/api/posture')).memory;
  const half = Math.floor(machine_bytes / 2 / MiB) * MiB;
  const first = await make(half);
  assert.equal(first.status, 201);
  const over = await make(machine_bytes - half + MiB);
  refused(over, 429, 'overloaded', /above the machine's limit/);
  assert.ok(Number(over.headers.get?.('retry-after') ?? over.headers['retry-after']) > 0);
  assert.equal((await make(machine_bytes - half)).status, 201, 'at it');
  refused(await server.call('POST', '/api/sessions', { limits: { memory_bytes: 64 * MiB } }), 429, 'overloaded');
  assert.equal((await server.call('DELETE', `/api/sessions/${first.body.id}`)).status, 204);
  assert.equal((await make(half)).status, 201, 'room again');
}));
