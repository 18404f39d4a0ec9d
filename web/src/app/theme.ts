// SPDX-License-Identifier: Apache-2.0
// Light, dark, or as the system has it. Kept in this browser: it is the one
// thing the console stores there, beside which hints were dismissed.
import { useSyncExternalStore } from 'react';

export type Choice = 'system' | 'light' | 'dark';
const system = matchMedia('(prefers-color-scheme: dark)');
const watchers = new Set<() => void>();

export function remembered(name: string): string | null {
  try {
    return localStorage.getItem(`glovebox.${name}`);
  } catch {
    return null; // storage is off: nothing is remembered
  }
}
export function remember(name: string, value: string): void {
  try {
    localStorage.setItem(`glovebox.${name}`, value);
  } catch { /* storage is off */ }
}

let choice: Choice = (['light', 'dark'] as const).find((c) => c === remembered('theme')) ?? 'system';
export const isDark = (): boolean => (choice === 'system' ? system.matches : choice === 'dark');

function apply(): void {
  document.documentElement.dataset.theme = isDark() ? 'dark' : 'light';
  for (const fn of watchers) fn();
}
export function chooseTheme(next: Choice): void {
  choice = next;
  remember('theme', next);
  apply();
}
system.addEventListener('change', apply);
apply();

const watch = (fn: () => void) => {
  watchers.add(fn);
  return () => { watchers.delete(fn); };
};
export const useTheme = (): Choice => useSyncExternalStore(watch, () => choice);
export const useDark = (): boolean => useSyncExternalStore(watch, isDark);
