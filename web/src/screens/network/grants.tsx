// SPDX-License-Identifier: Apache-2.0
// Networks in force, by session and by pool.
import { useState, type ReactElement } from 'react';
import { path } from '../../api/client';
import { useMay } from '../../app/me';
import { href } from '../../app/router';
import type { Session } from '../../api/types';
import { asleep } from '../../api/types';
import { ActionButton, Button, Chip, Empty, Field, Loading, Meter, Notice, Problem, sizeText } from '../../ui/basic';
import { change, Check, Held, Section, shortId, useKeyNames, Who } from '../../ui/govern';
import { Dialog, toast, toastError } from '../../ui/overlay';
import { Table } from '../../ui/table';
import { DestinationText, type Destination, type SessionNetwork } from '../approvals/reach';
import { useGranted, usePools, type Granted } from './data';

const tone = { none: 'good', allowlist: 'info', open: 'bad' } as const;
const nameOf = (s: Session): string => s.name ?? s.identifier ?? shortId(s.id);

// What PUT takes, made from what GET gives.
const specOf = (n: SessionNetwork) => ({ mode: n.mode, ...(n.mode === 'allowlist' ? { destinations: n.destinations } : {}), packages: n.packages, bytes: n.bytes, connections: n.connections, requests: n.requests });

const asLine = (d: Destination | string): string => (typeof d === 'string' ? d : `${d.host}${d.ports?.length ? `:${d.ports.join(',')}` : ''}`);

// A line is HOST or HOST:PORT[,PORT]; what the line does not say of a known
// destination (methods, path, secret) is kept.
function destinationsOf(text: string, old: (Destination | string)[]): (Destination | string)[] {
  return text.split('\n').map((l) => l.trim()).filter(Boolean).map((line) => {
    const same = old.find((d) => asLine(d) === line);
    if (same) return same;
    const found = /^(.+?):(\d[\d,]*)$/.exec(line);
    return found ? { host: found[1], ports: found[2].split(',').filter(Boolean).map(Number) } : line;
  });
}

export function ChangeNetwork({ session, network, onClose, onDone, add }: { session: Session; network: SessionNetwork | null; onClose: () => void; onDone: () => void; add?: string }): ReactElement {
  const [mode, setMode] = useState<SessionNetwork['mode']>(add && (network?.mode ?? 'none') === 'none' ? 'allowlist' : network?.mode ?? 'allowlist');
  const [list, setList] = useState([...(network?.destinations ?? []).map(asLine), ...(add ? [add] : [])].join('\n'));
  const [packages, setPackages] = useState(network?.packages ?? false);
  const [held, setHeld] = useState<string | null>(null);
  return (
    <Dialog title="Network of a session" onClose={onClose} foot={<><Button onClick={onClose}>Cancel</Button><ActionButton kind={mode === 'open' ? 'danger' : 'primary'} onError={toastError} action={async () => {
      const made = await change<SessionNetwork>('PUT', path`/api/sessions/${session.id}/network`, { mode, ...(mode === 'allowlist' ? { destinations: destinationsOf(list, network?.destinations ?? []) } : {}), packages });
      setHeld(made.approval);
      if (made.approval) return;
      toast('The network was changed. It takes effect at once.');
      onDone();
    }}>Change</ActionButton></>}>
      {held && <Held approval={held} />}
      <p>Session <strong><bdi>{nameOf(session)}</bdi></strong>, pool {session.pool}.</p>
      <Field label="Code reaches">{(p) => <select {...p} className="input" value={mode} onChange={(e) => setMode(e.target.value as SessionNetwork['mode'])}><option value="none">nothing</option><option value="allowlist">the destinations of a list</option><option value="open">every public address</option></select>}</Field>
      {mode === 'open' && <Notice tone="bad"><p>Unreviewed code can send what it sees anywhere.</p></Notice>}
      {mode === 'allowlist' && <Field label="Destinations" hint="One a line: a host, *.host for everything below it, or host:port.">{(p) => <textarea {...p} className="input mono" rows={5} value={list} onChange={(e) => setList(e.target.value)} />}</Field>}
      <Check label="pip may install packages that the policy allows" checked={packages} onChange={setPackages} />
    </Dialog>
  );
}

