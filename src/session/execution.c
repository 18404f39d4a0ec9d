/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The execution object: created on admission, final once finished, freed with
 * its last reference. Runs in gloveboxd. An execution does not use its session
 * after it is finished, so a reader may outlive the session and the manager.
 */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/session_int.h"
#include "wire/kernel_msg.h"

static const char *const outcome_names[OUTCOME_ISOLATION_FAILED + 1] = {
    [OUTCOME_NONE] = "none",
    [OUTCOME_OK] = "ok",
    [OUTCOME_ERROR] = "error",
    [OUTCOME_TIMEOUT] = "timeout",
    [OUTCOME_OOM] = "oom",
    [OUTCOME_KILLED] = "killed",
    [OUTCOME_LIMIT] = "limit",
    [OUTCOME_CRASHED] = "crashed",
    [OUTCOME_CANCELLED] = "cancelled",
    [OUTCOME_DENIED] = "denied",
    [OUTCOME_ISOLATION_FAILED] = "isolation_failed",
};

static const char *const status_names[EXEC_PENDING + 1] = {
    [EXEC_QUEUED] = "queued",
    [EXEC_RUNNING] = "running",
    [EXEC_COMPLETED] = "completed",
    [EXEC_PENDING] = "pending_approval",
};

const char *exec_outcome_name(enum exec_outcome outcome)
{
    return outcome_names[outcome];
}

const char *exec_status_name(enum exec_status status)
{
    return status_names[status];
}

static void keep_origin(struct execution *e, const struct actor *who,
                        const struct exec_spec *spec)
{
    (void)snprintf(e->author, sizeof(e->author), "%s", who->key);
    (void)snprintf(e->token, sizeof(e->token), "%s",
                   who->token ? who->token : "");
    e->author_admin = who->admin;
    (void)snprintf(e->request, sizeof(e->request), "%s",
                   who->request ? who->request : "");
    (void)snprintf(e->source, sizeof(e->source), "%s",
                   who->source ? who->source : "");
    (void)snprintf(e->door, sizeof(e->door), "%s", who->door ? who->door : "");
    (void)snprintf(e->tool, sizeof(e->tool), "%s", who->tool ? who->tool : "");
    e->scopes = who->scopes;
    e->fresh = spec->fresh;
    e->left = spec->left;
    e->left_ctx = spec->left_ctx;
    (void)snprintf(e->retry_of, sizeof(e->retry_of), "%s",
                   spec->retry_of ? spec->retry_of : "");
    e->conversation = xstrdup(spec->conversation);
    e->message = xstrdup(spec->message);
    e->lock_tokens = xcalloc(spec->lock_count + 1, sizeof(char *));
    for (; e->lock_count < spec->lock_count; e->lock_count++)
        e->lock_tokens[e->lock_count] =
            xstrdup(spec->lock_tokens[e->lock_count]);
}

struct actor session_execution_author(const struct session *se,
                                      const struct execution *e)
{
    return (struct actor){.tenant = se->tenant->name,
                          .key = e->author,
                          .token = e->token[0] ? e->token : NULL,
                          .admin = e->author_admin,
                          .scopes = e->scopes,
                          .door = e->door[0] ? e->door : NULL,
                          .tool = e->tool[0] ? e->tool : NULL,
                          .request = e->request[0] ? e->request : NULL,
                          .source = e->source[0] ? e->source : NULL};
}

struct execution *session_execution_new(struct session *se,
                                        const struct actor *who,
                                        const struct exec_spec *spec,
                                        uint32_t timeout_s)
{
    struct execution *e = xcalloc(1, sizeof(*e));

    atomic_init(&e->refs, 1);
    e->tenant = se->tenant;
    e->session = session_ref(se);
    e->code = xstrndup(spec->code, spec->code_len);
    e->code_len = spec->code_len;
    e->timeout_s = timeout_s;
    mutex_init(&e->lock); /* cannot fail on Linux */
    cond_init(&e->fired);
    e->metadata = xstrdup(spec->metadata);
    if (spec->held)
        (void)snprintf(e->info.id, sizeof(e->info.id), "%s", spec->held);
    else
        ids_make("exec", e->info.id);
    if (spec->approval)
        (void)snprintf(e->info.approval, sizeof(e->info.approval), "%s",
                       spec->approval);
    memcpy(e->info.session, se->id, sizeof(e->info.session));
    e->info.language = spec->language;
    e->info.exit_code = -1;
    e->info.metadata = e->metadata;
    e->info.commit = "";
    if (!se->ephemeral)
        memcpy(e->info.workspace, se->workspace, sizeof(e->info.workspace));
    keep_origin(e, who, spec);
    e->info.created_at_ms = clock_real_ms();
    session_events_append(e, EVENT_STATUS, "queued", strlen("queued"));
    return e;
}

struct execution *execution_ref(struct execution *e)
{
    atomic_fetch_add(&e->refs, 1);
    return e;
}

void execution_unrefp(struct execution **e)
{
    execution_unref(*e);
}

