/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings back a file, a folder or everything as it was; see workspace.h.
 * Compares then with now, path by path in order, and commits what differs,
 * all in one transaction, so that nothing slips in between. Runs in the
 * daemon on the caller's thread.
 */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/mem.h"
#include "workspace/workspace_int.h"

#define RESTORE_MAX 1000000u /* files compared */

struct restore {
    struct arena *arena;
    struct workspace_change *changes;
    size_t count, room;
    size_t files; /* looked at */
};

static void restore_done(struct restore *r)
{
    arena_free(r->arena);
    free(r->changes);
}

static struct workspace_change *add_change(struct restore *r,
                                           enum workspace_change_kind kind,
                                           const char *path)
{
    struct workspace_change *c;

    if (r->count == r->room) {
        r->room = r->room ? 2 * r->room : 64;
        r->changes = xrealloc(r->changes, r->room * sizeof(*r->changes));
    }
    c = &r->changes[r->count++];
    memset(c, 0, sizeof(*c));
    c->kind = kind;
    c->path = arena_strdup(r->arena, path);
    return c;
}

static int given_up(const char *path, struct error *err)
{
    char name[WORKSPACE_SHORT];

    (void)error_set(err, ERR_CONFLICT,
                    "the bytes of that version were given up by retention: %s",
                    workspace_path_short(path, name));
    return error_hint(err, "restore a later commit, or other paths of it");
}

/* rows: WORKSPACE_VERSION_COLUMNS and purged. */
static int add_put(struct restore *r, struct store_rows *then,
                   const char *path, struct error *err)
{
    struct workspace_change *c;

    if (store_int(then, WORKSPACE_FILE_COLUMN_COUNT) != 0)
        return given_up(path, err);
    c = add_change(r, CHANGE_PUT, path);
    c->file_id = arena_strdup(r->arena, store_text(then, 0));
    c->from_version = arena_strdup(r->arena, store_text(then, 1));
    c->sha256 = arena_strdup(r->arena, store_text(then, 5));
    c->size = (uint64_t)store_int(then, 6);
    c->mime = arena_strdup(r->arena, store_text(then, 7));
    c->executable = store_int(then, 8) != 0;
    return 0;
}

/* ---- one version -------------------------------------------------------- */

/* Where the file is now, if it is anywhere; else where it was. */
static int plan_version(struct store_tx *tx, const char *id,
                        const struct workspace_restore_spec *spec,
                        struct restore *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    const char *path;
    int r = store_one(
        tx, &rows, err,
        "SELECT " WORKSPACE_VERSION_COLUMNS ", v.purged,"
        " CASE WHEN f.alive = 1 THEN f.path ELSE v.path END"
        " FROM versions AS v JOIN files AS f ON f.id = v.file"
        " JOIN commits AS c ON c.workspace = v.workspace AND c.seq = v.seq"
        " WHERE v.id = ?1 AND v.workspace = ?2",
        "tt", spec->version, id);

    if (r < 0)
        return r;
    if (r == 0)
        return error_set(err, ERR_NOT_FOUND, "no such version");
    if (store_text(rows, 5)[0] == '\0')
        return error_set(err, ERR_INVALID,
                         "that version is the file's deletion");
    path = spec->path ? spec->path
                      : store_text(rows, WORKSPACE_FILE_COLUMN_COUNT + 1);
    return add_put(ret, rows, path, err);
}

/* ---- a commit ----------------------------------------------------------- */

/* The path itself and all below it; not its neighbours "path-2". */
struct scope {
    const char *path;  /* "" : everything */
    char *below, *end; /* owned */
};

static void scope_done(struct scope *s)
{
    free(s->below);
    free(s->end);
}

static int query_then(struct store_tx *tx, const char *id, int64_t seq,
                      const struct scope *s, struct store_rows **ret,
                      struct error *err)
{
    return store_query(
        tx, ret, err,
        "SELECT " WORKSPACE_VERSION_COLUMNS ", v.purged FROM versions AS v"
        " JOIN commits AS c ON c.workspace = v.workspace AND c.seq = v.seq"
        " WHERE v.workspace = ?1 AND v.path >= ?2 AND v.path < ?4"
        " AND (v.path = ?2 OR v.path >= ?3)"
        " AND v.seq <= ?5 AND v.sha256 <> ''"
        " AND NOT EXISTS (SELECT 1 FROM versions AS n WHERE n.file = v.file"
        "  AND n.number = v.number + 1 AND n.seq <= ?5) ORDER BY v.path",
        "tttti", id, s->path, s->below, s->end, seq);
}

