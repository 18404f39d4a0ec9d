// SPDX-License-Identifier: Apache-2.0
// The chat screen: questions in words, answers with the code that was run.
// #/chat begins a conversation, #/chat/ID opens one, #/chat/models lists models.
import { useDeferredValue, useEffect, useMemo, useRef, useState, type ReactElement } from 'react';
import { ApiError, api, messageOf } from '../../api/client';
import { useLoad } from '../../api/query';
import type { List, Workspace } from '../../api/types';
import { useMay, useMe } from '../../app/me';
import { go, href, useRoute } from '../../app/router';
import { ActionButton, Button, Empty, Field, Loading, Name, Notice, Problem, Ring, Time } from '../../ui/basic';
import { Icon } from '../../ui/icons';
import { confirm, Dialog, Menu, toast, toastError } from '../../ui/overlay';
import { ShareDialog } from '../files/shares';
import { ask, follow, forget, isRunning, settle, stop, useAnswer } from './answers';
import { Composer, partsOf, useAttached, useDrop } from './composer';
import { intoFile, intoNotebook } from './export';
import { Held, ItemView, Question, TurnEnd, type Place } from './items';
import { Models } from './models';
import { AGENT, chat, titleOf, type Item, type Model, type Part, type Thread } from './wire';

export default function Chat(): ReactElement {
  const { parts, query } = useRoute();
  return parts[0] === 'models' ? <Models /> : <ChatScreen id={parts[0] ?? null} response={query.get('response')} agent={query.get('agent')} />;
}

function ChatScreen({ id, response, agent }: { id: string | null; response: string | null; agent: string | null }): ReactElement {
  const me = useMe();
  const [listOpen, setListOpen] = useState(false);
  const [words, setWords] = useState('');
  const q = useDeferredValue(words);
  const [older, setOlder] = useState<Thread[]>([]);
  const threads = useLoad<List<Thread>>(`threads ${q}`, (signal) => {
    setOlder([]);
    return chat.threads(q, signal);
  }, { refreshOn: ['execution'], accept: (e) => e.data.status === 'completed' });
  const models = useLoad<Model[]>('models', (signal) => chat.models(me, signal), { refreshOn: ['agent'] });
  const agents = useLoad<string[]>('agents', (signal) => chat.agents(signal), { refreshOn: ['agent'] });
  const [model, setModel] = useState(agent ? AGENT + agent : '');
  useEffect(() => { if (agent) setModel(AGENT + agent); }, [agent]);
  useEffect(() => setListOpen(false), [id]);
  const onlyEcho = models.data?.every((m) => m.id === 'echo');
  useEffect(() => { if (onlyEcho && models.data?.length) setModel((old) => old || 'echo'); }, [onlyEcho]);
  const list = threads.data && [...threads.data.data, ...older.filter((o) => !threads.data!.data.some((t) => t.id === o.id))];
  return (
    <div className="chat">
      <aside className={`chat-side ${listOpen ? 'open' : ''}`} aria-label="Chats">
        <div className="row spread"><h1>Chat</h1><a className="button compact" href={href('chat')} aria-current={id ? undefined : 'page'}><Icon name="plus" size={16} />New chat</a></div>
        {((list?.length ?? 0) > 9 || words) && <input type="search" className="input" aria-label="Find a chat" placeholder="Find a chat" value={words} onChange={(e) => setWords(e.target.value)} />}
        <Threads list={list} found={!!q} error={threads.error} retry={threads.reload} open={id} onChange={threads.reload} />
        {threads.data?.has_more && !older.length && <ActionButton compact onError={toastError} action={async () => setOlder((await chat.threads(q, undefined, threads.data!.data.at(-1)!.id)).data)}>Older chats</ActionButton>}
        <div className="row"><a className="chat-models" href={href('chat', 'models')}>Models</a><a className="chat-models" href={href('agents')}>Agents</a></div>
      </aside>
      <div className="chat-main">
        <div className="chat-top"><Button compact icon="menu" aria-expanded={listOpen} onClick={() => setListOpen(!listOpen)}>Chats</Button></div>
        {models.error ? <Problem error={models.error} retry={models.reload} />
          : onlyEcho && <Notice tone="warn" actions={<a className="button compact" href={href('chat', 'models')}>Models</a>}><p>Only <code>echo</code> is configured: a built-in model for trials, which understands nothing. An operator adds a real one with <code>glovebox model add</code>.</p></Notice>}
        <ThreadView key={id ?? 'new'} id={id} response={response} title={titleOf(threads.data?.data.find((t) => t.id === id) ?? { id: '' })} models={models.data ?? []} agents={agents.data ?? (agent ? [agent] : [])} model={model} setModel={setModel} onChange={threads.reload} />
      </div>
    </div>
  );
}

