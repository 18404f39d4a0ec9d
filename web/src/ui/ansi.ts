// SPDX-License-Identifier: Apache-2.0
// Terminal text: colours, and what progress bars do to lines that are already
// there (carriage return, backspace, cursor up, erase). Text goes in, lines of
// styled pieces come out; nothing becomes markup.

export interface Style { fg?: number | string; bg?: number | string; bold?: boolean; dim?: boolean; italic?: boolean; underline?: boolean; strike?: boolean; inverse?: boolean }
export interface Piece { text: string; style: Style | null }
export type Line = Piece[];

const MAX_COLUMNS = 20_000; // of one line that is rewritten

function colour256(n: number): number | string {
  if (n < 16) return n;
  if (n >= 232) {
    const v = 8 + (n - 232) * 10;
    return `rgb(${v} ${v} ${v})`;
  }
  const part = (v: number) => (v ? 55 + v * 40 : 0);
  const m = n - 16;
  return `rgb(${part(Math.floor(m / 36))} ${part(Math.floor(m / 6) % 6)} ${part(m % 6)})`;
}

function restyle(old: Style | null, codes: number[]): Style | null {
  let style: Style = { ...old };
  for (let i = 0; i < codes.length; i++) {
    const c = codes[i];
    if (c === 0) style = {};
    else if (c === 1) style.bold = true;
    else if (c === 2) style.dim = true;
    else if (c === 3) style.italic = true;
    else if (c === 4) style.underline = true;
    else if (c === 7) style.inverse = true;
    else if (c === 9) style.strike = true;
    else if (c === 22) style.bold = style.dim = undefined;
    else if (c === 23) style.italic = undefined;
    else if (c === 24) style.underline = undefined;
    else if (c === 27) style.inverse = undefined;
    else if (c === 29) style.strike = undefined;
    else if (c >= 30 && c <= 37) style.fg = c - 30;
    else if (c >= 90 && c <= 97) style.fg = c - 82;
    else if (c === 39) style.fg = undefined;
    else if (c >= 40 && c <= 47) style.bg = c - 40;
    else if (c >= 100 && c <= 107) style.bg = c - 92;
    else if (c === 49) style.bg = undefined;
    else if (c === 38 || c === 48) {
      let value: number | string | undefined;
      if (codes[i + 1] === 5) {
        value = colour256(Math.min(255, Math.max(0, codes[i + 2] ?? 0)));
        i += 2;
      } else if (codes[i + 1] === 2) {
        const [r, g, b] = [codes[i + 2], codes[i + 3], codes[i + 4]].map((v) => Math.min(255, Math.max(0, v || 0)));
        value = `rgb(${r} ${g} ${b})`;
        i += 4;
      }
      if (c === 38) style.fg = value;
      else style.bg = value;
    }
  }
  return Object.values(style).some((v) => v !== undefined) ? style : null;
}

// A screen of lines that grows. `write` may get text in pieces of any size.
export class AnsiText {
  lines: Line[] = [[]];
  private row = 0;
  private column = 0;
  private style: Style | null = null;
  private rest = '';

  private length(row: number): number {
    return this.lines[row].reduce((n, piece) => n + piece.text.length, 0);
  }

  private put(text: string): void {
    const line = this.lines[this.row];
    const end = this.length(this.row);
    if (this.column >= end || line.length === 0) {
      if (this.column > end) line.push({ text: ' '.repeat(Math.min(this.column - end, MAX_COLUMNS)), style: null });
      const last = line.at(-1);
      if (last && last.style === this.style) this.lines[this.row] = [...line.slice(0, -1), { text: last.text + text, style: this.style }];
      else this.lines[this.row] = [...line, { text, style: this.style }];
    } else {
      // Over what is there: split it around the new text.
      const out: Line = [];
      let at = 0;
      for (const piece of line) {
        const to = at + piece.text.length;
        if (at < this.column) out.push({ text: piece.text.slice(0, this.column - at), style: piece.style });
        at = to;
      }
      out.push({ text, style: this.style });
      at = 0;
      const after = this.column + text.length;
      for (const piece of line) {
        const to = at + piece.text.length;
        if (to > after) out.push({ text: piece.text.slice(Math.max(0, after - at)), style: piece.style });
        at = to;
      }
      this.lines[this.row] = out.filter((piece) => piece.text !== '');
    }
    this.column += text.length;
  }

  private eraseLine(mode: number): void {
    const keep = (from: number, to: number): Line => {
      const out: Line = [];
      let at = 0;
      for (const piece of this.lines[this.row]) {
        const text = piece.text.slice(Math.max(0, from - at), Math.max(0, to - at));
        if (text) out.push({ text, style: piece.style });
        at += piece.text.length;
      }
      return out;
    };
    if (mode === 0) this.lines[this.row] = keep(0, this.column);
    else if (mode === 1) this.lines[this.row] = [{ text: ' '.repeat(Math.min(this.column, MAX_COLUMNS)), style: null }, ...keep(this.column, Infinity)];
    else this.lines[this.row] = [];
  }

  private newline(): void {
    this.row++;
    this.column = 0;
    if (this.row >= this.lines.length) this.lines.push([]);
  }

  write(input: string): void {
    const text = this.rest + input;
    this.rest = '';
    // eslint-disable-next-line no-control-regex
    const token = /\x1b\[([0-9;:?]*)([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]|\r\n|[\r\n\b]|[^\x1b\r\n\b]+/y;
    let at = 0;
    while (at < text.length) {
      token.lastIndex = at;
      const found = token.exec(text);
      if (!found) {
        // An unfinished escape sequence, or a stray escape character.
        if (text.length - at < 64) {
          this.rest = text.slice(at);
          return;
        }
        at++;
        continue;
      }
      at = token.lastIndex;
      const [whole, args, command] = found;
      if (whole === '\n' || whole === '\r\n') this.newline();
      else if (whole === '\r') this.column = 0;
      else if (whole === '\b') this.column = Math.max(0, this.column - 1);
      else if (command !== undefined) this.command(command, (args || '').split(/[;:]/).map((n) => Number.parseInt(n, 10) || 0));
      else if (whole[0] !== '\x1b') this.put(whole);
    }
  }

  private command(command: string, args: number[]): void {
    const n = Math.min(Math.max(1, args[0]), 10_000);
    if (command === 'm') this.style = restyle(this.style, args);
    else if (command === 'K') this.eraseLine(args[0]);
    else if (command === 'A') this.row = Math.max(0, this.row - n);
    else if (command === 'B') for (let i = 0; i < n && this.row < this.lines.length - 1; i++) this.row++;
    else if (command === 'C') this.column = Math.min(this.column + n, MAX_COLUMNS);
    else if (command === 'D') this.column = Math.max(0, this.column - n);
    else if (command === 'G') this.column = n - 1;
    else if (command === 'J' && args[0] === 2) {
      this.lines = [[]];
      this.row = this.column = 0;
    }
  }

  plain(): string {
    return this.lines.map((line) => line.map((piece) => piece.text).join('')).join('\n');
  }
}

export function ansiLines(text: string): Line[] {
  const screen = new AnsiText();
  screen.write(text);
  if (screen.lines.length > 1 && screen.lines.at(-1)!.length === 0) screen.lines.pop();
  return screen.lines;
}

// Text without any escape sequence.
export function plain(text: string): string {
  const screen = new AnsiText();
  screen.write(text);
  return screen.plain();
}
