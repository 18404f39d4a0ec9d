// SPDX-License-Identifier: Apache-2.0
// The way of a chart: drawn in a cell, there after a restart, found by search,
// with the code that made it, shared, and opened by someone without a key.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Glovebox, pool, until } from '../lib/glovebox.mjs';
import { person, shot, world } from '../lib/console.mjs';

const config = { pools: [pool({ runtime: 'standard', ready: 1 })] };
const source = 'import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.title("quetzal")\nplt.savefig("/mnt/data/quetzal-chart.png")\nplt.show()\nprint("drawn")';
const notebook = JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: {}, cells: [{ cell_type: 'code', id: 'a', metadata: {}, execution_count: null, outputs: [], source }] });

test('a chart survives a restart, is found, explained, shared and opened without a key', { skip: process.env.GLOVEBOX_CONSOLE_DEV && 'the restarted daemon serves its own pages' }, async () => {
  const { browser } = await world();
  let g = await Glovebox.start({ config });
  try {
    const ada = await person({ server: { g, url: g.url } });
    const ws = await ada.api('POST', '/api/workspaces', { name: 'Kept' });
    await ada.api('PUT', `/api/workspaces/${ws.id}/files/notebook.ipynb`, notebook, { raw: true });
    const page = await ada.open(`#/notebook/${ws.id}`);
    await page.getByRole('button', { name: 'Run this cell' }).click();
    await page.locator('.output-display img').waitFor({ timeout: 60_000 });
    await page.getByText('drawn', { exact: true }).waitFor();
    await until(async () => (await g.call('GET', `/api/workspaces/${ws.id}/files/notebook.ipynb`)).text.includes('image/png'), { what: 'the saved chart' });
    await g.stop({ keep: true });
    g = await Glovebox.start({ config, dir: g.dir });
    // Another port, so another address; the cookie of the host still counts.
    await page.goto(`${g.url}/#/notebook/${ws.id}`);
    await page.locator('.output-display img').waitFor();
    await page.getByText('Variables were lost').waitFor();
    await shot(page, 'restart-notebook', { themes: ['light'] });
    await page.goto(`${g.url}/#/search?q=quetzal`);
    await page.getByText('quetzal-chart.png').first().waitFor();
    await shot(page, 'restart-search', { themes: ['light'] });
    await page.goto(`${g.url}/#/files/${ws.id}/quetzal-chart.png`);
    await page.getByRole('tab', { name: 'Made by' }).click();
    await page.getByText('plt.savefig').first().waitFor();
    await shot(page, 'restart-madeby', { themes: ['light'] });
    const share = await g.ok('POST', '/api/shares', { workspace: ws.id, path: 'quetzal-chart.png' }, { key: ada.key });
    const stranger = await browser.newContext();
    const answer = await stranger.request.get(share.url);
    assert.equal(answer.status(), 200);
    assert.equal((await answer.body()).subarray(1, 4).toString(), 'PNG');
    await stranger.close();
    await ada.close();
  } finally {
    await g.stop();
  }
});
