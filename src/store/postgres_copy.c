/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies a store between SQLite and PostgreSQL, all tables, with COPY; see
 * store.h. Runs in the daemon: out of PostgreSQL for a backup while it serves,
 * into it where gloveboxd was started to move or restore a store.
 *
 * Into PostgreSQL everything, the schema included, is one transaction: a copy
 * that fails or is killed leaves an empty database. Out of it, everything is
 * read in one snapshot and written to a new file, which the caller puts in
 * its place.
 *
 * Either way each table is compared afterwards: the number of its rows, and a
 * digest of their content, computed from the rows as they were read from the
 * one database and again from the other one.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/postgres_int.h"
#include "store/sqlite_int.h"
#include "store/tables.h"

#define PIECE (256u << 10) /* sent at once */
#define TELL_ROWS 1000u

struct copy {
    struct postgres_conn *conn;
    PGconn *pg; /* conn's, not in pipeline mode */
    sqlite3 *db;
    struct store_tables tables;
    const char *what;
    store_copy_fn *progress; /* or NULL */
    void *ctx;
    uint64_t done, total; /* rows, each counted when written and compared */
};

static void copy_done(struct copy *c)
{
    store_postgres_conn_close(c->conn);
    store_tables_done(&c->tables);
}

static void result_clear(PGresult **res)
{
    PQclear(*res);
}

static void statement_done(sqlite3_stmt **st)
{
    (void)sqlite3_finalize(*st); /* repeats the code of the step */
}

static void tell(struct copy *c, const struct store_table *t, bool now)
{
    if (c->progress && (now || c->done % TELL_ROWS == 0))
        c->progress(c->ctx, t->name, c->done, MAX(c->done, c->total));
}

/* ---- failing ------------------------------------------------------------ */

static int fail_sqlite(const struct copy *c, const struct store_table *t,
                       int code, struct error *err)
{
    return error_set(err,
                     (code & 0xff) == SQLITE_FULL      ? ERR_SPACE
                     : (code & 0xff) == SQLITE_CORRUPT ? ERR_CORRUPT
                                                       : ERR_INTERNAL,
                     "%s: SQLite failed at table %s (%d: %s)", c->what,
                     t ? t->name : "-", code, sqlite3_errmsg(c->db));
}

/* The server's own sentence is for the operator who runs the copy. Its details
 * may quote rows, so only the first line is logged (O2). */
static int fail_postgres(const struct copy *c, const struct store_table *t,
                         const PGresult *res, struct error *err)
{
    const char *state = res ? PQresultErrorField(res, PG_DIAG_SQLSTATE) : NULL;
    const char *text =
        res ? PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    struct postgres_failure f = {.gone = PQstatus(c->pg) != CONNECTION_OK};

    (void)snprintf(f.state, sizeof(f.state), "%s", state ? state : "");
    log_event(LOG_WARN, "store_copy_failed", "table", t ? t->name : "",
              "error", text ? text : PQerrorMessage(c->pg), NULL);
    (void)store_postgres_fail(c->what, &f, err);
    return t ? error_wrap(err, "table %s", t->name) : -(int)err->code;
}

static int run(struct copy *c, const char *sql, struct error *err)
{
    PGresult *res cleanup(result_clear) = PQexec(c->pg, sql);
    ExecStatusType status = PQresultStatus(res);

    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK
               ? 0
               : fail_postgres(c, NULL, res, err);
}

/* The first value as a number. */
static int ask_number(struct copy *c, const char *sql, int64_t *ret,
                      struct error *err)
{
    PGresult *res cleanup(result_clear) = PQexec(c->pg, sql);

    if (PQresultStatus(res) != PGRES_TUPLES_OK)
        return fail_postgres(c, NULL, res, err);
    *ret = PQntuples(res) ? strtoll(PQgetvalue(res, 0, 0), NULL, 10) : 0;
    return 0;
}

/* ---- connecting --------------------------------------------------------- */

/* COPY is not allowed in pipeline mode, which the rest of the engine uses. */
static int leave_pipeline(struct copy *c, struct error *err)
{
    return PQexitPipelineMode(c->pg) && PQsetnonblocking(c->pg, 0) == 0
               ? 0
               : fail_postgres(c, NULL, NULL, err);
}

