/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/quotas: what a tenant may have and what it has used. Runs on a worker
 * of the daemon. Everybody sees their own tenant's; other tenants', and
 * setting any, is for policy administrators of the tenant "default".
 */
#include <string.h>

#include "api/api.h"
#include "base/mem.h"
#include "doors/native/native.h"
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
    VALUE("storage_bytes", QUOTA_STORAGE),
};
API_INPUT(native_quota_values, "QuotaValues", struct values_body,
          quota_values_fields,
          "Limits to be set: 0 is none, null the default again.");

/* ---- routes ------------------------------------------------------------- */

static int respond(struct doors_call *call, const char *tenant,
                   struct error *err)
{
    struct actor of = {.tenant = tenant, .key = call->actor.key};
    struct quota_use uses[QUOTA_KINDS];
    struct workspace_usage stored;
    int r = workspace_usage(call->doors->workspaces, &of, &stored, err);

    if (r < 0)
        return r;
    quota_uses(call->doors->core->quotas, tenant, uses);
    uses[QUOTA_STORAGE].used = stored.stored_bytes;
    native_respond(call, 200, &native_quotas,
                   &(struct quotas_view){tenant, uses, QUOTA_KINDS});
    return 0;
}

int native_quotas_own(struct doors_call *call, struct error *err)
{
    return respond(call, call->who.tenant, err);
}

/* As keys have it; a tenant exists once it is named. */
static int check_tenant(const char *tenant, struct error *err)
{
    size_t len = strnlen(tenant, AUTH_TENANT_MAX);

    if (len > 0 && len < AUTH_TENANT_MAX &&
        strspn(tenant, "abcdefghijklmnopqrstuvwxyz0123456789_-") == len)
        return 0;
    return error_set(err, ERR_INVALID,
                     "tenant must be 1 to %d characters of [a-z0-9_-]",
                     AUTH_TENANT_MAX - 1);
}

static int check_operator(const struct doors_call *call, struct error *err)
{
    if (strcmp(call->who.tenant, OPERATORS) == 0)
        return 0;
    return error_set(err, ERR_FORBIDDEN,
                     "only keys of the tenant '%s' see other tenants' quotas, "
                     "and set any",
                     OPERATORS);
}

int native_quotas_get(struct doors_call *call, struct error *err)
{
    const char *tenant = call->params[0];
    int r = check_tenant(tenant, err);

    if (r == 0 && strcmp(tenant, call->who.tenant) != 0)
        r = check_operator(call, err);
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

int native_quotas_put(struct doors_call *call, struct error *err)
{
    const char *tenant = call->params[0];
    const uint64_t *given[QUOTA_KINDS] = {0};
    uint64_t values[QUOTA_KINDS];
    json_t *body cleanup(json_unref) = NULL;
    int r = check_operator(call, err);

    if (r == 0)
        r = check_tenant(tenant, err);
    if (r == 0)
        r = http_body_json(call->http, NATIVE_QUOTAS_BYTES, &body, err);
    if (r == 0)
        r = read_values(body, values, given, err);
    if (r == 0)
        r = quota_set(call->doors->core->quotas, &call->actor, tenant, given,
                      err);
    return r < 0 ? r : respond(call, tenant, err);
}
