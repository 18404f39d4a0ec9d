/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resources that a running execution borrows: an eventfd that wakes it, and
 * buffers to read into. Runs in gloveboxd. A few are cached, so that a warm
 * execution allocates nothing and an idle session holds no buffer.
 */
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/session_int.h"

#define KEPT_MAX 16u

static void runner_free(struct runner *r)
{
    fd_close(&r->wake);
    free(r->io);
    buf_done(&r->frames);
    free(r);
}

struct runner *session_runner_get(struct sessions *m)
{
    struct runner *r;

    mutex_lock(&m->runner_lock);
    r = m->runners;
    if (r) {
        m->runners = r->next;
        m->runner_count--;
    }
    mutex_unlock(&m->runner_lock);
    if (r)
        return r;
    r = xcalloc(1, sizeof(*r));
    r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r->io = xmalloc(SESSION_IO_SIZE);
    if (r->wake < 0) { /* out of descriptors */
        runner_free(r);
        return NULL;
    }
    return r;
}

void session_runner_put(struct sessions *m, struct runner *r)
{
    eventfd_t count;

    if (r->signalled) /* by now no session knows it any more */
        (void)eventfd_read(r->wake, &count); /* a late request, or EAGAIN */
    r->signalled = false;
    mutex_lock(&m->runner_lock);
    if (m->runner_count < KEPT_MAX) {
        r->next = m->runners;
        m->runners = r;
        m->runner_count++;
        r = NULL;
    }
    mutex_unlock(&m->runner_lock);
    if (r)
        runner_free(r);
}

void session_runner_done(struct sessions *m)
{
    while (m->runners) {
        struct runner *next = m->runners->next;

        runner_free(m->runners);
        m->runners = next;
    }
}