/* Nothing here has a time limit. */
static int connect_plain(struct copy *c, const struct postgres_place *place,
                         enum store_mode mode, struct error *err)
{
    if (store_postgres_conn_open(place, mode, &c->conn, err) < 0)
        return -(int)err->code;
    c->pg = c->conn->pg;
    if (leave_pipeline(c, err) < 0)
        return -(int)err->code;
    return run(c,
               "SET statement_timeout = 0; SET lock_timeout = 0;"
               " SET idle_in_transaction_session_timeout = 0",
               err);
}

static int read_tables(struct copy *c, struct error *err)
{
    int code = store_tables_read(c->db, &c->tables);

    if (code != SQLITE_OK)
        return fail_sqlite(c, NULL, code, err);
    return 0;
}

/* ---- rows of SQLite ----------------------------------------------------- */

/* A value as text or bytes; NULL: NULL. number: room for a number. */
static const void *column_value(sqlite3_stmt *st, int i, char type,
                                char number[24], size_t *ret_len)
{
    const void *bytes;

    *ret_len = 0;
    if (sqlite3_column_type(st, i) == SQLITE_NULL)
        return NULL;
    if (type == 'i') {
        *ret_len = (size_t)snprintf(number, 24, "%lld",
                                    (long long)sqlite3_column_int64(st, i));
        return number;
    }
    bytes =
        type == 'b' ? sqlite3_column_blob(st, i) : sqlite3_column_text(st, i);
    *ret_len = (size_t)sqlite3_column_bytes(st, i);
    return bytes ? bytes : "";
}

static int select_rows(struct copy *c, const struct store_table *t,
                       sqlite3_stmt **ret, struct error *err)
{
    struct buf sql cleanup(buf_done) = {0};
    int code;

    buf_adds(&sql, "SELECT ");
    store_table_columns(t, &sql);
    buf_addf(&sql, " FROM \"%s\"", t->name);
    code = sqlite3_prepare_v2(c->db, sql.data, -1, ret, NULL);
    return code == SQLITE_OK ? 0 : fail_sqlite(c, t, code, err);
}

/* ---- the text format of COPY -------------------------------------------- */

static void add_text(struct buf *out, const char *bytes, size_t len)
{
    static const char plain[] = "\\\b\f\n\r\t\v", coded[] = "\\bfnrtv";

    for (size_t i = 0; i < len; i++) {
        const char *at = bytes[i] ? strchr(plain, bytes[i]) : NULL;

        if (at) {
            buf_adds(out, "\\");
            buf_add(out, &coded[at - plain], 1);
        } else {
            buf_add(out, &bytes[i], 1);
        }
    }
}

static void add_field(struct buf *out, char type, const void *bytes,
                      size_t len)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *p = bytes;

    if (!bytes) {
        buf_adds(out, "\\N");
    } else if (type != 'b') {
        add_text(out, bytes, len);
    } else {
        buf_adds(out, "\\\\x");
        buf_reserve(out, 2 * len);
        for (size_t i = 0; i < len; i++) {
            buf_add(out, &digits[p[i] >> 4], 1);
            buf_add(out, &digits[p[i] & 15], 1);
        }
    }
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* "\x6162" to bytes, in place. False: it is none. */
static bool read_hex(struct buf *b)
{
    size_t n = 0;

    if (b->len < 2 || b->len % 2 || b->data[0] != '\\' || b->data[1] != 'x')
        return false;
    for (size_t i = 2; i < b->len; i += 2) {
        int high = hex_digit(b->data[i]), low = hex_digit(b->data[i + 1]);

        if (high < 0 || low < 0)
            return false;
        b->data[n++] = (char)(high << 4 | low);
    }
    b->len = n;
    b->data[n] = '\0';
    return true;
}

/* The next field of a line; *ret_null: it is NULL. */
static bool read_field(const char **at, const char *end, char type,
                       struct buf *ret, bool *ret_null)
{
    static const char plain[] = "\b\f\n\r\t\v", coded[] = "bfnrtv";
    const char *p = *at;

