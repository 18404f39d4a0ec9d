// SPDX-License-Identifier: Apache-2.0
// Saved tools: the list of all workspaces, and one page per tool with a form
// for its parameters, its runs, its code and its versions.
import { useState, type FormEvent, type ReactElement } from 'react';
import { api, ApiError, path } from '../../api/client';
import { useLoad } from '../../api/query';
import type { Execution, List, Workspace } from '../../api/types';
import { useMay } from '../../app/me';
import { go, href, useRoute } from '../../app/router';
import { ActionButton, Button, Chip, durationText, Empty, Loading, Name, Notice, Problem, sizeText, Tabs, Time } from '../../ui/basic';
import { Held } from '../../ui/held';
import { LineDiff } from '../../ui/linediff';
import { confirm, toast, toastError } from '../../ui/overlay';
import { Table } from '../../ui/table';
import { Code } from '../../ui/text';
import { State } from '../executions/list';
import { Who } from '../files/who';
import { Outputs } from '../notebook/output';
import { outputsOf } from '../notebook/store';
import { Input } from './form';
import { KeepDialog, openTool, type SavedTool } from './keep';

const useNames = (): ((ws: string) => string) => {
  const { data } = useLoad<List<Workspace>>('tool workspaces', (signal) => api.get('/api/workspaces', { limit: 200 }, { signal }));
  return (ws) => data?.data.find((w) => w.id === ws)?.name || `${ws.slice(0, 11)}…`;
};
const refresh = { refreshOn: ['workspace'], accept: (e: { data: Record<string, unknown> }) => String(e.data.action ?? '').startsWith('tool.') };

// --- the list --------------------------------------------------------------------

export function SavedList(): ReactElement {
  const mayWrite = useMay('files:write');
  const nameOf = useNames();
  const [making, setMaking] = useState(false);
  const { data, error, reload } = useLoad<List<SavedTool>>('saved tools', (signal) => api.get('/api/tools', {}, { signal }), refresh);
  const make = mayWrite && <Button kind="primary" icon="plus" onClick={() => setMaking(true)}>New tool</Button>;
  return <>
    {error ? <Problem error={error} retry={reload} /> : !data ? <Loading /> : <>
      {data.data.length > 0 && <div className="row spread"><p className="muted small tools-lead">Code that worked, kept with a name and typed parameters. Members of the workspace run it here, by the command line and through MCP; models call it in chats.</p>{make}</div>}
      <Table<SavedTool> label="Saved tools" rows={data.data} rowKey={(t) => `${t.workspace} ${t.name}`} first={{ id: 'name', down: false }}
        empty={<Empty title="No tool is saved yet" action={make}>Keep code that worked: “Keep as a tool” is in the menu of every notebook cell and on the page of every execution. Or write one here.</Empty>} columns={[
          { id: 'name', label: 'Name', sort: (t) => t.name, cell: (t) => <a className="mono" href={href('tools', 'saved', t.workspace, t.name)}><strong>{t.name}</strong></a> },
          { id: 'what', label: 'Description', cell: (t) => (t.description ? <Name>{t.description}</Name> : <span className="muted">–</span>) },
          { id: 'parameters', label: 'Parameters', cell: (t) => <span className="mono small">{Object.keys(t.parameters.properties ?? {}).join(', ') || '–'}</span> },
          { id: 'workspace', label: 'Workspace', sort: (t) => nameOf(t.workspace), cell: (t) => <a href={href('files', t.workspace)}><Name>{nameOf(t.workspace)}</Name></a> },
          { id: 'version', label: 'Version', num: true, sort: (t) => t.number, cell: (t) => t.number },
          { id: 'at', label: 'Saved', sort: (t) => t.created_at, cell: (t) => <><Time at={t.created_at} form="ago" /> by <Who id={t.created_by} name={t.created_by_name} /></> },
        ]} />
    </>}
    {making && <KeepDialog draft={{ code: '', language: 'python' }} onClose={() => setMaking(false)} onSaved={openTool} />}
  </>;
}

// --- one tool --------------------------------------------------------------------

