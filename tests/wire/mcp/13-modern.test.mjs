// SPDX-License-Identifier: Apache-2.0
// What the modern era has beyond one request and one answer: leaving as
// cancelling, listening for changes, questions with signed state, tasks.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, build, sleep, until } from '../../lib/glovebox.mjs';
import { SUBSCRIPTION, TASKS, follow, modern, refuses, response, result } from '../../lib/mcp.mjs';

let g;
before(async () => { g = await Glovebox.start({ program: `${build}/tests/gloveboxd-mcp` }); });
after(() => g?.stop());

const call = (name, args = {}, options = {}) => modern(g, 'tools/call', { name, arguments: args, ...options.params }, options);
const withTasks = { capabilities: { extensions: { [TASKS]: {} }, elicitation: {} } };

describe('leaving', () => {
  // Runs an endless cell, leaves in the given way, and sees it end.
  async function leaves(params, leave) {
    const { session_id } = (await result(call('execute_python', { code: 'import time' }))).structuredContent;
    const code = 'for i in range(1000):\n    print(i, flush=True)\n    time.sleep(0.1)';
    const stream = follow((on) => modern(g, 'tools/call', { name: 'execute_python', arguments: { code, session_id }, ...params }, on));
    await leave(stream);
    stream.close();
    const started = Date.now();
    const r = await result(call('execute_python', { code: 'print(6 * 7)', session_id }));
    assert.match(JSON.stringify(r.content), /42/);
    assert.ok(Date.now() - started < 60_000, 'the session was free long before the cell would have ended');
  }

  test('M4 H7: closing the stream cancels the work', () => leaves({ _meta: { progressToken: 'p' } },
    (stream) => stream.next((m) => m.method === 'notifications/progress')));
  test('M4: also before anything was answered', () => leaves({}, () => sleep(500)));
  test('M4: also when the answer became a stream only because it takes long', () => leaves({}, () => sleep(2500)));

  // With a key of its own: the places that it frees late are not those of the
  // cases below.
  test('H7: whoever listened and left holds no place', async () => {
    const { key } = await g.tenant('leaver');
    const listen = (id) => follow((on) => modern(g, 'subscriptions/listen', { notifications: { toolsListChanged: true } }, { id, key, ...on }));
    for (let round = 0; round < 4; round++)
      await until(async () => { // 40 of 64 places each time
        const all = Array.from({ length: 40 }, (_, i) => listen(`${round}-${i}`));
        const first = await Promise.allSettled(all.map((s) => s.next()));
        all.forEach((s) => s.close());
        return first.every((f) => f.value?.method === 'notifications/subscriptions/acknowledged');
      }, { ms: 20_000, every: 1000, what: 'free places' });
  });
});

test('H6: what a session prints cannot forge an event, and is valid JSON whatever it is', async () => {
  const forged = '\\n\\ndata: {"jsonrpc":"2.0","id":1,"result":{"forged":true}}\\n\\nevent: message\\r\\rdata: x\\u2028';
  const code = `import sys, time\nfor i in range(3):\n    print('${forged}', flush=True)\n    sys.stdout.buffer.write(bytes(range(256)))\n    sys.stdout.flush()\n    time.sleep(0.2)`;
  const answer = await modern(g, 'tools/call', { name: 'execute_python', arguments: { code }, _meta: { progressToken: 1 } });
  assert.ok(answer.stream.length > 1);
  for (const event of answer.stream) {
    assert.equal(event.raw.split('\n').filter((line) => line && !line.startsWith(':')).length, 2, event.raw.slice(0, 300));
    assert.ok(!event.data.result?.forged);
  }
  assert.equal(answer.messages.filter((m) => m.result).length, 1);
  assert.ok(Buffer.from(answer.text, 'utf8').toString('utf8') === answer.text);
});

