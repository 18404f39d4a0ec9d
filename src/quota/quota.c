/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of quotas, and taking, giving back, spending and reading them.
 * Runs in gloveboxd, on any thread; the lock is held for a few memory accesses
 * and never during I/O of the store. What a tenant holds is exact; what it
 * spends in a window is written by persist.c a few seconds later.
 */
#include "quota/quota.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/siphash.h"
#include "base/thread.h"
#include "quota/quota_int.h"

/* ---- kinds -------------------------------------------------------------- */

#define HOUR_MS 3600000
#define DAY_MS 86400000

#define LESS_SESSIONS                                                         \
    "delete sessions that are no longer needed, or try again later"
#define LATER "try again once the time is over, or ask for more"

const struct quota_def quota_defs[QUOTA_KINDS] = {
    [QUOTA_SESSIONS] = {"live_sessions", SORT_HELD, 0, 5,
                        "%llu sessions are awake already, which is the most",
                        LESS_SESSIONS},
    [QUOTA_EXECUTIONS] = {"executions", SORT_HELD, 0, 1,
                          "%llu executions of this tenant are running or "
                          "waiting, which is the most",
                          "wait for one to finish"},
    [QUOTA_MEMORY] = {"memory_bytes", SORT_HELD, 0, 5,
                      "live sessions of this tenant may have %llu bytes of "
                      "memory together, and this one does not fit",
                      "ask for less memory, or delete sessions that are no "
                      "longer needed"},
    [QUOTA_CREATIONS] = {"creations_per_s", SORT_BUCKET, 0, 1,
                         "more than %llu sessions a second were created",
                         LESS_SESSIONS},
    [QUOTA_RUNS_PER_HOUR] = {"executions_per_hour", SORT_WINDOW, HOUR_MS, 1,
                             "%llu executions were run within an hour, which "
                             "is the most",
                             LATER},
    [QUOTA_CPU] = {"cpu_s_per_hour", SORT_WINDOW, HOUR_MS, 1,
                   "%llu seconds of processor time were used within an hour, "
                   "which is the most",
                   LATER},
    [QUOTA_EGRESS] = {"egress_bytes_per_day", SORT_WINDOW, DAY_MS, 1,
                      "%llu bytes were sent and received within a day, which "
                      "is the most",
                      LATER},
    [QUOTA_OUTPUT] = {"output_tokens_per_hour", SORT_WINDOW, HOUR_MS, 1,
                      "%llu tokens of output were written within an hour, "
                      "which is the most",
                      "print less, or try again once the time is over"},
    [QUOTA_MODEL_TOKENS] = {"model_tokens_per_day", SORT_WINDOW, DAY_MS, 1,
                            "%llu tokens of language models were used within "
                            "a day, which is the most",
                            LATER},
    [QUOTA_MODEL_COST] = {"model_microcents_per_day", SORT_WINDOW, DAY_MS, 1,
                          "%llu millionths of a cent were spent on language "
                          "models within a day, which is the most",
                          LATER},
    [QUOTA_KEY_TOKENS] = {"key_model_tokens_per_day", SORT_WINDOW, DAY_MS, 1,
                          "this key used %llu tokens of language models "
                          "within a day, which is the most",
                          LATER},
    [QUOTA_KEY_COST] = {"key_model_microcents_per_day", SORT_WINDOW, DAY_MS, 1,
                        "this key spent %llu millionths of a cent on language "
                        "models within a day, which is the most",
                        LATER},
    [QUOTA_STORAGE] = {"storage_bytes", SORT_LIMIT, 0, 0,
                       "%llu bytes are stored, which is the most",
                       "delete files or workspaces that are no longer "
                       "needed"},
};

enum quota_kind quota_find(const char *name)
{
    enum quota_kind kind = 0;

    while (kind < QUOTA_KINDS && strcmp(quota_defs[kind].name, name) != 0)
        kind++;
    return kind;
}

char *quota_key_name(const char *key, char ret[QUOTA_KEY_NAME])
{
    (void)snprintf(ret, QUOTA_KEY_NAME, QUOTA_KEY_PREFIX "%s", key);
    return ret;
}

const char *quota_name(enum quota_kind kind)
{
    return kind < QUOTA_KINDS ? quota_defs[kind].name : QUOTA_LOOP_NAME;
}

