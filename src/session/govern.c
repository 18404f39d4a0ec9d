/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before an execution: does the tenant have any of its quotas left, and what
 * does policy say? After it: what it used is counted, and everything known of
 * it goes to the evidence. Runs in gloveboxd on the execution's thread; holds
 * no lock.
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

const char *session_language_name(enum exec_language language)
{
    return language == EXEC_SHELL ? "shell" : "python";
}

/* ---- before ------------------------------------------------------------- */

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

void session_govern_unrun(struct sessions *m, const struct session *se,
                          const struct execution *e)
{
    if (!e->info.approval[0])
        quota_give(m->parts.quotas, se->tenant->name, QUOTA_RUNS_PER_HOUR, 1);
}

static void decide(struct sessions *m, const struct session *se,
                   const struct actor *who, struct execution *e)
{
    const struct conf_pool *pool = se->pool->conf;
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

int session_govern_admit(struct sessions *m, struct session *se,
                         const struct actor *who, const struct exec_spec *spec,
                         struct execution *e, struct error *err)
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

void session_govern_denied(const struct execution *e, struct verdict *ret)
{
    const struct policy_decision *d = &e->decision;

    *ret = (struct verdict){.outcome = OUTCOME_DENIED, .exit_code = -1};
    (void)snprintf(ret->failure, sizeof(ret->failure),
                   "policy does not allow this: rule '%s' of %s, version "
                   "%lld%s%s",
                   d->rule, d->layer, (long long)d->version,
                   d->reason[0] ? ": " : "", d->reason);
}

/* ---- after -------------------------------------------------------------- */

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

void session_govern_record(struct sessions *m, struct session *se,
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
    session_remember(m, se, e, code, code_len, output);
}
