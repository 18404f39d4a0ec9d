/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the SQLite engine share.
 *
 * sqlite_open.c locks the directory, creates and migrates the file and opens
 * the one writing connection. sqlite_gate.c hands out connections: the writing
 * one to one thread at a time, first come, first served, and up to four
 * reading ones. sqlite.c begins and ends transactions and maps errors;
 * sqlite_group.c makes several transactions durable with one sync and runs the
 * jobs that other threads queued; sqlite_rows.c runs statements, which
 * sqlite_conn.c keeps prepared; sqlite_log.c is the VFS for the log;
 * sqlite_reserve.c reserves disk space for both files; sqlite_backup.c copies
 * and checks.
 *
 * Only the writing connection ever checkpoints: the library's log-reset race
 * (fixed in 3.51.3) needs two connections that do (D6). The others are opened
 * read-only, and no other process can open the database: the "unix-excl" VFS
 * keeps the file's lock for this process, and the index of the log in memory.
 */
#ifndef GLOVEBOX_STORE_SQLITE_INT_H
#define GLOVEBOX_STORE_SQLITE_INT_H

#include <sqlite3.h>
#include <stdatomic.h>

#include "store/store_int.h"

#define STORE_SQLITE_READERS 4
#define STORE_SQLITE_CACHED 256 /* prepared statements of a connection */
/* Only another program can hold a lock that long. */
#define STORE_SQLITE_BUSY_MS 3000

/* ---- sqlite_conn.c: a connection and its statements --------------------- */

struct sqlite_cached {
    const char *sql; /* the literal's address */
    sqlite3_stmt *st;
    uint64_t used; /* by the connection's count: the oldest is replaced */
    bool busy;
};

struct sqlite_conn {
    sqlite3 *db;
    uint64_t uses;
    int logged;       /* writer: frames in the log after the last commit */
    int checkpointed; /* writer: the same at the last checkpoint */
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
/* The prepared statement of that text, ready to be bound; end its use with
 * give. *ret_slot NULL: it is not cached. Returns an SQLite code. */
int store_sqlite_conn_take(struct sqlite_conn *c, const char *sql,
                           sqlite3_stmt **ret_st,
                           struct sqlite_cached **ret_slot);
void store_sqlite_conn_give(sqlite3_stmt *st, struct sqlite_cached *slot);
/* Runs a statement without parameters to its end. Returns an SQLite code. */
int store_sqlite_conn_run(struct sqlite_conn *c, const char *sql);
/* The first value of a query without parameters, as text; "": none.
 * Returns an SQLite code. */
int store_sqlite_conn_text(struct sqlite_conn *c, const char *sql, char *ret,
                           size_t size);

/* ---- sqlite_log.c: the VFS that writes the log -------------------------- */

/* Names of VFSs. */
#define STORE_SQLITE_VFS "unix-excl"
#define STORE_SQLITE_LOG_VFS "glovebox-log"

/* Registers the VFS of the writing connection once; its name. */
const char *store_sqlite_log_vfs(void);
/* Reserves blocks for this log (a file of that VFS); the bytes reserved. Any
 * thread. */
uint64_t store_sqlite_log_reserve(sqlite3_file *f, uint64_t bytes);

/* ---- sqlite_gate.c: connections ----------------------------------------- */

/* A call of store_write. */
struct sqlite_job {
    const char *what;
    store_write_fn *fn;
    void *ctx;
    struct error *err;
    int result;
    bool kept; /* part of the group: on disk when the group is */
    struct sqlite_job *later; /* next one kept by the same group */
};

enum sqlite_turn_state {
    TURN_WAITS,
    TURN_OURS, /* the connection is now this thread's */
    TURN_DONE, /* another thread ran its job, and the group has ended */
};

/* A thread that waits to write; lies on its stack. */
struct sqlite_turn {
    struct sqlite_turn *next;
    pthread_t thread;
    struct sqlite_job
        *job;          /* the thread with the connection may run it; or NULL */
    bool taken;        /* it is being run */
    atomic_uint state; /* futex */
};

struct sqlite_gate {
    struct mutex lock; /* guards what follows, never held across I/O */
    struct cond reader_freed;
    struct sqlite_turn *turns; /* first come, first served */
    atomic_uint awaited;       /* futex: the writer waits for one to come */
    bool writing;
    pthread_t writer; /* while writing */
    struct sqlite_conn *idle[STORE_SQLITE_READERS];
    size_t idle_count;
    size_t readers; /* open or being opened, idle ones included */
};

struct sqlite_group;
struct sqlite_store;

/* The next thread that waits to write. If it has no job, it gets the
 * connection and *ret_turn is NULL. If it has one, *ret_turn is its turn and
 * the connection stays: the caller runs the job and wakes the turn. False: no
 * thread waits. */
bool store_sqlite_gate_next(struct sqlite_gate *g,
                            struct sqlite_turn **ret_turn);
/* Waits a moment for a thread that wants to write; false: none came. */
bool store_sqlite_gate_await(struct sqlite_gate *g, uint64_t ns);
/* Wakes this turn; each wakes the one chained to it. */
void store_sqlite_gate_wake(struct sqlite_turn *turn); /* accepts NULL */
void store_sqlite_gate_init(struct sqlite_gate *g);
void store_sqlite_gate_done(struct sqlite_gate *g); /* closes the readers */
/* ERR_BUSY after a minute. */
int store_sqlite_gate_enter(struct sqlite_store *s, enum store_mode mode,
                            const char *what, struct sqlite_conn **ret_conn,
                            struct error *err);
/* Waits for the writing connection, 0, or until another thread has run the
 * job, 1. ERR_BUSY after a minute. */
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
    int db_fd;                  /* closed last: closing drops SQLite's locks */
    sqlite3_file *log_file;     /* sqlite_reserve.c; NULL: none reserved */
    atomic_bool broken;         /* a sync failed: writing has stopped */
    struct sqlite_group *group; /* of the writing thread; NULL: none open */
    /* Of the writing thread: the expected number of members of a group, and
     * how many groups in a row had it. */
    unsigned expected, complete;
    int checkpoint_frames; /* length of the log that triggers a checkpoint */
    uint64_t group_ns;     /* a group older than this accepts no member */
};

