/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/keys, for administrators. Runs on a worker of the daemon. A secret
 * is in the answer that made it and nowhere else.
 */
#include "doors/native/native.h"

#include <string.h>

#include "api/api.h"
#include "approval/approval.h"
#include "base/mem.h"
#include "json/json.h"

#define BOUNDS_MAX 64 /* of one kind; they have a length in all, too */

struct key_body {
    const char *tenant, *name;
    json_t *scopes, *bounds[ACTOR_BOUNDS];
    int64_t expires_in_s;
};

#define BODY(member) API_AT(struct key_body, member)

static const struct api_field key_spec_fields[] = {
    {"scopes", API_ARRAY, API_REQUIRED, BODY(scopes), .min = 1,
     .max = NATIVE_SCOPES_MAX},
    {"tenant", API_STRING, BODY(tenant), .min = 1, .max = AUTH_TENANT_MAX - 1},
    {"name", API_STRING, BODY(name), .max = AUTH_NAME_MAX - 1},
    {"pools", API_ARRAY, BODY(bounds[ACTOR_POOLS]), .min = 1,
     .max = BOUNDS_MAX, .help = "bound to these; else to none in particular"},
    {"workspaces", API_ARRAY, BODY(bounds[ACTOR_WORKSPACES]), .min = 1,
     .max = BOUNDS_MAX, .help = "the same: ws_…"},
    {"sessions", API_ARRAY, BODY(bounds[ACTOR_SESSIONS]), .min = 1,
     .max = BOUNDS_MAX, .help = "the same: sess_… or cntr_…"},
    {"expires_in_s", API_INT, BODY(expires_in_s), .min = 1,
     .max = AUTH_KEY_TTL_MAX_S, .help = "else never"},
};
API_INPUT(native_key_spec, "KeySpec", struct key_body, key_spec_fields,
          "A key to be made.");

void native_keys_write_scopes(struct json_writer *w, const char *key,
                              const void *object)
{
    char text[96];
    const char *rest =
        auth_scopes_format(((const struct auth_key *)object)->scopes, text);

    json_write_open(w, key, '[');
    while (*rest) {
        size_t n = strcspn(rest, ",");

        json_write_text(w, NULL, rest, n);
        rest += n + (rest[n] == ',');
    }
    json_write_close(w, ']');
}

static const struct api_field key_fields[] = {
    NATIVE_KEY_FIELDS("key_…", API_NULLABLE),
    {"revoked_at", API_TIME, API_NULLABLE,
     API_AT(struct auth_key, revoked_at_ms)},
};
API_OUTPUT(native_key, "Key", struct auth_key, key_fields,
           "A key, without its secret.");

struct key_made {
    struct auth_key key;
    const char *secret;
};

static const struct api_field key_made_fields[] = {
    {"secret", API_STRING, API_AT(struct key_made, secret)},
};
API_OUTPUT_OF(native_key_made, "KeyMade", &native_key, struct key_made,
              key_made_fields, "A key with its secret, shown once.");

int native_keys_scopes(const json_t *array, uint32_t *ret, struct error *err)
{
    uint32_t scopes = 0;

    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *name = json_string_value(json_array_get(array, i));
        uint32_t one;
        int r;

        if (strchr(name, ','))
            return error_set(err, ERR_INVALID,
                             "field 'scopes' must hold names of scopes");
        r = auth_scopes_parse(name, &one, err);
        if (r < 0)
            return r;
        scopes |= one;
    }
    *ret = scopes;
    return 0;
}

static int read_bounds(const struct key_body *b, struct actor_bounds *ret,
                       struct error *err)
{
    for (int k = 0; k < ACTOR_BOUNDS; k++) {
        enum actor_bound what = (enum actor_bound)k;
        const char *name = auth_restriction_name(what);

        for (size_t i = 0; i < json_array_size(b->bounds[k]); i++) {
            const char *id =
                json_string_value(json_array_get(b->bounds[k], i));

            if (auth_restriction_add(ret, what, id, err) < 0)
                return error_wrap(err, "%s", name);
        }
    }
    return 0;
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
    struct auth_key key = {.scopes = 0};
    struct actor_bounds bounds = {0};
    struct auth_key_spec spec = {.bounds = &bounds};
    char text[96];
    int r = native_read(call, &native_key_spec, &b, &json, err);

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
    native_respond(call, 201, &native_key_made,
                   &(struct key_made){key, secret});
    return 0;
}

int native_keys_list(struct doors_call *call, struct error *err)
{
    struct auth_key *keys cleanup(mem_free) = NULL;
    size_t count;
    int r = auth_key_list(call->doors->auth, &keys, &count, err);

    if (r < 0)
        return r;
    native_respond_list(call, &native_key, keys, count, false);
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
