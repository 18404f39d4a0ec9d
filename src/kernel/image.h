/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The image of a kernel's memory: what differs from the zygote that the kernel
 * was forked from. Inside src/kernel/. Written by image_save.c, checked by
 * image_read.c, put in place by image_wake.c. The zygote's own image has the
 * same format: written by image_zygote.c, put in place by the program
 * glovebox-revive (revive.c). The format is described in
 * docs/decisions/memory-images.md:
 *
 *   head, maps, runs, descriptors, files, strings   (tables)
 *   pages from a page boundary, in the order of runs
 *   bytes of files
 *
 * All integers are host order: an image is woken on the kind of machine, by
 * the build and from the zygote that made it, or not at all. Hostile code may
 * have written the image of a kernel. No code of a session has run in a
 * zygote.
 */
#ifndef GLOVEBOX_KERNEL_IMAGE_H
#define GLOVEBOX_KERNEL_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/kernel_msg.h"

#define IMAGE_PAGE ((uint64_t)4096)
#define IMAGE_MAGIC "GbxMem\r\n"
#define IMAGE_VERSION 2u
#define IMAGE_MAPS_MAX 65536u
#define IMAGE_RUNS_MAX (1u << 20)
#define IMAGE_FDS_MAX 4096u
#define IMAGE_FILES_MAX 65536u
#define IMAGE_STRINGS_MAX (8u << 20)
#define IMAGE_SIGNALS 64
/* Of one mapping or file, and of all: far above any memory limit. */
#define IMAGE_BYTES_MAX ((uint64_t)1 << 44)
/* No user address is above. */
#define IMAGE_TOP ((uint64_t)0x7ffffffff000)

/* Where waking keeps its own tables and stack, and where glovebox-revive is
 * linked (Makefile). An image has nothing here. */
#define IMAGE_ROOM ((uint64_t)0x100000000000)
#define IMAGE_ROOM_BYTES ((uint64_t)64 << 20)
/* Where a zygote keeps the list of its mappings: the same in a zygote and in
 * one that was revived from its image. */
#define IMAGE_LIST (IMAGE_ROOM + ((uint64_t)1 << 30))

/* The process that made it: only one with the same ids can wake it. */
struct image_ids {
    unsigned char zygote[16]; /* random; kept when it is revived */
    unsigned char build[24];  /* of the extension */
    char release[128];        /* of the host's kernel, and its build */
    uint32_t cpu[16];         /* features of the processor */
};

/* Registers that a called function preserves, and where to continue. */
struct image_context {
    uint64_t rbx, rbp, r12, r13, r14, r15, rsp, rip;
    uint32_t mxcsr, fcw;
};

struct image_signal { /* as the kernel's sigaction */
    uint64_t handler, flags, restorer, mask;
};

enum image_map_kind {
    IMAGE_MAP_ZYGOTE = 1, /* the zygote's mapping, at its place */
    IMAGE_MAP_ANON,
    IMAGE_MAP_STACK,       /* grows downwards */
    IMAGE_MAP_SHARED_ANON, /* no other process maps it */
    IMAGE_MAP_FILE,        /* private, by path */
    IMAGE_MAP_SHARED_FILE, /* by path */
    IMAGE_MAP_WIPED,       /* anonymous, empty in a fork */
    IMAGE_MAP_DROPPABLE,   /* the same, and the kernel may empty it */
    /* Only in the image of a zygote: */
    IMAGE_MAP_HEAP,  /* private, of the file of its frozen heap */
    IMAGE_MAP_SYSTEM /* made by the host's kernel: vdso and the like */
};

struct image_map {
    uint64_t start, end;
    uint64_t offset; /* FILE */
    uint32_t path;   /* FILE: in strings */
    uint16_t kind;
    uint16_t prot; /* PROT_* */
};

/* Pages side by side in one mapping. */
struct image_run {
    uint64_t start;
    uint32_t pages;
    uint32_t lazy; /* 1: may be mapped from the image */
};

enum image_fd_kind {
    IMAGE_FD_COPY = 1, /* of one of 0 to 3 of the new process: `of` */
    IMAGE_FD_PATH,     /* opened by path */
    IMAGE_FD_UNNAMED,  /* a file without a name: entry `of` of files */
    IMAGE_FD_DEAD      /* a socket without a peer in its place */
};

struct image_fd {
    uint32_t fd;
    uint16_t kind;
    uint16_t close_on_exec;
    uint32_t of;
    uint32_t path;  /* in strings */
    uint32_t flags; /* of open(2) */
    uint32_t unused;
    uint64_t offset;
};

enum image_file_kind {
    IMAGE_FILE_FOLDER = 1,
    IMAGE_FILE_REGULAR,
    IMAGE_FILE_LINK,    /* its bytes are the target */
    IMAGE_FILE_UNNAMED, /* of a descriptor; `path` is the folder */
    IMAGE_FILE_SAME     /* of a zygote: mapped, and must be unchanged */
};

/* A file outside /mnt/data, folders before what is in them. */
struct image_file {
    uint64_t bytes;       /* stored, one file after the other */
    uint64_t inode, size; /* SAME */
    int64_t mtime_ns;
    uint32_t path; /* in strings, absolute */
    uint16_t kind;
    uint16_t mode;
};

/* Of a zygote: what an exec would set. All 0 in the image of a kernel. */
struct image_process {
    uint64_t fs_base;
    uint64_t tid_address; /* the word with the thread's id */
    uint64_t robust, robust_bytes;
    uint64_t rseq, rseq_bytes;
    uint64_t code_start, code_end, data_start, data_end, brk_start;
    uint64_t stack_start, arg_start, arg_end, env_start, env_end;
    uint64_t heap_bytes; /* of the file of its frozen heap */
    uint64_t auxv[64];
    uint32_t auxv_bytes;
    uint32_t unused;
    char name[16]; /* of the thread */
};

