// SPDX-License-Identifier: Apache-2.0
// One request, complete: the code, what it would reach, who asks, and the decision.
import { useId, useState, type ReactElement, type ReactNode } from 'react';
import { api, ApiError, path } from '../../api/client';
import { useLoad } from '../../api/query';
import type { Session } from '../../api/types';
import { useMay, useMe } from '../../app/me';
import { go, href } from '../../app/router';
import { ActionButton, Chip, Loading, Notice, Problem, Time } from '../../ui/basic';
import { Facts, reveal, Section, shortId, ShortText, Who } from '../../ui/govern';
import { LineDiff } from '../../ui/linediff';
import { confirm, toast, toastError } from '../../ui/overlay';
import { Code, type Language } from '../../ui/text';
import { stateLabels, stateTones } from './index';
import { Reach } from './reach';
import { actionLabel, type ApprovalWhole } from './types';

const REASON_BYTES = 500;
const text = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);

// Code, a policy or another long text, with nothing hidden in it.
function LongText({ value, language, label }: { value: string; language: Language; label: string }): ReactElement {
  const shown = reveal(value);
  return <>
    {shown.count > 0 && <Notice tone="warn"><p>{shown.count} invisible {shown.count === 1 ? 'character is' : 'characters are'} shown as <code>{'\\u{…}'}</code>. They can make text look like something else.</p></Notice>}
    <Code text={shown.text} language={language} numbered label={label} />
  </>;
}

// The fields of a payload that have a place of their own.
const placed = new Set(['code', 'about', 'language', 'session', 'metadata', 'conversation', 'message', 'door', 'tool', 'name', 'request', 'source', 'scopes', 'admin', 'text', 'timeout_s', 'fresh', 'clean', 'input', 'destinations', 'mode', 'packages', 'change', 'token']);

function show(value: unknown): ReactNode {
  if (typeof value === 'string') return <ShortText>{value}</ShortText>;
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return String(value);
  return <Code text={reveal(JSON.stringify(value, null, 2)).text} language="json" />;
}

function PolicyChange({ next }: { next: string }): ReactElement {
  const may = useMay('policy:admin');
  const { data } = useLoad<{ text: string | null }>(may ? 'policy-now' : null, (signal) => api.get('/api/policy', {}, { signal }));
  return <>
    {data && <Section title="Difference from the policy in force"><LineDiff before={data.text ?? ''} after={next} label="Difference from the policy in force" /></Section>}
    <Section title="The proposed policy"><LongText value={next} language="yaml" label="The proposed policy" /></Section>
  </>;
}

function Decide({ approval, onDone }: { approval: ApprovalWhole; onDone: (next: ApprovalWhole) => void }): ReactElement {
  const [reason, setReason] = useState('');
  const [problem, setProblem] = useState<string | null>(null);
  const id = useId();
  const bytes = new TextEncoder().encode(reason).length;
  const decide = async (what: 'approve' | 'deny') => {
    setProblem(null);
    if (what === 'deny' && !reason.trim()) return setProblem('Say why you deny it. The requester reads it.');
    if (bytes > REASON_BYTES) return setProblem(`The reason has ${bytes} bytes; ${REASON_BYTES} is the most.`);
    try {
      const next = await api.post<ApprovalWhole>(path`/api/approvals/${approval.id}/` + what, reason.trim() ? { reason: reason.trim() } : {});
      toast(what === 'approve' ? (approval.execution ? 'Approved. The code runs now.' : 'Approved. The requester can repeat the request once.') : 'Denied. The requester gets your reason.');
      onDone(next);
    } catch (error) {
      if (error instanceof ApiError && error.status === 409) setProblem('It has been settled meanwhile. Reload to see how.');
      else toastError(error);
    }
    return undefined;
  };
  return (
    <section className="panel approvals-decide" aria-label="Your decision">
      <div className="field">
        <label htmlFor={id}>Reason</label>
        <textarea id={id} className="input" rows={2} dir="auto" value={reason} aria-invalid={problem ? true : undefined} aria-describedby={`${id}-hint`} onChange={(e) => setReason(e.target.value)} />
        <span className="hint" id={`${id}-hint`}>Needed to deny; kept with the decision and shown to the requester.{bytes > REASON_BYTES - 100 && ` ${bytes} of ${REASON_BYTES} bytes.`}</span>
        {problem && <span className="problem" role="alert">{problem}</span>}
      </div>
      <div className="row">
        <ActionButton kind="primary" icon="approvals" action={() => decide('approve')}>Approve</ActionButton>
        <ActionButton kind="danger" icon="close" action={() => decide('deny')}>Deny</ActionButton>
      </div>
    </section>
  );
}

function Own({ approval, onDone }: { approval: ApprovalWhole; onDone: () => void }): ReactElement {
  return <Notice tone="info" actions={<ActionButton compact onError={toastError} action={async () => {
    if (!await confirm({ title: 'Withdraw this request?', text: 'It will not be done. To get it later, ask again.', action: 'Withdraw', danger: true })) return;
    await api.del(path`/api/approvals/${approval.id}`);
    toast('Withdrawn.');
    onDone();
  }}>Withdraw</ActionButton>}><p>You asked for this, so another person must decide.</p></Notice>;
}

const runs: Record<string, string> = { waiting: 'approved, not begun', running: 'running', done: 'done', failed: 'could not begin', lost: 'the service ended before its end was known' };

