/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One cell or shell command from its start to its end: poll its channels,
 * publish what it says, stop it when asked or when its time is up. Runs in
 * gloveboxd on the execution's thread, with the session's turn but no lock.
 *
 * Stopping has three steps, each with its own deadline: SIGINT, so that a
 * slow cell keeps its variables; SIGKILL by pid 1 to what ignored that; and,
 * when not even pid 1 answers, the warden ends the sandbox.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"
#include "session/session_int.h"

#define GRACE_MS 2000u /* SIGINT to SIGKILL */
#define CLOSED_MS 300u /* closed channel to "it lives" */
#define READ_MOST (256u << 10)
#define FINAL_MOST (1u << 20)
#define LAST_READS 512u   /* of a dead kernel's channel */
#define CALM_OUTPUTS 512u /* output events before they are paced */
#define PACE_MS 20u
#define SHELL_UNSTARTED (126 << 8) /* wait status: found, but not run */

enum {
    AT_WAKE,
    AT_EVENTS,
    AT_FRAMES,
    AT_OUT,
    AT_ERR,
    AT_COUNT
};

static void end(struct collect *c, enum exec_end how)
{
    if (!c->ended)
        c->observed->end = how;
    c->ended = true;
}

/* ---- stopping it -------------------------------------------------------- */

/* Neither SIGINT nor pid 1 helped. */
static void end_box(struct collect *c)
{
    box_break(c->box);
    end(c, END_GONE);
}

static void kill_all(struct collect *c)
{
    struct error err;

    if (box_broker_signal(c->box, INIT_SIGNAL_KILL_ALL, BOX_KILL_MS, &err) <
        0) {
        end_box(c);
        return;
    }
    box_kernel_lost(c->box);
    end(c, END_KILLED);
}

static void interrupt(struct collect *c)
{
    struct error err;

    if (box_broker_signal(c->box, INIT_SIGNAL_INTERRUPT, BOX_KILL_MS, &err) <
        0)
        end_box(c);
}

static void kill_shell(struct collect *c)
{
    struct error err;

    if (box_broker_signal(c->box, INIT_SIGNAL_KILL_SHELL, BOX_KILL_MS, &err) <
        0) {
        end_box(c);
        return;
    }
    c->observed->shell_killed = true;
    c->phase = PHASE_KILLED;
    c->deadline_ms = clock_mono_ms() + BOX_KILL_MS;
}

static void stop_softly(struct collect *c)
{
    if (c->phase != PHASE_RUNNING)
        return;
    interrupt(c);
    c->phase = PHASE_INTERRUPTED;
    c->deadline_ms = clock_mono_ms() + GRACE_MS;
}

static void on_deadline(struct collect *c)
{
    switch (c->phase) {
    case PHASE_RUNNING:
        c->observed->timed_out = true;
        stop_softly(c);
        break;
    case PHASE_INTERRUPTED:
        if (c->observed->language == EXEC_SHELL)
            kill_shell(c);
        else
            kill_all(c);
        break;
    case PHASE_KILLED:
        kill_all(c);
        break;
    }
}

static void on_request(struct collect *c)
{
    unsigned requests = atomic_exchange(&c->e->requests, 0);
    eventfd_t count;

    (void)eventfd_read(c->runner->wake, &count); /* the bits are what counts */
    if (requests & REQUEST_END) {
        c->observed->cancelled = true;
        c->observed->reason = atomic_load(&c->e->session->m->stopping)
                                  ? "the service was stopped while it ran"
                                  : "the session was deleted while it ran";
        kill_all(c); /* pid 1 stays: it hands out what was written */
    } else if (requests & REQUEST_KILL) {
        c->observed->cancelled = true;
        c->observed->reason = "the session was reset while it ran";
        kill_all(c);
    } else if (requests & REQUEST_CANCEL) {
        c->observed->cancelled = !c->observed->timed_out;
        stop_softly(c);
    } else if (requests & REQUEST_INTERRUPT) {
        c->observed->interrupted = true;
        interrupt(c);
    }
}

/* Nobody would read the answer. */
static void look_for_client(struct collect *c)
{
    c->look_ms = clock_mono_ms() + LEFT_EVERY_MS;
    if (!c->e->left(c->e->left_ctx))
        return;
    c->e->left = NULL;
    if (c->observed->timed_out || c->observed->cancelled)
        return; /* on its way already */
    c->observed->cancelled = true;
    c->observed->reason = "the client that waited for it went away";
    stop_softly(c);
}

