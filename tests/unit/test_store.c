/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store: rows come back as they went in, survive a reopen, and a store that
 * is newer, damaged, in use or on a failing disk says so.
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
#include "store/store_int.h"

/* ---- a disk that can be told to fail ------------------------------------ */

/* SQLite gives the database and its log different methods. */
struct disk_kind {
    sqlite3_io_methods methods; /* first: a file points to it */
    const sqlite3_io_methods *real;
};

static struct {
    sqlite3_vfs vfs;
    sqlite3_vfs *real;
    struct disk_kind kinds[2];
    bool fail_sync;
    bool fail_write;
    unsigned syncs;
} disk;

static const sqlite3_io_methods *real_methods(sqlite3_file *f)
{
    return ((const struct disk_kind *)f->pMethods)->real;
}

static int disk_sync(sqlite3_file *f, int flags)
{
    disk.syncs++;
    if (disk.fail_sync)
        return SQLITE_IOERR_FSYNC;
    return real_methods(f)->xSync(f, flags);
}

static int disk_write(sqlite3_file *f, const void *bytes, int len,
                      sqlite3_int64 at)
{
    if (disk.fail_write)
        return SQLITE_FULL;
    return real_methods(f)->xWrite(f, bytes, len, at);
}

static int disk_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f,
                     int flags, int *ret_flags)
{
    int code = disk.real->xOpen(disk.real, name, f, flags, ret_flags);
    struct disk_kind *kind = &disk.kinds[(flags & SQLITE_OPEN_MAIN_DB) != 0];

    (void)vfs;
    if (code != SQLITE_OK || !f->pMethods)
        return code;
    kind->real = f->pMethods;
    kind->methods = *f->pMethods;
    kind->methods.xSync = disk_sync;
    kind->methods.xWrite = disk_write;
    f->pMethods = &kind->methods;
    return code;
}

static void disk_install(void)
{
    disk.real = sqlite3_vfs_find(NULL);
    disk.vfs = *disk.real;
    disk.vfs.zName = "disk";
    disk.vfs.xOpen = disk_open;
    assert_int_equal(sqlite3_vfs_register(&disk.vfs, 1), SQLITE_OK);
}

static void disk_remove(void)
{
    assert_int_equal(sqlite3_vfs_unregister(&disk.vfs), SQLITE_OK);
    assert_int_equal(sqlite3_vfs_register(disk.real, 1), SQLITE_OK);
    memset(&disk, 0, sizeof(disk));
}

/* ---- help --------------------------------------------------------------- */

struct fixture {
    char dir[64];
    struct store *store;
    struct error err;
};

static void must_open(struct fixture *f)
{
    if (store_open(f->dir, &f->store, &f->err) < 0)
        fail_msg("%s", f->err.message);
}

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/test_store.XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    must_open(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    static const char *const names[] = {"", "-wal", "-shm", "-journal"};
    struct fixture *f = *state;

    store_close(f->store);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        char *path cleanup(mem_free) =
            xasprintf("%s/glovebox.db%s", f->dir, names[i]);

        unlink(path);
    }
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
    return 0;
}

static void reopen(struct fixture *f)
{
    store_close(f->store);
    f->store = NULL;
    must_open(f);
}

static struct store_key key_of(unsigned n)
{
    struct store_key k = {.scopes = n, .created_at_ms = 1000 + n};

    (void)snprintf(k.id, sizeof(k.id), "key_%032x", n);
    memset(k.hash, 0xab, sizeof(k.hash));
    memcpy(k.hash, &n, sizeof(n));
    (void)snprintf(k.tenant, sizeof(k.tenant), "tenant-%u", n);
    (void)snprintf(k.name, sizeof(k.name), "'); DROP TABLE keys; --%u", n);
    return k;
}

static void put(struct fixture *f, unsigned n)
{
    struct store_key k = key_of(n);

    if (store_key_put(f->store, &k, &f->err) < 0)
        fail_msg("%s", f->err.message);
}

static size_t list(struct fixture *f, struct store_key **ret)
{
    size_t count = 0;

    if (store_key_list(f->store, ret, &count, &f->err) < 0)
        fail_msg("%s", f->err.message);
    return count;
}

static size_t count_keys(struct fixture *f)
{
    struct store_key *keys cleanup(mem_free) = NULL;

    return list(f, &keys);
}

