/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real sandboxes for unit tests, without a daemon: a warden in a child of the
 * test, the minimal runtime, the extension that lies beside the test program;
 * and the daemon's end of ctl. Needs root; where that, the image or the
 * extension is missing, boxes_missing() says which.
 */
#ifndef GLOVEBOX_TESTS_LAYERS_BOX_H
#define GLOVEBOX_TESTS_LAYERS_BOX_H

#include <sys/types.h>

/* The stubs' own file, for its link: the archive's copy is then not taken. */
#include "warden/call.c" /* NOLINT(bugprone-suspicious-include) */

#include <dirent.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/log.h"
#include "warden/serve.h"
#include "wire/kernel_msg.h"

/* Not every test calls all of these. */
#define MAYBE_UNUSED __attribute__((unused))
#define MIB ((uint64_t)1 << 20)
#define BOX_WAIT_MS 20000
#define START_MS 60000u
#define SERVICE_UID 64123u /* whose the layers are; nobody's on this host */
#define SERVICE_GID 64124u
#define CACHE "/var/cache/glovebox/runtimes"

static struct {
    char dir[64]; /* data directory of the service that is not there */
    int dir_fd;
    pid_t warden;
    struct warden_link link;
    uint32_t runtime;
    const char *missing; /* why there are no boxes */
} boxes = {.dir_fd = -1};

struct box {
    uint32_t slot;
    int ctl, events;
    uint32_t seq;
    uint32_t cut; /* of the last scan */
    uint64_t free_bytes, free_inodes;
    char *out; /* of the last command */
};

/* ---- the warden --------------------------------------------------------- */

static bool find_image(char ret[WARDEN_NAME_MAX])
{
    DIR *dir cleanup(fd_closedir) = opendir(CACHE);
    struct dirent *d;
    char path[PATH_MAX];

    while (dir && (d = readdir(dir))) {
        if (strncmp(d->d_name, "minimal-", 8) != 0 ||
            strlen(d->d_name) >= WARDEN_NAME_MAX)
            continue;
        (void)snprintf(path, sizeof(path), CACHE "/%s/manifest.json",
                       d->d_name);
        if (access(path, R_OK) == 0) {
            memcpy(ret, d->d_name, strlen(d->d_name) + 1);
            return true;
        }
    }
    return false;
}

/* "<build>/tests/test_x" -> "<build>/lib/kernel" */
static bool find_kernel(char ret[WARDEN_PATH_MAX])
{
    char path[WARDEN_PATH_MAX] = "", so[WARDEN_PATH_MAX + 32];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 16);

    if (n <= 0)
        return false;
    path[n] = '\0';
    for (int i = 0; i < 2; i++)
        *strrchr(path, '/') = '\0';
    (void)snprintf(ret, WARDEN_PATH_MAX, "%.480s/lib/kernel", path);
    (void)snprintf(so, sizeof(so), "%s/_glovebox.abi3.so", ret);
    return access(so, R_OK) == 0;
}

/* As glovebox-warden does it: in a mount namespace of its own. */
static pid_t start_warden(int *ret_sock)
{
    int pair[2];
    pid_t pid;

    assert_int_equal(fd_socketpair(SOCK_SEQPACKET, pair), 0);
    pid = fork();
    if (pid == 0) {
        int mounts = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);

        (void)close(pair[0]);
        log_setup("test", LOG_ERROR, false);
        if (mounts < 0 || unshare(CLONE_NEWNS) < 0 ||
            mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
            _exit(1);
        umask(077);
        _exit(warden_serve_run(pair[1], mounts));
    }
    fd_close(&pair[1]);
    *ret_sock = pair[0];
    return pid;
}

static int spec_fd(void)
{
    static const char spec[] = "{\"preload\":[],\"environment\":{}}";
    int fd = memfd_create("spec", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, spec, sizeof(spec) - 1), 0);
    return fd;
}

static struct warden_limits box_limits(void)
{
    return (struct warden_limits){.memory_bytes = 256 * MIB,
                                  .scratch_bytes = 64 * MIB,
                                  .tmp_bytes = 64 * MIB,
                                  .shm_bytes = 16 * MIB,
                                  .scratch_inodes = 2000,
                                  .processes = 64,
                                  .cores = 1,
                                  .descriptors = 256};
}

