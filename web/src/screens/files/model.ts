// SPDX-License-Identifier: Apache-2.0
// Shapes and calls of the routes for workspaces and their files.
import { api, ApiError, filePath, path, type Query } from '../../api/client';
import type { FileInfo, List, Workspace } from '../../api/types';

export interface Folder { type: 'folder'; path: string }
export type Entry = FileInfo | Folder;

// A line of a file's or a workspace's history.
export interface Version {
  workspace: string;
  commit: string;
  number: number;
  at: string;
  kind: string;
  author: string;
  author_name?: string | null;
  session: string | null;
  execution: string | null;
  language: string | null;
  conversation: string | null;
  message: string | null;
  note: string | null;
  change: 'created' | 'modified' | 'deleted' | 'renamed' | 'copied' | 'restored';
  path: string;
  from: string | null;
  file_id: string;
  version: string;
  version_number: number;
  from_version: string | null;
  size: number;
  sha256: string;
  mime_type: string;
  available: boolean;
}

export interface Provenance extends Version { base_commit: string | null; code: string | null; code_sha256: string | null }

export interface Commit { commit: string | null; workspace: string; changes: { path: string; change: string; version: string }[] }

export interface Lock { id: string; path: string; holder: string; holder_name?: string | null; session: string | null; label: string | null; fence: number; acquired_at: string; expires_at: string; token?: string }

export interface Share {
  id: string;
  workspace: string;
  path: string;
  version: string | null;
  mode: 'read' | 'write' | 'upload';
  has_password: boolean;
  downloads: number;
  max_downloads: number | null;
  created_by: string;
  created_by_name?: string | null;
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  url?: string;
}

export interface Collected { versions: number; workspaces: number; uploads: number; blobs: number; bytes: number }

export const baseName = (at: string): string => at.replace(/\/$/, '').split('/').pop() ?? at;
export const folderOf = (at: string): string => at.slice(0, at.replace(/\/$/, '').lastIndexOf('/') + 1);
export const ending = (at: string): string => (/\.([^./]+)$/.exec(at)?.[1] ?? '').toLowerCase();
export const titleOf = (ws: { name: string | null; id: string }): string => ws.name ?? `Unnamed, ${ws.id.slice(0, 11)}…`;

// Tokens of the locks that this tab took: they let its own changes through.
const held = new Map<string, { workspace: string; token: string }>();
export const keepToken = (lock: Lock, workspace: string): void => { if (lock.token) held.set(lock.id, { workspace, token: lock.token }); };
export const tokenOf = (lock: string): string | undefined => held.get(lock)?.token;
export const forgetToken = (lock: string): void => { held.delete(lock); };
export function lockHeaders(workspace: string): Record<string, string> {
  const tokens = [...held.values()].filter((h) => h.workspace === workspace).map((h) => h.token);
  return tokens.length ? { 'X-Glovebox-Lock': tokens.join(', ') } : {};
}

// Every entry of a list, up to a bound.
export async function allOf<T>(at: string, query: Query, cursor: (row: T) => string, { max = 20_000, page = 1000, signal }: { max?: number; page?: number; signal?: AbortSignal } = {}): Promise<{ rows: T[]; complete: boolean }> {
  const rows: T[] = [];
  let after: string | undefined;
  for (;;) {
    const list: List<T> = await api.get(at, { ...query, limit: page, after }, { signal });
    rows.push(...list.data);
    if (!list.has_more || !list.data.length) return { rows, complete: true };
    if (rows.length >= max) return { rows, complete: false };
    after = cursor(list.data.at(-1)!);
  }
}

async function change<T>(method: string, at: string, body: unknown, headers: Record<string, string> = {}, query?: Query): Promise<T> {
  return (await api.request<T>(method, at, body, { headers, query })).data;
}

export const files = {
  workspaces: (deleted: boolean, signal?: AbortSignal) => allOf<Workspace>('/api/workspaces', { deleted: deleted || undefined }, (w) => w.id, { signal }),
  list: (ws: string, query: Query, signal?: AbortSignal): Promise<List<Entry>> => api.get(path`/api/workspaces/${ws}/files`, query, { signal }),
  info: (ws: string, at: string, version?: string | null, signal?: AbortSignal): Promise<FileInfo> => api.get(`${path`/api/workspaces/${ws}/info/`}${filePath(at)}`, { version }, { signal }),
  history: (ws: string, query: Query, signal?: AbortSignal): Promise<List<Version>> => api.get(path`/api/workspaces/${ws}/history`, query, { signal }),
  remove: (ws: string, at: string): Promise<Commit> => change('DELETE', `${path`/api/workspaces/${ws}/files/`}${filePath(at.replace(/\/$/, ''))}`, undefined, lockHeaders(ws), { recursive: at.endsWith('/') || undefined }),
  restore: (ws: string, body: { version?: string; commit?: string; path?: string }): Promise<Commit> => change('POST', path`/api/workspaces/${ws}/restore`, body, lockHeaders(ws)),
  move: (ws: string, from: string, to: string): Promise<Commit> => change('POST', path`/api/workspaces/${ws}/move`, { from, to }, { 'If-None-Match': '*', ...lockHeaders(ws) }),
  copy: (ws: string, from: string, to: string): Promise<Commit> => change('POST', path`/api/workspaces/${ws}/copy`, { from, to }, { 'If-None-Match': '*', ...lockHeaders(ws) }),
  share: (body: Record<string, unknown>): Promise<Share> => change('POST', '/api/shares', body),
  content: (file: string, version: string): string => path`/api/files/${file}/content` + path`?version=${version}`,
};

// Part of a file's bytes; past its end there are none.
export async function bytesOf(file: { file_id: string; version: string }, from: number, to: number, signal?: AbortSignal): Promise<Uint8Array> {
  try {
    const response = await api.raw('GET', files.content(file.file_id, file.version), undefined, { headers: { Range: `bytes=${from}-${to - 1}` }, signal });
    return new Uint8Array(await response.arrayBuffer());
  } catch (error) {
    if (error instanceof ApiError && error.status === 416) return new Uint8Array();
    throw error;
  }
}

// What makes data of a workspace out of date: what is done to it, an execution
// that ended in it, or a gap in the events. actions: beginnings such as 'lock.'.
type Told = { type: string; data: Record<string, unknown> };
export const changesOf = (ws: string | null, ...actions: string[]) => ({
  refreshOn: ['workspace', 'execution', 'reset'],
  accept: ({ type, data }: Told): boolean => {
    if (type === 'reset') return true;
    if (ws !== null && data.workspace !== ws) return false;
    if (type === 'execution') return data.status === 'completed' && actions.includes('file.');
    return actions.some((a) => String(data.action ?? '').startsWith(a));
  },
});
export const FILE_ACTIONS = ['file.', 'workspace.', 'share.put'];
