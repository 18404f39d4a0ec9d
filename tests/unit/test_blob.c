/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blob: bytes come back as they went in or not at all; what was acknowledged
 * is there after a kill; a disk that fails at any call is told of.
 */
#include "../lib/faults.c" /* first: it replaces calls of the C library */
#include "scratch.h"

#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/mem.h"
#include "blob/blob_int.h"

#define FOREVER_MS 20000u

/* ---- help --------------------------------------------------------------- */

struct fixture {
    char dir[64];
    struct blobs *blobs;
    struct error err;
    struct faults_control faults;
};

static void must(struct fixture *f, int r)
{
    if (r < 0)
        fail_msg("%s", f->err.message);
    assert_int_equal(r, 0);
}

/* The placer reads it. */
static void set_quiet(struct fixture *f, unsigned ms)
{
    mutex_lock(&f->blobs->log.lock);
    f->blobs->log.quiet_ms = ms;
    mutex_unlock(&f->blobs->log.lock);
}

/* Small ones get to their places when a test says so. */
static int open_blobs(struct fixture *f)
{
    int r = blobs_open(&(struct blobs_settings){.data_dir = f->dir}, &f->blobs,
                       &f->err);

    if (r == 0)
        set_quiet(f, 1000 * FOREVER_MS);
    return r;
}

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    assert_non_null(scratch_dir(f->dir, sizeof(f->dir), "test_blob"));
    must(f, open_blobs(f));
    f->faults.magic = FAULTS_MAGIC;
    faults_control = &f->faults;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    faults_control = NULL;
    blobs_close(f->blobs);
    assert_int_equal(scratch_remove(f->dir), 0);
    free(f);
    return 0;
}

static void reopen(struct fixture *f)
{
    blobs_close(f->blobs);
    f->blobs = NULL;
    must(f, open_blobs(f));
}

static void arm(struct fixture *f, uint32_t ops, const char *path, int errnum,
                unsigned nth)
{
    struct faults_rule *r = &f->faults.rules[0];

    memset(r, 0, sizeof(*r));
    r->ops = ops;
    r->errnum = (uint32_t)errnum;
    r->nth = nth;
    (void)snprintf(r->path, sizeof(r->path), "%s", path);
    r->armed = 1;
}

/* Returns how many times it failed. */
static unsigned disarm(struct fixture *f)
{
    f->faults.rules[0].armed = 0;
    return f->faults.rules[0].fired;
}

/* The path of something below DIR/blobs. */
static char *below(struct fixture *f, const char *path)
{
    return xasprintf("%s/blobs/%s", f->dir, path);
}

static char *blob_path(struct fixture *f, const char *sha)
{
    return xasprintf("%s/blobs/%.2s/%s", f->dir, sha, sha);
}

static size_t entries(struct fixture *f, const char *folder)
{
    char *path cleanup(mem_free) = below(f, folder);
    DIR *dir cleanup(fd_closedir) = opendir(path);
    size_t count = 0;
    struct dirent *e;

    assert_non_null(dir);
    while ((e = readdir(dir)))
        count += e->d_name[0] != '.';
    return count;
}

/* Bytes that differ by seed and place. */
static void fill(char *to, size_t len, unsigned seed)
{
    uint32_t x = seed * 2654435761u + 1;

    for (size_t i = 0; i < len; i++) {
        x = x * 1664525u + 1013904223u;
        to[i] = (char)(x >> 24);
    }
}

static int try_put(struct fixture *f, const void *bytes, size_t len,
                   char ret_sha[BLOB_NAME])
{
    struct blob_writer *w cleanup(blob_abort) = NULL;
    uint64_t size = 0;
    int r = blob_begin(f->blobs, "", &w, &f->err);

    if (r == 0)
        r = blob_write(w, bytes, len, &f->err);
    if (r == 0)
        r = blob_finish(&w, ret_sha, &size, &f->err);
    if (r == 0)
        assert_int_equal(size, len);
    return r;
}

/* Stored and no longer pinned; a small one is in the log alone. */
static void put_logged(struct fixture *f, const void *bytes, size_t len,
                       char ret_sha[BLOB_NAME])
{
    must(f, try_put(f, bytes, len, ret_sha));
    blob_release(f->blobs, ret_sha);
}

/* The same, and in its place. */
static void put(struct fixture *f, const void *bytes, size_t len,
                char ret_sha[BLOB_NAME])
{
    put_logged(f, bytes, len, ret_sha);
    must(f, blob_pending_all(f->blobs, &f->err));
}

static void put_text(struct fixture *f, const char *text,
                     char ret_sha[BLOB_NAME])
{
    put(f, text, strlen(text), ret_sha);
}

static void same_bytes(int fd, const char *bytes, size_t len)
{
    char *found cleanup(mem_free) = xmalloc(len + 1);

    assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
    assert_int_equal(fd_read_all(fd, found, len + 1), len);
    assert_int_equal(memcmp(found, bytes, len), 0);
}

static void holds(struct fixture *f, const char *sha, const char *bytes,
                  size_t len)
{
    int fd cleanup(fd_close) = -1;
    uint64_t size = 0;

    must(f, blob_open(f->blobs, sha, &fd, &size, &f->err));
    assert_int_equal(size, len);
    same_bytes(fd, bytes, len);
}

static bool opens(struct fixture *f, const char *sha)
{
    int fd cleanup(fd_close) = -1;

    return blob_open(f->blobs, sha, &fd, NULL, &f->err) == 0;
}

/* Flips one bit and puts the modification time back. */
static void flip(const char *path, off_t at)
{
    int fd cleanup(fd_close) = open(path, O_RDWR | O_CLOEXEC);
    struct stat st;
    char c;

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(pread(fd, &c, 1, at), 1);
    c = (char)(c ^ 4);
    assert_int_equal(pwrite(fd, &c, 1, at), 1);
    assert_int_equal(
        futimens(fd, (struct timespec[2]){st.st_atim, st.st_mtim}), 0);
}

static bool is_known(struct fixture *f, const char *sha)
{
    char *path cleanup(mem_free) = blob_path(f, sha);
    struct blob_name name;
    struct stat st;

    must(f, blob_name_parse(sha, &name, &f->err));
    return stat(path, &st) == 0 &&
           blob_verified_cache_has(f->blobs, &name, &st);
}

/* Until file times of now differ from those of what follows. */
static void settle(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
}

/* ---- writing and reading ------------------------------------------------ */

static void roundtrip_sizes(void **state)
{
    static const size_t sizes[] = {
        0, 1, BLOB_CHUNK - 1, BLOB_CHUNK, BLOB_CHUNK + 1, 20u << 20,
        /* From here on the first of it leaves memory while it is written. */
        (32u << 20) - 1, 32u << 20, (32u << 20) + 1, (57u << 20) + 17};
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        char *bytes cleanup(mem_free) = xmalloc(sizes[i] + 1);
        char sha[BLOB_NAME], hex[HASH_HEX];
        unsigned char hash[HASH_SIZE];

        fill(bytes, sizes[i], (unsigned)i);
        hash_sha256(bytes, sizes[i], hash);
        put(f, bytes, sizes[i], sha);
        assert_string_equal(sha, ids_hex(hash, sizeof(hash), hex));
        holds(f, sha, bytes, sizes[i]);
        reopen(f); /* nothing remembered: hashed */
        holds(f, sha, bytes, sizes[i]);
    }
    assert_int_equal(entries(f, "tmp"), 0);
}

static void write_in_odd_pieces(void **state)
{
    struct fixture *f = *state;
    size_t len = 3 * BLOB_CHUNK + 17, at = 0;
    char *bytes cleanup(mem_free) = xmalloc(len);
    struct blob_writer *w cleanup(blob_abort) = NULL;
    char sha[BLOB_NAME];

    fill(bytes, len, 1);
    must(f, blob_begin(f->blobs, "", &w, &f->err));
    for (size_t n = 1; at < len; n = n * 3 + 1) {
        size_t piece = MIN(n, len - at);

        must(f, blob_write(w, bytes + at, piece, &f->err));
        at += piece;
        assert_int_equal(blob_written(w), at);
        must(f, blob_write(w, bytes, 0, &f->err));
    }
    must(f, blob_finish(&w, sha, NULL, &f->err));
    assert_null(w);
    holds(f, sha, bytes, len);
}