/* SETUP, RUNTIME, and the first spawn's wait for the zygote. */
static int start_boxes(const char *image, const char *kernel)
{
    struct warden_setup setup = {
        .cache_dir = CACHE,
        .uid_base = 1500000000u + ((unsigned)getpid() % 50000u) * 1000u,
        .uid_count = 1000,
        .max_slots = 16,
        .spare_scratches = 1,
        .zygote_max_age_s = 3600,
        .zygote_max_spawns = 5000,
        .max_memory_bytes = 1024 * MIB,
        .max_scratch_bytes = 1024 * MIB,
        .max_processes = 512,
        .max_cores = 8,
    };
    static char why[sizeof(((struct error *)NULL)->message) + 40];
    struct error err = {0};
    int fd cleanup(fd_close) = spec_fd();
    int sock = -1;

    (void)snprintf(setup.scratch_dir, sizeof(setup.scratch_dir), "%s/scratch",
                   boxes.dir);
    (void)snprintf(setup.kernel_dir, sizeof(setup.kernel_dir), "%s", kernel);
    (void)snprintf(setup.instance, sizeof(setup.instance), "test-%d",
                   (int)getpid());
    if (mkdir(setup.scratch_dir, 0700) < 0 ||
        chown(boxes.dir, SERVICE_UID, SERVICE_GID) < 0)
        return -1;
    boxes.warden = start_warden(&sock);
    link_init(&boxes.link, sock, boxes.warden);
    if (warden_call_setup(&boxes.link, &setup, &err) < 0 ||
        warden_call_runtime(&boxes.link, image, fd, false, &boxes.runtime,
                            &err) < 0) {
        (void)snprintf(why, sizeof(why), "the warden refused the setup: %s",
                       err.message);
        boxes.missing = why;
    }
    return 0;
}

static int boxes_start(void **state)
{
    static char image[WARDEN_NAME_MAX], kernel[WARDEN_PATH_MAX];

    (void)state;
    if (geteuid() != 0)
        boxes.missing = "needs root";
    else if (!find_image(image))
        boxes.missing = "the runtime image minimal is not built";
    else if (!find_kernel(kernel))
        boxes.missing = "the kernel extension is not built";
    if (boxes.missing)
        return 0;
    (void)snprintf(boxes.dir, sizeof(boxes.dir),
                   "/tmp/glovebox-test-layers-XXXXXX");
    if (!mkdtemp(boxes.dir))
        return -1;
    boxes.dir_fd = open(boxes.dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    return start_boxes(image, kernel);
}

static int run_program(const char *const *argv)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        (void)execv(argv[0], (char *const *)argv);
        _exit(127);
    }
    return waitpid(pid, &status, 0) == pid ? status : -1;
}

static int boxes_stop(void **state)
{
    const char *const argv[] = {"/bin/rm", "-rf", boxes.dir, NULL};

    (void)state;
    if (boxes.dir_fd < 0)
        return 0;
    fd_close(&boxes.link.sock);
    if (boxes.warden)
        (void)waitpid(boxes.warden, NULL, 0);
    fd_close(&boxes.dir_fd);
    return run_program(argv) == 0 ? 0 : -1;
}

#define NEED_BOXES()                                                          \
    do {                                                                      \
        if (boxes.missing) {                                                  \
            print_message("# SKIP: %s\n", boxes.missing);                     \
            skip();                                                           \
        }                                                                     \
    } while (0)

/* ---- layers ------------------------------------------------------------- */

/* A shell on the host, in the data directory, as the service user. */
MAYBE_UNUSED static void host(const char *script)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        if (fchdir(boxes.dir_fd) < 0 ||
            setresgid(SERVICE_GID, SERVICE_GID, SERVICE_GID) < 0 ||
            setresuid(SERVICE_UID, SERVICE_UID, SERVICE_UID) < 0)
            _exit(126);
        umask(022);
        (void)execl("/bin/bash", "bash", "-ec", script, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0)
        fail_msg("on the host: %s", script);
}

