// SPDX-License-Identifier: Apache-2.0
// The page that shows foreign content. The daemon serves it with a policy of
// its own: an opaque origin, no network, no credentials. It receives one
// message with the content, shows it, and reports its height. Nothing here is
// trusted by the console: what the frame posts is only read as a height.

type Content =
  | { kind: 'html'; html: string }
  | { kind: 'svg'; svg: string }
  | { kind: 'plotly'; script: string; figure: unknown };
type Message = { glovebox: 'show'; content: Content; theme: { dark: boolean; ink: string; paper: string; font: string } };

declare const Plotly: {
  newPlot(at: Element, data: unknown, layout: unknown, config: unknown): Promise<unknown>;
};

const tell = (message: object) => parent.postMessage({ glovebox: 'frame', ...message }, '*');

function reportHeight(): void {
  let last = -1;
  const report = () => {
    const root = document.documentElement;
    const body = document.body;
    if (!body) return;
    const height = Math.ceil(Math.max(body.scrollHeight, body.offsetHeight, root.offsetHeight));
    if (height !== last) tell({ height: (last = height) });
  };
  new ResizeObserver(report).observe(document.documentElement);
  if (document.body) new ResizeObserver(report).observe(document.body);
  addEventListener('load', report);
  setTimeout(report, 50);
  report();
}

function baseStyle(theme: Message['theme']): string {
  return `:root{color-scheme:${theme.dark ? 'dark' : 'light'}}body{margin:0;padding:2px;color:${theme.ink};background:transparent;` +
    `font:14px/1.5 ${theme.font}}table{border-collapse:collapse;font-size:13px}th,td{padding:3px 9px;text-align:right}` +
    `thead th{border-bottom:1px solid currentColor}svg,img{max-width:100%;height:auto}`;
}

async function showPlotly(content: Extract<Content, { kind: 'plotly' }>, theme: Message['theme']): Promise<void> {
  const script = document.createElement('script');
  script.textContent = content.script;
  document.head.append(script);
  const figure = content.figure as { data?: unknown; layout?: { height?: number; width?: number; template?: unknown } };
  const at = document.createElement('div');
  const given = Number(figure.layout?.height);
  at.style.height = `${given > 0 && given < 4000 ? given : 420}px`;
  document.body.append(at);
  const quiet = theme.dark ? { paper_bgcolor: 'transparent', plot_bgcolor: 'transparent', font: { color: theme.ink, family: theme.font } }
    : { paper_bgcolor: 'transparent', font: { family: theme.font } };
  // Grid lines that were drawn for a light ground would outshine the data.
  const layout = (figure.layout ?? {}) as Record<string, unknown>;
  const names = new Set(['xaxis', 'yaxis', ...Object.keys(layout).filter((name) => /^[xy]axis\d*$/.test(name))]);
  const axes = theme.dark ? Object.fromEntries([...names].map((name) => [name, { ...(layout[name] as object | undefined), gridcolor: '#3a414d', zerolinecolor: '#3a414d' }])) : {};
  await Plotly.newPlot(at, figure.data ?? [], { ...layout, ...axes, ...quiet, autosize: true, width: undefined },
    { responsive: true, displaylogo: false });
}

addEventListener('message', (event: MessageEvent<Message>) => {
  if (event.source !== parent || event.data?.glovebox !== 'show') return;
  const { content, theme } = event.data;
  try {
    if (content.kind === 'html') {
      // Written as a page, so that its scripts run here, where they reach nothing.
      document.open();
      document.write(`<!doctype html><meta charset="utf-8"><style>${baseStyle(theme)}</style><body>${content.html}`);
      document.close();
      reportHeight();
      return;
    }
    const style = document.createElement('style');
    style.textContent = baseStyle(theme);
    document.head.append(style);
    if (content.kind === 'svg') {
      document.body.innerHTML = content.svg;
      reportHeight();
    } else {
      showPlotly(content, theme).then(reportHeight, (error: unknown) => tell({ error: String(error) }));
    }
  } catch (error) {
    tell({ error: String(error) });
  }
}, { once: false });

tell({ ready: true });
