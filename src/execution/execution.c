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
#include "base/utf8.h"
#include "execution/execution_int.h"
#include "feed/feed.h"

/* ---- events ------------------------------------------------------------- */

#define CHUNK_FIRST 448u
#define CHUNK_MOST 65536u
#define EVENTS_FIRST 8u

struct event_chunk {
    struct event_chunk *next;
    size_t used;
    size_t size;
    char data[];
};

/* Room for len bytes. What does not fit gets a chunk of its own size, and the
 * started one stays in front for the next small event. */
static char *events_reserve(struct execution *e, size_t len)
{
    struct event_chunk *head = e->chunks;
    struct event_chunk *c;
    size_t size;

    if (head && head->size - head->used >= len) {
        char *at = head->data + head->used;

        head->used += len;
        return at;
    }
    size = head ? MIN(head->size * 2, CHUNK_MOST) : CHUNK_FIRST;
    if (len > size / 2)
        size = len;
    c = xmalloc(sizeof(*c) + size);
    c->size = size;
    c->used = len;
    e->event_bytes += sizeof(*c) + size;
    if (head && size == len) {
        c->next = head->next;
        head->next = c;
    } else {
        c->next = head;
        e->chunks = c;
    }
    return c->data;
}

void execution_events_append(struct execution *e, enum exec_event_type type,
                             const void *data, size_t len)
{
    struct exec_event *event;

    if (e->event_count == e->event_cap) {
        uint32_t cap = e->event_cap ? e->event_cap * 2 : EVENTS_FIRST;

        e->events = xrealloc(e->events, cap * sizeof(*e->events));
        e->event_bytes += (cap - e->event_cap) * sizeof(*e->events);
        e->event_cap = cap;
    }
    event = &e->events[e->event_count];
    event->number = ++e->event_count;
    event->type = type;
    event->len = len;
    event->data = "";
    if (len) {
        char *at = events_reserve(e, len);

        memcpy(at, data, len);
        event->data = at;
    }
}

/* The next watcher with something to see, marked as being called. */
static struct watcher *next_due(struct execution *e)
{
    for (struct watcher *w = e->watchers; w; w = w->next)
        if (!w->firing && w->after < e->event_count) {
            w->firing = true;
            return w;
        }
    return NULL;
}

static void drop_watcher(struct execution *e, struct watcher *w)
{
    struct watcher **at = &e->watchers;

    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    free(w);
}

void execution_events_fire(struct execution *e)
{
    struct watcher *w;

    mutex_lock(&e->lock);
    while ((w = next_due(e))) {
        mutex_unlock(&e->lock);
        w->fn(w->ctx);
        mutex_lock(&e->lock);
        drop_watcher(e, w);
        cond_broadcast(&e->fired);
    }
    mutex_unlock(&e->lock);
}

void execution_events_add(struct execution *e, enum exec_event_type type,
                          const void *data, size_t len)
{
    bool watched;

    mutex_lock(&e->lock);
    execution_events_append(e, type, data, len);
    watched = e->watchers != NULL;
    mutex_unlock(&e->lock);
    if (watched)
        execution_events_fire(e);
}

void execution_events_done(struct execution *e)
{
    struct event_chunk *next;

    for (struct event_chunk *c = e->chunks; c; c = next) {
        next = c->next;
        free(c);
    }
    free(e->events);
    while (e->watchers)
        drop_watcher(e, e->watchers);
}

bool execution_event(struct execution *e, uint32_t after,
                     struct exec_event *ret)
{
    bool there;

    mutex_lock(&e->lock);
    there = after < e->event_count;
    if (there)
        *ret = e->events[after];
    mutex_unlock(&e->lock);
    return there;
}

uint64_t execution_watch(struct execution *e, uint32_t after,
                         void (*fn)(void *ctx), void *ctx)
{
    uint64_t handle = 0;

    mutex_lock(&e->lock);
    if (after >= e->event_count) {
        struct watcher *w = xcalloc(1, sizeof(*w));

        handle = ++e->next_handle;
        *w = (struct watcher){.next = e->watchers,
                              .handle = handle,
                              .after = after,
                              .fn = fn,
                              .ctx = ctx};
        e->watchers = w;
    }
    mutex_unlock(&e->lock);
    if (!handle)
        fn(ctx);
    return handle;
}

static struct watcher *find_watcher(struct execution *e, uint64_t handle)
{
    struct watcher *w = e->watchers;

    while (w && w->handle != handle)
        w = w->next;
    return w;
}

void execution_unwatch(struct execution *e, uint64_t handle)
{
    struct watcher *w;

    if (!handle)
        return;
    mutex_lock(&e->lock);
    while ((w = find_watcher(e, handle)) && w->firing)
        cond_wait(&e->fired, &e->lock);
    if (w)
        drop_watcher(e, w);
    mutex_unlock(&e->lock);
}

