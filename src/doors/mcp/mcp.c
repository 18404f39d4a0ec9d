/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the MCP API between requests: legacy sessions, tasks,
 * listeners. Opened and closed with the doors (dispatch.c). Only tasks are
 * kept on disk; after a restart clients create a new session.
 */
#include "base/mem.h"
#include "base/thread.h"
#include "doors/mcp/mcp_int.h"

int mcp_open(struct doors *doors, struct error *err)
{
    struct mcp *m = xcalloc(1, sizeof(*m));
    int rc;

    m->doors = doors;
    ids_random(m->secret, sizeof(m->secret));
    mutex_init(&m->lock);
    worker_init(&m->watcher);
    rc = worker_start(&m->watcher, "mcp-watch", mcp_watch_run, m, err);
    if (rc < 0) {
        worker_done(&m->watcher);
        mutex_done(&m->lock);
        free(m);
        return rc;
    }
    doors->mcp = m;
    mcp_toolbox_open(doors);
    return 0;
}

void mcp_stop(struct doors *doors)
{
    struct mcp *m = doors->mcp;

    if (!m || m->stopping)
        return;
    m->stopping = true;
    worker_stop(&m->watcher);
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
    mcp_task_close(m);
    mcp_state_close(m);
    worker_done(&m->watcher);
    mutex_done(&m->lock);
    doors->mcp = NULL;
    free(m);
}

/* ---- fixtures of test builds -------------------------------------------- */

/* tests/mcp/ defines what the conformance suite expects; its definitions
 * replace these weak ones. */
__attribute__((weak)) const struct mcp_tool *const mcp_fixture_tools = NULL;
__attribute__((weak)) const size_t mcp_fixture_tools_count = 0;
__attribute__((weak)) const struct mcp_resource *const mcp_fixture_resources =
    NULL;
__attribute__((weak)) const size_t mcp_fixture_resources_count = 0;
__attribute__((weak)) const struct mcp_prompt *const mcp_fixture_prompts =
    NULL;
__attribute__((weak)) const size_t mcp_fixture_prompts_count = 0;
