/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sandbox as seen by the daemon: created by the warden, reached over ctl,
 * events, frames and two pipes, ended by the warden. Runs in gloveboxd. Only
 * opening waits, until the walls stand. A slot is never named to the warden
 * after its release, because it may belong to another session by then.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/thread.h"
#include "box/box_int.h"
#include "wire/wire.h"

#define SPAWN_RETRY_NS 10000000L
#define LATE_RETRY_S 5

__attribute__((weak)) const struct box_times box_times = {
    .ready_ms = 30000, .kernel_ms = 30000, .slot_ms = 3000};

int box_late(const char *what, uint32_t ms, struct error *err)
{
    (void)error_set(err, ERR_BUSY, "the machine is overloaded: %s within %u s",
                    what, (ms + 999) / 1000);
    (void)error_hint(err, "try again later");
    return error_retry(err, LATE_RETRY_S);
}

static atomic_uint tickets; /* of the sandboxes asked for so far */

static struct box *box_new(struct warden_link *link,
                           const struct warden_limits *limits)
{
    struct box *b = xcalloc(1, sizeof(*b));

    atomic_init(&b->refs, 1);
    b->link = link;
    b->limits = *limits;
    b->created_ms = clock_mono_ms();
    b->ctl = b->events = b->frames = -1;
    box_helpers_init(b);
    b->pipes[0] = b->pipes[1] = b->writers[0] = b->writers[1] = -1;
    b->meters = METERS_NONE;
    b->released = true; /* until the warden gave a slot */
    /* Default mutexes cannot fail on Linux. */
    mutex_init(&b->slot_lock);
    mutex_init(&b->ctl_lock);
    mutex_init(&b->guest_env_lock);
    return b;
}

struct box *box_ref(struct box *b)
{
    atomic_fetch_add(&b->refs, 1);
    return b;
}

void box_unref(struct box *b)
{
    if (!b || atomic_fetch_sub(&b->refs, 1) != 1)
        return;
    fd_close(&b->ctl);
    fd_close(&b->events);
    fd_close(&b->frames);
    for (int i = 0; i < 2; i++) {
        fd_close(&b->pipes[i]);
        fd_close(&b->writers[i]);
    }
    meters_close(&b->meters);
    buf_done(&b->pending);
    box_helpers_done(b);
    buf_done(&b->environment);
    mutex_done(&b->guest_env_lock);
    mutex_done(&b->slot_lock);
    mutex_done(&b->ctl_lock);
    free(b);
}

static void unref_box(struct box **b)
{
    box_unref(*b);
}

/* ---- calls to the warden ------------------------------------------------ */

int box_usage(struct box *b, struct warden_usage *ret, struct error *err)
{
    *ret = (struct warden_usage){.alive = true};
    if (!atomic_load(&b->broken) && meters_read(&b->meters, true, ret) == 0)
        return 0;
    return box_fate(b, ret, err);
}

int box_fate(struct box *b, struct warden_usage *ret, struct error *err)
{
    int rc;

    mutex_lock(&b->slot_lock);
    if (b->released)
        rc = error_set(err, ERR_NOT_FOUND, "the sandbox is gone");
    else
        rc = warden_call_usage(b->link, b->slot, true, ret, err);
    mutex_unlock(&b->slot_lock);
    return rc;
}

void box_set_background(struct box *b, bool background)
{
    struct error err;

    mutex_lock(&b->slot_lock);
    if (!b->released &&
        warden_call_sched_class(b->link, b->slot, background, &err) < 0)
        log_event(LOG_DEBUG, "sandbox_sched_class_failed", "error",
                  err.message, NULL);
    b->background = background;
    mutex_unlock(&b->slot_lock);
}

void box_kill(struct box *b)
{
    struct error err;

    mutex_lock(&b->slot_lock);
    if (!b->released && warden_call_kill(b->link, b->slot, &err) < 0)
        log_event(LOG_WARN, "sandbox_kill_delayed", "why", err.message,
                  NULL); /* the link sees to it */
    mutex_unlock(&b->slot_lock);
}

void box_release(struct box *b)
{
    struct error err;
    void *ctx;

    atomic_store(&b->broken, true);
    box_count_in(b, NULL);
    mutex_lock(&b->slot_lock);
    if (!b->released && warden_call_release(b->link, b->slot, &err) < 0)
        log_event(LOG_WARN, "sandbox_release_delayed", "why", err.message,
                  NULL); /* the link sees to it */
    b->released = true;
    mutex_unlock(&b->slot_lock);
    ctx = atomic_exchange(&b->release_ctx, NULL);
    if (ctx)
        b->release_fn(ctx, b);
}

void box_on_release(struct box *b, void (*fn)(void *ctx, struct box *b),
                    void *ctx)
{
    b->release_fn = fn;
    atomic_store(&b->release_ctx, ctx);
}

