// SPDX-License-Identifier: Apache-2.0
// The simulator: a request as a form, the decision, and every condition that led to it.
import { useState, type ReactElement } from 'react';
import { api } from '../../api/client';
import { useLoad } from '../../api/query';
import type { List, Session } from '../../api/types';
import { useMay } from '../../app/me';
import { go, href } from '../../app/router';
import { Button, Chip, durationText, Field, Notice, Problem, sizeText } from '../../ui/basic';
import { shortId, toUtc } from '../../ui/govern';
import { toast } from '../../ui/overlay';
import { addCase } from './cases';
import { useDraft } from './draft';
import { actionNames, requestFields, verdictTones, type Explained, type FieldSpec, type PolicyState, type RequestFields } from './types';

const words = { allow: 'Allowed', ask: 'Held for an approval', deny: 'Denied' };

export function Decision({ found }: { found: Explained }): ReactElement {
  const caps = [found.limit.timeout_s && `at most ${durationText(found.limit.timeout_s * 1000)}`, found.limit.output_bytes && `at most ${sizeText(found.limit.output_bytes)} of output`, found.verdict === 'ask' && found.expires_s > 0 && `waits ${durationText(found.expires_s * 1000)}`].filter(Boolean);
  return (
    <Notice tone={verdictTones[found.verdict]}>
      <p><strong>{words[found.verdict]}</strong> by {found.rule === 'default' ? 'the default' : <>the rule <code>{found.rule}</code></>} of <code>{found.layer}</code>, version {found.version}{found.reason && <>: <q dir="auto">{found.reason}</q></>}.{caps.length > 0 && ` ${caps.join(', ')}.`}</p>
    </Notice>
  );
}

function Trace({ found }: { found: Explained }): ReactElement {
  return <div className="stack">
    {found.versions.map((v, i) => <section key={i} className="stack tight" aria-label={`Version ${v.version}`}>
      {found.versions.length > 1 && <h3>Version {v.version}, {v.held === 'current' ? 'in force' : 'the session is held to it'}</h3>}
      {v.layers.map((layer) => <div key={layer.layer} className="panel">
        <div className="row spread"><h3><code>{layer.layer}</code></h3><span className="row"><span className="muted small">{layer.rule === 'default' ? 'no rule matches: its default' : <>rule <code>{layer.rule}</code></>}</span><Chip tone={verdictTones[layer.verdict]}>{layer.verdict}</Chip></span></div>
        <ol className="policy-trace">
          {layer.rules.map((rule) => <li key={rule.rule} className={rule.matches ? 'matches' : rule.asked ? '' : 'skipped'}>
            <div className="row"><strong><code>{rule.rule}</code></strong><span className="muted small">{rule.matches ? `matches, so ${rule.then}` : rule.asked ? 'does not match' : 'not evaluated: an earlier rule decided'}</span></div>
            {rule.conditions.length > 0 && <ul>{rule.conditions.map((c) => <li key={c.key}><span className={c.holds ? 'policy-good' : 'policy-bad'}>{c.holds ? '✓' : '✗'}<span className="visually-hidden">{c.holds ? 'holds' : 'does not hold'}</span></span> <code>{c.key}</code> must be <code>{c.wants}</code>, is {c.is === null ? <span className="muted">not given</span> : <code>{c.is}</code>}</li>)}</ul>}
          </li>)}
        </ol>
      </div>)}
    </section>)}
  </div>;
}