void execution_unref(struct execution *e)
{
    if (!e || atomic_fetch_sub(&e->refs, 1) != 1)
        return;
    session_events_done(e);
    session_unref(e->session);
    free(e->code);
    free(e->failure);
    free(e->warning);
    free(e->metadata);
    free(e->conversation);
    free(e->message);
    for (size_t i = 0; i < e->lock_count; i++)
        free(e->lock_tokens[i]);
    free(e->lock_tokens);
    free(e->changes);
    session_watch_done(e);
    if (e->strings)
        arena_free(e->strings);
    mutex_done(&e->lock);
    cond_done(&e->fired);
    free(e);
}

void session_execution_started(struct execution *e, bool fresh)
{
    mutex_lock(&e->lock);
    e->info.status = EXEC_RUNNING;
    e->info.interpreter_fresh = fresh;
    e->info.started_at_ms = clock_real_ms();
    session_events_append(e, EVENT_STATUS, "running", strlen("running"));
    mutex_unlock(&e->lock);
    session_events_fire(e);
}

void session_execution_wait(struct execution *e)
{
    mutex_lock(&e->lock);
    while (e->info.status != EXEC_COMPLETED)
        cond_wait(&e->fired, &e->lock);
    mutex_unlock(&e->lock);
}

static void add_pair(struct buf *b, const char *key, const char *value)
{
    uint32_t lens[2] = {(uint32_t)strlen(key), (uint32_t)strlen(value)};

    buf_add(b, lens, sizeof(lens));
    buf_adds(b, key);
    buf_adds(b, value);
}

/* e->lock is held. */
static void append_our_error(struct execution *e, const struct outcome *v)
{
    struct buf pairs cleanup(buf_done) = {0};

    if (!v->error_name[0])
        return;
    add_pair(&pairs, "name", v->error_name);
    add_pair(&pairs, "message", v->error_text);
    session_events_append(e, EVENT_ERROR, pairs.data, pairs.len);
}

static size_t set_final(struct execution *e, const struct outcome *v)
{
    struct exec_info *info = &e->info;
    size_t watched;

    append_our_error(e, v);
    if (v->failure[0])
        info->failure = e->failure = xstrdup(v->failure);
    if (v->warning[0])
        info->warning = e->warning = xstrdup(v->warning);
    info->outcome = v->outcome;
    info->interpreter_lost = v->interpreter_lost;
    info->exit_code = v->exit_code;
    info->limit_name = v->limit_name;
    info->limit_value = v->limit_value;
    info->limit_peak = v->limit_peak;
    info->wall_ms = v->wall_ms;
    info->cpu_ms = v->cpu_ms;
    info->peak_memory_bytes = v->peak_memory_bytes;
    info->finished_at_ms = clock_real_ms();
    info->status = EXEC_COMPLETED;
    watched = session_watch_publish(e);
    session_events_append(e, EVENT_DONE, NULL, 0);
    return sizeof(*e) + e->event_bytes + watched +
           (e->metadata ? strlen(e->metadata) : 0) + e->change_bytes;
}

void session_execution_finish(struct execution *e, const struct outcome *v)
{
    struct session *se = e->session;
    struct sessions *m = se->m;
    enum session_egress mode = session_network_mode(se);
    size_t bytes;

    mutex_lock(&m->counters.lock);
    m->counters.outcomes[v->outcome]++;
    mutex_unlock(&m->counters.lock);
    if (e->info.started_at_ms)
        session_metrics_time(m, &m->counters.execution, v->wall_ms * 1000);
    free(take_ptr(e->code));
    mutex_lock(&e->lock);
    if (!se->made) /* a single run that left nothing: it never came to be */
        e->info.workspace[0] = '\0';
    e->info.egress = mode;
    bytes = set_final(e, v);
    cond_broadcast(&e->fired);
    mutex_unlock(&e->lock);
    session_events_fire(e);
    session_history_record(m, se, e, bytes);
    e->session = NULL;
    session_unref(se);
}

void session_execution_cancelled(struct execution *e, const char *why)
{
    struct outcome v = {.outcome = OUTCOME_CANCELLED, .exit_code = -1};

    (void)snprintf(v.failure, sizeof(v.failure), "%s", why);
    session_execution_finish(e, &v);
}

void execution_info(struct execution *e, struct exec_info *ret)
{
    mutex_lock(&e->lock);
    *ret = e->info;
    mutex_unlock(&e->lock);
}

int session_execution_find(struct sessions *m, const struct actor *who,
                           const char *id, struct execution **ret,
                           struct session **ret_session, struct error *err)
{
    struct execution *e = NULL;
    struct idmap_node *n;

    mutex_lock(&m->lock);
    n = session_idmap_find(&m->runs, id);
    if (n)
        e = container_of(n, struct execution, node);
    if (e && strcmp(e->tenant->name, who->tenant) == 0 &&
        session_visible(e->home, who)) {
        session_history_touch(m, e);
        (void)execution_ref(e);
        if (ret_session)
            *ret_session = session_ref(e->home);
    } else {
        e = NULL;
    }
    mutex_unlock(&m->lock);
    if (!e)
        return error_set(err, ERR_NOT_FOUND, "no such execution");
    *ret = e;
    return 0;
}

int execution_find(struct sessions *s, const struct actor *who, const char *id,
                   struct execution **ret, struct error *err)
{
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    rc = session_execution_find(s, who, id, ret, NULL, err);
    if (rc == -ERR_NOT_FOUND)
        rc = session_pending_find(s, who, id, ret, err);
    session_leave(s);
    return rc;
}