/* ---- state ------------------------------------------------------------- */

bool box_is_broken(const struct box *b)
{
    return atomic_load(&b->broken);
}

void box_break(struct box *b)
{
    atomic_store(&b->broken, true);
    box_kill(b);
}

bool box_is_touched(const struct box *b)
{
    return atomic_load(&b->touched);
}

void box_touch(struct box *b)
{
    atomic_store(&b->touched, true);
}

uint64_t box_created_ms(const struct box *b)
{
    return b->created_ms;
}

uint32_t box_slot(const struct box *b)
{
    return b->slot;
}

const struct warden_usage *box_usage_base(const struct box *b)
{
    return &b->base;
}

void box_usage_set_base(struct box *b, const struct warden_usage *usage)
{
    b->base = *usage;
}

bool box_usage_so_far(const struct box *b, struct warden_usage *ret,
                      uint64_t *ret_memory)
{
    *ret = (struct warden_usage){.alive = true};
    if (atomic_load(&b->broken) || meters_read(&b->meters, false, ret) < 0)
        return false;
    if (meters_read_memory(&b->meters, ret_memory) < 0)
        *ret_memory = 0;
    return true;
}

bool box_used_cpu(const struct box *b, uint64_t ns)
{
    struct warden_usage now = {.alive = true};

    return meters_read(&b->meters, false, &now) < 0 ||
           now.cpu_ns >= b->base.cpu_ns + ns;
}

bool box_has_leftovers(const struct box *b)
{
    return b->base.processes >
           b->alone + box_helpers_rest(b) + box_points_alive(b);
}

bool box_is_background(const struct box *b)
{
    return b->background;
}

void box_count_add(struct box_count *c, int delta)
{
    for (; c; c = c->parent)
        atomic_fetch_add(&c->boxes, (unsigned)delta);
}

void box_count_in(struct box *b, struct box_count *c)
{
    struct box_count *was = atomic_exchange(&b->counted_in, c);

    box_count_add(was, -1);
    box_count_add(c, 1);
}

/* ---- events of pid 1 ---------------------------------------------------- */

int box_events_fd(const struct box *b)
{
    return b->events;
}

int box_event(struct box *b, struct init_event *ret)
{
    for (;;) {
        ssize_t n = wire_recv(b->events, ret, sizeof(*ret), NULL, NULL);

        if (n == -EAGAIN)
            return 0;
        if (n != (ssize_t)sizeof(*ret)) {
            atomic_store(&b->broken, true);
            return -1;
        }
        ret->step[sizeof(ret->step) - 1] = '\0';
        if (ret->type != INIT_EVENT_POINT)
            return 1;
        box_point_ended(b, ret->pid); /* callers need no such event */
    }
}

bool box_check(struct box *b)
{
    struct init_event event;
    int n;

    if (atomic_load(&b->broken))
        return false;
    while ((n = box_event(b, &event)) > 0)
        if (event.type == INIT_EVENT_KERNEL &&
            (!b->kernel_pid || event.pid == b->kernel_pid))
            b->kernel_alive = false;
        else if (event.type == INIT_EVENT_HELPER)
            box_helper_ended(b, event.pid);
    return n == 0;
}

static int wait_ready(struct box *b, struct error *err)
{
    uint64_t deadline = clock_mono_ms() + box_times.ready_ms;
    struct pollfd p = {.fd = b->events, .events = POLLIN};
    struct init_event event;
    int n;

    do
        n = poll(&p, 1, clock_left_ms(deadline));
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return box_late("a sandbox did not come up", box_times.ready_ms, err);
    if (box_event(b, &event) <= 0)
        return error_set(err, ERR_ISOLATION,
                         "a sandbox ended while it was set up");
    if (event.type == INIT_EVENT_READY)
        return 0;
    if (event.type != INIT_EVENT_FAILED ||
        !path_plain(event.step, strlen(event.step)))
        return error_set(err, ERR_GUEST, "a sandbox sent nonsense");
    return error_errno(err, ERR_ISOLATION, event.errnum,
                       "a wall could not be built (%s)", event.step);
}

/* ---- opening ------------------------------------------------------------ */

static int make_channels(struct box *b, int *ret_ctl, int *ret_events,
                         struct error *err)
{
    int ctl[2] = {-1, -1};
    int events[2] = {-1, -1};
    int rc = fd_socketpair(SOCK_SEQPACKET, ctl);

