// SPDX-License-Identifier: Apache-2.0
// Executions: the live list with filters, and the page of one with its evidence.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { axe, fits, person, shot, world } from '../lib/console.mjs';

let session;
let chart;
let failed;

before(async () => {
  const { g } = await world();
  session = (await g.ok('POST', '/api/sessions', { name: 'evidence' })).id;
  const run = (code, extra = {}) => g.ok('POST', `/api/sessions/${session}/executions`, { code, ...extra });
  chart = await run(`import matplotlib.pyplot as plt, socket
plt.figure(figsize=(3, 2)); plt.plot([1, 3, 2]); plt.savefig('line.png'); plt.show()
print('\\x1b[32mgreen\\x1b[0m <img src=x onerror=top.pwned=1>')
try: socket.create_connection(('203.0.113.9', 443), timeout=1)
except OSError: pass
'the ' + 'result'`, { metadata: { conversation: 'evidence-talk', message: 'e1' } });
  assert.equal(chart.outcome, 'ok', JSON.stringify(chart.error));
  failed = await run('def inner():\n    raise ValueError("bad <b>value</b>")\ninner()');
  assert.equal(failed.outcome, 'error');
});

test('the page of an execution has code, output, displays, files, network, policy, approval and usage', async () => {
  const who = await person();
  const page = await who.open(`#/executions/${chart.id}`);
  await page.getByText("plt.savefig('line.png')").waitFor();
  const section = (name) => page.getByRole('region', { name, exact: true });
  await section('Output').getByText('green <img src=x onerror=top.pwned=1>').waitFor();
  await section('Output').getByRole('img').first().waitFor();
  await section('Output').getByText("'the result'").waitFor();
  await section('Files').getByRole('link', { name: 'line.png' }).first().waitFor();
  await section('Network').getByText('203.0.113.9:443').waitFor();
  await section('Policy and approval').getByText('allow').waitFor();
  await section('Policy and approval').getByText('none was needed').waitFor();
  await section('Usage').getByText('Processor').waitFor();
  await page.getByRole('link', { name: 'evidence-talk' }).waitFor();
  await axe(page, { what: 'execution' });
  await fits(page, 320);
  await shot(page, 'execution', { fullPage: true });
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  // On paper: the evidence without the navigation.
  await page.emulateMedia({ media: 'print' });
  assert.ok(!await page.getByRole('navigation', { name: 'Screens' }).isVisible());
  assert.ok(!await page.getByRole('button', { name: 'Print' }).isVisible());
  assert.ok(await page.getByText('203.0.113.9:443').isVisible());
  const pdf = await page.pdf({ format: 'A4' });
  assert.ok(pdf.length > 10_000);
  await page.emulateMedia({ media: 'screen' });
  await page.goto(`/#/executions/${failed.id}`);
  await page.getByText('bad <b>value</b>').first().waitFor();
  await shot(page, 'execution-failed');
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('the list has filters that stay in the address', async () => {
  const who = await person();
  const page = await who.open(`#/executions?session=${session}`);
  const rows = page.getByRole('table', { name: 'Executions' }).locator('tbody tr');
  await rows.nth(1).waitFor();
  assert.equal(await rows.count(), 2);
  await axe(page, { what: 'executions' });
  await fits(page, 320);
  await shot(page, 'executions');
  await page.getByLabel('Outcome').selectOption('error');
  await rows.nth(1).waitFor({ state: 'detached' });
  assert.equal(await rows.getByRole('link').first().getAttribute('href'), `#/executions/${failed.id}`);
  assert.match(page.url(), /outcome=error/);
  await page.reload();
  await rows.nth(0).waitFor();
  assert.equal(await rows.count(), 1);
  await page.getByLabel('Outcome').selectOption('denied');
  await page.getByRole('heading', { name: 'Nothing fits' }).waitFor();
  await who.close();
});

test('a run appears in the list by itself, and its page is live until it ends', async () => {
  const who = await person();
  const own = (await who.api('POST', '/api/sessions', { name: 'live' })).id;
  const list = await who.open(`#/executions?session=${own}`);
  await list.getByRole('heading', { name: 'Nothing fits' }).waitFor();
  const run = await who.api('POST', `/api/sessions/${own}/executions`, { mode: 'async', code: "import time\nfor i in range(200):\n    print('tick', i, flush=True)\n    time.sleep(0.3)" });
  await list.getByRole('row', { name: /running|queued/ }).waitFor();
  const page = await who.open(`#/executions/${run.id}`);
  await page.getByText('tick 3').waitFor();
  await page.getByText('live', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.locator('.executions-facts').getByText('cancelled').waitFor();
  await list.getByRole('row', { name: /cancelled/ }).waitFor();
  const short = await who.api('POST', `/api/sessions/${own}/executions`, { mode: 'async', code: "import time\ntime.sleep(2)\nprint('over')" });
  await page.goto(`/#/executions/${short.id}`);
  await page.locator('.executions-facts').getByText('ok', { exact: true }).waitFor();
  await page.getByText('over', { exact: true }).waitFor();
  await list.getByRole('row', { name: /^ok/ }).waitFor();
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('an execution of someone else is as if it did not exist', async () => {
  const who = await person({ name: 'Stranger', scopes: ['execute', 'files:read'] });
  const page = await who.open(`#/executions/${chart.id}`);
  await page.getByRole('heading', { name: 'No such execution' }).waitFor();
  await axe(page, { what: 'no execution' });
  await page.goto('/#/executions');
  await page.getByRole('heading', { name: 'Nothing has run yet' }).waitFor();
  await who.close();
});
