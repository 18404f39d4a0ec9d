// SPDX-License-Identifier: Apache-2.0
// The notebook: cells on a real session, every kind of output, the keys, and
// what survives a reload, a second tab and a restart.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { until } from '../lib/glovebox.mjs';
import { axe, fits, person, shot } from '../lib/console.mjs';

const notebook = (cells) => JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: {}, cells: cells.map((cell, i) => ({ id: `c${i}`, cell_type: 'code', metadata: {}, source: '', ...(cell.cell_type ? {} : { outputs: [], execution_count: null }), ...cell })) });

// A notebook with these cells, open in a page.
async function open(who, cells, name = 'Trial') {
  const ws = await who.api('POST', '/api/workspaces', { name });
  if (cells) await who.api('PUT', `/api/workspaces/${ws.id}/files/notebook.ipynb`, notebook(cells), { raw: true });
  const page = await who.open(`#/notebook/${ws.id}`);
  await page.locator('.cm-content, .cell-markdown').first().waitFor();
  return { page, ws };
}
const cell = (page, n) => page.locator('.cell').nth(n);
const ran = (page, n, state = 'done') => cell(page, n).locator('.cell-state', { hasText: state }).waitFor({ timeout: 60_000 });
const saved = (page) => page.getByText('Saved', { exact: true }).waitFor();
const runAll = async (page) => {
  await page.getByRole('button', { name: 'More' }).first().click();
  await page.getByRole('menuitem', { name: 'Run all', exact: true }).click();
};

