/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creating and changing pools while the service runs: check the request, merge
 * it with the settings of the first configured pool or of the existing pool,
 * store the row together with its audit event, put the settings in force. Rows
 * are read once at the start; a row of an earlier run that the configuration
 * no longer permits is adjusted, not dropped. Settings stay in memory as long
 * as a reader could use them. Runs in gloveboxd on the caller's thread, one
 * call at a time, under change_lock.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "pool/pool_int.h"
#include "store/store.h"
#include "json/json.h"

/* ---- the request -------------------------------------------------------- */

void pool_row_done(struct pool_row *row)
{
    free(take_ptr(row->details));
    free(take_ptr(row->egress_allow));
}

/* ---- checks ------------------------------------------------------------- */

int pools_name_check(const char *name, struct error *err)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");

    if (len == 0 || len > POOL_NAME_MAX || name[len] || name[0] < 'a')
        return error_set(err, ERR_INVALID,
                         "name must be 1 to %u of a-z, 0-9 and -, beginning "
                         "with a letter",
                         POOL_NAME_MAX);
    return 0;
}

/* -1, or 0 where that is none of the values: not asked for. */
static int read_number(const char *name, int64_t asked, int64_t least,
                       int64_t most, int64_t *ret, struct error *err)
{
    if (asked == -1 || (asked == 0 && least > 0))
        return 0;
    if (asked < least || asked > most)
        return error_set(err, ERR_INVALID,
                         "%s must be from %" PRId64 " to %" PRId64, name,
                         least, most);
    *ret = asked;
    return 0;
}

static int read_numbers(const struct conf_pool *first,
                        const struct pool_spec *spec, struct pool_row *row,
                        struct error *err)
{
    int64_t memory_least = (int64_t)MIN(POOL_MEMORY_MIN, first->memory_bytes);
    int64_t memory_most =
        (int64_t)MAX(first->max_memory_bytes, first->memory_bytes);
    int rc = read_number("max_sessions", spec->max_sessions, 1,
                         POOL_SESSIONS_MAX, &row->max_sessions, err);

    if (rc == 0)
        rc = read_number("ready", spec->ready, 0, POOL_READY_MAX, &row->ready,
                         err);
    if (rc == 0)
        rc = read_number("cooldown_s", spec->cooldown_s, 1,
                         POOL_COOLDOWN_MAX_S, &row->cooldown_s, err);
    if (rc == 0)
        rc = read_number("memory_bytes", spec->memory_bytes, memory_least,
                         memory_most, &row->memory_bytes, err);
    if (rc == 0)
        rc = read_number("max_timeout_s", spec->max_timeout_s,
                         POOL_TIMEOUT_MIN_S, POOL_TIMEOUT_MAX_S,
                         &row->max_timeout_s, err);
    if (rc == 0 && spec->ready > row->max_sessions)
        rc = error_set(err, ERR_INVALID,
                       "a pool cannot keep more sandboxes ready than its "
                       "max_sessions, which is %" PRId64,
                       row->max_sessions);
    return rc;
}

static int read_persistence(const char *asked, bool *ret, struct error *err)
{
    if (!asked)
        return 0;
    *ret = strcmp(asked, "ephemeral") == 0;
    if (!*ret && strcmp(asked, "workspace") != 0)
        return error_set(err, ERR_INVALID,
                         "persistence must be 'workspace' or 'ephemeral'");
    return 0;
}

static int read_details(const char *asked, char **ret, struct error *err)
{
    size_t len = asked ? strlen(asked) : 0;
    int rc;

    if (!asked)
        return 0;
    if (len > POOL_DETAILS_MAX)
        return error_set(err, ERR_TOO_LARGE, "details are over %u bytes",
                         POOL_DETAILS_MAX);
    rc = json_check(asked, len, &json_limits_body, err);
    if (rc < 0 || asked[strspn(asked, " \t\r\n")] != '{')
        return error_set(err, ERR_INVALID, "details must be a JSON object");
    free(*ret);
    *ret = xstrdup(asked);
    return 0;
}

