/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upkeep/small_blob_rows.c: a small file is durable with the commit that
 * refers to it, whatever a power cut keeps from the log of small blobs; and
 * gone from the store when it is gone.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "workspace_fixture.h"

#include "base/fd.h"
#include "base/thread.h"
#include "blob/blob_int.h"
#include "scratch.h"
#include "store/store_int.h"

#define MANY 80 /* commits: the rows are used more than twice */
#define ROWS 32

static void never_place(struct fixture *f)
{
    mutex_lock(&f->blobs->log.lock);
    f->blobs->log.quiet_ms = 1000000;
    mutex_unlock(&f->blobs->log.lock);
}

static void put_soon(struct fixture *f, const char *path, const char *text)
{
    struct set s = set_new(f, "upload");
    struct blob_writer *b cleanup(blob_abort) = NULL;
    struct workspace_change *c = set_add(&s, CHANGE_PUT, path);
    struct workspace_commit commit;

    OK(f, blob_begin(f->blobs, "", &b, &f->err));
    OK(f, blob_write(b, text, strlen(text), &f->err));
    OK(f, blob_finish_soon(&b, s.sums[0], &c->size, &f->err));
    OK(f, set_commit(&s, &fixture_a, &commit));
    workspace_commit_done(&commit);
    blob_release(f->blobs, s.sums[0]);
}

static int64_t rows(struct fixture *f)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *row cleanup(store_rows_done) = NULL;

    OK(f, store_begin(f->store, STORE_READ, "testing", &tx, &f->err));
    OK(f,
       store_one(tx, &row, &f->err, "SELECT count(*) FROM small_blobs", ""));
    return store_int(row, 0);
}

/* ---- a power cut -------------------------------------------------------- */

static void copy_file(const char *from_dir, const char *to_dir,
                      const char *name)
{
    char *from cleanup(mem_free) = xasprintf("%s/%s", from_dir, name);
    char *to cleanup(mem_free) = xasprintf("%s/%s", to_dir, name);
    char *bytes cleanup(mem_free) = NULL;
    int fd cleanup(fd_close) = -1;
    size_t len;

    assert_int_equal(fd_read_file(AT_FDCWD, from, 64 << 20, &bytes, &len), 0);
    fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), len);
}

/* What was written into the log after its last sync is not on disk. */
static void lose_tail(const char *dir, unsigned half, size_t synced)
{
    char *path cleanup(mem_free) = xasprintf("%s/blobs/log.%u", dir, half);

    assert_int_equal(truncate(path, (off_t)synced), 0);
    assert_int_equal(truncate(path, BLOB_LOG_HALF), 0);
}

/* The data directory as it is on disk now, opened like after a cut. */
static void check_cut(struct fixture *f, size_t synced, const char *want)
{
    /* The head first: it may be older than the database, never newer. */
    static const char *const names[] = {
        "audit.head",     "glovebox.db", "glovebox.db-wal", "audit.secret",
        "audit.sign.key", "blobs/log.0", "blobs/log.1"};
    struct fixture after = {.settings = f->settings, .ws = f->ws};
    char *blobs cleanup(mem_free) = NULL;

    assert_non_null(scratch_dir(after.dir, sizeof(after.dir), "test_small"));
    blobs = xasprintf("%s/blobs", after.dir);
    assert_int_equal(mkdir(blobs, 0700), 0);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        copy_file(f->dir, after.dir, names[i]);
    lose_tail(after.dir, f->blobs->log.half, synced);
    fixture_open(&after);
    TREE_IS(&after, 0, want);
    assert_int_equal(rows(&after), 0);
    fixture_reopen(&after); /* it needs them no more */
    TREE_IS(&after, 0, want);
    fixture_close(&after);
    assert_int_equal(scratch_remove(after.dir), 0);
}

static void D1_D2_small_files_survive_a_power_cut(void **state)
{
    struct fixture *f = *state;
    struct buf want cleanup(buf_done) = {0};
    size_t synced = 0;
    unsigned syncs = 0;

    never_place(f);
    buf_adds(&want, "");
    for (int i = 0; i < MANY; i++) {
        char path[16], text[32];

        (void)snprintf(path, sizeof(path), "f%02d", i);
        (void)snprintf(text, sizeof(text), "the text of %d", i);
        put_soon(f, path, text);
        buf_addf(&want, "%s%s=%s", i ? " " : "", path, text);
        if (!f->blobs->log.unsynced) {
            synced = f->blobs->log.at;
            syncs++;
        }
        assert_true(rows(f) <= ROWS);
        if (i < 2 || i % ROWS < 3 || i % ROWS > ROWS - 2)
            check_cut(f, synced, want.data);
    }
    assert_int_equal(syncs, MANY / (ROWS + 1)); /* none but those */
    TREE_IS(f, 0, want.data);
}

