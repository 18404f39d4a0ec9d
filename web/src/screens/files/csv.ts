// SPDX-License-Identifier: Apache-2.0
// CSV of any size, read by ranges: the file is seen as pieces of equal length;
// a piece is fetched and parsed when one of its rows is in view. How many rows
// a piece has is known once it was read, and estimated before.

const MAX_CELLS = 500;

// Rows of text; the text may begin anywhere but ends of rows are found by the
// rules of RFC 4180. `used` is where the last complete row ends.
export function parseRows(text: string, delimiter: string, { final, max = Infinity }: { final: boolean; max?: number }): { rows: string[][]; used: number; ends: number[] } {
  const rows: string[][] = [];
  const ends: number[] = [];
  let row: string[] = [];
  let at = 0;
  let used = 0;
  const n = text.length;
  const close = (end: number) => {
    rows.push(row);
    ends.push(end);
    row = [];
    used = end;
  };
  while (at < n && rows.length < max) {
    let cell: string;
    if (text[at] === '"') {
      let end = at + 1;
      let quoted = '';
      for (;;) {
        const quote = text.indexOf('"', end);
        if (quote < 0) { // unfinished
          quoted += text.slice(end);
          end = n;
          break;
        }
        quoted += text.slice(end, quote);
        if (text[quote + 1] === '"') {
          quoted += '"';
          end = quote + 2;
          continue;
        }
        end = quote + 1;
        break;
      }
      if (end >= n && !final) return { rows, used, ends };
      let stop = end;
      while (stop < n && text[stop] !== delimiter && text[stop] !== '\n' && text[stop] !== '\r') stop++;
      cell = quoted + text.slice(end, stop);
      at = stop;
    } else {
      let stop = at;
      while (stop < n) {
        const c = text[stop];
        if (c === delimiter || c === '\n' || c === '\r') break;
        stop++;
      }
      cell = text.slice(at, stop);
      at = stop;
    }
    if (row.length < MAX_CELLS) row.push(cell);
    if (at >= n) {
      if (final) close(n);
      break;
    }
    if (text[at] === delimiter) {
      at++;
      if (at >= n && final) {
        if (row.length < MAX_CELLS) row.push('');
        close(n);
      }
      continue;
    }
    if (text[at] === '\r' && text[at + 1] === '\n') at++;
    at++;
    close(at);
  }
  return { rows, used, ends };
}

// The delimiter with the most equal rows.
export function delimiterOf(text: string): string {
  let best = ',';
  let score = -1;
  for (const candidate of [',', ';', '\t', '|']) {
    const { rows } = parseRows(text, candidate, { final: false, max: 20 });
    if (!rows.length) continue;
    const width = rows[0].length;
    const equal = width > 1 ? rows.filter((r) => r.length === width).length * Math.min(width, 50) : 0;
    if (equal > score) [best, score] = [candidate, equal];
  }
  return best;
}

// The start of the first row in a piece that begins somewhere in the file: a
// line break may be inside of quotes, so the start is tried both ways.
function firstRow(text: string, delimiter: string, width: number): number {
  const fits = (from: number): number => {
    const { rows } = parseRows(text.slice(from, from + 65_536), delimiter, { final: false, max: 5 });
    return rows.filter((r) => r.length === width).length;
  };
  const line = text.indexOf('\n');
  if (line < 0) return text.length;
  const plain = line + 1;
  if (fits(plain) >= 4) return plain;
  const quote = text.indexOf('"');
  const after = quote < 0 ? -1 : text.indexOf('\n', quote);
  return after >= 0 && fits(after + 1) > fits(plain) ? after + 1 : plain;
}

export type Fetcher = (from: number, to: number) => Promise<Uint8Array>;

const PIECE = 256 * 1024;
const OVERLAP = 64 * 1024; // of the row that reaches into the next piece
const KEPT = 48; // parsed pieces

export class CsvFile {
  readonly pieces: number;
  columns: string[] = [];
  delimiter = ',';
  sample: string[][] = [];
  private counts: (number | null)[];
  private loaded = new Map<number, string[][]>();
  private asked = new Set<number>();
  private average = 1; // rows of a piece
  private decoder = new TextDecoder('utf-8');

