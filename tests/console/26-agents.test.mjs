// SPDX-License-Identifier: Apache-2.0
// Named agents and models: made, tried in the chat, changed, removed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { axe, fits, person, shot, world } from '../lib/console.mjs';

const TENANT = 'agency';

test('an agent is made, asked in the chat, changed, compared and deleted', async () => {
  const ada = await person({ name: 'Ada', tenant: TENANT, scopes: ['execute', 'files:read', 'files:write'] });
  const page = await ada.open('#/agents');
  await page.getByRole('heading', { name: 'No agent yet' }).waitFor();
  await axe(page, { what: 'agents, empty' });
  await page.getByRole('button', { name: 'New agent' }).first().click();
  const dialog = page.getByRole('dialog', { name: 'New agent' });
  await dialog.getByLabel('Name').fill('-no-');
  await dialog.getByRole('button', { name: 'Make the agent' }).click();
  await dialog.getByText('no hyphen at either end').waitFor();
  await dialog.getByLabel('Name').fill('analyst');
  await dialog.getByLabel('Description').fill('Answers questions about <b>tables</b>');
  await dialog.getByLabel('Model').selectOption('echo');
  await dialog.getByLabel('Instructions').fill('You are an analyst.\nShow a table first.');
  await dialog.getByLabel('Most runs of code').fill('3');
  await axe(page, { what: 'agents, the form' });
  await shot(page, 'agents-form');
  // The JSON view has what the form has, and refuses what is no object.
  await dialog.getByRole('tab', { name: 'JSON' }).click();
  await dialog.getByText('"max_tool_calls": 3').waitFor();
  await dialog.getByRole('tab', { name: 'Form' }).click();
  assert.equal(await dialog.getByLabel('Most runs of code').inputValue(), '3');
  await dialog.getByRole('button', { name: 'Make the agent' }).click();
  await page.getByRole('heading', { name: 'analyst', level: 1 }).waitFor();
  await page.getByText('Answers questions about <b>tables</b>').waitFor();
  const made = await ada.api('GET', '/api/agents/analyst');
  assert.deepEqual([made.latest.definition.model, made.latest.definition.limits, made.latest.definition.tools], ['echo', { max_tool_calls: 3 }, [{ type: 'code_interpreter', container: { type: 'auto' } }]]);

  // Asked in the chat, it answers with its own model and tools.
  await page.getByRole('link', { name: 'Ask it in the chat' }).click();
  await page.waitForFunction(() => document.querySelector('.chat-model select')?.selectedOptions[0]?.textContent === 'analyst');
  await page.getByLabel('Your question').fill('run: print("by an agent", 6 * 7)');
  await page.keyboard.press('Enter');
  await page.getByText('by an agent 42').first().waitFor({ timeout: 60_000 });

  // A version: the newest is used, the old one can be compared.
  await page.goto('/#/agents/analyst');
  await page.getByRole('button', { name: 'Edit' }).click();
  const edit = page.getByRole('dialog', { name: 'New version of analyst' });
  await edit.getByLabel('Instructions').fill('You are an analyst.\nShow a chart first.');
  await edit.getByRole('button', { name: 'Save as a new version' }).click();
  await page.getByRole('tab', { name: 'Versions (2)' }).click();
  await page.getByText('What changed since version 1').click();
  await page.getByRole('region', { name: 'Changes of version 2' }).getByText('Show a chart first').waitFor();
  await axe(page, { what: 'agents, versions' });
  await fits(page, 320);
  await shot(page, 'agents');
  await page.getByRole('tab', { name: 'Agent', exact: true }).click();
  await page.getByRole('button', { name: 'Disable' }).click();
  await page.getByText('disabled', { exact: true }).waitFor();
  assert.equal((await ada.api('GET', '/api/agents/analyst')).enabled, false);
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('heading', { name: 'No agent yet' }).waitFor();
  assert.deepEqual(page.problems, []);
  await ada.close();
});

