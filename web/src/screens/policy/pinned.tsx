// SPDX-License-Identifier: Apache-2.0
// Live sessions that were made under an earlier version: the stricter of that
// version and the newest applies to them.
import type { ReactElement } from 'react';
import { api, path } from '../../api/client';
import { useLoad } from '../../api/query';
import type { Session } from '../../api/types';
import { useMay } from '../../app/me';
import { href } from '../../app/router';
import { ActionButton, Chip, Empty, Loading, Notice, Problem, Time } from '../../ui/basic';
import { allPages, eachOf, shortId, useKeyNames, Who } from '../../ui/govern';
import { confirm, toast, toastError } from '../../ui/overlay';
import { Table } from '../../ui/table';
import type { PolicyState } from './types';

type Pinned = Session & { policy_version: number };

export function Pinned({ state }: { state: PolicyState }): ReactElement {
  const may = useMay('execute');
  const names = useKeyNames();
  const { data, error, reload } = useLoad(may ? 'pinned' : null, (signal) => allPages<Pinned>('/api/sessions', { limit: 100 }, (s) => s.id, signal, 2000), { refreshOn: ['session', 'policy'] });
  if (!may) return <Notice><p>Your key does not list sessions. Ask for the scope <code>execute</code>.</p></Notice>;
  if (error) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading />;
  const older = data.rows.filter((s) => s.policy_version !== state.version);
  const adopt = async (list: Pinned[]) => {
    if (!await confirm({ title: list.length === 1 ? 'Apply only the newest policy to this session?' : `Apply only the newest policy to ${list.length} sessions?`, text: 'What an earlier version forbade and the newest allows becomes allowed there. This cannot be undone; the audit trail records it.', action: 'Apply the newest' })) return;
    const done = await eachOf(list, (s) => api.post(path`/api/sessions/${s.id}/policy`));
    const failed = done.filter((d) => d === null).length;
    toast(failed ? `${failed} of ${list.length} sessions could not be changed.` : 'Done.', { tone: failed ? 'bad' : 'plain' });
    reload();
  };
  return (
    <div className="stack">
      <div className="row spread">
        <p className="muted policy-lead">{data.rows.length} live {data.rows.length === 1 ? 'session' : 'sessions'} that you see, {older.length} made under another version than {state.version}. The stricter of both versions applies to those.</p>
        {older.length > 1 && <ActionButton onError={toastError} action={() => adopt(older)}>Apply the newest to all</ActionButton>}
      </div>
      <Table label="Sessions under another version" rows={older} rowKey={(s) => s.id}
        empty={<Empty title={`Every live session uses version ${state.version}`}>Sessions appear here when the policy changes while they live.</Empty>} columns={[
          { id: 'session', label: 'Session', cell: (s) => <a href={href('notebook', s.id)}><bdi>{s.name ?? s.identifier ?? shortId(s.id)}</bdi></a>, sort: (s) => s.name ?? s.id },
          { id: 'version', label: 'Made under', cell: (s) => (s.policy_version === 0 ? 'no policy' : <a href={href('policy', 'versions', String(s.policy_version))}>version {s.policy_version}</a>), sort: (s) => s.policy_version },
          { id: 'owner', label: 'Owner', cell: (s) => <Who id={s.owner} name={s.owner_name ?? names(s.owner)} />, sort: (s) => s.owner_name ?? names(s.owner) ?? s.owner },
          { id: 'pool', label: 'Pool', cell: (s) => s.pool, sort: (s) => s.pool },
          { id: 'state', label: 'State', cell: (s) => <Chip tone={s.state === 'running' ? 'accent' : 'plain'}>{s.state}</Chip>, sort: (s) => s.state },
          { id: 'used', label: 'Last used', cell: (s) => <Time at={s.last_used_at} form="ago" />, sort: (s) => s.last_used_at },
          { id: 'do', label: 'Actions', cell: (s) => <ActionButton compact onError={toastError} action={() => adopt([s])}>Apply the newest</ActionButton> },
        ]} />
      {data.cut && <p className="muted small">Only the 2,000 newest sessions are looked at.</p>}
    </div>
  );
}
