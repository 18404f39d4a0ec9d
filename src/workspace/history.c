/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened: the versions of a workspace, of a path or of a file, newest
 * first, each with the commit that made it; see workspace.h. Pages go on
 * after a version: commits downwards, within one by path. Runs in the daemon
 * on the caller's thread; changes nothing.
 */
#include "workspace/history_int.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

void workspace_event_done(struct workspace_event *e)
{
    free(e->conversation);
    free(e->message);
    free(e->note);
    free(e->from_path);
    workspace_file_done(&e->file);
    memset(e, 0, sizeof(*e));
}

void workspace_events_free(struct workspace_event *events, size_t count)
{
    for (size_t i = 0; events && i < count; i++)
        workspace_event_done(&events[i]);
    free(events);
}

static char *text(struct store_rows *rows, int column)
{
    const char *s = store_text(rows, column);

    return xstrdup(s ? s : "");
}

void workspace_event_read(struct store_rows *rows, struct workspace_event *ret)
{
    int at = WORKSPACE_FILE_COLUMN_COUNT;

    memset(ret, 0, sizeof(*ret));
    workspace_file_read(rows, 0, &ret->file);
    ret->seq = ret->file.seq;
    ret->at_ms = ret->file.modified_at_ms;
    store_copy(rows, at++, ret->commit, sizeof(ret->commit));
    store_copy(rows, at++, ret->kind, sizeof(ret->kind));
    store_copy(rows, at++, ret->author, sizeof(ret->author));
    store_copy(rows, at++, ret->session, sizeof(ret->session));
    store_copy(rows, at++, ret->execution, sizeof(ret->execution));
    store_copy(rows, at++, ret->language, sizeof(ret->language));
    store_copy(rows, at++, ret->code_sha256, sizeof(ret->code_sha256));
    ret->conversation = text(rows, at++);
    ret->message = text(rows, at++);
    ret->note = text(rows, at++);
    ret->from_path = text(rows, at++);
    store_copy(rows, at++, ret->change, sizeof(ret->change));
    store_copy(rows, at++, ret->from_version, sizeof(ret->from_version));
    ret->purged = store_int(rows, at) != 0;
}

int workspace_events_take(struct store_rows *rows, unsigned limit,
                          struct workspace_event **ret,
                          struct page_result *ret_page, struct error *err)
{
    struct workspace_event *events = xcalloc(limit, sizeof(*events));
    size_t count = 0;
    int r;

    while ((r = store_next(rows, err)) > 0 && count < limit)
        workspace_event_read(rows, &events[count++]);
    if (r < 0) {
        workspace_events_free(events, count);
        return r;
    }
    *ret = events;
    *ret_page = (struct page_result){.count = count, .has_more = r > 0};
    return 0;
}

/* ---- pages -------------------------------------------------------------- */

/* Events after this place: of older commits, or of the same one with a
 * greater path and id. */
struct place {
    int64_t seq;
    char *path; /* owned */
    char id[ID_MAX];
};

static void place_done(struct place *p)
{
    free(p->path);
}

static int find_place(struct store_tx *tx, const char *id,
                      const struct workspace_history_spec *spec,
                      struct place *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r;

    ret->seq = spec->before_seq > 0 ? spec->before_seq : INT64_MAX;
    if (!spec->after) {
        /* No path is greater than this: nothing of that commit itself. */
        ret->path = workspace_path_end("");
        return 0;
    }
    r = store_one(tx, &rows, err,
                  "SELECT seq, path FROM versions WHERE id = ?1"
                  " AND workspace = ?2",
                  "tt", spec->after, id);
    if (r < 0)
        return r;
    if (r == 0)
        return error_set(err, ERR_INVALID, "after: no such version");
    ret->seq = store_int(rows, 0);
    ret->path = text(rows, 1);
    (void)snprintf(ret->id, sizeof(ret->id), "%s", spec->after);
    return 0;
}