/* ---- the execution ------------------------------------------------------ */
#include "wire/kernel_msg.h"

static const char *const outcome_names[OUTCOME_LOST + 1] = {
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
    [OUTCOME_LOST] = "lost",
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
    (void)snprintf(e->author_name, sizeof(e->author_name), "%s",
                   who->name ? who->name : "");
    (void)snprintf(e->info.author, sizeof(e->info.author), "%s", who->key);
    (void)snprintf(e->info.author_name, sizeof(e->info.author_name), "%s",
                   e->author_name);
    (void)snprintf(e->token, sizeof(e->token), "%s",
                   who->token ? who->token : "");
    e->author_admin = who->admin;
    (void)snprintf(e->request, sizeof(e->request), "%s",
                   who->request ? who->request : "");
    (void)snprintf(e->source, sizeof(e->source), "%s",
                   who->source ? who->source : "");
    (void)snprintf(e->door, sizeof(e->door), "%s", who->door ? who->door : "");
    (void)snprintf(e->tool, sizeof(e->tool), "%s", who->tool ? who->tool : "");
    (void)snprintf(e->trigger, sizeof(e->trigger), "%s",
                   who->trigger ? who->trigger : "");
    e->scopes = who->scopes;
    e->action = spec->action;
    e->fresh = spec->fresh;
    e->clean = spec->clean;
    e->input = spec->input;
    e->turn.left = spec->left;
    e->turn.left_ctx = spec->left_ctx;
    (void)snprintf(e->retry_of, sizeof(e->retry_of), "%s",
                   spec->retry_of ? spec->retry_of : "");
    e->conversation = xstrdup(spec->conversation);
    e->message = xstrdup(spec->message);
    if (spec->prompt)
        e->prompt =
            xstrndup(spec->prompt, utf8_cut(spec->prompt, strlen(spec->prompt),
                                            EXEC_PROMPT_MAX));
    e->lock_tokens = xcalloc(spec->lock_count + 1, sizeof(char *));
    for (; e->lock_count < spec->lock_count; e->lock_count++)
        e->lock_tokens[e->lock_count] =
            xstrdup(spec->lock_tokens[e->lock_count]);
}

struct actor execution_author(const struct execution *e)
{
    return (struct actor){.tenant = e->tenant,
                          .key = e->author,
                          .name = e->author_name[0] ? e->author_name : NULL,
                          .token = e->token[0] ? e->token : NULL,
                          .admin = e->author_admin,
                          .scopes = e->scopes,
                          .door = e->door[0] ? e->door : NULL,
                          .tool = e->tool[0] ? e->tool : NULL,
                          .trigger = e->trigger[0] ? e->trigger : NULL,
                          .request = e->request[0] ? e->request : NULL,
                          .source = e->source[0] ? e->source : NULL};
}

/* turn.on_cancel: it was taken out of the queue. */
static void on_cancel(struct turn *t, const char *why)
{
    struct execution *e = container_of(t, struct execution, turn);

    execution_finish_cancelled(e, why);
    execution_unref(e); /* the queue's */
}

struct execution *execution_new(struct executions *x, struct session *se,
                                const struct actor *who,
                                const struct exec_spec *spec,
                                uint32_t timeout_s)
{
    struct execution *e = xcalloc(1, sizeof(*e));
    struct session_facts f = session_facts(se);

    atomic_init(&e->refs, 1);
    e->all = x;
    e->tenant = f.tenant;
    e->turn.on_cancel = on_cancel;
    e->turn.wake = -1;
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
        ids_make_tagged("exec", e->info.id);
    if (spec->approval)
        (void)snprintf(e->info.approval, sizeof(e->info.approval), "%s",
                       spec->approval);
    (void)snprintf(e->info.session, sizeof(e->info.session), "%s", f.id);
    e->info.language = spec->language;
    e->info.exit_code = -1;
    e->info.metadata = e->metadata;
    e->info.code = e->code;
    e->info.commit = "";
    if (!f.ephemeral)
        (void)snprintf(e->info.workspace, sizeof(e->info.workspace), "%s",
                       f.workspace);
    keep_origin(e, who, spec);
    e->info.created_at_ms = clock_real_ms();
    execution_events_append(e, EVENT_STATUS, "queued", strlen("queued"));
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
    execution_events_done(e);
    session_unref(e->session);
    free(e->code);
    free(e->failure);
    free(e->checks);
    free(e->warning);
    free(e->output_tails[0]);
    free(e->output_tails[1]);
    free(e->metadata);
    free(e->conversation);
    free(e->prompt);
    free(e->message);
    for (size_t i = 0; i < e->lock_count; i++)
        free(e->lock_tokens[i]);
    free(e->lock_tokens);
    free(e->changes);
    execution_watch_done(e);
    execution_input_done(e);
    if (e->strings)
        arena_free(e->strings);
    mutex_done(&e->lock);
    cond_done(&e->fired);
    free(e);
}

