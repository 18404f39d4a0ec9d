/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys for a pool's MCP endpoint: one of the tenant's own, that may run code
 * in that pool and use files. For administrators; runs on a worker of the
 * daemon. Only the answer holds the secret, so each call makes a new key; the
 * pool's details remember which they are. Those that are replaced by a
 * rotation are good for a while yet, so that clients can be told.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "doors/azure/azure.h"
#include "govern/govern.h"
#include "json/json.h"

#define KEYS "mcpKeys"
#define KEYS_MAX 16u /* of one pool; the oldest goes */

/* until_ms: it is good so long; 0: not said. */
static int note(struct doors_call *call, const char *action, const char *key,
                int64_t until_ms, struct error *err)
{
    char at[32], detail[80];

    (void)snprintf(detail, sizeof(detail), "for a pool's MCP%s%s",
                   until_ms ? ", good until " : "",
                   until_ms ? clock_format_ms(until_ms, at) : "");
    return audit_note(call->doors->core->audit, &call->actor,
                      &(struct audit_event){
                          .action = action, .object = key, .detail = detail},
                      err);
}

static int find(struct doors_call *call, struct pool_info *ret,
                struct error *err)
{
    json_t *details cleanup(json_unref) = NULL;
    int r = session_pool_get(call->doors->sessions, &call->actor,
                             call->place[AZURE_POOL], ret, err);

    if (r == -ERR_NOT_FOUND || (r == 0 && !azure_arm_here(call, ret)))
        return error_set(err, ERR_NOT_FOUND, "no such session pool");
    if (r < 0)
        return r;
    details = azure_arm_details(ret);
    if (json_is_true(json_object_get(details, "isMcpServerApiKeyDisabled")))
        return error_set(err, ERR_INVALID,
                         "keys are disabled in this pool's settings "
                         "(isMcpServerApiKeyDisabled)");
    return 0;
}

/* Drops the oldest of the pool's keys, at until_ms (0: now); one that is gone
 * is no matter. */
static int revoke_first(struct doors_call *call, json_t *keys,
                        int64_t until_ms, struct error *err)
{
    struct auth *auth = call->doors->auth;
    const char *id = json_string_value(json_array_get(keys, 0));
    int r = 0;

    if (id)
        r = until_ms ? auth_key_expire(auth, id, until_ms, err)
                     : auth_key_revoke(auth, id, err);
    if (r == 0 && id)
        r = note(call, "key.revoke", id, until_ms, err);
    if (r == -ERR_NOT_FOUND)
        r = 0;
    (void)json_array_remove(keys, 0);
    return r;
}

/* Keeps the new key's id, and no more than so many with it. */
static int remember(struct doors_call *call, const struct pool_info *pool,
                    const char *id, size_t most, int64_t until_ms,
                    struct error *err)
{
    struct pool_info now cleanup(pool_info_done) = {.details = NULL};
    json_t *details cleanup(json_unref) = azure_arm_details(pool);
    json_t *keys = json_object_get(details, KEYS);
    char *text cleanup(mem_free) = NULL;
    struct pool_spec spec = {.name = pool->name,
                             .kind = -1,
                             .ready = -1,
                             .max_sessions = -1,
                             .cooldown_s = -1,
                             .memory_bytes = -1};
    bool made;
    int r = 0;

    if (!json_is_array(keys)) {
        (void)json_object_set_new(details, KEYS, json_array());
        keys = json_object_get(details, KEYS);
    }
    (void)json_array_append_new(keys, json_string(id));
    while (r == 0 && json_array_size(keys) > most)
        r = revoke_first(call, keys, until_ms, err);
    if (r < 0)
        return r;
    text = azure_arm_text(details);
    spec.details = text;
    return session_pool_put(call->doors->sessions, &call->actor, POOL_CHANGE,
                            &spec, &made, &now, err);
}

/* Both calls make a key, and a rotation ends the others. */
static int hold_pool_key(struct doors_call *call, const char *pool,
                         bool rotate, struct error *err)
{
    struct govern_request rq = govern_change(&call->actor);
    char *summary cleanup(mem_free) =
        xasprintf(rotate ? "replace the keys for the MCP endpoint of pool %s"
                         : "create a key for the MCP endpoint of pool %s",
                  pool);

    rq.object = pool;
    rq.summary = summary;
    govern_add(&rq, "change", rotate ? "key.rotate" : "key.create");
    govern_add(&rq, "pool", pool);
    return doors_need_second(call, &rq, err);
}

/* until_ms: those beyond `most` end then; 0: at once. */
static int issue(struct doors_call *call, size_t most, int64_t until_ms,
                 struct error *err)
{
    struct pool_info pool cleanup(pool_info_done) = {.details = NULL};
    char *secret cleanup(mem_free) = NULL;
    struct auth_key key = {.scopes = 0};
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    char name[AUTH_NAME_MAX];
    struct actor_bounds bounds = {0};
    const struct auth_key_spec spec = {
        .tenant = call->who.tenant,
        .name = name,
        .scopes = AUTH_EXECUTE | AUTH_FILES_READ | AUTH_FILES_WRITE,
        .bounds = &bounds,
    };
    int r = find(call, &pool, err);

    if (r == 0 && !pool.tenant[0] && most == 1)
        r = error_set(err, ERR_CONFLICT,
                      "the keys of a pool of the configuration are not "
                      "remembered with it; revoke them by their ids");
    if (r == 0)
        r = hold_pool_key(call, pool.name, most == 1, err);
    if (r < 0)
        return r;
    (void)snprintf(name, sizeof(name), "mcp %.56s", pool.name);
    r = auth_restriction_add(&bounds, ACTOR_POOLS, pool.name, err);
    if (r == 0)
        r = auth_key_create_as(call->doors->auth, &spec, &key, &secret, err);
    if (r == 0)
        r = note(call, "key.create", key.id, 0, err);
    if (r == 0 && pool.tenant[0])
        r = remember(call, &pool, key.id, most, until_ms, err);
    if (r < 0)
        return r;
    json_write_open(&w, NULL, '{');
    json_write_string(&w, "apiKey", secret);
    if (until_ms)
        json_write_time(&w, "previousKeysValidUntil", until_ms);
    json_write_close(&w, '}');
    azure_encode_respond(call, 200, &body);
    return 0;
}

int azure_credentials_fetch(struct doors_call *call, struct error *err)
{
    return issue(call, KEYS_MAX, 0, err);
}

int azure_credentials_rotate(struct doors_call *call, struct error *err)
{
    int64_t grace_s = call->doors->conf->mcp_key_grace_s;

    return issue(call, 1, grace_s ? clock_real_ms() + 1000 * grace_s : 0, err);
}
