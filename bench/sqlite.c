/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peer of small commits, for the stopwatch: what SQLite itself takes to
 * put one row on disk, with nothing around it. Write-ahead log, full sync,
 * one connection, the library's own checkpoints; a prepared statement.
 */
#include "stopwatch.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

static sqlite3 *db; /* opened with the first insert, for good */
static sqlite3_stmt *insert;

static void must(int code, const char *what)
{
    if (code == SQLITE_OK || code == SQLITE_DONE || code == SQLITE_ROW)
        return;
    fprintf(stderr, "stopwatch: sqlite: %s: %s\n", what, sqlite3_errstr(code));
    exit(1);
}

static void open_at(const char *path)
{
    if (db)
        return;
    must(sqlite3_open(path, &db), "open");
    must(sqlite3_exec(db,
                      "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                      "CREATE TABLE files (id INTEGER PRIMARY KEY,"
                      " bytes BLOB NOT NULL)",
                      NULL, NULL, NULL),
         "set up");
    must(sqlite3_prepare_v2(db, "INSERT INTO files (bytes) VALUES (?1)", -1,
                            &insert, NULL),
         "prepare");
}

uint64_t sqlite_insert(const char *path, size_t len, size_t count)
{
    char *bytes = malloc(len + 1);
    uint64_t begun;

    if (!bytes)
        stopwatch_die("malloc");
    open_at(path);
    begun = stopwatch_now();
    for (size_t i = 0; i < count; i++) {
        stopwatch_fill(bytes, len, stopwatch_now());
        must(sqlite3_bind_blob64(insert, 1, bytes, len, SQLITE_STATIC),
             "bind");
        must(sqlite3_step(insert), "insert");
        must(sqlite3_reset(insert), "insert");
    }
    begun = stopwatch_now() - begun;
    free(bytes);
    return begun;
}
