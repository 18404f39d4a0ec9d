/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves the store of a data directory to another engine. Runs instead of the
 * service, started by `glovebox migrate`, with the account of the service and
 * no other rights. Files, secrets and settings stay where they are.
 *
 * To PostgreSQL: the database of SQLite is copied in one transaction and stays
 * as it is. Back to SQLite: a new database is written beside the old one,
 * which is kept under another name, and is put in its place at the end. Until
 * the last step of either, and after it as long as the option `store` is not
 * changed, the service starts with the store it had. DIR/audit.head makes it
 * refuse the other one as soon as it is behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/priv.h"
#include "conf/conf.h"
#include "search/search.h"
#include "service/service.h"
#include "service/service_int.h"
#include "store/store.h"

#define DB "glovebox.db"
#define DB_NEW DB ".new"

/* ---- progress ----------------------------------------------------------- */

#define TELL_MS 100u

/* A line for each step, as a restore prints them. */
struct telling {
    char what[64];
    uint64_t told_ms;
};

static void tell(struct telling *t, const char *what, uint64_t done,
                 uint64_t total)
{
    uint64_t now = clock_mono_ms();

    if (strcmp(t->what, what) == 0 && done < total &&
        now - t->told_ms < TELL_MS)
        return;
    (void)snprintf(t->what, sizeof(t->what), "%s", what);
    t->told_ms = now;
    (void)printf("restore %s %" PRIu64 " %" PRIu64 "\n", what, done, total);
    (void)fflush(stdout);
}

static void on_table(void *ctx, const char *table, uint64_t done,
                     uint64_t total)
{
    (void)table;
    tell(ctx, "rows", done, total);
}

static void on_rows(void *ctx, uint64_t done, uint64_t total)
{
    tell(ctx, "rows", done, total);
}

static void on_event(void *ctx, int64_t done, int64_t total)
{
    tell(ctx, "audit", (uint64_t)done, (uint64_t)total);
}

/* ---- checking ----------------------------------------------------------- */

static int open_store(const struct conf *conf, const char *engine,
                      struct store **ret, struct error *err)
{
    struct audit_place place = {.data_dir = conf->data_dir, .accept = ""};

    return store_open(&(struct store_settings){.engine = engine,
                                               .data_dir = conf->data_dir,
                                               .check = audit_check_store,
                                               .check_ctx = &place},
                      ret, err);
}

/* The whole trail, and every tenant's: hashes that the copy cannot have made
 * up. */
static int verify_trail(const struct conf *conf, struct store *store,
                        struct telling *t, struct error *err)
{
    struct audit_place place = {.data_dir = conf->data_dir, .accept = ""};
    struct audit_report report = {0};
    struct audit *audit = NULL;
    int r = audit_open_at(store, &place, &audit, err);

    if (r == 0)
        r = audit_verify(audit, on_event, t, &report, err);
    if (r == 0 && report.first_bad)
        r = error_set(err, ERR_CORRUPT,
                      "the audit trail is damaged at event %" PRId64 ": %s",
                      report.first_bad, report.fault);
    audit_close(audit);
    return r;
}

/* What a kill leaves, the next start adds. */
static int fill_index(struct store *store, struct telling *t,
                      struct error *err)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    int r = store_begin(store, STORE_WRITE, "filling the index", &tx, err);

    tell(t, "index", 0, 1);
    if (r == 0)
        r = search_fill(store, tx, NULL, NULL, err);
    if (r == 0)
        r = store_commit(&tx, err);
    if (r == 0)
        tell(t, "index", 1, 1);
    return r;
}

/* ---- to PostgreSQL ------------------------------------------------------ */

static int load(const struct conf *conf, const char *url, struct error *err)
{
    struct telling t = {0};
    struct store *store = NULL;
    int r = open_store(conf, "sqlite", &store, err);

    if (r == 0)
        r = store_check(store, err);
    if (r == 0)
        r = store_copy_to_postgres(store, url, on_table, &t, err);
    store_close(store);
    store = NULL;
    if (r < 0)
        return r;
    r = open_store(conf, url, &store, err);
    if (r == 0)
        r = fill_index(store, &t, err);
    if (r == 0)
        r = verify_trail(conf, store, &t, err);
    store_close(store);
    if (r < 0)
        (void)error_hint(err, "The rows were copied, but the copy cannot be "
                              "used. Remove the database before the next try; "
                              "the store of SQLite is unchanged.");
    return r;
}

