/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Python interface of the extension, built for the stable ABI so that one
 * build serves every runtime from Python 3.9 on. zygote_serve() is called
 * once by driver/glovebox_zygote.py; the rest by the kernel that it returns
 * in. All of it runs with the session's rights.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "kernel/image.h"
#include "kernel/kernel_int.h"
#include "wire/wire.h"
#include "wire/zygote_msg.h"

#define SYNC_MS 100
#define SIGNAL_LOOK_MS 100
/* recv() returns it with the grant when the process continues from an image;
 * no frame has this type. */
#define MODULE_WOKEN 255u

/* Of this kernel process; the driver holds a lock around sync(). */
static unsigned syncs_sent, syncs_seen;

static void mask_interrupt(int how)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)pthread_sigmask(how, &set, NULL);
}

static PyObject *describe_grant(const struct kernel_seat *seat)
{
    return Py_BuildValue("{s:I,s:K,s:s}", "cores",
                         (unsigned)seat->grant.limits.cores, "memory_bytes",
                         (unsigned long long)seat->grant.limits.memory_bytes,
                         "home", SANDBOX_HOME);
}

/* From here on we are a kernel: pid 2 or a successor of it, sealed. */
static PyObject *become_kernel(const struct kernel_seat *seat)
{
    if (seat->image >= 0)
        memory_wake(seat);
    mask_interrupt(SIG_BLOCK);
    PyOS_AfterFork_Child();
    if (read_trace_start() < 0)
        return NULL;
    return describe_grant(seat);
}

static PyObject *mod_zygote_serve(PyObject *self, PyObject *args)
{
    struct zygote_reply ready = {.type = ZYGOTE_READY};
    struct kernel_seat seat;
    int sock, r, fds[2] = {-1, -1};

    (void)self;
    if (!PyArg_ParseTuple(args, "i", &sock))
        return NULL;
    /* Fork hooks come in pairs, but the parent's second one never runs, since
     * the zygote clones from C. Running them once now makes their writes part
     * of the frozen heap. */
    PyOS_BeforeFork();
    merge_library_mappings();
    fill_free_blocks();
    r = image_zygote_freeze(&fds[0], &fds[1]);
    /* From here on also in a process that was revived. */
    sandbox_proc_learn();
    if (r < 0)
        log_event(LOG_WARN, "heap_not_frozen, ignoring", "errno",
                  strerrorname_np(-r), NULL);
    else
        r = image_zygote_learn();
    if (r < 0)
        log_event(LOG_WARN, "no_memory_images, ignoring", "errno",
                  strerrorname_np(-r), NULL);
    else
        memcpy(ready.id, image_zygote_ids()->zygote, sizeof(ready.id));
    ready.pid = getpid();
    zygote_serve(sock, &ready, fds, r == 0 && fds[0] >= 0 ? 2 : 0, &seat);
    return become_kernel(&seat);
}

/* The same for a guest, where no process clones another across a wall: memory
 * need not be arranged for it. */
static PyObject *mod_guest_serve(PyObject *self, PyObject *unused)
{
    struct kernel_seat seat;

    (void)self;
    (void)unused;
    PyOS_BeforeFork();
    guest_serve(&seat);
    return become_kernel(&seat);
}

static PyObject *fail_with(int errnum)
{
    errno = errnum;
    return PyErr_SetFromErrno(PyExc_OSError);
}

static bool skip_payload(size_t len)
{
    char sink[4096];

    while (len > 0) {
        size_t part = MIN(len, sizeof(sink));

        if (fd_read_all(KERNEL_FRAMES_FD, sink, part) != (ssize_t)part)
            return false;
        len -= part;
    }
    return true;
}

/* Like fd_read_all, and takes a descriptor that comes with the bytes. */
static ssize_t read_with_fd(void *to, size_t len, int *ret_fd)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    size_t done = 0;

    while (done < len) {
        struct iovec iov = {(char *)to + done, len - done};
        struct msghdr msg = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
        ssize_t n = recvmsg(KERNEL_FRAMES_FD, &msg, MSG_CMSG_CLOEXEC);
        struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            fd_close(ret_fd);
            memcpy(ret_fd, CMSG_DATA(c), sizeof(*ret_fd));
        }
        done += (size_t)n;
    }
    return (ssize_t)done;
}

/* Reads the next frame's head and skips late answers to SYNC and INPUT. */
static ssize_t read_head(struct kernel_frame *ret, int *ret_fd)
{
    ssize_t n;

    for (;;) {
        n = read_with_fd(ret, sizeof(*ret), ret_fd);
        if (n != (ssize_t)sizeof(*ret))
            return n;
        if (ret->type == KERNEL_SYNCED)
            syncs_seen++;
        else if (ret->type != KERNEL_ANSWER)
            return n;
        else if (!skip_payload(ret->len))
            return 0;
    }
}

/* A KERNEL_MEMORY whose head was read. NULL without an exception: read on.
 * Otherwise the frame that the driver sees. */