/* ---- listening ---------------------------------------------------------- */

static bool heed(struct collect *c, enum frames_state state)
{
    if (state == FRAMES_NONSENSE)
        end(c, END_BROKEN);
    else if (state == FRAMES_CLOSED && !c->closed_ms)
        c->closed_ms = clock_mono_ms();
    return state == FRAMES_OPEN;
}

/* The kernel is dead; what it said before, a DONE even, is still there. */
static void on_kernel_end(struct collect *c, int wait_status)
{
    bool more = true;

    box_kernel_lost(c->box);
    if (c->observed->language == EXEC_SHELL) {
        c->observed->kernel_died = true;
        return;
    }
    for (unsigned i = 0; i < LAST_READS && more && !c->ended; i++)
        if (c->closed_ms || !heed(c, session_frames_read(c, &more)))
            break;
    /* Garbage it left behind does not hide how it ended. */
    if (!c->ended || c->observed->end == END_BROKEN) {
        c->observed->wait_status = wait_status;
        c->observed->end = END_KERNEL;
        c->ended = true;
    }
}

static void on_event(struct collect *c)
{
    struct init_event event;
    int n = box_event(c->box, &event);

    if (n < 0) {
        end(c, END_GONE);
    } else if (n > 0 && event.type == INIT_EVENT_KERNEL) {
        if (box_is_kernel(c->box, event.pid))
            on_kernel_end(c, event.wait_status);
    } else if (n > 0 && event.type == INIT_EVENT_SHELL && c->shell_running &&
               (!c->shell_pid || event.pid == c->shell_pid)) {
        c->observed->wait_status = event.wait_status;
        end(c, END_SHELL);
    }
}

/* Many tiny writes are gathered for a moment once there were many. */
static void pace(struct collect *c)
{
    uint64_t next = c->last_output_ms + PACE_MS;

    if (c->outputs > CALM_OUTPUTS && next > c->nap_ms)
        c->nap_ms = next;
}

static void set_polls(const struct collect *c, bool napping,
                      struct pollfd p[AT_COUNT])
{
    bool sending = c->out.len > c->out_pos;