/* ---- a commit that fails ------------------------------------------------ */

static int fail_commit(struct store_tx *tx, void *ctx, struct error *err)
{
    (void)tx;
    (void)ctx;
    return error_set(err, ERR_SPACE, "the disk is full");
}

/* Bytes that went out with a commit which failed are not lost to the next,
 * which refers to them. */
static void D2_bytes_outlive_a_commit_that_failed(void **state)
{
    struct fixture *f = *state;
    struct set mine = set_new(f, "upload");
    struct workspace_spec spec = {.name = "other"};
    struct workspace_info other;
    struct workspace_change *c = set_add(&mine, CHANGE_PUT, "mine");
    struct blob_writer *b cleanup(blob_abort) = NULL;
    struct workspace_commit commit;
    struct store_hook failing = {.before = fail_commit};

    never_place(f);
    OK(f, blob_begin(f->blobs, "", &b, &f->err));
    OK(f, blob_write(b, "my bytes", 8, &f->err));
    OK(f, blob_finish_soon(&b, mine.sums[0], &c->size, &f->err));

    store_hook_add(f->store, &failing); /* after that of the small files */
    REFUSED(f, ERR_SPACE,
            workspace_create(f->w, &fixture_a, &spec, &other, &f->err));
    store_hook_remove(f->store, &failing);
    assert_true(f->blobs->log.unsynced);
    assert_int_equal(rows(f), 0);
    OK(f, set_commit(&mine, &fixture_a, &commit));
    workspace_commit_done(&commit);
    check_cut(f, f->blobs->log.unsynced ? 0 : f->blobs->log.at,
              "mine=my bytes");
    put_soon(f, "next", "more");
    assert_true(f->blobs->log.unsynced); /* as usual */
    assert_int_equal(rows(f), 1);
}

static void small_rows_do_not_outlast_a_start(void **state)
{
    struct fixture *f = *state;

    put_soon(f, "a", "one");
    put_soon(f, "b", "two");
    assert_int_equal(rows(f), 2);
    fixture_reopen(f);
    assert_int_equal(rows(f), 0);
    TREE_IS(f, 0, "a=one b=two");
    put_soon(f, "c", "three");
    assert_int_equal(rows(f), 1);
    TREE_IS(f, 0, "a=one b=two c=three");
}

/* ---- gone is gone ------------------------------------------------------- */

static bool has(struct fixture *f, const char *name, const char *text)
{
    char *path cleanup(mem_free) = xasprintf("%s/%s", f->dir, name);
    char *bytes cleanup(mem_free) = NULL;
    size_t len;

    assert_int_equal(fd_read_file(AT_FDCWD, path, 64 << 20, &bytes, &len), 0);
    return memmem(bytes, len, text, strlen(text)) != NULL;
}

static void D10_destroyed_bytes_are_gone_from_the_store(void **state)
{
    static const char *const names[] = {"glovebox.db", "glovebox.db-wal",
                                        "blobs/log.0", "blobs/log.1"};
    static const char kept[] = "bytes of another workspace";
    static const char secret[] = "bytes that are to be gone";
    struct fixture *f = *state;
    struct workspace_spec spec = {.name = "other"};
    struct workspace_info doomed = f->ws, other;

    never_place(f);
    OK(f, workspace_create(f->w, &fixture_a, &spec, &other, &f->err));
    put_soon(f, "secret", secret);
    f->ws = other;
    put_soon(f, "kept", kept);
    assert_true(has(f, "glovebox.db-wal", secret));
    OK(f, workspace_destroy(f->w, &fixture_a, doomed.id, &f->err));
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        assert_false(has(f, names[i], secret));
        assert_false(has(f, names[i], kept)); /* it is a file by now */
    }
    TREE_IS(f, 0, "kept=bytes of another workspace");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(D1_D2_small_files_survive_a_power_cut),
        CASE(D2_bytes_outlive_a_commit_that_failed),
        CASE(small_rows_do_not_outlast_a_start),
        CASE(D10_destroyed_bytes_are_gone_from_the_store),
    };

    return cmocka_run_group_tests_name("workspace_small", tests, NULL, NULL);
}
