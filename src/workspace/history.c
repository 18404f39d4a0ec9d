/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The past of workspaces: which versions there are, newest first, each with
 * the commit that made it; what changed since a commit, one row for each path;
 * and what a conversation made, oldest first, in all workspaces that the actor
 * has a role in. See workspace.h. Runs in the daemon on the caller's thread;
 * changes nothing.
 *
 * Pages of the history continue after a version: commits downwards, within one
 * by path. The id of a conversation is chosen by the client and may be used by
 * another one too, so the role is part of the query.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "workspace/workspace_int.h"

/* Of `versions AS v` and its `commits AS c`. */
#define WORKSPACE_EVENT_COLUMNS                                               \
    WORKSPACE_VERSION_COLUMNS                                                 \
    ", c.id, c.kind, c.author, c.session, c.execution, c.language,"           \
    " c.code_sha256, c.conversation, c.message, c.note, v.from_path,"         \
    " v.change, v.from_version, v.purged"
#define WORKSPACE_EVENT_COLUMN_COUNT (WORKSPACE_FILE_COLUMN_COUNT + 14)

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

static void read_event(struct store_rows *rows, struct workspace_event *ret)
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

static int take_events(struct store_rows *rows, unsigned limit,
                       struct workspace_event **ret,
                       struct page_result *ret_page, struct error *err)
{
    struct workspace_event *events = xcalloc(limit, sizeof(*events));
    size_t count = 0;
    int r;

