// SPDX-License-Identifier: Apache-2.0
// CodeMirror, set up once: keys, colours, completion, marks. Its style sheets
// are constructed ones, because the content security policy has no inline
// styles.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionResult } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { bracketMatching, indentOnInput, indentUnit, StreamLanguage, syntaxHighlighting } from '@codemirror/language';
import { lintGutter, setDiagnostics, type Diagnostic } from '@codemirror/lint';
import { highlightSelectionMatches, searchKeymap } from '@codemirror/search';
import { Compartment, EditorState, Prec, type Extension } from '@codemirror/state';
import { drawSelection, EditorView, hoverTooltip, keymap, lineNumbers, placeholder as placeholderText, type KeyBinding } from '@codemirror/view';
import { classHighlighter } from '@lezer/highlight';
import { StyleModule } from 'style-mod';
import { useEffect, useRef, type ReactElement } from 'react';
import type { Language } from './text';

// style-mod writes <style> elements into documents; the policy refuses those.
const adopted = new WeakMap<Document | ShadowRoot, { sheet: CSSStyleSheet; modules: StyleModule[] }>();
StyleModule.mount = (root: Document | ShadowRoot | DocumentOrShadowRoot, modules: StyleModule | readonly StyleModule[]) => {
  const at = root as Document | ShadowRoot;
  let set = adopted.get(at);
  if (!set) {
    set = { sheet: new CSSStyleSheet(), modules: [] };
    adopted.set(at, set);
    at.adoptedStyleSheets = [set.sheet, ...at.adoptedStyleSheets];
  }
  // Later modules win, as in the original; those of another mount keep their place.
  let next = 0;
  let changed = false;
  for (const module of Array.isArray(modules) ? modules as readonly StyleModule[] : [modules as StyleModule]) {
    let found = set.modules.indexOf(module);
    if (found >= 0 && found < next) {
      set.modules.splice(found, 1);
      next--;
      found = -1;
    }
    if (found < 0) {
      set.modules.splice(next++, 0, module);
      changed = true;
    } else {
      next = found + 1;
    }
  }
  if (changed) set.sheet.replaceSync(set.modules.map((m) => m.getRules()).join('\n'));
};

export interface Completion { matches: string[]; start: number; end: number }
export interface Mark { from: number; to: number; severity: 'error' | 'warning' | 'info'; message: string }
export interface EditorHandle { view: EditorView; focus: () => void; insert: (text: string) => void }

export interface EditorProps {
  value: string;
  onChange?: (value: string) => void;
  language?: Language;
  label: string;
  readOnly?: boolean;
  lineNumbers?: boolean;
  placeholder?: string;
  minLines?: number;
  keys?: KeyBinding[]; // before all others
  complete?: (code: string, cursor: number) => Promise<Completion | null>;
  inspect?: (code: string, cursor: number) => Promise<HTMLElement | null>;
  marks?: Mark[]; // problems, shown in the gutter and under the text
  onReady?: (handle: EditorHandle) => void;
  onFocus?: () => void;
  onBlur?: () => void;
}

const languages: Record<Exclude<Language, 'text'>, () => Promise<Extension>> = {
  python: async () => (await import('@codemirror/lang-python')).python().language,
  shell: async () => StreamLanguage.define((await import('@codemirror/legacy-modes/mode/shell')).shell),
  json: async () => (await import('@codemirror/lang-json')).json(),
  yaml: async () => (await import('@codemirror/lang-yaml')).yaml(),
  markdown: async () => (await import('@codemirror/lang-markdown')).markdown(),
  javascript: async () => (await import('@codemirror/lang-javascript')).javascript({ typescript: true }),
  sql: async () => (await import('@codemirror/lang-sql')).sql(),
  diff: async () => StreamLanguage.define((await import('@codemirror/legacy-modes/mode/diff')).diff),
};

const theme = EditorView.theme({
  '&': { color: 'var(--ink)', backgroundColor: 'transparent', fontSize: 'var(--text-s)' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55' },
  '.cm-content': { caretColor: 'var(--ink)', padding: '8px 0' },
  '.cm-line': { padding: '0 10px' },
  '.cm-cursor, .cm-dropCursor': { borderLeftColor: 'var(--ink)', borderLeftWidth: '2px' },
  '.cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground': { backgroundColor: 'var(--accent-soft)' },
  '.cm-gutters': { backgroundColor: 'transparent', color: 'var(--ink-3)', border: 'none' },
  '.cm-placeholder': { color: 'var(--ink-3)' },
  '.cm-matchingBracket, &.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--accent-soft)', outline: '1px solid var(--accent)' },
  '.cm-selectionMatch': { backgroundColor: 'var(--warn-soft)' },
  '.cm-tooltip': { backgroundColor: 'var(--surface)', color: 'var(--ink)', border: '1px solid var(--line)', borderRadius: 'var(--radius)', boxShadow: 'var(--shadow)' },
  '.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--mono)', fontSize: 'var(--text-s)' },
  '.cm-tooltip-autocomplete > ul > li[aria-selected]': { backgroundColor: 'var(--accent)', color: 'var(--accent-ink)' },
  '.cm-tooltip.cm-inspect': { padding: '10px 12px', maxWidth: 'min(44rem, 90vw)', maxHeight: '20rem', overflow: 'auto', fontSize: 'var(--text-s)', whiteSpace: 'pre-wrap' },
  '.cm-panels': { backgroundColor: 'var(--sunken)', color: 'var(--ink)' },
  '.cm-diagnostic': { borderLeftWidth: '3px' },
});

