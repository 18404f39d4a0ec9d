/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module: a bounded pool of threads, each of which runs one response to
 * its end, and the list of responses that run or ended a short time ago.
 * Clients that come back find a response here, with its events, as long as it
 * is known; later in the store. Runs in gloveboxd.
 */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "chat/chat_int.h"
#include "conf/conf.h"

#define STACK_BYTES ((size_t)1 << 20) /* untouched stack costs no memory */
#define IDLE_MS 10000u
#define WAITING_MAX 1000u
#define KEPT_MS 60000u                  /* events, after the end */
#define KEPT_BYTES ((uint64_t)16 << 20) /* of all that are over */
#define LOOK_MS 500u

/* ---- a response --------------------------------------------------------- */

static void copy_text(char *to, size_t size, const char *from,
                      const char **ret)
{
    (void)snprintf(to, size, "%s", from ? from : "");
    *ret = from ? to : NULL;
}

/* What the response does, it does for this principal, by a model's decision.
 */
static void copy_owner(struct chat_owner *o, const struct actor *who)
{
    o->who = *who;
    copy_text(o->tenant, sizeof(o->tenant), who->tenant, &o->who.tenant);
    copy_text(o->key, sizeof(o->key), who->key, &o->who.key);
    copy_text(o->name, sizeof(o->name), who->name, &o->who.name);
    copy_text(o->token, sizeof(o->token), who->token, &o->who.token);
    copy_text(o->door, sizeof(o->door), who->door, &o->who.door);
    copy_text(o->tool, sizeof(o->tool), who->tool, &o->who.tool);
    copy_text(o->request, sizeof(o->request), who->request, &o->who.request);
    copy_text(o->source, sizeof(o->source), who->source, &o->who.source);
    o->who.trigger = "model";
    if (who->bounds) {
        o->bounds = *who->bounds;
        o->who.bounds = &o->bounds;
    }
}

struct chat_response *chat_response_new(struct chat *c,
                                        const struct actor *who)
{
    struct chat_response *r = xcalloc(1, sizeof(*r));

    atomic_init(&r->refs, 1);
    r->chat = c;
    copy_owner(&r->owner, who);
    r->created_ms = clock_real_ms();
    r->started_mono_ms = clock_mono_ms();
    r->max_tool_calls = -1;
    r->last_number = -1;
    mutex_init(&r->lock);
    cond_init(&r->ended);
    return r;
}

struct chat_response *chat_response_ref(struct chat_response *r)
{
    atomic_fetch_add(&r->refs, 1);
    return r;
}

void chat_response_unref(struct chat_response **pr)
{
    struct chat_response *r = take_ptr(*pr);

    if (!r || atomic_fetch_sub(&r->refs, 1) != 1)
        return;
    chat_event_free(r);
    chat_items_done(&r->context);
    chat_items_done(&r->input);
    chat_items_done(&r->output);
    json_decref(r->functions);
    json_decref(r->tool_choice);
    json_decref(r->options);
    json_decref(r->echo);
    json_decref(r->box);
    free(r->base_url);
    free(r->summary);
    free(r->model);
    free(r->instructions);
    free(r->prompt);
    chat_saved_done(r);
    cond_done(&r->ended);
    mutex_done(&r->lock);
    free(r);
}

const char *chat_response_id(const struct chat_response *r)
{
    return r->id;
}

bool chat_response_stored(const struct chat_response *r)
{
    return r->stored;
}

bool chat_response_background(const struct chat_response *r)
{
    return r->background;
}

enum chat_status chat_response_status(struct chat_response *r)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&r->lock);

    return r->status;
}

bool chat_response_ran(struct chat_response *r)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&r->lock);

    return r->ran;
}

void chat_response_failure(struct chat_response *r, struct error *ret)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&r->lock);

    *ret = r->failure;
}

void chat_response_cancel(struct chat_response *r)
{
    atomic_store(&r->cancel, true);
}

void chat_response_abandon(struct chat_response *r)
{
    if (r->stored)
        return;
    atomic_store(&r->left, true);
    atomic_store(&r->cancel, true);
}

bool chat_response_wait(struct chat_response *r, bool (*left)(void *ctx),
                        void *ctx)
{
    mutex_lock(&r->lock);
    while (!r->over) {
        if (cond_wait_until(&r->ended, &r->lock, clock_mono_ms() + LOOK_MS))
            continue;
        mutex_unlock(&r->lock);
        if (left && left(ctx))
            return false;
        mutex_lock(&r->lock);
    }
    mutex_unlock(&r->lock);
    return true;
}

