/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local copies of blobs that an object store has: DIR/blobs/cache/ab/abcdef… .
 * Runs in the daemon, on any thread. Every file here can be fetched again, so
 * nothing is synced and anything may be removed at any time; what is not
 * uploaded yet is elsewhere (DIR/blobs/ab, tier_local.c) and never evicted.
 *
 * The cache is bounded. Its size includes the copies per tenant in
 * DIR/blobs/v. When it is exceeded, the files that were used least recently
 * go, down to nine tenths. A file with a second name is in a tree that a
 * session may mount, and stays: removing it would free nothing. If too much is
 * in trees, trees that no session mounts are removed first (blobs_on_full).
 *
 * When a file was used is remembered in a table of fixed size; of a file that
 * is not in it the time of its last change counts. The file's own time of
 * access would not do: setting it changes the ctime by which a file is known
 * to be verified.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "blob/blob_int.h"

#define USED_SETS 16384u
#define USED_WAYS 4u
#define TREES_AT_ONCE 64u /* removed before the files are looked at again */

struct used {
    uint64_t key; /* first bytes of the hash */
    int64_t at_ms;
};

struct blob_cache {
    struct blobs *b;
    int dir;
    uint64_t limit;
    struct mutex evicting; /* held while the folders are read */
    struct mutex lock;     /* around what follows */
    struct used *used;     /* USED_SETS * USED_WAYS */
    _Atomic int64_t bytes; /* of files here and copies, about */
    _Atomic uint64_t files, hits, misses, evicted, repaired;
};

/* ---- last use ----------------------------------------------------------- */

static uint64_t key_of(const unsigned char *hash)
{
    uint64_t key;

    memcpy(&key, hash, sizeof(key));
    return key;
}

static struct used *set_of(struct blob_cache *c, uint64_t key)
{
    return &c->used[key % USED_SETS * USED_WAYS];
}

static void note_use(struct blob_cache *c, const struct blob_name *name)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&c->lock);
    uint64_t key = key_of(name->hash);
    struct used *set = set_of(c, key), *u = set;

    for (unsigned i = 0; i < USED_WAYS; i++) {
        if (set[i].key == key) {
            u = &set[i];
            break;
        }
        if (set[i].at_ms < u->at_ms)
            u = &set[i];
    }
    *u = (struct used){.key = key, .at_ms = clock_real_ms()};
}

static int64_t last_use(struct blob_cache *c, const struct blob_name *name,
                        const struct stat *st)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&c->lock);
    uint64_t key = key_of(name->hash);
    const struct used *set = set_of(c, key);

    for (unsigned i = 0; i < USED_WAYS; i++)
        if (set[i].key == key)
            return set[i].at_ms;
    return (int64_t)st->st_ctim.tv_sec * 1000;
}

/* ---- open and close ----------------------------------------------------- */

int blob_cache_open(struct blobs *b, uint64_t limit, struct blob_cache **ret,
                    struct error *err)
{
    struct blob_cache *c = xcalloc(1, sizeof(*c));

