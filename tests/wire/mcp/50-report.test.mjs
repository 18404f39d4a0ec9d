// SPDX-License-Identifier: Apache-2.0
// generate_pdf_report: what is in the PDF, by pdftotext and pdfinfo inside the
// session; what it looks like was looked at when it was made.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Glovebox, pool } from '../../lib/glovebox.mjs';
import { Tools } from '../../lib/mcp-tools.mjs';

let g, tools, session;
before(async () => {
  g = await Glovebox.start({ config: { pools: [pool({ runtime: 'standard', python_timeout_max_s: 900 })] } });
  tools = new Tools(g, { conversation: 'reports' });
  session = (await tools.ok('execute_python', {
    code: `kept = 'still here'
import matplotlib.pyplot as plt
plt.plot([1, 3, 2]); plt.savefig('/mnt/data/line.png'); plt.close()
plt.bar(['a', 'b'], [2, 5]); plt.savefig('/mnt/data/bars.png'); plt.close()
with open('/mnt/data/wide.csv', 'w') as f:
    f.write(','.join(['Region', 'Customer'] + [f'Month{m:02d}' for m in range(1, 16)]) + '\\n')
    for i in range(120): f.write(','.join(['North', f'Customer {i:03d}'] + [str(10000 + i * m) for m in range(1, 16)]) + '\\n')
open('/mnt/data/small.csv', 'w').write('item;count\\nbolt;12\\nnut;7\\n')`,
  })).data.session_id;
});
after(() => g?.stop());

// By the native door, whose output is not cut.
const shell = async (code) => (await g.ok('POST', `/api/sessions/${session}/executions`, { language: 'shell', code })).stdout;
const page = (n, path = 'report.pdf') => shell(`pdftotext -f ${n} -l ${n} -layout '${path}' - 2>/dev/null`);
const whole = (path = 'report.pdf') => shell(`pdftotext -layout '${path}' - 2>/dev/null`);
const info = async (path) => Object.fromEntries((await shell(`pdfinfo '${path}'`)).trim().split('\n').map((l) => l.split(/:\s+/, 2)));

test('a report with all that reports have', async () => {
  const told = [];
  const made = await tools.ok('generate_pdf_report', {
    title: 'Yearly <review> & more',
    author: 'The team',
    toc: true,
    header: 'Draft · {title}',
    footer: 'Page {page} of {pages}',
    markdown: `# Yearly &lt;review> & more

Words with a footnote.[^1]

![Sales over time](line.png)

![Sales by region](sandbox:/mnt/data/bars.png)

## Numbers

![All customers](wide.csv)

![table](/mnt/data/small.csv)

\`\`\`csv
name,qty
screw,99
\`\`\`

## Code

\`\`\`python
def f(x): return x * 2  # twice
\`\`\`

## 日本語の見出し

これは日本語の段落です。简体中文也在这里。한국어도.

## العربية

هذا نص عربي مع English داخله.

[^1]: The footnote itself.
`,
  }, { progress: (p) => told.push(p.message) });
  const { data } = made;
  assert.deepEqual(data.warnings, []);
  assert.equal(data.file.path, 'report.pdf');
  assert.ok(data.pages >= 5, `${data.pages}`);
  assert.match(made.text, new RegExp(`${data.pages} pages`));
  assert.equal(data.preview, true);
  assert.equal(made.images[0].mimeType, 'image/png');
  assert.ok(Buffer.from(made.images[0].data, 'base64').length < 1 << 20);
  assert.equal(made.links[0].mimeType, 'application/pdf');
  assert.equal(made._meta.files[0].path, 'sandbox:/mnt/data/report.pdf');
  const bytes = (await g.call('GET', data.file.url)).bytes;
  assert.equal(bytes.subarray(0, 5).toString(), '%PDF-');
  assert.equal(bytes.length, data.file.size);

  const facts = await info('report.pdf');
  assert.equal(facts.Title, 'Yearly <review> & more');
  assert.equal(facts.Author, 'The team');
  assert.equal(Number(facts.Pages), data.pages);
  const first = await page(1);
  assert.match(first, /Yearly <review> & more/);
  assert.match(first, /Contents/);
  assert.match(first, /Numbers\s*[. ]*\d/);
  assert.match(first, new RegExp(`Page 1 of ${data.pages}`));
  assert.match(first, new RegExp(`1 ?/ ?${data.pages}`));
  assert.match(first, /Draft · Yearly/);
  const pages = [];
  for (let n = 1; n <= data.pages; n++) pages.push(await page(n));
  const all = pages.join('\n');
  const table = pages.filter((text) => /Customer \d{3}/.test(text));
  assert.ok(table.length > 1, 'the wide table goes over pages');
  for (const text of table) assert.match(text, /Month01[^]*Month15/, 'its head is on each');
  assert.match(all, /Customer 000/);
  assert.match(all, /Customer 119/);
  assert.match(all, /bolt\s+12/);
  assert.match(all, /screw\s+99/);
  assert.match(all, /twice/);
  assert.match(all, /これは日本語の段落です/);
  assert.match(all, /한국어도/);
  assert.match(all, /Sales over time/);
  assert.match(all, /The footnote itself/);
  assert.equal(all.match(/Yearly <review> & more/g).length, 1 + data.pages, 'the title once, and once in each header');
  assert.match(await shell('pdfimages -list report.pdf | tail -n +3 | wc -l'), /^[2-9]/);
  assert.match(await shell('pdffonts report.pdf 2>/dev/null'), /Noto-Sans/);
  assert.equal((await tools.ok('execute_python', { code: 'kept' })).data.result, "'still here'", 'the interpreter is untouched');
});

