// SPDX-License-Identifier: Apache-2.0
// The tools of models as forms.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { axe, fits, person, shot } from '../lib/console.mjs';

test('the eight tools are forms whose answers are those a model gets', async () => {
  const who = await person();
  const page = await who.open('#/tools');
  await page.getByRole('navigation', { name: 'Tools' }).getByRole('link').first().waitFor();
  assert.equal(await page.getByRole('navigation', { name: 'Tools' }).getByRole('link').count(), 8);
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  const answer = page.getByRole('region', { name: 'Answer' });
  await answer.getByText('status: ok').waitFor({ timeout: 60_000 });
  assert.ok(await answer.locator('img').evaluate((img) => img.naturalWidth > 100));
  await axe(page, { what: 'tools' });
  await page.getByRole('link', { name: 'generate_pdf_report' }).click();
  await page.getByRole('region', { name: 'Preview' }).getByRole('heading', { name: 'Result' }).waitFor();
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await answer.locator('img').first().waitFor({ timeout: 90_000 });
  await shot(page, 'tools');
  const [download] = await Promise.all([page.waitForEvent('download'), answer.getByRole('button', { name: 'Download' }).first().click()]);
  assert.match(download.suggestedFilename(), /\.pdf$/);
  await page.getByRole('link', { name: 'list_files' }).click();
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await answer.getByText('squares.png').first().waitFor();
  await page.getByRole('link', { name: 'read_file' }).click();
  await page.getByLabel('path (required)').fill('nothing.txt');
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await answer.getByText(/nothing\.txt|no such file|not_found/i).first().waitFor({ timeout: 60_000 });
  await fits(page, 320);
  assert.deepEqual(page.problems, []);
  await who.close();
});