    c->b = b;
    c->limit = limit;
    c->used = xcalloc((size_t)USED_SETS * USED_WAYS, sizeof(*c->used));
    mutex_init(&c->evicting);
    mutex_init(&c->lock);
    *ret = c;
    if (mkdirat(b->dir, "cache", 0700) < 0 && errno != EEXIST)
        return blob_fault(errno, "make the cache of stored objects", err);
    c->dir = openat(b->dir, "cache",
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (c->dir < 0)
        return blob_fault(errno, "open the cache of stored objects", err);
    for (unsigned i = 0; i < BLOB_FOLDERS; i++) {
        char name[3];

        (void)snprintf(name, sizeof(name), "%02x", i & 0xff); /* fits */
        if (mkdirat(c->dir, name, 0700) < 0 && errno != EEXIST)
            return blob_fault(errno, "make the cache of stored objects", err);
    }
    return 0;
}

void blob_cache_close(struct blob_cache *c)
{
    if (!c)
        return;
    fd_close(&c->dir);
    mutex_done(&c->lock);
    mutex_done(&c->evicting);
    free(c->used);
    free(c);
}

/* ---- use ---------------------------------------------------------------- */

int blob_cache_get(struct blob_cache *c, const struct blob_name *name,
                   int *ret_fd)
{
    int fd = openat(c->dir, name->path,
                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0) {
        /* Whatever is there cannot be read, and is fetched again. */
        if (errno != ENOENT)
            blob_cache_drop(c, name);
        atomic_fetch_add(&c->misses, 1);
        return 1;
    }
    atomic_fetch_add(&c->hits, 1);
    note_use(c, name);
    *ret_fd = fd;
    return 0;
}

int blob_cache_stat(struct blob_cache *c, const struct blob_name *name,
                    struct stat *ret)
{
    return fstatat(c->dir, name->path, ret, AT_SYMLINK_NOFOLLOW) < 0 ? 1 : 0;
}

bool blob_cache_keep(struct blob_cache *c, const struct blob_name *name,
                     int dir, const char *file, uint64_t size)
{
    struct stat st;
    bool there = blob_cache_stat(c, name, &st) == 0;

    note_use(c, name);
    /* A tenant may have mounted the one that is there, and would see its link
     * count change (I8). If its bytes are wrong, reading it finds out. */
    if (there && (uint64_t)st.st_size == size) {
        (void)unlinkat(dir, file, 0); /* else the next start does */
        return true;
    }
    if (renameat(dir, file, c->dir, name->path) < 0) {
        (void)unlinkat(dir, file, 0); /* a cache may miss one */
        return there;
    }
    blob_cache_count(c, (int64_t)size - (there ? (int64_t)st.st_size : 0));
    return there;
}

bool blob_cache_adopt(struct blob_cache *c, const struct blob_name *name,
                      int dir, uint64_t size)
{
    /* The inode stays, and with it what is known of it and links to it. */
    if (renameat(dir, name->path, c->dir, name->path) < 0)
        return false;
    note_use(c, name);
    blob_cache_count(c, (int64_t)size);
    return true;
}

void blob_cache_drop(struct blob_cache *c, const struct blob_name *name)
{
    struct stat st;

    if (blob_cache_stat(c, name, &st) == 0 &&
        unlinkat(c->dir, name->path, 0) == 0)
        blob_cache_count(c, -(int64_t)st.st_size);
}

void blob_cache_repaired(struct blob_cache *c)
{
    atomic_fetch_add(&c->repaired, 1);
}

void blob_cache_count(struct blob_cache *c, int64_t more)
{
    atomic_fetch_add(&c->bytes, more);
}

int blob_cache_link(struct blob_cache *c, const struct blob_name *name,
                    int dir, const char *to)
{
    return linkat(c->dir, name->path, dir, to, 0) < 0 ? -errno : 0;
}

/* ---- eviction ----------------------------------------------------------- */

struct candidate {
    int64_t used_ms;
    uint64_t size;
    bool copy;                   /* in DIR/blobs/v */
    char path[BLOB_TENANT_COPY]; /* there, or in the cache */
};

struct survey {
    struct blob_cache *c;
    struct candidate *found; /* that may go; owned */
    size_t count, room;
    int64_t bytes; /* of all */
    uint64_t files;
};

static void survey_done(struct survey *s)
{
    free(s->found);
}

static void survey_file(struct survey *s, int folder, const char *under,
                        const char *name, bool copy)
{
    struct blob_name blob;
    struct error unsaid;
    struct candidate *k;
    struct stat st;

    if (blob_name_parse(name, &blob, &unsaid) < 0 ||
        fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    s->bytes += st.st_size;
    s->files++;
    if (st.st_nlink > 1)
        return;
    if (s->count == s->room) {
        s->room = s->room ? 2 * s->room : 256;
        s->found = xrealloc(s->found, s->room * sizeof(*s->found));
    }
    k = &s->found[s->count++];
    *k = (struct candidate){.used_ms = last_use(s->c, &blob, &st),
                            .size = (uint64_t)st.st_size,
                            .copy = copy};
    (void)snprintf(k->path, sizeof(k->path), "%s%s%s/%s", under,
                   *under ? "/" : "", (char[]){name[0], name[1], '\0'}, name);
}

static DIR *open_dir(int dir, const char *name)
{
    int fd =
        openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    if (fd >= 0 && !d)
        (void)close(fd);
    return d;
}

/* The 256 folders below `dir`. */
static void survey_folders(struct survey *s, int dir, const char *under,
                           bool copy)
{
    for (unsigned i = 0; i < BLOB_FOLDERS; i++) {
        DIR *d cleanup(fd_closedir) = NULL;
        struct dirent *e;
        char name[3];

        (void)snprintf(name, sizeof(name), "%02x", i & 0xff); /* fits */
        d = open_dir(dir, name);
        while (d && (e = readdir(d)))
            survey_file(s, dirfd(d), under, e->d_name, copy);
    }
}

static void survey_all(struct survey *s)
{
    DIR *copies cleanup(fd_closedir) = open_dir(s->c->b->tenant_copies, ".");
    struct dirent *e;

    s->count = 0;
    s->bytes = 0;
    s->files = 0;
    survey_folders(s, s->c->dir, "", false);
    while (copies && (e = readdir(copies))) {
        int fd cleanup(fd_close) = -1;

        if (e->d_name[0] == '.' || strlen(e->d_name) > BLOB_OWNER + 1)
            continue;
        fd = openat(dirfd(copies), e->d_name,
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            survey_folders(s, fd, e->d_name, true);
    }
    atomic_store(&s->c->bytes, s->bytes);
    atomic_store(&s->c->files, s->files);
}

static int by_use(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    return (x->used_ms > y->used_ms) - (x->used_ms < y->used_ms);
}

/* Down to `goal`, as far as that is possible. */
static void evict_to(struct survey *s, int64_t goal)
{
    if (s->count)
        qsort(s->found, s->count, sizeof(*s->found), by_use);
    for (size_t i = 0; i < s->count && s->bytes > goal; i++) {
        const struct candidate *k = &s->found[i];

        if (unlinkat(k->copy ? s->c->b->tenant_copies : s->c->dir, k->path,
                     0) < 0)
            continue; /* it is gone already */
        s->bytes -= (int64_t)k->size;
        s->files--;
        atomic_fetch_add(&s->c->evicted, 1);
        blob_cache_count(s->c, -(int64_t)k->size);
        atomic_fetch_sub(&s->c->files, 1);
    }
}

static bool remove_trees(struct blobs *b)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&b->full_lock);
    unsigned n = 0;

    while (n < TREES_AT_ONCE && b->on_full && b->on_full(b->on_full_ctx))
        n++;
    return n > 0;
}

void blob_cache_evict(struct blob_cache *c, uint64_t room)
{
    struct survey s cleanup(survey_done) = {.c = c};
    int64_t most = (int64_t)c->limit - (int64_t)MIN(room, c->limit);

    if (atomic_load(&c->bytes) <= most)
        return;
    struct mutex *held cleanup(mutex_release) = mutex_hold(&c->evicting);
    if (atomic_load(&c->bytes) <= most) /* another thread was here first */
        return;
    do {
        survey_all(&s);
        evict_to(&s, MIN(most, (int64_t)(c->limit / 10 * 9)));
    } while (s.bytes > most && remove_trees(c->b));
    if (s.bytes > most)
        log_event(LOG_WARN, "blob_cache_full", "why",
                  "what sessions mount exceeds blob_cache_bytes", NULL);
}

void blob_cache_survey(struct blob_cache *c)
{
    struct survey s cleanup(survey_done) = {.c = c};
    struct mutex *held cleanup(mutex_release) = mutex_hold(&c->evicting);

    survey_all(&s);
}

void blob_cache_stats(struct blob_cache *c, struct blob_remote_stats *ret)
{
    ret->cache_bytes = (uint64_t)MAX(atomic_load(&c->bytes), (int64_t)0);
    ret->cache_limit = c->limit;
    ret->hits = atomic_load(&c->hits);
    ret->misses = atomic_load(&c->misses);
    ret->evicted = atomic_load(&c->evicted);
    ret->repaired = atomic_load(&c->repaired);
}
