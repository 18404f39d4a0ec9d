// SPDX-License-Identifier: Apache-2.0
// The chat's side of the service's OpenAI API: conversations, responses and
// their events, models. That API takes no cookie: requests carry a token of ten
// minutes that is minted for this and kept in memory alone.
import { api, ApiError, path, saveBlob, withQuery, type Query } from '../../api/client';
import { eventParser } from '../../api/sse';
import type { List, Me, Scope } from '../../api/types';

// --- shapes ----------------------------------------------------------------------

export interface Annotation { type: string; container_id?: string; file_id?: string; filename?: string; start_index?: number; end_index?: number }
export interface Part { type: string; text?: string; refusal?: string; annotations?: Annotation[]; file_id?: string; filename?: string }
export interface CodeOutput { type: string; logs?: string; url?: string }
export interface Item {
  id: string;
  type: string; // message, code_interpreter_call, reasoning, function_call, …
  role?: string;
  status?: string;
  content?: Part[];
  code?: string | null;
  outputs?: CodeOutput[] | null;
  container_id?: string;
  summary?: { text: string }[];
  name?: string;
  arguments?: string;
}
export interface Reply { id: string; status: string; model: string; error: { code?: string; message: string } | null; incomplete_details: { reason: string } | null; output: Item[] }
export interface Thread { id: string; title?: string | null; last_at?: string; messages?: number; model?: string | null; session?: string | null; workspace?: string | null }
export interface Model { id: string; owned_by?: string }
// In place of a model's name: a named agent.
export const AGENT = 'agent ';

// --- requests --------------------------------------------------------------------

const TOKEN_S = 600;
const WANTED: Scope[] = ['execute', 'files:read', 'files:write'];
const INCLUDE = 'code_interpreter_call.outputs';

let token: { secret: string; until: number; of: string } | null = null;

async function bearer(me: Me): Promise<string> {
  if (token && token.of === me.id && Date.now() < token.until) return token.secret;
  const scopes = WANTED.filter((s) => me.scopes.includes(s) || me.scopes.includes('admin'));
  const made = await api.post<{ secret: string }>('/api/tokens', { ttl_s: TOKEN_S, scopes, name: 'console: chat' });
  token = { secret: made.secret, until: Date.now() + (TOKEN_S - 60) * 1000, of: me.id };
  return token.secret;
}

// A refusal in the words of the service. This API has no hints.
async function refusal(response: Response): Promise<ApiError> {
  const body = await response.json().catch(() => ({})) as { error?: { code?: string | null; message?: string; hint?: string } };
  const code = body.error?.code ?? 'unknown';
  const hint = body.error?.hint ?? (code === 'model_not_found' ? 'An operator adds a model with `glovebox model add`, or in the list of models here.' : null);
  const after = Number(response.headers.get('Retry-After'));
  return new ApiError(response.status, code, body.error?.message ?? `The service answered ${response.status} ${response.statusText}.`, hint, null, after > 0 ? after : null);
}

async function call(me: Me, method: string, at: string, { body, query, signal, accept }: { body?: unknown; query?: Query; signal?: AbortSignal; accept?: string } = {}): Promise<Response> {
  const secret = await bearer(me);
  const form = body instanceof FormData;
  let response: Response;
  try {
    response = await fetch(withQuery(at, query), {
      method, signal, credentials: 'omit', cache: 'no-store', redirect: 'error',
      headers: { Authorization: `Bearer ${secret}`, ...(accept ? { Accept: accept } : {}), ...(body === undefined || form ? {} : { 'Content-Type': 'application/json' }) },
      body: body === undefined ? undefined : form ? body : JSON.stringify(body),
    });
  } catch (error) {
    if ((error as Error).name === 'AbortError') throw error;
    throw new ApiError(0, 'unreachable', 'The service cannot be reached.', 'Check that it runs and that this machine has a network.');
  }
  if (response.ok) return response;
  if (response.status === 401) token = null; // it was revoked or has expired
  throw await refusal(response);
}
const asJson = async <T>(response: Promise<Response>): Promise<T> => (await response).json() as Promise<T>;

// --- conversations -----------------------------------------------------------------

const isThread = (t: Thread): boolean => t.id.startsWith('conv_');
export const titleOf = (t: Thread): string => t.title || 'Untitled chat';
// At most as long as the service takes: 200 bytes.
function cut(title: string): string {
  let text = title.trim();
  while (new TextEncoder().encode(text).length > 200) text = [...text].slice(0, -1).join('');
  return text || 'Chat';
}

