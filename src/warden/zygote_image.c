/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of zygotes on disk: a cache, from which a zygote is started in
 * milliseconds instead of by its imports, and in whose forks stored memory of
 * its sessions wakes after a restart. Files of the warden alone, in a folder
 * of the scratch folder, each named by the id of its zygote:
 *
 *   head      struct stored_head; made here                   4 KiB
 *   tables    as the zygote sent them                         at 4 KiB
 *   heap      as the zygote sent it, with its holes           from a page on
 *
 * The bytes are the zygote's, in which no code of a session has run, but code
 * of the runtime's image has. So they are carried and never parsed here: the
 * program glovebox-revive reads them, without privilege. What is checked here:
 * the owner and mode of the file, and a digest of all of it. A file that
 * cannot be used is removed, and the zygote starts by its imports.
 *
 * Writing takes as long as the disk does, so a child does it, one at a time.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "fair/fair.h"
#include "warden/warden_int.h"

#define FOLDER "zygotes"
#define PART ".part" /* of a file that is being written */
#define MAGIC "GbxZyg\r\n"
#define FORMAT 1u
#define BLOCK 65536u
#define PAGE 4096u
#define FILES_MAX 16u /* of all runtimes */
#define TABLES_MOST (UINT64_C(64) << 20)
#define HEAP_MOST (UINT64_C(64) << 30) /* with holes */
#define DATA_MOST (UINT64_C(2) << 30)  /* without */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define HEX (2 * WARDEN_ZYGOTE_ID + 1)

struct stored_head {
    char magic[8];
    uint32_t format;
    uint32_t spawns; /* changes; not part of the digest */
    unsigned char id[WARDEN_ZYGOTE_ID];
    char image[WARDEN_NAME_MAX]; /* of the runtime */
    unsigned char spec[DIGEST_SIZE];
    int64_t made_at_ms; /* by clock_real_ms */
    uint64_t tables_bytes, heap_bytes;
    unsigned char digest[DIGEST_SIZE];
    char unused[PAGE - 184];
};
_Static_assert(sizeof(struct stored_head) == PAGE, "the tables follow it");

static void name_of(const unsigned char *id, char ret[HEX])
{
    for (size_t i = 0; i < WARDEN_ZYGOTE_ID; i++)
        (void)snprintf(ret + 2 * i, 3, "%02x", id[i]);
}

static bool is_name(const char *name)
{
    return strlen(name) == HEX - 1 &&
           strspn(name, "0123456789abcdef") == HEX - 1;
}

static uint64_t heap_at(const struct stored_head *h)
{
    return (PAGE + h->tables_bytes + PAGE - 1) / PAGE * PAGE;
}

/* ---- digests and copies ------------------------------------------------- */

static bool all_zero(const unsigned char *bytes, size_t len)
{
    return len == 0 ||
           (bytes[0] == 0 && memcmp(bytes, bytes + 1, len - 1) == 0);
}

/* Pages that are zero stay holes. */
static int write_pages(int to, const unsigned char *bytes, size_t len,
                       uint64_t at)
{
    for (size_t done = 0; done < len;) {
        size_t run = 0;
        ssize_t n;

        while (done + run < len &&
               !all_zero(bytes + done + run, MIN(PAGE, len - done - run)))
            run += MIN(PAGE, len - done - run);
        if (run == 0) {
            done += PAGE;
            continue;
        }
        n = pwrite(to, bytes + done, run, (off_t)(at + done));
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        done += (size_t)n;
    }
    return 0;
}

/* Copies a part with its holes, and adds it to the digest: each block that is
 * not zero with its place, so that the digest does not depend on how a file
 * system keeps holes. to: -1 adds only. */
