/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The zygote's loop. Runs as an unprivileged uid inside the runtime's root,
 * with no network, in the runtime's own python3 with everything imported;
 * never runs user code and, from here on, no Python: its memory is frozen and
 * must not be written to. Called by module.c.
 *
 * Each SPAWN clones this process into fresh namespaces, as a child of the
 * warden (CLONE_PARENT), so that only the warden waits for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "kernel/kernel_int.h"
#include "wire/wire.h"
#include "wire/zygote_msg.h"

#define FILTER_MAX 4096 /* instructions; the limit of Linux */

#define NAMESPACES                                                            \
    (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET |              \
     CLONE_NEWIPC | CLONE_NEWUTS)

enum {
    FD_CTL,
    FD_EVENTS,
    FD_GO,
    FD_FILTER,
    FDS_FIXED
};

static void report_failure(int events, const struct sandbox_failure *f)
{
    struct init_event event = {.type = INIT_EVENT_FAILED, .errnum = f->errnum};

    strncpy(event.step, f->step, sizeof(event.step) - 1);
    /* If even this fails the daemon sees the socket close. */
    (void)wire_send(events, &event, sizeof(event), NULL, 0);
}

/*
 * The clone: pid 1 of its namespaces, ids not mapped yet, all capabilities
 * inside and none outside. Waits for the warden, isolates itself and runs
 * init_run; returns only in a kernel, with the image to continue from.
 */
static int live(const struct zygote_request *req, const int *given, size_t n)
{
    static struct sock_filter code[FILTER_MAX]; /* this process's own copy */
    struct sandbox_fds fds = {.ctl = given[FD_CTL],
                              .events = given[FD_EVENTS],
                              .go = given[FD_GO],
                              .scratch = -1,
                              .dev = -1,
                              .upper = -1,
                              .runsc = -1,
                              .image = -1,
                              .spec = -1};
    struct init_event ready = {.type = INIT_EVENT_READY, .pid = 1};
    struct sandbox_failure failure = {"wait for the warden", EPIPE};
    struct sock_fprog filter = {.filter = code};
    size_t next = FDS_FIXED;
    ssize_t len;
    char go;

    if (req->spec.has_scratch && next < n)
        fds.scratch = given[next++];
    if (req->spec.has_dev && next < n)
        fds.dev = given[next++];
    if (req->spec.groups > SANDBOX_GROUPS_MAX ||
        req->spec.layers > WARDEN_LAYERS_MAX ||
        next + req->spec.layers + req->spec.groups > n)
        _exit(1); /* not what the warden sends */
    for (uint32_t i = 0; i < req->spec.layers; i++)
        fds.layers[i] = given[next++];
    for (uint32_t i = 0; i < req->spec.groups; i++)
        fds.groups[i] = given[next++];
    fds.filter = &filter;
    if (req->spec.guest && next + 1 < n) {
        fds.runsc = given[next++];
        fds.image = given[next++];
    }
    if (req->spec.guest == SANDBOX_GUEST_PREPARE && next < n)
        fds.spec = given[next++];
    if (fd_read_all(given[FD_GO], &go, 1) != 1)
        _exit(1); /* the warden gave up or is gone */
    len = pread(given[FD_FILTER], code, sizeof(code), 0);
    filter.len = len > 0 ? (unsigned short)((size_t)len / sizeof(code[0])) : 0;
    if (sandbox_enter(&req->spec, &fds, &filter, &failure) < 0) {
        report_failure(fds.events, &failure);
        _exit(1);
    }
    if (req->spec.guest == SANDBOX_GUEST_PREPARE)
        guest_prepare(&fds, &req->spec);
    if (wire_send(fds.events, &ready, sizeof(ready), NULL, 0) < 0)
        _exit(1);
    return init_run(&fds, &req->spec, NULL);
}

/* True in a kernel process, which returns to Python. */
static bool spawn(int sock, const struct zygote_request *req, const int *fds,
                  size_t fd_count, int *ret_image)
{
    struct zygote_reply reply = {.type = ZYGOTE_SPAWNED};
    long pid = syscall(SYS_clone, NAMESPACES | CLONE_PARENT | SIGCHLD, NULL,
                       NULL, NULL, 0);

    if (pid == 0) {
        (void)close(sock); /* the zygote's, not ours */
        *ret_image = live(req, fds, fd_count);
        return true;
    }
    reply.errnum = pid < 0 ? errno : 0;
    reply.pid = (int32_t)pid;
    if (wire_send(sock, &reply, sizeof(reply), NULL, 0) < 0)
        _exit(0); /* the warden is gone */
    return false;
}

void zygote_serve(int sock, const struct zygote_reply *ready, int *fds,
                  size_t fd_count, struct kernel_seat *ret_seat)
{
    if (wire_send(sock, ready, sizeof(*ready), fds, fd_count) < 0)
        _exit(0);
    for (size_t i = 0; i < fd_count; i++)
        fd_close(&fds[i]);
    for (;;) {
        struct zygote_request req;
        int given[WIRE_FDS_MAX];
        size_t count = 0;
        ssize_t n = wire_recv(sock, &req, sizeof(req), given, &count);
        bool kernel = false;

        if (n != (ssize_t)sizeof(req) || req.type != ZYGOTE_SPAWN ||
            count < FDS_FIXED)
            _exit(n == 0 ? 0 : 1);
        kernel = spawn(sock, &req, given, count, &ret_seat->image);
        if (kernel) {
            ret_seat->grant = req.spec;
            return;
        }
        for (size_t i = 0; i < count; i++)
            fd_close(&given[i]);
    }
}
