/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes what a session can say of its run: the frames of its kernel and the
 * bytes it prints, in pieces of any size, through the daemon's own reader and
 * on to the JSON that clients get. Whatever comes in, each event must be one
 * line of valid JSON, and the budgets must hold.
 *
 * Input: a byte of flags, a byte for the size of pieces, then the frames. The
 * same bytes are printed too when the flags say so, and read as the list of
 * files that pid 1 sends.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "box/box_int.h"
#include "doors/native/native.h"
#include "execution/execution_int.h"
#include "session/session_int.h"
#include "json/json.h"

#define OUTPUT_CAP 512u
#define READS_MAX 64
#define PIECES_MAX 32 /* each costs system calls */

enum {
    IN_CELL = 1,    /* results and errors may come */
    PRINTS = 2,     /* the pieces are printed as well */
    CAPPED = 4,     /* output above OUTPUT_CAP is cut */
    NEARLY_FULL = 8 /* the budget for displays is almost spent */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tenant tenant;
static struct session owner = {.tenant = &tenant};

struct kernel {
    int frames;  /* the kernel's end */
    int prints;  /* the write end of its stdout */
    int silence; /* of its stderr */
    struct box box;
    struct runner runner;
    struct observations facts;
    struct collect c;
};

static void kernel_init(struct kernel *k, uint8_t flags)
{
    static const struct actor nobody = {.tenant = "", .key = ""};
    struct exec_spec spec = {.code = "", .code_len = 0};
    int pair[2], out[2], err[2];

    memset(k, 0, sizeof(*k));
    atomic_store(&owner.refs, 2);
    assert(fd_socketpair(SOCK_STREAM, pair) == 0);
    assert(pipe2(out, O_CLOEXEC | O_NONBLOCK) == 0);
    assert(pipe2(err, O_CLOEXEC | O_NONBLOCK) == 0);
    k->frames = pair[1];
    k->prints = out[1];
    k->silence = err[1];
    k->box.frames = pair[0];
    k->runner.io = xmalloc(SESSION_IO_SIZE);
    k->c = (struct collect){
        .language = language_get(EXEC_PYTHON),
        .box = &k->box,
        .e = execution_new(NULL, &owner, &nobody, &spec, 1),
        .runner = &k->runner,
        .observed = &k->facts,
        .output_cap = flags & CAPPED ? OUTPUT_CAP : 1u << 20,
        .streams = {{.type = EVENT_STDOUT, .fd = out[0]},
                    {.type = EVENT_STDERR, .fd = err[0]}},
        .in_cell = flags & IN_CELL,
        .display_bytes = flags & NEARLY_FULL ? COLLECT_DISPLAY_BYTES - 16 : 0,
    };
}

static void kernel_done(struct kernel *k)
{
    execution_unref(k->c.e);
    buf_done(&k->c.out);
    buf_done(&k->box.pending);
    free(k->runner.io);
    fd_close(&k->frames);
    fd_close(&k->prints);
    fd_close(&k->silence);
    fd_close(&k->box.frames);
    fd_close(&k->c.streams[0].fd);
    fd_close(&k->c.streams[1].fd);
}

/* One piece through the channel; false when the reader is done with it. */
static bool feed(struct kernel *k, const uint8_t *bytes, size_t len,
                 bool prints)
{
    bool more = true;

    if (prints)
        (void)!write(k->prints, bytes, len); /* a full pipe is no matter */
    if (send(k->frames, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL) !=
        (ssize_t)len)
        return false;
    for (int i = 0; i < READS_MAX && more && !k->c.ended; i++)
        if (execution_frames_read(&k->c, &more) != FRAMES_OPEN)
            return false;
    if (k->c.ended || k->c.out.len == k->c.out_pos)
        return !k->c.ended;
    return execution_frames_flush(&k->c) == FRAMES_OPEN;
}

static void check_json(const struct buf *json)
{
    /* A value a session made may be as deep as the cap; it stands deeper
     * here. */
    struct json_limits limits = json_limits_any;
    struct error err;
    int r;

    limits.depth = JSON_DEPTH_CAP;
    r = json_check(json->data, json->len, &limits, &err);
    assert(r == 0 || strstr(err.message, "deep"));
    assert(utf8_valid(json->data, json->len));
    assert(!memchr(json->data, '\n', json->len));
    assert(!memchr(json->data, '\r', json->len));
}

static void check_events(struct execution *e)
{
    unsigned counts[EVENT_DONE + 1] = {0};
    struct exec_event event = {0};
    struct buf json = {0};
    size_t printed = 0;

    while (execution_event(e, event.number, &event)) {
        counts[event.type]++;
        if (event.type == EVENT_STDOUT)
            printed += event.len;
        native_encode_event(e, &event, event.data, event.len, "", &json);
        check_json(&json);
        buf_reset(&json);
    }
    native_encode_execution(e, "", &json);
    check_json(&json);
    buf_done(&json);
    assert(counts[EVENT_DISPLAY] <= COLLECT_DISPLAYS_MAX);
    assert(counts[EVENT_CLEAR] <= COLLECT_CLEARS_MAX);
    assert(printed <= 1u << 20);
}

static void check_list(const char *payload, size_t len)
{
    struct init_entry entry;
    struct error err;
    const char *path;
    size_t pos = 0, before = 0;
    int r;

    while ((r = box_broker_entry(payload, len, &pos, &entry, &path)) > 0) {
        assert(path >= payload + before + sizeof(entry));
        assert(path + entry.path_len == payload + pos && pos <= len);
        before = pos;
        if (session_path_check(path, entry.path_len, &err) == 0)
            assert(entry.path_len && path[0] != '/' &&
                   !memchr(path, '\0', entry.path_len));
    }
    assert(r == -EBADMSG || (r == 0 && pos == len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kernel k;
    uint8_t flags;
    size_t step;

    if (size < 2)
        return 0;
    flags = data[0];
    step = data[1] ? MAX(data[1], size / PIECES_MAX) : size;
    kernel_init(&k, flags);
    for (size_t at = 2; at < size; at += step)
        if (!feed(&k, data + at, MIN(step, size - at), flags & PRINTS))
            break;
    execution_output_drain(&k.c, SESSION_IO_SIZE);
    execution_output_flush(&k.c);
    check_events(k.c.e);
    check_list((const char *)data + 2, size - 2);
    kernel_done(&k);
    return 0;
}
