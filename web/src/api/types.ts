// SPDX-License-Identifier: Apache-2.0
// Shapes of the native API that several screens share. A screen that alone
// reads a shape declares it in its own folder.

export type Scope = 'execute' | 'files:read' | 'files:write' | 'workspaces:admin' | 'audit:read' | 'policy:admin' | 'approve' | 'admin';

export interface Me {
  id: string;
  name: string | null;
  tenant: string;
  operator: boolean;
  scopes: Scope[];
  pools?: string[] | null;
  workspaces?: string[] | null;
  sessions?: string[] | null;
  token?: string | null;
  expires_at?: string | null;
  limits?: Record<string, number>;
}

export interface ConsoleConfig {
  version: string;
  oidc: { name: string } | null;
}

export interface List<T> {
  data: T[];
  has_more: boolean;
}

export type SessionState = 'starting' | 'idle' | 'running' | 'dormant' | 'hibernated';

// Without a sandbox; hibernated sessions keep their variables.
export const asleep = (state: string): boolean => state === 'dormant' || state === 'hibernated';

export interface Session {
  id: string;
  name: string | null;
  identifier: string | null;
  pool: string;
  runtime: string;
  workspace: string | null;
  persistence: 'workspace' | 'ephemeral';
  owner: string;
  owner_name?: string | null;
  sharing: 'principal' | 'tenant';
  state: SessionState;
  network: string;
  limits: { memory_bytes: number; processes: number; cores: number; scratch_bytes: number };
  memory?: { hibernates: boolean; not_kept: string | null; bytes: number; uncarried: string[]; image_bytes: number; saved_at: string | null; lost: string | null; undo: number; redo: number };
  executions: number;
  queued: number;
  interpreters: number;
  created_at: string;
  last_used_at: string;
  expires_at: string | null;
  metadata: Record<string, unknown>;
}

export interface Workspace {
  id: string;
  name: string | null;
  tenant: string;
  owner: string;
  owner_name?: string | null;
  role: 'owner' | 'editor' | 'viewer';
  created_at: string;
  updated_at: string;
  deleted_at: string | null;
  purge_at: string | null;
  head: string | null;
  commits: number;
  files: number;
  bytes: number;
  stored_bytes: number;
  quota_bytes: number;
  retention: { keep_versions: number; keep_days: number };
  legal_hold: boolean;
}

export interface FileInfo {
  type: 'file';
  path: string;
  workspace: string;
  file_id: string;
  version: string;
  number: number;
  size: number;
  sha256: string;
  mime_type: string;
  modified_at: string;
  url: string;
}

// A displayed object: media type to text, JSON or base64.
export type Bundle = Record<string, unknown>;

export type Outcome = 'ok' | 'error' | 'timeout' | 'oom' | 'killed' | 'limit' | 'crashed' | 'cancelled' | 'denied' | 'isolation_failed' | 'lost';

export interface FileChange {
  path: string;
  change: string;
  file_id: string;
  version: string;
  size: number;
  mime_type: string;
  url: string;
  from?: string;
  reason?: string;
}

export interface NetworkAttempt {
  at: string;
  what: string;
  host: string;
  port: number;
  count: number;
  reason?: string;
  bytes_in?: number;
  bytes_out?: number;
}

export interface ExecutionError {
  name: string;
  message: string;
  traceback: string[];
}

export interface Execution {
  id: string;
  session: string;
  language: 'python' | 'shell';
  status: 'queued' | 'running' | 'completed' | 'pending_approval';
  outcome: Outcome | null;
  approval?: string;
  code?: string;
  stdout: string;
  stderr: string;
  truncated: { stdout: boolean; stderr: boolean; displays: boolean };
  result: Bundle | null;
  displays: Bundle[];
  error: ExecutionError | null;
  limit: { name: string; value: number; peak: number } | null;
  warning: string | null;
  usage: { wall_ms: number; cpu_ms: number; peak_memory_bytes: number };
  workspace: string | null;
  commit: string | null;
  files: { created: FileChange[]; modified: FileChange[]; deleted: FileChange[]; renamed: FileChange[]; conflicts: FileChange[]; refused: FileChange[]; skipped: FileChange[]; not_kept: number; truncated: boolean };
  network: { mode: string; blocked: NetworkAttempt[]; allowed: NetworkAttempt[]; truncated: boolean };
  interpreter: 'same' | 'fresh';
  interpreter_lost: boolean;
  notice: string | null;
  exit_code?: number;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
  metadata: Record<string, unknown>;
}

// One of several services on the same store. A service that is the only one has no nodes.
export interface ServiceNode {
  id: string;
  name: string;
  state: 'active' | 'draining' | 'gone';
  self: boolean; // it answered the request
  address: string;
  labels: string; // commas between
  version: string;
  epoch: number;
  lease_left_ms: number; // below 0: it has stopped answering
  started_at_ms: number;
  cores: number;
  memory_bytes: number;
  free_bytes: number;
  ready: number;
  awake: number;
  queued: number;
}
