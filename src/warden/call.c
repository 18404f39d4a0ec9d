/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's stubs for the warden; see call.h. Runs in gloveboxd, on any
 * thread; one lock makes the calls take turns. Opening the link starts the
 * warden, while the daemon still has the rights to.
 */
#include "warden/call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "wire/wire.h"

#define LINK_FD 3
#define REPLY_MS 30000
#define CLOSE_MS 8000u

struct warden_link {
    pthread_mutex_t lock;
    pthread_cond_t free_short, free_long;
    bool busy; /* from a request to its reply */
    unsigned short_waiting;
    int sock;
    pid_t pid;
    uint32_t seq;
    uint32_t walls;
    atomic_bool alive;
};

/* ---- one call
 * ----------------------------------------------------------------- */

static int lost(struct warden_link *link, struct error *err)
{
    atomic_store(&link->alive, false);
    return error_set(err, ERR_UNAVAILABLE,
                     "the service's privileged helper is gone");
}

static bool wait_readable(int sock)
{
    uint64_t deadline = clock_mono_ms() + REPLY_MS;
    struct pollfd p = {.fd = sock, .events = POLLIN};
    int n;

    do
        n = poll(&p, 1, clock_left_ms(deadline));
    while (n < 0 && errno == EINTR);
    return n == 1;
}

/* Making and ending sandboxes takes a while and may wait; what a running
 * execution asks does not wait behind a line of those. */
static bool is_long(uint32_t type)
{
    return type == WARDEN_SPAWN || type == WARDEN_RELEASE ||
           type == WARDEN_RUNTIME;
}

static void take_link(struct warden_link *link, uint32_t type)
{
    pthread_mutex_lock(&link->lock);
    if (is_long(type)) {
        while (link->busy || link->short_waiting)
            (void)pthread_cond_wait(&link->free_long, &link->lock);
    } else {
        link->short_waiting++;
        while (link->busy)
            (void)pthread_cond_wait(&link->free_short, &link->lock);
        link->short_waiting--;
    }
    link->busy = true;
    pthread_mutex_unlock(&link->lock);
}

static void leave_link(struct warden_link *link)
{
    pthread_mutex_lock(&link->lock);
    link->busy = false;
    (void)pthread_cond_signal(link->short_waiting ? &link->free_short
                                                  : &link->free_long);
    pthread_mutex_unlock(&link->lock);
}

/* Descriptors come with one kind of reply only. */
static bool receive(int sock, struct warden_reply *reply,
                    struct meters *ret_meters)
{
    int fds[WIRE_FDS_MAX];
    size_t count = 0;
    ssize_t n = wire_recv(sock, reply, sizeof(*reply), fds, &count);
    bool spawned = n == (ssize_t)sizeof(*reply) &&
                   reply->type == WARDEN_SPAWN && reply->result == WARDEN_OK;

    if (spawned && ret_meters &&
        meters_unpack(ret_meters, reply->u.spawned.meters, fds,
                      (unsigned)count))
        return true;
    for (size_t i = 0; i < count; i++)
        fd_close(&fds[i]);
    return n == (ssize_t)sizeof(*reply) && !spawned && count == 0;
}

/* Sends and waits for the reply of the same number. */
static int exchange(struct warden_link *link, struct warden_request *req,
                    const int *fds, size_t fd_count,
                    struct warden_reply *reply, struct meters *ret_meters,
                    struct error *err)
{
    bool ok;

    if (!atomic_load(&link->alive))
        return lost(link, err);
    take_link(link, req->type);
    req->seq = ++link->seq;
    ok = atomic_load(&link->alive) &&
         wire_send(link->sock, req, sizeof(*req), fds, fd_count) == 0 &&
         wait_readable(link->sock) && receive(link->sock, reply, ret_meters) &&
         reply->seq == req->seq && reply->type == req->type;
    if (!ok) /* before that: the next caller must not read a late reply */
        atomic_store(&link->alive, false);
    leave_link(link);
    if (!ok) {
        if (ret_meters)
            meters_close(ret_meters);
        return lost(link, err);
    }
    reply->text[sizeof(reply->text) - 1] = '\0';
    return 0;
}

