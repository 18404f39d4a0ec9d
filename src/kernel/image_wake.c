/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Continues from an image. Runs in a fresh fork of pid 1, before any Python,
 * behind all walls; what the image makes of this process has no more rights
 * than the process had.
 *
 * First the image is read and checked, the files of the session are put in
 * place, and everything that can be refused is looked at: until then this is
 * an ordinary process that can say why not. Then the stack moves to a room
 * that no image uses, and memory, descriptors and signals are replaced. From
 * there on only system calls are made, directly: errno, the allocator and the
 * stack are being replaced too. The code itself is part of the zygote and
 * stays where it is. A failure after that point ends the process.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "kernel/image.h"
#include "kernel/kernel_int.h"
#include "kernel/raw_call.h"

#define OWN_MAX 65536u
#define MESSAGE_MAX 1024u
#define STACK_BYTES ((uint64_t)1 << 20)
#define RSEQ_BYTES 32u
#define TEMPS 8u /* descriptors at high numbers */

#ifndef PR_GET_TID_ADDRESS
#define PR_GET_TID_ADDRESS 40
#endif

/* Parts of the room. */
#define AT_STATE ((uint64_t)0)
#define AT_TABLES ((uint64_t)1 << 20)
#define TABLES_BYTES ((uint64_t)44 << 20)
#define AT_OWN ((uint64_t)46 << 20)
#define AT_LINES ((uint64_t)52 << 20)
#define AT_STACK ((uint64_t)56 << 20)

struct waking {
    struct image im;
    unsigned char message[MESSAGE_MAX];
    struct image_vma *own; /* mappings of this process */
    uint32_t own_count;
    bool too_many;
    int image, pagemap;
    int temps; /* the first of TEMPS free numbers */
    uint32_t *tid;
    uint32_t tid_value;
    char *rseq;
    char rseq_value[RSEQ_BYTES];
};

/* ---- pages that differ -------------------------------------------------- */

/* Of <linux/fs.h> from Linux 6.7 on. */
struct scan_arg {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t inverted, mask, any_of, returned;
};

struct scan_region {
    uint64_t start, end, categories;
};

#define PAGEMAP_SCAN 0xc0606610u /* _IOWR('f', 16, struct scan_arg) */
#define PAGE_FILE (1u << 2)
#define PAGE_PRESENT (1u << 3)
#define PAGE_SWAPPED (1u << 4)
#define PAGE_ZERO (1u << 5)
#define PAGE_GUARD (1u << 8) /* from Linux 6.15 on */

/* Entries of /proc/self/pagemap, for older kernels. */
#define ENTRY_PRESENT ((uint64_t)1 << 63)
#define ENTRY_SWAPPED ((uint64_t)1 << 62)
#define ENTRY_FILE ((uint64_t)1 << 61)
#define ENTRY_GUARD ((uint64_t)1 << 58)

static int private_pages_slowly(int pagemap, uint64_t *at, uint64_t end,
                                uint64_t *ret_start, uint64_t *ret_end)
{
    uint64_t entries[512];
    bool found = false;

    while (*at < end) {
        uint64_t want =
            MIN((end - *at) / IMAGE_PAGE, (uint64_t)ARRAY_SIZE(entries));
        long n = CALL4(SYS_pread64, pagemap, entries, want * sizeof(*entries),
                       *at / IMAGE_PAGE * sizeof(*entries));

        if (n <= 0)
            return n < 0 ? (int)n : -EIO;
        for (uint64_t i = 0; i < (uint64_t)n / sizeof(*entries);
             i++, *at += IMAGE_PAGE) {
            bool own = entries[i] & (ENTRY_PRESENT | ENTRY_SWAPPED) &&
                       !(entries[i] & (ENTRY_FILE | ENTRY_GUARD));

            if (own && !found) {
                found = true;
                *ret_start = *at;
            } else if (!own && found) {
                *ret_end = *at;
                return 1;
            }
        }
    }
    *ret_end = end;
    return found;
}

