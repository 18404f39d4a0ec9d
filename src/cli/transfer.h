/* SPDX-License-Identifier: Apache-2.0 */
/* Requests in progress: what transfer.c and parallel.c share, and the progress
 * bar that several may have in common. */
#ifndef GLOVEBOX_CLI_TRANSFER_H
#define GLOVEBOX_CLI_TRANSFER_H

#include "cli/cli_int.h"

/* One bar for several transfers; `done` counts the bytes of all. */
struct cli_bar {
    struct cli_progress progress;
    uint64_t done;
};

/* ---- transfer.c --------------------------------------------------------- */

struct cli_running;

/* Finds the service, if nobody has, and sets the request up; the handle is
 * ready for a multi handle. */
int cli_transfer_begin(struct cli *c, struct cli_transfer *t,
                       struct cli_running **ret, struct error *err);
void *cli_transfer_easy(struct cli_running *r); /* a CURL handle; borrowed */
/* What came of it; result: a CURLcode. */
int cli_transfer_end(struct cli_running *r, int result, struct error *err);
/* Cut off or ended; frees it. Accepts NULL. */
void cli_transfer_free(struct cli_running *r);
/* Reads one pending signal; 0 when there is none. */
int cli_transfer_signal(struct cli *c);

/* ---- parallel.c: several at once -------------------------------------------
 */

enum cli_parallel_next {
    CLI_PARALLEL_READY,  /* *ret is the next request */
    CLI_PARALLEL_LATER,  /* none now; ask again */
    CLI_PARALLEL_NONE,   /* all have ended */
    CLI_PARALLEL_FAILED, /* err says why */
};

struct cli_parallel {
    enum cli_parallel_next (*next)(void *ctx, struct cli_transfer **ret,
                                   struct error *err);
    /* One ended, with r. 0: go on; else the rest is cut off. */
    int (*ended)(void *ctx, struct cli_transfer *t, int r, struct error *err);
    void *ctx;
};

/* Uploads only. Ctrl-C ends all, as it does one. */
int cli_parallel_run(struct cli *c, const struct cli_parallel *parallel,
                     struct error *err);

#endif
