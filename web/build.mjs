// SPDX-License-Identifier: Apache-2.0
// Bundles the console into a directory (default: dist): index.html, frame.html
// and assets/ with hashed names. `make` runs it; `node build.mjs --watch`
// rebuilds on change. It reads node_modules and src, and needs no network.
import { build, context } from 'esbuild';
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const here = dirname(fileURLToPath(import.meta.url));
const args = process.argv.slice(2);
const watch = args.includes('--watch');
const target = resolve(args.find((arg) => !arg.startsWith('--')) ?? join(here, 'dist'));
// Whole or not at all: what serves the old files is not disturbed meanwhile.
const out = watch ? target : `${target}.new-${process.pid}`;
const assets = join(out, 'assets');

// The browser waits for this much before anything is seen: the page, the styles
// and the modules that main imports, compressed. Screens come afterwards.
const FIRST_LOAD_MAX = 250_000;

// One style sheet: the tokens, the shell, then every screen's own file.
function styleSheets(dir) {
  return readdirSync(dir, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1)).flatMap((entry) => {
    const at = join(dir, entry.name);
    if (entry.isDirectory()) return styleSheets(at);
    return entry.name.endsWith('.css') ? [at] : [];
  });
}

const styles = {
  name: 'styles',
  setup(b) {
    b.onResolve({ filter: /^glovebox:styles$/ }, () => ({ path: 'all.css', namespace: 'styles' }));
    b.onLoad({ filter: /.*/, namespace: 'styles' }, () => {
      const first = ['tokens', 'base', 'components', 'shell'].map((name) => join(here, 'src/styles', `${name}.css`));
      const rest = [...styleSheets(join(here, 'src/ui')), ...styleSheets(join(here, 'src/screens'))];
      return {
        contents: [...first, ...rest].map((at) => `@import ${JSON.stringify(`./${relative(here, at)}`)};`).join('\n'),
        loader: 'css',
        resolveDir: here,
        watchFiles: [...first, ...rest],
        watchDirs: [join(here, 'src/screens')],
      };
    });
  },
};

const common = {
  absWorkingDir: here,
  bundle: true,
  minify: !args.includes('--readable'),
  legalComments: 'none',
  target: ['es2022', 'chrome111', 'firefox115', 'safari16.4'],
  logLevel: 'warning',
};

const hash = (bytes) => createHash('sha256').update(bytes).digest('hex').slice(0, 10);

// frame.html carries its script inline: an opaque origin cannot load it.
async function writeFrame() {
  const made = await build({ ...common, entryPoints: ['src/frame/frame.ts'], write: false, format: 'iife' });
  const page = readFileSync(join(here, 'src/frame/frame.html'), 'utf8');
  const script = made.outputFiles[0].text.trim().replaceAll('</script', '<\\/script');
  writeFileSync(join(out, 'frame.html'), page.replace('<!--script-->', () => `<script>${script}</script>`));
}

// plotly is no module of ours: its text is handed to a frame.
function copyPlotly() {
  const bytes = readFileSync(join(here, 'node_modules/plotly.js-strict-dist-min/plotly-strict.min.js'));
  const name = `plotly-${hash(bytes)}.js`;
  writeFileSync(join(assets, name), bytes);
  return name;
}

function writeIndex(result) {
  const outputs = Object.entries(result.metafile.outputs);
  const find = (entry, end) => outputs.find(([at, o]) => o.entryPoint === entry && at.endsWith(end))?.[0];
  const main = find('src/main.tsx', '.js');
  const css = outputs.find(([at]) => /main-[A-Z0-9]+\.css$/.test(at))?.[0] ?? result.metafile.outputs[main].cssBundle;
  const url = (at) => `/console/assets/${at.split('/').pop()}`;
  // What main needs statically is fetched beside it, not after it.
  const modules = new Set();
  const follow = (at) => {
    for (const i of result.metafile.outputs[at].imports) {
      if (i.kind !== 'import-statement' || modules.has(i.path)) continue;
      modules.add(i.path);
      follow(i.path);
    }
  };
  follow(main);
  const preload = [...modules].map((at) => `<link rel="modulepreload" href="${url(at)}">`).join('\n');
  const page = readFileSync(join(here, 'src/index.html'), 'utf8')
    .replace('<!--head-->', () => `<link rel="stylesheet" href="${url(css)}">\n${preload}\n<script type="module" src="${url(main)}"></script>`);
  writeFileSync(join(out, 'index.html'), page);
  const bytes = [page, ...[main, css, ...modules].map((at) => readFileSync(join(here, at)))].reduce((sum, part) => sum + gzipSync(part, { level: 9 }).length, 0);
  if (bytes > FIRST_LOAD_MAX) throw new Error(`the first load is ${bytes} bytes compressed; at most ${FIRST_LOAD_MAX} are allowed. Import what a screen needs in that screen, not in src/main.tsx or src/app`);
}

rmSync(out, { recursive: true, force: true });
mkdirSync(assets, { recursive: true });
const plotly = copyPlotly();
const options = {
  ...common,
  entryPoints: ['src/main.tsx'],
  outdir: assets,
  publicPath: '/console/assets',
  format: 'esm',
  splitting: true,
  metafile: true,
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  assetNames: '[name]-[hash]',
  loader: { '.woff2': 'file', '.svg': 'file' },
  define: {
    'process.env.NODE_ENV': watch ? '"development"' : '"production"',
    PLOTLY_URL: JSON.stringify(`/console/assets/${plotly}`),
  },
  jsx: 'automatic',
  plugins: [styles, {
    name: 'pages',
    setup: (b) => b.onEnd(async (result) => {
      if (result.errors.length) return;
      writeIndex(result);
      await writeFrame();
    }),
  }],
};
cpSync(join(here, 'src/icon.svg'), join(assets, 'icon.svg'));
if (watch) await (await context(options)).watch();
else {
  try {
    await build(options);
    rmSync(target, { recursive: true, force: true });
    renameSync(out, target);
  } catch (error) {
    rmSync(out, { recursive: true, force: true });
    // esbuild has printed its own errors, but not those of onEnd.
    for (const { text, pluginName } of error.errors ?? []) if (pluginName === 'pages') console.error(text);
    if (!error.errors) console.error(error);
    process.exitCode = 1;
  }
}
