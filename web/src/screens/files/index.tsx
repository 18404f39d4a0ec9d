// SPDX-License-Identifier: Apache-2.0
// Files: the workspaces, and one workspace with its tree, files and history.
// #/files, #/files/WS, #/files/WS/PATH?version=…&tab=…&line=…&page=…
import type { ReactElement } from 'react';
import { useRoute } from '../../app/router';
import { WorkspaceView } from './workspace';
import { Workspaces } from './workspaces';

export default function Files(): ReactElement {
  const { parts, query } = useRoute();
  if (!parts[0]) return <Workspaces />;
  return <WorkspaceView key={parts[0]} ws={parts[0]} at={parts.slice(1).join('/') || null} query={query} />;
}
