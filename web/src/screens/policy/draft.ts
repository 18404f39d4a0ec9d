// SPDX-License-Identifier: Apache-2.0
// The policy that is being written. It lives as long as the page and in its
// memory only; other screens propose rules into it.
import { useSyncExternalStore } from 'react';

export interface Draft { text: string; note: string; base: number } // base: the version it began with
let draft: Draft | null = null;
const watchers = new Set<() => void>();

export function setDraft(next: Draft | null): void {
  draft = next;
  for (const fn of watchers) fn();
}
export const useDraft = (): Draft | null => useSyncExternalStore((fn) => {
  watchers.add(fn);
  return () => { watchers.delete(fn); };
}, () => draft);

export interface ProposedRule { name: string; match: Record<string, string | string[]>; then: 'allow' | 'ask' | 'deny'; reason?: string }

const plainWord = /^[A-Za-z0-9][A-Za-z0-9._/-]*$/;
const quoted = (value: string): string => (plainWord.test(value) && !/^(?:true|false|null|yes|no|on|off|\d[\d._]*)$/i.test(value) ? value : JSON.stringify(value));
const value = (v: string | string[]): string => (Array.isArray(v) ? `[${v.map(quoted).join(', ')}]` : quoted(v));

// A rule as YAML, one entry of `rules`, indented by `indent`.
export function ruleText(rule: ProposedRule, indent = '  '): string {
  const match = Object.entries(rule.match).map(([k, v]) => `${k}: ${value(v)}`).join(', ');
  return [`${indent}- name: ${rule.name}`, `${indent}  match: {${match}}`, `${indent}  then: ${rule.then}`, ...(rule.reason ? [`${indent}  reason: ${JSON.stringify(rule.reason)}`] : [])].join('\n') + '\n';
}

// Rule names have 1 to 63 letters, digits, dots, underscores and dashes.
export function ruleName(base: string, text: string): string {
  const name = base.toLowerCase().replace(/[^a-z0-9._-]+/g, '-').replace(/^-+|-+$/g, '').slice(0, 56) || 'rule';
  let out = name;
  for (let n = 2; text.includes(`name: ${out}\n`) || text.includes(`name: ${out},`); n++) out = `${name}-${n}`;
  return out;
}

// Puts a rule before the first rule of the top level, where it decides first.
// The editor's validation tells when the text was written in another style.
export function withRule(text: string, rule: ProposedRule): string {
  const lines = text === '' ? ['version: 1', 'default: allow'] : text.replace(/\n$/, '').split('\n');
  const at = lines.findIndex((line) => /^rules:\s*(?:#.*)?$/.test(line));
  if (at >= 0) {
    const next = lines.slice(at + 1).find((line) => /^\s*- /.test(line));
    const indent = next ? /^(\s*)-/.exec(next)![1] : '  ';
    lines.splice(at + 1, 0, ruleText(rule, indent).replace(/\n$/, ''));
  } else {
    const empty = lines.findIndex((line) => /^rules:\s*\[\s*\]\s*$/.test(line));
    if (empty >= 0) lines.splice(empty, 1);
    lines.push('rules:', ruleText(rule).replace(/\n$/, ''));
  }
  return `${lines.join('\n')}\n`;
}
