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
  assert.equal(data.preview_page, 2, 'page 1 has only the title and the contents');
  assert.match(made.text, /The picture shows page 2\./);
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
  const named = ['/etc/passwd', '../../etc/passwd', 'pw.csv', 'h.png', 'file:///tmp/p.csv', 'file:///etc/passwd'];
  await tools.refused('generate_pdf_report', { markdown: named.map((n) => `![x](${n})`).join(' '), path: 'unsafe.pdf' }, 'error',
    /\/etc\/passwd is not below \/mnt\/data; \.\.\/\.\.\/etc\/passwd is not below .*pw\.csv is not below/);
  const made = await tools.ok('generate_pdf_report', {
    markdown: `![f](https://example.com/x.png)

<link rel="stylesheet" href="file:///etc/passwd">

\`\`\`csv
/etc/passwd
\`\`\`

<a href="notes.txt">relative</a>
<div style="background: url(file:///etc/passwd)">boxed</div>`,
    path: 'safe.pdf',
  });
  assert.ok(made.data.warnings.some((w) => /example\.com.*no network/.test(w)), JSON.stringify(made.data.warnings));
  assert.match(made.text, /warning: /);
  const text = await whole('safe.pdf');
  assert.doesNotMatch(text, /root:|nobody:/);
  assert.match(text, /boxed/);
});

test('a text with the lines of the command runs nothing', async () => {
  const ends = 'GLOVEBOX_REPORT_PROGRAM_ENDS\nGLOVEBOX_REPORT_INPUT_ENDS\nEOF\ntouch /mnt/data/ran\n';
  await tools.ok('generate_pdf_report', { markdown: ends, path: 'ends.pdf' });
  assert.match(await whole('ends.pdf'), /touch \/mnt\/data\/ran/);
  assert.equal(await shell('ls ran 2>/dev/null | wc -l'), '0\n');
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
  await refused({ markdown: '# x\n\n![a](lines.png) ![b](no/such.csv)', path: 'none.pdf' }, 'error',
    /lines\.png was not found \(there is line\.png\); no\/such\.csv was not found\. Save pictures/);
  await refused({ markdown: '```csv\ngone.csv\n```', path: 'none.pdf' }, 'error', /gone\.csv was not found/);
  await tools.ok('run_shell', { command: 'head -c 200 line.png > torn.png; cp small.csv small.txt' });
  await refused({ markdown: '![a](torn.png)', path: 'none.pdf' }, 'error', /torn\.png could not be read as a picture/);
  await refused({ markdown: '![a](small.txt)', path: 'none.pdf' }, 'error', /small\.txt is neither a picture nor a table/);
  await refused({ html: '<div>'.repeat(2000), path: 'none.pdf' }, 'error', /nested too deeply/);
  assert.equal((await tools.ok('list_files', { pattern: 'none.pdf' })).data.files.length, 0, 'no PDF of a failed report');
  const odd = await tools.call('generate_pdf_report', { markdown: '![t](odd.csv)', path: 'odd.pdf' });
  assert.ok(odd.text);
  const left = await tools.ok('list_files', { pattern: '.report-*' });
  assert.equal(left.data.files.length, 0, 'nothing half-made is left');
});

test('a table of thousands of rows is cut, and says so', async () => {
  await tools.ok('execute_python', { code: "open('/mnt/data/huge.csv', 'w').write('n,m\\n' + ''.join(f'{i},{i}\\n' for i in range(5000)))" });
  const made = await tools.ok('generate_pdf_report', { markdown: '![Huge](huge.csv)', path: 'huge.pdf', theme: 'compact' });
  assert.deepEqual(made.data.warnings, ['huge.csv has 5000 rows; the first 2000 are shown']);
  assert.ok(made.data.pages > 10);
});

test('Markdown as models write it', async () => {
  const made = await tools.ok('generate_pdf_report', {
    path: 'gfm.pdf',
    markdown: `Result:
- first ~~old~~
  - nested
    1. deep
- [x] done
| Name | Value |
|------|------:|
| a \\| b | 12 |
Behind the table, see https://example.com/a_b_c.

1. Run
   \`\`\`sh
   make all
   \`\`\`
2. Then $E = mc^2$ and $5 or $6, then $\\nosuch{x} \\le 1$.

$$
\\sum_{i=1}^n i = \\begin{cases} 1 & n = 1 \\\\ \\frac{n(n+1)}{2} & \\text{else} \\end{cases}
$$`,
  });
  assert.deepEqual(made.data.warnings, ['a formula could not be drawn and is shown as text: \\nosuch{x} \\le 1']);
  const text = await whole('gfm.pdf');
  assert.match(text, /Result:\n+ *• first old\n+ *[◦○] nested\n+ *1\. deep\n+ *☑ done\n/);
  assert.match(text, /Name +Value\n+ *a ?\| ?b +12\n+ *Behind the table/);
  assert.match(text, /1\. Run\n+ *make all\n+ *2\. Then/);
  assert.match(text, /\$5 or \$6, then nosuch\{x\} ≤ 1/);
  assert.doesNotMatch(text, /~~|\$\$|mc\^2|cases|\[x\]/);
  assert.match(await shell('pdfinfo -url gfm.pdf'), /https:\/\/example\.com\/a_b_c\n/);
});

