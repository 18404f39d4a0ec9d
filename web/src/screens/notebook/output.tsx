// SPDX-License-Identifier: Apache-2.0
// The outputs of a run. Other screens show executions with the same parts.
// Whatever a session wrote is text, a picture, a table of text, or in a frame.
import { memo, useMemo, useState, type ReactElement } from 'react';
import type { Bundle, ExecutionError } from '../../api/types';
import { saveBlob } from '../../api/client';
import { plain } from '../../ui/ansi';
import { Button } from '../../ui/basic';
import { Frame, type Foreign } from '../../ui/frame';
import { Formula, wholeFormula } from '../../ui/math';
import { Ansi, Code, Markdown } from '../../ui/text';
import { VirtualList } from '../../ui/table';
import type { Output } from './model';

const text = (value: unknown): string => (typeof value === 'string' ? value : value === undefined || value === null ? '' : JSON.stringify(value, null, 1));
const isBase64 = (value: unknown): value is string => typeof value === 'string' && /^[A-Za-z0-9+/=\s]*$/.test(value);
const pictures = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

// --- tables --------------------------------------------------------------------

export interface Grid { columns: string[]; rows: string[][]; heads: number; total: number | null; note: string | null }

// The service's own form of a data frame.
function gridOfTable(value: unknown): Grid | null {
  const table = value as { columns?: unknown; rows?: unknown; index?: unknown; total?: unknown; total_columns?: unknown } | null;
  if (!table || !Array.isArray(table.columns) || !Array.isArray(table.rows)) return null;
  const cell = (v: unknown) => (v === null || v === undefined ? '' : typeof v === 'object' ? JSON.stringify(v) : String(v));
  const index = Array.isArray(table.index) ? table.index : [];
  const rows = table.rows.map((row: unknown, i: number) => [cell(index[i]), ...(Array.isArray(row) ? row.map(cell) : [])]);
  const total = typeof table.total === 'number' ? table.total : rows.length;
  const wide = typeof table.total_columns === 'number' && table.total_columns > table.columns.length ? `, the first ${table.columns.length} of ${table.total_columns} columns` : '';
  return { columns: ['', ...table.columns.map(cell)], rows, heads: 1, total, note: total > rows.length ? `The first ${rows.length.toLocaleString()} of ${total.toLocaleString()} rows${wide}` : `${total.toLocaleString()} rows${wide}` };
}

// A plain table of pandas: parsed in a document that runs and loads nothing,
// and only its text is taken.
function gridOfHtml(html: string): Grid | null {
  if (!html.includes('class="dataframe"') || html.length > 4_000_000) return null;
  // Its styles are not wanted, and the policy would report them.
  const bare = html.replaceAll(/<style[\s\S]*?<\/style>/gi, '').replaceAll(/\sstyle="[^"]*"/gi, '');
  const doc = new DOMParser().parseFromString(bare, 'text/html');
  const tables = doc.querySelectorAll('table');
  const table = tables[0];
  if (tables.length !== 1 || !table.classList.contains('dataframe') || table.querySelector('[colspan],[rowspan]')) return null;
  const heads = [...table.querySelectorAll('thead tr')];
  if (heads.length === 0 || heads.length > 2) return null;
  const cells = (row: Element) => [...row.children].map((c) => c.textContent ?? '');
  const columns = cells(heads[0]);
  if (heads[1]) cells(heads[1]).forEach((name, i) => { if (name) columns[i] = columns[i] ? `${columns[i]} / ${name}` : name; });
  const body = [...table.querySelectorAll('tbody tr')];
  const rows = body.map(cells).filter((row) => row.length === columns.length);
  if (rows.length !== body.length) return null;
  const note = doc.querySelector('p')?.textContent ?? null;
  return { columns, rows: rows.filter((row) => !row.every((c) => c === '...')), heads: body[0]?.querySelectorAll('th').length ?? 0, total: null, note };
}

const number = (value: string): number => (value.trim() === '' ? NaN : Number(value.replaceAll(',', '')));
const ROW = 28;

