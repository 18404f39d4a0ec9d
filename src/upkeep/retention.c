/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Purges versions that a workspace's rules no longer keep. Runs in a
 * collection, and for an owner who purges at once.
 *
 * keep_versions N keeps the last N versions of each file (tombstones do not
 * count), keep_days D keeps a version for D days after it was superseded or
 * deleted. With both, a version goes only when neither keeps it. The current
 * version of a file always stays, and under legal hold everything does. A
 * purged version keeps its row, which records its time and author.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "upkeep/upkeep_int.h"

#define BATCH 200 /* versions in a transaction */
#define DAY_MS 86400000ll

/* The retention rules of a workspace. */
struct rules {
    char id[ID_MAX], tenant[64];
    int64_t keep_versions, keep_days;
    bool legal_hold;
};

/* ERR_NOT_FOUND also for a deleted workspace. */
static int read_rules(struct store_tx *tx, const char *id, struct rules *ret,
                      struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &rows, err,
                      "SELECT id, tenant, keep_versions, keep_days, legal_hold"
                      " FROM workspaces WHERE id = ?1 AND deleted_at_ms = 0",
                      "t", id);

    if (r < 0)
        return r;
    if (r == 0)
        return error_set(err, ERR_NOT_FOUND, "no such workspace");
    store_copy(rows, 0, ret->id, sizeof(ret->id));
    store_copy(rows, 1, ret->tenant, sizeof(ret->tenant));
    ret->keep_versions = store_int(rows, 2);
    ret->keep_days = store_int(rows, 3);
    ret->legal_hold = store_int(rows, 4) != 0;
    return 0;
}

struct victims {
    char ids[BATCH][ID_MAX];
    size_t count;
    int64_t seq; /* where to go on */
};

/* Only reads, so that commits do not wait. */
static int find_expired(struct upkeep *u, const struct rules *row,
                        int64_t cutoff_ms, struct victims *v,
                        struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    char after[ID_MAX] = "";
    int r = store_begin(u->store, STORE_READ, "looking at versions", &tx, err);

    if (v->count)
        memcpy(after, v->ids[v->count - 1], sizeof(after));
    v->count = 0;
    if (r == 0)
        r = store_query(
            tx, &rows, err,
            "SELECT v.id, v.seq FROM versions AS v"
            " JOIN files AS f ON f.id = v.file"
            " WHERE v.workspace = ?1 AND v.seq >= ?2"
            " AND (v.seq > ?2 OR v.id > ?3)"
            " AND v.purged = 0 AND v.sha256 <> ''"
            " AND NOT (f.alive = 1 AND f.version = v.id)"
            " AND (?4 = 0 OR EXISTS (SELECT 1 FROM versions AS n"
            "  WHERE n.file = v.file AND n.number > v.number"
            "  AND n.sha256 <> '' ORDER BY n.number LIMIT 1 OFFSET ?4 - 1))"
            " AND (?5 = 0 OR EXISTS (SELECT 1 FROM versions AS n"
            "  JOIN commits AS c ON c.id = n.commit_id"
            "  WHERE n.file = v.file AND n.number = v.number + 1"
            "  AND c.at_ms < ?5))"
            " ORDER BY v.seq, v.id LIMIT ?6",
            "titiii", row->id, v->seq, after, row->keep_versions, cutoff_ms,
            (int64_t)BATCH);
    while (r == 0 && v->count < BATCH && (r = store_next(rows, err)) > 0) {
        store_copy(rows, 0, v->ids[v->count++], ID_MAX);
        v->seq = store_int(rows, 1);
        r = 0;
    }
    return r;
}

/* One version, if it is still as it was found. Takes its size off unless the
 * file has the same bytes in another version. */
static int purge_version(struct store_tx *tx, const char *id,
                         int64_t *ret_bytes, uint64_t *ret_count,
                         struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_exec(tx, err,
                       "UPDATE versions SET purged = 1 WHERE id = ?1"
                       " AND purged = 0 AND NOT EXISTS (SELECT 1"
                       "  FROM files AS f WHERE f.id = versions.file"
                       "  AND f.alive = 1 AND f.version = versions.id)",
                       "t", id);

    if (r <= 0)
        return r;
    ++*ret_count;
    r = store_one(tx, &rows, err,
                  "SELECT v.size FROM versions AS v WHERE v.id = ?1"
                  " AND v.size > 0 AND NOT EXISTS (SELECT 1 FROM versions AS o"
                  "  WHERE o.file = v.file AND o.sha256 = v.sha256"
                  "  AND o.purged = 0)",
                  "t", id);
    if (r > 0)
        *ret_bytes += store_int(rows, 0);
    return MIN(r, 0);
}

