// SPDX-License-Identifier: Apache-2.0
// The tour of the first start: three steps, then a chart in a workspace.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { axe, person, shot } from '../lib/console.mjs';

test('the tour ends with a chart in the workspace of the person', async () => {
  const who = await person({ name: 'Newcomer', scopes: ['execute', 'files:read', 'files:write'], tenant: 'newcomers' });
  await who.context.addInitScript(() => { try { localStorage.removeItem('glovebox.tour'); } catch { /* an opaque frame */ } });
  const page = await who.open();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Step 1 of 3').waitFor();
  await axe(page, { what: 'tour' });
  await shot(page, 'tour');
  await dialog.getByRole('button', { name: 'Next' }).click();
  await dialog.getByRole('button', { name: 'Next' }).click();
  await dialog.getByRole('button', { name: 'Draw my first chart' }).click();
  const picture = page.locator('.output-display img');
  await picture.waitFor({ timeout: 60_000 });
  assert.ok(await picture.evaluate((img) => img.naturalWidth > 400));
  await page.getByRole('link', { name: 'first-chart.png' }).first().waitFor();
  const [ws] = (await who.api('GET', '/api/workspaces')).data;
  assert.equal(ws.name, 'My first notebook');
  const files = (await who.api('GET', `/api/workspaces/${ws.id}/files`)).data.map((f) => f.path);
  assert.ok(files.includes('first-chart.png'), files.join());
  await shot(page, 'notebook-first');
  assert.deepEqual(page.problems, []);
  await who.close();
});
