/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sandbox as seen by the daemon. A box is created by the warden and then
 * reached over five channels: ctl (requests to pid 1), events (from pid 1),
 * frames (to and from the kernel) and the pipes of stdout and stderr.
 *
 *   box.c        open, usage, scheduling class, kill, release
 *   broker.c     requests to pid 1
 *   kernel.c     starting a kernel, its frames channel, starting a shell
 *   guest_env.c  environment and certificate authority of code inside
 *   file.c       files into the box, and checks of descriptors out of it
 *   scan.c       which files have changed
 *
 * A box knows no session. It reports its release to its owner by a callback.
 *
 * Threads: one thread at a time has the turn of a box. Functions marked "turn"
 * are for that thread only; all others may be called from any thread. A
 * broken box (it lied, hung or ended) is good for nothing but its release.
 */
#ifndef GLOVEBOX_BOX_BOX_H
#define GLOVEBOX_BOX_BOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "warden/call.h"
#include "wire/kernel_msg.h"

struct box;
struct error;

#define BOX_SPAWN_MS 30000u /* how long to wait for a zygote */
#define BOX_CALL_MS 5000u   /* the deadline of one request to pid 1 */
#define BOX_KILL_MS 2000u   /* the same for a request to kill */
#define BOX_IO_SIZE 65536u  /* of a buffer for replies of pid 1 */

/* How long a sandbox may take to come up. A slower one is a sign of an
 * overloaded machine (ERR_BUSY), not of a misbehaving session. Unit tests
 * define their own. */
struct box_times {
    uint32_t ready_ms;  /* spawn to "walls stand" */
    uint32_t kernel_ms; /* start to the kernel's first frame */
    uint32_t slot_ms;   /* until the warden has a free slot */
};
extern const struct box_times box_times;

/* ---- box.c: life ------------------------------------------------------- */

/* layers (borrowed): folders of the workspace, the upper one first. The box
 * comes with a running kernel. */
int box_open(struct warden_link *link, uint32_t runtime,
             const struct warden_limits *limits, const int *layers,
             unsigned layer_count, bool background,
             const atomic_bool *stopping, struct box **ret, struct error *err);
struct box *box_ref(struct box *b);
void box_unref(struct box *b); /* accepts NULL */
/* Ends everything inside. A failure is logged; the link to the warden tries
 * again. */
void box_kill(struct box *b);
void box_release(struct box *b); /* and gives the slot back */
/* fn(ctx, b) is called once, by box_release. A NULL ctx cancels that. */
void box_on_release(struct box *b, void (*fn)(void *ctx, struct box *b),
                    void *ctx);

bool box_is_broken(const struct box *b);
void box_break(struct box *b); /* marks it broken and kills it */
/* Has code run in it, or has anything been written to it? */
bool box_is_touched(const struct box *b);
void box_touch(struct box *b);
uint64_t box_created_ms(const struct box *b); /* by clock_mono_ms */
uint32_t box_slot(const struct box *b);

/* 1: one event of pid 1, 0: none now, -1: the box is gone. Turn. */
int box_event(struct box *b, struct init_event *ret);
int box_events_fd(const struct box *b); /* to poll for these; turn */
/* Reads pending events. False: the box is gone. Otherwise box_kernel_alive is
 * up to date. Turn. */
bool box_check(struct box *b);

/* ---- box.c: usage and scheduling class ---------------------------------- */

/* Counters of the control group, by its meters or from the warden. */
int box_usage(struct box *b, struct warden_usage *ret, struct error *err);
/* The same from the warden, which also knows how an ended box ended. Fails
 * once the slot was released. */
int box_fate(struct box *b, struct warden_usage *ret, struct error *err);
/* Usage up to the end of the last execution. Turn, as the next three. */
const struct warden_usage *box_usage_base(const struct box *b);
void box_usage_set_base(struct box *b, const struct warden_usage *usage);
/* Has the box used more than that much CPU time since, or is that unknown? */
bool box_used_cpu(const struct box *b, uint64_t ns);
/* Were more processes or threads left behind than a new box has? */
bool box_has_leftovers(const struct box *b);

/* Boxes in the background class, counted for a tenant and, by its parent, for
 * all tenants. */
struct box_count {
    atomic_uint boxes;
    struct box_count *parent; /* or NULL */
};
void box_count_add(struct box_count *c, int delta);
/* Counts the box in c, and no longer where it was counted before. NULL:
 * nowhere. box_release does that too. */
void box_count_in(struct box *b, struct box_count *c);
/* A failure does no harm. */
void box_set_background(struct box *b, bool background);
bool box_is_background(const struct box *b); /* turn */

/* ERR_BUSY: `what` (a clause, "it did not …") within ms. */
int box_late(const char *what, uint32_t ms, struct error *err);

/* ---- kernel.c: all with the turn ----------------------------------------
 */

/* Ends everything inside but pid 1 and starts a new kernel. */
int box_kernel_start(struct box *b, struct error *err);
bool box_kernel_alive(const struct box *b);
void box_kernel_lost(struct box *b); /* it is no longer usable */
bool box_is_kernel(const struct box *b, uint32_t pid);
/* Cells that this kernel has run. */
uint32_t box_cells(const struct box *b);
void box_cell_begin(struct box *b);
/* Starts a shell on the sealed code; BOX_CALL_MS. As box_broker_call. */
struct broker_reply;
int box_shell_start(struct box *b, int code_fd, struct broker_reply *ret,
                    struct error *err);