/* Pages that every commit changes are checkpointed once for all of them, so a
 * long log is good; but a start has to read it. */
#define STORE_SQLITE_CHECKPOINT_FRAMES 16000
/* The longest that the first member waits for others. */
#define STORE_SQLITE_GROUP_NS 5000000u

/* In place of an SQLite code: a hook failed before the commit. */
#define STORE_SQLITE_HOOK_FAILED (-1)

/* Begins a transaction on the writing connection, or gives the connection away
 * if that fails. */
int store_sqlite_begin_write(struct sqlite_store *s, const char *what,
                             struct store_tx **ret, struct error *err);
/* The error of every write after a failed sync. */
int store_sqlite_writing_stopped(const char *what, struct error *err);
/* The error of a commit that ended with that code; why: of a failed hook. */
int store_sqlite_commit_error(struct sqlite_store *s, const char *what,
                              int code, const struct error *why,
                              struct error *err);
/* Ends SQLite's transaction; what: for our log. An SQLite code. */
int store_sqlite_commit_now(struct sqlite_store *s, const char *what);
/* After a commit: checkpoints a long log. */
void store_sqlite_checkpoint(struct sqlite_store *s);
void store_sqlite_rollback_now(struct sqlite_store *s, const char *what);

/* ---- sqlite_group.c: one sync for several transactions ------------------ */

/* All with the writing connection; commit, rollback and end_turn give it away.
 * SQLite codes. job: what can run again, or NULL. */
int store_sqlite_group_join(struct sqlite_store *s,
                            const struct sqlite_job *job);
/* Keeps the last member, or undoes it. The code of undo: why SQLite may have
 * rolled back the whole group. */
int store_sqlite_group_keep_last(struct sqlite_store *s,
                                 struct sqlite_job *job);
int store_sqlite_group_undo_last(struct sqlite_store *s,
                                 const struct sqlite_job *job);
/* Ends the open group, if any; the caller keeps the connection. */
void store_sqlite_group_finish(struct sqlite_store *s, const char *what);
/* Durable when it returns SQLITE_OK. ret_why: of a hook that failed. */
int store_sqlite_group_commit(struct sqlite_store *s, const char *what,
                              struct error *ret_why);
/* cause: the SQLite code of a failure, or SQLITE_OK. */
void store_sqlite_group_rollback(struct sqlite_store *s, const char *what,
                                 int cause);
/* Ends this thread's turn: runs waiting jobs, passes the group on or commits
 * it, and waits for its end. Returns the code of that end. */
int store_sqlite_group_end_turn(struct sqlite_store *s, const char *what,
                                int cause, struct error *ret_why);

/* ---- sqlite_group.c: a transaction that another thread may run ---------- */

int store_sqlite_write(struct store *base, const char *what,
                       store_write_fn *fn, void *ctx, struct error *err);
/* Calls its function in the open transaction. An SQLite code: SQLITE_OK if its
 * changes may be kept (and job->result is 0). */
int store_sqlite_job_call(struct sqlite_store *s, struct sqlite_job *job);
/* The same, and keeps the changes if possible. */
int store_sqlite_job_try(struct sqlite_store *s, struct sqlite_job *job);
/* In the open group, or a new one. An SQLite code: why SQLite may have rolled
 * back the whole group. */
int store_sqlite_job_run(struct sqlite_store *s, struct sqlite_job *job);

struct sqlite_rows;

struct sqlite_tx {
    struct store_tx base;
    struct sqlite_store *store;
    struct sqlite_conn *conn;
    enum store_mode mode;
    const char *what;
    struct sqlite_rows *rows; /* with a statement */
    int failed; /* first SQLite code that may have rolled it back */
};

/* The error for clients, without SQL and paths (H5). Stops writing if a sync
 * failed. conn may be NULL. */
int store_sqlite_fail(struct sqlite_store *s, const struct sqlite_conn *conn,
                      int code, const char *what, struct error *err);
void store_sqlite_close(struct store *base); /* also a half-open one */

/* ---- sqlite_open.c ------------------------------------------------------ */

int store_sqlite_open(const struct store_settings *settings,
                      struct store **ret, struct error *err);

/* ---- sqlite_reserve.c: disk space for commits on a full disk ------------ */

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
/* Ends the statements of a transaction; its rows stay, at their end. */
void store_sqlite_rows_detach(struct sqlite_tx *tx);

int store_sqlite_backup(struct store *base, const char *path,
                        void (*progress)(void *ctx, uint64_t done,
                                         uint64_t total),
                        void *ctx, struct error *err);
int store_sqlite_backup_check(struct store *base, struct error *err);

#endif