export function Grants(): ReactElement {
  const may = useMay('execute');
  const names = useKeyNames();
  const { data, error, reload } = useGranted();
  const pools = usePools();
  const [changing, setChanging] = useState<Granted | null>(null);
  const withdraw = async ({ session, network }: Granted) => {
    const made = await change('PUT', path`/api/sessions/${session.id}/network`, { mode: 'none' });
    if (made.approval) return;
    reload();
    toast('The network was withdrawn; open connections were cut.', { undo: async () => {
      await change('PUT', path`/api/sessions/${session.id}/network`, specOf(network));
      reload();
    } });
  };
  return (
    <div className="stack network-sections">
      <Section title="Sessions with a network">
        {!may ? <Notice><p>Your key does not list sessions. Ask for the scope <code>execute</code>.</p></Notice> : error ? <Problem error={error} retry={reload} /> : !data ? <Loading /> : (
          <Table label="Sessions with a network" rows={data.granted} rowKey={(g) => g.session.id} empty={<Empty title="No session has a network">Sessions ask for one, get that of their pool, or are given one here once they exist. Refused attempts are under <a href={href('network', 'blocked')}>Blocked attempts</a>.</Empty>} columns={[
            { id: 'session', label: 'Session', cell: (g) => <><a href={href('notebook', g.session.id)}><bdi>{nameOf(g.session)}</bdi></a><br /><span className="muted">pool {g.session.pool}</span></>, sort: (g) => nameOf(g.session) },
            { id: 'owner', label: 'Owner', cell: (g) => <Who id={g.session.owner} name={g.session.owner_name ?? names(g.session.owner)} />, sort: (g) => names(g.session.owner) ?? g.session.owner },
            { id: 'mode', label: 'Reaches', cell: (g) => <span className="govern-chips"><Chip tone={tone[g.network.mode]}>{g.network.mode}</Chip>{g.network.packages && <Chip tone="info">packages</Chip>}{!g.network.granted && <Chip tone="warn" title={g.network.problem ?? undefined}>{asleep(g.session.state) ? 'asleep' : 'not in force'}</Chip>}</span>, sort: (g) => g.network.mode },
            { id: 'destinations', label: 'Destinations', cell: (g) => <>{g.network.destinations.length ? <ul className="govern-list inline">{g.network.destinations.slice(0, 8).map((d, i) => <li key={i}><DestinationText value={d} /></li>)}{g.network.destinations.length > 8 && <li className="muted">and {g.network.destinations.length - 8} more</li>}</ul> : <span className="muted">–</span>}{g.network.problem && <span className="muted">{g.network.problem}</span>}</> },
            { id: 'used', label: 'Used', cell: (g) => <div className="network-used"><span className="nowrap">{sizeText(g.network.bytes_used)} of {sizeText(g.network.bytes)}</span><Meter label="Bytes used" value={g.network.bytes_used} max={g.network.bytes} /><span className="nowrap muted">{g.network.requests_used.toLocaleString()} of {g.network.requests.toLocaleString()} requests</span></div>, sort: (g) => g.network.bytes_used },
            { id: 'do', label: 'Actions', cell: (g) => <span className="row"><Button compact onClick={() => setChanging(g)}>Change…</Button>{g.network.mode !== 'none' && <ActionButton compact kind="danger" onError={toastError} action={() => withdraw(g)}>Withdraw</ActionButton>}</span> },
          ]} />)}
      </Section>
      <Section title="Networks of pools" lead={<>What new sessions get without asking. Change it under <a href={href('pools')}>Pools and runtimes</a>.</>}>
        {pools.data ? <Table label="Networks of pools" rows={pools.data.data} rowKey={(p) => p.name} columns={[
          { id: 'name', label: 'Pool', cell: (p) => p.name, sort: (p) => p.name },
          { id: 'mode', label: 'Reaches', cell: (p) => <span className="govern-chips"><Chip tone={tone[p.egress]}>{p.egress}</Chip>{p.packages && <Chip tone="info">packages</Chip>}</span>, sort: (p) => p.egress },
          { id: 'allow', label: 'Destinations', cell: (p) => (p.egress_allow ? <code>{p.egress_allow.split(',').join(', ')}</code> : <span className="muted">–</span>) },
          { id: 'bytes', label: 'Bytes of a session', cell: (p) => sizeText(p.egress_bytes), num: true, sort: (p) => p.egress_bytes },
        ]} /> : pools.error ? <Problem error={pools.error} retry={pools.reload} /> : <Loading />}
      </Section>
      {changing && <ChangeNetwork session={changing.session} network={changing.network} onClose={() => setChanging(null)} onDone={() => {
        setChanging(null);
        reload();
      }} />}
    </div>
  );
}
