// SPDX-License-Identifier: Apache-2.0
// Search in documents: their text is taken out inside sessions, found with
// its page, and a document made to harm can only harm that session.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Glovebox, pool, until } from '../../lib/glovebox.mjs';
import { request, stop } from '../../lib/wire.mjs';

let server;
let s;
let ws;

// The pool people use is not the one that reads documents.
const config = {
  index_document_bytes: '2MiB',
  index_pool: 'reader',
  pools: [pool({ runtime: 'standard' }), pool({ name: 'reader', runtime: 'standard', memory_bytes: '512MiB' })],
};

before(async () => {
  server = await Glovebox.start({ config });
  s = await server.session();
  ws = s.made.workspace;
});
after(() => stop(server));

const put = (path, bytes) => server.ok('PUT', `/api/workspaces/${ws}/files/${path}`, bytes, { raw: true });
const state = () => server.ok('GET', `/api/search/status?workspace=${ws}`);
const settled = () => until(async () => (await state()).pending === 0, { ms: 120_000, every: 50, what: 'the index' });
const find = async (q, more = '') =>
  (await server.ok('GET', `/api/search?workspace=${ws}&q=${encodeURIComponent(q)}${more}`)).data;
const places = async (q, more) => (await find(q, more)).map((h) => `${h.path}@${h.page ?? h.line}`).sort();

const sessionsMade = async () =>
  Number(/^glovebox_sessions_total\{event="created"\} (\d+)$/m.exec((await server.call('GET', '/metrics')).text)[1]);

// Documents as the libraries people use write them.
const MAKE = `
import zipfile
from reportlab.pdfgen import canvas
import docx, xlsxwriter
from odf.opendocument import OpenDocumentText
from odf.text import P

pdf = canvas.Canvas("report.pdf")
for text in ("a walrus rests", "the Müller clause", "third page heron"):
    pdf.drawString(72, 720, text); pdf.showPage()
pdf.save()

d = docx.Document()
d.add_paragraph("opening otter"); d.add_page_break(); d.add_paragraph("closing heron")
d.add_table(1, 2).rows[0].cells[1].text = "cellular badger"
d.save("letter.docx")

book = xlsxwriter.Workbook("book.xlsx")
book.add_worksheet("Quarterly").write("B3", "shared puffin")
book.add_worksheet("Second").write_row(0, 0, ["lynx", 421337, 2.5])
book.close()

odt = OpenDocumentText()
odt.text.addElement(P(text="odd ibex text")); odt.save("note.odt")

with zipfile.ZipFile("deck.pptx", "w") as z:
    for n, text in enumerate(["first slide", "marmot slide", "x"] + ["later"] * 8, 1):
        z.writestr(f"ppt/slides/slide{n}.xml", '<p:sld xmlns:p="p" xmlns:a="a"><a:p><a:r><a:t>%s</a:t></a:r>'
                   '<a:r><a:t>s %d</a:t></a:r></a:p></p:sld>' % (text, n))
print("made")
`;

