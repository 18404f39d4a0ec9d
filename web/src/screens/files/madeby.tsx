// SPDX-License-Identifier: Apache-2.0
// What made a version: execution, code and conversation, and one click to run
// the code again.
import type { ReactElement } from 'react';
import { api, path } from '../../api/client';
import { useLoad } from '../../api/query';
import type { FileInfo, Session } from '../../api/types';
import { useMay } from '../../app/me';
import { go, href } from '../../app/router';
import { ActionButton, Chip, Loading, Name, Notice, Problem, Time } from '../../ui/basic';
import { toastError } from '../../ui/overlay';
import { Code } from '../../ui/text';
import type { Provenance } from './model';
import { Who } from './who';

// Runs code again in a new session on the same workspace, and opens its page.
export async function runAgain({ workspace, code, language, execution, conversation, message, name }: { workspace: string | null; code: string; language: string; execution: string | null; conversation?: string | null; message?: string | null; name: string }): Promise<void> {
  const session = await api.post<Session>('/api/sessions', { name: name.slice(0, 60), ...(workspace ? { workspace } : {}) });
  const made = await api.post<{ id: string }>(path`/api/sessions/${session.id}/executions`, {
    code,
    language,
    mode: 'async',
    ...(execution ? { retry_of: execution } : {}),
    metadata: { ...(conversation ? { conversation } : {}), ...(message ? { message } : {}) },
  });
  go(href('executions', made.id));
}

export function MadeBy({ file }: { file: FileInfo }): ReactElement {
  const mayRun = useMay('execute');
  const { data, error, reload } = useLoad<Provenance>(`provenance ${file.version}`, (signal) => api.get(path`/api/versions/${file.version}/provenance`, {}, { signal }));
  if (error) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading />;
  const kind: Record<string, string> = { execution: data.language === 'shell' ? 'a shell run' : 'a Python run', upload: 'an upload', restore: 'a restore', move: 'a move', copy: 'a copy' };
  return (
    <div className="stack">
      <dl className="facts">
        <dt>Made by</dt><dd>{kind[data.kind] ?? data.kind} of <Who id={data.author} name={data.author_name} /></dd>
        <dt>At</dt><dd><Time at={data.at} /></dd>
        <dt>Change</dt><dd><Chip>{data.change}</Chip>{data.from && <> from <Name>{data.from}</Name></>}</dd>
        {data.execution && <><dt>Execution</dt><dd><a className="mono" href={href('executions', data.execution)}>{data.execution}</a></dd></>}
        {data.session && <><dt>Session</dt><dd className="mono">{data.session}</dd></>}
        {data.conversation && <><dt>Conversation</dt><dd><a href={href('conversations', data.conversation)}><Name>{data.conversation}</Name></a>{data.message && <>, message <a href={href('conversations', data.conversation, { message: data.message })}><Name>{data.message}</Name></a></>}</dd></>}
        {data.note && <><dt>Note</dt><dd><Name>{data.note}</Name></dd></>}
        <dt>SHA-256</dt><dd className="mono small">{data.sha256}</dd>
        {data.base_commit && <><dt>Could read</dt><dd className="mono small">the files of {data.base_commit}</dd></>}
      </dl>
      {data.code !== null ? <>
        <div className="row spread"><h2>Code</h2>{mayRun && data.execution && <ActionButton kind="primary" icon="play" onError={toastError} action={() => runAgain({ workspace: data.workspace, code: data.code!, language: data.language ?? 'python', execution: data.execution, conversation: data.conversation, message: data.message, name: `Again: ${file.path}` })}>Run again</ActionButton>}</div>
        {mayRun && data.execution && <p className="small muted files-lead">Runs in a new session on this workspace, without the variables of earlier executions.</p>}
        <Code text={data.code} language={data.language === 'shell' ? 'shell' : 'python'} numbered label="Code that made this version" />
      </> : data.execution ? <Notice><p>The code was not kept.</p></Notice> : null}
    </div>
  );
}
