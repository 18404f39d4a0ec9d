/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the database: lock, file, settings, check, migrations; see
 * sqlite_int.h. Runs once in the daemon, before other threads use the store.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/sqlite_int.h"

/* ---- the files ---------------------------------------------------------- */

/* The directory was used, but its database is missing or empty. */
static int refuse_empty(const char *what, const char *traces,
                        struct error *err)
{
    (void)error_set(err, ERR_CORRUPT,
                    "%s, but the data directory has been used: it holds %s",
                    what, traces);
    return error_hint(err, "Nothing was changed. Put glovebox.db and "
                           "glovebox.db-wal back, or restore a backup into an "
                           "empty directory with `glovebox restore`. To begin "
                           "anew, use an empty directory.");
}

/* Before the file is created or opened: SQLite would remove the log of an
 * empty database. */
static int check_there(int dir, struct error *err)
{
    char traces[STORE_TRACES_MAX];
    struct stat st;

    if (fstatat(dir, "glovebox.db", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        (st.st_size > 0 || !S_ISREG(st.st_mode)))
        return 0; /* its content is checked later */
    store_data_dir_traces(dir, traces);
    if (!traces[0] && fstatat(dir, "glovebox.db-wal", &st, 0) == 0 &&
        st.st_size > 0)
        (void)snprintf(traces, sizeof(traces), "glovebox.db-wal");
    return traces[0] ? refuse_empty("glovebox.db is missing or has no content",
                                    traces, err)
                     : 0;
}

/* Creates the file with mode 0600 before SQLite would by the umask; the log
 * gets the same mode. The path has no links, as NOFOLLOW demands. */
static int make_db_file(struct sqlite_store *s, const char *data_dir,
                        int *ret_dir, struct error *err)
{
    char *real cleanup(mem_free) = realpath(data_dir, NULL);
    int dir cleanup(fd_close) = -1;
    int fd cleanup(fd_close) = -1;

    if (real)
        dir = open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot open %s",
                           data_dir);
    /* Before the database is opened: closing any descriptor of it would drop
     * the locks that SQLite has on it in this process. */
    if (store_data_dir_lock(dir, &s->lock_fd, err) < 0 ||
        check_there(dir, err) < 0)
        return -(int)err->code;
    s->path = xasprintf("%s/glovebox.db", real);
    fd = openat(dir, "glovebox.db", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                0600);
    if (fd < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot open %s",
                           s->path);
    s->db_fd = take_fd(fd);
    *ret_dir = take_fd(dir);
    return 0;
}

/* ---- settings ----------------------------------------------------------- */

/* quick_check runs when the log is open and before anything is written. */
static int set_up(struct sqlite_store *s, struct error *err)
{
    static const struct {
        const char *sql;
        const char *expect; /* the answer, or NULL for any */
        enum error_code otherwise;
    } steps[] = {
        /* For a new database; an older one keeps its size. Small pages,
           because a commit changes a little in many places and writes whole
           pages. */
        {"PRAGMA page_size = 2048", NULL, ERR_NONE},
        {"PRAGMA journal_mode = WAL", "wal", ERR_INTERNAL},
        {"PRAGMA journal_size_limit = 67108864", NULL, ERR_NONE},
        {"PRAGMA quick_check(1)", "ok", ERR_CORRUPT},
    };
    char answer[128];

    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        int code = store_sqlite_conn_text(s->writer, steps[i].sql, answer,
                                          sizeof(answer));

        if ((code & 0xff) == SQLITE_BUSY)
            return error_set(err, ERR_CONFLICT,
                             "another process has the database open");
        if (code != SQLITE_OK)
            return store_sqlite_fail(s, s->writer, code, steps[i].sql, err);
        if (steps[i].expect && strcmp(answer, steps[i].expect) != 0)
            return error_set(err, steps[i].otherwise, "%s answered \"%.100s\"",
                             steps[i].sql, answer);
    }
    return 0;
}

/* ---- what database this is ---------------------------------------------- */

static int ask_text(struct sqlite_store *s, const char *sql, char *ret,
                    size_t size, struct error *err)
{
    int code = store_sqlite_conn_text(s->writer, sql, ret, size);

    return code == SQLITE_OK
               ? 0
               : store_sqlite_fail(s, s->writer, code,
                                   "reading what the database is", err);
}

