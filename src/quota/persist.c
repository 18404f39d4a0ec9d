/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistence of quotas: the limits an operator set for single tenants,
 * written when they are set, and the use within time windows, written every
 * few seconds by a thread and at the stop. A crash loses the use of the last
 * few seconds, never more. Runs in gloveboxd.
 */
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "quota/quota_int.h"
#include "store/store.h"

/* ---- at the start ------------------------------------------------------- */

static int load_limits(struct quotas *q, struct store_tx *tx,
                       struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_query(tx, &rows, err,
                        "SELECT tenant, name, most FROM quotas", "");

    while (r >= 0 && (r = store_next(rows, err)) > 0) {
        enum quota_kind kind = quota_find(store_text(rows, 1));
        struct quota_tenant *t = quota_tenant(q, store_text(rows, 0));

        if (!t)
            return error_set(err, ERR_INTERNAL,
                             "more than %u tenants have limits of their own",
                             QUOTA_TENANTS_MAX);
        if (kind == QUOTA_KINDS)
            continue; /* of a version that knew more */
        t->own[kind] = true;
        t->most[kind] = (uint64_t)store_int(rows, 2);
    }
    return r;
}

static int load_use(struct quotas *q, struct store_tx *tx, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r =
        store_query(tx, &rows, err,
                    "SELECT tenant, name, used, since_ms FROM quota_use", "");

    while (r >= 0 && (r = store_next(rows, err)) > 0) {
        enum quota_kind kind = quota_find(store_text(rows, 1));
        struct quota_tenant *t = NULL;

        if (kind != QUOTA_KINDS && quota_defs[kind].sort == SORT_WINDOW)
            t = quota_tenant(q, store_text(rows, 0));
        if (!t)
            continue;
        t->used[kind] = (uint64_t)store_int(rows, 2);
        t->since_ms[kind] = store_int(rows, 3);
        quota_window(q, t, kind); /* one that is over is taken out below */
    }
    return r;
}

int quota_persist_load(struct quotas *q, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r;

    if (!q->store)
        return 0;
    r = store_begin(q->store, STORE_READ, "reading quotas", &tx, err);
    if (r == 0)
        r = load_limits(q, tx, err);
    if (r == 0)
        r = load_use(q, tx, err);
    return r;
}

/* ---- while it runs ------------------------------------------------------ */

struct row {
    char *tenant; /* owned */
    enum quota_kind kind;
    uint64_t used;
    int64_t since_ms;
};

static void note_dirty(struct quota_tenant *t, struct buf *rows)
{
    for (int k = 0; k < QUOTA_KINDS; k++)
        if (t->dirty[k]) {
            struct row row = {.tenant = xstrdup(t->name),
                              .kind = (enum quota_kind)k,
                              .used = t->used[k],
                              .since_ms = t->since_ms[k]};

            buf_add(rows, &row, sizeof(row));
            t->dirty[k] = false;
        }
}

static int write_row(struct store_tx *tx, const struct row *row,
                     struct error *err)
{
    if (!row->used)
        return store_exec(tx, err,
                          "DELETE FROM quota_use WHERE tenant = ?1"
                          " AND name = ?2",
                          "tt", row->tenant, quota_name(row->kind));
    return store_exec(tx, err,
                      "INSERT INTO quota_use (tenant, name, used, since_ms)"
                      " VALUES (?1, ?2, ?3, ?4) ON CONFLICT (tenant, name)"
                      " DO UPDATE SET used = excluded.used,"
                      " since_ms = excluded.since_ms",
                      "ttii", row->tenant, quota_name(row->kind),
                      (int64_t)row->used, row->since_ms);
}

static int write_rows(struct quotas *q, const struct row *rows, size_t count,
                      struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r =
        store_begin(q->store, STORE_WRITE, "keeping what was used", &tx, err);

    for (size_t i = 0; r >= 0 && i < count; i++)
        r = write_row(tx, &rows[i], err);
    return r < 0 ? r : store_commit(&tx, err);
}

/* What could not be written is tried again with the next. */
static void mark_again(struct quotas *q, const struct row *rows, size_t count)
{
    mutex_lock(&q->lock);
    for (size_t i = 0; i < count; i++) {
        struct quota_tenant *t = quota_tenant_find(q, rows[i].tenant);

        if (t)
            t->dirty[rows[i].kind] = true;
    }
    mutex_unlock(&q->lock);
}

