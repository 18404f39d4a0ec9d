// SPDX-License-Identifier: Apache-2.0
// Executions: the list, and one page per execution. #/executions?filters,
// #/executions/EXEC
import type { ReactElement } from 'react';
import { useRoute } from '../../app/router';
import { ExecutionList } from './list';
import { ExecutionPage } from './page';

export default function Executions(): ReactElement {
  const { parts, query } = useRoute();
  return parts[0] ? <ExecutionPage key={parts[0]} id={parts[0]} /> : <ExecutionList query={query} />;
}