describe('subscriptions/listen', () => {
  const listen = (notifications, options = {}) => follow((on) => modern(g, 'subscriptions/listen', { notifications }, { ...on, ...options }));

  test('acknowledged first, tagged always, only what was asked', async () => {
    const tools = listen({ toolsListChanged: true, promptsListChanged: false, odd: true }, { id: 'w1' });
    const prompts = listen({ promptsListChanged: true }, { id: 7 });
    for (const [stream, id, granted] of [[tools, 'w1', { toolsListChanged: true }], [prompts, 7, { promptsListChanged: true }]]) {
      const first = await stream.next();
      assert.equal(first.method, 'notifications/subscriptions/acknowledged');
      assert.deepEqual(first.params, { notifications: granted, _meta: { [SUBSCRIPTION]: id } });
    }
    await result(call('test_trigger_tool_change'));
    const changed = await tools.next();
    assert.equal(changed.method, 'notifications/tools/list_changed');
    assert.equal(changed.params._meta[SUBSCRIPTION], 'w1');
    await result(call('test_trigger_prompt_change'));
    assert.equal((await prompts.next()).method, 'notifications/prompts/list_changed', 'the tools were not told here');
    tools.close();
    prompts.close();
  });

  test('changes of files, of folders and of the list', async () => {
    const ws = (await g.ok('POST', '/api/workspaces', { name: 'listened' })).id;
    const file = `workspace://${ws}/dir/a.csv`, folder = `workspace://${ws}/dir/`;
    const stream = listen({ resourcesListChanged: true, resourceSubscriptions: [file, folder] });
    assert.deepEqual((await stream.next()).params.notifications, { resourcesListChanged: true, resourceSubscriptions: [file, folder] });
    await sleep(1500); // it has looked once
    await g.ok('PUT', `/api/workspaces/${ws}/files/dir/a.csv`, 'x', { raw: true });
    const updated = [];
    for (let i = 0; i < 2; i++) updated.push((await stream.next((m) => m.method === 'notifications/resources/updated')).params.uri);
    assert.deepEqual(updated.sort(), [file, folder].sort());
    await stream.next((m) => m.method === 'notifications/resources/list_changed');
    await g.ok('PUT', `/api/workspaces/${ws}/files/dir/b.csv`, 'x', { raw: true });
    assert.equal((await stream.next((m) => m.method === 'notifications/resources/updated')).params.uri, folder);
    stream.close();
  });

  test('what may not be watched is refused', async () => {
    const foreign = await g.tenant('listener');
    const ws = (await g.ok('POST', '/api/workspaces', { name: 'mine' })).id;
    const ask = (notifications, options) => modern(g, 'subscriptions/listen', { notifications }, options);
    await refuses(ask({ resourceSubscriptions: [`workspace://${ws}/a`] }, { key: foreign.key }), 200, -32602);
    await refuses(ask({ resourceSubscriptions: ['http://x/'] }), 200, -32602);
    await refuses(ask({ resourceSubscriptions: 'x' }), 200, -32602);
    await refuses(ask({ resourceSubscriptions: [5] }), 200, -32602);
    await refuses(ask('x'), 200, -32602);
    await refuses(modern(g, 'subscriptions/listen', {}), 200, -32602);
    await refuses(ask({ resourceSubscriptions: Array.from({ length: 65 }, (_, i) => `workspace://${ws}/f${i}`) }), 200, -32602);
    await refuses(ask({ taskIds: ['x'] }), 400, -32021);
  });

  test('their number is bounded for each key', async () => {
    const { key } = await g.tenant('bounded');
    const open = Array.from({ length: 64 }, (_, i) => listen({ toolsListChanged: true }, { id: i, key }));
    await Promise.all(open.map((s) => s.next()));
    await refuses(modern(g, 'subscriptions/listen', { notifications: { toolsListChanged: true } }, { key }), 200, -32603);
    open.forEach((s) => s.close());
  });

  test('the service stops: each subscription gets its result', async () => {
    const own = await Glovebox.start({ config: { pools: [{ name: 'default', runtime: 'minimal', ready: 0 }] } });
    const stream = follow((on) => modern(own, 'subscriptions/listen', { notifications: { toolsListChanged: true } }, { id: 'last', ...on }));
    await stream.next();
    const started = Date.now();
    await own.stop();
    const last = response(await stream.ended);
    assert.equal(last.id, 'last');
    assert.equal(last.result.resultType, 'complete');
    assert.equal(last.result._meta[SUBSCRIPTION], 'last');
    assert.ok(Date.now() - started < 20_000);
  });
});

