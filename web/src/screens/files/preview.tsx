// SPDX-License-Identifier: Apache-2.0
// What is in a file. Foreign pages, drawings and documents are shown in the
// sandboxed frame; tables in binary formats are read by the service in a
// session; everything else is text, or bytes that the browser only draws.
import { useEffect, useMemo, useState, type ReactElement, type ReactNode } from 'react';
import { api, ApiError, path } from '../../api/client';
import { useLoad } from '../../api/query';
import type { FileInfo } from '../../api/types';
import { Button, Empty, Field, Loading, Notice, Problem, sizeText } from '../../ui/basic';
import { Frame, type Foreign } from '../../ui/frame';
import { Markdown } from '../../ui/text';
import { CodeView } from './codeview';
import { CsvFile } from './csv';
import { Grid, type GridSource } from './grid';
import { baseName, bytesOf, ending, files } from './model';

export type Kind = 'image' | 'svg' | 'csv' | 'table' | 'pdf' | 'markdown' | 'html' | 'audio' | 'video' | 'text' | 'binary';

const pictures: Record<string, string> = { png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp', avif: 'image/avif', bmp: 'image/bmp', ico: 'image/x-icon' };
const sounds: Record<string, string> = { mp3: 'audio/mpeg', wav: 'audio/wav', ogg: 'audio/ogg', oga: 'audio/ogg', flac: 'audio/flac', m4a: 'audio/mp4', opus: 'audio/ogg' };
const films: Record<string, string> = { mp4: 'video/mp4', webm: 'video/webm', ogv: 'video/ogg', mov: 'video/quicktime', m4v: 'video/mp4' };
const tables = new Set(['parquet', 'pq', 'xlsx', 'xlsm']);
const texts = new Set(['txt', 'log', 'py', 'ipynb', 'json', 'jsonl', 'ndjson', 'yaml', 'yml', 'toml', 'ini', 'cfg', 'conf', 'sh', 'bash', 'sql', 'js', 'mjs', 'ts', 'tsx', 'jsx', 'css', 'c', 'h', 'cc', 'cpp', 'rs', 'go', 'java', 'rb', 'r', 'tex', 'xml', 'diff', 'patch', 'rst', 'env', 'gitignore', 'geojson', 'lock']);

export function kindOf(file: { path: string; mime_type: string }): Kind {
  const end = ending(file.path);
  const type = file.mime_type;
  if (pictures[end] || Object.values(pictures).includes(type)) return 'image';
  if (end === 'svg' || type === 'image/svg+xml') return 'svg';
  if (end === 'csv' || end === 'tsv' || type === 'text/csv' || type === 'text/tab-separated-values') return 'csv';
  if (tables.has(end)) return 'table';
  if (end === 'pdf' || type === 'application/pdf') return 'pdf';
  if (end === 'md' || end === 'markdown' || type === 'text/markdown') return 'markdown';
  if (end === 'html' || end === 'htm' || type === 'text/html') return 'html';
  if (sounds[end] || type.startsWith('audio/')) return 'audio';
  if (films[end] || type.startsWith('video/')) return 'video';
  if (texts.has(end) || type.startsWith('text/') || type.includes('json') || type.includes('xml') || type.includes('yaml')) return 'text';
  return 'binary';
}
export const mediaType = (file: { path: string; mime_type: string }): string => {
  const end = ending(file.path);
  const type = pictures[end] ?? sounds[end] ?? films[end] ?? file.mime_type;
  return /^(image\/(?!svg)|audio\/|video\/)/.test(type) ? type : 'application/octet-stream';
};

const MOST_MEDIA = 512 * 1024 * 1024;
const MOST_PAGE = 24 * 1024 * 1024;
const MOST_PDF = 96 * 1024 * 1024;

// The bytes as an address that only this page has. The type is never one that
// the browser would run.
export function useBlobUrl(file: { file_id: string; version: string; path: string; mime_type: string } | null): { url: string | null; error: unknown } {
  const [state, setState] = useState<{ url: string | null; error: unknown }>({ url: null, error: null });
  const key = file ? `${file.file_id} ${file.version}` : null;
  useEffect(() => {
    setState({ url: null, error: null });
    if (!file) return undefined;
    let url: string | null = null;
    let alive = true;
    api.blob(files.content(file.file_id, file.version)).then((blob) => {
      if (!alive) return;
      url = URL.createObjectURL(new Blob([blob], { type: mediaType(file) }));
      setState({ url, error: null });
    }, (error: unknown) => { if (alive) setState({ url: null, error }); });
    return () => {
      alive = false;
      if (url) URL.revokeObjectURL(url);
    };
  }, [key]);
  return state;
}

function useText(file: FileInfo, most: number): { text: string | null; error: unknown } {
  const { data, error } = useLoad<string>(file.size <= most ? `text ${file.file_id} ${file.version}` : null, async (signal) =>
    (file.size ? new TextDecoder().decode(await bytesOf(file, 0, file.size, signal)) : ''));
  return { text: data ?? null, error };
}

const TooLarge = ({ file, most }: { file: FileInfo; most: number }): ReactElement =>
  <Empty title="Too large to show here">The file has {sizeText(file.size)}. Files of this kind are shown up to {sizeText(most)}. Download it, or open it with code in a notebook.</Empty>;

function Picture({ file }: { file: FileInfo }): ReactElement {
  const { url, error } = useBlobUrl(file);
  const [size, setSize] = useState('');
  const [broken, setBroken] = useState(false);
  if (error) return <Problem error={error} />;
  if (!url) return <Loading what="Reading the picture" />;
  if (broken) return <Notice tone="warn"><p>The browser cannot show this picture: the file is damaged or of another kind than its name says.</p></Notice>;
  return <figure className="files-picture">
    <img src={url} alt={`Picture ${baseName(file.path)}`} onError={() => setBroken(true)} onLoad={(e) => setSize(`${e.currentTarget.naturalWidth} × ${e.currentTarget.naturalHeight} pixels`)} />
    <figcaption className="small muted">{size}</figcaption>
  </figure>;
}

function Media({ file, kind }: { file: FileInfo; kind: 'audio' | 'video' }): ReactElement {
  const { url, error } = useBlobUrl(file.size <= MOST_MEDIA ? file : null);
  if (file.size > MOST_MEDIA) return <TooLarge file={file} most={MOST_MEDIA} />;
  if (error) return <Problem error={error} />;
  if (!url) return <Loading what="Reading the recording" />;
  return kind === 'audio' ? <audio className="files-media" controls src={url} aria-label={`Recording ${baseName(file.path)}`} />
    : <video className="files-media" controls src={url} aria-label={`Film ${baseName(file.path)}`} />;
}

function Svg({ file }: { file: FileInfo }): ReactElement {
  const { text, error } = useText(file, MOST_PAGE);
  const content = useMemo<Foreign | null>(() => (text === null ? null : { kind: 'svg', svg: text }), [text]);
  if (file.size > MOST_PAGE) return <TooLarge file={file} most={MOST_PAGE} />;
  if (error) return <Problem error={error} />;
  return content ? <Frame content={content} title={`Drawing ${baseName(file.path)}`} minHeight={120} paper /> : <Loading />;
}

function Html({ file }: { file: FileInfo }): ReactElement {
  const { text, error } = useText(file, MOST_PAGE);
  const content = useMemo<Foreign | null>(() => (text === null ? null : { kind: 'html', html: text }), [text]);
  if (file.size > MOST_PAGE) return <TooLarge file={file} most={MOST_PAGE} />;
  if (error) return <Problem error={error} />;
  return content ? <Frame content={content} title={`Page ${baseName(file.path)}`} fixed={640} paper /> : <Loading />;
}

function Text({ file }: { file: FileInfo }): ReactElement {
  const { text, error } = useText(file, MOST_PAGE);
  if (file.size > MOST_PAGE) return <TooLarge file={file} most={MOST_PAGE} />;
  if (error) return <Problem error={error} />;
  return text === null ? <Loading /> : <div className="panel"><Markdown text={text} /></div>;
}

// The document is drawn by pdf.js inside the sandboxed frame.
function Pdf({ file, page }: { file: FileInfo; page: number | null }): ReactElement {
  const [content, setContent] = useState<Foreign | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    if (file.size > MOST_PDF) return undefined;
    let alive = true;
    setContent(null);
    Promise.all([import('./pdf'), bytesOf(file, 0, file.size)])
      .then(([m, bytes]) => { if (alive) setContent({ kind: 'html', html: m.pdfPage(bytes, page ?? 1) }); }, (problem: unknown) => { if (alive) setError(problem); });
    return () => { alive = false; };
  }, [file.version, page]);
  if (file.size > MOST_PDF) return <TooLarge file={file} most={MOST_PDF} />;
  if (error) return <Problem error={error} />;
  return content ? <Frame content={content} title={`Document ${baseName(file.path)}`} fixed={760} paper /> : <Loading what="Reading the document" />;
}