/* 1, 0 or -code. */
static int has_table(struct sqlite_store *s, const char *sql,
                     struct error *err)
{
    char count[24];

    return ask_text(s, sql, count, sizeof(count), err) < 0
               ? -(int)err->code
               : strcmp(count, "0") != 0;
}

static int read_id(struct sqlite_store *s, struct error *err)
{
    return ask_text(s, "SELECT id FROM store_identity", s->base.id,
                    sizeof(s->base.id), err);
}

/* A new database, a first start that was cut short, or a wrong file. */
static int check_new(struct sqlite_store *s, int dir, bool ours,
                     struct error *err)
{
    char traces[STORE_TRACES_MAX];
    int r = ours ? 0 : has_table(s, "SELECT count(*) FROM sqlite_schema", err);

    if (r < 0)
        return r;
    if (r > 0) {
        (void)error_set(err, ERR_CORRUPT, "it is not a database of Glovebox");
        return error_hint(err, "Nothing was changed in it. Put the right one "
                               "in its place, or use an empty directory.");
    }
    store_data_dir_traces(dir, traces);
    return traces[0] ? refuse_empty("it is empty, or its glovebox.db-wal is "
                                    "missing",
                                    traces, err)
                     : 0;
}

/* The schema's version; 0 where there is none yet. */
static int read_version(struct sqlite_store *s, bool *ret_ours, int *ret,
                        struct error *err)
{
    char text[32] = "";
    int r = has_table(s,
                      "SELECT count(*) FROM sqlite_schema"
                      " WHERE name = 'schema_version'",
                      err);

    *ret_ours = r > 0;
    if (r > 0)
        r = ask_text(s, "SELECT version FROM schema_version", text,
                     sizeof(text), err);
    *ret = (int)strtol(text, NULL, 10);
    return r;
}

/* Checks an existing database before anything in it is changed. */
static int recognise(struct sqlite_store *s, int dir,
                     const struct store_settings *settings, struct error *err)
{
    bool ours;
    int version;
    int r = read_version(s, &ours, &version, err);

    if (r == 0 && version < STORE_RELEASED)
        return check_new(s, dir, ours, err);
    if (r == 0)
        r = has_table(s,
                      "SELECT count(*) FROM sqlite_schema"
                      " WHERE name = 'store_identity'",
                      err);
    if (r > 0)
        r = read_id(s, err);
    return r == 0 && settings->check
               ? settings->check(&s->base, settings->check_ctx, err)
               : r;
}

/* Whether closing leaves the log as it is: if opening fails, it does. */
static int keep_log_on_close(struct sqlite_store *s, int on, struct error *err)
{
    int code = sqlite3_db_config(s->writer->db,
                                 SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, on, NULL);

    return code == SQLITE_OK ? 0
                             : store_sqlite_fail(s, s->writer, code,
                                                 "opening the database", err);
}

/* Checkpoints a log that an earlier run left. After a failed sync its end may
 * be in the page cache only; nothing may be appended to such a log (D4). On a
 * full disk it stays, so that reading works. */
static int empty_old_log(struct sqlite_store *s, struct error *err)
{
    static const char what[] = "checkpointing the log";
    int code = sqlite3_wal_checkpoint_v2(
        s->writer->db, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);

    if ((code & 0xff) == SQLITE_FULL) {
        log_event(LOG_WARN, "store_checkpoint_failed", "error",
                  "the disk is full, ignoring", NULL);
        return 0;
    }
    if (code != SQLITE_OK)
        return store_sqlite_fail(s, s->writer, code, what, err);
    return 0;
}

/* ---- migrations --------------------------------------------------------- */

static int exec_sql(struct sqlite_store *s, const char *sql, struct error *err)
{
    int code = sqlite3_exec(s->writer->db, sql, NULL, NULL, NULL);

    if (code != SQLITE_OK)
        return store_sqlite_fail(s, s->writer, code, "migrating the database",
                                 err);
    return 0;
}