export function Request({ id }: { id: string }): ReactElement {
  const me = useMe();
  const may = useMay('approve');
  const mayExecute = useMay('execute');
  const { data, error, reload, set } = useLoad<ApprovalWhole>(`approval ${id}`, (signal) => api.get(path`/api/approvals/${id}`, {}, { signal }),
    { refreshOn: ['approval', 'execution'] });
  const { data: session } = useLoad<Session>(mayExecute && data?.session && !data.reach ? `session ${data.session}` : null, (signal) => api.get(path`/api/sessions/${data!.session!}`, {}, { signal }));
  if (error && !data) return <div className="approvals-request stack">{error instanceof ApiError && error.status === 404 ? <Notice tone="warn"><p>There is no such request, or it is not for you to see. <a href={href('approvals')}>Back to the list</a></p></Notice> : <Problem error={error} retry={reload} />}</div>;
  if (!data) return <div className="approvals-request"><Loading /></div>;
  const p = data.payload ?? {};
  const code = text(p.about) ?? text(p.code);
  const language = (text(p.about) ? 'text' : p.language === 'shell' ? 'shell' : 'python') as Language;
  const rest = Object.entries(p).filter(([name, value]) => !placed.has(name) && value !== null && value !== '');
  const policyText = p.change === 'policy' ? text(p.text) : null;
  return (
    <article className="approvals-request stack" aria-label="The request">
      <div className="row spread">
        <h2>{actionLabel(data.action)}</h2>
        <span className="row"><Chip tone={stateTones[data.state]}>{stateLabels[data.state]}</Chip><a className="approvals-back small" href={href('approvals')}>Back to the list</a></span>
      </div>
      <p className="approvals-lead"><strong><Who id={data.asked_by} name={data.asked_by_name} /></strong> asks to <ShortText>{data.summary}</ShortText>.</p>
      {data.state !== 'pending' && <Notice tone={stateTones[data.state] === 'plain' ? 'info' : stateTones[data.state]}>
        <p>{data.state === 'expired' ? 'Nobody decided in time, which counts as a denial.' : data.state === 'withdrawn' ? 'The requester withdrew it, or its session was deleted.' : <>{stateLabels[data.state] === 'approved' ? 'Approved' : 'Denied'} by <strong><Who id={data.decided_by} name={data.decided_by_name} /></strong>, <Time at={data.decided_at} />.</>}{data.reason && <> Reason: <q dir="auto">{data.reason}</q></>}</p>
        {data.run && <p>Run: {runs[data.run] ?? data.run}{data.outcome && <>, outcome <code>{data.outcome}</code></>}{data.execution && mayExecute && <> · <a href={href('executions', data.execution)}>See the execution</a></>}</p>}
      </Notice>}
      {data.state === 'pending' && (data.asked_by === me.id ? <Own approval={data} onDone={() => go(href('approvals'))} /> : may && <Decide approval={data} onDone={set} />)}
      {code !== null && <Section title={text(p.about) ? 'What is searched or written' : `The code (${language})`}><LongText value={code} language={language} label="The code that would run" /></Section>}
      {code === null && data.action === 'execute' && data.state !== 'pending' && <p className="muted small">The code is no longer kept with the approval. The evidence of the execution has it.</p>}
      {policyText !== null && <PolicyChange next={policyText} />}
      <Reach approval={data} session={session ?? null} />
      {rest.length > 0 && <Section title="The whole request"><Facts rows={rest.map(([name, value]) => [name, show(value)])} /></Section>}
      <Section title="Where it comes from">
        <Facts rows={[
          ['Asked by', <Who id={data.asked_by} name={data.asked_by_name} />],
          ['Asked', <Time at={data.asked_at} />],
          ['Waits until', <Time at={data.expires_at} />],
          ['Rule', <><code>{data.rule}</code>{data.policy_version > 0 && <> of policy version {data.policy_version}</>}</>],
          ['Session', data.session ? <>{session?.name ?? data.reach?.session_name ? <bdi>{session?.name ?? data.reach?.session_name}</bdi> : <span className="mono" title={data.session}>{shortId(data.session)}</span>}{(session ?? data.reach) && <span className="muted"> · pool {session?.pool ?? data.reach?.pool}</span>}</> : null],
          ['Conversation', text(p.conversation) ? <bdi>{p.conversation as string}</bdi> : null],
          ['Time limit', typeof p.timeout_s === 'number' ? `${p.timeout_s} s` : null],
          ['Through', [text(p.door), text(p.tool), text(p.source)].filter(Boolean).join(' · ') || null],
          ['Said by the client', text(p.metadata) && p.metadata !== '{}' ? <Code text={reveal(String(p.metadata)).text} language="json" wrap /> : null],
          ['Request', <span className="mono">{data.id}</span>],
        ].filter(([, value]) => value !== null) as [string, ReactNode][]} />
      </Section>
      {data.deliveries.length > 0 && <Section title="Announcements">
        <ul className="govern-list">{data.deliveries.map((d, i) => <li key={i} className="small"><code>{d.type}</code> {d.state}, {d.attempts} {d.attempts === 1 ? 'attempt' : 'attempts'}{d.error && <>: {d.error}</>} · <Time at={d.ended_at ?? d.at} /></li>)}</ul>
      </Section>}
    </article>
  );
}