int image_private_pages(int pagemap, uint64_t *at, uint64_t end,
                        uint64_t *ret_start, uint64_t *ret_end)
{
    struct scan_region region;
    struct scan_arg arg = {.size = sizeof(arg),
                           .start = *at,
                           .end = end,
                           .vec = (uint64_t)(uintptr_t)&region,
                           .vec_len = 1,
                           .inverted = PAGE_FILE | PAGE_ZERO | PAGE_GUARD,
                           .mask = PAGE_FILE | PAGE_ZERO | PAGE_GUARD,
                           .any_of = PAGE_PRESENT | PAGE_SWAPPED,
                           .returned = PAGE_FILE};
    long n;

    if (*at >= end)
        return 0;
    n = CALL3(SYS_ioctl, pagemap, PAGEMAP_SCAN, &arg);
    if (n == -EINVAL) {
        arg.inverted = arg.mask = PAGE_FILE | PAGE_ZERO;
        n = CALL3(SYS_ioctl, pagemap, PAGEMAP_SCAN, &arg);
    }
    if (n == -ENOTTY || n == -EINVAL)
        return private_pages_slowly(pagemap, at, end, ret_start, ret_end);
    if (n < 0)
        return (int)n;
    if (n == 0) {
        *at = end;
        return 0;
    }
    *ret_start = region.start;
    *ret_end = region.end;
    *at = region.end;
    return 1;
}

/* ---- before: what can be refused ---------------------------------------- */

static bool copy_out(int image, uint64_t at, uint64_t bytes, int to)
{
    char buffer[65536];

    while (bytes > 0) {
        ssize_t n =
            pread(image, buffer, MIN(bytes, sizeof(buffer)), (off_t)at);

        if (n <= 0 || fd_write_all(to, buffer, (size_t)n) < 0)
            return false;
        at += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return true;
}

static bool put_regular(const struct image_file *f, const char *path,
                        int image, uint64_t at)
{
    int fd cleanup(fd_close) = -1;
    struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        {f->mtime_ns / 1000000000, f->mtime_ns % 1000000000}};

    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
              0600);
    if (fd < 0 || !copy_out(image, at, f->bytes, fd) ||
        fchmod(fd, f->mode & 0777) < 0)
        return false;
    (void)futimens(fd, times); /* a time out of range: it is new, then */
    return true;
}

static bool put_link(const struct image_file *f, const char *path, int image,
                     uint64_t at)
{
    char target[PATH_MAX];

    if (f->bytes >= sizeof(target) ||
        pread(image, target, f->bytes, (off_t)at) != (ssize_t)f->bytes)
        return false;
    target[f->bytes] = '\0';
    return symlink(target, path) == 0 || errno == EEXIST;
}

/* The session's files outside /mnt/data. */
static bool put_files(const struct image *im, int image)
{
    uint64_t at = image_files_at(&im->head);

    for (uint32_t i = 0; i < im->head.file_count; i++) {
        const struct image_file *f = &im->files[i];
        const char *path = im->strings + f->path;
        bool ok = true;

        if (f->kind == IMAGE_FILE_FOLDER)
            ok = mkdir(path, f->mode & 0777) == 0 || errno == EEXIST;
        else if (f->kind == IMAGE_FILE_REGULAR)
            ok = put_regular(f, path, image, at);
        else if (f->kind == IMAGE_FILE_LINK)
            ok = put_link(f, path, image, at);
        if (!ok)
            return false;
        at += f->bytes;
    }
    return true;
}

/* Files that are mapped: there, and long enough? */
static bool mapped_files_ok(const struct image *im)
{
    for (uint32_t i = 0; i < im->head.map_count; i++) {
        const struct image_map *m = &im->maps[i];
        struct stat st;

        if (m->kind != IMAGE_MAP_FILE && m->kind != IMAGE_MAP_SHARED_FILE)
            continue;
        if (stat(im->strings + m->path, &st) < 0 || !S_ISREG(st.st_mode) ||
            (uint64_t)st.st_size <= m->offset)
            return false;
    }
    return true;
}

static bool add_own(void *ctx, const struct image_vma *vma, const char *name)
{
    struct waking *w = ctx;

    (void)name;
    if (vma->flags & VMA_KERNEL || vma->start == IMAGE_ROOM)
        return true;
    w->too_many = w->own_count == OWN_MAX;
    if (w->too_many)
        return false;
    w->own[w->own_count++] = *vma;
    return true;
}

/* Does this process have all mappings of the zygote that the image needs? */
static bool zygote_maps_ok(const struct waking *w)
{
    const struct image *im = &w->im;
    uint32_t k = 0;

    for (uint32_t i = 0; i < im->head.map_count; i++) {
        uint64_t at = im->maps[i].start, end = im->maps[i].end, to;

        if (im->maps[i].kind != IMAGE_MAP_ZYGOTE)
            continue;
        while (at < end) {
            while (k < w->own_count && w->own[k].end <= at)
                k++;
            if (k == w->own_count || w->own[k].start > at ||
                !image_zygote_has(&w->own[k], at, &to))
                return false;
            at = MIN(to, end);
        }
    }
    return true;
}

