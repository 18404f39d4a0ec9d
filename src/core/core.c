/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and closes the shared modules with the operator's settings; see
 * core.h. Runs in gloveboxd after the audit trail is open and before
 * workspaces and sessions are.
 */
#include "core/core.h"

#include <stdio.h>
#include <string.h>

#include "approval/approval.h"
#include "audit/audit.h"
#include "base/log.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "evidence/evidence.h"
#include "feed/feed.h"
#include "policy/policy.h"
#include "quota/quota.h"
#include "store/store.h"
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
                 [QUOTA_MODEL_TOKENS] = c->quota_model_tokens_per_day,
                 [QUOTA_MODEL_COST] = c->quota_model_microcents_per_day,
                 [QUOTA_KEY_TOKENS] = c->quota_key_model_tokens_per_day,
                 [QUOTA_KEY_COST] = c->quota_key_model_microcents_per_day,
                 [QUOTA_STORAGE] = c->tenant_quota_bytes}};
}

/* The operator can change these settings without a key. So that no change
 * goes unnoticed, a start with a value other than the last one is an event. */
static int audit_setting(const struct core *core, const char *name, bool on,
                         struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    char last[8] = "false", detail[96];
    struct audit_event event = {.action = "setting.change",
                                .object = name,
                                .before = last,
                                .after = on ? "true" : "false",
                                .detail = detail};
    int r =
        store_begin(core->store, STORE_WRITE, "comparing settings", &tx, err);

    if (r == 0) {
        struct store_rows *row cleanup(store_rows_done) = NULL;

        r = store_one(tx, &row, err,
                      "SELECT value FROM settings WHERE name = ?1", "t", name);
        if (r > 0)
            store_copy(row, 0, last, sizeof(last));
    }
    if (r < 0 || strcmp(last, event.after) == 0)
        return MIN(r, 0);
    (void)snprintf(detail, sizeof(detail),
                   "%s was switched %s in the configuration", name,
                   on ? "on" : "off");
    log_event(LOG_WARN, "setting_changed", "setting", name, "before", last,
              "after", event.after, NULL);
    r = store_exec(tx, err,
                   "INSERT INTO settings (name, value) VALUES (?1, ?2)"
                   " ON CONFLICT (name) DO UPDATE SET value = ?2",
                   "tt", name, event.after);
    if (r >= 0)
        r = audit_add(core->audit, tx, NULL, &event, err);
    return r < 0 ? r : store_commit(&tx, err);
}

int core_open(struct core *core, const struct conf *c, struct error *err)
{
    struct policy_settings policy = {.file = c->policy_file,
                                     .zone = c->policy_zone};
    struct approval_settings approvals = {.expires_s = c->approval_expires_s,
                                          .webhook_url = c->webhook_url,
                                          .webhook_secret_file =
                                              c->webhook_secret_file,
                                          .public_url = c->public_url,
                                          .keep_days = c->evidence_days,
                                          .forget_payload = !c->evidence_code};
    struct evidence_settings evidence = {.code = c->evidence_code,
                                         .output =
                                             (size_t)c->evidence_output_bytes,
                                         .days = c->evidence_days};
    struct audit_send_settings send = {.syslog = c->audit_syslog,
                                       .otlp_url = c->audit_otlp_url};
    struct quota_limits quotas = quotas_of(c);
    int r = policy_open(&policy, core->store, core->audit, &core->policy, err);

    core->four_eyes = c->four_eyes;
    core->feed = feed_new();
    if (r == 0)
        r = audit_setting(core, "four_eyes", c->four_eyes, err);
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
    feed_free(core->feed);
}