static int read_egress(const struct pool_spec *spec, struct pool_row *row,
                       struct error *err)
{
    if (spec->egress && session_egress_parse(spec->egress, &row->egress) < 0)
        return error_set(err, ERR_INVALID,
                         "egress must be 'none', 'allowlist' or 'open'");
    if (spec->egress_allow && strlen(spec->egress_allow) > POOL_ALLOW_MAX)
        return error_set(err, ERR_TOO_LARGE, "egress_allow is over %u bytes",
                         POOL_ALLOW_MAX);
    if (spec->egress_allow) {
        free(row->egress_allow);
        row->egress_allow = xstrdup(spec->egress_allow);
    }
    if (spec->packages)
        row->packages = spec->packages > 0;
    return 0;
}

static int read_sharing(const char *asked, enum session_sharing *ret,
                        struct error *err)
{
    if (asked && session_sharing_parse(asked, ret) < 0)
        return error_set(err, ERR_INVALID,
                         "sharing must be 'default', 'principal' or "
                         "'tenant'");
    return 0;
}

struct runtime *pools_runtime(struct pools *ps, const char *name)
{
    struct runtime *found = NULL;

    for (size_t i = 0; i < ps->runtime_count; i++) {
        struct runtime *rt = &ps->runtimes[i];

        if (strcmp(rt->name, name) == 0 &&
            (!found || rt->zygote == ps->conf->pools[0].zygote))
            found = rt;
    }
    return found ? found : runtime_adopt(ps, name);
}

static int read_runtime(struct pools *ps, const char *asked, char ret[64],
                        struct error *err)
{
    struct runtime *rt = asked ? pools_runtime(ps, asked) : NULL;

    if (!asked)
        return 0;
    if (!rt) {
        (void)error_set(err, ERR_INVALID,
                        "no pool is configured with that runtime, and no "
                        "image was imported under that name");
        return error_hint(err,
                          "the first pool's runtime is '%s'; 'glovebox "
                          "runtime import' imports an image",
                          ps->conf->pools[0].runtime);
    }
    (void)snprintf(ret, 64, "%s", rt->name);
    return 0;
}

/* A pool of JavaScript needs an image that has it: the one that is asked for,
 * or the first that some pool has. */
static int fit_kind(struct pools *ps, const struct pool_spec *spec,
                    struct pool_row *row, struct error *err)
{
    const uint32_t wanted = LANGUAGE_BIT(EXEC_JAVASCRIPT);
    struct runtime *rt = pools_runtime(ps, row->runtime);

    if (spec->kind != POOL_JAVASCRIPT ||
        (rt && runtime_languages(ps->conf, rt) & wanted))
        return 0;
    for (size_t i = 0; !spec->runtime && i < ps->runtime_count; i++)
        if (runtime_languages(ps->conf, &ps->runtimes[i]) & wanted) {
            (void)snprintf(row->runtime, sizeof(row->runtime), "%s",
                           ps->runtimes[i].name);
            return 0;
        }
    if (spec->runtime)
        (void)error_set(err, ERR_UNSUPPORTED,
                        "the runtime '%s' does not offer JavaScript",
                        row->runtime);
    else
        (void)error_set(err, ERR_UNSUPPORTED,
                        "no runtime of this service's pools offers "
                        "JavaScript");
    return error_hint(err, "add the package nodejs to a runtime and give it "
                           "to a pool of the configuration");
}

/* ---- the row ------------------------------------------------------------ */

