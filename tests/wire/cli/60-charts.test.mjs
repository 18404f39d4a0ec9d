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

test('HTML without a text form and plotly figures are saved; a value with a text form is printed', async () => {
  const code = `from IPython.display import HTML, display
display(HTML("<b>bold</b>"))
display({"application/vnd.plotly.v1+json": {"data": [1]}}, raw=True)
class Both:
    def _repr_html_(self): return "<i>html</i>"
    def __repr__(self): return "plain text"
Both()`;
  const { stdout, stderr } = await cli.ok(['run', '--charts', 'pages', '-c', code]);
  assert.equal(stdout, 'plain text\n');
  assert.match(stderr, /^page saved: pages\/output-1\.html\nfigure saved: pages\/output-1\.plotly\.json\n$/m);
  assert.equal(readFileSync(join(cli.cwd, 'pages/output-1.html'), 'utf8'), '<b>bold</b>');
  assert.deepEqual(JSON.parse(readFileSync(join(cli.cwd, 'pages/output-1.plotly.json'), 'utf8')), { data: [1] });
});

test('inline images where the terminal has them, and nowhere else; tracebacks in colour', async () => {
  const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
  const line = ['run', '--charts', 'inline', '-c', `import base64; from IPython.display import Image, display; display(Image(base64.b64decode("${png}")))`];
  const shown = async (env) => (await cli.run(line, { terminal: true, env })).stdout;
  assert.ok((await shown({ TERM: 'xterm-kitty' })).includes(`\x1b_Ga=T,f=100,m=0;${png}\x1b\\`));
  assert.ok((await shown({ TERM_PROGRAM: 'iTerm.app' })).includes(`\x1b]1337;File=inline=1:${png}\x07`));
  assert.doesNotMatch(await shown({}), /1337|_G/);
  assert.doesNotMatch(await shown({ TERM: 'xterm-kitty', NO_COLOR: '1' }), /_G/);
  assert.doesNotMatch((await cli.run(line, { env: { TERM: 'xterm-kitty' } })).stdout, /_G/, 'not into a pipe');
  // A terminal is asked for sixel graphics and believed only if it lists them.
  const answered = async (answer) => {
    const run = cli.start(line, { terminal: true });
    await run.shows(/\x1b\[c/);
    run.child.stdin.write(answer);
    return (await run.ended).stdout;
  };
  assert.match(await answered('\x1b[?62;4;22c'), /\x1bP[0-9;]*q[^\x1b]+\x1b\\/);
  for (const answer of ['\x1b[?62;14;44c', '\x1b[?4x;4c', 'no answer'])
    assert.doesNotMatch(await answered(answer), /\x1bP/);
  // What a session prints itself still does not reach the terminal.
  const forged = ['run', '-c', `print("\\x1b_Ga=T,f=100,m=0;${png}\\x1b\\\\")`];
  assert.doesNotMatch((await cli.run(forged, { terminal: true, env: { TERM: 'xterm-kitty' } })).stdout, /\x1b_G/);
  const failed = (await cli.run(['run', '-c', '1 / 0'], { terminal: true })).stdout;
  assert.match(failed, /\x1b\[31mZeroDivisionError: division by zero\x1b\[0m/);
  assert.doesNotMatch((await cli.run(['run', '-c', '1 / 0'])).stderr, /\x1b/);
});
