/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes without a service: a real warden, real sandboxes, and src/box/ above
 * them. Commands come on stdin, one a line; each is answered by one line
 * "ok MICROSECONDS ..." or "error ...", and by bytes where the line says how
 * many. Run as root by tests/sandbox/95-memory.test.mjs and tests/memory/.
 *
 *   open ID CORES MEMORY_MIB [IMAGE [FOLDER]]
 *                                      ok US fresh | woken | instead REASON;
 *                                      "-" for no image. FOLDER: /mnt/data
 *   export ID FOLDER                   ok US: files of /mnt/data
 *   cell ID BYTES, then the code       ok US done|error BYTES, then output
 *   look ID                            ok US BYTES UNCARRIED REFUSED
 *   save ID IMAGE MOST                 ok US BYTES UNCARRIED REFUSED
 *   point ID MOST                      ok US KEPT
 *   undo ID N, redo ID N, drop ID      ok US
 *   steps ID                           ok US BACK FORWARD
 *   left ID                            ok US 0|1: leftover processes
 *   interrupt ID, restart ID           ok US
 *   relieve ID                         ok US BACK
 *   alive ID                           ok US 0|1
 *   close ID                           ok US
 *
 * Usage: driver BUILD RUNTIME DEFINITIONS CACHE SCRATCH
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "box/box.h"
#include "conf/runtime.h"
#include "warden/call.h"
#include "wire/wire.h"

#define BOXES 64
#define CELL_MS 120000u
#define SPAWN_TRIES 12000

static struct warden_link *warden;
static uint32_t runtime;
static struct box *boxes[BOXES];
static const atomic_bool stopping = false;

static uint64_t now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static int spec_fd(const struct conf_runtime_def *def)
{
    struct buf spec cleanup(buf_done) = {0};
    int fd = memfd_create("runtime", MFD_CLOEXEC);

    buf_adds(&spec, "{\"preload\":[");
    for (unsigned i = 0; i < def->preload_count; i++)
        buf_addf(&spec, "%s\"%s\"", i ? "," : "", def->preload[i]);
    buf_adds(&spec, "],\"environment\":{}}");
    if (fd < 0 || fd_write_all(fd, spec.data, spec.len) < 0 ||
        lseek(fd, 0, SEEK_SET) < 0)
        abort();
    return fd;
}

static int set_up(char **argv, struct error *err)
{
    struct warden_setup setup = {.max_slots = BOXES + 8,
                                 .zygote_max_age_s = 86400,
                                 .zygote_max_spawns = 1000000,
                                 .max_memory_bytes = 8ULL << 30,
                                 .max_scratch_bytes = 1ULL << 30,
                                 .max_processes = 512,
                                 .max_cores = 8,
                                 .spare_scratches = 2,
                                 .uid_count = 1000};
    struct conf_runtime found cleanup(conf_runtime_done) = {0};
    int spec cleanup(fd_close) = -1;
    char path[1024];
    const char *image;
    int rc;

    setup.uid_base = 1500000000u + (uint32_t)(getpid() % 50000) * 1000u;
    (void)snprintf(setup.scratch_dir, sizeof(setup.scratch_dir), "%s",
                   argv[5]);
    (void)snprintf(setup.cache_dir, sizeof(setup.cache_dir), "%s", argv[4]);
    (void)snprintf(setup.kernel_dir, sizeof(setup.kernel_dir), "%s/lib/kernel",
                   argv[1]);
    (void)snprintf(setup.instance, sizeof(setup.instance), "gb-memory-%d",
                   (int)getpid());
    (void)snprintf(path, sizeof(path), "%s/bin/glovebox-warden", argv[1]);
    rc = warden_call_open(path, &setup, &warden, err);
    if (rc == 0)
        rc = warden_call_tend(warden, err);
    if (rc == 0)
        rc = conf_runtime_find(argv[3], argv[4], argv[2], &found, err);
    if (rc < 0)
        return rc;
    if (!found.built)
        return error_set(err, ERR_NOT_FOUND, "the runtime is not built");
    image = strrchr(found.image_path, '/');
    spec = spec_fd(found.def);
    return warden_call_runtime(warden, image ? image + 1 : found.image_path,
                               spec, false, &runtime, err);
}

/* ---- commands ----------------------------------------------------------- */

static void say_error(const struct error *err)
{
    printf("error %s\n", err->message);
}