  constructor(readonly size: number, private fetcher: Fetcher, private changed: () => void, readonly piece = PIECE) {
    this.pieces = Math.max(1, Math.ceil(size / piece));
    this.counts = new Array<number | null>(this.pieces).fill(null);
  }

  // Reads the first piece: columns, delimiter, and how long rows are.
  async open(): Promise<void> {
    const bytes = await this.fetcher(0, Math.min(this.size, this.piece + OVERLAP));
    const text = this.decoder.decode(bytes);
    this.delimiter = delimiterOf(text.slice(0, 65_536));
    const { rows } = parseRows(text, this.delimiter, { final: bytes.length >= this.size, max: 1 });
    this.columns = rows[0] ?? [];
    this.take(0, bytes);
    this.average = Math.max(1, this.counts[0] ?? 1);
    this.sample = (this.loaded.get(0) ?? []).slice(0, 100);
    // Rows may grow with their numbers: the middle tells how many there are.
    const middle = Math.floor(this.pieces / 2);
    if (this.pieces < 4) return;
    this.take(middle, await this.fetcher(middle * this.piece, Math.min(this.size, (middle + 1) * this.piece + OVERLAP)));
    this.sample.push(...(this.loaded.get(middle) ?? []).slice(0, 50));
    this.average = Math.max(1, ((this.counts[0] ?? 0) + 5 * (this.counts[middle] ?? 0)) / 6);
  }

  private take(index: number, bytes: Uint8Array): void {
    const start = index * this.piece;
    const final = start + bytes.length >= this.size;
    // Where this piece ends, in characters: rows that begin before it are its own.
    const own = this.decoder.decode(bytes.subarray(0, Math.min(this.piece, bytes.length))).length;
    const text = this.decoder.decode(bytes);
    const from = index === 0 ? 0 : firstRow(text, this.delimiter, this.columns.length);
    const { rows, ends } = parseRows(text.slice(from), this.delimiter, { final });
    let keep = 0;
    while (keep < rows.length && (keep === 0 ? from : from + ends[keep - 1]) < own + (index === this.pieces - 1 ? Infinity : 0)) keep++;
    // A row that begins exactly at the border is the next piece's first line,
    // which that piece skips: it belongs here.
    if (keep < rows.length && (keep === 0 ? from : from + ends[keep - 1]) === own) keep++;
    const mine = rows.slice(index === 0 ? 1 : 0, keep);
    if (mine.length && mine.at(-1)!.length === 1 && mine.at(-1)![0] === '') mine.pop();
    this.counts[index] = mine.length;
    this.loaded.delete(index);
    this.loaded.set(index, mine);
    for (const old of this.loaded.keys()) {
      if (this.loaded.size <= KEPT) break;
      if (old !== 0) this.loaded.delete(old);
      else {
        const first = this.loaded.get(0)!;
        this.loaded.delete(0);
        this.loaded.set(0, first);
      }
    }
  }

  get total(): number { return Math.round(this.counts.reduce((sum: number, n) => sum + (n ?? this.average), 0)); }
  get exact(): boolean { return this.counts.every((n) => n !== null); }

  // The piece of a row, the row's place in it, and whether its number is certain.
  private find(row: number): { index: number; place: number; sure: boolean } {
    let before = 0;
    let sure = true;
    for (let i = 0; i < this.pieces; i++) {
      const n = this.counts[i];
      const count = n ?? this.average;
      if (row < before + count || i === this.pieces - 1) return { index: i, place: Math.max(0, Math.floor(row - before)), sure };
      before += count;
      if (n === null) sure = false;
    }
    return { index: 0, place: 0, sure };
  }

  row(i: number): { cells: string[] | null; sure: boolean } {
    const { index, place, sure } = this.find(i);
    const rows = this.loaded.get(index);
    if (!rows) {
      this.need(index);
      return { cells: null, sure };
    }
    return { cells: rows[place] ?? [], sure };
  }

  private need(index: number): void {
    if (this.asked.has(index)) return;
    this.asked.add(index);
    const start = index * this.piece;
    this.fetcher(start, Math.min(this.size, start + this.piece + OVERLAP)).then((bytes) => {
      this.take(index, bytes);
      this.asked.delete(index);
      this.changed();
    }, () => { setTimeout(() => { this.asked.delete(index); this.changed(); }, 2000); });
  }
}
