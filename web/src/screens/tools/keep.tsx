// SPDX-License-Identifier: Apache-2.0
// "Keep this as a tool": a name, a description and typed parameters for code
// that worked. The same dialog edits a tool, which adds a version.
import { useEffect, useRef, useState, type FormEvent, type ReactElement } from 'react';
import { api, HeldError, path } from '../../api/client';
import { useLoad } from '../../api/query';
import type { List, Workspace } from '../../api/types';
import { go, href } from '../../app/router';
import { Button, Field, Problem } from '../../ui/basic';
import { Editor } from '../../ui/editor';
import { Held } from '../../ui/held';
import { Dialog, toast } from '../../ui/overlay';
import { typeOf } from './form';
import type { Schema } from './mcp';

export interface SavedTool {
  workspace: string;
  name: string;
  number: number;
  description: string;
  language: 'python' | 'shell';
  parameters: Schema;
  code: string;
  timeout_s: number | null;
  execution: string | null;
  created_by: string;
  created_by_name: string | null;
  created_at: string;
}

// What the dialog begins with. execution: where the code comes from; it is
// named as the source as long as the code is not changed.
export interface Draft { workspace?: string | null; execution?: string | null; code: string; language: 'python' | 'shell'; tool?: SavedTool }

interface Row { key: number; name: string; required: boolean; schema: Schema; fallback: string; problem: string | null }
const types = [['string', 'text'], ['integer', 'whole number'], ['number', 'number'], ['boolean', 'yes or no'], ['array', 'list'], ['object', 'object']] as const;
let nextKey = 1;

const rowsOf = (schema: Schema | undefined): Row[] => Object.entries(schema?.properties ?? {}).map(([name, of]) => ({
  key: nextKey++, name, required: (schema?.required ?? []).includes(name), schema: of, problem: null,
  fallback: of.default === undefined ? '' : typeof of.default === 'string' ? of.default : JSON.stringify(of.default),
}));

const NAME = /^[a-z][a-z0-9_]*$/;

// A default is text, or JSON of the parameter's type.
function defaultOf(row: Row): unknown {
  if (row.fallback === '') return undefined;
  if (typeOf(row.schema) === 'string') return row.fallback;
  return JSON.parse(row.fallback) as unknown;
}

function schemaOf(rows: Row[]): { schema: Schema; problems: Map<number, string> } {
  const problems = new Map<number, string>();
  const properties: Record<string, Schema> = {};
  for (const row of rows) {
    if (!NAME.test(row.name)) problems.set(row.key, 'A name has lower-case letters, digits and _, a letter first.');
    else if (Object.hasOwn(properties, row.name)) problems.set(row.key, 'Another parameter has this name.');
    const { default: _, ...rest } = row.schema;
    try {
      const value = defaultOf(row);
      properties[row.name] = value === undefined ? rest : { ...rest, default: value };
    } catch {
      problems.set(row.key, 'The default is not of this type.');
      properties[row.name] = rest;
    }
  }
  const required = rows.filter((r) => r.required).map((r) => r.name);
  return { schema: { properties, ...(required.length ? { required } : {}) }, problems };
}

function Parameters({ rows, setRows, problems }: { rows: Row[]; setRows: (rows: Row[]) => void; problems: Map<number, string> }): ReactElement {
  const set = (key: number, change: Partial<Row>) => setRows(rows.map((r) => (r.key === key ? { ...r, ...change } : r)));
  const list = useRef<HTMLFieldSetElement>(null);
  const add = () => {
    setRows([...rows, { key: nextKey++, name: '', required: true, schema: { type: 'string' }, fallback: '', problem: null }]);
    requestAnimationFrame(() => list.current?.querySelector<HTMLInputElement>('.keep-row:last-of-type input')?.focus());
  };
  return (
    <fieldset className="keep-parameters" ref={list}>
      <legend>Parameters</legend>
      <p className="small muted">Each is a variable of the code. Remove the lines of the code that set them.</p>
      {rows.map((row, i) => (
        <div key={row.key} className="keep-row" role="group" aria-label={`Parameter ${i + 1}`}>
          <Field label="Name" problem={problems.get(row.key)}>{(p) => <input {...p} className="input mono" spellCheck={false} maxLength={64} value={row.name} onChange={(e) => set(row.key, { name: e.target.value })} />}</Field>
          <Field label="Type">{(p) => <select {...p} className="input" value={typeOf(row.schema)} onChange={(e) => set(row.key, { schema: { ...row.schema, type: e.target.value }, fallback: '' })}>{types.map(([id, label]) => <option key={id} value={id}>{label}</option>)}</select>}</Field>
          <Field label="Default">{(p) => <input {...p} className="input" value={row.fallback} onChange={(e) => set(row.key, { fallback: e.target.value, ...(e.target.value ? { required: false } : {}) })} />}</Field>
          <Field label="Description">{(p) => <input {...p} className="input" dir="auto" value={row.schema.description ?? ''} onChange={(e) => set(row.key, { schema: { ...row.schema, description: e.target.value || undefined } })} />}</Field>
          <label className="check"><input type="checkbox" checked={row.required} onChange={(e) => set(row.key, { required: e.target.checked })} />required</label>
          <Button compact kind="plain" icon="trash" label={`Remove parameter ${row.name || i + 1}`} onClick={() => setRows(rows.filter((r) => r.key !== row.key))} />
        </div>
      ))}
      <Button compact icon="plus" disabled={rows.length >= 32} onClick={add}>Add a parameter</Button>
    </fieldset>
  );
}

