/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/quotas: what a tenant may have and what it has used. Runs on a worker
 * of the daemon. A key sees its own tenant's; other tenants', and
 * setting any, is for policy administrators of the tenant "default".
 */
#include <string.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "govern/govern.h"
#include "quota/quota.h"
#include "json/json.h"

/* ---- resources ---------------------------------------------------------- */

#define USE(member) API_AT(struct quota_use, member)

static const struct api_field quota_fields[] = {
    {"name", API_STRING, USE(name)},
    {"limit", API_INT, API_NULLABLE, USE(most), .help = "null: none"},
    {"used", API_INT, USE(used)},
    {"resets_at", API_TIME, API_NULLABLE, USE(resets_at_ms),
     .help = "null: nothing is used, or it is given back"},
    {"own", API_BOOL, USE(own),
     .help = "set for this tenant; else the default"},
};
API_OUTPUT(native_quota, "Quota", struct quota_use, quota_fields,
           "One of them.");

struct quotas_view {
    const char *tenant;
    struct quota_use *uses;
    size_t count;
};

static const struct api_field quotas_fields[] = {
    {"tenant", API_STRING, API_AT(struct quotas_view, tenant)},
    {"quotas", API_ARRAY, API_LIST(struct quotas_view, uses, count),
     .of = &native_quota},
};
API_OUTPUT(native_quotas, "Quotas", struct quotas_view, quotas_fields,
           "What a tenant may have and what it has used.");

struct values_body {
    int64_t values[QUOTA_KINDS]; /* -1: not set, or the default again */
};

#define VALUE(name_, kind_)                                                   \
    {                                                                         \
        (name_), API_INT, API_NULLABLE,                                       \
            API_AT(struct values_body, values[kind_]),                        \
            .max = (int64_t)QUOTA_VALUE_MAX                                   \
    }

static const struct api_field quota_values_fields[] = {
    VALUE("live_sessions", QUOTA_SESSIONS),
    VALUE("executions", QUOTA_EXECUTIONS),
    VALUE("memory_bytes", QUOTA_MEMORY),
    VALUE("creations_per_s", QUOTA_CREATIONS),
    VALUE("executions_per_hour", QUOTA_RUNS_PER_HOUR),
    VALUE("cpu_s_per_hour", QUOTA_CPU),
    VALUE("egress_bytes_per_day", QUOTA_EGRESS),
    VALUE("output_tokens_per_hour", QUOTA_OUTPUT),
    VALUE("model_tokens_per_day", QUOTA_MODEL_TOKENS),
    VALUE("model_microcents_per_day", QUOTA_MODEL_COST),
    VALUE("key_model_tokens_per_day", QUOTA_KEY_TOKENS),
    VALUE("key_model_microcents_per_day", QUOTA_KEY_COST),
    VALUE("storage_bytes", QUOTA_STORAGE),
};
API_INPUT(native_quota_values, "QuotaValues", struct values_body,
          quota_values_fields,
          "Limits to be set: 0 is none, null the default again.");

/* ---- routes ------------------------------------------------------------- */

int native_quotas_uses(struct doors_call *call, const char *tenant,
                       struct quota_use *ret, struct error *err)
{
    struct actor of = {.tenant = tenant, .key = call->actor.key};
    struct workspace_usage stored;
    int r = workspace_usage(call->doors->workspaces, &of, &stored, err);

    if (r < 0)
        return r;
    quota_uses(call->doors->core->quotas, tenant, ret);
    ret[QUOTA_STORAGE].used = stored.stored_bytes;
    if (strcmp(tenant, call->who.tenant) == 0) { /* its own key's */
        struct quota_use own[QUOTA_KINDS];
        char key[QUOTA_KEY_NAME];

        quota_uses(call->doors->core->quotas,
                   quota_key_name(call->who.key_id, key), own);
        ret[QUOTA_KEY_TOKENS] = own[QUOTA_KEY_TOKENS];
        ret[QUOTA_KEY_COST] = own[QUOTA_KEY_COST];
    }
    return 0;
}

static int respond(struct doors_call *call, const char *tenant,
                   struct error *err)
{
    struct quota_use uses[QUOTA_KINDS];
    int r = native_quotas_uses(call, tenant, uses, err);

    if (r < 0)
        return r;
    native_respond(call, 200, &native_quotas,
                   &(struct quotas_view){tenant, uses, QUOTA_KINDS});
    return 0;
}

int native_quotas_own(struct doors_call *call, struct error *err)
{
    return respond(call, call->who.tenant, err);
}

#define HOUR(kind) API_AT(struct quota_hour, used[kind])

static const struct api_field usage_hour_fields[] = {
    {"at", API_TIME, API_AT(struct quota_hour, at_ms),
     .help = "when the hour began"},
    {"executions", API_INT, HOUR(QUOTA_RUNS_PER_HOUR)},
    {"cpu_s", API_INT, HOUR(QUOTA_CPU)},
    {"egress_bytes", API_INT, HOUR(QUOTA_EGRESS)},
    {"output_tokens", API_INT, HOUR(QUOTA_OUTPUT)},
    {"model_tokens", API_INT, HOUR(QUOTA_MODEL_TOKENS)},
    {"model_microcents", API_INT, HOUR(QUOTA_MODEL_COST)},
    {"live_sessions", API_INT, HOUR(QUOTA_SESSIONS),
     .help = "the most at once"},
    {"memory_bytes", API_INT, HOUR(QUOTA_MEMORY), .help = "the most at once"},
    {"storage_bytes", API_INT, HOUR(QUOTA_STORAGE),
     .help = "of all kept versions"},
};
API_OUTPUT(native_usage_hour, "UsageHour", struct quota_hour,
           usage_hour_fields, "What a tenant used in one hour.");