    buf_reset(ret);
    buf_adds(ret, "");
    *ret_null = end - p >= 2 && p[0] == '\\' && p[1] == 'N' &&
                (end - p == 2 || p[2] == '\t');
    if (*ret_null)
        p += 2;
    while (p < end && *p != '\t') {
        const char *code;

        if (*p != '\\' || p + 1 == end) {
            buf_add(ret, p++, 1);
            continue;
        }
        code = strchr(coded, p[1]);
        buf_add(ret, code ? &plain[code - coded] : &p[1], 1);
        p += 2;
    }
    *at = p < end ? p + 1 : p;
    return *ret_null || type != 'b' || read_hex(ret);
}

/* ---- rows of PostgreSQL ------------------------------------------------- */

/* Called for each row: its values, NULL for NULL. */
typedef int row_fn(void *ctx, const struct store_table *t, struct buf *values,
                   const bool *nulls, struct error *err);

static int bad_row(const struct copy *c, const struct store_table *t,
                   struct error *err)
{
    return error_set(err, ERR_CORRUPT,
                     "%s: table %s: PostgreSQL sent a row that cannot be read",
                     c->what, t->name);
}

static int split_line(struct copy *c, const struct store_table *t,
                      const char *line, size_t len, struct buf *values,
                      bool *nulls, struct error *err)
{
    const char *at = line, *end = line + len;

    while (end > at && (end[-1] == '\n' || end[-1] == '\r'))
        end--;
    for (size_t i = 0; i < t->count; i++)
        if (!read_field(&at, end, t->columns[i].type, &values[i], &nulls[i]))
            return bad_row(c, t, err);
    return at == end ? 0 : bad_row(c, t, err);
}

/* Reads all rows of a table and gives their digest; fn may be NULL. */
static int read_postgres(struct copy *c, const struct store_table *t,
                         row_fn *fn, void *ctx, struct store_digest *ret,
                         struct error *err)
{
    struct buf values[STORE_COLUMNS_MAX] = {0};
    bool nulls[STORE_COLUMNS_MAX] = {0};
    struct buf sql cleanup(buf_done) = {0};
    struct buf row cleanup(buf_done) = {0};
    PGresult *res = NULL;
    char *line;
    int len, r = 0;

    buf_addf(&sql, "COPY \"%s\" (", t->name);
    store_table_columns(t, &sql);
    buf_adds(&sql, ") TO STDOUT");
    res = PQexec(c->pg, sql.data);
    if (PQresultStatus(res) != PGRES_COPY_OUT)
        r = fail_postgres(c, t, res, err);
    PQclear(res);
    while (r == 0 && (len = PQgetCopyData(c->pg, &line, 0)) > 0) {
        r = split_line(c, t, line, (size_t)len, values, nulls, err);
        PQfreemem(line);
        buf_reset(&row);
        for (size_t i = 0; r == 0 && i < t->count; i++)
            store_digest_value(&row, t->columns[i].type,
                               nulls[i] ? NULL : values[i].data,
                               values[i].len);
        if (r == 0) {
            store_digest_row(ret, &row);
            c->done++;
            tell(c, t, false);
        }
        if (r == 0 && fn)
            r = fn(ctx, t, values, nulls, err);
    }
    for (size_t i = 0; i < t->count; i++)
        buf_done(&values[i]);
    /* The result of COPY: a failure may come after the last row. */
    while (r == 0 && (res = PQgetResult(c->pg))) {
        if (PQresultStatus(res) != PGRES_COMMAND_OK)
            r = fail_postgres(c, t, res, err);
        PQclear(res);
    }
    return r;
}

static int compare(const struct copy *c, const struct store_table *t,
                   const struct store_digest *from,
                   const struct store_digest *to, struct error *err)
{
    if (store_digest_equal(from, to))
        return 0;
    return error_set(err, ERR_CORRUPT,
                     "%s: table %s differs from its copy: %" PRIu64
                     " rows against %" PRIu64 "%s",
                     c->what, t->name, from->rows, to->rows,
                     from->rows == to->rows ? ", with other content" : "");
}

