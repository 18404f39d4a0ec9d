// SPDX-License-Identifier: Apache-2.0
// The image `full` in `make test-full`, or one with every language when `make
// test-languages` has built it; otherwise the standard image and what it has.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Glovebox, build, pool, root } from './glovebox.mjs';

const cache = process.env.GLOVEBOX_LANGUAGES_CACHE ?? join(build, 'languages');
const built = existsSync(cache) && readdirSync(cache).some((n) => /^languages-[0-9a-f]+$/.test(n) && existsSync(join(cache, n, 'manifest.json')));

const full = Boolean(process.env.GLOVEBOX_TEST_FULL);
export const runtime = full ? 'full' : built ? 'languages' : 'standard';
const places = built && !full ? { runtime_defs: join(root, 'tests/runtimes'), runtime_dir: cache } : {};

// A daemon on that image, and the languages that it offers.
export async function start(extra = {}, pools = [{}], dir = undefined) {
  const server = await Glovebox.start({ dir, config: { ...places, pools: pools.map((p) => pool({ runtime, ready: 1, ...p })), ...extra } });
  const { languages } = await server.ok('GET', `/api/runtimes/${runtime}`);
  return { server, languages };
}

// The reason to skip a test of one language, or false.
export const lacks = (languages, name) =>
  languages.includes(name) ? false : `the runtime ${runtime} has no ${name}; make test-languages builds one that has`;
