/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SQLite engine of the store: transactions, errors, checkpoints; see
 * sqlite_int.h for how its files work together. Runs in the daemon, behind
 * store.h, on any thread.
 */
#include <assert.h>
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "store/sqlite_int.h"

#define FORGET_TRIES 40
#define FORGET_MS 25 /* a try blocks writers so long, then waits as long */

/* ---- failing ------------------------------------------------------------ */

/* Stops all writing, including the checkpoint at close: after a failed sync
 * the page cache may differ from the disk. The next start checkpoints the log
 * before it adds to it. */
static void stop_writing(struct sqlite_store *s, const char *what)
{
    if (atomic_exchange(&s->broken, true))
        return;
    (void)sqlite3_db_config(s->writer->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1,
                            NULL); /* fails only on misuse */
    log_event(LOG_ERROR, "store_stopped_writing", "during", what, "reason",
              "the disk did not take what was written", NULL);
}

static bool is_sync(int code)
{
    return code == SQLITE_IOERR_FSYNC || code == SQLITE_IOERR_DIR_FSYNC ||
           code == SQLITE_IOERR_DIR_CLOSE;
}

int store_sqlite_writing_stopped(const char *what, struct error *err)
{
    (void)error_set(err, ERR_UNAVAILABLE,
                    "%s: the disk failed; writing has stopped", what);
    return error_hint(err, "check the disk, then restart the service");
}

static const char *constraint_text(int code)
{
    switch (code) {
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_ROWID:
        return "it is there already";
    case SQLITE_CONSTRAINT_FOREIGNKEY:
        return "what it belongs to is not there";
    default:
        return "it does not fit what is stored";
    }
}

/* For clients: SQLite's own messages name SQL and files. */
static const char *failure_text(int code)
{
    switch (code & 0xff) {
    case SQLITE_IOERR:
        return "the disk failed";
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return "the database is damaged";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return "the database is in use";
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return "the database cannot be opened";
    default:
        return "the database failed";
    }
}

int store_sqlite_fail(struct sqlite_store *s, const struct sqlite_conn *conn,
                      int code, const char *what, struct error *err)
{
    int primary = code & 0xff;

    if (is_sync(code)) {
        stop_writing(s, what);
        return store_sqlite_writing_stopped(what, err);
    }
    if (primary == SQLITE_CONSTRAINT)
        return error_set(err, ERR_CONFLICT, "%s: %s", what,
                         constraint_text(code));
    if (primary == SQLITE_FULL ||
        (primary == SQLITE_IOERR && conn && conn->db &&
         sqlite3_system_errno(conn->db) == EDQUOT)) {
        (void)error_set(err, ERR_SPACE, "%s: the disk is full", what);
        return error_hint(err, "Nothing was changed. The operator has to "
                               "free space on the service's disk.");
    }
    return error_set(err,
                     primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB
                         ? ERR_CORRUPT
                         : ERR_INTERNAL,
                     "%s: %s (%d)", what, failure_text(code), code);
}

/* ---- beginning ---------------------------------------------------------- */

static struct store_tx *tx_new(struct sqlite_store *s,
                               struct sqlite_conn *conn, enum store_mode mode,
                               const char *what)
{
    struct sqlite_tx *tx = xcalloc(1, sizeof(*tx));

    *tx = (struct sqlite_tx){.base.engine = &store_sqlite,
                             .store = s,
                             .conn = conn,
                             .mode = mode,
                             .what = what};
    return &tx->base;
}

int store_sqlite_begin_write(struct sqlite_store *s, const char *what,
                             struct store_tx **ret, struct error *err)
{
    int code;

    if (s->broken) {
        store_sqlite_group_rollback(s, what, SQLITE_OK);
        return store_sqlite_writing_stopped(what, err);
    }
    code = store_sqlite_group_join(s, NULL);
    if (code != SQLITE_OK) {
        (void)store_sqlite_fail(s, s->writer, code, what, err);
        store_sqlite_group_rollback(s, what, code);
        return -(int)err->code;
    }
    *ret = tx_new(s, s->writer, STORE_WRITE, what);
    return 0;
}

