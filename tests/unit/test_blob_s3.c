/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blobs in S3: what is acknowledged, the cache, buckets of tenants, stores
 * that fail, and a data directory that had its blobs on the local disk. The
 * server is tests/lib/s3-server.mjs.
 */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/ids.h"
#include "base/thread.h"
#include "blob/blob_int.h"
#include "s3_server.h"
#include "scratch.h"

#define SMALL 1000u
#define LARGE (200u << 10)
#define TENANT "acme"

static struct s3_server server;

struct fixture {
    char dir[256];
    char prefix[32];
    uint64_t cache_bytes;
    bool tenant_bucket;
    struct blobs *blobs;
    struct error err;
};

static void must(struct fixture *f, int r)
{
    if (r != 0)
        fail_msg("%d: %s", r, f->err.message);
}

static void open_blobs(struct fixture *f)
{
    static const char *const tenants[] = {TENANT};
    struct blobs_bucket buckets[2] = {{0}, {NULL, tenants, 1}};
    struct blobs_s3 s3 = {.buckets = buckets,
                          .count = f->tenant_bucket ? 2 : 1,
                          .cache_bytes = f->cache_bytes};
    struct blobs_settings settings = {.data_dir = f->dir, .s3 = &s3};

    for (size_t i = 0; i < s3.count; i++) {
        struct s3_settings at =
            s3_server_settings(&server, i ? "other" : "glovebox");

        at.prefix = f->prefix;
        must(f, s3_open(&at, &buckets[i].s3, &f->err));
    }
    must(f, blobs_open(&settings, &f->blobs, &f->err));
}

static void open_fixture(struct fixture *f)
{
    static unsigned number;

    s3_server_ask(&server, "/__calm", "{}", NULL);
    s3_server_ask(&server, "/__down", "{\"down\":false}", NULL);
    assert_non_null(scratch_dir(f->dir, sizeof(f->dir), "test_blob_s3"));
    (void)snprintf(f->prefix, sizeof(f->prefix), "s3-%u/", number++);
    if (!f->cache_bytes)
        f->cache_bytes = 64 << 20;
    open_blobs(f);
}

static void close_fixture(struct fixture *f)
{
    blobs_close(f->blobs);
    scratch_remove(f->dir);
}

static char *make_bytes(size_t len, unsigned seed)
{
    char *bytes = xmalloc(len + 1);

    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)((i + 1) * (seed + 7) * 2654435761u >> 11);
    return bytes;
}

static int store_as(struct fixture *f, const char *tenant, size_t len,
                    unsigned seed, char ret_sha[BLOB_NAME])
{
    struct blob_writer *w cleanup(blob_abort) = NULL;
    char *bytes cleanup(mem_free) = make_bytes(len, seed);
    char owner[BLOB_OWNER];
    int r;

    blob_owner(tenant, owner);
    r = blob_begin(f->blobs, owner, &w, &f->err);
    if (r == 0)
        r = blob_write(w, bytes, len, &f->err);
    if (r == 0)
        r = blob_finish(&w, ret_sha, NULL, &f->err);
    if (r == 0)
        blob_release(f->blobs, ret_sha);
    return r;
}

static int store(struct fixture *f, size_t len, unsigned seed,
                 char ret_sha[BLOB_NAME])
{
    return store_as(f, "default", len, seed, ret_sha);
}

static int reads(struct fixture *f, const char *sha, size_t len, unsigned seed)
{
    char *bytes cleanup(mem_free) = make_bytes(len, seed);
    char *found cleanup(mem_free) = xmalloc(len + 1);
    int fd cleanup(fd_close) = -1;
    uint64_t size;
    int r = blob_open(f->blobs, sha, &fd, &size, &f->err);

    if (r < 0)
        return r;
    assert_int_equal(size, len);
    assert_int_equal(fd_read_all(fd, found, len + 1), len);
    assert_memory_equal(found, bytes, len);
    return 0;
}

