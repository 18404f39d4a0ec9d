// SPDX-License-Identifier: Apache-2.0
// The notebook screen: #/notebook lists, #/notebook/WORKSPACE[/PATH] opens,
// #/notebook/SESSION leads to the notebook of that session.
import { useEffect, useState, type ReactElement } from 'react';
import { api, path } from '../../api/client';
import type { Session } from '../../api/types';
import { go, href, useRoute } from '../../app/router';
import { Loading, Problem } from '../../ui/basic';
import { NotebookList } from './list';
import { DEFAULT_PATH } from './store';
import { NotebookView } from './view';

function OfSession({ id }: { id: string }): ReactElement {
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    api.get<Session>(path`/api/sessions/${id}`).then((session) => {
      if (!session.workspace) throw new Error('This session keeps no files, so it has no notebook.');
      const kept = session.metadata.notebook;
      go(href('notebook', session.workspace, ...(typeof kept === 'string' && kept !== DEFAULT_PATH ? [kept] : [])), { replace: true });
    }).catch(setError);
  }, [id]);
  return error ? <Problem error={error} /> : <Loading />;
}

export default function NotebookScreen(): ReactElement {
  const [ws, at] = useRoute().parts;
  if (!ws) return <NotebookList />;
  if (!ws.startsWith('ws_')) return <OfSession id={ws} />;
  return <NotebookView key={`${ws}/${at ?? ''}`} ws={ws} path={at || DEFAULT_PATH} />;
}
