// SPDX-License-Identifier: Apache-2.0
// What the standard image shows without being asked: figures, tables,
// formulas, plots; and what it says of itself.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { inflateSync } from 'node:zlib';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { changed, refused, request, stop } from '../../lib/wire.mjs';

let server;
let s;

before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ runtime: 'standard', ready: 1 }), pool({ name: 'small' })] } });
  s = await server.session();
});
after(() => stop(server));

const run = async (code) => {
  const e = await s.python(code);
  assert.equal(e.outcome, 'ok', `${JSON.stringify(e.error)}\n${e.stderr}`);
  return e;
};

// Width, height and the pixels of an 8-bit RGB(A) PNG, rows unfiltered.
function png(base64) {
  const b = Buffer.from(base64, 'base64');
  assert.equal(b.subarray(0, 8).toString('hex'), '89504e470d0a1a0a');
  assert.equal(b.subarray(12, 16).toString(), 'IHDR');
  const width = b.readUInt32BE(16);
  const height = b.readUInt32BE(20);
  assert.equal(b[24], 8);
  const n = { 2: 3, 6: 4 }[b[25]];
  const parts = [];
  for (let at = 8; at < b.length;) {
    const length = b.readUInt32BE(at);
    if (b.subarray(at + 4, at + 8).toString() === 'IDAT') parts.push(b.subarray(at + 8, at + 8 + length));
    at += 12 + length;
  }
  const raw = inflateSync(Buffer.concat(parts));
  const stride = width * n;
  const out = Buffer.alloc(stride * height);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (stride + 1)];
    for (let i = 0; i < stride; i++) {
      const left = i >= n ? out[y * stride + i - n] : 0;
      const up = y ? out[(y - 1) * stride + i] : 0;
      const corner = y && i >= n ? out[(y - 1) * stride + i - n] : 0;
      const p = left + up - corner;
      const [pa, pb, pc] = [left, up, corner].map((v) => Math.abs(p - v));
      const paeth = pa <= pb && pa <= pc ? left : pb <= pc ? up : corner;
      const add = [0, left, up, (left + up) >> 1, paeth][filter];
      out[y * stride + i] = (raw[y * (stride + 1) + 1 + i] + add) & 255;
    }
  }
  return { width, height, n, pixels: out };
}

test('a figure is captured as PNG without being asked for, once, and closed', async () => {
  const e = await run('import matplotlib.pyplot as plt\nplt.plot([1, 3, 2]); None');
  assert.equal(e.displays.length, 1);
  const { width, height } = png(e.displays[0]['image/png']);
  assert.ok(width > 300 && height > 200);
  assert.match(e.displays[0]['text/plain'], /Figure/);
  assert.equal((await run('len(plt.get_fignums())')).result['text/plain'], '0');
  assert.equal((await run('1')).displays.length, 0, 'not again with the next cell');
  assert.equal((await run('plt.plot([1]); plt.show(); print("after")')).displays.length, 1);
  assert.equal((await run('for i in range(3):\n    plt.figure(); plt.plot([i])')).displays.length, 3);
  const shown = await run('fig, ax = plt.subplots(); ax.bar([1, 2], [3, 4]); fig');
  assert.equal(shown.displays.length + Number(Boolean(shown.result?.['image/png'])), 1, 'shown as the value, not twice');
  const saved = await run('plt.plot([1, 2]); plt.savefig("chart.png"); plt.close()');
  assert.deepEqual(changed(saved), { created: ['chart.png'] });
  assert.equal(saved.displays.length, 0);
  const failed = await s.python('plt.plot([1]); 1/0');
  assert.equal(failed.outcome, 'error');
});

// A font without the letter draws the same box for every letter. So: two
// letters drawn alone must differ, and no glyph may be reported missing.
test('titles in Chinese, Japanese, Korean, Arabic, Hindi and emoji have their letters', async () => {
  for (const [script, one, two] of [['Chinese', '销', '售'], ['Japanese', 'あ', 'ん'], ['Korean', '한', '글'], ['Arabic', 'ع', 'ب'],
    ['Hindi', 'क', 'ख']]) {
    const draw = (letter) => `fig, ax = plt.subplots(figsize=(1, 1), dpi=100); ax.axis("off"); ax.text(0.1, 0.2, ${JSON.stringify(letter)}, fontsize=48); plt.show()`;
    const [a, b] = [await run(draw(one)), await run(draw(two))];
    for (const e of [a, b]) assert.doesNotMatch(e.stderr, /[Gg]lyph|missing/, script);
    const pictures = [a, b].map((e) => png(e.displays[0]['image/png']));
    const ink = pictures.map((p) => p.pixels.filter((v, i) => i % p.n === 0 && v < 128).length);
    assert.ok(ink[0] > 40 && ink[1] > 40, `${script} draws something: ${ink}`);
    assert.notDeepEqual(pictures[0].pixels, pictures[1].pixels, `${script}: two letters, one picture`);
  }
  const title = await run('plt.plot([1, 2]); plt.title("季度销售额 2026年 😀 نص हिन्दी"); plt.xlabel("月份"); plt.show()');
  assert.doesNotMatch(title.stderr, /[Gg]lyph|missing|findfont/);
  const minus = await run('plt.plot([-1, -2]); plt.title("负数"); plt.show()');
  assert.equal(minus.stderr, '');
});

