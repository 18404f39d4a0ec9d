/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs statements in a transaction and reads their rows; see postgres_int.h.
 * Runs in the daemon on the transaction's thread. Values are bound, never
 * printed into SQL; results are binary.
 *
 * Rows are received one at a time, so that a long answer needs no memory. The
 * connection can do nothing else meanwhile: when the caller runs another
 * statement between two rows, the rest is received into memory first.
 */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/postgres_int.h"

/* Types of PostgreSQL, from its catalog; they never change. */
enum {
    OID_BOOL = 16,
    OID_INT8 = 20,
    OID_INT2 = 21,
    OID_INT4 = 23,
    OID_NUMERIC = 1700,
};

struct postgres_rows {
    struct store_rows base;
    struct postgres_tx *tx; /* NULL once they have ended */
    struct postgres_rows *next;
    PGresult *now;   /* of the row that is read; NULL: none */
    int row;         /* in it */
    PGresult **kept; /* received early */
    size_t kept_at, kept_count;
    struct error error; /* at the end of what was kept */
    bool guarded;       /* ran within a savepoint */
    char (*texts)[24];  /* of numbers that are read as text */
};

/* ---- running ------------------------------------------------------------ */

/* Sends a statement, with what must come before it, and receives up to its
 * results. NULL: it does not fit its values, or the connection is lost. */
static const struct postgres_cached *run_statement(
    struct postgres_tx *tx, const char *sql, const struct store_value *values,
    size_t count)
{
    struct postgres_conn *c = tx->conn;
    const struct postgres_cached *st;

    store_postgres_begin_due(tx);
    st = store_postgres_conn_statement(c, sql, values, count);
    if (!st)
        return NULL;
    if (st->guarded)
        store_postgres_conn_queue(c, "SAVEPOINT s");
    store_postgres_conn_execute(c, st, values, count, EXPECT_WANTED);
    if (st->guarded)
        store_postgres_conn_queue(c, "RELEASE SAVEPOINT s");
    store_postgres_conn_send(c);
    atomic_fetch_add_explicit(&tx->store->statements, 1, memory_order_relaxed);
    return store_postgres_conn_stream(c) ? st : NULL;
}

/* A connection that was lost before the first statement is opened again:
 * nothing of the transaction is lost with it. */
static const struct postgres_cached *start_statement(
    struct postgres_tx *tx, const char *sql, const struct store_value *values,
    size_t count, struct error *err)
{
    const struct postgres_cached *st;
    PGresult *res;
    bool first;

    if (tx->failed.state[0]) {
        (void)store_postgres_fail(tx->what, &tx->failed, err);
        return NULL;
    }
    store_postgres_rows_drain(tx->conn);
    first = !tx->conn->begun;
    st = run_statement(tx, sql, values, count);
    if (!st && first && tx->conn->gone) {
        if (store_postgres_gate_connect(tx->store, tx->mode, tx->what,
                                        &tx->conn, err) < 0) {
            tx->failed =
                (struct postgres_failure){.state = "08006", .gone = true};
            store_tx_lost(&tx->base);
            return NULL;
        }
        st = run_statement(tx, sql, values, count);
    }
    if (st && !tx->conn->failure.state[0])
        return st;
    /* What came before it has failed: preparing it, the lock, the begin. */
    if (!st)
        store_postgres_conn_send(tx->conn);
    while (st && store_postgres_conn_receive(tx->conn, &res))
        PQclear(res);
    (void)store_postgres_conn_finish(tx->conn); /* it has failed already */
    (void)store_postgres_tx_fail(tx, false, err);
    return NULL;
}

/* Notes whether a statement that has ended changed anything; the rows. */
static int count_changed(struct postgres_conn *c, PGresult *res)
{
    const char *command = PQcmdStatus(res);
    int changed;

    if (strncmp(command, "INSERT", 6) != 0 &&
        strncmp(command, "UPDATE", 6) != 0 &&
        strncmp(command, "DELETE", 6) != 0)
        return 0;
    changed = (int)strtol(PQcmdTuples(res), NULL, 10);
    c->changed = c->changed || changed > 0;
    return changed;
}

