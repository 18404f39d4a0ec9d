/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blob module on a second tier, which keeps blobs in memory and can fail,
 * be slow, lose blobs or return wrong bytes. The first cases run on the local
 * disk and on S3 as well: what callers of blob/ see must not depend on the
 * tier. test_blob_s3.c has what only S3 does.
 */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"
#include "blob/blob_int.h"
#include "s3_server.h"
#include "scratch.h"

#define LARGE (100u << 10) /* never in the log */
#define OWNER "0123456789abcdef"
#define OTHER "fedcba9876543210"

/* ---- a tier in memory --------------------------------------------------- */

struct memory_blob {
    struct memory_blob *next;
    char sha256[BLOB_NAME];
    char *bytes;
    size_t len;
};

enum memory_op {
    OP_PUT = 1,
    OP_GET = 2,
    OP_STAT = 4,
    OP_REMOVE = 8,
    OP_LIST = 16,
    OP_ALL = 31,
};

struct memory_tier {
    struct blob_tier tier;
    struct mutex lock;
    struct cond changed;
    struct memory_blob *blobs; /* in order of name */
    unsigned fail;             /* operations that fail */
    enum error_code fail_with;
    unsigned fail_after; /* puts that succeed first */
    bool wrong;          /* get flips a bit */
    bool truncated;      /* get returns half of it */
    bool hold_puts;      /* puts wait until this is false */
    unsigned holding;    /* that wait now */
    unsigned puts;
    bool closed_elsewhere; /* the test frees it */
};

static struct memory_tier *memory_of(struct blob_tier *t)
{
    return (struct memory_tier *)t;
}

static struct memory_blob **memory_find(struct memory_tier *m,
                                        const char *sha256)
{
    struct memory_blob **at = &m->blobs;

    while (*at && strcmp((*at)->sha256, sha256) < 0)
        at = &(*at)->next;
    return at;
}

static bool memory_has(struct memory_tier *m, const char *sha256)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&m->lock);
    struct memory_blob *b = *memory_find(m, sha256);

    return b && strcmp(b->sha256, sha256) == 0;
}

static int memory_fails(struct memory_tier *m, unsigned op, struct error *err)
{
    if (!(m->fail & op))
        return 0;
    return error_set(err, m->fail_with, "the tier in memory fails");
}

static int memory_put_one(struct memory_tier *m, struct blob_tier_file *f,
                          struct error *err)
{
    int fd cleanup(fd_close) = openat(f->dir, f->name, O_RDONLY | O_CLOEXEC);
    char *bytes cleanup(mem_free) = xmalloc(f->size + 1);
    struct memory_blob **at, *b;

    if (fd < 0 || fd_read_all(fd, bytes, f->size + 1) != (ssize_t)f->size)
        return error_set(err, ERR_INTERNAL, "the staged file is not there");
    struct mutex *held cleanup(mutex_release) = mutex_hold(&m->lock);
    m->puts++;
    while (m->hold_puts) {
        m->holding++;
        cond_broadcast(&m->changed);
        cond_wait(&m->changed, &m->lock);
        m->holding--;
    }
    if (m->fail_after)
        m->fail_after--;
    else if (memory_fails(m, OP_PUT, err) < 0)
        return -(int)err->code;
    at = memory_find(m, f->sha256);
    b = *at;
    if (!b || strcmp(b->sha256, f->sha256) != 0) {
        b = xcalloc(1, sizeof(*b));
        memcpy(b->sha256, f->sha256, BLOB_NAME);
        b->next = *at;
        *at = b;
        f->more_blobs = 1;
    }
    f->more_bytes = (int64_t)f->size - (int64_t)b->len;
    free(b->bytes);
    b->bytes = take_ptr(bytes);
    b->len = f->size;
    (void)unlinkat(f->dir, f->name, 0);
    f->stored = true;
    return 0;
}

static int memory_put(struct blob_tier *t, struct blob_tier_file *files,
                      size_t count, bool durable, struct error *err)
{
    int r = 0;

    (void)durable;
    for (size_t i = 0; i < count && r == 0; i++)
        r = memory_put_one(memory_of(t), &files[i], err);
    return r;
}

