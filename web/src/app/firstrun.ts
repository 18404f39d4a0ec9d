// SPDX-License-Identifier: Apache-2.0
// The notebook that the tour has just made and that may run by itself. It is
// not in the address: a link of another site must not run anything.
let made: string | null = null;
export const allowRun = (ws: string): void => { made = ws; };
export function takeRun(ws: string): boolean {
  const yes = made === ws;
  if (yes) made = null;
  return yes;
}
