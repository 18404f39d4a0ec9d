// SPDX-License-Identifier: Apache-2.0
// Hash routing: #/screen/part/part?name=value. Parts are percent-encoded, so
// that a path of a file is one part, or several if the screen joins them.
import { useSyncExternalStore } from 'react';

export interface Route { screen: string; parts: string[]; query: URLSearchParams; hash: string }

const decode = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

export function parse(hash: string): Route {
  const [at = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const [screen = '', ...parts] = at.split('/').filter((part, i, all) => part !== '' || i < all.length - 1).map(decode);
  return { screen, parts, query: new URLSearchParams(query), hash };
}

let current = parse(location.hash);
const watchers = new Set<() => void>();
addEventListener('hashchange', () => {
  current = parse(location.hash);
  for (const fn of watchers) fn();
});
const watch = (fn: () => void) => {
  watchers.add(fn);
  return () => { watchers.delete(fn); };
};

export const useRoute = (): Route => useSyncExternalStore(watch, () => current);
export const route = (): Route => current;

// href('files', 'ws_1', 'data/a.csv', { version: 'ver_1' })
export function href(screen: string, ...rest: (string | Record<string, string | number | boolean | null | undefined>)[]): string {
  const parts: string[] = [];
  const query = new URLSearchParams();
  for (const item of rest) {
    if (typeof item === 'string') parts.push(encodeURIComponent(item));
    else for (const [k, v] of Object.entries(item)) if (v !== undefined && v !== null && v !== '') query.set(k, String(v));
  }
  const text = query.toString();
  return `#/${[screen, ...parts].join('/')}${text ? `?${text}` : ''}`;
}

export function go(to: string, { replace = false } = {}): void {
  if (!replace) {
    location.hash = to;
    return;
  }
  history.replaceState(null, '', to);
  current = parse(location.hash);
  for (const fn of watchers) fn();
}
