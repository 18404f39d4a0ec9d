/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and checking. Runs in the daemon, on any thread. No byte leaves
 * here before all of them were hashed (D3), now or within the last day.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "blob/blob_int.h"

#define NAP_MS 100u /* how late blobs_stop may be noticed */

struct hashing {
    struct blobs *b;
    struct hash_stream *hash;
    uint64_t pace, done, started_ns;
    bool stoppable;
};

/* Waits until so many bytes are allowed. */
static int keep_pace(struct hashing *h)
{
    uint64_t due_ms = (uint64_t)((double)h->done * 1000.0 / (double)h->pace);

    for (;;) {
        uint64_t past_ms = (clock_mono_ns() - h->started_ns) / 1000000;

        if (atomic_load(&h->b->stopping))
            return 1;
        if (past_ms >= due_ms)
            return 0;

        uint64_t ms = MIN(due_ms - past_ms, (uint64_t)NAP_MS);
        struct timespec t = {.tv_sec = (time_t)(ms / 1000),
                             .tv_nsec = (long)(ms % 1000) * 1000000};

        (void)nanosleep(&t, NULL); /* a signal only makes it shorter */
    }
}

static int hash_piece(void *ctx, const void *bytes, uint64_t len)
{
    struct hashing *h = ctx;

    blob_scan_hash(h->hash, bytes, len);
    if (bytes) /* a hole is no load for the disk */
        h->done += len;
    if (h->pace)
        return keep_pace(h);
    return h->stoppable && atomic_load(&h->b->stopping) ? 1 : 0;
}

