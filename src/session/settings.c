/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session is governed by: its network and its policy version. Runs in
 * gloveboxd on the caller's thread.
 *
 * A session obeys the policy it was created under as well as the newest one.
 * Dropping the older one is an explicit, audited call, so that no session
 * becomes less restricted by itself.
 */
#include <stdio.h>
#include <string.h>

#include "auth/auth.h"
#include "base/error.h"
#include "base/mem.h"
#include "session/session_int.h"
#include "store/store.h"

/* ---- the network -------------------------------------------------------- */

void session_bind_network(struct session *se)
{
    network_bind(se->net,
                 &(struct network_owner){
                     .session = se->id,
                     .workspace = se->workspace,
                     .tenant = se->tenant->name,
                     .key = se->owner,
                     .admin = se->owner_admin,
                     .pool = se->pool,
                     .runtime = runtime_name(se->runtime),
                     .policy_version = atomic_load(&se->policy_version)});
}

int session_network_get(struct sessions *s, const struct actor *who,
                        const char *id, struct network_info *ret,
                        struct error *err)
{
    struct session *se = session_acquire(s, who, id, err);

    if (!se)
        return -(int)err->code;
    network_show(se->net, ret);
    session_release(se);
    return 0;
}

int session_reach(struct sessions *s, const struct actor *who, const char *id,
                  struct session_info *ret_session,
                  struct network_info *ret_network, struct error *err)
{
    struct actor service = {.tenant = who->tenant,
                            .key = "glovebox",
                            .admin = true,
                            .scopes = AUTH_ADMIN};
    struct session *se = session_acquire(s, &service, id, err);

    if (!se)
        return -(int)err->code;
    session_fill_info(se, ret_session);
    network_show(se->net, ret_network);
    session_release(se);
    return 0;
}

/* network_save_fn: into the session's row, if it has one. */
static int save_network(void *ctx, struct store_tx *tx, const char *text,
                        struct error *err)
{
    struct session *se = ctx;

    if (!se->stored)
        return 0;
    return MIN(store_exec(tx, err,
                          "UPDATE sessions SET network = ?2 WHERE id = ?1",
                          "tt", se->id, text),
               0);
}

int session_network_set(struct sessions *s, const struct actor *who,
                        const char *id, const struct network_spec *net,
                        struct network_info *ret, struct error *err)
{
    struct session *se = session_acquire(s, who, id, err);
    int rc;

    if (!se)
        return -(int)err->code;
    rc = network_change(se->net, who, net, save_network, se, ret, err);
    session_release(se);
    return rc;
}

/* ---- the policy --------------------------------------------------------- */

static int store_version(struct session *se, const struct actor *who,
                         int64_t from, int64_t to, struct error *err)
{
    const struct core *core = se->m->core;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    char before[24], after[24];
    struct audit_event event = {.action = "session.policy",
                                .workspace = se->workspace,
                                .object = se->id,
                                .before = before,
                                .after = after};
    int rc = store_begin(core->store, STORE_WRITE, "taking over a policy", &tx,
                         err);

    (void)snprintf(before, sizeof(before), "%lld", (long long)from);
    (void)snprintf(after, sizeof(after), "%lld", (long long)to);
    if (rc == 0 && se->stored)
        rc = MIN(store_exec(tx, err,
                            "UPDATE sessions SET policy_version = ?2"
                            " WHERE id = ?1",
                            "ti", se->id, to),
                 0);
    if (rc == 0)
        rc = audit_add(core->audit, tx, who, &event, err);
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
    policy_state(s->govern.policy, &state);
    was = atomic_load(&se->policy_version);
    if (!state.loaded)
        rc = error_set(err, ERR_CONFLICT,
                       "there is no policy that can be used");
    else if (was != state.version)
        rc = store_version(se, who, was, state.version, err);
    if (rc == 0) {
        atomic_store(&se->policy_version, state.version);
        network_set_policy(se->net, state.version);
    }
    session_release(se);
    return rc;
}
