/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store: a copy from SQLite to PostgreSQL and back has every value, and a copy
 * that differs, or meets something in its place, is refused and leaves
 * nothing. Needs a PostgreSQL server (tools/test-postgres); skipped without
 * one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/mem.h"
#include "scratch.h"
#include "store/tables.h"
#include "store_choice.h"

struct desk {
    char dir[64], other[64];
    struct store *store; /* of SQLite, in dir */
    char url[512];       /* an empty schema */
    struct error err;
};

#define OK(d, call)                                                           \
    do {                                                                      \
        if ((call) < 0)                                                       \
            fail_msg("%s: %s", #call, (d)->err.message);                      \
    } while (0)
#define NEEDS_SERVER()                                                        \
    do {                                                                      \
        if (!store_choice_server()) {                                         \
            print_message(                                                    \
                "# SKIP: no server; the family postgres has one\n");          \
            skip();                                                           \
        }                                                                     \
    } while (0)

static int set_up(void **state)
{
    struct desk *d = xcalloc(1, sizeof(*d));

    *state = d;
    if (!store_choice_server())
        return 0;
    assert_non_null(scratch_dir(d->dir, sizeof(d->dir), "test_copy"));
    assert_non_null(scratch_dir(d->other, sizeof(d->other), "test_copy"));
    OK(d, store_open(&(struct store_settings){.data_dir = d->dir}, &d->store,
                     &d->err));
    (void)store_choice_url(d->other, d->url, sizeof(d->url));
    return 0;
}

static int tear_down(void **state)
{
    struct desk *d = *state;

    store_close(d->store);
    if (d->dir[0]) {
        assert_int_equal(scratch_remove(d->dir), 0);
        assert_int_equal(scratch_remove(d->other), 0);
    }
    free(d);
    return 0;
}

/* In the schema that the copies go to. */
static int64_t ask_schema(struct desk *d, const char *sql)
{
    PGconn *pg = PQconnectdb(d->url);
    PGresult *res = PQexec(pg, sql);
    ExecStatusType status = PQresultStatus(res);
    int64_t value = status == PGRES_TUPLES_OK && PQntuples(res)
                        ? strtoll(PQgetvalue(res, 0, 0), NULL, 10)
                        : 0;

    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(pg));
    PQclear(res);
    PQfinish(pg);
    return value;
}

#define TABLES                                                                \
    "SELECT count(*) FROM pg_class WHERE relkind = 'r'"                       \
    " AND relnamespace = (SELECT oid FROM pg_namespace"                       \
    "  WHERE nspname = current_schema())"

static void add_secret(struct desk *d, const char *name, const char *text,
                       const void *bytes, size_t len, int64_t number)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;

    OK(d, store_begin(d->store, STORE_WRITE, "test", &tx, &d->err));
    OK(d, store_exec(tx, &d->err,
                     "INSERT INTO secrets (tenant, name, header, prefix,"
                     " destinations, sealed, made_by, created_at_ms,"
                     " updated_at_ms) VALUES ('t', ?1, ?2, ?2, '', ?3, 'k',"
                     " ?4, 0)",
                     "ttbi", name, text, bytes, len, number));
    OK(d, store_commit(&tx, &d->err));
}

static void fill(struct desk *d)
{
    static const char *const texts[] = {
        "",
        "\\N",
        "\\",
        "\\.",
        "a\tb\nc\rd\fe\vf\bg",
        "\\x6162",
        "\\\\N\\t",
        "äöü€",
        "\xf0\x9f\x8e\x89",
        "\x01\x1f\x7f",
        "'\"$1?1",
        "ends with \\",
        "\t",
        "\n",
    };
    static const int64_t numbers[] = {0, 1, -1, INT64_MAX, INT64_MIN};
    unsigned char bytes[256];
    char *large cleanup(mem_free) = xcalloc(1, 700001);
    char name[24];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)i;
    memset(large, 'x', 700000);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        (void)snprintf(name, sizeof(name), "text%zu", i);
        add_secret(d, name, texts[i], bytes, i * 16,
                   numbers[i % ARRAY_SIZE(numbers)]);
    }
    add_secret(d, "all bytes", "", bytes, sizeof(bytes), 7);
    add_secret(d, "large", large, large, 700000, 7);
}

