// SPDX-License-Identifier: Apache-2.0
// What a request would reach if it were approved: destinations, secrets, files.
import type { ReactElement, ReactNode } from 'react';
import { api, path } from '../../api/client';
import { useLoad } from '../../api/query';
import type { Session } from '../../api/types';
import { useMay } from '../../app/me';
import { href } from '../../app/router';
import { Chip } from '../../ui/basic';
import { Facts, Section, shortId } from '../../ui/govern';
import type { ApprovalWhole } from './types';

export interface Destination { host: string; ports?: number[]; methods?: string[]; path?: string; secret?: string; inspect?: boolean }
export interface SessionNetwork {
  session: string;
  mode: 'none' | 'allowlist' | 'open';
  destinations: (Destination | string)[];
  packages: boolean;
  bytes: number;
  connections: number;
  requests: number;
  granted: boolean;
  problem: string | null;
  bytes_used: number;
  requests_used: number;
  installed: { name: string; version: string; sha256: string; at: string }[];
  warning?: string;
}

export function DestinationText({ value }: { value: Destination | string }): ReactElement {
  if (typeof value === 'string') return <code>{value}</code>;
  return <span><code>{value.host}{value.ports?.length ? `:${value.ports.join(',')}` : ''}{value.path ?? ''}</code>{value.methods?.length ? ` ${value.methods.join(', ')}` : ''}{value.secret && <> with secret <code>{value.secret}</code></>}{value.inspect && <span className="muted"> (inspected)</span>}</span>;
}

// Hosts that the code names in addresses. It may reach others, and need not
// reach these: a help for the reader, not a promise.
export function namedHosts(code: string): string[] {
  const found = [...code.matchAll(/\b(?:https?|wss?|ftp):\/\/(?:[^\s/"'`@]*@)?(\[[0-9a-f:.]+\]|[a-z0-9._-]+)/gi)].map((m) => m[1].toLowerCase().replace(/\.$/, ''));
  return [...new Set(found)].slice(0, 20);
}

const matches = (host: string, value: Destination | string): boolean => {
  const pattern = (typeof value === 'string' ? value : value.host).toLowerCase();
  return pattern.startsWith('*.') ? host.endsWith(pattern.slice(1)) : host === pattern;
};

const modes = { none: 'nothing outside of the session', allowlist: 'the destinations below', open: 'every public address' };

export function Reach({ approval, session }: { approval: ApprovalWhole; session: Session | null }): ReactElement | null {
  const mayNetwork = useMay('execute');
  const mayFiles = useMay('files:read');
  const p = approval.payload ?? {};
  const asksNetwork = Array.isArray(p.destinations) || typeof p.mode === 'string';
  const runs = ['execute', 'search', 'report'].includes(approval.action);
  const { data: loaded } = useLoad<SessionNetwork>(runs && mayNetwork && session && !approval.reach ? `reach ${session.id}` : null, (signal) => api.get(path`/api/sessions/${session!.id}/network`, {}, { signal }), { refreshOn: ['session', 'policy'] });
  const network = (approval.reach?.network ?? loaded) as Pick<SessionNetwork, 'mode' | 'destinations' | 'packages'> | undefined;
  if (!runs && !asksNetwork) return null;
  const destinations = (asksNetwork ? p.destinations as (Destination | string)[] | undefined : network?.destinations) ?? [];
  const mode = ((asksNetwork ? p.mode : network?.mode) ?? null) as SessionNetwork['mode'] | null;
  const packages = asksNetwork ? p.packages === true : network?.packages;
  const hosts = typeof p.code === 'string' ? namedHosts(p.code) : [];
  const rows: [string, ReactNode][] = [];
  if (mode) rows.push(['Network', <>{mode === 'open' ? <Chip tone="bad">open</Chip> : <Chip tone={mode === 'none' ? 'good' : 'warn'}>{mode}</Chip>} {modes[mode] ?? ''}{packages && ', and the package index'}</>]);
  else if (runs) rows.push(['Network', <span className="muted">that of its session, which you may not see</span>]);
  if (destinations.length) rows.push(['Destinations', <ul className="govern-list inline">{destinations.map((d, i) => <li key={i}><DestinationText value={d} /></li>)}</ul>]);
  if (hosts.length) rows.push(['Named in the code', <ul className="govern-list inline">{hosts.map((host) => {
    const reachable = mode === 'open' || destinations.some((d) => matches(host, d));
    return <li key={host}><code>{host}</code> {mode && <Chip tone={reachable ? 'warn' : 'plain'}>{reachable ? 'reachable' : 'not reachable'}</Chip>}</li>;
  })}</ul>]);
  if (approval.workspace) rows.push(['Files', <>all files of the workspace {mayFiles ? <a href={href('files', approval.workspace)}><bdi>{approval.reach?.workspace_name ?? shortId(approval.workspace)}</bdi></a> : <bdi>{approval.reach?.workspace_name ?? shortId(approval.workspace)}</bdi>}, to read and to write</>]);
  return <Section title="What it would reach"><Facts rows={rows} /></Section>;
}
