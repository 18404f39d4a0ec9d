// SPDX-License-Identifier: Apache-2.0
// Text as text: terminal output of any length, code with colours, Markdown
// without any HTML of its author.
import { Fragment, memo, useEffect, useMemo, useState, type ReactElement, type ReactNode } from 'react';
import { ansiLines, type Line, type Style } from './ansi';
import type { Highlighted } from './highlight';
import { VirtualList } from './table';

// --- terminal text -----------------------------------------------------------

function pieceProps(style: Style): { className: string; style?: { color?: string; background?: string } } {
  const names = (['bold', 'dim', 'italic', 'underline', 'strike', 'inverse'] as const).filter((name) => style[name]).map((name) => `ansi-${name}`);
  if (typeof style.fg === 'number') names.push(`ansi-fg-${style.fg}`);
  if (typeof style.bg === 'number') names.push(`ansi-bg-${style.bg}`);
  const colours = { ...(typeof style.fg === 'string' ? { color: style.fg } : {}), ...(typeof style.bg === 'string' ? { background: style.bg } : {}) };
  return { className: names.join(' '), style: colours };
}

const AnsiLine = memo(({ line }: { line: Line }): ReactElement => <>
  {line.map((piece, i) => piece.style ? <span key={i} {...pieceProps(piece.style)}>{piece.text}</span> : <Fragment key={i}>{piece.text}</Fragment>)}
</>);

const VIRTUAL_FROM = 400; // lines
const LINE_HEIGHT = 19;

// Output of a program. Long output is drawn as it is scrolled.
export function Ansi({ text, lines: given, label = 'Output', follow, height = 420 }: { text?: string; lines?: Line[]; label?: string; follow?: boolean; height?: number }): ReactElement {
  const lines = useMemo(() => given ?? ansiLines(text ?? ''), [given, text]);
  if (lines.length <= VIRTUAL_FROM)
    return <pre className="ansi" dir="auto">{lines.map((line, i) => <Fragment key={i}>{i > 0 && '\n'}<AnsiLine line={line} /></Fragment>)}</pre>;
  return <VirtualList className="ansi ansi-long" count={lines.length} rowHeight={LINE_HEIGHT} height={height} follow={follow} label={`${label}, ${lines.length.toLocaleString()} lines`}
    row={(i) => <span className="ansi-row"><AnsiLine line={lines[i]} /></span>} />;
}

// --- code --------------------------------------------------------------------

export type Language = 'python' | 'shell' | 'json' | 'yaml' | 'markdown' | 'javascript' | 'sql' | 'diff' | 'text';

// Code with colours; plain until the highlighter has arrived. marked: lines, from 1.
export function Code({ text, language = 'text', numbered, wrap, marked, label = 'Code' }: { text: string; language?: Language; numbered?: boolean; wrap?: boolean; marked?: number[]; label?: string }): ReactElement {
  const [done, setDone] = useState<{ text: string; language: Language; lines: Highlighted } | null>(null);
  useEffect(() => {
    if (language === 'text' || text.length > 400_000) return undefined;
    let alive = true;
    void import('./highlight').then((m) => m.highlight(text, language)).then((lines) => { if (alive) setDone({ text, language, lines }); }, () => {});
    return () => { alive = false; };
  }, [text, language]);
  const lines = done && done.text === text && done.language === language ? done.lines : null;
  const plain = useMemo(() => text.split('\n'), [text]);
  if (plain.length > 2000)
    return <VirtualList className="code" count={plain.length} rowHeight={20} height={560} label={label} row={(i) => <span className="line">{i + 1}  {plain[i]}</span>} />;
  return (
    <pre className={`code ${numbered ? 'numbered' : ''} ${wrap ? 'wrap' : ''}`} role="region" aria-label={label} tabIndex={0}>
      {(lines ?? plain).map((line, i) => (
        <span key={i} className={`line ${marked?.includes(i + 1) ? 'marked' : ''}`}>
          {typeof line === 'string' ? line : line.map((piece, k) => piece.classes ? <span key={k} className={piece.classes}>{piece.text}</span> : piece.text)}{'\n'}
        </span>
      ))}
    </pre>
  );
}

const endings: Record<string, Language> = { py: 'python', sh: 'shell', bash: 'shell', json: 'json', ipynb: 'json', yaml: 'yaml', yml: 'yaml', md: 'markdown', js: 'javascript', mjs: 'javascript', ts: 'javascript', sql: 'sql', diff: 'diff', patch: 'diff' };
export const languageOf = (name: string): Language => endings[name.split('.').pop()?.toLowerCase() ?? ''] ?? 'text';

// --- Markdown ----------------------------------------------------------------

// resolve: leads addresses of the screen's own kind to a place in the console.
export function Markdown({ text, resolve }: { text: string; resolve?: (href: string) => string | null }): ReactElement {
  const [render, setRender] = useState<((text: string, resolve?: (href: string) => string | null) => ReactNode) | null>(null);
  useEffect(() => {
    let alive = true;
    void import('./markdown').then((m) => { if (alive) setRender(() => m.renderMarkdown); });
    return () => { alive = false; };
  }, []);
  return <div className="markdown" dir="auto">{render ? render(text, resolve) : <pre>{text}</pre>}</div>;
}