/* ---- into PostgreSQL ---------------------------------------------------- */

static int send_piece(struct copy *c, const struct store_table *t,
                      struct buf *out, struct error *err)
{
    if (out->len && PQputCopyData(c->pg, out->data, (int)out->len) != 1)
        return fail_postgres(c, t, NULL, err);
    buf_reset(out);
    return 0;
}

static int end_copy(struct copy *c, const struct store_table *t,
                    struct error *err)
{
    PGresult *res;
    int r =
        PQputCopyEnd(c->pg, NULL) == 1 ? 0 : fail_postgres(c, t, NULL, err);

    while ((res = PQgetResult(c->pg))) {
        if (r == 0 && PQresultStatus(res) != PGRES_COMMAND_OK)
            r = fail_postgres(c, t, res, err);
        PQclear(res);
    }
    return r;
}

static int send_rows(struct copy *c, const struct store_table *t,
                     sqlite3_stmt *st, struct store_digest *ret,
                     struct error *err)
{
    struct buf out cleanup(buf_done) = {0};
    struct buf row cleanup(buf_done) = {0};
    char number[24];
    int code;

    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        buf_reset(&row);
        for (size_t i = 0; i < t->count; i++) {
            char type = t->columns[i].type;
            size_t len;
            const void *value = column_value(st, (int)i, type, number, &len);

            if (i)
                buf_adds(&out, "\t");
            add_field(&out, type, value, len);
            store_digest_value(&row, type, value, len);
        }
        buf_adds(&out, "\n");
        store_digest_row(ret, &row);
        if (out.len >= PIECE && send_piece(c, t, &out, err) < 0)
            return -(int)err->code;
        c->done++;
        tell(c, t, false);
    }
    if (code != SQLITE_DONE)
        return fail_sqlite(c, t, code, err);
    return send_piece(c, t, &out, err);
}

/* A number is used once: the next one follows the highest ever assigned. */
static int set_number(struct copy *c, const struct store_table *t,
                      struct error *err)
{
    sqlite3_stmt *st cleanup(statement_done) = NULL;
    char sql[320];
    int code = sqlite3_prepare_v2(
        c->db, "SELECT seq FROM sqlite_sequence WHERE name = ?1", -1, &st,
        NULL);

    if (code == SQLITE_OK)
        code = sqlite3_bind_text(st, 1, t->name, -1, SQLITE_STATIC);
    if (code == SQLITE_OK)
        code = sqlite3_step(st);
    if (code == SQLITE_DONE)
        return 0; /* none was ever assigned */
    if (code != SQLITE_ROW)
        return fail_sqlite(c, t, code, err);
    (void)snprintf(sql, sizeof(sql),
                   "SELECT setval(pg_get_serial_sequence('\"%s\"', '%s'),"
                   " greatest(%lld, 1))",
                   t->name, t->columns[0].name,
                   (long long)sqlite3_column_int64(st, 0));
    return run(c, sql, err);
}

static int load_table(struct copy *c, const struct store_table *t,
                      struct error *err)
{
    sqlite3_stmt *st cleanup(statement_done) = NULL;
    struct store_digest from = {0}, to = {0};
    struct buf sql cleanup(buf_done) = {0};
    PGresult *res cleanup(result_clear) = NULL;

    tell(c, t, true);
    if (select_rows(c, t, &st, err) < 0)
        return -(int)err->code;
    /* A new schema has a few rows of its own. */
    buf_addf(&sql, "DELETE FROM \"%s\"", t->name);
    if (run(c, sql.data, err) < 0)
        return -(int)err->code;
    buf_reset(&sql);
    buf_addf(&sql, "COPY \"%s\" (", t->name);
    store_table_columns(t, &sql);
    buf_adds(&sql, ") FROM STDIN");
    res = PQexec(c->pg, sql.data);
    if (PQresultStatus(res) != PGRES_COPY_IN)
        return fail_postgres(c, t, res, err);
    if (send_rows(c, t, st, &from, err) < 0 || end_copy(c, t, err) < 0 ||
        (t->numbered && set_number(c, t, err) < 0) ||
        read_postgres(c, t, NULL, NULL, &to, err) < 0)
        return -(int)err->code;
    return compare(c, t, &from, &to, err);
}

