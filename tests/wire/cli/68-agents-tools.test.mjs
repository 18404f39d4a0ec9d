// SPDX-License-Identifier: Apache-2.0
// glovebox agents and glovebox tools: definitions and parameters from files in
// YAML and JSON, runs with arguments of the line.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Cli } from '../../lib/cli.mjs';
import { Glovebox, pool } from '../../lib/glovebox.mjs';

let server, dir, box;
before(async () => {
  server = await Glovebox.start({ config: { pools: [pool({ ready: 2 })] } });
  box = new Cli(server);
  dir = mkdtempSync(join(tmpdir(), 'glovebox-cli-agents-'));
});
after(async () => { box?.close(); await server?.stop(); rmSync(dir, { recursive: true, force: true }); });

const file = (name, text) => { const at = join(dir, name); writeFileSync(at, text); return at; };
const run = (args, options) => box.run(args, options);
const good = async (args, options) => (await box.ok(args, options)).stdout;
const json = (args, options) => box.json(args, options);

describe('glovebox agents', () => {
  test('takes a definition in YAML, and the same in JSON', async () => {
    const yaml = file('a.yaml', 'description: An analyst\nmetadata: {team: data}\nmodel: echo\ninstructions: |\n  Answer briefly.\n  Use tables.\ntemperature: 0.5\nlimits: {max_tool_calls: 4}\ntools:\n  - type: code_interpreter\n  - {type: function, name: f, strict: true, parameters: null, description: "007"}\n');
    const made = await json(['agents', 'create', 'analyst', yaml]);
    assert.deepEqual(made.latest.definition, { kind: 'prompt', model: 'echo', instructions: 'Answer briefly.\nUse tables.\n', temperature: 0.5, limits: { max_tool_calls: 4 }, tools: [{ type: 'code_interpreter' }, { type: 'function', name: 'f', strict: true, parameters: null, description: '007' }] });
    assert.deepEqual([made.latest.description, made.latest.metadata], ['An analyst', { team: 'data' }]);
    const same = file('a.json', JSON.stringify({ description: 'An analyst', metadata: { team: 'data' }, definition: made.latest.definition }));
    assert.equal((await json(['agents', 'update', 'analyst', same])).number, 1, 'nothing changed');
    assert.equal((await json(['agents', 'update', 'analyst', '-', '--description', 'two'], { input: '{"model":"echo"}' })).number, 2);
  });

  test('lists, shows, disables and deletes', async () => {
    assert.match(await good(['agents', 'list']), /NAME +LATEST +MODEL[^]*analyst +2 +echo +yes/);
    assert.match(await good(['agents', 'versions', 'analyst']), /VERSION[^]*2 +echo[^]*1 +echo/);
    assert.equal((await json(['agents', 'show', 'analyst', '--version', '1'])).description, 'An analyst');
    assert.equal((await json(['agents', 'disable', 'analyst'])).enabled, false);
    assert.equal((await json(['agents', 'enable', 'analyst'])).enabled, true);
    await good(['agents', 'delete', 'analyst', '--version', '2']);
    assert.equal((await json(['agents', 'show', 'analyst'])).latest.number, 1);
    assert.deepEqual(await json(['agents', 'delete', 'analyst']), { deleted: 'analyst' });
    const gone = await run(['agents', 'show', 'analyst']);
    assert.ok(gone.status !== 0 && /no agent is called 'analyst'/.test(gone.stderr), gone.stderr);
  });

  test('says where a file is wrong', async () => {
    for (const [text, why] of [['model: [echo\n', /bad\.yaml, line \d/], ['- a\n', /no definition of an agent/], ['model: nosuch\n', /nosuch/], ['model: echo\ntools: [{type: web_search}]\n', /web_search/]]) {
      const done = await run(['agents', 'create', 'bad', file('bad.yaml', text)]);
      assert.ok(done.status !== 0 && why.test(done.stderr), done.stderr);
    }
    assert.notEqual((await run(['agents', 'create', 'bad', join(dir, 'missing.yaml')])).status, 0);
  });
});

describe('glovebox tools', () => {
  test('saves a file and runs it with arguments', async () => {
    await good(['workspaces', 'create', 'kit']);
    const code = file('mean.py', 'print(sum(xs) / len(xs), label)\n');
    const parameters = file('p.yaml', 'properties:\n  xs: {type: array, items: {type: number}, minItems: 1}\n  label: {type: string, default: none}\nrequired: [xs]\n');
    assert.equal((await json(['tools', 'save', 'kit', 'mean', code, '--parameters', parameters, '--description', 'Mean'])).number, 1);
    assert.equal(await good(['tools', 'run', 'kit', 'mean', 'xs=[1,2,3]', 'label=:7']), '2.0 7\n');
    const bad = await run(['tools', 'run', 'kit', 'mean', 'xs=[]']);
    assert.ok(bad.status !== 0 && /arguments\.xs must have at least 1 elements/.test(bad.stderr), bad.stderr);
    const raised = await run(['tools', 'run', 'kit', 'mean', '--arguments', file('args.yaml', 'xs: [1]\nlabel: {a: b}\n')]);
    assert.ok(/arguments\.label must be of type string/.test(raised.stderr), raised.stderr);
    assert.equal((await json(['tools', 'save', 'kit', 'hello', file('hello.sh', 'echo "hello $word"; exit 3\n'), '--parameters', file('q.json', '{"properties":{"word":{"type":"string"}}}')])).language, 'shell');
    const exit = await run(['tools', 'run', 'kit', 'hello', 'word=you']);
    assert.deepEqual([exit.stdout, exit.status !== 0], ['hello you\n', true]);
  });

  test('keeps the code of an execution; lists, shows and deletes', async () => {
    const session = await json(['sessions', 'create', '--workspace', 'kit']);
    const ran = await server.ok('POST', `/api/sessions/${session.id}/executions`, { code: 'print(1 / 0)' });
    await good(['tools', 'save', 'kit', 'kept', '--execution', ran.id]);
    const failed = await run(['tools', 'run', 'kit', 'kept']);
    assert.ok(failed.status !== 0 && /ZeroDivisionError/.test(failed.stderr), failed.stderr);
    assert.match(await good(['tools', 'list', 'kit']), /hello +1 +shell[^]*kept +1 +python[^]*mean +1 +python/);
    assert.equal((await json(['tools', 'show', 'kit', 'mean', '--version', '1'])).code, 'print(sum(xs) / len(xs), label)\n');
    assert.match(await good(['tools', 'versions', 'kit', 'mean']), /mean +1/);
    await good(['tools', 'delete', 'kit', 'kept']);
    assert.notEqual((await run(['tools', 'show', 'kit', 'kept'])).status, 0);
    assert.notEqual((await run(['tools', 'save', 'kit', 'neither'])).status, 0);
  });
});
