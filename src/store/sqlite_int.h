/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the SQLite engine share.
 *
 * How the pieces work together: sqlite_open.c locks the directory, makes and
 * migrates the file and opens the one writing connection. sqlite_gate.c lends
 * connections: the writing one to one thread at a time, in the order of
 * asking, and up to four reading ones. sqlite.c turns a loan into a
 * transaction and says what a failure means; sqlite_group.c makes several
 * durable with one sync, and runs the jobs that other threads queued;
 * sqlite_rows.c runs statements, which sqlite_conn.c keeps prepared;
 * sqlite_log.c is how the writing one writes its log; sqlite_reserve.c sets
 * disk space aside for both files; sqlite_backup.c copies and checks.
 *
 * Only the writing connection ever checkpoints: the library's log-reset race
 * (fixed in 3.51.3) needs two connections that do (D6). The others are opened
 * read-only, and no other process gets in: the "unix-excl" layer keeps the
 * file's lock for this process and its index of the log in memory.
 */
#ifndef GLOVEBOX_STORE_SQLITE_INT_H
#define GLOVEBOX_STORE_SQLITE_INT_H

#include <sqlite3.h>
#include <stdatomic.h>

#include "store/store_int.h"

#define STORE_SQLITE_READERS 4
#define STORE_SQLITE_CACHED 256 /* prepared statements of a connection */
/* Only another program's lock can be in the way. */
#define STORE_SQLITE_BUSY_MS 3000

/* ---- sqlite_conn.c: a connection and its statements --------------------- */

struct sqlite_cached {
    const char *sql; /* the literal's address */
    sqlite3_stmt *st;
    uint64_t used; /* by the connection's count, for giving way */
    bool busy;
};

struct sqlite_conn {
    sqlite3 *db;
    uint64_t uses;
    int logged; /* writer: frames in the log after the last commit */
    int folded; /* writer: logged at the last checkpoint */
    struct sqlite_cached cache[STORE_SQLITE_CACHED];
};

/* Returns an SQLite code; *ret_conn has to be closed either way. */
int store_sqlite_conn_open(const char *path, enum store_mode mode,
                           struct sqlite_conn **ret_conn);
void store_sqlite_conn_close(struct sqlite_conn *c); /* accepts NULL */
static inline void store_sqlite_conn_closep(struct sqlite_conn **c)
{
    store_sqlite_conn_close(*c);
}
/* The statement of that text, ready to be bound, to be given back. With
 * *ret_slot NULL it was made for this once. Returns an SQLite code. */
int store_sqlite_conn_take(struct sqlite_conn *c, const char *sql,
                           sqlite3_stmt **ret_st,
                           struct sqlite_cached **ret_slot);
void store_sqlite_conn_give(sqlite3_stmt *st, struct sqlite_cached *slot);
/* A statement without parameters, to its end. Returns an SQLite code. */
int store_sqlite_conn_run(struct sqlite_conn *c, const char *sql);
/* One value of a query without parameters, as text; "" when there is none.
 * Returns an SQLite code. */
int store_sqlite_conn_ask(struct sqlite_conn *c, const char *sql, char *ret,
                          size_t size);

/* ---- sqlite_log.c: the log in large pieces ------------------------------ */

/* What SQLite calls a VFS. */
#define STORE_SQLITE_LAYER "unix-excl"
#define STORE_SQLITE_LOG_LAYER "glovebox-log"

/* The name of the layer for who writes. */
const char *store_sqlite_log_layer(void);
/* Blocks that this log (a file of that layer) keeps whatever is in it; bytes
 * held. Any thread. */
uint64_t store_sqlite_log_reserve(sqlite3_file *f, uint64_t bytes);

/* ---- sqlite_gate.c: who has which connection ---------------------------- */

/* What store_write was given. */
struct sqlite_job {
    const char *what;
    store_write_fn *fn;
    void *ctx;
    struct error *err;
    int result;
    bool kept; /* it is part of the group: on disk when that is */
    struct sqlite_job *later; /* kept by the same group after it */
};

