// SPDX-License-Identifier: Apache-2.0
// Figures over time: lines, an optional limit, and the same figures as a table.
import { useEffect, useId, useRef, useState, type ReactElement } from 'react';

export interface PlotSeries { name: string; values: (number | null)[] }

const HEIGHT = 170;
const LEFT = 64;
const BOTTOM = 22;
const TOP = 8;

const dayTime = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' });

// Three round values from 0 to at least `top`; of bytes, round in their unit.
function ticks(top: number, bytes: boolean): number[] {
  const unit = bytes ? 1024 ** Math.max(0, Math.floor(Math.log(top / 2) / Math.log(1024))) : 1;
  const raw = Math.max(1, top / 2 / unit);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw)! * unit;
  return [0, step, step * 2];
}

export function Plot({ title, times, series, format = (n) => n.toLocaleString(), limit, from, to, bytes = false }: {
  title: string; times: string[]; series: PlotSeries[]; format?: (value: number) => string;
  limit?: number | null; // drawn when the figures come near it
  bytes?: boolean; // the values are sizes
  from?: number; to?: number; // the span that is drawn; else that of the figures
}): ReactElement {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(480);
  const id = useId();
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.max(200, entry.contentRect.width)));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  const at = times.map((t) => new Date(t).getTime());
  const values = series.flatMap((s) => s.values.filter((v): v is number => v !== null));
  const most = Math.max(0, ...values);
  const near = limit && most > limit / 4 ? limit : 0;
  const marks = ticks(Math.max(most, near, 2), bytes);
  const top = marks.at(-1)!;
  const x0 = from ?? at[0] ?? 0;
  const x1 = Math.max(to ?? at.at(-1) ?? 1, x0 + 1);
  const x = (t: number) => LEFT + ((t - x0) / (x1 - x0)) * (width - LEFT - 4);
  const y = (v: number) => TOP + (1 - v / top) * (HEIGHT - BOTTOM - TOP);
  const dots = at.length < 3;
  return (
    <figure className="plot" aria-labelledby={id}>
      <figcaption id={id}><strong>{title}</strong></figcaption>
      <div ref={box}>
        {values.length === 0 ? <p className="muted small">No figures in this time.</p> : (
          <svg height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} role="img" aria-label={`${title}: highest ${format(most)}, last ${format(series[0].values.findLast((v) => v !== null) ?? 0)}`}>
            {marks.map((m) => <g key={m}><line className="axis" x1={LEFT} x2={width - 4} y1={y(m)} y2={y(m)} /><text x={LEFT - 8} y={y(m) + 4} textAnchor="end">{format(m)}</text></g>)}
            {near > 0 && <g><line className="limit" x1={LEFT} x2={width - 4} y1={y(near)} y2={y(near)} /><text x={width - 6} y={y(near) + 14} textAnchor="end">limit {format(near)}</text></g>}
            <text x={LEFT} y={HEIGHT - 5}>{dayTime.format(x0)}</text>
            <text x={width - 4} y={HEIGHT - 5} textAnchor="end">{dayTime.format(x1)}</text>
            {series.map((s, i) => {
              const points = s.values.flatMap((v, k) => (v === null ? [] : [`${x(at[k]).toFixed(1)},${y(v).toFixed(1)}`]));
              return <g key={s.name}>
                <polyline fill="none" stroke={`var(--series-${(i % 6) + 1})`} strokeWidth="2" strokeLinejoin="round" points={points.join(' ')} />
                {dots && points.map((p) => <circle key={p} cx={p.split(',')[0]} cy={p.split(',')[1]} r="3" fill={`var(--series-${(i % 6) + 1})`} />)}
              </g>;
            })}
          </svg>
        )}
      </div>
      {series.length > 1 && <div className="row small" aria-hidden="true">{series.map((s, i) => <span key={s.name} className="row"><span className="plot-key" style={{ background: `var(--series-${(i % 6) + 1})` }} />{s.name}</span>)}</div>}
      {values.length > 0 && <details>
        <summary>The figures of “{title}” as a table</summary>
        <div className="table-box" role="region" aria-label={`${title}, figures`} tabIndex={0}>
          <table className="table">
            <caption className="visually-hidden">{title}</caption>
            <thead><tr><th scope="col">Time</th>{series.map((s) => <th key={s.name} scope="col" className="num">{s.name}</th>)}</tr></thead>
            <tbody>{times.map((t, k) => <tr key={t}><th scope="row"><time dateTime={t} title={t}>{dayTime.format(at[k])}</time></th>{series.map((s) => <td key={s.name} className="num">{s.values[k] === null ? '–' : format(s.values[k]!)}</td>)}</tr>).reverse()}</tbody>
          </table>
        </div>
      </details>}
    </figure>
  );
}
