/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the tables of an image and checks all of them. Runs in the process
 * that is to continue from it, behind all walls, and in glovebox-revive for
 * the image of a zygote. Hostile code may have written it: every count is
 * bounded before it is used, every range lies within its mapping and every
 * mapping outside the room that waking uses. What the pages hold cannot be
 * checked; it is the session's own.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "kernel/image.h"

#define PROT_ALL (PROT_READ | PROT_WRITE | PROT_EXEC)
#define FD_MAX 1048576u
#define PATH_BYTES_MAX 4096u

static uint64_t page_up(uint64_t n)
{
    return (n + IMAGE_PAGE - 1) & ~(IMAGE_PAGE - 1);
}

uint64_t image_tables_bytes(const struct image_head *h)
{
    return h->map_count * sizeof(struct image_map) +
           h->run_count * sizeof(struct image_run) +
           h->fd_count * sizeof(struct image_fd) +
           h->file_count * sizeof(struct image_file) + h->strings_bytes;
}

uint64_t image_pages_at(const struct image_head *h)
{
    return page_up(sizeof(*h) + image_tables_bytes(h));
}

uint64_t image_files_at(const struct image_head *h)
{
    return image_pages_at(h) + h->page_count * IMAGE_PAGE;
}

static enum kernel_image check_head(const struct image_head *h,
                                    uint64_t file_bytes,
                                    const struct image_ids *own,
                                    uint64_t memory_bytes)
{
    if (memcmp(h->magic, IMAGE_MAGIC, sizeof(h->magic)) != 0)
        return KERNEL_IMAGE_DAMAGED;
    if (h->version != IMAGE_VERSION || memcmp(&h->ids, own, sizeof(*own)) != 0)
        return KERNEL_IMAGE_MISMATCH;
    if (h->map_count > IMAGE_MAPS_MAX || h->run_count > IMAGE_RUNS_MAX ||
        h->fd_count > IMAGE_FDS_MAX || h->file_count > IMAGE_FILES_MAX ||
        h->strings_bytes > IMAGE_STRINGS_MAX ||
        h->page_count > IMAGE_BYTES_MAX / IMAGE_PAGE ||
        h->file_bytes > IMAGE_BYTES_MAX || h->brk > IMAGE_TOP ||
        h->umask > 0777)
        return KERNEL_IMAGE_DAMAGED;
    if (h->total_bytes != image_files_at(h) + h->file_bytes ||
        file_bytes < h->total_bytes)
        return KERNEL_IMAGE_DAMAGED;
    if (h->process.heap_bytes > IMAGE_BYTES_MAX ||
        h->process.auxv_bytes > sizeof(h->process.auxv))
        return KERNEL_IMAGE_DAMAGED;
    if (h->page_count * IMAGE_PAGE + h->file_bytes > memory_bytes)
        return KERNEL_IMAGE_TOO_LARGE;
    return KERNEL_IMAGE_USABLE;
}

/* A string of the table, terminated within it. */
static bool string_ok(const struct image *im, uint32_t at)
{
    return at < im->head.strings_bytes &&
           strnlen(im->strings + at, im->head.strings_bytes - at) <
               MIN(im->head.strings_bytes - at, PATH_BYTES_MAX);
}

static bool path_ok(const struct image *im, uint32_t at)
{
    return string_ok(im, at) && im->strings[at] == '/';
}

static bool map_ok(const struct image *im, const struct image_map *m,
                   uint64_t after)
{
    if ((m->start | m->end | m->offset) & (IMAGE_PAGE - 1))
        return false;
    if (m->start < after || m->end <= m->start || m->end > IMAGE_TOP ||
        m->start < IMAGE_PAGE || m->prot & ~PROT_ALL)
        return false;
    if (m->start < IMAGE_ROOM + IMAGE_ROOM_BYTES && m->end > IMAGE_ROOM)
        return false;
    switch ((enum image_map_kind)m->kind) {
    case IMAGE_MAP_FILE:
    case IMAGE_MAP_SHARED_FILE:
        return path_ok(im, m->path) && m->offset < IMAGE_BYTES_MAX;
    case IMAGE_MAP_HEAP: /* in the image of a kernel, that file is empty */
        return m->offset <= im->head.process.heap_bytes &&
               m->end - m->start <= im->head.process.heap_bytes - m->offset;
    case IMAGE_MAP_SYSTEM:
        return im->head.process.heap_bytes > 0;
    case IMAGE_MAP_ZYGOTE:
    case IMAGE_MAP_ANON:
    case IMAGE_MAP_STACK:
    case IMAGE_MAP_SHARED_ANON:
    case IMAGE_MAP_WIPED:
    case IMAGE_MAP_DROPPABLE:
        return true;
    }
    return false;
}