static int query_now(struct store_tx *tx, const char *id,
                     const struct scope *s, struct store_rows **ret,
                     struct error *err)
{
    return store_query(tx, ret, err,
                       "SELECT " WORKSPACE_FILE_COLUMNS " FROM files AS f"
                       " WHERE f.workspace = ?1 AND f.alive = 1"
                       " AND f.path >= ?2 AND f.path < ?4"
                       " AND (f.path = ?2 OR f.path >= ?3) ORDER BY f.path",
                       "tttt", id, s->path, s->below, s->end);
}

static bool equal_files(struct store_rows *a, struct store_rows *b)
{
    return strcmp(store_text(a, 5), store_text(b, 5)) == 0 &&
           (store_int(a, 8) != 0) == (store_int(b, 8) != 0);
}

/* Both lists at once, in order; then_left, now_left: there is a row. */
static int compare(struct restore *ret, struct store_rows *then,
                   struct store_rows *now, struct error *err)
{
    int then_left = store_next(then, err);
    int now_left = store_next(now, err);

    while (then_left > 0 || now_left > 0) {
        int order = then_left <= 0 ? 1
                    : now_left <= 0
                        ? -1
                        : strcmp(store_text(then, 4), store_text(now, 4));
        int r = 0;

        if (++ret->files > RESTORE_MAX)
            return error_set(err, ERR_TOO_LARGE,
                             "more than %u files; restore folder by folder",
                             RESTORE_MAX);
        if (order > 0)
            (void)add_change(ret, CHANGE_REMOVE, store_text(now, 4));
        else if (order < 0 || !equal_files(then, now))
            r = add_put(ret, then, store_text(then, 4), err);
        if (r < 0)
            return r;
        if (order <= 0)
            then_left = store_next(then, err);
        if (order >= 0)
            now_left = store_next(now, err);
    }
    return then_left < 0 ? then_left : now_left;
}

/* Removals come first and make room for the restored files. */
static void removals_first(struct restore *r)
{
    struct workspace_change *sorted = xcalloc(r->count + 1, sizeof(*sorted));
    size_t at = 0;

    for (size_t i = 0; i < r->count; i++)
        if (r->changes[i].kind == CHANGE_REMOVE)
            sorted[at++] = r->changes[i];
    for (size_t i = 0; i < r->count; i++)
        if (r->changes[i].kind != CHANGE_REMOVE)
            sorted[at++] = r->changes[i];
    free(r->changes);
    r->changes = sorted;
    r->room = r->count + 1;
}

static int commit_seq(struct store_tx *tx, const char *id, const char *commit,
                      int64_t *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT seq FROM commits WHERE id = ?1"
                      " AND workspace = ?2",
                      "tt", commit, id);

    if (r == 0)
        return error_set(err, ERR_NOT_FOUND, "no such commit");
    if (r > 0)
        *ret = store_int(rows, 0);
    return MIN(r, 0);
}

/* Bringing back what was not there would remove what is: not meant. */
static int check_existed(struct store_tx *tx, const char *id, int64_t seq,
                         const struct scope *s, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    char name[WORKSPACE_SHORT];
    int r = s->path[0] ? query_then(tx, id, seq, s, &rows, err) : 0;

    if (r == 0 && rows && store_next(rows, err) == 0)
        r = error_set(err, ERR_NOT_FOUND, "there was no %s at that commit",
                      workspace_path_short(s->path, name));
    return r;
}

static int plan_commit(struct store_tx *tx, const char *id,
                       const struct workspace_restore_spec *spec,
                       struct restore *ret, struct error *err)
{
    struct scope s cleanup(scope_done) = {.path =
                                              spec->path ? spec->path : ""};
    struct store_rows *then cleanup(store_rows_done) = NULL;
    struct store_rows *now cleanup(store_rows_done) = NULL;
    int64_t seq = 0;
    int r = commit_seq(tx, id, spec->commit, &seq, err);

    s.below = xasprintf("%s%s", s.path, s.path[0] ? "/" : "");
    s.end = workspace_path_end(s.below);
    if (r == 0)
        r = check_existed(tx, id, seq, &s, err);
    if (r == 0)
        r = query_then(tx, id, seq, &s, &then, err);
    if (r == 0)
        r = query_now(tx, id, &s, &now, err);
    if (r == 0)
        r = compare(ret, then, now, err);
    if (r == 0)
        removals_first(ret);
    return r;
}

/* ---- what a session did ------------------------------------------------- */