static int layer_open(const char *name)
{
    int fd = openat(boxes.dir_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

/* ---- a box -------------------------------------------------------------- */

static void wait_fd(int fd, const char *what)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    if (poll(&p, 1, BOX_WAIT_MS) != 1)
        fail_msg("no %s", what);
}

static struct init_event box_event(struct box *b)
{
    struct init_event event = {0};

    wait_fd(b->events, "event");
    assert_int_equal(wire_recv(b->events, &event, sizeof(event), NULL, NULL),
                     sizeof(event));
    return event;
}

/* What SPAWN answered, asking again while the zygote imports. */
static int box_spawn(struct box *b, const struct warden_limits *limits,
                     const int *layers, uint32_t count, struct error *err)
{
    struct warden_spawn spawn = {.runtime = boxes.runtime,
                                 .layers = count,
                                 .limits = *limits,
                                 .tier = WARDEN_TIER_DEFAULT};
    uint64_t deadline = clock_mono_ms() + START_MS;
    struct meters meters cleanup(meters_close) = METERS_NONE;
    struct warden_spawned spawned = {0};
    int ctl[2], events[2], r;

    assert_int_equal(fd_socketpair(SOCK_SEQPACKET, ctl), 0);
    assert_int_equal(fd_socketpair(SOCK_SEQPACKET, events), 0);
    *b = (struct box){.ctl = ctl[0], .events = events[0]};
    for (;;) {
        r = warden_call_spawn(&boxes.link, &spawn, ctl[1], events[1], layers,
                              &spawned, &meters, err);
        b->slot = spawned.slot;
        if (r != -ERR_UNAVAILABLE || clock_left_ms(deadline) == 0)
            break;
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    fd_close(&ctl[1]);
    fd_close(&events[1]);
    if (r < 0) {
        fd_close(&b->ctl);
        fd_close(&b->events);
    }
    return r;
}

static void box_open(struct box *b, const struct warden_limits *limits,
                     const char *upper, const char *lower)
{
    int layers[2] = {-1, -1};
    uint32_t count = 0;
    struct init_event event;
    struct error err = {0};

    if (upper)
        layers[count++] = layer_open(upper);
    if (lower)
        layers[count++] = layer_open(lower);
    if (box_spawn(b, limits, layers, count, &err) < 0)
        fail_msg("SPAWN: %s", err.message);
    event = box_event(b);
    if (event.type != INIT_EVENT_READY)
        fail_msg("%s: errno %d", event.step, event.errnum);
    for (uint32_t i = 0; i < count; i++)
        fd_close(&layers[i]);
}

static void box_close(struct box *b)
{
    struct error err = {0};

    assert_int_equal(warden_call_release(&boxes.link, b->slot, &err), 0);
    fd_close(&b->ctl);
    fd_close(&b->events);
    free(b->out);
}

/* One request; *ret_fd (may be NULL) gets what came beside the reply. */
static struct init_reply box_ask(struct box *b, uint32_t type, uint32_t arg,
                                 const char *path, const int *fds,
                                 size_t fd_count, char *payload, int *ret_fd)
{
    static char packet[sizeof(struct init_reply) + INIT_REPLY_MAX];
    struct init_request req = {.type = type,
                               .seq = ++b->seq,
                               .arg = arg,
                               .path_len = (uint32_t)strlen(path)};
    struct init_reply reply;
    int got[WIRE_FDS_MAX];
    size_t count = 0;
    ssize_t n;

    memcpy(req.path, path, strlen(path));
    assert_int_equal(wire_send(b->ctl, &req, sizeof(req), fds, fd_count), 0);
    wait_fd(b->ctl, "reply");
    n = wire_recv(b->ctl, packet, sizeof(packet), got, &count);
    assert_true(n >= (ssize_t)sizeof(reply));
    memcpy(&reply, packet, sizeof(reply));
    assert_int_equal(reply.seq, req.seq);
    assert_int_equal((size_t)n, sizeof(reply) + reply.payload_len);
    if (payload)
        memcpy(payload, packet + sizeof(reply), reply.payload_len);
    for (size_t i = 0; i < count; i++)
        if (ret_fd && i == 0)
            *ret_fd = got[i];
        else
            fd_close(&got[i]);
    return reply;
}

static char *read_pipe(int fd)
{
    char *text = xmalloc(1u << 20);
    ssize_t n = fd_read_all(fd, text, (1u << 20) - 1);

    text[n < 0 ? 0 : n] = '\0';
    return text;
}

/* Runs it in the session with bash; output of both kinds in b->out. Returns
 * its exit status, or 128 and the signal. */
static int box_try(struct box *b, const char *script)
{
    int code cleanup(fd_close) = memfd_create("code", MFD_CLOEXEC);
    struct init_event event;
    int pipe_fds[2];
    int fds[3];

    assert_int_equal(fd_write_all(code, script, strlen(script)), 0);
    assert_int_equal(fd_pipe(pipe_fds), 0);
    fds[0] = code;
    fds[1] = fds[2] = pipe_fds[1];
    assert_int_equal(box_ask(b, INIT_SHELL, 0, "", fds, 3, NULL, NULL).errnum,
                     0);
    fd_close(&pipe_fds[1]);
    free(b->out);
    b->out = read_pipe(pipe_fds[0]);
    fd_close(&pipe_fds[0]);
    event = box_event(b);
    assert_int_equal(event.type, INIT_EVENT_SHELL);
    return WIFEXITED(event.wait_status) ? WEXITSTATUS(event.wait_status)
                                        : 128 + WTERMSIG(event.wait_status);
}

static void box_run(struct box *b, const char *script)
{
    int status = box_try(b, script);

    if (status != 0)
        fail_msg("%s\nexit %d: %s", script, status, b->out);
}

/* A kernel in place of all else that runs; runs a cell and ends it. Output of
 * both kinds in b->out. */
MAYBE_UNUSED static void box_cell(struct box *b, const char *code)
{
    struct kernel_frame frame;
    int frames[2], pipe_fds[2];
    int fds[3];

    assert_int_equal(fd_socketpair(SOCK_STREAM, frames), 0);
    assert_int_equal(fd_pipe(pipe_fds), 0);
    fds[0] = frames[1];
    fds[1] = fds[2] = pipe_fds[1];
    assert_int_equal(box_ask(b, INIT_START, 0, "", fds, 3, NULL, NULL).errnum,
                     0);
    fd_close(&frames[1]);
    fd_close(&pipe_fds[1]);
    wait_fd(frames[0], "frame");
    assert_int_equal(fd_read_all(frames[0], &frame, sizeof(frame)),
                     sizeof(frame));
    assert_int_equal(frame.type, KERNEL_READY);
    assert_int_equal(
        wire_frame_send(frames[0], KERNEL_EXECUTE, code, strlen(code)), 0);
    (void)shutdown(frames[0], SHUT_WR); /* it ends after the cell */
    free(b->out);
    b->out = read_pipe(pipe_fds[0]);
    fd_close(&pipe_fds[0]);
    fd_close(&frames[0]);
    assert_int_equal(box_event(b).type, INIT_EVENT_KERNEL);
}

/* Its standard output and error, exactly. */
static void box_says(struct box *b, const char *script, const char *expected)
{
    box_run(b, script);
    assert_string_equal(b->out, expected);
}

/* All changes, as "kind:path" each with a blank between; F C W as in
 * enum init_entry_kind: File, Wrote, Gone, Cleared, Skipped; + executable. */
MAYBE_UNUSED static const char *box_scan(struct box *b, uint32_t arg)
{
    static char text[1u << 16], page[INIT_REPLY_MAX];
    struct init_reply reply;

    text[0] = '\0';
    b->cut = 0;
    do {
        reply = box_ask(b, INIT_SCAN, arg, "", NULL, 0, page, NULL);
        assert_int_equal(reply.errnum, 0);
        for (size_t at = 0; at < reply.payload_len;) {
            struct init_entry e;
            size_t used = strlen(text);

            memcpy(&e, page + at, sizeof(e));
            at += sizeof(e);
            if (used < sizeof(text) - INIT_PATH_MAX - 8)
                (void)snprintf(text + used, sizeof(text) - used, "%s%c%s:%.*s",
                               used ? " " : "", ".FWGCS"[e.kind],
                               e.executable ? "+" : "", (int)e.path_len,
                               page + at);
            at += e.path_len;
            assert_true(at <= reply.payload_len);
        }
        b->cut |= reply.arg;
        arg = 1;
    } while (reply.arg);
    b->cut &= INIT_SCAN_CUT;
    b->free_bytes = reply.scratch_free_bytes;
    b->free_inodes = reply.scratch_free_inodes;
    return text;
}

/* An upload through the broker; what PUBLISH answered. */
MAYBE_UNUSED static int box_put(struct box *b, const char *path,
                                const char *text)
{
    int fd cleanup(fd_close) = -1;
    struct init_reply reply =
        box_ask(b, INIT_CREATE, 0, "", NULL, 0, NULL, &fd);

    assert_int_equal(reply.errnum, 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    return box_ask(b, INIT_PUBLISH, reply.arg, path, NULL, 0, NULL, NULL)
        .errnum;
}

MAYBE_UNUSED static int box_remove(struct box *b, const char *path)
{
    return box_ask(b, INIT_REMOVE, 0, path, NULL, 0, NULL, NULL).errnum;
}

#endif