void quota_persist_save(struct quotas *q)
{
    struct buf all cleanup(buf_done) = {0};
    struct row *rows;
    struct error err;
    size_t count;

    if (!q->store)
        return;
    mutex_lock(&q->save_lock);
    mutex_lock(&q->lock);
    for (size_t i = 0; i < QUOTA_BUCKETS; i++)
        for (struct quota_tenant *t = q->tenants[i]; t; t = t->next)
            note_dirty(t, &all);
    mutex_unlock(&q->lock);
    rows = (struct row *)(void *)all.data;
    count = all.len / sizeof(*rows);
    if (count && write_rows(q, rows, count, &err) < 0) {
        log_event(LOG_WARN, "quota_use_not_kept", "error", err.message, NULL);
        mark_again(q, rows, count);
    }
    mutex_unlock(&q->save_lock);
    for (size_t i = 0; i < count; i++)
        free(rows[i].tenant);
}

static void quota_saver_main(void *arg)
{
    struct quotas *q = arg;

    while (worker_wait(&q->saver, QUOTA_SAVE_MS))
        quota_persist_save(q);
}

int quota_persist_start(struct quotas *q, struct error *err)
{
    if (!q->store)
        return 0;
    return worker_start(&q->saver, "quota-saver", quota_saver_main, q, err);
}

void quota_persist_stop(struct quotas *q)
{
    if (!q->saver.thread.started)
        return;
    worker_stop(&q->saver);
    quota_persist_save(q);
}

/* ---- an operator's word ------------------------------------------------- */

static int check_values(const uint64_t *const values[QUOTA_KINDS],
                        struct error *err)
{
    for (int k = 0; k < QUOTA_KINDS; k++)
        if (values[k] && *values[k] != UINT64_MAX &&
            *values[k] > QUOTA_VALUE_MAX)
            return error_set(err, ERR_INVALID,
                             "%s must be from 0 to %llu, 0 being no limit",
                             quota_defs[k].name, QUOTA_VALUE_MAX);
    return 0;
}

static int store_value(struct quotas *q, struct store_tx *tx,
                       const struct actor *who, const char *tenant,
                       enum quota_kind kind, uint64_t value, struct error *err)
{
    char text[24];
    struct audit_event event = {.action = "quota.set",
                                .object = tenant,
                                .detail = quota_name(kind),
                                .after = text};
    int r;

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    if (value == UINT64_MAX) {
        (void)snprintf(text, sizeof(text), "default");
        r = store_exec(tx, err,
                       "DELETE FROM quotas WHERE tenant = ?1 AND name = ?2",
                       "tt", tenant, quota_name(kind));
    } else {
        r = store_exec(tx, err,
                       "INSERT INTO quotas (tenant, name, most)"
                       " VALUES (?1, ?2, ?3) ON CONFLICT (tenant, name)"
                       " DO UPDATE SET most = excluded.most",
                       "tti", tenant, quota_name(kind), (int64_t)value);
    }
    return r < 0 ? r : audit_add(q->audit, tx, who, &event, err);
}

static int store_values(struct quotas *q, const struct actor *who,
                        const char *tenant,
                        const uint64_t *const values[QUOTA_KINDS],
                        struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(q->store, STORE_WRITE, "setting a quota", &tx, err);

    for (int k = 0; r >= 0 && k < QUOTA_KINDS; k++)
        if (values[k])
            r = store_value(q, tx, who, tenant, (enum quota_kind)k, *values[k],
                            err);
    return r < 0 ? r : store_commit(&tx, err);
}

/* False: there are too many tenants. */
static bool enforce(struct quotas *q, const char *tenant,
                    const uint64_t *const values[QUOTA_KINDS])
{
    struct quota_tenant *t;

    mutex_lock(&q->lock);
    t = quota_tenant(q, tenant);
    for (int k = 0; t && values && k < QUOTA_KINDS; k++)
        if (values[k]) {
            t->own[k] = *values[k] != UINT64_MAX;
            t->most[k] = t->own[k] ? *values[k] : 0;
        }
    mutex_unlock(&q->lock);
    return t != NULL;
}

int quota_set(struct quotas *q, const struct actor *who, const char *tenant,
              const uint64_t *const values[QUOTA_KINDS], struct error *err)
{
    int r = check_values(values, err);

    if (r < 0)
        return r;
    mutex_lock(&q->set_lock);
    if (!enforce(q, tenant, NULL))
        r = error_set(err, ERR_BUSY, "too many tenants are active");
    if (r == 0 && q->store)
        r = store_values(q, who, tenant, values, err);
    if (r == 0 && !enforce(q, tenant, values))
        r = error_set(err, ERR_BUSY, "too many tenants are active");
    mutex_unlock(&q->set_lock);
    return r;
}
