/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pools, workspaces and sessions a key is restricted to: lists of ids,
 * checked when they are built so that readers need not check them again; see
 * auth.h. Runs in the daemon.
 */
#include <string.h>

#include "auth/auth_int.h"
#include "base/error.h"
#include "base/mem.h"

static bool is_pool(const char *name)
{
    size_t len = strnlen(name, 64);

    return len > 0 && len < 64 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-"
                        "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == len;
}

static bool is_workspace(const char *id)
{
    return ids_valid("ws", id);
}

static bool is_session(const char *id)
{
    return ids_valid("sess", id) || ids_valid_dated("cntr", id);
}

static const struct {
    const char *name, *one;
    bool (*check)(const char *id);
} kinds[] = {
    [ACTOR_POOLS] = {"pools", "a pool's name", is_pool},
    [ACTOR_WORKSPACES] = {"workspaces", "a workspace's id", is_workspace},
    [ACTOR_SESSIONS] = {"sessions", "a session's id", is_session},
};

const char *auth_restriction_name(enum actor_bound what)
{
    return kinds[what].name;
}

int auth_restriction_add(struct actor_bounds *b, enum actor_bound what,
                         const char *id, struct error *err)
{
    const struct actor so_far = {.bounds = b};
    char *list = b->ids[what];
    size_t used = strlen(list), len = strnlen(id, ACTOR_BOUND_MAX);

    if (!kinds[what].check(id))
        return error_set(err, ERR_INVALID, "'%.64s' is not %s", id,
                         kinds[what].one);
    if (used && actor_may(&so_far, what, id))
        return 0;
    if (used + (used > 0) + len >= ACTOR_BOUND_MAX)
        return error_set(err, ERR_INVALID,
                         "%s may have %d characters in all at most",
                         kinds[what].name, ACTOR_BOUND_MAX - 1);
    if (used)
        list[used++] = ',';
    memcpy(list + used, id, len + 1);
    return 0;
}