describe('questions', () => {
  const asks = { capabilities: { elicitation: {}, sampling: {}, roots: {} } };
  const answered = (name, content, requestState, more = {}) => call(name, more.args ?? {}, { ...asks, ...more, params: { inputResponses: { confirm: { action: 'accept', content } }, ...(requestState ? { requestState } : {}) } });
  const name = 'test_input_required_result_request_state';

  test('a state is good for its caller, its call and its arguments only', async () => {
    const first = await result(call(name, {}, asks));
    assert.equal(first.resultType, 'input_required');
    assert.ok(!('ttlMs' in first));
    const state = first.requestState;
    assert.match((await result(answered(name, { ok: true }, state))).content[0].text, /state-ok/);
    await refuses(answered(name, { ok: true }, state), 200, -32602); // it is good once
    const twins = await Promise.all([result(call(name, {}, asks)), result(call(name, {}, asks))]);
    assert.notEqual(twins[0].requestState, twins[1].requestState);
    for (const t of twins) assert.match((await result(answered(name, { ok: true }, t.requestState))).content[0].text, /state-ok/);
    const raced = (await result(call(name, {}, asks))).requestState;
    const both = await Promise.all(Array.from({ length: 6 }, () => answered(name, { ok: true }, raced)));
    assert.equal(both.filter((b) => response(b).result).length, 1, 'of several at once one');
    await refuses(answered(name, { ok: true }, state, { args: { other: 1 } }), 200, -32602);
    await refuses(answered('test_input_required_result_tampered_state', { ok: true }, state), 200, -32602);
    const { key } = await g.tenant('asker');
    await refuses(answered(name, { ok: true }, state, { key }), 200, -32602);
    for (const bad of [`${state}x`, state.slice(1), state.replace(/^\d+/, (n) => String(Number(n) + 1)), '', '.', '..', '1.2.3', 'x'.repeat(10_000)])
      await refuses(answered(name, { ok: true }, bad || ' '), 200, -32602);
    for (const bad of [5, null, {}])
      await refuses(call(name, {}, { ...asks, params: { requestState: bad } }), 200, -32602);
  });

  test('what is missing is asked again, what cannot be asked is -32021', async () => {
    for (const inputResponses of [{}, { other: {} }, { user_name: 5 }, null, 'x', []])
      assert.equal((await result(call('test_input_required_result_elicitation', {}, { ...asks, params: { inputResponses } }))).resultType, 'input_required');
    const { error } = await refuses(call('test_input_required_result_elicitation', {}), 400, -32021);
    assert.deepEqual(error.data, { requiredCapabilities: { elicitation: {} } });
  });
});