static char *cached_path(struct fixture *f, const char *sha)
{
    return xasprintf("%s/blobs/cache/%.2s/%s", f->dir, sha, sha);
}

static bool is_cached(struct fixture *f, const char *sha)
{
    char *path cleanup(mem_free) = cached_path(f, sha);

    return access(path, F_OK) == 0;
}

static void drop_cached(struct fixture *f, const char *sha)
{
    char *path cleanup(mem_free) = cached_path(f, sha);

    assert_int_equal(unlink(path), 0);
}

static bool server_has(struct fixture *f, const char *bucket, const char *sha)
{
    struct buf all cleanup(buf_done) = {0};
    char *name cleanup(mem_free) =
        xasprintf("\"%s%.2s/%s\"", f->prefix, sha, sha);
    const char *from, *to;

    s3_server_ask(&server, "/__objects", NULL, &all);
    from = strstr(all.data, bucket);
    to = from ? strstr(from, "]") : NULL;
    return to && memmem(from, (size_t)(to - from), name, strlen(name));
}

static void arm(const char *json)
{
    s3_server_ask(&server, "/__fault", json, NULL);
}

static unsigned count_requests(const char *what)
{
    struct buf log cleanup(buf_done) = {0};
    unsigned count = 0;

    s3_server_ask(&server, "/__log", NULL, &log);
    for (const char *at = log.data; (at = strstr(at, what)); at++)
        count++;
    return count;
}

/* ---- storing and reading ------------------------------------------------ */

static void D1_acknowledged_blobs_are_in_the_store(void **state)
{
    struct fixture f = {0};
    char small[BLOB_NAME], large[BLOB_NAME];

    (void)state;
    open_fixture(&f);
    must(&f, store(&f, SMALL, 1, small));
    must(&f, store(&f, LARGE, 2, large));
    assert_true(server_has(&f, "glovebox", small));
    assert_true(server_has(&f, "glovebox", large));
    blobs_close(f.blobs);

    /* Another machine, or a disk that was lost. */
    scratch_remove(f.dir);
    assert_non_null(scratch_dir(f.dir, sizeof(f.dir), "test_blob_s3"));
    open_blobs(&f);
    assert_false(is_cached(&f, large));
    must(&f, reads(&f, small, SMALL, 1));
    must(&f, reads(&f, large, LARGE, 2));
    assert_true(is_cached(&f, large));
    close_fixture(&f);
}

/* A put whose answer was lost, a store that has enough to do, bodies that end
 * too early: nothing of it reaches the caller. */
static void passing_failures_of_the_store_are_not_seen(void **state)
{
    static const char *const faults[] = {
        "{\"kind\":\"lost\",\"method\":\"PUT\"}",
        "{\"kind\":\"status\",\"status\":503,\"code\":\"SlowDown\"}",
        "{\"kind\":\"torn\",\"method\":\"GET\"}",
        "{\"kind\":\"wrong\",\"method\":\"GET\"}",
        "{\"kind\":\"stall\",\"method\":\"GET\"}",
    };
    struct fixture f = {0};
    char sha[BLOB_NAME];

    (void)state;
    open_fixture(&f);
    for (unsigned i = 0; i < ARRAY_SIZE(faults); i++) {
        if (i < 2)
            arm(faults[i]);
        must(&f, store(&f, LARGE, i, sha));
        drop_cached(&f, sha);
        if (i >= 2)
            arm(faults[i]);
        must(&f, reads(&f, sha, LARGE, i));
    }
    close_fixture(&f);
}

static void D3_store_that_returns_other_bytes_is_not_believed(void **state)
{
    struct fixture f = {0};
    char sha[BLOB_NAME], json[300];

    (void)state;
    open_fixture(&f);
    must(&f, store(&f, SMALL, 1, sha));
    drop_cached(&f, sha);
    (void)snprintf(json, sizeof(json),
                   "{\"bucket\":\"glovebox\",\"key\":\"%s%.2s/%s\","
                   "\"text\":\"not what it was\"}",
                   f.prefix, sha, sha);
    s3_server_ask(&server, "/__plant", json, NULL);
    assert_int_equal(reads(&f, sha, SMALL, 1), -ERR_CORRUPT);
    assert_int_equal(blob_check(f.blobs, sha, true, 0, &f.err), -ERR_CORRUPT);
    assert_false(is_cached(&f, sha));
    /* Storing the file again heals it. */
    must(&f, store(&f, SMALL, 1, sha));
    must(&f, blob_check(f.blobs, sha, true, 0, &f.err));
    close_fixture(&f);
}

