/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing, names, JSON, and the two threads' sleep; see
 * approval.h. Runs in gloveboxd.
 */
#include "approval/approval_int.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "json/json.h"

/* ---- names and JSON ----------------------------------------------------- */

static const char *const states[] = {
    [APPROVAL_PENDING] = "pending",     [APPROVAL_APPROVED] = "approved",
    [APPROVAL_DENIED] = "denied",       [APPROVAL_EXPIRED] = "expired",
    [APPROVAL_WITHDRAWN] = "withdrawn",
};

static const char *const runs[] = {
    [APPROVAL_RUN_NONE] = "waiting", [APPROVAL_RUN_TAKEN] = "running",
    [APPROVAL_RUN_DONE] = "done",    [APPROVAL_RUN_FAILED] = "failed",
    [APPROVAL_RUN_LOST] = "lost",
};

const char *approval_state_name(enum approval_state state)
{
    return states[state];
}

int approval_state_parse(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(states); i++)
        if (strcmp(states[i], name) == 0)
            return (int)i;
    return -1;
}

const char *approval_run_name(enum approval_run run)
{
    return runs[run];
}

static void write_some(struct json_writer *w, const char *key,
                       const char *text)
{
    json_write_string(w, key, text[0] ? text : NULL);
}

void approval_write(struct json_writer *w, const struct approval_info *info)
{
    bool yes = info->state == APPROVAL_APPROVED;

    json_write_string(w, "id", info->id);
    json_write_string(w, "state", states[info->state]);
    json_write_string(w, "action", policy_action_name(info->action));
    json_write_string(w, "summary", info->summary);
    json_write_string(w, "asked_by", info->asked_by);
    write_some(w, "session", info->session);
    write_some(w, "workspace", info->workspace);
    write_some(w, "object", info->object);
    write_some(w, "execution",
               info->action == POLICY_EXECUTE ? info->object : "");
    json_write_string(w, "rule", info->rule);
    json_write_int(w, "policy_version", info->policy_version);
    json_write_time(w, "asked_at", info->asked_at_ms);
    json_write_time(w, "expires_at", info->expires_at_ms);
    json_write_time(w, "decided_at", info->decided_at_ms);
    write_some(w, "decided_by", info->decided_by);
    write_some(w, "reason", info->reason);
    json_write_string(w, "run", yes ? runs[info->run] : NULL);
    json_write_string(w, "outcome",
                      yes && info->outcome[0] ? info->outcome : NULL);
}

void approval_info_done(struct approval_info *info)
{
    free(take_ptr(info->payload));
}

/* ---- for all files ------------------------------------------------------ */

int64_t approval_now(const struct approvals *a)
{
    return a->set.now_ms ? a->set.now_ms() : clock_real_ms();
}

int approval_note(struct approvals *a, struct store_tx *tx,
                  const struct actor *who, const char *action,
                  const struct approval_info *info, const char *detail,
                  struct error *err)
{
    /* What the service does by itself belongs to the tenant all the same. */
    struct actor service = {.tenant = info->tenant, .key = "glovebox"};
    struct audit_event event = {
        .action = action,
        .workspace = info->workspace[0] ? info->workspace : NULL,
        .object = info->id,
        .before = info->object[0] ? info->object : NULL,
        .after = info->asked_by,
        .detail = detail,
    };

    return a->audit
               ? audit_add(a->audit, tx, who ? who : &service, &event, err)
               : 0;
}

/* ---- opening ------------------------------------------------------------ */

static void closep(struct approvals **a)
{
    approvals_close(*a);
}

int approvals_open(const struct approval_settings *settings,
                   struct store *store, struct audit *audit,
                   struct approvals **ret, struct error *err)
{
    struct approvals *a cleanup(closep) = xcalloc(1, sizeof(*a));
    int rc;

    a->store = store;
    a->audit = audit;
    a->set = *settings;
    mutex_init(&a->lock);
    worker_init(&a->worker);
    worker_init(&a->poster);
    rc = approval_webhook_open(a, err);
    if (rc == 0)
        rc = approval_worker_lost(a, err);
    if (rc == 0 && !a->set.still)
        rc = approval_worker_start(a, err);
    if (rc == 0 && a->url && !a->set.still)
        rc = approval_post_start(a, err);
    if (rc < 0)
        return rc;
    *ret = take_ptr(a);
    return 0;
}

void approvals_stop(struct approvals *a)
{
    if (!a)
        return;
    worker_stop(&a->worker);
    worker_stop(&a->poster);
}

void approvals_close(struct approvals *a)
{
    if (!a)
        return;
    approvals_stop(a);
    approval_webhook_done(a);
    worker_done(&a->worker);
    worker_done(&a->poster);
    mutex_done(&a->lock);
    free(a);
}

void approvals_on_decided(struct approvals *a, approvals_fn *fn, void *ctx)
{
    if (!a)
        return;
    mutex_lock(&a->lock);
    a->fn = fn;
    a->ctx = ctx;
    mutex_unlock(&a->lock);
    worker_wake(&a->worker);
}
