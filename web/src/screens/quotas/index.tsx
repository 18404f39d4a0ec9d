// SPDX-License-Identifier: Apache-2.0
// Limits of a tenant, how much of them is used, and usage over time.
import { useState, type ReactElement } from 'react';
import { api, path } from '../../api/client';
import { useLoad } from '../../api/query';
import type { List } from '../../api/types';
import { useMay, useMe } from '../../app/me';
import { ActionButton, Button, Chip, durationText, Field, Loading, Meter, Notice, Page, Problem, sizeText, Time } from '../../ui/basic';
import { change, Held, Section, type Key } from '../../ui/govern';
import { Dialog, toast, toastError } from '../../ui/overlay';
import { Plot } from '../../ui/plot';
import { Table } from '../../ui/table';

interface Quota { name: string; limit: number | null; used: number; resets_at: string | null; own: boolean }
interface Quotas { tenant: string; quotas: Quota[] }
interface Sample { at: string; executions?: number; cpu_s?: number; egress_bytes?: number; output_tokens?: number; live_sessions?: number; memory_bytes?: number; storage_bytes?: number }
interface UsageHistory { tenant: string; step_s: number; data: Sample[] }

const count = (n: number): string => n.toLocaleString(undefined, { maximumFractionDigits: 1 });
const known: Record<string, { label: string; about: string; format: (n: number) => string; unit: string }> = {
  live_sessions: { label: 'Live sessions', about: 'with a sandbox, at once', format: count, unit: 'sessions' },
  executions: { label: 'Executions at once', about: 'queued or running', format: count, unit: 'executions' },
  memory_bytes: { label: 'Memory', about: 'granted to live sessions together', format: sizeText, unit: 'bytes' },
  creations_per_s: { label: 'New sessions', about: 'in a second', format: count, unit: 'a second' },
  executions_per_hour: { label: 'Executions', about: 'begun in an hour', format: count, unit: 'an hour' },
  cpu_s_per_hour: { label: 'Processor time', about: 'in an hour', format: (n) => durationText(n * 1000), unit: 'seconds an hour' },
  egress_bytes_per_day: { label: 'Network traffic', about: 'both ways, in a day', format: sizeText, unit: 'bytes a day' },
  output_tokens_per_hour: { label: 'Output', about: 'tokens of four bytes, in an hour', format: count, unit: 'tokens an hour' },
  model_tokens_per_day: { label: 'Model tokens', about: 'of language models, in a day', format: count, unit: 'tokens a day' },
  model_microcents_per_day: { label: 'Model cost', about: 'in a day, in millionths of a cent', format: count, unit: 'microcents a day' },
  key_model_tokens_per_day: { label: 'Model tokens of this key', about: 'in a day', format: count, unit: 'tokens a day' },
  key_model_microcents_per_day: { label: 'Model cost of this key', about: 'in a day, in millionths of a cent', format: count, unit: 'microcents a day' },
  storage_bytes: { label: 'Storage', about: 'of all versions in all workspaces', format: sizeText, unit: 'bytes' },
};
const about = (name: string) => known[name] ?? { label: name, about: '', format: count, unit: '' };

// "10 GiB", "1.5k" and plain numbers; null: not a number.
function parseAmount(text: string): number | null {
  const found = /^\s*(\d+(?:[.,]\d+)?)\s*(k|m|g|t|ki?b?|mi?b?|gi?b?|ti?b?)?\s*$/i.exec(text);
  if (!found) return null;
  const power = found[2] ? 'kmgt'.indexOf(found[2][0].toLowerCase()) + 1 : 0;
  const base = /i/i.test(found[2] ?? '') || /b$/i.test(found[2] ?? '') ? 1024 : 1000;
  return Math.round(Number(found[1].replace(',', '.')) * base ** power);
}

