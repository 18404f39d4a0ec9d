// SPDX-License-Identifier: Apache-2.0
// Two texts compared line by line.
import { useMemo, type ReactElement } from 'react';
import { visible } from './basic';

export interface DiffLine { kind: 'same' | 'added' | 'removed'; text: string; before: number | null; after: number | null }

const MOST_CELLS = 4_000_000; // of the table below; beyond: all removed, all added

// The longest common subsequence, after equal beginnings and ends are set aside.
export function diffLines(a: string, b: string): DiffLine[] {
  const split = (text: string) => (text === '' ? [] : text.replace(/\n$/, '').split('\n'));
  const [old, now] = [split(a), split(b)];
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start++;
  let end = 0;
  while (end < old.length - start && end < now.length - start && old[old.length - 1 - end] === now[now.length - 1 - end]) end++;
  const [x, y] = [old.slice(start, old.length - end), now.slice(start, now.length - end)];
  const out: DiffLine[] = [];
  const same = (i: number, j: number) => out.push({ kind: 'same', text: old[i], before: i + 1, after: j + 1 });
  const removed = (i: number) => out.push({ kind: 'removed', text: old[i], before: i + 1, after: null });
  const added = (j: number) => out.push({ kind: 'added', text: now[j], before: null, after: j + 1 });
  for (let i = 0; i < start; i++) same(i, i);
  if (x.length * y.length > MOST_CELLS) {
    x.forEach((_, i) => removed(start + i));
    y.forEach((_, j) => added(start + j));
  } else {
    const width = y.length + 1;
    const table = new Uint32Array((x.length + 1) * width);
    for (let i = x.length - 1; i >= 0; i--)
      for (let j = y.length - 1; j >= 0; j--)
        table[i * width + j] = x[i] === y[j] ? table[(i + 1) * width + j + 1] + 1 : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
    let [i, j] = [0, 0];
    while (i < x.length || j < y.length) {
      if (i < x.length && j < y.length && x[i] === y[j]) same(start + i++, start + j++);
      else if (j >= y.length || (i < x.length && table[(i + 1) * width + j] >= table[i * width + j + 1])) removed(start + i++);
      else added(start + j++);
    }
  }
  for (let k = end; k > 0; k--) same(old.length - k, now.length - k);
  return out;
}

const AROUND = 3;

// The changed lines with three lines around them.
export function LineDiff({ before, after, label }: { before: string; after: string; label: string }): ReactElement {
  const lines = useMemo(() => diffLines(before, after), [before, after]);
  const near = useMemo(() => {
    const keep = new Set<number>();
    lines.forEach((line, i) => {
      if (line.kind === 'same') return;
      for (let k = i - AROUND; k <= i + AROUND; k++) keep.add(k);
    });
    return keep;
  }, [lines]);
  if (!near.size) return <p className="muted">No difference.</p>;
  const rows: ReactElement[] = [];
  let left = 0;
  const gap = (key: string) => {
    if (left) rows.push(<div key={key} className="diff-gap">{left} equal {left === 1 ? 'line' : 'lines'}</div>);
    left = 0;
  };
  lines.forEach((line, i) => {
    if (!near.has(i)) {
      left++;
      return;
    }
    gap(`gap-${i}`);
    rows.push(
      <div key={i} className={`diff-line ${line.kind}`}>
        <span className="at">{line.before}</span><span className="at">{line.after}</span>
        <span>{line.kind === 'added' ? '+' : line.kind === 'removed' ? '−' : ''}<span className="visually-hidden">{line.kind === 'same' ? '' : line.kind}</span></span>
        <span>{visible(line.text)}</span>
      </div>);
  });
  gap('gap-end');
  return <div className="diff" role="region" aria-label={label} tabIndex={0}>{rows}</div>;
}
