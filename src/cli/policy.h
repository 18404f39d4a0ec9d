/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `glovebox policy` share. */
#ifndef GLOVEBOX_CLI_POLICY_H
#define GLOVEBOX_CLI_POLICY_H

#include "cli/cli_int.h"

struct cli_policy {
    const char *file, *note, *zone, *session;
    uint64_t version; /* UINT64_MAX: not said */
};

/* policy_try.c: without a service, unless explain is asked of its own. */
int cli_policy_check(struct cli *c, const struct cli_words *words, void *arg);
int cli_policy_test(struct cli *c, const struct cli_words *words, void *arg);
int cli_policy_explain(struct cli *c, const struct cli_words *words,
                       void *arg);
/* A small file, "-" being standard input; owned by caller. */
int cli_policy_read(const char *path, char **ret, size_t *ret_len,
                    struct error *err);

#endif
