// SPDX-License-Identifier: Apache-2.0
// The chat screen with the real service. The model behind it is scripted
// (tests/lib/scripted-model.mjs); its code really runs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { axe, fits, person, shot } from '../lib/console.mjs';
import { sales } from '../lib/scripted-model.mjs';

test('a question about a file: chart, table, citation, notebook on the same session, a read-only link', async () => {
  const who = await person({ name: 'Asker' });
  const page = await who.open('#/chat');
  try {
    await page.getByLabel('Files for the question').setInputFiles([{ name: 'sales.csv', mimeType: 'text/csv', buffer: Buffer.from(sales) }]);
    await page.getByText('uploading').waitFor({ state: 'hidden' });
    await page.getByLabel('Model').selectOption('scripted');
    await page.getByLabel('Your question').fill('Which region grew most in the first half of the year?');
    await page.keyboard.press('Enter');
    const log = page.getByRole('log', { name: 'Conversation' });
    await log.getByRole('cell', { name: '58.3 %' }).waitFor({ timeout: 60_000 });
    assert.ok(await log.getByRole('img', { name: /Chart 1/ }).evaluate((img) => img.naturalWidth > 300));
    await page.waitForFunction(() => !location.hash.includes('response='));
    await page.getByRole('link', { name: 'growth.png' }).first().waitFor();
    await axe(page, { what: 'chat with an answer' });
    await fits(page, 320);
    await shot(page, 'chat-service');
    const link = await log.locator('.markdown').getByRole('link', { name: 'growth.png' }).getAttribute('href');
    const [thread] = (await who.api('GET', '/api/conversations')).data;
    assert.equal(link, `#/files/${thread.workspace}/growth.png`);
    // Shared as a file that shows the conversation.
    await page.getByRole('button', { name: 'More of this chat' }).click();
    await page.getByRole('menuitem', { name: 'Share read-only…' }).click();
    await page.getByRole('button', { name: 'Make the link' }).click();
    const url = await page.getByLabel('Link', { exact: true }).inputValue();
    const shared = await (await fetch(url)).text();
    assert.match(shared, /58\.3/);
    await page.getByRole('button', { name: 'Done' }).click();
    // The notebook has the code, and the variables of the chat.
    await log.getByText('Ran code').click();
    await log.getByRole('button', { name: 'Open in notebook' }).click();
    await page.locator('.cell').first().waitFor();
    await page.getByText('read_csv').first().waitFor();
    await page.waitForFunction(() => location.hash.startsWith('#/notebook/'));
    const sessions = (await who.api('GET', '/api/sessions?limit=100')).data.filter((s) => s.workspace === thread.workspace);
    assert.deepEqual(sessions.map((s) => s.id), [thread.session]);
    assert.deepEqual(page.problems, []);
  } finally {
    await who.close();
  }
});
