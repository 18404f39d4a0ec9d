/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SQLite engine of the store. Runs in the daemon, behind store.h, on any
 * of its threads under one mutex. It has the only connection to the file:
 * the lock is exclusive, so that a second daemon on the same directory is
 * refused and no other process can checkpoint the log (D6). Values are bound,
 * never printed into SQL.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "store/store_int.h"

#define BUSY_MS 3000 /* a daemon that is just stopping gets this long */

enum statement {
    BEGIN,
    COMMIT,
    ROLLBACK,
    KEY_PUT,
    KEY_LIST,
    KEY_REVOKE,
    KEY_PRUNE,
    KEY_TOUCH,
    STATEMENTS
};

static const char *const statement_sql[STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [KEY_PUT] = "INSERT INTO keys (id, hash, tenant, name, scopes,"
                " created_at_ms, revoked_at_ms, last_used_at_ms)"
                " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [KEY_LIST] = "SELECT id, hash, tenant, name, scopes, created_at_ms,"
                 " revoked_at_ms, last_used_at_ms FROM keys"
                 " ORDER BY created_at_ms DESC, rowid DESC",
    [KEY_REVOKE] = "UPDATE keys SET revoked_at_ms ="
                   " CASE revoked_at_ms WHEN 0 THEN ?2 ELSE revoked_at_ms END"
                   " WHERE id = ?1",
    [KEY_PRUNE] = "DELETE FROM keys WHERE id IN (SELECT id FROM keys"
                  " WHERE revoked_at_ms > 0"
                  " ORDER BY revoked_at_ms DESC, rowid DESC"
                  " LIMIT -1 OFFSET ?1)",
    [KEY_TOUCH] = "UPDATE keys SET last_used_at_ms = max(last_used_at_ms, ?2)"
                  " WHERE id = ?1",
};

struct sqlite_store {
    struct store base;
    pthread_mutex_t lock; /* around every use of what follows */
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    bool broken; /* a sync failed: no more writes */
};

static struct sqlite_store *sqlite_of(struct store *s)
{
    return (struct sqlite_store *)s;
}

static void unlock(pthread_mutex_t **lock)
{
    (void)pthread_mutex_unlock(*lock); /* we hold it */
}

#define WITH_LOCK(s)                                                          \
    pthread_mutex_t *held_ cleanup(unlock) = &(s)->lock;                      \
    (void)pthread_mutex_lock(held_) /* fails only on misuse */

/* ---- failing ------------------------------------------------------------ */

/* Clients see this: what failed, but no SQL and no path (H5). */
static int fail(struct sqlite_store *s, const char *what, struct error *err)
{
    int code = sqlite3_extended_errcode(s->db);

    if (code == SQLITE_IOERR_FSYNC || code == SQLITE_IOERR_DIR_FSYNC)
        s->broken = true;
    if ((code & 0xff) == SQLITE_CONSTRAINT)
        return error_set(err, ERR_CONFLICT, "%s: it is there already", what);
    return error_set(err, ERR_INTERNAL, "%s: %s (%d)", what,
                     sqlite3_errstr(code), code);
}

/* ---- statements --------------------------------------------------------- */

/* Runs a statement that returns no rows; parameters were bound before. The
 * bindings point to the caller's memory, hence the clearing. */
