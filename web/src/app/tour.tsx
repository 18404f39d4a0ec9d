// SPDX-License-Identifier: Apache-2.0
// Three steps on the first start: what this is, a workspace of one's own, and
// a chart that a cell draws and saves in it.
import { useEffect, useState, type ReactElement } from 'react';
import { api } from '../api/client';
import type { List, Workspace } from '../api/types';
import { Button, Problem } from '../ui/basic';
import { Dialog } from '../ui/overlay';
import { allowRun } from './firstrun';
import { useMay } from './me';
import { go, href } from './router';
import { remember, remembered } from './theme';

const code = `import matplotlib.pyplot as plt
import numpy as np

days = np.arange(1, 31)
visits = 120 + 4 * days + 18 * np.sin(days / 2.2)

fig, ax = plt.subplots(figsize=(8, 3.6))
ax.fill_between(days, visits, alpha=0.18, color="#3a4aa8")
ax.plot(days, visits, color="#3a4aa8", linewidth=2)
ax.set(title="Visits in the first month", xlabel="day", ylabel="visits")
ax.spines[["top", "right"]].set_visible(False)
fig.tight_layout()
fig.savefig("/mnt/data/first-chart.png", dpi=120)
plt.show()`;
const words = '# Your first notebook\n\nPress **Shift+Enter** in the cell below. It runs in a sandbox of its own, draws a chart and saves it as `first-chart.png` in this workspace, where it stays: with its history, and with the code that made it.';

const tourNotebook = JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: {}, cells: [
  { cell_type: 'markdown', id: 'welcome', metadata: {}, source: words },
  { cell_type: 'code', id: 'chart', metadata: {}, execution_count: null, outputs: [], source: code },
] });

export function Tour(): ReactElement | null {
  const mayWork = useMay('execute');
  const mayWrite = useMay('files:write');
  const may = mayWork && mayWrite;
  const [step, setStep] = useState(0);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    if (!may) return undefined;
    const show = () => setStep(1);
    addEventListener('glovebox-tour', show);
    // Only where nothing has been done yet.
    if (remembered('tour') !== 'done') api.get<List<Workspace>>('/api/workspaces', { limit: 1 }).then((list) => { if (!list.data.length) setStep(1); }, () => {});
    return () => removeEventListener('glovebox-tour', show);
  }, [may]);
  const end = () => {
    remember('tour', 'done');
    setStep(0);
    setError(null);
  };
  const start = async () => {
    setBusy(true);
    try {
      const ws = await api.post<Workspace>('/api/workspaces', { name: 'My first notebook' });
      await api.raw('PUT', `/api/workspaces/${encodeURIComponent(ws.id)}/files/notebook.ipynb`, tourNotebook, { headers: { 'Content-Type': 'application/x-ipynb+json' } });
      end();
      allowRun(ws.id);
      go(href('notebook', ws.id));
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
  };
  if (!step || !may) return null;
  const foot = <>
    <span className="small muted tour-step">Step {step} of 3</span>
    <Button onClick={end}>Skip the tour</Button>
    {step < 3 ? <Button kind="primary" onClick={() => setStep(step + 1)}>Next</Button> : <Button kind="primary" disabled={busy} onClick={() => { void start(); }}>{busy ? 'Making it…' : 'Draw my first chart'}</Button>}
  </>;
  return (
    <Dialog title={['', 'Code runs inside the box', 'Nothing is lost', 'Draw your first chart'][step]} onClose={end} foot={foot}>
      <div className="tour-ports" aria-hidden="true"><span className={step >= 1 ? 'on' : ''} /><span className={step >= 2 ? 'on' : ''} /><span className={step >= 3 ? 'on' : ''} /></div>
      {step === 1 && <p>Python and shell code run in a sandbox: it has your files and nothing else. What it may reach is decided by policy, and a person can be asked first.</p>}
      {step === 2 && <p>Files live in a workspace. Every change is a version that you can look at, compare and restore. For each file you can see which code made it, and run that code again.</p>}
      {step === 3 && <p>The last step makes a notebook in a workspace of your own and runs its one cell. The chart stays there as a file.</p>}
      {error !== null && <Problem error={error} />}
    </Dialog>
  );
}