struct image_head {
    char magic[8];
    uint32_t version;
    uint32_t flags; /* 0 */
    struct image_ids ids;
    uint64_t total_bytes;
    uint64_t page_count;
    uint64_t file_bytes;
    uint32_t map_count, run_count, fd_count, file_count, strings_bytes;
    uint32_t pid; /* in which it was made */
    uint32_t cwd; /* in strings */
    uint32_t umask;
    uint64_t brk;
    uint64_t signal_mask;
    uint64_t altstack, altstack_bytes;
    uint32_t altstack_flags;
    uint32_t unused;
    struct image_context context;
    struct image_signal signals[IMAGE_SIGNALS];
    struct image_process process;
};

/* ---- image_read.c: no more is believed than was checked ------------------
 */

struct image {
    struct image_head head;
    const struct image_map *maps;
    const struct image_run *runs;
    const struct image_fd *fds;
    const struct image_file *files;
    const char *strings;
};

uint64_t image_tables_bytes(const struct image_head *h);
uint64_t image_pages_at(const struct image_head *h);
uint64_t image_files_at(const struct image_head *h);
/* Reads the tables to room and checks all of them. own: what an image must
 * have been made by. memory_bytes: the limit of this session. */
enum kernel_image image_read(int fd, const struct image_ids *own,
                             uint64_t memory_bytes, void *room,
                             size_t room_bytes, struct image *ret);

/* ---- image_maps.c ------------------------------------------------------- */

/* A mapping of this process. */
struct image_vma {
    uint64_t start, end, offset, inode;
    uint64_t own_kib; /* anonymous memory in it; only with all flags */
    uint32_t device;
    uint16_t prot;
    uint8_t shared, flags; /* enum vma_flags */
};

enum vma_flags {
    VMA_WIPED = 1,     /* on fork */
    VMA_DROPPABLE = 2, /* by the kernel */
    VMA_GROWS = 4,
    VMA_KERNEL = 8 /* vdso and the like */
};

/* Called for each mapping in order; name is "" for anonymous memory. False
 * ends the list. */
typedef bool (*image_vma_fn)(void *ctx, const struct image_vma *vma,
                             const char *name);
/* Reads /proc/self/maps, or smaps for all flags, without allocating. room:
 * IMAGE_LINES_ROOM bytes. 0 or a negative errno. */
#define IMAGE_LINES_ROOM 65536u
int image_vmas(bool all_flags, char *room, image_vma_fn fn, void *ctx);

/* In the zygote, before the freeze: chooses its id. NULL: with errno. */
const struct image_ids *image_zygote_name(void);
/* After the freeze, or in a zygote that was revived: notes its mappings.
 * Without this no image is made. */
int image_zygote_learn(void);
/* Of this host: release and cpu. */
void image_host_ids(struct image_ids *ret);
const struct image_ids *image_zygote_ids(void); /* NULL: not learned */
/* Is the address in a mapping that the zygote had there, and this vma still
 * the same? ret_end: up to where. If not, *ret_end is where that may
 * change. */
bool image_zygote_has(const struct image_vma *vma, uint64_t at,
                      uint64_t *ret_end);

/* ---- image_zygote.c ----------------------------------------------------- */

/*
 * In the zygote: freezes its heap and makes an image of itself, of which the
 * file of the frozen heap is a part. Both are sealed memory files, owned by
 * caller; -1 where none could be made, and in a process that was revived from
 * the image: it continues here, too. 0, or a negative errno: the heap is not
 * frozen.
 */
int image_zygote_freeze(int *ret_tables, int *ret_heap);

/* ---- image_save.c ------------------------------------------------------- */

struct image_saved {
    uint64_t bytes;
    uint32_t uncarried; /* enum kernel_uncarried */
    bool refused;       /* because of it */
};

/* The size of the private memory of this process, and what an image of it
 * would not hold. */
int image_look(struct image_saved *ret);
/*
 * In a fork that exits afterwards. Writes an image of at most `most` bytes to
 * the pipe or file. tell: another descriptor that is not the session's. pid:
 * of the kernel. 0, or a negative errno; -EFBIG: it is larger. Returns 1 in
 * the process that continues from the image.
 */
int image_save(int fd, int tell, uint64_t most, uint32_t pid,
               struct image_saved *ret);

/* ---- image_wake.c ------------------------------------------------------- */

/* Continues from the image instead of returning, or says why not. message: for
 * the process that it then is. */
enum kernel_image image_wake(int fd, uint64_t memory_bytes,
                             const void *message, size_t message_len);
/* In the process that continues: what image_wake was given. */
void image_wake_message(void *ret, size_t len);

/* Pages of this process that differ from the file behind them, or have none:
 * start and end of the next such range from *at on. 1, 0: no more, or a
 * negative errno. pagemap: /proc/self/pagemap. */
int image_private_pages(int pagemap, uint64_t *at, uint64_t end,
                        uint64_t *ret_start, uint64_t *ret_end);

/* ---- image_place.c: by system calls alone ------------------------------- */

/* FILE and SHARED_FILE, opened by path. */
void image_place_file(const struct image *im, const struct image_map *m);
void image_place_anonymous(const struct image_map *m);
/* All pages, from the file of the image; lazy ones are mapped. */
void image_place_pages(const struct image *im, int image);
/* Handlers, mask, stack for signals, and umask. */
void image_place_signals(const struct image_head *h);
_Noreturn void image_lost(int where); /* ends the process */

/* Saves the context and returns 0; returns 1 when it is continued. */
int image_context_save(struct image_context *c) __attribute__((returns_twice));
_Noreturn void image_context_load(const struct image_context *c);

#endif
