/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that may outlive their request (extension io.modelcontextprotocol/
 * tasks). A tool marked long_run, called by a client that supports tasks, runs
 * on another worker while the request waits. If the tool ends in time, the
 * response is an ordinary one; otherwise it is a task id, and the client
 * polls. Tasks are kept for an hour, in memory and on disk. They are bound to
 * the caller's key, and their number is bounded per key and in total.
 *
 *   working ⇄ input_required → completed | failed | cancelled
 *
 *   working → input_required       [mcp_task_wait]     the tool has questions
 *   input_required → working       [mcp_task_answer]   all are answered
 *   → completed, failed, cancelled [run_task]          the tool returned
 *
 * On disk a task is one row, written before the client learns its id and again
 * with the result when it ends. After a restart the client gets that result,
 * or a failure that says the service was restarted. Output of a session that
 * keeps nothing is not stored.
 *
 * A task is reference-counted: its worker, the waiting request and everyone
 * who looks it up hold a reference. Lock order: mcp->lock, then a task's lock.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "doors/mcp/mcp_int.h"
#include "session/tasks.h"

#define LOOK_MS 100
#define INPUT_S 3600

enum task_status {
    TASK_WORKING,
    TASK_INPUT,     /* waits for answers: x.asks */
    TASK_COMPLETED, /* result */
    TASK_FAILED,    /* x.fault */
    TASK_CANCELLED,
};

struct mcp_task {
    struct mcp_task *next; /* under mcp->lock */
    _Atomic unsigned refs;
    struct mcp *mcp;
    char id[ID_MAX];
    struct principal who;
    struct actor actor; /* borrows from this */
    char request[ID_MAX], source[64];
    char pool[64];
    const struct mcp_tool *tool;
    json_t *message, *args; /* owned */
    struct arena *arena;
    struct mcp_exchange x; /* owned by its worker until the task has ended */
    _Atomic bool cancelled;

    struct mutex lock; /* of what follows */
    struct cond change;
    enum task_status status;
    int returned;      /* what the tool did, once it is over */
    bool known;        /* the client has its id */
    bool stored;       /* there is a row of it */
    struct buf result; /* an object */
    int64_t created_ms, updated_ms;
};

static inline bool task_is_over(const struct mcp_task *t)
{
    return t->status >= TASK_COMPLETED;
}

static const char *const task_status_names[] = {
    "working", "input_required", "completed", "failed", "cancelled"};

void mcp_task_unref(struct mcp_task *t)
{
    if (!t || --t->refs > 0)
        return;
    mcp_exchange_done(&t->x);
    json_decref(t->message);
    json_decref(t->args);
    arena_free(t->arena);
    buf_done(&t->result);
    cond_done(&t->change);
    mutex_done(&t->lock);
    free(t);
}

/* ---- what others see of it ---------------------------------------------- */

static void write_task(struct mcp_task *t, struct json_writer *w)
{
    mutex_assert_held(&t->lock);
    json_write_string(w, "taskId", t->id);
    json_write_string(w, "status", task_status_names[t->status]);
    json_write_time(w, "createdAt", t->created_ms);
    json_write_time(w, "lastUpdatedAt", t->updated_ms);
    json_write_int(w, "ttlMs", MCP_TASK_TTL_MS);
    json_write_int(w, "pollIntervalMs", MCP_TASK_POLL_MS);
    if (t->status == TASK_COMPLETED)
        json_write_raw(w, "result", t->result.data, t->result.len);
    if (t->status == TASK_FAILED)
        mcp_rpc_write_fault(w, "error", &t->x.fault);
    if (t->status == TASK_INPUT)
        mcp_rpc_write_value(w, "inputRequests", t->x.asks);
}

void mcp_task_write(struct mcp_task *t, struct json_writer *w)
{
    mutex_lock(&t->lock);
    write_task(t, w);
    mutex_unlock(&t->lock);
}

/* The only place that sets the status. Releases the lock while it notifies
 * subscribers. */
static void set_task_status(struct mcp_task *t, enum task_status status)
{
    struct buf members cleanup(buf_done) = {0};
    struct json_writer w = {.out = &members};
    bool known = t->known;

    mutex_assert_held(&t->lock);
    t->status = status;
    t->updated_ms = clock_real_ms();
    if (known)
        write_task(t, &w);
    cond_broadcast(&t->change);
    mutex_unlock(&t->lock);
    if (known)
        mcp_listen_task(t->mcp, t->id, t->who.tenant, auth_shown(&t->who),
                        &members);
    mutex_lock(&t->lock);
}

