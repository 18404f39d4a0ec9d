// SPDX-License-Identifier: Apache-2.0
// Every test file of the console in one process, so that they share a daemon
// and a browser. A file alone: node --test tests/console/20-notebook.test.mjs
import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

// `make test` takes the files below; GLOVEBOX_CONSOLE=all takes every one.
const DOSE = /^(10|11|20|21|22|23|25|30|80|90)-/;
const here = dirname(fileURLToPath(import.meta.url));
for (const name of readdirSync(here).sort()) if (/^\d\d-.*\.test\.mjs$/.test(name) && (process.env.GLOVEBOX_CONSOLE === 'all' || DOSE.test(name))) await import(join(here, name));