export function SavedPage({ ws, name }: { ws: string; name: string }): ReactElement {
  const { query } = useRoute();
  const mayWrite = useMay('files:write');
  const nameOf = useNames();
  const at = path`/api/workspaces/${ws}/tools/${name}`;
  const { data, error, reload } = useLoad<List<SavedTool>>(`tool ${at}`, (signal) => api.get(`${at}/versions`, {}, { signal }), refresh);
  const [editing, setEditing] = useState<SavedTool | null>(null);
  const tab = query.get('tab') === 'versions' ? 'versions' : 'run';
  const back = href('tools', 'saved');
  if (error) return error instanceof ApiError && (error.status === 404 || error.status === 403) ? <Empty title="There is no such tool" action={<a className="button" href={back}>All saved tools</a>}>It was deleted, or you are no member of its workspace.</Empty> : <Problem error={error} retry={reload} />;
  if (!data) return <Loading />;
  const newest = data.data[0];
  const tool = data.data.find((t) => String(t.number) === query.get('version')) ?? newest;
  const remove = async () => {
    if (!await confirm({ title: `Delete ${name}?`, text: `The tool and its ${data.data.length === 1 ? 'version' : `${data.data.length} versions`}. Its runs and their evidence stay. This cannot be undone.`, action: 'Delete', danger: true })) return;
    await api.del(at);
    toast('The tool is deleted.');
    go(back);
  };
  return (
    <div className="stack">
      <nav className="crumbs" aria-label="Path"><a href={back}>Saved tools</a></nav>
      <div className="row spread">
        <div className="grow tools-head"><h2 className="mono">{tool.name}</h2>{tool.description && <p><Name>{tool.description}</Name></p>}<p className="muted small">Tool of <a href={href('files', ws)}><Name>{nameOf(ws)}</Name></a>, version {tool.number}{tool.number === newest.number ? '' : ` (the newest is ${newest.number})`}.</p></div>
        {mayWrite && <div className="row"><Button onClick={() => setEditing(tool)}>Edit</Button><ActionButton kind="danger" action={remove} onError={toastError}>Delete</ActionButton></div>}
      </div>
      <Tabs label="Parts of the tool" value={tab} onChange={(next) => go(href('tools', 'saved', ws, name, next === 'versions' ? { tab: next } : {}), { replace: true })} tabs={[{ id: 'run', label: 'Run' }, { id: 'versions', label: `Versions (${data.data.length})` }]} />
      {tab === 'run' ? <Runner key={`${tool.number}`} tool={tool} at={at} /> : <Versions versions={data.data} at={at} mayWrite={mayWrite} onEdit={setEditing} onDeleted={reload} />}
      {editing && <KeepDialog draft={{ code: editing.code, language: editing.language, workspace: ws, tool: editing }} onClose={() => setEditing(null)} onSaved={reload} />}
    </div>
  );
}

function Runner({ tool, at }: { tool: SavedTool; at: string }): ReactElement {
  const may = useMay('execute');
  const [values, setValues] = useState<Record<string, unknown>>({});
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [done, setDone] = useState<Execution | null>(null);
  const parameters = Object.entries(tool.parameters.properties ?? {});
  const required = new Set(tool.parameters.required ?? []);
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    setBusy(true);
    setError(null);
    setDone(null);
    try {
      setDone(await api.post<Execution>(`${at}/run`, { version: tool.number, arguments: Object.fromEntries(Object.entries(values).filter(([, v]) => v !== undefined)) }));
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
  };
  return (
    <div className="tools-work">
      <form className="panel stack" aria-label={`Run ${tool.name}`} onSubmit={(e) => { void submit(e); }}>
        {parameters.length === 0 && <p className="muted small">It has no parameters.</p>}
        {parameters.map(([id, schema]) => <Input key={id} name={id} schema={schema} required={required.has(id)} value={values[id]} onChange={(v) => setValues((old) => ({ ...old, [id]: v }))} />)}
        {may && <div className="row"><Button kind="primary" icon="play" type="submit" disabled={busy}>{busy ? 'Running…' : 'Run'}</Button></div>}
        <details><summary className="small">Code</summary><Code text={tool.code} language={tool.language} numbered label="Code of the tool" />{tool.execution && <p className="small">Kept from <a className="mono" href={href('executions', tool.execution)}>{tool.execution.slice(0, 17)}…</a></p>}</details>
      </form>
      <div className="stack">
        {error !== null && <Problem error={error} />}
        {done ? <Result first={done} /> : error === null && <Notice><p>{busy ? 'It runs in a session of its own on the workspace.' : 'The result appears here. Files that the code writes below /mnt/data stay in the workspace.'}</p></Notice>}
      </div>
    </div>
  );
}