static void modes_are_as_promised(void **state)
{
    struct fixture *f = *state;
    mode_t old = umask(0077);
    char sha[BLOB_NAME];
    struct stat st;

    put_text(f, "x", sha);
    umask(old);
    char *path cleanup(mem_free) = blob_path(f, sha);
    char *top cleanup(mem_free) = below(f, ""),
              *tmp cleanup(mem_free) = below(f, "tmp");

    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_int_equal(st.st_nlink, 1);
    assert_int_equal(stat(top, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat(tmp, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
}

static void abort_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct blob_writer *w = NULL;
    uint64_t bytes, count;

    must(f, blob_begin(f->blobs, "", &w, &f->err));
    must(f, blob_write(w, "abc", 3, &f->err));
    assert_int_equal(entries(f, "tmp"), 0); /* it may become a small one */
    must(f, blob_write(w, (char[BLOB_CHUNK]){0}, BLOB_CHUNK, &f->err));
    assert_int_equal(entries(f, "tmp"), 1);
    blob_abort(&w);
    assert_null(w);
    blob_abort(&w);
    assert_int_equal(entries(f, "tmp"), 0);
    blobs_usage(f->blobs, &bytes, &count);
    assert_int_equal(count, 0);
}

/* A file of the test's own, open for reading and writing. */
static int scratch_file(struct fixture *f)
{
    int fd = open(f->dir, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    return fd;
}

static void write_fd_takes_at_most(void **state)
{
    struct fixture *f = *state;
    size_t len = 2 * BLOB_CHUNK;
    uint64_t mosts[] = {0, 1, len - 1, len, len + 1, UINT64_MAX};
    char *bytes cleanup(mem_free) = xmalloc(len);
    int fd cleanup(fd_close) = scratch_file(f);

    fill(bytes, len, 7);
    assert_int_equal(fd_write_all(fd, bytes, len), 0);
    assert_int_equal(lseek(fd, 5, SEEK_SET), 5);
    for (size_t i = 0; i < ARRAY_SIZE(mosts); i++) {
        struct blob_writer *w cleanup(blob_abort) = NULL;
        char sha[BLOB_NAME];
        uint64_t size;

        must(f, blob_begin(f->blobs, "", &w, &f->err));
        must(f, blob_write_fd(w, fd, mosts[i], &f->err));
        must(f, blob_finish(&w, sha, &size, &f->err));
        assert_int_equal(size, MIN(mosts[i], len));
        holds(f, sha, bytes, (size_t)size);
        assert_int_equal(lseek(fd, 0, SEEK_CUR), 5);
    }
}

static void write_fd_keeps_holes(void **state)
{
    struct fixture *f = *state;
    off_t len = 64 << 20, data = 32 << 20;
    char *bytes cleanup(mem_free) = xcalloc(1, (size_t)len);
    int fd cleanup(fd_close) = scratch_file(f);
    struct blob_writer *w cleanup(blob_abort) = NULL;
    unsigned char hash[HASH_SIZE];
    char sha[BLOB_NAME], hex[HASH_HEX];
    struct stat st;

    memcpy(bytes + data, "data", 4);
    assert_int_equal(pwrite(fd, "data", 4, data), 4);
    assert_int_equal(ftruncate(fd, len), 0);
    must(f, blob_begin(f->blobs, "", &w, &f->err));
    must(f, blob_write_fd(w, fd, UINT64_MAX, &f->err));
    must(f, blob_finish(&w, sha, NULL, &f->err));
    hash_sha256(bytes, (size_t)len, hash);
    assert_string_equal(sha, ids_hex(hash, sizeof(hash), hex));
    char *path cleanup(mem_free) = blob_path(f, sha);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, len);
    assert_true(st.st_blocks * 512 < 1 << 20);
    reopen(f);
    holds(f, sha, bytes, (size_t)len);
}

static void write_fd_of_an_unreadable_file(void **state)
{
    struct fixture *f = *state;
    int fd cleanup(fd_close) = open(f->dir, O_RDONLY | O_CLOEXEC);
    struct blob_writer *w cleanup(blob_abort) = NULL;
    char sha[BLOB_NAME];

    must(f, blob_begin(f->blobs, "", &w, &f->err));
    assert_int_equal(blob_write_fd(w, fd, 10, &f->err), -ERR_INTERNAL);
    /* Whoever does not look hears of it again. */
    assert_int_equal(blob_write(w, "x", 1, &f->err), -ERR_INTERNAL);
    assert_int_equal(blob_write_fd(w, fd, 10, &f->err), -ERR_INTERNAL);
    assert_int_equal(blob_finish(&w, sha, NULL, &f->err), -ERR_INTERNAL);
    assert_null(w);
    assert_int_equal(entries(f, "tmp"), 0);
}

static void names_are_checked(void **state)
{
    static const char *const bad[] = {
        "",
        "../../../../etc/passwd",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0",
        "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde/",
    };
    struct fixture *f = *state;
    int fd = -7;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_int_equal(blob_open(f->blobs, bad[i], &fd, NULL, &f->err),
                         -ERR_INVALID);
        assert_int_equal(fd, -7);
        assert_int_equal(blob_check(f->blobs, bad[i], true, 0, &f->err),
                         -ERR_INVALID);
        assert_int_equal(
            blob_link(f->blobs, "", bad[i], AT_FDCWD, "x", false, &f->err),
            -ERR_INVALID);
        assert_int_equal(blob_remove(f->blobs, bad[i], &f->err), -ERR_INVALID);
    }
}

/* ---- equal bytes -------------------------------------------------------- */

/* Calls of that kind that storing these bytes takes. */
static unsigned work_of(struct fixture *f, const char *bytes, size_t len,
                        uint32_t ops, char ret_sha[BLOB_NAME])
{
    arm(f, ops, "", EIO, UINT32_MAX);
    put(f, bytes, len, ret_sha);
    (void)disarm(f);
    return f->faults.rules[0].seen;
}

static void I8_second_copy_is_like_the_first(void **state)
{
    /* A small one is synced in the log, a large one itself and its folder. */
    static const struct {
        uint32_t op;
        unsigned small, large;
    } works[] = {{FAULTS_FSYNC, 0, 2},
                 {FAULTS_FDATASYNC, 1, 0},
                 {FAULTS_RENAME, 1, 1},
                 {FAULTS_PWRITE, 2, 1},
                 {FAULTS_CREATE, 1, 1}};
    static const size_t lens[] = {BLOB_LOG_MOST, BLOB_LOG_MOST + 1};
    struct fixture *f = *state;
    char text[BLOB_LOG_MOST + 1];
    uint64_t bytes, count;
    struct stat first, second;

    for (size_t i = 0; i < 2 * ARRAY_SIZE(works); i++) {
        unsigned expected = i % 2 ? works[i / 2].large : works[i / 2].small;
        char one[BLOB_NAME], two[BLOB_NAME];
        unsigned work;

        fill(text, sizeof(text), (unsigned)i);
        work = work_of(f, text, lens[i % 2], works[i / 2].op, one);
        char *path cleanup(mem_free) = blob_path(f, one);

        assert_int_equal(stat(path, &first), 0);
        assert_int_equal(work, expected);
        assert_int_equal(work_of(f, text, lens[i % 2], works[i / 2].op, two),
                         work);
        assert_string_equal(one, two);
        assert_int_equal(stat(path, &second), 0);
        assert_int_equal(first.st_ino, second.st_ino);
        assert_int_equal(entries(f, (char[3]){one[0], one[1], '\0'}), 1);
    }
    assert_int_equal(entries(f, "tmp"), 0);
    blobs_usage(f->blobs, &bytes, &count);
    assert_int_equal(count, 2 * ARRAY_SIZE(works));
    assert_int_equal(bytes, ARRAY_SIZE(works) * (lens[0] + lens[1]));
}

/* ---- damage ------------------------------------------------------------- */

static void corrupt(struct fixture *f, const char *sha, const char *what)
{
    int fd = -7;
    char *text cleanup(mem_free) =
        xasprintf("the stored object %.16s is %s", sha, what);

    assert_int_equal(blob_open(f->blobs, sha, &fd, NULL, &f->err),
                     -ERR_CORRUPT);
    assert_int_equal(fd, -7);
    assert_string_equal(f->err.message, text);
    assert_null(strstr(f->err.message, f->dir)); /* H5 */
    assert_int_equal(blob_check(f->blobs, sha, false, 0, &f->err),
                     -ERR_CORRUPT);
    assert_int_equal(blob_check(f->blobs, sha, true, 0, &f->err),
                     -ERR_CORRUPT);
}

static void D3_flipped_bit_is_found_and_healed(void **state)
{
    struct fixture *f = *state;
    size_t len = 300000;
    char *bytes cleanup(mem_free) = xmalloc(len);

    fill(bytes, len, 3);
    /* Right after writing, after reading, and when it is remembered. */
    for (unsigned i = 0; i < 6; i++) {
        char sha[BLOB_NAME];

        bytes[0] = (char)i;
        put(f, bytes, len, sha);
        char *path cleanup(mem_free) = blob_path(f, sha);

        if (i % 3 == 2)
            settle();
        if (i % 3 > 0) {
            holds(f, sha, bytes, len);
            assert_int_equal(is_known(f, sha) || i % 3 == 1, 1);
        }
        flip(path, i < 3 ? 0 : (off_t)len - 1);
        corrupt(f, sha, "damaged");
        corrupt(f, sha, "damaged"); /* asking does not make it right */
        put(f, bytes, len, sha);
        holds(f, sha, bytes, len);
    }
}

static void D3_other_damage_is_found_and_healed(void **state)
{
    struct fixture *f = *state;
    char sha[BLOB_NAME];

    for (unsigned i = 0; i < 4; i++) {
        put_text(f, "some bytes", sha);
        char *path cleanup(mem_free) = blob_path(f, sha);

        settle();
        holds(f, sha, "some bytes", 10);
        if (i == 0) {
            assert_int_equal(truncate(path, 9), 0);
        } else if (i == 1) {
            assert_int_equal(truncate(path, 11), 0);
        } else {
            assert_int_equal(unlink(path), 0);
            if (i == 3)
                assert_int_equal(symlink("/etc/hostname", path), 0);
        }
        corrupt(f, sha, i == 2 ? "missing" : "damaged");
        put_text(f, "some bytes", sha);
        holds(f, sha, "some bytes", 10);
        assert_int_equal(entries(f, "tmp"), 0);
    }
}

static void D3_what_was_hashed_is_remembered(void **state)
{
    struct fixture *f = *state;
    char small[BLOB_NAME], large[BLOB_NAME];
    size_t len = 2 << 20;
    char *bytes cleanup(mem_free) = xmalloc(len);

    fill(bytes, len, 9);
    put(f, bytes, len, large);
    assert_true(is_known(f, large)); /* never hashed a second time */
    put_text(f, "small", small);
    settle();
    assert_true(opens(f, small));
    assert_true(is_known(f, small));
    reopen(f);
    assert_false(is_known(f, small));
    must(f, blob_check(f->blobs, small, false, 0, &f->err));
    assert_true(is_known(f, small));

    /* Any change at all, and it is hashed again. */
    char *path cleanup(mem_free) = blob_path(f, small);
    settle();
    assert_int_equal(chmod(path, 0644), 0);
    assert_false(is_known(f, small));
    settle();
    assert_true(opens(f, small));
    assert_true(is_known(f, small));

    /* A day later too. */
    for (size_t i = 0; i < BLOB_VERIFIED_SETS * BLOB_VERIFIED_WAYS; i++)
        if (f->blobs->verified[i].at_ms)
            f->blobs->verified[i].at_ms -= BLOB_VERIFIED_MS;
    assert_false(is_known(f, small));
}

static void D3_D8_rot_without_a_trace_is_believed_once_found(void **state)
{
    struct fixture *f = *state;
    struct blob_name name;
    char sha[BLOB_NAME];
    struct stat st;

    put_text(f, "to rot", sha);
    must(f, blob_name_parse(sha, &name, &f->err));
    char *path cleanup(mem_free) = blob_path(f, sha);

    /* As if the disk had done it: the inode is as it was when hashed. */
    flip(path, 2);
    assert_int_equal(stat(path, &st), 0);
    blob_verified_cache_add(f->blobs, &name, &st);
    assert_true(opens(f, sha));
    assert_int_equal(blob_check(f->blobs, sha, true, 0, &f->err),
                     -ERR_CORRUPT);
    corrupt(f, sha, "damaged");
    put_text(f, "to rot", sha);
    holds(f, sha, "to rot", 6);
}

static void known_only_if_settled(void **state)
{
    struct stat past = {0}, future = {0};

    (void)state;
    (void)clock_gettime(CLOCK_REALTIME, &past.st_ctim);
    future.st_ctim = past.st_ctim;
    past.st_ctim.tv_sec--;
    future.st_ctim.tv_sec++;
    assert_true(blob_verified_cacheable(&past));
    assert_false(blob_verified_cacheable(&future));
    /* The same tick: no difference could be seen. */
    for (unsigned i = 0; i < 1000; i++) {
        struct stat now = {0};

        (void)clock_gettime(CLOCK_REALTIME_COARSE, &now.st_ctim);
        if (!blob_verified_cacheable(&now))
            return;
    }
    fail_msg("a file of this very tick counts as settled");
}

static void known_table_is_bounded(void **state)
{
    struct fixture *f = *state;
    struct stat st = {.st_size = 1};
    struct blob_name name = {.hash = {1, 2}};
    unsigned kept = 0;

    for (unsigned i = 0; i < 3 * BLOB_VERIFIED_WAYS; i++) {
        name.hash[31] = (unsigned char)i;
        blob_verified_cache_add(f->blobs, &name, &st);
        assert_true(blob_verified_cache_has(f->blobs, &name, &st));
    }
    for (unsigned i = 0; i < 3 * BLOB_VERIFIED_WAYS; i++) {
        name.hash[31] = (unsigned char)i;
        kept += blob_verified_cache_has(f->blobs, &name, &st);
    }
    assert_int_equal(kept, BLOB_VERIFIED_WAYS);
}

static void *stop_soon(void *arg)
{
    settle();
    blobs_stop(arg);
    return NULL;
}

static void D8_check_keeps_its_pace_and_stops(void **state)
{
    struct fixture *f = *state;
    size_t len = 1 << 20;
    char *bytes cleanup(mem_free) = xmalloc(len);
    uint64_t before;
    pthread_t thread;
    char sha[BLOB_NAME];

    fill(bytes, len, 4);
    put(f, bytes, len, sha);
    before = clock_mono_ms();
    must(f, blob_check(f->blobs, sha, true, 4 * len, &f->err));
    assert_true(clock_mono_ms() - before >= 240);
    assert_int_equal(pthread_create(&thread, NULL, stop_soon, f->blobs), 0);
    /* This pace would take 12 days. */
    assert_int_equal(blob_check(f->blobs, sha, true, 1, &f->err),
                     -ERR_UNAVAILABLE);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(clock_mono_ms() - before < FOREVER_MS);
    holds(f, sha, bytes, len);
}

/* ---- pins --------------------------------------------------------------- */

static void D10_pinned_is_not_removed(void **state)
{
    struct fixture *f = *state;
    char sha[BLOB_NAME];

    must(f, try_put(f, "a", 1, sha));
    must(f, try_put(f, "a", 1, sha));
    assert_int_equal(blob_remove(f->blobs, sha, &f->err), 1);
    blob_release(f->blobs, sha);
    assert_int_equal(blob_remove(f->blobs, sha, &f->err), 1);
    assert_true(opens(f, sha));
    blob_release(f->blobs, sha);
    must(f, blob_remove(f->blobs, sha, &f->err));
    corrupt(f, sha, "missing");
    must(f, blob_remove(f->blobs, sha, &f->err)); /* gone is gone */
}

struct race {
    struct fixture *f;
    atomic_uint lost, removed, done;
    atomic_bool stop;
};

static const char *const race_texts[] = {"one", "two", "three"};

#define RACE_LEAST 60u    /* rounds of each writer */
#define RACE_MOST 100000u /* until something was removed under it */

static void *race_write(void *arg)
{
    struct race *race = arg;

    for (unsigned i = 0; i < RACE_LEAST || (i < RACE_MOST && !race->removed);
         i++) {
        const char *text = race_texts[i % ARRAY_SIZE(race_texts)];
        struct blob_writer *w = NULL;
        struct error err;
        char sha[BLOB_NAME];
        int fd cleanup(fd_close) = -1;

        if (blob_begin(race->f->blobs, "", &w, &err) < 0 ||
            blob_write(w, text, strlen(text), &err) < 0 ||
            blob_finish(&w, sha, NULL, &err) < 0 ||
            blob_open(race->f->blobs, sha, &fd, NULL, &err) < 0)
            atomic_fetch_add(&race->lost, 1);
        else
            blob_release(race->f->blobs, sha);
        blob_abort(&w);
        atomic_fetch_add(&race->done, 1);
    }
    return NULL;
}

static void *race_remove(void *arg)
{
    struct race *race = arg;

    for (unsigned i = 0; !atomic_load(&race->stop); i++) {
        const char *text = race_texts[i % ARRAY_SIZE(race_texts)];
        unsigned char hash[HASH_SIZE];
        char hex[HASH_HEX];
        struct error err;

        hash_sha256(text, strlen(text), hash);
        if (blob_remove(race->f->blobs, ids_hex(hash, sizeof(hash), hex),
                        &err) == 0)
            atomic_fetch_add(&race->removed, 1);
    }
    return NULL;
}

static void D2_D10_collector_against_writers(void **state)
{
    struct race race = {.f = *state};
    pthread_t threads[6];
    uint64_t bytes, count;

    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL,
                                        i < 4 ? race_write : race_remove,
                                        &race),
                         0);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
        atomic_store(&race.stop, i >= 4);
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_true(race.done >= 4 * RACE_LEAST);
    assert_int_equal(race.lost, 0);
    assert_true(race.removed > 0);
    assert_int_equal(entries(race.f, "tmp"), 0);
    blobs_usage(race.f->blobs, &bytes, &count);
    assert_true(count <= ARRAY_SIZE(race_texts));
}

