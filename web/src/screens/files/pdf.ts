// SPDX-License-Identifier: Apache-2.0
// A page for the sandboxed frame that draws a PDF with pdf.js. Library,
// document and drawing all live in the frame, which has no network, no cookie
// and another origin: a hostile document reaches nothing.
import library from 'pdfjs-dist/legacy/build/pdf.min.mjs' with { type: 'text' };
import worker from 'pdfjs-dist/legacy/build/pdf.worker.min.mjs' with { type: 'text' };

const MOST_PAGES = 2000;

// The text of an inline script: the parser of HTML must not find its end early.
const inline = (text: string): string => text.replaceAll('</script', '<\\/script').replaceAll('<!--', '<\\!--');

// What the library calls getDocument, kept where the next script finds it.
function exposed(text: string): string {
  const local = /export\s*\{[^}]*?\b(?:([\w$]+) as )?getDocument\b/.exec(text);
  return `${text};globalThis.openPdf=${local?.[1] ?? 'getDocument'};`;
}

function base64(bytes: Uint8Array): string {
  let text = '';
  for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(text);
}

const view = `
const bytes = Uint8Array.from(atob(document.getElementById('pdf').textContent), (c) => c.charCodeAt(0));
const pages = document.getElementById('pages');
const say = (text) => { document.getElementById('state').textContent = text; };
try {
  const pdf = await globalThis.openPdf({ data: bytes, isEvalSupported: false, enableXfa: false, useSystemFonts: true, useWasm: false, verbosity: 0 }).promise;
  const count = Math.min(pdf.numPages, ${MOST_PAGES});
  say(pdf.numPages + (pdf.numPages === 1 ? ' page' : ' pages') + (count < pdf.numPages ? ', the first ' + count + ' shown' : ''));
  const first = (await pdf.getPage(1)).getViewport({ scale: 1 });
  const draw = async (entry) => {
    if (entry.dataset.drawn) return;
    entry.dataset.drawn = '1';
    const page = await pdf.getPage(Number(entry.dataset.page));
    const width = Math.min(entry.clientWidth, 1000);
    const viewport = page.getViewport({ scale: width / page.getViewport({ scale: 1 }).width });
    const sharp = Math.min(2, devicePixelRatio || 1);
    const canvas = document.createElement('canvas');
    canvas.width = Math.floor(viewport.width * sharp);
    canvas.height = Math.floor(viewport.height * sharp);
    canvas.style.width = viewport.width + 'px';
    canvas.style.height = viewport.height + 'px';
    canvas.setAttribute('role', 'img');
    const text = (await page.getTextContent()).items.map((i) => i.str).join(' ').slice(0, 4000);
    canvas.setAttribute('aria-label', 'Page ' + entry.dataset.page + ': ' + text);
    entry.style.height = 'auto';
    entry.replaceChildren(canvas);
    await page.render({ canvas, canvasContext: canvas.getContext('2d'), viewport, transform: sharp === 1 ? undefined : [sharp, 0, 0, sharp, 0, 0], annotationMode: 1 }).promise;
    entry.dataset.drawn = 'done';
  };
  const seen = new IntersectionObserver((list) => { for (const one of list) if (one.isIntersecting) draw(one.target).catch((e) => say(String(e))); }, { rootMargin: '600px' });
  for (let n = 1; n <= count; n++) {
    const entry = document.createElement('div');
    entry.className = 'page';
    entry.dataset.page = n;
    pages.append(entry);
    entry.style.height = Math.round(Math.min(entry.clientWidth, 1000) * first.height / first.width) + 'px';
    seen.observe(entry);
  }
  const wanted = Number(document.body.dataset.page);
  if (wanted > 1) pages.children[wanted - 1]?.scrollIntoView();
} catch (error) {
  say('The document cannot be shown: ' + (error && error.message || error));
}`;

export function pdfPage(bytes: Uint8Array, page: number): string {
  return `<title>Document</title><style>body{margin:0;padding:12px;background:#6b6f76!important;color:#fff!important}#state{font:13px system-ui;margin:0 0 8px}`
    + `.page{max-width:1000px;margin:0 auto 12px;background:#fff}canvas{display:block;background:#fff}</style>`
    + `<body data-page="${Math.max(1, Math.floor(page) || 1)}"><p id="state" role="status">Reading the document…</p><main id="pages"></main>`
    + `<script type="application/octet-stream" id="pdf">${base64(bytes)}</script>`
    + `<script type="module">${inline(worker)}</script><script type="module">${inline(exposed(library))}</script><script type="module">${inline(view)}</script></body>`;
}
