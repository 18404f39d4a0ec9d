/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/secrets: put, shown without their values, removed. Runs on a worker of
 * the daemon. A value goes in and never comes out again by any door; what was
 * read of it here is wiped.
 */
#include "doors/native/native.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "vault/vault.h"
#include "json/json.h"

struct secret_body {
    const char *value, *header, *prefix;
    json_t *destinations;
};

#define AT(field) .offset = offsetof(struct secret_body, field)

static const struct json_field fields[] = {
    {"value", JSON_KIND_STRING, .required = true, AT(value), .min = 1,
     .max = VAULT_VALUE_MAX},
    {"destinations", JSON_KIND_ARRAY, .required = true, AT(destinations),
     .max = 16},
    {"header", JSON_KIND_STRING, AT(header), .min = 1, .max = 63},
    {"prefix", JSON_KIND_STRING, AT(prefix), .max = 63},
};

static void encode(struct json_writer *w, const struct vault_info *info)
{
    json_write_open(w, NULL, '{');
    json_write_string(w, "name", info->name);
    native_encode_words(w, "destinations", info->destinations);
    json_write_string(w, "header", info->header);
    json_write_string(w, "prefix", info->prefix);
    json_write_string(w, "made_by", info->made_by);
    json_write_time(w, "created_at", info->created_at_ms);
    json_write_time(w, "updated_at", info->updated_at_ms);
    json_write_time(w, "used_at", info->used_at_ms);
    json_write_close(w, '}');
}

static void respond(struct doors_call *call, unsigned status,
                    const struct vault_info *info)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    encode(&w, info);
    http_respond_json(call->http, status, &body);
}

/* The list as the vault has it; no host has a comma. */
static int read_destinations(const json_t *list, char *ret, size_t size,
                             struct error *err)
{
    struct buf b cleanup(buf_done) = {0};

    buf_adds(&b, "");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *host = json_string_value(json_array_get(list, i));

        if (!host || !host[0] || strpbrk(host, ", "))
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

/* The copy that the parser made; the request's own goes with its memory. */
static void wipe(const char *value)
{
    if (value)
        explicit_bzero((char *)(uintptr_t)value, strlen(value));
}

int native_secrets_put(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    struct secret_body b = {0};
    struct vault_info spec, info;
    int r = native_ask_body(call, fields, ARRAY_SIZE(fields), &b, &json, err);

    if (r == 0)
        r = read_spec(call, &b, &spec, err);
    if (r == 0)
        r = vault_put(call->doors->core->vault, &call->actor, &spec, b.value,
                      strlen(b.value), &info, err);
    wipe(b.value);
    if (r == 0)
        respond(call, info.created_at_ms == info.updated_at_ms ? 201 : 200,
                &info);
    return r;
}

int native_secrets_get(struct doors_call *call, struct error *err)
{
    struct vault_info info;
    int r = vault_get(call->doors->core->vault, &call->actor, call->params[0],
                      &info, err);

    if (r == 0)
        respond(call, 200, &info);
    return r;
}

int native_secrets_list(struct doors_call *call, struct error *err)
{
    struct vault_info *list cleanup(mem_free) = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    size_t count = 0;
    int r =
        vault_list(call->doors->core->vault, &call->actor, &list, &count, err);

    if (r < 0)
        return r;
    native_encode_list(&w);
    for (size_t i = 0; i < count; i++)
        encode(&w, &list[i]);
    native_encode_list_end(&w, false);
    http_respond_json(call->http, 200, &body);
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
