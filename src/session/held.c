/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executions that wait for a person. While one waits there is only its row
 * (approval/), which holds all that is needed to run it; so it survives the
 * session's sleep and the service's end. Runs in gloveboxd: asking on the
 * caller's thread, running on one of its own per approved execution.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "approval/approval.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "session/session_int.h"
#include "json/json.h"

#define SUMMARY_CODE 120 /* bytes of it a person sees in a list */

/* What a row holds of an execution; strings are borrowed from the JSON. */
struct held {
    json_t *body;
    const char *session, *language, *code, *metadata, *conversation, *message,
        *retry_of, *door, *tool;
    int64_t timeout_s, scopes;
    bool report, admin;
};

#define FIELD(member, kind_)                                                  \
    {                                                                         \
        .name = #member, .kind = kind_,                                       \
        .offset = offsetof(struct held, member), .min = 0, .max = INT64_MAX   \
    }

static const struct json_field fields[] = {
    FIELD(session, JSON_KIND_STRING),      FIELD(language, JSON_KIND_STRING),
    FIELD(code, JSON_KIND_STRING),         FIELD(metadata, JSON_KIND_STRING),
    FIELD(conversation, JSON_KIND_STRING), FIELD(message, JSON_KIND_STRING),
    FIELD(retry_of, JSON_KIND_STRING),     FIELD(door, JSON_KIND_STRING),
    FIELD(tool, JSON_KIND_STRING),         FIELD(timeout_s, JSON_KIND_INT),
    FIELD(scopes, JSON_KIND_INT),          FIELD(report, JSON_KIND_BOOL),
    FIELD(admin, JSON_KIND_BOOL),
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
    json_write_string(&w, "session", se->id);
    json_write_string(&w, "language", session_language_name(spec->language));
    json_write_text(&w, "code", spec->code, spec->code_len);
    json_write_int(&w, "timeout_s", e->timeout_s);
    json_write_bool(&w, "report", spec->report);
    write_text(&w, "metadata", spec->metadata);
    write_text(&w, "conversation", spec->conversation);
    write_text(&w, "message", spec->message);
    write_text(&w, "retry_of", spec->retry_of);
    write_text(&w, "door", who->door);
    write_text(&w, "tool", who->tool);
    json_write_int(&w, "scopes", who->scopes);
    json_write_bool(&w, "admin", who->admin);
    json_write_close(&w, '}');
    buf_add(out, "", 1);
}

int session_held_ask(struct sessions *m, struct session *se,
                     const struct actor *who, const struct exec_spec *spec,
                     struct execution *e, struct error *err)
{
    struct buf payload cleanup(buf_done) = {0};
    char summary[256];
    struct approval_spec ask = {.who = who,
                                .action = POLICY_EXECUTE,
                                .session = se->id,
                                .object = e->info.id,
                                .summary = summary,
                                .by = &e->decision};
    struct approval_info info cleanup(approval_info_done) = {.payload = NULL};
    int rc;

    write_payload(se, who, spec, e, &payload);
    ask.payload = payload.data;
    (void)snprintf(summary, sizeof(summary), "run %zu bytes of %s: %.*s",
                   spec->code_len, session_language_name(spec->language),
                   (int)MIN(spec->code_len, (size_t)SUMMARY_CODE), spec->code);
    rc = approval_ask(m->parts.approvals, &ask, &info, err);
    if (rc < 0)
        return rc;
    e->info.status = EXEC_PENDING;
    memcpy(e->info.approval, info.id, sizeof(e->info.approval));
    session_unref(take_ptr(e->session));
    return 0;
}

/* ---- finding ------------------------------------------------------------ */

static int read_payload(const struct approval_info *info, struct held *ret,
                        struct error *err)
{
    int rc =
        info->payload
            ? json_parse(info->payload, strlen(info->payload), &ret->body, err)
            : error_set(err, ERR_CORRUPT, "%s has no payload", info->id);

    if (rc == 0)
        rc = json_read(ret->body, fields, ARRAY_SIZE(fields), ret, err);
    if (rc == 0 && (!ret->session || !ret->language || !ret->code))
        rc = error_set(err, ERR_CORRUPT, "%s is incomplete", info->id);
    return rc;
}

static void held_done(struct held *h)
{
    json_unref(&h->body);
}

static struct exec_spec spec_of(const struct held *h,
                                const struct approval_info *info)
{
    return (struct exec_spec){
        .language =
            strcmp(h->language, "shell") == 0 ? EXEC_SHELL : EXEC_PYTHON,
        .code = h->code,
        .code_len = strlen(h->code),
        .timeout_s = (uint32_t)h->timeout_s,
        .report = h->report,
        .metadata = h->metadata,
        .conversation = h->conversation,
        .message = h->message,
        .retry_of = h->retry_of,
        .held = info->object,
        .approval = info->id,
    };
}

