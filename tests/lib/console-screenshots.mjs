// SPDX-License-Identifier: Apache-2.0
// The pictures of the documentation; tools/console-screenshots runs this file.
import { test } from 'node:test';
import { join } from 'node:path';
import { person, world } from './console.mjs';

const out = process.env.GLOVEBOX_PICTURES;
const viewport = { width: 1280, height: 800 };
const save = (page, name) => page.screenshot({ path: join(out, `console-${name}.png`) });

const sales = 'month,region,revenue\n' + ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun'].flatMap((m, i) => [['North', 120 + i * 14], ['South', 96 + i * 5], ['West', 80 + ((i * 37) % 40)]].map(([r, v]) => `${m},${r},${v}`)).join('\n') + '\n';
const notebook = JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: {}, cells: [
  { cell_type: 'markdown', id: 'a', metadata: {}, source: '# Revenue by region\n\nThe first half of the year, from `sales.csv`.' },
  { cell_type: 'code', id: 'b', metadata: {}, execution_count: null, outputs: [], source: 'import pandas as pd, matplotlib.pyplot as plt\ndf = pd.read_csv("/mnt/data/sales.csv")\ntotals = df.groupby("region", as_index=False).revenue.sum()\ntotals' },
  { cell_type: 'code', id: 'c', metadata: {}, execution_count: null, outputs: [], source: 'by = df.pivot(index="month", columns="region", values="revenue").loc[["Jan", "Feb", "Mar", "Apr", "May", "Jun"]]\nax = by.plot(figsize=(8, 3), marker="o", color=["#3a4aa8", "#c2571a", "#2a7f62"])\nax.spines[["top", "right"]].set_visible(False)\nplt.tight_layout(); plt.savefig("/mnt/data/revenue.png", dpi=120); plt.show()' },
] });
const policy = 'version: 1\nrules:\n  - name: shell-needs-approval\n    match: {action: execute, language: shell}\n    then: ask\n    reason: shell commands are looked at by a person\n';

test('pictures', async () => {
  const { g } = await world();
  const ada = await person({ name: 'Ada', viewport });
  const ws = await ada.api('POST', '/api/workspaces', { name: 'Half-year report' });
  await ada.api('PUT', `/api/workspaces/${ws.id}/files/sales.csv`, sales, { raw: true });
  await ada.api('PUT', `/api/workspaces/${ws.id}/files/notebook.ipynb`, notebook, { raw: true });
  const page = await ada.open(`#/notebook/${ws.id}`);
  await page.locator('.cell').nth(2).waitFor();
  await page.getByRole('button', { name: 'More' }).first().click();
  await page.getByRole('menuitem', { name: 'Run all', exact: true }).click();
  await page.locator('.output-display img').waitFor({ timeout: 60_000 });
  await page.getByText('Saved', { exact: true }).waitFor();
  await page.locator('.cell').first().click();
  await page.evaluate(() => scrollTo(0, 0));
  await page.waitForTimeout(800);
  await save(page, 'notebook');

  await page.goto(`/#/files/${ws.id}/revenue.png`);
  await page.locator('main img').first().waitFor();
  await page.waitForTimeout(800);
  await save(page, 'files');

  // A question in words; the model behind it is scripted.
  await page.goto('/#/chat');
  await page.getByLabel('Model').selectOption('scripted');
  await page.getByLabel('Files for the question').setInputFiles([{ name: 'sales.csv', mimeType: 'text/csv', buffer: Buffer.from(sales) }]);
  await page.getByText('uploading').waitFor({ state: 'hidden' });
  await page.getByLabel('Your question').fill('Which region grew most in the first half of the year?');
  await page.keyboard.press('Enter');
  await page.getByRole('cell', { name: '58.3 %' }).waitFor({ timeout: 60_000 });
  await page.waitForFunction(() => !location.hash.includes('response='));
  await page.waitForTimeout(800);
  await save(page, 'chat');

  // An approval waits; a second person sees it.
  const put = await g.call('PUT', '/api/policy', policy, { raw: true, headers: { 'content-type': 'application/yaml' } });
  if (put.status > 299) throw new Error(put.text);
  const session = await ada.api('POST', '/api/sessions', { workspace: ws.id, name: 'Nightly report' });
  await ada.api('POST', `/api/sessions/${session.id}/executions`, { language: 'shell', mode: 'async', code: 'cd /mnt/data\ntar czf report.tar.gz sales.csv revenue.png\nls -l report.tar.gz' });
  const [waiting] = (await ada.api('GET', '/api/approvals?state=pending')).data;
  const grace = await person({ name: 'Grace', viewport });
  const inbox = await grace.open(`#/approvals/${waiting.id}`);
  await inbox.getByText('tar czf').first().waitFor();
  await inbox.waitForTimeout(800);
  await save(inbox, 'approval');

  await inbox.emulateMedia({ colorScheme: 'dark' });
  const execution = (await ada.api('GET', `/api/sessions?limit=100`)).data.find((s) => s.workspace === ws.id && s.id !== session.id);
  const [run] = (await ada.api('GET', `/api/sessions/${execution.id}/executions`)).data;
  await inbox.goto(`/#/executions/${run.id}`);
  await inbox.locator('main img').first().waitFor({ timeout: 20_000 }).catch(() => {});
  await inbox.waitForTimeout(800);
  await save(inbox, 'evidence');
  await ada.close();
  await grace.close();
});