export function GridView({ grid, label }: { grid: Grid; label: string }): ReactElement {
  const [order, setOrder] = useState<{ column: number; down: boolean } | null>(null);
  const numeric = useMemo(() => grid.columns.map((_, c) => grid.rows.length > 0 && grid.rows.every((row) => row[c] === '' || row[c] === 'NaN' || row[c] === '...' || !Number.isNaN(number(row[c])))), [grid]);
  const rows = useMemo(() => {
    if (!order) return grid.rows;
    const { column, down } = order;
    const by = numeric[column]
      ? (a: string[], b: string[]) => { const x = number(a[column]); const y = number(b[column]); return Number.isNaN(x) ? 1 : Number.isNaN(y) ? -1 : down ? y - x : x - y; }
      : (a: string[], b: string[]) => (down ? -1 : 1) * a[column].localeCompare(b[column], undefined, { numeric: true });
    return [...grid.rows].sort(by);
  }, [grid, order, numeric]);
  const widths = useMemo(() => grid.columns.map((name, c) => Math.min(36, Math.max(name.length + 2, ...grid.rows.slice(0, 200).map((row) => row[c]?.length ?? 0), 4))), [grid]);
  const template = widths.map((w) => `${w + 2}ch`).join(' ');
  const sort = (column: number) => setOrder(order?.column === column ? (order.down ? null : { column, down: true }) : { column, down: false });
  return (
    <div className="grid-view">
      <div className="grid-scroll" role="region" aria-label={label} tabIndex={0}>
        <div role="table" aria-label={label} aria-rowcount={rows.length + 1} aria-colcount={grid.columns.length} className="grid-table">
          <div role="rowgroup"><div role="row" className="grid-row grid-head" style={{ gridTemplateColumns: template }}>
            {grid.columns.map((name, c) => <span key={c} role="columnheader" className={numeric[c] ? 'num' : ''} aria-sort={order?.column === c ? (order.down ? 'descending' : 'ascending') : 'none'}>
              <button type="button" onClick={() => sort(c)} title="Sort by this column">{name || <span className="visually-hidden">index</span>}<span aria-hidden="true">{order?.column === c ? (order.down ? ' ↓' : ' ↑') : name ? '' : '#'}</span></button></span>)}
          </div></div>
          <VirtualList fit className="grid-rows" role="rowgroup" label={`${label}, rows`} count={rows.length} rowHeight={ROW} height={ROW * 12} row={(i) => (
            <div role="row" className="grid-row" aria-rowindex={i + 2} style={{ gridTemplateColumns: template }}>
              {rows[i].map((value, c) => c < grid.heads ? <span key={c} role="rowheader" className={`truncate ${numeric[c] ? 'num' : ''}`} title={value}>{value}</span>
                : <span key={c} role="cell" className={`truncate ${numeric[c] ? 'num' : ''}`} title={value}><bdi>{value}</bdi></span>)}
            </div>
          )} />
        </div>
      </div>
      {grid.note && <p className="small muted">{grid.note}</p>}
    </div>
  );
}

// --- one bundle ------------------------------------------------------------------

const Foreignness = memo(({ content, title, maxHeight }: { content: Foreign; title: string; maxHeight?: number }): ReactElement => <Frame content={content} title={title} maxHeight={maxHeight} />);

