/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's stubs for the warden; see call.h. Runs in gloveboxd, on any
 * thread; calls take turns. Opening the link starts the warden, while the
 * daemon still has the rights to. One thread per link, the tender, completes
 * what callers stopped waiting for.
 */
#include "warden/call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "wire/wire.h"

#define LINK_FD 3
#define CLOSE_MS 8000u
#define REPLY_MS 30000u  /* how long a call waits */
#define RELEASE_MS 5000u /* the same where the tender can finish it */
#define SILENT_MS                                                             \
    5000u /* without a reply; then it counts as not answering                 \
           */
#define HEARTBEAT_MS 1000u
#define RETRY_S 5

/* A request that must be completed although its caller has given up. */
struct owed {
    uint32_t type; /* WARDEN_RELEASE or WARDEN_KILL */
    uint32_t slot;
};

/*
 * At most one request is in flight. A caller that reaches its deadline leaves
 * it behind (`late`). The next caller first reads the late reply and releases
 * what it brought. So a reply is never matched to another request, and the
 * link works again as soon as the warden answers.
 */
struct warden_link {
    struct mutex lock;
    struct cond free_short, free_long;
    bool busy; /* a caller has the turn */
    unsigned short_waiting;
    int sock;
    pid_t pid;
    uint32_t walls;
    uint32_t tiers;
    atomic_bool alive;

    /* Written with the turn and the lock; read with the lock. */
    uint32_t seq;
    uint32_t flight_type; /* sent and not answered; 0: none */
    uint64_t flight_ms;   /* since when */
    bool late;            /* its caller gave up */
    uint64_t answered_ms;

    /* Under the lock. */
    struct owed *owed;
    size_t owed_count, owed_room;
    uint64_t timeouts, late_replies, reclaimed;

    struct thread tender;
    struct cond tend;
    bool closing;
    unsigned reply_ms, release_ms, silent_ms; /* shorter in tests */
};

static void link_init(struct warden_link *link, int sock, pid_t pid)
{
    *link = (struct warden_link){.sock = sock,
                                 .pid = pid,
                                 .answered_ms = clock_mono_ms(),
                                 .reply_ms = REPLY_MS,
                                 .release_ms = RELEASE_MS,
                                 .silent_ms = SILENT_MS};
    mutex_init(&link->lock);
    cond_init(&link->free_short);
    cond_init(&link->free_long);
    cond_init(&link->tend);
    atomic_init(&link->alive, true);
}

static void link_done(struct warden_link *link)
{
    fd_close(&link->sock);
    mutex_done(&link->lock);
    cond_done(&link->free_short);
    cond_done(&link->free_long);
    cond_done(&link->tend);
    free(link->owed);
}

/* ---- turns -------------------------------------------------------------- */

enum fate {
    ANSWERED,
    UNSENT, /* it did not get its turn */
    LATE,   /* sent; the reply has not come yet */
    LOST    /* the warden is gone */
};

/* The service sees the socket hang up and stops. */
static enum fate link_lose(struct warden_link *link)
{
    mutex_lock(&link->lock);
    if (atomic_exchange(&link->alive, false) && !link->closing)
        (void)shutdown(link->sock, SHUT_RDWR);
    cond_broadcast(&link->free_short);
    cond_broadcast(&link->free_long);
    mutex_unlock(&link->lock);
    return LOST;
}

/* How long a request has been waiting for its reply. */
static uint64_t silence_ms(const struct warden_link *link)
{
    mutex_assert_held(&link->lock);
    return link->flight_type ? clock_mono_ms() - link->flight_ms : 0;
}

/* False after the deadline and, unless patient, while the warden is silent, so
 * that the workers of the daemon do not queue up behind a warden that hangs.
 */
static bool may_wait(const struct warden_link *link, uint64_t deadline,
                     bool patient)
{
    return atomic_load(&link->alive) && !link->closing &&
           clock_left_ms(deadline) > 0 &&
           (patient || silence_ms(link) < link->silent_ms);
}

static void wait_turn(struct warden_link *link, struct cond *cond,
                      uint64_t deadline)
{
    uint64_t until = deadline;

    mutex_assert_held(&link->lock);
    if (link->flight_type)
        until = MIN(until, link->flight_ms + link->silent_ms);
    /* A patient caller checks again every 50 ms. */
    (void)cond_wait_until(cond, &link->lock, MAX(until, clock_mono_ms() + 50));
}