struct touched {
    const char *path; /* arena */
    int64_t first, last;
};

/* Commits of the session after ?2, and those that undid some of it. */
#define BY_SESSION                                                            \
    " JOIN commits AS c ON c.workspace = v.workspace AND c.seq = v.seq"       \
    " WHERE v.workspace = ?1 AND v.seq > ?2"                                  \
    " AND (c.session = ?3 OR (c.kind = 'undo' AND c.note = ?3))"

/* Every path it wrote to, or took a file from. */
static int find_touched(struct store_tx *tx, const char *id,
                        const struct workspace_undo_spec *spec,
                        struct arena *arena, struct touched **ret,
                        size_t *ret_count, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    size_t room = 0, count = 0;
    int r = store_query(
        tx, &rows, err,
        "SELECT t.path, min(t.seq), max(t.seq) FROM ("
        " SELECT v.path AS path, v.seq AS seq FROM versions AS v" BY_SESSION
        " UNION ALL SELECT p.path AS path, v.seq AS seq FROM versions AS v"
        " JOIN versions AS p ON p.file = v.file AND p.number = v.number - 1"
        "  AND p.path <> v.path AND p.sha256 <> ''" BY_SESSION
        ") AS t GROUP BY t.path ORDER BY t.path",
        "tit", id, spec->since, spec->session);

    while (r == 0 && (r = store_next(rows, err)) > 0) {
        if (count == RESTORE_MAX)
            return error_set(err, ERR_TOO_LARGE, "more than %u files changed",
                             RESTORE_MAX);
        if (count == room) {
            room = room ? 2 * room : 64;
            *ret = xrealloc(*ret, room * sizeof(**ret));
        }
        (*ret)[count++] =
            (struct touched){.path = arena_strdup(arena, store_text(rows, 0)),
                             .first = store_int(rows, 1),
                             .last = store_int(rows, 2)};
        r = 0;
    }
    *ret_count = count;
    return r;
}

/* Has another author changed the path since? 1, 0 or -code. */
static int changed_since(struct store_tx *tx, const char *id,
                         const struct touched *t, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;

    return store_one(
        tx, &rows, err,
        "SELECT 1 FROM versions AS v WHERE v.workspace = ?1 AND v.seq > ?3"
        " AND (v.path = ?2 OR EXISTS (SELECT 1 FROM versions AS p"
        "  WHERE p.file = v.file AND p.number = v.number - 1"
        "  AND p.path = ?2)) LIMIT 1",
        "tti", id, t->path, t->last);
}

/* The file at a path as of a commit: 1, 0 or -code. */
static int file_at(struct store_tx *tx, const char *id, const char *path,
                   int64_t seq, struct store_rows **ret, struct error *err)
{
    return store_one(
        tx, ret, err,
        "SELECT " WORKSPACE_VERSION_COLUMNS ", v.purged FROM versions AS v"
        " JOIN commits AS c ON c.workspace = v.workspace AND c.seq = v.seq"
        " WHERE v.workspace = ?1 AND v.path = ?2"
        " AND v.seq <= ?3 AND v.sha256 <> ''"
        " AND NOT EXISTS (SELECT 1 FROM versions AS n WHERE n.file = v.file"
        "  AND n.number = v.number + 1 AND n.seq <= ?3)",
        "tti", id, path, seq);
}

/* Back to what it was before the first change of the session. */
static int plan_path(struct store_tx *tx, const char *id, int64_t head,
                     const struct touched *t, struct restore *ret,
                     struct error *err)
{
    struct store_rows *then cleanup(store_rows_done) = NULL;
    struct store_rows *now cleanup(store_rows_done) = NULL;
    int was = file_at(tx, id, t->path, t->first - 1, &then, err);
    int is = was < 0 ? was : file_at(tx, id, t->path, head, &now, err);

    if (is < 0)
        return is;
    if (was == 0 && is > 0)
        (void)add_change(ret, CHANGE_REMOVE, t->path);
    else if (was > 0 && (is == 0 || !equal_files(then, now)))
        return add_put(ret, then, t->path, err);
    return 0;
}

static int plan_undo(struct store_tx *tx, const char *id, int64_t head,
                     const struct workspace_undo_spec *spec,
                     struct restore *ret, struct workspace_undone *ret_undone,
                     struct error *err)
{
    struct touched *list cleanup(mem_free) = NULL;
    size_t count = 0;
    int r = find_touched(tx, id, spec, ret->arena, &list, &count, err);

