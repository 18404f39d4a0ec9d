/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that outlived their request, on disk: a client that has the id finds
 * its task again after a restart. The result of a task is the door's own text.
 * Tasks are removed by age, or when their tenant has 256 newer ones.
 */
#ifndef GLOVEBOX_SESSION_TASKS_H
#define GLOVEBOX_SESSION_TASKS_H

#include <stdbool.h>
#include <stdint.h>

struct error;
struct sessions;

struct session_task {
    const char *id, *tenant, *caller; /* borrowed */
    int64_t created_at_ms, updated_at_ms;
    bool over;  /* found: false says that it ended with the service */
    char *body; /* found: owned by caller; "": it was not kept */
};

/* Call it before the client learns the id. */
int session_task_begin(struct sessions *s, const struct session_task *t,
                       struct error *err);
/* Its end; body: borrowed, "" keeps only that it ended. */
int session_task_end(struct sessions *s, const char *id, const char *body,
                     int64_t at_ms, struct error *err);
/* id, tenant and caller must all be right: ERR_NOT_FOUND. Fills the rest. */
int session_task_find(struct sessions *s, struct session_task *t,
                      struct error *err);
int session_task_sweep(struct sessions *s, int64_t before_ms,
                       struct error *err);

#endif