export function Explain({ state, operator }: { state: PolicyState; operator: boolean }): ReactElement {
  const draft = useDraft();
  const mayExecute = useMay('execute');
  const [action, setAction] = useState<string>('execute');
  const [given, setGiven] = useState<Record<string, string>>({ language: 'shell' });
  const [session, setSession] = useState('');
  const [which, setWhich] = useState<'force' | 'draft'>(draft ? 'draft' : 'force');
  const [found, setFound] = useState<Explained | null>(null);
  const [error, setError] = useState<unknown>(null);
  const { data: sessions } = useLoad<List<Session>>(mayExecute ? 'explain-sessions' : null, (signal) => api.get('/api/sessions', { limit: 100 }, { signal }));
  const fields = requestFields.filter((f) => (!f.of || f.of.includes(action)) && (operator || f.name !== 'tenant') && !(session && ['pool', 'runtime'].includes(f.name)));
  const request = (): RequestFields => {
    const out: RequestFields = { action };
    for (const f of fields) {
      const raw = given[f.name]?.trim();
      if (!raw) continue;
      if (f.kind === 'number') out[f.name] = Number(raw);
      else if (f.kind === 'list') out[f.name] = raw.split(',').map((w) => w.trim()).filter(Boolean);
      else if (f.kind === 'time') out[f.name] = toUtc(raw)!;
      else out[f.name] = raw;
    }
    return out;
  };
  const text = which === 'draft' && draft ? draft.text : undefined;
  const explain = async () => {
    setError(null);
    try {
      setFound(await api.post<Explained>('/api/policy/explain', { request: request(), ...(text ? { text } : {}), ...(session ? { session } : {}) }));
    } catch (problem) {
      setFound(null);
      setError(problem);
    }
  };
  const input = (f: FieldSpec) => <Field key={f.name} label={f.label} hint={f.hint}>{(p) => f.kind === 'choice'
    ? <select {...p} className="input" value={given[f.name] ?? ''} onChange={(e) => setGiven({ ...given, [f.name]: e.target.value })}><option value="">not given</option>{f.choices!.map((c) => <option key={c}>{c}</option>)}</select>
    : <input {...p} className="input" dir="auto" type={f.kind === 'number' ? 'number' : f.kind === 'time' ? 'datetime-local' : 'text'} min={f.kind === 'number' ? 0 : undefined} value={given[f.name] ?? ''} onChange={(e) => setGiven({ ...given, [f.name]: e.target.value })} />}</Field>;
  const own = fields.filter((f) => f.of);
  const common = fields.filter((f) => !f.of);
  return (
    <div className="policy-columns">
      <form className="panel stack" onSubmit={(e) => {
        e.preventDefault();
        void explain();
      }}>
        <h2>A request</h2>
        <div className="govern-columns">
          <Field label="Action">{(p) => <select {...p} className="input" value={action} onChange={(e) => setAction(e.target.value)}>{actionNames.map((a) => <option key={a}>{a}</option>)}</select>}</Field>
          {draft && operator && <Field label="Policy">{(p) => <select {...p} className="input" value={which} onChange={(e) => setWhich(e.target.value as 'force')}><option value="force">in force, version {state.version}</option><option value="draft">the draft</option></select>}</Field>}
          {sessions && sessions.data.length > 0 && <Field label="In the session" hint="takes its pool, runtime and pinned version">{(p) => <select {...p} className="input" value={session} onChange={(e) => setSession(e.target.value)}><option value="">none</option>{sessions.data.map((s) => <option key={s.id} value={s.id}>{s.name ?? s.identifier ?? shortId(s.id)} ({s.pool})</option>)}</select>}</Field>}
          {own.map(input)}
        </div>
        <details><summary className="policy-more">Who, how and when</summary><div className="govern-columns policy-inner">{common.map(input)}</div></details>
        <div className="row">
          <Button kind="primary" type="submit">What would happen?</Button>
          {found && operator && <Button onClick={() => {
            addCase({ name: `${action} ${given.language ?? given.host ?? given.file ?? given.package ?? ''}`.trim(), request: request(), verdict: found.verdict, rule: found.rule });
            toast('Kept as a test case.');
            go(href('policy', 'cases'));
          }}>Keep as a test case</Button>}
        </div>
      </form>
      <div className="stack" aria-live="polite">
        {error !== null && <Problem error={error} />}
        {found ? <><Decision found={found} /><Trace found={found} /></> : error === null && <div className="panel"><h2>The decision</h2><p className="muted">Describe a request and ask what would happen. Nothing is run, and nothing is recorded.</p></div>}
      </div>
    </div>
  );
}
