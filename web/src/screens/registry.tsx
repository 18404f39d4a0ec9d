// SPDX-License-Identifier: Apache-2.0
// The table of screens: the rail, the routes and the scopes come from here. A
// screen is loaded when it is first opened.
import { lazy, type ComponentType, type LazyExoticComponent } from 'react';
import type { Scope } from '../api/types';
import type { IconName } from '../ui/icons';

export interface Screen {
  id: string; // #/id/…
  label: string;
  icon: IconName;
  group: 'Work' | 'Govern' | 'Manage';
  needs: Scope[]; // any of these; none: every signed-in person
  operators?: boolean; // for keys of the operators' tenant
  unbound?: boolean; // not for keys that are bound to pools, workspaces or sessions
  View: LazyExoticComponent<ComponentType>;
}

const screen = (id: string, label: string, group: Screen['group'], needs: Scope[], load: () => Promise<{ default: ComponentType }>): Screen =>
  ({ id, label, icon: id, group, needs, View: lazy(load) });

export const screens: Screen[] = [
  screen('notebook', 'Notebook', 'Work', ['execute'], () => import('./notebook')),
  screen('chat', 'Chat', 'Work', ['execute'], () => import('./chat')),
  { ...screen('agents', 'Agents', 'Work', ['execute'], () => import('./agents')), unbound: true },
  screen('files', 'Files', 'Work', ['files:read'], () => import('./files')),
  screen('search', 'Search', 'Work', ['files:read'], () => import('./search')),
  screen('conversations', 'Conversations', 'Work', ['files:read'], () => import('./conversations')),
  screen('executions', 'Executions', 'Work', ['execute'], () => import('./executions')),
  screen('tools', 'Tools', 'Work', ['execute'], () => import('./tools')),
  screen('approvals', 'Approvals', 'Govern', ['approve', 'execute'], () => import('./approvals')),
  screen('policy', 'Policy', 'Govern', ['policy:admin'], () => import('./policy')),
  screen('network', 'Network', 'Govern', ['policy:admin'], () => import('./network')),
  screen('audit', 'Audit', 'Govern', ['audit:read'], () => import('./audit')),
  screen('posture', 'Posture', 'Govern', ['admin', 'audit:read'], () => import('./posture')),
  screen('people', 'Keys and people', 'Manage', ['admin'], () => import('./people')),
  screen('pools', 'Pools and runtimes', 'Manage', [], () => import('./pools')),
  screen('quotas', 'Quotas', 'Manage', [], () => import('./quotas')),
  { ...screen('nodes', 'Nodes', 'Manage', ['admin'], () => import('./nodes')), operators: true },
  screen('operations', 'Operations', 'Manage', ['admin'], () => import('./operations')),
];