static int memory_sync(struct blob_tier *t, struct error *err)
{
    (void)t;
    (void)err;
    return 0;
}

static int memory_get(struct blob_tier *t, const char *sha256, int *ret_fd,
                      struct error *err)
{
    struct memory_tier *m = memory_of(t);
    struct mutex *held cleanup(mutex_release) = mutex_hold(&m->lock);
    struct memory_blob *b = *memory_find(m, sha256);
    char *bytes cleanup(mem_free) = NULL;
    size_t len;
    int fd;

    if (memory_fails(m, OP_GET, err) < 0)
        return -(int)err->code;
    if (!b || strcmp(b->sha256, sha256) != 0)
        return 1;
    len = m->truncated ? b->len / 2 : b->len;
    bytes = xmalloc(b->len + 1);
    if (b->len)
        memcpy(bytes, b->bytes, b->len);
    if (m->wrong)
        bytes[0] ^= 1;
    fd = memfd_create("tier", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, bytes, len), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    *ret_fd = fd;
    return 0;
}

static int memory_stat(struct blob_tier *t, const char *sha256,
                       struct stat *ret, struct error *err)
{
    struct memory_tier *m = memory_of(t);
    struct mutex *held cleanup(mutex_release) = mutex_hold(&m->lock);
    struct memory_blob *b = *memory_find(m, sha256);

    if (memory_fails(m, OP_STAT, err) < 0)
        return -(int)err->code;
    if (!b || strcmp(b->sha256, sha256) != 0)
        return 1;
    *ret = (struct stat){.st_size = (off_t)b->len};
    return 0;
}

static int memory_remove(struct blob_tier *t, const char *sha256,
                         struct error *err)
{
    struct memory_tier *m = memory_of(t);
    struct mutex *held cleanup(mutex_release) = mutex_hold(&m->lock);
    struct memory_blob **at = memory_find(m, sha256), *b = *at;

    if (memory_fails(m, OP_REMOVE, err) < 0)
        return -(int)err->code;
    if (!b || strcmp(b->sha256, sha256) != 0)
        return 1;
    *at = b->next;
    free(b->bytes);
    free(b);
    return 0;
}

/* As a service that lists by prefix in pages would: one at a time, from a
 * name on, so that fn may remove what it is called for. */
static bool memory_next(struct memory_tier *m, const char *prefix,
                        const char *after, struct blob_info *ret)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&m->lock);

    for (struct memory_blob *b = m->blobs; b; b = b->next)
        if (strncmp(b->sha256, prefix, 2) == 0 &&
            strcmp(b->sha256, after) > 0) {
            *ret = (struct blob_info){.size = b->len, .stored_at_ms = 1};
            memcpy(ret->sha256, b->sha256, BLOB_NAME);
            return true;
        }
    return false;
}

static int memory_list(struct blob_tier *t, unsigned first_byte,
                       blob_iterate_fn fn, void *ctx, struct error *err)
{
    struct memory_tier *m = memory_of(t);
    char after[BLOB_NAME] = "", prefix[3];
    struct blob_info info;
    int r = memory_fails(m, OP_LIST, err);

    (void)snprintf(prefix, sizeof(prefix), "%02x", first_byte & 0xff);
    while (r == 0 && memory_next(m, prefix, after, &info)) {
        memcpy(after, info.sha256, BLOB_NAME);
        r = fn(ctx, &info);
    }
    return r;
}

static void memory_free(struct memory_tier *m)
{
    while (m->blobs) {
        struct memory_blob *b = m->blobs;

        m->blobs = b->next;
        free(b->bytes);
        free(b);
    }
    cond_done(&m->changed);
    mutex_done(&m->lock);
    free(m);
}

/* It is as far away as a bucket: it stays when the module is closed. */
static void memory_close(struct blob_tier *t)
{
    memory_of(t)->closed_elsewhere = true;
}

static const struct blob_tier_ops memory_ops = {
    .name = "memory",
    .put = memory_put,
    .sync = memory_sync,
    .get = memory_get,
    .stat = memory_stat,
    .remove = memory_remove,
    .list = memory_list,
    .close = memory_close,
};

/* ---- help --------------------------------------------------------------- */

static struct s3_server server; /* of the cases on S3 */

