// SPDX-License-Identifier: Apache-2.0
// What the governance screens share: who someone is, ids in short, changes
// that a second person must approve, text with its invisible characters shown.
import { useEffect, useId, useState, type ReactElement, type ReactNode } from 'react';
import { api, HeldError, type Query } from '../api/client';
import { useLoad } from '../api/query';
import type { List } from '../api/types';
import { useMay, useMe } from '../app/me';
import { Button, Notice, visible } from './basic';
import { toast } from './overlay';

// --- ids and names -----------------------------------------------------------

const idForm = /\b(sess|cntr|exec|ws|key|tok|jwt|file|ver|cmt|share|apr|req|akey)_([0-9a-f]{6})[0-9a-f]{10,}\b/g;
export const shortId = (id: string): string => id.replace(idForm, '$1_$2…');

// A text of the service with its long ids cut; the whole text is on hover.
export const ShortText = ({ children }: { children: string }): ReactElement => {
  const text = visible(shortId(children));
  return <bdi title={text === children ? undefined : children}>{text}</bdi>;
};

export interface Key {
  id: string;
  tenant: string;
  name: string | null;
  scopes: string[];
  pools: string[] | null;
  workspaces: string[] | null;
  sessions: string[] | null;
  created_at: string;
  expires_at: string | null;
  last_used_at: string | null;
  revoked_at: string | null;
}

// Names of keys by id, as far as this person may list keys.
export function useKeyNames(): (id: string | null | undefined) => string | null {
  const me = useMe();
  const may = useMay('admin');
  const { data } = useLoad<List<Key>>(may ? 'key-names' : null, (signal) => api.get('/api/keys', {}, { signal }), { refreshOn: ['key', 'admin'] });
  return (id) => {
    if (!id) return null;
    if (id === me.id) return me.name;
    return data?.data.find((key) => key.id === id)?.name ?? null;
  };
}

// A person or a program: the name, and the id on hover.
export function Who({ id, name }: { id: string | null | undefined; name?: string | null }): ReactElement {
  if (!id) return <span className="muted">–</span>;
  if (id === 'glovebox') return <span title="The service itself">Glovebox</span>;
  if (id === 'file') return <span title="The policy file of the host">policy file</span>;
  return name ? <bdi className="govern-name" title={id}>{visible(name)}</bdi> : <span className="mono" title={id}>{shortId(id)}</span>;
}

// --- changes that may be held --------------------------------------------------

export interface Change<T> { data: T | null; approval: string | null }

// Makes a change. With a rule that asks, or with four eyes, nothing is done
// yet: `approval` then names the request that waits.
export async function change<T>(method: string, at: string, body?: unknown, query?: Query): Promise<Change<T>> {
  try {
    return { data: (await api.request<T>(method, at, body, { query })).data, approval: null };
  } catch (error) {
    if (!(error instanceof HeldError) || !error.approval) throw error;
    toast('Nothing has changed yet: another person must approve this. Repeat it after the approval.');
    return { data: null, approval: error.approval };
  }
}

export { Held } from './held';

// --- secrets that are shown once -----------------------------------------------

export function SecretOnce({ secret, what }: { secret: string; what: string }): ReactElement {
  const [copied, setCopied] = useState(false);
  return (
    <div className="stack tight">
      <Notice tone="good"><p>The secret of {what} is shown this once. Keep it where its owner reads it; the service stores only a hash.</p></Notice>
      <div className="row">
        <code className="govern-secret grow">{secret}</code>
        <Button icon="copy" onClick={() => { void navigator.clipboard.writeText(secret).then(() => setCopied(true), () => setCopied(false)); }}>{copied ? 'Copied' : 'Copy'}</Button>
      </div>
    </div>
  );
}

// --- text that hides something ---------------------------------------------------

// eslint-disable-next-line no-control-regex
const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0]|[\u{e0000}-\u{e0fff}]/gu;

// Writes invisible and direction-changing characters as escapes.
export function reveal(text: string): { text: string; count: number } {
  let count = 0;
  const out = text.replace(hidden, (c) => {
    count++;
    return `\\u{${c.codePointAt(0)!.toString(16)}}`;
  });
  return { text: out, count };
}

// --- small parts -------------------------------------------------------------

export function Section({ title, actions, children, lead }: { title: string; actions?: ReactNode; children: ReactNode; lead?: ReactNode }): ReactElement {
  const id = useId();
  return (
    <div role="group" className="stack govern-section" aria-labelledby={id}>
      <div className="row spread"><div><h2 id={id}>{title}</h2>{lead && <p className="muted small govern-lead">{lead}</p>}</div>{actions && <div className="row">{actions}</div>}</div>
      {children}
    </div>
  );
}

export function Facts({ rows }: { rows: [string, ReactNode][] }): ReactElement {
  return <dl className="facts">{rows.map(([name, value]) => <div key={name} className="govern-fact"><dt>{name}</dt><dd>{value ?? <span className="muted">–</span>}</dd></div>)}</dl>;
}

export function Check({ label, checked, onChange, hint, disabled }: { label: ReactNode; checked: boolean; onChange: (on: boolean) => void; hint?: ReactNode; disabled?: boolean }): ReactElement {
  return <label className="check"><input type="checkbox" checked={checked} disabled={disabled} onChange={(e) => onChange(e.target.checked)} /><span>{label}{hint && <span className="muted"> {hint}</span>}</span></label>;
}

// The value after it has been still for a while.
export function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

// Every page of a list, at most `most` rows.
export async function allPages<T>(at: string, query: Query, cursor: (row: T) => string | number, signal: AbortSignal, most = 5000): Promise<{ rows: T[]; cut: boolean }> {
  const rows: T[] = [];
  let after: string | number | undefined;
  for (;;) {
    const page = await api.get<List<T>>(at, { ...query, after }, { signal });
    rows.push(...page.data);
    if (!page.has_more || page.data.length === 0) return { rows, cut: false };
    if (rows.length >= most) return { rows, cut: true };
    after = cursor(page.data.at(-1)!);
  }
}

// Runs fn for each item, a few at a time; failures become null.
export async function eachOf<T, R>(items: T[], fn: (item: T) => Promise<R>, width = 6): Promise<(R | null)[]> {
  const out: (R | null)[] = new Array<R | null>(items.length).fill(null);
  let next = 0;
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, async () => {
    while (next < items.length) {
      const i = next++;
      out[i] = await fn(items[i]).catch(() => null);
    }
  }));
  return out;
}

// A form's local time as the API writes it; empty stays empty.
export const toUtc = (local: string): string | undefined => {
  const at = local ? new Date(local) : null;
  return at && !Number.isNaN(at.getTime()) ? at.toISOString() : undefined;
};
