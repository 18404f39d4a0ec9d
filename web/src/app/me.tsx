// SPDX-License-Identifier: Apache-2.0
// Who is signed in, and what that person may do.
import { createContext, useContext } from 'react';
import type { ConsoleConfig, Me, Scope } from '../api/types';

export interface Signed { me: Me; config: ConsoleConfig; signOut: () => Promise<void> }
export const MeContext = createContext<Signed | null>(null);

export function useSigned(): Signed {
  const signed = useContext(MeContext);
  if (!signed) throw new Error('useSigned is for screens behind the sign-in');
  return signed;
}
export const useMe = (): Me => useSigned().me;

// May this person do something that needs any of these scopes?
export const allows = (me: Me, ...scopes: Scope[]): boolean =>
  scopes.length === 0 || me.scopes.includes('admin') || scopes.some((scope) => me.scopes.includes(scope));
export const useMay = (...scopes: Scope[]): boolean => allows(useMe(), ...scopes);

// A key that is bound to some pools, workspaces or sessions.
export const isBound = (me: Me): boolean => [me.pools, me.workspaces, me.sessions].some((list) => !!list?.length);
