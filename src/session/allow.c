/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What policy says about making a session, and about files on their way into
 * one and out of it, by whichever door; executions are govern.c's. Runs in
 * gloveboxd on the caller's thread, which holds no lock.
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

int session_allow_create(struct sessions *m, const struct actor *who,
                         const struct session_spec *spec,
                         const struct pool *pool,
                         const struct runtime *runtime, struct error *err)
{
    const char *network = network_of(spec, pool);
    char *summary cleanup(mem_free) = NULL;
    struct workspace_act act = {.rq = {.action = POLICY_SESSION,
                                       .who = who,
                                       .pool = pool->conf->name,
                                       .runtime = runtime->name,
                                       .network = network,
                                       .code_bytes = -1,
                                       .file_bytes = -1}};

    if (policy_idle(m->parts.policy))
        return 0;
    summary = xasprintf("make a session in pool %s (%s), network %s",
                        pool->conf->name, runtime->name, network);
    act.summary = summary;
    return workspace_govern(m->workspaces, &act, err, "pool", pool->conf->name,
                            "runtime", runtime->name, "network", network,
                            "workspace", spec->workspace, "name", spec->name,
                            "identifier", spec->identifier, NULL);
}

static struct workspace_act about_file(const struct session *se,
                                       const struct actor *who,
                                       enum policy_action action,
                                       const char *path, const char *mime,
                                       uint64_t size)
{
    return (struct workspace_act){
        .pinned = atomic_load(&se->policy_version),
        .rq = {.action = action,
               .who = who,
               .session = se->id,
               .pool = se->pool->conf->name,
               .runtime = se->runtime->name,
               .code_bytes = -1,
               .file = path,
               .mime = mime,
               .file_bytes = (int64_t)size},
        .object = se->id,
    };
}

int session_allow_put(struct session *se, const struct actor *who,
                      const struct workspace_change *put, struct error *err)
{
    struct workspace_act act =
        about_file(se, who, POLICY_FILE_IN, put->path, put->mime, put->size);
    char *summary cleanup(mem_free) = NULL;

    if (policy_idle(se->m->parts.policy))
        return 0;
    summary = xasprintf("put %.200s into %s", put->path, se->id);
    act.summary = summary;
    return workspace_govern(se->m->workspaces, &act, err, "session", se->id,
                            "path", put->path, "sha256", put->sha256, NULL);
}

int session_allow_fetch(struct session *se, const struct actor *who,
                        const char *path, uint64_t size, struct error *err)
{
    struct workspace_act act =
        about_file(se, who, POLICY_FILE_OUT, path, NULL, size);
    char *summary cleanup(mem_free) = NULL;
    char bytes[24];

    if (policy_idle(se->m->parts.policy))
        return 0;
    summary = xasprintf("fetch %.200s from %s", path, se->id);
    act.summary = summary;
    (void)snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)size);
    return workspace_govern(se->m->workspaces, &act, err, "session", se->id,
                            "path", path, "size", bytes, NULL);
}
