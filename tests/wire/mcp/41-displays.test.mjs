// SPDX-License-Identifier: Apache-2.0
// What code displays reaches the model as text, in order with what it prints:
// tables, Markdown, HTML, plotly figures, and whatever has a repr. Tracebacks
// are short.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { Tools } from '../../lib/mcp-tools.mjs';

let g, tools;
before(async () => {
  g = await Glovebox.start({ config: { pools: [pool({ runtime: 'standard' })] } });
  tools = new Tools(g, { conversation: 'shown' });
});
after(() => g?.stop());

const run = (code) => tools.ok('execute_python', { code });

test('displays stand between what was printed, each as its best text', async () => {
  const { text, data } = await run(`
from IPython.display import display, HTML, Markdown, JSON
import pandas as pd
print('one')
display(pd.DataFrame({'a': [1, 2], 'b': ['x', None]}))
print('two', end='')
display(Markdown('**bold**'))
display(HTML('<p>page &amp; text</p>'), JSON({'k': 1}), 'str', 7)
print('three')
display({'n': 5})
None`);
  const want = "one\n|  | a | b |\n| --- | --- | --- |\n| 0 | 1 | x |\n| 1 | 2 | None |\ntwo\n**bold**\npage & text\n{\"k\": 1}\n'str'\n7\nthree\n{'n': 5}\n";
  assert.equal(data.stdout, want);
  assert.ok(text.startsWith(`stdout:\n${want}`), text);
  assert.equal(data.images, 0);
});