static int sqlite_begin(struct store *base, enum store_mode mode,
                        const char *what, struct store_tx **ret,
                        struct error *err)
{
    struct sqlite_store *s = (struct sqlite_store *)base;
    struct sqlite_conn *conn;
    int code;

    if (store_sqlite_gate_enter(s, mode, what, &conn, err) < 0)
        return -(int)err->code;
    if (mode == STORE_WRITE)
        return store_sqlite_begin_write(s, what, ret, err);
    /* A reader's snapshot is fixed by its first read, so it reads here. */
    code = store_sqlite_conn_run(conn, "BEGIN");
    if (code == SQLITE_OK)
        code = store_sqlite_conn_run(conn, "SELECT 1 FROM schema_version");
    if (code != SQLITE_OK) {
        (void)store_sqlite_fail(s, conn, code, what, err);
        store_sqlite_gate_leave(s, STORE_READ, conn, true);
        return -(int)err->code;
    }
    *ret = tx_new(s, conn, STORE_READ, what);
    return 0;
}

/* ---- ending ------------------------------------------------------------- */

/* Is it certain that a commit that failed with this code left nothing on disk?
 * Its last frame makes it valid, and the sync comes after that. */
static bool is_undone(int code)
{
    return (code & 0xff) == SQLITE_FULL || (code & 0xff) == SQLITE_BUSY ||
           (code & 0xff) == SQLITE_CONSTRAINT || code == SQLITE_IOERR_WRITE ||
           code == SQLITE_IOERR_READ || code == SQLITE_IOERR_SHORT_READ;
}

/* Checkpoints when the log is long. What was committed is safe in the log in
 * any case; only a failed sync matters. */
void store_sqlite_checkpoint(struct sqlite_store *s)
{
    struct sqlite_conn *c = s->writer;
    int code;

    if (c->logged < c->checkpointed) /* SQLite restarted the log */
        c->checkpointed = 0;
    if (c->logged - c->checkpointed < s->checkpoint_frames)
        return;
    c->checkpointed = c->logged;
    code = sqlite3_wal_checkpoint_v2(c->db, "main", SQLITE_CHECKPOINT_PASSIVE,
                                     NULL, NULL);
    if (is_sync(code))
        stop_writing(s, "checkpointing the log");
    else if (code != SQLITE_OK)
        log_event(LOG_WARN, "store_checkpoint_failed", "error",
                  sqlite3_errstr(code), NULL);
}

int store_sqlite_commit_now(struct sqlite_store *s, const char *what)
{
    int code = store_sqlite_conn_run(s->writer, "COMMIT");

    if (code != SQLITE_OK && !is_undone(code))
        stop_writing(s, what);
    return code;
}

void store_sqlite_rollback_now(struct sqlite_store *s, const char *what)
{
    if (sqlite3_get_autocommit(s->writer->db))
        return;
    (void)store_sqlite_conn_run(s->writer, "ROLLBACK"); /* seen next */
    if (!sqlite3_get_autocommit(s->writer->db))
        stop_writing(s, what);
}

/* Gives a reading connection back. */
static void leave_reading(struct sqlite_tx *tx)
{
    bool stuck = false;

    if (!sqlite3_get_autocommit(tx->conn->db)) {
        (void)store_sqlite_conn_run(tx->conn, "ROLLBACK"); /* seen next */
        stuck = !sqlite3_get_autocommit(tx->conn->db);
    }
    store_sqlite_gate_leave(tx->store, tx->mode, tx->conn, stuck);
}

static void sqlite_rollback(struct store_tx *base)
{
    struct sqlite_tx *tx = (struct sqlite_tx *)base;

    store_sqlite_rows_detach(tx);
    if (tx->mode == STORE_WRITE)
        store_sqlite_group_rollback(tx->store, tx->what, tx->failed);
    else
        leave_reading(tx);
    free(tx);
}

int store_sqlite_commit_error(struct sqlite_store *s, const char *what,
                              int code, const struct error *why,
                              struct error *err)
{
    if (code == STORE_SQLITE_HOOK_FAILED) {
        *err = *why;
        return -(int)err->code;
    }
    return s->broken ? store_sqlite_writing_stopped(what, err)
                     : store_sqlite_fail(s, NULL, code, what, err);
}

