/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests that sessions put to govern/, except for executions
 * (session/govern.c): a session that is to be created or shared, and files on
 * their way into one and out of it. Runs in gloveboxd on the caller's thread,
 * which holds no lock.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "session/session_int.h"

static const char *network_of(const struct session_spec *spec,
                              const struct pool *pool)
{
    if (spec->network)
        return session_egress_name(spec->network->mode);
    return pool->conf->egress ? pool->conf->egress : "none";
}

struct govern_scope session_govern_scope(const struct session *se,
                                         const struct actor *who)
{
    return (struct govern_scope){
        .actor = who,
        .session = se->id,
        .pool = se->pool->conf->name,
        .runtime = se->runtime->name,
        .network = session_egress_name(session_network_mode(se)),
        .pinned = atomic_load(&se->policy_version)};
}

int session_allow_create(struct sessions *m, const struct actor *who,
                         const struct session_spec *spec,
                         const struct pool *pool,
                         const struct runtime *runtime, struct error *err)
{
    const struct govern_scope scope = {.actor = who,
                                       .pool = pool->conf->name,
                                       .runtime = runtime->name,
                                       .network = network_of(spec, pool)};
    struct govern_request rq = govern_create_session(&scope);
    char *summary cleanup(mem_free) = NULL;

    if (govern_idle(&m->parts.govern))
        return 0;
    summary = xasprintf("make a session in pool %s (%s), network %s",
                        scope.pool, scope.runtime, scope.network);
    rq.summary = summary;
    govern_add(&rq, "pool", scope.pool);
    govern_add(&rq, "runtime", scope.runtime);
    govern_add(&rq, "network", scope.network);
    govern_add(&rq, "workspace", spec->workspace);
    govern_add(&rq, "name", spec->name);
    govern_add(&rq, "identifier", spec->identifier);
    return govern_enforce(&m->parts.govern, &rq, err);
}

int session_allow_share(struct sessions *m, const struct actor *who,
                        const struct pool *pool, const struct session *se,
                        struct error *err)
{
    const struct govern_scope scope = {
        .actor = who,
        .session = se ? se->id : NULL,
        .pool = pool->conf->name,
        .pinned = se ? atomic_load(&se->policy_version) : 0};
    struct govern_request rq = govern_share(&scope, NULL);
    char *summary cleanup(mem_free) = NULL;

    if (govern_idle(&m->parts.govern))
        return 0;
    summary = se ? xasprintf("share %s with the tenant", se->id)
                 : xasprintf("share a new session of pool %s with the tenant",
                             scope.pool);
    rq.object = scope.session;
    rq.summary = summary;
    govern_add(&rq, "session", scope.session);
    govern_add(&rq, "pool", scope.pool);
    govern_add(&rq, "sharing", "tenant");
    return govern_enforce(&m->parts.govern, &rq, err);
}

int session_allow_put(struct session *se, const struct actor *who,
                      const struct workspace_change *put, struct error *err)
{
    const struct govern_scope scope = session_govern_scope(se, who);
    struct govern_request rq =
        govern_file_in(&scope, put->path, put->mime, (int64_t)put->size);
    char *summary cleanup(mem_free) = NULL;

    if (govern_idle(&se->m->parts.govern))
        return 0;
    summary = xasprintf("put %.200s into %s", put->path, se->id);
    rq.object = se->id;
    rq.summary = summary;
    govern_add(&rq, "session", se->id);
    govern_add(&rq, "path", put->path);
    govern_add(&rq, "sha256", put->sha256);
    return govern_enforce(&se->m->parts.govern, &rq, err);
}

int session_allow_fetch(struct session *se, const struct actor *who,
                        const char *path, uint64_t size, struct error *err)
{
    const struct govern_scope scope = session_govern_scope(se, who);
    struct govern_request rq =
        govern_file_out(&scope, path, NULL, (int64_t)size);
    char *summary cleanup(mem_free) = NULL;
    char bytes[24];

    if (govern_idle(&se->m->parts.govern))
        return 0;
    summary = xasprintf("fetch %.200s from %s", path, se->id);
    (void)snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)size);
    rq.object = se->id;
    rq.summary = summary;
    govern_add(&rq, "session", se->id);
    govern_add(&rq, "path", path);
    govern_add(&rq, "size", bytes);
    return govern_enforce(&se->m->parts.govern, &rq, err);
}
