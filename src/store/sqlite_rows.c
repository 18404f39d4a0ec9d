/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs statements in a transaction and reads their rows; see sqlite_int.h.
 * Runs in the daemon on the transaction's thread. Values are bound, never
 * printed into SQL.
 */
#include "base/error.h"
#include "base/mem.h"
#include "store/sqlite_int.h"

struct sqlite_rows {
    struct store_rows base;
    struct sqlite_tx *tx; /* NULL once it has ended */
    struct sqlite_rows *next;
    sqlite3_stmt *st; /* NULL with it, or after the last row */
    struct sqlite_cached *slot;
    bool on_row;
};

/* ---- failing ------------------------------------------------------------ */

/* A constraint undoes its statement only. Any other failure may have rolled
 * the transaction back, so it cannot be committed any more. */
static int tx_fail(struct sqlite_tx *tx, int code, struct error *err)
{
    if ((code & 0xff) != SQLITE_CONSTRAINT && !tx->failed)
        tx->failed = code;
    return store_sqlite_fail(tx->store, tx->conn, code, tx->what, err);
}

/* ---- binding ------------------------------------------------------------ */

static int bind_values(sqlite3_stmt *st, const struct store_value *values,
                       size_t count)
{
    int code = SQLITE_OK;

    if ((size_t)sqlite3_bind_parameter_count(st) != count)
        return SQLITE_RANGE;
    for (size_t i = 0; i < count && code == SQLITE_OK; i++) {
        const struct store_value *v = &values[i];
        int at = (int)i + 1;

        if (v->type == 'i')
            code = sqlite3_bind_int64(st, at, v->number);
        else if (!v->bytes)
            code = sqlite3_bind_null(st, at);
        else if (v->type == 't')
            code = sqlite3_bind_text(st, at, v->bytes, -1, SQLITE_STATIC);
        else
            code =
                sqlite3_bind_blob64(st, at, v->bytes, v->len, SQLITE_STATIC);
    }
    return code;
}

/* Takes and binds a statement; store_sqlite_conn_give ends its use. */
static int start_statement(struct sqlite_tx *tx, const char *sql,
                           const struct store_value *values, size_t count,
                           sqlite3_stmt **ret_st,
                           struct sqlite_cached **ret_slot, struct error *err)
{
    int code;

    if (tx->failed)
        return store_sqlite_fail(tx->store, NULL, tx->failed, tx->what, err);
    code = store_sqlite_conn_take(tx->conn, sql, ret_st, ret_slot);
    if (code != SQLITE_OK)
        return tx_fail(tx, code, err);
    code = bind_values(*ret_st, values, count);
    if (code == SQLITE_OK)
        return 0;
    store_sqlite_conn_give(*ret_st, *ret_slot);
    return tx_fail(tx, code, err);
}

/* ---- without rows ------------------------------------------------------- */

int store_sqlite_rows_exec(struct store_tx *base, const char *sql,
                           const struct store_value *values, size_t count,
                           struct error *err)
{
    struct sqlite_tx *tx = (struct sqlite_tx *)base;
    struct sqlite_cached *slot = NULL;
    sqlite3_stmt *st = NULL;
    int code, changed;

    if (start_statement(tx, sql, values, count, &st, &slot, err) < 0)
        return -(int)err->code;
    do
        code = sqlite3_step(st);
    while (code == SQLITE_ROW);
    changed = sqlite3_stmt_readonly(st) ? 0 : sqlite3_changes(tx->conn->db);
    store_sqlite_conn_give(st, slot);
    return code == SQLITE_DONE ? changed : tx_fail(tx, code, err);
}

/* ---- with rows ---------------------------------------------------------- */

int store_sqlite_rows_query(struct store_tx *base, const char *sql,
                            const struct store_value *values, size_t count,
                            struct store_rows **ret, struct error *err)
{
    struct sqlite_tx *tx = (struct sqlite_tx *)base;
    struct sqlite_cached *slot = NULL;
    struct sqlite_rows *rows;
    sqlite3_stmt *st = NULL;

    if (start_statement(tx, sql, values, count, &st, &slot, err) < 0)
        return -(int)err->code;
    rows = xcalloc(1, sizeof(*rows));
    rows->base.engine = &store_sqlite;
    rows->tx = tx;
    rows->st = st;
    rows->slot = slot;
    rows->next = tx->rows;
    tx->rows = rows;
    *ret = &rows->base;
    return 0;
}

/* Gives the statement back; the rows are at their end. */
static void finish_rows(struct sqlite_rows *rows)
{
    struct sqlite_rows **link;

    if (!rows->st)
        return;
    for (link = &rows->tx->rows; *link != rows; link = &(*link)->next)
        continue;
    *link = rows->next;
    store_sqlite_conn_give(rows->st, rows->slot);
    rows->st = NULL;
    rows->tx = NULL;
    rows->on_row = false;
}

int store_sqlite_rows_next(struct store_rows *base, struct error *err)
{
    struct sqlite_rows *rows = (struct sqlite_rows *)base;
    struct sqlite_tx *tx = rows->tx;
    int code;

    if (!rows->st)
        return 0;
    code = sqlite3_step(rows->st);
    rows->on_row = code == SQLITE_ROW;
    if (rows->on_row)
        return 1;
    finish_rows(rows);
    return code == SQLITE_DONE ? 0 : tx_fail(tx, code, err);
}

void store_sqlite_rows_done(struct store_rows *base)
{
    struct sqlite_rows *rows = (struct sqlite_rows *)base;

    finish_rows(rows);
    free(rows);
}

void store_sqlite_rows_detach(struct sqlite_tx *tx)
{
    while (tx->rows)
        finish_rows(tx->rows);
}

/* ---- columns ------------------------------------------------------------ */

const char *store_sqlite_rows_text(struct store_rows *base, int column)
{
    struct sqlite_rows *rows = (struct sqlite_rows *)base;

    return rows->on_row ? (const char *)sqlite3_column_text(rows->st, column)
                        : NULL;
}

int64_t store_sqlite_rows_number(struct store_rows *base, int column)
{
    struct sqlite_rows *rows = (struct sqlite_rows *)base;

    return rows->on_row ? sqlite3_column_int64(rows->st, column) : 0;
}

const void *store_sqlite_rows_bytes(struct store_rows *base, int column,
                                    size_t *ret_len)
{
    struct sqlite_rows *rows = (struct sqlite_rows *)base;
    const void *bytes;

    *ret_len = 0;
    if (!rows->on_row)
        return NULL;
    bytes = sqlite3_column_blob(rows->st, column);
    *ret_len = (size_t)sqlite3_column_bytes(rows->st, column);
    return bytes;
}