struct digests {
    struct store_tables tables;
    struct store_digest all[128];
};

static void digests_done(struct digests *s)
{
    store_tables_done(&s->tables);
}

/* Of every table of a database of SQLite. */
static void read_digests(const char *path, struct digests *ret)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL),
                     SQLITE_OK);
    assert_int_equal(store_tables_read(db, &ret->tables), SQLITE_OK);
    assert_true(ret->tables.count > 50 && ret->tables.count < 128);
    for (size_t i = 0; i < ret->tables.count; i++) {
        const struct store_table *t = &ret->tables.all[i];
        struct buf sql cleanup(buf_done) = {0};
        sqlite3_stmt *st = NULL;

        buf_adds(&sql, "SELECT ");
        store_table_columns(t, &sql);
        buf_addf(&sql, " FROM \"%s\"", t->name);
        assert_int_equal(sqlite3_prepare_v2(db, sql.data, -1, &st, NULL),
                         SQLITE_OK);
        while (sqlite3_step(st) == SQLITE_ROW) {
            struct buf row cleanup(buf_done) = {0};

            for (int k = 0; k < (int)t->count; k++)
                store_digest_value(&row,
                                   (char)('0' + sqlite3_column_type(st, k)),
                                   sqlite3_column_blob(st, k),
                                   (size_t)sqlite3_column_bytes(st, k));
            store_digest_row(&ret->all[i], &row);
        }
        assert_int_equal(sqlite3_finalize(st), SQLITE_OK);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void D9_every_value_survives_both_ways(void **state)
{
    struct desk *d = *state;
    struct digests before cleanup(digests_done) = {0};
    struct digests after cleanup(digests_done) = {0};
    char *path cleanup(mem_free) = xasprintf("%s/glovebox.db", d->dir);
    char *back cleanup(mem_free) = xasprintf("%s/back.db", d->other);
    struct store *moved = NULL;
    char id[STORE_ID];

    NEEDS_SERVER();
    fill(d);
    (void)snprintf(id, sizeof(id), "%s", store_id(d->store));
    OK(d, store_copy_to_postgres(d->store, d->url, NULL, NULL, &d->err));
    store_close(d->store);
    d->store = NULL;
    read_digests(path, &before);

    OK(d, store_open(
              &(struct store_settings){.engine = d->url, .data_dir = d->other},
              &moved, &d->err));
    assert_string_equal(store_engine(moved), "postgres");
    assert_string_equal(store_id(moved), id);
    OK(d, store_backup(moved, back, NULL, NULL, &d->err));
    assert_int_equal(store_backup(moved, back, NULL, NULL, &d->err),
                     -ERR_CONFLICT); /* a file is there */
    store_close(moved);
    read_digests(back, &after);

    assert_int_equal(before.tables.count, after.tables.count);
    for (size_t i = 0; i < before.tables.count; i++) {
        assert_string_equal(before.tables.all[i].name,
                            after.tables.all[i].name);
        if (!store_digest_equal(&before.all[i], &after.all[i]))
            fail_msg("table %s differs", before.tables.all[i].name);
        if (strcmp(before.tables.all[i].name, "secrets") == 0)
            assert_int_equal(before.all[i].rows, 16);
    }
}

/* A number that was assigned once is not assigned again, also when its row is
 * gone. */
static void numbers_go_on(void **state)
{
    struct desk *d = *state;
    struct store *moved = NULL;
    static const char insert[] =
        "INSERT INTO policies (at_ms, made_by, sha256, body)"
        " VALUES (1, 'k', 's', 'b')";

    NEEDS_SERVER();
    for (int i = 0; i < 3; i++) {
        struct store_tx *tx cleanup(store_rollback) = NULL;

        OK(d, store_begin(d->store, STORE_WRITE, "test", &tx, &d->err));
        OK(d, store_exec(tx, &d->err, insert, ""));
        if (i == 2)
            OK(d, store_exec(tx, &d->err,
                             "DELETE FROM policies WHERE number > ?1", "i",
                             (int64_t)1));
        OK(d, store_commit(&tx, &d->err));
    }
    OK(d, store_copy_to_postgres(d->store, d->url, NULL, NULL, &d->err));
    OK(d, store_open(
              &(struct store_settings){.engine = d->url, .data_dir = d->other},
              &moved, &d->err));
    {
        struct store_tx *tx cleanup(store_rollback) = NULL;

        OK(d, store_begin(moved, STORE_WRITE, "test", &tx, &d->err));
        OK(d, store_exec(tx, &d->err, insert, ""));
        OK(d, store_commit(&tx, &d->err));
    }
    store_close(moved);
    assert_int_equal(ask_schema(d, "SELECT max(number) FROM policies"), 4);
}

static void a_used_database_is_refused(void **state)
{
    struct desk *d = *state;

    NEEDS_SERVER();
    (void)ask_schema(d, "CREATE TABLE theirs (a int)");
    assert_int_equal(
        store_copy_to_postgres(d->store, d->url, NULL, NULL, &d->err),
        -ERR_CONFLICT);
    assert_int_equal(ask_schema(d, TABLES), 1);
}

/* The server changes a row on its way: the copy is compared, found different
 * and undone. */
static void D8_a_copy_that_differs_is_undone(void **state)
{
    struct desk *d = *state;

    NEEDS_SERVER();
    fill(d);
    (void)ask_schema(
        d, "CREATE FUNCTION forge() RETURNS trigger LANGUAGE plpgsql AS"
           " $$BEGIN NEW.header := NEW.header || '!'; RETURN NEW; END$$");
    (void)ask_schema(
        d, "CREATE FUNCTION hook() RETURNS event_trigger LANGUAGE plpgsql AS"
           " $$DECLARE c record; BEGIN FOR c IN SELECT * FROM"
           " pg_event_trigger_ddl_commands() LOOP"
           " IF c.command_tag = 'CREATE TABLE' AND c.object_identity LIKE"
           " '%secrets' THEN CREATE TRIGGER forge BEFORE INSERT ON secrets"
           " FOR EACH ROW EXECUTE FUNCTION forge(); END IF; END LOOP; END$$");
    (void)ask_schema(d, "CREATE EVENT TRIGGER hook ON ddl_command_end"
                        " EXECUTE FUNCTION hook()");
    assert_int_equal(
        store_copy_to_postgres(d->store, d->url, NULL, NULL, &d->err),
        -ERR_CORRUPT);
    assert_non_null(strstr(d->err.message, "table secrets differs"));
    (void)ask_schema(d, "DROP EVENT TRIGGER hook");
    assert_int_equal(ask_schema(d, TABLES), 0);
    OK(d, store_copy_to_postgres(d->store, d->url, NULL, NULL, &d->err));
}

static void a_service_elsewhere_is_noticed(void **state)
{
    struct desk *d = *state;
    struct store *moved = NULL;

    NEEDS_SERVER();
    OK(d, store_alone("sqlite", &d->err));
    OK(d, store_alone(d->url, &d->err));
    OK(d, store_open(
              &(struct store_settings){.engine = d->url, .data_dir = d->other},
              &moved, &d->err));
    assert_int_equal(store_alone(d->url, &d->err), -ERR_CONFLICT);
    store_close(moved);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(D9_every_value_survives_both_ways),
        CASE(numbers_go_on),
        CASE(a_used_database_is_refused),
        CASE(D8_a_copy_that_differs_is_undone),
        CASE(a_service_elsewhere_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
