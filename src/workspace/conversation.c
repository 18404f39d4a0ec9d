/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a conversation made: every version, oldest first, wherever it is, of
 * workspaces the actor has a role in. A conversation's id is the client's own
 * word and may be somebody else's too; the role is part of the query. Runs in
 * the daemon on the caller's thread; changes nothing.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "workspace/history_int.h"

struct place {
    int64_t at_ms;
    char commit[ID_MAX];
    char *path; /* owned */
    char id[ID_MAX];
};

static void place_done(struct place *p)
{
    free(p->path);
}

/* What is not part of this answer is no place in it. */
static int find_place(struct store_tx *tx, const struct actor *who,
                      const char *conversation, const char *after,
                      struct place *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r;

    ret->at_ms = INT64_MIN;
    if (!after)
        return 0;
    r = store_one(
        tx, &rows, err,
        "SELECT c.at_ms, c.id, v.path FROM versions AS v"
        " JOIN commits AS c ON c.workspace = v.workspace"
        " AND c.seq = v.seq"
        " JOIN workspaces AS w ON w.id = v.workspace"
        " WHERE v.id = ?1 AND c.conversation = ?5"
        " AND " WORKSPACE_ROLE_SQL("?2", "?3", "?4", "?6", "?7") " > 0",
        "ttitttt", after, who->key, (int64_t)who->admin, who->tenant,
        conversation, WORKSPACE_BOUNDS(who));
    if (r < 0)
        return r;
    if (r == 0)
        return error_set(err, ERR_INVALID, "after: no such version");
    ret->at_ms = store_int(rows, 0);
    store_copy(rows, 1, ret->commit, sizeof(ret->commit));
    ret->path = xstrdup(store_text(rows, 2));
    (void)snprintf(ret->id, sizeof(ret->id), "%s", after);
    return 0;
}

static int query(struct store_tx *tx, const struct actor *who,
                 const char *conversation, const struct place *p,
                 int64_t limit, struct store_rows **ret, struct error *err)
{
    return store_query(
        tx, ret, err,
        "SELECT " WORKSPACE_EVENT_COLUMNS ", v.workspace FROM commits AS c"
        " JOIN versions AS v ON v.workspace = c.workspace AND v.seq = c.seq"
        " JOIN workspaces AS w ON w.id = c.workspace"
        " WHERE c.conversation = ?1 AND c.conversation <> ''"
        " AND w.deleted_at_ms = 0"
        " AND " WORKSPACE_ROLE_SQL(
            "?2", "?3", "?4", "?10",
            "?11") " > 0"
                   " AND (c.at_ms > ?5 OR (c.at_ms = ?5 AND (c.id > ?6 OR (c.id = ?6"
                   "  AND (v.path > ?7 OR (v.path = ?7 AND v.id > ?8))))))"
                   " ORDER BY c.at_ms, c.id, v.path, v.id LIMIT ?9",
        "ttitittti"
        "tt",
        conversation, who->key, (int64_t)who->admin, who->tenant, p->at_ms,
        p->commit, p->path ? p->path : "", p->id, limit,
        WORKSPACE_BOUNDS(who));
}

/* Each event's workspace, ID_MAX apart. */
static int take(struct store_rows *rows, unsigned limit,
                struct workspace_event *events, char *workspaces,
                size_t *ret_count, struct error *err)
{
    int r;

    while ((r = store_next(rows, err)) > 0 && *ret_count < limit) {
        workspace_event_read(rows, &events[*ret_count]);
        store_copy(rows, WORKSPACE_EVENT_COLUMN_COUNT,
                   workspaces + *ret_count * ID_MAX, ID_MAX);
        ++*ret_count;
    }
    return r;
}

int workspace_conversation(struct workspaces *w, const struct actor *who,
                           const char *conversation, const struct page *page,
                           struct workspace_event **ret, char **ret_workspaces,
                           struct page_result *ret_page, struct error *err)
{
    struct place place cleanup(place_done) = {0}; /* rows borrow from it */
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct workspace_event *events;
    char *workspaces;
    unsigned limit = page->limit;
    size_t count = 0;
    int r =
        store_begin(w->store, STORE_READ, "reading a conversation", &tx, err);

    if (limit == 0 || limit > WORKSPACE_LIST_MAX)
        limit = WORKSPACE_LIST_MAX;
    if (r == 0)
        r = find_place(tx, who, conversation, page->after, &place, err);
    if (r == 0)
        r = query(tx, who, conversation, &place, (int64_t)limit + 1, &rows,
                  err);
    if (r < 0)
        return r;
    events = xcalloc(limit, sizeof(*events));
    workspaces = xcalloc(limit, ID_MAX);
    r = take(rows, limit, events, workspaces, &count, err);
    if (r < 0) {
        workspace_events_free(events, count);
        free(workspaces);
        return r;
    }
    *ret = events;
    *ret_workspaces = workspaces;
    *ret_page = (struct page_result){.count = count, .has_more = r > 0};
    return 0;
}
