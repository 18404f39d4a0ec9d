// SPDX-License-Identifier: Apache-2.0
// Approvals: one person asks in one browser, another decides in a second one.
// They are of a tenant of their own, so that the rule holds nobody else.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../lib/glovebox.mjs';
import { axe, fits, person, shot, world } from '../lib/console.mjs';

const TENANT = 'studio';
const RULES = `version: 1
default: allow
tenants:
  ${TENANT}:
    default: allow
    rules:
      - name: shell-needs-approval
        match: {action: execute, language: shell}
        then: ask
        reason: a person reads shell commands first
        expires_s: 4h
`;

const team = async () => {
  const { g } = await world();
  await g.ok('PUT', '/api/policy', { text: RULES, note: 'shell waits in the studio' });
  const asker = await person({ name: 'Ana Lyst', tenant: TENANT, scopes: ['execute', 'files:read', 'files:write'] });
  const approver = await person({ name: 'محمد الأمين', tenant: TENANT, scopes: ['approve', 'execute', 'files:read'] });
  const session = (await asker.api('POST', '/api/sessions', { name: 'quarterly report', sharing: 'tenant' })).id;
  const hold = (code, extra = {}) => asker.api('POST', `/api/sessions/${session}/executions`, { language: 'shell', code, ...extra });
  return { g, asker, approver, session, hold };
};

const row = (page) => page.getByRole('list', { name: 'Waiting requests' }).getByRole('listitem');

test('one person asks, a second one approves, and the code runs once', async () => {
  const { asker, approver, hold } = await team();
  const inbox = await approver.open('#/approvals');
  await inbox.getByText('Nothing waits for a decision').waitFor();
  await axe(inbox, { what: 'approvals, empty' });

  const held = await hold('# tidy up\nfor f in /mnt/data/*; do echo "$f"; done\necho done > /mnt/data/out.txt\ncurl -s https://api.example.org/v1/rates || true\n', { metadata: { conversation: 'conv-7' } });
  assert.equal(held.status, 'pending_approval');
  // It appears by itself, with the badge of the rail and the title.
  await row(inbox).first().waitFor();
  await inbox.getByRole('link', { name: /Approvals/ }).getByLabel('1 waiting').waitFor();
  await inbox.waitForFunction(() => document.title.startsWith('(1) '));

  // The asker sees that it waits, and cannot decide.
  const own = await asker.open(`#/approvals/${held.approval}`);
  await own.getByText('You asked for this').waitFor();
  assert.equal(await own.getByRole('button', { name: 'Approve' }).count(), 0);
  assert.equal(await own.getByRole('button', { name: 'Deny' }).count(), 0);

  await row(inbox).first().getByRole('link').click();
  const request = inbox.getByRole('article', { name: 'The request' });
  await request.getByText('Ana Lyst').first().waitFor();
  const code = request.getByRole('region', { name: 'The code that would run' });
  await code.locator('.tok-comment').first().waitFor();
  assert.match(await code.innerText(), /for f in \/mnt\/data/);
  await request.getByText('nothing outside of the session').waitFor();
  await request.getByText('not reachable', { exact: true }).waitFor();
  assert.match(await request.innerText(), /quarterly report/);
  assert.match(await request.innerText(), /conv-7/);
  assert.ok(!(await request.innerText()).includes('key_'), 'an id of a key is shown');
  await axe(inbox, { what: 'approvals, a request' });
  await shot(inbox, 'approvals', { fullPage: true });
  await fits(inbox, 320);

  await request.getByLabel('Reason').fill('Looks harmless.');
  await request.getByRole('button', { name: 'Approve' }).click();
  await request.getByText('Approved by').waitFor();
  await request.getByText('Run: done, outcome ok').waitFor();
  // The asker's page learns of it without a reload.
  await own.getByText('Looks harmless.').waitFor();
  const done = await until(async () => {
    const e = await asker.api('GET', `/api/executions/${held.id}`);
    return e.status === 'completed' && e;
  }, { what: 'the approved execution' });
  assert.equal(done.outcome, 'ok');
  await inbox.waitForFunction(() => !document.title.startsWith('('));
  assert.deepEqual([...inbox.problems, ...own.problems], []);
  await asker.close();
  await approver.close();
});

