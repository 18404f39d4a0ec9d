/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the PostgreSQL engine share.
 *
 * postgres_open.c reads the URL, refuses unsafe servers, migrates and opens;
 * postgres_schema.c translates the schema. postgres_conn.c is a connection:
 * pipelined commands, prepared statements and deadlines. postgres_gate.c hands
 * connections out: one for writing to one thread at a time, and up to eight
 * for reading. postgres.c begins and ends transactions and maps errors;
 * postgres_group.c commits several transactions of store_write at once;
 * postgres_rows.c runs statements; postgres_listen.c is the thread that
 * receives notifications and knows whether the server answers;
 * postgres_check.c reads every page.
 *
 * Isolation. A write transaction first takes the store's advisory lock, which
 * all daemons of the database share and which ends with the transaction. So
 * writers take turns across machines as they do with SQLite, each statement
 * sees every earlier commit, and no transaction is lost to a concurrent one.
 * Readers have a snapshot (REPEATABLE READ) and never wait. A client that
 * stops within a transaction loses its connection, and with it the lock, after
 * STORE_POSTGRES_IDLE_MS.
 */
#ifndef GLOVEBOX_STORE_POSTGRES_INT_H
#define GLOVEBOX_STORE_POSTGRES_INT_H

#include <postgresql/libpq-fe.h>
#include <stdatomic.h>

#include "store/store_int.h"

#define STORE_POSTGRES_READERS 8
#define STORE_POSTGRES_CACHED 256 /* prepared statements of a connection */

#define STORE_POSTGRES_CONNECT_S 5
/* The server gives up a statement, and a wait for a lock, after these. */
#define STORE_POSTGRES_STATEMENT_MS 30000
#define STORE_POSTGRES_LOCK_MS 20000
/* The server ends a connection that is silent within a write transaction. */
#define STORE_POSTGRES_IDLE_MS 5000
#define STORE_POSTGRES_IDLE_READ_MS 300000
/* A server that has not answered for so long is treated as gone. */
#define STORE_POSTGRES_ANSWER_MS 35000
/* How long a commit whose answer was lost is looked for. */
#define STORE_POSTGRES_DOUBT_MS 15000

struct postgres_store;
struct postgres_rows;

/* ---- postgres_conn.c: a connection, its pipeline and its statements ----- */

/* Why a command failed. */
struct postgres_failure {
    char state[6];  /* SQLSTATE; "" for none */
    bool gone;      /* the connection is lost */
    char text[160]; /* the server's sentence, for our log alone */
};

struct postgres_cached {
    const char *sql; /* the literal's address */
    char *text;      /* a copy: a buffer that is no literal may change */
    char types[STORE_VALUES_MAX + 1];
    char name[24];
    uint64_t used; /* by the connection's count: the oldest is replaced */
    bool prepared;
    bool guarded; /* a constraint may refuse it: runs within a savepoint */
    bool selects; /* rows are received one at a time */
};

/* Results that are still to be received, in order. */
enum postgres_expected {
    EXPECT_IGNORED, /* of a command; a failure counts */
    EXPECT_PARSED,  /* of preparing c->parsing */
    EXPECT_WANTED,  /* the caller's */
    EXPECT_SYNC,
};

struct postgres_conn {
    PGconn *pg;
    bool gone;
    int answer_ms; /* a server silent for so long is treated as gone */
    bool begun;    /* BEGIN was queued or sent */
    bool changed;  /* this transaction has changed something */
    uint64_t uses;
    unsigned names;
    unsigned char expected[64];
    unsigned expected_count;
    struct postgres_cached *parsing;
    struct postgres_rows *streaming; /* its rows are being received */
    struct postgres_failure failure; /* the first since the last sync */
    struct postgres_cached cache[STORE_POSTGRES_CACHED];
};

/* Keywords of libpq, from the URL and our own; NULL-terminated. */
struct postgres_place {
    char **keywords;
    char **values;
};

int store_postgres_conn_open(const struct postgres_place *place,
                             enum store_mode mode,
                             struct postgres_conn **ret_conn,
                             struct error *err);
void store_postgres_conn_close(struct postgres_conn *c); /* accepts NULL */
/* Queues a command without parameters; its result is not needed. */
void store_postgres_conn_queue(struct postgres_conn *c, const char *sql);
/* The statement of that text, prepared with what is sent next; NULL with
 * c->failure when it does not fit its values. */