/* ---- a failing disk ----------------------------------------------------- */

static void refused(struct fixture *f, int r)
{
    assert_int_equal(r, -ERR_UNAVAILABLE);
    assert_non_null(strstr(f->err.message, "nothing more is stored"));
}

static void D4_failed_sync_is_final(void **state)
{
    static const struct {
        uint32_t op;
        const char *path;
        int errnum;
        unsigned nth;
        size_t len;
    } faults[] = {{FAULTS_FSYNC, "/tmp/", EIO, 1, BLOB_LOG_MOST + 1},
                  {FAULTS_FSYNC, "/tmp/", ENOSPC, 1, BLOB_LOG_MOST + 1},
                  /* the second: of the folder */
                  {FAULTS_FSYNC, "/blobs/", EIO, 2, BLOB_LOG_MOST + 1},
                  {FAULTS_FSYNC, "/blobs/", EDQUOT, 2, BLOB_LOG_MOST + 1},
                  {FAULTS_FDATASYNC, "/log.", EIO, 1, BLOB_LOG_MOST},
                  {FAULTS_FDATASYNC, "/log.", ENOSPC, 1, 0}};
    struct fixture *f = *state;
    char lost[BLOB_LOG_MOST + 1] = "lost";
    char old[BLOB_NAME], sha[BLOB_NAME];
    int dir cleanup(fd_close) = open(f->dir, O_PATH | O_CLOEXEC);

    put_text(f, "before", old);
    for (unsigned i = 0; i < ARRAY_SIZE(faults); i++) {
        struct blob_writer *w cleanup(blob_abort) = NULL;
        struct blob_writer *ready cleanup(blob_abort) = NULL;
        char name[2] = {(char)('a' + i), '\0'};

        must(f, blob_begin(f->blobs, "", &w, &f->err));
        must(f, blob_begin(f->blobs, "", &ready, &f->err));
        assert_true(blobs_writable(f->blobs));
        arm(f, faults[i].op, faults[i].path, faults[i].errnum, faults[i].nth);
        refused(f, try_put(f, lost, faults[i].len, sha));
        assert_int_equal(disarm(f), 1);
        assert_int_equal(f->err.errnum, faults[i].errnum);

        /* The disk works again, but nobody believes it. */
        assert_false(blobs_writable(f->blobs));
        refused(f, blob_finish(&ready, sha, NULL, &f->err));
        refused(f, blob_write(w, "x", 1, &f->err));
        refused(f, blob_finish(&w, sha, NULL, &f->err));
        refused(f, blob_begin(f->blobs, "", &w, &f->err));
        refused(f, blob_remove(f->blobs, old, &f->err));
        holds(f, old, "before", 6);
        must(f, blob_link(f->blobs, "", old, dir, name, false, &f->err));
        assert_int_equal(entries(f, "tmp"), 0);

        reopen(f);
        put(f, lost, faults[i].len, sha);
        holds(f, sha, lost, faults[i].len);
        must(f, blob_remove(f->blobs, sha, &f->err));
    }
}

static void each_call_fails_once(struct fixture *f, size_t len)
{
    static const int errnums[] = {EIO, ENOSPC};
    static const uint32_t every =
        FAULTS_PWRITE | FAULTS_FSYNC | FAULTS_FDATASYNC | FAULTS_RENAME |
        FAULTS_UNLINK | FAULTS_FTRUNCATE | FAULTS_CREATE;
    char text[BLOB_CHUNK * 2 + 1], sha[BLOB_NAME], before[BLOB_NAME];
    unsigned failed = 0;

    /* A new blob, a second copy, and one that heals. */
    for (unsigned kind = 0; kind < 3; kind++)
        for (unsigned n = 1;; n++) {
            int errnum = errnums[n % 2], r;

            /* Every other time with the other error. */
            fill(text, len, 100 * kind + n / 2);
            if (kind > 0) {
                put(f, text, len, before);
                char *path cleanup(mem_free) = blob_path(f, before);
                if (kind == 2)
                    flip(path, 7);
            }
            arm(f, every, "/blobs", errnum, (n + 1) / 2);
            r = try_put(f, text, len, sha);
            if (!disarm(f)) {
                must(f, r);
                blob_release(f->blobs, sha);
                break;
            }
            if (r == 0) { /* one that may be ignored: all is there */
                holds(f, sha, text, len);
                blob_release(f->blobs, sha);
            } else if (!blobs_writable(f->blobs)) {
                refused(f, r);
                reopen(f);
            } else {
                assert_int_equal(r,
                                 errnum == EIO ? -ERR_INTERNAL : -ERR_SPACE);
            }
            failed += r < 0;
            /* Usable, nothing half-made in the way. */
            assert_int_equal(entries(f, "tmp"), 0);
            put(f, text, len, sha);
            holds(f, sha, text, len);
        }
    /* Create, write, sync, rename, sync again; or write to the log, sync. */
    assert_true(failed >= 2 * 3 * (len > BLOB_LOG_MOST ? 5u : 2u));
}

static void D5_each_call_fails_once(void **state)
{
    each_call_fails_once(*state, BLOB_CHUNK * 2 + 1);
}

static void D5_each_call_fails_once_for_a_small_one(void **state)
{
    each_call_fails_once(*state, 1000);
}

