/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes an image of this process. Runs in a fork of the kernel, which exits
 * afterwards, while the kernel waits for a frame. The fork has one thread: the
 * C library's fork handlers have ended the thread pools of libraries, which
 * start them again when they are used.
 *
 * After the freeze (freeze.c) a page that differs from the zygote is an
 * anonymous page, so that one scan of the page tables finds all of them.
 * Tables are collected in the room that waking uses too, so that no image
 * contains them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "kernel/image.h"
#include "kernel/kernel_int.h"

/* Parts of the room. */
#define AT_MAPS ((uint64_t)0)
#define AT_RUNS ((uint64_t)4 << 20)
#define AT_FDS ((uint64_t)21 << 20)
#define AT_FILES ((uint64_t)22 << 20)
#define AT_STRINGS ((uint64_t)26 << 20)
#define AT_LINES ((uint64_t)36 << 20)
#define AT_BUFFER ((uint64_t)37 << 20)
#define BUFFER_BYTES ((size_t)1 << 20)

#define DEPTH_MAX 64
#define LAZY_PAGES 16u   /* fewer are read at once */
#define MALLOC_MAPPED 2u /* flag of the C library in a block's size */
#define MALLOC_HEAD 16u
#define DELETED " (deleted)"

/* What a session writes outside /mnt/data. */
static const char *const carried[] = {"/tmp", "/var/tmp", SANDBOX_HOME,
                                      "/dev/shm"};

struct saving {
    struct image_head head;
    struct image_map *maps;
    struct image_run *runs;
    struct image_fd *fds;
    struct image_file *files;
    char *strings;
    char *lines, *buffer;
    uint64_t block; /* the end of the block of malloc that was seen last */
    uint32_t uncarried;
    bool refused, overflow;
    bool full_scan;           /* all flags of mappings are wanted */
    int pagemap, image, tell; /* our own descriptors */
};

/* ---- tables ------------------------------------------------------------- */

static uint32_t add_string(struct saving *s, const char *text)
{
    size_t len = strlen(text) + 1;
    uint32_t at = s->head.strings_bytes;

    if (len > IMAGE_STRINGS_MAX - at) {
        s->overflow = true;
        return 0;
    }
    memcpy(s->strings + at, text, len);
    s->head.strings_bytes += (uint32_t)len;
    return at;
}

static struct image_map *add_map(struct saving *s, const struct image_vma *v,
                                 uint64_t start, uint64_t end, uint16_t kind)
{
    struct image_map *m = &s->maps[s->head.map_count];

    if (s->head.map_count == IMAGE_MAPS_MAX) {
        s->overflow = true;
        return NULL;
    }
    s->head.map_count++;
    *m = (struct image_map){.start = start,
                            .end = end,
                            .offset = v->offset + (start - v->start),
                            .kind = kind,
                            .prot = v->prot};
    return m;
}

static void add_run(struct saving *s, uint64_t start, uint64_t end, bool lazy)
{
    uint64_t pages = (end - start) / IMAGE_PAGE;

    if (s->head.run_count == IMAGE_RUNS_MAX || pages > UINT32_MAX) {
        s->overflow = true;
        return;
    }
    s->runs[s->head.run_count++] =
        (struct image_run){.start = start,
                           .pages = (uint32_t)pages,
                           .lazy = lazy && pages >= LAZY_PAGES};
    s->head.page_count += pages;
}

static void add_private_runs(struct saving *s, uint64_t start, uint64_t end)
{
    uint64_t at = start, first, last;

    while (image_private_pages(s->pagemap, &at, end, &first, &last) > 0)
        add_run(s, first, last, false);
}

/*
 * The end of a large block of malloc that begins here and has its own mapping,
 * or 0. Only such blocks may be mapped from the image later: malloc only
 * unmaps them. Other allocators take MADV_DONTNEED for a way to get zeros,
 * and a private mapping of a file would return the image's bytes.
 */