/* The word in which the C library keeps this thread's id. */
static uint32_t *find_tid(void)
{
    uint32_t *word = NULL;
    uint32_t tid = (uint32_t)syscall(SYS_gettid);

    if (prctl(PR_GET_TID_ADDRESS, &word, 0, 0, 0) == 0 && word && *word == tid)
        return word;
    word = (uint32_t *)pthread_self();
    for (size_t i = 0; i < 512; i++)
        if (word[i] == tid)
            return word + i;
    return NULL;
}

static bool find_own_words(struct waking *w)
{
    const ptrdiff_t *offset = dlsym(RTLD_DEFAULT, "__rseq_offset");
    const unsigned *size = dlsym(RTLD_DEFAULT, "__rseq_size");

    w->tid = find_tid();
    if (!w->tid)
        return false;
    w->tid_value = *w->tid;
    if (offset && size && *size) {
        w->rseq = (char *)__builtin_thread_pointer() + *offset;
        memcpy(w->rseq_value, w->rseq, sizeof(w->rseq_value));
    }
    return true;
}

/* The highest numbers, if no descriptor of the image has one of them. */
static bool find_temps(struct waking *w)
{
    const struct image *im = &w->im;
    uint32_t last = im->head.fd_count;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur < 4 * TEMPS)
        return false;
    w->temps = (int)(MIN(limit.rlim_cur, (rlim_t)1048576) - TEMPS);
    return last == 0 || im->fds[last - 1].fd < (uint32_t)w->temps;
}

/* ---- after: only system calls ------------------------------------------- */

/* (state, function, top of the stack) */
__asm__(".text\n"
        ".type run_on_stack, @function\n"
        "run_on_stack:\n"
        "  movq %rdx, %rsp\n"
        "  xorl %ebp, %ebp\n"
        "  call *%rsi\n"
        "  hlt\n"
        ".size run_on_stack, .-run_on_stack\n");
extern _Noreturn void run_on_stack(struct waking *w,
                                   void (*fn)(struct waking *w), void *top);

static void unmap(uint64_t start, uint64_t end)
{
    if (start < end && CALL3(SYS_munmap, start, end - start, 0) < 0)
        image_lost(1);
}

/* Own mappings that the image has nothing at. */
static void remove_others(const struct waking *w)
{
    const struct image *im = &w->im;
    uint32_t m = 0;

    for (uint32_t k = 0; k < w->own_count; k++) {
        uint64_t at = w->own[k].start, end = w->own[k].end;

        while (m > 0 && im->maps[m - 1].end > at)
            m--;
        while (m < im->head.map_count && im->maps[m].end <= at)
            m++;
        for (uint32_t i = m; at < end; i++) {
            if (i == im->head.map_count || im->maps[i].start >= end) {
                unmap(at, end);
                break;
            }
            unmap(at, im->maps[i].start);
            at = MAX(at, im->maps[i].end);
        }
    }
}

static void protect_zygote_map(const struct waking *w,
                               const struct image_map *m, uint32_t *k)
{
    while (*k < w->own_count && w->own[*k].end <= m->start)
        ++*k;
    for (uint32_t i = *k; i < w->own_count && w->own[i].start < m->end; i++) {
        uint64_t start = MAX(w->own[i].start, m->start);
        uint64_t end = MIN(w->own[i].end, m->end);

        if (w->own[i].prot != m->prot &&
            CALL3(SYS_mprotect, start, end - start, m->prot) < 0)
            image_lost(6);
    }
}

static void map_all(const struct waking *w)
{
    uint32_t k = 0;

    for (uint32_t i = 0; i < w->im.head.map_count; i++) {
        const struct image_map *m = &w->im.maps[i];

        if (m->kind == IMAGE_MAP_ZYGOTE)
            protect_zygote_map(w, m, &k);
        else if (m->kind == IMAGE_MAP_FILE || m->kind == IMAGE_MAP_SHARED_FILE)
            image_place_file(&w->im, m);
        else
            image_place_anonymous(m);
    }
}

/* Pages of this process that the image has not: the zygote's again, or empty.
 */