/* SQL on the closed database, as another program would do. */
static void sql(struct fixture *f, const char *text)
{
    char *path cleanup(mem_free) = xasprintf("%s/glovebox.db", f->dir);
    sqlite3 *db = NULL;

    assert_null(f->store);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* ---- keys --------------------------------------------------------------- */

static void key_put_survives_reopen(void **state)
{
    struct fixture *f = *state;
    struct store_key *keys cleanup(mem_free) = NULL;
    struct store_key want = key_of(2);

    assert_int_equal(count_keys(f), 0);
    put(f, 1);
    put(f, 2);
    reopen(f);
    assert_int_equal(list(f, &keys), 2);
    assert_memory_equal(&keys[0], &want, sizeof(want)); /* newest first */
    assert_string_equal(keys[1].tenant, "tenant-1");
}

static void key_put_twice_conflicts(void **state)
{
    struct fixture *f = *state;
    struct store_key same_hash = key_of(1);

    put(f, 1);
    assert_int_equal(store_key_put(f->store, &same_hash, &f->err),
                     -ERR_CONFLICT);
    (void)snprintf(same_hash.id, sizeof(same_hash.id), "key_other");
    assert_int_equal(store_key_put(f->store, &same_hash, &f->err),
                     -ERR_CONFLICT);
    put(f, 2); /* the failed ones left no transaction behind */
    assert_int_equal(count_keys(f), 2);
}

static void key_put_longest_texts(void **state)
{
    struct fixture *f = *state;
    struct store_key *keys cleanup(mem_free) = NULL;
    struct store_key k = key_of(1);

    memset(k.name, 'n', sizeof(k.name) - 1);
    memset(k.tenant, 't', sizeof(k.tenant) - 1);
    assert_int_equal(store_key_put(f->store, &k, &f->err), 0);
    assert_int_equal(list(f, &keys), 1);
    assert_memory_equal(&keys[0], &k, sizeof(k));
}

static void key_revoke_keeps_the_first_time(void **state)
{
    struct fixture *f = *state;
    struct store_key *keys cleanup(mem_free) = NULL;
    struct store_key k = key_of(1);

    put(f, 1);
    assert_int_equal(store_key_revoke(f->store, k.id, 500, &f->err), 0);
    assert_int_equal(store_key_revoke(f->store, k.id, 900, &f->err), 0);
    assert_int_equal(store_key_revoke(f->store, "key_x", 500, &f->err),
                     -ERR_NOT_FOUND);
    reopen(f);
    assert_int_equal(list(f, &keys), 1);
    assert_int_equal(keys[0].revoked_at_ms, 500);
}

static void key_revoke_remembers_a_bounded_number(void **state)
{
    struct fixture *f = *state;
    struct store_key k;

    /* Syncs are not what is tested here. */
    store_close(f->store);
    f->store = NULL;
    sql(f, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
           " WHERE i < 999) INSERT INTO keys (id, hash, tenant, name, scopes,"
           " created_at_ms, revoked_at_ms) SELECT 'old_' || i,"
           " randomblob(32), 't', 'n', 1, i, i FROM n");
    must_open(f);
    for (unsigned n = 1; n <= 3; n++)
        put(f, n);
    k = key_of(1);
    assert_int_equal(count_keys(f), 1002);
    assert_int_equal(store_key_revoke(f->store, k.id, 5000, &f->err), 0);
    assert_int_equal(count_keys(f), 1002); /* 1000 revoked: all kept */
    k = key_of(2);
    assert_int_equal(store_key_revoke(f->store, k.id, 5001, &f->err), 0);
    assert_int_equal(count_keys(f), 1001); /* the oldest one went */
    assert_int_equal(store_key_revoke(f->store, "old_1", 1, &f->err),
                     -ERR_NOT_FOUND);
    assert_int_equal(store_key_revoke(f->store, "old_2", 1, &f->err), 0);
}

static void key_touch_moves_forward_only(void **state)
{
    struct fixture *f = *state;
    struct store_key *keys cleanup(mem_free) = NULL;
    struct store_touch rows[3] = {{.used_at_ms = 70}, {.used_at_ms = 60}};

    put(f, 1);
    put(f, 2);
    memcpy(rows[0].id, key_of(1).id, sizeof(rows[0].id));
    memcpy(rows[1].id, key_of(2).id, sizeof(rows[1].id));
    (void)snprintf(rows[2].id, sizeof(rows[2].id), "key_unknown");
    assert_int_equal(store_key_touch(f->store, rows, 3, &f->err), 0);
    rows[0].used_at_ms = 65;
    rows[1].used_at_ms = 65;
    assert_int_equal(store_key_touch(f->store, rows, 2, &f->err), 0);
    assert_int_equal(list(f, &keys), 2);
    assert_int_equal(keys[1].last_used_at_ms, 70);
    assert_int_equal(keys[0].last_used_at_ms, 65);
}

static void *put_many(void *arg)
{
    static unsigned next = 100; /* each thread takes its own hundred */
    struct fixture *f = arg;
    unsigned first = __atomic_fetch_add(&next, 100, __ATOMIC_SEQ_CST);

    for (unsigned n = first; n < first + 20; n++) {
        struct store_key k = key_of(n), *keys = NULL;
        struct error err;
        size_t count;

        if (store_key_put(f->store, &k, &err) < 0 ||
            store_key_list(f->store, &keys, &count, &err) < 0)
            return arg;
        free(keys);
    }
    return NULL;
}

static void keys_from_many_threads(void **state)
{
    struct fixture *f = *state;
    pthread_t threads[4];

    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_many, f), 0);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
        void *bad;

        assert_int_equal(pthread_join(threads[i], &bad), 0);
        assert_null(bad);
    }
    assert_int_equal(count_keys(f), 80);
}

