/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a store on the engine that the environment chooses, so that the same
 * test program runs on both: with GLOVEBOX_TEST_POSTGRES, the URL of a server
 * (tools/test-postgres), on PostgreSQL, otherwise on SQLite.
 *
 * On PostgreSQL each program has a database of its own, which is dropped when
 * it exits, and each data directory a schema of its own in it, so that a store
 * that is opened again finds what it had.
 */
#ifndef GLOVEBOX_TESTS_STORE_CHOICE_H
#define GLOVEBOX_TESTS_STORE_CHOICE_H

#include <postgresql/libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "store/store.h"

static char store_choice_database[32];
static pid_t store_choice_pid;

/* NULL: SQLite. */
static inline const char *store_choice_server(void)
{
    const char *url = getenv("GLOVEBOX_TEST_POSTGRES");

    return url && *url ? url : NULL;
}

/* Runs a command on the server, in that database. */
static inline bool store_choice_run(const char *database, const char *sql)
{
    char url[256];
    PGconn *pg;
    PGresult *res;
    bool ok;

    (void)snprintf(url, sizeof(url), "%s&dbname=%s", store_choice_server(),
                   database);
    pg = PQconnectdb(url);
    PQclear(PQexec(pg, "SET client_min_messages = warning"));
    res = PQexec(pg, sql);
    ok = PQresultStatus(res) == PGRES_COMMAND_OK ||
         PQresultStatus(res) == PGRES_TUPLES_OK;
    if (!ok)
        (void)fprintf(stderr, "%s: %s", sql, PQerrorMessage(pg));
    PQclear(res);
    PQfinish(pg);
    return ok;
}

static inline void store_choice_drop(void)
{
    char sql[96];

    if (getpid() != store_choice_pid) /* a child that exits */
        return;
    (void)snprintf(sql, sizeof(sql), "DROP DATABASE %s WITH (FORCE)",
                   store_choice_database);
    (void)store_choice_run("postgres", sql);
}

static inline void store_choice_make(void)
{
    char sql[96];

    if (store_choice_pid)
        return;
    store_choice_pid = getpid();
    (void)snprintf(store_choice_database, sizeof(store_choice_database),
                   "test_%d", (int)getpid());
    (void)snprintf(sql, sizeof(sql), "DROP DATABASE IF EXISTS %s",
                   store_choice_database);
    (void)store_choice_run("postgres", sql);
    (void)snprintf(sql, sizeof(sql), "CREATE DATABASE %s",
                   store_choice_database);
    if (!store_choice_run("postgres", sql))
        abort();
    (void)atexit(store_choice_drop);
}

/* The URL of the schema that belongs to this directory, which is made. */
static inline char *store_choice_url(const char *data_dir, char *ret,
                                     size_t size)
{
    char schema[64] = "s_", sql[384];
    size_t path = strlen(data_dir), len = 2;
    const char *name = data_dir + (path > 56 ? path - 56 : 0);

    for (; *name && len < 60; name++)
        schema[len++] =
            (char)(strchr("./-", *name) ? '_' : *name); /* mkdtemp's rest */
    schema[len] = '\0';
    store_choice_make();
    /* zeroblob() is SQLite's, and what tests spoil hashes with. */
    (void)snprintf(sql, sizeof(sql),
                   "CREATE SCHEMA IF NOT EXISTS \"%s\";"
                   "CREATE OR REPLACE FUNCTION \"%s\".zeroblob(n int)"
                   " RETURNS bytea LANGUAGE sql AS"
                   " $$SELECT decode(repeat('00', n), 'hex')$$",
                   schema, schema);
    if (!store_choice_run(store_choice_database, sql))
        abort();
    (void)snprintf(ret, size,
                   "%s&dbname=%s&options=-csearch_path%%3D%%22%s%%22",
                   store_choice_server(), store_choice_database, schema);
    return ret;
}

/* A directory that was restored has a database of SQLite: it is copied, as
 * `glovebox restore` with PostgreSQL does. */
static inline int store_choice_load(const struct store_settings *settings,
                                    const char *url, struct error *err)
{
    struct store *from = NULL;
    char path[256];
    int r;

    (void)snprintf(path, sizeof(path), "%s/glovebox.db", settings->data_dir);
    if (access(path, F_OK) < 0)
        return 0;
    r = store_open(&(struct store_settings){.data_dir = settings->data_dir},
                   &from, err);
    if (r == 0)
        r = store_copy_to_postgres(from, url, NULL, NULL, err);
    store_close(from);
    return r == 0 && unlink(path) == 0 ? 0 : r;
}

/* As store_open. */
static inline int store_choice_open(const struct store_settings *settings,
                                    struct store **ret, struct error *err)
{
    struct store_settings chosen = *settings;
    char url[512];

    if (store_choice_server() && !chosen.engine) {
        chosen.engine = store_choice_url(settings->data_dir, url, sizeof(url));
        if (store_choice_load(settings, url, err) < 0)
            return -(int)err->code;
    }
    return store_open(&chosen, ret, err);
}

#endif