static bool take_link(struct warden_link *link, uint32_t type,
                      uint64_t deadline, bool patient)
{
    bool mine;

    mutex_lock(&link->lock);
    /* Requests that create and end sandboxes are slow; requests of a running
     * execution overtake them. */
    if (type == WARDEN_SPAWN || type == WARDEN_RELEASE ||
        type == WARDEN_RUNTIME) {
        while ((link->busy || link->short_waiting) &&
               may_wait(link, deadline, patient))
            wait_turn(link, &link->free_long, deadline);
        mine = !link->busy && !link->short_waiting;
    } else {
        link->short_waiting++;
        while (link->busy && may_wait(link, deadline, patient))
            wait_turn(link, &link->free_short, deadline);
        link->short_waiting--;
        mine = !link->busy;
    }
    mine = mine && may_wait(link, deadline, patient);
    if (mine)
        link->busy = true;
    else if (!link->busy) /* the signal may have been for us */
        cond_signal(link->short_waiting ? &link->free_short
                                        : &link->free_long);
    mutex_unlock(&link->lock);
    return mine;
}

static void leave_link(struct warden_link *link)
{
    mutex_lock(&link->lock);
    link->busy = false;
    cond_signal(link->short_waiting ? &link->free_short : &link->free_long);
    mutex_unlock(&link->lock);
}

/* ---- what is owed ------------------------------------------------------- */

static void owe_request(struct warden_link *link, uint32_t type, uint32_t slot)
{
    mutex_lock(&link->lock);
    if (link->owed_count == link->owed_room) {
        link->owed_room = MAX(2 * link->owed_room, (size_t)16);
        link->owed =
            xrealloc(link->owed, link->owed_room * sizeof(link->owed[0]));
    }
    link->owed[link->owed_count++] = (struct owed){type, slot};
    cond_signal(&link->tend);
    mutex_unlock(&link->lock);
}

static void count_event(struct warden_link *link, uint64_t *counter)
{
    mutex_lock(&link->lock);
    (*counter)++;
    mutex_unlock(&link->lock);
}

/* ---- one call ----------------------------------------------------------- */

/* A reply with its descriptors. */
struct answer {
    struct warden_reply reply;
    int fds[WIRE_FDS_MAX];
    size_t fd_count;
    bool full; /* its descriptors did not fit into our table */
};

static void drop_fds(struct answer *a)
{
    for (size_t i = 0; i < a->fd_count; i++)
        fd_close(&a->fds[i]);
    a->fd_count = 0;
}

/* Reads one packet; false when it is not a reply. */
static bool receive_reply(int sock, struct answer *a)
{
    ssize_t n;

    memset(&a->reply, 0, sizeof(a->reply));
    n = wire_recv(sock, &a->reply, sizeof(a->reply), a->fds, &a->fd_count);
    a->full = n == -EMFILE;
    a->reply.text[sizeof(a->reply.text) - 1] = '\0';
    return a->full || n == (ssize_t)sizeof(a->reply);
}

static void set_flight(struct warden_link *link, uint32_t type)
{
    mutex_lock(&link->lock);
    link->flight_type = type;
    link->late = false;
    if (type)
        link->flight_ms = clock_mono_ms();
    else
        link->answered_ms = clock_mono_ms();
    mutex_unlock(&link->lock);
}

/* With the turn: the reply to the last request, and no other. */
static enum fate await_reply(struct warden_link *link, uint64_t deadline,
                             struct answer *a)
{
    for (;;) {
        struct pollfd p = {.fd = link->sock, .events = POLLIN};
        int n;

        do
            n = poll(&p, 1, clock_left_ms(deadline));
        while (n < 0 && errno == EINTR);
        if (n != 1)
            return LATE;

        if (!receive_reply(link->sock, a)) {
            drop_fds(a);
            return link_lose(link);
        }
        if (a->reply.seq == link->seq && a->reply.type == link->flight_type)
            break;
        drop_fds(a);
        if (a->reply.seq == link->seq)
            return link_lose(link); /* our number, another type */
        log_event(LOG_ERROR, "warden_reply_dropped", "why",
                  "it answers no request that is under way", NULL);
    }
    set_flight(link, 0);
    return ANSWERED;
}

/* With the turn: reads the reply to a request whose caller gave up. A sandbox
 * created for it has no owner and is ended. */
static enum fate settle_late_reply(struct warden_link *link, uint64_t deadline)
{
    struct answer a = {0};
    enum fate fate;

    if (!link->flight_type)
        return ANSWERED;
    fate = await_reply(link, deadline, &a);
    if (fate != ANSWERED)
        return fate;
    drop_fds(&a);
    count_event(link, &link->late_replies);
    log_event(LOG_WARN, "warden_late_reply", NULL);
    if (a.reply.type == WARDEN_SPAWN && a.reply.result == WARDEN_OK)
        owe_request(link, WARDEN_RELEASE, a.reply.u.spawned.slot);
    return ANSWERED;
}

