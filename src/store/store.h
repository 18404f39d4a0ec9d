/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metadata store: tables in an SQL database behind one interface. Each
 * engine implements struct store_engine (store_int.h): sqlite*.c keeps a file
 * in the data directory, postgres*.c uses a server that several daemons may
 * share. Callers see no engine.
 *
 * The module that owns a table owns its SQL: auth its keys, audit its chain,
 * workspace and session theirs. Statements use the subset that SQLite and
 * PostgreSQL share (tools/lint-sql checks it):
 *
 *   - numbered parameters (?1, ?2), LIMIT with a value, ON CONFLICT, partial
 *     indexes, RETURNING, WITH, row values
 *   - coalesce, count, sum, min, max, abs, length, lower, replace, substr,
 *     CASE, LIKE with ESCAPE; || for text
 *   - no rowid, no INSERT OR, no REPLACE INTO, no INDEXED BY, no PRAGMA, no
 *     GLOB, no JSON, date or printf functions, no instr (replace(list, id,
 *     '') <> list tests the same), ifnull (coalesce), iif (CASE)
 *   - text is compared by bytes; a number of a JSON document is a column
 *
 *   - a comparison is no number: CASE WHEN a = b THEN 1 ELSE 0 END; a number
 *     is no condition: WHERE alive = 1; a parameter has one type
 *   - in DO UPDATE SET, columns of the old row are named with their table
 *
 * Two places are written for one engine each: search/, because full text
 * search differs in every engine (words_fts5.c, words_tsvector.c), and the
 * schema (migrations.c, schema.h), which postgres_schema.c translates.
 *
 * A transaction is on disk when store_commit returns 0. Writers take turns, on
 * all machines that share the database (D6); readers run beside them on
 * connections of their own and see one commit, the last one at their first
 * statement or an earlier one since they began. Any thread may begin a
 * transaction; it stays on that thread. Do nothing slow inside: no disk access
 * besides the store's, no waiting for other threads. PostgreSQL ends a write
 * transaction that is silent for five seconds.
 *
 * Errors: ERR_CONFLICT when a constraint is violated; ERR_INTERNAL when the
 * engine failed and the store stays usable; ERR_SPACE when the disk is full;
 * ERR_CORRUPT when stored data is damaged; ERR_BUSY when no connection was
 * free within a minute, or a concurrent transaction won; ERR_UNAVAILABLE for
 * every write after a failed sync, since what is on disk is then unknown
 * (D4), and when the server cannot be reached. A constraint that refuses an
 * INSERT undoes its statement only; after any other failure the transaction
 * cannot be committed.
 */
#ifndef GLOVEBOX_STORE_STORE_H
#define GLOVEBOX_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct store;
struct store_tx;
struct store_rows;

enum store_mode {
    STORE_READ,
    STORE_WRITE
};

/* Called with a database that already existed, before anything in it is
 * changed. It may read in transactions, with the schema as found. If it fails,
 * so does store_open, and the files stay as they are. */
typedef int store_check_fn(struct store *s, void *ctx, struct error *err);

struct store_settings {
    /* "sqlite", or a URL that names an engine ("postgres://..."). NULL or "":
     * sqlite. An engine that is not in this build is ERR_INVALID. */
    const char *engine;
    /* Exists, and only one process can have it open. sqlite keeps glovebox.db
     * and its log in it. */
    const char *data_dir;
    store_check_fn *check; /* or NULL */
    void *check_ctx;
};

/* Opens the database; creates, migrates and checks it as needed. A database is
 * created only where no trace of an earlier one is found: other files of a
 * used data directory without their database, or with an empty one, are
 * ERR_CORRUPT (D11). Only one process can have a data directory open
 * (ERR_CONFLICT); a database written by a newer version is refused
 * (ERR_CONFLICT). A PostgreSQL server that does not keep what it has
 * acknowledged is refused (ERR_INVALID, D6). */
int store_open(const struct store_settings *settings, struct store **ret,
               struct error *err);
