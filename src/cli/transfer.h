/* SPDX-License-Identifier: Apache-2.0 */
/* Requests on their way: what transfer.c and crowd.c share, and the bar that
 * several may have in common. */
#ifndef GLOVEBOX_CLI_TRANSFER_H
#define GLOVEBOX_CLI_TRANSFER_H

#include "cli/cli_int.h"

/* Of several transfers; `done` counts the bytes of all. */
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

/* ---- crowd.c: several at once ------------------------------------------- */

enum cli_crowd_next {
    CLI_CROWD_ONE,    /* there is one, in *ret */
    CLI_CROWD_LATER,  /* ask again */
    CLI_CROWD_NONE,   /* all have ended */
    CLI_CROWD_FAILED, /* err says why */
};

struct cli_crowd {
    enum cli_crowd_next (*next)(void *ctx, struct cli_transfer **ret,
                                struct error *err);
    /* One ended, with r. 0: go on; else the rest is cut off. */
    int (*ended)(void *ctx, struct cli_transfer *t, int r, struct error *err);
    void *ctx;
};

/* Uploads only. Ctrl-C ends all, as it does one. */
int cli_crowd_run(struct cli *c, const struct cli_crowd *crowd,
                  struct error *err);

#endif
