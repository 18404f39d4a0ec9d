// SPDX-License-Identifier: Apache-2.0
// A text file: numbered lines with colours, one of them marked. Long files are
// drawn as they are scrolled, and read as they are needed.
import { useEffect, useMemo, useState, type ReactElement } from 'react';
import type { FileInfo } from '../../api/types';
import { ActionButton, Loading, Problem, sizeText } from '../../ui/basic';
import type { Highlighted } from '../../ui/highlight';
import { toastError } from '../../ui/overlay';
import { VirtualList } from '../../ui/table';
import { languageOf } from '../../ui/text';
import { bytesOf } from './model';

const STEP = 512 * 1024; // bytes read at once
const MOST = 16 * 1024 * 1024; // bytes shown; larger files are for downloading
const COLOURED = 300_000; // characters
const LONGEST = 5000; // characters of a line that are drawn
const LINE = 20;

// How many line breaks come before the wanted line is complete.
async function readText(file: FileInfo, from: number, line: number, signal?: AbortSignal): Promise<{ bytes: Uint8Array; next: number }> {
  const parts: Uint8Array[] = [];
  let at = from;
  let lines = 0;
  do {
    const part = await bytesOf(file, at, Math.min(file.size, at + STEP), signal);
    if (!part.length) break;
    parts.push(part);
    at += part.length;
    for (const byte of part) if (byte === 10) lines++;
  } while (lines < line && at < file.size && at < MOST);
  const bytes = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let to = 0;
  for (const part of parts) {
    bytes.set(part, to);
    to += part.length;
  }
  return { bytes, next: at };
}

export function CodeView({ file, line }: { file: FileInfo; line: number | null }): ReactElement {
  const [bytes, setBytes] = useState<Uint8Array | null>(null);
  const [next, setNext] = useState(0);
  const [error, setError] = useState<unknown>(null);
  const [colours, setColours] = useState<{ text: string; lines: Highlighted } | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    setBytes(null);
    setError(null);
    if (file.size === 0) {
      setBytes(new Uint8Array());
      return undefined;
    }
    readText(file, 0, line ?? 0, abort.signal).then((read) => {
      setBytes(read.bytes);
      setNext(read.next);
    }, (problem: unknown) => { if (!abort.signal.aborted) setError(problem); });
    return () => abort.abort();
  }, [file.version, line]);
  const text = useMemo(() => (bytes ? new TextDecoder().decode(bytes) : ''), [bytes]);
  const lines = useMemo(() => {
    const all = text.split('\n');
    if (all.length > 1 && all.at(-1) === '') all.pop();
    return all;
  }, [text]);
  const language = languageOf(file.path);
  useEffect(() => {
    if (!text || language === 'text' || text.length > COLOURED) return undefined;
    let alive = true;
    void import('../../ui/highlight').then((m) => m.highlight(text, language)).then((done) => { if (alive) setColours({ text, lines: done }); }, () => {});
    return () => { alive = false; };
  }, [text, language]);
  if (error) return <Problem error={error} />;
  if (!bytes) return <Loading what="Reading the text" />;
  if (!file.size) return <p className="muted">The file is empty.</p>;
  const coloured = colours?.text === text ? colours.lines : null;
  const digits = String(lines.length).length;
  return (
    <div className="stack tight">
      <VirtualList className="code files-code" count={lines.length} rowHeight={LINE} height={640} role="none" label={`Text of ${file.path}`} scrollTo={line && line <= lines.length ? line - 1 : null} row={(i) => {
        const pieces = coloured?.[i];
        return (
          <span className={`files-line ${line === i + 1 ? 'marked' : ''}`} aria-current={line === i + 1 ? 'location' : undefined}>
            <span className="files-line-number" aria-hidden="true" style={{ width: `${digits + 1}ch` }}>{i + 1}</span>
            {pieces && lines[i].length < LONGEST ? pieces.map((p, k) => (p.classes ? <span key={k} className={p.classes}>{p.text}</span> : p.text))
              : lines[i].length > LONGEST ? `${lines[i].slice(0, LONGEST)}… (${lines[i].length.toLocaleString()} characters)` : lines[i].replace(/\r$/, '')}
          </span>
        );
      }} />
      <div className="row spread small muted">
        <span>{lines.length.toLocaleString()} {lines.length === 1 ? 'line' : 'lines'}{next < file.size && `, the first ${sizeText(next)} of ${sizeText(file.size)}`}</span>
        {next < file.size && (next < MOST ? <ActionButton compact onError={toastError} action={async () => {
          const more = await readText(file, next, 0);
          const joined = new Uint8Array(bytes.length + more.bytes.length);
          joined.set(bytes);
          joined.set(more.bytes, bytes.length);
          setBytes(joined);
          setNext(more.next);
        }}>Show more</ActionButton> : <span>Download the file to see the rest.</span>)}
      </div>
    </div>
  );
}