static bool maps_ok(const struct image *im)
{
    uint64_t after = 0;

    for (uint32_t i = 0; i < im->head.map_count; i++) {
        if (!map_ok(im, &im->maps[i], after))
            return false;
        after = im->maps[i].end;
    }
    return im->head.map_count > 0;
}

/* Each in one mapping, in order, and as many pages as the head says. */
static bool runs_ok(const struct image *im)
{
    uint64_t pages = 0, after = 0;
    uint32_t m = 0;

    for (uint32_t i = 0; i < im->head.run_count; i++) {
        const struct image_run *r = &im->runs[i];

        if (r->start & (IMAGE_PAGE - 1) || r->start < after || r->pages == 0 ||
            r->lazy > 1 || r->pages > im->head.page_count - pages)
            return false;
        while (m < im->head.map_count && im->maps[m].end <= r->start)
            m++;
        if (m == im->head.map_count || r->start < im->maps[m].start ||
            r->pages > (im->maps[m].end - r->start) / IMAGE_PAGE ||
            im->maps[m].kind == IMAGE_MAP_SHARED_FILE ||
            im->maps[m].kind == IMAGE_MAP_SYSTEM)
            return false;
        pages += r->pages;
        after = r->start + r->pages * IMAGE_PAGE;
    }
    return pages == im->head.page_count;
}

static bool fds_ok(const struct image *im)
{
    uint32_t after = 0;

    for (uint32_t i = 0; i < im->head.fd_count; i++) {
        const struct image_fd *f = &im->fds[i];

        if (f->fd < after || f->fd >= FD_MAX || f->offset >= IMAGE_BYTES_MAX)
            return false;
        after = f->fd + 1;
        switch ((enum image_fd_kind)f->kind) {
        case IMAGE_FD_COPY:
            if (f->of > 3)
                return false;
            continue;
        case IMAGE_FD_PATH:
            if (!path_ok(im, f->path))
                return false;
            continue;
        case IMAGE_FD_UNNAMED:
            if (f->of >= im->head.file_count ||
                im->files[f->of].kind != IMAGE_FILE_UNNAMED)
                return false;
            continue;
        case IMAGE_FD_DEAD:
            continue;
        }
        return false;
    }
    return true;
}

static bool files_ok(const struct image *im)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < im->head.file_count; i++) {
        const struct image_file *f = &im->files[i];

        if (!path_ok(im, f->path) || f->kind < IMAGE_FILE_FOLDER ||
            f->kind > IMAGE_FILE_SAME ||
            f->bytes > im->head.file_bytes - bytes ||
            ((f->kind == IMAGE_FILE_FOLDER || f->kind == IMAGE_FILE_SAME) &&
             f->bytes) ||
            (f->kind == IMAGE_FILE_LINK && f->bytes >= PATH_BYTES_MAX))
            return false;
        bytes += f->bytes;
    }
    return bytes == im->head.file_bytes;
}

static bool read_at(int fd, void *to, size_t len, uint64_t at)
{
    char *p = to;

    while (len > 0) {
        ssize_t n = pread(fd, p, len, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return true;
}

/* In the order of the format. */
static void place_tables(struct image *im, const char *p)
{
    const struct image_head *h = &im->head;

    im->maps = (const void *)p;
    im->runs = (const void *)(im->maps + h->map_count);
    im->fds = (const void *)(im->runs + h->run_count);
    im->files = (const void *)(im->fds + h->fd_count);
    im->strings = (const void *)(im->files + h->file_count);
}

enum kernel_image image_read(int fd, const struct image_ids *own,
                             uint64_t memory_bytes, void *room,
                             size_t room_bytes, struct image *ret)
{
    struct stat st;
    enum kernel_image r;
    uint64_t bytes;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < 0 ||
        !read_at(fd, &ret->head, sizeof(ret->head), 0))
        return KERNEL_IMAGE_DAMAGED;
    r = check_head(&ret->head, (uint64_t)st.st_size, own, memory_bytes);
    if (r != KERNEL_IMAGE_USABLE)
        return r;
    bytes = image_tables_bytes(&ret->head);
    if (bytes > room_bytes || !read_at(fd, room, bytes, sizeof(ret->head)))
        return KERNEL_IMAGE_DAMAGED;
    place_tables(ret, room);
    if (!string_ok(ret, ret->head.cwd) || !maps_ok(ret) || !runs_ok(ret) ||
        !files_ok(ret) || !fds_ok(ret))
        return KERNEL_IMAGE_DAMAGED;
    return KERNEL_IMAGE_USABLE;
}