static int purge_batch(struct upkeep *u, const struct rules *row,
                       const struct actor *who, const struct victims *v,
                       uint64_t *ret_count, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct rules now = {0};
    uint64_t count = 0;
    int64_t bytes = 0;
    int r = store_begin(u->store, STORE_WRITE, "giving up versions", &tx, err);

    if (r == 0)
        r = read_rules(tx, row->id, &now, err);
    if (r == -ERR_NOT_FOUND)
        return 0; /* deleted meanwhile: not ours any more */
    if (r == 0 && who && now.legal_hold)
        return error_set(err, ERR_CONFLICT,
                         "the workspace is under legal hold and stays");
    if (r < 0 ||
        (!who && (now.legal_hold || row->keep_versions != now.keep_versions ||
                  row->keep_days != now.keep_days)))
        return r;
    for (size_t i = 0; i < v->count && r == 0; i++)
        r = purge_version(tx, v->ids[i], &bytes, &count, err);
    if (r < 0 || count == 0)
        return r;
    r = store_exec(tx, err,
                   "UPDATE workspaces SET stored_bytes = CASE"
                   " WHEN stored_bytes > ?2 THEN stored_bytes - ?2 ELSE 0 END"
                   " WHERE id = ?1",
                   "ti", row->id, bytes);
    if (r >= 0) {
        /* Without an actor the service purges, by the workspace's rules. */
        struct actor service = {.tenant = row->tenant, .key = "glovebox"};
        char detail[64];
        struct audit_event event = {.action = "version.purge",
                                    .workspace = row->id,
                                    .object = row->id,
                                    .detail = detail};

        (void)snprintf(detail, sizeof(detail), "%" PRIu64 " versions", count);
        r = audit_add(u->audit, tx, who ? who : &service, &event, err);
    }
    if (r == 0)
        r = store_commit(&tx, err);
    if (r == 0)
        *ret_count += count;
    return r;
}

/* Commits add to stored_bytes at most too much; this makes it exact. Added up
 * without keeping writers waiting, and set unless a commit came between. */
static int recount_bytes(struct upkeep *u, const char *id, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int64_t bytes, head;
    int r = store_begin(u->store, STORE_READ, "adding up versions", &tx, err);

    if (r == 0)
        r = store_one(tx, &rows, err,
                      "SELECT w.head, coalesce((SELECT sum(k.size) FROM"
                      " (SELECT DISTINCT file, sha256, size FROM versions"
                      "  WHERE workspace = ?1 AND purged = 0"
                      "  AND sha256 <> '') AS k), 0)"
                      " FROM workspaces AS w WHERE w.id = ?1",
                      "t", id);
    if (r <= 0)
        return r;
    head = store_int(rows, 0);
    bytes = store_int(rows, 1);
    store_rows_done(&rows);
    store_rollback(&tx);
    r = store_begin(u->store, STORE_WRITE, "adding up versions", &tx, err);
    if (r == 0)
        r = store_exec(tx, err,
                       "UPDATE workspaces SET stored_bytes = ?3"
                       " WHERE id = ?1 AND head = ?2 AND stored_bytes <> ?3",
                       "tii", id, head, bytes);
    if (r > 0)
        r = store_commit(&tx, err);
    return MIN(r, 0);
}

static int apply_rules(struct upkeep *u, const struct rules *row,
                       struct workspace_collected *ret, struct error *err)
{
    struct victims *v cleanup(mem_free) = xcalloc(1, sizeof(*v));
    int64_t cutoff_ms =
        row->keep_days ? clock_real_ms() - row->keep_days * DAY_MS : 0;
    uint64_t before = ret->versions;

    do {
        int r = find_expired(u, row, cutoff_ms, v, err);

        if (r == 0 && v->count)
            r = purge_batch(u, row, NULL, v, &ret->versions, err);
        if (r < 0)
            return r;
    } while (v->count == BATCH && !upkeep_wait(u, 0));
    if (ret->versions == before)
        return 0;
    /* Its links would keep the bytes on disk; it is made again when needed. */
    trees_forget(u->trees, row->id);
    return recount_bytes(u, row->id, err);
}

