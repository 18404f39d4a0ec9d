// SPDX-License-Identifier: Apache-2.0
// Answers that are under way, one per conversation. They belong to the tab, not
// to a screen: another thread or another screen can be looked at meanwhile. A
// stream that breaks is taken up again after the last event seen.
import { useSyncExternalStore } from 'react';
import { ApiError } from '../../api/client';
import type { Me } from '../../api/types';
import { chat, isOver, reduce, startLive, type Live, type Part, type StreamEvent } from './wire';

export interface Answer {
  question: Part[] | null; // until the conversation's own items have it
  live: Live;
  over: boolean;
  error: unknown; // why it could not be asked or read
  stopping: boolean;
}

const TRIES = 6;
const all = new Map<string, Answer>();
const aborts = new Map<string, AbortController>();
const watchers = new Set<() => void>();
const watch = (fn: () => void) => {
  watchers.add(fn);
  return () => { watchers.delete(fn); };
};
function set(thread: string, change: Partial<Answer>): void {
  const old = all.get(thread);
  if (!old) return;
  all.set(thread, { ...old, ...change });
  for (const fn of watchers) fn();
}

export const useAnswer = (thread: string | null): Answer | null => useSyncExternalStore(watch, () => (thread ? all.get(thread) ?? null : null));
export const isRunning = (thread: string): boolean => all.get(thread)?.over === false;

async function run(me: Me, thread: string, begin: ((onEvent: (e: StreamEvent) => void, signal: AbortSignal) => Promise<void>) | null, onId?: (id: string) => void): Promise<void> {
  const abort = new AbortController();
  aborts.set(thread, abort);
  const onEvent = (event: StreamEvent) => {
    const old = all.get(thread);
    if (!old || abort.signal.aborted) return;
    const live = reduce(old.live, event);
    if (live.id && !old.live.id) onId?.(live.id);
    set(thread, { live });
  };
  let error: unknown = null;
  try {
    if (begin) await begin(onEvent, abort.signal);
  } catch (problem) {
    error = problem;
  }
  // The stream ended before the answer did: the service may still be at it.
  for (let i = 0; i < TRIES && !abort.signal.aborted; i++) {
    const live = all.get(thread)?.live;
    if (!live?.id || isOver(live) || (error instanceof ApiError && error.status >= 400)) break;
    if (i > 0) await new Promise((done) => setTimeout(done, 300 * 2 ** i));
    try {
      await chat.follow(me, live.id, live.last, onEvent, abort.signal);
      error = null;
    } catch (problem) {
      error = problem;
    }
  }
  if (abort.signal.aborted) return;
  const live = all.get(thread)?.live;
  if (live && !isOver(live)) error ??= new Error('The answer ended early. Ask again, or open the conversation later.');
  set(thread, { over: true, error: live && isOver(live) ? null : error });
}

export function ask(me: Me, thread: string, model: string | null, content: Part[], onId?: (id: string) => void): void {
  all.set(thread, { question: content, live: startLive(), over: false, error: null, stopping: false });
  for (const fn of watchers) fn();
  void run(me, thread, (onEvent, signal) => chat.ask(me, { thread, model, content }, onEvent, signal), onId);
}

// Reads an answer that another page of this browser began.
export function follow(me: Me, thread: string, response: string): void {
  if (all.has(thread)) return;
  all.set(thread, { question: null, live: { ...startLive(), id: response }, over: false, error: null, stopping: false });
  for (const fn of watchers) fn();
  void run(me, thread, null);
}

export async function stop(me: Me, thread: string): Promise<void> {
  const id = all.get(thread)?.live.id;
  if (!id) return;
  set(thread, { stopping: true });
  try {
    await chat.cancel(me, id);
  } catch (error) {
    set(thread, { stopping: false });
    throw error;
  }
}

// The conversation's items have all of it now; how it ended stays to be read.
export function settle(thread: string): void {
  const old = all.get(thread);
  if (!old?.over) return;
  if (!old.error && !old.live.problem && old.live.status === 'completed') all.delete(thread);
  else all.set(thread, { ...old, question: null, live: { ...old.live, items: [] } });
  for (const fn of watchers) fn();
}
export function forget(thread: string): void {
  aborts.get(thread)?.abort();
  all.delete(thread);
  for (const fn of watchers) fn();
}
