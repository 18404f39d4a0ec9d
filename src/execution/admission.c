/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission of an execution: quotas and policy before it runs; afterwards its
 * usage is charged to the tenant's quotas and its record goes to
 * record_evidence.c. Runs in gloveboxd on the execution's thread, which holds
 * no lock.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "execution/execution_int.h"
#include "quota/quota.h"

#define TOKEN_BYTES 4u /* of output, by the usual rule of thumb */

const char *execution_language_name(enum exec_language language)
{
    return language_get(language)->name;
}

/* ---- an execution, before it runs ----------------------------------------
 */

static int check_quotas(struct executions *x, const struct session *se,
                        struct execution *e, struct error *err)
{
    static const enum quota_kind spent[] = {QUOTA_CPU, QUOTA_OUTPUT};
    const char *tenant = session_facts(se).tenant;
    int rc = quota_repeat_check(x->core->quotas, tenant, e->info.session,
                                e->code_hash, &e->info.repeats, err);

    for (size_t i = 0; rc == 0 && i < ARRAY_SIZE(spent); i++)
        rc = quota_check(x->core->quotas, tenant, spent[i], err);
    /* A held execution was counted when it was requested. */
    if (rc == 0 && !e->info.approval[0])
        rc = quota_take(x->core->quotas, tenant, QUOTA_RUNS_PER_HOUR, 1, err);
    return rc;
}

void execution_admit_undo(struct executions *x, const struct session *se,
                          const struct execution *e)
{
    if (!e->info.approval[0])
        quota_give(x->core->quotas, session_facts(se).tenant,
                   QUOTA_RUNS_PER_HOUR, 1);
}

struct govern_request execution_govern_request(
    const struct govern_scope *scope, const struct session *se,
    const struct execution *e)
{
    uint64_t output = pool_conf(session_facts(se).pool)->output_bytes;

    if (e->action == POLICY_SEARCH)
        return govern_search(scope, e->timeout_s, output);
    if (e->action == POLICY_REPORT)
        return govern_report(scope, e->timeout_s, output);
    return govern_execute(scope, execution_language_name(e->info.language),
                          e->code_len, e->timeout_s, output);
}

static void decide_execution(struct executions *x, const struct session *se,
                             const struct actor *who, struct execution *e)
{
    const struct conf_pool *pool = pool_conf(session_facts(se).pool);
    const struct govern_scope scope = session_govern_scope(se, who);
    struct govern_request rq = execution_govern_request(&scope, se, e);
    struct policy_decision *d = &e->decision;
    struct policy_check checks[POLICY_CHECKS_OF];

    rq.object = e->info.id;
    govern_decide(&x->govern, &rq, d);
    govern_record(&x->govern, &rq, d);
    execution_watch_checks(e, checks, govern_checks(&x->govern, &rq, checks));
    if (d->timeout_s && d->timeout_s < e->timeout_s)
        e->timeout_s = (uint32_t)d->timeout_s;
    if (d->output_bytes && (uint64_t)d->output_bytes < pool->output_bytes)
        e->output_cap = (uint64_t)d->output_bytes;
    if (x->govern.policy)
        e->info.decision = d;
}

/* Its own author wants it looked at. */
static void ask_anyway(struct policy_decision *d)
{
    d->verdict = POLICY_ASK;
    (void)snprintf(d->rule, sizeof(d->rule), "requested");
    (void)snprintf(d->layer, sizeof(d->layer), "request");
}

int execution_admit(struct executions *x, struct session *se,
                    const struct actor *who, const struct exec_spec *spec,
                    struct execution *e, struct error *err)
{
    int rc;

    hash_sha256(e->code, e->code_len, e->code_hash);
    rc = check_quotas(x, se, e, err);
    if (rc < 0)
        return rc;
    decide_execution(x, se, who, e);
    if (spec->ask && !spec->approval && e->decision.verdict == POLICY_ALLOW)
        ask_anyway(&e->decision);
    /* It was approved; a policy that has denied it since then still wins. */
    if (spec->approval && e->decision.verdict == POLICY_ASK)
        e->decision.verdict = POLICY_ALLOW;
    return 0;
}

void execution_admit_denied(const struct execution *e, struct outcome *ret)
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
static bool failed_by_itself(enum exec_outcome outcome)
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

void execution_account(struct executions *x, struct session *se,
                       struct execution *e, const char *code, size_t code_len)
{
    const char *tenant = session_facts(se).tenant;
    struct exec_info info;
    uint64_t output = output_of(e);

    execution_info(e, &info);
    session_charge_cpu(se, info.cpu_ms);
    quota_spend(x->core->quotas, tenant, QUOTA_OUTPUT, output / TOKEN_BYTES);
    if (info.status != EXEC_PENDING) /* that says nothing of the code */
        quota_repeat_note(x->core->quotas, tenant, e->info.session,
                          e->code_hash, failed_by_itself(info.outcome));
    execution_record_evidence(x, se, e, code, code_len, output);
}