struct call {
    struct warden_request *req;
    const int *fds; /* borrowed */
    size_t fd_count;
    unsigned wait_ms;
    bool patient;
};

static enum fate converse(struct warden_link *link, const struct call *c,
                          struct answer *ret)
{
    uint64_t deadline = clock_mono_ms() + c->wait_ms;
    enum fate fate;

    if (!take_link(link, c->req->type, deadline, c->patient))
        return atomic_load(&link->alive) ? UNSENT : LOST;
    fate = settle_late_reply(link, deadline);
    if (fate == LATE) {
        leave_link(link);
        return UNSENT;
    }
    if (fate == ANSWERED) {
        c->req->seq = ++link->seq;
        set_flight(link, c->req->type);
        if (wire_send(link->sock, c->req, sizeof(*c->req), c->fds,
                      c->fd_count) < 0)
            fate = link_lose(link);
    }
    if (fate == ANSWERED)
        fate = await_reply(link, deadline, ret);
    if (fate == LATE) {
        mutex_lock(&link->lock);
        if (!link->late)
            link->timeouts++;
        link->late = true;
        cond_signal(&link->tend);
        mutex_unlock(&link->lock);
    }
    leave_link(link);
    return fate;
}

static int explain_fate(struct warden_link *link, enum fate fate,
                        struct error *err)
{
    uint64_t silent;

    if (fate == LOST) {
        (void)error_set(err, ERR_UNAVAILABLE,
                        "the service's privileged helper has ended; the "
                        "service is stopping");
        return error_retry(err, RETRY_S);
    }
    mutex_lock(&link->lock);
    silent = silence_ms(link);
    mutex_unlock(&link->lock);
    if (silent >= 1000)
        (void)error_set(err, ERR_UNAVAILABLE,
                        "the service's privileged helper has not answered "
                        "for %u s",
                        (unsigned)(silent / 1000));
    else
        (void)error_set(err, ERR_UNAVAILABLE,
                        "the service's privileged helper is busy with other "
                        "requests");
    return error_retry(err, RETRY_S);
}