static void row_of_first(const struct conf_pool *first, struct pool_row *ret)
{
    *ret = (struct pool_row){.kind = POOL_PYTHON,
                             .ephemeral =
                                 strcmp(first->persistence, "ephemeral") == 0,
                             .ready = first->ready,
                             .max_sessions = first->max_sessions,
                             .cooldown_s = first->cooldown_s,
                             .memory_bytes = (int64_t)first->memory_bytes,
                             .packages = first->packages};
    (void)session_egress_parse(first->egress ? first->egress : "none",
                               &ret->egress);
    (void)session_sharing_parse(first->sharing, &ret->sharing);
    ret->egress_allow =
        xstrdup(first->egress_allow ? first->egress_allow : "");
    (void)snprintf(ret->runtime, sizeof(ret->runtime), "%s", first->runtime);
}

/* Ready boxes of made pools live on what sessions leave of the machine. */
static int share_ready(struct pools *ps, const struct pool *old, bool asked,
                       struct pool_row *row, struct error *err)
{
    int64_t most = ps->conf->max_sessions;

    for (size_t i = 0; i < ps->made_count; i++)
        if (ps->made[i] != old)
            most -= ps->made[i]->conf->ready;
    most = MAX(most, 0);
    if (asked && row->ready > most)
        return error_set(err, ERR_LIMIT,
                         "the service keeps %u sandboxes ready for pools made "
                         "while it runs, and %" PRId64 " of them are left",
                         ps->conf->max_sessions, most);
    row->ready = MIN(row->ready, MIN(most, row->max_sessions));
    return 0;
}

int pools_spec_row(struct pools *ps, const struct pool_spec *spec,
                   struct pool *old, struct pool_row *ret, struct error *err)
{
    int rc;

    if (old) {
        row_of_first(old->conf, ret);
        ret->kind = old->made->kind;
        ret->max_timeout_s = old->made->max_timeout_s;
        ret->details = xstrdup(old->made->details);
        ret->created_at_ms = old->made->created_at_ms;
        (void)snprintf(ret->tenant, sizeof(ret->tenant), "%s",
                       old->made->tenant);
    } else {
        row_of_first(&ps->conf->pools[0], ret);
        ret->ready = MIN(ret->ready, POOL_READY_USUAL);
    }
    (void)snprintf(ret->name, sizeof(ret->name), "%s", spec->name);
    if (spec->kind >= 0)
        ret->kind =
            spec->kind < POOL_KINDS ? (enum pool_kind)spec->kind : POOL_PYTHON;
    rc = read_numbers(&ps->conf->pools[0], spec, ret, err);
    if (rc == 0)
        rc = read_persistence(spec->persistence, &ret->ephemeral, err);
    if (rc == 0)
        rc = read_runtime(ps, spec->runtime, ret->runtime, err);
    if (rc == 0)
        rc = fit_kind(ps, spec, ret, err);
    if (rc == 0)
        rc = read_egress(spec, ret, err);
    if (rc == 0)
        rc = read_sharing(spec->sharing, &ret->sharing, err);
    if (rc == 0)
        rc = read_details(spec->details, &ret->details, err);
    if (rc == 0)
        rc = share_ready(ps, old, spec->ready >= 0, ret, err);
    return rc;
}

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return MAX(least, MIN(value, most));
}

void pools_row_fit(struct pools *ps, struct pool_row *row)
{
    const struct conf_pool *first = &ps->conf->pools[0];
    struct error ignored;

    row->max_sessions = clamp(row->max_sessions, 1, POOL_SESSIONS_MAX);
    row->ready = clamp(row->ready, 0, POOL_READY_MAX);
    row->cooldown_s = clamp(row->cooldown_s, 1, POOL_COOLDOWN_MAX_S);
    if (row->max_timeout_s)
        row->max_timeout_s =
            clamp(row->max_timeout_s, POOL_TIMEOUT_MIN_S, POOL_TIMEOUT_MAX_S);
    row->memory_bytes = clamp(
        row->memory_bytes, (int64_t)MIN(POOL_MEMORY_MIN, first->memory_bytes),
        (int64_t)MAX(first->max_memory_bytes, first->memory_bytes));
    (void)share_ready(ps, NULL, false, row, &ignored);
    if (pools_runtime(ps, row->runtime))
        return;
    log_event(LOG_WARN, "pool_runtime_gone", "pool", row->name, "runtime",
              row->runtime, "instead", first->runtime, NULL);
    (void)snprintf(row->runtime, sizeof(row->runtime), "%s", first->runtime);
}

