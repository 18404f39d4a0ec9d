// SPDX-License-Identifier: Apache-2.0
export interface Runtime { name: string; description: string; suite: string; hash: string; built: boolean; python: string | null; architecture: string; built_at: string | null; size_bytes: number }
export interface RuntimeWhole extends Runtime {
  distributions: { name: string; version: string }[];
  missing: Record<'packages' | 'fonts' | 'modules', (string | { name: string; reason?: string })[]> | null;
  packages: string[];
  fonts: string[];
  preload: string[];
}
