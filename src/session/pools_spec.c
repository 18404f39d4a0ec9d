/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may be asked of a made pool, and the settings that come of it: what
 * the spec names, and everything else as the first pool of the configuration
 * has it. Runs in gloveboxd; the checks are pure.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "session/pools_int.h"
#include "json/json.h"

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

struct runtime *pools_runtime(struct sessions *m, const char *name)
{
    struct runtime *found = NULL;

    for (size_t i = 0; i < m->runtime_count; i++) {
        struct runtime *rt = &m->runtimes[i];

        if (strcmp(rt->name, name) == 0 &&
            (!found || rt->zygote == m->conf->pools[0].zygote))
            found = rt;
    }
    return found;
}

static int read_runtime(struct sessions *m, const char *asked, char ret[64],
                        struct error *err)
{
    struct runtime *rt = asked ? pools_runtime(m, asked) : NULL;

    if (!asked)
        return 0;
    if (!rt) {
        (void)error_set(err, ERR_INVALID,
                        "no pool is configured with that runtime");
        return error_hint(err, "the first pool's runtime is '%s'",
                          m->conf->pools[0].runtime);
    }
    (void)snprintf(ret, 64, "%s", rt->name);
    return 0;
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

static void row_of_pool(struct pool *pool, struct pool_row *ret)
{
    const struct conf_pool *conf = pool->conf;

    row_of_first(conf, ret);
    ret->kind = pool->made->kind;
    ret->details = xstrdup(pool->made->details);
    ret->created_at_ms = pool->made->created_at_ms;
    (void)snprintf(ret->tenant, sizeof(ret->tenant), "%s", pool->made->tenant);
}

/* Ready boxes of made pools live on what sessions leave of the machine. */
static int share_ready(struct sessions *m, const struct pool *old, bool asked,
                       struct pool_row *row, struct error *err)
{
    int64_t most = m->conf->max_sessions;

    for (size_t i = 0; i < m->made_count; i++)
        if (m->made[i] != old)
            most -= m->made[i]->conf->ready;
    most = MAX(most, 0);
    if (asked && row->ready > most)
        return error_set(err, ERR_LIMIT,
                         "the service keeps %u sandboxes ready for pools made "
                         "while it runs, and %" PRId64 " of them are left",
                         m->conf->max_sessions, most);
    row->ready = MIN(row->ready, MIN(most, row->max_sessions));
    return 0;
}

int pools_spec_row(struct sessions *m, const struct pool_spec *spec,
                   struct pool *old, struct pool_row *ret, struct error *err)
{
    int rc;

    if (old) {
        row_of_pool(old, ret);
    } else {
        row_of_first(&m->conf->pools[0], ret);
        ret->ready = MIN(ret->ready, POOL_READY_USUAL);
    }
    (void)snprintf(ret->name, sizeof(ret->name), "%s", spec->name);
    if (spec->kind >= 0)
        ret->kind = spec->kind == POOL_SHELL ? POOL_SHELL : POOL_PYTHON;
    rc = read_numbers(&m->conf->pools[0], spec, ret, err);
    if (rc == 0)
        rc = read_persistence(spec->persistence, &ret->ephemeral, err);
    if (rc == 0)
        rc = read_runtime(m, spec->runtime, ret->runtime, err);
    if (rc == 0)
        rc = read_egress(spec, ret, err);
    if (rc == 0)
        rc = read_sharing(spec->sharing, &ret->sharing, err);
    if (rc == 0)
        rc = read_details(spec->details, &ret->details, err);
    if (rc == 0)
        rc = share_ready(m, old, spec->ready >= 0, ret, err);
    return rc;
}

static int64_t within(int64_t value, int64_t least, int64_t most)
{
    return MAX(least, MIN(value, most));
}

void pools_row_fit(struct sessions *m, struct pool_row *row)
{
    const struct conf_pool *first = &m->conf->pools[0];
    struct error ignored;

    row->max_sessions = within(row->max_sessions, 1, POOL_SESSIONS_MAX);
    row->ready = within(row->ready, 0, POOL_READY_MAX);
    row->cooldown_s = within(row->cooldown_s, 1, POOL_COOLDOWN_MAX_S);
    row->memory_bytes = within(
        row->memory_bytes, (int64_t)MIN(POOL_MEMORY_MIN, first->memory_bytes),
        (int64_t)MAX(first->max_memory_bytes, first->memory_bytes));
    (void)share_ready(m, NULL, false, row, &ignored);
    if (pools_runtime(m, row->runtime))
        return;
    log_event(LOG_WARN, "pool_runtime_gone", "pool", row->name, "runtime",
              row->runtime, "instead", first->runtime, NULL);
    (void)snprintf(row->runtime, sizeof(row->runtime), "%s", first->runtime);
}