// --- the list of threads ---------------------------------------------------------

function Threads({ list, found, error, retry, open, onChange }: { list: Thread[] | undefined; found: boolean; error: unknown; retry: () => void; open: string | null; onChange: () => void }): ReactElement {
  const [renamed, setRenamed] = useState<Thread | null>(null);
  if (error) return <Problem error={error} retry={retry} />;
  if (!list) return <Loading />;
  const remove = async (t: Thread) => {
    if (!await confirm({ title: 'Delete this chat?', text: <>“{titleOf(t)}”, with its session and files. This cannot be undone.</>, action: 'Delete', danger: true })) return;
    await chat.remove(t.id);
    forget(t.id);
    toast('The chat is deleted.');
    onChange();
    if (open === t.id) go(href('chat'));
  };
  return (
    <nav className="chat-threads" aria-label="Earlier chats">
      {!list.length && <p className="small muted">{found ? 'No chat has these words.' : 'No chat yet. Ask something.'}</p>}
      <ul>{list.map((t) => (
        <li key={t.id}>
          <a className="chat-thread" href={href('chat', t.id)} aria-current={open === t.id ? 'page' : undefined}>
            <span className="truncate">{isRunning(t.id) && <Ring state="busy" />}<Name>{titleOf(t)}</Name></span>
            {t.last_at && <span className="small muted"><Time at={t.last_at} form="ago" /></span>}
          </a>
          <Menu compact label={`More of ${titleOf(t)}`} items={[
            { label: 'Rename…', onSelect: () => setRenamed(t) },
            { label: 'Delete…', danger: true, onSelect: () => { remove(t).catch(toastError); } },
          ]} />
        </li>
      ))}</ul>
      {renamed && <Rename thread={renamed} onClose={() => setRenamed(null)} onDone={onChange} />}
    </nav>
  );
}

function Rename({ thread, onClose, onDone }: { thread: Thread; onClose: () => void; onDone: () => void }): ReactElement {
  const [title, setTitle] = useState(titleOf(thread));
  const [problem, setProblem] = useState<string | null>(null);
  return (
    <Dialog title="Rename the chat" onClose={onClose} foot={<><Button onClick={onClose}>Cancel</Button><Button kind="primary" type="submit" form="chat-rename" disabled={!title.trim()}>Rename</Button></>}>
      <form id="chat-rename" onSubmit={(e) => {
        e.preventDefault();
        chat.rename(thread.id, title).then(() => {
          onDone();
          onClose();
        }, (error: unknown) => setProblem(messageOf(error)));
      }}>
        <Field label="Title" problem={problem}>{(p) => <input {...p} className="input" dir="auto" maxLength={150} value={title} onChange={(e) => setTitle(e.target.value)} />}</Field>
      </form>
    </Dialog>
  );
}

// --- one thread --------------------------------------------------------------------

const suggestions = ['What is in the file I attached? Show the most important figures.', 'Plot a sine wave and save it as a PNG.', 'How many prime numbers are below one million?'];

const names = new Map<string, string>(); // of files that went with questions

// Where the last question and everything after it begins.
export const lastTurn = (items: Item[]): number => items.findLastIndex((i) => i.type === 'message' && i.role === 'user');

interface ViewProps { id: string | null; response: string | null; title: string; models: Model[]; agents: string[]; model: string; setModel: (m: string) => void; onChange: () => void }

