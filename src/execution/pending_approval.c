/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executions that wait for a person's approval. A waiting execution exists
 * only as a row (approval/), which holds everything needed to run it, so it
 * survives the sandbox and a restart of the service. A client that asks
 * meanwhile gets an execution object built from the row, whose event stream
 * ends at once. Runs in gloveboxd: requests on the caller's thread, each
 * approved execution on a thread "approved-run".
 */
#include <stdio.h>
#include <string.h>

#include "approval/approval.h"
#include "auth/auth.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "execution/execution_int.h"
#include "node/node.h"
#include "json/json.h"

#define RUNS_MAX 32u /* approved ones at once; more wait their turn */

/* What a row holds of an execution; strings are borrowed from the JSON. */
struct pending_run {
    json_t *body;
    const char *session, *language, *code, *metadata, *conversation, *message,
        *prompt, *retry_of, *door, *tool, *trigger, *token, *name, *request,
        *source, *action, *about;
    int64_t timeout_s, scopes;
    bool report, admin, ephemeral, fresh, clean, input;
};

#define FIELD(member, kind_)                                                  \
    {                                                                         \
        .name = #member, .kind = (kind_),                                     \
        .offset = offsetof(struct pending_run, member), .min = 0,             \
        .max = INT64_MAX                                                      \
    }

static const struct json_field fields[] = {
    FIELD(session, JSON_KIND_STRING),      FIELD(language, JSON_KIND_STRING),
    FIELD(code, JSON_KIND_STRING),         FIELD(metadata, JSON_KIND_STRING),
    FIELD(conversation, JSON_KIND_STRING), FIELD(message, JSON_KIND_STRING),
    FIELD(retry_of, JSON_KIND_STRING),     FIELD(door, JSON_KIND_STRING),
    FIELD(token, JSON_KIND_STRING),        FIELD(tool, JSON_KIND_STRING),
    FIELD(trigger, JSON_KIND_STRING),      FIELD(prompt, JSON_KIND_STRING),
    FIELD(timeout_s, JSON_KIND_INT),       FIELD(scopes, JSON_KIND_INT),
    FIELD(name, JSON_KIND_STRING),         FIELD(request, JSON_KIND_STRING),
    FIELD(source, JSON_KIND_STRING),       FIELD(action, JSON_KIND_STRING),
    FIELD(about, JSON_KIND_STRING),        FIELD(report, JSON_KIND_BOOL),
    FIELD(admin, JSON_KIND_BOOL),          FIELD(ephemeral, JSON_KIND_BOOL),
    FIELD(fresh, JSON_KIND_BOOL),          FIELD(clean, JSON_KIND_BOOL),
    FIELD(input, JSON_KIND_BOOL),
};

/* ---- asking ------------------------------------------------------------- */

static void write_text(struct json_writer *w, const char *key,
                       const char *text)
{
    if (text)
        json_write_string(w, key, text);
}

/* Tokens of locks stay out: they are secrets, and others read this. */
static void write_payload(const struct session *se, const struct actor *who,
                          const struct exec_spec *spec,
                          const struct execution *e, struct buf *out)
{
    struct json_writer w = {.out = out};

    json_write_open(&w, NULL, '{');
    json_write_string(&w, "session", e->info.session);
    json_write_string(&w, "language", execution_language_name(spec->language));
    json_write_text(&w, "code", spec->code, spec->code_len);
    json_write_int(&w, "timeout_s", e->timeout_s);
    if (spec->action != POLICY_EXECUTE)
        json_write_string(&w, "action", policy_action_name(spec->action));
    if (spec->about)
        json_write_text(
            &w, "about", spec->about,
            utf8_cut(spec->about, strlen(spec->about), EXEC_ABOUT_MAX));
    json_write_bool(&w, "fresh", spec->fresh);
    json_write_bool(&w, "clean", spec->clean);
    json_write_bool(&w, "input", spec->input);
    write_text(&w, "metadata", spec->metadata);
    write_text(&w, "conversation", spec->conversation);
    write_text(&w, "message", spec->message);
    write_text(&w, "retry_of", spec->retry_of);
    write_text(&w, "door", who->door);
    write_text(&w, "tool", who->tool);
    write_text(&w, "trigger", who->trigger);
    write_text(&w, "prompt", spec->prompt);
    write_text(&w, "token", who->token);
    write_text(&w, "name", who->name);
    write_text(&w, "request", who->request);
    write_text(&w, "source", who->source);
    if (session_facts(se).ephemeral) /* then less of it is kept afterwards */
        json_write_bool(&w, "ephemeral", true);
    json_write_int(&w, "scopes", who->scopes);
    json_write_bool(&w, "admin", who->admin);
    json_write_close(&w, '}');
    buf_add(out, "", 1);
}