test('HTML, other sizes and themes, a folder that is not there yet', async () => {
  const made = await tools.ok('generate_pdf_report', {
    html: '<html><head><style>p.red { color: red }</style></head><body><h1>Head</h1><p class=red>Body text</p><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table><script>x</script></body></html>',
    path: '/mnt/data/out/new/a.pdf', page_size: 'Letter', landscape: true, theme: 'compact',
  });
  assert.equal(made.data.file.path, 'out/new/a.pdf');
  const facts = await info('out/new/a.pdf');
  assert.match(facts['Page size'], /^792 x 612/);
  assert.equal(facts.Title, 'Head');
  const text = await whole('out/new/a.pdf');
  assert.match(text, /Body text/);
  assert.doesNotMatch(text, /^x$/m);
  for (const theme of ['plain', 'report'])
    assert.equal((await tools.ok('generate_pdf_report', { markdown: '# x', path: 't.pdf', theme, page_size: 'A5' })).data.pages, 1);
});

test('a report made again is a new version of the same file', async () => {
  const one = (await tools.ok('generate_pdf_report', { markdown: 'one', path: 'v.pdf' })).data.file;
  const two = (await tools.ok('generate_pdf_report', { markdown: 'two', path: 'v.pdf' })).data.file;
  assert.equal(one.file_id, two.file_id);
  assert.notEqual(one.version, two.version);
});

test('F1: nothing outside /mnt/data gets into a report, and nothing is fetched', async () => {
  await tools.ok('run_shell', { command: 'ln -sf /etc/passwd pw.csv; ln -sf /etc/hostname h.png; cp /etc/passwd /tmp/p.csv' });
  const made = await tools.ok('generate_pdf_report', {
    markdown: `![a](/etc/passwd) ![b](../../etc/passwd) ![c](pw.csv) ![d](h.png) ![e](file:///tmp/p.csv) ![f](https://example.com/x.png) ![g](gone.png)

<img src="file:///etc/passwd"> <link rel="stylesheet" href="file:///etc/passwd">

\`\`\`csv
/etc/passwd
\`\`\`

<a href="notes.txt">relative</a>
<div style="background: url(file:///etc/passwd)">boxed</div>`,
    path: 'safe.pdf',
  });
  assert.ok(made.data.warnings.length >= 6, JSON.stringify(made.data.warnings));
  assert.ok(made.data.warnings.some((w) => /gone\.png was not found/.test(w)));
  assert.ok(made.data.warnings.some((w) => /no network/.test(w)));
  assert.match(made.text, /warning: /);
  const text = await whole('safe.pdf');
  assert.doesNotMatch(text, /root:|nobody:/);
  assert.match(text, /boxed/);
});

test('arguments and failures are sentences', async () => {
  const refused = (args, status, words) => tools.refused('generate_pdf_report', args, status, words);
  await refused({}, 'invalid_request', /exactly one of markdown and html/);
  await refused({ markdown: 'a', html: 'b' }, 'invalid_request', /exactly one/);
  await refused({ markdown: 'a', path: 'x.txt' }, 'invalid_request', /end with \.pdf/);
  await refused({ markdown: 'a', path: '../x.pdf' }, 'invalid_request', /the path/);
  await refused({ markdown: 'a', page_size: 'B9' }, 'invalid_request', /'page_size' must be one of/);
  await refused({ markdown: 'a', theme: 'loud' }, 'invalid_request', /'theme'/);
  await refused({ markdown: 'a', timeout: 4 }, 'invalid_request', /'timeout'/);
  await refused({ markdown: 'a', timeout: 901 }, 'invalid_request', /'timeout'/);
  await refused({ markdown: 'x'.repeat(900_001) }, 'invalid_request', /'markdown'/);
  assert.equal((await tools.ok('generate_pdf_report', { markdown: 'a', timeout: 900, path: 'long.pdf' })).data.pages, 1, 'longer than a shell command may take');
  await tools.ok('run_shell', { command: "mkdir -p taken.pdf; printf '\\xff\\xfe,\\0' > odd.csv; printf 'PK\\3\\4broken' > odd.xlsx" });
  await refused({ markdown: 'a', path: 'taken.pdf' }, 'error', /could not be written/);
  await refused({ markdown: '![t](odd.xlsx)' }, 'error', /odd\.xlsx could not be read/);
  const odd = await tools.call('generate_pdf_report', { markdown: '![t](odd.csv)', path: 'odd.pdf' });
  assert.ok(odd.text);
  const left = await tools.ok('list_files', { pattern: '.report-*' });
  assert.equal(left.data.files.length, 0, 'nothing half-made is left');
});

test('a table of thousands of rows is cut, and says so', async () => {
  await tools.ok('execute_python', { code: "open('/mnt/data/huge.csv', 'w').write('n,m\\n' + ''.join(f'{i},{i}\\n' for i in range(5000)))" });
  const made = await tools.ok('generate_pdf_report', { markdown: '![Huge](huge.csv)', path: 'huge.pdf', theme: 'compact' });
  assert.deepEqual(made.data.warnings, ['huge.csv has 5000 rows; the first 2000 are shown.']);
  assert.ok(made.data.pages > 10);
});
