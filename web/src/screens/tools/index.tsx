// SPDX-License-Identifier: Apache-2.0
// The tools that models use, as forms for people: the same door, the same
// arguments, the same answers.
import { useEffect, useMemo, useRef, useState, type FormEvent, type ReactElement } from 'react';
import { api, saveBlob } from '../../api/client';
import { useLoad } from '../../api/query';
import { useMay, useMe } from '../../app/me';
import { go, href, useRoute } from '../../app/router';
import { Button, Chip, Loading, Name, Notice, Page, Problem, sizeText, Tabs } from '../../ui/basic';
import { toastError } from '../../ui/overlay';
import { Ansi, Markdown } from '../../ui/text';
import { Input } from './form';
import { Mcp, type Block, type Result, type Schema, type Tool } from './mcp';
import { SavedList, SavedPage } from './saved';

const shown = ['execute_python', 'run_shell', 'generate_pdf_report', 'read_file', 'search_files', 'list_files', 'download_file', 'upload_file'];
// What a form offers first, and what it begins with.
const editors: Record<string, 'python' | 'shell' | 'markdown' | 'text'> = { code: 'python', command: 'shell', markdown: 'markdown', text: 'text', html: 'text' };
const samples: Record<string, Record<string, unknown>> = {
  execute_python: { code: 'import matplotlib.pyplot as plt\nplt.plot([1, 4, 9, 16])\nplt.savefig("/mnt/data/squares.png")\nplt.show()' },
  run_shell: { command: 'ls -l /mnt/data' },
  generate_pdf_report: { title: 'A first report', path: 'report.pdf', markdown: '## Result\n\nThe numbers grow.\n\n| n | square |\n|---|---|\n| 1 | 1 |\n| 2 | 4 |\n\n> [!NOTE]\n> Pictures of the session: `![Squares](squares.png)`' },
  search_files: { pattern: 'total' },
  upload_file: { path: 'hello.txt', text: 'hello\n' },
  read_file: { path: 'hello.txt' },
  download_file: { path: 'hello.txt' },
};

const firstSentence = (text = ''): string => /^[\s\S]*?[.](?=\s|$)/.exec(text)?.[0] ?? text;

interface ToolFile { path?: string; size?: number; url?: string; change?: string }

function ResultView({ result }: { result: Result }): ReactElement {
  const kept = result.structuredContent;
  const files = (Array.isArray(kept?.files) ? kept.files : kept?.file ? [kept.file] : []) as ToolFile[];
  const status = String(result.structuredContent?.status ?? (result.isError ? 'error' : 'ok'));
  const save = (file: ToolFile) => {
    // Only the path of the address is used: the request goes to this service.
    const at = new URL(file.url!, location.href);
    api.blob(at.pathname + at.search).then((blob) => saveBlob(blob, file.path ?? 'file')).catch(toastError);
  };
  const isText = (b: Block): b is Extract<Block, { text: string }> => b.type === 'text';
  const isImage = (b: Block): b is Extract<Block, { data: string }> => b.type === 'image';
  return (
    <section className="panel stack" aria-label="Answer">
      <div className="row spread"><h2>Answer</h2><Chip tone={result.isError ? 'bad' : status === 'ok' ? 'good' : 'warn'}>{status}</Chip></div>
      {result.content.map((block, i) => isText(block) ? <div key={i} className="tools-text"><Ansi text={block.text} label="Answer" /></div>
        : isImage(block) && /^image\/(png|jpeg|gif|webp)$/.test(block.mimeType) ? <img key={i} className="tools-image" src={`data:${block.mimeType};base64,${block.data}`} alt={`Picture ${i} of the answer`} /> : null)}
      {files.some((f) => f.url) && <div className="stack tight"><h3>Files</h3>{files.filter((f) => f.url && f.path).map((f) => (
        <div key={f.path} className="row"><Name>{f.path!}</Name>{f.size !== undefined && <span className="small muted">{sizeText(f.size)}</span>}<Button compact icon="download" onClick={() => save(f)}>Download</Button></div>))}</div>}
    </section>
  );
}

