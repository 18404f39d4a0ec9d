// SPDX-License-Identifier: Apache-2.0
// Search while typing, over names, text and conversations; and what
// conversations ran and made.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { before, test } from 'node:test';
import { until } from '../lib/glovebox.mjs';
import { axe, fits, person, shot, world } from '../lib/console.mjs';

let ws;
let first;
const put = (g, name, text) => g.ok('PUT', `/api/workspaces/${ws}/files/${encodeURIComponent(name)}`, Buffer.from(text), { raw: true });

before(async () => {
  const { g } = await world();
  ws = (await g.ok('POST', '/api/workspaces', { name: 'Library' })).id;
  await put(g, 'harbour.txt', `${Array.from({ length: 400 }, (_, i) => `plain line ${i + 1}`).join('\n')}\nthe zanzibar ferry leaves at nine <img src=x onerror=top.pwned=1>\n`);
  await put(g, 'zanzibar <b>map</b>.md', '# Map\n');
  const session = (await g.ok('POST', '/api/sessions', { workspace: ws, name: 'ferries' })).id;
  const run = async (code, message) => {
    const done = await g.ok('POST', `/api/sessions/${session}/executions`, { code, metadata: { conversation: 'ferry-talk-42', message } });
    assert.equal(done.outcome, 'ok', JSON.stringify(done.error));
    return done;
  };
  first = await run("open('timetable.csv', 'w').write('port,at\\nzanzibar,9:00\\n')", 'msg-1');
  await run("open('timetable.csv', 'a').write('mombasa,11:30\\n'); open('דוח.txt', 'w').write('rtl')", 'msg-2');
  await until(async () => (await g.ok('GET', `/api/search/status?workspace=${ws}`)).pending === 0, { ms: 30_000, what: 'the index' });
});

test('results come while typing, are marked, and open the file at the line', async () => {
  const who = await person();
  const page = await who.open('#/search');
  await page.getByRole('heading', { name: 'Type to search' }).waitFor();
  await axe(page, { what: 'empty search' });
  await page.getByLabel('Words').pressSequentially('zanz', { delay: 30 });
  const hits = page.getByRole('region', { name: 'Files' });
  await hits.locator('mark', { hasText: 'zanzibar' }).first().waitFor();
  const hit = hits.getByRole('link', { name: /harbour\.txt/ });
  await hit.getByText('line 401').waitFor();
  await hits.getByRole('link', { name: 'zanzibar <b>map</b>.md' }).waitFor();
  assert.match(page.url(), /q=zanz/);
  await axe(page, { what: 'search' });
  await fits(page, 320);
  await shot(page, 'search');
  // By keyboard: down into the results, Enter opens.
  await page.getByLabel('Kind').selectOption('txt');
  await hits.getByRole('link').nth(1).waitFor({ state: 'detached' });
  await page.getByLabel('Words').focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.locator('[aria-current="location"]', { hasText: 'zanzibar ferry' }).waitFor();
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  await page.goBack();
  await page.getByLabel('Words').fill('nowhere-to-be-found');
  await page.getByRole('heading', { name: 'Nothing found' }).waitFor();
  await page.getByLabel('Words').fill('"unfinished');
  await page.waitForTimeout(600);
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('someone without a role in the workspace finds nothing of it', async () => {
  const who = await person({ name: 'Elsewhere', tenant: 'other', scopes: ['files:read', 'execute'] });
  const page = await who.open('#/search?q=zanzibar');
  await page.getByRole('heading', { name: 'Nothing found' }).waitFor();
  await page.goto('/#/conversations/ferry-talk-42');
  await page.getByRole('heading', { name: 'Nothing was made here' }).waitFor();
  await who.close();
});

test('a conversation lists messages, their executions and files, each with a permanent link', async () => {
  const who = await person();
  const page = await who.open('#/conversations/ferry-talk-42');
  const messages = page.locator('.conversations-message');
  await messages.nth(1).waitFor();
  assert.equal(await messages.count(), 2);
  await messages.nth(0).getByRole('link', { name: 'timetable.csv' }).waitFor();
  assert.equal(await messages.nth(0).getByRole('link', { name: 'Python run' }).getAttribute('href'), `#/executions/${first.id}`);
  await messages.nth(1).getByRole('link', { name: 'דוח.txt' }).waitFor();
  await messages.nth(1).getByRole('link', { name: 'msg-2' }).click();
  await page.locator('.conversations-message.chosen', { hasText: 'msg-2' }).waitFor();
  await axe(page, { what: 'conversation' });
  await fits(page, 320);
  await shot(page, 'conversation');
  // The link of a file is to the version that the message made, even later.
  await messages.nth(0).getByRole('link', { name: 'timetable.csv' }).click();
  await page.getByText('This is version 1; version 2 is current').waitFor();
  await page.getByText('1 row, 2 columns').waitFor();
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('conversations are listed, newest first, and found by search', async () => {
  const who = await person();
  const page = await who.open('#/conversations');
  const row = page.getByRole('row', { name: /ferry-talk-42/ });
  await row.waitFor();
  await axe(page, { what: 'conversations' });
  await fits(page, 320);
  await shot(page, 'conversations');
  await page.getByLabel('Find a conversation').fill('ferry');
  await row.waitFor();
  await row.getByRole('link').click();
  await page.locator('.conversations-message').first().waitFor();
  await page.goto('/#/search?q=ferry-talk');
  await page.getByRole('region', { name: 'Conversations' }).getByRole('link', { name: /ferry-talk-42/ }).waitFor();
  await who.close();
});
