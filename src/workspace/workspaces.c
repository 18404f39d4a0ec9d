/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workspaces themselves: creating, listing, changing their rules, deleting
 * them, undeleting them within their window and destroying them at once. See
 * workspace.h; upkeep/ purges deleted ones after their window. Runs in the
 * daemon on the caller's thread, one transaction a call.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "workspace/workspace_int.h"

#define KEEP_VERSIONS_MAX 1000000
#define KEEP_DAYS_MAX 36500
#define QUOTA_MAX ((int64_t)1 << 60)

/* ---- making ------------------------------------------------------------- */

static int choose_id(const struct workspace_spec *spec, char ret[ID_MAX],
                     struct error *err)
{
    if (!spec->id) {
        ids_make("ws", ret);
        return 0;
    }
    if (!ids_valid("ws", spec->id))
        return error_set(err, ERR_INVALID, "that is not a workspace's id");
    (void)snprintf(ret, ID_MAX, "%s", spec->id);
    return 0;
}

static int insert_workspace(struct store_tx *tx,
                            const struct workspace_row *row, bool whole_tenant,
                            struct error *err)
{
    int r = store_exec(tx, err,
                       "INSERT INTO workspaces (id, tenant, name, owner,"
                       " made_for, created_at_ms, updated_at_ms)"
                       " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
                       "ttttti", row->id, row->tenant, row->name, row->owner,
                       row->made_for, row->created_at_ms);

    if (r >= 0 && whole_tenant)
        r = store_exec(tx, err,
                       "INSERT INTO members (workspace, principal, role,"
                       " added_at_ms, added_by) VALUES (?1, '*', ?2, ?3, ?4)",
                       "tiit", row->id, (int64_t)ROLE_EDITOR,
                       row->created_at_ms, row->owner);
    return MIN(r, 0);
}

/* Listings go by it, so no two are the same. */
static int64_t next_moment(struct workspaces *w)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&w->lock);

    w->last_made_ms = MAX(clock_real_ms(), w->last_made_ms + 1);
    return w->last_made_ms;
}

int workspace_create_in(struct workspaces *w, struct store_tx *tx,
                        const struct actor *who,
                        const struct workspace_spec *spec,
                        struct workspace_info *ret, struct error *err)
{
    struct workspace_row row = {.role = ROLE_OWNER};
    struct audit_event event = {
        .action = "workspace.create",
        .workspace = row.id,
        .object = spec->made_for ? spec->made_for : row.id,
        .after = who->key,
    };
    int r = workspace_text_check("name", spec->name, WORKSPACE_NAME_MAX, err);

    if (r == 0)
        r = workspace_unbound(who, "make others", err);
    if (r == 0)
        r = choose_id(spec, row.id, err);
    if (r == 0)
        r = workspace_quota_enter(w, tx, who->tenant, 0, err);
    if (r < 0)
        return r;
    (void)snprintf(row.tenant, sizeof(row.tenant), "%s", who->tenant);
    (void)snprintf(row.owner, sizeof(row.owner), "%s", who->key);
    (void)snprintf(row.name, sizeof(row.name), "%s",
                   spec->name ? spec->name : "");
    (void)snprintf(row.made_for, sizeof(row.made_for), "%s",
                   spec->made_for ? spec->made_for : "");
    row.created_at_ms = row.updated_at_ms = next_moment(w);
    r = insert_workspace(tx, &row, !spec->private_to_owner, err);
    if (r == 0)
        r = audit_add(w->audit, tx, who, &event, err);
    if (r == 0)
        r = workspace_row_info(w, tx, &row, ret, err);
    return r;
}

int workspace_create(struct workspaces *w, const struct actor *who,
                     const struct workspace_spec *spec,
                     struct workspace_info *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_info info;
    int r = store_begin(w->store, STORE_WRITE, "making a workspace", &tx, err);

    if (r == 0)
        r = workspace_create_in(w, tx, who, spec, &info, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r == 0)
        *ret = info;
    return r;
}

/* ---- looking ------------------------------------------------------------ */

int workspace_get(struct workspaces *w, const struct actor *who,
                  const char *id, struct workspace_info *ret,
                  struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    int r = workspace_enter(w, who, id, ROLE_VIEWER, STORE_READ,
                            "looking for a workspace", &tx, &row, err);

    return r < 0 ? r : workspace_row_info(w, tx, &row, ret, err);
}

