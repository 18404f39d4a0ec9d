// SPDX-License-Identifier: Apache-2.0
// Small parts of every screen: buttons, fields, links, states, times, sizes.
import { useId, useState, type ButtonHTMLAttributes, type ReactElement, type ReactNode } from 'react';
import { ApiError, HeldError, messageOf } from '../api/client';
import { Icon, type IconName } from './icons';

export type Tone = 'good' | 'warn' | 'bad' | 'info' | 'accent' | 'plain';

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  kind?: 'primary' | 'danger' | 'plain';
  icon?: IconName;
  compact?: boolean;
  // An icon alone: label is then its name for screen readers and its tooltip.
  label?: string;
}
export function Button({ kind, icon, compact, label, children, className, ...rest }: ButtonProps): ReactElement {
  const names = ['button', kind, compact && 'compact', !children && icon && 'icon', className].filter(Boolean).join(' ');
  return (
    <button type="button" className={names} aria-label={children ? undefined : label} title={children ? rest.title : label} {...rest}>
      {icon && <Icon name={icon} size={compact ? 16 : 18} />}
      {children}
    </button>
  );
}

// A button that does something slow: it is off while it runs, and reports failure to onError.
export function ActionButton({ action, onError, ...rest }: Omit<ButtonProps, 'onClick' | 'onError'> & { action: () => Promise<unknown>; onError?: (error: unknown) => void }): ReactElement {
  const [busy, setBusy] = useState(false);
  return (
    <Button {...rest} disabled={busy || rest.disabled} aria-busy={busy} onClick={() => {
      setBusy(true);
      action().catch((error: unknown) => onError?.(error)).finally(() => setBusy(false));
    }} />
  );
}

export function Field({ label, hint, problem, children }: { label: string; hint?: ReactNode; problem?: string | null; children: (props: { id: string; 'aria-describedby'?: string; 'aria-invalid'?: boolean }) => ReactNode }): ReactElement {
  const id = useId();
  const about = [hint && `${id}-hint`, problem && `${id}-problem`].filter(Boolean).join(' ') || undefined;
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({ id, 'aria-describedby': about, 'aria-invalid': problem ? true : undefined })}
      {hint && <span className="hint" id={`${id}-hint`}>{hint}</span>}
      {problem && <span className="problem" id={`${id}-problem`} role="alert">{problem}</span>}
    </div>
  );
}

export const Chip = ({ tone = 'plain', children, title }: { tone?: Tone; children: ReactNode; title?: string }): ReactElement =>
  <span className={`chip ${tone}`} title={title}>{children}</span>;

export const Ring = ({ state }: { state: 'idle' | 'good' | 'warn' | 'bad' | 'busy' }): ReactElement => <span className={`ring ${state}`} aria-hidden="true" />;

export function Notice({ tone = 'info', children, actions }: { tone?: Tone; children: ReactNode; actions?: ReactNode }): ReactElement {
  return <div className={`notice ${tone}`} role={tone === 'bad' ? 'alert' : 'status'}><div className="grow">{children}</div>{actions}</div>;
}

// The daemon's words about what went wrong, with a way to try again.
export function Problem({ error, retry }: { error: unknown; retry?: () => void }): ReactElement {
  if (error instanceof HeldError) return <Notice tone="warn" actions={error.approval ? <a className="button compact" href={`#/approvals/${encodeURIComponent(error.approval)}`}>See the request</a> : undefined}><p>{messageOf(error)}</p></Notice>;
  const code = error instanceof ApiError && error.status ? ` (${error.status} ${error.code})` : '';
  return <Notice tone="bad" actions={retry && <Button compact onClick={retry}>Try again</Button>}><p>{messageOf(error)}<span className="small">{code}</span></p></Notice>;
}

export const Loading = ({ what = 'Loading' }: { what?: string }): ReactElement =>
  <div className="loading" role="status"><Ring state="busy" />{what}…</div>;

// Says what to do next.
export function Empty({ title, children, action }: { title: string; children?: ReactNode; action?: ReactNode }): ReactElement {
  return (
    <div className="empty">
      <span className="ports" aria-hidden="true"><span /><span /></span>
      <h2>{title}</h2>
      {children && <p>{children}</p>}
      {action}
    </div>
  );
}

