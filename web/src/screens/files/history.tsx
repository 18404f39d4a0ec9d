// SPDX-License-Identifier: Apache-2.0
// The versions of a file as a timeline, and the difference between two.
import { useMemo, useState, type ReactElement, type ReactNode } from 'react';
import { api, path } from '../../api/client';
import { useLoad } from '../../api/query';
import type { FileInfo } from '../../api/types';
import { href } from '../../app/router';
import { ActionButton, Button, Chip, Empty, Loading, Name, Notice, Problem, Size, Time, type Tone } from '../../ui/basic';
import { toast, toastError } from '../../ui/overlay';
import { allOf, files, type Version } from './model';
import { kindOf, useBlobUrl } from './preview';
import { Who } from './who';

export const changeTone: Record<string, Tone> = { created: 'good', modified: 'info', deleted: 'bad', renamed: 'warn', copied: 'info', restored: 'accent' };

// Who or what caused a change, in a few words with links.
export function Cause({ version }: { version: Version }): ReactElement {
  const who = <Who id={version.author} name={version.author_name} />;
  return <>
    {version.execution ? <><a href={href('executions', version.execution)}>{version.language === 'shell' ? 'Shell' : 'Python'} run</a> of {who}</> : <>{version.kind === 'upload' ? 'Upload' : version.kind === 'restore' ? 'Restored' : 'Change'} by {who}</>}
    {version.conversation && <> in <a href={href('conversations', version.conversation, { message: version.message })}><Name>{version.conversation}</Name></a></>}
    {version.note && <>: <Name>{version.note}</Name></>}
  </>;
}

// --- differences ---------------------------------------------------------------

const MOST_LINES = 3000;

function DiffLines({ text }: { text: string }): ReactElement {
  const all = text.replace(/\n$/, '').split('\n');
  const lines = all.slice(0, MOST_LINES);
  let left = 0;
  let right = 0;
  return <>
    <div className="files-diff" role="region" aria-label="Difference" tabIndex={0}>
      {lines.map((line, i) => {
        const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
        if (hunk) {
          left = Number(hunk[1]);
          right = Number(hunk[2]);
          return <div key={i} className="hunk">{line}</div>;
        }
        if (i < 2 && (line.startsWith('--- ') || line.startsWith('+++ '))) return null;
        const kind = line[0] === '+' ? 'added' : line[0] === '-' ? 'removed' : line[0] === '\\' ? 'hunk' : 'same';
        const numbers = kind === 'added' ? ['', right++] : kind === 'removed' ? [left++, ''] : kind === 'same' ? [left++, right++] : ['', ''];
        return <div key={i} className={kind}><span className="no" aria-hidden="true">{numbers[0]}</span><span className="no" aria-hidden="true">{numbers[1]}</span><span className="sign">{kind === 'added' ? '+' : kind === 'removed' ? '−' : ' '}</span><span className="text">{kind === 'hunk' ? line : line.slice(1)}</span></div>;
      })}
    </div>
    {all.length > MOST_LINES && <p className="small muted">The first {MOST_LINES.toLocaleString()} of {all.length.toLocaleString()} lines.</p>}
  </>;
}

function TextDiff({ ws, at, from, to }: { ws: string; at: string; from: Version; to: Version }): ReactElement {
  const { data, error } = useLoad<{ diff: string }>(`diff ${from.version} ${to.version}`, (signal) => api.get(path`/api/workspaces/${ws}/diff`, { path: at, from: from.version, to: to.version }, { signal, headers: { Accept: 'application/json' } }));
  if (error) return <Problem error={error} />;
  if (!data) return <Loading what="Comparing" />;
  if (!data.diff) return <p className="muted">The two versions are the same.</p>;
  return <DiffLines text={data.diff} />;
}

function ImageDiff({ from, to }: { from: Version; to: Version }): ReactElement {
  const before = useBlobUrl(from);
  const after = useBlobUrl(to);
  const [mode, setMode] = useState<'beside' | 'over' | 'difference'>('beside');
  const [part, setPart] = useState(50);
  if (before.error || after.error) return <Problem error={before.error ?? after.error} />;
  if (!before.url || !after.url) return <Loading what="Reading the pictures" />;
  const old = <img src={before.url} alt={`Version ${from.version_number}`} />;
  const now = <img src={after.url} alt={`Version ${to.version_number}`} />;
  return (
    <div className="stack tight">
      <div className="button-group" role="group" aria-label="How the pictures are compared">
        {([['beside', 'Side by side'], ['over', 'Slider'], ['difference', 'Difference']] as const).map(([id, label]) => <Button key={id} compact aria-pressed={mode === id} onClick={() => setMode(id)}>{label}</Button>)}
      </div>
      {mode === 'beside' && <div className="grid files-pair"><figure>{old}<figcaption className="small muted">Version {from.version_number}</figcaption></figure><figure>{now}<figcaption className="small muted">Version {to.version_number}</figcaption></figure></div>}
      {mode === 'over' && <>
        <label className="row small">Version {from.version_number}<input type="range" min={0} max={100} value={part} onChange={(e) => setPart(Number(e.target.value))} className="grow files-range" aria-label="Border between the two versions" />Version {to.version_number}</label>
        <div className="files-over">{old}<div className="files-over-new" style={{ clipPath: `inset(0 0 0 ${100 - part}%)` }}>{now}</div></div>
      </>}
      {mode === 'difference' && <><div className="files-over difference">{old}<div className="files-over-new">{now}</div></div><p className="small muted">Black is equal; anything else differs.</p></>}
    </div>
  );
}

