/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistence of quotas: the limits an operator set for single tenants,
 * written when they are set, and the use within time windows, written every
 * few seconds by a thread and at the stop. A crash loses the use of the last
 * few seconds, never more. Runs in gloveboxd.
 *
 * Daemons that share a store each add what they have spent since their last
 * write, and then read the sums: a daemon knows the spending of the others
 * QUOTA_SHARE_MS late, plus the time of a transaction. What is held at once
 * (SORT_HELD) and rates (SORT_BUCKET) are counted by each daemon for itself.
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

/* ---- loading ------------------------------------------------------- */

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
            continue; /* written by a newer version */
        t->own[kind] = true;
        t->most[kind] = (uint64_t)store_int(rows, 2);
    }
    return r;
}

struct row {
    char *tenant; /* owned */
    enum quota_kind kind;
    uint64_t used;
    uint64_t added; /* since the last write */
    int64_t since_ms;
};

static void rows_done(struct buf *rows)
{
    struct row *row = (struct row *)(void *)rows->data;

    for (size_t i = 0; i < rows->len / sizeof(*row); i++)
        free(row[i].tenant);
    buf_done(rows);
}

static int read_use(struct store_tx *tx, struct buf *ret, struct error *err)
{
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r =
        store_query(tx, &rows, err,
                    "SELECT tenant, name, used, since_ms FROM quota_use", "");

    while (r >= 0 && (r = store_next(rows, err)) > 0) {
        struct row row = {.kind = quota_find(store_text(rows, 1)),
                          .used = (uint64_t)store_int(rows, 2),
                          .since_ms = store_int(rows, 3)};

        if (row.kind == QUOTA_KINDS ||
            quota_defs[row.kind].sort != SORT_WINDOW)
            continue;
        row.tenant = xstrdup(store_text(rows, 0));
        buf_add(ret, &row, sizeof(row));
    }
    return r;
}

/* Needs the lock. What was spent since the last write is not in the rows yet.
 */
static void apply_use(struct quotas *q, const struct buf *rows)
{
    const struct row *row = (const void *)rows->data;

    for (size_t i = 0; i < rows->len / sizeof(*row); i++) {
        enum quota_kind kind = row[i].kind;
        struct quota_tenant *t = quota_tenant(q, row[i].tenant);

        if (!t)
            continue;
        t->used[kind] =
            row[i].used + t->used[kind] - MIN(t->saved[kind], t->used[kind]);
        t->saved[kind] = row[i].used;
        t->since_ms[kind] = row[i].since_ms;
        quota_window(q, t, kind); /* the next save deletes one that is over */
    }
}

static int load_use(struct quotas *q, struct store_tx *tx, struct error *err)
{
    struct buf rows cleanup(rows_done) = {0};
    int r = read_use(tx, &rows, err);

    if (r == 0)
        apply_use(q, &rows);
    return r;
}

/* Reads what all daemons have spent. A failure leaves the sums as they were,
 * until the next time. */
static void refresh_use(struct quotas *q)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct buf rows cleanup(rows_done) = {0};
    struct error err;

    if (store_begin(q->store, STORE_READ, "reading the use of quotas", &tx,
                    &err) < 0 ||
        read_use(tx, &rows, &err) < 0) {
        log_event(LOG_WARN, "quota_use_not_read", "error", err.message, NULL);
        return;
    }
    mutex_lock(&q->lock);
    apply_use(q, &rows);
    mutex_unlock(&q->lock);
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
    if (r == 0)
        r = quota_history_load(q, tx, err);
    return r;
}

/* ---- saving ------------------------------------------------------ */

/* A sum of several daemons: what this one has added to a window that is not
 * over, or the begin of a new window. */
