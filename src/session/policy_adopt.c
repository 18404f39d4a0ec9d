/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves a session to the newest policy version. A session obeys the policy it
 * was created under as well as the newest one. Dropping the older one is an
 * explicit, audited call, so that no session becomes less restricted by
 * itself. Runs in gloveboxd on the caller's thread.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "session/session_int.h"
#include "store/store.h"

static int store_version(struct session *se, const struct actor *who,
                         int64_t from, int64_t to, struct error *err)
{
    struct workspaces *w = se->m->workspaces;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    char before[24], after[24];
    struct audit_event event = {.action = "session.policy",
                                .workspace = se->workspace,
                                .object = se->id,
                                .before = before,
                                .after = after};
    int rc = store_begin(workspaces_store(w), STORE_WRITE,
                         "taking over a policy", &tx, err);

    (void)snprintf(before, sizeof(before), "%lld", (long long)from);
    (void)snprintf(after, sizeof(after), "%lld", (long long)to);
    if (rc == 0 && se->stored)
        rc = MIN(store_exec(tx, err,
                            "UPDATE sessions SET policy_version = ?2"
                            " WHERE id = ?1",
                            "ti", se->id, to),
                 0);
    if (rc == 0)
        rc = audit_add(workspaces_audit(w), tx, who, &event, err);
    return rc < 0 ? rc : store_commit(&tx, err);
}

int session_policy_adopt(struct sessions *s, const struct actor *who,
                         const char *id, struct error *err)
{
    struct policy_state state;
    struct session *se = session_acquire(s, who, id, err);
    int64_t was;
    int rc = 0;

    if (!se)
        return -(int)err->code;
    policy_state(s->parts.govern.policy, &state);
    was = atomic_load(&se->policy_version);
    if (!state.loaded)
        rc = error_set(err, ERR_CONFLICT,
                       "there is no policy that can be used");
    else if (was != state.version)
        rc = store_version(se, who, was, state.version, err);
    if (rc == 0)
        atomic_store(&se->policy_version, state.version);
    session_release(se);
    return rc;
}
