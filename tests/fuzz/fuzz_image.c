/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the reader of memory images. Whatever it accepts keeps the promises
 * that waking depends on: mappings in order, apart from each other and from
 * the room of waking; pages within mappings; terminated strings.
 *
 * Input: a byte of flags, then the image. FIX makes the ids and sizes of the
 * head right, so that the tables behind them are reached.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "kernel/image_read.c" /* NOLINT(bugprone-suspicious-include) */

#define ROOM_BYTES ((size_t)44 << 20)
#define MEMORY_BYTES ((uint64_t)1 << 30)

enum {
    FIX = 1
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_strings(const struct image *im, uint32_t at)
{
    assert(at < im->head.strings_bytes);
    assert(memchr(im->strings + at, 0, im->head.strings_bytes - at));
}

static void check_maps(const struct image *im)
{
    uint64_t after = 0;

    for (uint32_t i = 0; i < im->head.map_count; i++) {
        const struct image_map *m = &im->maps[i];

        assert(m->start >= after && m->end > m->start && m->end <= IMAGE_TOP);
        assert(m->end <= IMAGE_ROOM ||
               m->start >= IMAGE_ROOM + IMAGE_ROOM_BYTES);
        assert(m->start % IMAGE_PAGE == 0 && m->end % IMAGE_PAGE == 0);
        if (m->kind == IMAGE_MAP_FILE || m->kind == IMAGE_MAP_SHARED_FILE)
            check_strings(im, m->path);
        if (m->kind == IMAGE_MAP_HEAP)
            assert(m->offset + (m->end - m->start) <=
                   im->head.process.heap_bytes);
        if (m->kind == IMAGE_MAP_SYSTEM)
            assert(im->head.process.heap_bytes > 0);
        after = m->end;
    }
}

static void check_runs(const struct image *im)
{
    uint64_t pages = 0;

    for (uint32_t i = 0; i < im->head.run_count; i++) {
        const struct image_run *r = &im->runs[i];
        bool within = false;

        for (uint32_t m = 0; m < im->head.map_count && !within; m++)
            within = r->start >= im->maps[m].start &&
                     r->start + r->pages * IMAGE_PAGE <= im->maps[m].end;
        assert(within && r->pages > 0);
        pages += r->pages;
    }
    assert(pages == im->head.page_count);
    assert(pages * IMAGE_PAGE <= MEMORY_BYTES);
}

static void check_rest(const struct image *im)
{
    uint64_t bytes = 0;

    check_strings(im, im->head.cwd);
    for (uint32_t i = 0; i < im->head.fd_count; i++) {
        assert(i == 0 || im->fds[i].fd > im->fds[i - 1].fd);
        if (im->fds[i].kind == IMAGE_FD_PATH)
            check_strings(im, im->fds[i].path);
        if (im->fds[i].kind == IMAGE_FD_UNNAMED)
            assert(im->fds[i].of < im->head.file_count);
        if (im->fds[i].kind == IMAGE_FD_COPY)
            assert(im->fds[i].of <= 3);
    }
    for (uint32_t i = 0; i < im->head.file_count; i++) {
        check_strings(im, im->files[i].path);
        assert(im->strings[im->files[i].path] == '/');
        bytes += im->files[i].bytes;
    }
    assert(bytes == im->head.file_bytes && bytes <= MEMORY_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct image_ids own = {.release = "here"};
    static char *room;
    int fd cleanup(fd_close) = memfd_create("image", MFD_CLOEXEC);
    struct image_head head;
    struct image im;

    if (!room)
        room = mmap(NULL, ROOM_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert(room != MAP_FAILED && fd >= 0);
    if (size < 1 || fd_write_all(fd, data + 1, size - 1) < 0)
        return 0;
    if (data[0] & FIX && size - 1 >= sizeof(head)) {
        memcpy(&head, data + 1, sizeof(head));
        memcpy(head.magic, IMAGE_MAGIC, sizeof(head.magic));
        head.version = IMAGE_VERSION;
        head.ids = own;
        head.total_bytes = image_files_at(&head) + head.file_bytes;
        assert(pwrite(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head));
        if (head.total_bytes < IMAGE_BYTES_MAX)
            (void)!ftruncate(fd, (off_t)head.total_bytes); /* sparse */
    }
    if (image_read(fd, &own, MEMORY_BYTES, room, ROOM_BYTES, &im) ==
        KERNEL_IMAGE_USABLE) {
        check_maps(&im);
        check_runs(&im);
        check_rest(&im);
    }
    return 0;
}
