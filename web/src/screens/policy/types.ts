// SPDX-License-Identifier: Apache-2.0
export interface PolicyState { loaded: boolean; problem: string | null; version: number; at: string | null; by: string | null; by_name: string | null; note: string | null; sha256: string | null; text: string | null }
export interface PolicyVersion { version: number; at: string; by: string; by_name: string | null; note: string | null; sha256: string; text?: string }
export interface PolicyCheck { ok: boolean; problem: string | null; hint: string | null }

export type Verdict = 'allow' | 'ask' | 'deny';
export interface Condition { key: string; wants: string; is: string | null; holds: boolean }
export interface RuleTrace { rule: string; then: Verdict; asked: boolean; matches: boolean; conditions: Condition[] }
export interface LayerTrace { layer: string; verdict: Verdict; rule: string; default: Verdict; rules: RuleTrace[] }
export interface VersionTrace { version: number; held: string; layers: LayerTrace[] }
export interface Explained { action: string; verdict: Verdict; rule: string; layer: string; reason: string | null; version: number; limit: { timeout_s?: number; output_bytes?: number }; expires_s: number; versions: VersionTrace[] }

export type RequestFields = Record<string, string | number | string[]>;
export interface TestCase { name: string; request: RequestFields; verdict: Verdict; rule: string }

export const verdictTones = { allow: 'good', ask: 'warn', deny: 'bad' } as const;

// The fields of a request, and the actions they apply to; as docs/POLICY.md
// lists the keys of `match`.
export const actionNames = ['execute', 'session', 'file.in', 'file.out', 'egress', 'connect', 'package', 'share', 'transfer', 'secret', 'search', 'report', 'agent', 'tool'] as const;
export interface FieldSpec { name: string; label: string; hint?: string; kind: 'text' | 'number' | 'choice' | 'list' | 'time'; choices?: string[]; of?: string[] }
export const requestFields: FieldSpec[] = [
  { name: 'language', label: 'Language', kind: 'choice', choices: ['python', 'shell'], of: ['execute'] },
  { name: 'pool', label: 'Pool', kind: 'text', of: ['execute', 'session', 'egress', 'connect', 'package', 'secret', 'search', 'report'] },
  { name: 'runtime', label: 'Runtime', kind: 'text', of: ['execute', 'session'] },
  { name: 'network', label: 'Network', kind: 'choice', choices: ['none', 'allowlist', 'open'], of: ['execute', 'session', 'egress'] },
  { name: 'code_bytes', label: 'Size of the code', hint: 'bytes', kind: 'number', of: ['execute'] },
  { name: 'timeout_s', label: 'Timeout', hint: 'seconds', kind: 'number', of: ['execute'] },
  { name: 'output_bytes', label: 'Output kept', hint: 'bytes', kind: 'number', of: ['execute'] },
  { name: 'file', label: 'Path of the file', kind: 'text', of: ['file.in', 'file.out', 'share'] },
  { name: 'file_type', label: 'Type of the file', hint: 'such as text/csv', kind: 'text', of: ['file.in', 'file.out', 'share'] },
  { name: 'file_bytes', label: 'Size of the file', hint: 'bytes', kind: 'number', of: ['file.in', 'file.out'] },
  { name: 'host', label: 'Host', kind: 'text', of: ['connect', 'egress', 'secret'] },
  { name: 'port', label: 'Port', kind: 'number', of: ['connect', 'egress', 'secret'] },
  { name: 'method', label: 'Method', kind: 'choice', choices: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'], of: ['connect'] },
  { name: 'url_path', label: 'Path of the URL', kind: 'text', of: ['connect'] },
  { name: 'package', label: 'Package', kind: 'text', of: ['package'] },
  { name: 'package_version', label: 'Version', kind: 'text', of: ['package'] },
  { name: 'package_sha256', label: 'SHA-256', kind: 'text', of: ['package'] },
  { name: 'secret', label: 'Secret', kind: 'text', of: ['secret'] },
  { name: 'tenant', label: 'Tenant', kind: 'text' },
  { name: 'key', label: 'Key', hint: 'key_…', kind: 'text' },
  { name: 'scopes', label: 'Scopes', hint: 'separated by commas', kind: 'list' },
  { name: 'door', label: 'API', kind: 'choice', choices: ['native', 'openai', 'azure', 'mcp', 'foundry'] },
  { name: 'tool', label: 'MCP tool', kind: 'text' },
  { name: 'at', label: 'Time', kind: 'time' },
];