test('a display alone is not an empty answer', async () => {
  const { text } = await run("class R:\n    def __repr__(self): return 'my repr'\ndisplay(R())");
  assert.match(text, /^stdout:\nmy repr\n\[status: ok/);
});

test('a large table is a short one that says how much more there is', async () => {
  const { data } = await run("import pandas as pd\npd.DataFrame({'c%d' % i: range(1000) for i in range(40)})");
  assert.match(data.result, /^\| {2}\| c0 \| c1 \|/);
  assert.match(data.result, /\n\| 19 \| 19 \|.*\n\n… 980 more rows, … 28 more columns$/);
  assert.ok(data.result.length < 4000);
});

test('a plotly figure is saved as a page and named', async () => {
  const { text, data, links } = await run("import plotly.express as px\nf = px.bar(x=['a'], y=[1], title='Sales')\nf.show()\nprint('after')");
  assert.equal(data.stdout, '[interactive figure "Sales" (bar) saved as figure-1.html]\nafter\n');
  assert.match(text, /saved as figure-1\.html/);
  assert.equal(links[0].name, 'figure-1.html');
  const page = (await g.call('GET', data.files[0].url)).text;
  assert.match(page, /<html>/);
  assert.match(page, /Plotly\.newPlot/);
  assert.match(page, /Sales/);
  assert.doesNotMatch(page.slice(0, 2000), /src="http/, 'needs no network');
  const same = await run('f');
  assert.equal(same.data.stdout, '[interactive figure "Sales" (bar) saved as figure-1.html]\n');
  assert.deepEqual(same.data.files, [], 'it is there already');
  const changed = await run("f.update_layout(title='Costs')");
  assert.equal(changed.data.stdout, '[interactive figure "Costs" (bar) saved as figure-2.html]\n');
  assert.deepEqual(changed.data.files.map((f) => f.path), ['figure-2.html']);
});

test('the bundle of any library is a figure too; six of a cell are five files', async () => {
  const { data } = await run(`
class F:
    def __init__(self, n): self.n = n
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'application/vnd.plotly.v1+json': {'data': [{'y': [self.n]}], 'layout': {}}, 'text/plain': 'F'}
for i in range(6): display(F(i))`);
  assert.equal(data.files.length, 5);
  assert.equal(data.stdout.match(/\(scatter\) saved as figure-\d+\.html/g).length, 5);
  assert.match(data.stdout, /\[interactive figure \(scatter\) not saved: one cell saves at most 5\]\n$/);
  assert.match((await run('F(6)')).data.result, /^\[interactive figure \(scatter\) saved as figure-\d+\.html\]$/);
});

test('a page with more than text is saved', async () => {
  const { data } = await run("from IPython.display import HTML\nHTML('<h1>Map</h1><iframe srcdoc=\"x\"></iframe>')");
  assert.equal(data.result, '[page saved as output-1.html]\nMap');
  assert.deepEqual(data.files.map((f) => f.path), ['output-1.html']);
});

test('an update takes the place of what it updates; cleared displays are gone', async () => {
  const { data } = await run(`
from IPython.display import clear_output
h = display('first', display_id=True)
print('between')
h.update('last')`);
  assert.equal(data.stdout, "'last'\nbetween\n");
  const loop = await run("for i in range(5):\n    clear_output(wait=True)\n    display('step %d' % i)\nclear_output(wait=True)");
  assert.equal(loop.data.stdout, "'step 4'\n", 'the last one stays: nothing replaced it');
  assert.equal((await run("display(1); clear_output(); display(2)")).data.stdout, '2\n');
});

test('displays at, below and above their limits', async () => {
  const shown = (n, size) => run(`for i in range(${n}): display({'text/plain': 'x' * ${size}}, raw=True)`);
  for (const n of [39, 40]) assert.equal((await shown(n, 1)).data.stdout, 'x\n'.repeat(n));
  assert.equal((await shown(42, 1)).data.stdout, `${'x\n'.repeat(40)}[… 2 more displays are left out here …]\n`);
  assert.doesNotMatch((await shown(200, 1)).text, /More was displayed/);
  assert.match((await shown(201, 1)).text, /\[… 160 more displays are left out here …\]\n[^]*More was displayed than is kept/);
  for (const size of [8191, 8192, 8193]) {
    const { data } = await shown(1, size);
    const whole = (await g.call('GET', data.files[0].url)).text;
    assert.equal(whole, `${'x'.repeat(Math.min(size, 8192))}\n${size > 8192 ? '[… 1 more bytes are left out here …]\n' : ''}`);
  }
});

test('what is displayed after a flood is still shown', async () => {
  const { data } = await run("for i in range(40000): print('line', i, 'x' * 60)\nprint('the end')\ndisplay('seen')");
  assert.match(data.stdout, /^line 0 x/);
  assert.match(data.stdout, /the end\n'seen'\n$/);
});

test('tracebacks have the frames of the code and the last of the library', async () => {
  const { data } = await tools.refused('execute_python', { code: "import pandas as pd\ndef pick(d):\n    return d['b']\npick(pd.DataFrame({'a': [1]}))" }, 'error', /KeyError: 'b'/);
  const lines = data.error.traceback.split('\n');
  assert.match(lines[0], /^Cell In\[\d+\], line 4$/);
  assert.equal(lines[1], "----> 4 pick(pd.DataFrame({'a': [1]}))");
  assert.match(lines[2], /^Cell In\[\d+\], line 3, in pick\(d\)$/);
  assert.equal(lines[3], "----> 3 return d['b']");
  assert.match(lines[4], /^\[\.\.\. \d+ frames? left out \.\.\.\]$/);
  assert.match(lines[5], /^File .*pandas\/core\/indexes\/base\.py:\d+, in Index\.get_loc/);
  assert.match(lines[6], /^-*> \d+ raise KeyError\(key\) from err$/);
  assert.equal(lines[7], "KeyError: 'b'");
  assert.match(lines[8], /^Caused by KeyError: 'b' \(File .*\)$/);
  assert.equal(lines.length, 9, data.error.traceback);
  const whole = await g.ok('GET', `/api/executions/${data.execution_id}`);
  assert.ok(whole.error.traceback.length > 20, 'the native API has all of it');
});

test('sys.exit keeps variables; input() says what to do instead', async () => {
  await run('kept = 5');
  assert.match((await run('import sys; sys.exit()')).text, /^\[status: ok/);
  const { text } = await tools.refused('execute_python', { code: 'sys.exit("no data")' }, 'error', /SystemExit: no data/);
  assert.match(text, /^error:\nSystemExit: no data\n/);
  assert.equal((await run('kept')).data.result, '5');
  await tools.refused('execute_python', { code: "name = input('Name? ')" }, 'error', /input\(\) is not available here.*pass the value in the code or in a file below \/mnt\/data/s);
});