struct postgres_cached *store_postgres_conn_statement(
    struct postgres_conn *c, const char *sql, const struct store_value *values,
    size_t count);
/* Queues its execution; result: whether it is wanted or ignored. */
void store_postgres_conn_execute(struct postgres_conn *c,
                                 const struct postgres_cached *st,
                                 const struct store_value *values,
                                 size_t count, enum postgres_expected result);
/* Sends what is queued, and no more: its results are received later. */
void store_postgres_conn_send(struct postgres_conn *c);
/* Receives until the next result of the wanted command: false when it has no
 * more, or failed (c->failure). */
bool store_postgres_conn_receive(struct postgres_conn *c, PGresult **ret);
/* Asks for single rows of the wanted command, which must be next. False: a
 * command before it failed. */
bool store_postgres_conn_stream(struct postgres_conn *c);
/* Receives all that was sent. False: a command failed (c->failure). */
bool store_postgres_conn_finish(struct postgres_conn *c);
/* Runs one command to its end; *ret_result (or NULL) is owned by caller.
 * False: failed (c->failure). */
bool store_postgres_conn_ask(struct postgres_conn *c, const char *sql,
                             int count, const char *const *values,
                             PGresult **ret_result);
/* Numbers parameters as PostgreSQL does, $1 for ?1; *ret_most: the highest.
 * Owned by caller. */
char *store_postgres_conn_translate(const char *sql, size_t *ret_most);

/* ---- postgres_gate.c: connections --------------------------------------- */

/* A call of store_write. */
struct postgres_job {
    const char *what;
    store_write_fn *fn;
    void *ctx;
    struct error *err;
    int result;
    bool undone;               /* its changes are not in the transaction */
    struct postgres_job *next; /* of the same group */
    struct postgres_turn *turn;
};

/* A thread that waits to write; lies on its stack. */
struct postgres_turn {
    struct postgres_turn *next;
    pthread_t thread;
    struct postgres_job *job; /* the thread that writes may run it; or NULL */
    bool taken;               /* it is being run */
    bool ours;                /* the connection is this thread's */
    bool done;                /* another thread ran the job */
    struct cond changed;
};

struct postgres_gate {
    struct mutex lock; /* guards what follows, never held across I/O */
    struct cond reader_freed;
    struct postgres_turn *turns; /* first come, first served */
    bool writing;
    pthread_t writer; /* while writing */
    struct postgres_conn *idle[STORE_POSTGRES_READERS];
    size_t idle_count;
    size_t readers;            /* open or being opened, idle ones included */
    uint64_t refused_until_ms; /* the server was unreachable: not tried again
                                  before this */
    uint64_t backoff_ms;
};

void store_postgres_gate_init(struct postgres_gate *g);
void store_postgres_gate_done(struct postgres_gate *g);
/* ERR_BUSY after a minute; ERR_UNAVAILABLE when the server is unreachable.
 * *ret_conn is idle. */
int store_postgres_gate_enter(struct postgres_store *s, enum store_mode mode,
                              const char *what,
                              struct postgres_conn **ret_conn,
                              struct error *err);
/* Waits for the turn to write, 0, or until another thread has run the job, 1.
 * Opens no connection. */
int store_postgres_gate_offer(struct postgres_store *s,
                              struct postgres_job *job);
/* The next job that waits, if the first thread in the queue has one. */
struct postgres_job *store_postgres_gate_next(struct postgres_store *s);
/* Wakes the thread of a job that store_postgres_gate_next returned. */
void store_postgres_gate_wake(struct postgres_store *s,
                              struct postgres_job *job);
/* A lost connection is closed. */
void store_postgres_gate_leave(struct postgres_store *s, enum store_mode mode,
                               struct postgres_conn *conn);
/* Makes *conn usable: opens it, or opens it again after it was lost. Tries no
 * server that has just been unreachable. */
int store_postgres_gate_connect(struct postgres_store *s, enum store_mode mode,
                                const char *what, struct postgres_conn **conn,
                                struct error *err);

/* ---- postgres.c: transactions ------------------------------------------- */

