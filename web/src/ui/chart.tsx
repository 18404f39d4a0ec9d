// SPDX-License-Identifier: Apache-2.0
// Small charts of the service's own figures, drawn as SVG. Charts of sessions
// are foreign content and go into a Frame.
import type { ReactElement } from 'react';

export interface Series { name: string; points: { at: number; value: number }[] }

const W = 640;
const H = 200;
const LEFT = 56;
const BOTTOM = 24;

export function LineChart({ series, label, format = String, formatX = (at) => new Date(at).toLocaleString() }: { series: Series[]; label: string; format?: (value: number) => string; formatX?: (at: number) => string }): ReactElement {
  const all = series.flatMap((s) => s.points);
  if (!all.length) return <p className="muted small">No figures yet.</p>;
  const x0 = Math.min(...all.map((p) => p.at));
  const x1 = Math.max(...all.map((p) => p.at), x0 + 1);
  const top = Math.max(...all.map((p) => p.value), 1e-9);
  const x = (at: number) => LEFT + ((at - x0) / (x1 - x0)) * (W - LEFT - 8);
  const y = (value: number) => 8 + (1 - value / top) * (H - BOTTOM - 8);
  return (
    <figure style={{ margin: 0 }}>
      <svg className="chart" viewBox={`0 0 ${W} ${H}`} role="img" aria-label={`${label}. Highest value ${format(top)}.`}>
        {[0, 0.5, 1].map((part) => <g key={part}><line className="axis" x1={LEFT} x2={W - 8} y1={y(top * part)} y2={y(top * part)} /><text x={LEFT - 6} y={y(top * part) + 4} textAnchor="end">{format(top * part)}</text></g>)}
        <text x={LEFT} y={H - 6}>{formatX(x0)}</text><text x={W - 8} y={H - 6} textAnchor="end">{formatX(x1)}</text>
        {series.map((s, i) => <polyline key={s.name} fill="none" stroke={`var(--series-${(i % 6) + 1})`} strokeWidth="2" points={s.points.map((p) => `${x(p.at)},${y(p.value)}`).join(' ')} />)}
      </svg>
      {series.length > 1 && <figcaption className="row small">{series.map((s, i) => <span key={s.name} className="row"><span aria-hidden="true" style={{ width: 12, height: 3, background: `var(--series-${(i % 6) + 1})` }} /><bdi>{s.name}</bdi></span>)}</figcaption>}
    </figure>
  );
}

export function BarList({ rows, label, format = String }: { rows: { name: string; value: number; href?: string }[]; label: string; format?: (value: number) => string }): ReactElement {
  const top = Math.max(...rows.map((r) => r.value), 1e-9);
  return (
    <ul className="bars" aria-label={label}>
      {rows.map((r, i) => <li key={i}><span className="row spread"><bdi className="truncate">{r.href ? <a href={r.href}>{r.name}</a> : r.name}</bdi><span className="num">{format(r.value)}</span></span><span className="meter" aria-hidden="true"><span style={{ width: `${(r.value / top) * 100}%` }} /></span></li>)}
    </ul>
  );
}