/* ---- to SQLite ---------------------------------------------------------- */

/* The old database, with its log, out of the way; then the new one in. */
static int put_in_place(int dir, struct error *err)
{
    static const char *const files[] = {DB "-wal", DB "-shm", DB};
    struct tm tm;
    time_t now = (time_t)(clock_real_ms() / 1000);
    char stamp[32];

    (void)gmtime_r(&now, &tm);
    (void)strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm);
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        char kept[80];

        (void)snprintf(kept, sizeof(kept), "%s.until-%s", files[i], stamp);
        if (renameat(dir, files[i], dir, kept) < 0 && errno != ENOENT)
            return error_errno(err, ERR_INTERNAL, errno, "cannot rename %s",
                               files[i]);
    }
    if (renameat(dir, DB_NEW, dir, DB) < 0 || fsync(dir) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot rename " DB_NEW);
    return 0;
}

static int dump(const struct conf *conf, int dir, struct error *err)
{
    char *path cleanup(mem_free) = xasprintf("%s/" DB_NEW, conf->data_dir);
    struct telling t = {0};
    struct store *store = NULL;
    int r;

    if (!strstr(conf->store, "://")) {
        (void)error_set(err, ERR_INVALID,
                        "the store of this configuration is SQLite already");
        return error_hint(err, "Name the database that the data is in: "
                               "--store postgres://...");
    }
    if (unlinkat(dir, DB_NEW, 0) < 0 && errno != ENOENT)
        return error_errno(err, ERR_INTERNAL, errno, "cannot remove " DB_NEW);
    r = store_alone(conf->store, err);
    if (r == 0)
        r = open_store(conf, conf->store, &store, err);
    if (r == 0)
        r = store_backup(store, path, on_rows, &t, err);
    if (r == 0) /* while the data directory is locked */
        r = put_in_place(dir, err);
    store_close(store);
    store = NULL;
    if (r == 0)
        r = open_store(conf, "sqlite", &store, err);
    if (r == 0)
        r = store_check(store, err);
    if (r == 0)
        r = verify_trail(conf, store, &t, err);
    store_close(store);
    return r;
}

/* ---- the spine ---------------------------------------------------------- */

/* The database of SQLite was made for this and has served. If it could not be
 * copied, the directory is as a restore without PostgreSQL leaves it. */
int service_migrate_restored(const struct conf *conf, int dir,
                             struct error *err)
{
    int r = load(conf, conf->store, err);

    if (r < 0)
        return error_hint(err, "The backup is restored in the directory, with "
                               "SQLite: `glovebox migrate` moves it to an "
                               "empty database.");
    if (unlinkat(dir, DB, 0) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "cannot remove " DB);
    return 0;
}

int service_migrate(const struct conf *conf, const char *to, struct error *err)
{
    struct service s = {.conf = conf, .data_fd = -1};
    struct stat st;
    int r;

    if (stat(conf->data_dir, &st) < 0) {
        (void)error_errno(err, ERR_INVALID, errno, "cannot open %s",
                          conf->data_dir);
        return error_hint(err, "name the data directory: --data DIR");
    }
    r = service_rights_walls(&s, err);
    if (r == 0)
        r = service_rights_user(&s, err);
    if (r < 0)
        return r;
    r = priv_claim_dir(conf->data_dir, &s.user, &s.data_fd);
    if (r < 0)
        return error_errno(err, ERR_INVALID, -r,
                           "cannot use %s as data directory", conf->data_dir);
    r = service_rights_drop(&s, err);
    if (r == 0)
        r = strcmp(to, "sqlite") == 0 ? dump(conf, s.data_fd, err)
                                      : load(conf, to, err);
    fd_close(&s.data_fd);
    return r;
}