struct usage_history {
    const char *tenant;
    int64_t step_s;
    struct quota_hour *hours;
    size_t count;
};

static const struct api_field usage_history_fields[] = {
    {"tenant", API_STRING, API_AT(struct usage_history, tenant)},
    {"step_s", API_INT, API_AT(struct usage_history, step_s)},
    {"data", API_ARRAY, API_LIST(struct usage_history, hours, count),
     .of = &native_usage_hour, .help = "hours without use are left out"},
};
API_OUTPUT(native_usage_history_resource, "UsageHistory", struct usage_history,
           usage_history_fields, "The use of the last hours, oldest first.");

int native_usage_history(struct doors_call *call, struct error *err)
{
    struct quota_hour *hours cleanup(mem_free) = NULL;
    int64_t back = 0;
    size_t count = 0;
    int r =
        doors_query_int(call, "hours", 1, QUOTA_HISTORY_HOURS, 24, &back, err);

    if (r == 0)
        r = quota_history(call->doors->core->quotas, call->who.tenant,
                          clock_real_ms() - (back - 1) * 3600000, &hours,
                          &count, err);
    if (r < 0)
        return r;
    native_respond(
        call, 200, &native_usage_history_resource,
        &(struct usage_history){call->who.tenant, 3600, hours, count});
    return 0;
}

/* As keys have it; a tenant exists once it is named. */
static int check_tenant(const char *tenant, struct error *err)
{
    size_t prefix = strlen(QUOTA_KEY_PREFIX), len;

    /* Quotas of a key. */
    if (strncmp(tenant, QUOTA_KEY_PREFIX, prefix) == 0)
        tenant += prefix;
    len = strnlen(tenant, AUTH_TENANT_MAX);

    if (len > 0 && len < AUTH_TENANT_MAX &&
        strspn(tenant, "abcdefghijklmnopqrstuvwxyz0123456789_-") == len)
        return 0;
    return error_set(err, ERR_INVALID,
                     "tenant must be 1 to %d characters of [a-z0-9_-]",
                     AUTH_TENANT_MAX - 1);
}

#define SET_QUOTAS "see quotas of other tenants, and set any"

int native_quotas_get(struct doors_call *call, struct error *err)
{
    const char *tenant = call->params[0];
    int r = check_tenant(tenant, err);

    if (r == 0 && strcmp(tenant, call->who.tenant) != 0)
        r = native_operators_only(call, SET_QUOTAS, err);
    return r < 0 ? r : respond(call, tenant, err);
}

/* Absent: as it was; null: the default again. */
static int read_values(const json_t *body, uint64_t values[QUOTA_KINDS],
                       const uint64_t *ret[QUOTA_KINDS], struct error *err)
{
    struct values_body b;
    int r;

    for (size_t k = 0; k < QUOTA_KINDS; k++)
        b.values[k] = -1;
    r = api_read(body, &native_quota_values, &b, err);
    for (size_t k = 0; r == 0 && k < QUOTA_KINDS; k++) {
        bool reset =
            json_is_null(json_object_get(body, quota_values_fields[k].name));

        values[k] = reset ? UINT64_MAX : (uint64_t)b.values[k];
        ret[k] = reset || b.values[k] >= 0 ? &values[k] : NULL;
    }
    return r;
}

static int hold_quotas(struct doors_call *call, const char *tenant,
                       json_t *body, struct error *err)
{
    struct govern_request rq = govern_change(&call->actor);
    char *values cleanup(mem_free) =
        json_dumps(body, JSON_COMPACT | JSON_SORT_KEYS);
    struct buf summary cleanup(buf_done) = {0};
    const char *name, *between = ": ";
    json_t *value;

    buf_addf(&summary, "set quotas of tenant %s", tenant);
    json_object_foreach (body, name, value) {
        buf_addf(&summary, "%s%s ", between, name);
        if (json_is_null(value))
            buf_adds(&summary, "back to the default");
        else
            buf_addf(&summary, "%lld", (long long)json_integer_value(value));
        between = ", ";
    }
    rq.object = tenant;
    rq.summary = summary.data;
    govern_add(&rq, "change", "quota.set");
    govern_add(&rq, "tenant", tenant);
    govern_add_json(&rq, "values", values);
    return doors_need_second(call, &rq, err);
}

int native_quotas_put(struct doors_call *call, struct error *err)
{
    const char *tenant = call->params[0];
    const uint64_t *given[QUOTA_KINDS] = {0};
    uint64_t values[QUOTA_KINDS];
    json_t *body cleanup(json_unref) = NULL;
    int r = native_operators_only(call, SET_QUOTAS, err);

    if (r == 0)
        r = check_tenant(tenant, err);
    if (r == 0)
        r = http_body_json(call->http, NATIVE_QUOTAS_BYTES, &body, err);
    if (r == 0)
        r = read_values(body, values, given, err);
    if (r == 0)
        r = hold_quotas(call, tenant, body, err);
    if (r == 0)
        r = quota_set(call->doors->core->quotas, &call->actor, tenant, given,
                      err);
    return r < 0 ? r : respond(call, tenant, err);
}
