// SPDX-License-Identifier: Apache-2.0
// Files: trees, previews, versions, provenance, shares, locks, trash, uploads.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { before, test } from 'node:test';
import { axe, fits, person, shot, world } from '../lib/console.mjs';

// Made by a real session, twice, so that there are versions to compare.
const CODE = `import os, wave
import pandas as pd, matplotlib.pyplot as plt
df = pd.DataFrame({'month': ['Jan', 'Feb', 'Mar'], 'sales': [40, 47, 54]})
df.to_csv('sales.csv', index=False)
with pd.ExcelWriter('sales.xlsx') as book:
    df.to_excel(book, sheet_name='First', index=False)
    df.tail(1).to_excel(book, sheet_name='Second', index=False)
plt.figure(figsize=(3, 2)); plt.plot(df.sales); plt.title('Sales'); plt.savefig('chart.png'); plt.savefig('report.pdf'); plt.close()
os.makedirs('notes', exist_ok=True)
open('notes/readme.md', 'w').write('# Notes\\n\\nThe **north** region grew.\\n')
open('notes/job.py', 'w').write(''.join(f'line_{i} = {i}\\n' for i in range(1, 3001)))
w = wave.open('tone.wav', 'wb'); w.setnchannels(1); w.setsampwidth(2); w.setframerate(8000); w.writeframes(bytes(1600)); w.close()`;
const AGAIN = `df['sales'] += 5
df.to_csv('sales.csv', index=False)
plt.figure(figsize=(3, 2)); plt.plot(df.sales, color='red'); plt.savefig('chart.png'); plt.close()`;

const HOSTILE = `evil = '<img src=x onerror="top.pwned=1">'
open('<img src=x onerror=alert(1)>.txt', 'w').write(evil)
open('\\u202egnp.exe\\u202c.txt', 'w').write('bidi')
open('\\u05d3\\u05d5\\u05d7 \\u05e8\\u05d1\\u05e2\\u05d5\\u05e0\\u05d9.txt', 'w').write('rtl')
open('evil.csv', 'w').write('name,formula\\n' + evil.replace('"', '') + ',"=HYPERLINK(""javascript:alert(1)"")"\\n<script>top.pwned=1</script>,x\\n')
open('evil.svg', 'w').write('<svg xmlns="http://www.w3.org/2000/svg" width="90" height="60" onload="top.pwned=1"><rect width="90" height="60" fill="teal"/><script>try{top.pwned=1;fetch("/api/me")}catch(e){}</script></svg>')
open('evil.html', 'w').write('<h1 id=h>page</h1><script>let r=[];try{top.pwned=1;r.push("top")}catch(e){};try{r.push(document.cookie)}catch(e){};fetch("/api/me").then(()=>r.push("net"),()=>0).finally(()=>{document.getElementById("h").textContent="ran "+r.join()})</script><form action="https://evil.invalid/"><input name=a></form>')
open('evil.md', 'w').write('# x\\n\\n<script>top.pwned=1</script>\\n\\n<img src=x onerror=top.pwned=1>\\n\\n[click](javascript:top.pwned=1) ![p](https://evil.invalid/p.png)\\n')`;

let ws;
let executions;
let big;

const execute = async (g, session, code, metadata = {}) => {
  const done = await g.ok('POST', `/api/sessions/${session}/executions`, { code, metadata });
  assert.equal(done.outcome, 'ok', JSON.stringify(done.error ?? done.limit));
  return done;
};
const at = (...parts) => `#/files/${parts.map(encodeURIComponent).join('/')}`;