static int refuse_used(struct copy *c, struct error *err)
{
    int64_t tables = 0;

    if (ask_number(c,
                   "SELECT count(*) FROM pg_class WHERE"
                   " relkind IN ('r', 'p', 'v', 'm', 'S') AND"
                   " relnamespace = (SELECT oid FROM pg_namespace"
                   "  WHERE nspname = current_schema())",
                   &tables, err) < 0)
        return -(int)err->code;
    if (!tables)
        return 0;
    (void)error_set(err, ERR_CONFLICT,
                    "the PostgreSQL database is not empty: it has %" PRId64
                    " tables, views or sequences",
                    tables);
    return error_hint(err, "Nothing was changed in it. Name an empty database "
                           "(CREATE DATABASE), or an empty schema of one.");
}

static int open_schema(struct copy *c, struct error *err)
{
    int r = PQsetnonblocking(c->pg, 1) == 0 && PQenterPipelineMode(c->pg)
                ? store_postgres_open_schema(c->conn, err)
                : fail_postgres(c, NULL, NULL, err);

    return r < 0 ? r : leave_pipeline(c, err);
}

int store_copy_to_postgres(struct store *from, const char *url,
                           store_copy_fn *progress, void *ctx,
                           struct error *err)
{
    struct copy c cleanup(copy_done) = {
        .what = "copying to PostgreSQL", .progress = progress, .ctx = ctx};
    struct sqlite_conn *conn cleanup(store_sqlite_conn_closep) = NULL;
    struct postgres_place place = {0};
    int code, r;

    if (from->engine != &store_sqlite)
        return error_set(err, ERR_INVALID, "the store is in PostgreSQL");
    code = store_sqlite_conn_open(((struct sqlite_store *)from)->path,
                                  STORE_READ, &conn);
    if (code == SQLITE_OK)
        code = store_sqlite_conn_run(conn, "BEGIN");
    c.db = conn ? conn->db : NULL;
    if (code != SQLITE_OK)
        return fail_sqlite(&c, NULL, code, err);

    r = store_postgres_open_place(url, &place, err);
    if (r == 0)
        r = connect_plain(&c, &place, STORE_WRITE, err);
    store_postgres_open_place_done(&place);
    if (r == 0)
        r = run(&c, "BEGIN", err);
    if (r == 0) /* as a daemon that opens it takes */
        r = run(&c,
                "SELECT pg_advisory_xact_lock(hashtextextended('glovebox.' ||"
                " coalesce(current_schema(), ''), 0))",
                err);
    if (r == 0)
        r = refuse_used(&c, err);
    if (r == 0)
        r = open_schema(&c, err);
    if (r == 0)
        r = read_tables(&c, err);
    for (size_t i = 0; r == 0 && i < c.tables.count; i++)
        c.total += 2 * c.tables.all[i].rows;
    for (size_t i = 0; r == 0 && i < c.tables.count; i++)
        r = load_table(&c, &c.tables.all[i], err);
    if (r == 0)
        r = run(&c, "COMMIT", err);
    return r < 0 ? r : run(&c, "ANALYZE", err);
}

/* ---- out of PostgreSQL -------------------------------------------------- */

struct insertion {
    struct copy *c;
    sqlite3_stmt *st;
};

static int insert_row(void *ctx, const struct store_table *t,
                      struct buf *values, const bool *nulls, struct error *err)
{
    struct insertion *in = ctx;
    int code = SQLITE_OK;

    for (size_t i = 0; code == SQLITE_OK && i < t->count; i++) {
        const struct buf *v = &values[i];
        int at = (int)i + 1;

        if (nulls[i])
            code = sqlite3_bind_null(in->st, at);
        else if (t->columns[i].type == 'i')
            code = sqlite3_bind_int64(in->st, at, strtoll(v->data, NULL, 10));
        else if (t->columns[i].type == 'b')
            code = sqlite3_bind_blob64(in->st, at, v->data, v->len,
                                       SQLITE_STATIC);
        else
            code = sqlite3_bind_text64(in->st, at, v->data, v->len,
                                       SQLITE_STATIC, SQLITE_UTF8);
    }
    if (code == SQLITE_OK)
        code = sqlite3_step(in->st);
    (void)sqlite3_reset(in->st); /* repeats the code of the step */
    return code == SQLITE_DONE ? 0 : fail_sqlite(in->c, t, code, err);
}