/* ---- settings in force -------------------------------------------------- */

static void fill_conf(struct pools *ps, const struct pool_row *row, char *name,
                      struct conf_pool *ret)
{
    static char workspace[] = "workspace", ephemeral[] = "ephemeral";
    const struct runtime *rt = pools_runtime(ps, row->runtime);

    *ret = ps->conf->pools[0];
    ret->runtime = (char *)(uintptr_t)rt->name;
    ret->name = name;
    ret->zygote = rt->zygote;
    ret->persistence = row->ephemeral ? ephemeral : workspace;
    ret->memory_bytes = (uint64_t)row->memory_bytes;
    ret->ready = (uint32_t)row->ready;
    ret->max_sessions = (uint32_t)row->max_sessions;
    ret->cooldown_s = (uint32_t)row->cooldown_s;
    if (row->max_timeout_s) {
        uint32_t most = (uint32_t)row->max_timeout_s;

        ret->python_timeout_max_s = ret->shell_timeout_max_s = most;
        ret->python_timeout_s = MIN(ret->python_timeout_s, most);
        ret->shell_timeout_s = MIN(ret->shell_timeout_s, most);
    }
    ret->egress = (char *)(uintptr_t)session_egress_name(row->egress);
    ret->egress_allow = row->egress_allow; /* until they are kept */
    ret->packages = row->packages;
    ret->sharing = (char *)(uintptr_t)session_sharing_name(row->sharing);
}

/* Both have the same name and are otherwise of the same first pool. */
static bool same_settings(const struct conf_pool *a, const struct conf_pool *b)
{
    return a->runtime == b->runtime && a->persistence == b->persistence &&
           a->memory_bytes == b->memory_bytes && a->ready == b->ready &&
           a->max_sessions == b->max_sessions &&
           a->cooldown_s == b->cooldown_s && a->egress == b->egress &&
           a->python_timeout_max_s == b->python_timeout_max_s &&
           a->shell_timeout_max_s == b->shell_timeout_max_s &&
           strcmp(a->egress_allow, b->egress_allow) == 0 &&
           a->packages == b->packages && a->sharing == b->sharing;
}

void pools_settings_free(struct pool_settings *s)
{
    free(s->egress_allow);
    free(s);
}

/* Frees old settings once only the table refers to the pool. */
static void forget_settings(struct pool *pool)
{
    struct pool_settings **at = &pool->made->settings, *s;

    if (atomic_load(&pool->made->refs) > 1)
        return;
    while ((s = *at)) {
        if (&s->conf == pool->conf) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        pool->made->settings_count--;
        pools_settings_free(s);
    }
}

int pools_settings(struct pools *ps, struct pool *pool,
                   const struct pool_row *row,
                   const struct pool_settings **ret, struct error *err)
{
    struct pool_made *made = pool->made;
    struct pool_settings *s;
    struct conf_pool conf;
    int rc = 0;

    fill_conf(ps, row, made->name, &conf);
    mutex_lock(&ps->lock);
    forget_settings(pool);
    s = made->settings;
    while (s && !same_settings(&s->conf, &conf))
        s = s->next;
    if (!s && made->settings_count >= POOL_SETTINGS_MAX) {
        (void)error_set(err, ERR_LIMIT,
                        "the pool was changed %u times while sessions of it "
                        "were there",
                        POOL_SETTINGS_MAX);
        rc = error_hint(err, "delete its sessions, or make another pool");
    } else if (!s) {
        s = xcalloc(1, sizeof(*s));
        s->conf = conf;
        s->conf.egress_allow = s->egress_allow = xstrdup(row->egress_allow);
        s->next = made->settings;
        made->settings = s;
        made->settings_count++;
    }
    mutex_unlock(&ps->lock);
    *ret = s;
    return rc;
}

