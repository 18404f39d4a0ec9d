/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies the database while it is in use, and checks all of it; see
 * sqlite_int.h. Runs in the daemon, on a thread that may take long. Both use a
 * separate reading connection, so that they block nothing and wait for
 * nothing. The log grows meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "store/sqlite_int.h"

#define STEP_PAGES 256

static int open_reader(struct sqlite_store *s, const char *what,
                       struct sqlite_conn **ret_conn, struct error *err)
{
    int code = store_sqlite_conn_open(s->path, STORE_READ, ret_conn);

    if (code != SQLITE_OK)
        return store_sqlite_fail(s, *ret_conn, code, what, err);
    return 0;
}

/* ---- backup ------------------------------------------------------------- */

static const char copying[] = "copying the database";

static void db_close(sqlite3 **db)
{
    (void)sqlite3_close_v2(*db); /* nothing is open on it */
}

/* One read transaction for all steps: each sees the same commit, and the copy
 * never restarts. */
static int copy_pages(sqlite3 *from, sqlite3 *to,
                      void (*progress)(void *ctx, uint64_t done,
                                       uint64_t total),
                      void *ctx)
{
    sqlite3_backup *b = sqlite3_backup_init(to, "main", from, "main");
    int code, end;

    if (!b)
        return sqlite3_extended_errcode(to);
    do {
        code = sqlite3_backup_step(b, STEP_PAGES);
        if (progress && (code == SQLITE_OK || code == SQLITE_DONE)) {
            int total = sqlite3_backup_pagecount(b);

            progress(ctx, (uint64_t)(total - sqlite3_backup_remaining(b)),
                     (uint64_t)total);
        }
    } while (code == SQLITE_OK);
    end = sqlite3_backup_finish(b);
    return code == SQLITE_DONE ? end : code;
}

static int copy_database(struct sqlite_store *s, const char *path,
                         void (*progress)(void *ctx, uint64_t done,
                                          uint64_t total),
                         void *ctx, struct error *err)
{
    struct sqlite_conn *from cleanup(store_sqlite_conn_closep) = NULL;
    sqlite3 *to cleanup(db_close) = NULL;
    int code;

    if (open_reader(s, copying, &from, err) < 0)
        return -(int)err->code;
    code = sqlite3_open_v2(
        path, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, "unix");
    /* A copy that fails is removed, so it needs no journal. */
    if (code == SQLITE_OK)
        code = sqlite3_exec(to, "PRAGMA journal_mode = OFF", NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = store_sqlite_conn_run(from, "BEGIN");
    if (code == SQLITE_OK)
        code = store_sqlite_conn_run(from, "SELECT 1 FROM schema_version");
    if (code == SQLITE_OK)
        code = copy_pages(from->db, to, progress, ctx);
    if ((code & 0xff) == SQLITE_FULL)
        return error_set(err, ERR_SPACE, "%s: the disk is full", copying);
    if ((code & 0xff) == SQLITE_CORRUPT)
        return error_set(err, ERR_CORRUPT, "%s: it is damaged", copying);
    if (code != SQLITE_OK)
        return error_set(err, ERR_INTERNAL, "%s: the disk failed (%d)",
                         copying, code);
    return 0;
}

/* The bytes, and the name in its directory. */
static int sync_copy(int fd, const char *path)
{
    char *scratch cleanup(mem_free) = xstrdup(path);
    int dir cleanup(fd_close) =
        open(dirname(scratch), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fsync(fd) < 0 || dir < 0 || fsync(dir) < 0 ? -errno : 0;
}

int store_sqlite_backup(struct store *base, const char *path,
                        void (*progress)(void *ctx, uint64_t done,
                                         uint64_t total),
                        void *ctx, struct error *err)
{
    struct sqlite_store *s = (struct sqlite_store *)base;
    int fd cleanup(fd_close) =
        open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r;

    if (fd < 0)
        return error_errno(err, errno == EEXIST ? ERR_CONFLICT : ERR_INTERNAL,
                           errno, "cannot make the copy of the database");
    r = copy_database(s, path, progress, ctx, err);
    if (r == 0) {
        r = sync_copy(fd, path);
        if (r < 0)
            r = error_errno(err, ERR_INTERNAL, -r,
                            "cannot sync the copy of the database");
    }
    if (r < 0)
        (void)unlink(path); /* the copy failed already */
    return r;
}

/* ---- check -------------------------------------------------------------- */

int store_sqlite_backup_check(struct store *base, struct error *err)
{
    static const char what[] = "checking the database";
    static const struct {
        const char *sql, *expect;
    } steps[] = {
        {"PRAGMA integrity_check(1)", "ok"},
        {"PRAGMA foreign_key_check", ""},
    };
    struct sqlite_store *s = (struct sqlite_store *)base;
    struct sqlite_conn *conn cleanup(store_sqlite_conn_closep) = NULL;
    char answer[128];

    if (open_reader(s, what, &conn, err) < 0)
        return -(int)err->code;
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        int code =
            store_sqlite_conn_text(conn, steps[i].sql, answer, sizeof(answer));

        if (code != SQLITE_OK)
            return store_sqlite_fail(s, conn, code, what, err);
        if (strcmp(answer, steps[i].expect) != 0) {
            (void)error_set(err, ERR_CORRUPT,
                            "the database is damaged: %.100s", answer);
            return error_hint(err, "restore a backup");
        }
    }
    return 0;
}