    if (rc == 0)
        rc = fd_socketpair(SOCK_SEQPACKET, events);
    b->ctl = ctl[0];
    b->events = events[0];
    *ret_ctl = ctl[1];
    *ret_events = events[1];
    for (int i = 0; i < 2 && rc == 0; i++) {
        int ends[2];

        rc = fd_pipe(ends);
        if (rc < 0)
            break;
        b->pipes[i] = ends[0];
        b->writers[i] = ends[1];
        rc = fd_set_nonblock(b->pipes[i], 1);
    }
    if (rc == 0)
        rc = fd_set_nonblock(b->ctl, 1);
    if (rc == 0)
        rc = fd_set_nonblock(b->events, 1);
    if (rc == 0 && !fd_reserve_holds(MAX(b->pipes[1], b->writers[1])))
        rc = -EMFILE;
    if (rc == 0)
        return 0;
    (void)error_errno(err, ERR_BUSY, -rc,
                      "the service has no file descriptors left for another "
                      "session");
    (void)error_hint(err, "Try again when other sessions have ended.");
    return error_retry(err, 5);
}

/* A resource that the kernel ran out of means load, not a missing wall. */
static int spawn_error(struct error *err)
{
    if (err->code == ERR_ISOLATION &&
        (err->errnum == EAGAIN || err->errnum == ENOMEM ||
         err->errnum == EMFILE || err->errnum == ENFILE)) {
        err->code = ERR_BUSY;
        (void)error_wrap(err, "the machine is overloaded");
        err->retry_after_s = LATE_RETRY_S;
    }
    return -(int)err->code;
}

/* Asks again while the zygote is still importing or the storage is being
 * made, and for a moment while no slot is free: a session that ends, or
 * another that was quicker, has it. Not when the warden does not answer. */
static int spawn_retry(struct box *b, const struct warden_spawn *want, int ctl,
                       int events, const int *layers,
                       const atomic_bool *stopping, struct error *err)
{
    uint64_t start = clock_mono_ms();

    for (;;) {
        struct warden_spawned spawned = {0};
        int rc = warden_call_spawn(b->link, want, ctl, events, layers,
                                   &spawned, &b->meters, err);
        uint64_t patience = rc == -ERR_BUSY ? box_times.slot_ms : BOX_SPAWN_MS;

        if (rc == 0) {
            b->slot = spawned.slot;
            memcpy(b->zygote, spawned.zygote, sizeof(b->zygote));
            return 0;
        }
        if ((rc != -ERR_BUSY && (rc != -ERR_UNAVAILABLE ||
                                 err->retry_after_s != WARDEN_CALL_SOON_S)) ||
            atomic_load(stopping) || clock_left_ms(start + patience) == 0)
            return spawn_error(err);
        (void)nanosleep(&(struct timespec){.tv_nsec = SPAWN_RETRY_NS}, NULL);
    }
}

const unsigned char *box_zygote(const struct box *b)
{
    return b->zygote;
}

int box_begin(struct box *b, const struct box_origin *from,
              struct box_start *ret_start, struct error *err)
{
    struct box_origin origin = *from;
    struct box_start start;
    int rc;

    if (origin.image_wait) {
        origin.image_fd = origin.image_wait(origin.image_ctx);
        if (origin.image_fd < 0)
            origin.kind = BOX_ORIGIN_FRESH;
    }
    rc = box_kernel_begin(b, &origin, &start, err);
    if (rc == 0)
        rc = box_usage(b, &b->base, err);
    if (rc < 0)
        return rc;
    b->alone = b->base.processes;
    if (ret_start)
        *ret_start = start;
    return 0;
}

int box_open(struct warden_link *link, const struct box_spec *spec,
             const atomic_bool *stopping, struct box **ret,
             struct box_start *ret_start, struct error *err)
{
    struct box *b cleanup(unref_box) = box_new(link, spec->limits);
    struct warden_spawn want = {.runtime = spec->runtime,
                                .layers = spec->layer_count,
                                .limits = *spec->limits,
                                .background = spec->background,
                                .ticket = atomic_fetch_add(&tickets, 1) + 1};
    int ctl cleanup(fd_close) = -1;
    int events cleanup(fd_close) = -1;
    int rc = make_channels(b, &ctl, &events, err);

    if (rc < 0)
        return rc;
    (void)snprintf(want.tier, sizeof(want.tier), "%s",
                   spec->tier ? spec->tier : WARDEN_TIER_DEFAULT);
    if (spec->origin.kind == BOX_ORIGIN_SNAPSHOT && spec->origin.zygote)
        memcpy(want.zygote, spec->origin.zygote, sizeof(want.zygote));
    rc = spawn_retry(b, &want, ctl, events, spec->layers, stopping, err);
    if (rc < 0)
        return rc;
    b->released = false;
    b->background = spec->background;
    fd_close(&ctl); /* ours would keep an ended sandbox looking alive */
    fd_close(&events);
    rc = wait_ready(b, err);
    if (rc == 0)
        rc = box_begin(b, &spec->origin, ret_start, err);
    if (rc < 0) {
        box_release(b);
        return rc;
    }
    *ret = take_ptr(b);
    return 0;
}
