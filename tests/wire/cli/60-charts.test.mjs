// SPDX-License-Identifier: Apache-2.0
// Charts: figures of a session become files beside the caller, never over one
// that is there, and are said where. Needs the standard image.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';

const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const plot = (n = 1) => `import matplotlib.pyplot as plt\nfor i in range(${n}):\n    plt.figure(); plt.plot([1, i]); plt.show()\nprint("done")`;
let server;
let cli;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ runtime: 'standard' })] } });
  cli = new Cli(server);
});

after(async () => {
  cli?.close();
  await server?.stop();
});

const isPng = (path) => assert.ok(readFileSync(path).subarray(0, 8).equals(PNG), path);

test('charts are saved under the first free number and named on standard error', async () => {
  writeFileSync(join(cli.cwd, 'chart-1.png'), 'mine');
  const { stdout, stderr } = await cli.ok(['run', '-c', plot(2)]);
  assert.equal(stdout, 'done\n');
  assert.equal(stderr, 'chart saved: chart-2.png\nchart saved: chart-3.png\n');
  isPng(join(cli.cwd, 'chart-2.png'));
  isPng(join(cli.cwd, 'chart-3.png'));
  assert.equal(readFileSync(join(cli.cwd, 'chart-1.png'), 'utf8'), 'mine');
});

test('--charts names the folder, and makes it', async () => {
  assert.match((await cli.ok(['run', '--charts', 'figures', '-c', plot()])).stderr, /^chart saved: figures\/chart-1\.png$/m);
  isPng(join(cli.cwd, 'figures/chart-1.png'));
});

test('--json keeps charts in the object, and saves them only if asked to', async () => {
  const before_ = readdirSync(cli.cwd);
  const object = await cli.json(['run', '-c', plot()]);
  assert.ok(Buffer.from(object.displays[0]['image/png'], 'base64').subarray(0, 8).equals(PNG));
  assert.deepEqual(readdirSync(cli.cwd), before_);
  await cli.json(['run', '--charts', 'asked', '-c', plot()]);
  isPng(join(cli.cwd, 'asked/chart-1.png'));
});

test('a data frame is shown as text, an SVG is saved as one', async () => {
  const frame = await cli.ok(['run', '-c', 'import pandas as pd\npd.DataFrame({"a": [1, 2]})']);
  assert.equal(frame.stdout, '   a\n0  1\n1  2\n');
  const svg = await cli.ok(['run', '-c', 'from IPython.display import SVG\nSVG(\'<svg xmlns="http://www.w3.org/2000/svg"/>\')']);
  assert.match(svg.stderr, /chart saved: chart-1\.svg/);
  assert.match(readFileSync(join(cli.cwd, 'chart-1.svg'), 'utf8'), /^<svg/);
});

test('a folder that cannot be written loses the chart, not the run', async () => {
  writeFileSync(join(cli.cwd, 'file'), '');
  const { stdout, stderr } = await cli.ok(['run', '--charts', 'file', '-c', plot()]);
  assert.equal(stdout, 'done\n');
  assert.match(stderr, /could not be saved in file/);
  assert.ok(!existsSync(join(cli.cwd, 'file/chart-1.png')));
});