/* The last event of this object: readers of its events stop waiting. */
static void end_snapshot(struct execution *e, enum exec_status status)
{
    const char *name = exec_status_name(status);

    mutex_lock(&e->lock);
    e->info.status = status;
    if (status == EXEC_PENDING)
        execution_events_append(e, EVENT_STATUS, name, strlen(name));
    execution_events_append(e, EVENT_DONE, NULL, 0);
    mutex_unlock(&e->lock);
    execution_events_fire(e);
}

/* For the approver. No code and no text of the client's: lists, the trail and
 * webhooks carry this. */
static void write_summary(const struct session *se,
                          const struct exec_spec *spec, char *ret, size_t size)
{
    const struct session_facts f = session_facts(se);
    const char *pool = pool_conf(f.pool)->name;

    if (spec->action == POLICY_SEARCH)
        (void)snprintf(ret, size, "search the files of session %s of pool %s",
                       f.id, pool);
    else if (spec->action == POLICY_REPORT)
        (void)snprintf(ret, size, "make a PDF report in session %s of pool %s",
                       f.id, pool);
    else
        (void)snprintf(ret, size,
                       "run %zu bytes of %s in session %s of pool %s",
                       spec->code_len, execution_language_name(spec->language),
                       f.id, pool);
}

int execution_pending_request(struct executions *x, struct session *se,
                              const struct actor *who,
                              const struct exec_spec *spec,
                              struct execution *e, struct error *err)
{
    struct buf payload cleanup(buf_done) = {0};
    char summary[256];
    const struct govern_scope scope = session_govern_scope(se, who);
    struct govern_request rq = execution_govern_request(&scope, se, e);
    struct approval_info info cleanup(approval_info_done) = {.payload = NULL};
    int rc = session_keep_for_approval(se, who, err);

    if (rc < 0)
        return rc;
    write_payload(se, who, spec, e, &payload);
    write_summary(se, spec, summary, sizeof(summary));
    rq.object = e->info.id;
    rq.workspace = session_facts(se).workspace;
    rq.summary = summary;
    rc = govern_hold_payload(&x->govern, &rq, &e->decision, payload.data,
                             &info, err);
    if (rc < 0)
        return rc;
    memcpy(e->info.approval, info.id, sizeof(e->info.approval));
    end_snapshot(e, EXEC_PENDING);
    execution_publish(e, se);
    session_unref(take_ptr(e->session));
    return 0;
}

/* ---- finding ------------------------------------------------------------ */

static int read_payload(const struct approval_info *info,
                        struct pending_run *ret, struct error *err)
{
    int rc =
        info->payload
            ? json_parse(info->payload, strlen(info->payload), &ret->body, err)
            : error_set(err, ERR_CORRUPT, "%s has no payload", info->id);

    if (rc == 0)
        rc = json_read(ret->body, fields, ARRAY_SIZE(fields), ret, err);
    if (rc == 0 && !ret->code && info->run >= APPROVAL_RUN_DONE)
        ret->code = ""; /* it is over, and the code is not kept here */
    if (rc == 0 && (!ret->session || !ret->language || !ret->code))
        rc = error_set(err, ERR_CORRUPT, "%s is incomplete", info->id);
    return rc;
}

static void pending_run_done(struct pending_run *h)
{
    json_unref(&h->body);
}

static struct exec_spec spec_of(const struct pending_run *h,
                                const struct approval_info *info)
{
    return (struct exec_spec){
        .language = (enum exec_language)MAX(language_find(h->language), 0),
        .code = h->code,
        .code_len = strlen(h->code),
        .timeout_s = (uint32_t)h->timeout_s,
        /* `report` alone: held by a version that had no such action */
        .action = h->report ? POLICY_REPORT : info->action,
        .fresh = h->fresh,
        .clean = h->clean,
        .input = h->input,
        .metadata = h->metadata,
        .conversation = h->conversation,
        .message = h->message,
        .prompt = h->prompt,
        .retry_of = h->retry_of,
        .held = info->object,
        .approval = info->id,
    };
}

static struct actor actor_of(const struct pending_run *h,
                             const struct approval_info *info)
{
    return (struct actor){.tenant = info->tenant,
                          .key = info->asked_by,
                          .name = h->name,
                          .token = h->token,
                          .request = h->request,
                          .source = h->source,
                          .admin = h->admin,
                          .scopes = (uint32_t)h->scopes,
                          .door = h->door,
                          .tool = h->tool,
                          .trigger = h->trigger};
}