function Csv({ file }: { file: FileInfo }): ReactElement {
  const [source, setSource] = useState<CsvFile | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    setSource(null);
    setError(null);
    if (!file.size) return undefined;
    const csv = new CsvFile(file.size, (from, to) => bytesOf(file, from, to, abort.signal), () => { if (!abort.signal.aborted) setTurn((n) => n + 1); });
    csv.open().then(() => setSource(csv), (problem: unknown) => { if (!abort.signal.aborted) setError(problem); });
    return () => abort.abort();
  }, [file.version]);
  const columns = useMemo(() => source?.columns.map((name) => ({ name })) ?? [], [source]);
  if (error) return <Problem error={error} />;
  if (!file.size) return <p className="muted">The file is empty.</p>;
  if (!source) return <Loading what="Reading the table" />;
  const grid: GridSource = { columns, sample: source.sample, total: source.total, exact: source.exact, row: (i) => source.row(i) };
  return <Grid source={grid} label={`Table ${baseName(file.path)}`} turn={turn} />;
}

// --- Parquet and Excel: pages that the service reads in a session -------------

interface TablePage { columns: { name: string; type?: string | null }[]; rows: (string | number | boolean | null)[][]; offset: number; total: number | null; sheets?: string[] | null; sheet?: string | null; truncated?: boolean }
const PAGE = 200;

