// SPDX-License-Identifier: Apache-2.0
// What the runtime `full` must be able to do. Run by `make test-full`, which
// builds the image; `make test` does not have it.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, describe, test } from 'node:test';
import { Glovebox, bin, pool, root } from '../../lib/glovebox.mjs';
import { Outside } from '../../lib/outside.mjs';

const HOST = 'page.outside.test';
const skip = process.env.GLOVEBOX_TEST_FULL ? false : 'the runtime full is not part of this run; use make test-full';
const LONG = { timeout: 300_000 };

if (skip) test('the runtime full', { skip }, () => {});
else describe('the runtime full', () => {
  let world, server, session;

  before(async () => {
    world = await Outside.open([HOST]);
    server = await Glovebox.start({ config: { ...world.config(),
      pools: [pool({ runtime: 'full', ready: 1, memory_bytes: '4GiB' })] } });
    session = await server.session({ network: { mode: 'allowlist', destinations: [{ host: HOST, ports: [world.port] }] } });
  });
  after(async () => {
    await server?.stop();
    world?.close();
  });

  const python = async (code) => {
    const ran = await session.python(code, { timeout_s: 240 });
    assert.equal(ran.outcome, 'ok', JSON.stringify(ran).slice(0, 4000));
    return ran.stdout.trim();
  };

  test('has at least 700 distributions, stubs not counted', LONG, () => {
    const shown = JSON.parse(spawnSync(bin('glovebox'), ['runtime', 'show', 'full', '--json', '--defs', `${root}/runtimes`],
      { encoding: 'utf8', maxBuffer: 1 << 26 }).stdout);
    assert.ok(shown.manifest.distributions.length >= 700, String(shown.manifest.distributions.length));
    const left = shown.manifest.missing.pip.map(({ name }) => name);
    for (const name of ['polars', 'duckdb', 'python-pptx', 'lightgbm', 'spacy', 'kaleido', 'pdfplumber', 'cvxpy', 'ortools', 'bokeh'])
      assert.ok(left.includes(name) || shown.manifest.distributions.some((d) => d.name.toLowerCase() === name), name);
  });

  test('imports the libraries it promises', LONG, async () => {
    const names = ['pyarrow', 'transformers', 'torch', 'playwright.sync_api', 'gensim', 'librosa', 'dask', 'xarray', 'h5py',
      'numba', 'geopandas', 'shapely', 'pyproj', 'xgboost', 'onnxruntime', 'nltk', 'altair', 'fitz', 'pdfminer', 'rich', 'pydantic',
      'httpx', 'aiohttp', 'boto3', 'azure.core', 'psycopg', 'pymongo', 'redis', 'ipywidgets', 'skimage', 'imageio', 'soundfile',
      'pulp', 'igraph', 'cryptography', 'paramiko', 'pytest', 'cartopy'];
    // A process each: some do not go together, and one crash must not hide the rest.
    assert.equal(await python(`
import subprocess, sys
bad = []
for name in ${JSON.stringify(names)}:
    p = subprocess.run([sys.executable, '-c', 'import ' + name], capture_output=True, text=True)
    if p.returncode: bad.append((name, (p.stderr.strip().splitlines() or ['crashed'])[-1]))
print(bad)`), '[]');
  });

  test('has the programs it promises', LONG, async () => {
    assert.equal(await python(`
import shutil
print([n for n in 'gcc make pandoc ffmpeg soffice Rscript node java javac go chromium tesseract duckdb llama-cli'.split() if not shutil.which(n)])`), '[]');
    assert.match(await python(`
import subprocess
print(subprocess.run(['Rscript', '-e', 'library(tidyverse); cat(nrow(filter(tibble(x = 1:5), x > 2)))'], capture_output=True, text=True).stdout)`), /3$/);
  });

  test('makes a PPTX without python-pptx, and a picture of it', LONG, async () => {
    assert.match(await python(`
import subprocess
open('deck.md', 'w').write('% Results\\n% Glovebox\\n\\n# First slide\\n\\n- one\\n- two\\n')
subprocess.run(['pandoc', 'deck.md', '-o', 'deck.pptx'], check=True)
subprocess.run(['soffice', '--headless', '--convert-to', 'pdf', 'deck.pptx'], check=True, capture_output=True)
print(subprocess.run(['pdftotext', 'deck.pdf', '-'], capture_output=True, text=True).stdout)`), /First slide/);
  });

  test('draws plotly figures as PNG, SVG and PDF files', LONG, async () => {
    assert.equal(await python(`
import numpy as np, plotly.express as px
fig = px.bar(x=['a', 'b </script>'], y=np.array([1, 3]), title='Sales')
fig.write_image('bar.png', width=400, height=300, scale=2)
fig.write_image('bar.svg')
fig.write_image('bar.pdf')
from PIL import Image
im = Image.open('bar.png')
print(im.size, len(im.convert('RGB').getcolors(1 << 20)) > 20, b'Sales' in open('bar.svg', 'rb').read(), open('bar.pdf', 'rb').read(4))
try: fig.write_image('bar.eps')
except ValueError as e: print('eps' in str(e))`), "(800, 600) True True b'%PDF'\nTrue");
  });

  test('draws a map', LONG, async () => {
    assert.equal(await python(`
import geopandas, matplotlib.pyplot as plt
from shapely.geometry import box, Point
land = geopandas.GeoDataFrame({'name': ['west', 'east']}, geometry=[box(0, 0, 4, 5), box(4, 0, 9, 5)], crs='EPSG:4326').to_crs('EPSG:3857')
ax = land.plot(column='name', legend=True)
geopandas.GeoSeries([Point(2, 2)], crs='EPSG:4326').to_crs('EPSG:3857').plot(ax=ax, color='black')
plt.savefig('map.png')
from PIL import Image
print(Image.open('map.png').size)`), '(640, 480)');
  });

  test('writes and reads Parquet', LONG, async () => {
    assert.equal(await python(`
import pandas as pd
df = pd.DataFrame({'a': range(1000), 'b': [str(i) for i in range(1000)]})
df.to_parquet('x.parquet')
print(pd.read_parquet('x.parquet').equals(df))`), 'True');
  });

  test('Playwright opens a page through the proxy and takes a screenshot', LONG, async () => {
    assert.equal(await python(`
import os, subprocess, sys
open('shot.py', 'w').write('''
from playwright.sync_api import sync_playwright
import os
with sync_playwright() as p:
    browser = p.chromium.launch(executable_path=os.environ["CHROME_BIN"], proxy={"server": os.environ["HTTP_PROXY"]})
    page = browser.new_page()
    page.goto("http://${HOST}:${world?.port}/shot")
    page.screenshot(path="shot.png")
    print(page.inner_text("body"))
''')
p = subprocess.run([sys.executable, 'shot.py'], capture_output=True, text=True)
print(p.stdout.strip() or p.stderr, open('shot.png', 'rb').read(4)[1:] if os.path.exists('shot.png') else None)`), `{"hello":"/shot"} b'PNG'`);
    assert.ok(world.requests.some(({ url }) => url === '/shot'));
  });
});
