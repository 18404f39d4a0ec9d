/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what was kept of executions; see evidence.h. Runs in the daemon on
 * the thread that serves the question, in a read transaction. What is still
 * queued is waited for, so that a request right after the end finds it.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "evidence/evidence_int.h"
#include "json/json.h"

/* Of the same tenant, asked for by the actor or all, and within its bounds. */
static bool may_see(struct store_rows *row, const struct actor *who, bool all)
{
    const char *actor = store_text(row, 0), *session = store_text(row, 1),
               *workspace = store_text(row, 2), *pool = store_text(row, 3);

    return (all || strcmp(actor, who->key) == 0) &&
           actor_may(who, ACTOR_SESSIONS, session) &&
           actor_may(who, ACTOR_WORKSPACES, workspace) &&
           actor_may(who, ACTOR_POOLS, pool);
}

/* The body's last brace makes room for the code. */
static void join(const char *body, const char *code, struct buf *out)
{
    struct json_writer w = {.out = out, .comma = true};
    size_t len = strlen(body);

    buf_add(out, body, len ? len - 1 : 0);
    json_write_string(&w, "code_text", *code ? code : NULL);
    json_write_close(&w, '}');
}

static int find_record(struct evidence *ev, const struct actor *who, bool all,
                       const char *execution, struct buf *ret,
                       struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r =
        store_begin(ev->store, STORE_READ, "looking for evidence", &tx, err);

    if (r == 0)
        r = store_one(tx, &row, err,
                      "SELECT actor, session, workspace, pool, body, code"
                      " FROM evidence WHERE execution = ?1 AND tenant = ?2",
                      "tt", execution, who->tenant);
    if (r < 0)
        return r;
    if (r == 0 || !may_see(row, who, all))
        return error_set(err, ERR_NOT_FOUND,
                         "there is no evidence of such an execution");
    join(store_text(row, 4), store_text(row, 5), ret);
    return 0;
}

int evidence_get(struct evidence *ev, const struct actor *who, bool all,
                 const char *execution, struct buf *ret_json,
                 struct error *err)
{
    if (!ev || !ids_valid("exec", execution))
        return error_set(err, ERR_NOT_FOUND,
                         "there is no evidence of such an execution");
    evidence_flush(ev);
    return find_record(ev, who, all, execution, ret_json, err);
}

/* ---- lists -------------------------------------------------------------- */

#define COLUMNS                                                               \
    "actor, session, workspace, pool, execution, outcome, code_sha256, at_ms"
#define REST                                                                  \
    " AND (?3 = '' OR outcome = ?3) AND at_ms + 0 >= ?4"                      \
    " AND at_ms + 0 <= ?5 AND (at_ms < ?6 OR (at_ms = ?6"                     \
    " AND execution < ?7)) AND (?8 = '' OR actor = ?8)"                       \
    " ORDER BY at_ms DESC, execution DESC"

/* Where the page before ended. One that may not be seen is none (I3). */
static int find_after(struct store_tx *tx, const struct actor *who, bool all,
                      const char *after, int64_t *ret, struct error *err)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    int r = store_one(tx, &row, err,
                      "SELECT actor, session, workspace, pool, at_ms"
                      " FROM evidence WHERE execution = ?1 AND tenant = ?2",
                      "tt", after, who->tenant);

    if (r < 0)
        return r;
    if (r == 0 || !may_see(row, who, all))
        return error_set(err, ERR_INVALID,
                         "parameter 'after' names no execution with evidence");
    *ret = store_int(row, 4);
    return 0;
}

static void read_row(struct store_rows *rows, struct evidence_row *ret)
{
    store_copy(rows, 0, ret->actor, sizeof(ret->actor));
    store_copy(rows, 1, ret->session, sizeof(ret->session));
    store_copy(rows, 4, ret->execution, sizeof(ret->execution));
    store_copy(rows, 5, ret->outcome, sizeof(ret->outcome));
    store_copy(rows, 6, ret->code_sha256, sizeof(ret->code_sha256));
    ret->at_ms = store_int(rows, 7);
}

static int collect(struct store_rows *rows, const struct actor *who, bool all,
                   unsigned limit, struct evidence_row *ret, size_t *ret_count,
                   bool *ret_more, struct error *err)
{
    int r;

    while ((r = store_next(rows, err)) == 1) {
        if (!may_see(rows, who, all))
            continue;
        if (*ret_count == limit) {
            *ret_more = true;
            return 0;
        }
        read_row(rows, &ret[(*ret_count)++]);
    }
    return r;
}

int evidence_list(struct evidence *ev, const struct actor *who, bool all,
                  const struct evidence_filter *filter,
                  struct evidence_row **ret, size_t *ret_count, bool *ret_more,
                  struct error *err)
{
    struct evidence_row *list cleanup(mem_free) =
        xcalloc(filter->limit, sizeof(*list));
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    const char *session = filter->session ? filter->session : "";
    int64_t before = INT64_MAX;
    int r = 0;

    *ret_count = 0;
    *ret_more = false;
    evidence_flush(ev);
    if (ev)
        r = store_begin(ev->store, STORE_READ, "listing evidence", &tx, err);
    if (r == 0 && ev && filter->after)
        r = find_after(tx, who, all, filter->after, &before, err);
    if (r == 0 && ev)
        r = store_query(tx, &rows, err,
                        *session ? "SELECT " COLUMNS " FROM evidence"
                                   " WHERE session = ?2 AND tenant = ?1" REST
                                 : "SELECT " COLUMNS " FROM evidence"
                                   " WHERE tenant = ?1 AND ?2 = ''" REST,
                        "tttiiitt", who->tenant, session,
                        filter->outcome ? filter->outcome : "",
                        filter->from_ms > 0 ? filter->from_ms : (int64_t)0,
                        filter->to_ms > 0 ? filter->to_ms : INT64_MAX, before,
                        filter->after ? filter->after : "",
                        all ? "" : who->key);
    if (r == 0 && ev)
        r = collect(rows, who, all, filter->limit, list, ret_count, ret_more,
                    err);
    if (r == 0)
        *ret = take_ptr(list);
    return r;
}
