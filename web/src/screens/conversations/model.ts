// SPDX-License-Identifier: Apache-2.0
// The list of conversations.
import { api, ApiError, path } from '../../api/client';
import type { List } from '../../api/types';
import { allOf, files, type Version } from '../files/model';

export interface Conversation { id: string; title?: string | null; first_at: string; last_at: string; messages: number; executions: number; files: number; workspaces?: string[]; snippet?: string | null }
export interface Found extends List<Conversation> { partial?: boolean } // partial: from the newest changes alone

const WORKSPACES = 40; // that changed last
const CHANGES = 1000; // of each

// From the histories of the workspaces that changed last.
async function fromHistories(signal?: AbortSignal): Promise<{ rows: Conversation[]; partial: boolean }> {
  const all = (await files.workspaces(false, signal)).rows.filter((w) => w.commits > 0).sort((a, b) => (a.updated_at < b.updated_at ? 1 : -1));
  const found = new Map<string, { first: string; last: string; messages: Set<string>; executions: Set<string>; files: Set<string>; workspaces: Set<string> }>();
  let partial = all.length > WORKSPACES;
  const read = async (ws: string) => {
    const { rows, complete } = await allOf<Version>(path`/api/workspaces/${ws}/history`, {}, (v) => v.version, { max: CHANGES, signal });
    if (!complete) partial = true;
    for (const v of rows) {
      if (!v.conversation) continue;
      const one = found.get(v.conversation) ?? { first: v.at, last: v.at, messages: new Set(), executions: new Set(), files: new Set(), workspaces: new Set() };
      found.set(v.conversation, one);
      if (v.at < one.first) one.first = v.at;
      if (v.at > one.last) one.last = v.at;
      one.messages.add(v.message ?? '');
      if (v.execution) one.executions.add(v.execution);
      one.files.add(v.file_id);
      one.workspaces.add(v.workspace);
    }
  };
  const queue = all.slice(0, WORKSPACES).map((w) => w.id);
  await Promise.all(Array.from({ length: 4 }, async () => {
    for (let ws = queue.shift(); ws; ws = queue.shift()) await read(ws);
  }));
  const rows = [...found].map(([id, c]): Conversation => ({ id, first_at: c.first, last_at: c.last, messages: c.messages.size, executions: c.executions.size, files: c.files.size, workspaces: [...c.workspaces] }))
    .sort((a, b) => (a.last_at < b.last_at ? 1 : -1));
  return { rows, partial };
}

let hasList = true;
export async function listConversations(query: { q?: string; limit?: number; after?: string }, signal?: AbortSignal): Promise<Found> {
  if (hasList) {
    try {
      return await api.get<List<Conversation>>('/api/conversations', query, { signal });
    } catch (error) {
      if (!(error instanceof ApiError) || (error.status !== 404 && error.status !== 405)) throw error;
      hasList = false;
    }
  }
  const { rows, partial } = await fromHistories(signal);
  const words = (query.q ?? '').toLowerCase().split(/\s+/).filter(Boolean);
  const fit = rows.filter((c) => words.every((w) => c.id.toLowerCase().includes(w)));
  const start = query.after ? fit.findIndex((c) => c.id === query.after) + 1 : 0;
  const end = start + (query.limit ?? 100);
  return { data: fit.slice(start, end), has_more: fit.length > end, partial };
}