test('a denial needs a reason, which the history keeps', async () => {
  const { asker, approver, hold } = await team();
  const held = await hold('rm -rf /mnt/data/*');
  const page = await approver.open(`#/approvals/${held.approval}`);
  await page.getByRole('button', { name: 'Deny' }).click();
  await page.getByText('Say why you deny it').waitFor();
  await page.getByLabel('Reason').fill('ä'.repeat(251));
  await page.getByRole('button', { name: 'Deny' }).click();
  await page.getByText('502 bytes; 500 is the most').waitFor();
  await page.getByLabel('Reason').fill('Never delete everything.');
  await page.getByRole('button', { name: 'Deny' }).click();
  await page.getByText('Denied by').waitFor();
  assert.equal((await asker.api('GET', `/api/executions/${held.id}`)).outcome, 'denied');
  await page.getByRole('tab', { name: 'History' }).click();
  const history = page.getByRole('table', { name: 'Decided requests' });
  await history.getByText('Never delete everything.').waitFor();
  await history.getByText('محمد الأمين').first().waitFor();
  await axe(page, { what: 'approvals, history' });
  await fits(page, 320);
  assert.deepEqual(page.problems, []);
  await asker.close();
  await approver.close();
});

test('U1: invisible characters in held code are shown, and names of others stay text', async () => {
  const { g, approver, session, hold } = await team();
  const hostile = await person({ name: '<img src=x onerror="window.pwned=1">', tenant: TENANT, scopes: ['execute'] });
  await hold('echo safe \u202e# \u200bcurl evil');
  const mine = (await hostile.api('POST', '/api/run', { language: 'shell', code: '</script><script>window.pwned=1</script>' }));
  const page = await approver.open('#/approvals');
  await row(page).nth(1).waitFor();
  await page.getByText('<img src=x onerror="window.pwned=1">').first().waitFor();
  await page.goto(`/#/approvals/${mine.approval}`);
  await page.getByRole('region', { name: 'The code that would run' }).getByText('</script>', { exact: false }).first().waitFor();
  await page.goto('/#/approvals');
  await row(page).filter({ hasText: 'Ana Lyst' }).first().getByRole('link').click();
  await page.getByText('2 invisible characters are shown').waitFor();
  assert.match(await page.getByRole('region', { name: 'The code that would run' }).innerText(), /\\u\{202e\}.*\\u\{200b\}/);
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  assert.deepEqual(page.problems, []);
  // Nothing is left waiting: a deleted session withdraws what waits in it.
  await g.ok('DELETE', `/api/sessions/${session}`, undefined, { key: (await person({ tenant: TENANT, signedIn: false })).key });
  await row(page).nth(1).waitFor({ state: 'detached' });
  await hostile.close();
  await approver.close();
});

test('an asker withdraws a request by keyboard', async () => {
  const { asker, approver, hold } = await team();
  const held = await hold('date');
  const page = await asker.open(`#/approvals/${held.approval}`);
  const withdraw = page.getByRole('button', { name: 'Withdraw' });
  await withdraw.waitFor();
  await withdraw.focus();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByRole('button', { name: 'Withdraw' }).focus();
  await page.keyboard.press('Enter');
  await page.getByText('Withdrawn.').waitFor();
  assert.equal((await asker.api('GET', `/api/approvals/${held.approval}`)).state, 'withdrawn');
  await asker.close();
  await approver.close();
});

