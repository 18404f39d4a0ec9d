/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store: rows come back as they went in and survive a reopen, transactions
 * are whole and apart, and a store that is newer, damaged, in use or on a
 * failing disk says so.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "scratch.h"
#include "store/postgres_int.h"
#include "store/sqlite_int.h"
#include "store_choice.h"

/* Where every act of the disk fails in turn there is one thread, and nothing
 * for that sanitizer to find: it sees one in so many. */
#ifdef __SANITIZE_THREAD__
#define SPARSE 6u
#else
#define SPARSE 1u
#endif

/* ---- a disk that can be told to fail ------------------------------------ */

enum disk_act {
    DISK_WRITE = 1 << 0,
    DISK_SYNC = 1 << 1,
    DISK_TRUNCATE = 1 << 2,
};

/* SQLite gives the database and its log different methods. */
struct disk_kind {
    sqlite3_io_methods methods; /* first: a file points to it */
    const sqlite3_io_methods *real;
};

static struct {
    sqlite3_vfs vfs;
    sqlite3_vfs *real;
    struct disk_kind kinds[2];
    unsigned acts;  /* enum disk_act that count */
    unsigned fails; /* the how manyth of them fails; 0: none */
    bool for_good;  /* and all after it */
    int code;
    unsigned seen;   /* of those acts */
    unsigned failed; /* how many did */
    unsigned syncs;  /* always counted */
} disk;

static void disk_arm(unsigned acts, unsigned fails, bool for_good, int code)
{
    disk.acts = acts;
    disk.fails = fails;
    disk.for_good = for_good;
    disk.code = code;
    disk.seen = 0;
    disk.failed = 0;
}

static void disk_disarm(void)
{
    disk.fails = 0;
}

static const sqlite3_io_methods *real_methods(sqlite3_file *f)
{
    return ((const struct disk_kind *)f->pMethods)->real;
}

static bool disk_fails(enum disk_act act)
{
    if (!disk.fails || !(disk.acts & act))
        return false;
    disk.seen++;
    if (disk.seen != disk.fails && !(disk.for_good && disk.seen > disk.fails))
        return false;
    disk.failed++;
    return true;
}

static int disk_sync(sqlite3_file *f, int flags)
{
    disk.syncs++;
    return disk_fails(DISK_SYNC) ? SQLITE_IOERR_FSYNC
                                 : real_methods(f)->xSync(f, flags);
}

/* Half of it gets through, as on a disk that fills up. */
static int disk_write(sqlite3_file *f, const void *bytes, int len,
                      sqlite3_int64 at)
{
    if (disk_fails(DISK_WRITE)) {
        (void)real_methods(f)->xWrite(f, bytes, len / 2, at);
        return disk.code;
    }
    return real_methods(f)->xWrite(f, bytes, len, at);
}

static int disk_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    return disk_fails(DISK_TRUNCATE) ? SQLITE_IOERR_TRUNCATE
                                     : real_methods(f)->xTruncate(f, size);
}

static int disk_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f,
                     int flags, int *ret_flags)
{
    int code = disk.real->xOpen(disk.real, name, f, flags, ret_flags);
    struct disk_kind *kind = &disk.kinds[(flags & SQLITE_OPEN_MAIN_DB) != 0];

    (void)vfs;
    if (code != SQLITE_OK || !f->pMethods)
        return code;
    if (!kind->real) { /* the same for all; readers open while others run */
        kind->methods = *f->pMethods;
        kind->methods.xSync = disk_sync;
        kind->methods.xWrite = disk_write;
        kind->methods.xTruncate = disk_truncate;
        kind->real = f->pMethods;
    }
    f->pMethods = &kind->methods;
    return code;
}

/* Under the name that the store asks for, and found before the real one. */
static void disk_install(void)
{
    memset(&disk, 0, sizeof(disk));
    disk.real = sqlite3_vfs_find("unix-excl");
    disk.vfs = *disk.real;
    disk.vfs.xOpen = disk_open;
    assert_int_equal(sqlite3_vfs_register(&disk.vfs, 0), SQLITE_OK);
    assert_ptr_equal(sqlite3_vfs_find("unix-excl"), &disk.vfs);
}

static void disk_remove(void)
{
    assert_int_equal(sqlite3_vfs_unregister(&disk.vfs), SQLITE_OK);
    assert_ptr_equal(sqlite3_vfs_find("unix-excl"), disk.real);
}

/* ---- help --------------------------------------------------------------- */

struct fixture {
    char dir[64];
    struct store *store;
    struct error err;
};

static const char *const files[] = {"glovebox.db", "glovebox.db-wal",
                                    "glovebox.db-journal", "glovebox.lock",
                                    "copy.db"};

static void dir_remove(const char *dir)
{
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        char *path cleanup(mem_free) = xasprintf("%s/%s", dir, files[i]);

        unlink(path);
    }
    assert_int_equal(rmdir(dir), 0);
}

static void must_open(struct fixture *f)
{
    if (store_choice_open(&(struct store_settings){.data_dir = f->dir},
                          &f->store, &f->err) < 0)
        fail_msg("%s", f->err.message);
}

static void shut(struct fixture *f)
{
    store_close(f->store);
    f->store = NULL;
}

static void reopen(struct fixture *f)
{
    shut(f);
    must_open(f);
}

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    assert_non_null(scratch_dir(f->dir, sizeof(f->dir), "test_store"));
    must_open(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    shut(f);
    dir_remove(f->dir);
    free(f);
    return 0;
}

/* On the failing disk, open and not failing yet. */
static int set_up_disk(void **state)
{
    disk_install();
    return set_up(state);
}

static int tear_down_disk(void **state)
{
    int r;

    disk_disarm();
    r = tear_down(state);
    disk_remove();
    return r;
}

/* SQL on the closed database, as another program would do. */
static void sql(struct fixture *f, const char *text)
{
    char *path cleanup(mem_free) = xasprintf("%s/glovebox.db", f->dir);
    sqlite3 *db = NULL;

    assert_null(f->store);
    assert_int_equal(
        sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                        "unix"),
        SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s", sqlite3_errmsg(db));
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static struct store_tx *begin(struct fixture *f, enum store_mode mode)
{
    struct store_tx *tx = NULL;

    if (store_begin(f->store, mode, "testing", &tx, &f->err) < 0)
        fail_msg("%s", f->err.message);
    return tx;
}

static void commit(struct fixture *f, struct store_tx *tx)
{
    if (store_commit(&tx, &f->err) < 0)
        fail_msg("%s", f->err.message);
    assert_null(tx);
}

#define PUT                                                                   \
    "INSERT INTO keys (id, hash, tenant, name, scopes, created_at_ms)"        \
    " VALUES (?1, ?2, 't', ?3, 1, ?4)"

/* Row n of the keys, with that name, in that transaction. */
static int put_in(struct store_tx *tx, int64_t n, const char *name,
                  struct error *err)
{
    unsigned char hash[32] = {0};
    char id[32];

    memcpy(hash, &n, sizeof(n));
    (void)snprintf(id, sizeof(id), "key_%lld", (long long)n);
    return store_exec(tx, err, PUT, "tbti", id, hash, sizeof(hash), name, n);
}

static int try_put(struct store *s, int64_t n, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;

    if (store_begin(s, STORE_WRITE, "testing", &tx, err) < 0 ||
        put_in(tx, n, "n", err) < 0)
        return -(int)err->code;
    return store_commit(&tx, err);
}

static void put(struct fixture *f, int64_t n)
{
    if (try_put(f->store, n, &f->err) < 0)
        fail_msg("%s", f->err.message);
}

/* The number that a query without values gives. */
static int64_t number_in(struct store_tx *tx, const char *text)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    struct error err;

    if (store_one(tx, &row, &err, text, "") != 1)
        fail_msg("%s", err.message);
    return store_int(row, 0);
}

static int64_t number(struct fixture *f, const char *text)
{
    struct store_tx *tx = begin(f, STORE_READ);
    int64_t n = number_in(tx, text);

    commit(f, tx);
    return n;
}

static int64_t count_keys(struct fixture *f)
{
    return number(f, "SELECT count(*) FROM keys");
}

/* ---- statements and rows ------------------------------------------------ */

static void values_come_back(void **state)
{
    static const int64_t numbers[] = {0, 1, -1, INT64_MAX, INT64_MIN};
    static const unsigned char bytes[] = {0, 1, 0xff, 0};
    static const char text[] = "'); DROP TABLE keys; -- \xc3\xa9";
    struct fixture *f = *state;
    struct store_tx *tx = begin(f, STORE_READ);
    struct store_rows *row = NULL;
    size_t len;

    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        assert_int_equal(store_one(tx, &row, &f->err,
                                   "SELECT ?1, ?2, ?3, ?4, ?5, ?6", "itbtbb",
                                   numbers[i], text, bytes, sizeof(bytes),
                                   NULL, NULL, (size_t)0, "", (size_t)0),
                         1);
        assert_true(store_int(row, 0) == numbers[i]);
        assert_string_equal(store_text(row, 1), text);
        assert_memory_equal(store_bytes(row, 2, &len), bytes, sizeof(bytes));
        assert_int_equal(len, sizeof(bytes));
        assert_null(store_text(row, 3));
        assert_int_equal(store_int(row, 3), 0);
        assert_null(store_bytes(row, 4, &len));
        (void)store_bytes(row, 5, &len); /* empty, but not NULL */
        assert_int_equal(len, 0);
        assert_non_null(store_text(row, 5));
        store_rows_done(&row);
        assert_null(row);
    }
    commit(f, tx);
}

static void copy_is_cut_and_empty_for_null(void **state)
{
    struct fixture *f = *state;
    struct store_tx *tx = begin(f, STORE_READ);
    struct store_rows *row cleanup(store_rows_done) = NULL;
    char four[4], five[5], none[4] = "xyz";

    assert_int_equal(store_one(tx, &row, &f->err, "SELECT 'abcd', NULL", ""),
                     1);
    store_copy(row, 0, four, sizeof(four));
    store_copy(row, 0, five, sizeof(five));
    store_copy(row, 1, none, sizeof(none));
    assert_string_equal(four, "abc");
    assert_string_equal(five, "abcd");
    assert_string_equal(none, "");
    commit(f, tx);
}

static void one_gives_the_first_row_or_none(void **state)
{
    struct fixture *f = *state;
    struct store_tx *tx = begin(f, STORE_WRITE);
    struct store_rows *row = (struct store_rows *)f;

    assert_int_equal(store_one(tx, &row, &f->err, "SELECT id FROM keys", ""),
                     0);
    assert_null(row);
    assert_int_equal(put_in(tx, 1, "a", &f->err), 1);
    assert_int_equal(put_in(tx, 2, "b", &f->err), 1);
    assert_int_equal(
        store_one(tx, &row, &f->err, "SELECT id FROM keys ORDER BY id", ""),
        1);
    assert_string_equal(store_text(row, 0), "key_1");
    store_rows_done(&row);
    row = (struct store_rows *)f;
    assert_int_equal(
        store_one(tx, &row, &f->err, "SELECT nothing FROM nowhere", ""),
        -ERR_INTERNAL);
    assert_null(row);
    assert_null(strstr(f->err.message, "nowhere")); /* no SQL in errors */
    store_rollback(&tx);
    store_rollback(&tx); /* a cleared one is fine */
}

static void exec_tells_how_many_changed(void **state)
{
    struct fixture *f = *state;
    struct store_tx *tx = begin(f, STORE_WRITE);

    for (int64_t n = 1; n <= 5; n++)
        assert_int_equal(put_in(tx, n, "a", &f->err), 1);
    assert_int_equal(store_exec(tx, &f->err,
                                "UPDATE keys SET name = ?1"
                                " WHERE created_at_ms <= ?2",
                                "ti", "b", (int64_t)3),
                     3);
    assert_int_equal(store_exec(tx, &f->err, "SELECT 1 FROM keys", ""), 0);
    assert_int_equal(
        store_exec(tx, &f->err, "DELETE FROM keys WHERE name = 'x'", ""), 0);
    assert_int_equal(store_exec(tx, &f->err, "DELETE FROM keys", ""), 5);
    commit(f, tx);
}