static void wait_for_change(struct mcp_task *t, uint64_t ms)
{
    (void)cond_wait_until(&t->change, &t->lock, clock_mono_ms() + ms);
}

/* ---- the worker's side -------------------------------------------------- */

bool mcp_task_cancelled(const struct mcp_task *t)
{
    return t->cancelled;
}

bool mcp_task_is(struct mcp_task *t)
{
    bool known;

    mutex_lock(&t->lock);
    known = t->known;
    mutex_unlock(&t->lock);
    return known;
}

bool mcp_task_now(struct mcp_call *call)
{
    struct mcp_exchange *x = call->ctx;
    struct mcp_task *t = x->task;

    if (!t)
        return false;
    mutex_lock(&t->lock);
    t->known = true;
    cond_broadcast(&t->change);
    mutex_unlock(&t->lock);
    return true;
}

int mcp_task_wait(struct mcp_task *t, struct mcp_exchange *x,
                  struct error *err)
{
    uint64_t until = clock_mono_ms() + INPUT_S * 1000ull;
    bool there;

    mutex_lock(&t->lock);
    set_task_status(t, TASK_INPUT);
    while (!(there = json_object_size(x->asks) == 0) && !t->cancelled &&
           !t->mcp->stopping && clock_mono_ms() < until)
        wait_for_change(t, 1000);
    set_task_status(t, TASK_WORKING);
    mutex_unlock(&t->lock);
    return there ? 0
                 : error_set(err, ERR_TIMEOUT,
                             "the client did not answer in time");
}

/* Stores the result. A task that the service stop ends has none: its row says
 * so after the restart. */
static void store_task_end(struct mcp_task *t)
{
    struct buf members cleanup(buf_done) = {0};
    struct json_writer w = {.out = &members};

    if (t->mcp->stopping && t->status == TASK_CANCELLED)
        return;
    mcp_task_write(t, &w);
    mcp_task_keep_end(t->mcp, t->id, t->x.unkept ? NULL : &members,
                      t->x.base_url, t->updated_ms);
}

static void run_task(void *arg)
{
    struct mcp_task *t = arg;
    int r = mcp_call_tool(&t->x, t->tool, t->args);
    bool stored;

    mutex_lock(&t->lock);
    t->returned = r;
    if (r == MCP_PENDING && t->known) /* became a task as it gave up */
        (void)mcp_rpc_fault(&t->x.fault, RPC_INTERNAL, NULL,
                            "the call could not be answered; try again");
    if (r == 0 && !t->cancelled)
        mcp_reply_object(&t->x, &t->result);
    set_task_status(t, t->cancelled      ? TASK_CANCELLED
                       : t->x.fault.code ? TASK_FAILED
                                         : TASK_COMPLETED);
    stored = t->stored;
    mutex_unlock(&t->lock);
    if (stored)
        store_task_end(t);
    mcp_task_unref(t);
}

/* ---- the request's side ------------------------------------------------- */

static struct mcp_task *new_task(struct mcp_exchange *x,
                                 const struct mcp_tool *tool,
                                 const json_t *args)
{
    struct mcp_task *t = xcalloc(1, sizeof(*t));

    t->refs = 1;
    t->mcp = x->mcp;
    ids_make("task", t->id);
    t->who = x->door->who;
    t->actor = *x->actor;
    t->actor.tenant = t->who.tenant;
    t->actor.key = t->who.key_id;
    t->actor.token = t->who.token[0] ? t->who.token : NULL;
    t->actor.bounds = &t->who.bounds;
    (void)snprintf(t->request, sizeof(t->request), "%s", x->actor->request);
    (void)snprintf(t->source, sizeof(t->source), "%s", x->actor->source);
    t->actor.request = t->request;
    t->actor.source = t->source;
    t->tool = tool;
    t->args = json_deep_copy(args);
    t->message =
        json_pack("{s:s,s:s,s:O*,s:O*}", "jsonrpc", "2.0", "method",
                  x->msg.method, "id", x->msg.id, "params", x->msg.params);
    t->arena = arena_new();
    t->created_ms = t->updated_ms = clock_real_ms();
    mutex_init(&t->lock); /* these cannot fail on Linux */
    cond_init(&t->change);

    t->x = *x;
    t->x.door = NULL;
    t->x.actor = &t->actor;
    t->x.arena = t->arena;
    t->x.task = t;
    (void)snprintf(t->pool, sizeof(t->pool), "%s", x->pool ? x->pool : "");
    t->x.pool = x->pool ? t->pool : NULL;
    t->x.base_url = arena_strdup(t->arena, x->base_url);
    t->x.w.out = &t->x.result;
    t->x.state = x->state ? arena_strdup(t->arena, x->state) : NULL;
    (void)mcp_rpc_read(t->message, &t->x.msg);
    t->x.caps = json_object_get(t->x.msg.meta, META_CAPABILITIES);
    return t;
}