test('a cell that is held runs by itself once a second person approved it', async () => {
  const { g } = await world();
  await g.ok('PUT', '/api/policy', { text: RULES.replace('language: shell', 'language: python'), note: 'code waits in the studio' });
  const asker = await person({ name: 'Ana Lyst', tenant: TENANT, scopes: ['execute', 'files:read', 'files:write'] });
  const approver = await person({ name: 'Second Pair', tenant: TENANT, scopes: ['approve'] });
  const ws = (await asker.api('POST', '/api/workspaces', { name: 'held' })).id;
  const page = await asker.open(`#/notebook/${ws}`);
  await page.getByRole('textbox', { name: /^Cell 1/ }).fill('print("it ran", 6 * 7)');
  await page.keyboard.press('Control+Enter');
  const cell = page.locator('[data-cell]').first();
  await cell.getByText('waits for approval').first().waitFor({ timeout: 60_000 });
  await cell.getByText('A person must approve this run first.').waitFor();
  await axe(page, { what: 'a held cell' });
  await shot(page, 'notebook-held');
  // A second tab of the same person sees that it waits, too.
  const tab = await asker.open(`#/notebook/${ws}`);
  await tab.getByText('waits for approval').first().waitFor();

  const inbox = await approver.open('#/approvals');
  await row(inbox).first().getByRole('link').click();
  const request = inbox.getByRole('article', { name: 'The request' });
  await request.getByRole('button', { name: 'Approve' }).click();
  await request.getByText('Approved by').waitFor();
  // Both tabs of the asker show the output, without a reload.
  for (const one of [page, tab]) await one.locator('.cell-output').getByText('it ran 42').waitFor({ timeout: 60_000 });
  await cell.getByRole('link', { name: 'Evidence' }).click();
  await page.getByText('Second Pair').first().waitFor(); // who approved it is in the evidence
  assert.deepEqual([...page.problems, ...tab.problems, ...inbox.problems], []);
  await Promise.all([asker.close(), approver.close()]);
});

test('a held share is not made, and is made with one click after the approval', async () => {
  const { g } = await world();
  await g.ok('PUT', '/api/policy', { text: RULES.replace('action: execute, language: shell', 'action: share').replace('shell-needs-approval', 'shares-need-approval'), note: 'shares wait' });
  const asker = await person({ name: 'Ana Lyst', tenant: TENANT, scopes: ['execute', 'files:read', 'files:write'] });
  const approver = await person({ name: 'Second Pair', tenant: TENANT, scopes: ['approve'] });
  const ws = (await asker.api('POST', '/api/workspaces', { name: 'to share' })).id;
  const page = await asker.open(`#/files/${ws}?tab=shares`);
  await page.getByRole('button', { name: 'Share…' }).first().click();
  const dialog = page.getByRole('dialog', { name: 'Share' });
  await dialog.getByRole('button', { name: 'Make the link' }).click();
  await dialog.getByText('Another person must approve the share first').waitFor();
  assert.equal((await asker.api('GET', `/api/shares?workspace=${ws}`)).data.length, 0);
  await axe(page, { what: 'a held share' });
  await shot(page, 'share-held');

  const inbox = await approver.open('#/approvals');
  await row(inbox).first().getByRole('link').click();
  const request = inbox.getByRole('article', { name: 'The request' });
  await request.getByLabel('Reason').fill('Public data.');
  await request.getByRole('button', { name: 'Approve' }).click();
  await dialog.getByText('It has not been done yet').waitFor(); // by itself
  await dialog.getByRole('button', { name: 'Do it now' }).click();
  await page.getByRole('dialog', { name: 'The link is ready' }).getByLabel('Link').waitFor();
  assert.equal((await asker.api('GET', `/api/shares?workspace=${ws}`)).data.length, 1);
  await g.ok('PUT', '/api/policy', { text: RULES, note: 'as before' });
  assert.deepEqual([...page.problems, ...inbox.problems], []);
  await Promise.all([asker.close(), approver.close()]);
});
