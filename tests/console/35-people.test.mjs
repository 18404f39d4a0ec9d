// SPDX-License-Identifier: Apache-2.0
// Keys and tokens: make, narrow, rotate, revoke.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { axe, fits, person, shot, world } from '../lib/console.mjs';

const NAME = 'Ünïcode “شخص” <i>x</i>';

test('a key is made, shown once, narrowed, rotated and revoked', async () => {
  const { g } = await world();
  const who = await person({ name: 'Key Keeper' });
  const page = await who.open('#/people');
  const row = page.getByRole('table', { name: 'Keys' }).getByRole('row').filter({ hasText: NAME });
  await page.getByRole('button', { name: 'New key' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Make the key' }).click();
  await dialog.getByText('Give the key a name.').waitFor();
  await axe(page, { what: 'new key' });
  await dialog.getByLabel('Name').fill(NAME);
  await dialog.getByLabel('audit:read').check();
  await dialog.getByRole('button', { name: 'Make the key' }).click();
  await dialog.getByText('shown this once').waitFor();
  const secret = (await dialog.locator('code').innerText()).trim();
  assert.match(secret, /^gbx_/);
  await axe(page, { what: 'the secret of a key' });
  await dialog.getByRole('button', { name: 'Done' }).click();
  assert.ok(!(await page.content()).includes(secret));
  await row.waitFor();
  await axe(page, { what: 'keys' });
  await shot(page, 'people');
  await fits(page, 320);
  assert.equal((await g.call('GET', '/api/whoami', undefined, { key: secret })).status, 200);

  await row.getByRole('button', { name: /^Actions for/ }).click();
  await page.getByRole('menuitem', { name: 'Narrow' }).click();
  await dialog.getByLabel('audit:read').uncheck();
  await dialog.getByLabel('files:write').uncheck();
  await axe(page, { what: 'narrow a key' });
  await dialog.getByRole('button', { name: 'Change' }).click();
  await page.getByText('The key was changed.').waitFor();
  assert.deepEqual((await g.ok('GET', '/api/whoami', undefined, { key: secret })).scopes.sort(), ['execute', 'files:read']);

  await row.getByRole('button', { name: /^Actions for/ }).click();
  await page.getByRole('menuitem', { name: 'Rotate' }).click();
  await dialog.getByRole('button', { name: 'Rotate' }).click();
  await dialog.getByText('shown this once').waitFor();
  const next = (await dialog.locator('code').innerText()).trim();
  await dialog.getByRole('button', { name: 'Done' }).click();
  assert.equal((await g.call('GET', '/api/whoami', undefined, { key: secret })).status, 401);
  assert.equal((await g.call('GET', '/api/whoami', undefined, { key: next })).status, 200);

  await row.getByRole('button', { name: /^Actions for/ }).click();
  await page.getByRole('menuitem', { name: 'Revoke' }).click();
  await dialog.getByRole('button', { name: 'Revoke' }).click();
  await row.waitFor({ state: 'detached' });
  assert.equal((await g.call('GET', '/api/whoami', undefined, { key: next })).status, 401);
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('tokens are listed with the person they stand for, made and revoked', async () => {
  const { g } = await world();
  const who = await person({ name: 'Token Maker' });
  const page = await who.open('#/people/tokens');
  const table = page.getByRole('table', { name: 'Tokens' });
  await table.getByText('this browser').waitFor();
  await table.getByText('Token Maker').first().waitFor();
  await page.getByRole('button', { name: 'New token' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('for the nightly job');
  await axe(page, { what: 'new token' });
  await dialog.getByRole('button', { name: 'Make the token' }).click();
  await dialog.getByText('shown this once').waitFor();
  const secret = (await dialog.locator('code').innerText()).trim();
  await dialog.getByRole('button', { name: 'Done' }).click();
  const row = table.getByRole('row').filter({ hasText: 'for the nightly job' });
  await row.waitFor();
  await axe(page, { what: 'tokens' });
  await fits(page, 320);
  await row.getByRole('button', { name: 'Revoke' }).click();
  await dialog.getByRole('button', { name: 'Revoke' }).click();
  await row.waitFor({ state: 'detached' });
  assert.equal((await g.call('GET', '/api/whoami', undefined, { key: secret })).status, 401);
  assert.deepEqual(page.problems, []);
  await who.close();
});
