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
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"
#include "execution/execution_int.h"

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

static void collect_end(struct collect *c, enum exec_end how)
{
    if (!c->ended)
        c->observed->end = how;
    c->ended = true;
}

/* ---- stopping it -------------------------------------------------------- */

/* Used when SIGINT and pid 1 did not end it. */
static void end_box(struct collect *c)
{
    box_break(c->box);
    collect_end(c, END_GONE);
}

/* Cells have a channel of frames: the kernel's or that of a helper. */
static bool has_channel(const struct collect *c)
{
    return c->language->how == LANGUAGE_KERNEL ||
           c->language->how == LANGUAGE_HELPER;
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
    box_helpers_lost(c->box);
    collect_end(c, END_KILLED);
}

static void interrupt(struct collect *c)
{
    struct error err;

    if (box_broker_signal(c->box,
                          INIT_SIGNAL_INTERRUPT |
                              INIT_SIGNAL_HELPER(c->language->helper),
                          BOX_KILL_MS, &err) < 0)
        end_box(c);
}

/* The process group of the shell or the helper. */
static void kill_group(struct collect *c)
{
    struct error err;

    if (box_broker_signal(c->box,
                          INIT_SIGNAL_KILL_SHELL |
                              INIT_SIGNAL_HELPER(c->language->helper),
                          BOX_KILL_MS, &err) < 0) {
        end_box(c);
        return;
    }
    c->observed->shell_killed = true;
    c->phase = COLLECT_KILLED;
    c->deadline_ms = clock_mono_ms() + BOX_KILL_MS;
}

static void stop_softly(struct collect *c)
{
    if (c->phase != COLLECT_RUNNING)
        return;
    interrupt(c);
    c->phase = COLLECT_INTERRUPTED;
    c->deadline_ms = clock_mono_ms() + GRACE_MS;
}

static void on_deadline(struct collect *c)
{
    switch (c->phase) {
    case COLLECT_RUNNING:
        c->observed->timed_out = true;
        stop_softly(c);
        break;
    case COLLECT_INTERRUPTED:
        if (c->language->how == LANGUAGE_KERNEL)
            kill_all(c);
        else
            kill_group(c);
        break;
    case COLLECT_KILLED:
        kill_all(c);
        break;
    }
}

