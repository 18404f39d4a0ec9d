/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting glovebox-egress, listening to it, and starting it again. Runs in
 * gloveboxd. The supervisor is started while we may still choose its account;
 * later it is asked over a socket. The thread that listens is made after
 * that, by egress_call_listen, so that it has no rights either.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "egress/call_int.h"
#include "wire/wire.h"

#define PAUSE_LEAST_MS 200u
#define PAUSE_MOST_MS 30000u
#define STEADY_MS 60000u /* after that a death is the first again */

void egress_call_fell(struct egress_link *l)
{
    uint64_t one = 1;

    if (atomic_exchange(&l->alive, false) && l->wake >= 0)
        (void)!write(l->wake, &one, sizeof(one)); /* it is never full */
}

/* ---- one process -------------------------------------------------------- */

/* The lock is held, or no other thread uses the link yet. */
static int start_process(struct egress_link *l, struct error *err)
{
    struct egress_request req = {.type = EGRESS_SETUP, .u.setup = l->setup};
    struct egress_reply reply = {0};
    int ctl[2] = {-1, -1}, report[2] = {-1, -1}, theirs[2];
    int r = fd_socketpair(SOCK_SEQPACKET, ctl);

    if (r == 0)
        r = fd_socketpair(SOCK_SEQPACKET, report);
    if (r < 0) {
        fd_close(&ctl[0]);
        fd_close(&ctl[1]);
        return error_errno(err, ERR_INTERNAL, -r, "cannot make sockets");
    }
    theirs[0] = ctl[1];
    theirs[1] = report[1];
    r = helper_order(&l->helper, theirs, 2, err);
    fd_close(&ctl[1]);
    fd_close(&report[1]);
    mutex_lock(&l->send_lock);
    fd_close(&l->ctl);
    fd_close(&l->report);
    l->ctl = ctl[0];
    l->report = report[0];
    mutex_unlock(&l->send_lock);
    if (r == 0)
        r = egress_call_exchange(l, &req, NULL, 0, &reply, err);
    if (r == 0)
        atomic_store(&l->alive, true);
    return r;
}

/* ---- the thread --------------------------------------------------------- */

/* Reads what there is; false: the process is gone. */
static bool listen_once(struct egress_link *l)
{
    struct pollfd fds[] = {{.fd = l->report, .events = POLLIN},
                           {.fd = l->wake, .events = POLLIN}};
    struct egress_report r;

    if (poll(fds, ARRAY_SIZE(fds), -1) < 0)
        return errno == EINTR;
    if (fds[1].revents)
        return false;
    if (!fds[0].revents)
        return true;
    if (wire_recv(l->report, &r, sizeof(r), NULL, NULL) != (ssize_t)sizeof(r))
        return false;
    r.host[sizeof(r.host) - 1] = r.address[sizeof(r.address) - 1] = '\0';
    r.method[sizeof(r.method) - 1] = r.path[sizeof(r.path) - 1] = '\0';
    r.package[sizeof(r.package) - 1] = r.version[sizeof(r.version) - 1] = '\0';
    r.sha256[sizeof(r.sha256) - 1] = r.reason[sizeof(r.reason) - 1] = '\0';
    l->on_report(l->ctx, &r);
    return true;
}

/* Retries until a process runs again or the link is closed. */
static void start_again(struct egress_link *l, uint64_t *pause_ms)
{
    while (!atomic_load(&l->closing)) {
        struct error err;
        int r;

        struct pollfd p = {.fd = l->wake, .events = POLLIN};
        uint64_t count;

        (void)!read(l->wake, &count, sizeof(count)); /* what woke us before */
        if (!atomic_load(&l->closing))
            (void)poll(&p, 1, (int)*pause_ms);

        *pause_ms = MIN(*pause_ms * 2, PAUSE_MOST_MS);
        if (atomic_load(&l->closing))
            return;
        mutex_lock(&l->lock);
        r = start_process(l, &err);
        mutex_unlock(&l->lock);
        if (r == 0) {
            log_event(LOG_INFO, "egress_started_again", NULL);
            return;
        }
        log_event(LOG_ERROR, "egress_not_started", "why", err.message, NULL);
    }
}

static void egress_reports_main(void *ctx)
{
    struct egress_link *l = ctx;
    uint64_t pause_ms = PAUSE_LEAST_MS, since = clock_mono_ms();

    while (!atomic_load(&l->closing)) {
        if (listen_once(l))
            continue;
        atomic_store(&l->alive, false);
        if (atomic_load(&l->closing))
            break;
        log_event(LOG_ERROR, "egress_died", NULL);
        l->on_lost(l->ctx);
        if (clock_mono_ms() - since > STEADY_MS)
            pause_ms = PAUSE_LEAST_MS;
        start_again(l, &pause_ms);
        since = clock_mono_ms();
    }
}

/* ---- the link ----------------------------------------------------------- */

int egress_call_open(const char *program, const struct priv_user *user,
                     const struct egress_setup *setup,
                     struct egress_link **ret, struct error *err)
{
    struct egress_link *l = xcalloc(1, sizeof(*l));
    int r;

    mutex_init(&l->lock);
    mutex_init(&l->send_lock);
    l->ctl = l->report = -1;
    l->helper = HELPER_NONE;
    l->setup = *setup;
    l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r = l->wake < 0
            ? error_errno(err, ERR_INTERNAL, errno, "cannot make an event")
            : helper_open(&l->helper, program, "glovebox-egress", user, err);
    if (r == 0)
        r = start_process(l, err);
    if (r < 0) {
        egress_call_close(l);
        return error_wrap(err, "cannot start the proxy");
    }
    *ret = l;
    return 0;
}

static void stop_listening(struct egress_link *l)
{
    uint64_t one = 1;

    if (!l->thread.started)
        return;
    atomic_store(&l->closing, true);
    atomic_store(&l->alive, false);
    (void)!write(l->wake, &one, sizeof(one)); /* it is never full */
    thread_join(&l->thread);
}

void egress_call_listen(struct egress_link *l,
                        void (*report)(void *ctx,
                                       const struct egress_report *r),
                        void (*lost)(void *ctx), void *ctx)
{
    struct error err;

    stop_listening(l);
    if (!report) /* without a listener there is no network */
        return;
    atomic_store(&l->closing, false);
    l->on_report = report;
    l->on_lost = lost;
    l->ctx = ctx;
    /* Without a reader of its reports there is no network. */
    if (thread_start(&l->thread, "egress-reports", egress_reports_main, l,
                     &err) < 0)
        atomic_store(&l->alive, false);
}

void egress_call_close(struct egress_link *l)
{
    if (!l)
        return;
    stop_listening(l);
    atomic_store(&l->alive, false);
    fd_close(&l->ctl);
    fd_close(&l->report);
    helper_close(&l->helper);
    fd_close(&l->wake);
    mutex_done(&l->lock);
    mutex_done(&l->send_lock);
    free(l);
}
