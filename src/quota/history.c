/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tenants used, by the hour, for charts: sums of what they spent and the
 * most that they held at once. Counted in memory with the quotas, written by
 * the saver thread every few seconds. The storage of every tenant is written
 * once an hour, so that its line has no gaps. Runs in gloveboxd.
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "quota/quota_int.h"
#include "store/store.h"

#define HOUR_MS 3600000ll

struct hour_row {
    char *tenant; /* owned */
    struct quota_hour hour;
};

/* Is the kind counted by the hour? */
static bool is_counted(int kind)
{
    return quota_defs[kind].sort == SORT_HELD ||
           quota_defs[kind].sort == SORT_WINDOW;
}

static int64_t this_hour(const struct quotas *q)
{
    return q->real_ms() / HOUR_MS * HOUR_MS;
}

void quota_history_add(const struct quotas *q, struct quota_tenant *t,
                       enum quota_kind kind, uint64_t amount)
{
    int64_t at = this_hour(q);
    size_t slot = (size_t)(at / HOUR_MS % 2);
    struct quota_hour *hour = &t->hours[slot];
    uint64_t *used = &hour->used[kind];

    if (!is_counted(kind) || !amount)
        return;
    if (hour->at_ms != at)
        *hour = (struct quota_hour){.at_ms = at};
    if (quota_defs[kind].sort == SORT_HELD)
        *used = MAX(*used, t->used[kind]);
    else
        *used = MIN(*used + amount, UINT64_MAX / 2);
    t->hour_dirty[slot] = true;
}

void quota_history_collect(struct quota_tenant *t, struct buf *hours)
{
    for (size_t slot = 0; slot < ARRAY_SIZE(t->hours); slot++)
        if (t->hour_dirty[slot]) {
            struct hour_row row = {xstrdup(t->name), t->hours[slot]};

            buf_add(hours, &row, sizeof(row));
            t->hour_dirty[slot] = false;
        }
}

/* Storage is counted by workspaces alone: it is looked up. tenant: "" for all.
 */
static int sample_storage(struct store_tx *tx, const char *tenant, int64_t at,
                          struct error *err)
{
    return store_exec(tx, err,
                      "INSERT INTO usage_hours (tenant, hour_ms, name, value)"
                      " SELECT w.tenant, ?2, ?3, sum(w.stored_bytes)"
                      "  + (SELECT coalesce(sum(i.bytes), 0) FROM images AS i"
                      "     WHERE i.tenant = w.tenant)"
                      " FROM workspaces AS w WHERE ?1 = '' OR w.tenant = ?1"
                      " GROUP BY w.tenant"
                      " ON CONFLICT (tenant, hour_ms, name)"
                      " DO UPDATE SET value = excluded.value",
                      "tit", tenant, at, quota_defs[QUOTA_STORAGE].name);
}

int64_t quota_history_due(const struct quotas *q)
{
    int64_t at = this_hour(q);

    mutex_assert_held(&q->save_lock);
    return q->sampled_ms == at ? 0 : at;
}

int quota_history_write(struct quotas *q, struct store_tx *tx, int64_t due,
                        const struct buf *hours, struct error *err)
{
    const struct hour_row *rows = (const void *)hours->data;
    size_t count = hours->len / sizeof(*rows);
    int r = due ? sample_storage(tx, "", due, err) : 0;

    for (size_t i = 0; r >= 0 && i < count; i++) {
        r = sample_storage(tx, rows[i].tenant, rows[i].hour.at_ms, err);
        for (int k = 0; r >= 0 && k < QUOTA_KINDS; k++)
            if (rows[i].hour.used[k] && k != QUOTA_STORAGE)
                r = store_exec(
                    tx, err,
                    "INSERT INTO usage_hours (tenant, hour_ms, name, value)"
                    " VALUES (?1, ?2, ?3, ?4)"
                    " ON CONFLICT (tenant, hour_ms, name)"
                    " DO UPDATE SET value = excluded.value",
                    "titi", rows[i].tenant, rows[i].hour.at_ms,
                    quota_defs[k].name, (int64_t)rows[i].hour.used[k]);
    }
    if (r >= 0 && count)
        r = store_exec(tx, err, "DELETE FROM usage_hours WHERE hour_ms < ?1",
                       "i",
                       this_hour(q) - (int64_t)QUOTA_HISTORY_HOURS * HOUR_MS);
    return MIN(r, 0);
}

