/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/keys, for administrators. Runs on a worker of the daemon. A secret
 * is in the answer that made it and nowhere else.
 */
#include "doors/native/native.h"

#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "approval/approval.h"
#include "base/mem.h"
#include "govern/govern.h"
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

static const struct api_field caller_fields[] = {
    {"id", API_STRING, API_AT(struct native_caller, key.id),
     .help = "key_…, or jwt_… for a person"},
    {"name", API_STRING, API_NULLABLE, API_AT(struct native_caller, key.name),
     .help = "of the key or the person"},
    {"token", API_STRING, API_NULLABLE, API_AT(struct native_caller, token),
     .help = "tok_…, if a token was sent"},
    {"tenant", API_STRING, API_AT(struct native_caller, key.tenant)},
    {"scopes", API_ARRAY, .write = native_keys_write_scopes},
    {"pools", API_ARRAY, API_NULLABLE,
     API_AT(struct native_caller, key.bounds.ids[ACTOR_POOLS]),
     .help = "null: not bound to any"},
    {"workspaces", API_ARRAY, API_NULLABLE,
     API_AT(struct native_caller, key.bounds.ids[ACTOR_WORKSPACES])},
    {"sessions", API_ARRAY, API_NULLABLE,
     API_AT(struct native_caller, key.bounds.ids[ACTOR_SESSIONS])},
    {"expires_at", API_TIME, API_NULLABLE,
     API_AT(struct native_caller, key.expires_at_ms)},
};
API_OUTPUT(native_caller, "Caller", struct native_caller, caller_fields,
           "The credential that a request was sent with.");

void native_keys_caller(const struct principal *who, struct native_caller *ret)
{
    *ret =
        (struct native_caller){.key = {.scopes = who->scopes,
                                       .bounds = who->bounds,
                                       .expires_at_ms = who->expires_at_ms}};
    (void)snprintf(ret->key.id, sizeof(ret->key.id), "%s", who->key_id);
    (void)snprintf(ret->key.name, sizeof(ret->key.name), "%s", who->name);
    (void)snprintf(ret->key.tenant, sizeof(ret->key.tenant), "%s",
                   who->tenant);
    (void)snprintf(ret->token, sizeof(ret->token), "%s", who->token);
}

int native_keys_whoami(struct doors_call *call, struct error *err)
{
    struct native_caller caller;

    (void)err;
    native_keys_caller(&call->who, &caller);
    native_respond(call, 200, &native_caller, &caller);
    return 0;
}

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

static int read_bounds(json_t *const lists[ACTOR_BOUNDS],
                       struct actor_bounds *ret, struct error *err)
{
    for (int k = 0; k < ACTOR_BOUNDS; k++) {
        enum actor_bound what = (enum actor_bound)k;
        const char *name = auth_restriction_name(what);

        for (size_t i = 0; i < json_array_size(lists[k]); i++) {
            const char *id = json_string_value(json_array_get(lists[k], i));

            if (auth_restriction_add(ret, what, id, err) < 0)
                return error_wrap(err, "%s", name);
        }
    }
    return 0;
}

/* In the trail before the client gets its answer. */
static int note_key(struct doors_call *call, const char *action,
                    const char *key, const char *detail, struct error *err)
{
    return audit_note(call->doors->core->audit, &call->actor,
                      &(struct audit_event){
                          .action = action, .object = key, .detail = detail},
                      err);
}

static int hold_key_creation(struct doors_call *call,
                             const struct auth_key_spec *spec,
                             struct error *err)
{
    struct govern_request rq = govern_change(&call->actor);
    char scopes[96], expires[16];
    char *summary cleanup(mem_free) = xasprintf(
        "create the key '%s' of tenant %s with %s, %s", spec->name,
        spec->tenant, auth_scopes_format(spec->scopes, scopes),
        spec->expires_in_s ? "which expires" : "which never expires");