static int prepare_insert(struct copy *c, const struct store_table *t,
                          sqlite3_stmt **ret, struct error *err)
{
    struct buf sql cleanup(buf_done) = {0};
    int code;

    /* A new schema has a few rows of its own. */
    buf_addf(&sql, "DELETE FROM \"%s\"", t->name);
    code = sqlite3_exec(c->db, sql.data, NULL, NULL, NULL);
    buf_reset(&sql);
    buf_addf(&sql, "INSERT INTO \"%s\" (", t->name);
    store_table_columns(t, &sql);
    buf_adds(&sql, ") VALUES (");
    for (size_t i = 0; i < t->count; i++)
        buf_addf(&sql, "%s?%zu", i ? ", " : "", i + 1);
    buf_adds(&sql, ")");
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(c->db, sql.data, -1, ret, NULL);
    return code == SQLITE_OK ? 0 : fail_sqlite(c, t, code, err);
}

static int digest_sqlite(struct copy *c, const struct store_table *t,
                         struct store_digest *ret, struct error *err)
{
    sqlite3_stmt *st cleanup(statement_done) = NULL;
    struct buf row cleanup(buf_done) = {0};
    char number[24];
    int code;

    if (select_rows(c, t, &st, err) < 0)
        return -(int)err->code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        buf_reset(&row);
        for (size_t i = 0; i < t->count; i++) {
            char type = t->columns[i].type;
            size_t len;
            const void *value = column_value(st, (int)i, type, number, &len);

            store_digest_value(&row, type, value, len);
        }
        store_digest_row(ret, &row);
        c->done++;
        tell(c, t, false);
    }
    return code == SQLITE_DONE ? 0 : fail_sqlite(c, t, code, err);
}

/* The highest number that was ever assigned. */
static int keep_number(struct copy *c, const struct store_table *t,
                       struct error *err)
{
    char sql[320];
    int64_t last = 0;
    int code;

    (void)snprintf(sql, sizeof(sql),
                   "SELECT coalesce(pg_sequence_last_value(CAST("
                   "pg_get_serial_sequence('\"%s\"', '%s') AS regclass)), 0)",
                   t->name, t->columns[0].name);
    if (ask_number(c, sql, &last, err) < 0)
        return -(int)err->code;
    (void)snprintf(sql, sizeof(sql),
                   "DELETE FROM sqlite_sequence WHERE name = '%s';"
                   "INSERT INTO sqlite_sequence (name, seq) VALUES"
                   " ('%s', %lld)",
                   t->name, t->name, (long long)last);
    code = sqlite3_exec(c->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : fail_sqlite(c, t, code, err);
}

static int dump_table(struct copy *c, const struct store_table *t,
                      struct error *err)
{
    sqlite3_stmt *st cleanup(statement_done) = NULL;
    struct insertion in = {.c = c};
    struct store_digest from = {0}, to = {0};

