/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C half of the zygote, of a session's pid 1 and of its kernel; all three
 * are one process image at different ages:
 *
 *   zygote   python3 with its imports done   merge_mappings.c,
 * fill_free_blocks.c, freeze.c, zygote.c clone into fresh namespaces,
 * sandbox_enter() pid 1    serves the daemon, never runs Python again init.c,
 * broker.c, fork                          dir_walk.c, scan.c, net.c, notify.c,
 * surround.c kernel   returns into Python: driver/ runs cells       module.c,
 * read_trace.c
 */
#ifndef GLOVEBOX_KERNEL_KERNEL_INT_H
#define GLOVEBOX_KERNEL_KERNEL_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/sandbox.h"
#include "wire/kernel_msg.h"

struct stat;

#define KERNEL_FRAMES_FD 3

/* What a kernel process comes to life with. */
struct kernel_seat {
    struct sandbox_spec grant;
};

/* ---- merge_mappings.c
 * --------------------------------------------------------------
 */

/* Makes one mapping of each library's read-only parts. */
void merge_library_mappings(void);

/* ---- fill_free_blocks.c
 * --------------------------------------------------------------
 */

/* Takes every free block of the heap for good, so that what sessions allocate
 * is new memory and no copy of a frozen page. */
void fill_free_blocks(void);

/* ---- freeze.c ------------------------------------------------------------
 */

/*
 * Moves the private anonymous memory of this process into a memfd and maps
 * it back privately at the same addresses, so that a clone need not copy its
 * page tables. Nothing may write to that memory between. 0 or -errno; on
 * error the process is unchanged or slower, never wrong.
 */
int freeze_heap(size_t *ret_bytes);

/* ---- zygote.c ------------------------------------------------------------
 */

/* Serves the warden; never returns in the zygote and in a session's pid 1,
 * only in a kernel. */
void zygote_serve(int sock, struct kernel_seat *ret_seat);

/* ---- init.c --------------------------------------------------------------
 */

/* The life of pid 1, walled in with these; returns only in a kernel. */
/* ipc.c: System V objects go with those who used them. */
void init_forget_ipc(void);
void init_run(const struct sandbox_fds *fds, const struct sandbox_spec *spec);

/* ---- net.c, notify.c: what code inside tries to reach ----------------------
 */

#define NET_BLOCKED_MAX 64

struct net {
    int watch, resolver, proxy;
    bool taken;     /* somebody else answers lookups and serves the proxy */
    bool listening; /* the proxy's socket does, for good */
    bool opaque;    /* this machine lets nobody look into another process */
    struct init_blocked blocked[NET_BLOCKED_MAX]; /* since last told */
    uint32_t blocked_count;
    uint32_t dropped; /* attempts there was no room for */
};

void net_start(struct net *n, const struct sandbox_fds *fds);
/* Is the proxy's socket to be looked at? */
bool net_turns_away(const struct net *n);
/* Answers what waits, up to a bound, and never waits itself. */
void net_serve(struct net *n);
/* Notes an attempt. host: printable ASCII. count: 0 when the same attempt is
 * noted by another call, before or after it. */
void net_note(struct net *n, enum init_blocked_kind kind, const char *host,
              uint16_t port, uint32_t count);
/* How many entries net_tell would give. */
uint32_t net_pending(const struct net *n);
/* INIT_NETWORK: 0 or an errno. payload: room for INIT_REPLY_MAX. */
int net_request(struct net *n, uint32_t what, char *payload,
                struct init_reply *reply, int *ret_fd);
/* One call that was stopped; false: there is none. */
bool notify_one(struct net *n);

/* ---- surround.c: environment and certificates ------------------------------
 */

/* Each takes a memfd and returns 0 or an errno. */
int surround_environment(int fd);
int surround_ca(int fd); /* -1: take it away */

/* ---- read_trace.c: which files Python opens, in a kernel
 * ------------------------
 */

/* Before user code runs. */
int read_trace_start(void);
/* The payload of KERNEL_READS since the last call; owned by caller. 0: none.
 */
size_t read_trace_take(char **ret_payload);

/* ---- broker.c: files of /mnt/data, by descriptor -------------------------
 */

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

/* ---- dir_walk.c: a tree as a sorted list
 * -------------------------------------
 */

#define WALK_ENTRIES_MAX 200000
#define SCAN_BLIND 0 /* kind of a folder that cannot be looked into */

struct scan_file {
    char *path;
    uint64_t size; /* SKIPPED: errno */
    int64_t mtime_ns;
    int64_t ctime_ns;
    uint64_t inode;
    uint64_t stored; /* bytes on disk: fewer than size in a sparse file */
    uint16_t kind;   /* enum init_entry_kind, of what is there; SCAN_BLIND */
    bool executable;
    bool told;  /* by the comparison under way */
    bool hides; /* BLIND: it was CLEARED when last seen */
};

struct scan_list {
    struct scan_file *files;
    size_t count, room;
    bool cut; /* the tree was larger than the walk's bound */
};

enum walk_view {
    WALK_LIST,    /* regular files, as FILE */
    WALK_BARE,    /* the folder that takes writes: WROTE, SKIPPED, BLIND */
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
/* Marks an overlay leaves: something below was deleted; a folder hides the
 * one below it. */
bool dir_walk_is_whiteout(const struct stat *st);
bool dir_walk_is_opaque(int dir);

/* ---- scan.c: listing, and what changed -----------------------------------
 */

struct scan {
    int upper;    /* the bare folder that takes the session's writes */
    bool layered; /* there are layers below it */
    bool tried_times, fine_times;
    struct scan_list known;   /* as of the last scan, sorted by path */
    struct scan_list changes; /* of the last scan, being handed out */
    size_t next;              /* first change not handed out yet */
};

void scan_start(struct scan *s, int upper, bool layered);
/* Compares with what was known; the changes wait to be paged out. all: what
 * was ever changed, known or not. 0 or a negative errno. */
int scan_compare(struct scan *s, bool all);
/* Packs changes into buf; *ret_rest as in a reply's arg. Returns bytes. */
size_t scan_page(struct scan *s, char *buf, size_t size, uint32_t *ret_rest);
/* Regular files after `after` in byte order. */
int scan_tree(int data, const char *after, size_t after_len, uint32_t most,
              char *buf, size_t size, size_t *ret_len, uint32_t *ret_more);

/* A change made through the broker is not the session's: to be called around
 * it, after it only if it was done. */
struct scan_mark {
    bool note;
    size_t fresh; /* length of the first folder on the way that is new; 0 */
};
struct scan_mark scan_before(struct scan *s, int data, const char *path,
                             size_t len);
void scan_after(struct scan *s, const char *path, size_t len,
                struct scan_mark mark);

#endif
