// SPDX-License-Identifier: Apache-2.0
// Pools and runtimes, quotas with usage over time, operations, nodes.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Cluster } from '../lib/cluster.mjs';
import { axe, everything, fits, person, shot, world } from '../lib/console.mjs';
import { pool } from '../lib/glovebox.mjs';

test('a pool is made, changed and deleted; packages of an image are searched', async () => {
  const { g } = await world();
  const who = await person({ name: 'Pool Boy' });
  const page = await who.open('#/pools');
  await page.getByRole('button', { name: 'New pool' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('Bad Name');
  await dialog.getByRole('button', { name: 'Make the pool' }).click();
  await dialog.getByText('beginning with a letter').waitFor();
  await dialog.getByLabel('Name').fill('reports');
  await dialog.getByLabel('Memory of a session').fill('512');
  await dialog.getByLabel('Kept ready').fill('0');
  await axe(page, { what: 'new pool' });
  await dialog.getByRole('button', { name: 'Make the pool' }).click();
  const row = page.getByRole('table', { name: 'Pools' }).getByRole('row').filter({ hasText: 'reports' });
  await row.waitFor();
  await axe(page, { what: 'pools' });
  await shot(page, 'pools');
  await fits(page, 320);
  assert.equal((await g.ok('GET', '/api/pools/reports')).limits.memory_bytes, 512 * 1048576);
  await row.getByRole('button', { name: 'Actions for reports' }).click();
  await page.getByRole('menuitem', { name: 'Change' }).click();
  await dialog.getByLabel('Sessions expire after').fill('77');
  await dialog.getByRole('button', { name: 'Change' }).click();
  await page.getByText('The pool was changed.').waitFor();
  const changed = await g.ok('GET', '/api/pools/reports');
  assert.equal(changed.cooldown_s, 77);
  assert.equal(changed.limits.memory_bytes, 512 * 1048576);
  await row.getByRole('button', { name: 'Actions for reports' }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  assert.ok(await dialog.getByRole('button', { name: 'Delete the pool' }).isDisabled());
  await dialog.getByRole('textbox').fill('reports');
  await dialog.getByRole('button', { name: 'Delete the pool' }).click();
  await row.waitFor({ state: 'detached' });
  await page.getByRole('tab', { name: 'Runtimes' }).click();
  await page.getByRole('link', { name: 'standard', exact: true }).click();
  await page.getByLabel('Search by name').fill('pandas');
  await page.getByRole('listitem').filter({ hasText: 'pandas' }).first().waitFor();
  await axe(page, { what: 'runtime' });
  await fits(page, 320);
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('a person who may not change pools and quotas sees them without actions', async () => {
  const who = await person({ name: 'Analyst', scopes: ['execute'] });
  const page = await who.open('#/pools');
  await page.getByRole('table', { name: 'Pools' }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'New pool' }).count(), 0);
  await page.goto('/#/quotas');
  await page.getByRole('table', { name: /Quotas of/ }).waitFor();
  assert.equal(await page.getByRole('button', { name: /^Set/ }).count(), 0);
  await who.close();
});

test('a quota is set, undone, and usage is drawn with its figures as a table', async () => {
  const { g } = await world();
  const who = await person();
  await who.api('POST', '/api/run', { code: 'print(1)' });
  const page = await who.open('#/quotas');
  const limit = async () => (await g.ok('GET', '/api/quotas')).quotas.find((q) => q.name === 'storage_bytes').limit;
  await page.getByRole('button', { name: 'Set the limit of Storage' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Limit').selectOption('value');
  await dialog.getByLabel('Value').fill('many');
  await dialog.getByRole('button', { name: 'Set' }).click();
  await dialog.getByText('A number of at least 1').waitFor();
  await axe(page, { what: 'set a quota' });
  await dialog.getByLabel('Value').fill('10 GiB');
  await dialog.getByRole('button', { name: 'Set' }).click();
  await page.getByText('set for this tenant').first().waitFor();
  assert.equal(await limit(), 10 * 1024 ** 3);
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByText('set for this tenant').waitFor({ state: 'detached' });
  assert.equal(await limit(), null);
  const chart = page.getByRole('figure', { name: 'Executions', exact: true });
  await chart.getByRole('img').waitFor();
  await chart.getByText('as a table').click();
  await chart.getByRole('table').getByRole('row').nth(1).waitFor();
  await axe(page, { what: 'quotas' });
  await shot(page, 'quotas', { fullPage: true });
  await fits(page, 320);
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('health, disk, a backup, and storage by workspace', async () => {
  const { g } = await world();
  const who = await person({ name: 'Otto Operator' });
  const ws = await who.api('POST', '/api/workspaces', { name: '<script>big</script>' });
  await g.call('PUT', `/api/workspaces/${ws.id}/files/a.bin`, Buffer.alloc(200_000, 7), { raw: true, key: who.key });
  const page = await who.open('#/operations');
  await page.getByRole('heading', { name: 'The service is ready' }).waitFor();
  await axe(page, { what: 'operations' });
  await shot(page, 'operations');
  await fits(page, 320);
  await page.getByRole('tab', { name: 'Disk and backups' }).click();
  await page.getByRole('button', { name: 'Back up now' }).click();
  await page.getByText('An absolute path on the server').waitFor();
  await page.getByLabel('Folder').fill(join(g.dir, 'data', 'copy-1'));
  await page.getByRole('button', { name: 'Back up now' }).click();
  await page.getByText(/^Backed up to/).waitFor({ timeout: 60_000 });
  assert.ok(existsSync(join(g.dir, 'data', 'copy-1')));
  await page.getByRole('table', { name: 'Backups' }).getByText('Otto Operator').first().waitFor();
  await page.getByRole('button', { name: 'Verify all now' }).click();
  await page.getByText(/stored files are as they were written/).waitFor({ timeout: 60_000 });
  await axe(page, { what: 'operations, storage' });
  await shot(page, 'operations-storage');
  await fits(page, 320);
  await page.getByRole('tab', { name: 'Storage by workspace' }).click();
  await page.getByRole('table', { name: 'Storage by workspace' }).getByText('<script>big</script>').waitFor();
  await axe(page, { what: 'storage by workspace' });
  await fits(page, 320);
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('U5: a service that is the only node says how to add nodes, to administrators alone', async () => {
  const who = await person({ name: 'Nora Nodes' });
  const page = await who.open('#/nodes');
  await page.getByRole('heading', { name: 'This service is the only node' }).waitFor();
  await page.getByText('docs/SCALE.md').waitFor();
  assert.equal(await page.getByRole('table').count(), 0);
  await axe(page, { what: 'no nodes' });
  await shot(page, 'nodes-none');
  await fits(page, 320);
  assert.deepEqual(page.problems, []);
  await who.close();
  const other = await person({ name: 'Analyst', scopes: everything.filter((scope) => scope !== 'admin') });
  const refused = await other.open('#/nodes');
  await refused.getByText('There is nothing here').waitFor();
  assert.equal(await refused.getByRole('navigation', { name: 'Screens' }).getByRole('link', { name: 'Nodes' }).count(), 0);
  await other.close();
});

// The daemon of these tests is a single service, and a node that is gone, an
// ended lease, a refusal or a silent stream do not come on demand. Therefore
// the routes of nodes and the stream of events are intercepted in the browser.
// The last test of this file has a real cluster.
async function cluster(who) {
  const GiB = 1024 ** 3;
  const common = { self: false, labels: '', version: '0.2.0', epoch: 1, lease_left_ms: 11_200, started_at_ms: Date.UTC(2026, 0, 2, 3, 4, 5), cores: 16, memory_bytes: 64 * GiB, free_bytes: 40 * GiB, ready: 2, awake: 0, queued: 0 };
  const nodes = [
    { ...common, id: 'node_a', name: 'east-1', state: 'active', self: true, address: '10.0.0.11:8651', labels: 'gpu,east', awake: 12, queued: 3, free_bytes: 2 * GiB },
    { ...common, id: 'node_b', name: '<b>east-2</b>', state: 'active', address: '10.0.0.12:8651', epoch: 7 },
    { ...common, id: 'node_c', name: 'west-1', state: 'active', address: '10.0.0.13:8651', lease_left_ms: -4000 },
    { ...common, id: 'node_d', name: 'west-2', state: 'gone', address: '10.0.0.14:8651', lease_left_ms: -90_000 },
  ];
  const posted = [];
  const found = { nodes, posted, read: 0, refuse: null, send: null };
  await who.context.route('**/api/nodes', (route) => {
    found.read++;
    return route.fulfill({ json: { data: nodes, has_more: false } });
  });
  await who.context.route('**/api/nodes/*/*', (route) => {
    const [id, act] = new URL(route.request().url()).pathname.split('/').slice(-2);
    posted.push(`${route.request().method()} ${id} ${act}`);
    if (found.refuse) return route.fulfill({ status: 409, json: { error: { code: 'conflict', message: found.refuse } } });
    const node = nodes.find((n) => n.id === id);
    node.state = act === 'drain' ? 'draining' : 'active';
    return route.fulfill({ json: node });
  });
  // The stream that has the trail is open once found.send is called; no other
  // opens, so that nothing but the event makes the screen read again.
  await who.context.route('**/api/events*', async (route) => {
    if (found.send || !/types=[^&]*audit/.test(route.request().url())) return;
    const action = await new Promise((done) => { found.send = done; });
    await route.fulfill({ contentType: 'text/event-stream', body: `event: audit\ndata: ${JSON.stringify({ action, result: 'ok' })}\n\n` });
  });
  return found;
}

test('nodes are listed with the one that answered; one is drained and activated after a question', async () => {
  const who = await person({ name: 'Nora Nodes' });
  const found = await cluster(who);
  const page = await who.open('#/nodes');
  const table = page.getByRole('table', { name: 'Nodes' });
  const row = (name) => table.getByRole('row').filter({ hasText: name });
  await page.getByText(/east-1 answered at .* 2 of 4 nodes take new sessions/).waitFor();
  await row('east-1').getByText('answered', { exact: true }).waitFor();
  assert.equal(await table.getByText('answered', { exact: true }).count(), 1);
  for (const text of ['active', '2 GiB of 64 GiB free', '11.2 s', 'gpu', 'east', '0.2.0']) await row('east-1').getByText(text, { exact: true }).waitFor();
  await row('<b>east-2</b>').waitFor();
  await row('west-1').getByText('does not answer').waitFor();
  assert.equal(await row('west-2').getByRole('button').count(), 0, 'a node that is gone has no actions');
  assert.equal(await row('west-2').getByText('free').count(), 0, 'nor free memory');
  await axe(page, { what: 'nodes' });
  await shot(page, 'nodes');
  await fits(page, 320);

  const dialog = page.getByRole('dialog');
  await row('east-1').getByRole('button', { name: 'Drain east-1' }).click();
  await axe(page, { what: 'drain a node' });
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  assert.deepEqual(found.posted, [], 'nothing is sent before the answer');
  found.refuse = 'the node is gone';
  await row('east-1').getByRole('button', { name: 'Drain east-1' }).click();
  await dialog.getByRole('button', { name: 'Drain the node' }).click();
  await page.getByText('the node is gone').waitFor();
  found.refuse = null;
  await row('east-1').getByRole('button', { name: 'Drain east-1' }).click();
  assert.equal(await dialog.getByText('the only active node').count(), 0);
  await dialog.getByRole('button', { name: 'Drain the node' }).click();
  await row('east-1').getByText('draining', { exact: true }).waitFor();
  await row('east-2').getByRole('button', { name: /^Drain/ }).click();
  await dialog.getByText('the only active node').waitFor();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await row('east-1').getByRole('button', { name: 'Activate east-1' }).click();
  await dialog.getByRole('button', { name: 'Activate the node' }).click();
  await row('east-1').getByText('active', { exact: true }).waitFor();
  assert.deepEqual(found.posted, ['POST node_a drain', 'POST node_a drain', 'POST node_a activate']);

  await row('east-2').getByRole('link').click();
  await page.getByText('10.0.0.12:8651').waitFor();
  await axe(page, { what: 'one node' });
  await fits(page, 320);
  assert.deepEqual(page.problems, []);
  await who.close();
});

test('nodes are read when the screen opens, by the button, and when the trail has an act of a node', async () => {
  const who = await person({ name: 'Nora Nodes' });
  const found = await cluster(who);
  const page = await who.open('#/nodes');
  const table = page.getByRole('table', { name: 'Nodes' });
  await table.waitFor();
  assert.equal(found.read, 1);
  found.nodes[0].awake = 77;
  await page.getByRole('button', { name: 'Look again' }).click();
  await table.getByText('77', { exact: true }).waitFor();
  assert.equal(found.read, 2);
  for (let i = 0; !found.send && i < 200; i++) await page.waitForTimeout(50);
  assert.ok(found.send, 'the screen did not add the trail to the stream');
  found.nodes[1].state = 'gone';
  found.send('node.lost');
  await table.getByRole('row').filter({ hasText: 'east-2' }).getByText('gone').waitFor();
  assert.equal(found.read, 3);
  await who.close();
});

test('nodes of a real cluster: one is drained here and activated at another node, and both are shown', async () => {
  const c = await Cluster.start({ nodes: 2, config: { pools: [pool({ ready: 0 })] } });
  try {
    const [first, second] = c.nodes;
    const who = await person({ name: 'Nora Nodes', server: { g: first, url: first.url } });
    const page = await who.open('#/nodes');
    const table = page.getByRole('table', { name: 'Nodes' });
    const row = (name) => table.getByRole('row').filter({ hasText: name });
    const state = async (g) => (await g.ok('GET', '/api/nodes/n2')).state;
    await row('n1').getByText('answered', { exact: true }).waitFor();
    assert.equal(await row('n2').getByText('answered', { exact: true }).count(), 0);
    await row('n2').getByRole('button', { name: 'Drain n2' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Drain the node' }).click();
    await row('n2').getByText('draining', { exact: true }).waitFor();
    assert.equal(await state(second), 'draining');
    await page.getByText('1 of 2 nodes take new sessions').waitFor();
    // Not asked for here: the event of the other node's act makes it shown.
    await second.ok('POST', '/api/nodes/n2/activate');
    await row('n2').getByText('active', { exact: true }).waitFor();
    assert.equal(await state(first), 'active');
    assert.deepEqual(page.problems, []);
    await shot(page, 'nodes-real');
    await who.close();
  } finally {
    await c.stop();
  }
});
