/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a PostgreSQL database: URL, data directory, settings, migrations; see
 * postgres_int.h. Runs once in the daemon, before other threads use the store.
 * Daemons that start at the same moment migrate one after the other, under an
 * advisory lock of the schema.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/postgres_int.h"

#define WHAT "opening the database"
/* Rows of store_writers are kept so long after the last commit. */
#define WRITERS_KEEP_MS (7 * 24 * 3600 * INT64_C(1000))

/* ---- the URL ------------------------------------------------------------ */

/* What a URL does not say. */
static const struct {
    const char *keyword, *value;
} defaults[] = {
    {"application_name", "glovebox"},
    {"client_encoding", "UTF8"},
    {"connect_timeout", "5"},
    /* A server that vanished is noticed within about ten seconds. */
    {"keepalives_idle", "5"},
    {"keepalives_interval", "2"},
    {"keepalives_count", "3"},
    {"tcp_user_timeout", "15000"},
    /* Of several hosts, the one that can be written to. */
    {"target_session_attrs", "read-write"},
};

static void place_add(struct postgres_place *p, size_t *count,
                      const char *keyword, const char *value)
{
    p->keywords = xrealloc(p->keywords, (*count + 2) * sizeof(char *));
    p->values = xrealloc(p->values, (*count + 2) * sizeof(char *));
    p->keywords[*count] = xstrdup(keyword);
    p->values[(*count)++] = xstrdup(value);
    p->keywords[*count] = p->values[*count] = NULL;
}

static bool has_keyword(const struct postgres_place *p, const char *keyword)
{
    for (size_t i = 0; p->keywords && p->keywords[i]; i++)
        if (strcmp(p->keywords[i], keyword) == 0)
            return true;
    return false;
}

int store_postgres_open_place(const char *url, struct postgres_place *ret,
                              struct error *err)
{
    char *why = NULL;
    PQconninfoOption *options =
        PQconninfoParse(strstr(url, "://") ? url : "", &why);
    size_t count = 0;

    PQfreemem(why); /* it may repeat a password */
    if (!options) {
        (void)error_set(err, ERR_INVALID,
                        "the store cannot be opened: its URL is malformed");
        return error_hint(err, "Write postgres://user@host:port/database; "
                               "special characters of a password are written "
                               "as %%XX.");
    }
    for (PQconninfoOption *o = options; o->keyword; o++)
        if (o->val)
            place_add(ret, &count, o->keyword, o->val);
    PQconninfoFree(options);
    for (size_t i = 0; i < ARRAY_SIZE(defaults); i++)
        if (!has_keyword(ret, defaults[i].keyword))
            place_add(ret, &count, defaults[i].keyword, defaults[i].value);
    return 0;
}

void store_postgres_open_place_done(struct postgres_place *place)
{
    for (size_t i = 0; place->keywords && place->keywords[i]; i++) {
        free(place->keywords[i]);
        explicit_bzero(place->values[i], strlen(place->values[i]));
        free(place->values[i]);
    }
    free(place->keywords);
    free(place->values);
    *place = (struct postgres_place){0};
}

/* ---- asking ------------------------------------------------------------- */

static int run(struct postgres_conn *c, const char *sql, struct error *err)
{
    return store_postgres_conn_ask(c, sql, 0, NULL, NULL)
               ? 0
               : store_postgres_fail(WHAT, &c->failure, err);
}

/* The first value, as text; "" for none. */
static int ask_text(struct postgres_conn *c, const char *sql, char *ret,
                    size_t size, struct error *err)
{
    PGresult *res = NULL;

    if (!store_postgres_conn_ask(c, sql, 0, NULL, &res))
        return store_postgres_fail(WHAT, &c->failure, err);
    (void)snprintf(ret, size, "%s",
                   PQntuples(res) > 0 ? PQgetvalue(res, 0, 0) : "");
    PQclear(res);
    return 0;
}

/* 1, 0 or -code. */
static int ask_flag(struct postgres_conn *c, const char *sql,
                    struct error *err)
{
    char text[24];

    return ask_text(c, sql, text, sizeof(text), err) < 0
               ? -(int)err->code
               : strcmp(text, "t") == 0;
}

