/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting what decides, counts and remembers: policy, quotas, approvals,
 * evidence, secrets. Runs in gloveboxd after the trail is open and before
 * sessions are.
 */
#include "approval/approval.h"
#include "audit/audit.h"
#include "base/error.h"
#include "base/log.h"
#include "conf/conf.h"
#include "evidence/evidence.h"
#include "policy/policy.h"
#include "quota/quota.h"
#include "service/service_int.h"
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

int service_govern_open(struct service *s, struct error *err)
{
    const struct conf *c = s->conf;
    struct sessions_parts *p = &s->parts;
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
    int r = policy_open(&policy, s->store, s->audit, &p->govern.policy, err);

    if (r == 0)
        r = quotas_open(&quotas, s->store, s->audit, &p->quotas, err);
    if (r == 0)
        r = approvals_open(&approvals, s->store, s->audit,
                           &p->govern.approvals, err);
    if (r == 0)
        r = evidence_open(&evidence, s->store, s->audit, &p->evidence, err);
    if (r == 0)
        r = audit_send_open(s->audit, &send, err);
    if (r == 0)
        r = vault_open(s->store, s->audit, c->data_dir, &p->vault, err);
    return r;
}

void service_govern_gate(struct service *s)
{
    const struct posture_row *closed;
    struct posture_row rows[POSTURE_ROWS];

    s->posture = (struct posture){.conf = s->conf,
                                  .warden = s->warden,
                                  .accepted_walls = s->accepted,
                                  .auth = s->auth,
                                  .audit = s->audit,
                                  .policy = s->parts.govern.policy};
    posture_look(&s->posture, rows);
    for (size_t i = 0; i < POSTURE_ROWS; i++)
        if (rows[i].state != POSTURE_OK)
            log_event(LOG_WARN, "gate", "check", rows[i].name, "state",
                      posture_state_name(rows[i].state), "why", rows[i].why,
                      NULL);
    closed = posture_barred(rows);
    sessions_gate(s->sessions, closed ? closed->name : NULL,
                  closed ? closed->why : "");
}

void service_govern_close(struct service *s)
{
    struct sessions_parts *p = &s->parts;

    approvals_close(p->govern.approvals);
    evidence_close(p->evidence);
    vault_close(p->vault);
    quotas_close(p->quotas);
    policy_close(p->govern.policy);
}
