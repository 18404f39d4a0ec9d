/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PostgreSQL engine of the store: transactions and errors; see
 * postgres_int.h for how its files work together. Runs in the daemon, behind
 * store.h, on any thread.
 *
 * A commit whose answer was lost with the connection may have happened. So
 * every transaction that changes something also writes its number into this
 * process's row of store_writers, and the engine reads that row on a new
 * connection. It takes the store's lock first: by then the transaction has
 * ended on the server, one way or the other.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/postgres_int.h"

/* In place of an SQLSTATE: the connection was lost during the commit, and the
 * server has not committed. */
#define UNCOMMITTED "40G01"
#define SILENT_MS 5000 /* after which the server counts as unreachable */

/* ---- failing ------------------------------------------------------------ */

static bool is_class(const struct postgres_failure *f, const char *class)
{
    return strncmp(f->state, class, strlen(class)) == 0;
}

bool store_postgres_lost(const struct postgres_failure *f)
{
    return f->gone || is_class(f, "40001") || is_class(f, "40P01") ||
           is_class(f, UNCOMMITTED);
}

int store_postgres_fail(const char *what, const struct postgres_failure *f,
                        struct error *err)
{
    static const struct {
        const char *class; /* the beginning of an SQLSTATE */
        enum error_code code;
        const char *text;
        int retry_s;
    } meanings[] = {
        {"23505", ERR_CONFLICT, "it is there already", 0},
        {"23503", ERR_CONFLICT, "what it belongs to is not there", 0},
        {"23", ERR_CONFLICT, "it does not fit what is stored", 0},
        {UNCOMMITTED, ERR_BUSY,
         "the connection to the database was lost; nothing was changed", 1},
        {"40", ERR_BUSY, "a concurrent transaction won", 1},
        {"55P03", ERR_BUSY, "the database is busy", 1},
        {"57014", ERR_BUSY, "the database took too long", 1},
        {"53300", ERR_BUSY, "the database has no connection left", 2},
        {"53100", ERR_SPACE, "the disk of the database is full", 0},
        {"22021", ERR_INVALID, "the text is not UTF-8", 0},
        {"XX001", ERR_CORRUPT, "the database is damaged", 0},
        {"XX002", ERR_CORRUPT, "the database is damaged", 0},
        {"25006", ERR_UNAVAILABLE, "the database can only be read now", 2},
        {"57P", ERR_UNAVAILABLE, "the database server is stopping", 2},
    };

    if (f->gone) {
        log_event(LOG_WARN, "store_connection_lost", "during", what, "error",
                  f->text, NULL);
        (void)error_set(err, ERR_UNAVAILABLE,
                        "%s: the connection to the database was lost; nothing "
                        "was changed",
                        what);
        return error_retry(err, 2);
    }
    for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
        if (is_class(f, meanings[i].class)) {
            if (meanings[i].code == ERR_CORRUPT)
                log_event(LOG_ERROR, "store_damaged", "during", what, "error",
                          f->text, NULL);
            (void)error_set(err, meanings[i].code, "%s: %s", what,
                            meanings[i].text);
            if (meanings[i].code == ERR_SPACE)
                (void)error_hint(err, "Nothing was changed. The operator has "
                                      "to free space on the disk of the "
                                      "database server.");
            return error_retry(err, meanings[i].retry_s);
        }
    log_event(LOG_ERROR, "store_failed", "during", what, "sqlstate", f->state,
              "error", f->text, NULL);
    return error_set(err, ERR_INTERNAL, "%s: the database failed (%s)", what,
                     f->state);
}

int store_postgres_tx_fail(struct postgres_tx *tx, bool guarded,
                           struct error *err)
{
    struct postgres_conn *c = tx->conn;
    struct postgres_failure failure = c->failure;

    c->failure = (struct postgres_failure){0};
    /* Writing in a transaction that reads is our mistake; in one that writes,
     * the server has become a standby. */
    if (tx->mode == STORE_READ && is_class(&failure, "25006"))
        memcpy(failure.state, "25000", sizeof("25000"));
    if (guarded && is_class(&failure, "23") && !failure.gone) {
        store_postgres_conn_queue(c, "ROLLBACK TO SAVEPOINT s");
        store_postgres_conn_queue(c, "RELEASE SAVEPOINT s");
        store_postgres_conn_send(c);
    } else if (!tx->failed.state[0]) {
        tx->failed = failure;
        if (store_postgres_lost(&failure))
            store_tx_lost(&tx->base);
    }
    return store_postgres_fail(tx->what, &failure, err);
}

/* ---- beginning ---------------------------------------------------------- */

