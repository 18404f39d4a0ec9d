// SPDX-License-Identifier: Apache-2.0
// The models that may answer: shown, tried, added and removed.
import { useState, type FormEvent, type ReactElement } from 'react';
import { api, messageOf, path } from '../../api/client';
import { useLoad } from '../../api/query';
import type { List } from '../../api/types';
import { useMay } from '../../app/me';
import { href } from '../../app/router';
import { ActionButton, Button, Chip, Empty, Field, Loading, Name, Notice, Page, Problem } from '../../ui/basic';
import { confirm, Dialog, toast, toastError } from '../../ui/overlay';
import { Table } from '../../ui/table';

interface Model { name: string; kind: string; source: string; model: string; url: string | null; key: string | null; default: boolean; images: boolean; tools: boolean; embeddings: boolean; context_tokens: number | null }
interface Trial { ok: boolean; why: string }
type Test = { first_ms: number } & Record<string, Trial | number>;

const kinds = [['openai-chat', 'OpenAI Chat Completions (llama.cpp, vLLM, Ollama, …)'], ['openai-responses', 'OpenAI Responses'], ['anthropic', 'Anthropic Messages']] as const;

function Add({ onClose, onDone }: { onClose: () => void; onDone: () => void }): ReactElement {
  const [spec, setSpec] = useState({ name: '', kind: 'openai-chat', url: '', model: '', key: '', default: false, images: false });
  const [problem, setProblem] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const text = (id: 'name' | 'url' | 'model' | 'key', label: string, hint: string) => <Field label={label} hint={hint}>{(p) => <input {...p} className="input" value={spec[id]} required={id === 'name' || id === 'url'} onChange={(e) => setSpec({ ...spec, [id]: e.target.value })} />}</Field>;
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      await api.post('/api/models', { name: spec.name, kind: spec.kind, url: spec.url, default: spec.default, images: spec.images, ...(spec.model ? { model: spec.model } : {}), ...(spec.key ? { key: spec.key } : {}) });
      toast('The model is added.');
      onDone();
      onClose();
    } catch (error) {
      setProblem(messageOf(error));
    }
    setBusy(false);
  };
  return (
    <Dialog title="Add a model" onClose={onClose} foot={<><Button onClick={onClose}>Cancel</Button><Button kind="primary" type="submit" form="chat-add-model" disabled={busy}>Add</Button></>}>
      <form id="chat-add-model" className="stack" onSubmit={(e) => { void submit(e); }}>
        {text('name', 'Name', 'How people choose it')}
        <Field label="Kind">{(p) => <select {...p} className="input" value={spec.kind} onChange={(e) => setSpec({ ...spec, kind: e.target.value })}>{kinds.map(([id, label]) => <option key={id} value={id}>{label}</option>)}</select>}</Field>
        {text('url', 'Address', 'The base URL, such as http://127.0.0.1:8080/v1')}
        {text('model', 'Model', 'What its server calls it; empty: the same as the name')}
        {text('key', 'Secret', 'Name of a secret with its key; empty: none is needed')}
        <label className="check"><input type="checkbox" checked={spec.images} onChange={(e) => setSpec({ ...spec, images: e.target.checked })} />It sees images</label>
        <label className="check"><input type="checkbox" checked={spec.default} onChange={(e) => setSpec({ ...spec, default: e.target.checked })} />Answers when no model is named</label>
        {problem && <Notice tone="bad"><p>{problem}</p></Notice>}
      </form>
    </Dialog>
  );
}

export function Models(): ReactElement {
  const may = useMay('policy:admin');
  const [adding, setAdding] = useState(false);
  const [tested, setTested] = useState<{ name: string; test: Test } | null>(null);
  const { data, error, reload } = useLoad<List<Model>>('model list', (signal) => api.get('/api/models', {}, { signal }), { refreshOn: ['agent'] });
  const remove = async (m: Model) => {
    if (!await confirm({ title: 'Remove this model?', text: <>“{m.name}” no longer answers anyone of this tenant.</>, action: 'Remove', danger: true })) return;
    await api.del(path`/api/models/${m.name}`);
    toast('The model is removed.');
    reload();
  };
  return (
    <Page title="Models" crumbs={<a href={href('chat')}>Chat</a>} lead="The language models that may answer in chats." actions={may && <Button kind="primary" icon="plus" onClick={() => setAdding(true)}>Add a model</Button>}>
      {error ? <Problem error={error} retry={reload} /> : !data ? <Loading /> : (
        <Table<Model> label="Models" rows={data.data} rowKey={(m) => m.name} empty={<Empty title="No model">An operator adds one here or with <code>glovebox model add</code>.</Empty>} columns={[
          { id: 'name', label: 'Name', sort: (m) => m.name, cell: (m) => <span className="row"><strong><Name>{m.name}</Name></strong>{m.default && <Chip tone="accent">default</Chip>}{m.kind === 'echo' && <Chip>for trials</Chip>}</span> },
          { id: 'kind', label: 'Kind', sort: (m) => m.kind, cell: (m) => m.kind },
          { id: 'model', label: 'Model', cell: (m) => <Name>{m.model}</Name> },
          { id: 'url', label: 'Address', cell: (m) => (m.url ? <code>{m.url}</code> : <span className="muted">built in</span>) },
          { id: 'can', label: 'Can', cell: (m) => [m.tools && 'tools', m.images && 'images', m.embeddings && 'embeddings'].filter(Boolean).join(', ') || '–' },
          { id: 'source', label: 'Source', cell: (m) => m.source },
          ...(may ? [{ id: 'do', label: 'Actions', cell: (m: Model) => <span className="row">
            <ActionButton compact onError={toastError} action={async () => setTested({ name: m.name, test: await api.post<Test>(path`/api/models/${m.name}/test`) })}>Test</ActionButton>
            {m.source !== 'configuration' && m.kind !== 'echo' && <ActionButton compact kind="danger" onError={toastError} action={() => remove(m)}>Remove</ActionButton>}
          </span> }] : []),
        ]} />
      )}
      {adding && <Add onClose={() => setAdding(false)} onDone={reload} />}
      {tested && <Dialog title={`Test of ${tested.name}`} onClose={() => setTested(null)} foot={<Button kind="primary" onClick={() => setTested(null)}>Done</Button>}>
        <ul className="chat-test">{Object.entries(tested.test).filter((e): e is [string, Trial] => typeof e[1] === 'object' && e[1] !== null).map(([what, trial]) => <li key={what}><Chip tone={trial.ok ? 'good' : 'warn'}>{what}: {trial.ok ? 'works' : 'does not work'}</Chip>{trial.why && <span className="small muted"> {trial.why}</span>}</li>)}</ul>
        <p className="small muted">First piece of an answer after {tested.test.first_ms} ms.</p>
      </Dialog>}
    </Page>
  );
}
