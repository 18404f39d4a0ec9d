/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/secrets: put, shown without their values, removed. Runs on a worker of
 * the daemon. A value goes in and never comes out again by any door; what was
 * read of it here is wiped.
 */
#include "doors/native/native.h"

#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "govern/govern.h"
#include "vault/vault.h"
#include "json/json.h"

#define DESTINATIONS_MAX 16
#define HOST_MAX 511 /* bytes of all of them together */

struct secret_body {
    const char *value, *header, *prefix;
    json_t *destinations;
};

#define BODY(member) API_AT(struct secret_body, member)

static const struct api_field secret_spec_fields[] = {
    {"value", API_STRING, API_REQUIRED, BODY(value), .min = 1,
     .max = VAULT_VALUE_MAX, .help = "printable ASCII; never given back"},
    {"destinations", API_ARRAY, API_REQUIRED, BODY(destinations),
     .max = DESTINATIONS_MAX, .item_min = 1, .item_max = HOST_MAX,
     .help = "hosts it may go to"},
    {"header", API_STRING, BODY(header), .min = 1, .max = 63,
     .help = "else Authorization"},
    {"prefix", API_STRING, BODY(prefix), .max = 63,
     .help = "before the value; else 'Bearer ' with Authorization"},
};
API_INPUT(native_secret_spec, "SecretSpec", struct secret_body,
          secret_spec_fields, "A secret for the proxy to add.");

#define INFO(member) API_AT(struct vault_info, member)

static const struct api_field secret_fields[] = {
    {"name", API_STRING, INFO(name)},
    {"destinations", API_ARRAY, INFO(destinations)},
    {"header", API_STRING, INFO(header)},
    {"prefix", API_STRING, INFO(prefix)},
    {"made_by", API_STRING, INFO(made_by)},
    {"made_by_name", API_STRING, API_NULLABLE | API_NAME_OF, INFO(made_by)},
    {"created_at", API_TIME, INFO(created_at_ms)},
    {"updated_at", API_TIME, INFO(updated_at_ms)},
    {"used_at", API_TIME, API_NULLABLE, INFO(used_at_ms)},
};
API_OUTPUT(native_secret, "Secret", struct vault_info, secret_fields,
           "A secret, without its value.");

/* The list as the vault has it; no host has a comma. */
static int read_destinations(const json_t *list, char *ret, size_t size,
                             struct error *err)
{
    struct buf b cleanup(buf_done) = {0};

    buf_adds(&b, "");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *host = json_string_value(json_array_get(list, i));

        if (strpbrk(host, ", "))
            return error_set(err, ERR_INVALID,
                             "field 'destinations' must be a list of hosts");
        buf_addf(&b, "%s%s", i ? "," : "", host);
    }
    if (b.len >= size)
        return error_set(err, ERR_INVALID,
                         "field 'destinations' must not be longer than %zu "
                         "bytes together",
                         size - 1);
    memcpy(ret, b.data, b.len + 1);
    return 0;
}

static int read_spec(struct doors_call *call, const struct secret_body *b,
                     struct vault_info *ret, struct error *err)
{
    const char *name = call->params[0];
    const char *header = b->header ? b->header : "Authorization";
    /* The usual header has a usual prefix. */
    const char *prefix = b->prefix ? b->prefix : b->header ? "" : "Bearer ";

    *ret = (struct vault_info){0};
    if (strlen(name) >= sizeof(ret->name))
        return error_set(err, ERR_INVALID,
                         "a secret's name must not be longer than %zu bytes",
                         sizeof(ret->name) - 1);
    (void)snprintf(ret->name, sizeof(ret->name), "%s", name);
    (void)snprintf(ret->header, sizeof(ret->header), "%s", header);
    (void)snprintf(ret->prefix, sizeof(ret->prefix), "%s", prefix);
    return read_destinations(b->destinations, ret->destinations,
                             sizeof(ret->destinations), err);
}

/* Approvers see where the secret would go and a fingerprint of its value. */
static int hold_secret(struct doors_call *call, const struct vault_info *spec,
                       const char *value, struct error *err)
{
    struct govern_request rq = govern_change(&call->actor);
    char fingerprint[VAULT_FINGERPRINT];
    char *summary cleanup(mem_free) = NULL;
    struct vault_info kept;
    int r = vault_preview(call->doors->core->vault, spec, value, strlen(value),
                          &kept, fingerprint, err);

    if (r < 0)
        return r;
    summary = xasprintf("store the secret '%s' for requests to %s", kept.name,
                        kept.destinations);
    rq.object = kept.name;
    rq.summary = summary;
    govern_add(&rq, "change", "secret.put");
    govern_add(&rq, "name", kept.name);
    govern_add(&rq, "destinations", kept.destinations);
    govern_add(&rq, "header", kept.header);
    govern_add(&rq, "prefix", kept.prefix);
    govern_add(&rq, "value_fingerprint", fingerprint);
    return doors_need_second(call, &rq, err);
}

int native_secrets_put(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    struct secret_body b = {0};
    struct vault_info spec, info;
    int r = native_read(call, &native_secret_spec, &b, &json, err);

    if (r == 0)
        r = read_spec(call, &b, &spec, err);
    if (r == 0 && call->doors->core->four_eyes)
        r = hold_secret(call, &spec, b.value, err);
    if (r == 0)
        r = vault_put(call->doors->core->vault, &call->actor, &spec, b.value,
                      strlen(b.value), &info, err);
    /* The copy that the parser made; the request's own goes with its memory.
     */
    if (b.value)
        explicit_bzero((char *)(uintptr_t)b.value, strlen(b.value));
    if (r == 0)
        native_respond(call,
                       info.created_at_ms == info.updated_at_ms ? 201 : 200,
                       &native_secret, &info);
    return r;
}

int native_secrets_get(struct doors_call *call, struct error *err)
{
    struct vault_info info;
    int r = vault_get(call->doors->core->vault, &call->actor, call->params[0],
                      &info, err);

    if (r == 0)
        native_respond(call, 200, &native_secret, &info);
    return r;
}

int native_secrets_list(struct doors_call *call, struct error *err)
{
    struct vault_info *list cleanup(mem_free) = NULL;
    size_t count = 0;
    int r =
        vault_list(call->doors->core->vault, &call->actor, &list, &count, err);

    if (r < 0)
        return r;
    native_respond_list(call, &native_secret, list, count, false);
    return 0;
}

int native_secrets_remove(struct doors_call *call, struct error *err)
{
    int r = vault_remove(call->doors->core->vault, &call->actor,
                         call->params[0], err);

    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}
