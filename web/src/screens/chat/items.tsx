// SPDX-License-Identifier: Apache-2.0
// The items of a conversation as a person reads them. All of it was written by
// people, models and code: text is text, Markdown has no HTML, pictures are
// data of the four bitmap formats.
import { memo, useState, type ReactElement } from 'react';
import { href } from '../../app/router';
import { ActionButton, Button, Chip, Name, Notice, Ring } from '../../ui/basic';
import { Icon } from '../../ui/icons';
import { toastError } from '../../ui/overlay';
import { Ansi, Code, Markdown } from '../../ui/text';
import { copyText } from '../files/shares';
import { KeepDialog } from '../tools/keep';
import { heldBy, sandboxPath, type Annotation, type Item, type Part } from './wire';

const PICTURE = /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+$/;
export const picturesOf = (item: Item): string[] => (item.outputs ?? []).flatMap((o) => (o.type === 'image' && o.url && PICTURE.test(o.url) ? [o.url] : []));
export const logsOf = (item: Item): string => (item.outputs ?? []).map((o) => o.logs ?? '').filter(Boolean).join('\n');
export const textOf = (item: Item): string => (item.content ?? []).map((p) => p.text ?? p.refusal ?? '').join('');

// What the screen offers an item; null: it does not.
export interface Place {
  workspace: string | null; // where its files are
  notebook: ((item: Item) => Promise<void>) | null;
  download: (file: Annotation) => Promise<void>;
  nameOf: (fileId: string) => string | null;
}

// A line begins a traceback, in the form of Python or of cells.
const RAISED = /^(Traceback \(most recent call last\)|Cell In\[\d+\])/m;
const isActive = (item: Item): boolean => item.status === 'in_progress' || item.status === 'interpreting';
const lines = (text: string): number => text.split('\n').filter((l) => l.trim()).length;
const count = (n: number, what: string): string => `${n.toLocaleString()} ${what}${n === 1 ? '' : 's'}`;

// "3 lines of output, 1 chart"; an error by its last line.
export function summary(item: Item): { text: string; tone: 'plain' | 'bad' | 'warn' } {
  const logs = logsOf(item);
  const charts = picturesOf(item).length;
  if (heldBy(item)) return { text: 'waits for approval', tone: 'warn' };
  if (item.status === 'failed' || RAISED.test(logs)) return { text: logs.trim().split('\n').at(-1)?.slice(0, 120) || 'failed', tone: 'bad' };
  if (item.status === 'incomplete') return { text: 'stopped', tone: 'warn' };
  const said = [lines(logs) && `${count(lines(logs), 'line')} of output`, charts && count(charts, 'chart')].filter(Boolean).join(', ');
  return { text: said || 'no output', tone: 'plain' };
}
const firstLine = (code: string): string => code.split('\n').find((l) => l.trim() && !l.trim().startsWith('#'))?.trim() ?? '';

export const Held = ({ approval }: { approval: string }): ReactElement =>
  <Notice tone="warn" actions={<a className="button compact" href={href('approvals', approval)}>Show the request</a>}><p>This code waits for approval. It has not run.</p></Notice>;

const CodeCall = memo(({ item, place }: { item: Item; place: Place }): ReactElement => {
  const [open, setOpen] = useState(false);
  const [keeping, setKeeping] = useState(false);
  const active = isActive(item);
  const { text, tone } = summary(item);
  const code = item.code ?? '';
  const logs = logsOf(item);
  const held = heldBy(item);
  return (
    <div className="chat-code">
      <details open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
        <summary>
          <span className="chat-code-what">{active ? <Ring state="busy" /> : <Icon name="executions" size={16} />}{active ? (item.status === 'interpreting' ? 'Running code' : 'Writing code') : 'Ran code'}</span>
          <code className="truncate grow">{firstLine(code)}</code>
          {!active && <span className={`chat-code-result ${tone}`}>{text}</span>}
        </summary>
        {open && <div className="chat-code-body">
          <Code text={code} language="python" label="Code" />
          {logs && <Ansi text={logs} label="Output" />}
          <div className="row">
            <ActionButton compact icon="copy" action={() => copyText(code)} onError={toastError}>Copy</ActionButton>
            {place.notebook && !active && <ActionButton compact icon="notebook" action={() => place.notebook!(item)} onError={toastError}>Open in notebook</ActionButton>}
            {place.notebook && !active && <Button compact onClick={() => setKeeping(true)}>Keep as a tool</Button>}
          </div>
        </div>}
      </details>
      {keeping && <KeepDialog draft={{ workspace: place.workspace, code, language: 'python' }} onClose={() => setKeeping(false)} />}
      {held && <Held approval={held} />}
      {picturesOf(item).map((url, i) => <img key={i} className="chat-picture" src={url} alt={`Chart ${i + 1} of this answer`} />)}
    </div>
  );
});

