// SPDX-License-Identifier: Apache-2.0
// A conversation as a file that can be shared, and its code as cells of the
// notebook of its workspace.
import { api, ApiError, filePath, path } from '../../api/client';
import { newCell, readNotebook, streamOutput, writeNotebook, type Cell } from '../notebook/model';
import { DEFAULT_PATH } from '../notebook/store';
import { logsOf, picturesOf } from './items';
import { chat, type Item } from './wire';

function cellOf(item: Item, id: string): Cell {
  const outputs: Cell['outputs'] = [];
  const logs = logsOf(item);
  if (logs) outputs.push(streamOutput('stdout', logs));
  for (const url of picturesOf(item)) {
    const [, mime, data] = /^data:(image\/\w+);base64,(.*)$/s.exec(url) ?? [];
    if (mime) outputs.push({ type: 'display', data: { [mime]: data }, metadata: {} });
  }
  return { ...newCell('code', item.code ?? ''), id, outputs };
}

// Adds runs of code to the notebook of the workspace, each once.
export async function intoNotebook(workspace: string, items: Item[]): Promise<void> {
  const at = `${path`/api/workspaces/${workspace}`}/files/${filePath(DEFAULT_PATH)}`;
  let text: string | null = null;
  try {
    text = await api.text(at);
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 404)) throw error;
  }
  const doc = text === null ? { cells: [], metadata: {} } : readNotebook(text);
  const idOf = (item: Item): string => item.id.replace(/[^A-Za-z0-9_-]/g, '').slice(0, 64);
  const fresh = items.filter((item) => item.type === 'code_interpreter_call' && item.code && !doc.cells.some((c) => c.id === idOf(item)));
  if (!fresh.length) return;
  const cells = [...doc.cells.filter((c, i, all) => all.length > 1 || c.source || i > 0), ...fresh.map((item) => cellOf(item, idOf(item)))];
  await api.raw('PUT', at, writeNotebook({ cells, metadata: doc.metadata }), { headers: { 'Content-Type': 'application/x-ipynb+json' } });
}

// Stores the conversation as a file that a link can share; its path.
export async function intoFile(workspace: string, thread: string, title: string): Promise<string> {
  const name = `${title.replace(/[^\p{L}\p{N} _-]+/gu, ' ').replace(/\s+/g, ' ').trim().slice(0, 60) || 'Conversation'}.md`;
  await api.raw('PUT', `${path`/api/workspaces/${workspace}`}/files/${filePath(name)}`, await chat.markdown(thread), { headers: { 'Content-Type': 'text/markdown' } });
  return name;
}