// The result of a run; one that waits for approval is followed to its end.
function Result({ first }: { first: Execution }): ReactElement {
  const { data } = useLoad<Execution>(first.status === 'completed' ? null : `run ${first.id}`, (signal) => api.get(path`/api/executions/${first.id}`, {}, { signal }),
    { refreshOn: ['execution', 'approval'] });
  const run = data ?? first;
  const files = run.files ? [...run.files.created, ...run.files.modified] : [];
  return (
    <section className="panel stack" aria-label="Result">
      <div className="row spread"><h3>Result</h3><span className="row"><State row={run} /><a href={href('executions', run.id)}>Evidence</a></span></div>
      {run.status === 'pending_approval' && run.approval && <Held approval={run.approval} what="the run" />}
      {run.status === 'completed' && <>
        <Outputs outputs={outputsOf(run, null)} label="Result" />
        {!run.stdout && !run.stderr && !run.result && !run.displays.length && !run.error && <p className="muted small">It wrote nothing.</p>}
        {files.length > 0 && <ul className="tools-files" aria-label="Files">{files.map((f) => <li key={f.path}><a href={href('files', run.workspace ?? '', f.path)}><Name>{f.path}</Name></a> <span className="muted small">{sizeText(f.size)}</span></li>)}</ul>}
        <p className="muted small">{durationText(run.usage.wall_ms)}, {sizeText(run.usage.peak_memory_bytes)} of memory at most.</p>
      </>}
    </section>
  );
}

function Versions({ versions, at, mayWrite, onEdit, onDeleted }: { versions: SavedTool[]; at: string; mayWrite: boolean; onEdit: (tool: SavedTool) => void; onDeleted: () => void }): ReactElement {
  const text = (t: SavedTool) => `${t.description}\n\n${JSON.stringify(t.parameters, null, 2)}\n\n${t.code}`;
  const remove = async (t: SavedTool) => {
    if (!await confirm({ title: `Delete version ${t.number}?`, text: versions.length === 1 ? 'It is the only one: the tool is deleted with it. This cannot be undone.' : 'This cannot be undone.', action: 'Delete', danger: true })) return;
    await api.del(`${at}/versions/${t.number}`);
    toast(`Version ${t.number} is deleted.`);
    if (versions.length === 1) go(href('tools', 'saved'));
    else onDeleted();
  };
  return (
    <ol className="tools-versions" aria-label="Versions">
      {versions.map((t, i) => (
        <li key={t.number} className="panel stack">
          <div className="row spread"><span className="row"><strong>Version {t.number}</strong>{i === 0 && <Chip tone="accent">newest</Chip>}<span className="muted small"><Time at={t.created_at} /> by <Who id={t.created_by} name={t.created_by_name} /></span></span>
            <span className="row"><a className="button compact" href={href('tools', 'saved', t.workspace, t.name, { version: t.number })}>Run it</a>{mayWrite && <><Button compact onClick={() => onEdit(t)}>{i === 0 ? 'Edit' : 'Make it the newest'}</Button><ActionButton compact kind="danger" action={() => remove(t)} onError={toastError}>Delete</ActionButton></>}</span></div>
          {versions[i + 1] ? <details><summary className="small">What changed since version {versions[i + 1].number}</summary><LineDiff before={text(versions[i + 1])} after={text(t)} label={`Changes of version ${t.number}`} /></details>
            : <details><summary className="small">Code</summary><Code text={t.code} language={t.language} numbered label={`Code of version ${t.number}`} /></details>}
        </li>
      ))}
    </ol>
  );
}