    while ((r = store_next(rows, err)) > 0 && count < limit)
        read_event(rows, &events[count++]);
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

static int find_version_place(struct store_tx *tx, const char *id,
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

static int query_history(struct store_tx *tx, const char *id,
                         const struct workspace_history_spec *spec,
                         const struct place *p, int64_t limit,
                         struct store_rows **ret, struct error *err)
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
        r = find_version_place(tx, id, spec, &place, err);
    if (r == 0)
        r = query_history(tx, id, spec, &place, (int64_t)limit + 1, &rows,
                          err);
    if (r < 0)
        return r;
    return take_events(rows, limit, ret, ret_page, err);
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
    read_event(rows, ret);
    store_copy(rows, WORKSPACE_EVENT_COLUMN_COUNT, ret_workspace, ID_MAX);
    store_copy(rows, WORKSPACE_EVENT_COLUMN_COUNT + 1, ret_base, ID_MAX);
    return 0;
}

/* ---- changes since a commit ------------------------------------------------
 */

/* A file that left a path for another has one version, at the new one; the
 * old path is in it (workspace_int.h). */
static int query_changes(struct store_tx *tx, const char *id, int64_t from,
                         const char *except, struct store_rows **ret,
                         struct error *err)
{
    return store_query(
        tx, ret, err,
        "SELECT t.touched, " WORKSPACE_FILE_COLUMNS " FROM ("
        " SELECT v.path AS touched FROM versions AS v JOIN commits AS c"
        "  ON c.workspace = v.workspace AND c.seq = v.seq"
        "  WHERE v.workspace = ?1 AND v.seq > ?2"
        "  AND (?3 = '' OR c.session <> ?3)"
        " UNION SELECT v.from_path FROM versions AS v JOIN commits AS c"
        "  ON c.workspace = v.workspace AND c.seq = v.seq"
        "  WHERE v.workspace = ?1 AND v.seq > ?2 AND v.from_path <> ''"
        "  AND v.change IN ('renamed', 'restored')"
        "  AND (?3 = '' OR c.session <> ?3)"
        ") AS t LEFT JOIN files AS f ON f.workspace = ?1"
        " AND f.path = t.touched AND f.alive = 1 ORDER BY t.touched",
        "tit", id, from, except ? except : "");
}

static struct workspace_file *grow(struct workspace_file *files, size_t count,
                                   size_t *room)
{
    if (count < *room)
        return files;
    *room = *room ? 2 * *room : 64;
    return xrealloc(files, *room * sizeof(*files));
}

int workspace_changes_in(struct store_tx *tx, const char *id, int64_t from,
                         const char *except_session,
                         struct workspace_file **ret, size_t *ret_count,
                         struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct workspace_file *files = NULL;
    size_t count = 0, room = 0;
    int r = query_changes(tx, id, from, except_session, &rows, err);

    while (r >= 0 && (r = store_next(rows, err)) > 0) {
        files = grow(files, count, &room);
        workspace_file_read(rows, 1, &files[count]);
        free(files[count].path); /* NULL when it is gone */
        files[count++].path = xstrdup(store_text(rows, 0));
    }
    if (r < 0) {
        workspace_files_free(files, count);
        return r;
    }
    *ret = files;
    *ret_count = count;
    return 0;
}

int workspace_changes(struct workspaces *w, const struct actor *who,
                      const char *id, int64_t from, const char *except_session,
                      struct workspace_file **ret, size_t *ret_count,
                      int64_t *ret_head, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    int r = workspace_enter(w, who, id, ROLE_VIEWER, STORE_READ,
                            "looking for changes", &tx, &row, err);

    if (r == 0)
        r = workspace_changes_in(tx, id, from, except_session, ret, ret_count,
                                 err);
    if (r == 0)
        *ret_head = row.head;
    return r;
}

/* ---- versions of a conversation --------------------------------------------
 */

struct conv_place {
    int64_t at_ms;
    char commit[ID_MAX];
    char *path; /* owned */
    char id[ID_MAX];
};

static void conv_place_done(struct conv_place *p)
{
    free(p->path);
}

/* A cursor that is not part of this answer is invalid. */
static int find_conv_place(struct store_tx *tx, const struct actor *who,
                           const char *conversation, const char *after,
                           struct conv_place *ret, struct error *err)
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

static int query_conversation(struct store_tx *tx, const struct actor *who,
                              const char *conversation,
                              const struct conv_place *p, int64_t limit,
                              struct store_rows **ret, struct error *err)
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
static int take_conversation(struct store_rows *rows, unsigned limit,
                             struct workspace_event *events, char *workspaces,
                             size_t *ret_count, struct error *err)
{
    int r;

    while ((r = store_next(rows, err)) > 0 && *ret_count < limit) {
        read_event(rows, &events[*ret_count]);
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
    struct conv_place place cleanup(conv_place_done) = {
        0}; /* rows borrow from it */
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
        r = find_conv_place(tx, who, conversation, page->after, &place, err);
    if (r == 0)
        r = query_conversation(tx, who, conversation, &place,
                               (int64_t)limit + 1, &rows, err);
    if (r < 0)
        return r;
    events = xcalloc(limit, sizeof(*events));
    workspaces = xcalloc(limit, ID_MAX);
    r = take_conversation(rows, limit, events, workspaces, &count, err);
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

/* ---- conversations ------------------------------------------------------ */

void workspace_conversations_free(struct workspace_conversation_info *list,
                                  size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(list[i].id);
    free(list);
}

static int query_conversations(struct store_tx *tx, const struct actor *who,
                               const struct workspace_conversation_query *q,
                               int64_t limit, struct store_rows **ret,
                               struct error *err)
{
    return store_query(
        tx, ret, err,
        "SELECT c.conversation, min(c.at_ms), max(c.at_ms),"
        " count(DISTINCT c.message), count(DISTINCT c.execution),"
        " count(DISTINCT v.file), count(DISTINCT c.workspace)"
        " FROM commits AS c"
        " JOIN workspaces AS w ON w.id = c.workspace"
        " LEFT JOIN versions AS v ON v.workspace = c.workspace"
        " AND v.seq = c.seq"
        " WHERE c.conversation <> '' AND w.deleted_at_ms = 0"
        " AND (?1 = '' OR replace(c.conversation, ?1, '') <> c.conversation)"
        " AND (?2 = '' OR c.conversation = ?2)"
        " AND NOT EXISTS (SELECT 1 FROM chat_conversations AS cv"
        "  WHERE cv.id = c.conversation AND cv.tenant = ?5"
        "  AND cv.owner = ?3)"
        " AND " WORKSPACE_ROLE_SQL(
            "?3", "?4", "?5", "?9",
            "?10") " > 0"
                   " GROUP BY c.conversation HAVING max(c.at_ms) < ?6"
                   " OR (max(c.at_ms) = ?6 AND c.conversation > ?7)"
                   " ORDER BY max(c.at_ms) DESC, c.conversation LIMIT ?8",
        "tttititi"
        "tt",
        q->part ? q->part : "", q->only ? q->only : "", who->key,
        (int64_t)who->admin, who->tenant, q->at_ms, q->after ? q->after : "",
        limit, WORKSPACE_BOUNDS(who));
}

int workspace_conversations(struct workspaces *w, const struct actor *who,
                            const struct workspace_conversation_query *query,
                            struct workspace_conversation_info **ret,
                            struct page_result *ret_page, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct workspace_conversation_info *list;
    unsigned limit = query->limit && query->limit <= WORKSPACE_LIST_MAX
                         ? query->limit
                         : WORKSPACE_LIST_MAX;
    size_t count = 0;
    int r =
        store_begin(w->store, STORE_READ, "listing conversations", &tx, err);

    if (r == 0)
        r = query_conversations(tx, who, query, (int64_t)limit + 1, &rows,
                                err);
    if (r < 0)
        return r;
    list = xcalloc(limit, sizeof(*list));
    while ((r = store_next(rows, err)) > 0 && count < limit)
        list[count++] = (struct workspace_conversation_info){
            .id = xstrdup(store_text(rows, 0)),
            .first_at_ms = store_int(rows, 1),
            .last_at_ms = store_int(rows, 2),
            .messages = (uint64_t)store_int(rows, 3),
            .executions = (uint64_t)store_int(rows, 4),
            .files = (uint64_t)store_int(rows, 5),
            .workspaces = (uint64_t)store_int(rows, 6)};
    if (r < 0) {
        workspace_conversations_free(list, count);
        return r;
    }
    *ret = list;
    *ret_page = (struct page_result){.count = count, .has_more = r > 0};
    return 0;
}