static int sqlite_commit(struct store_tx *base, struct error *err)
{
    struct sqlite_tx *tx = (struct sqlite_tx *)base;
    struct sqlite_store *s = tx->store;
    const char *what = tx->what;
    int code = tx->failed;
    struct error why;

    store_sqlite_rows_detach(tx);
    if (tx->mode == STORE_READ) {
        leave_reading(tx);
        free(tx);
        return 0;
    }
    if (code == SQLITE_OK && sqlite3_get_autocommit(tx->conn->db))
        code = SQLITE_ABORT; /* SQLite rolled back silently */
    if (code == SQLITE_OK)
        code = store_sqlite_group_commit(s, what, &why);
    else
        store_sqlite_group_rollback(s, what, code);
    free(tx);
    return code == SQLITE_OK
               ? 0
               : store_sqlite_commit_error(s, what, code, &why, err);
}

/* ---- forgetting --------------------------------------------------------- */

/* Checkpoints and truncates the log. Waits a little for readers that need it.
 */
static int empty_log(struct sqlite_store *s, const char *what)
{
    struct sqlite_conn *c = s->writer;
    int code;

    store_sqlite_group_finish(s, what);
    (void)sqlite3_busy_timeout(c->db, FORGET_MS); /* a known handle */
    code = sqlite3_wal_checkpoint_v2(c->db, "main", SQLITE_CHECKPOINT_TRUNCATE,
                                     NULL, NULL);
    (void)sqlite3_busy_timeout(c->db, STORE_SQLITE_BUSY_MS);
    if (code == SQLITE_OK)
        c->logged = c->checkpointed = 0;
    if (is_sync(code))
        stop_writing(s, what);
    return code;
}

static int sqlite_forget(struct store *base, struct error *err)
{
    static const char what[] = "emptying the log";
    struct sqlite_store *s = (struct sqlite_store *)base;
    int code = SQLITE_BUSY;

    for (int i = 0; i < FORGET_TRIES && (code & 0xff) == SQLITE_BUSY; i++) {
        struct sqlite_conn *conn;
        struct timespec rest = {.tv_nsec = i ? FORGET_MS * 1000000l : 0};

        (void)nanosleep(&rest, NULL); /* a shorter one does no harm */
        if (store_sqlite_gate_enter(s, STORE_WRITE, what, &conn, err) < 0)
            return -(int)err->code;
        code = s->broken ? SQLITE_IOERR_FSYNC : empty_log(s, what);
        store_sqlite_gate_leave(s, STORE_WRITE, conn, false);
    }
    if ((code & 0xff) == SQLITE_BUSY)
        return error_set(err, ERR_BUSY, "%s: it is being read", what);
    return code == SQLITE_OK ? 0 : store_sqlite_fail(s, NULL, code, what, err);
}

/* ---- the table ---------------------------------------------------------- */

static bool sqlite_writable(struct store *base)
{
    return !((struct sqlite_store *)base)->broken;
}

/* Readers first: the connection that closes last checkpoints the log. */
void store_sqlite_close(struct store *base)
{
    struct sqlite_store *s = (struct sqlite_store *)base;

    assert(!s->gate.writing && s->gate.readers == s->gate.idle_count);
    store_sqlite_gate_done(&s->gate);
    store_sqlite_conn_close(s->writer);
    fd_close(&s->db_fd);
    fd_close(&s->lock_fd);
    store_base_done(&s->base);
    free(s->path);
    free(s);
}

const struct store_engine store_sqlite = {
    .name = "sqlite",
    .open = store_sqlite_open,
    .close = store_sqlite_close,
    .writable = sqlite_writable,
    .begin = sqlite_begin,
    .commit = sqlite_commit,
    .rollback = sqlite_rollback,
    .write = store_sqlite_write,
    .exec = store_sqlite_rows_exec,
    .query = store_sqlite_rows_query,
    .next = store_sqlite_rows_next,
    .done = store_sqlite_rows_done,
    .text = store_sqlite_rows_text,
    .number = store_sqlite_rows_number,
    .bytes = store_sqlite_rows_bytes,
    .backup = store_sqlite_backup,
    .check = store_sqlite_backup_check,
    .forget = sqlite_forget,
    .reserve = store_sqlite_reserve,
};
