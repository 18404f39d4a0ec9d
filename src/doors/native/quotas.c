/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/quotas: what a tenant may have and what it has used. Runs on a worker
 * of the daemon. Everybody sees their own tenant's; other tenants', and
 * setting any, is for policy administrators of the tenant "default".
 */
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "quota/quota.h"
#include "json/json.h"

static void encode_one(struct json_writer *w, const struct quota_use *use)
{
    json_write_open(w, NULL, '{');
    json_write_string(w, "name", use->name);
    if (use->most)
        json_write_int(w, "limit", (int64_t)use->most);
    else
        json_write_string(w, "limit", NULL);
    json_write_int(w, "used", (int64_t)use->used);
    json_write_time(w, "resets_at", use->resets_at_ms);
    json_write_bool(w, "own", use->own);
    json_write_close(w, '}');
}

static int respond(struct doors_call *call, const char *tenant,
                   struct error *err)
{
    struct actor of = {.tenant = tenant, .key = call->actor.key};
    struct quota_use uses[QUOTA_KINDS];
    struct workspace_usage stored;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    int r = workspace_usage(call->doors->workspaces, &of, &stored, err);

    if (r < 0)
        return r;
    quota_uses(call->doors->core->quotas, tenant, uses);
    uses[QUOTA_STORAGE].used = stored.stored_bytes;
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "tenant", tenant);
    json_write_open(&w, "quotas", '[');
    for (size_t i = 0; i < QUOTA_KINDS; i++)
        encode_one(&w, &uses[i]);
    json_write_close(&w, ']');
    json_write_close(&w, '}');
    http_respond_json(call->http, 200, &body);
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
    struct json_field fields[QUOTA_KINDS];
    int64_t numbers[QUOTA_KINDS];
    int r;

    for (size_t k = 0; k < QUOTA_KINDS; k++) {
        numbers[k] = -1;
        fields[k] = (struct json_field){.name = quota_name((enum quota_kind)k),
                                        .kind = JSON_KIND_INT,
                                        .offset = k * sizeof(int64_t),
                                        .max = (int64_t)QUOTA_VALUE_MAX};
    }
    r = json_read(body, fields, QUOTA_KINDS, numbers, err);
    for (size_t k = 0; r == 0 && k < QUOTA_KINDS; k++) {
        bool reset = json_is_null(json_object_get(body, fields[k].name));

        values[k] = reset ? UINT64_MAX : (uint64_t)numbers[k];
        ret[k] = reset || numbers[k] >= 0 ? &values[k] : NULL;
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