static void rows_of_a_statement_within_itself(void **state)
{
    static const char all[] = "SELECT created_at_ms FROM keys ORDER BY 1";
    struct fixture *f = *state;
    struct store_rows *outer cleanup(store_rows_done) = NULL;
    struct store_tx *tx;
    int64_t sum = 0;

    for (int64_t n = 1; n <= 3; n++)
        put(f, n);
    tx = begin(f, STORE_READ);
    assert_int_equal(store_query(tx, &outer, &f->err, all, ""), 0);
    while (store_next(outer, &f->err) == 1) {
        struct store_rows *inner cleanup(store_rows_done) = NULL;

        assert_int_equal(store_query(tx, &inner, &f->err, all, ""), 0);
        while (store_next(inner, &f->err) == 1)
            sum += store_int(outer, 0) * store_int(inner, 0);
    }
    assert_int_equal(sum, 36);
    assert_int_equal(store_next(outer, &f->err), 0); /* stays at its end */
    commit(f, tx);
}

static void rows_may_outlive_their_transaction(void **state)
{
    struct fixture *f = *state;
    struct store_rows *rows = NULL, *other = NULL;
    struct store_tx *tx;
    size_t len;

    put(f, 1);
    put(f, 2);
    for (int i = 0; i < 2; i++) {
        tx = begin(f, i ? STORE_READ : STORE_WRITE);
        assert_int_equal(
            store_query(tx, &rows, &f->err, "SELECT id FROM keys", ""), 0);
        assert_int_equal(
            store_query(tx, &other, &f->err, "SELECT id FROM keys", ""), 0);
        assert_int_equal(store_next(rows, &f->err), 1);
        store_rows_done(&other);
        if (i)
            store_rollback(&tx);
        else
            commit(f, tx);
        assert_null(store_text(rows, 0));
        assert_int_equal(store_int(rows, 0), 0);
        assert_null(store_bytes(rows, 0, &len));
        assert_int_equal(store_next(rows, &f->err), 0);
        put(f, 10 + i); /* and are in nobody's way */
        store_rows_done(&rows);
    }
    assert_int_equal(count_keys(f), 4);
}

static void statements_more_than_are_kept(void **state)
{
    static char texts[3 * STORE_SQLITE_CACHED][32];
    struct fixture *f = *state;
    struct store_tx *tx = begin(f, STORE_READ);

    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
            (void)snprintf(texts[i], sizeof(texts[i]), "SELECT %zu", i);
            assert_int_equal(number_in(tx, texts[i]), i);
        }
    commit(f, tx);
}

static void statement_whose_text_changed(void **state)
{
    struct fixture *f = *state;
    struct store_tx *tx = begin(f, STORE_READ);
    char text[32];

    for (int i = 0; i < 5; i++) {
        (void)snprintf(text, sizeof(text), "SELECT %d", i);
        assert_int_equal(number_in(tx, text), i);
    }
    commit(f, tx);
}

static void statement_must_be_one_with_its_values(void **state)
{
    struct fixture *f = *state;
    struct store_rows *rows = NULL;

    for (int i = 0; i < 4; i++) {
        struct store_tx *tx = begin(f, STORE_READ);
        int r = i == 0 ? store_query(tx, &rows, &f->err, "", "")
                : i == 1
                    ? store_query(tx, &rows, &f->err, "SELECT 1; SELECT 2", "")
                : i == 2 ? store_query(tx, &rows, &f->err, "SELECT ?1", "")
                         : store_query(tx, &rows, &f->err, "SELECT 1", "i",
                                       (int64_t)1);

        assert_int_equal(r, -ERR_INTERNAL);
        assert_null(rows);
        store_rollback(&tx);
    }
}

/* ---- transactions ------------------------------------------------------- */

static void commit_survives_reopen(void **state)
{
    struct fixture *f = *state;

    put(f, 1);
    put(f, 2);
    reopen(f);
    assert_int_equal(count_keys(f), 2);
    assert_true(store_writable(f->store));
}

static void rollback_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct store_tx *tx = begin(f, STORE_WRITE);

    for (int64_t n = 1; n <= 100; n++)
        assert_int_equal(put_in(tx, n, "a", &f->err), 1);
    store_rollback(&tx);
    assert_null(tx);
    assert_int_equal(count_keys(f), 0);
    put(f, 1);
    reopen(f);
    assert_int_equal(count_keys(f), 1);
}

static void constraint_is_a_conflict_of_its_statement_alone(void **state)
{
    struct fixture *f = *state;
    struct store_tx *tx = begin(f, STORE_WRITE);

    assert_int_equal(put_in(tx, 1, "a", &f->err), 1);
    assert_int_equal(put_in(tx, 1, "a", &f->err), -ERR_CONFLICT);
    assert_non_null(strstr(f->err.message, "already"));
    assert_null(strstr(f->err.message, "keys")); /* names no table */
    assert_int_equal(store_exec(tx, &f->err, PUT, "tbti", "x", "short",
                                (size_t)5, "n", (int64_t)1),
                     -ERR_CONFLICT);
    assert_int_equal(store_exec(tx, &f->err, PUT, "tbti", "x", NULL, (size_t)0,
                                "n", (int64_t)1),
                     -ERR_CONFLICT);
    assert_int_equal(store_exec(tx, &f->err,
                                "INSERT INTO members (workspace, principal,"
                                " role, added_at_ms, added_by)"
                                " VALUES ('ws_x', '*', 1, 1, 'k')",
                                ""),
                     -ERR_CONFLICT);
    assert_non_null(strstr(f->err.message, "belongs"));
    assert_int_equal(put_in(tx, 2, "a", &f->err), 1);
    commit(f, tx);
    assert_int_equal(count_keys(f), 2);
}

static void failed_statement_forbids_the_commit(void **state)
{
    struct fixture *f = *state;
    struct store_tx *tx = begin(f, STORE_WRITE);

    assert_int_equal(put_in(tx, 1, "a", &f->err), 1);
    assert_int_equal(store_exec(tx, &f->err, "NO SQL", ""), -ERR_INTERNAL);
    assert_int_equal(put_in(tx, 2, "a", &f->err), -ERR_INTERNAL);
    assert_int_equal(store_commit(&tx, &f->err), -ERR_INTERNAL);
    assert_null(tx);
    assert_int_equal(count_keys(f), 0);
    put(f, 3);
}

static void writing_in_a_read_transaction_is_refused(void **state)
{
    struct fixture *f = *state;
    struct store_tx *tx = begin(f, STORE_READ);

    assert_int_equal(put_in(tx, 1, "a", &f->err), -ERR_INTERNAL);
    assert_int_equal(store_commit(&tx, &f->err), 0);
    assert_int_equal(count_keys(f), 0);
}

static void write_within_a_write_is_refused(void **state)
{
    struct fixture *f = *state;
    struct store_tx *tx = begin(f, STORE_WRITE), *second = NULL;

    assert_int_equal(
        store_begin(f->store, STORE_WRITE, "testing", &second, &f->err),
        -ERR_INTERNAL);
    assert_null(second);
    assert_int_equal(put_in(tx, 1, "a", &f->err), 1);
    commit(f, tx);
    assert_int_equal(count_keys(f), 1);
}

static void reader_sees_the_commit_it_began_with(void **state)
{
    struct fixture *f = *state;
    struct store_tx *first, *second, *writer;

    put(f, 1);
    first = begin(f, STORE_READ); /* has not looked at anything yet */
    if (store_choice_server())    /* whose snapshot begins with a look */
        assert_int_equal(number_in(first, "SELECT count(*) FROM keys"), 1);
    writer = begin(f, STORE_WRITE);
    assert_int_equal(put_in(writer, 2, "a", &f->err), 1);
    assert_int_equal(number_in(writer, "SELECT count(*) FROM keys"), 2);
    assert_int_equal(count_keys(f), 1); /* not committed yet */
    commit(f, writer);
    second = begin(f, STORE_READ);
    assert_int_equal(number_in(first, "SELECT count(*) FROM keys"), 1);
    assert_int_equal(number_in(second, "SELECT count(*) FROM keys"), 2);
    put(f, 3);
    assert_int_equal(number_in(first, "SELECT count(*) FROM keys"), 1);
    commit(f, first);
    store_rollback(&second);
    assert_int_equal(count_keys(f), 3);
}

/* ---- threads ------------------------------------------------------------ */

struct crew {
    struct fixture *f;
    bool stop;
    unsigned next, looks;
};

/* head and files are changed one after the other, in one transaction. */
static void *crew_write(void *arg)
{
    struct crew *c = arg;
    struct error err;

    for (int i = 0; i < 25; i++) {
        struct store_tx *tx cleanup(store_rollback) = NULL;

        if (store_begin(c->f->store, STORE_WRITE, "testing", &tx, &err) < 0 ||
            store_exec(tx, &err, "UPDATE workspaces SET head = head + 1",
                       "") != 1 ||
            store_exec(tx, &err, "UPDATE workspaces SET files = files + 1",
                       "") != 1)
            return arg;
        if (i % 5 == 0)
            continue; /* taken back */
        if (store_commit(&tx, &err) < 0)
            return arg;
    }
    return NULL;
}

static int64_t crew_ask(struct store_tx *tx, const char *text)
{
    struct store_rows *row cleanup(store_rows_done) = NULL;
    struct error err;

    return store_one(tx, &row, &err, text, "") == 1 ? store_int(row, 0) : -1;
}

