/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `glovebox files` share. */
#ifndef GLOVEBOX_CLI_FILES_H
#define GLOVEBOX_CLI_FILES_H

#include "cli/cli_int.h"

struct cli_files {
    /* flags; borrowed from argv */
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
/* The same, in a workspace. */
int cli_files_workspace(struct cli *c, const struct cli_files *f,
                        const struct cli_words *words, size_t *at, bool whole,
                        struct cli_place *ret, struct error *err);
/* Something is left out, or there is too much: complains, CLI_EXIT_USAGE. */
int cli_files_count(const struct cli *c, const char *verb,
                    const struct cli_words *words, size_t least, size_t most);

typedef int cli_files_fn(struct cli *c, const struct cli_words *words,
                         void *arg);

/* files_tree.c */
cli_files_fn cli_files_ls, cli_files_rm, cli_files_mv, cli_files_cp;
/* files_bytes.c */
cli_files_fn cli_files_fetch, cli_files_store, cli_files_zip;
/* files_past.c */
cli_files_fn cli_files_history, cli_files_versions, cli_files_diff,
    cli_files_restore, cli_files_info;

#endif
