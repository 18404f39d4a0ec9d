/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper processes glovebox-egress and glovebox-model, which connect to
 * the
 * network on behalf of the service: how gloveboxd starts one under an account
 * of its own, how it is restarted, and how it confines itself. The messages
 * are
 * in wire/egress_msg.h and wire/model_msg.h.
 *
 *   start.c      gloveboxd's side: starts a supervisor and sends it orders
 *   supervise.c  the supervisor: starts the program again on new sockets
 *   confine.c    the helper's side: no core dumps or tracing, a system call
 * filter
 */
#ifndef GLOVEBOX_HELPER_HELPER_H
#define GLOVEBOX_HELPER_HELPER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct error;
struct priv_user;

/* A helper finds its sockets from here on; its supervisor finds the control
 * socket here and its program one higher. */
#define HELPER_FD 3
#define HELPER_SOCKETS_MAX 2u

/* ---- start.c ------------------------------------------------------------ */

struct helper {
    int control; /* the supervisor's; -1: there is none */
    pid_t supervisor;
};
#define HELPER_NONE                                                           \
    (struct helper)                                                           \
    {                                                                         \
        .control = -1                                                         \
    }

/* Starts the supervisor of a program as `user` (NULL: as we are); called while
 * we may still choose its account. name: the program's own. */
int helper_open(struct helper *h, const char *path, const char *name,
                const struct priv_user *user, struct error *err);
/* Orders a process on these sockets, borrowed; one that runs is ended first.
 */
int helper_order(struct helper *h, const int *sockets, size_t count,
                 struct error *err);
/* Ends the supervisor and its process. Accepts HELPER_NONE. */
void helper_close(struct helper *h);

/* ---- supervise.c -------------------------------------------------------- */

/* Waits for orders on `control` and starts `program` under `name`. */
int helper_supervise_run(int control, int program, const char *name);

/* ---- confine.c ---------------------------------------------------------- */

/* Is the descriptor one of our sockets? Makes it close-on-exec. */
bool helper_is_socket(int fd);
/* For any account: no core dump, no debugger, no way to gain rights. */
void helper_hide(void);

enum helper_rights {
    HELPER_ALONE = 0,       /* one thread for good */
    HELPER_THREADS = 1 << 0 /* threads, no processes */
};
/* Sockets of the Internet, reading files, its own memory. No programs, no
 * processes, no writing of files, no debugging, no namespaces. For good. A
 * negative errno. */
int helper_confine(unsigned rights);

#endif
