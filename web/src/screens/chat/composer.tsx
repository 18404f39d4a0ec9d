// SPDX-License-Identifier: Apache-2.0
// Where a question is written: text, files, the model that is to answer.
import { useCallback, useEffect, useRef, useState, type DragEvent, type ReactElement, type RefObject } from 'react';
import { messageOf } from '../../api/client';
import type { Me } from '../../api/types';
import { Button, Name, Notice, Size } from '../../ui/basic';
import { AttachButton } from './items';
import { AGENT, chat, type Model, type Part } from './wire';

const MOST = 50; // files of one question
const LONGEST = 1_000_000; // characters of one question
const isPicture = (name: string): boolean => /\.(png|jpe?g|gif|webp)$/i.test(name);

export interface Attached { key: number; name: string; size: number; id: string | null; problem: string | null }
let nextKey = 1;

// Files that go with the next question; each is uploaded when it is added.
export function useAttached(me: Me): { list: Attached[]; add: (files: File[]) => void; remove: (key: number) => void; clear: () => void } {
  const [list, setList] = useState<Attached[]>([]);
  const add = useCallback((files: File[]) => {
    for (const file of files) {
      const key = nextKey++;
      setList((all) => (all.length < MOST ? [...all, { key, name: file.name, size: file.size, id: null, problem: null }] : all));
      chat.upload(me, file).then((made) => setList((all) => all.map((a) => (a.key === key ? { ...a, id: made.id } : a))),
        (error: unknown) => setList((all) => all.map((a) => (a.key === key ? { ...a, problem: messageOf(error) } : a))));
    }
  }, [me]);
  return { list, add, remove: (key) => setList((all) => all.filter((a) => a.key !== key)), clear: () => setList([]) };
}

export const partsOf = (text: string, list: Attached[]): Part[] => [{ type: 'input_text', text },
  ...list.filter((a) => a.id).map((a): Part => ({ type: isPicture(a.name) ? 'input_image' : 'input_file', file_id: a.id!, filename: a.name }))];

export function useDrop(add: (files: File[]) => void): { over: boolean; props: Record<string, (e: DragEvent) => void> } {
  const [over, setOver] = useState(false);
  return { over, props: {
    onDragOver: (e) => {
      if (!e.dataTransfer.types.includes('Files')) return;
      e.preventDefault();
      setOver(true);
    },
    onDragLeave: (e) => { if (!e.currentTarget.contains(e.relatedTarget as Node | null)) setOver(false); },
    onDrop: (e) => {
      if (!e.dataTransfer.files.length) return;
      e.preventDefault();
      setOver(false);
      add([...e.dataTransfer.files]);
    },
  } };
}

interface Props {
  models: Model[];
  agents: string[];
  model: string;
  setModel: (model: string) => void;
  attached: ReturnType<typeof useAttached>;
  busy: boolean;
  stopping: boolean;
  onSend: (text: string) => Promise<void>;
  onStop: () => void;
  box: RefObject<HTMLTextAreaElement | null>;
}

export function Composer({ models, agents, model, setModel, attached, busy, stopping, onSend, onStop, box }: Props): ReactElement {
  const [text, setText] = useState('');
  const [sending, setSending] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const input = useRef<HTMLInputElement>(null);
  const waiting = attached.list.some((a) => !a.id && !a.problem);
  const failed = attached.list.some((a) => a.problem);
  const ready = text.trim() !== '' && !busy && !sending && !waiting && !failed;
  useEffect(() => { // as high as its text, up to a third of the window
    const el = box.current;
    if (!el) return;
    el.style.height = 'auto';
    el.style.height = `${Math.min(el.scrollHeight + 2, innerHeight / 3)}px`;
  }, [text]);
  const send = async () => {
    if (!ready) return;
    setSending(true);
    setProblem(null);
    try {
      await onSend(text);
      setText('');
    } catch (error) {
      setProblem(messageOf(error));
    }
    setSending(false);
  };
  return (
    <form className="chat-composer panel" aria-label="Ask" onSubmit={(e) => {
      e.preventDefault();
      void send();
    }}>
      {problem && <Notice tone="bad"><p>{problem}</p></Notice>}
      {attached.list.length > 0 && <ul className="chat-files" aria-label="Files that go with the question">{attached.list.map((a) => (
        <li key={a.key} className={a.problem ? 'bad' : ''}>
          <Name>{a.name}</Name><span className="small muted"><Size bytes={a.size} /></span>
          {a.problem ? <span className="small chat-problem" role="alert">{a.problem}</span> : !a.id && <span className="small muted">uploading…</span>}
          <Button compact kind="plain" icon="close" label={`Remove ${a.name}`} onClick={() => attached.remove(a.key)} />
        </li>
      ))}</ul>}
      <textarea ref={box} className="input" rows={1} dir="auto" maxLength={LONGEST} value={text} aria-label="Your question" placeholder="Ask about your files, or anything code can find out" onChange={(e) => setText(e.target.value)}
        onPaste={(e) => {
          const files = [...e.clipboardData.files];
          if (!files.length) return;
          e.preventDefault();
          attached.add(files);
        }}
        onKeyDown={(e) => {
          if (e.key !== 'Enter' || e.shiftKey || e.nativeEvent.isComposing) return;
          e.preventDefault();
          void send();
        }} />
      <div className="row spread">
        <div className="row">
          <AttachButton onClick={() => input.current?.click()} disabled={attached.list.length >= MOST} />
          <input ref={input} type="file" multiple hidden aria-label="Files for the question" onChange={(e) => {
            attached.add([...(e.target.files ?? [])]);
            e.target.value = '';
          }} />
          <label className="chat-model"><span className="visually-hidden">Model or agent</span>
            <select className="input" value={model} onChange={(e) => setModel(e.target.value)}>
              <option value="">Default model</option>
              {models.map((m) => <option key={m.id} value={m.id}>{m.id}</option>)}
              {agents.length > 0 && <optgroup label="Agents">{agents.map((a) => <option key={a} value={AGENT + a}>{a}</option>)}</optgroup>}
            </select>
          </label>
        </div>
        {busy ? <Button icon="stop" disabled={stopping} onClick={onStop}>{stopping ? 'Stopping…' : 'Stop'}</Button>
          : <Button kind="primary" type="submit" icon="up" disabled={!ready}>Ask</Button>}
      </div>
    </form>
  );
}