static void D5_full_disk_says_so(void **state)
{
    struct fixture *f = *state;
    struct blob_writer *w cleanup(blob_abort) = NULL;
    char text[3 * BLOB_CHUNK] = {0}, sha[BLOB_NAME];

    must(f, blob_begin(f->blobs, "", &w, &f->err));
    arm(f, FAULTS_PWRITE, "/tmp/", ENOSPC, 2);
    assert_int_equal(blob_write(w, text, sizeof(text), &f->err), -ERR_SPACE);
    assert_int_equal(disarm(f), 1);
    assert_string_equal(f->err.message, "the service's disk is full");
    assert_int_equal(blob_write(w, text, 1, &f->err), -ERR_SPACE);
    memset(&f->err, 0, sizeof(f->err));
    assert_int_equal(blob_finish(&w, sha, NULL, &f->err), -ERR_SPACE);
    assert_string_equal(f->err.message, "the service's disk is full");
    put(f, text, sizeof(text), sha);
}

static void D5_open_fails_at_each_call(void **state)
{
    struct fixture *f = *state;
    unsigned n = 1;

    blobs_close(f->blobs);
    f->blobs = NULL;
    for (;; n++) {
        char *path cleanup(mem_free) = below(f, "");
        int r;

        assert_int_equal(scratch_remove(path), 0);
        arm(f, FAULTS_MKDIR | FAULTS_FSYNC, f->dir, EIO, n);
        r = blobs_open(&(struct blobs_settings){.data_dir = f->dir}, &f->blobs,
                       &f->err);
        if (!disarm(f)) {
            must(f, r);
            break;
        }
        assert_true(r == -ERR_INTERNAL || r == -ERR_UNAVAILABLE);
        assert_null(f->blobs);
        /* What was made so far is no hindrance. */
        must(f, blobs_open(&(struct blobs_settings){.data_dir = f->dir},
                           &f->blobs, &f->err));
        blobs_close(f->blobs);
        f->blobs = NULL;
        if (n == 4) /* the folders are all alike */
            n = 258;
    }
    assert_int_equal(n, 3 + 256 + 2 + 2 + 1); /* both halves of the log */
}

/* ---- the log of small ones -----------------------------------------------
 */

/* As after a power cut: the service did not end, it just is not there any
 * more, and what was not synced is lost. */
static void lose(struct fixture *f, const char *sha, unsigned how)
{
    char *path cleanup(mem_free) = blob_path(f, sha);

    if (how % 3 == 0)
        assert_int_equal(unlink(path), 0);
    else if (how % 3 == 1)
        assert_int_equal(truncate(path, 0), 0);
    else
        flip(path, 0);
}

/* While no other thread has the log: in the child there is none to let it
 * go. */
static pid_t fork_between(struct fixture *f)
{
    pid_t pid;

    mutex_lock(&f->blobs->log.lock);
    pid = fork();
    mutex_unlock(&f->blobs->log.lock);
    return pid;
}

/* Leaves f->blobs without its end, which would empty the log. */
static void crash(struct fixture *f)
{
    f->blobs->log.open = false;
    reopen(f);
}

static void D1_small_ones_come_back_from_the_log(void **state)
{
    struct fixture *f = *state;
    char sha[60][BLOB_NAME], text[2000];

    for (unsigned i = 0; i < 60; i++) {
        fill(text, sizeof(text), i);
        put(f, text, 1 + i * 30, sha[i]);
    }
    for (unsigned i = 0; i < 60; i++)
        lose(f, sha[i], i);
    crash(f);
    for (unsigned i = 0; i < 60; i++) {
        fill(text, sizeof(text), i);
        holds(f, sha[i], text, 1 + i * 30);
    }
    /* The end of this life is a clean one: nothing is replayed after it. */
    reopen(f);
    lose(f, sha[0], 0);
    crash(f);
    assert_false(opens(f, sha[0]));
}

/* A child writes on several threads and is killed; what it said is there,
 * though every file is taken away. */
struct scribe {
    struct fixture *f;
    unsigned from;
    int said;
};

static void *scribble(void *arg)
{
    struct scribe *s = arg;
    char text[600];

    for (unsigned i = s->from; i < s->from + 100000; i++) {
        char sha[BLOB_NAME];

        (void)snprintf(text, sizeof(text), "%0500u", i);
        if (try_put(s->f, text, 500, sha) < 0)
            break;
        blob_release(s->f->blobs, sha);
        if (write(s->said, &i, sizeof(i)) != sizeof(i))
            break;
    }
    return NULL;
}

static void D1_log_of_a_killed_writer(void **state)
{
    static unsigned said[8192];
    struct fixture *f = *state;
    size_t count = 0;
    int pipes[2];
    pid_t pid;

    assert_int_equal(fd_pipe(pipes), 0);
    pid = fork_between(f);
    if (pid == 0) {
        struct scribe scribes[4];
        pthread_t threads[4];

        close(pipes[0]);
        for (unsigned k = 0; k < 4; k++) {
            scribes[k] = (struct scribe){f, k * 1000000, pipes[1]};
            (void)pthread_create(&threads[k], NULL, scribble, &scribes[k]);
        }
        for (;;)
            pause();
    }
    close(pipes[1]);
    f->blobs->log.open = false; /* it is the child's now */
    /* After the kill, what is still in the pipe; fewer than go round. */
    while (count < ARRAY_SIZE(said) &&
           read(pipes[0], &said[count], sizeof(said[0])) == sizeof(said[0]))
        if (++count == 2000)
            kill(pid, SIGKILL);
    close(pipes[0]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_in_range(count, 2000, ARRAY_SIZE(said) - 1);
    for (unsigned k = 0; k < BLOB_FOLDERS; k++) {
        char folder[3] = {"0123456789abcdef"[k >> 4],
                          "0123456789abcdef"[k & 15], '\0'};
        char *dir cleanup(mem_free) = below(f, folder);

        assert_int_equal(scratch_remove(dir), 0);
    }
    reopen(f);
    for (size_t k = 0; k < count; k++) {
        unsigned char hash[HASH_SIZE];
        struct blob_name name;
        char text[600];

        (void)snprintf(text, sizeof(text), "%0500u", said[k]);
        hash_sha256(text, 500, hash);
        blob_name_of(hash, &name);
        holds(f, blob_name_hex(&name), text, 500);
    }
}

static void log_goes_round(void **state)
{
    struct fixture *f = *state;
    static char text[BLOB_LOG_MOST];
    char first[BLOB_NAME], last[BLOB_NAME] = "";
    uint64_t turn = f->blobs->log.turn;
    unsigned n = 0;

    put_text(f, "the first", first);
    /* Both halves are begun again. */
    for (; f->blobs->log.turn < turn + 3; n++) {
        assert_true(n < 2000);
        fill(text, sizeof(text), n);
        put(f, text, sizeof(text), last);
    }
    holds(f, first, "the first", 9);
    lose(f, last, 0);
    crash(f);
    fill(text, sizeof(text), n - 1);
    holds(f, last, text, sizeof(text));
    holds(f, first, "the first", 9);
}

/* Is the text anywhere in the log? */
static bool logged(struct fixture *f, const char *text)
{
    static const char *const halves[] = {"log.0", "log.1"};
    bool found = false;

    for (size_t i = 0; i < ARRAY_SIZE(halves); i++) {
        char *path cleanup(mem_free) = below(f, halves[i]);
        char *bytes cleanup(mem_free) = NULL;
        size_t len;

        assert_int_equal(
            fd_read_file(AT_FDCWD, path, BLOB_LOG_HALF, &bytes, &len), 0);
        found |= memmem(bytes, len, text, strlen(text)) != NULL;
    }
    return found;
}

static void D10_removed_is_gone_from_the_log(void **state)
{
    struct fixture *f = *state;
    char sha[BLOB_NAME], kept[BLOB_NAME];

    put_text(f, "to be forgotten", sha);
    put_text(f, "to be kept", kept);
    assert_true(logged(f, "to be forgotten"));
    must(f, blob_remove(f->blobs, sha, &f->err));
    must(f, blob_log_scrub(f->blobs, &f->err));
    assert_false(logged(f, "to be forgotten"));
    put_text(f, "after that", sha);
    assert_true(logged(f, "after that"));
    lose(f, sha, 0);
    crash(f);
    holds(f, sha, "after that", 10);
    holds(f, kept, "to be kept", 10);
}

static void *forget_now_and_then(void *arg)
{
    struct fixture *f = arg;
    struct error err;

    for (unsigned i = 0; i < 20; i++)
        if (blob_log_scrub(f->blobs, &err) < 0)
            return &f->err;
    return NULL;
}

static void log_is_wiped_while_others_write(void **state)
{
    struct fixture *f = *state;
    char sha[300][BLOB_NAME], text[40];
    pthread_t thread;
    void *failed;

    assert_int_equal(pthread_create(&thread, NULL, forget_now_and_then, f), 0);
    for (unsigned i = 0; i < 300; i++) {
        (void)snprintf(text, sizeof(text), "written meanwhile %u", i);
        put_text(f, text, sha[i]);
    }
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    crash(f);
    for (unsigned i = 0; i < 300; i++) {
        (void)snprintf(text, sizeof(text), "written meanwhile %u", i);
        holds(f, sha[i], text, strlen(text));
    }
}

static void log_ends_where_a_write_was_cut(void **state)
{
    struct fixture *f = *state;
    char one[BLOB_NAME], two[BLOB_NAME], three[BLOB_NAME];
    char *path cleanup(mem_free) = below(f, "log.0");
    char text[3000];
    int fd;

    fill(text, sizeof(text), 5);
    put(f, text, 1000, one);
    put(f, text, 2000, two);
    put(f, text, 3000, three);
    /* A bit of the second one's bytes. */
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "x", 1, 1000 + 2 * 80 + 500), 1);
    close(fd);
    lose(f, one, 0);
    lose(f, two, 0);
    crash(f);
    holds(f, one, text, 1000);
    assert_false(opens(f, two)); /* its record says so of itself */
    holds(f, three, text, 3000); /* was never lost */
    put(f, text, 2000, two);
    crash(f);
    holds(f, two, text, 2000);
}

/* ---- in the log, and not in their places yet ----------------------------
 */

static bool is_placed(struct fixture *f, const char *sha)
{
    char *path cleanup(mem_free) = blob_path(f, sha);
    struct stat st;

    return stat(path, &st) == 0;
}

static int count_one(void *ctx, const struct blob_info *i)
{
    (void)i;
    ++*(unsigned *)ctx;
    return 0;
}