/* How it ended without having run; OUTCOME_NONE: it may yet. */
static enum exec_outcome outcome_of(const struct approval_info *info)
{
    switch (info->state) {
    case APPROVAL_PENDING:
        return OUTCOME_NONE;
    case APPROVAL_DENIED:
    case APPROVAL_EXPIRED:
        return OUTCOME_DENIED;
    case APPROVAL_WITHDRAWN:
        return OUTCOME_CANCELLED;
    case APPROVAL_APPROVED:
        break;
    }
    if (info->run == APPROVAL_RUN_LOST)
        return OUTCOME_KILLED;
    return info->run == APPROVAL_RUN_FAILED ? OUTCOME_CANCELLED : OUTCOME_NONE;
}

static char *failure_of(const struct approval_info *info)
{
    const char *why = info->reason;

    if (info->run == APPROVAL_RUN_LOST || info->run == APPROVAL_RUN_FAILED)
        why = info->outcome;
    return xasprintf("approval %s is %s%s%s", info->id,
                     approval_state_name(info->state), why[0] ? ": " : "",
                     why);
}

/* As it stands; belongs to no queue and no history. */
static struct execution *snapshot(struct executions *x, struct session *se,
                                  const struct pending_run *h,
                                  const struct approval_info *info)
{
    struct exec_spec spec = spec_of(h, info);
    struct actor who = actor_of(h, info);
    struct execution *e =
        execution_new(x, se, &who, &spec, (uint32_t)h->timeout_s);
    struct exec_info *i = &e->info;

    session_unref(take_ptr(e->session));
    i->created_at_ms = info->asked_at_ms;
    i->outcome = outcome_of(info);
    if (i->outcome) {
        i->failure = e->failure = failure_of(info);
        i->finished_at_ms = info->decided_at_ms;
    }
    end_snapshot(e, i->outcome                        ? EXEC_COMPLETED
                    : info->state == APPROVAL_PENDING ? EXEC_PENDING
                                                      : EXEC_QUEUED);
    return e;
}

int execution_pending_find(struct executions *x, const struct actor *who,
                           const char *id, struct execution **ret,
                           struct error *err)
{
    struct approval_info info cleanup(approval_info_done) = {.payload = NULL};
    struct pending_run h cleanup(pending_run_done) = {.body = NULL};
    struct session *se;
    int rc;

    if (!x->govern.approvals || !ids_valid("exec", id) ||
        approval_of(x->govern.approvals, who, id, &info, err) < 0 ||
        !info.payload)
        return error_set(err, ERR_NOT_FOUND, "no such execution");
    /* It may have come to run since it was looked for. */
    if (info.state == APPROVAL_APPROVED && info.run != APPROVAL_RUN_NONE) {
        rc = execution_lookup(x, who, id, ret, NULL, err);
        if (rc == 0 || info.run == APPROVAL_RUN_DONE)
            return rc;
    }
    rc = read_payload(&info, &h, err);
    if (rc < 0)
        return rc;
    se = session_find(x->sessions, who, h.session, err);
    if (!se)
        return err->code == ERR_NOT_FOUND
                   ? error_set(err, ERR_NOT_FOUND, "no such execution")
                   : -(int)err->code;
    *ret = snapshot(x, se, &h, &info);
    session_unref(se);
    return 0;
}

/* ---- the end of waiting ------------------------------------------------- */

int execution_pending_cancel(struct executions *x, const struct actor *who,
                             const char *id, struct error *err)
{
    struct approval_info info cleanup(approval_info_done) = {.payload = NULL};
    struct session *se;

    if (!x->govern.approvals || !ids_valid("exec", id) ||
        approval_of(x->govern.approvals, who, id, &info, err) < 0)
        return error_set(err, ERR_NOT_FOUND, "no such execution");
    /* A principal that cannot see the session must not learn that an execution
     * waits. */
    se = session_find(x->sessions, who, info.session, err);
    if (!se)
        return err->code == ERR_NOT_FOUND
                   ? error_set(err, ERR_NOT_FOUND, "no such execution")
                   : -(int)err->code;
    session_unref(se);
    if (info.state != APPROVAL_PENDING)
        return 0; /* over, as one that has finished is */
    return approval_withdraw(x->govern.approvals, who, info.id, err);
}

static void record_snapshot(struct executions *x, struct session *se,
                            const struct approval_info *info)
{
    struct pending_run h cleanup(pending_run_done) = {.body = NULL};
    struct execution *e cleanup(execution_unrefp) = NULL;
    struct error err;

    if (!approval_is_execution(info->action) ||
        read_payload(info, &h, &err) < 0)
        return;
    e = snapshot(x, se, &h, info);
    execution_account(x, se, e, e->code, e->code_len);
}

struct withdrawal {
    struct executions *x;
    struct session *se;
};

