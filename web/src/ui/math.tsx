// SPDX-License-Identifier: Apache-2.0
// Formulas in TeX, shown as MathML. The library arrives with the first formula;
// until then, and where the TeX is wrong, the source is shown. It is given no
// trust: no links, no pictures, no classes or styles of the author's choice.
import { useEffect, useRef, useState, type ReactElement } from 'react';

const LONGEST = 20_000; // characters

export function Formula({ tex, display }: { tex: string; display?: boolean }): ReactElement {
  const at = useRef<HTMLSpanElement>(null);
  const [state, setState] = useState<{ of: string; problem: string | null } | null>(null);
  const shown = state?.of === tex ? state : null;
  useEffect(() => {
    let alive = true;
    if (tex.length > LONGEST) {
      setState({ of: tex, problem: `The formula is longer than ${LONGEST.toLocaleString()} characters.` });
      return undefined;
    }
    import('temml').then((m) => {
      if (!alive || !at.current) return;
      try {
        const made = document.createElement('span');
        m.default.render(tex, made, { displayMode: !!display, throwOnError: true, trust: false, annotate: false, macros: {}, maxExpand: 500, maxSize: [40, 1000] });
        // \label and \ref would name and link parts of this page.
        for (const el of made.querySelectorAll('[id],[href]')) {
          el.removeAttribute('id');
          el.removeAttribute('href');
        }
        at.current.replaceChildren(...made.childNodes);
        setState({ of: tex, problem: null });
      } catch (error) {
        at.current.replaceChildren();
        setState({ of: tex, problem: error instanceof Error ? error.message.slice(0, 300) : 'It cannot be read.' });
      }
    }, () => {});
    return () => { alive = false; };
  }, [tex, display]);
  return <>
    <span ref={at} className={`math ${display ? 'math-display' : ''}`} role={display ? 'group' : undefined} aria-label={display ? 'Formula' : undefined} tabIndex={display ? 0 : undefined} hidden={!shown || shown.problem !== null} />
    {(!shown || shown.problem !== null) && <code className="math-source" title={shown?.problem ?? undefined}>{tex}</code>}
  </>;
}

// The formula of a text/latex output that is one formula, or null: then it is
// text with formulas in it.
export function wholeFormula(latex: string): string | null {
  const text = latex.trim();
  const found = /^\$\$([\s\S]+)\$\$$/.exec(text) ?? /^\$([^$]+)\$$/.exec(text) ?? /^\\\[([\s\S]+)\\\]$/.exec(text) ?? /^\\\(([\s\S]+)\\\)$/.exec(text);
  if (found && !/\$/.test(found[1])) return found[1];
  return /^\\begin\{(\w+)\*?\}[\s\S]*\\end\{\1\*?\}$/.test(text) ? text : null;
}