/* ---- opening ------------------------------------------------------------ */

static void open_makes_a_private_file(void **state)
{
    struct fixture *f = *state;
    char *path cleanup(mem_free) = xasprintf("%s/glovebox.db", f->dir);
    char *wal cleanup(mem_free) = xasprintf("%s-wal", path);
    struct stat st;

    put(f, 1);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(wal, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void open_twice_is_refused(void **state)
{
    struct fixture *f = *state;
    struct store *second = NULL;

    assert_int_equal(store_open(f->dir, &second, &f->err), -ERR_CONFLICT);
    assert_non_null(strstr(f->err.message, "another process"));
    assert_null(second);
    put(f, 1); /* the first is not disturbed */
}

static void open_newer_is_refused(void **state)
{
    struct fixture *f = *state;
    char *newer cleanup(mem_free) = xasprintf(
        "UPDATE schema_version SET version = %d", store_migrations_count + 1);
    char *current cleanup(mem_free) = xasprintf(
        "UPDATE schema_version SET version = %d", store_migrations_count);

    put(f, 1);
    store_close(f->store);
    f->store = NULL;
    sql(f, newer);
    assert_int_equal(store_open(f->dir, &f->store, &f->err), -ERR_CONFLICT);
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

    assert_int_equal(store_open("/nowhere/at/all", &s, &f->err),
                     -ERR_INTERNAL);
    assert_null(s);
}

static void open_refuses_a_link(void **state)
{
    struct fixture *f = *state;
    char *path cleanup(mem_free) = xasprintf("%s/glovebox.db", f->dir);

    store_close(f->store);
    f->store = NULL;
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/tmp/elsewhere.db", path), 0);
    assert_int_equal(store_open(f->dir, &f->store, &f->err), -ERR_INTERNAL);
    assert_int_equal(access("/tmp/elsewhere.db", F_OK), -1);
}

static void open_follows_a_link_to_the_directory(void **state)
{
    struct fixture *f = *state;
    char *link_path cleanup(mem_free) = xasprintf("%s.link", f->dir);
    struct store *s = NULL;
    int r;

    store_close(f->store);
    f->store = NULL;
    assert_int_equal(symlink(f->dir, link_path), 0);
    r = store_open(link_path, &s, &f->err);
    unlink(link_path);
    assert_int_equal(r, 0);
    store_close(s);
}

static void D6_settings_are_the_safe_ones(void **state)
{
    struct fixture *f = *state;

    /* The log exists while open and is folded back at close; every put was
     * synced before it returned. */
    store_close(f->store);
    f->store = NULL;
    disk_install();
    must_open(f);
    for (unsigned n = 1; n <= 3; n++) {
        unsigned before = disk.syncs;

        put(f, n);
        assert_true(disk.syncs > before);
    }
    store_close(f->store);
    f->store = NULL;
    disk_remove();
    must_open(f);
    assert_int_equal(count_keys(f), 3);
}

static void D6_damage_is_found_at_start(void **state)
{
    struct fixture *f = *state;
    char *path cleanup(mem_free) = xasprintf("%s/glovebox.db", f->dir);
    int fd cleanup(fd_close) = -1;
    char junk[512];
    off_t size;

    for (unsigned n = 1; n <= 3; n++)
        put(f, n);
    store_close(f->store);
    f->store = NULL;
    fd = open(path, O_RDWR | O_CLOEXEC);
    size = lseek(fd, 0, SEEK_END);
    memset(junk, 0x5a, sizeof(junk));
    for (off_t at = 4096; at < size; at += 4096)
        assert_int_equal(pwrite(fd, junk, sizeof(junk), at), sizeof(junk));
    assert_int_equal(store_open(f->dir, &f->store, &f->err), -ERR_INTERNAL);
    assert_null(f->store);
}

static void open_garbage_fails(void **state)
{
    struct fixture *f = *state;
    char *path cleanup(mem_free) = xasprintf("%s/glovebox.db", f->dir);
    int fd cleanup(fd_close) = -1;

    store_close(f->store);
    f->store = NULL;
    fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_int_equal(dprintf(fd, "%0200d", 7), 200);
    assert_int_equal(store_open(f->dir, &f->store, &f->err), -ERR_INTERNAL);
}

/* What was acknowledged is there, and the lock is not. */
static void D1_D7_open_after_a_kill(void **state)
{
    struct fixture *f = *state;
    pid_t pid;
    int status;

    store_close(f->store);
    f->store = NULL;
    pid = fork();
    if (pid == 0) {
        struct store_key k = key_of(1);

        if (store_open(f->dir, &f->store, &f->err) < 0 ||
            store_key_put(f->store, &k, &f->err) < 0)
            _exit(1);
        (void)raise(SIGKILL); /* in the midst of it, nothing closed */
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    must_open(f);
    assert_int_equal(count_keys(f), 1);
}

/* ---- a failing disk ----------------------------------------------------- */

static void D4_failed_sync_stops_writing(void **state)
{
    struct fixture *f = *state;
    struct store_key k = key_of(2);

    store_close(f->store);
    f->store = NULL;
    disk_install();
    must_open(f);
    put(f, 1);
    disk.fail_sync = true;
    assert_int_equal(store_key_put(f->store, &k, &f->err), -ERR_INTERNAL);
    disk.fail_sync = false;
    /* A sync that works now proves nothing of the bytes that failed. */
    assert_int_equal(store_key_put(f->store, &k, &f->err), -ERR_UNAVAILABLE);
    assert_int_equal(store_key_revoke(f->store, k.id, 1, &f->err),
                     -ERR_UNAVAILABLE);
    assert_true(count_keys(f) >= 1); /* reading goes on */
    store_close(f->store);
    f->store = NULL;
    disk_remove();
    must_open(f);
    put(f, 3);
}

static void D5_full_disk_leaves_the_store_usable(void **state)
{
    struct fixture *f = *state;
    struct store_key k = key_of(2);

    store_close(f->store);
    f->store = NULL;
    disk_install();
    must_open(f);
    put(f, 1);
    disk.fail_write = true;
    assert_int_equal(store_key_put(f->store, &k, &f->err), -ERR_INTERNAL);
    assert_non_null(strstr(f->err.message, "full"));
    assert_int_equal(count_keys(f), 1);
    disk.fail_write = false;
    put(f, 2);
    assert_int_equal(count_keys(f), 2);
    store_close(f->store);
    f->store = NULL;
    disk_remove();
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(key_put_survives_reopen),
        CASE(key_put_twice_conflicts),
        CASE(key_put_longest_texts),
        CASE(key_revoke_keeps_the_first_time),
        CASE(key_revoke_remembers_a_bounded_number),
        CASE(key_touch_moves_forward_only),
        CASE(keys_from_many_threads),
        CASE(open_makes_a_private_file),
        CASE(open_twice_is_refused),
        CASE(open_newer_is_refused),
        CASE(open_missing_directory_fails),
        CASE(open_refuses_a_link),
        CASE(open_follows_a_link_to_the_directory),
        CASE(D6_settings_are_the_safe_ones),
        CASE(D6_damage_is_found_at_start),
        CASE(open_garbage_fails),
        CASE(D1_D7_open_after_a_kill),
        CASE(D4_failed_sync_stops_writing),
        CASE(D5_full_disk_leaves_the_store_usable),
    };

    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
