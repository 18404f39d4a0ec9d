// SPDX-License-Identifier: Apache-2.0
// Named agents: #/agents lists, #/agents/NAME shows one with its versions.
import { useState, type ReactElement } from 'react';
import { api, ApiError, path } from '../../api/client';
import { useLoad } from '../../api/query';
import type { List } from '../../api/types';
import { useMay, useMe } from '../../app/me';
import { go, href, useRoute } from '../../app/router';
import { ActionButton, Button, Chip, Empty, Loading, Name, Page, Problem, Tabs, Time } from '../../ui/basic';
import { LineDiff } from '../../ui/linediff';
import { confirm, toast, toastError } from '../../ui/overlay';
import { Table } from '../../ui/table';
import { Code } from '../../ui/text';
import { Who } from '../files/who';
import { AgentForm, type Agent, type AgentVersion } from './form';

const refresh = { refreshOn: ['agent'] };
const toolsOf = (v: AgentVersion | null): string => (v?.definition.tools ?? []).map((t) => (t.type === 'code_interpreter' ? 'Python' : t.type)).join(', ') || 'none';

export default function Agents(): ReactElement {
  const [name] = useRoute().parts;
  return name ? <AgentPage key={name} name={name} /> : <AgentList />;
}

function AgentList(): ReactElement {
  const [making, setMaking] = useState(false);
  const { data, error, reload } = useLoad<List<Agent>>('agents', (signal) => api.get('/api/agents', { limit: 1000 }, { signal }), refresh);
  const make = <Button kind="primary" icon="plus" onClick={() => setMaking(true)}>New agent</Button>;
  return (
    <Page title="Agents" lead="Instructions, a model and tools under a name. People ask an agent in the chat; clients refer to it by its name." actions={make}>
      {error ? <Problem error={error} retry={reload} /> : !data ? <Loading /> : (
        <Table<Agent> label="Agents" rows={data.data} rowKey={(a) => a.name} first={{ id: 'name', down: false }}
          empty={<Empty title="No agent yet" action={make}>Write down once how questions of one kind are to be answered, and ask the agent in the chat.</Empty>} columns={[
            { id: 'name', label: 'Name', sort: (a) => a.name, cell: (a) => <span className="row"><a href={href('agents', a.name)}><strong><Name>{a.name}</Name></strong></a>{!a.enabled && <Chip tone="warn">disabled</Chip>}{a.shared && <Chip>shared</Chip>}</span> },
            { id: 'what', label: 'Description', cell: (a) => (a.latest?.description ? <Name>{a.latest.description}</Name> : <span className="muted">–</span>) },
            { id: 'model', label: 'Model', sort: (a) => a.latest?.definition.model ?? '', cell: (a) => <Name>{String(a.latest?.definition.model ?? '–')}</Name> },
            { id: 'tools', label: 'Tools', cell: (a) => <span className="nowrap">{toolsOf(a.latest)}</span> },
            { id: 'versions', label: 'Versions', num: true, sort: (a) => a.versions, cell: (a) => a.versions },
            { id: 'owner', label: 'Owner', cell: (a) => <Who id={a.owner} name={a.owner_name} /> },
            { id: 'at', label: 'Changed', sort: (a) => a.updated_at, cell: (a) => <Time at={a.updated_at} form="ago" /> },
            { id: 'do', label: 'Actions', cell: (a) => a.enabled && a.latest && <a className="button compact" href={href('chat', { agent: a.name })}>Ask it</a> },
          ]} />
      )}
      {making && <AgentForm agent={null} from={null} onClose={() => setMaking(false)} onSaved={reload} />}
    </Page>
  );
}