static void *crew_read(void *arg)
{
    struct crew *c = arg;
    int64_t last = 0;

    while (!__atomic_load_n(&c->stop, __ATOMIC_SEQ_CST)) {
        struct store_tx *tx cleanup(store_rollback) = NULL;
        struct error err;
        int64_t head, files_now;

        if (store_begin(c->f->store, STORE_READ, "testing", &tx, &err) < 0)
            return arg;
        head = crew_ask(tx, "SELECT head FROM workspaces");
        sched_yield();
        files_now = crew_ask(tx, "SELECT files FROM workspaces");
        if (head < last || head != files_now)
            return arg;
        last = head;
        __atomic_fetch_add(&c->looks, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void D2_readers_beside_writers_see_whole_commits(void **state)
{
    struct fixture *f = *state;
    struct crew c = {.f = f};
    struct store_tx *tx = begin(f, STORE_WRITE);
    pthread_t writers[3], readers[6]; /* more than there are connections */
    void *bad;

    assert_int_equal(store_exec(tx, &f->err,
                                "INSERT INTO workspaces (id, tenant, name,"
                                " owner, created_at_ms, updated_at_ms)"
                                " VALUES ('ws_1', 't', 'n', 'k', 1, 1)",
                                ""),
                     1);
    commit(f, tx);
    for (size_t i = 0; i < ARRAY_SIZE(readers); i++)
        assert_int_equal(pthread_create(&readers[i], NULL, crew_read, &c), 0);
    for (size_t i = 0; i < ARRAY_SIZE(writers); i++)
        assert_int_equal(pthread_create(&writers[i], NULL, crew_write, &c), 0);
    for (size_t i = 0; i < ARRAY_SIZE(writers); i++) {
        assert_int_equal(pthread_join(writers[i], &bad), 0);
        assert_null(bad);
    }
    __atomic_store_n(&c.stop, true, __ATOMIC_SEQ_CST);
    for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
        assert_int_equal(pthread_join(readers[i], &bad), 0);
        assert_null(bad);
    }
    assert_true(c.looks > 0);
    assert_int_equal(number(f, "SELECT head FROM workspaces"), 60);
}

static void *late_reader(void *arg)
{
    struct crew *c = arg;
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct error err;

    if (store_begin(c->f->store, STORE_READ, "testing", &tx, &err) < 0)
        return arg;
    __atomic_store_n(&c->stop, true, __ATOMIC_SEQ_CST);
    return crew_ask(tx, "SELECT count(*) FROM keys") == 1 ? NULL : arg;
}

static void one_reader_too_many_waits_and_the_writer_does_not(void **state)
{
    struct fixture *f = *state;
    struct crew c = {.f = f};
    struct store_tx *held[STORE_POSTGRES_READERS] = {NULL};
    size_t most =
        store_choice_server() ? STORE_POSTGRES_READERS : STORE_SQLITE_READERS;
    pthread_t thread;
    void *bad;

    for (size_t i = 0; i < most; i++)
        held[i] = begin(f, STORE_READ);
    assert_int_equal(pthread_create(&thread, NULL, late_reader, &c), 0);
    put(f, 1);
    usleep(50000);
    assert_false(__atomic_load_n(&c.stop, __ATOMIC_SEQ_CST));
    store_rollback(&held[2]);
    assert_int_equal(pthread_join(thread, &bad), 0);
    assert_null(bad); /* and sees what was committed while it waited */
    for (size_t i = 0; i < ARRAY_SIZE(held); i++)
        store_rollback(&held[i]);
}

static void *crew_put(void *arg)
{
    struct crew *c = arg;
    struct error err;

    for (int i = 0; i < 20; i++)
        if (try_put(c->f->store,
                    __atomic_add_fetch(&c->next, 1, __ATOMIC_SEQ_CST),
                    &err) < 0)
            return arg;
    return NULL;
}

static void writers_take_turns(void **state)
{
    struct fixture *f = *state;
    struct crew c = {.f = f};
    pthread_t threads[8];
    void *bad;

    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, crew_put, &c), 0);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
        assert_int_equal(pthread_join(threads[i], &bad), 0);
        assert_null(bad);
    }
    assert_int_equal(count_keys(f), 160);
}

/* ---- opening ------------------------------------------------------------ */

static void open_makes_private_files(void **state)
{
    struct fixture *f = *state;

    put(f, 1);
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        char *path cleanup(mem_free) = xasprintf("%s/%s", f->dir, files[i]);
        struct stat st;

        if (stat(path, &st) == 0)
            assert_int_equal(st.st_mode & 0777, 0600);
    }
}

/* Can another process get the lock that SQLite takes for reading? */
static int child_reads(const char *dir)
{
    struct flock range = {.l_type = F_RDLCK,
                          .l_whence = SEEK_SET,
                          .l_start = 0x40000002,
                          .l_len = 510};
    char *path cleanup(mem_free) = xasprintf("%s/glovebox.db", dir);
    int fd cleanup(fd_close) = open(path, O_RDWR | O_CLOEXEC);

    return fd < 0 ? 2 : fcntl(fd, F_SETLK, &range) == 0;
}

static int child_opens(const char *dir)
{
    struct store *second = NULL;
    struct error err;

    return store_open(&(struct store_settings){.data_dir = dir}, &second,
                      &err) != -ERR_CONFLICT;
}

static int in_child(int (*act)(const char *dir), const char *dir)
{
    pid_t pid = fork();
    int status;

    if (pid == 0)
        _exit(act(dir));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void D6_no_other_process_gets_in(void **state)
{
    struct fixture *f = *state;
    struct store *second = NULL;

    put(f, 1);
    assert_int_equal(in_child(child_reads, f->dir), 0);
    assert_int_equal(in_child(child_opens, f->dir), 0);
    /* Nor after a refusal in this process: it dropped no lock. */
    assert_int_equal(store_open(&(struct store_settings){.data_dir = f->dir},
                                &second, &f->err),
                     -ERR_CONFLICT);
    assert_non_null(strstr(f->err.message, "another process"));
    assert_null(second);
    put(f, 2); /* the first is not disturbed */
    assert_int_equal(in_child(child_reads, f->dir), 0);
    shut(f);
    assert_int_equal(in_child(child_reads, f->dir), 1);
    must_open(f);
}

static void open_newer_is_refused(void **state)
{
    struct fixture *f = *state;
    char *newer cleanup(mem_free) = xasprintf(
        "UPDATE schema_version SET version = %d", store_migrations_count + 1);
    char *current cleanup(mem_free) = xasprintf(
        "UPDATE schema_version SET version = %d", store_migrations_count);

    put(f, 1);
    shut(f);
    sql(f, newer);
    assert_int_equal(store_open(&(struct store_settings){.data_dir = f->dir},
                                &f->store, &f->err),
                     -ERR_CONFLICT);
    assert_non_null(strstr(f->err.message, "schema"));
    assert_non_null(strstr(f->err.hint, "newer"));
    sql(f, current);
    must_open(f);
    assert_int_equal(count_keys(f), 1); /* nothing was touched */
}

static void open_missing_directory_fails(void **state)
{
    struct fixture *f = *state;
    struct store *s = NULL;

    assert_int_equal(
        store_open(&(struct store_settings){.data_dir = "/nowhere/at/all"}, &s,
                   &f->err),
        -ERR_INTERNAL);
    assert_null(s);
}

static void open_refuses_a_link(void **state)
{
    struct fixture *f = *state;

    shut(f);
    for (size_t i = 0; i < 4; i += 3) { /* the database and the lock */
        char *path cleanup(mem_free) = xasprintf("%s/%s", f->dir, files[i]);

        assert_int_equal(unlink(path), 0);
        assert_int_equal(symlink("/tmp/elsewhere.db", path), 0);
        assert_int_equal(
            store_open(&(struct store_settings){.data_dir = f->dir}, &f->store,
                       &f->err),
            -ERR_INTERNAL);
        assert_int_equal(access("/tmp/elsewhere.db", F_OK), -1);
        assert_int_equal(unlink(path), 0);
    }
}

static void open_follows_a_link_to_the_directory(void **state)
{
    struct fixture *f = *state;
    char *link_path cleanup(mem_free) = xasprintf("%s.link", f->dir);
    struct store *s = NULL;
    int r;

    shut(f);
    assert_int_equal(symlink(f->dir, link_path), 0);
    r = store_open(&(struct store_settings){.data_dir = link_path}, &s,
                   &f->err);
    unlink(link_path);
    assert_int_equal(r, 0);
    store_close(s);
}

static void D6_settings_are_the_safe_ones(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text;
        const char *writer, *reader;
    } cases[] = {
        {"PRAGMA journal_mode", "wal", "wal"},
        {"PRAGMA page_size", "2048", "2048"},
        {"PRAGMA synchronous", "2", NULL},
        {"PRAGMA wal_autocheckpoint", "0", "0"},
        {"PRAGMA foreign_keys", "1", "1"},
        {"PRAGMA trusted_schema", "0", "0"},
        {"PRAGMA cell_size_check", "1", "1"},
        {"PRAGMA query_only", "0", "1"},
        {"PRAGMA secure_delete", "1", NULL},
        {"PRAGMA locking_mode", "normal", "normal"},
    };

    for (int mode = STORE_READ; mode <= STORE_WRITE; mode++) {
        struct store_tx *tx = begin(f, (enum store_mode)mode);

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
            const char *want =
                mode == STORE_WRITE ? cases[i].writer : cases[i].reader;
            struct store_rows *row cleanup(store_rows_done) = NULL;

            assert_int_equal(store_one(tx, &row, &f->err, cases[i].text, ""),
                             1);
            if (want)
                assert_string_equal(store_text(row, 0), want);
        }
        store_rollback(&tx);
    }
}

static void D1_D6_every_commit_is_synced_by_the_writer(void **state)
{
    struct fixture *f = *state;
    unsigned before;

    for (int64_t n = 1; n <= 3; n++) {
        before = disk.syncs;
        put(f, n);
        assert_true(disk.syncs > before);
    }
    /* Readers write nothing, not even at their end. */
    before = disk.syncs;
    assert_int_equal(count_keys(f), 3);
    assert_int_equal(disk.syncs, before);
}

static void D6_log_is_folded_while_running(void **state)
{
    struct fixture *f = *state;
    char *wal cleanup(mem_free) = xasprintf("%s/glovebox.db-wal", f->dir);
    char *name cleanup(mem_free) = xmalloc(1600001);
    struct stat st;

    memset(name, 'n', 1600000);
    name[1600000] = '\0';
    for (int64_t n = 1; n <= 60; n++) { /* 96 MB in all */
        struct store_tx *tx = begin(f, STORE_WRITE);

        assert_int_equal(put_in(tx, n, name, &f->err), 1);
        commit(f, tx);
    }
    assert_int_equal(stat(wal, &st), 0);
    assert_true(st.st_size < 40 << 20);
    assert_int_equal(number(f, "SELECT sum(length(name)) FROM keys"),
                     60 * 1600000);
}

/* How often any file of the store has it. */
static unsigned on_disk(struct fixture *f, const char *text)
{
    static const char *const names[] = {"glovebox.db", "glovebox.db-wal"};
    unsigned found = 0;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        char *path cleanup(mem_free) = xasprintf("%s/%s", f->dir, names[i]);
        FILE *file = fopen(path, "rb");
        struct stat st;
        char *all cleanup(mem_free) = NULL;

        assert_non_null(file);
        assert_int_equal(fstat(fileno(file), &st), 0);
        all = xmalloc((size_t)st.st_size + 1);
        assert_int_equal(fread(all, 1, (size_t)st.st_size, file), st.st_size);
        (void)fclose(file);
        for (char *at = all, *end = all + st.st_size;
             (at = memmem(at, (size_t)(end - at), text, strlen(text))); at++)
            found++;
    }
    return found;
}

static void D10_deleted_is_gone_from_the_files(void **state)
{
    static const char secret[] = "zweiundvierzigmal";
    struct fixture *f = *state;
    char *name cleanup(mem_free) = xmalloc(20001);
    struct store_tx *tx;

    for (size_t i = 0; i < 20000; i++) /* over several pages */
        name[i] = secret[i % (sizeof(secret) - 1)];
    name[20000] = '\0';
    for (int64_t n = 1; n <= 40; n++) {
        tx = begin(f, STORE_WRITE);
        assert_int_equal(put_in(tx, n, n % 2 ? name : "stays", &f->err), 1);
        commit(f, tx);
    }
    assert_true(on_disk(f, secret) > 0);
    tx = begin(f, STORE_WRITE);
    assert_true(store_exec(tx, &f->err,
                           "DELETE FROM keys WHERE name <> 'stays'", "") > 0);
    commit(f, tx);
    assert_true(on_disk(f, secret) > 0); /* the log at least */
    assert_int_equal(store_forget(f->store, &f->err), 0);
    assert_int_equal(on_disk(f, secret), 0);
    assert_int_equal(count_keys(f), 20);
    put(f, 100); /* it goes on as before */
    reopen(f);
    assert_int_equal(count_keys(f), 21);
}

/* ---- space set aside -----------------------------------------------------
 */

#define RESERVE (4u << 20)
#define RESERVE_LOG (RESERVE / 4 * 3)

static uint64_t blocks_of(struct fixture *f, const char *name,
                          uint64_t *ret_size)
{
    char *path cleanup(mem_free) = xasprintf("%s/%s", f->dir, name);
    struct stat st = {0};

    if (stat(path, &st) < 0)
        return 0;
    *ret_size = (uint64_t)st.st_size;
    return (uint64_t)st.st_blocks * 512;
}

/* False where the file system cannot set anything aside. */
static bool reserves(struct fixture *f)
{
    if (store_reserve(f->store, RESERVE) > 0)
        return true;
    print_message("# SKIP: the file system cannot reserve space\n");
    return false;
}

