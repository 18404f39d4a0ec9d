// SPDX-License-Identifier: Apache-2.0
// The audit trail: filter, follow, verify, sign, export.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { axe, fits, person, shot, world } from '../lib/console.mjs';

test('events are filtered and followed live', async () => {
  const { g } = await world();
  const who = await person({ name: 'Olga Auditor' });
  const made = await g.ok('POST', '/api/keys', { name: 'watched "><script>window.pwned=1</script>', scopes: ['execute'] });
  const page = await who.open('#/audit');
  await page.getByRole('table', { name: 'Audit events' }).getByText('key.create').first().waitFor();
  await axe(page, { what: 'audit' });
  await shot(page, 'audit');
  await fits(page, 320);
  await page.getByLabel('Action').fill('session.create');
  await page.getByLabel('Who').selectOption(made.id);
  await page.getByText('No event fits the filter').waitFor();
  await axe(page, { what: 'audit, nothing found' });
  const session = await g.ok('POST', '/api/sessions', {}, { key: made.secret });
  const row = page.getByRole('row').filter({ hasText: 'session.create' });
  await row.waitFor(); // by itself
  assert.equal(await row.count(), 1);
  await row.getByText('watched "><script>window.pwned=1</script>').waitFor();
  await row.getByRole('button', { name: /all fields/ }).click();
  await page.getByRole('dialog').getByText(session.id.slice(0, 11)).first().waitFor();
  await axe(page, { what: 'audit, one event' });
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  await g.ok('DELETE', `/api/sessions/${session.id}`, undefined, { key: made.secret });
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('the trail is verified, signed and exported', async () => {
  const who = await person();
  const page = await who.open('#/audit/proof');
  await page.getByRole('button', { name: 'Verify the trail' }).click();
  await page.getByText('The trail is complete and unchanged').waitFor();
  await page.getByRole('button', { name: 'Sign now' }).click();
  await page.getByRole('table', { name: 'Checkpoints' }).getByRole('row').nth(1).waitFor();
  await page.getByRole('region', { name: 'Public key' }).getByText('BEGIN PUBLIC KEY').waitFor();
  await axe(page, { what: 'audit, proof' });
  await shot(page, 'audit-proof');
  await fits(page, 320);
  const [saved] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Save', exact: true }).first().click()]);
  assert.match(JSON.parse(readFileSync(await saved.path(), 'utf8')).signature, /\S{40}/);
  await page.getByRole('tab', { name: 'Export' }).click();
  await axe(page, { what: 'audit, export' });
  const [trail] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Export' }).click()]);
  const lines = readFileSync(await trail.path(), 'utf8').trim().split('\n');
  assert.ok(lines.length > 3);
  assert.ok('chain_hash' in JSON.parse(lines[0]));
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('a person without audit:read has no audit screen', async () => {
  const who = await person({ name: 'Analyst', scopes: ['execute', 'files:read'] });
  const page = await who.open('#/audit');
  await page.getByText('There is nothing here').waitFor();
  for (const name of ['Audit', 'Policy', 'Network', 'Posture', 'Keys and people', 'Nodes', 'Operations']) assert.equal(await page.getByRole('navigation', { name: 'Screens' }).getByRole('link', { name, exact: true }).count(), 0, name);
  await who.close();
});