#define HAS_TABLE(name)                                                       \
    "SELECT EXISTS (SELECT 1 FROM pg_class WHERE relname = '" name "'"        \
    " AND relnamespace = (SELECT oid FROM"                                    \
    " pg_namespace WHERE nspname = current_schema()))"

/* ---- what database this is ---------------------------------------------- */

static int refuse_new(struct postgres_conn *c, int dir, struct error *err)
{
    char traces[STORE_TRACES_MAX];
    int r = ask_flag(c,
                     "SELECT EXISTS (SELECT 1 FROM pg_class AS c WHERE"
                     " relkind IN ('r', 'p', 'v', 'm', 'S') AND"
                     " relnamespace = (SELECT oid FROM pg_namespace"
                     " WHERE nspname = current_schema()) AND NOT EXISTS"
                     " (SELECT 1 FROM pg_depend WHERE objid = c.oid"
                     " AND deptype = 'e'))", /* of an extension */
                     err);

    if (r < 0)
        return r;
    if (r > 0) {
        (void)error_set(err, ERR_CORRUPT, "it is not a database of Glovebox");
        return error_hint(err, "Nothing was changed in it. Use an empty "
                               "database, or an empty schema of its own.");
    }
    store_data_dir_traces(dir, traces);
    if (!traces[0])
        return 0;
    (void)error_set(err, ERR_CORRUPT,
                    "the database is empty, but the data directory has been "
                    "used: it holds %s",
                    traces);
    return error_hint(err, "Nothing was changed. Name the database that "
                           "belongs to this directory, restore a backup of "
                           "it, or use an empty directory.");
}

static int read_id(struct postgres_store *s, struct error *err)
{
    return ask_text(s->writer, "SELECT id FROM store_identity", s->base.id,
                    sizeof(s->base.id), err);
}

/* Checks an existing database before anything in it is changed. */
static int recognise(struct postgres_store *s, int dir,
                     const struct store_settings *settings, int *ret_version,
                     struct error *err)
{
    char text[32];
    int r = ask_flag(s->writer, HAS_TABLE("schema_version"), err);

    *ret_version = 0;
    if (r < 0)
        return r;
    if (r == 0)
        return refuse_new(s->writer, dir, err);
    if (ask_text(s->writer, "SELECT version FROM schema_version", text,
                 sizeof(text), err) < 0)
        return -(int)err->code;
    *ret_version = (int)strtol(text, NULL, 10);
    if (*ret_version < 1 || *ret_version > store_migrations_count) {
        (void)error_set(err, ERR_CONFLICT,
                        "the database has schema %d, this program knows up "
                        "to %d",
                        *ret_version, store_migrations_count);
        return error_hint(err, "run the version that wrote it, or a newer "
                               "one; to go back, restore a backup that was "
                               "made before the upgrade");
    }
    r = read_id(s, err);
    return r == 0 && settings->check
               ? settings->check(&s->base, settings->check_ctx, err)
               : r;
}

/* ---- migrations --------------------------------------------------------- */

static int migrate_one(struct postgres_conn *c, int version, struct error *err)
{
    char note[64];
    size_t count;
    char **statements = store_postgres_schema(version, &count);
    int r = 0;

    for (size_t i = 0; i < count && r == 0; i++)
        r = run(c, statements[i], err);
    store_postgres_schema_free(statements, count);
    (void)snprintf(note, sizeof(note),
                   "UPDATE schema_version SET version = %d", version + 1);
    return r == 0 ? run(c, note, err) : r;
}

/* Before the first migration. */
static const char *const first[] = {
    "CREATE TABLE schema_version ("
    "  one BIGINT PRIMARY KEY CHECK (one = 1), version BIGINT NOT NULL)",
    "INSERT INTO schema_version VALUES (1, 0)",
    "CREATE TABLE store_writers (id TEXT COLLATE \"C\" PRIMARY KEY,"
    "  commits BIGINT NOT NULL, at_ms BIGINT NOT NULL)"
    " WITH (fillfactor = 50)",
};

/* All in one transaction: a start that is cut short leaves the old schema. */
static int migrate(struct postgres_conn *c, int version, struct error *err)
{
    int r = version < store_migrations_count ? run(c, "BEGIN", err) : 0;

    if (version == store_migrations_count)
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(first) && version == 0 && r == 0; i++)
        r = run(c, first[i], err);
    while (r == 0 && version < store_migrations_count)
        r = migrate_one(c, version++, err);
    if (r == 0)
        r = run(c, "COMMIT", err);
    return r;
}

