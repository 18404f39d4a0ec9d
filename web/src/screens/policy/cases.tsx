// SPDX-License-Identifier: Apache-2.0
// Test cases: requests with the decision they must get. They are kept in this
// browser and can be saved as a file for `glovebox policy test`.
import { useEffect, useRef, useState, type ReactElement } from 'react';
import { api, messageOf, saveBlob } from '../../api/client';
import { href } from '../../app/router';
import { Button, Chip, Empty, Field, Notice } from '../../ui/basic';
import { eachOf } from '../../ui/govern';
import { Dialog, toast, toastError } from '../../ui/overlay';
import { Table } from '../../ui/table';
import { useDraft } from './draft';
import { verdictTones, type Explained, type PolicyState, type RequestFields, type TestCase, type Verdict } from './types';

const KEPT = 'glovebox-policy-cases';
const MOST = 500;

const isCase = (c: unknown): c is TestCase => typeof c === 'object' && c !== null && typeof (c as TestCase).name === 'string' && typeof (c as TestCase).request === 'object' && ['allow', 'ask', 'deny'].includes((c as TestCase).verdict);

export function loadCases(): TestCase[] {
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) ?? '[]') as unknown;
    return Array.isArray(kept) ? kept.filter(isCase).slice(0, MOST) : [];
  } catch {
    return [];
  }
}
function saveCases(cases: TestCase[]): void {
  localStorage.setItem(KEPT, JSON.stringify(cases.slice(0, MOST)));
}
export const addCase = (test: TestCase): void => saveCases([...loadCases(), test]);

export interface CaseResult { test: TestCase; ok: boolean; found: Explained | null; problem: string | null }

// Runs each case against a text, or against the policy in force.
export async function runCases(cases: TestCase[], text?: string): Promise<CaseResult[]> {
  const results = await eachOf(cases, async (test): Promise<CaseResult> => {
    try {
      const found = await api.post<Explained>('/api/policy/explain', { request: test.request, ...(text ? { text } : {}) });
      return { test, found, problem: null, ok: found.verdict === test.verdict && (!test.rule || found.rule === test.rule) };
    } catch (error) {
      return { test, found: null, problem: messageOf(error), ok: false };
    }
  });
  return results.map((r, i) => r ?? { test: cases[i], found: null, problem: 'It could not be run.', ok: false });
}

// A file of cases as the command line reads it. JSON is YAML.
function exportCases(cases: TestCase[], text: string | null): void {
  const file = { cases: cases.map((c) => ({ name: c.name, request: c.request, expect: { verdict: c.verdict, ...(c.rule ? { rule: c.rule } : {}) } })) };
  saveBlob(new Blob([`# Run with: glovebox policy test POLICY.yaml cases.yaml\n${JSON.stringify(file, null, 2)}\n`], { type: 'application/yaml' }), 'cases.yaml');
  if (text) saveBlob(new Blob([text], { type: 'application/yaml' }), 'policy.yaml');
}