void quota_history_retry(struct quotas *q, struct buf *hours)
{
    const struct hour_row *rows = (const void *)hours->data;

    mutex_lock(&q->lock);
    for (size_t i = 0; i < hours->len / sizeof(*rows); i++) {
        struct quota_tenant *t = quota_tenant_find(q, rows[i].tenant);
        size_t slot = (size_t)(rows[i].hour.at_ms / HOUR_MS % 2);

        if (t && t->hours[slot].at_ms == rows[i].hour.at_ms)
            t->hour_dirty[slot] = true;
    }
    mutex_unlock(&q->lock);
}

void quota_history_free(struct buf *hours)
{
    struct hour_row *rows = (void *)hours->data;

    for (size_t i = 0; i < hours->len / sizeof(*rows); i++)
        free(rows[i].tenant);
}

int quota_history_load(struct quotas *q, struct store_tx *tx,
                       struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_query(tx, &rows, err,
                        "SELECT tenant, name, value, hour_ms FROM usage_hours"
                        " WHERE hour_ms ="
                        " (SELECT max(hour_ms) FROM usage_hours)",
                        "");

    while (r >= 0 && (r = store_next(rows, err)) > 0) {
        enum quota_kind kind = quota_find(store_text(rows, 1));
        struct quota_tenant *t =
            kind == QUOTA_KINDS ? NULL : quota_tenant(q, store_text(rows, 0));
        int64_t at = store_int(rows, 3);
        struct quota_hour *hour = t ? &t->hours[at / HOUR_MS % 2] : NULL;

        if (!hour)
            continue;
        hour->at_ms = at;
        hour->used[kind] = (uint64_t)store_int(rows, 2);
    }
    return r;
}

/* As of now: a tenant that only uploads spends nothing else. */
static int sample_now(struct quotas *q, const char *tenant, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(q->store, STORE_WRITE, "saving the use of storage",
                        &tx, err);

    if (r == 0)
        r = sample_storage(tx, tenant, this_hour(q), err);
    return r < 0 ? r : store_commit(&tx, err);
}

int quota_history(struct quotas *q, const char *tenant, int64_t from_ms,
                  struct quota_hour **ret, size_t *ret_count,
                  struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    struct quota_hour *hours cleanup(mem_free) = NULL;
    size_t count = 0, room = 0;
    int r;

    quota_persist_save(q); /* the current hour too */
    /* A store that cannot be written still has the earlier sample. */
    (void)sample_now(q, tenant, err);
    r = store_begin(q->store, STORE_READ, "reading usage", &tx, err);
    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT hour_ms, name, value FROM usage_hours"
                        " WHERE tenant = ?1 AND hour_ms >= ?2"
                        " ORDER BY hour_ms",
                        "ti", tenant, from_ms / HOUR_MS * HOUR_MS);
    while (r >= 0 && (r = store_next(rows, err)) > 0) {
        int64_t at = store_int(rows, 0);
        enum quota_kind kind = quota_find(store_text(rows, 1));

        if (kind == QUOTA_KINDS)
            continue; /* written by a newer version */
        if (!count || hours[count - 1].at_ms != at) {
            if (count > QUOTA_HISTORY_HOURS)
                break;
            if (count == room) {
                room = room ? 2 * room : 32;
                hours = xrealloc(hours, room * sizeof(*hours));
            }
            hours[count++] = (struct quota_hour){.at_ms = at};
        }
        hours[count - 1].used[kind] = (uint64_t)store_int(rows, 2);
    }
    if (r < 0)
        return r;
    *ret = take_ptr(hours);
    *ret_count = count;
    return 0;
}