const char *chat_status_name(enum chat_status status)
{
    static const char *const names[] = {
        [CHAT_QUEUED] = "queued",       [CHAT_IN_PROGRESS] = "in_progress",
        [CHAT_COMPLETED] = "completed", [CHAT_INCOMPLETE] = "incomplete",
        [CHAT_FAILED] = "failed",       [CHAT_CANCELLED] = "cancelled",
    };

    return names[status];
}

/* ---- those that are known ----------------------------------------------- */

/* Takes one out of the list. */
static void forget(struct chat *c, struct chat_response **at,
                   struct chat_response **ret_list)
{
    struct chat_response *r = *at;

    mutex_assert_held(&c->lock);
    *at = r->next;
    r->is_known = false;
    if (r->retired)
        c->kept_bytes -= MIN(r->line_bytes, c->kept_bytes);
    r->next = *ret_list; /* its reference goes with it */
    *ret_list = r;
}

/* Those whose time is over; the newest are at the head of the list. */
static struct chat_response *take_old(struct chat *c)
{
    struct chat_response *gone = NULL;
    uint64_t now = clock_mono_ms(), bytes = 0;

    mutex_assert_held(&c->lock);
    for (struct chat_response **at = &c->known; *at;) {
        struct chat_response *r = *at;

        if (!r->retired) {
            at = &r->next;
            continue;
        }
        bytes += r->line_bytes;
        if (now - r->over_mono_ms > KEPT_MS || bytes > KEPT_BYTES)
            forget(c, at, &gone);
        else
            at = &r->next;
    }
    return gone;
}

static void release_all(struct chat_response *list)
{
    while (list) {
        struct chat_response *r = list;

        list = r->next;
        r->next = NULL;
        chat_response_unref(&r);
    }
}

void chat_retire(struct chat_response *r)
{
    struct chat *c = r->chat;
    struct chat_response *gone;

    mutex_lock(&c->lock);
    r->retired = true;
    r->over_mono_ms = clock_mono_ms();
    c->kept_bytes += r->line_bytes;
    switch (r->status) {
    case CHAT_COMPLETED:
        c->metrics.completed++;
        break;
    case CHAT_INCOMPLETE:
        c->metrics.incomplete++;
        break;
    case CHAT_CANCELLED:
        c->metrics.cancelled++;
        break;
    case CHAT_QUEUED:
    case CHAT_IN_PROGRESS:
    case CHAT_FAILED:
        c->metrics.failed++;
        break;
    }
    gone = take_old(c);
    mutex_unlock(&c->lock);
    release_all(gone);
}

static bool is_owned(const struct chat_response *r, const struct actor *who)
{
    return strcmp(r->owner.tenant, who->tenant) == 0 &&
           strcmp(r->owner.key, who->key) == 0;
}

static struct chat_response *find_known(struct chat *c,
                                        const struct actor *who,
                                        const char *id)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&c->lock);

    for (struct chat_response *r = c->known; r; r = r->next)
        if (strcmp(r->id, id) == 0 && r->stored && is_owned(r, who))
            return chat_response_ref(r);
    return NULL;
}

int chat_response_find(struct chat *c, const struct actor *who, const char *id,
                       struct chat_response **ret, struct error *err)
{
    struct chat_response *r = find_known(c, who, id);

    if (r) {
        *ret = r;
        return 0;
    }
    return chat_row_load(c, who, id, true, ret, err);
}

void chat_cancel_conversation(struct chat *c, const char *id)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&c->lock);

    for (struct chat_response *r = c->known; r; r = r->next)
        if (strcmp(r->conversation, id) == 0)
            atomic_store(&r->cancel, true);
}

void chat_forget(struct chat *c, const char *id, const char *conversation)
{
    struct chat_response *gone = NULL;

    mutex_lock(&c->lock);
    for (struct chat_response **at = &c->known; *at;)
        if (strcmp((*at)->id, id) == 0 ||
            (conversation[0] &&
             strcmp((*at)->conversation, conversation) == 0))
            forget(c, at, &gone);
        else
            at = &(*at)->next;
    mutex_unlock(&c->lock);
    release_all(gone);
}

int chat_response_delete(struct chat *c, const struct actor *who,
                         const char *id, struct error *err)
{
    struct chat_response *r cleanup(chat_response_unref) =
        find_known(c, who, id);
    int rc;

    if (r && !r->loaded) { /* what runs is stopped, and ends before its row */
        chat_response_cancel(r);
        (void)chat_response_wait(r, NULL, NULL);
    }
    rc = chat_row_delete(c, who, id, err);
    if (rc == 0)
        chat_forget(c, id, "");
    return rc;
}

/* ---- threads ------------------------------------------------------------ */

/* The next response that waits; NULL: this thread has nothing to do any more.
 */
static struct chat_response *take_waiting(struct chat *c)
{
    uint64_t until = clock_mono_ms() + IDLE_MS;
    struct chat_response *r;

