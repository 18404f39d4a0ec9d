/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The feed of several nodes (src/feed), for GET /api/events: sessions and
 * executions publish on the node that has them, while a client may listen on
 * another one.
 * A node with listeners notifies the others every few seconds that it wants
 * events; as long as one does, the others send theirs as notifications of the
 * store, gathered for a moment into one transaction. Without listeners nothing
 * is sent. Runs in gloveboxd: the thread node-share sends, the store's
 * thread receives. Events are no record: one that is lost with a connection
 * shows with the next state.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "feed/feed.h"
#include "node/node_int.h"
#include "store/store.h"

#define CHANNEL "live"
#define WANT "want"
#define WANT_MS 5000u    /* how often a node says that it wants events */
#define WANTED_MS 15000u /* how long that counts */
#define GATHER_MS 100u
#define QUEUE_MAX 2048u
#define FIELDS 16
#define BREAK '\x1f' /* between fields; no name has it */

struct shared_item {
    struct shared_item *next;
    char text[STORE_PAYLOAD_MAX + 1];
};

struct node_share {
    struct nodes *n;
    feed_fn *publish;
    void *ctx;
    struct store_listener listener;
    bool listening;
    struct worker worker;
    _Atomic uint64_t wanted_until_ms; /* by another node */
    _Atomic uint64_t want_until_ms;   /* by this node */
    uint64_t asked_ms;                /* the thread's */

    struct mutex lock; /* a leaf: the queue */
    struct shared_item *first, **last;
    unsigned count;
};

/* ---- one item as text --------------------------------------------------- */

static void put(char **at, const char *end, const char *text)
{
    while (text && *text && *at < end)
        *(*at)++ = *text++ == BREAK ? ' ' : text[-1];
    if (*at < end)
        *(*at)++ = BREAK;
}

static void put_time(char **at, const char *end, int64_t ms)
{
    char number[32];

    (void)snprintf(number, sizeof(number), "%lld", (long long)ms);
    put(at, end, number);
}

/* False: it is too long. */
static bool encode(const char *node, const struct feed_item *i, char *ret)
{
    char *at = ret;
    const char *end = ret + STORE_PAYLOAD_MAX;

    put(&at, end, node);
    put(&at, end, i->kind == FEED_SESSION ? "s" : "e");
    put(&at, end, i->shared ? "1" : "0");
    put(&at, end, i->tenant);
    put(&at, end, i->session);
    put(&at, end, i->workspace);
    put(&at, end, i->pool);
    put(&at, end, i->owner);
    put(&at, end, i->state);
    put(&at, end, i->execution);
    put(&at, end, i->outcome);
    put(&at, end, i->language);
    put(&at, end, i->author);
    put(&at, end, i->author_name);
    put_time(&at, end, i->created_at_ms);
    put_time(&at, end, i->started_at_ms);
    put_time(&at, end, i->finished_at_ms);
    *at = '\0';
    return at < end;
}

/* Cuts text, which the item borrows. False: it is not one of ours. */
static bool decode(char *text, struct feed_item *ret)
{
    const char *field[FIELDS] = {0};

    for (size_t i = 0; i < FIELDS; i++) {
        char *end = strchr(text, BREAK);

        if (!end)
            return false;
        *end = '\0';
        field[i] = *text ? text : NULL;
        text = end + 1;
    }
    *ret = (struct feed_item){
        .kind = field[0] && field[0][0] == 's' ? FEED_SESSION : FEED_EXECUTION,
        .shared = field[1] && field[1][0] == '1',
        .tenant = field[2],
        .session = field[3],
        .workspace = field[4],
        .pool = field[5],
        .owner = field[6],
        .state = field[7],
        .execution = field[8],
        .outcome = field[9],
        .language = field[10],
        .author = field[11],
        .author_name = field[12],
        .created_at_ms = field[13] ? strtoll(field[13], NULL, 10) : 0,
        .started_at_ms = field[14] ? strtoll(field[14], NULL, 10) : 0,
        .finished_at_ms = field[15] ? strtoll(field[15], NULL, 10) : 0};
    return ret->tenant && ret->session;
}

/* ---- receiving ---------------------------------------------------------- */

