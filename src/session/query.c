/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listing sessions: those with rows and those without, merged by the time
 * they were made, which no two share. Runs in gloveboxd on the caller's
 * thread. Rows are walked, not gathered, so that a page far down costs no
 * memory; what is at hand knows better than its row.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/session_int.h"

#define LIST_MAX 1000u

struct query {
    struct sessions *m;
    const struct actor *who;
    const struct session_filter *filter;
    int64_t than_ms; /* where the page begins */
    struct session_rows rows;
    bool row;                /* there is one to take */
    struct session **others; /* without rows, in order; referenced */
    size_t other_count, other_at;
    unsigned skip;
    struct session_info *items;
    size_t count;
    bool more;
};

static void query_done(struct query *q)
{
    session_rows_done(&q->rows);
    for (size_t i = 0; i < q->other_count; i++)
        session_unref(q->others[i]);
    free(q->others);
    for (size_t i = 0; i < q->count; i++)
        session_info_done(&q->items[i]);
    free(q->items);
}

/* ---- those without rows ------------------------------------------------- */

static bool wanted(const struct query *q, const struct session *se)
{
    const struct session_filter *f = q->filter;
    const char *name = se->name ? se->name : "";

    return (f->oldest_first ? se->created_at_ms > q->than_ms
                            : se->created_at_ms < q->than_ms) &&
           (!f->pool || strcmp(f->pool, pool_conf(se->pool)->name) == 0) &&
           (!f->name || strcmp(f->name, name) == 0) &&
           (!f->identified || se->identifier) && session_visible(se, q->who);
}

/* sessions.lock is held; the list is by the time of publishing, which is not
 * quite that of making. */
static void gather(struct query *q, struct session *newest)
{
    size_t room = 0;

    for (struct session *se = newest; se; se = se->older) {
        if (!wanted(q, se))
            continue;
        if (q->other_count == room) {
            room = room ? 2 * room : 64;
            q->others = xrealloc(q->others, room * sizeof(struct session *));
        }
        q->others[q->other_count++] = session_ref(se);
    }
}

static int oldest_first(const void *a, const void *b)
{
    const struct session *x = *(struct session *const *)a;
    const struct session *y = *(struct session *const *)b;

    return (x->created_at_ms > y->created_at_ms) -
           (x->created_at_ms < y->created_at_ms);
}

static int newest_first(const void *a, const void *b)
{
    return oldest_first(b, a);
}

static void gather_others(struct query *q)
{
    struct idmap_node *n;

    mutex_lock(&q->m->lock);
    n = idmap_find(&q->m->tenants, q->who->tenant);
    if (n)
        gather(q, container_of(n, struct tenant, node)->newest);
    mutex_unlock(&q->m->lock);
    if (q->other_count)
        qsort(q->others, q->other_count, sizeof(struct session *),
              q->filter->oldest_first ? oldest_first : newest_first);
}

/* ---- both --------------------------------------------------------------- */

/* The row's turn, or the other's? */
static bool row_is_next(struct query *q)
{
    int64_t row, other;

    if (!q->row || q->other_at == q->other_count)
        return q->row;
    row = session_rows_created(&q->rows);
    other = q->others[q->other_at]->created_at_ms;
    return q->filter->oldest_first ? row < other : row > other;
}

static void show_row(struct query *q, struct session_info *ret)
{
    struct session *se = session_rows_take(&q->rows);
    struct session *better;

    mutex_lock(&q->m->lock);
    better = session_at_hand(q->m, q->who->tenant, se->id);
    mutex_unlock(&q->m->lock);
    session_fill_info(better ? better : se, ret);
    session_unref(better);
    session_unref(se);
}

/* The rows are of those within its other bounds already; in which pool one
 * whose own is gone is now, the row does not know. */
static bool row_within(struct query *q)
{
    struct session *se;
    bool within;

    if (!actor_bound(q->who, ACTOR_POOLS)[0])
        return true;
    se = session_rows_take(&q->rows);
    within = session_visible(se, q->who);
    session_unref(se);
    return within;
}

static int step_rows(struct query *q, struct error *err)
{
    int rc;

    do
        rc = session_rows_next(&q->rows, err);
    while (rc > 0 && !row_within(q));
    q->row = rc > 0;
    return MIN(rc, 0);
}

static int merge(struct query *q, struct error *err)
{
    int rc = step_rows(q, err);

    while (rc == 0 && (q->row || q->other_at < q->other_count)) {
        bool row = row_is_next(q);

        if (q->skip) {
            q->skip--;
        } else if (q->count == q->filter->limit) {
            q->more = true;
            return 0;
        } else if (row) {
            show_row(q, &q->items[q->count++]);
        } else {
            session_fill_info(q->others[q->other_at], &q->items[q->count++]);
        }
        if (row)
            rc = step_rows(q, err);
        else
            q->other_at++;
    }
    return rc;
}

/* Where to go on. */
static int place(struct query *q, struct error *err)
{
    const struct session_filter *f = q->filter;
    struct session *se;

    q->than_ms = f->oldest_first ? INT64_MIN : INT64_MAX;
    if (!f->after)
        return 0;
    se = session_find(q->m, q->who, f->after, err);
    if (se) {
        q->than_ms = se->created_at_ms;
        session_unref(se);
        return 0;
    }
    if (err->code != ERR_NOT_FOUND)
        return -(int)err->code;
    (void)error_set(err, ERR_INVALID, "after names no session");
    return error_hint(err, "start again without it");
}

static int query(struct query *q, struct error *err)
{
    int rc = 0;

    if (q->filter->limit == 0 || q->filter->limit > LIST_MAX)
        rc = error_set(err, ERR_INVALID, "limit must be from 1 to %u",
                       LIST_MAX);
    if (rc == 0)
        rc = place(q, err);
    if (rc < 0)
        return rc;
    q->items = xcalloc(q->filter->limit, sizeof(*q->items));
    gather_others(q);
    rc =
        session_rows_begin(&q->rows, q->m, q->who, q->filter, q->than_ms, err);
    return rc < 0 ? rc : merge(q, err);
}

int session_query(struct sessions *s, const struct actor *who,
                  const struct session_filter *filter,
                  struct session_info **ret, size_t *ret_count, bool *ret_more,
                  struct error *err)
{
    struct query q = {
        .m = s, .who = who, .filter = filter, .skip = filter->skip};
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    rc = query(&q, err);
    if (rc == 0) {
        *ret = take_ptr(q.items);
        *ret_count = q.count;
        *ret_more = q.more;
        q.count = 0;
    }
    query_done(&q);
    session_leave(s);
    return rc;
}

int session_list(struct sessions *s, const struct actor *who, unsigned limit,
                 const char *after, struct session_info **ret,
                 size_t *ret_count, bool *ret_more, struct error *err)
{
    struct session_filter filter = {.after = after, .limit = limit};

    return session_query(s, who, &filter, ret, ret_count, ret_more, err);
}