static int migrate_one(struct sqlite_store *s, int version, struct error *err)
{
    char *note cleanup(mem_free) =
        xasprintf("UPDATE schema_version SET version = %d", version + 1);

    if (exec_sql(s, "BEGIN IMMEDIATE", err) < 0)
        return -(int)err->code;
    if (exec_sql(s, store_migrations[version], err) < 0 ||
        exec_sql(s, note, err) < 0 || exec_sql(s, "COMMIT", err) < 0) {
        (void)sqlite3_exec(s->writer->db, "ROLLBACK", NULL, NULL,
                           NULL); /* the database is closed next */
        return -(int)err->code;
    }
    return 0;
}

static int migrate(struct sqlite_store *s, struct error *err)
{
    bool ours;
    int version;

    if (exec_sql(s,
                 "BEGIN IMMEDIATE;"
                 "CREATE TABLE IF NOT EXISTS schema_version ("
                 "  one INTEGER PRIMARY KEY CHECK (one = 1),"
                 "  version INTEGER NOT NULL) STRICT;"
                 "INSERT OR IGNORE INTO schema_version VALUES (1, 0);"
                 "COMMIT",
                 err) < 0 ||
        read_version(s, &ours, &version, err) < 0)
        return -(int)err->code;
    if (version < 0 || version > store_migrations_count) {
        (void)error_set(err, ERR_CONFLICT,
                        "the database has schema %d, this program knows up "
                        "to %d",
                        version, store_migrations_count);
        return error_hint(err, "run the version that wrote it, or a newer "
                               "one; to go back, restore a backup that was "
                               "made before the upgrade");
    }
    while (version < store_migrations_count)
        if (migrate_one(s, version++, err) < 0)
            return -(int)err->code;
    return 0;
}

/* Assigns the id of a new database. */
static int give_id(struct sqlite_store *s, struct error *err)
{
    unsigned char random[(STORE_ID - 1) / 2];
    char hex[STORE_ID];
    char *sql cleanup(mem_free) = NULL;

    if (read_id(s, err) < 0)
        return -(int)err->code;
    if (s->base.id[0])
        return 0;
    ids_random(random, sizeof(random));
    sql = xasprintf("INSERT INTO store_identity (one, id) VALUES (1, '%s')",
                    ids_hex(random, sizeof(random), hex));
    return exec_sql(s, sql, err) < 0 ? -(int)err->code : read_id(s, err);
}

/* ---- opening ------------------------------------------------------------ */

static void closep(struct sqlite_store **s)
{
    if (*s)
        store_sqlite_close(&(*s)->base);
}

int store_sqlite_open(const struct store_settings *settings,
                      struct store **ret, struct error *err)
{
    struct sqlite_store *s cleanup(closep) = xcalloc(1, sizeof(*s));
    int dir cleanup(fd_close) = -1;
    int code;

    /* Nothing reads SQLite's memory statistics, and they cost a process-wide
     * lock per allocation. Refused when SQLite is in use already, which does
     * no harm. */
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    store_base_init(&s->base, &store_sqlite);
    s->lock_fd = s->db_fd = -1;
    store_sqlite_gate_init(&s->gate);
    s->checkpoint_frames = STORE_SQLITE_CHECKPOINT_FRAMES;
    s->group_ns = STORE_SQLITE_GROUP_NS;
    if (make_db_file(s, settings->data_dir, &dir, err) < 0)
        return -(int)err->code;
    code = store_sqlite_conn_open(s->path, STORE_WRITE, &s->writer);
    if (code != SQLITE_OK)
        (void)store_sqlite_fail(s, s->writer, code, "opening the database",
                                err);
    if (code != SQLITE_OK || keep_log_on_close(s, 1, err) < 0 ||
        set_up(s, err) < 0 || recognise(s, dir, settings, err) < 0 ||
        keep_log_on_close(s, 0, err) < 0 || empty_old_log(s, err) < 0 ||
        migrate(s, err) < 0 || give_id(s, err) < 0) {
        if (err->code == ERR_CORRUPT && !err->hint[0])
            (void)error_hint(err, "restore a backup");
        return error_wrap(err, "%s", s->path);
    }
    /* Makes the names of the database and its log durable. SQLite syncs the
     * directory too, but ignores failures. */
    if (fsync(dir) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot sync %s",
                           settings->data_dir);
    *ret = &take_ptr(s)->base;
    return 0;
}
