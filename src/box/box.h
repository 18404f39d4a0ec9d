/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sandbox as seen by the daemon. A box is created by the warden and then
 * reached over five channels: ctl (requests to pid 1), events (from pid 1),
 * frames (to and from the kernel) and the pipes of stdout and stderr.
 *
 *   box.c        open, usage, scheduling class, kill, release
 *   broker.c     requests to pid 1
 *   kernel.c     starting a kernel, its frames channel, starting a shell
 *   helper.c     interpreters of other languages beside the kernel
 *   guest_env.c  environment and certificate authority of code inside
 *   file.c       files into the box, and checks of descriptors out of it
 *   scan.c       which files have changed
 *   memory.c     the kernel's memory: images and undo points
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

/* ---- kernel.c: where a kernel comes from ---------------------------------
 *
 * A kernel is new (a fork of the runtime's zygote) or continues a snapshot,
 * the image of an earlier kernel. Hostile code may have written an image. The
 * daemon, the warden and pid 1 therefore carry it as a descriptor or a name
 * and never read it; the process that becomes the kernel (pid 2) reads it,
 * behind all walls. For the same reason it can only choose one of the reasons
 * below, not word one. Limits, environment, processors and network are those
 * of the new box, whatever the image holds.
 */

enum box_origin_kind {
    BOX_ORIGIN_FRESH,
    BOX_ORIGIN_SNAPSHOT
};

struct box_origin {
    enum box_origin_kind kind;
    int image_fd;           /* SNAPSHOT: borrowed; -1: by name */
    const char *image_name; /* SNAPSHOT: of an image that the runtime holds */
    /* SNAPSHOT: image_fd is only known when this returns it, which is called
     * once the sandbox is there; -1: a new kernel is started. Or NULL. */
    int (*image_wait)(void *ctx);
    void *image_ctx;
    /* SNAPSHOT: box_zygote of the box that it was made in; NULL: unknown. */
    const unsigned char *zygote;
    /* NULL: this build's. */
    const struct box_starter *starter;
};

enum box_image_problem {
    BOX_IMAGE_USABLE,
    BOX_IMAGE_UNSUPPORTED, /* this build wakes no snapshots */
    BOX_IMAGE_MISMATCH,    /* of another runtime, program, kernel or CPU */
    BOX_IMAGE_DAMAGED,
    BOX_IMAGE_TOO_LARGE, /* for the memory limit of this box */
    BOX_IMAGE_PROBLEMS
};
const char *box_image_problem_text(enum box_image_problem problem);

enum box_started {
    BOX_STARTED_FRESH,
    BOX_STARTED_WOKEN,
    BOX_STARTED_INSTEAD /* fresh, since the image was unusable */
};

struct box_start {
    enum box_started how;
    enum box_image_problem problem; /* INSTEAD: why */
};

/* Both leave a kernel that has sent its first frame. A negative result means
 * that the box is of no further use; it is released. Turn. */
struct box_starter {
    int (*fresh)(struct box *b, struct error *err);
    /* NULL: BOX_IMAGE_UNSUPPORTED. An unusable image is no error: returns 0
     * with *ret_problem set and no kernel; fresh is called next. */
    int (*wake)(struct box *b, const struct box_origin *origin,
                enum box_image_problem *ret_problem, struct error *err);
};

/* ---- memory.c: the memory of a kernel, saved, undone and branched --------
 *
 * All with the turn, while the kernel waits for a cell. The process that is
 * the kernel does the work; it answers with numbers from fixed lists only.
 */

/* What a saved image does not hold. */
enum box_uncarried {
    BOX_UNCARRIED_THREADS = 1 << 0,  /* of Python code */
    BOX_UNCARRIED_CHILDREN = 1 << 1, /* child processes */
    BOX_UNCARRIED_SOCKETS = 1 << 2,  /* sockets, pipes, epoll and the like */
    BOX_UNCARRIED_SHARED = 1 << 3,   /* shared memory */
    BOX_UNCARRIED_TMP = 1 << 4,      /* files outside /mnt/data */
    BOX_UNCARRIED_FILES = 1 << 5     /* open files that cannot be reopened */
};

struct box_memory {
    uint64_t bytes; /* private memory that an image would hold */
    uint32_t uncarried;
    /* No image can be made: a thread or a child is alive, for example. */
    bool refused;
    unsigned char zygote[WARDEN_ZYGOTE_ID]; /* box_zygote of the box */
};

/* What box_memory_save would do, without writing. */
int box_memory_look(struct box *b, struct box_memory *ret, struct error *err);
/* Writes an image to the descriptor, a file or a pipe, from its position on.
 * At most most_bytes, whatever the kernel does: the bytes come by a pipe, so
 * that session code never holds the descriptor. The kernel goes on living.
 * ret->refused: nothing was written. After an error, what was written is no
 * image. ERR_LIMIT: it is larger. */
int box_memory_save(struct box *b, int fd, uint64_t most_bytes,
                    struct box_memory *ret, struct error *err);

/* Undo points are copies of the kernel that stand still in the box and count
 * as its memory and its processes. They are states in the order of time, and
 * the kernel is at one of them or has run cells since:
 *
 *   box_point_add    keeps the present state and ends the points after it
 *   box_point_undo   goes `back` states back: 1 is the newest point that
 *                    differs from the present state, that is, the state
 *                    before the last cell if there is a point for each. The
 *                    present state becomes a point if it is none yet
 *   box_point_redo   goes forward again
 *
 * The point that the kernel returned to stays a point. A kernel that has
 * ended can be undone too, until another one is started. A new kernel ends
 * all points. Undo and redo break nothing when they fail with ERR_CONFLICT:
 * there is no such point.
 */