static void check_set_aside(struct fixture *f)
{
    uint64_t size = 0, blocks = blocks_of(f, "glovebox.db-wal", &size);

    assert_true(blocks >= RESERVE_LOG);
    blocks = blocks_of(f, "glovebox.db", &size);
    assert_true(blocks >= size + (RESERVE - RESERVE_LOG) / 2);
}

static void D12_space_stays_set_aside_through_forget_and_reopen(void **state)
{
    struct fixture *f = *state;

    if (!reserves(f))
        skip();
    assert_in_range(store_reserve(f->store, RESERVE),
                    RESERVE_LOG + (RESERVE - RESERVE_LOG) / 2, RESERVE);
    check_set_aside(f);
    for (int64_t n = 1; n <= 50; n++)
        put(f, n);
    assert_int_equal(store_forget(f->store, &f->err), 0);
    check_set_aside(f);
    for (int64_t n = 51; n <= 100; n++)
        put(f, n);
    check_set_aside(f);
    /* The next start has it before it asks. */
    reopen(f);
    check_set_aside(f);
    assert_int_equal(count_keys(f), 100);
    assert_int_equal(store_forget(f->store, &f->err), 0);
    assert_true(reserves(f));
    check_set_aside(f);
    put(f, 101);
    reopen(f);
    assert_int_equal(count_keys(f), 101);
}

static void D12_no_reserve_gives_the_space_back(void **state)
{
    struct fixture *f = *state;
    uint64_t size = 0;

    if (!reserves(f))
        skip();
    put(f, 1);
    reopen(f);
    assert_int_equal(store_reserve(f->store, 0), 0);
    put(f, 2);
    assert_int_equal(store_forget(f->store, &f->err), 0);
    assert_int_equal(blocks_of(f, "glovebox.db-wal", &size), 0);
    assert_int_equal(size, 0);
    reopen(f);
    assert_int_equal(count_keys(f), 2);
}

static void D12_the_log_stays_within_what_is_set_aside(void **state)
{
    struct fixture *f = *state;
    char *name cleanup(mem_free) = xmalloc(20001);
    uint64_t size = 0;

    if (!reserves(f))
        skip();
    memset(name, 'n', 20000);
    name[20000] = '\0';
    for (int64_t n = 1; n <= 600; n++) { /* 12 MB in all */
        struct store_tx *tx = begin(f, STORE_WRITE);

        assert_int_equal(put_in(tx, n, name, &f->err), 1);
        commit(f, tx);
        (void)blocks_of(f, "glovebox.db-wal", &size);
        assert_true(size <= RESERVE_LOG);
    }
    assert_true(reserves(f)); /* behind the end of a database that grew */
    check_set_aside(f);
}

static void copy_file(const char *from, const char *to, const char *name);

/* Cut off after its header was taken away, and before the rest was: what is
 * left of the log must not be read. */
static void D12_a_log_that_was_being_emptied_brings_nothing_back(void **state)
{
    static const char nothing[32];
    struct fixture *f = *state;
    struct fixture cut = {.store = NULL};
    char *wal cleanup(mem_free) = NULL;
    int fd;

    if (!reserves(f))
        skip();
    for (int64_t n = 1; n <= 20; n++)
        put(f, n);
    assert_int_equal(store_forget(f->store, &f->err), 0);
    for (int64_t n = 21; n <= 40; n++)
        put(f, n);
    /* Into the database, the log staying as it is. */
    assert_int_equal(sqlite3_wal_checkpoint_v2(
                         ((struct sqlite_store *)f->store)->writer->db, "main",
                         SQLITE_CHECKPOINT_FULL, NULL, NULL),
                     SQLITE_OK);
    assert_non_null(scratch_dir(cut.dir, sizeof(cut.dir), "test_store"));
    copy_file(f->dir, cut.dir, "glovebox.db");
    copy_file(f->dir, cut.dir, "glovebox.db-wal");
    wal = xasprintf("%s/glovebox.db-wal", cut.dir);
    fd = open(wal, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, nothing, sizeof(nothing), 0), 32);
    (void)close(fd);
    must_open(&cut);
    assert_int_equal(count_keys(&cut), 40);
    put(&cut, 41);
    reopen(&cut);
    assert_int_equal(count_keys(&cut), 41);
    shut(&cut);
    dir_remove(cut.dir);
}

static void forget_beside_a_reader_is_busy_and_harms_nobody(void **state)
{
    struct fixture *f = *state;
    struct store_tx *reader;

    put(f, 1);
    reader = begin(f, STORE_READ);
    put(f, 2); /* the reader needs the log as it was */
    assert_int_equal(store_forget(f->store, &f->err), -ERR_BUSY);
    put(f, 3);
    store_rollback(&reader);
    assert_int_equal(store_forget(f->store, &f->err), 0);
    assert_int_equal(count_keys(f), 3);
}

static void D6_damage_is_found_at_start(void **state)
{
    struct fixture *f = *state;
    char *path cleanup(mem_free) = xasprintf("%s/glovebox.db", f->dir);
    int fd cleanup(fd_close) = -1;
    char junk[512];
    off_t size;

    for (int64_t n = 1; n <= 3; n++)
        put(f, n);
    shut(f);
    fd = open(path, O_RDWR | O_CLOEXEC);
    size = lseek(fd, 0, SEEK_END);
    memset(junk, 0x5a, sizeof(junk));
    for (off_t at = 4096; at < size; at += 4096)
        assert_int_equal(pwrite(fd, junk, sizeof(junk), at), sizeof(junk));
    assert_int_equal(store_open(&(struct store_settings){.data_dir = f->dir},
                                &f->store, &f->err),
                     -ERR_CORRUPT);
    assert_non_null(strstr(f->err.hint, "backup"));
    assert_null(f->store);
}

static void open_garbage_fails(void **state)
{
    struct fixture *f = *state;
    char *path cleanup(mem_free) = xasprintf("%s/glovebox.db", f->dir);
    int fd cleanup(fd_close) = -1;

    shut(f);
    fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_int_equal(dprintf(fd, "%0200d", 7), 200);
    assert_int_equal(store_open(&(struct store_settings){.data_dir = f->dir},
                                &f->store, &f->err),
                     -ERR_CORRUPT);
}

/* What was acknowledged is there, and the lock is not. */
static void D1_D7_open_after_a_kill(void **state)
{
    struct fixture *f = *state;
    pid_t pid;
    int status;

    shut(f);
    pid = fork();
    if (pid == 0) {
        struct store_tx *tx = NULL;

        if (store_open(&(struct store_settings){.data_dir = f->dir}, &f->store,
                       &f->err) < 0 ||
            try_put(f->store, 1, &f->err) < 0 ||
            store_begin(f->store, STORE_WRITE, "x", &tx, &f->err) < 0 ||
            put_in(tx, 2, "n", &f->err) < 0)
            _exit(1);
        (void)raise(SIGKILL); /* in the midst of it, nothing closed */
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    must_open(f);
    assert_int_equal(count_keys(f), 1);
    assert_int_equal(number(f, "SELECT count(*) FROM keys"
                               " WHERE id = 'key_1'"),
                     1);
}

/* ---- migrations --------------------------------------------------------- */

/* A new directory with a database as version `version` left it, keys
 * included if it had them. */
static void build_version(struct fixture *f, int version)
{
    char *note cleanup(mem_free) =
        xasprintf("CREATE TABLE schema_version (one INTEGER PRIMARY KEY"
                  " CHECK (one = 1), version INTEGER NOT NULL) STRICT;"
                  "INSERT INTO schema_version VALUES (1, %d)",
                  version);

    shut(f);
    dir_remove(f->dir);
    assert_int_equal(mkdir(f->dir, 0700), 0);
    sql(f, "PRAGMA journal_mode = WAL");
    if (version > 0)
        sql(f, note);
    for (int i = 0; i < version; i++)
        sql(f, store_migrations[i]);
    if (version > 0)
        sql(f, "INSERT INTO keys (id, hash, tenant, name, scopes,"
               " created_at_ms) VALUES ('key_1', randomblob(32), 't', 'n', 3,"
               " 1), ('key_2', randomblob(32), 't', 'n', 3, 2)");
    if (version > 1)
        sql(f, "INSERT INTO workspaces (id, tenant, name, owner,"
               " created_at_ms, updated_at_ms) VALUES ('ws_1', 't', 'n',"
               " 'key_1', 1, 1); INSERT INTO members VALUES ('ws_1', '*', 1,"
               " 1, 'key_1')");
}

/* Everything of the schema in one text; owned by caller. */
static char *schema(struct fixture *f)
{
    struct store_tx *tx = begin(f, STORE_READ);
    struct store_rows *row cleanup(store_rows_done) = NULL;
    char *text;

    assert_int_equal(store_one(tx, &row, &f->err,
                               "SELECT group_concat(sql, ';') FROM (SELECT sql"
                               " FROM sqlite_schema WHERE name NOT LIKE"
                               " 'schema%' ORDER BY name)",
                               ""),
                     1);
    text = xstrdup(store_text(row, 0));
    store_rollback(&tx);
    return text;
}

static void D7_open_migrates_from_every_version(void **state)
{
    struct fixture *f = *state;
    char *want cleanup(mem_free) = schema(f);

    assert_true(store_migrations_count >= 3);
    for (int version = 0; version <= store_migrations_count; version++) {
        char *got cleanup(mem_free) = NULL;

        build_version(f, version);
        must_open(f);
        assert_int_equal(number(f, "SELECT version FROM schema_version"),
                         store_migrations_count);
        assert_int_equal(count_keys(f), version > 0 ? 2 : 0);
        assert_int_equal(number(f, "SELECT count(*) FROM members"),
                         version > 1 ? 1 : 0);
        got = schema(f);
        assert_string_equal(got, want);
        assert_int_equal(store_check(f->store, &f->err), 0);
        put(f, 3);
        reopen(f);
        assert_int_equal(count_keys(f), version > 0 ? 3 : 1);
    }
}

/* A session of pool 'p', by numbers: its id and its identifier. */
static int put_session(struct fixture *f, int id, const char *identifier)
{
    struct store_tx *tx = begin(f, STORE_WRITE);
    char *name cleanup(mem_free) = xasprintf("sess_%d", id);
    int r = store_exec(tx, &f->err,
                       "INSERT INTO sessions (id, tenant, owner, owner_admin,"
                       " workspace, pool, runtime, memory_bytes,"
                       " scratch_bytes, scratch_inodes, processes, cores,"
                       " descriptors, interpreter, created_at_ms, used_at_ms,"
                       " identifier) VALUES (?1, 't', 'key_1', 0, 'ws_1', 'p',"
                       " 'r', 1, 1, 1, 1, 1, 1, 1, ?2, 1, ?3)",
                       "tit", name, (int64_t)id, identifier);

    if (r > 0)
        r = store_commit(&tx, &f->err);
    store_rollback(&tx);
    return r;
}

/* What older versions wrote is as if made by this one. */
static void D7_migrated_rows_are_as_made_now(void **state)
{
    struct fixture *f = *state;
    int version = 0;

    while (!strstr(store_migrations[version], "sessions_by_identifier"))
        version++;
    build_version(f, version);
    sql(f, "INSERT INTO sessions (id, tenant, owner, owner_admin, workspace,"
           " pool, runtime, memory_bytes, scratch_bytes, scratch_inodes,"
           " processes, cores, descriptors, interpreter, created_at_ms,"
           " used_at_ms) VALUES"
           " ('sess_1', 't', 'k', 0, 'ws_1', 'p', 'r', 1, 1, 1, 1, 1, 1, 1,"
           " 1, 1),"
           " ('sess_2', 't', 'k', 0, 'ws_1', 'p', 'r', 1, 1, 1, 1, 1, 1, 1,"
           " 2, 2);"
           "INSERT INTO commits (id, workspace, seq, kind, author, at_ms,"
           " base, execution) VALUES"
           " ('cmt_1', 'ws_1', 1, 'execution', 'k', 100, 0, 'exec_1'),"
           " ('cmt_2', 'ws_1', 2, 'upload', 'k', 200, 1, '');"
           "INSERT INTO files (id, workspace, path, alive, version, number,"
           " seq, sha256, size, mime, executable, modified_at_ms) VALUES"
           " ('file_1', 'ws_1', 'a', 1, 'ver_2', 2, 2, 'x', 1, 'm', 0, 200),"
           " ('file_2', 'ws_1', 'b', 1, 'ver_3', 1, 2, 'x', 1, 'm', 0, 200),"
           " ('file_3', 'ws_1', 'c', 1, 'ver_9', 1, 2, 'x', 1, 'm', 0, 300);"
           "INSERT INTO versions (id, file, workspace, path, number,"
           " commit_id, seq, change, sha256, size, mime, executable) VALUES"
           " ('ver_1', 'file_1', 'ws_1', 'a', 1, 'cmt_1', 1, 'created', 'x',"
           " 1, 'm', 0),"
           " ('ver_2', 'file_1', 'ws_1', 'a', 2, 'cmt_2', 2, 'modified', 'x',"
           " 1, 'm', 0),"
           " ('ver_3', 'file_2', 'ws_1', 'b', 1, 'cmt_2', 2, 'created', 'x',"
           " 1, 'm', 0)");
    must_open(f);
    assert_int_equal(number(f, "SELECT count(*) FROM sessions WHERE"
                               " identifier = '' AND cooldown_s = 0"
                               " AND sharing = 2"),
                     2);
    /* As of its first version, whoever made that. */
    assert_int_equal(
        number(f, "SELECT created_at_ms FROM files WHERE id = 'file_1'"), 100);
    assert_int_equal(
        number(f, "SELECT by_execution FROM files WHERE id = 'file_1'"), 1);
    assert_int_equal(
        number(f, "SELECT created_at_ms FROM files WHERE id = 'file_2'"), 200);
    assert_int_equal(
        number(f, "SELECT by_execution FROM files WHERE id = 'file_2'"), 0);
    assert_int_equal(
        number(f, "SELECT created_at_ms FROM files WHERE id = 'file_3'"), 300);
    /* Any number have no identifier; one has a given one. */
    assert_int_equal(put_session(f, 3, ""), 0);
    assert_int_equal(put_session(f, 4, "me"), 0);
    assert_int_equal(put_session(f, 5, "me"), -ERR_CONFLICT);
    assert_int_equal(put_session(f, 6, "Me"), 0);
}

/* Cut at every write and sync: the next start gets there all the same. */
static void D5_D7_open_after_a_failed_migration(void **state)
{
    struct fixture *f = *state;

    for (unsigned n = 1;; n += SPARSE + n / 8) {
        int r;

        disk_disarm();
        build_version(f, 1);
        disk_arm(DISK_WRITE | DISK_SYNC | DISK_TRUNCATE, n, true, SQLITE_FULL);
        r = store_open(&(struct store_settings){.data_dir = f->dir}, &f->store,
                       &f->err);
        if (disk.failed == 0) {
            assert_int_equal(r, 0);
            assert_true(n > 10);
            break;
        }
        if (r == 0) /* a checkpoint can fail and do no harm */
            shut(f);
        assert_null(f->store);
        disk_disarm();
        must_open(f);
        assert_int_equal(count_keys(f), 2);
        assert_int_equal(number(f, "SELECT version FROM schema_version"),
                         store_migrations_count);
    }
}

/* ---- full text ---------------------------------------------------------- */

static void words_are_found(void **state)
{
    struct fixture *f = *state;
    struct store_tx *tx = begin(f, STORE_WRITE);
    struct store_rows *row = NULL;

    for (int64_t n = 1; n <= 2; n++)
        assert_int_equal(
            store_exec(tx, &f->err,
                       "INSERT INTO words (rowid, path, body)"
                       " VALUES (?1, ?2, ?3)",
                       "itt", n, n == 1 ? "plan.txt" : "other.txt",
                       n == 1 ? "meet at the caf\xc3\xa9 at noon" : "noon"),
            1);
    commit(f, tx);
    reopen(f);
    tx = begin(f, STORE_READ);
    assert_int_equal(store_one(tx, &row, &f->err,
                               "SELECT path, snippet(words, 1, '[', ']', '',"
                               " 4) FROM words WHERE words MATCH ?1"
                               " ORDER BY rank",
                               "t", "body : CAFE"),
                     1);
    assert_string_equal(store_text(row, 0), "plan.txt");
    assert_non_null(strstr(store_text(row, 1), "[caf\xc3\xa9]"));
    store_rows_done(&row);
    commit(f, tx);
    tx = begin(f, STORE_WRITE);
    assert_int_equal(
        store_exec(tx, &f->err, "DELETE FROM words WHERE rowid = 1", ""), 1);
    commit(f, tx);
    assert_int_equal(
        number(f, "SELECT count(*) FROM words WHERE words MATCH 'noon'"), 1);
    assert_int_equal(store_check(f->store, &f->err), 0);
}

/* ---- backup and check --------------------------------------------------- */

struct course {
    struct fixture *f;
    uint64_t done, total;
    unsigned calls;
    int64_t next;
};

/* Writes between the steps, as a service under load does. */
static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct course *c = ctx;

    assert_true(done >= c->done && done <= total);
    c->done = done;
    c->total = total;
    c->calls++;
    put(c->f, c->next++);
}

