// SPDX-License-Identifier: Apache-2.0
// Data of a screen: fetched when its key changes, again when an event says it
// changed, and never on a timer.
import { useCallback, useEffect, useRef, useState } from 'react';
import { useEvents } from './events';

export interface Loaded<T> {
  data: T | undefined;
  error: unknown;
  loading: boolean;
  reload: () => void;
  set: (data: T) => void;
}

// key null: nothing is fetched. refreshOn: beginnings of event types; accept
// decides per event. Several events in a burst cause one request.
export function useLoad<T>(key: string | null, fetcher: (signal: AbortSignal) => Promise<T>,
  { refreshOn = [], accept }: { refreshOn?: string[]; accept?: (event: { type: string; data: Record<string, unknown> }) => boolean } = {}): Loaded<T> {
  const [state, setState] = useState<{ key: string | null; data?: T; error?: unknown; loading: boolean }>({ key, loading: key !== null });
  const [turn, setTurn] = useState(0);
  const latest = useRef(fetcher);
  latest.current = fetcher;
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);

  useEffect(() => {
    if (key === null) {
      setState({ key, loading: false });
      return undefined;
    }
    const abort = new AbortController();
    setState((old) => (old.key === key ? { ...old, loading: true } : { key, loading: true }));
    latest.current(abort.signal).then(
      (data) => { if (!abort.signal.aborted) setState({ key, data, loading: false }); },
      (error: unknown) => { if (!abort.signal.aborted) setState((old) => ({ key, data: old.data, error, loading: false })); },
    );
    return () => abort.abort();
  }, [key, turn]);

  const reload = useCallback(() => setTurn((n) => n + 1), []);
  useEvents(refreshOn.length ? [...refreshOn, 'stream.resumed'] : ['\0'], (event) => {
    if (event.type !== 'stream.resumed' && accept && !accept(event)) return;
    if (timer.current) return;
    timer.current = setTimeout(() => {
      timer.current = null;
      reload();
    }, 150);
  });
  useEffect(() => () => { if (timer.current) clearTimeout(timer.current); }, []);

  const set = useCallback((data: T) => setState({ key, data, loading: false }), [key]);
  const current = state.key === key ? state : { loading: key !== null, data: undefined, error: undefined };
  return { data: current.data, error: current.error, loading: current.loading, reload, set };
}
