// SPDX-License-Identifier: Apache-2.0
// The one way to the daemon. Every request carries the console's header and
// the cookie; a refusal becomes an ApiError with the daemon's own words.

export interface Quota { name: string; limit: number; used: number; until_ms?: number }

export class ApiError extends Error {
  constructor(
    readonly status: number, // 0: the service could not be reached
    readonly code: string,
    message: string,
    readonly hint: string | null = null,
    readonly quota: Quota | null = null,
    readonly retryAfter: number | null = null,
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

// Policy, or four eyes, holds the request: nothing was done. Another person
// decides; the same request then succeeds once.
export class HeldError extends ApiError {
  constructor(readonly approval: string | null, message: string) {
    super(202, 'pending_approval', message, 'Another person must approve it first. Repeat it after the approval.');
  }
}

export type Query = Record<string, string | number | boolean | null | undefined>;
export interface Options { query?: Query; headers?: Record<string, string>; signal?: AbortSignal }
export interface Answer<T> { status: number; data: T; headers: Headers }

// Called when a request that needs a signed-in person gets 401.
let onSignedOut: () => void = () => {};
export function whenSignedOut(fn: () => void): void { onSignedOut = fn; }

// Joins parts into a path, each percent-encoded: path`/api/files/${id}`.
export function path(strings: TemplateStringsArray, ...values: (string | number)[]): string {
  return strings.reduce((all, text, i) => all + text + (i < values.length ? encodeURIComponent(String(values[i])) : ''), '');
}

// A path inside a workspace: its slashes stay.
export const filePath = (name: string): string => name.split('/').map(encodeURIComponent).join('/');

export function withQuery(at: string, query?: Query): string {
  const parts = Object.entries(query ?? {}).filter(([, v]) => v !== undefined && v !== null && v !== '')
    .map(([k, v]) => `${encodeURIComponent(k)}=${encodeURIComponent(String(v))}`);
  return parts.length ? `${at}${at.includes('?') ? '&' : '?'}${parts.join('&')}` : at;
}

export const consoleHeaders = { 'X-Glovebox-Console': '1' };

async function refusal(response: Response): Promise<ApiError> {
  let body: { error?: { code?: string; message?: string; hint?: string; quota?: Quota } } = {};
  try {
    body = await response.json();
  } catch { /* not JSON: the status says enough */ }
  const after = Number(response.headers.get('Retry-After'));
  return new ApiError(response.status, body.error?.code ?? 'unknown',
    body.error?.message ?? `The service answered ${response.status} ${response.statusText}.`,
    body.error?.hint ?? null, body.error?.quota ?? null, after > 0 ? after : null);
}

// 202 with an error means that the request is held; other 202s are answers.
async function refuseHeld(response: Response): Promise<void> {
  const body = await response.clone().json().catch(() => null) as { error?: { code?: string; message?: string; approval?: string } } | null;
  if (body?.error?.code === 'pending_approval') throw new HeldError(/^apr_[0-9a-f]+$/.test(body.error.approval ?? '') ? body.error.approval! : null, body.error.message ?? 'This needs an approval.');
}

async function send(method: string, at: string, body: BodyInit | undefined, options: Options): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(withQuery(at, options.query), {
      method,
      body,
      headers: { ...consoleHeaders, ...options.headers },
      credentials: 'same-origin',
      cache: 'no-store',
      redirect: 'error',
      signal: options.signal,
    });
  } catch (error) {
    if ((error as Error).name === 'AbortError') throw error;
    throw new ApiError(0, 'unreachable', 'The service cannot be reached.', 'Check that it runs and that this machine has a network.');
  }
  if (response.status === 202) await refuseHeld(response);
  if (response.ok) return response;
  const error = await refusal(response);
  if (error.status === 401 && !at.startsWith('/api/console/')) onSignedOut();
  throw error;
}

async function json<T>(method: string, at: string, body: unknown, options: Options = {}): Promise<Answer<T>> {
  const headers = { ...(body === undefined ? {} : { 'Content-Type': 'application/json' }), ...options.headers };
  const response = await send(method, at, body === undefined ? undefined : JSON.stringify(body), { ...options, headers });
  const text = await response.text();
  const isJson = response.headers.get('Content-Type')?.includes('json');
  return { status: response.status, data: (text && isJson ? JSON.parse(text) : text || undefined) as T, headers: response.headers };
}

export interface Upload { promise: Promise<unknown>; cancel: () => void }

export const api = {
  request: json,
  get: async <T>(at: string, query?: Query, options: Options = {}): Promise<T> => (await json<T>('GET', at, undefined, { ...options, query })).data,
  post: async <T>(at: string, body?: unknown, options?: Options): Promise<T> => (await json<T>('POST', at, body, options)).data,
  put: async <T>(at: string, body?: unknown, options?: Options): Promise<T> => (await json<T>('PUT', at, body, options)).data,
  patch: async <T>(at: string, body?: unknown, options?: Options): Promise<T> => (await json<T>('PATCH', at, body, options)).data,
  del: async <T>(at: string, options?: Options): Promise<T> => (await json<T>('DELETE', at, undefined, options)).data,

  // The plain response, for bytes and streams.
  raw: (method: string, at: string, body?: BodyInit, options: Options = {}): Promise<Response> => send(method, at, body, options),
  blob: async (at: string, query?: Query): Promise<Blob> => (await send('GET', at, undefined, { query })).blob(),
  text: async (at: string, query?: Query): Promise<string> => (await send('GET', at, undefined, { query })).text(),

  // Sends a file and reports how far it is: 0 to 1.
  upload(method: 'PUT' | 'POST', at: string, body: Blob, onProgress: (part: number) => void, headers: Record<string, string> = {}): Upload {
    const request = new XMLHttpRequest();
    const promise = new Promise((done, failed) => {
      request.open(method, at);
      for (const [name, value] of Object.entries({ ...consoleHeaders, ...headers })) request.setRequestHeader(name, value);
      request.upload.onprogress = (event) => { if (event.lengthComputable) onProgress(event.loaded / event.total); };
      request.onload = async () => {
        try {
          if (request.status === 202) await refuseHeld(new Response(request.responseText, { status: 202 }));
        } catch (error) {
          failed(error);
          return;
        }
        if (request.status >= 200 && request.status < 300) {
          onProgress(1);
          done(request.responseText ? JSON.parse(request.responseText) : undefined);
        } else {
          failed(await refusal(new Response(request.responseText, { status: request.status })));
        }
      };
      request.onerror = () => failed(new ApiError(0, 'unreachable', 'The upload was interrupted.', 'Try it again.'));
      request.onabort = () => failed(new ApiError(0, 'cancelled', 'The upload was cancelled.'));
      request.send(body);
    });
    return { promise, cancel: () => request.abort() };
  },
};

// Offers bytes as a download under a name.
export function saveBlob(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name.split('/').pop() || 'download';
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export const messageOf = (error: unknown): string =>
  error instanceof ApiError && error.hint ? `${error.message} ${error.hint}` : error instanceof Error ? error.message : String(error);
