/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `glovebox workspaces` share. */
#ifndef GLOVEBOX_CLI_WORKSPACES_H
#define GLOVEBOX_CLI_WORKSPACES_H

#include "cli/cli_int.h"

struct cli_workspaces {
    bool deleted, is_private;
    const char *commit, *revoke, *token_file, *lock_file;
    uint64_t ttl_s, limit;
    uint64_t versions, days; /* UINT64_MAX: not said */
};

/* A request on the workspace that a word names; suffix: "", "/members", ...
 * body: borrowed, or NULL. ret: owned by caller, or NULL. */
int cli_workspaces_ask(struct cli *c, const char *name, const char *method,
                       const char *suffix, const json_t *body, json_t **ret,
                       struct error *err);

typedef int cli_workspaces_fn(struct cli *c, const struct cli_words *words,
                              void *arg);

/* members.c */
cli_workspaces_fn cli_members_list, cli_members_change, cli_members_transfer,
    cli_members_offer, cli_members_offers, cli_members_claim;
/* rules.c */
cli_workspaces_fn cli_rules_retention, cli_rules_hold, cli_rules_quota,
    cli_rules_usage;

#endif