function ThreadView({ id, response, title, models, agents, model, setModel, onChange }: ViewProps): ReactElement {
  const me = useMe();
  const mayWrite = useMay('files:write');
  const answer = useAnswer(id);
  const { data, error, reload, set } = useLoad<Item[]>(id && `items ${id}`, (signal) => chat.items(me, id!, signal));
  const attached = useAttached(me);
  const { over, props: dropProps } = useDrop(attached.add);
  const box = useRef<HTMLTextAreaElement>(null);
  const end = useRef<HTMLDivElement>(null);
  const [share, setShare] = useState<{ ws: string; at: string } | null>(null);
  const busy = !!answer && !answer.over;

  // An answer that was under way when the page was loaded.
  useEffect(() => { if (id && response) follow(me, id, response); }, [id, response]);
  // It is over: the items of the conversation replace what was streamed.
  const reloaded = useRef<Item[] | undefined>(undefined);
  useEffect(() => {
    if (!id || !answer?.over || (!answer.question && !answer.live.items.length)) return;
    reloaded.current = data;
    reload();
    onChange();
    if (response) go(href('chat', id), { replace: true });
  }, [id, answer?.over]);
  useEffect(() => { if (id && answer?.over && data && data !== reloaded.current) settle(id); }, [data]);
  useEffect(() => { box.current?.focus(); }, [id]);

  const stored = data ?? [];
  const live = (answer?.live.items ?? []).filter((item) => !stored.some((s) => s.id === item.id));
  const shown = useMemo(() => [...stored, ...live], [data, answer]);
  const thread = useLoad<Thread>(id && `thread ${id}`, (signal) => chat.thread(id!, signal));
  // Its session and workspace are known once the answer is stored.
  useEffect(() => { if (id && stored.length && !thread.data?.workspace) thread.reload(); }, [id, stored.length]);
  const workspace = thread.data?.workspace ?? null;
  const unnamed = shown.flatMap((i) => (i.role === 'user' ? i.content ?? [] : [])).flatMap((p) => (p.file_id && !p.filename && !names.has(p.file_id) ? [p.file_id] : []));
  const named = useLoad<number>(unnamed.length ? `names ${unnamed.join(' ')}` : null, async (signal) => {
    for (const file of unnamed) names.set(file, await chat.fileName(me, file, signal));
    return names.size;
  });
  const place = useMemo((): Place => ({
    workspace,
    notebook: workspace && mayWrite ? async (item) => {
      await intoNotebook(workspace, [item]);
      go(href('notebook', workspace));
    } : null,
    download: (file) => chat.download(me, file.container_id!, file.file_id!, file.filename!.split('/').pop() ?? 'file'),
    nameOf: (file) => names.get(file) ?? null,
  }), [workspace, mayWrite, named.data]);

  // Stays at the end while the answer grows, unless the person scrolled up.
  const size = shown.length + (live.at(-1)?.content?.at(-1)?.text?.length ?? 0) + (live.at(-1)?.code?.length ?? 0);
  const atEnd = useRef(true);
  useEffect(() => {
    const look = () => { atEnd.current = document.documentElement.scrollHeight - scrollY - innerHeight < 160; };
    addEventListener('scroll', look, { passive: true });
    return () => removeEventListener('scroll', look);
  }, []);
  useEffect(() => { if (atEnd.current) end.current?.scrollIntoView({ block: 'end' }); }, [size, busy, data !== undefined]);

  const put = async (content: Part[], with_: string) => {
    const thread = id ?? (await chat.begin((content[0].text ?? '').trim().split('\n')[0].slice(0, 80))).id;
    for (const p of content) if (p.file_id && p.filename) names.set(p.file_id, p.filename);
    atEnd.current = true;
    ask(me, thread, with_ || null, content.map(({ filename: _, ...part }) => part), (reply) => go(href('chat', thread, { response: reply }), { replace: true }));
    if (!id) {
      onChange();
      go(href('chat', thread));
    }
  };
  const send = async (text: string) => {
    await put(partsOf(text, attached.list), model);
    attached.clear();
  };
  // The last question once more: its answer is taken out of the conversation first.
  const retry = async (with_: string) => {
    const from = lastTurn(stored);
    const question = stored[from];
    if (!id || !question?.content) return;
    for (const item of stored.slice(from).reverse()) await chat.drop(me, id, item.id);
    forget(id);
    set(stored.slice(0, from));
    await put(question.content.map((p) => ({ type: p.type, ...(p.text !== undefined ? { text: p.text } : {}), ...(p.file_id ? { file_id: p.file_id } : {}) })), with_);
  };
  const openShare = async () => {
    const ws = workspace ?? (await api.post<Workspace>('/api/workspaces', { name: `Shared: ${title}`.slice(0, 100) })).id;
    setShare({ ws, at: await intoFile(ws, id!, title) });
  };
  const openNotebook = async () => {
    await intoNotebook(workspace!, stored);
    go(href('notebook', workspace!));
  };

  const gone = error instanceof ApiError && error.status === 404;
  const done = !!answer && answer.over;
  return (
    <section className={`chat-thread-view ${over ? 'over' : ''}`} aria-label={id ? title : 'New chat'} {...dropProps}>
      {over && <div className="chat-drop" aria-hidden="true"><Icon name="upload" size={28} /><strong>Drop files to send them with your question</strong></div>}
      {id && stored.length > 0 && <header className="row spread chat-head">
        <h2 className="truncate" dir="auto"><Name>{title}</Name></h2>
        <div className="row">
          {workspace && <a className="button compact" href={href('files', workspace)}><Icon name="files" size={16} />Files</a>}
          <Menu compact label="More of this chat" items={[
            { label: 'Share read-only…', disabled: !mayWrite || busy, onSelect: () => { openShare().catch(toastError); } },
            { label: 'Open all code in the notebook', disabled: !workspace || !mayWrite || !stored.some((i) => i.type === 'code_interpreter_call'), onSelect: () => { openNotebook().catch(toastError); } },
            { label: 'What it ran and made', onSelect: () => go(href('conversations', id)) },
          ]} />
        </div>
      </header>}
      {gone ? <Empty title="There is no such chat" action={<a className="button" href={href('chat')}>New chat</a>}>It was deleted, or it belongs to someone else.</Empty>
        : error ? <Problem error={error} retry={reload} />
        : id && !data && !answer ? <Loading />
        : !id && <div className="chat-empty">
            <Empty title="Ask in words">A model answers, runs Python where that helps, and shows the code, charts and files it made. Attach files by dropping them here.</Empty>
            <ul className="chat-suggestions" aria-label="Examples">{suggestions.map((text) => <li key={text}><Button onClick={() => { put([{ type: 'input_text', text }], model).catch(toastError); }}>{text}</Button></li>)}</ul>
          </div>}
      <div className="chat-items" role="log" aria-label="Conversation" aria-busy={busy}>
        {stored.map((item, i) => <ItemView key={item.id} item={item} place={place} last={i === stored.length - 1} />)}
        {answer?.question && !(done && data !== reloaded.current) && <Question content={answer.question} place={place} />}
        {live.map((item, i) => <ItemView key={item.id} item={item} place={place} last={done && i === live.length - 1} />)}
        {busy && answer.live.held && <Held approval={answer.live.held} />}
        {busy && !answer.live.held && !live.some((i) => i.status === 'in_progress' || i.status === 'interpreting') && <p className="chat-thinking" role="status"><Ring state="busy" />{answer.stopping ? 'Stopping' : 'Thinking'}…</p>}
        {done && <TurnEnd status={answer.live.status} problem={answer.live.problem} error={answer.error ? messageOf(answer.error) : null} />}
        {id && !busy && stored.length > 0 && <div className="chat-again"><Menu compact text="Retry with" icon="reset" label="Retry the last question" items={[
          { label: 'Default model', onSelect: () => { retry('').catch(toastError); } },
          ...models.map((m) => ({ label: m.id, onSelect: () => { setModel(m.id); retry(m.id).catch(toastError); } })),
          ...agents.map((a) => ({ label: `Agent ${a}`, onSelect: () => { setModel(AGENT + a); retry(AGENT + a).catch(toastError); } })),
        ]} /></div>}
      </div>
      {!gone && <Composer models={models} agents={agents} model={model} setModel={setModel} attached={attached} busy={busy} stopping={answer?.stopping ?? false} box={box} onSend={send} onStop={() => { if (id) stop(me, id).catch(toastError); }} />}
      <div ref={end} />
      {share && <ShareDialog ws={share.ws} at={share.at} onClose={() => setShare(null)} />}
    </section>
  );
}