    for (size_t i = 0; i < count && r == 0; i++) {
        r = changed_since(tx, id, &list[i], err);
        if (r > 0 && ret_undone->kept_count < WORKSPACE_KEPT_MAX)
            ret_undone->kept[ret_undone->kept_count++] = xstrdup(list[i].path);
        r = r == 0 ? plan_path(tx, id, head, &list[i], ret, err) : MIN(r, 0);
    }
    if (r == 0)
        removals_first(ret);
    return r;
}

void workspace_undone_done(struct workspace_undone *u)
{
    workspace_commit_done(&u->commit);
    for (size_t i = 0; i < u->kept_count; i++)
        free(u->kept[i]);
    *u = (struct workspace_undone){.kept_count = 0};
}

/* The end of each: what was planned becomes a commit. */
static int commit_plan(struct workspaces *w, struct store_tx **tx,
                       const struct actor *who, struct workspace_row *row,
                       struct workspace_commit_spec *spec,
                       const struct restore *plan,
                       struct workspace_commit *ret, struct error *err)
{
    struct workspace_commit commit = {0};
    int r;

    spec->changes = plan->changes;
    spec->count = plan->count;
    spec->governed = true; /* its bytes are in the tenant's hands already */
    r = workspace_commit_in(w, *tx, who, row, spec, &commit, err);
    if (r == 0 && commit.id[0])
        r = store_commit(tx, err);
    if (r < 0) {
        workspace_commit_done(&commit);
        return r;
    }
    *ret = commit;
    if (commit.id[0])
        workspaces_committed(w);
    return 0;
}

int workspace_undo(struct workspaces *w, const struct actor *who,
                   const char *id, const struct workspace_undo_spec *spec,
                   struct workspace_undone *ret, struct error *err)
{
    struct restore plan cleanup(restore_done) = {.arena = arena_new()};
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_commit_spec commit = {.kind = "undo",
                                           .action = "file.undo",
                                           .note = spec->session,
                                           .lock_tokens = spec->lock_tokens,
                                           .lock_count = spec->lock_count};
    struct workspace_row row;
    int r = workspace_enter(w, who, id, ROLE_EDITOR, STORE_WRITE,
                            "undoing changes", &tx, &row, err);

    *ret = (struct workspace_undone){.kept_count = 0};
    if (r == 0)
        r = plan_undo(tx, id, row.head, spec, &plan, ret, err);
    if (r == 0)
        r = commit_plan(w, &tx, who, &row, &commit, &plan, &ret->commit, err);
    if (r < 0)
        workspace_undone_done(ret);
    return r;
}

/* ---- branches ----------------------------------------------------------- */

static int everything(struct scope *ret)
{
    *ret = (struct scope){.path = "", .below = xstrdup("")};
    ret->end = workspace_path_end(ret->below);
    return 0;
}

/* The files of another workspace are new files here. */
static void forget_ids(struct restore *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        plan->changes[i].file_id = NULL;
}

static int plan_copy(struct store_tx *tx, const char *from, int64_t seq,
                     struct restore *ret, struct error *err)
{
    struct scope all cleanup(scope_done) = {.path = ""};
    struct store_rows *then cleanup(store_rows_done) = NULL;
    int r = everything(&all);

    if (r == 0)
        r = query_then(tx, from, seq, &all, &then, err);
    while (r == 0 && (r = store_next(then, err)) > 0)
        r = ++ret->files > RESTORE_MAX
                ? error_set(err, ERR_TOO_LARGE, "more than %u files",
                            RESTORE_MAX)
                : add_put(ret, then, store_text(then, 4), err);
    forget_ids(ret);
    return r;
}

/* Both workspaces in one transaction, so that neither changes meanwhile. */
static int enter_both(struct workspaces *w, const struct actor *who,
                      const char *from, const char *to, const char *what,
                      struct store_tx **ret_tx, struct workspace_row *ret_from,
                      struct workspace_row *ret_to, struct error *err)
{
    int r = workspace_enter(w, who, to, ROLE_EDITOR, STORE_WRITE, what, ret_tx,
                            ret_to, err);

    if (r == 0)
        r = workspace_access(*ret_tx, w, who, from, ROLE_VIEWER, ret_from,
                             err);
    return r;
}