static uint64_t block_end(uint64_t at)
{
    uint64_t before = ((const uint64_t *)at)[0];
    uint64_t size = ((const uint64_t *)at)[1];

    if (before != 0 || (size & 7) != MALLOC_MAPPED)
        return 0;
    size -= MALLOC_MAPPED;
    if (size % IMAGE_PAGE == IMAGE_PAGE - MALLOC_HEAD)
        size += MALLOC_HEAD; /* from glibc 2.43 on, the head is not counted */
    return size >= LAZY_PAGES * IMAGE_PAGE && size % IMAGE_PAGE == 0 &&
                   size < IMAGE_BYTES_MAX
               ? at + size
               : 0;
}

/* Where in [first, last) a block begins, or last. */
static uint64_t find_block(struct saving *s, uint64_t first, uint64_t last)
{
    for (s->block = 0; first < last; first += IMAGE_PAGE) {
        s->block = block_end(first);
        if (s->block)
            break;
    }
    return first;
}

/* The same for anonymous memory. The first page of a block is there. A block
 * may be several mappings, for libraries ask for huge pages from its second
 * page on. */
static void add_anonymous_runs(struct saving *s, uint64_t start, uint64_t end)
{
    uint64_t at = start, first, last, next;

    while (image_private_pages(s->pagemap, &at, end, &first, &last) > 0)
        for (; first < last; first = next) {
            bool within = first < s->block;

            next = within ? MIN(last, s->block) : find_block(s, first, last);
            if (next > first)
                add_run(s, first, next, within);
        }
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    return strncmp(path, folder, n) == 0 &&
           (path[n] == '/' || path[n] == '\0');
}

/* Will the path lead to the same file in another sandbox? */
static bool is_kept(const char *path)
{
    for (size_t i = 0; i < ARRAY_SIZE(carried); i++)
        if (is_below(path, carried[i]))
            return true;
    return is_below(path, SANDBOX_DATA);
}

/* Is the file behind the mapping the one that has its name? */
static bool has_name(const struct image_vma *v, const char *name)
{
    struct stat st;

    return name[0] == '/' && !ends_with(name, DELETED) &&
           stat(name, &st) == 0 && S_ISREG(st.st_mode) &&
           st.st_ino == v->inode &&
           (uint64_t)st.st_size + IMAGE_PAGE > v->offset;
}

/* ---- mappings ----------------------------------------------------------- */

static void add_shared(struct saving *s, const struct image_vma *v,
                       const char *name)
{
    struct image_map *m;

    if (strncmp(name, "/dev/zero", 9) == 0) {
        /* Anonymous: no other process maps it, since there are no children. */
        m = add_map(s, v, v->start, v->end, IMAGE_MAP_SHARED_ANON);
        if (m)
            m->offset = 0;
        add_run(s, v->start, v->end, false);
        return;
    }
    if (!is_kept(name) || !has_name(v, name)) {
        s->uncarried |= KERNEL_UNCARRIED_SHARED;
        s->refused = true;
        return;
    }
    m = add_map(s, v, v->start, v->end, IMAGE_MAP_SHARED_FILE);
    if (m)
        m->path = add_string(s, name);
}

/* A part of a private mapping that the zygote does not have. */
static void add_own(struct saving *s, const struct image_vma *v,
                    uint64_t start, uint64_t end, const char *name)
{
    struct image_map *m;

    if (v->inode == 0) {
        m = add_map(s, v, start, end,
                    v->flags & VMA_DROPPABLE ? IMAGE_MAP_DROPPABLE
                    : v->flags & VMA_WIPED   ? IMAGE_MAP_WIPED
                    : v->flags & VMA_GROWS   ? IMAGE_MAP_STACK
                                             : IMAGE_MAP_ANON);
        if (m)
            m->offset = 0;
        if (v->flags & VMA_GROWS || !(v->prot & PROT_READ))
            add_private_runs(s, start, end);
        else if (!(v->flags & (VMA_DROPPABLE | VMA_WIPED)))
            add_anonymous_runs(s, start, end);
    } else if (has_name(v, name)) {
        m = add_map(s, v, start, end, IMAGE_MAP_FILE);
        if (m)
            m->path = add_string(s, name);
        add_private_runs(s, start, end);
    } else {
        /* The file has no name: an older image, a moved part of the frozen
         * heap, a library that was replaced. All its pages are data, and of
         * a file already. */
        m = add_map(s, v, start, end, IMAGE_MAP_ANON);
        if (m)
            m->offset = 0;
        add_run(s, start, end, true);
    }
}

