// SPDX-License-Identifier: Apache-2.0
// Tables that sort, and lists that draw only what is in view.
import { useEffect, useMemo, useRef, useState, type ReactElement, type ReactNode } from 'react';

export interface Column<Row> {
  id: string;
  label: string;
  cell: (row: Row) => ReactNode;
  // Makes the column sortable.
  sort?: (row: Row) => string | number | null | undefined;
  num?: boolean;
}

export type Order = { id: string; down: boolean };

function compare(a: string | number | null | undefined, b: string | number | null | undefined): number {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
}

export function Table<Row>({ label, columns, rows, rowKey, first, empty, chosen }: { label: string; columns: Column<Row>[]; rows: Row[]; rowKey: (row: Row) => string; first?: Order; empty?: ReactNode; chosen?: (row: Row) => boolean }): ReactElement {
  const [order, setOrder] = useState<Order | null>(first ?? null);
  const sorted = useMemo(() => {
    const by = order && columns.find((c) => c.id === order.id)?.sort;
    if (!by) return rows;
    const out = [...rows].sort((a, b) => compare(by(a), by(b)));
    return order.down ? out.reverse() : out;
  }, [rows, order, columns]);
  if (!rows.length && empty) return <>{empty}</>;
  return (
    <div className="table-box" role="region" aria-label={label} tabIndex={0}>
      <table className="table">
        <caption className="visually-hidden">{label}</caption>
        <thead><tr>{columns.map((c) => (
          <th key={c.id} scope="col" className={c.num ? 'num' : ''} aria-sort={order?.id === c.id ? (order.down ? 'descending' : 'ascending') : undefined}>
            {c.sort ? <button type="button" className="sort" onClick={() => setOrder(order?.id === c.id ? { id: c.id, down: !order.down } : { id: c.id, down: false })}>
              {c.label}{order?.id === c.id && <span aria-hidden="true">{order.down ? '↓' : '↑'}</span>}
            </button> : c.label}
          </th>
        ))}</tr></thead>
        <tbody>{sorted.map((row) => <tr key={rowKey(row)} className={chosen?.(row) ? 'chosen' : ''}>{columns.map((c) => <td key={c.id} className={c.num ? 'num' : ''}>{c.cell(row)}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}

// Rows of one height; any number of them. Only those in view are in the page.
export function VirtualList({ count, rowHeight, height, row, label, role = 'list', fit, className, follow, onEnd, scrollTo }: {
  count: number; rowHeight: number; height: number | string; row: (index: number) => ReactNode; label: string; role?: string; fit?: boolean; className?: string;
  follow?: boolean; // stay at the end while rows are added, unless scrolled away
  onEnd?: () => void; // the last rows are in view
  scrollTo?: number | null; // bring this row into view when it changes
}): ReactElement {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ from: 0, to: 60 });
  const atEnd = useRef(true);
  const measure = () => {
    const el = box.current;
    if (!el) return;
    atEnd.current = el.scrollTop + el.clientHeight >= el.scrollHeight - rowHeight * 2;
    const from = Math.max(0, Math.floor(el.scrollTop / rowHeight) - 20);
    const to = Math.min(count, Math.ceil((el.scrollTop + el.clientHeight) / rowHeight) + 20);
    setView((old) => (old.from === from && old.to === to ? old : { from, to }));
    if (to >= count && count > 0) onEnd?.();
  };
  useEffect(() => {
    if (follow && atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
    measure();
  }, [count, rowHeight, height]);
  useEffect(() => {
    const el = box.current;
    if (!el || scrollTo === null || scrollTo === undefined) return;
    const top = scrollTo * rowHeight;
    if (top < el.scrollTop || top + rowHeight > el.scrollTop + el.clientHeight) el.scrollTop = Math.max(0, top - el.clientHeight / 3);
  }, [scrollTo, rowHeight]);
  useEffect(() => {
    const observer = new ResizeObserver(measure);
    observer.observe(box.current!);
    return () => observer.disconnect();
  });
  const rows: ReactElement[] = [];
  const group = role === 'rowgroup'; // of a table: rows are its children
  const child = role === 'list' ? 'listitem' : group ? 'none' : undefined;
  const counted = role === 'list';
  for (let i = view.from; i < Math.min(view.to, count); i++)
    rows.push(<div key={i} className="virtual-row" role={child} aria-setsize={counted ? count : undefined} aria-posinset={counted ? i + 1 : undefined} style={{ top: i * rowHeight, height: rowHeight }}>{row(i)}</div>);
  return (
    <div ref={box} className={`virtual ${fit ? 'fit' : ''} ${className ?? ''}`} style={{ height: typeof height === 'number' ? Math.min(height, count * rowHeight + (fit ? 0 : 16)) : height }} onScroll={measure} tabIndex={0} role={group ? 'rowgroup' : 'region'} aria-label={label}>
      <div className="virtual-room" role={group ? 'none' : role === 'none' ? undefined : role} aria-label={group || role === 'none' ? undefined : label} style={{ height: count * rowHeight }}>{rows}</div>
    </div>
  );
}
