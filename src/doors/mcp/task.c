/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that may outlive their request (extension io.modelcontextprotocol/
 * tasks). A tool marked long_run, called by a client that knows tasks, runs
 * on another worker while the request waits for it: if it is done within its
 * time the answer is an ordinary one, else the client is told a task's id and
 * asks again. Kept for an hour, in memory and on disk (task_kept.c), bound to
 * the key that called, bounded for each key and in all.
 *
 *   working ⇄ input_required → completed | failed | cancelled
 *
 *   working → input_required    [mcp_task_wait]     the tool asks
 *   input_required → working    [mcp_task_answer]   all is answered
 *   → completed, failed, cancelled [run]            the tool returned
 *
 * A task is used by its worker, by the request that waits, and by whoever
 * looks it up (task_list.c); counted. Lock order: the table's (mcp->lock),
 * then a task's.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "doors/mcp/task_int.h"

#define LOOK_MS 100
#define INPUT_S 3600

static const char *const names[] = {"working", "input_required", "completed",
                                    "failed", "cancelled"};

void mcp_task_unref(struct mcp_task *t)
{
    if (!t || --t->refs > 0)
        return;
    mcp_exchange_done(&t->x);
    json_decref(t->message);
    json_decref(t->args);
    arena_free(t->arena);
    buf_done(&t->result);
    (void)pthread_cond_destroy(&t->change);
    (void)pthread_mutex_destroy(&t->lock);
    free(t);
}

/* ---- what others see of it ---------------------------------------------- */

/* Lock held. */
static void write_task(struct mcp_task *t, struct json_writer *w)
{
    json_write_string(w, "taskId", t->id);
    json_write_string(w, "status", names[t->status]);
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
    (void)pthread_mutex_lock(&t->lock);
    write_task(t, w);
    (void)pthread_mutex_unlock(&t->lock);
}

/* The only place that sets it. Lock held; released while others are told. */
static void set_status(struct mcp_task *t, enum task_status status)
{
    struct buf members cleanup(buf_done) = {0};
    struct json_writer w = {.out = &members};
    bool known = t->known;

    t->status = status;
    t->updated_ms = clock_real_ms();
    if (known)
        write_task(t, &w);
    (void)pthread_cond_broadcast(&t->change);
    (void)pthread_mutex_unlock(&t->lock);
    if (known)
        mcp_listen_task(t->mcp, t->id, t->who.tenant, auth_shown(&t->who),
                        &members);
    (void)pthread_mutex_lock(&t->lock);
}

/* Lock held. */
static void wait_ms(struct mcp_task *t, long ms)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ms * 1000000l;
    until.tv_sec += until.tv_nsec / 1000000000l;
    until.tv_nsec %= 1000000000l;
    (void)pthread_cond_timedwait(&t->change, &t->lock, &until);
}

/* ---- the worker's side -------------------------------------------------- */

bool mcp_task_cancelled(const struct mcp_task *t)
{
    return t->cancelled;
}

bool mcp_task_is(struct mcp_task *t)
{
    bool known;

    (void)pthread_mutex_lock(&t->lock);
    known = t->known;
    (void)pthread_mutex_unlock(&t->lock);
    return known;
}

bool mcp_task_now(struct mcp_call *call)
{
    struct mcp_exchange *x = call->ctx;
    struct mcp_task *t = x->task;

    if (!t)
        return false;
    (void)pthread_mutex_lock(&t->lock);
    t->known = true;
    (void)pthread_cond_broadcast(&t->change);
    (void)pthread_mutex_unlock(&t->lock);
    return true;
}

int mcp_task_wait(struct mcp_task *t, struct mcp_exchange *x,
                  struct error *err)
{
    uint64_t until = clock_mono_ms() + INPUT_S * 1000ull;
    bool there;

    (void)pthread_mutex_lock(&t->lock);
    set_status(t, TASK_INPUT);
    while (!(there = json_object_size(x->asks) == 0) && !t->cancelled &&
           !t->mcp->stopping && clock_mono_ms() < until)
        wait_ms(t, 1000);
    set_status(t, TASK_WORKING);
    (void)pthread_mutex_unlock(&t->lock);
    return there ? 0
                 : error_set(err, ERR_TIMEOUT,
                             "the client did not answer in time");
}

/* What it came to, on disk. One that the service ends has none: its row says
 * so after the restart. */
static void store_end(struct mcp_task *t)
{
    struct buf members cleanup(buf_done) = {0};
    struct json_writer w = {.out = &members};

    if (t->mcp->stopping && t->status == TASK_CANCELLED)
        return;
    mcp_task_write(t, &w);
    mcp_task_keep_end(t->mcp, t->id, t->x.unkept ? NULL : &members,
                      t->updated_ms);
}