export const BundleView = memo(({ data, label }: { data: Bundle; label: string }): ReactElement => {
  const foreign = useMemo((): Foreign | null => {
    if (data['application/vnd.plotly.v1+json']) return { kind: 'plotly', figure: data['application/vnd.plotly.v1+json'] };
    if (typeof data['text/html'] === 'string') return { kind: 'html', html: data['text/html'] };
    if (typeof data['image/svg+xml'] === 'string') return { kind: 'svg', svg: data['image/svg+xml'] };
    return null;
  }, [data]);
  const grid = useMemo(() => gridOfTable(data['application/vnd.glovebox.table+json']) ?? (typeof data['text/html'] === 'string' ? gridOfHtml(data['text/html']) : null), [data]);
  const caption = text(data['text/plain']).slice(0, 200);
  if (foreign?.kind === 'plotly') return <Foreignness content={foreign} title={`${label}: interactive figure`} maxHeight={1600} />;
  if (grid) return <GridView grid={grid} label={`${label}: table`} />;
  if (foreign?.kind === 'html') return <Foreignness content={foreign} title={`${label}: page`} />;
  if (typeof data['text/latex'] === 'string') {
    const formula = wholeFormula(data['text/latex']);
    return formula !== null ? <Formula tex={formula} display /> : <Markdown text={data['text/latex']} />;
  }
  const picture = pictures.find((mime) => isBase64(data[mime]));
  if (foreign?.kind === 'svg' && !picture) return <Foreignness content={foreign} title={`${label}: drawing`} maxHeight={1200} />;
  if (picture) return <Picture mime={picture} base64={data[picture] as string} alt={caption || 'picture'} />;
  if (typeof data['text/markdown'] === 'string') return <Markdown text={data['text/markdown']} />;
  if (data['application/json'] !== undefined) return <Code text={JSON.stringify(data['application/json'], null, 2)} language="json" label={`${label}: JSON`} />;
  const sound = Object.keys(data).find((mime) => /^(audio|video)\//.test(mime) && isBase64(data[mime]));
  if (sound) return <MediaView mime={sound} base64={data[sound] as string} label={label} />;
  return <Ansi text={text(data['text/plain'])} label={label} />;
});

export const bytesOf = (base64: string): Uint8Array<ArrayBuffer> => Uint8Array.from(atob(base64.replaceAll(/\s/g, '')), (c) => c.charCodeAt(0));

function Picture({ mime, base64, alt }: { mime: string; base64: string; alt: string }): ReactElement {
  return (
    <figure className="output-picture">
      <img src={`data:${mime};base64,${base64.replaceAll(/\s/g, '')}`} alt={alt} />
      <Button compact kind="plain" icon="download" label="Download the picture" onClick={() => saveBlob(new Blob([bytesOf(base64)], { type: mime }), `picture.${mime.split('/')[1]}`)} />
    </figure>
  );
}

function MediaView({ mime, base64, label }: { mime: string; base64: string; label: string }): ReactElement {
  const url = useMemo(() => URL.createObjectURL(new Blob([bytesOf(base64)], { type: mime })), [mime, base64]);
  return mime.startsWith('audio/') ? <audio controls src={url} aria-label={label} /> : <video controls src={url} aria-label={label} />;
}

// --- errors ----------------------------------------------------------------------

// The line of this cell that failed, from the traceback's arrows: the deepest
// one that is not of another cell or of a library.
export function failingLine(traceback: string[]): { line: number; code: string } | null {
  let cell: string | null = null;
  let inside = false;
  let found: { line: number; code: string } | null = null;
  for (const row of traceback.map(plain).join('\n').split('\n')) {
    const head = /^(?:Cell|Input) In ?\[(\d+)\]/.exec(row);
    if (head) {
      cell ??= head[1];
      inside = head[1] === cell;
    } else if (row.startsWith('File ')) {
      inside = false;
    }
    const arrow = inside ? /^-+> ?(\d+)(.*)$/.exec(row) : null;
    if (arrow) found = { line: Number(arrow[1]), code: arrow[2].trim() };
  }
  return found;
}

export const ErrorView = memo(({ error }: { error: ExecutionError }): ReactElement => {
  const failing = useMemo(() => failingLine(error.traceback ?? []), [error]);
  const full = (error.traceback ?? []).join('\n');
  return (
    <div className="output-error" role="group" aria-label="Error">
      <p><strong>{error.name}</strong>{error.message && ': '}<bdi>{plain(error.message)}</bdi></p>
      {failing && <p className="output-failing"><span className="small muted">line {failing.line}</span> <code>{failing.code}</code></p>}
      {full && <details><summary className="small">Traceback</summary><Ansi text={full} label="Traceback" /></details>}
    </div>
  );
});

// --- all of them -----------------------------------------------------------------

const StreamView = memo(({ output, label, follow }: { output: Extract<Output, { type: 'stream' }>; label: string; follow: boolean }): ReactElement => {
  const lines = useMemo(() => {
    const all = output.screen.lines.slice();
    if (all.length > 1 && all.at(-1)!.length === 0) all.pop();
    return all;
  }, [output]);
  return <div className={`output-stream ${output.name}`}><Ansi lines={lines} label={`${label}, ${output.name}`} follow={follow} /></div>;
});

export function Outputs({ outputs, label, live = false }: { outputs: Output[]; label: string; live?: boolean }): ReactElement {
  return <>{outputs.map((output, i) => {
    switch (output.type) {
      case 'stream': return <StreamView key={i} output={output} label={label} follow={live} />;
      case 'error': return <ErrorView key={i} error={output.error} />;
      default: return <div key={i} className={`output-${output.type}`}><BundleView data={output.data} label={label} /></div>;
    }
  })}</>;
}