/* Where the page before ended; INT64_MAX at the start. */
static int page_start(struct store_tx *tx, const struct actor *who,
                      const char *after, int64_t *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r;

    *ret = INT64_MAX;
    if (!after)
        return 0;
    r = store_one(
        tx, &rows, err,
        "SELECT w.created_at_ms FROM workspaces AS w WHERE w.id = ?1"
        " AND " WORKSPACE_ROLE_SQL("?2", "?3", "?4", "?5", "?6") " > 0",
        "ttittt", after, who->key, (int64_t)who->admin, who->tenant,
        WORKSPACE_BOUNDS(who));
    if (r < 0)
        return r;
    if (r == 0)
        return error_set(err, ERR_INVALID, "after: no such workspace");
    *ret = store_int(rows, 0);
    return 0;
}

/* Of the tenant's and those it was asked into, by the indexes of both. */
static int query_list(struct store_tx *tx, const struct actor *who,
                      bool deleted, int64_t limit, int64_t start,
                      const char *after, struct store_rows **ret,
                      struct error *err)
{
    return store_query(
        tx, ret, err,
        "SELECT * FROM (SELECT " WORKSPACE_ROW_COLUMNS WORKSPACE_ROLE_SQL(
            "?1", "?2", "?3", "?8",
            "?9") " AS role FROM workspaces AS w"
                  " WHERE (w.tenant = ?3 OR w.id IN (SELECT workspace FROM members"
                  "  WHERE principal = ?1)) AND (w.deleted_at_ms > 0) = (?4 = 1)) AS a"
                  " WHERE role > 0 AND (created_at_ms < ?5 OR (created_at_ms = ?5"
                  "  AND id < ?6)) ORDER BY created_at_ms DESC, id DESC LIMIT ?7",
        "titiititt", who->key, (int64_t)who->admin, who->tenant,
        (int64_t)deleted, start, after ? after : "", limit,
        WORKSPACE_BOUNDS(who));
}

int workspace_list(struct workspaces *w, const struct actor *who, bool deleted,
                   const struct page *page, struct workspace_info **ret,
                   struct page_result *ret_page, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct workspace_info *infos cleanup(mem_free) = NULL;
    unsigned limit = page->limit;
    size_t count = 0;
    int64_t start;
    int r = store_begin(w->store, STORE_READ, "listing workspaces", &tx, err);

    if (limit == 0 || limit > WORKSPACE_LIST_MAX)
        limit = WORKSPACE_LIST_MAX;
    if (r == 0)
        r = page_start(tx, who, page->after, &start, err);
    if (r == 0)
        r = query_list(tx, who, deleted, (int64_t)limit + 1, start,
                       page->after, &rows, err);
    if (r < 0)
        return r;
    infos = xcalloc(limit, sizeof(*infos));
    while ((r = store_next(rows, err)) > 0 && count < limit) {
        struct workspace_row row;

        workspace_row_read(rows, &row);
        r = workspace_row_info(w, tx, &row, &infos[count++], err);
        if (r < 0)
            return r;
    }
    if (r < 0)
        return r;
    *ret = take_ptr(infos);
    *ret_page = (struct page_result){.count = count, .has_more = r > 0};
    return 0;
}

/* ---- changing ----------------------------------------------------------- */

static int check_rule(const char *what, int64_t value, int64_t most,
                      struct error *err)
{
    if (value < -1 || value > most)
        return error_set(err, ERR_INVALID, "%s must be 0 to %" PRId64, what,
                         most);
    return 0;
}

static int check_patch(const struct workspace_patch *patch, struct error *err)
{
    int r = workspace_text_check("name", patch->name, WORKSPACE_NAME_MAX, err);

    if (r == 0)
        r = check_rule("quota_bytes", patch->quota_bytes, QUOTA_MAX, err);
    if (r == 0)
        r = check_rule("keep_versions", patch->keep_versions,
                       KEEP_VERSIONS_MAX, err);
    if (r == 0)
        r = check_rule("keep_days", patch->keep_days, KEEP_DAYS_MAX, err);
    if (r == 0)
        r = check_rule("legal_hold", patch->legal_hold, 1, err);
    return r;
}

static int check_admin(struct workspaces *w, const struct actor *who,
                       const struct workspace_row *row,
                       const struct workspace_patch *patch, struct error *err)
{
    if (patch->quota_bytes < 0 && patch->legal_hold < 0)
        return 0;
    if (who->admin && strcmp(who->tenant, row->tenant) == 0)
        return 0;
    (void)error_set(err, ERR_FORBIDDEN,
                    "quota and legal hold are set by an admin");
    workspace_refused(w, who, "workspace.update", row->id, NULL, err);
    return -ERR_FORBIDDEN;
}