static void drop_pages(const struct waking *w)
{
    const struct image *im = &w->im;
    uint32_t run = 0;

    for (uint32_t i = 0; i < im->head.map_count; i++) {
        uint64_t at = im->maps[i].start, start, end;

        if (im->maps[i].kind != IMAGE_MAP_ZYGOTE)
            continue;
        while (image_private_pages(w->pagemap, &at, im->maps[i].end, &start,
                                   &end) > 0) {
            while (run < im->head.run_count &&
                   im->runs[run].start + im->runs[run].pages * IMAGE_PAGE <=
                       start)
                run++;
            for (uint32_t k = run; start < end; k++) {
                uint64_t to =
                    k < im->head.run_count ? MIN(im->runs[k].start, end) : end;

                if (start < to)
                    (void)CALL3(SYS_madvise, start, to - start, MADV_DONTNEED);
                if (k == im->head.run_count)
                    break;
                start = MAX(start, im->runs[k].start +
                                       im->runs[k].pages * IMAGE_PAGE);
            }
        }
    }
}

static void put_own_words(const struct waking *w)
{
    *w->tid = w->tid_value;
    if (w->rseq)
        for (size_t i = 0; i < RSEQ_BYTES; i++)
            ((volatile char *)w->rseq)[i] = w->rseq_value[i];
}

/* ---- descriptors -------------------------------------------------------- */

/* temps + 0 to 3: our own 0 to 3; + 4: the image; + 5: pagemap */
enum {
    TEMP_IMAGE = 4,
    TEMP_PAGEMAP,
    TEMP_NEW
};

static void move_own(struct waking *w)
{
    int from[] = {0, 1, 2, KERNEL_FRAMES_FD, w->image, w->pagemap};

    for (int i = 0; i < (int)ARRAY_SIZE(from); i++)
        if (CALL3(SYS_dup3, from[i], w->temps + i, O_CLOEXEC) < 0 && i > 0)
            image_lost(11);
    w->image = w->temps + TEMP_IMAGE;
    w->pagemap = w->temps + TEMP_PAGEMAP;
}

static long open_dead(void)
{
    int pair[2];

    if (CALL4(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) <
        0)
        return -1;
    (void)CALL3(SYS_close, pair[1], 0, 0);
    return pair[0];
}

static bool starts_with(const char *text, const char *start)
{
    while (*start)
        if (*text++ != *start++)
            return false;
    return true;
}

static long open_unnamed(const struct waking *w, const struct image_fd *f)
{
    const struct image_file *file = &w->im.files[f->of];
    uint64_t at = image_files_at(&w->im.head), done = 0;
    char *buffer = (char *)(IMAGE_ROOM + AT_LINES);
    long fd;

    for (uint32_t i = 0; i < f->of; i++)
        at += w->im.files[i].bytes;
    fd = starts_with(w->im.strings + file->path, "/memfd:")
             ? CALL3(SYS_memfd_create, "restored", MFD_CLOEXEC, 0)
             : CALL4(SYS_openat, AT_FDCWD,
                     starts_with(w->im.strings + file->path, SANDBOX_DATA)
                         ? SANDBOX_DATA
                         : "/tmp",
                     O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    while (fd >= 0 && done < file->bytes) {
        long n = CALL4(SYS_pread64, w->image, buffer,
                       MIN(file->bytes - done, (uint64_t)IMAGE_LINES_ROOM),
                       at + done);

        if (n <= 0 || CALL4(SYS_pwrite64, fd, buffer, n, done) != n) {
            (void)CALL3(SYS_close, fd, 0, 0);
            return -1;
        }
        done += (uint64_t)n;
    }
    return fd;
}

static long open_one(const struct waking *w, const struct image_fd *f)
{
    if (f->kind == IMAGE_FD_PATH)
        return CALL4(SYS_openat, AT_FDCWD, w->im.strings + f->path,
                     (f->flags & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_SYNC |
                                  O_DIRECTORY | O_PATH)) |
                         O_CLOEXEC | O_NOCTTY,
                     0);
    if (f->kind == IMAGE_FD_UNNAMED)
        return open_unnamed(w, f);
    return -1;
}