int store_postgres_open_schema(struct postgres_conn *c, struct error *err)
{
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(first) && r == 0; i++)
        r = run(c, first[i], err);
    for (int i = 0; i < store_migrations_count && r == 0; i++)
        r = migrate_one(c, i, err);
    return r;
}

/* Assigns the id of a new database. */
static int give_id(struct postgres_store *s, struct error *err)
{
    unsigned char random[(STORE_ID - 1) / 2];
    char hex[STORE_ID], sql[160];

    if (read_id(s, err) < 0)
        return -(int)err->code;
    if (s->base.id[0])
        return 0;
    ids_random(random, sizeof(random));
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO store_identity (one, id) VALUES (1, '%s')",
                   ids_hex(random, sizeof(random), hex));
    return run(s->writer, sql, err) < 0 ? -(int)err->code : read_id(s, err);
}

/* ---- opening ------------------------------------------------------------ */

/* The lock that writers take is named by the store's id: several stores may be
 * schemas of one database. */
static int name_writer(struct postgres_store *s, struct error *err)
{
    unsigned char random[16];
    char head[17], sql[128];

    (void)snprintf(head, sizeof(head), "%.16s", s->base.id);
    (void)snprintf(s->take_lock, sizeof(s->take_lock),
                   "SELECT pg_advisory_xact_lock(%lld)",
                   (long long)strtoull(head, NULL, 16));
    ids_random(random, sizeof(random));
    (void)ids_hex(random, sizeof(random), s->writer_id);
    (void)snprintf(sql, sizeof(sql),
                   "DELETE FROM store_writers WHERE at_ms < %lld",
                   (long long)(clock_real_ms() - WRITERS_KEEP_MS));
    return run(s->writer, sql, err);
}

static int warn_checksums(struct postgres_conn *c, struct error *err)
{
    char text[16];

    if (ask_text(c, "SHOW data_checksums", text, sizeof(text), err) < 0)
        return -(int)err->code;
    if (strcmp(text, "on") != 0)
        log_event(LOG_WARN, "store_without_checksums", "advice",
                  "the server was made without data checksums; damaged pages "
                  "are not noticed. See pg_checksums --enable",
                  NULL);
    return 0;
}

static void closep(struct postgres_store **s)
{
    if (*s)
        store_postgres_close(&(*s)->base);
}

int store_postgres_open(const struct store_settings *settings,
                        struct store **ret, struct error *err)
{
    static const char lock[] =
        "SELECT pg_advisory_lock(hashtextextended('glovebox.' ||"
        " coalesce(current_schema(), ''), 0))";
    static const char unlock[] =
        "SELECT pg_advisory_unlock(hashtextextended('glovebox.' ||"
        " coalesce(current_schema(), ''), 0))";
    struct postgres_store *s cleanup(closep) = xcalloc(1, sizeof(*s));
    int dir cleanup(fd_close) = -1;
    int version;

    store_base_init(&s->base, &store_postgres);
    store_postgres_gate_init(&s->gate);
    s->lock_fd = s->wake_fd = -1;
    if (store_postgres_open_place(settings->engine, &s->place, err) < 0)
        return -(int)err->code;
    dir = open(settings->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot open %s",
                           settings->data_dir);
    if (store_data_dir_lock(dir, &s->lock_fd, err) < 0 ||
        store_postgres_conn_open(&s->place, STORE_WRITE, &s->writer, err) < 0)
        return -(int)err->code;
    if (run(s->writer, lock, err) < 0 ||
        recognise(s, dir, settings, &version, err) < 0 ||
        migrate(s->writer, version, err) < 0 || give_id(s, err) < 0 ||
        run(s->writer, unlock, err) < 0 || name_writer(s, err) < 0 ||
        warn_checksums(s->writer, err) < 0 ||
        store_postgres_listen_start(s, err) < 0) {
        if (err->code == ERR_CORRUPT && !err->hint[0])
            (void)error_hint(err, "restore a backup");
        return error_wrap(err, "the PostgreSQL database");
    }
    *ret = &take_ptr(s)->base;
    return 0;
}