static bool add_vma(void *ctx, const struct image_vma *v, const char *name)
{
    struct saving *s = ctx;
    uint64_t end;

    if (v->flags & VMA_KERNEL ||
        (v->start >= IMAGE_ROOM && v->end <= IMAGE_ROOM + IMAGE_ROOM_BYTES))
        return true;
    for (uint64_t at = v->start; at < v->end; at = end) {
        if (image_zygote_has(v, at, &end)) {
            if (add_map(s, v, at, end, IMAGE_MAP_ZYGOTE) && !v->shared &&
                !(v->flags & (VMA_DROPPABLE | VMA_WIPED)))
                add_private_runs(s, at, end);
        } else if (v->shared) {
            add_shared(s, v, name);
            break;
        } else {
            add_own(s, v, at, end, name);
        }
    }
    return !s->overflow;
}

/* ---- files outside /mnt/data -------------------------------------------- */

static struct image_file *add_file(struct saving *s, const char *path,
                                   const struct stat *st, uint16_t kind)
{
    struct image_file *f = &s->files[s->head.file_count];

    if (s->head.file_count == IMAGE_FILES_MAX) {
        s->overflow = true;
        return NULL;
    }
    s->head.file_count++;
    *f = (struct image_file){
        .path = add_string(s, path),
        .kind = kind,
        .mode = (uint16_t)(st->st_mode & 07777),
        .mtime_ns = st->st_mtim.tv_sec * 1000000000LL + st->st_mtim.tv_nsec,
        .bytes = kind == IMAGE_FILE_FOLDER ? 0 : (uint64_t)st->st_size};
    s->head.file_bytes += f->bytes;
    return f;
}

static void add_folder(struct saving *s, const char *path, int depth)
{
    DIR *dir cleanup(fd_closedir) = opendir(path);
    struct dirent *e;

    if (!dir || depth > DEPTH_MAX) {
        s->uncarried |= KERNEL_UNCARRIED_TMP;
        return;
    }
    while (!s->overflow && (e = readdir(dir))) {
        char name[PATH_MAX];
        struct stat st;

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (snprintf(name, sizeof(name), "%s/%s", path, e->d_name) >=
                (int)sizeof(name) ||
            lstat(name, &st) < 0) {
            s->uncarried |= KERNEL_UNCARRIED_TMP;
        } else if (S_ISDIR(st.st_mode)) {
            if (add_file(s, name, &st, IMAGE_FILE_FOLDER))
                add_folder(s, name, depth + 1);
        } else if (S_ISREG(st.st_mode) && access(name, R_OK) == 0) {
            (void)add_file(s, name, &st, IMAGE_FILE_REGULAR);
        } else if (S_ISLNK(st.st_mode)) {
            (void)add_file(s, name, &st, IMAGE_FILE_LINK);
        } else {
            s->uncarried |= KERNEL_UNCARRIED_TMP; /* a socket, a pipe */
        }
    }
}

/* ---- descriptors -------------------------------------------------------- */

static bool read_link(int fd, char *out, size_t size)
{
    char path[32];
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    n = readlink(path, out, size - 1);
    if (n < 0)
        return false;
    out[n] = '\0';
    return true;
}

/* Copies of the kernel's own channels have the same link. */
static bool is_channel(const char *link, int fd, uint32_t *ret_of)
{
    char own[PATH_MAX];

    if (strncmp(link, "pipe:", 5) != 0 && strncmp(link, "socket:", 7) != 0)
        return false;
    for (int i = 1; i <= KERNEL_FRAMES_FD; i++)
        if ((i == fd || read_link(i, own, sizeof(own))) &&
            (i == fd || strcmp(own, link) == 0)) {
            *ret_of = (uint32_t)i;
            return true;
        }
    return false;
}

