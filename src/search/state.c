/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far the index is, for one workspace or for all the actor sees. Runs in
 * the daemon on the asking thread.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "search/search_int.h"
#include "store/store.h"
#include "workspace/workspace.h"

/* ?4: a workspace, or NULL for all. */
#define OF_WORKSPACE(table)                                                   \
    " AND (?4 IS NULL OR " table ".workspace = ?4) AND " table                \
    ".workspace IN (SELECT w.id FROM workspaces AS w WHERE " SEARCH_SEEN(     \
        "?5", "?6") ")"
#define VALUES(who, workspace)                                                \
    "titttt", (who)->key, (int64_t)(who)->admin, (who)->tenant, (workspace),  \
        WORKSPACE_BOUNDS(who)

struct pending {
    uint64_t files;
    int64_t since_ms; /* of the oldest; 0: none */
};

static int count_states(struct store_tx *tx, const struct actor *who,
                        const char *workspace, struct search_state *ret,
                        struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r;

    if (store_query(
            tx, &rows, err,
            "SELECT d.state, count(*) FROM documents AS d"
            " JOIN files AS f ON f.id = d.file"
            " WHERE f.indexed = 1" OF_WORKSPACE("d") " GROUP BY d.state",
            VALUES(who, workspace)) < 0)
        return -(int)err->code;
    while ((r = store_next(rows, err)) > 0) {
        const char *state = store_text(rows, 0);
        uint64_t count = (uint64_t)store_int(rows, 1);

        if (strcmp(state, "ready") == 0)
            ret->ready = count;
        else if (strcmp(state, "failed") == 0)
            ret->failed = count;
        else if (strcmp(state, "names_only") == 0)
            ret->names_only = count;
    }
    return r;
}

/* sql: gives a count and the time of the oldest commit. */
static int count_pending(struct store_tx *tx, const char *sql,
                         const struct actor *who, const char *workspace,
                         struct pending *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err, sql, VALUES(who, workspace));
    int64_t since;

    if (r <= 0)
        return r;
    ret->files += (uint64_t)store_int(rows, 0);
    since = store_int(rows, 1);
    if (since && (!ret->since_ms || since < ret->since_ms))
        ret->since_ms = since;
    return 0;
}

static const char unindexed_sql[] =
    "SELECT count(*), min(c.at_ms) FROM files AS f INDEXED BY files_unindexed"
    " JOIN commits AS c ON c.workspace = f.workspace AND c.seq = f.seq"
    " WHERE f.indexed = 0" OF_WORKSPACE("f");
static const char waiting_sql[] =
    "SELECT count(*), min(c.at_ms)"
    " FROM documents AS d INDEXED BY documents_waiting"
    " JOIN files AS f ON f.id = d.file"
    " JOIN commits AS c ON c.workspace = f.workspace AND c.seq = f.seq"
    " WHERE d.state = 'waiting' AND f.indexed = 1" OF_WORKSPACE("d");

int search_state(struct search *s, const struct actor *who,
                 const char *workspace, struct search_state *ret,
                 struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct search_state state = {0};
    struct pending pending = {0};
    struct workspace_info info;

    if (workspace &&
        workspace_get(s->workspaces, who, workspace, &info, err) < 0)
        return -(int)err->code;
    if (store_begin(s->store, STORE_READ, "looking at the index", &tx, err) <
            0 ||
        count_states(tx, who, workspace, &state, err) < 0 ||
        count_pending(tx, unindexed_sql, who, workspace, &pending, err) < 0 ||
        count_pending(tx, waiting_sql, who, workspace, &pending, err) < 0)
        return -(int)err->code;
    state.pending = pending.files;
    if (pending.since_ms)
        state.behind_ms = MAX(clock_real_ms() - pending.since_ms, 0);
    *ret = state;
    return 0;
}
