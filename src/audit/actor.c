/* SPDX-License-Identifier: Apache-2.0 */
/* The bounds of an actor; see audit.h. Runs in the daemon. */
#include <string.h>

#include "audit/audit.h"

const char *actor_bound(const struct actor *who, enum actor_bound what)
{
    return who->bounds ? who->bounds->ids[what] : "";
}

bool actor_bounded(const struct actor *who)
{
    for (int b = 0; b < ACTOR_BOUNDS; b++)
        if (actor_bound(who, (enum actor_bound)b)[0])
            return true;
    return false;
}

const char *actor_credential(const struct actor *who)
{
    return who->token && who->token[0] ? who->token : who->key;
}

bool actor_may(const struct actor *who, enum actor_bound what, const char *id)
{
    const char *at = actor_bound(who, what);
    size_t len = strlen(id);

    if (!*at)
        return true;
    for (;; at++) {
        size_t n = strcspn(at, ",");

        if (n == len && memcmp(at, id, n) == 0)
            return true;
        at += n;
        if (!*at)
            return false;
    }
}