test('tables, formulas, plots and pictures come as bundles', async () => {
  const frame = await run('import pandas as pd, numpy as np\npd.DataFrame({"a": [1, 2], "ü": ["x", None]})');
  assert.match(frame.result['text/html'], /<table[\s\S]*ü/);
  assert.match(frame.result['text/plain'], /a\s+ü/);
  const formula = await run('import sympy\nx = sympy.symbols("x")\nsympy.Integral(sympy.sqrt(1 / x), x)');
  assert.match(formula.result['text/latex'], /\\int/);
  const plotly = await run('import plotly.graph_objects as go\ngo.Figure(go.Bar(y=[2, 1, 3]))');
  const bundle = plotly.result?.['application/vnd.plotly.v1+json'] ?? plotly.displays[0]['application/vnd.plotly.v1+json'];
  assert.equal(bundle.data[0].type, 'bar');
  const shown = await run('go.Figure(go.Scatter(y=[1, 2])).show()');
  assert.equal(shown.displays[0]['application/vnd.plotly.v1+json'].data[0].type, 'scatter');
  const image = await run('from PIL import Image\nImage.new("RGB", (7, 5), "red")');
  const { width, height } = png(image.result['image/png']);
  assert.deepEqual([width, height], [7, 5]);
  const seaborn = await run('import seaborn as sns\nsns.histplot(pd.Series(np.arange(20)))');
  assert.equal(seaborn.displays.length, 1);
});

test('cores, threads and memory are those granted', async () => {
  const e = await run(`
import os, numpy as np, threadpoolctl, multiprocessing
pools = threadpoolctl.threadpool_info()
os.cpu_count(), len(os.sched_getaffinity(0)) >= 1, multiprocessing.cpu_count(), max([p["num_threads"] for p in pools] or [1]), os.environ.get("OMP_NUM_THREADS")`);
  assert.equal(e.result['text/plain'], "(1, True, 1, 1, '1')");
  assert.equal((await s.shell('nproc')).stdout, '1\n');
});

test('the packages of the standard image import and work', async () => {
  const e = await run(`
import importlib
names = "numpy pandas scipy statsmodels.api sklearn sympy networkx matplotlib seaborn plotly PIL cv2 reportlab weasyprint markdown openpyxl xlsxwriter docx odf pypdf lxml.etree bs4 requests yaml tabulate sqlite3".split()
bad = []
for n in names:
    try: importlib.import_module(n)
    except Exception as e: bad.append((n, repr(e)))
import pandas as pd
pd.DataFrame({"a": [1]}).to_excel("t.xlsx"); back = pd.read_excel("t.xlsx")["a"][0]
bad, int(back)`);
  assert.equal(e.result['text/plain'], '([], 1)');
  const tools = await s.shell('for t in grep awk sed jq rg git sqlite3 zip unzip pdftotext file curl; do command -v $t >/dev/null || echo missing $t; done');
  assert.doesNotMatch(tools.stdout, /missing (?!curl)/);
});

test('runtimes list what is in them', async () => {
  const list = (await request(server, 'GET', '/api/runtimes')).body;
  assert.deepEqual(list.data.map((r) => r.name).sort(), ['full', 'minimal', 'standard']);
  assert.equal(list.has_more, false);
  const one = (await request(server, 'GET', '/api/runtimes/standard')).body;
  for (const field of ['name', 'description', 'suite', 'hash', 'built', 'python', 'architecture', 'built_at', 'size_bytes', 'distributions', 'missing', 'packages', 'fonts', 'preload'])
    assert.ok(field in one, field);
  assert.equal(one.suite, 'forky');
  assert.match(one.python, /^3\.1[4-9]/);
  const versions = Object.fromEntries(one.distributions.map((d) => [d.name.toLowerCase(), d.version]));
  assert.match(versions.pandas, /^[2-9]\.\d/);
  assert.match(versions.numpy, /^[2-9]\.\d/);
  assert.deepEqual(Object.keys(one.missing), ['packages', 'fonts', 'pip', 'npm', 'modules']);
  assert.equal((await run('import importlib.metadata as m; m.version("pandas")')).result['text/plain'], `'${versions.pandas}'`);
  refused(await request(server, 'GET', '/api/runtimes/nope'), 404, 'not_found');
  refused(await request(server, 'GET', '/api/runtimes/..%2f..%2fetc'), 404, 'not_found');
});

test('pools and limits are shown as configured', async () => {
  const pools = (await request(server, 'GET', '/api/pools')).body;
  assert.deepEqual(pools.data.map((p) => p.name), ['default', 'small']);
  const one = (await request(server, 'GET', '/api/pools/small')).body;
  assert.deepEqual(one, { ...pools.data[1], ready: one.ready });
  assert.equal(one.runtime, 'minimal');
  refused(await request(server, 'GET', '/api/pools/nope'), 404, 'not_found');
  const limits = (await request(server, 'GET', '/api/limits')).body;
  assert.equal(limits.json_bytes, 4 * 1024 * 1024);
  assert.equal(limits.code_bytes, 1024 * 1024);
  assert.equal(limits.upload_bytes, 128 * 1024 * 1024);
});

test('a session may take the runtime of another pool', async () => {
  const other = await server.session({ runtime: 'minimal' });
  assert.equal(other.made.runtime, 'minimal');
  assert.equal((await other.python('import numpy')).error.name, 'ModuleNotFoundError');
  await other.delete();
});