function EditDialog({ tenant, quota, onClose, onDone }: { tenant: string; quota: Quota; onClose: () => void; onDone: () => void }): ReactElement {
  const [kind, setKind] = useState<'default' | 'none' | 'value'>(!quota.own ? 'default' : quota.limit === null ? 'none' : 'value');
  const [value, setValue] = useState(quota.limit === null ? '' : String(quota.limit));
  const [held, setHeld] = useState<string | null>(null);
  const [tried, setTried] = useState(false);
  const amount = parseAmount(value);
  const bad = kind === 'value' && (amount === null || amount < 1) ? 'A number of at least 1, such as 500 or 10 GiB.' : null;
  const { label, unit, format } = about(quota.name);
  return (
    <Dialog title={`${label} of ${tenant}`} onClose={onClose} foot={<><Button onClick={onClose}>Cancel</Button><ActionButton kind="primary" onError={toastError} action={async () => {
      setTried(true);
      if (bad) return;
      const before = quota.own ? quota.limit ?? 0 : null;
      const made = await change<Quotas>('PUT', path`/api/quotas/${tenant}`, { [quota.name]: kind === 'default' ? null : kind === 'none' ? 0 : amount });
      setHeld(made.approval);
      if (made.approval) return;
      toast('The limit was changed. It counts at once.', { undo: async () => {
        await change('PUT', path`/api/quotas/${tenant}`, { [quota.name]: before });
        onDone();
      } });
      onDone();
    }}>Set</ActionButton></>}>
      {held && <Held approval={held} />}
      <p className="muted">Now {quota.limit === null ? 'no limit' : format(quota.limit)}{quota.own ? ', set for this tenant' : ', the default'}; {format(quota.used)} used.</p>
      <Field label="Limit">{(p) => <select {...p} className="input" value={kind} onChange={(e) => setKind(e.target.value as 'value')}><option value="default">the default of the service</option><option value="value">a value of its own</option><option value="none">no limit</option></select>}</Field>
      {kind === 'value' && <Field label="Value" hint={unit} problem={tried ? bad : null}>{(p) => <input {...p} className="input" value={value} onChange={(e) => setValue(e.target.value)} />}</Field>}
    </Dialog>
  );
}

const charts: { field: Exclude<keyof Sample, 'at'>; title: string; format: (n: number) => string; quota: string }[] = [
  { field: 'executions', title: 'Executions', format: count, quota: 'executions_per_hour' },
  { field: 'cpu_s', title: 'Processor time', format: (n) => durationText(n * 1000), quota: 'cpu_s_per_hour' },
  { field: 'live_sessions', title: 'Live sessions', format: count, quota: 'live_sessions' },
  { field: 'memory_bytes', title: 'Memory granted', format: sizeText, quota: 'memory_bytes' },
  { field: 'storage_bytes', title: 'Storage', format: sizeText, quota: 'storage_bytes' },
  { field: 'egress_bytes', title: 'Network traffic', format: sizeText, quota: 'egress_bytes_per_day' },
  { field: 'output_tokens', title: 'Output, in tokens', format: count, quota: 'output_tokens_per_hour' },
];

function OverTime({ tenant, quotas }: { tenant: string; quotas: Quota[] }): ReactElement {
  const [hours, setHours] = useState('24');
  const { data, error, reload } = useLoad<UsageHistory>(`usage ${tenant} ${hours}`, (signal) => api.get('/api/usage/history', { hours }, { signal }));
  const now = Date.now();
  // A limit of an hour is comparable with samples of an hour alone.
  const limitOf = (name: string) => (/_per_/.test(name) && data?.step_s !== 3600 ? null : quotas.find((q) => q.name === name)?.limit ?? null);
  return (
    <Section title="Usage over time" actions={<div className="button-group" role="group" aria-label="Time">{[['24', '24 hours'], ['168', '7 days'], ['720', '30 days']].map(([value, label]) => <Button key={value} compact aria-pressed={hours === value} onClick={() => setHours(value)}>{label}</Button>)}</div>}>
      {error ? <Problem error={error} retry={reload} /> : !data ? <Loading /> : (
        <div className="quotas-charts">{charts.map((c) => <div key={c.field} className="panel"><Plot title={c.title} times={data.data.map((s) => s.at)} series={[{ name: c.title, values: data.data.map((s) => s[c.field] ?? null) }]} format={c.format} bytes={c.format === sizeText} limit={limitOf(c.quota)} from={now - Number(hours) * 3_600_000} to={now} /></div>)}</div>
      )}
    </Section>
  );
}