static int copy_part(int from, uint64_t from_at, int to, uint64_t to_at,
                     uint64_t bytes, struct digest *d)
{
    unsigned char *block cleanup(mem_free) = xmalloc(BLOCK);
    int r = 0;

    for (uint64_t at = 0; at < bytes && r == 0; at += BLOCK) {
        off_t data = lseek(from, (off_t)(from_at + at), SEEK_DATA);
        size_t len, done = 0;

        if (data < 0 && errno == ENXIO)
            break; /* only a hole is left */
        if (data < 0)
            return -errno;
        at = MAX(at, ((uint64_t)data - from_at) / BLOCK * BLOCK);
        if (at >= bytes)
            break;
        len = (size_t)MIN((uint64_t)BLOCK, bytes - at);
        while (done < len) {
            ssize_t n = pread(from, block + done, len - done,
                              (off_t)(from_at + at + done));

            if (n <= 0)
                return n < 0 ? -errno : -EIO;
            done += (size_t)n;
        }
        if (all_zero(block, len))
            continue;
        digest_add(d, &at, sizeof(at));
        digest_add(d, block, len);
        if (to >= 0)
            r = write_pages(to, block, len, to_at + at);
    }
    return r;
}

static void digest_head(struct digest *d, const struct stored_head *h)
{
    struct stored_head plain = *h;

    plain.spawns = 0;
    memset(plain.digest, 0, sizeof(plain.digest));
    digest_begin(d);
    digest_add(d, &plain, sizeof(plain));
}

/* What the zygote was to import. */
static int digest_spec(int spec_fd, unsigned char ret[DIGEST_SIZE])
{
    struct digest d;
    struct stat st;
    int r;

    if (fstat(spec_fd, &st) < 0)
        return -errno;
    digest_begin(&d);
    r = copy_part(spec_fd, 0, -1, 0, (uint64_t)st.st_size, &d);
    digest_end(&d, ret);
    return r;
}

/* ---- the folder --------------------------------------------------------- */

typedef void (*each_fn)(const struct warden *w, const char *name, void *ctx);