/* Describes the changed settings for the trail; a name is not repeated
 * there. */
static void describe_patch(const struct workspace_patch *patch,
                           struct buf *ret)
{
    if (patch->name)
        buf_adds(ret, "name; ");
    if (patch->quota_bytes >= 0)
        buf_addf(ret, "quota_bytes %" PRId64 "; ", patch->quota_bytes);
    if (patch->keep_versions >= 0)
        buf_addf(ret, "keep_versions %" PRId64 "; ", patch->keep_versions);
    if (patch->keep_days >= 0)
        buf_addf(ret, "keep_days %" PRId64 "; ", patch->keep_days);
    if (patch->legal_hold >= 0)
        buf_addf(ret, "legal_hold %d; ", patch->legal_hold);
    if (patch->intelligence != SWITCH_LEAVE)
        buf_addf(ret, "intelligence %d; ", patch->intelligence == SWITCH_ON);
}

static int apply_patch(struct workspaces *w, struct store_tx *tx,
                       const struct actor *who, const char *id,
                       const struct workspace_patch *patch, struct error *err)
{
    struct buf detail cleanup(buf_done) = {0};
    struct audit_event event = {
        .action = "workspace.update", .workspace = id, .object = id};
    int r = store_exec(
        tx, err,
        "UPDATE workspaces SET name = coalesce(?2, name),"
        " quota_bytes = CASE WHEN ?3 < 0 THEN quota_bytes ELSE ?3 END,"
        " keep_versions = CASE WHEN ?4 < 0 THEN keep_versions ELSE ?4 END,"
        " keep_days = CASE WHEN ?5 < 0 THEN keep_days ELSE ?5 END,"
        " legal_hold = CASE WHEN ?6 < 0 THEN legal_hold ELSE ?6 END,"
        /* 2: search still has to remove its passages */
        " intelligence = CASE WHEN ?8 = 0 THEN intelligence WHEN ?8 = 1"
        "  THEN 1 WHEN intelligence = 0 THEN 0 ELSE 2 END,"
        " updated_at_ms = ?7 WHERE id = ?1",
        "ttiiiiii", id, patch->name, patch->quota_bytes, patch->keep_versions,
        patch->keep_days, (int64_t)patch->legal_hold, clock_real_ms(),
        (int64_t)patch->intelligence);

    if (r < 0)
        return r;
    describe_patch(patch, &detail);
    event.detail = detail.data;
    return audit_add(w->audit, tx, who, &event, err);
}

int workspace_patch(struct workspaces *w, const struct actor *who,
                    const char *id, const struct workspace_patch *patch,
                    struct workspace_info *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    struct workspace_info info;
    int r = check_patch(patch, err);

    if (r == 0)
        r = workspace_enter(w, who, id, ROLE_OWNER, STORE_WRITE,
                            "changing a workspace", &tx, &row, err);
    if (r == 0)
        r = check_admin(w, who, &row, patch, err);
    if (r == 0)
        r = apply_patch(w, tx, who, id, patch, err);
    if (r == 0)
        r = workspace_access(tx, w, who, id, ROLE_OWNER, &row, err);
    if (r == 0)
        r = workspace_row_info(w, tx, &row, &info, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r == 0)
        *ret = info;
    return r;
}

/* ---- deleting --------------------------------------------------------------
 */

static int check_hold(struct workspaces *w, const struct actor *who,
                      const struct workspace_row *row, const char *action,
                      struct error *err)
{
    if (!row->legal_hold)
        return 0;
    (void)error_set(err, ERR_CONFLICT,
                    "the workspace is under legal hold and stays");
    workspace_refused(w, who, action, row->id, NULL, err);
    return -ERR_CONFLICT;
}

int workspace_held(struct store_tx *tx, const char *workspace,
                   const char *session, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;

    return store_one(tx, &rows, err,
                     "SELECT 1 FROM workspaces WHERE legal_hold = 1"
                     " AND (id = ?1 OR (?2 <> '' AND (made_for = ?2 OR id IN"
                     "  (SELECT workspace FROM sessions WHERE id = ?2))))"
                     " LIMIT 1",
                     "tt", workspace, session);
}

static int set_deleted(struct store_tx *tx, const char *id, int64_t at_ms,
                       struct error *err)
{
    int r = store_exec(tx, err,
                       "UPDATE workspaces SET deleted_at_ms = ?2"
                       " WHERE id = ?1",
                       "ti", id, at_ms);