int store_postgres_rows_exec(struct store_tx *base, const char *sql,
                             const struct store_value *values, size_t count,
                             struct error *err)
{
    struct postgres_tx *tx = (struct postgres_tx *)base;
    const struct postgres_cached *st =
        start_statement(tx, sql, values, count, err);
    bool guarded = st && st->guarded;
    PGresult *res;
    int changed = 0;

    if (!st)
        return -(int)err->code;
    while (store_postgres_conn_receive(tx->conn, &res)) {
        changed += count_changed(tx->conn, res);
        PQclear(res);
    }
    return store_postgres_conn_finish(tx->conn)
               ? changed
               : store_postgres_tx_fail(tx, guarded, err);
}

/* ---- rows --------------------------------------------------------------- */

int store_postgres_rows_query(struct store_tx *base, const char *sql,
                              const struct store_value *values, size_t count,
                              struct store_rows **ret, struct error *err)
{
    struct postgres_tx *tx = (struct postgres_tx *)base;
    const struct postgres_cached *st =
        start_statement(tx, sql, values, count, err);
    struct postgres_rows *rows;

    if (!st)
        return -(int)err->code;
    rows = xcalloc(1, sizeof(*rows));
    rows->base.engine = &store_postgres;
    rows->tx = tx;
    rows->guarded = st->guarded;
    rows->next = tx->rows;
    tx->rows = rows;
    tx->conn->streaming = rows;
    *ret = &rows->base;
    return 0;
}

void store_postgres_rows_drain(struct postgres_conn *c)
{
    struct postgres_rows *rows = take_ptr(c->streaming);
    PGresult *res;

    if (!rows)
        return;
    while (store_postgres_conn_receive(c, &res)) {
        rows->kept = xrealloc(rows->kept, (rows->kept_count + 1) *
                                              sizeof(struct PGresult *));
        rows->kept[rows->kept_count++] = res;
    }
    if (!store_postgres_conn_finish(c))
        (void)store_postgres_tx_fail(rows->tx, rows->guarded, &rows->error);
}

/* The next result, from memory or the server; NULL: no more, or *ret_code. */
static PGresult *next_of(struct postgres_rows *rows, int *ret_code,
                         struct error *err)
{
    struct postgres_conn *c = rows->tx->conn;
    PGresult *res = NULL;

    *ret_code = 0;
    if (rows->kept_at < rows->kept_count)
        return rows->kept[rows->kept_at++];
    if (c->streaming != rows) {
        if (rows->error.code)
            *err = rows->error;
        *ret_code = -(int)rows->error.code;
        return NULL;
    }
    if (store_postgres_conn_receive(c, &res))
        return res;
    c->streaming = NULL;
    if (!store_postgres_conn_finish(c))
        *ret_code = store_postgres_tx_fail(rows->tx, rows->guarded, err);
    return NULL;
}

/* Ends the rows; those that were not received are received and dropped. */
static void finish_rows(struct postgres_rows *rows)
{
    struct postgres_rows **link;
    PGresult *res;

    if (!rows->tx)
        return;
    for (link = &rows->tx->rows; *link != rows; link = &(*link)->next)
        continue;
    *link = rows->next;
    PQclear(take_ptr(rows->now));
    if (rows->tx->conn->streaming == rows) {
        struct postgres_conn *c = rows->tx->conn;
        struct error unused;

        c->streaming = NULL;
        while (store_postgres_conn_receive(c, &res)) {
            (void)count_changed(c, res); /* only notes it */
            PQclear(res);
        }
        if (!store_postgres_conn_finish(c)) /* shows in the transaction */
            (void)store_postgres_tx_fail(rows->tx, rows->guarded, &unused);
    }
    while (rows->kept_at < rows->kept_count)
        PQclear(rows->kept[rows->kept_at++]);
    rows->tx = NULL;
}

