/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storage work in a child. Creating and freeing a scratch waits for the disk,
 * above all freeing, which writes back the dirty pages of an ended session.
 * The warden has one thread, so it forks a child for each such task, and its
 * loop serves other sessions meanwhile.
 *
 * A child that creates sends its mounts over a socket and exits; one that
 * frees just exits. Children close every descriptor they do not need at once:
 * a copy of another slot's mount would keep that mount alive.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "fair/fair.h"
#include "warden/tier.h"
#include "wire/wire.h"

/* keep: borrowed, in any order, -1 for none. */
void helper_keep_fds(int *keep, size_t count)
{
    unsigned from = STDERR_FILENO + 1;

    for (size_t i = 1; i < count; i++) /* a few, sorted by insertion */
        for (size_t k = i; k > 0 && keep[k - 1] > keep[k]; k--) {
            int swap = keep[k];

            keep[k] = keep[k - 1];
            keep[k - 1] = swap;
        }
    for (size_t i = 0; i < count; i++) {
        if (keep[i] < (int)from)
            continue;
        if ((unsigned)keep[i] > from)
            (void)close_range(from, (unsigned)keep[i] - 1, 0);
        from = (unsigned)keep[i] + 1;
    }
    (void)close_range(from, ~0u, 0);
}

static _Noreturn void helper_run_maker(struct warden *w, struct slot *s,
                                       int sock)
{
    int keep[] = {w->scratch_dir, sock};
    struct helper_result made = {0};
    int fds[3];
    size_t count = 0;
    int r;

    helper_keep_fds(keep, ARRAY_SIZE(keep));
    r = scratch_open(w, s);
    if (r == 0 && w->layers)
        (void)layers_prepare(w, s); /* repeated when layers are requested */
    made.errnum = -r;
    made.loop_index = s->loop_index;
    made.scratch = r == 0 && s->scratch_fd >= 0;
    made.dev = r == 0 && s->dev_fd >= 0;
    made.map = r == 0 && s->map_fd >= 0;
    if (made.scratch)
        fds[count++] = s->scratch_fd;
    if (made.dev)
        fds[count++] = s->dev_fd;
    if (made.map)
        fds[count++] = s->map_fd;
    _exit(wire_send(sock, &made, sizeof(made), fds, count) == 0 ? 0 : 1);
}

int helper_make(struct warden *w, struct slot *s)
{
    int pair[2];
    int r = fd_socketpair(SOCK_SEQPACKET, pair);

    if (r < 0)
        return r;
    s->helper = fork();
    if (s->helper == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        helper_run_maker(w, s, pair[1]);
    }
    r = s->helper < 0 ? -errno : 0;
    fd_close(&pair[1]);
    if (r < 0) {
        s->helper = 0;
        fd_close(&pair[0]);
        return r;
    }
    s->helper_sock = pair[0];
    return 0;
}

int helper_made(struct slot *s)
{
    struct helper_result made = {0};
    int fds[WIRE_FDS_MAX];
    size_t count = 0, next = 0;
    ssize_t n = wire_recv(s->helper_sock, &made, sizeof(made), fds, &count);

    fd_close(&s->helper_sock);
    if (n != (ssize_t)sizeof(made) ||
        count != made.scratch + made.dev + made.map) {
        for (size_t i = 0; i < count; i++)
            fd_close(&fds[i]);
        return n == -EMFILE ? -EMFILE : -EIO; /* it was killed */
    }
    if (made.scratch)
        s->scratch_fd = fds[next++];
    if (made.dev)
        s->dev_fd = fds[next++];
    if (made.map)
        s->map_fd = fds[next++];
    s->loop_index = made.loop_index;
    return -made.errnum;
}

/* Waits until the warden has closed its descriptors: the process that closes
 * last waits for the disk. */
static _Noreturn void helper_run_freer(struct warden *w, struct slot *s,
                                       int go)
{
    int keep[] = {w->scratch_dir, s->scratch_fd, s->dev_fd, go};
    char byte;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    fair_priority_reset(); /* no request waits for this */
    helper_keep_fds(keep, ARRAY_SIZE(keep));
    /* Ends with the warden too. */
    (void)fd_read_all(go, &byte, 1);
    scratch_remove(w, s);
    fd_close(&w->scratch_dir); /* and with it our share of its lock */
    scratch_close(s);
    _exit(0);
}

int helper_free(struct warden *w, struct slot *s)
{
    int go[2];
    int r = fd_pipe(go);

    if (r < 0)
        return r;
    s->helper = fork();
    if (s->helper == 0)
        helper_run_freer(w, s, go[0]);
    r = s->helper < 0 ? -errno : 0;
    if (r < 0)
        s->helper = 0;
    else
        scratch_close(s);
    fd_close(&go[0]);
    fd_close(&go[1]);
    return r;
}

void helper_remove(const struct warden *w, const char *name)
{
    int keep[] = {w->scratch_dir};
    pid_t pid = fork();

    if (pid > 0)
        return; /* reaped by the loop */
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        fair_priority_reset();
        helper_keep_fds(keep, ARRAY_SIZE(keep));
    }
    checkpoint_remove(w, name);
    if (pid == 0)
        _exit(0);
}