describe('documents', () => {
  test('F9 their text is found, with its page, sheet or slide', async () => {
    assert.equal(await s.out(MAKE), 'made');
    await settled();
    assert.deepEqual(await state(), { ready: 5, pending: 0, failed: 0, names_only: 0, behind_ms: 0, passages: 0, uncut: 0, trained_at: null });
    assert.deepEqual(await places('walrus'), ['report.pdf@1']);
    assert.deepEqual(await places('muller clause'), ['report.pdf@2']);
    assert.deepEqual(await places('heron'), ['letter.docx@2', 'report.pdf@3']);
    assert.deepEqual(await places('otter'), ['letter.docx@1']);
    assert.deepEqual(await places('"cellular badger"'), ['letter.docx@2']);
    assert.deepEqual(await places('quarterly puffin'), ['book.xlsx@1']);
    assert.deepEqual(await places('lynx 421337'), ['book.xlsx@2']);
    assert.deepEqual(await places('ibex'), ['note.odt@1']);
    assert.deepEqual(await places('marmot'), ['deck.pptx@2']);
    assert.deepEqual(await places('"later s 10"'), []);
    assert.deepEqual(await places('"laters 10"'), ['deck.pptx@10']);
    assert.deepEqual(await places('heron', '&type=pdf'), ['report.pdf@3']);
    const [hit] = await find('heron', '&type=pdf');
    assert.equal(hit.line, null);
    assert.equal(hit.snippet, 'third page \u2068heron\u2069');
    assert.equal(hit.mime_type, 'application/pdf');
  });

  test('a question is answered with the page of its document', async () => {
    const [{ workspace }] = await find('heron', '&type=pdf');
    assert.equal((await request(server, 'PATCH', `/api/workspaces/${workspace}`, { body: { intelligence: true } })).status, 200);
    let got;
    await until(async () => {
      got = (await request(server, 'POST', '/api/ask', { body: { question: 'on which page is the heron of the report?\nsay: There [1].', model: 'echo', prefix: 'report' } })).body;
      return got.citations?.length;
    }, { ms: 20_000, what: 'a citation' });
    const [c] = got.citations;
    assert.deepEqual([c.path, c.page, c.line, c.line_end], ['report.pdf', 3, null, null]);
    assert.match(c.text, /third page heron/);
    assert.equal((await request(server, 'PATCH', `/api/workspaces/${workspace}`, { body: { intelligence: false } })).status, 200);
  });

  test('a new version is read again, a rename is not', async () => {
    const before = await sessionsMade();
    await s.out('import os; os.rename("letter.docx", "moved.docx")');
    await settled();
    assert.deepEqual(await places('otter'), ['moved.docx@1']);
    assert.equal(await sessionsMade(), before);
    await s.out('d.add_paragraph("fresh quokka"); d.save("other.docx")');
    await settled();
    assert.deepEqual(await places('otter'), ['moved.docx@1', 'other.docx@1']);
    assert.equal(await sessionsMade(), before + 1);
    assert.deepEqual(await places('quokka'), ['other.docx@2']);
    await s.out('d.add_paragraph("late tapir"); d.save("other.docx"); os.remove("moved.docx")');
    await settled();
    assert.deepEqual(await places('tapir'), ['other.docx@2']);
    assert.deepEqual(await places('otter'), ['other.docx@1']);
  });

  test('damaged, locked and oversized ones are found by name and counted', async () => {
    const before = await state();
    await put('broken.pdf', 'not a pdf at all');
    await put('broken.docx', 'PK\u0003\u0004 no archive');
    await put('empty.xlsx', '');
    await put('locked.docx', Buffer.from('d0cf11e0a1b11ae10000', 'hex'));
    await put('huge.pdf', Buffer.alloc(2 * 1024 * 1024 + 1, 32));
    await put('atlimit.pdf', Buffer.alloc(2 * 1024 * 1024, 32));
    await settled();
    const now = await state();
    assert.equal(now.failed - before.failed, 5);
    assert.equal(now.names_only - before.names_only, 1);
    assert.deepEqual((await find('broken')).map((h) => h.path).sort(), ['broken.docx', 'broken.pdf']);
    assert.equal((await find('huge')).length, 1);
  });

  test('F6 an archive that explodes gives no text and harms nothing', async () => {
    const before = await state();
    await s.out(`
import zipfile
with zipfile.ZipFile("bomb.docx", "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("word/document.xml", b"<w:t xmlns:w='w'>" + b"a" * (300 << 20) + b"</w:t>")
with zipfile.ZipFile("laughs.docx", "w") as z:
    names = "abcdefghij"
    entities = "".join(f'<!ENTITY {b} "{("&" + a + ";") * 10}">' for a, b in zip(names, names[1:]))
    z.writestr("word/document.xml", f'<!DOCTYPE x [<!ENTITY a "lol">{entities}]><x xmlns:w="w"><w:t>&j;</w:t></x>')
with zipfile.ZipFile("many.docx", "w") as z:
    for i in range(20001): z.writestr(f"word/{i}.xml", "")
with zipfile.ZipFile("deep.docx", "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("word/document.xml", "<a>" * 100000 + "</a>" * 100000)
with zipfile.ZipFile("outside.docx", "w") as z:
    z.writestr("../../etc/passwd", "root"); z.writestr("word/document.xml", "<t xmlns:w='w'>cassowary</t>")
`);
    await settled();
    assert.equal((await state()).failed - before.failed, 4);
    assert.deepEqual(await places('cassowary'), ['outside.docx@1']);
    assert.deepEqual(await places('walrus'), ['report.pdf@1'], 'what was there is still found');
  });

  test('F9 nothing of it is left: no session, no file of the reader', async () => {
    await until(async () => (await server.ok('GET', '/api/pools')).data.find((p) => p.name === 'reader').sessions === 0,
      { what: 'the end of the reader\'s session' });
    assert.deepEqual((await find('document.pdf')), []);
    const { data } = await server.ok('GET', '/api/workspaces');
    assert.ok(data.every((w) => w.owner !== 'glovebox'), 'it has no workspace of its own');
  });
});

describe('who may find them', () => {
  test('I3 another tenant finds nothing of it', async () => {
    const other = await server.tenant('elsewhere');
    const { data } = await server.ok('GET', '/api/search?q=walrus', undefined, other);
    assert.deepEqual(data, []);
    assert.equal((await server.call('GET', `/api/search?q=walrus&workspace=${ws}`, undefined, other)).status, 404);
  });
});

describe('without what it needs', () => {
  test('a runtime without pdftotext says so by a failed state, and reads the rest', async () => {
    const small = await Glovebox.start();
    try {
      const one = await small.session();
      await one.out(`
import zipfile
open("a.pdf", "wb").write(b"%PDF-1.4")
with zipfile.ZipFile("b.docx", "w") as z:
    z.writestr("word/document.xml", "<x xmlns:w='w'><w:p><w:t>walrus</w:t></w:p></x>")
`);
      await until(async () => (await small.ok('GET', '/api/search/status')).pending === 0, { ms: 60_000, what: 'the index' });
      const now = await small.ok('GET', '/api/search/status');
      assert.equal(now.failed, 1);
      assert.equal((await small.ok('GET', '/api/search?q=walrus')).data[0].path, 'b.docx');
    } finally {
      await stop(small);
    }
  });

  test('what waits is read after a restart', async () => {
    const first = await Glovebox.start({ config: { index_document_bytes: 0 } });
    await (await first.session()).out('open("a.txt", "w").write("walrus")');
    await first.stop({ keep: true });
    const again = await Glovebox.start({ dir: first.dir });
    try {
      await until(async () => (await again.ok('GET', '/api/search?q=walrus')).data.length === 1, { what: 'the word' });
    } finally {
      await stop(again);
    }
  });

  test('the daemon stops at once while a document is being read', async () => {
    const slow = await Glovebox.start({ config: { pools: [pool({ runtime: 'standard' })] } });
    const one = await slow.session();
    await one.out(`
import random, zipfile
with zipfile.ZipFile("slow.docx", "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("word/document.xml", "<x>" + 6 * "".join(random.choices(["<a/>", "<b/>", "<cc/>", "<d/>"], k=1_000_000)) + "</x>")
`);
    await until(async () => (await slow.ok('GET', '/api/pools')).data[0].sessions === 2, { every: 5, what: 'the reader' });
    const ended = await slow.stop();
    assert.deepEqual(ended, { code: 0, signal: null });
  });
});
