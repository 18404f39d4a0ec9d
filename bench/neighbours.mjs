// SPDX-License-Identifier: Apache-2.0
// A warm execution of one tenant while another asks for too much of something:
// the 95th percentile beside that of the same alone, in turn. The first tenant
// is never refused; an answer that is not the right one ends the run.
import { Glovebox, sleep } from '../tests/lib/glovebox.mjs';
import { BOMBS, Witness, bomb, calm, p95 } from '../tests/lib/neighbours.mjs';

const MOST = 3;

async function beside(c, kind) {
  const idle = [], bombed = [];
  for (let i = 0; i < 2; i++) {
    idle.push(...await c.witness.times(c.rounds(150)));
    const load = await bomb(c.server, c.bomber.key, kind);
    try {
      bombed.push(...await c.witness.times(c.rounds(150)));
    } finally {
      await load.stop();
      await calm(c.server, c.bomber);
      await sleep(500);
    }
  }
  const ratio = p95(bombed) / p95(idle);
  return { met: ratio <= MOST,
    facts: { p95_ms: p95(bombed).toFixed(2), p95_ms_alone: p95(idle).toFixed(2), ratio: ratio.toFixed(2) } };
}

export const neighbours = {
  config: { pools: [{ name: 'ready', runtime: 'standard', memory_bytes: '256MiB', scratch_bytes: '64MiB', scratch_inodes: 5000 }] },
  async begin(c) {
    c.server = Object.assign(new Glovebox(c.daemon.dir), { url: c.daemon.url, key: c.daemon.key });
    c.bomber = await c.server.tenant('bomber');
    const tenant = await c.server.tenant('witness');
    c.witness = new Witness(c.server, tenant.key, (await c.server.session({}, tenant)).id);
    await c.witness.times(20);
    c.daemon.settled = async () => {}; // the witness's session stays
  },
  async end(c) { c.witness?.close(); },
  workloads: BOMBS.map((kind) => ({ run: (c) => beside(c, kind),
    lines: [{ name: `W9_${kind}`, aim: { text: `≤ ${MOST} ×` }, what: `warm \`print(1)\` beside a tenant's bomb of ${kind}, p95` }] })),
};