static PyObject *serve_memory(const struct kernel_frame *head, int *fd)
{
    struct kernel_memory request;
    struct kernel_seat seat;
    enum memory_served served = MEMORY_BROKEN;

    if (head->len == sizeof(request) &&
        fd_read_all(KERNEL_FRAMES_FD, &request, sizeof(request)) ==
            (ssize_t)sizeof(request))
        served = memory_serve(&request, *fd);
    if (served == MEMORY_SERVED) {
        fd_close(fd);
        return NULL;
    }
    /* In a copy or a woken process, *fd is a number of the past. Only a copy
     * may have it; it came with no descriptor. */
    *fd = -1;
    if (served == MEMORY_BROKEN) {
        PyErr_SetNone(PyExc_EOFError);
        return NULL;
    }
    syncs_sent = syncs_seen = 0;
    if (served == MEMORY_CONTINUED)
        return NULL;
    image_wake_message(&seat, sizeof(seat));
    return Py_BuildValue("(IN)", MODULE_WOKEN, describe_grant(&seat));
}

static PyObject *mod_recv(PyObject *self, PyObject *unused)
{
    struct kernel_frame head;
    PyObject *payload;
    int fd = -1;
    ssize_t n;

    (void)self;
    (void)unused;
    for (;;) {
        Py_BEGIN_ALLOW_THREADS
        n = read_head(&head, &fd);
        Py_END_ALLOW_THREADS
        if (n != (ssize_t)sizeof(head) || head.type != KERNEL_MEMORY)
            break;
        payload = serve_memory(&head, &fd);
        if (payload || PyErr_Occurred())
            return payload;
    }
    fd_close(&fd); /* came with a frame that has none */
    if (n < 0)
        return fail_with((int)-n);
    if (n != (ssize_t)sizeof(head) || head.len > KERNEL_FRAME_MAX) {
        PyErr_SetNone(PyExc_EOFError);
        return NULL;
    }
    payload = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)head.len);
    if (!payload)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    n = fd_read_all(KERNEL_FRAMES_FD, PyBytes_AsString(payload), head.len);
    Py_END_ALLOW_THREADS
    if (n != (ssize_t)head.len) {
        Py_DECREF(payload);
        PyErr_SetNone(PyExc_EOFError);
        return NULL;
    }
    return Py_BuildValue("(IN)", (unsigned)head.type, payload);
}

static PyObject *mod_send(PyObject *self, PyObject *args)
{
    unsigned type;
    const char *bytes;
    Py_ssize_t len;
    int r;

    (void)self;
    if (!PyArg_ParseTuple(args, "Iy#", &type, &bytes, &len))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    r = wire_frame_send(KERNEL_FRAMES_FD, type, bytes, (size_t)len);
    Py_END_ALLOW_THREADS
    if (r < 0)
        return fail_with(-r);
    Py_RETURN_NONE;
}

/* Waits for the SYNCED of the last SYNC, with a deadline: a busy daemon must
 * not stop the session's code. */
static void wait_synced(void)
{
    uint64_t deadline = clock_mono_ms() + SYNC_MS;
    struct pollfd p = {.fd = KERNEL_FRAMES_FD, .events = POLLIN};
    struct kernel_frame head;

    while ((int)(syncs_sent - syncs_seen) > 0 && clock_left_ms(deadline) > 0)
        if (poll(&p, 1, clock_left_ms(deadline)) == 1) {
            if (fd_read_all(KERNEL_FRAMES_FD, &head, sizeof(head)) !=
                (ssize_t)sizeof(head))
                return; /* the daemon is gone; recv() reports it */
            if (head.type == KERNEL_SYNCED)
                syncs_seen++;
            else if (!skip_payload(head.len))
                return;
        }
}

static PyObject *mod_sync(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    if (wire_frame_send(KERNEL_FRAMES_FD, KERNEL_SYNC, "", 0) == 0) {
        syncs_sent++;
        wait_synced();
    }
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* The payload of an ANSWER; NULL without an exception: of an older INPUT. */
static PyObject *read_answer(uint32_t number, size_t len)
{
    PyObject *payload = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)len);
    struct kernel_input head;
    ssize_t n;

    if (!payload)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    n = fd_read_all(KERNEL_FRAMES_FD, PyBytes_AsString(payload), len);
    Py_END_ALLOW_THREADS
    if (n != (ssize_t)len || len < sizeof(head)) {
        PyErr_SetNone(PyExc_EOFError);
        Py_CLEAR(payload);
        return NULL;
    }
    memcpy(&head, PyBytes_AsString(payload), sizeof(head));
    if (head.number != number)
        Py_CLEAR(payload);
    return payload;
}

