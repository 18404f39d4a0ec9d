// SPDX-License-Identifier: Apache-2.0
// Four eyes: one administrator's change waits for another's approval, in two
// browsers. The setting is of the whole service, so it has one of its own.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Glovebox } from '../lib/glovebox.mjs';
import { axe, everything, person, shot } from '../lib/console.mjs';

let server;
after(() => server?.stop());

test('a key that one administrator asks for is made after a second one approved it', async () => {
  server = await Glovebox.start();
  const keys = {};
  for (const name of ['First Admin', 'Second Admin']) keys[name] = (await server.ok('POST', '/api/keys', { name, scopes: everything })).secret;
  const { dir } = server;
  await server.stop({ keep: true });
  server = await Glovebox.start({ dir, config: { four_eyes: true } });
  const at = { server: { g: server, url: server.url } };
  const first = await person({ key: keys['First Admin'], ...at });
  const second = await person({ key: keys['Second Admin'], ...at });
  const page = await first.open('#/people');
  const inbox = await second.open('#/approvals');
  await inbox.getByText('Nothing waits for a decision').waitFor();

  // A key is asked for; there is no key and no secret yet.
  await page.getByRole('button', { name: 'New key' }).first().click();
  const dialog = page.getByRole('dialog').first();
  await dialog.getByLabel('Name', { exact: true }).fill('Third Person');
  await dialog.getByRole('button', { name: 'Make the key' }).click();
  await dialog.getByText(/Another person must approve/).waitFor();
  assert.ok(!(await second.api('GET', '/api/keys')).data.some((k) => k.name === 'Third Person'));
  await axe(page, { what: 'a held key' });
  await shot(page, 'four-eyes-asked');

  // The first administrator cannot decide, not even by the address.
  const own = await first.open('#/approvals');
  const list = (p) => p.getByRole('list', { name: 'Waiting requests' }).getByRole('listitem');
  await list(inbox).first().getByRole('link').click();
  const request = inbox.getByRole('article', { name: 'The request' });
  await request.getByText('First Admin').first().waitFor();
  await request.getByText('Third Person').first().waitFor();
  await axe(inbox, { what: 'a held change' });
  await shot(inbox, 'four-eyes-decide');
  await own.goto(`/${new URL(inbox.url()).hash}`);
  await own.getByText('You asked for this').waitFor();
  assert.equal(await own.getByRole('button', { name: 'Approve' }).count(), 0);

  await request.getByRole('button', { name: 'Approve' }).click();
  await request.getByText('Approved by').waitFor();
  // The page of the first notices; the same change then succeeds once.
  await dialog.getByText(/^Approved/).waitFor();
  await dialog.getByRole('button', { name: 'Make the key' }).click();
  await page.getByText('is shown this once').waitFor();
  assert.ok((await second.api('GET', '/api/keys')).data.some((k) => k.name === 'Third Person'));
  assert.deepEqual([...page.problems, ...inbox.problems, ...own.problems], []);
  await Promise.all([first.close(), second.close()]);
});