#define BOX_POINTS_MAX 64u
/* At most `most` points before and at the present state; the oldest ends
 * first. Fewer when the box comes near its memory or process limit, perhaps
 * none: the result is then 0 and *ret_kept 0. ret_kept (or NULL): how many
 * states can be undone now, without the present one. ERR_CONFLICT: a thread or
 * a child process is alive. */
int box_point_add(struct box *b, unsigned most, unsigned *ret_kept,
                  struct error *err);
int box_point_undo(struct box *b, unsigned back, struct error *err);
int box_point_redo(struct box *b, unsigned forward, struct error *err);
void box_points_drop(struct box *b); /* all of them; a failure does no harm */
/* How far box_point_undo and box_point_redo can go. */
unsigned box_points_back(const struct box *b);
unsigned box_points_forward(const struct box *b);
/* While a cell runs and there are points, every BOX_RELIEVE_MS: ends points
 * before the box reaches its memory limit. Reads one counter. */
#define BOX_RELIEVE_MS 20u
bool box_has_points(const struct box *b);
void box_points_relieve(struct box *b);

/* ---- box.c: life ------------------------------------------------------- */

struct box_spec {
    uint32_t runtime; /* a handle of the warden's */
    const char *tier; /* isolation; NULL: WARDEN_TIER_DEFAULT */
    const struct warden_limits *limits;
    const int *layers; /* borrowed: folders of the workspace, upper first */
    unsigned layer_count;
    bool background;          /* starts in the background class */
    struct box_origin origin; /* all 0: fresh */
};
/* The box comes with a running kernel; ret_start (or NULL): where that came
 * from. */
int box_open(struct warden_link *link, const struct box_spec *spec,
             const atomic_bool *stopping, struct box **ret,
             struct box_start *ret_start, struct error *err);
/* In a box that has run nothing: another kernel in place of its own. A
 * negative result means that the box is of no further use. Turn. */
int box_begin(struct box *b, const struct box_origin *from,
              struct box_start *ret_start, struct error *err);
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
/* The zygote that its processes are forks of: WARDEN_ZYGOTE_ID bytes, all 0 if
 * it has no image. */
const unsigned char *box_zygote(const struct box *b);

/* 1: one event of pid 1, 0: none now, -1: the box is gone. Turn. */
int box_event(struct box *b, struct init_event *ret);
int box_events_fd(const struct box *b); /* to poll for these; turn */
/* Reads pending events. False: the box is gone. Otherwise box_kernel_alive is
 * up to date. Turn. */
bool box_check(struct box *b);

/* ---- box.c: usage and scheduling class ---------------------------------- */

/* Counters of the control group, by its meters or from the warden. */
int box_usage(struct box *b, struct warden_usage *ret, struct error *err);
/* Those that are counted by its meters, without starting anew; ret_memory:
 * bytes in use now, 0 if they are not counted. False: none. Any thread that
 * has a reference. */
bool box_usage_so_far(const struct box *b, struct warden_usage *ret,
                      uint64_t *ret_memory);
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
/* The same, but shells keep their state (shell_state.c). */
int box_kernel_restart(struct box *b, struct error *err);
bool box_kernel_alive(const struct box *b);
void box_kernel_lost(struct box *b); /* it is no longer usable */
bool box_is_kernel(const struct box *b, uint32_t pid);
/* Cells that this kernel has run. */
uint32_t box_cells(const struct box *b);
/* Did cells or shells run since box_kernel_start? */
bool box_has_run(const struct box *b);
void box_cell_begin(struct box *b);
/* Starts a shell on the sealed code; BOX_CALL_MS. As box_broker_call. clean:
 * without the state of the shell before, and without leaving one. */
struct broker_reply;
/* extra_fd: becomes INIT_EXTRA_FD of the shell; -1: none. */
int box_shell_start(struct box *b, int code_fd, int extra_fd, bool clean,
                    struct broker_reply *ret, struct error *err);
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

/* ---- helper.c: interpreters of other languages, all with the turn ---------
 *
 * A helper lives from its start until it ends, is killed, or the kernel is
 * started anew. It speaks the kernel's frames.
 */

/* command: for /bin/sh, at most INIT_PATH_MAX bytes; driver_fd: borrowed. Does
 * not wait for its first frame. As box_broker_call; the reply's errnum says
 * why pid 1 could not start it. */
int box_helper_start(struct box *b, uint32_t number, const char *command,
                     int driver_fd, struct broker_reply *ret,
                     struct error *err);
bool box_helper_alive(const struct box *b, uint32_t number);
uint32_t box_helper_cells(const struct box *b, uint32_t number);
void box_helper_lost(struct box *b, uint32_t number);
/* That process has ended. True: it was the active helper. */
bool box_helper_ended(struct box *b, uint32_t pid);
void box_helpers_lost(struct box *b);
bool box_helpers_ran(const struct box *b);
/* Processes and threads that live helpers have at rest, at most. */
uint32_t box_helpers_rest(const struct box *b);
/* From now on the functions for frames and cells are for that helper's
 * channel; 0: the kernel's. */
void box_helper_use(struct box *b, uint32_t number);

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
