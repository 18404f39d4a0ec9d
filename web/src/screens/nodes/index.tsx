// SPDX-License-Identifier: Apache-2.0
// The nodes that share the store: what each has free, draining and activating.
import { type ReactElement } from 'react';
import { api, path } from '../../api/client';
import { useEvents } from '../../api/events';
import { useLoad } from '../../api/query';
import type { List, ServiceNode } from '../../api/types';
import { href, useRoute } from '../../app/router';
import { ActionButton, Button, Chip, durationText, Empty, Loading, Meter, Name, Notice, Page, Problem, sizeText, Time, visible, type Tone } from '../../ui/basic';
import { Facts, Section } from '../../ui/govern';
import { confirm, toast, toastError } from '../../ui/overlay';
import { Table } from '../../ui/table';

interface Seen { nodes: ServiceNode[]; at: string }

const leaseEnded = (n: ServiceNode): boolean => n.state !== 'gone' && n.lease_left_ms < 0;
const tones: Record<ServiceNode['state'], Tone> = { active: 'good', draining: 'warn', gone: 'plain' };
const labelsOf = (n: ServiceNode): string[] => n.labels.split(',').map((label) => label.trim()).filter(Boolean);
const none = <span className="muted">–</span>;

function State({ node }: { node: ServiceNode }): ReactElement {
  return <span className="govern-chips"><Chip tone={tones[node.state]}>{node.state}</Chip>{leaseEnded(node) && <Chip tone="bad" title="Its lease has ended">does not answer</Chip>}</span>;
}

async function drain(node: ServiceNode, last: boolean): Promise<boolean> {
  const text = <>
    <p>It takes no new session. What runs there ends first; idle sessions go to sleep and wake on another node with their files, without their variables. Once no session is awake there, it can be stopped without loss.</p>
    {last && <p><strong>It is the only active node that answers: no new session starts until a node is activated.</strong></p>}
  </>;
  if (!await confirm({ title: `Drain ${visible(node.name)}?`, text, action: 'Drain the node', danger: last })) return false;
  await api.post(path`/api/nodes/${node.id}/drain`);
  toast(`${visible(node.name)} is draining.`);
  return true;
}

async function activate(node: ServiceNode): Promise<boolean> {
  if (!await confirm({ title: `Activate ${visible(node.name)}?`, text: 'It takes new sessions again.', action: 'Activate the node' })) return false;
  await api.post(path`/api/nodes/${node.id}/activate`);
  toast(`${visible(node.name)} is active.`);
  return true;
}