void pools_apply(struct pools *ps, struct pool *pool,
                 const struct pool_row *row,
                 const struct pool_settings *settings)
{
    static const struct session_limits nothing_asked;
    struct warden_limits limits;
    struct error ignored;
    char *details = xstrdup(row->details);

    /* Nothing asked is always granted. */
    (void)pool_limits_grant(&settings->conf, &nothing_asked, &limits,
                            &ignored);
    pool_set(ps, pool, &settings->conf, pools_runtime(ps, row->runtime),
             &limits);
    mutex_lock(&ps->lock);
    pool->made->kind = row->kind;
    pool->made->max_timeout_s = row->max_timeout_s;
    free(pool->made->details);
    pool->made->details = details;
    pool->made->created_at_ms = row->created_at_ms;
    pool->made->updated_at_ms = row->updated_at_ms;
    mutex_unlock(&ps->lock);
}

struct pool *pools_make(struct pools *ps, const struct pool_row *row)
{
    struct pool *pool = xcalloc(1, sizeof(*pool));
    const struct pool_settings *settings;
    struct error ignored;

    pool->made = xcalloc(1, sizeof(*pool->made));
    atomic_init(&pool->made->refs, 1);
    (void)snprintf(pool->made->name, sizeof(pool->made->name), "%s",
                   row->name);
    (void)snprintf(pool->made->tenant, sizeof(pool->made->tenant), "%s",
                   row->tenant);
    pool->ready = xcalloc(POOL_READY_MAX, sizeof(struct box *));
    /* The first settings of a pool have room. */
    (void)pools_settings(ps, pool, row, &settings, &ignored);
    pools_apply(ps, pool, row, settings);
    return pool;
}

/* ---- rows --------------------------------------------------------------- */

#define DETAIL_MAX 240

static int audit_change(struct pools *ps, struct store_tx **tx,
                        const struct actor *who, const char *action,
                        const char *name, const char *detail,
                        struct error *err)
{
    struct audit_event event = {
        .action = action, .object = name, .detail = detail};
    int rc = audit_add(ps->parts.audit, *tx, who, &event, err);

    return rc < 0 ? rc : store_commit(tx, err);
}

static void describe(const struct pool_row *row, char ret[DETAIL_MAX])
{
    (void)snprintf(
        ret, DETAIL_MAX,
        "runtime %s, %s, ready %" PRId64 ", max_sessions %" PRId64
        ", cooldown_s %" PRId64 ", memory_bytes %" PRId64
        ", max_timeout_s %" PRId64 ", egress %s%s, sharing %s",
        row->runtime, row->ephemeral ? "ephemeral" : "workspace", row->ready,
        row->max_sessions, row->cooldown_s, row->memory_bytes,
        row->max_timeout_s, session_egress_name(row->egress),
        row->packages ? ", packages" : "", session_sharing_name(row->sharing));
}

int pools_rows_insert(struct pools *ps, const struct actor *who,
                      const struct pool_row *row, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    char detail[DETAIL_MAX];
    int rc =
        store_begin(ps->parts.store, STORE_WRITE, "storing a pool", &tx, err);

    describe(row, detail);
    if (rc == 0)
        rc = MIN(store_exec(
                     tx, err,
                     "INSERT INTO pools (name, tenant, made_by, kind, runtime,"
                     " persistence, ready, max_sessions, cooldown_s,"
                     " memory_bytes, details, created_at_ms, updated_at_ms,"
                     " egress, egress_allow, packages, sharing, max_timeout_s)"
                     " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,"
                     " ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
                     "tttitt"
                     "iiii"
                     "tii"
                     "ttiti",
                     row->name, row->tenant, who->key, (int64_t)row->kind,
                     row->runtime, row->ephemeral ? "ephemeral" : "workspace",
                     row->ready, row->max_sessions, row->cooldown_s,
                     row->memory_bytes, row->details ? row->details : "",
                     row->created_at_ms, row->updated_at_ms,
                     session_egress_name(row->egress), row->egress_allow,
                     (int64_t)row->packages,
                     session_sharing_name(row->sharing), row->max_timeout_s),
                 0);
    if (rc == -ERR_CONFLICT) /* kept, but hidden when the service started */
        (void)error_set(err, ERR_CONFLICT, "that name is taken");
    return rc < 0 ? rc
                  : audit_change(ps, &tx, who, "pool.create", row->name,
                                 detail, err);
}

