/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `glovebox files` share. */
#ifndef GLOVEBOX_CLI_FILES_H
#define GLOVEBOX_CLI_FILES_H

#include "cli/common.h"

struct cli_files {
    /* options; borrowed from argv */
    const char *session, *output, *version, *commit, *at;
    const char *if_match, *lock_file, *conversation, *message;
    bool go_on, recursive, create, level;
    uint64_t limit;
    /* state */
    char *lock; /* token; owned */
};

/* The place that words begin with at *at, which moves on: WS:PATH, file_…, a
 * path with --session, or SESSION PATH. whole: the path may be missing. */
int cli_files_place(struct cli *c, const struct cli_files *f,
                    const struct cli_words *words, size_t *at, bool whole,
                    struct cli_place *ret, struct error *err);

/* The columns of a history, and what a restore says; for `workspaces`, too. */
#define CLI_HISTORY_LIMIT 100u /* events, unless --limit says */
extern const struct cli_column cli_files_history[];
void cli_files_print_restored(const struct cli *c, const json_t *commit);

/* files_transfer.c: the verbs get, put and zip; flags: struct cli_files */
cli_verb_fn cli_files_download, cli_files_upload, cli_files_zip;

#endif
