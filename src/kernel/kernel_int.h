/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C half of the zygote, of a session's pid 1 and of its kernel. All three
 * are the same process image at different stages:
 *
 *   zygote   python3 with its imports done
 *            merge_mappings.c, fill_free_blocks.c, freeze.c, image_zygote.c,
 *            zygote.c; or revived from its image (revive.c)
 *     |      clone into new namespaces, sandbox_enter()
 *   pid 1    serves the daemon, never runs Python again
 *            init.c, broker.c, dir_walk.c, scan.c, net.c, notify.c,
 *            guest_env.c, points.c
 *     |      fork
 *   kernel   returns into Python; driver/ runs cells
 *            module.c, read_trace.c, memory.c, image_*.c
 *
 * In the tier "gvisor", pid 1 supervises a guest (guest.c, guest_config.c): a
 * python3 restored from a checkpoint, whose own pid 1 (guest_init.c) forks the
 * kernels.
 */
#ifndef GLOVEBOX_KERNEL_KERNEL_INT_H
#define GLOVEBOX_KERNEL_KERNEL_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/sandbox.h"
#include "wire/kernel_msg.h"

struct sock_fprog;
struct stat;

#define KERNEL_FRAMES_FD 3

/* What a kernel process starts with. */
struct kernel_seat {
    struct sandbox_spec grant;
    int image; /* to continue from; -1: a new kernel. Descriptor
                  INIT_EXTRA_FD */
};

/* ---- merge_mappings.c --------------------------------------------------- */

/* Merges the read-only mappings of each library. */
void merge_library_mappings(void);

/* ---- fill_free_blocks.c ------------------------------------------------- */

/* Allocates every free block of the heap and keeps it, so that sessions
 * allocate new memory and copy no frozen pages. */
void fill_free_blocks(void);

/* ---- freeze.c ----------------------------------------------------------- */

/*
 * Moves the private anonymous memory of this process into a memfd and maps
 * it back privately at the same addresses, so that a clone need not copy its
 * page tables. Nothing may write to that memory between. 0 or -errno; on error
 * the process is unchanged, or only slower. ret_fd: the memfd, owned by
 * caller.
 */
int freeze_heap(int *ret_fd);

/* ---- zygote.c ----------------------------------------------------------- */

struct zygote_reply;

/* Sends READY with these descriptors (closed then) and serves the warden;
 * never returns in the zygote and in a session's pid 1, only in a kernel. */
void zygote_serve(int sock, const struct zygote_reply *ready, int *fds,
                  size_t fd_count, struct kernel_seat *ret_seat);

/* ---- init.c ------------------------------------------------------------- */

struct relay;

/* Runs pid 1 with these; returns only in a kernel. relay: of a guest's pid 1,
 * otherwise NULL. With fds->runsc, this pid 1 supervises a guest. Returns the
 * descriptor of an image to continue from, or -1. */
int init_run(const struct sandbox_fds *fds, const struct sandbox_spec *spec,
             struct relay *relay);

/* ---- points.c: undo points, in pid 1 ------------------------------------ */

struct points {
    pid_t pids[INIT_POINTS_MAX];
    size_t count;
};

/* INIT_POINT: 0 or an errno. kernel: its pid, 0 if it has ended. */
int points_request(struct points *p, uint32_t arg, pid_t *kernel,
                   uint32_t *ret_count);
/* That process has ended. True: it was a point. */
bool points_ended(struct points *p, pid_t pid);

/* ---- guest.c: a guest of gVisor, as its supervisor sees it ---------------
 */

/* The supervisor serves files and the network itself; the rest is the guest's
 * pid 1's. Between them are three SEQPACKET sockets, which the guest has as
 * its standard descriptors, because a checkpoint can be restored with no
 * others. */
enum guest_channel {
    GUEST_CTL,    /* a struct guest_grant first; then as between daemon and
                     pid 1: struct init_request and its reply */
    GUEST_EVENTS, /* struct init_event */
    GUEST_RELAY,  /* struct relay_msg */
    GUEST_CHANNELS
};

/* With a memfd: the system call filter (guest_filter.c). */
struct guest_grant {
    uint32_t magic;
    uint32_t proxy; /* the session has a network: listen for its proxy */
    struct sandbox_spec spec;
};

#define GUEST_MAGIC 0x67766772u
#define GUEST_SPEC "/run/glovebox-runtime.json" /* of the runtime, in it */

struct guest {
    int runsc; /* the program; -1: no guest in this tier */
    pid_t pid; /* of runsc; 0: the guest does not run */
    int ctl;   /* -1: the guest does not run */
    int events;
    struct relay *relay;
    pid_t kernel, shell; /* inside; 0: none */
    uint32_t starts;
    bool proxy; /* the session has a network */
    struct sandbox_spec spec;
    int filter; /* memfd of struct sock_filter */
};

struct init_request;
struct init_reply;

