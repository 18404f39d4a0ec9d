/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks beyond this process: a row from when the client is told of one, with
 * what it came to when it ends. A client that asks after a restart gets that,
 * or that the service was restarted. Runs on a task's worker and on those of
 * requests. Nothing is kept of what a session said that keeps nothing.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "doors/mcp/mcp_int.h"
#include "session/tasks.h"

#define BODY_MAX (512u << 10) /* a longer one is not kept */

int mcp_task_keep(struct mcp *m, const char *id, const struct principal *who,
                  int64_t created_ms, struct error *err)
{
    const struct session_task t = {.id = id,
                                   .tenant = who->tenant,
                                   .caller = auth_shown(who),
                                   .created_at_ms = created_ms};

    return session_task_begin(m->doors->sessions, &t, err);
}

void mcp_task_keep_end(struct mcp *m, const char *id,
                       const struct buf *members, int64_t at_ms)
{
    bool fits = members && members->len <= BODY_MAX;
    struct error err;

    if (session_task_end(m->doors->sessions, id, fits ? members->data : "",
                         at_ms, &err) < 0)
        log_event(LOG_WARN, "task_not_kept", "error", err.message, NULL);
}

void mcp_task_unkept(struct mcp_call *call)
{
    struct mcp_exchange *x = call->ctx;

    x->unkept = true;
}

static void write_lost(const struct session_task *t, struct json_writer *w)
{
    struct rpc_fault fault = {0};

    (void)mcp_rpc_fault(&fault, RPC_INTERNAL, NULL,
                        t->over ? "it ended before the service was "
                                  "restarted; its result was not kept"
                                : "the service was restarted");
    json_write_string(w, "taskId", t->id);
    json_write_string(w, "status", "failed");
    json_write_time(w, "createdAt", t->created_at_ms);
    json_write_time(w, "lastUpdatedAt", t->updated_at_ms);
    json_write_int(w, "ttlMs", MCP_TASK_TTL_MS);
    json_write_int(w, "pollIntervalMs", MCP_TASK_POLL_MS);
    mcp_rpc_write_fault(w, "error", &fault);
    mcp_rpc_fault_done(&fault);
}

int mcp_task_kept(struct mcp_exchange *x, const char *id,
                  struct json_writer *w)
{
    struct session_task t = {.id = id,
                             .tenant = x->actor->tenant,
                             .caller = actor_credential(x->actor)};
    char *body cleanup(mem_free) = NULL;
    struct error err;
    int r = session_task_find(x->mcp->doors->sessions, &t, &err);

    body = t.body;
    if (r < 0 || clock_real_ms() >= t.created_at_ms + MCP_TASK_TTL_MS)
        return -1;
    if (w && body[0]) {
        if (w->comma)
            buf_adds(w->out, ",");
        buf_adds(w->out, body);
        w->comma = true;
    } else if (w) {
        write_lost(&t, w);
    }
    return 0;
}

void mcp_task_kept_sweep(struct mcp *m)
{
    struct error err;

    if (session_task_sweep(m->doors->sessions,
                           clock_real_ms() - MCP_TASK_TTL_MS, &err) < 0)
        log_event(LOG_WARN, "task_not_kept", "error", err.message, NULL);
}
