/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the service is configured: one row for each setting that an auditor
 * asks about, with what was found and, where it is weaker than it should be,
 * what to do. The gate (gate.c) decides whether code may run; these rows only
 * advise. Runs in gloveboxd on the caller's thread.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "auth/auth.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "policy/policy.h"
#include "posture/posture.h"

#define BACKUP_DAYS 7
#define DAY_MS INT64_C(86400000)

/* Fills the row; returns ok, so that a check ends in one statement. */
static bool found(struct posture_setting *row, bool ok, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static bool found(struct posture_setting *row, bool ok, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(row->found, sizeof(row->found), fmt, ap); /* may cut */
    va_end(ap);
    return ok;
}

/* The names of the pools for which match() holds, with commas between. */
static size_t list_pools(const struct conf *c,
                         bool (*match)(const struct conf_pool *pool),
                         char *ret, size_t size)
{
    size_t count = 0, used = 0;

    ret[0] = '\0';
    for (size_t i = 0; i < c->pool_count; i++) {
        if (!match(&c->pools[i]))
            continue;
        count++;
        if (used < size)
            used += (size_t)snprintf(ret + used, size - used, "%s%s",
                                     used ? ", " : "", c->pools[i].name);
    }
    return count;
}

static bool keeps_files(const struct conf_pool *pool)
{
    return strcmp(pool->persistence, "workspace") == 0;
}

static bool is_open(const struct conf_pool *pool)
{
    return strcmp(pool->egress, "open") == 0;
}

static bool has_network(const struct conf_pool *pool)
{
    return strcmp(pool->egress, "none") != 0 || pool->packages;
}

static bool installs_packages(const struct conf_pool *pool)
{
    return pool->packages;
}

/* ---- checks --------------------------------------------------------------
 */

static bool check_walls(const struct posture *p, struct posture_setting *row)
{
    const char *missing = p->conf->accept_missing_walls;

    if (!missing[0])
        return found(row, true, "every wall is required");
    return found(row, false, "the service starts without these walls: %.200s",
                 missing);
}

static bool check_files(const struct posture *p, struct posture_setting *row)
{
    char pools[160];
    size_t count = list_pools(p->conf, keeps_files, pools, sizeof(pools));

    if (!count)
        return found(row, true, "no pool keeps files");
    if (p->conf->unnamed_workspace_days)
        return found(row, true,
                     "unnamed workspaces are deleted after %u days without a "
                     "change",
                     p->conf->unnamed_workspace_days);
    return found(row, false,
                 "pools keep files until they are deleted by hand: %s", pools);
}

static bool check_evidence(const struct posture *p,
                           struct posture_setting *row)
{
    if (p->conf->evidence_days)
        return found(row, true, "evidence is deleted after %u days",
                     p->conf->evidence_days);
    return found(row, false, "evidence%s is kept forever",
                 p->conf->evidence_code ? ", with the text of code," : "");
}

static bool check_egress(const struct posture *p, struct posture_setting *row)
{
    char pools[160];

    if (list_pools(p->conf, is_open, pools, sizeof(pools)))
        return found(row, false, "code may reach every public address: %s",
                     pools);
    if (p->conf->egress_lab[0])
        return found(row, false, "private addresses are reachable: %.200s",
                     p->conf->egress_lab);
    return found(row, true, "no pool is open");
}

static bool check_egress_quota(const struct posture *p,
                               struct posture_setting *row)
{
    char pools[160];

    if (p->conf->quota_egress_bytes_per_day)
        return found(row, true, "a tenant may move %llu bytes a day",
                     (unsigned long long)p->conf->quota_egress_bytes_per_day);
    if (!list_pools(p->conf, has_network, pools, sizeof(pools)))
        return found(row, true, "no pool has a network");
    return found(row, false, "a tenant may move any number of bytes a day: %s",
                 pools);
}

static bool check_environment(const struct posture *p,
                              struct posture_setting *row)
{
    if (!p->conf->keep_environment[0])
        return found(row, true, "no variable that names a secret is kept");
    return found(row, false, "the service keeps these variables: %.200s",
                 p->conf->keep_environment);
}

static bool check_admin_keys(const struct posture *p,
                             struct posture_setting *row)
{
    struct auth_key *keys cleanup(mem_free) = NULL;
    size_t count = 0, admins = 0, endless = 0;
    const char *first = "";
    struct error err;

    if (!p->auth || auth_key_list(p->auth, &keys, &count, &err) < 0)
        return found(row, false, "the keys cannot be read");
    for (size_t i = 0; i < count; i++) {
        if (keys[i].revoked_at_ms || !(keys[i].scopes & AUTH_ADMIN))
            continue;
        admins++;
        if (keys[i].expires_at_ms)
            continue;
        if (!endless++)
            first = keys[i].name[0] ? keys[i].name : keys[i].id;
    }
    if (!endless)
        return found(row, true, "every admin key (%zu) expires", admins);
    return found(row, false, "%zu of %zu admin keys never expire: %s%s",
                 endless, admins, first, endless > 1 ? ", …" : "");
}

static bool check_packages(const struct posture *p,
                           struct posture_setting *row)
{
    char pools[160];
    bool clear = strncmp(p->conf->package_index, "http://", 7) == 0;

    if (!list_pools(p->conf, installs_packages, pools, sizeof(pools)))
        return found(row, true, "no pool installs packages");
    if (clear)
        return found(row, false, "the package index is read without TLS");
    return found(row, true, "packages need a rule of the policy: %s", pools);
}

static bool check_audit_sink(const struct posture *p,
                             struct posture_setting *row)
{
    const struct conf *c = p->conf;

    if (c->audit_syslog[0] || c->audit_otlp_url[0])
        return found(row, true, "events are sent to %.150s",
                     c->audit_syslog[0] ? c->audit_syslog : c->audit_otlp_url);
    return found(row, false, "the trail exists on this machine only");
}

static bool check_audit_required(const struct posture *p,
                                 struct posture_setting *row)
{
    return found(row, p->conf->audit_required,
                 p->conf->audit_required
                     ? "nothing changes without an audit event"
                     : "changes go on when the trail cannot be written");
}

static bool check_memory_quota(const struct posture *p,
                               struct posture_setting *row)
{
    if (p->conf->quota_memory_bytes)
        return found(row, true, "a tenant's sessions share %llu bytes",
                     (unsigned long long)p->conf->quota_memory_bytes);
    return found(row, false, "a tenant's sessions have no memory quota");
}

static bool check_storage_quota(const struct posture *p,
                                struct posture_setting *row)
{
    if (p->conf->tenant_quota_bytes)
        return found(row, true, "a tenant may store %llu bytes",
                     (unsigned long long)p->conf->tenant_quota_bytes);
    return found(row, false, "a tenant may store any number of bytes");
}

static bool check_policy(const struct posture *p, struct posture_setting *row)
{
    struct policy_state state = {.loaded = false};

    if (p->policy)
        policy_state(p->policy, &state);
    if (p->policy && state.loaded && !state.version)
        return found(row, false,
                     "there is no policy: every request is allowed");
    if (!state.loaded)
        return found(row, false, "the policy cannot be applied%s%.160s",
                     state.problem[0] ? ": " : "", state.problem);
    return found(row, true, "policy version %lld is in force",
                 (long long)state.version);
}

static bool check_webhook(const struct posture *p, struct posture_setting *row)
{
    if (p->conf->webhook_url[0])
        return found(row, true, "approvals are announced by webhook");
    return found(row, false, "no approver is notified of a new request");
}

static bool check_four_eyes(const struct posture *p,
                            struct posture_setting *row)
{
    return found(
        row, p->conf->four_eyes,
        p->conf->four_eyes
            ? "changes of policy, keys, quotas and secrets need a "
              "second principal"
            : "one administrator alone can change policy, keys, quotas "
              "and secrets");
}

static bool check_tls(const struct posture *p, struct posture_setting *row)
{
    const struct conf *c = p->conf;

    if (conf_speaks_tls(c))
        return found(row, true, "served by HTTPS");
    if (conf_is_local(c))
        return found(row, true, "served on loopback only");
    if (c->trust_proxy)
        return found(row, true, "served behind a TLS proxy (trust_proxy)");
    return found(row, false, "served on %.80s without TLS", c->listen_host);
}

static bool check_accepted(const struct posture *p,
                           struct posture_setting *row)
{
    if (!p->conf->accept_gate[0])
        return found(row, true, "no check of the gate is overridden");
    return found(row, false, "these checks of the gate may fail: %.200s",
                 p->conf->accept_gate);
}

static bool check_backup(const struct posture *p, struct posture_setting *row)
{
    struct audit_filter filter = {.action = "storage.backup",
                                  .from_ms =
                                      clock_real_ms() - BACKUP_DAYS * DAY_MS,
                                  .limit = 100};
    struct audit_line *lines = NULL;
    size_t count = 0, good = 0;
    struct error err;
    bool more;

    if (!p->audit ||
        audit_query(p->audit, &filter, &lines, &count, &more, &err) < 0)
        return found(row, false, "the audit trail cannot be read");
    for (size_t i = 0; i < count; i++)
        good += !lines[i].result[0] || strcmp(lines[i].result, "ok") == 0;
    audit_lines_free(lines, count);
    if (good)
        return found(row, true, "a backup was made in the last %d days",
                     BACKUP_DAYS);
    return found(row, false, "no backup was made in the last %d days",
                 BACKUP_DAYS);
}

/* ---- the table -----------------------------------------------------------
 */

static const struct {
    const char *control, *name;
    bool (*check)(const struct posture *p, struct posture_setting *row);
    const char *advice;
} settings[POSTURE_SETTINGS] = {
    {"isolation", "walls", check_walls,
     "Empty accept_missing_walls once `glovebox doctor` shows that the host "
     "has them."},
    {"ephemeral", "files", check_files,
     "Set unnamed_workspace_days, or persistence: ephemeral in pools that "
     "need no files."},
    {"ephemeral", "evidence", check_evidence,
     "Set evidence_days to what your rules require."},
    {"egress", "egress", check_egress,
     "Set egress to none or allowlist in these pools, and empty egress_lab."},
    {"egress", "egress_quota", check_egress_quota,
     "Set quota_egress_bytes_per_day."},
    {"secrets", "environment", check_environment,
     "Empty keep_environment; store what sessions need with `glovebox "
     "secrets put`."},
    {"identity", "admin_keys", check_admin_keys,
     "Create an admin key that expires (`glovebox key create --scopes admin "
     "--expires 90d`), then revoke those that never do."},
    {"dependencies", "packages", check_packages,
     "Set package_index to an https address."},
    {"audit", "sink", check_audit_sink,
     "Set audit_syslog or audit_otlp_url, so that an intruder on this "
     "machine cannot remove the only copy."},
    {"audit", "required", check_audit_required, "Set audit_required: true."},
    {"quotas", "memory", check_memory_quota, "Set quota_memory_bytes."},
    {"quotas", "storage", check_storage_quota, "Set tenant_quota_bytes."},
    {"approvals", "policy", check_policy,
     "Put a policy (`glovebox policy put FILE`); docs/POLICY.md has one to "
     "start from."},
    {"approvals", "webhook", check_webhook,
     "Set webhook_url and webhook_secret_file."},
    {"approvals", "four_eyes", check_four_eyes,
     "Set four_eyes: true once two people have keys that may approve."},
    {"deployment", "tls", check_tls,
     "Set tls: auto, or tls_certificate and tls_key, or put a TLS proxy in "
     "front and set trust_proxy."},
    {"deployment", "gate", check_accepted,
     "Mend what these checks report, then empty accept_gate."},
    {"deployment", "backup", check_backup,
     "Run `glovebox backup` every day, to another disk."},
};

void posture_settings_check(const struct posture *p,
                            struct posture_setting ret[POSTURE_SETTINGS])
{
    for (size_t i = 0; i < POSTURE_SETTINGS; i++) {
        ret[i] = (struct posture_setting){.control = settings[i].control,
                                          .name = settings[i].name};
        ret[i].ok = settings[i].check(p, &ret[i]);
        ret[i].advice = ret[i].ok ? "" : settings[i].advice;
    }
}