/* ---- tenants ------------------------------------------------------------ */

struct quota_tenant *quota_tenant_find(struct quotas *q, const char *name)
{
    struct quota_tenant *t = q->tenants[siphash_text(name) % QUOTA_BUCKETS];

    while (t && strcmp(t->name, name) != 0)
        t = t->next;
    return t;
}

void quota_window(const struct quotas *q, struct quota_tenant *t,
                  enum quota_kind kind)
{
    int64_t now = q->real_ms();

    if (quota_defs[kind].sort != SORT_WINDOW || t->since_ms[kind] == 0)
        return;
    if (now < t->since_ms[kind]) { /* the clock was set back */
        t->since_ms[kind] = now;
        t->dirty[kind] = true;
    } else if (now - t->since_ms[kind] >= quota_defs[kind].window_ms) {
        t->used[kind] = t->saved[kind] = 0;
        t->since_ms[kind] = 0;
        t->dirty[kind] = true;
    }
}

/* True: removing the tenant from memory loses nothing. */
static bool tenant_is_idle(const struct quotas *q, struct quota_tenant *t)
{
    for (int k = 0; k < QUOTA_KINDS; k++) {
        quota_window(q, t, (enum quota_kind)k);
        if (t->own[k] || t->used[k] || t->dirty[k])
            return false;
    }
    if (t->hour_dirty[0] || t->hour_dirty[1])
        return false;
    return q->mono_ms() - t->tokens_at_ms > QUOTA_BURST_S * 1000u;
}

static void tenant_free(struct quota_tenant *t)
{
    free(t->name);
    free(t);
}

static void remove_idle_tenants(struct quotas *q)
{
    for (size_t i = 0; i < QUOTA_BUCKETS; i++)
        for (struct quota_tenant **at = &q->tenants[i]; *at;) {
            struct quota_tenant *t = *at;

            if (!tenant_is_idle(q, t)) {
                at = &t->next;
                continue;
            }
            *at = t->next;
            tenant_free(t);
            q->tenant_count--;
        }
}

struct quota_tenant *quota_tenant(struct quotas *q, const char *name)
{
    struct quota_tenant *t = quota_tenant_find(q, name), **head;

    if (t)
        return t;
    if (q->tenant_count >= QUOTA_TENANTS_MAX)
        remove_idle_tenants(q);
    if (q->tenant_count >= QUOTA_TENANTS_MAX)
        return NULL;
    t = xcalloc(1, sizeof(*t));
    t->name = xstrdup(name);
    t->tokens = UINT64_MAX; /* cut to a full bucket when looked at */
    t->tokens_at_ms = q->mono_ms();
    head = &q->tenants[siphash_text(name) % QUOTA_BUCKETS];
    t->next = *head;
    *head = t;
    q->tenant_count++;
    return t;
}

uint64_t quota_limit(const struct quotas *q, const struct quota_tenant *t,
                     enum quota_kind kind)
{
    return t && t->own[kind] ? t->most[kind] : q->defaults.most[kind];
}

/* ---- refusals ---------------------------------------------------------- */

static int64_t window_end(const struct quota_tenant *t, enum quota_kind kind)
{
    return t->since_ms[kind] ? t->since_ms[kind] + quota_defs[kind].window_ms
                             : 0;
}

static int refuse_full(struct quotas *q, const struct quota_tenant *t,
                       enum quota_kind kind, uint64_t most, struct error *err)
{
    const struct quota_def *def = &quota_defs[kind];
    int64_t until =
        def->sort == SORT_BUCKET ? q->real_ms() + 1000 : window_end(t, kind);
    int64_t retry_s =
        until ? (until - q->real_ms() + 999) / 1000 : def->retry_s;

    mutex_assert_held(&q->lock);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)error_set(err, ERR_LIMIT, def->full, (unsigned long long)most);
#pragma GCC diagnostic pop
    (void)error_hint(err, "%s", def->advice);
    err->quota = def->name;
    err->quota_most = most;
    err->quota_used = def->sort == SORT_BUCKET ? most : t->used[kind];
    err->quota_until_ms = until;
    q->refusals[kind]++;
    return error_retry(err, (int)MIN(MAX(retry_s, 1), INT_MAX));
}