enum sqlite_turn_state {
    TURN_WAITS,
    TURN_OURS, /* the connection is the waiting thread's */
    TURN_DONE, /* another has done its job, and the group has ended */
};

/* A thread that waits to write; on its stack. */
struct sqlite_turn {
    struct sqlite_turn *next;
    pthread_t thread;
    struct sqlite_job *job; /* whoever has the connection may do it; or NULL */
    bool taken;             /* and somebody does */
    atomic_uint state;      /* waited for without the lock */
};

struct sqlite_gate {
    struct mutex lock; /* around what follows, never across I/O */
    struct cond reader_freed;
    struct sqlite_turn *turns; /* the next first */
    atomic_uint awaited;       /* whoever writes waits for one to come */
    bool writing;
    pthread_t writer; /* who, while writing */
    struct sqlite_conn *idle[STORE_SQLITE_READERS];
    size_t idle_count;
    size_t readers; /* open or being opened, idle ones included */
};

struct sqlite_group;
struct sqlite_store;

/* Hands the writing connection to the next who waits for it; or, if that one
 * left a job, gives the caller its turn, which has to be told when the job is
 * done, and the connection stays. False: nobody waits. */
bool store_sqlite_gate_pass(struct sqlite_gate *g,
                            struct sqlite_turn **ret_turn);
/* Waits a moment for somebody to come; false: nobody did. */
bool store_sqlite_gate_await(struct sqlite_gate *g, uint64_t ns);
/* It, and those chained to it, go on: each wakes the next. */
void store_sqlite_gate_tell(struct sqlite_turn *turn); /* accepts NULL */
void store_sqlite_gate_init(struct sqlite_gate *g);
void store_sqlite_gate_done(struct sqlite_gate *g); /* closes the readers */
/* ERR_BUSY after a minute. */
int store_sqlite_gate_enter(struct sqlite_store *s, enum store_mode mode,
                            const char *what, struct sqlite_conn **ret_conn,
                            struct error *err);
/* Likewise for the writing one, or until another has done the job: 1. */
int store_sqlite_gate_offer(struct sqlite_store *s, struct sqlite_job *job);
/* broken: the reader is closed rather than kept. */
void store_sqlite_gate_leave(struct sqlite_store *s, enum store_mode mode,
                             struct sqlite_conn *conn, bool broken);

/* ---- sqlite.c: transactions --------------------------------------------- */

struct sqlite_store {
    struct store base;
    struct sqlite_gate gate;
    struct sqlite_conn *writer;
    char *path;
    int lock_fd;
    int db_fd;                  /* closed last: it drops SQLite's locks */
    sqlite3_file *log_file;     /* sqlite_reserve.c; NULL: none is kept */
    atomic_bool broken;         /* a sync failed: no more writes */
    struct sqlite_group *group; /* of who has the writer; NULL: none open */
    /* Likewise: with how many members a group is thought to be complete, and
     * how many were, in a row. */
    unsigned expected, complete;
    int fold_frames;   /* of the log, until they go into the database */
    uint64_t group_ns; /* after so long nobody joins a group any more */
};

/* What every commit changes goes there once for all of them, so the log may
 * grow; but a start has to read it. */
#define STORE_SQLITE_FOLD_FRAMES 16000
/* The first one waits no longer for the next. */
#define STORE_SQLITE_GROUP_NS 5000000u

/* Instead of an SQLite code: what comes before a commit failed. */
#define STORE_SQLITE_BARRED (-1)

/* A transaction on the writing connection, which is given away if it cannot
 * be begun. */
int store_sqlite_begin_write(struct sqlite_store *s, const char *what,
                             struct store_tx **ret, struct error *err);
/* Nothing is written any more. */
int store_sqlite_refuse(const char *what, struct error *err);
/* What a commit of that code means; why: if it was barred. */
int store_sqlite_not_kept(struct sqlite_store *s, const char *what, int code,
                          const struct error *why, struct error *err);
/* The engine's own transaction ends; what: for the log. An SQLite code. */
int store_sqlite_commit_now(struct sqlite_store *s, const char *what);
/* After such a commit: the log goes into the database, if it is long. */
void store_sqlite_fold(struct sqlite_store *s);
void store_sqlite_rollback_now(struct sqlite_store *s, const char *what);

