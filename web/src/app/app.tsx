// SPDX-License-Identifier: Apache-2.0
// Signed out or signed in: the two halves of the console.
import { useCallback, useEffect, useState, type ReactElement } from 'react';
import { api, ApiError, whenSignedOut } from '../api/client';
import { events, useEvents } from '../api/events';
import type { ConsoleConfig, Me } from '../api/types';
import { Button, Loading, Problem } from '../ui/basic';
import { MeContext } from './me';
import { Shell } from './shell';
import { SignIn } from './signin';
import { Tour } from './tour';

// Other tabs of this browser learn of a sign-out at once.
const tabs = 'BroadcastChannel' in self ? new BroadcastChannel('glovebox') : null;

export function App(): ReactElement {
  const [config, setConfig] = useState<ConsoleConfig | null>(null);
  const [me, setMe] = useState<Me | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [notice, setNotice] = useState<string | null>(null);
  const [known, setKnown] = useState(false);

  const begin = useCallback(async () => {
    setError(null);
    try {
      setConfig(await api.get<ConsoleConfig>('/api/console/config'));
      // A one-time link replaces whoever is signed in.
      if (!location.hash.startsWith('#/link/')) setMe(await api.get<Me>('/api/me'));
    } catch (problem) {
      if (!(problem instanceof ApiError && problem.status === 401)) setError(problem);
    }
    setKnown(true);
  }, []);
  useEffect(() => { void begin(); }, [begin]);

  const ended = useCallback((why: string | null) => {
    events.stop();
    setMe((old) => {
      if (old) setNotice(why);
      return null;
    });
  }, []);
  useEffect(() => {
    whenSignedOut(() => ended('You are signed out: the session ended or was revoked. Sign in again.'));
    const heard = (event: MessageEvent) => { if (event.data === 'signed-out') ended('You signed out in another tab.'); };
    tabs?.addEventListener('message', heard);
    return () => tabs?.removeEventListener('message', heard);
  }, [ended]);
  useEffect(() => {
    if (!me) return undefined;
    events.start();
    return () => events.stop();
  }, [me?.id]);
  useEvents(['admin'], () => { void api.get('/api/me').catch(() => {}); });

  const signOut = useCallback(async () => {
    await api.post('/api/console/logout');
    tabs?.postMessage('signed-out');
    ended(null);
  }, [ended]);

  if (error && !config) return <main className="signin"><div className="signin-box"><h1>Glovebox</h1><Problem error={error} /><Button onClick={() => { void begin(); }}>Try again</Button></div></main>;
  if (!known || !config) return <Loading />;
  if (!me) return <SignIn config={config} notice={notice} onSignedIn={(next) => {
    setNotice(null);
    setMe(next);
  }} />;
  return <MeContext.Provider value={{ me, config, signOut }}><Shell tour={<Tour />} /></MeContext.Provider>;
}
