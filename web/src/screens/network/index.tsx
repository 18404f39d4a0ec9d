// SPDX-License-Identifier: Apache-2.0
// What code may reach: the networks in force, attempts that were refused,
// secrets that the proxy adds, packages.
import type { ReactElement } from 'react';
import { go, href, useRoute } from '../../app/router';
import { Page, Tabs } from '../../ui/basic';
import { Blocked } from './blocked';
import { Grants } from './grants';
import { Packages } from './packages';
import { Secrets } from './secrets';

const tabs = [
  { id: 'grants', label: 'Networks' },
  { id: 'blocked', label: 'Blocked attempts' },
  { id: 'secrets', label: 'Secrets' },
  { id: 'packages', label: 'Packages' },
] as const;
type Tab = (typeof tabs)[number]['id'];

export default function Network(): ReactElement {
  const { parts } = useRoute();
  const tab: Tab = tabs.find((t) => t.id === parts[0])?.id ?? 'grants';
  return (
    <Page title="Network, secrets and packages" lead="Code reaches nothing outside of its session unless a network was granted.">
      <Tabs<Tab> label="Network" value={tab} onChange={(id) => go(id === 'grants' ? href('network') : href('network', id))} tabs={[...tabs]} />
      {tab === 'grants' && <Grants />}
      {tab === 'blocked' && <Blocked />}
      {tab === 'secrets' && <Secrets />}
      {tab === 'packages' && <Packages />}
    </Page>
  );
}
