/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/keys, for administrators. Runs on a worker of the daemon. A secret
 * is in the answer that made it and nowhere else.
 */
#include "doors/native/native.h"

#include <string.h>

#include "approval/approval.h"
#include "base/buf.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "json/json.h"

#define SCOPES_MAX 16
#define BOUNDS_MAX 64 /* of one kind; they have a length in all, too */

struct key_body {
    const char *tenant, *name;
    json_t *scopes, *bounds[ACTOR_BOUNDS];
    int64_t expires_in_s;
};

#define BOUND(what)                                                           \
    (offsetof(struct key_body, bounds) + (what) * sizeof(json_t *))

static const struct json_field key_fields[] = {
    {"tenant", JSON_KIND_STRING, .offset = offsetof(struct key_body, tenant),
     .min = 1, .max = AUTH_TENANT_MAX - 1},
    {"name", JSON_KIND_STRING, .offset = offsetof(struct key_body, name),
     .max = AUTH_NAME_MAX - 1},
    {"scopes", JSON_KIND_ARRAY, .required = true,
     .offset = offsetof(struct key_body, scopes), .max = SCOPES_MAX},
    {"pools", JSON_KIND_ARRAY, .offset = BOUND(ACTOR_POOLS),
     .max = BOUNDS_MAX},
    {"workspaces", JSON_KIND_ARRAY, .offset = BOUND(ACTOR_WORKSPACES),
     .max = BOUNDS_MAX},
    {"sessions", JSON_KIND_ARRAY, .offset = BOUND(ACTOR_SESSIONS),
     .max = BOUNDS_MAX},
    {"expires_in_s", JSON_KIND_INT,
     .offset = offsetof(struct key_body, expires_in_s), .min = 1,
     .max = AUTH_KEY_TTL_MAX_S},
};

int native_keys_scopes(const json_t *array, uint32_t *ret, struct error *err)
{
    uint32_t scopes = 0;

    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *name = json_string_value(json_array_get(array, i));
        uint32_t one;
        int r;

        if (!name || strchr(name, ','))
            return error_set(err, ERR_INVALID,
                             "field 'scopes' must hold names of scopes");
        r = auth_scopes_parse(name, &one, err);
        if (r < 0)
            return r;
        scopes |= one;
    }
    if (!scopes)
        return error_set(err, ERR_INVALID,
                         "field 'scopes' must name at least one scope");
    *ret = scopes;
    return 0;
}

/* A list that is there and empty would bind the key to nothing, and must not
 * be taken for one that is absent. */
static int read_bounds(const struct key_body *b, struct actor_bounds *ret,
                       struct error *err)
{
    for (int k = 0; k < ACTOR_BOUNDS; k++) {
        enum actor_bound what = (enum actor_bound)k;
        const char *name = auth_restriction_name(what);

        if (b->bounds[k] && json_array_size(b->bounds[k]) == 0)
            return error_set(err, ERR_INVALID,
                             "field '%s' must name at least one, or be left "
                             "out",
                             name);
        for (size_t i = 0; i < json_array_size(b->bounds[k]); i++) {
            const char *id =
                json_string_value(json_array_get(b->bounds[k], i));

            if (!id)
                return error_set(err, ERR_INVALID,
                                 "field '%s' must be a list of texts", name);
            if (auth_restriction_add(ret, what, id, err) < 0)
                return error_wrap(err, "%s", name);
        }
    }
    return 0;
}

void native_keys_encode(struct json_writer *w, const struct auth_key *key)
{
    char text[96];

    json_write_string(w, "id", key->id);
    json_write_string(w, "tenant", key->tenant);
    json_write_string(w, "name", key->name[0] ? key->name : NULL);
    native_encode_words(w, "scopes", auth_scopes_format(key->scopes, text));
    for (int k = 0; k < ACTOR_BOUNDS; k++) {
        const char *name = auth_restriction_name((enum actor_bound)k);

        if (key->bounds.ids[k][0])
            native_encode_words(w, name, key->bounds.ids[k]);
        else
            json_write_string(w, name, NULL);
    }
    json_write_time(w, "created_at", key->created_at_ms);
    json_write_time(w, "expires_at", key->expires_at_ms);
    json_write_time(w, "last_used_at", key->last_used_at_ms);
}

static void encode_key(struct json_writer *w, const struct auth_key *key,
                       const char *secret)
{
    json_write_open(w, NULL, '{');
    native_keys_encode(w, key);
    json_write_time(w, "revoked_at", key->revoked_at_ms);
    if (secret)
        json_write_string(w, "secret", secret);
    json_write_close(w, '}');
}

/* In the trail before the client is told. */
static int note(struct doors_call *call, const char *action, const char *key,
                const char *detail, struct error *err)
{
    return audit_note(call->doors->core->audit, &call->actor,
                      &(struct audit_event){
                          .action = action, .object = key, .detail = detail},
                      err);
}

int native_keys_create(struct doors_call *call, struct error *err)
{
    char *secret cleanup(mem_free) = NULL;
    json_t *json cleanup(json_unref) = NULL;
    struct key_body b = {.tenant = call->who.tenant, .name = ""};
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    struct auth_key key = {.scopes = 0};
    struct actor_bounds bounds = {0};
    struct auth_key_spec spec = {.bounds = &bounds};
    char text[96];
    int r =
        http_body_json(call->http, call->doors->conf->json_bytes, &json, err);

    if (r == 0)
        r = json_read(json, key_fields, ARRAY_SIZE(key_fields), &b, err);
    if (r == 0)
        r = native_keys_scopes(b.scopes, &spec.scopes, err);
    if (r == 0)
        r = read_bounds(&b, &bounds, err);
    spec.tenant = b.tenant;
    spec.name = b.name;
    spec.expires_in_s = (uint32_t)b.expires_in_s;
    if (r == 0)
        r = auth_key_create_as(call->doors->auth, &spec, &key, &secret, err);
    if (r == 0)
        r = note(call, "key.create", key.id,
                 auth_scopes_format(key.scopes, text), err);
    if (r < 0)
        return r;
    encode_key(&w, &key, secret);
    http_respond_json(call->http, 201, &body);
    return 0;
}

int native_keys_list(struct doors_call *call, struct error *err)
{
    struct auth_key *keys cleanup(mem_free) = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    size_t count;
    int r = auth_key_list(call->doors->auth, &keys, &count, err);

    if (r < 0)
        return r;
    json_write_open(&w, NULL, '{');
    json_write_open(&w, "data", '[');
    for (size_t i = 0; i < count; i++)
        encode_key(&w, &keys[i], NULL);
    json_write_close(&w, ']');
    json_write_bool(&w, "has_more", false);
    json_write_close(&w, '}');
    http_respond_json(call->http, 200, &body);
    return 0;
}

/* Nothing a key has asked for outlives it. */
static void withdraw(struct doors_call *call, const char *id)
{
    struct auth_key *keys cleanup(mem_free) = NULL;
    struct error err;
    size_t count = 0;

    if (auth_key_list(call->doors->auth, &keys, &count, &err) < 0)
        return;
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i].id, id) == 0)
            approval_withdraw_key(call->doors->core->approvals, keys[i].tenant,
                                  id);
}

int native_keys_revoke(struct doors_call *call, struct error *err)
{
    int r = auth_key_revoke(call->doors->auth, call->params[0], err);

    if (r == 0)
        withdraw(call, call->params[0]);
    if (r == 0)
        r = note(call, "key.revoke", call->params[0], NULL, err);
    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}
