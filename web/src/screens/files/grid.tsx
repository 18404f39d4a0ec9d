// SPDX-License-Identifier: Apache-2.0
// A table of any number of rows, drawn as it is scrolled. Cells are text.
import { useEffect, useMemo, useRef, useState, type ReactElement } from 'react';
import { visible } from '../../ui/basic';

export interface GridSource {
  columns: { name: string; type?: string }[];
  sample: (string | null)[][]; // for the widths
  total: number;
  exact: boolean;
  row: (i: number) => { cells: (string | null)[] | null; sure: boolean };
}

const ROW = 27;
const TALLEST = 8_000_000; // px: browsers draw nothing beyond some 16 million
const CELL = 300; // characters

const cellText = (value: string | null): string => (value === null ? '' : visible(value.length > CELL ? `${value.slice(0, CELL)}…` : value).replace(/\u2423a/g, '⏎'));
const numeric = (value: string | null): boolean => value === null || value === '' || /^[-+]?[\d.,]+(e[-+]?\d+)?%?$/i.test(value);

export function Grid({ source, label, turn, height = 'min(34rem, 70vh)' }: { source: GridSource; label: string; turn: number; height?: string }): ReactElement {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [jump, setJump] = useState('');
  const { columns, total } = source;
  const widths = useMemo(() => columns.map((c, k) => {
    const longest = Math.max(c.name.length + 1, ...source.sample.map((r) => cellText(r[k] ?? '').length));
    return Math.min(360, Math.max(64, longest * 7.6 + 26));
  }), [source.columns]);
  const right = useMemo(() => columns.map((_, k) => source.sample.length > 0 && source.sample.every((r) => numeric(r[k] ?? '')) && source.sample.some((r) => r[k])), [source.columns]);
  const digits = Math.max(3, String(total).length) + 1;
  const numberWidth = digits * 9 + 20;
  const width = widths.reduce((a, b) => a + b, numberWidth);

  // Past the tallest page, a pixel of the scroll bar stands for more than one.
  const real = total * ROW;
  const room = Math.min(real, TALLEST);
  const scale = real > room ? (real - view.height) / Math.max(1, room - view.height) : 1;
  const top = view.top * scale;
  const first = Math.max(0, Math.floor(top / ROW) - 8);
  const last = Math.min(total, Math.ceil((top + view.height) / ROW) + 8);
  const offset = view.top - top;

  const measure = () => {
    const el = box.current;
    if (el) setView((old) => (old.top === el.scrollTop && old.height === el.clientHeight ? old : { top: el.scrollTop, height: el.clientHeight }));
  };
  useEffect(() => {
    const observer = new ResizeObserver(measure);
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  const toRow = (n: number) => {
    const el = box.current;
    if (el) el.scrollTop = Math.min(room, (Math.max(0, Math.min(total - 1, n - 1)) * ROW) / scale);
  };

  const rows: ReactElement[] = [];
  void turn;
  for (let i = first; i < last; i++) {
    const { cells, sure } = source.row(i);
    rows.push(
      <div key={i} role="row" aria-rowindex={i + 2} className={`files-grid-row ${i % 2 ? 'odd' : ''}`} style={{ top: i * ROW + offset + ROW, height: ROW }}>
        <div role="rowheader" className="files-grid-number" style={{ width: numberWidth }}>{sure ? '' : '≈ '}{(i + 1).toLocaleString()}</div>
        {columns.map((_, k) => {
          const value = cells ? cells[k] ?? '' : null;
          return <div key={k} role="cell" dir="auto" className={`files-grid-cell ${right[k] ? 'num' : ''} ${cells && cells[k] === null ? 'none' : ''}`} style={{ width: widths[k] }} title={value && value.length > 30 ? value.slice(0, 2000) : undefined}>{cells ? (cells[k] === null ? 'null' : cellText(value)) : '…'}</div>;
        })}
      </div>,
    );
  }
  return (
    <div className="stack tight">
      <div className="row spread small">
        <span className="muted" role="status">{source.exact ? '' : 'About '}{total.toLocaleString()} {total === 1 ? 'row' : 'rows'}, {columns.length.toLocaleString()} {columns.length === 1 ? 'column' : 'columns'}</span>
        {total > 100 && <form className="row" onSubmit={(e) => {
          e.preventDefault();
          const n = Number.parseInt(jump.replace(/\D/g, ''), 10);
          if (n > 0) toRow(n);
        }}><label className="row">Go to row <input className="input files-jump" inputMode="numeric" value={jump} onChange={(e) => setJump(e.target.value)} /></label></form>}
      </div>
      <div ref={box} className="files-grid" style={{ height: `min(${height}, ${(total + 1) * ROW + 18}px)` }} onScroll={measure} tabIndex={0} role="region" aria-label={label}>
        <div role="table" aria-label={label} aria-rowcount={source.exact ? total + 1 : -1} aria-colcount={columns.length + 1} className="files-grid-room" style={{ width, height: room + ROW }}>
          <div role="rowgroup" className="files-grid-top">
            <div role="row" aria-rowindex={1} className="files-grid-head" style={{ height: ROW, width }}>
              <div role="columnheader" className="files-grid-number" style={{ width: numberWidth }}><span className="visually-hidden">Row</span></div>
              {columns.map((c, k) => <div key={k} role="columnheader" dir="auto" className={`files-grid-cell ${right[k] ? 'num' : ''}`} style={{ width: widths[k] }} title={c.type ? `${visible(c.name)}: ${c.type}` : visible(c.name)}>{cellText(c.name) || <span className="muted">{k + 1}</span>}</div>)}
            </div>
          </div>
          <div role="rowgroup">{rows}</div>
        </div>
      </div>
    </div>
  );
}
