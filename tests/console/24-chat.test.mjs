// SPDX-License-Identifier: Apache-2.0
// The chat screen against a mock of the chat routes (tests/lib/chat-mock.mjs),
// which sends the streams that these cases want; the rest of the daemon is
// real. 25-chat-service.test.mjs asks the service's own model.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { ChatMock, PNG, answer, citation, code, message } from '../lib/chat-mock.mjs';
import { axe, fits, person, shot } from '../lib/console.mjs';

let mock;
before(async () => { mock = await ChatMock.start(); });
beforeEach(() => {
  mock.requests.length = 0;
  mock.conversations.clear();
  mock.refuse = () => null;
  mock.script = () => answer(message('Hello.'));
});
after(() => mock?.close());

// A person whose chat routes lead to the mock.
async function talker(options) {
  const who = await person(options);
  const pass = (route) => {
    const url = new URL(route.request().url());
    return route.continue({ url: mock.url + url.pathname + url.search });
  };
  await who.context.route((url) => url.pathname.startsWith('/v1/') || url.pathname.startsWith('/api/conversations'), pass);
  return who;
}
const ask = async (page, text) => {
  await page.getByLabel('Your question').fill(text);
  await page.keyboard.press('Enter');
};
const asked = () => mock.requests.filter((r) => r.method === 'POST' && r.path === '/v1/responses').map((r) => r.body);
const logs = (text) => [{ type: 'logs', logs: text }];

