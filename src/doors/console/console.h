/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The web console's files, embedded in the daemon. tools/web-embed writes the
 * table from the folder that web/build.mjs made; without that folder it is
 * empty.
 */
#ifndef GLOVEBOX_DOORS_CONSOLE_CONSOLE_H
#define GLOVEBOX_DOORS_CONSOLE_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>

struct console_bytes {
    const unsigned char *data; /* NULL: there is no such form */
    size_t len;
};

struct console_asset {
    const char *path; /* "/", "/console/frame.html", "/console/assets/…" */
    const char *type;
    const char *etag; /* without the quotes */
    bool immutable;   /* its name has a hash of its content */
    struct console_bytes raw, gzip, brotli;
};

extern const struct console_asset console_assets[];
extern const size_t console_assets_count;

#endif
