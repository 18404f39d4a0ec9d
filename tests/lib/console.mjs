// SPDX-License-Identifier: Apache-2.0
// A real browser in front of a real daemon. The console's test files share one
// daemon and one browser when they run in one process (tests/console/all.mjs);
// a file that runs alone starts its own. Nothing here is a mock, but for the
// model `scripted`, which stands for a real one.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after } from 'node:test';
import { chromium } from 'playwright-core';
import { build, Glovebox, pool, root } from './glovebox.mjs';
import { ScriptedModel, analyst } from './scripted-model.mjs';

const require = createRequire(import.meta.url);
const axeSource = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

let made = null;
const opened = []; // how to close what was opened, also when the rest did not start

// The shared daemon and browser: { g, browser }.
export function world() {
  made ??= (async () => {
    const scripted = await ScriptedModel.start(analyst);
    opened.unshift(() => scripted.close());
    const g = await Glovebox.start({ config: { pools: [pool({ runtime: 'standard', ready: 2 })], models: [{ name: 'scripted', kind: 'openai-chat', url: scripted.url, model: 'analyst' }] } });
    opened.unshift(() => g.stop());
    const browser = await launch();
    opened.unshift(() => browser.close());
    const front = process.env.GLOVEBOX_CONSOLE_DEV ? await devServer(g.url) : null;
    opened.unshift(() => front?.child.kill());
    return { g, browser, front, scripted, url: front?.url ?? g.url };
  })();
  return made;
}

// With GLOVEBOX_CONSOLE_DEV set, pages come from web/dist instead of from the
// daemon, so that a change to the console needs no new daemon.
async function devServer(target) {
  const child = spawn(process.execPath, [join(root, 'web/dev.mjs'), '0'], { env: { PATH: process.env.PATH, GLOVEBOX_URL: target, GLOVEBOX_DIST: process.env.GLOVEBOX_DIST ?? join(root, 'web/dist') }, stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = await once(child.stdout, 'data');
  return { child, url: String(line).split(' ')[0] };
}

export const launch = () => chromium.launch({ executablePath: '/usr/bin/chromium', args: FLAGS });

after(async () => {
  await made?.catch(() => null);
  for (const close of opened) await close();
});

export const everything = ['execute', 'files:read', 'files:write', 'workspaces:admin', 'audit:read', 'policy:admin', 'approve', 'admin'];

// A signed-in person with a key and a browser context of their own; server: at
// another daemon ({ g, url }). Each page
// collects what the browser complained about: page.problems.
export async function person({ name = 'Ada', scopes = everything, key, viewport = { width: 1360, height: 900 }, tenant, colorScheme = 'light', signedIn = true, server, ...extra } = {}) {
  const { browser, ...shared } = await world();
  const { g, url } = server ?? shared;
  const secret = key ?? (await g.ok('POST', '/api/keys', { name, scopes, ...(tenant ? { tenant } : {}) })).secret;
  const context = await browser.newContext({ viewport, colorScheme, baseURL: url, locale: 'en-GB', timezoneId: 'Europe/Berlin', acceptDownloads: true, ...extra });
  context.setDefaultTimeout(60_000); // a bound for a busy machine; no test waits that long
  // The tour has its own test; elsewhere it would lie over the screen.
  await context.addInitScript(() => { try { localStorage.setItem('glovebox.tour', 'done'); } catch { /* an opaque frame */ } });
  if (signedIn) {
    const answer = await context.request.post('/api/console/login', { headers: { 'X-Glovebox-Console': '1', Origin: url }, data: { key: secret } });
    assert.equal(answer.status(), 200, await answer.text());
  }
  const open = async (hash = '#/') => {
    const page = await context.newPage();
    page.problems = [];
    page.on('pageerror', (error) => page.problems.push(`error: ${error.message}`));
    page.on('console', (message) => {
      if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) page.problems.push(`console: ${message.text()}`);
    });
    await page.goto(`/${hash}`);
    return page;
  };
  return { g, url, context, key: secret, open, close: () => context.close(), api: (method, path, body, options) => g.ok(method, path, body, { key: secret, ...options }) };
}

// What axe-core has to say about the page, in both themes. Frames are foreign
// content and have their own page.
export async function axe(page, { what = page.url(), exclude = [] } = {}) {
  const loaded = await page.evaluate(() => 'axe' in window);
  if (!loaded) await page.evaluate(axeSource);
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await page.waitForFunction((theme) => document.documentElement.dataset.theme === theme, colorScheme);
    const found = await page.evaluate((out) => window.axe.run({ exclude: [['iframe'], ...out.map((s) => [s])] }, { iframes: false, resultTypes: ['violations'] }), exclude);
    const text = found.violations.map((v) => `${v.id}: ${v.help}\n${v.nodes.slice(0, 4).map((n) => `    ${n.target.join(' ')}: ${n.failureSummary.split('\n').slice(1, 3).join(' ')}`).join('\n')}`).join('\n');
    assert.equal(text, '', `axe in ${colorScheme} theme, ${what}:\n${text}`);
  }
  await page.emulateMedia({ colorScheme: 'light' });
}

// No sideways scrolling of the page at this width, once it has settled.
export async function fits(page, width, { height = 800 } = {}) {
  const before = page.viewportSize();
  await page.setViewportSize({ width, height });
  const settled = await page.waitForFunction((room) => document.documentElement.clientWidth <= room && document.documentElement.scrollWidth <= document.documentElement.clientWidth, width, { timeout: 10_000 }).catch(() => null);
  if (!settled) {
    const over = await page.evaluate(() => [...document.querySelectorAll('body *')].filter((el) => el.getBoundingClientRect().right > document.documentElement.clientWidth + 1).slice(0, 5).map((el) => `${el.tagName}.${el.className}`));
    assert.fail(`the page is wider than ${width} px: ${over.join(', ')}`);
  }
  await page.setViewportSize(before);
}

// A picture for people, when GLOVEBOX_SHOTS names a folder.
export async function shot(page, name, { themes = ['light', 'dark'], ...options } = {}) {
  if (!process.env.GLOVEBOX_SHOTS) return;
  mkdirSync(process.env.GLOVEBOX_SHOTS, { recursive: true });
  for (const colorScheme of themes) {
    await page.emulateMedia({ colorScheme });
    await page.waitForTimeout(1200); // frames load again
    await page.screenshot({ path: join(process.env.GLOVEBOX_SHOTS, `${name}-${colorScheme}.png`), ...options });
  }
  await page.emulateMedia({ colorScheme: 'light' });
}

export { build };
