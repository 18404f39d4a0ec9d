/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task as task.c and task_list.c see it. Everybody else has its functions in
 * mcp_int.h.
 */
#ifndef GLOVEBOX_DOORS_MCP_TASK_INT_H
#define GLOVEBOX_DOORS_MCP_TASK_INT_H

#include "doors/mcp/mcp_int.h"

enum task_status {
    TASK_WORKING,
    TASK_INPUT,     /* waits for answers: x.asks */
    TASK_COMPLETED, /* result */
    TASK_FAILED,    /* x.fault */
    TASK_CANCELLED,
};

struct mcp_task {
    struct mcp_task *next; /* under mcp->lock */
    _Atomic unsigned refs;
    struct mcp *mcp;
    char id[ID_MAX];
    struct principal who;
    struct actor actor; /* borrows from this */
    char request[ID_MAX], source[64];
    char pool[64];
    const struct mcp_tool *tool;
    json_t *message, *args; /* owned */
    struct arena *arena;
    struct mcp_exchange x; /* its worker's; after the end anybody's */
    _Atomic bool cancelled;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t change;
    enum task_status status;
    int returned;      /* what the tool did, once it is over */
    bool known;        /* the client has its id */
    bool stored;       /* there is a row of it */
    struct buf result; /* an object */
    int64_t created_ms, updated_ms;
};

static inline bool mcp_task_over(const struct mcp_task *t)
{
    return t->status >= TASK_COMPLETED;
}

/* task_list.c: into the table, from where it can be found; -1: that is full.
 * It is there before the client can ask for it. */
int mcp_task_enlist(struct mcp_exchange *x, struct mcp_task *t);
void mcp_task_delist(struct mcp_task *t); /* of somebody who has it himself */

#endif