static int judge(const struct warden_reply *reply, struct error *err)
{
    switch ((enum warden_result)reply->result) {
    case WARDEN_OK:
        return 0;
    case WARDEN_NOT_READY:
        (void)error_set(err, ERR_UNAVAILABLE, "the runtime is still starting");
        return error_retry(err, 1);
    case WARDEN_FULL:
        (void)error_set(err, ERR_BUSY, "no room for another session");
        return error_retry(err, 5);
    case WARDEN_REFUSED:
        return error_set(err, ERR_INVALID, "refused: %s", reply->text);
    case WARDEN_GONE:
        return error_set(err, ERR_NOT_FOUND, "the sandbox is gone");
    case WARDEN_FAILED:
        break;
    }
    return error_errno(err, ERR_ISOLATION, reply->errnum, "%s", reply->text);
}

static int call(struct warden_link *link, struct warden_request *req,
                const int *fds, size_t fd_count, struct warden_reply *reply,
                struct error *err)
{
    int r = exchange(link, req, fds, fd_count, reply, NULL, err);

    return r < 0 ? r : judge(reply, err);
}

/* ---- the link
 * ------------------------------------------------------------------ */

static int warden_call_setup(struct warden_link *link,
                             const struct warden_setup *setup,
                             struct error *err)
{
    struct warden_request req = {.type = WARDEN_SETUP, .u.setup = *setup};
    struct warden_reply reply = {0};
    int r = call(link, &req, NULL, 0, &reply, err);

    if (r == 0)
        link->walls = reply.u.status.walls;
    return r;
}

int warden_call_open(const char *path, const struct warden_setup *setup,
                     struct warden_link **ret_link, struct error *err)
{
    struct warden_link *link;
    const char *argv[] = {"glovebox-warden", NULL};
    char *environment[] = {NULL};
    int pair[2];
    pid_t pid;
    int r;

    r = fd_socketpair(SOCK_SEQPACKET, pair);
    if (r < 0)
        return error_errno(err, ERR_INTERNAL, -r, "cannot make a socket");
    pid = fork();
    if (pid == 0) {
        /* Still the starter's rights, all of them: becomes the warden. */
        if (dup3(pair[1], LINK_FD, 0) < 0 && errno != EINVAL)
            _exit(126);
        (void)fcntl(LINK_FD, F_SETFD, 0);
        (void)close_range(LINK_FD + 1, ~0u, 0);
        (void)execve(path, (char *const *)argv, environment);
        _exit(127);
    }
    fd_close(&pair[1]);
    if (pid < 0) {
        fd_close(&pair[0]);
        return error_errno(err, ERR_INTERNAL, errno, "cannot fork");
    }
    link = xcalloc(1, sizeof(*link));
    pthread_mutex_init(&link->lock, NULL);
    pthread_cond_init(&link->free_short, NULL);
    pthread_cond_init(&link->free_long, NULL);
    link->sock = pair[0];
    link->pid = pid;
    atomic_store(&link->alive, true);
    r = warden_call_setup(link, setup, err);
    if (r < 0) {
        warden_call_close(link);
        return error_wrap(err, "cannot start the warden");
    }
    *ret_link = link;
    return 0;
}

void warden_call_close(struct warden_link *link)
{
    uint64_t deadline = clock_mono_ms() + CLOSE_MS;

    if (!link)
        return;
    fd_close(&link->sock);
    /* It ends every session first; we may not have the right to kill it. */
    while (waitpid(link->pid, NULL, WNOHANG) == 0 &&
           clock_left_ms(deadline) > 0) {
        struct timespec pause = {0, 2000000};

        (void)nanosleep(&pause, NULL);
    }
    pthread_mutex_destroy(&link->lock);
    pthread_cond_destroy(&link->free_short);
    pthread_cond_destroy(&link->free_long);
    free(link);
}

bool warden_call_alive(const struct warden_link *link)
{
    return atomic_load(&link->alive);
}

