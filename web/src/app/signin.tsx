// SPDX-License-Identifier: Apache-2.0
// Signing in: a key, a one-time link, or an issuer. The key is sent once and
// is in no state, storage or address afterwards.
import { useEffect, useRef, useState, type FormEvent, type ReactElement } from 'react';
import { api, ApiError, messageOf } from '../api/client';
import type { ConsoleConfig, Me } from '../api/types';
import { Button, Field, Notice } from '../ui/basic';
import { Mark } from '../ui/icons';
import { go } from './router';

// /#/link/SECRET signs in once; the secret leaves the address bar first.
function takeLink(): string | null {
  const found = /^#\/link\/([A-Za-z0-9_.~-]+)$/.exec(location.hash);
  if (!found) return null;
  go('#/', { replace: true });
  return found[1];
}

// /#/signin?error=WORD: the issuer sent the browser back without a sign-in.
const REFUSALS: Record<string, string> = {
  state: 'This sign-in took too long, was used before, or began in another browser or at another address of this service. Try again.',
  denied: 'You did not allow the sign-in. Try again, or enter a key.',
  refused: 'The issuer did not sign you in. Try again, or ask your administrator.',
  token: 'The issuer’s answer could not be verified. Try again; if it happens again, ask your administrator to look at the log of the service.',
  role: 'Your account has no role that this service knows. Ask your administrator for one.',
  issuer: 'The issuer does not answer, or its answer is unusable. Try again in a minute, or enter a key.',
  busy: 'Too many people are signing in. Try again in a moment.',
  failed: 'The service could not sign you in. Ask your administrator to look at its log.',
};

function takeRefusal(): string | null {
  const found = /^#\/signin\?error=([a-z]+)$/.exec(location.hash);
  if (!found) return null;
  go('#/', { replace: true });
  return Object.hasOwn(REFUSALS, found[1]) ? REFUSALS[found[1]] : REFUSALS.failed;
}

export function SignIn({ config, onSignedIn, notice }: { config: ConsoleConfig; onSignedIn: (me: Me) => void; notice: string | null }): ReactElement {
  const key = useRef<HTMLInputElement>(null);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const [refusal, setRefusal] = useState<string | null>(null);
  const login = async (body: { key: string } | { link: string }) => {
    setBusy(true);
    setProblem(null);
    try {
      onSignedIn(await api.post<Me>('/api/console/login', body));
    } catch (error) {
      const unknown = error instanceof ApiError && error.status === 401;
      setProblem('link' in body && unknown ? 'This link has expired or was used before. Run “glovebox console” for a new one, or enter a key.'
        : unknown ? 'This key is not known. Check that it is complete and has not been revoked.' : messageOf(error));
      setBusy(false);
    }
  };
  useEffect(() => {
    const link = takeLink();
    if (link) void login({ link });
    else key.current?.focus();
    const refused = takeRefusal();
    if (refused) setRefusal(refused);
  }, []);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const value = key.current!.value.trim();
    key.current!.value = '';
    if (value) void login({ key: value });
    else setProblem('Enter a key.');
  };
  return (
    <main className="signin" id="main">
      <div className="signin-box">
        <div className="signin-brand"><Mark size={44} /><div><h1>Glovebox</h1><p className="muted small">Code runs inside. You see everything it does.</p></div></div>
        {refusal && <Notice tone="warn"><p>{refusal}</p></Notice>}
        {notice && <Notice tone="warn"><p>{notice}</p></Notice>}
        <form onSubmit={submit} className="stack" autoComplete="off">
          <Field label="Key" hint={<>The administrator's first key is in <code>admin.key</code> of the data directory. <code>glovebox console</code> opens this page signed in.</>} problem={problem}>
            {(props) => <input {...props} ref={key} className="input mono" type="password" autoComplete="off" spellCheck={false} disabled={busy} />}
          </Field>
          <Button kind="primary" type="submit" disabled={busy}>{busy ? 'Signing in…' : 'Sign in'}</Button>
        </form>
        {config.oidc && <>
          <div className="signin-or" aria-hidden="true"><span>or</span></div>
          <a className="button" href="/api/console/oidc/start">Sign in with {config.oidc.name}</a>
        </>}
        <p className="small muted signin-foot">Version {config.version}. The key is exchanged for a cookie that ends within 12 hours and can be revoked.</p>
      </div>
    </main>
  );
}