static bool same_stat(const struct stat *a, const struct stat *b)
{
    return a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Hashes fd, of which look->st is known, and decides. */
static void verify_file(struct blobs *b, const struct blob_name *name, int fd,
                        struct blob_look *look)
{
    unsigned char found[HASH_SIZE];
    struct hashing h = {.b = b,
                        .pace = look->pace,
                        .stoppable = look->anew,
                        .started_ns = clock_mono_ns()};
    bool settled = blob_verified_cacheable(&look->st);
    struct stat after;
    int r;

    /* Read the copy on disk, not the page cache. */
    if (look->anew)
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    h.hash = hash_stream_new();
    /* One byte more than it should have: something appended shows too. */
    r = blob_scan(fd, (uint64_t)look->st.st_size + 1, hash_piece, &h);
    hash_stream_end(h.hash, found);
    if (r > 0) {
        look->state = BLOB_STOPPED;
        return;
    }
    if (r < 0 || !hash_equal(found, name->hash, sizeof(found))) {
        look->state = BLOB_BAD;
        blob_verified_cache_remove(b, name, &look->st);
        return;
    }
    look->state = BLOB_GOOD;
    if (settled && fstat(fd, &after) == 0 && same_stat(&look->st, &after))
        blob_verified_cache_add(b, name, &after);
}

/* Of the tier, or of the tenant's copy. */
static bool is_cached(struct blobs *b, const struct blob_name *name,
                      struct blob_look *look)
{
    const struct blob_tier_ops *ops = b->tier->ops;
    int r;

    if (look->copy)
        r = fstatat(b->tenant_copies, look->copy, &look->st,
                    AT_SYMLINK_NOFOLLOW);
    else
        r = ops->file ? ops->file(b->tier, blob_name_hex(name), &look->st) : 1;

    return r == 0 && blob_verified_cache_has(b, name, &look->st);
}

/* 1: there is none. ERR_CORRUPT: it cannot be read. */
static int open_copy(struct blobs *b, const char *path, int *ret_fd,
                     struct error *err)
{
    int fd = openat(b->tenant_copies, path,
                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0 && errno == ENOENT)
        return 1;
    if (fd < 0 && (errno == EIO || errno == ELOOP))
        return error_set(err, ERR_CORRUPT, "cannot read a stored object");
    if (fd < 0)
        return blob_fault(errno, "open a stored object", err);
    *ret_fd = fd;
    return 0;
}

/* Decides whether the bytes of fd are right. */
static int judge_file(struct blobs *b, const struct blob_name *name, int fd,
                      struct blob_look *look, struct error *err)
{
    if (fstat(fd, &look->st) < 0)
        return blob_fault(errno, "open a stored object", err);
    if (!S_ISREG(look->st.st_mode))
        look->state = BLOB_BAD;
    else if (!look->anew && blob_verified_cache_has(b, name, &look->st))
        look->state = BLOB_GOOD;
    else
        verify_file(b, name, fd, look);
    return 0;
}

/* A wrong local copy of a blob that is stored elsewhere is fetched again. fd:
 * -1 afterwards if there is no better one. */
static int replace_copy(struct blobs *b, const struct blob_name *name, int *fd,
                        struct blob_look *look, struct error *err)
{
    const char *sha256 = blob_name_hex(name);
    int r;

    fd_close(fd);
    if (!b->tier->ops->refetch)
        return 0;
    log_event(LOG_WARN, "blob_cache_damaged", "sha256", sha256, NULL);
    r = b->tier->ops->refetch(b->tier, sha256, fd, err);
    if (r > 0)
        look->state = BLOB_ABSENT;
    return r == -ERR_CORRUPT ? 0 : MIN(r, 0);
}

int blob_read_look(struct blobs *b, const struct blob_name *name,
                   struct blob_look *look, int *ret_fd, struct error *err)
{
    int fd cleanup(fd_close) = -1;
    int r;

    look->state = BLOB_ABSENT;
    if (!ret_fd && !look->anew && is_cached(b, name, look)) {
        look->state = BLOB_GOOD;
        return 0;
    }
    if (look->copy)
        r = open_copy(b, look->copy, &fd, err);
    else
        r = b->tier->ops->get(b->tier, blob_name_hex(name), &fd, err);
    if (r == -ERR_CORRUPT)
        look->state = BLOB_BAD;
    if (r > 0 || r == -ERR_CORRUPT)
        return 0;
    if (r < 0)
        return r;
    r = judge_file(b, name, fd, look, err);
    if (r == 0 && look->state == BLOB_BAD && !look->copy) {
        r = replace_copy(b, name, &fd, look, err);
        if (r == 0 && fd >= 0)
            r = judge_file(b, name, fd, look, err);
    }
    if (r < 0)
        return r;
    if (ret_fd && look->state == BLOB_GOOD)
        *ret_fd = take_fd(fd);
    return 0;
}

int blob_read_corrupt(const struct blob_name *name, enum blob_state state,
                      struct error *err)
{
    const char *what = state == BLOB_ABSENT ? "missing" : "damaged";

    /* The caller reports one error of many; the operator must see this. */
    log_event(LOG_ERROR, "blob_corrupt", "sha256", blob_name_hex(name), "what",
              what, NULL);
    (void)error_set(err, ERR_CORRUPT, "the stored object %.16s is %s",
                    blob_name_hex(name), what);
    return error_hint(err, "Its bytes are not handed out. Storing the same "
                           "file again, or a backup, brings it back.");
}

/* ---- what is in the log, and no file yet -------------------------------- */

/* The bytes as a file that can be read, and nothing else. */
static int memfd_of(const char *bytes, size_t len, int *ret_fd,
                    struct error *err)
{
    int fd cleanup(fd_close) =
        memfd_create("blob", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r = fd < 0 ? -errno : blob_log_put(fd, bytes, len, 0);

    if (r == 0 &&
        fcntl(fd, F_ADD_SEALS,
              F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        r = -errno;
    if (r < 0)
        return blob_fault(-r, "open a stored object", err);
    *ret_fd = take_fd(fd);
    return 0;
}

/* Where look found no right file. ret_fd: may be NULL. */
static int look_in_log(struct blobs *b, const struct blob_name *name,
                       struct blob_look *look, int *ret_fd, struct error *err)
{
    char *bytes cleanup(mem_free) = NULL;
    size_t len = 0;
    int r = blob_pending_read(b, name, &bytes, &len, err);

    if (r > 0) /* it may have got to its place meanwhile */
        return blob_read_look(b, name, look, ret_fd, err);
    if (r == 0 && ret_fd)
        r = memfd_of(bytes, len, ret_fd, err);
    if (r < 0)
        return r;
    look->state = BLOB_GOOD;
    look->st.st_size = (off_t)len;
    return 0;
}

/* The blob as a file, or as the log has it. */
static int look_anywhere(struct blobs *b, const struct blob_name *name,
                         struct blob_look *look, int *ret_fd,
                         struct error *err)
{
    int r = blob_read_look(b, name, look, ret_fd, err);

    if (r == 0 && (look->state == BLOB_ABSENT || look->state == BLOB_BAD))
        r = look_in_log(b, name, look, ret_fd, err);
    if (r < 0 || look->state == BLOB_GOOD)
        return r;
    if (look->state == BLOB_STOPPED)
        return error_set(err, ERR_UNAVAILABLE, "the service is stopping");
    return blob_read_corrupt(name, look->state, err);
}

int blob_open(struct blobs *b, const char *sha256, int *ret_fd,
              uint64_t *ret_size, struct error *err)
{
    struct blob_look look = {0};
    struct blob_name name;
    int r = blob_name_parse(sha256, &name, err), fd = -1;

    if (r == 0)
        r = look_anywhere(b, &name, &look, &fd, err);
    if (r < 0)
        return r;
    *ret_fd = fd;
    if (ret_size)
        *ret_size = (uint64_t)look.st.st_size;
    return 0;
}

int blob_check(struct blobs *b, const char *sha256, bool anew, uint64_t pace,
               struct error *err)
{
    struct blob_look look = {.anew = anew, .pace = pace};
    struct blob_name name;
    int r = blob_name_parse(sha256, &name, err);

    if (r < 0)
        return r;
    if (anew) /* where that cannot be, the log's copy is looked at */
        (void)blob_pending_publish(b, &name, err);
    if (anew && b->tier->ops->check) {
        r = b->tier->ops->check(b->tier, sha256, pace, err);
        if (r > 0)
            return blob_read_corrupt(&name, BLOB_ABSENT, err);
        if (r == -ERR_CORRUPT)
            return blob_read_corrupt(&name, BLOB_BAD, err);
        if (r < 0)
            return r;
        look.anew = false; /* the copy is verified as for a reader */
        if (!b->tier->ops->file ||
            b->tier->ops->file(b->tier, sha256, &look.st) != 0)
            return 0;
    }
    return look_anywhere(b, &name, &look, NULL, err);
}