export function KeepDialog({ draft, onClose, onSaved }: { draft: Draft; onClose: () => void; onSaved?: (tool: SavedTool) => void }): ReactElement {
  const old = draft.tool;
  const [name, setName] = useState(old?.name ?? '');
  const [description, setDescription] = useState(old?.description ?? '');
  const [workspace, setWorkspace] = useState(old?.workspace ?? draft.workspace ?? '');
  const [language, setLanguage] = useState(draft.language);
  const [code, setCode] = useState(draft.code);
  const [rows, setRows] = useState<Row[]>(() => rowsOf(old?.parameters));
  const [tried, setTried] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const workspaces = useLoad<List<Workspace>>(workspace && (old || draft.workspace) ? null : 'keep workspaces', (signal) => api.get('/api/workspaces', { limit: 200 }, { signal }));
  const writable = workspaces.data?.data.filter((w) => w.role !== 'viewer');
  useEffect(() => { if (!workspace && writable?.length) setWorkspace(writable[0].id); }, [writable?.length]);
  const { schema, problems } = schemaOf(rows);
  const save = async (e?: FormEvent) => {
    e?.preventDefault();
    setTried(true);
    if (problems.size || !NAME.test(name) || !workspace) return;
    setBusy(true);
    setError(null);
    try {
      const source = draft.execution && code === draft.code && !old ? { execution: draft.execution } : { code, language };
      const made = await api.post<SavedTool>(path`/api/workspaces/${workspace}/tools`, { name, ...(description ? { description } : {}), ...(rows.length ? { parameters: schema } : {}), ...(old?.timeout_s ? { timeout_s: old.timeout_s } : {}), ...source });
      toast(`The tool ${made.name} has version ${made.number}.`, { link: { to: href('tools', 'saved', made.workspace, made.name), label: 'Open it' } });
      onSaved?.(made);
      onClose();
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
  };
  return (
    <Dialog wide title={old ? `Edit ${old.name}` : 'Keep as a tool'} onClose={onClose} foot={<><Button onClick={onClose}>Cancel</Button><Button kind="primary" type="submit" form="keep-tool" disabled={busy}>{busy ? 'Saving…' : old ? 'Save as a new version' : 'Keep'}</Button></>}>
      <form id="keep-tool" className="stack" noValidate onSubmit={(e) => { void save(e); }} onKeyDown={(e) => e.stopPropagation()}>
        <div className="keep-two">
          <Field label="Name" hint="What people and models call it" problem={tried && !NAME.test(name) ? 'A name has lower-case letters, digits and _, a letter first.' : null}>{(p) => <input {...p} className="input mono" autoFocus={!old} readOnly={!!old} spellCheck={false} maxLength={48} value={name} onChange={(e) => setName(e.target.value)} />}</Field>
          {!old && !draft.workspace && <Field label="Workspace" hint="Its members share the tool" problem={writable?.length === 0 ? 'You need a workspace first.' : null}>{(p) => <select {...p} className="input" value={workspace} onChange={(e) => setWorkspace(e.target.value)}>{(writable ?? []).map((w) => <option key={w.id} value={w.id}>{w.name || w.id}</option>)}</select>}</Field>}
          {!draft.execution && <Field label="Language">{(p) => <select {...p} className="input" value={language} onChange={(e) => setLanguage(e.target.value as 'python' | 'shell')}><option value="python">Python</option><option value="shell">Shell</option></select>}</Field>}
        </div>
        <Field label="Description" hint="What it does and returns: models choose tools by it">{(p) => <input {...p} className="input" dir="auto" maxLength={1000} value={description} onChange={(e) => setDescription(e.target.value)} />}</Field>
        <Parameters rows={rows} setRows={setRows} problems={tried ? problems : new Map()} />
        <div className="field"><span className="label">Code</span><Editor label="Code of the tool" value={code} onChange={setCode} language={language} minLines={5} /></div>
        {error instanceof HeldError && error.approval ? <Held approval={error.approval} what="the tool" repeat={() => save()} /> : error !== null && <Problem error={error} />}
      </form>
    </Dialog>
  );
}

export const openTool = (tool: SavedTool): void => go(href('tools', 'saved', tool.workspace, tool.name));