    return MIN(r, 0);
}

int workspace_delete(struct workspaces *w, const struct actor *who,
                     const char *id, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct audit_event event = {
        .action = "workspace.delete", .workspace = id, .object = id};
    struct workspace_row row;
    int r = workspace_enter(w, who, id, ROLE_OWNER, STORE_WRITE,
                            "deleting a workspace", &tx, &row, err);

    if (r == 0)
        r = check_hold(w, who, &row, event.action, err);
    if (r == 0)
        r = set_deleted(tx, id, clock_real_ms(), err);
    if (r == 0)
        r = audit_add(w->audit, tx, who, &event, err);
    return r < 0 ? r : store_commit(&tx, err);
}

/* Past its time it may be half purged already, and is as good as gone. */
static int find_deleted(struct workspaces *w, struct store_tx *tx,
                        const struct actor *who, const char *id,
                        struct workspace_row *ret, struct error *err)
{
    int r = workspace_access_deleted(tx, w, who, id, ROLE_OWNER, ret, err);
    int64_t window = 1000 * (int64_t)w->settings.restore_window_s;

    if (r == 0 && ret->deleted_at_ms + window <= clock_real_ms())
        return error_set(err, ERR_NOT_FOUND, "no such workspace");
    return r;
}

int workspace_undelete(struct workspaces *w, const struct actor *who,
                       const char *id, struct workspace_info *ret,
                       struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct audit_event event = {
        .action = "workspace.undelete", .workspace = id, .object = id};
    struct workspace_row row;
    struct workspace_info info;
    int r = store_begin(w->store, STORE_WRITE, "bringing a workspace back",
                        &tx, err);

    if (r == 0)
        r = find_deleted(w, tx, who, id, &row, err);
    if (r == 0) /* its bytes never stopped counting */
        r = workspace_quota_enter(w, tx, row.tenant, 0, err);
    if (r == 0)
        r = set_deleted(tx, id, 0, err);
    if (r == 0) /* or the next collection would delete an old unnamed one */
        r = MIN(store_exec(tx, err,
                           "UPDATE workspaces SET updated_at_ms = ?2"
                           " WHERE id = ?1 AND name = '' AND made_for <> ''",
                           "ti", id, clock_real_ms()),
                0);
    if (r == 0)
        r = audit_add(w->audit, tx, who, &event, err);
    row.deleted_at_ms = 0;
    if (r == 0)
        r = workspace_row_info(w, tx, &row, &info, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r == 0)
        *ret = info;
    return r;
}

/* A deletion time far in the past: it can no longer be restored, and the
 * collector finishes the removal after a crash. */
#define DELETED_LONG_AGO 1

int workspace_destroy(struct workspaces *w, const struct actor *who,
                      const char *id, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_collected swept = {0};
    struct workspace_row row;
    int r = workspace_enter(w, who, id, ROLE_OWNER, STORE_WRITE,
                            "destroying a workspace", &tx, &row, err);

    if (r == 0)
        r = check_hold(w, who, &row, "workspace.destroy", err);
    if (r == 0)
        r = audit_intact(w->audit, err);
    if (r == 0)
        r = set_deleted(tx, id, DELETED_LONG_AGO, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r < 0)
        return r;
    return upkeep_purge(w->upkeep, who, id, "workspace.destroy", &swept, err);
}

/* ---- unnamed ones, after a while ----------------------------------------
 */

#define DAY_MS 86400000ll

/* Made for a session or a single run, never named, unchanged since before_ms,
 * and not in use: no existing session, awake or dormant, no valid share link,
 * no offer, no upload in progress, no file of a library, no legal hold. */
#define UNWANTED_SQL                                                          \
    " w.name = '' AND w.made_for <> '' AND w.made_for <> ?3"                  \
    " AND w.deleted_at_ms = 0 AND w.legal_hold = 0"                           \
    " AND w.updated_at_ms < ?2"                                               \
    " AND NOT EXISTS (SELECT 1 FROM sessions WHERE workspace = w.id)"         \
    " AND NOT EXISTS (SELECT 1 FROM shares WHERE workspace = w.id"            \
    "  AND revoked_at_ms = 0"                                                 \
    "  AND (expires_at_ms = 0 OR expires_at_ms > ?4))"                        \
    " AND NOT EXISTS (SELECT 1 FROM transfers WHERE workspace = w.id"         \
    "  AND expires_at_ms > ?4)"                                               \
    " AND NOT EXISTS (SELECT 1 FROM uploads WHERE workspace = w.id"           \
    "  AND expires_at_ms > ?4)"                                               \
    " AND NOT EXISTS (SELECT 1 FROM library AS l JOIN files AS f"             \
    "  ON f.id = l.file WHERE f.workspace = w.id)"