function importCases(text: string): TestCase[] {
  const file = JSON.parse(text.replace(/^#.*\n/gm, '')) as { cases?: { name?: string; request?: RequestFields; expect?: { verdict?: Verdict; rule?: string } }[] };
  const known = ['verdict', 'rule'];
  // What the table cannot hold stays with the service's own reader.
  if ('policy' in file || 'policies' in file || file.cases?.some((c) => Object.keys(c.expect ?? {}).some((k) => !known.includes(k)))) throw new Error('more than requests, verdicts and rules');
  return (file.cases ?? []).map((c) => ({ name: String(c.name ?? 'case').slice(0, 200), request: c.request ?? {}, verdict: c.expect?.verdict as Verdict, rule: c.expect?.rule ?? '' })).filter(isCase);
}

interface FileReport { ok: boolean; passed: number; failed: number; cases: { name: string; line: number; ok: boolean; problem: string | null }[] }

function CaseDialog({ first, onClose, onSave }: { first: TestCase; onClose: () => void; onSave: (test: TestCase) => void }): ReactElement {
  const [test, setTest] = useState(first);
  const [request, setRequest] = useState(JSON.stringify(first.request));
  const [problem, setProblem] = useState<string | null>(null);
  return (
    <Dialog title="Test case" onClose={onClose} foot={<><Button onClick={onClose}>Cancel</Button><Button kind="primary" onClick={() => {
      try {
        const parsed = JSON.parse(request) as RequestFields;
        if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) throw new Error('not an object');
        if (!test.name.trim()) return setProblem('Give the case a name.');
        onSave({ ...test, name: test.name.trim(), request: parsed });
      } catch {
        setProblem('The request must be a JSON object, such as {"action":"execute","language":"shell"}.');
      }
      return undefined;
    }}>Keep</Button></>}>
      <Field label="Name">{(p) => <input {...p} className="input" dir="auto" maxLength={200} value={test.name} onChange={(e) => setTest({ ...test, name: e.target.value })} />}</Field>
      <Field label="Request" hint="The keys of match, as JSON." problem={problem}>{(p) => <textarea {...p} className="input mono" rows={3} value={request} onChange={(e) => setRequest(e.target.value)} />}</Field>
      <div className="govern-columns">
        <Field label="Expected decision">{(p) => <select {...p} className="input" value={test.verdict} onChange={(e) => setTest({ ...test, verdict: e.target.value as Verdict })}>{(['allow', 'ask', 'deny'] as const).map((v) => <option key={v}>{v}</option>)}</select>}</Field>
        <Field label="By the rule" hint="empty: any rule">{(p) => <input {...p} className="input" value={test.rule} onChange={(e) => setTest({ ...test, rule: e.target.value })} />}</Field>
      </div>
    </Dialog>
  );
}

export function Cases({ state }: { state: PolicyState }): ReactElement {
  const draft = useDraft();
  const [cases, setCases] = useState(loadCases);
  const [results, setResults] = useState<CaseResult[] | null>(null);
  const [editing, setEditing] = useState<number | 'new' | null>(null);
  const [report, setReport] = useState<{ name: string; found: FileReport } | null>(null);
  const file = useRef<HTMLInputElement>(null);
  const text = draft?.text;
  useEffect(() => {
    let alive = true;
    setResults(null);
    void runCases(cases, text).then((r) => { if (alive) setResults(r); });
    return () => { alive = false; };
  }, [cases, text, state.version]);
  const keep = (next: TestCase[]) => {
    saveCases(next);
    setCases(next);
  };
  const remove = (i: number) => {
    const old = cases;
    keep(cases.filter((_, k) => k !== i));
    toast('The case was removed.', { undo: () => keep(old) });
  };
  const failed = results?.filter((r) => !r.ok).length ?? 0;
  return (
    <div className="stack">
      <div className="row spread">
        <p className="muted policy-lead">Each case is a request and the decision it must get. They run against {text ? 'the draft' : `version ${state.version}`} whenever it changes.</p>
        <div className="row">
          <Button icon="plus" onClick={() => setEditing('new')}>New case</Button>
          <Button icon="upload" onClick={() => file.current?.click()}>Run a file</Button>
          {cases.length > 0 && <Button icon="download" onClick={() => exportCases(cases, text ?? state.text)}>Save as files</Button>}
          <input ref={file} type="file" accept=".yaml,.yml,.json" hidden aria-label="File of test cases" onChange={(e) => {
            const chosen = e.target.files?.[0];
            e.target.value = '';
            void chosen?.text().then(async (t) => {
              setReport(null);
              try {
                const more = importCases(t);
                keep([...cases, ...more]);
                toast(`${more.length} ${more.length === 1 ? 'case' : 'cases'} imported.`);
              } catch {
                // Any other file of cases is run as it is.
                setReport({ name: chosen.name, found: await api.post<FileReport>('/api/policy/test', { cases: t, ...(!/^polic(?:y|ies):/m.test(t) ? { text: text ?? state.text ?? 'version: 1' } : {}) }) });
              }
            }).catch(toastError);
          }} />
        </div>
      </div>
      {report && <Notice tone={report.found.ok ? 'good' : 'bad'} actions={<Button compact onClick={() => setReport(null)}>Dismiss</Button>}>
        <p><bdi>{report.name}</bdi>: {report.found.passed} of {report.found.passed + report.found.failed} cases pass.</p>
        {!report.found.ok && <ul className="govern-list inline">{report.found.cases.filter((c) => !c.ok).slice(0, 50).map((c) => <li key={c.line}>line {c.line}, <bdi>{c.name}</bdi>: {c.problem}</li>)}</ul>}
      </Notice>}
      {cases.length > 0 && results && (failed ? <Notice tone="bad"><p>{failed} of {cases.length} cases {failed === 1 ? 'fails' : 'fail'}.</p></Notice> : <Notice tone="good"><p>{cases.length === 1 ? 'The case passes.' : `All ${cases.length} cases pass.`}</p></Notice>)}
      <Table label="Test cases" rows={cases.map((test, i) => ({ test, i, result: results?.[i] ?? null }))} rowKey={(r) => String(r.i)}
        empty={<Empty title="No test cases yet" action={<a className="button" href={href('policy', 'explain')}>Try a request</a>}>Try a request and keep it with its decision. Cases tell you when a later change of the policy decides otherwise.</Empty>}
        columns={[
          { id: 'result', label: 'Result', cell: (r) => (r.result ? <Chip tone={r.result.ok ? 'good' : 'bad'}>{r.result.ok ? 'passes' : 'fails'}</Chip> : <span className="muted">…</span>), sort: (r) => (r.result?.ok ? 1 : 0) },
          { id: 'name', label: 'Case', cell: (r) => <bdi>{r.test.name}</bdi>, sort: (r) => r.test.name },
          { id: 'request', label: 'Request', cell: (r) => <code>{Object.entries(r.test.request).map(([k, v]) => `${k}: ${String(v)}`).join(', ')}</code> },
          { id: 'expect', label: 'Expected', cell: (r) => <><Chip tone={verdictTones[r.test.verdict]}>{r.test.verdict}</Chip> {r.test.rule && <code>{r.test.rule}</code>}</> },
          { id: 'found', label: 'Found', cell: (r) => (r.result?.found ? <><Chip tone={verdictTones[r.result.found.verdict]}>{r.result.found.verdict}</Chip> <code>{r.result.found.rule}</code></> : <span className="muted">{r.result?.problem ?? '…'}</span>) },
          { id: 'do', label: 'Actions', cell: (r) => <span className="row"><Button compact onClick={() => setEditing(r.i)}>Edit</Button><Button compact icon="trash" label={`Remove ${r.test.name}`} onClick={() => remove(r.i)} /></span> },
        ]} />
      {editing !== null && <CaseDialog first={editing === 'new' ? { name: '', request: { action: 'execute', language: 'python' }, verdict: 'allow', rule: '' } : cases[editing]} onClose={() => setEditing(null)} onSave={(test) => {
        keep(editing === 'new' ? [...cases, test] : cases.map((c, i) => (i === editing ? test : c)));
        setEditing(null);
      }} />}
    </div>
  );
}
