// SPDX-License-Identifier: Apache-2.0
// A principal: by name where the service tells it, else by the beginning of
// the id, which is complete on hover.
import type { ReactElement } from 'react';
import { useMe } from '../../app/me';
import { Name } from '../../ui/basic';

export function Who({ id, name }: { id: string; name?: string | null }): ReactElement {
  const me = useMe();
  const known = name ?? (id === me.id ? me.name : null);
  return <span title={id}>{known ? <Name>{known}</Name> : id.length > 16 ? `${id.slice(0, 12)}…` : id}</span>;
}
