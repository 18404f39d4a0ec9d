/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C half of the zygote, of a session's pid 1 and of its kernel; all three
 * are one process image at different ages:
 *
 *   zygote   python3 with its imports done   freeze.c, zygote.c
 *     clone into fresh namespaces, sandbox_enter()
 *   pid 1    serves the daemon, never runs Python again   init.c, broker.c,
 *     fork                                                 scan.c
 *   kernel   returns into Python: driver/ runs cells       module.c
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

/* The life of pid 1; returns only in a kernel process. */
void init_run(int ctl, int events, uint32_t cores);

/* ---- broker.c: files of /mnt/data, by descriptor -------------------------
 */

#define BROKER_UPLOADS_MAX 16

struct broker {
    int data; /* the root of /mnt/data */
    int uploads[BROKER_UPLOADS_MAX];
};

/* Each returns 0 or an errno for the reply. Paths are not terminated. */
int broker_open(struct broker *b, const char *path, size_t len, int *ret_fd);
int broker_create(struct broker *b, uint32_t *ret_handle, int *ret_fd);
int broker_publish(struct broker *b, uint32_t handle, const char *path,
                   size_t len);
int broker_discard(struct broker *b, uint32_t handle);
int broker_remove(struct broker *b, const char *path, size_t len);
/* Of a path below data, following nothing; 0 or an errno. */
int broker_stat(int data, const char *path, struct stat *ret);

/* ---- scan.c: listing, and what changed -----------------------------------
 */

struct scan_file {
    char *path;
    uint64_t size;
    int64_t mtime_ns;
    int64_t ctime_ns;
    uint64_t inode;
    uint16_t kind; /* enum init_entry_kind */
};

struct scan_list {
    struct scan_file *files;
    size_t count, room;
    bool cut; /* the tree was larger than the walk's bound */
};

struct scan {
    struct scan_list known;   /* as of the last scan, sorted by path */
    struct scan_list changes; /* of the last scan, being handed out */
    size_t next;              /* first change not handed out yet */
};

/* What is there already when pid 1 starts. */
int scan_start(struct scan *s, int data);
/* Compares the tree with what was known; the changes wait to be paged out. */
int scan_compare(struct scan *s, int data);
/* Packs changes into buf; *ret_more when some are left. Returns bytes. */
size_t scan_page(struct scan *s, char *buf, size_t size, uint32_t *ret_more);
/* Regular files after `after` in byte order. */
int scan_tree(int data, const char *after, size_t after_len, uint32_t most,
              char *buf, size_t size, size_t *ret_len, uint32_t *ret_more);
/* A change made through the broker is not the session's. */
void scan_note(struct scan *s, int data, const char *path, size_t len);

#endif
