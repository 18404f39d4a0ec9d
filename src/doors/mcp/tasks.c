/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The methods of the tasks extension: looking at a task, answering its
 * questions, ending it. Runs on a worker of the daemon. Of another caller's
 * task nothing is known.
 */
#include "doors/mcp/mcp_int.h"

/* NULL without a fault: it is of an earlier process, and over; w gets what is
 * known of it, unless NULL. */
static struct mcp_task *find(struct mcp_exchange *x, struct json_writer *w)
{
    const char *id = mcp_need_string(x, "taskId");
    struct mcp_task *t = id ? mcp_task_find(x, id) : NULL;

    if (id && !t && mcp_task_kept(x, id, w) < 0)
        (void)mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                            "no such task; it may have expired");
    return t;
}

int mcp_tasks_get(struct mcp_exchange *x)
{
    struct mcp_task *t = find(x, &x->w);

    if (!t)
        return x->fault.code ? -1 : 0;
    mcp_task_write(t, &x->w);
    mcp_task_unref(t);
    return 0;
}

int mcp_tasks_update(struct mcp_exchange *x)
{
    const json_t *responses = json_object_get(x->msg.params, "inputResponses");
    struct mcp_task *t = find(x, NULL);

    if (x->fault.code)
        return -1;
    if (json_is_object(responses) && t)
        mcp_task_answer(t, responses);
    else if (!json_is_object(responses))
        (void)mcp_rpc_fault(&x->fault, RPC_PARAMS, NULL,
                            "params.inputResponses must be an object");
    mcp_task_unref(t);
    return x->fault.code ? -1 : 0;
}

int mcp_tasks_cancel(struct mcp_exchange *x)
{
    struct mcp_task *t = find(x, NULL);

    if (!t)
        return x->fault.code ? -1 : 0;
    mcp_task_cancel(t);
    mcp_task_unref(t);
    return 0;
}
