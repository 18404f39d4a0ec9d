// SPDX-License-Identifier: Apache-2.0
// More of what content would do to a person: formulas that link and cover,
// frames that flood, grow, open and send, terminals that jump, files behind
// share links, tables with formulas.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { person, world } from '../lib/console.mjs';

const notebook = (cells) => JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: { '<img src=x onerror=window.__owned=1>': { __proto__: { polluted: 1 } } }, cells });
const output = (data, id) => ({ cell_type: 'code', id, metadata: {}, source: '1', execution_count: 1, outputs: [{ output_type: 'display_data', metadata: {}, data }] });
const open = async (who, cells) => {
  const ws = (await who.api('POST', '/api/workspaces', { name: 'More attacks' })).id;
  await who.api('PUT', `/api/workspaces/${ws}/files/notebook.ipynb`, notebook(cells), { raw: true });
  const page = await who.open(`#/notebook/${ws}`);
  await page.locator('.cell').first().waitFor();
  return { page, ws };
};
const owned = (page) => page.evaluate(() => window.__owned ?? null);

test('U1: formulas link nowhere, take no class or style, stay in their box, and cannot expand without end', async () => {
  const who = await person({ name: 'Target' });
  const tex = ['\\href{javascript:window.__owned=1}{x}', '\\url{javascript:window.__owned=1}', '\\class{shell-scrim}{x}', '\\style{position:fixed;inset:0}{x}', '\\id{main}{x}', '\\includegraphics{https://example.org/x.png}', '\\data{a=b}{x}',
    '\\label{eq:1} \\ref{/link/gbl_0}', '\\def\\a{\\a\\a}\\a', '\\kern-4000em\\rule{9000em}{9000em}', '\\text{</math><img src=x onerror=window.__owned=2>}', '{'.repeat(3000)];
  const { page } = await open(who, [
    { cell_type: 'markdown', id: 'm', metadata: {}, source: `Control: $x_1$\n\n${tex.map((t) => `$$${t}$$`).join('\n\n')}` },
    output({ 'text/latex': '$\\displaystyle \\href{javascript:window.__owned=3}{y} $', 'text/plain': 'y' }, 'l'),
  ]);
  await page.locator('.math math').first().waitFor(); // control: formulas are drawn
  await page.locator('.math-source').nth(4).waitFor(); // and what is refused is shown as its source
  const found = await page.evaluate(() => ({
    links: document.querySelectorAll('.math [href]').length, ids: document.querySelectorAll('.math [id]').length, classes: document.querySelectorAll('.math .shell-scrim').length,
    images: document.querySelectorAll('.math img').length,
    outside: [...document.querySelectorAll('.math')].filter((m) => getComputedStyle(m).contain !== 'paint').length,
    covered: document.elementFromPoint(20, 20)?.closest('.shell-rail') !== null,
  }));
  assert.deepEqual(found, { links: 0, ids: 0, classes: 0, images: 0, outside: 0, covered: true });
  assert.equal(await owned(page), null);
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('U1: a frame cannot flood, outgrow, leave, open, submit, download, or speak for another', async () => {
  const who = await person({ name: 'Target' });
  const { page, ws } = await open(who, [
    output({ 'text/html': `<p>flood</p><script>
      const send = () => { for (let i = 0; i < 100; i++) { parent.postMessage({ glovebox: 'frame', height: 1e9 }, '*'); parent.postMessage({ glovebox: 'frame', error: 'E'.repeat(1000) }, '*'); parent.postMessage('signed-out', '*'); parent.postMessage({ glovebox: 'show', content: { kind: 'html', html: '<b>other</b>' } }, '*'); } for (let f = 0; f < 3; f++) try { parent.frames[f].postMessage({ glovebox: 'show', content: { kind: 'html', html: 'replaced by another frame' } }, '*') } catch (e) {} setTimeout(send, 5); }; send();</script>` }, 'a'),
    output({ 'text/html': `<p id=out>leave</p><form id=f action="/api/keys" method=post target=_top><input name=a></form><a id=d download href="data:text/plain,x">d</a><script>
      const tries = [() => top.location = '/#/people', () => parent.location.hash = '#/people', () => window.open('/'), () => f.submit(), () => d.click(), () => alert(1), () => document.documentElement.requestFullscreen(), () => navigator.serviceWorker.register('/x.js'), () => new BroadcastChannel('glovebox').postMessage('signed-out'), () => fetch('/api/me'), () => new WebSocket('ws://127.0.0.1:1'), () => indexedDB.open('x')];
      for (const t of tries) try { Promise.resolve(t()).catch(() => {}) } catch (e) {}
      document.body.append(' tried ' + tries.length);</script>` }, 'b'),
    output({ 'text/html': '<p>victim frame</p>' }, 'c'),
  ]);
  await page.locator('.cell').nth(0).getByText('The content was stopped').waitFor();
  await page.locator('.cell').nth(1).frameLocator('iframe').getByText('tried 12').waitFor(); // control
  await page.locator('.cell').nth(2).frameLocator('iframe').getByText('victim frame').waitFor();
  await page.waitForTimeout(500);
  const heights = await page.locator('iframe').evaluateAll((all) => all.map((f) => f.clientHeight));
  assert.ok(heights.every((h) => h <= 720), `heights ${heights}`);
  assert.ok((await page.locator('.cell').nth(0).innerText()).length < 2000, 'the words of a frame are cut');
  assert.ok(page.url().includes(`#/notebook/${ws}`), page.url());
  assert.equal(who.context.pages().length, 1, 'no window was opened');
  await page.getByRole('button', { name: 'Run', exact: true }).waitFor(); // still signed in, still there
  assert.equal((await who.context.cookies()).filter((c) => c.name.includes('glovebox')).length, 1);
  await who.close();
});

test('U1: terminal sequences move within bounds, link nowhere, and leave the clipboard alone', async () => {
  const who = await person({ name: 'Target' });
  const esc = '\u001b';
  const text = [`${esc}[2000000000C far`, `${esc}[2000000000B down`, `${esc}[2000000000;2000000000H there`, `${esc}]8;;javascript:window.__owned=1${esc}\\link${esc}]8;;${esc}\\`, `${esc}]52;c;cHduZWQ=${esc}\\`, `${esc}]0;title${esc}\\`, `${esc}P1000p${esc}\\`, `${esc}[38;2;999;999;999mcolour${esc}[0m`, `${esc}[${'9;'.repeat(20000)}m`, `${esc}[?1049h`, 'the end'].join('\n');
  const { page } = await open(who, [{ cell_type: 'code', id: 'a', metadata: {}, source: '1', execution_count: 1, outputs: [{ output_type: 'stream', name: 'stdout', text }] }]);
  await page.locator('.cell-output').getByText('the end').waitFor();
  assert.equal(await page.locator('.cell-output a').count(), 0);
  assert.ok((await page.locator('.cell-output').innerText()).length < 20_000);
  assert.ok(await page.locator('.cell-output *').count() < 2000);
  assert.notEqual(await page.title(), 'title');
  assert.equal(await owned(page), null);
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('U1 U2: what a share link or a file opens runs nothing at the origin of the console', async () => {
  const { browser, url } = await world();
  const who = await person({ name: 'Target' });
  const ws = (await who.api('POST', '/api/workspaces', { name: 'Shared attacks' })).id;
  const script = 'fetch("/api/me", { headers: { "X-Glovebox-Console": "1" } }).then((r) => { document.title = "asked " + r.status }); window.__owned = origin; localStorage.setItem("owned", 1)';
  const hostile = { 'page.html': `<title>plain</title><body>page<script>${script}</script>`, 'draw.svg': `<svg xmlns="http://www.w3.org/2000/svg"><script>${script}</script><foreignObject width="9" height="9"><script xmlns="http://www.w3.org/1999/xhtml">${script}</script></foreignObject></svg>`,
    'chat.md': `# Chat\n\n<script>${script}</script>\n\n[x](javascript:window.__owned=1)`, 'app.xhtml': `<html xmlns="http://www.w3.org/1999/xhtml"><script>${script}</script></html>`, 'a.csv': 'name,value\n"=HYPERLINK(""javascript:window.__owned=1"")","<img src=x onerror=window.__owned=1>"\n@SUM(1),\u202etxt.exe\n' };
  for (const [name, text] of Object.entries(hostile)) await who.api('PUT', `/api/workspaces/${ws}/files/${name}`, text, { raw: true });
  for (const name of Object.keys(hostile)) {
    const share = await who.api('POST', '/api/shares', { workspace: ws, path: name, mode: 'read', expires_in_s: 600 });
    // A signed-in person follows it, and a stranger does.
    const link = url + new URL(share.url, url).pathname + new URL(share.url, url).search;
    for (const context of [who.context, await browser.newContext({ acceptDownloads: true })]) {
      const page = await context.newPage();
      await page.goto(link).catch((error) => assert.match(error.message, /Download is starting|ERR_ABORTED/, `${name}: ${error.message}`));
      await page.waitForTimeout(300);
      const seen = await page.evaluate(() => ({ owned: window.__owned ?? null, title: document.title })).catch(() => ({ owned: null, title: '' }));
      assert.ok(seen.owned === null || seen.owned === 'null', `${name} ran at ${seen.owned}`);
      assert.doesNotMatch(seen.title, /^asked 200/, `${name} read as the person`);
      await page.close();
      if (context !== who.context) await context.close();
    }
  }
  // The previews of the console show them, and run nothing.
  const page = await who.open(`#/files/${ws}/a.csv`);
  await page.getByText('=HYPERLINK("javascript:window.__owned=1")').first().waitFor();
  await page.getByText('<img src=x onerror=window.__owned=1>').first().waitFor();
  assert.equal(await page.locator('.shell-main a[href^="javascript"]').count(), 0);
  for (const name of ['page.html', 'draw.svg', 'chat.md']) {
    await page.goto(`/#/files/${ws}/${name}`);
    await page.getByRole('heading', { name }).waitFor();
    await page.waitForTimeout(500);
    assert.equal(await owned(page), null, name);
  }
  assert.equal(await page.evaluate(() => localStorage.getItem('owned')), null);
  await who.close();
});