void store_postgres_begin_due(struct postgres_tx *tx)
{
    struct postgres_conn *c = tx->conn;

    if (!c->begun) {
        c->begun = true;
        c->changed = false;
        c->failure = (struct postgres_failure){0};
        if (tx->mode == STORE_WRITE) {
            store_postgres_conn_queue(c, "BEGIN ISOLATION LEVEL READ COMMITTED"
                                         " READ WRITE");
            store_postgres_conn_queue(c, tx->store->take_lock);
        } else {
            store_postgres_conn_queue(c,
                                      "BEGIN ISOLATION LEVEL REPEATABLE READ"
                                      " READ ONLY");
        }
    }
    if (tx->savepoint) {
        store_postgres_conn_queue(c, "SAVEPOINT j");
        tx->savepoint = false;
    }
}

static int postgres_begin(struct store *base, enum store_mode mode,
                          const char *what, struct store_tx **ret,
                          struct error *err)
{
    struct postgres_store *s = (struct postgres_store *)base;
    struct postgres_conn *conn;
    struct postgres_tx *tx;

    if (store_postgres_gate_enter(s, mode, what, &conn, err) < 0)
        return -(int)err->code;
    tx = xcalloc(1, sizeof(*tx));
    *tx = (struct postgres_tx){.base.engine = &store_postgres,
                               .store = s,
                               .conn = conn,
                               .mode = mode,
                               .what = what};
    *ret = &tx->base;
    return 0;
}

/* ---- a commit whose answer was lost ------------------------------------- */

/* 1: it was committed; 0: it was not; negative: not known yet. */
static int ask_commit(struct postgres_store *s, struct postgres_conn *c,
                      uint64_t number)
{
    const char *values[] = {s->writer_id};
    PGresult *res = NULL;
    int known = -1;

    store_postgres_conn_queue(c, "BEGIN ISOLATION LEVEL READ COMMITTED");
    store_postgres_conn_queue(c, s->take_lock);
    if (store_postgres_conn_ask(
            c, "SELECT commits FROM store_writers WHERE id = $1", 1, values,
            &res))
        known = PQntuples(res) > 0 &&
                strtoull(PQgetvalue(res, 0, 0), NULL, 10) >= number;
    PQclear(res);
    (void)store_postgres_conn_ask(c, "ROLLBACK", 0, NULL,
                                  NULL); /* a lost one shows at its next use */
    return known;
}

/* Finds out on a new connection, which the transaction then has. */
static int resolve_commit(struct postgres_tx *tx, uint64_t number)
{
    const struct timespec step = {.tv_nsec = 100000000};
    uint64_t until_ms = clock_mono_ms() + STORE_POSTGRES_DOUBT_MS;
    struct error unused;
    int known = -1;

    while (known < 0 && clock_mono_ms() < until_ms &&
           !atomic_load(&tx->store->stopping)) {
        (void)nanosleep(&step, NULL); /* a shorter sleep does no harm */
        if (store_postgres_gate_connect(tx->store, STORE_WRITE, tx->what,
                                        &tx->conn, &unused) == 0)
            known = ask_commit(tx->store, tx->conn, number);
    }
    log_event(LOG_WARN, "store_commit_looked_up", "during", tx->what, "answer",
              known < 0    ? "not known"
              : known == 1 ? "committed"
                           : "not committed",
              NULL);
    return known;
}

/* ---- ending ------------------------------------------------------------- */

void store_postgres_rollback_now(struct postgres_conn *c)
{
    if (!c || !c->begun)
        return;
    c->begun = false;
    store_postgres_conn_queue(c, "ROLLBACK");
    store_postgres_conn_send(c);
}

/* COMMIT, with the number of the commit. 0, or -1 with *ret_failure; .gone
 * means that it is not known. */
static int send_commit(struct postgres_tx *tx,
                       struct postgres_failure *ret_failure)
{
    struct postgres_store *s = tx->store;
    struct postgres_conn *c = tx->conn;
    uint64_t number = s->commits + 1;
    const struct store_value values[] = {
        {.type = 't', .bytes = s->writer_id},
        {.type = 'i', .number = (int64_t)number},
        {.type = 'i', .number = clock_real_ms()},
    };
    bool changed = c->changed;
    PGresult *res = NULL;
    bool kept = false;

    c->failure = (struct postgres_failure){0};
    if (changed) {
        const struct postgres_cached *st = store_postgres_conn_statement(
            c,
            "INSERT INTO store_writers (id, commits, at_ms)"
            " VALUES (?1, ?2, ?3) ON CONFLICT (id) DO UPDATE SET"
            " commits = excluded.commits, at_ms = excluded.at_ms",
            values, ARRAY_SIZE(values));

        if (st)
            store_postgres_conn_execute(c, st, values, ARRAY_SIZE(values),
                                        EXPECT_IGNORED);
    }
    s->commits = number;
    c->begun = false;
    if (store_postgres_conn_ask(c, "COMMIT", 0, NULL, &res))
        kept = strcmp(PQcmdStatus(res), "COMMIT") == 0;
    PQclear(res);
    if (kept)
        return 0;
    *ret_failure = c->failure;
    if (!c->gone) {
        if (!ret_failure->state[0]) /* it had failed before */
            (void)snprintf(ret_failure->state, sizeof(ret_failure->state),
                           "25P02");
        return -1;
    }
    if (!changed)
        return 0; /* either way nothing is different */
    switch (resolve_commit(tx, number)) {
    case 1:
        return 0;
    case 0:
        ret_failure->gone = false;
        (void)snprintf(ret_failure->state, sizeof(ret_failure->state),
                       UNCOMMITTED);
        return -1;
    default:
        return -1;
    }
}

