/* SPDX-License-Identifier: Apache-2.0 */
/* What an actor is bound to; see audit.h. Daemon. */
#include <string.h>

#include "audit/audit.h"

bool actor_may(const struct actor *who, enum actor_bound what, const char *id)
{
    const char *at = who->bounds ? who->bounds->ids[what] : "";
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