static int check_reply(const struct warden_reply *reply, struct error *err)
{
    switch ((enum warden_result)reply->result) {
    case WARDEN_OK:
        return 0;
    case WARDEN_NOT_READY:
        (void)error_set(err, ERR_UNAVAILABLE, "%s",
                        *reply->text ? reply->text
                                     : "the runtime is still starting");
        return error_retry(err, WARDEN_CALL_SOON_S);
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

/* A call whose reply has no descriptors. */
static int call_warden(struct warden_link *link, struct warden_request *req,
                       const int *fds, size_t fd_count,
                       struct warden_reply *reply, struct error *err)
{
    struct call c = {req, fds, fd_count, link->reply_ms, false};
    struct answer a = {0};
    enum fate fate = converse(link, &c, &a);

    if (fate == ANSWERED && (a.fd_count || a.full)) {
        drop_fds(&a);
        fate = link_lose(link);
    }
    if (fate != ANSWERED)
        return explain_fate(link, fate, err);
    *reply = a.reply;
    return check_reply(reply, err);
}

/* ---- the tender --------------------------------------------------------- */

/* True when it need not be sent again: it was done, or it was sent and the
 * warden will do it. */
static bool send_owed(struct warden_link *link, const struct owed *o)
{
    struct warden_request req = {.type = o->type, .u.slot = {.slot = o->slot}};
    struct call c = {&req, NULL, 0, link->reply_ms, true};
    struct answer a = {0};
    enum fate fate = converse(link, &c, &a);

    drop_fds(&a);
    if (fate == ANSWERED && o->type == WARDEN_RELEASE)
        count_event(link, &link->reclaimed);
    return fate == ANSWERED || fate == LATE;
}

/* Does one thing that is due, without the lock; false: nothing is due. */
static bool tend_one(struct warden_link *link)
{
    uint64_t due = link->answered_ms + HEARTBEAT_MS;

    mutex_assert_held(&link->lock);
    if (link->owed_count) {
        struct owed first = link->owed[0];
        bool paid;

        mutex_unlock(&link->lock);
        paid = send_owed(link, &first);
        mutex_lock(&link->lock);
        if (paid) /* only this thread removes entries */
            memmove(link->owed, link->owed + 1,
                    --link->owed_count * sizeof(link->owed[0]));
        return true;
    }
    if (!link->late && clock_left_ms(due) > 0)
        return false;
    mutex_unlock(&link->lock);

    struct warden_request req = {.type = WARDEN_STATUS};
    struct call c = {&req, NULL, 0, link->reply_ms, true};
    struct answer a = {0};

    (void)converse(link, &c, &a);
    drop_fds(&a);

    mutex_lock(&link->lock);
    return true;
}

/* Sends owed releases, reads late replies, and sends a heartbeat to an idle
 * warden. */
static void warden_tender_main(void *arg)
{
    struct warden_link *link = arg;

    mutex_lock(&link->lock);
    while (!link->closing && atomic_load(&link->alive)) {
        if (tend_one(link))
            continue;
        (void)cond_wait_until(
            &link->tend, &link->lock,
            MAX(link->answered_ms + HEARTBEAT_MS, clock_mono_ms() + 20));
    }
    mutex_unlock(&link->lock);
}

int warden_call_tend(struct warden_link *link, struct error *err)
{
    return thread_start(&link->tender, "warden-tender", warden_tender_main,
                        link, err);
}

static void stop_tender(struct warden_link *link)
{
    if (!link->tender.started)
        return;
    mutex_lock(&link->lock);
    link->closing = true;
    (void)shutdown(link->sock, SHUT_RDWR); /* it may wait for a reply */
    cond_broadcast(&link->tend);
    cond_broadcast(&link->free_short);
    cond_broadcast(&link->free_long);
    mutex_unlock(&link->lock);
    thread_join(&link->tender);
}

/* ---- the link ----------------------------------------------------------- */

static int warden_call_setup(struct warden_link *link,
                             const struct warden_setup *setup,
                             struct error *err)
{
    struct warden_request req = {.type = WARDEN_SETUP, .u.setup = *setup};
    struct warden_reply reply = {0};
    int r = call_warden(link, &req, NULL, 0, &reply, err);

    if (r == 0) {
        link->walls = reply.u.status.walls;
        link->tiers = reply.u.status.tiers;
    }
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
        /* In the child, with all rights of the starter: becomes the warden. */
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
    link_init(link, pair[0], pid);
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
    stop_tender(link);
    fd_close(&link->sock);
    /* The warden ends every session first; we may lack the right to kill it.
     */
    while (waitpid(link->pid, NULL, WNOHANG) == 0 &&
           clock_left_ms(deadline) > 0) {
        struct timespec pause = {0, 2000000};

        (void)nanosleep(&pause, NULL);
    }
    link_done(link);
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

uint32_t warden_call_tiers(const struct warden_link *link)
{
    return link->tiers;
}

void warden_call_health(struct warden_link *link, struct warden_health *ret)
{
    mutex_lock(&link->lock);
    *ret = (struct warden_health){
        .silent_ms = silence_ms(link),
        .timeouts = link->timeouts,
        .late_replies = link->late_replies,
        .reclaimed = link->reclaimed,
        .owed = link->owed_count,
    };
    ret->answers =
        atomic_load(&link->alive) && ret->silent_ms < link->silent_ms;
    mutex_unlock(&link->lock);
}

/* ---- stubs -------------------------------------------------------------- */

static int call_runtime(struct warden_link *link, uint32_t replaces,
                        const char *image, int spec_fd, bool fresh_exec,
                        uint32_t *ret_runtime, struct error *err)
{
    struct warden_request req = {.type = WARDEN_RUNTIME};
    struct warden_reply reply = {0};
    int r;

    if (strlen(image) >= sizeof(req.u.runtime.image))
        return error_set(err, ERR_INVALID, "the image's name is too long");
    memcpy(req.u.runtime.image, image, strlen(image));
    req.u.runtime.fresh_exec = fresh_exec;
    req.u.runtime.replaces = replaces;
    r = call_warden(link, &req, &spec_fd, 1, &reply, err);
    if (r == 0)
        *ret_runtime = reply.u.runtime;
    return r;
}

int warden_call_runtime(struct warden_link *link, const char *image,
                        int spec_fd, bool fresh_exec, uint32_t *ret_runtime,
                        struct error *err)
{
    return call_runtime(link, 0, image, spec_fd, fresh_exec, ret_runtime, err);
}

int warden_call_runtime_change(struct warden_link *link, uint32_t runtime,
                               const char *image, int spec_fd, bool fresh_exec,
                               struct error *err)
{
    uint32_t same;

    return call_runtime(link, runtime + 1, image, spec_fd, fresh_exec, &same,
                        err);
}

/* The sandbox was created, but its meters were lost: it is ended. */
static int no_descriptors(struct warden_link *link, const struct answer *a,
                          struct error *err)
{
    if (a->reply.result == WARDEN_OK)
        owe_request(link, WARDEN_RELEASE, a->reply.u.spawned.slot);
    (void)error_set(err, ERR_BUSY,
                    "the service has no file descriptors left for another "
                    "session");
    return error_retry(err, RETRY_S);
}

int warden_call_spawn(struct warden_link *link,
                      const struct warden_spawn *spawn, int ctl_fd,
                      int events_fd, const int *layers,
                      struct warden_spawned *ret, struct meters *ret_meters,
                      struct error *err)
{
    struct warden_request req = {.type = WARDEN_SPAWN, .u.spawn = *spawn};
    int fds[2 + WARDEN_LAYERS_MAX] = {ctl_fd, events_fd};
    struct call c = {&req, fds, 0, link->reply_ms, false};
    struct answer a = {0};
    enum fate fate;
    bool spawned;
    int r;

    if (spawn->layers > WARDEN_LAYERS_MAX)
        return error_set(err, ERR_INVALID, "too many layers");
    for (uint32_t i = 0; i < spawn->layers; i++)
        fds[2 + i] = layers[i];
    c.fd_count = 2 + spawn->layers;
    fate = converse(link, &c, &a);
    if (fate == ANSWERED && a.full)
        return no_descriptors(link, &a, err);
    spawned = fate == ANSWERED && a.reply.result == WARDEN_OK;
    if (fate == ANSWERED &&
        (spawned ? !meters_unpack(ret_meters, a.reply.u.spawned.meters, a.fds,
                                  (unsigned)a.fd_count)
                 : a.fd_count > 0)) {
        drop_fds(&a);
        fate = link_lose(link);
    }
    if (fate != ANSWERED)
        return explain_fate(link, fate, err);
    r = check_reply(&a.reply, err);
    if (r == 0)
        *ret = a.reply.u.spawned;
    return r;
}

static int call_slot(struct warden_link *link, uint32_t type,
                     const struct warden_slot *slot,
                     struct warden_reply *reply, struct error *err)
{
    struct warden_request req = {.type = type, .u.slot = *slot};

    return call_warden(link, &req, NULL, 0, reply, err);
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

int warden_call_sched_class(struct warden_link *link, uint32_t slot,
                            bool background, struct error *err)
{
    struct warden_slot s = {.slot = slot, .background = background};
    struct warden_reply reply = {0};

    return call_slot(link, WARDEN_SCHED_CLASS, &s, &reply, err);
}

int warden_call_zygotes(struct warden_link *link,
                        const struct warden_zygotes *used, struct error *err)
{
    struct warden_request req = {.type = WARDEN_ZYGOTES, .u.zygotes = *used};
    struct warden_reply reply = {0};

    return call_warden(link, &req, NULL, 0, &reply, err);
}

int warden_call_cpu_reserve(struct warden_link *link, bool on, uint32_t slot,
                            struct error *err)
{
    struct warden_request req = {.type = WARDEN_CPU_RESERVE,
                                 .u.cpu_reserve = {.on = on, .slot = slot}};
    struct warden_reply reply = {0};

    return call_warden(link, &req, NULL, 0, &reply, err);
}

/* A request that is completed in any case: if its reply is late, the warden
 * does it later; if it could not be sent, the tender sends it. */
static int call_surely(struct warden_link *link, uint32_t type, uint32_t slot,
                       struct error *err)
{
    struct warden_request req = {.type = type, .u.slot = {.slot = slot}};
    struct call c = {&req, NULL, 0, link->release_ms, false};
    struct answer a = {0};
    enum fate fate = converse(link, &c, &a);

    if (fate == ANSWERED && (a.fd_count || a.full)) {
        drop_fds(&a);
        fate = link_lose(link);
    }
    if (fate == ANSWERED)
        return check_reply(&a.reply, err);
    if (fate == UNSENT)
        owe_request(link, type, slot);
    return explain_fate(link, fate, err);
}

int warden_call_kill(struct warden_link *link, uint32_t slot,
                     struct error *err)
{
    return call_surely(link, WARDEN_KILL, slot, err);
}

int warden_call_release(struct warden_link *link, uint32_t slot,
                        struct error *err)
{
    return call_surely(link, WARDEN_RELEASE, slot, err);
}

int warden_call_status(struct warden_link *link, struct warden_status *ret,
                       struct error *err)
{
    struct warden_request req = {.type = WARDEN_STATUS};
    struct warden_reply reply = {0};
    int r = call_warden(link, &req, NULL, 0, &reply, err);

    if (r == 0)
        *ret = reply.u.status;
    return r;
}