static void pending_is_as_good_as_placed(void **state)
{
    struct fixture *f = *state;
    int dir cleanup(fd_close) = open(f->dir, O_PATH | O_CLOEXEC);
    char one[BLOB_NAME], two[BLOB_NAME], none[BLOB_NAME];
    uint64_t bytes, count;
    unsigned listed = 0;

    put_logged(f, "of the log", 10, one);
    put_logged(f, "of the log", 10, one);
    put_logged(f, "another", 7, two);
    put_logged(f, "", 0, none);
    assert_false(is_placed(f, one));
    holds(f, one, "of the log", 10);
    holds(f, none, "", 0);
    must(f, blob_check(f->blobs, one, false, 0, &f->err));
    blobs_usage(f->blobs, &bytes, &count);
    assert_int_equal(count, 3);
    assert_int_equal(bytes, 17);
    assert_false(is_placed(f, none));
    must(f, blob_check(f->blobs, none, true, 0, &f->err));
    assert_true(is_placed(f, none)); /* the disk's is asked for */
    assert_false(is_placed(f, one));

    /* A link is one to a file. */
    must(f, blob_link(f->blobs, "", two, dir, "linked", false, &f->err));
    assert_true(is_placed(f, two));
    assert_false(is_placed(f, one));
    holds(f, two, "another", 7);
    must(f, blob_iterate(f->blobs, count_one, &listed, &f->err));
    assert_int_equal(listed, 3);
    assert_true(is_placed(f, one));
    blobs_usage(f->blobs, &bytes, &count);
    assert_int_equal(count, 3);
    assert_int_equal(bytes, 17);
    assert_int_equal(entries(f, "tmp"), 0);
}

static void D3_pending_is_hashed_when_read(void **state)
{
    struct fixture *f = *state;
    char *path cleanup(mem_free) = below(f, "log.0");
    char sha[BLOB_NAME];

    put_logged(f, "right or not at all", 19, sha);
    flip(path, sizeof(struct blob_record) + 3);
    assert_false(opens(f, sha));
    assert_int_equal(f->err.code, ERR_CORRUPT);
    /* Neither is it put in its place, nor in the way of others. */
    must(f, blob_pending_all(f->blobs, &f->err));
    assert_false(is_placed(f, sha));
    assert_false(opens(f, sha));
    put(f, "right or not at all", 19, sha);
    holds(f, sha, "right or not at all", 19);
}

static void D10_pending_is_removed(void **state)
{
    struct fixture *f = *state;
    char sha[BLOB_NAME], kept[BLOB_NAME];

    put_logged(f, "never a file", 12, sha);
    put_logged(f, "to be kept", 10, kept);
    must(f, blob_pin(f->blobs, sha, &f->err));
    assert_int_equal(blob_remove(f->blobs, sha, &f->err), 1);
    blob_release(f->blobs, sha);
    must(f, blob_remove(f->blobs, sha, &f->err));
    assert_false(opens(f, sha));
    must(f, blob_log_scrub(f->blobs, &f->err));
    assert_false(is_placed(f, sha));
    assert_false(logged(f, "never a file"));
    assert_false(logged(f, "to be kept"));
    assert_true(is_placed(f, kept));
    crash(f);
    assert_false(opens(f, sha));
    holds(f, kept, "to be kept", 10);
}

static void D1_killed_before_placing(void **state)
{
    struct fixture *f = *state;
    char sha[50][BLOB_NAME], text[700];

    for (unsigned i = 0; i < 50; i++) {
        fill(text, sizeof(text), i);
        put_logged(f, text, 1 + i * 13, sha[i]);
    }
    /* Twice: the second life is no longer than the first one. */
    for (unsigned life = 0; life < 2; life++) {
        crash(f);
        for (unsigned i = 0; i < 50; i++) {
            fill(text, sizeof(text), i);
            holds(f, sha[i], text, 1 + i * 13);
        }
        put_logged(f, "of this life", 12 - life, sha[49 - life]);
        fill(text, sizeof(text), 49 - life);
        put_logged(f, text, 1 + (49 - life) * 13, sha[49 - life]);
    }
    reopen(f); /* a clean end */
    for (unsigned i = 0; i < 50; i++) {
        fill(text, sizeof(text), i);
        assert_true(is_placed(f, sha[i]));
        holds(f, sha[i], text, 1 + i * 13);
    }
}

static void D5_placing_fails_at_each_call(void **state)
{
    static const uint32_t ops[] = {FAULTS_CREATE, FAULTS_PWRITE,
                                   FAULTS_RENAME};
    static const int errnums[] = {EIO, ENOSPC};
    struct fixture *f = *state;
    int dir cleanup(fd_close) = open(f->dir, O_PATH | O_CLOEXEC);

    for (unsigned i = 0; i < 2 * ARRAY_SIZE(ops); i++) {
        int errnum = errnums[i % 2], wrong;
        char text[40], sha[BLOB_NAME], name[2] = {(char)('a' + i), '\0'};
        unsigned listed = 0;

        wrong = errnum == EIO ? -ERR_INTERNAL : -ERR_SPACE;
        (void)snprintf(text, sizeof(text), "does not get there %u", i);
        put_logged(f, text, strlen(text), sha);
        arm(f, ops[i / 2], "/tmp/", errnum, 1);
        f->faults.rules[0].forever = 1;
        assert_int_equal(blob_pending_all(f->blobs, &f->err), wrong);
        assert_int_equal(
            blob_link(f->blobs, "", sha, dir, name, false, &f->err), wrong);
        /* It is not lost, others can be listed, and nothing is left over. */
        holds(f, sha, text, strlen(text));
        must(f, blob_iterate(f->blobs, count_one, &listed, &f->err));
        assert_int_equal(listed, i);
        assert_true(blobs_writable(f->blobs));
        assert_int_equal(entries(f, "tmp"), 0);
        assert_true(disarm(f) >= 2);

        must(f, blob_link(f->blobs, "", sha, dir, name, false, &f->err));
        assert_true(is_placed(f, sha));
        holds(f, sha, text, strlen(text));
    }
}

static void D5_full_log_that_cannot_be_emptied(void **state)
{
    static char text[BLOB_LOG_MOST];
    static char sha[3 * BLOB_LOG_HALF / BLOB_LOG_MOST][BLOB_NAME];
    struct fixture *f = *state;
    unsigned n = 0;
    int r = 0;

    arm(f, FAULTS_CREATE, "/tmp/", ENOSPC, 1);
    f->faults.rules[0].forever = 1;
    for (; r == 0 && n < ARRAY_SIZE(sha); n++) {
        fill(text, sizeof(text), n);
        r = try_put(f, text, sizeof(text), sha[n]);
        if (r == 0)
            blob_release(f->blobs, sha[n]);
    }
    /* Both halves, and not one more. */
    assert_int_equal(r, -ERR_SPACE);
    assert_string_equal(f->err.message, "the service's disk is full");
    assert_int_equal(--n, BLOB_LOG_HALF / (BLOB_LOG_MOST + 80) * 2);
    assert_int_equal(try_put(f, text, 1, sha[n]), 0); /* fits behind */
    blob_release(f->blobs, sha[n]);
    assert_int_equal(try_put(f, text, sizeof(text), sha[n]), -ERR_SPACE);
    for (unsigned i = 0; i < n; i++) {
        fill(text, sizeof(text), i);
        holds(f, sha[i], text, sizeof(text));
    }
    (void)disarm(f);
    fill(text, sizeof(text), n);
    put(f, text, sizeof(text), sha[n]);
    crash(f);
    for (unsigned i = 0; i <= n; i++) {
        fill(text, sizeof(text), i);
        holds(f, sha[i], text, sizeof(text));
    }
}

/* ---- durable with the transaction that refers to them -------------------
 */

static void put_soon(struct fixture *f, const char *text, char sha[BLOB_NAME])
{
    struct blob_writer *w cleanup(blob_abort) = NULL;

    must(f, blob_begin(f->blobs, "", &w, &f->err));
    must(f, blob_write(w, text, strlen(text), &f->err));
    must(f, blob_finish_soon(&w, sha, NULL, &f->err));
}

static void D1_soon_is_durable_after_a_sync(void **state)
{
    struct fixture *f = *state;
    char one[BLOB_NAME], two[BLOB_NAME];

    must(f, blobs_sync(f->blobs, &f->err)); /* of nothing */
    arm(f, FAULTS_FDATASYNC, "/log.", EIO, UINT32_MAX);
    put_soon(f, "the first", one);
    put_soon(f, "the second", two);
    assert_false(logged(f, "the first"));
    must(f, blobs_sync(f->blobs, &f->err));
    (void)disarm(f);
    assert_int_equal(f->faults.rules[0].seen, 1);
    assert_true(logged(f, "the first"));
    holds(f, one, "the first", 9);
    crash(f);
    holds(f, one, "the first", 9);
    holds(f, two, "the second", 10);

    /* It goes out with whoever waits for another, too, and with the end. */
    put_soon(f, "the third", one);
    put_logged(f, "the fourth", 10, two);
    holds(f, one, "the third", 9);
    put_soon(f, "the fifth", one);
    must(f, blob_log_scrub(f->blobs, &f->err));
    assert_true(is_placed(f, one));
    put_soon(f, "the sixth", one);
    reopen(f);
    holds(f, one, "the sixth", 9);
}

static void D2_D5_soon_and_lost_is_told(void **state)
{
    static const int errnums[] = {EIO, ENOSPC};
    struct fixture *f = *state;

    for (unsigned i = 0; i < 4; i++) {
        char lost[BLOB_NAME], other[BLOB_NAME];
        int wrong = i % 2 ? -ERR_SPACE : -ERR_INTERNAL;

        put_soon(f, "does not get there", lost);
        arm(f, FAULTS_PWRITE, "/log.", errnums[i % 2], 1);
        if (i < 2) /* by who commits, or by another writer */
            assert_int_equal(blobs_sync(f->blobs, &f->err), wrong);
        else
            assert_int_equal(try_put(f, "other", 5, other), wrong);
        assert_int_equal(disarm(f), 1);
        assert_false(opens(f, lost));
        /* Nobody may refer to it, and who might is not known. */
        assert_int_equal(blobs_sync(f->blobs, &f->err), -ERR_INTERNAL);
        blob_release(f->blobs, lost);
        must(f, blobs_sync(f->blobs, &f->err));
        put_soon(f, "does not get there", lost);
        must(f, blobs_sync(f->blobs, &f->err));
        holds(f, lost, "does not get there", 18);
        blob_release(f->blobs, lost);
        must(f, blob_remove(f->blobs, lost, &f->err));
    }
}

static void D4_failed_sync_of_what_is_soon(void **state)
{
    struct fixture *f = *state;
    char sha[BLOB_NAME];

    put_soon(f, "does not get there", sha);
    arm(f, FAULTS_FDATASYNC, "/log.", EIO, 1);
    refused(f, blobs_sync(f->blobs, &f->err));
    assert_int_equal(disarm(f), 1);
    refused(f, blobs_sync(f->blobs, &f->err));
    assert_false(blobs_writable(f->blobs));
    blob_release(f->blobs, sha);
    reopen(f);
    put_text(f, "does not get there", sha);
}

