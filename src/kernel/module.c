/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Python face of the extension, built for the stable ABI so that one
 * build serves every runtime from Python 3.9 on. zygote_serve() is called
 * once by driver/glovebox_zygote.py; the rest by the kernel that it returns
 * in. Everything here runs with the session's own rights.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "kernel/kernel_int.h"
#include "wire/wire.h"

#define SYNC_MS 100

/* Of this kernel process; the driver holds a lock around sync(). */
static unsigned syncs_sent, syncs_seen;

static void mask_interrupt(int how)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)pthread_sigmask(how, &set, NULL);
}

static PyObject *mod_zygote_serve(PyObject *self, PyObject *args)
{
    struct kernel_seat seat;
    size_t frozen = 0;
    int sock, r;

    (void)self;
    if (!PyArg_ParseTuple(args, "i", &sock))
        return NULL;
    sandbox_proc_learn();
    /* The fork hooks come in pairs, but the second half of the parent's
     * never runs: this process only ever clones, from C. Run once now, what
     * they write is frozen with the rest. */
    PyOS_BeforeFork();
    merge_library_mappings();
    fill_free_blocks();
    r = freeze_heap(&frozen);
    if (r < 0)
        log_event(LOG_WARN, "heap_not_frozen, ignoring", "errno",
                  strerrorname_np(-r), NULL);
    zygote_serve(sock, &seat);

    /* From here on we are a kernel: pid 2 or a successor of it, sealed. */
    mask_interrupt(SIG_BLOCK);
    PyOS_AfterFork_Child();
    if (read_trace_start() < 0)
        return NULL;
    return Py_BuildValue("{s:I,s:K,s:s}", "cores",
                         (unsigned)seat.grant.limits.cores, "memory_bytes",
                         (unsigned long long)seat.grant.limits.memory_bytes,
                         "home", SANDBOX_HOME);
}

static PyObject *fail_with(int errnum)
{
    errno = errnum;
    return PyErr_SetFromErrno(PyExc_OSError);
}

/* The next frame's head, past answers to a SYNC that came too late for it. */
static ssize_t read_head(struct kernel_frame *ret)
{
    ssize_t n;

    do {
        n = fd_read_all(KERNEL_FRAMES_FD, ret, sizeof(*ret));
        if (n == (ssize_t)sizeof(*ret) && ret->type == KERNEL_SYNCED)
            syncs_seen++;
    } while (n == (ssize_t)sizeof(*ret) && ret->type == KERNEL_SYNCED);
    return n;
}

static PyObject *mod_recv(PyObject *self, PyObject *unused)
{
    struct kernel_frame head;
    PyObject *payload;
    ssize_t n;

    (void)self;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    n = read_head(&head);
    Py_END_ALLOW_THREADS
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

/* Waits for the SYNCED that answers the last SYNC, but not for ever: a
 * daemon that is busy must not stop the session's code. */
static void wait_synced(void)
{
    uint64_t deadline = clock_mono_ms() + SYNC_MS;
    struct pollfd p = {.fd = KERNEL_FRAMES_FD, .events = POLLIN};
    struct kernel_frame head;

    while (syncs_seen != syncs_sent && clock_left_ms(deadline) > 0)
        if (poll(&p, 1, clock_left_ms(deadline)) == 1) {
            if (fd_read_all(KERNEL_FRAMES_FD, &head, sizeof(head)) !=
                (ssize_t)sizeof(head))
                return; /* the daemon is gone, which recv() finds out */
            syncs_seen++;
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

static PyObject *mod_run_begin(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    mask_interrupt(SIG_UNBLOCK);
    Py_RETURN_NONE;
}

/* An interrupt that came too late for the cell must not hit the next one. */
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
 * reference count of None, which CPython 3.12 and 3.13 keep in the first word
 * and never write to: reading such an object no longer copies its page in
 * every session. The caller has made sure of the version.
 */
static PyObject *mod_immortalize(PyObject *self, PyObject *list)
{
    PyObject *changed = PyList_New(0);
    Py_ssize_t len = PyList_Size(list);
    uint64_t immortal;

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
    {"immortalize", mod_immortalize, METH_O,
     "Never free the objects of this list; returns those that were mortal."},
    {"recv", mod_recv, METH_NOARGS, "The next frame: (type, payload)."},
    {"send", mod_send, METH_VARARGS, "Send one frame: type, payload."},
    {"sync", mod_sync, METH_NOARGS, "Wait until the pipes have been read."},
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