static int run(struct sqlite_store *s, enum statement which)
{
    sqlite3_stmt *st = s->statements[which];
    int code = sqlite3_step(st);

    (void)sqlite3_reset(st); /* repeats the code of the step */
    (void)sqlite3_clear_bindings(st);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static void bind_text(sqlite3_stmt *st, int at, const char *text)
{
    /* Binding fails only for a wrong index or without memory; either leaves
     * NULL behind, which the schema refuses. */
    (void)sqlite3_bind_text(st, at, text, -1, SQLITE_STATIC);
}

static int begin(struct sqlite_store *s, const char *what, struct error *err)
{
    if (s->broken)
        return error_set(err, ERR_UNAVAILABLE,
                         "%s: the disk failed earlier; writing has stopped",
                         what);
    return run(s, BEGIN) == SQLITE_OK ? 0 : fail(s, what, err);
}

/* Ends the transaction: code is what its statements came to. */
static int end(struct sqlite_store *s, int code, const char *what,
               struct error *err)
{
    int r;

    if (code == SQLITE_OK)
        code = run(s, COMMIT);
    if (code == SQLITE_OK)
        return 0;
    r = fail(s, what, err);
    if (!sqlite3_get_autocommit(s->db))
        (void)run(s, ROLLBACK); /* the first failure is the one to report */
    return r;
}

/* ---- keys --------------------------------------------------------------- */

static int key_put(struct store *base, const struct store_key *key,
                   struct error *err)
{
    static const char what[] = "storing a key";
    struct sqlite_store *s = sqlite_of(base);
    sqlite3_stmt *st = s->statements[KEY_PUT];
    WITH_LOCK(s);

    if (begin(s, what, err) < 0)
        return -(int)err->code;
    bind_text(st, 1, key->id);
    (void)sqlite3_bind_blob(st, 2, key->hash, sizeof(key->hash),
                            SQLITE_STATIC); /* as bind_text */
    bind_text(st, 3, key->tenant);
    bind_text(st, 4, key->name);
    (void)sqlite3_bind_int64(st, 5, key->scopes);
    (void)sqlite3_bind_int64(st, 6, key->created_at_ms);
    (void)sqlite3_bind_int64(st, 7, key->revoked_at_ms);
    (void)sqlite3_bind_int64(st, 8, key->last_used_at_ms);
    return end(s, run(s, KEY_PUT), what, err);
}

static void read_text(sqlite3_stmt *st, int at, char *ret, size_t size)
{
    const unsigned char *text = sqlite3_column_text(st, at);

    (void)snprintf(ret, size, "%s", text ? (const char *)text : "");
}

static void read_key(sqlite3_stmt *st, struct store_key *ret)
{
    const void *hash = sqlite3_column_blob(st, 1);

    memset(ret, 0, sizeof(*ret));
    read_text(st, 0, ret->id, sizeof(ret->id));
    if (hash && sqlite3_column_bytes(st, 1) == STORE_HASH_SIZE)
        memcpy(ret->hash, hash, STORE_HASH_SIZE);
    read_text(st, 2, ret->tenant, sizeof(ret->tenant));
    read_text(st, 3, ret->name, sizeof(ret->name));
    ret->scopes = (uint32_t)sqlite3_column_int64(st, 4);
    ret->created_at_ms = sqlite3_column_int64(st, 5);
    ret->revoked_at_ms = sqlite3_column_int64(st, 6);
    ret->last_used_at_ms = sqlite3_column_int64(st, 7);
}

static int key_list(struct store *base, struct store_key **ret_keys,
                    size_t *ret_count, struct error *err)
{
    struct sqlite_store *s = sqlite_of(base);
    sqlite3_stmt *st = s->statements[KEY_LIST];
    struct store_key *keys cleanup(mem_free) = NULL;
    size_t count = 0, room = 0;
    int code;
    WITH_LOCK(s);

    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        if (count == room) {
            room = room ? 2 * room : 16;
            keys = xrealloc(keys, room * sizeof(*keys));
        }
        read_key(st, &keys[count++]);
    }
    (void)sqlite3_reset(st); /* repeats the code of the step */
    if (code != SQLITE_DONE)
        return fail(s, "listing keys", err);
    *ret_keys = take_ptr(keys);
    *ret_count = count;
    return 0;
}

static int key_revoke(struct store *base, const char *id, int64_t at_ms,
                      struct error *err)
{
    static const char what[] = "revoking a key";
    struct sqlite_store *s = sqlite_of(base);
    int code, changed;
    WITH_LOCK(s);