/* Sends the tool's result as an ordinary answer; it is used up then. */
static int take_over_result(struct mcp_exchange *x, struct mcp_task *t)
{
    struct mcp_exchange *from = &t->x;

    x->result = from->result;
    from->result = (struct buf){0};
    x->w = (struct json_writer){.out = &x->result, .comma = from->w.comma};
    x->meta = from->meta;
    from->meta = (struct buf){0};
    x->fault = from->fault;
    from->fault = (struct rpc_fault){0};
    x->asks = take_ptr(from->asks);
    x->keep = from->keep ? arena_strdup(x->arena, from->keep) : NULL;
    return t->returned;
}

/* Until it is over (true), or is to be a task. */
static bool wait_for_task(struct mcp_exchange *x, struct mcp_task *t)
{
    unsigned patience =
        t->tool->task_after_ms ? t->tool->task_after_ms : MCP_TASK_AFTER_MS;
    uint64_t until = clock_mono_ms() + patience;
    bool done;

    mutex_lock(&t->lock);
    while (!task_is_over(t) && !t->known && clock_mono_ms() < until) {
        wait_for_change(t, LOOK_MS);
        if (http_left(x->door->http)) /* the client never learned its id */
            t->cancelled = true;
    }
    done = task_is_over(t) && !t->known;
    if (!done)
        t->known = true;
    mutex_unlock(&t->lock);
    return done;
}

/* Before the client knows of it. It may have ended since it was given up. */
static void store_task(struct mcp_task *t)
{
    struct error err;
    bool ended;

    if (mcp_task_keep(t->mcp, t->id, &t->who, t->created_ms, &err) < 0) {
        log_event(LOG_WARN, "task_not_kept", "error", err.message, NULL);
        return; /* it is good as long as the service runs */
    }
    mutex_lock(&t->lock);
    t->stored = true;
    ended = task_is_over(t);
    mutex_unlock(&t->lock);
    if (ended)
        store_task_end(t);
}

/* Adds t to the table, where it can be found before the client learns its id.
 * -1: the table is full. */
static int add_task(struct mcp_exchange *x, struct mcp_task *t)
{
    struct mcp *m = x->mcp;
    size_t own = 0;
    bool full;

    mutex_lock(&m->lock);
    for (struct mcp_task *o = m->tasks; o; o = o->next)
        own += strcmp(o->who.key_id, t->who.key_id) == 0 &&
               strcmp(o->who.tenant, t->who.tenant) == 0;
    full = m->stopping || own >= MCP_TASKS_PER_KEY ||
           m->task_count >= MCP_TASKS_MAX;
    if (!full) {
        t->next = m->tasks;
        m->tasks = t;
        m->task_count++;
        t->refs++;
    }
    mutex_unlock(&m->lock);
    return full ? -1 : 0;
}

/* Removes t from the table; the caller holds a reference. */
static void remove_task(struct mcp_task *t)
{
    struct mcp *m = t->mcp;
    struct mcp_task **at;

    mutex_lock(&m->lock);
    for (at = &m->tasks; *at && *at != t; at = &(*at)->next)
        ;
    if (*at) {
        *at = t->next;
        m->task_count--;
        t->refs--; /* the caller has one */
    }
    mutex_unlock(&m->lock);
}

