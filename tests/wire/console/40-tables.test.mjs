// SPDX-License-Identifier: Apache-2.0
// Pages of tables in files: CSV, Parquet and Excel, read inside a sandbox.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { start } from '../../lib/console-wire.mjs';
import { pool } from '../../lib/glovebox.mjs';
import { refused, request, stop } from '../../lib/wire.mjs';

let server, ws;
before(async () => {
  server = await start({ pools: [pool({ runtime: 'standard', ready: 1 })] });
  ws = (await server.ok('POST', '/api/workspaces', {})).id;
});
after(() => stop(server));

const put = async (path, body, key) => (await request(server, 'PUT', `/api/workspaces/${ws}/files/${path}`, { body, key })).body.file_id;
const table = (file, body, key) => request(server, 'POST', `/api/files/${file}/table`, { body, key });
const rows = async (file, body) => {
  const answer = await table(file, body);
  assert.equal(answer.status, 200, answer.text);
  return answer.body;
};

describe('F9: a table', () => {
  test('of a CSV file: heading, types, pages, quotes, other delimiters', async () => {
    const file = await put('a.csv', 'name,n,x,when,code\n"O\'Neil, Pat",1,1.5,2026-01-01,007\nÅsa,2,,,"<script>alert(1)</script>"\n');
    const got = await rows(file, {});
    assert.deepEqual(got.columns, [{ name: 'name', type: 'text' }, { name: 'n', type: 'integer' }, { name: 'x', type: 'number' }, { name: 'when', type: 'text' }, { name: 'code', type: 'text' }]);
    assert.deepEqual(got.rows, [["O'Neil, Pat", 1, 1.5, '2026-01-01', '007'], ['Åsa', 2, null, null, '<script>alert(1)</script>']]);
    assert.equal(got.total, 2);
    assert.deepEqual((await rows(file, { offset: 1, limit: 1 })).rows.map((r) => r[0]), ['Åsa']);
    assert.deepEqual((await rows(file, { offset: 9 })).rows, []);
    const other = await put('b.tsv', 'a\tb\n1\t2\n');
    assert.deepEqual((await rows(other)).rows, [[1, 2]]);
    assert.deepEqual((await rows(await put('c.csv', 'a;b\n1;2\n'))).columns.map((c) => c.name), ['a', 'b']);
    assert.equal((await rows(await put('empty.csv', ''))).total, 0);
  });

  test('of a large file, far down', async () => {
    const lines = ['id,value'];
    for (let i = 0; i < 300_000; i++) lines.push(`${i},${i * 2}`);
    const file = await put('large.csv', lines.join('\n'));
    const got = await rows(file, { offset: 299_990, limit: 1000 });
    assert.equal(got.total, 300_000);
    assert.deepEqual(got.rows.at(-1), [299_999, 599_998]);
  });

  test('of an Excel file, by sheet', async () => {
    const session = await server.session({ workspace: ws });
    const made = await session.python(`import pandas as pd
d = pd.DataFrame({"n": range(250), "t": [f"row {i}" for i in range(250)]})
with pd.ExcelWriter("t.xlsx") as w:
    d.head(5).to_excel(w, sheet_name="First", index=False)
    d.tail(3).to_excel(w, sheet_name="Zweite", index=False)`);
    assert.equal(made.outcome, 'ok', JSON.stringify(made.error));
    const file = made.files.created[0].file_id;
    const excel = await rows(file);
    assert.deepEqual([excel.sheets, excel.sheet, excel.total], [['First', 'Zweite'], 'First', 5]);
    assert.deepEqual((await rows(file, { sheet: 'Zweite' })).rows.map((r) => r[0]), [247, 248, 249]);
    refused(await table(file, { sheet: 'nosuch' }), 404);
    refused(await table(file, { sheet: '"); import os; os.system("x")#' }), 404);
  });

  test('of a Parquet file, across row groups; without a reader it says so', async (t) => {
    const session = await server.session({ workspace: ws });
    if ((await session.python('import pyarrow')).outcome !== 'ok') {
      refused(await table(await put('bad.parquet', 'nonsense'), {}), 409, 'conflict', /no library/);
      t.skip('the standard image has no pyarrow');
      return;
    }
    const made = await session.python(`import pandas as pd
d = pd.DataFrame({"n": range(250), "t": [f"row {i}" for i in range(250)], "f": [i / 2 for i in range(250)]})
d.to_parquet("t.parquet", row_group_size=100)`);
    const parquet = await rows(made.files.created[0].file_id, { offset: 98, limit: 4 });
    assert.deepEqual(parquet.columns, [{ name: 'n', type: 'integer' }, { name: 't', type: 'text' }, { name: 'f', type: 'number' }]);
    assert.deepEqual(parquet.rows.map((r) => r[0]), [98, 99, 100, 101]);
    assert.equal(parquet.total, 250);
    refused(await table(await put('bad.parquet', 'nonsense'), {}), 400, 'invalid_request', /damaged/);
  });

  test('of a file that is not what its name says is refused', async () => {
    refused(await table(await put('bad.xlsx', 'nonsense'), {}), 400, 'invalid_request', /damaged/);
    refused(await table(await put('bad.csv', Buffer.from([0, 1, 2])), {}), 400);
    refused(await table(await put('page.html', '<b>'), {}), 400, 'invalid_request', /no tables/);
  });

  test('bounds: at, below and above', async () => {
    const file = await put('d.csv', 'a\n1\n');
    for (const body of [{ limit: 1 }, { limit: 1000 }, { offset: 0 }, { delimiter: ',' }]) await rows(file, body);
    for (const body of [{ limit: 0 }, { limit: 1001 }, { offset: -1 }, { delimiter: ',,' }, { sheet: '' }, { what: 1 }]) refused(await table(file, body), 400);
  });

  test('only for those who may read the file; nothing is left behind', async () => {
    const file = await put('e.csv', 'a\n1\n');
    const theirs = (await server.ok('POST', '/api/keys', { tenant: 'theirs', scopes: ['files:read'] })).secret;
    refused(await table(file, {}, theirs), 404);
    const none = (await server.ok('POST', '/api/keys', { scopes: ['execute'] })).secret;
    refused(await table(file, {}, none), 403);
    await rows(file);
    assert.ok(!(await server.ok('GET', '/api/sessions')).data.some((s) => s.name === 'table'));
    const names = (await server.ok('GET', `/api/workspaces/${ws}/files?limit=1000`)).data.map((f) => f.path);
    assert.ok(!names.includes('table.json') && !names.includes('table'));
  });
});