static struct actor actor_of(const struct held *h,
                             const struct approval_info *info)
{
    return (struct actor){.tenant = info->tenant,
                          .key = info->asked_by,
                          .admin = h->admin,
                          .scopes = (uint32_t)h->scopes,
                          .door = h->door,
                          .tool = h->tool};
}

static void set_ended(struct execution *e, const struct approval_info *info)
{
    struct exec_info *x = &e->info;

    x->status = EXEC_COMPLETED;
    x->outcome = OUTCOME_DENIED;
    x->finished_at_ms = info->decided_at_ms;
    e->failure = xasprintf("approval %s is %s%s%s", info->id,
                           approval_state_name(info->state),
                           info->reason[0] ? ": " : "", info->reason);
    x->failure = e->failure;
    session_events_append(e, EVENT_DONE, NULL, 0);
}

/* As it stands; belongs to no queue and no history. */
static struct execution *show(struct session *se, const struct held *h,
                              const struct approval_info *info)
{
    struct exec_spec spec = spec_of(h, info);
    struct actor who = actor_of(h, info);
    struct execution *e =
        session_execution_new(se, &who, &spec, (uint32_t)h->timeout_s);

    session_unref(take_ptr(e->session));
    e->info.created_at_ms = info->asked_at_ms;
    if (info->state == APPROVAL_PENDING)
        e->info.status = EXEC_PENDING;
    else if (info->state != APPROVAL_APPROVED)
        set_ended(e, info);
    return e;
}

int session_held_find(struct sessions *m, const struct actor *who,
                      const char *id, struct execution **ret,
                      struct error *err)
{
    struct approval_info info cleanup(approval_info_done) = {.payload = NULL};
    struct held h cleanup(held_done) = {.body = NULL};
    struct session *se;
    int rc;

    if (!m->parts.approvals || !ids_valid("exec", id) ||
        approval_of(m->parts.approvals, who, id, &info, err) < 0 ||
        (info.state == APPROVAL_APPROVED && info.carried_out))
        return error_set(err, ERR_NOT_FOUND, "no such execution");
    rc = read_payload(&info, &h, err);
    if (rc < 0)
        return rc;
    se = session_find(m, who, h.session, err);
    if (!se)
        return error_set(err, ERR_NOT_FOUND, "no such execution");
    *ret = show(se, &h, &info);
    session_unref(se);
    return 0;
}

/* ---- once it is decided ------------------------------------------------- */

struct approved {
    struct sessions *m;
    struct held held;
    struct approval_info info;
};

static void approved_free(struct approved *a)
{
    held_done(&a->held);
    approval_info_done(&a->info);
    free(a);
}

static void *run_approved(void *arg)
{
    struct approved *a = arg;
    struct exec_spec spec = spec_of(&a->held, &a->info);
    struct actor who = actor_of(&a->held, &a->info);
    struct execution *e = NULL;
    struct error err;

    if (session_execute(a->m, &who, a->held.session, &spec, &e, &err) < 0)
        log_event(LOG_WARN, "approved_execution_failed", "approval",
                  a->info.id, "error", err.message, NULL);
    execution_unref(e);
    session_leave(a->m);
    approved_free(a);
    return NULL;
}

/* A denied one is on record, too. */
static int end_denied(struct sessions *m, const struct held *h,
                      const struct approval_info *info)
{
    struct actor who = actor_of(h, info);
    struct error err;
    struct session *se = session_find(m, &who, h->session, &err);
    struct execution *e;

    if (!se)
        return 0;
    e = show(se, h, info);
    session_govern_record(m, se, e, e->code, e->code_len);
    execution_unref(e);
    session_unref(se);
    return 0;
}

int session_held_decided(void *ctx, const struct approval_info *info)
{
    struct sessions *m = ctx;
    struct approved *a = xcalloc(1, sizeof(*a));
    struct error err;
    pthread_t thread;
    int rc;

    a->m = m;
    a->info = *info;
    a->info.payload = xstrdup(info->payload);
    rc = read_payload(&a->info, &a->held, &err);
    if (rc == 0 && info->state != APPROVAL_APPROVED) {
        rc = end_denied(m, &a->held, info);
    } else if (rc == 0) {
        rc = session_enter(m, &err); /* left by the thread */
        if (rc == 0 && pthread_create(&thread, NULL, run_approved, a) != 0) {
            session_leave(m);
            rc = -ERR_BUSY;
        } else if (rc == 0) {
            (void)pthread_detach(thread);
            return 0;
        }
    }
    approved_free(a);
    return rc == -ERR_CORRUPT ? 0 : rc; /* no use in trying that again */
}