/* The next one after *id, or with `same` that one if it is still unwanted; 1,
 * 0: none, or -code. */
static int find_unwanted(struct store_tx *tx, int64_t before_ms, bool same,
                         char id[ID_MAX], char ret_tenant[64],
                         struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(
        tx, &rows, err,
        same ? "SELECT w.id, w.tenant FROM workspaces AS w"
               " WHERE w.id = ?1 AND" UNWANTED_SQL
             : "SELECT w.id, w.tenant FROM workspaces AS w"
               " WHERE w.id > ?1 AND" UNWANTED_SQL " ORDER BY w.id LIMIT 1",
        "titi", id, before_ms, LIBRARY_MADE_FOR, clock_real_ms());

    if (r > 0) {
        store_copy(rows, 0, id, ID_MAX);
        store_copy(rows, 1, ret_tenant, 64);
    }
    return r;
}

/* Looks in a transaction that only reads, so that commits do not wait for the
 * search. 1, 0: there are no more, or -code. */
static int expire_next(struct workspaces *w, int64_t before_ms,
                       char id[ID_MAX], uint64_t *ret_removed,
                       struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    char tenant[64] = "", detail[64];
    struct actor service = {.tenant = tenant, .key = "glovebox"};
    struct audit_event event = {.action = "workspace.expire",
                                .workspace = id,
                                .object = id,
                                .detail = detail};
    int r = store_begin(w->store, STORE_READ, "looking for old workspaces",
                        &tx, err);

    if (r == 0)
        r = find_unwanted(tx, before_ms, false, id, tenant, err);
    store_rollback(&tx);
    if (r <= 0)
        return r;
    r = store_begin(w->store, STORE_WRITE, "deleting an old workspace", &tx,
                    err);
    if (r == 0)
        r = find_unwanted(tx, before_ms, true, id, tenant, err);
    if (r <= 0)
        return r < 0 ? r : 1; /* it was used meanwhile */
    (void)snprintf(detail, sizeof(detail), "unnamed and unchanged for %u days",
                   w->settings.unnamed_days);
    r = set_deleted(tx, id, clock_real_ms(), err);
    if (r == 0)
        r = audit_add(w->audit, tx, &service, &event, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r < 0)
        return r;
    ++*ret_removed;
    log_event(LOG_INFO, "workspace_expired", "workspace", id, NULL);
    return 1;
}

int workspaces_expire_unnamed(struct workspaces *w, uint64_t *ret_removed,
                              struct error *err)
{
    int64_t before_ms =
        clock_real_ms() - (int64_t)w->settings.unnamed_days * DAY_MS;
    char id[ID_MAX] = "";
    int r;

    if (!w->settings.unnamed_days)
        return 0;
    do
        r = expire_next(w, before_ms, id, ret_removed, err);
    while (r > 0 && !upkeep_wait(w->upkeep, 0));
    return MIN(r, 0);
}

/* ---- for good, before its time ------------------------------------------ */

static int destroy_deleted(struct workspaces *w, const struct actor *who,
                           const char *id, struct workspace_collected *ret,
                           struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    int r =
        store_begin(w->store, STORE_WRITE, "purging a workspace", &tx, err);

    if (r == 0)
        r = find_deleted(w, tx, who, id, &row, err);
    if (r == 0)
        r = check_hold(w, who, &row, "workspace.destroy", err);
    if (r == 0)
        r = set_deleted(tx, id, DELETED_LONG_AGO, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r == 0)
        r = upkeep_purge(w->upkeep, who, id, "workspace.destroy", ret, err);
    ret->workspaces += r == 0;
    return r;
}

int workspace_purge_now(struct workspaces *w, const struct actor *who,
                        const char *id, const char *path,
                        struct workspace_collected *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct workspace_row row;
    int r = workspace_enter(w, who, id, ROLE_OWNER, STORE_READ,
                            "purging a workspace", &tx, &row, err);

    *ret = (struct workspace_collected){0};
    if (r == -ERR_NOT_FOUND && !path[0])
        return destroy_deleted(w, who, id, ret, err);
    if (r == 0)
        r = check_hold(w, who, &row, "version.purge", err);
    store_rollback(&tx);
    return r < 0
               ? r
               : upkeep_purge_versions(w->upkeep, who, row.id, path, ret, err);
}