void guest_setup(struct guest *g, const struct sandbox_fds *fds,
                 const struct sandbox_spec *spec);
/* Is a request of this type the guest's to answer? */
bool guest_answers(uint32_t type);
/* Has the guest answer, starting it if necessary; returns an errno for the
 * reply. */
int guest_forward(struct guest *g, int events, const struct init_request *req,
                  const int *fds, size_t fd_count, struct init_reply *reply);
/* The session has a network from now on. */
void guest_open_proxy(struct guest *g, int events);
/* Passes on what the guest reports. */
void guest_on_event(struct guest *g, int events);
/* runsc ended, or the guest broke the protocol: ends all of it, and reports
 * the deaths of its kernel and shell to `events`. */
void guest_lost(struct guest *g, int events);
/* Creates the checkpoint; the whole life of that process. */
_Noreturn void guest_prepare(const struct sandbox_fds *fds,
                             const struct sandbox_spec *spec);

/* ---- guest_config.c ------------------------------------------------------
 */

/* Writes config.json for runsc: the same for a checkpoint and for each guest
 * restored from it. 0 or a negative errno. */
int guest_config_write(void);

/* ---- guest_filter.c ------------------------------------------------------
 */

/* Outside: the session's system call filter as a guest can load it. A memfd or
 * a negative errno. */
int guest_filter_pack(const struct sock_fprog *filter);
/* Inside: loads it. 0 or a negative errno. */
int guest_filter_load(int fd);

/* ---- guest_init.c: inside the guest --------------------------------------
 */

/* Waits to be checkpointed, restored and granted a session; then runs pid 1.
 * Returns only in a kernel. */
void guest_serve(struct kernel_seat *ret_seat);

/* ---- guest_relay.c: the guest's way to the proxy -------------------------
 */

#define RELAY_CONNS_MAX 64
#define RELAY_LOOKUPS_MAX 32
#define RELAY_POLLS_MAX (3 + RELAY_LOOKUPS_MAX + 2 * RELAY_CONNS_MAX)

struct pollfd;

/* inside: in the guest; otherwise in its supervisor. chan: owned from now on.
 */
struct relay *relay_new(bool inside, int chan);
void relay_free(struct relay *r);
/* Inside: accepts connections to the proxy. 0 or an errno. */
int relay_listen(struct relay *r);
/* What to wait for; returns how many. */
size_t relay_polls(struct relay *r, struct pollfd *polls);
/* Moves what can be moved, and never blocks. False: the channel broke. */
bool relay_serve(struct relay *r, const struct pollfd *polls);

/* ---- net.c, notify.c: what code inside tries to reach ------------------- */

#define NET_BLOCKED_MAX 64

struct net {
    int watch, resolver, proxy;
    bool taken;     /* the proxy process serves lookups and the proxy socket */
    bool listening; /* the proxy's socket does, for good */
    bool opaque; /* the host forbids reading the memory of other processes */
    struct init_blocked blocked[NET_BLOCKED_MAX]; /* since last told */
    uint32_t blocked_count;
    uint32_t dropped; /* attempts that did not fit */
};

void net_start(struct net *n, const struct sandbox_fds *fds);
/* Does pid 1 have to watch the proxy's socket? */
bool net_turns_away(const struct net *n);
/* Answers what is pending, up to a limit, and never blocks. */
void net_serve(struct net *n);
/* Records an attempt. host: printable ASCII. count: 0 when another call
 * records the same attempt. */
void net_note(struct net *n, enum init_blocked_kind kind, const char *host,
              uint16_t port, uint32_t count);
/* How many entries net_tell would give. */
uint32_t net_pending(const struct net *n);
/* INIT_NETWORK: 0 or an errno. payload: room for INIT_REPLY_MAX. */
int net_request(struct net *n, uint32_t what, char *payload,
                struct init_reply *reply, int *ret_fd);
/* Handles one stopped call; false: there is none. */
bool notify_one(struct net *n);

/* ---- guest_env.c: environment and certificates ---------------------------
 */

/* Each takes a memfd and returns 0 or an errno. */
int guest_env_set(int fd);
int guest_ca_set(int fd); /* -1: remove it */

/* ---- shell_state.c: what one shell execution leaves to the next ----------
 */

#define SHELL_STATE_MAX 1048576

/* In the fork that becomes the shell: has bash restore and save the state. */
void shell_state_prepare(void);
/* In pid 1, after that shell ended. */
void shell_state_adopt(int wait_status);
void shell_state_forget(void);

/* ---- read_trace.c: which files Python opens, in a kernel ---------------- */

/* Before user code runs. */
int read_trace_start(void);
/* The payload of KERNEL_READS since the last call; owned by caller. 0: none.
 */
size_t read_trace_take(char **ret_payload);

/* ---- memory.c: the kernel's memory, kept -------------------------------- */