const fileName = (path: string): string => sandboxPath(path) ?? path.replace(/^\/+/, '');

function Files({ list, place }: { list: Annotation[]; place: Place }): ReactElement | null {
  const seen = new Set<string>();
  const once = list.filter((a) => a.type === 'container_file_citation' && a.filename && !seen.has(a.filename) && seen.add(a.filename));
  if (!once.length) return null;
  return (
    <ul className="chat-files" aria-label="Files of this answer">{once.map((a) => {
      const name = fileName(a.filename!);
      return (
        <li key={a.filename}>
          <Icon name="files" size={16} />
          {place.workspace ? <a href={href('files', place.workspace, name)}><Name>{name}</Name></a> : <Name>{name}</Name>}
          <ActionButton compact kind="plain" icon="download" label={`Download ${name}`} action={() => place.download(a)} onError={toastError} />
        </li>
      );
    })}</ul>
  );
}

const Said = memo(({ item, place, last }: { item: Item; place: Place; last: boolean }): ReactElement => {
  const text = textOf(item);
  const resolve = (to: string): string | null => {
    const path = sandboxPath(to);
    return path && place.workspace ? href('files', place.workspace, path) : null;
  };
  return (
    <div className="chat-said">
      <Markdown text={text} resolve={resolve} />
      <Files list={(item.content ?? []).flatMap((p) => p.annotations ?? [])} place={place} />
      {last && text && <div className="chat-said-do"><ActionButton compact kind="plain" icon="copy" label="Copy the answer" action={() => copyText(text)} onError={toastError} /></div>}
    </div>
  );
});

export function Question({ content, place }: { content: Part[]; place: Place }): ReactElement {
  const attached = content.filter((p) => p.file_id);
  return (
    <div className="chat-question">
      <p dir="auto">{content.map((p) => p.text ?? '').join('')}</p>
      {attached.length > 0 && <ul className="chat-files" aria-label="Files of this question">{attached.map((p) => <li key={p.file_id}><Icon name={p.type === 'input_image' ? 'eye' : 'files'} size={16} /><Name>{p.filename ?? place.nameOf(p.file_id!) ?? p.file_id!}</Name></li>)}</ul>}
    </div>
  );
}

export function ItemView({ item, place, last }: { item: Item; place: Place; last: boolean }): ReactElement | null {
  switch (item.type) {
    case 'message':
      return item.role === 'user' ? <Question content={item.content ?? []} place={place} /> : item.role === 'assistant' ? <Said item={item} place={place} last={last} /> : null;
    case 'code_interpreter_call':
      return <CodeCall item={item} place={place} />;
    case 'reasoning': {
      const text = (item.summary ?? []).map((s) => s.text).join('\n\n');
      return text ? <details className="chat-thought"><summary>Thoughts</summary><Markdown text={text} /></details> : null;
    }
    case 'function_call':
      return <p className="small muted">The model called <code>{item.name}</code>, which this screen does not have.</p>;
    default:
      return null;
  }
}

export const TurnEnd = ({ status, problem, error }: { status: string; problem: string | null; error: string | null }): ReactElement | null =>
  error ?? problem ? <Notice tone="bad"><p>{error ?? problem}</p></Notice>
    : status === 'cancelled' ? <p className="small muted"><Chip>stopped</Chip> You stopped this answer.</p> : null;

export const AttachButton = ({ onClick, disabled }: { onClick: () => void; disabled?: boolean }): ReactElement => <Button kind="plain" icon="upload" label="Attach files" onClick={onClick} disabled={disabled} />;