function Difference({ ws, at, from, to }: { ws: string; at: string; from: Version; to: Version }): ReactElement {
  if (!from.available || !to.available) return <Notice tone="warn"><p>One of the versions has been removed by retention or a purge; only its entry is left.</p></Notice>;
  if (from.sha256 === to.sha256) return <p className="muted">The two versions have the same bytes.</p>;
  const kind = kindOf(to);
  if (kind === 'image') return <ImageDiff from={from} to={to} />;
  if (['text', 'csv', 'markdown', 'html', 'svg'].includes(kind)) return <TextDiff ws={ws} at={at} from={from} to={to} />;
  return <p className="muted">Versions of this kind cannot be compared. Open each of them instead: <a href={href('files', ws, at, { version: from.version })}>version {from.version_number}</a>, <a href={href('files', ws, at, { version: to.version })}>version {to.version_number}</a>.</p>;
}

// --- the timeline ------------------------------------------------------------------

export function FileHistory({ file, shown, mayWrite, onChanged }: { file: FileInfo; shown: string; mayWrite: boolean; onChanged: () => void }): ReactElement {
  const { workspace: ws } = file;
  const { data, error, reload } = useLoad(`history ${file.file_id} ${file.version}`, (signal) => allOf<Version>(path`/api/workspaces/${ws}/history`, { file: file.file_id }, (v) => v.version, { max: 2000, page: 200, signal }));
  const [pair, setPair] = useState<{ from: string; to: string } | null>(null);
  const rows = useMemo(() => data?.rows ?? [], [data]);
  const bytes = rows.filter((v) => v.change !== 'deleted');
  if (error) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading what="Reading the history" />;
  if (!rows.length) return <Empty title="No history">The history of this file has been removed.</Empty>;
  const current = rows[0];
  const restore = async (version: Version) => {
    await files.restore(ws, { version: version.version });
    toast(`Version ${version.version_number} is current again.`, { undo: async () => {
      await files.restore(ws, { version: current.version });
      onChanged();
    } });
    onChanged();
  };
  const from = bytes.find((v) => v.version === pair?.from);
  const to = bytes.find((v) => v.version === pair?.to);
  const before = (v: Version): Version | undefined => bytes[bytes.indexOf(v) + 1];
  return (
    <div className="stack">
      <ol className="files-timeline" aria-label="Versions, newest first">
        {rows.map((v, i): ReactNode => {
          const previous = before(v);
          return (
            <li key={`${v.version} ${i}`} className={v.version === shown ? 'shown' : ''}>
              <div className="row spread">
                <span className="row"><Chip tone={changeTone[v.change] ?? 'plain'}>{v.change}</Chip>
                  {v.change === 'deleted' ? <span>version {v.version_number}</span> : v.available ? <a href={href('files', ws, file.path, { version: v.version, tab: 'preview' })}>Version {v.version_number}</a> : <span>Version {v.version_number}, bytes removed</span>}
                  {i === 0 && <Chip tone="accent">current</Chip>}
                </span>
                <Time at={v.at} />
              </div>
              <div className="small muted"><Cause version={v} />{v.from && <> from <Name>{v.from}</Name></>} · <Size bytes={v.size} /></div>
              <div className="row">
                {v.change !== 'deleted' && previous && v.available && <Button compact kind="plain" aria-pressed={pair?.to === v.version && pair.from === previous.version} onClick={() => setPair({ from: previous.version, to: v.version })}>Compare with the one before</Button>}
                {i > 0 && v.change !== 'deleted' && v.available && bytes[0] !== v && <Button compact kind="plain" onClick={() => setPair({ from: v.version, to: bytes[0].version })}>Compare with the current one</Button>}
                {mayWrite && i > 0 && v.change !== 'deleted' && v.available && v.sha256 !== current.sha256 && <ActionButton compact kind="plain" icon="history" action={() => restore(v)} onError={toastError}>Restore</ActionButton>}
              </div>
              {from && to && pair?.to === to.version && (v === to) && <section className="files-compare" aria-label={`Difference between version ${from.version_number} and version ${to.version_number}`}>
                <div className="row spread"><h2>Version {from.version_number} → version {to.version_number}</h2><Button compact kind="plain" icon="close" label="Close the comparison" onClick={() => setPair(null)} /></div>
                <Difference ws={ws} at={file.path} from={from} to={to} />
              </section>}
            </li>
          );
        })}
      </ol>
      {!data.complete && <p className="small muted">The newest {rows.length.toLocaleString()} changes.</p>}
    </div>
  );
}
