// SPDX-License-Identifier: Apache-2.0
// The policy: validation while typing, the simulator, test cases, versions,
// roll back, and sessions under an older version.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { axe, fits, person, shot, world } from '../lib/console.mjs';

const FIRST = 'version: 1\ndefault: allow\nrules:\n  - name: nothing-in-the-attic\n    match: {action: execute, pool: attic}\n    then: deny\n    reason: nobody is there\n';

const editor = (page) => page.getByRole('textbox', { name: 'Policy, YAML' });
// Replaces the whole text the way a person does who pastes it.
async function typeAll(page, text) {
  await editor(page).click();
  await page.keyboard.press('ControlOrMeta+a');
  await editor(page).evaluate((el, pasted) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData('text/plain', pasted);
    el.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
  }, text);
}

test('a policy is checked while it is typed, reviewed as a difference, and put in force', async () => {
  const { g } = await world();
  await g.ok('PUT', '/api/policy', { text: FIRST, note: 'the attic is closed' });
  const who = await person({ name: 'Pia Policy' });
  const page = await who.open('#/policy');
  await editor(page).waitFor();
  await page.getByText('The text is a valid policy.').waitFor();
  await axe(page, { what: 'policy' });
  await shot(page, 'policy');
  await fits(page, 320);

  await typeAll(page, FIRST.replace('match:', 'mach:'));
  await page.getByText(/line 5.*mach.*did you mean "match"/).first().waitFor();
  assert.ok(await page.getByRole('button', { name: 'Review and put in force' }).isDisabled());
  await page.locator('.cm-lintRange-error').first().waitFor();

  const before = (await g.ok('GET', '/api/policy')).version;
  await typeAll(page, FIRST.replace('then: deny', 'then: ask'));
  await page.getByText('The text is a valid policy.').waitFor();
  await page.getByRole('button', { name: 'Review and put in force' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('then: ask').waitFor();
  await dialog.getByText('then: deny').waitFor();
  await axe(page, { what: 'policy, review' });
  await dialog.getByLabel('Note').fill('somebody may be there');
  await dialog.getByRole('button', { name: 'Put in force' }).click();
  await page.getByText(/^Version \d+ is in force\.$/).first().waitFor();
  const now = await g.ok('GET', '/api/policy');
  assert.ok(now.version > before);
  assert.match(now.text, /then: ask/);
  assert.equal(now.note, 'somebody may be there');
  await page.getByText('somebody may be there').first().waitFor();

  // Versions: compare, roll back.
  await page.getByRole('tab', { name: 'Versions' }).click();
  await page.getByRole('table', { name: 'Versions of the policy' }).getByRole('link', { name: String(before), exact: true }).click();
  await page.getByRole('combobox', { name: 'Compare with' }).selectOption(String(now.version));
  await page.getByRole('region', { name: `From version ${now.version} to ${before}` }).getByText('then: deny').waitFor();
  await axe(page, { what: 'policy, versions' });
  await shot(page, 'policy-versions');
  await fits(page, 320);
  await page.getByRole('button', { name: 'Roll back to it' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Roll back' }).click();
  await page.getByText(/^Version \d+ is in force\.$/).first().waitFor();
  assert.equal((await g.ok('GET', '/api/policy')).text, FIRST);
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('the simulator names the rule and every condition; the request becomes a test case', async () => {
  const { g } = await world();
  await g.ok('PUT', '/api/policy', { text: FIRST });
  const who = await person();
  const page = await who.open('#/policy/explain');
  await page.getByLabel('Pool', { exact: true }).fill('attic');
  await page.getByRole('button', { name: 'What would happen?' }).click();
  await page.getByText('nobody is there').waitFor();
  await page.getByText('Denied', { exact: true }).waitFor();
  await page.getByRole('listitem').filter({ hasText: 'pool must be attic, is attic' }).first().waitFor();
  await axe(page, { what: 'policy, simulator' });
  await shot(page, 'policy-explain');
  await fits(page, 320);
  await page.getByRole('button', { name: 'Keep as a test case' }).click();
  await page.getByText('The case passes.').waitFor();
  await axe(page, { what: 'policy, cases' });
  // A draft that decides otherwise fails the case, and the review says so.
  await page.getByRole('tab', { name: 'Policy', exact: true }).click();
  await typeAll(page, FIRST.replace('then: deny', 'then: allow'));
  await page.getByRole('tab', { name: 'Test cases' }).click();
  await page.getByText('1 of 1 cases fails.').waitFor();
  await shot(page, 'policy-cases');
  await page.getByRole('tab', { name: 'Policy (draft)' }).click();
  await page.getByRole('button', { name: 'Review and put in force' }).click();
  await page.getByRole('dialog').getByText('1 of your test cases fails').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('button', { name: 'Discard the draft' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Discard' }).click();
  await page.getByRole('tab', { name: 'Test cases' }).click();
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Save as files' }).click()]);
  assert.equal(download.suggestedFilename(), 'cases.yaml');
  await page.getByRole('button', { name: /^Remove execute/ }).click();
  await page.getByText('No test cases yet').waitFor();
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByText('The case passes.').waitFor();
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('sessions under an older version are listed, and can adopt the newest', async () => {
  const { g } = await world();
  await g.ok('PUT', '/api/policy', { text: FIRST });
  const who = await person();
  const session = await who.api('POST', '/api/sessions', { name: 'older than the policy' });
  await g.ok('PUT', '/api/policy', { text: FIRST.replace('nobody is there', 'it is locked') });
  const page = await who.open('#/policy/sessions');
  const row = page.getByRole('row').filter({ hasText: 'older than the policy' });
  await row.waitFor();
  await axe(page, { what: 'policy, sessions' });
  await fits(page, 320);
  await row.getByRole('button', { name: 'Apply the newest' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Apply the newest' }).click();
  await row.waitFor({ state: 'detached' });
  assert.equal((await who.api('GET', `/api/sessions/${session.id}`)).policy_version, (await g.ok('GET', '/api/policy')).version);
  await who.api('DELETE', `/api/sessions/${session.id}`);
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('a tenant other than the operators tries requests and sees no text', async () => {
  const { g } = await world();
  await g.ok('PUT', '/api/policy', { text: FIRST });
  const who = await person({ name: 'Guest', tenant: 'guests', scopes: ['policy:admin', 'execute'] });
  const page = await who.open('#/policy');
  await page.getByRole('button', { name: 'What would happen?' }).waitFor();
  assert.equal(await page.getByRole('tab').count(), 0);
  await page.getByRole('button', { name: 'What would happen?' }).click();
  await page.getByText('Allowed', { exact: true }).waitFor();
  assert.ok(!(await page.content()).includes('nobody is there'));
  await who.close();
});