/* The status at the time of the call, so that a late call is not out of date.
 */
void execution_publish(struct execution *e, const struct session *se)
{
    struct exec_info now, *info = &now;
    struct feed_item item;

    execution_info(e, &now);

    session_feed_item(se, &item);
    item.kind = FEED_EXECUTION;
    item.execution = info->id;
    item.state = exec_status_name(info->status);
    item.outcome = info->status == EXEC_COMPLETED
                       ? exec_outcome_name(info->outcome)
                       : NULL;
    item.language = execution_language_name(info->language);
    item.author = e->author;
    item.author_name = e->author_name[0] ? e->author_name : NULL;
    item.created_at_ms = info->created_at_ms;
    item.started_at_ms = info->started_at_ms;
    item.finished_at_ms = info->finished_at_ms;
    feed_publish(e->all->core->feed, &item);
}

void execution_started(struct execution *e, enum session_interpreter how,
                       const char *notice)
{
    mutex_lock(&e->lock);
    e->info.status = EXEC_RUNNING;
    e->info.interpreter = how;
    e->info.interpreter_fresh = how == SESSION_INTERPRETER_FRESH;
    (void)snprintf(e->notice, sizeof(e->notice), "%s", notice);
    e->info.notice = e->notice[0] ? e->notice : NULL;
    e->info.started_at_ms = clock_real_ms();
    execution_events_append(e, EVENT_STATUS, "running", strlen("running"));
    mutex_unlock(&e->lock);
    execution_events_fire(e);
    mutex_lock(&e->all->lock);
    e->started_at_ms = e->info.started_at_ms;
    mutex_unlock(&e->all->lock);
    execution_publish(e, e->session);
}

void execution_wait(struct execution *e)
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
    execution_events_append(e, EVENT_ERROR, pairs.data, pairs.len);
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
    watched = execution_watch_publish(e);
    execution_events_append(e, EVENT_DONE, NULL, 0);
    return sizeof(*e) + e->event_bytes + watched +
           (e->metadata ? strlen(e->metadata) : 0) + e->change_bytes +
           e->code_len;
}

void execution_finish(struct execution *e, const struct outcome *v)
{
    struct session *se = e->session;
    struct session_facts f = session_facts(se);
    size_t bytes;

    execution_running_remove(e->all, e);
    e->session = NULL;

    session_metrics_outcome(f.sessions, v->outcome, e->info.started_at_ms != 0,
                            v->wall_ms * 1000);
    mutex_lock(&e->lock);
    if (!session_has_workspace(se)) /* a single run that left no file */
        e->info.workspace[0] = '\0';
    e->info.egress = network_mode(f.network);
    bytes = set_final(e, v);
    cond_broadcast(&e->fired);
    mutex_unlock(&e->lock);
    execution_events_fire(e);
    execution_history_record(e->all, e, bytes);
    execution_publish(e, se);
    session_turn_done(se, e->counted);
    session_unref(se);
}

void execution_finish_cancelled(struct execution *e, const char *why)
{
    struct outcome v = {.outcome = OUTCOME_CANCELLED, .exit_code = -1};

    (void)snprintf(v.failure, sizeof(v.failure), "%s", why);
    execution_finish(e, &v);
}

void execution_info(struct execution *e, struct exec_info *ret)
{
    mutex_lock(&e->lock);
    *ret = e->info;
    mutex_unlock(&e->lock);
}

int execution_find(struct sessions *s, const struct actor *who, const char *id,
                   struct execution **ret, struct error *err)
{
    struct executions *x = sessions_hooks_ctx(s);
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    rc = execution_lookup(x, who, id, ret, NULL, err);
    if (rc == -ERR_NOT_FOUND)
        rc = execution_pending_find(x, who, id, ret, err);
    if (rc == -ERR_NOT_FOUND)
        rc = execution_stored_find(x, who, id, ret, err);
    if (rc == -ERR_NOT_FOUND)
        rc = execution_elsewhere(x, id, err);
    session_leave(s);
    return rc;
}

int execution_cancel(struct sessions *s, const struct actor *who,
                     const char *id, struct error *err)
{
    struct executions *x = sessions_hooks_ctx(s);
    struct execution *e = NULL;
    struct session *se = NULL;
    int rc = session_enter(s, err);

    if (rc < 0)
        return rc;
    rc = execution_lookup(x, who, id, &e, &se, err);
    if (rc < 0) {
        if (rc == -ERR_NOT_FOUND)
            rc = execution_pending_cancel(x, who, id, err);
        if (rc == -ERR_NOT_FOUND)
            rc = execution_elsewhere(x, id, err);
        session_leave(s);
        return rc;
    }
    if (session_turn_cancel(se, &e->turn))
        on_cancel(&e->turn, "the execution was cancelled before it started");
    execution_unref(e);
    session_unref(se);
    session_leave(s);
    return 0;
}