static void on_notice(void *ctx, const char *payload)
{
    struct node_share *s = ctx;
    const char *self = s->n->id;
    size_t len = strlen(self);
    char *text cleanup(mem_free) = payload ? xstrdup(payload) : NULL;
    char *rest = text ? strchr(text, BREAK) : NULL;
    struct feed_item item;

    if (!rest || (strncmp(text, self, len) == 0 && text[len] == BREAK))
        return;
    rest++;
    if (strcmp(rest, WANT) == 0)
        atomic_store(&s->wanted_until_ms, clock_mono_ms() + WANTED_MS);
    else if (decode(rest, &item))
        s->publish(s->ctx, &item);
}

/* ---- sending ------------------------------------------------------------ */

void node_share_item(struct node_share *s, const struct feed_item *item)
{
    struct shared_item *made;

    if (!s || clock_mono_ms() > atomic_load(&s->wanted_until_ms))
        return;
    made = xcalloc(1, sizeof(*made));
    mutex_lock(&s->lock);
    if (s->count < QUEUE_MAX && encode(s->n->id, item, made->text)) {
        *s->last = made;
        s->last = &made->next;
        s->count++;
        made = NULL;
    }
    mutex_unlock(&s->lock);
    free(made);
    worker_wake(&s->worker);
}

void node_share_want(struct node_share *s)
{
    if (!s)
        return;
    atomic_store(&s->want_until_ms, clock_mono_ms() + WANTED_MS);
    worker_wake(&s->worker);
}

static struct shared_item *take_all(struct node_share *s)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&s->lock);

    s->last = &s->first;
    s->count = 0;
    return take_ptr(s->first);
}

struct sending {
    const struct shared_item *items;
    const char *want; /* NULL: none */
};

static int send_in(struct store_tx *tx, void *ctx, struct error *err)
{
    const struct sending *g = ctx;
    int r = g->want ? store_notify(tx, CHANNEL, g->want, err) : 0;

    for (const struct shared_item *i = g->items; i && r == 0; i = i->next)
        r = store_notify(tx, CHANNEL, i->text, err);
    return r;
}

static void node_share_main(void *arg)
{
    struct node_share *s = arg;

    while (worker_wait(&s->worker, WANT_MS)) {
        uint64_t now = clock_mono_ms();
        bool want = now < atomic_load(&s->want_until_ms) &&
                    now - s->asked_ms >= WANT_MS;
        struct shared_item *items = take_all(s);
        char text[ID_MAX + sizeof(WANT) + 1];
        struct sending g = {.items = items, .want = want ? text : NULL};
        struct error err;

        (void)snprintf(text, sizeof(text), "%s%c%s", s->n->id, BREAK, WANT);
        if (want)
            s->asked_ms = now;
        if ((want || items) &&
            store_write(s->n->store, "sending events", send_in, &g, &err) < 0)
            log_event(LOG_WARN, "events_not_sent", "error", err.message, NULL);
        while (items) {
            struct shared_item *next = items->next;

            free(items);
            items = next;
        }
        (void)poll(NULL, 0, GATHER_MS);
    }
}

/* ---- opening and closing ------------------------------------------------ */

int node_share_open(struct nodes *n, feed_fn *publish, void *ctx,
                    struct node_share **ret, struct error *err)
{
    struct node_share *s = xcalloc(1, sizeof(*s));
    int r;

    s->n = n;
    s->publish = publish;
    s->ctx = ctx;
    s->last = &s->first;
    s->listener = (struct store_listener){
        .channel = CHANNEL, .on_notice = on_notice, .ctx = s};
    mutex_init(&s->lock);
    worker_init(&s->worker);
    *ret = s;
    r = store_listen(n->store, &s->listener, err);
    s->listening = r == 0;
    return r < 0 ? r
                 : worker_start(&s->worker, "node-share", node_share_main, s,
                                err);
}

void node_share_close(struct node_share *s)
{
    if (!s)
        return;
    if (s->listening)
        store_unlisten(s->n->store, &s->listener);
    worker_stop(&s->worker);
    worker_done(&s->worker);
    for (struct shared_item *i = take_all(s); i;) {
        struct shared_item *next = i->next;

        free(i);
        i = next;
    }
    mutex_done(&s->lock);
    free(s);
}
