// SPDX-License-Identifier: Apache-2.0
// Forms from JSON Schemas: one input per argument. Lists and objects are
// written as JSON.
import { useState, type ReactElement } from 'react';
import { Field } from '../../ui/basic';
import { Editor } from '../../ui/editor';
import type { Schema } from './mcp';

export const typeOf = (schema: Schema): string => (Array.isArray(schema.type) ? schema.type.find((t) => t !== 'null') : schema.type) ?? 'string';
const shown = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));

// editor: show a code editor of this language instead of one line.
export function Input({ name, schema, value, onChange, required, editor }: { name: string; schema: Schema; value: unknown; onChange: (value: unknown) => void; required: boolean; editor?: 'python' | 'shell' | 'markdown' | 'text' }): ReactElement {
  const label = `${name}${required ? ' (required)' : ''}`;
  const type = typeOf(schema);
  if (editor && type === 'string') return (
    <div className="field"><span className="label">{label}</span><Editor label={name} value={String(value ?? '')} onChange={onChange} language={editor} minLines={6} />
      <span className="hint">{schema.description}</span></div>
  );
  if (type === 'array' || type === 'object') return <JsonInput label={label} schema={schema} value={value} onChange={onChange} />;
  if (type === 'boolean' && schema.default !== true) return <label className="check"><input type="checkbox" checked={!!value} onChange={(e) => onChange(e.target.checked || undefined)} /><span><strong>{name}</strong> <span className="muted">{schema.description}</span></span></label>;
  const choices = schema.enum ?? (type === 'boolean' ? [true, false] : null);
  const placeholder = schema.default === undefined ? undefined : shown(schema.default);
  return (
    <Field label={label} hint={schema.description}>{(props) => choices
      ? <select {...props} className="input" value={value === undefined ? '' : JSON.stringify(value)} onChange={(e) => onChange(e.target.value === '' ? undefined : JSON.parse(e.target.value))}><option value="">{placeholder === undefined ? '–' : `${placeholder} (default)`}</option>{choices.map((v) => <option key={JSON.stringify(v)} value={JSON.stringify(v)}>{shown(v)}</option>)}</select>
      : type === 'integer' || type === 'number'
        ? <input {...props} className="input" type="number" step={type === 'integer' ? 1 : 'any'} min={schema.minimum} max={schema.maximum} placeholder={placeholder} value={value === undefined ? '' : String(value)} onChange={(e) => onChange(e.target.value === '' ? undefined : Number(e.target.value))} />
        : <input {...props} className="input" dir="auto" maxLength={schema.maxLength} value={String(value ?? '')} placeholder={placeholder} onChange={(e) => onChange(e.target.value || undefined)} />}
    </Field>
  );
}

// Text that is not JSON yet stays in the field and is not sent.
function JsonInput({ label, schema, value, onChange }: { label: string; schema: Schema; value: unknown; onChange: (value: unknown) => void }): ReactElement {
  const [text, setText] = useState(value === undefined ? '' : JSON.stringify(value));
  const [problem, setProblem] = useState<string | null>(null);
  const list = typeOf(schema) === 'array';
  return (
    <Field label={label} hint={schema.description} problem={problem}>{(p) => <input {...p} className="input mono" spellCheck={false} value={text} placeholder={schema.default !== undefined ? JSON.stringify(schema.default) : list ? '[1, 2, 3]' : '{"a": 1}'} onChange={(e) => {
      const next = e.target.value;
      setText(next);
      try {
        const made: unknown = next.trim() ? JSON.parse(next) : undefined;
        if (made !== undefined && (list ? !Array.isArray(made) : typeof made !== 'object' || made === null || Array.isArray(made))) throw new Error();
        setProblem(null);
        onChange(made);
      } catch {
        setProblem(list ? 'A list in JSON, such as [1, 2, 3]' : 'An object in JSON, such as {"a": 1}');
        onChange(undefined);
      }
    }} />}</Field>
  );
}