    if (begin(s, what, err) < 0)
        return -(int)err->code;
    bind_text(s->statements[KEY_REVOKE], 1, id);
    (void)sqlite3_bind_int64(s->statements[KEY_REVOKE], 2, at_ms);
    code = run(s, KEY_REVOKE);
    changed = sqlite3_changes(s->db);
    if (code == SQLITE_OK) {
        (void)sqlite3_bind_int(s->statements[KEY_PRUNE], 1,
                               STORE_REVOKED_KEPT);
        code = run(s, KEY_PRUNE);
    }
    if (end(s, code, what, err) < 0)
        return -(int)err->code;
    if (!changed)
        return error_set(err, ERR_NOT_FOUND, "there is no such key");
    return 0;
}

static int key_touch(struct store *base, const struct store_touch *rows,
                     size_t count, struct error *err)
{
    static const char what[] = "noting the use of keys";
    struct sqlite_store *s = sqlite_of(base);
    int code = SQLITE_OK;
    WITH_LOCK(s);

    if (begin(s, what, err) < 0)
        return -(int)err->code;
    for (size_t i = 0; i < count && code == SQLITE_OK; i++) {
        bind_text(s->statements[KEY_TOUCH], 1, rows[i].id);
        (void)sqlite3_bind_int64(s->statements[KEY_TOUCH], 2,
                                 rows[i].used_at_ms);
        code = run(s, KEY_TOUCH);
    }
    return end(s, code, what, err);
}

/* ---- opening ------------------------------------------------------------ */

static void sqlite_close(struct store *base)
{
    struct sqlite_store *s = sqlite_of(base);

    for (size_t i = 0; i < STATEMENTS; i++)
        (void)sqlite3_finalize(s->statements[i]); /* repeats an old failure */
    (void)sqlite3_close(s->db); /* no statement is left to keep it busy */
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

static void sqlite_closep(struct sqlite_store **s)
{
    if (*s)
        sqlite_close(&(*s)->base);
}

static const struct store_ops sqlite_ops = {
    .close = sqlite_close,
    .key_put = key_put,
    .key_list = key_list,
    .key_revoke = key_revoke,
    .key_touch = key_touch,
};

/* One value of a query without parameters, as text; "" when there is none. */
static int ask(struct sqlite_store *s, const char *sql, char *ret, size_t size)
{
    sqlite3_stmt *st = NULL;
    int code = sqlite3_prepare_v2(s->db, sql, -1, &st, NULL);

    if (code == SQLITE_OK)
        code = sqlite3_step(st);
    ret[0] = '\0';
    if (code == SQLITE_ROW)
        read_text(st, 0, ret, size);
    (void)sqlite3_finalize(st); /* repeats the code of the step */
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

/* The order matters: the lock before anything is read, then the journal. */
static int set_up(struct sqlite_store *s, struct error *err)
{
    static const struct {
        const char *sql;
        const char *expect; /* the answer, or NULL for any */
    } steps[] = {
        {"PRAGMA locking_mode = EXCLUSIVE", "exclusive"},
        {"PRAGMA journal_mode = WAL", "wal"},
        {"PRAGMA synchronous = FULL", NULL},
        {"PRAGMA foreign_keys = ON", NULL},
        {"PRAGMA trusted_schema = OFF", NULL},
        {"PRAGMA cell_size_check = ON", NULL},
        {"BEGIN IMMEDIATE", NULL}, /* takes the lock for good */
        {"COMMIT", NULL},
        {"PRAGMA quick_check(1)", "ok"},
    };
    char answer[128];

    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        int code = ask(s, steps[i].sql, answer, sizeof(answer));

        if ((code & 0xff) == SQLITE_BUSY)
            return error_set(err, ERR_CONFLICT,
                             "another process has the data directory open");
        if (code != SQLITE_OK)
            return fail(s, steps[i].sql, err);
        if (steps[i].expect && strcmp(answer, steps[i].expect) != 0)
            return error_set(err, ERR_INTERNAL, "%s answered \"%.100s\"",
                             steps[i].sql, answer);
    }
    return 0;
}

static int exec(struct sqlite_store *s, const char *sql, struct error *err)
{
    if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return fail(s, "migrating the database", err);
    return 0;
}

static int migrate_one(struct sqlite_store *s, int version, struct error *err)
{
    char *note cleanup(mem_free) =
        xasprintf("UPDATE schema_version SET version = %d", version + 1);

    if (exec(s, "BEGIN IMMEDIATE", err) < 0)
        return -(int)err->code;
    if (exec(s, store_migrations[version], err) < 0 ||
        exec(s, note, err) < 0 || exec(s, "COMMIT", err) < 0) {
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL); /* closing */
        return -(int)err->code;
    }
    return 0;
}