export const chat = {
  // Bound keys may not list agents, and need none.
  agents: async (signal?: AbortSignal): Promise<string[]> => {
    try {
      return (await api.get<List<{ name: string; enabled: boolean }>>('/api/agents', { limit: 100 }, { signal })).data.filter((a) => a.enabled).map((a) => a.name).sort();
    } catch (error) {
      if (error instanceof ApiError && (error.status === 403 || error.status === 404)) return [];
      throw error;
    }
  },

  models: async (me: Me, signal?: AbortSignal): Promise<Model[]> => (await asJson<{ data: Model[] }>(call(me, 'GET', '/v1/models', { signal }))).data,

  threads: async (q: string, signal?: AbortSignal, after?: string): Promise<List<Thread>> => {
    const list = await api.get<List<Thread>>('/api/conversations', { limit: 100, after, q }, { signal });
    return { ...list, data: list.data.filter(isThread) };
  },
  thread: (id: string, signal?: AbortSignal): Promise<Thread> => api.get<Thread>(path`/api/conversations/${id}`, {}, { signal }),
  begin: (title: string): Promise<Thread> => api.post<Thread>('/api/conversations', { title: cut(title) }),
  rename: (id: string, title: string): Promise<Thread> => api.patch<Thread>(path`/api/conversations/${id}`, { title: cut(title) }),
  remove: (id: string): Promise<unknown> => api.del(path`/api/conversations/${id}`),
  markdown: (id: string): Promise<string> => api.text(path`/api/conversations/${id}/export`, { format: 'markdown' }),

  // Every item, from the first on.
  items: async (me: Me, id: string, signal?: AbortSignal): Promise<Item[]> => {
    const all: Item[] = [];
    for (let after: string | undefined; ;) {
      const page = await asJson<{ data: Item[]; has_more: boolean; last_id: string | null }>(call(me, 'GET', path`/v1/conversations/${id}/items`, { query: { order: 'asc', limit: 100, after, 'include[]': INCLUDE }, signal }));
      all.push(...page.data);
      if (!page.has_more || !page.last_id || all.length >= 5000) return all;
      after = page.last_id;
    }
  },
  drop: async (me: Me, id: string, item: string): Promise<void> => { await call(me, 'DELETE', path`/v1/conversations/${id}/items/${item}`); },

  upload: async (me: Me, file: File): Promise<{ id: string; filename: string }> => {
    const form = new FormData();
    form.append('purpose', 'user_data');
    form.append('file', file, file.name);
    return asJson(call(me, 'POST', '/v1/files', { body: form }));
  },

  // The name of a file that went with a question; its id once it is deleted.
  fileName: async (me: Me, id: string, signal?: AbortSignal): Promise<string> =>
    asJson<{ filename: string }>(call(me, 'GET', path`/v1/files/${id}`, { signal })).then((f) => f.filename, () => id),

  cancel: async (me: Me, id: string): Promise<void> => { await call(me, 'POST', path`/v1/responses/${id}/cancel`); },

  // Asks, and reads the events of the answer. The answer goes on at the service
  // when this page is closed: background.
  ask: async (me: Me, { thread, model, content }: { thread: string; model: string | null; content: Part[] }, onEvent: (event: StreamEvent) => void, signal: AbortSignal): Promise<void> => {
    // An agent brings its own model and tools.
    const by = model?.startsWith(AGENT) ? { agent_reference: { type: 'agent_reference', name: model.slice(AGENT.length) } }
      : { ...(model ? { model } : {}), tools: [{ type: 'code_interpreter', container: { type: 'auto' } }] };
    const body = {
      ...by, conversation: thread, input: [{ type: 'message', role: 'user', content }],
      include: [INCLUDE], stream: true, background: true, store: true,
    };
    for (let attempt = 1; ; attempt++) {
      try {
        return await read(await call(me, 'POST', '/v1/responses', { body, accept: 'text/event-stream', signal }), onEvent);
      } catch (error) {
        // The answer before is still being stored.
        if (!(error instanceof ApiError && error.code === 'conversation_locked') || attempt === 12) throw error;
        await new Promise((done) => setTimeout(done, 500));
      }
    }
  },
  // Reads an answer that is under way, after the event of that number.
  follow: async (me: Me, id: string, after: number, onEvent: (event: StreamEvent) => void, signal: AbortSignal): Promise<void> =>
    read(await call(me, 'GET', path`/v1/responses/${id}`, { query: { stream: true, starting_after: after >= 0 ? after : undefined, 'include[]': INCLUDE }, accept: 'text/event-stream', signal }), onEvent),

  download: async (me: Me, container: string, file: string, name: string): Promise<void> => {
    const response = await call(me, 'GET', path`/v1/containers/${container}/files/${file}/content`);
    saveBlob(await response.blob(), name);
  },
};

// --- events --------------------------------------------------------------------------

export interface StreamEvent {
  type: string;
  sequence_number?: number;
  response?: Reply;
  item?: Item;
  item_id?: string;
  output_index?: number;
  delta?: string;
  annotation?: Annotation;
  error?: { message?: string; code?: string };
  message?: string;
  pending_approval?: { id?: string };
}

