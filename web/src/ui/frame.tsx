// SPDX-License-Identifier: Apache-2.0
// Foreign content: HTML, SVG and plotly figures that a session, a file or a
// model produced. It is shown by /console/frame.html, which has an opaque
// origin, no network and no credentials. The only thing read back is a height.
import { useEffect, useRef, useState, type ReactElement } from 'react';
import { useDark } from '../app/theme';

export type Foreign = { kind: 'html'; html: string } | { kind: 'svg'; svg: string } | { kind: 'plotly'; figure: unknown };

declare const PLOTLY_URL: string;
let plotly: Promise<string> | null = null;
const plotlyText = (): Promise<string> => (plotly ??= fetch(PLOTLY_URL).then((r) => {
  if (!r.ok) throw new Error(`plotly: ${r.status}`);
  return r.text();
}));

const MAX_HEIGHT = 4000;
const MOST_MESSAGES = 300; // in a second; a frame that sends more is taken away

// Another content object means another page. Callers keep theirs (useMemo).
const numbers = new WeakMap<Foreign, number>();
let last = 0;
function numberOf(content: Foreign): number {
  if (!numbers.has(content)) numbers.set(content, ++last);
  return numbers.get(content)!;
}

export function Frame({ content, title, minHeight = 40, maxHeight = 720, paper, fixed }: { content: Foreign; title: string; minHeight?: number; maxHeight?: number; paper?: boolean; fixed?: number }): ReactElement {
  const ref = useRef<HTMLIFrameElement>(null);
  const [height, setHeight] = useState(content.kind === 'plotly' ? 430 : minHeight);
  const [problem, setProblem] = useState<string | null>(null);
  const [stopped, setStopped] = useState<Foreign | null>(null);
  const dark = useDark() && !paper;
  const sent = useRef(false);
  useEffect(() => {
    let alive = true;
    let second = 0;
    let messages = 0;
    sent.current = false;
    const show = async () => {
      const css = getComputedStyle(document.documentElement);
      const theme = { dark, ink: dark ? '#e8e6e0' : '#20242b', paper: css.getPropertyValue('--surface'), font: "system-ui, 'Noto Sans', sans-serif" };
      const script = content.kind === 'plotly' ? await plotlyText() : undefined;
      if (!alive || sent.current) return;
      sent.current = true;
      ref.current?.contentWindow?.postMessage({ glovebox: 'show', content: script ? { ...content, script } : content, theme }, '*');
    };
    const listen = (event: MessageEvent) => {
      if (event.source !== ref.current?.contentWindow) return;
      const now = Math.floor(performance.now() / 1000);
      messages = now === second ? messages + 1 : 1;
      second = now;
      if (messages > MOST_MESSAGES) {
        setStopped(content);
        return;
      }
      if (event.data?.glovebox !== 'frame') return;
      if (event.data.ready) show().catch((error: unknown) => setProblem(String(error)));
      if (typeof event.data.height === 'number' && event.data.height > 0) setHeight(Math.min(Math.max(event.data.height, minHeight), MAX_HEIGHT));
      if (typeof event.data.error === 'string') setProblem(event.data.error.slice(0, 500));
    };
    addEventListener('message', listen);
    return () => {
      alive = false;
      removeEventListener('message', listen);
    };
  }, [content, dark]);
  if (stopped === content) return <p className="small muted">The content was stopped, because it kept this page busy.</p>;
  return <>
    <iframe key={`${dark}-${numberOf(content)}`} ref={ref} className={`frame ${paper ? 'page' : ''}`} title={title} sandbox="allow-scripts" referrerPolicy="no-referrer" src="/console/frame.html" style={{ height: fixed ?? Math.min(height, maxHeight) }} />
    {problem && <p className="small muted">The content could not be shown: {problem}</p>}
  </>;
}
