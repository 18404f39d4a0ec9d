/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other side of src/session/, for its unit tests: a warden, a pid 1 and a
 * kernel as threads of the test, over the real channels. The kernel obeys its
 * "code", one command a line:
 *
 *   out T | err T      print                 flood N   N KiB to stdout
 *   display N          N bytes               result T  clear  sync
 *   error NAME         end with an error
 *   sleep MS           until interrupted     deaf MS   never interrupted
 *   die SIG | leave N  the process ends      close     the channel, not it
 *   raw HEX            bytes on the channel  slow HEX  the same, one by one
 *   oom                killed by the kernel  childoom  a child is
 *   nofork  full       limits of the session file P    writes a file
 *   drop P  link P     removes a file, or puts a link in its place
 *   gone               pid 1 ends too        pairs N   a display of N pairs
 *   block HOST         tried to reach it     badblock N  pid 1 lies about it
 *   env                prints what the kernel, then pid 1 was told
 *
 * Broken pid 1s are made by fake.fault.
 */
#ifndef GLOVEBOX_TESTS_UNIT_SESSION_FAKE_H
#define GLOVEBOX_TESTS_UNIT_SESSION_FAKE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "conf/runtime.h"
#include "execution/execution_int.h"
#include "scratch.h"
#include "session/session_int.h"
#include "wire/wire.h"

enum fake_fault {
    FAULT_NONE,
    FAULT_NOT_READY,  /* the zygote is importing, three times */
    FAULT_FULL,       /* no slot */
    FAULT_WALL,       /* a step fails */
    FAULT_DIES_EARLY, /* pid 1 ends before READY */
    FAULT_LATE_READY, /* pid 1 never says READY */
    FAULT_LATE_START, /* no reply to START */
    FAULT_FULL_ONCE,  /* no slot, three times */
    FAULT_NO_MEMORY,  /* the kernel has run out of it */
    FAULT_SEQ,        /* replies to SCAN: wrong number */
    FAULT_SHORT,      /* cut off */
    FAULT_LENGTH,     /* payload_len lies */
    FAULT_FDS,        /* descriptors nobody asked for */
    FAULT_ENTRY,      /* garbled entries */
    FAULT_SILENT,     /* no reply to SIGNAL KILL_ALL */
    FAULT_OPEN_DIR,   /* OPEN gives a folder */
    FAULT_OPEN_WRITE, /* OPEN gives a writable file */
    FAULT_OPEN_NONE,  /* OPEN gives nothing */
    FAULT_LIST_ENDLESS,
    FAULT_LIST_NAMES, /* names that break the rules */
    FAULT_NOT_BUILT,  /* the image is missing */
};

/* Shorter than those of the service, and long enough for a busy machine. */
const struct box_times box_times = {
    .ready_ms = 3000, .kernel_ms = 3000, .slot_ms = 300};

struct fake_file {
    uint16_t kind;
    char path[64];
};

struct fake_box {
    struct fake_box *next;
    uint32_t slot;
    int ctl, events;
    pthread_t thread;
    /* the kernel */
    pthread_t kernel;
    bool kernel_up;
    int frames, out, err;
    atomic_bool stop;        /* pid 1 wants it dead */
    atomic_bool interrupted; /* SIGINT */
    atomic_bool dead;        /* pid 1 ends */
    bool from_image;         /* START came with one */
    bool shell_up;
    atomic_bool background;
    pthread_t shell;
    int shell_code;
    uint32_t next_pid, kernel_pid, shell_pid;
    pthread_mutex_t lock;
    struct warden_usage usage;
    uint64_t free_bytes, free_inodes;
    struct fake_file files[8];
    size_t file_count;
    struct buf blocked;                 /* lock: entries to be told */
    char environment[256], around[256]; /* lock: of the kernel, of pid 1 */
    char ca[64];                        /* lock */
    char dir[64];
    int upload;
};