struct fixture {
    char dir[64];
    struct memory_tier *memory; /* NULL: the local disk, or S3 */
    char prefix[32];            /* in the bucket; "": not in S3 */
    struct blobs *blobs;
    struct error err;
};

static void must(struct fixture *f, int r)
{
    if (r < 0)
        fail_msg("%s", f->err.message);
    assert_int_equal(r, 0);
}

static void open_blobs(struct fixture *f)
{
    struct blobs_settings settings = {.data_dir = f->dir};

    struct blobs_bucket bucket = {0};
    struct blobs_s3 s3 = {
        .buckets = &bucket, .count = 1, .cache_bytes = 64 << 20};

    if (f->memory)
        settings.tier = &f->memory->tier;
    if (f->prefix[0]) {
        struct s3_settings at = s3_server_settings(&server, "glovebox");

        at.prefix = f->prefix;
        must(f, s3_open(&at, &bucket.s3, &f->err));
        settings.s3 = &s3;
    }
    must(f, blobs_open(&settings, &f->blobs, &f->err));
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int set_up_local(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    assert_non_null(scratch_dir(f->dir, sizeof(f->dir), "test_blob_tier"));
    open_blobs(f);
    *state = f;
    return 0;
}

static int set_up_s3(void **state)
{
    static unsigned number;
    struct fixture *f = xcalloc(1, sizeof(*f));

    assert_non_null(scratch_dir(f->dir, sizeof(f->dir), "test_blob_tier"));
    (void)snprintf(f->prefix, sizeof(f->prefix), "tier-%u/", number++);
    open_blobs(f);
    *state = f;
    return 0;
}

static int set_up_memory(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    f->memory = xcalloc(1, sizeof(*f->memory));
    f->memory->tier.ops = &memory_ops;
    f->memory->fail_with = ERR_UNAVAILABLE;
    mutex_init(&f->memory->lock);
    cond_init(&f->memory->changed);
    assert_non_null(scratch_dir(f->dir, sizeof(f->dir), "test_blob_tier"));
    open_blobs(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    blobs_close(f->blobs);
    if (f->memory) {
        assert_true(f->memory->closed_elsewhere);
        memory_free(f->memory);
    }
    assert_int_equal(nftw(f->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    free(f);
    return 0;
}

/* `len` bytes that depend on seed. */
static char *make_bytes(size_t len, unsigned seed)
{
    char *bytes = xmalloc(len + 1);

    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)(seed + i * 31 + i / 251);
    return bytes;
}

/* Pinned if it returns 0. */
static int store(struct fixture *f, size_t len, unsigned seed,
                 char ret_sha[BLOB_NAME])
{
    struct blob_writer *w cleanup(blob_abort) = NULL;
    char *bytes cleanup(mem_free) = make_bytes(len, seed);
    int r = blob_begin(f->blobs, OWNER, &w, &f->err);

    if (r == 0)
        r = blob_write(w, bytes, len, &f->err);
    return r < 0 ? r : blob_finish(&w, ret_sha, NULL, &f->err);
}

static void holds(struct fixture *f, const char *sha, size_t len,
                  unsigned seed)
{
    char *bytes cleanup(mem_free) = make_bytes(len, seed);
    char *found cleanup(mem_free) = xmalloc(len + 1);
    int fd cleanup(fd_close) = -1;
    uint64_t size = 0;

    must(f, blob_open(f->blobs, sha, &fd, &size, &f->err));
    assert_int_equal(size, len);
    assert_int_equal(fd_read_all(fd, found, len + 1), len);
    assert_memory_equal(found, bytes, len);
}

static int reads(struct fixture *f, const char *sha)
{
    int fd cleanup(fd_close) = -1;

    return blob_open(f->blobs, sha, &fd, NULL, &f->err);
}

static unsigned staged(struct fixture *f)
{
    char *path cleanup(mem_free) = xasprintf("%s/blobs/tmp", f->dir);
    DIR *dir cleanup(fd_closedir) = opendir(path);
    unsigned count = 0;
    struct dirent *e;

    assert_non_null(dir);
    while ((e = readdir(dir)))
        count += e->d_name[0] != '.';
    return count;
}

struct seen {
    unsigned count;
    char last[BLOB_NAME];
};

static int on_blob(void *ctx, const struct blob_info *i)
{
    struct seen *s = ctx;

    assert_true(strcmp(s->last, i->sha256) < 0);
    memcpy(s->last, i->sha256, BLOB_NAME);
    s->count++;
    return 0;
}

static unsigned iterate(struct fixture *f)
{
    struct seen s = {0};

    must(f, blob_iterate(f->blobs, on_blob, &s, &f->err));
    return s.count;
}

/* ---- what holds on every tier ------------------------------------------- */

static void any_tier_stores_reads_lists_and_removes(void **state)
{
    static const size_t sizes[] = {
        0, 1, 1000, BLOB_LOG_MOST, BLOB_LOG_MOST + 1, LARGE};
    char sha[ARRAY_SIZE(sizes)][BLOB_NAME];
    struct fixture *f = *state;
    uint64_t bytes, count, sum = 0;

    blobs_usage(f->blobs, &bytes, &count);
    assert_int_equal(count, 0);
    for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
        must(f, store(f, sizes[i], i, sha[i]));
        sum += sizes[i];
        holds(f, sha[i], sizes[i], i);
        assert_int_equal(blob_remove(f->blobs, sha[i], &f->err), 1);
        blob_release(f->blobs, sha[i]);
    }
    assert_int_equal(staged(f), 0);
    assert_int_equal(iterate(f), ARRAY_SIZE(sizes));
    blobs_usage(f->blobs, &bytes, &count);
    assert_int_equal(count, ARRAY_SIZE(sizes));
    assert_int_equal(bytes, sum);

    /* Once more is nothing more. */
    must(f, store(f, LARGE, ARRAY_SIZE(sizes) - 1, sha[5]));
    blob_release(f->blobs, sha[5]);
    assert_int_equal(iterate(f), ARRAY_SIZE(sizes));

    blobs_close(f->blobs);
    open_blobs(f);
    for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
        holds(f, sha[i], sizes[i], i);
        must(f, blob_check(f->blobs, sha[i], true, 0, &f->err));
        must(f, blob_remove(f->blobs, sha[i], &f->err));
        assert_int_equal(reads(f, sha[i]), -ERR_CORRUPT);
    }
    assert_int_equal(iterate(f), 0);
    blobs_usage(f->blobs, &bytes, &count);
    assert_int_equal(count, 0);
    assert_int_equal(bytes, 0);
}

static void any_tier_takes_a_batch(void **state)
{
    struct fixture *f = *state;
    struct blob_batch *batch = blob_batch_new(f->blobs);
    char sha[20][BLOB_NAME];

    for (unsigned i = 0; i < ARRAY_SIZE(sha); i++) {
        char *bytes cleanup(mem_free) = make_bytes(100, i);
        struct blob_writer *w cleanup(blob_abort) = NULL;
        uint64_t size;

        must(f, blob_begin(f->blobs, OWNER, &w, &f->err));
        must(f, blob_write(w, bytes, 100, &f->err));
        must(f, blob_batch_add(batch, &w, sha[i], &size, &f->err));
    }
    must(f, blob_batch_finish(&batch, &f->err));
    assert_int_equal(iterate(f), ARRAY_SIZE(sha));
    assert_int_equal(staged(f), 0);
    for (unsigned i = 0; i < ARRAY_SIZE(sha); i++) {
        holds(f, sha[i], 100, i);
        blob_release(f->blobs, sha[i]);
    }
}

/* Sessions mount links; a tier without local files gives each tenant a
 * verified copy (I8: two tenants share no inode). */
static void I8_any_tier_can_be_linked(void **state)
{
    struct fixture *f = *state;
    int dir cleanup(fd_close) = open(f->dir, O_RDONLY | O_DIRECTORY);
    struct stat one, same, other, run;
    char sha[BLOB_NAME];

    must(f, store(f, LARGE, 1, sha));
    must(f, blob_link(f->blobs, OWNER, sha, dir, "one", false, &f->err));
    must(f, blob_link(f->blobs, OWNER, sha, dir, "same", false, &f->err));
    must(f, blob_link(f->blobs, OTHER, sha, dir, "other", false, &f->err));
    must(f, blob_link(f->blobs, OWNER, sha, dir, "run", true, &f->err));
    must(f, blob_verify_link(f->blobs, sha, dir, "one", &one, &f->err));
    must(f, blob_verify_link(f->blobs, sha, dir, "same", &same, &f->err));
    must(f, blob_verify_link(f->blobs, sha, dir, "other", &other, &f->err));
    must(f, blob_verify_link(f->blobs, sha, dir, "run", &run, &f->err));
    assert_int_equal(one.st_size, LARGE);
    assert_true(one.st_ino == same.st_ino);
    assert_true(one.st_ino != other.st_ino);
    assert_int_equal(one.st_mode & 0777, 0644);
    assert_int_equal(run.st_mode & 0777, 0755);
    assert_int_equal(
        blob_link(f->blobs, OWNER, sha, dir, "one", false, &f->err),
        -ERR_CONFLICT);
    must(f, blob_unlink(f->blobs, OWNER, sha, dir, "one", false, &f->err));
    must(f, blob_verify_link(f->blobs, sha, dir, "same", &same, &f->err));
    blob_release(f->blobs, sha);
    must(f, blob_remove(f->blobs, sha, &f->err));
}

/* ---- a tier that is far away -------------------------------------------- */

/* Also a small one, also with blob_finish_soon: no log stands in for it. */
static void D1_acknowledged_means_stored_in_the_tier(void **state)
{
    struct fixture *f = *state;
    struct blob_writer *w = NULL;
    struct buf records cleanup(buf_done) = {0};
    char sha[BLOB_NAME];

    must(f, store(f, 10, 1, sha));
    assert_true(memory_has(f->memory, sha));
    blob_release(f->blobs, sha);
    must(f, blob_begin(f->blobs, OWNER, &w, &f->err));
    must(f, blob_write(w, "soon", 4, &f->err));
    must(f, blob_finish_soon(&w, sha, NULL, &f->err));
    assert_true(memory_has(f->memory, sha));
    must(f, blobs_write(f->blobs, &records, &f->err));
    assert_int_equal(records.len, 0);
    must(f, blobs_sync(f->blobs, &f->err));
    blob_release(f->blobs, sha);
}

static void D5_failed_put_stores_nothing(void **state)
{
    static const enum error_code codes[] = {ERR_UNAVAILABLE, ERR_SPACE,
                                            ERR_INTERNAL};
    struct fixture *f = *state;
    char sha[BLOB_NAME];

    for (unsigned i = 0; i < ARRAY_SIZE(codes); i++) {
        f->memory->fail = OP_PUT;
        f->memory->fail_with = codes[i];
        assert_int_equal(store(f, 10, i, sha), -(int)codes[i]);
        assert_int_equal(store(f, LARGE, i, sha), -(int)codes[i]);
        assert_int_equal(f->err.code, codes[i]);
        assert_int_equal(staged(f), 0);
        assert_int_equal(iterate(f), 2 * i);
        assert_int_equal(blobs_inflight(f->blobs), 0);

        /* Not final: the tier is back, and so is writing. */
        f->memory->fail = 0;
        assert_true(blobs_writable(f->blobs));
        must(f, store(f, 10, i, sha));
        blob_release(f->blobs, sha);
        must(f, store(f, LARGE, i, sha));
        blob_release(f->blobs, sha);
    }
}

static void D5_failed_batch_keeps_what_was_stored(void **state)
{
    struct fixture *f = *state;
    struct blob_batch *batch = blob_batch_new(f->blobs);
    char sha[5][BLOB_NAME];
    uint64_t bytes, count;

    blobs_usage(f->blobs, &bytes, &count);
    for (unsigned i = 0; i < ARRAY_SIZE(sha); i++) {
        struct blob_writer *w cleanup(blob_abort) = NULL;
        uint64_t size;

        must(f, blob_begin(f->blobs, OWNER, &w, &f->err));
        must(f, blob_write(w, &i, sizeof(i), &f->err));
        must(f, blob_batch_add(batch, &w, sha[i], &size, &f->err));
    }
    f->memory->fail = OP_PUT;
    f->memory->fail_after = 3;
    assert_int_equal(blob_batch_finish(&batch, &f->err), -ERR_UNAVAILABLE);
    assert_int_equal(iterate(f), 3);
    assert_int_equal(staged(f), 0);
    blobs_usage(f->blobs, &bytes, &count);
    assert_int_equal(count, 3);
    for (unsigned i = 0; i < ARRAY_SIZE(sha); i++)
        blob_release(f->blobs, sha[i]);
}

static void D3_wrong_bytes_are_not_handed_out(void **state)
{
    struct fixture *f = *state;
    int dir cleanup(fd_close) = open(f->dir, O_RDONLY | O_DIRECTORY);
    char sha[BLOB_NAME];

    for (unsigned i = 0; i < 2; i++) {
        must(f, store(f, i ? LARGE : 10, i, sha));
        holds(f, sha, i ? LARGE : 10, i);
        f->memory->wrong = true;
        assert_int_equal(reads(f, sha), -ERR_CORRUPT);
        assert_int_equal(blob_check(f->blobs, sha, false, 0, &f->err),
                         -ERR_CORRUPT);
        assert_int_equal(blob_check(f->blobs, sha, true, 0, &f->err),
                         -ERR_CORRUPT);
        assert_int_equal(
            blob_link(f->blobs, OWNER, sha, dir, "name", false, &f->err),
            -ERR_CORRUPT);
        f->memory->wrong = false;
        f->memory->truncated = true;
        assert_int_equal(reads(f, sha), -ERR_CORRUPT);
        f->memory->truncated = false;
        holds(f, sha, i ? LARGE : 10, i);
        blob_release(f->blobs, sha);
    }
}

static void D3_lost_blob_is_missing_and_can_be_stored_again(void **state)
{
    struct fixture *f = *state;
    char sha[BLOB_NAME];

    must(f, store(f, LARGE, 7, sha));
    assert_int_equal(memory_remove(&f->memory->tier, sha, &f->err), 0);
    assert_int_equal(reads(f, sha), -ERR_CORRUPT);
    assert_non_null(strstr(f->err.message, "missing"));
    blob_release(f->blobs, sha);
    must(f, store(f, LARGE, 7, sha));
    holds(f, sha, LARGE, 7);
    blob_release(f->blobs, sha);
}

/* A tier that does not answer is not a damaged blob: nobody restores backups
 * because of a network that is down. */
static void unreachable_tier_is_not_corruption(void **state)
{
    struct fixture *f = *state;
    struct seen s = {0};
    char sha[BLOB_NAME];

    must(f, store(f, LARGE, 1, sha));
    blob_release(f->blobs, sha);
    f->memory->fail = OP_ALL;
    assert_int_equal(reads(f, sha), -ERR_UNAVAILABLE);
    assert_int_equal(blob_check(f->blobs, sha, true, 0, &f->err),
                     -ERR_UNAVAILABLE);
    assert_int_equal(blob_iterate(f->blobs, on_blob, &s, &f->err),
                     -ERR_UNAVAILABLE);
    assert_int_equal(blob_remove(f->blobs, sha, &f->err), -ERR_UNAVAILABLE);
    f->memory->fail = 0;
    holds(f, sha, LARGE, 1);
    must(f, blob_remove(f->blobs, sha, &f->err));
}

struct slow_store {
    struct fixture *f;
    struct error err;
    char sha[BLOB_NAME];
    int result;
};

static void slow_store_main(void *arg)
{
    struct slow_store *s = arg;
    struct blob_writer *w = NULL;
    char *bytes cleanup(mem_free) = make_bytes(LARGE, 9);

    s->result = blob_begin(s->f->blobs, OWNER, &w, &s->err);
    if (s->result == 0)
        s->result = blob_write(w, bytes, LARGE, &s->err);
    if (s->result == 0)
        s->result = blob_finish(&w, s->sha, NULL, &s->err);
}

/* One put that takes long holds up neither readers nor the collector. */
static void slow_put_holds_up_nobody_else(void **state)
{
    struct fixture *f = *state;
    struct slow_store slow = {.f = f};
    char sha[BLOB_NAME], gone[BLOB_NAME];
    struct thread thread = {0};

    must(f, store(f, LARGE, 1, sha));
    must(f, store(f, LARGE, 2, gone));
    blob_release(f->blobs, gone);
    f->memory->hold_puts = true;
    must(f, thread_start(&thread, "slow", slow_store_main, &slow, &f->err));
    mutex_lock(&f->memory->lock);
    while (!f->memory->holding)
        cond_wait(&f->memory->changed, &f->memory->lock);
    mutex_unlock(&f->memory->lock);

    holds(f, sha, LARGE, 1);
    must(f, blob_remove(f->blobs, gone, &f->err));
    assert_int_equal(iterate(f), 1); /* the slow one is not acknowledged */

    mutex_lock(&f->memory->lock);
    f->memory->hold_puts = false;
    cond_broadcast(&f->memory->changed);
    mutex_unlock(&f->memory->lock);
    thread_join(&thread);
    assert_int_equal(slow.result, 0);
    holds(f, slow.sha, LARGE, 9);
    blob_release(f->blobs, slow.sha);
    blob_release(f->blobs, sha);
}

/* A data directory that was used with the local disk: what its log still has
 * is put into the new tier. */
static void D1_log_of_the_local_disk_moves_to_the_tier(void **state)
{
    struct fixture *f = *state;
    struct blobs *local = NULL;
    struct blob_writer *w = NULL;
    struct blobs_settings settings = {.data_dir = f->dir};
    char sha[BLOB_NAME];

    blobs_close(f->blobs);
    must(f, blobs_open(&settings, &local, &f->err));
    mutex_lock(&local->log.lock);
    local->log.quiet_ms = 3600000;
    mutex_unlock(&local->log.lock);
    must(f, blob_begin(local, OWNER, &w, &f->err));
    must(f, blob_write(w, "logged", 6, &f->err));
    must(f, blob_finish(&w, sha, NULL, &f->err));
    blob_release(local, sha);
    atomic_store(&local->failed, true); /* ends as a crash would */
    blobs_close(local);

    assert_false(memory_has(f->memory, sha));
    f->memory->closed_elsewhere = false;
    open_blobs(f);
    must(f, blob_publish_now(f->blobs, sha, &f->err));
    assert_true(memory_has(f->memory, sha));
    assert_int_equal(reads(f, sha), 0);
}

#define ON_LOCAL(name)                                                        \
    {                                                                         \
#name "_local", name, set_up_local, tear_down, NULL                   \
    }
#define ON_S3(name)                                                           \
    {                                                                         \
#name "_s3", name, set_up_s3, tear_down, NULL                         \
    }
#define ON_MEMORY(name)                                                       \
    {                                                                         \
#name, name, set_up_memory, tear_down, NULL                           \
    }

int main(void)
{
    static const struct CMUnitTest tests[] = {
        ON_LOCAL(any_tier_stores_reads_lists_and_removes),
        ON_MEMORY(any_tier_stores_reads_lists_and_removes),
        ON_S3(any_tier_stores_reads_lists_and_removes),
        ON_S3(any_tier_takes_a_batch),
        ON_S3(I8_any_tier_can_be_linked),
        ON_LOCAL(any_tier_takes_a_batch),
        ON_MEMORY(any_tier_takes_a_batch),
        ON_LOCAL(I8_any_tier_can_be_linked),
        ON_MEMORY(I8_any_tier_can_be_linked),
        ON_MEMORY(D1_acknowledged_means_stored_in_the_tier),
        ON_MEMORY(D5_failed_put_stores_nothing),
        ON_MEMORY(D5_failed_batch_keeps_what_was_stored),
        ON_MEMORY(D3_wrong_bytes_are_not_handed_out),
        ON_MEMORY(D3_lost_blob_is_missing_and_can_be_stored_again),
        ON_MEMORY(unreachable_tier_is_not_corruption),
        ON_MEMORY(slow_put_holds_up_nobody_else),
        ON_MEMORY(D1_log_of_the_local_disk_moves_to_the_tier),
    };

    static const char *const argv[] = {"node", "tests/lib/s3-server.mjs",
                                       NULL};
    char dir[256];
    struct error err;
    int failed;

    if (fetch_start(&err) < 0 ||
        !scratch_dir(dir, sizeof(dir), "test_blob_tier") ||
        !s3_server_start(&server, argv, dir))
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    s3_server_stop(&server);
    scratch_remove(dir);
    return failed;
}