/* ---- durable elsewhere ---------------------------------------------------
 */

/* As a power cut leaves it that kept all of the log from the disk. */
static void cut(struct fixture *f)
{
    f->blobs->log.open = false;
    blobs_close(f->blobs);
    f->blobs = NULL;
    for (unsigned i = 0; i < 2; i++) {
        char *path cleanup(mem_free) = below(f, i ? "log.1" : "log.0");

        assert_int_equal(truncate(path, 0), 0);
    }
    must(f, open_blobs(f));
}

/* How often the log was synced since arm. */
static unsigned synced(struct fixture *f)
{
    return f->faults.rules[0].seen;
}

static void D1_written_is_durable_where_it_is_kept(void **state)
{
    struct fixture *f = *state;
    struct buf kept cleanup(buf_done) = {0}, none cleanup(buf_done) = {0};
    char one[BLOB_NAME], two[BLOB_NAME], other[BLOB_NAME];

    arm(f, FAULTS_FDATASYNC, "/log.", EIO, UINT32_MAX);
    put_soon(f, "the first", one);
    put_soon(f, "the second", two);
    must(f, blobs_write(f->blobs, &kept, &f->err));
    assert_int_equal(synced(f), 0);
    assert_true(kept.len > 19);
    holds(f, one, "the first", 9);
    must(f, blobs_write(f->blobs, &none, &f->err)); /* of nothing */
    assert_int_equal(none.len, 0);
    (void)disarm(f);

    cut(f);
    assert_false(opens(f, one));
    must(f, blobs_redo(f->blobs, kept.data, kept.len, &f->err));
    holds(f, one, "the first", 9);
    holds(f, two, "the second", 10);
    crash(f); /* it is durable in the log by then */
    holds(f, two, "the second", 10);

    /* What is there is left alone, in the log or as a file. */
    put_text(f, "another", other);
    arm(f, FAULTS_PWRITE, "/log.", EIO, UINT32_MAX);
    must(f, blobs_redo(f->blobs, kept.data, kept.len, &f->err));
    must(f, blob_pending_all(f->blobs, &f->err));
    must(f, blobs_redo(f->blobs, kept.data, kept.len, &f->err));
    assert_int_equal(synced(f), 0);
    (void)disarm(f);
}

static void redo_of_damaged_records_stores_what_is_whole(void **state)
{
    struct fixture *f = *state;
    struct buf kept cleanup(buf_done) = {0};
    char one[BLOB_NAME], two[BLOB_NAME];

    put_soon(f, "the first", one);
    put_soon(f, "the second", two);
    must(f, blobs_write(f->blobs, &kept, &f->err));
    cut(f);
    must(f, blobs_redo(f->blobs, kept.data, 0, &f->err));
    must(f, blobs_redo(f->blobs, kept.data, 40, &f->err));
    assert_false(opens(f, one));
    kept.data[kept.len - 1] ^= 1;
    must(f, blobs_redo(f->blobs, kept.data, kept.len, &f->err));
    holds(f, one, "the first", 9);
    assert_false(opens(f, two));
}

static void D1_written_is_synced_when_it_is_much_or_awaited(void **state)
{
    /* Two of them: as much as is given back, and one byte more. */
    static const size_t sizes[] = {
        BLOBS_WRITE_MOST / 2 - sizeof(struct blob_record),
        BLOBS_WRITE_MOST / 2 - sizeof(struct blob_record) + 1};
    struct fixture *f = *state;
    struct buf kept cleanup(buf_done) = {0};
    char sha[BLOB_NAME];

    _Static_assert(BLOBS_WRITE_MOST / 2 <= BLOB_LOG_MOST, "small ones");
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        char *text cleanup(mem_free) = xcalloc(1, sizes[i] + 1);

        memset(text, 'a' + (int)i, sizes[i]);
        arm(f, FAULTS_FDATASYNC, "/log.", EIO, UINT32_MAX);
        put_soon(f, text, sha);
        text[0] = 'x';
        put_soon(f, text, sha);
        must(f, blobs_write(f->blobs, &kept, &f->err));
        assert_int_equal(kept.len, i == 0 ? BLOBS_WRITE_MOST : 0);
        assert_int_equal(synced(f), i);
        buf_done(&kept);
        must(f, blobs_sync(f->blobs, &f->err));
        must(f, blobs_sync(f->blobs, &f->err)); /* once is enough */
        assert_int_equal(synced(f), 1);
        (void)disarm(f);
    }

    arm(f, FAULTS_FDATASYNC, "/log.", EIO, UINT32_MAX);
    put_soon(f, "goes out with the next", sha);
    put_logged(f, "waits", 5, sha);
    must(f, blobs_write(f->blobs, &kept, &f->err));
    assert_int_equal(kept.len, 0);
    assert_int_equal(synced(f), 1);
    (void)disarm(f);
}

/* Whoever kept records until a sync need not know of the log's halves. */
static void D1_full_half_is_synced_before_the_other_is_begun(void **state)
{
    struct fixture *f = *state;
    char text[BLOB_LOG_MOST + 1], sha[BLOB_NAME];
    unsigned half = f->blobs->log.half;

    memset(text, 'x', sizeof(text));
    text[BLOB_LOG_MOST] = '\0';
    arm(f, FAULTS_FDATASYNC, half ? "/log.1" : "/log.0", EIO, UINT32_MAX);
    for (unsigned i = 0; f->blobs->log.half == half; i++) {
        struct buf kept cleanup(buf_done) = {0};

        assert_true(i < 1000);
        assert_int_equal(synced(f), 0);
        (void)snprintf(text, sizeof(text), "%06u", i);
        text[6] = 'x';
        put_soon(f, text, sha);
        must(f, blobs_write(f->blobs, &kept, &f->err));
        assert_true(kept.len > 0);
    }
    assert_int_equal(synced(f), 1);
    (void)disarm(f);
}

static void D2_D4_failures_of_what_is_only_written(void **state)
{
    struct fixture *f = *state;
    struct buf kept cleanup(buf_done) = {0};
    char sha[BLOB_NAME];

    put_soon(f, "does not get there", sha);
    arm(f, FAULTS_PWRITE, "/log.", ENOSPC, 1);
    assert_int_equal(blobs_write(f->blobs, &kept, &f->err), -ERR_SPACE);
    assert_int_equal(disarm(f), 1);
    assert_int_equal(kept.len, 0);
    assert_int_equal(blobs_write(f->blobs, &kept, &f->err), -ERR_INTERNAL);
    blob_release(f->blobs, sha);

    put_soon(f, "gets there", sha);
    must(f, blobs_write(f->blobs, &kept, &f->err));
    arm(f, FAULTS_FDATASYNC, "/log.", EIO, 1);
    refused(f, blobs_sync(f->blobs, &f->err));
    assert_int_equal(disarm(f), 1);
    assert_false(blobs_writable(f->blobs));
    refused(f, blobs_sync(f->blobs, &f->err));
    cut(f); /* the next start has it from where it was kept */
    must(f, blobs_redo(f->blobs, kept.data, kept.len, &f->err));
    holds(f, sha, "gets there", 10);
}

static void placer_waits_for_a_quiet_moment(void **state)
{
    struct fixture *f = *state;
    char first[BLOB_NAME], second[BLOB_NAME];
    uint64_t until = clock_mono_ms() + FOREVER_MS;

    set_quiet(f, 20);
    /* It is told when something pends, also for the second time. */
    put_logged(f, "one", 3, first);
    while (!is_placed(f, first) && clock_mono_ms() < until)
        settle();
    assert_true(is_placed(f, first));
    put_logged(f, "two", 3, second);
    while (!is_placed(f, second) && clock_mono_ms() < until)
        settle();
    assert_true(is_placed(f, second));
}

/* Several write more than the log holds while nothing is placed but for that,
 * and read what they wrote. */
#define PRESSED 700u
struct press {
    struct fixture *f;
    unsigned from;
    bool lost;
};

static void *press(void *arg)
{
    struct press *p = arg;
    struct fixture own = *p->f; /* for its error */
    char *text cleanup(mem_free) = xmalloc(BLOB_LOG_MOST);

    for (unsigned i = p->from; i < p->from + PRESSED && !p->lost; i++) {
        int fd cleanup(fd_close) = -1;
        char sha[BLOB_NAME];

        fill(text, BLOB_LOG_MOST, i);
        p->lost = try_put(&own, text, BLOB_LOG_MOST, sha) < 0 ||
                  blob_open(own.blobs, sha, &fd, NULL, &own.err) < 0;
        if (!p->lost)
            blob_release(own.blobs, sha);
    }
    return NULL;
}

static void D1_log_turns_over_under_pressure(void **state)
{
    static char text[BLOB_LOG_MOST];
    struct fixture *f = *state;
    struct press presses[4];
    pthread_t threads[4];
    uint64_t turn = f->blobs->log.turn;

    for (unsigned k = 0; k < 4; k++) {
        presses[k] = (struct press){f, k * 10000, false};
        assert_int_equal(pthread_create(&threads[k], NULL, press, &presses[k]),
                         0);
    }
    for (unsigned k = 0; k < 4; k++) {
        assert_int_equal(pthread_join(threads[k], NULL), 0);
        assert_false(presses[k].lost);
    }
    assert_true(f->blobs->log.turn >= turn + 4);
    crash(f);
    for (unsigned i = 0; i < 4 * PRESSED; i++) {
        unsigned char hash[HASH_SIZE];
        struct blob_name name;

        fill(text, sizeof(text), i % 4 * 10000 + i / 4);
        hash_sha256(text, sizeof(text), hash);
        blob_name_of(hash, &name);
        holds(f, blob_name_hex(&name), text, sizeof(text));
    }
}

static void open_without_a_directory(void **state)
{
    struct fixture *f = *state;
    struct blobs *none = NULL;

    assert_int_equal(
        blobs_open(&(struct blobs_settings){.data_dir = "/nowhere/at/all"},
                   &none, &f->err),
        -ERR_INTERNAL);
    assert_null(none);
    blobs_close(none);
}

/* ---- kills -------------------------------------------------------------- */

/* Stores until it is killed; tells of each blob when it is acknowledged. */
static void store_and_tell(struct fixture *f, int pipe_fd)
{
    for (unsigned i = 0;; i++) {
        char text[5000], sha[BLOB_NAME];

        fill(text, sizeof(text), i);
        if (try_put(f, text, sizeof(text), sha) < 0 ||
            fd_write_all(pipe_fd, sha, sizeof(sha)) < 0)
            _exit(1);
        /* There is no placer thread in a child. */
        if (i % 2 && blob_pending_all(f->blobs, &f->err) < 0)
            _exit(1);
    }
}