function ParsedTable({ file, number }: { file: FileInfo; number: number | null }): ReactElement {
  const [sheet, setSheet] = useState<string | undefined>();
  const [pages, setPages] = useState<{ key: string; map: Map<number, TablePage>; asked: Set<number>; first: TablePage | null; error: unknown }>({ key: '', map: new Map(), asked: new Set(), first: null, error: null });
  const [turn, setTurn] = useState(0);
  const key = `${file.version} ${sheet ?? ''}`;
  const load = async (state: typeof pages, index: number) => {
    if (state.asked.has(index)) return;
    state.asked.add(index);
    try {
      const page = await api.post<TablePage>(path`/api/files/${file.file_id}/table`, { version: file.version, sheet, offset: index * PAGE, limit: PAGE });
      state.map.set(index, page);
      // A search result names the sheet by its number.
      const wanted = number && !sheet ? page.sheets?.[number - 1] : undefined;
      if (wanted && wanted !== page.sheet) setSheet(wanted);
      state.first ??= page;
    } catch (error) {
      state.error ??= error;
    }
    setTurn((n) => n + 1);
  };
  useEffect(() => {
    const state = { key, map: new Map<number, TablePage>(), asked: new Set<number>(), first: null, error: null };
    setPages(state);
    void load(state, 0);
  }, [key]);
  const first = pages.key === key ? pages.first : null;
  const columns = useMemo(() => first?.columns.map((c) => ({ name: c.name, type: c.type ?? undefined })) ?? [], [first]);
  if (pages.error && !first) {
    const missing = pages.error instanceof ApiError && pages.error.status === 404;
    return missing ? <Notice tone="warn"><p>This service cannot read such tables. Open the file with code in a notebook.</p></Notice> : <Problem error={pages.error} retry={() => setPages({ ...pages, key: '' })} />;
  }
  if (!first) return <Loading what="A session reads the table" />;
  const cells = (row: (string | number | boolean | null)[] | undefined) => row?.map((c) => (c === null ? null : String(c))) ?? [];
  const source: GridSource = {
    columns,
    sample: first.rows.slice(0, 100).map(cells),
    total: first.total ?? first.rows.length,
    exact: first.total !== null,
    row: (i) => {
      const index = Math.floor(i / PAGE);
      const page = pages.map.get(index);
      if (!page) {
        // Asked for after this drawing is done.
        if (!pages.asked.has(index)) queueMicrotask(() => { void load(pages, index); });
        return { cells: null, sure: true };
      }
      return { cells: cells(page.rows[i % PAGE]), sure: true };
    },
  };
  return <div className="stack tight">
    {first.sheets && first.sheets.length > 1 && <Field label="Sheet">{(p) => <select {...p} className="input files-sheet" value={sheet ?? first.sheet ?? first.sheets![0]} onChange={(e) => setSheet(e.target.value)}>{first.sheets!.map((name) => <option key={name}>{name}</option>)}</select>}</Field>}
    <Grid key={key} source={source} label={`Table ${baseName(file.path)}`} turn={turn} />
    {first.truncated && <p className="small muted">The table is larger than what is shown.</p>}
  </div>;
}

