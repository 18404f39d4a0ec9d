/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records which files of /mnt/data Python opens for reading, for the evidence
 * of an execution. Runs in the kernel process; the interpreter calls it for
 * every audit event, of which there are very many, so all but one kind cost
 * one comparison. The session's code can falsify the trace, and files that
 * libraries open natively are not in it: it is a statement of the session.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "kernel/kernel_int.h"

/* Not in the headers of the stable ABI, but exported unchanged since 3.8. */
extern int PySys_AddAuditHook(int (*hook)(const char *event, PyObject *args,
                                          void *data),
                              void *data);

#define SLOTS (2 * KERNEL_READS_MAX)

/* State of this kernel process; the GIL guards it. */
static char *paths[SLOTS];
static size_t count, bytes;
static bool more;

static size_t slot_of(const char *path)
{
    uint32_t hash = 2166136261u;

    for (const char *c = path; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    for (size_t i = hash % SLOTS;; i = (i + 1) % SLOTS)
        if (!paths[i] || strcmp(paths[i], path) == 0)
            return i;
}

static void note(const char *path)
{
    size_t slot, len = strlen(path);

    if (len == 0 || len > INIT_PATH_MAX)
        return;
    slot = slot_of(path);
    if (paths[slot])
        return;
    if (count == KERNEL_READS_MAX) {
        more = true;
        return;
    }
    paths[slot] = strdup(path);
    if (!paths[slot])
        return;
    count++;
    bytes += len + 1;
}

/* Below /mnt/data? Then what is behind it, with parts "." and ".." and empty
 * ones resolved as text; links are not resolved. */
static bool relative(const char *path, char *out, size_t size)
{
    char full[2 * INIT_PATH_MAX];
    size_t used = 0, root = strlen(SANDBOX_DATA);
    char *part, *rest = NULL;

    if (strlen(path) > INIT_PATH_MAX + root)
        return false;
    if (path[0] == '/') {
        (void)snprintf(full, sizeof(full), "%s", path);
    } else {
        char here[INIT_PATH_MAX];

        if (!getcwd(here, sizeof(here) - root))
            return false;
        (void)snprintf(full, sizeof(full), "%.*s/%.*s", INIT_PATH_MAX, here,
                       (int)(sizeof(full) - INIT_PATH_MAX - 2), path);
    }
    out[0] = '\0';
    for (part = strtok_r(full, "/", &rest); part;
         part = strtok_r(NULL, "/", &rest)) {
        size_t len = strlen(part);

        if (strcmp(part, ".") == 0)
            continue;
        if (strcmp(part, "..") == 0) {
            while (used && out[--used] != '/')
                ;
            out[used] = '\0';
            continue;
        }
        if (used + len + 2 > size)
            return false;
        out[used++] = '/';
        memcpy(out + used, part, len + 1);
        used += len;
    }
    if (strncmp(out, SANDBOX_DATA "/", root + 1) != 0)
        return false;
    memmove(out, out + root + 1, used - root);
    return true;
}

/* The event's arguments: what is opened, a mode, and the flags it means. */
static void on_open(PyObject *args)
{
    char rest[2 * INIT_PATH_MAX];
    PyObject *path = PyTuple_GetItem(args, 0); /* borrowed, all three */
    PyObject *flags = PyTuple_GetItem(args, 2);
    PyObject *text = NULL;
    const char *name = NULL;
    long how;

    if (!path || !flags || !PyLong_Check(flags))
        goto out;
    how = PyLong_AsLong(flags);
    if ((how & O_ACCMODE) == O_WRONLY || how & (O_TRUNC | O_EXCL))
        return;
    if (PyBytes_Check(path)) {
        name = PyBytes_AsString(path);
    } else if (PyUnicode_Check(path)) {
        text = PyUnicode_EncodeFSDefault(path);
        name = text ? PyBytes_AsString(text) : NULL;
    }
    if (name && relative(name, rest, sizeof(rest)))
        note(rest);
out:
    Py_XDECREF(text);
    PyErr_Clear(); /* not a path; open() reports that */
}

static int on_event(const char *event, PyObject *args, void *data)
{
    (void)data;
    if (event[0] != 'o' || strcmp(event, "open") != 0)
        return 0;
    if (args && PyTuple_Check(args) && PyTuple_Size(args) == 3)
        on_open(args);
    return 0;
}

int read_trace_start(void)
{
    return PySys_AddAuditHook(on_event, NULL);
}

/* The event comes before the open, so the file may not exist. */
static bool is_file(const char *path)
{
    char full[sizeof(SANDBOX_DATA) + INIT_PATH_MAX + 1];
    struct stat st;

    (void)snprintf(full, sizeof(full), SANDBOX_DATA "/%s", path);
    return stat(full, &st) == 0 && S_ISREG(st.st_mode);
}

size_t read_trace_take(char **ret_payload)
{
    size_t used = 0;
    char *out;

    if (count == 0)
        return 0;
    out = xmalloc(bytes + 1);
    out[used++] = more;
    for (size_t i = 0; i < SLOTS; i++) {
        size_t len;

        if (!paths[i])
            continue;
        len = strlen(paths[i]) + 1;
        if (is_file(paths[i])) {
            memcpy(out + used, paths[i], len);
            used += len;
        }
        free(paths[i]);
        paths[i] = NULL;
    }
    count = bytes = 0;
    more = false;
    *ret_payload = out;
    return used;
}