int pools_rows_update(struct pools *ps, const struct actor *who,
                      const struct pool_row *row, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    char detail[DETAIL_MAX];
    int rc =
        store_begin(ps->parts.store, STORE_WRITE, "storing a pool", &tx, err);

    describe(row, detail);
    if (rc == 0)
        rc = MIN(
            store_exec(tx, err,
                       "UPDATE pools SET kind = ?2, runtime = ?3,"
                       " persistence = ?4, ready = ?5, max_sessions = ?6,"
                       " cooldown_s = ?7, memory_bytes = ?8,"
                       " details = ?9, updated_at_ms = ?10,"
                       " egress = ?11, egress_allow = ?12, packages = ?13,"
                       " sharing = ?14, max_timeout_s = ?15 WHERE name = ?1",
                       "titt"
                       "iiii"
                       "titti"
                       "ti",
                       row->name, (int64_t)row->kind, row->runtime,
                       row->ephemeral ? "ephemeral" : "workspace", row->ready,
                       row->max_sessions, row->cooldown_s, row->memory_bytes,
                       row->details ? row->details : "", row->updated_at_ms,
                       session_egress_name(row->egress), row->egress_allow,
                       (int64_t)row->packages,
                       session_sharing_name(row->sharing), row->max_timeout_s),
            0);
    return rc < 0 ? rc
                  : audit_change(ps, &tx, who, "pool.update", row->name,
                                 detail, err);
}

int pools_rows_delete(struct pools *ps, const struct actor *who,
                      const char *name, size_t sessions, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    char detail[DETAIL_MAX];
    int rc =
        store_begin(ps->parts.store, STORE_WRITE, "removing a pool", &tx, err);

    (void)snprintf(detail, sizeof(detail), "with %zu sessions", sessions);
    if (rc == 0)
        rc = MIN(store_exec(tx, err, "DELETE FROM pools WHERE name = ?1", "t",
                            name),
                 0);
    return rc < 0
               ? rc
               : audit_change(ps, &tx, who, "pool.delete", name, detail, err);
}

/* ---- at the start ------------------------------------------------------- */

static void load_pool(struct pools *ps, struct store_rows *rows)
{
    struct pool_row row cleanup(pool_row_done) = {.details = NULL};
    const char *details = store_text(rows, 9);

    row = (struct pool_row){.kind = (uint64_t)store_int(rows, 2) < POOL_KINDS
                                        ? (enum pool_kind)store_int(rows, 2)
                                        : POOL_PYTHON,
                            .ready = store_int(rows, 5),
                            .max_sessions = store_int(rows, 6),
                            .cooldown_s = store_int(rows, 7),
                            .memory_bytes = store_int(rows, 8),
                            .details = details && details[0] ? xstrdup(details)
                                                             : NULL,
                            .created_at_ms = store_int(rows, 10),
                            .updated_at_ms = store_int(rows, 11),
                            .egress_allow = xstrdup(store_text(rows, 13)),
                            .packages = store_int(rows, 14) != 0,
                            .max_timeout_s = store_int(rows, 16)};
    (void)session_egress_parse(store_text(rows, 12), &row.egress);
    (void)session_sharing_parse(store_text(rows, 15), &row.sharing);
    store_copy(rows, 0, row.name, sizeof(row.name));
    store_copy(rows, 1, row.tenant, sizeof(row.tenant));
    store_copy(rows, 3, row.runtime, sizeof(row.runtime));
    row.ephemeral = strcmp(store_text(rows, 4), "ephemeral") == 0;

    if (pools_configured(ps, row.name)) {
        log_event(LOG_WARN, "pool_hidden", "pool", row.name, "why",
                  "the configuration has one of that name", NULL);
        return;
    }
    pools_row_fit(ps, &row);
    pools_made_add(ps, pools_make(ps, &row));
}