before(async () => {
  const { g } = await world();
  ws = (await g.ok('POST', '/api/workspaces', { name: 'Quarterly report' })).id;
  const session = (await g.ok('POST', '/api/sessions', { workspace: ws, name: 'analysis' })).id;
  executions = [await execute(g, session, CODE, { conversation: 'plan-7', message: 'm1' }), await execute(g, session, AGAIN, { conversation: 'plan-7', message: 'm2' })];
  // The large ones are made while other tests run.
  big = (async () => {
    const id = (await g.ok('POST', '/api/workspaces', { name: 'Large' })).id;
    const rows = ['id,name,value,when'];
    for (let i = 1; i <= 1_000_000; i++) rows.push(`${i},"row ${i}, quoted",${i * 3},2026-01-01`);
    await g.ok('PUT', `/api/workspaces/${id}/files/million.csv`, Buffer.from(`${rows.join('\n')}\n`), { raw: true });
    const s = (await g.ok('POST', '/api/sessions', { workspace: id })).id;
    await execute(g, s, "import os\nos.makedirs('tree/a')\nfor i in range(6250): open(f'tree/a/file-{i:05}.txt', 'w').close()");
    for (const [from, to] of [['tree/a', 'tree/b'], ['tree', 'tree-2'], ['tree', 'tree-3'], ['tree', 'tree-4'], ['tree', 'tree-5'], ['tree', 'tree-6'], ['tree', 'tree-7'], ['tree', 'tree-8']])
      await g.ok('POST', `/api/workspaces/${id}/copy`, { from, to });
    return id;
  })();
  big.catch(() => {});
});