/* Waits until there is something to read; -1: an exception was raised. */
static int wait_readable(void)
{
    struct pollfd p = {.fd = KERNEL_FRAMES_FD, .events = POLLIN};
    int n;

    do {
        /* Another thread may take the signal: look now and then. */
        Py_BEGIN_ALLOW_THREADS
        n = poll(&p, 1, SIGNAL_LOOK_MS);
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals() < 0)
            return -1;
    } while (n == 0 || (n < 0 && errno == EINTR));
    if (n < 0)
        (void)fail_with(errno);
    return n < 0 ? -1 : 0;
}

/* ask(number, payload): sends INPUT and waits for its ANSWER, as long as it
 * takes. The driver holds its lock, so no sync() reads at the same time. */
static PyObject *mod_ask(PyObject *self, PyObject *args)
{
    struct kernel_frame head;
    PyObject *answer = NULL;
    unsigned number;
    const char *bytes;
    Py_ssize_t len;
    int r;

    (void)self;
    if (!PyArg_ParseTuple(args, "Iy#", &number, &bytes, &len))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    r = wire_frame_send(KERNEL_FRAMES_FD, KERNEL_INPUT, bytes, (size_t)len);
    Py_END_ALLOW_THREADS
    if (r < 0)
        return fail_with(-r);
    while (!answer) {
        if (wait_readable() < 0)
            return NULL;
        if (fd_read_all(KERNEL_FRAMES_FD, &head, sizeof(head)) !=
                (ssize_t)sizeof(head) ||
            (head.type != KERNEL_SYNCED && head.type != KERNEL_ANSWER) ||
            head.len > KERNEL_FRAME_MAX) {
            PyErr_SetNone(PyExc_EOFError);
            return NULL;
        }
        if (head.type == KERNEL_SYNCED)
            syncs_seen++;
        else
            answer = read_answer(number, head.len);
        if (PyErr_Occurred())
            return NULL;
    }
    return answer;
}

static PyObject *mod_run_begin(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    mask_interrupt(SIG_UNBLOCK);
    Py_RETURN_NONE;
}

/* An interrupt that arrived after the cell must not hit the next one. */
static PyObject *mod_run_end(PyObject *self, PyObject *unused)
{
    struct timespec now = {0, 0};
    sigset_t set;

    (void)self;
    (void)unused;
    mask_interrupt(SIG_BLOCK);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    while (sigtimedwait(&set, NULL, &now) > 0)
        ;
    Py_RETURN_NONE;
}

/*
 * Marks the objects of a list as never to be freed, by giving them the
 * reference count of None, which CPython 3.12 to 3.14 keep in the first 32
 * bits and never write to: reading such an object no longer copies its page in
 * every session. What follows is 0 before 3.14 and has flags from then on. The
 * caller has made sure of the version.
 */
static PyObject *mod_immortalize(PyObject *self, PyObject *list)
{
    PyObject *changed = PyList_New(0);
    Py_ssize_t len = PyList_Size(list);
    uint32_t immortal;

    (void)self;
    memcpy(&immortal, (const void *)Py_None, sizeof(immortal));
    for (Py_ssize_t i = 0; changed && i < len; i++) {
        PyObject *o = PyList_GetItem(list, i); /* borrowed */

        if (memcmp(o, &immortal, sizeof(immortal)) == 0)
            continue;
        memcpy((void *)o, &immortal, sizeof(immortal));
        if (PyList_Append(changed, o) < 0)
            Py_CLEAR(changed);
    }
    if (len < 0)
        Py_CLEAR(changed); /* not a list; that is the error */
    return changed;
}

static PyObject *mod_reads(PyObject *self, PyObject *unused)
{
    char *payload cleanup(mem_free) = NULL;
    size_t len = read_trace_take(&payload);

    (void)self;
    (void)unused;
    if (len == 0)
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize(payload, (Py_ssize_t)len);
}

static PyMethodDef methods[] = {
    {"zygote_serve", mod_zygote_serve, METH_VARARGS,
     "Serve the warden; returns the grant, in a kernel."},
    {"guest_serve", mod_guest_serve, METH_NOARGS,
     "Serve the supervisor of a guest; returns the grant, in a kernel."},
    {"immortalize", mod_immortalize, METH_O,
     "Never free the objects of this list; returns those that were mortal."},
    {"recv", mod_recv, METH_NOARGS, "The next frame: (type, payload)."},
    {"send", mod_send, METH_VARARGS, "Send one frame: type, payload."},
    {"sync", mod_sync, METH_NOARGS, "Wait until the pipes have been read."},
    {"ask", mod_ask, METH_VARARGS,
     "Send an INPUT frame and wait for the payload of its ANSWER."},
    {"reads", mod_reads, METH_NOARGS,
     "The payload of a READS frame, or None when nothing was read."},
    {"run_begin", mod_run_begin, METH_NOARGS, "Let interrupts through."},
    {"run_end", mod_run_end, METH_NOARGS, "Hold interrupts back."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_glovebox",
    .m_doc = "The C half of a Glovebox session.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__glovebox(void);

PyMODINIT_FUNC PyInit__glovebox(void)
{
    return PyModule_Create(&definition);
}