int store_postgres_rows_next(struct store_rows *base, struct error *err)
{
    struct postgres_rows *rows = (struct postgres_rows *)base;
    int r;

    if (!rows->tx)
        return 0;
    rows->row++;
    while (!rows->now || rows->row >= PQntuples(rows->now)) {
        PQclear(take_ptr(rows->now));
        rows->now = next_of(rows, &r, err);
        rows->row = 0;
        if (!rows->now) {
            finish_rows(rows);
            return r;
        }
        (void)count_changed(rows->tx->conn, rows->now); /* only notes it */
    }
    return 1;
}

void store_postgres_rows_done(struct store_rows *base)
{
    struct postgres_rows *rows = (struct postgres_rows *)base;

    finish_rows(rows);
    free(rows->kept);
    free(rows->texts);
    free(rows);
}

void store_postgres_rows_detach(struct postgres_tx *tx)
{
    while (tx->rows)
        finish_rows(tx->rows);
}

/* ---- columns ------------------------------------------------------------ */

static bool has_value(const struct postgres_rows *rows, int column)
{
    return rows->now && column < PQnfields(rows->now) &&
           !PQgetisnull(rows->now, rows->row, column);
}

static uint16_t read_16(const char *at)
{
    uint16_t v;

    memcpy(&v, at, sizeof(v));
    return be16toh(v);
}

/* A sum of numbers: digits to the base 10,000, the highest first. Ours have no
 * fraction. */
static int64_t numeric_value(const char *at, int len)
{
    int digits = len >= 8 ? read_16(at) : 0;
    int weight = len >= 8 ? (int16_t)read_16(at + 2) : -1;
    bool negative = len >= 8 && read_16(at + 4) == 0x4000;
    int64_t value = 0;

    for (int i = 0; i <= weight; i++) {
        int digit = i < digits && 8 + 2 * i + 2 <= len
                        ? read_16(at + 8 + 2 * (ptrdiff_t)i)
                        : 0;

        if (__builtin_mul_overflow(value, 10000, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return negative ? INT64_MIN : INT64_MAX;
    }
    return negative ? -value : value;
}

int64_t store_postgres_rows_number(struct store_rows *base, int column)
{
    struct postgres_rows *rows = (struct postgres_rows *)base;
    const char *at;
    uint64_t v8;
    uint32_t v4;

    if (!has_value(rows, column))
        return 0;
    at = PQgetvalue(rows->now, rows->row, column);
    switch (PQftype(rows->now, column)) {
    case OID_INT8:
        memcpy(&v8, at, sizeof(v8));
        return (int64_t)be64toh(v8);
    case OID_INT4:
        memcpy(&v4, at, sizeof(v4));
        return (int32_t)be32toh(v4);
    case OID_INT2:
        return (int16_t)read_16(at);
    case OID_BOOL:
        return *at != 0;
    case OID_NUMERIC:
        return numeric_value(at, PQgetlength(rows->now, rows->row, column));
    default:
        return strtoll(at, NULL, 10);
    }
}

static bool is_number(Oid type)
{
    return type == OID_INT8 || type == OID_INT4 || type == OID_INT2 ||
           type == OID_BOOL || type == OID_NUMERIC;
}

const char *store_postgres_rows_text(struct store_rows *base, int column)
{
    struct postgres_rows *rows = (struct postgres_rows *)base;

    if (!has_value(rows, column))
        return NULL;
    if (!is_number(PQftype(rows->now, column)))
        return PQgetvalue(rows->now, rows->row, column);
    if (!rows->texts)
        rows->texts = xcalloc((size_t)PQnfields(rows->now), 24);
    (void)snprintf(rows->texts[column], sizeof(rows->texts[column]),
                   "%" PRId64, store_postgres_rows_number(base, column));
    return rows->texts[column];
}

const void *store_postgres_rows_bytes(struct store_rows *base, int column,
                                      size_t *ret_len)
{
    struct postgres_rows *rows = (struct postgres_rows *)base;
    const char *text = store_postgres_rows_text(base, column);

    *ret_len = 0;
    if (!text)
        return NULL;
    *ret_len = is_number(PQftype(rows->now, column))
                   ? strlen(text)
                   : (size_t)PQgetlength(rows->now, rows->row, column);
    return *ret_len ? text : NULL;
}