export default function EditorImpl(props: EditorProps): ReactElement {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const parts = useRef({ language: new Compartment(), readOnly: new Compartment(), label: new Compartment() });

  useEffect(() => {
    const { value, placeholder, lineNumbers: numbers, marks } = latest.current;
    const { language, readOnly, label } = parts.current;
    const own: KeyBinding[] = (latest.current.keys ?? []).map((binding, i) => ({ ...binding, run: (v) => latest.current.keys?.[i]?.run?.(v) ?? false }));
    const made = new EditorView({
      parent: host.current!,
      state: EditorState.create({
        doc: value,
        extensions: [
          Prec.highest(keymap.of(own)),
          numbers ? lineNumbers() : [],
          marks ? lintGutter() : [],
          history(),
          drawSelection(),
          indentUnit.of('    '),
          EditorState.tabSize.of(4),
          indentOnInput(),
          bracketMatching(),
          closeBrackets(),
          highlightSelectionMatches(),
          syntaxHighlighting(classHighlighter),
          EditorView.lineWrapping,
          theme,
          language.of([]),
          readOnly.of([]),
          label.of([]),
          placeholder ? placeholderText(placeholder) : [],
          latest.current.complete ? autocompletion({ activateOnTyping: false, icons: false, override: [async (context): Promise<CompletionResult | null> => {
            const found = await latest.current.complete?.(context.state.doc.toString(), context.pos);
            return found && found.matches.length ? { from: found.start, to: found.end, options: found.matches.map((text) => ({ label: text })) } : null;
          }] }) : [],
          latest.current.inspect ? hoverTooltip(async (v, pos) => {
            const dom = await latest.current.inspect?.(v.state.doc.toString(), pos);
            if (!dom) return null;
            dom.classList.add('cm-inspect');
            return { pos, above: true, create: () => ({ dom }) };
          }, { hoverTime: 600 }) : [],
          keymap.of([...closeBracketsKeymap, ...completionKeymap, ...searchKeymap, ...historyKeymap, indentWithTab, ...defaultKeymap]),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.onChange?.(update.state.doc.toString());
            if (update.focusChanged) (update.view.hasFocus ? latest.current.onFocus : latest.current.onBlur)?.();
          }),
        ],
      }),
    });
    view.current = made;
    latest.current.onReady?.({ view: made, focus: () => made.focus(), insert: (text) => made.dispatch(made.state.replaceSelection(text)) });
    return () => {
      made.destroy();
      view.current = null;
    };
  }, []);

  useEffect(() => {
    const v = view.current;
    if (v && v.state.doc.toString() !== props.value) v.dispatch({ changes: { from: 0, to: v.state.doc.length, insert: props.value } });
  }, [props.value]);
  useEffect(() => {
    let alive = true;
    const name = props.language ?? 'text';
    const load = name === 'text' ? Promise.resolve<Extension>([]) : languages[name]();
    void load.then((extension) => { if (alive) view.current?.dispatch({ effects: parts.current.language.reconfigure(extension) }); });
    return () => { alive = false; };
  }, [props.language]);
  useEffect(() => {
    view.current?.dispatch({ effects: parts.current.readOnly.reconfigure([EditorState.readOnly.of(!!props.readOnly), EditorView.editable.of(!props.readOnly)]) });
  }, [props.readOnly]);
  useEffect(() => {
    view.current?.dispatch({ effects: parts.current.label.reconfigure(EditorView.contentAttributes.of({ 'aria-label': props.label, spellcheck: 'false', autocapitalize: 'off' })) });
  }, [props.label]);
  useEffect(() => {
    const v = view.current;
    if (!v || !props.marks) return;
    const end = v.state.doc.length;
    const list: Diagnostic[] = props.marks.map((m) => ({ ...m, from: Math.min(m.from, end), to: Math.min(m.to, end) }));
    v.dispatch(setDiagnostics(v.state, list));
  }, [props.marks]);

  return <div ref={host} className="editor" style={{ minHeight: `${(props.minLines ?? 1) * 1.55 * 0.8125 + 1}rem` }} />;
}