static void each_file(const struct warden *w, each_fn fn, void *ctx)
{
    int fd = w->zygote_dir < 0 ? -1
                               : openat(w->zygote_dir, ".",
                                        O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir cleanup(fd_closedir) = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    while (dir && (e = readdir(dir)))
        if (e->d_name[0] != '.')
            fn(w, e->d_name, ctx);
}

static void remove_unfinished(const struct warden *w, const char *name,
                              void *ctx)
{
    (void)ctx;
    if (!is_name(name))
        (void)unlinkat(w->zygote_dir, name, 0); /* ours alone */
}

void zygote_images_open(struct warden *w)
{
    struct stat st;

    if (mkdirat(w->scratch_dir, FOLDER, 0700) < 0 && errno != EEXIST)
        return;
    w->zygote_dir = openat(w->scratch_dir, FOLDER,
                           O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (w->zygote_dir < 0 || fstat(w->zygote_dir, &st) < 0 ||
        st.st_uid != geteuid() || (st.st_mode & 0077) != 0) {
        log_event(LOG_WARN, "zygote_images_off", "why",
                  "the folder is not the warden's alone", NULL);
        fd_close(&w->zygote_dir);
        return;
    }
    each_file(w, remove_unfinished, NULL);
}

static void count_one(const struct warden *w, const char *name, void *ctx)
{
    unsigned *count = ctx;

    (void)w;
    *count += is_name(name);
}

unsigned zygote_images_count(const struct warden *w)
{
    unsigned count = 0;

    each_file(w, count_one, &count);
    return count;
}

/* A file of ours with a head that makes sense; its bytes are not verified. */
static int open_stored(const struct warden *w, const char *name,
                       struct stored_head *ret)
{
    int fd cleanup(fd_close) = openat(
        w->zygote_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    char own[HEX];

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        st.st_uid != geteuid() || (st.st_mode & 07777) != 0600 ||
        st.st_nlink != 1 ||
        pread(fd, ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret) ||
        memcmp(ret->magic, MAGIC, sizeof(ret->magic)) != 0 ||
        ret->format != FORMAT || ret->tables_bytes == 0 ||
        ret->tables_bytes > TABLES_MOST || ret->heap_bytes == 0 ||
        ret->heap_bytes > HEAP_MOST ||
        (uint64_t)st.st_size != heap_at(ret) + ret->heap_bytes)
        return -1;
    name_of(ret->id, own);
    return strcmp(own, name) == 0 ? take_fd(fd) : -1;
}

struct finding {
    const char *image;
    unsigned char spec[DIGEST_SIZE];
    unsigned char id[WARDEN_ZYGOTE_ID]; /* all 0: any */
    struct stored_head head;
    int fd;
};

static const unsigned char no_id[WARDEN_ZYGOTE_ID];

static void find_one(const struct warden *w, const char *name, void *ctx)
{
    struct finding *f = ctx;
    struct stored_head head;
    int fd cleanup(fd_close) =
        is_name(name) ? open_stored(w, name, &head) : -1;

    if (fd < 0 || strncmp(head.image, f->image, sizeof(head.image)) != 0 ||
        memcmp(head.spec, f->spec, sizeof(f->spec)) != 0)
        return;
    if (memcmp(f->id, no_id, sizeof(no_id)) != 0
            ? memcmp(f->id, head.id, sizeof(head.id)) != 0
            : f->fd >= 0 && head.made_at_ms <= f->head.made_at_ms)
        return;
    fd_close(&f->fd);
    f->fd = take_fd(fd);
    f->head = head;
}

int zygote_image_find(const struct warden *w, const struct runtime *rt,
                      unsigned char id[WARDEN_ZYGOTE_ID], uint64_t *ret_age_ms,
                      uint32_t *ret_spawns)
{
    struct finding f = {.image = rt->image, .fd = -1};
    int64_t age;

    if (rt->fresh_exec || digest_spec(rt->spec_fd, f.spec) < 0)
        return -1;
    memcpy(f.id, id, sizeof(f.id));
    each_file(w, find_one, &f);
    if (f.fd < 0)
        return -1;
    age = clock_real_ms() - f.head.made_at_ms;
    memcpy(id, f.head.id, sizeof(f.head.id));
    *ret_age_ms = (uint64_t)MAX(age, INT64_C(0));
    *ret_spawns = f.head.spawns;
    return f.fd;
}

void zygote_image_remove(const struct warden *w, const unsigned char *id)
{
    char name[HEX];

    name_of(id, name);
    if (w->zygote_dir >= 0)
        (void)unlinkat(w->zygote_dir, name, 0); /* ours alone */
}

void zygote_image_count(const struct warden *w, const struct zygote *z)
{
    int fd cleanup(fd_close) = -1;
    char name[HEX];

    if (w->zygote_dir < 0 || memcmp(z->id, no_id, sizeof(no_id)) == 0)
        return;
    name_of(z->id, name);
    fd = openat(w->zygote_dir, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    /* Without it, the count begins anew with the next start. */
    if (fd >= 0)
        (void)!pwrite(fd, &z->spawns, sizeof(z->spawns),
                      offsetof(struct stored_head, spawns));
}

/* ---- storing ------------------------------------------------------------ */

/* Whole, on disk and under its name, or not there. 0 or -errno */
static int store(const struct warden *w, struct stored_head *h,
                 const int image[2])
{
    char name[HEX], part[HEX + sizeof(PART)];
    int fd cleanup(fd_close) = -1;
    struct digest d;
    int r;

    name_of(h->id, name);
    (void)snprintf(part, sizeof(part), "%s" PART, name);
    fd = openat(w->zygote_dir, part,
                O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    digest_head(&d, h);
    r = ftruncate(fd, (off_t)(heap_at(h) + h->heap_bytes)) < 0 ? -errno : 0;
    if (r == 0)
        r = copy_part(image[0], 0, fd, PAGE, h->tables_bytes, &d);
    if (r == 0)
        r = copy_part(image[1], 0, fd, heap_at(h), h->heap_bytes, &d);
    digest_end(&d, h->digest);
    if (r == 0 && pwrite(fd, h, sizeof(*h), 0) != (ssize_t)sizeof(*h))
        r = -EIO;
    if (r == 0 && (fchmod(fd, 0600) < 0 || fsync(fd) < 0 ||
                   renameat(w->zygote_dir, part, w->zygote_dir, name) < 0 ||
                   fsync(w->zygote_dir) < 0))
        r = -errno;
    if (r < 0)
        (void)unlinkat(w->zygote_dir, part, 0); /* ours alone */
    return r;
}

/* Of a sealed memory file, which cannot change while it is copied. */
static bool sizes_ok(const struct warden *w, const int image[2],
                     struct stored_head *h)
{
    uint64_t data = 0;
    struct statvfs disk;
    struct stat st[2];

    for (int i = 0; i < 2; i++) {
        int seals = fcntl(image[i], F_GET_SEALS);

        if (seals < 0 || (seals & SEALS) != SEALS ||
            fstat(image[i], &st[i]) < 0)
            return false;
        data += (uint64_t)st[i].st_blocks * 512;
    }
    h->tables_bytes = (uint64_t)st[0].st_size;
    h->heap_bytes = (uint64_t)st[1].st_size;
    /* As much again stays free for others. */
    return h->tables_bytes > 0 && h->tables_bytes <= TABLES_MOST &&
           h->heap_bytes > 0 && h->heap_bytes <= HEAP_MOST &&
           data <= DATA_MOST && fstatvfs(w->zygote_dir, &disk) == 0 &&
           disk.f_bavail * disk.f_frsize >= 2 * data;
}

static _Noreturn void run_saver(struct warden *w, struct stored_head *h,
                                const int image[2])
{
    int keep[] = {w->zygote_dir, image[0], image[1]};
    int own[2] = {image[0], image[1]};
    int r;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    fair_priority_reset();
    helper_keep_fds(keep, ARRAY_SIZE(keep));
    r = store(w, h, own);
    if (r < 0)
        log_event(LOG_WARN, "zygote_image_not_stored", "image", h->image,
                  "errno", strerrorname_np(-r), NULL);
    else
        log_event(LOG_INFO, "zygote_image_stored", "image", h->image, NULL);
    _exit(r < 0 ? 1 : 0);
}

void zygote_image_store(struct warden *w, const struct runtime *rt,
                        struct zygote *z)
{
    int tables cleanup(fd_close) = take_fd(z->image[0]);
    int heap cleanup(fd_close) = take_fd(z->image[1]);
    const int image[2] = {tables, heap};
    struct stored_head h = {
        .format = FORMAT, .spawns = z->spawns, .made_at_ms = clock_real_ms()};

    if (w->zygote_dir < 0 || tables < 0 || heap < 0 ||
        digest_spec(rt->spec_fd, h.spec) < 0)
        return;
    memcpy(h.magic, MAGIC, sizeof(h.magic));
    memcpy(h.id, z->id, sizeof(h.id));
    memcpy(h.image, rt->image, sizeof(h.image));
    if (!sizes_ok(w, image, &h)) {
        log_event(LOG_WARN, "zygote_image_not_stored", "image", rt->image,
                  "why", "its size, or too little room on the disk", NULL);
        return;
    }
    zygote_images_trim(w, NULL);
    w->saver = fork();
    if (w->saver == 0)
        run_saver(w, &h, image);
    if (w->saver < 0)
        w->saver = 0; /* none is stored, then */
}

/* ---- loading ------------------------------------------------------------ */

static int new_file(const char *name, uint64_t bytes)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0 && ftruncate(fd, (off_t)bytes) < 0)
        fd_close(&fd);
    return fd;
}

int zygote_image_load(int stored, int ret_fds[2])
{
    int tables cleanup(fd_close) = -1;
    int heap cleanup(fd_close) = -1;
    unsigned char digest[DIGEST_SIZE];
    struct stored_head h;
    struct digest d;
    int r;

    if (pread(stored, &h, sizeof(h), 0) != (ssize_t)sizeof(h))
        return -EIO;
    tables = new_file("zygote", h.tables_bytes);
    heap = new_file("heap", h.heap_bytes);
    if (tables < 0 || heap < 0)
        return -ENOMEM;
    digest_head(&d, &h);
    r = copy_part(stored, PAGE, tables, 0, h.tables_bytes, &d);
    if (r == 0)
        r = copy_part(stored, heap_at(&h), heap, 0, h.heap_bytes, &d);
    digest_end(&d, digest);
    if (r == 0 && memcmp(digest, h.digest, sizeof(digest)) != 0)
        r = -EBADMSG;
    if (r == 0 && (fcntl(tables, F_ADD_SEALS, SEALS | F_SEAL_SEAL) < 0 ||
                   fcntl(heap, F_ADD_SEALS, SEALS | F_SEAL_SEAL) < 0))
        r = -errno;
    if (r < 0)
        return r;
    ret_fds[0] = take_fd(tables);
    ret_fds[1] = take_fd(heap);
    return 0;
}

/* ---- removing ----------------------------------------------------------- */

struct trim {
    const struct warden_zygotes *used;
    struct {
        char name[HEX], image[WARDEN_NAME_MAX];
        int64_t made_at_ms;
        bool keep;
    } files[FILES_MAX * 4];
    size_t count;
};

static bool is_used(const struct trim *t, const unsigned char *id)
{
    for (uint32_t i = 0; i < t->used->count; i++)
        if (memcmp(t->used->ids[i], id, WARDEN_ZYGOTE_ID) == 0)
            return true;
    return false;
}

static bool is_alive(const struct warden *w, const unsigned char *id)
{
    for (size_t i = 0; i < w->runtime_count; i++)
        for (size_t k = 0; k < RUNTIME_ZYGOTES; k++) {
            struct zygote *z = zygote_at((struct runtime *)&w->runtimes[i], k);

            if (z->pid && memcmp(z->id, id, WARDEN_ZYGOTE_ID) == 0)
                return true;
        }
    return false;
}

static void note_file(const struct warden *w, const char *name, void *ctx)
{
    struct trim *t = ctx;
    struct stored_head h;
    int fd cleanup(fd_close) = -1;

    if (!is_name(name) || t->count == ARRAY_SIZE(t->files))
        return;
    fd = open_stored(w, name, &h);
    if (fd < 0) {
        (void)unlinkat(w->zygote_dir, name, 0); /* ours alone */
        return;
    }
    (void)snprintf(t->files[t->count].name, HEX, "%s", name);
    memcpy(t->files[t->count].image, h.image, sizeof(h.image));
    t->files[t->count].made_at_ms = h.made_at_ms;
    t->files[t->count].keep =
        !t->used || is_used(t, h.id) || is_alive(w, h.id);
    t->count++;
}

/* The newest of a runtime that is in use starts it next time. */
static void keep_newest(const struct warden *w, struct trim *t)
{
    for (size_t i = 0; i < w->runtime_count; i++) {
        size_t newest = t->count;

        for (size_t k = 0; k < t->count; k++)
            if (strncmp(t->files[k].image, w->runtimes[i].image,
                        WARDEN_NAME_MAX) == 0 &&
                (newest == t->count ||
                 t->files[k].made_at_ms > t->files[newest].made_at_ms))
                newest = k;
        if (newest < t->count)
            t->files[newest].keep = true;
    }
}

static size_t find_oldest(const struct trim *t)
{
    size_t oldest = t->count;

    for (size_t k = 0; k < t->count; k++)
        if (t->files[k].keep &&
            (oldest == t->count ||
             t->files[k].made_at_ms < t->files[oldest].made_at_ms))
            oldest = k;
    return oldest;
}

void zygote_images_trim(struct warden *w, const struct warden_zygotes *used)
{
    struct trim t = {.used = used};
    size_t kept = 0;

    each_file(w, note_file, &t);
    keep_newest(w, &t);
    for (size_t k = 0; k < t.count; k++)
        kept += t.files[k].keep;
    /* One may be about to be added. */
    for (; kept >= FILES_MAX; kept--)
        t.files[find_oldest(&t)].keep = false;
    for (size_t k = 0; k < t.count; k++)
        if (!t.files[k].keep)
            (void)unlinkat(w->zygote_dir, t.files[k].name, 0); /* ours alone */
}