int pools_load(struct pools *ps, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *rows cleanup(store_rows_done) = NULL;
    int rc = store_begin(ps->parts.store, STORE_READ, "reading the pools", &tx,
                         err);

    if (rc == 0)
        rc = store_query(tx, &rows, err,
                         "SELECT name, tenant, kind, runtime, persistence,"
                         " ready, max_sessions, cooldown_s, memory_bytes,"
                         " details, created_at_ms, updated_at_ms,"
                         " egress, egress_allow, packages, sharing,"
                         " max_timeout_s"
                         " FROM pools ORDER BY name LIMIT ?1",
                         "i", (int64_t)POOLS_MADE_MAX);
    while (rc == 0 && (rc = store_next(rows, err)) > 0) {
        load_pool(ps, rows);
        rc = 0;
    }
    return rc;
}

/* ---- create and change -------------------------------------------------- */

/* A name that only another tenant has is free to none and known to none. */
static int may_put(struct pools *ps, const struct actor *who,
                   enum pool_put how, const char *name, struct pool **ret_old,
                   struct error *err)
{
    struct pool *old = pools_made_find(ps, name);
    bool own = old && strcmp(old->made->tenant, who->tenant) == 0;
    bool gone = old && atomic_load(&old->gone);

    *ret_old = old;
    if (pools_configured(ps, name)) {
        (void)error_set(err, ERR_CONFLICT,
                        "the pool '%s' is one of the configuration", name);
        return error_hint(err, "it is changed there");
    }
    if (how == POOL_CHANGE)
        return own && !gone ? 0
                            : error_set(err, ERR_NOT_FOUND, "no such pool");
    if (own && gone) {
        (void)error_set(err, ERR_BUSY,
                        "the pool of that name is being removed");
        return error_retry(err, 1);
    }
    if (old && (!own || how == POOL_MAKE))
        return error_set(err, ERR_CONFLICT,
                         "there is a pool of that name already");
    if (!old && ps->made_count >= POOLS_MADE_MAX) {
        (void)error_set(err, ERR_LIMIT,
                        "there are %u pools that were made while the service "
                        "ran, which is the most",
                        POOLS_MADE_MAX);
        return error_hint(err, "delete pools that are no longer needed");
    }
    return 0;
}

static int make_pool(struct pools *ps, const struct actor *who,
                     struct pool_row *row, struct pool **ret,
                     struct error *err)
{
    int rc;

    row->created_at_ms = row->updated_at_ms;
    (void)snprintf(row->tenant, sizeof(row->tenant), "%s", who->tenant);
    rc = pools_rows_insert(ps, who, row, err);
    if (rc < 0)
        return rc;
    *ret = pools_make(ps, row);
    pools_made_add(ps, *ret);
    return 0;
}

static int change_pool(struct pools *ps, const struct actor *who,
                       const struct pool_row *row, struct pool *pool,
                       struct error *err)
{
    const struct pool_settings *settings;
    int rc = pools_settings(ps, pool, row, &settings, err);

    if (rc == 0)
        rc = pools_rows_update(ps, who, row, err);
    if (rc == 0)
        pools_apply(ps, pool, row, settings);
    return rc;
}

