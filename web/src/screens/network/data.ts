// SPDX-License-Identifier: Apache-2.0
// Sessions with their networks, and pools with theirs.
import { api, path } from '../../api/client';
import { useLoad, type Loaded } from '../../api/query';
import type { List, Session } from '../../api/types';
import { asleep } from '../../api/types';
import { useMay } from '../../app/me';
import { allPages, eachOf } from '../../ui/govern';
import type { SessionNetwork } from '../approvals/reach';

export interface Granted { session: Session; network: SessionNetwork }

export interface Pool {
  name: string;
  source: 'configuration' | 'made';
  tenant: string | null;
  kind: string;
  runtime: string;
  persistence: 'workspace' | 'ephemeral';
  sharing: string;
  limits: Record<string, number>;
  egress: 'none' | 'allowlist' | 'open';
  egress_allow: string;
  packages: boolean;
  egress_bytes: number;
  egress_connections: number;
  egress_requests: number;
  cooldown_s: number;
  lifetime_s: number;
  max_sessions: number;
  ready_wanted: number;
  ready: number;
  sessions: number;
  created_at: string | null;
  updated_at: string | null;
}

export const usePools = (): Loaded<List<Pool>> => useLoad<List<Pool>>('pools', (signal) => api.get('/api/pools', {}, { signal }), { refreshOn: ['pool', 'admin', 'session'] });

// Sessions, and the networks of those that may have one.
export function useGranted(): Loaded<{ sessions: Session[]; granted: Granted[] }> {
  const may = useMay('execute');
  return useLoad(may ? 'granted' : null, async (signal) => {
    const { rows } = await allPages<Session>('/api/sessions', { limit: 100 }, (s) => s.id, signal, 2000);
    const wanted = rows.filter((s) => s.network !== 'none' || !asleep(s.state));
    const found = await eachOf(wanted, (s) => api.get<SessionNetwork>(path`/api/sessions/${s.id}/network`, {}, { signal }));
    const granted = found.flatMap((network, i) => (network && (network.mode !== 'none' || network.packages || network.installed.length) ? [{ session: wanted[i], network }] : []));
    return { sessions: rows, granted };
  }, { refreshOn: ['session', 'network', 'secret', 'package', 'admin'] });
}