    tell(c, t, true);
    if (prepare_insert(c, t, &st, err) < 0)
        return -(int)err->code;
    in.st = st;
    if (read_postgres(c, t, insert_row, &in, &from, err) < 0 ||
        (t->numbered && keep_number(c, t, err) < 0) ||
        digest_sqlite(c, t, &to, err) < 0)
        return -(int)err->code;
    return compare(c, t, &from, &to, err);
}

/* An empty database of SQLite with the newest schema. */
static int make_schema(struct copy *c, const char *path, struct error *err)
{
    char version[64];
    int code = sqlite3_open_v2(
        path, &c->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, "unix");

    (void)snprintf(version, sizeof(version),
                   "INSERT INTO schema_version VALUES (1, %d)",
                   store_migrations_count);
    /* A copy that fails is removed, so it needs no journal. */
    if (code == SQLITE_OK)
        code = sqlite3_exec(c->db,
                            "PRAGMA page_size = 2048;"
                            "PRAGMA journal_mode = OFF;"
                            "PRAGMA foreign_keys = OFF;"
                            "BEGIN; CREATE TABLE schema_version ("
                            "  one INTEGER PRIMARY KEY CHECK (one = 1),"
                            "  version INTEGER NOT NULL) STRICT",
                            NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec(c->db, version, NULL, NULL, NULL);
    for (int i = 0; code == SQLITE_OK && i < store_migrations_count; i++)
        code = sqlite3_exec(c->db, store_migrations[i], NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : fail_sqlite(c, NULL, code, err);
}

static int count_rows(struct copy *c, struct error *err)
{
    for (size_t i = 0; i < c->tables.count; i++) {
        char sql[STORE_NAME_MAX + 32];
        int64_t rows = 0;

        (void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM \"%s\"",
                       c->tables.all[i].name);
        if (ask_number(c, sql, &rows, err) < 0)
            return -(int)err->code;
        c->total += 2 * (uint64_t)rows;
    }
    return 0;
}

static int dump_all(struct copy *c, const char *path, struct error *err)
{
    int code;
    int r = make_schema(c, path, err);

    if (r == 0)
        r = read_tables(c, err);
    if (r == 0)
        r = run(c, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", err);
    if (r == 0)
        r = count_rows(c, err);
    for (size_t i = 0; r == 0 && i < c->tables.count; i++)
        r = dump_table(c, &c->tables.all[i], err);
    if (r < 0)
        return r;
    code = sqlite3_exec(c->db, "COMMIT", NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : fail_sqlite(c, NULL, code, err);
}

/* store_backup reports no table. */
struct counting {
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
};

static void on_rows(void *ctx, const char *table, uint64_t done,
                    uint64_t total)
{
    const struct counting *counting = ctx;

    (void)table;
    if (counting->progress)
        counting->progress(counting->ctx, done, total);
}

int store_postgres_copy_backup(struct store *base, const char *path,
                               void (*progress)(void *ctx, uint64_t done,
                                                uint64_t total),
                               void *ctx, struct error *err)
{
    struct postgres_store *s = (struct postgres_store *)base;
    struct counting counting = {progress, ctx};
    struct copy c cleanup(copy_done) = {
        .what = "copying the database", .progress = on_rows, .ctx = &counting};
    int fd cleanup(fd_close) =
        open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r;

    if (fd < 0)
        return error_errno(err, errno == EEXIST ? ERR_CONFLICT : ERR_INTERNAL,
                           errno, "cannot make the copy of the database");
    r = connect_plain(&c, &s->place, STORE_READ, err);
    if (r == 0)
        r = dump_all(&c, path, err);
    (void)sqlite3_close_v2(c.db); /* accepts NULL; nothing is open on it */
    if (r == 0 && fsync(fd) < 0)
        r = error_errno(err, ERR_INTERNAL, errno,
                        "cannot sync the copy of the database");
    if (r < 0)
        (void)unlink(path); /* the copy failed already */
    return r;
}

int store_alone(const char *engine, struct error *err)
{
    struct copy c cleanup(copy_done) = {.what = "looking for other services"};
    struct postgres_place place = {0};
    int64_t others = 0;
    int r;

    if (!engine || !strstr(engine, "://"))
        return 0; /* the lock of the data directory is enough */
    r = store_postgres_open_place(engine, &place, err);
    if (r == 0)
        r = connect_plain(&c, &place, STORE_READ, err);
    store_postgres_open_place_done(&place);
    if (r == 0)
        r = ask_number(&c,
                       "SELECT count(*) FROM pg_stat_activity"
                       " WHERE application_name = 'glovebox'"
                       " AND datname = current_database()"
                       " AND pid <> pg_backend_pid()",
                       &others, err);
    if (r < 0 || !others)
        return r;
    (void)error_set(err, ERR_CONFLICT,
                    "a service has the PostgreSQL database open: %" PRId64
                    " connections",
                    others);
    return error_hint(err, "Stop it on every machine first.");
}
