// SPDX-License-Identifier: Apache-2.0
// Colours for code outside the editor. Loaded when first needed; grammars of
// further languages are loaded when they are.
import { StreamLanguage } from '@codemirror/language';
import type { Parser } from '@lezer/common';
import { classHighlighter, highlightTree } from '@lezer/highlight';
import type { Language } from './text';

export type Highlighted = { text: string; classes: string | null }[][];

const parsers: Record<Exclude<Language, 'text'>, () => Promise<Parser>> = {
  python: async () => (await import('@codemirror/lang-python')).pythonLanguage.parser,
  shell: async () => StreamLanguage.define((await import('@codemirror/legacy-modes/mode/shell')).shell).parser,
  json: async () => (await import('@codemirror/lang-json')).jsonLanguage.parser,
  yaml: async () => (await import('@codemirror/lang-yaml')).yamlLanguage.parser,
  markdown: async () => (await import('@codemirror/lang-markdown')).markdownLanguage.parser,
  javascript: async () => (await import('@codemirror/lang-javascript')).tsxLanguage.parser,
  sql: async () => (await import('@codemirror/lang-sql')).StandardSQL.language.parser,
  diff: async () => StreamLanguage.define((await import('@codemirror/legacy-modes/mode/diff')).diff).parser,
};

export async function highlight(text: string, language: Language): Promise<Highlighted> {
  if (language === 'text') return text.split('\n').map((line) => [{ text: line, classes: null }]);
  const tree = (await parsers[language]()).parse(text);
  const lines: Highlighted = [[]];
  const add = (piece: string, classes: string | null) => {
    piece.split('\n').forEach((part, i) => {
      if (i > 0) lines.push([]);
      if (part) lines.at(-1)!.push({ text: part, classes });
    });
  };
  let at = 0;
  highlightTree(tree, classHighlighter, (from, to, classes) => {
    if (from > at) add(text.slice(at, from), null);
    add(text.slice(from, to), classes);
    at = to;
  });
  if (at < text.length) add(text.slice(at), null);
  return lines;
}