test('a question is answered with folded code, a chart and a file; threads are renamed and deleted', async () => {
  const who = await talker();
  const text = 'The **mean** is 4.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nSee [report.csv](sandbox:/mnt/data/report.csv).';
  mock.script = () => answer([
    ...code('import csv\nprint(4)', [{ type: 'image', url: `data:image/png;base64,${PNG}` }, ...logs('4\n')]),
    ...message(text, { index: 1, annotations: [citation('/mnt/data/report.csv')] }),
  ]);
  const page = await who.open('#/chat');
  await page.getByText('Ask in words').waitFor();
  await axe(page, { what: 'chat, empty' });
  await page.getByLabel('Files for the question').setInputFiles([{ name: 'sales.csv', mimeType: 'text/csv', buffer: Buffer.from('a,b\n1,2\n') }]);
  await page.getByRole('list', { name: 'Files that go with the question' }).getByText('sales.csv').waitFor();
  await page.getByText('uploading').waitFor({ state: 'hidden' });
  await ask(page, 'What is the mean?');
  const log = page.getByRole('log', { name: 'Conversation' });
  await log.locator('strong', { hasText: 'mean' }).waitFor();
  await page.getByRole('navigation', { name: 'Earlier chats' }).getByRole('link', { name: /What is the mean/ }).waitFor();
  assert.equal(await log.locator('table').count(), 1);
  assert.equal(await log.getByText('1 line of output, 1 chart').count(), 1);
  assert.equal(await log.getByRole('img', { name: /Chart 1/ }).count(), 1);
  assert.equal(await log.getByText('print(4)').count(), 0, 'code is folded');
  await log.getByText('Ran code').click();
  await log.getByRole('region', { name: 'Code' }).getByText('print(4)').waitFor();
  assert.equal(await log.getByRole('list', { name: 'Files of this answer' }).getByText('report.csv').count(), 1);
  assert.equal(await log.getByRole('list', { name: 'Files of this question' }).getByText('sales.csv').count(), 1);
  const [body] = asked();
  assert.deepEqual(body.input[0].content.map((p) => p.type), ['input_text', 'input_file']);
  assert.equal(body.input[0].content[1].filename, undefined);
  await axe(page, { what: 'chat' });
  await shot(page, 'chat');
  await fits(page, 320);
  // Nothing is there twice after the stream was replaced by the stored items.
  await page.waitForFunction(() => !location.hash.includes('response='));
  assert.equal(await log.getByText('Ran code').count(), 1);
  await page.reload();
  await log.locator('strong', { hasText: 'mean' }).waitFor();
  await page.getByRole('button', { name: /More of What is the mean/ }).click();
  await page.getByRole('menuitem', { name: 'Rename…' }).click();
  await page.getByLabel('Title').fill('Means');
  await page.getByRole('button', { name: 'Rename', exact: true }).click();
  await page.getByRole('navigation', { name: 'Earlier chats' }).getByRole('link', { name: /Means/ }).waitFor();
  await page.getByRole('button', { name: 'More of Means' }).click();
  await page.getByRole('menuitem', { name: 'Delete…' }).click();
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByText('No chat yet').waitFor();
  assert.equal(mock.conversations.size, 0);
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('an answer can be stopped, and is found again after a reload', async () => {
  const who = await talker();
  mock.script = () => ({ ...answer([...message('begun '), ...code('while True: pass', [], { index: 1, status: 'incomplete' })]), wait: true });
  const page = await who.open('#/chat');
  await ask(page, 'Never end');
  await page.getByText('begun').waitFor();
  await page.waitForFunction(() => location.hash.includes('response=resp_'));
  await page.reload();
  await page.getByText('begun').waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByText('You stopped this answer').waitFor();
  await page.getByRole('button', { name: 'Ask', exact: true }).waitFor();
  assert.equal(asked().length, 1);
  assert.ok(mock.requests.some((r) => r.path.endsWith('/cancel')));
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('a question is asked again with another model, in place of the first answer', async () => {
  const who = await talker();
  mock.script = (body) => answer(message(`I am ${body.model ?? 'the default'}.`));
  const page = await who.open('#/chat');
  await ask(page, 'Who are you?');
  await page.getByText('I am the default.').waitFor();
  await page.waitForFunction(() => !location.hash.includes('response='));
  await page.getByRole('button', { name: /Retry with/ }).click();
  await page.getByRole('menuitem', { name: 'other' }).click();
  await page.getByText('I am other.').waitFor();
  assert.equal(await page.getByText('I am the default.').count(), 0);
  assert.equal(await page.getByRole('log', { name: 'Conversation' }).getByText('Who are you?').count(), 1);
  await who.close();
});

test('held code leads to its approval; failures, limits and broken streams are told', async () => {
  const who = await talker();
  mock.script = () => answer([...code('rm()', logs('waits for approval apr_00112233445566778899aabbccddeeff'), { status: 'incomplete' }), ...message('It waits.', { index: 1 })]);
  const page = await who.open('#/chat');
  await ask(page, 'Delete everything');
  await page.getByText('This code waits for approval').waitFor();
  assert.equal(await page.getByRole('link', { name: 'Show the request' }).getAttribute('href'), '#/approvals/apr_00112233445566778899aabbccddeeff');
  await page.waitForFunction(() => !location.hash.includes('response='));
  mock.script = () => ({ ...answer([{ type: 'keepalive', pending_approval: { id: 'apr_ffeeddccbbaa99887766554433221100' } }]), wait: true });
  await ask(page, 'Wait for me');
  await page.locator('a[href="#/approvals/apr_ffeeddccbbaa99887766554433221100"]').waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByRole('button', { name: 'Ask', exact: true }).waitFor();
  mock.script = () => answer([], { status: 'failed', error: { code: 'server_error', message: 'The model did not answer.' } });
  await ask(page, 'And now?');
  await page.getByText('The model did not answer.').waitFor();
  mock.script = () => answer(message('Cut'), { status: 'incomplete', incomplete: { reason: 'max_output_tokens' } });
  await ask(page, 'Long');
  await page.getByText('its limit of tokens was reached').waitFor();
  mock.script = () => ({ ...answer(message('one two three four five six')), cut: 6 });
  await ask(page, 'Break');
  await page.getByText('one two three four five six').waitFor();
  mock.refuse = (m, p) => p === '/v1/responses' && { status: 400, error: { message: 'No model is configured.', code: 'model_not_found' } };
  await ask(page, 'None?');
  await page.getByText('glovebox model add').first().waitFor();
  await who.close();
});

test('U1: hostile Markdown, code, names and pictures of a model run nothing and load nothing', async () => {
  const who = await talker();
  const evil = '<script>window.__owned=1</script><img src=x onerror="window.__owned=2"> [a](javascript:window.__owned=3) [b](sandbox:/mnt/data/../../x"onclick="1) ![p](http://127.0.0.1:9/pic.png) <iframe src="javascript:top.__owned=4"></iframe> [c](data:text/html,<script>1</script>) [d](#/people)\n\n```html\n<script>window.__owned=5</script>\n```\n\n| <img src=x onerror=window.__owned=6> | x |\n|---|---|\n| [e](vbscript:1) | ok |';
  mock.script = () => answer([
    ...code(`</script><script>window.__owned=7</script>`, [{ type: 'image', url: 'javascript:window.__owned=8' }, { type: 'image', url: 'data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9IndpbmRvdy5fX293bmVkPTkiLz4=' }, { type: 'image', url: 'http://127.0.0.1:9/out.png' }, { type: 'logs', logs: evil }]),
    ...message(evil, { index: 1, annotations: [citation('/mnt/data/<img src=x onerror=window.__owned=10>'), { ...citation('x'), filename: '\u202Egnp.exe' }] }),
  ]);
  const page = await who.open('#/chat');
  const outside = [];
  page.on('request', (r) => { if (r.url().includes(':9/')) outside.push(r.url()); });
  await ask(page, evil);
  await page.getByText('ok', { exact: true }).waitFor();
  await page.getByText('Ran code').click();
  await page.waitForTimeout(500);
  assert.equal(await page.evaluate(() => window.__owned ?? null), null);
  assert.deepEqual(outside, []);
  assert.equal(await page.locator('.chat-picture').count(), 0);
  assert.equal(await page.locator('.chat iframe, .chat script').count(), 0);
  const links = await page.locator('.chat-items a').evaluateAll((all) => all.map((a) => a.getAttribute('href')));
  assert.ok(links.every((l) => /^(https?:|#\/)/.test(l)), JSON.stringify(links));
  assert.ok(!links.includes('#/people'), 'an answer does not link into the console');
  assert.deepEqual(page.problems.filter((p) => !/Content Security/.test(p)), []);
  await who.close();
});