enum memory_served {
    MEMORY_SERVED,
    MEMORY_BROKEN,    /* the channel is closed */
    MEMORY_CONTINUED, /* this process is a copy that was continued */
    MEMORY_WOKEN      /* this process continues from an image */
};

/* Answers a request of the daemon. fd: of SAVE, or -1. With the interpreter's
 * lock. */
enum memory_served memory_serve(const struct kernel_memory *request, int fd);
/* Continues from the image of the seat, or says why not and exits. */
_Noreturn void memory_wake(const struct kernel_seat *seat);

/* ---- broker.c: files of /mnt/data, by descriptor ------------------------ */

#define BROKER_UPLOADS_MAX 16
#define BROKER_TEMP ".glovebox-upload-" /* names on the way to their own */

struct broker {
    int data; /* the root of /mnt/data */
    int uploads[BROKER_UPLOADS_MAX];
    bool named[BROKER_UPLOADS_MAX]; /* the upload has a name in data */
};

/* Each returns 0 or an errno for the reply. Paths are not terminated. */
int broker_open(struct broker *b, const char *path, size_t len, int *ret_fd);
int broker_create(struct broker *b, bool executable, uint32_t *ret_handle,
                  int *ret_fd);
int broker_publish(struct broker *b, uint32_t handle, const char *path,
                   size_t len);
int broker_discard(struct broker *b, uint32_t handle);
int broker_remove(struct broker *b, const char *path, size_t len);
/* Of a path below dir, following nothing; 0 or an errno. */
int broker_stat(int dir, const char *path, struct stat *ret);
/* Opens a path below dir, following nothing; or a negative errno. */
int broker_beneath(int dir, const char *path, int flags);

/* ---- dir_walk.c: a tree as a sorted list -------------------------------- */

#define WALK_ENTRIES_MAX 200000
#define SCAN_BLIND 0 /* kind of an unreadable folder */

struct scan_file {
    char *path;
    uint64_t size; /* SKIPPED: errno */
    int64_t mtime_ns;
    int64_t ctime_ns;
    uint64_t inode;
    uint64_t stored; /* bytes on disk: fewer than size in a sparse file */
    uint16_t kind;   /* enum init_entry_kind, of what is there; SCAN_BLIND */
    bool executable;
    bool told;  /* by the current comparison */
    bool hides; /* BLIND: it was CLEARED when last seen */
};

struct scan_list {
    struct scan_file *files;
    size_t count, room;
    bool cut; /* the tree exceeded the limit of the walk */
};

enum walk_view {
    WALK_LIST,    /* regular files, as FILE */
    WALK_BARE,    /* the upper folder: WROTE, SKIPPED, BLIND */
    WALK_LAYERED, /* the same above layers: GONE and CLEARED too */
};

/* Adds what is there; 0 or a negative errno. */
int dir_walk_tree(int dir, enum walk_view view, struct scan_list *out);
int dir_walk_order(const void *a, const void *b); /* of two struct scan_file */
void dir_walk_sort(struct scan_list *l);
struct scan_file *dir_walk_add(struct scan_list *l, const char *path);
struct scan_file *dir_walk_put(struct scan_list *l, const struct scan_file *f);
void dir_walk_clear(struct scan_list *l);
void dir_walk_describe(struct scan_file *f, const struct stat *st,
                       uint16_t kind);
/* Marks of an overlay: whiteout of a lower entry; opaque folder. */
bool dir_walk_is_whiteout(const struct stat *st);
bool dir_walk_is_opaque(int dir);

/* ---- scan.c: listing, and what changed ---------------------------------- */

struct scan {
    int upper;    /* upper folder of the overlay on /mnt/data */
    bool layered; /* there are layers below it */
    bool tried_times, fine_times;
    struct scan_list known;   /* as of the last scan, sorted by path */
    struct scan_list changes; /* of the last scan, being paged out */
    size_t next;              /* first change not paged out yet */
};

void scan_start(struct scan *s, int upper, bool layered);
/* Compares with the last scan and keeps the changes for scan_page. all: every
 * change ever, reported or not. 0 or a negative errno. */
int scan_compare(struct scan *s, bool all);
/* Packs changes into buf; *ret_rest as in a reply's arg. Returns bytes. */
size_t scan_page(struct scan *s, char *buf, size_t size, uint32_t *ret_rest);
/* Regular files after `after` in byte order. */
int scan_tree(int data, const char *after, size_t after_len, uint32_t most,
              char *buf, size_t size, size_t *ret_len, uint32_t *ret_more);

/* Excludes a change made through the broker from the session's changes: call
 * before it, and after it if it succeeded. */
struct scan_mark {
    bool note;
    size_t fresh; /* length of the first new folder in the path; 0 */
};
struct scan_mark scan_before(struct scan *s, int data, const char *path,
                             size_t len);
void scan_after(struct scan *s, const char *path, size_t len,
                struct scan_mark mark);

#endif