describe('tasks', { concurrency: 3 }, () => {
  const get = (taskId, options) => modern(g, 'tasks/get', { taskId }, { ...withTasks, ...options });
  const end = (taskId) => until(async () => {
    const t = await result(get(taskId));
    return ['completed', 'failed', 'cancelled'].includes(t.status) && t;
  }, { ms: 20_000, every: 100, what: 'the end of the task' });

  test('a long call becomes a task, a short one does not', async () => {
    const short = await result(call('execute_python', { code: 'print(1)' }, withTasks));
    assert.equal(short.resultType, 'complete');
    assert.ok(short.content);
    const made = await result(call('execute_python', { code: 'import time; time.sleep(7); print("late")', timeout: 30 }, withTasks));
    assert.equal(made.resultType, 'task', JSON.stringify(made));
    assert.equal(made.status, 'working');
    assert.ok(made.ttlMs > 0 && made.pollIntervalMs > 0 && made.createdAt && made.lastUpdatedAt);
    const done = await end(made.taskId);
    assert.equal(done.resultType, 'complete');
    assert.equal(done.status, 'completed');
    assert.match(JSON.stringify(done.result.content), /late/);
  });

  test('a task belongs to its key', async () => {
    const { taskId } = await result(call('slow_compute', { seconds: 30 }, withTasks));
    const { key } = await g.tenant('thief');
    for (const method of ['tasks/get', 'tasks/cancel'])
      await refuses(modern(g, method, { taskId }, { ...withTasks, key }), 200, -32602);
    await refuses(modern(g, 'tasks/update', { taskId, inputResponses: {} }, { ...withTasks, key }), 200, -32602);
    assert.equal((await result(get(taskId))).status, 'working');
    await result(modern(g, 'tasks/cancel', { taskId }, withTasks));
    assert.equal((await end(taskId)).status, 'cancelled');
    assert.equal((await result(modern(g, 'tasks/cancel', { taskId }, withTasks))).resultType, 'complete', 'twice is once');
    assert.equal((await result(get(taskId))).status, 'cancelled');
  });

  test('after a restart an ended task has its result, and one that ran has failed', async () => {
    let own = await Glovebox.start();
    const at = (name, args) => modern(own, 'tools/call', { name, arguments: args }, withTasks);
    const look = (taskId, options = {}) => modern(own, 'tasks/get', { taskId }, { ...withTasks, ...options });
    const slow = 'import time; time.sleep(6); print("kept" + "-answer")';
    try {
      const hidden = await own.ok('POST', '/api/sessions', { persistence: 'ephemeral' });
      const [done, secret] = (await Promise.all([at('execute_python', { code: slow, timeout: 60 }), at('execute_python', { code: slow, timeout: 60, session_id: hidden.id })].map(result))).map((t) => t.taskId);
      for (const id of [done, secret])
        await until(async () => (await result(look(id))).status === 'completed', { ms: 30_000, every: 200, what: 'the end' });
      const { taskId: running } = await result(at('execute_python', { code: 'import time; time.sleep(300)', timeout: 400 }));
      const { key } = await own.tenant('thief');
      const before = await result(look(done));
      await own.stop({ keep: true });
      own = await Glovebox.start({ dir: own.dir });
      const after = await result(look(done));
      assert.deepEqual(after, before);
      assert.match(JSON.stringify(after.result.content), /kept-answer/);
      const lost = await result(look(running));
      assert.deepEqual([lost.status, lost.error.message], ['failed', 'the service was restarted']);
      assert.match((await result(look(secret))).error.message, /not kept/);
      for (const method of ['tasks/cancel', 'tasks/update'])
        assert.equal((await result(modern(own, method, { taskId: running, inputResponses: {} }, withTasks))).resultType, 'complete', 'it is over');
      await refuses(look(done, { key }), 200, -32602);
      await refuses(look('task_00000000000000000000000000000000'), 200, -32602);
    } finally {
      await own.stop();
    }
  });

  test('cancelling a task ends its execution', async () => {
    const first = await result(call('execute_python', { code: 'import time' }, withTasks));
    const { session_id } = first.structuredContent;
    const { taskId } = await result(call('execute_python', { code: 'time.sleep(200)', session_id, timeout: 300 }, withTasks));
    await result(modern(g, 'tasks/cancel', { taskId }, withTasks));
    assert.equal((await end(taskId)).status, 'cancelled');
    assert.match(JSON.stringify((await result(call('execute_python', { code: 'print(6 * 7)', session_id }))).content), /42/);
  });

  test('changes of a task come to whoever listens for it', async () => {
    const { taskId } = await result(call('confirm_delete', { filename: 'x' }, withTasks));
    const stream = follow((on) => modern(g, 'subscriptions/listen', { notifications: { taskIds: [taskId] } }, { ...withTasks, ...on }));
    assert.deepEqual((await stream.next()).params.notifications, { taskIds: [taskId] });
    const t = await until(async () => { const x = await result(get(taskId)); return x.status === 'input_required' && x; });
    assert.deepEqual(Object.keys(t.inputRequests), ['confirm']);
    await result(modern(g, 'tasks/update', { taskId, inputResponses: { confirm: { action: 'accept', content: { confirm: true } }, odd: {} } }, withTasks));
    const done = await stream.next((m) => m.params.status === 'completed');
    assert.equal(done.method, 'notifications/tasks');
    assert.match(done.params.result.content[0].text, /Deleted x/);
    stream.close();
  });

  test('their number is bounded for each key', async () => {
    const { key } = await g.tenant('tasked');
    const made = await Promise.all(Array.from({ length: 64 }, () => call('slow_compute', { seconds: 20 }, { ...withTasks, key })));
    assert.ok(made.every((m) => response(m).result.resultType === 'task'));
    await refuses(call('failing_job', {}, { ...withTasks, key }), 200, -32603);
    assert.equal((await result(call('slow_compute', { seconds: 0 }, { ...withTasks, key }))).resultType, 'complete', 'without a task it still runs');
    for (const m of made) await modern(g, 'tasks/cancel', { taskId: response(m).result.taskId }, { ...withTasks, key });
  });
});
