// SPDX-License-Identifier: Apache-2.0
// A version of an agent as a form, or as the JSON that the API takes. The form
// keeps members of the definition that it has no field for.
import { useState, type FormEvent, type ReactElement } from 'react';
import { api, HeldError, path } from '../../api/client';
import { useLoad } from '../../api/query';
import type { List } from '../../api/types';
import { go, href } from '../../app/router';
import { Button, Field, Notice, Problem, Tabs } from '../../ui/basic';
import { Editor } from '../../ui/editor';
import { Held } from '../../ui/held';
import { Dialog, toast } from '../../ui/overlay';

export interface Tool { type: string; [more: string]: unknown }
export interface Definition { kind?: string; model?: string; instructions?: string; tools?: Tool[]; limits?: Record<string, number>; [more: string]: unknown }
export interface AgentVersion { name: string; number: number; description: string; metadata: Record<string, string>; draft: boolean; definition: Definition; created_by: string; created_by_name: string | null; created_at: string }
export interface Agent { name: string; enabled: boolean; shared: boolean; owner: string; owner_name: string | null; versions: number; latest: AgentVersion | null; created_at: string; updated_at: string }

const NAME = /^[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/;
const limits = [['max_tool_calls', 'Most runs of code', 0, 10_000], ['max_seconds', 'Most seconds', 1, 86_400], ['max_output_tokens', 'Most tokens of an answer', 16, 10_000_000]] as const;
const CODE: Tool = { type: 'code_interpreter', container: { type: 'auto' } };

// agent null: a new one. from: what the form begins with.
export function AgentForm({ agent, from, onClose, onSaved }: { agent: string | null; from: AgentVersion | null; onClose: () => void; onSaved: () => void }): ReactElement {
  const models = useLoad<List<{ name: string; default: boolean }>>('agent models', (signal) => api.get('/api/models', {}, { signal }));
  const [name, setName] = useState(agent ?? '');
  const [description, setDescription] = useState(from?.description ?? '');
  const [definition, setDefinition] = useState<Definition>(from?.definition ?? { tools: [CODE] });
  const [draft, setDraft] = useState(from?.draft ?? false);
  const [json, setJson] = useState<string | null>(null); // the JSON view, while it is open
  const [problem, setProblem] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const [tried, setTried] = useState(false);
  const change = (more: Partial<Definition>) => setDefinition((old) => ({ ...old, ...more }));
  const usable = models.data?.data ?? [];
  const model = definition.model ?? (agent ? '' : (usable.find((m) => m.default) ?? usable[0])?.name ?? '');
  const tools = definition.tools ?? [];
  const runs = tools.some((t) => t.type === 'code_interpreter');
  const others = tools.filter((t) => t.type !== 'code_interpreter');
  const parsed = (): Definition | null => {
    if (json === null) return { ...definition, model };
    try {
      const made: unknown = JSON.parse(json);
      if (typeof made === 'object' && made !== null && !Array.isArray(made)) return made as Definition;
    } catch { /* told below */ }
    setProblem('This is not a JSON object.');
    return null;
  };
  const view = (next: 'form' | 'json') => {
    setProblem(null);
    if (next === 'json') setJson(JSON.stringify({ ...definition, model }, null, 2));
    else {
      const made = parsed();
      if (!made) return;
      setDefinition(made);
      setJson(null);
    }
  };
  const save = async (e?: FormEvent) => {
    e?.preventDefault();
    setTried(true);
    const made = parsed();
    if (!made || !NAME.test(name)) return;
    setBusy(true);
    setError(null);
    const body = { definition: made, description, draft, ...(from?.metadata && Object.keys(from.metadata).length ? { metadata: from.metadata } : {}) };
    try {
      if (agent) {
        const done = await api.post<AgentVersion>(path`/api/agents/${agent}/versions`, body);
        toast(`${agent} has version ${done.number}.`);
      } else {
        await api.post('/api/agents', { name, ...body });
        toast(`The agent ${name} is made.`);
        go(href('agents', name));
      }
      onSaved();
      onClose();
    } catch (refused) {
      setError(refused);
    }
    setBusy(false);
  };
  const limit = (id: string, value: string) => {
    const next = { ...definition.limits };
    if (value === '') delete next[id];
    else next[id] = Number(value);
    change({ limits: Object.keys(next).length ? next : undefined });
  };
  return (
    <Dialog wide title={agent ? `New version of ${agent}` : 'New agent'} onClose={onClose} foot={<><Button onClick={onClose}>Cancel</Button><Button kind="primary" type="submit" form="agent-form" disabled={busy}>{busy ? 'Saving…' : agent ? 'Save as a new version' : 'Make the agent'}</Button></>}>
      <form id="agent-form" className="stack" noValidate onSubmit={(e) => { void save(e); }}>
        <div className="agents-two">
          {!agent && <Field label="Name" hint="Letters, digits and hyphens" problem={tried && !NAME.test(name) ? 'A name has letters, digits and hyphens, and no hyphen at either end.' : null}>{(p) => <input {...p} className="input" autoFocus maxLength={63} spellCheck={false} value={name} onChange={(e) => setName(e.target.value)} />}</Field>}
          <Field label="Description">{(p) => <input {...p} className="input" dir="auto" maxLength={512} value={description} onChange={(e) => setDescription(e.target.value)} />}</Field>
        </div>
        <Tabs label="How the definition is shown" value={json === null ? 'form' : 'json'} onChange={view} tabs={[{ id: 'form', label: 'Form' }, { id: 'json', label: 'JSON' }]} />
        {json !== null ? <div className="field"><span className="label">Definition</span><Editor label="Definition as JSON" value={json} onChange={(text) => { setJson(text); setProblem(null); }} language="json" minLines={14} />{problem && <span className="problem" role="alert">{problem}</span>}</div> : <>
          <Field label="Model">{(p) => <select {...p} className="input" value={model} onChange={(e) => change({ model: e.target.value })}>{!usable.some((m) => m.name === model) && <option value={model}>{model || '–'}</option>}{usable.map((m) => <option key={m.name} value={m.name}>{m.name}{m.default ? ' (default)' : ''}</option>)}</select>}</Field>
          <Field label="Instructions" hint="What the agent is and how it answers; the people who ask do not write it again">{(p) => <textarea {...p} className="input" dir="auto" rows={7} value={definition.instructions ?? ''} onChange={(e) => change({ instructions: e.target.value || undefined })} />}</Field>
          <label className="check"><input type="checkbox" checked={runs} onChange={(e) => change({ tools: e.target.checked ? [...tools, CODE] : others })} />It may run Python in a session of the conversation</label>
          {others.length > 0 && <p className="small muted">It also has {others.length === 1 ? 'a tool' : `${others.length} tools`} of type {[...new Set(others.map((t) => t.type))].join(', ')}; the JSON view edits {others.length === 1 ? 'it' : 'them'}.</p>}
          <fieldset className="agents-limits"><legend>Limits of one answer</legend><div className="agents-two">{limits.map(([id, label, min, max]) => <Field key={id} label={label}>{(p) => <input {...p} className="input" type="number" min={min} max={max} placeholder="none of its own" value={definition.limits?.[id] ?? ''} onChange={(e) => limit(id, e.target.value)} />}</Field>)}</div></fieldset>
          {definition.structured_inputs !== undefined && <Notice><p>The instructions are a template with structured inputs; the JSON view edits them.</p></Notice>}
        </>}
        {agent && <label className="check"><input type="checkbox" checked={draft} onChange={(e) => setDraft(e.target.checked)} />A draft: used only where its number is named</label>}
        {error instanceof HeldError && error.approval ? <Held approval={error.approval} what="the agent" repeat={() => save()} /> : error !== null && <Problem error={error} />}
      </form>
    </Dialog>
  );
}
