// SPDX-License-Identifier: Apache-2.0
// The Azure door on the standard image: figures as results, packages, what
// the pool tells of itself.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Pool, V2024_02, V2025_02, refused } from '../../lib/azure.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { stop } from '../../lib/wire.mjs';

let server;
let p;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ runtime: 'standard', ready: 1 })] } });
  p = new Pool(server);
});
after(() => stop(server));

const image = (value) => {
  assert.deepEqual(Object.keys(value), ['type', 'format', 'base64_data']);
  assert.equal(value.type, 'image');
  return { format: value.format, bytes: Buffer.from(value.base64_data, 'base64') };
};
const isPng = (value) => {
  const { format, bytes } = image(value);
  assert.equal(format, 'png');
  assert.equal(bytes.subarray(0, 8).toString('hex'), '89504e470d0a1a0a');
  return { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
};

test('a figure is the result, in every family, shown or not, and wins over a value', async () => {
  const draw = 'import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\n';
  isPng((await p.run(`${draw}plt.show()`)).body.result.executionResult);
  isPng((await p.run(`${draw}42`)).body.result.executionResult);
  isPng((await p.at(V2024_02).wrapped(`${draw}plt.savefig('/mnt/data/plot.png')\nprint('saved')`)).body.properties.result);
  isPng((await p.at(null).legacy(draw)).body.result);
  assert.deepEqual(await p.names(), ['plot.png']);
});

test('displays are in stdout, in order; a figure of plotly is a file and says so', async () => {
  const q = p.other();
  const { result } = (await q.run("import pandas as pd\nprint('a')\ndisplay(pd.DataFrame({'n': [1]}))\nprint('b')\npd.DataFrame({'n': [1]})")).body;
  assert.equal(result.stdout, 'a\n|  | n |\n| --- | --- |\n| 0 | 1 |\nb\n');
  assert.equal(result.executionResult, '   n\n0  1', 'a value is text as the library prints it');
  const figure = (await q.run("import plotly.express as px\npx.line(x=[1], y=[2])")).body.result;
  assert.equal(figure.stdout, '[interactive figure (scatter) saved as figure-1.html]\n');
  assert.deepEqual(await q.names(), ['figure-1.html']);
  const page = (await q.run("from IPython.display import HTML\nHTML('<b>bold</b>')")).body.result;
  assert.equal(page.executionResult, 'bold');
});

test('of several pictures the first is told', async () => {
  const got = await p.run('import matplotlib.pyplot as plt\nplt.figure(figsize=(2, 1), dpi=50); plt.plot([1]); plt.show()\nplt.figure(figsize=(4, 4), dpi=50); plt.plot([2]); plt.show()');
  const size = isPng(got.body.result.executionResult);
  assert.ok(size.width > size.height, JSON.stringify(size));
});

test('a picture that is the value itself, and other formats', async () => {
  isPng((await p.run('from PIL import Image\nImage.new("RGB", (3, 2))')).body.result.executionResult);
  const svg = image((await p.run('from IPython.display import SVG\nSVG("<svg xmlns=\\"http://www.w3.org/2000/svg\\"/>")')).body.result.executionResult);
  assert.equal(svg.format, 'svg');
  assert.match(svg.bytes.toString(), /^<svg/);
});

test('a figure drawn before an exception is not a result', async () => {
  const got = (await p.run('import matplotlib.pyplot as plt\nplt.plot([1]); plt.show()\n1/0')).body;
  assert.deepEqual([got.status, got.result.executionResult], ['Failed', null]);
});

test('a table is its text', async () => {
  const got = (await p.run('import pandas as pd\npd.DataFrame({"a": [1, 2]})')).body.result.executionResult;
  assert.equal(got, '   a\n0  1\n1  2');
  for (const [shown, result] of [['np.int64(7)', 7], ['np.float64(-1.5)', -1.5], ['np.uint8(255)', 255], ['np.float32("nan")', 'np.float32(nan)'], ['[np.int64(1)]', '[np.int64(1)]']])
    assert.deepEqual((await p.run(`import numpy as np\n${shown}`)).body.result.executionResult, result);
});

test('packages are listed as clients list them', async () => {
  const listed = (await p.at(V2024_02).wrapped('import pkg_resources\n[d.project_name for d in pkg_resources.working_set]')).body.properties;
  assert.equal(listed.status, 'Success', listed.stderr);
  assert.equal(listed.stderr, '', 'no noise');
  const names = listed.result.split(',\n').map((n) => n.replace(/[[\]' ]/g, ''));
  for (const name of ['numpy', 'pandas', 'matplotlib']) assert.ok(names.includes(name), listed.result.slice(0, 500));
});

test('metadata: the interpreter and its packages', async () => {
  for (const version of [V2025_02, undefined]) {
    const got = await (version ? p.at(version) : p).get('metadata', { identifier: null });
    assert.equal(got.status, 200, got.text);
    const { runtimes, preInstalledPackages, createdAt, lastUpdatedAt, jupyterKernel } = got.body;
    assert.equal(runtimes[0].name, 'python');
    assert.equal(runtimes[0].version, (await p.run('import platform; platform.python_version()')).body.result.executionResult);
    const numpy = preInstalledPackages.find((one) => one.name === 'numpy');
    assert.equal(numpy.version, (await p.run('import numpy; numpy.__version__')).body.result.executionResult);
    assert.ok(createdAt && lastUpdatedAt && jupyterKernel.name && jupyterKernel.version);
  }
  refused(await p.at(V2024_02).get('metadata'), 400, 'SessionRequestNotSupported');
});