test('a new notebook runs what is typed, and keeps it as a file', async () => {
  const who = await person();
  const page = await who.open('#/notebook');
  await page.getByRole('button', { name: 'New notebook' }).first().click();
  await page.locator('.cm-content').first().click();
  await page.keyboard.type('x = 6\nprint("live", x * 7)\nx');
  await page.keyboard.press('Shift+Enter');
  await ran(page, 0);
  await cell(page, 0).getByText('live 42').waitFor();
  await cell(page, 0).locator('.output-result', { hasText: '6' }).waitFor();
  assert.equal(await page.locator('.cell').count(), 2, 'Shift+Enter makes a cell at the end');
  await page.keyboard.type('x + 1');
  await page.keyboard.press('Control+Enter');
  await cell(page, 1).locator('.output-result', { hasText: '7' }).waitFor();
  await page.getByRole('button', { name: 'Variables' }).click({ force: true });
  await page.getByRole('list', { name: 'Variables' }).getByText('x', { exact: true }).waitFor().catch(async () => {
    await page.getByRole('button', { name: 'Variables' }).click();
    await page.getByRole('list', { name: 'Variables' }).getByText('x', { exact: true }).waitFor();
  });
  await saved(page);
  const ws = /ws_[0-9a-f]+/.exec(page.url())[0];
  const file = await until(async () => {
    const text = (await who.g.call('GET', `/api/workspaces/${ws}/files/notebook.ipynb`, undefined, { key: who.key })).text;
    return text.includes('"7"') && JSON.parse(text);
  }, { what: 'the saved notebook' });
  assert.equal(file.nbformat, 4);
  assert.deepEqual(file.cells[0].source, ['x = 6\n', 'print("live", x * 7)\n', 'x']);
  assert.equal(file.cells[0].outputs[0].output_type, 'stream');
  await page.reload();
  await cell(page, 0).getByText('live 42').waitFor();
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('every kind of output is shown', async () => {
  const who = await person();
  const { page } = await open(who, [
    { cell_type: 'markdown', source: '# Report\n\nSome *words*, a [link](https://example.org/) and `code`.\n\n| a | b |\n|---|---|\n| 1 | 2 |' },
    { source: 'import sys\nprint("\\x1b[31mred\\x1b[0m \\x1b[1mbold\\x1b[0m")\nfor i in range(5):\n    print(f"\\rstep {i}", end="", flush=True)\nprint()\nprint("warned", file=sys.stderr)' },
    { source: 'import pandas as pd\npd.DataFrame({"name": [f"n{i:03}" for i in range(40)], "value": [(i * 37) % 40 for i in range(40)]})' },
    { source: 'import matplotlib.pyplot as plt\nplt.figure(figsize=(6, 3))\nplt.plot([3, 1, 4, 1, 5, 9, 2, 6])\nplt.title("A chart")\nplt.show()' },
    { source: 'from IPython.display import SVG, HTML, display\ndisplay(SVG(\'<svg xmlns="http://www.w3.org/2000/svg" width="120" height="40"><rect width="120" height="40" rx="8" fill="teal"/></svg>\'))' },
    { source: 'HTML("<b id=mark>a page</b><script>document.getElementById(\'mark\').textContent = \'script ran inside\'</script>")' },
    { source: 'import plotly.graph_objects as go\ngo.Figure(data=[go.Bar(x=["a", "b", "c"], y=[2, 5, 3])], layout={"title": {"text": "Bars"}})' },
    { source: 'pd.DataFrame({"n": range(5000), "half": [i / 2 for i in range(5000)]})' },
    { source: 'def inner(n):\n    return 1 / n\n\ninner(0)' },
  ], 'Every output');
  await page.getByRole('heading', { name: 'Report' }).waitFor();
  await runAll(page);
  await ran(page, 8, 'failed');
  const text = await cell(page, 1).locator('.cell-output').innerText();
  assert.match(text, /red bold/);
  assert.match(text, /step 4/);
  assert.doesNotMatch(text, /step 3/, 'a carriage return rewrites the line');
  assert.equal(await cell(page, 1).locator('.ansi-fg-1').innerText(), 'red');
  // The table sorts.
  const table = cell(page, 2).getByRole('table');
  await table.getByRole('button', { name: 'value' }).click();
  assert.match(await table.getByRole('row').nth(1).innerText(), /\b0\b/);
  await table.getByRole('button', { name: 'value' }).click();
  assert.match(await table.getByRole('row').nth(1).innerText(), /\b39\b/);
  assert.ok(await cell(page, 3).locator('img').evaluate((img) => img.complete && img.naturalWidth > 200));
  await cell(page, 4).frameLocator('iframe').locator('svg rect').waitFor();
  await cell(page, 5).frameLocator('iframe').getByText('script ran inside').waitFor();
  await cell(page, 6).frameLocator('iframe').locator('.main-svg').first().waitFor();
  // Of a large frame the first thousand rows are there to sort.
  await cell(page, 7).getByText('The first 1,000 of 5,000 rows').waitFor();
  const large = cell(page, 7).getByRole('table');
  await large.getByRole('button', { name: 'n', exact: true }).click();
  await large.getByRole('button', { name: 'n', exact: true }).click();
  assert.match(await large.getByRole('row').nth(1).innerText(), /\b999\b/);
  await cell(page, 8).getByText('ZeroDivisionError').first().waitFor();
  assert.match(await cell(page, 8).locator('.output-failing').innerText(), /line 2 *\n? *return 1 \/ n/);
  assert.equal(await cell(page, 8).getByText('most recent call last').isVisible(), false, 'the traceback is folded');
  await cell(page, 8).getByText('Traceback', { exact: true }).click();
  await cell(page, 8).getByText('most recent call last').waitFor();
  assert.deepEqual(page.problems, []);
  await page.evaluate(() => scrollTo(0, 0));
  await axe(page, { what: 'notebook' });
  await shot(page, 'notebook-outputs', { fullPage: true });
  await fits(page, 3840, { height: 2160 });
  await fits(page, 320);
  await page.setViewportSize({ width: 320, height: 800 });
  await shot(page, 'notebook-320', { themes: ['light'] });
  await who.close();
});

test('a reload in the middle of a run, and a second tab, go on with its output', async () => {
  const who = await person();
  const { page } = await open(who, [{ source: 'import time\nfor i in range(60):\n    print("tick", i, flush=True)\n    time.sleep(0.1)' }]);
  await page.locator('.cell').first().click();
  await page.keyboard.press('Control+Enter');
  await cell(page, 0).getByText('tick 3').first().waitFor();
  await until(async () => (await page.evaluate(() => document.querySelector('.cell-run')?.textContent ?? '')).match(/\d s/), { what: 'elapsed time' });
  const other = await who.open(page.url().slice(page.url().indexOf('#')));
  await cell(other, 0).getByText('tick 5').first().waitFor();
  await page.reload();
  await cell(page, 0).getByText('tick 0').first().waitFor();
  for (const tab of [page, other]) {
    await ran(tab, 0);
    const text = await cell(tab, 0).locator('.cell-output').innerText();
    assert.equal([...text.matchAll(/tick \d+/g)].length, 60, text);
  }
  // An edit in one tab arrives in the other.
  await page.locator('.cm-content').first().click();
  await page.keyboard.press('Control+Home');
  await page.keyboard.type('# from the first tab\n');
  await page.keyboard.press('Control+s');
  await other.getByText('# from the first tab').waitFor();
  await who.close();
});

test('interrupt, input, reset and the banner of lost variables', async () => {
  const who = await person();
  const { page } = await open(who, [
    { source: 'import time\nkept = 1\ntime.sleep(60)' }, { source: 'name = input("Your name? ")\nprint("hello", name, kept)' }, { source: 'kept' },
  ]);
  await cell(page, 0).click();
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+Enter');
  await ran(page, 0, 'running');
  await page.keyboard.press('i');
  await page.keyboard.press('i');
  await cell(page, 0).getByText('KeyboardInterrupt').first().waitFor();
  await cell(page, 1).getByRole('button', { name: 'Run this cell' }).click();
  await cell(page, 1).getByLabel('Your name?').fill('Grace');
  await page.keyboard.press('Enter');
  await cell(page, 1).getByText('hello Grace 1').waitFor();
  await page.getByRole('button', { name: 'Reset the interpreter' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Reset' }).click();
  await page.getByText('The interpreter was reset').waitFor();
  await cell(page, 2).getByRole('button', { name: 'Run this cell' }).click();
  await cell(page, 2).getByText('NameError').first().waitFor();
  await who.close();
});

test('the keys of Jupyter make, move, change and delete cells', async () => {
  const who = await person();
  const { page } = await open(who, [{ source: 'first' }, { source: 'second' }]);
  const texts = () => page.locator('.cell').evaluateAll((all) => all.map((c) => c.querySelector('.cm-content')?.textContent ?? c.querySelector('.cell-markdown')?.textContent ?? c.querySelector('pre')?.textContent));
  await cell(page, 0).locator('.cm-content').click();
  await page.keyboard.press('Escape');
  await page.keyboard.press('b');
  await until(async () => (await page.locator('.cell').count()) === 3);
  await page.keyboard.press('Enter');
  await page.keyboard.type('between');
  await page.keyboard.press('Escape');
  await until(async () => (await texts()).join() === 'first,between,second');
  await page.keyboard.press('m');
  await cell(page, 1).locator('.cell-markdown', { hasText: 'between' }).waitFor();
  await page.keyboard.press('y');
  await cell(page, 1).locator('.cm-content', { hasText: 'between' }).waitFor();
  await page.keyboard.press('d');
  await page.keyboard.press('d');
  await until(async () => (await texts()).join() === 'first,second');
  await page.getByRole('button', { name: 'Undo' }).click();
  await until(async () => (await texts()).join() === 'first,between,second');
  await page.keyboard.press('x');
  await page.keyboard.press('v');
  await until(async () => (await texts()).sort().join() === 'between,first,second');
  await page.keyboard.press('h');
  await page.getByRole('dialog', { name: 'Keys' }).waitFor();
  await axe(page, { what: 'keys' });
  await page.keyboard.press('Escape');
  await cell(page, 0).locator('.cm-content').click();
  await page.keyboard.press('Control+Home');
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Control+Shift+-');
  await until(async () => (await texts()).includes('irst'));
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('completion and inspection come from the interpreter', async () => {
  const who = await person();
  const { page } = await open(who, [{ source: 'überlang_variable = [1, 2, 3]' }]);
  await cell(page, 0).locator('.cm-content').click();
  await page.keyboard.press('Shift+Enter');
  await ran(page, 0);
  await page.keyboard.type('überl');
  await page.keyboard.press('Tab');
  await page.locator('.cm-tooltip-autocomplete').getByText('überlang_variable').waitFor();
  await page.waitForTimeout(150);
  await page.keyboard.press('Enter');
  await cell(page, 1).locator('.cm-content', { hasText: 'überlang_variable' }).waitFor();
  await page.keyboard.press('Shift+Tab');
  await page.getByRole('dialog', { name: 'Under the cursor' }).getByText('list').first().waitFor();
  await who.close();
});

test('files are uploaded by dropping, listed and downloaded; notebooks are imported and exported', async () => {
  const who = await person();
  const { page, ws } = await open(who, [{ source: 'print(open("/mnt/data/drop.csv").read())' }]);
  const data = await page.evaluateHandle(() => {
    const transfer = new DataTransfer();
    transfer.items.add(new File(['a,b\n1,2\n'], 'drop.csv', { type: 'text/csv' }));
    return transfer;
  });
  await page.dispatchEvent('.notebook', 'dragenter', { dataTransfer: data });
  await page.getByText('Drop files to upload them').waitFor();
  await page.dispatchEvent('.notebook', 'drop', { dataTransfer: data });
  await page.getByRole('list', { name: 'Files' }).getByText('drop.csv').waitFor();
  assert.equal((await who.g.call('GET', `/api/workspaces/${ws.id}/files/drop.csv`, undefined, { key: who.key })).text, 'a,b\n1,2\n');
  await cell(page, 0).click();
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+Enter');
  await cell(page, 0).getByText('1,2').waitFor();
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download drop.csv' }).click()]);
  assert.equal(download.suggestedFilename(), 'drop.csv');
  assert.equal(readFileSync(await download.path(), 'utf8'), 'a,b\n1,2\n');
  await page.getByRole('button', { name: 'More' }).first().click();
  const [exported] = await Promise.all([page.waitForEvent('download'), page.getByRole('menuitem', { name: 'Export .ipynb' }).click()]);
  const text = readFileSync(await exported.path(), 'utf8');
  assert.equal(JSON.parse(text).cells[0].outputs[0].text.join(''), 'a,b\n1,2\n\n');
  await page.goto('/#/notebook');
  await page.getByLabel('Notebook file to import').setInputFiles({ name: 'back again.ipynb', mimeType: 'application/x-ipynb+json', buffer: Buffer.from(text) });
  await page.getByRole('heading', { name: 'back again' }).waitFor();
  await cell(page, 0).getByText('1,2').waitFor();
  await page.goto('/#/notebook');
  await page.getByLabel('Notebook file to import').setInputFiles({ name: 'broken.ipynb', mimeType: 'application/x-ipynb+json', buffer: Buffer.from('{"cells": 7}') });
  await page.getByText('This is not a notebook').waitFor();
  await axe(page, { what: 'list of notebooks' });
  await fits(page, 320);
  await shot(page, 'notebook-list');
  await who.close();
});

test('ten thousand lines of output stay responsive', async () => {
  const who = await person();
  const { page } = await open(who, [{ source: 'for i in range(10_000): print("line", i)' }]);
  await cell(page, 0).click();
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+Enter');
  await ran(page, 0);
  await page.locator('.virtual').evaluate((box) => { box.scrollTop = box.scrollHeight; });
  await cell(page, 0).getByText('line 9999').waitFor();
  assert.ok(await page.locator('.virtual-row').count() < 200, 'only rows in view are in the page');
  const longest = await page.evaluate(async () => {
    const box = document.querySelector('.virtual');
    let worst = 0;
    for (let i = 0; i < 20; i++) {
      const from = performance.now();
      box.scrollTop = (box.scrollHeight * i) / 20;
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      worst = Math.max(worst, performance.now() - from);
    }
    return worst;
  });
  assert.ok(longest < 1000, `a frame took ${longest} ms`);
  await who.close();
});

test('formulas in Markdown and in outputs are drawn; dollars and broken TeX stay text', async () => {
  const who = await person();
  const ws = (await who.api('POST', '/api/workspaces', { name: 'Formulas' })).id;
  const cells = [
    { cell_type: 'markdown', id: 'm', metadata: {}, source: 'Energy $E = mc^2$ costs $5 and $6, or \\(a_1\\).\n\n$$\\int_0^1 x\\,dx = \\frac{1}{2}$$\n\n\\begin{align} a &= b \\end{align}\n\n`$code$` and broken $\\frac{1$.' },
    { cell_type: 'code', id: 'c', metadata: {}, execution_count: 1, source: '1', outputs: [{ output_type: 'execute_result', execution_count: 1, metadata: {}, data: { 'text/latex': ['$\\displaystyle \\sqrt{x}$'], 'text/plain': ['sqrt(x)'] } }] },
  ];
  await who.api('PUT', `/api/workspaces/${ws}/files/notebook.ipynb`, JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: {}, cells }), { raw: true });
  const page = await who.open(`#/notebook/${ws}`);
  await page.locator('.output-result math msqrt').waitFor();
  const cell = page.locator('.cell').first();
  assert.equal(await cell.locator('math').count(), 4);
  assert.equal(await cell.locator('math mfrac').count(), 1);
  assert.match(await cell.locator('p').first().innerText(), /costs \$5 and \$6/);
  assert.equal(await cell.locator('code', { hasText: '$code$' }).count(), 1);
  assert.equal(await cell.locator('.math-source').count(), 1);
  await axe(page, { what: 'formulas' });
  await fits(page, 320);
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('while a cell runs, its time grows and its memory is that of now; a tab has one stream and polls nothing', async () => {
  const who = await person();
  const ws = (await who.api('POST', '/api/workspaces', { name: 'Live figures' })).id;
  const page = await who.open(`#/notebook/${ws}`);
  const asked = [];
  page.on('request', (r) => { if (r.url().includes('/api/')) asked.push(new URL(r.url()).pathname); });
  await page.getByRole('textbox', { name: /^Cell 1/ }).fill('x = bytearray(b"x") * 90_000_000\ninput("Free it?")\ndel x\ninput("End it?")\nprint("over")');
  await page.keyboard.press('Control+Enter');
  const mib = async () => {
    const text = await page.locator('.cell-memory').innerText().catch(() => '');
    return Number(/([\d.]+) MiB/.exec(text)?.[1] ?? 0);
  };
  await until(async () => await mib() > 80, { what: 'the memory in use', ms: 60_000 });
  await page.getByLabel('Free it?').fill('yes');
  await page.keyboard.press('Enter');
  await until(async () => { const m = await mib(); return m > 0 && m < 60; }, { what: 'less memory after it was freed', ms: 60_000 });
  await page.getByLabel('End it?').fill('yes');
  await page.keyboard.press('Enter');
  await page.locator('.cell-output', { hasText: 'over' }).waitFor();
  // Idle: no request is made.
  await page.locator('.notebook-status').getByText('Saved').waitFor();
  await page.waitForTimeout(500);
  asked.length = 0;
  await page.waitForTimeout(2500);
  assert.deepEqual(asked, [], 'an idle notebook asks for nothing');
  assert.equal(await page.evaluate(() => performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/api/events')).length) <= 1, true);
  assert.deepEqual(page.problems, []);
  await who.close();
});