/* ---- at once, by an owner ----------------------------------------------- */

/* Names of their blobs, BLOB_NAME apart. */
struct names {
    char *names; /* owned */
    size_t count, room;
};

static void names_done(struct names *n)
{
    free(n->names);
}

/* As find_expired, but what is not current, whatever the rules say. */
static int find_superseded(struct upkeep *u, const char *id, const char *path,
                           struct victims *v, struct names *n,
                           struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    char after[ID_MAX] = "";
    int r = store_begin(u->store, STORE_READ, "looking at versions", &tx, err);

    if (v->count)
        memcpy(after, v->ids[v->count - 1], sizeof(after));
    v->count = 0;
    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT v.id, v.seq, v.sha256 FROM versions AS v"
                        " JOIN files AS f ON f.id = v.file"
                        " WHERE v.workspace = ?1 AND v.seq >= ?2"
                        " AND (v.seq > ?2 OR v.id > ?3)"
                        " AND v.purged = 0 AND v.sha256 <> ''"
                        " AND NOT (f.alive = 1 AND f.version = v.id)"
                        /* '0' comes right after '/' */
                        " AND (?4 = '' OR f.path = ?4"
                        "  OR (f.path > ?4 || '/' AND f.path < ?4 || '0'))"
                        " ORDER BY v.seq, v.id LIMIT ?5",
                        "titti", id, v->seq, after, path, (int64_t)BATCH);
    while (r == 0 && v->count < BATCH && (r = store_next(rows, err)) > 0) {
        store_copy(rows, 0, v->ids[v->count++], ID_MAX);
        v->seq = store_int(rows, 1);
        if (n->count == n->room) {
            n->room = n->room ? 2 * n->room : BATCH;
            n->names = xrealloc(n->names, n->room * BLOB_NAME);
        }
        store_copy(rows, 2, n->names + n->count++ * BLOB_NAME, BLOB_NAME);
        r = 0;
    }
    return r;
}

int upkeep_purge_versions(struct upkeep *u, const struct actor *who,
                          const char *id, const char *path,
                          struct workspace_collected *ret, struct error *err)
{
    struct victims *v cleanup(mem_free) = xcalloc(1, sizeof(*v));
    struct names n cleanup(names_done) = {0};
    struct rules rules = {0};

    (void)snprintf(rules.id, sizeof(rules.id), "%s", id);
    do {
        int r = find_superseded(u, id, path, v, &n, err);

        if (r == 0 && v->count)
            r = purge_batch(u, &rules, who, v, &ret->versions, err);
        if (r < 0)
            return r;
    } while (v->count == BATCH);
    if (n.count == 0)
        return 0;
    trees_forget(u->trees, id);
    if (recount_bytes(u, id, err) < 0)
        return -(int)err->code;
    return upkeep_sweep_names(u, n.names, n.count, ret, err);
}

/* ---- by the rules ------------------------------------------------------- */

/* The next workspace after `after` that has rules; 0: none. */
static int next_with_rules(struct upkeep *u, const char *after,
                           struct rules *ret, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    char id[ID_MAX];
    int r = store_begin(u->store, STORE_READ, "looking at rules", &tx, err);

    if (r == 0)
        r = store_one(tx, &rows, err,
                      "SELECT id FROM workspaces WHERE id > ?1"
                      " AND deleted_at_ms = 0 AND legal_hold = 0"
                      " AND (keep_versions > 0 OR keep_days > 0)"
                      " ORDER BY id LIMIT 1",
                      "t", after);
    if (r <= 0)
        return r;
    store_copy(rows, 0, id, sizeof(id));
    store_rows_done(&rows);
    r = read_rules(tx, id, ret, err);
    return r < 0 ? r : 1;
}

int upkeep_retention(struct upkeep *u, struct workspace_collected *ret,
                     struct error *err)
{
    struct rules row = {0};
    int r;

    while ((r = next_with_rules(u, row.id, &row, err)) > 0) {
        r = apply_rules(u, &row, ret, err);
        if (r < 0 || upkeep_wait(u, 0))
            return r;
    }
    return r;
}
