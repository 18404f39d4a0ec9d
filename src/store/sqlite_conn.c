/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to the database and the statements prepared on it; see
 * sqlite_int.h. Runs in the daemon, a connection being used by one thread at
 * a time.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/sqlite_int.h"

#define PROBES 8 /* slots in which a statement may be */

/* ---- opening ------------------------------------------------------------ */

static int on_logged(void *arg, sqlite3 *db, const char *name, int frames)
{
    struct sqlite_conn *c = arg;

    (void)db;
    (void)name;
    c->logged = frames;
    return SQLITE_OK;
}

/* Only explicit checkpoints, whose failures we see: SQLite's automatic one
 * hides a failed sync (D4). */
static int disable_auto_checkpoint(struct sqlite_conn *c, enum store_mode mode)
{
    int code = sqlite3_wal_autocheckpoint(c->db, 0);

    if (mode == STORE_WRITE)
        (void)sqlite3_wal_hook(c->db, on_logged, c); /* the old one: none */
    else if (code == SQLITE_OK)
        code = sqlite3_db_config(c->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1,
                                 NULL);
    return code;
}

int store_sqlite_conn_open(const char *path, enum store_mode mode,
                           struct sqlite_conn **ret_conn)
{
    static const char *const settings[][3] = {
        [STORE_READ] = {"PRAGMA query_only = ON", "PRAGMA cache_size = -4096"},
        /* Deleted content is overwritten, in place and in free pages. */
        [STORE_WRITE] = {"PRAGMA synchronous = FULL",
                         "PRAGMA cache_size = -16384",
                         "PRAGMA secure_delete = ON"},
    };
    static const char *const common[] = {
        "PRAGMA foreign_keys = ON",
        "PRAGMA trusted_schema = OFF",
        "PRAGMA cell_size_check = ON",
        "PRAGMA temp_store = MEMORY",
    };
    struct sqlite_conn *c = *ret_conn = xcalloc(1, sizeof(*c));
    int flags =
        SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW |
        (mode == STORE_WRITE ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY);
    int code = sqlite3_open_v2(path, &c->db, flags,
                               mode == STORE_WRITE ? store_sqlite_log_vfs()
                                                   : STORE_SQLITE_VFS);

    if (code != SQLITE_OK)
        return code;
    (void)sqlite3_extended_result_codes(c->db, 1); /* a known handle */
    (void)sqlite3_busy_timeout(c->db, STORE_SQLITE_BUSY_MS);
    code = sqlite3_db_config(c->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    for (size_t i = 0; i < 3 && settings[mode][i] && code == SQLITE_OK; i++)
        code = store_sqlite_conn_run(c, settings[mode][i]);
    for (size_t i = 0; i < ARRAY_SIZE(common) && code == SQLITE_OK; i++)
        code = store_sqlite_conn_run(c, common[i]);
    return code == SQLITE_OK ? disable_auto_checkpoint(c, mode) : code;
}

void store_sqlite_conn_close(struct sqlite_conn *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < STORE_SQLITE_CACHED; i++)
        (void)sqlite3_finalize(c->cache[i].st); /* repeats an old failure */
    (void)sqlite3_close_v2(c->db); /* closes now: no statement is left */
    free(c);
}

/* ---- statements --------------------------------------------------------- */

static int prepare_statement(struct sqlite_conn *c, const char *sql,
                             unsigned flags, sqlite3_stmt **ret)
{
    const char *rest = "";
    int code = sqlite3_prepare_v3(c->db, sql, -1, flags, ret, &rest);

    if (code == SQLITE_OK && (!*ret || *rest)) {
        (void)sqlite3_finalize(*ret); /* never ran */
        *ret = NULL;
        return SQLITE_MISUSE; /* nothing, or more than one statement */
    }
    return code;
}

/* The slot of this statement, else the one to reuse, else NULL when all are in
 * use. Slots are found by the address of the text; the caller compares the
 * text, since a buffer that is no literal may have changed. */
static struct sqlite_cached *slot_of(struct sqlite_conn *c, const char *sql)
{
    size_t start = (size_t)(((uintptr_t)sql * 0x9e3779b97f4a7c15u) >> 32);
    struct sqlite_cached *best = NULL;

    for (size_t i = 0; i < PROBES; i++) {
        struct sqlite_cached *slot =
            &c->cache[(start + i) % STORE_SQLITE_CACHED];

        if (slot->sql == sql && !slot->busy)
            return slot;
        if (!slot->busy && (!best || slot->used < best->used))
            best = slot;
    }
    return best;
}

int store_sqlite_conn_take(struct sqlite_conn *c, const char *sql,
                           sqlite3_stmt **ret_st,
                           struct sqlite_cached **ret_slot)
{
    struct sqlite_cached *slot = slot_of(c, sql);
    int code = SQLITE_OK;

    *ret_slot = slot;
    if (!slot)
        return prepare_statement(c, sql, 0, ret_st);
    if (!slot->st || slot->sql != sql ||
        strcmp(sqlite3_sql(slot->st), sql) != 0) {
        (void)sqlite3_finalize(slot->st); /* repeats an old failure */
        *slot = (struct sqlite_cached){0};
        code = prepare_statement(c, sql, SQLITE_PREPARE_PERSISTENT, &slot->st);
        if (code != SQLITE_OK)
            return code;
        slot->sql = sql;
    }
    slot->busy = true;
    slot->used = ++c->uses;
    *ret_st = slot->st;
    return code;
}

/* Bindings point to the caller's memory, so they are cleared. */
void store_sqlite_conn_give(sqlite3_stmt *st, struct sqlite_cached *slot)
{
    if (!slot) {
        (void)sqlite3_finalize(st); /* repeats the code of the step */
        return;
    }
    (void)sqlite3_reset(st); /* likewise */
    (void)sqlite3_clear_bindings(st);
    slot->busy = false;
}

int store_sqlite_conn_run(struct sqlite_conn *c, const char *sql)
{
    struct sqlite_cached *slot;
    sqlite3_stmt *st;
    int code = store_sqlite_conn_take(c, sql, &st, &slot);

    if (code != SQLITE_OK)
        return code;
    do
        code = sqlite3_step(st);
    while (code == SQLITE_ROW);
    store_sqlite_conn_give(st, slot);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

int store_sqlite_conn_text(struct sqlite_conn *c, const char *sql, char *ret,
                           size_t size)
{
    struct sqlite_cached *slot;
    sqlite3_stmt *st;
    int code = store_sqlite_conn_take(c, sql, &st, &slot);

    ret[0] = '\0';
    if (code != SQLITE_OK)
        return code;
    code = sqlite3_step(st);
    if (code == SQLITE_ROW) {
        const unsigned char *text = sqlite3_column_text(st, 0);

        (void)snprintf(ret, size, "%s", text ? (const char *)text : "");
    }
    store_sqlite_conn_give(st, slot);
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}
