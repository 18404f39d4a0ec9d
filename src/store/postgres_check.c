/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a PostgreSQL database, and removes deleted rows from it; see store.h.
 * Runs in the daemon on a thread that may wait, with a connection of its own
 * and without a time limit per statement.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/postgres_int.h"

#define LONG_MS (3600 * 1000) /* for one table */

static void conn_closep(struct postgres_conn **c)
{
    store_postgres_conn_close(*c);
}

static void result_clear(PGresult **res)
{
    PQclear(*res);
}

/* Runs `verb`, a table's quoted name and `tail`, for every table that the
 * query names.
 */
static int each_table(struct postgres_conn *c, const char *query,
                      const char *verb, const char *tail, const char *what,
                      struct error *err)
{
    PGresult *names cleanup(result_clear) = NULL;

    if (!store_postgres_conn_ask(c, query, 0, NULL, &names))
        return store_postgres_fail(what, &c->failure, err);
    for (int i = 0; i < PQntuples(names); i++) {
        char *quoted = PQescapeIdentifier(c->pg, PQgetvalue(names, i, 0),
                                          strlen(PQgetvalue(names, i, 0)));
        char sql[200];
        int len = snprintf(sql, sizeof(sql), "%s %s%s", verb,
                           quoted ? quoted : "", tail);
        bool ok = quoted && len < (int)sizeof(sql) &&
                  store_postgres_conn_ask(c, sql, 0, NULL, NULL);

        PQfreemem(quoted);
        if (!ok)
            return store_postgres_fail(what, &c->failure, err);
    }
    return 0;
}

/* Reads every page of every table and, through the primary keys' order, of its
 * indexes; with data checksums the server finds damaged ones. */
int store_postgres_check(struct store *base, struct error *err)
{
    static const char what[] = "checking the database";
    struct postgres_store *s = (struct postgres_store *)base;
    struct postgres_conn *c cleanup(conn_closep) = NULL;

    if (store_postgres_conn_open(&s->place, STORE_READ, &c, err) < 0)
        return -(int)err->code;
    c->answer_ms = LONG_MS;
    store_postgres_conn_queue(c, "SET statement_timeout = 0");
    return each_table(c,
                      "SELECT relname FROM pg_class WHERE relkind = 'r'"
                      " AND relnamespace = (SELECT oid FROM"
                      " pg_namespace WHERE nspname = current_schema())",
                      "SELECT count(*), sum(length(t::text)) FROM", " t", what,
                      err);
}

int store_postgres_check_forget(struct store *base, struct error *err)
{
    static const char what[] = "vacuuming the database";
    struct postgres_store *s = (struct postgres_store *)base;
    struct postgres_conn *c cleanup(conn_closep) = NULL;

    if (store_postgres_conn_open(&s->place, STORE_READ, &c, err) < 0)
        return -(int)err->code;
    c->answer_ms = LONG_MS;
    store_postgres_conn_queue(c, "SET statement_timeout = 0");
    return each_table(c,
                      "SELECT relname FROM pg_stat_user_tables"
                      " WHERE schemaname = current_schema()"
                      " AND n_dead_tup > 0",
                      "VACUUM (SKIP_LOCKED)", "", what, err);
}
