// SPDX-License-Identifier: Apache-2.0
// The code editor for every screen. It is loaded when first shown; until then
// the text is there, without colours.
import { lazy, Suspense, type ReactElement } from 'react';
import type { EditorProps } from './editor-impl';

const Impl = lazy(() => import('./editor-impl'));

export type { EditorProps, EditorHandle, Completion, Mark } from './editor-impl';
export function Editor(props: EditorProps): ReactElement {
  return <Suspense fallback={<pre className="code editor-waits">{props.value}</pre>}><Impl {...props} /></Suspense>;
}