int mcp_task_run(struct mcp_exchange *x, const struct mcp_tool *tool,
                 const json_t *args)
{
    struct mcp_task *t = new_task(x, tool, args);
    int r = 0;

    if (add_task(x, t) < 0) {
        mcp_task_unref(t);
        return tool->task_only
                   ? mcp_rpc_fault(&x->fault, RPC_INTERNAL, NULL,
                                   "too many tasks are open; wait for some "
                                   "to end")
                   : mcp_call_tool(x, tool, args);
    }
    t->refs++; /* the worker's */
    if (http_work_submit(doors_workers(x->door), 0, false, run_task, t) < 0) {
        t->refs--;
        remove_task(t);
        mcp_task_unref(t);
        return mcp_call_tool(x, tool, args);
    }
    if (wait_for_task(x, t)) {
        remove_task(t);
        r = take_over_result(x, t);
    } else {
        x->result_type = "task";
        if (t->cancelled && http_left(x->door->http))
            remove_task(t);
        else
            store_task(t);
        mcp_task_write(t, &x->w);
    }
    mcp_task_unref(t);
    return r;
}

/* ---- the table of tasks ------------------------------------------------- */

struct mcp_task *mcp_task_find(struct mcp_exchange *x, const char *id)
{
    struct mcp *m = x->mcp;
    struct mcp_task *t;

    mutex_lock(&m->lock);
    for (t = m->tasks; t; t = t->next)
        if (strcmp(t->id, id) == 0 &&
            strcmp(t->who.tenant, x->actor->tenant) == 0 &&
            strcmp(auth_shown(&t->who), actor_credential(x->actor)) == 0)
            break;
    if (t)
        t->refs++;
    mutex_unlock(&m->lock);
    return t;
}

void mcp_task_cancel(struct mcp_task *t)
{
    mutex_lock(&t->lock);
    if (!task_is_over(t)) {
        t->cancelled = true;
        cond_broadcast(&t->change);
    }
    mutex_unlock(&t->lock);
}

void mcp_task_answer(struct mcp_task *t, const json_t *responses)
{
    const char *key;
    json_t *value;

    mutex_lock(&t->lock);
    if (t->status == TASK_INPUT) {
        json_object_foreach ((json_t *)(uintptr_t)responses, key, value) {
            if (!json_is_object(value) || !json_object_get(t->x.asks, key))
                continue;
            (void)json_object_set_new(t->x.asked, key, json_deep_copy(value));
            (void)json_object_del(t->x.asks, key);
        }
        cond_broadcast(&t->change);
    }
    mutex_unlock(&t->lock);
}

/* Removes expired tasks; a running one keeps its worker until it ends. */
void mcp_task_sweep(struct mcp *m)
{
    int64_t now = clock_real_ms();
    struct mcp_task *gone = NULL, **at;

    mutex_lock(&m->lock);
    for (at = &m->tasks; *at;) {
        struct mcp_task *t = *at;

        if (now < t->created_ms + MCP_TASK_TTL_MS) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        m->task_count--;
        t->next = gone;
        gone = t;
    }
    mutex_unlock(&m->lock);
    while (gone) {
        struct mcp_task *t = gone;

        gone = t->next;
        mcp_task_cancel(t);
        mcp_task_unref(t);
    }
}

void mcp_task_close(struct mcp *m)
{
    while (m->tasks) {
        struct mcp_task *t = m->tasks;

        m->tasks = t->next;
        mcp_task_unref(t);
    }
}

void mcp_task_stop(struct mcp *m)
{
    mutex_lock(&m->lock);
    for (struct mcp_task *t = m->tasks; t; t = t->next)
        t->cancelled = true; /* its worker looks every second */
    mutex_unlock(&m->lock);
}

/* ---- tasks on disk ------------------------------------------------------ */

#define BODY_MAX (512u << 10) /* a longer one is not kept */
#define FILES "/api/files/"
/* In place of what URLs begin with, which a request may have named: that must
 * not be stored. The request that reads the result says how they begin. */
#define BASE_MARK "glovebox-base:"

static void replace_base(struct buf *out, const char *text, const char *from,
                         const char *to)
{
    struct buf what cleanup(buf_done) = {0};
    const char *at;

    buf_addf(&what, "%s" FILES, from);
    while ((at = strstr(text, what.data))) {
        buf_add(out, text, (size_t)(at - text));
        buf_addf(out, "%s" FILES, to);
        text = at + what.len;
    }
    buf_adds(out, text);
}

int mcp_task_keep(struct mcp *m, const char *id, const struct principal *who,
                  int64_t created_ms, struct error *err)
{
    const struct session_task t = {.id = id,
                                   .tenant = who->tenant,
                                   .caller = auth_shown(who),
                                   .created_at_ms = created_ms};

    return session_task_begin(m->doors->sessions, &t, err);
}