static void D9_backup_under_load_is_one_commit(void **state)
{
    struct fixture *f = *state, other = {.store = NULL};
    char *path cleanup(mem_free) = xasprintf("%s/copy.db", f->dir);
    char *moved cleanup(mem_free) = NULL;
    char *name cleanup(mem_free) = xmalloc(100001);
    struct course c = {.f = f, .next = 1000};
    struct stat st;

    memset(name, 'n', 100000);
    name[100000] = '\0';
    for (int64_t n = 1; n <= 50; n++) {
        struct store_tx *tx = begin(f, STORE_WRITE);

        assert_int_equal(put_in(tx, n, name, &f->err), 1);
        commit(f, tx);
    }
    assert_int_equal(store_backup(f->store, path, on_progress, &c, &f->err),
                     0);
    assert_true(c.calls >= 4);
    assert_int_equal(c.done, c.total);
    assert_int_equal(count_keys(f), 50 + c.calls);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);

    assert_non_null(scratch_dir(other.dir, sizeof(other.dir), "test_store"));
    moved = xasprintf("%s/glovebox.db", other.dir);
    assert_int_equal(rename(path, moved), 0);
    must_open(&other);
    assert_int_equal(store_check(other.store, &f->err), 0);
    assert_int_equal(count_keys(&other), 50); /* as of when it began */
    put(&other, 7000);
    shut(&other);
    dir_remove(other.dir);
}

static void backup_replaces_nothing(void **state)
{
    struct fixture *f = *state;
    char *path cleanup(mem_free) = xasprintf("%s/copy.db", f->dir);
    char *nowhere cleanup(mem_free) = xasprintf("%s/no/copy.db", f->dir);

    put(f, 1);
    assert_int_equal(store_backup(f->store, path, NULL, NULL, &f->err), 0);
    assert_int_equal(store_backup(f->store, path, NULL, NULL, &f->err),
                     -ERR_CONFLICT);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(store_backup(f->store, nowhere, NULL, NULL, &f->err),
                     -ERR_INTERNAL);
    put(f, 2);
}

static void D8_check_finds_damage(void **state)
{
    struct fixture *f = *state;
    char *path cleanup(mem_free) = xasprintf("%s/glovebox.db", f->dir);
    int fd cleanup(fd_close) = -1;
    char junk[64];
    off_t size;

    for (int64_t n = 1; n <= 200; n++)
        put(f, n);
    assert_int_equal(store_check(f->store, &f->err), 0);
    reopen(f); /* all of it is in the file now */
    fd = open(path, O_RDWR | O_CLOEXEC);
    size = lseek(fd, 0, SEEK_END);
    memset(junk, 0x5a, sizeof(junk));
    for (off_t at = 4096; at < size; at += 4096)
        assert_int_equal(pwrite(fd, junk, sizeof(junk), at), sizeof(junk));
    assert_int_equal(store_check(f->store, &f->err), -ERR_CORRUPT);
}

/* ---- a failing disk ----------------------------------------------------- */

static void D4_failed_sync_stops_writing(void **state)
{
    struct fixture *f = *state;
    struct store_tx *tx = NULL;

    put(f, 1);
    disk_arm(DISK_SYNC, 1, true, 0);
    assert_int_equal(try_put(f->store, 2, &f->err), -ERR_UNAVAILABLE);
    disk_disarm();
    assert_false(store_writable(f->store));
    /* A sync that works now proves nothing of the bytes that failed. */
    assert_int_equal(try_put(f->store, 3, &f->err), -ERR_UNAVAILABLE);
    assert_non_null(strstr(f->err.hint, "restart"));
    assert_int_equal(
        store_begin(f->store, STORE_WRITE, "testing", &tx, &f->err),
        -ERR_UNAVAILABLE);
    assert_null(tx);
    assert_int_equal(count_keys(f), 1); /* reading goes on */
    disk.syncs = 0;
    shut(f);
    assert_int_equal(disk.syncs, 0); /* nor does closing write */
    must_open(f);
    assert_true(store_writable(f->store));
    put(f, 4);
    assert_true(count_keys(f) >= 2);
}

/* The commit is in the log and safe; but the next one is refused. */
/* Folds the log at so many frames, fewer than the test writes at once. */
static void fold_early(struct fixture *f, int frames)
{
    ((struct sqlite_store *)f->store)->checkpoint_frames = frames;
}

static void D4_failed_sync_of_a_checkpoint_stops_writing(void **state)
{
    struct fixture *f = *state;
    char *name cleanup(mem_free) = xmalloc(9000001);

    memset(name, 'n', 9000000);
    name[9000000] = '\0';
    for (unsigned n = 1; n <= 3; n++) {
        struct store_tx *tx;
        int r;

        disk_disarm();
        reopen(f);
        fold_early(f, 4000);
        tx = begin(f, STORE_WRITE);
        assert_int_equal(put_in(tx, n, name, &f->err), 1);
        disk_arm(DISK_SYNC, n, false, 0); /* log's head, log, database */
        r = store_commit(&tx, &f->err);
        assert_int_equal(disk.failed, 1);
        assert_int_equal(r, n < 3 ? -ERR_UNAVAILABLE : 0);
        assert_false(store_writable(f->store));
        assert_int_equal(try_put(f->store, 10 + n, &f->err), -ERR_UNAVAILABLE);
    }
    disk_disarm();
    reopen(f);
    assert_int_equal(number(f, "SELECT count(*) FROM keys"
                               " WHERE id = 'key_3'"),
                     1);
    assert_int_equal(store_check(f->store, &f->err), 0);
}

static void D5_full_disk_leaves_the_store_usable(void **state)
{
    struct fixture *f = *state;

    put(f, 1);
    disk_arm(DISK_WRITE, 1, true, SQLITE_FULL);
    assert_int_equal(try_put(f->store, 2, &f->err), -ERR_SPACE);
    assert_non_null(strstr(f->err.message, "full"));
    assert_int_equal(try_put(f->store, 2, &f->err), -ERR_SPACE);
    assert_int_equal(count_keys(f), 1);
    assert_true(store_writable(f->store));
    disk_disarm();
    put(f, 2);
    assert_int_equal(count_keys(f), 2);
}

