/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks on disk; see tasks.h. Runs in gloveboxd on the threads of the door
 * that has them. A row that is unfinished and has no running task means
 * that the service was restarted.
 */
#include "session/tasks.h"

#include "base/error.h"
#include "base/mem.h"
#include "session/session_int.h"
#include "store/store.h"

#define TENANT_MAX 256 /* tasks of one on disk */

static int write_row(struct sessions *s, const char *what,
                     struct store_tx **ret, struct error *err)
{
    return store_begin(s->core->store, STORE_WRITE, what, ret, err);
}

int session_task_begin(struct sessions *s, const struct session_task *t,
                       struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = write_row(s, "storing a task", &tx, err);

    if (r == 0)
        r = store_exec(tx, err,
                       "INSERT INTO tasks (id, tenant, caller, created_at_ms,"
                       " updated_at_ms) VALUES (?1, ?2, ?3, ?4, ?4)",
                       "ttti", t->id, t->tenant, t->caller, t->created_at_ms);
    if (r >= 0) /* the oldest make room */
        r = store_exec(tx, err,
                       "DELETE FROM tasks WHERE tenant = ?1 AND created_at_ms"
                       " < (SELECT created_at_ms FROM tasks WHERE tenant = ?1"
                       "  ORDER BY created_at_ms DESC LIMIT 1 OFFSET ?2)",
                       "ti", t->tenant, (int64_t)TENANT_MAX - 1);
    return r < 0 ? r : store_commit(&tx, err);
}

int session_task_end(struct sessions *s, const char *id, const char *body,
                     int64_t at_ms, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = write_row(s, "ending a task", &tx, err);

    if (r == 0)
        r = store_exec(tx, err,
                       "UPDATE tasks SET over = 1, body = ?2,"
                       " updated_at_ms = ?3 WHERE id = ?1",
                       "tti", id, body, at_ms);
    return r < 0 ? r : store_commit(&tx, err);
}

int session_task_find(struct sessions *s, struct session_task *t,
                      struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_begin(s->core->store, STORE_READ, "looking for a task", &tx,
                        err);

    if (r == 0)
        r = store_one(tx, &rows, err,
                      "SELECT over, body, created_at_ms, updated_at_ms"
                      " FROM tasks WHERE id = ?1 AND tenant = ?2"
                      " AND caller = ?3",
                      "ttt", t->id, t->tenant, t->caller);
    if (r < 0)
        return r;
    if (r == 0)
        return error_set(err, ERR_NOT_FOUND, "no such task");
    t->over = store_int(rows, 0) != 0;
    t->body = xstrdup(store_text(rows, 1));
    t->created_at_ms = store_int(rows, 2);
    t->updated_at_ms = store_int(rows, 3);
    return 0;
}

int session_task_sweep(struct sessions *s, int64_t before_ms,
                       struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = write_row(s, "forgetting tasks", &tx, err);

    if (r == 0)
        r = store_exec(tx, err, "DELETE FROM tasks WHERE created_at_ms < ?1",
                       "i", before_ms);
    return r < 0 ? r : store_commit(&tx, err);
}