static void put_descriptors(const struct waking *w)
{
    const struct image *im = &w->im;
    uint32_t after = 0;

    for (uint32_t i = 0; i < im->head.fd_count; i++) {
        const struct image_fd *f = &im->fds[i];
        long from;

        if (f->kind == IMAGE_FD_COPY) {
            from = w->temps + (int)f->of;
        } else {
            from = open_one(w, f);
            if (from < 0)
                from = open_dead();
            if (from < 0)
                image_lost(12);
            /* Out of the way of the numbers to come. */
            if (CALL3(SYS_dup3, from, w->temps + TEMP_NEW, O_CLOEXEC) < 0)
                image_lost(13);
            (void)CALL3(SYS_close, from, 0, 0);
            from = w->temps + TEMP_NEW;
            (void)CALL3(SYS_lseek, from, f->offset, SEEK_SET);
        }
        if (after < f->fd)
            (void)CALL3(SYS_close_range, after, f->fd - 1, 0);
        if (CALL3(SYS_dup3, from, f->fd, f->close_on_exec ? O_CLOEXEC : 0) < 0)
            image_lost(14);
        after = f->fd + 1;
    }
    if (after < (uint32_t)w->temps)
        (void)CALL3(SYS_close_range, after, w->temps - 1, 0);
    for (uint32_t i = 0; i < TEMPS; i++)
        (void)CALL3(SYS_close, w->temps + (int)i, 0, 0);
}

static void become(struct waking *w)
{
    remove_others(w);
    map_all(w);
    drop_pages(w);
    image_place_pages(&w->im, w->image);
    put_own_words(w);
    put_descriptors(w);
    if (CALL3(SYS_chdir, w->im.strings + w->im.head.cwd, 0, 0) < 0)
        (void)CALL3(SYS_chdir, SANDBOX_DATA, 0, 0);
    image_place_signals(&w->im.head);
    image_context_load(&w->im.head.context);
}

/* ---- the entry ---------------------------------------------------------- */

static enum kernel_image prepare(struct waking *w, uint64_t memory_bytes)
{
    const struct image_ids *ids = image_zygote_ids();
    enum kernel_image r;

    if (!ids)
        return KERNEL_IMAGE_UNSUPPORTED;
    r = image_read(w->image, ids, memory_bytes,
                   (char *)(IMAGE_ROOM + AT_TABLES), TABLES_BYTES, &w->im);
    if (r != KERNEL_IMAGE_USABLE)
        return r;
    if (w->im.head.process.heap_bytes)
        return KERNEL_IMAGE_DAMAGED; /* that of a zygote */
    if (w->im.head.pid == (uint32_t)getpid())
        return KERNEL_IMAGE_AGAIN;
    w->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (w->pagemap < 0)
        return KERNEL_IMAGE_UNSUPPORTED;
    if (!put_files(&w->im, w->image) || !mapped_files_ok(&w->im) ||
        !find_own_words(w) || !find_temps(w))
        return KERNEL_IMAGE_DAMAGED;
    /* From here on nothing may allocate. */
    if ((uint64_t)syscall(SYS_brk, w->im.head.brk) != w->im.head.brk)
        return KERNEL_IMAGE_DAMAGED;
    w->own = (struct image_vma *)(IMAGE_ROOM + AT_OWN);
    if (image_vmas(false, (char *)(IMAGE_ROOM + AT_LINES), add_own, w) < 0 ||
        w->too_many || !zygote_maps_ok(w))
        return KERNEL_IMAGE_MISMATCH;
    return KERNEL_IMAGE_USABLE;
}

enum kernel_image image_wake(int fd, uint64_t memory_bytes,
                             const void *message, size_t message_len)
{
    struct waking *w =
        mmap((void *)IMAGE_ROOM, IMAGE_ROOM_BYTES, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
             -1, 0);
    sigset_t all;
    enum kernel_image r;

    if (w != (struct waking *)IMAGE_ROOM || message_len > MESSAGE_MAX)
        return KERNEL_IMAGE_UNSUPPORTED;
    memcpy(w->message, message, message_len);
    w->image = fd;
    w->pagemap = -1;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, NULL);
    r = prepare(w, memory_bytes);
    if (r != KERNEL_IMAGE_USABLE)
        return r;
    move_own(w);
    run_on_stack(w, become, (void *)(IMAGE_ROOM + AT_STACK + STACK_BYTES));
}

void image_wake_message(void *ret, size_t len)
{
    const struct waking *w = (const struct waking *)IMAGE_ROOM;

    memcpy(ret, w->message, MIN(len, (size_t)MESSAGE_MAX));
    (void)munmap((void *)IMAGE_ROOM, IMAGE_ROOM_BYTES);
}
