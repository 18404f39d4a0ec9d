// SPDX-License-Identifier: Apache-2.0
// The tab's one stream of events (GET /api/events). It continues after a lost
// connection where it stopped; what was missed in between arrives then.
import { useEffect, useRef, useSyncExternalStore } from 'react';
import { ApiError } from './client';
import { readEvents } from './sse';

export interface GloveboxEvent { type: string; data: Record<string, unknown> }
export type StreamState = 'off' | 'connecting' | 'live' | 'waiting';
type Listener = (event: GloveboxEvent) => void;

const ALL = 'session,execution,progress,workspace,approval,policy,network,admin,agent,health,audit';
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;

class EventStream {
  private listeners = new Map<Listener, string[]>();
  private watchers = new Set<() => void>();
  private abort: AbortController | null = null;
  private again: AbortController | null = null;
  private last: string | null = null;
  private audit = false; // the trail itself is read only once a screen wants it
  state: StreamState = 'off';

  // types: kinds of events ('approval', 'execution'), or beginnings of the
  // names of acts ('share.', 'file.delete').
  on(types: string[], fn: Listener): () => void {
    this.listeners.set(fn, types);
    if (types.includes('audit') && !this.audit) {
      this.audit = true;
      this.again?.abort();
    }
    return () => { this.listeners.delete(fn); };
  }

  watch = (fn: () => void): (() => void) => {
    this.watchers.add(fn);
    return () => { this.watchers.delete(fn); };
  };

  private set(state: StreamState): void {
    this.state = state;
    for (const fn of this.watchers) fn();
  }

  start(): void {
    if (this.abort) return;
    this.abort = new AbortController();
    void this.run(this.abort.signal);
  }

  stop(): void {
    this.abort?.abort();
    this.abort = null;
    this.audit = false;
    this.last = null;
    this.set('off');
  }

  private emit(event: GloveboxEvent): void {
    const names = [event.type, event.data.act, event.data.action].filter((name) => typeof name === 'string');
    for (const [fn, types] of [...this.listeners])
      if (types.some((type) => names.some((name) => name === type || `${name}.` === type || name.startsWith(type.endsWith('.') ? type : `${type}.`)))) fn(event);
  }

  private async run(signal: AbortSignal): Promise<void> {
    let wait = FIRST_WAIT_MS;
    let before = false;
    while (!signal.aborted) {
      this.set(before ? 'waiting' : 'connecting');
      try {
        // Aborting this one alone begins the stream again with other types,
        // after the event that was seen last.
        const again = this.again = new AbortController();
        signal.addEventListener('abort', () => again.abort(), { signal: again.signal });
        await readEvents('/api/events', ({ id, event, data }) => {
          if (id) this.last = id;
          let parsed: Record<string, unknown> = {};
          try {
            parsed = JSON.parse(data) as Record<string, unknown>;
          } catch { /* an event without a body */ }
          // The service cannot say what was missed: everything is read again.
          if (event === 'reset') this.emit({ type: 'stream.resumed', data: {} });
          this.emit({ type: event === 'message' && typeof parsed.type === 'string' ? parsed.type : event, data: parsed });
        }, { after: this.last, query: this.audit ? { types: ALL } : {}, signal: again.signal, onOpen: () => {
          wait = FIRST_WAIT_MS;
          this.set('live');
          if (before) this.emit({ type: 'stream.resumed', data: {} });
          before = true;
        } });
      } catch (error) {
        if (this.again?.signal.aborted && !signal.aborted) continue;
        if (signal.aborted || (error instanceof ApiError && error.status === 401)) return;
        // The service no longer has the events after this id: start afresh.
        if (error instanceof ApiError && (error.status === 400 || error.status === 410)) this.last = null;
      }
      if (signal.aborted) return;
      this.set('waiting');
      await new Promise((done) => setTimeout(done, wait + Math.random() * wait / 2));
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    }
  }
}

export const events = new EventStream();

export function useEvents(types: string[], fn: Listener): void {
  const latest = useRef(fn);
  latest.current = fn;
  const key = types.join('\n');
  useEffect(() => events.on(key.split('\n'), (event) => latest.current(event)), [key]);
}

export const useStreamState = (): StreamState => useSyncExternalStore(events.watch, () => events.state);