function AgentPage({ name }: { name: string }): ReactElement {
  const me = useMe();
  const admin = useMay('admin');
  const tab = useRoute().query.get('tab') === 'versions' ? 'versions' : 'agent';
  const [editing, setEditing] = useState<AgentVersion | null>(null);
  const { data, error, reload } = useLoad<{ agent: Agent; versions: AgentVersion[] }>(`agent ${name}`, async (signal) => {
    const [agent, versions] = await Promise.all([api.get<Agent>(path`/api/agents/${name}`, {}, { signal }), api.get<List<AgentVersion>>(path`/api/agents/${name}/versions`, { limit: 1000 }, { signal })]);
    return { agent, versions: versions.data };
  }, refresh);
  const crumbs = <a href={href('agents')}>Agents</a>;
  if (error) return <Page title={name} crumbs={crumbs}>{error instanceof ApiError && error.status === 404 ? <Empty title="There is no such agent" action={<a className="button" href={href('agents')}>All agents</a>}>It was deleted, or it belongs to another tenant.</Empty> : <Problem error={error} retry={reload} />}</Page>;
  if (!data) return <Loading />;
  const { agent, versions } = data;
  const newest = agent.latest ?? versions[0];
  const may = admin || agent.shared || agent.owner === me.id;
  const toggle = async () => {
    await api.patch(path`/api/agents/${name}`, { enabled: !agent.enabled });
    toast(agent.enabled ? 'The agent answers nobody until it is enabled again.' : 'The agent answers again.');
    reload();
  };
  const remove = async () => {
    if (!await confirm({ title: `Delete ${name}?`, text: `The agent and its ${versions.length === 1 ? 'version' : `${versions.length} versions`}. Conversations, sessions and files that were made with it stay. This cannot be undone.`, action: 'Delete', danger: true })) return;
    await api.del(path`/api/agents/${name}`);
    toast('The agent is deleted.');
    go(href('agents'));
  };
  return (
    <Page title={<Name>{name}</Name>} crumbs={crumbs} lead={newest?.description ? <Name>{newest.description}</Name> : undefined} actions={<>
      {agent.enabled && agent.latest && <a className="button primary" href={href('chat', { agent: name })}>Ask it in the chat</a>}
      {may && newest && <Button onClick={() => setEditing(newest)}>Edit</Button>}
      {may && <ActionButton action={toggle} onError={toastError}>{agent.enabled ? 'Disable' : 'Enable'}</ActionButton>}
      {may && <ActionButton kind="danger" action={remove} onError={toastError}>Delete</ActionButton>}
    </>}>
      <Tabs label="Parts of the agent" value={tab} onChange={(next) => go(href('agents', name, next === 'versions' ? { tab: next } : {}), { replace: true })} tabs={[{ id: 'agent', label: 'Agent' }, { id: 'versions', label: `Versions (${versions.length})` }]} />
      {tab === 'agent' && newest ? <div className="stack">
        <dl className="facts">
          <dt>State</dt><dd><Chip tone={agent.enabled ? 'good' : 'warn'}>{agent.enabled ? 'enabled' : 'disabled'}</Chip></dd>
          <dt>Model</dt><dd><Name>{String(newest.definition.model ?? '–')}</Name></dd>
          <dt>Tools</dt><dd>{toolsOf(newest)}</dd>
          {Object.entries(newest.definition.limits ?? {}).map(([id, value]) => [<dt key={id}>{id.replaceAll('_', ' ')}</dt>, <dd key={`${id}=`}>{Number(value).toLocaleString()}</dd>])}
          <dt>Owner</dt><dd><Who id={agent.owner} name={agent.owner_name} />{agent.shared && <span className="muted small"> · everyone of the tenant may change it</span>}</dd>
          <dt>Version</dt><dd>{newest.number}, <Time at={newest.created_at} /></dd>
        </dl>
        <section className="stack tight" aria-labelledby="agents-words"><h2 id="agents-words">Instructions</h2>{newest.definition.instructions ? <div className="panel agents-words" dir="auto">{newest.definition.instructions}</div> : <p className="muted">It has none.</p>}</section>
        <details><summary className="small">Whole definition</summary><Code text={JSON.stringify(newest.definition, null, 2)} language="json" label="Definition" /></details>
      </div> : <Versions versions={versions} name={name} may={may} newest={newest?.number} onEdit={setEditing} onDeleted={reload} />}
      {editing && <AgentForm agent={name} from={editing} onClose={() => setEditing(null)} onSaved={reload} />}
    </Page>
  );
}

function Versions({ versions, name, may, newest, onEdit, onDeleted }: { versions: AgentVersion[]; name: string; may: boolean; newest: number | undefined; onEdit: (v: AgentVersion) => void; onDeleted: () => void }): ReactElement {
  const sorted = [...versions].sort((a, b) => b.number - a.number);
  const text = (v: AgentVersion) => `${v.description}\n${JSON.stringify(v.definition, null, 2)}`;
  const remove = async (v: AgentVersion) => {
    if (!await confirm({ title: `Delete version ${v.number}?`, text: sorted.length === 1 ? 'It is the only one: the agent is deleted with it. This cannot be undone.' : 'This cannot be undone.', action: 'Delete', danger: true })) return;
    await api.del(path`/api/agents/${name}/versions/${v.number}`);
    toast(`Version ${v.number} is deleted.`);
    if (sorted.length === 1) go(href('agents'));
    else onDeleted();
  };
  return (
    <ol className="agents-versions" aria-label="Versions">{sorted.map((v, i) => (
      <li key={v.number} className="panel stack">
        <div className="row spread"><span className="row"><strong>Version {v.number}</strong>{v.number === newest && <Chip tone="accent">in use</Chip>}{v.draft && <Chip tone="warn">draft</Chip>}<span className="muted small"><Time at={v.created_at} /> by <Who id={v.created_by} name={v.created_by_name} /></span></span>
          {may && <span className="row"><Button compact onClick={() => onEdit(v)}>{v.number === newest ? 'Edit' : 'Begin with this'}</Button><ActionButton compact kind="danger" action={() => remove(v)} onError={toastError}>Delete</ActionButton></span>}</div>
        {sorted[i + 1] ? <details><summary className="small">What changed since version {sorted[i + 1].number}</summary><LineDiff before={text(sorted[i + 1])} after={text(v)} label={`Changes of version ${v.number}`} /></details>
          : <details><summary className="small">Definition</summary><Code text={JSON.stringify(v.definition, null, 2)} language="json" label={`Definition of version ${v.number}`} /></details>}
      </li>
    ))}</ol>
  );
}