static void do_open(unsigned id, char *rest, uint64_t began)
{
    static const char *const how[] = {"fresh", "woken", "instead"};
    struct warden_limits limits = {.scratch_bytes = 256u << 20,
                                   .tmp_bytes = 128u << 20,
                                   .shm_bytes = 64u << 20,
                                   .scratch_inodes = 20000,
                                   .processes = 128,
                                   .descriptors = 256};
    struct box_spec spec = {.runtime = runtime, .limits = &limits};
    struct box_start start;
    struct error err = {0};
    char path[1024] = "", folder[1024] = "";
    unsigned cores = 1, mib = 1024;
    int fd cleanup(fd_close) = -1;
    int layer cleanup(fd_close) = -1;
    int rc = -ERR_UNAVAILABLE;

    (void)sscanf(rest, "%u %u %1023s %1023s", &cores, &mib, path, folder);
    if (folder[0]) {
        layer = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        spec.layers = &layer;
        spec.layer_count = 1;
    }
    limits.cores = cores;
    limits.memory_bytes = (uint64_t)mib << 20;
    if (path[0] && strcmp(path, "-") != 0) {
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            printf("error no such image\n");
            return;
        }
        spec.origin =
            (struct box_origin){.kind = BOX_ORIGIN_SNAPSHOT, .image_fd = fd};
    }
    for (int i = 0; i < SPAWN_TRIES && rc == -ERR_UNAVAILABLE; i++) {
        rc = box_open(warden, &spec, &stopping, &boxes[id], &start, &err);
        if (rc == -ERR_UNAVAILABLE)
            (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    if (rc < 0)
        say_error(&err);
    else
        printf("ok %llu %s %s\n", (unsigned long long)(now_us() - began),
               how[start.how], box_image_problem_text(start.problem));
}

static bool drain(struct box *b, struct buf *out)
{
    bool any = false;

    for (int i = 0; i < 2; i++) {
        char part[65536];
        ssize_t n;

        while ((n = read(box_pipe_fd(b, i), part, sizeof(part))) > 0) {
            buf_add(out, part, (size_t)n);
            any = true;
        }
    }
    return any;
}

static void add_pairs(struct buf *out, const char *payload, size_t len)
{
    struct kernel_pair pair;
    size_t pos = 0;

    while (wire_pairs_next(payload, len, &pos, &pair) == 1) {
        bool text = pair.key_len >= 5 && memcmp(pair.key, "text/", 5) == 0;
        bool word = (pair.key_len == 4 && memcmp(pair.key, "name", 4) == 0) ||
                    (pair.key_len == 7 && memcmp(pair.key, "message", 7) == 0);

        if (text || word) {
            buf_add(out, pair.value, pair.value_len);
            buf_adds(out, "\n");
        } else {
            buf_addf(out, "[%.*s %u]\n", (int)pair.key_len, pair.key,
                     pair.value_len);
        }
    }
}

static void send_frame(struct box *b, uint32_t type, const char *bytes,
                       size_t len)
{
    struct kernel_frame head = {type, (uint32_t)len};

    if (fd_set_nonblock(box_frames_fd(b), 0) < 0 ||
        fd_write_all(box_frames_fd(b), &head, sizeof(head)) < 0 ||
        fd_write_all(box_frames_fd(b), bytes, len) < 0)
        fprintf(stderr, "driver: cannot send\n");
    (void)fd_set_nonblock(box_frames_fd(b), 1);
}

/* 1: the cell is over, 0: go on, -1: the kernel is gone. */
static int take_frames(struct box *b, struct buf *out, bool *ret_failed)
{
    ssize_t n = box_frames_recv(b);
    struct buf *in = box_frames_buffer(b);
    struct kernel_frame head;

    if (n == 0 || (n < 0 && n != -EAGAIN))
        return -1;
    while (in->len >= sizeof(head)) {
        const char *payload = in->data + sizeof(head);

        memcpy(&head, in->data, sizeof(head));
        if (in->len < sizeof(head) + head.len)
            return 0;
        if (head.type == KERNEL_SYNC) {
            (void)drain(b, out);
            send_frame(b, KERNEL_SYNCED, "", 0);
        } else if (head.type == KERNEL_DISPLAY || head.type == KERNEL_RESULT ||
                   head.type == KERNEL_ERROR) {
            (void)drain(b, out);
            add_pairs(out, payload, head.len);
        } else if (head.type == KERNEL_DONE) {
            struct kernel_done done;

            memcpy(&done, payload, sizeof(done));
            *ret_failed = done.status != 0;
            (void)drain(b, out);
        }
        buf_consume(in, sizeof(head) + head.len);
        if (head.type == KERNEL_DONE)
            return 1;
    }
    return 0;
}

static void do_cell(struct box *b, const char *code, size_t len,
                    uint64_t began)
{
    uint64_t deadline = clock_mono_ms() + CELL_MS;
    struct buf out cleanup(buf_done) = {0};
    bool failed = false;
    int r = 0;

    if (!box_kernel_alive(b)) {
        printf("error no kernel\n");
        return;
    }
    box_cell_begin(b);
    send_frame(b, KERNEL_EXECUTE, code, len);
    while (r == 0 && clock_left_ms(deadline) > 0) {
        struct pollfd p[4] = {{box_frames_fd(b), POLLIN, 0},
                              {box_pipe_fd(b, 0), POLLIN, 0},
                              {box_pipe_fd(b, 1), POLLIN, 0},
                              {box_events_fd(b), POLLIN, 0}};

        (void)poll(p, 4, box_has_points(b) ? (int)BOX_RELIEVE_MS : 1000);
        box_points_relieve(b);
        (void)drain(b, &out);
        if (p[0].revents)
            r = take_frames(b, &out, &failed);
        /* Points hold the channel too: only pid 1 tells of its end. */
        if (r == 0 && (!box_check(b) || !box_kernel_alive(b)))
            r = -1;
    }
    buf_add(&out, "\n", 2); /* the output as one text */
    out.len -= 2;
    if (r <= 0) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        (void)box_check(b);
        box_kernel_lost(b);
        printf("error the kernel %s: %.*s\n", r < 0 ? "ended" : "hangs",
               out.data ? (int)strcspn(out.data, "\n") : 0, out.data);
        return;
    }
    printf("ok %llu %s %zu\n", (unsigned long long)(now_us() - began),
           failed ? "error" : "done", out.len);
    (void)fwrite(out.data, 1, out.len, stdout);
}