int quota_refuse(struct quotas *q, enum quota_kind kind, uint64_t most,
                 uint64_t used, struct error *err)
{
    err->quota = quota_name(kind);
    err->quota_most = most;
    err->quota_used = used;
    if (q) {
        mutex_lock(&q->lock);
        q->refusals[kind]++;
        mutex_unlock(&q->lock);
    }
    return -(int)err->code;
}

void quota_refusals(struct quotas *q, uint64_t ret[QUOTA_REFUSALS])
{
    memset(ret, 0, QUOTA_REFUSALS * sizeof(*ret));
    if (!q)
        return;
    mutex_lock(&q->lock);
    memcpy(ret, q->refusals, sizeof(q->refusals));
    mutex_unlock(&q->lock);
}

/* ---- taking ------------------------------------------------------------- */

/* A millisecond brings `rate` thousandths of a creation. */
static void fill_bucket(const struct quotas *q, struct quota_tenant *t,
                        uint64_t rate)
{
    uint64_t now = q->mono_ms(), most = rate * QUOTA_TOKEN * QUOTA_BURST_S;
    uint64_t came = now - t->tokens_at_ms;

    /* After the time that fills it, a bucket is full at any rate. */
    if (t->tokens > most || came >= QUOTA_TOKEN * QUOTA_BURST_S)
        t->tokens = most;
    else
        t->tokens = MIN(t->tokens + came * rate, most);
    t->tokens_at_ms = now;
}

static void add_use(struct quotas *q, struct quota_tenant *t,
                    enum quota_kind kind, uint64_t amount)
{
    if (amount > UINT64_MAX / 2 - t->used[kind])
        amount = UINT64_MAX / 2 - t->used[kind];
    t->used[kind] += amount;
    quota_history_add(q, t, kind, amount);
    if (quota_defs[kind].sort != SORT_WINDOW || !amount)
        return;
    if (!t->since_ms[kind])
        t->since_ms[kind] = q->real_ms();
    t->dirty[kind] = true;
}

int quota_take(struct quotas *q, const char *tenant, enum quota_kind kind,
               uint64_t amount, struct error *err)
{
    struct quota_tenant *t;
    uint64_t most;
    int rc = 0;

    if (!q)
        return 0;
    mutex_lock(&q->lock);
    t = quota_tenant(q, tenant);
    if (!t) {
        mutex_unlock(&q->lock);
        (void)error_set(err, ERR_BUSY, "too many tenants are active");
        return error_retry(err, 60);
    }
    most = quota_limit(q, t, kind);
    if (quota_defs[kind].sort == SORT_BUCKET) {
        if (most)
            fill_bucket(q, t, most);
        if (most && t->tokens / QUOTA_TOKEN < amount)
            rc = refuse_full(q, t, kind, most, err);
        else if (most)
            t->tokens -= amount * QUOTA_TOKEN;
    } else {
        quota_window(q, t, kind);
        if (most && (amount > most || t->used[kind] > most - amount))
            rc = refuse_full(q, t, kind, most, err);
        else
            add_use(q, t, kind, amount);
    }
    mutex_unlock(&q->lock);
    return rc;
}

uint64_t quota_missing(struct quotas *q, const char *tenant,
                       enum quota_kind kind, uint64_t amount)
{
    struct quota_tenant *t;
    uint64_t missing = 0, most = 0;

    assert(quota_defs[kind].sort == SORT_HELD);
    if (!q)
        return 0;
    mutex_lock(&q->lock);
    t = quota_tenant(q, tenant);
    if (t)
        most = quota_limit(q, t, kind);
    if (most && amount > most)
        missing = UINT64_MAX;
    else if (most && t->used[kind] > most - amount)
        missing = t->used[kind] - (most - amount);
    mutex_unlock(&q->lock);
    return missing;
}

void quota_give(struct quotas *q, const char *tenant, enum quota_kind kind,
                uint64_t amount)
{
    struct quota_tenant *t;

    if (!q)
        return;
    mutex_lock(&q->lock);
    t = quota_tenant_find(q, tenant);
    if (t) {
        /* The window may be over, and then nothing is left to give back. */
        t->used[kind] -= MIN(amount, t->used[kind]);
        if (quota_defs[kind].sort == SORT_WINDOW)
            t->dirty[kind] = true;
    }
    mutex_unlock(&q->lock);
}

