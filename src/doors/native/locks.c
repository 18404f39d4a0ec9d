/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/workspaces/{ws}/locks: leases on paths. Runs on a worker of the
 * daemon. A token is in the answer that made it and nowhere else.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "doors/native/native.h"
#include "json/json.h"

#define TTL_DEFAULT_S 300

struct lock_body {
    const char *path, *session, *label, *token;
    int64_t ttl_s;
};

#define LOCK(member) offsetof(struct lock_body, member)

static const struct json_field lock_fields[] = {
    {"path", JSON_KIND_STRING, .required = true, .offset = LOCK(path),
     .min = 1, .max = PATH_BYTES_MAX},
    {"ttl_s", JSON_KIND_INT, .offset = LOCK(ttl_s), .min = LOCK_TTL_MIN_S,
     .max = LOCK_TTL_MAX_S},
    {"session", JSON_KIND_STRING, .offset = LOCK(session), .min = 1,
     .max = ID_MAX},
    {"label", JSON_KIND_STRING, .offset = LOCK(label), .max = 128},
};

static const struct json_field renew_fields[] = {
    {"ttl_s", JSON_KIND_INT, .offset = LOCK(ttl_s), .min = LOCK_TTL_MIN_S,
     .max = LOCK_TTL_MAX_S},
    {"token", JSON_KIND_STRING, .offset = LOCK(token), .min = 1, .max = 256},
};

static void encode_lock(struct json_writer *w, const struct workspace_lock *l,
                        const char *token)
{
    json_write_open(w, NULL, '{');
    json_write_string(w, "id", l->id);
    json_write_string(w, "path", l->path);
    json_write_string(w, "holder", l->holder);
    native_encode_text(w, "session", l->session);
    native_encode_text(w, "label", l->label);
    json_write_int(w, "fence", l->fence);
    json_write_time(w, "acquired_at", l->acquired_at_ms);
    json_write_time(w, "expires_at", l->expires_at_ms);
    if (token)
        json_write_string(w, "token", token);
    json_write_close(w, '}');
}

static void respond(struct doors_call *call, unsigned status,
                    const struct workspace_lock *l, const char *token)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    encode_lock(&w, l, token);
    http_respond_json(call->http, status, &body);
}

int native_locks_create(struct doors_call *call, struct error *err)
{
    struct workspace_lock lock cleanup(workspace_lock_done) = {.path = NULL};
    json_t *json cleanup(json_unref) = NULL;
    struct lock_body b = {.ttl_s = TTL_DEFAULT_S};
    char token[65];
    int r = native_ask_body(call, lock_fields, ARRAY_SIZE(lock_fields), &b,
                            &json, err);

    if (r == 0)
        r = workspace_lock(
            call->doors->workspaces, &call->actor, call->params[0],
            &(struct workspace_lock_spec){.path = b.path,
                                          .ttl_s = (uint32_t)b.ttl_s,
                                          .session = b.session,
                                          .label = b.label},
            &lock, token, err);
    if (r == 0)
        respond(call, 201, &lock, token);
    return r;
}

int native_locks_list(struct doors_call *call, struct error *err)
{
    struct workspace_lock *locks = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    size_t count = 0;
    int r = workspace_locks(call->doors->workspaces, &call->actor,
                            call->params[0], &locks, &count, err);

    if (r < 0)
        return r;
    native_encode_list(&w);
    for (size_t i = 0; i < count; i++)
        encode_lock(&w, &locks[i], NULL);
    native_encode_list_end(&w, false);
    workspace_locks_free(locks, count);
    http_respond_json(call->http, 200, &body);
    return 0;
}

/* The one token of the header, unless the body had it. */
static int ask_token(struct doors_call *call, const char **ret,
                     struct error *err)
{
    struct native_locks locks;
    int r = native_ask_locks(call, &locks, err);

    if (r < 0 || *ret)
        return r;
    if (locks.count != 1) {
        (void)error_set(err, ERR_INVALID, "the lock's token is missing");
        return error_hint(err, "Send it in X-Glovebox-Lock.");
    }
    *ret = locks.tokens[0];
    return 0;
}

int native_locks_renew(struct doors_call *call, struct error *err)
{
    struct workspace_lock lock cleanup(workspace_lock_done) = {.path = NULL};
    json_t *json cleanup(json_unref) = NULL;
    struct lock_body b = {.ttl_s = TTL_DEFAULT_S};
    int r = native_ask_body_maybe(call, renew_fields, ARRAY_SIZE(renew_fields),
                                  &b, &json, err);

    if (r == 0)
        r = ask_token(call, &b.token, err);
    if (r == 0)
        r = workspace_lock_renew(call->doors->workspaces, &call->actor,
                                 call->params[0], call->params[1], b.token,
                                 (uint32_t)b.ttl_s, &lock, err);
    if (r == 0)
        respond(call, 200, &lock, NULL);
    return r;
}

int native_locks_release(struct doors_call *call, struct error *err)
{
    const char *token = NULL;
    bool force = false;
    int r = native_ask_flag(call, "force", &force, err);

    if (r == 0 && !force)
        r = ask_token(call, &token, err);
    if (r == 0)
        r = workspace_unlock(call->doors->workspaces, &call->actor,
                             call->params[0], call->params[1], token, err);
    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}
