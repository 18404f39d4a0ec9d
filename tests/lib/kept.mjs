// SPDX-License-Identifier: Apache-2.0
// Sessions whose files are kept: what an execution says of them in one line,
// putting a session to sleep, and looking at its workspace. Used by the wire
// tests of workspaces.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { allProcesses, until } from './glovebox.mjs';
import { Stream } from './wire.mjs';
import { Workspace } from './workspace.mjs';

const LISTS = ['created', 'modified', 'deleted', 'renamed', 'conflicts', 'refused', 'skipped'];

// What changed: { created: [paths], … }, lists with nothing in them left out.
export function told(execution) {
  const lists = LISTS.map((name) => [name, execution.files[name].map((f) => (f.from ? `${f.from} -> ${f.path}` : f.path))]);
  return Object.fromEntries(lists.filter(([, paths]) => paths.length));
}

export const workspaceOf = (session, key) =>
  new Workspace(session.server, { id: session.made?.workspace ?? session.workspace }, key ?? session.options?.key);

// Waits until a session of a pool with a short cooldown has no sandbox.
export const asleep = (session) =>
  until(async () => (await session.get()).state === 'dormant', { ms: 15_000, every: 50, what: 'dormant' });

// Ends its sandbox from outside, without a word to the daemon.
export async function killSandbox(session) {
  const { init } = await session.onHost();
  process.kill(init, 'SIGKILL');
  await until(() => !allProcesses().some(({ pid, zombie }) => pid === init && !zombie), { what: 'its end' });
}

// Python that writes these: { path: text }.
export const writing = (texts) => `
import os
for path, text in ${JSON.stringify(Object.entries(texts))}:
    path = "/mnt/data/" + path
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
`;

// Python that prints {path: text} of all of /mnt/data as JSON.
export const READING = `
import json, os
found = {}
for at, _, names in os.walk("/mnt/data"):
    for name in names:
        path = os.path.join(at, name)
        if os.path.isfile(path) and not os.path.islink(path):
            found[os.path.relpath(path, "/mnt/data")] = open(path, errors="replace").read()
print(json.dumps(found))
`;

// The execution, which must have gone well.
export async function well(promise) {
  const e = await promise;
  assert.equal(e.outcome, 'ok', `${e.outcome}: ${JSON.stringify(e.error)} ${e.stderr}`);
  return e;
}

// The event stream of an execution that runs, once its output shows the word.
export async function begun(session, body, word = 'began') {
  const stream = await Stream.open(session.server, 'POST', `${session.path}/executions`, { body: { mode: 'stream', ...body }, key: session.options?.key });
  await stream.find((event) => event.event === 'stdout' && event.data.text.includes(word));
  return { stream, id: stream.events[0].data.id, end: async () => (await stream.done()).data };
}

// Every regular file below a folder with its size on disk; what vanishes
// meanwhile is left out.
export function treeOf(dir) {
  return readdirSync(dir, { recursive: true, withFileTypes: true }).flatMap((entry) => {
    const path = join(entry.parentPath ?? entry.path, entry.name);
    try {
      const st = entry.isFile() ? statSync(path) : undefined;
      return st ? [{ path, size: st.size, disk: st.blocks * 512 }] : [];
    } catch {
      return [];
    }
  });
}

export const diskUse = (dir) => treeOf(dir).reduce((sum, file) => sum + file.disk, 0);

// Files of a folder whose name or bytes hold the mark.
export function holding(dir, mark) {
  const named = treeOf(dir).map(({ path }) => path).filter((path) => path.includes(mark));
  const found = spawnSync('grep', ['-rlaF', '--', mark, dir], { encoding: 'utf8', maxBuffer: 1 << 26 });
  return [...new Set([...named, ...found.stdout.split('\n').filter(Boolean)])];
}
