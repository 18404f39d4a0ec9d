/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing, names, JSON, and the two threads' sleep; see
 * approval.h. Runs in gloveboxd.
 */
#include "api/api.h"
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
    [APPROVAL_WITHDRAWN] = "withdrawn", NULL,
};

static const char *const runs[] = {
    [APPROVAL_RUN_NONE] = "waiting", [APPROVAL_RUN_TAKEN] = "running",
    [APPROVAL_RUN_DONE] = "done",    [APPROVAL_RUN_FAILED] = "failed",
    [APPROVAL_RUN_LOST] = "lost",    NULL,
};

const char *approval_state_name(enum approval_state state)
{
    return states[state];
}

int approval_state_parse(const char *name)
{
    for (size_t i = 0; states[i]; i++)
        if (strcmp(states[i], name) == 0)
            return (int)i;
    return -1;
}

const char *approval_run_name(enum approval_run run)
{
    return runs[run];
}

static void write_action(struct json_writer *w, const char *key,
                         const void *object)
{
    const struct approval_info *info = object;

    json_write_string(w, key, policy_action_name(info->action));
}

bool approval_is_execution(enum policy_action action)
{
    return action == POLICY_EXECUTE || action == POLICY_SEARCH ||
           action == POLICY_REPORT;
}

static void write_execution(struct json_writer *w, const char *key,
                            const void *object)
{
    const struct approval_info *info = object;
    bool held = approval_is_execution(info->action) && info->object[0];

    json_write_string(w, key, held ? info->object : NULL);
}

static void write_run(struct json_writer *w, const char *key,
                      const void *object)
{
    const struct approval_info *info = object;

    json_write_string(
        w, key, info->state == APPROVAL_APPROVED ? runs[info->run] : NULL);
}

static void write_outcome(struct json_writer *w, const char *key,
                          const void *object)
{
    const struct approval_info *info = object;
    bool known = info->state == APPROVAL_APPROVED && info->outcome[0];

    json_write_string(w, key, known ? info->outcome : NULL);
}

#define INFO(member) API_AT(struct approval_info, member)

static const struct api_field approval_fields[] = {
    {"id", API_STRING, INFO(id), .help = "apr_…"},
    {"state", API_CHOICE, INFO(state), .choices = states},
    {"action", API_STRING, .write = write_action,
     .help = "execute, share, transfer, egress, secret, …"},
    {"summary", API_STRING, INFO(summary),
     .help = "one sentence, without the code"},
    {"asked_by", API_STRING, INFO(asked_by),
     .help = "a key, which cannot decide it"},
    {"asked_by_name", API_STRING, API_NULLABLE, INFO(asked_by_name),
     .help = "the name of that key, or of the issuer's subject"},
    {"session", API_STRING, API_NULLABLE, INFO(session)},
    {"workspace", API_STRING, API_NULLABLE, INFO(workspace)},
    {"object", API_STRING, API_NULLABLE, INFO(object),
     .help = "what it is about"},
    {"execution", API_STRING, API_NULLABLE, .write = write_execution,
     .help = "the held one"},
    {"rule", API_STRING, INFO(rule), .help = "of the policy that asked"},
    {"policy_version", API_INT, INFO(policy_version)},
    {"asked_at", API_TIME, INFO(asked_at_ms)},
    {"expires_at", API_TIME, INFO(expires_at_ms),
     .help = "unanswered it is a no then; of a grant: its end"},
    {"decided_at", API_TIME, API_NULLABLE, INFO(decided_at_ms)},
    {"decided_by", API_STRING, API_NULLABLE, INFO(decided_by)},
    {"decided_by_name", API_STRING, API_NULLABLE, INFO(decided_by_name)},
    {"reason", API_STRING, API_NULLABLE, INFO(reason)},
    {"run", API_CHOICE, API_NULLABLE, .write = write_run, .choices = runs,
     .help = "how far an approved one is; a grant that was used is done"},
    {"outcome", API_STRING, API_NULLABLE, .write = write_outcome,
     .help = "of what was carried out, or why it was not"},
};
API_OUTPUT(approval_resource, "Approval", struct approval_info,
           approval_fields, "Something held until a person has answered.");

void approval_info_done(struct approval_info *info)
{
    free(take_ptr(info->payload));
}

/* ---- for all files ------------------------------------------------------ */

const char *approval_decider(const struct approval_info *info)
{
    return info->decided_by_name[0] ? info->decided_by_name : info->decided_by;
}

int64_t approval_now(const struct approvals *a)
{
    return a->set.now_ms ? a->set.now_ms() : clock_real_ms();
}

int approval_note(struct approvals *a, struct store_tx *tx,
                  const struct actor *who, const char *action,
                  const struct approval_info *info, const char *detail,
                  struct error *err)
{
    /* Acts of the service itself still belong to the tenant. */
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
        rc = approval_worker_lost(a, false, err);
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

void approvals_decided(struct approvals *a)
{
    if (a)
        worker_wake(&a->worker);
}

void approvals_on_decided(struct approvals *a, approvals_fn *fn,
                          approvals_mine_fn *mine, void *ctx)
{
    if (!a)
        return;
    mutex_lock(&a->lock);
    a->fn = fn;
    a->mine = mine;
    a->ctx = ctx;
    mutex_unlock(&a->lock);
    worker_wake(&a->worker);
}
