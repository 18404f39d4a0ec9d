// SPDX-License-Identifier: Apache-2.0
// Refused attempts by destination, and "allow…", which drafts a policy change.
import { useMemo, useState, type ReactElement, type ReactNode } from 'react';
import { useLoad } from '../../api/query';
import { api } from '../../api/client';
import { useMay, useMe } from '../../app/me';
import { go, href } from '../../app/router';
import { Button, Chip, Empty, Field, Loading, Notice, Problem, Time } from '../../ui/basic';
import { allPages, shortId } from '../../ui/govern';
import { Dialog, toastError } from '../../ui/overlay';
import { Table } from '../../ui/table';
import { Code } from '../../ui/text';
import { ruleName, ruleText, setDraft, withRule, type ProposedRule } from '../policy/draft';
import type { PolicyState } from '../policy/types';
import { usePools } from './data';

export interface TrailEvent { seq: number; at: string; actor: string; actor_name?: string | null; action: string; object: string | null; path: string | null; before: string | null; detail: string | null; result: string }
export interface Attempt { host: string; port: number | null; what: string; count: number; at: string; session: string | null; execution: string | null; who: string | null }
interface Destination { host: string; ports: number[]; whats: string[]; count: number; sessions: Set<string>; executions: string[]; people: Set<string>; last: string }

// network.blocked lists its destinations in the detail: "connect 203.0.113.7
// port 443 (3 times), resolve pypi.org". network.refused and network.lookup
// have one each, host:port in the path, and "METHOD: reason" in the detail.
export function attemptsOf(event: TrailEvent): Attempt[] {
  const ids = [event.object, event.before];
  const common = { at: event.at, session: ids.find((id) => /^(sess|cntr)_/.test(id ?? '')) ?? null, execution: ids.find((id) => id?.startsWith('exec_')) ?? null, who: event.actor_name ?? event.actor };
  if (event.action !== 'network.blocked') {
    const found = /^(\[.*\]|[^:]+|[0-9a-f:]+?)(?::(\d+))?$/i.exec(event.path ?? '');
    const method = /^([A-Z]+): /.exec(event.detail ?? '')?.[1].toLowerCase();
    return found ? [{ ...common, host: found[1], port: Number(found[2]) || null, what: event.action === 'network.lookup' ? 'resolve' : method ?? 'connect', count: 1 }] : [];
  }
  return (event.detail ?? '').split(', ').flatMap((part) => {
    const found = /^([a-z]+) (\S+)(?: port (\d+))?(?: \((\d+) times\))?$/.exec(part);
    return found ? [{ ...common, what: found[1], host: found[2], port: Number(found[3]) || null, count: Number(found[4] ?? 1) }] : [];
  });
}

function byDestination(attempts: Attempt[]): Destination[] {
  const out = new Map<string, Destination>();
  for (const a of attempts) {
    const d = out.get(a.host) ?? { host: a.host, ports: [], whats: [], count: 0, sessions: new Set<string>(), executions: [], people: new Set<string>(), last: a.at };
    d.count += a.count;
    if (a.port && !d.ports.includes(a.port)) d.ports.push(a.port);
    if (!d.whats.includes(a.what)) d.whats.push(a.what);
    if (a.session) d.sessions.add(a.session);
    if (a.execution && !d.executions.includes(a.execution)) d.executions.push(a.execution);
    if (a.who) d.people.add(a.who);
    if (a.at > d.last) d.last = a.at;
    out.set(a.host, d);
  }
  return [...out.values()].sort((a, b) => b.count - a.count);
}

