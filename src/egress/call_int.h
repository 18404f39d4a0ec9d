/* SPDX-License-Identifier: Apache-2.0 */
/* For call.c and call_start.c only: the link to glovebox-egress. */
#ifndef GLOVEBOX_EGRESS_CALL_INT_H
#define GLOVEBOX_EGRESS_CALL_INT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/thread.h"
#include "egress/call.h"
#include "helper/helper.h"

struct egress_link {
    struct mutex lock;      /* held from a request to its reply */
    struct mutex send_lock; /* held while ctl is written to or replaced */
    int ctl, report;        /* -1: there is no process */
    struct helper helper;   /* its supervisor */
    int wake;               /* eventfd for the thread */
    uint32_t seq;
    atomic_bool alive, closing;
    struct egress_setup setup;
    struct thread thread;
    void (*on_report)(void *ctx, const struct egress_report *r);
    void (*on_lost)(void *ctx);
    void *ctx;
};

/* The lock is held, or no other thread uses the link yet. */
int egress_call_exchange(struct egress_link *l, struct egress_request *req,
                         const int *fds, size_t fd_count,
                         struct egress_reply *reply, struct error *err);
/* The process is gone; wakes the thread that restarts it. */
void egress_call_fell(struct egress_link *l);

#endif
