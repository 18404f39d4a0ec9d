/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MCP door's state between requests: legacy sessions, tasks, listeners for
 * changes. Opened and closed with the doors (dispatch.c). Only tasks are kept
 * on disk; after a restart clients begin a new session.
 */
#include <signal.h>

#include "base/mem.h"
#include "doors/mcp/mcp_int.h"

int mcp_open(struct doors *doors, struct error *err)
{
    struct mcp *m = xcalloc(1, sizeof(*m));
    sigset_t all, before;
    int r;

    m->doors = doors;
    ids_random(m->secret, sizeof(m->secret));
    (void)pthread_mutex_init(&m->lock, NULL); /* these cannot fail on Linux */
    (void)pthread_cond_init(&m->tick, NULL);
    /* Signals are main's. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&m->thread, NULL, mcp_watch_run, m);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r != 0) {
        free(m);
        return error_errno(err, ERR_INTERNAL, r, "cannot start a thread");
    }
    doors->mcp = m;
    return 0;
}

void mcp_stop(struct doors *doors)
{
    struct mcp *m = doors->mcp;

    if (!m || m->stopping)
        return;
    (void)pthread_mutex_lock(&m->lock);
    m->stopping = true;
    (void)pthread_cond_signal(&m->tick);
    (void)pthread_mutex_unlock(&m->lock);
    (void)pthread_join(m->thread, NULL);
    mcp_task_stop(m);
    mcp_listen_stop(m);
    mcp_session_stop(m);
}

void mcp_close(struct doors *doors)
{
    struct mcp *m = doors->mcp;

    if (!m)
        return;
    mcp_stop(doors);
    mcp_session_sweep(m, true);
    while (m->listeners)
        mcp_listen_remove(m, m->listeners);
    while (m->tasks) {
        struct mcp_task *t = m->tasks;

        m->tasks = mcp_task_next(t);
        mcp_task_unref(t);
    }
    mcp_state_close(m);
    (void)pthread_cond_destroy(&m->tick);
    (void)pthread_mutex_destroy(&m->lock);
    doors->mcp = NULL;
    free(m);
}
