// SPDX-License-Identifier: Apache-2.0
export type ApprovalState = 'pending' | 'approved' | 'denied' | 'expired' | 'withdrawn';

export interface Approval {
  id: string;
  state: ApprovalState;
  action: string;
  summary: string;
  asked_by: string;
  asked_by_name: string | null;
  session: string | null;
  workspace: string | null;
  object: string | null;
  execution: string | null;
  rule: string;
  policy_version: number;
  asked_at: string;
  expires_at: string;
  decided_at: string | null;
  decided_by: string | null;
  decided_by_name: string | null;
  reason: string | null;
  run: 'waiting' | 'running' | 'done' | 'failed' | 'lost' | null;
  outcome: string | null;
}

export interface Delivery { type: string; state: string; attempts: number; status: number | null; error: string | null; at: string; next_attempt_at: string | null; ended_at: string | null }

export interface ApprovalWhole extends Approval {
  payload: Record<string, unknown> | null;
  deliveries: Delivery[];
  // What its session could reach, for readers who do not see the session.
  reach?: { session_name: string | null; pool: string; workspace_name: string | null; network: { mode: 'none' | 'allowlist' | 'open'; destinations: unknown[]; packages: boolean } } | null;
}

export const actions: Record<string, string> = {
  execute: 'Run code',
  session: 'Make a session',
  'file.in': 'Take in a file',
  'file.out': 'Hand out a file',
  egress: 'Open a network',
  connect: 'Connect',
  package: 'Install a package',
  share: 'Share',
  transfer: 'Give a workspace away',
  secret: 'Use a secret',
  search: 'Search files',
  report: 'Make a report',
  agent: 'Keep a named agent',
  tool: 'Keep a tool',
  change: 'Change the service',
};
export const actionLabel = (action: string): string => actions[action] ?? action;
