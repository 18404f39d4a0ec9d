// SPDX-License-Identifier: Apache-2.0
// Packages that sessions installed, and those that were refused.
import { useMemo, useState, type ReactElement } from 'react';
import { href } from '../../app/router';
import { Button, Chip, Loading, Notice, Problem, Time } from '../../ui/basic';
import { Section, shortId } from '../../ui/govern';
import { Table } from '../../ui/table';
import { AllowDialog, SpanSelect, useTrail } from './blocked';
import { useGranted, usePools } from './data';

interface Refused { name: string; count: number; last: string; detail: string }

// "polars 1.9.0 sha256 9f86…: reason"
const packageOf = (detail: string): string => detail.split(' ')[0].toLowerCase().replace(/[._]+/g, '-');

export function Packages(): ReactElement {
  const granted = useGranted();
  const pools = usePools();
  const [span, setSpan] = useState<'day' | 'week' | 'month'>('month');
  const trail = useTrail('package.', span);
  const [allowing, setAllowing] = useState<string | null>(null);
  const installed = useMemo(() => (granted.data?.granted ?? []).flatMap((g) => g.network.installed.map((p) => ({ ...p, session: g.session }))), [granted.data]);
  const refused = useMemo(() => {
    const by = new Map<string, Refused>();
    for (const e of trail.data?.rows ?? []) {
      if (e.action !== 'package.refused') continue;
      const name = packageOf(e.detail ?? e.object ?? '');
      const old = by.get(name);
      by.set(name, { name, count: (old?.count ?? 0) + 1, last: e.at, detail: (e.detail ?? '').replace(/ sha256 [0-9a-f]+/, '') });
    }
    return [...by.values()].sort((a, b) => b.count - a.count);
  }, [trail.data]);
  const open = pools.data?.data.filter((p) => p.packages) ?? [];
  return (
    <div className="stack network-sections">
      {pools.data && <Notice tone="info"><p>{open.length ? <>pip installs what the policy allows in {open.length === 1 ? 'the pool' : 'the pools'} {open.map((p) => p.name).join(', ')}.</> : <>No pool lets pip install packages. A session can ask for it, or turn it on for a pool under <a href={href('pools')}>Pools and runtimes</a>.</>} A file that no rule allows is not installed. Packages of the images are under <a href={href('pools', 'runtimes')}>Runtimes</a>.</p></Notice>}
      <Section title="Installed by sessions">
        {granted.error ? <Problem error={granted.error} retry={granted.reload} /> : granted.loading && !granted.data ? <Loading /> : <Table label="Installed packages" rows={installed} rowKey={(p) => `${p.session.id} ${p.sha256}`} empty={<p className="muted">No live session has installed a package.</p>} columns={[
          { id: 'name', label: 'Package', cell: (p) => <code>{p.name}</code>, sort: (p) => p.name },
          { id: 'version', label: 'Version', cell: (p) => p.version, sort: (p) => p.version },
          { id: 'session', label: 'Session', cell: (p) => <a href={href('notebook', p.session.id)}><bdi>{p.session.name ?? shortId(p.session.id)}</bdi></a>, sort: (p) => p.session.name },
          { id: 'sha', label: 'SHA-256', cell: (p) => <code title={p.sha256}>{p.sha256.slice(0, 12)}…</code> },
          { id: 'at', label: 'Installed', cell: (p) => <Time at={p.at} />, sort: (p) => p.at },
        ]} />}
      </Section>
      <Section title="Refused" actions={trail.may && <SpanSelect value={span} onChange={setSpan} />}>
        {!trail.may ? <p className="muted">Refused packages are read from the audit trail. Ask for the scope <code>audit:read</code>.</p> : trail.error ? <Problem error={trail.error} retry={trail.reload} /> : !trail.data ? <Loading /> : <Table label="Refused packages" rows={refused} rowKey={(r) => r.name} empty={<p className="muted">No package was refused in this time.</p>} columns={[
          { id: 'name', label: 'Package', cell: (r) => <code>{r.name}</code>, sort: (r) => r.name },
          { id: 'count', label: 'Times', num: true, cell: (r) => r.count, sort: (r) => r.count },
          { id: 'detail', label: 'Why', cell: (r) => <bdi className="muted">{r.detail}</bdi> },
          { id: 'last', label: 'Last', cell: (r) => <Time at={r.last} form="ago" />, sort: (r) => r.last },
          { id: 'do', label: 'Actions', cell: (r) => <Button compact onClick={() => setAllowing(r.name)}>Allow…</Button> },
        ]} />}
      </Section>
      {open.length > 0 && <p className="small muted">Pools with packages: <span className="govern-chips">{open.map((p) => <Chip key={p.name} tone="info">{p.name}</Chip>)}</span></p>}
      {allowing && <AllowDialog title={`Allow the package ${allowing}?`} lead="The rule lets pip install every version of it. Add package_version or package_sha256 in the editor to allow less." onClose={() => setAllowing(null)} makeRule={(pool) => ({ base: `package-${allowing}`, match: { action: 'package', package: allowing, ...(pool ? { pool } : {}) } })} />}
    </div>
  );
}