function Cluster({ seen, reload }: { seen: Seen; reload: () => void }): ReactElement {
  const { parts } = useRoute();
  // Nodes that start, stop, are lost, drained or activated are in the trail,
  // which the stream has once a screen wants it. What is free changes without
  // an event.
  useEvents(['audit', 'stream.resumed'], (event) => { if (event.type === 'stream.resumed' || String(event.data.action).startsWith('node.')) reload(); });
  const { nodes } = seen;
  const self = nodes.find((n) => n.self);
  const one = nodes.find((n) => n.id === parts[0]);
  const takes = nodes.filter((n) => n.state === 'active' && !leaseEnded(n));
  return (
    <div className="stack">
      {takes.length === 0 && <Notice tone="bad"><p>No active node answers: no new session starts until a node is activated or started.</p></Notice>}
      <p className="muted nodes-flat">{self ? <><strong><Name>{self.name}</Name></strong> answered</> : 'Read'} at <Time at={seen.at} form="time" />. {takes.length.toLocaleString()} of {nodes.length.toLocaleString()} {nodes.length === 1 ? 'node takes' : 'nodes take'} new sessions.</p>
      <Table label="Nodes" rows={nodes} rowKey={(n) => n.id} chosen={(n) => n === one} first={{ id: 'name', down: false }} columns={[
        { id: 'name', label: 'Node', cell: (n) => <span className="row"><a href={href('nodes', n.id)}><Name>{n.name}</Name></a>{n.self && <Chip tone="info" title="It answered this request">answered</Chip>}</span>, sort: (n) => n.name },
        { id: 'state', label: 'State', cell: (n) => <State node={n} />, sort: (n) => n.state },
        { id: 'lease', label: 'Lease', num: true, cell: (n) => <span className="nowrap">{n.state === 'gone' ? none : leaseEnded(n) ? 'ended' : durationText(n.lease_left_ms)}</span>, sort: (n) => (n.state === 'gone' ? null : n.lease_left_ms) },
        { id: 'memory', label: 'Memory', cell: (n) => n.state === 'gone' ? none : <div className="nodes-meter"><span className="nowrap">{sizeText(n.free_bytes)} of {sizeText(n.memory_bytes)} free</span><Meter label={`Memory in use on ${visible(n.name)}`} value={n.memory_bytes - n.free_bytes} max={n.memory_bytes} /></div>, sort: (n) => (n.state === 'gone' ? null : n.free_bytes) },
        { id: 'cores', label: 'Cores', num: true, cell: (n) => n.cores.toLocaleString(), sort: (n) => n.cores },
        { id: 'awake', label: 'Awake sessions', num: true, cell: (n) => n.state === 'gone' ? none : n.awake.toLocaleString(), sort: (n) => (n.state === 'gone' ? null : n.awake) },
        { id: 'queued', label: 'Executions', num: true, cell: (n) => n.state === 'gone' ? none : n.queued.toLocaleString(), sort: (n) => (n.state === 'gone' ? null : n.queued) },
        { id: 'labels', label: 'Labels', cell: (n) => (labelsOf(n).length ? <span className="govern-chips">{labelsOf(n).map((label) => <Chip key={label}>{visible(label)}</Chip>)}</span> : none), sort: (n) => n.labels },
        { id: 'version', label: 'Version', cell: (n) => <bdi className="nowrap">{n.version}</bdi>, sort: (n) => n.version },
        { id: 'do', label: 'Actions', cell: (n) => (n.state === 'gone' ? none : (
          <ActionButton compact aria-label={`${n.state === 'active' ? 'Drain' : 'Activate'} ${visible(n.name)}`} onError={toastError} action={async () => {
            if (await (n.state === 'active' ? drain(n, takes.length === 1 && takes[0] === n) : activate(n))) reload();
          }}>{n.state === 'active' ? 'Drain…' : 'Activate…'}</ActionButton>
        )) },
      ]} />
      {one && <Section title={`Node ${visible(one.name)}`}><div className="panel"><Facts rows={[
        ['Id', <code>{one.id}</code>],
        ['Address for other nodes', <code>{one.address}</code>],
        ['Started', <><Time at={new Date(one.started_at_ms).toISOString()} />, start {one.epoch.toLocaleString()}</>],
        ['Kept ready', `${one.ready.toLocaleString()} ${one.ready === 1 ? 'sandbox' : 'sandboxes'}`],
      ]} /></div></Section>}
    </div>
  );
}

export default function Nodes(): ReactElement {
  const { data, error, reload } = useLoad<Seen>('nodes', async (signal) => ({ nodes: (await api.get<List<ServiceNode>>('/api/nodes', {}, { signal })).data, at: new Date().toISOString() }));
  return (
    <Page title="Nodes" lead="The services that share one store and its work." actions={<Button icon="reset" onClick={reload}>Look again</Button>}>
      {error ? <Problem error={error} retry={reload} /> : null}
      {!data ? !error && <Loading /> : data.nodes.length === 0
        ? <Empty title="This service is the only node">To add nodes, set <code>store</code> to a PostgreSQL database and <code>blob_bucket</code> to an S3 bucket, and start each service with <code>node_listen</code>, as docs/SCALE.md describes.</Empty>
        : <Cluster seen={data} reload={reload} />}
    </Page>
  );
}
