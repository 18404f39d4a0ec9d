// SPDX-License-Identifier: Apache-2.0
// Markdown as React elements. The parser only yields tokens; HTML in the text
// is shown as text, addresses are checked, and pictures of other hosts are
// links, because this page loads nothing from elsewhere.
import { Marked, type Token, type Tokens } from 'marked';
import type { ReactNode } from 'react';
import { Formula } from './math';
import { Code, languageOf, type Language } from './text';

const named: Record<string, Language> = { python: 'python', py: 'python', bash: 'shell', sh: 'shell', shell: 'shell', console: 'shell', json: 'json', yaml: 'yaml', sql: 'sql', diff: 'diff', js: 'javascript', javascript: 'javascript', ts: 'javascript', md: 'markdown' };

// An address that may become a link, or null.
export function safeLink(text: string): string | null {
  try {
    const url = new URL(text, 'https://relative.invalid/');
    if (url.hostname === 'relative.invalid') return null;
    return url.protocol === 'https:' || url.protocol === 'http:' || url.protocol === 'mailto:' ? url.href : null;
  } catch {
    return null;
  }
}
const inlineImage = (text: string): boolean => /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+$/.test(text);

const entities: Record<string, string> = { '&amp;': '&', '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#39;': "'" };
const unescape = (text: string): string => text.replace(/&(?:amp|lt|gt|quot|#39);/g, (e) => entities[e]);

// Where a screen leads an address of its own kind to: an address inside the
// console (#/…), or null.
export type Resolve = (href: string) => string | null;
const inside = (resolve: Resolve | undefined, text: string): string | null => {
  const to = resolve?.(text) ?? null;
  return to?.startsWith('#/') ? to : null;
};

function inline(tokens: Token[] | undefined, resolve?: Resolve): ReactNode {
  return tokens?.map((token, i): ReactNode => {
    switch (token.type) {
      case 'text': case 'escape': {
        const inner = (token as Tokens.Text).tokens;
        return inner ? <span key={i}>{inline(inner, resolve)}</span> : unescape((token as Tokens.Text).text);
      }
      case 'strong': return <strong key={i}>{inline(token.tokens, resolve)}</strong>;
      case 'em': return <em key={i}>{inline(token.tokens, resolve)}</em>;
      case 'del': return <del key={i}>{inline(token.tokens, resolve)}</del>;
      case 'codespan': return <code key={i}>{unescape((token as Tokens.Codespan).text)}</code>;
      case 'br': return <br key={i} />;
      case 'formula': return <Formula key={i} tex={(token as unknown as MathToken).tex} display={(token as unknown as MathToken).display} />;
      case 'link': {
        const here = inside(resolve, (token as Tokens.Link).href);
        if (here) return <a key={i} href={here}>{inline(token.tokens, resolve)}</a>;
        const to = safeLink((token as Tokens.Link).href);
        return to ? <a key={i} href={to} target="_blank" rel="noopener noreferrer">{inline(token.tokens, resolve)}</a> : <span key={i}>{inline(token.tokens, resolve)}</span>;
      }
      case 'image': {
        const image = token as Tokens.Image;
        const here = inside(resolve, image.href);
        if (here) return <a key={i} href={here}>{image.text || 'picture'}</a>;
        if (inlineImage(image.href)) return <img key={i} src={image.href} alt={image.text} />;
        const to = safeLink(image.href);
        return to ? <a key={i} href={to} target="_blank" rel="noopener noreferrer">{image.text || 'picture'}</a> : <span key={i}>{image.text}</span>;
      }
      default: return 'raw' in token ? token.raw : null; // HTML too: as text
    }
  });
}

function blocks(tokens: Token[], resolve?: Resolve): ReactNode {
  return tokens.map((token, i): ReactNode => {
    switch (token.type) {
      case 'space': case 'def': return null;
      case 'hr': return <hr key={i} />;
      case 'formula': return <Formula key={i} tex={(token as unknown as MathToken).tex} display />;
      case 'heading': {
        // One level down: the screen has the h1.
        const Tag = `h${Math.min(6, (token as Tokens.Heading).depth + 1)}` as 'h2';
        return <Tag key={i}>{inline(token.tokens, resolve)}</Tag>;
      }
      case 'paragraph': return <p key={i} dir="auto">{inline(token.tokens, resolve)}</p>;
      case 'text': return <span key={i}>{inline((token as Tokens.Text).tokens ?? [token], resolve)}</span>;
      case 'blockquote': return <blockquote key={i}>{blocks(token.tokens ?? [], resolve)}</blockquote>;
      case 'code': {
        const { text, lang } = token as Tokens.Code;
        const word = (lang ?? '').split(/\s/)[0].toLowerCase();
        return <Code key={i} text={text} language={named[word] ?? languageOf(`x.${word}`)} />;
      }
      case 'list': {
        const list = token as Tokens.List;
        const items = list.items.map((item, k) => <li key={k}>{item.task && <input type="checkbox" checked={!!item.checked} readOnly disabled aria-label={item.checked ? 'done' : 'to do'} />} {blocks(item.tokens, resolve)}</li>);
        return list.ordered ? <ol key={i} start={Number(list.start) || 1}>{items}</ol> : <ul key={i}>{items}</ul>;
      }
      case 'table': {
        const table = token as Tokens.Table;
        return <div key={i} className="table-scroll" role="region" aria-label="Table" tabIndex={0}><table><thead><tr>{table.header.map((c, k) => <th key={k} scope="col">{inline(c.tokens, resolve)}</th>)}</tr></thead>
          <tbody>{table.rows.map((row, r) => <tr key={r}>{row.map((c, k) => <td key={k}>{inline(c.tokens, resolve)}</td>)}</tr>)}</tbody></table></div>;
      }
      default: return <p key={i}>{token.raw}</p>;
    }
  });
}

// --- formulas ----------------------------------------------------------------

// $…$ and \(…\) in a line, $$…$$ and \[…\] by themselves, and environments, as
// Jupyter has them. A dollar before a space, or after one, is a dollar: $5 and $6.
interface MathToken { type: 'formula'; raw: string; tex: string; display: boolean }
const LINE = [/^\$\$((?:\\[\s\S]|[^\\$])+?)\$\$/, /^\\\[([\s\S]+?)\\\]/, /^\$(?![\s$])((?:\\.|[^\\$\n])*?(?:\\.|[^\\$\s]))\$(?![\d$])/, /^\\\((.+?)\\\)/];
const BLOCK = [/^ {0,3}\$\$((?:\\[\s\S]|[^\\$])+?)\$\$[ \t]*(?:\n|$)/, /^ {0,3}\\\[([\s\S]+?)\\\][ \t]*(?:\n|$)/, /^ {0,3}(\\begin\{(\w+)\*?\}[\s\S]+?\\end\{\2\*?\})[ \t]*(?:\n|$)/];
const find = (rules: RegExp[], src: string): MathToken | undefined => {
  for (const rule of rules) {
    const found = rule.exec(src);
    if (found) return { type: 'formula', raw: found[0], tex: found[1], display: rules === BLOCK || /^(\$\$|\\\[)/.test(found[0]) };
  }
  return undefined;
};
const parser = new Marked({ gfm: true, extensions: [
  { name: 'formulas', level: 'block', start: (src) => /^ {0,3}(?:\$\$|\\\[|\\begin\{)/m.exec(src)?.index, tokenizer: (src) => find(BLOCK, src) as Tokens.Generic | undefined },
  { name: 'formula', level: 'inline', start: (src) => /\$|\\[([]/.exec(src)?.index, tokenizer: (src) => find(LINE, src) as Tokens.Generic | undefined },
] });

export const renderMarkdown = (text: string, resolve?: Resolve): ReactNode => blocks(parser.lexer(text), resolve);
