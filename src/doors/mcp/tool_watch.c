/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watching executions for their calls: a few times a second, is the call
 * cancelled, and is there output to tell the client of? One thread of the
 * daemon does it for all calls; it is there while there are any, and a while
 * longer, so that a short call costs two pointers and no thread.
 *
 * The list is the one mutable thing of this file that outlives a call. It is
 * safe because an entry is on its caller's stack from begin to end, and end
 * waits until the thread is not looking at it.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "doors/mcp/tool.h"

#define LOOK_MS 200u
#define TELL_MS 1000u /* at least so often, also of nothing new */
#define IDLE_LOOKS 50u

static struct {
    pthread_mutex_t lock;
    pthread_cond_t looked;
    struct tool_watch *first;
    bool running;
} watcher = {.lock = PTHREAD_MUTEX_INITIALIZER,
             .looked = PTHREAD_COND_INITIALIZER};

/* ---- one look ----------------------------------------------------------- */

/* Keeps the last line that has something in it, as far as there is room. */
static void note_output(struct tool_watch *w, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n' || text[i] == '\r') {
            w->line_ended = true;
            continue;
        }
        if (w->line_ended)
            w->line_len = 0;
        w->line_ended = false;
        if (w->line_len + 1 < sizeof(w->line))
            w->line[w->line_len++] = text[i];
    }
}

static bool read_events(struct tool_watch *w)
{
    struct exec_event event;
    bool some = false;

    while (execution_event(w->e, w->seen, &event)) {
        w->seen = event.number;
        if (event.type == EVENT_STATUS)
            w->running = event.len == strlen("running") &&
                         memcmp(event.data, "running", event.len) == 0;
        if (event.type != EVENT_STDOUT && event.type != EVENT_STDERR)
            continue;
        note_output(w, event.data, event.len);
        some = true;
    }
    return some;
}

static void tell(struct tool_watch *w, uint64_t now)
{
    struct buf text cleanup(buf_done) = {0};

    doors_outcome_plain(&text, w->line,
                        w->line_len - utf8_partial(w->line, w->line_len));
    if (!text.len)
        buf_adds(&text, w->running ? "running" : "waiting for its turn");
    w->told_ms = now;
    w->call->progress(w->call, (double)(now - w->since_ms) / 1000, 0,
                      text.data);
}

static void look(struct tool_watch *w)
{
    uint64_t now = clock_mono_ms();
    struct error ignored; /* it ended meanwhile */
    bool some;

    if (!w->cancelled && w->call->cancelled(w->call)) {
        w->cancelled = true;
        (void)execution_cancel(w->call->doors->sessions, w->call->actor,
                               w->execution, &ignored);
    }
    if (!w->call->wants_progress || w->cancelled || now <= w->told_ms)
        return;
    some = read_events(w);
    if (some || now - w->told_ms >= TELL_MS)
        tell(w, now);
}

/* ---- the thread --------------------------------------------------------- */

/* The lock is held, and let go while looking. */
static void look_at_all(void)
{
    for (struct tool_watch *w = watcher.first; w; w = w->next) {
        w->busy = true;
        (void)pthread_mutex_unlock(&watcher.lock);
        look(w);
        (void)pthread_mutex_lock(&watcher.lock);
        w->busy = false;
        (void)pthread_cond_broadcast(&watcher.looked);
    }
}

static void *run(void *arg)
{
    const struct timespec nap = {.tv_nsec = LOOK_MS * 1000000L};
    unsigned idle = 0;

    (void)pthread_mutex_lock(&watcher.lock);
    while (idle < IDLE_LOOKS) {
        (void)pthread_mutex_unlock(&watcher.lock);
        (void)nanosleep(&nap, NULL); /* woken early is as good */
        (void)pthread_mutex_lock(&watcher.lock);
        idle = watcher.first ? 0 : idle + 1;
        look_at_all();
    }
    watcher.running = false;
    (void)pthread_mutex_unlock(&watcher.lock);
    return arg;
}

/* Lock held. Signals stay main's: the caller, a worker, has them blocked and
 * the thread inherits that. */
static void start(void)
{
    pthread_attr_t attr;
    pthread_t thread;

    (void)pthread_attr_init(&attr); /* cannot fail on Linux */
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    watcher.running = pthread_create(&thread, &attr, run, NULL) == 0;
    (void)pthread_attr_destroy(&attr);
    if (!watcher.running) /* the calls run all the same */
        log_event(LOG_WARN, "mcp_watch", "error", "no thread to watch calls",
                  NULL);
}

void tool_watch_begin(struct tool_watch *w, struct mcp_call *call,
                      struct execution *e)
{
    struct exec_info info;

    execution_info(e, &info);
    *w = (struct tool_watch){.call = call, .e = e, .line_ended = true};
    (void)snprintf(w->execution, sizeof(w->execution), "%s", info.id);
    w->since_ms = w->told_ms = clock_mono_ms();
    (void)pthread_mutex_lock(&watcher.lock);
    w->next = watcher.first;
    w->at = &watcher.first;
    if (w->next)
        w->next->at = &w->next;
    watcher.first = w;
    if (!watcher.running)
        start();
    (void)pthread_mutex_unlock(&watcher.lock);
}

void tool_watch_end(struct tool_watch *w)
{
    (void)pthread_mutex_lock(&watcher.lock);
    while (w->busy)
        (void)pthread_cond_wait(&watcher.looked, &watcher.lock);
    *w->at = w->next;
    if (w->next)
        w->next->at = w->at;
    (void)pthread_mutex_unlock(&watcher.lock);
}
