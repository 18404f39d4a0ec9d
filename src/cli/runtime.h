/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `glovebox runtime` share. */
#ifndef GLOVEBOX_CLI_RUNTIME_H
#define GLOVEBOX_CLI_RUNTIME_H

#include <stdio.h>

#include "cli/cli_int.h"

struct conf_runtime;

/* What the flags said. */
struct cli_runtimes {
    const char *defs_flag, *cache_flag;
    char *defs, *cache; /* owned */
    bool force, stale;
};

/* runtime_show.c */
json_t *cli_runtime_json(const struct conf_runtime *rt); /* owned by caller */
/* What the manifest says could not be had. */
void cli_runtime_missing(const json_t *manifest, FILE *out);
/* Verbs; arg is a struct cli_runtimes. */
int cli_runtime_list(struct cli *c, const struct cli_words *words, void *arg);
int cli_runtime_show(struct cli *c, const struct cli_words *words, void *arg);

/* runtime_remove.c: under the builder's own lock. keep: the hash of the image
 * that stays, or NULL. ret_count: how many images were removed. */
int cli_runtime_remove(const struct cli_runtimes *p, const char *name,
                       const char *keep, size_t *ret_count, struct error *err);

#endif
