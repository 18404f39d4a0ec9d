/* SPDX-License-Identifier: Apache-2.0 */
/* Whether code may run at all; see posture/. Runs in gloveboxd. */
#include <stdio.h>

#include "base/error.h"
#include "base/thread.h"
#include "session/session_int.h"

void sessions_gate(struct sessions *s, const char *check, const char *why)
{
    mutex_lock(&s->lock);
    (void)snprintf(s->closed_why, sizeof(s->closed_why), "%s: %s",
                   check ? check : "", why);
    atomic_store(&s->closed, check != NULL);
    mutex_unlock(&s->lock);
}

int session_gate(struct sessions *m, struct error *err)
{
    if (!atomic_load(&m->closed))
        return 0;
    mutex_lock(&m->lock);
    (void)error_set(err, ERR_ISOLATION, "no code is run here now; %.280s",
                    m->closed_why);
    mutex_unlock(&m->lock);
    return error_hint(err, "The operator sees why with `glovebox doctor "
                           "--gate`.");
}
