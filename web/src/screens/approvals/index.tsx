// SPDX-License-Identifier: Apache-2.0
// Requests that wait for a person: the inbox, one request, and what was decided.
import { useState, type ReactElement } from 'react';
import { api } from '../../api/client';
import { useLoad } from '../../api/query';
import type { List } from '../../api/types';
import { useMay, useMe } from '../../app/me';
import { go, href, useRoute } from '../../app/router';
import { Button, Chip, Empty, Loading, Page, Problem, Tabs, Time, type Tone } from '../../ui/basic';
import { ShortText, Who } from '../../ui/govern';
import { Table } from '../../ui/table';
import { Request } from './request';
import { actionLabel, type Approval, type ApprovalState } from './types';

export const stateTones: Record<ApprovalState, Tone> = { pending: 'warn', approved: 'good', denied: 'bad', expired: 'plain', withdrawn: 'plain' };
export const stateLabels: Record<ApprovalState, string> = { pending: 'waiting', approved: 'approved', denied: 'denied', expired: 'expired', withdrawn: 'withdrawn' };

function Waiting({ chosen }: { chosen: string | undefined }): ReactElement {
  const me = useMe();
  const may = useMay('approve');
  const { data, error, reload } = useLoad<List<Approval>>('pending', (signal) => api.get('/api/approvals', { state: 'pending', limit: 1000 }, { signal }), { refreshOn: ['approval'] });
  if (error) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading what="Looking for requests" />;
  if (!data.data.length) return <Empty title="Nothing waits for a decision">{may
    ? <>A request appears here when a rule of the policy says <code>then: ask</code>. It appears by itself; there is no need to reload.</>
    : 'When a rule holds one of your requests, it appears here until another person decides.'}</Empty>;
  return (
    <ul className="approvals-list" aria-label="Waiting requests">
      {data.data.map((a) => (
        <li key={a.id} className={a.id === chosen ? 'chosen' : ''}>
          <a href={href('approvals', a.id)} aria-current={a.id === chosen ? 'true' : undefined}>
            <span className="row spread"><strong>{actionLabel(a.action)}</strong><span className="small muted"><Time at={a.asked_at} form="ago" /></span></span>
            <span className="approvals-summary"><ShortText>{a.summary}</ShortText></span>
            <span className="small muted row"><span><Who id={a.asked_by} name={a.asked_by_name} /></span>{a.asked_by === me.id && <Chip tone="info">yours</Chip>}<span>rule <code>{a.rule}</code></span><span>ends <Time at={a.expires_at} form="ago" /></span></span>
          </a>
        </li>
      ))}
    </ul>
  );
}

const PAGE = 50;

function History(): ReactElement {
  const [state, setState] = useState('');
  const [limit, setLimit] = useState(PAGE);
  const { data, error, reload } = useLoad<List<Approval>>(`history ${state} ${limit}`, (signal) => api.get('/api/approvals', { state, limit }, { signal }), { refreshOn: ['approval'] });
  if (error) return <Problem error={error} retry={reload} />;
  const rows = data?.data.filter((a) => a.state !== 'pending') ?? [];
  return (
    <div className="stack">
      <div className="govern-tools">
        <label className="field"><span className="label">Decision</span>
          <select className="input" value={state} onChange={(e) => setState(e.target.value)}><option value="">All</option>{(['approved', 'denied', 'expired', 'withdrawn'] as const).map((s) => <option key={s} value={s}>{stateLabels[s]}</option>)}</select>
        </label>
      </div>
      {!data ? <Loading /> : <Table label="Decided requests" rows={rows} rowKey={(a) => a.id} empty={<Empty title="No decision yet">Requests that were approved or denied, that expired or were withdrawn are kept here.</Empty>} columns={[
        { id: 'what', label: 'Request', cell: (a) => <><a href={href('approvals', a.id)}>{actionLabel(a.action)}</a><br /><span className="muted"><ShortText>{a.summary}</ShortText></span></>, sort: (a) => a.action },
        { id: 'who', label: 'Asked by', cell: (a) => <Who id={a.asked_by} name={a.asked_by_name} />, sort: (a) => a.asked_by_name ?? a.asked_by },
        { id: 'state', label: 'Decision', cell: (a) => <Chip tone={stateTones[a.state]}>{stateLabels[a.state]}</Chip>, sort: (a) => a.state },
        { id: 'by', label: 'Decided by', cell: (a) => <><Who id={a.decided_by} name={a.decided_by_name} />{a.reason && <><br /><span className="muted"><bdi>{a.reason}</bdi></span></>}</>, sort: (a) => a.decided_by_name },
        { id: 'at', label: 'When', cell: (a) => <Time at={a.decided_at ?? a.expires_at} />, sort: (a) => a.decided_at ?? a.expires_at },
      ]} />}
      {data?.has_more && limit < 1000 && <div className="row"><Button onClick={() => setLimit(Math.min(1000, limit * 2))}>Show more</Button></div>}
    </div>
  );
}

export default function Approvals(): ReactElement {
  const { parts } = useRoute();
  const may = useMay('approve');
  const tab = parts[0] === 'history' ? 'history' : 'waiting';
  const chosen = parts[0] && parts[0] !== 'history' ? parts[0] : undefined;
  return (
    <Page title="Approvals" lead={may ? 'Requests that a rule holds until a person decides. Nothing of them has happened yet.' : 'Your requests that wait for another person. Nothing of them has happened yet.'}>
      <div className={`approvals-layout ${chosen ? 'open' : ''}`}>
        <div className="approvals-inbox stack">
          <Tabs label="Approvals" value={tab} onChange={(id) => go(id === 'history' ? href('approvals', 'history') : href('approvals'))} tabs={[{ id: 'waiting', label: 'Waiting' }, { id: 'history', label: 'History' }]} />
          {tab === 'history' ? <History /> : <Waiting chosen={chosen} />}
        </div>
        {chosen && <Request key={chosen} id={chosen} />}
      </div>
    </Page>
  );
}
