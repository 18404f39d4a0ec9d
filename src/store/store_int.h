/* SPDX-License-Identifier: Apache-2.0 */
/* What the engines of store/ fill in; nobody else includes this. */
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

/* One function per call of store.h, with the same contract; commit and
 * rollback free the transaction, done frees the rows. */
struct store_ops {
    void (*close)(struct store *s);
    bool (*writable)(struct store *s);

    int (*begin)(struct store *s, enum store_mode mode, const char *what,
                 struct store_tx **ret, struct error *err);
    int (*commit)(struct store_tx *tx, struct error *err);
    void (*rollback)(struct store_tx *tx);
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

    int (*backup)(struct store *s, const char *path,
                  void (*progress)(void *ctx, uint64_t done, uint64_t total),
                  void *ctx, struct error *err);
    int (*check)(struct store *s, struct error *err);
    int (*forget)(struct store *s, struct error *err);
    uint64_t (*reserve)(struct store *s, uint64_t bytes);
};

/* The first member of every engine's own structs. Rows may be freed after
 * their transaction has ended, so they have the table themselves. */
struct store {
    const struct store_ops *ops;
    char id[STORE_ID];
    /* Held from the first hook's `before` to the last one's `after`, so that
     * a hook can be removed, and its context freed, between commits. */
    struct mutex hooks_lock;
    struct store_hook *hooks; /* in the order they were added */
};

struct store_tx {
    const struct store_ops *ops;
};

struct store_rows {
    const struct store_ops *ops;
};

/* sqlite_open.c */
int store_sqlite_open(const char *data_dir, store_check_fn *check, void *ctx,
                      struct store **ret, struct error *err);

/* Migration n brings the schema from version n to n + 1. Each is run once, in
 * a transaction of its own; a published one is never changed. */
extern const char *const store_migrations[];
extern const int store_migrations_count;
/* The schema of the first release, 0.1.0: an older one is a first start that
 * did not come to its end. */
#define STORE_RELEASED 14

#endif