// Addresses that no policy opens: see docs/NETWORK.md.
const never = (host: string): boolean => /^(127\.|10\.|192\.168\.|169\.254\.|172\.(1[6-9]|2\d|3[01])\.|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.|0\.|::1|\[?fe80|\[?f[cd])/i.test(host) || /(^|\.)localhost$/i.test(host);

// Drafts a rule and continues in the policy editor.
export function AllowDialog({ title, lead, makeRule, onClose, extra }: { title: string; lead: string; extra?: ReactNode; makeRule: (pool: string) => Omit<ProposedRule, 'then' | 'name'> & { base: string }; onClose: () => void }): ReactElement {
  const [pool, setPool] = useState('');
  const [then, setThen] = useState<'allow' | 'ask'>('allow');
  const pools = usePools();
  const me = useMe();
  const made = makeRule(pool);
  const rule: ProposedRule = { name: ruleName(`${then}-${made.base}`, ''), match: made.match, then };
  return (
    <Dialog title={title} onClose={onClose} foot={<><Button onClick={onClose}>Cancel</Button><Button kind="primary" disabled={me.tenant !== 'default'} onClick={() => {
      api.get<PolicyState>('/api/policy').then((state) => {
        const text = state.text ?? '';
        setDraft({ text: withRule(text, { ...rule, name: ruleName(`${then}-${made.base}`, text) }), note: `${title.replace(/\?$/, '')}`, base: state.version });
        go(href('policy'));
      }).catch(toastError);
    }}>Draft the change</Button></>}>
      <p className="muted">{lead}</p>
      <div className="govern-columns">
        {extra}
        <Field label="The rule says">{(p) => <select {...p} className="input" value={then} onChange={(e) => setThen(e.target.value as 'allow')}><option value="allow">allow</option><option value="ask">ask a person each time</option></select>}</Field>
        <Field label="For">{(p) => <select {...p} className="input" value={pool} onChange={(e) => setPool(e.target.value)}><option value="">every pool</option>{pools.data?.data.map((x) => <option key={x.name} value={x.name}>pool {x.name}</option>)}</select>}</Field>
      </div>
      <Code text={ruleText(rule)} language="yaml" label="The rule" />
      {me.tenant !== 'default' && <Notice><p>Only keys of the tenant <code>default</code> change the policy. Send them this rule.</p></Notice>}
      <p className="small muted">Nothing changes until you review the draft and put it in force.</p>
    </Dialog>
  );
}

function AllowHost({ of, onClose }: { of: Destination; onClose: () => void }): ReactElement {
  const labels = /^[a-z0-9-]+(\.[a-z0-9-]+)+$/i.test(of.host) && !/^[\d.]+$/.test(of.host) ? of.host.split('.') : [];
  const choices = [of.host, ...(labels.length > 2 ? [`*.${labels.slice(1).join('.')}`] : [])];
  const [host, setHost] = useState(of.host);
  const ports = of.ports.length ? of.ports : [443];
  return <AllowDialog title={`Allow ${host}?`} onClose={onClose}
    lead="The rule lets sessions ask for this destination, and lets them connect once they have it. A session still needs a network that lists it: that of its pool, or one that is set for it under Networks."
    extra={choices.length > 1 && <Field label="Destination">{(p) => <select {...p} className="input" value={host} onChange={(e) => setHost(e.target.value)}>{choices.map((c) => <option key={c} value={c}>{c.startsWith('*.') ? `everything below ${c.slice(2)}` : c}</option>)}</select>}</Field>}
    makeRule={(pool) => ({ base: host.replace('*.', 'all-'), match: { action: ['egress', 'connect'], destination: ports.length === 1 ? `${host}:${ports[0]}` : ports.map((n) => `${host}:${n}`), ...(pool ? { pool } : {}) } })} />;
}

const spans = { day: 1, week: 7, month: 30 };

export function useTrail(action: string, span: keyof typeof spans) {
  const may = useMay('audit:read');
  return { may, ...useLoad(may ? `${action} ${span}` : null, (signal) => allPages<TrailEvent>('/api/audit', { action, from: new Date(Date.now() - spans[span] * 86_400_000).toISOString(), limit: 1000 }, (e) => e.seq, signal, 10_000), { refreshOn: [action.split('.')[0], 'network', 'audit'] }) };
}

export function SpanSelect({ value, onChange }: { value: keyof typeof spans; onChange: (span: keyof typeof spans) => void }): ReactElement {
  return <Field label="Time">{(p) => <select {...p} className="input" value={value} onChange={(e) => onChange(e.target.value as keyof typeof spans)}><option value="day">last 24 hours</option><option value="week">last 7 days</option><option value="month">last 30 days</option></select>}</Field>;
}

export function Blocked(): ReactElement {
  const [span, setSpan] = useState<keyof typeof spans>('week');
  const { may, data, error, reload } = useTrail('network.', span);
  const [allowing, setAllowing] = useState<Destination | null>(null);
  const rows = useMemo(() => byDestination((data?.rows ?? []).filter((e) => ['network.blocked', 'network.refused', 'network.lookup'].includes(e.action)).flatMap(attemptsOf)), [data]);
  if (!may) return <Notice><p>Blocked attempts are read from the audit trail. Ask for the scope <code>audit:read</code>.</p></Notice>;
  return (
    <div className="stack">
      <div className="govern-tools"><SpanSelect value={span} onChange={setSpan} /></div>
      {error ? <Problem error={error} retry={reload} /> : !data ? <Loading /> : <Table label="Blocked attempts by destination" rows={rows} rowKey={(d) => d.host}
        empty={<Empty title="No attempt was blocked in this time">When code tries to reach something that it may not, the destination appears here.</Empty>} columns={[
          { id: 'host', label: 'Destination', cell: (d) => <><code>{d.host}</code>{d.ports.length > 0 && <span className="muted"> port {d.ports.join(', ')}</span>}</>, sort: (d) => d.host },
          { id: 'what', label: 'Tried', cell: (d) => <span className="govern-chips">{d.whats.map((w) => <Chip key={w}>{w}</Chip>)}</span> },
          { id: 'count', label: 'Attempts', num: true, cell: (d) => d.count.toLocaleString(), sort: (d) => d.count },
          { id: 'sessions', label: 'Sessions', num: true, cell: (d) => d.sessions.size, sort: (d) => d.sessions.size },
          { id: 'who', label: 'By', cell: (d) => <bdi>{[...d.people].slice(0, 3).map(shortId).join(', ')}{d.people.size > 3 && ` and ${d.people.size - 3} more`}</bdi> },
          { id: 'last', label: 'Last', cell: (d) => (d.executions.length ? <a href={href('executions', d.executions.at(-1)!)}><Time at={d.last} form="ago" /></a> : <Time at={d.last} form="ago" />), sort: (d) => d.last },
          { id: 'do', label: 'Actions', cell: (d) => (never(d.host) ? <span className="muted small">never reachable</span> : d.host === '?' ? <span className="muted small">unknown</span> : <Button compact onClick={() => setAllowing(d)}>Allow…</Button>) },
        ]} />}
      {data?.cut && <p className="muted small">There were more events than are read here. Choose a shorter time.</p>}
      {allowing && <AllowHost of={allowing} onClose={() => setAllowing(null)} />}
    </div>
  );
}
