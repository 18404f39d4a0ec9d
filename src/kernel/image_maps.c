/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mappings of this process, and those that the zygote had. Runs in the
 * zygote once (image_zygote_learn), then in kernels. Allocates nothing,
 * because what it looks at is the memory itself.
 *
 * The zygote's list is in a file of its own that is mapped read-only, so that
 * it takes no page of a session.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "kernel/image.h"

#define ZYGOTE_MAPS_MAX 8192u

struct zygote {
    struct image_ids ids;
    uint32_t count;
    uint32_t unused;
    struct image_vma maps[ZYGOTE_MAPS_MAX];
};

/* Set once in the zygote; read-only from then on. */
static const struct zygote *zygote;
/* Part of the zygote's image: one that is revived from it keeps them. */
static struct image_ids own_ids;

/* ---- /proc/self/maps and smaps ------------------------------------------ */

struct lines {
    int fd;
    char *room;
    size_t at, len;
};

/* The next line, terminated; NULL at the end. Longer ones than the room do not
 * occur: names are at most PATH_MAX. */
static char *next_line(struct lines *l)
{
    for (;;) {
        char *line = l->room + l->at;
        char *end = memchr(line, '\n', l->len - l->at);
        ssize_t n;

        if (end) {
            *end = '\0';
            l->at = (size_t)(end + 1 - l->room);
            return line;
        }
        memmove(l->room, line, l->len - l->at);
        l->len -= l->at;
        l->at = 0;
        if (l->len == IMAGE_LINES_ROOM)
            return NULL;
        n = read(l->fd, l->room + l->len, IMAGE_LINES_ROOM - l->len);
        if (n <= 0)
            return NULL;
        l->len += (size_t)n;
    }
}

static const char *hex(const char *p, uint64_t *ret)
{
    uint64_t v = 0;

    for (;; p++) {
        if (*p >= '0' && *p <= '9')
            v = v << 4 | (uint64_t)(*p - '0');
        else if (*p >= 'a' && *p <= 'f')
            v = v << 4 | (uint64_t)(*p - 'a' + 10);
        else
            break;
    }
    *ret = v;
    return p;
}

/* "start-end perms offset major:minor inode   name"; false: another line. */
static bool parse_map(const char *line, struct image_vma *ret,
                      const char **ret_name)
{
    uint64_t major, minor, inode = 0;
    const char *p = hex(line, &ret->start), *perms;

    if (*p != '-')
        return false;
    p = hex(p + 1, &ret->end);
    if (*p != ' ' || strlen(p) < 6)
        return false;
    perms = p + 1;
    p = hex(p + 6, &ret->offset);
    if (*p != ' ')
        return false;
    p = hex(p + 1, &major);
    if (*p != ':')
        return false;
    p = hex(p + 1, &minor);
    while (*p == ' ')
        p++;
    for (; *p >= '0' && *p <= '9'; p++)
        inode = inode * 10 + (uint64_t)(*p - '0');
    while (*p == ' ')
        p++;
    ret->device = (uint32_t)(major << 20 | minor);
    ret->inode = inode;
    ret->prot = (uint16_t)((perms[0] == 'r' ? PROT_READ : 0) |
                           (perms[1] == 'w' ? PROT_WRITE : 0) |
                           (perms[2] == 'x' ? PROT_EXEC : 0));
    ret->shared = perms[3] == 's';
    ret->flags = 0;
    ret->own_kib = 0;
    if (strncmp(p, "[v", 2) == 0)
        ret->flags = VMA_KERNEL;
    else if (strcmp(p, "[stack]") == 0)
        ret->flags = VMA_GROWS;
    *ret_name = inode || *p == '/' ? p : "";
    return true;
}

static uint8_t parse_flags(const char *text)
{
    return (uint8_t)((strstr(text, " wf") ? VMA_WIPED : 0) |
                     (strstr(text, " dp") ? VMA_DROPPABLE : 0) |
                     (strstr(text, " gd") ? VMA_GROWS : 0));
}

int image_vmas(bool all_flags, char *room, image_vma_fn fn, void *ctx)
{
    static const char key[] = "VmFlags:";
    int fd cleanup(fd_close) =
        open(all_flags ? "/proc/self/smaps" : "/proc/self/maps",
             O_RDONLY | O_CLOEXEC);
    struct lines l = {.fd = fd, .room = room};
    struct image_vma vma = {0}, next;
    char name[4096] = "";
    const char *found;
    bool have = false;
    char *line;

    if (fd < 0)
        return -errno;
    while ((line = next_line(&l))) {
        if (strncmp(line, key, sizeof(key) - 1) == 0) {
            vma.flags |= parse_flags(line + sizeof(key) - 1);
            continue;
        }
        if (line[0] == 'A') {
            (void)sscanf(line, "Anonymous: %" SCNu64, &vma.own_kib);
            continue;
        }
        if (!parse_map(line, &next, &found))
            continue;
        if (have && !fn(ctx, &vma, name))
            return 0;
        vma = next;
        have = true;
        (void)snprintf(name, sizeof(name), "%s", found);
    }
    if (have)
        (void)fn(ctx, &vma, name);
    return 0;
}