static void on_withdrawn(void *ctx, const struct approval_info *info)
{
    struct withdrawal *w = ctx;

    record_snapshot(w->x, w->se, info);
}

void execution_pending_withdraw(void *ctx, struct session *se,
                                const struct actor *who)
{
    struct withdrawal w = {.x = ctx, .se = se};

    approval_withdraw_session(w.x->govern.approvals, who, session_facts(se).id,
                              on_withdrawn, &w);
}

static bool is_gone(void *ctx, const struct approval_info *info)
{
    struct executions *x = ctx;
    struct error err;

    /* An ephemeral session of another node has a lease and no row. */
    return session_persist_gone(x->sessions, info->session, &err) &&
           !node_lease_elsewhere(x->core->nodes, info->session);
}

int execution_pending_resume(struct sessions *s, struct error *err)
{
    struct executions *x = sessions_hooks_ctx(s);

    return approvals_end_gone(x->govern.approvals, is_gone, x, err);
}

/* ---- once it is decided ------------------------------------------------- */

struct approved {
    struct executions *x;
    struct pending_run held;
    struct approval_info info;
};

static void approved_free(struct approved *a)
{
    pending_run_done(&a->held);
    approval_info_done(&a->info);
    free(a);
}

/* Runs it; ret_outcome is for the approval's row. */
static int run_approved(struct approved *a, char *ret_outcome, size_t size)
{
    struct exec_spec spec = spec_of(&a->held, &a->info);
    struct actor who = actor_of(&a->held, &a->info);
    struct execution *e cleanup(execution_unrefp) = NULL;
    struct exec_info info;
    struct error err;
    int rc =
        execution_run(a->x->sessions, &who, a->held.session, &spec, &e, &err);

    if (rc < 0) {
        log_event(LOG_WARN, "approved_execution_not_run", "approval",
                  a->info.id, "error", err.message, NULL);
        (void)snprintf(ret_outcome, size, "%s", err.message);
        return rc;
    }
    execution_info(e, &info);
    (void)snprintf(ret_outcome, size, "%s", exec_outcome_name(info.outcome));
    return 0;
}

static void approved_run_main(void *arg)
{
    struct approved *a = arg;
    struct executions *x = a->x;
    char outcome[sizeof(a->info.outcome)];
    int rc = run_approved(a, outcome, sizeof(outcome));

    approval_ran(x->govern.approvals, a->info.id, rc, outcome);
    approved_free(a);
    atomic_fetch_sub(&x->approved_runs, 1);
    session_leave(x->sessions);
}

/* A denial is recorded even if the requester no longer sees the session: the
 * lookup is done with the rights of the service. */
static int end_denied(struct executions *x, const struct approval_info *info)
{
    struct actor who = {
        .tenant = info->tenant, .key = info->asked_by, .scopes = AUTH_ADMIN};
    struct error err;
    struct session *se =
        session_acquire(x->sessions, &who, info->session, &err);

    if (!se && err.code == ERR_UNAVAILABLE)
        return -ERR_UNAVAILABLE;
    if (se) {
        record_snapshot(x, se, info);
        session_release(se);
    }
    approval_ran(x->govern.approvals, info->id, 0, "");
    return 0;
}

/* To a thread of its own, which leaves. */
static int start_approved(struct approved *a, struct error *err)
{
    struct executions *x = a->x;
    int rc = session_enter(x->sessions, err);

    if (rc < 0)
        return rc;
    if (atomic_fetch_add(&x->approved_runs, 1) < RUNS_MAX &&
        thread_start_detached("approved-run", 0, approved_run_main, a) == 0)
        return 0;
    atomic_fetch_sub(&x->approved_runs, 1);
    session_leave(x->sessions);
    return error_set(err, ERR_BUSY, "enough approved ones run");
}

bool execution_pending_mine(void *ctx, const struct approval_info *info)
{
    struct executions *x = sessions_hooks_ctx(ctx);

    return !node_lease_elsewhere(x->core->nodes, info->session);
}

int execution_pending_decided(void *ctx, const struct approval_info *info)
{
    struct executions *x = sessions_hooks_ctx(ctx);
    struct approved *a;
    struct error err;
    int rc;

    if (info->state != APPROVAL_APPROVED)
        return end_denied(x, info);
    a = xcalloc(1, sizeof(*a));
    a->x = x;
    a->info = *info;
    a->info.payload = xstrdup(info->payload);
    rc = read_payload(&a->info, &a->held, &err);
    if (rc < 0) { /* no use in trying that again */
        approval_ran(x->govern.approvals, info->id, rc, err.message);
        approved_free(a);
        return 0;
    }
    rc = start_approved(a, &err);
    if (rc < 0)
        approved_free(a);
    return rc;
}