    for (int i = 0; i < AT_COUNT; i++)
        p[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    p[AT_WAKE].fd = c->runner->wake;
    p[AT_EVENTS].fd = box_events_fd(c->box);
    if (!napping) {
        p[AT_OUT].fd = c->streams[0].fd;
        p[AT_ERR].fd = c->streams[1].fd;
    }
    if (c->observed->language == EXEC_PYTHON && !c->closed_ms && !napping) {
        p[AT_FRAMES].fd = box_frames_fd(c->box);
        p[AT_FRAMES].events = (short)(POLLIN | (sending ? POLLOUT : 0));
    }
}

static void step(struct collect *c)
{
    uint64_t until = c->deadline_ms;
    struct pollfd p[AT_COUNT];
    bool napping;
    bool more;

    pace(c);
    napping = clock_mono_ms() < c->nap_ms;
    if (napping)
        until = MIN(until, c->nap_ms);
    if (c->closed_ms)
        until = MIN(until, c->closed_ms + CLOSED_MS);
    if (c->background_ms)
        until = MIN(until, c->background_ms);
    if (c->e->left)
        until = MIN(until, c->look_ms);
    set_polls(c, napping, p);
    if (poll(p, AT_COUNT, clock_left_ms(until)) < 0)
        return; /* EINTR; anything else would be a defect of ours */
    session_sched_step(c);
    if (p[AT_WAKE].revents)
        on_request(c);
    if (!c->ended && c->e->left && clock_left_ms(c->look_ms) == 0)
        look_for_client(c);
    /* Reading frames reads the pipes first. */
    if (!c->ended && !(p[AT_FRAMES].revents & POLLIN) &&
        (p[AT_OUT].revents || p[AT_ERR].revents))
        session_output_drain(c, READ_MOST);
    if (!c->ended && p[AT_EVENTS].revents)
        on_event(c);
    if (!c->ended && p[AT_FRAMES].revents & POLLOUT)
        (void)heed(c, session_frames_flush(c));
    if (!c->ended && p[AT_FRAMES].revents & ~POLLOUT)
        (void)heed(c, session_frames_read(c, &more));
    if (!c->ended && c->closed_ms &&
        clock_left_ms(c->closed_ms + CLOSED_MS) == 0)
        end(c, END_CLOSED);
    if (!c->ended && clock_left_ms(c->deadline_ms) == 0)
        on_deadline(c);
}

/* ---- beginning ---------------------------------------------------------- */

static bool tell_surroundings(struct collect *c)
{
    struct buf lines cleanup(buf_done) = {0};

    box_guest_env_take(c->box, &lines);
    return lines.len == 0 ||
           heed(c, session_frames_send(c, KERNEL_ENVIRONMENT, lines.data,
                                       lines.len));
}

/* What a thread of an earlier cell said meanwhile comes first. */
static void begin_cell(struct collect *c)
{
    struct buf *pending = box_frames_buffer(c->box);
    bool more = true;

    if (pending->len == 0 && pending->cap == 0) {
        *pending = c->runner->frames;
        buf_init(&c->runner->frames);
    }
    for (unsigned i = 0; i < LAST_READS && more && !c->ended; i++)
        if (!heed(c, session_frames_read(c, &more)))
            return;
    if (!tell_surroundings(c))
        return;
    c->in_cell = true;
    box_cell_begin(c->box);
    (void)heed(
        c, session_frames_send(c, KERNEL_EXECUTE, c->e->code, c->e->code_len));
}

static int code_memfd(const struct execution *e)
{
    int fd cleanup(fd_close) =
        memfd_create("shell", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || fd_write_all(fd, e->code, e->code_len) < 0 ||
        lseek(fd, 0, SEEK_SET) < 0 ||
        fcntl(fd, F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return -1;
    return take_fd(fd);
}

static void begin_shell(struct collect *c)
{
    int code cleanup(fd_close) = code_memfd(c->e);
    struct broker_reply reply = {0};
    struct error err;

    if (code < 0) {
        c->observed->reason = "no memory for the command";
        end(c, END_UNMADE);
        return;
    }
    if (box_shell_start(c->box, code, &reply, &err) < 0) {
        end_box(c);
        return;
    }
    if (reply.errnum) { /* too many processes already, most likely */
        c->observed->wait_status = SHELL_UNSTARTED;
        end(c, END_SHELL);
        return;
    }
    c->shell_running = true;
    c->shell_pid = reply.arg;
}

/* ---- ending ------------------------------------------------------------- */

static void give_back_buffer(struct collect *c)
{
    struct buf *pending = box_frames_buffer(c->box);

    if (pending->len)
        return;
    if (pending->cap <= 4 * SESSION_IO_SIZE && !c->runner->frames.cap) {
        c->runner->frames = *pending;
        buf_init(pending);
    } else {
        buf_done(pending);
    }
}

static void finish(struct collect *c)
{
    struct exec_info *info = &c->e->info;

    if (c->observed->end != END_DONE) /* DONE came with the pipes read empty */
        session_output_drain(c, FINAL_MOST);
    session_output_flush(c);
    give_back_buffer(c);
    buf_done(&c->out);
    mutex_lock(&c->e->lock);
    info->truncated_stdout = c->streams[0].truncated;
    info->truncated_stderr = c->streams[1].truncated;
    info->truncated_displays = c->truncated_displays;
    mutex_unlock(&c->e->lock);
}

void session_collect(struct collect *c)
{
    uint64_t started = clock_mono_ms();

    c->streams[0] =
        (struct stream){.type = EVENT_STDOUT, .fd = box_pipe_fd(c->box, 0)};
    c->streams[1] =
        (struct stream){.type = EVENT_STDERR, .fd = box_pipe_fd(c->box, 1)};
    c->observed->timeout_s = c->e->timeout_s;
    c->deadline_ms = started + c->e->timeout_s * 1000ull;
    c->look_ms = started + LEFT_EVERY_MS;
    if (c->observed->language == EXEC_SHELL)
        begin_shell(c);
    else
        begin_cell(c);
    while (!c->ended)
        step(c);
    c->observed->wall_ms = clock_mono_ms() - started;
    finish(c);
}
