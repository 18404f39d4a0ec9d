/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission control: creating and sharing a session, uploading and downloading
 * a file each ask govern/ here. Runs in gloveboxd on the caller's thread,
 * which holds no lock.
 */
#include <stdio.h>
#include <string.h>

#include "approval/approval.h"
#include "base/error.h"
#include "base/mem.h"
#include "session/session_int.h"

/* ---- sessions and files --------------------------------------------------
 */

static const char *network_of(const struct session_spec *spec,
                              const struct pool *pool)
{
    if (spec->network)
        return session_egress_name(spec->network->mode);
    return pool_conf(pool)->egress ? pool_conf(pool)->egress : "none";
}

struct govern_scope session_govern_scope(const struct session *se,
                                         const struct actor *who)
{
    return (struct govern_scope){
        .actor = who,
        .session = se->id,
        .pool = pool_conf(se->pool)->name,
        .runtime = runtime_name(se->runtime),
        .network = session_egress_name(network_mode(se->net)),
        .pinned = atomic_load(&se->policy_version)};
}

int session_admit_possible(struct sessions *m, const struct actor *who,
                           const struct session_spec *spec,
                           const struct pool *pool,
                           const struct runtime *runtime, struct error *err)
{
    const struct govern_scope scope = {.actor = who,
                                       .pool = pool_conf(pool)->name,
                                       .runtime = runtime_name(runtime),
                                       .network = network_of(spec, pool)};
    const struct govern_request asks[] = {govern_create_session(&scope),
                                          govern_share(&scope, NULL)};
    size_t count = spec->sharing == SESSION_SHARING_TENANT ? 2 : 1;
    struct policy_decision d;

    for (size_t i = 0; i < count && !govern_idle(&m->govern); i++) {
        govern_decide(&m->govern, &asks[i], &d);
        if (d.verdict == POLICY_DENY)
            return govern_apply(&m->govern, &asks[i], &d, err);
    }
    return 0;
}

int session_admit_create(struct sessions *m, const struct actor *who,
                         const struct session_spec *spec,
                         const struct pool *pool,
                         const struct runtime *runtime, struct error *err)
{
    const struct govern_scope scope = {.actor = who,
                                       .pool = pool_conf(pool)->name,
                                       .runtime = runtime_name(runtime),
                                       .network = network_of(spec, pool)};
    struct govern_request rq = govern_create_session(&scope);
    char *summary cleanup(mem_free) = NULL;

    if (govern_idle(&m->govern))
        return 0;
    summary = xasprintf("create a session in pool %s (%s), network %s",
                        scope.pool, scope.runtime, scope.network);
    rq.summary = summary;
    govern_add(&rq, "pool", scope.pool);
    govern_add(&rq, "runtime", scope.runtime);
    govern_add(&rq, "network", scope.network);
    govern_add(&rq, "workspace", spec->workspace);
    govern_add(&rq, "name", spec->name);
    govern_add(&rq, "identifier", spec->identifier);
    return govern_enforce(&m->govern, &rq, err);
}

int session_admit_share(struct sessions *m, const struct actor *who,
                        const struct pool *pool, const struct session *se,
                        struct error *err)
{
    const struct govern_scope scope = {
        .actor = who,
        .session = se ? se->id : NULL,
        .pool = pool_conf(pool)->name,
        .pinned = se ? atomic_load(&se->policy_version) : 0};
    struct govern_request rq = govern_share(&scope, NULL);
    char *summary cleanup(mem_free) = NULL;

    if (govern_idle(&m->govern))
        return 0;
    summary = se ? xasprintf("share %s with the tenant", se->id)
                 : xasprintf("share a new session of pool %s with the tenant",
                             scope.pool);
    rq.object = scope.session;
    rq.summary = summary;
    govern_add(&rq, "session", scope.session);
    govern_add(&rq, "pool", scope.pool);
    govern_add(&rq, "sharing", "tenant");
    return govern_enforce(&m->govern, &rq, err);
}

int session_admit_upload(struct session *se, const struct actor *who,
                         const struct workspace_change *put, struct error *err)
{
    const struct govern_scope scope = session_govern_scope(se, who);
    struct govern_request rq =
        govern_file_in(&scope, put->path, put->mime, (int64_t)put->size);
    char *summary cleanup(mem_free) = NULL;

    if (govern_idle(&se->m->govern))
        return 0;
    summary = xasprintf("put %.200s into %s", put->path, se->id);
    rq.object = se->id;
    rq.summary = summary;
    govern_add(&rq, "session", se->id);
    govern_add(&rq, "path", put->path);
    govern_add(&rq, "sha256", put->sha256);
    return govern_enforce(&se->m->govern, &rq, err);
}

int session_admit_download(struct session *se, const struct actor *who,
                           const char *path, uint64_t size, struct error *err)
{
    const struct govern_scope scope = session_govern_scope(se, who);
    struct govern_request rq =
        govern_file_out(&scope, path, NULL, (int64_t)size);
    char *summary cleanup(mem_free) = NULL;
    char bytes[24];

    if (govern_idle(&se->m->govern))
        return 0;
    summary = xasprintf("fetch %.200s from %s", path, se->id);
    (void)snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)size);
    rq.object = se->id;
    rq.summary = summary;
    govern_add(&rq, "session", se->id);
    govern_add(&rq, "path", path);
    govern_add(&rq, "size", bytes);
    return govern_enforce(&se->m->govern, &rq, err);
}

int session_admit_memory(struct session *se, const struct actor *who,
                         enum policy_action act, struct error *err)
{
    const struct govern_scope scope = session_govern_scope(se, who);
    struct govern_request rq = govern_memory(&scope, act);
    char summary[128];

    if (govern_idle(&se->m->govern))
        return 0;
    (void)snprintf(summary, sizeof(summary), "%s the memory of %s",
                   policy_action_name(act), se->id);
    rq.workspace = se->workspace;
    rq.summary = summary;
    return govern_enforce(&se->m->govern, &rq, err);
}