static void D1_D2_D7_kill_while_writing(void **state)
{
    struct fixture *f = *state;
    unsigned told = 0;

    for (unsigned round = 0; round < 10; round++) {
        char text[5000], sha[BLOB_NAME];
        int ends[2], status;
        pid_t pid;

        assert_int_equal(fd_pipe(ends), 0);
        pid = fork_between(f);
        assert_true(pid >= 0);
        if (pid == 0) {
            /* Every call of the first few blobs gets its turn to be last. */
            arm(f, 0xffffu, "/blobs", 0, 40 + round);
            f->faults.rules[0].action = FAULTS_KILL + round % 2;
            store_and_tell(f, ends[1]);
        }
        fd_close(&ends[1]);
        f->blobs->log.open = false; /* it is the child's now */
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        reopen(f);
        assert_int_equal(entries(f, "tmp"), 0);
        for (unsigned i = 0;
             fd_read_all(ends[0], sha, sizeof(sha)) == (ssize_t)sizeof(sha);
             i++, told++) {
            fill(text, sizeof(text), i);
            holds(f, sha, text, sizeof(text));
        }
        fd_close(&ends[0]);
    }
    assert_true(told > 20);
}

static void D7_leftovers_go_at_open(void **state)
{
    struct fixture *f = *state;
    char *half cleanup(mem_free) = below(f, "tmp/0123456789abcdef");
    char *link cleanup(mem_free) = below(f, "tmp/0123456789abcdee");
    char sha[BLOB_NAME];

    put_text(f, "whole", sha);
    fd_close(&(int){open(half, O_CREAT | O_WRONLY, 0600)});
    assert_int_equal(symlink(f->dir, link), 0);
    assert_int_equal(entries(f, "tmp"), 2);
    reopen(f);
    assert_int_equal(entries(f, "tmp"), 0);
    holds(f, sha, "whole", 5);
}

/* ---- links -------------------------------------------------------------- */

