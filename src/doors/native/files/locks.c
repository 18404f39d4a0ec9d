/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/workspaces/{ws}/locks: leases on paths. Runs on a worker of the
 * daemon. A token is in the answer that made it and nowhere else.
 */
#include "api/api.h"
#include "base/mem.h"
#include "base/path.h"
#include "doors/native/native.h"
#include "json/json.h"

#define TTL_DEFAULT_S 300

/* ---- resources ---------------------------------------------------------- */

struct lock_body {
    const char *path, *session, *label, *token;
    int64_t ttl_s;
};

#define BODY(member) API_AT(struct lock_body, member)
#define TTL_FIELD                                                             \
    {                                                                         \
        "ttl_s", API_INT, API_DEFAULT, BODY(ttl_s), .min = LOCK_TTL_MIN_S,    \
                                                    .max = LOCK_TTL_MAX_S,    \
                                                    .value = TTL_DEFAULT_S    \
    }

static const struct api_field lock_spec_fields[] = {
    {"path", API_STRING, API_REQUIRED, BODY(path), .min = 1,
     .max = PATH_BYTES_MAX, .help = "need not exist yet"},
    TTL_FIELD,
    {"session", API_STRING, BODY(session), .min = 1, .max = ID_MAX,
     .help = "whose executions pass"},
    {"label", API_STRING, BODY(label), .max = LOCK_LABEL_MAX},
};
API_INPUT(native_lock_spec, "LockSpec", struct lock_body, lock_spec_fields,
          "A lock to be taken.");

static const struct api_field renew_spec_fields[] = {
    TTL_FIELD,
    {"token", API_STRING, BODY(token), .min = 1, .max = LOCK_TOKEN_MAX,
     .help = "instead of X-Glovebox-Lock"},
};
API_INPUT(native_renew_spec, "RenewSpec", struct lock_body, renew_spec_fields,
          "How long a lock is kept on.");

#define LOCK(member) API_AT(struct workspace_lock, member)

static const struct api_field lock_fields[] = {
    {"id", API_STRING, LOCK(id), .help = "lock_…"},
    {"path", API_STRING, LOCK(path)},
    {"holder", API_STRING, LOCK(holder), .help = "a key's id"},
    {"holder_name", API_STRING, API_NULLABLE | API_NAME_OF, LOCK(holder)},
    {"session", API_STRING, API_NULLABLE, LOCK(session)},
    {"label", API_STRING, API_NULLABLE, LOCK(label)},
    {"fence", API_INT, LOCK(fence),
     .help = "grows with every lock on the path"},
    {"acquired_at", API_TIME, LOCK(acquired_at_ms)},
    {"expires_at", API_TIME, LOCK(expires_at_ms)},
};
API_OUTPUT(native_lock, "Lock", struct workspace_lock, lock_fields,
           "A lease on a path.");

struct lock_made {
    struct workspace_lock lock;
    const char *token;
};

static const struct api_field lock_made_fields[] = {
    {"token", API_STRING, API_AT(struct lock_made, token)},
};
API_OUTPUT_OF(native_lock_made, "LockMade", &native_lock, struct lock_made,
              lock_made_fields, "A lock with its token, shown once.");

/* ---- routes ------------------------------------------------------------- */

int native_locks_create(struct doors_call *call, struct error *err)
{
    struct workspace_lock lock cleanup(workspace_lock_done) = {.path = NULL};
    json_t *json cleanup(json_unref) = NULL;
    struct lock_body b = {0};
    char token[65];
    int r = native_read(call, &native_lock_spec, &b, &json, err);

    if (r == 0)
        r = workspace_lock(
            call->doors->workspaces, &call->actor, call->params[0],
            &(struct workspace_lock_spec){.path = b.path,
                                          .ttl_s = (uint32_t)b.ttl_s,
                                          .session = b.session,
                                          .label = b.label},
            &lock, token, err);
    if (r == 0)
        native_respond(call, 201, &native_lock_made,
                       &(struct lock_made){lock, token});
    return r;
}

int native_locks_list(struct doors_call *call, struct error *err)
{
    struct workspace_lock *locks = NULL;
    size_t count = 0;
    int r = workspace_locks(call->doors->workspaces, &call->actor,
                            call->params[0], &locks, &count, err);

    if (r < 0)
        return r;
    native_respond_list(call, &native_lock, locks, count, false);
    workspace_locks_free(locks, count);
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
    struct lock_body b = {0};
    int r = native_read_maybe(call, &native_renew_spec, &b, &json, err);

    if (r == 0)
        r = ask_token(call, &b.token, err);
    if (r == 0)
        r = workspace_lock_renew(call->doors->workspaces, &call->actor,
                                 call->params[0], call->params[1], b.token,
                                 (uint32_t)b.ttl_s, &lock, err);
    if (r == 0)
        native_respond(call, 200, &native_lock, &lock);
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