/* ---- sqlite_group.c: one sync for several transactions -------------------
 */

/* All with the writing connection held; the last three give it away. SQLite
 * codes. job: what can be done again, or NULL. */
int store_sqlite_group_join(struct sqlite_store *s,
                            const struct sqlite_job *job);
/* What joined last is done, or as if it had not been; the latter's code: why
 * all of it may have been taken back. */
int store_sqlite_group_add(struct sqlite_store *s, struct sqlite_job *job);
int store_sqlite_group_drop(struct sqlite_store *s,
                            const struct sqlite_job *job);
/* Ends the one that is open, if one is; the connection stays the caller's. */
void store_sqlite_group_finish(struct sqlite_store *s, const char *what);
/* Durable when it returns SQLITE_OK. ret_why: why it was barred, if so. */
int store_sqlite_group_keep(struct sqlite_store *s, const char *what,
                            struct error *ret_why);
/* cause: why, if the engine failed. */
void store_sqlite_group_undo(struct sqlite_store *s, const char *what,
                             int cause);
/* Goes on with other jobs, or hands it on, or ends it, and waits for its end,
 * which has that code. */
int store_sqlite_group_see_out(struct sqlite_store *s, const char *what,
                               int cause, struct error *ret_why);

/* ---- sqlite_group.c: a transaction that another thread may run -----------
 */

int store_sqlite_write(struct store *base, const char *what,
                       store_write_fn *fn, void *ctx, struct error *err);
/* Calls its function in the transaction that is open. An SQLite code: whether
 * what it did may be kept, if job->result says so too. */
int store_sqlite_job_call(struct sqlite_store *s, struct sqlite_job *job);
/* The same, and it is kept if that may be. */
int store_sqlite_job_try(struct sqlite_store *s, struct sqlite_job *job);
/* In the group that is open, or a new one. An SQLite code: why the engine may
 * have taken back all of it. */
int store_sqlite_job_run(struct sqlite_store *s, struct sqlite_job *job);

struct sqlite_rows;

struct sqlite_tx {
    struct store_tx base;
    struct sqlite_store *store;
    struct sqlite_conn *conn;
    enum store_mode mode;
    const char *what;
    struct sqlite_rows *rows; /* that still have a statement */
    int failed; /* SQLite code that the engine may have rolled back for */
};

extern const struct store_ops store_sqlite_ops;

/* What clients see: what failed, but no SQL and no path (H5). Stops writing
 * if it was a sync. conn may be NULL. */
int store_sqlite_fail(struct sqlite_store *s, const struct sqlite_conn *conn,
                      int code, const char *what, struct error *err);
void store_sqlite_close(struct store *base); /* also a half-open one */

/* ---- sqlite_reserve.c: room for deletes on a full disk ------------------ */

uint64_t store_sqlite_reserve(struct store *base, uint64_t bytes);

/* ---- sqlite_rows.c, sqlite_backup.c: the rest of the table -------------- */

int store_sqlite_rows_exec(struct store_tx *base, const char *sql,
                           const struct store_value *values, size_t count,
                           struct error *err);
int store_sqlite_rows_query(struct store_tx *base, const char *sql,
                            const struct store_value *values, size_t count,
                            struct store_rows **ret, struct error *err);
int store_sqlite_rows_next(struct store_rows *base, struct error *err);
void store_sqlite_rows_done(struct store_rows *base);
const char *store_sqlite_rows_text(struct store_rows *base, int column);
int64_t store_sqlite_rows_number(struct store_rows *base, int column);
const void *store_sqlite_rows_bytes(struct store_rows *base, int column,
                                    size_t *ret_len);
/* Gives the statements of a transaction back; its rows stay, at their end. */
void store_sqlite_rows_detach(struct sqlite_tx *tx);

int store_sqlite_backup(struct store *base, const char *path,
                        void (*progress)(void *ctx, uint64_t done,
                                         uint64_t total),
                        void *ctx, struct error *err);
int store_sqlite_backup_check(struct store *base, struct error *err);

#endif