static int permit_network(struct pools *ps, const struct actor *who,
                          const struct pool_row *row, pools_permit_fn permit,
                          void *ctx, struct error *err)
{
    struct conf_pool pool = ps->conf->pools[0];

    pool.name = (char *)(uintptr_t)row->name;
    pool.runtime = (char *)(uintptr_t)row->runtime;
    pool.egress = (char *)(uintptr_t)session_egress_name(row->egress);
    pool.egress_allow = row->egress_allow;
    pool.packages = row->packages;
    return permit(ctx, who, &pool, err);
}

/* change_lock is held. */
static int put_pool(struct pools *ps, const struct actor *who,
                    enum pool_put how, const struct pool_spec *spec,
                    pools_permit_fn permit, void *ctx, bool *ret_made,
                    struct pool_info *ret, struct error *err)
{
    struct pool_row row cleanup(pool_row_done) = {.details = NULL};
    struct pool *pool = NULL;
    int rc = pools_name_check(spec->name, err);

    if (rc < 0 && how == POOL_CHANGE)
        return error_set(err, ERR_NOT_FOUND, "no such pool");
    if (rc == 0)
        rc = may_put(ps, who, how, spec->name, &pool, err);
    if (rc == 0)
        rc = pools_spec_row(ps, spec, pool, &row, err);
    if (rc == 0 && (spec->egress || spec->egress_allow || spec->packages))
        rc = permit_network(ps, who, &row, permit, ctx, err);
    if (rc < 0)
        return rc;
    row.updated_at_ms = clock_real_ms();
    *ret_made = pool == NULL;
    rc = pool ? change_pool(ps, who, &row, pool, err)
              : make_pool(ps, who, &row, &pool, err);
    if (rc == 0)
        pools_info(ps, pool, ret);
    return rc;
}

int pools_put(struct pools *ps, const struct actor *who, enum pool_put how,
              const struct pool_spec *spec, pools_permit_fn permit, void *ctx,
              bool *ret_made, struct pool_info *ret, struct error *err)
{
    bool made = false;
    int rc;

    mutex_lock(&ps->change_lock);
    rc = put_pool(ps, who, how, spec, permit, ctx, &made, ret, err);
    mutex_unlock(&ps->change_lock);
    if (rc == 0)
        log_event(LOG_INFO, made ? "pool_created" : "pool_changed", "pool",
                  ret->name, "tenant", who->tenant, NULL);
    if (ret_made)
        *ret_made = made;
    return rc;
}

/* ---- remove ------------------------------------------------------------- */

static void set_gone(struct pool *pool, bool gone, struct mutex *lock)
{
    mutex_lock(lock);
    atomic_store(&pool->gone, gone);
    mutex_unlock(lock);
}

struct pool *pools_remove_begin(struct pools *ps, const struct actor *who,
                                const char *name, struct mutex *lock,
                                struct error *err)
{
    struct pool *pool;

    mutex_lock(&ps->change_lock);
    pool = pools_made_find(ps, name);
    if (pools_configured(ps, name)) {
        (void)error_set(err, ERR_CONFLICT,
                        "the pool '%s' is one of the configuration", name);
        (void)error_hint(err, "it is removed there");
        pool = NULL;
    } else if (!pool || atomic_load(&pool->gone) ||
               strcmp(pool->made->tenant, who->tenant) != 0) {
        (void)error_set(err, ERR_NOT_FOUND, "no such pool");
        pool = NULL;
    } else {
        set_gone(pool, true, lock);
        (void)pool_ref(pool);
    }
    mutex_unlock(&ps->change_lock);
    return pool;
}

int pools_remove_end(struct pools *ps, const struct actor *who,
                     struct pool *pool, size_t sessions, struct error *err)
{
    int rc;

    pool_empty(ps, pool);
    mutex_lock(&ps->change_lock);
    rc = pools_rows_delete(ps, who, pool->made->name, sessions, err);
    if (rc == 0)
        pools_made_drop(ps, pool);
    mutex_unlock(&ps->change_lock);
    return rc;
}

void pools_remove_cancel(struct pool *pool, struct mutex *lock)
{
    set_gone(pool, false, lock);
}
