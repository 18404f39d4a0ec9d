// SPDX-License-Identifier: Apache-2.0
// Signing in and out, the shell, and what a person may not see.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { bin, Glovebox } from '../lib/glovebox.mjs';
import { axe, everything, fits, person, shot, world } from '../lib/console.mjs';
import { MockProvider } from '../lib/oidc.mjs';
import { stop } from '../lib/wire.mjs';

test('U3: a key signs in once and is nowhere in the browser afterwards', async () => {
  const { g } = await world();
  const who = await person({ signedIn: false });
  const page = await who.open();
  await page.getByLabel('Key').waitFor();
  await axe(page, { what: 'sign-in' });
  await fits(page, 320);
  await shot(page, 'signin');
  await page.getByLabel('Key').fill('gbx_wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('This key is not known').waitFor();
  await page.getByLabel('Key').fill(who.key);
  await page.keyboard.press('Enter');
  await page.getByRole('navigation', { name: 'Screens' }).waitFor();
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href, document.documentElement.outerHTML]));
  assert.ok(!kept.includes(who.key), 'the key is in storage, address or page');
  const cookies = await who.context.cookies();
  assert.equal(cookies.length, 1);
  assert.ok(cookies[0].httpOnly && cookies[0].sameSite === 'Strict', JSON.stringify(cookies));
  assert.notEqual(cookies[0].value, who.key);
  assert.ok(cookies[0].expires - Date.now() / 1000 <= 12 * 3600 + 5);
  assert.ok(!g.log.includes(who.key), 'the key is in the log');
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('U3: a one-time link signs in once, and leaves the address', async () => {
  const { g } = await world();
  const link = execFileSync(bin('glovebox'), ['console', '--print', '--data', `${g.dir}/data`], { encoding: 'utf8', env: { PATH: process.env.PATH } }).match(/https?:\S+#\/link\/\S+/)[0];
  const who = await person({ signedIn: false });
  const page = await who.open(link.slice(link.indexOf('#')));
  await page.getByRole('navigation', { name: 'Screens' }).waitFor();
  assert.ok(!page.url().includes('link'));
  await who.context.clearCookies();
  const again = await who.open(link.slice(link.indexOf('#')));
  await again.getByText('expired or was used before').waitFor();
  await who.close();
});

test('U4: signing out ends every tab at once', async () => {
  const who = await person({ name: 'Two tabs' });
  const one = await who.open();
  const two = await who.open('#/pools');
  await two.getByRole('heading', { level: 1 }).waitFor();
  await one.getByRole('button', { name: 'Account' }).click();
  await one.getByRole('menuitem', { name: 'Sign out' }).click();
  await one.getByLabel('Key').waitFor();
  await two.getByText('signed out', { exact: false }).first().waitFor();
  await one.reload();
  await one.getByLabel('Key').waitFor();
  await who.close();
});

test('U4: a token that is revoked elsewhere signs the tab out', async () => {
  const who = await person({ name: 'Revoked' });
  const page = await who.open();
  await page.getByRole('navigation', { name: 'Screens' }).waitFor();
  const tokens = await who.g.ok('GET', '/api/tokens?limit=1000', undefined, { key: who.key });
  for (const token of tokens.data) await who.g.ok('DELETE', `/api/tokens/${token.id}`, undefined, { key: who.key });
  await page.getByLabel('Key').waitFor();
  await page.getByText('You are signed out').waitFor();
  await who.close();
});

test('U5: navigation and screens show only what the key allows', async () => {
  const few = await person({ name: 'Reader', scopes: ['files:read'] });
  const page = await few.open();
  const rail = page.getByRole('navigation', { name: 'Screens' });
  await rail.waitFor();
  assert.deepEqual(await rail.getByRole('link').allInnerTexts().then((all) => all.map((t) => t.trim())), ['Glovebox', 'Files', 'Search', 'Conversations', 'Pools and runtimes', 'Quotas']);
  await page.goto('/#/policy');
  await page.getByText('There is nothing here').waitFor();
  await few.close();
  const all = await person({ scopes: everything });
  const full = await all.open();
  await full.getByRole('link', { name: 'Operations' }).waitFor();
  assert.equal(await full.getByRole('navigation', { name: 'Screens' }).getByRole('link').count(), 19);
  await all.close();
});

test('the shell is usable by keyboard, in both themes, and at 320 pixels', async () => {
  const who = await person();
  const page = await who.open('#/pools');
  await page.getByRole('heading', { level: 1 }).waitFor();
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the content');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
  await page.getByRole('button', { name: 'Theme: Dark' }).click();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
  await page.reload();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
  await page.getByRole('button', { name: 'Theme: As the system' }).click();
  await page.setViewportSize({ width: 320, height: 640 });
  await page.getByRole('button', { name: 'Screens' }).click();
  await page.getByRole('link', { name: 'Quotas' }).click();
  await page.waitForURL(/quotas/);
  await who.close();
});

test('the first load, up to the first screen, is at most 250 KB compressed, without editor and plots', { skip: process.env.GLOVEBOX_CONSOLE_DEV && 'the development server does not compress' }, async () => {
  const who = await person();
  const page = await who.context.newPage();
  const cdp = await who.context.newCDPSession(page);
  await cdp.send('Network.enable');
  let bytes = 0;
  const urls = [];
  cdp.on('Network.responseReceived', ({ response }) => urls.push(response.url));
  cdp.on('Network.loadingFinished', ({ encodedDataLength }) => { bytes += encodedDataLength; });
  await page.goto('/');
  await page.getByRole('heading', { name: 'Notebooks' }).waitFor();
  await page.waitForLoadState('load');
  await page.waitForTimeout(300); // what else is loaded counts, too
  assert.ok(bytes > 40_000 && bytes <= 250_000, `${bytes} bytes: ${urls.join(' ')}`);
  assert.ok(!urls.some((url) => /plotly|editor/.test(url)));
  const hosts = new Set(urls.map((url) => new URL(url).host));
  assert.deepEqual([...hosts], [new URL(page.url()).host]);
  await who.close();
});

test('U3: an issuer on another site refuses, then signs in with its scopes', async () => {
  // 'localhost' is another site than 127.0.0.1, so cookies are as strict as for
  // an issuer elsewhere.
  const provider = await new MockProvider({ host: 'localhost' }).up();
  const g = await Glovebox.start({ config: provider.settings() });
  try {
    const who = await person({ signedIn: false, key: 'none', server: { g, url: g.url } });
    const page = await who.open();
    const button = page.getByRole('link', { name: 'Sign in with Example' });
    await button.waitFor();
    await axe(page, { what: 'sign-in with an issuer' });
    provider.refuse = 'access_denied';
    await button.click();
    await page.getByText('You did not allow the sign-in').waitFor();
    assert.ok(page.url().startsWith(g.url), page.url());
    provider.refuse = undefined;
    await button.click();
    await page.getByRole('navigation', { name: 'Screens' }).waitFor();
    assert.ok(provider.seen.every((word) => !page.url().includes(word)), 'a code is in the address');
    await page.getByRole('button', { name: 'Account' }).click();
    await page.getByText('ada@example.org').first().waitFor();
    await page.reload();
    await page.getByRole('navigation', { name: 'Screens' }).waitFor();
    assert.equal(await page.getByRole('link', { name: 'Policy' }).count(), 0, 'an analyst sees no policy editor');
    assert.deepEqual(page.problems, []);
    await who.close();
  } finally {
    await stop(g);
    await provider.down();
  }
});