static void do_memory(struct box *b, const char *path, uint64_t most,
                      uint64_t began)
{
    struct box_memory memory = {0};
    struct error err = {0};
    int fd cleanup(fd_close) = -1;
    int rc;

    if (path[0]) {
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        rc = fd < 0 ? -1 : box_memory_save(b, fd, most, &memory, &err);
    } else {
        rc = box_memory_look(b, &memory, &err);
    }
    if (rc < 0)
        say_error(&err);
    else
        printf("ok %llu %llu %u %d\n", (unsigned long long)(now_us() - began),
               (unsigned long long)memory.bytes, memory.uncarried,
               memory.refused);
}

static bool copy_one(struct box *b, const char *path, char *to)
{
    struct broker_request request = {.type = INIT_OPEN, .path = path};
    struct broker_reply reply;
    struct error err;
    char part[65536];
    int fd cleanup(fd_close) = -1;
    int out cleanup(fd_close) = -1;
    ssize_t n;

    for (char *p = strchr(to + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        (void)mkdir(to, 0755); /* or it is there */
        *p = '/';
    }
    if (box_broker_call(b, &request, NULL, 0, true, &reply, &err) < 0 ||
        reply.errnum)
        return false;
    fd = reply.fd;
    out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    while ((n = read(fd, part, sizeof(part))) > 0)
        if (fd_write_all(out, part, (size_t)n) < 0)
            return false;
    return out >= 0 && n == 0;
}

static void do_export(struct box *b, const char *folder, uint64_t began)
{
    static char room[BOX_IO_SIZE];
    struct broker_request request = {
        .type = INIT_LIST, .arg = 1000, .path = ""};
    struct broker_reply reply;
    struct init_entry entry;
    struct error err = {0};
    const char *path;
    size_t pos = 0;

    if (box_broker_call(b, &request, room, sizeof(room), false, &reply, &err) <
            0 ||
        reply.errnum) {
        printf("error cannot list\n");
        return;
    }
    while (box_broker_entry(reply.payload, reply.payload_len, &pos, &entry,
                            &path) == 1) {
        char name[1100], to[3000];

        (void)snprintf(name, sizeof(name), "%.*s", (int)entry.path_len, path);
        (void)snprintf(to, sizeof(to), "%s/%s", folder, name);
        if (!copy_one(b, name, to)) {
            printf("error cannot copy %s\n", name);
            return;
        }
    }
    printf("ok %llu\n", (unsigned long long)(now_us() - began));
}

static void finish(int rc, const struct error *err, uint64_t began)
{
    if (rc < 0)
        say_error(err);
    else
        printf("ok %llu\n", (unsigned long long)(now_us() - began));
}

static void do_point(struct box *b, unsigned most, uint64_t began)
{
    struct error err = {0};
    unsigned kept = 0;
    int rc = box_point_add(b, most, &kept, &err);

    if (rc < 0)
        say_error(&err);
    else
        printf("ok %llu %u\n", (unsigned long long)(now_us() - began), kept);
}

static void do_left(struct box *b)
{
    struct warden_usage usage;
    struct error err;

    (void)box_check(b);
    if (box_usage(b, &usage, &err) < 0) {
        say_error(&err);
        return;
    }
    box_usage_set_base(b, &usage);
    printf("ok 0 %d %u %llu\n", box_has_leftovers(b), usage.processes,
           (unsigned long long)usage.memory_peak_bytes);
}

static void do_close(unsigned id)
{
    box_release(boxes[id]);
    box_unref(boxes[id]);
    boxes[id] = NULL;
}

static void serve(char *line)
{
    char verb[16] = "", path[1024] = "";
    unsigned id = 0, n = 0;
    unsigned long long most = 0;
    int used = 0;
    uint64_t began = now_us();
    struct error err = {0};

    (void)sscanf(line, "%15s %u%n", verb, &id, &used);
    if (id >= BOXES || (strcmp(verb, "open") != 0 && !boxes[id])) {
        printf("error no such box\n");
        return;
    }
    line += used;
    (void)sscanf(line, "%u", &n);
    if (strcmp(verb, "open") == 0) {
        do_open(id, line, began);
    } else if (strcmp(verb, "cell") == 0) {
        char *code cleanup(mem_free) = xmalloc(n + 1);

        if (fread(code, 1, n, stdin) == n)
            do_cell(boxes[id], code, n, began);
    } else if (strcmp(verb, "look") == 0) {
        do_memory(boxes[id], "", 0, began);
    } else if (strcmp(verb, "save") == 0) {
        (void)sscanf(line, "%1023s %llu", path, &most);
        do_memory(boxes[id], path, most, began);
    } else if (strcmp(verb, "export") == 0) {
        (void)sscanf(line, "%1023s", path);
        do_export(boxes[id], path, began);
    } else if (strcmp(verb, "point") == 0) {
        do_point(boxes[id], n, began);
    } else if (strcmp(verb, "undo") == 0) {
        finish(box_point_undo(boxes[id], n, &err), &err, began);
    } else if (strcmp(verb, "redo") == 0) {
        finish(box_point_redo(boxes[id], n, &err), &err, began);
    } else if (strcmp(verb, "drop") == 0) {
        box_points_drop(boxes[id]);
        finish(0, &err, began);
    } else if (strcmp(verb, "steps") == 0) {
        printf("ok 0 %u %u\n", box_points_back(boxes[id]),
               box_points_forward(boxes[id]));
    } else if (strcmp(verb, "left") == 0) {
        do_left(boxes[id]);
    } else if (strcmp(verb, "interrupt") == 0) {
        finish(box_broker_signal(boxes[id], INIT_SIGNAL_INTERRUPT, BOX_CALL_MS,
                                 &err),
               &err, began);
    } else if (strcmp(verb, "restart") == 0) {
        finish(box_kernel_start(boxes[id], &err), &err, began);
    } else if (strcmp(verb, "relieve") == 0) {
        box_points_relieve(boxes[id]);
        printf("ok 0 %u\n", box_points_back(boxes[id]));
    } else if (strcmp(verb, "alive") == 0) {
        (void)box_check(boxes[id]);
        printf("ok 0 %d\n", box_kernel_alive(boxes[id]));
    } else if (strcmp(verb, "close") == 0) {
        do_close(id);
        finish(0, &err, began);
    } else {
        printf("error unknown command\n");
    }
}

int main(int argc, char **argv)
{
    struct error err = {0};
    char line[4096];

    (void)signal(SIGPIPE, SIG_IGN);
    if (argc != 6) {
        fprintf(stderr, "usage: driver BUILD RUNTIME DEFINITIONS CACHE "
                        "SCRATCH\n");
        return 2;
    }
    if (set_up(argv, &err) < 0) {
        fprintf(stderr, "driver: %s\n", err.message);
        return 1;
    }
    while (fgets(line, sizeof(line), stdin)) {
        serve(line);
        (void)fflush(stdout);
    }
    for (unsigned i = 0; i < BOXES; i++)
        if (boxes[i])
            do_close(i);
    warden_call_close(warden);
    return 0;
}
