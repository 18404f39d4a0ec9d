// SPDX-License-Identifier: Apache-2.0
// The frame of every screen: navigation limited to what the person may do, the
// number of waiting approvals, theme, sign-out.
import { Component, Suspense, useEffect, useRef, useState, type ReactElement, type ReactNode } from 'react';
import { api } from '../api/client';
import { useStreamState } from '../api/events';
import { useLoad } from '../api/query';
import type { List, Me } from '../api/types';
import { screens, type Screen } from '../screens/registry';
import { Button, Empty, Loading, Problem } from '../ui/basic';
import { Icon, Mark } from '../ui/icons';
import { ConfirmHost, Menu, ToastHost, toastError } from '../ui/overlay';
import { allows, isBound, useSigned } from './me';
import { href, useRoute } from './router';
import { chooseTheme, useTheme, type Choice } from './theme';

const themes: { id: Choice; label: string; icon: string }[] = [{ id: 'system', label: 'As the system', icon: 'screen' }, { id: 'light', label: 'Light', icon: 'sun' }, { id: 'dark', label: 'Dark', icon: 'moon' }];

const screensOf = (me: Me): Screen[] => screens.filter((s) => allows(me, ...s.needs) && !(s.unbound && isBound(me)) && !(s.operators && !me.operator));

// A screen that fails leaves the navigation usable.
class Guard extends Component<{ children: ReactNode }, { error: unknown }> {
  state = { error: null as unknown };
  static getDerivedStateFromError(error: unknown) { return { error }; }
  render(): ReactNode {
    return this.state.error ? <Problem error={this.state.error} retry={() => this.setState({ error: null })} /> : this.props.children;
  }
}

function useWaiting(): number {
  const { me } = useSigned();
  const may = allows(me, 'approve');
  const { data } = useLoad<List<{ asked_by: string }>>(may ? 'badge' : null, (signal) => api.get('/api/approvals', { state: 'pending', limit: 100 }, { signal }), { refreshOn: ['approval'] });
  return data?.data.filter((a) => a.asked_by !== me.id).length ?? 0;
}

function Rail({ active, waiting, open }: { active: string; waiting: number; open: boolean }): ReactElement {
  const { me, signOut } = useSigned();
  const theme = useTheme();
  const stream = useStreamState();
  const groups = (['Work', 'Govern', 'Manage'] as const).map((group) => ({ group, list: screensOf(me).filter((s) => s.group === group) })).filter(({ list }) => list.length);
  return (
    <nav id="rail" className={`shell-rail ${open ? 'open' : ''}`} aria-label="Screens">
      <a className="brand" href="#/"><Mark />Glovebox</a>
      {groups.map(({ group, list }) => (
        <div className="rail-group" key={group}>
          <h2 id={`rail-${group}`}>{group}</h2>
          <ul aria-labelledby={`rail-${group}`}>{list.map((s) => (
            <li key={s.id}><a className="rail-link" href={href(s.id)} aria-current={s.id === active ? 'page' : undefined}>
              <Icon name={s.icon} size={18} />{s.label}
              {s.id === 'approvals' && waiting > 0 && <span className="badge" aria-label={`${waiting} waiting`}>{waiting > 99 ? '99+' : waiting}</span>}
            </a></li>
          ))}</ul>
        </div>
      ))}
      <div className="rail-foot">
        {(stream === 'waiting') && <span className="chip warn" role="status">Reconnecting…</span>}
        <div className="who"><bdi className="truncate"><strong>{me.name ?? me.id}</strong></bdi><span className="muted truncate">tenant {me.tenant}</span></div>
        <div className="row">
          <div className="button-group" role="group" aria-label="Theme">
            {themes.map((t) => <Button key={t.id} compact icon={t.icon} label={`Theme: ${t.label}`} aria-pressed={theme === t.id} onClick={() => chooseTheme(t.id)} />)}
          </div>
          <Menu compact start label="Account" icon="more" items={[
            { label: 'Show the tour', onSelect: () => dispatchEvent(new Event('glovebox-tour')) },
            { label: 'Sign out', onSelect: () => { signOut().catch(toastError); } },
          ]} />
        </div>
      </div>
    </nav>
  );
}

export function Shell({ tour }: { tour: ReactNode }): ReactElement {
  const { me } = useSigned();
  const route = useRoute();
  const [open, setOpen] = useState(false);
  const waiting = useWaiting();
  const main = useRef<HTMLElement>(null);
  const allowed = screensOf(me);
  const current: Screen | undefined = route.screen ? allowed.find((s) => s.id === route.screen) : allowed[0];
  useEffect(() => {
    setOpen(false);
    document.title = `${waiting ? `(${waiting}) ` : ''}${current?.label ?? 'Glovebox'} · Glovebox`;
  }, [route, current, waiting]);
  // A new screen begins at its start, for readers and for the keyboard.
  const shown = useRef(current?.id);
  useEffect(() => {
    if (shown.current === current?.id) return;
    shown.current = current?.id;
    main.current?.focus();
    scrollTo(0, 0);
  }, [current]);
  useEffect(() => {
    if (!open) return undefined;
    const close = (e: KeyboardEvent) => { if (e.key === 'Escape') setOpen(false); };
    addEventListener('keydown', close);
    return () => removeEventListener('keydown', close);
  }, [open]);
  return <>
    <a className="skip" href="#main" onClick={(e) => {
      e.preventDefault();
      main.current?.focus();
    }}>Skip to the content</a>
    <div className="shell">
      <header className="shell-top">
        <Button kind="plain" icon="menu" label="Screens" aria-expanded={open} aria-controls="rail" onClick={() => setOpen(!open)} />
        <strong className="truncate">{current?.label}</strong>
        {waiting > 0 ? <a className="chip warn" href={href('approvals')}>{waiting} waiting</a> : <Mark size={24} />}
      </header>
      {open && <button type="button" className="shell-scrim" aria-label="Close the list of screens" onClick={() => setOpen(false)} />}
      <Rail active={current?.id ?? ''} waiting={waiting} open={open} />
      <main className="shell-main" id="main" tabIndex={-1} ref={main}>
        <Guard key={current?.id}>
          <Suspense fallback={<Loading />}>
            {current ? <current.View /> : <><h1 className="visually-hidden">Not found</h1><Empty title="There is nothing here" action={<a className="button" href="#/">Go to the start</a>}>The address names no screen, or one that your key does not allow.</Empty></>}
          </Suspense>
        </Guard>
      </main>
    </div>
    {tour}
    <ConfirmHost />
    <ToastHost />
  </>;
}