static int add_row(struct quotas *q, struct store_tx *tx,
                   const struct row *row, struct error *err)
{
    int64_t over_ms = q->real_ms() - quota_defs[row->kind].window_ms;

    if (!row->added)
        return store_exec(tx, err,
                          "DELETE FROM quota_use WHERE tenant = ?1"
                          " AND name = ?2 AND since_ms <= ?3",
                          "tti", row->tenant, quota_name(row->kind), over_ms);
    return store_exec(
        tx, err,
        "INSERT INTO quota_use (tenant, name, used, since_ms)"
        " VALUES (?1, ?2, ?3, ?4) ON CONFLICT (tenant, name) DO UPDATE SET"
        " used = excluded.used + CASE WHEN quota_use.since_ms > ?5"
        " THEN quota_use.used ELSE 0 END,"
        " since_ms = CASE WHEN quota_use.since_ms > ?5"
        " THEN quota_use.since_ms ELSE excluded.since_ms END",
        "ttiii", row->tenant, quota_name(row->kind), (int64_t)row->added,
        row->since_ms, over_ms);
}

static int write_rows(struct quotas *q, const struct row *rows, size_t count,
                      const struct buf *hours, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int64_t due = quota_history_due(q);
    int r = store_begin(q->store, STORE_WRITE, "saving the use of quotas", &tx,
                        err);

    for (size_t i = 0; r >= 0 && i < count; i++)
        if (store_shared(q->store))
            r = add_row(q, tx, &rows[i], err);
        else if (rows[i].used)
            r = store_exec(
                tx, err,
                "INSERT INTO quota_use (tenant, name, used, since_ms)"
                " VALUES (?1, ?2, ?3, ?4) ON CONFLICT (tenant, name)"
                " DO UPDATE SET used = excluded.used,"
                " since_ms = excluded.since_ms",
                "ttii", rows[i].tenant, quota_name(rows[i].kind),
                (int64_t)rows[i].used, rows[i].since_ms);
        else
            r = store_exec(tx, err,
                           "DELETE FROM quota_use WHERE tenant = ?1"
                           " AND name = ?2",
                           "tt", rows[i].tenant, quota_name(rows[i].kind));
    if (r >= 0)
        r = quota_history_write(q, tx, due, hours, err);
    if (r >= 0)
        r = store_commit(&tx, err);
    if (r >= 0 && due)
        q->sampled_ms = due;
    return r;
}

/* Moves the dirty counts of a tenant to `rows`. */
static void collect_dirty(struct quota_tenant *t, struct buf *rows)
{
    for (int k = 0; k < QUOTA_KINDS; k++)
        if (t->dirty[k]) {
            struct row row = {.tenant = xstrdup(t->name),
                              .kind = (enum quota_kind)k,
                              .used = t->used[k],
                              .added =
                                  t->used[k] - MIN(t->saved[k], t->used[k]),
                              .since_ms = t->since_ms[k]};

            buf_add(rows, &row, sizeof(row));
            t->dirty[k] = false;
            t->saved[k] = t->used[k];
        }
}

void quota_persist_save(struct quotas *q)
{
    struct buf all cleanup(buf_done) = {0}, hours cleanup(buf_done) = {0};
    struct row *rows;
    struct error err;
    size_t count;

    if (!q->store)
        return;
    mutex_lock(&q->save_lock);
    mutex_lock(&q->lock);
    for (size_t i = 0; i < QUOTA_BUCKETS; i++)
        for (struct quota_tenant *t = q->tenants[i]; t; t = t->next) {
            collect_dirty(t, &all);
            quota_history_collect(t, &hours);
        }
    mutex_unlock(&q->lock);
    rows = (struct row *)(void *)all.data;
    count = all.len / sizeof(*rows);
    if ((count || hours.len || quota_history_due(q)) &&
        write_rows(q, rows, count, &hours, &err) < 0) {
        log_event(LOG_WARN, "quota_use_not_kept", "error", err.message, NULL);
        mutex_lock(&q->lock); /* the next save tries again */
        for (size_t i = 0; i < count; i++) {
            struct quota_tenant *t = quota_tenant_find(q, rows[i].tenant);

            if (t) {
                t->dirty[rows[i].kind] = true;
                t->saved[rows[i].kind] -=
                    MIN(rows[i].added, t->saved[rows[i].kind]);
            }
        }
        mutex_unlock(&q->lock);
        quota_history_retry(q, &hours);
    }
    mutex_unlock(&q->save_lock);
    for (size_t i = 0; i < count; i++)
        free(rows[i].tenant);
    quota_history_free(&hours);
}