static void D3_wrong_cached_byte_is_found_and_fetched_again(void **state)
{
    struct fixture f = {0};
    struct blob_remote_stats stats;
    char sha[BLOB_NAME], *path;
    int fd;

    (void)state;
    open_fixture(&f);
    must(&f, store(&f, LARGE, 1, sha));
    must(&f, reads(&f, sha, LARGE, 1));
    path = cached_path(&f, sha);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "X", 1, 1000), 1);
    (void)close(fd);
    free(path);
    must(&f, reads(&f, sha, LARGE, 1));
    assert_true(blobs_remote_stats(f.blobs, &stats));
    assert_int_equal(stats.repaired, 1);
    /* The same for a check, which also looks at the store's bytes. */
    must(&f, blob_check(f.blobs, sha, true, 0, &f.err));
    close_fixture(&f);
}

struct reader {
    struct fixture *f;
    const char *sha;
    struct error err;
    int result;
};

static void reader_main(void *arg)
{
    struct reader *r = arg;
    int fd cleanup(fd_close) = -1;

    r->result = blob_open(r->f->blobs, r->sha, &fd, NULL, &r->err);
}

static void readers_of_one_blob_share_a_fetch(void **state)
{
    struct reader readers[8];
    struct thread threads[8] = {0};
    struct fixture f = {0};
    struct error err;
    char sha[BLOB_NAME], get[128];

    (void)state;
    open_fixture(&f);
    must(&f, store(&f, LARGE, 1, sha));
    drop_cached(&f, sha);
    arm("{\"kind\":\"slow\",\"ms\":500,\"method\":\"GET\"}");
    for (unsigned i = 0; i < ARRAY_SIZE(readers); i++) {
        readers[i] = (struct reader){.f = &f, .sha = sha};
        assert_int_equal(thread_start(&threads[i], "reader", reader_main,
                                      &readers[i], &err),
                         0);
    }
    for (unsigned i = 0; i < ARRAY_SIZE(readers); i++) {
        thread_join(&threads[i]);
        assert_int_equal(readers[i].result, 0);
    }
    (void)snprintf(get, sizeof(get), "GET /glovebox/%s%.2s/%s", f.prefix, sha,
                   sha);
    assert_int_equal(count_requests(get), 1);
    close_fixture(&f);
}

/* ---- the cache ---------------------------------------------------------- */

static uint64_t cache_size(struct fixture *f)
{
    struct blob_remote_stats stats;

    assert_true(blobs_remote_stats(f->blobs, &stats));
    return stats.cache_bytes;
}

static void cache_keeps_to_its_size_and_to_what_was_used(void **state)
{
    struct fixture f = {.cache_bytes = 2 << 20};
    char first[BLOB_NAME], sha[BLOB_NAME];

    (void)state;
    open_fixture(&f);
    must(&f, store(&f, LARGE, 0, first));
    for (unsigned i = 1; i < 30; i++) {
        must(&f, store(&f, LARGE, i, sha));
        must(&f, reads(&f, first, LARGE, 0)); /* used all the time */
        assert_true(cache_size(&f) <= f.cache_bytes);
        (void)usleep(2000); /* times of use are in milliseconds */
    }
    assert_true(is_cached(&f, first));
    must(&f, store(&f, LARGE, 1, sha)); /* evicted, and stored again */
    for (unsigned i = 0; i < 30; i++) {
        char again[BLOB_NAME];

        must(&f, store(&f, LARGE, i, again));
        must(&f, reads(&f, again, LARGE, i));
    }
    assert_true(cache_size(&f) <= f.cache_bytes);
    close_fixture(&f);
}