struct postgres_store {
    struct store base;
    struct postgres_gate gate;
    struct postgres_conn *writer; /* the writing thread's; NULL: not open */
    struct postgres_place place;
    int lock_fd;        /* of the data directory */
    char take_lock[64]; /* SQL of the store's advisory lock */
    char writer_id[33]; /* of this process, in store_writers */
    uint64_t commits;   /* the writing thread's: number of the last commit */
    atomic_uint_fast64_t statements, sent_bytes; /* since the start */
    /* postgres_listen.c */
    struct thread listener;
    int wake_fd; /* eventfd: stop listening */
    atomic_bool stopping;
    atomic_uint_fast64_t heard_ms; /* the server's last sign of life */
};

struct postgres_tx {
    struct store_tx base;
    struct postgres_store *store;
    struct postgres_conn *conn;
    enum store_mode mode;
    const char *what;
    bool savepoint; /* one must be set before the first statement */
    struct postgres_rows *rows;     /* not at their end */
    struct postgres_failure failed; /* why it cannot be committed any more */
};

/* Queues BEGIN, the lock or the savepoint if they are due. */
void store_postgres_begin_due(struct postgres_tx *tx);
/* The error for clients, without SQL (H5). */
int store_postgres_fail(const char *what, const struct postgres_failure *f,
                        struct error *err);
/* Did a concurrent transaction win, or the connection go before the commit?
 * Then the same may succeed the next time. */
bool store_postgres_lost(const struct postgres_failure *f);
/* The failure of a statement: a constraint undoes it if it ran within a
 * savepoint (guarded), anything else forbids the commit. */
int store_postgres_tx_fail(struct postgres_tx *tx, bool guarded,
                           struct error *err);
/* Hooks, then COMMIT. tx->conn may be lost, or another one, afterwards.
 * *ret_failure: of COMMIT; "" when a hook failed (err is its). */
int store_postgres_commit_now(struct postgres_tx *tx,
                              struct postgres_failure *ret_failure,
                              struct error *err);
/* Sends ROLLBACK if the server has a transaction; does not wait for it. */
void store_postgres_rollback_now(struct postgres_conn *c);

/* ---- postgres_group.c, postgres_rows.c, postgres_listen.c, _check.c ------
 */

int store_postgres_write(struct store *base, const char *what,
                         store_write_fn *fn, void *ctx, struct error *err);

int store_postgres_rows_exec(struct store_tx *base, const char *sql,
                             const struct store_value *values, size_t count,
                             struct error *err);
int store_postgres_rows_query(struct store_tx *base, const char *sql,
                              const struct store_value *values, size_t count,
                              struct store_rows **ret, struct error *err);
int store_postgres_rows_next(struct store_rows *base, struct error *err);
void store_postgres_rows_done(struct store_rows *base);
const char *store_postgres_rows_text(struct store_rows *base, int column);
int64_t store_postgres_rows_number(struct store_rows *base, int column);
const void *store_postgres_rows_bytes(struct store_rows *base, int column,
                                      size_t *ret_len);
/* Receives the rest of the rows that are being received, so that another
 * command can be sent. */
void store_postgres_rows_drain(struct postgres_conn *c);
/* Ends the rows of a transaction. */
void store_postgres_rows_detach(struct postgres_tx *tx);

int store_postgres_listen_start(struct postgres_store *s, struct error *err);
void store_postgres_listen_stop(struct postgres_store *s);
int store_postgres_listen_notify(struct store_tx *base, const char *channel,
                                 const char *payload, struct error *err);

int store_postgres_check(struct store *base, struct error *err);
int store_postgres_check_forget(struct store *base, struct error *err);

/* ---- postgres_open.c, postgres_schema.c --------------------------------- */

int store_postgres_open(const struct store_settings *settings,
                        struct store **ret, struct error *err);
void store_postgres_close(struct store *base); /* also a half-open one */

/* Where a URL leads; its password is in it. */
int store_postgres_open_place(const char *url, struct postgres_place *ret,
                              struct error *err);
void store_postgres_open_place_done(struct postgres_place *place);
/* Creates the whole schema, within the caller's transaction. */
int store_postgres_open_schema(struct postgres_conn *c, struct error *err);

int store_postgres_copy_backup(struct store *base, const char *path,
                               void (*progress)(void *ctx, uint64_t done,
                                                uint64_t total),
                               void *ctx, struct error *err);

/* Migration n in PostgreSQL's dialect: *ret_count statements, owned by caller
 * with the array. */
char **store_postgres_schema(int migration, size_t *ret_count);
void store_postgres_schema_free(char **statements, size_t count);

#endif
