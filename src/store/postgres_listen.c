/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that receives notifications from PostgreSQL and knows whether the
 * server answers; see postgres_int.h and store.h. It has a connection of its
 * own, asks the server for a sign of life every second, and connects again
 * when the connection is lost. Notifications may have been missed meanwhile,
 * so listeners are then asked to read everything again.
 *
 * The channel is the store's; the payload begins with the caller's channel.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/postgres_int.h"

#define LIFE_MS 1000   /* between two signs of life */
#define SILENT_MS 3000 /* after which it connects again */
#define AGAIN_MS 500   /* until it connects again */

static void channel_name(const struct postgres_store *s, char ret[64])
{
    (void)snprintf(ret, 64, "glovebox_%s", s->base.id);
}

/* Waits; false: stop. fd -1: only for the time. */
static bool await(struct postgres_store *s, int fd, int ms)
{
    struct pollfd p[] = {{.fd = s->wake_fd, .events = POLLIN},
                         {.fd = fd, .events = POLLIN}};

    (void)poll(p, 2, ms); /* a shorter wait does no harm */
    return !atomic_load(&s->stopping);
}

static struct postgres_conn *connect_listener(struct postgres_store *s)
{
    struct postgres_conn *c = NULL;
    struct error err;
    char name[64], sql[80];

    if (store_postgres_conn_open(&s->place, STORE_READ, &c, &err) < 0)
        return NULL;
    c->answer_ms = SILENT_MS;
    channel_name(s, name);
    (void)snprintf(sql, sizeof(sql), "LISTEN %s", name);
    if (store_postgres_conn_ask(c, sql, 0, NULL, NULL)) {
        atomic_store(&s->heard_ms, clock_mono_ms());
        return c;
    }
    store_postgres_conn_close(c);
    return NULL;
}

static void deliver_all(struct postgres_store *s, struct postgres_conn *c)
{
    PGnotify *n;

    while ((n = PQnotifies(c->pg))) {
        char *space = strchr(n->extra, ' ');

        if (space) {
            *space = '\0';
            store_notify_deliver(&s->base, n->extra, space + 1);
        }
        PQfreemem(n);
    }
}

/* Until the connection is lost, or the store is closed. */
static void serve_listener(struct postgres_store *s, struct postgres_conn *c)
{
    uint64_t asked_ms = 0;

    while (!c->gone && await(s, PQsocket(c->pg), LIFE_MS)) {
        if (!PQconsumeInput(c->pg))
            return;
        deliver_all(s, c);
        if (clock_mono_ms() - asked_ms < LIFE_MS)
            continue;
        asked_ms = clock_mono_ms();
        if (store_postgres_conn_ask(c, "SELECT 1", 0, NULL, NULL))
            atomic_store(&s->heard_ms, clock_mono_ms());
        deliver_all(s, c);
    }
}

static void store_listen_main(void *arg)
{
    struct postgres_store *s = arg;
    bool missed = false;

    do {
        struct postgres_conn *c = connect_listener(s);

        if (!c) {
            missed = true;
            continue;
        }
        if (missed) {
            log_event(LOG_INFO, "store_reachable", NULL);
            store_notify_deliver(&s->base, NULL, NULL);
        }
        serve_listener(s, c);
        store_postgres_conn_close(c);
        missed = true;
    } while (!atomic_load(&s->stopping) && await(s, -1, AGAIN_MS));
}

int store_postgres_listen_start(struct postgres_store *s, struct error *err)
{
    s->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (s->wake_fd < 0)
        return error_errno(err, ERR_INTERNAL, errno, "eventfd");
    atomic_store(&s->heard_ms, clock_mono_ms());
    return thread_start(&s->listener, "store-listen", store_listen_main, s,
                        err);
}

void store_postgres_listen_stop(struct postgres_store *s)
{
    const uint64_t one = 1;

    atomic_store(&s->stopping, true);
    if (s->wake_fd >= 0)
        (void)!write(s->wake_fd, &one, sizeof(one)); /* cannot be full */
    thread_join(&s->listener);
}

int store_postgres_listen_notify(struct store_tx *base, const char *channel,
                                 const char *payload, struct error *err)
{
    struct postgres_tx *tx = (struct postgres_tx *)base;
    char *text cleanup(mem_free) = xasprintf("%s %s", channel, payload);
    char name[64];
    int r;

    channel_name(tx->store, name);
    r = store_exec(base, err, "SELECT pg_notify(?1, ?2)", "tt", name, text);
    if (r >= 0)
        tx->conn->changed = true;
    return MIN(r, 0);
}
