/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an engine of store/ implements, and what store.c does for every engine.
 * Only files of store/ (and its tests) include this.
 */
#ifndef GLOVEBOX_STORE_STORE_INT_H
#define GLOVEBOX_STORE_STORE_INT_H

#include "base/thread.h"
#include "store/store.h"

#define STORE_VALUES_MAX 32 /* parameters of one statement */

/* A parameter, taken off the caller's arguments; bytes are borrowed. */
struct store_value {
    char type;         /* 't', 'i' or 'b', as in store.h */
    int64_t number;    /* i */
    const void *bytes; /* t, b; NULL is NULL */
    size_t len;        /* b */
};

/*
 * An engine: one function per call of store.h, with the same contract. commit
 * and rollback free the transaction, done frees the rows.
 *
 * The database, connections, locks, files, the log, the schema and every
 * failure code belong to the engine. store.c only unpacks arguments, keeps the
 * list of hooks, and runs a lost transaction again.
 */
struct store_engine {
    const char *name;
    bool shared; /* several daemons may have the database open */

    int (*open)(const struct store_settings *settings, struct store **ret,
                struct error *err);
    void (*close)(struct store *s);
    bool (*writable)(struct store *s);

    int (*begin)(struct store *s, enum store_mode mode, const char *what,
                 struct store_tx **ret, struct error *err);
    /* Calls store_hooks_before in the transaction, then commits, then calls
     * store_hooks_after, whatever came of it. */
    int (*commit)(struct store_tx *tx, struct error *err);
    void (*rollback)(struct store_tx *tx);
    /* NULL: store.c begins, runs fn and commits, and does so again when the
     * engine has called store_tx_lost. An engine that can commit several
     * transactions with one sync has its own. */
    int (*write)(struct store *s, const char *what, store_write_fn *fn,
                 void *ctx, struct error *err);

    int (*exec)(struct store_tx *tx, const char *sql,
                const struct store_value *values, size_t count,
                struct error *err);
    int (*query)(struct store_tx *tx, const char *sql,
                 const struct store_value *values, size_t count,
                 struct store_rows **ret, struct error *err);
    int (*next)(struct store_rows *rows, struct error *err);
    void (*done)(struct store_rows *rows);
    const char *(*text)(struct store_rows *rows, int column);
    int64_t (*number)(struct store_rows *rows, int column);
    const void *(*bytes)(struct store_rows *rows, int column, size_t *ret_len);

    /* One row with the time of the database in milliseconds; NULL: the
     * database has no clock but this machine's. */
    const char *now_sql;

    int (*backup)(struct store *s, const char *path,
                  void (*progress)(void *ctx, uint64_t done, uint64_t total),
                  void *ctx, struct error *err);
    int (*check)(struct store *s, struct error *err);
    int (*forget)(struct store *s, struct error *err);
    uint64_t (*reserve)(struct store *s, uint64_t bytes);

    /* Both may be NULL. Answers from memory; NULL: ready while writable. */
    int (*ready)(struct store *s, struct error *err);
    /* Sends a notification with the transaction; the engine receives it and
     * calls store_notify_deliver. NULL: notify.c delivers within the process.
     */
    int (*notify)(struct store_tx *tx, const char *channel,
                  const char *payload, struct error *err);
};

/* The first member of every engine's own structs. Rows may be freed after
 * their transaction has ended, so they name the engine themselves. */
struct store {
    const struct store_engine *engine;
    char id[STORE_ID];
    /* Held from the first hook's `before` to the last one's `after`, so that
     * a hook can be removed, and its context freed, between commits. */
    struct mutex hooks_lock;
    struct store_hook *hooks;      /* in the order they were added */
    struct store_hook *hooks_end;  /* hooks_lock: `before` failed in the hook
                                      that precedes this one; NULL: in none */
    struct store_notices *notices; /* notify.c */
};

struct store_note;

struct store_tx {
    const struct store_engine *engine;
    bool *ret_lost; /* store_tx_lost; NULL: no one can run it again */
    /* store.c's; an engine leaves both alone. */
    struct store *store;
    struct store_note *notes; /* to be delivered after the commit */
};

struct store_rows {
    const struct store_engine *engine;
};

void store_base_init(struct store *s, const struct store_engine *engine);
void store_base_done(struct store *s);

/* `before` of every hook, in tx, until one fails; err is that hook's. Leaves
 * the lock held for store_hooks_after. */
int store_hooks_before(struct store *s, struct store_tx *tx,
                       struct error *err);
/* `after` of every hook whose `before` was called. */
void store_hooks_after(struct store *s, bool kept);

/* For an engine in which transactions can collide: this one was rolled back
 * because a concurrent one won (a serialization failure or deadlock), and may
 * be run again. The failing call then returns ERR_BUSY. */
void store_tx_lost(struct store_tx *tx);
#define STORE_LOST_TRIES 8u /* of one store_write */

extern const struct store_engine store_sqlite;
extern const struct store_engine store_postgres;

/* ---- notify.c ------------------------------------------------------------
 */

void store_notify_init(struct store *s);
void store_notify_done(struct store *s);
/* Calls the listeners of the channel. payload NULL: all listeners, since
 * notifications may have been lost. On a thread of the store. */
void store_notify_deliver(struct store *s, const char *channel,
                          const char *payload);
/* Hands the notes of a transaction that was committed to the thread that
 * delivers them. Taken. */
void store_notify_committed(struct store *s, struct store_note *notes);
void store_notify_drop(struct store_note *notes); /* accepts NULL */

/* ---- data_dir.c ----------------------------------------------------------
 */

#define STORE_TRACES_MAX 200
/* The files in it that show that it has been used, separated by commas; "":
 * none. */
void store_data_dir_traces(int dir, char ret[STORE_TRACES_MAX]);
/* ERR_CONFLICT when another process has it open. */
int store_data_dir_lock(int dir, int *ret_fd, struct error *err);

/* ---- migrations.c --------------------------------------------------------
 */

/* Migration n brings the schema from version n to n + 1. Each runs once, in
 * a separate transaction; a published migration is never changed. */
extern const char *const store_migrations[];
extern const int store_migrations_count;
/* The schema of the first release, 0.1.0: an older one is a first start that
 * did not come to its end. */
#define STORE_RELEASED 14

#endif