int workspace_branch(struct workspaces *w, const struct actor *who,
                     const char *from, int64_t seq, const char *to,
                     int64_t *ret_seq, struct error *err)
{
    struct restore plan cleanup(restore_done) = {.arena = arena_new()};
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_commit_spec spec = {
        .kind = "branch", .action = "workspace.branch", .note = from};
    struct workspace_commit done = {0};
    struct workspace_row source, target;
    int r = enter_both(w, who, from, to, "branching a workspace", &tx, &source,
                       &target, err);

    if (r == 0)
        r = plan_copy(tx, from, seq, &plan, err);
    if (r == 0)
        r = commit_plan(w, &tx, who, &target, &spec, &plan, &done, err);
    if (r == 0)
        *ret_seq = done.seq;
    workspace_commit_done(&done);
    return r;
}

int workspace_merge(struct workspaces *w, const struct actor *who,
                    const struct workspace_merge_spec *merge,
                    struct workspace_commit *ret, int64_t *ret_head,
                    struct error *err)
{
    struct restore plan cleanup(restore_done) = {.arena = arena_new()};
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct scope all cleanup(scope_done) = {.path = ""};
    struct store_rows *head cleanup(store_rows_done) = NULL;
    struct store_rows *base cleanup(store_rows_done) = NULL;
    struct workspace_commit_spec spec = {.kind = "merge",
                                         .action = "workspace.merge",
                                         .note = merge->from,
                                         .session = merge->session,
                                         .fence = merge->fence,
                                         .base = merge->base,
                                         .lock_tokens = merge->lock_tokens,
                                         .lock_count = merge->lock_count};
    struct workspace_row source, target;
    int r = enter_both(w, who, merge->from, merge->to, "merging a workspace",
                       &tx, &source, &target, err);

    if (r == 0)
        r = everything(&all);
    if (r == 0)
        r = query_then(tx, merge->from, source.head, &all, &head, err);
    if (r == 0)
        r = query_then(tx, merge->from, merge->since, &all, &base, err);
    if (r == 0)
        r = compare(&plan, head, base, err);
    if (r < 0)
        return r;
    removals_first(&plan);
    forget_ids(&plan);
    *ret_head = source.head;
    return commit_plan(w, &tx, who, &target, &spec, &plan, ret, err);
}

/* ---- both --------------------------------------------------------------- */

static int check_spec(const struct workspace_restore_spec *spec,
                      struct error *err)
{
    if (!spec->commit == !spec->version)
        return error_set(err, ERR_INVALID,
                         "restore to either a commit or a version");
    return spec->path ? workspace_path_check(spec->path, err) : 0;
}

static int restore_once(struct workspaces *w, const struct actor *who,
                        const char *id,
                        const struct workspace_restore_spec *spec,
                        const char *const *lock_tokens, size_t lock_count,
                        struct commit_policy_result *policy,
                        struct workspace_commit *ret, struct error *err)
{
    struct restore plan cleanup(restore_done) = {.arena = arena_new()};
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_commit_spec commit_spec = {
        .kind = "restore",
        .action = "file.restore",
        .lock_tokens = lock_tokens,
        .lock_count = lock_count,
        .policy = policy,
    };
    struct workspace_commit commit = {0};
    struct workspace_row row;
    int r = workspace_enter(w, who, id, ROLE_EDITOR, STORE_WRITE,
                            "restoring files", &tx, &row, err);

    if (r == 0)
        r = check_spec(spec, err);
    if (r == 0)
        r = spec->version ? plan_version(tx, id, spec, &plan, err)
                          : plan_commit(tx, id, spec, &plan, err);
    commit_spec.changes = plan.changes;
    commit_spec.count = plan.count;
    if (r == 0)
        r = workspace_commit_in(w, tx, who, &row, &commit_spec, &commit, err);
    if (r == 0 && commit.id[0])
        r = store_commit(&tx, err);
    if (r < 0) {
        workspace_commit_done(&commit);
        return r;
    }
    *ret = commit;
    if (commit.id[0])
        workspaces_committed(w);
    return 0;
}

int workspace_restore(struct workspaces *w, const struct actor *who,
                      const char *id,
                      const struct workspace_restore_spec *spec,
                      const char *const *lock_tokens, size_t lock_count,
                      struct workspace_commit *ret, struct error *err)
{
    struct commit_policy_result policy cleanup(commit_policy_result_done) = {
        0};
    int r = restore_once(w, who, id, spec, lock_tokens, lock_count, &policy,
                         ret, err);

    if (r == -ERR_APPROVAL && policy.path) {
        r = workspace_govern_copied(w, who, id, "restore", &policy, err);
        if (r == 0)
            r = restore_once(w, who, id, spec, lock_tokens, lock_count,
                             &policy, ret, err);
    }
    return r;
}
