// SPDX-License-Identifier: Apache-2.0
// Saved tools: kept from a cell and from an execution, run by a form, with
// versions; members see them, others do not.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { axe, fits, person, shot } from '../lib/console.mjs';

test('a cell becomes a tool with parameters, which a member runs', async () => {
  const ada = await person({ name: 'Ada', tenant: 'kit', scopes: ['execute', 'files:read', 'files:write'] });
  const ws = (await ada.api('POST', '/api/workspaces', { name: 'Toolbox אבג' })).id;
  const page = await ada.open('#/tools/saved');
  await page.getByRole('heading', { name: 'No tool is saved yet' }).waitFor();
  await axe(page, { what: 'saved tools, empty' });

  await page.goto(`/#/notebook/${ws}`);
  await page.getByRole('textbox', { name: /^Cell 1/ }).fill('xs = [1, 2, 3]\nprint("mean", sum(xs) / len(xs))');
  await page.keyboard.press('Control+Enter');
  await page.getByText('mean 2.0').waitFor({ timeout: 60_000 });
  await page.getByRole('button', { name: 'Actions of cell 1' }).click();
  await page.getByRole('menuitem', { name: 'Keep as a tool…' }).click();
  const keep = page.getByRole('dialog', { name: 'Keep as a tool' });
  await keep.getByRole('button', { name: 'Keep', exact: true }).click();
  await keep.getByText('a letter first').waitFor();
  await keep.getByLabel('Name').first().fill('mean');
  await keep.getByLabel('Description').first().fill('Mean of numbers');
  await keep.getByRole('button', { name: 'Add a parameter' }).click();
  const parameter = keep.getByRole('group', { name: 'Parameter 1' });
  await parameter.getByLabel('Name').fill('xs');
  await parameter.getByLabel('Type').selectOption('array');
  await parameter.getByLabel('Description').fill('the numbers');
  await keep.getByRole('textbox', { name: 'Code of the tool' }).fill('print("mean", sum(xs) / len(xs))');
  await axe(page, { what: 'keep as a tool' });
  await shot(page, 'keep-tool');
  await fits(page, 320);
  await keep.getByRole('button', { name: 'Keep', exact: true }).click();
  await page.getByRole('log', { name: 'Messages' }).getByRole('link', { name: 'Open it' }).click();

  const form = page.getByRole('form', { name: 'Run mean' });
  await form.getByLabel('xs (required)').fill('[1, 2');
  await form.getByText('A list in JSON').waitFor();
  await form.getByLabel('xs (required)').fill('[10, 20]');
  await form.getByRole('button', { name: 'Run', exact: true }).click();
  const result = page.getByRole('region', { name: 'Result' });
  await result.getByText('mean 15.0').waitFor({ timeout: 60_000 });
  await axe(page, { what: 'a saved tool' });
  await shot(page, 'saved-tool');
  // What the schema forbids is refused in the service's words.
  await form.getByLabel('xs (required)').fill('');
  await form.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByText(/arguments\.xs|xs.*(missing|required)/i).first().waitFor();

  // A second version, and what changed.
  await page.getByRole('button', { name: 'Edit' }).click();
  const edit = page.getByRole('dialog', { name: 'Edit mean' });
  await edit.getByRole('textbox', { name: 'Code of the tool' }).fill('print("average", sum(xs) / len(xs))');
  await edit.getByRole('button', { name: 'Save as a new version' }).click();
  await page.getByRole('tab', { name: 'Versions (2)' }).click();
  await page.getByText('What changed since version 1').click();
  await page.getByRole('region', { name: 'Changes of version 2' }).getByText('average').waitFor();
  await axe(page, { what: 'versions of a tool' });
  await fits(page, 320);
  assert.equal((await ada.api('GET', `/api/workspaces/${ws}/tools/mean`)).number, 2);

  // U5: a person of another tenant sees nothing of it, not even by its address.
  const eve = await person({ name: 'Eve', tenant: 'other-kit', scopes: ['execute', 'files:read', 'files:write'] });
  const nothing = await eve.open(`#/tools/saved/${ws}/mean`);
  await nothing.getByRole('heading', { name: 'There is no such tool' }).waitFor();
  await nothing.goto('/#/tools/saved');
  await nothing.getByRole('heading', { name: 'No tool is saved yet' }).waitFor();

  await page.getByRole('button', { name: 'Delete', exact: true }).first().click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('heading', { name: 'No tool is saved yet' }).waitFor();
  assert.deepEqual([...page.problems, ...nothing.problems], []);
  await Promise.all([ada.close(), eve.close()]);
});

test('an execution becomes a tool that names its source; hostile text in it stays text', async () => {
  const ada = await person({ name: 'Ada', tenant: 'kit2', scopes: ['execute', 'files:read', 'files:write'] });
  const ws = (await ada.api('POST', '/api/workspaces', { name: '<img src=x onerror=alert(1)>' })).id;
  const session = (await ada.api('POST', '/api/sessions', { workspace: ws })).id;
  const run = await ada.api('POST', `/api/sessions/${session}/executions`, { language: 'shell', code: 'echo "</script><img src=x onerror=window.pwned=1>"' });
  const page = await ada.open(`#/executions/${run.id}`);
  await page.getByRole('button', { name: 'Keep as a tool' }).click();
  const keep = page.getByRole('dialog', { name: 'Keep as a tool' });
  await keep.getByLabel('Name').first().fill('say');
  await keep.getByLabel('Description').first().fill('<img src=x onerror=window.pwned=1>\u202e');
  await keep.getByRole('button', { name: 'Keep', exact: true }).click();
  await page.getByRole('log', { name: 'Messages' }).getByText('The tool say has version 1').waitFor();
  assert.equal((await ada.api('GET', `/api/workspaces/${ws}/tools/say`)).execution, run.id);
  await page.goto('/#/tools/saved');
  await page.getByText('<img src=x onerror=window.pwned=1>').waitFor();
  await page.getByRole('link', { name: 'say', exact: true }).click();
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('region', { name: 'Result' }).getByText('</script><img src=x onerror=window.pwned=1>').waitFor({ timeout: 60_000 });
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  assert.deepEqual(page.problems, []);
  await ada.close();
});
