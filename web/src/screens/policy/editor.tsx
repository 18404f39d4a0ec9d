// SPDX-License-Identifier: Apache-2.0
// The editor with validation while typing, and the step that puts a text in force.
import { useEffect, useMemo, useState, type ReactElement } from 'react';
import { api } from '../../api/client';
import { ActionButton, Button, Field, Notice } from '../../ui/basic';
import { Editor, type Mark } from '../../ui/editor';
import { change, Held, useSettled } from '../../ui/govern';
import { LineDiff } from '../../ui/linediff';
import { confirm, Dialog, toast, toastError } from '../../ui/overlay';
import { href } from '../../app/router';
import { loadCases, runCases } from './cases';
import { setDraft, useDraft } from './draft';
import type { PolicyCheck, PolicyState, PolicyVersion } from './types';

const START = `# docs/POLICY.md has the format.
version: 1
default: allow
rules:
  - name: shell-needs-approval
    match: {action: execute, language: shell}
    then: ask
    reason: a person reads shell commands first
    expires_s: 4h
`;

// The daemon names the line: "line 3: unknown key".
export function marksOf(text: string, check: PolicyCheck | null): Mark[] {
  if (!check || check.ok || !check.problem) return [];
  const line = Number(/\bline (\d+)/.exec(check.problem)?.[1] ?? 1);
  const lines = text.split('\n');
  const at = Math.min(Math.max(1, line), lines.length);
  const from = lines.slice(0, at - 1).reduce((n, l) => n + l.length + 1, 0);
  return [{ from: from + /^\s*/.exec(lines[at - 1])![0].length, to: from + lines[at - 1].length, severity: 'error', message: [check.problem, check.hint].filter(Boolean).join(' – ') }];
}

// The daemon's opinion of a text, asked while it is typed.
export function useCheck(text: string): { check: PolicyCheck | null; of: string } {
  const settled = useSettled(text, 250);
  const [state, setState] = useState<{ check: PolicyCheck | null; of: string }>({ check: null, of: '' });
  useEffect(() => {
    if (!settled.trim()) {
      setState({ check: null, of: settled });
      return undefined;
    }
    const abort = new AbortController();
    api.post<PolicyCheck>('/api/policy/check', { text: settled }, { signal: abort.signal })
      .then((check) => setState({ check, of: settled }), (error: unknown) => { if (!abort.signal.aborted) setState({ check: { ok: false, problem: error instanceof Error ? error.message : String(error), hint: null }, of: settled }); });
    return () => abort.abort();
  }, [settled]);
  return state;
}

function Confirm({ state, text, note: firstNote, onClose, onDone }: { state: PolicyState; text: string; note: string; onClose: () => void; onDone: () => void }): ReactElement {
  const [note, setNote] = useState(firstNote);
  const [held, setHeld] = useState<string | null>(null);
  const [failing, setFailing] = useState<string[] | null>(null);
  useEffect(() => {
    void runCases(loadCases(), text).then((results) => setFailing(results.filter((r) => !r.ok).map((r) => r.test.name)), () => setFailing([]));
  }, [text]);
  return (
    <Dialog wide title="Put this policy in force?" onClose={onClose} foot={<>
      <Button onClick={onClose}>Cancel</Button>
      <ActionButton kind="primary" onError={toastError} action={async () => {
        const made = await change<PolicyVersion>('PUT', '/api/policy', { text, ...(note.trim() ? { note: note.trim() } : {}) });
        if (made.approval) {
          setHeld(made.approval);
          return;
        }
        toast(`Version ${made.data!.version} is in force.`);
        setDraft(null);
        onDone();
      }}>Put in force</ActionButton>
    </>}>
      {held && <Held approval={held} />}
      {failing && failing.length > 0 && <Notice tone="warn"><p>{failing.length} of your <a href={href('policy', 'cases')}>test cases</a> {failing.length === 1 ? 'fails' : 'fail'} with this text: <bdi>{failing.slice(0, 3).join(', ')}</bdi>{failing.length > 3 && ' and others'}.</p></Notice>}
      <p className="muted small">It applies to all tenants at once. Live sessions keep the stricter of their version and this one.</p>
      <LineDiff before={state.text ?? ''} after={text} label="Changes to the policy in force" />
      <Field label="Note" hint="What changes, and why. It is kept with the version.">{(p) => <input {...p} className="input" dir="auto" maxLength={200} value={note} onChange={(e) => setNote(e.target.value)} />}</Field>
    </Dialog>
  );
}

export function PolicyEditor({ state, readOnly, onDone }: { state: PolicyState; readOnly: boolean; onDone: () => void }): ReactElement {
  const draft = useDraft();
  const text = draft?.text ?? state.text ?? '';
  const { check, of } = useCheck(text);
  const [asking, setAsking] = useState(false);
  const marks = useMemo(() => (of === text ? marksOf(text, check) : []), [check, of, text]);
  const changed = draft !== null && draft.text !== (state.text ?? '');
  const write = (next: string) => {
    if (next === (state.text ?? '')) setDraft(null);
    else setDraft({ text: next, note: draft?.note ?? '', base: draft?.base ?? state.version });
  };
  return (
    <div className="stack">
      {draft && draft.base !== state.version && <Notice tone="warn"><p>Version {state.version} came into force after you began with version {draft.base}. The differences below are to version {state.version}.</p></Notice>}
      <div className="panel flush policy-editor"><Editor value={text} onChange={write} language="yaml" label="Policy, YAML" lineNumbers marks={marks} minLines={16} placeholder="version: 1" /></div>
      <div className="row spread">
        <div className="policy-verdict" role="status">
          {text.trim() === '' ? <span className="muted">Nothing to check.</span> : of !== text || !check ? <span className="muted">Checking…</span>
            : check.ok ? <span className="policy-good">The text is a valid policy.</span> : <span className="policy-bad">{check.problem}{check.hint && ` – ${check.hint}`}</span>}
        </div>
        <div className="row">
          {text === '' && <Button onClick={() => write(START)}>Begin with an example</Button>}
          {changed && <Button onClick={() => {
            void confirm({ title: 'Discard the draft?', text: 'The editor shows the policy in force again.', action: 'Discard', danger: true }).then((yes) => { if (yes) setDraft(null); });
          }}>Discard the draft</Button>}
          {!readOnly && <Button kind="primary" disabled={!changed || !check?.ok || of !== text} onClick={() => setAsking(true)}>Review and put in force…</Button>}
        </div>
      </div>
      {asking && <Confirm state={state} text={text} note={draft?.note ?? ''} onClose={() => setAsking(false)} onDone={() => {
        setAsking(false);
        onDone();
      }} />}
    </div>
  );
}
