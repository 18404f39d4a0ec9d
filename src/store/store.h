/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metadata that must survive: an engine behind one table of functions
 * (struct store_ops in store_int.h); sqlite.c fills it, another engine can.
 * Who owns a table owns its SQL: auth its keys, audit its chain, workspace
 * and session theirs. The SQL is written so that SQLite and PostgreSQL both
 * take it: numbered parameters (?1, ?2), ON CONFLICT, partial indexes, no
 * rowid, no engine's own functions, LIMIT with a value. Only search/ is
 * written for one engine.
 *
 * A transaction is on disk when store_commit returns 0. Writers take turns
 * (one writing connection, D6); readers run beside them on connections of
 * their own and see the last commit. Any thread may begin one; it stays on
 * that thread. Nothing slow may be done inside: no disk besides the store's,
 * no waiting for others.
 *
 * Errors: ERR_CONFLICT when a constraint says no; ERR_INTERNAL when the
 * engine failed, the store staying usable; ERR_SPACE when the disk is full;
 * ERR_CORRUPT when what is stored is damaged; ERR_BUSY when there was no turn
 * within a minute; ERR_UNAVAILABLE for every write after a failed sync, since
 * what is on disk is then unknown (D4). A constraint takes back its statement
 * alone; after any other failure the transaction cannot be committed.
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

/* Opens DIR/glovebox.db, making and migrating it as needed, and checks it.
 * The directory must exist. A database is made only where nothing shows that
 * there was one: files of a used data directory without their database, or
 * with an empty one, are ERR_CORRUPT (D11). Only one process can have it open
 * (ERR_CONFLICT); one written by a newer version is refused (ERR_CONFLICT). */
int store_open(const char *data_dir, struct store **ret, struct error *err);
/* The same, but a database that was there is shown to `check` before anything
 * is changed; what it answers below 0 is the answer, and the files stay as
 * they are. It may read in transactions, of the schema as it is found. */
typedef int store_check_fn(struct store *s, void *ctx, struct error *err);
int store_open_checked(const char *data_dir, store_check_fn *check, void *ctx,
                       struct store **ret, struct error *err);
/* Random, given to a database when it is made and kept by its copies; "" only
 * while it is checked, if it is from before there were any. */
#define STORE_ID 33 /* hex digits and NUL */
const char *store_id(const struct store *s);
void store_close(struct store *s); /* accepts NULL */
/* False once a sync failed: nothing is written until the next start. */
bool store_writable(struct store *s);

/* what: for errors, "storing a key"; must outlive the transaction. A write
 * within a write of the same thread is ERR_INTERNAL. */
int store_begin(struct store *s, enum store_mode mode, const char *what,
                struct store_tx **ret, struct error *err);
/* Ends it either way and clears *tx; a failed commit has changed nothing
 * unless the error is ERR_UNAVAILABLE. For a reader it only ends it. */
int store_commit(struct store_tx **tx, struct error *err);
/* For cleanup(): takes everything back. Accepts a cleared one. */
void store_rollback(struct store_tx **tx);

/* A whole transaction at once: fn works in it, and it is on disk when this
 * returns 0. What fn answers below 0 takes it back and is the answer; above 0
 * takes it back as well, there being nothing to keep. Who commits just then
 * may call fn on its own thread, sparing everyone a turn: it must not depend
 * on the thread it runs on, nor take a lock that anybody holds over a
 * transaction, nor end this one. It may be called again, with all that it did
 * in the store taken back, and its last answer counts. ctx and err are the
 * caller's until it returns. */
typedef int store_write_fn(struct store_tx *tx, void *ctx, struct error *err);
int store_write(struct store *s, const char *what, store_write_fn *fn,
                void *ctx, struct error *err);
/*
 * A hook takes part in every commit, on the thread that commits; commits are
 * never concurrent. It belongs to the caller and stays in place from add to
 * remove; both may be called while other threads commit, but not from a hook.
 * When remove returns, the hook is not running and will not run again.
 */
struct store_hook {
    /* Before the commit, in its transaction: what it writes becomes durable
     * with the commit. If it fails, so does the commit, with its error. May
     * be NULL. */
    store_write_fn *before;
    /* After the commit, unless an earlier hook's `before` had failed. kept:
     * everything is on disk; nobody has been told yet. May be NULL. */
    void (*after)(void *ctx, bool kept);
    void *ctx;
    struct store_hook *next; /* the store's */
};
void store_hook_add(struct store *s, struct store_hook *hook);
/* Accepts one that was not added. */
void store_hook_remove(struct store *s, struct store_hook *hook);

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

/* Columns count from 0; borrowed until the next step. Text of NULL is NULL,
 * a number of NULL is 0. */
const char *store_text(struct store_rows *rows, int column);
int64_t store_int(struct store_rows *rows, int column);
const void *store_bytes(struct store_rows *rows, int column, size_t *ret_len);
/* Copies text, "" for NULL; cut to size. */
void store_copy(struct store_rows *rows, int column, char *ret, size_t size);

/* A consistent copy into a new file, taken online: writers are not blocked
 * for longer than a step. progress may be NULL. */
int store_backup(struct store *s, const char *path,
                 void (*progress)(void *ctx, uint64_t done, uint64_t total),
                 void *ctx, struct error *err);
/* What was deleted is gone from the database when its commit returns; this
 * also empties the log it went through. ERR_BUSY when somebody went on reading
 * for over a second: try again later. */
int store_forget(struct store *s, struct error *err);
/* Sets disk space aside for the database and its log, in their own files, so
 * that commits work on a full disk until so much was used (D12). To be called
 * after opening, and now and then to restore what was used; cheap when
 * nothing was. Returns the bytes that are set aside: fewer on a full disk, or
 * none on a file system that cannot do it. 0 gives all back. The first call
 * before there are other threads, later ones on any thread but one at a time.
 */
uint64_t store_reserve(struct store *s, uint64_t bytes);
/* The engine's own check of every page and index; ERR_CORRUPT. */
int store_check(struct store *s, struct error *err);

#endif