static void on_request(struct collect *c)
{
    unsigned requests = atomic_exchange(&c->e->turn.requests, 0);
    eventfd_t count;

    (void)eventfd_read(c->runner->wake, &count); /* the bits are what counts */
    if (requests & REQUEST_ANSWER && !execution_input_deliver(c))
        collect_end(c, END_BROKEN);
    if (requests & REQUEST_END) {
        c->observed->cancelled = true;
        c->observed->reason = session_is_stopping(c->e->session)
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
    if (!c->e->turn.left(c->e->turn.left_ctx))
        return;
    c->e->turn.left = NULL;
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
        collect_end(c, END_BROKEN);
    else if (state == FRAMES_CLOSED && !c->closed_ms)
        c->closed_ms = clock_mono_ms();
    return state == FRAMES_OPEN;
}

/* The interpreter is dead; what it said before, a DONE even, is still there.
 */
static void on_interpreter_end(struct collect *c, int wait_status)
{
    bool more = true;

    for (unsigned i = 0; i < LAST_READS && more && !c->ended; i++)
        if (c->closed_ms || !heed(c, execution_frames_read(c, &more)))
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
        collect_end(c, END_GONE);
    } else if (n > 0 && event.type == INIT_EVENT_KERNEL) {
        if (!box_is_kernel(c->box, event.pid))
            return;
        box_kernel_lost(c->box);
        if (c->language->how == LANGUAGE_KERNEL)
            on_interpreter_end(c, event.wait_status);
        else
            c->observed->kernel_died = true;
    } else if (n > 0 && event.type == INIT_EVENT_HELPER) {
        if (box_helper_ended(c->box, event.pid))
            on_interpreter_end(c, event.wait_status);
    } else if (n > 0 && event.type == INIT_EVENT_SHELL && c->shell_running &&
               (!c->shell_pid || event.pid == c->shell_pid)) {
        c->observed->wait_status = event.wait_status;
        collect_end(c, END_SHELL);
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
    if (has_channel(c) && !c->closed_ms && !napping) {
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
    if (c->sched.check_ms)
        until = MIN(until, c->sched.check_ms);
    if (c->e->turn.left)
        until = MIN(until, c->look_ms);
    if (box_has_points(c->box))
        until = MIN(until, clock_mono_ms() + BOX_RELIEVE_MS);
    set_polls(c, napping, p);
    if (poll(p, AT_COUNT, clock_left_ms(until)) < 0)
        return; /* EINTR; anything else would be a defect of ours */
    if (box_has_points(c->box))
        box_points_relieve(c->box);
    session_sched_step(&c->sched);
    if (p[AT_WAKE].revents)
        on_request(c);
    if (!c->ended && c->e->turn.left && clock_left_ms(c->look_ms) == 0)
        look_for_client(c);
    /* Reading frames reads the pipes first. */
    if (!c->ended && !(p[AT_FRAMES].revents & POLLIN) &&
        (p[AT_OUT].revents || p[AT_ERR].revents))
        execution_output_drain(c, READ_MOST);
    if (!c->ended && p[AT_EVENTS].revents)
        on_event(c);
    if (!c->ended && p[AT_FRAMES].revents & POLLOUT)
        (void)heed(c, execution_frames_flush(c));
    if (!c->ended && p[AT_FRAMES].revents & ~POLLOUT)
        (void)heed(c, execution_frames_read(c, &more));
    if (!c->ended && c->closed_ms &&
        clock_left_ms(c->closed_ms + CLOSED_MS) == 0)
        collect_end(c, END_CLOSED);
    if (!c->ended && clock_left_ms(c->deadline_ms) == 0)
        on_deadline(c);
}

/* ---- beginning ---------------------------------------------------------- */

static bool tell_surroundings(struct collect *c)
{
    struct buf lines cleanup(buf_done) = {0};

    box_guest_env_take(c->box, &lines);
    return lines.len == 0 ||
           heed(c, execution_frames_send(c, KERNEL_ENVIRONMENT, lines.data,
                                         lines.len));
}

/* Output of threads of an earlier cell comes first. */
static void begin_cell(struct collect *c)
{
    struct buf *pending = box_frames_buffer(c->box);
    bool more = true;

    if (pending->len == 0 && pending->cap == 0) {
        *pending = c->runner->frames;
        buf_init(&c->runner->frames);
    }
    for (unsigned i = 0; i < LAST_READS && more && !c->ended; i++)
        if (!heed(c, execution_frames_read(c, &more)))
            return;
    if (!tell_surroundings(c))
        return;
    if (c->e->input &&
        !heed(c, execution_frames_send(c, KERNEL_KEYBOARD, NULL, 0)))
        return;
    c->in_cell = true;
    box_cell_begin(c->box);
    (void)heed(c, execution_frames_send(c, KERNEL_EXECUTE, c->e->code,
                                        c->e->code_len));
}

static int code_memfd(const char *code, size_t len)
{
    int fd cleanup(fd_close) =
        memfd_create("code", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || fd_write_all(fd, code, len) < 0 ||
        lseek(fd, 0, SEEK_SET) < 0 ||
        fcntl(fd, F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return -1;
    return take_fd(fd);
}

/* A helper that does not run yet is started, and not waited for: an error of
 * it, a timeout or a cancellation ends this execution like any other. */
static void begin_helper(struct collect *c)
{
    uint32_t number = c->language->helper;
    struct broker_reply reply = {0};
    struct error err;
    size_t len;
    const char *text = language_driver(c->observed->language, &len);
    int driver cleanup(fd_close) = -1;

    if (!box_helper_alive(c->box, number)) {
        driver = code_memfd(text, len);
        if (driver < 0) {
            c->observed->reason = "no memory for the interpreter's driver";
            collect_end(c, END_UNMADE);
            return;
        }
        if (box_helper_start(c->box, number, c->language->command, driver,
                             &reply, &err) < 0) {
            end_box(c);
            return;
        }
        if (reply.errnum) { /* too many processes already, most likely */
            c->observed->wait_status = SHELL_UNSTARTED;
            collect_end(c, END_KERNEL);
            return;
        }
    }
    box_helper_use(c->box, number);
    begin_cell(c);
}

/* A command; or a program, whose source the command of its language compiles
 * and runs. */
static void begin_shell(struct collect *c)
{
    bool compiled = c->language->how == LANGUAGE_COMPILED;
    const char *script = compiled ? c->language->command : c->e->code;
    int code cleanup(fd_close) = code_memfd(
        script, compiled ? strlen(c->language->command) : c->e->code_len);
    int source cleanup(fd_close) =
        compiled ? code_memfd(c->e->code, c->e->code_len) : -1;
    struct broker_reply reply = {0};
    struct error err;

    if (code < 0 || (compiled && source < 0)) {
        c->observed->reason = "no memory for the command";
        collect_end(c, END_UNMADE);
        return;
    }
    if (box_shell_start(c->box, code, source, compiled || c->e->clean, &reply,
                        &err) < 0) {
        end_box(c);
        return;
    }
    if (reply.errnum) { /* too many processes already, most likely */
        c->observed->wait_status = SHELL_UNSTARTED;
        collect_end(c, END_SHELL);
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
        execution_output_drain(c, FINAL_MOST);
    execution_output_flush(c);
    give_back_buffer(c);
    box_helper_use(c->box, 0);
    buf_done(&c->out);
    mutex_lock(&c->e->lock);
    info->truncated_stdout = c->streams[0].truncated;
    info->truncated_stderr = c->streams[1].truncated;
    info->truncated_displays = c->truncated_displays;
    for (int i = 0; i < 2; i++) {
        const struct stream *s = &c->streams[i];

        info->output[i].bytes = s->written;
        if (!s->last_len || c->e->output_tails[i])
            continue;
        c->e->output_tails[i] = xmalloc(s->last_len);
        memcpy(c->e->output_tails[i], s->last, s->last_len);
        info->output[i].tail = c->e->output_tails[i];
        info->output[i].tail_len = s->last_len;
    }
    mutex_unlock(&c->e->lock);
}

void execution_collect(struct collect *c)
{
    uint64_t started = clock_mono_ms();

    c->language = language_get(c->observed->language);
    c->streams[0] =
        (struct stream){.type = EVENT_STDOUT, .fd = box_pipe_fd(c->box, 0)};
    c->streams[1] =
        (struct stream){.type = EVENT_STDERR, .fd = box_pipe_fd(c->box, 1)};
    c->observed->timeout_s = c->e->timeout_s;
    c->deadline_ms = started + c->e->timeout_s * 1000ull;
    c->look_ms = started + LEFT_EVERY_MS;
    if (c->language->how == LANGUAGE_KERNEL)
        begin_cell(c);
    else if (c->language->how == LANGUAGE_HELPER)
        begin_helper(c);
    else
        begin_shell(c);
    while (!c->ended)
        step(c);
    c->observed->wall_ms = clock_mono_ms() - started;
    finish(c);
}
