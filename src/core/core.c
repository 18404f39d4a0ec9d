/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and closes the shared modules with the operator's settings; see
 * core.h. Runs in gloveboxd after the audit trail is open and before
 * workspaces and sessions are.
 */
#include "core/core.h"

#include "approval/approval.h"
#include "audit/audit.h"
#include "conf/conf.h"
#include "evidence/evidence.h"
#include "policy/policy.h"
#include "quota/quota.h"
#include "vault/vault.h"

static struct quota_limits quotas_of(const struct conf *c)
{
    return (struct quota_limits){
        .most = {[QUOTA_SESSIONS] = c->sessions_per_tenant,
                 [QUOTA_CREATIONS] = c->creations_per_s,
                 [QUOTA_EXECUTIONS] = c->quota_executions,
                 [QUOTA_RUNS_PER_HOUR] = c->quota_executions_per_hour,
                 [QUOTA_MEMORY] = c->quota_memory_bytes,
                 [QUOTA_CPU] = c->quota_cpu_s_per_hour,
                 [QUOTA_EGRESS] = c->quota_egress_bytes_per_day,
                 [QUOTA_OUTPUT] = c->quota_output_tokens_per_hour,
                 [QUOTA_STORAGE] = c->tenant_quota_bytes}};
}

int core_open(struct core *core, const struct conf *c, struct error *err)
{
    struct policy_settings policy = {.file = c->policy_file,
                                     .zone = c->policy_zone};
    struct approval_settings approvals = {.expires_s = c->approval_expires_s,
                                          .webhook_url = c->webhook_url,
                                          .webhook_secret_file =
                                              c->webhook_secret_file,
                                          .keep_days = c->evidence_days,
                                          .forget_payload = !c->evidence_code};
    struct evidence_settings evidence = {.code = c->evidence_code,
                                         .days = c->evidence_days};
    struct audit_send_settings send = {.syslog = c->audit_syslog,
                                       .otlp_url = c->audit_otlp_url};
    struct quota_limits quotas = quotas_of(c);
    int r = policy_open(&policy, core->store, core->audit, &core->policy, err);

    if (r == 0)
        r = quotas_open(&quotas, core->store, core->audit, &core->quotas, err);
    if (r == 0)
        r = approvals_open(&approvals, core->store, core->audit,
                           &core->approvals, err);
    if (r == 0)
        r = evidence_open(&evidence, core->store, core->audit, &core->evidence,
                          err);
    if (r == 0)
        r = audit_send_open(core->audit, &send, err);
    if (r == 0)
        r = vault_open(core->store, core->audit, c->data_dir, &core->vault,
                       err);
    return r;
}

void core_close(struct core *core)
{
    approvals_close(core->approvals);
    evidence_close(core->evidence);
    vault_close(core->vault);
    quotas_close(core->quotas);
    policy_close(core->policy);
}