function ToolForm({ tool, mcp, scopes }: { tool: Tool; mcp: Mcp; scopes: string[] }): ReactElement {
  const [values, setValues] = useState<Record<string, unknown>>(samples[tool.name] ?? {});
  const [state, setState] = useState<{ busy: boolean; progress?: string; result?: Result; error?: unknown }>({ busy: false });
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);
  const properties = Object.entries(tool.inputSchema.properties ?? {});
  const required = new Set(tool.inputSchema.required ?? []);
  const first = properties.filter(([name]) => required.has(name) || name in (samples[tool.name] ?? {}));
  const rest = properties.filter(([name]) => !first.some(([n]) => n === name));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    abort.current = new AbortController();
    setState({ busy: true });
    const args = Object.fromEntries(Object.entries(values).filter(([, v]) => v !== undefined && v !== ''));
    mcp.call(scopes, tool.name, args, abort.current.signal, (progress) => setState((s) => ({ ...s, progress })))
      .then((result) => setState({ busy: false, result }), (error: unknown) => setState((error as Error).name === 'AbortError' ? { busy: false } : { busy: false, error }));
  };
  const input = ([name, schema]: [string, Schema]) => <Input key={name} name={name} schema={schema} editor={editors[name]} required={required.has(name)} value={values[name]} onChange={(v) => setValues((old) => ({ ...old, [name]: v }))} />;
  const markdown = tool.name === 'generate_pdf_report' && typeof values.markdown === 'string' ? values.markdown : null;
  return (
    <div className="tools-work">
      <form className="panel stack" onSubmit={submit} aria-label={tool.name}>
        <div><h2 className="mono">{tool.name}</h2><p className="muted small">{firstSentence(tool.description)}</p><details className="small"><summary>What a model is told</summary><p className="muted">{tool.description}</p></details></div>
        {first.map(input)}
        {rest.length > 0 && <details><summary>More arguments</summary><div className="stack tools-rest">{rest.map(input)}</div></details>}
        <div className="row">
          <Button kind="primary" icon="play" type="submit" disabled={state.busy}>{state.busy ? 'Running…' : 'Run'}</Button>
          {state.busy && <Button onClick={() => abort.current?.abort()}>Cancel</Button>}
          <span role="status" className="small muted truncate grow">{state.busy ? state.progress : ''}</span>
        </div>
      </form>
      <div className="stack">
        {state.error !== undefined && <Problem error={state.error} />}
        {state.result ? <ResultView result={state.result} /> : markdown !== null
          ? <section className="panel stack" aria-label="Preview"><h2>Preview of the text</h2><Markdown text={markdown} /><p className="small muted">Run the tool for the PDF and a picture of its first page.</p></section>
          : <Notice><p>The answer appears here. Calls share one session until you leave this screen.</p></Notice>}
      </div>
    </div>
  );
}

export default function ToolsScreen(): ReactElement {
  const [first, ws, name] = useRoute().parts;
  const seesSaved = useMay('files:read');
  const saved = first === 'saved' && seesSaved;
  return (
    <Page title="Tools" lead={saved ? undefined : 'What a model can call through MCP, as forms. The answers are those a model would get.'}>
      {seesSaved && <Tabs label="Kinds of tools" value={saved ? 'saved' : 'own'} onChange={(id) => go(id === 'saved' ? href('tools', 'saved') : href('tools'))} tabs={[{ id: 'own', label: 'Built in' }, { id: 'saved', label: 'Saved' }]} />}
      {!saved ? <BuiltIn chosen={first} /> : ws && name ? <SavedPage key={`${ws} ${name}`} ws={ws} name={name} /> : <SavedList />}
    </Page>
  );
}

function BuiltIn({ chosen }: { chosen: string | undefined }): ReactElement {
  const me = useMe();
  const mcp = useMemo(() => new Mcp(), []);
  const scopes = useMemo(() => (['execute', 'files:read', 'files:write'] as const).filter((s) => me.scopes.includes('admin') || me.scopes.includes(s)), [me]);
  const { data, error, reload } = useLoad<Tool[]>('tools', async () => {
    const all = await mcp.tools([...scopes]);
    return shown.map((name) => all.find((t) => t.name === name)).filter((t) => t !== undefined);
  });
  const tool = data?.find((t) => t.name === (chosen ?? shown[0])) ?? data?.[0];
  if (error) return <Problem error={error} retry={reload} />;
  if (!data || !tool) return <Loading />;
  return <>
    <nav className="tools-list" aria-label="Tools">
      {data.map((t) => <a key={t.name} className="tools-card" aria-current={t.name === tool.name ? 'true' : undefined} href={href('tools', t.name)} onClick={(e) => {
        e.preventDefault();
        go(href('tools', t.name), { replace: true });
      }}><strong className="mono">{t.name}</strong><span className="small">{firstSentence(t.title ?? t.description).slice(0, 90)}</span></a>)}
    </nav>
    <ToolForm key={tool.name} tool={tool} mcp={mcp} scopes={[...scopes]} />
  </>;
}