int quota_check(struct quotas *q, const char *tenant, enum quota_kind kind,
                struct error *err)
{
    struct quota_tenant *t;
    uint64_t most;
    int rc = 0;

    if (!q)
        return 0;
    mutex_lock(&q->lock);
    t = quota_tenant_find(q, tenant);
    most = quota_limit(q, t, kind);
    if (t && most) {
        quota_window(q, t, kind);
        if (t->used[kind] >= most)
            rc = refuse_full(q, t, kind, most, err);
    }
    mutex_unlock(&q->lock);
    return rc;
}

void quota_spend(struct quotas *q, const char *tenant, enum quota_kind kind,
                 uint64_t amount)
{
    struct quota_tenant *t;

    if (!q || !amount)
        return;
    mutex_lock(&q->lock);
    t = quota_tenant(q, tenant);
    if (t) { /* with too many tenants, quota_take refused as well */
        quota_window(q, t, kind);
        add_use(q, t, kind, amount);
    }
    mutex_unlock(&q->lock);
}

/* ---- reading ------------------------------------------------------------ */

static void read_bucket(const struct quotas *q, struct quota_tenant *t,
                        struct quota_use *ret)
{
    uint64_t missing;

    if (!ret->most)
        return;
    fill_bucket(q, t, ret->most);
    missing = ret->most * QUOTA_TOKEN * QUOTA_BURST_S - t->tokens;
    ret->used = MIN((missing + QUOTA_TOKEN - 1) / QUOTA_TOKEN, ret->most);
    if (ret->used)
        ret->resets_at_ms = q->real_ms() + (int64_t)(missing / ret->most);
}

void quota_uses(struct quotas *q, const char *tenant,
                struct quota_use ret[QUOTA_KINDS])
{
    struct quota_tenant *t;

    memset(ret, 0, QUOTA_KINDS * sizeof(*ret));
    for (int k = 0; k < QUOTA_KINDS; k++)
        ret[k].name = quota_defs[k].name;
    if (!q)
        return;
    mutex_lock(&q->lock);
    t = quota_tenant_find(q, tenant);
    for (int k = 0; k < QUOTA_KINDS; k++) {
        enum quota_kind kind = (enum quota_kind)k;

        ret[k].most = quota_limit(q, t, kind);
        ret[k].own = t && t->own[k];
        if (!t)
            continue;
        quota_window(q, t, kind);
        if (quota_defs[k].sort == SORT_BUCKET) {
            read_bucket(q, t, &ret[k]);
            continue;
        }
        ret[k].used = t->used[k];
        ret[k].resets_at_ms = window_end(t, kind);
    }
    mutex_unlock(&q->lock);
}

uint64_t quota_most(struct quotas *q, const char *tenant, enum quota_kind kind)
{
    uint64_t most;

    if (!q)
        return 0;
    mutex_lock(&q->lock);
    most = quota_limit(q, quota_tenant_find(q, tenant), kind);
    mutex_unlock(&q->lock);
    return most;
}

/* ---- the module --------------------------------------------------------- */

int quotas_open(const struct quota_limits *defaults, struct store *store,
                struct audit *audit, struct quotas **ret, struct error *err)
{
    struct quotas *q = xcalloc(1, sizeof(*q));
    int rc;

    q->defaults = *defaults;
    q->store = store;
    q->audit = audit;
    q->real_ms = clock_real_ms;
    q->mono_ms = clock_mono_ms;
    worker_init(&q->saver);
    mutex_init(&q->lock);
    mutex_init(&q->set_lock);
    mutex_init(&q->save_lock);
    rc = quota_persist_load(q, err);
    if (rc == 0)
        rc = quota_persist_start(q, err);
    if (rc < 0) {
        quotas_close(q);
        return rc;
    }
    *ret = q;
    return 0;
}

void quotas_close(struct quotas *q)
{
    if (!q)
        return;
    quota_persist_stop(q);
    quota_repeats_done(q);
    for (size_t i = 0; i < QUOTA_BUCKETS; i++)
        while (q->tenants[i]) {
            struct quota_tenant *t = q->tenants[i];

            q->tenants[i] = t->next;
            tenant_free(t);
        }
    mutex_done(&q->lock);
    mutex_done(&q->set_lock);
    mutex_done(&q->save_lock);
    worker_done(&q->saver);
    free(q);
}