static void quota_saver_main(void *arg)
{
    struct quotas *q = arg;

    bool shared = store_shared(q->store);

    while (worker_wait(&q->saver, shared ? QUOTA_SHARE_MS : QUOTA_SAVE_MS)) {
        quota_persist_save(q);
        if (shared)
            refresh_use(q);
    }
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

/* ---- limits that an operator sets
 * ------------------------------------------------- */

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

/* Puts the values into force; values NULL: only makes room for the tenant.
 * False: there are too many tenants. */
static bool set_limits(struct quotas *q, const char *tenant,
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
    int r = 0;

    for (int k = 0; k < QUOTA_KINDS; k++)
        if (values[k] && *values[k] != UINT64_MAX &&
            *values[k] > QUOTA_VALUE_MAX)
            return error_set(err, ERR_INVALID,
                             "%s must be from 0 to %llu, 0 being no limit",
                             quota_defs[k].name, QUOTA_VALUE_MAX);
    mutex_lock(&q->set_lock);
    if (!set_limits(q, tenant, NULL))
        r = error_set(err, ERR_BUSY, "too many tenants are active");
    if (r == 0 && q->store) {
        struct store_tx *tx cleanup(store_rollback) = NULL;

        r = store_begin(q->store, STORE_WRITE, "setting a quota", &tx, err);
        for (int k = 0; r >= 0 && k < QUOTA_KINDS; k++)
            if (values[k])
                r = store_value(q, tx, who, tenant, (enum quota_kind)k,
                                *values[k], err);
        if (r >= 0)
            r = store_notify(tx, QUOTA_CHANNEL, "", err);
        if (r >= 0)
            r = store_commit(&tx, err);
    }
    if (r == 0 && !set_limits(q, tenant, values))
        r = error_set(err, ERR_BUSY, "too many tenants are active");
    mutex_unlock(&q->set_lock);
    return r;
}

struct limit {
    char *tenant; /* owned */
    enum quota_kind kind;
    uint64_t most;
};

static int read_limits(struct quotas *q, struct limit **ret, size_t *ret_count,
                       struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int r = store_begin(q->store, STORE_READ, "reading quotas", &tx, err);

    if (r == 0)
        r = store_query(tx, &rows, err,
                        "SELECT tenant, name, most FROM quotas", "");
    while (r >= 0 && (r = store_next(rows, err)) > 0) {
        enum quota_kind kind = quota_find(store_text(rows, 1));

        if (kind == QUOTA_KINDS)
            continue; /* written by a newer version */
        *ret = xrealloc(*ret, (*ret_count + 1) * sizeof(**ret));
        (*ret)[(*ret_count)++] =
            (struct limit){.tenant = xstrdup(store_text(rows, 0)),
                           .kind = kind,
                           .most = (uint64_t)store_int(rows, 2)};
    }
    return r;
}

int quotas_reload(struct quotas *q, struct error *err)
{
    struct limit *limits = NULL;
    size_t count = 0;
    int r;

    mutex_lock(&q->set_lock);
    r = read_limits(q, &limits, &count, err);
    mutex_lock(&q->lock);
    for (size_t i = 0; r == 0 && i < QUOTA_BUCKETS; i++)
        for (struct quota_tenant *t = q->tenants[i]; t; t = t->next)
            memset(t->own, 0, sizeof(t->own));
    for (size_t i = 0; i < count; i++) {
        struct quota_tenant *t =
            r == 0 ? quota_tenant(q, limits[i].tenant) : NULL;

        if (t) {
            t->own[limits[i].kind] = true;
            t->most[limits[i].kind] = limits[i].most;
        }
        free(limits[i].tenant);
    }
    mutex_unlock(&q->lock);
    mutex_unlock(&q->set_lock);
    free(limits);
    return r;
}