static bool drop_links(void *ctx)
{
    char *path cleanup(mem_free) = xasprintf("%s/idle", (const char *)ctx);

    if (access(path, F_OK) < 0)
        return false;
    scratch_remove(path);
    return true;
}

/* A linked file is mounted by a session; only trees that none mounts go. */
static void mounted_files_are_not_evicted(void **state)
{
    struct fixture f = {.cache_bytes = 2 << 20};
    char sha[BLOB_NAME], name[16], owner[BLOB_OWNER];
    char linked[4][BLOB_NAME];
    int dir, idle;
    struct stat st;

    (void)state;
    open_fixture(&f);
    blob_owner("default", owner);
    dir = open(f.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(dir, "idle", 0700), 0);
    idle = openat(dir, "idle", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (unsigned i = 0; i < 4; i++) {
        must(&f, store(&f, LARGE, i, linked[i]));
        (void)snprintf(name, sizeof(name), "mounted%u", i);
        must(&f,
             blob_link(f.blobs, owner, linked[i], dir, name, false, &f.err));
    }
    for (unsigned i = 10; i < 30; i++) {
        must(&f, store(&f, LARGE, i, sha));
        if (i < 14) {
            (void)snprintf(name, sizeof(name), "idle%u", i);
            must(&f,
                 blob_link(f.blobs, owner, sha, idle, name, false, &f.err));
        }
        if (i == 20)
            blobs_on_full(f.blobs, drop_links, f.dir);
        assert_true(cache_size(&f) <= f.cache_bytes);
    }
    for (unsigned i = 0; i < 4; i++) {
        (void)snprintf(name, sizeof(name), "mounted%u", i);
        assert_true(is_cached(&f, linked[i]));
        must(&f, blob_verify_link(f.blobs, linked[i], dir, name, &st, &f.err));
        assert_true(st.st_nlink >= 2);
    }
    blobs_on_full(f.blobs, NULL, NULL);
    (void)close(idle);
    (void)close(dir);
    close_fixture(&f);
}

/* A fetched file gets the tenant that mounts it first; others get a copy. */
static void I8_fetched_files_are_shared_by_no_two_tenants(void **state)
{
    struct fixture f = {0};
    char sha[BLOB_NAME], a[BLOB_OWNER], b[BLOB_OWNER];
    struct stat one, other, again;
    int dir;

    (void)state;
    open_fixture(&f);
    blob_owner("a", a);
    blob_owner("b", b);
    dir = open(f.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(&f, store(&f, LARGE, 1, sha));
    drop_cached(&f, sha);
    must(&f, blob_link(f.blobs, a, sha, dir, "a", false, &f.err));
    must(&f, blob_link(f.blobs, b, sha, dir, "b", false, &f.err));
    assert_int_equal(fstatat(dir, "a", &one, 0), 0);
    assert_int_equal(fstatat(dir, "b", &other, 0), 0);
    assert_true(one.st_ino != other.st_ino);
    /* Tenant b stores the same bytes: tenant a sees no change of its file. */
    must(&f, store_as(&f, "b", LARGE, 1, sha));
    assert_int_equal(fstatat(dir, "a", &again, 0), 0);
    assert_int_equal(again.st_nlink, one.st_nlink);
    assert_true(again.st_ctim.tv_nsec == one.st_ctim.tv_nsec);
    (void)close(dir);
    close_fixture(&f);
}

/* ---- a store that is out of reach --------------------------------------- */

static void outage_leaves_cached_blobs_readable(void **state)
{
    struct fixture f = {0};
    char cached[BLOB_NAME], evicted[BLOB_NAME], sha[BLOB_NAME];
    struct error why;
    int r;

    (void)state;
    open_fixture(&f);
    must(&f, store(&f, LARGE, 1, cached));
    must(&f, store(&f, LARGE, 2, evicted));
    drop_cached(&f, evicted);
    s3_server_ask(&server, "/__down", "{\"down\":true}", NULL);
    assert_int_equal(store(&f, SMALL, 3, sha), -ERR_UNAVAILABLE);
    assert_true(f.err.retry_after_s > 0);
    assert_true(blobs_writable(f.blobs)); /* the disk is fine */
    assert_int_equal(blobs_ready(f.blobs, &why), -ERR_UNAVAILABLE);
    must(&f, reads(&f, cached, LARGE, 1));
    assert_int_equal(reads(&f, evicted, LARGE, 2), -ERR_UNAVAILABLE);
    assert_int_equal(blob_check(f.blobs, cached, true, 0, &f.err),
                     -ERR_UNAVAILABLE);
    assert_int_equal(blob_remove(f.blobs, cached, &f.err), -ERR_UNAVAILABLE);
    must(&f, reads(&f, cached, LARGE, 1));

    s3_server_ask(&server, "/__down", "{\"down\":false}", NULL);
    for (unsigned i = 0; i < 200; i++) { /* the tier's thread finds out */
        r = blobs_ready(f.blobs, &f.err);
        if (r == 0)
            break;
        (void)usleep(50000);
    }
    must(&f, r);
    must(&f, store(&f, SMALL, 3, sha));
    must(&f, reads(&f, evicted, LARGE, 2));
    close_fixture(&f);
}

static void wrong_keys_make_the_blobs_unready(void **state)
{
    struct fixture f = {0};
    struct error why;
    int r = 0;

    (void)state;
    s3_server_ask(&server, "/__token", "{\"token\":\"needed\"}", NULL);
    open_fixture(&f);
    for (unsigned i = 0; i < 200; i++) {
        r = blobs_ready(f.blobs, &why);
        if (r < 0)
            break;
        (void)usleep(20000);
    }
    assert_int_equal(r, -ERR_UNAVAILABLE);
    assert_non_null(strstr(why.message, "ExpiredToken"));
    s3_server_ask(&server, "/__token", "{\"token\":\"\"}", NULL);
    for (unsigned i = 0; i < 400; i++) {
        r = blobs_ready(f.blobs, &f.err);
        if (r == 0)
            break;
        (void)usleep(50000);
    }
    must(&f, r);
    close_fixture(&f);
}

/* ---- tenants ------------------------------------------------------------ */

static int count_blob(void *ctx, const struct blob_info *i)
{
    (void)i;
    ++*(unsigned *)ctx;
    return 0;
}

static void tenants_have_their_own_bucket(void **state)
{
    struct fixture f = {.tenant_bucket = true};
    char theirs[BLOB_NAME], ours[BLOB_NAME], both[BLOB_NAME];
    unsigned count = 0;

    (void)state;
    open_fixture(&f);
    must(&f, store_as(&f, TENANT, SMALL, 1, theirs));
    must(&f, store(&f, SMALL, 2, ours));
    must(&f, store_as(&f, TENANT, SMALL, 3, both));
    must(&f, store(&f, SMALL, 3, both));
    assert_true(server_has(&f, "other", theirs));
    assert_false(server_has(&f, "glovebox", theirs));
    assert_false(server_has(&f, "other", ours));
    assert_true(server_has(&f, "glovebox", ours));
    assert_true(server_has(&f, "other", both));
    assert_true(server_has(&f, "glovebox", both));
    must(&f, blob_iterate(f.blobs, count_blob, &count, &f.err));
    assert_int_equal(count, 3);
    drop_cached(&f, theirs);
    drop_cached(&f, ours);
    must(&f, reads(&f, theirs, SMALL, 1));
    must(&f, reads(&f, ours, SMALL, 2));
    must(&f, blob_remove(f.blobs, both, &f.err));
    assert_false(server_has(&f, "other", both));
    assert_false(server_has(&f, "glovebox", both));
    assert_int_equal(reads(&f, both, SMALL, 3), -ERR_CORRUPT);
    close_fixture(&f);
}

/* ---- from the local disk to S3 ------------------------------------------ */

static void D1_blobs_of_the_local_disk_are_uploaded(void **state)
{
    struct fixture f = {0};
    struct blobs_settings local = {.data_dir = f.dir};
    struct blob_remote_stats stats = {0};
    char small[BLOB_NAME], large[BLOB_NAME], logged[BLOB_NAME];
    char damaged[BLOB_NAME], *path;
    int fd;

    (void)state;
    open_fixture(&f);
    blobs_close(f.blobs);
    scratch_remove(f.dir);
    assert_non_null(scratch_dir(f.dir, sizeof(f.dir), "test_blob_s3"));
    must(&f, blobs_open(&local, &f.blobs, &f.err));
    must(&f, store(&f, SMALL, 1, small));
    must(&f, blob_publish_now(f.blobs, small, &f.err));
    must(&f, store(&f, LARGE, 2, large));
    must(&f, store(&f, SMALL, 3, logged));
    must(&f, store(&f, LARGE, 4, damaged));
    blobs_close(f.blobs);
    path = xasprintf("%s/blobs/%.2s/%s", f.dir, damaged, damaged);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "X", 1, 1000), 1);
    (void)close(fd);
    free(path);

    /* While the store is down they are read from the disk, and stay there. */
    s3_server_ask(&server, "/__down", "{\"down\":true}", NULL);
    open_blobs(&f);
    must(&f, reads(&f, large, LARGE, 2));
    assert_false(is_cached(&f, large));
    s3_server_ask(&server, "/__down", "{\"down\":false}", NULL);
    for (unsigned i = 0; i < 400 && !server_has(&f, "glovebox", large); i++)
        (void)usleep(50000);
    for (unsigned i = 0; i < 200 && stats.not_uploaded != 1; i++) {
        assert_true(blobs_remote_stats(f.blobs, &stats));
        (void)usleep(50000);
    }
    assert_int_equal(stats.not_uploaded, 1); /* the damaged one */
    assert_false(server_has(&f, "glovebox", damaged));
    assert_true(server_has(&f, "glovebox", small));
    assert_true(server_has(&f, "glovebox", large));
    assert_true(server_has(&f, "glovebox", logged));
    assert_true(is_cached(&f, large));
    must(&f, reads(&f, large, LARGE, 2));
    blobs_close(f.blobs);

    /* Back to the local disk: refused, since the blobs are not there. */
    f.blobs = NULL;
    assert_int_equal(blobs_open(&local, &f.blobs, &f.err), -ERR_INVALID);
    assert_non_null(strstr(f.err.message, "blob_bucket"));
    open_blobs(&f);
    close_fixture(&f);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(D1_acknowledged_blobs_are_in_the_store),
        cmocka_unit_test(passing_failures_of_the_store_are_not_seen),
        cmocka_unit_test(D3_store_that_returns_other_bytes_is_not_believed),
        cmocka_unit_test(D3_wrong_cached_byte_is_found_and_fetched_again),
        cmocka_unit_test(readers_of_one_blob_share_a_fetch),
        cmocka_unit_test(cache_keeps_to_its_size_and_to_what_was_used),
        cmocka_unit_test(mounted_files_are_not_evicted),
        cmocka_unit_test(I8_fetched_files_are_shared_by_no_two_tenants),
        cmocka_unit_test(outage_leaves_cached_blobs_readable),
        cmocka_unit_test(wrong_keys_make_the_blobs_unready),
        cmocka_unit_test(tenants_have_their_own_bucket),
        cmocka_unit_test(D1_blobs_of_the_local_disk_are_uploaded),
    };
    static const char *const argv[] = {"node", "tests/lib/s3-server.mjs",
                                       NULL};
    char dir[256];
    struct error err;
    int failed;

    if (fetch_start(&err) < 0 || !scratch_dir(dir, sizeof(dir), "blob_s3") ||
        !s3_server_start(&server, argv, dir))
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    s3_server_stop(&server);
    scratch_remove(dir);
    return failed;
}
