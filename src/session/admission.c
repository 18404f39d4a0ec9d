/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission control: quotas and policy for everything a session does. Creating
 * and sharing a session, uploading and downloading a file, and running code
 * each ask govern/ here. After an execution this file charges its usage to the
 * tenant's quotas and passes its record to record_evidence.c. Runs in
 * gloveboxd on the caller's thread, which holds no lock.
 */
#include <stdio.h>
#include <string.h>

#include "approval/approval.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "quota/quota.h"
#include "session/session_int.h"

#define TOKEN_BYTES 4u /* of output, by the usual rule of thumb */

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
        .network = session_egress_name(session_network_mode(se)),
        .pinned = atomic_load(&se->policy_version)};
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

int session_admit_upload(struct session *se, const struct actor *who,
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

int session_admit_download(struct session *se, const struct actor *who,
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

const char *session_language_name(enum exec_language language)
{
    return language == EXEC_SHELL ? "shell" : "python";
}

/* ---- an execution, before it runs ----------------------------------------
 */

static int check_quotas(struct sessions *m, const struct session *se,
                        struct execution *e, struct error *err)
{
    static const enum quota_kind spent[] = {QUOTA_CPU, QUOTA_OUTPUT};
    const char *tenant = se->tenant->name;
    int rc = quota_repeat_check(m->parts.quotas, tenant, se->id, e->code_hash,
                                &e->info.repeats, err);

    for (size_t i = 0; rc == 0 && i < ARRAY_SIZE(spent); i++)
        rc = quota_check(m->parts.quotas, tenant, spent[i], err);
    /* One that was held has been counted when it was asked for. */
    if (rc == 0 && !e->info.approval[0])
        rc = quota_take(m->parts.quotas, tenant, QUOTA_RUNS_PER_HOUR, 1, err);
    return rc;
}

void session_admit_undo(struct sessions *m, const struct session *se,
                        const struct execution *e)
{
    if (!e->info.approval[0])
        quota_give(m->parts.quotas, se->tenant->name, QUOTA_RUNS_PER_HOUR, 1);
}

static void decide(struct sessions *m, const struct session *se,
                   const struct actor *who, struct execution *e)
{
    const struct conf_pool *pool = pool_conf(se->pool);
    const struct govern_scope scope = session_govern_scope(se, who);
    struct govern_request rq =
        govern_execute(&scope, session_language_name(e->info.language),
                       e->code_len, e->timeout_s, pool->output_bytes);
    struct policy_decision *d = &e->decision;

    rq.object = e->info.id;
    govern_decide(&m->parts.govern, &rq, d);
    govern_record(&m->parts.govern, &rq, d);
    if (d->timeout_s && d->timeout_s < e->timeout_s)
        e->timeout_s = (uint32_t)d->timeout_s;
    if (d->output_bytes && (uint64_t)d->output_bytes < pool->output_bytes)
        e->output_cap = (uint64_t)d->output_bytes;
    if (m->parts.govern.policy)
        e->info.decision = d;
}

/* Its own author wants it looked at. */
static void ask_anyway(struct policy_decision *d)
{
    d->verdict = POLICY_ASK;
    (void)snprintf(d->rule, sizeof(d->rule), "requested");
    (void)snprintf(d->layer, sizeof(d->layer), "request");
}

int session_admit_execution(struct sessions *m, struct session *se,
                            const struct actor *who,
                            const struct exec_spec *spec, struct execution *e,
                            struct error *err)
{
    int rc;

    hash_sha256(e->code, e->code_len, e->code_hash);
    rc = check_quotas(m, se, e, err);
    if (rc < 0)
        return rc;
    decide(m, se, who, e);
    if (spec->ask && !spec->approval && e->decision.verdict == POLICY_ALLOW)
        ask_anyway(&e->decision);
    /* Somebody has said yes; a policy that says no since then still wins. */
    if (spec->approval && e->decision.verdict == POLICY_ASK)
        e->decision.verdict = POLICY_ALLOW;
    return 0;
}

void session_admit_denied(const struct execution *e, struct outcome *ret)
{
    const struct policy_decision *d = &e->decision;

    *ret = (struct outcome){.outcome = OUTCOME_DENIED, .exit_code = -1};
    (void)snprintf(ret->failure, sizeof(ret->failure),
                   "policy does not allow this: rule '%s' of %s, version "
                   "%lld%s%s",
                   d->rule, d->layer, (long long)d->version,
                   d->reason[0] ? ": " : "", d->reason);
}

/* ---- an execution, after it ran ------------------------------------------
 */

/* By its own doing. */
static bool failed(enum exec_outcome outcome)
{
    return outcome != OUTCOME_OK && outcome != OUTCOME_CANCELLED &&
           outcome != OUTCOME_DENIED && outcome != OUTCOME_NONE &&
           outcome != OUTCOME_ISOLATION_FAILED;
}

static uint64_t output_of(struct execution *e)
{
    struct exec_event event;
    uint64_t bytes = 0;

    for (uint32_t n = 0; execution_event(e, n, &event); n++)
        if (event.type == EVENT_STDOUT || event.type == EVENT_STDERR ||
            event.type == EVENT_RESULT || event.type == EVENT_ERROR)
            bytes += event.len;
    return bytes;
}

/* Of all that its executions took together, those that became full by this
 * one: the milliseconds of many short ones count, and no more than they are.
 */
static uint64_t whole_seconds(struct tenant *t, uint64_t cpu_ms)
{
    uint64_t before = atomic_fetch_add(&t->cpu_ms, cpu_ms);

    return (before + cpu_ms) / 1000 - before / 1000;
}

void session_account_execution(struct sessions *m, struct session *se,
                               struct execution *e, const char *code,
                               size_t code_len)
{
    const char *tenant = se->tenant->name;
    struct exec_info info;
    uint64_t output = output_of(e);

    execution_info(e, &info);
    quota_spend(m->parts.quotas, tenant, QUOTA_CPU,
                whole_seconds(se->tenant, info.cpu_ms));
    quota_spend(m->parts.quotas, tenant, QUOTA_OUTPUT, output / TOKEN_BYTES);
    if (info.status != EXEC_PENDING) /* that says nothing of the code */
        quota_repeat_note(m->parts.quotas, tenant, se->id, e->code_hash,
                          failed(info.outcome));
    session_record_evidence(m, se, e, code, code_len, output);
}