static int link_dir(struct fixture *f)
{
    char *path cleanup(mem_free) = xasprintf("%s/tree", f->dir);
    int fd;

    assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
    fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static struct stat link_stat(int dir, const char *name)
{
    struct stat st;

    assert_int_equal(fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st;
}

static void link_is_no_copy(void **state)
{
    struct fixture *f = *state;
    int dir cleanup(fd_close) = link_dir(f);
    char sha[BLOB_NAME];
    struct stat blob, st;

    put_text(f, "linked", sha);
    char *path cleanup(mem_free) = blob_path(f, sha);

    settle();
    must(f, blob_link(f->blobs, "", sha, dir, "a", false, &f->err));
    assert_true(is_known(f, sha)); /* though its ctime moved */
    must(f, blob_link(f->blobs, "", sha, dir, "b", false, &f->err));
    assert_true(is_known(f, sha));
    assert_int_equal(stat(path, &blob), 0);
    st = link_stat(dir, "b");
    assert_int_equal(st.st_ino, blob.st_ino);
    assert_int_equal(st.st_nlink, 3);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_int_equal(blob_link(f->blobs, "", sha, dir, "b", false, &f->err),
                     -ERR_CONFLICT);
    assert_int_equal(blob_link(f->blobs, "", sha, dir, "", false, &f->err),
                     -ERR_INVALID);
    assert_int_equal(blob_link(f->blobs, "", sha, dir, "../c", false, &f->err),
                     -ERR_INVALID);
    must(f, blob_link(f->blobs, "", sha, dir, "c", false, &f->err));
    must(f, blob_unlink(f->blobs, "", sha, dir, "c", false, &f->err));
    assert_true(is_known(f, sha)); /* it moved again */
    assert_int_equal(link_stat(dir, "b").st_nlink, 3);
    assert_int_equal(blob_unlink(f->blobs, "", sha, dir, "c", false, &f->err),
                     -ERR_INTERNAL);
    must(f, blob_remove(f->blobs, sha, &f->err)); /* links are no pins */
    assert_int_equal(link_stat(dir, "a").st_nlink, 2);
}

static void executable_link_is_one_copy(void **state)
{
    struct fixture *f = *state;
    int dir cleanup(fd_close) = link_dir(f);
    struct stat plain, one, two;
    char sha[BLOB_NAME];

    put_text(f, "#!/bin/sh\n", sha);
    char *copy cleanup(mem_free) =
        xasprintf("%s/blobs/v/.x/%.2s/%s", f->dir, sha, sha);

    must(f, blob_link(f->blobs, "", sha, dir, "plain", false, &f->err));
    must(f, blob_link(f->blobs, "", sha, dir, "one", true, &f->err));
    must(f, blob_link(f->blobs, "", sha, dir, "two", true, &f->err));
    plain = link_stat(dir, "plain");
    one = link_stat(dir, "one");
    two = link_stat(dir, "two");
    assert_int_not_equal(plain.st_ino, one.st_ino);
    assert_int_equal(one.st_ino, two.st_ino);
    assert_int_equal(two.st_nlink, 3);
    assert_int_equal(plain.st_mode & 07777, 0644);
    assert_int_equal(one.st_mode & 07777, 0755);

    /* The copy is made again when it is not right. */
    flip(copy, 1);
    must(f, blob_link(f->blobs, "", sha, dir, "three", true, &f->err));
    assert_int_not_equal(link_stat(dir, "three").st_ino, one.st_ino);
    int fd cleanup(fd_close) = openat(dir, "three", O_RDONLY | O_CLOEXEC);
    same_bytes(fd, "#!/bin/sh\n", 10);
    must(f, blob_remove(f->blobs, sha, &f->err));
    assert_int_equal(access(copy, F_OK), -1);
    assert_int_equal(entries(f, "tmp"), 0);
}

static void link_copies_where_it_cannot_link(void **state)
{
    static const int errnums[] = {EMLINK, EXDEV, EPERM};
    struct fixture *f = *state;
    int dir cleanup(fd_close) = link_dir(f);
    size_t len = 200000;
    char *bytes cleanup(mem_free) = xmalloc(len);
    char sha[BLOB_NAME];

    fill(bytes, len, 5);
    put(f, bytes, len, sha);
    for (unsigned i = 0; i < 2 * ARRAY_SIZE(errnums); i++) {
        bool executable = i % 2;
        char name[2] = {(char)('a' + i), '\0'};
        struct stat st;

        arm(f, FAULTS_LINK, "/tree/", errnums[i / 2], 1);
        must(f, blob_link(f->blobs, "", sha, dir, name, executable, &f->err));
        assert_int_equal(disarm(f), 1);
        st = link_stat(dir, name);
        assert_int_equal(st.st_nlink, 1);
        assert_int_equal(st.st_mode & 07777, executable ? 0755 : 0644);
        int fd cleanup(fd_close) = openat(dir, name, O_RDONLY | O_CLOEXEC);
        same_bytes(fd, bytes, len);
    }
    /* Half a copy does not stay. */
    f->faults.rules[1] = (struct faults_rule){.armed = 1,
                                              .ops = FAULTS_PWRITE,
                                              .errnum = ENOSPC,
                                              .nth = 2,
                                              .path = "/tree/"};
    arm(f, FAULTS_LINK, "/tree/", EMLINK, 1);
    assert_int_equal(blob_link(f->blobs, "", sha, dir, "z", false, &f->err),
                     -ERR_SPACE);
    f->faults.rules[1].armed = 0;
    (void)disarm(f);
    assert_int_equal(faccessat(dir, "z", F_OK, 0), -1);
}

static void more_links_than_an_inode_has(void **state)
{
    struct fixture *f = *state;
    int dir cleanup(fd_close) = link_dir(f);
    char sha[BLOB_NAME], name[16];
    unsigned i, most = 65010; /* ext4: 65,000; others have more */

    put_text(f, "", sha); /* who has 65,000 equal files has empty ones */
    settle();
    for (i = 0; i < most; i++) {
        (void)snprintf(name, sizeof(name), "%u", i);
        if (blob_link(f->blobs, "", sha, dir, name, false, &f->err) < 0)
            fail_msg("link %u: %s", i, f->err.message);
    }
    assert_int_equal(link_stat(dir, name).st_size, 0);
    assert_int_equal(link_stat(dir, name).st_mode & 07777, 0644);
}

static void D3_damage_is_not_linked(void **state)
{
    struct fixture *f = *state;
    int dir cleanup(fd_close) = link_dir(f);
    char sha[BLOB_NAME];

    put_text(f, "to be damaged", sha);
    char *path cleanup(mem_free) = blob_path(f, sha);

    settle();
    must(f, blob_link(f->blobs, "", sha, dir, "good", false, &f->err));
    flip(path, 3);
    for (unsigned executable = 0; executable < 2; executable++) {
        assert_int_equal(
            blob_link(f->blobs, "", sha, dir, "bad", executable, &f->err),
            -ERR_CORRUPT);
        assert_int_equal(faccessat(dir, "bad", F_OK, 0), -1);
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(blob_link(f->blobs, "", sha, dir, "bad", true, &f->err),
                     -ERR_CORRUPT);
    assert_int_equal(entries(f, "tmp"), 0);
}

/* ---- going through ------------------------------------------------------ */

struct seen {
    struct fixture *f;
    unsigned count;
    uint64_t bytes;
    char last[BLOB_NAME];
    unsigned stop_at;
    bool remove;
};

static int see(void *ctx, const struct blob_info *info)
{
    struct seen *seen = ctx;
    int64_t age = clock_real_ms() - info->stored_at_ms;

    assert_true(strcmp(info->sha256, seen->last) > 0);
    assert_true(age >= -1000 && age < FOREVER_MS * 10);
    memcpy(seen->last, info->sha256, BLOB_NAME);
    seen->bytes += info->size;
    seen->count++;
    if (seen->remove)
        must(seen->f,
             blob_remove(seen->f->blobs, info->sha256, &seen->f->err));
    return seen->count == seen->stop_at ? 42 : 0;
}

static void each_goes_in_order(void **state)
{
    struct fixture *f = *state;
    struct seen all = {.f = f}, some = {.f = f, .stop_at = 7},
                gone = {.f = f, .remove = true}, none = {.f = f};
    uint64_t bytes, count;
    char sha[BLOB_NAME];

    for (unsigned i = 0; i < 40; i++)
        put(f, "0123456789012345678901234567890123456789", i, sha);
    char *odd cleanup(mem_free) = below(f, "ab/README");
    int fd cleanup(fd_close) = open(odd, O_CREAT | O_WRONLY, 0600);
    must(f, blob_iterate(f->blobs, see, &all, &f->err));
    assert_int_equal(all.count, 40);
    assert_int_equal(all.bytes, 39 * 40 / 2);
    assert_int_equal(blob_iterate(f->blobs, see, &some, &f->err), 42);
    assert_int_equal(some.count, 7);
    blobs_usage(f->blobs, &bytes, &count);
    assert_int_equal(bytes, all.bytes);
    assert_int_equal(count, all.count);
    must(f, blob_remove(f->blobs, sha, &f->err));
    blobs_usage(f->blobs, &bytes, &count);
    assert_int_equal(bytes, all.bytes - 39);
    assert_int_equal(count, all.count - 1);
    reopen(f); /* counted anew */
    blobs_usage(f->blobs, &bytes, &count);
    assert_int_equal(bytes, all.bytes - 39);
    assert_int_equal(count, all.count - 1);
    must(f, blob_iterate(f->blobs, see, &gone, &f->err));
    assert_int_equal(gone.count, 39);
    must(f, blob_iterate(f->blobs, see, &none, &f->err));
    assert_int_equal(none.count, 0);
    blobs_usage(f->blobs, &bytes, &count);
    assert_int_equal(bytes + count, 0);
    assert_int_equal(access(odd, F_OK), 0); /* not ours, not touched */
}

static void each_removes_old_strays(void **state)
{
    struct fixture *f = *state;
    struct seen none = {.f = f};
    char *young cleanup(mem_free) = below(f, "ab/" BLOB_STRAY "1");
    char *old cleanup(mem_free) = below(f, "ab/" BLOB_STRAY "2");
    struct timespec times[2] = {{.tv_sec = time(NULL) - 3700},
                                {.tv_sec = time(NULL) - 3700}};

    fd_close(&(int){open(young, O_CREAT | O_WRONLY, 0600)});
    fd_close(&(int){open(old, O_CREAT | O_WRONLY, 0600)});
    assert_int_equal(utimensat(AT_FDCWD, old, times, 0), 0);
    must(f, blob_iterate(f->blobs, see, &none, &f->err));
    assert_int_equal(none.count, 0);
    assert_int_equal(access(young, F_OK), 0);
    assert_int_equal(access(old, F_OK), -1);
}

static void put_as(struct fixture *f, const char *tenant, const char *text,
                   char domain[BLOB_OWNER], char sha[BLOB_NAME])
{
    struct blob_writer *w = NULL;

    blob_owner(tenant, domain);
    must(f, blob_begin(f->blobs, domain, &w, &f->err));
    must(f, blob_write(w, text, strlen(text), &f->err));
    must(f, blob_finish(&w, sha, NULL, &f->err));
    blob_release(f->blobs, sha);
    must(f, blob_pending_all(f->blobs, &f->err));
}

/* What a session can see of its files by stat tells of its own tenant only:
 * the same number of links, and times of its own storing. */
static void I8_two_domains_share_no_inode(void **state)
{
    static const bool modes[] = {false, true};
    struct fixture *f = *state;
    int dir cleanup(fd_close) = link_dir(f);
    char one[BLOB_OWNER], two[BLOB_OWNER], three[BLOB_OWNER];
    char sha[BLOB_NAME];

    put_as(f, "one", "the same secret", one, sha);
    settle();
    put_as(f, "two", "the same secret", two, sha);
    blob_owner("three", three); /* never stored it: a claimed workspace */
    for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
        const char *names[] = {i ? "x1" : "p1", i ? "x2" : "p2",
                               i ? "x3" : "p3"};
        struct stat a, b, c;

        must(f,
             blob_link(f->blobs, one, sha, dir, names[0], modes[i], &f->err));
        must(f,
             blob_link(f->blobs, two, sha, dir, names[1], modes[i], &f->err));
        must(f, blob_link(f->blobs, three, sha, dir, names[2], modes[i],
                          &f->err));
        a = link_stat(dir, names[0]);
        b = link_stat(dir, names[1]);
        c = link_stat(dir, names[2]);
        assert_int_not_equal(a.st_ino, b.st_ino);
        assert_int_not_equal(b.st_ino, c.st_ino);
        assert_int_equal(a.st_nlink, 2);
        assert_int_equal(b.st_nlink, 2);
        assert_int_equal(c.st_nlink, 2);
        assert_int_equal(a.st_mode & 07777, modes[i] ? 0755 : 0644);
        assert_true(b.st_mtim.tv_sec > a.st_mtim.tv_sec ||
                    b.st_mtim.tv_nsec != a.st_mtim.tv_nsec);
        must(f, blob_unlink(f->blobs, two, sha, dir, names[1], modes[i],
                            &f->err));
    }
    must(f, blob_remove(f->blobs, sha, &f->err)); /* and every copy */
    assert_int_equal(link_stat(dir, "p1").st_nlink, 1);
    assert_int_equal(link_stat(dir, "x1").st_nlink, 1);
    assert_int_equal(link_stat(dir, "p3").st_nlink, 1);
}

static void batch_is_durable_as_a_whole(void **state)
{
    struct fixture *f = *state;
    struct blob_batch *batch = blob_batch_new(f->blobs);
    char shas[300][BLOB_NAME];
    uint64_t size, bytes, count;
    struct blob_writer *w = NULL;

    for (unsigned i = 0; i < 300; i++) { /* every third is a repetition */
        char text[32];

        (void)snprintf(text, sizeof(text), "file %u", i % 200);
        must(f, blob_begin(f->blobs, "", &w, &f->err));
        must(f, blob_write(w, text, strlen(text), &f->err));
        must(f, blob_batch_add(batch, &w, shas[i], &size, &f->err));
        assert_int_equal(size, strlen(text));
    }
    assert_int_equal(blob_check(f->blobs, shas[0], false, 0, &f->err),
                     -ERR_CORRUPT); /* not before */
    must(f, blob_batch_finish(&batch, &f->err));
    assert_null(batch);
    for (unsigned i = 0; i < 300; i++) {
        must(f, blob_check(f->blobs, shas[i], true, 0, &f->err));
        assert_int_equal(blob_remove(f->blobs, shas[i], &f->err), 1);
    }
    blobs_usage(f->blobs, &bytes, &count);
    assert_int_equal(count, 200);
    for (unsigned i = 0; i < 300; i++)
        blob_release(f->blobs, shas[i]);
    /* One that comes to nothing leaves nothing. */
    batch = blob_batch_new(f->blobs);
    must(f, blob_begin(f->blobs, "", &w, &f->err));
    must(f, blob_write(w, "nothing", 7, &f->err));
    must(f, blob_batch_add(batch, &w, shas[0], &size, &f->err));
    blob_batch_abort(&batch);
    blob_release(f->blobs, shas[0]);
    assert_int_equal(blob_check(f->blobs, shas[0], false, 0, &f->err),
                     -ERR_CORRUPT);
}

static void D4_batch_with_a_failed_sync_is_final(void **state)
{
    struct fixture *f = *state;
    struct blob_batch *batch = blob_batch_new(f->blobs);
    char sha[BLOB_NAME];
    struct blob_writer *w = NULL;
    uint64_t size;

    must(f, blob_begin(f->blobs, "", &w, &f->err));
    must(f, blob_write(w, "gone", 4, &f->err));
    must(f, blob_batch_add(batch, &w, sha, &size, &f->err));
    arm(f, FAULTS_FSYNC, "/tmp", EIO, 1);
    assert_int_equal(blob_batch_finish(&batch, &f->err), -ERR_UNAVAILABLE);
    assert_int_equal(disarm(f), 1);
    assert_false(blobs_writable(f->blobs));
    assert_int_equal(blob_begin(f->blobs, "", &w, &f->err), -ERR_UNAVAILABLE);
    blob_release(f->blobs, sha);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(roundtrip_sizes),
        CASE(write_in_odd_pieces),
        CASE(modes_are_as_promised),
        CASE(abort_leaves_nothing),
        CASE(write_fd_takes_at_most),
        CASE(write_fd_keeps_holes),
        CASE(write_fd_of_an_unreadable_file),
        CASE(names_are_checked),
        CASE(I8_second_copy_is_like_the_first),
        CASE(D3_flipped_bit_is_found_and_healed),
        CASE(D3_other_damage_is_found_and_healed),
        CASE(D3_what_was_hashed_is_remembered),
        CASE(D3_D8_rot_without_a_trace_is_believed_once_found),
        CASE(known_only_if_settled),
        CASE(known_table_is_bounded),
        CASE(D8_check_keeps_its_pace_and_stops),
        CASE(D10_pinned_is_not_removed),
        CASE(D2_D10_collector_against_writers),
        CASE(D4_failed_sync_is_final),
        CASE(D5_each_call_fails_once),
        CASE(D5_each_call_fails_once_for_a_small_one),
        CASE(D1_small_ones_come_back_from_the_log),
        CASE(D1_log_of_a_killed_writer),
        CASE(log_goes_round),
        CASE(pending_is_as_good_as_placed),
        CASE(D3_pending_is_hashed_when_read),
        CASE(D10_pending_is_removed),
        CASE(D1_killed_before_placing),
        CASE(D5_placing_fails_at_each_call),
        CASE(D5_full_log_that_cannot_be_emptied),
        CASE(D1_soon_is_durable_after_a_sync),
        CASE(D2_D5_soon_and_lost_is_told),
        CASE(D4_failed_sync_of_what_is_soon),
        CASE(D1_written_is_durable_where_it_is_kept),
        CASE(redo_of_damaged_records_stores_what_is_whole),
        CASE(D1_written_is_synced_when_it_is_much_or_awaited),
        CASE(D1_full_half_is_synced_before_the_other_is_begun),
        CASE(D2_D4_failures_of_what_is_only_written),
        CASE(placer_waits_for_a_quiet_moment),
        CASE(D1_log_turns_over_under_pressure),
        CASE(D10_removed_is_gone_from_the_log),
        CASE(log_is_wiped_while_others_write),
        CASE(log_ends_where_a_write_was_cut),
        CASE(D5_full_disk_says_so),
        CASE(D5_open_fails_at_each_call),
        CASE(open_without_a_directory),
        CASE(D1_D2_D7_kill_while_writing),
        CASE(D7_leftovers_go_at_open),
        CASE(I8_two_domains_share_no_inode),
        CASE(batch_is_durable_as_a_whole),
        CASE(D4_batch_with_a_failed_sync_is_final),
        CASE(link_is_no_copy),
        CASE(executable_link_is_one_copy),
        CASE(link_copies_where_it_cannot_link),
        CASE(more_links_than_an_inode_has),
        CASE(D3_damage_is_not_linked),
        CASE(each_goes_in_order),
        CASE(each_removes_old_strays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