/* Starting on a full disk: what is there can be read. */
static void D5_D7_open_on_a_full_disk(void **state)
{
    struct fixture *f = *state;
    pid_t pid;
    int status;

    shut(f);
    pid = fork();
    if (pid == 0) { /* leaves a log behind */
        if (store_open(&(struct store_settings){.data_dir = f->dir}, &f->store,
                       &f->err) < 0 ||
            try_put(f->store, 1, &f->err) < 0)
            _exit(1);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    disk_arm(DISK_WRITE, 1, true, SQLITE_FULL);
    must_open(f);
    assert_int_equal(count_keys(f), 1);
    assert_int_equal(try_put(f->store, 2, &f->err), -ERR_SPACE);
    disk_disarm();
    put(f, 2);
}

/* ---- each act of the disk made to fail in turn -------------------------- */

static void copy_file(const char *from, const char *to, const char *name)
{
    char *source cleanup(mem_free) = xasprintf("%s/%s", from, name);
    char *target cleanup(mem_free) = xasprintf("%s/%s", to, name);
    char *bytes cleanup(mem_free) = NULL;
    int fd cleanup(fd_close) = -1;
    size_t len;

    if (fd_read_file(AT_FDCWD, source, 64 << 20, &bytes, &len) < 0)
        return; /* there is no log when it was closed */
    fd = open(target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(fd_write_all(fd, bytes, len), 0);
}

/* The rows n..n+9 are one transaction; 0 or 10 of them may be there. */
#define GROUP 10

static int try_group(struct fixture *f, int64_t n, const char *name)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;

    if (store_begin(f->store, STORE_WRITE, "testing", &tx, &f->err) < 0)
        return -(int)f->err.code;
    for (int64_t i = 0; i < GROUP; i++)
        if (put_in(tx, n + i, name, &f->err) < 0)
            return -(int)f->err.code;
    return store_commit(&tx, &f->err);
}

static int64_t group_size(struct fixture *f, int64_t n)
{
    char *text cleanup(mem_free) =
        xasprintf("SELECT count(*) FROM keys WHERE created_at_ms >= %lld"
                  " AND created_at_ms < %lld",
                  (long long)n, (long long)n + GROUP);

    return number(f, text);
}

static void check_group(struct fixture *f, int64_t n, int result)
{
    int64_t size = group_size(f, n);

    if (result == 0)
        assert_int_equal(size, GROUP); /* acknowledged means there */
    else if (result == -ERR_UNAVAILABLE)
        assert_true(size == 0 || size == GROUP); /* unknown, never a mix */
    else
        assert_int_equal(size, 0); /* said no, and meant it */
}

/* The directory as a power cut would leave it now, opened. */
static void check_crash(struct fixture *f, int64_t n, int result)
{
    struct fixture cut = {.store = NULL};

    assert_non_null(scratch_dir(cut.dir, sizeof(cut.dir), "test_store"));
    copy_file(f->dir, cut.dir, "glovebox.db");
    copy_file(f->dir, cut.dir, "glovebox.db-wal");
    must_open(&cut);
    for (int64_t i = 0; i < n; i += GROUP)
        assert_true(group_size(&cut, i) == GROUP || group_size(&cut, i) == 0);
    check_group(&cut, n, result);
    shut(&cut);
    dir_remove(cut.dir);
}

/* One failure at the how manyth act; false when there are fewer acts. */
static bool fail_once(struct fixture *f, unsigned acts, unsigned at,
                      bool for_good, int code, const char *name, int64_t n)
{
    bool failed;
    int r, again;

    disk_arm(acts, at, for_good, code);
    r = try_group(f, n, name);
    failed = disk.failed > 0;
    disk_disarm();
    if (!failed)
        assert_int_equal(r, 0);
    check_crash(f, n, r);
    again = try_group(f, n + GROUP, name);
    assert_int_equal(again, store_writable(f->store) ? 0 : -ERR_UNAVAILABLE);
    if (r < 0 && r != -ERR_UNAVAILABLE)
        assert_true(store_writable(f->store));
    reopen(f);
    check_group(f, n, r);
    check_group(f, n + GROUP, again);
    return failed;
}

static void fail_each(struct fixture *f, unsigned acts, bool for_good,
                      int code, size_t name_len, unsigned step)
{
    int frames = name_len > 50000 ? 400 : 4000;
    char *name cleanup(mem_free) = xcalloc(1, name_len + 1);
    unsigned at = 1;
    int64_t n = 0;

    memset(name, 'n', name_len);
    for (;;) {
        struct store_tx *tx;

        fold_early(f, frames);
        if (!fail_once(f, acts, at, for_good, code, name, n))
            break;
        tx = begin(f, STORE_WRITE);

        (void)store_exec(tx, &f->err, "DELETE FROM keys", "");
        commit(f, tx);
        at += step * SPARSE;
        n += (int64_t)2 * GROUP;
    }
    assert_true(at > 1);
    assert_int_equal(store_check(f->store, &f->err), 0);
}

static void D2_D4_D5_each_write_fails_once(void **state)
{
    fail_each(*state, DISK_WRITE, false, SQLITE_IOERR_WRITE, 3000, 1);
}

static void D2_D5_disk_is_full_at_each_write(void **state)
{
    fail_each(*state, DISK_WRITE, true, SQLITE_FULL, 3000, 1);
}

static void D2_D4_each_sync_fails_once(void **state)
{
    fail_each(*state, DISK_SYNC, false, 0, 3000, 1);
}

/* Large enough for the log to be written in several pieces. */
static void D2_D4_D5_each_piece_of_a_long_commit_fails(void **state)
{
    fail_each(*state, DISK_WRITE, false, SQLITE_IOERR_WRITE, 45000, 1);
    fail_each(*state, DISK_WRITE, true, SQLITE_FULL, 45000, 1);
}

/* Large enough for the log to be folded at the commit. */
static void D2_D4_D5_a_fold_fails(void **state)
{
    fail_each(*state, DISK_WRITE, false, SQLITE_IOERR_WRITE, 90000, 31);
    fail_each(*state, DISK_WRITE, true, SQLITE_FULL, 90000, 53);
    fail_each(*state, DISK_SYNC, true, 0, 90000, 1);
}

/* A log that cannot be cut to size is only longer than it need be. */
static void D5_each_truncation_fails(void **state)
{
    struct fixture *f = *state;

    for (unsigned at = 1; at <= 3; at++) {
        disk_arm(DISK_TRUNCATE, at, true, 0);
        put(f, at);
        shut(f);
        disk_disarm();
        must_open(f);
        assert_int_equal(count_keys(f), at);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define DISK(name)                                                            \
    cmocka_unit_test_setup_teardown(name, set_up_disk, tear_down_disk)

/* ---- a used directory without its database -------------------------------
 */

static const char *const used[] = {
    "blobs",     "audit.head",     "auth.secret", "audit.secret",
    "admin.key", "audit.sign.key", "vault.key",   "begun.journal"};

static void use(struct fixture *f, const char *name)
{
    char *path cleanup(mem_free) = xasprintf("%s/%s", f->dir, name);
    int fd cleanup(fd_close) = -1;

    if (strcmp(name, "blobs") == 0) {
        assert_int_equal(mkdir(path, 0700), 0);
        return;
    }
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "x", 1), 1);
}

static void unuse(struct fixture *f)
{
    for (size_t i = 0; i < ARRAY_SIZE(used); i++) {
        char *path cleanup(mem_free) = xasprintf("%s/%s", f->dir, used[i]);

        (void)remove(path);
    }
}

static void remove_file(struct fixture *f, const char *name)
{
    char *path cleanup(mem_free) = xasprintf("%s/%s", f->dir, name);

    assert_int_equal(unlink(path), 0);
}

/* Refused, with what was found and what to do; the directory is as before. */
static void refused(struct fixture *f, const char *words, const char *found)
{
    char *db cleanup(mem_free) = xasprintf("%s/glovebox.db", f->dir);
    struct stat before, after;
    bool there = lstat(db, &before) == 0;

    assert_int_equal(store_open(&(struct store_settings){.data_dir = f->dir},
                                &f->store, &f->err),
                     -ERR_CORRUPT);
    if (!strstr(f->err.message, words) || !strstr(f->err.message, found))
        fail_msg("%s", f->err.message);
    assert_non_null(strstr(f->err.hint, "restore a backup"));
    assert_non_null(strstr(f->err.hint, "empty directory"));
    assert_int_equal(lstat(db, &after) == 0, there);
    if (there)
        assert_int_equal(before.st_size, after.st_size);
}

static void D11_a_used_directory_without_its_database_is_refused(void **state)
{
    struct fixture *f = *state;

    shut(f);
    remove_file(f, "glovebox.db");
    for (size_t i = 0; i < ARRAY_SIZE(used); i++) {
        use(f, used[i]);
        refused(f, "glovebox.db is missing", used[i]);
        sql(f, "SELECT 1"); /* a file without a byte */
        refused(f, "no content", used[i]);
        remove_file(f, "glovebox.db");
        unuse(f);
    }
    must_open(f); /* with none of them it is a new directory */
    put(f, 1);
    for (size_t i = 0; i < ARRAY_SIZE(used); i++)
        use(f, used[i]);
    reopen(f); /* and with all of them and its database a used one */
    assert_int_equal(count_keys(f), 1);
    unuse(f);
}

static void D11_a_log_without_its_database_is_left_alone(void **state)
{
    struct fixture *f = *state;
    char *wal cleanup(mem_free) = xasprintf("%s/glovebox.db-wal", f->dir);
    char *db cleanup(mem_free) = xasprintf("%s/glovebox.db", f->dir);
    char *bytes cleanup(mem_free) = NULL;
    size_t len;
    struct stat st;
    int fd cleanup(fd_close) = -1;

    assert_int_equal(fd_read_file(AT_FDCWD, wal, 64 << 20, &bytes, &len), 0);
    shut(f);
    fd = open(wal, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(fd_write_all(fd, bytes, len), 0);
    assert_int_equal(unlink(db), 0);
    refused(f, "glovebox.db is missing", "glovebox.db-wal");
    assert_int_equal(stat(wal, &st), 0);
    assert_int_equal(st.st_size, len);
    assert_int_equal(unlink(wal), 0);
    must_open(f);
}

static void D11_an_empty_database_in_a_used_directory_is_refused(void **state)
{
    static const char *const empty[] = {
        "CREATE TABLE x (a); DROP TABLE x",
        "PRAGMA journal_mode = WAL",
        /* a first start that was cut short */
        "CREATE TABLE schema_version (one INTEGER PRIMARY KEY,"
        " version INTEGER); INSERT INTO schema_version VALUES (1, 0)",
    };
    struct fixture *f = *state;

    shut(f);
    for (size_t i = 0; i < ARRAY_SIZE(empty); i++) {
        remove_file(f, "glovebox.db");
        sql(f, empty[i]);
        use(f, "blobs");
        refused(f, "it is empty", "blobs");
        unuse(f);
        must_open(f); /* where nothing else is, it may become one */
        shut(f);
    }
    remove_file(f, "glovebox.db");
    must_open(f);
}

/* All that a young store has is in its log. */
static void D11_a_young_store_without_its_log_is_refused(void **state)
{
    struct fixture *f = *state;
    char *db cleanup(mem_free) = xasprintf("%s/glovebox.db", f->dir);
    char *bytes cleanup(mem_free) = NULL;
    size_t len;
    int fd cleanup(fd_close) = -1;

    put(f, 1);
    assert_int_equal(fd_read_file(AT_FDCWD, db, 64 << 20, &bytes, &len), 0);
    shut(f);
    fd = open(db, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_int_equal(fd_write_all(fd, bytes, len), 0);
    use(f, "audit.secret");
    refused(f, "glovebox.db-wal is missing", "audit.secret");
    unuse(f);
    must_open(f);
}

static void D11_a_database_of_another_program_is_refused(void **state)
{
    struct fixture *f = *state;

    shut(f);
    remove_file(f, "glovebox.db");
    sql(f, "CREATE TABLE theirs (a)");
    assert_int_equal(store_open(&(struct store_settings){.data_dir = f->dir},
                                &f->store, &f->err),
                     -ERR_CORRUPT);
    assert_non_null(strstr(f->err.message, "not a database of Glovebox"));
    sql(f, "SELECT a FROM theirs");
    remove_file(f, "glovebox.db");
    must_open(f);
}

static int look(struct store *s, void *ctx, struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *row cleanup(store_rows_done) = NULL;

    assert_int_equal(store_begin(s, STORE_READ, "testing", &tx, err), 0);
    assert_int_equal(store_one(tx, &row, err, "SELECT count(*) FROM keys", ""),
                     1);
    *(int64_t *)ctx = store_int(row, 0);
    return error_set(err, ERR_CORRUPT, "not this one");
}

/* What a check refuses is as it was, its log included. */
static void D11_a_refused_database_keeps_its_log(void **state)
{
    struct fixture *f = *state;
    char *wal cleanup(mem_free) = xasprintf("%s/glovebox.db-wal", f->dir);
    char *bytes cleanup(mem_free) = NULL;
    size_t len;
    struct stat st;
    int64_t seen = 0;
    char id[STORE_ID];
    int fd cleanup(fd_close) = -1;

    (void)snprintf(id, sizeof(id), "%s", store_id(f->store));
    assert_int_equal(strlen(id), STORE_ID - 1);
    reopen(f); /* what was before is in the database */
    assert_string_equal(store_id(f->store), id);
    put(f, 1);
    assert_int_equal(fd_read_file(AT_FDCWD, wal, 64 << 20, &bytes, &len), 0);
    assert_true(len > 0);
    shut(f);
    sql(f, "DELETE FROM keys");
    fd = open(wal, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(fd_write_all(fd, bytes, len), 0);
    assert_int_equal(store_open(&(struct store_settings){.data_dir = f->dir,
                                                         .check = look,
                                                         .check_ctx = &seen},
                                &f->store, &f->err),
                     -ERR_CORRUPT);
    assert_int_equal(seen, 1);
    assert_int_equal(stat(wal, &st), 0);
    assert_int_equal(st.st_size, len);
    must_open(f);
    assert_int_equal(count_keys(f), 1);
}

/* ---- several transactions, one sync --------------------------------------
 */

#define MEMBERS 16

struct member {
    pthread_t thread;
    struct store *store;
    int64_t n;
    bool undo;   /* it takes its own back */
    bool job;    /* it may be done by another */
    bool breaks; /* its statement fails, and with it the transaction */
    bool again;  /* these two not the first time */
    unsigned calls;
    int result;
    struct error err;
};

static int do_job(struct store_tx *tx, void *arg, struct error *err)
{
    struct member *m = arg;
    int r = put_in(tx, m->n, "n", err) == 1 ? 0 : -1;

    if (++m->calls == 1 && m->again)
        return r;
    if (r == 0 && m->breaks)
        r = store_exec(tx, err, "INSERT INTO nothing VALUES (1)", "") < 0 ? 0
                                                                          : -1;
    return r == 0 && m->undo ? 1 : r;
}

static void *be_member(void *arg)
{
    struct member *m = arg;
    struct store_tx *tx cleanup(store_rollback) = NULL;

    if (m->job) {
        m->result = store_write(m->store, "testing", do_job, m, &m->err);
        return NULL;
    }
    m->result = store_begin(m->store, STORE_WRITE, "testing", &tx, &m->err);
    if (m->result == 0)
        m->result = put_in(tx, m->n, "n", &m->err) == 1 ? 0 : -1;
    if (m->result == 0 && !m->undo)
        m->result = store_commit(&tx, &m->err);
    return NULL;
}

static size_t waiting(struct fixture *f)
{
    struct sqlite_gate *g = &((struct sqlite_store *)f->store)->gate;
    size_t count = 0;

    mutex_lock(&g->lock);
    for (struct sqlite_turn *t = g->turns; t; t = t->next)
        count++;
    mutex_unlock(&g->lock);
    return count;
}

enum mix {
    TURNS, /* each has the connection in its turn */
    JOBS,  /* nobody needs it */
    MIXED,
    ALL_JOBS, /* nor does who comes first: it can be done again as well */
    MIXES,
};

struct first {
    struct fixture *f;
    struct member *members;
    enum mix mix;
    unsigned calls;
};

/* One after the other, so that it is known who is whose turn. */
static void start_members(const struct first *first)
{
    for (size_t i = 0; i < MEMBERS; i++) {
        struct member *m = &first->members[i];

        m->store = first->f->store;
        m->n = (int64_t)i + 1;
        m->job = first->mix == JOBS || first->mix == ALL_JOBS ||
                 (first->mix == MIXED && i % 3 != 1);
        assert_int_equal(pthread_create(&m->thread, NULL, be_member, m), 0);
        for (unsigned k = 0; waiting(first->f) <= i && k < 10000; k++)
            (void)usleep(1000);
        assert_int_equal(waiting(first->f), i + 1);
    }
}

static int do_first(struct store_tx *tx, void *arg, struct error *err)
{
    struct first *first = arg;

    if (put_in(tx, 0, "n", err) != 1)
        return -1;
    if (first->calls++ == 0)
        start_members(first);
    return 0;
}

/* All wait behind a transaction of ours, which then commits: rows 0 to
 * MEMBERS. Returns what our commit returned. */
static int run_group(struct fixture *f, struct member *members, enum mix mix)
{
    struct first first = {.f = f, .members = members, .mix = mix};
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r;

    if (mix == ALL_JOBS) {
        r = store_write(f->store, "testing", do_first, &first, &f->err);
    } else {
        tx = begin(f, STORE_WRITE);
        assert_int_equal(do_first(tx, &first, &f->err), 0);
        r = store_commit(&tx, &f->err);
    }
    for (size_t i = 0; i < MEMBERS; i++)
        assert_int_equal(pthread_join(members[i].thread, NULL), 0);
    return r;
}

static void group_shares_syncs(struct fixture *f, enum mix mix)
{
    struct member members[MEMBERS] = {0};
    unsigned before = disk.syncs;

    assert_int_equal(run_group(f, members, mix), 0);
    for (size_t i = 0; i < MEMBERS; i++)
        assert_int_equal(members[i].result, 0);
    /* At least one; on a slow machine a group may end early. */
    assert_in_range(disk.syncs - before, 1, MEMBERS);
    reopen(f);
    assert_int_equal(count_keys(f), MEMBERS + 1);
}

static void group_member_takes_back_only_its_own(struct fixture *f,
                                                 enum mix mix)
{
    struct member members[MEMBERS] = {0};

    members[3].undo = members[MEMBERS - 1].undo = true;
    assert_int_equal(run_group(f, members, mix), 0);
    for (size_t i = 0; i < MEMBERS; i++)
        assert_int_equal(members[i].result, 0);
    reopen(f);
    assert_int_equal(count_keys(f), MEMBERS + 1 - 2);
    assert_int_equal(
        number(f, "SELECT count(*) FROM keys WHERE id IN ('key_4', 'key_16')"),
        0);
    put(f, 4);
}

/* A statement that cannot be: what it was part of is not kept, the rest is. */
static void group_outlives_what_breaks(struct fixture *f, enum mix mix)
{
    struct member members[MEMBERS] = {0};

    members[0].breaks = members[5].breaks = mix != TURNS;
    assert_int_equal(run_group(f, members, mix), 0);
    for (size_t i = 0; i < MEMBERS; i++)
        assert_int_equal(members[i].result,
                         members[i].breaks ? -ERR_INTERNAL : 0);
    reopen(f);
    assert_int_equal(count_keys(f), MEMBERS + 1 - (mix == TURNS ? 0 : 2));
}

/* D4: whoever shared the sync that failed is told, and so are all after. */
static void group_fails_with_its_sync(struct fixture *f, enum mix mix)
{
    struct member members[MEMBERS] = {0};

    members[2].undo = true; /* it kept nothing, so nothing failed for it */
    disk_arm(DISK_SYNC, 1, true, SQLITE_IOERR_FSYNC);
    assert_int_equal(run_group(f, members, mix), -ERR_UNAVAILABLE);
    for (size_t i = 0; i < MEMBERS; i++)
        if (i != 2)
            assert_int_equal(members[i].result, -ERR_UNAVAILABLE);
    assert_false(store_writable(f->store));
}

static void group_on_a_full_disk_loses_nothing_said(struct fixture *f,
                                                    enum mix mix)
{
    struct member members[MEMBERS] = {0};
    int64_t said = 0;

    disk_arm(DISK_WRITE, 1, true, SQLITE_FULL);
    said += run_group(f, members, mix) == 0;
    for (size_t i = 0; i < MEMBERS; i++)
        said += members[i].result == 0;
    assert_int_equal(said, 0);
    disk_disarm();
    assert_true(store_writable(f->store));
    assert_int_equal(count_keys(f), 0);
    put(f, 1);
    reopen(f);
    assert_int_equal(count_keys(f), 1);
}

static int bar(struct store_tx *tx, void *ctx, struct error *err)
{
    (void)tx;
    (void)ctx;
    return error_set(err, ERR_SPACE, "no room for the bytes");
}

static void group_is_barred_with_a_reason(struct fixture *f, enum mix mix)
{
    struct member members[MEMBERS] = {0};
    struct store_hook hook = {.before = bar};

    store_hook_add(f->store, &hook);
    assert_int_equal(run_group(f, members, mix), -ERR_SPACE);
    store_hook_remove(f->store, &hook);
    for (size_t i = 0; i < MEMBERS; i++) {
        assert_int_equal(members[i].result, -ERR_SPACE);
        assert_string_equal(members[i].err.message, "no room for the bytes");
    }
    assert_int_equal(count_keys(f), 0);
    put(f, 1);
}

/* ---- hooks ---------------------------------------------------------------
 */

struct heard {
    char text[32]; /* what was called, in order */
    size_t len;
    int fails; /* what `before` answers */
};

static void hear(struct heard *h, char what)
{
    assert_true(h->len < sizeof(h->text) - 1);
    h->text[h->len++] = what;
}

static int hear_before(struct store_tx *tx, void *ctx, struct error *err)
{
    struct heard *h = ctx;

    assert_non_null(tx);
    hear(h, 'b');
    return h->fails ? error_set(err, ERR_SPACE, "not now") : 0;
}

static void hear_after(void *ctx, bool kept)
{
    hear(ctx, kept ? 'k' : 'l');
}

static void hooks_hear_of_each_commit_in_order(void **state)
{
    struct fixture *f = *state;
    struct heard heard[3] = {{.fails = 0}};
    struct store_hook hooks[3];

    for (size_t i = 0; i < 3; i++) {
        hooks[i] = (struct store_hook){
            .before = hear_before, .after = hear_after, .ctx = &heard[i]};
        store_hook_add(f->store, &hooks[i]);
    }
    put(f, 1);
    heard[1].fails = 1;
    {
        struct store_tx *tx = begin(f, STORE_WRITE);

        assert_int_equal(put_in(tx, 2, "n", &f->err), 1);
        assert_int_equal(store_commit(&tx, &f->err), -ERR_SPACE);
    }
    assert_string_equal(heard[0].text, "bkbl");
    assert_string_equal(heard[1].text, "bkbl");
    assert_string_equal(heard[2].text, "bk"); /* it was not asked */
    store_hook_remove(f->store, &hooks[1]);
    store_hook_remove(f->store, &hooks[1]); /* twice is no harm */
    put(f, 3);
    assert_string_equal(heard[0].text, "bkblbk");
    assert_string_equal(heard[1].text, "bkbl");
    assert_string_equal(heard[2].text, "bkbk");
    store_hook_remove(f->store, &hooks[0]);
    store_hook_remove(f->store, &hooks[2]);
    assert_int_equal(count_keys(f), 2);
}

struct churn {
    struct fixture *f;
    atomic_bool stop;
    int64_t puts;
};

static void *churn_commits(void *arg)
{
    struct churn *c = arg;

    while (!atomic_load(&c->stop))
        put(c->f, ++c->puts);
    return NULL;
}

static int count_calls(struct store_tx *tx, void *ctx, struct error *err)
{
    (void)tx;
    (void)err;
    ++*(unsigned *)ctx;
    return 0;
}

/* A hook and its context can go while others commit: after the removal it is
 * neither running nor called again. */
static void hook_goes_while_others_commit(void **state)
{
    struct churn churn = {.f = *state};
    pthread_t thread;
    unsigned heard = 0;

    assert_int_equal(pthread_create(&thread, NULL, churn_commits, &churn), 0);
    for (unsigned i = 0; i < 2000 && heard < 20; i++) {
        unsigned *calls = xcalloc(1, sizeof(*calls));
        struct store_hook *hook = xcalloc(1, sizeof(*hook));

        *hook = (struct store_hook){.before = count_calls, .ctx = calls};
        store_hook_add(churn.f->store, hook);
        (void)usleep(1000);
        store_hook_remove(churn.f->store, hook);
        heard += *calls;
        free(hook);
        free(calls);
    }
    atomic_store(&churn.stop, true);
    (void)pthread_join(thread, NULL);
    assert_true(heard > 0);
}

/* ---- done again, because one of them was taken back ---------------------
 */

/* However slow the machine is, all are of one group. */
static void one_group(struct fixture *f)
{
    ((struct sqlite_store *)f->store)->group_ns = UINT64_MAX;
}

static void group_is_done_again_without_the_one(void **state)
{
    struct fixture *f = *state;
    struct member members[MEMBERS] = {0};

    one_group(f);
    members[4].undo = true;
    assert_int_equal(run_group(f, members, ALL_JOBS), 0);
    for (size_t i = 0; i < MEMBERS; i++) {
        assert_int_equal(members[i].result, 0);
        assert_int_equal(members[i].calls, i < 4 ? 2 : 1);
    }
    reopen(f);
    assert_int_equal(count_keys(f), MEMBERS);
    assert_int_equal(number(f, "SELECT count(*) FROM keys WHERE id = 'key_5'"),
                     0);
}

static int do_nothing(struct store_tx *tx, void *arg, struct error *err)
{
    (void)tx;
    (void)arg;
    return error_set(err, ERR_CONFLICT, "not this time");
}

static void *refuse_one(void *arg)
{
    struct member *m = arg;

    m->result = store_write(m->store, "testing", do_nothing, m, &m->err);
    return NULL;
}

static int do_before_refused(struct store_tx *tx, void *arg, struct error *err)
{
    struct first *first = arg;
    struct member *m = first->members;
    int r = put_in(tx, 0, "n", err) == 1 ? 0 : -1;

    if (first->calls++ == 0) {
        m->store = first->f->store;
        assert_int_equal(pthread_create(&m->thread, NULL, refuse_one, m), 0);
        for (unsigned k = 0; waiting(first->f) == 0 && k < 10000; k++)
            (void)usleep(1000);
    }
    return r;
}

static void group_goes_on_when_the_refused_changed_nothing(void **state)
{
    struct fixture *f = *state;
    struct member refused = {0};
    struct first first = {.f = f, .members = &refused};

    one_group(f);
    assert_int_equal(
        store_write(f->store, "testing", do_before_refused, &first, &f->err),
        0);
    assert_int_equal(pthread_join(refused.thread, NULL), 0);
    assert_int_equal(refused.result, -ERR_CONFLICT);
    assert_string_equal(refused.err.message, "not this time");
    assert_int_equal(first.calls, 1);
    reopen(f);
    assert_int_equal(count_keys(f), 1);
}

/* The second time is not like the first: it is judged by that. */
static void group_member_may_fail_when_done_again(void **state)
{
    struct fixture *f = *state;
    struct member members[MEMBERS] = {0};

    one_group(f);
    members[1].breaks = members[1].again = true;
    members[3].undo = members[3].again = true;
    members[6].undo = true;
    assert_int_equal(run_group(f, members, ALL_JOBS), 0);
    for (size_t i = 0; i < MEMBERS; i++)
        assert_int_equal(members[i].result, i == 1 ? -ERR_INTERNAL : 0);
    assert_int_equal(members[0].calls, 4); /* for 6, without 1, without 3 */
    assert_int_equal(members[1].calls, 2);
    assert_int_equal(members[2].calls, 3);
    assert_int_equal(members[7].calls, 1);
    reopen(f);
    assert_int_equal(count_keys(f), MEMBERS + 1 - 3);
    assert_int_equal(number(f, "SELECT count(*) FROM keys WHERE id IN"
                               " ('key_2', 'key_4', 'key_7')"),
                     0);
}

/* Each on a store of its own, however its members come. */
static void in_every_mix(void **state,
                         void (*test)(struct fixture *f, enum mix mix))
{
    for (enum mix mix = TURNS; mix < MIXES; mix++) {
        if (mix > TURNS) {
            assert_int_equal(tear_down_disk(state), 0);
            assert_int_equal(set_up_disk(state), 0);
        }
        test(*state, mix);
        disk_disarm();
    }
}

#define GROUP_TEST(name)                                                      \
    static void name##_in_every_mix(void **state)                             \
    {                                                                         \
        in_every_mix(state, name);                                            \
    }
GROUP_TEST(group_shares_syncs)
GROUP_TEST(group_member_takes_back_only_its_own)
GROUP_TEST(group_outlives_what_breaks)
GROUP_TEST(group_fails_with_its_sync)
GROUP_TEST(group_on_a_full_disk_loses_nothing_said)
GROUP_TEST(group_is_barred_with_a_reason)

/* ---- a transaction as a function ----------------------------------------
 */

struct act {
    int answer;
    struct store *within; /* where it tries to write once more */
    int nested;
};

static int act_in(struct store_tx *tx, void *arg, struct error *err)
{
    struct act *a = arg;
    struct error inner;

    if (put_in(tx, 1, "n", err) != 1)
        return -(int)err->code;
    if (a->within)
        a->nested = try_put(a->within, 2, &inner);
    return a->answer < 0 ? error_set(err, (enum error_code)(-a->answer), "no")
                         : a->answer;
}

static void write_keeps_what_answers_zero(void **state)
{
    static const struct {
        int answer, result;
        int64_t kept;
    } cases[] = {{1, 0, 0}, {-ERR_FORBIDDEN, -ERR_FORBIDDEN, 0}, {0, 0, 1}};
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct act a = {.answer = cases[i].answer};

        assert_int_equal(store_write(f->store, "testing", act_in, &a, &f->err),
                         cases[i].result);
        assert_int_equal(count_keys(f), cases[i].kept);
    }
    assert_string_equal(f->err.message, "no");
    reopen(f);
    assert_int_equal(count_keys(f), 1);
}

static void write_within_itself_is_refused(void **state)
{
    struct fixture *f = *state;
    struct act a = {.within = f->store};

    assert_int_equal(store_write(f->store, "testing", act_in, &a, &f->err), 0);
    assert_int_equal(a.nested, -ERR_INTERNAL);
    assert_int_equal(count_keys(f), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* What every engine does. */
        CASE(values_come_back),
        CASE(copy_is_cut_and_empty_for_null),
        CASE(one_gives_the_first_row_or_none),
        CASE(exec_tells_how_many_changed),
        CASE(rows_of_a_statement_within_itself),
        CASE(rows_may_outlive_their_transaction),
        CASE(statements_more_than_are_kept),
        CASE(statement_whose_text_changed),
        CASE(statement_must_be_one_with_its_values),
        CASE(commit_survives_reopen),
        CASE(rollback_leaves_nothing),
        CASE(constraint_is_a_conflict_of_its_statement_alone),
        CASE(failed_statement_forbids_the_commit),
        CASE(writing_in_a_read_transaction_is_refused),
        CASE(write_within_a_write_is_refused),
        CASE(reader_sees_the_commit_it_began_with),
        CASE(D2_readers_beside_writers_see_whole_commits),
        CASE(one_reader_too_many_waits_and_the_writer_does_not),
        CASE(writers_take_turns),
        CASE(open_missing_directory_fails),
        CASE(hooks_hear_of_each_commit_in_order),
        CASE(hook_goes_while_others_commit),
        CASE(write_keeps_what_answers_zero),
        CASE(write_within_itself_is_refused),
        /* SQLite's files, from here on. */
        CASE(open_makes_private_files),
        CASE(D6_no_other_process_gets_in),
        CASE(open_newer_is_refused),
        CASE(open_refuses_a_link),
        CASE(open_follows_a_link_to_the_directory),
        CASE(D6_settings_are_the_safe_ones),
        DISK(D1_D6_every_commit_is_synced_by_the_writer),
        CASE(D6_log_is_folded_while_running),
        CASE(D10_deleted_is_gone_from_the_files),
        CASE(D12_space_stays_set_aside_through_forget_and_reopen),
        CASE(D12_no_reserve_gives_the_space_back),
        CASE(D12_the_log_stays_within_what_is_set_aside),
        CASE(D12_a_log_that_was_being_emptied_brings_nothing_back),
        CASE(forget_beside_a_reader_is_busy_and_harms_nobody),
        CASE(D6_damage_is_found_at_start),
        CASE(open_garbage_fails),
        CASE(D1_D7_open_after_a_kill),
        CASE(D7_open_migrates_from_every_version),
        CASE(D7_migrated_rows_are_as_made_now),
        DISK(D5_D7_open_after_a_failed_migration),
        CASE(words_are_found),
        CASE(D9_backup_under_load_is_one_commit),
        CASE(backup_replaces_nothing),
        CASE(D8_check_finds_damage),
        DISK(D4_failed_sync_stops_writing),
        DISK(D4_failed_sync_of_a_checkpoint_stops_writing),
        DISK(D5_full_disk_leaves_the_store_usable),
        DISK(D5_D7_open_on_a_full_disk),
        DISK(D2_D4_D5_each_write_fails_once),
        DISK(D2_D5_disk_is_full_at_each_write),
        DISK(D2_D4_each_sync_fails_once),
        DISK(D2_D4_D5_each_piece_of_a_long_commit_fails),
        DISK(D2_D4_D5_a_fold_fails),
        DISK(D5_each_truncation_fails),
        CASE(D11_a_used_directory_without_its_database_is_refused),
        CASE(D11_a_log_without_its_database_is_left_alone),
        CASE(D11_an_empty_database_in_a_used_directory_is_refused),
        CASE(D11_a_young_store_without_its_log_is_refused),
        CASE(D11_a_database_of_another_program_is_refused),
        CASE(D11_a_refused_database_keeps_its_log),
        DISK(group_shares_syncs_in_every_mix),
        DISK(group_member_takes_back_only_its_own_in_every_mix),
        DISK(group_outlives_what_breaks_in_every_mix),
        DISK(group_fails_with_its_sync_in_every_mix),
        DISK(group_on_a_full_disk_loses_nothing_said_in_every_mix),
        DISK(group_is_barred_with_a_reason_in_every_mix),
        DISK(group_is_done_again_without_the_one),
        DISK(group_goes_on_when_the_refused_changed_nothing),
        DISK(group_member_may_fail_when_done_again),
    };
    size_t shared = 0;

    while (tests[shared].test_func != open_makes_private_files)
        shared++;
    return _cmocka_run_group_tests(
        "store", tests, store_choice_server() ? shared : ARRAY_SIZE(tests),
        NULL, NULL);
}