void mcp_task_keep_end(struct mcp *m, const char *id,
                       const struct buf *members, const char *base_url,
                       int64_t at_ms)
{
    struct buf body cleanup(buf_done) = {0};
    struct error err;

    buf_adds(&body, "");
    if (members && members->len <= BODY_MAX)
        replace_base(&body, members->data, base_url, BASE_MARK);
    if (session_task_end(m->doors->sessions, id, body.data, at_ms, &err) < 0)
        log_event(LOG_WARN, "task_not_kept", "error", err.message, NULL);
}

void mcp_task_unkept(struct mcp_call *call)
{
    struct mcp_exchange *x = call->ctx;

    x->unkept = true;
}

static void write_lost_task(const struct session_task *t,
                            struct json_writer *w)
{
    struct rpc_fault fault = {0};

    (void)mcp_rpc_fault(&fault, RPC_INTERNAL, NULL,
                        t->over ? "it ended before the service was "
                                  "restarted; its result was not kept"
                                : "the service was restarted");
    json_write_string(w, "taskId", t->id);
    json_write_string(w, "status", "failed");
    json_write_time(w, "createdAt", t->created_at_ms);
    json_write_time(w, "lastUpdatedAt", t->updated_at_ms);
    json_write_int(w, "ttlMs", MCP_TASK_TTL_MS);
    json_write_int(w, "pollIntervalMs", MCP_TASK_POLL_MS);
    mcp_rpc_write_fault(w, "error", &fault);
    mcp_rpc_fault_done(&fault);
}

int mcp_task_kept(struct mcp_exchange *x, const char *id,
                  struct json_writer *w)
{
    struct session_task t = {.id = id,
                             .tenant = x->actor->tenant,
                             .caller = actor_credential(x->actor)};
    char *body cleanup(mem_free) = NULL;
    struct error err;
    int r = session_task_find(x->mcp->doors->sessions, &t, &err);

    body = t.body;
    if (r < 0 || clock_real_ms() >= t.created_at_ms + MCP_TASK_TTL_MS)
        return -1;
    if (w && body[0]) {
        if (w->comma)
            buf_adds(w->out, ",");
        replace_base(w->out, body, BASE_MARK, x->base_url);
        w->comma = true;
    } else if (w) {
        write_lost_task(&t, w);
    }
    return 0;
}

void mcp_task_kept_sweep(struct mcp *m)
{
    struct error err;

    if (session_task_sweep(m->doors->sessions,
                           clock_real_ms() - MCP_TASK_TTL_MS, &err) < 0)
        log_event(LOG_WARN, "task_not_kept", "error", err.message, NULL);
}

/* ---- methods ------------------------------------------------------------ */

/* NULL without a fault: it is of an earlier process, and over; w gets what is
 * known of it, unless NULL. */
static struct mcp_task *find_task(struct mcp_exchange *x,
                                  struct json_writer *w)
{
    const char *id = mcp_need_string(x, "taskId");
    struct mcp_task *t = id ? mcp_task_find(x, id) : NULL;

    if (id && !t && mcp_task_kept(x, id, w) < 0)
        (void)mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                            "no such task; it may have expired");
    return t;
}

int mcp_tasks_get(struct mcp_exchange *x)
{
    struct mcp_task *t = find_task(x, &x->w);

    if (!t)
        return x->fault.code ? -1 : 0;
    mcp_task_write(t, &x->w);
    mcp_task_unref(t);
    return 0;
}

int mcp_tasks_update(struct mcp_exchange *x)
{
    const json_t *responses = json_object_get(x->msg.params, "inputResponses");
    struct mcp_task *t = find_task(x, NULL);

    if (x->fault.code)
        return -1;
    if (json_is_object(responses) && t)
        mcp_task_answer(t, responses);
    else if (!json_is_object(responses))
        (void)mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                            "params.inputResponses must be an object");
    mcp_task_unref(t);
    return x->fault.code ? -1 : 0;
}

int mcp_tasks_cancel(struct mcp_exchange *x)
{
    struct mcp_task *t = find_task(x, NULL);

    if (!t)
        return x->fault.code ? -1 : 0;
    mcp_task_cancel(t);
    mcp_task_unref(t);
    return 0;
}