async function read(response: Response, onEvent: (event: StreamEvent) => void): Promise<void> {
  const parse = eventParser(({ data }) => {
    let event: StreamEvent;
    try {
      event = JSON.parse(data) as StreamEvent;
    } catch {
      return; // not ours
    }
    if (event && typeof event.type === 'string') onEvent(event);
  });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    parse(value);
  }
}

// One answer while it comes: its items so far, and how it ended.
// held: the approval that its code waits for at the moment.
export interface Live { held: string | null; id: string | null; last: number; items: Item[]; status: string; problem: string | null; model: string | null }
export const startLive = (): Live => ({ held: null, id: null, last: -1, items: [], status: 'in_progress', problem: null, model: null });

const addText = (item: Item, delta: string): Item => {
  const part = item.content?.at(-1) ?? { type: 'output_text', text: '', annotations: [] };
  return { ...item, content: [...(item.content ?? []).slice(0, -1), { ...part, text: (part.text ?? part.refusal ?? '') + delta }] };
};

// The answer after one more event. An event that was seen before changes nothing.
export function reduce(live: Live, event: StreamEvent): Live {
  const number = event.sequence_number;
  if (typeof number === 'number') {
    if (number <= live.last) return live;
    live = { ...live, last: number };
  }
  if (event.type !== 'keepalive' && live.held) live = { ...live, held: null };
  const change = (fn: (item: Item) => Item): Live => ({ ...live, items: live.items.map((item) => (item.id === event.item_id ? fn(item) : item)) });
  switch (event.type) {
    case 'response.created': case 'response.queued': case 'response.in_progress':
      return { ...live, id: event.response?.id ?? live.id, model: event.response?.model ?? live.model };
    case 'response.output_item.added':
      return event.item?.id && !live.items.some((i) => i.id === event.item!.id) ? { ...live, items: [...live.items, event.item] } : live;
    case 'response.output_item.done':
      if (!event.item?.id) return live;
      return live.items.some((i) => i.id === event.item!.id) ? { ...live, items: live.items.map((i) => (i.id === event.item!.id ? event.item! : i)) } : { ...live, items: [...live.items, event.item] };
    case 'response.output_text.delta': case 'response.refusal.delta':
      return typeof event.delta === 'string' ? change((item) => addText(item, event.delta!)) : live;
    case 'response.output_text.annotation.added':
      return event.annotation ? change((item) => ({ ...item, content: (item.content ?? []).map((p, i, all) => (i === all.length - 1 ? { ...p, annotations: [...(p.annotations ?? []), event.annotation!] } : p)) })) : live;
    case 'response.code_interpreter_call_code.delta':
      return typeof event.delta === 'string' ? change((item) => ({ ...item, code: (item.code ?? '') + event.delta! })) : live;
    case 'response.code_interpreter_call.interpreting':
      return change((item) => ({ ...item, status: 'interpreting' }));
    case 'response.completed': case 'response.incomplete': case 'response.failed': {
      const reply = event.response;
      if (!reply) return { ...live, status: 'failed', problem: 'The service ended the answer without a reason.' };
      const why = reply.incomplete_details?.reason;
      const problem = reply.error?.message ?? (reply.status === 'cancelled' ? null : why === 'max_output_tokens' ? 'The answer is cut: its limit of tokens was reached.' : why === 'content_filter' ? 'The server of the model withheld the rest.' : reply.status === 'incomplete' ? 'The answer is incomplete.' : live.problem);
      return { ...live, status: reply.status, problem, items: reply.output?.length ? reply.output.map((item) => ({ ...item, outputs: item.outputs ?? live.items.find((i) => i.id === item.id)?.outputs })) : live.items };
    }
    case 'keepalive': // sent in silences; says so when code is held meanwhile
      return event.pending_approval?.id && /^apr_[0-9a-f]{8,64}$/.test(event.pending_approval.id) ? { ...live, held: event.pending_approval.id } : live;
    case 'error':
      return { ...live, problem: event.error?.message ?? event.message ?? 'The answer failed.' };
    default:
      return live;
  }
}
export const isOver = (live: Live): boolean => live.status !== 'in_progress';

// The approval that a run of code waits for.
export function heldBy(item: Item): string | null {
  if (item.type !== 'code_interpreter_call' || item.status === 'completed') return null;
  for (const out of item.outputs ?? []) {
    const found = /\bapr_[0-9a-f]{8,64}\b/.exec(out.logs ?? '');
    if (found) return found[0];
  }
  return null;
}

// A file that an answer links to: sandbox:/mnt/data/x, or /mnt/data/x alone.
export function sandboxPath(href: string): string | null {
  const found = /^(?:sandbox:)?\/mnt\/data\/(.+)$/.exec(href.trim());
  if (!found) return null;
  try {
    return decodeURIComponent(found[1]);
  } catch {
    return found[1];
  }
}
