// SPDX-License-Identifier: Apache-2.0
// /containers by hand: bodies at, below and above what they may say, lists,
// expiry, limits of the service; sessions of other doors are containers too.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, sleep, until } from '../../lib/glovebox.mjs';
import { accepted, Door, expired, ID, refused } from '../../lib/openai.mjs';
import { stop } from '../../lib/wire.mjs';

const COOLDOWN = 3; // seconds

describe('openai, containers', () => {
  let g, door;

  before(async () => {
    g = await Glovebox.start({ config: { pools: [pool({ cooldown_s: COOLDOWN, max_memory_bytes: '16GiB' })] } });
    door = new Door(g);
  });
  after(() => stop(g));

  test('the object has every member of the schema, and no null', async () => {
    const made = await door.container({ name: 'all' });
    assert.deepEqual(Object.keys(made).sort(), ['created_at', 'expires_after', 'id', 'last_active_at', 'memory_limit', 'name', 'network_policy', 'object', 'status']);
    assert.match(made.id, ID.container);
    const at = parseInt(made.id.slice(5, 13), 16);
    assert.ok(Math.abs(at - made.created_at) <= 1, 'the id begins with the time');
    assert.ok(Object.values(made).every((value) => value !== null));
  });

  test('a body says what is wrong with it', async () => {
    const rows = [
      [{}, 'missing_required_parameter', 'name', "Missing required parameter: 'name'."],
      [{ name: null }, 'missing_required_parameter', 'name'],
      [{ name: 5 }, 'invalid_type', 'name', "Invalid type for 'name': expected a string, but got an integer instead."],
      [{ name: '' }, 'invalid_value', 'name'],
      [{ name: 'x'.repeat(129) }, 'invalid_value', 'name'],
      [{ name: 'x', x: 1 }, 'unknown_parameter', 'x', "Unknown parameter: 'x'."],
      [{ name: 'x', file_ids: 'file-x' }, 'invalid_type', 'file_ids'],
      [{ name: 'x', file_ids: [1] }, 'invalid_type', 'file_ids[0]'],
      [{ name: 'x', file_ids: ['a', ''] }, 'invalid_value', 'file_ids[1]'],
      [{ name: 'x', file_ids: Array(51).fill('file-x') }, 'invalid_value', 'file_ids'],
      [{ name: 'x', memory_limit: '2g' }, 'invalid_value', 'memory_limit', "Invalid value: '2g'. Supported values are: '1g', '4g', '16g', '64g'."],
      [{ name: 'x', memory_limit: 1 }, 'invalid_type', 'memory_limit'],
      [{ name: 'x', expires_after: 20 }, 'invalid_type', 'expires_after'],
      [{ name: 'x', expires_after: {} }, 'missing_required_parameter', 'expires_after.anchor'],
      [{ name: 'x', expires_after: { anchor: 'last_active_at' } }, 'missing_required_parameter', 'expires_after.minutes'],
      [{ name: 'x', expires_after: { anchor: 'created_at', minutes: 20 } }, 'invalid_value', 'expires_after.anchor'],
      [{ name: 'x', expires_after: { anchor: 'last_active_at', minutes: 0 } }, 'invalid_value', 'expires_after.minutes'],
      [{ name: 'x', expires_after: { anchor: 'last_active_at', minutes: 43201 } }, 'invalid_value', 'expires_after.minutes'],
      [{ name: 'x', expires_after: { anchor: 'last_active_at', minutes: 1.5 } }, 'invalid_type', 'expires_after.minutes'],
      [{ name: 'x', expires_after: { anchor: 'last_active_at', minutes: 20, hours: 1 } }, 'unknown_parameter', 'expires_after.hours'],
      [{ name: 'x', network_policy: { type: 'allowlist' } }, 'invalid_value', 'network_policy.allowed_domains'],
      [{ name: 'x', network_policy: { type: 'allowlist', allowed_domains: [] } }, 'invalid_value', 'network_policy.allowed_domains'],
      [{ name: 'x', network_policy: { type: 'allowlist', allowed_domains: [''] } }, 'invalid_value', 'network_policy.allowed_domains[0]'],
      [{ name: 'x', network_policy: { type: 'allowlist', allowed_domains: Array.from({ length: 101 }, (_, i) => `h${i}.org`) } }, 'invalid_value', 'network_policy.allowed_domains'],
      [{ name: 'x', network_policy: { type: 'disabled', allowed_domains: ['a.org'] } }, 'invalid_value', 'network_policy.type'],
      [{ name: 'x', network_policy: { type: 'allowlist', allowed_domains: ['a.org'], domain_secrets: [] } }, 'invalid_value', 'network_policy.domain_secrets'],
      [{ name: 'x', network_policy: { type: 'allowlist', allowed_domains: ['a.org'], domain_secrets: [{ domain: 'a.org', name: 'n' }] } }, 'missing_required_parameter', 'network_policy.domain_secrets.value'],
      [{ name: 'x', network_policy: { type: 'allowlist', allowed_domains: ['a.org'], domain_secrets: [{ domain: 'b.org', name: 'n', value: 'v' }] } }, 'invalid_value', 'network_policy.domain_secrets'],
      [{ name: 'x', network_policy: { type: 'open' } }, 'invalid_value', 'network_policy.type'],
      [{ name: 'x', network_policy: {} }, 'missing_required_parameter', 'network_policy.type'],
      [{ name: 'x', skills: [{ type: 'skill_reference', skill_id: 'skill_1' }] }, 'invalid_value', 'skills'],
    ];
    for (const [body, code, param, message] of rows) refused(await door.post('/containers', body), 400, { code, param, message });
  });

  test('a body that is no JSON object is refused with a sentence', async () => {
    for (const body of ['', '{', '[]', 'null', '"x"', '{"name":"x"', '{"name":"x","name":"y"}'])
      refused(await door.post('/containers', body, { headers: { 'content-type': 'application/json' } }), 400);
    refused(await door.post('/containers', JSON.stringify({ name: 'x' }), { headers: { 'content-type': 'multipart/form-data; boundary=x' } }), 400);
    refused(await door.post('/containers', `{"name":"${'x'.repeat(5 << 20)}"}`, { headers: { 'content-type': 'application/json' } }), 413);
  });

  test('the least and the most that may be asked for is given', async () => {
    for (const [spec, minutes, memory] of [
      [{ name: 'x', expires_after: { anchor: 'last_active_at', minutes: 1 }, memory_limit: '1g' }, 1, '1g'],
      [{ name: 'x'.repeat(128), expires_after: { anchor: 'last_active_at', minutes: 43200 }, memory_limit: '16g' }, 43200, '16g'],
      [{ name: 'x', file_ids: [], skills: [], network_policy: null, expires_after: null, memory_limit: null }, 20, '1g'],
    ]) {
      const made = await door.container(spec);
      assert.deepEqual([made.name, made.expires_after.minutes, made.memory_limit], [spec.name, minutes, memory]);
      accepted(await door.delete(`/containers/${made.id}`));
    }
    refused(await door.post('/containers', { name: 'x', memory_limit: '64g' }), 400, { code: 'invalid_value', param: 'memory_limit', message: /at most 16384 MiB/ });
  });

  test('file_ids are there under their names, or the one that is not is named', async () => {
    const a = await door.file('first', 'a.txt'), b = await door.file('second', 'b.txt');
    const { id } = await door.container({ file_ids: [a.id, b.id], expires_after: { anchor: 'last_active_at', minutes: 5 } });
    const list = accepted(await door.get(`/containers/${id}/files?order=asc`)).data;
    assert.deepEqual(new Set(list.map((f) => f.path)), new Set([`/mnt/data/${a.id}-a.txt`, `/mnt/data/${b.id}-b.txt`]));
    assert.ok(list.every((f) => f.source === 'user'));
    const { stdout } = await door.python(id, 'import glob; print([open(f).read() for f in sorted(glob.glob("/mnt/data/*-?.txt"), key=lambda n: n[-5:])])');
    assert.equal(stdout.trim(), "['first', 'second']");
    for (const bad of ['file-0000000000000000000000', 'file-x', 'x/../y'])
      refused(await door.post('/containers', { name: 'x', file_ids: [a.id, bad] }), 404, { param: 'file_ids', message: `No such File object: ${bad}` });
  });

  test('lists: limits are moved into their range, unknown cursors end it', async () => {
    const made = [];
    for (let i = 0; i < 4; i++) made.push((await door.container({ name: 'page' })).id);
    const list = async (query) => accepted(await door.get(`/containers?name=page&${query}`));
    const ids = async (query) => (await list(query)).data.map((c) => c.id);
    const down = [...made].reverse();
    assert.deepEqual(await ids('limit=1000'), down);
    assert.deepEqual(await ids('order=asc&limit=100'), made);
    assert.deepEqual(await ids('limit=0'), [down[0]]);
    assert.deepEqual(await ids('limit=-5'), [down[0]]);
    const page = await list('limit=2');
    assert.deepEqual([page.object, page.first_id, page.last_id, page.has_more], ['list', down[0], down[1], true]);
    const next = await list(`limit=2&after=${page.last_id}`);
    assert.deepEqual([next.data.map((c) => c.id), next.has_more], [down.slice(2), false]);
    assert.deepEqual(await ids(`limit=2&after=${made[1]}&order=asc`), made.slice(2));
    for (const after of ['string', 'cntr_none', `cntr_${'0'.repeat(48)}`, down[3]])
      assert.deepEqual(await list(`after=${after}`), { object: 'list', data: [], first_id: null, last_id: null, has_more: false });
    assert.deepEqual((await list('after=')).data.length, 4);
    assert.deepEqual(await ids('name=other&limit=1').catch(() => 'twice'), 'twice');
    refused(await door.get('/containers?limit=ten'), 400, { code: 'invalid_type', param: 'limit' });
    refused(await door.get('/containers?order=up'), 400, { code: 'invalid_value', param: 'order' });
  });

  test('looking at a container keeps it alive; once expired, nothing does', async () => {
    const made = await g.session({ name: 'short' }); // with the pool's idleness
    const get = async () => accepted(await door.get(`/containers/${made.id}`));
    const first = await get();
    assert.equal(first.status, 'running');
    let last = first, looked = Date.now();
    const until_ = Date.now() + 1500 * COOLDOWN;
    while (Date.now() < until_) { // each look is a use
      await sleep(250);
      last = await get();
      if (Date.now() - looked < 900 * COOLDOWN) assert.equal(last.status, 'running');
      if (last.status === 'expired') break; // we were kept from looking
      looked = Date.now();
    }
    if (last.status === 'running') assert.ok(last.last_active_at > first.last_active_at);
    await expired(door, made.id); // a list is no use
    const gone = await get();
    assert.equal(gone.status, 'expired');
    assert.ok(gone.last_active_at - last.last_active_at <= 1);
    assert.deepEqual(await get(), gone);
    // What the hosted service cannot do: running in it again wakes it.
    assert.equal((await door.python(made.id, 'print(1)')).stdout, '1\n');
    assert.ok((await get()).last_active_at > gone.last_active_at);
    await expired(door, made.id);
    accepted(await door.delete(`/containers/${made.id}`));
    refused(await door.get(`/containers/${made.id}`), 404);
  });

  test('sessions of every door are containers, and containers are sessions', async () => {
    const made = await g.session({ name: 'native' });
    const seen = accepted(await door.get(`/containers/${made.id}`));
    assert.deepEqual([seen.id, seen.name, seen.memory_limit, seen.expires_after.minutes], [made.id, 'native', '1g', 1]);
    assert.deepEqual(accepted(await door.get('/containers?name=native')).data.map((c) => c.id), [made.id]);
    const { id } = await door.container({ name: 'mine' });
    assert.equal((await g.ok('GET', `/api/sessions/${id}`)).name, 'mine');
    await g.ok('DELETE', `/api/sessions/${id}`);
    refused(await door.get(`/containers/${id}`), 404, { message: `Container with id '${id}' not found.` });
    refused(await door.delete(`/containers/${id}`), 404, { message: `Container with id '${id}' not found.` });
  });

  test('ids that are none are not found, whatever is in them', async () => {
    for (const id of ['x', 'cntr_', '%00x'.replace('%00', '%01'), 'cntr_%22%3Cb%3E', "a'b", 'a%2Fb', 'x'.repeat(300)]) {
      const answer = await door.get(`/containers/${id}`);
      assert.equal(answer.status, 404);
      assert.match(answer.body.error.message, /^Container with id '.*' not found\.$/);
    }
  });

  test('a full tenant is told to wait', async () => {
    const small = await Glovebox.start({ config: { sessions_per_tenant: 1, pools: [pool({ ready: 0 })] } });
    try {
      const at = new Door(small);
      await small.session({ persistence: 'ephemeral' });
      for (let i = 0; i < 3; i++) await at.container(); // they hold no sandbox yet
      const answer = await at.post('/containers', { name: 'x', network_policy: { type: 'disabled' } });
      refused(answer, 429, { type: 'requests', code: 'rate_limit_exceeded' });
      assert.match(answer.headers['retry-after'], /^[1-9]\d*$/);
      assert.equal(answer.headers['x-should-retry'], undefined);
    } finally {
      await stop(small);
    }
  });

  test('it is still there after a restart', async () => {
    const { id } = await door.container({ name: 'kept', expires_after: { anchor: 'last_active_at', minutes: 30 } });
    await door.put(id, 'kept', 'k.txt');
    await g.stop({ keep: true });
    g = await Glovebox.start({ dir: g.dir, config: { pools: [pool({ cooldown_s: COOLDOWN, max_memory_bytes: '16GiB' })] } });
    door = new Door(g);
    const again = await until(async () => accepted(await door.get(`/containers/${id}`)));
    assert.deepEqual([again.name, again.status, again.expires_after.minutes], ['kept', 'running', 30]);
    assert.equal((await door.python(id, 'print(open("k.txt").read())')).stdout, 'kept\n');
  });
});