/* A random id, assigned when a database is created and kept by its copies. ""
 * only during `check`, for a database from before ids existed. */
#define STORE_ID 33 /* hex digits and NUL */
const char *store_id(const struct store *s);
/* The engine's name: "sqlite" or "postgres". For the few places that are
 * written for one engine. */
const char *store_engine(const struct store *s);
/* May other daemons have the same database open? Then nothing that was read
 * from it may be kept in memory without a notification that renews it. */
bool store_shared(const struct store *s);
void store_close(struct store *s); /* accepts NULL */
/* False once a sync failed: nothing is written until the next start. */
bool store_writable(struct store *s);
/* Can the database be used now? 0, or ERR_UNAVAILABLE with the reason. Answers
 * from memory, at most about five seconds late. */
int store_ready(struct store *s, struct error *err);

/* what: for errors, "storing a key"; must outlive the transaction. A write
 * inside a write of the same thread is ERR_INTERNAL. */
int store_begin(struct store *s, enum store_mode mode, const char *what,
                struct store_tx **ret, struct error *err);
/* Ends the transaction either way and clears *tx. A failed commit changed
 * nothing, unless the error is ERR_UNAVAILABLE. */
int store_commit(struct store_tx **tx, struct error *err);
/* For cleanup(): undoes everything. Accepts a cleared one. */
void store_rollback(struct store_tx **tx);

/* Runs fn in a transaction, which is on disk when this returns 0. If fn
 * returns a negative code, the transaction is rolled back and the code
 * returned; if it returns a positive value, the transaction is rolled back and
 * the result is 0.
 *
 * fn may run on another thread: whichever thread commits at that moment runs
 * it too, which saves a sync. So fn must not depend on its thread, must not
 * take a lock that any thread holds across a transaction, and must not end the
 * transaction. fn may run more than once, after a rollback; its last result
 * counts. ctx and err are fn's until this returns. */
typedef int store_write_fn(struct store_tx *tx, void *ctx, struct error *err);
int store_write(struct store *s, const char *what, store_write_fn *fn,
                void *ctx, struct error *err);
/*
 * A hook runs with every commit, on the thread that commits; commits are never
 * concurrent. The caller owns it and keeps it in place from add to remove.
 * Both may be called while other threads commit, but not from a hook. When
 * remove returns, the hook is not running and will not run again.
 */
struct store_hook {
    /* Before the commit, in its transaction: what it writes becomes durable
     * with the commit. If it fails, so does the commit, with its error. May
     * be NULL. */
    store_write_fn *before;
    /* After the commit, unless an earlier hook's `before` failed. kept: the
     * transaction is on disk; its callers have not returned yet. May be NULL.
     */
    void (*after)(void *ctx, bool kept);
    void *ctx;
    struct store_hook *next; /* the store's */
};
void store_hook_add(struct store *s, struct store_hook *hook);
/* Accepts one that was not added. */
void store_hook_remove(struct store *s, struct store_hook *hook);

/*
 * Notifications: short messages from a transaction to every daemon that has
 * the database open, the sender included, delivered after the commit. They
 * say that something has changed, so that a copy in memory is read again; they
 * are no queue. When the connection to the server was lost, notifications may
 * have been, and each listener is called with payload NULL: read everything
 * again. Delivery takes milliseconds; a lost connection is noticed within
 * about five seconds.
 */
#define STORE_CHANNEL_MAX 32  /* bytes; letters, digits, _ and . */
#define STORE_PAYLOAD_MAX 512 /* bytes, of UTF-8 */
int store_notify(struct store_tx *tx, const char *channel, const char *payload,
                 struct error *err);
struct store_listener {
    const char *channel;
    /* On a thread of the store, one call at a time. May use the store; must
     * not add or remove a listener, and should be quick. */
    void (*on_notice)(void *ctx, const char *payload);
    void *ctx;
    struct store_listener *next; /* the store's */
};
/* The caller owns it and keeps it in place until it was removed. When remove
 * returns, it is not running and will not run again. */
