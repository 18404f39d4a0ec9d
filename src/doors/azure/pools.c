/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control plane: session pools made, shown, changed and removed at
 * …/providers/Microsoft.App/sessionPools. For administrators; runs on a
 * worker of the daemon. Built-in pools are ready at once, so nothing here is
 * asynchronous.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "doors/azure/azure.h"
#include "json/json.h"

#define NAME_MIN 3u
#define NAME_MAX_ 63u
#define NEW_SHAPE "2025-01-01" /* versions are dates, so they compare */

static int ask_old(struct doors_call *call, bool *ret, struct error *err)
{
    const char *version = NULL;
    int r = http_query(call->http, "api-version", &version, err);

    *ret = version && version[0] && strcmp(version, NEW_SHAPE) < 0;
    return r;
}

static void respond(struct doors_call *call, const struct pool_info *pool,
                    bool old)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    azure_arm_encode(call, &w, pool, old);
    azure_encode_respond(call, 200, &body);
}

/* A pool of another place is as unknown. */
static int find(struct doors_call *call, struct pool_info *ret,
                struct error *err)
{
    int r = session_pool_get(call->doors->sessions, &call->actor,
                             call->place[AZURE_POOL], ret, err);

    if (r == 0 && !azure_arm_here(call, ret))
        r = -ERR_NOT_FOUND;
    if (r == -ERR_NOT_FOUND)
        return error_set(err, ERR_NOT_FOUND, "no such session pool");
    return r;
}

/* ---- looking ------------------------------------------------------------ */

int azure_pools_get(struct doors_call *call, struct error *err)
{
    struct pool_info pool cleanup(pool_info_done) = {.details = NULL};
    bool old = false;
    int r = ask_old(call, &old, err);

    if (r == 0)
        r = find(call, &pool, err);
    if (r == 0)
        respond(call, &pool, old);
    return r;
}

int azure_pools_list(struct doors_call *call, struct error *err)
{
    struct pool_info *pools = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    size_t count = 0;
    bool old = false;
    int r = ask_old(call, &old, err);

    if (r == 0)
        r = session_pool_list(call->doors->sessions, &call->actor, &pools,
                              &count, err);
    if (r < 0)
        return r;
    json_write_open(&w, NULL, '{');
    json_write_open(&w, "value", '[');
    for (size_t i = 0; i < count; i++) {
        if (azure_arm_here(call, &pools[i]))
            azure_arm_encode(call, &w, &pools[i], old);
        pool_info_done(&pools[i]);
    }
    free(pools);
    json_write_close(&w, ']');
    json_write_close(&w, '}');
    azure_encode_respond(call, 200, &body);
    return 0;
}

/* ---- changing ----------------------------------------------------------- */

static int check_name(const char *name, struct error *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    size_t len = strlen(name);

    if (len >= NAME_MIN && len <= NAME_MAX_ && strchr(letters, name[0]) &&
        strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789") == len)
        return 0;
    return error_set(err, ERR_INVALID,
                     "a session pool's name must have %u to %u lower-case "
                     "letters and digits, a letter first",
                     NAME_MIN, NAME_MAX_);
}

static void note_place(struct doors_call *call, json_t *details)
{
    (void)json_object_set_new(details, "subscription",
                              json_string(call->place[AZURE_SUBSCRIPTION]));
    (void)json_object_set_new(details, "group",
                              json_string(call->place[AZURE_GROUP]));
}

/* A PUT resets omitted properties to their defaults, but never the keys. */
static json_t *fresh_details(const struct pool_info *was)
{
    json_t *before cleanup(json_unref) = azure_arm_details(was);
    json_t *details = json_object();
    json_t *keys = json_object_get(before, "mcpKeys");

    if (keys)
        (void)json_object_set(details, "mcpKeys", keys);
    return details;
}

static int change(struct doors_call *call, bool patch, struct error *err)
{
    struct pool_info was cleanup(pool_info_done) = {.details = NULL};
    struct pool_info now cleanup(pool_info_done) = {.details = NULL};
    json_t *body cleanup(json_unref) = NULL;
    json_t *details cleanup(json_unref) = NULL;
    char *text cleanup(mem_free) = NULL;
    struct pool_spec spec;
    char runtime[64];
    bool old = false, made, there = false;
    int r = ask_old(call, &old, err);

    if (r == 0)
        r = http_body_json(call->http, call->doors->conf->json_bytes, &body,
                           err);
    if (r == 0) {
        r = find(call, &was, err);
        there = r == 0;
        if (r == -ERR_NOT_FOUND && !patch)
            r = check_name(call->place[AZURE_POOL], err);
    }
    if (r < 0)
        return r;
    details = patch ? azure_arm_details(&was) : fresh_details(&was);
    r = azure_arm_read(body, details, &spec, runtime, err);
    if (r < 0)
        return r;
    if (!there && spec.kind < 0)
        spec.kind = POOL_PYTHON;
    /* An allowlist says that it is enabled: said again, it stays one. */
    if (there && was.egress == SESSION_EGRESS_ALLOWLIST && spec.egress &&
        strcmp(spec.egress, "open") == 0)
        spec.egress = NULL;
    if (!there && !spec.egress)
        spec.egress = "none"; /* as that service has it */
    note_place(call, details);
    text = azure_arm_text(details);
    spec.name = call->place[AZURE_POOL];
    spec.details = text;
    r = session_pool_put(call->doors->sessions, &call->actor,
                         there ? POOL_CHANGE : POOL_MAKE, &spec, &made, &now,
                         err);
    if (r == 0)
        respond(call, &now, old);
    return r;
}

int azure_pools_put(struct doors_call *call, struct error *err)
{
    return change(call, false, err);
}

int azure_pools_patch(struct doors_call *call, struct error *err)
{
    return change(call, true, err);
}

/* Deleting a pool that does not exist succeeds. */
int azure_pools_delete(struct doors_call *call, struct error *err)
{
    struct pool_info pool cleanup(pool_info_done) = {.details = NULL};
    int r = find(call, &pool, err);

    if (r == 0)
        r = session_pool_remove(call->doors->sessions, &call->actor, pool.name,
                                err);
    if (r == 0 || r == -ERR_NOT_FOUND) {
        azure_encode_empty(call, 204);
        return 0;
    }
    return r;
}