static void run(void *arg)
{
    struct mcp_task *t = arg;
    int r = mcp_call_tool(&t->x, t->tool, t->args);
    bool stored;

    (void)pthread_mutex_lock(&t->lock);
    t->returned = r;
    if (r == MCP_PENDING && t->known) /* became a task as it gave up */
        (void)mcp_rpc_fault(&t->x.fault, RPC_INTERNAL, NULL,
                            "the call could not be answered; try again");
    if (r == 0 && !t->cancelled)
        mcp_reply_object(&t->x, &t->result);
    set_status(t, t->cancelled      ? TASK_CANCELLED
                  : t->x.fault.code ? TASK_FAILED
                                    : TASK_COMPLETED);
    stored = t->stored;
    (void)pthread_mutex_unlock(&t->lock);
    if (stored)
        store_end(t);
    mcp_task_unref(t);
}

/* ---- the request's side ------------------------------------------------- */

static struct mcp_task *make(struct mcp_exchange *x,
                             const struct mcp_tool *tool, const json_t *args)
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
    (void)pthread_mutex_init(&t->lock, NULL); /* these cannot fail on Linux */
    (void)pthread_cond_init(&t->change, NULL);

    t->x = *x;
    t->x.door = NULL;
    t->x.actor = &t->actor;
    t->x.arena = t->arena;
    t->x.task = t;
    (void)snprintf(t->pool, sizeof(t->pool), "%s", x->pool ? x->pool : "");
    t->x.pool = x->pool ? t->pool : NULL;
    t->x.w.out = &t->x.result;
    t->x.state = x->state ? arena_strdup(t->arena, x->state) : NULL;
    (void)mcp_rpc_read(t->message, &t->x.msg);
    t->x.caps = json_object_get(t->x.msg.meta, META_CAPABILITIES);
    return t;
}

/* What the tool came to, as an ordinary answer. Nobody else has it now. */
static int hand_over(struct mcp_exchange *x, struct mcp_task *t)
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
static bool wait_for(struct mcp_exchange *x, struct mcp_task *t)
{
    unsigned patience =
        t->tool->task_after_ms ? t->tool->task_after_ms : MCP_TASK_AFTER_MS;
    uint64_t until = clock_mono_ms() + patience;
    bool done;

    (void)pthread_mutex_lock(&t->lock);
    while (!mcp_task_over(t) && !t->known && clock_mono_ms() < until) {
        wait_ms(t, LOOK_MS);
        if (http_left(x->door->http)) /* nobody would know its id */
            t->cancelled = true;
    }
    done = mcp_task_over(t) && !t->known;
    if (!done)
        t->known = true;
    (void)pthread_mutex_unlock(&t->lock);
    return done;
}

/* Before the client knows of it. It may have ended since it was given up. */
static void store(struct mcp_task *t)
{
    struct error err;
    bool ended;

    if (mcp_task_keep(t->mcp, t->id, &t->who, t->created_ms, &err) < 0) {
        log_event(LOG_WARN, "task_not_kept", "error", err.message, NULL);
        return; /* it is good as long as the service runs */
    }
    (void)pthread_mutex_lock(&t->lock);
    t->stored = true;
    ended = mcp_task_over(t);
    (void)pthread_mutex_unlock(&t->lock);
    if (ended)
        store_end(t);
}

int mcp_task_run(struct mcp_exchange *x, const struct mcp_tool *tool,
                 const json_t *args)
{
    struct mcp_task *t = make(x, tool, args);
    int r = 0;

    if (mcp_task_enlist(x, t) < 0) {
        mcp_task_unref(t);
        return tool->task_only
                   ? mcp_rpc_fault(&x->fault, RPC_INTERNAL, NULL,
                                   "too many tasks are open; wait for some "
                                   "to end")
                   : mcp_call_tool(x, tool, args);
    }
    t->refs++; /* the worker's */
    if (http_work_submit(doors_workers(x->door), 0, false, run, t) < 0) {
        t->refs--;
        mcp_task_delist(t);
        mcp_task_unref(t);
        return mcp_call_tool(x, tool, args);
    }
    if (wait_for(x, t)) {
        mcp_task_delist(t);
        r = hand_over(x, t);
    } else {
        x->result_type = "task";
        if (t->cancelled && http_left(x->door->http))
            mcp_task_delist(t);
        else
            store(t);
        mcp_task_write(t, &x->w);
    }
    mcp_task_unref(t);
    return r;
}