#define EVENT_SQL                                                             \
    "SELECT " WORKSPACE_EVENT_COLUMNS " FROM versions AS v"                   \
    " JOIN commits AS c ON c.workspace = v.workspace AND c.seq = v.seq"
#define PAGE_SQL                                                              \
    " AND v.seq <= ?2 AND (v.seq < ?2 OR v.path > ?3"                         \
    " OR (v.path = ?3 AND v.id > ?4))"                                        \
    " ORDER BY v.seq DESC, v.path, v.id LIMIT ?5"

static int query(struct store_tx *tx, const char *id,
                 const struct workspace_history_spec *spec,
                 const struct place *p, int64_t limit, struct store_rows **ret,
                 struct error *err)
{
    /* The workspace as an expression, or its index would look better than the
     * file's. */
    if (spec->file_id)
        return store_query(tx, ret, err,
                           EVENT_SQL " WHERE v.workspace || '' = ?1"
                                     " AND v.file = ?6" PAGE_SQL,
                           "tittit", id, p->seq, p->path, p->id, limit,
                           spec->file_id);
    if (spec->path)
        return store_query(tx, ret, err,
                           EVENT_SQL " WHERE v.workspace = ?1"
                                     " AND v.path = ?6" PAGE_SQL,
                           "tittit", id, p->seq, p->path, p->id, limit,
                           spec->path);
    return store_query(tx, ret, err,
                       EVENT_SQL " WHERE v.workspace = ?1" PAGE_SQL, "titti",
                       id, p->seq, p->path, p->id, limit);
}

int workspace_history(struct workspaces *w, const struct actor *who,
                      const char *id,
                      const struct workspace_history_spec *spec,
                      struct workspace_event **ret,
                      struct page_result *ret_page, struct error *err)
{
    struct place place cleanup(place_done) = {0}; /* rows borrow from it */
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    unsigned limit = spec->limit;
    int r = workspace_enter(w, who, id, ROLE_VIEWER, STORE_READ,
                            "reading history", &tx, NULL, err);

    if (limit == 0 || limit > WORKSPACE_LIST_MAX)
        limit = WORKSPACE_LIST_MAX;
    if (r == 0 && spec->path)
        r = workspace_path_check(spec->path, err);
    if (r == 0)
        r = find_place(tx, id, spec, &place, err);
    if (r == 0)
        r = query(tx, id, spec, &place, (int64_t)limit + 1, &rows, err);
    if (r < 0)
        return r;
    return workspace_events_take(rows, limit, ret, ret_page, err);
}

/* ---- provenance --------------------------------------------------------- */

int workspace_provenance(struct workspaces *w, const struct actor *who,
                         const char *version, struct workspace_event *ret,
                         char *ret_workspace, char *ret_base,
                         struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_begin(w->store, STORE_READ, "reading provenance", &tx, err);

    if (r == 0)
        r = store_one(
            tx, &rows, err,
            "SELECT " WORKSPACE_EVENT_COLUMNS ", v.workspace, coalesce("
            "(SELECT b.id FROM commits AS b WHERE b.workspace = c.workspace"
            " AND b.seq = c.base), '')"
            " FROM versions AS v JOIN commits AS c ON"
            " c.workspace = v.workspace AND c.seq = v.seq"
            " JOIN workspaces AS w ON w.id = v.workspace WHERE v.id = ?1"
            " AND w.deleted_at_ms = 0"
            " AND " WORKSPACE_ROLE_SQL("?2", "?3", "?4", "?5", "?6") " > 0",
            "ttittt", version, who->key, (int64_t)who->admin, who->tenant,
            WORKSPACE_BOUNDS(who));
    if (r < 0)
        return r;
    if (r == 0)
        return error_set(err, ERR_NOT_FOUND, "no such version");
    workspace_event_read(rows, ret);
    store_copy(rows, WORKSPACE_EVENT_COLUMN_COUNT, ret_workspace, ID_MAX);
    store_copy(rows, WORKSPACE_EVENT_COLUMN_COUNT + 1, ret_base, ID_MAX);
    return 0;
}