static struct {
    pthread_mutex_t lock;
    struct fake_box *boxes; /* all ever made, freed by fake_reset */
    uint32_t next_slot;
    atomic_uint spawns, releases, kills;
    atomic_uint walls;       /* 0: files are copied in, nothing is mounted */
    atomic_bool cpu_reserve; /* background boxes may not use it */
    atomic_uint mounts;      /* sandboxes with something mounted */
    atomic_uint creates;     /* files made in sandboxes for us */
    _Atomic(enum fake_fault) fault;
    atomic_uint not_ready;
    atomic_uint shell_ignores;
    atomic_uint image; /* what becomes of every image: enum kernel_image */
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct warden_link {
    int unused;
};

/* What pid 1, and in some tests the proxy, were asked about the network, in
 * order, with blanks between. */
static struct {
    pthread_mutex_t lock;
    char words[1024];
    atomic_bool no_sockets;
} fake_net = {.lock = PTHREAD_MUTEX_INITIALIZER};

static inline void fake_told(const char *word)
{
    size_t len;

    pthread_mutex_lock(&fake_net.lock);
    len = strlen(fake_net.words);
    (void)snprintf(fake_net.words + len, sizeof(fake_net.words) - len, "%s%s",
                   len ? " " : "", word);
    pthread_mutex_unlock(&fake_net.lock);
}

static inline int fake_network(uint32_t what, int *ret_fd)
{
    static const char *const words[] = {"?",        "blocked", "proxy",
                                        "resolver", "taken",   "back"};

    fake_told(words[what <= INIT_NETWORK_BACK ? what : 0]);
    if (what != INIT_NETWORK_PROXY && what != INIT_NETWORK_RESOLVER)
        return what == INIT_NETWORK_BLOCKED ? ENOSYS : 0;
    if (atomic_load(&fake_net.no_sockets))
        return EMFILE;
    *ret_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    return 0;
}

static inline void fake_nap(unsigned ms)
{
    (void)nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000},
                    NULL);
}

static inline void fake_keep(struct fake_box *b, char *room, size_t size,
                             const char *text)
{
    pthread_mutex_lock(&b->lock);
    (void)snprintf(room, size, "%s", text);
    pthread_mutex_unlock(&b->lock);
}

/* What pid 1 is handed in memory; none: "". */
static inline int fake_memory(struct fake_box *b, char *room, size_t size,
                              int fd)
{
    char text[65537] = "";

    if (fd >= 0 && pread(fd, text, sizeof(text) - 1, 0) < 0)
        return errno;
    fake_keep(b, room, size, text);
    return 0;
}

/* An attempt that pid 1 tells of; fault: how it lies. */
static inline void fake_block(struct fake_box *b, const char *host, long fault)
{
    struct init_blocked e = {.at_ms = 1000,
                             .count = fault == 1 ? 0 : 2,
                             .kind = fault == 2 ? 9 : INIT_BLOCKED_CONNECT,
                             .port = 443};

    (void)snprintf(e.host, sizeof(e.host), "%s", host);
    if (fault == 3)
        memset(e.host, 'x', sizeof(e.host));
    if (fault == 4)
        e.host[1] = '\n';
    if (fault == 5)
        e.host[0] = '\0';
    pthread_mutex_lock(&b->lock);
    buf_add(&b->blocked, &e, sizeof(e) - (fault == 6));
    pthread_mutex_unlock(&b->lock);
}

/* ---- the kernel --------------------------------------------------------- */

static inline void fake_frame(struct fake_box *b, uint32_t type,
                              const void *data, size_t len)
{
    (void)wire_frame_send(b->frames, type, data, len);
}

static inline void fake_pairs(struct fake_box *b, uint32_t type,
                              const char *key, const char *value, size_t len)
{
    struct buf p cleanup(buf_done) = {0};
    uint32_t lens[2] = {(uint32_t)strlen(key), (uint32_t)len};

    buf_add(&p, lens, sizeof(lens));
    buf_adds(&p, key);
    buf_add(&p, value, len);
    fake_frame(b, type, p.data, p.len);
}

static inline void fake_done(struct fake_box *b, uint32_t status)
{
    struct kernel_done done = {.status = status};

    fake_frame(b, KERNEL_DONE, &done, sizeof(done));
}

static inline size_t fake_unhex(const char *hex, char *ret)
{
    size_t n = 0;
    unsigned byte;

    while (sscanf(hex + 2 * n, "%2x", &byte) == 1)
        ret[n++] = (char)byte;
    return n;
}

static inline void fake_event(struct fake_box *b, uint32_t type, uint32_t pid,
                              int status)
{
    struct init_event e = {.type = type, .wait_status = status, .pid = pid};

    (void)wire_send(b->events, &e, sizeof(e), NULL, 0);
}

static inline void fake_parents(struct fake_box *b, char *name)
{
    for (char *c = name + strlen(b->dir) + 1; (c = strchr(c, '/')); c++) {
        *c = '\0';
        (void)mkdir(name, 0700);
        *c = '/';
    }
}

/* The file itself, its path as its bytes, and what a scan will tell of it. */
static inline void fake_touch(struct fake_box *b, const char *path,
                              uint16_t kind)
{
    char name[256];
    struct fake_file *f;
    int fd;

    (void)snprintf(name, sizeof(name), "%s/%s", b->dir, path);
    fake_parents(b, name);
    (void)unlink(name);
    if (kind == INIT_ENTRY_WROTE) {
        fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        (void)fd_write_all(fd, path, strlen(path));
        fd_close(&fd);
    }
    pthread_mutex_lock(&b->lock);
    f = &b->files[b->file_count++ % 8];
    f->kind = kind;
    (void)snprintf(f->path, sizeof(f->path), "%s", path);
    pthread_mutex_unlock(&b->lock);
}