int warden_call_fd(const struct warden_link *link)
{
    return link->sock;
}

uint32_t warden_call_walls(const struct warden_link *link)
{
    return link->walls;
}

/* ---- stubs
 * ---------------------------------------------------------------------- */

int warden_call_runtime(struct warden_link *link, const char *image,
                        int spec_fd, bool fresh_exec, uint32_t *ret_runtime,
                        struct error *err)
{
    struct warden_request req = {.type = WARDEN_RUNTIME};
    struct warden_reply reply = {0};
    int r;

    if (strlen(image) >= sizeof(req.u.runtime.image))
        return error_set(err, ERR_INVALID, "the image's name is too long");
    memcpy(req.u.runtime.image, image, strlen(image));
    req.u.runtime.fresh_exec = fresh_exec;
    r = call(link, &req, &spec_fd, 1, &reply, err);
    if (r == 0)
        *ret_runtime = reply.u.runtime;
    return r;
}

int warden_call_spawn(struct warden_link *link,
                      const struct warden_spawn *spawn, int ctl_fd,
                      int events_fd, const int *layers, uint32_t *ret_slot,
                      struct meters *ret_meters, struct error *err)
{
    struct warden_request req = {.type = WARDEN_SPAWN, .u.spawn = *spawn};
    struct warden_reply reply = {0};
    int fds[2 + WARDEN_LAYERS_MAX] = {ctl_fd, events_fd};
    int r;

    if (spawn->layers > WARDEN_LAYERS_MAX)
        return error_set(err, ERR_INVALID, "too many layers");
    for (uint32_t i = 0; i < spawn->layers; i++)
        fds[2 + i] = layers[i];
    r = exchange(link, &req, fds, 2 + spawn->layers, &reply, ret_meters, err);
    if (r == 0)
        r = judge(&reply, err);
    if (r == 0)
        *ret_slot = reply.u.spawned.slot;
    return r;
}

static int call_slot(struct warden_link *link, uint32_t type,
                     const struct warden_slot *slot,
                     struct warden_reply *reply, struct error *err)
{
    struct warden_request req = {.type = type, .u.slot = *slot};

    return call(link, &req, NULL, 0, reply, err);
}

int warden_call_usage(struct warden_link *link, uint32_t slot, bool reset_peak,
                      struct warden_usage *ret_usage, struct error *err)
{
    struct warden_slot s = {.slot = slot, .reset_peak = reset_peak};
    struct warden_reply reply = {0};
    int r = call_slot(link, WARDEN_USAGE, &s, &reply, err);

    if (r == 0)
        *ret_usage = reply.u.usage;
    return r;
}

int warden_call_calm(struct warden_link *link, uint32_t slot, bool calm,
                     struct error *err)
{
    struct warden_slot s = {.slot = slot, .calm = calm};
    struct warden_reply reply = {0};

    return call_slot(link, WARDEN_CALM, &s, &reply, err);
}

int warden_call_room(struct warden_link *link, bool on, uint32_t slot,
                     struct error *err)
{
    struct warden_request req = {.type = WARDEN_ROOM,
                                 .u.room = {.on = on, .slot = slot}};
    struct warden_reply reply = {0};

    return call(link, &req, NULL, 0, &reply, err);
}

int warden_call_kill(struct warden_link *link, uint32_t slot,
                     struct error *err)
{
    struct warden_slot s = {.slot = slot};
    struct warden_reply reply = {0};

    return call_slot(link, WARDEN_KILL, &s, &reply, err);
}

int warden_call_release(struct warden_link *link, uint32_t slot,
                        struct error *err)
{
    struct warden_slot s = {.slot = slot};
    struct warden_reply reply = {0};

    return call_slot(link, WARDEN_RELEASE, &s, &reply, err);
}

int warden_call_status(struct warden_link *link, struct warden_status *ret,
                       struct error *err)
{
    struct warden_request req = {.type = WARDEN_STATUS};
    struct warden_reply reply = {0};
    int r = call(link, &req, NULL, 0, &reply, err);

    if (r == 0)
        *ret = reply.u.status;
    return r;
}
