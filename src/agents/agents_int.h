/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of agents/ share. */
#ifndef GLOVEBOX_AGENTS_AGENTS_INT_H
#define GLOVEBOX_AGENTS_AGENTS_INT_H

#include <stdatomic.h>

#include "agents/agents.h"

struct sessions;
struct store_rows;
struct store_tx;
struct workspaces;

struct agents { /* pointers are borrowed */
    const struct core *core;
    struct models *models;
    struct workspaces *workspaces;
    struct sessions *sessions;
    struct agents_limits limits;
    _Atomic uint64_t tool_changes; /* how often saved tools were changed */
};

/* Sets fault->param (fault may be NULL) and returns ERR_INVALID. */
int agents_invalid(struct agents_fault *fault, const char *param,
                   struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* At most AGENTS_METADATA_MAX pairs of short strings; NULL is none. */
int agents_check_metadata(const json_t *metadata, struct agents_fault *fault,
                          struct error *err);
/* Characters of UTF-8. */
size_t agents_characters(const char *text);

/* ---- rows.c --------------------------------------------------------------
 */

#define AGENTS_VERSION_COLUMNS                                                \
    "number, draft, description, metadata, definition, created_at_ms,"        \
    " created_by"

struct agents_row {
    bool alive, enabled, shared;
    char owner[ID_MAX];
    int64_t number, created_at_ms, updated_at_ms, versions;
    char *endpoint, *card;
};

void agents_row_done(struct agents_row *row); /* for cleanup() */

/* Each of the two returns ERR_NOT_FOUND. */
int agents_rows_unknown(const char *name, struct error *err);
int agents_rows_unknown_version(const char *name, const char *version,
                                struct error *err);
/* A decimal number from 1, without leading zeros. */
bool agents_rows_number(const char *text, int64_t *ret);
/* A row of AGENTS_VERSION_COLUMNS. */
int agents_rows_read_version(struct store_rows *rows, const char *name,
                             struct agent_version *ret, struct error *err);
/* 1, 0, or -code. number 0: the newest that is no draft, else the newest. */
int agents_rows_find_version(struct store_tx *tx, const char *tenant,
                             const char *name, int64_t number,
                             struct agent_version *ret, struct error *err);
/* 1, 0, or -code; a deleted one is found, too. */
int agents_rows_find(struct store_tx *tx, const char *tenant, const char *name,
                     struct agents_row *ret, struct error *err);
/* ERR_NOT_FOUND for a deleted one. */
int agents_rows_info(struct store_tx *tx, const char *tenant, const char *name,
                     struct agent_info *ret, struct error *err);

/* ---- agents.c ------------------------------------------------------------
 */

/* ERR_FORBIDDEN unless the actor is the owner or an admin, or the agent is
 * shared. */
int agents_may_change(const struct agents_row *row, const struct actor *who,
                      const char *name, struct error *err);
/* Policy, and approval where a rule asks for it. change: "create", … ;
 * definition: of a new version, or NULL. */
int agents_enforce(struct agents *a, const struct actor *who,
                   const char *change, const char *name,
                   const json_t *definition, struct error *err);

#endif