/* 0: go on, 1: the cell is over (DONE was sent), 2: the kernel ends. */
static inline int fake_command(struct fake_box *b, const char *verb,
                               const char *arg)
{
    long n = strtol(arg, NULL, 10);
    char raw[512];

    if (!strcmp(verb, "out") || !strcmp(verb, "err")) {
        int fd = verb[0] == 'o' ? b->out : b->err;

        (void)!write(fd, arg, strlen(arg));
    } else if (!strcmp(verb, "flood")) {
        char kib[1024];

        memset(kib, 'x', sizeof(kib));
        for (long i = 0; i < n && !atomic_load(&b->stop);) {
            struct pollfd p = {.fd = b->out, .events = POLLOUT};

            if (poll(&p, 1, 10) > 0)
                i += write(b->out, kib, sizeof(kib)) > 0;
        }
    } else if (!strcmp(verb, "display")) {
        char *big = xcalloc(1, (size_t)n + 1);

        fake_pairs(b, KERNEL_DISPLAY, "text/plain", big, (size_t)n);
        free(big);
    } else if (!strcmp(verb, "pairs")) {
        uint32_t *p = xcalloc((size_t)n, 8);

        fake_frame(b, KERNEL_DISPLAY, p, (size_t)n * 8);
        free(p);
    } else if (!strcmp(verb, "result")) {
        fake_pairs(b, KERNEL_RESULT, "text/plain", arg, strlen(arg));
    } else if (!strcmp(verb, "clear")) {
        fake_frame(b, KERNEL_CLEAR, "", 1);
    } else if (!strcmp(verb, "sync")) {
        struct kernel_frame head;

        fake_frame(b, KERNEL_SYNC, NULL, 0);
        (void)fd_read_all(b->frames, &head, sizeof(head));
        if (head.type != KERNEL_SYNCED || head.len)
            abort();
    } else if (!strcmp(verb, "error")) {
        fake_pairs(b, KERNEL_ERROR, "name", arg, strlen(arg));
        fake_done(b, KERNEL_DONE_ERROR);
        return 1;
    } else if (!strcmp(verb, "sleep") || !strcmp(verb, "deaf")) {
        for (long i = 0; i < n && !atomic_load(&b->stop); i++) {
            if (verb[0] == 's' && atomic_exchange(&b->interrupted, false)) {
                fake_pairs(b, KERNEL_ERROR, "name", "KeyboardInterrupt", 17);
                fake_done(b, KERNEL_DONE_ERROR);
                return 1;
            }
            fake_nap(1);
        }
    } else if (!strcmp(verb, "die")) {
        fake_event(b, INIT_EVENT_KERNEL, b->kernel_pid, (int)n);
        return 2;
    } else if (!strcmp(verb, "leave")) {
        fake_event(b, INIT_EVENT_KERNEL, b->kernel_pid, (int)n << 8);
        return 2;
    } else if (!strcmp(verb, "close")) {
        (void)shutdown(b->frames, SHUT_RDWR);
        while (!atomic_load(&b->stop))
            fake_nap(1);
        return 2;
    } else if (!strcmp(verb, "raw")) {
        (void)fd_write_all(b->frames, raw, fake_unhex(arg, raw));
    } else if (!strcmp(verb, "slow")) {
        size_t len = fake_unhex(arg, raw);

        for (size_t i = 0; i < len; i++) {
            (void)fd_write_all(b->frames, raw + i, 1);
            fake_nap(1);
        }
    } else if (!strcmp(verb, "oom") || !strcmp(verb, "childoom")) {
        pthread_mutex_lock(&b->lock);
        b->usage.oom_kills++;
        pthread_mutex_unlock(&b->lock);
        if (verb[0] == 'o') {
            fake_event(b, INIT_EVENT_KERNEL, b->kernel_pid, SIGKILL);
            return 2;
        }
    } else if (!strcmp(verb, "nofork")) {
        pthread_mutex_lock(&b->lock);
        b->usage.pids_denied++;
        pthread_mutex_unlock(&b->lock);
    } else if (!strcmp(verb, "full")) {
        pthread_mutex_lock(&b->lock);
        b->free_bytes = 0;
        pthread_mutex_unlock(&b->lock);
    } else if (!strcmp(verb, "file")) {
        fake_touch(b, arg, INIT_ENTRY_WROTE);
    } else if (!strcmp(verb, "drop")) {
        fake_touch(b, arg, INIT_ENTRY_GONE);
    } else if (!strcmp(verb, "link")) {
        fake_touch(b, arg, INIT_ENTRY_SKIPPED);
    } else if (!strcmp(verb, "block") || !strcmp(verb, "badblock")) {
        fake_block(b, verb[1] == 'l' ? arg : "host", verb[1] == 'l' ? 0 : n);
    } else if (!strcmp(verb, "env")) {
        char all[600];

        pthread_mutex_lock(&b->lock);
        (void)snprintf(all, sizeof(all), "%s%s%s", b->environment, b->around,
                       b->ca);
        pthread_mutex_unlock(&b->lock);
        (void)!write(b->out, all, strlen(all));
    } else if (!strcmp(verb, "gone")) {
        atomic_store(&b->dead, true);
        (void)shutdown(b->ctl, SHUT_RDWR);
        (void)shutdown(b->events, SHUT_RDWR);
        return 2;
    }
    return atomic_load(&b->stop) ? 2 : 0;
}