test('a workspace shows its tree, its usage and a preview of each kind', async () => {
  const who = await person();
  const page = await who.open('#/files');
  await page.getByRole('link', { name: 'Quarterly report' }).waitFor();
  await page.getByRole('region', { name: 'Usage' }).getByText('stored').waitFor();
  await axe(page, { what: 'workspaces' });
  await fits(page, 320);
  await shot(page, 'files-workspaces');
  await page.getByRole('link', { name: 'Quarterly report' }).click();
  const tree = page.getByRole('tree', { name: 'Files' });
  await tree.getByRole('treeitem', { name: /sales\.csv/ }).waitFor();
  await axe(page, { what: 'workspace' });
  await fits(page, 320);
  // By keyboard alone: down to the folder, open it, into it, choose a file.
  await tree.focus();
  for (let i = 0; i < 1; i++) await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowRight');
  await tree.getByRole('treeitem', { name: /readme\.md/ }).waitFor();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.getByText('region grew').waitFor();
  assert.match(page.url(), /notes%2Freadme\.md/);
  await shot(page, 'files-markdown');

  const open = (name, query = '') => page.goto(`/${at(ws, name)}${query}`);
  await open('sales.csv');
  await page.getByRole('table', { name: 'Table sales.csv' }).getByRole('cell', { name: '52', exact: true }).waitFor();
  await page.getByText('3 rows, 2 columns').waitFor();
  await axe(page, { what: 'CSV' });
  await fits(page, 320);
  await shot(page, 'files-csv');
  await open('chart.png');
  await page.getByText('300 × 200 pixels').waitFor();
  await shot(page, 'files-picture');
  await open('report.pdf');
  const pdf = page.frameLocator('iframe[title="Document report.pdf"]');
  await pdf.getByText('1 page').waitFor();
  await pdf.locator('[data-drawn="done"] canvas[aria-label*="Sales"]').waitFor();
  await shot(page, 'files-pdf');
  await open('tone.wav');
  await page.waitForFunction(() => document.querySelector('audio')?.duration > 0);
  await open('notes/job.py', '?line=2500');
  await page.locator('[aria-current="location"]', { hasText: 'line_2500 = 2500' }).waitFor();
  assert.ok(await page.locator('.files-line').count() < 200, 'only lines in view are in the page');
  await axe(page, { what: 'code' });
  await shot(page, 'files-code');
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('an Excel file is read in a session and shown in pages, sheet by sheet', async () => {
  const who = await person();
  const page = await who.open(at(ws, 'sales.xlsx'));
  const table = page.getByRole('table', { name: 'Table sales.xlsx' });
  await table.getByRole('cell', { name: 'Jan' }).waitFor({ timeout: 40_000 });
  await page.getByLabel('Sheet').selectOption('Second');
  await page.getByText('1 row, 2 columns').waitFor({ timeout: 40_000 });
  await axe(page, { what: 'Excel' });
  await who.close();
});

test('versions are a timeline with differences of text and pictures; one can be restored, and that undone', async () => {
  const who = await person();
  const page = await who.open(`${at(ws, 'sales.csv')}?tab=versions`);
  const timeline = page.getByRole('list', { name: 'Versions, newest first' });
  await timeline.getByRole('link', { name: 'Version 2' }).waitFor();
  await page.getByRole('button', { name: 'Compare with the one before' }).first().click();
  const diff = page.getByRole('region', { name: 'Difference', exact: true });
  await diff.locator('.added', { hasText: 'Jan,45' }).waitFor();
  await diff.locator('.removed', { hasText: 'Jan,40' }).waitFor();
  await axe(page, { what: 'versions' });
  await fits(page, 320);
  await shot(page, 'files-versions');
  await page.getByRole('button', { name: 'Restore' }).click();
  await page.getByText('Version 1 is current again').waitFor();
  const text = () => who.g.ok('GET', `/api/workspaces/${ws}/diff?path=sales.csv`, undefined, { headers: { Accept: 'application/json' } });
  assert.match((await text()).diff, /\+Jan,40/);
  await page.getByRole('button', { name: 'Undo' }).click();
  await timeline.getByRole('link', { name: 'Version 4' }).waitFor();
  assert.match((await text()).diff, /\+Jan,45/);

  await page.goto(`/${at(ws, 'chart.png')}?tab=versions`);
  await page.getByRole('button', { name: 'Compare with the one before' }).first().click();
  await page.getByRole('img', { name: 'Version 1' }).waitFor();
  await page.getByRole('button', { name: 'Slider' }).click();
  await page.getByLabel('Border between the two versions').fill('30');
  await axe(page, { what: 'picture versions' });
  await shot(page, 'files-picture-versions');
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('a file says what made it, and one click runs it again', async () => {
  const who = await person();
  const page = await who.open(`${at(ws, 'chart.png')}?tab=made`);
  await page.getByText("color='red'").waitFor();
  assert.equal(await page.getByRole('link', { name: executions[1].id }).getAttribute('href'), `#/executions/${executions[1].id}`);
  assert.equal(await page.getByRole('link', { name: 'plan-7' }).getAttribute('href'), '#/conversations/plan-7');
  await axe(page, { what: 'made by' });
  await shot(page, 'files-made-by');
  await page.goto(`/${at(ws, 'notes/readme.md')}?tab=made`);
  await page.getByRole('button', { name: 'Run again' }).click();
  await page.waitForURL(/#\/executions\/exec_/);
  const id = page.url().split('/').pop();
  assert.notEqual(id, executions[0].id);
  await page.locator('.executions-facts').getByText('ok', { exact: true }).waitFor({ timeout: 60_000 });
  const evidence = await who.api('GET', `/api/executions/${id}/evidence`);
  assert.equal(evidence.retry_of, executions[0].id);
  await who.close();
});

test('a share has an absolute link, an expiry, a password and a count; a stranger opens it; revoking ends it', async () => {
  const who = await person();
  const page = await who.open(at(ws, 'chart.png'));
  await page.getByRole('button', { name: 'Share…' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Password').fill('open sesame 9');
  await dialog.getByLabel('Most downloads').fill('3');
  await dialog.getByLabel('Works for').selectOption('3600');
  await axe(page, { what: 'share dialog' });
  await shot(page, 'files-share');
  await dialog.getByRole('button', { name: 'Make the link' }).click();
  const link = await dialog.getByLabel('Link').inputValue();
  assert.match(link, /^http:\/\/127\.0\.0\.1:\d+\/s\//);
  await dialog.getByRole('button', { name: 'Done' }).click();
  const target = new URL(new URL(link).pathname, who.g.url);
  assert.equal((await fetch(target)).status, 401);
  const got = await fetch(target, { headers: { 'X-Share-Password': 'open sesame 9' } });
  assert.equal(got.status, 200);
  assert.equal(Buffer.from(await got.arrayBuffer()).subarray(1, 4).toString(), 'PNG');
  await page.goto(`/${at(ws)}?tab=shares`);
  const row = page.getByRole('row', { name: /chart\.png/ });
  await row.getByText('1 of 3').waitFor();
  await row.getByText('password').waitFor();
  await axe(page, { what: 'shares' });
  await fits(page, 320);
  await row.getByRole('button', { name: 'Revoke' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await row.getByText('revoked').first().waitFor();
  assert.equal((await fetch(target, { headers: { 'X-Share-Password': 'open sesame 9' } })).status, 404);
  await who.close();
});

test('a lock keeps others out; only its tab or an owner ends it', async () => {
  const who = await person();
  const page = await who.open(`${at(ws)}?tab=locks`);
  await page.getByRole('button', { name: 'Lock a path…' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Path').fill('sales.csv');
  await dialog.getByLabel('Why').fill('<b>month end</b>');
  await dialog.getByRole('button', { name: 'Lock', exact: true }).click();
  await page.getByRole('cell', { name: '<b>month end</b>' }).waitFor();
  await page.getByRole('treeitem', { name: /sales\.csv/ }).getByText('locked').waitFor();
  await axe(page, { what: 'locks' });
  const refused = await fetch(`${who.g.url}/api/workspaces/${ws}/files/sales.csv`, { method: 'PUT', body: 'x', headers: { Authorization: `Bearer ${who.g.key}` } });
  assert.equal(refused.status, 423);
  await page.getByRole('button', { name: 'Release' }).click();
  await page.getByText('The lock is released').waitFor();
  await page.getByRole('heading', { name: 'No locks' }).waitFor();
  await who.close();
});

test('files are uploaded by choice and by dropping, with progress; deleting is undone; the trash brings back; a purge shows first what it removes', async () => {
  const who = await person();
  const id = (await who.api('POST', '/api/workspaces', { name: 'Inbox' })).id;
  const page = await who.open(at(id));
  await page.getByRole('heading', { name: 'No files yet' }).waitFor();
  await axe(page, { what: 'empty workspace' });
  await shot(page, 'files-empty');
  await page.locator('input[type=file]').setInputFiles([{ name: 'one.txt', mimeType: 'text/plain', buffer: Buffer.from('first\n') }, { name: 'largest.bin', mimeType: 'application/octet-stream', buffer: Buffer.alloc(8 << 20, 7) }]);
  await page.getByRole('region', { name: 'Uploads' }).getByText('done').nth(1).waitFor();
  await page.getByRole('treeitem', { name: /largest\.bin.*8 MiB/ }).waitFor();
  const data = await page.evaluateHandle(() => {
    const transfer = new DataTransfer();
    transfer.items.add(new File(['dropped text'], 'dropped.txt', { type: 'text/plain' }));
    return transfer;
  });
  await page.dispatchEvent('.files-split', 'dragover', { dataTransfer: data });
  await page.getByText('Drop to upload').waitFor();
  await page.dispatchEvent('.files-split', 'drop', { dataTransfer: data });
  await page.getByRole('treeitem', { name: /dropped\.txt/ }).click();
  await page.getByText('dropped text').waitFor();

  const remove = async () => {
    await page.getByRole('button', { name: 'More for dropped.txt' }).click();
    await page.getByRole('menuitem', { name: 'Delete' }).click();
    await page.getByText('dropped.txt is in the trash').last().waitFor();
    await page.getByRole('treeitem', { name: /dropped\.txt/ }).waitFor({ state: 'detached' });
  };
  await remove();
  await page.getByRole('button', { name: 'Undo' }).first().click();
  await page.getByText('dropped text').waitFor();
  await remove();
  await page.goto(`/${at(id)}?tab=trash`);
  const row = page.getByRole('row', { name: /dropped\.txt/ });
  await row.waitFor();
  await axe(page, { what: 'trash' });
  await fits(page, 320);
  await shot(page, 'files-trash');
  await row.getByRole('button', { name: 'Bring back' }).click();
  await page.getByRole('treeitem', { name: /dropped\.txt/ }).waitFor();

  await who.api('DELETE', `/api/workspaces/${id}/files/largest.bin`);
  await page.reload();
  await page.getByRole('button', { name: 'Free space…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Free space' });
  await dialog.getByRole('cell', { name: 'largest.bin' }).waitFor();
  await dialog.getByText('8 MiB').first().waitFor();
  await axe(page, { what: 'purge' });
  await dialog.getByRole('button', { name: 'Remove forever…' }).click();
  const sure = page.getByRole('dialog', { name: 'Remove forever?' });
  assert.ok(await sure.getByRole('button', { name: 'Remove', exact: true }).isDisabled());
  await sure.getByRole('textbox').fill('remove');
  await sure.getByRole('button', { name: 'Remove', exact: true }).click();
  await page.getByText(/Removed \d+ version/).waitFor();
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Zip' }).click()]);
  assert.equal(download.suggestedFilename(), 'Inbox.zip');
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('leftover workspaces are pruned after a preview; deleted ones come back', async () => {
  const who = await person();
  const made = await who.api('POST', '/api/run', { code: "open('left.txt', 'w').write('x')" });
  const page = await who.open('#/files');
  await page.getByRole('button', { name: 'Prune…' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('No workspace fits').waitFor();
  await dialog.getByLabel('Unchanged for at least (days)').fill('0');
  await dialog.getByText(made.workspace).waitFor();
  await axe(page, { what: 'prune' });
  await dialog.getByRole('button', { name: /^Delete \d/ }).click();
  await page.getByText(/Deleted \d+ workspace/).waitFor();
  await page.getByRole('tab', { name: 'Deleted' }).click();
  const row = page.getByRole('row', { name: new RegExp(made.workspace.slice(0, 11)) });
  await row.getByRole('button', { name: 'Bring back' }).click();
  await row.waitFor({ state: 'detached' });
  assert.equal((await who.api('GET', `/api/workspaces/${made.workspace}`)).deleted_at, null);
  await who.close();
});

test('U1: hostile names, CSV cells, SVG, HTML and Markdown do nothing', async () => {
  const who = await person();
  const id = (await who.api('POST', '/api/workspaces', { name: '<img src=x onerror="top.pwned=1">' })).id;
  const session = (await who.api('POST', '/api/sessions', { workspace: id })).id;
  await execute(who.g, session, HOSTILE).catch(async () => execute({ ok: (m, p, b) => who.api(m, p, b) }, session, HOSTILE));
  const page = await who.open(at(id));
  const elsewhere = [];
  page.on('request', (request) => { if (!request.url().startsWith(who.url) && !/^(blob|data):/.test(request.url())) elsewhere.push(request.url()); });
  page.on('dialog', (dialog) => { elsewhere.push(`dialog ${dialog.message()}`); void dialog.dismiss(); });
  await page.getByRole('heading', { level: 1, name: '<img src=x' }).waitFor();
  await page.getByRole('treeitem', { name: '<img src=x onerror=alert(1)>.txt' }).click();
  await page.getByText('<img src=x onerror="top.pwned=1">').last().waitFor();
  assert.ok(await page.getByRole('treeitem', { name: /␣202e/ }).count() === 1, 'direction marks in a name are visible');
  await page.getByRole('treeitem', { name: /דוח רבעוני/ }).waitFor();
  await shot(page, 'files-hostile');
  await page.goto(`/${at(id, 'evil.csv')}`);
  await page.getByRole('cell', { name: /^<img src=x/ }).waitFor();
  await page.getByRole('cell', { name: /^=HYPERLINK/ }).waitFor();
  assert.equal(await page.locator('.files-grid a, .files-grid img, .files-grid script').count(), 0);
  await page.goto(`/${at(id, 'evil.md')}`);
  await page.getByText('<script>top.pwned=1</script>').waitFor();
  assert.equal(await page.locator('.markdown img, .markdown script, .markdown a[href^="javascript"]').count(), 0);
  await page.goto(`/${at(id, 'evil.svg')}`);
  await page.frameLocator('iframe').locator('svg rect').waitFor();
  await page.goto(`/${at(id, 'evil.html')}`);
  const text = await page.frameLocator('iframe').locator('#h', { hasText: 'ran' }).textContent();
  assert.equal(text.replaceAll(/[ ,]/g, ''), 'ran', 'the page reached something');
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  assert.deepEqual(elsewhere, []);
  await who.close();
});

test('a person who may only read sees no way to change anything', async () => {
  const who = await person({ name: 'Reader', scopes: ['files:read'] });
  const page = await who.open(at(ws, 'sales.csv'));
  await page.getByRole('cell', { name: 'Jan' }).waitFor();
  for (const name of ['Upload', 'Share…', 'Run again', 'Restore']) assert.equal(await page.getByRole('button', { name }).count(), 0, name);
  await page.getByRole('button', { name: 'More for sales.csv' }).click();
  assert.deepEqual(await page.getByRole('menuitem').allInnerTexts(), ['Copy the permanent link']);
  await page.goto(`/${at(ws)}?tab=trash`);
  await page.getByText('Deleted files keep').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Free space…' }).count(), 0);
  await page.goto('/#/files');
  await page.getByRole('link', { name: 'Quarterly report' }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'New workspace' }).count(), 0);
  await who.close();
});

test('another person in another tab: a file that code makes appears by itself', async () => {
  const who = await person();
  const page = await who.open(at(ws));
  await page.getByRole('treeitem', { name: /sales\.csv/ }).waitFor();
  await who.api('PUT', `/api/workspaces/${ws}/files/arrived.txt`, Buffer.from('x'), { raw: true });
  await page.getByRole('treeitem', { name: /arrived\.txt/ }).waitFor();
  await who.close();
});

test('a million rows and a hundred thousand files stay responsive', { timeout: 180_000 }, async () => {
  const who = await person();
  const id = await big;
  assert.equal((await who.api('GET', `/api/workspaces/${id}`)).files, 100_001);
  const page = await who.open('#/files');
  await page.evaluate(() => {
    window.slowest = 0;
    new PerformanceObserver((list) => { for (const e of list.getEntries()) window.slowest = Math.max(window.slowest, e.duration); }).observe({ type: 'longtask', buffered: true });
  });
  let bytes = 0;
  page.on('response', async (r) => { if (r.url().includes('/content')) bytes += Number(r.headers()['content-length'] ?? 0); });
  await page.goto(`/${at(id, 'million.csv')}`);
  const table = page.getByRole('table', { name: 'Table million.csv' });
  await table.getByRole('cell', { name: 'row 1, quoted', exact: true }).waitFor();
  const scroller = page.locator('.files-grid');
  for (const part of [0.25, 0.5, 0.75, 1]) {
    await scroller.evaluate((el, p) => { el.scrollTop = el.scrollHeight * p; }, part);
    await page.waitForFunction(() => document.querySelectorAll('.files-grid-cell').length > 40 && ![...document.querySelectorAll('.files-grid-row .files-grid-cell')].some((c) => c.textContent === '…'));
  }
  await page.waitForTimeout(200);
  await scroller.evaluate((el) => { el.scrollTop = el.scrollHeight; });
  await table.getByRole('cell', { name: 'row 1000000, quoted', exact: true }).waitFor();
  assert.ok(await page.locator('.files-grid-row').count() < 100);
  assert.ok(bytes < 8 << 20, `read ${bytes} of 46 million bytes`);
  await shot(page, 'files-million');

  await page.goto(`/${at(id)}`);
  const tree = page.getByRole('tree', { name: 'Files' });
  await tree.getByRole('treeitem', { name: 'tree-8' }).waitFor();
  await page.getByLabel('Show paths that begin with').fill('tree');
  await tree.getByRole('treeitem', { name: /tree-2\/a\/file-00000/ }).waitFor();
  for (let i = 0; i < 12; i++) {
    const before = await tree.evaluate((el) => el.scrollHeight);
    await tree.evaluate((el) => { el.scrollTop = el.scrollHeight; });
    await page.waitForFunction((h) => document.querySelector('.files-tree').scrollHeight > h, before);
  }
  assert.ok(await tree.getByRole('treeitem').count() < 120, 'only rows in view are in the page');
  const slowest = await page.evaluate(() => window.slowest);
  assert.ok(slowest < 1500, `a task took ${slowest} ms`);
  await who.close();
});