    mutex_assert_held(&c->lock);
    c->idle++;
    while (!c->waiting && !c->stopping &&
           cond_wait_until(&c->some, &c->lock, until)) {
    }
    c->idle--;
    r = c->waiting;
    if (!r)
        return NULL;
    c->waiting = r->next_waiting;
    if (!c->waiting)
        c->waiting_last = &c->waiting;
    c->metrics.waiting--;
    c->metrics.running++;
    return r;
}

/* No response has run for a while: what is too old goes, and the memory that
 * a burst took goes back to the system. The last thread stays for this until
 * nothing is known any more. */
static void rest(struct chat *c)
{
    struct chat_response *gone;

    mutex_lock(&c->lock);
    gone = take_old(c);
    mutex_unlock(&c->lock);
    release_all(gone);
    (void)malloc_trim(0); /* there may be nothing to trim */
}

static void chat_thread_main(void *arg)
{
    struct chat *c = arg;
    struct chat_response *r;
    bool rested = false;

    mutex_lock(&c->lock);
    while ((r = take_waiting(c)) != NULL ||
           (c->threads == 1 && (c->known || !rested) && !c->stopping)) {
        rested = !r;
        mutex_unlock(&c->lock);
        if (r)
            chat_loop_run(r);
        else
            rest(c);
        chat_response_unref(&r);
        mutex_lock(&c->lock);
        c->metrics.running -= !rested;
    }
    c->threads--;
    cond_broadcast(&c->gone);
    mutex_unlock(&c->lock);
}

static int start_thread(struct chat *c, struct error *err)
{
    int e;

    mutex_assert_held(&c->lock);
    if (c->idle > c->metrics.waiting ||
        c->threads >= c->parts.conf->chat_threads)
        return 0;
    e = thread_start_detached("chat", STACK_BYTES, chat_thread_main, c);
    if (e < 0 && c->threads == 0)
        return error_errno(err, ERR_BUSY, -e,
                           "cannot start a thread for a response");
    if (e == 0)
        c->threads++;
    return 0;
}

int chat_submit(struct chat *c, struct chat_response *r, struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&c->lock);
    int rc;

    if (c->stopping)
        return error_set(err, ERR_UNAVAILABLE, "the service is stopping");
    if (c->metrics.waiting >= WAITING_MAX) {
        (void)error_set(err, ERR_BUSY,
                        "%u responses wait for a thread already", WAITING_MAX);
        return error_retry(err, 5);
    }
    rc = start_thread(c, err);
    if (rc < 0)
        return rc;
    r->next = c->known;
    c->known = chat_response_ref(r);
    r->is_known = true;
    r->next_waiting = NULL;
    *c->waiting_last = chat_response_ref(r);
    c->waiting_last = &r->next_waiting;
    c->metrics.waiting++;
    cond_signal(&c->some);
    return 0;
}

bool chat_stopped(struct chat *c)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&c->lock);

    return c->stopping;
}

void chat_metrics(struct chat *c, struct chat_metrics *ret)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&c->lock);

    *ret = c->metrics;
}

/* ---- start and stop ----------------------------------------------------- */

int chat_open(const struct chat_parts *parts, struct chat **ret,
              struct error *err)
{
    struct chat *c = xcalloc(1, sizeof(*c));
    int rc;

    c->parts = *parts;
    c->waiting_last = &c->waiting;
    mutex_init(&c->lock);
    cond_init(&c->some);
    cond_init(&c->gone);
    rc = chat_row_recover(c, err);
    if (rc < 0)
        chat_close(c);
    else
        *ret = c;
    return rc;
}

void chat_stop(struct chat *c, unsigned deadline_s)
{
    uint64_t deadline = clock_mono_ms() + (uint64_t)deadline_s * 1000;

    if (!c)
        return;
    mutex_lock(&c->lock);
    c->stopping = true;
    for (struct chat_response *r = c->known; r; r = r->next)
        atomic_store(&r->cancel, true);
    cond_broadcast(&c->some);
    while (c->threads > 0 && cond_wait_until(&c->gone, &c->lock, deadline)) {
    }
    if (c->threads > 0)
        log_event(LOG_WARN, "chat_stop", "error",
                  "responses did not end in time", NULL);
    mutex_unlock(&c->lock);
}

void chat_close(struct chat *c)
{
    if (!c)
        return;
    mutex_lock(&c->lock);
    c->stopping = true;
    cond_broadcast(&c->some);
    while (c->threads > 0)
        cond_wait(&c->gone, &c->lock);
    mutex_unlock(&c->lock);
    release_all(take_ptr(c->known));
    cond_done(&c->gone);
    cond_done(&c->some);
    mutex_done(&c->lock);
    free(c);
}