/* The read end of stdout (0) or stderr (1); non-blocking. */
int box_pipe_fd(const struct box *b, int which);

int box_frames_fd(const struct box *b); /* -1: no kernel */
/* Sends what the kernel takes now: bytes, or -1 when the channel is closed. */
ssize_t box_frames_send(struct box *b, struct iovec *iov, size_t count);
/* Reads once, at most BOX_IO_SIZE bytes, into the buffer: bytes, 0 at the end
 * of the channel, or a negative errno. */
ssize_t box_frames_recv(struct box *b);
/* Bytes received and not parsed yet; the caller consumes them. */
struct buf *box_frames_buffer(struct box *b);

/* ---- broker.c: requests to pid 1 ---------------------------------------- */

struct broker_request {
    uint32_t type; /* enum init_request_type */
    uint32_t arg;
    const char *path; /* NULL: none; checked before */
    const int *fds;   /* borrowed */
    size_t fd_count;
    uint32_t timeout_ms; /* 0: BOX_CALL_MS */
};

struct broker_reply {
    int errnum; /* 0, or why pid 1 refused */
    uint32_t arg;
    int fd;              /* owned by caller; -1: none came */
    const char *payload; /* in the caller's buffer */
    size_t payload_len;
    uint64_t free_bytes;
    uint64_t free_inodes;
    uint32_t blocked; /* SCAN: there are refused connection attempts */
};

/*
 * One request, one reply. room: for the reply and its payload, or NULL for
 * requests that have none. Fails only when the box is broken (it is killed
 * then); a refusal is errnum of the reply. want_fd: one must come on success,
 * none otherwise.
 */
int box_broker_call(struct box *b, const struct broker_request *request,
                    char *room, size_t room_len, bool want_fd,
                    struct broker_reply *ret, struct error *err);
/* The two halves, for doing something else between. The box's ctl lock is
 * held from a successful begin to the end. */
int box_broker_begin(struct box *b, const struct broker_request *request,
                     struct error *err);
int box_broker_end(struct box *b, char *room, size_t room_len, bool want_fd,
                   struct broker_reply *ret, struct error *err);
int box_broker_signal(struct box *b, enum init_signal sig, uint32_t timeout_ms,
                      struct error *err);
/* One entry of a SCAN or LIST payload: 1, 0 at the end, -EBADMSG. */
int box_broker_entry(const char *payload, size_t len, size_t *pos,
                     struct init_entry *ret, const char **ret_path);

/* ---- guest_env.c --------------------------------------------------------
 * Both last as long as the box: a new kernel or shell in it has them too. The
 * environment of a session's next box is set again by its owner.
 */

/* At most INIT_ENVIRONMENT_MAX bytes of lines "NAME=VALUE", or "NAME" to
 * remove one; names of letters, digits and '_', values without control
 * characters. Added to the lines set before. Shells see it from now on, Python
 * from the next cell. */
int box_guest_env_set(struct box *b, const char *text, size_t len,
                      struct error *err);
/* A certificate authority, PEM, appended to the system's in INIT_CA_FILE; it
 * replaces the one set before. len 0: none. */
int box_guest_ca_set(struct box *b, const char *pem, size_t len,
                     struct error *err);
/* The lines that the kernel does not know yet, once; empty: none. ret:
 * initialised. */
void box_guest_env_take(struct box *b, struct buf *ret);

/* ---- file.c ------------------------------------------------------------- */

/* A new file in two steps: its bytes in the box without a name, then under
 * its name. publish discards what it could not name. */
int box_file_stage(struct box *b, int fd, uint64_t size, bool executable,
                   uint32_t *ret_handle, struct error *err);
int box_file_publish(struct box *b, uint32_t handle, const char *path,
                     struct error *err);
void box_file_discard(struct box *b, uint32_t handle);
/* The error for a client when pid 1 refused. */
int box_file_refused(int errnum, struct error *err);
/* Is a received descriptor a regular file, open as it should be? */
int box_file_check_fd(int fd, bool writable, struct stat *ret,
                      struct error *err);

/* ---- scan.c -------------------------------------------------------------
 */

struct change {
    uint16_t kind; /* enum init_entry_kind */
    bool executable;
    uint64_t size;          /* SKIPPED: errno */
    uint64_t inode, stored; /* WROTE: of init_entry; claims of pid 1 */
    size_t path;            /* offset in paths */
};

struct changes {
    struct change *items; /* in byte order of path */
    size_t count, cap;
    struct buf paths;
    bool cut; /* there were more than a scan may hold */
};

void box_changes_done(struct changes *ch);
const char *box_changes_path(const struct changes *ch, size_t i);
/* begin sends the first request (false: the box is of no use), end reads all
 * replies; between them something else may be done. all: also changes that
 * were reported before. io: BOX_IO_SIZE. Turn. */
bool box_scan_begin(struct box *b, bool all);
int box_scan_end(struct box *b, char *io, struct changes *ret,
                 struct broker_reply *ret_last);

#endif