test('no cell of a wide table is lost', async () => {
  const table = (name, columns, rows, cell = (r, c) => `${name}r${r}c${c}`) => [
    `| ${Array.from({ length: columns }, (_, c) => `${name}head${c}`).join(' | ')} |`,
    `|${'---|'.repeat(columns)}`,
    ...Array.from({ length: rows }, (_, r) => `| ${Array.from({ length: columns }, (_, c) => cell(r, c)).join(' | ')} |`),
  ].join('\n');
  const word = `${'Wort'.repeat(40)}ENDE`;
  const chinese = '这是一个很长的中文说明文字没有任何空格'.repeat(6);
  const made = await tools.ok('generate_pdf_report', {
    path: 'cells.pdf',
    markdown: `${table('a', 31, 12)}\n\nBetween.\n\n${table('b', 60, 3)}\n\n${table('c', 4, 2, (r, c) => (c ? `c${r}${c}` : word))}\n
| x | 说明 | y |\n|---|---|---|\n| 1 | ${chinese} | 2 |\n`,
  });
  const parts = made.data.warnings.map((w) => /^table (\d) has (\d+) columns; it is split into (\d) parts$/.exec(w));
  assert.deepEqual(parts.map((p) => p && [p[1], p[2]]), [['1', '31'], ['2', '60']], JSON.stringify(made.data.warnings));
  const text = await shell('pdftotext cells.pdf - 2>/dev/null');
  const words = new Set(text.split(/\s+/));
  for (const [name, columns, rows] of [['a', 31, 12], ['b', 60, 3]])
    for (let c = 0; c < columns; c++) {
      assert.ok(words.has(`${name}head${c}`), `${name}head${c}`);
      for (let r = 0; r < rows; r++) assert.ok(words.has(`${name}r${r}c${c}`), `${name}r${r}c${c}`);
    }
  const joined = text.replace(/\s+/g, '');
  assert.equal(joined.split(word).length, 3, 'the long word, broken, in both rows');
  assert.ok(joined.includes(chinese));
  // Nothing is outside the page, where a reader would not see it.
  const boxes = await shell('pdftotext -bbox cells.pdf - 2>/dev/null');
  let width = 0, seen = 0;
  for (const [, page, x] of boxes.matchAll(/<page width="([\d.]+)"|xMax="([\d.]+)"/g)) {
    if (page) width = Number(page);
    else assert.ok(Number(x) < width - 20, `${x} of ${width}`), seen++;
  }
  assert.ok(seen > 500);
});

test('the longest text is taken, whatever it consists of', async () => {
  for (const length of [899_999, 900_000]) // in JSON the quotes would double
    assert.equal((await tools.ok('generate_pdf_report', { markdown: `begin <!-- ${'"'.repeat(length - 19)} --> end`.padEnd(length, '\n'), path: 'full.pdf' })).data.pages, 1);
  assert.match(await whole('full.pdf'), /begin\s+end/);
});

test('a heading stays with what follows it, and a table repeats its head', async () => {
  let markdown = '';
  const count = 24;
  for (let k = 0; k < count; k++) {
    for (let i = 0; i <= k % 7; i++) markdown += `Filler ${k} ${i}\n\n`;
    markdown += `## Head${k}\n\n`;
    if (k % 3 === 0) markdown += `| Column${k} | b |\n|---|---|\n${Array.from({ length: 16 }, (_, r) => `| body${k}row${r} | 2 |\n`).join('')}\n`;
    else if (k % 3 === 1) markdown += `body${k}row0 ${'words '.repeat(60)}\n\n`;
    else markdown += `- body${k}row0\n- b\n- c\n\n`;
  }
  const made = await tools.ok('generate_pdf_report', { markdown, path: 'heads.pdf', page_size: 'A5' });
  assert.ok(made.data.pages > 8);
  const pages = (await shell('pdftotext heads.pdf - 2>/dev/null')).split('\f');
  const has = (text) => pages.flatMap((p, i) => (new RegExp(`\\b${text}\\b`).test(p) ? [i] : []));
  let broken = 0;
  for (let k = 0; k < count; k++) {
    assert.deepEqual(has(`Head${k}`), has(`body${k}row0`), `Head${k}`);
    if (k % 3) continue;
    const rows = [...new Set(Array.from({ length: 16 }, (_, r) => has(`body${k}row${r}`)).flat())];
    broken += rows.length > 1;
    assert.deepEqual(has(`Column${k}`), rows);
  }
  assert.ok(broken > 0, 'some table goes over two pages');
});

test('pictures keep their shape and fit; the preview is of the first page with contents', async () => {
  await tools.ok('execute_python', { code: `from PIL import Image
Image.new('RGB', (3000, 300), 'red').save('/mnt/data/broad.png')
Image.new('RGB', (300, 3000), 'blue').save('/mnt/data/tall.png')` });
  const made = await tools.ok('generate_pdf_report', {
    path: 'pictures.pdf',
    html: '<div style="height: 200mm; break-after: page"><h1>Cover</h1></div><p><img src="broad.png"></p><p><img src="tall.png" width="900" height="90"></p>',
  });
  assert.equal(made.data.preview_page, 2);
  const shapes = await shell(`pdfimages -list pictures.pdf | awk 'NR > 2 { print $4, $5, $13, $14 }'`);
  for (const line of shapes.trim().split('\n')) {
    const [width, height, xPpi, yPpi] = line.split(' ').map(Number);
    assert.ok(Math.abs(xPpi - yPpi) <= 2, line);
    assert.ok(width / xPpi < 6.6 && height / yPpi < 10, `${line}: inches on an A4 page`);
  }
  assert.equal((await tools.ok('generate_pdf_report', { markdown: 'short', path: 'short.pdf' })).data.preview_page, 1);
});
