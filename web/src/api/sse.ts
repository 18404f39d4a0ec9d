// SPDX-License-Identifier: Apache-2.0
// Server-sent events read from a fetch, because EventSource cannot send the
// console's header.
import { api, type Query } from './client';

export interface ServerEvent { id: string | null; event: string; data: string }

// Takes text in pieces of any size and calls back for each whole event.
export function eventParser(onEvent: (event: ServerEvent) => void): (piece: string) => void {
  let rest = '';
  let id: string | null = null;
  let name = 'message';
  let data: string[] = [];
  return (piece) => {
    const lines = (rest + piece).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') {
        if (data.length) onEvent({ id, event: name, data: data.join('\n') });
        name = 'message';
        data = [];
        continue;
      }
      if (line.startsWith(':')) continue;
      const colon = line.indexOf(':');
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (field === 'data') data.push(value);
      else if (field === 'event') name = value;
      else if (field === 'id') id = value;
    }
  };
}

// Reads one stream to its end.
export async function readEvents(at: string, onEvent: (event: ServerEvent) => void, { after, query, signal, onOpen, method = 'GET', body }:
  { after?: string | null; query?: Query; signal?: AbortSignal; onOpen?: () => void; method?: string; body?: unknown } = {}): Promise<void> {
  const response = await api.raw(method, at, body === undefined ? undefined : JSON.stringify(body), {
    query,
    signal,
    headers: {
      Accept: 'text/event-stream',
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      ...(after ? { 'Last-Event-ID': after } : {}),
    },
  });
  onOpen?.();
  const parse = eventParser(onEvent);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    parse(value);
  }
}