static int migrate(struct sqlite_store *s, struct error *err)
{
    char text[32];
    int version;

    if (exec(s,
             "BEGIN IMMEDIATE;"
             "CREATE TABLE IF NOT EXISTS schema_version ("
             "  one INTEGER PRIMARY KEY CHECK (one = 1),"
             "  version INTEGER NOT NULL) STRICT;"
             "INSERT OR IGNORE INTO schema_version VALUES (1, 0);"
             "COMMIT",
             err) < 0)
        return -(int)err->code;
    if (ask(s, "SELECT version FROM schema_version", text, sizeof(text)) !=
        SQLITE_OK)
        return fail(s, "reading the schema's version", err);
    version = (int)strtol(text, NULL, 10);
    if (version < 0 || version > store_migrations_count) {
        (void)error_set(err, ERR_CONFLICT,
                        "the database has schema %d, this program knows up "
                        "to %d",
                        version, store_migrations_count);
        return error_hint(err, "run the version that wrote it, or a newer "
                               "one");
    }
    while (version < store_migrations_count)
        if (migrate_one(s, version++, err) < 0)
            return -(int)err->code;
    return 0;
}

static int prepare(struct sqlite_store *s, struct error *err)
{
    for (size_t i = 0; i < STATEMENTS; i++)
        if (sqlite3_prepare_v3(s->db, statement_sql[i], -1,
                               SQLITE_PREPARE_PERSISTENT, &s->statements[i],
                               NULL) != SQLITE_OK)
            return fail(s, "preparing statements", err);
    return 0;
}

/* Makes the file ours alone before SQLite does with our umask; the log gets
 * the same mode. Returns the path without links on the way, as NOFOLLOW
 * demands; owned by caller. */
static int make_file(const char *data_dir, char **ret_path, struct error *err)
{
    char *real cleanup(mem_free) = realpath(data_dir, NULL);
    char *path cleanup(mem_free) = NULL;
    int fd cleanup(fd_close) = -1;

    if (!real)
        return error_errno(err, ERR_INTERNAL, errno, "cannot open %s",
                           data_dir);
    path = xasprintf("%s/glovebox.db", real);
    fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot open %s", path);
    *ret_path = take_ptr(path);
    return 0;
}

int store_sqlite_open(const char *data_dir, struct store **ret,
                      struct error *err)
{
    struct sqlite_store *s cleanup(sqlite_closep) = xcalloc(1, sizeof(*s));
    char *path cleanup(mem_free) = NULL;

    s->base.ops = &sqlite_ops;
    (void)pthread_mutex_init(&s->lock, NULL); /* cannot fail on Linux */
    if (make_file(data_dir, &path, err) < 0)
        return -(int)err->code;
    if (sqlite3_open_v2(path, &s->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                            SQLITE_OPEN_NOFOLLOW,
                        NULL) != SQLITE_OK)
        return error_set(err, ERR_INTERNAL, "cannot open %s: %s", path,
                         s->db ? sqlite3_errmsg(s->db) : "no memory");
    (void)sqlite3_extended_result_codes(s->db, 1); /* a known handle */
    (void)sqlite3_busy_timeout(s->db, BUSY_MS);
    if (set_up(s, err) < 0 || migrate(s, err) < 0 || prepare(s, err) < 0)
        return error_wrap(err, "%s", path);
    *ret = &take_ptr(s)->base;
    return 0;
}