int store_postgres_commit_now(struct postgres_tx *tx,
                              struct postgres_failure *ret_failure,
                              struct error *err)
{
    int r = store_hooks_before(&tx->store->base, &tx->base, err);

    *ret_failure = (struct postgres_failure){0};
    store_postgres_rows_detach(tx);
    if (r == 0 && tx->failed.state[0]) {
        /* A hook went on after a failed statement. */
        *ret_failure = tx->failed;
        r = store_postgres_fail(tx->what, &tx->failed, err);
    } else if (r < 0 && store_postgres_lost(&tx->failed)) {
        *ret_failure = tx->failed;
    } else if (r == 0 && tx->conn->begun && send_commit(tx, ret_failure) < 0) {
        r = store_postgres_fail(tx->what, ret_failure, err);
        if (ret_failure->gone) {
            (void)error_set(err, ERR_UNAVAILABLE,
                            "%s: the connection to the database was lost "
                            "during the commit; whether it was stored is not "
                            "known",
                            tx->what);
            (void)error_hint(err, "Look whether it is there before you try "
                                  "again.");
        }
    }
    store_hooks_after(&tx->store->base, r == 0);
    return r;
}

static void tx_free(struct postgres_tx *tx)
{
    store_postgres_rollback_now(tx->conn);
    store_postgres_gate_leave(tx->store, tx->mode, tx->conn);
    free(tx);
}

static void postgres_rollback(struct store_tx *base)
{
    struct postgres_tx *tx = (struct postgres_tx *)base;

    store_postgres_rows_detach(tx);
    tx_free(tx);
}

static int postgres_commit(struct store_tx *base, struct error *err)
{
    struct postgres_tx *tx = (struct postgres_tx *)base;
    struct postgres_failure failure = {0};
    int r = 0;

    store_postgres_rows_detach(tx);
    if (tx->mode == STORE_WRITE && tx->failed.state[0])
        r = store_postgres_fail(tx->what, &tx->failed, err);
    else if (tx->mode == STORE_WRITE)
        r = store_postgres_commit_now(tx, &failure, err);
    if (r < 0 && is_class(&failure, "40"))
        store_tx_lost(&tx->base);
    tx_free(tx);
    return r;
}

/* ---- the table ---------------------------------------------------------- */

/* A failed sync stops the server, not this process: writing goes on once the
 * server has recovered. */
static bool postgres_writable(struct store *base)
{
    (void)base;
    return true;
}

static int postgres_ready(struct store *base, struct error *err)
{
    struct postgres_store *s = (struct postgres_store *)base;
    uint64_t silent_ms = clock_mono_ms() - atomic_load(&s->heard_ms);

    if (silent_ms < SILENT_MS)
        return 0;
    (void)error_set(err, ERR_UNAVAILABLE,
                    "the database server has not answered for %llu s",
                    (unsigned long long)silent_ms / 1000);
    (void)error_hint(err, "Look at PostgreSQL and the network; the service "
                          "goes on by itself once the server answers.");
    return error_retry(err, 2);
}

static uint64_t postgres_reserve(struct store *base, uint64_t bytes)
{
    (void)base;
    (void)bytes;
    return 0; /* the disk is the server's */
}

void store_postgres_close(struct store *base)
{
    struct postgres_store *s = (struct postgres_store *)base;

    store_postgres_listen_stop(s);
    store_postgres_gate_done(&s->gate);
    store_postgres_conn_close(s->writer);
    store_postgres_open_place_done(&s->place);
    fd_close(&s->lock_fd);
    fd_close(&s->wake_fd);
    store_base_done(&s->base);
    free(s);
}

const struct store_engine store_postgres = {
    .name = "postgres",
    .shared = true,
    .open = store_postgres_open,
    .close = store_postgres_close,
    .writable = postgres_writable,
    .begin = postgres_begin,
    .commit = postgres_commit,
    .rollback = postgres_rollback,
    .write = store_postgres_write,
    .exec = store_postgres_rows_exec,
    .query = store_postgres_rows_query,
    .next = store_postgres_rows_next,
    .done = store_postgres_rows_done,
    .text = store_postgres_rows_text,
    .number = store_postgres_rows_number,
    .bytes = store_postgres_rows_bytes,
    .backup = store_postgres_copy_backup,
    .check = store_postgres_check,
    .forget = store_postgres_check_forget,
    .reserve = postgres_reserve,
    .ready = postgres_ready,
    .notify = store_postgres_listen_notify,
    .now_sql = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS"
               " bigint)",
};
