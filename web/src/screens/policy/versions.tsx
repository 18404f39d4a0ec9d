// SPDX-License-Identifier: Apache-2.0
// Every text that was ever in force: compare two, go back to one.
import { useState, type ReactElement } from 'react';
import { api, path } from '../../api/client';
import { useLoad } from '../../api/query';
import type { List } from '../../api/types';
import { go, href } from '../../app/router';
import { ActionButton, Button, Chip, Empty, Field, Loading, Problem, Time } from '../../ui/basic';
import { change, Held, Section, Who } from '../../ui/govern';
import { LineDiff } from '../../ui/linediff';
import { confirm, toast, toastError } from '../../ui/overlay';
import { Table } from '../../ui/table';
import { Code } from '../../ui/text';
import { setDraft } from './draft';
import type { PolicyState, PolicyVersion } from './types';

function One({ state, number, all, locked, onDone }: { state: PolicyState; number: number; all: PolicyVersion[]; locked: boolean; onDone: () => void }): ReactElement {
  const previous = all.map((v) => v.version).filter((v) => v < number).sort((a, b) => b - a)[0] ?? 0;
  const [against, setAgainst] = useState(previous);
  const [held, setHeld] = useState<string | null>(null);
  const get = (n: number, signal: AbortSignal) => (n === 0 ? Promise.resolve({ text: '' } as PolicyVersion) : api.get<PolicyVersion>(path`/api/policy/versions/${n}`, {}, { signal }));
  const { data, error, reload } = useLoad(`version ${number}`, (signal) => get(number, signal));
  const { data: other } = useLoad(`version ${against}`, (signal) => get(against, signal));
  if (error) return <Problem error={error} retry={reload} />;
  if (!data || !other) return <Loading />;
  return (
    <Section title={`Version ${number}`} actions={<>
      <Button onClick={() => {
        setDraft({ text: data.text ?? '', note: '', base: state.version });
        go(href('policy'));
      }}>Edit as a draft</Button>
      {number !== state.version && !locked && <ActionButton kind="danger" onError={toastError} action={async () => {
        if (!await confirm({ title: `Put version ${number} in force again?`, text: `It replaces version ${state.version} for all tenants at once. You can come back in the same way.`, action: 'Roll back', danger: true })) return;
        const made = await change<PolicyVersion>('PUT', '/api/policy', { text: data.text, note: `Back to version ${number}` });
        setHeld(made.approval);
        if (made.data) {
          toast(`Version ${made.data.version} is in force.`);
          onDone();
        }
      }}>Roll back to it</ActionButton>}
    </>}>
      {held && <Held approval={held} />}
      <div className="govern-tools"><Field label="Compare with">{(p) => <select {...p} className="input" value={against} onChange={(e) => setAgainst(Number(e.target.value))}><option value={0}>nothing</option>{all.filter((v) => v.version !== number).map((v) => <option key={v.version} value={v.version}>version {v.version}{v.version === state.version ? ' (in force)' : ''}</option>)}</select>}</Field></div>
      {against === 0 ? <Code text={data.text ?? ''} language="yaml" numbered label={`Text of version ${number}`} /> : <LineDiff before={other.text ?? ''} after={data.text ?? ''} label={`From version ${against} to ${number}`} />}
    </Section>
  );
}

export function Versions({ state, chosen, locked, onDone }: { state: PolicyState; chosen: number | null; locked: boolean; onDone: () => void }): ReactElement {
  const { data, error, reload } = useLoad<List<PolicyVersion>>('versions', (signal) => api.get('/api/policy/versions', { limit: 1000 }, { signal }), { refreshOn: ['policy'] });
  if (error) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading />;
  return (
    <div className="stack">
      <Table label="Versions of the policy" rows={data.data} rowKey={(v) => String(v.version)} chosen={(v) => v.version === chosen}
        empty={<Empty title="No policy was ever in force" action={<a className="button" href={href('policy')}>Write one</a>}>Every text that you put in force is kept here under a number.</Empty>} columns={[
          { id: 'version', label: 'Version', cell: (v) => <span className="row"><a href={href('policy', 'versions', String(v.version))}>{v.version}</a>{v.version === state.version && <Chip tone="good">in force</Chip>}</span>, sort: (v) => v.version },
          { id: 'at', label: 'First in force', cell: (v) => <Time at={v.at} />, sort: (v) => v.at },
          { id: 'by', label: 'By', cell: (v) => <Who id={v.by} name={v.by_name} />, sort: (v) => v.by_name ?? v.by },
          { id: 'note', label: 'Note', cell: (v) => (v.note ? <bdi>{v.note}</bdi> : <span className="muted">–</span>) },
          { id: 'sha', label: 'SHA-256', cell: (v) => <code title={v.sha256}>{v.sha256.slice(0, 12)}…</code> },
        ]} />
      {chosen !== null && data.data.some((v) => v.version === chosen) && <One key={chosen} state={state} number={chosen} all={data.data} locked={locked} onDone={() => {
        reload();
        onDone();
      }} />}
    </div>
  );
}