test('U5: others of the tenant see an agent and cannot change it; a bound key sees no agents', async () => {
  const owner = await person({ name: 'Owner', tenant: TENANT, scopes: ['execute'] });
  await owner.api('POST', '/api/agents', { name: 'mine', definition: { model: 'echo' } });
  const other = await person({ name: 'Other', tenant: TENANT, scopes: ['execute'] });
  const page = await other.open('#/agents/mine');
  await page.getByRole('link', { name: 'Ask it in the chat' }).waitFor();
  for (const name of ['Edit', 'Disable', 'Delete']) assert.equal(await page.getByRole('button', { name, exact: true }).count(), 0, name);
  const { g } = await world();
  const key = (await g.ok('POST', '/api/keys', { name: 'bound', scopes: ['execute', 'files:read'], tenant: TENANT, pools: ['default'] })).secret;
  const bound = await person({ key });
  const start = await bound.open('#/executions');
  await start.getByRole('navigation', { name: 'Screens' }).getByRole('link', { name: 'Executions' }).waitFor();
  assert.equal(await start.getByRole('navigation', { name: 'Screens' }).getByRole('link', { name: 'Agents' }).count(), 0);
  await owner.api('DELETE', '/api/agents/mine');
  await page.getByRole('heading', { name: 'There is no such agent' }).waitFor(); // without a reload
  assert.deepEqual([...page.problems, ...start.problems], []);
  await Promise.all([owner.close(), other.close(), bound.close()]);
});

test('a model is added, tested and removed; echo is there and says what it is', async () => {
  const { scripted } = await world();
  const admin = await person({ name: 'Operator', tenant: TENANT, scopes: ['execute', 'policy:admin'] });
  const page = await admin.open('#/chat/models');
  const table = page.getByRole('region', { name: 'Models' });
  const echo = table.getByRole('row').filter({ hasText: 'for trials' });
  await echo.getByText('built in').waitFor();
  assert.equal(await echo.getByRole('button', { name: 'Remove' }).count(), 0);
  await echo.getByRole('button', { name: 'Test' }).click();
  const test = page.getByRole('dialog', { name: 'Test of echo' });
  await test.getByText('streaming: works').waitFor();
  await test.getByText('tools: works').waitFor();
  await axe(page, { what: 'models, a test' });
  await test.getByRole('button', { name: 'Done' }).click();

  await page.getByRole('button', { name: 'Add a model' }).click();
  const add = page.getByRole('dialog', { name: 'Add a model' });
  await add.getByLabel('Name', { exact: true }).fill('local-one');
  await add.getByLabel('Address').fill('not an address');
  await add.getByRole('button', { name: 'Add', exact: true }).click();
  await add.locator('.notice.bad').waitFor(); // in the words of the service
  await add.getByLabel('Address').fill(scripted.url);
  await axe(page, { what: 'models, the form' });
  await add.getByRole('button', { name: 'Add', exact: true }).click();
  const mine = table.getByRole('row').filter({ hasText: 'local-one' });
  await mine.waitFor();
  await shot(page, 'models');
  await mine.getByRole('button', { name: 'Test' }).click();
  // Models of a tenant reach no private address; the test says so.
  await page.getByRole('dialog', { name: 'Test of local-one' }).getByText('answer: does not work').waitFor({ timeout: 60_000 });
  await page.getByRole('dialog', { name: 'Test of local-one' }).getByText(/link-local or private/).waitFor();
  await page.getByRole('dialog', { name: 'Test of local-one' }).getByRole('button', { name: 'Done' }).click();
  await mine.getByRole('button', { name: 'Remove' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
  await mine.waitFor({ state: 'detached' });
  assert.ok(!(await admin.api('GET', '/api/models')).data.some((m) => m.name === 'local-one'));
  await fits(page, 320);

  // Without the scope the list is there and nothing can be changed.
  const reader = await person({ name: 'Reader', tenant: TENANT, scopes: ['execute'] });
  const seen = await reader.open('#/chat/models');
  await seen.getByText('for trials', { exact: true }).waitFor();
  assert.equal(await seen.getByRole('button', { name: /Add a model|Test|Remove/ }).count(), 0);
  assert.deepEqual([...page.problems, ...seen.problems], []);
  await Promise.all([admin.close(), reader.close()]);
});