int store_listen(struct store *s, struct store_listener *l, struct error *err);
void store_unlisten(struct store *s, struct store_listener *l);

/*
 * sql: a string literal (statements are cached by its address). types: one
 * letter for each parameter, the values following:
 *   t  const char *            text; NULL is NULL
 *   i  int64_t                 (cast! plain ints are not int64_t)
 *   b  const void *, size_t    bytes; NULL is NULL
 * They are borrowed until the call returns (exec) or the rows are done. Rows
 * end with their transaction, but may be freed after it.
 */
int store_exec(struct store_tx *tx, struct error *err, const char *sql,
               const char *types, ...); /* rows changed, or -code */
int store_query(struct store_tx *tx, struct store_rows **ret,
                struct error *err, const char *sql, const char *types, ...);
int store_next(struct store_rows *rows, struct error *err); /* 1, 0, -code */
void store_rows_done(struct store_rows **rows);             /* for cleanup() */
/* The first row only: 1 and *ret on it, 0 and *ret NULL, or -code. */
int store_one(struct store_tx *tx, struct store_rows **ret, struct error *err,
              const char *sql, const char *types, ...);

/* The time by which leases between several processes are judged: that of the
 * database, in milliseconds since 1970. */
int store_now(struct store_tx *tx, int64_t *ret_ms, struct error *err);

/* Columns count from 0; borrowed until the next step. Text of NULL is NULL,
 * a number of NULL is 0. */
const char *store_text(struct store_rows *rows, int column);
int64_t store_int(struct store_rows *rows, int column);
const void *store_bytes(struct store_rows *rows, int column, size_t *ret_len);
/* Copies text, "" for NULL; cut to size. */
void store_copy(struct store_rows *rows, int column, char *ret, size_t size);

/* A consistent copy into a new file, taken online: writers are not blocked
 * for longer than a step. The copy is a database of SQLite, whatever the
 * engine is. progress may be NULL. */
int store_backup(struct store *s, const char *path,
                 void (*progress)(void *ctx, uint64_t done, uint64_t total),
                 void *ctx, struct error *err);
/* Copies a store of SQLite, which stays as it is, into an empty PostgreSQL
 * database: the schema, every row and the store's id, in one transaction, so
 * that a failed or killed copy leaves nothing. Each table is read back and
 * compared. ERR_CONFLICT when there is anything in the database. progress:
 * rows, all tables together; may be NULL. The way back is store_backup. */
typedef void store_copy_fn(void *ctx, const char *table, uint64_t done,
                           uint64_t total);
int store_copy_to_postgres(struct store *from, const char *url,
                           store_copy_fn *progress, void *ctx,
                           struct error *err);
/* ERR_CONFLICT when a service on any machine has the database open that the
 * option `store` names. Always 0 for sqlite, whose lock says so. Call it
 * before store_open. */
int store_alone(const char *engine, struct error *err);
/* sqlite: deleted data is gone from the database when its commit returns; this
 * also removes it from the log that the commit went through. ERR_BUSY when a
 * reader keeps the log in use for over a second: try again later. PostgreSQL:
 * vacuums the tables that rows were deleted from; its pages, log and copies
 * are the operator's (docs/decisions/postgres.md). */
int store_forget(struct store *s, struct error *err);
/* Reserves disk space for the database and its log, inside their files, so
 * that commits work on a full disk until that much was used (D12). Call it
 * after opening, and regularly to restore what was used; it is cheap when
 * nothing was. Returns the bytes reserved: fewer on a full disk, 0 on a file
 * system or engine that cannot reserve. 0 gives all back. Call it first while
 * there is one thread, later on any thread but one at a time. */
uint64_t store_reserve(struct store *s, uint64_t bytes);
/* The engine's own check of every page and index; ERR_CORRUPT. */
int store_check(struct store *s, struct error *err);

#endif
