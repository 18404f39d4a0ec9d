/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of the store, as copies between engines see them: names, columns
 * and types, read from a database of SQLite, and digests of their rows. Only
 * files of store/ (and its tests) include this.
 */
#ifndef GLOVEBOX_STORE_TABLES_H
#define GLOVEBOX_STORE_TABLES_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/hash.h"

#define STORE_NAME_MAX 64
#define STORE_COLUMNS_MAX 64u

struct store_column {
    char name[STORE_NAME_MAX];
    char type; /* 't', 'i' or 'b', as in store.h */
};

struct store_table {
    char name[STORE_NAME_MAX];
    struct store_column columns[STORE_COLUMNS_MAX];
    size_t count;
    bool numbered; /* the first column is assigned by the database, and no
                      number is used twice */
    uint64_t rows; /* as counted by store_tables_read */
};

/* In an order in which each table follows those it references. */
struct store_tables {
    struct store_table *all; /* owned */
    size_t count;
};

/* Every table but those that are the engine's own: the version of the schema,
 * and what FTS5 keeps beside `words`. Returns an SQLite code; SQLITE_TOOBIG
 * for a table or a name beyond the limits above. */
int store_tables_read(sqlite3 *db, struct store_tables *ret);
void store_tables_done(struct store_tables *t); /* for cleanup() */

/* "a, b, c" */
void store_table_columns(const struct store_table *t, struct buf *out);

/* ---- digests ------------------------------------------------------------ */

/* The number of rows and the sum of their SHA-256, modulo 2^256: the order of
 * rows does not matter. */
struct store_digest {
    uint64_t rows;
    unsigned char sum[HASH_SIZE];
};

/* A value of a row, in the one form that is hashed; bytes NULL: NULL. Numbers
 * are text. */
void store_digest_value(struct buf *row, char type, const void *bytes,
                        size_t len);
void store_digest_row(struct store_digest *d, const struct buf *row);
bool store_digest_equal(const struct store_digest *a,
                        const struct store_digest *b);

#endif
