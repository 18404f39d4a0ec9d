// SPDX-License-Identifier: Apache-2.0
// The text of /metrics, read.
import { durationText } from '../../ui/basic';

export interface Sample { name: string; labels: Record<string, string>; value: number }

export class Metrics {
  constructor(readonly samples: Sample[]) {}

  all(name: string): Sample[] {
    return this.samples.filter((s) => s.name === name);
  }

  one(name: string): number | null {
    return this.samples.find((s) => s.name === name)?.value ?? null;
  }

  // Which bucket of a histogram of seconds holds this part of the values.
  quantile(name: string, part: number): string {
    const buckets = this.all(`${name}_bucket`);
    const total = buckets.at(-1)?.value ?? 0;
    if (!total) return '–';
    const at = buckets.find((b) => b.value >= total * part)!.labels.le;
    return at === '+Inf' ? 'very long' : `≤ ${durationText(Number(at) * 1000)}`;
  }
}

export function parseMetrics(text: string): Metrics {
  const samples = text.split('\n').flatMap((line): Sample[] => {
    const found = /^([a-z_:][a-z0-9_:]*)(?:\{(.*)\})? (\S+)/i.exec(line);
    if (!found) return [];
    const labels = Object.fromEntries([...(found[2] ?? '').matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/gi)].map((m) => [m[1], m[2]]));
    return [{ name: found[1], labels, value: Number(found[3]) }];
  });
  return new Metrics(samples);
}