static inline int fake_cell(struct fake_box *b, char *code)
{
    char *save = NULL;

    for (char *line = strtok_r(code, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        char *space = strchr(line, ' ');
        int rc;

        if (space)
            *space = '\0';
        rc = fake_command(b, line, space ? space + 1 : "");
        if (rc)
            return rc;
    }
    fake_done(b, KERNEL_DONE_OK);
    return 0;
}

static inline void *fake_kernel(void *arg)
{
    struct fake_box *b = arg;
    struct kernel_frame head;
    int rc = 0;

    if (b->from_image && atomic_load(&fake.image)) {
        uint32_t why = atomic_load(&fake.image);

        fake_frame(b, KERNEL_UNUSABLE, &why, sizeof(why));
        return NULL;
    }
    fake_frame(b, KERNEL_READY, NULL, 0);
    while (rc != 2 && !atomic_load(&b->stop)) {
        char *code;

        if (fd_read_all(b->frames, &head, sizeof(head)) != sizeof(head) ||
            (head.type != KERNEL_EXECUTE && head.type != KERNEL_ENVIRONMENT))
            break;
        code = xcalloc(1, head.len + 1);
        (void)fd_read_all(b->frames, code, head.len);
        if (head.type == KERNEL_EXECUTE)
            rc = fake_cell(b, code);
        else
            fake_keep(b, b->environment, sizeof(b->environment), code);
        free(code);
    }
    (void)shutdown(b->frames,
                   SHUT_RDWR); /* closed by "pid 1", which owns it */
    return NULL;
}

/* "bash": sleeps until interrupted, or a fixed status. */
static inline void *fake_shell(void *arg)
{
    struct fake_box *b = arg;
    char code[256] = "";
    int status = 0;
    long n;

    (void)!pread(b->shell_code, code, sizeof(code) - 1, 0);
    n = strtol(strchr(code, ' ') ? strchr(code, ' ') : "0", NULL, 10);
    if (!strncmp(code, "exit", 4))
        status = (int)n << 8;
    else if (!strncmp(code, "signal", 6))
        status = (int)n;
    else if (!strncmp(code, "echo", 4))
        (void)!write(b->out, code + 5, strlen(code + 5));
    else if (!strncmp(code, "oom", 3)) {
        pthread_mutex_lock(&b->lock);
        b->usage.oom_kills++;
        pthread_mutex_unlock(&b->lock);
        status = 137 << 8;
    }
    for (long i = 0; !strncmp(code, "sleep", 5) && i < n; i++) {
        if (atomic_load(&b->stop)) {
            status = SIGKILL;
            break;
        }
        if (atomic_exchange(&b->interrupted, false) && !fake.shell_ignores) {
            status = SIGINT;
            break;
        }
        fake_nap(1);
    }
    if (!strncmp(code, "killkernel", 10))
        fake_event(b, INIT_EVENT_KERNEL, b->kernel_pid, SIGKILL);
    fake_event(b, INIT_EVENT_SHELL, b->shell_pid, status);
    return NULL;
}

/* ---- pid 1 -------------------------------------------------------------- */

static inline void fake_stop_all(struct fake_box *b)
{
    atomic_store(&b->stop, true);
    if (b->frames >= 0)
        (void)shutdown(b->frames, SHUT_RDWR);
    if (b->shell_up)
        pthread_join(b->shell, NULL);
    if (b->kernel_up)
        pthread_join(b->kernel, NULL);
    b->shell_up = b->kernel_up = false;
    atomic_store(&b->stop, false);
    atomic_store(&b->interrupted, false);
}

static inline void fake_close_seats(struct fake_box *b)
{
    fd_close(&b->frames);
    fd_close(&b->out);
    fd_close(&b->err);
}

static inline void fake_entry(struct buf *p, uint16_t kind, uint64_t size,
                              const char *path)
{
    struct init_entry e = {.size = size,
                           .mtime_ns = 1700000000000000000,
                           .kind = kind,
                           .path_len = (uint16_t)strlen(path)};

    buf_add(p, &e, sizeof(e));
    buf_adds(p, path);
}

static inline int fake_by_name(const struct dirent **a,
                               const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static inline void fake_list(struct fake_box *b, const struct init_request *q,
                             struct init_reply *r, struct buf *payload)
{
    enum fake_fault fault = atomic_load(&fake.fault);
    struct dirent **names = NULL;
    char after[INIT_PATH_MAX + 1] = "";
    uint32_t given = 0;
    int n;

    memcpy(after, q->path, q->path_len);
    if (fault == FAULT_LIST_ENDLESS) {
        r->arg = 1;
        return;
    }
    if (fault == FAULT_LIST_NAMES) {
        fake_entry(payload, INIT_ENTRY_FILE, 1, "bad\nname");
        fake_entry(payload, INIT_ENTRY_FILE, 1, "../up");
        fake_entry(payload, INIT_ENTRY_SKIPPED, 84, "pipe");
        fake_entry(payload, INIT_ENTRY_FILE, 1, "good");
        return;
    }
    n = scandir(
        b->dir, &names, NULL,
        (int (*)(const struct dirent **, const struct dirent **))fake_by_name);
    for (int i = 0; i < n; i++) {
        if (names[i]->d_name[0] != '.' &&
            strcmp(names[i]->d_name, after) > 0) {
            /* At most two a reply, so that the caller must go on. */
            if (given < 2 && given < q->arg) {
                fake_entry(payload, INIT_ENTRY_FILE, 3, names[i]->d_name);
                given++;
            } else {
                r->arg = 1;
            }
        }
        free(names[i]);
    }
    free(names);
}

static inline void fake_scan(struct fake_box *b, struct init_reply *r,
                             struct buf *payload)
{
    if (atomic_load(&fake.fault) == FAULT_ENTRY) {
        buf_adds(payload, "nonsense");
        return;
    }
    pthread_mutex_lock(&b->lock);
    for (size_t i = 0; i < b->file_count; i++)
        fake_entry(payload, b->files[i].kind,
                   b->files[i].kind == INIT_ENTRY_SKIPPED ? ELOOP : 1,
                   b->files[i].path);
    b->file_count = 0;
    r->scratch_free_bytes = b->free_bytes;
    r->scratch_free_inodes = b->free_inodes;
    r->blocked = b->blocked.len > 0;
    pthread_mutex_unlock(&b->lock);
}

static inline int fake_open(struct fake_box *b, const char *path, int *fd)
{
    enum fake_fault fault = atomic_load(&fake.fault);
    char name[INIT_PATH_MAX + 128];
    int flags = O_RDONLY;

    (void)snprintf(name, sizeof(name), "%s/%s", b->dir, path);
    if (fault == FAULT_OPEN_NONE)
        return 0;
    if (fault == FAULT_OPEN_DIR)
        (void)snprintf(name, sizeof(name), "%s", b->dir);
    if (fault == FAULT_OPEN_WRITE)
        flags = O_RDWR;
    *fd = open(name, flags | O_CLOEXEC);
    return *fd < 0 ? errno : 0;
}

static inline int fake_publish(struct fake_box *b, const char *path)
{
    char from[64], name[INIT_PATH_MAX + 128];

    (void)snprintf(from, sizeof(from), "/proc/self/fd/%d", b->upload);
    (void)snprintf(name, sizeof(name), "%s/%s", b->dir, path);
    fake_parents(b, name);
    (void)unlink(name);
    if (linkat(AT_FDCWD, from, AT_FDCWD, name, AT_SYMLINK_FOLLOW) < 0)
        return errno;
    fd_close(&b->upload);
    return 0;
}

static inline int fake_signal(struct fake_box *b, uint32_t sig)
{
    if (sig == INIT_SIGNAL_INTERRUPT)
        atomic_store(&b->interrupted, true);
    else if (sig == INIT_SIGNAL_KILL_SHELL) {
        atomic_store(&b->stop, true);
        if (b->shell_up)
            pthread_join(b->shell, NULL);
        b->shell_up = false;
        atomic_store(&b->stop, false);
    } else {
        fake_stop_all(b);
        fake_event(b, INIT_EVENT_KERNEL, b->kernel_pid, SIGKILL);
    }
    return 0;
}

static inline int fake_dispatch(struct fake_box *b,
                                const struct init_request *q, int *fds,
                                struct init_reply *r, struct buf *payload,
                                int *ret_fd)
{
    char path[INIT_PATH_MAX + 1] = "";

    memcpy(path, q->path, q->path_len);
    switch ((enum init_request_type)q->type) {
    case INIT_START:
        fake_stop_all(b);
        fake_close_seats(b);
        b->frames = take_fd(fds[0]);
        b->out = take_fd(fds[1]);
        b->err = take_fd(fds[2]);
        b->from_image = fds[3] >= 0;
        b->kernel_pid = r->arg = ++b->next_pid;
        b->kernel_up = pthread_create(&b->kernel, NULL, fake_kernel, b) == 0;
        return 0;
    case INIT_SHELL:
        if (b->shell_up)
            pthread_join(b->shell, NULL);
        fd_close(&b->shell_code);
        b->shell_code = take_fd(fds[0]);
        b->shell_pid = r->arg = ++b->next_pid;
        b->shell_up = pthread_create(&b->shell, NULL, fake_shell, b) == 0;
        return 0;
    case INIT_HELPER: /* no unit test of sessions needs one */
    case INIT_POINT:
        return ENOSYS;
    case INIT_SIGNAL:
        return fake_signal(b, q->arg);
    case INIT_SCAN:
        fake_scan(b, r, payload);
        return 0;
    case INIT_OPEN:
        return fake_open(b, path, ret_fd);
    case INIT_CREATE:
        atomic_fetch_add(&fake.creates, 1);
        b->upload = open(b->dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644);
        r->arg = 7;
        *ret_fd = b->upload < 0 ? -1 : fd_dup(b->upload, 0);
        return b->upload < 0 ? errno : 0;
    case INIT_PUBLISH:
        return q->arg == 7 ? fake_publish(b, path) : EBADF;
    case INIT_DISCARD:
        fd_close(&b->upload);
        return 0;
    case INIT_REMOVE: {
        int dir cleanup(fd_close) = open(b->dir, O_DIRECTORY | O_RDONLY);

        return unlinkat(dir, path, 0) < 0 ? errno : 0;
    }
    case INIT_LIST:
        fake_list(b, q, r, payload);
        return 0;
    case INIT_NETWORK:
        if (q->arg != INIT_NETWORK_BLOCKED)
            return fake_network(q->arg, ret_fd);
        pthread_mutex_lock(&b->lock);
        buf_add(payload, b->blocked.data, b->blocked.len);
        buf_reset(&b->blocked);
        pthread_mutex_unlock(&b->lock);
        return 0;
    case INIT_ENVIRONMENT:
        fake_told("environment");
        return fake_memory(b, b->around, sizeof(b->around), fds[0]);
    case INIT_CA:
        fake_told("ca");
        return fake_memory(b, b->ca, sizeof(b->ca), fds[0]);
    }
    return EINVAL;
}

static inline void fake_reply(struct fake_box *b, const struct init_request *q,
                              struct init_reply *r, struct buf *payload,
                              int fd)
{
    enum fake_fault fault =
        q->type == INIT_SCAN ? atomic_load(&fake.fault) : FAULT_NONE;
    size_t len = sizeof(*r);

    r->payload_len = (uint32_t)payload->len;
    if (fault == FAULT_SEQ)
        r->seq += 5;
    if (fault == FAULT_LENGTH)
        r->payload_len = 99;
    if (fault == FAULT_SHORT)
        len = 6;
    if (fault == FAULT_FDS)
        fd = fd_dup(0, 0);
    if (q->type == INIT_SIGNAL && q->arg == INIT_SIGNAL_KILL_ALL &&
        atomic_load(&fake.fault) == FAULT_SILENT)
        return;
    if (q->type == INIT_START && atomic_load(&fake.fault) == FAULT_LATE_START)
        return;
    (void)wire_send2(b->ctl, r, len, payload->data,
                     fault == FAULT_SHORT ? 0 : payload->len, &fd, fd >= 0);
    fd_close(&fd);
}

static inline void *fake_init(void *arg)
{
    struct fake_box *b = arg;
    enum fake_fault fault = atomic_load(&fake.fault);
    struct init_event ready = {.type = INIT_EVENT_READY};

    if (fault == FAULT_WALL) {
        ready = (struct init_event){
            .type = INIT_EVENT_FAILED, .errnum = EPERM, .step = "mount proc"};
    }
    if (fault != FAULT_DIES_EARLY && fault != FAULT_LATE_READY)
        (void)wire_send(b->events, &ready, sizeof(ready), NULL, 0);
    while (fault != FAULT_DIES_EARLY && fault != FAULT_WALL &&
           !atomic_load(&b->dead)) {
        struct buf payload cleanup(buf_done) = {0};
        struct init_request q;
        struct init_reply r = {0};
        int fds[WIRE_FDS_MAX] = {-1, -1, -1, -1};
        size_t count = 0;
        int fd = -1;

        if (wire_recv(b->ctl, &q, sizeof(q), fds, &count) != sizeof(q))
            break;
        r.seq = q.seq;
        r.errnum = fake_dispatch(b, &q, fds, &r, &payload, &fd);
        for (size_t i = 0; i < count; i++)
            fd_close(&fds[i]);
        fake_reply(b, &q, &r, &payload, fd);
    }
    fake_stop_all(b);
    fake_close_seats(b);
    pthread_mutex_lock(&b->lock);
    b->usage.alive = 0;
    b->usage.wait_status = SIGKILL;
    pthread_mutex_unlock(&b->lock);
    (void)shutdown(b->ctl, SHUT_RDWR);
    (void)shutdown(b->events, SHUT_RDWR);
    return NULL;
}

/* ---- the warden --------------------------------------------------------- */

static inline struct fake_box *fake_find(uint32_t slot)
{
    struct fake_box *b;

    pthread_mutex_lock(&fake.lock);
    for (b = fake.boxes; b && b->slot != slot; b = b->next)
        ;
    pthread_mutex_unlock(&fake.lock);
    return b;
}

/* Unless a test says so none of the walls that mounting needs. */
uint32_t warden_call_walls(const struct warden_link *link)
{
    (void)link;
    return atomic_load(&fake.walls);
}

/* What a mount shows, as far as the tests look: the files at its top. */
static inline void fake_mount(struct fake_box *b, int layer)
{
    int from cleanup(fd_close) =
        openat(layer, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fdopendir(fd_dup(from, 0));
    struct dirent *e;

    while (d && (e = readdir(d)) != NULL) {
        char name[512];
        char *text = NULL;
        size_t len = 0;
        int to;

        if (e->d_type != DT_REG ||
            fd_read_file(from, e->d_name, 1 << 20, &text, &len) < 0)
            continue;
        (void)snprintf(name, sizeof(name), "%s/%s", b->dir, e->d_name);
        to = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        (void)fd_write_all(to, text, len);
        fd_close(&to);
        free(text);
    }
    if (d)
        (void)closedir(d);
}

int warden_call_runtime(struct warden_link *link, const char *image,
                        int spec_fd, bool fresh_exec, uint32_t *ret_runtime,
                        struct error *err)
{
    char spec[256] = "";

    (void)link;
    (void)fresh_exec;
    (void)err;
    (void)!pread(spec_fd, spec, sizeof(spec) - 1, 0);
    if (strcmp(image, "fake-0123") != 0 ||
        strcmp(spec, "{\"preload\":[\"a\",\"b\\\"c\"],\"environment\":"
                     "{\"K\":\"v=w\"}}") != 0)
        abort();
    *ret_runtime = 1;
    return 0;
}

int warden_call_runtime_change(struct warden_link *link, uint32_t runtime,
                               const char *image, int spec_fd, bool fresh_exec,
                               struct error *err)
{
    (void)link;
    (void)runtime;
    (void)image;
    (void)spec_fd;
    (void)fresh_exec;
    (void)err;
    abort(); /* the fake has one image */
}

int warden_call_status(struct warden_link *link, struct warden_status *ret,
                       struct error *err)
{
    (void)link;
    (void)err;
    memset(ret, 0, sizeof(*ret));
    return 0;
}

int warden_call_spawn(struct warden_link *link,
                      const struct warden_spawn *spawn, int ctl_fd,
                      int events_fd, const int *layers,
                      struct warden_spawned *ret, struct meters *ret_meters,
                      struct error *err)
{
    enum fake_fault fault = atomic_load(&fake.fault);
    struct fake_box *b;

    (void)link;
    (void)ret_meters; /* none: usage is asked of us */
    if ((layers || spawn->layers) && !atomic_load(&fake.walls))
        abort(); /* without the walls for it nothing is mounted */
    if (fault == FAULT_NOT_READY && atomic_fetch_add(&fake.not_ready, 1) < 3) {
        (void)error_set(err, ERR_UNAVAILABLE, "importing");
        return error_retry(err, 1);
    }
    if (fault == FAULT_NO_MEMORY)
        return error_errno(err, ERR_ISOLATION, ENOMEM, "clone");
    if (fault == FAULT_FULL || (fault == FAULT_FULL_ONCE &&
                                atomic_fetch_add(&fake.not_ready, 1) < 3)) {
        (void)error_set(err, ERR_BUSY, "no slot");
        return error_retry(err, 5);
    }
    b = xcalloc(1, sizeof(*b));
    pthread_mutex_init(&b->lock, NULL);
    b->ctl = fd_dup(ctl_fd, 0);
    b->events = fd_dup(events_fd, 0);
    b->frames = b->out = b->err = b->upload = b->shell_code = -1;
    b->next_pid = 1;
    b->usage.alive = 1;
    b->free_bytes = 1u << 30;
    b->free_inodes = 1000;
    pthread_mutex_lock(&fake.lock);
    b->slot = ++fake.next_slot;
    b->next = fake.boxes;
    fake.boxes = b;
    pthread_mutex_unlock(&fake.lock);
    (void)snprintf(b->dir, sizeof(b->dir), "/tmp/test_session.%d.%u",
                   (int)getpid(), b->slot);
    (void)mkdir(b->dir, 0700);
    atomic_fetch_add(&fake.spawns, 1);
    if (spawn->layers)
        atomic_fetch_add(&fake.mounts, 1);
    for (unsigned i = spawn->layers; i > 0; i--)
        fake_mount(b, layers[i - 1]);
    if (pthread_create(&b->thread, NULL, fake_init, b) != 0)
        abort();
    ret->slot = b->slot;
    return 0;
}

int warden_call_zygotes(struct warden_link *link,
                        const struct warden_zygotes *used, struct error *err)
{
    (void)link;
    (void)used;
    (void)err;
    return 0;
}

int warden_call_usage(struct warden_link *link, uint32_t slot, bool reset_peak,
                      struct warden_usage *ret_usage, struct error *err)
{
    struct fake_box *b = fake_find(slot);

    (void)link;
    (void)reset_peak;
    if (!b)
        return error_set(err, ERR_NOT_FOUND, "no slot");
    pthread_mutex_lock(&b->lock);
    b->usage.cpu_ns += 3000000;
    b->usage.memory_peak_bytes = 5000;
    *ret_usage = b->usage;
    pthread_mutex_unlock(&b->lock);
    return 0;
}

int warden_call_cpu_reserve(struct warden_link *link, bool on, uint32_t slot,
                            struct error *err)
{
    (void)link;
    (void)slot;
    (void)err;
    atomic_store(&fake.cpu_reserve, on);
    return 0;
}

int warden_call_sched_class(struct warden_link *link, uint32_t slot,
                            bool background, struct error *err)
{
    (void)link;
    (void)err;
    fake_find(slot)->background = background;
    return 0;
}

static inline void fake_end(struct fake_box *b)
{
    atomic_store(&b->dead, true);
    (void)shutdown(b->ctl, SHUT_RDWR);
    (void)shutdown(b->events, SHUT_RDWR);
}

int warden_call_kill(struct warden_link *link, uint32_t slot,
                     struct error *err)
{
    struct fake_box *b = fake_find(slot);

    (void)link;
    (void)err;
    atomic_fetch_add(&fake.kills, 1);
    if (b)
        fake_end(b);
    return 0;
}

int warden_call_release(struct warden_link *link, uint32_t slot,
                        struct error *err)
{
    struct fake_box *b = fake_find(slot);

    (void)link;
    if (!b)
        return error_set(err, ERR_NOT_FOUND, "no slot");
    atomic_fetch_add(&fake.releases, 1);
    fake_end(b);
    return 0;
}

int conf_runtime_find(const char *defs_dir, const char *cache_dir,
                      const char *name, struct conf_runtime *ret,
                      struct error *err)
{
    static char *preload[] = {(char *)"a", (char *)"b\"c"};
    static char *environment[] = {(char *)"K=v=w"};
    static struct conf_runtime_def def = {.preload = preload,
                                          .preload_count = 2,
                                          .environment = environment,
                                          .environment_count = 1,
                                          .image = (char *)""};

    (void)defs_dir;
    (void)cache_dir;
    if (strcmp(name, "missing") == 0)
        return error_set(err, ERR_NOT_FOUND, "none");
    *ret = (struct conf_runtime){.def = &def,
                                 .image_path = (char *)"/cache/fake-0123"};
    ret->built = atomic_load(&fake.fault) != FAULT_NOT_BUILT;
    return 0;
}

/* Nothing is defined but what a test asks for. */
int conf_runtime_names(const char *defs_dir, const char *cache_dir,
                       char ***ret_names, struct error *err)
{
    (void)defs_dir;
    (void)cache_dir;
    (void)ret_names;
    return error_set(err, ERR_NOT_FOUND, "no runtimes");
}

void conf_runtime_names_free(char ***names)
{
    (void)names;
}

void conf_runtime_done(struct conf_runtime *rt)
{
    (void)rt;
}

/* After sessions_close: every thread ended, every descriptor closed. */
static inline void fake_reset(void)
{
    while (fake.boxes) {
        struct fake_box *b = fake.boxes;
        fake.boxes = b->next;
        fake_end(b);
        pthread_join(b->thread, NULL);
        fd_close(&b->ctl);
        fd_close(&b->events);
        fd_close(&b->upload);
        fd_close(&b->shell_code);
        (void)scratch_remove(b->dir);
        buf_done(&b->blocked);
        pthread_mutex_destroy(&b->lock);
        free(b);
    }
    fake.spawns = fake.releases = fake.kills = 0;
    fake.walls = fake.mounts = fake.creates = 0;
    fake.not_ready = fake.shell_ignores = 0;
    atomic_store(&fake.fault, FAULT_NONE);
}

#endif