export default function QuotasScreen(): ReactElement {
  const me = useMe();
  const policy = useMay('policy:admin');
  const admin = useMay('admin');
  const operator = policy && me.tenant === 'default';
  const [tenant, setTenant] = useState(me.tenant);
  const own = tenant === me.tenant;
  const { data, error, reload } = useLoad<Quotas>(`quotas ${tenant}`, (signal) => api.get(own ? '/api/quotas' : path`/api/quotas/${tenant}`, {}, { signal }), { refreshOn: ['quota', 'admin', 'execution', 'session'] });
  const { data: keys } = useLoad<List<Key>>(operator && admin ? 'tenants' : null, (signal) => api.get('/api/keys', {}, { signal }));
  const tenants = [...new Set([me.tenant, tenant, ...(keys?.data.map((k) => k.tenant) ?? [])])].sort();
  const [editing, setEditing] = useState<Quota | null>(null);
  const near = data?.quotas.filter((q) => q.limit !== null && q.used > q.limit * 0.8) ?? [];
  return (
    <Page title="Quotas" lead="What a tenant may use. Beyond a limit it is refused and told when to come back; other tenants keep working."
      actions={operator && (tenants.length > 1
        ? <label className="row small"><strong>Tenant</strong><select className="input quotas-tenant" value={tenant} onChange={(e) => setTenant(e.target.value)}>{tenants.map((t) => <option key={t}>{t}</option>)}</select></label>
        : <span className="muted small">tenant {tenant}</span>)}>
      {error ? <Problem error={error} retry={reload} /> : !data ? <Loading /> : <>
        {near.length > 0 && <Notice tone="warn"><p>Nearly used up: {near.map((q) => about(q.name).label.toLowerCase()).join(', ')}.</p></Notice>}
        <Table label={`Quotas of ${tenant}`} rows={data.quotas} rowKey={(q) => q.name} columns={[
          { id: 'name', label: 'What', cell: (q) => <><strong>{about(q.name).label}</strong><br /><span className="muted">{about(q.name).about}</span></>, sort: (q) => about(q.name).label },
          { id: 'used', label: 'Used', cell: (q) => <div className="quotas-used"><span className="nowrap">{about(q.name).format(q.used)}{q.limit !== null && <span className="muted"> of {about(q.name).format(q.limit)}</span>}</span>{q.limit !== null && <Meter label={`${about(q.name).label} used`} value={q.used} max={q.limit} />}</div>, sort: (q) => (q.limit ? q.used / q.limit : 0) },
          { id: 'limit', label: 'Limit', cell: (q) => <span className="row">{q.limit === null ? <span className="muted">no limit</span> : about(q.name).format(q.limit)}{q.own && <Chip tone="accent">set for this tenant</Chip>}</span>, sort: (q) => q.limit },
          { id: 'resets', label: 'Resets', cell: (q) => <Time at={q.resets_at} form="ago" />, sort: (q) => q.resets_at },
          ...(operator ? [{ id: 'do', label: 'Actions', cell: (q: Quota) => <Button compact aria-label={`Set the limit of ${about(q.name).label}`} onClick={() => setEditing(q)}>Set…</Button> }] : []),
        ]} />
        {own && <OverTime tenant={tenant} quotas={data.quotas} />}
      </>}
      {editing && <EditDialog tenant={tenant} quota={editing} onClose={() => setEditing(null)} onDone={() => {
        setEditing(null);
        reload();
      }} />}
    </Page>
  );
}
