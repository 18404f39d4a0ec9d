// SPDX-License-Identifier: Apache-2.0
// What `glovebox serve` prints when it starts can be typed as it is printed,
// and at once: the first call waits for the runtime instead of failing.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';

test('the command that the service suggests works as printed', async () => {
  const g = await Glovebox.start({ config: { pools: [pool()] }, wait: false });
  try {
    const suggested = await until(() => /^try: (.+)$/m.exec(g.log)?.[1], { ms: 20_000, what: 'a suggested command' });
    assert.match(suggested, /--data \S+/, 'another data directory than the default one is named');
    const done = spawnSync('sh', ['-c', suggested],
      { encoding: 'utf8', timeout: 60_000, env: { PATH: process.env.PATH, HOME: '/nonexistent' } });
    assert.equal(done.stdout, '42\n', done.stderr);
    assert.equal(done.status, 0);
  } finally {
    await g.stop();
  }
});