static void add_regular(struct saving *s, struct image_fd *f, const char *link,
                        const struct stat *st)
{
    struct stat named;

    if (!ends_with(link, DELETED) && stat(link, &named) == 0 &&
        named.st_ino == st->st_ino && named.st_dev == st->st_dev) {
        f->kind = IMAGE_FD_PATH;
        f->path = add_string(s, link);
        if (!is_kept(link) && (f->flags & O_ACCMODE) != O_RDONLY) {
            s->uncarried |= KERNEL_UNCARRIED_FILES;
            f->kind = IMAGE_FD_DEAD;
        }
        return;
    }
    f->kind = IMAGE_FD_UNNAMED;
    f->of = s->head.file_count;
    /* The path says what to make: a memory file, or one on a disk. */
    (void)add_file(s, link, st, IMAGE_FILE_UNNAMED);
}

static void add_fd(struct saving *s, int fd)
{
    struct image_fd *f = &s->fds[s->head.fd_count];
    char link[PATH_MAX];
    struct stat st;
    int flags = fcntl(fd, F_GETFL), own = fcntl(fd, F_GETFD);
    off_t at;

    if (flags < 0 || own < 0 || fstat(fd, &st) < 0 ||
        !read_link(fd, link, sizeof(link)))
        return;
    if (s->head.fd_count == IMAGE_FDS_MAX) {
        s->overflow = true;
        return;
    }
    s->head.fd_count++;
    at = lseek(fd, 0, SEEK_CUR);
    *f = (struct image_fd){.fd = (uint32_t)fd,
                           .close_on_exec = own & FD_CLOEXEC,
                           .kind = IMAGE_FD_DEAD,
                           .flags = (uint32_t)flags &
                                    (O_ACCMODE | O_APPEND | O_NONBLOCK |
                                     O_SYNC | O_DIRECTORY | O_PATH),
                           .offset = at > 0 ? (uint64_t)at : 0};
    if (is_channel(link, fd, &f->of)) {
        f->kind = IMAGE_FD_COPY;
    } else if (S_ISREG(st.st_mode)) {
        add_regular(s, f, link, &st);
    } else if (S_ISDIR(st.st_mode) ||
               (S_ISCHR(st.st_mode) && is_below(link, "/dev"))) {
        f->kind = IMAGE_FD_PATH;
        f->path = add_string(s, link);
    } else {
        s->uncarried |= KERNEL_UNCARRIED_SOCKETS;
    }
}

static int order_fds(const void *a, const void *b)
{
    const struct image_fd *x = a, *y = b;

    return x->fd < y->fd ? -1 : x->fd > y->fd;
}

static int add_fds(struct saving *s)
{
    DIR *dir cleanup(fd_closedir) = opendir("/proc/self/fd");
    struct dirent *e;

    if (!dir)
        return -errno;
    while ((e = readdir(dir))) {
        int fd = 0;

        if (sscanf(e->d_name, "%d", &fd) == 1 && fd != dirfd(dir) &&
            fd != s->image && fd != s->tell && fd != s->pagemap)
            add_fd(s, fd);
    }
    qsort(s->fds, s->head.fd_count, sizeof(*s->fds), order_fds);
    return 0;
}

/* ---- the rest of a process ---------------------------------------------- */

static void add_signals(struct saving *s)
{
    stack_t alt;
    struct {
        uint64_t handler, flags, restorer, mask;
    } action;

    for (int i = 0; i < IMAGE_SIGNALS; i++)
        if (syscall(SYS_rt_sigaction, i + 1, NULL, &action, 8) == 0)
            s->head.signals[i] = (struct image_signal){
                action.handler, action.flags, action.restorer, action.mask};
    (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &s->head.signal_mask,
                  8);
    if (sigaltstack(NULL, &alt) == 0) {
        s->head.altstack = (uint64_t)(uintptr_t)alt.ss_sp;
        s->head.altstack_bytes = alt.ss_size;
        s->head.altstack_flags = (uint32_t)alt.ss_flags & SS_DISABLE;
    }
}

static void add_surroundings(struct saving *s)
{
    char cwd[PATH_MAX];
    mode_t mask = umask(0);

    (void)umask(mask);
    s->head.umask = mask & 0777;
    s->head.cwd = add_string(s, getcwd(cwd, sizeof(cwd)) ? cwd : SANDBOX_DATA);
    s->head.brk = (uint64_t)syscall(SYS_brk, 0);
    add_signals(s);
}

