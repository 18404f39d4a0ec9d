// SPDX-License-Identifier: Apache-2.0
// The policy: write it, try it, put it in force, go back to an earlier one.
import { useEffect, type ReactElement } from 'react';
import { api } from '../../api/client';
import { useLoad } from '../../api/query';
import { useMe } from '../../app/me';
import { go, href, useRoute } from '../../app/router';
import { ActionButton, Loading, Notice, Page, Problem, Tabs, Time } from '../../ui/basic';
import { Who } from '../../ui/govern';
import { toast, toastError } from '../../ui/overlay';
import { useDraft } from './draft';
import { PolicyEditor } from './editor';
import { Explain } from './explain';
import { Pinned } from './pinned';
import { Cases } from './cases';
import type { PolicyState } from './types';
import { Versions } from './versions';

const tabs = [
  { id: 'edit', label: 'Policy' },
  { id: 'explain', label: 'Try a request' },
  { id: 'cases', label: 'Test cases' },
  { id: 'versions', label: 'Versions' },
  { id: 'sessions', label: 'Sessions' },
] as const;
type Tab = (typeof tabs)[number]['id'];

export default function Policy(): ReactElement {
  const { parts } = useRoute();
  const me = useMe();
  const draft = useDraft();
  const operator = me.tenant === 'default';
  const { data, error, reload } = useLoad<PolicyState>('policy', (signal) => api.get('/api/policy', {}, { signal }), { refreshOn: ['policy'] });
  useEffect(() => {
    if (!draft) return undefined;
    const warn = (e: BeforeUnloadEvent) => e.preventDefault();
    addEventListener('beforeunload', warn);
    return () => removeEventListener('beforeunload', warn);
  }, [!draft]);
  if (error && !data) return <Page title="Policy"><Problem error={error} retry={reload} /></Page>;
  if (!data) return <Page title="Policy"><Loading /></Page>;
  const wanted = (parts[0] ?? 'edit') as Tab;
  const tab: Tab = operator && tabs.some((t) => t.id === wanted) ? wanted : operator ? 'edit' : 'explain';
  const fromFile = data.by === 'file';
  return (
    <Page title="Policy" lead={data.version === 0
      ? 'There is no policy: everything is allowed that keys and limits allow.'
      : <>Version {data.version} is in force{data.at && <> since <Time at={data.at} /></>}{data.by && <>, by <Who id={data.by} name={data.by_name} /></>}{data.note && <>: <q dir="auto">{data.note}</q></>}.</>}>
      {!data.loaded && <Notice tone="bad"><p>The policy cannot be loaded, so everything is denied: {data.problem}</p></Notice>}
      {fromFile && <Notice tone="info" actions={<ActionButton compact onError={toastError} action={async () => {
        await api.post('/api/policy/reload');
        toast('The file was read again.');
        reload();
      }}>Read it again</ActionButton>}><p>The policy comes from a file of the host (<code>policy_file</code>). Change that file; here you can try changes out.</p></Notice>}
      {operator && <Tabs<Tab> label="Policy" value={tab} onChange={(id) => go(id === 'edit' ? href('policy') : href('policy', id))} tabs={tabs.map((t) => ({ id: t.id, label: t.id === 'edit' && draft ? 'Policy (draft)' : t.label }))} />}
      {tab === 'edit' && <PolicyEditor state={data} readOnly={fromFile} onDone={reload} />}
      {tab === 'explain' && <Explain state={data} operator={operator} />}
      {tab === 'cases' && <Cases state={data} />}
      {tab === 'versions' && <Versions state={data} locked={fromFile} chosen={parts[1] ? Number(parts[1]) : null} onDone={reload} />}
      {tab === 'sessions' && <Pinned state={data} />}
    </Page>
  );
}
