// SPDX-License-Identifier: Apache-2.0
// The gate, its walls, the scorecard with its evidence and history, settings, images.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { axe, fits, person, shot, world } from '../lib/console.mjs';

test('the gate, the settings and the images are shown', async () => {
  const { g } = await world();
  const who = await person({ name: 'Paul Posture' });
  const page = await who.open('#/posture');
  const posture = await g.ok('GET', '/api/posture');
  await page.getByRole('heading', { name: posture.gate.open ? /gate is open/ : /gate is closed/ }).waitFor();
  for (const check of posture.gate.checks) await page.getByRole('table', { name: 'Checks of the gate' }).getByText(check.why).first().waitFor();
  assert.ok(posture.walls.length >= 8);
  for (const wall of posture.walls) await page.getByTitle(wall.name, { exact: true }).waitFor();
  await axe(page, { what: 'posture' });
  await shot(page, 'posture', { fullPage: true });
  await fits(page, 320);
  await page.getByRole('tab', { name: /Settings/ }).click();
  const weak = posture.settings.find((s) => !s.ok);
  await page.getByText(weak.advice).first().waitFor();
  await axe(page, { what: 'posture, settings' });
  await fits(page, 320);
  await page.getByRole('tab', { name: 'Images' }).click();
  await page.getByRole('table', { name: 'Runtime images' }).getByRole('link', { name: 'standard', exact: true }).waitFor();
  await axe(page, { what: 'posture, images' });
  await fits(page, 320);
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('the scorecard runs, shows its evidence, and is kept', async () => {
  const who = await person();
  const page = await who.open('#/posture/scorecard');
  await page.getByRole('button', { name: 'Run the scorecard' }).first().click();
  await page.getByText(/\d+ of 10 controls work/).waitFor({ timeout: 120_000 });
  const isolation = page.locator('details').filter({ hasText: 'Isolation' }).first();
  await isolation.locator('summary').click();
  await isolation.getByText('it cannot read /etc/shadow').waitFor();
  await page.getByRole('table', { name: 'Earlier scorecards' }).getByRole('row').nth(1).waitFor();
  await axe(page, { what: 'scorecard' });
  await shot(page, 'posture-scorecard', { fullPage: true });
  await fits(page, 320);
  await page.reload();
  await page.getByText(/\d+ of 10 controls work/).waitFor();
  assert.deepEqual(page.problems, []);
  await who.close();
});
