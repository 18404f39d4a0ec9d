// SPDX-License-Identifier: Apache-2.0
// What lies over a screen: dialogs, confirmation, toasts with undo, menus.
import { useEffect, useId, useRef, useState, useSyncExternalStore, type ReactElement, type ReactNode } from 'react';
import { HeldError, messageOf } from '../api/client';
import { href } from '../app/router';
import { Button } from './basic';
import type { IconName } from './icons';

export function Dialog({ title, onClose, children, foot, wide }: { title: string; onClose: () => void; children: ReactNode; foot?: ReactNode; wide?: boolean }): ReactElement {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current!;
    if (!dialog.open) dialog.showModal();
    return () => { if (dialog.open) dialog.close(); };
  }, []);
  return (
    <dialog ref={ref} className={`dialog ${wide ? 'wide' : ''}`} aria-labelledby={id} onCancel={(e) => {
      e.preventDefault();
      onClose();
    }}>
      <div className="dialog-head"><h2 id={id}>{title}</h2><Button kind="plain" compact icon="close" label="Close" onClick={onClose} /></div>
      <div className="dialog-body">{children}</div>
      {foot && <div className="dialog-foot">{foot}</div>}
    </dialog>
  );
}

// --- confirmation ------------------------------------------------------------

interface Question { title: string; text: ReactNode; action: string; danger?: boolean; typed?: string; answer: (yes: boolean) => void }
let question: Question | null = null;
const questionWatchers = new Set<() => void>();
const setQuestion = (next: Question | null) => {
  question = next;
  for (const fn of questionWatchers) fn();
};

// Asks before something that cannot be undone. typed: the person must type
// this text first. Resolves to false when dismissed.
export function confirm(spec: Omit<Question, 'answer'>): Promise<boolean> {
  return new Promise((done) => setQuestion({ ...spec, answer: (yes) => {
    setQuestion(null);
    done(yes);
  } }));
}

export function ConfirmHost(): ReactElement | null {
  const asked = useSyncExternalStore((fn) => {
    questionWatchers.add(fn);
    return () => { questionWatchers.delete(fn); };
  }, () => question);
  const [typed, setTyped] = useState('');
  useEffect(() => setTyped(''), [asked]);
  if (!asked) return null;
  return (
    <Dialog title={asked.title} onClose={() => asked.answer(false)} foot={<>
      <Button onClick={() => asked.answer(false)}>Cancel</Button>
      <Button kind={asked.danger ? 'danger' : 'primary'} disabled={!!asked.typed && typed !== asked.typed} onClick={() => asked.answer(true)}>{asked.action}</Button>
    </>}>
      <div>{asked.text}</div>
      {asked.typed && <label className="field"><span className="label">Type <code>{asked.typed}</code> to confirm</span><input className="input" value={typed} onChange={(e) => setTyped(e.target.value)} /></label>}
    </Dialog>
  );
}

// --- toasts --------------------------------------------------------------------

interface Toast { id: number; text: string; tone: 'plain' | 'bad'; undo?: () => unknown; link?: { to: string; label: string } }
let toasts: Toast[] = [];
let nextToast = 1;
const toastWatchers = new Set<() => void>();
const setToasts = (next: Toast[]) => {
  toasts = next;
  for (const fn of toastWatchers) fn();
};
const dismiss = (id: number) => setToasts(toasts.filter((t) => t.id !== id));

// Says what was done; undo: a way back, offered for ten seconds.
export function toast(text: string, { undo, link, tone = 'plain' }: { undo?: () => unknown; link?: Toast['link']; tone?: 'plain' | 'bad' } = {}): void {
  const id = nextToast++;
  setToasts([...toasts.slice(-3), { id, text, tone, undo, link }]);
  setTimeout(() => dismiss(id), undo || link || tone === 'bad' ? 10_000 : 4_000);
}
export const toastError = (error: unknown): void => (error instanceof HeldError
  ? toast(messageOf(error), error.approval ? { link: { to: href('approvals', error.approval), label: 'See the request' } } : {})
  : toast(messageOf(error), { tone: 'bad' }));

export function ToastHost(): ReactElement {
  const list = useSyncExternalStore((fn) => {
    toastWatchers.add(fn);
    return () => { toastWatchers.delete(fn); };
  }, () => toasts);
  return (
    <div className="toasts" role="log" aria-live="polite" aria-label="Messages">
      {list.map((t) => (
        <div key={t.id} className={`toast ${t.tone}`}>
          <span className="grow" dir="auto">{t.text}</span>
          {t.link && <a href={t.link.to}>{t.link.label}</a>}
          {t.undo && <button type="button" onClick={() => {
            dismiss(t.id);
            Promise.resolve(t.undo!()).catch(toastError);
          }}>Undo</button>}
          <button type="button" aria-label="Dismiss" onClick={() => dismiss(t.id)}>×</button>
        </div>
      ))}
    </div>
  );
}

// --- menu --------------------------------------------------------------------

export type MenuItem = { label: string; keys?: string; danger?: boolean; disabled?: boolean; onSelect: () => void } | 'line';

export function Menu({ label, icon = 'more', items, compact, text, start }: { label: string; icon?: IconName; items: MenuItem[]; compact?: boolean; text?: string; start?: boolean }): ReactElement {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return undefined;
    const away = (e: Event) => { if (!box.current?.contains(e.target as Node)) setOpen(false); };
    document.addEventListener('pointerdown', away);
    box.current?.querySelector<HTMLElement>('[role="menuitem"]')?.focus();
    return () => document.removeEventListener('pointerdown', away);
  }, [open]);
  const close = () => {
    setOpen(false);
    box.current?.querySelector<HTMLElement>('button')?.focus();
  };
  return (
    <div className="menu" ref={box} onKeyDown={(e) => {
      if (!open) return;
      e.stopPropagation();
      const all = [...box.current!.querySelectorAll<HTMLElement>('[role="menuitem"]')];
      const at = all.indexOf(document.activeElement as HTMLElement);
      if (e.key === 'Escape') close();
      else if (e.key === 'ArrowDown') all[(at + 1) % all.length]?.focus();
      else if (e.key === 'ArrowUp') all[(at - 1 + all.length) % all.length]?.focus();
      else if (e.key === 'Home') all[0]?.focus();
      else if (e.key === 'End') all.at(-1)?.focus();
      else if (e.key === 'Tab') setOpen(false);
      else return;
      if (e.key !== 'Tab') e.preventDefault();
    }}>
      <Button icon={icon} compact={compact} label={label} kind={text ? undefined : 'plain'} aria-haspopup="menu" aria-expanded={open} onClick={() => setOpen(!open)}>{text}</Button>
      {open && <div className={`menu-list ${start ? 'start' : ''}`} role="menu" aria-label={label}>
        {items.map((item, i) => item === 'line' ? <hr key={i} role="separator" /> : (
          <button key={i} type="button" role="menuitem" tabIndex={-1} aria-disabled={item.disabled || undefined} className={item.danger ? 'danger' : ''} onClick={() => {
            if (item.disabled) return;
            close();
            item.onSelect();
          }}><span>{item.label}</span>{item.keys && <kbd>{item.keys}</kbd>}</button>
        ))}
      </div>}
    </div>
  );
}