// --- the choice ----------------------------------------------------------------

function Binary({ file }: { file: FileInfo }): ReactElement {
  const [asText, setAsText] = useState(false);
  if (asText) return <CodeView file={file} line={null} />;
  return <Empty title="No preview of this kind of file" action={<Button onClick={() => setAsText(true)}>Show as text</Button>}>The file is of the type <code>{file.mime_type}</code>. Download it, or open it with code in a notebook.</Empty>;
}

const sourced = new Set<Kind>(['svg', 'csv', 'markdown', 'html']);

export function Preview({ file, line, page }: { file: FileInfo; line: number | null; page: number | null }): ReactElement {
  const kind = kindOf(file);
  const [mode, setMode] = useState<'shown' | 'source'>(line && sourced.has(kind) ? 'source' : 'shown');
  useEffect(() => setMode(line && sourced.has(kind) ? 'source' : 'shown'), [file.file_id, line]);
  let body: ReactNode;
  if (kind === 'text' || (sourced.has(kind) && mode === 'source')) body = <CodeView file={file} line={line} />;
  else if (kind === 'image') body = <Picture file={file} />;
  else if (kind === 'svg') body = <Svg file={file} />;
  else if (kind === 'csv') body = <Csv file={file} />;
  else if (kind === 'table') body = <ParsedTable file={file} number={page} />;
  else if (kind === 'pdf') body = <Pdf file={file} page={page} />;
  else if (kind === 'markdown') body = <Text file={file} />;
  else if (kind === 'html') body = <Html file={file} />;
  else if (kind === 'audio' || kind === 'video') body = <Media file={file} kind={kind} />;
  else body = <Binary file={file} />;
  return <div className="stack tight">
    {sourced.has(kind) && <div className="row spread"><div className="button-group" role="group" aria-label="How the file is shown">
      <Button compact aria-pressed={mode === 'shown'} onClick={() => setMode('shown')}>{kind === 'csv' ? 'Table' : 'Shown'}</Button>
      <Button compact aria-pressed={mode === 'source'} onClick={() => setMode('source')}>Source</Button>
    </div>{(kind === 'html' || kind === 'svg') && mode === 'shown' && <span className="small muted">In a sandboxed frame without network</span>}</div>}
    {body}
  </div>;
}
