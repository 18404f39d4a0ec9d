// SPDX-License-Identifier: Apache-2.0
// Shapes of executions and their evidence.
import { api, ApiError, type Query } from '../../api/client';
import type { List, NetworkAttempt } from '../../api/types';
import type { Tone } from '../../ui/basic';

export interface Row {
  id: string;
  session: string;
  session_name?: string | null;
  workspace?: string | null;
  language?: string | null;
  status?: string | null;
  outcome: string | null;
  key?: string | null;
  key_name?: string | null;
  principal?: string | null;
  principal_name?: string | null;
  conversation?: string | null;
  message?: string | null;
  code_preview?: string | null;
  files?: number | null;
  wall_ms?: number | null;
  created_at: string;
  started_at?: string | null;
  finished_at?: string | null;
}

export interface Evidence {
  execution: string;
  session: string;
  pool: string;
  runtime: string;
  outcome: string | null;
  failure: unknown;
  who: { tenant: string; key: string; name?: string | null; key_name?: string | null; token: string | null; door: string; tool: string | null; request: string; source: string };
  trigger: { conversation: string | null; message: string | null; metadata: unknown };
  code: { language: string; bytes: number; sha256: string; kept: boolean };
  files: {
    mounted: { workspace: string | null; commit: string | null; commit_seq: number | null } | null;
    read: { told_by: string | null; paths: string[]; truncated: boolean } | null;
    written: { path: string; change: string; fate: string; file: string | null; version: string | null; sha256: string | null; size: number }[];
    written_truncated: boolean;
    commit: string | null;
  };
  artifacts: { how: string; type: string; bytes: number }[];
  connections: { blocked: NetworkAttempt[]; refused: NetworkAttempt[]; allowed: NetworkAttempt[]; truncated: boolean };
  policy: { verdict: string; rule: string | null; layer: string | null; version: number; reason: string | null } | null;
  checks?: { action: string; verdict: string; rule: string | null; reason?: string | null; at?: string }[];
  approval: { id?: string; state?: string; by?: string | null; by_name?: string | null; reason?: string | null; asked_at?: string | null; decided_at?: string | null } | string | null;
  escalated: boolean;
  retry_of: string | null;
  repeats: number;
  isolation: string | null;
  interpreter_fresh: boolean | null;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
  usage: { wall_ms: number; cpu_ms: number; peak_memory_bytes: number; output_bytes?: number } | null;
  code_text: string | null;
}

export const outcomes = ['ok', 'error', 'timeout', 'oom', 'killed', 'limit', 'crashed', 'cancelled', 'denied', 'isolation_failed', 'lost'];
export const outcomeTone = (outcome: string | null | undefined): Tone =>
  (outcome === 'ok' ? 'good' : outcome === null || outcome === undefined ? 'info' : outcome === 'cancelled' ? 'plain' : outcome === 'denied' || outcome === 'timeout' || outcome === 'limit' ? 'warn' : 'bad');
export const outcomeText: Record<string, string> = { ok: 'ok', error: 'error', timeout: 'timed out', oom: 'out of memory', killed: 'killed', limit: 'limit reached', crashed: 'crashed', cancelled: 'cancelled', denied: 'denied', isolation_failed: 'isolation failed', lost: 'lost with its node' };

interface EvidenceRow { execution: string; session: string; key: string; key_name: string | null; at: string; outcome: string | null }

// The list of executions; a service without that route still has the evidence.
let hasList = true;
export async function listExecutions(query: Query, signal?: AbortSignal): Promise<List<Row>> {
  if (hasList) {
    try {
      return await api.get<List<Row>>('/api/executions', query, { signal });
    } catch (error) {
      if (!(error instanceof ApiError) || (error.status !== 404 && error.status !== 405)) throw error;
      hasList = false;
    }
  }
  const { session, outcome, from, to, limit, after } = query;
  const list = await api.get<List<EvidenceRow>>('/api/evidence', { session, outcome, from, to, limit, after }, { signal });
  return { has_more: list.has_more, data: list.data.map((row) => ({ id: row.execution, session: row.session, key: row.key, key_name: row.key_name, outcome: row.outcome, created_at: row.at })) };
}