/* ---- ids of the process that made an image ------------------------------ */

/* The id that the linker gave to the object this function is in. */
static int find_build(struct dl_phdr_info *info, size_t size, void *ctx)
{
    uintptr_t here = (uintptr_t)&find_build;
    const ElfW(Nhdr) *note = NULL;
    bool ours = false;

    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + p->p_vaddr;

        ours = ours ||
               (p->p_type == PT_LOAD && here >= at && here < at + p->p_memsz);
    }
    for (unsigned i = 0; ours && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const char *at = (const char *)(info->dlpi_addr + p->p_vaddr);
        const char *end = at + p->p_memsz;

        while (p->p_type == PT_NOTE && at + sizeof(*note) <= end) {
            const char *desc;

            note = (const void *)at;
            desc = at + sizeof(*note) + ((note->n_namesz + 3) & ~3u);
            if (note->n_type == NT_GNU_BUILD_ID)
                memcpy(ctx, desc,
                       MIN(note->n_descsz,
                           sizeof(((struct image_ids *)0)->build)));
            at = desc + ((note->n_descsz + 3) & ~3u);
        }
    }
    return ours;
}

const struct image_ids *image_zygote_name(void)
{
    if (getrandom(own_ids.zygote, sizeof(own_ids.zygote), 0) !=
        (ssize_t)sizeof(own_ids.zygote))
        return NULL;
    image_host_ids(&own_ids);
    (void)dl_iterate_phdr(find_build, own_ids.build);
    return &own_ids;
}

/* ---- the zygote's ------------------------------------------------------- */

struct learning {
    int fd;
    uint32_t count;
    bool failed;
};

static bool add_zygote_map(void *ctx, const struct image_vma *vma,
                           const char *name)
{
    struct learning *l = ctx;

    (void)name;
    if (l->count == ZYGOTE_MAPS_MAX ||
        pwrite(l->fd, vma, sizeof(*vma),
               (off_t)(offsetof(struct zygote, maps) +
                       l->count * sizeof(*vma))) != (ssize_t)sizeof(*vma)) {
        l->failed = true;
        return false;
    }
    l->count++;
    return true;
}

int image_zygote_learn(void)
{
    static char room[IMAGE_LINES_ROOM]
        __attribute__((aligned(4096))); /* a mapping would be noted too */
    int fd cleanup(fd_close) = memfd_create("zygote", MFD_CLOEXEC);
    struct learning l = {.fd = fd};
    const struct zygote *z;
    int r;

    if (fd < 0 || ftruncate(fd, sizeof(struct zygote)) < 0)
        return -errno;
    z = mmap((void *)IMAGE_LIST, sizeof(*z), PROT_READ,
             MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
    if (z != (const struct zygote *)IMAGE_LIST)
        return z == MAP_FAILED ? -errno : -EEXIST;
    r = image_vmas(true, room, add_zygote_map, &l);
    (void)madvise(room, sizeof(room), MADV_DONTNEED); /* clones copy less */
    if (r == 0 && l.failed)
        r = -E2BIG;
    if (r == 0 &&
        (pwrite(fd, &own_ids, sizeof(own_ids), 0) !=
             (ssize_t)sizeof(own_ids) ||
         pwrite(fd, &l.count, sizeof(l.count),
                offsetof(struct zygote, count)) != (ssize_t)sizeof(l.count)))
        r = -EIO;
    if (r < 0) {
        (void)munmap((void *)z, sizeof(*z));
        return r;
    }
    zygote = z;
    return 0;
}

const struct image_ids *image_zygote_ids(void)
{
    return zygote ? &zygote->ids : NULL;
}

static bool same_place(const struct image_vma *a, const struct image_vma *b)
{
    return a->device == b->device && a->inode == b->inode &&
           a->shared == b->shared &&
           (a->inode == 0 || a->start - a->offset == b->start - b->offset) &&
           !((a->flags ^ b->flags) & (VMA_GROWS | VMA_KERNEL));
}

bool image_zygote_has(const struct image_vma *vma, uint64_t at,
                      uint64_t *ret_end)
{
    uint32_t low = 0, high = zygote->count;

    while (low < high) { /* the first that ends after `at` */
        uint32_t middle = low + (high - low) / 2;

        if (zygote->maps[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == zygote->count || zygote->maps[low].start >= vma->end) {
        *ret_end = vma->end;
        return false;
    }
    if (zygote->maps[low].start > at) {
        *ret_end = zygote->maps[low].start;
        return false;
    }
    *ret_end = MIN(zygote->maps[low].end, vma->end);
    return same_place(&zygote->maps[low], vma);
}
