/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tables a store has, and digests of their rows; see tables.h. Runs in
 * the daemon and where it copies a store to another engine.
 */
#include "store/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* ---- one table ---------------------------------------------------------- */

static int take_name(char ret[STORE_NAME_MAX], const unsigned char *name)
{
    int len = snprintf(ret, STORE_NAME_MAX, "%s", name ? (char *)name : "");

    return len > 0 && len < STORE_NAME_MAX ? SQLITE_OK : SQLITE_TOOBIG;
}

/* Types are those of STRICT tables. A virtual table has none: its columns are
 * text, behind the number of the row. */
static int read_columns(sqlite3 *db, struct store_table *t, bool is_virtual)
{
    sqlite3_stmt *st = NULL;
    int code = sqlite3_prepare_v2(
        db, "SELECT name, type FROM pragma_table_info(?1)", -1, &st, NULL);

    if (is_virtual)
        t->columns[t->count++] = (struct store_column){"rowid", 'i'};
    if (code == SQLITE_OK)
        code = sqlite3_bind_text(st, 1, t->name, -1, SQLITE_STATIC);
    while (code == SQLITE_OK && (code = sqlite3_step(st)) == SQLITE_ROW) {
        struct store_column *c = &t->columns[t->count];
        const char *type = (const char *)sqlite3_column_text(st, 1);

        if (t->count == STORE_COLUMNS_MAX)
            code = SQLITE_TOOBIG;
        else
            code = take_name(c->name, sqlite3_column_text(st, 0));
        if (code != SQLITE_OK)
            break;
        c->type = type && strcmp(type, "INTEGER") == 0 ? 'i'
                  : type && strcmp(type, "BLOB") == 0  ? 'b'
                                                       : 't';
        t->count++;
    }
    (void)sqlite3_finalize(st); /* repeats the code of the step */
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int count_rows(sqlite3 *db, struct store_table *t)
{
    char *sql cleanup(mem_free) =
        xasprintf("SELECT count(*) FROM \"%s\"", t->name);
    sqlite3_stmt *st = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &st, NULL);

    if (code == SQLITE_OK)
        code = sqlite3_step(st);
    if (code == SQLITE_ROW)
        t->rows = (uint64_t)sqlite3_column_int64(st, 0);
    (void)sqlite3_finalize(st); /* repeats the code of the step */
    return code == SQLITE_ROW ? SQLITE_OK : code;
}

/* ---- all of them -------------------------------------------------------- */

/* What FTS5 keeps for `words` is in tables of these names. */
#define THEIRS                                                                \
    "'schema_version', 'words_data', 'words_idx', 'words_content',"           \
    " 'words_docsize', 'words_config'"

static int list_tables(sqlite3 *db, struct store_tables *ret)
{
    sqlite3_stmt *st = NULL;
    int code = sqlite3_prepare_v2(
        db,
        "SELECT name, sql FROM sqlite_schema WHERE type = 'table'"
        " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        " AND name NOT IN (" THEIRS ") ORDER BY name",
        -1, &st, NULL);

    while (code == SQLITE_OK && (code = sqlite3_step(st)) == SQLITE_ROW) {
        const char *sql = (const char *)sqlite3_column_text(st, 1);
        struct store_table *t;

        ret->all = xrealloc(ret->all, (ret->count + 1) * sizeof(*ret->all));
        t = &ret->all[ret->count++];
        *t = (struct store_table){.numbered = strstr(sql, "AUTOINCREMENT")};
        code = take_name(t->name, sqlite3_column_text(st, 0));
        if (code == SQLITE_OK)
            code =
                read_columns(db, t, strncmp(sql, "CREATE VIRTUAL", 14) == 0);
        if (code == SQLITE_OK)
            code = count_rows(db, t);
    }
    (void)sqlite3_finalize(st); /* repeats the code of the step */
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* Has it a reference to a table at `from` or later? */
static int refers_later(sqlite3 *db, const struct store_tables *t, size_t i,
                        size_t from, bool *ret)
{
    sqlite3_stmt *st = NULL;
    int code = sqlite3_prepare_v2(
        db, "SELECT \"table\" FROM pragma_foreign_key_list(?1)", -1, &st,
        NULL);

    *ret = false;
    if (code == SQLITE_OK)
        code = sqlite3_bind_text(st, 1, t->all[i].name, -1, SQLITE_STATIC);
    while (code == SQLITE_OK && (code = sqlite3_step(st)) == SQLITE_ROW) {
        const char *to = (const char *)sqlite3_column_text(st, 0);

        for (size_t k = from; k < t->count; k++)
            *ret |= k != i && strcmp(t->all[k].name, to) == 0;
        code = SQLITE_OK;
    }
    (void)sqlite3_finalize(st); /* repeats the code of the step */
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* Moves to each place the first table that refers to none after it. */
static int sort_tables(sqlite3 *db, struct store_tables *t)
{
    for (size_t at = 0; at < t->count; at++) {
        struct store_table next;
        bool later = true;
        size_t i = at;

        for (; i < t->count; i++) {
            int code = refers_later(db, t, i, at, &later);

            if (code != SQLITE_OK)
                return code;
            if (!later)
                break;
        }
        if (later)
            return SQLITE_ERROR; /* a circle, which the schema has not */
        next = t->all[i];
        memmove(&t->all[at + 1], &t->all[at], (i - at) * sizeof(*t->all));
        t->all[at] = next;
    }
    return SQLITE_OK;
}

int store_tables_read(sqlite3 *db, struct store_tables *ret)
{
    struct store_tables t cleanup(store_tables_done) = {0};
    int code = list_tables(db, &t);

    if (code == SQLITE_OK)
        code = sort_tables(db, &t);
    if (code != SQLITE_OK)
        return code;
    *ret = t;
    t = (struct store_tables){0};
    return SQLITE_OK;
}

void store_tables_done(struct store_tables *t)
{
    free(t->all);
    *t = (struct store_tables){0};
}

void store_table_columns(const struct store_table *t, struct buf *out)
{
    for (size_t i = 0; i < t->count; i++)
        buf_addf(out, "%s\"%s\"", i ? ", " : "", t->columns[i].name);
}

/* ---- digests ------------------------------------------------------------ */

void store_digest_value(struct buf *row, char type, const void *bytes,
                        size_t len)
{
    buf_add(row, bytes ? &type : "n", 1);
    buf_add_u32(row, bytes ? (uint32_t)len : 0);
    if (bytes)
        buf_add(row, bytes, len);
}

void store_digest_row(struct store_digest *d, const struct buf *row)
{
    unsigned char hash[HASH_SIZE];
    unsigned carry = 0;

    hash_sha256(row->data, row->len, hash);
    for (size_t i = HASH_SIZE; i-- > 0;) {
        carry += d->sum[i] + (unsigned)hash[i];
        d->sum[i] = (unsigned char)carry;
        carry >>= 8;
    }
    d->rows++;
}

bool store_digest_equal(const struct store_digest *a,
                        const struct store_digest *b)
{
    return a->rows == b->rows && memcmp(a->sum, b->sum, HASH_SIZE) == 0;
}