    (void)snprintf(expires, sizeof(expires), "%u", spec->expires_in_s);
    rq.object = "key";
    rq.summary = summary;
    govern_add(&rq, "change", "key.create");
    govern_add(&rq, "tenant", spec->tenant);
    govern_add(&rq, "name", spec->name);
    govern_add(&rq, "scopes", scopes);
    govern_add(&rq, "expires_in_s", expires);
    for (int k = 0; k < ACTOR_BOUNDS; k++)
        govern_add(&rq, auth_restriction_name((enum actor_bound)k),
                   spec->bounds->ids[k]);
    return doors_need_second(call, &rq, err);
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
        r = read_bounds(b.bounds, &bounds, err);
    spec.tenant = b.tenant;
    spec.name = b.name;
    spec.expires_in_s = (uint32_t)b.expires_in_s;
    if (r == 0)
        r = hold_key_creation(call, &spec, err);
    if (r == 0)
        r = auth_key_create_as(call->doors->auth, &spec, &key, &secret, err);
    if (r == 0)
        r = note_key(call, "key.create", key.id,
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

struct key_patch_body {
    const char *name;
    json_t *scopes, *bounds[ACTOR_BOUNDS];
    int64_t expires_in_s;
};

#define PATCH(member) API_AT(struct key_patch_body, member)

static const struct api_field key_patch_fields[] = {
    {"name", API_STRING, PATCH(name), .max = AUTH_NAME_MAX - 1},
    {"scopes", API_ARRAY, PATCH(scopes), .min = 1, .max = NATIVE_SCOPES_MAX,
     .help = "a subset of the key's"},
    {"pools", API_ARRAY, PATCH(bounds[ACTOR_POOLS]), .min = 1,
     .max = BOUNDS_MAX, .help = "a subset, if the key is bound to pools"},
    {"workspaces", API_ARRAY, PATCH(bounds[ACTOR_WORKSPACES]), .min = 1,
     .max = BOUNDS_MAX, .help = "the same: ws_…"},
    {"sessions", API_ARRAY, PATCH(bounds[ACTOR_SESSIONS]), .min = 1,
     .max = BOUNDS_MAX, .help = "the same: sess_… or cntr_…"},
    {"expires_in_s", API_INT, PATCH(expires_in_s), .min = 1,
     .max = AUTH_KEY_TTL_MAX_S, .help = "no later than the key expires now"},
};
API_INPUT(native_key_patch, "KeyPatch", struct key_patch_body,
          key_patch_fields, "Changes that narrow or rename a key.");

/* Another principal must agree first, if four_eyes is on. */
static int hold_key_change(struct doors_call *call, const char *action,
                           const char *verb,
                           const struct auth_key_patch *patch,
                           struct error *err)
{
    struct govern_request rq = govern_change(&call->actor);
    const char *id = call->params[0];
    char name[AUTH_NAME_MAX], scopes[96], expires[16];
    char *summary cleanup(mem_free) = NULL;

    if (!ids_valid("key", id))
        return 0;
    auth_key_name(call->doors->auth, id, name);
    summary = xasprintf("%s the key '%s' (%s)", verb, name, id);
    rq.object = id;
    rq.summary = summary;
    govern_add(&rq, "change", action);
    govern_add(&rq, "key", id);
    if (patch) {
        (void)snprintf(expires, sizeof(expires), "%u", patch->expires_in_s);
        govern_add(&rq, "name", patch->name ? patch->name : "unchanged");
        govern_add(&rq, "scopes", auth_scopes_format(patch->scopes, scopes));
        govern_add(&rq, "expires_in_s", expires);
        for (int k = 0; k < ACTOR_BOUNDS; k++)
            govern_add(&rq, auth_restriction_name((enum actor_bound)k),
                       patch->bounds->ids[k]);
    }
    return doors_need_second(call, &rq, err);
}

int native_keys_patch(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    struct key_patch_body b = {.name = NULL};
    struct actor_bounds bounds = {0};
    struct auth_key_patch patch = {.bounds = &bounds};
    struct auth_key key;
    char text[96];
    int r = native_read(call, &native_key_patch, &b, &json, err);

    if (r == 0 && b.scopes)
        r = native_keys_scopes(b.scopes, &patch.scopes, err);
    if (r == 0)
        r = read_bounds(b.bounds, &bounds, err);
    patch.name = b.name;
    patch.expires_in_s = (uint32_t)b.expires_in_s;
    if (r == 0)
        r = hold_key_change(call, "key.change", "change", &patch, err);
    if (r == 0)
        r = auth_key_narrow(call->doors->auth, call->params[0], &patch, &key,
                            err);
    if (r == 0)
        r = note_key(call, "key.change", key.id,
                     auth_scopes_format(key.scopes, text), err);
    if (r == 0)
        native_respond(call, 200, &native_key, &key);
    return r;
}

int native_keys_rotate(struct doors_call *call, struct error *err)
{
    char *secret cleanup(mem_free) = NULL;
    struct auth_key key;
    int r = hold_key_change(call, "key.rotate", "replace the secret of", NULL,
                            err);

    if (r == 0)
        r = auth_key_rotate(call->doors->auth, call->params[0], &key, &secret,
                            err);
    if (r == 0)
        r = note_key(call, "key.rotate", key.id, NULL, err);
    if (r == 0)
        native_respond(call, 200, &native_key_made,
                       &(struct key_made){key, secret});
    return r;
}

int native_keys_revoke(struct doors_call *call, struct error *err)
{
    const char *id = call->params[0];
    struct auth_key key;
    struct error ignored;
    /* A key may always revoke itself. */
    int r = strcmp(id, call->who.key_id) == 0
                ? 0
                : hold_key_change(call, "key.revoke", "revoke", NULL, err);

    if (r == 0)
        r = auth_key_revoke(call->doors->auth, id, err);
    /* The open requests of the key end with it. */
    if (r == 0 && auth_key_get(call->doors->auth, id, &key, &ignored) == 0)
        approval_withdraw_key(call->doors->core->approvals, key.tenant, id);
    if (r == 0)
        r = note_key(call, "key.revoke", id, NULL, err);
    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}