export function Page({ title, lead, actions, children, crumbs }: { title: ReactNode; lead?: ReactNode; actions?: ReactNode; crumbs?: ReactNode; children: ReactNode }): ReactElement {
  return (
    <div className="page">
      <header className="page-head">
        <div className="grow">
          {crumbs && <nav className="crumbs" aria-label="Path">{crumbs}</nav>}
          <h1 dir="auto">{title}</h1>
          {lead && <p className="lead">{lead}</p>}
        </div>
        {actions && <div className="actions">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

// A name that someone else chose: any script, right to left or not, control characters shown.
export const Name = ({ children }: { children: string }): ReactElement => <bdi>{visible(children)}</bdi>;
// eslint-disable-next-line no-control-regex
export const visible = (text: string): string => text.replace(/[\u0000-\u001f\u007f\u202a-\u202e\u2066-\u2069\u200e\u200f]/g, (c) => `␣${c.charCodeAt(0).toString(16)}`);

// --- times and sizes -------------------------------------------------------

const dateTime = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
const timeOnly = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' });
const steps: [Intl.RelativeTimeFormatUnit, number][] = [['year', 31_536_000], ['month', 2_592_000], ['day', 86_400], ['hour', 3600], ['minute', 60], ['second', 1]];

export function ago(at: Date, now = Date.now()): string {
  const seconds = (at.getTime() - now) / 1000;
  const [unit, size] = steps.find(([, s]) => Math.abs(seconds) >= s) ?? ['second', 1];
  return relative.format(Math.round(seconds / size), unit);
}

// Local time; UTC on hover.
export function Time({ at, form = 'full' }: { at: string | null | undefined; form?: 'full' | 'time' | 'ago' }): ReactElement {
  if (!at) return <span className="muted">–</span>;
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return <span>{at}</span>;
  const utc = date.toISOString().replace('T', ' ').replace(/\.(\d+)Z$/, '.$1 UTC');
  const text = form === 'ago' ? ago(date) : form === 'time' ? timeOnly.format(date) : dateTime.format(date);
  return <time className="nowrap" dateTime={at} title={form === 'ago' ? `${dateTime.format(date)} · ${utc}` : utc}>{text}</time>;
}

export function sizeText(bytes: number): string {
  if (!Number.isFinite(bytes)) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let n = Math.abs(bytes);
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return `${bytes < 0 ? '−' : ''}${unit === 0 ? n : n.toLocaleString(undefined, { maximumFractionDigits: n < 10 ? 1 : 0 })} ${units[unit]}`;
}
export const Size = ({ bytes }: { bytes: number }): ReactElement => <span className="nowrap" title={`${bytes.toLocaleString()} bytes`}>{sizeText(bytes)}</span>;

export function durationText(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.floor(ms / 1000);
  const two = (n: number) => String(n).padStart(2, '0');
  return s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)} min` : `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)} h`;
}

export function Meter({ value, max, label }: { value: number; max: number; label: string }): ReactElement {
  const part = max > 0 ? Math.min(1, value / max) : 0;
  const tone = part > 0.95 ? 'bad' : part > 0.8 ? 'warn' : '';
  return <div className={`meter ${tone}`} role="meter" aria-label={label} aria-valuenow={Math.round(part * 100)} aria-valuemin={0} aria-valuemax={100}><span style={{ width: `${part * 100}%` }} /></div>;
}

export function Tabs<T extends string>({ tabs, value, onChange, label }: { tabs: { id: T; label: ReactNode }[]; value: T; onChange: (id: T) => void; label: string }): ReactElement {
  const move = (step: number) => {
    const at = tabs.findIndex((tab) => tab.id === value);
    onChange(tabs[(at + step + tabs.length) % tabs.length].id);
  };
  return (
    <div className="tabs" role="tablist" aria-label={label} onKeyDown={(e) => {
      if (e.key !== 'ArrowRight' && e.key !== 'ArrowLeft') return;
      e.preventDefault();
      move(e.key === 'ArrowRight' ? 1 : -1);
      const list = e.currentTarget;
      requestAnimationFrame(() => list.querySelector<HTMLElement>('[aria-selected="true"]')?.focus());
    }}>
      {tabs.map((tab) => <button key={tab.id} type="button" role="tab" aria-selected={tab.id === value} tabIndex={tab.id === value ? 0 : -1} onClick={() => onChange(tab.id)}>{tab.label}</button>)}
    </div>
  );
}