/* Processes beside the kernel, pid 1 and copies that stand still. */
static bool others_run(void)
{
    DIR *dir cleanup(fd_closedir) = opendir("/proc");
    struct dirent *e;

    while (dir && (e = readdir(dir))) {
        char path[64], text[512], *p;
        int pid = 0, fd;
        ssize_t n;

        if (sscanf(e->d_name, "%d", &pid) != 1 || pid <= 1 ||
            pid == getpid() || pid == getppid())
            continue;
        (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        fd_close(&fd);
        if (n <= 0)
            continue;
        text[n] = '\0';
        p = strrchr(text, ')');
        if (p && p[1] == ' ' && p[2] != 'Z' && p[2] != 'T')
            return true;
    }
    return false;
}

static int collect(struct saving *s)
{
    char *room =
        mmap((void *)IMAGE_ROOM, IMAGE_ROOM_BYTES, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
             -1, 0);
    int r;

    if (room != (char *)IMAGE_ROOM)
        return room == MAP_FAILED ? -errno : -EEXIST;
    s->maps = (void *)(room + AT_MAPS);
    s->runs = (void *)(room + AT_RUNS);
    s->fds = (void *)(room + AT_FDS);
    s->files = (void *)(room + AT_FILES);
    s->strings = room + AT_STRINGS;
    s->lines = room + AT_LINES;
    s->buffer = room + AT_BUFFER;
    s->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (s->pagemap < 0)
        return -errno;
    for (size_t i = 0; i < ARRAY_SIZE(carried); i++)
        add_folder(s, carried[i], 0);
    r = add_fds(s);
    add_surroundings(s);
    if (others_run())
        s->uncarried |= KERNEL_UNCARRIED_CHILDREN;
    /* Last, and without allocations: this is the memory as it stays. */
    if (r == 0)
        r = image_vmas(s->full_scan, s->lines, add_vma, s);
    if (r == 0 && s->overflow)
        r = -EFBIG;
    return r;
}

static void collect_done(struct saving *s)
{
    fd_close(&s->pagemap);
    (void)munmap((void *)IMAGE_ROOM, IMAGE_ROOM_BYTES);
}

static void fill_head(struct saving *s, uint32_t pid)
{
    memcpy(s->head.magic, IMAGE_MAGIC, sizeof(s->head.magic));
    s->head.version = IMAGE_VERSION;
    s->head.ids = *image_zygote_ids();
    s->head.pid = pid;
    s->head.total_bytes = image_files_at(&s->head) + s->head.file_bytes;
}

/* ---- writing ------------------------------------------------------------
 *
 * In one go from the first byte to the last: the other end may be a pipe.
 */

static int put(int fd, const void *from, size_t len)
{
    const char *p = from;

    while (len > 0) {
        ssize_t n = write(fd, p, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Pages that cannot be read are zeros: behind the end of a file, or a guard
 * that an older kernel reports as a page. */
static int put_run(int fd, const struct image_run *run)
{
    static const char zeros[IMAGE_PAGE];
    uint64_t at = run->start, end = at + run->pages * IMAGE_PAGE;

    while (at < end) {
        ssize_t n = write(fd, (const void *)at, end - at);
        uint64_t rest = IMAGE_PAGE - at % IMAGE_PAGE;

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EFAULT) {
            int r = put(fd, zeros, rest);

            if (r < 0)
                return r;
            n = (ssize_t)rest;
        }
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        at += (uint64_t)n;
    }
    return 0;
}

static int put_pages(struct saving *s, int fd)
{
    uint32_t m = 0;

    for (uint32_t i = 0; i < s->head.run_count; i++) {
        const struct image_run *run = &s->runs[i];
        int r;

        while (s->maps[m].end <= run->start)
            m++;
        /* This process ends afterwards; the table has the real protection. */
        if (!(s->maps[m].prot & PROT_READ))
            (void)mprotect((void *)run->start, run->pages * IMAGE_PAGE,
                           PROT_READ);
        r = put_run(fd, run);
        if (r < 0)
            return r;
    }
    return 0;
}

static int copy_file(struct saving *s, int from, int fd, uint64_t bytes)
{
    uint64_t done = 0;

    while (done < bytes) {
        size_t part = MIN(bytes - done, BUFFER_BYTES);
        ssize_t n = pread(from, s->buffer, part, (off_t)done);
        int r;

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EBUSY; /* it was cut meanwhile */
        r = put(fd, s->buffer, (size_t)n);
        if (r < 0)
            return r;
        done += (uint64_t)n;
    }
    return 0;
}

static int open_unnamed(const struct saving *s, uint32_t file)
{
    char path[32];

    for (uint32_t i = 0; i < s->head.fd_count; i++)
        if (s->fds[i].kind == IMAGE_FD_UNNAMED && s->fds[i].of == file) {
            (void)snprintf(path, sizeof(path), "/proc/self/fd/%u",
                           s->fds[i].fd);
            return open(path, O_RDONLY | O_CLOEXEC);
        }
    errno = ENOENT;
    return -1;
}

static int put_file(struct saving *s, uint32_t i, int fd)
{
    const struct image_file *f = &s->files[i];
    const char *path = s->strings + f->path;
    int from cleanup(fd_close) = -1;

    if (f->kind == IMAGE_FILE_LINK) {
        ssize_t n = readlink(path, s->buffer, BUFFER_BYTES);

        return n != (ssize_t)f->bytes ? -EBUSY : put(fd, s->buffer, f->bytes);
    }
    from = f->kind == IMAGE_FILE_UNNAMED
               ? open_unnamed(s, i)
               : open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return from < 0 ? -errno : copy_file(s, from, fd, f->bytes);
}

static int put_tables(const struct saving *s, int fd)
{
    static const char zeros[IMAGE_PAGE];
    const struct {
        const void *bytes;
        size_t len;
    } parts[] = {
        {&s->head, sizeof(s->head)},
        {s->maps, s->head.map_count * sizeof(*s->maps)},
        {s->runs, s->head.run_count * sizeof(*s->runs)},
        {s->fds, s->head.fd_count * sizeof(*s->fds)},
        {s->files, s->head.file_count * sizeof(*s->files)},
        {s->strings, s->head.strings_bytes},
        {zeros, image_pages_at(&s->head) - sizeof(s->head) -
                    image_tables_bytes(&s->head)},
    };

    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        int r = put(fd, parts[i].bytes, parts[i].len);

        if (r < 0)
            return r;
    }
    return 0;
}

static int put_image(struct saving *s, int fd)
{
    int r = put_tables(s, fd);

    if (r == 0)
        r = put_pages(s, fd);
    for (uint32_t i = 0; r == 0 && i < s->head.file_count; i++)
        if (s->files[i].bytes)
            r = put_file(s, i, fd);
    return r;
}

int image_look(struct image_saved *ret)
{
    struct saving s = {.image = -1, .tell = -1, .pagemap = -1};
    int r;

    if (!image_zygote_ids()) {
        *ret = (struct image_saved){.refused = true};
        return 0;
    }
    r = collect(&s);
    fill_head(&s, 0);
    *ret = (struct image_saved){.bytes = s.head.total_bytes,
                                .uncarried = s.uncarried,
                                .refused = s.refused};
    collect_done(&s);
    return r;
}

int image_save(int fd, int tell, uint64_t most, uint32_t pid,
               struct image_saved *ret)
{
    static struct saving s; /* this process saves once */
    int r;

    if (!image_zygote_ids()) {
        *ret = (struct image_saved){.refused = true};
        return 0;
    }
    s = (struct saving){
        .image = fd, .tell = tell, .pagemap = -1, .full_scan = true};
    r = collect(&s);
    fill_head(&s, pid);
    *ret = (struct image_saved){.bytes = s.head.total_bytes,
                                .uncarried = s.uncarried,
                                .refused = s.refused};
    if (r == 0 && s.head.total_bytes > most)
        r = -EFBIG;
    if (r < 0 || s.refused)
        return r;
    if (image_context_save(&s.head.context))
        return 1;
    return put_image(&s, fd);
}
